"""The matrix products (contractions) of a kernel, and the factors that it computes on the way.

A product reads a factor as it was loaded, or a factor that a loop iteration computes elementwise from loaded blocks:
scaled, masked, widened from a narrower type. A computed factor passes through registers in every iteration. Its blocks
are read from shared memory, widened to the type of the computation, worked on, and narrowed to the type of the
products. If it is the second factor, it is written back to shared memory. The product waits for all of that.

Every group whose tiles the factor does not depend on repeats this work. So it is counted here, and
`catdiag.planner.time_model` gives it a time of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from catdiag.category.diagram import Diagram, Graph
from catdiag.category.integer_polynomial import ONE, IntPolynomial
from catdiag.category.op_facts import elementwise, reduced_axes
from catdiag.category.ops import INDEX_MAPS, Box, FoldOp, GroupOp, array_name
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType, Axis, union
from catdiag.schedule.live_ranges import is_view, multiplies, view_roots
from catdiag.schedule.operand_types import emitted_type

Loop = tuple[str, IntPolynomial]
"""A loop over blocks: the symbol of the block, and the size of the whole axis."""


@dataclass(frozen=True)
class Contraction:
    """A matrix product of two arrays: `rows` × `columns` results, each a sum of `depth` products, `batch` times, in
    `loops`.

    `sides` says whether the rows and the columns have a grouped axis. `dtype` is the type in which the product is made,
    and `read` the types of its factors, "" for one that is computed (`catdiag.schedule.operand_types`); they are empty
    where elements are counted instead of bytes. `added`: a loop adds it to a state, and its iteration reads it nowhere
    else.
    """

    rows: IntPolynomial
    columns: IntPolynomial
    depth: IntPolynomial
    batch: IntPolynomial
    sides: tuple[bool, bool]
    loops: tuple[Loop, ...]
    dtype: str = ""
    read: tuple[str, ...] = ()
    added: bool = False

    @property
    def emitted_type(self) -> str:
        """The type in which kernels that are written make it (`catdiag.schedule.operand_types.emitted_type`)."""
        return emitted_type(self.dtype, self.read)

    @property
    def shape(self) -> tuple[IntPolynomial, IntPolynomial, IntPolynomial]:
        """Rows, columns and depth."""
        return self.rows, self.columns, self.depth

    @property
    def second(self) -> int:
        """Which factor matrix units take as the second one: that without the grouped rows, the right one if both or
        none have grouped axes."""
        return 0 if self.sides == (False, True) else 1


@dataclass(frozen=True)
class Factor:
    """A factor of a product that each iteration of a loop computes elementwise from the blocks that it has loaded.

    `size` is its number of elements, and `blocks` the inputs of the iteration that it is made of. `second` says that it
    is the factor without the rows, which matrix units read from shared memory only. `dtype` is the type of the product,
    in which the factor is multiplied; `depths` are the sizes of the axes that the product sums over.
    """

    name: str
    size: IntPolynomial
    second: bool
    loops: tuple[Loop, ...]
    dtype: str = ""
    blocks: tuple[int, ...] = ()
    depths: tuple[IntPolynomial, ...] = ()


@dataclass(frozen=True)
class RegisterRead:
    """Blocks that each iteration of a loop with matrix products reads into registers, each once: for a factor that it
    computes, or for something else (the sum of a row that a product multiplies too).

    `read` is their bytes, `widened` the elements of those that are narrower than the type of the computation.
    """

    read: IntPolynomial
    widened: IntPolynomial
    loops: tuple[Loop, ...]


def products(graph: Graph) -> set[frozenset[str]]:
    """The axes of the results of all contractions of several arrays, in loops too."""
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


def adds_to_state(graph: Graph, place: int) -> bool:
    """Whether nothing reads the result of a node of a loop's step but a sum that is the next value of a state.

    >>> import catdiag as cd
    >>> from catdiag.category.substitution import inline
    >>> from catdiag.category.traversal import all_boxes
    >>> streamed = cd.library.get("attention").stream("x").diagram
    >>> graph = inline(next(box.op.step for box in all_boxes(streamed) if isinstance(box.op, FoldOp))).graph
    >>> [adds_to_state(graph, place) for place, node in enumerate(graph.nodes) if multiplies(node.box)]
    [False, True]
    """
    root, first = view_roots(graph), graph.first_wires()
    readers: dict[int, list[int]] = {}
    for reader, node in enumerate(graph.nodes):
        for wire in () if is_view(node.box) else node.inputs:
            readers.setdefault(root[wire], []).append(reader)
    ends = {root[wire] for wire in graph.outputs}
    read = readers.get(root[first[place]], [])
    if len(read) != 1 or root[first[place]] in ends or getattr(graph.nodes[read[0]].box.op, "fn", "") != "add":
        return False
    total = root[first[read[0]]]
    return total in ends and not readers.get(total)


def batch_axes(box: Box) -> frozenset[str]:
    """The axes that all inputs of a box and its result have: along them, products are a batch.

    >>> from catdiag.category.ops import einsum_box
    >>> from catdiag.category.types import ArrayType, Axis
    >>> batch_axes(einsum_box([ArrayType((Axis(a), Axis("k"), Axis("c"))) for a in "ij"], ["i", "j", "c"]))
    frozenset({'c'})
    """
    return frozenset(box.cod[0].names).intersection(*(ty.names for ty in box.dom))


def matrix_sides(box: Box) -> tuple[tuple[Axis, ...], ...]:
    """The axes of each factor of a product of two arrays that the result has and the other factor has not: rows and
    columns, if there are both; none for what is no product of matrices.

    >>> from catdiag.category.ops import einsum_box
    >>> from catdiag.category.types import ArrayType, Axis
    >>> A, B = (ArrayType(tuple(map(Axis, names))) for names in ("bik", "bjk"))
    >>> [[axis.name for axis in side] for side in matrix_sides(einsum_box([A, B], ["b", "i", "j"]))]
    [['i'], ['j']]
    >>> matrix_sides(einsum_box([A, A], ["b", "i"]))
    ()
    """
    if not multiplies(box) or len(box.dom) != 2:
        return ()
    result, (one, two) = box.cod[0].names, box.dom
    sides = (
        tuple(axis for axis in own.axes if axis.name in result and axis.name not in other.names)
        for own, other in ((one, two), (two, one))
    )
    found = tuple(sides)
    return found if all(found) else ()


def shares_side(box: Box, factor: ArrayType, name: str) -> bool:
    """Whether an axis of a factor of a product is one of its batch, or one of several of a side of the matrix, so that
    a tile may have a single entry along it.

    >>> from catdiag.category.ops import einsum_box
    >>> from catdiag.category.types import ArrayType, Axis
    >>> A, B = (ArrayType(tuple(map(Axis, names))) for names in ("sic", "sj"))
    >>> [shares_side(einsum_box([A, B], ["i", "c", "j"]), ty, ty.names[-1]) for ty in (A, B)]
    [True, False]
    """
    batch, result = batch_axes(box), box.cod[0].names
    return name in batch or (
        name in factor.names
        and any(
            other != name and other not in batch and (other in result) == (name in result) for other in factor.names
        )
    )


def contraction(box: Box, tiles: AbstractSet[str], loops: tuple[Loop, ...]) -> Contraction:
    """A contraction box as a matrix product, in `loops` of a kernel with these tiles."""
    result_axes = set(box.cod[0].names)
    first, others = set(box.dom[0].names), {n for t in box.dom.arrays[1:] for n in t.names}
    sizes = [ONE, ONE, ONE, ONE]
    for axis in union(list(box.dom)):
        if axis.name not in result_axes:
            kind = 2
        else:
            kind = 3 if axis.name in first and axis.name in others else 0 if axis.name in first else 1
        sizes[kind] = sizes[kind] * IntPolynomial.of(axis.size)
    rows, columns, depth, batch = sizes
    sides = (bool(rows.symbols() & tiles), bool(columns.symbols() & tiles))
    return Contraction(rows, columns, depth, batch, sides, loops)


def factors(
    graph: Graph,
    place: int,
    loaded: Sequence[int],
    tiles: set[str],
    loops: tuple[Loop, ...],
    dtype: str = "",
) -> list[Factor]:
    """The factors of the product at index `place` of a loop step's graph that are computed from loaded blocks.

    `loaded` gives the width in bytes of each input of the graph that is a loaded block, 0 for other inputs; `dtype` is
    the type of the product. A factor that contains a sum is not among them: other threads compute it, and waiting for
    it is counted in `LoweredKernel.chains`.
    """
    box = graph.nodes[place].box
    product = matrix_product(box, tiles, loops)
    if product is None:
        return []
    depths = tuple(IntPolynomial.of(axis.size) for axis in union(list(box.dom)) if axis.name in reduced_axes(box))
    makers = graph.makers()
    found: list[Factor] = []
    for k, w in enumerate(graph.nodes[place].inputs):
        seen: set[int] = set()
        blocks: list[int] = []
        todo, computed = [w], False
        while todo:
            wire = todo.pop()
            if wire in seen:
                continue
            seen.add(wire)
            if makers[wire] < 0:
                blocks += [wire] if loaded[wire] else []
                continue
            made = graph.nodes[makers[wire]]
            if reduced_axes(made.box) or isinstance(made.box.op, (FoldOp, GroupOp)):
                continue
            computed = computed or elementwise(made.box)
            todo.extend(made.inputs)
        if not blocks or not computed:
            continue
        name, elements = array_name(graph.nodes[makers[w]].box), IntPolynomial.elements(box.dom[k].axes)
        found.append(Factor(name, elements, k == product.second, loops, dtype, tuple(blocks), depths))
    return found


def register_reads(
    graph: Graph, loaded: Sequence[int], made: Sequence[Factor], loops: tuple[Loop, ...], inner: int
) -> list[RegisterRead]:
    """What a loop step with matrix products reads of its blocks into registers: one record, or none if products read
    all blocks as they are.

    `loaded` is as for `factors`, `made` are the factors of its products. `inner` is the width in bytes of the type of
    the computation.

    >>> import catdiag as cd
    >>> sums = cd.algorithm("t d, d o -> t o")(lambda X, W: cd.einsum("t d, d o -> t o", X, W) + cd.sum(X, "d"))
    >>> from catdiag.schedule.kernel_analysis import measure
    >>> kernel = measure(sums.stream("d").group("t o").diagram, "bf16", registers=True).kernels[0]
    >>> [(str(one.read), str(one.widened)) for one in kernel.register_reads]
    [('2*g_t*s_d', 'g_t*s_d')]
    """
    root = view_roots(graph)
    read = {b for factor in made for b in factor.blocks}
    for node in graph.nodes:
        inner_loop = isinstance(node.box.op, (FoldOp, GroupOp))
        if not (inner_loop or is_view(node.box) or (multiplies(node.box) and matrix_product(node.box))):
            read |= {root[w] for w in node.inputs if root[w] < len(loaded) and loaded[root[w]]}
    if not read:
        return []
    sizes = {b: IntPolynomial.elements(graph.dom.arrays[b].axes) for b in sorted(read)}
    in_bytes = sum((size.scaled(loaded[b]) for b, size in sizes.items()), IntPolynomial())
    return [RegisterRead(in_bytes, sum((n for b, n in sizes.items() if loaded[b] < inner), IntPolynomial()), loops)]


def matrix_product(box: Box, tiles: AbstractSet[str] = frozenset(), loops: tuple[Loop, ...] = ()) -> Contraction | None:
    """A contraction of two arrays that has rows, columns and a depth; None for others: matrix units take no vectors."""
    product = contraction(box, tiles, loops)
    return product if len(box.dom) == 2 and ONE not in product.shape else None


def deciding(diagram: Diagram) -> tuple[str, ...]:
    """The inputs whose types decide the type of a diagram's products: those that products read directly, or, where all
    factors are computed, those with the most axes.

    >>> import catdiag as cd
    >>> deciding(cd.algorithm("q d, x d, q -> q x")(lambda A, B, s: cd.einsum("q d, x d -> q x", A * s, cd.exp(B))))
    ('A', 'B')
    """
    axes = {name: len(ty.axes) for name, ty in zip(diagram.input_names, diagram.dom, strict=True)
            if ty.element in ("real", "extended")}  # fmt: skip
    return reads_operand(diagram) or tuple(name for name, count in axes.items() if count == max(axes.values()))


def reads_operand(diagram: Diagram) -> tuple[str, ...]:
    """The inputs of a diagram that products read directly, in full or in part.

    >>> import catdiag as cd
    >>> reads_operand(cd.library.get("attention").stream("x").group("q").diagram)
    ('Q', 'K', 'V')
    """
    found: dict[str, None] = {}
    todo = [(diagram, list(diagram.input_names))]
    while todo:
        body, names = todo.pop()
        for node in inline(body).graph.nodes:
            op, given = node.box.op, [names[w] for w in node.inputs]
            if isinstance(op, GroupOp):
                todo.append((op.body, given))
            elif isinstance(op, FoldOp):
                todo.append((op.step, [""] * op.state_count + given))
            elif multiplies(node.box):
                found.update(dict.fromkeys(filter(None, given)))
            same_elements = is_view(node.box) or isinstance(op, INDEX_MAPS)
            names += [given[0] if same_elements and len(set(given)) == 1 else ""] * len(node.box.cod)
    return tuple(found)
