"""Times of functions on a device: warmed up, in interleaved rounds, each with its spread."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Call = Callable[[int], Any]
"""Runs once, on the input set of that number."""


class Clock(Protocol):
    """What times calls: milliseconds of one of `times` calls in a row."""

    def time(self, call: Call, times: int) -> float:
        """Milliseconds of one call, of so many that are made one after the other."""


@dataclass(frozen=True)
class TimingSample:
    """Milliseconds of a call over some rounds: their median, and between what half of them lie."""

    median: float
    low: float
    high: float
    rounds: int

    @property
    def spread(self) -> float:
        """How far apart the quartiles are, as a share of the median."""
        return (self.high - self.low) / self.median if self.median else 0.0


def sample(times: Sequence[float]) -> TimingSample:
    """The median and the quartiles of some times.

    >>> sample([4.0, 1.0, 2.0, 3.0])
    TimingSample(median=2.5, low=1.75, high=3.25, rounds=4)
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
    """Times of several functions, in rounds A B C, A B C, …, and what those raised that could not be timed.

    Each function is warmed up for about `warm_ms`, and is then called so often in a row in each round that this takes
    about `batch_ms`: launches that are shorter than the host takes to ask for them are timed as a queue of them.

    >>> class Steps:
    ...     def time(self, call, times):
    ...         return float(call(0))
    >>> found, failed = interleaved({"a": lambda k: 2, "b": lambda k: 4}, Steps(), rounds=3)
    >>> found["b"].median / found["a"].median, failed
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
    """The clock of a CUDA device: events around calls, or around the replay of a graph of them.

    Short calls are captured as a graph, so that what the host takes to ask for them is not timed; where a call cannot
    be captured it is timed as it is, and `plain` holds it.
    """

    def __init__(self, short_ms: float = 0.4) -> None:
        import torch

        self.torch = torch
        self.short_ms = short_ms
        self.graphs: dict[tuple[int, int], Any] = {}
        self.kept: list[Call] = []
        self.plain: set[int] = set()
        self.last: dict[int, float] = {}

    def time(self, call: Call, times: int) -> float:
        """Milliseconds of one call. Raises what the call raises."""
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
        self.kept.append(call)  # so that no other call gets its number
        self.graphs[id(call), times] = graph
        return graph

    def forget(self) -> None:
        """Gives back the memory of the graphs."""
        self.graphs.clear()
        self.kept.clear()
        self.plain.clear()
        self.last.clear()
