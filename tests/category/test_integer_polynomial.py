"""Polynomials in sizes: when one is at least another for all sizes."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from catdiag.category.integer_polynomial import IntPolynomial, _nonnegative_shift

monomials = st.lists(st.sampled_from("abc"), max_size=3).map(lambda names: tuple(sorted(names)))
polynomials = st.dictionaries(monomials, st.integers(-4, 6), max_size=5).map(IntPolynomial)


@given(polynomials, polynomials)
def test_domination_is_that_of_the_difference_in_sizes_less_one(one: IntPolynomial, other: IntPolynomial) -> None:
    assert one.dominates(other) == _nonnegative_shift((one - other).terms)


@given(polynomials, polynomials)
def test_what_dominates_is_at_least_as_large_at_all_sizes(one: IntPolynomial, other: IntPolynomial) -> None:
    if one.dominates(other):
        for sizes in itertools.product((1, 2, 5), repeat=3):
            values = dict(zip("abc", sizes, strict=True))
            assert one.value(values) >= other.value(values)
