"""Specifications of a fold's components as functions of the list, where the user gives none.

A component that is merged by a commutative monoid is the reduction of its elements by that monoid. Other components are
guessed by matching: the fold is run, element by element, on a few lists of numbers. The values are compared with
statistics that the diagram or its cascade computes for these lists, and with rational combinations of two such
statistics, products of them, and quotients by the length. The proof that follows confirms the guess or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from catdiag.category.diagram import Diagram, Graph, of_graph, reachable
from catdiag.category.functor import weave
from catdiag.category.ops import Const, FoldOp, Map, Rename, SizeOf, const_box, reduce_box, size_box
from catdiag.category.scalars import Apply
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType, Axis, Ty, size_symbols, size_value
from catdiag.execute.named_arrays import NamedArray
from catdiag.rewrite.stream.fold_search import candidates
from catdiag.rewrite.stream.user_fold import UserFold, of_length, use, with_positions, writer
from catdiag.util.errors import AxisError, NotStreamable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

_MONOIDS = {"add": "sum", "mul": "prod", "max": "max", "min": "min", "or": "any", "and": "all"}
_LENGTHS = (1, 2, 3, 5, 4, 7, 6, 3)
"""The lengths of the lists on which states are compared; every other list starts at a later position."""
_DENOMINATORS = 64
"""The largest denominator of a number that counts as rational."""
_POOL = 40
"""The most statistics of a list that are combined."""


def monoid_of(merge: Diagram, k: int) -> str | None:
    """The commutative monoid that merges component k of two states, if it is one and reads nothing else; else None.

    >>> from catdiag.category.ops import map_box
    >>> from catdiag.category.diagram import of_box
    >>> monoid_of(of_box(map_box("add", [ArrayType(), ArrayType()])), 0)
    'sum'
    """
    graph = inline(merge).graph
    makers = dict(enumerate((n for n in graph.nodes for _ in n.box.cod), len(graph.dom)))
    node = makers.get(graph.outputs[k])
    while node is not None and node.box.op == Rename() and node.inputs[0] in makers:
        node = makers[node.inputs[0]]
    if node is None or not isinstance(node.box.op, Map) or sorted(node.inputs) != [k, len(graph.dom) // 2 + k]:
        return None
    fn = node.box.op.fn
    return _MONOIDS.get(fn) if isinstance(fn, str) else None


def with_states(given: UserFold) -> UserFold:
    """The fold with a specification for every component.

    Raises NotStreamable, naming the component, where none was found.
    """
    found = list(given.state)
    for k in given.missing:
        monoid = monoid_of(given.merge, k)
        if monoid is not None:
            found[k] = _of_elements(given, k, monoid)
    if None in found:
        matcher = _StateMatcher(given, [s for s in found if s is not None])
        for k in [k for k, s in enumerate(found) if s is None]:
            found[k] = matcher.match(k)
    missing = next((k for k, s in enumerate(found) if s is None), None)
    if missing is not None:
        raise NotStreamable(
            f"what component {missing} of the fold over {given.axis.name!r}, {given.names[missing]}, is of a list was "
            "not found: it is merged by no commutative monoid, and is no combination of what the diagram computes; "
            "give it as state=, a function of the list, as in state=(None, lambda X: cd.mean(X, 'x'))",
            given.fold.line,
        )
    return replace(given, state=tuple(found))


def _local(given: UserFold) -> Axis:
    return replace(given.axis, size=given.block, kind="name", parts=())


def _of_elements(given: UserFold, k: int, monoid: str) -> Diagram:
    """The reduction of the elements' component k by a monoid."""
    local = _local(given)
    names = [w for w, ty in enumerate(given.inputs) if ty.axis(local.name) is not None]
    graph = given.element.graph
    one = of_graph(reachable(Graph(graph.dom, graph.nodes, (graph.outputs[k],))), Ty(given.element.cod[k]))
    mapped = weave(inline(one), local, names)
    builder = writer([_fitted(ty, local) for ty in given.inputs])
    if monoid == "sum" and not _reads(one) and all(isinstance(b.op, (Const, Rename)) for b in inline(one).boxes):
        # The sum of a constant is a multiple of the length.
        (wire,) = use(builder, one, range(len(given.inputs)))
        length = builder.add(size_box(given.block), ())
        plain = [b.op for b in inline(one).boxes if isinstance(b.op, Const)] == [Const(Fraction(1))]
        return builder.diagram(
            [builder.cast(length, builder.types[wire]) if plain else builder.map("mul", wire, length)], ()
        )
    (wire,) = use(builder, mapped, range(len(given.inputs)))
    return builder.diagram([builder.add(reduce_box(monoid, local.name, builder.types[wire]), (wire,))], ())


def _reads(diagram: Diagram) -> bool:
    """Whether a diagram reads any input."""
    graph = reachable(inline(diagram).graph)
    read = {*graph.outputs, *(w for n in graph.nodes for w in n.inputs)}
    return any(w < len(graph.dom) for w in read)


def _fitted(ty: ArrayType, local: Axis) -> ArrayType:
    return ArrayType(tuple(local if a.name == local.name else a for a in ty.axes), ty.element)


# -- what the diagram computes of a list ------------------------------------------------------------


def _statistics(given: UserFold) -> Iterator[Diagram]:
    """The statistics that the diagram and its cascade compute of a list of length `given.block`, without the axis."""
    seen: list[Diagram] = []
    name = given.axis.name
    for whole in (*_of_source(given), *_cascades(given)):
        flat = inline(whole).graph
        types = flat.wire_types()
        late = [ty.axis(name) is not None for ty in flat.dom]
        for node in flat.nodes:
            along = any(ty.axis(name) is not None for ty in node.box.cod) or node.box.op == SizeOf(given.block)
            late.extend([along or any(late[w] for w in node.inputs)] * len(node.box.cod))
        for wire in range(len(flat.dom), len(types)):
            if types[wire].axis(name) is not None or not late[wire]:
                continue
            made = of_graph(reachable(Graph(flat.dom, flat.nodes, (wire,))), Ty(types[wire]))
            if made not in seen:
                seen.append(made)
                yield made


def _of_list(diagram: Diagram, given: UserFold) -> Diagram:
    """A diagram of the inputs as a diagram on a list, with the positions as the last input."""
    builder = writer([*diagram.dom, ArrayType((given.axis,), "int")])
    wires = use(builder, diagram, range(len(diagram.dom)))
    made = with_positions(builder.diagram(wires, ()), given.axis.name)
    return of_length(made, given.axis.name, given.axis.size, given.block)


def _of_source(given: UserFold) -> Iterator[Diagram]:
    """The diagram itself, on a list; nothing where it joins the axis with another one, so that it has no meaning for
    shorter lists.
    """
    with suppress(AxisError):
        yield _of_list(given.source, given)


def _cascades(given: UserFold) -> Iterator[Diagram]:
    """The components that streaming finds for the diagram itself, on a list."""
    try:
        # Statistics are compared by their values; the mode `raised` mostly gives those of other modes.
        for streamed in sorted(candidates(given.source, given.axis.name), key=lambda s: s.mode == "raised"):
            graph = streamed.diagram.graph
            for place, node in enumerate(graph.nodes):
                op = node.box.op
                if not isinstance(op, FoldOp) or op.axis != given.axis.name:
                    continue
                before = _of_list(of_graph(Graph(graph.dom, graph.nodes[:place], node.inputs)), given)
                builder = writer(list(before.dom))
                inputs = use(builder, before, range(len(before.dom)))
                state = of_length(op.state, given.axis.name, op.block, given.block)
                yield builder.diagram(use(builder, state, inputs), ())
    except (NotStreamable, AxisError):
        return


# -- matching ----------------------------------------------------------------------------------------


@dataclass
class _Samples:
    """Lists of numbers, and the states that the fold gives for them."""

    arrays: list[list[Any]]
    sizes: list[dict[str, int]]
    states: list[list[Any]]
    functions: dict[str, Callable[..., Any]]


@dataclass
class _SampleColumn:
    """A product of statistics (or the logarithm or inverse of one), and its values on the lists."""

    parts: tuple[tuple[Diagram, str], ...]
    values: Any


class _StateMatcher:
    """Statistics of lists with their values on a few lists."""

    def __init__(self, given: UserFold, known: Sequence[Diagram]) -> None:
        self.given = given
        self.samples = _samples(given)
        self.pool: list[Diagram] = [*known, self._length(), *_statistics(given)]

    def _length(self) -> Diagram:
        builder = writer([_fitted(ty, _local(self.given)) for ty in self.given.inputs])
        return builder.diagram([builder.add(size_box(self.given.block), ())], ())

    def match(self, k: int) -> Diagram | None:
        """A specification of component k that fits the values on the lists; None where none is found."""
        import numpy as np

        ty = self.given.states[k]
        wanted = np.concatenate([np.ravel(states[k]) for states in self.samples.states])
        if np.any(np.isnan(wanted)):
            return None
        columns: list[_SampleColumn] = []
        for diagram in self.pool:
            values = self._values(diagram, ty)
            if values is None:
                continue
            if np.allclose(values, wanted, rtol=1e-9, atol=1e-12):
                return self._combined([(Fraction(1), _SampleColumn(((diagram, ""),), values))], ty)
            if np.all(np.isfinite(values)) and not any(np.allclose(values, c.values, rtol=1e-9) for c in columns):
                columns.append(_SampleColumn(((diagram, ""),), values))
        if not np.all(np.isfinite(wanted)):
            return None
        plain = columns[:_POOL]
        columns = list(plain)
        columns += [_SampleColumn(((c.parts[0][0], "log"),), np.log(c.values)) for c in plain if np.all(c.values > 0)]
        columns += [
            _SampleColumn((*a.parts, *b.parts), a.values * b.values) for i, a in enumerate(plain) for b in plain[i:]
        ]
        lengths = self._values(self._length(), ty)
        inverse = (self._length(), "inverse")
        columns += [_SampleColumn((*c.parts, inverse), c.values / lengths) for c in columns]
        scale = float(np.max(np.abs(wanted))) or 1.0
        for c in columns:
            factor = _rational(c.values @ wanted, c.values @ c.values)
            if factor and np.allclose(float(factor) * c.values, wanted, rtol=1e-7, atol=1e-7 * scale):
                return self._combined([(factor, c)], ty)
        return self._pair(columns, wanted, scale, ty)

    def _pair(self, columns: list[_SampleColumn], wanted: Any, scale: float, ty: ArrayType) -> Diagram | None:
        """The first combination of two statistics with rational coefficients that fits the values."""
        import numpy as np

        matrix = np.stack([c.values for c in columns])
        norms = np.linalg.norm(matrix, axis=1)
        matrix = matrix / norms[:, None]
        target = matrix @ wanted
        for i in range(len(columns)):
            cosines = matrix[i + 1 :] @ matrix[i]
            apart = 1 - cosines**2
            with np.errstate(all="ignore"):
                second = (target[i + 1 :] - cosines * target[i]) / apart
                first = target[i] - cosines * second
                left = wanted @ wanted - first * target[i] - second * target[i + 1 :]
            for j in np.flatnonzero((apart > 1e-9) & (np.abs(left) < 1e-9 * scale**2 * len(wanted))):
                a = _rational(first[j] / norms[i], 1.0)
                b = _rational(second[j] / norms[i + 1 + j], 1.0)
                p, q = columns[i], columns[i + 1 + int(j)]
                made = float(a or 0) * p.values + float(b or 0) * q.values
                if a and b and np.allclose(made, wanted, rtol=1e-7, atol=1e-7 * scale):
                    return self._combined([(a, p), (b, q)], ty)
        return None

    def _values(self, diagram: Diagram, ty: ArrayType) -> Any:
        """The values of a statistic on the lists, at every index of a component; None if it has further axes, or is
        undefined.
        """
        import numpy as np

        from catdiag.execute.interpreter import run

        if not set(diagram.cod[0].names) <= set(ty.names) or diagram.cod[0].element == "bool":
            return None
        builder = writer(list(diagram.dom))
        wires = use(builder, diagram, range(len(diagram.dom)))
        cast = ArrayType(ty.axes, diagram.cod[0].element)
        fitted = builder.diagram([builder.cast(wires[0], cast)], ())
        found = []
        for arrays, sizes in zip(self.samples.arrays, self.samples.sizes, strict=True):
            found.append(np.ravel(run(fitted, arrays, functions=self.samples.functions, sizes=sizes)).astype(float))
        values = np.concatenate(found)
        return None if np.any(np.isnan(values)) or not np.any(values) else values

    def _combined(self, terms: Sequence[tuple[Fraction, _SampleColumn]], ty: ArrayType) -> Diagram:
        """A linear combination of products of statistics, their logarithms and inverses."""
        inputs = [_fitted(t, _local(self.given)) for t in self.given.inputs]
        builder = writer(inputs)
        total: int | None = None
        for factor, column in terms:
            wire: int | None = None
            for part, how in column.parts:
                (made,) = use(builder, part, range(len(inputs)))
                if how == "log":
                    made = builder.map("log", made)
                if how == "inverse" and wire is not None:
                    wire = builder.map("div", wire, made)
                else:
                    wire = made if wire is None else builder.map("mul", wire, made)
            assert wire is not None, "a product has a factor"
            if factor != 1:
                wire = builder.map("mul", builder.add(const_box(factor), ()), wire)
            total = wire if total is None else builder.map("add", total, wire)
        assert total is not None
        return builder.diagram([builder.cast(total, ArrayType(ty.axes, builder.types[total].element))], ())


def _rational(a: Any, b: Any) -> Fraction | None:
    """a/b as a fraction with a small denominator; None where it is none."""
    if not b or abs(a / b) > 1e6:
        return None
    found = Fraction(float(a / b)).limit_denominator(_DENOMINATORS)
    return found if abs(float(found) - a / b) < 1e-6 * (1 + abs(a / b)) else None


def _samples(given: UserFold) -> _Samples:
    """A few lists, folded element by element."""
    import numpy as np

    from catdiag.execute.array_values import conform
    from catdiag.execute.interpreter import run

    rng = np.random.default_rng(0)
    axis, functions = given.axis, _functions(given)
    symbols = {s for ty in given.inputs for a in ty.axes for s in size_symbols(a.size)} - {str(axis.size)}
    found = _Samples([], [], [], functions)
    for number, length in enumerate(_LENGTHS):
        sizes = {s: 2 + j % 2 for j, s in enumerate(sorted(symbols))} | {given.block: length}
        if isinstance(axis.size, str):
            sizes[axis.size] = length
        arrays: list[Any] = []
        for ty in given.source.dom:
            shape = [length if a.name == axis.name else size_value(a.size, sizes) for a in ty.axes]
            numbers = rng.integers(1, 9, shape) * rng.choice([-1, 1], shape)
            arrays.append({"bool": numbers > 0, "int": abs(numbers)}.get(ty.element, numbers / 4))
        start = 0 if number % 2 == 0 else 1 + number // 2
        arrays.append(np.arange(start, start + length))
        state: tuple[Any, ...] = ()
        for place in range(length):
            one = [
                a if ty.axis(axis.name) is None else np.take(a, place, axis=ty.names.index(axis.name))
                for a, ty in zip(arrays, given.inputs, strict=True)
            ]
            element = _as_tuple(run(given.element, one, functions=functions, sizes=sizes))
            here = [
                conform(NamedArray(np.asarray(v), ty.names), state_ty, sizes)
                for v, ty, state_ty in zip(element, given.element.cod, given.states, strict=True)
            ]
            merged = run(given.merge, [*state, *here], functions=functions, sizes=sizes) if state else tuple(here)
            state = _as_tuple(merged)
        found.arrays.append(arrays)
        found.sizes.append(sizes)
        found.states.append(list(state))
    return found


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _functions(given: UserFold) -> dict[str, Callable[..., Any]]:
    """Some interpretations of the uninterpreted functions; a specification has to hold for all of them."""
    import numpy as np

    names: dict[str, None] = {}
    for diagram in (given.source, given.element, given.merge):
        for box in inline(diagram).boxes:
            if isinstance(box.op, Map) and isinstance(box.op.fn, Apply):
                names[box.op.fn.name] = None

    def function(k: int) -> Callable[..., Any]:
        return lambda *arrays: sum(np.cos((k + 1.5) * a + j) for j, a in enumerate(arrays))

    return {name: function(k) for k, name in enumerate(names)}
