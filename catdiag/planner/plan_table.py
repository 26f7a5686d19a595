"""The kernels of a plan as a table: what each takes, what bounds it, and which arrays it reads and makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from catdiag.planner.plan import CALLED, IDEAL, KernelPlan, plural, shown

if TYPE_CHECKING:
    from catdiag.chip.hardware import Hardware

HEADS = ("", "µs", "% of time", "HBM bytes", "FLOPs", "of peak", "bound by", "arrays (bytes)")


def kernel_table(kernels: Sequence[KernelPlan]) -> list[str]:
    """A line for each kernel, below a line of heads. Microseconds are predicted; FLOPs are those of products;
    "of peak" is of the chip's peak FLOP/s where there are products, or else of its peak HBM bandwidth.

    >>> import catdiag as cd
    >>> rows = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x"))
    >>> print(*kernel_table(rows.plan("H100", {"q": 4096, "x": 4096}).kernels), sep="\\n")
         µs  % of time   HBM bytes  FLOPs  of peak  bound by       arrays (bytes)
    1  11.2      100.0  33,562,624      0  90% HBM  HBM bandwidth  a → out (8,192)
    """
    whole = sum(kernel.time_s for kernel in kernels)
    rows = [_row(number, kernel, whole) for number, kernel in enumerate(kernels, 1)]
    return _aligned([HEADS, *rows], left=2)


def configurations(kernels: Sequence[KernelPlan]) -> list[str]:
    """A line for each kernel that is catdiag's: its loops, its tiles, and how it is written."""
    rows = [
        (str(number), f"{kernel.loops}: {shown(kernel.tiles)}; {_resources(kernel)}")
        for number, kernel in enumerate(kernels, 1)
        if kernel.backend not in CALLED
    ]
    return _aligned(rows, left=1) if rows else []


def _resources(kernel: KernelPlan) -> str:
    on_chip = f"{kernel.shared_memory_bytes:,} bytes of shared memory"
    if kernel.backend == IDEAL:
        return f"{plural(kernel.stages, 'buffer')}, {plural(kernel.threads, 'thread')}; {on_chip}; {kernel.kernel}"
    return f"{kernel.kernel}; {on_chip}"


def arrays_of(kernel: KernelPlan) -> str:
    """What a kernel reads and makes, with the bytes of what it makes."""
    made = ", ".join(f"{name} ({size:,} bytes)" for name, size in kernel.makes)
    return f"{', '.join(kernel.reads)} → {made}"


def _row(number: int, kernel: KernelPlan, whole_s: float) -> tuple[str, ...]:
    of_peak = f"{100 * kernel.utilization:.0f}% {'FLOP/s' if kernel.flops else 'HBM'}"
    made = ", ".join(f"{name} ({size:,})" for name, size in kernel.makes)
    return (
        str(number), f"{1e6 * kernel.time_s:,.1f}", f"{100 * kernel.time_s / whole_s:.1f}", f"{kernel.hbm_bytes:,}",
        f"{kernel.flops:,}", of_peak, kernel.bound, f"{', '.join(kernel.reads)} → {made}",
    )  # fmt: skip


def _aligned(rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """The rows with columns of one width: numbers to the right, the last `left` columns to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = len(widths) - left
    return [
        "  ".join(
            c.rjust(w) if k < right else c.ljust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def launch_lines(dependent: Sequence[int], chip: Hardware | None, graph: bool) -> list[str]:
    """The lines that say how kernels are launched: which are `dependent`, by their numbers, and whether as a CUDA
    graph."""
    found = list[str]()
    if dependent and chip is not None:
        found.append(
            f"{'kernels' if len(dependent) > 1 else 'kernel'} {', '.join(map(str, dependent))}: as the one before ends "
            f"(dependent launches), {1e6 * chip.dependent_launch_s:.1f} µs from one to the next, else "
            f"{1e6 * chip.launch_s:.1f}"
        )
    if graph:
        found.append("replayed as a CUDA graph: one by one they may take longer than the kernels")
    return [f"{'' if k else 'launches':10} {said}" for k, said in enumerate(found)]
