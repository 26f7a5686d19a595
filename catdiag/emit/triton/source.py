"""The source of kernels as text: their parameters, at which tile a program is, and what stands before the launch."""

from __future__ import annotations

from collections.abc import Sequence

from catdiag.emit.nest import Span
from catdiag.emit.triton.builder import sized
from catdiag.emit.triton.described import Kernel
from catdiag.emit.triton.launch import head_of, spans_of

_TOGETHER = 8
"""Tiles of an axis that run together with as many of another, since they share what they load."""


def indented(lines: Sequence[str]) -> list[str]:
    """Lines one step further in; one empty line between functions."""
    found: list[str] = []
    for line in lines:
        if line or (found and found[-1]):
            found.append("    " + line if line else "")
    return found


def kernel_text(kernel: Kernel) -> list[str]:
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
    lines += grid_text(kernel)
    for array, name in kernel.scalars.items():
        if array.ty.element in ("real", "extended"):
            lines.append(f"    {name} = tl.full([], {name}, tl.float32)")
    return [*lines, *kernel.lines]


def grid_text(kernel: Kernel) -> list[str]:
    """Which tile a program instance is at: the last axis of the grid runs fastest."""
    spans = spans_of(kernel)
    if not spans and kernel.parts is None:
        return []
    lines = ["    pid = tl.program_id(0)"]
    where: list[tuple[str, str, Span | None]] = []
    for span in spans:
        base = span.axis if span.axis.isidentifier() else "i" + "".join(c if c.isalnum() else "_" for c in span.axis)
        size = sized(span.size, kernel.sizes)
        count = size if span in kernel.single else f"tl.cdiv({size}, {span.symbol})"
        where.append((base, count, span))
    if kernel.parts is not None:
        where.append(("part", kernel.parts.symbol, None))
    near = _near(kernel, spans)
    if near:
        (_, rows, _), (_, columns, _) = where[-2:]
        pair = " , ".join(f"{base}_tile" for base, _, _ in where[-2:]).replace(" ,", ",")
        lines.append(f"    {pair} = tl.swizzle2d(")
        lines.append(f"        pid // {columns} % {rows}, pid % {columns}, {rows}, {columns}, {_TOGETHER}")
        lines.append("    )  # tiles that run together share what they load")
        for base, _, own in where[-2:]:
            lines.append(f"    {base}0 = {base}_tile * {'' if own is None else own.symbol}")
        if len(where) > 2:
            lines.append(f"    pid = pid // ({columns} * {rows})")
        where = where[:-2]
    for n, (base, count, own) in enumerate(reversed(where)):
        last = n == len(where) - 1
        place = "pid" if last else f"pid % {count}"
        if own is None:
            lines.append(f"    part = {place}")
        elif own in kernel.single:
            lines.append(f"    {base}_at = {place}")
        elif own.symbol in kernel.order:
            lines.append(f"    {base}0 = ({count} - 1 - {place}) * {own.symbol}  # the longest loops first")
        else:
            lines.append(f"    {base}0 = {place if last else f'({place})'} * {own.symbol}")
        if not last:
            lines.append(f"    pid = pid // {count}")
    return lines


def checks_of_shapes(of_bytes: bool) -> str:
    """What launches check and round lengths with; of numbers of 8 bits matrix units sum twice as many at a time."""
    if not of_bytes:
        return _CHECKS
    return _CHECKS.replace("max(16,", "max(32,").replace("size < 16:", "size < 32:").replace("least 16", "least 32")


def _near(kernel: Kernel, spans: Sequence[Span]) -> bool:
    """Whether the two fastest axes of the grid are both cut into tiles, in any order."""
    last = spans[-2:]
    return len(last) == 2 and kernel.parts is None and all(
        s not in kernel.single and s.symbol not in kernel.order and s.symbol not in kernel.uneven for s in last
    )  # fmt: skip


_CHECKS = '''def _block(n):
    """The length of a tile that holds n entries: a power of two."""
    return max(16, triton.next_power_of_2(n))


def _powers(**tiles):
    for name, size in tiles.items():
        if size < 1 or size & (size - 1):
            raise ValueError(f"{name} is {size}: expected a power of two")


def _summed(**tiles):
    for name, size in tiles.items():
        if size < 16:
            raise ValueError(f"{name} is {size}: expected at least 16, as matrix units sum so many at a time")


def _expect(name, tensor, shape, axes):
    if tuple(tensor.shape) != tuple(shape):
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}: expected {tuple(shape)}, the axes {axes}")'''

DESCRIPTOR = "from triton.tools.tensor_descriptor import TensorDescriptor"

BOXED = '''def _boxed(tensor, shape):
    """Whether the copy engine of the chip (Hopper or later) can read boxes of a tensor."""
    size = tensor.element_size()
    if tensor.device.type == "cuda" and torch.cuda.get_device_capability(tensor.device)[0] < 9:
        return False
    if tensor.device.type == "cpu" or max(shape) > 256 or shape[-1] * size < 16 or tensor.stride(-1) != 1:
        return False
    aligned = tensor.device.type == "meta" or tensor.data_ptr() % 16 == 0
    return aligned and all(s > 0 and s * size % 16 == 0 for s in tensor.stride()[:-1])'''
