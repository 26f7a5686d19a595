"""What waves load, against going through all groups."""

from __future__ import annotations

from fractions import Fraction
from itertools import islice, product
from math import prod

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from catdiag.cost import wave_footprints
from catdiag.cost.cache import Fetched, fetched, resident_bytes
from catdiag.cost.wave_footprints import Footprint, Loaded, Places, footprint


def by_groups(wave: int, capacity: int | None, axes: list[tuple[int, int]], arrays: list[Loaded]) -> Footprint:
    lengths = [[min(tile, whole - start) for start in range(0, whole, tile)] for whole, tile in axes]
    totals, most = [Fraction(0)] * len(arrays), Fraction(0)
    groups = product(*(range(len(own)) for own in lengths))
    while members := list(islice(groups, wave)):
        kept = [[k for k, has in enumerate(a.has) if has] for a in arrays]
        pieces = [[tuple((k, place[k]) for k in own) for place in members] for own in kept]
        size = [lambda piece, a=a: a.unit * prod(lengths[k][n] for k, n in piece) for a in arrays]
        distinct = [sum(map(one, set(own)), Fraction(0)) for one, own in zip(size, pieces, strict=True)]
        most = max(most, sum(distinct))
        for j, a in enumerate(arrays):
            fits = capacity is None or sum(distinct) <= capacity
            totals[j] += distinct[j] if fits else a.times * sum(map(size[j], pieces[j]))
    return Footprint(tuple(totals), most)


@st.composite
def runs(draw: st.DrawFn) -> tuple[int, int | None, list[tuple[int, int]], list[Loaded]]:
    axes = draw(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4)), max_size=4))
    has = st.tuples(*(st.booleans() for _ in axes))
    unit = st.sampled_from([Fraction(1), Fraction(3), Fraction(5, 2)])
    arrays = draw(st.lists(st.builds(Loaded, unit, st.integers(1, 3), has), min_size=1, max_size=3))
    return draw(st.integers(1, 40)), draw(st.none() | st.integers(0, 200)), axes, arrays


@settings(max_examples=300, deadline=None, derandomize=True)
@given(runs())
def test_footprints_are_those_of_all_groups(run: tuple[int, int | None, list[tuple[int, int]], list[Loaded]]) -> None:
    wave, capacity, axes, arrays = run
    found = footprint(wave, capacity, [Places.of(*axis) for axis in axes], arrays)
    assert found == by_groups(wave, capacity, axes, arrays)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(runs(), st.integers(1, 3))
def test_footprints_in_chunks_and_over_many_periods(run, chunk: int) -> None:
    wave, capacity, axes, arrays = run
    axes = [(whole * (9 if k == 0 else 1), tile) for k, (whole, tile) in enumerate(axes)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wave_footprints, "_CHUNK", chunk)
        found = footprint(wave, capacity, [Places.of(*axis) for axis in axes], arrays)
    assert found == by_groups(wave, capacity, axes, arrays)


def test_numbers_beyond_64_bits() -> None:
    n = 2**40
    grid = [Places.of(n, 1), Places.of(n, 1)]
    found = footprint(n, None, grid, [Loaded(Fraction(1), 1, (True, False)), Loaded(Fraction(1), 1, (False, True))])
    assert found == Footprint((Fraction(n), Fraction(n) * n), Fraction(n + 1))


def test_grids_of_a_trillion_groups_are_counted() -> None:
    names = sympy.symbols("n h w c", positive=True, integer=True)
    wave = sympy.Symbol("v", positive=True, integer=True)
    grid = [(name, sympy.Integer(1)) for name in names]
    elements = sympy.Mul(*names)
    alike = [Fetched("a", elements, 1, (True,) * 4), Fetched("b", elements, 1, (True,) * 4)]
    sizes = {**dict.fromkeys(names, 1024), wave: 792}
    assert fetched(0, wave, 1000, grid, alike).subs(sizes) == 1024**4
    assert resident_bytes(wave, grid, alike).subs(sizes) == 2 * 792
