"""Random programs of a given type, with given kinds of boxes, or streamable along an axis by construction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from catdiag.category.diagram import Diagram, box
from catdiag.category.types import ArrayType, Axis, Ty
from catdiag.frontend import builder, elementwise, indexing, nn, reshape
from catdiag.frontend.diagram_calls import call_diagram
from catdiag.frontend.tracing import Trace, Traced, building
from catdiag.rewrite import group
from catdiag.rewrite.stream import fold_search
from catdiag.testing.strategies.op_strategies import checked_kinds
from catdiag.testing.strategies.type_strategies import drawn_by, strategies_of
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


def with_kind(draw: Any, st: Any, trace: Trace, a: Traced, kind: str) -> Traced:
    """An array computed from `a` by a box of that kind, with other boxes where they are needed."""
    # An axis that is a part of another one too is read where that one is: no box is mapped over it alone.
    parts = _parts(a)
    plain = [axis.name for axis in a.type.axes if axis.name == axis.size and axis.name not in parts]
    if not plain and kind in ("reduce", "reindex", "view", "index", "fold", "group", "size"):
        a = trace.rename(a, {}, (*a.type.axes, _new(a)))
        plain = [a.axes[-1]]
    axis = draw(st.sampled_from(plain)) if plain else ""
    # A name is always renamed to the same new name, so that each name has one size.
    other = next(name for name in (f"{axis}_{k}" for k in range(2, 99)) if name not in a.axes)
    programs: dict[str, Callable[[], Any]] = {
        "map": lambda: elementwise.tanh(a),
        "apply": lambda: elementwise.apply("f", a),
        "cast": lambda: elementwise.cast(a, draw(st.sampled_from(["bf16", "fp16"]))),
        "reduce": lambda: builder.max(a, axis),
        "einsum": lambda: trace.einsum([a, a], tuple(n for n in a.axes if n != axis)),
        "rename": lambda: trace.rename(a, {}, draw(st.permutations([*a.type.axes, _new(a)]))),
        "reindex": lambda: reshape.concat([a, a.rename(**{axis: other})], f"{axis}+{other}"),
        "view": lambda: indexing.reverse(a, axis),
        "index": lambda: elementwise.tanh(a) + builder.index(axis),
        "size": lambda: elementwise.tanh(a) / builder.size(axis),
        "const": lambda: elementwise.tanh(a) * draw(st.fractions(1, 4, max_denominator=4)),
        "call": lambda: nn.relu(a),
        "generic": lambda: call_diagram(box("g", a.type, a.type), [a]),
        "fold": lambda: call_diagram(_streamed(a, axis), [a]),
        "group": lambda: call_diagram(_grouped(a, axis), [a]),
    }
    made: Traced = programs[kind]()
    return made


def _parts(a: Traced) -> set[str]:
    """The names of the parts of an array's axes."""
    found: set[str] = set()
    todo = [part for axis in a.type.axes for part in axis.parts]
    while todo:
        part = todo.pop()
        found.add(part.name)
        todo += part.parts
    return found


def _new(a: Traced) -> Axis:
    """An axis that the array does not have, as a part neither."""
    taken = {*a.axes, *_parts(a)}
    return Axis(next(name for name in (f"m{k}" for k in range(1, 99)) if name not in taken))


def _streamed(a: Traced, axis: str) -> Diagram:
    return fold_search.find(builder.program([a.type], lambda v: builder.sum(elementwise.tanh(v), axis)), axis).diagram


def _grouped(a: Traced, axis: str) -> Diagram:
    return group.find(builder.program([a.type], elementwise.tanh), [axis])


def as_type(trace: Trace, a: Traced, ty: ArrayType) -> Traced:
    """An array as one of a given type: averaged over further axes, and broadcast along those that it lacks.

    Axes with the same names and other sizes are averaged over too.
    """
    wanted = {axis.name: axis.size for axis in ty.axes}
    if a.type.element == "bool":
        a = elementwise.where(a, trace.lift(1), trace.lift(0))
    for axis in a.type.axes:
        if wanted.get(axis.name) != axis.size:
            a = builder.mean(a, axis.name)
    if ty.element == "bool":
        a = a > 0
    elif ty.element == "int" and a.type.element != "int":
        a = elementwise.where(a > 0, trace.lift(1, element="int"), trace.lift(0, element="int"))
    elif ty.element == "extended":
        a = elementwise.where(a > 0, a, -float("inf"))
    elif ty.element == "real" and a.type.element != "real":
        a = elementwise.tanh(a)
    return trace.rename(a, {}, ty.axes)


def streamable_programs(
    axis: str, inputs: Sequence[ArrayType] | None, kinds: Any, max_steps: int = 3
) -> SearchStrategy[Diagram]:
    """Programs whose results depend on an axis only through cascades of reductions that have repairs. Raises
    CatdiagError for an axis that no input has."""
    st = strategies_of()
    if inputs is not None and not any(ty.axis(axis) for ty in inputs):
        raise CatdiagError(f"no input has axis {axis!r}: expected one that has it, to stream the program along it")

    def program(draw: Callable[[Any], Any]) -> Diagram:
        given = list(inputs) if inputs is not None else _with_axis(draw, st, axis, kinds)
        trace = Trace(given)
        with building(trace):
            along = [a for a in trace.inputs if axis in a.axes]
            beside = [a for a in trace.inputs if axis not in a.axes]
            found: list[Traced] = []
            for _ in range(draw(st.integers(1, max_steps))):
                element = draw(st.sampled_from(along))
                if beside and draw(st.booleans()):
                    element = element * elementwise.tanh(draw(st.sampled_from(beside)))
                if draw(st.booleans()):
                    element = draw(st.sampled_from([elementwise.tanh, elementwise.sigmoid, abs]))(element)
                if draw(st.integers(0, 3)) == 0:
                    along.append(element)
                found.append(_reduction(draw, st, trace, element, draw(st.sampled_from(along)), axis))
            last = found[-1]
            for other in found[:-1]:
                last = draw(st.sampled_from([lambda a, b: a + b, lambda a, b: a * elementwise.tanh(b)]))(last, other)
            if draw(st.booleans()):
                last = elementwise.sqrt(1 + last * last)
            return trace.diagram([last], tuple(f"a{k}" for k in range(len(given))), "streamable")

    return drawn_by(program)


def _with_axis(draw: Any, st: Any, axis: str, kinds: Any) -> list[ArrayType]:
    """Input types, the first of which has the axis."""
    given = list(draw(st.lists(kinds, min_size=1, max_size=3)))
    first = given[0]
    if first.axis(axis) is None:
        given[0] = ArrayType((*first.axes, Axis(axis)), first.element)
    return given


def _reduction(draw: Any, st: Any, trace: Trace, a: Traced, weights: Traced, axis: str) -> Traced:
    """A reduction that streams: a sum, an extremum, a contraction, or one weighted by shifted exponentials."""
    shared = tuple(n for n in dict.fromkeys((*a.axes, *weights.axes)) if n != axis)

    def weighted() -> Any:
        e = elementwise.exp(weights - builder.max(weights, axis))
        return trace.einsum([e, a], shared) / builder.sum(e, axis)

    programs: dict[str, Callable[[], Any]] = {
        "sum": lambda: builder.sum(a, axis),
        "max": lambda: builder.max(a, axis),
        "min": lambda: builder.min(a, axis),
        "mean": lambda: builder.mean(a, axis),
        "contraction": lambda: trace.einsum([a, weights], shared),
        "weighted": weighted,
    }
    made: Traced = programs[draw(st.sampled_from(list(programs)))]()
    return made


def forced(draw: Any, st: Any, trace: Trace, a: Traced, kinds: Collection[str]) -> Traced:
    """An array computed from `a` by boxes of all the given kinds in sequence."""
    for kind in draw(st.permutations(sorted(set(checked_kinds(kinds))))):
        a = with_kind(draw, st, trace, a, kind)
        if a.type.element != "real":
            a = elementwise.tanh(a)
    return a


def check_object(ty: Any, what: str) -> Ty:
    """An object, given as one or as several array types. Raises CatdiagError for anything else."""
    if isinstance(ty, Ty):
        return ty
    if isinstance(ty, ArrayType):
        return Ty(ty)
    found = tuple(ty) if isinstance(ty, (tuple, list)) else (ty,)
    if not all(isinstance(array, ArrayType) for array in found):
        raise CatdiagError(f"{what} is {ty!r}: expected an object, cd.category.Ty, or array types")
    return Ty(*found)
