"""Occurrences of a small diagram in a large one: subgraph search by wiring.

Diagrams are compared as hypergraphs of boxes, which absorb the laws of symmetric monoidal categories and of copy and
discard. An occurrence is an injective map of boxes to boxes with the same operation and the same wiring (axes are
unified afterwards, in `unify`), such that

- a wire inside the pattern is read only by boxes of the occurrence, unless it is an output of the pattern;
- no path leaves the occurrence and enters it again (it is convex), so that it can be taken out as one box.

Boxes without inputs (constants, sizes, positions) are an exception: programs share them. So they match where they are
equal, and stay where others read them.

The search starts at the rarest operation of the pattern and follows wires. It is exact, and its work is bounded: beyond
the bound it raises an error.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from catdiag.category import ops
from catdiag.category.diagram import Graph
from catdiag.category.op_facts import scalar_function
from catdiag.category.ops import Box, op_fact
from catdiag.category.scalars import Apply
from catdiag.util.errors import MatchUndecided, source_place

WORK = 2_000_000
"""The most boxes and wires that one search examines: some seconds."""


@dataclass(frozen=True)
class Variables:
    """Names of the pattern that stand for any scalar function (`cd.apply`) or any box (`cd.box`)."""

    functions: frozenset[str] = frozenset()
    boxes: frozenset[str] = frozenset()

    def is_function(self, box: Box) -> bool:
        """Whether a box of the pattern stands for any scalar function of that many arguments."""
        fn = scalar_function(box.op)
        return isinstance(fn, Apply) and fn.name in self.functions

    def is_box(self, box: Box) -> bool:
        """Whether a box of the pattern stands for any box."""
        return isinstance(box.op, ops.Generic) and box.op.name in self.boxes


def kind(box: Box) -> Hashable:
    """What two boxes must have in common whatever their axes are called: the operation and the numbers of wires."""
    row = op_fact(KINDS, box.op)
    return type(box.op), *(() if row is None else row(box.op)), len(box.dom), len(box.cod)


KINDS: Mapping[type[ops.Op], Callable[[Any], tuple[Hashable, ...]]] = {
    ops.Map: lambda op: (op,),
    ops.Const: lambda op: (op,),
    ops.Generic: lambda op: (op,),
    ops.Reduce: lambda op: (op.monoid,),
    ops.Call: lambda op: (op.name,),
    ops.FoldOp: lambda op: (op.name,),
    ops.GroupOp: lambda op: (op.name,),
    ops.Reindex: lambda op: (op.kind, op.place),
    ops.View: lambda op: (len(op.index_axes), *((len(r.at), len(r.where)) for r in op.reads)),
}
"""The data of an operation that names no axis; none for other operations."""


def only_layout(box: Box) -> bool:
    """Whether a box is a transposition."""
    return box.op == ops.Rename() and len(box.dom) == 1 and len(box.dom[0].axes) == len(box.cod[0].axes)


class Wiring:
    """A flat diagram indexed by wires: the maker and the readers of each. Equal boxes without inputs share their wires.

    With `through`, transpositions are ignored: their results count as the wires that they read, since axes are matched
    by name. `.layout` marks these boxes.
    """

    def __init__(self, graph: Graph, names: Sequence[str] = (), through: bool = False) -> None:
        self.graph, self.names = graph, names
        self.boxes = [node.box for node in graph.nodes]
        self.types = graph.wire_types()
        inputs = len(graph.dom)
        self.maker: list[tuple[int, int]] = [(-1, k) for k in range(inputs)]
        self.first: list[int] = []
        same = list(range(inputs))
        known: dict[Box, int] = {}
        self.source = [not node.inputs for node in graph.nodes]
        self.layout = [through and only_layout(box) for box in self.boxes]
        for place, node in enumerate(graph.nodes):
            start = len(self.maker)
            self.first.append(start)
            if self.layout[place]:
                self.maker.append((place, 0))
                same.append(same[node.inputs[0]])
                continue
            base = known.setdefault(node.box, start) if self.source[place] else start
            for port in range(len(node.box.cod)):
                self.maker.append((place, port))
                same.append(base + port)
        self.same = same
        self.reads = [tuple([same[w] for w in node.inputs]) for node in graph.nodes]
        self.readers: list[list[tuple[int, int]]] = [[] for _ in self.maker]
        self.uses = [0] * len(self.maker)
        for place, read in enumerate(self.reads):
            for position, w in enumerate(() if self.layout[place] else read):
                self.readers[w].append((place, position))
                self.uses[w] += 1
        self.leaves = {same[w] for w in graph.outputs}
        for w in graph.outputs:
            self.uses[same[w]] += 1

    def outs(self, place: int) -> range:
        """The wires that the node makes."""
        start = self.first[place]
        return range(start, start + len(self.boxes[place].cod))


@dataclass(frozen=True)
class SearchStep:
    """How the search reaches a box of the pattern: freely, or along a wire from a box that was found.

    `by` is "any", "maker" (the box makes input `position` of box `other`), "reader" (its input `position` is output
    `port` of `other`) or "input" (its input `position` is input `other` of the pattern).
    """

    box: int
    by: str = "any"
    other: int = -1
    position: int = 0
    port: int = 0


@dataclass(frozen=True)
class Occurrence:
    """An occurrence of a pattern: the place of each of its boxes, and the wire of each of its inputs (−1: not read)."""

    places: tuple[int, ...]
    inputs: tuple[int, ...]


@dataclass
class Nearest:
    """The partial occurrence that matched most boxes, and the reason why it ended there."""

    matched: int = -1
    places: tuple[int, ...] = ()
    reason: str = ""

    def note(self, found: int, places: Sequence[int], reason: str) -> None:
        """Keeps an attempt if it matched more boxes than the earlier ones."""
        if found > self.matched:
            self.matched, self.places, self.reason = found, tuple(places), reason


@dataclass
class PatternSearch:
    """The search for all occurrences of a pattern in a diagram. Unless `strict`, also for those whose inner wires are
    read elsewhere, or that are not convex.
    """

    pattern: Wiring
    site: Wiring
    variables: Variables = field(default_factory=Variables)
    work: int = WORK
    strict: bool = True
    nearest: Nearest = field(default_factory=Nearest)
    settled: set[tuple[int, ...]] = field(default_factory=set)

    def __post_init__(self) -> None:
        index: dict[Hashable, list[int]] = {}
        maps: dict[int, list[int]] = {}
        wide: dict[tuple[int, int], list[int]] = {}
        for place, box in enumerate(self.site.boxes):
            if self.site.layout[place]:
                continue
            index.setdefault(kind(box), []).append(place)
            wide.setdefault((len(box.dom), len(box.cod)), []).append(place)
            if isinstance(box.op, ops.Map):
                maps.setdefault(len(box.dom), []).append(place)
        self.candidates: list[list[int]] = []
        for box in self.pattern.boxes:
            if self.variables.is_function(box):
                self.candidates.append(maps.get(len(box.dom), []))
            elif self.variables.is_box(box):
                self.candidates.append(wide.get((len(box.dom), len(box.cod)), []))
            else:
                self.candidates.append(index.get(kind(box), []))
        # None: every box is a candidate.
        self.op_kinds = [
            frozenset(self.candidates[k]) if len(self.candidates[k]) < len(self.site.boxes) else None
            for k in range(len(self.pattern.boxes))
        ]

    def spend(self, amount: int = 1) -> None:
        """Counts work. Raises MatchUndecided beyond the bound."""
        self.work -= amount
        if self.work < 0:
            raise MatchUndecided(
                f"looking for a pattern of {len(self.pattern.boxes)} boxes in {len(self.site.boxes)} takes too much "
                "work: connect the parts of the pattern, or apply the rule to a smaller diagram"
            )

    def absent(self) -> int | None:
        """The first box of the pattern without a similar box in the diagram; None where each has one."""
        return next((k for k, found in enumerate(self.candidates) if not found), None)

    def plan(self) -> list[SearchStep]:
        """The order in which boxes are searched: along wires, makers before readers; each connected part from its
        rarest box.
        """
        pattern = self.pattern
        left = set(range(len(pattern.boxes)))
        steps: list[SearchStep] = []
        inputs: set[int] = set()
        rank = {"maker": 0, "reader": 1, "input": 2}

        def options(k: int) -> Iterator[SearchStep]:
            for port, w in enumerate(pattern.outs(k)):
                for reader, position in pattern.readers[pattern.same[w]]:
                    if reader not in left:
                        yield SearchStep(k, "maker", reader, position, port)
            for position, w in enumerate(pattern.reads[k]):
                maker, port = pattern.maker[w]
                if maker >= 0 and maker not in left and not pattern.source[maker]:
                    yield SearchStep(k, "reader", maker, position, port)
                elif maker < 0 and w in inputs:
                    yield SearchStep(k, "input", w, position)

        while left:
            known = [min(found, key=lambda s: rank[s.by]) for k in sorted(left) if (found := list(options(k)))]
            if known:
                step = min(known, key=lambda s: (rank[s.by], len(self.candidates[s.box]), s.box))
            else:
                step = SearchStep(min(left, key=lambda k: (pattern.source[k], len(self.candidates[k]), k)))
            steps.append(step)
            left.discard(step.box)
            inputs.update(w for w in pattern.reads[step.box] if pattern.maker[w][0] < 0)
        return steps

    def settle(self, found: Occurrence) -> None:
        """Gives no further occurrences on the same set of boxes."""
        self.settled.add(self._boxes(found.places))

    def _boxes(self, places: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted(p for k, p in enumerate(places) if not self.pattern.source[k]))

    def occurrences(self) -> Iterator[Occurrence]:
        """The occurrences, in the order in which they are found; a set of boxes may occur in several ways (see
        `settle`).
        """
        if self.absent() is not None:
            return
        steps = self.plan()
        places = [-1] * len(self.pattern.boxes)
        inputs = [-1] * len(self.pattern.graph.dom)
        used: dict[int, int] = {}
        # One frame for each step: the remaining candidates, and the inputs that the last candidate has bound.
        frames: list[tuple[Iterator[int], list[int]]] = [(self._tries(steps[0], places, inputs), [])]
        while frames:
            depth = len(frames) - 1
            tries, bound = frames[-1]
            k = steps[depth].box
            if places[k] >= 0:
                if not self.pattern.source[k]:
                    del used[places[k]]
                places[k] = -1
                for i in bound:
                    inputs[i] = -1
                bound.clear()
            place = next(tries, None)
            if place is None:
                frames.pop()
                continue
            self.spend()
            reason = self._fits(k, place, places, inputs, used, bound)
            if reason:
                for i in bound:
                    inputs[i] = -1
                bound.clear()
                self.nearest.note(depth, places, reason)
                continue
            places[k] = place
            if not self.pattern.source[k]:
                used[place] = k
            if len(frames) < len(steps):
                frames.append((self._tries(steps[depth + 1], places, inputs), []))
                continue
            if self.settled and self._boxes(places) in self.settled:
                continue
            reason = self._reentrant_path(used) if self.strict else ""
            if reason:
                self.nearest.note(len(steps), places, reason)
                continue
            yield Occurrence(tuple(places), tuple(inputs))

    def _tries(self, step: SearchStep, places: Sequence[int], inputs: Sequence[int]) -> Iterator[int]:
        """The candidate places for the box of a step, given the places and inputs that are bound so far; notes why
        there are none.
        """
        if step.by == "any":
            return iter(self.candidates[step.box])
        if step.by == "maker":
            w = self.site.reads[places[step.other]][step.position]
            maker, port = self.site.maker[w]
            if maker < 0 or port != step.port:
                other = self.pattern.boxes[step.other].name
                here = self.site.boxes[places[step.other]]
                what = "an input of the diagram" if maker < 0 else f"output {port} of {self.site.boxes[maker].name}"
                wanted = named(self.pattern.boxes[step.box])
                self.nearest.note(
                    sum(p >= 0 for p in places),
                    places,
                    f"{wanted} of the rule makes what {other} reads, and {named(here)} reads {what}",
                )
                return iter(())
            return iter((maker,))
        w = inputs[step.other] if step.by == "input" else self.site.outs(places[step.other])[step.port]
        readers = self.site.readers[w]
        if not readers:
            wanted = named(self.pattern.boxes[step.box])
            self.nearest.note(
                sum(p >= 0 for p in places), places, f"no box reads what {wanted} of the rule should read"
            )
        return iter([place for place, position in readers if position == step.position])

    def _fits(
        self,
        k: int,
        place: int,
        places: Sequence[int],
        inputs: list[int],
        used: dict[int, int],
        bound: list[int],
    ) -> str:
        """Why a box cannot be at a place ("" where it can); binds the inputs of the pattern that it reads."""
        pattern, site = self.pattern, self.site
        box, here = pattern.boxes[k], site.boxes[place]
        allowed = self.op_kinds[k]
        if allowed is not None and place not in allowed:
            return f"{named(box)} of the rule would be {named(here)}"
        if not pattern.source[k] and place in used:
            other = pattern.boxes[used[place]].name
            return f"{named(box)} and {other} of the rule would both be {named(here)}"
        for position, w in enumerate(pattern.reads[k]):
            own = site.reads[place][position]
            maker, port = pattern.maker[w]
            if maker < 0:
                if inputs[w] < 0:
                    inputs[w] = own
                    bound.append(w)
                elif inputs[w] != own:
                    name = self.pattern.names[w]
                    return f"input {name} of the rule is read in two places, and {named(here)} reads another array"
            elif places[maker] >= 0 and site.same[site.outs(places[maker])[port]] != own:
                return f"{named(here)} does not read what {named(site.boxes[places[maker]])} makes"
        for port, w in enumerate(pattern.outs(k)):
            own = site.same[site.outs(place)[port]]
            for reader, position in pattern.readers[pattern.same[w]]:
                if places[reader] >= 0 and site.reads[places[reader]][position] != own:
                    return f"{named(site.boxes[places[reader]])} does not read what {named(here)} makes"
        return self._escapes(k, place) if self.strict else ""

    def _escapes(self, k: int, place: int) -> str:
        """How an inner result of the pattern is used outside of an occurrence; "" where it is not."""
        pattern, site = self.pattern, self.site
        here = named(site.boxes[place])
        for w, own in zip(pattern.outs(k), site.outs(place), strict=True):
            if pattern.source[k] or w in pattern.leaves:
                continue
            if own in site.leaves:
                return f"what {here} makes is a result of the diagram, and stays inside the rule's left side"
            have, wanted = site.uses[own], pattern.uses[w]
            if have != wanted:
                return (
                    f"what {here} makes is read {_times(have)}, by other boxes too: the rule reads it {_times(wanted)}"
                )
        return ""

    def why_not_strict(self, found: Occurrence) -> str:
        """Why an occurrence is not strict; "" where it is."""
        escapes = (self._escapes(k, place) for k, place in enumerate(found.places))
        used = {place: k for k, place in enumerate(found.places) if not self.pattern.source[k]}
        return next(filter(None, escapes), "") or self._reentrant_path(used)

    def _reentrant_path(self, used: dict[int, int]) -> str:
        """A path that leaves the occurrence and enters it again, in words; "" where there is none."""
        if len(used) < 2:
            return ""
        last = max(used)
        # A path that does not leave the occurrence follows wires of the pattern.
        inside = {
            (self.site.same[self.site.outs(place)[port]], reader)
            for place, k in used.items()
            for port, w in enumerate(self.pattern.outs(k))
            for reader in ((p, q) for p, q in self._at(used, self.pattern.readers[self.pattern.same[w]]))
        }
        seen: set[int] = set()
        stack = [(place, place) for place in sorted(used)]
        while stack:
            place, origin = stack.pop()
            for w in self.site.outs(place):
                for reader in self.site.readers[self.site.same[w]]:
                    self.spend()
                    if reader[0] in used:
                        if place in used and (w, reader) in inside:
                            continue
                        through = "" if place in used else f", through {named(self.site.boxes[place])}"
                        return (
                            f"what {named(self.site.boxes[origin])} makes comes back into the match at "
                            f"{named(self.site.boxes[reader[0]])}{through}, beside the wires of the rule"
                        )
                    if reader[0] < last and reader[0] not in seen:
                        seen.add(reader[0])
                        stack.append((reader[0], origin))
        return ""

    @staticmethod
    def _at(used: dict[int, int], readers: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        place_of = {k: place for place, k in used.items()}
        return [(place_of[k], position) for k, position in readers if k in place_of]


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def named(box: Box) -> str:
    """A box by its name and source line."""
    return f"{box.name} ({source_place(box.line).full})" if box.line else box.name
