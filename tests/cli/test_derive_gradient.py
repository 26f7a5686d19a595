"""`catdiag derive --grad`: the gradient of an operator, derived like an operator."""

from __future__ import annotations


def test_a_gradient_is_derived_like_an_operator(run):
    done = run("derive", "sum_of_squares", "--grad", "any", "--group", "q x")
    assert done.status == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == "the gradient of sum_of_squares is its derivative wherever sum_of_squares has a value"
    assert lines[1] == "sum_of_squares.grad(): a[q x], dout[q] → [q x]"
    assert "1. group q x, proved in" in done.out


def test_an_input_of_integers_is_refused(run):
    done = run("derive", "cross_entropy", "--grad", "label")
    assert done.status == 2 and "input label of cross_entropy is int[t], of integers" in done.err
