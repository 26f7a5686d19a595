"""The placement of arrays in a picture: their roles, and the level of memory of each role.

Levels form a chain, slowest first. Outside of kernels all arrays are in the first. In a kernel, an input is loaded into
the level of operands, a streamed array block by block into the level of streamed blocks. States and temporaries are
where scalar operations run. If a level of matrix units is named, contractions run there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catdiag.draw.scene import LEVELS
from catdiag.util.errors import CatdiagError

_LOOK = {
    "hbm": 0, "gmem": 0, "dram": 0, "global": 0, "smem": 1, "shared": 1, "lds": 1, "vmem": 1, "sram": 1,
    "registers": 2, "tensor cores": 3, "matrix units": 3,
}  # fmt: skip
_MATRIX = ("tensor cores", "matrix units")


@dataclass(frozen=True)
class RolePlacement:
    """The looks (0 to 3) of the levels for each role, and the names of the levels by look."""

    names: tuple[tuple[int, str], ...]
    slow: int
    operand: int
    streamed: int
    state: int
    temporary: int
    matrix: int


def placement(levels: Sequence[str] = ("HBM", "SMEM")) -> RolePlacement:
    """The placement of arrays in a chain of levels, slowest first.

    >>> placement(("HBM", "SMEM", "registers")).state
    2

    Raises CatdiagError for fewer than two levels, more than four, or a repeated one.
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
    style = [k if plain and k is not None else place for place, k in enumerate(known)]
    units = [look for look, name in zip(style, names, strict=True) if name.lower() in _MATRIX]
    memories = [look for look, name in zip(style, names, strict=True) if name.lower() not in _MATRIX]
    fast = memories[-1]
    near = memories[1] if len(memories) > 1 else fast
    return RolePlacement(
        tuple(zip(style, names, strict=True)), style[0], near, near, fast, fast, units[0] if units else fast
    )
