"""Failures that show the user's line and the message, without the library's own frames."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from catdiag.util.errors import CatdiagError

P = ParamSpec("P")
R = TypeVar("R")


def concise(function: Callable[P, R]) -> Callable[P, R]:
    """The assertion with its traceback cut to the line that calls it.

    That holds for an AssertionError, and for a CatdiagError, which reports wrong use. Any other error is a fault of the
    library, and keeps its traceback. pytest hides the remaining frame.
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
