"""Tracing of a user's fold: each of its parts as a diagram for the inputs of the program, and the
types of the state.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from catdiag.category.diagram import Diagram, Graph, of_graph, reachable
from catdiag.category.types import ArrayType, Axis, Ty, union
from catdiag.frontend.builder import program
from catdiag.frontend.diagram_calls import apply
from catdiag.frontend.tracing import Traced, running
from catdiag.rewrite.graph_builder import localized
from catdiag.rewrite.local_sizes import local_size, sizes_in
from catdiag.rewrite.stream.user_fold import Fold, Part, UserFold, of_length, use, with_positions, writer
from catdiag.util.errors import AxisError, CatdiagError, NotStreamable, SignatureError, TypeMismatch

_WIDER = ("int", "real", "extended")


def typed(fold: Fold, source: Diagram, axis: Axis) -> UserFold:
    """The parts of a fold, traced for the inputs of a diagram.

    Raises TypeMismatch, AxisError or SignatureError, naming the part, what was expected and the line, where they do not
    fit together.
    """
    if not isinstance(fold, Fold):
        raise TypeMismatch(f"by={fold!r}: expected a cd.Fold(unit, element, merge, finish, state=…)")
    parts = FoldParts(fold, source, axis)
    unit, element = parts.unit(), parts.element()
    if len(unit.cod) != len(element.cod):
        raise TypeMismatch(
            f"unit of the fold has {_count(len(unit.cod))} and element gives {_count(len(element.cod))}: expected one "
            "number of unit for each component of the state",
            fold.line,
        )
    merge, whole = parts.closed(list(element.cod))
    states = [_join([a, b], f"component {k} of the fold", fold.line) for k, (a, b) in enumerate(zip(unit.cod, whole))]
    merge, states = parts.closed(states)
    known = parts.state(len(states))
    for k, state in enumerate(known):
        if state is None:
            continue
        what = f"component {k} of the fold"
        if state.cod[0].axis(axis.name) is not None:
            raise AxisError(
                f"state of {what} is {state.cod[0]}, which has the streamed axis: expected a state of the whole list, "
                f"such as {states[k]}",
                fold.line,
            )
        states[k] = _join([states[k], state.cod[0]], f"state of {what}", fold.line)
        whole[k] = _join([whole[k], state.cod[0]], f"state of {what}", fold.line)
    states, whole = parts.ordered(states), parts.ordered(whole)
    merge, states = parts.closed(states)
    finish = parts.finish(whole)
    block = local_size("s", axis.name, sizes_in(source))
    names = parts.names(len(states))
    return UserFold(
        source,
        fold,
        axis,
        block,
        names,
        tuple(states),
        _cast(unit, states),
        element,
        _named(merge, (*names, *(f"{n}′" for n in names))),
        _named(finish, (*names, *parts.resident_names)),
        known,
    )


class FoldParts:
    """Traces the parts of one fold."""

    def __init__(self, fold: Fold, source: Diagram, axis: Axis) -> None:
        self.fold, self.source, self.axis = fold, source, axis
        self.streamed = [ty.axis(axis.name) is not None for ty in source.dom]
        names = zip(source.input_names, self.streamed, strict=True)
        self.resident_names = tuple(n for n, streamed in names if not streamed)

    def _traced(self, part: str, inputs: Sequence[ArrayType], function: Callable[..., Any]) -> Diagram:
        """The diagram of a part; errors inside it name the part."""

        def body(*arrays: Traced) -> Any:
            trace = running()
            trace.learn([self.axis])
            return function(*arrays)

        try:
            return program(inputs, body, (), f"{part} of the fold")
        except CatdiagError as error:
            raise type(error)(f"in {part} of the fold: {error.message}", error.line or self.fold.line) from error

    def unit(self) -> Diagram:
        """The unit as a diagram without inputs."""
        given = self.fold.unit

        def number(value: Any) -> Any:
            if isinstance(value, bool):
                zero, one = running().lift(0), running().lift(1)
                return zero < one if value else one < zero
            return value

        def function() -> Any:
            value = given() if callable(given) else given
            return tuple(map(number, value)) if isinstance(value, (tuple, list)) else number(value)

        return self._traced("unit", (), function)

    def element(self) -> Diagram:
        part, axis = self.fold.element, self.axis
        inputs = [ArrayType(tuple(a for a in ty.axes if a.name != axis.name), ty.element) for ty in self.source.dom]

        def function(*arrays: Traced) -> Any:
            running().memo(("index", axis), lambda: arrays[-1])
            return apply(part, *arrays[:-1])

        self._arity("element", part, [len(inputs)], "the inputs " + ", ".join(self.source.input_names))
        return self._traced("element", [*inputs, ArrayType((), "int")], function)

    def closed(self, states: list[ArrayType]) -> tuple[Diagram, list[ArrayType]]:
        """The merge, and the types of states that it maps to themselves, found by iteration from those of unit and
        element. Raises TypeMismatch where merge gives another number of states, or ever wider types."""
        for _ in range(len(_WIDER) + sum(len(t.axes) for t in (*states, *self.source.dom)) + 1):
            merge = self._merge(states)
            if len(merge.cod) != len(states):
                raise TypeMismatch(
                    f"merge of the fold gives {_count(len(merge.cod))}: expected {len(states)}, as unit and element",
                    self.fold.line,
                )
            pairs = enumerate(zip(states, merge.cod, strict=True))
            wider = [_join(pair, f"component {k} of merge of the fold", self.fold.line) for k, pair in pairs]
            if wider == states:
                return _cast(merge, states), states
            states = wider
        raise TypeMismatch(
            "merge of the fold gives ever wider types: expected it to keep those of the state", self.fold.line
        )

    def _merge(self, states: Sequence[ArrayType]) -> Diagram:
        """The merge, traced for states of these types."""
        part, k = self.fold.merge, len(states)
        if isinstance(part, Diagram):
            flat = True
            self._arity("merge", part, [2 * k], f"the {k} components of two states")
        else:
            takes = self._arity("merge", part, [2, 2 * k], f"two states, or the {k} components of each")
            flat = takes != 2

        def function(*arrays: Traced) -> Any:
            if flat or k == 1:
                return apply(part, *arrays)
            return apply(part, tuple(arrays[:k]), tuple(arrays[k:]))

        return self._traced("merge", [*states, *states], function)

    def ordered(self, states: Sequence[ArrayType]) -> list[ArrayType]:
        """The types with their axes in the order of the results, then of the inputs."""
        names = dict.fromkeys(a.name for ty in (*self.source.cod, *self.source.dom) for a in ty.axes)
        order = {name: k for k, name in enumerate(names)}
        return [
            ArrayType(tuple(sorted(t.axes, key=lambda a: order.get(a.name, len(order)))), t.element) for t in states
        ]

    def finish(self, states: Sequence[ArrayType]) -> Diagram:
        """The finish, traced for a state of these types, with its results in the types of the diagram's."""
        part, k = self.fold.finish, len(states)
        inputs = [ty for ty, streamed in zip(self.source.dom, self.streamed, strict=True) if not streamed]
        r = len(inputs)
        packed, rest = False, False
        if part is not None:
            own = _parameters(part)
            resident = own is not None and len(own) > r > 0 and tuple(own[-r:]) == self.resident_names
            takes = self._arity("finish", part, [k, 1, k + r, 1 + r], f"the {k} components of the state, or one tuple")
            packed = takes in (1, 1 + r) and (takes != k or resident) and not (takes == 1 and k == 1)
            packed = packed and not isinstance(part, Diagram)
            rest = takes in (k + r, 1 + r) and (takes not in (k, 1) or resident)
        cod = self.source.cod

        def function(*arrays: Traced) -> Any:
            state, further = arrays[:k], arrays[k:]
            given: Any = (
                state if part is None else apply(part, *([state] if packed else state), *(further if rest else ()))
            )
            results = list(given) if isinstance(given, (tuple, list)) else [given]
            return self._arranged([running().lift(v, infinite=True) for v in results], cod)

        return _cast(self._traced("finish", [*states, *inputs], function), list(cod))

    def _arranged(self, results: list[Traced], cod: Ty) -> list[Traced]:
        if len(results) != len(cod):
            raise TypeMismatch(
                f"it gives {len(results)} results and the diagram {len(cod)}: expected {cod}"
                + (" (finish was left out, so that the state is the result)" if self.fold.finish is None else "")
            )
        for k, (array, ty) in enumerate(zip(results, cod, strict=True)):
            fits = array.type.element == ty.element or "bool" not in (array.type.element, ty.element)
            if not set(array.axes) <= set(ty.names) or not fits:
                raise TypeMismatch(f"result {k} is {array.type}: expected {ty}, as the diagram gives")
        return results

    def state(self, count: int) -> tuple[Diagram | None, ...]:
        """The specification of each component, None where the user gives none. Raises TypeMismatch where there are not
        `count` of them, one array each."""
        given = self.fold.state
        if given is None:
            return (None,) * count
        block = local_size("s", self.axis.name, sizes_in(self.source))
        local = replace(self.axis, size=block, kind="name", parts=())
        inputs = [localized(ty, local) for ty in self.source.dom]
        n = len(inputs)

        def traced(part: Part, what: str) -> Diagram:
            if isinstance(part, Diagram):
                part = of_length(part, self.axis.name, self.axis.size, block)
            takes = self._arity(what, part, [n, 0], "the inputs " + ", ".join(self.source.input_names))

            def function(*arrays: Traced) -> Any:
                return apply(part, *arrays[: n if takes else 0])

            made = program_of(what, function)
            return with_positions(made, self.axis.name)

        def program_of(what: str, function: Callable[..., Any]) -> Diagram:
            try:
                return program([*inputs, ArrayType((local,), "int")], function, (), f"{what} of the fold")
            except CatdiagError as error:
                raise type(error)(f"in {what} of the fold: {error.message}", error.line or self.fold.line) from error

        if isinstance(given, (tuple, list)):
            found = [None if part is None else traced(part, f"state {k}") for k, part in enumerate(given)]
            several = next((k for k, d in enumerate(found) if d is not None and len(d.cod) != 1), None)
            if len(found) != count or several is not None:
                raise TypeMismatch(
                    f"state of the fold has {_count(len(found))}: expected {count}, one array each, None where it "
                    "is to be found",
                    self.fold.line,
                )
            return tuple(found)
        whole = traced(given, "state")
        if len(whole.cod) != count:
            raise TypeMismatch(
                f"state of the fold gives {_count(len(whole.cod))}: expected {count}, as unit and element",
                self.fold.line,
            )
        graph = whole.graph
        outputs = zip(graph.outputs, whole.cod, strict=True)
        return tuple(of_graph(reachable(Graph(graph.dom, graph.nodes, (w,))), Ty(ty)) for w, ty in outputs)

    def names(self, count: int) -> tuple[str, ...]:
        """Names of the components: those of the parameters of `finish`, else `s1`, `s2`, …"""
        taken = set(self.source.input_names)
        own = None if self.fold.finish is None else _parameters(self.fold.finish)
        if own is not None and count > 1 and len(own) in (count, count + len(self.resident_names)):
            names = tuple(own[:count])
            if not taken & set(names) and not isinstance(self.fold.finish, Diagram):
                return names
        found: list[str] = []
        for k in range(1, count + 1):
            name = f"s{k}"
            while name in taken:
                name += "_"
            found.append(name)
        return tuple(found)

    def _arity(self, what: str, part: Part, allowed: Sequence[int], expected: str) -> int:
        """The number of arguments that a part takes, one of those in `allowed`."""
        if isinstance(part, Diagram):
            if len(part.dom) not in allowed:
                raise SignatureError(
                    f"{what} of the fold is a diagram of {len(part.dom)} inputs: expected {expected}", self.fold.line
                )
            return len(part.dom)
        try:
            signature = inspect.signature(part)
        except (TypeError, ValueError):
            return allowed[0]
        for count in allowed:
            try:
                signature.bind(*[None] * count)
            except TypeError:
                continue
            return count
        raise SignatureError(
            f"{what} of the fold takes ({', '.join(signature.parameters)}): expected {expected}", self.fold.line
        )


def _parameters(part: Part) -> list[str] | None:
    """The names of a function's positional parameters; None where they are not known."""
    if isinstance(part, Diagram):
        return list(part.input_names)
    try:
        parameters = inspect.signature(part).parameters.values()
    except (TypeError, ValueError):
        return None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in parameters] if all(p.kind in kinds for p in parameters) else None


def _count(n: int) -> str:
    return f"{n} component{'' if n == 1 else 's'}"


def _join(types: Sequence[ArrayType], what: str, line: str | None) -> ArrayType:
    """The least type that contains all: the union of the axes, and the wider element type."""
    elements = {t.element for t in types}
    if "bool" in elements and len(elements) > 1:
        raise TypeMismatch(f"{what} is {' and '.join(map(str, types))}: expected truth values or numbers", line)
    try:
        axes = union(list(types), line)
    except AxisError as error:
        raise AxisError(f"{what}: {error.message}", line) from error
    return ArrayType(axes, "bool" if "bool" in elements else max(elements, key=_WIDER.index))


def _cast(diagram: Diagram, types: Sequence[ArrayType]) -> Diagram:
    """The diagram with its outputs cast to these types."""
    builder = writer(list(diagram.dom))
    wires = use(builder, diagram, range(len(diagram.dom)))
    return builder.diagram([builder.cast(w, ty) for w, ty in zip(wires, types, strict=True)], diagram.names)


def _named(diagram: Diagram, names: tuple[str, ...]) -> Diagram:
    return of_graph(diagram.graph, diagram.cod, names)


def require_streamed(source: Diagram, axis: str) -> Axis:
    """The axis of that name on the inputs. Raises AxisError where no input has it, NotStreamable where a
    result has it.
    """
    found = next((a for ty in source.dom if (a := ty.axis(axis)) is not None), None)
    if found is None:
        known = dict.fromkeys(n for ty in source.dom for n in ty.names)
        raise AxisError(f"no input of the diagram has axis {axis!r}: expected one of {', '.join(known) or 'none'}")
    kept = next((ty for ty in source.cod if ty.axis(axis) is not None), None)
    if kept is not None:
        raise NotStreamable(
            f"cannot fold axis {axis!r}: the result {kept} keeps it, and a fold ends in a state that is free of it"
        )
    return found
