"""The backend of `torch.compile(model, backend="catdiag")`.

Regions of a graph that catdiag imports and plans, and predicts to be quicker by enough than Inductor
(`catdiag.integrations.inductor_model`), become operators in the graph, and Inductor compiles the rest. Where nothing is
taken, Inductor gets the graph as Dynamo made it. The logger of this module says region by region what was taken, what
was not, and why: `logging.getLogger("catdiag.integrations.torch_backend").setLevel("INFO")`.
"""

from __future__ import annotations

import logging
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields
from functools import partial
from importlib import import_module
from typing import Any

from catdiag.category.types import BYTES
from catdiag.chip import hardware
from catdiag.importers.torch_graph import not_exported, quietly
from catdiag.integrations.compiled_module import SHORT, local_chip
from catdiag.integrations.graph_regions import WEIGHTED, Region, exported, imported, replaced
from catdiag.integrations.inductor_model import least_s, predicted_s
from catdiag.integrations.region_operator import operator_of, results_of
from catdiag.planner.cut_search import CLOSE
from catdiag.schedule.stored_types import output_names
from catdiag.util.errors import CatdiagError, require
from catdiag.util.time_limit import OutOfTime, within

PLANNED = {name: kind for name, kind in SHORT.items() if name != "torch.float64"}
"""The types of tensors of which there are kernels."""
HOST_CALL_S = 100e-6
"""Seconds of the host for a call of a region, where Inductor launches its own kernels in a few: an assumption."""
MOST_WEIGHTED = 4
"""A region of more products with weights is looked at in parts only: planning a whole layer takes 12 s and more, and
whole layers were predicted to be level with PyTorch."""
LOGGER = logging.getLogger("catdiag.integrations.torch_backend")


@dataclass(frozen=True)
class BackendOptions:
    """The options of `torch.compile(model, backend="catdiag", options={…})`.

    - `chip`: the chip that is planned for, by default that of this machine's GPU. Without a GPU nothing is taken.
    - `reference`: every region that is imported is taken, and run by PyTorch functions that its program is written as:
      to try on the CPU that programs mean what the model does. It is no quicker.
    - `training`: regions are taken where gradients are required too. What is saved for the backward pass of a region is
      its inputs; PyTorch computes it again there, and differentiates it. That takes less memory, and more time.
    - `check`: the first call of each region is compared with PyTorch (`RegionMismatch`).
    - `limit`: the seconds that planning may take, for all regions of a graph together. Nothing is planned for regions
      of which a bound says already that they cannot be quicker by enough, and equal regions are planned once.
    - `rest`: the backend that compiles the graph with the regions.
    """

    chip: str | None = None
    reference: bool = False
    check: bool = False
    training: bool = False
    limit: float = 10.0
    rest: str = "inductor"

    @staticmethod
    def of(given: Mapping[str, Any]) -> BackendOptions:
        """The options of a mapping. Raises CatdiagError for one that is not known, and for values that are none."""
        known = [f.name for f in fields(BackendOptions)]
        for name in given:
            if name not in known:
                raise CatdiagError(f"the backend catdiag has no option {name!r}: expected of {', '.join(known)}")
        options = BackendOptions(**given)
        if options.chip is not None:
            hardware.get(options.chip)
        for name in ("reference", "check", "training"):
            require(isinstance(getattr(options, name), bool), f"the option {name}", getattr(options, name), "a bool")
        limit = options.limit
        number = isinstance(limit, (int, float)) and not isinstance(limit, bool) and limit > 0
        require(number, "the option limit", limit, "seconds, above 0")
        return options


def backend(graph_module: Any, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **_: Any) -> Any:
    """Compiles a graph of Dynamo on example inputs, as every backend of `torch.compile` does."""
    chosen = BackendOptions.of(options or {})
    rest = import_module("torch._dynamo").lookup_backend(chosen.rest)
    found = with_taken_regions(graph_module, inputs, chosen)
    if found is None:
        return rest(graph_module, inputs)
    if any(map(is_dynamic, inputs)):
        LOGGER.info("the regions are those of the first lengths: %s compiles the graph for others", chosen.rest)
        lengths = [shape_of(a) for a in at_the_first_lengths(inputs)]
        return ForLengths(partial(rest, found), rest(graph_module, inputs), lengths)
    return rest(found, inputs)


@dataclass
class ForLengths:
    """A graph of lengths that change: `others` runs it at all lengths; at `lengths` it has regions, and is compiled by
    `compiling` when it is first called there, on tensors."""

    compiling: Callable[[Sequence[Any]], Callable[..., Any]]
    others: Callable[..., Any]
    lengths: Sequence[Any]
    own: Callable[..., Any] | None = None

    def __call__(self, *inputs: Any) -> Any:
        """The results on lengths and tensors."""
        if any(map(operator.ne, map(shape_of, inputs), self.lengths)):
            return self.others(*inputs)
        tensors = [a for a in inputs if hasattr(a, "shape")]
        if self.own is None:
            self.own = self.compiling(tensors)
        return self.own(*tensors)


def shape_of(value: Any) -> Any:
    """The shape and strides of a tensor; a length as it is."""
    return (tuple(value.shape), value.stride()) if hasattr(value, "shape") else value


def is_dynamic(value: Any) -> bool:
    """Whether an input of a graph is a length that changes, or a tensor that has one."""
    lengths = (*value.shape, *value.stride()) if hasattr(value, "shape") else (value,)
    return not all(isinstance(n, int) for n in lengths)


def at_the_first_lengths(inputs: Sequence[Any]) -> list[Any]:
    """The inputs of a graph with numbers for lengths that change: those of the call that it is compiled for."""
    mode = import_module("torch._subclasses").FakeTensorMode()
    torch = import_module("torch")

    def known(n: Any) -> int:
        return n if isinstance(n, int) else int(n.node.hint)

    def fixed(value: Any) -> Any:
        if not is_dynamic(value):
            return value
        if not hasattr(value, "shape"):
            return known(value)
        shape, strides = [[*map(known, of)] for of in (value.shape, value.stride())]
        with mode:
            made = torch.empty_strided(shape, strides, dtype=value.dtype, device=value.device)
        return made.requires_grad_(value.requires_grad)

    return [fixed(value) for value in inputs]


def with_taken_regions(graph_module: Any, inputs: Sequence[Any], options: BackendOptions) -> Any:
    """The graph in which the regions that are taken are operators, None where nothing is taken; says what was."""
    try:
        # What Dynamo is tracing learns nothing of this: its lengths stay as they are.
        with import_module("torch._guards").tracing(None):
            found, regions = with_regions(graph_module, inputs, options)
    except CatdiagError as error:
        LOGGER.info("nothing is taken: %s", error.message)
        return None
    for region in regions:
        LOGGER.info("%s", region)
    if not any(region.taken for region in regions):
        LOGGER.info("nothing is taken: %s compiles the graph as it is", options.rest)
        return None
    return found


def with_regions(graph_module: Any, inputs: Sequence[Any], options: BackendOptions) -> tuple[Any, list[Region]]:
    """The graph in which the regions that are taken are operators, and all regions that were looked at.

    Lengths that change are those of the call that the graph is compiled for. Raises CatdiagError where no region can be
    taken: in training, without a GPU.
    """
    torch = import_module("torch")
    if any(node.op == "call_method" and node.target == "item" for node in graph_module.graph.nodes):
        raise CatdiagError("a number is read off a tensor: Dynamo traces what it takes for a number that may change")
    if any(map(is_dynamic, inputs)):
        inputs = at_the_first_lengths(inputs)
        graph_module = without_lengths(graph_module, inputs)
    tensors = [a for a in inputs if isinstance(a, torch.Tensor)]
    if not options.training and torch.is_grad_enabled() and any(a.requires_grad for a in tensors):
        raise CatdiagError(
            "a gradient is required, for which regions are computed again: options={'training': True} takes them, "
            "torch.no_grad() needs none"
        )
    chip = options.chip or local_chip()
    decide: Callable[[Region], bool] = take_all
    if not options.reference:
        if not torch.cuda.is_available() or chip is None:
            raise CatdiagError("there is no GPU that is known; options={'reference': True} tries regions on the CPU")
        decide = within_total(chip, options.limit)
    graph = export_quietly(graph_module, tensors)
    making = partial(operator_of, reference=options.reference, check=options.check, training=options.training)
    return replaced(graph, decide, making)


def without_lengths(graph_module: Any, inputs: Sequence[Any]) -> Any:
    """A graph whose inputs are its tensors: the numbers that it takes beside them are in its calls."""
    fx = import_module("torch.fx")
    graph = deepcopy(graph_module.graph)
    places = [node for node in graph.nodes if node.op == "placeholder"]
    numbers = {node: a for node, a in zip(places, inputs, strict=True) if not hasattr(a, "shape")}
    for node in graph.nodes:
        node.args, node.kwargs = fx.map_arg((node.args, node.kwargs), lambda n: numbers.get(n, n))
    for node in numbers:
        graph.erase_node(node)
    return fx.GraphModule(graph_module, graph)


def export_quietly(module: Any, inputs: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Any:
    """`exported`. Raises CatdiagError in place of errors of all kinds."""
    try:
        with quietly():
            return exported(module, inputs, kwargs)
    except CatdiagError:
        raise
    except Exception as error:  # of torch.export, of many kinds
        raise not_exported(error, module, module, tuple(inputs), dict(kwargs or {})) from error


def take_all(region: Region) -> bool:
    """Takes a region that has a program."""
    imported(region)
    region.taken = region.program is not None
    region.reason = region.reason or "run by its reference"
    return region.taken


def within_total(chip: str, limit: float | None) -> Callable[[Region], bool]:
    """`take_quicker` for the regions of one graph, which may take `limit` seconds together."""
    left = limit

    def decide(region: Region) -> bool:
        nonlocal left
        began = time.monotonic()
        taken = take_quicker(region, chip, left)
        if left is not None:
            left = max(left - (time.monotonic() - began), 0.0)
        return taken

    return decide


def take_quicker(region: Region, chip: str, limit: float | None) -> bool:
    """Takes a region whose plan is predicted to be quicker than Inductor by more than predictions are worth (`CLOSE`),
    also where the host's time of a call counts. It is imported and planned only if it may be."""
    if cannot_be_quicker(region, chip):
        return False
    plan_region(imported(region), chip, limit)
    if region.plan is None or region.others_s is None:
        return False
    quicker = CLOSE * max(region.plan.time_s, HOST_CALL_S) < region.others_s
    region.taken = quicker and region.plan.module is not None
    if region.plan.module is None:
        region.reason = region.plan.reason
    else:
        close = region.plan.time_s < region.others_s
        words = "predicted to be quicker"
        region.reason = f"{'' if quicker else 'not '}{words}{' by enough' if close and not quicker else ''}"
    return region.taken


def cannot_be_quicker(region: Region, chip: str) -> bool:
    """Whether what PyTorch is predicted to take, and what any plan takes at least, say that a region is not taken; then
    it has the reason. Types of which there are no kernels are such a reason too."""
    tensors = (*region.example, *results_of(region))
    kinds = {str(t.dtype) for t in tensors if t.is_floating_point() and t.dim()}
    unknown = sorted(kind for kind in kinds if kind not in PLANNED)
    if unknown or not kinds:
        region.reason = f"it computes in {', '.join(unknown) or 'integers'}: expected {', '.join(PLANNED)}"
        return True
    narrow = min((PLANNED[kind] for kind in kinds), key=BYTES.__getitem__)
    target = hardware.get(chip)
    region.others_s = predicted_s(region.module, target, narrow)
    region.least_s = least_s(region.module, target, narrow)
    weighted = [name for name in region.operations if name in WEIGHTED]
    if region.others_s <= CLOSE * region.least_s:
        region.reason = "no plan is quicker by enough"
    elif region.others_s <= CLOSE * HOST_CALL_S:
        region.reason = f"a call takes the host {1e6 * HOST_CALL_S:.0f} µs"
    elif len(weighted) > MOST_WEIGHTED:
        region.reason = f"of {len(weighted)} products with weights, the parts between them are looked at"
    else:
        return False
    return True


def plan_region(region: Region, chip: str, limit: float | None) -> None:
    """Sets the plan of a region that is imported, and what PyTorch is predicted to take; or the reason why there is no
    plan. Inputs and results have the types that they have in PyTorch, of which there are kernels."""
    if region.program is None or region.program.example is None:
        return
    program, example = region.program, region.program.example
    names = (*program.diagram.input_names, *output_names(program.diagram))
    tensors = (*(region.example[int(source)] for source in example.sources), *results_of(region))
    reals = {n: str(t.dtype) for n, t in zip(names, tensors, strict=True) if t.is_floating_point() and t.dim()}
    if not reals:
        region.reason = "its program reads and gives no real numbers"
        return
    types = {name: PLANNED[kind] for name, kind in reals.items()}
    dtype: str | dict[str, str] = types if len(set(types.values())) > 1 else next(iter(types.values()))
    planning: Callable[[], Any] = lambda: program.plan(chip, example.sizes, dtype=dtype)  # noqa: E731
    try:
        region.plan = within(limit, planning)
    except OutOfTime:
        region.reason = f"it was not planned within {limit:.3g} s, what was left of the limit"
    except CatdiagError as error:
        region.reason = f"it is not planned: {str(error.message).splitlines()[0]}"
    else:
        narrow = min(types.values(), key=BYTES.__getitem__)
        region.others_s = predicted_s(region.module, hardware.get(chip), narrow)
