"""The source of kernels: signature, body, and the mapping from program ids to tiles of the grid."""

from __future__ import annotations

from collections.abc import Sequence

from catdiag.codegen.triton.kernel_builder import sized
from catdiag.codegen.triton.kernel_signature import KernelSpec, widened
from catdiag.codegen.triton.launch_parameters import head_of, spans_of
from catdiag.codegen.triton.triton_dialect import TRITON
from catdiag.schedule.statements import LoopSpan

_TOGETHER = 8
"""The side of the squares of tiles that run close in time, so that they share loads in L2 (swizzled program order)."""


def indented(lines: Sequence[str]) -> list[str]:
    """Lines indented by one level, with at most one empty line in a row."""
    found: list[str] = []
    for line in lines:
        if line or (found and found[-1]):
            found.append("    " + line if line else "")
    return found


def kernel_text(kernel: KernelSpec) -> list[str]:
    """The source of a kernel."""
    head = head_of(kernel)
    lines = ["@triton.jit", f"def {kernel.name}("]
    line = ""
    for name in head:
        if len(line) + len(name) > 104:
            lines.append("    " + line.rstrip())
            line = ""
        line += f"{name}, "
    lines += ["    " + line.rstrip(), "):", f'    """{kernel.note}."""']
    lines += [*widened(kernel, "tl"), *grid_text(kernel, "tl")]
    for array, name in kernel.scalars.items():
        if array.ty.element in ("real", "extended"):
            lines.append(f"    {name} = tl.full([], {name}, tl.float32)")
    return [*lines, *kernel.lines]


def grid_text(kernel: KernelSpec, tl: str) -> list[str]:
    """The lines that compute a program's tile from its program id; the last axis of the grid varies fastest.

    `tl` is the module of the language. Two tiled axes at the end are swizzled by Triton's function, which Gluon lacks.
    Tiles with longer loops come first, so that the last wave is short.
    """
    spans = spans_of(kernel)
    if not spans and kernel.parts is None:
        return []
    lines = [f"    pid = {tl}.program_id(0)"]
    where: list[tuple[str, LoopSpan | None]] = []
    for span in spans:
        size = sized(span.size, kernel.sizes)
        count = size if span in kernel.single else f"{tl}.cdiv({size}, {span.symbol})"
        where.append((count, span))
    if kernel.parts is not None:
        where.append((kernel.parts.symbol, None))
    if tl == TRITON.module and _swizzled(kernel, spans):
        (rows, _), (columns, _) = where[-2:]
        lines.append(f"    {', '.join(kernel.tile_names[s.symbol] for s in spans[-2:])} = {tl}.swizzle2d(")
        lines.append(f"        pid // {columns} % {rows}, pid % {columns}, {rows}, {columns}, {_TOGETHER}")
        lines.append("    )  # tiles that run together share what they load")
        lines += [f"    {kernel.starts[s.symbol]} = {kernel.tile_names[s.symbol]} * {s.symbol}" for s in spans[-2:]]
        if len(where) > 2:
            lines.append(f"    pid = pid // ({columns} * {rows})")
        where = where[:-2]
    for n, (count, own) in enumerate(reversed(where)):
        last = n == len(where) - 1
        place = "pid" if last else f"pid % {count}"
        start = "part" if own is None else kernel.starts[own.symbol]
        if own is None or own in kernel.single:
            lines.append(f"    {start} = {place}")
        elif own.symbol in kernel.order:
            lines.append(f"    {start} = ({count} - 1 - {place}) * {own.symbol}  # the longest loops first")
        else:
            lines.append(f"    {start} = {place if last else f'({place})'} * {own.symbol}")
        if not last:
            lines.append(f"    pid = pid // {count}")
    return lines


def _swizzled(kernel: KernelSpec, spans: Sequence[LoopSpan]) -> bool:
    """Whether the two fastest axes of the grid are both tiled, and their programs may run in any order."""
    last = spans[-2:]
    return len(last) == 2 and kernel.parts is None and all(
        s not in kernel.single and s.symbol not in kernel.order and s.symbol not in kernel.imbalance for s in last
    )  # fmt: skip
