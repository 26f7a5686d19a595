"""Shrinking: from a failure to a small failure of its kind, with smaller sizes, then simpler numbers; deterministic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from catdiag.category.diagram import Diagram
from catdiag.category.types import size_value
from catdiag.testing.failure_pattern import condition, relation
from catdiag.testing.float_formats import Format, rounded
from catdiag.testing.input_generators import arrays_at, index_ends, sizes_near_blocks, stored_as
from catdiag.testing.kernel_under_test import Failure, KernelUnderTest
from catdiag.util.errors import CatdiagError

Inputs = Mapping[str, Callable[[Any, Mapping[str, int]], Any]]
Sizes = tuple[tuple[str, int], ...]
T = TypeVar("T")
_FEW = 64
"""Arrays of up to this many elements are simplified element by element."""
_LADDER = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 129)


@dataclass
class Shrinker:
    """The search for the sizes and arrays at which a function fails, with a bounded number of calls."""

    kernel: KernelUnderTest
    form: Format
    given: Mapping[str, tuple[int, ...]]
    blocks: Mapping[str, int]
    inputs: Inputs
    seed: int
    calls: int = 800
    attempts: int = 10
    known: dict[Sizes, tuple[list[Any], Failure] | None] = field(default_factory=dict)
    confirmed: set[Sizes] = field(default_factory=set)
    otherwise: set[Sizes] = field(default_factory=set)

    def fails(self, arrays: Sequence[Any], like: Failure, key: Sizes | None = None) -> Failure | None:
        """A failure of the same kind as `like` at these arrays, if there is one and calls are left.

        Errors raised count as one kind, all other failures as the other. For the sizes `key` other outcomes are
        recorded: a failure of the other kind, or a comparison that held. Raises CatdiagError where the diagram has no
        meaning.
        """
        if self.calls <= 0:
            return None
        self.calls -= 1
        judged = self.kernel.judge(arrays, between=like.kind == "repeat")
        found = judged.failure
        if found is not None and (found.kind == "raises") == (like.kind == "raises"):
            return found
        if key is not None and found is not None:
            self.otherwise.add(key)
        elif key is not None and judged.compared:
            self.confirmed.add(key)
        return None

    def at(self, sizes: Mapping[str, int], like: Failure, arrays: Sequence[Any]) -> tuple[list[Any], Failure] | None:
        """Arrays of these sizes at which it fails: the given ones cut to size, or else newly drawn ones."""
        key = _key(sizes)
        try:
            for last in (False, True):
                fitted = self.redrawn(fit(self.kernel.diagram, arrays, sizes, last), sizes)
                if (found := self.fails(fitted, like, key)) is not None:
                    return fitted, found
            if key not in self.known:
                self.known[key] = self._drawn(sizes, like)
        except CatdiagError:
            self.known[key] = None
        return self.known[key]

    def redrawn(self, arrays: list[Any], sizes: Mapping[str, int]) -> list[Any]:
        """The arrays, with those that the user generates drawn for these sizes."""
        if not self.inputs:
            return arrays
        rng = np.random.default_rng([self.seed, *sizes.values()])
        _, drawn = arrays_at(0, self.kernel.diagram, sizes, rng, self.form, self.inputs, tame=True)
        return [drawn[k] if self.drawn_by_user(k) else a for k, a in enumerate(arrays)]

    def _drawn(self, sizes: Mapping[str, int], like: Failure) -> tuple[list[Any], Failure] | None:
        rng = np.random.default_rng([self.seed, *sizes.values()])
        for k in range(self.attempts):
            # Kinds in turn, the most revealing first; every other draw has harmless scalars.
            number = (1, 5, 10, 0, 4, 15, 2, 9, 3, 13)[k % 10]
            _, arrays = arrays_at(number, self.kernel.diagram, sizes, rng, self.form, self.inputs, tame=k % 2 == 0)
            if (found := self.fails(arrays, like, _key(sizes))) is not None:
                return arrays, found
        return None

    # -- sizes ---------------------------------------------------------------------------------------------

    def smaller(self, symbol: str, sizes: Mapping[str, int]) -> list[int]:
        """Smaller sizes to try for a symbol, in increasing order."""
        now = sizes[symbol]
        if symbol in self.given:
            return [n for n in sorted(self.given[symbol]) if n < now]
        about = sizes_near_blocks(self.blocks[symbol]) if symbol in self.blocks else ()
        return sorted({n for n in (*_LADDER, *about, now // 2, now - 1) if 1 <= n < now})

    def shrink(
        self, sizes: dict[str, int], arrays: list[Any], failure: Failure
    ) -> tuple[dict[str, int], list[Any], Failure]:
        """Sizes that cannot be reduced one at a time, arrays of simple numbers, and the failure there."""
        again = True
        while again and self.calls > 0:
            again = False
            for symbol in sorted(sizes, key=lambda s: -sizes[s]):
                for n in self.smaller(symbol, sizes):
                    less = {**sizes, symbol: n}
                    found = self.at(less, failure, arrays)
                    if found is not None:
                        sizes, (arrays, failure), again = less, found, True
                        break
        return (sizes, *self.simpler(arrays, failure))

    # -- numbers -------------------------------------------------------------------------------------------

    def simpler(self, arrays: list[Any], failure: Failure) -> tuple[list[Any], Failure]:
        """Arrays with as many zeros, ones and small integers as possible that still fail."""
        self.calls = max(self.calls, 300)
        now = list(arrays)
        for k, a in enumerate(now):
            for whole in self.simple_arrays(k, np.asarray(a)):
                found = self._tried(now, k, whole, failure)
                if found is not None:
                    now[k], failure = whole, found
                    break
        again = True
        while again and self.calls > 0:
            again = False
            for k in range(len(now)):
                if self.drawn_by_user(k):
                    continue
                if np.asarray(now[k]).size > _FEW:
                    for changed in _partly_zero(np.asarray(now[k])):
                        found = self._tried(now, k, changed, failure)
                        if found is not None:
                            now[k], failure, again = changed, found, True
                            break
                    continue
                for place in np.ndindex(*np.shape(now[k])):
                    for value in _simpler_numbers(now[k][place]):
                        changed = np.array(now[k])
                        changed[place] = value
                        if _cost(changed[place]) >= _cost(now[k][place]):
                            continue
                        found = self._tried(now, k, changed, failure)
                        if found is not None:
                            now[k], failure, again = changed, found, True
                            break
        return now, failure

    def drawn_by_user(self, k: int) -> bool:
        """Whether the user generates input `k`."""
        return self.kernel.diagram.input_names[k] in self.inputs

    def _tried(self, now: Sequence[Any], k: int, changed: Any, like: Failure) -> Failure | None:
        try:
            return self.fails([*now[:k], changed, *now[k + 1 :]], like)
        except CatdiagError:
            return None

    def simple_arrays(self, k: int, a: Any) -> list[Any]:
        """Simple arrays to try for input `k`; none for one that the user generates."""
        if self.drawn_by_user(k):
            return []
        if a.dtype.kind == "b":
            return [np.ones_like(a)]
        if a.dtype.kind in "iu":
            return [np.zeros_like(a)]
        counted = (np.arange(a.size) % 4).reshape(a.shape)
        found = [np.zeros(a.shape), np.ones(a.shape), counted, np.rint(np.asarray(a, np.float64))]
        found += [np.full(a.shape, 0.1), np.full(a.shape, float(a.flat[0]))] if a.size > _FEW else []
        return [stored_as(rounded(x, self.form), self.form) for x in found if not np.array_equal(x, a)]

    # -- which sizes fail ----------------------------------------------------------------------------------

    def common(self, sizes: Mapping[str, int], arrays: Sequence[Any], failure: Failure) -> list[str]:
        """A description of the sizes that fail, one at a time with the others fixed, where some of those tried pass."""
        self.calls = 1000
        free = [s for s in sizes if s not in self.given or len(self.given[s]) > 1]
        said: list[str] = []
        telling: list[str] = []
        for symbol in free:
            probed = {n: {**sizes, symbol: n} for n in sorted({sizes[symbol], *self.probes(symbol)})}
            fails, others, holds = self.sorted_out(probed, arrays, failure)
            if self.calls <= 0 or not (others or holds):
                continue
            telling.append(symbol)
            text = condition(
                symbol, sorted(fails + others), holds, [self.blocks[symbol]] if symbol in self.blocks else ()
            )
            first, second = ("raised", "failed") if failure.kind == "raises" else ("failed", "raised")
            parts = [
                f"{word} at {_listed(found)}"
                for word, found in ((first, fails), (second, others), ("held", holds))
                if found
            ]
            where = " and ".join([", ".join(parts[:-1]), parts[-1]])
            said.append(
                f"of the sizes tried it fails where {text}: it {where}" if text else f"with {symbol} it {where}"
            )
        for k, left in enumerate(telling):
            for right in telling[k + 1 :]:
                pairs = {(a, b): {**sizes, left: a, right: b} for a in range(1, 5) for b in range(1, 5)}
                bad, worse, good = self.sorted_out(pairs, arrays, failure)
                if self.calls <= 0:
                    return said
                text = relation(left, right, bad + worse, good)
                if text is not None:
                    said.append(f"of the sizes tried it fails where {text}, of those up to 4")
        return said

    def sorted_out(
        self, places: Mapping[T, Mapping[str, int]], arrays: Sequence[Any], like: Failure
    ) -> tuple[list[T], list[T], list[T]]:
        """Of some named sizes, those that fail alike, those that fail otherwise, and those that pass.

        Sizes at which the diagram has no meaning, or nothing could be compared, are in none of these.
        """
        found: tuple[list[T], list[T], list[T]] = ([], [], [])
        for name, sizes in places.items():
            if self.calls <= 0:
                break
            if self.at(sizes, like, arrays) is not None:
                found[0].append(name)
            elif _key(sizes) in self.otherwise:
                found[1].append(name)
            elif _key(sizes) in self.confirmed:
                found[2].append(name)
        return found

    def probes(self, symbol: str) -> list[int]:
        """The sizes of a symbol at which failure is tested."""
        if symbol in self.given:
            return sorted(self.given[symbol])
        if symbol in self.blocks:
            block = self.blocks[symbol]
            return sorted({*range(1, 6), *(n for n in sizes_near_blocks(block) if n <= 4 * block)})
        return [*range(1, 10), 15, 16, 17, 31, 32, 33, 63, 64, 65]


def _key(sizes: Mapping[str, int]) -> Sizes:
    return tuple(sorted(sizes.items()))


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) if len(numbers) <= 12 else ", ".join(map(str, numbers[:11])) + ", …"


def fit(diagram: Diagram, arrays: Sequence[Any], sizes: Mapping[str, int], last: bool = False) -> list[Any]:
    """Arrays cut to sizes, or repeated where these are larger, from the first element on or up to the last.

    Positions that are read stay in range.

    >>> import catdiag as cd
    >>> (a,) = fit(cd.library.get("softmax"), [np.arange(6).reshape(2, 3)], {"q": 1, "x": 5})
    >>> a.tolist()
    [[0, 1, 2, 0, 1]]
    """
    ends = index_ends(diagram, sizes)
    found = []
    for k, (a, ty) in enumerate(zip(arrays, diagram.dom, strict=True)):
        made = np.asarray(a)
        for axis, of in enumerate(ty.axes):
            places = np.arange(size_value(of.size, sizes))
            made = np.take(made, places - len(places) if last else places, axis=axis, mode="wrap")
        found.append(made % ends[k] if k in ends else made)
    return found


def _partly_zero(a: Any) -> list[Any]:
    """A long array with halves, quarters or eighths set to zero."""
    found = []
    for parts in (2, 4, 8):
        ends = [k * a.size // parts for k in range(parts + 1)]
        for start, stop in pairwise(ends):
            changed = a.copy()
            if changed.reshape(-1)[start:stop].any():
                changed.reshape(-1)[start:stop] = 0
                found.append(changed)
    return found


def _cost(x: Any) -> float:
    """The complexity of a number: 0, then 1, small integers, multiples of 1/4, and the rest by their digits."""
    v = float(x)
    if not np.isfinite(v):
        return 1e6
    sign = 0.5 if np.signbit(v) else 0.0
    if v == int(v):
        return abs(v) + sign if abs(v) <= 16 else 20 + np.log2(abs(v)) + sign + (5 if v % 8 else 0)
    return (50 if (4 * v).is_integer() else 100 + len(repr(v))) + sign


def _simpler_numbers(x: Any) -> list[Any]:
    if np.asarray(x).dtype.kind == "b":
        return [True] if not x else []
    v = float(x)
    if np.asarray(x).dtype.kind in "iu":
        return [0, 1, int(v) // 2]
    near = [float(np.rint(v)), float(np.rint(4 * v) / 4)] if np.isfinite(v) and abs(v) < 1e9 else []
    if np.isfinite(v) and v:
        top = 2.0 ** np.floor(np.log2(abs(v)))
        near += [float(np.copysign(top, v)), float(np.copysign(2 * top, v))]
    return [0.0, 1.0, -1.0, 2.0, *near]
