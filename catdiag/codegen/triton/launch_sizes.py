"""The sizes of a launch: which of them the shapes of its inputs determine, and which must be arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catdiag.category.types import Size, size_symbols
from catdiag.codegen.syntax import PLUS, TIMES, Number, PythonExpression, Subscript, bracketed, dotted, joined
from catdiag.codegen.triton.array_accesses import StoredArray
from catdiag.codegen.triton.kernel_builder import sized

if TYPE_CHECKING:
    from catdiag.codegen.triton.kernel_signature import KernelSpec


@dataclass(frozen=True)
class LaunchSizes:
    """`shown` gives the expression of each size that a shape determines; `wanted` are those that must be arguments."""

    shown: Mapping[str, PythonExpression]
    wanted: Sequence[str]


def sizes_of_launch(
    inputs: Sequence[StoredArray],
    results: Sequence[StoredArray],
    kernels: Sequence[KernelSpec],
    names: Mapping[str, str],
) -> LaunchSizes:
    """The sizes that a launch of kernels reads; `names` are those of sizes, `results` the arrays that it allocates."""
    shown: dict[str, PythonExpression] = {}
    wanted: dict[str, None] = {}
    composite: list[tuple[Size, PythonExpression]] = []
    for array in inputs:
        for n, axis in enumerate(array.ty.axes):
            length: PythonExpression = Subscript(dotted(f"{array.name}.shape"), (Number(n),))
            if isinstance(axis.size, str):
                shown.setdefault(axis.size, length)
            else:
                composite.append((axis.size, length))
            wanted.update(dict.fromkeys(sorted(size_symbols(axis.size))))
    count = -1
    while count < len(shown):  # what one shape determines may be what another one lacks
        count = len(shown)
        for size, length in composite:
            unknown = size_symbols(size) - set(shown)
            if len(unknown) == 1:
                (symbol,) = unknown
                solved = _solved(size, symbol, length, names)
                if solved is not None:
                    shown[symbol] = solved
    for kernel in kernels:
        wanted.update(dict.fromkeys((*kernel.sizes, *kernel.constants)))
    for array in results:
        for axis in array.ty.axes:
            wanted.update(dict.fromkeys(sorted(size_symbols(axis.size))))
    return LaunchSizes(shown, [s for s in wanted if s not in shown and s in names])


def _solved(size: Size, symbol: str, found: PythonExpression, names: Mapping[str, str]) -> PythonExpression | None:
    """The expression of a symbol, solved from that of a size that contains it; None if it is not solved.

    >>> from catdiag.codegen.syntax import Name
    >>> print(_solved(("*", ("*", "h", 2), "d"), "h", Name("n"), {"h": "h", "d": "d"}))
    n // d // 2
    """
    if size == symbol:
        return found
    if not isinstance(size, tuple):
        return None
    op, a, b = size
    if op == "+" and a == b == symbol:
        return joined(bracketed(found, TIMES), "//", Number(2))
    for one, other in ((a, b), (b, a)):
        if symbol in size_symbols(one) and symbol not in size_symbols(other):
            sign, level = ("-", PLUS) if op == "+" else ("//", TIMES)
            return _solved(one, symbol, joined(bracketed(found, level), sign, sized(other, names)), names)
    return None
