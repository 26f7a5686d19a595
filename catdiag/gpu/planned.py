"""The kernels of diagrams and of plans: emitted, and compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from catdiag.cost.plan import searching
from catdiag.emit.triton import Module, module
from catdiag.errors import CatdiagError
from catdiag.gpu.compile import Compiled, compiled
from catdiag.gpu.fitted import Fitting

if TYPE_CHECKING:
    from catdiag.cost.plan import Plan
    from catdiag.diagram import Diagram
    from catdiag.rewrite.several import Plans


def compiled_of(
    diagram: Diagram,
    source: Diagram | None,
    tiles: Mapping[str, int],
    dtype: str | Mapping[str, str] = "bf16",
    *,
    stages: int = 2,
    warps: int = 4,
) -> Compiled:
    """A diagram in loops and groups as a function of torch tensors; `source` is what it was derived from, if known.

    Raises what `catdiag.emit.triton.module` and `catdiag.gpu.compile.compiled` raise.
    """
    return compiled(module(diagram, tiles, dtype, stages=stages, warps=warps), diagram, source)


def module_of(plan: Plan | Plans) -> Module:
    """The Triton module of a plan, of which it says what it takes.

    Raises CatdiagError where there is none, with the reason.
    """
    if plan.module is None:
        raise CatdiagError(
            f"the plan is of the ideal model, and no module of Triton is like it: {plan.reason}; "
            "fit(…, backend='triton') plans one, where there is one"
        )
    return plan.module


def kernel_of(plan: Plan | Plans) -> Compiled:
    """The kernel of a plan, or its kernels. Raises what `module_of` and `catdiag.gpu.compile.compiled` raise."""
    return compiled(module_of(plan), plan.diagram, plan.source)


def tuned_plan(plan: Plan) -> Plan:
    """The plan of the configuration that is quickest on the GPU here, of those that the model proposes.

    Raises CatdiagError for a plan with types by name or of the ideal model, and what `catdiag.gpu.tune.tuned` raises.
    """
    from catdiag.gpu.tune import tuned

    module_of(plan)
    if not isinstance(plan.types, str):
        raise CatdiagError(f"a kernel of types by name ({plan.dtype}) is not tuned: expected one type for all")
    if plan.diagram is None or plan.chip is None:
        raise CatdiagError("the plan does not know its diagram: expected one that fit gave in this process")
    kernel, found = tuned(plan.diagram, plan.source, plan.chip, plan.sizes, plan.types, **plan.asked)
    search = searching(plan.diagram, plan.chip, plan.sizes, plan.types, **plan.asked)
    measured = Fitting(search, plan.types).plan(found.chosen)
    known = {name: getattr(plan, name) for name in ("dtype", "diagram", "source", "chip", "asked", "types")}
    return replace(measured, **known).made_of(replace(kernel, tuning=found))


def longest(plan: Plan | Plans) -> Plan:
    """The plan of the kernel that is predicted to take longest."""
    return max(plans_of(plan), key=lambda one: one.time_s)


def plans_of(plan: Plan | Plans) -> list[Plan]:
    """The plans of the kernels, in order."""
    return [kernel.plan for kernel in plan.kernels] if hasattr(plan, "kernels") else [plan]


def sizes_of(plan: Plan | Plans) -> dict[str, int]:
    """The sizes that a plan is for."""
    return {name: size for one in plans_of(plan) for name, size in one.sizes.items()}
