"""How a block of threads holds a tile in registers, and what it costs in shared memory to hold it another way.

A tile of power-of-two sides has its elements spread over the registers of a thread, the lanes of a warp and the warps
of a block. Each step of a register's number is a step in the tile, its *basis*; so are a lane's and a warp's. Triton
(3.6, `getNumScratchElemsSwizzledCvt` in `lib/Analysis/Allocation.cpp`) changes one layout into another through shared
memory, in turns: one for each value of the register bases that both layouts have, but for one that is spent on moving
two values of 2 bytes at once (two bases for those of one byte or four). A turn needs room for its part of the tile.

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
    """The steps of the registers of a thread, and how many warps lie along each axis of the tile.

    `matrix` is 3 or 2 for results of matrix units (of four warps together, or of each), 0 otherwise.
    """

    registers: frozenset[Step]
    warps: Shape
    matrix: int = 0
    contiguous: int = -1


def _steps(axis: int, rank: int, first: int, end: int) -> list[Step]:
    """Steps of first, 2 first, … below `end` along one axis."""
    found, step = [], first
    while step < end:
        found.append(tuple(step if a == axis else 0 for a in range(rank)))
        step *= 2
    return found


def blocked_layout(shape: Shape, contiguous: int, vector: int, warps: int) -> RegisterLayout:
    """The layout of coalesced loads and stores: `vector` neighbours a thread along the contiguous axis, lanes and then
    warps along it as far as they are needed, the others along the axes that follow.

    >>> blocked_layout((64, 64), 1, 8, warps=4).warps
    (4, 1)
    """
    rank = len(shape)
    order = [contiguous, *(a for a in reversed(range(rank)) if a != contiguous)]
    threads = 32 * warps
    vector = max(1, min(vector, math.prod(shape) // threads, shape[contiguous] if rank else 1))
    reach = [1] * rank  # what the threads placed so far cover
    reach[contiguous] = vector
    registers = _steps(contiguous, rank, 1, vector)
    along = [1] * rank
    for count in (32, warps):
        left = count
        for place, axis in enumerate(order):
            taken = left if place == rank - 1 else max(1, min(left, shape[axis] // reach[axis]))
            reach[axis] *= taken
            left //= taken
            if count == warps and count != 32:
                along[axis] *= taken
    if warps == 32:  # the loop above cannot tell lanes from warps then
        along = [1] * rank
        along[order[-1]] = warps
    for axis in range(rank):
        registers += _steps(axis, rank, reach[axis], shape[axis])
    return RegisterLayout(frozenset(registers), tuple(along), 0, contiguous)


def product_layout(shape: Shape, warps: int, version: int) -> RegisterLayout:
    """The layout of the result of a matrix product of `shape` rows and columns.

    Version 3 (wgmma): four warps hold 64 rows; version 2 (mma): each holds pieces of 16 by 8.
    """
    rows, columns = shape[-2:]
    if version == 3:
        down = max(4, min(warps, rows // 16))
        across = max(1, warps // down)
        width = min(256, max(8, columns // across))
        registers = [(0, 1), (8, 0), *_steps(1, 2, 8, width)]
    else:
        down, across = 1, 1
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


def conversion_bytes(shape: Shape, width: int, source: RegisterLayout, target: RegisterLayout) -> int:
    """Shared memory to change the layout of a tile of values of `width` bytes."""
    common = len(source.registers & target.registers)
    spent = 1 if width == 2 else 2
    return max(math.prod(shape) * width >> max(0, common - spent), 0)


def reduction_bytes(shape: Shape, axis: int, width: int, layout: RegisterLayout) -> int:
    """Shared memory to reduce a tile along an axis: a value from each warp along it, of each line."""
    along = layout.warps[axis] if axis < len(layout.warps) else 1
    return math.prod(shape) // max(shape[axis], 1) * along * max(width, 4) if along > 1 else 0
