"""What a program subtracts or divides by is in the loop that is found, whatever factor is between; else it is said."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.category.ops import Box, FoldOp, Map
from catdiag.category.scalars import Cast
from catdiag.category.substitution import inline
from catdiag.draw.report.proof_section import exponential_rows
from catdiag.execute import interpreter as run_numpy
from catdiag.rewrite.derivation import Derivation
from catdiag.rewrite.stream.fold_search import candidates

Program = Callable[..., Any]


def base_two(S: Any, t: Any) -> Any:
    m = cd.max(S, "x")
    return m + cd.log(cd.sum(cd.exp((S - m) * cd.log(2)), "x")) / cd.log(2)


def divided(S: Any, t: Any) -> Any:
    m = cd.max(S, "x")
    return m / t + cd.log(cd.sum(cd.exp((S - m) / t), "x"))


def outside(S: Any, t: Any) -> Any:
    m = cd.max(S, "x")
    return t * m + cd.log(cd.sum(cd.exp(S * t - m * t), "x"))


def absolute(S: Any, t: Any) -> Any:
    m = cd.max(cd.abs(S), "x")
    return m / t + cd.log(cd.sum(cd.exp((S - m) / t), "x"))


def least(S: Any, t: Any) -> Any:
    m = cd.min(S, "x")
    return -2 * m + cd.log(cd.sum(cd.exp((S - m) * -2), "x"))


def weights(S: Any, t: Any) -> Any:
    e = cd.exp((S - cd.max(S, "x")) / t)
    return cd.sum(e / cd.sum(e, "x") * S, "x")


def entropy(S: Any, t: Any) -> Any:
    m = cd.max(S, "x")
    e = cd.exp((S - m) / t)
    return cd.log(cd.sum(e, "x")) - cd.sum(e / cd.sum(e, "x") * (S - m) / t, "x")


def of_all_rows(S: Any, t: Any) -> Any:
    m = cd.max(cd.max(S, "x"), "q")
    return m / t + cd.log(cd.sum(cd.sum(cd.exp((S - m) / t), "x"), "q")) + 0 * cd.sum(S, "x")


def by_case(S: Any, t: Any) -> Any:
    m = cd.where(t > 0, cd.max(S, "x") / t, cd.min(S, "x") / t)
    return m + cd.log(cd.sum(cd.exp(S / t - m), "x"))


EXPONENTS = (base_two, divided, outside, absolute, least, weights, entropy, of_all_rows, by_case)
SCORES = np.array([[2000.0, 1999, 1998, 3, 2000.5, -2000], [-2000, -1999, -2001, -2000, -1999.5, -1990]])


@cache
def streamed(program: Program) -> Derivation:
    return cd.algorithm("q x, -> q", name=program.__name__)(program).stream("x")


def rare(programs: Iterable[Program], *further: Program) -> list[Any]:
    """The programs, of which further cases of what others are cases of are for the slow runs."""
    return [pytest.param(p, marks=pytest.mark.slow) if p in further else p for p in programs]


# By case is by the least too, weights are those of the entropy.
@pytest.mark.parametrize("program", rare(EXPONENTS, least, entropy, of_all_rows), ids=lambda f: f.__name__)
def test_a_maximum_is_kept_whatever_factor_is_between(program: Program) -> None:
    loop = streamed(program)
    assert not loop.theorem.conditional and loop.stability().proved and loop.advice() == ()
    scores = SCORES[:1] if program is absolute else SCORES
    for t in (0.3, 7.0):
        wanted = loop.source(scores, t)
        assert np.isfinite(wanted).all()
        for block in (1, 2, 4, 6):
            np.testing.assert_allclose(loop.run(scores, t, tiles={"s_x": block}), wanted, rtol=1e-12, atol=1e-9)


def test_a_factor_below_zero_is_stabilised_too() -> None:
    """exp((S - max S)/t) overflows for t < 0; the loop subtracts the greatest of S/t."""
    found = streamed(divided).run(SCORES[:1], -0.5, tiles={"s_x": 2})
    np.testing.assert_allclose(found, [4000.0])


def test_base_two_is_exact_where_scores_are_whole() -> None:
    found = streamed(base_two).run(np.array([[2000.0, 2000.0], [-5000.0, -5000.0]]), 1.0, tiles={"s_x": 1})
    np.testing.assert_allclose(found, [2001, -4999], rtol=1e-15)


def test_what_overflows_in_the_program_is_not_called_stable() -> None:
    """Without a logarithm or a quotient the factor is in the result: it overflows where t < 0."""

    def raw(S: Any, t: Any) -> Any:
        return cd.sum(cd.exp((S - cd.max(S, "x")) / t), "x")

    loop = streamed(raw)
    np.testing.assert_allclose(loop.run(SCORES, 0.3, tiles={"s_x": 2}), loop.source(SCORES, 0.3))
    stability = loop.stability()
    assert not stability and [e.where for e in stability.exponentials if not e.verdict.proved] == ["after the loop"]


def test_only_what_a_mask_lets_through_is_the_greatest() -> None:
    @cd.algorithm("x, bool[x], ->")
    def masked(S: Any, seen: Any, t: Any) -> Any:
        m = cd.max(cd.where(seen, S, -1e30), "x")
        e = cd.where(seen, cd.exp((S - m) / t), 0)
        return cd.sum(e * S, "x") / cd.sum(e, "x")

    loop = masked.stream("x")
    assert loop.stability().proved and not loop.theorem.conditional
    S, seen = np.array([9e9, -2000.0, -2001.0, 9e9]), np.array([0, 1, 1, 0], bool)
    wanted = -2000 - 1 / (1 + math.exp(2))
    for block in (1, 2, 3, 4):
        np.testing.assert_allclose(loop.run(S, seen, 0.5, tiles={"s_x": block}), wanted, rtol=1e-14)


def norm(A: Any) -> Any:
    m = cd.max(cd.abs(A), "x")
    return m * cd.sqrt(cd.sum((A / m) ** 2, "x"))


def inverse(A: Any) -> Any:
    m = cd.max(cd.abs(A), "x")
    return m * cd.sqrt(cd.sum((A * (1 / m)) ** 2, "x"))


def guarded(A: Any) -> Any:
    m = cd.max(cd.abs(A), "x")
    return m * cd.sqrt(cd.sum((A * cd.where(cd.equal(m, 0), 0, 1 / cd.where(m <= 0, 1, m))) ** 2, "x"))


def cubes(A: Any) -> Any:
    m = cd.max(cd.abs(A), "x")
    return m * cd.exp(cd.log(cd.sum((cd.abs(A) / m) ** 3, "x")) / 3)


def floored(A: Any) -> Any:
    m = cd.maximum(cd.max(cd.abs(A), "x"), 1e-12)
    return m * cd.sqrt(cd.sum((A / m) ** 2, "x"))


def magnitudes(A: Any) -> Any:
    m = cd.mean(cd.abs(A), "x")
    return m * cd.sqrt(cd.sum((A / m) ** 2, "x"))


def choice(A: Any) -> Any:
    """No row is divided by a maximum of 0."""
    m = cd.max(cd.abs(A), "x")
    return m * cd.sqrt(cd.sum(cd.where(cd.abs(A) > 0, (A / m) ** 2, 0), "x"))


def range_of(A: Any) -> Any:
    m = cd.max(A, "x") - cd.min(A, "x")
    return m * cd.sqrt(cd.sum((A / m) ** 2, "x"))


POWERS = {norm: 2, inverse: 2, guarded: 2, cubes: 3, floored: 2, magnitudes: 2, choice: 2, range_of: 2}


@pytest.mark.parametrize("program", rare(POWERS, cubes), ids=lambda f: f.__name__)
def test_a_divisor_that_is_a_maximum_is_kept(program: Program) -> None:
    loop = cd.algorithm("q x -> q", name=program.__name__)(program).stream("x")
    assert not loop.theorem.conditional and not loop.stability().dropped
    rows = np.array([[3.0, -4.0, 1.0, 2.0], [0.0, 0.0, -4.0, 3.0], [1.0, 2.0, 3.0, 0.0]])
    power = POWERS[program]
    for size in (1.0, 3e200, 1e-90) if program is not floored else (1.0, 3e200):
        wanted = size * (np.abs(rows) ** power).sum(1) ** (1 / power)
        for block in (1, 2, 3, 4):
            np.testing.assert_allclose(loop.run(size * rows, tiles={"s_x": block}), wanted, rtol=1e-12)


def test_a_divisor_that_is_lost_is_said() -> None:
    """The range is subtracted and divided by: what is added up are squares, which may overflow."""

    @cd.algorithm("x ->")
    def spread(A: Any) -> Any:
        low = cd.min(A, "x")
        return cd.sum(((A - low) / (cd.max(A, "x") - low)) ** 2, "x")

    loop = spread.stream("x")
    assert not loop.stability().proved and [box.name for box in loop.stability().dropped] == ["div"]
    (text,) = loop.advice()
    assert (
        "div of [x] uses a statistic that the loop is not known to keep" in text and "test_exponential_repair" in text
    )
    assert text in str(loop.stability())
    assert "is not known to keep" in exponential_rows(loop.stability())


def test_a_fold_that_is_given_is_not_taken_to_keep_a_divisor() -> None:
    squares = cd.Fold(
        unit=(-cd.inf, 0),
        element=lambda a: (cd.abs(a), a * a),
        merge=lambda a, b: (cd.maximum(a[0], b[0]), a[1] + b[1]),
        finish=lambda m, s: m * cd.sqrt(s / m / m),
    )
    loop = cd.algorithm("x ->")(norm).stream("x", by=squares)
    assert not loop.stability().proved and [box.name for box in loop.stability().dropped] == ["div"]


def test_a_form_without_the_maximum_says_so() -> None:
    """Every form that is found but not preferred knows what it dropped."""
    for program, name in ((divided, "exp"), (norm, "div")):
        diagram = cd.algorithm("q x, -> q" if program is divided else "q x -> q")(program)
        kept, *others = candidates(diagram.diagram, "x")
        assert not kept.dropped and [name] in [[box.name for box in form.dropped] for form in others]


# -- casts ---------------------------------------------------------------------------------------


def quantised(X: Any, W: Any) -> Any:
    s = cd.max(cd.abs(X), "x") / 448
    return s * cd.sum(cd.cast(X / s, "fp8") * W, "x")


def by_inverse(X: Any, W: Any) -> Any:
    s = 448 / cd.max(cd.abs(X), "x")
    return cd.sum(cd.cast(X * s, "fp8") * W, "x") / s


def both(X: Any, W: Any) -> Any:
    s, t = (cd.max(cd.abs(a), "x") / 448 for a in (X, W))
    return s * t * cd.sum(cd.cast(X / s, "fp8") * cd.cast(W / t, "fp8"), "x")


def root_mean_square(X: Any, W: Any) -> Any:
    return cd.sum(cd.cast(X / cd.sqrt(cd.mean(X * X, "x")), "fp8") * W, "x") * 1e-4


def scaled_weights(X: Any, W: Any) -> Any:
    P = cd.exp(X - cd.max(X, "x"))
    return cd.sum(cd.cast(P * 448, "fp8") * W, "x") / cd.sum(P, "x") / 448


def weights_by_maximum(X: Any, W: Any) -> Any:
    P = cd.exp(X - cd.max(X, "x"))
    s = cd.max(P, "x") / 448
    return s * cd.sum(cd.cast(P / s, "fp8") * W, "x") / cd.sum(P, "x")


CASTS = (quantised, by_inverse, both, root_mean_square, scaled_weights, weights_by_maximum)


def to_fp8(a: np.ndarray) -> np.ndarray:
    """The nearest number with four bits of fraction, 2**-9 at the least and 448 at the most (E4M3)."""
    step = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(a), 2.0**-6))) - 3)
    return np.clip(np.round(a / step) * step, -448, 448)


@pytest.mark.parametrize("program", rare(CASTS, scaled_weights), ids=lambda f: f.__name__)
def test_what_is_cast_keeps_its_scale(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    diagram = cd.algorithm("x, x ->", name=program.__name__)(program)
    loop = diagram.stream("x")
    assert not loop.theorem.conditional and loop.advice() == ()
    rng = np.random.default_rng(1)
    X, W = 1e-4 * rng.uniform(0.2, 1, 12), rng.uniform(0.2, 1, 12)
    wanted = diagram(X, W)
    inside = run_numpy.Runner.map

    def rounded(self: Any, fn: object, args: tuple[Any, ...], box: Box) -> Any:
        made = inside(self, fn, args, box)
        return type(made)(to_fp8(made.data), made.names) if fn == Cast("fp8") else made

    monkeypatch.setattr(run_numpy.Runner, "map", rounded)
    for block in (1, 3, 5, 12):
        np.testing.assert_allclose(loop.run(X, W, tiles={"s_x": block}), wanted, rtol=0.07)


def casts_in_loops(loop: Derivation) -> int:
    folds = [box.op for box in inline(loop.diagram).boxes if isinstance(box.op, FoldOp)]
    return sum(b.op == Map(Cast("fp8")) for fold in folds for b in inline(fold.step).boxes)


def test_a_cast_of_a_sum_is_left_out_and_said() -> None:
    @cd.algorithm("x, x ->")
    def normalised(X: Any, W: Any) -> Any:
        return cd.sum(cd.cast((X - cd.mean(X, "x")) / cd.max(cd.abs(X), "x"), "fp8") * W, "x")

    loop = normalised.stream("x")
    assert casts_in_loops(loop) == 0 and loop.advice()[-1].startswith("cast:fp8 of [x] is not in the derived diagram")


def test_no_form_casts_what_lacks_its_scale() -> None:
    diagram = cd.algorithm("x, x ->")(quantised)
    for form in candidates(diagram.diagram, "x"):
        for box in inline(form.fold.step).boxes:
            assert box.op != Map(Cast("fp8")) or "div" in {b.name for b in inline(form.fold.step).boxes}


def test_a_scale_that_is_an_input_is_not_at_hand_in_a_merge():
    """What a merge of states lacks makes no repair: another form is taken, or the axis is refused."""

    def weights(S, m, V, G):
        L = m + cd.log(cd.sum(cd.exp(S - m), "x"))
        return cd.sum(cd.einsum("q x, x d -> q d", cd.exp(S - L), V) * G, "d")

    f = cd.algorithm("q x, q, x d, q d -> q")(weights)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in ((2, 5), (2,), (5, 3), (2, 3))]
    derived = f.stream("x")
    np.testing.assert_allclose(derived.run(*arrays, tiles={"s_x": 2}), f.run(*arrays), rtol=1e-12)


def test_a_bound_that_is_given_is_no_state_of_the_loop() -> None:
    """Of `exp(S − max(m, z))` the loop carries the maximum m alone, and skips what a mask empties."""

    def with_sink(S: Any, V: Any, z: Any) -> Any:
        S = cd.where(cd.index("x") <= cd.index("q"), S, -cd.inf)
        m = cd.maximum(cd.max(S, "x"), z)
        weights = cd.exp(S - m)
        return cd.einsum("q x, x d -> q d", weights, V) / (cd.sum(weights, "x") + cd.exp(z - m))

    f = cd.algorithm("q x, x d, q -> q d")(with_sink)
    derived = f.stream("x").skip("x")
    (fold,) = (box.op for box in inline(derived.diagram).boxes if isinstance(box.op, FoldOp))
    assert [c.rstrip("0123456789") for c in fold.components] == ["max", "sum", "sum"] and fold.bounds is not None
    rng = np.random.default_rng(0)
    for scale in (1, 300):
        arrays = [scale * rng.normal(size=shape) for shape in ((6, 6), (6, 3), (6,))]
        for tree in (None, "balanced"):
            found = derived.run(*arrays, tiles={"s_x": 2}, tree=tree)
            np.testing.assert_allclose(found, f.run(*arrays), rtol=1e-12)
