"""A diagram as a row of stages, and its segments: the pieces that it falls into when it is cut into kernels.

A stage is a box at work, as the user wrote it: named boxes stay whole. A function at every index with one array, and
with inputs that have fewer axes (a weight, a bias), goes with the box that makes that array, where it alone reads it:
as many values cross before as after it, so that to cut there gives nothing; and where one box reads its result, it goes
with that box. Not with a sum over one-hot rows, which a kernel may add to memory row by row. To products only functions
of one array are joined, since torch may compute products alone; functions that follow each other are one stage
(`StageSequence._merge_pointwise`). Views, parts of inputs, positions, sizes, and
integers and conditions of inputs are made again wherever they are read. A result that is a view or a part of an input,
a view of another result, or made of positions is a stage: a kernel writes it. An uninterpreted box is a stage of its
own, and what it reads is in memory: a view of other kinds than a transposition is a stage too. A cut is between two
stages of the stored order, and what is read across it is saved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from catdiag.category.diagram import Diagram, Graph, Node, of_graph, reachable
from catdiag.category.graph_writer import GraphWriter, part_of
from catdiag.category.op_facts import elementwise, reverses
from catdiag.category.ops import Box, Call, Einsum, Generic, GroupOp, View, array_name, bodies, numbered
from catdiag.category.substitution import inline
from catdiag.category.types import STORED, ArrayType
from catdiag.planner.operand_layouts import CopiedGraph, with_copies
from catdiag.planner.saved_views import inlined, is_part, saved_views
from catdiag.planner.stage_orders import StageOrder, depth_first, pointwise_first
from catdiag.prover.congruence import has_generators
from catdiag.rewrite.fuse import assigned
from catdiag.schedule.element_widths import cast_type, width
from catdiag.schedule.full_precision import statistics
from catdiag.schedule.live_ranges import is_view, rematerialized, view_roots
from catdiag.schedule.operand_types import result_type, widest_of
from catdiag.schedule.scatter_add import one_hot_sum
from catdiag.schedule.stored_types import element_types, output_names, rest_type

Span = tuple[int, int]
"""The stages of a segment: the first, and that after the last."""


def pointwise(box: Box) -> bool:
    """A function at every index, named or not.

    >>> import catdiag as cd
    >>> f = cd.algorithm("q x, x d -> q d")(lambda A, B: cd.einsum("q x, x d -> q d", cd.nn.relu(A), B))
    >>> [pointwise(box) for box in f.boxes]
    [True, False]
    """
    if not isinstance(box.op, Call):
        return elementwise(box)
    body = inline(bodies(box.op)[0]).graph
    free = rematerialized(body, [False] * len(body.dom))
    return all(elementwise(n.box) or is_view(n.box) or all(free[w] for w in made) for made, n in body.wired())


def _as_wide(box: Box) -> bool:
    """Whether an entry of the results of a function at every index takes as much memory as one of what it reads."""
    return all(not cast_type(box, k) and ty.element == "real" for k, ty in enumerate(box.cod))


def _recomputed(box: Box) -> bool:
    """Whether a box is a function at every index that may be computed where its result is read, for each tile anew: not
    one that makes real numbers of integers, since weights in few bits may be widened once, for all tiles."""
    return pointwise(box) and not (bool(box.cod) and cast_type(box, 0) != "" and box.dom[0].element == "int")


@dataclass(frozen=True)
class Segment:
    """A segment as a diagram, and the wires of the whole that its inputs and outputs are."""

    diagram: Diagram
    reads: tuple[int, ...]
    makes: tuple[int, ...]


@dataclass
class StageSequence:
    """The stages of a diagram in stored order. `opened` opens named boxes first. In the order "depth" each stage comes
    right after what only it needs, so that a kernel may be of stages between which the program says something else;
    with "pointwise", functions of what is made come before further products, so that one kernel makes all of them.
    `arranged` gives the form in which one of several kernels is planned, which means the same. `copying` adds `copies`
    of arrays in other orders of axes to the graph, each a stage (`catdiag.planner.operand_layouts`).

    >>> import catdiag as cd
    >>> made = cd.algorithm("m k, n k -> m n")(
    ...     lambda A, B: cd.einsum("m k, n k -> m n", *(X / s for X, s in [(X, cd.sum(X, "k")) for X in (A, B)])))
    >>> def names(row):
    ...     return [row.graph.nodes[places[-1]].box.name for places in row.stages]
    >>> names(StageSequence(made.diagram)), names(StageSequence(made.diagram, order="depth"))
    (['sum[k]', 'sum[k]', 'div', 'div', 'einsum'], ['sum[k]', 'div', 'sum[k]', 'div', 'einsum'])
    """

    diagram: Diagram
    opened: bool = False
    order: StageOrder = "stored"
    arranged: Callable[[Diagram], Diagram] = lambda kernel: kernel
    copying: Callable[[Graph], CopiedGraph] = CopiedGraph
    stages: list[list[int]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.uncopied = reachable((inline if self.opened else _named_boxes_whole)(self.diagram).graph)
        copied = self.copying(self.uncopied)
        self.graph, self.copies, self.origin = copied.graph, copied.copies, copied.origin
        self.types = self.graph.wire_types()
        graph, inputs = self.graph, len(self.graph.dom)
        self._saved_views = saved_views(graph) | self.copies
        self.free = inlined(graph, self._saved_views)
        self.statistics = statistics(graph)
        self.maker, self.first = graph.makers(), graph.first_wires()
        self._reversed = self._read_in_reverse()
        self.root = self._roots()
        self.stage: dict[int, int] = {}
        waiting: dict[int, list[int]] = {}
        readers: dict[int, set[int]] = {}
        for place, node in enumerate(graph.nodes):
            if not self._light(place):
                for w in node.inputs:
                    readers.setdefault(self.root[w], set()).add(place)
        ends = {self.root[w] for w in graph.outputs}
        for place, node in enumerate(graph.nodes):
            if self._light(place):
                continue
            reads = {self.root[w] for w in node.inputs if not self.free[w]}
            own = set(node.box.cod[0].names if node.box.cod else ())
            large = {w for w in reads if w >= inputs or not set(self.types[w].names) < own}
            (only,) = large if len(large) == 1 else (-1,)
            made = self.maker[only] if only >= 0 else -1
            same = only >= 0 and set(self.types[only].names) == own
            bare = reads == large or not (made in self.stage and self._multiplies(self.stage[made]))
            before = [p for w in sorted(reads) for p in waiting.pop(w, ())]
            out = self.first[place]
            joins = made in self.stage and not (self._is_function(made) or one_hot_sum(graph, only))
            if joins and same and bare and pointwise(node.box) and readers[only] == {place} and only not in ends:
                self.stages[self.stage[made]].append(place)
                self.stage[place] = self.stage[made]
            elif self._is_function(place):
                if before:
                    self.stage.update(dict.fromkeys(before, len(self.stages)))
                    self.stages.append(before)
                self.stage[place] = len(self.stages)
                self.stages.append([place])
            elif (
                ((len(reads) < 2 and made not in self.stage) or (same and bare and _as_wide(node.box)))
                and _recomputed(node.box) and len(readers.get(out, ())) == 1 and out not in ends
            ):  # fmt: skip
                waiting[out] = [*before, place]
            else:
                self.stage.update(dict.fromkeys([*before, place], len(self.stages)))
                self.stages.append([*before, place])
        if self.order != "stored":
            self._order_stages()
        self._sink_parts(readers, ends)
        self._merge_pointwise(readers, ends)
        stages = {w: [self.stage[p] for p in places if p in self.stage] for w, places in readers.items()}
        self._last = {w: max(found) for w, found in stages.items() if found}  # the last stage that reads an array
        self._segments: dict[Span, Segment] = {}
        self._types: dict[str | frozenset[tuple[str, str]], dict[str, str]] = {}
        self._crossing: dict[int, tuple[int, ...]] = {}
        self.names = self._names()

    def _order_stages(self) -> None:
        """Puts stages in an order in which each comes after all that it reads."""
        nodes = self.graph.nodes
        reads: list[list[int]] = []
        for k, places in enumerate(self.stages):
            made = [self.maker[self.root[w]] for p in places for w in nodes[p].inputs if not self.free[w]]
            reads.append([m for m in dict.fromkeys(self.stage[p] for p in made if p in self.stage) if m != k])
        if self.order == "depth":
            order = depth_first(reads, [self._by(w) for w in self.graph.outputs])
        else:
            order = pointwise_first(reads, [all(pointwise(nodes[p].box) for p in places) for places in self.stages])
        places_of = {k: n for n, k in enumerate(order)}
        self.stages = [self.stages[k] for k in order]
        self.stage = {place: places_of[k] for place, k in self.stage.items()}

    def _sink_parts(self, readers: Mapping[int, Collection[int]], ends: AbstractSet[int]) -> None:
        """Puts parts of arrays right before the first stage that reads them, whose kernel may read them in place:
        between other stages they would be copies. `readers` and `ends` are as in `_merge_pointwise`."""
        found: list[int] = []
        for k in reversed(range(len(self.stages))):
            places, made = self.stages[k], [self.first[p] for p in self.stages[k]]
            part = all(p not in self._saved_views and is_part(self.graph.nodes[p].box) for p in places)
            read_in = {self.stage[p] for w in made for p in readers.get(w, ()) if p in self.stage} - {k}
            first = min(map(found.index, read_in)) if part and read_in and not ends & set(made) else 0
            found.insert(first, k)
        self.stages = [self.stages[k] for k in found]
        self.stage = {p: k for k, places in enumerate(self.stages) for p in places}

    def _merge_pointwise(self, readers: Mapping[int, Collection[int]], ends: AbstractSet[int]) -> None:
        """Makes functions at every index one stage that follow each other and of which only the last is read by others:
        to cut between them gives nothing. `readers` are the places that read an array, `ends` arrays that are
        results."""
        blocks: list[list[int]] = []
        for k in reversed(range(len(self.stages))):
            made = [self.first[p] + port for p in self.stages[k] for port in range(len(self.graph.nodes[p].box.cod))]
            read_in = {self.stage[p] for w in made for p in readers.get(w, ()) if p in self.stage} - {k}
            if (
                blocks
                and read_in
                and read_in <= set(blocks[-1])
                and not ends & set(made)
                and self._inlines(k, blocks[-1])
            ):
                blocks[-1].insert(0, k)
            else:
                blocks.append([k])
        self.stages = [[p for k in block for p in self.stages[k]] for block in reversed(blocks)]
        self.stage = {p: k for k, places in enumerate(self.stages) for p in places}

    def _inlines(self, k: int, block: Sequence[int]) -> bool:
        """Whether stages make entries in so many places that each of `k`, a function at every index or a part of an
        array, is read once, or along an axis of a fixed length."""
        nodes, last = self.graph.nodes, self.stages[block[-1]]
        if not all(pointwise(nodes[p].box) for p in last):
            return False
        if not all(pointwise(nodes[p].box) or isinstance(nodes[p].box.op, View) for p in self.stages[k]):
            return False
        own = {name for p in self.stages[k] for ty in nodes[p].box.cod for name in ty.names}
        return all(a.name in own or isinstance(a.size, int) for ty in nodes[last[-1]].box.cod for a in ty.axes)

    def reordered(self, most: int) -> list[StageSequence]:
        """The row with pointwise stages first, and depth first where it has no more than `most` stages, if these are
        other orders."""
        orders: tuple[StageOrder, ...] = ("depth", "pointwise") if len(self.stages) <= most else ("pointwise",)
        found = [self]
        for order in orders:
            row = StageSequence(self.diagram, self.opened, order, arranged=self.arranged, copying=self.copying)
            found += [row] if all(row.stages != other.stages for other in found) else []
        return found[1:]

    def copied(self, sizes: Mapping[str, int]) -> StageSequence | None:
        """The row in stored order with copies of arrays that products would read or write entry by entry, if there are
        such. `sizes` are those of axes."""
        if self.order != "stored":
            return None
        made = replace(self, copying=partial(with_copies, sizes=sizes))
        return made if made.copies else None

    def _names(self) -> dict[int, str]:
        """The names of all arrays: the user's variables, or what makes them; with a number where others that may be
        saved have the same.
        """
        variables = assigned(self.graph.nodes)
        names = dict(enumerate(self.diagram.input_names))
        counts = Counter(names.values())
        for place, node in enumerate(self.graph.nodes):
            for k in range(len(node.box.cod)):
                known = variables.get(node.box.line or "")
                named = known is not None and known[1] is node.box and k == 0
                w, name = self.first[place] + k, known[0] if named and known else array_name(node.box, k)
                names[w] = numbered(name, counts[name])
                counts[name] += self._last.get(w, -1) > self.stage.get(place, 0)  # it may be read across a cut
        return names

    def _roots(self) -> tuple[int, ...]:
        """For each wire, the array that it is a view of; itself, if it is none."""
        if not self._saved_views and not self._reversed:
            return view_roots(self.graph)
        root = list(range(len(self.graph.dom)))
        for place, node in enumerate(self.graph.nodes):
            view = (is_view(node.box) or place in self._reversed) and place not in self._saved_views
            root.extend(root[node.inputs[0]] if view else len(root) for _ in node.box.cod)
        return tuple(root)

    def _read_in_reverse(self) -> frozenset[int]:
        """The places of arrays in reverse order that are no results: what reads one reads the array itself, at other
        positions, so that it is no stage."""
        root, first = view_roots(self.graph), self.first
        ends = {root[w] for w in self.graph.outputs}
        nodes = enumerate(self.graph.nodes)
        return frozenset(place for place, node in nodes if reverses(node.box.op) and first[place] not in ends)

    def _is_function(self, place: int) -> bool:
        return isinstance(self.graph.nodes[place].box.op, Generic)

    def is_function(self, start: int, end: int) -> bool:
        """Whether one of some stages is an uninterpreted box."""
        return any(start <= stage < end for stage in self._functions)

    @cached_property
    def _functions(self) -> list[int]:
        """The stages that are uninterpreted boxes."""
        nodes = self.graph.nodes
        return [k for k, stage in enumerate(self.stages) if any(isinstance(nodes[p].box.op, Generic) for p in stage)]

    def _light(self, place: int) -> bool:
        node = self.graph.nodes[place]
        if place in self._saved_views:
            return False
        made = range(self.first[place], self.first[place] + len(node.box.cod))
        shown = is_view(node.box) or place in self._reversed
        return shown or (bool(made) and all(self.free[w] for w in made))

    def _multiplies(self, stage: int) -> bool:
        """Whether there is a product in a stage, which may be left to torch if nothing else is."""
        return any(isinstance(self.graph.nodes[p].box.op, Einsum) for p in self.stages[stage])

    def crossing(self, end: int) -> tuple[int, ...]:
        """The arrays made by the first `end` stages that later ones read: they cross the cut there."""
        if not self._crossing:
            self._crossing = dict.fromkeys(range(len(self.stages) + 1), ())
            for w in sorted(self._last):
                if self.maker[w] >= 0 and not self.free[w]:
                    for k in range(self._by(w) + 1, self._last[w] + 1):
                        self._crossing[k] += (w,)
        return self._crossing[end]

    def axes_of_results(self, start: int, end: int) -> frozenset[str]:
        """The names of the axes of what the stages from `start` to before `end` make for others."""
        results = (self.root[w] for w in self.graph.outputs)
        made = (w for w in (*self.crossing(end), *results) if start <= self._by(w) < end)
        return frozenset(name for w in made for name in self.types[w].names)

    def saved(self, ends: Iterable[int]) -> tuple[str, ...]:
        """The names of the arrays that are saved where the row is cut before these stages."""
        return tuple(self.names[w] for w in dict.fromkeys(w for end in ends for w in self.crossing(end)))

    def _by(self, w: int) -> int:
        """The stage that makes what a wire carries; -1 for inputs and what is inlined."""
        made = self.maker[self.root[w]]
        return self.stage.get(made, -1)

    def segment_diagram(self, start: int, end: int) -> Diagram:
        """The stages from `start` to before `end` as a diagram, which is the segment's or means the same."""
        own = self.segment(start, end).diagram
        return own if (start, end) == (0, len(self.stages)) else self.arranged(own)

    def segment(self, start: int, end: int) -> Segment:
        """The stages from `start` to before `end`, with the wires that they read and make; in time that is linear in
        the segment."""
        if (start, end) not in self._segments:
            self._segments[start, end] = self._segment(start, end)
        return self._segments[start, end]

    def _segment(self, start: int, end: int) -> Segment:
        graph = self.graph
        inside = {place for stage in self.stages[start:end] for place in stage}
        own = {self.first[p] + k for p in inside for k in range(len(graph.nodes[p].box.cod))}
        needed = {w for w in own if self._last.get(w, -1) >= end}
        results = [w if self.root[w] in own and end == len(self.stages) else -1 for w in graph.outputs]
        outputs = [*sorted(needed), *(w for w in dict.fromkeys(results) if w >= 0 and w not in needed)]
        if end < len(self.stages):
            outputs = list(dict.fromkeys([*outputs, *(self.root[w] for w in graph.outputs if self.root[w] in own)]))
        elif start == 0:
            outputs = list(graph.outputs)
        around = self._around([*(w for p in inside for w in graph.nodes[p].inputs), *outputs], own)
        places = sorted(inside | around)
        made = {self.first[p] + k for p in places for k in range(len(graph.nodes[p].box.cod))}
        dom: dict[int, int] = {} if start or end < len(self.stages) else {w: w for w in range(len(graph.dom))}
        for p in places:
            for w in graph.nodes[p].inputs:
                if w not in made:
                    dom.setdefault(w, len(dom))
        names = tuple(self.names[w] for w in dom)
        names = names if len(set(names)) == len(names) else ()
        title = self.diagram.title or "it"
        whole = start == 0 and end == len(self.stages)
        title = title if whole else f"{title}, boxes {start + 1} to {end}"
        piece = part_of(graph, places, dom, outputs)
        return Segment(of_graph(piece, names=names, title=title), tuple(dom), tuple(outputs))

    def results_of(self, made: Collection[int]) -> Segment | None:
        """The results that are views of what is `made`, or rematerialized, as a diagram; None without such."""
        graph = self.graph
        outputs = [w for w in dict.fromkeys(graph.outputs) if w not in made]
        places = sorted(self._around(outputs, set(made)))
        if not places:
            return None
        own = {self.first[p] + k for p in places for k in range(len(graph.nodes[p].box.cod))}
        dom = list(dict.fromkeys(w for p in places for w in graph.nodes[p].inputs if w not in own))
        piece = part_of(graph, places, dom, outputs)
        return Segment(of_graph(piece, title=f"{self.diagram.title or 'it'}, results"), tuple(dom), tuple(outputs))

    def types_of(self, start: int, end: int, dtype: str | Mapping[str, str]) -> str | dict[str, str]:
        """The types of what a segment reads and makes: of the whole's inputs and results theirs
        (`catdiag.schedule.stored_types.element_types`), of statistics between kernels fp32, or wider, and of what
        else is saved between kernels the type of results.

        >>> import catdiag as cd
        >>> row = StageSequence(cd.algorithm("q x, q -> q x")(lambda A, b: A * b / cd.sum(A, "x")))
        >>> row.types_of(0, 1, "bf16"), row.types_of(1, 2, "bf16")
        ({'A': 'bf16', 'out': 'fp32'}, {'A': 'bf16', 'b': 'bf16', 'sum[x] [q]': 'fp32', 'out': 'bf16'})
        """
        if isinstance(dtype, str) and width(dtype) >= width("fp32"):
            return dtype
        inputs, ends = len(self.graph.dom), dict[int, str]()
        for name, w in zip(output_names(self.diagram), self.graph.outputs, strict=True):
            ends.setdefault(self.root[w], name)

        types, rest = self._types_of_all(dtype), rest_type(dtype)
        copied: dict[int, list[int]] = {}  # the copies of an array
        for place in sorted(self.copies):
            copied.setdefault(self.root[self.graph.nodes[place].inputs[0]], []).append(self.first[place])

        def kind(w: int) -> str:
            w = self.root[w]
            while w not in ends and self.maker[w] in self.copies:
                w = self.root[self.graph.nodes[self.maker[w]].inputs[0]]
            if w >= inputs and w not in ends:
                w = next((result for result in copied.get(w, ()) if result in ends), w)
            if w >= inputs and w not in ends:
                place = self.maker[w]
                cast = cast_type(self.graph.nodes[place].box, w - self.first[place])
                return cast or (widest_of(("fp32", rest)) if w in self.statistics else result_type(rest))
            return types[self.names[w] if w < inputs else ends[w]]

        segment = self.segment(start, end)
        own = (*segment.diagram.input_names, *output_names(segment.diagram))
        wires = (*segment.reads, *segment.makes)
        found = {n: kind(w) for n, w in zip(own, wires, strict=True) if self.types[w].element not in STORED}
        if isinstance(dtype, str):
            return dtype if set(found.values()) <= {dtype} else found
        others = zip(segment.diagram.input_names, segment.reads, strict=True)
        found |= {n: dtype[n] for n, w in others if self.types[w].element in STORED and n in dtype}
        return found or rest

    def _types_of_all(self, dtype: str | Mapping[str, str]) -> dict[str, str]:
        """The types of the inputs and results of the whole."""
        key = dtype if isinstance(dtype, str) else frozenset(dtype.items())
        if key not in self._types:
            self._types[key] = element_types(self.diagram, dtype)
        return self._types[key]

    def composed(self, parts: Iterable[tuple[Span, Diagram]], ordered: bool = False) -> tuple[Diagram, dict[int, int]]:
        """The whole diagram with each segment replaced by a diagram of its type, run as a kernel of its own; and its
        wires that carry the row's. With `ordered`, between segments each array has its axes in the order in which the
        graph without copies has it, and is read in its own.

        >>> import catdiag as cd
        >>> f = cd.algorithm("q x")(lambda A: cd.exp(A) / cd.sum(cd.exp(A), "x"))
        >>> row = StageSequence(f)
        >>> whole, _ = row.composed(((k, k + 1), row.segment_diagram(k, k + 1)) for k in range(len(row.stages)))
        >>> [[b.name for b in box.op.body.boxes] for box in whole.boxes]
        [['exp', 'sum[x]'], ['exp', 'div']]
        """
        writer = GraphWriter(self.graph.dom)
        where = {w: w for w in range(len(self.graph.dom))}
        for span, made in parts:
            segment, flat = self.segment(*span), inline(made)
            if any(isinstance(box.op, GroupOp) for box in flat.boxes):
                inner = flat.graph
            else:
                box = Box(GroupOp((), flat), flat.dom, flat.cod)
                wires = range(len(flat.dom))
                after = range(len(flat.dom), len(flat.dom) + len(flat.cod))
                inner = Graph(flat.dom, (Node(box, tuple(wires)),), tuple(after))
            reads = [writer.cast(where[w], self.types[w]) for w in segment.reads]
            outputs = writer.put(inner, reads)
            if ordered:
                before = [self._uncopied_types[self.origin.get(w, w)] for w in segment.makes]
                outputs = list(map(writer.cast, outputs, before))
            where.update(zip(segment.makes, outputs, strict=True))
        for place in sorted(self._around([w for w in self.graph.outputs if w not in where], set(where))):
            node = self.graph.nodes[place]
            read = [writer.cast(where[w], self.types[w]) for w in node.inputs]
            where.update(enumerate(writer.made(node.box, read), self.first[place]))
        graph = writer.graph(writer.cast(where[w], self.types[w]) for w in self.graph.outputs)
        return of_graph(graph, self.diagram.cod, self.diagram.names, self.diagram.title), where

    @cached_property
    def _uncopied_types(self) -> Sequence[ArrayType]:
        return self.uncopied.wire_types()

    def _around(self, wires: Iterable[int], own: set[int]) -> set[int]:
        """The places of views and values inlined that these wires need, back to arrays."""
        found: set[int] = set()
        todo = list(wires)
        while todo:
            w = todo.pop()
            place = self.maker[w]
            if place < 0 or w in own or place in found or not self._light(place):
                continue
            found.add(place)
            todo.extend(self.graph.nodes[place].inputs)
        return found


def _named_boxes_whole(diagram: Diagram) -> Diagram:
    """The diagram with its own named boxes whole, but for one that is all there is, and those in which there are
    uninterpreted boxes."""
    diagram = inline(diagram, keep=lambda box: not has_generators(bodies(box.op)[0]))
    while len(diagram.boxes) == 1 and isinstance(diagram.boxes[0].op, Call):
        inner = inline(diagram, keep=lambda box, outer=diagram.boxes[0]: box is not outer)  # type: ignore[misc]
        if inner == diagram:
            break
        diagram = inner
    return diagram


def spans(count: int, most: int) -> Sequence[Span]:
    """The segments of a row of `count` stages that have `most` of them at the most."""
    return [(i, j) for i in range(count) for j in range(i + 1, min(count, i + most) + 1)]
