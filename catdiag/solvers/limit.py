"""A limit on the time that a piece of work may take, wherever in the work the time goes.

The work runs in the caller's own thread. A second thread waits, and when the time is up raises an exception in the
first, which is heard between any two steps of Python; nothing in the work has to look at a clock. While a module is
being imported it waits: one that is half imported stays so, for whoever comes next.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable
from typing import TypeVar

R = TypeVar("R")

# An exception that is raised while an object is being deleted is lost: it is raised again after this many seconds.
_AGAIN = 0.5
# Steps of Python in which an exception that was raised from outside is heard: at the first that goes back in a loop.
_STEPS = 100
# How soon it is looked again whether an import has ended, in seconds.
_SOON = 0.005


class OutOfTime(Exception):
    """The work took longer than it was given."""


class _Stop(BaseException):
    """What is raised in the middle of the work. No handler of errors there takes it for its own."""


def within(seconds: float | None, work: Callable[[], R]) -> R:
    """What the work returns or raises, if it ends within that many seconds; None is without limit.

    Raises OutOfTime where it does not, even if it ended later before anybody stopped it.

    >>> within(10, lambda: 1 + 1)
    2
    >>> within(0.01, lambda: [n for n in iter(int, 1)])
    Traceback (most recent call last):
        ...
    catdiag.solvers.limit.OutOfTime: more than 0.01 s
    """
    if seconds is None:
        return work()
    limit = min(seconds, threading.TIMEOUT_MAX)
    worker, ended, began = threading.get_ident(), threading.Event(), time.monotonic()

    def watch() -> None:
        wait = limit
        while not ended.wait(wait):
            busy = _importing(worker)
            if not busy:
                _raise_in(worker, _Stop)
            wait = _SOON if busy else _AGAIN

    watcher = threading.Thread(target=watch, name="catdiag-limit", daemon=True)

    def finish() -> None:
        """No exception comes from the watcher any more."""
        while True:
            try:
                ended.set()
                if watcher.ident is not None:
                    watcher.join()
                # One that is on its way is heard in this loop. Taking it back would leave Python looking for it for
                # ever, and under a debugger or a profiler doing nothing else.
                for _ in range(_STEPS):
                    pass
                return
            except _Stop:
                continue

    try:
        try:
            # Inside, since the time may be up before this has returned.
            watcher.start()
            result = work()
            late = time.monotonic() - began > limit
        finally:
            finish()
        # A stop may be lost, in a callback of the garbage collector say, and the work come to its end.
        if not late:
            return result
    except _Stop:
        finish()
    raise OutOfTime(f"more than {seconds:g} s")


def _importing(thread: int) -> bool:
    """Whether a thread is in the middle of an import that its work began: the work may be part of one itself."""
    frame = sys._current_frames().get(thread)
    while frame is not None and frame.f_code is not within.__code__:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _raise_in(thread: int, kind: type[BaseException]) -> None:
    """Raises an exception in a thread at its next step."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))
