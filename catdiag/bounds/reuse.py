"""The cases of `catdiag.bounds.bound_certificate` in a diagram: its boxes, with paths from inputs and to outputs.

An operand to which a path leads from an input, with all of its indices kept, is a source: its elements are available
only if an array of the path is, and nothing enters the path but by a load. An operand that a box computes from several
arrays, such as a contraction, is a source that is made. The result of a box is a source too. Where a path leads on to
an output, results begun on chip have to be saved. Where none does, elements are either finished in the segment, which
requires whole rows, or are in fast memory at one of its ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from math import factorial, prod

from catdiag.bounds.bound_certificate import BoundSource
from catdiag.bounds.coordinates import Atom, Indices, label
from catdiag.bounds.covering_polytope import OPERANDS, cover
from catdiag.bounds.dataflow import Flow, FlowOperation, Seen, downstream, path, trace
from catdiag.category.ops import ARITHMETIC, Einsum, Map, Reduce
from catdiag.category.types import Size
from catdiag.schedule.element_widths import Widths

DEPTH = 3
"""The longest chain of contractions that is followed."""
SOURCES = 5
"""The most sources of a case."""


@dataclass(frozen=True)
class FoundSource:
    """A source, the origin of its values (`base`), and its coordinates there (`at`, or None if some are not plain).

    A coordinate that is not plain determines an index only where the indices `is_input` are fixed.
    """

    source: BoundSource
    base: tuple[object, ...]
    at: tuple[tuple[Atom, str], ...] | None
    is_input: frozenset[str] = frozenset()
    plain: bool = True


@dataclass(frozen=True)
class Candidate:
    """A case without exponents, and the sizes of its indices.

    `plain` says that each coordinate determines its index without fixing others. `place` is that of the box, and
    `contracts` says that it is a contraction whose products no other box has. `unjoined` are the sources with the
    numbers of their paths as groups.
    """

    box: str
    indices: tuple[str, ...]
    sources: tuple[BoundSource, ...]
    begins: int
    sizes: Mapping[str, Size]
    symmetric: int = 1
    disjoint: tuple[str, ...] = ()
    plain: bool = True
    place: int = -1
    contracts: bool = False
    unjoined: tuple[BoundSource, ...] = ()

    @property
    def covers(self) -> list[tuple[str, ...]]:
        """The indices that each source has."""
        return [s.covers for s in self.sources]


@dataclass(frozen=True)
class _SourceShares:
    """The symmetries of a box.

    At most `points` points are one product. `results` multiplies the available elements of the result. The indices in
    `disjoint` must differ from others.
    """

    points: int = 1
    results: int = 1
    disjoint: tuple[str, ...] = ()


class SourceReader:
    """Derives the cases of one diagram from its flow."""

    def __init__(self, flow: Flow, widths: Widths, outputs: Sequence[str]) -> None:
        self.flow, self.widths = flow, widths
        self.sizes: dict[str, Size] = {}
        self.paths: list[frozenset[int]] = []
        self.twins: dict[int, tuple[int, ...]] = {}
        self.fixed: dict[int, int] = {w: widths.inputs.get(flow.arrays[w].name, 1) for w in flow.inputs}
        self.saved: dict[int, int] = {}
        for w, n in zip(flow.outputs, outputs, strict=True):
            width = widths.outputs.get(n, 1)
            self.saved[w] = min(width, self.saved.get(w, width))
        self.named: dict[int, int] = {}
        for flow_loop in flow.loops:
            for name, *wires in zip(flow_loop.components, flow_loop.starts, flow_loop.ends, strict=False):
                self.named |= {w: widths.named[name] for w in wires if name in widths.named}

    def weight(self, wires: frozenset[int]) -> int:
        """The least size of an element of some arrays, wherever it is stored: bytes, or 1."""
        return min(self._width(w) for w in wires)

    def _width(self, wire: int) -> int:
        if not self.widths.bytes:
            return 1
        found = [v for v in (self.saved.get(wire), self.named.get(wire)) if v is not None]
        root = self.flow.root(wire)
        array = self.flow.arrays[root]
        if array.producer < 0:
            return min([*found, self.fixed.get(root, self.widths.between)])
        act = self.flow.acts[array.producer]
        made = self.widths.by_producer(act.box, act.box.cod[act.results.index(root)])
        return min([*found, made, self.widths.between])

    def path(self, wires: frozenset[int]) -> int:
        """A number for the set of values of some arrays."""
        self.paths.append(wires)
        return len(self.paths) - 1

    # -- sources ---------------------------------------------------------------------------------------------------

    def source(
        self,
        wire: int,
        shown: Mapping[Atom, Indices],
        loops: tuple[int, ...],
        depth: int = 0,
        disjoint: Sequence[str] = (),
    ) -> FoundSource | None:
        """An array as a source, or None.

        It is an input if a path keeps all coordinates `shown`, else an array that is made, else an input with the
        coordinates that a path keeps.
        """
        if not shown:
            return None
        flow = self.flow
        met = trace(flow, wire, shown, whole=True, disjoint=disjoint)
        starts = [w for w in flow.inputs if w in met]
        if starts:
            return self._single_source(min(starts, key=lambda w: (max(map(len, met[w].coordinates.values())), w)), met)
        made = self._produced(met, loops, depth) if depth < DEPTH else None
        if made is not None:
            return made
        some = trace(flow, wire, shown, disjoint=disjoint)
        starts = [w for w in flow.inputs if w in some and some[w].coordinates]
        if not starts:
            return None
        return self._single_source(
            max(starts, key=lambda w: (len({i[0] for i in some[w].coordinates.values()}), -w)), some
        )

    def _single_source(self, start: int, met: Mapping[int, Seen]) -> FoundSource:
        at, wires = met[start].coordinates, path(met, start)
        covers = tuple(dict.fromkeys(index[0] for index in at.values()))
        plain = tuple(sorted((a, i[0]) for a, i in at.items())) if all(len(i) == 1 for i in at.values()) else None
        name = self.flow.arrays[start].name
        given = frozenset(n for index in at.values() for n in index[1:])
        return FoundSource(
            BoundSource(name, covers, self.path(wires), self.weight(wires)), ("input", start), plain, given, not given
        )

    def _produced(self, met: Mapping[int, Seen], loops: tuple[int, ...], depth: int) -> FoundSource | None:
        """The source that a box computes, at the end of a path that keeps all coordinates."""
        flow = self.flow
        for w in sorted(met):
            place = flow.arrays[w].producer
            if place < 0 or not flow.acts[place].unconditional or not isinstance(flow.acts[place].box.op, ARITHMETIC):
                continue
            act, at = flow.acts[place], met[w].coordinates
            if any(v in met for v in act.reads) or any(len(i) != 1 for i in at.values()):
                continue
            ended, passed = self._ended(w, act.loops, loops)
            parts: list[BoundSource] = []
            bases: list[tuple[object, ...]] = []
            plain = True
            for v in act.reads:
                found = self._part(v, at, w, act.loops, ended, depth)
                if found is not None:
                    parts.append(found.source)
                    bases.append(found.base)
                    plain &= found.plain
            covers = tuple(dict.fromkeys(i[0] for i in at.values()))
            chosen = cover(covers, [p.covers for p in parts]) if parts else None
            if chosen is None:
                continue
            twins = self._twins(place)
            wires = path(met, w) | passed | {v for twin in twins for v in self.flow.acts[twin].results}
            symmetric = len(twins) * _exchanges(bases)
            source = BoundSource(
                flow.arrays[w].name,
                covers,
                self.path(wires),
                self.weight(wires),
                (),
                (),
                tuple(parts),
                *chosen,
                symmetric,
            )
            where = tuple(sorted((a, i[0]) for a, i in at.items()))
            return FoundSource(source, ("made", *sorted(bases, key=repr)), where, plain=plain)
        return None

    def _part(
        self, v: int, at: Mapping[Atom, Indices], made: int, loops: tuple[int, ...], ended: frozenset[int], depth: int
    ) -> FoundSource | None:
        """An operand of an array that is made: its indices that the result has, and those summed over to the end."""
        names: dict[Atom, Indices] = {}
        whole: dict[str, Size] = {}
        for atom, extent in self.flow.arrays[v].axes.items():
            name = f"{label(atom)}@{made}"
            names[atom] = at.get(atom, (name,))
            if atom not in at and extent.loops <= ended:
                whole[name] = extent.size
        found = self.source(v, names, loops, depth + 1)
        if found is None:
            return None
        rows = {i[0] for i in at.values()}
        if not found.is_input <= {*rows, *whole}:
            return None
        self.sizes |= whole
        return replace(found, source=_split(found.source, rows, set(whole)))

    def _ended(
        self, wire: int, inside: tuple[int, ...], loops: tuple[int, ...]
    ) -> tuple[frozenset[int], frozenset[int]]:
        """The loops that accumulate an element and are over before a consumer in `loops` reads it.

        An element of array `wire` is made of all iterations of these loops. Gives the loops, and the arrays that carry
        the element from iteration to iteration.
        """
        ended: set[int] = set()
        arrays: frozenset[int] = frozenset()
        for f in inside:
            if f in loops:
                continue
            for end in self.flow.loops[f].ends:
                axes = self.flow.arrays[end].axes
                kept, passed = self.flow.handed_on(f, end)
                if kept == frozenset(axes) and wire in trace(
                    self.flow, end, {a: (label(a),) for a in axes}, whole=True
                ):
                    ended.add(f)
                    arrays |= passed | {end}
        return frozenset(ended), arrays

    # -- cases -----------------------------------------------------------------------------------------------------

    def candidates(self) -> Iterator[Candidate]:
        """The boxes that combine several arrays, each with the ways in which its result may be counted."""
        seen: set[tuple[object, ...]] = set()
        for act in self.flow.acts:
            if not act.unconditional or not isinstance(act.box.op, ARITHMETIC):
                continue
            spaces = [self.flow.arrays[w].axes for w in act.reads]
            atoms = {a: e.size for axes in spaces for a, e in axes.items()}
            if not atoms or _mixed(spaces):
                continue
            if not _outer(self.flow, act) and not isinstance(act.box.op, Reduce):
                continue
            for candidate in self._of_box(act, atoms):
                sizes = tuple(sorted(candidate.sizes.items(), key=repr))
                key = (sizes, candidate.sources, candidate.begins, candidate.symmetric)
                if key not in seen:
                    seen.add(key)
                    yield candidate

    def _of_box(self, act: FlowOperation, atoms: Mapping[Atom, Size]) -> Iterator[Candidate]:
        flow, made = self.flow, act.results[0]
        result = flow.arrays[made]
        summed = [label(a) for a in atoms if a not in result.axes]
        operands: list[FoundSource | None] = []
        for w in act.reads:
            shown: dict[Atom, Indices] = {a: (label(a),) for a in flow.arrays[w].axes}
            operands.append(self.source(w, shown, act.loops, 0, summed))
        known = [f for f in operands if f is not None]
        if not known or (isinstance(act.box.op, Reduce) and not any(f.source.parts for f in known)):
            return
        shares = self._shares(act, operands, atoms)
        if shares is None:
            return
        shown = {a: (label(a),) for a in result.axes}
        ends, passed = downstream(flow, made, shown)
        results: list[tuple[BoundSource | None, int]] = []
        if ends:
            covers = tuple(dict.fromkeys(i[0] for i in ends.values()))
            passed |= {v for twin in self._twins(act.place) for v in flow.acts[twin].results}
            end = BoundSource(
                "result", covers, self.path(passed), self.weight(passed), symmetric=shares.results, result=True
            )
            results.append((end, 1))
        if len(ends) < len(shown):
            whole = self._finished(act, known, shown, shares.results)
            results += [(None, 1)] + ([(whole, 2)] if whole is not None else [])
        name = f"{act.box.name} [{' '.join(dict.fromkeys(a[0] for a in result.axes))}]"
        for last, begins in results:
            unjoined = (*(f.source for f in known), *([last] if last is not None else []))
            sources = self._joined(unjoined)
            if len(sources) <= SOURCES:
                used = {n: s for n, s in self.sizes.items() if n in _mentioned(sources)}
                sizes = {**used, **{label(a): s for a, s in atoms.items()}}
                indices = tuple(label(a) for a in atoms)
                plain = all(f.plain for f in known)
                contracts = isinstance(act.box.op, Einsum) and len(self._twins(act.place)) == 1
                yield Candidate(
                    name, indices, sources, begins, sizes, shares.points, shares.disjoint, plain, act.place, contracts,
                    unjoined,
                )  # fmt: skip

    def _finished(
        self, act: FlowOperation, known: Sequence[FoundSource], shown: Mapping[Atom, Indices], symmetric: int
    ) -> BoundSource | None:
        """The result as a source: finished within the segment from whole rows, or in fast memory at an end of it."""
        rows = {i[0] for i in shown.values()}
        spaces = [self.flow.arrays[w].axes for w in act.reads]
        sums = {label(a) for axes in spaces for a, e in axes.items() if not e.loops & set(act.loops)} - rows
        parts = [_split(found.source, rows, sums) for found in known if found.is_input <= rows | sums]
        covers = tuple(i[0] for i in shown.values())
        chosen = cover(covers, [p.covers for p in parts]) if covers else None
        if chosen is None:
            return None
        own = frozenset(v for twin in self._twins(act.place) for v in self.flow.acts[twin].results)
        group, weight = self.path(own), self.weight(own)
        return BoundSource("result", covers, group, weight, (), (), tuple(parts), *chosen, symmetric, result=True)

    def _joined(self, sources: Sequence[BoundSource]) -> tuple[BoundSource, ...]:
        """The sources with one group for all that share arrays, numbered in order."""
        numbers: list[int] = []
        todo = list(sources)
        while todo:
            source = todo.pop(0)
            numbers.append(source.group)
            todo.extend(source.parts)
        groups: list[tuple[set[int], set[int]]] = []
        for n in numbers:
            touching = [g for g in groups if g[0] & self.paths[n]]
            wires = set(self.paths[n]).union(*(g[0] for g in touching))
            members = {n}.union(*(g[1] for g in touching))
            groups = [g for g in groups if g not in touching] + [(wires, members)]
        order: dict[int, int] = {}
        for k, (_, members) in enumerate(sorted(groups, key=lambda g: min(map(numbers.index, g[1])))):
            order |= dict.fromkeys(members, k)

        def renumbered(source: BoundSource) -> BoundSource:
            return replace(source, group=order[source.group], parts=tuple(map(renumbered, source.parts)))

        return tuple(map(renumbered, sources))

    # -- symmetries: equal products --------------------------------------------------------------------------------

    def _shares(
        self, act: FlowOperation, operands: Sequence[FoundSource | None], atoms: Mapping[Atom, Size]
    ) -> _SourceShares | None:
        """How many points may be one product, by symmetry or because elements coincide; None where it is not known.

        Two operands may be equal arrays if they have the same origin. Where their coordinates are plain, only
        permutations of the indices make two products equal; otherwise any exchange of operands may.
        """
        arrays = [self.flow.arrays[w] for w in act.reads]
        if len(arrays) > OPERANDS:
            return None
        tangled = {group for array in arrays for group in array.aliased}
        exact = {a for array in arrays for a in array.varies - frozenset().union(*array.aliased)}
        varied = {a for array in arrays for a in array.varies}
        if varied != set(atoms) or any(len(group - exact) > 1 for group in tangled):
            return None
        origins = [self._origins(w) for w in act.reads]
        for k, j in combinations(range(len(operands)), 2):
            if (operands[k] is None or operands[j] is None) and origins[k] & origins[j]:
                return None
        count = range(len(operands))
        bases = [("alone", k) if f is None else f.base for k, f in enumerate(operands)]
        swaps = [t for t in permutations(count) if all(bases[k] == bases[t[k]] for k in count)][1:]
        twins = len(self._twins(act.place))
        if not swaps:
            return _SourceShares(1, twins)
        weak = _SourceShares(len(swaps) + 1, twins * (len(swaps) + 1))
        others = (twins - 1) * (len(swaps) + 1)
        sizes = {label(a): s for a, s in atoms.items()}
        # Pairs of indices that must differ: where they are equal, more products may coincide.
        order, disjoint = 1, dict[frozenset[str], str]()
        for swap in swaps:
            images: dict[str, str] = {}
            differ: frozenset[str] | None = None
            for k in count:
                mine, theirs = operands[k], operands[swap[k]]
                if mine is None or theirs is None or mine is theirs:
                    continue
                if mine.at is None or theirs.at is None or [a for a, _ in mine.at] != [a for a, _ in theirs.at]:
                    return weak
                if len(mine.at) != len(arrays[k].axes):
                    return weak
                for (_, old), (_, new) in zip(mine.at, theirs.at, strict=True):
                    if sizes[old] != sizes[new]:
                        return weak
                    if images.setdefault(new, old) != old:
                        differ = frozenset((images[new], old))
            moved = next((frozenset(pair) for pair in images.items() if pair[0] != pair[1]), None)
            if differ is None and moved is not None:
                order += 1
            pair = differ or moved
            if pair is not None:
                disjoint.setdefault(pair, min(pair))
        return _SourceShares(1, order + others, tuple(disjoint.values()))

    def _twins(self, place: int) -> tuple[int, ...]:
        """The boxes that may compute the same products or sums as one, itself included.

        These are the boxes whose operands have the same origins.
        """
        if not self.twins:
            by_key: dict[tuple[object, ...], list[int]] = {}
            for act in self.flow.acts:
                if act.unconditional and (_outer(self.flow, act) or isinstance(act.box.op, Reduce)):
                    bases = []
                    for w in act.reads:
                        shown: dict[Atom, Indices] = {a: (label(a),) for a in self.flow.arrays[w].axes}
                        found = self._from(w, shown)
                        bases.append(found or ("unknown", *sorted(self._origins(w))))
                    op = act.box.op  # a contraction may compute what products and then a sum do
                    kind = op.monoid if isinstance(op, Reduce) else ""
                    by_key.setdefault((kind, *sorted(bases, key=repr)), []).append(act.place)
            self.twins = {p: tuple(places) for places in by_key.values() for p in places}
        return self.twins.get(place, (place,))

    def _from(self, wire: int, shown: Mapping[Atom, Indices]) -> tuple[object, ...] | None:
        """The origin of an array's values: an input to which a path leads, or the operands of a box; else None."""
        met = trace(self.flow, wire, shown, whole=True)
        starts = [w for w in self.flow.inputs if w in met]
        if starts:
            return ("input", min(starts, key=lambda w: (max(map(len, met[w].coordinates.values()), default=0), w)))
        made = [w for w in met if self.flow.arrays[w].producer >= 0]
        if not made:
            return None
        act = self.flow.acts[self.flow.arrays[min(made)].producer]
        return ("made", *sorted(set().union(*(self._origins(v) for v in act.reads))))

    def _origins(self, wire: int) -> set[int]:
        """The inputs and loop states that an array depends on."""
        seen: set[int] = set()
        todo = [wire]
        while todo:
            w = todo.pop()
            if w not in seen:
                seen.add(w)
                place = self.flow.arrays[w].producer
                todo.extend(self.flow.acts[place].reads if place >= 0 else ())
        return {w for w in seen if self.flow.arrays[w].producer < 0}


def _split(source: BoundSource, rows: set[str], sums: set[str]) -> BoundSource:
    """A source as a part: the indices that name a row, those along the row, and the others."""
    covers = tuple(n for n in source.covers if n in rows)
    whole = tuple(n for n in source.covers if n in sums)
    return replace(
        source,
        covers=covers,
        unprojected=whole,
        other=tuple(n for n in source.covers if n not in rows and n not in sums),
    )


def _mixed(spaces: Sequence[Mapping[Atom, object]]) -> bool:
    """Whether an axis is a product of factors in one array and not in another."""
    count: dict[str, set[int]] = {}
    for axes in spaces:
        for name in {n for n, _ in axes}:
            count.setdefault(name, set()).add(sum(n == name for n, _ in axes))
    return any(len(n) > 1 for n in count.values())


def _outer(flow: Flow, act: FlowOperation) -> bool:
    """Whether a box combines arrays none of which has all axes."""
    spaces = [set(flow.arrays[w].axes) for w in act.reads]
    return isinstance(act.box.op, (Map, Einsum)) and all(axes < set().union(*spaces) for axes in spaces)


def _exchanges(bases: Sequence[tuple[object, ...]]) -> int:
    """The number of ways to exchange operands with the same origin."""
    return prod(factorial(sum(a == b for b in bases)) for k, a in enumerate(bases) if a not in bases[:k])


def _mentioned(sources: Sequence[BoundSource]) -> set[str]:
    found: set[str] = set()
    todo = list(sources)
    while todo:
        source = todo.pop()
        found.update((*source.covers, *source.unprojected, *(n for n, _ in source.boxes)))
        todo.extend(source.parts)
    return found
