"""Folds that a user brings: proved and run in blocks, or refuted by a list and its split."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.execute.interpreter import run
from catdiag.rewrite.stream import user_fold_stream

LOW = -float("inf")


def diagram(signature: str, function: Any, name: str) -> cd.category.Diagram:
    return cd.algorithm(signature, name=name)(function)


variance = diagram("x ->", lambda X: cd.mean((X - cd.mean(X, "x")) ** 2, "x"), "variance")
average = diagram("x ->", lambda X: cd.mean(X, "x"), "average")
highest = diagram("x ->", lambda X: cd.max(X, "x"), "highest")
dot = diagram("x, x ->", lambda A, B: cd.sum(A * B, "x"), "dot")
lookup = diagram(
    "q d, x d, x v -> q v",
    lambda Q, K, V: cd.einsum("q x, x v -> q v", cd.softmax(cd.einsum("q d, x d -> q x", Q, K), "x"), V),
    "lookup",
)


def chan(a: Any, b: Any) -> Any:
    n, delta = a[0] + b[0], b[1] - a[1]
    return n, a[1] + delta * b[0] / n, a[2] + b[2] + delta * delta * a[0] * b[0] / n


def moments(X: Any) -> Any:
    return cd.size("x"), cd.mean(X, "x"), cd.sum((X - cd.mean(X, "x")) ** 2, "x")


def rescaled(a: Any, b: Any) -> Any:
    m = cd.maximum(a[0], b[0])
    left, right = cd.exp(a[0] - m), cd.exp(b[0] - m)
    return m, a[1] * left + b[1] * right, a[2] * left + b[2] * right


def of_parts(Q: Any, K: Any, V: Any) -> Any:
    S = cd.einsum("q d, x d -> q x", Q, K)
    m = cd.max(S, "x")
    e = cd.exp(S - m)
    return m, cd.sum(e, "x"), cd.einsum("q x, x v -> q v", e, V)


def thirds(a: Any, b: Any, sign: int) -> Any:
    n, delta = a[0] + b[0], b[1] - a[1]
    third = a[3] + b[3] + sign * delta**3 * a[0] * b[0] * (a[0] - b[0]) / (n * n)
    return (*chan(a, b), third + 3 * delta * (a[0] * b[2] - b[0] * a[2]) / n)


def if_largest(a: Any, b: Any) -> Any:
    return cd.where(cd.equal(a[0], cd.maximum(a[0], b[0])), a[1], LOW)


def masked(strict: bool) -> Any:
    def element(q: Any, k: Any, v: Any) -> Any:
        inside = cd.index("x") < cd.index("q") if strict else cd.index("x") <= cd.index("q")
        score = cd.einsum("q d, d -> q", q, k)
        return cd.where(inside, score, LOW), cd.where(inside, 1, 0), cd.where(inside, v, 0)

    return element


def triangular(Q: Any, K: Any, V: Any) -> Any:
    S = cd.where(cd.index("x") <= cd.index("q"), cd.einsum("q d, x d -> q x", Q, K), LOW)
    return cd.einsum("q x, x v -> q v", cd.softmax(S, "x"), V)


def safe(a: Any, b: Any) -> Any:
    """Minus infinity as a number so low that nothing comes of it."""
    m = cd.maximum(a[0], b[0])
    ours, left, right = (cd.where(cd.equal(t, LOW), -1e30, t) for t in (m, a[0], b[0]))
    return (
        m,
        a[1] * cd.exp(left - ours) + b[1] * cd.exp(right - ours),
        a[2] * cd.exp(left - ours) + b[2] * cd.exp(right - ours),
    )


def below() -> Any:
    return cd.index("x") <= cd.index("q")


def recurrence(G: Any, V: Any) -> Any:
    """h ↦ e^g·h + v from 0 on: what is added decays by all that comes later, looked up along a copy of the axis."""
    later = G.rename(x="y")
    decay = cd.sum(cd.where(cd.index("y") > cd.index("x"), later, 0), "y")
    return cd.sum(cd.exp(decay) * V, "x")


def decayed(a: Any, b: Any) -> Any:
    return a[0] + b[0], cd.exp(b[0]) * a[1] + b[1]


gated = diagram("x, x ->", recurrence, "gated")
GATED = cd.Fold(
    (0, 0),
    lambda g, v: (g, v),
    decayed,
    lambda g, h: h,
    state=lambda G, V: (cd.sum(G, "x"), recurrence(G, V)),
)
CHAN = cd.Fold((0, 0, 0), lambda x: (1, x, 0), chan, lambda n, mean, m2: m2 / n, state=moments)
ONLINE = cd.Fold(
    (LOW, 0, 0),
    lambda q, k, v: (cd.einsum("q d, d -> q", q, k), 1, v),
    rescaled,
    lambda m, total, o: o / total,
    state=of_parts,
)
MEANS = cd.Fold(
    (0, 0),
    lambda x: (1, x),
    lambda a, b: (a[0] + b[0], (a[0] * a[1] + b[0] * b[1]) / (a[0] + b[0])),
    lambda n, mean: mean,
)

PROVED: dict[str, tuple[cd.category.Diagram, cd.Fold]] = {
    "chan by sums of squares, of which one state is said": (
        diagram("q x -> q", lambda X: cd.sqrt(cd.mean(X * X, "x") - cd.mean(X, "x") ** 2 + 1), "deviation"),
        replace(
            CHAN,
            state=(None, diagram("q x -> q", lambda X: cd.mean(X, "x"), "middle"), None),
            finish=lambda s: cd.sqrt(s[2] / s[0] + 1),
        ),
    ),
    "online, its states to be found": (lookup, replace(ONLINE, state=None)),
    "a recurrence along a copy of the axis": (gated, GATED),
    "the same, its states to be found": (gated, replace(GATED, state=None)),
    "the same, its states by diagrams": (
        gated,
        replace(GATED, state=(diagram("x, x ->", lambda G, V: cd.sum(G, "x"), "gates"), gated)),
    ),
    "the same along an axis of a fixed size": (
        diagram("x=7, x=7 ->", recurrence, "fixed and gated"),
        replace(GATED, state=(diagram("x=7, x=7 ->", lambda G, V: cd.sum(G, "x"), "gates"), None)),
    ),
    "the same beside an axis of the same size": (
        diagram("x, x, z=x -> z=x", lambda G, V, W: recurrence(G, V) * W, "gated and scaled"),
        cd.Fold((0, 0), lambda g, v, w: (g, v), decayed, lambda g, h, W: h * W),
    ),
    "mean, flat": (
        average,
        replace(
            MEANS,
            unit=lambda: (0, 0),
            merge=lambda n, a, k, b: (n + k, a + (b - a) * k / (n + k)),
            state=(lambda: cd.size("x"), average),
        ),
    ),
    "largest": (highest, cd.Fold(LOW, lambda x: x, cd.maximum)),
    "positions": (
        diagram("x ->", lambda X: cd.sum(X * cd.index("x"), "x"), "moment"),
        cd.Fold(0, lambda x: x * cd.index("x"), lambda a, b: a + b),
    ),
    "a mean that is kept normalised": (
        diagram(
            "x d, x -> d", lambda A, w: cd.einsum("x d, x -> d", A, cd.exp(w)) / cd.sum(cd.exp(w), "x"), "weighted"
        ),
        cd.Fold(
            (0, 0),
            lambda a, w: (a, cd.exp(w)),
            lambda a, b: ((a[0] * a[1] + b[0] * b[1]) / (a[1] + b[1]), a[1] + b[1]),
            lambda mean, total: mean,
        ),
    ),
    "the last place of the largest": (
        diagram("x ->", lambda X: cd.max(cd.where(cd.equal(X, cd.max(X, "x")), cd.index("x"), LOW), "x"), "last"),
        cd.Fold(
            (LOW, LOW),
            lambda x: (x, cd.index("x")),
            lambda a, b: (cd.maximum(a[0], b[0]), cd.maximum(if_largest(a, b), if_largest(b, a))),
            lambda m, place: place,
        ),
    ),
    "scores that are masked": (
        diagram("q d, x d, x v -> q v", triangular, "triangular"),
        cd.Fold((LOW, 0, 0), masked(False), safe, lambda m, total, o: o / total),
    ),
    "a function of which nothing is known": (
        diagram("x ->", lambda X: cd.mean(cd.apply("f", X), "x"), "unknown"),
        replace(MEANS, element=lambda x: (1, cd.apply("f", x))),
    ),
    "truth values": (
        diagram("bool[q x] -> bool[q]", lambda M: cd.any(M, "x"), "some"),
        cd.Fold(False, lambda m: m, lambda a, b: a | b),
    ),
    "an axis of a fixed size": (
        diagram("7 d -> d", lambda A: cd.sum(A, "7"), "fixed"),
        cd.Fold(0, lambda a: a, lambda a, b: a + b),
    ),
    "diagrams for functions": (
        dot,
        cd.Fold(
            cd.algorithm("-> , ")(lambda: (0, 0)),
            cd.algorithm(", -> , ")(lambda a, b: (a * b, a)),
            cd.algorithm(", , , -> , ")(lambda a, b, c, d: (a + c, b + d)),
            cd.algorithm(", ->")(lambda s, t: s),
        ),
    ),
}


# Its fold is that of "a recurrence along a copy of the axis"; states are found of "online, its states to be found" too.
SLOW = ("the same, its states to be found",)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in PROVED])
def test_a_true_fold_is_proved_and_run_in_blocks(name: str) -> None:
    source, fold = PROVED[name]
    axis = "7" if name == "an axis of a fixed size" else "x"
    derived = source.stream(axis, by=fold)
    assert not derived.theorem.conditional
    assert "A10" in derived.theorem.axioms
    (step,) = derived.steps
    assert len(step.premises) == 1
    rng = np.random.default_rng(1)
    sizes = {"q": 3, "x": 7, "7": 7, "z": 7, "d": 2, "v": 4}
    arrays: list[Any] = [rng.normal(size=[sizes[a.name] for a in ty.axes]) for ty in source.dom]
    arrays = [a > 0 if ty.element == "bool" else a for a, ty in zip(arrays, source.dom, strict=True)]
    for block in (1, 2, 3, 7):
        found = run(derived.diagram, arrays, {f"s_{axis}": block}, functions={"f": np.cos})
        np.testing.assert_allclose(found, run(source, arrays, functions={"f": np.cos}), rtol=1e-9, atol=1e-12)


def worse(a: Any, b: Any) -> Any:
    n, delta = a[0] + b[0], b[1] - a[1]
    return n, a[1] + delta * b[0] / n, a[2] + b[2] + delta * delta


def appending(a: Any, b: Any) -> Any:
    delta = b[1] - a[1]
    mean = a[1] + delta / (a[0] + b[0])
    return a[0] + b[0], mean, a[2] + b[2] + delta * (b[1] - mean)


def guarded(a: Any, b: Any) -> Any:
    m = cd.maximum(a[0], b[0])
    left = cd.where(cd.equal(a[0], LOW), 0, cd.exp(a[0] - m))
    right = cd.where(cd.equal(b[0], LOW), 0, cd.exp(b[0] - m))
    return m, a[1] * left + b[1] * right, a[2] * left + b[2] * right


FALSE: dict[str, tuple[cd.category.Diagram, cd.Fold]] = {
    "a merge that forgets the rescale": (
        lookup,
        replace(ONLINE, merge=lambda a, b: (cd.maximum(a[0], b[0]), a[1] + b[1], a[2] + b[2])),
    ),
    "a merge that rescales one side": (
        lookup,
        replace(ONLINE, merge=lambda a, b: (cd.maximum(a[0], b[0]), rescaled(a, b)[1], rescaled(a, b)[2] + b[2])),
    ),
    "the squared difference for the product of differences": (variance, replace(CHAN, merge=worse)),
    "a recurrence that decays what is new": (
        gated,
        replace(GATED, merge=lambda a, b: (a[0] + b[0], a[1] + cd.exp(b[0]) * b[1])),
    ),
    "a recurrence that begins at one": (gated, replace(GATED, unit=(0, 1))),
    "a unit that is not neutral": (highest, cd.Fold(0, lambda x: x, cd.maximum)),
    "division by n - 1": (variance, replace(CHAN, finish=lambda n, mean, m2: m2 / (n - 1))),
    "the wrong sign": (dot, cd.Fold(0, lambda a, b: -a * b, lambda a, b: a + b)),
    "blocks of one length only": (average, cd.Fold(0, lambda x: x, lambda a, b: (a + b) / 2)),
    "a sign in a third moment": (
        diagram("x ->", lambda X: cd.mean((X - cd.mean(X, "x")) ** 3, "x"), "third"),
        cd.Fold((0, 0, 0, 0), lambda x: (1, x, 0, 0), lambda a, b: thirds(a, b, -1), lambda n, m, a, b: b / n),
    ),
    "the last of ties for the first": (
        diagram(
            "x ->",
            lambda X: cd.min(cd.where(cd.equal(X, cd.max(X, "x")), cd.index("x"), cd.size("x")), "x"),
            "place",
        ),
        cd.Fold(
            (LOW, 0),
            lambda x: (x, cd.index("x")),
            lambda a, b: (cd.maximum(a[0], b[0]), cd.where(a[0] <= b[0], b[1], a[1])),
            lambda m, place: place,
        ),
    ),
    "a block that is masked as a whole": (
        diagram("q d, x d, x v -> q v", triangular, "triangular"),
        cd.Fold((LOW, 0, 0), masked(False), rescaled, lambda m, total, o: o / total),
    ),
    "appending only": (variance, replace(CHAN, merge=appending)),
    "without the diagonal": (
        diagram("q d, x d, x v -> q v", triangular, "triangular"),
        cd.Fold((LOW, 0, 0), masked(True), guarded, lambda m, total, o: o / total),
    ),
    "the empty list to the left": (
        average,
        replace(MEANS, merge=lambda a, b: (a[0] + b[0], cd.where(cd.equal(a[0], 0), 1, MEANS.merge(a, b)[1]))),
    ),
    "the empty list to the right": (
        average,
        replace(MEANS, merge=lambda a, b: (a[0] + b[0], cd.where(cd.equal(b[0], 0), 0, MEANS.merge(a, b)[1]))),
    ),
}


@pytest.mark.parametrize("name", FALSE)
@pytest.mark.parametrize("known", [True, False], ids=["states said", "no states said"])
def test_a_false_fold_is_refuted_by_a_list_and_its_split(name: str, known: bool) -> None:
    source, fold = FALSE[name]
    if known and fold.state is None:
        pytest.skip("there are no states to be said")
    with pytest.raises(cd.Refuted) as caught:
        source.stream("x", by=fold if known else replace(fold, state=None))
    found: Any = caught.value.counterexample
    assert found.sizes["x"] == sum(found.blocks_of)
    assert f"a list of {found.sizes['x'] if found.sizes['x'] > 1 else 'one'}"[:9] in str(caught.value)
    assert found.split in str(found) and "gives" in found.verdict
    given_back = source.run(*found.numpy().values())
    place = tuple(found.index[a] for a in source.cod[0].names)
    if found.reference_name == "the textbook form":
        np.testing.assert_allclose(given_back[place], float(found.lhs), rtol=1e-9)
    assert found.undefined or found.lhs != found.rhs


def test_a_state_that_is_not_what_the_fold_keeps_is_refuted() -> None:
    with pytest.raises(cd.Refuted) as caught:
        average.stream("x", by=replace(MEANS, state=lambda X: (cd.size("x"), cd.sum(X, "x"))))
    assert "the state of the whole list by state=" in str(caught.value)


def test_a_state_that_is_not_found_is_asked_for() -> None:
    fold = cd.Fold(
        (0, 0), lambda a, b: (a * b, cd.tanh(a)), lambda s, t: (s[0] + t[0], s[1] * s[1] + t[1]), lambda a, b: a
    )
    with pytest.raises(cd.errors.NotStreamable, match=r"component 1 of the fold over 'x', b, .*state="):
        dot.stream("x", by=fold)


@pytest.mark.parametrize(
    ("error", "words", "make"),
    [
        (cd.errors.TypeMismatch, "element of a fold is 3", lambda: cd.Fold(0, 3, cd.maximum)),  # type: ignore[arg-type]
        (cd.errors.TypeMismatch, "component 1", lambda: cd.Fold(0, cd.exp, cd.maximum, state=(cd.exp, 3))),
        (cd.errors.TypeMismatch, "by=3", lambda: average.stream("x", by=3)),  # type: ignore[arg-type]
        (cd.errors.AxisError, "axis 'y'", lambda: average.stream("y", by=MEANS)),
        (
            cd.errors.TypeMismatch,
            "unit of the fold has 1 component",
            lambda: average.stream("x", by=replace(MEANS, unit=0)),
        ),
        (
            cd.errors.TypeMismatch,
            "merge of the fold gives 1 component: expected 2",
            lambda: average.stream("x", by=replace(MEANS, merge=lambda a, b: a[0])),
        ),
        (
            cd.errors.SignatureError,
            "element of the fold takes",
            lambda: average.stream("x", by=replace(MEANS, element=lambda a, b, c: a)),
        ),
        (
            cd.errors.TypeMismatch,
            "in finish of the fold: it gives 2 results",
            lambda: average.stream("x", by=replace(MEANS, finish=None)),
        ),
        (
            cd.errors.AxisError,
            "in merge of the fold",
            lambda: average.stream("x", by=replace(MEANS, merge=lambda a, b: (cd.sum(a[0], "z"), b[1]))),
        ),
        (
            cd.errors.AxisError,
            "state of component 1",
            lambda: average.stream("x", by=replace(MEANS, state=lambda X: (cd.size("x"), X))),
        ),
        (
            cd.errors.NotStreamable,
            "keeps it",
            lambda: diagram("x -> x", lambda X: X + 1, "kept").stream("x", by=MEANS),
        ),
        (
            cd.errors.NotStreamable,
            "in a loop already",
            lambda: diagram("x y ->", lambda X: cd.sum(X, "x y"), "both").stream("y").stream("x", by=MEANS),
        ),
    ],
)
def test_what_does_not_fit_is_an_error_that_names_the_part(error: Any, words: str, make: Any) -> None:
    with pytest.raises(error, match=words) as caught:
        make()
    assert "test_user_folds.py" in str(caught.value)


def test_groups_stay_where_a_fold_is_given() -> None:
    rows = diagram("q x -> q", lambda X: cd.mean(X, "x"), "rows")
    derived = rows.group("q").stream("x", by=MEANS)
    X = np.random.default_rng(0).normal(size=(5, 7))
    np.testing.assert_allclose(derived.run(X, tiles={"s_x": 3, "g_q": 2}), X.mean(1), rtol=1e-9)


@functools.cache
def streamed_variance() -> Any:
    return variance.stream("x", by=CHAN)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=40), st.integers(1, 50))
def test_a_running_variance_is_as_near_as_it_should_be(numbers: list[float], block: int) -> None:
    array = np.array(numbers)
    # Each merge rounds a few times what is at most n·(2·largest)²/n: a bound of 16 roundings for each element.
    bound = 16 * len(numbers) * np.finfo(float).eps * (2 * np.max(np.abs(array))) ** 2 + 1e-300
    assert abs(streamed_variance().run(array, tiles={"s_x": block}) - np.var(array)) <= bound


@pytest.mark.parametrize("searched", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_what_is_defined_of_a_list_is_known_of_its_parts_in_the_same_words_only(searched, monkeypatch):
    """A state that reads at x // 2 owes other elements of a part, where that begins at 0, than of the whole list.

    It is not proved, whether or not a list for which it is wrong is searched for.
    """
    if not searched:
        monkeypatch.setattr(user_fold_stream, "false_fold", lambda *_, **__: None)

    def half(a):
        return cd.reindex(a, "x", x=lambda x: x // 2)

    f = cd.algorithm("x ->")(lambda A: cd.sum(A, "x") + 0 * cd.sum(half(A) / half(A), "x"))
    fold = cd.Fold(
        unit=(0, 0, 0, 0),
        element=lambda A: (A, 0, 1, 1),
        merge=lambda a, b: (
            a[0] + b[0] + a[1], cd.where(cd.equal(a[2], 0), b[1], a[1]), a[2] + b[2], a[2] + b[2]),
        finish=lambda s, c, n, m: s + 0 * n,
        state=lambda A: (
            cd.sum(A, "x"), cd.sum(cd.where(cd.equal(half(A), 0), 1, 0), "x"),
            cd.sum(0 * A, "x") + cd.size("x"), cd.sum(half(A) / half(A), "x")),
    )  # fmt: skip
    with pytest.raises((cd.Refuted, cd.Undecided, cd.errors.NotStreamable)):
        f.stream("x", by=fold)
