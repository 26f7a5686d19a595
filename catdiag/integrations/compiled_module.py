"""A module of PyTorch with its program, its plan, its theorem, and kernels that calls run where they can."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from catdiag.chip import hardware
from catdiag.importers.torch_export import from_torch
from catdiag.program import Program
from catdiag.schedule.element_widths import width
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from catdiag.planner.multi_kernel_plan import Plan
    from catdiag.prover.api import Theorem

SHORT = {"torch.bfloat16": "bf16", "torch.float16": "fp16", "torch.float32": "fp32", "torch.float64": "fp32"}
"""The type that a plan is made for, by that of a tensor; there are no kernels of float64."""


def local_chip() -> str | None:
    """The chip that this machine's GPU is; None without a GPU, or with one that is not known."""
    try:
        torch = import_module("torch")
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    name = str(torch.cuda.get_device_name(0)).lower()
    return max((chip for chip in hardware.names() if chip.lower() in name), key=len, default=None)


@dataclass(frozen=True)
class ExampleCall:
    """What a call on the example looks like: the names of keyword arguments, arguments that are no tensors, and the
    structure of the result, with its leaves: in a tuple each that is no tensor."""

    keywords: tuple[str, ...]
    constants: tuple[Any, ...]
    structure: Any
    leaves: tuple[tuple[Any, ...] | None, ...]

    @staticmethod
    def of(module: Callable[..., Any], example: Sequence[Any], kwargs: Mapping[str, Any]) -> ExampleCall:
        """Of one call, which is made."""
        torch, tree = import_module("torch"), import_module("torch.utils._pytree")
        with torch.no_grad():
            leaves, structure = tree.tree_flatten(module(*example, **kwargs))
        others = [a for a in tree.tree_leaves((tuple(example), dict(kwargs))) if not isinstance(a, torch.Tensor)]
        kept = tuple(None if isinstance(a, torch.Tensor) else (a,) for a in leaves)
        return ExampleCall(tuple(kwargs), tuple(others), structure, kept)

    def tensors(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """The tensors of another call, in order. Raises CatdiagError for one that has other arguments."""
        torch, tree = import_module("torch"), import_module("torch.utils._pytree")
        if sorted(named) != sorted(self.keywords):
            raise CatdiagError(f"keyword arguments {sorted(named)} are given: expected {sorted(self.keywords)}")
        flat = tree.tree_leaves((tuple(arrays), {k: named[k] for k in self.keywords}))
        if tuple(a for a in flat if not isinstance(a, torch.Tensor)) != self.constants:
            raise CatdiagError("arguments that are no tensors differ from the example's")
        return [a for a in flat if isinstance(a, torch.Tensor)]

    def shaped(self, results: Sequence[Any]) -> Any:
        """Tensors as a call returns them."""
        given = iter(results)
        leaves = [next(given) if leaf is None else leaf[0] for leaf in self.leaves]
        return import_module("torch.utils._pytree").tree_unflatten(leaves, self.structure)


@dataclass(eq=False, repr=False)
class CompiledModule:
    """A module or function of tensors, and what is known of it.

    - `program`: the program that it is, with named axes; `theorem`: that its kernels mean the program, for all sizes;
    - `plan`: its kernels on a chip; None where there is none, and then `reason` says why.

    A call runs the kernels where it can, and the module itself where it cannot: on the CPU, with other shapes or types
    than those of the example, in training if it was compiled in evaluation, or the other way round. A warning says so,
    once for each reason. Where tensors or parameters require gradients, autograd runs the kernels of the derived
    gradient (`catdiag.planner.training_plans`).
    """

    module: Callable[..., Any]
    program: Program
    plan: Plan | None
    call: ExampleCall = field(repr=False)
    reason: str = ""
    training: bool = False
    """Whether the module was in training mode when it was compiled."""
    _said: set[str] = field(default_factory=set, repr=False)

    @property
    def theorem(self) -> Theorem:
        """That the kernels mean the program; without a plan, that the program is itself."""
        return self.program.theorem if self.plan is None else self.plan.theorem

    def __repr__(self) -> str:
        kernels = f"kernels for {self.plan.chip.name}, {len(self.plan.kernels)}" if self.plan and self.plan.chip else ""
        return f"CompiledModule({self.program.title}: {'; '.join(said for said in (kernels, self.reason) if said)})"

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """What the module gives."""
        try:
            given = self._given(arrays, named)
            found = self._kernels(*given)
        except CatdiagError as error:
            return self._eagerly(str(error).split("\n")[0], arrays, named)
        return self.call.shaped(found if isinstance(found, tuple) else (found,))

    def _eagerly(self, reason: str, arrays: Sequence[Any], named: Mapping[str, Any]) -> Any:
        if reason not in self._said:
            self._said.add(reason)
            warnings.warn(f"{self.program.title} runs in PyTorch: {reason}", stacklevel=3)
        return self.module(*arrays, **named)

    @cached_property
    def _kernels(self) -> Callable[..., Any]:
        if self.plan is None or self.reason:
            raise CatdiagError(self.reason)
        return self.plan.compile().at(sizes=self.plan.sizes)

    def _given(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """The program's inputs: what is passed, and the tensors that the module has now. Raises CatdiagError."""
        example = self.program.example
        assert example is not None
        if _trains(self.module) != self.training:
            modes = ("evaluation", ".eval()"), ("training", ".train()")
            (was, mend), (now, _) = modes[self.training], modes[not self.training]
            raise CatdiagError(f"it is in {now} mode, and was compiled in {was} mode: call {mend}")
        passed = self.call.tensors(arrays, named)
        own = self._tensors()
        found = [
            passed[s] if isinstance(s, int) and s < len(passed) else own.get(str(s), a)
            for s, a in zip(example.sources, example.arrays, strict=True)
        ]
        for source, value, was in zip(example.sources, found, example.arrays, strict=True):
            if value.shape != was.shape or value.dtype != was.dtype:
                raise CatdiagError(
                    f"{source!r} is {tuple(value.shape)} of {value.dtype}: planned for {tuple(was.shape)}, {was.dtype}"
                )
        return found

    def _tensors(self) -> dict[str, Any]:
        if not hasattr(self.module, "named_parameters"):
            return {}
        return {
            **dict(self.module.named_parameters(remove_duplicate=False)),
            **dict(self.module.named_buffers(remove_duplicate=False)),  # type: ignore[attr-defined]
        }


def _trains(module: Callable[..., Any]) -> bool:
    """Whether a module is in training mode; functions are not."""
    return bool(getattr(module, "training", False))


def compile_module(
    module: Callable[..., Any],
    example: Sequence[Any],
    kwargs: Mapping[str, Any],
    on: str | None = None,
    dtype: str | None = None,
    allow_opaque: bool = False,
    **options: Any,
) -> CompiledModule:
    """A module planned for a chip, with the sizes of an example; see `cd.compile`."""
    chip = local_chip() if on is None else hardware.get(on)
    if dtype is not None:
        width(dtype)
    imported = from_torch(module, example, kwargs, {}, allow_opaque=allow_opaque)
    call = ExampleCall.of(module, example, kwargs)
    program = Program(imported.diagram, example=imported.example)

    def made(plan: Plan | None, reason: str = "") -> CompiledModule:
        return CompiledModule(module, program, plan, call, reason, _trains(module))

    if chip is None:
        return made(None, "there is no GPU here that is known: expected on='h200'")
    kinds = [SHORT[str(a.dtype)] for a in imported.example.arrays if str(a.dtype) in SHORT]
    try:
        plan = program.plan(chip, imported.example.sizes, dtype=dtype or next(iter(kinds), "fp32"), **options)
    except CatdiagError as error:
        return made(None, f"it cannot be planned: {error.message}")
    if plan.module is None:
        return made(plan, plan.reason)
    return made(plan)
