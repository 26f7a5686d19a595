"""Streams and groups beside reads at index arithmetic: weaved over other axes, made outside along their own."""

from __future__ import annotations

import numpy as np
import pytest

import catdiag as cd
from catdiag.category.index_maps import View

A = np.arange(1.0, 25).reshape(4, 6)


def test_a_gather_of_rows_is_weaved_over_what_is_streamed():
    def lookup(table, tokens, w):
        return cd.einsum("t d, d -> t", cd.gather(table, "v", tokens), w)

    f = cd.algorithm("v d, int[t], d")(lookup)
    arrays = A, [3, 0, 3], np.arange(6.0)
    stream = f.stream("d")
    np.testing.assert_allclose(stream.run(*arrays, tiles={"s_d": 4}), f(*arrays))
    group = f.group("t")
    np.testing.assert_allclose(group.run(*arrays, tiles={"g_t": 2}), f(*arrays))


def test_windows_are_weaved_over_rows():
    f = cd.algorithm("q x, k=3")(lambda a, w: cd.einsum("q y k, k -> q y", cd.window(a, "x", "y k=3"), w))
    w = np.array([1.0, -2, 1])
    np.testing.assert_allclose(f.group("q").run(A, w, tiles={"g_q": 3}), f(A, w))


def test_what_is_read_at_positions_is_made_outside_of_its_own_loops():
    f = cd.algorithm("q x, k=3")(lambda a, w: cd.einsum("q y k, k -> q y", cd.window(a, "x", "y k=3"), w))
    w = np.array([1.0, -2, 1])
    np.testing.assert_allclose(f.group("y").run(A, w, tiles={"g_y": 3}), f(A, w))
    total = cd.algorithm("x, x")(lambda a, b: cd.einsum("x, x ->", cd.reverse(a, "x"), b))
    np.testing.assert_allclose(total.stream("x").run(A[0], A[1], tiles={"s_x": 4}), total(A[0], A[1]))


def test_what_needs_the_whole_axis_is_refused_with_the_reason():
    f = cd.algorithm("x")(lambda a: cd.sum(cd.reverse(cd.tanh(a - cd.max(a, "x")), "x"), "x"))
    with pytest.raises(cd.errors.NotStreamable, match="tanh of a sum of both is not a sum of products of them"):
        f.stream("x")
    h = cd.algorithm("x")(lambda a: cd.sum(cd.reverse(a - cd.max(a, "x"), "x"), "x"))
    a = np.array([3.0, -1.0, 2.0, 5.0, 0.0])
    np.testing.assert_allclose(h.stream("x").run(a, tiles={"s_x": 2}), (a - 5).sum())
    g = cd.algorithm("x")(lambda a: cd.shift(cd.exp(a), "x", 1))
    with pytest.raises(cd.errors.NotGroupable, match="positions that are computed"):
        g.group("x")


def test_positions_that_are_computed_are_computed_in_the_loop():
    def clipped(a, w):
        rows = cd.reindex(cd.tanh(a), "k=3", q=lambda k: cd.clip(2 * k - 1, 0, cd.size("q") - 1))
        return cd.einsum("k d, d -> k", rows, w)

    f = cd.algorithm("q d, d")(clipped)
    arrays = A / 9, np.arange(6.0)
    np.testing.assert_allclose(f.stream("d").run(*arrays, tiles={"s_d": 4}), f(*arrays))


def test_an_axis_that_is_read_at_its_own_position_is_weaved() -> None:
    pair = cd.algorithm("b two=2 ->")(lambda X: cd.sum(cd.reindex(X, "b", two=0) * cd.reindex(X, "b", two=1), "b"))
    assert [box.op.index_axes for box in pair.diagram.boxes if isinstance(box.op, View)] == [(), ()]
    assert "on chip along all" not in str(pair.stream("b"))
    assert pair([[1, 2], [3, 4]]) == 14
