"""Times of contestants on one device, in rounds."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

WINDOW_S = 0.1
"""Seconds of calls in a row that are timed as one: in fewer, what the host takes before the first launch is seen."""
Function = Callable[[], Any]


def measured(function: Function, calls: int) -> float:
    """Seconds of a call, of several in a row: on the GPU where there is one, else by the host's clock."""
    import torch

    if not torch.cuda.is_available():
        begin = time.perf_counter()
        for _ in range(calls):
            function()
        return (time.perf_counter() - begin) / calls
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(calls):
        function()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1e3 / calls


def timed_in_rounds(functions: Mapping[str, Function], rounds: int) -> dict[str, dict[str, Any]]:
    """The median and the quartiles of the seconds of a call of each function, timed in rounds, each in an order drawn
    by lot: a function that draws much power slows down the next one."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    calls = {name: max(1, round(WINDOW_S / measured(f, 2))) for name, f in functions.items()}
    order, random_order = list(functions), random.Random(0)
    for _ in range(rounds):
        random_order.shuffle(order)
        for name in order:
            times[name].append(measured(functions[name], calls[name]))
    return {
        name: {
            "time_s": statistics.median(values),
            "quartiles_s": [sorted(values)[k * (len(values) - 1) // 4] for k in (1, 3)],
        }
        for name, values in times.items()
    }
