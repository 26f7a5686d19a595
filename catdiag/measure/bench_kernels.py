"""The kernels of a diagram to benchmark on a chip: the time model's first configuration, and further candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from catdiag.chip import hardware as chips
from catdiag.codegen.triton.tile_runs import most_programs
from catdiag.codegen.triton.triton_module import module
from catdiag.cost.traffic import io
from catdiag.measure.bench_case import KernelSource, evaluated
from catdiag.planner.derivation_search import attempts, memory
from catdiag.planner.multi_kernel_plan import Plan
from catdiag.planner.partition import plan
from catdiag.rewrite.derivation import derivation_of
from catdiag.schedule.split_k import parts_by_block
from catdiag.solvers.z3 import borrowed
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from catdiag.category.diagram import Diagram, HasDiagram
    from catdiag.chip.hardware import Hardware
    from catdiag.codegen.triton.generated_module import Module
    from catdiag.planner.configuration_proposal import Proposal
    from catdiag.rewrite.derivation import Derivation

_NEAR = 2.0
"""Another derivation is tried if its predicted time is at most this multiple of the best one's."""


@dataclass(frozen=True)
class PlannedKernels:
    """A derivation for a chip, and its predicted time in seconds."""

    derivation: Derivation
    time_s: float
    plans: Plan | None = None
    """The plan, if it has several kernels."""

    @property
    def kernels(self) -> int:
        """The number of kernels."""
        return 1 if self.plans is None else len(self.plans.kernels)


@dataclass(frozen=True)
class Chosen:
    """A configuration of a module: tile lengths by symbol, pipeline stages, warps, and warp specialization.

    The last three have one value, or one for each kernel. `time_s` is the predicted time of all of them.
    """

    tiles: Mapping[str, int]
    stages: int | tuple[int, ...]
    warps: int | tuple[int, ...]
    specialized: bool | tuple[bool, ...] = False
    time_s: float | None = None

    @staticmethod
    def of(proposal: Proposal) -> Chosen:
        """The configuration of a proposal."""
        return Chosen(dict(proposal.tiles), proposal.stages, proposal.warps, proposal.specialized, proposal.time_s)


def planned(
    diagram: Diagram | HasDiagram,
    hardware: Hardware | str,
    sizes: Mapping[str, int],
    dtype: str = "bf16",
    *,
    several: bool = False,
) -> tuple[PlannedKernels, ...]:
    """Derivations of a diagram without loops, by predicted time; with `several`, the one of several kernels is first.

    They are the plan of `Program.plan`, which may have several kernels, and the fastest single kernel. If Triton has no
    kernel for these, derivations that stream another axis come first. `sizes` includes scalar inputs on which trip
    counts depend. Raises the errors of `plan` if nothing fits.

    >>> import catdiag as cd
    >>> found = planned(cd.library.get("matmul"), "H200", {"a": 4096, "b": 4096, "c": 4096})
    >>> [step.name for step in found[0].derivation.steps]
    ['stream b', 'group a c']
    """
    original = derivation_of(diagram)
    best = plan(original, hardware, sizes, dtype=dtype, several=several)
    found = [PlannedKernels(best.derivation, best.time_s, best if len(best.kernels) > 1 else None)]
    if len(best.kernels) > 1:
        with suppress(CatdiagError):
            best = plan(original, hardware, sizes, dtype=dtype, cuts=0)
            found.append(PlannedKernels(best.derivation, best.time_s))
    found = [*found[: int(several)], *sorted(found[int(several) :], key=lambda p: p.time_s)]
    if all(p.plans is None and not _proposals(p.derivation, hardware, sizes, dtype) for p in found):
        # Triton pads lengths and allocates differently from the ideal model of the plan: another loop may still fit.
        others = _streamed(diagram, hardware, sizes, dtype)
        if not others and not several:
            with suppress(CatdiagError):
                others = list(planned(diagram, hardware, sizes, dtype, several=True))[:1]
        found = [*others, *found]
    return tuple(found)


def _proposals(
    derivation: Derivation, hardware: Hardware | str, sizes: Mapping[str, int], dtype: str
) -> tuple[Proposal, ...]:
    """The first proposal for a derivation; empty if Triton has no kernel for it."""
    from catdiag.planner.launch_configurations import propose

    try:
        return propose(derivation, hardware, _of_form(derivation, sizes), dtype, most=1)
    except CatdiagError:
        return ()


def _streamed(
    diagram: Diagram | HasDiagram, hardware: Hardware | str, sizes: Mapping[str, int], dtype: str
) -> list[PlannedKernels]:
    """The diagram streamed along one axis and grouped, for each axis that gives a Triton kernel; the fastest first."""
    try:
        with borrowed() as ask:
            tried, _ = attempts(diagram, ask, memory)
    except CatdiagError:
        return []
    found = []
    for derivation in (attempt.derivation for attempt in tried):
        for p in _proposals(derivation, hardware, sizes, dtype):
            found.append(PlannedKernels(derivation, p.time_s))
    return sorted(found, key=lambda p: p.time_s)


def kernels_of(
    made: HasDiagram | PlannedKernels,
    hardware: Hardware | str,
    sizes: Mapping[str, int],
    dtype: str = "bf16",
    *,
    most: int = 3,
) -> list[KernelSource]:
    """At most `most` kernels for a derivation at sizes on a chip, the predicted fastest first.

    `sizes` includes scalar inputs on which trip counts depend. For a plan of several kernels, the configuration of one
    kernel at a time is varied. Raises the errors of `fit` if nothing fits, and those of the code generator.

    >>> import catdiag as cd
    >>> product = cd.library.get("matmul").stream("b").group("a c")
    >>> kernels_of(product, "H200", {"a": 4096, "b": 4096, "c": 4096}, most=1)[0].entry
    'matmul'
    """
    if isinstance(made, PlannedKernels) and made.plans is not None:
        return _of_partition(made, made.plans, hardware, sizes, dtype, most)
    derivation = made.derivation if isinstance(made, PlannedKernels) else derivation_of(made)
    sizes = _of_form(derivation, sizes)
    found: list[KernelSource] = []
    problem: CatdiagError | None = None
    for choice in _choices(derivation, hardware, sizes, dtype, most):
        try:
            found.append(_kernel(derivation, choice, sizes, dtype, hardware))
        except CatdiagError as error:  # the code generator refuses these tiles; others may work
            problem = problem or error
    if not found and problem is not None:
        raise problem
    return found


def kernel_of(plan: Plan) -> KernelSource:
    """The module of a plan, as it is: what `plan.compile()` runs; its transfers are left out.

    Raises CatdiagError for a plan of the ideal model.

    >>> import catdiag as cd
    >>> kernel_of(cd.library.get("matmul").plan("H200", {"a": 4096, "b": 4096, "c": 4096})).about
    'g_a 128, g_c 256, s_b 64, 8 warps, 3 stages'
    """
    (chosen,) = _variations(plan, 1)
    source = _source(plan.written(), chosen, plan.sizes, {})
    count = len(plan.kernels)
    return source if count == 1 else replace(source, about=f"{count} kernels: {source.about}")


def _of_form(derivation: Derivation, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes, with only those scalar inputs on which the trip counts of this derivation depend."""
    inputs = set(derivation.diagram.input_names)
    lengths = {n: k for n, k in sizes.items() if n not in inputs}
    if len(lengths) == len(sizes):
        return lengths
    iterations = {str(s) for s in io(derivation.diagram).load.free_symbols}
    return {n: k for n, k in sizes.items() if n in lengths or n in iterations}


def _of_partition(
    made: PlannedKernels, plan: Plan, hardware: Hardware | str, sizes: Mapping[str, int], dtype: str, most: int
) -> list[KernelSource]:
    """The modules of a plan of several kernels: the plan's own, and those with another configuration of one kernel."""
    found = [_kernel(made.derivation, c, sizes, dtype, hardware) for c in _variations(plan, most)]
    return [replace(kernel, about=f"{made.kernels} kernels: {kernel.about}") for kernel in found]


def _variations(plan: Plan, most: int) -> list[Chosen]:
    """At most `most` configurations of several kernels: the plan's own, and those that differ in one kernel."""
    from catdiag.planner.launch_configurations import propose

    plan.written()
    mine = plan.kernels
    own = [(p.tiles, p.stages, p.warps, p.warp_specialized, p.time_s) for p in mine]
    others: list[list[Proposal]] = [[] for _ in mine]
    for p, found in zip(mine, others, strict=True):
        if most > 1 and p.diagram is not None and p.chip is not None:
            dtypes = p.types
            proposals = propose(p.diagram, p.chip, p.sizes, dtypes, most=most, **p.asked)
            taken = [configuration[:-1] for configuration in own]
            found += [q for q in proposals if (q.tiles, q.stages, q.warps, q.specialized) not in taken]
    variations = [own]
    for place in range(most):
        for k, found in enumerate(others):
            if place < len(found):
                q = found[place]
                other = (q.tiles, q.stages, q.warps, q.specialized, q.time_s)
                variations.append([*own[:k], other, *own[k + 1 :]])
    chosen = []
    for varied in variations[:most]:
        tiles = {name: size for picked, *_ in varied for name, size in picked.items()}
        _, stages, warps, specialized, times_s = zip(*varied, strict=True)
        time_s = sum(times_s) + plan.gap_s * (len(varied) - 1)
        chosen.append(Chosen(tiles, stages, warps, specialized, time_s))
    return chosen


def proposed(
    found: Sequence[PlannedKernels],
    hardware: Hardware | str,
    sizes: Mapping[str, int],
    dtype: str = "bf16",
    *,
    most: int = 3,
) -> list[KernelSource]:
    """At most `most` kernels of some derivations.

    There is one for each derivation whose predicted time is at most twice the first one's; all others are of the first.
    Raises the errors of `kernels_of` for the first.
    """
    near = [other for other in found[1:] if other.time_s <= _NEAR * found[0].time_s][: most - 1]
    others = []
    for other in near:
        try:
            kernel = kernels_of(other, hardware, sizes, dtype, most=1)[0]
        except CatdiagError:
            continue
        parts = parts_by_block(other.derivation.diagram).values()
        if parts and all(kernel.options.get(symbol) == 1 for symbol in parts):
            continue  # a loop split into one part is the unsplit loop with one kernel more
        steps = ", ".join(step.name for step in other.derivation.steps)
        others.append(replace(kernel, about=f"{steps}: {kernel.about}"))
    return kernels_of(found[0], hardware, sizes, dtype, most=most - len(others)) + others


def _choices(
    made: Derivation, hardware: Hardware | str, sizes: Mapping[str, int], dtype: str, most: int
) -> list[Chosen]:
    """The configurations that the time model proposes, its first choice first."""
    from catdiag.planner.launch_configurations import propose

    return [Chosen.of(p) for p in propose(made, hardware, sizes, dtype, most=most)]


def _kernel(made: Any, chosen: Chosen, sizes: Mapping[str, int], dtype: str, hardware: Hardware | str) -> KernelSource:
    text = module(
        made.diagram, chosen.tiles, dtype, stages=chosen.stages, warps=chosen.warps, specialized=chosen.specialized,
        l2_bytes=chips.get(hardware).l2_bytes, programs=most_programs(chips.get(hardware).sms),
    )  # fmt: skip
    counted = len(set(parts_by_block(made.diagram).values())) < 2  # no formula is of several loops in parts
    return _source(text, chosen, sizes, loads_of(made, chosen.tiles, sizes, dtype) if counted else {})


def _source(text: Module, chosen: Chosen, sizes: Mapping[str, int], loads: Mapping[str, float]) -> KernelSource:
    """A module with its launch options and its description."""
    tiles, stages, warps = chosen.tiles, chosen.stages, chosen.warps
    shown = {s: sizes[s] for s in text.hidden_sizes if s in sizes}
    options = {**shown, **{t: tiles[t] for t in text.tiles}}
    if isinstance(warps, int) and isinstance(stages, int):  # if not, they are defaults of the module
        options |= {"num_warps": warps, "num_stages": stages}
    lengths = ", ".join(f"{name} {size}" for name, size in tiles.items() if size != 1)
    specialized = ", warp-specialized" if text.specialized else ""
    return KernelSource(
        text.text,
        text.entry,
        options,
        loads,
        f"{lengths or 'no tiles'}, {_described(warps)} warps, {_described(stages)} stages{specialized}",
        chosen.time_s,
    )


def _described(number: int | tuple[int, ...]) -> str:
    return str(number) if isinstance(number, int) else " and ".join(map(str, number))


def loads_of(made: Any, tiles: Mapping[str, int], sizes: Mapping[str, int], dtype: str) -> dict[str, float]:
    """The transfers (H) at the edge into shared memory with these tiles, in bytes: "load" down, "save" up, by formula.

    If arrays decide which blocks run, all blocks are counted.

    >>> import catdiag as cd
    >>> product = cd.library.get("matmul").stream("b").group("a c")
    >>> loads_of(product, {"g_a": 64, "g_c": 64, "s_b": 32}, {"a": 256, "b": 256, "c": 256}, "bf16")
    {'load': 1048576.0, 'save': 131072.0}
    """
    counted = io(made, dtype=dtype, density=1)
    known = {**sizes, **tiles}
    return {"load": evaluated(counted.load, known), "save": evaluated(counted.save, known)}
