"""The plans of a program and of its gradient for training: the forward pass, and the backward pass."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from catdiag.category.diagram import Diagram
from catdiag.category.ops import Box
from catdiag.category.types import STORED, size_value
from catdiag.chip.hardware import Hardware
from catdiag.planner.multi_kernel_plan import Plan
from catdiag.planner.partition import plan
from catdiag.rewrite.differentiate.forward_and_backward import ForwardAndBackward, forward_and_backward
from catdiag.runtime.compile import TrainingKernels
from catdiag.schedule.element_widths import width
from catdiag.schedule.kernel_analysis import given_sizes
from catdiag.schedule.stored_types import element_types, output_names, rest_type
from catdiag.solvers.z3 import Z3, shared

EXPENSIVE, PRODUCT_BYTES = 2.0, 2
"""How many times as long a saved product takes to compute again as to write and read, at least, and the bytes of an
entry that this goes by."""


@dataclass(frozen=True)
class TrainingPlans:
    """The plans of both passes (`catdiag.rewrite.differentiate.forward_and_backward`), each with its theorem.

    What the forward pass saves beside results is in fp32, or wider, but for products, which have the type of results.
    """

    passes: ForwardAndBackward
    forward: Plan
    backward: Plan

    @property
    def time_s(self) -> float:
        """Predicted seconds of both."""
        return self.forward.time_s + self.backward.time_s


def training_plans(
    source: Diagram,
    chip: Hardware,
    sizes: Mapping[str, int],
    dtype: str | Mapping[str, str],
    wrt: Sequence[int],
    ask: Z3 | None = None,
    deterministic: bool = False,
) -> TrainingPlans:
    """The plans of a program's forward pass, and of the backward pass to its inputs `wrt` (numbers).

    `dtype` is that of the program's arrays, or theirs by name; `deterministic` as of
    `catdiag.planner.partition.searching`. Raises NotDifferentiable and NotProved, and as
    `catdiag.planner.partition.plan` does.

    >>> import catdiag as cd
    >>> rows = cd.algorithm("t d -> t d")(lambda a: a * cd.sum(a * a, "d"))
    >>> both = training_plans(rows.diagram, cd.hardware.H200, {"t": 4096, "d": 1024}, "bf16", [0])
    >>> [len(plan.kernels) for plan in (both.forward, both.backward)], both.backward.dtypes["saved0"]
    ([1, 1], 'fp32')
    """
    solver = ask or shared()

    def passes(most_bytes: int) -> ForwardAndBackward:
        expensive = partial(_is_expensive, chip, most_bytes, sizes)
        return forward_and_backward(source, solver, wrt=list(wrt), expensive=expensive)

    ends = _bytes_of_ends(source, sizes, element_types(source, dtype))
    made = _plans(source, passes(ends), chip, sizes, dtype, deterministic)
    passing = max((size for _, size in made.forward.saved), default=0)
    if passing > ends:  # memory that the forward pass takes anyway, for as long as it runs
        other = passes(passing)
        if (other.saved, other.forward.cod) != (made.passes.saved, made.passes.forward.cod):
            further = _plans(source, other, chip, sizes, dtype, deterministic)
            return further if further.time_s < made.time_s else made
    return made


def _plans(
    source: Diagram,
    passes: ForwardAndBackward,
    chip: Hardware,
    sizes: Mapping[str, int],
    dtype: str | Mapping[str, str],
    deterministic: bool,
) -> TrainingPlans:
    """The plans of the passes of a program."""
    types = element_types(source, dtype)
    inputs = [types[name] for name in source.input_names]
    results = [types[name] for name in output_names(source)]
    statistic = max("fp32", max(results, key=width), key=width)
    further = range(len(results), len(passes.forward.cod))
    made = [*results, *(max(results, key=width) if k in passes.products else statistic for k in further)]
    read = [inputs[k] for k in passes.reads], [made[k] for k in passes.saved], [results[k] for k in passes.of]
    of_passes = (
        (passes.forward, [*inputs, *made]),
        (passes.backward, [*(kind for some in read for kind in some), *(inputs[k] for k in passes.wrt)]),
    )
    plans = []
    for diagram, kinds in of_passes:
        names = (*diagram.input_names, *output_names(diagram))
        arrays = (*diagram.dom, *diagram.cod)
        given = {n: kind for n, ty, kind in zip(names, arrays, kinds, strict=True) if ty.element not in STORED}
        given["*"] = rest_type(dtype)
        needed = given_sizes(diagram)
        lengths = {n: size for n, size in sizes.items() if n in needed}
        plans.append(plan(diagram, chip, lengths, dtype=given, deterministic=deterministic))
    return TrainingPlans(passes, *plans)


def _bytes_of_ends(source: Diagram, sizes: Mapping[str, int], types: Mapping[str, str]) -> int:
    """The bytes of a program's inputs and results."""
    names = (*source.input_names, *output_names(source))
    return sum(
        width(types[name]) * math.prod(size_value(a.size, sizes) for a in ty.axes)
        for name, ty in zip(names, (*source.dom, *source.cod), strict=True)
        if ty.element not in STORED
    )


def _is_expensive(chip: Hardware, most_bytes: int, sizes: Mapping[str, int], box: Box) -> bool:
    """Whether a product takes `EXPENSIVE` times as long to compute again as to write and read, and no more than so many
    bytes: those of all inputs and results, or of an array that the forward pass writes and reads in any case. Of a sum
    of rows that integers place, which moves each row twice, the latter alone."""
    if len(box.dom) > 2 or box.cod[0].element != "real":
        return False
    lengths = {a.name: size_value(a.size, sizes) for ty in box.dom for a in ty.axes}
    moved = 2 * PRODUCT_BYTES * math.prod(lengths[a.name] for a in box.cod[0].axes)
    if len(box.dom) == 1:
        return moved <= 2 * most_bytes
    again = 2 * math.prod(lengths.values()) / (chip.tensor.get("bf16", math.inf) * chip.sustained["tensor"])
    return moved <= 2 * most_bytes and again > EXPENSIVE * moved / chip.sustained_hbm_bytes_per_s


def training_kernels(planned: Plan, wrt: tuple[int, ...]) -> TrainingKernels:
    """The kernels of both passes of what was planned, for the same chip, sizes and types. Sizes that no array shows
    which a pass reads, such as that of the table by which an embedding is differentiated, are those of the plan. Raises
    as `training_plans` and `Plan.compile` do."""
    assert planned.chip is not None, "a plan is for a chip"
    ask = planned.derivation.ask
    made = training_plans(planned.source, planned.chip, planned.sizes, planned.dtypes, wrt, ask, planned.deterministic)
    forward, backward = (plan.compile().at(sizes=planned.sizes) for plan in (made.forward, made.backward))
    return TrainingKernels(made.passes, forward, backward)
