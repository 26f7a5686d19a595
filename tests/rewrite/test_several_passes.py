"""What one loop over an axis cannot do, several can: loops one after the other, and a map where results keep it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import catdiag as cd


def weighted_peak(a: Any) -> Any:
    return cd.max(cd.softmax(a, "x") * a, "x")


def clipped(a: Any) -> Any:
    m = cd.mean(a, "x")
    d = cd.mean(cd.abs(a - m), "x")
    return cd.mean(cd.clip(a, m - 2 * d, m + 2 * d), "x")


def normed(a: Any) -> Any:
    c = a - cd.mean(a, "x")
    return c / cd.sqrt(cd.mean(c * c, "x") + 1)


def with_entropy(a: Any) -> Any:
    p = cd.softmax(a, "x")
    return cd.sum(p * cd.log(p), "x"), p


def squashed(a: Any) -> Any:
    t = cd.tanh(a - cd.max(a, "x"))
    return t / (cd.sum(t * t, "x") + 1)


CASES: dict[str, tuple[Callable[..., Any], int, list[str]]] = {
    "scores": (lambda a: cd.softmax(a, "x"), 2, ["fold[x]", "group[x]"]),
    "normed": (normed, 2, ["fold[x]", "group[x]"]),
    "deviation": (lambda a: cd.mean(cd.abs(a - cd.mean(a, "x")), "x"), 2, ["fold[x]", "fold[x]"]),
    "no repair": (lambda a: cd.sum(cd.tanh(a - cd.max(a, "x")), "x"), 2, ["fold[x]", "fold[x]"]),
    "peak": (weighted_peak, 2, ["fold[x]", "fold[x]"]),
    "clipped": (clipped, 3, ["fold[x]", "fold[x]", "fold[x]"]),
    "squashed": (squashed, 3, ["fold[x]", "fold[x]", "group[x]"]),
    "two results": (with_entropy, 2, ["fold[x]", "group[x]"]),
}


def loops(derived: Any) -> list[str]:
    return [b.name for b in derived.diagram.boxes if b.name.startswith(("fold", "group"))]


@pytest.mark.parametrize("name", CASES)
def test_passes_are_found_proved_and_as_few_as_will_do(name: str) -> None:
    function, passes, boxes = CASES[name]
    diagram = cd.algorithm("q x", name="f")(function)
    for fewer in range(1, passes):
        with pytest.raises(
            cd.errors.NotStreamable, match=rf"in {passes} passes it can be: \.stream\('x', passes={passes}\)"
        ):
            diagram.stream("x", passes=fewer)
    derived = diagram.stream("x", passes=passes + 1)
    assert loops(derived) == boxes and not derived.theorem.conditional
    assert derived.steps[-1].name == f"stream x in {passes} passes"
    rng = np.random.default_rng(1)
    for x in (1, 5):
        given = rng.normal(size=(3, x)) * 10
        wanted = diagram(given)
        for block in (1, 2, 5):
            found = derived.run(given, tiles={s: block for s in ("s_x", "g_x") if s in str(derived.diagram.boxes)})
            wanteds, founds = (v if isinstance(v, tuple) else (v,) for v in (wanted, found))
            for one, other in zip(wanteds, founds, strict=True):
                np.testing.assert_allclose(other, one, atol=1e-9)


def test_one_pass_is_enough_where_it_is() -> None:
    derived = cd.algorithm("q x")(lambda a: cd.sum(cd.softmax(a, "x") * a, "x")).stream("x", passes=3)
    assert loops(derived) == ["fold[x]"] and derived.steps[-1].name == "stream x"


def test_passes_run_in_groups_of_other_axes() -> None:
    diagram = cd.algorithm("q x")(lambda a: cd.mean(cd.abs(a - cd.mean(a, "x")), "x"))
    derived = diagram.stream("x", passes=2).group("q")
    a = np.arange(12.0).reshape(3, 4) ** 2
    np.testing.assert_allclose(derived.run(a, tiles={"s_x": 3, "g_q": 2}), diagram(a))


def test_more_passes_are_offered_only_where_they_do() -> None:
    X = cd.category.Ty(cd.category.ArrayType((cd.Axis("x"),)))
    mixed = cd.algorithm("x")(lambda a: a - cd.max(a, "x")) >> cd.box("f", X, X)
    with pytest.raises(cd.errors.NotStreamable) as caught:
        (mixed >> mixed).stream("x")
    assert "passes it can be" not in str(caught.value)
    with pytest.raises(cd.errors.NotStreamable, match="1 or more"):
        cd.algorithm("x")(lambda a: cd.sum(a, "x")).stream("x", passes=0)


def test_a_refusal_says_what_depends_on_what() -> None:
    def scores(a: Any) -> Any:
        return cd.softmax(a, "x")

    with pytest.raises(cd.errors.NotStreamable) as caught:
        cd.algorithm("q x")(scores).stream("x")
    text = str(caught.value)
    assert "keeps it (it depends on max[x]" in text and "test_several_passes.py" in text


def test_what_is_not_proved_of_one_loop_is_done_in_two() -> None:
    def first_among(a: Any, m: Any) -> Any:
        return cd.argmax(cd.where(m > 0, a, -float("inf")), "x")

    diagram = cd.algorithm("q x, q x", name="f")(first_among)
    with pytest.raises(cd.errors.NotStreamable, match=r"found, but not proved.*in 2 passes it can be"):
        diagram.stream("x")
    derived = diagram.stream("x", passes=2)
    a = np.array([[3.0, 1.0, 3.0, 2.0], [0.0, 5.0, 5.0, 5.0]])
    m = np.array([[0.0, 1.0, 1.0, 1.0], [1.0, 0.0, 1.0, 1.0]])
    for block in (1, 2, 3):
        assert derived.run(a, m, tiles={"s_x": block}).tolist() == [2, 2]


@pytest.mark.parametrize(("error", "words", "make"), [
    (cd.errors.NotStreamable, "passes over axis 'x' is '2'", lambda f: f.stream("x", passes="2")),
    (cd.errors.NotStreamable, "passes over axis 'x' is 1.5", lambda f: f.stream("x", passes=1.5)),
    (cd.errors.NotStreamable, "passes over axis 'x' is None", lambda f: f.stream("x", passes=None)),
    (cd.errors.NotStreamable, "by= goes without passes=2",
     lambda f: f.stream("x", by=cd.Fold(0, lambda a: a, lambda a, b: a + b), passes=2)),
    (cd.errors.AxisError, r"has axis \['x'\]: expected one of q, x", lambda f: f.stream(["x"])),
    (cd.errors.AxisError, "axes to group are None", lambda f: f.group(None)),
    (cd.errors.NotFusable, "to save are 3", lambda f: f.fuse(saved=3)),
    (cd.errors.NotFusable, "to save are 3", lambda f: f.fuse(3)),
    (cd.errors.SizeError, "tiles is 5: expected a dict of s_x", lambda f: f.stream("x").run(np.ones((2, 3)), tiles=5)),
])  # fmt: skip
def test_what_is_of_another_type_is_an_error(error: Any, words: str, make: Any) -> None:
    with pytest.raises(error, match=words):
        make(cd.algorithm("q x -> q", name="sums")(lambda a: cd.sum(a, "x")))
