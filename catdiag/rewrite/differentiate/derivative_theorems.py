"""What there is to prove of derivatives, as equations between programs.

- `adjointness`: the reverse derivative is the transpose of the forward one, `Σ g·Df(x)t = Σ Rf(x, g)·t`;
- `expansion`: the forward derivative is one, `f(x + s·t) = f(x) + s·Df(x)t + s²·R(x, t, s)`, for a remainder R that is
  given. It says that `(f(x + s·t) − f(x))/s` tends to `Df(x)t` as s tends to 0, where R is bounded near s = 0.

Both hold of a composition where they hold of its parts, by the chain rule (docs/explanation/gradients.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any

from catdiag.category.diagram import Diagram
from catdiag.category.types import ArrayType
from catdiag.frontend.builder import program
from catdiag.frontend.builder import sum as summed
from catdiag.frontend.diagram_calls import call_diagram
from catdiag.frontend.tracing import Traced, running
from catdiag.rewrite.differentiate.box_derivatives import has_derivative
from catdiag.rewrite.differentiate.gradient import forward_derivative, gradient
from catdiag.solvers.z3 import Z3

Arrays = Sequence[Traced]


def adjointness(diagram: Diagram, ask: Z3) -> tuple[Diagram, Diagram]:
    """The two sides of `Σ g·Df(x)t = Σ Rf(x, g)·t`, from inputs, tangents and cotangents to a number.

    >>> import catdiag as cd
    >>> f = cd.algorithm("x y, y")(lambda a, b: cd.exp(a) * b)
    >>> with Z3() as ask:
    ...     left, right = adjointness(f.diagram, ask)
    >>> str(left), cd.prove(left, right).conditional
    ('forward: [x y] @ [y] @ [x y] @ [y] @ [x y] → []', False)

    Raises NotDifferentiable where no input or no result holds real numbers.
    """
    forward, reverse = forward_derivative(diagram, ask).diagram, gradient(diagram, ask).diagram
    count, tangents = len(diagram.dom), len(forward.dom) - len(diagram.dom)
    types = [*forward.dom, *(ArrayType(ty.axes) for ty in diagram.cod if has_derivative(ty))]
    names = (*forward.input_names, *(f"g{k}" for k in range(len(types) - len(forward.dom))))

    def pushed(*arrays: Any) -> Any:
        found = _several(call_diagram(forward, arrays[: len(forward.dom)]))
        return _paired(found, arrays[len(forward.dom) :])

    def pulled(*arrays: Any) -> Any:
        found = _several(call_diagram(reverse, [*arrays[:count], *arrays[len(forward.dom) :]]))
        return _paired(found, arrays[count : count + tangents])

    return program(types, pushed, names, "forward"), program(types, pulled, names, "reverse")


def expansion(
    diagram: Diagram, ask: Z3, remainder: Callable[..., Any] | None = None, where: Callable[..., Any] | None = None
) -> tuple[Diagram, Diagram]:
    """The two sides of `f(x + s·t) = f(x) + s·Df(x)t + s²·R(x, t, s)`, from inputs, tangents and a number s.

    `remainder` is R, a function of the inputs, their tangents and s; 0 for a linear map. With `where`, a condition on
    the same arrays, both sides are 0 where it fails: of a function with corners, where no comparison changes.

    >>> import catdiag as cd
    >>> square = cd.algorithm("x")(lambda a: a * a)
    >>> with Z3() as ask:
    ...     left, right = expansion(square.diagram, ask, lambda a, t, s: t * t)
    >>> cd.prove(left, right).conditional
    False

    Raises NotDifferentiable where no input or no result holds real numbers.
    """
    forward = forward_derivative(diagram, ask).diagram
    count = len(diagram.dom)
    numbers = [k for k, ty in enumerate(diagram.dom) if has_derivative(ty)]
    types = [*forward.dom, ArrayType()]
    names = (*forward.input_names, "s" if "s" not in forward.input_names else "s_")

    def guarded(values: Arrays, arrays: Arrays) -> Any:
        if where is None:
            return tuple(values)
        holds, trace = where(*arrays), running()
        return tuple(trace.chosen(holds, v, 0) for v in values)

    def moved(*arrays: Any) -> Any:
        given = list(arrays[:count])
        for place, k in enumerate(numbers):
            given[k] = given[k] + arrays[-1] * arrays[count + place]
        return guarded(_several(call_diagram(diagram, given)), arrays)

    def expanded(*arrays: Any) -> Any:
        values = _several(call_diagram(diagram, arrays[:count]))
        slopes = _several(call_diagram(forward, arrays[:-1]))
        found = [v + arrays[-1] * d for v, d in zip(values, slopes, strict=True)]
        if remainder is not None:
            rest = _several(remainder(*arrays))
            found = [v + arrays[-1] * arrays[-1] * r for v, r in zip(found, rest, strict=True)]
        return guarded([running().rename(v, {}, ty.axes) for v, ty in zip(found, diagram.cod, strict=True)], arrays)

    return program(types, moved, names, "moved"), program(types, expanded, names, "expanded")


def _several(found: Any) -> Arrays:
    return found if isinstance(found, tuple) else (found,)


def _paired(one: Arrays, two: Arrays) -> Traced:
    """The sum of all products of elements at the same index."""
    products = [a * b for a, b in zip(one, two, strict=True)]
    return reduce(add, [summed(p, " ".join(p.axes)) if p.axes else p for p in products])
