"""The context of a subterm: ranges of indices, facts, and the signs that follow.

A judgment here is a syntactic recursion, without search. Integer conditions that it cannot settle go to the solver that
it was given, as a list of hypotheses and a goal, all of them terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction

from catdiag.kernel.facts import Fact, arithmetic, fresh, match, natural, negate
from catdiag.kernel.opaque_atoms import LIMIT, Opaque
from catdiag.kernel.polynomial import Poly, plus, put, scaled, scaled_by, to_poly, to_term
from catdiag.kernel.terms import (
    BOT,
    MINUS,
    ONE,
    ZERO,
    Data,
    KernelError,
    Term,
    add,
    fn,
    idx,
    leaves,
    mul,
    open_body,
    sub,
    substitute,
)

Ask = Callable[[Sequence[Term], Term], bool]
"""A solver: whether hypotheses entail a goal, over naturals (sizes) and integers (indices). False if it cannot tell."""

REAL, NONNEG, NONZERO = 1, 2, 4
_DEEP = 300
_CHOICES = 8
_NESTED = 3
"""How many questions about reals may be asked for the sake of one another: each opens contexts, in which there are
more of them, without end. What is not asked is not known.
"""
POS = REAL | NONNEG | NONZERO


def integer(ctx: Context, t: Term) -> bool:
    """Whether a term is an integer by its form: made of sizes, indices, floors and arrays of integers,
    and sums and maxima of such."""
    if t.op == "read":
        return ctx.elements.get(str(t.data)) == "int"
    if t.op in ("add", "mul", "ite"):
        return all(integer(ctx, a) for a in t.args[t.op == "ite" :])
    if t.op == "big":
        # A maximum over nothing is −∞.
        some = t.data == "sum" or (t.data == "max" and not t.args[0].loose and ctx.positive_size(t.args[0]))
        return some and integer(ctx, t.args[1])
    return t.op in ("div", "b") or (t.op == "max" and all(integer(ctx, a) for a in t.args)) or arithmetic(t)


class Context:
    """Index ranges (0 ≤ i < n), facts, element types of arrays, and a solver."""

    def __init__(
        self,
        ask: Ask,
        ranges: Mapping[str, Term] | None = None,
        facts: tuple[Fact, ...] = (),
        elements: Mapping[str, str] | None = None,
        parent: Context | None = None,
    ) -> None:
        self.ask, self.ranges, self.facts = ask, dict(ranges or {}), facts
        self.elements = dict(elements or {})
        self._signs: dict[Term, int] = {}
        self._asked: dict[Term, bool] = {}
        self._held: dict[Term, bool] = {}
        self.polynomials: dict[Term, Poly] = {}
        self._plain: dict[Term, None] | None = None
        self._distances: list[Poly] | None = None
        # The contexts under an index of a name, or ("") where a condition holds: what is found there is found once.
        self._inner: dict[tuple[str, Term], Context] = {}
        # Bodies of binders here, at the index that is opened here.
        self._bodies: dict[Term, Term] = {}
        # What is known in fewer ranges and facts is known here.
        self._parent = parent
        self._heads: dict[tuple[str, Data], list[tuple[Fact, Term, int]]] | None = None
        # The conditions that are asked about, here and in the contexts around or inside, and not answered yet.
        self._open: dict[Term, None] = {} if parent is None else parent._open
        self._of_real: list[Term] = [] if parent is None else parent._of_real
        if parent is not None and parent.facts == facts:
            self._heads = parent._by_head()

    def with_index(self, name: str, n: Term) -> Context:
        """The context under one more index."""
        if name in self.ranges:
            raise KernelError(f"index {name} is in use")
        if (name, n) not in self._inner:
            self._inner[name, n] = Context(self.ask, {**self.ranges, name: n}, self.facts, self.elements, self)
        return self._inner[name, n]

    def opened(self, n: Term, body: Term) -> tuple[Context, str, Term]:
        """The context under a binder, the index's name there, and the body at it."""
        name = fresh(self.ranges)
        if body not in self._bodies:
            self._bodies[body] = open_body(body, idx(name))
        return self.with_index(name, n), name, self._bodies[body]

    def with_condition(self, condition: Term) -> Context:
        """The context in which one more condition holds. Conjunctions are split."""
        if ("", condition) not in self._inner:
            self._inner["", condition] = self if condition in self._conditions() else self._where(condition)
        return self._inner["", condition]

    def where(self, conditions: Sequence[Term]) -> Context:
        """The context where these conditions hold."""
        ctx = self
        for condition in conditions:
            ctx = ctx.with_condition(condition)
        return ctx

    def _where(self, condition: Term) -> Context:
        found: list[Fact] = []
        stack = [condition]
        while stack:
            c = stack.pop()
            if c.op == "and":
                stack.extend(c.args)
            elif c.op == "not" and c.args[0].op == "or":
                stack.extend(negate(a) for a in c.args[0].args)
            elif c.op == "not" and c.args[0].op in ("lt", "le"):
                stack.append(negate(c.args[0]))
            else:
                found.append(Fact((), (), c))
                found += self._difference(c)
        return Context(self.ask, self.ranges, self.facts + tuple(found), self.elements, self)

    def _difference(self, c: Term) -> list[Fact]:
        """`a < b` between reals in other words: 0 < c·(b − a), c > 0, in normal form."""
        if c.op not in ("lt", "le") or arithmetic(c) or not all(map(self.real, c.args)):
            return []
        try:
            p = to_poly(sub(c.args[1], c.args[0]), self)
        except KernelError:
            return []
        return [Fact((), (), fn(c.op, ZERO, to_term(scaled(p))))] if p else []

    # -- signs ---------------------------------------------------------------------------------

    def real(self, t: Term) -> bool:
        """Whether t is known not to be −∞."""
        return bool(self.signs(t) & REAL)

    def nonzero(self, t: Term) -> bool:
        """Whether t is known to be a real other than 0."""
        return self.signs(t) & (REAL | NONZERO) == REAL | NONZERO

    def positive(self, t: Term) -> bool:
        """Whether t is known to be a real above 0."""
        return self.signs(t) & POS == POS

    def nonnegative(self, t: Term) -> bool:
        """Whether t is known to be a real, 0 or above."""
        return self.signs(t) & (REAL | NONNEG) == REAL | NONNEG

    def signs(self, t: Term) -> int:
        """The flags REAL, NONNEG, NONZERO that are known of t. The last two are about reals."""
        found = self._signs.get(t)
        if found is None:
            if t.weight > _DEEP:
                self._from_the_leaves(t)
            above = self._parent
            while above is not None and found != POS:
                found = above._signs.get(t)
                above = above._parent
            if found != POS:
                # What follows from the form is recorded first: a guard of a fact may ask about t again.
                found = self._signs[t] = self._signs_of(t)
                for fact, pattern, flags in self._by_head().get((t.op, t.data), ()):
                    if flags & ~found and self._holds_at(fact, pattern, t):
                        found |= flags
            self._signs[t] = found
        return found

    def _from_the_leaves(self, t: Term) -> None:
        """Finds the signs of the parts of a large term first, so that a deep one needs no deep recursion."""
        order: dict[Term, None] = {}
        stack = [t]
        while stack:
            u = stack.pop()
            if u not in order and u not in self._signs:
                order[u] = None
                if u.op not in ("big", "ite"):
                    stack.extend(u.args)
        for u in reversed(list(order)[1:]):
            self.signs(u)

    def _signs_of(self, t: Term) -> int:
        op, args = t.op, t.args
        if op == "num":
            value = t.data
            if not isinstance(value, type(ONE.data)):
                return 0
            return REAL | (NONNEG if value >= 0 else 0) | (NONZERO if value != 0 else 0)  # type: ignore[operator]
        if op in ("size", "idx"):
            return REAL | NONNEG | (NONZERO if self.positive_size(t) else 0)
        if op == "read":
            return REAL if self.elements.get(str(t.data), "extended") != "extended" else 0
        if op == "add":
            all_of = self._all(args)
            if all_of & (REAL | NONNEG) == REAL | NONNEG:
                return REAL | NONNEG | (NONZERO if any(self.positive(a) for a in args) else 0)
            return all_of & REAL
        if op == "mul":
            return self._signs_of_product(t)
        if op == "div":
            return REAL | (NONNEG if natural(t) else 0)
        if op == "inv":
            return REAL | (self.signs(args[0]) & (NONNEG | NONZERO) if self.real(args[0]) else 0)
        if op == "exp":
            return POS if self.real(args[0]) else REAL | NONNEG
        if op == "log":
            # log c > 0 for a number c > 1, and log c < 0 for one from 0 to 1; for c ≤ 0 it is 0.
            c = args[0].data if args[0].op == "num" else 0
            return REAL | (0 if not isinstance(c, Fraction) or c <= 0 or c == 1 else POS if c > 1 else NONZERO)
        if op == "sqrt":
            return REAL | NONNEG | (NONZERO if self.positive(args[0]) else 0)
        if op == "max":
            return (
                (REAL if any(self.real(a) for a in args) else 0)
                | (NONNEG if any(self.nonnegative(a) for a in args) else 0)
                | (NONZERO if any(self.positive(a) for a in args) else 0)
            )
        if op == "big":
            return self._signs_of_big(t)
        if op == "ite":
            return self.with_condition(args[0]).signs(args[1]) & self.with_condition(negate(args[0])).signs(args[2])
        if op == "apply":
            return REAL
        return 0

    def _signs_of_product(self, t: Term) -> int:
        """A product is real whatever its factors; its sign is that of real factors. Pairs are squares."""
        args = t.args
        if not self._all(args) & REAL:
            return REAL
        first = args[0].data
        if args[0].op == "num" and isinstance(first, Fraction) and first < 0 and first != -1:
            return self.signs(mul(MINUS, *args[1:]))
        odd: list[Term] = []
        for a in args:
            if a in odd:
                odd.remove(a)
            else:
                odd.append(a)
        turned = [a for a in odd if not self.nonnegative(a)]
        several = sum(a.op != "num" for a in odd) > 1
        nonneg = not turned or (several and len(turned) % 2 == 0 and all(self._nonpositive(a) for a in turned))
        return REAL | (NONNEG if nonneg else 0) | (self._all(args) & NONZERO)

    def _signs_of_big(self, t: Term) -> int:
        """The signs of a sum, product or maximum over an index: those that its body has at every index."""
        args = t.args
        inner, _, at = self.opened(*args)
        body = inner.signs(at)
        some = self.positive_size(args[0])
        if t.data == "sum":
            if not body & REAL:
                return 0
            return body & (REAL | NONNEG) | (NONZERO if body & POS == POS and some else 0)
        if t.data == "prod":
            return REAL | (body & (NONNEG | NONZERO) if body & REAL else 0)
        if not some or not body & REAL:
            return 0
        return body & (REAL | NONNEG) | (NONZERO if body & POS == POS else 0)

    def _nonpositive(self, a: Term) -> bool:
        if a.op == "num":
            return isinstance(a.data, Fraction) and a.data <= 0
        return a.op != "mul" and self.nonnegative(mul(MINUS, a))

    def _all(self, args: Sequence[Term]) -> int:
        result = POS
        for a in args:
            result &= self.signs(a)
        return result

    def positive_size(self, n: Term) -> bool:
        """Whether a size is known to be at least 1."""
        if n in self._asked:
            return self._asked[n]
        self._asked[n] = False  # what is asked of n on the way to an answer is not known yet
        known = self._some(n)
        if not known and n.op in ("add", "mul") and all(natural(a) for a in n.args):
            some = (self.positive_size(a) for a in n.args)
            known = any(some) if n.op == "add" else all(some)
        elif not known and arithmetic(n) and self._relevant(n):
            known = self.entails(fn("le", ONE, n))
        self._asked[n] = known
        return known

    def _some(self, n: Term) -> bool:
        """Whether a size is at least 1 by its form, as the range of an index, or by a fact."""
        if n.op == "num":
            return natural(n) and n != ZERO
        return any(n == m for m in self.ranges.values()) or fn("le", ONE, n) in self._conditions()

    def _relevant(self, n: Term) -> bool:
        # Only a range or an arithmetic fact that mentions a symbol of n can make it positive.
        names, indices = leaves(n, "size"), leaves(n, "idx")
        return any(names & leaves(m, "size") for m in self.ranges.values()) or any(
            arithmetic(f.condition) and (names & leaves(f.condition, "size") or indices & leaves(f.condition, "idx"))
            for f in self.facts
        )

    # -- facts and conditions ------------------------------------------------------------------

    def _by_head(self) -> dict[tuple[str, Data], list[tuple[Fact, Term, int]]]:
        """The facts about signs, each with the term that it is about and the flags, by the head operation of that
        term."""
        if self._heads is None:
            self._heads = {}
            for fact in self.facts:
                c = fact.condition
                if c.op == "real":
                    pattern, flags = c.args[0], REAL
                elif c.op == "lt" and c.args[0] in (ZERO, BOT):
                    pattern, flags = c.args[1], POS if c.args[0] == ZERO else REAL
                elif c.op == "le" and c.args[0] == ZERO:
                    pattern, flags = c.args[1], REAL | NONNEG
                elif c.op == "not" and c.args[0].op == "eq" and BOT in c.args[0].args:
                    pattern, flags = c.args[0].args[c.args[0].args[0] == BOT], REAL
                elif c.op == "not" and c.args[0].op == "eq" and ZERO in c.args[0].args:
                    # −∞ ≠ 0 too: the fact alone does not make a term real.
                    pattern, flags = c.args[0].args[c.args[0].args[0] == ZERO], NONZERO
                else:
                    continue
                self._heads.setdefault((pattern.op, pattern.data), []).append((fact, pattern, flags))
        return self._heads

    def _holds_at(self, fact: Fact, pattern: Term, t: Term) -> bool:
        values = match(pattern, t, {name for name, _ in fact.variables})
        return values is not None and any(self._holds_for(fact, chosen) for chosen in self._choices(fact, values))

    def _choices(self, fact: Fact, values: dict[str, Term]) -> Iterator[dict[str, Term]]:
        """The values extended by some for the variables that only guards mention, such that the guards hold; and
        without such."""
        found = [values]
        for guard in fact.guards:
            for part in guard.args if guard.op == "and" else (guard,):
                more: list[dict[str, Term]] = []
                for chosen in found:
                    free = {n for n, size_ in fact.variables if size_ is not None and n not in chosen}
                    here = substitute(part, {("idx", n): v for n, v in chosen.items()})
                    made = [match(here, c, free) for c in self._conditions()] if free & leaves(part, "idx") else []
                    more += [chosen | m for m in made if m is not None] or [chosen]
                found = more[:_CHOICES]
        yield from (chosen for chosen in found if chosen != values)
        yield values

    def _holds_for(self, fact: Fact, values: dict[str, Term]) -> bool:
        put: dict[tuple[str, Data], Term] = {("idx", name): value for name, value in values.items()}
        for name, n in fact.variables:
            value = values.get(name)
            if n is None:
                if value is None:
                    return False
                continue
            # A variable that the pattern does not mention may be any index, if there is one.
            if value is None:
                if not self.positive_size(substitute(n, put)):
                    return False
                put["idx", name] = ZERO
                continue
            bound_ = substitute(n, put)
            if self.ranges.get(str(value.data)) == bound_ and value.op == "idx":
                continue
            # What holds at every index says nothing between two of them.
            within = integer(self, value) and self.entails(fn("le", ZERO, value))
            if not within or not self.entails(fn("lt", value, bound_)):
                return False
        return all(self.entails(substitute(g, put)) for g in fact.guards)

    def entails(self, condition: Term) -> bool:
        """Whether a condition follows here: by its form, from a fact, by signs, or by the solver for integers."""
        if condition not in self._held:
            if condition in self._open:
                return False  # what would follow from itself does not follow
            self._open[condition] = None
            try:
                self._held[condition] = self._entails(condition)
            finally:
                del self._open[condition]
        return self._held[condition]

    def _entails(self, condition: Term) -> bool:
        if condition.op == "true":
            return True
        if condition.op == "and":
            return all(self.entails(a) for a in condition.args)
        if condition in self._conditions():
            return True
        if condition.op == "le" and condition.args[0] == ZERO and natural(condition.args[1]):
            return True
        if any(f.variables and self._holds_at(f, f.condition, condition) for f in self.facts):
            return True
        if arithmetic(condition):
            if self._ordered(condition):
                return True
            return self.ask([*self.inside(), *(c for c in self._conditions() if arithmetic(c))], condition)
        if condition.op == "real":
            return self.real(condition.args[0])
        if condition.op in ("lt", "le") and all(integer(self, a) for a in condition.args) and self._ordered(condition):
            return True
        if condition.op == "le" and fn("lt", *condition.args) in self._conditions():
            return True
        if condition.op in ("lt", "le") and condition.args[0] == ZERO:
            known = (self.positive if condition.op == "lt" else self.nonnegative)(condition.args[1])
        elif condition.op == "not" and condition.args[0].op == "eq":
            a, b = condition.args[0].args
            if BOT in (a, b):
                return self.real(b if a == BOT else a)
            known = ZERO in (a, b) and self.nonzero(b if a == ZERO else a)
        else:
            known = False
        return known or self._of_reals(condition)

    def _of_reals(self, condition: Term) -> bool:
        """Whether a condition follows by the solver, with atoms that it treats as opaque."""
        if len(self._of_real) == _NESTED:
            return False
        self._of_real.append(condition)
        try:
            words = Opaque(self)
            goal = words.condition(condition)
            if goal.op in ("le", "eq") and goal.args[0] == goal.args[1]:
                return True
            spoken = words.spoken(goal)
            facts = [words.condition(c) for c in self._conditions() if c.op != "real"] + words.known
        finally:
            self._of_real.pop()
        # Of facts that say nothing of what it speaks of, nothing follows about the goal.
        linked: list[Term] = []
        while more := [c for c in facts if c not in linked and words.spoken(c) & spoken]:
            linked += more
            spoken = spoken.union(*map(words.spoken, more))
        if not linked or len(words.names) > LIMIT:
            return False
        return self.ask([*self.inside(), *linked, *(c for c in facts if not words.spoken(c))], goal)

    def inside(self) -> list[Term]:
        """The hypotheses that indices are in their ranges."""
        return [fn("le", ZERO, idx(i)) for i in self.ranges] + [
            fn("lt", idx(i), n) for i, n in self.ranges.items() if arithmetic(n)
        ]

    def integers(self, t: Term) -> bool:
        """`arithmetic`."""
        return arithmetic(t)

    def _conditions(self) -> dict[Term, None]:
        """The facts that hold as they stand: without variables, or about the indices of this context.

        An order of integers that holds for all indices holds at the first and at the last of each, if there is one.
        """
        if self._plain is None:
            here = self.ranges.items()
            plain = [f for f in self.facts if all((name, n) in here for name, n in f.variables)]
            self._plain = {f.condition: None for f in plain if not f.guards}
            self._plain |= {f.condition: None for f in plain if f.guards and self._plain.keys() >= set(f.guards)}
            self._plain |= {c: None for f in self.facts for c in self._at_ends(f)}
        return self._plain

    def _at_ends(self, fact: Fact) -> list[Term]:
        """An unguarded order of integers, at the first and the last of its indices that are not here."""
        others = [(name, n) for name, n in fact.variables if self.ranges.get(name) != n]
        found = [fact.condition] if 0 < len(others) <= 2 and not fact.guards and arithmetic(fact.condition) else []
        for name, n in others if found else ():
            if n is None or not arithmetic(n) or leaves(n, "idx") or not self._some(n):
                return []
            found = [substitute(c, {("idx", name): end}) for c in found for end in (ZERO, sub(n, ONE))]
        return found

    def _ordered(self, condition: Term) -> bool:
        """Whether an order of integers follows from signs: the most common bounds, without a solver.

        The difference of the sides, minus at most one fact about a difference, has no negative coefficient once indices
        and sizes that occur with one are written as `_top` says.
        """
        if condition.op not in ("lt", "le"):
            return False
        low, high = condition.args
        if condition.op == "lt" and low.op == "div" and self.real(low.args[0]) and self.positive_size(low.args[1]):
            return self.entails(fn("lt", low.args[0], mul(high, low.args[1])))
        p = self._distance(condition)
        floors = {a for m in p for a, _ in m if a.op == "div" and self.positive_size(a.args[1])}
        floors = {t for t in floors if all(integer(self, u) for u in t.args)}
        # 0 ≤ a − n·⌊a/n⌋ ≤ n − 1 for integers a and n ≥ 1
        rests = [(sub(t.args[0], mul(t.args[1], t)), t.args[1]) for t in sorted(floors, key=lambda t: t.key)]
        known = [self._distance(c) for rest, n in rests for c in (fn("le", ZERO, rest), fn("lt", rest, n))]
        if self._distances is None:
            orders = (c for c in self._conditions() if c.op in ("lt", "le") and arithmetic(c))
            self._distances = [self._distance(c) for c in orders]
        return any(self._no_less(plus(p, scaled_by(q, -1))) for q in ({}, *known, *self._distances))

    def _distance(self, c: Term) -> Poly:
        """By how much the right side of an order of integers exceeds the least value that makes it true."""
        return to_poly(add(sub(c.args[1], c.args[0]), MINUS if c.op == "lt" else ZERO), self)

    def _no_less(self, p: Poly) -> bool:
        for _ in range(20):
            low = [m for m, c in p.items() if c < 0]
            if not low:
                return all(a.op == "rest" or natural(a) for m in p for a, _ in m)
            found = next(((a, top) for m in low for a, _ in m if (top := self._top(a)) is not None), None)
            if found is None:
                return False
            p = put(p, *found, self)
        return False

    def _top(self, a: Term) -> Poly | None:
        """An index i below n as n − 1 − j, a size that is at least 1 as 1 + j, for a natural number j of its own.

        Its operation is one that no program, certificate or rule makes.
        """
        j: Poly = {((Term("rest", None, (a,)), 1),): 1}
        if a.op == "idx" and arithmetic(self.ranges.get(str(a.data), BOT)):
            return plus(to_poly(sub(self.ranges[str(a.data)], ONE), self), scaled_by(j, -1))
        return plus(to_poly(ONE, self), j) if a.op == "size" and self._some(a) else None
