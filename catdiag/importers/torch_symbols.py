"""Symbols of `torch.export` for lengths: which dimensions have one, and what an expression of them is."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import reduce
from importlib import import_module
from inspect import Parameter, signature
from typing import Any

from catdiag.importers.dimensions import Factors, TracedLength
from catdiag.importers.torch_calls import Unsupported
from catdiag.importers.traced_sizes import SizeSum, SymbolicLengths


def bound_arguments(forward: Any, arguments: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """What a function is called with, by parameter; keyword arguments of no parameter by their own names."""
    parameters = signature(forward).parameters
    found = dict(signature(forward).bind(*arguments, **options).arguments)
    for name, parameter in parameters.items():
        if parameter.kind is Parameter.VAR_KEYWORD:
            found |= found.pop(name, {})
    return found


def all_dynamic(given: Mapping[str, Any]) -> dict[str, Any]:
    """`dynamic_shapes` of `torch.export` in which it may choose a symbol for each dimension."""
    torch, tree = import_module("torch"), import_module("torch.utils._pytree")
    auto = torch.export.Dim.AUTO

    def dims(leaf: Any) -> Any:
        return dict.fromkeys(range(leaf.dim()), auto) if isinstance(leaf, torch.Tensor) else None

    return tree.tree_map(dims, dict(given))  # type: ignore[no-any-return]


def dimension_names(dynamic: Any, given: Mapping[str, Any]) -> dict[tuple[str, int], str]:
    """The names of `torch.export.Dim`, by argument and dimension."""
    named = import_module("torch.export").Dim
    specs = dynamic if isinstance(dynamic, Mapping) else dict(zip(given, dynamic or (), strict=False))
    found = {}
    for argument, spec in specs.items():
        dims = spec if isinstance(spec, Mapping) else dict(enumerate(spec)) if isinstance(spec, (list, tuple)) else {}
        for k, dim in dims.items():
            if type(dim) is named and isinstance(k, int):
                found[argument, k] = dim.__name__
    return found


class TorchLengths:
    """The lengths of a graph of `torch.export`."""

    def __init__(self, factors: Factors) -> None:
        self.lengths = SymbolicLengths(factors)
        self._hints: dict[str, int] = {}
        self._fixed: list[str] = []

    def given(self, name: str, lengths: Sequence[int]) -> None:
        """Notes which dimensions of an input have no symbol."""
        integers = ((k, n) for k, n in enumerate(lengths) if not isinstance(n, TracedLength))
        self._fixed += [f"dimension {k} of {name} ({n})" for k, n in integers]

    def fixed(self) -> list[str]:
        """A note on the dimensions of inputs that have no symbol."""
        listed = ", ".join(self._fixed)
        return [f"torch.export has no symbol for {listed}: numbers made of these are of the example"] * bool(listed)

    def length(self, n: Any) -> int:
        """A length in the example. Raises Unsupported for one that depends on values."""
        if isinstance(n, int):
            return n
        if n.node.hint is None:
            raise Unsupported("a result whose length depends on values")
        expr, hint = n.node.expr, int(n.node.hint)
        if expr.is_Integer:
            return int(expr)
        if expr.is_Symbol:
            self._hints[str(expr)] = hint
        values = getattr(n.node.shape_env, "backed_var_to_val", None) or n.node.shape_env.var_to_val
        self._hints.update((str(s), int(values[s])) for s in expr.free_symbols if s in values)
        return self.lengths.length(str(expr), hint, lambda: self._sum(expr))

    def _sum(self, expr: Any) -> SizeSum:
        """An expression of sympy."""
        factors = self.lengths.factors
        if expr.is_Integer:
            return SizeSum(factors, int(expr), [], int(expr))
        if expr.is_Symbol:
            return SizeSum.of(factors, self.lengths.symbol(str(expr), self._hints[str(expr)]))
        given = [self._sum(e) for e in expr.args]
        name = type(expr).__name__
        if expr.is_Add:
            return reduce(operator.add, given)
        if expr.is_Mul:
            return reduce(operator.mul, given)
        if name in ("FloorDiv", "CleanDiv"):
            return given[0] // given[1]
        return SizeSum(factors, int(expr.subs({s: self._hints[str(s)] for s in expr.free_symbols})), None)
