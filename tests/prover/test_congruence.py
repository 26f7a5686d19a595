"""Equations with uninterpreted boxes: equal boxes on equal arrays give equal arrays, and nothing else is known."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import diagram_of
from catdiag.execute.interpreter import run
from catdiag.kernel.checker import Checker
from catdiag.prover.congruence import Cutter, has_generators, interpreted
from catdiag.solvers.z3 import Z3

X = cd.category.ArrayType((cd.Axis("x"),))
XY = cd.category.ArrayType((cd.Axis("x"), cd.Axis("y")))
F, G = cd.box("f", X, X), cd.box("g", X @ X, X)
TWICE = cd.algorithm("x", name="twice")(lambda a: a + a)
DOUBLE = cd.algorithm("x", name="double")(lambda a: 2 * a)
MINUS = cd.algorithm("x, x", name="minus")(lambda a, b: a - b)
ZERO = cd.algorithm("x -> x", name="zero")(lambda a: a * 0)


def recheck(theorem: cd.Theorem) -> None:
    with Z3() as ask:
        assert str(Checker(ask).check(theorem.certificate)) == str(theorem.checked)


def test_equal_arrays_go_into_equal_boxes() -> None:
    theorem = cd.prove(DOUBLE >> F >> TWICE, TWICE >> F >> DOUBLE)
    assert not theorem.conditional
    assert theorem.taken and "f" in theorem.taken[0] and "any function" in str(theorem)
    assert "any function" in theorem.text()
    assert [type(t) for t in cd.prove_all([(DOUBLE >> F, TWICE >> F), (F >> F, F)])] == [cd.Theorem, cd.Refuted]
    recheck(theorem)


def test_boxes_of_one_side_are_compared_too() -> None:
    both = cd.copy(X) >> (DOUBLE >> F) @ (TWICE >> F) >> MINUS
    recheck(cd.prove(both, ZERO))
    # Once on one side, twice on the other: meaning does not count how often.
    recheck(cd.prove(DOUBLE >> F >> cd.copy(X), cd.copy(X) >> (TWICE >> F) @ (DOUBLE >> F)))


def test_a_box_after_a_box() -> None:
    left = DOUBLE >> F >> TWICE >> F >> cd.copy(X) >> G
    right = TWICE >> F >> DOUBLE >> F >> cd.copy(X) >> G
    recheck(cd.prove(left, right))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (F >> DOUBLE, DOUBLE >> F),
        (F >> F, F),
        (G, cd.swap(X, X) >> G),
        (F, cd.box("h", X, X)),
        (cd.copy(X) >> F @ F >> MINUS, F),
        (cd.box("p", X, cd.category.ArrayType()), cd.algorithm("x ->")(lambda a: cd.sum(a, "x"))),
        (cd.box("b", X, cd.category.ArrayType((), "bool")), cd.algorithm("x -> bool[]")(lambda a: cd.any(a > 0, "x"))),
    ],
)
def test_what_holds_for_some_boxes_only_is_refuted(left: cd.category.Diagram, right: cd.category.Diagram) -> None:
    with pytest.raises(cd.Refuted):
        cd.prove(left, right)


def test_what_a_box_reads_must_be_defined() -> None:
    inverse = cd.algorithm("x")(lambda a: 1 / a)
    twisted = cd.algorithm("x")(lambda a: (1 / a) * (a / a))
    theorem = cd.prove(inverse >> F, twisted >> F)
    assert "≠ 0" in theorem.defined[0]
    assert not theorem.conditional
    # Of two boxes on one side that are one, what each reads is defined by hypothesis.
    folded = cd.copy(X) >> (inverse >> F) @ (twisted >> F) >> MINUS
    theorem = cd.prove(folded, ZERO)
    assert "≠ 0" in theorem.defined[0] and not theorem.conditional
    # The other way round, what is newly read must be defined too.
    assert cd.prove(DOUBLE >> F, cd.algorithm("x")(lambda a: 2 * a * a / a) >> F).conditional


def test_a_box_with_several_results_and_types_of_its_own() -> None:
    many = cd.box("many", X @ XY, XY @ cd.category.ArrayType((cd.Axis("z"),), "bool") @ X)
    swap = cd.algorithm("x, x y")(lambda a, b: (a + a, b * 1))
    same = cd.algorithm("x, x y")(lambda a, b: (2 * a, b))
    recheck(cd.prove(swap >> many, same >> many))


def test_boxes_in_named_boxes_are_seen() -> None:
    from catdiag.category.substitution import call

    inner = call("inner", (DOUBLE >> F).diagram)
    assert has_generators(inner)
    recheck(cd.prove(inner, TWICE >> F))


def test_a_box_in_a_loop_has_no_term_yet() -> None:
    body = cd.algorithm("q x")(lambda a: a + a).group("q").diagram
    assert not has_generators(body)


_BLOCKS = [F, TWICE, DOUBLE, F, cd.copy(X) >> G, cd.copy(X) >> MINUS]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(_BLOCKS), min_size=1, max_size=4), st.data())
def test_what_is_proved_holds_for_functions_that_mix_positions(
    blocks: list[cd.category.Diagram], data: st.DataObject
) -> None:
    f = g = cd.id(X)
    for block in blocks:
        f = f >> block
        other = {id(TWICE): DOUBLE, id(DOUBLE): TWICE}.get(id(block), block)
        g = g >> data.draw(st.sampled_from([block, other, data.draw(st.sampled_from(_BLOCKS))]))
    try:
        theorem = cd.prove(f, g)
    except (cd.Refuted, cd.Undecided):
        return
    recheck(theorem)
    functions = {"f": lambda a: np.cumsum(a) % 7, "g": lambda a, b: np.cumsum(a - 2 * b[::-1]) % 11}
    a = np.array([1.0, -2.0, 3.0])
    np.testing.assert_allclose(run(f, [a], functions=functions), run(g, [a], functions=functions))


def test_cutting_through_other_arrays() -> None:
    f = cd.algorithm("x")(lambda a: cd.exp(cd.tanh(a + a)))
    g = cd.algorithm("x")(lambda a: cd.exp(cd.tanh(2 * a)))

    def never(a: cd.category.Diagram, b: cd.category.Diagram) -> bool:
        raise AssertionError("there are no boxes to compare")

    # On the left a + a is wire 1 and its tanh wire 2; on the right wire 1 is the constant.
    cut = Cutter(diagram_of(f), diagram_of(g), never).find([(1, 2), (2, 3)])
    assert [len(cut.left.dom), len(cut.left.cod)] == [3, 3]
    recheck(cd.prove(cut.left, cut.right))
    wrong = Cutter(diagram_of(f), diagram_of(g), never).find([(2, 2)])
    with pytest.raises((cd.Refuted, cd.Undecided)):
        cd.prove(wrong.left, wrong.right)


def test_a_stand_in_is_one_function() -> None:
    stood = interpreted((cd.copy(X) >> F @ F >> MINUS).diagram)
    assert stood is not None
    assert cd.equivalent(stood, ZERO)
    assert interpreted(cd.box("e", cd.category.ArrayType((), "extended"), X).diagram) is None


def test_what_is_cut_through_may_be_minus_infinity_on_either_side() -> None:
    # On the left the array is called real, on the right extended: nothing may rest on its being real.
    wide = cd.category.ArrayType((cd.Axis("x"),), "extended")
    from catdiag.category.diagram import of_box
    from catdiag.category.ops import Box, Map

    def through(inner: cd.category.ArrayType) -> cd.category.Diagram:
        return of_box(Box(Map("max"), X @ X, cd.category.Ty(inner))) >> of_box(
            Box(Map("exp"), cd.category.Ty(inner), cd.category.Ty(X))
        )

    f, g = through(X), through(wide)
    cut = Cutter(diagram_of(f), diagram_of(g), lambda a, b: False).find([(2, 2)])
    assert [t.element for t in cut.left.dom] == ["real", "real", "extended"]
    recheck(cd.prove(cut.left, cut.right))


def test_the_command_refutes_with_a_function_for_each_box(tmp_path: Path) -> None:
    program = tmp_path / "boxes.py"
    program.write_text(
        "import catdiag as cd\n"
        "X = cd.category.ArrayType((cd.Axis('x'),))\n"
        "f = cd.box('f', X, X)\n"
        "twice = cd.algorithm('x')(lambda a: a + a)\n"
        "before, after = twice >> f, f >> twice\n"
    )
    numbers = tmp_path / "numbers.npz"
    command = [sys.executable, "-m", "catdiag", "prove", f"{program}:before", f"{program}:after"]
    done = subprocess.run([*command, "--counterexample", str(numbers)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 1, done.stderr
    assert "f is" in done.stdout and "replayed from" in done.stdout
    assert numbers.exists()
