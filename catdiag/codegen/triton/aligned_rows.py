"""Divisibility hints: rows that begin at multiples of 8 entries are loaded and stored in vectors of 8 entries.

Triton knows of an argument that is a multiple of 16, and of no other multiple: rows of 1,000 or 7,000 entries it reads
and writes entry by entry. A kernel writes such strides and lengths as multiples of 8, where the launch says that they
are. On an H200 a product of 5,000 × 3,000 by 3,000 × 7,000 in bf16 took 402 µs so, and 436 before (643 and 673 TFLOP/s
of cuBLAS in the same two runs, 522 and 482 of this kernel).
"""

from __future__ import annotations

from collections.abc import Sequence

from catdiag.codegen.kernel_tree import Assign, If, PythonStatement
from catdiag.codegen.syntax import Name, Number, PythonExpression, call, compared, joined
from catdiag.codegen.triton.array_accesses import StoredArray
from catdiag.codegen.triton.kernel_signature import KernelSpec

FLAG = "divisible_by_8"
"""The name of the constant."""


def row_divisibility(kernel: KernelSpec) -> tuple[dict[tuple[StoredArray, str], str], dict[str, str]]:
    """The strides and the sizes on which it depends where rows begin and end, with their names in the kernel: strides
    along all axes but the last, by array and axis, and lengths of last axes, by their symbols."""
    last = {array: array.ty.axes[-1] for array in kernel.arrays if array.ty.axes}
    strides = {
        (array, axis): name
        for (array, axis), name in kernel.strides.items()
        if array in last and last[array].name != axis
    }
    ends = {a.size for a in last.values()} - set(kernel.constants)
    return strides, {symbol: name for symbol, name in kernel.sizes.items() if symbol in ends}


def divisibility_hints(kernel: KernelSpec) -> list[PythonStatement]:
    """The statements that write these as multiples of 8; none where there are none."""
    hints: list[PythonStatement] = [
        Assign((Name(name),), joined(joined(Name(name), "//", Number(8)), "*", Number(8)))
        for names in row_divisibility(kernel)
        for name in names.values()
    ]
    return [If(Name(FLAG), hints, note="rows of as many entries, which are moved 8 at a time")] if hints else []


def divisible_by_8(numbers: Sequence[PythonExpression]) -> PythonExpression:
    """Whether numbers are multiples of 8, and not all of 16, which the compiler finds out itself."""
    return compared(call("math.gcd", *numbers, Number(16)), "==", Number(8))
