"""What makes programs: `algorithm` and the generators of the category, for users.

Each gives what the module of that name below gives as a bare diagram (`catdiag.frontend.builder`,
`catdiag.category.diagram`), as a `Program`.

>>> from catdiag.category.types import ArrayType, Axis
>>> X = ArrayType((Axis("x"),))
>>> box("f", X, X) >> id(X) == box("f", X, X)
True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from catdiag.category import diagram
from catdiag.category.types import ArrayType, Ty
from catdiag.frontend import builder
from catdiag.program import Program


def algorithm(signature: str, name: str | None = None) -> Callable[[Callable[..., Any]], Program]:
    """The program of a function over named-axis arrays, for use as a decorator or as a function.

    `signature` gives the axes of each parameter, and after `->` those of each result; `->` may be left out.

    >>> double = algorithm("x -> x", name="double")(lambda a: a + a)
    >>> double.title, double.names, len(double)
    ('double', ('a',), 1)

    Raises SignatureError for a signature that does not parse or does not fit the function, AxisError for axes
    of the result that are not the declared ones.
    """
    made = builder.algorithm(signature, name)
    return lambda function: Program(made(function))


def box(name: str, dom: Ty | ArrayType, cod: Ty | ArrayType) -> Program:
    """An uninterpreted generator."""
    return Program(diagram.box(name, dom, cod))


def id(ty: Ty | ArrayType) -> Program:
    """The identity."""
    return Program(diagram.id(ty))


def swap(left: Ty | ArrayType, right: Ty | ArrayType) -> Program:
    """The symmetry: `left @ right → right @ left`."""
    return Program(diagram.swap(left, right))


def copy(ty: Ty | ArrayType, times: int = 2) -> Program:
    """`ty → ty @ … @ ty`, the comultiplication (`times` = 2) of the comonoid, or its iterate."""
    return Program(diagram.copy(ty, times))


def discard(ty: Ty | ArrayType) -> Program:
    """`ty → 1`, the counit."""
    return Program(diagram.discard(ty))
