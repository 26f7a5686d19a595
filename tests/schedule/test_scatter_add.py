"""Scatter-adds: sums over one-hot rows, what they mean, and what they move."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import diagram_of
from catdiag.category.ops import GroupOp, tiled_axes
from catdiag.category.traversal import all_boxes
from catdiag.execute.interpreter import run
from catdiag.rewrite.group import find
from catdiag.schedule.access_region import with_access_regions
from catdiag.schedule.scatter_add import ScatterAdd, one_hot_sums
from catdiag.simulate.machine import count
from catdiag.util.errors import NotGroupable
from tests.scatters import FORMS, rows

LENGTHS = {"t": 7, "d": 3, "v": 5, "w": 4, "k": 6, "b": 2}
BLOCKS = {"g_t": 2, "g_d": 2, "g_b": 1, "s_k": 4}


def arrays_of(program: cd.Program, lengths: dict[str, int], seed: int = 0) -> list[Any]:
    """Arrays for a program: integers are positions, some of them outside."""
    random = np.random.default_rng(seed)
    shapes = [(ty.element, [lengths[a.name] for a in ty.axes]) for ty in program.diagram.dom]
    return [random.integers(-2, 7, s) if kind == "int" else random.normal(size=s) for kind, s in shapes]


def sizes_of(program: cd.Program, lengths: dict[str, int]) -> dict[str, int]:
    return {a.name: lengths[a.name] for ty in program.diagram.dom for a in ty.axes}


def symbols_of(program: cd.Program) -> list[str]:
    """The symbols of a program's tiles and blocks."""
    return [symbol for box in all_boxes(program.diagram) for _, symbol in tiled_axes(box.op)]


@pytest.mark.parametrize("name", FORMS)
def test_marked_sums_mean_what_they_did(name: str) -> None:
    form = FORMS[name]
    marked = with_access_regions(form.diagram)
    (box,) = (b for b in marked.boxes if isinstance(b.op, GroupOp))
    assert sum(isinstance(b.op, ScatterAdd) for b in box.op.body.boxes) == 1
    arrays, sizes = arrays_of(form, LENGTHS), sizes_of(form, LENGTHS)
    wanted = run(form.source, arrays, sizes=sizes)
    found = run(marked, arrays, sizes=sizes)
    for one, other in zip(*(a if isinstance(a, tuple) else (a,) for a in (found, wanted)), strict=True):
        np.testing.assert_allclose(one, other)


@pytest.mark.parametrize("name", FORMS)
@given(seed=st.integers(0, 100), t=st.integers(1, 9), g_t=st.integers(1, 9), g_d=st.integers(1, 3))
def test_transfers_are_those_of_the_simulator(name: str, seed: int, t: int, g_t: int, g_d: int) -> None:
    form, lengths = FORMS[name], {**LENGTHS, "t": t}
    io, sizes = form.io(), sizes_of(form, lengths)
    tiles = {s: min({**BLOCKS, "g_t": g_t, "g_d": g_d}[s], lengths[s[2:]]) for s in symbols_of(form)}
    counts = count(form, sizes, tiles, arrays=arrays_of(form, lengths, seed))
    values = {**sizes, **tiles}
    for counted, formula in ((counts.load, io.load), (counts.save, io.save)):
        assert counted == formula.subs({symbol: values[symbol.name] for symbol in formula.free_symbols})


def test_a_sum_that_is_no_scatter_is_none() -> None:
    shifted = cd.algorithm("int[t v], t d, v -> v d")(
        lambda ids, G, like: cd.sum(cd.where(cd.index("v") == ids, G, 0), "t")
    )
    other = cd.algorithm("int[t], t d, v -> v d")(
        lambda ids, G, like: cd.sum(cd.where(cd.index("v") == ids, G, 1), "t")
    )
    dependent = cd.algorithm("int[t], t v, v -> v")(
        lambda ids, G, like: cd.sum(cd.where(cd.index("v") == ids, G, 0), "t")
    )
    below = cd.algorithm("int[t], t d, v -> v d")(
        lambda ids, G, like: cd.sum(cd.where(cd.index("v") <= ids, G, 0), "t")
    )
    assert not any(one_hot_sums(diagram_of(p)) for p in (shifted, other, dependent, below))


def test_what_cannot_be_scattered_is_refused() -> None:
    with pytest.raises(NotGroupable, match="cannot scatter results in groups of v d: none is a sum"):
        rows.group("v d", scatter=True)
    with pytest.raises(NotGroupable, match="none is a sum over these axes of rows that integers place"):
        cd.library.get("softmax").group("q", scatter=True)


def test_groups_that_scatter_differ_from_those_that_do_not() -> None:
    assert find(rows.diagram, ["t"], True) != find(rows.diagram, ["t"], True, True)
