"""What a diagram costs: transfers and memory as formulas, and what follows from them.

- `traffic`: transfers and memory, under rules that it states; `traffic_by_level`: the same at every level of a chain,
  as the values of `level_formulas`; `latex`: in LaTeX;
- `cache`, `cache_fetches`: what a cache fetches; `wave_footprints`: what waves of groups load, counted;
- `sharding`: a diagram on several devices.

What users call is here too, imported when first used: `cd.cost.sharding`, `cd.cost.changes`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
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
