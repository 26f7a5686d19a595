"""Uninterpreted boxes of a plan: calls of the user's functions between kernels, how long they are predicted to take at
least, and what is assumed of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from catdiag.category.diagram import Diagram
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType, element_bytes, size_value
from catdiag.codegen.triton.opaque_call import opaque_box
from catdiag.planner.kernel_candidates import KernelTimer, PlanTarget
from catdiag.planner.kernel_drafts import KernelDraft
from catdiag.planner.library_products import CALL_S, CallCost, called_plan
from catdiag.planner.plan import FUNCTION, KernelPlan
from catdiag.schedule.element_widths import stored_type
from catdiag.schedule.stored_types import output_names
from catdiag.util.errors import NotFusable

if TYPE_CHECKING:
    from catdiag.category.ops import Box


def box_of(piece: Diagram) -> Box:
    """The uninterpreted box that is all of a piece. Raises NotFusable where there is more in it, or less."""
    box = opaque_box(piece)
    if box is None:
        raise NotFusable(f"{piece.title or 'a piece'} calls a function, and no kernel does that with anything else")
    return box


def called_schedules(piece: Diagram, target: PlanTarget) -> list[KernelTimer]:
    """The one schedule of an uninterpreted box: its call. Raises NotFusable for a piece that is more."""
    box_of(piece)
    draft = KernelDraft((), (), inline(piece))
    return [KernelTimer(draft, _cost(piece, target).seconds, None, called=FUNCTION)]


def function_plan(piece: Diagram, target: PlanTarget) -> KernelPlan:
    """The plan of an uninterpreted box, as a call."""
    return called_plan(piece, target, _cost(piece, target), FUNCTION)


def function_assumption(kernel: KernelPlan, number: int) -> str:
    """What a plan assumes of a function, in words; `number` is that of the kernel."""
    assert kernel.source is not None, "a kernel of a plan has a source"
    box = box_of(kernel.source)
    taken = ", ".join(kernel.reads) or "nothing"
    return f"kernel {number}: {box.name} is a function of {taken}, and changes none of its arguments"


def _cost(piece: Diagram, target: PlanTarget) -> CallCost:
    """What a call costs at least: its arguments and results cross the edge to HBM once. What it computes is not
    known."""
    names = (*piece.input_names, *output_names(piece))
    sizes_bytes = [_bytes(name, ty, target) for name, ty in zip(names, (*piece.dom, *piece.cod), strict=True)]
    loaded, saved = sum(sizes_bytes[: len(piece.dom)]), sum(sizes_bytes[len(piece.dom) :])
    rate = target.chip.sustained_hbm_bytes_per_s
    return CallCost((loaded + saved) / rate + CALL_S, loaded, saved, 0)


def _bytes(name: str, ty: ArrayType, target: PlanTarget) -> int:
    kind = stored_type(name, ty, target.dtype)
    return element_bytes(kind) * math.prod(size_value(axis.size, target.sizes) for axis in ty.axes)
