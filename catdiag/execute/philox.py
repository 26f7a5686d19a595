"""Random numbers that a seed and a counter determine: the generator Philox 4x32-10 on NumPy arrays.

J. Salmon, M. Moraes, R. Dror and D. Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011). The key is the seed,
the counter four words. A number depends on nothing else: not on a state, an order, or the tile in which it is made.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np


def uniform(seed: Any, c0: Any, c1: Any, c2: Any, c3: Any) -> Any:
    """Numbers in [0, 1) of a seed of 64 bits and a counter of four 32-bit words, as `tl.rand` makes them in Triton.

    Integers are taken modulo 2**64 and 2**32. The numbers are those of float32, in float64.
    """
    words = [np.asarray(v).astype(np.int64).astype(np.uint64) for v in (seed, c0, c1, c2, c3)]
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    k0, k1 = words[0] & low, words[0] >> half
    c0, c1, c2, c3 = (v & low for v in words[1:])
    for _ in range(10):
        a, b = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (b >> half) ^ c1 ^ k0, b & low, (a >> half) ^ c3 ^ k1, a & low
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    whole = np.where(c0 < np.uint64(2**31), c0, low - c0)
    return (whole.astype(np.float32) * np.float32(4.6566127342e-10)).astype(np.float64)


def source(name: str) -> list[str]:
    """The lines of `uniform` as a function of that name, without annotations, for generated modules."""
    head, *lines = inspect.getsource(uniform).rstrip().splitlines()
    return [head.replace("def uniform", f"def {name}").replace(": Any", "").replace(" -> Any", ""), *lines]


def uniform_or_nan(*args: Any) -> Any:
    """The same, and no value (NaN) where an argument has none."""
    lacking: Any = False
    words = []
    for a in args:
        data = np.asarray(a)
        if data.dtype.kind == "f":
            missing = ~np.isfinite(data)
            lacking, data = lacking | missing, np.where(missing, 0, data)
        words.append(data)
    found = uniform(*words)
    return np.where(lacking, np.nan, found) if np.any(lacking) else found


def uniform_of_integers(*args: int) -> float:
    """The number of a seed and a counter that are integers of any size.

    >>> uniform_of_integers(7, 2**32 + 1, 0, 0, 0) == uniform_of_integers(7, 1, 0, 0, 0)
    True
    """
    signed = [(v + 2**63) % 2**64 - 2**63 for v in args]
    return float(uniform(*signed))
