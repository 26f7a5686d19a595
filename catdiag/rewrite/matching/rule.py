"""A user's own rewrite rules: an equation proved once, for all sizes, and applied wherever its left side occurs.

Occurrences are found in the diagram as a hypergraph of boxes (`subgraph_search`), so that interchange, symmetry,
copying and discarding make no difference. Then its axes, sizes and weaved axes are unified with the rule's (`unify`),
and the hypotheses of the rule are checked. Applying a rule gives a derivation, with a theorem about the whole diagram
that the kernel checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from catdiag.category.box_types import check
from catdiag.category.diagram import Diagram, HasDiagram, diagram_of
from catdiag.category.substitution import inline
from catdiag.prover.api import Undecided, in_time, prove
from catdiag.prover.assumptions import OfSizes
from catdiag.prover.certification import parse_assumption
from catdiag.rewrite.derivation import Derivation, derivation_of, titled
from catdiag.rewrite.matching.rule_application import Equation, Match, RuleApplication, disjoint, free_names
from catdiag.rewrite.matching.rule_theorem import proved
from catdiag.rewrite.matching.splice import Origins
from catdiag.rewrite.matching.subgraph_search import Wiring
from catdiag.rewrite.steps import ApplyRule as RuleStep
from catdiag.util.errors import CatdiagError, MatchUndecided, NoMatch, SignatureError


@dataclass(frozen=True, repr=False)
class Rule(Equation):
    """An equation `lhs = rhs` with its theorem, applied from left to right. Made by `cd.rule`."""

    def __repr__(self) -> str:
        more = "".join(
            f", {key}={value!r}"
            for key, value in (("assume", self.assume), ("name", self.name), ("variables", self.variables))
            if value
        )
        return f"rule({self.lhs!r}, {self.rhs!r}{more})"

    # -- matching --------------------------------------------------------------------------------

    def matches(self, diagram: Diagram | HasDiagram, assume: Sequence[str] = ()) -> list[Match]:
        """The matches of the rule, in the stored order of the boxes; matches may overlap.

        `assume` are assumptions about the diagram's sizes, from which those of the rule must follow.

        >>> import catdiag as cd
        >>> twice = cd.rule(cd.algorithm("")(lambda a: a + a), cd.algorithm("")(lambda a: 2 * a))
        >>> f = cd.algorithm("q x")(lambda A: cd.exp(A + A) + cd.sum(A, "x"))
        >>> [str(match) for match in twice.matches(f)][0].split(" ")[0]
        'add'

        Raises MatchUndecided where the search exceeds its work limit.
        """
        with RuleApplication(self, diagram_of(diagram), assume) as attempt:
            return attempt.matches()

    def explain(self, diagram: Diagram | HasDiagram, assume: Sequence[str] = ()) -> str:
        """Where the rule matches, or why it does not: the box without a partner, or the reason at the nearest place.

        >>> import catdiag as cd
        >>> twice = cd.rule(cd.algorithm("")(lambda a: a + a), cd.algorithm("")(lambda a: 2 * a), name="twice")
        >>> print(twice.explain(cd.algorithm("x", name="f")(lambda A: A * A)))
        twice does not match f: no box of the diagram is add (...) of the rule
        """
        with RuleApplication(self, diagram_of(diagram), assume) as attempt:
            found = attempt.matches()
            if not found:
                return attempt.reason()
            places = "place" if len(found) == 1 else "places"
            return "\n".join([f"{self.title} matches {attempt.where} in {len(found)} {places}:",
                              *(f"  {k}: {match}" for k, match in enumerate(found))])  # fmt: skip

    # -- rewriting ---------------------------------------------------------------------------------

    def apply(
        self,
        diagram: Diagram | HasDiagram,
        at: int | None = None,
        everywhere: bool = False,
        assume: Sequence[str] = (),
        most: int = 1000,
        limit: float | None = None,
    ) -> Derivation:
        """The diagram with the right side in place of one match: the first, or number `at` of `matches`.

        With `everywhere`, all matches are rewritten, and those that this creates, until none is left; more than `most`
        rewrites are an error. The theorem of the derivation says that the whole diagram means the same as before.
        `assume` are assumptions about its sizes, `limit` is the time of its proof in seconds (None: no limit). Named
        boxes are inlined where a match reaches into them.

        >>> import catdiag as cd
        >>> twice = cd.rule(cd.algorithm("")(lambda a: a + a), cd.algorithm("")(lambda a: 2 * a))
        >>> f = cd.algorithm("q x")(lambda A: cd.exp(A + A))
        >>> done = twice.apply(f)
        >>> [box.name for box in done.diagram.boxes], done.theorem.conditional
        (['2', 'mul', 'exp'], False)

        Raises NoMatch with the reason (see `explain`), Undecided if the equation of the whole was not proved,
        Interrupted if its proof takes longer than `limit`, MatchUndecided where a search exceeds its work limit or the
        rewriting does not terminate.
        """
        if everywhere and at is not None:
            raise CatdiagError("give `at` for one match or `everywhere` for all of them, not both")
        start = derivation_of(diagram)
        assume = (*start.assume, *(OfSizes(a, parse_assumption(a)) for a in assume if a not in start.assume))
        # Nothing is known of which boxes in a loop or group come from the source.
        known = start.unchanged[1] if start.unchanged is not None and start.unchanged[0] is start.diagram else None
        if everywhere:
            now, origins = self._everywhere(start, assume, known, most)
        else:
            attempt = RuleApplication(self, start.diagram, assume, start.ask)
            now, origins, _ = attempt.rewritten([self._match(attempt, at)], known)
        made = titled(now, f"{start.diagram.title or 'it'}, {self.title}")
        check(made)
        unchanged = origins if known is not None or not start.steps else None
        work = partial(proved, start.ask, start.source, made, assume, unchanged, self.title)
        theorem = in_time(limit, f"the proof that {made.title or 'it'} means the same as before", work)
        return start.then(
            RuleStep(self.title),
            made,
            theorem,
            ungrouped=start.ungrouped if start.groups else made,
            assume=assume,
            unchanged=None if unchanged is None else (made, unchanged),
        )

    def _match(self, attempt: RuleApplication, at: int | None) -> Match:
        """The first match, or number `at`. Raises NoMatch."""
        found = attempt.matches()
        if not found:
            raise NoMatch(attempt.reason())
        if at is not None and not 0 <= at < len(found):
            raise NoMatch(
                f"{self.title} matches {attempt.where} in {len(found)} places, counted from 0: no number {at}"
            )
        return found[at or 0]

    def _everywhere(
        self, start: Derivation, assume: Sequence[str], origins: Origins | None, most: int
    ) -> tuple[Diagram, Origins | None]:
        """The diagram without a match left, and what it shares with the source. Raises NoMatch, MatchUndecided."""
        now, rewrites = start.diagram, 0
        while True:
            attempt = RuleApplication(self, now, assume, start.ask)
            found = attempt.matches()
            if not found and not rewrites:
                raise NoMatch(attempt.reason())
            if not found:
                return now, origins
            chosen = disjoint(found, attempt.site)
            if rewrites + len(chosen) > most:
                raise MatchUndecided(
                    f"after {rewrites} rewrites {self.title} still matches: it seems to undo what it does, "
                    "or give a larger number as `most`"
                )
            now, origins, count = attempt.rewritten(chosen, origins)
            rewrites += count


def rule(
    lhs: Diagram | HasDiagram,
    rhs: Diagram | HasDiagram,
    assume: Sequence[str] = (),
    name: str = "",
    variables: Sequence[str] = (),
    limit: float | None = None,
) -> Rule:
    """The rule that rewrites `lhs` to `rhs`, after it is proved that they are equal for all sizes.

    `assume` adds hypotheses about sizes and inputs. Those about sizes must follow wherever the rule is applied; those
    about inputs are shown where the theorem about the whole diagram is. `variables` names functions of
    `cd.apply` that stand for any scalar function, and boxes of `cd.box` that stand for any box; others mean themselves.
    Names of axes are always variables, and the whole left side may be weaved over further axes. `limit` is the time of
    the proof in seconds (None: no limit).

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

    Raises what `cd.prove` raises where the equation is not proved (Refuted, Undecided, TypeMismatch); Undecided where
    its hypotheses are contradictory (`Theorem.vacuous`); SignatureError for a left side without boxes that take arrays,
    or variables that it does not have.
    """
    left, right = diagram_of(lhs, "the left side"), diagram_of(rhs, "the right side")
    if isinstance(variables, str) or isinstance(assume, str):
        raise SignatureError('variables and assumptions are lists of texts: variables=["f"], assume=["n >= 2"]')
    theorem = prove(left, right, assume, limit)
    if theorem.vacuous:
        raise Undecided("the rule is vacuous: no arrays meet its hypotheses", str(theorem))
    made = Rule(left, right, theorem, tuple(assume), name, tuple(variables))
    wiring = Wiring(inline(left).graph)
    if all(wiring.source):
        raise SignatureError(f"the left side {left} has no box that takes an array: there is nothing to look for")
    functions, boxes = free_names(left)
    for variable in variables:
        if variable not in functions | boxes:
            known = ", ".join(sorted(functions | boxes)) or "none"
            raise SignatureError(f"{variable!r} is no cd.apply function and no cd.box of the left side: it has {known}")
    return made
