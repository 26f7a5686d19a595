"""Results of different kinds of numbers, and axes that only programs have, in statements."""

from __future__ import annotations

import pytest

import catdiag as cd


def test_what_may_be_minus_infinity_is_compared_with_a_real_number():
    padded = cd.algorithm("x")(lambda a: cd.max(cd.pad(a, "x", 1, 2, -float("inf")), "1+x+2"))
    plain = cd.algorithm("x")(lambda a: cd.max(a, "x"))
    assert padded.cod[0].element == "extended" != plain.cod[0].element
    assert cd.equivalent(padded, plain) and cd.equivalent(plain, padded)
    masked = cd.algorithm("x")(lambda a: cd.where(cd.index("x") < 1, a, -float("inf")))
    same = cd.algorithm("x")(lambda a: a)
    for f, g in ((masked, same), (same, masked)):
        with pytest.raises(cd.Refuted):
            cd.prove(f, g)


def test_integers_are_compared_with_real_numbers():
    positions = cd.algorithm("x")(lambda a: cd.sum(cd.index("x") * 0 + 1, "x"))
    counted = cd.algorithm("x")(lambda a: cd.sum(a * 0 + 1, "x"))
    assert positions.cod[0].element == "int"
    assert cd.equivalent(positions, counted)
    truth = cd.algorithm("x")(lambda a: a > 0)
    with pytest.raises(cd.errors.TypeMismatch, match="elements alike"):
        cd.prove(truth, cd.algorithm("x")(lambda a: a))


def test_new_axes_have_sizes_that_hypotheses_may_name():
    f = cd.algorithm("x")(lambda a: cd.sum(cd.reindex(a, "y", x=lambda y: y), "y"))
    g = cd.algorithm("x")(lambda a: cd.sum(cd.reindex(a, "y", x=0), "y"))
    with pytest.raises(cd.Refuted) as refuted:
        cd.prove(f, g)
    assert refuted.value.counterexample.sizes["y"] >= 2
    assert cd.equivalent(f, g, assume=["y == 1"]) is not False
