"""Registers of a kernel that multiplies no matrices: what is live in its threads from box to box.

Each thread computes its own elements one after the other, so that boxes are fused where nobody waits for a sum:

- what dies at a box gives its registers to what the box makes;
- a result that only the next box reads is used as it is made, and is never there as a whole; such boxes are one step;
- what is loaded is packed, in its own type, until it is used; results take 4 bytes an element;
- what is loaded for an elementwise step and dies there is loaded some elements at a time: half of it is on its way;
- of windows of an array, which are read in place, each entry is loaded by itself, into a register of its own.

>>> import catdiag as cd
>>> from catdiag.planner.fit import searching
>>> norm = cd.library.get("rms_norm").group("t")
>>> search = searching(norm.diagram, "H200", {"t": 16384, "d": 8192})
>>> [str(live_bytes) for live_bytes in register_pressure(search.kernel)]
['4*d*g_t + d + 4*g_t']
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from catdiag.category.integer_polynomial import ZERO, IntPolynomial
from catdiag.category.op_facts import elementwise
from catdiag.schedule.kernel_work import gathered_loads
from catdiag.schedule.lowered_kernel import LoweredKernel
from catdiag.schedule.statements import (
    Alloc,
    Body,
    Buffer,
    Dealloc,
    For,
    Let,
    LoopBuffers,
    Overwrite,
    Point,
    Statement,
)

_COMPUTED_BYTES = 4
"""The width of a value that is computed with."""


@dataclass
class _Step:
    """Boxes that are fused, or a moment of a loop: what is loaded for them, read, made, and what dies there."""

    elementwise: bool = False
    loaded: list[Buffer] = field(default_factory=list)
    read: list[Buffer] = field(default_factory=list)
    made: list[Buffer] = field(default_factory=list)
    dying: list[Buffer] = field(default_factory=list)
    extra: list[Buffer] = field(default_factory=list)
    windows: IntPolynomial = ZERO

    def settled(self) -> _Step:
        """The same; what makes nothing in registers is recomputed by others, and reads nothing itself."""
        return self if any(buffer.places for buffer in self.made) else replace(self, read=[])

    def then(self, after: _Step) -> _Step:
        """This and a step that it is fused with."""
        return _Step(
            after.elementwise,
            self.loaded + after.loaded,
            self.read + after.read,
            self.made + after.made,
            self.dying + after.dying,
            self.extra + after.extra,
            self.windows + after.windows,
        )


def register_pressure(kernel: LoweredKernel) -> tuple[IntPolynomial, ...]:
    """Bytes that are live in all threads of a block together, at the steps at which most may be."""
    found: list[IntPolynomial] = []
    windowed = {load.array for load in kernel.gathered_loads}
    for part in kernel.parts:
        steps = [*_steps(part.body.statements, part.body), *_steps(part.copies)]
        for live_bytes in _live_bytes(_fused(steps), part.around, windowed):
            if not any(other.dominates(live_bytes) for other in found):
                found = [*(other for other in found if not live_bytes.dominates(other)), live_bytes]
    return tuple(live_bytes + _totals(kernel) for live_bytes in found)


def _totals(kernel: LoweredKernel) -> IntPolynomial:
    """The bytes of what a program adds up while it goes through a run of tiles (`catdiag.codegen.triton.tile_runs`), or
    the blocks of a loop (`catdiag.codegen.triton.carried_states`)."""
    added = kernel.added if kernel.in_runs else ()
    blocks = [IntPolynomial.elements(box.dom[0].axes).scaled(_COMPUTED_BYTES) for box in kernel.column_sums()]
    return sum((t.size for t in kernel.transfers if t.array in added and t.reload_axes), sum(blocks, ZERO))


def _steps(statements: Sequence[Statement], body: Body | None = None, blocks: Sequence[Buffer] = ()) -> Iterator[_Step]:
    """Statements by the boxes that they are about, of a body if they are one's. `blocks` are what a loop loads at the
    start of its iterations, which dies where it is read last."""
    step, over = _Step(), False
    windows = {} if body is None else gathered_loads(body)
    for statement in statements:
        if over and not isinstance(statement, Dealloc):
            yield step.settled()
            step, over = _Step(), False
        match statement:
            case Let(place=place, box=box) if place >= 0 and body is not None:
                step.elementwise = elementwise(box)
                step.windows += sum((load.entries for load in windows.get(place, ())), ZERO).scaled(_COMPUTED_BYTES)
                for wire, buffer in _inputs(body, place).items():
                    step.read.append(buffer)
                    step.dying += [buffer] if buffer in blocks and body.found.last_use[wire] <= place else []
            case Alloc(buffer, load):
                (step.made if load is None else step.loaded).append(buffer)
            case Dealloc(buffer):
                step.dying.append(buffer)
            case Overwrite(buffer, rest):
                step.dying.append(buffer)
                step.made += [] if rest is None else [rest]
            case Point(extra=extra):
                step.extra, over = list(extra), True
            case For(live=LoopBuffers(head=head, body=inner, tail=tail)):
                yield from _steps([*head, Point("")])
                loaded = [s.buffer for s in head if isinstance(s, Alloc) and s.load is not None]
                yield from _steps(inner.statements, inner, loaded)
                yield from _steps([*tail, Point("")])
    yield step.settled()


def _inputs(body: Body, place: int) -> Mapping[int, Buffer]:
    """The inputs of a body that a box reads, or that what it reads is recomputed from, by their wires."""
    found: dict[int, Buffer] = {}
    for wire in body.graph.nodes[place].inputs:
        root = body.found.root[wire]
        for source in body.found.view_sources.get(root, [root]):
            buffer = body.inputs[source] if source < len(body.inputs) else None
            if buffer is not None:
                found[source] = buffer
    return found


def _fused(steps: Sequence[_Step]) -> Iterator[_Step]:
    """The same with those fused whose results the next one uses as they are made."""
    step = last = steps[0]
    for after in steps[1:]:
        passing = all(buffer in after.dying or not buffer.places for buffer in last.made)
        if last.elementwise and last.made and passing:
            step = step.then(after)
        else:
            yield step
            step = after
        last = after
    yield step


def _live_bytes(steps: Iterator[_Step], around: Sequence[Buffer], windowed: Container[str]) -> Iterator[IntPolynomial]:
    """What is live as each of some steps begins, and after it. Arrays that are `windowed` are there as windows only."""
    present = {buffer: _bytes(buffer, False) for buffer in around}
    for step in steps:
        arriving = ZERO
        for buffer in (b for b in step.loaded if b.name not in windowed):
            passing = step.elementwise and buffer in step.dying
            present[buffer] = _bytes(buffer, True)
            arriving = arriving - (_halved(present[buffer]) if passing else ZERO)
        yield sum(present.values(), arriving) + step.windows
        used = [buffer for buffer in step.read if buffer in present]
        present.update((buffer, _bytes(buffer, False)) for buffer in (*used, *step.made))
        for buffer in step.dying:
            present.pop(buffer, None)
        yield sum((_bytes(buffer, False) for buffer in step.extra), sum(present.values(), ZERO))


def _bytes(buffer: Buffer, loaded: bool) -> IntPolynomial:
    """What is live of an array, one buffer of it if it is streamed; nothing of what is recomputed."""
    width = buffer.width if loaded else max(buffer.width, _COMPUTED_BYTES)
    return buffer.size.scaled(width) if buffer.places else ZERO


def _halved(amount: IntPolynomial) -> IntPolynomial:
    return IntPolynomial({monomial: count // 2 for monomial, count in amount.terms.items()})
