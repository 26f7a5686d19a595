"""What a diagram costs: transfers and memory as formulas, and what follows from them.

- `traffic`: transfers and memory, under rules that it states; `traffic_by_level`: the same at every level of a chain,
  as the values of `level_formulas`; `latex`: in LaTeX;
- `cache`, `cache_fetches`: what a cache fetches; `wave_footprints`: what waves of groups load, counted;
- `energy_of_transfers`; `machine_balance`: transfers against work; `hierarchy_model`: costs over levels;
- `multi_level_optimum`: the tiles of all levels chosen together; `sharding`: a diagram on several devices.

What users call is here too, imported when first used: `cd.cost.Model`, `cd.cost.min_memory`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "catdiag.cost.multi_level_optimum": "levels_together",
    "catdiag.cost.hierarchy_model": "Model Tier cross_transfer_gain quantization_gain tiers",
    "catdiag.cost.machine_balance": (
        "bandwidth_needed min_memory min_memory_integer machine_ratio per_operation size_range"
    ),
    "catdiag.cost.energy_of_transfers": "energy",
    "catdiag.optimum.crossover": "Crossover changes",
    "catdiag.cost.sharding": "Sharding sharding",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'catdiag.cost' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
