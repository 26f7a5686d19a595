"""Plots of costs, with matplotlib (the extra `[plot]`), which is imported when a plot is drawn.

- `roofline`: compute rate against arithmetic intensity, with a roof for each edge of a chip's memories;
- `transfers`: the least transfers against memory, with regimes, integer tiles and the lower bound;
- `landscape`: predicted time over two tiles, and where nothing fits;
- `waterfall`: the traffic of each array unfused, and what fusion saves or adds.

Each returns a `matplotlib.figure.Figure`; `save` and `svg` write it, with the same bytes for the same figure. The
numbers of each plot are returned by `roofline_of`, `capacities`, `landscape_of` and `waterfall_of`.
"""

from __future__ import annotations

from catdiag.draw.plots.capacities import capacities, transfers
from catdiag.draw.plots.landscapes import landscape, landscape_of
from catdiag.draw.plots.output import save, svg
from catdiag.draw.plots.rooflines import roofline, roofline_of
from catdiag.draw.plots.waterfalls import waterfall, waterfall_of

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
