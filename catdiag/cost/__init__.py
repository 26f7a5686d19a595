"""What a diagram costs: transfers, memory, the optimum of one under the other, hardware and plans.

- `io`: transfers and memory as formulas, under rules that it states; `levels`: the same at every level of a chain, in
  `levelled` (`nested` tiles, `places` of arrays, `phases` below the states' home, `caches` and what each `fetches`);
  `latex`: in LaTeX;
- `live`: which arrays are on chip when; `lives`: what the stored order says of them; `kernels`: a diagram cut into GPU
  kernels; `amounts`: how many;
- `extents`: which blocks a loop runs that leaves some out; `density`: how often it turns, in all groups; `uneven`: the
  same in numbers, for plans; `windows`: what groups load of arrays that they read at computed positions;
- `optimum`: the least transfers for a memory, in closed form; `posynomial`: certificates of that, and their checker;
  `powerform`: transfers as powers of the capacity; `crossover`: where one sum of them begins to be less than another;
  `cases`: two ways compared in every regime;
- `closed`: what has a closed form; `regimes`: which constraints bind, with certificates checked in `stationary` and
  signs decided in `signs`; `dual`: optima without a closed form between two fractions (`convex` finds them,
  `enclosure` bounds logarithms and roots), `slowest`: the greatest of several edges, `joint`: the tiles
  of all levels together;
- `least`: the least transfers at given sizes, over all integer tiles; `whole`: the same under divisibility, of any
  formulas, with the gap to real tiles;
- `bounds`: what no schedule of a diagram's operations moves less than; `flow`, `sources`, `needed`: what that is read
  off; `segments`, `lifetimes`: certificates of it, and their checkers;
- `devices`: a diagram spread over several devices, as one more level;
- `hierarchy`: memories as graphs; `hardware`: chips, `chipfile`, `units`: as TOML files;
- `timing`: predicted times; `plan`: tiles for a chip; `proof`: that they fit;
- `request`, `search`, `pieces`, `report`, `planned`: what is asked of a plan, tried, wanted, reckoned and shown;
- `turns`: which pipelines run at once in a plan; `capacity`: whether all tiles in ranges fit, or none can;
- `model`: costs over levels, quantised, cached, clustered; `balance`: transfers against work; `joules`: energy;
- `column_reader`: the arrays of a kernel with registers and matrix units, in `columns`; `configuration`: how many
  warpgroups fit and what a turn takes them; `schedule`: when they use what.

What users call is here too, imported when first used: `cd.cost.Model`, `cd.cost.least_memory`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "catdiag.cost.bounds": "LowerBound lower_bound",
    "catdiag.cost.segments": "BoundError",
    "catdiag.cost.joint": "levels_together",
    "catdiag.cost.capacity": "fits possible",
    "catdiag.cost.model": "Model Tier cross_transfer_gain quantisation_gain tiers",
    "catdiag.cost.balance": ("bandwidth_needed least_memory least_memory_whole machine_ratio per_operation size_range"),
    "catdiag.cost.joules": "energy",
    "catdiag.cost.crossover": "Crossover changes",
    "catdiag.cost.devices": "Spread spread",
    "catdiag.cost.column_reader": "read_columns",
    "catdiag.cost.configuration": "configure",
    "catdiag.cost.schedule": "timeline",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'catdiag.cost' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
