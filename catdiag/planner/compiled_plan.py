"""Kernels of diagrams, compiled; and what a plan of one kernel or several is, as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from catdiag.codegen.triton.triton_module import module
from catdiag.runtime.compile import CompiledKernel, compiled

if TYPE_CHECKING:
    from catdiag.category.diagram import Diagram, HasDiagram
    from catdiag.planner.fit import Plan
    from catdiag.planner.multi_kernel_plan import Plans


def compiled_of(
    diagram: Diagram | HasDiagram,
    source: Diagram | HasDiagram | None,
    tiles: Mapping[str, int],
    dtype: str | Mapping[str, str] = "bf16",
    *,
    stages: int = 2,
    warps: int = 4,
) -> CompiledKernel:
    """A diagram in loops and groups as a function of torch tensors; `source` is what it was derived from, if known.

    Raises what `catdiag.codegen.triton.triton_module` and `catdiag.runtime.compile.compiled` raise.
    """
    return compiled(module(diagram, tiles, dtype, stages=stages, warps=warps), diagram, source)


def longest(plan: Plan | Plans) -> Plan:
    """The plan of the kernel that is predicted to take longest."""
    return max(plans_of(plan), key=lambda one: one.time_s)


def plans_of(plan: Plan | Plans) -> list[Plan]:
    """The plans of the kernels, in order."""
    return [kernel.plan for kernel in plan.kernels] if hasattr(plan, "kernels") else [plan]


def sizes_of(plan: Plan | Plans) -> dict[str, int]:
    """The sizes that a plan is for."""
    return {name: size for one in plans_of(plan) for name, size in one.sizes.items()}
