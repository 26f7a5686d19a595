"""erf, sin, cos and rounding: enclosures against mpmath, what is proved of them, and what is refuted."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import pytest

import catdiag as cd
from catdiag.kernel.definedness import Obligation
from catdiag.kernel.semantics import scalar
from catdiag.kernel.terms import ONE, ZERO, fixed, fn, num, read, show
from catdiag.kernel.witness import told
from catdiag.prover.refute import exact_execution, exact_reals
from catdiag.prover.refute.exact_reals import BOTTOM, Interval, Unclear, Undefined, bounds
from catdiag.util.errors import SignatureError, TypeMismatch

REALS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "erf": (exact_reals.erf, mpmath.erf),
    "sin": (exact_reals.sin, mpmath.sin),
    "cos": (exact_reals.cos, mpmath.cos),
}


def drawn(rng: random.Random) -> Fraction:
    scale = rng.choice((1, 1, 1, 10, 10**6, 10**30))
    return Fraction(rng.randint(-(10**9), 10**9) * scale, rng.choice((10**9, 1, 3, 7 * 10**8, 10**12, 10**25)))


@pytest.mark.parametrize("name", REALS)
def test_an_enclosure_has_the_value_and_is_as_narrow_as_was_asked(name: str) -> None:
    rng, (ours, theirs) = random.Random(name), REALS[name]
    with mpmath.workprec(1000):
        for _ in range(300):
            x, bits = drawn(rng), rng.choice((10, 53, 120, 400))
            low, high = bounds(ours(x, bits))
            value = theirs(mpmath.mpf(x.numerator) / x.denominator)
            assert mpmath.mpf(low.numerator) / low.denominator <= value <= mpmath.mpf(high.numerator) / high.denominator
            assert high - low <= Fraction(4, 1 << bits), (x, bits)


@pytest.mark.parametrize("name", REALS)
def test_an_enclosure_of_an_enclosure_has_the_values_of_both_ends(name: str) -> None:
    rng, (ours, theirs) = random.Random(name), REALS[name]
    for _ in range(100):
        x, width = Fraction(rng.randint(-4000, 4000), 1000), Fraction(1, rng.choice((1, 3, 10**4)))
        low, high = bounds(ours(Interval(x, x + width)))
        for k in range(9):
            at = x + width * k / 8
            assert low - Fraction(1, 10**12) <= Fraction(float(theirs(float(at)))) <= high + Fraction(1, 10**12)


def test_the_values_at_0_are_exact_and_minus_infinity_has_none() -> None:
    assert [ours(Fraction(0)) for ours, _ in REALS.values()] == [0, 0, 1]
    for name in (*REALS, "floor", "ceil", "round"):
        with pytest.raises(Undefined):
            exact_execution.scalar(name, [BOTTOM], {})


def test_rounding_is_exact_and_undecided_only_across_a_step() -> None:
    def of(name: str, x: Any) -> Any:
        return exact_execution.scalar(name, [x], {})

    half = Fraction(1, 2)
    assert [of("round", k + half) for k in range(-3, 4)] == [-2, -2, 0, 0, 2, 2, 4]
    assert [of(n, Fraction(-7, 2)) for n in ("floor", "ceil", "sign")] == [-4, -3, -1]
    e = exact_reals.exp(Fraction(1))
    assert [of(n, e) for n in ("floor", "ceil", "round", "sign")] == [2, 3, 3, 1]
    assert of("sign", exact_reals.add(exact_reals.mul(e, e), exact_reals.neg(exact_reals.exp(Fraction(2))))) == 0
    with pytest.raises(Unclear):
        of("floor", Interval(Fraction(99, 100), Fraction(101, 100)))
    assert of("round", Interval(Fraction(99, 100), Fraction(101, 100))) == 1


@pytest.mark.parametrize("name", ["sign", "floor", "ceil", "round"])
def test_the_term_of_the_kernel_is_what_exact_numbers_say(name: str) -> None:
    """The term that the kernel reads a function as, evaluated by the kernel's own evaluator of witnesses."""
    for k in range(-12, 13):
        x = Fraction(k, 4)
        value = exact_execution.scalar(name, [x], {})
        owed = fn("eq", scalar(name, [read("A")]), num(Fraction(value)))  # type: ignore[arg-type]
        assert told([Obligation((), (), owed)], {}, {"A": x}, {}) is True


def proves(f: Callable[[Any], Any], g: Callable[[Any], Any]) -> bool:
    cd.prove(cd.algorithm("x")(f), cd.algorithm("x")(g))
    return True


def refutes(f: Callable[[Any], Any], g: Callable[[Any], Any]) -> bool:
    with pytest.raises(cd.Refuted):
        proves(f, g)
    return True


def test_what_follows_from_the_meanings_is_proved() -> None:
    assert proves(lambda a: cd.erf(a + a), lambda a: cd.erf(2 * a))
    assert proves(cd.ceil, lambda a: -cd.floor(-a))
    assert proves(lambda a: cd.floor(cd.floor(a)), cd.floor)
    assert proves(lambda a: cd.sign(a) * cd.abs(a), lambda a: a)
    assert proves(lambda a: cd.sign(-a), lambda a: -cd.sign(a))
    assert proves(cd.nn.softplus, lambda a: cd.log(1 + cd.exp(a)))
    assert proves(lambda a: cd.log1p(cd.expm1(a)), lambda a: a)
    assert proves(cd.nn.gelu, lambda a: 0.5 * a * (1 + cd.erf(a / cd.sqrt(2))))


def test_the_laws_of_waves_and_floors_are_used() -> None:
    assert proves(lambda a: cd.erf(-a), lambda a: -cd.erf(a))
    assert proves(lambda a: cd.sin(a) ** 2 + cd.cos(a) ** 2, lambda a: 1 + 0 * a)
    assert proves(lambda a: cd.cos(3 * a), lambda a: 4 * cd.cos(a) ** 3 - 3 * cd.cos(a))
    assert proves(lambda a: cd.erf(cd.where(a > 0, a, -a)), lambda a: cd.where(a > 0, cd.erf(a), -cd.erf(a)))
    assert proves(lambda a: cd.floor(a + 1) - cd.floor(a), lambda a: 1 + 0 * a)
    assert proves(lambda a: cd.maximum(cd.floor(a), a), lambda a: a)


@cd.algorithm("q d, q d, x d, x d, d -> q x")
def rotated(a: Any, b: Any, c: Any, e: Any, w: Any) -> Any:
    """Scores of queries and keys whose pairs of features are turned by their positions (rotary embedding)."""

    def turned(one: Any, other: Any, at: Any) -> tuple[Any, Any]:
        return one * cd.cos(at * w) - other * cd.sin(at * w), one * cd.sin(at * w) + other * cd.cos(at * w)

    left, right = turned(a, b, cd.index("q")), turned(c, e, cd.index("x"))
    return sum(cd.einsum("q d, x d -> q x", p, r) for p, r in zip(left, right, strict=True))


@cd.algorithm("q d, q d, x d, x d, d -> q x")
def relative(a: Any, b: Any, c: Any, e: Any, w: Any) -> Any:
    """The same scores by the distances of positions."""
    angle = (cd.index("q") - cd.index("x")) * w
    return cd.sum((a * c + b * e) * cd.cos(angle) + (a * e - b * c) * cd.sin(angle), "d")


def test_rotary_scores_are_of_the_distance_of_positions() -> None:
    assert cd.prove(rotated, relative)


def test_what_does_not_is_refuted() -> None:
    assert refutes(cd.erf, cd.sin) and refutes(cd.sin, cd.cos) and refutes(cd.erf, cd.tanh)
    assert refutes(cd.ceil, lambda a: cd.floor(a) + 1) and refutes(cd.round, lambda a: cd.floor(a + 0.5))
    assert refutes(cd.nn.gelu, lambda a: cd.nn.gelu(a, approximate="tanh"))


def test_a_function_of_fixed_meaning_is_no_function_of_a_user() -> None:
    """A theorem about any function holds of this one, and not the other way round."""
    assert refutes(lambda a: cd.apply("f", a), cd.erf)
    with pytest.raises(SignatureError, match="erf"):
        cd.algorithm("x")(lambda a: cd.apply("erf", a))
    users = scalar("apply:erf", [ZERO])
    assert users != scalar("erf", [ZERO])
    assert show(fn("lt", users, fixed("erf", ZERO))) == "(erf(0) < %erf(0))" and show(fixed("erf", ZERO)) == "erf(0)"
    owed = Obligation((), (), fn("eq", fixed("erf", ONE), ZERO))
    assert told([owed], {}, {}, {"erf": [Fraction(0)]}) is None


def test_an_array_that_may_hold_minus_infinity_is_refused() -> None:
    for f in (cd.erf, cd.sin, cd.cos, cd.sign, cd.floor, cd.ceil, cd.round):
        with pytest.raises(TypeMismatch, match="minus infinity"):
            cd.algorithm("x")(lambda a, f=f: f(cd.where(a > 0, a, -float("inf"))))


def test_formulas_of_conditions_name_functions_as_the_kernel_does() -> None:
    f = cd.algorithm("x")(lambda A: 1 / cd.sin(A) + 1 / cd.floor(A))
    theorem = cd.prove(f, f)
    assert tuple(map(str, theorem.formulas.defined)) == theorem.defined
    assert {said.split(" ≠ ")[0] for said in theorem.defined} == {"sin(A[i_x])", "⌊A[i_x]⌋"}
