"""Plots of what diagrams cost, with matplotlib (the extra `[plot]`), which is imported when one is drawn.

- `roofline`: compute rate against intensity, with a roof for each edge of a chip's memories;
- `transfers`: the least transfers against memory, with regimes, whole tiles and the lower bound;
- `landscape`: predicted time over two tiles, with what does not fit;
- `waterfall`: what each array moves unfused, and what fusion takes off or puts on.

Each gives a `matplotlib.figure.Figure`; `save` and `svg` write it, the same bytes for the same figure. The numbers of
each, without a picture, are what `roofline_of`, `capacities`, `landscape_of` and `waterfall_of` give.
"""

from __future__ import annotations

from catdiag.draw.plots.figure_files import save, svg
from catdiag.draw.plots.roofline_plot import roofline, roofline_of
from catdiag.draw.plots.tile_landscape import landscape, landscape_of
from catdiag.draw.plots.traffic_by_memory import capacities, transfers
from catdiag.draw.plots.traffic_waterfall import waterfall, waterfall_of

__all__ = [
    "capacities",
    "landscape",
    "landscape_of",
    "roofline",
    "roofline_of",
    "save",
    "svg",
    "transfers",
    "waterfall",
    "waterfall_of",
]
