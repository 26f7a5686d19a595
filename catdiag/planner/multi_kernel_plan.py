"""What `plan` finds: the kernels of a diagram in order, what passes between them, and what other ways would take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from catdiag.category.diagram import Diagram
from catdiag.category.ops import Map
from catdiag.category.types import BYTES, size_value
from catdiag.planner.plan import IDEAL, TRITON, Plan, kernel_of, module_of, plural, shown
from catdiag.util.errors import NotFusable

if TYPE_CHECKING:
    from catdiag.codegen.triton.triton_module import Module
    from catdiag.prover.api import Theorem
    from catdiag.rewrite.derivation import Derivation
    from catdiag.runtime.compile import CompiledKernel

LAUNCH_S = 2e-6
"""Seconds from the end of a kernel to the start of the next, when both are in the queue: an assumption."""


@dataclass(frozen=True)
class PlannedKernel:
    """A kernel: the part of the diagram that it runs, derived with a theorem of its own, and its tiles on the chip.

    `schedule` is how it runs in words; `reads` and `makes` are arrays by name, `makes` with the bytes that are saved.
    `derivation` is None where it runs as it is written. Its tiles are called as in the diagram of the whole.
    """

    diagram: Diagram
    schedule: str
    derivation: Derivation | None
    plan: Plan
    reads: tuple[str, ...]
    makes: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        plan = self.plan
        made = ", ".join(f"{name} ({size:,} bytes)" for name, size in self.makes)
        return "\n".join(
            [
                f"{', '.join(self.reads)} → {made}",
                f"  {self.schedule}: {shown(plan.tiles)}; {plural(plan.stages, 'buffer')}, "
                f"{plural(plan.threads, 'thread')}",
                f"  {plan.kernel}; {plan.shared_memory_bytes:,} bytes of shared memory",
                f"  {1e6 * plan.time_s:,.1f} µs, bound by {plan.bound}",
            ]
        )


@dataclass(frozen=True)
class PartitionAlternative:
    """Another way: how many kernels, which arrays it saves, and the predicted seconds; without `time_s`, why it does
    not fit. `flops` and `bytes_moved` (at the edge to shared memory) are 0 where they are not known. `recomputed` says
    what turns of its loops make for products, and in how many tiles."""

    kernels: int
    saved: tuple[str, ...]
    time_s: float | None
    misfit: str = ""
    flops: int = 0
    bytes_moved: int = 0
    recomputed: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The way in words."""
        return "one kernel" if self.kernels == 1 else f"{self.kernels} kernels, saving {', '.join(self.saved)}"

    def against(self, time_s: float, flops: int = 0, bytes_moved: int = 0) -> str:
        """What it takes beside another way with these numbers, or why it does not fit."""
        if self.time_s is None:
            first, *rest = self.misfit.splitlines()
            over = next((line.strip() for line in rest if "too much for" in line), "")
            return f"{first} {over}".strip().rstrip(":")
        words = f"{1e6 * self.time_s:,.1f} µs, {self.time_s / time_s:.2f} times the time"
        if self.flops and flops:
            words += f"; {self.flops / flops:.2f} times the FLOPs"
        if self.bytes_moved and bytes_moved:
            words += f", {self.bytes_moved / bytes_moved:.2f} times the bytes at the edge to shared memory"
        if self.recomputed and self.time_s > time_s:
            words += f"; products wait for {', '.join(self.recomputed)}, each through registers in every turn"
        if self.kernels > 1 and self.time_s < time_s:
            words += "; too little quicker, as predictions go, to save arrays for"
        return words


@dataclass(frozen=True)
class Plans:
    """A diagram in kernels for a chip: the least predicted time found over the ways to cut it.

    `derivation` is of the whole: in its diagram each kernel is a Group box on the outermost level, in order, and the
    theorem says that all of them together mean the source. Outside of them are views, positions, sizes and constants.
    No tile or block of one kernel is called as one of another, so that `tiles` is one mapping for all.
    `saved` are the arrays that pass from kernel to kernel, each with its bytes, in the `dtype` of the plan; statistics
    (`catdiag.schedule.full_precision`) in fp32, or wider.
    `alternatives` are other ways: first everything in one kernel, where it was not taken.
    """

    source: Diagram
    derivation: Derivation
    kernels: tuple[PlannedKernel, ...]
    saved: tuple[tuple[str, int], ...]
    alternatives: tuple[PartitionAlternative, ...]
    seconds: float
    """Of computing, to find the plan and prove it."""
    dtype: str
    """The type of inputs, results and what is saved, but for statistics."""
    module: Module | None = field(default=None, repr=False, compare=False)
    """What is written for Triton, with the tiles, stages and warps of the kernels' plans."""
    reason: str = ""
    """Why there is no module."""

    @property
    def diagram(self) -> Diagram:
        """The derived diagram."""
        return self.derivation.diagram

    @property
    def theorem(self) -> Theorem:
        """That the kernels together mean the source, for all sizes, tiles and blocks."""
        return self.derivation.theorem

    @property
    def tiles(self) -> dict[str, int]:
        """The tiles and blocks of all kernels, by symbol."""
        return {name: size for kernel in self.kernels for name, size in kernel.plan.tiles.items()}

    @property
    def time_s(self) -> float:
        """The predicted seconds of the kernels one after the other, with `LAUNCH_S` between two."""
        return sum(k.plan.time_s for k in self.kernels) + LAUNCH_S * (len(self.kernels) - 1)

    @property
    def flops(self) -> int:
        """FLOPs of products, of all kernels."""
        return sum(k.plan.flops for k in self.kernels)

    @property
    def hbm_bytes(self) -> int:
        """Bytes that cross the edge to HBM, of all kernels."""
        return sum(k.plan.hbm_bytes for k in self.kernels)

    @property
    def bytes_moved(self) -> int:
        """Bytes that cross the edge to shared memory, of all kernels."""
        return sum(k.plan.bytes_moved for k in self.kernels)

    @property
    def backend(self) -> str:
        """Of what its kernels are: "triton" where they are those of the module that is written, else "ideal"."""
        return IDEAL if self.module is None else TRITON

    def triton(self) -> str:
        """The kernels as one Triton module: its text (see `catdiag.codegen.triton`), each with the tiles, stages and
        warps of its plan. Raises CatdiagError where the plan is of the ideal model, with the reason."""
        return module_of(self).text

    def compile(self) -> CompiledKernel:
        """The kernels as one function of torch tensors, registered with torch (see `catdiag.runtime.compile`).

        It is that of `triton`. The same plan gives the same function. Raises what `triton` does, and CatdiagError
        where torch or triton is not installed.
        """
        if "kernel" not in self._compiled:
            self._compiled["kernel"] = kernel_of(self)
        return self._compiled["kernel"]

    @cached_property
    def _compiled(self) -> dict[str, CompiledKernel]:
        """The function, once it was asked for."""
        return {}

    def explanation(self) -> tuple[str, ...]:
        """Against each rival: what it would take, or why it does not fit."""
        return tuple(f"{r.name}: {r.against(self.time_s, self.flops, self.bytes_moved)}" for r in self.alternatives)

    def __str__(self) -> str:
        first = self.kernels[0].plan
        sizes: dict[str, int] = {}
        for kernel in self.kernels:
            sizes.update(kernel.plan.sizes)
        lines = [
            f"{plural(len(self.kernels), 'kernel')} on {first.hardware}, {self.dtype}, "
            f"{', '.join(f'{n}={s}' for n, s in sizes.items())}: {1e6 * self.time_s:,.1f} µs predicted"
        ]
        for number, kernel in enumerate(self.kernels, 1):
            head, *rest = str(kernel).splitlines()
            lines += [f"{number}. {head}", *(f"   {line}" for line in rest)]
        lines += [f"saved      {name}: {size:,} bytes, then loaded" for name, size in self.saved]
        lines.append(
            f"traffic    {self.bytes_moved:,} bytes at the edge to shared memory, {self.hbm_bytes:,} at that to HBM; "
            f"{self.flops:,} FLOPs of products"
        )
        lines += [f"{'instead of' if not k else '':10} {words}" for k, words in enumerate(self.explanation())]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "time_s": self.time_s,
            "launch_s": LAUNCH_S,
            "backend": self.backend,
            "reason": self.reason,
            "tiles": self.tiles,
            "saved": [{"array": name, "bytes": size} for name, size in self.saved],
            "kernels": [
                {
                    "schedule": k.schedule,
                    "reads": list(k.reads),
                    "makes": [{"array": name, "bytes": size} for name, size in k.makes],
                    "plan": k.plan.as_dict(),
                }
                for k in self.kernels
            ],
            "rivals": [
                {
                    "kernels": r.kernels,
                    "saved": list(r.saved),
                    "time_s": r.time_s,
                    "does_not_fit": r.misfit or None,
                }
                for r in self.alternatives
            ],
        }


def continued(begun: Derivation, plans: Plans) -> Plans:
    """The plan of a derivation's diagram as one of what it was derived from: its steps first, and the theorem anew.

    >>> import catdiag as cd
    >>> plain = cd.algorithm("a b, b c -> a c", name="plain")(lambda A, B: cd.sum(A * B, "b"))
    >>> found = plain.distribute("b").plan("H200", {"a": 512, "b": 512, "c": 512})
    >>> [step.name for step in found.derivation.steps], found.source.title
    (['distribute b', 'stream b', 'group a c'], 'plain')

    Raises NotFusable where that is not proved.
    """
    from catdiag.planner.kernel_schedules import proved

    if not begun.steps:
        return plans
    last = plans.derivation
    theorem = proved(begun.ask, begun.source, last.diagram, True)
    if theorem is None:
        raise NotFusable(f"the kernels were not proved to mean {begun.source.title or 'what they were derived from'}")
    steps = (*begun.steps, *last.steps[:-1], replace(last.steps[-1], theorem=theorem))
    return replace(plans, source=begun.source, derivation=replace(last, source=begun.source, steps=steps))


def bytes_of(
    diagram: Diagram,
    dtype: str | Mapping[str, str],
    sizes: Mapping[str, int],
    results: Sequence[bool] = (),
) -> tuple[int, ...]:
    """What the outputs of a diagram take in slow memory, in `dtype`, or theirs by name; what a cast makes is saved in
    the type that it says, but for those that are results.

    >>> import catdiag as cd
    >>> bytes_of(cd.library.get("matmul"), "bf16", {"a": 8, "b": 8, "c": 4})
    (64,)
    >>> bytes_of(cd.algorithm("a")(lambda A: cd.cast(A, "fp32")), "bf16", {"a": 8}, [False])
    (32,)
    """
    from catdiag.schedule.kernel_analysis import output_names, width

    made = {}
    count, names = len(diagram.dom), output_names(diagram)
    for node in diagram.graph.nodes:
        made.update(dict.fromkeys(range(count, count + len(node.box.cod)), node.box.op))
        count += len(node.box.cod)
    found: list[int] = []
    for place, ty in enumerate(diagram.cod):
        kind = dtype if isinstance(dtype, str) else dtype.get(names[place], "fp32")
        number = {"bool": 1, "int": 4}.get(ty.element, width(kind))
        op = made.get(diagram.graph.outputs[place])
        if place < len(results) and not results[place] and isinstance(op, Map) and op.fn.startswith("cast:"):
            number = BYTES[op.fn[5:]]
        for axis in ty.axes:
            number *= size_value(axis.size, sizes)
        found.append(number)
    return tuple(found)
