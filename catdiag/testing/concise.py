"""Failures that show the user's line and the message, and none of the library's own lines."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from catdiag.errors import CatdiagError

P = ParamSpec("P")
R = TypeVar("R")


def concise(function: Callable[P, R]) -> Callable[P, R]:
    """The assertion, with the traceback of what it says cut to the line that calls it.

    What an assertion says is an AssertionError, or a CatdiagError where it is used in a wrong way; any other error is
    one of the library, and keeps its traceback. pytest leaves out the frame that is left.
    """

    @wraps(function)
    def called(*args: P.args, **options: P.kwargs) -> R:
        __tracebackhide__ = True
        try:
            return function(*args, **options)
        except (AssertionError, CatdiagError) as error:
            error.__traceback__ = None
            raise

    return called
