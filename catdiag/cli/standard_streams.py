"""The standard streams of a command: what cannot be written ends it with one message, whoever was writing.

A disk may be full, a reader gone, a stream closed before the command began. Python would end with a traceback and the
status that means *refuted*, or with a message about its own streams when all else is done.
"""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

UNWRITTEN, UNREAD = 2, 141
"""The exit statuses where output cannot be written, and where nobody reads it any more: as of a program ended by
SIGPIPE."""


class _Handle(io.RawIOBase):
    """A file handle of the system. The first error is told to `lost`; after it, what is written goes nowhere."""

    def __init__(self, handle: int, lost: Callable[[OSError], None]) -> None:
        self._handle, self._lost, self._open = handle, lost, True

    def fileno(self) -> int:
        return self._handle

    def isatty(self) -> bool:
        try:
            return os.isatty(self._handle)
        except OSError:
            return False

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        given = memoryview(data)  # type: ignore[arg-type]
        while self._open:
            try:
                return os.write(self._handle, given)
            except BlockingIOError:
                select.select([], [self._handle], [])
            except OSError as error:
                self._open = False
                self._lost(error)
        return len(given)


def _ended(error: OSError) -> None:
    if isinstance(error, BrokenPipeError):
        raise SystemExit(UNREAD)
    print(f"catdiag: cannot write the output: {error.strerror}", file=sys.stderr)
    raise SystemExit(UNWRITTEN)


def _unheard(_: OSError) -> None:
    """Messages that cannot be told change nothing of how a command ends."""


def _stream(number: int, old: TextIO | None, lost: Callable[[OSError], None]) -> TextIO:
    raw = _Handle(number, lost)
    # Formulas have letters that some terminals lack: those print as `?`, instead of failing.
    buffered = io.BufferedWriter(raw)
    return io.TextIOWrapper(buffered, old.encoding if old else "utf-8", "replace", line_buffering=raw.isatty())


@contextmanager
def own_streams() -> Iterator[None]:
    """Inside, the standard streams are such; ones that somebody has put in their place stay as they are.

    Raises SystemExit where output cannot be written, at the end at the latest.
    """
    before = sys.stdout, sys.stderr
    if sys.stderr is sys.__stderr__:
        sys.stderr = _stream(2, before[1], _unheard)
    if sys.stdout is sys.__stdout__:
        sys.stdout = _stream(1, before[0], _ended)
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
        finally:
            sys.stderr.flush()
            sys.stdout, sys.stderr = before
