"""The level of memory that each array of a picture is in: the roles of arrays, and where each role is kept.

A chain of levels, slowest first. Outside of kernels all is in the first. In a kernel, an input is read into the level
of operands, what a loop streams comes block by block into that of streamed blocks, states and results in between are
where scalar work is done, and where a level of matrix units is named, sums of products are done there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catdiag.draw.scene import LEVELS
from catdiag.errors import CatdiagError

_LOOK = {
    "hbm": 0, "gmem": 0, "dram": 0, "global": 0, "smem": 1, "shared": 1, "lds": 1, "vmem": 1, "sram": 1,
    "registers": 2, "tensor cores": 3, "matrix units": 3,
}  # fmt: skip
_MATRIX = ("tensor cores", "matrix units")


@dataclass(frozen=True)
class Placement:
    """The looks of the levels where arrays of each role are, and the names of the levels by look."""

    names: tuple[tuple[int, str], ...]
    slow: int
    operand: int
    streamed: int
    state: int
    temporary: int
    matrix: int


def placement(levels: Sequence[str] = ("HBM", "SMEM")) -> Placement:
    """Where arrays are in a chain of levels, slowest first.

    >>> placement(("HBM", "SMEM", "registers")).state
    2

    Raises CatdiagError for fewer than two levels, more than four, or one twice.
    """
    if isinstance(levels, str) or not all(isinstance(name, str) and name for name in levels):
        raise CatdiagError(f"levels is {levels!r}: expected names, as in levels=('HBM', 'SMEM', 'registers')")
    names = tuple(levels)
    if not 2 <= len(names) <= LEVELS or len(set(names)) != len(names):
        raise CatdiagError(
            f"levels is {', '.join(names) or 'empty'}: expected two to {LEVELS} different names, slowest first, as in "
            "('HBM', 'SMEM', 'registers', 'tensor cores')"
        )
    known = [_LOOK.get(name.lower()) for name in names]
    plain = all(k is not None for k in known) and len(set(known)) == len(known)
    looks = [k if plain and k is not None else place for place, k in enumerate(known)]
    units = [look for look, name in zip(looks, names, strict=True) if name.lower() in _MATRIX]
    memories = [look for look, name in zip(looks, names, strict=True) if name.lower() not in _MATRIX]
    fast = memories[-1]
    near = memories[1] if len(memories) > 1 else fast
    return Placement(
        tuple(zip(looks, names, strict=True)), looks[0], near, near, fast, fast, units[0] if units else fast
    )
