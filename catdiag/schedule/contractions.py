"""The products of a kernel, and what their factors are made of.

A product reads a factor as it was loaded, or something that a turn of its loop makes of loaded blocks, element by
element: scaled, masked, widened from a narrower type. Such a factor passes through registers in every turn: its blocks
are read out of shared memory, widened to the type that is computed in, worked on, and narrowed to the type of products;
as a second factor it is written back to shared memory. The product of the turn waits for it. As every group of the
tiles that the factor lacks does all of that again, it is counted here, and its time told apart in
`catdiag.planner.time_model`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catdiag.category.diagram import Diagram, Graph, inline
from catdiag.category.integer_polynomial import ONE, IntPolynomial
from catdiag.category.ops import Box, Einsum, FoldOp, GroupOp, Reduce, Reindex, View, array_name
from catdiag.category.types import union
from catdiag.schedule.live_ranges import contracts, elementwise, is_view, multiplies

Loop = tuple[str, IntPolynomial]
"""A loop over blocks: the symbol of the block, and the whole size of the axis."""


@dataclass(frozen=True)
class Contraction:
    """A sum of products of two arrays: `rows` × `columns` results of `depth` products, `batch` times, in these loops.

    `sides` tells whether rows and columns carry a grouped axis.
    """

    rows: IntPolynomial
    columns: IntPolynomial
    depth: IntPolynomial
    batch: IntPolynomial
    sides: tuple[bool, bool]
    loops: tuple[Loop, ...]


@dataclass(frozen=True)
class Factor:
    """A factor of a product that each turn of a loop makes, element by element, of blocks that it has loaded.

    `size` are its values, `read` the bytes of the blocks and `widened` those of their values that are narrower than
    what is computed in; `second`: it is the factor without the rows, which matrix units read from shared memory only.
    """

    name: str
    size: IntPolynomial
    read: IntPolynomial
    widened: IntPolynomial
    second: bool
    loops: tuple[Loop, ...]


def products(graph: Graph) -> set[frozenset[str]]:
    """The axes of the results of contractions of several arrays, loops included."""
    found: set[frozenset[str]] = set()
    todo = [graph]
    while todo:
        for node in todo.pop().nodes:
            op = node.box.op
            if isinstance(op, FoldOp):
                todo.append(inline(op.step).graph)
            elif multiplies(node.box):
                found.add(frozenset(node.box.cod[0].names))
    return found


def contraction(box: Box, tiles: set[str], loops: tuple[Loop, ...]) -> Contraction:
    """A box that is one, in loops of a kernel with these tiles."""
    kept = set(box.cod[0].names)
    first, others = set(box.dom[0].names), {n for t in box.dom.arrays[1:] for n in t.names}
    sizes = [ONE, ONE, ONE, ONE]
    for axis in union(list(box.dom)):
        if axis.name not in kept:
            kind = 2
        else:
            kind = 3 if axis.name in first and axis.name in others else 0 if axis.name in first else 1
        sizes[kind] = sizes[kind] * IntPolynomial.of(axis.size)
    rows, columns, depth, batch = sizes
    sides = (bool(rows.symbols() & tiles), bool(columns.symbols() & tiles))
    return Contraction(rows, columns, depth, batch, sides, loops)


def factors(
    graph: Graph, place: int, loaded: Sequence[int], tiles: set[str], loops: tuple[Loop, ...], inner: int
) -> list[Factor]:
    """The factors of the product at a place of a turn's graph that are made of loaded blocks.

    `loaded` is the width in bytes of each input of the graph that is such a block, 0 of others; `inner` that of what is
    computed in. What was summed on the way is made by other threads, and is waited for otherwise.
    """
    box = graph.nodes[place].box
    if len(box.dom) != 2:
        return []
    of = contraction(box, tiles, loops)
    if ONE in (of.rows, of.columns, of.depth):  # matrix units take no vectors
        return []
    makers: list[int] = [-1] * len(graph.dom)
    for k, node in enumerate(graph.nodes[:place]):
        makers.extend([k] * len(node.box.cod))
    last = 0 if not of.sides[0] and of.sides[1] else 1  # the second factor is the one without grouped rows
    found: list[Factor] = []
    for k, w in enumerate(graph.nodes[place].inputs):
        seen: set[int] = set()
        blocks: list[int] = []
        todo, worked = [w], False
        while todo:
            wire = todo.pop()
            if wire in seen:
                continue
            seen.add(wire)
            if makers[wire] < 0:
                blocks += [wire] if loaded[wire] else []
                continue
            made = graph.nodes[makers[wire]]
            summed = isinstance(made.box.op, Einsum) and contracts(made.box)
            if summed or isinstance(made.box.op, (FoldOp, GroupOp, Reduce)):
                continue
            worked = worked or elementwise(made.box)
            todo.extend(made.inputs)
        if not blocks or not worked:
            continue
        types = graph.dom.arrays
        read = sum((IntPolynomial.elements(types[b].axes).scaled(loaded[b]) for b in blocks), IntPolynomial())
        narrow = [IntPolynomial.elements(types[b].axes) for b in blocks if loaded[b] < inner]
        amount, widened = IntPolynomial.elements(box.dom[k].axes), sum(narrow, IntPolynomial())
        name = array_name(graph.nodes[makers[w]].box)
        found.append(Factor(name, amount, read, widened, k == last, loops))
    return found


def deciding(diagram: Diagram) -> tuple[str, ...]:
    """The inputs whose types say in which a diagram's products are: those that products read as they are, or where all
    factors are computed, those with the most axes.

    >>> import catdiag as cd
    >>> deciding(cd.algorithm("q d, x d, q -> q x")(lambda A, B, s: cd.einsum("q d, x d -> q x", A * s, cd.exp(B))))
    ('A', 'B')
    """
    axes = {name: len(ty.axes) for name, ty in zip(diagram.input_names, diagram.dom, strict=True)
            if ty.element in ("real", "extended")}  # fmt: skip
    return reads_operand(diagram) or tuple(name for name, count in axes.items() if count == max(axes.values()))


def reads_operand(diagram: Diagram) -> tuple[str, ...]:
    """The inputs of a diagram that products read as they are: whole, or a part of them.

    >>> import catdiag as cd
    >>> reads_operand(cd.library.get("attention").stream("x").group("q").diagram)
    ('Q', 'K', 'V')
    """
    found: dict[str, None] = {}
    todo = [(diagram, list(diagram.input_names))]
    while todo:
        whole, names = todo.pop()
        for node in inline(whole).graph.nodes:
            op, given = node.box.op, [names[w] for w in node.inputs]
            if isinstance(op, GroupOp):
                todo.append((op.body, given))
            elif isinstance(op, FoldOp):
                todo.append((op.step, [""] * len(node.box.cod) + given))
            elif multiplies(node.box):
                found.update(dict.fromkeys(filter(None, given)))
            kept = is_view(node.box) or isinstance(op, (Reindex, View))
            names += [given[0] if kept and len(set(given)) == 1 else ""] * len(node.box.cod)
    return tuple(found)
