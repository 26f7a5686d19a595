"""What a diagram costs: transfers H and memory M as formulas, and what follows from them.

- `traffic`: transfers and memory of two levels, and the rules by which they are counted; `traffic_by_level`: the same
  for every level of a memory hierarchy, with the results in `level_formulas`; `latex`: the formulas in LaTeX;
- `cache`, `cache_fetches`: what a cache fetches; `wave_footprints`: the footprint of a wave of groups, as numbers;
- `energy_of_transfers`; `machine_balance`: arithmetic intensity, the least memory and sizes for a machine's balance;
  `hierarchy_model`: costs of all levels, weighted and added;
- `multi_level_optimum`: the tiles of all levels chosen together; `sharding`: a diagram on a mesh of devices.

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
