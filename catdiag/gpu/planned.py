"""The kernels of diagrams and of plans: emitted, and compiled."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from catdiag.emit.triton import Module, module
from catdiag.errors import CatdiagError, SizeError
from catdiag.gpu.compile import Compiled, compiled
from catdiag.run.sizes import tile_bounds
from catdiag.types import size_value

if TYPE_CHECKING:
    from catdiag.cost.plan import Plan
    from catdiag.diagram import Diagram


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


def module_of(plan: Plan) -> Module:
    """The Triton module of a plan, with its tiles, buffers and warps. Raises what `catdiag.emit.triton.module` raises,
    and CatdiagError for a plan that does not know its diagram."""
    if plan.diagram is None:
        raise CatdiagError("the plan does not know its diagram: expected one that fit gave in this process")
    # Types by name are written `Q fp8, K fp8`.
    named = dict(part.split(" ") for part in plan.dtype.split(", ") if " " in part)
    dtype = named or plan.dtype
    warps = max(1, plan.threads // plan.warp)
    return module(plan.diagram, tiles_of(plan), dtype, stages=plan.stages, warps=warps)


def kernel_of(plan: Plan) -> Compiled:
    """The kernel of a plan. Raises what `module_of` and `catdiag.gpu.compile.compiled` raise."""
    return compiled(module_of(plan), plan.diagram, plan.source)


def tiles_of(plan: Plan) -> dict[str, int]:
    """The tiles of a plan as a kernel takes them, powers of two: a whole axis has the next one, any other tile that is
    none the one before, so that what is held fits all the more.

    >>> import catdiag as cd
    >>> total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x")).stream("x").group("q")
    >>> plan = total.fit("H100", {"q": 4096, "x": 100}, tiles={"g_q": 48, "s_x": 100})
    >>> tiles_of(plan)
    {'g_q': 32, 's_x': 128}
    """
    if plan.diagram is None:
        raise CatdiagError("the plan does not know its diagram: expected one that fit gave in this process")
    wholes = tile_bounds(plan.diagram)
    found = {}
    for name, length in plan.tiles.items():
        whole = None
        with suppress(SizeError):  # of an axis that is made on the way
            whole = size_value(wholes.get(name, 0), plan.sizes)
        below = 1 << (length.bit_length() - 1)
        found[name] = length if length == below else 2 * below if whole == length else below
    return found
