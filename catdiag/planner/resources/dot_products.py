"""The matrix products of a diagram, as Triton has them (`tl.dot`): what they read, and where that comes from.

A product is a contraction of two arrays that has rows, columns and a depth; what multiplies a matrix by a vector is
none. The factor whose own axes carry a tile is the first, the left one if both or none do, as in
`catdiag.planner.instruction_shapes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from catdiag.category.diagram import Diagram, inline
from catdiag.category.integer_polynomial import ONE, IntPolynomial
from catdiag.category.ops import Box, FoldOp, GroupOp, Reindex, View
from catdiag.category.types import ArrayType, union
from catdiag.schedule.live_ranges import is_view, multiplies

Sides = tuple[IntPolynomial, IntPolynomial, IntPolynomial]
"""Rows, columns and depth of a product."""


@dataclass(frozen=True)
class DotProducts:
    """What the products of a diagram read, in elements.

    Of inputs, by name: `direct` are read as they are, `indirect` made into something else; `readers` are the rows of
    all products that read an input as it is, `rows` the rows and columns of one that has it as its first factor. Of
    what is made on chip: `smem_factors` lie in shared memory, being second factors or made before the loop;
    `register_factors` are first factors that do not, with the rows of their product; `partial_loads` are parts of
    arrays, each loaded by itself into buffers of its own. Of each product `sides`, and `batches`: the axes that both
    factors and the result have. Of products in `passing` the first factor comes from registers. `results` is what a
    group saves.
    """

    direct: frozenset[str]
    indirect: frozenset[str]
    readers: Mapping[str, tuple[IntPolynomial, ...]]
    smem_factors: tuple[IntPolynomial, ...]
    register_factors: tuple[tuple[IntPolynomial, IntPolynomial], ...]
    rows: Mapping[str, tuple[IntPolynomial, IntPolynomial]]
    sides: tuple[Sides, ...]
    batches: tuple[IntPolynomial, ...]
    results: tuple[IntPolynomial, ...]
    passing: frozenset[Sides]
    partial_loads: tuple[IntPolynomial, ...] = ()


@dataclass(frozen=True)
class OperandSource:
    """The inputs that a wire is made of; `is_input`: it is one of them, or another form of it; `before`: it was made
    before the loop that reads it; `part`: it is a part of one, or a form of it that is read at computed positions."""

    is_input: bool
    names: tuple[str, ...]
    before: bool = False
    part: bool = False


def dot_products(diagram: Diagram, tiles: frozenset[str]) -> DotProducts:
    """The products of a diagram whose groups have these tiles."""
    walk = _Walk(tiles)
    walk.visit(diagram, [OperandSource(True, (name,)) for name in diagram.input_names])
    return walk.found()


@dataclass
class _Walk:
    """Visits the boxes of a diagram and of its loops and groups, with the sources of their inputs."""

    tiles: frozenset[str]
    direct: dict[str, None] = field(default_factory=dict)
    indirect: dict[str, None] = field(default_factory=dict)
    readers: dict[str, dict[IntPolynomial, None]] = field(default_factory=dict)
    smem_factors: dict[IntPolynomial, None] = field(default_factory=dict)
    register_factors: dict[tuple[IntPolynomial, IntPolynomial], None] = field(default_factory=dict)
    rows: dict[str, tuple[IntPolynomial, IntPolynomial]] = field(default_factory=dict)
    sides: dict[Sides, None] = field(default_factory=dict)
    batches: dict[IntPolynomial, None] = field(default_factory=dict)
    results: dict[IntPolynomial, None] = field(default_factory=dict)
    passing: dict[Sides, None] = field(default_factory=dict)
    partial_loads: dict[IntPolynomial, None] = field(default_factory=dict)

    def visit(self, diagram: Diagram, inputs: list[OperandSource]) -> None:
        """Notes the products of a diagram whose inputs have these sources; then those inside it, the last first."""
        source, inside = inputs, list[tuple[Diagram, list[OperandSource]]]()
        for node in inline(diagram).graph.nodes:
            op, box, given = node.box.op, node.box, [source[w] for w in node.inputs]
            if is_view(box):
                source.append(given[0])
                continue
            part = isinstance(op, (Reindex, View)) and (given[0].is_input or given[0].part)
            made = OperandSource(False, tuple(dict.fromkeys(name for s in given for name in s.names)), part=part)
            if isinstance(op, GroupOp):
                inside.append((op.body, given))
                self.results.update(dict.fromkeys(IntPolynomial.elements(ty.axes) for ty in op.body.cod))
            elif isinstance(op, FoldOp):
                before = [replace(g, before=not g.is_input) for g in given]
                inside.append((op.step, [OperandSource(False, ())] * len(box.cod) + before))
                made = OperandSource(False, ())
            elif len(box.dom) == 2 and multiplies(box):
                self._product(box, given)
            source.extend([made] * len(box.cod))
        for part_of, sources in reversed(inside):
            self.visit(part_of, sources)

    def _product(self, box: Box, given: list[OperandSource]) -> None:
        """Notes a contraction of two arrays with these sources, if it is a product."""
        left, right = box.dom.arrays
        sides = _sides(left, right, set(box.cod[0].names))
        if ONE in sides:
            return
        self.sides[sides] = None
        second = 0 if not sides[0].symbols() & self.tiles and sides[1].symbols() & self.tiles else 1
        if not given[1 - second].is_input and not given[1 - second].before:
            self.passing[sides] = None
        for k, factor in enumerate(given):
            (self.direct if factor.is_input else self.indirect).update(dict.fromkeys(factor.names))
            for name in factor.names if factor.is_input else ():
                self.readers.setdefault(name, {})[sides[1 - second]] = None
            elements = IntPolynomial.elements(box.dom.arrays[k].axes)
            if factor.part and not factor.before:
                self.partial_loads[elements] = None
            elif factor.before or (k == second and not factor.is_input):
                self.smem_factors[elements] = None
            elif not factor.is_input:
                self.register_factors[elements, sides[k]] = None
            elif k != second:
                self.rows.update((name, (sides[k], sides[1 - k])) for name in factor.names)
        both = [a for a in left.axes if a.name in right.names and a.name in box.cod[0].names]
        self.batches[IntPolynomial.elements(both)] = None

    def found(self) -> DotProducts:
        """What was noted."""
        return DotProducts(
            frozenset(self.direct),
            frozenset(self.indirect) - frozenset(self.direct),
            MappingProxyType({name: tuple(rows) for name, rows in self.readers.items()}),
            tuple(self.smem_factors),
            tuple(self.register_factors),
            MappingProxyType(self.rows),
            tuple(self.sides),
            tuple(self.batches),
            tuple(self.results),
            frozenset(self.passing),
            tuple(self.partial_loads),
        )


def _sides(left: ArrayType, right: ArrayType, kept: set[str]) -> Sides:
    """Rows, columns and depth of a contraction that keeps some axes."""
    rows = [axis for axis in left.axes if axis.name in kept and axis.name not in right.names]
    columns = [axis for axis in right.axes if axis.name in kept and axis.name not in left.names]
    depth = [axis for axis in union([left, right]) if axis.name not in kept]
    return IntPolynomial.elements(rows), IntPolynomial.elements(columns), IntPolynomial.elements(depth)
