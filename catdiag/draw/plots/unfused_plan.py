"""The unfused reference schedule: each stage of a program, as named by its author, planned as a kernel of its own."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catdiag.cost.traffic import io
from catdiag.cost.traffic_by_level import levels_io
from catdiag.draw.plots.plot_numbers import Dtype, at
from catdiag.planner.equal_segments import DerivedKernel
from catdiag.planner.graph_segments import Segment, StageSequence
from catdiag.planner.kernel_candidates import PlanTarget
from catdiag.planner.partition import PartitionSearch
from catdiag.schedule.stored_types import output_names
from catdiag.solvers.z3 import Z3
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from catdiag.category.diagram import Diagram
    from catdiag.chip.hardware import Hardware
    from catdiag.planner.plan import KernelPlan

Moved = dict[str, dict[str, int]]
"""Bytes by array and direction, "load" or "save"."""


@dataclass(frozen=True)
class Stage:
    """A kernel: its schedule, its plan, and the traffic of each array.

    `inner` is across the edge to shared memory, `outer` across the edge out of slow memory (None where it is not
    counted by array).
    """

    schedule: str
    plan: KernelPlan
    inner: Moved
    outer: Moved | None


@dataclass(frozen=True)
class UnfusedSchedule:
    """All kernels, which run one after the other."""

    stages: tuple[Stage, ...]

    @property
    def time_s(self) -> float:
        """The predicted seconds of all kernels."""
        return sum(stage.plan.time_s for stage in self.stages)

    def crossing(self, upper: str, lower: str) -> int:
        """The bytes of all kernels that cross an edge."""
        return sum(
            e.bytes_moved for stage in self.stages for e in stage.plan.edges if (e.upper, e.lower) == (upper, lower)
        )

    @property
    def inner(self) -> Moved:
        """The traffic of each array across the edge to shared memory, in bytes."""
        return _together(stage.inner for stage in self.stages)

    @property
    def outer(self) -> Moved | None:
        """The traffic of each array across the edge out of slow memory, in bytes."""
        found = [stage.outer for stage in self.stages if stage.outer is not None]
        return _together(found) if len(found) == len(self.stages) else None


def _together(parts: Any) -> Moved:
    found: Moved = {}
    for part in parts:
        for name, amounts in part.items():
            there = found.setdefault(name, {"load": 0, "save": 0})
            for direction, amount in amounts.items():
                there[direction] += amount
    return found


def unfused_schedule(
    source: Diagram, chip: Hardware, sizes: Mapping[str, int], dtype: Dtype, ask: Any = None
) -> UnfusedSchedule:
    """The kernels of a diagram without derivation, each with the schedule and tiles of least predicted time.

    Each is chosen and proved as in a plan (`catdiag.planner.partition`). Raises CatdiagError where a kernel does not
    fit, and for element types by array, because saved arrays need types too.

    >>> import catdiag as cd
    >>> f = cd.algorithm("q x -> q")(lambda A: cd.max(cd.softmax(A, "x"), "x"))
    >>> found = unfused_schedule(f, cd.hardware.get("H100"), {"q": 512, "x": 256}, "bf16")
    >>> [stage.schedule for stage in found.stages], found.inner["softmax [q x]"]["save"]
    (['group q', 'stream x, group q'], 262144)
    """
    if not isinstance(dtype, str):
        raise CatdiagError("saved arrays need an element type too: expected one dtype for all arrays, such as 'bf16'")
    row = StageSequence(source)
    if not row.stages:
        raise CatdiagError(f"{source.title or 'the diagram'} computes nothing: expected at least one box for a kernel")
    labels = _labels(row)
    with Z3() if ask is None else nullcontext(ask) as solver:
        search = PartitionSearch(row, PlanTarget(chip, sizes, dtype), solver)
        spans = tuple((k, k + 1) for k in range(len(row.stages)))
        kernels = search.kernels(spans)
    return UnfusedSchedule(
        tuple(
            _stage(row.segment(*span), kernel, search.target_of(span), labels)
            for span, kernel in zip(spans, kernels, strict=True)
        )
    )


def _labels(row: StageSequence) -> dict[int, str]:
    """The names of wires: outputs as in `io`, and arrays with the same name numbered."""
    found: dict[int, str] = {}
    for name, w in zip(output_names(row.diagram), row.graph.outputs):
        found[w] = found[row.root[w]] = name
    seen: dict[str, int] = {}
    for w in sorted({w for k in range(len(row.stages)) for w in _wires(row, k)}):
        if w not in found:
            name = row.names[w]
            seen[name] = seen.get(name, 0) + 1
            found[w] = name if seen[name] == 1 else f"{name} ({seen[name]})"
    return found


def _wires(row: StageSequence, k: int) -> tuple[int, ...]:
    segment = row.segment(k, k + 1)
    return (*segment.reads, *segment.makes)


def _stage(segment: Segment, kernel: DerivedKernel, target: PlanTarget, labels: Mapping[int, str]) -> Stage:
    plan = kernel.plan
    names = dict(zip(segment.diagram.input_names, (labels[w] for w in segment.reads)))
    names.update(zip(output_names(segment.diagram), (labels[w] for w in segment.makes)))
    counted = io(kernel.diagram, dtype=target.dtype)
    inner = moved(counted.traffic, {**plan.sizes, **plan.tiles}, names)
    return Stage(str(kernel.schedule), plan, inner, outer(kernel.diagram, plan, target.chip, target.dtype, names))


def moved(traffic: Any, sizes: Mapping[str, int], names: Mapping[str, str] | None = None) -> Moved:
    """The traffic of each array by direction, at sizes."""
    found: Moved = {}
    for t in traffic:
        there = found.setdefault((names or {}).get(t.array, t.array), {"load": 0, "save": 0})
        there[t.direction] += int(at(t.exact, sizes))
    return found


def outer(
    run: Any, plan: KernelPlan, chip: Hardware, dtype: Dtype, names: Mapping[str, str] | None = None
) -> Moved | None:
    """The traffic of each array out of slow memory under a cache: the fetches of waves of groups, in launch order.

    None where that is not counted, or there is no cache.
    """
    top = plan.edges[0]
    if top.lower == "SMEM":
        return None
    wave = plan.blocks_per_sm * chip.sms
    try:
        found = levels_io(run, chip.hierarchy.chain(top.upper, top.lower, "SMEM"), dtype=dtype, wave=wave)
        traffic = found.edges[top.upper, top.lower].traffic
        return moved(traffic, {**plan.sizes, **plan.tiles}, names)
    except CatdiagError:
        return None
