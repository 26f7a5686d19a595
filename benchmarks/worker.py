"""One measurement in a process of its own: `python benchmarks/worker.py LIBRARY TASK SHAPE WAY BOXES SECONDS`.

CPU time without the garbage collector; where one run takes less than 0.02 s, the mean of many, and the least of two
such means. What is measured is made anew for each run, so that nothing that a first one keeps helps a second. A run has
so many seconds of computing, the process 6 GB, and what a run is given has to be made in 30 s.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MEMORY = 6 << 30
SHORT = 0.02
MAKING = 30
OFTEN = 1
LOOK = 0.5


@contextmanager
def _at_most(seconds: int, late: Callable[[], object]) -> Iterator[None]:
    """Looks every half second at what was computed meanwhile. (A limit of the system's makes its clock coarse.)"""
    end = time.process_time() + seconds

    def look(*_: object) -> None:
        if time.process_time() > end:
            late()

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LOOK, LOOK)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


def _once(runs: list[Callable[[], Any]], most: int) -> tuple[float, Any]:
    """The seconds of all, and what the last one made."""
    gc.collect()
    gc.disable()
    # What making takes is not what is measured: the limit is on this.
    with _at_most(most, lambda: os.kill(os.getpid(), signal.SIGKILL)):
        start = time.process_time()
        for run in runs:
            made = run()
        seconds = time.process_time() - start
    gc.enable()
    return seconds, made


def _first(make: Callable[[int], Callable[[], Any]], n: int) -> Callable[[], Any]:
    """What the first run is of; exits where it takes too long to make."""
    with _at_most(MAKING, lambda: sys.exit(f"not made in {MAKING} s")):
        return make(n)


def main() -> None:
    """Prints the seconds as JSON."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    library, task, shape, way, boxes, limit = sys.argv[1:]
    n, most = int(boxes), int(limit)
    module = importlib.import_module(f"benchmarks.peers.{library}")
    make = module.WAYS[task, shape][way]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    seconds, made = _once([_first(make, n)], most)
    if seconds < SHORT:
        # The clock moves in steps of some milliseconds: many are run one after the other, more until they count.
        many, begun = 1, time.process_time()
        while seconds * many < SHORT and 8 * (time.process_time() - begun) < OFTEN:
            many *= 8
            seconds = _once([make(n) for _ in range(many)], most)[0] / many
        seconds = min(seconds, _once([make(n) for _ in range(many)], most)[0] / many)
    if task in ("compare", "differ"):
        assert made is True
    elif task == "evaluate":
        assert made == n
    else:
        assert module.count(made) >= (n if task == "build" else 2 * n)
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
