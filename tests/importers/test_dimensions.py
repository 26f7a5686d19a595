"""Dimensions as products of factors: lengths are kept by splitting, regrouping and unifying."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catdiag.category.types import Axis, size_value
from catdiag.importers.dimensions import AxisNames, Dimension, Factors, NotAligned

factorizations = st.lists(st.integers(2, 4), min_size=1, max_size=4)


def grouped(numbers: list[int], cuts: list[bool]) -> list[int]:
    """Neighboring numbers multiplied, where `cuts` does not separate them."""
    found = [numbers[0]]
    for n, cut in zip(numbers[1:], cuts, strict=False):
        if cut:
            found.append(n)
        else:
            found[-1] *= n
    return found


@given(factorizations, st.lists(st.booleans(), min_size=3, max_size=3), st.lists(st.booleans(), min_size=3, max_size=3))
def test_a_view_and_its_inverse(numbers: list[int], one: list[bool], other: list[bool]) -> None:
    table = Factors()
    first, second = grouped(numbers, one), grouped(numbers, other)
    dims = [table.dimension(n) for n in first]
    seen = table.regroup([f for d in dims for f in d], second)
    assert [table.length(d) for d in seen] == second
    back = table.regroup([f for d in seen for f in d], first)
    assert [table.resolve(d) for d in back] == [table.resolve(d) for d in dims]


@given(factorizations, st.lists(st.booleans(), min_size=3, max_size=3), st.lists(st.booleans(), min_size=3, max_size=3))
def test_unified_dimensions_are_the_same_axes(numbers: list[int], one: list[bool], other: list[bool]) -> None:
    table = Factors()
    left = tuple(table.new(n) for n in grouped(numbers, one))
    right = tuple(table.new(n) for n in grouped(numbers, other))
    assert table.unify(left, right, lambda a, b: False) == []
    assert table.resolve(left) == table.resolve(right)
    assert table.length(left) == prod(numbers)


@given(factorizations, st.lists(st.booleans(), min_size=3, max_size=3), st.lists(st.booleans(), min_size=3, max_size=3))
def test_dimensions_kept_apart_have_the_same_sizes(numbers: list[int], one: list[bool], other: list[bool]) -> None:
    table = Factors()
    left = tuple(table.new(n) for n in grouped(numbers, one))
    right = tuple(table.new(n) for n in grouped(numbers, other))
    pairs = table.unify(left, right, lambda a, b: True)
    names = AxisNames(table)
    for a, b in pairs:
        assert a is not b
        assert names.axis(a).name != names.axis(b).name
        assert names.axis(a).size == names.axis(b).size
    sizes = names.example()
    assert prod(size_value(names.axis(a).size, sizes) for a, _ in pairs) == prod(numbers)


def resolved(table: Factors, dim: Dimension) -> list[int]:
    return [f.length for f in table.resolve(dim)]


def test_an_extent_has_one_factorization() -> None:
    table = Factors()
    queries = table.new(24)
    keys = table.copy(queries)
    assert [resolved(table, d) for d in table.regroup([queries], [4, 6])] == [[4], [6]]
    # A copy of another factorization is split where the first one is.
    assert [resolved(table, d) for d in table.regroup([keys], [2, 12])] == [[2], [12]]
    names = AxisNames(table)
    sizes = {}
    for factor in (queries, keys):
        axes = [names.axis(f) for f in table.resolve([factor])]
        sizes[factor] = [size_value(a.size, names.example()) for a in axes]
    assert sizes == {queries: [4, 6], keys: [2, 12]}


def test_lengths_that_differ_are_refused() -> None:
    table = Factors()
    with pytest.raises(NotAligned, match="lengths \\[5\\] and \\[7\\] meet"):
        table.unify([table.new(5)], [table.new(7)], lambda a, b: False)
    with pytest.raises(NotAligned, match="viewed as"):
        table.regroup([table.new(6)], [4, 2])


def test_sums_have_the_size_of_a_concatenation() -> None:
    table = Factors()
    cache, new = table.new(5, "cache"), table.new(2, "new")
    whole = table.sum([cache.extent, new.extent], "t")
    names = AxisNames(table)
    assert names.axis(cache) == Axis("cache")
    assert names.axis(whole).size == ("+", "cache", "new")
    assert table.terms(whole.extent) == (cache.extent, new.extent)
    with pytest.raises(NotAligned):
        table.split(whole, 7)


def test_names_are_given_once() -> None:
    table = Factors()
    one, other = table.new(5), table.new(7)
    names = AxisNames(table)
    names.reserve(one, "b")
    with pytest.raises(NotAligned, match="'b'"):
        names.reserve(other, "b")
    other.hint = "b"
    assert names.name(other) == "b_1"
