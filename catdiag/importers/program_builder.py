"""Builds a diagram with named axes from a positional program, in two passes.

The first pass goes through the program. It gives each array its dimensions (`catdiag.importers.dimensions`), lines them
up, and records one *step* for each operation that computes or reads something. Then all axes are known and get names.
The second pass runs the steps on traced arrays, as the body of an algorithm would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from catdiag.category.diagram import Diagram
from catdiag.category.index_maps import Read, Reindex, View
from catdiag.category.types import ArrayType, Axis, coproduct, product
from catdiag.frontend import builder as frontend
from catdiag.frontend.elementwise import where
from catdiag.frontend.indexing import indexed
from catdiag.frontend.reshape import axis_of, joined, merged, put
from catdiag.frontend.tracing import Trace, Traced, building, running
from catdiag.importers.dimensions import (
    AxisFactor,
    AxisNames,
    Dimension,
    Extent,
    TracedLength,
    extent_of,
    is_traced,
    product_of,
    same_size,
)
from catdiag.importers.example import NotImported
from catdiag.importers.imported_values import ArrayValue, Environment, Operand, SizeNumber
from catdiag.importers.size_roots import settle
from catdiag.importers.value_builder import ValueBuilder
from catdiag.util.errors import CatdiagError


class ProgramBuilder(ValueBuilder):
    """A program that is being imported."""

    # -- contractions ------------------------------------------------------------------------------

    def einsum(
        self, values: Sequence[ArrayValue], letters: Sequence[Sequence[str]], output: Sequence[str]
    ) -> ArrayValue:
        """The sum of products over all letters but those of the output, one letter a dimension."""
        found: dict[str, Dimension] = {}
        given = list(values)
        for k, word in enumerate(letters):
            for place, letter in enumerate(word):
                value = given[k]
                dim = value.dims[place]
                if not self.factors.resolve(dim):
                    found.setdefault(letter, ())
                elif found.get(letter):
                    given[k] = self.aligned(value, place, found[letter])
                else:
                    beside = {f for other, d in found.items() if other != letter for f in self.factors.resolve(d)}
                    if beside & set(self.factors.resolve(dim)):
                        given[k] = value = self.fresh(value, dim)
                    found[letter] = value.dims[place]
        # The axes of all letters exist together, those that are summed too: no array has them, but the product does.
        self.values.append(ArrayValue((), self.factors.resolve(f for d in found.values() for f in d)))
        dims = [found[letter] for letter in output]
        summed = tuple(f for letter in found if letter not in output for f in self.factors.resolve(found[letter]))
        for value in values:
            settle(self, value, summed)
        have = {f for v in given for f in self.factors.resolve(v.axes)}
        axes = [f for d in dims for f in self.factors.resolve(d) if f in have]
        repeated = [f for f in summed if f not in have]

        def make(env: Environment) -> Traced:
            pattern = ", ".join(" ".join(env[v].axes) for v in given) + " -> " + env.of(axes)
            result = frontend.einsum(pattern, *(env[v] for v in given))
            return result * env.size(repeated) if repeated else result

        return self.emit(dims, axes, make, contracted=summed)

    def reduced(
        self,
        value: ArrayValue,
        places: Sequence[int],
        keep: bool,
        function: Callable[[Any, str], Traced],
        element: str = "",
    ) -> ArrayValue:
        """A reduction over some dimensions."""
        make = lambda env, array, axes: function(array, axes) if axes else array  # noqa: E731
        made = self.reduced_with(value, places, keep, make, element or value.element)
        if function is frontend.sum:
            made.contracted = self.factors.resolve(f for k in places for f in value.dims[k])
        return made

    def reduced_with(
        self,
        value: ArrayValue,
        places: Sequence[int],
        keep: bool,
        function: Callable[[Environment, Any, str], Any],
        element: str,
    ) -> ArrayValue:
        """A reduction over some dimensions that may read sizes; the value is made to have their axes first."""
        full = self.materialized(value, [value.dims[k] for k in places])
        gone = self.factors.resolve(f for k in places for f in full.dims[k])
        dims = [() if k in places else d for k, d in enumerate(full.dims) if keep or k not in places]
        axes = [f for f in self.factors.resolve(full.axes) if f not in gone]
        return self.emit(dims, axes, lambda env: function(env, env[full], env.of(gone)), element)

    # -- parts and concatenations --------------------------------------------------------------------

    def selected(self, value: ArrayValue, place: int, position: int | SizeNumber) -> ArrayValue:
        """The part of a value at one position of a dimension, from the end if negative."""
        dim = self.factors.resolve(value.dims[place])
        if len(dim) > 1 and (isinstance(position, SizeNumber) or position < -1):
            value = self.joined_dimension(value, place)
            dim = self.factors.resolve(value.dims[place])
        dims = [d for k, d in enumerate(value.dims) if k != place]
        if isinstance(position, SizeNumber):
            return self._at(value, dims, dim[0], position)
        length = self.length(dim)
        if position not in (0, -1):
            for factor in dim[1:] if self.read_roots else dim:
                self.factors.fix(factor.extent)
            if not self.read_roots and dim:
                self.notes.append(f"a dimension of {length} is read at a position: its length is fixed{self.at}")
        at: list[tuple[AxisFactor, int]] = []
        rest = position % length
        for factor in dim[::-1]:
            at.append((factor, position if len(dim) == 1 or position in (0, -1) else rest % factor.length))
            rest //= factor.length
        reads = [(f, k) for f, k in at if self.has(value, f)]
        axes = [f for f in self.factors.resolve(value.axes) if f not in dim]
        known = value.positions.mapped(self.factors.resolve) if value.positions is not None and position >= 0 else None
        if known is not None and (one := known.without(dim, position)) is not None:
            return self.positional(dims, one)

        def make(env: Environment) -> Traced:
            array = env[value]
            positions = [(f, k if k >= 0 else env.size([f]) + k) for f, k in reads]
            return env.read(array, positions, ()) if positions else array

        return self.emit(dims, axes, make, value.element, number=value.number)

    def _at(self, value: ArrayValue, dims: Sequence[Dimension], factor: AxisFactor, position: SizeNumber) -> ArrayValue:
        """A value at a position that is computed from sizes."""
        if not self.has(value, factor):
            return self.view(value, dims)

        def make(env: Environment) -> Traced:
            return env.read(env[value], [(factor, from_end(env, factor, position))], ())

        return self.emit(dims, [f for f in self.factors.resolve(value.axes) if f is not factor], make, value.element)

    def part(
        self, value: ArrayValue, place: int, start: int, length: int, even: bool = True, cover: Sequence[int] = ()
    ) -> ArrayValue:
        """The positions from `start` on along a dimension. A part at a term of a sum is that term; one of `even` parts
        is a factor; with `read_parts`, one of parts that `cover` the dimension is a term; else the lengths are those of
        the example."""
        dim = self.factors.resolve(value.dims[place])
        total = self.length(dim)
        if length == total:
            return value
        if length == 0:
            lengths = [0 if k == place else self.length(d) for k, d in enumerate(value.dims)]
            return self.constant(0, lengths, value.element)
        if len(dim) == 1:
            if cover and self.read_parts and self.factors.cut(dim[0].extent, cover):
                taken = " + ".join(map(str, cover))
                self.notes.append(f"parts of {taken} are read as parts of any lengths{self.at}")
            found = self._terms_of(value, place, dim[0], start, length)
            if found is not None:
                return found
        if even and total % length == 0 and start % length == 0 and extent_of(dim[0].extent).op != "+":
            halved = self.divided(value, place, [total // length, length])
            for factor in self.factors.resolve(halved.dims[place]):
                self.factors.fix(factor.extent)
            taken = f"{start}:{start + length} of {total}"
            self.notes.append(f"{taken} is read as one of {total // length} parts{self.at}")
            return self.selected(halved, place, start // length)
        if len(dim) == 1 and start == 0 and value.along is not None and value.positions is None and self.read_parts:
            return self.renamed(value, [(dim[0], self.factors.new(length, dim[0].hint))])
        if len(dim) != 1:
            value = self.joined_dimension(value, place)
            dim = self.factors.resolve(value.dims[place])
        self.factors.fix(dim[0].extent)
        self.notes.append(f"{start}:{start + length} of {total} is read as it is: lengths are fixed{self.at}")
        made = self.factors.new(length, dim[0].hint, fixed=True)
        return self._read(value, place, dim[0], made, lambda env: start)

    def _terms_of(
        self, value: ArrayValue, place: int, factor: AxisFactor, start: int, length: int
    ) -> ArrayValue | None:
        """A part that is one term, or several, of a sum."""
        terms, before, taken, at = self.factors.terms(factor.extent), [], [], 0
        for term in terms:
            if at + term.length <= start:
                before.append(term)
            elif start <= at and at + term.length <= start + length:
                taken.append(term)
            at += term.length
        if sum(t.length for t in before) != start or sum(t.length for t in taken) != length:
            return None
        made = None if length == 1 else self.factors.new(length, factor.hint, taken[0])
        if len(taken) > 1:
            made = self.factors.sum(taken, factor.hint)
        return self._read(
            value, place, factor, made, lambda env: sum((running().size(env.names.size(t)) for t in before), 0)
        )

    def diagonal(self, value: ArrayValue, one: int, other: int) -> ArrayValue:
        """The elements at equal positions of two dimensions of one length: dimension `one` of the result, which has no
        other. Raises NotAligned where their lengths differ."""
        pairs = self.factors.unify(value.dims[one], value.dims[other], self.coexist)
        dims = [d for k, d in enumerate(value.dims) if k != other]
        have = self.factors.resolve(value.axes)
        axes = tuple(dict.fromkeys(next((a for a, b in pairs if b is f), f) for f in have))

        def make(env: Environment) -> Traced:
            array: Traced = env[value]
            for a, b in pairs:
                reads = [(f, env.index([a])) for f in (a, b) if f in have]
                array = env.read(array, reads, [a]) if reads else array
            return array

        return self.emit(dims, axes, make, value.element)

    def is_traced(self, dim: Dimension, *given: Any) -> bool:
        """Whether a dimension, or a number that is given, has symbols of the trace."""
        own = any(is_traced(f.extent) for f in self.factors.resolve(dim))
        return own or any(isinstance(n, (TracedLength, SizeNumber)) for n in given)

    def without(self, dim: Dimension, count: int) -> TracedLength:
        """The length of a dimension without so many elements."""
        whole = product_of([f.extent for f in self.factors.resolve(dim)])
        return TracedLength(
            whole.length - count, "", lambda: self.factors.rest(whole, [Extent(count, fixed=True)] * bool(count))
        )

    def traced_part(
        self, value: ArrayValue, place: int, start: int | SizeNumber, stop: int | SizeNumber | None, length: int
    ) -> ArrayValue:
        """The positions from `start` up to `stop` along a dimension, each from the end if negative: they are so at all
        sizes, and their number is `length`, an integer or computed from symbols."""
        dim = self.factors.resolve(value.dims[place])
        whole = product_of([f.extent for f in dim])
        extent = length.extent if isinstance(length, TracedLength) else Extent(length, fixed=True)
        if extent is not None and same_size(extent, whole):
            return value
        if length == 0 and not isinstance(length, TracedLength):
            lengths = [0 if k == place else self.length(d) for k, d in enumerate(value.dims)]
            return self.constant(0, lengths, value.element)
        if length == 1 and not isinstance(length, TracedLength):
            one = self.selected(value, place, start)
            return self.view(one, [*one.dims[:place], (), *one.dims[place:]])
        count, rest = divmod(whole.length, length) if length else (0, 1)
        if extent is not None and not rest and same_size(whole, product_of([Extent(count, fixed=True), extent])):
            number = _multiple(start, extent, count)
            if number is not None:
                outer, inner = self.factors.regroup(dim, [count, length])
                parts = self.view(value, [*value.dims[:place], outer, inner, *value.dims[place + 1 :]])
                return self.selected(parts, place, number)
        if len(dim) != 1:
            value = self.joined_dimension(value, place)
        (old,) = self.factors.resolve(value.dims[place])
        if extent is None:
            made = self.factors.new(int(length), old.hint, Extent(int(length), free=True, traced=True))
        else:
            made = self.factors.new(length, old.hint, extent)
        end = None if extent is not None or stop is None else partial(from_end, factor=old, position=stop)
        return self._read(value, place, old, made, partial(from_end, factor=old, position=start), end)

    def _read(
        self,
        value: ArrayValue,
        place: int,
        old: AxisFactor,
        new: AxisFactor | None,
        start: Callable[[Environment], Any],
        stop: Callable[[Environment], Any] | None = None,
    ) -> ArrayValue:
        """The positions of an axis from `start` on along a new one; at `start`, where there is none."""
        made = () if new is None else (new,)
        dims = [*value.dims[:place], made, *value.dims[place + 1 :]]
        if not self.has(value, old):
            return self.view(value, dims)
        axes = [g for f in self.factors.resolve(value.axes) for g in (made if f is old else (f,))]

        def make(env: Environment) -> Traced:
            at = env.index(made) + start(env) if made else start(env)
            fits = None if stop is None else lambda *_: (at, stop(env))
            return env.read(env[value], [(old, at)], made, fits=fits)

        return self.emit(dims, axes, make, value.element)

    def stacked(self, values: Sequence[ArrayValue], place: int) -> ArrayValue:
        """Values side by side along a new dimension."""
        lined, dims = self.broadcast(values)
        if len(values) == 1:
            return self.view(lined[0], [*dims[:place], (), *dims[place:]])
        made = self.factors.new(len(values), fixed=True)
        axes = [*(f for v in lined for f in v.axes), made]

        def make(env: Environment) -> Traced:
            found: Traced = env[lined[-1]]
            for k in range(len(lined) - 2, -1, -1):
                found = where(env.index([made]) < k + 1, env[lined[k]], found)
            return found

        return self.emit([*dims[:place], (made,), *dims[place:]], axes, make, values[0].element)

    def concatenated(self, values: Sequence[ArrayValue], place: int) -> ArrayValue:
        """Values one after the other along a dimension."""
        lengths = [self.length(v.dims[place]) for v in values]
        sizes = [product_of([f.extent for f in self.factors.resolve(v.dims[place])]) for v in values]
        even = not any(map(is_traced, sizes)) or all(same_size(sizes[0], e) for e in sizes)
        if len(set(lengths)) == 1 and lengths[0] > 1 and even:
            both = self.stacked(values, place)
            merged_dim = (*both.dims[place], *both.dims[place + 1])
            return self.view(both, [*both.dims[:place], merged_dim, *both.dims[place + 2 :]])
        parts = []
        for value, length in zip(values, lengths, strict=True):
            if length == 1 and not self.factors.resolve(value.dims[place]):
                one = (self.factors.new(1, fixed=True),)
                value = self.view(value, [*value.dims[:place], one, *value.dims[place + 1 :]])
            elif len(self.factors.resolve(value.dims[place])) > 1:
                value = self.joined_dimension(value, place)
            # Each part has an axis of its own, which nothing else is lined up with.
            parts.append(self.fresh(self.materialized(value, [value.dims[place]]), value.dims[place]))
        ends = [self.factors.resolve(v.dims[place])[0] for v in parts]
        rest = [self.view(v, [*v.dims[:place], (), *v.dims[place + 1 :]]) for v in parts]
        lined, dims = self.broadcast(rest)
        whole = self.factors.sum([f.extent for f in ends], next((f.hint for f in ends if f.hint), ""))
        axes = [*(f for v in lined for f in self.factors.resolve(v.axes) if f not in ends), whole]

        def make(env: Environment) -> Traced:
            arrays = [env[v] for v in lined]
            parts = env.axes(ends)
            one = [
                running().rename(a, {}, (*a.type.axes, p)) if a.type.axis(p.name) is None else a
                for a, p in zip(arrays, parts, strict=True)
            ]
            array, (axis,) = joined(running(), one, parts), env.axes([whole])
            name, size = coproduct(*parts).name, coproduct(*parts).size
            if size == axis.size:
                return running().rename(array, {name: axis.name})
            return indexed(running(), array, (axis,), {name: running().index(axis)})

        return self.emit([*dims[:place], (whole,), *dims[place + 1 :]], axes, make, values[0].element)

    # -- the second pass -----------------------------------------------------------------------------

    def build(self, outputs: Sequence[ArrayValue], names: AxisNames, merged_results: bool = True) -> Diagram:
        """The diagram with these results; without `merged_results` their dimensions are an axis for each factor. Raises
        NotImported for an operation without meaning here."""
        self._fix_unknown(names)
        outputs = [self.materialized(v, v.dims) for v in outputs]
        types = [ArrayType(tuple(_input_axes(names, v)), v.element) for _, v in self.inputs]
        trace = Trace(types)
        env = Environment(names, {})
        with building(trace):
            for (_, value), array in zip(self.inputs, trace.inputs, strict=True):
                env.arrays[value] = _flat(trace, array)
            for value, make, line in self.steps:
                trace.source_line = line
                try:
                    env.arrays[value] = make(env)
                except CatdiagError as error:
                    said = str(error).split("\n")[0]
                    raise NotImported(f"{self.title} has an operation without meaning here: {said} [{line}]") from error
            results = [_shaped(env, v, merged_results) for v in outputs]
        return trace.diagram(results, tuple(name for name, _ in self.inputs), self.title)

    def _fix_unknown(self, names: AxisNames) -> None:
        """Fixes the sizes that no input shows: those of repetitions, for example."""
        known: set[Extent] = set()
        todo = [f.extent for _, v in self.inputs for d in v.dims for f in self.factors.resolve(d)]
        while todo:
            extent = extent_of(todo.pop())
            known.add(extent)
            todo.extend(extent.parts)
        for factor in self.factors.made:
            extent = extent_of(factor.extent)
            if not factor.into and extent not in known and not extent.op and not extent.free:
                extent.fixed = True


def from_end(env: Environment, factor: AxisFactor, position: Operand) -> Any:
    """A position along an axis, from the end if it is negative in the example."""
    value = position.value if isinstance(position, SizeNumber) else position
    negative = not isinstance(value, ArrayValue) and value < 0
    return env.size([factor]) + env[position] if negative else env[position]


def _multiple(start: int | SizeNumber, extent: Extent, count: int) -> int | None:
    """The number of the part at a position, of parts of one size; None where it is not at one of them at all sizes."""
    at = start.value if isinstance(start, SizeNumber) else start
    if at == 0 and not isinstance(start, SizeNumber):
        return 0
    number = int(at) // extent.length
    found = at.extent if isinstance(at, TracedLength) and 0 < number < count else None
    if found is None or not same_size(found, product_of([Extent(number, fixed=True), extent])):
        return None
    return number


def _input_axes(names: AxisNames, value: ArrayValue) -> list[Axis]:
    found: list[Axis] = []
    ones = 0
    for dim in value.dims:
        axes = [names.axis(f) for f in names.factors.resolve(dim)]
        if axes:
            found.append(product(*axes))
        else:
            found.append(Axis("1", 1) if not ones else Axis(f"one_{ones}", 1))
            ones += 1
    return found


def _flat(trace: Trace, array: Traced) -> Traced:
    """An input over single axes: products are split, and axes of length 1 dropped."""
    for axis in array.type.axes:
        if axis.kind == "product":
            array = put(trace, Reindex("split", axis), [array])
        elif axis.size == 1:
            array = put(trace, View((), (Read(((axis.name, 0),)),)), [array])
    return array


def _shaped(env: Environment, value: ArrayValue, merge: bool) -> Traced:
    """A result with its dimensions: factors merged if asked for, and axes of length 1 added."""
    trace, array = running(), env[value]
    layout: list[str] = []
    for dim in value.dims:
        axes = env.axes(dim)
        if not axes:
            axes = [Axis("1", 1) if "1" not in layout else Axis(f"one_{len(layout)}", 1)]
            array = trace.rename(array, {}, (*array.type.axes, *axes))
        if len(axes) > 1 and merge:
            array = merged(trace, array, axes)
            axes = [product(*axes)]
        layout.extend(axis.name for axis in axes)
    return trace.rename(array, {}, [axis_of(array, n) for n in layout])
