"""Statements of lowered kernels: each live range begins and ends once, and the peak memory is that of some point."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.cost.traffic import frontier
from catdiag.schedule.kernel_analysis import measure
from catdiag.schedule.lowered_kernel import KernelPart
from catdiag.schedule.placement import LEVEL, Placement, two
from catdiag.schedule.statements import Alloc, Buffer, Dealloc, Overwrite, Point, flat
from tests.forms import unproved

REGISTERS = two(2, registers=True)
PHASES = Placement(
    ("SMEM", "registers"), ("SMEM", "registers"), ("SMEM", "registers"), "SMEM", "registers", phased=True
)


def points(part: KernelPart) -> list[list[Buffer]]:
    """What is allocated at each point."""
    present: list[Buffer] = []
    found: list[list[Buffer]] = []
    for statement in flat([*part.body.statements, *part.copies]):
        match statement:
            case Alloc(buffer):
                assert buffer not in present
                present.append(buffer)
            case Dealloc(buffer):
                present.remove(buffer)
            case Overwrite(buffer, rest):
                present.remove(buffer)
                present += [] if rest is None else [rest]
            case Point(_, extra):
                found.append([*present, *extra])
    assert not present
    return found


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_live_ranges_begin_and_end_once(data: st.DataObject) -> None:
    program: Any = data.draw(st.sampled_from([cd.testing.einsums, cd.testing.cascades, cd.testing.diagrams]))()
    form = data.draw(cd.testing.blocked(data.draw(program)))
    try:
        account = measure(form, places=data.draw(st.sampled_from([two(), REGISTERS, PHASES])))
    except cd.errors.CatdiagError:
        return
    for kernel in account.kernels:
        for part in kernel.parts:
            points(part)


def test_a_part_of_the_peak_is_what_is_allocated_at_a_point() -> None:
    form = unproved(cd.library.get("attention").diagram, "x", "q")
    account = measure(form)
    (kernel,) = account.kernels
    (part,) = kernel.parts
    totals = [sum((b.at(LEVEL) for b in held), start=type(kernel.tiles["g_q"])()) for held in points(part)]
    (peak,) = frontier(account, LEVEL)
    assert peak.total in totals and all(peak.total.dominates(total) for total in totals)


def test_an_array_that_a_box_reads_twice_is_loaded_and_freed_once() -> None:
    square = cd.algorithm("q ->")(lambda a: cd.einsum("q, q ->", a, a))
    (kernel,) = measure(square.diagram).kernels
    (part,) = kernel.parts
    kinds = [type(s) for s in part.body.statements if isinstance(s, (Alloc, Dealloc, Overwrite))]
    assert kinds == [Alloc, Alloc, Dealloc, Dealloc] and list(map(len, part.loads().values())) == [1]
