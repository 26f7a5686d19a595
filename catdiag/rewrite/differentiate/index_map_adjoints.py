"""Transposes of index maps: what is read at computed positions is added where it was read.

Let a view be `out[y, z] = in[e(y, z)]`. Its transpose is `in'[x] = Σ_{y, z} out'[y, z]` over those (y, z) with
`e(y, z) = x`. Where an index occurs linearly, `e = c·y + r` with r free of y, the equation is solved for it: the
transpose is a view too, which reads at `y = (x − r) / c` where that is an index in range, and is 0 elsewhere. So a
shift, a slice, a reversal, a window, a stride and padding are each transposed to a view, and sums over what is left.
What cannot be solved, such as the positions of a gather, becomes the sum `Σ_y where(e(y) = x, out'[y], 0)`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from catdiag.category.index_maps import (
    Cond,
    Expr,
    Read,
    Reindex,
    View,
    always,
    divided,
    leaves,
    natural,
    plus,
    read_off,
    replaced,
    times,
)
from catdiag.category.ops import INDEX_MAPS, Box, const_box, index_box, reindex_box
from catdiag.category.types import Axis
from catdiag.rewrite.differentiate.linear_maps import Weight, Wires, broadcast, renamed, weighted
from catdiag.rewrite.hash_consed_graph import HashConsedGraph

_FUNCTIONS = {"+": "add", "*": "mul", "//": "floordiv"}


@dataclass(frozen=True)
class Rearrangement:
    """Products and coproducts of axes split, merged, sliced and concatenated; transposed, the inverse with zeros."""

    box: Box

    def push(self, graph: HashConsedGraph, tangents: Wires) -> list[int | None]:
        """The tangents in the new arrangement; zeros for parts of a concatenation that have none."""
        op, zero = self.box.op, graph.const(0)
        assert isinstance(op, Reindex)
        removed = op.removed_axes()
        if all(t is None or not {a.name for a in axes} & set(graph.names(t))
               for t, axes in zip(tangents, removed, strict=True)) and op.kind != "concat":  # fmt: skip
            return [tangents[0]]
        wires = [broadcast(graph, zero if t is None else t, axes) for t, axes in zip(tangents, removed, strict=True)]
        return [_reindexed(graph, op, wires, self.box.line)]

    def pull(self, graph: HashConsedGraph, cotangents: Wires) -> list[int | None]:
        """The cotangents in the old arrangement."""
        op, (g,) = self.box.op, cotangents
        assert isinstance(op, Reindex)
        if g is None:
            return [None] * len(self.box.dom)
        if op.kind == "concat":
            found = []
            for k, ty in enumerate(self.box.dom):
                there = op.axis.name in graph.names(g)
                part = _reindexed(graph, Reindex("slice", op.axis, k), [g], self.box.line) if there else g
                here = [a for a in self.box.cod[0].axes if a.name != op.axis.name]
                found.append(weighted(graph, part, Weight(), here, {*ty.names, op.axis.parts[k].name}))
            return [*found]
        made = {a.name for a in op.added_axes()}
        if op.kind != "slice" and not made & set(graph.names(g)):
            return [g]
        g = broadcast(graph, g, op.added_axes())
        if op.kind == "slice":
            zeros = [broadcast(graph, graph.const(0), [part]) for part in op.axis.parts]
            whole = [g if k == op.place else zero for k, zero in enumerate(zeros)]
            return [_reindexed(graph, Reindex("concat", op.axis), whole, self.box.line)]
        return [_reindexed(graph, Reindex("merge" if op.kind == "split" else "split", op.axis), [g], self.box.line)]


def _reindexed(graph: HashConsedGraph, op: Reindex | View, wires: Sequence[int], line: str | None) -> int:
    return graph.add(reindex_box(op, [graph.types[w] for w in wires], line), wires)


@dataclass(frozen=True)
class Reads:
    """Arrays read at index arithmetic. `wires` are the inputs of the box, index arrays included."""

    box: Box
    wires: Sequence[int]

    def push(self, graph: HashConsedGraph, tangents: Wires) -> list[int | None]:
        """The tangents read at the same positions; 0 is read of arrays that have none."""
        op = self.box.op
        assert isinstance(op, View)
        count = len(op.reads)
        if all(t is None for t in tangents[:count]):
            return [None]
        given = [graph.const(0) if t is None else t for t in tangents[:count]]
        reads = tuple(
            Read(tuple((n, e) for n, e in read.at if n in graph.names(w)), read.where)
            for w, read in zip(given, op.reads, strict=True)
        )
        return [_reindexed(graph, View(op.index_axes, reads, op.fits), [*given, *self.wires[count:]], self.box.line)]

    def pull(self, graph: HashConsedGraph, cotangents: Wires) -> list[int | None]:
        """For each array that is read, the sum of the cotangents of where it is read."""
        op, (g,) = self.box.op, cotangents
        assert isinstance(op, View)
        if g is None:
            return [None] * len(self.wires)
        found = [Transpose(graph, self.box, self.wires, k).of(g) for k in range(len(op.reads))]
        return [*found, *[None] * (len(self.wires) - len(op.reads))]


def linear_in(e: Expr, axis: str) -> tuple[Expr, Expr] | None:
    """The coefficient c and the rest r of `e = c·y + r`, where y is the index of an axis; None where e is not linear.

    >>> linear_in(("+", ("*", 2, ("i", "y")), ("i", "k")), "y"), linear_in(("//", ("i", "y"), 2), "y")
    ((2, ('i', 'k')), None)
    """

    def join(op: str, a: tuple[Expr, Expr] | None, b: tuple[Expr, Expr] | None) -> tuple[Expr, Expr] | None:
        if a is None or b is None:
            return None
        if op == "+":
            return plus(a[0], b[0]), plus(a[1], b[1])
        if op == "*" and 0 in (a[0], b[0]):
            return plus(times(a[0], b[1]), times(a[1], b[0])), times(a[1], b[1])
        return (0, divided(a[1], b[1])) if op == "//" and a[0] == b[0] == 0 else None

    return read_off(e, lambda leaf: (1, 0) if leaf == ("i", axis) else (0, leaf), join)


class Transpose:
    """The transpose of one read of a view: the read number `place` of the box on these wires."""

    def __init__(self, graph: HashConsedGraph, box: Box, wires: Sequence[int], place: int) -> None:
        assert isinstance(box.op, View)
        self.graph, self.box, self.op, self.place = graph, box, box.op, place
        self.own = box.dom[place]
        self.at = dict(self.op.reads[place].at)
        # The axes of the result, under names that the axes which are read at an expression do not have.
        self.names = _distinct(box.cod[0].names, self.at, {n for ty in box.dom for n in ty.names})
        count = len(self.op.reads)
        self.arrays = wires[count:]
        read_by_arrays = {n for w in self.arrays for n in graph.names(w)}
        self.free = [
            a for a in self.op.index_axes
            if a.name not in read_by_arrays and (self.own.axis(a.name) is None or a.name in self.at)
        ]  # fmt: skip
        self.solved: dict[str, Expr] = {}
        self.conditions: list[Cond] = []

    def of(self, g: int) -> int | None:
        """The cotangent of the array that is read, given that of the result."""
        rest = [(name, e) for name, e in self.at.items() if not self._solve(name, e)]
        left = {a.name: self.names[a.name] for a in self.box.cod[0].axes if a.name not in self.solved}
        pairs = {old: new for old, new in left.items() if old != new}
        axes = [Axis(left[a.name], a.size) if a.name in pairs else a for a in self.box.cod[0].axes if a.name in left]
        core, unread = (g, ()) if rest else self._unread_factors(g)
        g = renamed(self.graph, core, pairs, axes)
        factors = tuple(renamed(self.graph, w, pairs, axes) for w in unread)
        arrays = [renamed(self.graph, w, pairs, axes) for w in self.arrays]
        moved = self._view(g, arrays, axes)
        for name, e in rest:
            axis = self.own.axis(name)
            assert axis is not None
            position = self.graph.add(index_box(axis), ())
            hit = self.graph.map("eq", position, self._computed(self._here(e), arrays, axes))
            moved = self.graph.map("where", hit, moved, self.graph.const(0))
        return weighted(self.graph, moved, Weight(factors), axes, self.own.names)

    def _unread_factors(self, g: int) -> tuple[int, tuple[int, ...]]:
        """A cotangent without factors that are the same wherever it is read, and these: inputs, which have values
        everywhere. The gradient of a convolution multiplies what it reads, and reads no products."""
        found: list[int] = []
        while self.graph.function_of(g) == "mul":
            node = self.graph.node(g)
            assert node is not None
            for w, other in (node.inputs, node.inputs[::-1]):
                if self._is_given(w) and self.graph.names(w) and not set(self.graph.names(w)) & set(self.solved):
                    found.append(w)
                    g = other
                    break
            else:
                break
        return g, tuple(found)

    def _is_given(self, wire: int) -> bool:
        """Whether a wire is an input of real numbers, in whatever arrangement."""
        while (node := self.graph.node(wire)) is not None and isinstance(node.box.op, INDEX_MAPS):
            if isinstance(node.box.op, View) and (len(node.box.op.reads) > 1 or node.box.op.reads[0].where):
                return False
            wire = node.inputs[0]
        return node is None and self.graph.types[wire].element == "real"

    def _here(self, e: Expr) -> Expr:
        """An expression of the view, at the positions that were solved for."""
        put: dict[object, Expr] = {("i", old): ("i", new) for old, new in self.names.items()}
        return replaced(e, {**put, **{("i", old): found for old, found in self.solved.items()}})

    def _solve(self, name: str, e: Expr) -> bool:
        """Solves `e = x`, with x the position along the axis that is read, for an index of the result."""
        e, axis = self._here(e), self.own.axis(name)
        for y in self.free:
            parts = None if y.name in self.solved else linear_in(e, self.names[y.name])
            if parts is None or parts[0] == 0 or axis is None:
                continue
            c, r = parts
            down = isinstance(c, int) and c < 0
            step = times(-1, c) if down else c
            sizes = all(isinstance(leaf, (int, str)) for leaf in leaves(step))
            if not sizes or not natural(step) or not always(r):
                continue
            x: Expr = ("i", name)
            offset = plus(r, times(-1, x)) if down else plus(x, times(-1, r))
            found = divided(offset, step)
            put: dict[object, Expr] = {("i", self.names[y.name]): found}
            self.solved = {k: replaced(v, put) for k, v in self.solved.items()}
            self.conditions = [(op, replaced(a, put), replaced(b, put)) for op, a, b in self.conditions]
            self.solved[y.name] = found
            if step != 1:
                self.conditions.append(("eq", times(step, found), offset))
            if found != x or axis.size != y.size:
                self.conditions += [("le", 0, found)] * (not natural(found)) + [("lt", found, y.size)]
            return True
        return False

    def _view(self, g: int, arrays: Sequence[int], axes: Sequence[Axis]) -> int:
        """The cotangent at the positions that were solved for; 0 where the read is not taken, or out of range."""
        reads, count = self.op.reads, len(self.op.reads)
        before = [self._translated(reads[j].where) for j in range(self.place)]
        conditions = (*self._translated(reads[self.place].where), *self.conditions)
        if not self.solved and not conditions and not before:
            return g
        here = set(self.graph.names(g))
        taken = [Read((), where) for where in before]
        taken.append(Read(tuple((n, e) for n, e in self.solved.items() if n in here), conditions))
        taken += [Read()] * bool(conditions)
        wires = [self.graph.const(0)] * len(taken)
        wires[len(before)] = g
        put: dict[object, Expr] = {("w", count + k): ("w", len(taken) + k) for k in range(len(arrays))}
        renumbered = tuple(
            Read(
                tuple((n, replaced(e, put)) for n, e in read.at),
                tuple((op, replaced(a, put), replaced(b, put)) for op, a, b in read.where),
            )
            for read in taken
        )
        used = {leaf for read in renumbered for e in _expressions(read) for leaf in leaves(e)}
        indexed = {self.names[a.name] for a in self.op.index_axes}
        positions = [a for a in self.own.axes if a.name in self.at and ("i", a.name) in used]
        left = [a for a in axes if a.name in indexed and ("i", a.name) in used]
        return _reindexed(self.graph, View((*positions, *left), renumbered), [*wires, *arrays], self.box.line)

    def _translated(self, conditions: Sequence[Cond]) -> tuple[Cond, ...]:
        return tuple((op, self._here(a), self._here(b)) for op, a, b in conditions)

    def _computed(self, e: Expr, arrays: Sequence[int], axes: Sequence[Axis]) -> int:
        """The array of integers that an expression means."""
        known = {a.name: a for a in (*axes, *self.own.axes)}
        count = len(self.op.reads)

        def leaf(v: object) -> int:
            if isinstance(v, int):
                return self.graph.add(const_box(Fraction(v), "int"), ())
            if isinstance(v, str):
                return self.graph.size(v)
            assert isinstance(v, tuple)
            return arrays[v[1] - count] if v[0] == "w" else self.graph.add(index_box(known[v[1]]), ())

        return read_off(e, leaf, lambda op, a, b: self.graph.map(_FUNCTIONS[op], a, b))


def _expressions(read: Read) -> list[Expr]:
    return [*(e for _, e in read.at), *(e for _, a, b in read.where for e in (a, b))]


def _distinct(names: Sequence[str], taken: Mapping[str, Expr], known: Collection[str]) -> dict[str, str]:
    """For each name itself, or a new one if it is in `taken`; new ones are not in `known`."""
    found: dict[str, str] = {}
    used = {*names, *known}
    for name in names:
        new = name
        while new in taken or (new != name and new in used):
            new += "_"
        used.add(new)
        found[name] = new
    return found
