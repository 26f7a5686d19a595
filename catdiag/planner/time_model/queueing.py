"""Closed queueing networks: how well customers fill the gaps that others leave.

>>> [float(seconds) for seconds in mean_value_analysis([1.0, 1.0], 2.0, [1, 2])]
[4.0, 4.5]
"""

from __future__ import annotations

import numpy as np

from catdiag.planner.resources.block_resources import Numbers


def mean_value_analysis(demands: list[Numbers], stalls: Numbers, customers: list[Numbers]) -> list[Numbers]:
    """Seconds of a round of a closed network with so many customers, for each of the numbers asked for.

    `demands` are the seconds at each station that a customer needs for itself, and queues for; `stalls` are shared by
    nobody. One that arrives at a station finds the queue of the same network with a customer less (Reiser and
    Lavenberg, J. ACM 27(2), 1980). With one customer the times add up; with many the busiest station is all that
    counts.
    """
    queues: list[Numbers] = [0.0] * len(demands)
    rounds: list[Numbers] = [0.0] * len(customers)
    for n in range(1, int(max(np.max(c) for c in customers)) + 1):
        stays = [demand * (1 + queue) for demand, queue in zip(demands, queues, strict=True)]
        whole = sum(stays) + stalls
        queues = [n * stay / whole for stay in stays]
        rounds = [np.where(asked == n, whole, found) for asked, found in zip(customers, rounds, strict=True)]
    return rounds


def queued_at_memory_seconds(core_seconds: Numbers, memory_seconds: Numbers, customers: Numbers) -> Numbers:
    """Seconds of a run that takes the cores `core_seconds` where memory is never waited for, and memory
    `memory_seconds` where it is always busy.

    So many customers (loads that may be on their way at once) go round between the cores and the memory, where they
    queue. By the approximate mean value analysis of Bard and of Schweitzer (both 1979) for one queue and a delay, with
    n customers and u = cores / memory, memory is busy for the part x of the time with

        x u + (x / n) / (1 - x (n - 1) / n) = 1,

    which is 1 / max(1, u) where n is large.

    >>> cases = ((0.0, 100), (0.8, 100), (1.0, 100), (1.0, 1000), (2.0, 100))
    >>> [round(float(queued_at_memory_seconds(u, 1.0, n)), 3) for u, n in cases]
    [1.0, 1.034, 1.1, 1.032, 2.02]
    """
    busy = np.maximum(memory_seconds, 1e-30)
    u, a = core_seconds / busy, (customers - 1) / customers
    b = u + a + 1 / customers
    return busy * (b + np.sqrt(np.maximum(b * b - 4 * a * u, 0.0))) / 2
