"""A user's own rules: what they match and why not, what they make of a diagram, and the theorem of it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.category.box_types import check
from catdiag.category.diagram import diagram_of
from catdiag.category.ops import Call
from catdiag.category.substitution import call, inline
from catdiag.kernel.checker import Checker
from catdiag.solvers.z3 import Z3


def alg(signature: str, function: Callable[..., Any], name: str = "f") -> cd.category.Diagram:
    return cd.algorithm(signature, name=name)(function)


def recheck(theorem: cd.Theorem) -> None:
    with Z3() as ask:
        assert str(Checker(ask).check(theorem.certificate)) == str(theorem.checked)


def names(diagram: cd.category.Diagram) -> list[str]:
    return [box.name for box in diagram.boxes]


X = cd.category.ArrayType((cd.Axis("i"),))
TWICE = cd.rule(alg("", lambda a: a + a), alg("", lambda a: 2 * a), name="twice")
DISTRIBUTE = cd.rule(
    alg("q k, k n, k n", lambda a, b, c: cd.einsum("q k, k n -> q n", a, b) + cd.einsum("q k, k n -> q n", a, c)),
    alg("q k, k n, k n", lambda a, b, c: cd.einsum("q k, k n -> q n", a, b + c)),
    name="distribute",
)


# -- axes and weaving --------------------------------------------------------------------------------


def test_inputs_that_lack_a_weaved_axis_and_results_in_another_layout() -> None:
    def f(x: Any, y: Any, z: Any) -> Any:
        left = cd.einsum("i j, h j m -> m h i", x, y)
        return left + cd.einsum("i j, h j m -> h m i", x, z)

    whole = alg("i j, h j m, h j m -> m h i", f)
    done = DISTRIBUTE.apply(whole)
    assert [str(t) for t in done.diagram.boxes[0].dom] == ["[h j m]", "[h j m]"]
    assert names(done.diagram) == ["add", "einsum"]
    assert done.diagram.cod == whole.cod
    recheck(done.theorem)
    (match,) = DISTRIBUTE.matches(whole)
    assert match.axes == {"q": "i", "k": "j", "n": "m"} and match.weaved == ("h",)


def test_an_axis_of_the_rule_is_not_weaved_where_the_rule_lacks_it() -> None:
    pull = cd.rule(alg("x, ", lambda a, c: cd.sum(c * a, "x")), alg("x, ", lambda a, c: c * cd.sum(a, "x")))
    assert pull.matches(alg("q k, q", lambda a, c: cd.sum(c * a, "k")))
    depends = alg("q k, k", lambda a, c: cd.sum(c * a, "k"))
    assert not pull.matches(depends)
    assert "axis k" in pull.explain(depends) and "lacks axis x" in pull.explain(depends)


def test_sizes_are_instantiated_and_fixed_ones_must_agree() -> None:
    mean = cd.rule(alg("x", lambda a: cd.mean(a, "x") * cd.size("x")), alg("x", lambda a: cd.sum(a, "x")))
    for axis in ("k", "(b g)", "u+v", "8", "k=16"):
        name = axis.split("=")[0]
        done = mean.apply(alg(f"q {axis} -> q", lambda a, n=name: cd.mean(a, n) * cd.size(n)))
        assert not done.theorem.conditional
        recheck(done.theorem)
    wrong = alg("q k, x", lambda a, b: cd.sum(a, "k") / cd.size("x") * cd.size("k") + cd.sum(b, "x"))
    assert not mean.matches(wrong)
    four = cd.rule(alg("x=4", lambda a: cd.sum(a, "x") / 4), alg("x=4", lambda a: cd.mean(a, "x")))
    assert four.matches(alg("q k=4", lambda a: cd.sum(a, "k") / 4))
    text = four.explain(alg("q k=5", lambda a: cd.sum(a, "k") / 4))
    assert "size 4" in text and "5" in text
    assert not four.matches(alg("q k", lambda a: cd.sum(a, "k") / 4))


def test_two_axes_of_the_rule_may_be_one_only_where_they_do_not_meet() -> None:
    lhs = alg("x, y", lambda a, b: cd.sum(a, "x") * cd.sum(b, "y"))
    outer = cd.rule(lhs, alg("x, y", lambda a, b: cd.einsum("x, y ->", a, b)), name="outer")
    assert outer.matches(alg("p, k", lambda a, b: cd.sum(a, "p") * cd.sum(b, "k")))
    one = alg("p, p", lambda a, b: cd.sum(a, "p") * cd.sum(b, "p"))
    assert "both p here" in outer.explain(one)
    swapped = cd.rule(lhs, alg("x, y", lambda a, b: cd.sum(b, "y") * cd.sum(a, "x")))
    recheck(swapped.apply(one).theorem)


def test_axes_that_only_the_right_side_has_get_new_names() -> None:
    square = cd.rule(
        alg("x", lambda a: cd.sum(a, "x") * cd.sum(a, "x")),
        alg("x", lambda a: cd.einsum("x, y ->", a, a.rename(x="y"))),
    )
    done = square.apply(alg("y z", lambda a: cd.sum(a, "z") * cd.sum(a, "z")))
    assert "y_2" in done.diagram.boxes[0].cod[0].names
    recheck(done.theorem)


def test_products_sums_and_views_of_axes() -> None:
    joined = cd.rule(
        alg("x, y", lambda a, b: cd.sum(cd.concat([a, b], "x+y"), "x+y")),
        alg("x, y", lambda a, b: cd.sum(a, "x") + cd.sum(b, "y")),
    )
    done = joined.apply(alg("n p, q n", lambda a, b: cd.sum(cd.concat([a, b], "p+q"), "p+q")))
    assert names(done.diagram) == ["sum[p]", "sum[q]", "add"]
    split = cd.rule(
        alg("(b g)", lambda a: cd.sum(cd.rearrange(a, "(b g) -> b g"), "b g")),
        alg("(b g)", lambda a: cd.sum(a, "(b g)")),
    )
    assert names(split.apply(alg("(p k) n", lambda a: cd.sum(cd.rearrange(a, "(p k) n -> p k n"), "p k"))).diagram)
    back = cd.rule(alg("x", lambda a: cd.reverse(cd.reverse(a, "x"), "x")), alg("x", lambda a: a))
    done = back.apply(alg("q k", lambda a: cd.exp(cd.reverse(cd.reverse(a, "k"), "k"))))
    assert names(done.diagram) == ["exp"]
    recheck(done.theorem)
    shifted = cd.rule(
        alg("x", lambda a: cd.shift(2 * a, "x", 1)), alg("x", lambda a: 2 * cd.shift(a, "x", 1)), name="shift"
    )
    recheck(shifted.apply(alg("q k", lambda a: cd.shift(2 * a, "k", 1))).theorem)
    assert not shifted.matches(alg("q k", lambda a: cd.shift(2 * a, "k", 2)))


def test_transpositions_are_looked_through() -> None:
    halo = cd.rule(
        alg("x", lambda a: cd.sum(cd.pad(a, "x", 1, 1), "1+x+1")), alg("x", lambda a: cd.sum(a, "x")), name="halo"
    )
    # Padding puts the new axis in front, and is transposed back.
    done = halo.apply(alg("q k", lambda a: cd.exp(cd.sum(cd.pad(a, "k", 1, 1), "1+k+1"))))
    assert names(done.diagram) == ["sum[k]", "exp"]
    recheck(done.theorem)
    around = alg("p q r", lambda x: cd.rearrange(x + x, "p q r -> r q p"))
    done = TWICE.apply(around)
    assert names(done.diagram) == ["2", "mul", "rename"]
    # One that is read elsewhere stays, of what the rule gives.
    shared = alg("p q", lambda x: (lambda y: (y, cd.rearrange(y, "p q -> q p")))(x + x))
    assert names(TWICE.apply(shared).diagram) == ["2", "mul", "rename"]
    turned = cd.rule(alg("a b -> b a", lambda x: x + x), alg("a b -> b a", lambda x: 2 * x))
    for whole in (around, shared, alg("x y", lambda x: cd.exp(x + x))):
        done = turned.apply(whole)
        check(done.diagram)
        recheck(done.theorem)
    back = cd.rule(
        alg("a b", lambda x: cd.rearrange(cd.rearrange(x, "a b -> b a"), "b a -> a b")), alg("a b", lambda x: x)
    )
    whole = alg("h p q", lambda x: cd.exp(cd.rearrange(cd.rearrange(x, "h p q -> q p h"), "q p h -> h p q")))
    assert names(back.apply(whole).diagram) == ["exp"]
    # A transposition in a named box that no box of the match is in.
    turn = call("turn", alg("p q", lambda x: (cd.rearrange(x, "p q -> q p"), cd.tanh(x))).diagram)
    double = alg("q p, p q", lambda x, y: (x + x, y))
    done = TWICE.apply(turn >> double)
    check(done.diagram)
    recheck(done.theorem)


# -- wires ----------------------------------------------------------------------------------------------


def test_what_is_used_elsewhere_stays() -> None:
    def f(x: Any, y: Any, z: Any) -> Any:
        product = cd.einsum("i j, j m -> i m", x, y)
        return product + cd.einsum("i j, j m -> i m", x, z), product

    assert "result of the diagram" in DISTRIBUTE.explain(alg("i j, j m, j m", f))

    def g(x: Any, y: Any, z: Any) -> Any:
        product = cd.einsum("i j, j m -> i m", x, y)
        return product + cd.einsum("i j, j m -> i m", x, z * cd.sum(product, "i"))

    assert "read 2 times" in DISTRIBUTE.explain(alg("i j, j m, j m", g))


def test_constants_are_shared_with_the_rest() -> None:
    halves = cd.rule(alg("", lambda a: (a / 2) / 2), alg("", lambda a: a / 4))
    whole = alg("x", lambda a: cd.exp(a / 2 / 2) * 2)
    done = halves.apply(whole)
    assert sorted(n for n in names(done.diagram) if n.isdigit()) == ["2", "4"]
    a = np.array([1.0, -2.0])
    np.testing.assert_allclose(cd.Program(done)(a), whole(a))


def test_results_that_are_inputs_and_inputs_that_are_not_read() -> None:
    one = cd.rule(alg(", ", lambda a, b: (a * 1, b)), alg(", ", lambda a, b: (a, b)))
    done = one.apply(alg("x", lambda a: (a * 1, cd.exp(a))))
    assert names(done.diagram) == ["exp"]
    more = cd.rule(alg("x, ", lambda a, b: a * 1), alg("x, ", lambda a, b: a + b - b))
    recheck(more.apply(alg("q k", lambda a: a * 1)).theorem)
    nothing = cd.rule(alg("", lambda a: a - a), alg(" -> ", lambda a: 0))
    done = nothing.apply(alg("q k", lambda a: a - a))
    assert done.diagram.cod[0].names == ("q", "k")
    recheck(done.theorem)


def test_element_types_may_be_narrower_at_inputs_only() -> None:
    plain = cd.rule(alg("", lambda a: a + 0), alg("", lambda a: a))
    assert "extended" in plain.explain(alg("extended[x]", lambda a: cd.exp(a + 0)))
    wide = cd.rule(alg("extended[]", lambda a: cd.maximum(a, a)), alg("extended[]", lambda a: a))
    assert names(wide.apply(alg("extended[x]", lambda a: cd.exp(cd.maximum(a, a)))).diagram) == ["exp"]
    for rule, f in ((plain, lambda i: i + 0), (wide, lambda i: cd.maximum(i, i))):
        done = rule.apply(alg("x", lambda a, f=f: a * f(cd.index("x"))))
        check(done.diagram)
        recheck(done.theorem)


# -- hypotheses and conditions ----------------------------------------------------------------------------


def test_hypotheses_follow_or_are_named() -> None:
    big = cd.rule(
        alg("n ->", lambda a: cd.sum(a, "n") * 2), alg("n ->", lambda a: 2 * cd.sum(a, "n")), ["n >= 2"], name="big"
    )
    h = alg("a b -> b", lambda a: cd.sum(a, "a") * 2)
    assert "2 ≤ a" in big.explain(h) and "assume=['2 <= a']" in big.explain(h)
    with pytest.raises(cd.errors.NoMatch, match="does not follow"):
        big.apply(h)
    done = big.apply(h, assume=["2 <= a"])
    assert "2 ≤ a" in done.theorem.hypotheses and done.assume == ("2 <= a",)
    assert big.matches(alg("a+b", lambda a: cd.sum(a, "a+b") * 2))  # 2 ≤ a + b where 1 ≤ a and 1 ≤ b
    assert big.matches(alg("3 b", lambda a: cd.sum(a, "3") * 2))
    assert not big.matches(alg("(a b)", lambda a: cd.sum(a, "(a b)") * 2))
    assert big.matches(alg("(a b)", lambda a: cd.sum(a, "(a b)") * 2), assume=["a >= 2"])
    with pytest.raises(cd.errors.CatdiagError, match="no sizes meet"):
        big.apply(h, assume=["a >= 3", "2 >= a"])


def test_axes_are_chosen_so_that_the_hypotheses_follow() -> None:
    wide = cd.rule(alg("x", lambda a: a + a), alg("x", lambda a: 2 * a), ["x >= 2"])
    whole = alg("q k", lambda a: cd.exp(a + a))
    assert not wide.matches(whole)
    for axis in "qk":
        (match,) = wide.matches(whole, [f"{axis} >= 2"])
        assert match.axes == {"x": axis}
        assert len(match.weaved) == 1


def test_boxes_are_matched_in_the_one_of_several_ways_that_fits() -> None:
    first = cd.rule(
        alg("x, ", lambda a, b: (cd.exp(a), cd.exp(b))),
        alg("x, ", lambda a, b: (cd.exp(a * 1), cd.exp(b))),
        ["x >= 2"],
    )
    for sides in (("k", "q"), ("q", "k")):
        whole = alg(", ".join(sides), lambda a, b: (cd.exp(a), cd.exp(b)))
        done = first.apply(whole, assume=["k >= 2"])
        assert names(done.diagram).count("mul") == 1


def test_conditions_are_restated_where_the_rule_is_used() -> None:
    more = cd.rule(alg("", lambda a: a * 1), alg("", lambda a: (a * a) / a))
    assert more.theorem.conditional
    assert not more.apply(alg("x", lambda a: cd.exp(a) * 1)).theorem.conditional
    assert more.apply(alg("x", lambda a: cd.sum(a, "x") * 1)).theorem.conditional
    # What the rule takes for granted on its left side may be guarded in the diagram.
    less = cd.rule(alg("", lambda a: a / a), alg("->", lambda a: 1))
    recheck(less.apply(alg("x", lambda a: cd.where(a > 0, a / a, 3))).theorem)


def test_what_is_no_rule() -> None:
    with pytest.raises(cd.Refuted):
        cd.rule(alg("", lambda a: a + a), alg("", lambda a: a * a))
    with pytest.raises(cd.errors.TypeMismatch):
        cd.rule(alg("x", lambda a: a), alg("y", lambda a: a))
    with pytest.raises(cd.errors.SignatureError, match="nothing to look for"):
        cd.rule(alg("x", lambda a: a), alg("x", lambda a: a * 1))
    with pytest.raises(cd.errors.SignatureError, match="'g' is no"):
        cd.rule(alg("", lambda a: cd.apply("f", a)), alg("", lambda a: cd.apply("f", a)), variables=["g"])
    with pytest.raises(cd.errors.SignatureError, match="lists of texts"):
        cd.rule(alg("", lambda a: a + a), alg("", lambda a: 2 * a), variables="f")
    with pytest.raises(cd.errors.TypeMismatch, match="expected a program or a diagram"):
        TWICE.apply(lambda a: a)


# -- variables ------------------------------------------------------------------------------------------------


def test_functions_are_literal_unless_they_are_variables() -> None:
    def lhs(c: Any, a: Any, b: Any) -> Any:
        return cd.apply("f", cd.where(c, a, b))

    def rhs(c: Any, a: Any, b: Any) -> Any:
        return cd.where(c, cd.apply("f", a), cd.apply("f", b))

    sides = alg("bool[], , ", lhs), alg("bool[], , ", rhs)
    whole = alg("x, x", lambda a, b: cd.exp(cd.where(a > 0, a, b)))
    assert not cd.rule(*sides).matches(whole)
    any_f = cd.rule(*sides, variables=["f"])
    done = any_f.apply(whole)
    assert names(done.diagram).count("exp") == 2
    recheck(done.theorem)
    assert cd.rule(*sides).matches(alg("x, x", lambda a, b: cd.apply("f", cd.where(a > 0, a, b))))


def test_a_box_may_stand_for_any_box() -> None:
    f = cd.box("f", X, X)
    once = cd.rule(cd.copy(X) >> f @ f, f >> cd.copy(X), variables=["f"], name="once")
    whole = alg("x y", lambda a: cd.exp(a) + cd.sum(cd.exp(a), "x"))
    done = once.apply(whole)
    assert names(done.diagram).count("exp") == 1
    recheck(done.theorem)
    # Two different boxes are not one, and one that uses up an axis does not map over it.
    assert not once.matches(alg("x y", lambda a: cd.exp(a) + cd.tanh(a)))
    assert not once.matches(alg("x y", lambda a: cd.sum(a, "x") + cd.sum(a, "x") * 2))


def test_a_box_by_its_name_is_matched_weaved() -> None:
    f = cd.box("f", X, X)
    rule = cd.rule(f >> alg("i", lambda a: a + a), f >> alg("i", lambda a: 2 * a))
    done = rule.apply(f.weave("h") >> alg("h i", lambda a: a + a))
    assert names(done.diagram) == ["f", "2", "mul"]
    assert done.theorem.taken
    recheck(done.theorem)
    assert not rule.matches(cd.box("g", X, X) >> alg("i", lambda a: a + a))


# -- many places ----------------------------------------------------------------------------------------------------


def test_one_place_or_all_of_them() -> None:
    whole = alg("x", lambda a: cd.exp(a + a) * cd.tanh((a * 3) + (a * 3)))
    only = alg("x", lambda a: (lambda b: b + b)((lambda b: b + b)(cd.exp(a))))
    assert len(TWICE.matches(only)) == 2 and len(TWICE.matches(whole)) == 1
    second = TWICE.apply(only, at=1)
    assert names(second.diagram) == ["exp", "add", "2", "mul"]
    every = TWICE.apply(only, everywhere=True)
    assert names(every.diagram) == ["exp", "2", "mul", "mul"]
    recheck(every.theorem)
    with pytest.raises(cd.errors.NoMatch, match="no number 2"):
        TWICE.apply(only, at=2)
    with pytest.raises(cd.errors.CatdiagError, match="not both"):
        TWICE.apply(only, at=0, everywhere=True)


def test_a_rule_that_undoes_itself_comes_to_an_end() -> None:
    swap = cd.rule(alg(", ", lambda a, b: a + b), alg(", ", lambda a, b: b + a), name="swap")
    whole = alg("x, x", lambda a, b: cd.exp(a + b))
    recheck(swap.apply(whole).theorem)
    with pytest.raises(cd.errors.MatchUndecided, match="undo"):
        swap.apply(whole, everywhere=True, most=5)


def test_matches_that_are_convex_only_one_by_one() -> None:
    pair = cd.rule(alg(", ", lambda a, b: (a + a, b * b)), alg(", ", lambda a, b: (2 * a + b - b, b * b)), name="pair")

    # Each sum goes with the product that the other feeds: rewritten together they would go round in a circle.
    def crossed(a: Any, b: Any) -> Any:
        p, q = a + a, b + b
        return p * p, q * q

    whole = alg("x, x", crossed)
    assert len(pair.matches(whole)) == 2
    done = pair.apply(whole, everywhere=True)
    check(done.diagram)
    assert not pair.matches(done)
    recheck(done.theorem)
    a, b = np.array([1.0, 2.0]), np.array([3.0, -1.0])
    np.testing.assert_allclose(cd.Program(done)(a, b), whole(a, b))


def test_named_boxes_are_opened_where_the_match_is() -> None:
    inner = alg("x", lambda a: cd.exp(a + a), "inner")
    other = alg("x", lambda a: cd.tanh(a * 3), "other")
    whole = call("inner", inner.diagram) >> call("other", other.diagram)
    done = TWICE.apply(whole)
    assert names(done.diagram) == ["2", "mul", "exp", "other"]
    # Across the border of two of them.
    late = cd.rule(alg("", lambda a: cd.tanh(cd.exp(a) * 3)), alg("", lambda a: cd.tanh(3 * cd.exp(a))))
    assert not any(isinstance(b.op, Call) for b in late.apply(whole).diagram.boxes)
    # In a named box of a named box, the one beside it stays closed.
    deep = call("outer", call("other", other.diagram) >> call("inner", inner.diagram))
    assert names(TWICE.apply(deep).diagram) == ["other", "2", "mul", "exp"]
    # A rule may bring named boxes.
    soft = cd.rule(
        alg("x", lambda a: cd.exp(a) / cd.sum(cd.exp(a), "x")), alg("x", lambda a: cd.softmax(a, "x")), name="soft"
    )
    assert names(soft.apply(alg("q k", lambda a: cd.exp(a) / cd.sum(cd.exp(a), "k"))).diagram) == ["softmax"]


# -- large diagrams, loops, and what travels -----------------------------------------------------------------------


def test_a_large_diagram_is_cut_at_arrays_that_stay() -> None:
    def deep(a: Any) -> Any:
        for k in range(200):
            a = a + a if k % 40 == 0 else cd.tanh(a) * cd.exp(a)
        return a

    whole = alg("x y", deep)
    done = TWICE.apply(whole)
    assert done.theorem.taken and "is defined" in str(done.theorem)
    assert not done.theorem.conditional
    recheck(done.theorem)
    every = TWICE.apply(whole, everywhere=True)
    assert "add" not in names(every.diagram)
    recheck(every.theorem)


def test_of_a_very_large_diagram_only_what_differs_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    from catdiag.prover import congruence

    def deep(a: Any) -> Any:
        for k in range(60):
            a = a + a if k % 20 == 0 else cd.tanh(a) * cd.exp(a)
        return a

    whole = alg("x y", deep)
    full = TWICE.apply(whole, everywhere=True)
    monkeypatch.setattr(congruence, "LARGE", 20)
    done = TWICE.apply(whole, everywhere=True)
    assert "left out here" in done.theorem.taken[-1]
    sizes = [len(d.theorem.certificate["statement"]["left"]["nodes"]) for d in (full, done)]
    assert sizes[1] < sizes[0]
    recheck(done.theorem)
    # What differs is still all there.
    adds = [n for n in done.theorem.certificate["statement"]["left"]["nodes"] if n.get("fn") == "add"]
    assert len(adds) == 3


def test_rules_one_after_another_in_a_large_diagram() -> None:
    def deep(a: Any) -> Any:
        for k in range(60):
            a = a + a if k % 20 == 0 else cd.tanh(a * 1) * cd.exp(a)
        return a

    one = cd.rule(alg("", lambda a: a * 1), alg("", lambda a: a), name="one")
    done = TWICE.apply(one.apply(alg("x", deep), everywhere=True, limit=None), everywhere=True, limit=None)
    assert {"add", "1"}.isdisjoint(names(done.diagram))
    assert done.theorem.taken
    recheck(done.theorem)
    arrived = pickle.loads(pickle.dumps(done))
    assert arrived.unchanged is not None and arrived.unchanged[0] is arrived.diagram


def test_a_right_side_in_many_named_boxes() -> None:
    double = alg("x", lambda a: 2 * a)
    for _ in range(1200):
        double = call("double", diagram_of(double))
    nested = cd.rule(alg("x", lambda a: a + a), double)
    assert inline(nested.apply(alg("k", lambda a: a + a)).diagram) == inline(alg("k", lambda a: 2 * a).diagram)


def test_an_array_that_nothing_reads_any_more() -> None:
    drop = cd.rule(alg(", ", lambda a, b: a + (b - b)), alg(", ", lambda a, b: a))
    done = drop.apply(alg("x", lambda a: cd.tanh(a) + (lambda b: b - b)(cd.exp(a))))
    recheck(done.theorem)


def test_a_streamed_diagram_as_the_right_side() -> None:
    dot = alg("x, x ->", lambda a, b: cd.sum(a * b, "x"), "dot")
    flash = cd.rule(dot, dot.stream("x"), name="stream dot")
    whole = alg("h k, h k, h", lambda a, b, c: c * cd.sum(a * b, "k"))
    done = flash.apply(whole)
    assert "fold[k]" in names(inline(done.diagram))
    recheck(done.theorem)
    a, b, c = np.random.default_rng(0).normal(size=(3, 4, 6))
    c = c[:, 0]
    np.testing.assert_allclose(cd.Program(done)(a, b, c), whole(a, b, c))
    # The blocks are called after the axis here.
    np.testing.assert_allclose(cd.Program(done).run(a, b, c, tiles={"s_k": 2}), whole(a, b, c))


def test_rules_and_streams_in_one_derivation() -> None:
    whole = alg("q x", lambda a: cd.sum(a + a, "x"))
    done = whole.apply(TWICE).stream("x").group("q")
    assert [step.name for step in done.steps] == ["rule twice", "stream x", "group q"]
    again = TWICE.apply(alg("q x", lambda a: cd.exp(a + a) * (lambda t: t + t)(cd.tanh(a))))
    recheck(again.theorem)
    assert not TWICE.matches(TWICE.apply(again))
    recheck(TWICE.apply(again).theorem)


def test_rules_travel() -> None:
    arrived = pickle.loads(pickle.dumps(DISTRIBUTE))
    assert str(arrived) == str(DISTRIBUTE) and arrived.lhs == DISTRIBUTE.lhs
    assert repr(arrived) == repr(DISTRIBUTE) and repr(DISTRIBUTE).startswith("rule(")
    assert arrived.matches(DISTRIBUTE.lhs)


def test_explaining() -> None:
    whole = alg("x", lambda a: cd.exp(a * 3), "whole")
    assert "no box of the diagram is add" in TWICE.explain(whole)
    assert "test_rule_applied.py" in TWICE.explain(whole)
    two = alg("x, x", lambda a, b: a + b, "two")
    assert "another array" in TWICE.explain(two)
    found = TWICE.explain(alg("x", lambda a: a + a, "found"))
    assert found.startswith("twice matches found in 1 place:") and "over x" in found
    with pytest.raises(cd.errors.NoMatch, match="twice does not match two"):
        TWICE.apply(two)
