"""The backend of `torch.compile(model, backend="catdiag")`.

Regions of a graph that catdiag imports and plans, and predicts to be quicker than Inductor
(`catdiag.integrations.inductor_model`), become operators in the graph, and Inductor compiles the rest. Where nothing is
taken, Inductor gets the graph as Dynamo made it. The logger of this module says region by region what was taken, what
was not, and why: `logging.getLogger("catdiag.integrations.torch_backend").setLevel("INFO")`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from importlib import import_module
from typing import Any

from catdiag.chip import hardware
from catdiag.integrations.compiled_module import SHORT, local_chip
from catdiag.integrations.graph_regions import Region, exported, replaced
from catdiag.integrations.inductor_model import predicted_s
from catdiag.integrations.region_operator import operator_of
from catdiag.util.errors import CatdiagError
from catdiag.util.time_limit import OutOfTime, within

LOGGER = logging.getLogger("catdiag.integrations.torch_backend")


@dataclass(frozen=True)
class BackendOptions:
    """The options of `torch.compile(model, backend="catdiag", options={…})`.

    - `chip`: the chip that is planned for, by default that of this machine's GPU. Without a GPU nothing is taken.
    - `reference`: every region that is imported is taken, and run by PyTorch functions that its program is written as:
      to try on the CPU that programs mean what the model does. It is no quicker.
    - `check`: the first call of each region is compared with PyTorch (`RegionMismatch`).
    - `limit`: the seconds that planning one region may take.
    - `rest`: the backend that compiles the graph with the regions.
    """

    chip: str | None = None
    reference: bool = False
    check: bool = False
    limit: float = 60.0
    rest: str = "inductor"

    @staticmethod
    def of(given: Mapping[str, Any]) -> BackendOptions:
        """The options of a mapping. Raises CatdiagError for one that is not known."""
        known = [f.name for f in fields(BackendOptions)]
        for name in given:
            if name not in known:
                raise CatdiagError(f"the backend catdiag has no option {name!r}: expected of {', '.join(known)}")
        return BackendOptions(**given)


def backend(graph_module: Any, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **_: Any) -> Any:
    """Compiles a graph of Dynamo on example inputs, as every backend of `torch.compile` does."""
    chosen = BackendOptions.of(options or {})
    dynamo = import_module("torch._dynamo")
    rest = dynamo.lookup_backend(chosen.rest)
    try:
        found, regions = with_regions(graph_module, inputs, chosen)
    except CatdiagError as error:
        LOGGER.info("nothing is taken: %s", error.message)
        return rest(graph_module, inputs)
    for region in regions:
        LOGGER.info("%s", region)
    if not any(region.taken for region in regions):
        LOGGER.info("nothing is taken: %s compiles the graph as it is", chosen.rest)
        return rest(graph_module, inputs)
    return rest(found, inputs)


def with_regions(graph_module: Any, inputs: Sequence[Any], options: BackendOptions) -> tuple[Any, list[Region]]:
    """The graph in which the regions that are taken are operators, and all regions that were looked at.

    Raises CatdiagError where no region can be taken: in training, of lengths that change, without a GPU.
    """
    torch = import_module("torch")
    tensors = [a for a in inputs if isinstance(a, torch.Tensor)]
    if len(tensors) != len(inputs):
        raise CatdiagError("its lengths are dynamic: torch.compile(…, dynamic=False) compiles each length by itself")
    if torch.is_grad_enabled() and any(a.requires_grad for a in tensors):
        raise CatdiagError("a gradient is required: call the model under torch.no_grad()")
    chip = options.chip or local_chip()
    decide: Callable[[Region], bool] = take_all
    if not options.reference:
        if not torch.cuda.is_available() or chip is None:
            raise CatdiagError("there is no GPU that is known; options={'reference': True} tries regions on the CPU")
        decide = partial(take_quicker, chip=chip, limit=options.limit)
    graph = export_quietly(graph_module, inputs)
    operator = partial(operator_of, reference=options.reference, check=options.check)
    return replaced(graph, decide, operator)


def export_quietly(module: Any, inputs: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Any:
    """`exported`, whose errors of all kinds become a CatdiagError."""
    try:
        return exported(module, inputs, kwargs)
    except CatdiagError:
        raise
    except Exception as error:  # of torch.export, of many kinds
        raise CatdiagError(f"torch.export: {' '.join(str(error).split())[:200]}") from error


def take_all(region: Region) -> bool:
    """Takes a region that has a program."""
    region.taken = region.program is not None
    region.reason = region.reason or "run by its reference"
    return region.taken


def take_quicker(region: Region, chip: str, limit: float | None) -> bool:
    """Takes a region whose plan is predicted to be quicker than Inductor."""
    plan_region(region, chip, limit)
    if region.plan is None or region.others_s is None:
        return False
    region.taken = region.plan.time_s < region.others_s and region.plan.module is not None
    if region.plan.module is None:
        region.reason = region.plan.reason
    else:
        region.reason = "predicted to be quicker" if region.taken else "not predicted to be quicker"
    return region.taken


def plan_region(region: Region, chip: str, limit: float | None) -> None:
    """Sets a region's plan, and what PyTorch is predicted to take; or the reason why there is no plan."""
    if region.program is None or region.program.example is None:
        return
    kinds = {SHORT[str(a.dtype)] for a in region.example if str(a.dtype) in SHORT}
    if len(kinds) != 1 or any(str(a.dtype) == "torch.float64" for a in region.example):
        region.reason = f"it computes in {', '.join(sorted(str(a.dtype) for a in region.example))}: expected one type"
        return
    (dtype,) = kinds
    program, sizes = region.program, region.program.example.sizes
    planning: Callable[[], Any] = lambda: program.plan(chip, sizes, dtype=dtype)  # noqa: E731
    try:
        region.plan = within(limit, planning)
    except OutOfTime:
        region.reason = f"it was not planned within {limit:g} s"
    except CatdiagError as error:
        region.reason = f"it is not planned: {str(error.message).splitlines()[0]}"
    else:
        region.others_s = predicted_s(region.module, hardware.get(chip), dtype)
