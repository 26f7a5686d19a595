"""Values of a positional program: made by steps, seen under other dimensions, lined up with each other.

The base of `catdiag.importers.program_builder`, which has the operations that reduce, contract, cut and join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from catdiag.frontend.indexing import indexed
from catdiag.frontend.reshape import axis_of
from catdiag.frontend.tracing import Traced, running
from catdiag.importers.dimensions import AxisFactor, Dimension, Extent, Factors, NotAligned
from catdiag.importers.imported_values import ArrayValue, Environment, Make, Operand, Swap, at
from catdiag.importers.positions import NotPositional, Positions
from catdiag.util.errors import CatdiagError


@dataclass
class ValueBuilder:
    """The inputs, values and steps of a program that is being imported."""

    title: str
    factors: Factors = field(default_factory=Factors)
    values: list[ArrayValue] = field(default_factory=list)
    inputs: list[tuple[str, ArrayValue]] = field(default_factory=list)
    steps: list[tuple[ArrayValue, Make, str | None]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    line: str | None = None
    functions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    at_least: list[tuple[Dimension, int]] = field(default_factory=list)
    """Dimensions with the least lengths at which the program has a value."""
    read_roots: bool = True
    """Whether numbers are read as roots of sizes (`catdiag.importers.size_roots`), and dimensions that are read at some
    position as of any length."""
    read_least: bool = False
    """Whether the least number of a floating-point type is read as minus infinity, as masks mean it."""
    read_masks: bool = False
    """Whether numbers that are passed in are read as truth values, where the example has only 0 and 1."""
    ignores_targets: bool = False
    """Whether targets of cross-entropies may be the default of `ignore_index`, which is no class."""
    read_parts: bool = False
    """Whether slices that cover a dimension are read as parts of any lengths, and buffers that are made of positions as
    what they are, and positions that are added to as having to be in range: for programs that are compared."""

    @property
    def at(self) -> str:
        """The line of what is imported now, as notes end with it."""
        return at(self.line)

    # -- values ----------------------------------------------------------------------------------

    def input(self, name: str, lengths: Sequence[int], element: str, hints: Sequence[str] = ()) -> ArrayValue:
        """A new input; `hints` are names for its dimensions."""
        named = [*hints, *[""] * len(lengths)]
        dims = tuple(self.factors.dimension(n, hint) for n, hint in zip(lengths, named, strict=False))
        value = ArrayValue(dims, tuple(f for d in dims for f in d), element)
        self.inputs.append((name, value))
        self.values.append(value)
        return value

    def emit(
        self, dims: Sequence[Dimension], axes: Iterable[AxisFactor], make: Make, element: str = "real", **more: Any
    ) -> ArrayValue:
        """The value of a step."""
        kept = tuple(dict.fromkeys(self.factors.resolve(axes)))
        value = ArrayValue(tuple(dims), kept, element, **more)
        self.values.append(value)
        self.steps.append((value, make, self.line))
        return value

    def view(self, value: ArrayValue, dims: Sequence[Dimension]) -> ArrayValue:
        """The same array under other dimensions: no step."""
        seen = ArrayValue(
            tuple(dims), value.axes, value.element, value.contracted, value.number, value.pending, value.positions,
            value.along,
        )  # fmt: skip
        self.values.append(seen)
        self.steps.append((seen, lambda env: env[value], self.line))
        return seen

    def typed(self, value: ArrayValue, element: str) -> ArrayValue:
        """The same array, of elements that are said to be of another type: integers that are real numbers."""
        if value.element == element:
            return value
        known: dict[str, Any] = {"number": value.number, "positions": value.positions, "along": value.along}
        whole = value if (value.element, element) == ("int", "real") else None
        return self.emit(value.dims, value.axes, lambda env: env[value], element, whole=whole, **known)

    def constant(self, number: float, lengths: Sequence[int], element: str) -> ArrayValue:
        """An array of equal numbers."""
        dims = [self.factors.dimension(n) for n in lengths]

        def make(env: Environment) -> Traced:
            if number != number:  # what is no number has no value
                return running().lift(0) / 0
            if element == "bool":
                return running().lift(int(bool(number))) > 0
            return running().lift(number, infinite=True, element=element)

        return self.emit(dims, (), make, element, number=number, along=lambda swap: make)

    def positional(self, dims: Sequence[Dimension], positions: Positions) -> ArrayValue:
        """An array of integers that are sums of positions."""
        if not positions.terms:
            made = self.constant(positions.offset, (), "int")
            return self.view(made, dims)

        def along(swap: Swap) -> Make:
            terms = positions.mapped(swap).terms

            def make(env: Environment) -> Traced:
                total: Any = None
                for dim, step in terms.items():
                    at = env.index(dim) if step == 1 else env.index(dim) * step
                    total = at if total is None else total + at
                return total if positions.offset == 0 else total + positions.offset  # type: ignore[no-any-return]

            return make

        return self.emit(dims, positions.factors, along(tuple), "int", positions=positions, along=along)

    def positions(self, operand: Operand) -> Positions | bool | int:
        """What is known of an operand from positions alone. Raises NotPositional where nothing is."""
        if not isinstance(operand, ArrayValue):
            if isinstance(operand, (bool, int)):
                return operand
            raise NotPositional
        if operand.positions is not None:
            return operand.positions.mapped(self.factors.resolve)
        if operand.number is None or operand.element not in ("int", "bool"):
            raise NotPositional
        return bool(operand.number) if operand.element == "bool" else Positions({}, int(operand.number))

    def length(self, dim: Dimension) -> int:
        """The length of a dimension in the example."""
        return self.factors.length(dim)

    def shape(self, value: ArrayValue) -> list[int]:
        """The lengths of a value in the example."""
        return [self.length(d) for d in value.dims]

    def has(self, value: ArrayValue, factor: AxisFactor) -> bool:
        """Whether a value has the axis of a factor, rather than being broadcast along it."""
        return factor in self.factors.resolve(value.axes)

    def own(self, value: ArrayValue, dim: Dimension) -> Dimension:
        """The factors of a dimension that a value has."""
        return tuple(f for f in self.factors.resolve(dim) if self.has(value, f))

    def materialized(self, value: ArrayValue, dims: Iterable[Dimension]) -> ArrayValue:
        """A value that has all axes of these dimensions."""
        wanted = self.factors.resolve(f for d in dims for f in d)
        lacking = [f for f in wanted if not self.has(value, f)]
        if not lacking:
            return value
        axes = [*value.axes, *lacking]
        make: Make = lambda env: running().rename(env[value], {}, (*env[value].type.axes, *env.axes(lacking)))  # noqa: E731
        return self.emit(value.dims, axes, make, value.element, number=value.number, positions=value.positions)

    # -- lining up -------------------------------------------------------------------------------

    def coexist(self, a: AxisFactor, b: AxisFactor) -> bool:
        """Whether some array has both axes."""
        pair = {a, b}
        return any(pair <= self._all(v) for v in self.values)

    def _all(self, value: ArrayValue) -> set[AxisFactor]:
        return set(self.factors.resolve([*value.axes, *(f for d in value.dims for f in d)]))

    def renamed(self, value: ArrayValue, pairs: Sequence[tuple[AxisFactor, AxisFactor]]) -> ArrayValue:
        """A value with axes renamed, from the first of each pair to the second, of the same size."""
        if not pairs:
            return value
        into = dict(pairs)

        def swap(factors: Iterable[AxisFactor]) -> Dimension:
            return tuple(into.get(f, f) for f in self.factors.resolve(factors))

        more: dict[str, Any] = {"contracted": swap(value.contracted), "number": value.number}
        if value.along is not None:
            made = value.along
            more.update(along=lambda next_swap: made(lambda factors: next_swap(swap(factors))))
            if value.positions is not None:
                more.update(positions=value.positions.mapped(swap))
            return self.emit([swap(d) for d in value.dims], swap(value.axes), made(swap), value.element, **more)

        def make(env: Environment) -> Traced:
            array, names = env[value], {}
            for a, b in pairs:
                old, new = env.axes([a]), env.axes([b])
                if any(array.type.axis(axis.name) is None for axis in old):
                    continue
                if len(old) == len(new):
                    names.update({one.name: other.name for one, other in zip(old, new, strict=True)})
                else:  # split into other factors, each
                    array = env.read(array, [(a, env.index([b]))], [b])
            return running().rename(array, names)

        return self.emit([swap(d) for d in value.dims], swap(value.axes), make, value.element, **more)

    def fresh(self, value: ArrayValue, dim: Dimension) -> ArrayValue:
        """A value with other axes of the same sizes along a dimension."""
        return self.renamed(value, [(f, self.factors.copy(f)) for f in self.factors.resolve(dim)])

    def aligned(self, value: ArrayValue, place: int, dim: Dimension) -> ArrayValue:
        """A value whose dimension number `place` is `dim`, renamed where axes stay two. Raises NotAligned."""
        if self.length(value.dims[place]) == 1 or not dim:
            return value
        if not self.factors.refined(dim, value.dims[place]):
            length = self.length(dim)
            self.notes.append(f"a dimension of {length} is cut in two ways: its length is fixed{self.at}")
            value = self.joined_dimension(value, place, fixed=True)
        pairs = self.factors.unify(dim, value.dims[place], self.coexist)
        if pairs:
            # Axes of `dim` that the value has elsewhere give way, all at once: an axis may take the place of the next.
            own = self._all(value) - {b for _, b in pairs}
            away = [(a, self.factors.copy(a)) for a, _ in pairs if a in own]
            value = self.renamed(value, [*away, *((b, a) for a, b in pairs)])
        return value

    def divided(self, value: ArrayValue, place: int, lengths: Sequence[int]) -> ArrayValue:
        """A value with dimensions of these lengths in place of one. Across its factors, where they are of other lengths
        (2 x 3 as 3 x 2), the elements are read in the new order, and its length is fixed."""
        try:
            parts = self.factors.regroup(value.dims[place], lengths)
        except NotAligned:
            found = [f.length for f in self.factors.resolve(value.dims[place])]
            self.notes.append(f"{found} is cut as {[*lengths]}: lengths are fixed{self.at}")
            value = self.joined_dimension(value, place, fixed=True)
            parts = self.factors.regroup(value.dims[place], lengths)
        return self.view(value, [*value.dims[:place], *parts, *value.dims[place + 1 :]])

    def joined_dimension(self, value: ArrayValue, place: int, fixed: bool = False) -> ArrayValue:
        """A value whose dimension of several factors is one axis, as long as their product; of `fixed` length, it may
        be split in another way."""
        dim = self.factors.resolve(value.dims[place])
        full = self.materialized(value, [dim])
        extent = dim[0].extent
        for factor in dim[1:]:
            extent = Extent(extent.length * factor.length, parts=(extent, factor.extent), op="*")
        if fixed:
            self.factors.fix(extent)
            extent = Extent(extent.length, fixed=True)
        made = self.factors.new(0, dim[0].hint, extent)
        axes = [*(f for f in self.factors.resolve(full.axes) if f not in dim), made]

        def make(env: Environment) -> Traced:
            array, name = env.merged(env[full], dim)
            axes = env.axes([made])
            if len(axes) == 1 and axis_of(array, name).size == axes[0].size:
                return running().rename(array, {name: axes[0].name})
            return indexed(running(), array, tuple(axes), {name: env.index([made])})

        return self.emit([*full.dims[:place], (made,), *full.dims[place + 1 :]], axes, make, value.element)

    def broadcast(self, values: Sequence[ArrayValue]) -> tuple[list[ArrayValue], list[Dimension]]:
        """Values lined up from the last dimension on, as NumPy does, and the dimensions of the result."""
        found, rank = list(values), max(len(v.dims) for v in values)
        dims: list[Dimension] = [()] * rank
        for k in range(len(found)):
            for back in range(1, len(found[k].dims) + 1):
                value = found[k]
                dim = value.dims[-back]
                if not self.factors.resolve(dim):
                    continue
                if not dims[-back]:
                    beside = {f for j, d in enumerate(dims) if j != rank - back for f in self.factors.resolve(d)}
                    if beside & set(self.factors.resolve(dim)):
                        value = found[k] = self.fresh(value, dim)
                    dims[-back] = value.dims[-back]
                else:
                    found[k] = self.aligned(value, len(value.dims) - back, dims[-back])
        return found, dims

    def pointwise(self, operands: Sequence[Operand], make: Callable[..., Any], element: str = "real") -> ArrayValue:
        """A function of several operands at each index. One of positions alone is computed where it can be: it is a sum
        of positions, or one truth value."""
        values = [v for v in operands if isinstance(v, ArrayValue)]
        lined, dims = self.broadcast(values)
        rest = iter(lined)
        given: list[Operand] = [next(rest) if isinstance(v, ArrayValue) else v for v in operands]
        contracted = next((v.contracted for v in lined if v.contracted), ())
        axes = [f for v in lined for f in v.axes]
        if element in ("int", "bool") and lined:
            try:
                found = make(*map(self.positions, given))
            except (NotPositional, TypeError, AttributeError, CatdiagError):
                pass  # a function of other things, or of arrays only
            else:
                if isinstance(found, bool) and element == "bool":
                    return self.view(self.constant(found, (), "bool"), dims)
                if isinstance(found, Positions) and element == "int":
                    return self.positional(dims, found)

        def step(env: Environment) -> Traced:
            return running().lift(make(*(env[v] for v in given)), infinite=True, element=element)

        if not all(v.along for v in lined):
            return self.emit(dims, axes, step, element, contracted=contracted)

        def along(swap: Swap) -> Make:
            others = [v.along(swap) if isinstance(v, ArrayValue) and v.along else v for v in given]

            def remade(env: Environment) -> Traced:
                values = (v(env) if callable(v) else env[v] for v in others)
                return running().lift(make(*values), infinite=True, element=element)

            return remade

        return self.emit(dims, axes, step, element, along=along)
