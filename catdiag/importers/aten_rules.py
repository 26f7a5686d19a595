"""The rules of ATen's operations, in terms of which other libraries' operations are understood where they are alike."""

from __future__ import annotations

from collections.abc import Mapping

from catdiag.importers import torch_elementwise, torch_products, torch_reductions, torch_shapes
from catdiag.importers.torch_calls import Rule

RULES: Mapping[str, Rule] = {
    **torch_elementwise.RULES,
    **torch_shapes.RULES,
    **torch_reductions.RULES,
    **torch_products.RULES,
}
"""The rule of each operation."""
