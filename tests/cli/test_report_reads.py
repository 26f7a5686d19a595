"""What `derive` and `io` print can be read in one way only."""

from __future__ import annotations

import catdiag as cd
from catdiag.cli.derive_report import type_of


def test_a_sum_has_parentheses_beside_other_terms() -> None:
    @cd.algorithm("q d, x d, x -> q")
    def biased(Q, K, b):
        scores = cd.einsum("q d, x d -> q x", Q, K) + b
        return cd.sum(cd.softmax(scores, "x") * b, "x")

    text = str(biased.stream("x").steps[0].formula)
    assert "(Σ_d Q·K) + b" in text
    assert "(Σ_d Q·K + b)" not in text


def test_or_inside_and_has_parentheses() -> None:
    @cd.algorithm("x ->")
    def outside(X):
        return cd.sum(cd.where(((X < 0) | (X > 9)) & (X < 99), 1, 0), "x")

    assert "Σ_x where((X < 0 ∨ 9 < X) ∧ X < 99, 1, 0)" in str(outside.stream("x").steps[0].formula)


def test_element_types_stand_apart_from_names() -> None:
    kept = cd.algorithm("x, bool[x]", name="kept")(lambda A, keep: cd.where(keep, A, 0))
    assert type_of(kept.diagram) == "kept: A[x], keep: bool[x] → [x]"


def test_the_capacity_is_no_size() -> None:
    product = cd.algorithm("M K, K N -> M N")(lambda A, B: cd.einsum("M K, K N -> M N", A, B))
    io = product.stream("K").group("M N").io()
    assert str(io.capacity) == "M_"
    assert str(io.optimum().leading) == "2*K*M*N/sqrt(M_) + M*N"
    assert str(cd.library.get("matmul").stream("b").group("a c").io().capacity) == "M"


def test_io_says_nothing_before_an_error(run) -> None:
    for wrong in (("--dtype", "foo"), ("--unfused", "--group", "q"), ("--group", "zz")):
        done = run("io", "attention", *wrong)
        assert (done.status, done.out) == (2, "")
        assert "Traceback" not in done.err
