"""Facts whose guards turn on what they speak of: what would follow from itself does not follow, and is not sought."""

from __future__ import annotations

from catdiag.kernel.context import Context
from catdiag.kernel.facts import Fact, negate, nonzero, real
from catdiag.kernel.terms import MINUS, ONE, ZERO, Term, add, big, bound, fn, idx, mul, read, size

M = read("M", idx("q"))
TOTAL = big("sum", size("x"), fn("exp", add(read("E", idx("q"), bound(0)), mul(MINUS, M))))
ELEMENTS = {"M": "extended", "E": "extended", "P": "real"}


def context(*guards: Term, condition: Term) -> Context:
    """Where a condition holds of every q for which guards do, and no solver knows anything."""
    fact = Fact((("q", size("q")),), guards, condition)
    some = [Fact((), (), fn("le", ONE, size(n))) for n in "qx"]
    return Context(lambda hypotheses, goal: False, {"q": size("q")}, (*some, fact), ELEMENTS)


def test_a_guard_that_turns_on_its_fact_is_not_known():
    ctx = context(nonzero(TOTAL), condition=real(M))
    assert not ctx.entails(real(M))
    assert not ctx.entails(nonzero(TOTAL))


def test_a_guard_that_is_known_gives_its_fact():
    ctx = context(nonzero(TOTAL), condition=real(M))
    assert ctx.with_condition(nonzero(TOTAL)).entails(real(M))
    # Asked before in fewer words, it was not known; where its guard holds it is.
    assert not ctx.entails(real(M)) and ctx.with_condition(nonzero(TOTAL)).real(M)
    positive = context(fn("lt", ZERO, fn("exp", read("P", idx("q")))), condition=real(M))
    assert positive.entails(real(M))


def test_guards_of_reals_that_turn_on_each_other_end():
    elements = [read("E", idx("q"), bound(0)), M]
    facts = []
    for k, t in enumerate(elements):
        other = elements[1 - k]
        total = big("max", size("x"), fn("ite", fn("lt", other, t), t, other))
        facts.append(Fact((("q", size("q")), ("x", size("x"))), (fn("lt", ZERO, total),), fn("lt", ZERO, total)))
    ctx = Context(lambda hypotheses, goal: False, {"q": size("q")}, tuple(facts), ELEMENTS)
    assert not any(ctx.entails(f.condition) or ctx.entails(negate(f.condition)) for f in facts)


def test_what_only_guards_mention_is_chosen_where_they_hold_and_in_range():
    """Where P[q,x] > 0 for some x below its size, M is real: shown by an x that is there, and by no other."""
    seen = fn("lt", ZERO, read("P", idx("q"), idx("x")))
    fact = Fact((("q", size("q")), ("x", size("x"))), (seen,), real(M))
    elsewhere = Fact((), (), fn("lt", ZERO, read("P", idx("q"), idx("z"))))

    def at(*ranges: str, of: dict[str, Term] | None = None) -> Context:
        known = {name: (of or {}).get(name, size(name)) for name in ranges}
        return Context(lambda hypotheses, goal: False, known, (fact, elsewhere), ELEMENTS)

    assert at("q", "z", of={"z": size("x")}).entails(real(M))
    assert not at("q", "z").entails(real(M))
    assert not at("q").entails(real(M))
    here = Context(lambda hypotheses, goal: False, {"q": size("q"), "z": size("x")}, (fact,), ELEMENTS)
    assert not here.entails(real(M))
