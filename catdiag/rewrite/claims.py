"""Claims about loops, each an equation with the constant true: proved, conditional, refuted or undecided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from catdiag.category.diagram import Diagram
from catdiag.category.ops import Box, Rename
from catdiag.category.types import ArrayType, Ty
from catdiag.kernel.terms import KernelError
from catdiag.prover.api import Interrupted, certify_equation, in_time, refutable, statement_of
from catdiag.prover.refute.counterexample_search import refute
from catdiag.rewrite.list_states import Assembly
from catdiag.util.display import AsHTML

if TYPE_CHECKING:
    from catdiag.prover.api import Theorem
    from catdiag.prover.condition_formulas import Condition
    from catdiag.prover.refute.counterexample_data import Counterexample
    from catdiag.solvers.z3 import Z3


@dataclass(frozen=True)
class Verdict(AsHTML):
    """The outcome of a claim: `.verdict` is "proved", "conditional", "refuted", "undecided" or "interrupted".

    `.theorem` is the kernel's theorem, where there is one. `.lemmas` are the theorems that it is composed of,
    `.conditions` the hypotheses that it needs. `.counterexample` has exact arrays where the claim was refuted. `.goal`
    is the goal at which the proof stopped.
    """

    verdict: str
    theorem: Theorem | None = None
    lemmas: tuple[Theorem, ...] = ()
    conditions: tuple[Condition, ...] = ()
    counterexample: Counterexample | None = field(default=None, compare=False)
    goal: str = ""
    large: bool = False
    """Whether the proof stopped at a goal that is too large, so that a longer search would not help."""

    @property
    def proved(self) -> bool:
        """Whether it holds without conditions."""
        return self.verdict == "proved"


@dataclass(frozen=True)
class Form:
    """A sufficient form of a claim: a wire of truth values. If it is true everywhere (under its conditions, if there
    are any), the claim holds.

    `lemmas` are the equations by which the form implies the claim, where the wire is not the claim itself.
    """

    wire: int
    lemmas: tuple[tuple[Diagram, Diagram], ...] = ()
    conditions: tuple[Condition, ...] = ()


class Claims:
    """Proves claims, one after the other, with one solver and one time limit."""

    def __init__(self, ask: Z3, assume: Sequence[str] = (), limit: float | None = None) -> None:
        self.ask, self.assume, self.limit = ask, tuple(assume), limit
        self._lemmas: list[tuple[tuple[Diagram, Diagram], Theorem | None]] = []

    def decide(
        self,
        assembly: Assembly,
        names: tuple[str, ...],
        forms: Sequence[Form],
        literal: int,
        title: str,
        assume: Sequence[str] | None = None,
        beside: Sequence[int] = (),
        granted: bool = False,
        further: bool = True,
    ) -> Verdict:
        """The verdict on a claim. The wire `literal` is the claim; each of `forms` is a sufficient form that is tried
        first.

        `beside` are wires whose definedness may be assumed: where the claim would otherwise be undefined, or always if
        `granted`. `assume` are assumptions about sizes (None: those given to the constructor). With `further`, a proof
        search follows where normal forms do not decide.
        """
        assumed = self.assume if assume is None else tuple(assume)
        work = partial(self._decide, assembly, names, forms, literal, title, assumed, beside, granted, further)
        try:
            return in_time(self.limit, title, work)
        except Interrupted as error:
            return Verdict("interrupted", goal=error.message)

    def proved(
        self, assembly: Assembly, names: tuple[str, ...], forms: Sequence[Form], title: str, assume: Sequence[str]
    ) -> Verdict | None:
        """The verdict on the first of the sufficient forms of a claim that normal forms prove without conditions; None
        where there is none. Nothing is searched for.
        """

        def first() -> Verdict | None:
            for form in forms:
                true = assembly.diagram([truth(assembly, form.wire)], names, "true")
                found = self._attempt(true, assembly.diagram([form.wire], names, title), tuple(assume), False)
                if found.proved and (made := self._with_lemma(found, form)) is not None and made.proved:
                    return made
            return None

        try:
            return in_time(self.limit, title, first)
        except Interrupted:
            return None

    def equation(
        self, left: Diagram, right: Diagram, assume: Sequence[str] | None = None, refuted: bool = True
    ) -> Verdict:
        """The verdict on an equation of diagrams. With `refuted`, a counterexample is searched for where no proof is
        found.
        """
        assumed = self.assume if assume is None else tuple(assume)
        try:
            return in_time(self.limit, left.title, partial(self._equation, left, right, assumed, refuted))
        except Interrupted as error:
            return Verdict("interrupted", goal=error.message)

    def _equation(self, left: Diagram, right: Diagram, assume: tuple[str, ...], refuted: bool) -> Verdict:
        found = self._attempt(left, right, assume, False)
        if found.theorem is None and refuted:
            found = self._refuted(left, right, assume, 6) or found
        if found.verdict == "undecided":
            found = self._attempt(left, right, assume, True)
        if found.theorem is None and refuted and found.verdict != "refuted":
            found = self._refuted(left, right, assume, 200) or found
        return found

    def _decide(
        self,
        assembly: Assembly,
        names: tuple[str, ...],
        forms: Sequence[Form],
        literal: int,
        title: str,
        assume: tuple[str, ...],
        beside: Sequence[int],
        granted: bool,
        further: bool,
    ) -> Verdict:
        """See `decide`. A claim that is undefined somewhere is tried under the definedness of the wires `beside`."""

        def sides(wire: int, others: Sequence[int] = ()) -> tuple[Diagram, Diagram]:
            true = truth(assembly, wire)
            return (assembly.diagram([*others, true], names, "true"), assembly.diagram([*others, wire], names, title))

        best: Verdict | None = None
        goal, large = "", False
        for more in (False, True) if further else (False,):
            for form in forms:
                found = self._attempt(*sides(form.wire, beside if granted else ()), assume, more)
                if found.verdict == "conditional" and beside and not granted:
                    again = self._attempt(*sides(form.wire, beside), assume, more)
                    found = again if again.proved else found
                goal, large = goal or found.goal, large or found.large
                if found.theorem is None or not (made := self._with_lemma(found, form)):
                    continue
                if made.proved or form.conditions:
                    return made
                best = best or made
            if best is not None:
                return best
            refuted = self._refuted(*sides(literal, beside if granted else ()), assume, 200 if more else 6)
            if refuted is not None:
                return refuted
            if large:
                break
        return Verdict("undecided", goal=goal, large=large)

    def _with_lemma(self, found: Verdict, form: Form) -> Verdict | None:
        """The verdict on a proved form, with the theorems of its lemmas; None where a lemma was not proved."""
        lemmas = []
        for pair in form.lemmas:
            lemma = self.lemma(*pair)
            if lemma is None:
                return None
            lemmas.append(lemma)
        conditions = (*form.conditions, *found.conditions)
        verdict = "conditional" if conditions else "proved"
        return replace(found, verdict=verdict, lemmas=tuple(lemmas), conditions=conditions)

    def refuted(
        self, assembly: Assembly, names: tuple[str, ...], wire: int, title: str, assume: Sequence[str]
    ) -> Counterexample | None:
        """Exact arrays on which a wire of truth values is false, where a short search finds some."""
        true = assembly.diagram([truth(assembly, wire)], names, "true")
        found = self._refuted(true, assembly.diagram([wire], names, title), tuple(assume), 6)
        return None if found is None else found.counterexample

    def lemma(self, left: Diagram, right: Diagram) -> Theorem | None:
        """The theorem of an equation about arbitrary arrays, proved once and cached; None where it is not proved."""
        known = next((t for pair, t in self._lemmas if pair == (left, right)), None)
        if known is None:
            found = self._attempt(left, right, (), True)
            known = found.theorem if found.proved else None
            self._lemmas.append(((left, right), known))
        return known

    def _attempt(self, left: Diagram, right: Diagram, assume: tuple[str, ...], further: bool) -> Verdict:
        """The verdict of a proof attempt: proved, conditional, or undecided with the goal; a vacuous theorem counts as
        undecided.
        """
        from catdiag.prover.proof_search import OpenGoal

        try:
            theorem = certify_equation(self.ask, left, right, assume, further=further)
        except OpenGoal as error:
            return Verdict("undecided", goal=error.goal, large=error.large)
        except KernelError as error:
            return Verdict("undecided", goal=str(error))
        if theorem.vacuous:
            return Verdict("undecided", goal="no input meets its hypotheses: it would be vacuous")
        return Verdict(
            "conditional" if theorem.conditional else "proved", theorem, conditions=theorem.formulas.conditions
        )

    @staticmethod
    def _refuted(left: Diagram, right: Diagram, assume: tuple[str, ...], tries: int) -> Verdict | None:
        pair = refutable(left, right)
        found = None if pair is None else refute(statement_of(*pair, assume), tries=tries)
        return None if found is None or found.undefined else Verdict("refuted", counterexample=found)


def truth(assembly: Assembly, like: int) -> int:
    """A wire that is true everywhere, with the axes of the wire `like`."""
    true = assembly.map("lt", assembly.number(0), assembly.number(1))
    ty = assembly.types[like]
    return assembly.add(Box(Rename(), Ty(assembly.types[true]), Ty(ArrayType(ty.axes, "bool"))), (true,))
