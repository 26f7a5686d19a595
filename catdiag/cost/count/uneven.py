"""Groups that differ in length: how often their loops turn, on average and at most, for candidates of tiles.

Where a loop leaves blocks out, the values of a candidate are extended by what `catdiag.cost.chips.timing` reads of
them:
`("turns", block)`, how often the loop turns in a group, `("moved", transfer)`, what an array moves in the whole run.
`("share", block)` says what part of its blocks a loop runs that asks data about each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from catdiag.cost.count.amounts import Amount
from catdiag.cost.count.extents import Extent, Tally
from catdiag.cost.count.live import Kernel, Loop
from catdiag.cost.count.windows import count

Values = Mapping[Any, Any]


def counted(kernel: Kernel, values: Values) -> tuple[Values, Values]:
    """The values of candidates with the turns of the average group, and with those of the longest."""
    tally = Tally(kernel.tiles, values, {key[1]: v for key, v in values.items() if key[0] == "share"})
    average, longest = dict(values), dict(values)
    for (block, _), extent in kernel.extents.items():
        sums, most = tally.turns(extent)
        number: Any = 1
        for _, tile in extent.tiles:
            number = number * -(-kernel.tiles[tile].value(values) // values[tile])
        average["turns", block], longest["turns", block] = sums / number, most
    for moved in kernel.transfers:
        if moved.window:
            average["moved", moved] = longest["moved", moved] = count(moved, kernel, values)
        elif moved.extent is not None:
            total = whole_run(moved.local, moved.loops, moved.extent, kernel, values, tally)
            average["moved", moved] = longest["moved", moved] = total
    return average, longest


def whole_run(
    amount: Amount, loops: Iterable[Loop], extent: Extent, kernel: Kernel, values: Values, tally: Tally | None = None
) -> Any:
    """A local amount summed over all groups, and over the blocks that a loop runs."""
    import numpy as np

    if tally is None:
        tally = Tally(kernel.tiles, values, {key[1]: v for key, v in values.items() if key[0] == "share"})
    ranges = {**kernel.tiles, **dict(loops)}
    inner = [*(tile for _, tile in extent.tiles), extent.block]
    total: Any = 0
    for monomial, coefficient in amount.terms.items():
        term: Any = coefficient
        for name in monomial:
            if name not in ranges:
                term = term * values[name]
        for name, whole in ranges.items():
            if name not in inner:
                power = monomial.count(name)
                size, piece = whole.value(values), values[name]
                full = size // piece
                rest = size - full * piece
                term = term * (full * piece**power + np.where(rest > 0, rest**power, 0))
        total = total + term * tally.total(extent, tuple(monomial.count(name) for name in inner))[0]
    return total
