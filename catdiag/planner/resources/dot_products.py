"""The matrix products of a diagram, as Triton has them (`tl.dot`): what they read, and where that comes from.

A product is a contraction of two arrays that has rows, columns and a depth; what multiplies a matrix by a vector is
none. Which factor is the second one is said by `Contraction.second`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from catdiag.category.diagram import Diagram
from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.category.ops import Box, Map, Reduce, Reindex, View
from catdiag.schedule.access_region import TileWindow
from catdiag.schedule.array_views import picks_entries
from catdiag.schedule.contractions import deciding, matrix_product
from catdiag.schedule.element_widths import width
from catdiag.schedule.live_ranges import is_view, multiplies
from catdiag.schedule.loop_nest import lower
from catdiag.schedule.operand_types import cast_of_factor, emitted_type, operand_type, result_type, widest_of
from catdiag.schedule.statements import Carry, For, Let, LoopStep, NestValue, Save, Slice, Statement
from catdiag.schedule.stored_types import element_types, rest_type

WIDE = 4
"""Bytes of an element of which products take three passes of tf32."""
Sides = tuple[IntPolynomial, IntPolynomial, IntPolynomial]
"""Rows, columns and depth of a product."""


@dataclass(eq=False)
class DotProducts:
    """What the products of a diagram read, each once and in order.

    Of inputs, by name: `direct` are read as they are, `indirect` made into something else; `rows` are the rows and
    columns of a product that has one as its first factor. `register_factors` are first factors that an iteration makes:
    elements, the rows of their product, bytes of an element, and how many are so; `partial_loads` are parts of arrays,
    each loaded by itself into buffers of its own: elements, how many taps of a window, bytes of an element. Of each
    product `sides`, with how many have them, and `batches`: the axes that both factors and the result have; `wide` are
    the sides of those made of elements of 4 bytes, with how many first factors they have. Of products in `passing` the
    first factor comes from registers. Inputs that are `reduced` as they are, if products read them too, are loaded once
    more for that; `computed` are all that boxes other than products read as they are.
    """

    direct: dict[str, None] = field(default_factory=dict)
    indirect: dict[str, None] = field(default_factory=dict)
    register_factors: dict[tuple[IntPolynomial, IntPolynomial, int], int] = field(default_factory=dict)
    rows: dict[str, tuple[IntPolynomial, IntPolynomial]] = field(default_factory=dict)
    sides: dict[Sides, int] = field(default_factory=dict)
    batches: dict[IntPolynomial, None] = field(default_factory=dict)
    passing: dict[Sides, None] = field(default_factory=dict)
    partial_loads: dict[tuple[IntPolynomial, IntPolynomial, int], None] = field(default_factory=dict)
    reduced: dict[str, None] = field(default_factory=dict)
    computed: dict[str, None] = field(default_factory=dict)
    wide: dict[Sides, int] = field(default_factory=dict)


@dataclass(frozen=True)
class OperandSource:
    """The inputs that a wire is made of; `is_input`: it is one of them, or another form of it; `before`: it was made
    before the loop that reads it; `part`: it is a part of one, or a form of it that is read at computed positions.
    `dtype` is the type of an input, a part of one, or a cast, "" of what is computed. `taps` are axes of windows."""

    is_input: bool
    names: tuple[str, ...]
    before: bool = False
    part: bool = False
    dtype: str = ""
    taps: frozenset[str] = frozenset()


def dot_products(diagram: Diagram, tiles: frozenset[str], dtype: str | Mapping[str, str]) -> DotProducts:
    """The products of a diagram whose groups have these tiles; `dtype` gives the types of its arrays."""
    program, types = lower(diagram), element_types(diagram, dtype)
    saved = {v: types[v.name] for v in program.stored if v.name in types}
    inputs = {v: OperandSource(True, (v.name,), dtype=types.get(v.name, "")) for v in program.inputs}
    reals = [types[v.name] for v in program.inputs if v.name in types]
    otherwise = widest_of([types[n] for n in deciding(diagram)] or reals[:1]) or rest_type(dtype)
    walk = _Walk(tiles, inputs, otherwise, saved, result_type(rest_type(dtype)))
    walk.read(program.body)
    for name in walk.found.direct:
        walk.found.indirect.pop(name, None)
    return walk.found


@dataclass
class _Walk:
    """Reads the statements of a program, with the sources of their values; `made` are the loops that make them.
    `otherwise` is the type of products whose factors are both computed, `saved` the types of results, `rest` that of
    what else is saved; `first_factors` are those of wide products."""

    tiles: frozenset[str]
    sources: dict[NestValue, OperandSource]
    otherwise: str
    saved: Mapping[NestValue, str]
    rest: str
    made: dict[NestValue, For] = field(default_factory=dict)
    found: DotProducts = field(default_factory=DotProducts)
    first_factors: set[tuple[Sides, NestValue]] = field(default_factory=set)

    def read(self, body: Sequence[Statement], loop: For | None = None) -> None:
        """Notes the products of an iteration of a loop, or of what is in none; then those of its loops, the last
        first."""
        inside: list[For] = []
        for statement in body:
            match statement:
                case Let(place=place) if place >= 0:
                    self._box(statement, loop)
                case Slice(target, source):
                    made = self._source(source, loop)
                    self._keep(target, replace(made, before=made.before and not made.part), loop)
                case For(kind="blocks", step=LoopStep(body=step)):
                    inside.append(statement)
                    states = step.wires[: len(step.graph.outputs)]
                    for state in states:
                        self._keep(state, OperandSource(False, ()), loop)
                case For(kind="parts"):
                    self.read(statement.body, loop)
                case For(kind="merge", body=[*_, Carry(states)]):
                    for state in states:
                        self._keep(state, OperandSource(False, ()), loop)
                case For(kind="tiles"):
                    inside.append(statement)
                    for saved in statement.body:
                        if isinstance(saved, Save):
                            kind = self.saved.get(saved.target, self.rest)
                            self._keep(saved.target, OperandSource(True, (), dtype=kind), loop)
        for within in reversed(inside):
            self.read(within.body, within)

    def _keep(self, value: NestValue, source: OperandSource, loop: For | None) -> None:
        """Says what a value is made of, and in which loop."""
        self.sources[value] = source
        if loop is not None and loop.kind == "blocks":
            self.made[value] = loop

    def _source(self, value: NestValue, loop: For | None) -> OperandSource:
        """What a value is made of, for a box in a loop."""
        if loop is None or loop.step is None or self.made.get(value) is loop:
            return self.sources[value]
        if value in loop.step.body.wires[: len(loop.step.body.graph.outputs)]:
            return OperandSource(False, ())  # a state
        return replace(self.sources[value], before=not self.sources[value].is_input)

    def _box(self, let: Let, loop: For | None) -> None:
        """Says what the results of a box are made of; notes it if it is a product."""
        op, given = let.box.op, [self._source(a, loop) for a in let.args]
        if (is_view(let.box) or (loop is None and picks_entries(let.box.op))) and not isinstance(op, TileWindow):
            made = given[0]
        else:
            part = isinstance(op, (Reindex, View)) and (given[0].is_input or given[0].part)
            names = tuple(dict.fromkeys(name for s in given for name in s.names))
            kind = given[0].dtype if part else cast_of_factor(op.fn) if isinstance(op, Map) else ""
            taps = {a.name for a in op.index_axes if a.size not in self.tiles} if isinstance(op, TileWindow) else set()
            made = OperandSource(
                False, names, part=part, dtype=kind, taps=given[0].taps | taps if part else frozenset()
            )
            if len(let.args) == 2 and multiplies(let.box):
                self._product(let.box, given, let.args)
            else:
                read = [name for source in given if source.is_input for name in source.names]
                self.found.computed.update(dict.fromkeys(read))
                if isinstance(op, Reduce):
                    self.found.reduced.update(dict.fromkeys(read))
        for target in let.targets:
            self._keep(target, made, loop)

    def _product(self, box: Box, given: list[OperandSource], args: Sequence[NestValue]) -> None:
        """Notes a contraction of two arrays with these sources, if it is a product."""
        product = matrix_product(box, self.tiles)
        if product is None:
            return
        sides, second = product.shape, product.second
        self.found.sides[sides] = self.found.sides.get(sides, 0) + 1
        read = given[0].dtype, given[1].dtype
        size = width(emitted_type(operand_type(*read, self.otherwise), read))
        if not given[1 - second].is_input and not given[1 - second].before:
            self.found.passing[sides] = None
        if size == WIDE and (sides, args[1 - second]) not in self.first_factors:
            self.first_factors.add((sides, args[1 - second]))
            self.found.wide[sides] = self.found.wide.get(sides, 0) + 1
        for k, factor in enumerate(given):
            (self.found.direct if factor.is_input else self.found.indirect).update(dict.fromkeys(factor.names))
            elements = IntPolynomial.elements(box.dom.arrays[k].axes)
            if factor.part and not factor.before:
                taps = [axis for axis in box.dom.arrays[k].axes if axis.name in factor.taps]
                each = IntPolynomial.elements(taps) if factor.taps else elements
                self.found.partial_loads[elements, each, width(factor.dtype) if factor.dtype else size] = None
            elif k == second or factor.before:
                continue
            elif not factor.is_input:
                one = elements, sides[k], size
                self.found.register_factors[one] = self.found.register_factors.get(one, 0) + 1
            else:
                self.found.rows.update((name, (sides[k], sides[1 - k])) for name in factor.names)
        self.found.batches[product.batch] = None
