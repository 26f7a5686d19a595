"""Named operators as programs: `library.attention`, or `library.get("attention")`.

They are built when they are first asked for. `definitions` has their mathematics, a docstring each; `diagrams` gives
them as bare diagrams, for bulk work.

>>> import catdiag as cd
>>> print(cd.library.softmax)
softmax: [q x] → [q x]
>>> cd.library.get("softmax") == cd.library.softmax, "softmax" in dir(cd.library)
(True, True)
"""

from __future__ import annotations

from typing import Any

from catdiag.library import diagrams
from catdiag.library.diagrams import describe, names
from catdiag.util.display import as_program
from catdiag.util.errors import CatdiagError

__all__ = ["describe", "get", "names"]


def get(name: str) -> Any:
    """The program of that name. Raises CatdiagError, naming those that there are.

    >>> print(get("attention"))
    attention: [q d] @ [x d] @ [x d] → [q d]
    """
    return as_program(diagrams.get(name))


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return get(name)
    except CatdiagError as error:
        raise AttributeError(error.message) from None


def __dir__() -> list[str]:
    return sorted({*__all__, *names()})
