"""What can go wrong, and where in the user's own file it did.

Every error that a user can cause derives from `CatdiagError`; its text says what was expected and
ends in the line of the user's file, found by walking up to the first frame outside this package.
"""

from __future__ import annotations

import importlib
import linecache
import os
import re
import sys
from typing import Any, NamedTuple

PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
"""The folder of this package: frames of files outside it are the user's, but for those that import."""
_IMPORTS = ("<frozen", importlib.__file__)
_LINE = re.compile(r"(.*?):(\d+)(?:: (.*))?\Z", re.DOTALL)


def user_line() -> str | None:
    """The file, line and text of the innermost frame outside this package, or None.

    >>> user_line() is None or isinstance(user_line(), str)
    True
    """
    frame = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        # By name too: the `__init__` of a dataclass is in no file, and a part may be loaded from another copy's folder.
        ours = filename.startswith((PACKAGE, *_IMPORTS)) or (
            str(frame.f_globals.get("__name__")).startswith("catdiag.") and not filename.startswith("<doctest")
        )
        if not ours:
            text = linecache.getline(filename, frame.f_lineno).strip()
            return f"{filename}:{frame.f_lineno}" + (f": {text}" if text else "")
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None


class SourcePlace(NamedTuple):
    """A line of a file, with its code."""

    file: str
    number: str
    code: str

    @property
    def installed(self) -> bool:
        """Whether the file is one of an installed package."""
        return not {"site-packages", "dist-packages"}.isdisjoint(self.file.replace("\\", "/").split("/"))

    @property
    def short(self) -> str:
        """The file without its folder, which differs between machines, and the line."""
        return self.full.replace("\\", "/").rpartition("/")[2]

    @property
    def full(self) -> str:
        """The file and the line, without the code."""
        return f"{self.file}:{self.number}" if self.number else self.file


def source_place(line: str) -> SourcePlace:
    """The parts of what `user_line` gives.

    >>> source_place("/home/op.py:3: y = f(x)"), source_place("/home/op.py:3").short
    (SourcePlace(file='/home/op.py', number='3', code='y = f(x)'), 'op.py:3')
    """
    found = _LINE.match(line)
    return SourcePlace(line, "", "") if found is None else SourcePlace(*found.groups(""))


class CatdiagError(Exception):
    """Base of all errors that a user can cause. `.line` is the user's line, where there is one."""

    def __init__(self, message: str, line: str | None = None) -> None:
        self.message = message
        self.line = line if line is not None else user_line()
        super().__init__(message + (f"\n  at {self.line}" if self.line else ""))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as it is: its line is where it was raised, not where it is read back."""
        return _restored, (type(self), self.args), vars(self)


def _restored(kind: type[CatdiagError], args: tuple[Any, ...]) -> CatdiagError:
    """An error without its constructor being run; its attributes follow."""
    error: CatdiagError = kind.__new__(kind, *args)
    error.args = args
    return error


class TypeMismatch(CatdiagError, TypeError):
    """Two diagrams, or a box and its inputs, whose types do not fit."""


def require(holds: bool, what: str, value: object, expected: str) -> None:
    """Raises TypeMismatch, with what was given and what is expected, unless it holds.

    >>> try:
    ...     require(isinstance(3, str), "axis", 3, "a name, such as 'x'")
    ... except TypeMismatch as error:
    ...     print(error.message)
    axis is 3: expected a name, such as 'x'
    """
    if not holds:
        text = repr(value)
        shown = text if len(text) <= 80 and text.isprintable() else f"of type {type(value).__name__}"
        raise TypeMismatch(f"{what} is {shown}: expected {expected}")


class AxisError(CatdiagError, ValueError):
    """An axis that is unknown, repeated, or of two sizes."""


class SignatureError(CatdiagError, ValueError):
    """A signature or pattern that does not parse."""


class SizeError(CatdiagError, ValueError):
    """A size that is missing, not positive, or that disagrees with an array's shape."""


class FormulaError(CatdiagError, ValueError):
    """A formula that is not of the form that is asked for: no posynomial, say, or without powers of a capacity."""


class NotStreamable(CatdiagError):
    """A diagram that has no streamed form along an axis, with the reduction and the reason."""


class NotGroupable(CatdiagError):
    """A diagram that is not weaved over an axis, so that it cannot run in groups of it."""


class NotStabilizable(CatdiagError):
    """A diagram with an exponential from whose exponent no maximum can be subtracted, and why."""


class NotDifferentiable(CatdiagError):
    """Inputs or results without a derivative: integers and truth values, with the box that makes them."""


class NotDistributable(CatdiagError):
    """A diagram without a sum over which a product could be distributed, with the box and the reason."""


class NotFusable(CatdiagError):
    """Intermediate arrays that cannot stay on chip, or cannot be saved between kernels, with the reason."""


class DoesNotFit(CatdiagError):
    """No tile fits the memory of a level; the text lists what each array takes, and `excess` is how many times what a
    level holds the smallest tile needs."""

    excess: float = float("inf")


class OfOneKernel(CatdiagError, AttributeError):
    """What each kernel of a plan has for itself was asked of a plan of several."""


class MatchUndecided(CatdiagError):
    """Looking for a pattern took more work than allowed: no answer, not a guess."""


class NoMatch(CatdiagError):
    """A rule that does not match a diagram: the text says what came nearest, and what failed there."""


class EqualityUndecided(CatdiagError):
    """Comparing parts that reach no output took more work than allowed: no answer, not a guess."""
