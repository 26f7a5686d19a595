"""What the counting machine reads off a graph before it runs: the readers of each array, and what is rematerialized."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from catdiag.category.diagram import Graph
from catdiag.category.op_facts import elementwise, is_reshape, reduced_axes
from catdiag.category.ops import INDEX_MAPS, NULLARY, REDUCTIONS, Box, FoldOp, GroupOp, Map, Reduce
from catdiag.category.substitution import inline
from catdiag.schedule.access_region import PickedElements, TileWindow


def is_view(box: Box) -> bool:
    """Whether a box only shows the elements of its input in another way, without a copy.

    These are a renaming or transposition, a product axis split or merged, a reduction over an axis of length 1, and an
    array that is read in place.
    """
    if isinstance(box.op, TileWindow):
        return not isinstance(box.op, PickedElements)
    return is_reshape(box) or (isinstance(box.op, Reduce) and box.size_of(box.op.axis) == 1)


class Outline:
    """Boxes of a graph that run as one kernel or loop body: the readers of each array, views, and rematerialization.

    The boxes are those at `places`. `rematerialized` tells which arrays are rematerialized: computed where they are
    read, and never stored. `states` is the number of loop states among the inputs of a loop's body, and
    `outputs_retained` tells whether the outputs are the new states of a loop. `base` gives for each wire the array that
    it is a view of, `read_in_region` the wires read in place, `direct` the readers of each wire, `leaving` the arrays
    that outside boxes or outputs read, and `reads` how often an array is read.
    """

    def __init__(
        self,
        graph: Graph,
        places: Sequence[int],
        rematerialized: Mapping[int, bool],
        states: int,
        outputs_retained: bool,
    ) -> None:
        self.graph, self.places, self.states, self.outputs_retained = graph, places, states, outputs_retained
        self.types = graph.wire_types()
        self.first: list[int] = []
        self.maker: dict[int, int] = {}
        number = len(graph.dom)
        for place, node in enumerate(graph.nodes):
            self.first.append(number)
            self.maker.update(dict.fromkeys(range(number, number + len(node.box.cod)), place))
            number += len(node.box.cod)
        inside = set(places)
        self.base = list(range(number))
        self.read_in_region: set[int] = set()  # what is read in place
        self.direct: list[list[int]] = [[] for _ in range(number)]
        self.leaving: set[int] = set()
        self.rematerialized = {**dict.fromkeys(range(len(graph.dom)), False), **rematerialized}
        for place, node in enumerate(graph.nodes):
            view = is_view(node.box)
            for w in node.inputs:
                if place in inside:
                    self.direct[w].append(place)
                elif not view:
                    self.leaving.add(self.base[w])
            for k, ty in enumerate(node.box.cod):
                w = self.first[place] + k
                self.base[w] = self.base[node.inputs[0]] if view else w
                if view and (isinstance(node.box.op, TileWindow) or node.inputs[0] in self.read_in_region):
                    self.read_in_region.add(w)
                if w not in self.rematerialized:
                    each = elementwise(node.box) or isinstance(node.box.op, INDEX_MAPS)
                    closed = all(self.rematerialized.get(v, False) for v in node.inputs) and (
                        view or each or not ty.axes
                    )
                    loop = isinstance(node.box.op, (FoldOp, GroupOp))
                    self.rematerialized[w] = isinstance(node.box.op, NULLARY) or (closed and not loop)
        self.leaving.update(self.base[w] for w in graph.outputs)
        # Counts reads of an array and of its views. New states are read once more, at the end of the loop body.
        self.reads: Counter[int] = Counter()
        for place in places:
            if not is_view(graph.nodes[place].box):
                self.reads.update(self.base[w] for w in graph.nodes[place].inputs)
        if outputs_retained:
            self.reads.update(self.base[w] for w in graph.outputs)

    def output_wires(self, place: int) -> range:
        """The wires that a box makes."""
        return range(self.first[place], self.first[place] + len(self.graph.nodes[place].box.cod))

    def left_inside(self, place: int) -> frozenset[int]:
        """The arrays that the loop at `place` leaves to loops inside its body.

        Only inner loops read such an array there: along their own axes, or by leaving it to loops inside them in turn.
        A loop that skips blocks leaves none.
        """
        # No deeper than loops are within loops.
        op = self.graph.nodes[place].box.op
        if not isinstance(op, FoldOp) or op.bounds is not None or op.is_live is not None:
            return frozenset()
        step, states = inline(op.step).graph, op.state_count
        inside = Outline(step, range(len(step.nodes)), {}, states, True)
        read: set[int] = set()
        kept = {inside.base[w] for w in step.outputs}
        for at, node in enumerate(step.nodes):
            if is_view(node.box) and not isinstance(node.box.op, TileWindow):
                continue
            loop = node.box.op
            further = inside.left_inside(at)
            for k, w in enumerate(node.inputs):
                read.add(inside.base[w])
                along = isinstance(loop, FoldOp) and node.box.dom[k].axis(loop.axis) is not None
                if not (along or inside.base[w] in further):
                    kept.add(inside.base[w])
        found: dict[int, bool] = {}
        for k, w in enumerate(self.graph.nodes[place].inputs):
            left = states + k in read - kept
            found[self.base[w]] = found.get(self.base[w], True) and left
        return frozenset(w for w, only in found.items() if only)

    def host(self, place: int) -> int | None:
        """The place of the elementwise box that a reduction accumulates into, or None."""
        op = self.graph.nodes[place].box.op
        if not isinstance(op, REDUCTIONS) or is_view(self.graph.nodes[place].box):
            return None
        w = self.first[place]
        if len(self.direct[w]) != 1:
            return None
        node = self.graph.nodes[self.direct[w][0]]
        if not isinstance(node.box.op, Map) or len(set(node.inputs)) != 2 or len(node.inputs) != 2:
            return None
        other = node.inputs[0] if node.inputs[1] == w else node.inputs[1]
        if self._goes_into(w, other) and not (other > w and self._goes_into(other, w)):
            return self.direct[w][0]
        return None

    def _goes_into(self, w: int, target: int) -> bool:
        """Whether array `w` can be accumulated directly into array `target`; both are operands of one box."""
        if w in self.leaving or w not in self.maker or self.direct[w] != self.direct[target][-1:]:
            return False
        source, (place,) = self.graph.nodes[self.maker[w]], self.direct[w]
        if target in source.inputs:
            return False
        box = source.box
        host = self.graph.nodes[place].box
        if not isinstance(box.op, REDUCTIONS) or not reduced_axes(box) or host.op != Map(box.op.combines):
            return False
        made_here = target < self.states or (self.maker.get(target) in self.places and self.base[target] == target)
        viewed = any(is_view(self.graph.nodes[p].box) for p in self.direct[target])
        ends = self.outputs_retained and target in self.leaving
        axes = {frozenset(t.names) for t in (*host.dom, *host.cod)}
        return made_here and not viewed and not ends and not self.rematerialized[target] and len(axes) == 1
