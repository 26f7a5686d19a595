"""Rows of stages in which arrays are recomputed where they are read, and not saved between kernels.

A stage of such a row is one array that is worth saving, a *checkpoint*: a statistic (one number for a row), a result,
or a product that takes longer to make than to save and load. A kernel of some stages makes them from inputs and from
earlier checkpoints; everything between is computed in it, also where another kernel computes it too. So the backward
pass of attention makes its weights in two kernels, from the maxima and sums of rows that a first one saves, and nothing
of the size of the scores is in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from catdiag.category.diagram import Diagram, of_graph
from catdiag.category.index_maps import Reindex, View
from catdiag.category.op_facts import elementwise
from catdiag.category.ops import INDEX_MAPS, Box, Reduce
from catdiag.category.types import BYTES, ArrayType, Ty, size_value
from catdiag.planner.graph_segments import Segment, StageSequence
from catdiag.planner.kernel_candidates import PlanTarget
from catdiag.planner.stage_orders import pointwise_first
from catdiag.prover.composites import made_of, piece
from catdiag.prover.congruence import has_generators
from catdiag.rewrite.canonicalize import reads_before_maps
from catdiag.rewrite.join_axes import joined
from catdiag.rewrite.merge_axes import merged_early
from catdiag.rewrite.one_name import with_one_name
from catdiag.schedule.live_ranges import multiplies

WORTH = 0.15
"""The part of a plan's time that saving and loading arrays takes from which on recomputing them is looked at."""


WORTH_OF_FACTORS = 0.03
"""The same where all that products read stays saved, so that nothing is computed for each of their tiles."""


@dataclass
class RecomputedStages(StageSequence):
    """The checkpoints of a diagram as a row of stages, with named boxes opened.

    >>> import catdiag as cd
    >>> row = RecomputedStages(cd.algorithm("q x")(lambda A: cd.softmax(A, "x")).diagram)
    >>> [row.segment_diagram(k, k + 1).boxes[-1].name for k in range(len(row.stages))]
    ['max[x]', 'sum[x]', 'div']
    >>> [box.name for box in row.segment_diagram(2, 3).boxes]
    ['sub', 'exp', 'div']
    """

    saves: Callable[[Box], bool] = lambda box: False
    """Which products are checkpoints."""
    factors: Callable[[ArrayType], bool] = lambda ty: False
    """Which arrays are checkpoints if products read them: these make no such factors then."""
    checkpoints: list[int] = field(default_factory=list, init=False)
    """The wire that each stage makes."""

    def __post_init__(self) -> None:
        self.opened = True
        super().__post_init__()
        self._crossing: dict[int, tuple[int, ...]] = {}
        self.checkpoints = self._ordered(self._checkpoints())
        self.stages = [[self.maker[w]] for w in self.checkpoints]
        self.stage = {self.maker[w]: k for k, w in enumerate(self.checkpoints)}

    def _checkpoints(self) -> list[int]:
        graph, inputs = self.graph, len(self.graph.dom)
        results = {self.root[w] for w in graph.outputs}
        found = set(results)
        for place, node in enumerate(graph.nodes):
            wire = self.first[place]
            if isinstance(node.box.op, Reduce) or (wire in self.statistics and not elementwise(node.box)):
                found.add(self.root[wire])
            if multiplies(node.box) and self.saves(node.box):
                stage = self.stages[self.stage[place]] if place in self.stage else [place]
                # Of a product of which a function makes a result, the result is saved.
                found |= {self.first[stage[-1]]} & results or {wire}
            if multiplies(node.box):
                found |= {self.root[w] for w in node.inputs if self.factors(self.types[w])}
        return sorted(w for w in found if w >= inputs and not self.free[w])

    def _ordered(self, checkpoints: Collection[int]) -> list[int]:
        """What others need first, in stored order; then the rest, in which arrays with the axes of those needed come
        first and arrays with the same axes follow each other, for kernels to make them together. What is made of
        products that an earlier one is made of too follows on that one, if it can, best on one with the same axes: one
        kernel makes these once."""
        needed = {w for end in checkpoints for w in self._reads(end, checkpoints)}
        before = {name for w in needed for name in self.types[w].names}
        last = [w for w in checkpoints if w not in needed]
        first: dict[frozenset[str], int] = {}
        for w in last:
            first.setdefault(frozenset(self.types[w].names), w)

        def rank(w: int) -> tuple[bool, int, int]:
            axes = frozenset(self.types[w].names)
            return not before <= axes, first[axes], w

        order: list[int] = []
        products = {w: self._products(w, checkpoints) for w in checkpoints}
        for w in (*self._needed(sorted(needed), checkpoints), *sorted(last, key=rank)):
            alike = [k for k, other in enumerate(order) if products[w] & products[other]]
            same = [k for k in alike if set(self.types[order[k]].names) == set(self.types[w].names)]
            reads = [order.index(r) for r in self._reads(w, checkpoints)]
            order.insert(1 + max([max(same or alike or [len(order)]), *reads]), w)
        return order

    def _products(self, wire: int, known: Collection[int]) -> set[int]:
        """The products that a checkpoint is made of, beside what is saved and the one that makes it."""
        places = made_of(self.graph, [wire], {*range(len(self.graph.dom)), *known} - {wire})[0]
        return {p for p in places if p != self.maker[wire] and multiplies(self.graph.nodes[p].box)}

    def _needed(self, needed: Sequence[int], checkpoints: Collection[int]) -> list[int]:
        """What others need, in stored order; where products read it, one kernel makes what it can of that."""
        if not any(self.factors(self.types[w]) for w in needed):
            return list(needed)
        reads = [[needed.index(w) for w in self._reads(end, checkpoints) if w in needed] for end in needed]
        made = [elementwise(self.graph.nodes[self.maker[w]].box) for w in needed]
        return [needed[k] for k in pointwise_first(reads, made)]

    def _reads(self, wire: int, known: Collection[int]) -> list[int]:
        """The checkpoints that one is made of."""
        inputs = range(len(self.graph.dom))
        return [w for w in made_of(self.graph, [wire], {*inputs, *known} - {wire})[1] if w not in inputs]

    def crossing(self, end: int) -> tuple[int, ...]:
        """The checkpoints of the first `end` stages that later ones are made of."""
        if end not in self._crossing:
            graph, known = self.graph, {*range(len(self.graph.dom)), *self.checkpoints[:end]}
            read = made_of(graph, self.checkpoints[end:], known)[1]
            self._crossing[end] = tuple(sorted(w for w in read if w >= len(graph.dom)))
        return self._crossing[end]

    def _is_rearranged(self, wire: int) -> bool:
        """Whether only splitting and merging axes makes a wire of the checkpoint that it is a view of."""
        while wire != self.root[wire]:
            node = self.graph.nodes[self.maker[wire]]
            if not isinstance(node.box.op, Reindex) or node.box.op.kind not in ("split", "merge"):
                return False
            wire = node.inputs[0]
        return True

    def segment_diagram(self, start: int, end: int) -> Diagram:
        """The stages from `start` to before `end` as a diagram, which is the segment's or means the same."""
        return self.arranged(self.segment(start, end).diagram)

    def _segment(self, start: int, end: int) -> Segment:
        own = self.checkpoints[start:end]
        whole = start == 0 and end == len(self.stages)
        # A result that is a view of a checkpoint is made by the kernel: a copy after it would be a kernel more. With
        # axes split or merged it has the same entries in the same order, and is no copy.
        results = [w for w in dict.fromkeys(self.graph.outputs) if self.root[w] in own]
        ends = [*dict.fromkeys(self.root[w] if self._is_rearranged(w) else w for w in results)]
        later = set(self.crossing(end)) - set(ends)
        makes = list(self.graph.outputs) if whole else [*(w for w in own if w in later), *ends]
        inputs = range(len(self.graph.dom))
        places, read = made_of(self.graph, makes, {*inputs, *self.checkpoints[:start]})
        reads = list(inputs) if whole else sorted(read)
        dom = Ty(*(self.types[w] for w in reads))
        names = tuple(self.names[w] for w in reads)
        made = piece(self.graph, dom, places, {w: k for k, w in enumerate(reads)}, makes)
        title = self.diagram.title or "it"
        title = title if whole else f"{title}, boxes {start + 1} to {end}"
        names = names if len(set(names)) == len(names) else ()
        return Segment(of_graph(made.graph, names=names, title=title), tuple(reads), tuple(makes))


def costs_more(box: Box, target: PlanTarget) -> bool:
    """Whether a product takes longer than to save its result and to load it."""
    flops = 2 * math.prod(_lengths(box, target).values())
    rate = max(target.chip.tensor.values(), default=0.0) * target.chip.sustained["tensor"]
    return bool(rate) and flops / rate > round_trip_s(box.cod[0], target)


def round_trip_s(ty: ArrayType, target: PlanTarget) -> float:
    """The seconds to save an array, and to load it once, in two bytes a number."""
    elements = math.prod(size_value(axis.size, target.sizes) for axis in ty.axes)
    return 2 * BYTES["bf16"] * elements / target.chip.sustained_hbm_bytes_per_s


def _lengths(box: Box, target: PlanTarget) -> dict[str, int]:
    return {axis.name: size_value(axis.size, target.sizes) for ty in box.dom for axis in ty.axes}


def recomputed_rows(
    row: StageSequence, saved: Collection[int], seconds: float, target: PlanTarget
) -> list[RecomputedStages]:
    """The rows of the same diagram that recompute arrays which a plan of `row` saves, where to save and load these
    takes more than `WORTH` of its time: with all products as checkpoints, and with those only that cost more than that;
    and, from `WORTH_OF_FACTORS` on, with what products read as checkpoints too, but for arrays larger than all inputs
    and results, as scores are.

    There are none of a diagram with uninterpreted boxes.
    """
    if has_generators(row.diagram):
        return []
    graph, ends = row.graph, {row.root[w] for w in row.graph.outputs}
    spared = {}
    for w in saved:
        box = graph.nodes[row.maker[w]].box
        if w not in ends and w not in row.statistics and not isinstance(box.op, Reduce):
            spared[w] = box
    found: list[RecomputedStages] = []
    arranged = partial(_joined_first, then=row.arranged)
    for saves in (multiplies, partial(costs_more, target=target)):
        gain = sum(
            round_trip_s(row.types[w], target) for w, box in spared.items() if not (multiplies(box) and saves(box))
        )
        if gain > WORTH * seconds:
            made = RecomputedStages(row.diagram, saves=saves, arranged=arranged)
            if len(made.stages) > 1 and all(made.checkpoints != other.checkpoints for other in found):
                found.append(made)
                if merged_early(made.diagram, target.sizes) is not made.diagram:
                    early = partial(merged_early, sizes=target.sizes)
                    found.append(replace(made, arranged=partial(_joined_first, then=early)))
    most = max((round_trip_s(ty, target) for ty in (*graph.dom, *row.diagram.cod)), default=0.0)
    saved_s = {w: round_trip_s(row.types[w], target) for w in spared}
    read = {row.root[w] for node in graph.nodes if multiplies(node.box) for w in node.inputs}
    if sum(s for w, s in saved_s.items() if w not in read or s > most) > WORTH_OF_FACTORS * seconds:
        small = partial(_is_small, target=target, most_s=most)
        saves = partial(costs_more, target=target)
        found.append(RecomputedStages(row.diagram, saves=saves, factors=small, arranged=arranged))
    return found


def _joined_first(kernel: Diagram, then: Callable[[Diagram], Diagram]) -> Diagram:
    """A kernel in an arrangement, with axes joined, and under one name, before; what is read at positions is computed
    of what is read there."""
    views = (box.op for box in kernel.boxes if isinstance(box.op, View))
    for name in dict.fromkeys(n for view in views if len(view.reads) == 1 for n, _ in view.reads[0].at):
        kernel = reads_before_maps(kernel, name)
    return then(joined(with_one_name(kernel)))


def _is_small(ty: ArrayType, target: PlanTarget, most_s: float) -> bool:
    return round_trip_s(ty, target) <= most_s


def saves_more(row: StageSequence, saved: Iterable[int], target: PlanTarget) -> bool:
    """Whether one of some arrays of a row takes more memory than inputs and results together. Windows of arrays do not
    count: they are longer by a factor that does not grow."""
    outside = sum(round_trip_s(ty, target) for ty in (*row.graph.dom, *row.diagram.cod))
    computed = [w for w in saved if not isinstance(row.graph.nodes[row.maker[w]].box.op, INDEX_MAPS)]
    return max((round_trip_s(row.types[w], target) for w in computed), default=0.0) > outside
