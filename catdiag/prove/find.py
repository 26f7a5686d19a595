"""Finding a certificate: the checker's own walk through a statement, with a search where it reads a proof.

`Finder` is a `Checker` whose proofs are empty records; where the checker would replay steps, the finder looks for
them (normal forms, then `field`, then distinguishing whether a size is 0) and writes them into the record. The
record is then checked by a plain `Checker`, so that nothing here is trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from catdiag.kernel.check import Checker, Json, no_size
from catdiag.kernel.context import Ask, Context, Fact, arithmetic, negate
from catdiag.kernel.defined import Obligation
from catdiag.kernel.polynomial import TooLarge, to_poly, vanishes
from catdiag.kernel.terms import ONE, ZERO, KernelError, Term, fn, leaves, show, size, sub, substitute, term_data
from catdiag.prove.normal import Normaliser, Work


class Open(Exception):
    """A goal that the search could not close. `.goal` is it as text; `.left` and `.right` its normal forms."""

    def __init__(self, goal: str, left: Term | None = None, right: Term | None = None) -> None:
        super().__init__(goal)
        self.goal, self.left, self.right = goal, left, right


class Finder(Checker):
    """A checker that finds the proofs it is asked to check."""

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask)
        self.folds: list[dict[str, Any]] = []
        self._splits = 0
        self.work = Work()

    def fold_proof(self) -> Json:
        """A new record for the next fold."""
        self.folds.append({})
        return self.folds[-1]

    def item(self, proof: Json, name: str, key: int | str) -> Json:
        """A new record for a part of a proof."""
        record: dict[str, Any] = _record(proof).setdefault(name, {}).setdefault(str(key), {})
        return record

    def equation(self, ctx: Context, left: Term, right: Term, proof: Json) -> None:
        """Finds a proof that two terms are equal and records it. Raises Open if none was found."""
        if left == right:
            return
        record = _record(proof)
        goal: Open | None = None
        first, second = Normaliser(self.work), Normaliser(self.work)
        try:
            x, y = first.normal(ctx, left), second.normal(ctx, right)
            if x == y:
                if left != right:
                    record.update(left=first.steps, right=second.steps)
                return
            goal = Open(f"{show(x)} = {show(y)}", x, y)
            if vanishes(to_poly(sub(x, y), ctx), ctx):
                record.update(left=first.steps, right=second.steps, close="field")
                return
        except TooLarge as error:
            raise Open(f"the goal is too large: {error}") from error
        except RecursionError as error:
            raise Open("the goal is too deep") from error
        except KernelError:
            goal = goal or Open(f"{show(left)} = {show(right)}", left, right)
        split = self._undecided_size(ctx, (left, right))
        if split is None:
            self._by_condition(ctx, left, right, record, goal)
            return
        record["cases"] = split
        zero = no_size(split)
        none = ctx.with_condition(fn("eq", size(split), ZERO))
        self.equation(none, substitute(left, zero), substitute(right, zero), self._child(record, "zero"))
        self.equation(ctx.with_condition(fn("le", ONE, size(split))), left, right, self._child(record, "more"))

    def _by_condition(self, ctx: Context, left: Term, right: Term, record: dict[str, Any], goal: Open) -> None:
        """Distinguishes whether a condition of the goal holds. Raises the goal where there is none, or too many."""
        condition = None
        if goal.left is not None and goal.right is not None and self._splits < _SPLITS:
            condition = next(_conditions(ctx, (goal.left, goal.right)), None)
        if condition is None:
            raise goal
        self._splits += 1
        try:
            record["when"] = term_data(condition)
            self.equation(ctx.with_condition(condition), left, right, self._child(record, "yes"))
            self.equation(ctx.with_condition(negate(condition)), left, right, self._child(record, "no"))
        finally:
            self._splits -= 1

    def _undecided_size(self, ctx: Context, terms: Sequence[Term]) -> str | None:
        names = sorted(set().union(*(leaves(t, "size") for t in terms)))
        return next((n for n in names if not ctx.positive_size(size(n))), None)

    @staticmethod
    def _child(record: dict[str, Any], name: str) -> dict[str, Any]:
        child: dict[str, Any] = {}
        record[name] = child
        return child

    def discharge(self, ctx: Context, owed: Obligation, proof: Json, demands: Sequence[Obligation] = ()) -> bool:
        """Tries the obligation itself, then whether it is one of the demands in other words."""
        if super().discharge(ctx, owed, proof, ()):
            return True
        record = _record(proof)
        for k in range(len(demands)):
            trial: dict[str, Any] = {"as": str(k)}
            try:
                if super().discharge(ctx, owed, trial, demands):
                    record.clear()
                    record.update(trial)
                    return True
            except Open:
                continue
        return False

    def _meets(self, ctx: Context, condition: Term, proof: Json) -> bool:
        record = _record(proof)
        try:
            if ctx.entails(condition):
                return True
            search = Normaliser(self.work)
            if ctx.entails(self._condition(ctx, condition, search)):
                record["steps"] = search.steps
                return True
        except KernelError:
            pass
        except RecursionError:
            return False
        split = self._undecided_size(ctx, (condition,))
        if split is None:
            return False
        trial: dict[str, Any] = {"cases": split, "zero": {}, "more": {}}
        zero = no_size(split)
        none = Context(
            self.ask, {i: substitute(n, zero) for i, n in ctx.ranges.items()}, ctx.facts, ctx.elements
        ).with_condition(fn("eq", size(split), ZERO))
        more = ctx.with_condition(fn("le", ONE, size(split)))
        if not self._meets(none, substitute(condition, zero), trial["zero"]):
            return False
        if not self._meets(more, condition, trial["more"]):
            return False
        record.update(trial)
        return True

    @staticmethod
    def _condition(ctx: Context, condition: Term, search: Normaliser) -> Term:
        """A condition with the terms it compares in normal form."""
        if condition.op == "not":
            inner = condition.args[0]
            parts = [search.normal(ctx, a, (0, k)) for k, a in enumerate(inner.args)]
            return fn("not", fn(inner.op, *parts))
        parts = [search.normal(ctx, a, (k,)) for k, a in enumerate(condition.args)]
        return fn(condition.op, *parts)

    def derived_facts(
        self, defined: Sequence[Obligation], facts: tuple[Fact, ...], names: dict[str, str], proof: Json
    ) -> tuple[Fact, ...]:
        """What the left side's definedness says, with its terms in normal form."""
        found = []
        for k, owed in enumerate(defined):
            ctx = Context(self.ask, dict(owed.ranges), facts, names)
            for guard in owed.guards:
                ctx = ctx.with_condition(guard)
            search = Normaliser(self.work)
            try:
                # The fact may not be used on itself: it would turn into `1 ≠ 0` and be lost.
                bare = Context(self.ask, dict(owed.ranges), facts[: len(facts) - len(defined)], names)
                for guard in owed.guards:
                    bare = bare.with_condition(guard)
                condition = self._condition(bare, owed.condition, search)
            except (KernelError, RecursionError):
                continue
            if search.steps:
                _record(proof).setdefault("facts", {})[str(k)] = search.steps
                found.append(Fact(owed.ranges, owed.guards, condition))
        return tuple(found)


_SPLITS = 4
"""How deep case distinctions on conditions may be nested."""


def _conditions(ctx: Context, terms: Sequence[Term]) -> Iterator[Term]:
    """The conditions on which closed parts of terms turn, and that are not decided: of cases, maxima and roots."""
    stack = list(terms)
    seen: set[Term] = set()
    while stack:
        t = stack.pop()
        if t in seen:
            continue
        seen.add(t)
        found: list[Term] = []
        if t.op == "ite":
            found.append(t.args[0])
        elif t.op == "max":
            found.append(fn("lt", t.args[0], t.args[1]))
        elif t.op in ("and", "or"):
            found.extend(a for a in t.args if a.op in ("lt", "le") and arithmetic(a))
        elif t.op == "sqrt" and t.args[0].op == "mul":
            found.extend(fn("le", ZERO, a) for a in t.args[0].args)
        for c in found:
            if not c.loose and c.op in ("lt", "le", "eq", "holds") and not (ctx.entails(c) or ctx.entails(negate(c))):
                yield c
        stack.extend(t.args)


def _record(proof: Json) -> dict[str, Any]:
    if not isinstance(proof, dict):
        raise TypeError("a proof record is a dict")
    return proof


def find(ask: Ask, statement: Mapping[str, Any]) -> dict[str, Any]:
    """A certificate for a statement. Raises Open with the goal at which the search stopped.

    Every part of the certificate is plain data. It proves nothing until a `Checker` accepts it.
    """
    finder = Finder(ask)
    proof: dict[str, Any] = {}
    certificate = {"format": "catdiag-certificate", "version": 1, "statement": statement, "proof": proof}
    finder.check(certificate)
    proof["folds"] = finder.folds
    return {**certificate, "proof": _pruned(proof)}


def _pruned(record: Any) -> Any:
    if isinstance(record, dict):
        kept = {k: _pruned(v) for k, v in record.items()}
        return {k: v for k, v in kept.items() if v not in ({}, []) or k in ("zero", "more", "yes", "no")}
    if isinstance(record, list):
        return [_pruned(v) for v in record]
    return record
