"""Exit statuses of commands, and errors as one message on the standard error stream."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from catdiag.util.errors import (
    CatdiagError,
    DoesNotFit,
    EqualityUndecided,
    NotFusable,
    NotGroupable,
    NotStreamable,
    SourcePlace,
    source_place,
)

DONE, REFUTED, WRONG_USE, UNDECIDED, NO_FIT, VACUOUS, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130

LONGEST = 4000
"""The characters of a line that are printed of a text of any length."""


def shown(line: str) -> str:
    """A line of untrusted text: control characters are escaped, and it is truncated.

    >>> shown("\\x1b[2J"), shown("a" * 5000)[-20:]
    ('\\\\x1b[2J', ' (1000 letters more)')
    """
    cut = line if len(line) <= LONGEST else f"{line[:LONGEST]} … ({len(line) - LONGEST} letters more)"
    return cut if cut.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in cut)


class UsageError(CatdiagError):
    """Wrong arguments of the command line: the message has no source line."""

    def __init__(self, message: str) -> None:
        super().__init__(message, line="")


def require_limit(limit: float | None) -> None:
    """Raises UsageError for a time limit that is not positive. None means no limit."""
    if limit is not None and not limit > 0:
        raise UsageError(f"the limit is {limit:g}: expected a number of seconds above 0")


class NothingDerived(UsageError):
    """No axis can be streamed or grouped, so there is no theorem."""


_OPEN = dict.fromkeys(("NotACounterexample", "NotProved"), UNDECIDED)


def status_of(error: CatdiagError) -> int:
    """The exit status of an error.

    >>> status_of(UsageError("no such axis")), status_of(DoesNotFit("too large"))
    (2, 4)
    """
    # Classes of the prover are compared by name: importing them would make `check` depend on the prover.
    by_name = {"Refuted": REFUTED, "Undecided": UNDECIDED, "Interrupted": INTERRUPTED, **_OPEN}
    if type(error).__name__ in by_name:
        return by_name[type(error).__name__]
    if isinstance(error, DoesNotFit):
        return NO_FIT
    if isinstance(error, (NotStreamable, NotGroupable, NotFusable, NothingDerived, EqualityUndecided)):
        return UNDECIDED
    return WRONG_USE


def message_of(error: CatdiagError) -> str:
    """The text of an error, without the source line if that is not in a user's file.

    >>> message_of(CatdiagError("no such axis", "op.py:3: f()")), message_of(CatdiagError("no such axis", "<string>:1"))
    ('no such axis\\n  at op.py:3: f()', 'no such axis')
    """
    shown = not error.line or _of_user(source_place(error.line))
    return own_lines(str(error) if shown else error.message)


def own_lines(text: str) -> str:
    """A text without the source lines in parentheses that are not in the user's files, such as those of installed
    packages.

    >>> own_lines("sum[x] (/lib/site-packages/a/b.py:3: return f(x)) and max[x] (op.py:4: max(y))")
    'sum[x] and max[x] (op.py:4: max(y))'
    """
    while True:
        found = re.search(r" \(([^\s()]*[/\\](?:site|dist)-packages[/\\][^\s()]*):\d+", text)
        if found is None:
            return text
        depth, end = 0, found.start() + 1
        while end < len(text):
            depth += (text[end] == "(") - (text[end] == ")")
            end += 1
            if depth == 0:
                break
        text = text[: found.start()] + text[end:]


def _of_user(place: SourcePlace) -> bool:
    """Whether a line is the user's, and not of the script that started the command or of an installed package."""
    return place.file.endswith(".py") and place.file != sys.argv[0] and not place.installed


@contextmanager
def guarded() -> Iterator[None]:
    """Runs a command. Errors that a user can cause end it with a message and their exit status."""
    try:
        yield
        sys.stdout.flush()
    except CatdiagError as error:
        fail(message_of(error), status_of(error))
    except KeyboardInterrupt as error:
        raise typer.Exit(INTERRUPTED) from error  # reported by `main`
    except OSError as error:  # errors of files that no command has reported itself
        fail(f"{error.filename or 'a file'}: {error.strerror or error}", WRONG_USE)
    except RecursionError:
        fail("the program is nested too deeply: the recursion limit was reached", UNDECIDED)
    except MemoryError:
        fail("interrupted: out of memory", INTERRUPTED)


def fail(message: str, status: int) -> None:
    """Ends the command with a message on the standard error stream. Raises typer.Exit."""
    sys.stdout.flush()
    print("\n".join(map(shown, f"catdiag: {message}".split("\n"))), file=sys.stderr)
    raise typer.Exit(status)


def ended(status: int) -> None:
    """Ends the command with an exit status. Raises typer.Exit unless it is 0."""
    if status != DONE:
        raise typer.Exit(status)
