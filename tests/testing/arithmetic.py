"""How a kernel may compute: orders of sums, exponentials and products, all in float32 unless it is said otherwise.

An `Arithmetic` is what a kernel in `seeded` computes with. `HONEST` are those that no test may accuse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from catdiag.testing.float_formats import format_of, rounded

F = np.float32
Sum = Callable[[Any], Any]
"""Of an array in float32, the sum over its last axis."""


def chain(a: Any) -> Any:
    """One accumulator takes one term after the other."""
    return np.add.accumulate(a, -1)[..., -1] if a.shape[-1] else np.zeros(a.shape[:-1], F)


def backwards(a: Any) -> Any:
    return chain(a[..., ::-1])


def pairs(a: Any) -> Any:
    """A balanced tree."""
    while a.shape[-1] > 1:
        half = a.shape[-1] // 2
        odd = a[..., 2 * half :]
        a = np.concatenate([a[..., 0 : 2 * half : 2] + a[..., 1 : 2 * half : 2], odd], -1)
    return a[..., 0] if a.shape[-1] else np.zeros(a.shape[:-1], F)


def padded(a: Any, to: int) -> Any:
    return np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, -a.shape[-1] % to)])


def in_lanes(width: int, a: Any) -> Any:
    """Lanes next to each other, each a chain, and then a tree."""
    p = padded(a, width)
    return pairs(np.add.accumulate(p.reshape(*p.shape[:-1], -1, width), -2)[..., -1, :]) if p.size else chain(a)


def in_blocks(length: int, a: Any) -> Any:
    """Chains of so many terms, whose sums are a chain again."""
    p = padded(a, length)
    return chain(chain(p.reshape(*p.shape[:-1], -1, length)))


def cut(x: Any) -> Any:
    """float64 cut off to float32, toward zero, as matrix units do."""
    near = np.asarray(x).astype(F)
    return np.where(np.abs(near.astype(float)) > np.abs(x), np.nextafter(near, F(0)), near)


def in_units(length: int, a: Any) -> Any:
    """A matrix unit: so many products at a time are added to the accumulator, and what comes of it is cut off."""
    p = padded(np.asarray(a, float), length)
    total = np.zeros(a.shape[:-1], F)
    for k in range(0, p.shape[-1], length):
        total = cut(total.astype(float) + p[..., k : k + length].sum(-1))
    return total


def lanes(width: int) -> Sum:
    return partial(in_lanes, width)


def blocks(length: int) -> Sum:
    return partial(in_blocks, length)


def units(length: int) -> Sum:
    return partial(in_units, length)


def cut_to_tf32(a: Any) -> Any:
    """The first 11 bits of the significand."""
    return (np.asarray(a, F).view(np.uint32) & np.uint32(0xFFFFE000)).view(F)


LOG2E = F(1.4426950408889634)


@dataclass(frozen=True)
class Arithmetic:
    """`sum` adds; `product` adds the products of a contraction (`sum` where it is None); `fast` exponentials are powers
    of two of scaled operands, off by 4u; `operands` is the type that operands of contractions are rounded to."""

    name: str
    sum: Sum
    product: Sum | None = None
    fast: bool = False
    fused: bool = False
    operands: str = ""
    block: int = 8
    backward: bool = False

    def dot(self, a: Any, b: Any) -> Any:
        """The contraction over the last axes of two arrays: of [… q d] and [… x d] the array [… q x]."""
        a, b = self.taken(a), self.taken(b)
        wide = a[..., :, None, :].astype(float) * b[..., None, :, :]
        if self.fused:
            total = np.zeros(wide.shape[:-1], F)
            for k in range(wide.shape[-1]):
                total = (total + wide[..., k]).astype(F)
            return total
        add = self.product or self.sum
        return add(wide if self.product is not None and self.operands else wide.astype(F))

    def taken(self, a: Any) -> Any:
        if not self.operands:
            return a
        return cut_to_tf32(a) if self.operands == "tf32" else rounded(a, format_of(self.operands)).astype(F)

    def exp(self, a: Any, m: Any) -> Any:
        """exp(a − m)."""
        if not self.fast:
            return np.exp((a - m).astype(F))
        scaled = (a.astype(float) * LOG2E - (m * LOG2E).astype(F)).astype(F)
        return (np.exp2(scaled.astype(float)) * np.where(scaled == 0, 1, 1 + 3 * 2.0**-24)).astype(F)

    def rescaling(self, m: Any, n: Any) -> Any:
        """exp(m − n) of two maxima, whose difference is taken before it is scaled."""
        if not self.fast:
            return np.exp((m - n).astype(F))
        scaled = ((m - n).astype(F) * LOG2E).astype(F)
        return (np.exp2(scaled.astype(float)) * np.where(scaled == 0, 1, 1 + 3 * 2.0**-24)).astype(F)

    def starts(self, n: int) -> range:
        found = range(0, n, self.block)
        return found[::-1] if self.backward else found


HONEST = (
    Arithmetic("one chain", chain),
    Arithmetic("one chain from the end", backwards, block=64, backward=True),
    Arithmetic("pairs", pairs, block=16),
    Arithmetic("blocks of 32 in a chain", blocks(32), block=128),
    Arithmetic("32 lanes", lanes(32), block=64),
    Arithmetic("one key at a time", chain, block=1),
    Arithmetic("blocks of 2, fast exp", pairs, block=2, fast=True),
    Arithmetic("blocks of 64, fast exp", lanes(8), block=64, fast=True),
    Arithmetic("fused multiply and add", chain, fused=True, block=32),
    Arithmetic("tf32, cut off", lanes(32), units(8), operands="tf32", block=64),
    Arithmetic("half operands", lanes(32), units(16), operands="half", block=64, fast=True),
    Arithmetic("whole rows", pairs, block=1 << 20),
)
"""What kernels compute in. "half" stands for the type of 16 bits that the inputs have."""
