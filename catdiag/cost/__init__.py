"""What a diagram costs: transfers and memory as formulas, and what follows from them.

- `traffic`: transfers and memory, under rules that it states; `traffic_by_level`: the same at every level of a chain,
  as the values of `level_formulas`; `latex`: in LaTeX;
- `cache`, `cache_fetches`: what a cache fetches; `wave_footprints`: what waves of groups load, counted;
- `sharding`: a diagram on several devices.

What users call is here too, imported when first used: `cd.cost.sharding`, `cd.cost.changes`.
"""

from __future__ import annotations

from catdiag.util.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "catdiag.optimum.crossover": "Crossover changes",
        "catdiag.cost.sharding": "Sharding sharding",
    },
)
