"""Comparison of types: whether two diagrams have the same type, and if not, where they differ and how to fix it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from catdiag.category.types import ArrayType, Axis, show
from catdiag.util.errors import TypeMismatch

if TYPE_CHECKING:
    from catdiag.category.diagram import Diagram


def require_one_type(f: Diagram, g: Diagram) -> None:
    """Raises TypeMismatch unless the diagrams have the same type, naming the first input or result that differs and
    how.

    Results may have different numeric element types.

    >>> import catdiag as cd
    >>> f = cd.algorithm("q x -> q", name="f")(lambda A: cd.sum(A, "x"))
    >>> g = cd.algorithm("q y -> q", name="g")(lambda A: cd.sum(A, "y"))
    >>> require_one_type(f, g)
    Traceback (most recent call last):
        ...
    catdiag.util.errors.TypeMismatch: only diagrams of one type can be equal: input A is [q x] in f and [q y] in g: ...
    """
    if f.dom == g.dom and f.cod == g.cod:
        return
    ours, theirs = f.title or "the left one", g.title or "the right one"
    if ours == theirs:
        ours, theirs = f"{ours} (left)", f"{theirs} (right)"
    where = _first("input", f.dom.arrays, g.dom.arrays, ours, theirs, (f.input_names, g.input_names))
    where = where or _first("result", _numbers(f), _numbers(g), ours, theirs, ((), ()))
    if not where:
        return
    raise TypeMismatch(f"only diagrams of one type can be equal: {where}")


def _numbers(f: Diagram) -> list[ArrayType]:
    """The types of the results with all numeric element types replaced by one."""
    return [ty if ty.element == "bool" else ArrayType(ty.axes) for ty in f.cod]


def _first(
    what: str,
    ours: Sequence[ArrayType],
    theirs: Sequence[ArrayType],
    f: str,
    g: str,
    names: tuple[Sequence[str], Sequence[str]],
) -> str:
    """The first difference between two lists of array types, in words; empty where there is none."""
    if len(ours) != len(theirs):

        def listed(types: Sequence[ArrayType]) -> str:
            count = f"{len(types)} {what}{'s' * (len(types) != 1)}"
            return f"{count} ({', '.join(map(_shown, types))})" if types else f"no {what}s"

        return f"{f} has {listed(ours)}, {g} has {listed(theirs)}"
    for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if a != b:
            name = f"{what} {names[0][k]}" if names[0] else what if len(ours) == 1 else f"{what} {k + 1}"
            if names[0] and names[0][k] != names[1][k]:
                name += f" (there {names[1][k]})"
            return f"{name} is {_shown(a)} in {f} and {_shown(b)} in {g}: {_advice(a, b, g)}"
    return ""


def _shown(ty: ArrayType) -> str:
    """A type as text, with those sizes that the axis names do not show."""

    def axis(a: Axis) -> str:
        known = a.kind != "name" or a.size == a.name or str(a.size) == a.name
        return a.name if known else f"{a.name}={show(a.size)}"

    return f"{ty.element if ty.element != 'real' else ''}[{' '.join(map(axis, ty.axes))}]"


def _advice(a: ArrayType, b: ArrayType, g: str) -> str:
    """What to change so that two array types become equal."""
    if a.element != b.element and a.axes == b.axes:
        return f"declare the elements alike ({a.element} or {b.element})"
    if len(a.axes) != len(b.axes):
        return f"expected {len(a.axes)} axes in both"
    if sorted(a.names) == sorted(b.names):
        if a.names != b.names:
            # If sizes differ too, the order is reported first.
            return f"the axes are in another order; expected [{' '.join(a.names)}] in the signature of {g}"
        axis, other = next((x, y) for x, y in zip(a.axes, b.axes, strict=True) if x != y)
        return f"axis {axis.name} has size {show(axis.size)} in one and {show(other.size)} in the other"
    pairs = [(x.name, y.name) for x, y in zip(a.axes, b.axes, strict=True) if x.name != y.name]
    renamed = ", ".join(f"{y} to {x}" for x, y in pairs)
    taken = {x for x, _ in pairs} & set(b.names)
    if taken:
        return f"axes {renamed} differ; expected [{' '.join(a.names)}] in the signature of {g}"
    return f"rename {renamed} in {g}, throughout its signature and body"
