"""Register layouts of tiles (linear layouts), and the shared memory that a layout conversion takes.

The entries of a tile with power-of-two sides are distributed over the registers of a thread, the lanes of a warp and
the warps of a block. A layout is linear: each bit of the register's number is a step in the tile, its *basis vector*;
so is each bit of the lane and of the warp. Triton (3.6, `getNumScratchElemsSwizzledCvt` in
`lib/Analysis/Allocation.cpp`) converts a layout to another through shared memory, in rounds. There is a round for each
value of the register bits whose basis vectors both layouts share. One such bit is used to move two 2-byte values at
once where matrices are moved (`ldmatrix`, `stmatrix`), as many as give 16 bytes elsewhere (two bits for values of 1 or
4 bytes). Shared memory is needed for the part of the tile that one round moves. What one warp has is converted within
it, without shared memory; here every conversion counts.

>>> rows, columns = 128, 256
>>> made = product_layout((rows, columns), warps=4, version=3)
>>> conversion_bytes((rows, columns), 2, made, blocked_layout((rows, columns), 1, 8, warps=4))
16384
"""

from __future__ import annotations

import math
from dataclasses import dataclass

Shape = tuple[int, ...]
Step = tuple[int, ...]


@dataclass(frozen=True)
class RegisterLayout:
    """The basis vectors of a thread's registers, and the number of warps along each axis of the tile.

    `matrix` is 3 for results of wgmma (four warps together), 2 for results of mma (one warp), 0 otherwise.
    `contiguous` is the axis along which a thread has neighboring entries.
    """

    registers: frozenset[Step]
    warps: Shape
    matrix: int = 0
    contiguous: int = -1

    def squeezed(self, shape: Shape) -> RegisterLayout:
        """The layout of a tile of which axes of length 1 are removed.

        >>> RegisterLayout(frozenset({(0, 0, 2)}), (2, 1, 4), 0, 2).squeezed((64, 1, 16))
        RegisterLayout(registers=frozenset({(0, 2)}), warps=(2, 4), matrix=0, contiguous=1)
        """
        left = [axis for axis, length in enumerate(shape) if length != 1]
        steps = frozenset(tuple(step[axis] for axis in left) for step in self.registers)
        contiguous = left.index(self.contiguous) if self.contiguous in left else -1
        return RegisterLayout(steps, tuple(self.warps[axis] for axis in left), self.matrix, contiguous)

    def along(self, axis: int) -> RegisterLayout:
        """The layout of a vector that is broadcast along all other axes (`ttg.slice`): threads that have the same of
        it share its entries.

        >>> RegisterLayout(frozenset({(0, 1), (4, 0)}), (2, 2)).along(1)
        RegisterLayout(registers=frozenset({(1,)}), warps=(2,), matrix=0, contiguous=0)
        """
        steps = frozenset((step[axis],) for step in self.registers if step[axis])
        return RegisterLayout(steps, (self.warps[axis],), 0, 0)


def _steps(axis: int, rank: int, first: int, end: int) -> list[Step]:
    """The steps `first`, 2·`first`, 4·`first`, … below `end` along one axis."""
    found, step = [], first
    while step < end:
        found.append(tuple(step if a == axis else 0 for a in range(rank)))
        step *= 2
    return found


def blocked_layout(
    shape: Shape, contiguous: int, vector: int, warps: int, coalesced: bool = False, lanes: int = 32
) -> RegisterLayout:
    """A blocked layout of warps with so many `lanes`; `coalesced` is that of loads and stores by addresses.

    A thread has `vector` neighboring entries along the contiguous axis. Lanes, then warps, go along that axis as far as
    it is long, and along the next axes after that: from the last one on, in a coalesced layout from the first one on
    (`getOrderFromContiguity`, which leaves axes that are contiguous alike in their order).

    >>> blocked_layout((64, 64), 1, 8, warps=4).warps
    (4, 1)
    >>> [blocked_layout((4, 2, 256), 2, 8, 4, coalesced).warps for coalesced in (False, True)]
    [(2, 2, 1), (4, 1, 1)]
    """
    rank = len(shape)
    others = [a for a in range(rank) if a != contiguous]
    order = [contiguous, *(others if coalesced else reversed(others))]
    threads = lanes * warps
    vector = max(1, min(vector, math.prod(shape) // threads, shape[contiguous] if rank else 1))
    reach = [1] * rank  # the part of the tile that the threads placed so far cover
    reach[contiguous] = vector
    registers = _steps(contiguous, rank, 1, vector)
    along = [1] * rank
    for count, of_warps in ((lanes, False), (warps, True)):
        left = count
        for place, axis in enumerate(order):
            taken = left if place == rank - 1 else max(1, min(left, shape[axis] // reach[axis]))
            reach[axis] *= taken
            left //= taken
            along[axis] *= taken if of_warps else 1
    for axis in range(rank):
        registers += _steps(axis, rank, reach[axis], shape[axis])
    return RegisterLayout(frozenset(registers), tuple(along), 0, contiguous)


def product_layout(shape: Shape, warps: int, version: int, chain: Shape = ()) -> RegisterLayout:
    """The layout of the result of a matrix product of `shape` rows and columns.

    In version 3 (wgmma), four warps have 64 rows. In version 2 (mma), each warp has instruction shapes of 16 by 8; the
    warps are divided so that each has about as many of them along both sides. `chain` is the shape of the last product
    of a loop that has several: then all warps are along the longer of its sides (`warpsPerTileV2` in Triton's
    `AccelerateMatmul.cpp`, whose rewrites begin with the last one).
    """
    rows, columns = shape[-2:]
    if version == 3:
        down = max(4, min(warps, rows // 16))
        across = max(1, warps // down)
        width = min(256, max(8, columns // across))
        registers = [(0, 1), (8, 0), *_steps(1, 2, 8, width)]
    else:
        down, across = 1, 1
        if chain:
            down, across = (warps, 1) if chain[-2] >= chain[-1] else (1, warps)
        instructions = [-(-rows // 16), -(-columns // 8)]
        while down * across < warps:
            if instructions[0] >= instructions[1]:
                down, instructions[0] = 2 * down, max(1, instructions[0] // 2)
            else:
                across, instructions[1] = 2 * across, max(1, instructions[1] // 2)
        width = 8
        registers = [(0, 1), (8, 0)]
    registers += _steps(0, 2, 16 * down, rows) + _steps(1, 2, width * across, columns)
    lead = (0,) * (len(shape) - 2)
    return RegisterLayout(frozenset((*lead, *step) for step in registers), (*(1 for _ in lead), down, across), version)


def mfma_layout(shape: Shape, warps: int, chained: bool, last: bool) -> RegisterLayout:
    """The layout of a product of AMD's matrix cores: instructions give 32 by 32 entries, 16 by 16 of narrower products,
    of which a thread has four neighbors of a row at a time.

    Warps are divided so that each has about as many instructions along both sides. Where products are `chained`, all
    are along the rows; of the `last` one as many as there are instructions, the others along its columns
    (`warpsPerTile` in Triton's `AccelerateAMDMatmul.cpp`).

    >>> [mfma_layout((16, 64), 4, chained=True, last=last).warps for last in (False, True)]
    [(4, 1), (1, 4)]
    """
    rows, columns = shape[-2:]
    entry = 32 if min(rows, columns) >= 32 else 16
    down, across = (warps, 1) if chained else (1, 1)
    if last:
        down = max(1, min(warps, rows // entry))
        across = warps // down
    while down * across < warps:
        if rows // (2 * entry) // down >= columns // entry // across and down < rows // entry:
            down *= 2
        else:
            across *= 2
    registers = _steps(1, 2, 1, 4) + _steps(1, 2, 8, entry)[: 2 if entry == 32 else 0]
    registers += _steps(0, 2, entry * down, rows) + _steps(1, 2, entry * across, columns)
    lead = (0,) * (len(shape) - 2)
    return RegisterLayout(frozenset((*lead, *step) for step in registers), (*(1 for _ in lead), down, across), 2)


def tensor_memory_layout(shape: Shape, warps: int) -> RegisterLayout:
    """The layout in which four warps, or several times four, pass a matrix to tensor memory or read it there: a thread
    has neighbors of one row.

    >>> sorted(tensor_memory_layout((64, 16), 4).registers)
    [(0, 1), (0, 2), (0, 4)]
    """
    rows, columns = shape[-2:]
    across = max(1, 32 * warps // min(rows, 128))
    registers = _steps(1, 2, 1, columns // across) + _steps(0, 2, 128, rows)
    return RegisterLayout(frozenset(registers), (4, max(1, warps // 4)), 0, 1)


def first_factor_layout(shape: Shape, width: int, result: RegisterLayout) -> RegisterLayout:
    """The layout in which a product reads a first factor of so many rows and columns from registers, for entries of
    `width` bytes (`dot_op` of Triton's): a thread has 4 bytes of neighbors, of each 16 and of each 32 bytes of a row,
    in rows 8 apart.

    >>> made = product_layout((64, 64), warps=4, version=2)
    >>> sorted(first_factor_layout((64, 32), 2, made).registers)
    [(0, 1), (0, 8), (0, 16), (8, 0), (32, 0)]
    """
    rows, columns = shape
    down = result.warps[-2]
    found = [(8, 0), *_steps(1, 2, 1, 4 // width), *_steps(1, 2, 16 // width, columns), *_steps(0, 2, 16 * down, rows)]
    return RegisterLayout(frozenset(found), (down, 1))


def conversion_bytes(
    shape: Shape, width: int, source: RegisterLayout, target: RegisterLayout, matrices: bool = True
) -> int:
    """The bytes of shared memory that a layout conversion of a tile takes; `width` is the bytes per entry. Unless
    `matrices` are moved by one instruction, threads store and load 16 bytes: results of products before Hopper, which
    has `stmatrix`, vectors, and all that is on AMD's chips."""
    common = len(source.registers & target.registers)
    spent = 5 - width.bit_length() if not matrices else 1 if width == 2 else 2
    return max(math.prod(shape) * width >> max(0, common - spent), 0)


def reduction_bytes(shape: Shape, axis: int, width: int, layout: RegisterLayout) -> int:
    """The bytes of shared memory that a reduction along an axis takes: for each line, one value from each warp."""
    along = layout.warps[axis] if axis < len(layout.warps) else 1
    return math.prod(shape) // max(shape[axis], 1) * along * max(width, 4) if along > 1 else 0
