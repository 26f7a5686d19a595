"""What a loop carries, as formulas that are read off the loop."""

from __future__ import annotations

import catdiag as cd
from catdiag import library
from catdiag.category.diagram import diagram_of
from catdiag.rewrite.group import find
from catdiag.rewrite.loop_state import formulas
from catdiag.rewrite.stream.fold_search import candidates


def of(program, axis="x"):
    return formulas(next(candidates(diagram_of(program), axis)).diagram)


def test_attention():
    (loop,) = of(library.get("attention")).loops
    assert (loop.axis, loop.block) == ("x", "s_x")
    first, second, third = loop.components
    assert (first.name, first.axes, str(first.unit), first.repair) == ("max1", ("q",), "-∞", None)
    assert str(first.merge) == "max(max1, max1′)"
    assert (str(second.unit), str(second.repair)) == ("0", "exp(max1 - max1′)")
    assert str(third.element) == "Σ_x exp((Σ_d Q·K)/√d - max1)·V"
    assert str(third.step) == "sum3·exp(max1 - max1′) + Σ_x exp((Σ_d Q·K)/√d - max1′)·V"
    assert str(third.merge) == "sum3·exp(max1 - max1″) + sum3′·exp(max1′ - max1″)"


def test_groups_change_nothing_of_it():
    flash = next(candidates(library.get("attention").diagram, "x")).diagram
    assert formulas(find(flash, ["q"])) == formulas(flash)
    assert str(formulas(flash)).splitlines()[-1] == "finish out = sum3/sum2"
    assert "finish out = sum1" in str(library.get("sum_of_squares").stream("x").group("q"))


def test_several_results_and_a_minimum():
    @cd.algorithm("q x -> q, q")
    def spread(A):
        return cd.max(A, "x") - cd.min(A, "x"), cd.max(A, "x")

    made = of(spread)
    assert [str(c.element) for c in made.loops[0].components] == ["max_x A", "-(min_x A)"]
    assert [(n, str(f)) for n, f in made.finish] == [("out0", "max1 + max2"), ("out1", "max1")]


def test_truth_values_have_units():
    tests = cd.algorithm("x ->")(lambda A: cd.where(cd.any(A > 1, "x") & cd.all(A < 9, "x"), 1, 0))
    assert [str(c.unit) for c in of(tests).loops[0].components] == ["false", "true"]


def test_a_part_that_is_read_twice_has_a_name():
    @cd.algorithm("q d, x d, q x -> q")
    def biased(Q, K, B):
        S = cd.einsum("q d, x d -> q x", Q, K) + B
        return cd.max(S, "x") + cd.log(cd.sum(cd.exp(S - cd.max(S, "x")), "x"))

    made = of(biased)
    assert [(n, str(f)) for n, f in made.shared] == [("t1", "(Σ_d Q·K) + B")]
    assert str(made.loops[0].components[0].element) == "max_x t1"


def test_text_does_not_explode():
    @cd.algorithm("q ->")
    def deep(A):
        for _ in range(60):
            A = cd.exp(A) * A + A
        return cd.sum(A, "q")

    assert len(str(formulas(deep.diagram))) < 10_000
    assert len(deep.code("pseudocode")) < 10_000


def test_what_was_found_does_not_explode():
    @cd.algorithm("x ->")
    def deep(A):
        s = cd.sum(A, "x")
        for _ in range(40):
            s = s * s + s
        return s

    found = of(deep)
    assert len(str(found)) < 100_000
    assert found.shared


def test_names_in_two_loops_differ():
    @cd.algorithm("x, y ->")
    def both(A, B):
        return cd.sum(A, "x") * cd.sum(B, "y")

    twice = both.stream("x").stream("y")
    names = [c.name for loop in formulas(twice.diagram).loops for c in loop.components]
    assert len(set(names)) == len(names)
    for name in names:
        assert name in twice.code("pseudocode")
