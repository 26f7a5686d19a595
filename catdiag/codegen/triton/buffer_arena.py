"""The arrays that pass from kernel to kernel of a launch, in one allocation: those share bytes that are never live at
the same time.

`_offsets` is part of the generated module, by its own text. Plans call the same function, so that the bytes that a plan
says are those that its launch function allocates.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass

from catdiag.category.types import ArrayType, element_bytes, size_value
from catdiag.codegen.triton.kernel_signature import WIDTHS

ITEM_BYTES = {name: element_bytes(kind) for kind, name in WIDTHS.items()}
"""The bytes of an element by torch's name of its type."""


def _offsets(ranges: tuple[tuple[int, int, int], ...]) -> tuple[list[int], int]:
    """Where buffers begin in one allocation, and its bytes. Each is (bytes, its first kernel, its last kernel).

    The largest comes first, each at the first multiple of 256 bytes where it meets none that is live with it.
    """
    starts = [0] * len(ranges)
    done: list[int] = []
    for k in sorted(range(len(ranges)), key=lambda k: -ranges[k][0]):
        size, first, last = ranges[k]
        for n in sorted(done, key=lambda n: starts[n]):
            other, begin, end = ranges[n]
            if begin <= last and first <= end and starts[n] < starts[k] + size and starts[k] < starts[n] + other:
                starts[k] = -(-(starts[n] + other) // 256) * 256
        done.append(k)
    return starts, max((start + r[0] for start, r in zip(starts, ranges)), default=0)


ARENA = (
    inspect.getsource(_offsets)
    + '''

@functools.lru_cache(maxsize=64)
def _layout(buffers):
    """For each buffer its start, its bytes, and its shape as stored, with longer rows; and the bytes of all."""
    shapes = []
    for shape, dtype, _, _, rows, _ in buffers:
        each = 16 // dtype.itemsize if rows else 1
        shapes.append((*shape[:-1], -(-shape[-1] // each) * each) if shape else shape)
    sizes = [math.prod(shape) * b[1].itemsize for shape, b in zip(shapes, buffers)]
    starts, total = _offsets(tuple((size, b[2], b[3]) for size, b in zip(sizes, buffers)))
    return list(zip(starts, sizes, shapes)), total


def _arena(device, *buffers):
    """Arrays that pass from kernel to kernel: each (shape as stored, type, its first and its last kernel, whether its
    rows start at multiples of 16 bytes, as the copy engine needs them, and its axes if these are stored in another
    order). They are parts of one allocation."""
    placed, total = _layout(buffers)
    memory = torch.empty((total,), dtype=torch.uint8, device=device)
    for (start, size, stored), (shape, dtype, *_, axes) in zip(placed, buffers):
        array = memory.narrow(0, start, size).view(dtype).view(stored)
        array = array if stored == shape else array.narrow(-1, 0, shape[-1])
        yield array.permute(axes) if axes else array'''
)
"""The functions of the generated module; they use `functools`, `math` and `torch`."""


@dataclass(frozen=True)
class WorkBuffer:
    """An array that some kernels of a launch write and others read.

    `dtype` is torch's name of the type of its elements; `first` and `last` are the positions of the first and the last
    launch that use it; `rows` says whether its rows start at multiples of 16 bytes.
    """

    name: str
    ty: ArrayType
    dtype: str
    first: int
    last: int
    rows: bool = False
    order: tuple[str, ...] = ()
    """Its axes as they are stored, if that is another order than that of its type."""

    def bytes(self, sizes: Mapping[str, int]) -> int:
        """The bytes that it takes at some sizes of axes, tiles included."""
        item = ITEM_BYTES[self.dtype]
        lengths = {axis.name: size_value(axis.size, sizes) for axis in self.ty.axes}
        shape = [lengths[name] for name in self.order or self.ty.names]
        if self.rows and shape:
            each = 16 // item
            shape[-1] = -(-shape[-1] // each) * each
        return math.prod(shape) * item


def arena_bytes(buffers: tuple[WorkBuffer, ...], sizes: Mapping[str, int]) -> int:
    """The bytes of the allocation that holds the buffers of a launch.

    >>> from catdiag.category.types import Axis
    >>> rows = ArrayType((Axis("q"),))
    >>> chain = tuple(WorkBuffer(f"t{k}", rows, "bfloat16", k, k + 1) for k in range(4))
    >>> arena_bytes(chain, {"q": 1024})
    4096
    """
    return _offsets(tuple((b.bytes(sizes), b.first, b.last) for b in buffers))[1]
