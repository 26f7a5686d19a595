"""Symbols of `jax.export` for lengths, and whether a trace with symbols does on the example what one without does."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TypeAlias

from catdiag.importers.dimensions import Extent, extent_of

JaxCall: TypeAlias = tuple[str, tuple[tuple[int, ...], ...], Any, Any]
"""A call on the example: its name, shapes, operands and parameters."""


def same_calls(one: Sequence[JaxCall], other: Sequence[JaxCall]) -> bool:
    """Whether two traces do the same on the example: the same operations on the same arrays and numbers."""
    return len(one) == len(other) and all(map(_same, one, other))


def same_values(jax: Any, flat: Callable[..., Any], abstract: Sequence[Any], example: Sequence[Any]) -> bool:
    """Whether a function that is traced with symbols gives on arrays of the example's shapes what it gives without: a
    comparison of a symbol and a number is decided for all lengths."""
    numpy, given = import_module("numpy"), []
    for k, one in enumerate(example):
        array = numpy.asarray(one)
        random = numpy.random.default_rng(k).normal(size=array.shape).astype(array.dtype)
        given.append(jax.numpy.asarray(random if array.dtype.kind == "f" else array))
    found = jax.export.export(jax.jit(flat))(*abstract).call(*given)
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(flat(*given)), strict=True)
    return all(numpy.allclose(a, b, rtol=1e-3, atol=1e-5, equal_nan=True) for a, b in pairs)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float) and isinstance(other, (int, float)):
        return one == other or math.isclose(one, other, rel_tol=1e-5) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


class JaxSymbols:
    """Symbols of JAX for extents: `named` are the extents of a second program, by symbol."""

    def __init__(self, jax: Any) -> None:
        self.named: dict[str, Extent] = {}
        self._mirrors: dict[Extent, Extent] = {}
        self._sizes: dict[Extent, Any] = {}
        self._names: dict[Extent, str] = {}
        self._jax = jax
        self._scope = jax.export.SymbolicScope()

    def mirrored(self, extent: Extent, whole: bool = True) -> Extent:
        """The extent of the second program that stands for one of the first; `whole` of a dimension, or a part."""
        found = extent_of(extent)
        if found not in self._mirrors:
            # A length that the first program fixes may have a symbol all the same, but not the 2 of two halves.
            fixed = found.free or (found.fixed and not whole)
            sums = found.op == "+" and all(extent_of(part).fixed for part in found.parts)
            plain = fixed or found.fixed or (whole and sums)
            parts = () if plain else tuple(self.mirrored(p, False) for p in found.parts)
            made = Extent(found.length, fixed, parts, "" if plain else found.op)
            self._mirrors[found] = made
            if not fixed and not made.op:
                name = f"n{len(self.named)}"
                self.named[name], self._names[made] = made, name
                (self._sizes[made],) = self._jax.export.symbolic_shape(name, scope=self._scope)
        return self._mirrors[found]

    def copied(
        self, layouts: Sequence[Sequence[Sequence[Extent]]]
    ) -> tuple[dict[str, Extent], list[list[list[Extent]]]]:
        """The extents by symbol, and those of dimensions, as others that may be split and joined."""
        made: dict[Extent, Extent] = {}

        def copy(extent: Extent) -> Extent:
            if extent not in made:
                made[extent] = Extent(extent.length, extent.fixed, tuple(map(copy, extent.parts)), extent.op)
            return made[extent]

        named = {name: copy(extent) for name, extent in self.named.items()}
        return named, [[[copy(e) for e in d] for d in dims] for dims in layouts]

    def size(self, extent: Extent, chosen: Sequence[str]) -> Any:
        """The size of an extent of the second program: an integer, a symbol if that is chosen, or the sum or product
        of others."""
        if extent.op:
            sizes = [self.size(part, chosen) for part in extent.parts]
            return sum(sizes[1:], sizes[0]) if extent.op == "+" else product_of_sizes(sizes)
        return self._sizes[extent] if self._names.get(extent) in chosen else extent.length


def product_of_sizes(sizes: Any) -> Any:
    total: Any = 1
    for size in sizes:
        total = total * size
    return total
