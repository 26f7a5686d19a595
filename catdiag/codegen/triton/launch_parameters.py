"""The parameters of a kernel and the axes of its grid, in the order in which the launch function passes them."""

from __future__ import annotations

from catdiag.codegen.kernel_tree import Parameter
from catdiag.codegen.triton.aligned_rows import FLAG, row_divisibility
from catdiag.codegen.triton.dependent_launch import chain_constants
from catdiag.codegen.triton.kernel_signature import KernelSpec
from catdiag.codegen.triton.tile_runs import STAGES, runs
from catdiag.schedule.statements import LoopSpan


def constants_of(kernel: KernelSpec) -> list[str]:
    """The names of a kernel's compile-time constants (`tl.constexpr`): sizes, blocks, tiles, exactness."""
    names = [kernel.sizes.get(s, s) for s in kernel.constants]
    names += [*kernel.blocks, *(s.symbol for s in (*kernel.spans, *kernel.loops) if not s.symbol.isdigit())]
    names += [*([] if kernel.parts is None else [kernel.parts.symbol]), *kernel.padded.values(), *kernel.exact]
    return list(dict.fromkeys(names))


def parameters_of(kernel: KernelSpec) -> tuple[Parameter, ...]:
    """The parameters of a kernel."""
    names = [*(a.name for a in kernel.arrays), *(b.name for b in kernel.boxes)]
    names += list(kernel.strides.values())
    names += list(kernel.scalars.values())
    names += [text for s, text in kernel.sizes.items() if s not in set(kernel.constants)]
    if kernel.chunk is not None:
        names.append("chunk")
    names += kernel.added.values()
    names += ["run"] if runs(kernel) else []
    constants = constants_of(kernel)
    constants += ["deterministic"] if kernel.added else []
    constants += [STAGES] if runs(kernel) else []
    constants += ["in_registers"] if "_in_registers" in kernel.helpers else []
    constants += ["fast"] if "_tanh" in kernel.helpers else []
    constants += ["compiled"] if kernel.helpers & {"_transposed", "_completed"} else []
    constants += ["wide"] if kernel.reaches else []
    constants += [FLAG] if any(row_divisibility(kernel)) else []
    constants += chain_constants(kernel)
    return (*map(Parameter, names), *(Parameter(c, constant=True) for c in constants))


def spans_of(kernel: KernelSpec) -> tuple[LoopSpan, ...]:
    """The axes of the grid, the slowest first: tiles with loops of different lengths, tiles of one entry, the rest."""
    own = [s for s in kernel.spans if s.symbol in kernel.imbalance]
    return (*own, *kernel.single, *(s for s in kernel.spans if s not in own))


def rounding(kernel: KernelSpec) -> list[str]:
    """The option of a launch that turns fused multiply-add off, if the kernel needs that."""
    return ["enable_fp_fusion=False"] if kernel.separately_rounded else []


def tiles_of_merge(kernel: KernelSpec) -> tuple[LoopSpan, ...]:
    """The tiles of a kernel that merges the parts of a split loop and multiplies nothing: a launch may halve them,
    since parts are stored without tiles. None of other kernels."""
    merges = kernel.chunk is not None and kernel.parts is None
    return kernel.spans if merges and not (kernel.padded or kernel.sides or kernel.added) else ()
