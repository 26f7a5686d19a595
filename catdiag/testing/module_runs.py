"""Two modules run by PyTorch side by side: on an example, on others of its shapes, and on a counterexample.

A theorem, or a counterexample, is about two modules as they were imported. So that nothing false is said of modules
that were read otherwise than PyTorch runs them, both are run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catdiag.importers.torch_buffers import FromParameters, parametrized

if TYPE_CHECKING:
    from catdiag.prover.refute.counterexample_data import Counterexample

_VISIBLE = 1e-3
"""The least difference of two values, as a part of them, that numbers of any floating-point type show."""


@dataclass(frozen=True)
class ModuleRuns:
    """Two modules or functions with the same parameters: those of the first that the second one has by name, or those
    that `parameters` makes. `sources` say where inputs of their programs are from: the position of what is passed, or
    the name of a parameter or a buffer."""

    first: Any
    second: Any
    example: Sequence[Any]
    parameters: FromParameters | None
    sources: Mapping[str, int | str]

    def differ_on_the_example(self) -> bool:
        """Whether results on the example differ by more than is rounded. False where they cannot be run."""
        found = self._results(self.example)
        return found is not None and _differ(*found)

    def differ_on_others(self) -> bool:
        """Whether results differ on other arguments of the example's shapes: with ties, zeros, truth values that are
        all alike, and integers that count from the end. What is no number in the first one's results is left out, and
        so are arguments that either does not take."""
        found = (self._results(arguments) for arguments in _others(self.example))
        return any(_differ(*results, finite=True) for results in found if results is not None)

    def agree_on(self, found: Counterexample) -> bool:
        """Whether both give the same numbers on a counterexample whose values are further apart than is rounded. False
        where it cannot be run: its arrays have other shapes than those of the example."""
        left, right = (None if v is None else float(v) for v in (found.lhs, found.rhs))
        if left is None or (right is not None and abs(left - right) <= _VISIBLE * max(1.0, abs(left), abs(right))):
            return False
        placed = self._placed(found.numpy())
        results = None if placed is None else self._results(*placed)
        return results is not None and not _differ(*results) and not _has_no_number(results[0])

    def _placed(self, arrays: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]] | None:
        """Arrays by the names of inputs as arguments, and as parameters and buffers by name."""
        import torch

        tree = torch.utils._pytree
        leaves, spec = tree.tree_flatten(list(self.example))
        places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        tensors: dict[str, Any] = {}
        for name, array in arrays.items():
            source = self.sources.get(name)
            if isinstance(source, int) and not leaves[places[source]].is_complex():
                leaves[places[source]] = torch.as_tensor(array).to(leaves[places[source]].dtype)
            elif isinstance(source, str):
                tensors[source] = torch.as_tensor(array)
            else:
                return None
        return tree.tree_unflatten(leaves, spec), tensors

    def _results(self, arguments: Sequence[Any], tensors: Mapping[str, Any] | None = None) -> tuple[Any, Any] | None:
        """What both give on arguments, with other parameters and buffers if given. None where one cannot be run."""
        import torch

        modules = [deepcopy(m) if isinstance(m, torch.nn.Module) else m for m in (self.first, self.second)]
        both = all(isinstance(m, torch.nn.Module) for m in modules)
        try:
            written = [_overwrite(m, tensors or {}) for m in modules]
            if set(tensors or ()) - set().union(*written):
                return None
            if self.parameters is not None:
                modules[0] = parametrized(torch, modules[0], modules[1], self.parameters)
            elif both:
                modules[1] = parametrized(torch, modules[1], modules[0], lambda _: {})
            with torch.no_grad():
                one, other = (m(*deepcopy(list(arguments))) for m in modules)
        except Exception:  # of many kinds, the user's among them
            return None
        found = torch.utils._pytree.tree_leaves((one, other))
        return None if any(isinstance(t, torch.Tensor) and t.is_meta for t in found) else (one, other)


def _overwrite(module: Any, tensors: Mapping[str, Any]) -> set[str]:
    """Gives a module other parameters and buffers, and says which of them it has."""
    import torch

    if not isinstance(module, torch.nn.Module):
        return set()
    own = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers())}
    for name in own.keys() & tensors.keys():
        own[name].data = tensors[name].to(own[name].dtype)
    return own.keys() & tensors.keys()


def _others(example: Sequence[Any]) -> Iterator[list[Any]]:
    """Other arguments of the same shapes. Numbers that are all positive stay so."""
    import torch

    def changed(real: Callable[[Any], Any], truth: bool, whole: Callable[[Any], Any]) -> list[Any]:
        def change(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or leaf.is_complex() or not leaf.numel():
                return leaf
            if leaf.dtype == torch.bool:
                return torch.full_like(leaf, truth)
            return real(leaf.detach()) if leaf.is_floating_point() else whole(leaf)

        return torch.utils._pytree.tree_map(change, list(example))  # type: ignore[no-any-return]

    def with_ties(a: Any) -> Any:
        halves = (2 * a).round() / 2
        return halves + 0.5 if bool((a > 0).all()) else halves

    yield changed(with_ties, False, lambda a: a)
    yield changed(lambda a: a if bool((a > 0).all()) else torch.zeros_like(a), True, lambda a: a)
    yield changed(lambda a: a.flip(tuple(range(a.dim()))), True, lambda a: -1 - a)
    yield changed(lambda a: a, True, lambda a: -a)


def _differ(one: Any, other: Any, finite: bool = False) -> bool:
    """Whether results of PyTorch differ by more than is rounded; with `finite`, where those of the first are numbers.
    Those that are greater than 10,000 are left out then: they may have grown by rounding."""
    import torch

    sides = [torch.utils._pytree.tree_leaves(side) for side in (one, other)]
    for a, b in zip(*sides, strict=False):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            if a.shape != b.shape:
                return True
            types = [t.dtype for t in (a, b) if t.is_floating_point() or t.is_complex()]
            rounding = max((torch.finfo(t).eps for t in types), default=0.0) ** 0.5 * 4
            x, y = (t.detach().to(torch.complex128 if t.is_complex() else torch.float64).cpu() for t in (a, b))
            if finite:
                here = torch.isfinite(x) & (x.abs() < 1e4)
                x, y = x[here], y[here]
            known = x[torch.isfinite(x)].abs()
            scale = max(1.0, float(known.max())) if known.numel() else 1.0
            if not torch.allclose(x, y, rtol=rounding, atol=rounding * scale, equal_nan=True):
                return True
    return False


def _has_no_number(results: Any) -> bool:
    """Whether some result is NaN or infinite."""
    import torch

    found = [t for t in torch.utils._pytree.tree_leaves(results) if isinstance(t, torch.Tensor)]
    return any(not bool(torch.isfinite(t).all()) for t in found)
