"""What "FlashAttention on a Napkin" (Abbott and Zardini, TMLR 2025, arXiv 2412.03317) computes by hand, from diagrams.

    python -m examples.napkin

prints the paper's tables beside what is derived. The parts, which nothing in catdiag needs:

- `tables`: the paper's figures; `hierarchy_model`: costs over levels (equations 2 and 3, theorems 2 and 3);
- `machine_balance`: transfers against work, and what that asks of a machine; `energy_of_transfers`;
- `multi_level_optimum`: the tiles of all levels chosen together;
- `warpgroup_resources`, `warpgroup_tables`, `warpgroup_configuration`, `warpgroup_timeline`: section 5's eight steps.
"""

from examples.napkin.energy_of_transfers import Energy, energy
from examples.napkin.hierarchy_model import Caching, Model, Tier, cross_transfer_gain, quantization_gain, tiers
from examples.napkin.machine_balance import (
    IntegerTiles,
    MemoryBounds,
    SizeRange,
    bandwidth_needed,
    machine_ratio,
    min_memory,
    min_memory_integer,
    per_operation,
    size_range,
)
from examples.napkin.multi_level_optimum import levels_together
from examples.napkin.warpgroup_configuration import Configuration, configure
from examples.napkin.warpgroup_timeline import Timeline, chart, timeline

__all__ = [
    "Caching", "Configuration", "Energy", "IntegerTiles", "MemoryBounds", "Model", "SizeRange", "Tier", "Timeline",
    "bandwidth_needed", "chart", "configure", "cross_transfer_gain", "energy", "levels_together", "machine_ratio",
    "min_memory", "min_memory_integer", "per_operation", "quantization_gain", "size_range", "tiers", "timeline",
]  # fmt: skip
