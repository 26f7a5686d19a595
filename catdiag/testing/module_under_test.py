"""A module of PyTorch under test: called with the inputs of a program that was imported, parameters among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from catdiag.importers.example import NotRun
from catdiag.importers.torch_runs import TorchRun
from catdiag.util.errors import CatdiagError


@dataclass(frozen=True)
class ModuleUnderTest:
    """A module as a function of all inputs of a program: those that are passed in, and its parameters and buffers."""

    module: Any
    run: TorchRun

    @property
    def __name__(self) -> str:
        """The name of the module's class."""
        return type(self.module).__name__

    def named_parameters(self) -> Any:
        """Those of the module, whose device its inputs are on."""
        return self.module.named_parameters()

    def __call__(self, *tensors: Any) -> tuple[Any, ...]:
        """The tensors that the module gives. Raises RuntimeError where it gives none."""
        try:
            found = self.run.call(tensors)
        except NotRun as error:
            raise RuntimeError(error.message) from None
        # In the order of an export: that of a mapping's keys.
        leaves = import_module("torch.utils._pytree").tree_leaves(found)
        return tuple(value for value in leaves if hasattr(value, "detach"))


def module_under_test(function: Callable[..., Any], program: Any) -> Callable[..., Any]:
    """A module as a function of the inputs of `program`, if that was imported from PyTorch; else the function itself.
    Raises CatdiagError for a module that lacks a parameter of the program."""
    original = getattr(getattr(program, "example", None), "original", None)
    if not hasattr(function, "named_parameters") or not isinstance(original, TorchRun):
        return function
    run = replace(original, module=function)
    own = run.tensor_names()
    for place in run.places:
        if not isinstance(place, int) and place and not own & set(place):
            raise CatdiagError(
                f"{type(function).__name__} has no tensor {place[0]!r}, which is an input of {program.title}: it has "
                f"{', '.join(sorted(own)) or 'none'}"
            )
    return ModuleUnderTest(function, run)
