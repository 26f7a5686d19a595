"""What was imported from PyTorch, run by PyTorch on other arrays than those of the example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from catdiag.importers.example import NotRun, Result
from catdiag.importers.torch_results import of_plain_types


@dataclass(frozen=True)
class TorchRun:
    """A module or function with an example: called with arrays in place of the inputs of its program.

    `places` are, of each input, what of the module it is: the position among the tensors that are passed, or names of
    its parameters and buffers, none for an input that only another program has. `arrays` are the inputs of the example.
    """

    module: Any
    arguments: Sequence[Any]
    kwargs: Mapping[str, Any]
    arrays: Sequence[Any]
    places: Sequence[int | tuple[str, ...]]

    def __call__(self, arrays: Sequence[Any]) -> list[Result]:
        """Its results on NumPy arrays, one for each input. Raises NotRun, saying why it has none."""
        torch = import_module("torch")
        if any(array.is_meta for array in self.arrays):
            raise NotRun("a tensor is on the device meta and has no numbers")
        known = zip(arrays, self.arrays, strict=True)
        found = self.call([torch.tensor(array.copy()).to(like.dtype) for array, like in known])
        return [_result(torch, value) for value in leaves_of(found) if isinstance(value, (torch.Tensor, int, float))]

    def tensor_names(self) -> set[str]:
        """The names of the module's parameters and buffers, each tied one under all of its names."""
        if not isinstance(self.module, import_module("torch").nn.Module):
            return set()
        named = self.module.named_parameters, self.module.named_buffers
        return {name for found in named for name, _ in found(remove_duplicate=False)}

    def call(self, tensors: Sequence[Any]) -> Any:
        """What it returns on tensors, one for each input, with dicts for objects of types that PyTorch does not know.
        Raises NotRun, saying why it returns nothing."""
        torch = import_module("torch")
        tree = torch.utils._pytree
        leaves, spec = tree.tree_flatten((list(self.arguments), dict(self.kwargs)))
        passed = [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        own = self.tensor_names()
        named: dict[str, Any] = {}
        for place, tensor, known in zip(self.places, tensors, self.arrays, strict=True):
            if isinstance(place, int):
                given = leaves[passed[place]]
                leaves[passed[place]] = torch.view_as_complex(tensor.contiguous()) if given.is_complex() else tensor
                continue
            named.update({name: tensor for name in place if name in own})
            if place and not named.keys() & set(place) and not torch.equal(tensor, known.detach().cpu()):
                raise NotRun("a constant of the program holds other numbers than these")
        arguments, kwargs = tree.tree_unflatten(deepcopy(leaves), spec)
        try:
            with torch.no_grad():
                if own:
                    found = torch.func.functional_call(self.module, named, tuple(arguments), kwargs)
                else:
                    found = self.module(*arguments, **kwargs)
        except Exception as error:  # of many kinds, the user's among them
            raise NotRun(f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}") from error
        return of_plain_types(found)


def leaves_of(results: Any) -> list[Any]:
    """What results have in them: those of a mapping by its keys, in the order of these."""
    if isinstance(results, Mapping):
        return [leaf for key in sorted(results, key=str) for leaf in leaves_of(results[key])]
    if isinstance(results, (list, tuple)):
        return [leaf for value in results for leaf in leaves_of(value)]
    return [results]


def _result(torch: Any, tensor: Any) -> Result:
    """A tensor as a NumPy array, with what its type rounds to; a number of Python as one without dimensions."""
    tensor = tensor if isinstance(tensor, torch.Tensor) else torch.tensor(tensor, dtype=torch.float64)
    if tensor.is_meta:
        raise NotRun("a result is on the device meta and has no numbers")
    real = tensor.is_floating_point() or tensor.is_complex()
    wide = torch.complex128 if tensor.is_complex() else torch.float64
    return Result(tensor.detach().to(wide).cpu().numpy(), torch.finfo(tensor.dtype).eps if real else 0.0)
