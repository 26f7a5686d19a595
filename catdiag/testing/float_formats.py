"""Floating-point formats: rounding, smallest and largest numbers.

>>> format_of("bf16").name, format_of("float32").unit == 2.0**-24
('bfloat16', True)
>>> rounded([1.001, 300.7], format_of("bf16")).tolist()
[1.0, 300.0]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from catdiag.util.errors import TypeMismatch


@dataclass(frozen=True)
class Format:
    """A format: `digits` bits of significand, `smallest_step` the largest loss at the lower end of the range, and
    `largest`.

    A device may flush subnormal numbers of float32 and bfloat16 to zero, which loses up to the least normal number.
    Those of float16 are kept, so that at most half of one is lost. (IEEE 754-2019, table 3.5; bfloat16 has the
    exponents of float32 and 8 bits of significand.)
    """

    name: str
    digits: int
    smallest_step: float
    largest: float

    @property
    def unit(self) -> float:
        """The unit roundoff u: rounding to nearest is off by at most u relative to the result."""
        return float(2.0**-self.digits)

    @property
    def flushed(self) -> float:
        """The most that a number loses where a device flushes subnormal numbers to zero; 0 where it keeps them."""
        return 0.0 if self.name == "float16" else self.smallest_step


_FORMATS = {
    "float16": Format("float16", 11, 2.0**-25, 65504.0),
    "bfloat16": Format("bfloat16", 8, 2.0**-126, (2 - 2.0**-7) * 2.0**127),
    "tf32": Format("tf32", 11, 2.0**-126, (2 - 2.0**-10) * 2.0**127),
    "float32": Format("float32", 24, 2.0**-126, (2 - 2.0**-23) * 2.0**127),
    "float64": Format("float64", 53, 2.0**-1022, float(np.finfo(np.float64).max)),
}
_SHORT = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}


def format_of(dtype: Any) -> Format:
    """The format with that name, or of a NumPy or torch type. Raises TypeMismatch for any other."""
    name = dtype if isinstance(dtype, str) else str(dtype).removeprefix("torch.")
    name = _SHORT.get(name, name)
    if name not in _FORMATS and not isinstance(dtype, str):
        try:
            name = np.dtype(dtype).name
        except TypeError:
            name = str(dtype)
    if name not in _FORMATS:
        raise TypeMismatch(f"unknown floating type {dtype!r}: expected one of {', '.join([*_FORMATS, *_SHORT])}")
    return _FORMATS[name]


def rounded(values: Any, to: Format) -> Any:
    """The nearest numbers of a format, ties to even, as float64; minus infinity and overflow become infinities.

    >>> float(rounded(1 + 2.0**-8, format_of("bf16"))), float(rounded(1e6, format_of("fp16")))
    (1.0, inf)
    """
    wide = np.asarray(values, np.float64)
    with np.errstate(all="ignore"):
        if to.name == "float64":
            return wide
        if to.name in ("float16", "float32"):
            return wide.astype(to.name).astype(np.float64)
        # Rounding to float32 first changes nothing, because the target has less than half of its digits.
        bits = wide.astype(np.float32).view(np.uint32)
        dropped = 24 - to.digits
        half = ((bits >> np.uint32(dropped)) & np.uint32(1)) + np.uint32((1 << (dropped - 1)) - 1)
        kept = (bits + half) & np.uint32(0xFFFFFFFF << dropped & 0xFFFFFFFF)
        return np.where(np.isfinite(wide), kept.view(np.float32).astype(np.float64), wide)


def truncated(values: Any, to: Format) -> Any:
    """Truncation: the nearest numbers towards zero in a format with the exponents of float32, as float64.

    >>> float(truncated(-1 - 1.9 * 2.0**-10, format_of("tf32"))), float(truncated(3.0, format_of("tf32")))
    (-1.0009765625, 3.0)
    """
    wide = np.asarray(values, np.float64)
    with np.errstate(all="ignore"):
        single = wide.astype(np.float32)
        single = np.where(np.abs(single) > np.abs(wide), np.nextafter(single, np.float32(0)), single)
        bits = single.view(np.uint32) & np.uint32(0xFFFFFFFF << (24 - to.digits) & 0xFFFFFFFF)
        return bits.view(np.float32).astype(np.float64)


def carrier(of: Format) -> np.dtype[Any]:
    """The NumPy type in which numbers of a format are passed to a function.

    For bfloat16 that is the type of ml_dtypes where it is installed, else float32, which contains every bfloat16.

    >>> carrier(format_of("fp16"))
    dtype('float16')
    """
    if of.name in ("float16", "float32", "float64"):
        return np.dtype(of.name)
    if of.name == "bfloat16":
        try:
            import ml_dtypes  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            return np.dtype(np.float32)
        found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return found
    return np.dtype(np.float32)
