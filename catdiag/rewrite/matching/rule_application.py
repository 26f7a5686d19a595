"""One rule applied to one diagram: its matches, why there is none, and the diagram after rewriting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from catdiag.category.diagram import Diagram, Graph, of_graph
from catdiag.category.graph_writer import GraphWriter
from catdiag.category.index_maps import show_condition
from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.category.op_facts import scalar_function
from catdiag.category.ops import Box, Call, Generic, bodies
from catdiag.category.scalars import Apply
from catdiag.category.substitution import inline
from catdiag.category.types import show, size_symbols
from catdiag.kernel.checker import condition
from catdiag.prover.api import Theorem, parse_assumption
from catdiag.prover.assumptions import OfSizes
from catdiag.prover.export import size_data, size_of_data
from catdiag.rewrite.matching.splice import Cyclic, Origins, Patch, Trail, opened, patch, spliced
from catdiag.rewrite.matching.subgraph_search import (
    Nearest,
    Occurrence,
    PatternSearch,
    Variables,
    Wiring,
    named,
    only_layout,
)
from catdiag.rewrite.matching.unify import Clash, Fitted, fits, put_sizes
from catdiag.solvers.z3 import Z3
from catdiag.util.errors import MatchUndecided


@dataclass(frozen=True)
class Equation:
    """An equation `lhs = rhs` with its theorem, in which some uninterpreted functions and boxes are variables."""

    lhs: Diagram
    rhs: Diagram
    theorem: Theorem
    assume: tuple[str, ...] = ()
    name: str = ""
    variables: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The rule's name, or the names of its two sides."""
        return self.name or f"{self.lhs.title or 'left'} = {self.rhs.title or 'right'}"

    def __str__(self) -> str:
        return f"rule {self.title}\n{self.theorem}"


@dataclass(frozen=True)
class Match:
    """A match of a rule: its boxes, axes and sizes in the diagram, and the axes that the whole match is weaved over.

    `.boxes` are names and lines of the diagram's boxes. `.axes` gives the diagram's axis for each axis of the rule,
    `.sizes` the diagram's size, as text, for each size symbol of the rule. `.weaved` are names of axes.
    """

    boxes: tuple[str, ...]
    axes: dict[str, str]
    sizes: dict[str, str]
    weaved: tuple[str, ...]
    fitted: Fitted = field(repr=False, compare=False)
    patch: Patch = field(repr=False, compare=False)

    def __str__(self) -> str:
        text = ", ".join(self.boxes)
        renamed = [f"{a} is {b}" for a, b in self.axes.items() if a != b]
        if renamed:
            text += "; " + ", ".join(renamed)
        return text + (f"; over {', '.join(self.weaved)}" if self.weaved else "")


def free_names(diagram: Diagram) -> tuple[set[str], set[str]]:
    """The uninterpreted functions of a diagram, and its uninterpreted boxes, with named boxes opened."""
    boxes = inline(diagram).boxes
    functions = (fn for box in boxes if isinstance(fn := scalar_function(box.op), Apply))
    return {fn.name for fn in functions}, {box.op.name for box in boxes if isinstance(box.op, Generic)}


def _boxes(diagram: Diagram) -> tuple[list[Trail], list[Box]]:
    """The boxes of a diagram, with named ones inlined, and their trails."""
    graph, trails = opened(diagram)
    return trails, [node.box for node in graph.nodes]


class RuleApplication:
    """The matching of a rule against a diagram."""

    def __init__(self, rule: Equation, diagram: Diagram, assume: Sequence[str], ask: Z3 | None = None) -> None:
        self.rule, self.diagram = rule, diagram
        self.where = diagram.title or "the diagram"
        self.ask = ask or Z3()
        self._own = ask is None
        pattern, through = _pattern(inline(rule.lhs).graph)
        self.lhs, self.through = Wiring(pattern, rule.lhs.input_names), through
        # Named boxes without boxes inside are not inlined, so that the recursion here does not depend on nesting.
        self.rhs = inline(rule.rhs, lambda b: not any(isinstance(o.op, Call) for d in bodies(b.op) for o in d.boxes))
        graph, self.trails = opened(diagram)
        self.site = Wiring(graph, through=through)
        functions, boxes = (names & set(rule.variables) for names in free_names(rule.lhs))
        self.variables = Variables(frozenset(functions), frozenset(boxes))
        self.search = PatternSearch(self.lhs, self.site, self.variables)
        self.symbols = {s for ty in set(self.site.types) for a in ty.axes for s in size_symbols(a.size)}
        self.hypotheses = [["le", 1, s] for s in sorted(self.symbols)] + [parse_assumption(a) for a in assume]
        types = {t for node in graph.nodes for t in (*node.box.dom, *node.box.cod)} | set(diagram.dom)
        self.taken = {n for t in types for a in t.axes for n in (a.name, *size_symbols(a.size))}

    def __enter__(self) -> RuleApplication:
        return self

    def __exit__(self, *_: object) -> None:
        if self._own:
            self.ask.close()

    def matches(self) -> list[Match]:
        """The matches, in the order of their boxes."""
        total, near = len(self.lhs.boxes), self.search.nearest
        found: list[Match] = []
        for occurrence in self.search.occurrences():
            try:
                for fitted in fits(self.lhs, self.site, occurrence, self.variables):
                    stage = total + 1
                    try:
                        made = patch(self.lhs, self.rhs, self.site, fitted, self.taken)
                        stage += 1
                        self._hypotheses(fitted)
                    except Clash as error:
                        near.note(stage, occurrence.places, str(error))
                        continue
                    found.append(self._match(fitted, made))
                    self.search.settle(occurrence)
                    break
            except Clash as error:
                near.note(total, occurrence.places, str(error))
        return sorted(found, key=lambda m: self._places(m.fitted.occurrence))

    def _places(self, occurrence: Occurrence) -> list[int]:
        return sorted(p for p in occurrence.places if not self.site.source[p])

    def _match(self, fitted: Fitted, made: Patch) -> Match:
        places = self._places(fitted.occurrence)
        sizes = {s: show(v) for s, v in fitted.unifier.sizes.items()}
        axes = {name: axis.name for name, axis in fitted.unifier.axes.items()}
        weaved = dict.fromkeys(a.name for row in fitted.weaved for a in row)
        return Match(tuple(named(self.site.boxes[p]) for p in places), axes, sizes, tuple(weaved), fitted, made)

    def _hypotheses(self, fitted: Fitted) -> None:
        """Raises Clash unless the rule's hypotheses, with the sizes of the match, follow from the diagram's."""
        known = [condition(c) for c in self.hypotheses]
        for op, left, right in self.rule.theorem.certificate["statement"]["assume"]:
            said = [size_of_data(s) for s in (left, right)]
            sides = [put_sizes(s, fitted.unifier.sizes) for s in said]
            symbols = set().union(*map(size_symbols, said))
            if unknown := sorted(symbols - set(fitted.unifier.sizes)):
                if [op, left] == ["le", 1]:
                    continue
                raise Clash(
                    f"the left side does not say what size {unknown[0]} is, of which the rule assumes something"
                )
            if [op, left] == ["le", 1] and any(set(m) <= self.symbols for m in IntPolynomial.of(sides[1]).terms):
                continue
            if not self.ask(known, condition([op, *sides])):
                wanted, here = show_condition((op, *said)), show_condition((op, *sides))
                also = "" if here == wanted else f", which is {here} here"
                raise Clash(f"the rule assumes {wanted}{also}: that does not follow from the sizes of the diagram; "
                            f"assume={[OfSizes.of([op, *map(size_data, sides)])]!r} says so")  # fmt: skip

    def reason(self) -> str:
        """Why there is no match."""
        absent, near = self.search.absent(), self.search.nearest
        text = f"{self.rule.title} does not match {self.where}"
        if absent is not None:
            return f"{text}: no box of the diagram is {named(self.lhs.boxes[absent])} of the rule"
        loose = self._loosely() if near.matched < len(self.lhs.boxes) else None
        near = loose or near
        lines = [f"{text}: {near.reason or 'nothing of its form is there'}"]
        for k, place in enumerate(near.places):
            if place >= 0:
                lines.append(f"  {self.lhs.boxes[k].name} of the rule was {named(self.site.boxes[place])}")
        return "\n".join(lines)

    def _loosely(self) -> Nearest | None:
        """The nearest place that would be a match but for its surroundings, with the reason; one where the axes unify,
        if any.
        """
        found: Nearest | None = None
        search = PatternSearch(self.lhs, self.site, self.variables, strict=False)
        try:
            for occurrence in search.occurrences():
                found = found or Nearest(0, occurrence.places, search.why_not_strict(occurrence))
                try:
                    next(fits(self.lhs, self.site, occurrence, self.variables), None)
                except Clash:
                    continue
                return Nearest(0, occurrence.places, search.why_not_strict(occurrence))
        except MatchUndecided:
            pass
        return found

    # -- rewriting -------------------------------------------------------------------------------

    def rewritten(self, chosen: Sequence[Match], origins: Origins | None) -> tuple[Diagram, Origins, int]:
        """The diagram with matches rewritten, which of its boxes come from the source, and the number of matches.

        Without `origins`, this diagram is the source. A named box stays closed if no match reaches into it and each
        match is still convex then.
        """
        if origins is None:
            wires = ((trail, k, w) for p, trail in enumerate(self.trails) for k, w in enumerate(self.site.outs(p)))
            origins = Origins(frozenset(self.trails), {(trail, k): w for trail, k, w in wires})
        reached = {
            self.trails[p][:k]
            for m in chosen
            for p in self._places(m.fitted.occurrence)
            for k in range(len(self.trails[p]))
        }
        try:
            return self._put(chosen, reached, origins)
        except Cyclic:
            pass
        everything = {trail[:k] for trail in self.trails for k in range(len(trail))}
        try:
            return self._put(chosen, everything, origins)
        except Cyclic:
            # One at a time: the first replacement may connect boxes that were not connected before.
            return self._put(chosen[:1], everything, origins)

    def _put(self, chosen: Sequence[Match], reached: set[Trail], origins: Origins) -> tuple[Diagram, Origins, int]:
        """The diagram with the chosen matches replaced, named boxes inlined only at the trails `reached`; see
        `rewritten`. Raises Cyclic.
        """
        graph, trails = opened(self.diagram, lambda trail: trail not in reached)
        place_of = {trail: place for place, trail in enumerate(trails)}
        site = Wiring(graph, through=self.through)
        patches = []
        for match in chosen:
            places = tuple(
                -1 if self.site.source[p] else place_of[self.trails[p]] for p in match.fitted.occurrence.places
            )
            reads = [-1] * len(match.patch.reads)
            for k, place in enumerate(places):
                for position, w in enumerate(self.lhs.reads[k]):
                    if self.lhs.maker[w][0] < 0:
                        reads[w] = site.reads[place][position]
                        if site.types[reads[w]] != self.site.types[match.patch.reads[w]]:
                            raise Cyclic  # a transposition is inside a named box that stays closed
            outs: dict[int, int] = {}
            for k, place in enumerate(places):
                if place >= 0:
                    old, new = self.site.outs(match.fitted.occurrence.places[k]), site.outs(place)
                    outs.update(zip(old, new, strict=True))
            fitted = replace(match.fitted, occurrence=Occurrence(places, tuple(reads)))
            replaces = tuple((outs[w], out) for w, out in match.patch.replaces)
            patches.append(replace(match.patch, fitted=fitted, reads=tuple(reads), replaces=replaces))
        made = spliced(site, patches)
        after = of_graph(made.graph, self.diagram.cod, self.diagram.names, self.diagram.title)
        stayed: set[Trail] = set()
        wires: dict[tuple[Trail, int], int] = {}
        for trail, box in zip(*_boxes(after), strict=True):
            place = made.places[trail[0]]
            before = (*trails[place], *trail[1:]) if place >= 0 else ()
            if before in origins.boxes:
                stayed.add(trail)
            for port in range(len(box.cod)):
                if place >= 0:
                    known = origins.wires.get((before, port))
                else:
                    w = made.replaces.get((trail[0], port), -1) if len(trail) == 1 else -1
                    maker, own = site.maker[w] if w >= 0 else (-1, 0)
                    known = origins.wires.get((trails[maker], own)) if maker >= 0 else None
                if known is not None:
                    wires[trail, port] = known
        return after, Origins(frozenset(stayed), wires), len(chosen)


def _pattern(graph: Graph) -> tuple[Graph, bool]:
    """The left side of a rule without transpositions of its results, and whether transpositions are ignored in
    matching.

    They are not ignored where the left side has transpositions inside, since the rule is then about them.
    """
    dropped = {made[0]: node.inputs[0] for made, node in graph.wired() if only_layout(node.box)}
    read = {w for node in graph.nodes for w in node.inputs}
    if any(w in read for w in dropped) or not any(node.inputs and not only_layout(node.box) for node in graph.nodes):
        return graph, False
    names, writer = list(range(len(graph.dom))), GraphWriter(graph.dom)
    for node in graph.nodes:
        inputs = [names[w] for w in node.inputs]
        names.extend(inputs if only_layout(node.box) else writer.made(node.box, inputs))
    return writer.graph(names[w] for w in graph.outputs), True


def disjoint(found: Sequence[Match], site: Wiring) -> list[Match]:
    """Matches that share no box, earlier ones first."""
    used: set[int] = set()
    chosen = []
    for match in found:
        places = {p for p in match.fitted.occurrence.places if not site.source[p]}
        if not places & used:
            used |= places
            chosen.append(match)
    return chosen
