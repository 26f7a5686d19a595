"""Products of several arrays, two at a time: what they mean, that no order multiplies less, and plans made of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import Diagram
from catdiag.category.ops import Einsum
from catdiag.category.types import size_value
from catdiag.measure.bench_case import case_of
from catdiag.rewrite.contraction_order import pairwise

PATTERNS = [
    "a b, b c, c d -> a d",
    "a b, b c, c d, d e -> e a",
    "t i, t j, i j o -> t o",
    "i r, j r, k r, r -> k i j",
    "i, j, i j ->",
    "a, a b, , c -> b c",
    "t t2, t2, t -> t2",
]


@cache
def program(pattern: str) -> Diagram:
    return cd.algorithm(pattern, name="program")(lambda *arrays: cd.einsum(pattern, *arrays))


def least(arrays: tuple[frozenset[str], ...], result: frozenset[str], sizes: dict[str, int]) -> int:
    """The multiplications of the best order, by trying all of them."""
    if len(arrays) == 1:
        return 0

    def ways() -> Iterator[int]:
        for i in range(len(arrays)):
            for j in range(i):
                rest = tuple(a for k, a in enumerate(arrays) if k not in (i, j))
                both = arrays[i] | arrays[j]
                kept = both & result.union(*rest)
                yield math.prod(sizes[n] for n in both) + least((*rest, kept), result, sizes)

    return min(ways())


def work(diagram: Diagram, sizes: dict[str, int]) -> int:
    return sum(
        math.prod(size_value(a.size, sizes) for a in {a for ty in box.dom for a in ty.axes})
        for box in diagram.boxes
        if isinstance(box.op, Einsum)
    )


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_they_mean_the_same_and_no_order_multiplies_less(data: st.DataObject) -> None:
    source = program(data.draw(st.sampled_from(PATTERNS)))
    names = sorted({n for ty in source.dom for n in ty.names})
    sizes = {n: data.draw(st.sampled_from([1, 2, 3, 7])) for n in names}
    made = pairwise(source.diagram, sizes)
    assert (made.dom, made.cod, made.names) == (source.dom, source.cod, source.names)
    assert all(len(box.dom) == 2 for box in made.boxes)
    assert work(made, sizes) == least(
        tuple(frozenset(t.names) for t in source.dom), frozenset(source.cod[0].names), sizes
    )
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=[sizes[n] for n in ty.names]) for ty in source.dom]
    np.testing.assert_allclose(cd.Program(made).run(*arrays), source.run(*arrays), rtol=1e-9, atol=1e-12)


def test_products_of_two_are_left_as_they_are() -> None:
    matmul = cd.library.get("matmul").diagram
    assert pairwise(matmul, {}) is matmul
    with pytest.raises(cd.errors.SizeError, match="'b'"):
        pairwise(program(PATTERNS[0]).diagram, {"a": 1, "c": 1, "d": 1})


def test_a_chain_is_planned_as_products_of_matrices() -> None:
    chain = program(PATTERNS[0])
    sizes = {"a": 4096, "b": 512, "c": 512, "d": 4096}
    plans = chain.plan("H200", sizes)
    assert plans.source is chain.diagram and not plans.theorem.conditional
    assert plans.flops == 2 * (4096 * 512 * 512 + 4096 * 512 * 4096)
    assert case_of(chain, sizes).flops == plans.flops  # and not 3·a·b·c·d
    arrays = [np.random.default_rng(k).normal(size=s) for k, s in enumerate([(7, 5), (5, 3), (3, 6)])]
    found = cd.Program(plans.derivation).run(*arrays, tiles=dict.fromkeys(plans.tiles, 2))
    np.testing.assert_allclose(found, chain.run(*arrays), rtol=1e-9)


@pytest.mark.slow
def test_one_kernel_of_another_order_is_about_what_was_written() -> None:
    form = program("t x, x y, t y -> t")
    plans = form.plan("H200", {"t": 8192, "x": 512, "y": 512})
    assert len(plans.kernels) == 1 and plans.derivation.steps[0].name == "products of two arrays at a time"
    assert plans.derivation.source == form and not plans.theorem.conditional
    assert all(not step.theorem.conditional for step in plans.derivation.steps)
