"""Times of functions on a device, in milliseconds: after warm-up, in interleaved rounds, with quartiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Call = Callable[[int], Any]
"""A function to time: called with k, it runs once, on the k-th set of inputs."""


class Clock(Protocol):
    """A clock for calls on a device."""

    def time(self, call: Call, times: int) -> float:
        """The milliseconds of one call, as the mean of `times` calls in a row."""


@dataclass(frozen=True)
class TimingSample:
    """The milliseconds of a call over several rounds: their median and quartiles."""

    median_ms: float
    low_ms: float
    high_ms: float
    rounds: int


def sample(times: Sequence[float]) -> TimingSample:
    """The median and the quartiles of some times.

    >>> sample([4.0, 1.0, 2.0, 3.0])
    TimingSample(median_ms=2.5, low_ms=1.75, high_ms=3.25, rounds=4)
    """
    ordered = sorted(times)
    return TimingSample(_at(ordered, 0.5), _at(ordered, 0.25), _at(ordered, 0.75), len(ordered))


def _at(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def interleaved(
    calls: Mapping[str, Call],
    clock: Clock,
    *,
    rounds: int = 15,
    warm_ms: float = 100.0,
    batch_ms: float = 4.0,
) -> tuple[dict[str, TimingSample], dict[str, Exception]]:
    """The times of several functions, in rounds A B C, A B C, …; and the exceptions of those that could not be timed.

    Each function is warmed up for about `warm_ms` milliseconds. In each round it is called several times in a row, for
    about `batch_ms` milliseconds. So launches that are shorter than the host's launch overhead are timed as a queue.

    >>> class Steps:
    ...     def time(self, call, times):
    ...         return float(call(0))
    >>> found, failed = interleaved({"a": lambda k: 2, "b": lambda k: 4}, Steps(), rounds=3)
    >>> found["b"].median_ms / found["a"].median_ms, failed
    (2.0, {})
    """
    failed: dict[str, Exception] = {}
    batch: dict[str, int] = {}
    for name, call in calls.items():
        try:
            once = max(clock.time(call, 1), 1e-4)
            once = max(clock.time(call, max(1, min(20, round(1.0 / once)))), 1e-4)
            clock.time(call, max(1, min(2000, round(warm_ms / once))))
            batch[name] = max(1, min(500, round(batch_ms / once)))
        except (RuntimeError, ValueError, TypeError, OSError) as error:
            failed[name] = error
    times: dict[str, list[float]] = {name: [] for name in batch}
    for _ in range(rounds):
        for name, count in batch.items():
            if name in failed:
                continue
            try:
                times[name].append(clock.time(calls[name], count))
            except RuntimeError as error:
                failed[name] = error
    return {name: sample(found) for name, found in times.items() if name not in failed and found}, failed


class Events:
    """The clock of a CUDA device: CUDA events around calls, or around the replay of a CUDA graph of calls.

    Calls shorter than `short_ms` milliseconds are captured as a graph, so that the host's launch overhead is not timed.
    A call that cannot be captured is timed directly; `plain` has the ids of such calls.
    """

    def __init__(self, short_ms: float = 0.4) -> None:
        import torch

        self.torch = torch
        self.short_ms = short_ms
        self.graphs: dict[tuple[int, int], Any] = {}
        self.captured: list[Call] = []
        self.plain: set[int] = set()
        self.last: dict[int, float] = {}

    def time(self, call: Call, times: int) -> float:
        """The milliseconds of one call. Raises what the call raises."""
        key = (id(call), times)
        graph = self.graphs.get(key)
        if graph is None and times > 1 and self.last.get(id(call), math.inf) < self.short_ms:
            graph = self._captured(call, times)
        torch = self.torch
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        start.record()
        if graph is not None:
            graph.replay()
        else:
            for k in range(times):
                call(k)
        end.record()
        torch.cuda.synchronize()
        once = float(start.elapsed_time(end)) / times
        self.last[id(call)] = once
        return once

    def _captured(self, call: Call, times: int) -> Any:
        if id(call) in self.plain:
            return None
        torch = self.torch
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                for k in range(times):
                    call(k)
        except RuntimeError:
            self.plain.add(id(call))
            torch.cuda.synchronize()
            return None
        self.captured.append(call)  # referenced here so that its id is not reused
        self.graphs[id(call), times] = graph
        return graph

    def forget(self) -> None:
        """Frees the graphs."""
        self.graphs.clear()
        self.captured.clear()
        self.plain.clear()
        self.last.clear()
