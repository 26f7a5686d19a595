"""The sizes of a launch: which of them the shapes of its inputs determine, and which must be arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catdiag.category.types import Size, size_symbols
from catdiag.codegen.triton.array_accesses import StoredArray
from catdiag.codegen.triton.kernel_builder import sized

if TYPE_CHECKING:
    from catdiag.codegen.triton.kernel_signature import KernelSpec


@dataclass(frozen=True)
class LaunchSizes:
    """`shown` gives the expression of each size that a shape determines; `wanted` are those that must be arguments."""

    shown: Mapping[str, str]
    wanted: Sequence[str]


def sizes_of_launch(
    inputs: Sequence[StoredArray],
    results: Sequence[StoredArray],
    kernels: Sequence[KernelSpec],
    names: Mapping[str, str],
) -> LaunchSizes:
    """The sizes that a launch of kernels reads; `names` are those of sizes, `results` the arrays that it allocates."""
    shown: dict[str, str] = {}
    wanted: dict[str, None] = {}
    composite: list[tuple[Size, str]] = []
    for array in inputs:
        for n, axis in enumerate(array.ty.axes):
            text = f"{array.name}.shape[{n}]"
            if isinstance(axis.size, str):
                shown.setdefault(axis.size, text)
            else:
                composite.append((axis.size, text))
            wanted.update(dict.fromkeys(sorted(size_symbols(axis.size))))
    count = -1
    while count < len(shown):  # what one shape determines may be what another one lacks
        count = len(shown)
        for size, text in composite:
            unknown = size_symbols(size) - set(shown)
            if len(unknown) == 1:
                (symbol,) = unknown
                solved = _solved(size, symbol, text, names)
                if solved:
                    shown[symbol] = solved
    for kernel in kernels:
        wanted.update(dict.fromkeys((*kernel.sizes, *kernel.constants)))
    for array in results:
        for axis in array.ty.axes:
            wanted.update(dict.fromkeys(sorted(size_symbols(axis.size))))
    return LaunchSizes(shown, [s for s in wanted if s not in shown and s in names])


def _solved(size: Size, symbol: str, text: str, names: Mapping[str, str]) -> str:
    """The expression of a symbol, solved from the expression `text` of a size that contains it; "" if not solved.

    >>> _solved(("*", ("*", "h", 2), "d"), "h", "x.shape[1]", {"h": "h", "d": "d"})
    'x.shape[1] // d // 2'
    """
    if size == symbol:
        return text
    if not isinstance(size, tuple):
        return ""
    op, a, b = size
    if op == "+" and a == b == symbol:
        return f"{text} // 2"
    for one, other in ((a, b), (b, a)):
        if symbol in size_symbols(one) and symbol not in size_symbols(other):
            known = sized(other, names)
            rest = f"{text} - {known}" if op == "+" else f"{text} // {known}"
            return _solved(one, symbol, f"({rest})" if op == "+" and one != symbol else rest, names)
    return ""
