"""A region of a graph as an operator of torch: Dynamo and Inductor see one call that changes none of its arguments.

Its results are contiguous and share no memory with its arguments, so that what follows may see them as it likes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from catdiag.codegen.torch_reference import torch_reference
from catdiag.integrations.graph_regions import Region
from catdiag.runtime.module_cache import digest
from catdiag.runtime.torch_operator import NAMESPACE, operator_library
from catdiag.util.errors import CatdiagError

TOLERANCES = {"torch.float64": 1e-9, "torch.float32": 1e-3, "torch.float16": 1e-2, "torch.bfloat16": 5e-2}
"""How far a region may be off, relative to the largest result, where it is checked against PyTorch."""


class RegionMismatch(CatdiagError):
    """A region that gave something else than PyTorch."""


@dataclass(eq=False)
class RegionRunner:
    """Runs a region on tensors: by its plan's kernels, or by the reference of its program. With `check`, the first call
    is compared with PyTorch, and RegionMismatch is raised where the two differ."""

    region: Region
    reference: bool
    check: bool
    _run: Callable[..., Any] = field(init=False)
    """Gives new contiguous tensors; a number for a result without axes."""
    _wanted: list[tuple[Any, Any]] = field(init=False)

    def __post_init__(self) -> None:
        program = self.region.program
        if program is None or program.example is None:
            raise CatdiagError(f"{self.region.name} has no program")
        self._order = [int(source) for source in program.example.sources]
        if self.reference:
            written = torch_reference(program.diagram)
            sizes = {name: program.example.sizes[size] for size, name in written.sizes.items()}
            function = written.function()
            self._run = lambda *arrays: _unaliased(arrays, function(*arrays, **sizes))
        elif self.region.plan is not None:
            self._run = self.region.plan.compile().at(sizes=self.region.plan.sizes)
        else:
            raise CatdiagError(f"{self.region.name} has no plan")
        self._wanted = [(t.shape, t.dtype) for t in results_of(self.region)]

    def __call__(self, *arrays: Any) -> Any:
        """The results on tensors, of the shapes and types that PyTorch gives."""
        found = self._run(*[_number(arrays[k]) for k in self._order])
        results = found if isinstance(found, tuple) else (found,)
        made = [
            value if value.shape == shape and value.dtype == dtype else value.to(dtype).reshape(shape)
            for value, (shape, dtype) in zip(results, self._wanted, strict=True)
        ]
        if self.check:
            self._checked(arrays, made)
            self.check = False
        return made[0] if len(made) == 1 else tuple(made)

    def _checked(self, arrays: Sequence[Any], made: Sequence[Any]) -> None:
        torch = import_module("torch")
        with torch.no_grad():
            found = self.region.module(*arrays)
        wanted = found if isinstance(found, (tuple, list)) else (found,)
        for number, (one, other) in enumerate(zip(made, wanted, strict=True)):
            scale = float(other.double().abs().nan_to_num(posinf=0.0).max()) if other.numel() else 0.0
            allowed = TOLERANCES.get(str(other.dtype), 0.0)
            if not torch.allclose(one.double(), other.double(), rtol=allowed, atol=allowed * scale, equal_nan=True):
                off = float((one.double() - other.double()).abs().max())
                raise RegionMismatch(
                    f"result {number} of {self.region.name} is off by {off:.2e}, of {scale:.2e} at most: expected what "
                    "PyTorch gives. Please report it; leave check=True out to go on"
                )


def _number(array: Any) -> Any:
    return array if array.shape else array.item()


def _unaliased(arrays: Sequence[Any], found: Any) -> tuple[Any, ...]:
    """Results as contiguous tensors that share no memory with arrays, or with each other."""
    torch = import_module("torch")
    device = next((a.device for a in arrays if isinstance(a, torch.Tensor)), None)
    used = {a.untyped_storage().data_ptr() for a in arrays if isinstance(a, torch.Tensor)}
    made = []
    for value in found if isinstance(found, tuple) else (found,):
        tensor = torch.as_tensor(value, device=device).contiguous()
        made.append(tensor.clone() if tensor.untyped_storage().data_ptr() in used else tensor)
        used.add(made[-1].untyped_storage().data_ptr())
    return tuple(made)


def results_of(region: Region) -> tuple[Any, ...]:
    """What a region gives: tensors without values."""
    (output,) = (n for n in region.module.graph.nodes if n.op == "output")
    nodes = output.args[0] if isinstance(output.args[0], (tuple, list)) else (output.args[0],)
    return tuple(node.meta["val"] for node in nodes)


def operator_of(region: Region, *, reference: bool, check: bool, training: bool = False) -> Any:
    """The operator of a region; equal regions have one. It has a backward pass if it is for `training`."""
    torch = import_module("torch")
    results = results_of(region)
    plan = "" if region.plan is None or reference else region.plan.code("triton")
    options = str((reference, check, training))
    name = f"region_{digest(chr(0).join((region.signature, plan, options)))}"
    known = getattr(getattr(torch.ops, NAMESPACE), name, None)
    if known is not None:
        return known.default
    arguments = ", ".join(f"Tensor a{k}" for k in range(len(region.example)))
    outputs = "Tensor" if len(results) == 1 else f"({', '.join(['Tensor'] * len(results))})"
    runner, library = RegionRunner(region, reference, check), operator_library()

    def fake(*arrays: Any) -> Any:
        made = tuple(torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in results)
        return made[0] if len(made) == 1 else made

    library.define(f"{name}({arguments}) -> {outputs}", tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(name, runner.__call__, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=library)
    if training:
        torch.library.register_autograd(
            f"{NAMESPACE}::{name}",
            lambda context, *given: gradients(region.module, context.saved_tensors, given),
            setup_context=_save_inputs,
            lib=library,
        )
    return getattr(getattr(torch.ops, NAMESPACE), name).default


def _save_inputs(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
    ctx.save_for_backward(*inputs)


def gradients(module: Any, inputs: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, ...]:
    """The cotangents of a region's inputs, from those of its results: the region is computed again, by PyTorch, and
    differentiated. None for inputs that are no real numbers.

    Nothing but the inputs is saved for it. `torch.compile` traces it, so that Inductor compiles it with what is around.
    """
    torch = import_module("torch")
    places = [k for k, a in enumerate(inputs) if a.is_floating_point()]

    def real(values: Any) -> tuple[Any, ...]:
        return tuple(v for v in (values if isinstance(values, (tuple, list)) else (values,)) if v.is_floating_point())

    def function(*reals: Any) -> tuple[Any, ...]:
        given = list(inputs)
        for k, value in zip(places, reals, strict=True):
            given[k] = value
        return real(module(*given))

    results, pull = torch.func.vjp(function, *(inputs[k] for k in places))
    given = [c for c in cotangents if c is None or c.is_floating_point()]
    seeds = [torch.zeros_like(r) if c is None else c for r, c in zip(results, given, strict=True)]
    found: list[Any] = [None] * len(inputs)
    for k, value in zip(places, pull(tuple(seeds)), strict=True):
        found[k] = value
    return tuple(found)
