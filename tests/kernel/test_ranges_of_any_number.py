"""Rules on reductions whose range is any number, as a certificate may bring it in: −1, ½, a value of an array, −∞."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from kernel_oracle import Unclear, agree, ask, value, worlds
from kernel_terms import POOL_OF, Maker

from catdiag.kernel import reduction_rules, rewrite_rules
from catdiag.kernel.context import NONNEG, NONZERO, REAL, Context
from catdiag.kernel.terms import (
    BOT,
    MINUS,
    KernelError,
    Term,
    add,
    fn,
    leaves,
    mul,
    num,
    parse_term,
    read,
    show,
    size,
    substitute,
    term_data,
)
from catdiag.prover.refute.exact_reals import bounds

N = size("n")
STRANGE = [add(N, MINUS), mul(MINUS, N), read("C"), fn("inv", num(2)), BOT, mul(N, fn("inv", num(2))), num(-2),
           add(size("p"), mul(MINUS, N))]  # fmt: skip
RULES = ["constant", "empty", "join", "nest", "order", "part", "pull", "push", "reindex", "ring", "scale", "shift",
         "single", "split", "swap", "telescope", "through", "larger", "decide"]  # fmt: skip


def _put(data: Any, strange: Term) -> Any:
    """What a rule is given, with a number for the size n."""
    try:
        return term_data(substitute(parse_term(data), {("size", "n"): strange}))
    except KernelError:
        return [_put(part, strange) for part in data] if isinstance(data, list) else data


def strange_ranges(rule: str, seed: int, tries: int) -> Counter[str]:
    """Applies a rule to random terms with a number for n; every result must have the value of its term."""
    rng = random.Random(f"ranges {rule} {seed}")
    counts: Counter[str] = Counter()
    for _ in range(tries):
        maker = Maker(rng)
        made = maker.context()
        t, path, args = maker.placed(rule)
        strange = rng.choice(STRANGE)
        if t.loose or leaves(t, "idx") - set(made.ranges) or "n" not in leaves(t, "size"):
            continue
        ctx = Context(ask, made.ranges, (), made.elements)
        t = substitute(t, {("size", "n"): strange})
        try:
            result = rewrite_rules.apply(ctx, t, rule, path, [_put(a, strange) for a in args])
        except KernelError:
            counts["refused"] += 1
            continue
        counts["applied"] += 1
        signs = ctx.signs(t)
        for world in worlds(ctx, POOL_OF, rng, 6):
            try:
                x, y = value(t, world), value(result, world)
                low, high = bounds(x) if signs & REAL and not isinstance(x, bool) else (1, 1)
            except Unclear:
                continue
            assert agree(x, y), f"{show(t)} = {x}, but {show(result)} = {y} at {world} in {ctx.ranges}"
            assert not signs & REAL or not signs & NONNEG or high >= 0, f"{show(t)} = {x}, said {signs}"
            assert not signs & REAL or not signs & NONZERO or low != 0 or high != 0, f"{show(t)} = {x}, said {signs}"
            counts["worlds"] += 1
    return counts


@pytest.mark.parametrize("rule", RULES)
def test_what_a_rule_gives_over_any_range_has_the_value_of_what_it_took(rule: str) -> None:
    counts = strange_ranges(rule, 0, 45)
    assert counts["applied"] + counts["refused"] >= 8, counts


@pytest.mark.parametrize("rule", ["constant", "shift", "split"])
def test_a_rule_that_takes_any_range_for_natural_gives_a_wrong_value(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reduction_rules, "natural", lambda t: True)
    with pytest.raises(AssertionError):
        strange_ranges(rule, 0, 3000)
