"""Random kernel terms and contexts, shaped so that rules often apply to them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from kernel_oracle import ask

from catdiag.kernel.context import Context
from catdiag.kernel.facts import Fact, nonzero, real
from catdiag.kernel.terms import (
    BOT,
    FALSE,
    MINUS,
    ONE,
    TRUE,
    UNITS,
    ZERO,
    Term,
    add,
    big,
    close_body,
    combine,
    fn,
    idx,
    maximum,
    mul,
    num,
    open_body,
    read,
    size,
    term_data,
)

# Arrays by name: rank, and the pool its values come from. P, Z and W are known positive, ≥ 0, ≠ 0 by facts.
ARRAYS = {"A": (1, "real"), "C": (0, "real"), "E": (1, "extended"), "X": (0, "extended"), "M": (2, "real"),
          "F": (2, "extended"), "P": (1, "pos"), "Z": (1, "nonneg"), "W": (1, "nonzero"), "H": (1, "bool")}  # fmt: skip
POOL_OF = {name: pool for name, (_, pool) in ARRAYS.items()}
ELEMENTS = {name: pool if pool in ("extended", "bool") else "real" for name, (_, pool) in ARRAYS.items()}
SIZES = [size("n"), size("m"), size("p")]
NUMBERS = [num(Fraction(x)) for x in ("0", "1", "-1", "2", "1/2", "3")]
MONOIDS = ("sum", "prod", "max")


@dataclass
class Maker:
    """A source of random terms over given free indices."""

    rng: random.Random
    indices: list[str] = field(default_factory=list)
    names: int = 0

    def one(self, *options: Any) -> Any:
        return self.rng.choice(options)

    def position(self) -> Term:
        places = [idx(i) for i in self.indices] * 3 + [ZERO, ONE, size("n")]
        first = self.rng.choice(places)
        draw = self.rng.random()
        if draw < 0.05:
            return fn("div", first, self.one(size("n"), size("p"), num(2)))
        return add(first, self.rng.choice(places)) if draw < 0.15 else first

    def read(self, *names: str) -> Term:
        name = self.rng.choice(names or [n for n in ARRAYS if n != "H"])
        return read(name, *(self.position() for _ in range(ARRAYS[name][0])))

    def length(self) -> Term:
        return self.rng.choice([*SIZES, num(2), ONE, add(size("n"), ONE)])

    def number(self, depth: int = 2) -> Term:
        if depth <= 0 or self.rng.random() < 0.2:
            other = self.one(self.read("A", "P", "M"), self.rng.choice(NUMBERS), BOT, self.index())
            return self.one(self.read(), other, other)
        op = self.one("add", "add", "mul", "mul", "inv", "exp", "exp", "log", "sqrt", "max", "big", "ite", "apply")
        if op in ("add", "mul", "max"):
            return Term(op, None, tuple(self.number(depth - 1) for _ in range(self.one(2, 2, 3))))
        if op in ("inv", "exp", "log", "sqrt"):
            return fn(op, self.number(depth - 1))
        if op == "big":
            return self.over(self.one(*MONOIDS), self.length(), lambda: self.number(depth - 1))
        if op == "apply":
            return Term("apply", "f", (self.number(depth - 1),))
        return fn("ite", self.truth(depth - 1), self.number(depth - 1), self.number(depth - 1))

    def real(self, depth: int = 2) -> Term:
        """A term that is often known to be real."""
        if depth <= 0 or self.rng.random() < 0.2:
            return self.one(self.read("A", "C", "P", "Z", "W", "M"), self.rng.choice(NUMBERS), self.index())
        op = self.one("add", "mul", "mul", "inv", "exp", "exp", "log", "sqrt", "big", "square", "cancel")
        if op in ("add", "mul"):
            return Term(op, None, tuple(self.real(depth - 1) for _ in range(self.one(2, 2, 3))))
        if op == "big":
            return self.over("sum", self.length(), lambda: self.real(depth - 1))
        if op == "square":
            t = fn(self.one("sqrt", "exp", "log"), self.one(self.number(1), self.real(1)))
            return mul(t, t)
        if op == "cancel":
            t = self.one(self.real(1), fn("exp", self.number(1)), self.number(1))
            return mul(t, fn("inv", t))
        return fn(op, self.real(depth - 1))

    def index(self) -> Term:
        found: Term = self.rng.choice([idx(i) for i in self.indices] + SIZES)
        if self.rng.random() < 0.1:
            return fn("div", *self.rng.sample([found, add(found, size("n")), size("p"), num(2), num(-1)], 2))
        return found

    def truth(self, depth: int = 1) -> Term:
        op = self.one("lt", "le", "eq", "lt", "le", "eq", "not", "and", "or", "holds")
        if op == "holds":
            return Term("holds", "H", (self.position(),))
        if op == "not":
            return fn("not", self.truth(depth - 1) if depth > 0 else fn("eq", self.read(), ZERO))
        if op in ("and", "or") and depth > 0:
            return fn(op, self.truth(depth - 1), self.truth(depth - 1))
        if op in ("and", "or"):
            op = "le"
        if self.rng.random() < 0.4:
            return fn(op, self.index(), self.one(self.index(), add(self.index(), ONE)))
        if self.rng.random() < 0.3:
            return fn(op, self.one(ZERO, BOT), self.number(depth - 1))
        return fn(op, self.number(depth - 1), self.one(ZERO, BOT, self.number(depth - 1)))

    def over(self, monoid: str, n: Term, body: Callable[[], Term]) -> Term:
        """⊕ over a new index, which the body may use."""
        name = f"o{self.names}"
        self.names += 1
        self.indices.append(name)
        inside = body()
        self.indices.remove(name)
        return big(monoid, n, close_body(inside, name))

    def some(self, count: int) -> list[int]:
        chosen = [k for k in range(count) if self.rng.random() < 0.5]
        return chosen + chosen[:1] if self.rng.random() < 0.05 else chosen

    def context(self) -> Context:
        """A context with up to two indices, with facts about arrays, and perhaps a condition."""
        ranges = {}
        for name in ("i", "j")[: self.rng.randrange(3)]:
            ranges[name] = self.one(size("n"), size("p"), add(size("n"), size("m")), num(2))
        self.indices = list(ranges)
        v = idx("v")
        facts = [
            Fact((), (), fn("le", ONE, size("p"))),
            Fact((("v", None),), (), fn("lt", ZERO, read("P", v))),
            Fact((("v", None),), (), fn("le", ZERO, read("Z", v))),
            Fact((("v", None),), (), nonzero(read("W", v))),
        ]
        optional = [
            Fact((("v", size("n")),), (), real(read("E", v))),
            Fact((("v", size("n")),), (fn("lt", v, size("m")),), fn("lt", ZERO, read("A", v))),
            Fact((("v", size("p")), ("w", size("n"))), (), nonzero(read("M", v, idx("w")))),
            Fact((("v", size("p")),), (), real(big("max", size("n"), read("F", v, Term("b", 0))))),
            Fact((("v", size("m")),), (), nonzero(read("C"))),
            Fact((("v", size("n")),), (Term("holds", "H", (v,)),), real(read("E", v))),
        ]
        facts += [f for f in optional if self.rng.random() < 0.3]
        ctx = Context(ask, ranges, tuple(facts), ELEMENTS)
        return ctx.with_condition(self.truth()) if self.rng.random() < 0.3 else ctx

    # -- what each rule looks for ------------------------------------------------------------------

    def shaped(self, rule: str) -> tuple[Term, list[Any]]:
        """A term at which a rule may apply, and arguments."""
        monoid, r = self.one(*MONOIDS), self
        inner = self.one(self.number, self.real)
        if rule == "ring":
            return self.one(self.real(3), self.real(3), self.number(2)), []
        if rule in ("split", "nest"):
            n = Term("add" if rule == "split" else "mul", None, tuple(self.one(*SIZES, ONE, num(2)) for _ in range(2)))
            return self.over(monoid, n, lambda: inner(2)), []
        if rule in ("empty", "single"):
            return self.over(monoid, ZERO if rule == "empty" else ONE, lambda: inner(2)), []
        if rule == "part":
            return self.over(monoid, self.length(), lambda: combine(monoid, inner(1), inner(1))), []
        if rule in ("pull", "scale"):
            monoid = "max" if rule == "scale" else self.one("sum", "max")
            join = mul if rule == "scale" or monoid == "sum" else add
            outside = [self.one(self.read("P", "Z", "C", "A", "E"), num(2), num(-1), inner(1)) for _ in range(2)]
            count = self.one(1, 2)

            def body() -> Term:
                return join(*outside[:count], *(inner(1) for _ in range(self.one(1, 2))))

            t = self.over(monoid, self.length(), body)
            chosen = list(range(count)) if r.rng.random() < 0.8 else self.some(len(t.args[1].args))
            return t, [chosen]
        if rule == "push":
            op = self.one("mul", "add")
            reduced = self.over("sum" if op == "mul" else "max", self.length(), lambda: inner(1))
            parts = [inner(1), reduced] if self.rng.random() < 0.5 else [reduced, inner(1), inner(0)]
            return Term(op, None, tuple(parts)), [parts.index(reduced)]
        if rule == "swap":
            first, second = self.length(), self.length()
            return self.over(monoid, first, lambda: self.over(monoid, second, lambda: inner(1))), []
        if rule == "constant":
            c = self.one(inner(1), inner(1), ONE, self.read("C", "X", "A"))
            if self.rng.random() < 0.2:
                return self.over(monoid, self.length(), lambda: inner(1)), []
            return big(monoid, self.length(), c), []
        if rule == "reindex":
            return self.reindexed(monoid, inner)
        if rule == "shift":
            return self.over("sum", self.length(), lambda: inner(1)), [self.one("up", "down")]
        if rule == "join":
            n = self.length()
            parts = [self.over(monoid, n if self.rng.random() < 0.9 else self.length(), lambda: inner(1)) for _ in "ab"]
            return combine(monoid, *parts), []
        if rule == "telescope":
            return self.telescoped()
        if rule == "turn":
            how = self.one("connective", "connective", "opposite", "equal", "max")
            c, d = self.truth(), self.truth()
            wanted = {
                "connective": self.one(fn("and", c, d), fn("or", c, d, self.truth()), fn("not", c)),
                "opposite": c,
                "equal": fn("le", self.number(1), self.number(1)),
                "max": fn("or", c, d),
            }
            branches = (ONE, ZERO) if how == "max" and self.rng.random() < 0.9 else (inner(1), inner(1))
            return fn("ite", wanted[how], *branches), [how]
        if rule == "distinguish":
            return self.one(inner(2), self.truth(2)), [term_data(self.truth(1))]
        if rule == "same":
            return self.equal()
        if rule == "lattice":
            return maximum(self.number(1), self.one(BOT, ONE, num(2)), maximum(ONE, self.number(1))), []
        if rule == "bottom":
            op = self.one("add", "mul", "exp", "inv", "log", "sqrt")
            return Term(op, None, (BOT,) if op not in ("add", "mul") else (self.number(1), BOT)), []
        if rule == "decide":
            draw = self.rng.random()
            if draw < 0.2:
                return self.truth(0), []
            if draw < 0.3:
                return fn(self.one("lt", "le"), *self.ordered()), []
            if draw < 0.7:
                return self.added_up()
            yes, no = inner(1), inner(1)
            return fn("ite", self.truth(), yes, self.one(yes, no, no)), []
        if rule == "compare":
            a = self.one(self.number(1), self.rng.choice(NUMBERS), BOT)
            b = self.one(self.real(1), self.rng.choice(NUMBERS), BOT)
            pair = self.one((a, b), (b, a), (a, a))
            return fn(self.one("lt", "le", "eq"), *pair), []
        if rule == "divide":
            n = self.one(size("n"), size("p"), num(2), mul(size("n"), size("m")), add(size("n"), size("p")))
            q = self.one(self.index(), ONE, num(-2), self.position())
            r = self.one(self.index(), self.index(), ZERO, ONE)
            a = self.one(add(mul(q, n), r), add(r, mul(n, q)), add(mul(n, q), r, ZERO), mul(q, n), add(q, r))
            quotient, remainder = (q, r) if self.rng.random() < 0.9 else (add(q, MINUS), add(r, n))
            return fn("div", a, n), [term_data(quotient), term_data(remainder if a.op == "add" else ZERO)]
        if rule == "exp_add":
            return fn("exp", add(self.number(1), self.number(1), inner(1))), [self.some(3)]
        if rule == "through":
            f = self.one("exp", "inv", "sqrt", "log", "exp")
            into = self.one("sum" if f == "log" else "prod", "max")

            def under() -> Term:
                return fn(f, self.one(self.read("P", "Z", "A"), mul(*[self.read("A")] * 2), inner(1), inner(1)))

            if into == "max" and self.rng.random() < 0.4:
                return maximum(under(), under()), []
            return self.over(into, self.length(), under), []
        if rule == "larger":
            if self.rng.random() < 0.5:
                return maximum(*self.ordered()), []
            a, b = self.real(1), self.number(1)
            c = self.one(b, add(a, self.one(ONE, self.read("Z", "P", "A"))), mul(self.one(num(2), num(-1)), a))
            return maximum(*self.one((a, c, b), (c, a), (b, c, a))), []
        if rule == "difference":
            op = self.one("lt", "le", "eq")
            if self.rng.random() < 0.4:
                n = self.one(num(2), num(3), num(-2))
                return fn(op, mul(n, self.index()), add(mul(n, self.index()), self.one(ONE, MINUS, num(5)))), []
            a, b = self.real(1), self.real(1)
            return fn(op, a, self.one(b, a, mul(num(-2), b))), []
        if rule == "flatten":
            op = self.one("add", "mul")
            return Term(op, None, (self.number(1), Term(op, None, (self.number(1), inner(1))))), []
        if rule == "guard":
            parts = [inner(1), self.one(ZERO, inner(1))]
            self.rng.shuffle(parts)
            return fn("ite", self.truth(), *parts), []
        if rule == "order":
            op = self.one("lt", "le")
            if self.rng.random() < 0.3:

                def positive() -> Term:
                    inside = self.one(inner(1), self.over("max", self.length(), lambda: inner(1)))
                    return fn("ite", fn(self.one("lt", "lt", "lt", "le"), ZERO, inside), ONE, ZERO)

                return fn("lt", ZERO, self.over("max", self.length(), positive)), ["back"]
            several = maximum(self.number(1), self.number(1))
            pair = [self.one(several, self.over("max", self.length(), lambda: inner(1))), self.number(1)]
            self.rng.shuffle(pair)
            return fn(op, *pair), []
        if rule == "logic":
            parts = [self.truth(), self.one(TRUE, FALSE, self.truth(2)), self.truth()]
            return self.one(fn(self.one("and", "or"), *parts), fn("not", self.truth(2))), []
        # A rule that is not known here gets anything.
        return self.number(3), []

    def ordered(self) -> tuple[Term, Term]:
        """Two terms of which the first is often known to be at most the second."""
        monoid, length = self.one("max", "max", "sum"), self.length()
        body = [self.one(self.read("A", "P", "Z", "E"), self.number(1))]
        reduced = self.over(monoid, length, lambda: body[0] if self.rng.random() < 0.2 else self.inside(body))
        here = self.one(idx(self.rng.choice(self.indices)) if self.indices else ZERO, ZERO, ONE, size("n"))
        a = self.one(self.at(reduced, here), reduced)
        more = maximum(reduced, self.number(0))
        least = mul(MINUS, self.over("max", length, lambda: mul(MINUS, self.inside(body))))
        return self.one(
            (a, reduced), (a, more), (reduced, more), (more, reduced), (least, a), (reduced, a), (least, more)
        )

    def inside(self, kept: list[Term]) -> Term:
        """A body under the newest index; the same for the same list."""
        here = idx(self.indices[-1])
        kept[0] = read(kept[0].data, here) if kept[0].op == "read" and len(kept[0].args) == 1 else kept[0]
        return kept[0]

    @staticmethod
    def at(reduced: Term, place: Term) -> Term:
        """The body of a reduction at an index."""
        return open_body(reduced.args[1], place)

    def added_up(self) -> tuple[Term, list[Any]]:
        """A comparison that often follows from what the branch around it would know, with the sum that shows it."""
        parts, data = [], []
        for _ in range(self.one(1, 2)):
            a = self.one(self.read("P", "Z"), self.read("A"), self.real(1))
            data.append([term_data(fn(self.one("lt", "le"), ZERO, a)), self.one("1", "2", "1/2", "-1")])
            parts.append(mul(num(Fraction(str(data[-1][1]))), a))
        least = self.one(ZERO, ONE, MINUS)
        total = add(*parts, self.one(ZERO, ONE, least))
        return fn(self.one("lt", "le"), *self.one((mul(MINUS, least), total), (ZERO, total), (total, ZERO))), [data]

    def equal(self) -> tuple[Term, list[Any]]:
        """A term or condition and one that it may be equal to."""
        if self.rng.random() < 0.4:
            a, b = self.index(), self.index()
            c = self.one(fn("lt", a, b), fn("le", a, b), fn("eq", a, b))
            d = {
                "lt": fn("le", add(a, ONE), b),
                "le": self.one(fn("lt", a, add(b, ONE)), fn("lt", a, b)),
                "eq": fn("eq", b, a),
            }
            return c, [term_data(d[c.op])]
        t = self.one(self.real, self.number)(2)
        extra = self.one(self.read("A", "P", "W", "Z"), fn("exp", self.number(1)), self.real(1))
        u = self.one(
            mul(t, extra, fn("inv", extra)), mul(fn("inv", fn("inv", t)), ONE), add(t, extra, mul(MINUS, extra))
        )
        return u, [term_data(t)]

    def reindexed(self, monoid: str, inner: Callable[[int], Term]) -> tuple[Term, list[Any]]:
        """A reduction, and a bijection to the indices that count in it, or nearly one."""
        n, b0 = self.length(), Term("b", 0)
        kind = self.one("one", "one", "reverse", "shift", "less")
        k = self.one(self.position(), ONE, num(2), size("m"), num(Fraction(1, 2)))
        guards = {
            "one": lambda i: fn("eq", i, i if self.rng.random() < 0.1 else k),
            "reverse": lambda i: fn("le", ZERO, i),
            "shift": lambda i: fn("le", ONE, i),
            "less": lambda i: fn("lt", i, size("p")),
        }

        def guarded() -> Term:
            here = idx(self.indices[-1])
            if kind == "reverse" and self.rng.random() < 0.7:
                return inner(1)
            return fn("ite", guards[kind](here), inner(1), UNITS[monoid])

        t = self.over(monoid, n, guarded)
        length = {"one": ONE, "reverse": n, "shift": self.one(size("m"), n, ONE), "less": size("p")}[kind]
        back = {"one": ZERO, "reverse": add(n, MINUS, mul(MINUS, b0)), "shift": add(b0, MINUS), "less": b0}[kind]
        forth = {"one": k, "reverse": back, "shift": add(b0, ONE), "less": b0}[kind]
        if kind == "shift" and n.op == "add":
            length = size("n")
        return t, [term_data(length), term_data(forth), term_data(back)]

    def telescoped(self) -> tuple[Term, list[Any]]:
        """Σ of a power of the index times a constant, with its closed form, or one that is a little off."""
        i, c = Term("b", 0), self.one(ONE, self.read("C", "A", "X"))
        half, n = num(Fraction(1, 2)), self.one(size("n"), size("p"), num(2))
        body, total = self.one(
            (c, mul(c, i)),
            (mul(c, i), mul(half, c, i, add(i, MINUS))),
            (mul(c, i, i), mul(num(Fraction(1, 6)), c, i, add(i, MINUS), add(mul(num(2), i), MINUS))),
        )
        monoid = self.one("sum", "sum", "sum", "prod")
        if monoid == "prod":
            body, total = fn("exp", c), fn("exp", mul(c, i))
        if self.rng.random() < 0.2:
            total = self.one(add(total, ONE), mul(num(2), total))
        return big(monoid, n, body), [term_data(total)]

    def placed(self, rule: str) -> tuple[Term, list[int], list[Any]]:
        """A shaped term, perhaps under a binder or in a branch, with the path to it."""
        where = self.rng.random()
        if where < 0.6:
            t, args = self.shaped(rule)
            return t, [], args
        if where < 0.8:
            found: list[Any] = []

            def body() -> Term:
                t, args = self.shaped(rule)
                found.append(args)
                return t

            t = self.over(self.one("sum", "max"), self.length(), body)
            logical = t.args[1].op in ("lt", "le", "eq", "and", "or", "not", "true", "false", "holds")
            return (t.args[1], [], found[0]) if logical and not t.args[1].loose else (t, [1], found[0])
        t, args = self.shaped(rule)
        if t.op in ("lt", "le", "eq", "and", "or", "not", "true", "false", "holds"):
            if self.rng.random() < 0.5:
                return fn(self.one("and", "or"), self.truth(), t), [1], args
            return fn("ite", t, self.number(1), self.number(1)), [0], args
        if self.rng.random() < 0.3:
            branches = self.one((ONE, ZERO), (self.number(1), ZERO), (ZERO, ONE), (ONE, num(2)))
            return mul(fn("ite", self.truth(), *branches), t), [1], args
        if self.rng.random() < 0.5:
            return fn("ite", self.truth(), t, self.number(1)), [1], args
        return fn("ite", self.truth(), self.number(1), t), [2], args
