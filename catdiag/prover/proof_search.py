"""Proof search: the checker's own walk through a statement, with a search wherever the checker reads a proof record.

`Finder` is a `Checker` that starts with empty records. Where the checker would replay steps, the finder searches for
them (normal forms, the rule `field`, case splits) and writes them into the record. A plain `Checker` then checks the
record, so that nothing here is trusted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from catdiag.kernel.checker import FORMAT, VERSION, CheckedTheorem, Checker
from catdiag.kernel.context import Ask, Context
from catdiag.kernel.definedness import Obligation
from catdiag.kernel.facts import Fact, negate
from catdiag.kernel.judgments import Json, Judge, closes
from catdiag.kernel.polynomial import TooLarge
from catdiag.kernel.terms import (
    TRUE,
    ZERO,
    KernelError,
    Term,
    add,
    fn,
    mul,
    num,
    rebuild,
    substitute,
    term_data,
)
from catdiag.prover import proof_cache
from catdiag.prover.goal_forms import (
    compared_maxima,
    condition_of_normal_terms,
    free_exponents,
    holds_plainly,
    nonzero_sum,
    normal_condition,
    of_signs,
    sign_without_factors,
    undecided_size,
)
from catdiag.prover.lemmas.element_bounds import excluded_value, steps_by_element
from catdiag.prover.lemmas.linear_arithmetic import steps_by_sum
from catdiag.prover.lemmas.max_attained import prove_attained
from catdiag.prover.lemmas.products_as_exponentials import prove_by_logarithms
from catdiag.prover.normal_form.normalize import Normalizer, WorkBudget
from catdiag.prover.normal_form.opaque_ite import DecidedIteNormalizer, OpaqueIteNormalizer, shapes
from catdiag.prover.proof_trace import WORK, pruned
from catdiag.prover.subterms import subterms, undecided_conditions
from catdiag.prover.term_equality import Meeting

_FALSE = fn("lt", ZERO, ZERO)

_FURTHER = 150_000
"""The work bound of the search beyond normal forms."""

_SPLITS = 4
"""The deepest nesting of splits on conditions."""


class OpenGoal(Exception):
    """A goal that the search could not prove: `.goal` as text, `.condition` in normal form.

    `.large`: the search was given up because the goal is too large.
    """

    def __init__(self, goal: str | Term, condition: Term = TRUE, large: bool = False) -> None:
        super().__init__(goal)
        self.condition, self.large = condition if isinstance(goal, str) else goal, large

    @property
    def goal(self) -> str:
        """The goal, which is printed when it is asked for: most goals are left for others."""
        try:
            return str(self.args[0])
        except RecursionError:
            return "the goal is too deep"

    @property
    def left(self) -> Term | None:
        """The left side of an equation."""
        return self.condition.args[0] if self.condition.op == "eq" else None

    @property
    def right(self) -> Term | None:
        """The right side of an equation."""
        return self.condition.args[1] if self.condition.op == "eq" else None


class Finder(Checker):
    """A checker that searches for the proofs that it is asked to check."""

    def __init__(
        self,
        ask: Ask,
        further: bool = False,
        brief: bool = False,
        earlier: Mapping[str, Json] | None = None,
        work: int = WORK,
    ) -> None:
        super().__init__(ask)
        self.folds: list[dict[str, Any]] = []
        # Earlier proofs of loops, by their keys; and hints for parts of records, by the identity of the record.
        self._earlier, self._loop = dict(earlier or {}), ""
        self._hints: dict[int, Json] = {}
        self._splits = 0
        # `brief`: only the opaque-ite normal form is tried on goals with cases. `met_cases`: there were such goals.
        self.brief, self.met_cases = brief, False
        self.work = WorkBudget(work)
        self.further = WorkBudget(_FURTHER) if further else None

    def fold_proof(self) -> Json:
        """A new record for the next fold."""
        self.folds.append({})
        self._hints[id(self.folds[-1])] = self._earlier.get(self._loop, {})
        self._earlier.setdefault(self._loop, self.folds[-1])
        return self.folds[-1]

    def _fold(self, node: Json, assume: tuple[Fact, ...], scope: frozenset[str], places: frozenset[int]) -> None:
        self._loop = proof_cache.key(node)
        super()._fold(node, assume, scope, places)

    def item(self, proof: Json, name: str, key: int | str) -> Json:
        """A new record for a part of a proof."""
        record: dict[str, Any] = _record(proof).setdefault(name, {}).setdefault(str(key), {})
        hint = self._hints.get(id(proof), {}).get(name, {}).get(str(key), {})
        self._hints.pop(id(record), None)
        if hint:
            self._hints[id(record)] = hint
        return record

    def proof_of(self, certificate: Json) -> dict[str, Any]:
        """The record itself."""
        proof: dict[str, Any] = certificate["proof"]
        return proof

    def consumed(self, proof: Json) -> None:
        """A record is never used up."""

    def cited(self, certificate: Json) -> CheckedTheorem:
        """A cited theorem is not proved again by a search: the checker does that."""
        return CheckedTheorem("", (), (), (), (), 0, 0, False)

    def holds(self, ctx: Context, condition: Term, proof: Json) -> None:
        """Searches for a proof that a condition holds, and records it. Raises OpenGoal if none is found.

        The steps, from cheap to expensive: an earlier proof, a split on two maxima, the opaque-ite normal form, the
        full normal form with linear arithmetic, the rule `field` and a solver, a split on a size of 0, a maximum that
        attains a bound, `Meeting`, and splits on conditions.
        """
        if holds_plainly(ctx, condition):
            return
        record = _record(proof)
        if self._by_cached_proof(ctx, condition, record) or self._split_on_maxima(ctx, condition, record):
            return
        goal = OpenGoal(condition)
        known: dict[Term, Term] = {}
        distinctions = [shapes(a, known) for a in condition.args]
        if any(distinctions):
            self.met_cases = True
            kept = self._by_opaque_cases(ctx, condition, record, frozenset(set.intersection(*distinctions)))
            if kept == TRUE:
                return
            if self.brief:
                self._by_size(ctx, condition, record, goal, kept)
                return
        if self._split_on_excluded(ctx, condition, record):
            return
        search = Normalizer(self.work)
        try:
            found = condition_of_normal_terms(ctx, condition, search)
            if found.op == "eq" and not holds_plainly(ctx, found):
                sides = [search.with_equations(ctx, side, (k,)) for k, side in enumerate(found.args)]
                found = fn("eq", *sides)
            if holds_plainly(ctx, found):
                record["steps"] = search.steps
                return
            goal = OpenGoal(found)
            by_sum = steps_by_sum(ctx, found)
            if by_sum is not None:
                record["steps"] = [*search.steps, *by_sum]
                return
            if self._closes(ctx, found):
                record.update(steps=search.steps, close="field")
                return
            # The solver comes last: it decides most, and costs most.
            if found.op == "eq" and ctx.entails(found):
                record["steps"] = search.steps
                return
        except TooLarge as error:
            raise OpenGoal(f"the goal is too large: {error}", large=True) from error
        except RecursionError as error:
            raise OpenGoal("the goal is too deep", large=True) from error
        except KernelError:
            pass
        if undecided_size(ctx, condition, condition) is not None:
            self._by_size(ctx, condition, record, goal, condition)
        elif ctx.entails(_FALSE):
            record["absurd"] = True
        elif condition.op != "eq":
            self._by_element(ctx, condition, record, goal)
        elif not self._attains(ctx, condition, record, goal) and not self._meets(ctx, condition, record):
            self._by_condition(ctx, condition, record, goal)

    def _by_cached_proof(self, ctx: Context, condition: Term, record: dict[str, Any]) -> bool:
        """Whether the cached proof of the same part of a similar loop is a proof here too; it is then recorded."""
        hint = self._hints.pop(id(record), {})
        if record or not hint:
            return False
        copy = json.loads(json.dumps(hint))
        try:
            Judge(self._ask).holds(ctx, condition, copy)
        except (KernelError, RecursionError, LookupError, TypeError, ValueError, ArithmeticError):
            return False  # a proof of another loop may be malformed here
        record.update(json.loads(json.dumps(hint)))
        return True

    def _by_opaque_cases(
        self, ctx: Context, condition: Term, record: dict[str, Any], untouched: frozenset[Term]
    ) -> Term:
        """A condition in opaque-ite normal form; `TRUE`, with the proof recorded, where that proves it."""
        found = condition
        there = frozenset(t for t in subterms(condition.args[-1]) if t.op == "big" and not t.loose)
        for search in (OpaqueIteNormalizer(self.work, untouched), DecidedIteNormalizer(self.work, untouched, there)):
            try:
                found = condition_of_normal_terms(ctx, condition, search)
                done = holds_plainly(ctx, found)
                if done or self._closes(ctx, found):
                    record.update({"steps": search.steps} if done else {"steps": search.steps, "close": "field"})
                    return TRUE
            except (KernelError, RecursionError):
                continue
        return found

    def _split_on_maxima(self, ctx: Context, equation: Term, record: dict[str, Any]) -> bool:
        """Splits on which of two maxima is larger, where cases of the equation depend on it.

        The terms are smaller in each of these cases, so that this split comes first.
        """
        pair = compared_maxima(equation) if self._splits < _SPLITS else None
        if pair is None:
            return False
        if undecided_size(ctx, equation, equation) is not None:
            self._by_size(ctx, equation, record, OpenGoal(equation), equation)
            return True
        known = [f.condition for f in ctx.facts]
        first, second = (Normalizer(self.work).normal(ctx, t) for t in pair)
        for c in (fn("eq", first, second), fn("lt", first, second)):
            if c in known or first.op != "big" or second.op != "big" or first == second:
                return False
            if negate(c) not in known:
                self._split(ctx, equation, record, c)
                return True
        return False

    def _attains(self, ctx: Context, condition: Term, record: dict[str, Any], goal: OpenGoal) -> bool:
        """Whether one side is a maximum that attains the other one, or a product that is an exponential."""

        def normal(inner: Context) -> tuple[Term, list[list[Any]]]:
            search = Normalizer(self.work)
            return condition_of_normal_terms(inner, condition, search), search.steps

        found = prove_attained(ctx, goal.condition, normal) or prove_by_logarithms(ctx, condition, self.work)
        record.update(found or {})
        return found is not None

    def _by_element(self, ctx: Context, condition: Term, record: dict[str, Any], goal: OpenGoal) -> None:
        """Proves a condition by an element of a reduction. Raises the goal where none is found."""
        found = steps_by_element(ctx, condition, self._normal_with_steps)
        if found is None:
            raise goal
        record["steps"] = found

    def _split_on_excluded(self, ctx: Context, condition: Term, record: dict[str, Any]) -> bool:
        """Splits on a value that an element of a reduction excludes, since that must be known in what follows."""
        found = excluded_value(ctx, condition, self._normal_with_steps)
        if found is None:
            return False
        none, steps = found
        record.update(when=term_data(none), yes={"steps": steps})
        self.holds(ctx.with_condition(negate(none)), condition, self._child(record, "no"))
        return True

    def _normal_with_steps(self, ctx: Context, t: Term) -> tuple[Term, list[list[Any]]]:
        search = Normalizer(self.work)
        return search.normal(ctx, t), search.steps

    def _meets(self, ctx: Context, equation: Term, record: dict[str, Any]) -> bool:
        """Whether the two sides of an equation are rewritten to one term by `Meeting`."""
        if self.further is None:
            return False
        try:
            found = Meeting(self.further).meet(ctx, equation.args[0], equation.args[1])
        except (KernelError, RecursionError):
            return False
        if found is None:
            return False
        record["steps"] = [[rule, [k, *path], *args] for k in (0, 1) for rule, path, *args in found[k]]
        return True

    @staticmethod
    def _closes(ctx: Context, equation: Term) -> bool:
        try:
            return closes(ctx, equation)
        except TooLarge:
            raise
        except KernelError:
            return False

    def _by_condition(self, ctx: Context, equation: Term, record: dict[str, Any], goal: OpenGoal) -> None:
        """Splits on a condition in the goal. Raises the goal where there is none, or the splits are nested too
        deeply.
        """
        found = list(undecided_conditions(ctx, *goal.condition.args)) if self._splits < _SPLITS else []
        # An order relation says more than an equation, so it is split on first.
        condition = next((c for c in found if c.op != "eq"), found[0] if found else None)
        if condition is None:
            raise goal
        self._split(ctx, equation, record, condition)

    def _split(self, ctx: Context, equation: Term, record: dict[str, Any], condition: Term) -> None:
        self._splits += 1
        try:
            record["when"] = term_data(condition)
            self.holds(ctx.with_condition(condition), equation, self._child(record, "yes"))
            self.holds(ctx.with_condition(negate(condition)), equation, self._child(record, "no"))
        finally:
            self._splits -= 1

    def _by_size(self, ctx: Context, condition: Term, record: dict[str, Any], goal: OpenGoal, found: Term) -> None:
        """Splits on whether a size is 0. Raises the goal where that is decided for all sizes.

        If the condition has a maximum over −∞ only, the size of its axis comes first.
        """
        split = undecided_size(ctx, condition, found)
        if split is None:
            if not ctx.entails(_FALSE):
                raise goal
            record["absurd"] = True
            return
        none, put, more = self.sized(ctx, split)
        record["cases"] = split
        self.holds(none, substitute(condition, put), self._child(record, "zero"))
        self.holds(more, condition, self._child(record, "more"))

    @staticmethod
    def _child(record: dict[str, Any], name: str) -> dict[str, Any]:
        child: dict[str, Any] = {}
        record[name] = child
        return child

    def discharge(self, ctx: Context, owed: Obligation, proof: Json, demands: Sequence[Obligation] = ()) -> bool:
        """Tries to prove the obligation, then to identify it with a demand. Raises OpenGoal if cases are left."""
        record = _record(proof)
        inner = owed.context(ctx)
        # Cheap attempts come first: mostly both programs have the same obligations, whatever their cases are.
        brief = self.brief
        try:
            for self.brief in (True,) if brief else (True, False):
                if self._discharged(inner, owed.condition, record, demands):
                    return True
        finally:
            self.brief = brief
        if brief and self.met_cases:
            # An open obligation would become a condition of the theorem, so that everything is tried before.
            raise OpenGoal(str(owed))
        return False

    def _discharged(self, ctx: Context, condition: Term, record: dict[str, Any], demands: Sequence[Obligation]) -> bool:
        """Whether an obligation is proved, or identified with one of the demands."""
        try:
            self.holds(ctx, condition, record)
            return True
        except (OpenGoal, KernelError):
            record.clear()
        for k, demand in enumerate(demands):
            trial: dict[str, Any] = {"as": str(k)}
            try:
                self.same_as(ctx, condition, demand, trial)
            except (OpenGoal, KernelError):
                continue
            record.update(trial)
            return True
        return any(self._by_factor(ctx, condition, demand, record) for demand in demands)

    def _by_factor(self, ctx: Context, condition: Term, demand: Obligation, record: dict[str, Any]) -> bool:
        """Whether a sum of exponentials is not 0 because another one, times an exponential, is equal to it and
        not 0.
        """
        sought, known = nonzero_sum(condition), nonzero_sum(demand.condition)
        if sought is None or known is None:
            return False
        free, other = free_exponents(sought[1]), free_exponents(known[1])
        if free is None or other is None:
            return False
        factor = fn("exp", add(*free, *(mul(num(-1), a) for a in other)))
        product = mul(factor, known[1])
        put = rebuild(condition, (rebuild(a, (product if b == sought[1] else b for b in a.args))
                                  if condition.op == "not" else product if a == sought[1] else a
                                  for a in condition.args))  # fmt: skip
        if not ctx.entails(put):
            return False
        inner: dict[str, Any] = {}
        try:
            self.holds(ctx, fn("eq", sought[1], product), inner)
        except (OpenGoal, KernelError):
            return False
        record["steps"] = [["equal", sought[0], term_data(product), inner]]
        return True

    def derived_facts(
        self, defined: Sequence[Obligation], facts: tuple[Fact, ...], names: Mapping[str, str], proof: Json
    ) -> tuple[Fact, ...]:
        """The facts that follow from the left side's definedness, with terms in normal form."""
        found = []
        for k, owed in enumerate(defined):
            if self.brief and any(t.op == "ite" for t in subterms(owed.condition)):
                self.met_cases = True
                continue
            search = Normalizer(self.work)
            try:
                # A fact must not simplify itself: it would become `1 ≠ 0` and be lost.
                bare = owed.context(Context(self.ask, {}, facts[: len(facts) - len(defined)], names))
                condition = (condition_of_normal_terms if of_signs(owed.condition) else normal_condition)(
                    bare, owed.condition, search
                )
            except (KernelError, RecursionError):
                continue
            if search.steps:
                _record(proof).setdefault("facts", {})[str(k)] = search.steps
                found += owed.saying(condition)
        return tuple(found)

    def further_facts(
        self, defined: Sequence[Obligation], facts: tuple[Fact, ...], names: Mapping[str, str], proof: Json
    ) -> tuple[Fact, ...]:
        """Signs of sums in words in which maxima are known to be real: without their positive factors."""
        reals = tuple(f for f in facts if f.condition.op == "real")
        found: list[Fact] = []
        for k, owed in enumerate(defined if reals and not self.brief else ()):
            if owed.condition.op != "not" or not of_signs(owed.condition):
                continue
            search = Normalizer(self.work)
            try:
                ctx = owed.context(Context(self.ask, {}, reals, names))
                condition = sign_without_factors(ctx, owed.condition, search)
            except (KernelError, RecursionError):
                continue
            new = [fact for fact in owed.saying(condition) if fact not in facts]
            if new:
                _record(proof).setdefault("facts", {})[str(k)] = search.steps
                found += new
        return tuple(found)


def _record(proof: Json) -> dict[str, Any]:
    if not isinstance(proof, dict):
        raise TypeError("a proof record is a dict")
    return proof


def found_composite(ask: Ask, statement: Mapping[str, Any], proof: Json, cited: Sequence[Json]) -> dict[str, Any]:
    """A certificate for a statement about a composite, with the parts that `proof` gives: what is to be shown of each
    part is searched for. Raises OpenGoal or KernelError where it is not found."""
    record: dict[str, Any] = json.loads(json.dumps(proof))
    certificate = {"format": FORMAT, "version": VERSION, "statement": statement, "proof": record, "cited": list(cited)}
    Finder(ask, further=True).proved(certificate)
    return {**certificate, "proof": pruned(record)}


def find(
    ask: Ask,
    statement: Mapping[str, Any],
    further: bool = False,
    earlier: Json | None = None,
    work: int = WORK,
) -> dict[str, Any]:
    """A certificate for a statement. Raises OpenGoal with the goal at which the search stopped.

    With `further`, a search follows where normal forms do not suffice; it takes long for false statements. With
    `earlier`, a certificate, the proofs of its loops are tried on those of this statement. `work` bounds normal forms.
    The certificate is plain data, and proves nothing until a `Checker` accepts it.
    """
    # A cheap search comes first; it fails at the first goal that needs more.
    for brief in (True, False):
        finder = Finder(ask, further, brief, proof_cache.of_earlier(statement, earlier), work)
        proof: dict[str, Any] = {}
        certificate = {"format": FORMAT, "version": VERSION, "statement": statement, "proof": proof}
        try:
            finder.proved(certificate)
        except (OpenGoal, KernelError):
            if brief and finder.met_cases:
                continue
            raise
        proof["folds"] = finder.folds
        return {**certificate, "proof": pruned(proof)}
    raise AssertionError("a search ends in a certificate or an error")
