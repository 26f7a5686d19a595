"""The standard streams of a command: a failed write ends it with one message, wherever it happens.

A disk may be full, a reader may be gone, or a stream closed before the command began. By default Python would exit with
a traceback and status 1, which means *refuted*, or print a message about its own streams at the very end.
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
    """A file handle of the operating system. The first error is passed to `lost`; everything written after it is
    discarded."""

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
    """Ignores messages that cannot be printed: they do not change how a command ends."""


def _stream(number: int, old: TextIO | None, lost: Callable[[OSError], None]) -> TextIO:
    raw = _Handle(number, lost)
    # Formulas have characters that some terminals cannot encode: those print as `?`, instead of failing.
    buffered = io.BufferedWriter(raw)
    return io.TextIOWrapper(buffered, old.encoding if old else "utf-8", "replace", line_buffering=raw.isatty())


@contextmanager
def own_streams() -> Iterator[None]:
    """Replaces the standard streams by such handles while it is open. Streams that a caller has replaced are left
    alone.

    Raises SystemExit if output cannot be written, at the end at the latest.
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


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Shows on a terminal that work is in progress, and each step that is said to the function that it gives;
    otherwise nothing."""
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(f"{what} …") as status:
        yield lambda step: status.update(f"{what}: {escape(step)} …")
