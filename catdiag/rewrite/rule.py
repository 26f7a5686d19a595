"""A user's own rules: an equation proved once, for all sizes, and used wherever its left side occurs.

An occurrence is found on the diagram as a hypergraph of boxes (`search`), so that interchange, symmetry, copying and
discarding make no difference; then what its axes, sizes and weaved axes are (`unify`), and whether the hypotheses of
the rule hold there. What a rewrite gives is a derivation: its theorem is about the whole diagram, and as always it is
the kernel that says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from catdiag.boxes import Generic, Map
from catdiag.diagram import Diagram, check, inline, of_graph
from catdiag.errors import CatdiagError, MatchUndecided, NoMatch, SignatureError
from catdiag.rewrite.derivation import Derivation, Step
from catdiag.rewrite.search import Occurrence, Search, Variables, Wiring, named
from catdiag.rewrite.splice import Cyclic, Patch, Trail, opened, patch, spliced
from catdiag.rewrite.unify import Clash, Fitted, fit, polynomial, put_sizes
from catdiag.types import Size, show_size, size_symbols

if TYPE_CHECKING:
    from catdiag.prove.api import Theorem
    from catdiag.solvers.z3 import Z3

WHOLE = 150
"""Diagrams of up to so many boxes are proved equal as a whole first; larger ones are cut at arrays that stay."""
PIECE = 24
"""How large the terms between cuts may be, in boxes, each counted as often as it is used."""


@dataclass(frozen=True)
class Match:
    """Where a rule matches: what its boxes, axes and sizes are there, and the axes that all of it is weaved over.

    `.boxes` are names and lines of boxes of the diagram, `.axes` names by the rule's names, `.sizes` texts by the
    rule's symbols, `.weaved` names.
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


@dataclass(frozen=True)
class Rule:
    """An equation `lhs = rhs` with its theorem, to be used from left to right. Made by `cd.rule`."""

    lhs: Diagram
    rhs: Diagram
    theorem: Theorem
    assume: tuple[str, ...] = ()
    name: str = ""
    variables: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The rule's name, or its two sides'."""
        return self.name or f"{self.lhs.title or 'left'} = {self.rhs.title or 'right'}"

    def __str__(self) -> str:
        return f"rule {self.title}\n{self.theorem}"

    def __repr__(self) -> str:
        more = "".join(
            f", {key}={value!r}"
            for key, value in (("assume", self.assume), ("name", self.name), ("variables", self.variables))
            if value
        )
        return f"rule({self.lhs!r}, {self.rhs!r}{more})"

    # -- matching --------------------------------------------------------------------------------

    def matches(self, diagram: Diagram | Derivation, assume: Sequence[str] = ()) -> list[Match]:
        """Where the rule matches, in the stored order of the boxes; matches may overlap.

        `assume` are assumptions about the diagram's sizes, which the rule's own are to follow from.

        >>> import catdiag as cd
        >>> twice = cd.rule(cd.algorithm("")(lambda a: a + a), cd.algorithm("")(lambda a: 2 * a))
        >>> f = cd.algorithm("q x")(lambda A: cd.exp(A + A) + cd.sum(A, "x"))
        >>> [str(match) for match in twice.matches(f)][0].split(" ")[0]
        'add'

        Raises MatchUndecided where the search takes too much work.
        """
        with _Attempt(self, _diagram(diagram), assume) as attempt:
            return attempt.matches()

    def explain(self, diagram: Diagram | Derivation, assume: Sequence[str] = ()) -> str:
        """Where the rule matches, or why it does not: the box without a partner, or what failed at the nearest place.

        >>> import catdiag as cd
        >>> twice = cd.rule(cd.algorithm("")(lambda a: a + a), cd.algorithm("")(lambda a: 2 * a), name="twice")
        >>> print(twice.explain(cd.algorithm("x", name="f")(lambda A: A * A)))
        twice does not match f: no box of the diagram is add (...) of the rule
        """
        with _Attempt(self, _diagram(diagram), assume) as attempt:
            found = attempt.matches()
            if not found:
                return attempt.reason()
            places = "place" if len(found) == 1 else "places"
            return "\n".join([f"{self.title} matches {attempt.where} in {len(found)} {places}:",
                              *(f"  {k}: {match}" for k, match in enumerate(found))])  # fmt: skip

    # -- rewriting ---------------------------------------------------------------------------------

    def apply(
        self,
        diagram: Diagram | Derivation,
        at: int | None = None,
        everywhere: bool = False,
        assume: Sequence[str] = (),
        most: int = 1000,
        limit: float | None = 10.0,
    ) -> Derivation:
        """The diagram with the right side in the place of one match: the first, or number `at` of `matches`.

        With `everywhere`, all matches are rewritten, and those that this makes, until none is left; more than `most`
        rewrites are an error. The derivation's theorem says that the whole diagram means what it meant; `assume` are
        assumptions about its sizes, `limit` is the time in seconds that its proof may take (None: any). Named boxes are
        opened where the match has boxes inside them.

        >>> import catdiag as cd
        >>> twice = cd.rule(cd.algorithm("")(lambda a: a + a), cd.algorithm("")(lambda a: 2 * a))
        >>> f = cd.algorithm("q x")(lambda A: cd.exp(A + A))
        >>> done = twice.apply(f)
        >>> [box.name for box in done.diagram.boxes], done.theorem.conditional
        (['2', 'mul', 'exp'], False)

        Raises NoMatch with the reason (see `explain`), Undecided if the whole equation was not proved,
        Interrupted if its proof takes longer than `limit`, MatchUndecided where a search takes too much work or the
        rewriting comes to no end.
        """
        from catdiag.prove.api import in_time

        if everywhere and at is not None:
            raise CatdiagError("give `at` for one match or `everywhere` for all of them, not both")
        start = diagram if isinstance(diagram, Derivation) else Derivation.start(diagram)
        assume = (*start.assume, *(a for a in assume if a not in start.assume))
        now, origins, rewrites = start.diagram, None, 0
        while True:
            attempt = _Attempt(self, now, assume, start.ask)
            found = attempt.matches()
            if not found and not rewrites:
                raise NoMatch(attempt.reason())
            if not found:
                break
            if not everywhere:
                if at is not None and not 0 <= at < len(found):
                    raise NoMatch(
                        f"{self.title} matches {attempt.where} in {len(found)} places, counted from 0: no number {at}"
                    )
                chosen = [found[at or 0]]
            else:
                chosen = _disjoint(found, attempt.site)
            if rewrites + len(chosen) > most:
                raise MatchUndecided(
                    f"after {rewrites} rewrites {self.title} still matches: it seems to undo what it does, "
                    "or give a larger number as `most`"
                )
            now, origins, count = attempt.rewritten(chosen, origins)
            rewrites += count
            if not everywhere:
                break
        titled = of_graph(now.graph, now.cod, now.names, f"{start.diagram.title or 'it'}, {self.title}")
        check(titled)
        work = partial(_proved, start, titled, assume, origins or {}, self)
        theorem = in_time(limit, f"the proof that {titled.title or 'it'} means what it meant", work)
        step = Step(f"rule {self.title}", titled, theorem)
        plain = not start.groups
        return replace(
            start,
            diagram=titled,
            steps=(*start.steps, step),
            ungrouped=titled if plain else start.ungrouped,
            assume=assume,
        )


def rule(
    lhs: Diagram | Derivation,
    rhs: Diagram | Derivation,
    assume: Sequence[str] = (),
    name: str = "",
    variables: Sequence[str] = (),
) -> Rule:
    """The rule that rewrites `lhs` to `rhs`, once it is proved that they are equal, for all sizes.

    `assume` adds hypotheses about sizes, which must follow wherever the rule is used. `variables` names functions of
    `cd.apply` that stand for any scalar function, and boxes of `cd.box` that stand for any box; others mean
    themselves. In the pattern, names of axes are variables always, and all of it may be weaved over further axes.

    >>> import catdiag as cd
    >>> @cd.algorithm("x, ->")
    ... def lhs(A, c):
    ...     return cd.sum(c * A, "x")
    >>> @cd.algorithm("x, ->")
    ... def rhs(A, c):
    ...     return c * cd.sum(A, "x")
    >>> pull = cd.rule(lhs, rhs, name="pull")
    >>> f = cd.algorithm("q k, q ->")(lambda A, b: cd.max(cd.sum(b * A, "k"), "q"))
    >>> print(pull.apply(f).diagram.boxes[0].name)
    sum[k]

    Raises what `cd.prove` raises where the equation is not proved (Refuted, Undecided, TypeMismatch);
    SignatureError for a left side in which nothing can be found, or variables that it does not have.
    """
    from catdiag.prove.api import prove

    left, right = _diagram(lhs), _diagram(rhs)
    if isinstance(variables, str) or isinstance(assume, str):
        raise SignatureError('variables and assumptions are lists of texts: variables=["f"], assume=["n >= 2"]')
    made = Rule(left, right, prove(left, right, assume), tuple(assume), name, tuple(variables))
    wiring = Wiring(inline(left).graph)
    if all(wiring.source):
        raise SignatureError(f"the left side {left} has no box that takes an array: there is nothing to look for")
    functions, boxes = (_names(inline(left), kind) for kind in (Map, Generic))
    for variable in variables:
        if variable not in functions | boxes:
            known = ", ".join(sorted(functions | boxes)) or "none"
            raise SignatureError(f"{variable!r} is no cd.apply function and no cd.box of the left side: it has {known}")
    return made


def _names(diagram: Diagram, kind: type) -> set[str]:
    """The uninterpreted functions (Map) or boxes (Generic) of a diagram."""
    found = set()
    for box in diagram.boxes:
        if isinstance(box.op, Map) and kind is Map and box.op.fn.startswith("apply:"):
            found.add(box.op.fn.removeprefix("apply:"))
        elif isinstance(box.op, Generic) and kind is Generic:
            found.add(box.op.name)
    return found


def _diagram(given: Diagram | Derivation) -> Diagram:
    if isinstance(given, Derivation):
        return given.diagram
    if not isinstance(given, Diagram):
        raise SignatureError(f"expected a diagram, as @cd.algorithm makes one, not {given!r}")
    return given


# -- one rule at one diagram -------------------------------------------------------------------------------


class _Attempt:
    """A rule being matched against a diagram."""

    def __init__(self, rule: Rule, diagram: Diagram, assume: Sequence[str], ask: Z3 | None = None) -> None:
        from catdiag.prove.api import parse_assumption
        from catdiag.solvers.z3 import Z3

        self.rule, self.diagram = rule, diagram
        self.where = diagram.title or "the diagram"
        self.ask = ask or Z3()
        self._own = ask is None
        self.lhs = Wiring(inline(rule.lhs).graph, rule.lhs.input_names)
        graph, self.trails = opened(diagram)
        self.site = Wiring(graph)
        functions, boxes = (_names(inline(rule.lhs), kind) & set(rule.variables) for kind in (Map, Generic))
        self.variables = Variables(frozenset(functions), frozenset(boxes))
        self.search = Search(self.lhs, self.site, self.variables)
        self.symbols = {s for ty in diagram.dom for a in ty.axes for s in size_symbols(a.size)}
        self.hypotheses = [["le", 1, s] for s in sorted(self.symbols)] + [parse_assumption(a) for a in assume]
        types = {t for node in graph.nodes for t in (*node.box.dom, *node.box.cod)} | set(diagram.dom)
        self.taken = {n for t in types for a in t.axes for n in (a.name, *size_symbols(a.size))}

    def __enter__(self) -> _Attempt:
        return self

    def __exit__(self, *_: object) -> None:
        if self._own:
            self.ask.close()

    def matches(self) -> list[Match]:
        """The matches, in the order of their boxes."""
        total, near = len(self.lhs.boxes), self.search.nearest
        found: list[Match] = []
        for occurrence in self.search.occurrences():
            stage = total
            try:
                fitted = fit(self.lhs, self.site, occurrence, self.variables)
                stage += 1
                made = patch(self.lhs, self.rule.rhs, self.site, fitted, self.taken)
                stage += 1
                self._hypotheses(fitted)
            except Clash as error:
                near.note(stage, occurrence.places, str(error))
                continue
            found.append(self._match(fitted, made))
        return sorted(found, key=lambda m: self._places(m.fitted.occurrence))

    def _places(self, occurrence: Occurrence) -> list[int]:
        return sorted(p for p in occurrence.places if not self.site.source[p])

    def _match(self, fitted: Fitted, made: Patch) -> Match:
        places = self._places(fitted.occurrence)
        sizes = {s: show_size(v) for s, v in fitted.unifier.sizes.items()}
        axes = {name: axis.name for name, axis in fitted.unifier.axes.items()}
        weaved = dict.fromkeys(a.name for row in fitted.weaved for a in row)
        return Match(tuple(named(self.site.boxes[p]) for p in places), axes, sizes, tuple(weaved), fitted, made)

    def _hypotheses(self, fitted: Fitted) -> None:
        """Raises Clash unless the rule's hypotheses, at the sizes here, follow from the diagram's."""
        from catdiag.kernel.check import condition

        known = [condition(c) for c in self.hypotheses]
        for op, left, right in self.rule.theorem.certificate["statement"]["assume"]:
            sides = [put_sizes(_size(s), fitted.unifier.sizes) for s in (left, right)]
            symbols = set().union(*(size_symbols(_size(s)) for s in (left, right)))
            if unknown := sorted(symbols - set(fitted.unifier.sizes)):
                if [op, left] == ["le", 1]:
                    continue
                raise Clash(
                    f"the left side does not say what size {unknown[0]} is, of which the rule assumes something"
                )
            if [op, left] == ["le", 1] and any(set(m) <= self.symbols for m in polynomial(sides[1])):
                continue
            if not self.ask(known, condition([op, *sides])):
                sign = {"le": "≤", "lt": "<", "eq": "="}[op]
                wanted = f"{show_size(_size(left))} {sign} {show_size(_size(right))}"
                here = f"{show_size(sides[0])} {sign} {show_size(sides[1])}"
                also = "" if here == wanted else f", which is {here} here"
                raise Clash(f"the rule assumes {wanted}{also}: that does not follow from the sizes of the diagram; "
                            f"assume={[here.replace('≤', '<=').replace(' = ', ' == ')]!r} says so")  # fmt: skip

    def reason(self) -> str:
        """Why there was no match."""
        absent, near = self.search.absent(), self.search.nearest
        text = f"{self.rule.title} does not match {self.where}"
        if absent is not None:
            return f"{text}: no box of the diagram is {named(self.lhs.boxes[absent])} of the rule"
        lines = [f"{text}: {near.reason or 'nothing of its form is there'}"]
        for k, place in enumerate(near.places):
            if place >= 0:
                lines.append(f"  {self.lhs.boxes[k].name} of the rule was {named(self.site.boxes[place])}")
        return "\n".join(lines)

    # -- rewriting -------------------------------------------------------------------------------

    def rewritten(
        self, chosen: Sequence[Match], origins: dict[Trail, int] | None
    ) -> tuple[Diagram, dict[Trail, int], int]:
        """The diagram with matches rewritten, where its boxes were in the source, and how many matches it were.

        `origins` are the places in the source of the boxes of this diagram, by their trails (None: it is the source).
        Named boxes that no match reaches into stay closed, if each match is still in one piece then.
        """
        if origins is None:
            origins = {trail: place for place, trail in enumerate(self.trails)}
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
            # One by one: what the first match becomes may join boxes that stood apart.
            return self._put(chosen[:1], everything, origins)

    def _put(
        self, chosen: Sequence[Match], reached: set[Trail], origins: dict[Trail, int]
    ) -> tuple[Diagram, dict[Trail, int], int]:
        graph, trails = opened(self.diagram, lambda trail: trail not in reached)
        place_of = {trail: place for place, trail in enumerate(trails)}
        site = Wiring(graph)
        patches = []
        for match in chosen:
            places = tuple(
                -1 if self.site.source[p] else place_of[self.trails[p]] for p in match.fitted.occurrence.places
            )
            reads = [-1] * len(match.patch.reads)
            for k, place in enumerate(places):
                for position, w in enumerate(self.lhs.reads[k]):
                    if self.lhs.maker[w][0] < 0:
                        reads[w] = graph.nodes[place].inputs[position]
            outs: dict[int, int] = {}
            for k, place in enumerate(places):
                if place >= 0:
                    old, new = self.site.outs(match.fitted.occurrence.places[k]), site.outs(place)
                    outs.update(zip(old, new, strict=True))
            fitted = replace(match.fitted, occurrence=Occurrence(places, tuple(reads)))
            replaces = tuple((outs[w], out) for w, out in match.patch.replaces)
            patches.append(replace(match.patch, fitted=fitted, reads=tuple(reads), replaces=replaces))
        made, places_of = spliced(site, patches)
        after = of_graph(made, self.diagram.cod, self.diagram.names, self.diagram.title)
        new_origins = {}
        for trail in opened(after)[1]:
            old_place = places_of[trail[0]]
            source = origins.get((*trails[old_place], *trail[1:])) if old_place >= 0 else None
            if source is not None:
                new_origins[trail] = source
        return after, new_origins, len(chosen)


def _size(data: Any) -> Size:
    """A size from plain data."""
    return (data[0], _size(data[1]), _size(data[2])) if isinstance(data, (list, tuple)) else data


def _disjoint(found: Sequence[Match], site: Wiring) -> list[Match]:
    """Matches that share no box, the first ones first."""
    used: set[int] = set()
    chosen = []
    for match in found:
        places = {p for p in match.fitted.occurrence.places if not site.source[p]}
        if not places & used:
            used |= places
            chosen.append(match)
    return chosen


# -- the theorem -----------------------------------------------------------------------------------------------


def _proved(start: Derivation, after: Diagram, assume: Sequence[str], origins: dict[Trail, int], rule: Rule) -> Theorem:
    """The theorem about the whole diagram. Raises Undecided or AssumptionError."""
    from catdiag.kernel.check import condition
    from catdiag.kernel.terms import FALSE, KernelError
    from catdiag.prove.api import AssumptionError, Undecided, certify_equation, parse_assumption
    from catdiag.prove.find import Open

    source, ask = start.source, start.ask
    goal = ""
    try:
        if assume and ask([condition(parse_assumption(a)) for a in assume], FALSE):
            raise AssumptionError(f"no sizes meet the assumptions {', '.join(assume)}")
        if len(inline(source)) + len(inline(after)) <= 2 * WHOLE:
            try:
                return certify_equation(ask, source, after, assume)
            except (Open, KernelError) as error:
                goal = getattr(error, "goal", str(error))
        pairs = [] if start.steps else _staying(source, after, origins)
        if pairs:
            return certify_equation(ask, source, after, assume, pairs)
    except (Open, KernelError) as error:
        goal = getattr(error, "goal", str(error))
    raise Undecided(
        f"{rule.title} holds, and {source.title or 'the diagram'} was rewritten by it; that the whole diagram means "
        "what it meant was not proved",
        goal,
    )


def _staying(source: Diagram, after: Diagram, origins: dict[Trail, int]) -> list[tuple[int, int]]:
    """Arrays that both diagrams compute by a box that stayed, by their wires, so that no term between them is large.

    Those that no input reaches are left out: what is known of them is what they are.
    """
    before = Wiring(inline(source).graph)
    graph, trails = opened(after)
    now = Wiring(graph)
    # How large the term of each wire is, with the arrays cut through as leaves; 0 where no input reaches.
    weight = [1] * len(graph.dom) + [0] * (len(now.maker) - len(graph.dom))
    pairs = []
    for place, trail in enumerate(trails):
        node = graph.nodes[place]
        generic = isinstance(node.box.op, Generic)
        if not generic and not any(weight[w] for w in node.inputs):
            continue
        old = origins.get(trail)
        for k, w in enumerate(now.outs(place)):
            weight[w] = 1 + sum(weight[v] for v in node.inputs)
            if old is not None and (generic or weight[w] > PIECE):
                pairs.append((before.outs(old)[k], w))
                weight[w] = 1
    return pairs
