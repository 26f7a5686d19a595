"""Strategies for single well-typed boxes of every kind."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from catdiag.category.box_types import rename_box
from catdiag.category.diagram import Diagram, box, of_box
from catdiag.category.op_facts import scalar_function
from catdiag.category.ops import (
    Box,
    Call,
    Const,
    Einsum,
    FoldOp,
    Generic,
    GroupOp,
    Index,
    Map,
    Op,
    Reduce,
    Reindex,
    Rename,
    SizeOf,
    View,
    const_box,
    index_box,
    map_box,
    op_row,
    reindex_box,
    size_box,
)
from catdiag.category.scalars import MONOIDS, SCALARS, Apply, Cast
from catdiag.category.substitution import call
from catdiag.category.types import BYTES, ArrayType, Axis, Ty
from catdiag.frontend import builder, elementwise, indexing
from catdiag.rewrite import group
from catdiag.rewrite.stream import fold_search
from catdiag.testing.strategies.type_strategies import array_types, drawn_by, strategies_of
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

KINDS: Mapping[type[Op], str] = {
    Map: "map", Reduce: "reduce", Einsum: "einsum", Rename: "rename", Reindex: "reindex", View: "view",
    Index: "index", SizeOf: "size", Const: "const", Call: "call", Generic: "generic", FoldOp: "fold", GroupOp: "group",
}  # fmt: skip
"""The kind of each operation, but for uninterpreted functions and casts."""
BOX_KINDS = ("map", "apply", "cast", *list(KINDS.values())[1:])
"""The kinds of boxes that strategies distinguish."""
_NAMES = ("q", "x", "d", "h")


def kind_of(box: Box) -> str:
    """The kind of a box.

    >>> from catdiag.category.ops import map_box
    >>> kind_of(map_box(Cast("bf16"), [ArrayType()])), kind_of(map_box("exp", [ArrayType()]))
    ('cast', 'map')
    """
    fn = scalar_function(box.op)
    return "apply" if isinstance(fn, Apply) else "cast" if isinstance(fn, Cast) else op_row(KINDS, box, "drawn")


def kind_name(box: Box) -> str:
    """The kind of a box with its function, monoid or kind of reindexing.

    >>> from catdiag.category.ops import map_box
    >>> kind_name(map_box("exp", [ArrayType()]))
    'map exp'
    """
    kind = kind_of(box)
    detail = getattr(box.op, {"map": "fn", "reduce": "monoid", "reindex": "kind"}.get(kind, ""), "")
    return f"{kind} {detail}".strip()


def objects(max_wires: int = 3, **options: Any) -> SearchStrategy[Ty]:
    """Objects of at most `max_wires` wires; the options are those of `array_types`.

    >>> from hypothesis import find
    >>> len(find(objects(max_wires=2), lambda ty: True)) <= 2
    True
    """
    st = strategies_of()
    several = st.lists(array_types(**options), max_size=max_wires)
    return several.map(lambda arrays: Ty(*arrays))  # type: ignore[no-any-return]


def checked_kinds(kinds: Collection[str]) -> list[str]:
    """The kinds of boxes after checking. Raises CatdiagError for an unknown one."""
    if isinstance(kinds, str):
        raise CatdiagError(f"kinds of boxes are given as a list: [{kinds!r}]")
    for kind in kinds:
        if kind not in BOX_KINDS:
            raise CatdiagError(f"no boxes are {kind!r}: expected some of {', '.join(BOX_KINDS)}")
    return list(kinds)


def boxes(kinds: Collection[str] = BOX_KINDS) -> SearchStrategy[Diagram]:
    """Diagrams of one box, of any of the given kinds (all of `BOX_KINDS`), on arrays of reals, integers or booleans.

    Loops and groups are those from streaming and grouping a small program. Shrinks to few axes. Raises CatdiagError for
    an unknown kind.

    >>> from hypothesis import find
    >>> len(find(boxes(["einsum"]), lambda f: True))
    1
    """
    st = strategies_of()
    chosen = checked_kinds(kinds)

    def one(draw: Callable[[Any], Any]) -> Diagram:
        return _MAKERS[draw(st.sampled_from(chosen))](draw, st)

    return drawn_by(one)


def _array(draw: Any, st: Any, least: int = 0, element: str = "real") -> ArrayType:
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=least, max_size=max(3, least), unique=True))
    return ArrayType(tuple(map(Axis, names)), element)


def _single_box(inputs: list[ArrayType], program: Callable[..., Any]) -> Diagram:
    """The diagram of a program that makes a single box."""
    return builder.program(inputs, program, tuple(f"a{k}" for k in range(len(inputs))))


def _map(draw: Any, st: Any) -> Diagram:
    fn = draw(st.sampled_from(sorted(SCALARS)))
    arity = SCALARS[fn][0]
    elements = {"and": "bool", "or": "bool", "not": "bool", "floordiv": "int", "uniform": "int"}
    types = [_array(draw, st, element=elements.get(fn, "real")) for _ in range(arity)]
    if fn == "where":
        types[0] = ArrayType(types[0].axes, "bool")
    return of_box(map_box(fn, types))


def _apply(draw: Any, st: Any) -> Diagram:
    types = [_array(draw, st) for _ in range(draw(st.integers(1, 3)))]
    name = draw(st.sampled_from("fgh"))
    return _single_box(types, lambda *arrays: elementwise.apply(name, *arrays))


def _cast(draw: Any, st: Any) -> Diagram:
    return _single_box([_array(draw, st)], lambda a: elementwise.cast(a, draw(st.sampled_from(sorted(BYTES)))))


def _reduce(draw: Any, st: Any) -> Diagram:
    monoid = draw(st.sampled_from(MONOIDS))
    ty = _array(draw, st, 1, "bool" if monoid in ("any", "all") else "real")
    return _single_box([ty], lambda a: getattr(builder, monoid)(a, draw(st.sampled_from(ty.names))))


def _einsum(draw: Any, st: Any) -> Diagram:
    types = [_array(draw, st) for _ in range(draw(st.integers(2, 4)))]
    names = list(dict.fromkeys(n for ty in types for n in ty.names))
    kept = draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    pattern = ", ".join(" ".join(ty.names) for ty in types) + " -> " + " ".join(kept)
    return _single_box(types, lambda *arrays: builder.einsum(pattern, *arrays))


def _rename(draw: Any, st: Any) -> Diagram:
    ty = _array(draw, st, 1)
    old = draw(st.lists(st.sampled_from(ty.names), unique=True))
    pairs = {name: name + "_2" for name in old}
    layout = [Axis(pairs.get(a.name, a.name), a.size) for a in draw(st.permutations(ty.axes))]
    more = [Axis("new")] if draw(st.booleans()) else []
    return of_box(rename_box(ty, pairs, [*more, *layout]))


def _reindex(draw: Any, st: Any) -> Diagram:
    a, b = Axis("b"), Axis("g")
    kind = draw(st.sampled_from(["split", "merge", "slice", "concat"]))
    rest = _array(draw, st).axes
    whole = a * b if kind in ("split", "merge") else a + b
    types = {
        "split": [ArrayType((*rest, whole))],
        "merge": [ArrayType((*rest, a, b))],
        "slice": [ArrayType((*rest, whole))],
        "concat": [ArrayType((*rest, a)), ArrayType((*rest, b))],
    }[kind]
    place = draw(st.integers(0, 1)) if kind == "slice" else 0
    return of_box(reindex_box(Reindex(kind, whole, place), types))


def _view(draw: Any, st: Any) -> Diagram:
    ty = _array(draw, st, 1)
    axis = draw(st.sampled_from(ty.names))
    step = draw(st.integers(1, 2))
    programs: dict[str, Callable[[Any], Any]] = {
        "reverse": lambda a: indexing.reverse(a, axis),
        "shift": lambda a: indexing.shift(a, axis, step),
        "window": lambda a: indexing.window(a, axis, f"{axis}_2 w=2"),
    }
    return _only(_single_box([ty], programs[draw(st.sampled_from(sorted(programs)))]), "view")


def _index(draw: Any, st: Any) -> Diagram:
    return of_box(index_box(Axis(draw(st.sampled_from(_NAMES)))))


def _size(draw: Any, st: Any) -> Diagram:
    one, two = draw(st.sampled_from(_NAMES)), draw(st.sampled_from(_NAMES))
    return of_box(size_box(draw(st.sampled_from([one, 3, ("*", one, 2), ("+", one, two)]))))


def _const(draw: Any, st: Any) -> Diagram:
    value = draw(st.none() | st.fractions(-4, 4, max_denominator=8))
    return of_box(const_box(None if value is None else Fraction(value)))


def _call(draw: Any, st: Any) -> Diagram:
    return call(draw(st.sampled_from(["named", "other"])), _MAKERS[draw(st.sampled_from(["map", "reduce"]))](draw, st))


def _generic(draw: Any, st: Any) -> Diagram:
    several = st.lists(st.just(None), min_size=0, max_size=2)
    dom = Ty(*(_array(draw, st) for _ in draw(several)))
    return box(draw(st.sampled_from("fgh")), dom, Ty(*(_array(draw, st) for _ in draw(several)), _array(draw, st)))


_STREAMED: dict[str, Callable[[Any, str], Any]] = {
    "sum": lambda a, x: builder.sum(a, x),
    "maximum": lambda a, x: builder.max(a, x),
    "normalised": lambda a, x: builder.sum(elementwise.exp(a - builder.max(a, x)) * a, x),
    "mean": lambda a, x: builder.mean(a * a, x),
}


def _fold(draw: Any, st: Any) -> Diagram:
    program = _STREAMED[draw(st.sampled_from(sorted(_STREAMED)))]
    ty = _array(draw, st, 1)
    found = fold_search.find(_single_box([ty], lambda a: program(a, ty.names[0])), ty.names[0]).diagram
    return _only(found, "fold")


def _group(draw: Any, st: Any) -> Diagram:
    ty = _array(draw, st, 1)
    fn = draw(st.sampled_from([elementwise.exp, elementwise.tanh]))
    return _only(group.find(_single_box([ty], fn), [draw(st.sampled_from(ty.names))]), "group")


def _only(diagram: Diagram, kind: str) -> Diagram:
    """The first box of a kind in a diagram, as a diagram."""
    return of_box(next(b for b in diagram.boxes if kind_of(b) == kind))


_MAKERS: dict[str, Callable[[Any, Any], Diagram]] = {
    "map": _map, "apply": _apply, "cast": _cast, "reduce": _reduce, "einsum": _einsum, "rename": _rename,
    "reindex": _reindex, "view": _view, "index": _index, "size": _size, "const": _const, "call": _call,
    "generic": _generic, "fold": _fold, "group": _group,
}  # fmt: skip
