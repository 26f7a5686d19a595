"""`catdiag sweep`: plans of operators on chips at many sizes, in several processes, as lines of JSON or a table."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from catdiag.cli.exit_status import DONE, UNDECIDED, UsageError
from catdiag.cli.operator_loading import operator
from catdiag.cli.option_values import check_writable, parse_sizes

if TYPE_CHECKING:
    from catdiag.planner.sweep import SweepResult

_TRIES = 3
"""How many times a sweep whose workers died is resumed with new ones."""
# Seconds between a worker's checks that its parent process is alive.
_LOOK = 0.5


def run_sweep(
    ops: Sequence[str],
    on: Sequence[str],
    size: Sequence[str],
    dtype: Sequence[str],
    to: Path | None,
    workers: int | None,
) -> int:
    """Runs `catdiag sweep` and returns 0 if every point was planned or refused with a reason, 3 if some failed."""
    from catdiag.planner.sweep import lines, sweep

    if workers is not None and workers < 1:
        raise UsageError(f"{workers} workers: expected 1 or more")
    check_writable(to)
    operators = [operator(name) if ":" in name else name for name in ops]
    chips = [name for text in on for name in text.split(",")]
    dtypes = [name for text in dtype for name in text.split(",")] or ["bf16"]
    grid = grid_of(size)
    results: list[SweepResult] = []
    for _ in range(_TRIES):
        try:
            with _bar() as progress, _processes(workers) as pool:
                results = sweep(operators, chips, grid, dtypes=dtypes, executor=pool, file=to, progress=progress)
        except OSError as error:
            raise UsageError(f"cannot write {to}: {error.strerror or error}") from error
        if to is None or not any(r.status == "failed" for r in results):
            break
    if to is None:
        sys.stdout.write(lines(results))
    counts = Counter(r.status for r in results)
    print(f"{len(results)} points: " + ", ".join(f"{n} {what}" for what, n in sorted(counts.items())), file=sys.stderr)
    return UNDECIDED if counts["failed"] else DONE


def grid_of(texts: Sequence[str]) -> dict[str, list[int]]:
    """Lengths by name from texts such as `q=1024/2048,d=128`. Raises UsageError.

    >>> grid_of(["q=1_024/2048/0,d=128"])
    {'q': [1024, 2048, 0], 'd': [128]}
    """
    found: dict[str, list[int]] = {}
    for part in (p for text in texts for p in text.split(",")):
        name, _, values = part.partition("=")
        for value in values.split("/"):
            # An axis of size 0 has no plan: its points say so, and the others are planned.
            empty = value.strip() == "0"
            ((symbol, number),) = parse_sizes([f"{name}={1 if empty else value}"]).items()
            found.setdefault(symbol, []).append(0 if empty else number)
    if not found:
        raise UsageError("no sizes are given: expected some of each axis, as in --size q=1024/2048,x=4096,d=64/128")
    return found


@contextmanager
def _processes(workers: int | None) -> Iterator[ProcessPoolExecutor | None]:
    """Worker processes that plan, and that are always ended; none for one worker, which is this process."""
    count = workers or os.cpu_count() or 1
    if count == 1:
        yield None
        return
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), initializer=_begin, initargs=(os.getpid(),))
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        # Do not wait for work in progress: nobody needs it any more.
        for process in list((pool._processes or {}).values()):
            process.terminate()
        raise
    pool.shutdown(cancel_futures=True)


def _begin(parent: int) -> None:
    """Set up in each worker: it ignores Ctrl-C, which its parent handles, and ends when the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK)
        os._exit(1)

    threading.Thread(target=look, name="catdiag-parent", daemon=True).start()


@contextmanager
def _bar() -> Iterator[Callable[[int, int], None]]:
    """A progress bar on the standard error stream if that is a terminal; otherwise nothing."""
    if not sys.stderr.isatty():
        yield lambda done, count: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("planning", total=None)
        yield lambda done, count: bar.update(task, completed=done, total=count)
