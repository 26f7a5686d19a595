"""The rules of ATen's operations, in terms of which other libraries' operations are understood where they are alike."""

from __future__ import annotations

from collections.abc import Mapping

from catdiag.importers import (
    torch_complex,
    torch_elementwise,
    torch_gathers,
    torch_losses,
    torch_orders,
    torch_products,
    torch_reductions,
    torch_resampling,
    torch_shapes,
)
from catdiag.importers.torch_calls import Rule

_REAL: Mapping[str, Rule] = {
    **torch_elementwise.RULES,
    **torch_shapes.RULES,
    **torch_gathers.RULES,
    **torch_reductions.RULES,
    **torch_products.RULES,
    **torch_losses.RULES,
    **torch_orders.RULES,
    **torch_resampling.RULES,
}
_COMPLEX: Mapping[str, Rule] = {
    **{name: torch_complex.by_parts(_REAL[name]) for name in torch_complex.BY_PARTS},
    **{name: torch_complex.by_products(_REAL[name]) for name in torch_complex.PRODUCTS},
    **torch_complex.RULES,
}
RULES: Mapping[str, Rule] = {**_REAL, **{f"complex {name}": rule for name, rule in _COMPLEX.items()}}
"""The rule of each operation, and of those that take or give complex arrays."""
