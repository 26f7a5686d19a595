"""Laws of the one lowering: costs and emitted kernels load the same, and liveness only adds statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import Diagram, diagram_of
from catdiag.category.substitution import inline
from catdiag.codegen.triton.triton_module import module
from catdiag.cost.traffic import io
from catdiag.schedule.kernel_analysis import measure
from catdiag.schedule.loop_nest import lower
from catdiag.schedule.split_k import is_split
from catdiag.schedule.statements import Alloc, Dealloc, For, Let, Load, Overwrite, Point, Statement, flat, statements
from tests.forms import unproved

ADDED = (Alloc, Dealloc, Overwrite, Point)


def loads_of_statements(body: Sequence[Statement]) -> list[Counter[str]]:
    """How often each kernel loads each array, by the statements that code generators read."""
    found = [Counter[str]()]
    for statement in body:
        group = isinstance(statement, For) and statement.kind == "tiles"
        if group:
            found.append(Counter())
        for _, inside in statements([statement]):
            if isinstance(inside, Load):
                found[-1].update(v.of or v.name for v in inside.values)
        if group:
            found.append(Counter())
    return [loads for loads in found if loads]


def drawn(data: st.DataObject) -> Diagram:
    program: Any = data.draw(st.sampled_from([cd.testing.einsums, cd.testing.cascades, cd.testing.diagrams]))()
    return diagram_of(data.draw(cd.testing.blocked(data.draw(program))))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_costs_count_the_loads_of_the_statements(data: st.DataObject) -> None:
    form = drawn(data)
    if is_split(form):  # costs are those of two kernels
        return
    try:
        kernels = measure(form).kernels
    except cd.errors.CatdiagError:
        return
    counted = [sum(t.times for t in kernel.transfers if t.direction == "load") for kernel in kernels]
    assert [loads.total() for loads in loads_of_statements(lower(form).body)] == [n for n in counted if n]


def plain(found: Sequence[Statement]) -> list[object]:
    """The boxes and loads of statements in order, nested ones included, without what liveness adds."""
    every = [s for _, s in statements(found) if not isinstance(s, ADDED)]
    return [s.box if isinstance(s, Let) else (type(s), [v.ty for v in s.values]) if isinstance(s, Load) else type(s)
            for s in every]  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_liveness_only_adds_statements(data: st.DataObject) -> None:
    form = drawn(data)
    if is_split(form):
        return
    try:
        account = measure(form)
    except cd.errors.CatdiagError:
        return
    groups = [s for s in lower(form).body if isinstance(s, For) and s.kind == "tiles"]
    for group, kernel in zip(groups, (k for k in account.kernels if k.tiles), strict=True):
        (part,) = kernel.parts
        own, read = plain(part.body.statements), plain(group.body)
        first = next((k for k in range(len(read)) if read[k : k + len(own)] == own), None)
        assert first is not None, (own, read)
        assert len(list(flat(part.body.statements))) >= len(own)


def test_a_streamed_array_that_is_gathered_too_is_loaded_for_both() -> None:
    @cd.algorithm("t v, int[t] -> t")
    def losses(Z: Any, label: Any) -> Any:
        return cd.log(cd.sum(cd.exp(Z), "v")) - cd.gather(Z, "v", label)

    form = unproved(losses.diagram, "v", "t")
    (loads,) = loads_of_statements(lower(form).body)
    assert loads == {"Z": 2, "label": 1}


def test_positions_between_kernels_are_computed_where_they_are_read() -> None:
    products = cd.algorithm("q x, q x -> q")(lambda A, B: cd.sum(A * B, "x")).group("q")
    distances = cd.algorithm("q x -> q x, q x")(lambda A: (A, (cd.index("q") - cd.index("x")) * 0.5))
    form = inline(diagram_of(distances >> products))
    assert len(module(form, {"g_q": 4}, "fp32").kernels) == len(measure(form).kernels) == 1
    assert [t.array for t in io(form).traffic] == ["A", "out"]
    cd.testing.assert_counts_match(form, 1)


def test_a_reduction_in_place_loads_where_its_result_is_added() -> None:
    """The reduction comes first in the diagram; between it and the sum another array is loaded and dies."""
    both = cd.algorithm("q, q x, q -> q")(lambda A, B, C: cd.sum(B, "x") + A * cd.exp(C))
    loads = [v.name for _, s in statements(lower(both.diagram).body) if isinstance(s, Load) for v in s.values]
    assert loads == ["C", "A", "B"]
    cd.testing.assert_counts_match(both.diagram, 2)
