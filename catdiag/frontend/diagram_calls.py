"""Diagrams called as functions inside an algorithm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from catdiag.category.diagram import Diagram
from catdiag.category.functor import weave
from catdiag.category.types import Axis
from catdiag.frontend.signature import merge_axes
from catdiag.frontend.tracing import Traced, running
from catdiag.util.errors import AxisError, TypeMismatch


def call_diagram(diagram: Diagram, arrays: Sequence[object]) -> Traced | tuple[Traced, ...]:
    """A diagram called inside an algorithm: one named box on arrays that are matched by axis name.

    An axis that an array has and the diagram's input does not have is weaved (mapped over). Raises TypeMismatch for a
    wrong number of arrays, AxisError for an array without an axis that the input has.
    """
    trace = running()
    name = diagram.title or "diagram"
    if len(arrays) != len(diagram.dom):
        raise TypeMismatch(f"{name} takes {len(diagram.dom)} arrays ({', '.join(diagram.input_names)}), "
                           f"not {len(arrays)}")  # fmt: skip
    given = [trace.lift(a) for a in arrays]
    extra: dict[str, tuple[Axis, list[int]]] = {}
    for k, (array, ty) in enumerate(zip(given, diagram.dom, strict=True)):
        missing = [a.name for a in ty.axes if array.type.axis(a.name) is None]
        if missing:
            raise AxisError(
                f"{name} takes {diagram.input_names[k]}{ty} and got {array}, which lacks axis {', '.join(missing)}"
            )
        for axis in array.type.axes:
            if ty.axis(axis.name) is None:
                extra.setdefault(axis.name, (axis, []))[1].append(k)
    for axis, inputs in extra.values():
        diagram = weave(diagram, axis, inputs)
    arranged = [trace.rename(a, {}, ty.axes) for a, ty in zip(given, diagram.dom, strict=True)]
    for array, ty in zip(arranged, diagram.dom, strict=True):
        merge_axes((array.type, ty))
    results = trace.call(name, diagram, arranged)
    return results[0] if len(results) == 1 else results


def apply(function: Callable[..., Any] | Diagram, *arrays: object) -> Any:
    """The result of a diagram, or of a function, on arrays inside an algorithm.

    >>> from catdiag.frontend.builder import algorithm
    >>> twice = algorithm("x", name="twice")(lambda a: a + a)
    >>> [box.name for box in algorithm("x")(lambda a: apply(twice, a)).boxes]
    ['twice']
    """
    return call_diagram(function, arrays) if isinstance(function, Diagram) else function(*arrays)
