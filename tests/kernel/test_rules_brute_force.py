"""Every rule and judgement of the kernel against an independent exact evaluator, at sizes 0 to 3, −∞ and 0 included."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from kernel_oracle import BOTTOM, Unclear, Undefined, World, agree, fact_holds, value, worlds
from kernel_terms import POOL_OF, Maker

from catdiag.kernel import rewrite_rules
from catdiag.kernel.context import NONNEG, NONZERO, REAL, Context
from catdiag.kernel.definedness import owes
from catdiag.kernel.facts import Fact, match
from catdiag.kernel.polynomial import normal, to_poly, vanishes
from catdiag.kernel.terms import (
    ONE,
    KernelError,
    Term,
    add,
    close_body,
    fn,
    idx,
    leaves,
    mul,
    num,
    open_body,
    show,
    size,
    sub,
    substitute,
)
from catdiag.prover.refute.exact_reals import bounds

# How many terms are tried for a rule, and how many of them it must at least have changed.
TRIES = 190
LEAST = 25


def _free(t: Term, ctx: Context) -> set[str]:
    return leaves(t, "idx") - set(ctx.ranges)


def _same_everywhere(ctx: Context, t: Term, u: Term, rng: random.Random, tries: int) -> int:
    """Asserts that two terms agree in random worlds of a context; in how many."""
    agreed = 0
    for world in worlds(ctx, POOL_OF, rng, tries):
        try:
            x, y = value(t, world), value(u, world)
        except Unclear:
            continue
        assert agree(x, y), f"{show(t)}\n = {x}, but\n{show(u)}\n = {y}\nat {world}\nin {ctx.ranges} {ctx.facts}"
        agreed += 1
    return agreed


def brute_force(rule: str, seed: int, tries: int = TRIES) -> Counter[str]:
    """Applies a rule to random terms; every result must have the value of its term."""
    rng = random.Random(f"{rule} {seed}")
    counts: Counter[str] = Counter()
    for _ in range(tries):
        maker = Maker(rng)
        ctx = maker.context()
        t, path, args = maker.placed(rule)
        if t.loose or _free(t, ctx):
            continue
        try:
            result = rewrite_rules.apply(ctx, t, rule, path, args)
        except KernelError:
            counts["refused"] += 1
            continue
        assert not result.loose
        assert not _free(result, ctx), show(result)
        counts["applied"] += 1
        counts["worlds"] += _same_everywhere(ctx, t, result, rng, 6)
    return counts


@pytest.mark.parametrize("rule", sorted(rewrite_rules.RULES))
def test_what_a_rule_gives_has_the_value_of_what_it_took(rule: str) -> None:
    counts = brute_force(rule, 0)
    assert counts["applied"] >= LEAST, counts
    assert counts["worlds"] >= LEAST, counts


def judgements(seed: int, tries: int) -> Counter[str]:
    """What a context says of random terms, against their values."""
    rng = random.Random(f"judgements {seed}")
    counts: Counter[str] = Counter()
    for _ in range(tries):
        maker = Maker(rng)
        ctx = maker.context()
        t = maker.one(maker.number, maker.real)(2)
        condition = maker.truth(1)
        signs, entailed = ctx.signs(t), ctx.entails(condition)
        n = maker.one(maker.index(), maker.length())
        some = ctx.positive_size(n)
        counts["real"] += bool(signs & REAL)
        counts["nonneg"] += bool(signs & NONNEG)
        counts["nonzero"] += bool(signs & NONZERO)
        counts["entailed"] += entailed
        for world in worlds(ctx, POOL_OF, rng, 5):
            assert not some or value(n, world) >= 1, f"{show(n)} is 0 at {world}"
            try:
                x = value(t, world)
                if not entailed or value(condition, world) is True:
                    counts["worlds"] += 1
                else:
                    raise AssertionError(f"{show(condition)} is false at {world} in {ctx.ranges} {ctx.facts}")
                said = f"{show(t)} = {x} at {world}, said {signs} in {ctx.ranges} {ctx.facts}"
                if x is BOTTOM:
                    assert not signs & REAL, said
                    continue
                low, high = bounds(x)
                assert not signs & REAL or not signs & NONNEG or high >= 0, said
                assert not signs & REAL or not signs & NONZERO or low != 0 or high != 0, said
            except Unclear:
                continue
    return counts


def test_signs_and_entailment_are_true() -> None:
    counts = judgements(0, 900)
    assert min(counts.values()) >= 60, counts


def fields(seed: int, tries: int) -> Counter[str]:
    """What `vanishes` calls zero is zero."""
    rng = random.Random(f"field {seed}")
    counts: Counter[str] = Counter()
    for _ in range(tries):
        maker = Maker(rng)
        ctx = maker.context()
        t = maker.real(2)
        try:
            kind = maker.one("normal", "rewritten", "mixed")
            u = normal(t, ctx) if kind == "normal" else (_rewritten if kind == "rewritten" else _mixed)(maker, t)
            if not vanishes(to_poly(sub(t, u), ctx), ctx):
                counts["not zero"] += 1
                continue
        except KernelError:
            continue
        counts["zero"] += 1
        counts["worlds"] += _same_everywhere(ctx, t, u, rng, 4)
    return counts


def _rewritten(maker: Maker, t: Term) -> Term:
    """The term with factors that may cancel, rightly or wrongly."""
    extra = maker.one(maker.read("A", "P", "W", "Z"), fn("exp", maker.number(1)), maker.real(1))
    return maker.one(
        mul(t, extra, fn("inv", extra)),
        mul(fn("inv", fn("inv", t)), ONE),
        mul(t, fn("exp", fn("log", extra)), fn("inv", extra)),
        mul(t, fn("sqrt", extra), fn("sqrt", extra), fn("inv", extra)),
        fn("exp", fn("log", t)),
        fn("log", fn("exp", t)),
    )


def _mixed(maker: Maker, t: Term) -> Term:
    a, b = maker.real(1), maker.read("A", "P", "W", "E", "X")
    return maker.one(
        add(mul(t, a, fn("inv", a)), b, mul(num(-1), b)),
        mul(fn("exp", mul(b, fn("inv", b))), fn("inv", fn("exp", num(1))), t),
        fn("log", mul(fn("exp", t), a, fn("inv", a))),
        mul(t, fn("exp", b), fn("exp", b), fn("inv", fn("exp", mul(num(2), b)))),
    )


def test_what_vanishes_is_zero() -> None:
    counts = fields(0, 700)
    assert counts["zero"] >= 100 and counts["not zero"] >= 40, counts


def definedness(seed: int, tries: int) -> Counter[str]:
    """Where everything owed holds, the partial value exists and is the total one."""
    rng = random.Random(f"owes {seed}")
    counts: Counter[str] = Counter()
    for _ in range(tries):
        maker = Maker(rng)
        ctx = maker.context()
        t = maker.one(maker.number, maker.number, maker.real)(maker.one(2, 3))
        element = maker.one("real", "extended")
        owed = owes(ctx, t, element)
        counts["owes something"] += bool(owed)
        for world in worlds(ctx, POOL_OF, rng, 6):
            try:
                if not all(fact_holds(_without(o.fact(), ctx, world), world) for o in owed):
                    counts["not met"] += 1
                    continue
                total = value(t, world)
                partial = value(t, world, strict=True)
            except Unclear:
                continue
            except Undefined as error:
                raise AssertionError(f"{show(t)} is undefined at {world}: {error}, owed {owed}") from error
            assert agree(total, partial), f"{show(t)}: total {total}, partial {partial} at {world}"
            assert element != "real" or total is not BOTTOM
            counts["met"] += 1
    return counts


def _without(fact: Fact, ctx: Context, world: World) -> Fact:
    """An obligation at this world's free indices, quantified over the binders only."""
    here = {("idx", i): num(v) for i, v in world.indices.items()}
    variables = tuple((v, n) for v, n in fact.variables if v not in ctx.ranges)
    return Fact(variables, tuple(substitute(g, here) for g in fact.guards), substitute(fact.condition, here))


def test_where_all_that_is_owed_holds_the_partial_value_is_the_total_one() -> None:
    counts = definedness(0, 900)
    assert counts["met"] >= 500 and counts["not met"] >= 100 and counts["owes something"] >= 100, counts


def test_opening_closing_and_substituting_obey_their_laws() -> None:
    rng = random.Random(7)
    for _ in range(400):
        maker = Maker(rng, ["i", "j"])
        t = maker.number(3)
        body = close_body(t, "i")
        assert "i" not in leaves(body, "idx")
        assert open_body(body, idx("i")) == t
        assert close_body(open_body(body, idx("new")), "new") == body
        put = maker.one(num(1), idx("j"), size("m"))
        assert open_body(body, put) == substitute(t, {("idx", "i"): put})
        assert substitute(substitute(t, {("idx", "i"): idx("z")}), {("idx", "z"): idx("i")}) == t
        values = match(t, substitute(t, {("idx", "i"): put}), {"i"})
        assert values is not None and all(v == put for v in values.values())
        for world in worlds(Context(lambda h, g: False, {"i": num(3), "j": num(3)}), POOL_OF, rng, 1):
            try:
                moved = world.at({"i": int(value(put, world))})
                assert agree(value(open_body(body, put), world), value(t, moved))
            except Unclear:
                continue


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 30))
def test_soak(seed: int) -> None:
    for rule in rewrite_rules.RULES:
        brute_force(rule, seed)
    judgements(seed, 2000)
    fields(seed, 2000)
    definedness(seed, 2000)
