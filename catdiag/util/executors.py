"""Many calls of one function, here or in the workers of an executor: one mechanism for all long work.

An executor is any `concurrent.futures.Executor`: threads, processes, what a Dask client's `get_executor()` gives, or
the client itself. Results come in the order of the items, whatever ran first. What a worker raises is not raised here
but comes as a `Failed` with its item, and the others go on. Whoever stops early (Ctrl-C, or an error in the loop over
the results) leaves nothing to be begun: what was submitted and not begun is cancelled.

>>> from concurrent.futures import ThreadPoolExecutor
>>> with ThreadPoolExecutor(2) as executor:
...     list(each(divmod, [(7, 2), (7, 0), (9, 4)], executor=executor))
[(3, 1), Failed(item=(7, 0), reason='ZeroDivisionError: integer division or modulo by zero', worker_died=False), (2, 1)]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass
from typing import Any, TypeVar

from catdiag.util.errors import CatdiagError

R = TypeVar("R")

AHEAD = 256
"""The most calls that are submitted and not yet done: what is more would only wait in somebody's memory."""
# How long one waits at a time, in seconds: Ctrl-C is heard in between.
_SLICE = 0.2

# What work may raise here; what is none of these is no failure of one item.
_RAISED = (ArithmeticError, AttributeError, CatdiagError, LookupError, MemoryError, OSError, RuntimeError, TypeError,
           ValueError)  # fmt: skip
# What Dask and Ray call a task that was lost with its worker.
_WORKER_DEATHS = ("KilledWorker", "WorkerCrashedError", "NodeDiedError")

Progress = Callable[[int, int], object]
"""Called with how many items are done, and how many there are."""


@dataclass(frozen=True)
class Failed:
    """What a call came to that raised, or whose worker died (`worker_died`: done again it may well succeed)."""

    item: tuple[Any, ...]
    reason: str
    worker_died: bool = False


def each(
    work: Callable[..., R],
    items: Sequence[tuple[Any, ...]],
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Generator[R | Failed, None, None]:
    """`work(*item)` for each item, in the order of the items: its result, or the Failed that it came to.

    Without an executor the calls are made here, one at a time, when their results are asked for. `progress` is called
    after each item that is done. Raises CatdiagError for an executor that is none; KeyboardInterrupt goes through.
    """
    count = len(items)
    if executor is None:
        for number, item in enumerate(items, 1):
            found = _here(work, item)
            if progress is not None:
                progress(number, count)
            yield found
        return
    pool = pool_of(executor)
    running: dict[Future[Any], int] = {}
    ready: dict[int, R | Failed] = {}
    todo = deque(range(count))
    done = 0
    try:
        for number in range(count):
            while number not in ready:
                while todo and len(running) < AHEAD:
                    k = todo.popleft()
                    try:
                        running[pool.submit(work, *items[k])] = k
                    except RuntimeError as error:  # shut down, or broken
                        ready[k] = Failed(items[k], f"the executor takes no more: {error}", worker_died=True)
                        done += 1
                finished, _ = wait(running, _SLICE, FIRST_COMPLETED) if running else (set(), None)
                for future in finished:
                    k = running.pop(future)
                    ready[k] = _result(future, items[k])
                    done += 1
                    if progress is not None:
                        progress(done, count)
            yield ready.pop(number)
    finally:
        for future in running:
            future.cancel()


def pool_of(executor: Any) -> Executor:
    """The executor that was given: itself, or that of a client that has one. Raises CatdiagError for what is none.

    >>> pool_of(3)
    Traceback (most recent call last):
        ...
    catdiag.util.errors.CatdiagError: executor is 3: expected a concurrent.futures.Executor, or a client with ...
    """
    if callable(getattr(executor, "submit", None)) and not hasattr(executor, "get_executor"):
        return executor  # type: ignore[no-any-return]
    if callable(getattr(executor, "get_executor", None)):
        # A task is pure, and what it gives may depend on what was installed meanwhile: it is never looked up.
        return executor.get_executor(pure=False)  # type: ignore[no-any-return]
    raise CatdiagError(
        f"executor is {executor!r}: expected a concurrent.futures.Executor, or a client with .get_executor()", line=""
    )


def _here(work: Callable[..., R], item: tuple[Any, ...]) -> R | Failed:
    try:
        return work(*item)
    except _RAISED as error:
        return Failed(item, error_line(error))


def _result(future: Future[Any], item: tuple[Any, ...]) -> Any:
    if future.cancelled():
        return Failed(item, "it was cancelled in the executor", worker_died=True)
    error = future.exception()
    if error is None:
        return future.result()
    # A worker that died says so in a class of its executor's own; one that was interrupted or ended itself did no less.
    lost = isinstance(error, (BrokenExecutor, CancelledError)) or not isinstance(error, Exception)
    lost = lost or type(error).__name__ in _WORKER_DEATHS
    return Failed(item, f"its worker ended: {error_line(error)}" if lost else error_line(error), lost)


def error_line(error: BaseException) -> str:
    """An error in one line, not too long."""
    message = error.message if isinstance(error, CatdiagError) else str(error)
    return f"{type(error).__name__}: {' '.join(message.split())}"[:2000]
