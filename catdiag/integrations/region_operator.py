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
from catdiag.runtime.torch_operator import NAMESPACE
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

    def __post_init__(self) -> None:
        program = self.region.program
        if program is None or program.example is None:
            raise CatdiagError(f"{self.region.name} has no program")
        self._order = [int(source) for source in program.example.sources]
        if self.reference:
            written = torch_reference(program.diagram)
            sizes = {name: program.example.sizes[size] for size, name in written.sizes.items()}
            function = written.function()
            self._run = lambda *arrays: function(*arrays, **sizes)
        elif self.region.plan is not None:
            self._run = self.region.plan.compile()
        else:
            raise CatdiagError(f"{self.region.name} has no plan")

    def __call__(self, *arrays: Any) -> Any:
        """The results on tensors, of the types that PyTorch gives."""
        torch = import_module("torch")
        with torch.no_grad():
            found = self._run(*(_number(arrays[k]) for k in self._order))
        results = found if isinstance(found, tuple) else (found,)
        wanted = results_of(self.region)
        used = {a.untyped_storage().data_ptr() for a in arrays}
        made = []
        for value, fake in zip(results, wanted, strict=True):
            tensor = torch.as_tensor(value, device=fake.device).to(fake.dtype).reshape(fake.shape).contiguous()
            made.append(tensor.clone() if tensor.untyped_storage().data_ptr() in used else tensor)
            used.add(made[-1].untyped_storage().data_ptr())
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
    return array.item() if not array.shape else array


def results_of(region: Region) -> tuple[Any, ...]:
    """What a region gives: tensors without values."""
    (output,) = (n for n in region.module.graph.nodes if n.op == "output")
    nodes = output.args[0] if isinstance(output.args[0], (tuple, list)) else (output.args[0],)
    return tuple(node.meta["val"] for node in nodes)


def operator_of(region: Region, *, reference: bool, check: bool) -> Any:
    """The operator of a region; equal regions have one."""
    torch = import_module("torch")
    results = results_of(region)
    shapes = [(tuple(t.shape), str(t.dtype), str(t.device)) for t in (*region.example, *results)]
    plan = "" if region.plan is None or reference else region.plan.code("triton")
    name = f"region_{digest(chr(0).join((region.module.code, str(shapes), plan, str((reference, check)))))}"
    known = getattr(getattr(torch.ops, NAMESPACE), name, None)
    if known is not None:
        return known.default
    arguments = ", ".join(f"Tensor a{k}" for k in range(len(region.example)))
    outputs = "Tensor" if len(results) == 1 else f"({', '.join(['Tensor'] * len(results))})"
    runner = RegionRunner(region, reference, check)

    def fake(*arrays: Any) -> Any:
        made = tuple(torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in results)
        return made[0] if len(made) == 1 else made

    made = torch.library.custom_op(
        f"{NAMESPACE}::{name}", runner.__call__, mutates_args=(), schema=f"({arguments}) -> {outputs}"
    )
    made.register_fake(fake)
    return getattr(getattr(torch.ops, NAMESPACE), name).default
