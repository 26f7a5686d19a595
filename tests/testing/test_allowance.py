"""How much rounding is allowed: enough for every schedule that `additions` states, and little at long axes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from arithmetic import HONEST, Arithmetic, F, blocks, chain, cut_to_tf32, lanes, pairs
from hypothesis import given, settings
from hypothesis import strategies as st
from seeded import Loop, causal, online, softmax

import catdiag as cd
from catdiag.testing.assert_kernel import Mismatch, assert_implements, kernel_of
from catdiag.testing.error_bounds import BoundedArray, Rounding, additions
from catdiag.testing.float_formats import format_of, rounded, truncated
from catdiag.testing.input_generators import ARRAY_KINDS
from catdiag.testing.shrink import Shrinker
from catdiag.testing.tolerance import error_bounds

U = 2.0**-24
few = settings(max_examples=60, derandomize=True, deadline=None)
attention = cd.library.get("attention")
single = format_of("float32")
ROUNDING = Rounding(single, single, np.dtype(np.float64), None, single)


# -- schedules of sums ---------------------------------------------------------------------------------


@few
@given(st.integers(1, 10**6), st.integers(2, 5000), st.data())
def test_groups_of_groups_go_through_no_more_additions(n: int, most: int, data: st.DataObject) -> None:
    """Groups of one length that an accumulator takes, then groups of their sums, and so on."""
    left, deep = n, 0
    while left > 1:
        length = data.draw(st.integers(2, most))
        deep, left = deep + min(length, left) - 1, -(-left // length)
    assert deep <= additions(n, chain=most)


@few
@given(st.sampled_from(sorted(ARRAY_KINDS)), st.integers(2, 5000), st.integers(0, 9))
def test_sums_in_every_schedule_stay_within_what_is_allowed(kind: str, n: int, seed: int) -> None:
    a = rounded(ARRAY_KINDS[kind](np.random.default_rng(seed), (n,), 1024.0), single).astype(F)
    exact, magnitude = np.sum(a, dtype=float), np.sum(np.abs(a), dtype=float)
    if magnitude > 2.0**100:
        return
    for summed in (chain, pairs, blocks(7), blocks(64), lanes(3), lanes(32)):
        most = additions(n) * U * magnitude / (1 - additions(n) * U)
        assert abs(float(summed(a)) - exact) <= most + n * 2.0**-126


def test_running_means_stay_within_what_is_allowed() -> None:
    rng = np.random.default_rng(0)
    for n in (2, 3, 10, 1000):
        for first in (0.1, 1e6):
            a = rng.normal(size=n).astype(F)
            a[0], found = first, F(0)
            for k, x in enumerate(a):
                found = found + (x - found) / F(k + 1)
            assert abs(float(found) - a.mean(dtype=float)) <= (additions(n) + 4) * U * np.abs(a).mean(dtype=float)


# -- honest kernels ------------------------------------------------------------------------------------


def judged(kernel: Any, diagram: cd.category.Diagram, how: Arithmetic, arrays: Any, **options: Any) -> float:
    """What share of the allowance an honest kernel uses."""
    of = kernel_of(lambda *given: kernel(Loop(how), *given), diagram, operands=how.operands or None, **options)
    found = of.judge(arrays)
    assert found.failure is None, f"{how.name}: {found.failure.message}"
    return found.worst


SINGLE = [replace(how, operands="bfloat16") if how.operands == "half" else how for how in HONEST]


@pytest.mark.parametrize("how", SINGLE, ids=lambda how: how.name)
def test_honest_kernels_stay_within_what_is_allowed_at_hard_arrays(how: Arithmetic) -> None:
    rng = np.random.default_rng(1)
    for kind, make in ARRAY_KINDS.items():
        for n in (37, 300):
            Q, K, V = (rounded(make(rng, shape, 1024.0), single).astype(F) for shape in ((2, 3), (n, 3), (n, 3)))
            judged(online, attention, how, (Q, K, V))
            judged(softmax, cd.library.get("softmax"), how, (K.T.copy(),))
            if kind in ("rising", "late", "sorted", "constant"):
                judged(causal, cd.library.get("causal_attention"), how, (K[:9], K, V))


@pytest.mark.parametrize(
    ("n", "block"), [(4097, 64), (4097, 1 << 20), (65536, 1 << 20), pytest.param(65536, 64, marks=pytest.mark.slow)]
)
def test_honest_kernels_at_long_axes(n: int, block: int) -> None:
    rng = np.random.default_rng(2)
    rising = np.linspace(0, 1, n)[:, None] * [1.0, 1.0]  # the maximum rises with every block, and all keys weigh
    for K in (rising, np.full((n, 2), 0.1), rng.normal(size=(n, 2))):
        Q, V = np.ones((1, 2), F), np.stack([np.full(n, 0.1), rng.normal(size=n)], -1).astype(F)
        for summed, fast in ((blocks(128), False), (lanes(32), True)):
            how = Arithmetic("", summed, fast=fast, block=block)
            judged(online, attention, how, (Q, K.astype(F), V), repeats=False)


def test_longer_chains_are_said() -> None:
    total = cd.algorithm("x ->", name="total")(lambda a: cd.sum(a, "x"))
    one_by_one = lambda a: np.add.accumulate(a)[-1]  # noqa: E731
    arrays = [np.full(1 << 17, 1.3, F)]
    assert kernel_of(one_by_one, total.diagram, chain=1 << 17).judge(arrays).failure is None
    found = kernel_of(one_by_one, total.diagram).judge(arrays).failure
    assert found is not None and found.error < additions(1 << 17, chain=1 << 17) * U * np.sum(arrays[0], dtype=float)
    with pytest.raises(cd.errors.CatdiagError, match="chain is 1: expected"):
        assert_implements(one_by_one, total, chain=1)
    with pytest.raises(Mismatch, match="at most 8 terms to an accumulator"):
        assert_implements(lambda a: one_by_one(a) * 0, total, chain=8)


# -- what is not allowed -------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "most"), [(1024, 0.05e-2), (8192, 0.1e-2), (65536, 0.12e-2)])
def test_the_allowance_is_a_small_share_of_what_is_added(n: int, most: float) -> None:
    rng = np.random.default_rng(0)
    Q, K, V = (rng.normal(size=shape).astype(F) for shape in ((1, 64), (n, 64), (n, 64)))
    (near,) = error_bounds(attention.diagram, [Q, K, V], ROUNDING)
    S = Q.astype(float) @ K.T / 8
    P = np.exp(S - S.max())
    assert np.max(near.errors / (P / P.sum() @ np.abs(V))) < most


@pytest.mark.parametrize("from_size", [32, 512, 4096])
def test_dropping_the_last_16_keys_is_found(from_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shrinker, "shrink", lambda self, sizes, arrays, failure: (sizes, arrays, failure))
    monkeypatch.setattr(Shrinker, "common", lambda self, sizes, arrays, failure: [])

    def kernel(Q: Any, K: Any, V: Any) -> Any:
        kept = slice(None, -16 if len(K) >= from_size else None)
        return online(Loop(HONEST[4]), Q, K[kept], V[kept])

    for seed, dtype in enumerate(("float32", "float16", "float32")):
        with pytest.raises(Mismatch) as caught:
            assert_implements(kernel, attention, dtype, seed=seed)
        assert caught.value.sizes["x"] >= from_size


# -- formats -------------------------------------------------------------------------------------------


@few
@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1))
def test_cutting_off_is_that_of_the_bits(numbers: list[float]) -> None:
    a = np.array(numbers, F)
    assert np.array_equal(truncated(a, format_of("tf32")), cut_to_tf32(a))


@few
@given(st.floats(-1e4, 1e4, width=32), st.sampled_from(["float16", "bfloat16", "tf32"]), st.booleans())
def test_what_is_kept_in_a_format_is_within_its_bound(v: float, name: str, given: bool) -> None:
    of = format_of(name)
    near = ROUNDING.stored_in(BoundedArray(np.array([v]), np.zeros(1), ("x",), given=given), of)
    for scale in (1.0,) if given else (1.0, 3.0, 0.7):  # what is computed may be scaled when it is rounded
        for made in (rounded(v * scale, of), truncated(v * scale, of) if name == "tf32" else v * scale):
            assert abs(float(made) / scale - v) <= near.errors[0] * (1 + 1e-12) + of.smallest_step / scale
    if given and rounded(v, of) == v:
        assert near.errors[0] <= of.flushed
