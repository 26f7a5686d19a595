"""NumPy's results lie within the enclosures of the exact interpreter, for whole diagrams and for those in blocks."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag import testing
from catdiag.execute.interpreter import run
from catdiag.prover import export
from catdiag.prover.identifiers import identifier
from catdiag.prover.refute import exact_execution, exact_reals
from catdiag.rewrite import group
from catdiag.rewrite.stream import fold_search
from catdiag.util.errors import NotGroupable, NotStreamable


def exactly(
    f: cd.category.Diagram, arrays: tuple[Any, ...], sizes: Mapping[str, int], blocks: Mapping[str, int]
) -> list[Any]:
    inputs = [
        exact_execution.build(list(map(identifier, ty.names)), a.shape, lambda i, a=a: Fraction(float(a[i])))
        for a, ty in zip(arrays, f.dom, strict=True)
    ]
    return exact_execution.run(export.program(f), inputs, sizes, blocks, {})


def within(result: np.ndarray, expected: exact_execution.ExactArray, names: tuple[str, ...]) -> None:
    names = tuple(map(identifier, names))
    assert set(names) == set(expected.axes)
    for i in np.ndindex(*result.shape):
        element = expected.at(dict(zip(names, i, strict=True)))
        if isinstance(element, exact_execution.NoValue):
            continue
        low, high = exact_reals.bounds(element)
        slack = 1e-9 * max(1, abs(low), abs(high))
        assert low - slack <= Fraction(float(result[i])) <= high + slack


@given(st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_numpy_agrees_with_exact_numbers(data: st.DataObject) -> None:
    f = data.draw(testing.diagrams(max_boxes=5))
    sizes = data.draw(testing.sizes_for(f, max_size=3))
    arrays = data.draw(testing.arrays_for(f, sizes))
    results = cd.Program(f)(*arrays)
    results = results if isinstance(results, tuple) else (results,)
    expected = exactly(f, arrays, sizes, {})
    for result, exactly_it, ty in zip(results, expected, f.cod, strict=True):
        within(result, exactly_it, ty.names)


@given(st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_blocks_in_numpy_are_blocks_in_exact_numbers(data: st.DataObject) -> None:
    f = data.draw(testing.diagrams(max_boxes=5))
    axes = [a.name for ty in f.dom for a in ty.axes]
    if not axes:
        return
    try:
        if data.draw(st.booleans()):
            found: Any = fold_search.find(f, data.draw(st.sampled_from(axes)))
        else:
            found = group.find(f, [data.draw(st.sampled_from(axes))])
    except (NotStreamable, NotGroupable):
        return
    g = getattr(found, "diagram", found)
    sizes = data.draw(testing.sizes_for(f, max_size=3))
    tiles = data.draw(testing.tiles_for(g, sizes))
    arrays = data.draw(testing.arrays_for(f, sizes))
    results = run(g, arrays, tiles=tiles)
    results = results if isinstance(results, tuple) else (results,)
    expected = exactly(g, arrays, sizes, tiles)
    for result, exactly_it, ty in zip(results, expected, g.cod, strict=True):
        within(result, exactly_it, ty.names)
