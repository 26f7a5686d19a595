"""The kernels of a diagram on a chip, as text: the model's choice of tiles, and a few others that it proposes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from catdiag.category.ops import FoldOp, GroupOp, bodies
from catdiag.category.types import size_symbols
from catdiag.cost.traffic import io
from catdiag.measure.bench_case import KernelSource, evaluated
from catdiag.planner.derivation_search import attempts, memory
from catdiag.planner.fit import fit
from catdiag.planner.partition import planned_from
from catdiag.planner.plan import module_of
from catdiag.rewrite.derivation import derivation_of
from catdiag.rewrite.skip import skip
from catdiag.rewrite.stream.streaming import split
from catdiag.solvers.z3 import Z3
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from catdiag.category.diagram import Diagram, HasDiagram
    from catdiag.chip.hardware import Hardware
    from catdiag.planner.configuration_candidates import Proposal
    from catdiag.planner.multi_kernel_plan import Plans
    from catdiag.rewrite.derivation import Derivation

_NEAR = 2.0
"""How many times the predicted time of the best another derivation may take to be tried beside it."""


@dataclass(frozen=True)
class PlannedKernels:
    """A derivation for a chip, and the seconds that it takes by the model."""

    derivation: Derivation
    time_s: float
    plans: Plans | None = None
    """The plan, where it is of several kernels."""

    @property
    def kernels(self) -> int:
        """How many kernels it has."""
        return 1 if self.plans is None else len(self.plans.kernels)


@dataclass(frozen=True)
class Chosen:
    """What a module is written with: tiles by symbol, and stages and warps, one number or one for each kernel, and
    whether warps are specialized."""

    tiles: Mapping[str, int]
    stages: int | tuple[int, ...]
    warps: int | tuple[int, ...]
    specialized: bool | tuple[bool, ...] = False

    @staticmethod
    def of(proposal: Proposal) -> Chosen:
        """What is proposed."""
        return Chosen(dict(proposal.tiles), proposal.stages, proposal.warps, proposal.specialized)


def planned(
    diagram: Diagram | HasDiagram,
    hardware: Hardware | str,
    sizes: Mapping[str, int],
    dtype: str = "bf16",
    *,
    several: bool = False,
) -> tuple[PlannedKernels, ...]:
    """Derivations of a diagram that nobody put into loops, the one of least predicted time first; with `several`, that
    in several kernels.

    That in one kernel or several, as `Diagram.plan` has it; the one kernel of least time; that without the blocks that
    a mask empties; and that with its loop in parts. Where Triton can run none of them as the model proposes, those with
    a loop over another axis come first. `sizes` has scalar inputs too that say how often loops turn. Raises
    as `plan` does where nothing fits.

    >>> import catdiag as cd
    >>> found = planned(cd.library.get("matmul"), "H200", {"a": 4096, "b": 4096, "c": 4096})
    >>> [step.name for step in found[0].derivation.steps]
    ['stream b', 'group a c']
    """
    begun = derivation_of(diagram)
    source = begun.source
    axes = {a for ty in (*source.dom, *source.cod) for axis in ty.axes for a in size_symbols(axis.size)}
    lengths = {n: k for n, k in sizes.items() if n in axes or n not in source.input_names}
    plans = planned_from(begun, hardware, lengths, dtype=dtype, several=several)
    found = [PlannedKernels(plans.derivation, plans.time_s, plans if len(plans.kernels) > 1 else None)]
    single: Derivation | None = plans.derivation
    if len(plans.kernels) > 1:
        try:
            plans = planned_from(begun, hardware, lengths, dtype=dtype, cuts=0)
        except CatdiagError:
            single = None
        else:
            single = plans.derivation
            found.append(PlannedKernels(single, plans.time_s))
    if single is not None:
        found += _further(single, hardware, sizes, lengths, dtype)
    found = [*found[: int(several)], *sorted(found[int(several) :], key=lambda p: p.time_s)]
    if all(p.plans is None and not _proposals(p.derivation, hardware, sizes, dtype) for p in found):
        # Triton fills lengths up and keeps arrays elsewhere than the chip's own plan: another loop may still fit.
        others = _streamed(diagram, hardware, sizes, dtype)
        if not others and not several:
            with suppress(CatdiagError):
                others = list(planned(diagram, hardware, sizes, dtype, several=True))[:1]
        found = [*others, *found]
    return tuple(found)


def _further(
    single: Derivation, hardware: Hardware | str, sizes: Mapping[str, int], lengths: Mapping[str, int], dtype: str
) -> Iterator[PlannedKernels]:
    """One kernel with its loops in parts, and without the blocks that a mask empties, where that can be."""
    for step, axis in _steps(single):
        try:
            made = step(single, axis)
            fitted = fit(made, hardware, sizes if step is skip else lengths, dtype=dtype)
        except CatdiagError:  # no mask, or nothing that could run in parts
            continue
        yield PlannedKernels(made, fitted.time_s)


def _proposals(
    derivation: Derivation, hardware: Hardware | str, sizes: Mapping[str, int], dtype: str
) -> tuple[Proposal, ...]:
    """What is proposed for a derivation first; nothing where Triton has no kernel for it."""
    from catdiag.planner.launch_configurations import propose

    try:
        return propose(derivation, hardware, _of_form(derivation, sizes), dtype, most=1)
    except CatdiagError:
        return ()


def _streamed(
    diagram: Diagram | HasDiagram, hardware: Hardware | str, sizes: Mapping[str, int], dtype: str
) -> list[PlannedKernels]:
    """The diagram with a loop over any one axis, and grouped, where Triton has a kernel of it; the quickest first."""
    try:
        with Z3() as ask:
            tried, _ = attempts(diagram, ask, memory)
    except CatdiagError:
        return []
    found = []
    for derivation in (attempt.derivation for attempt in tried):
        for p in _proposals(derivation, hardware, sizes, dtype):
            found.append(PlannedKernels(derivation, p.time_s))
    return sorted(found, key=lambda p: p.time_s)


def _steps(single: Derivation) -> list[tuple[Callable[[Derivation, str], Derivation], str]]:
    """What may still be done to the loops of one kernel."""
    axes: dict[str, None] = {}
    todo = [single.diagram]
    while todo:
        for box in todo.pop().boxes:
            if isinstance(box.op, FoldOp):
                axes[box.op.axis] = None
            elif isinstance(box.op, GroupOp):
                todo.append(box.op.body)
    return [(step, axis) for axis in axes for step in (skip, split)]


def kernels_of(
    made: HasDiagram | PlannedKernels,
    hardware: Hardware | str,
    sizes: Mapping[str, int],
    dtype: str = "bf16",
    *,
    most: int = 3,
) -> list[KernelSource]:
    """At most `most` kernels for a derivation at sizes on a chip, the one that the model takes for the fastest first.

    `sizes` has scalar inputs too that say how often loops turn. What is planned in several kernels comes with its
    planned tiles only. Raises as `fit` does where nothing fits, and as the emitter does.

    >>> import catdiag as cd
    >>> product = cd.library.get("matmul").stream("b").group("a c")
    >>> kernels_of(product, "H200", {"a": 4096, "b": 4096, "c": 4096}, most=1)[0].entry
    'matmul'
    """
    if isinstance(made, PlannedKernels) and made.plans is not None:
        return _of_partition(made, made.plans, sizes, dtype, most)
    derivation = made.derivation if isinstance(made, PlannedKernels) else derivation_of(made)
    sizes = _of_form(derivation, sizes)
    found: list[KernelSource] = []
    problem: CatdiagError | None = None
    for choice in _choices(derivation, hardware, sizes, dtype, most):
        try:
            found.append(_kernel(derivation, choice, sizes, dtype))
        except CatdiagError as error:  # a tile that the emitter refuses; others may do
            problem = problem or error
    if not found and problem is not None:
        raise problem
    return found


def _of_form(derivation: Derivation, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes, with those scalar inputs only that say how often loops of this form turn."""
    inputs = set(derivation.diagram.input_names)
    lengths = {n: k for n, k in sizes.items() if n not in inputs}
    if len(lengths) == len(sizes):
        return lengths
    iterations = {str(s) for s in io(derivation.diagram).load.free_symbols}
    return {n: k for n, k in sizes.items() if n in lengths or n in iterations}


def _of_partition(
    made: PlannedKernels, plans: Plans, sizes: Mapping[str, int], dtype: str, most: int
) -> list[KernelSource]:
    """The modules of a plan of several kernels: as it is planned, and with one of the kernels as it is proposed."""
    found = [_kernel(made.derivation, c, sizes, dtype) for c in _ways(plans, most)]
    return [replace(kernel, about=f"{made.kernels} kernels: {kernel.about}") for kernel in found]


def _ways(plans: Plans, most: int) -> list[Chosen]:
    """At most so many choices for several kernels: the plan's own, and those that differ in one of them."""
    from catdiag.planner.fitted_configuration import each_dtype
    from catdiag.planner.launch_configurations import propose

    module_of(plans)
    mine = [kernel.plan for kernel in plans.kernels]
    own = [(p.tiles, p.stages, p.warps, p.warp_specialized) for p in mine]
    others: list[list[Proposal]] = [[] for _ in mine]
    for p, found in zip(mine, others, strict=True):
        if most > 1 and p.diagram is not None and p.chip is not None:
            dtypes = each_dtype(p.diagram, p.types)
            proposals = propose(p.diagram, p.chip, p.sizes, dtypes, most=most, **p.asked)
            found += [q for q in proposals if (q.tiles, q.stages, q.warps, q.specialized) not in own]
    ways = [own]
    for place in range(most):
        for k, found in enumerate(others):
            if place < len(found):
                q = found[place]
                ways.append([*own[:k], (q.tiles, q.stages, q.warps, q.specialized), *own[k + 1 :]])
    chosen = []
    for way in ways[:most]:
        tiles = {name: size for picked, *_ in way for name, size in picked.items()}
        chosen.append(Chosen(tiles, tuple(w[1] for w in way), tuple(w[2] for w in way), tuple(w[3] for w in way)))
    return chosen


def proposed(
    found: Sequence[PlannedKernels],
    hardware: Hardware | str,
    sizes: Mapping[str, int],
    dtype: str = "bf16",
    *,
    most: int = 3,
) -> list[KernelSource]:
    """At most `most` kernels of some derivations: one of each that is predicted to take at most twice as long as the
    first, and all others of the first. Raises as `kernels_of` does for the first."""
    near = [other for other in found[1:] if other.time_s <= _NEAR * found[0].time_s][: most - 1]
    others = []
    for other in near:
        try:
            kernel = kernels_of(other, hardware, sizes, dtype, most=1)[0]
        except CatdiagError:
            continue
        parts = _parts(other.derivation)
        if parts and all(kernel.options.get(symbol) == 1 for symbol in parts):
            continue  # one part is the loop that is not in parts, and a kernel more
        steps = ", ".join(step.name for step in other.derivation.steps)
        others.append(replace(kernel, about=f"{steps}: {kernel.about}"))
    return kernels_of(found[0], hardware, sizes, dtype, most=most - len(others)) + others


def _parts(made: Derivation) -> set[str]:
    """The symbols that say in how many parts loops run."""
    found: set[str] = set()
    todo = [made.diagram]
    while todo:
        for box in todo.pop().boxes:
            if isinstance(box.op, FoldOp) and box.op.parts is not None:
                found.add(box.op.parts)
            todo.extend(bodies(box.op))
    return found


def _choices(
    made: Derivation, hardware: Hardware | str, sizes: Mapping[str, int], dtype: str, most: int
) -> list[Chosen]:
    """Tiles, stages and warps, the model's first choice first."""
    from catdiag.planner.launch_configurations import propose

    return [Chosen.of(p) for p in propose(made, hardware, sizes, dtype, most=most)]


def _kernel(made: Any, chosen: Chosen, sizes: Mapping[str, int], dtype: str) -> KernelSource:
    from catdiag.codegen.triton.triton_module import module

    tiles, stages, warps = chosen.tiles, chosen.stages, chosen.warps
    text = module(made.diagram, tiles, dtype, stages=stages, warps=warps, specialized=chosen.specialized)
    shown = {s: sizes[s] for s in _needed(text.text, text.entry) if s in sizes}
    options = {**shown, **{t: tiles[t] for t in text.tiles}}
    if isinstance(warps, int) and isinstance(stages, int):  # else they are written into the module
        options |= {"num_warps": warps, "num_stages": stages}
    told = ", ".join(f"{name} {size}" for name, size in tiles.items() if size != 1)
    apart = ", loads apart" if text.specialized else ""
    return KernelSource(
        text.text,
        text.entry,
        options,
        loads_of(made, tiles, sizes, dtype),
        f"{told or 'no tiles'}, {_described(warps)} warps, {_described(stages)} stages{apart}",
    )


def _described(number: int | tuple[int, ...]) -> str:
    return str(number) if isinstance(number, int) else " and ".join(map(str, number))


def _needed(text: str, entry: str) -> list[str]:
    """The keywords of a function that have no default: sizes that no input shows."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == entry:
            arguments = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            return [a.arg for a, default in arguments if default is None]
    return []


def loads_of(made: Any, tiles: Mapping[str, int], sizes: Mapping[str, int], dtype: str) -> dict[str, float]:
    """The bytes that come down into a block's memory with these tiles, and those that go up, by formula: the most that
    can be, where loops ask arrays which blocks to run.

    >>> import catdiag as cd
    >>> product = cd.library.get("matmul").stream("b").group("a c")
    >>> loads_of(product, {"g_a": 64, "g_c": 64, "s_b": 32}, {"a": 256, "b": 256, "c": 256}, "bf16")
    {'load': 1048576.0, 'save': 131072.0}
    """
    counted = io(made, dtype=dtype, density=1)
    known = {**sizes, **tiles}
    return {"load": evaluated(counted.load, known), "save": evaluated(counted.save, known)}
