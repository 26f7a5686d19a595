"""How the coordinates of arrays pass through a box, for the data-flow graph of `catdiag.bounds.dataflow`.

`RULES` has a row for each class of operations. Most rows are a *passage*: a function from each coordinate of an operand
to the coordinate of the result that it becomes. What is asked of a box follows from it: where an element of an operand
goes (`on`), which elements make an element of the result (`back`), and which elements of the result may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from catdiag.category import ops
from catdiag.category.index_maps import Expr, read_off
from catdiag.category.ops import Box, op_row
from catdiag.category.types import Axis

Atom = tuple[str, int]
"""An axis, or a factor of a product axis: the name of the axis and the position of the factor."""
Indices = tuple[str, ...]
"""The indices that determine a coordinate. The coordinate determines the first of them, given the others."""
Passage = Callable[[Atom], Atom]
"""The coordinate of a result that a coordinate of an operand becomes."""

NOWHERE: Atom = ("", 0)
"""An atom in `FlowArray.aliased` that stands for an index array, or for index arithmetic that is not affine."""


@dataclass(frozen=True)
class Dependence:
    """Of which coordinates of a result an element depends on a coordinate of an operand; itself where `on` lacks it.

    Elements differ along the coordinates in `made` too. Elements at different indices of those in `aliased` may
    coincide, also where those of the operand do not.
    """

    on: Mapping[Atom, Collection[Atom]]
    made: frozenset[Atom] = frozenset()
    aliased: frozenset[frozenset[Atom]] = frozenset()


def _no_coordinates(
    op: Any, shown: Mapping[Atom, Indices], axes: Collection[Atom], disjoint: Collection[str]
) -> dict[Atom, Indices] | None:
    return None


@dataclass(frozen=True)
class CoordinateRule:
    """How coordinates pass through an operation.

    - `passage`: that of the operation, or None where an element of the result need not read one of each operand;
    - `depends`: the dependence on the given coordinates of a result, where there is no passage;
    - `back`: the coordinates of the operand, where there is no passage, as far as those of the result determine them;
    - `added`: the axes that the operation makes, where there is no passage.
    """

    passage: Callable[[Any], Passage | None] = lambda op: None
    depends: Callable[[Any, Collection[Atom]], Dependence] = lambda op, axes: Dependence({}, frozenset(axes))
    back: Callable[[Any, Mapping[Atom, Indices], Collection[Atom], Collection[str]], dict[Atom, Indices] | None] = (
        _no_coordinates
    )
    added: Callable[[Any], Collection[Axis]] = lambda op: ()


def _across(op: ops.Reindex) -> Passage | None:
    """Of an axis that is split or merged: each factor of the product axis to its own axis, or back."""
    if op.kind not in ("split", "merge"):
        return None
    pairs: list[tuple[Atom, Atom]] = [((op.axis.name, k), (p.name, 0)) for k, p in enumerate(op.axis.parts)]
    found = dict(pairs if op.kind == "split" else [(new, old) for old, new in pairs])
    return lambda atom: found.get(atom, atom)


def _renamed(op: ops.Rename) -> Passage:
    pairs = dict(op.pairs)
    return lambda atom: (pairs.get(atom[0], atom[0]), atom[1])


def _of_slice(op: ops.Reindex, axes: Collection[Atom]) -> Dependence:
    """Slices and concatenations: the new axes for the removed ones."""
    given = [a for a in axes if a[0] in {axis.name for axis in op.added_axes()}]
    return Dependence({(axis.name, 0): given for taken in op.removed_axes() for axis in taken})


def _of_view(op: ops.View, axes: Collection[Atom]) -> Dependence:
    """The axes in the index expressions for the axes that are read at them."""
    made = {a for a in axes if a[0] in {axis.name for axis in op.index_axes}}
    found: dict[Atom, set[Atom]] = {}
    for read in op.reads:
        for name, e in read.at:
            known = affine(e)
            named = {a for a in made if known is not None and a[0] in known}
            found.setdefault((name, 0), set()).update(named if known is not None else {NOWHERE, *made})
    return Dependence(found, frozenset(made), frozenset(frozenset((a,)) for a in found))


def _back_of_view(
    op: ops.View, shown: Mapping[Atom, Indices], axes: Collection[Atom], disjoint: Collection[str]
) -> dict[Atom, Indices] | None:
    """Of an index expression that is affine: any one of its axes, given the others."""
    if len(op.reads) != 1:
        return None
    at = dict(op.reads[0].at)
    found: dict[Atom, Indices] = {}
    for atom in axes:
        if atom[0] not in at:
            if atom in shown:
                found[atom] = shown[atom]
            continue
        signs = affine(at[atom[0]])
        # A single factor does not determine the index of a product axis.
        products = {name for name, place in (*axes, *shown) if place}
        if not signs or atom[0] in products or products & set(signs):
            continue
        if any((name, 0) not in shown or len(shown[name, 0]) != 1 for name in signs):
            continue
        order = sorted(signs, key=lambda name: (shown[name, 0][0] in disjoint, name))
        found[atom] = tuple(shown[name, 0][0] for name in order)
    return found


_SAME = CoordinateRule(lambda op: lambda atom: atom)
_MADE = CoordinateRule()

RULES: Mapping[type[ops.Op], CoordinateRule] = {
    ops.Map: _SAME,
    ops.Reduce: _SAME,
    ops.Einsum: _SAME,
    ops.Rename: CoordinateRule(_renamed),
    ops.Reindex: CoordinateRule(_across, _of_slice, added=ops.Reindex.added_axes),
    ops.View: CoordinateRule(depends=_of_view, back=_back_of_view, added=ops.View.added_axes),
    ops.Index: _MADE,
    ops.SizeOf: _MADE,
    ops.Const: _MADE,
    ops.Generic: _MADE,
}
"""The rule of each operation; those with diagrams inside are inlined before."""


def _rule(box: Box) -> CoordinateRule:
    return op_row(RULES, box, "followed")


def passage(box: Box) -> Passage | None:
    """The passage of a box's coordinates, if it has one. Raises TypeMismatch for an operation without a rule."""
    return _rule(box).passage(box.op)


def added(box: Box) -> set[str]:
    """The names of the axes that a box makes: none where it has a passage."""
    return {axis.name for axis in _rule(box).added(box.op)} if passage(box) is None else set()


def dependence(box: Box, axes: Collection[Atom], operands: Collection[Atom]) -> Dependence:
    """The dependence of a result with coordinates `axes` on the coordinates of the operands."""
    passed = passage(box)
    if passed is None:
        return _rule(box).depends(box.op, axes)
    return Dependence({a: (passed(a),) for a in operands})


def back(
    box: Box, shown: Mapping[Atom, Indices], k: int, axes: Collection[Atom], disjoint: Collection[str]
) -> dict[Atom, Indices] | None:
    """The coordinates of operand `k` of a box, of the given axes, from those of its result.

    None where an element of the result need not read an element of that operand at all. Indices in `disjoint` are
    preferred as the fixed ones.
    """
    passed = passage(box)
    if passed is None:
        return _rule(box).back(box.op, shown, axes, disjoint) if k == 0 else None
    return {a: shown[passed(a)] for a in axes if passed(a) in shown}


def on(box: Box, shown: Mapping[Atom, Indices], axes: Collection[Atom]) -> dict[Atom, Indices] | None:
    """The coordinates of a box's result, given those of an operand every element of which contributes to the result."""
    passed = passage(box)
    if passed is None:
        return None
    moved = {passed(a): index for a, index in shown.items()}
    return {a: moved[a] for a in axes if a in moved}


def affine(e: Expr) -> dict[str, int] | None:
    """The axes in whose indices an expression is affine, with the signs of their factors; None where it is not.

    >>> affine(("+", ("*", 2, ("i", "y")), ("+", ("i", "k"), -1))), affine(("//", ("i", "y"), 2))
    ({'y': 1, 'k': 1}, None)
    """
    Read = tuple[dict[str, int], int] | None  # signs, and the sign of a constant (0: unknown)

    def leaf(v: object) -> Read:
        if isinstance(v, tuple):
            return ({str(v[1]): 1}, 0) if v[0] == "i" else None
        return {}, (v > 0) - (v < 0) if isinstance(v, int) else 1

    def join(op: str, a: Read, b: Read) -> Read:
        if a is None or b is None or op == "//":
            return None
        if op == "+":
            both = {**a[0], **b[0]}
            if any(a[0].get(n, s) != s or b[0].get(n, s) != s for n, s in both.items()):
                return None
            return both, a[1] if a[1] == b[1] else 0
        if a[0] and b[0]:
            return None
        signs, by = (a[0], b[1]) if a[0] else (b[0], a[1])
        if signs and not by:
            return None
        return {n: s * by for n, s in signs.items()}, a[1] * b[1]

    found = read_off(e, leaf, join)
    return None if found is None else found[0]


def label(atom: Atom) -> str:
    """The name of the index of an atom.

    >>> label(("q", 0)), label(("(b g)", 1))
    ('q', '(b g).1')
    """
    return f"{atom[0]}.{atom[1]}" if atom[0].startswith("(") else atom[0]
