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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

R = TypeVar("R")

# Work may suppress what is raised in it: it is raised again after this many seconds.
_AGAIN = 0.5
# Steps of Python in which an exception that was raised from outside is heard: at the first that goes back in a loop.
_STEPS = 100
# How soon it is looked again whether a stop may be raised, or has been dropped, in seconds.
_SOON = 0.005


class OutOfTime(Exception):
    """The work took longer than it was given."""


class _Stop(BaseException):
    """What is raised in the middle of the work. No handler of errors there takes it for its own.

    Each work has a class of its own; `owed` says whether one is still to be raised.
    """

    owed = True


class _Hook:
    """In the place of Python's word on exceptions that it drops: a stop is not reported, but owed again."""

    def __init__(self, said: Callable[[Any], Any]) -> None:
        self.previous_hook, self.users = said, 0

    def __call__(self, dropped: Any) -> None:
        if not issubclass(dropped.exc_type, _Stop):
            self.previous_hook(dropped)
        else:
            dropped.exc_type.owed = True


_HOOKING = threading.Lock()


@contextmanager
def _unsaid() -> Iterator[None]:
    """Inside, no stop is lost where Python drops exceptions: in a callback of the garbage collector, say."""
    with _HOOKING:
        hook = sys.unraisablehook if isinstance(sys.unraisablehook, _Hook) else _Hook(sys.unraisablehook)
        hook.users += 1
        sys.unraisablehook = hook
    try:
        yield
    finally:
        with _HOOKING:
            hook.users -= 1
            if not hook.users and sys.unraisablehook is hook:
                sys.unraisablehook = hook.previous_hook


def within(seconds: float | None, work: Callable[[], R]) -> R:
    """What the work returns or raises, if it ends within that many seconds; None is without limit.

    Raises OutOfTime where it does not, even if it ended later before anybody stopped it.

    >>> within(10, lambda: 1 + 1)
    2
    >>> within(0.01, lambda: [n for n in iter(int, 1)])
    Traceback (most recent call last):
        ...
    catdiag.util.time_limit.OutOfTime: more than 0.01 s
    """
    if seconds is None:
        return work()
    with _unsaid():
        return _within(seconds, work)


def _within(seconds: float, work: Callable[[], R]) -> R:
    limit = min(seconds, threading.TIMEOUT_MAX)
    worker, ended, began = threading.get_ident(), threading.Event(), time.monotonic()

    class kind(_Stop):
        """The stops of this work."""

    def watch() -> None:
        wait, since = limit, 0.0
        while not ended.wait(wait):
            since += wait
            if (kind.owed or since >= _AGAIN) and not _deaf(worker):
                kind.owed, since = False, 0.0
                _raise_in(worker, kind)
            wait = _SOON

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


def _deaf(thread: int) -> bool:
    """Whether a thread is in the middle of an import that its work began (the work may be part of one itself), or says
    which exception was dropped."""
    frame = sys._current_frames().get(thread)
    while frame is not None and frame.f_code is not _within.__code__:
        if frame.f_code.co_filename.startswith("<frozen importlib") or frame.f_code is _Hook.__call__.__code__:
            return True
        frame = frame.f_back
    return False


def _raise_in(thread: int, kind: type[BaseException]) -> None:
    """Raises an exception in a thread at its next step."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))
