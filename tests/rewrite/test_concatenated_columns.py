"""Columns that are concatenated to an array and taken off again, as sinks are in attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.rewrite.coproduct_sums import by_terms

torch = pytest.importorskip("torch")


def sunk(q: Any, k: Any, v: Any, sink: Any) -> Any:
    """Attention with a sink as a column, and the weight of the sink."""
    rows = q @ k.transpose(-1, -2)
    weights = torch.softmax(torch.cat([rows, sink[:, None].expand(*rows.shape[:-1], 1)], -1), -1)
    return weights[..., :-1] @ v, weights[..., -1]


def test_parts_of_what_is_made_of_a_concatenation_are_made_of_its_terms() -> None:
    """Imported, the concatenation has an axis of its own, of which the parts are read at positions; the cotangents of
    parts are put at theirs."""
    given = [torch.randn(*size, dtype=torch.float64) for size in ((3, 4), (5, 4), (5, 2), (3,))]
    program = cd.from_torch(sunk, *given)
    for source in (program, program.grad()):
        made = by_terms(source.diagram)
        assert made is not None
        assert not any("+" in str(ty) or ("+", "k_0", 1) in [a.size for a in ty.axes]
                       for box in made.diagram.boxes for ty in box.cod)  # fmt: skip
        assert not cd.prove(source, cd.Program(made.diagram)).conditional
    for tensor in given:
        tensor.requires_grad_()
    cotangents = torch.randn(3, 2, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    wanted = torch.autograd.grad(sunk(*given), given, cotangents)
    made = by_terms(program.grad().diagram)
    assert made is not None
    found = cd.Program(made.diagram).run(*(a.detach().numpy() for a in (*given, *cotangents)))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-10, atol=1e-12)
