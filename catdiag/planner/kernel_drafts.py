"""How a piece of a diagram may run as one kernel: its loops and groups, each a draft that can be proved.

A kernel streams no axis, one, one in two passes, or one inside another, and runs in groups of all axes of its results
that it is weaved over; or it streams none, and its groups add to the results that lack an axis of others. What a draft
costs is worked out by `catdiag.planner.kernel_schedules`, in transfers, and by `catdiag.planner.kernel_candidates`, in
time. Nothing is proved until a draft is taken.

>>> import catdiag as cd
>>> from catdiag.category.substitution import inline
>>> [str(draft) for draft in drafts(inline(cd.library.get("matmul").diagram))]
['group a c', 'stream b, group a c']
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING

from catdiag.category.diagram import Diagram, of_graph
from catdiag.category.index_maps import leaves
from catdiag.category.ops import FoldOp, View, tiled_axes
from catdiag.category.substitution import inline
from catdiag.category.traversal import all_boxes
from catdiag.kernel.terms import KernelError
from catdiag.planner.graph_segments import Segment, Span, StageSequence
from catdiag.prover.api import Interrupted, certify_equation
from catdiag.prover.composites import OpenPart, PartEquation, certify_composite, certify_through
from catdiag.prover.congruence import has_generators
from catdiag.prover.proof_search import OpenGoal
from catdiag.rewrite.derivation import Derivation
from catdiag.rewrite.group import find, group, groupable
from catdiag.rewrite.local_sizes import sizes_in
from catdiag.rewrite.skip import find as skipping
from catdiag.rewrite.skip import skip
from catdiag.rewrite.split import in_parts
from catdiag.rewrite.steps import Action, Cut, Group, Skip, Split, Stream
from catdiag.rewrite.stream.cascade import reduces
from catdiag.rewrite.stream.fold_search import axis_of
from catdiag.rewrite.stream.multi_pass import first_form
from catdiag.rewrite.stream.streaming import split, stream
from catdiag.rewrite.stream.whole_axis_arrays import retained_arrays
from catdiag.schedule.live_ranges import multiplies
from catdiag.schedule.lowered_kernel import LoweredKernel
from catdiag.schedule.scatter_add import OneHotSum, one_hot_sums
from catdiag.solvers.z3 import Z3, SolverInterrupted
from catdiag.util.errors import AxisError, CatdiagError, NotFusable, NotGroupable, NotStreamable

if TYPE_CHECKING:
    from catdiag.prover.api import Theorem
    from catdiag.rewrite.contraction_order import Reassociation

REFUSED = (NotStreamable, NotGroupable, AxisError)
"""What is raised where a draft cannot be, or was not proved."""


@dataclass(frozen=True)
class KernelDraft:
    """How a kernel runs: the axes streamed (outermost first, each in how many passes), and those grouped.

    `streamed` is the diagram with its loops, before it is split and grouped.
    """

    streams: tuple[tuple[str, int], ...]
    groups: tuple[str, ...]
    streamed: Diagram = field(repr=False)
    split: bool = False
    """Whether the outermost loop runs in several parts at once."""
    skipped: tuple[str, ...] = ()
    """The streamed axes whose masked blocks are skipped."""
    adds: bool = False
    """Whether groups add to results that lack some of their axes."""
    scatters: bool = False
    """Whether they add rows where integers say, if results are such sums (`catdiag.schedule.scatter_add`)."""
    tested: bool = True
    """Whether blocks between the bounds of a loop are tested, where these do not say all that a mask says."""

    @property
    def only_adds(self) -> bool:
        """Whether groups add to all results: none has an axis of theirs."""
        summed = all(axis not in ty.names for axis in self.groups for ty in self.streamed.cod)
        return self.adds and summed and not self.scatters

    @cached_property
    def diagram(self) -> Diagram:
        """The kernel, unproved. Raises CatdiagError where it cannot be split, grouped or skip blocks so."""
        looped = in_parts(self.streamed, self.streams[0][0]) if self.split else self.streamed
        made = find(looped, self.groups, accumulate=self.adds, scatter=self.scatters) if self.groups else looped
        for axis in self.skipped:
            made = skipping(made, axis, tested=self.tested)
        return made

    def kernel_of(self, piece: Diagram) -> Diagram:
        """The kernel of a piece that the draft is of, or of one that is equal to it up to the names of arrays."""
        if not self.actions:
            return piece
        return of_graph(self.diagram.graph, piece.cod, piece.names, f"{piece.title or 'it'}, {self}")

    def derivation(self, source: Diagram, ask: Z3) -> Derivation | None:
        """The draft of a piece, proved step by step; None where the piece runs as it is written.

        Raises NotStreamable, NotGroupable or AxisError where a proof is not found.
        """
        if not self.streams and not self.groups:
            return None
        made = Derivation.start(source, ask)
        for axis, passes in self.streams:
            made = stream(made, axis, passes=passes)
        if self.split:
            made = split(made, self.streams[0][0])
        made = group(made, self.groups, self.scatters) if self.groups else made
        for axis in self.skipped:
            made = skip(made, axis, tested=self.tested)
        return made

    @property
    def actions(self) -> tuple[Action, ...]:
        """What is done to the piece, in order."""
        streams = [Stream(axis, passes) for axis, passes in self.streams]
        split = [Split(self.streams[0][0])] if self.split else []
        groups = [Group(self.groups, self.scatters)] if self.groups else []
        return (*streams, *split, *groups, *(Skip(axis, self.tested) for axis in self.skipped))

    def check_blocks(self, kernels: Iterable[LoweredKernel]) -> None:
        """Raises NotStreamable where the draft, lowered as these kernels, keeps an array on chip along the whole of the
        axis of its innermost loop."""
        for axis, _ in self.streams[-1:]:
            if (retained := retained_arrays(kernels, axis_of(self.streamed, axis))).itself:
                raise NotStreamable(f"cannot stream axis {axis!r} in blocks: {retained}")

    def in_groups(self, groups: tuple[str, ...]) -> KernelDraft:
        """The same loops in other groups."""
        return replace(self, groups=groups)

    def in_parts(self) -> KernelDraft:
        """The same with its outermost loop in several parts at once."""
        return replace(self, split=True)

    def skipping(self) -> Iterator[KernelDraft]:
        """The same with the blocks skipped that masks make irrelevant, if there are such masks; then, where loops have
        bounds and test blocks beside, the same without the tests."""
        found, untested = [], False
        for axis, passes in self.streams:
            with suppress(CatdiagError):
                loops = [b.op for b in all_boxes(skipping(self.streamed, axis))] if passes == 1 else []
                found += [axis] if loops else []
                untested |= any(isinstance(op, FoldOp) and op.bounds and op.tests_blocks for op in loops)
        for tested in (True, False)[: bool(found) + untested]:
            yield replace(self, skipped=tuple(found), tested=tested)

    def __str__(self) -> str:
        """In words: `stream v, in it d, group t`."""
        words: list[str] = []
        for axis, passes in self.streams:
            words.append(f"{'in it' if words else 'stream'} {axis}" + (f" in {passes} passes" if passes > 1 else ""))
        words += [f"split {self.streams[0][0]}"] if self.split else []
        words += [str(Group(self.groups, self.scatters))] if self.groups else []
        return ", ".join([*words, *map(str, self.actions[len(self.actions) - len(self.skipped) :])]) or "as written"


def drafts(
    flat: Diagram, nested: Callable[[KernelDraft, str], bool] | None = None, scatters: bool = True
) -> Iterator[KernelDraft]:
    """What is tried: no stream; that with groups that add to the results which lack an axis of others, or groups of
    an axis that is on no result; each of these axes, then each axis of results in two passes; after each axis that
    is on no result also groups of another one that a product is summed over too, which add their parts; and each other
    one in a loop inside its loop for which `nested` holds, which is asked once the draft without that loop was given.
    With `scatters` also, after a draft, the same in groups that add rows where integers say."""
    kept = list(dict.fromkeys(n for ty in flat.cod for n in ty.names))
    axes = list(dict.fromkeys(a.name for ty in flat.graph.wire_types() for a in ty.axes if a.size != 1))
    names = [n for n in axes if any(reduces(box, n) for box in flat.boxes)]
    inner = [n for n in names if n not in kept]
    tried: list[tuple[str | None, int]] = [(None, 1), *((n, 1) for n in inner), *((n, 2) for n in kept if n in names)]
    plain, sums = tuple(groupable(flat)), one_hot_sums(flat) if scatters else {}
    for axis, passes in tried:
        if axis is None:
            yield KernelDraft((), plain, flat)
            groups = _with_added(flat, plain, kept)
            if groups != plain:
                yield KernelDraft((), groups, flat, adds=True)
            yield from _scattering(KernelDraft((), plain, flat), sums)
            rows = {ty.names[-1] for ty in flat.dom if len(ty.axes) > 1}
            for name in (n for n in inner if rows and n not in rows):  # whose groups have whole rows of arrays
                with suppress(NotGroupable, AxisError):
                    find(flat, (name,), accumulate=True)
                    yield KernelDraft((), (name,), flat, adds=True)
            continue
        draft = _streamed(flat, KernelDraft((), (), flat), axis, passes, plain)
        if draft is None:
            continue
        yield draft
        yield from _scattering(draft, sums)
        if passes > 1 or nested is None:
            continue
        for other in (n for n in inner if n != axis and _sums_over_both(flat, axis, n)):
            with suppress(NotGroupable, AxisError):
                find(draft.streamed, (*draft.groups, other), accumulate=True)
                yield replace(draft, groups=(*draft.groups, other), adds=True)
        for other in (n for n in inner if n != axis and nested(draft, n)):
            within = _streamed(draft.streamed, draft, other, 1, ())
            if within is not None and _has_nested_loops(within.streamed):
                yield within


def _streamed(
    flat: Diagram, before: KernelDraft, axis: str, passes: int, groups: tuple[str, ...]
) -> KernelDraft | None:
    """The draft with a further loop; None where there is no such loop. What takes several passes is in `groups`, but
    for the axis."""
    try:
        streamed = first_form(flat, axis, passes)
        names = groupable(streamed) if passes == 1 else (n for n in groups if n != axis)
    except CatdiagError:
        return None
    return KernelDraft((*before.streams, (axis, passes)), tuple(names), streamed)


def _with_added(flat: Diagram, groups: tuple[str, ...], kept: Iterable[str]) -> tuple[str, ...]:
    """The groups, and further axes of results for which groups add to the results that lack them."""
    for axis in kept:
        if axis not in groups:
            with suppress(NotGroupable, AxisError):
                find(flat, (*groups, axis), accumulate=True)
                groups = (*groups, axis)
    return groups


def _scattering(draft: KernelDraft, sums: Mapping[int, OneHotSum]) -> Iterator[KernelDraft]:
    """The same loops in groups that add rows to results where integers say, where some results are such sums."""
    placed = {name for found in sums.values() for name in found.axes}
    summed = dict.fromkeys(name for found in sums.values() for name in found.summed)
    others = (n for ty in draft.streamed.cod for n in ty.names if n not in placed)
    groups: tuple[str, ...] = ()
    for axis in (*summed, *others) if sums else ():
        if axis not in (*groups, *(streamed for streamed, _ in draft.streams)):
            with suppress(NotGroupable, AxisError):
                find(draft.streamed, (*groups, axis), accumulate=True)
                groups = (*groups, axis)
    with suppress(NotGroupable, AxisError):
        if groups:
            find(draft.streamed, groups, accumulate=True, scatter=True)
            yield replace(draft, groups=groups, adds=True, scatters=True)


def _sums_over_both(flat: Diagram, axis: str, other: str) -> bool:
    """Whether a product of a diagram is summed over both axes: over the heads that share keys, and over queries."""
    return any(multiplies(box) and reduces(box, axis) and reduces(box, other) for box in flat.boxes)


def window_axes(diagram: Diagram) -> set[str]:
    """The axes of windows: a view reads an array along one of its axes at a sum of two of these."""
    positions = (e for box in diagram.boxes if isinstance(box.op, View) for read in box.op.reads for _, e in read.at)
    found = ({v[1] for v in leaves(e) if isinstance(v, tuple) and v[0] == "i"} for e in positions)
    return {name for names in found if len(names) > 1 for name in names}


def _has_nested_loops(diagram: Diagram) -> bool:
    """Whether a loop of a diagram has a loop in its body."""
    return any(
        isinstance(inner.op, FoldOp)
        for box in inline(diagram).boxes
        if isinstance(box.op, FoldOp)
        for inner in inline(box.op.step).boxes
    )


def fresh_tiles(diagram: Diagram, taken: Collection[str], number: int) -> dict[str, str]:
    """New symbols for the tiles and blocks of a kernel that are taken: with its number, `g_t_2`, or the next that is
    free."""
    found: dict[str, str] = {}
    used = {*taken, *sizes_in(diagram)}
    for op in (box.op for box in all_boxes(diagram)):
        for _, symbol in tiled_axes(op):
            if symbol in taken and symbol not in found:
                new = next(n for k in count(number) if (n := f"{symbol}_{k}") not in used)
                found[symbol] = new
                used.add(new)
    return found


def proved(ask: Z3, source: Diagram, made: Diagram, further: bool) -> Theorem | None:
    """The theorem that two diagrams mean the same; None where it is not found, or is conditional. Raises Interrupted
    where a solver was stopped."""
    try:
        theorem = certify_equation(ask, source, made, further=further)
    except (OpenGoal, KernelError):
        return None
    except SolverInterrupted as error:
        raise Interrupted(f"a proof was interrupted: {error}") from error
    return None if theorem.conditional else theorem


class NotProvedTogether(NotFusable):
    """Kernels that were not proved to mean their source together: the diagram that they are, and for each that is not
    proved what is not."""

    def __init__(self, message: str, kernels: Diagram, reasons: tuple[str, ...]) -> None:
        super().__init__(message)
        self.kernels, self.reasons = kernels, reasons


def cut(
    row: StageSequence,
    parts: Iterable[tuple[Span, Diagram, Theorem | None]],
    saved: tuple[str, ...],
    source: Diagram,
    ask: Z3,
    other: Reassociation | None = None,
    unproved: Sequence[str] = (),
) -> Derivation:
    """The derivation of the kernels of a row from its source, as one step, `saved` between them by name.

    Each kernel comes with the theorem that it means its segment, if that is known. The row may be of `other`, a form of
    the source in which products are taken in another order. `unproved` says what is known not to be proved, so that
    no proof is looked for. Raises NotProvedTogether where it is not proved that they mean the source together.
    """
    kernels = list(parts)
    whole, _ = row.composed((span, diagram) for span, diagram, _ in kernels)
    said = f"cut({', '.join(saved)!r})" if saved else "cut()"
    whole = of_graph(whole.graph, whole.cod, whole.names, f"{row.diagram.title or 'it'}.{said}")
    failed = f"the kernels that save {', '.join(saved) or 'nothing'} were not proved to mean "
    failed += f"{source.title or 'the diagram'} together"
    why = ""
    if unproved:
        raise NotProvedTogether(f"{failed}: {'; '.join(unproved)}", whole, tuple(unproved))
    theorem: Theorem | None = None
    if len(kernels) > 1 and (other or source is row.diagram) and not has_generators(source):
        theorem, why = _in_parts(row, kernels, (source, whole), ask, other, failed)
    if theorem is None:
        theorem = proved(ask, source, whole, True)
    if theorem is None:
        raise NotProvedTogether(failed + why, whole, (f"all kernels together{why}",))
    return Derivation.start(source, ask).then(Cut(saved), whole, theorem, ungrouped=None)


def _in_parts(
    row: StageSequence,
    kernels: Sequence[tuple[Span, Diagram, Theorem | None]],
    sides: tuple[Diagram, Diagram],
    ask: Z3,
    other: Reassociation | None,
    failed: str,
) -> tuple[Theorem | None, str]:
    """That kernels of a row together mean its source, which are the `sides`, by way of what passes between them; or
    None, and why. Copies are tried as what they are copies of, and then as parts of the kernels that read them. Raises
    NotProvedTogether, which says what `failed`, for a part that is not proved."""
    _, whole = sides
    spans, known = [span for span, *_ in kernels], [t for *_, t in kernels if t is not None]
    opened = of_graph(row.uncopied, row.diagram.cod, row.diagram.names) if other is None else other.opened
    why = ""
    for copies in (True, False) if row.copies else (False,):
        ends: Sequence[int] = range(1, len(kernels) + 1)
        try:
            if other is None and not row.copies:
                return _together(row, kernels, whole, ask), ""
            made, wires = row.composed(((span, diagram) for span, diagram, _ in kernels), ordered=copies)
            stages, ends = _stages(row, spans, wires, _written(row, other, copies))
            return _through(ask, (opened, made), sides, stages, known), ""
        except OpenPart as error:
            why = f"{kernels_of_part(ends, error.number)}: it stopped at {error.goal}"
            if not copies:
                raise NotProvedTogether(f"{failed}: {why}", whole, (why,)) from error
        except (OpenGoal, KernelError) as error:
            why = f": {error}"
    return None, why


def _written(row: StageSequence, other: Reassociation | None, copies: bool) -> dict[int, int]:
    """For wires of a row, those of the opened source that carry the same; with `copies`, in any order of axes."""
    origin = row.origin or {w: w for w in range(len(row.types))}
    if not copies:
        types = row.uncopied.wire_types()
        origin = {w: v for w, v in origin.items() if row.maker[w] not in row.copies and row.types[w] == types[v]}
    if other is None:
        return dict(origin)
    if row.uncopied != other.diagram.graph:
        return {}
    known = {made: w for w, made in sorted(other.image.items(), reverse=True)}
    return {w: known[made] for w, made in origin.items() if made in known}


def _stages(
    row: StageSequence, spans: Sequence[Span], wires: Mapping[int, int], written: Mapping[int, int]
) -> tuple[list[list[tuple[int, int]]], Sequence[int]]:
    """Where kernels of another form of a source may be proved apart: the cuts at which all that crosses is `written` in
    the opened source, as its wires with those of the kernels; and the number of the last kernel before each, and of
    all. Copies that are not are made again in a later part.

    With what crosses a cut are the results that kernels before it make: those owe what the results do."""
    stages: list[list[tuple[int, int]]] = []
    ends: list[int] = []
    known = {(w, w) for w in range(len(row.graph.dom))}
    results = dict[int, None]()
    for number, (start, end) in enumerate(spans[:-1], 1):
        crossing = [w for w in row.crossing(end) if w in written or row.maker[w] not in row.copies]
        made = (w for w in row.segment(start, end).makes if w in row.graph.outputs)
        results.update(dict.fromkeys(w for w in made if w in written and w in wires))
        if all(w in written and w in wires for w in crossing):
            stage = [(written[w], wires[w]) for w in dict.fromkeys((*crossing, *results))]
            if not known.issuperset(stage):
                stages.append(stage)
                ends.append(number)
            known.update(stage)
    return stages, (*ends, len(spans))


def kernels_of_part(ends: Sequence[int], part: int) -> str:
    """The kernels of a part, in words, by the last kernel of each part."""
    if part > len(ends):
        return "the results that are views"
    first, last = (ends[part - 2] + 1 if part > 1 else 1), ends[part - 1]
    return f"kernel {last}" if first == last else f"kernels {first} to {last} together"


def _through(
    ask: Z3,
    compared: tuple[Diagram, Diagram],
    sides: tuple[Diagram, Diagram],
    stages: Iterable[Iterable[tuple[int, int]]],
    theorems: Sequence[Theorem],
) -> Theorem:
    """That kernels together mean a source, which are the `sides`, in stages; of the same values as these two are the
    diagrams that are `compared`. Raises OpenPart, OpenGoal, KernelError."""
    try:
        return certify_through(ask, *compared, stages, theorems, sides)
    except SolverInterrupted as error:
        raise Interrupted(f"a proof was interrupted: {error}") from error


def _together(
    row: StageSequence, kernels: Sequence[tuple[Span, Diagram, Theorem | None]], whole: Diagram, ask: Z3
) -> Theorem:
    """That kernels together mean the diagram of a row, by congruence. Raises OpenPart, OpenGoal, KernelError."""
    wires = {w: w for w in range(len(row.graph.dom))}
    parts: list[PartEquation] = []

    def add(segment: Segment, made: Diagram, theorem: Theorem | None) -> None:
        reads = tuple(wires[w] for w in segment.reads)
        names = tuple(row.names[w] for w in segment.makes)
        parts.append(PartEquation(segment.diagram, made, reads, names, theorem=theorem))
        for w in segment.makes:
            wires[w] = len(wires)

    for span, diagram, theorem in kernels:
        segment = row.segment(*span)
        # A kernel may be made of a diagram that means what the segment does: then its theorem is of that one.
        add(segment, diagram, theorem if row.segment_diagram(*span) == segment.diagram else None)
    last = row.results_of(wires)
    if last is not None:
        add(last, last.diagram, None)
    inputs = list(zip(row.diagram.input_names, row.graph.dom, strict=True))
    results = [wires[w] for w in row.graph.outputs]
    try:
        return certify_composite(ask, inputs, parts, results, (row.diagram, whole))
    except SolverInterrupted as error:
        raise Interrupted(f"a proof was interrupted: {error}") from error
