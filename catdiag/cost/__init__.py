"""What a diagram costs: transfers, memory, the optimum of one under the other, hardware and plans.

- `io`: transfers and memory as formulas, under rules that it states; `levels`: the same at every level of a chain,
  as `levelled` values; `joint`: the tiles of all levels together; `latex`: in LaTeX; `count/`: how they are counted;
- `optimum`: the least transfers for a memory, in closed form; `optima/`: posynomial programs, regimes, certificates
  and their checkers, brackets where there is no closed form, whole tiles; `crossover`: where one sum of powers of the
  capacity begins to be less than another;
- `bounds`: what no schedule of a diagram's operations moves less than; `lower/`: what that is read off and rests on;
- `hierarchy`: memories as graphs; `hardware`: chips; `plan`: tiles for a chip; `chips/`: the files of chips, predicted
  times, and how a plan is found and proved;
- `model`: costs over levels, quantised, cached, clustered; `balance`: transfers against work; `joules`: energy;
  `devices`: a diagram spread over several; `warpgroups/`: a kernel on registers and matrix units.

What users call of transfers and their optima is here too, imported when first used: `cd.cost.Model`,
`cd.cost.least_memory`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "catdiag.cost.joint": "levels_together",
    "catdiag.cost.model": "Model Tier cross_transfer_gain quantisation_gain tiers",
    "catdiag.cost.balance": ("bandwidth_needed least_memory least_memory_whole machine_ratio per_operation size_range"),
    "catdiag.cost.joules": "energy",
    "catdiag.cost.crossover": "Crossover changes",
    "catdiag.cost.devices": "Spread spread",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'catdiag.cost' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
