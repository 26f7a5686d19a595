"""Plans whose groups add to results that lack an axis of others: what they compute in Triton's interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.runtime.module_cache import imported

# For each program: its signature, itself, sizes that it is planned for, and sizes that it runs at.
PROGRAMS: dict[str, tuple[str, Callable[..., Any], dict[str, int], dict[str, int]]] = {
    "sum of columns": ("t d -> t d, d", lambda a: (a * 2, cd.sum(cd.tanh(a), "t")), {"t": 8192, "d": 512},
                       {"t": 37, "d": 19}),
    "sums of two kinds": (
        "b t d, d -> b t d, b, d", lambda a, g: (a * g, cd.sum(a * a, "t d"), cd.sum(a, "b t")),
        {"b": 8, "t": 1024, "d": 512}, {"b": 3, "t": 5, "d": 9}),
    "a number": ("t d -> t, d, []", lambda a: (cd.max(a, "d"), cd.sum(a, "t"), cd.sum(a * a, "t d")),
                 {"t": 8192, "d": 1024}, {"t": 70, "d": 33}),
    "linear functions of sums": (
        "t d, t -> t d, d, t", lambda a, m: ((a - m) * 2, cd.sum((a - m) / 2, "t") * 3, cd.sum(a, "d")),
        {"t": 8192, "d": 700}, {"t": 70, "d": 33}),
    "moments of channels": (
        "b h w c -> b h w c, c, c", lambda x: (cd.nn.relu(x), cd.sum(x, "b h w"), cd.sum(x * x, "b h w")),
        {"b": 16, "h": 32, "w": 32, "c": 64}, {"b": 2, "h": 3, "w": 5, "c": 7}),
    "gradient of a bias": ("t d, t d -> d", lambda g, a: cd.sum(g * cd.nn.silu(a), "t"), {"t": 65536, "d": 1024},
                           {"t": 37, "d": 19}),
    "softmax": ("t d -> t d, d", lambda a: (cd.softmax(a, "d"), cd.sum(cd.softmax(a, "d"), "t")),
                {"t": 8192, "d": 512}, {"t": 37, "d": 19}),
}  # fmt: skip


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
@pytest.mark.parametrize("name", PROGRAMS)
def test_plans_whose_groups_add_compute_their_programs(name: str) -> None:
    import torch

    signature, function, planned, lengths = PROGRAMS[name]
    program = cd.algorithm(signature, name="program")(function)
    plan = program.plan("H200", planned, dtype="fp32")
    text = plan.code("triton").replace(", 264)", ", 2)")  # runs of several tiles
    assert len(plan.kernels) == 1 and "deterministic" in text
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=[lengths[axis.name] for axis in ty.axes]) for ty in program.dom]
    launch = getattr(imported(text, "program"), plan.written().entry)
    for deterministic in (None, True, False):
        found = launch(*(torch.tensor(a, dtype=torch.float32) for a in arrays), deterministic=deterministic)
        wanted = program.run(*arrays)
        for one, other in zip(*(a if isinstance(a, tuple) else (a,) for a in (found, wanted)), strict=True):
            np.testing.assert_allclose(one.numpy(), other, rtol=3e-4, atol=3e-4)
