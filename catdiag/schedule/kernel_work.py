"""The work of a kernel, read off its statements: scalar operations, matrix products and their factors, and waits."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace

from catdiag.category.graph import Node
from catdiag.category.index_maps import View
from catdiag.category.integer_polynomial import ONE, ZERO, IntPolynomial
from catdiag.category.op_facts import contracts, scalar_function
from catdiag.category.ops import Einsum, FoldOp, GroupOp, Map, Op, Reduce, op_fact
from catdiag.category.types import Axis, Size, union
from catdiag.schedule.contractions import (
    Factor,
    Loop,
    adds_to_state,
    batch_axes,
    contraction,
    factors,
    matrix_sides,
    register_reads,
    shares_side,
)
from catdiag.schedule.live_ranges import chain, is_view, multiplies, pointwise
from catdiag.schedule.lowered_kernel import GatheredLoad, LoweredKernel
from catdiag.schedule.operand_types import factor_types, operand_type
from catdiag.schedule.pipelines import instructions, pipeline
from catdiag.schedule.statements import Body, Buffer, For, Let


def add_work(kernel: LoweredKernel, body: Body, inner: int, loops: tuple[Loop, ...] = ()) -> None:
    """Adds to a kernel's record the work of a body that is run in `loops`. `inner` is the width in bytes of the type of
    the computation."""
    graph, found = body.graph, body.found
    states = sum(b is not None and b.role == "accumulator" for b in body.inputs)
    kernel.chains[loops] = kernel.chains.get(loops, 0) + chain(graph, found, states)
    blocks = [b.width if b is not None and b.role == "streamed" else 0 for b in body.inputs]
    made: list[Factor] = []
    products = len(kernel.contractions)
    for statement in body.statements:
        if isinstance(statement, For) and statement.live is not None:
            add_work(kernel, statement.live.body, inner, (*loops, statement.live.loop))
        elif isinstance(statement, Let) and statement.place >= 0:
            place, box = statement.place, graph.nodes[statement.place].box
            read, dtype = product_types(body, place, kernel.computed_type)
            if loops and multiplies(box):
                made += factors(graph, place, blocks, set(kernel.tiles), loops, dtype)
            for unit, amount in operations(body, place):
                kernel.work[unit, loops] = kernel.work.get((unit, loops), ZERO) + amount
                if unit == "tensor":
                    of = contraction(box, set(kernel.tiles), loops)
                    of = replace(of, dtype=dtype, read=read, added=bool(loops) and adds_to_state(graph, place))
                    vector = ONE in (of.rows, of.columns, of.depth)
                    (kernel.by_vectors if vector else kernel.contractions).append(of)
    kernel.factors += made
    kernel.gathered_loads += itertools.chain.from_iterable(gathered_loads(body, kernel.tiles, loops).values())
    if loops and any(of.loops == loops for of in kernel.contractions[products:]):
        kernel.register_reads += register_reads(graph, blocks, made, loops, inner)


def gathered_loads(
    body: Body, tiles: Container[str] = (), loops: tuple[Loop, ...] = ()
) -> dict[int, list[GatheredLoad]]:
    """What the boxes of a body, by their places, load of windows of arrays that it reads in place, of factors of
    products whose rows are short, and of arrays whose last axis is one of a batch of products, in `loops` of a kernel
    with these tiles. What does not change in inner loops is loaded before these."""
    graph, found = body.graph, dict[int, list[GatheredLoad]]()
    types, source = graph.wire_types(), list(range(len(graph.dom)))
    moved = [frozenset[str]()] * len(graph.dom)  # the axes along which a wire is read at other positions
    whole = dict(loops)
    batch = {name for node in graph.nodes if matrix_sides(node.box) for name in batch_axes(node.box)}
    for place, node in enumerate(graph.nodes):
        maps = is_view(node.box) or isinstance(node.box.op, View)
        source.extend(source[node.inputs[0]] if maps else len(source) for _ in node.box.cod)
        at = node.box.op.reads[0].at if isinstance(node.box.op, View) else ()
        rest = moved[node.inputs[0]] if maps else frozenset[str]()
        moved.extend(rest | {name for name, place in at if place != ("i", name)} for _ in node.box.cod)
        if maps or isinstance(node.box.op, (FoldOp, GroupOp)):
            continue
        for wire in node.inputs:
            array = body.inputs[source[wire]] if source[wire] < len(body.inputs) else None
            own = () if array is None else array.axes or types[source[wire]].axes
            if array is None or not own:
                continue
            last = IntPolynomial.of(own[-1].size)
            short = own[-1].name in batch or (
                multiplies(node.box)
                and (
                    not whole.get(str(own[-1].size), last).symbols() or shares_side(node.box, types[wire], own[-1].name)
                )
            )
            if len(own) < len(types[wire].axes) or short:
                load = _gathered_load(array, own, types[wire].axes, tiles)
                load = replace(load, shifted=load.shifted or own[-1].name in moved[wire])
                around = loops
                while around and around[-1][0] not in load.entries.symbols():
                    around = around[:-1]
                found.setdefault(place, []).append(replace(load, loops=around))
    return found


def _gathered_load(array: Buffer, own: Sequence[Axis], axes: Sequence[Axis], tiles: Container[str]) -> GatheredLoad:
    """A load of entries with some axes of an array with its own. A tile is filled up to a power of two along an axis of
    a fixed length."""
    names, last = {axis.name for axis in own}, own[-1].name
    sizes = {axis: _filled(axis.size) for axis in axes}
    further = {axis: n for axis, n in sizes.items() if axis.name not in names}
    places = math.prod((n for axis, n in further.items() if axis.size in tiles), start=ONE)
    taps = math.prod((n for axis, n in further.items() if axis.size not in tiles), start=ONE)
    row = next((n for axis, n in sizes.items() if axis.name == last), None)
    shifted = row is None or any(side.axis == last for side in array.region)
    entries = math.prod(sizes.values(), start=ONE)
    return GatheredLoad(array.name, entries, places, taps, row or ONE, shifted, array.width)


def _filled(size: Size) -> IntPolynomial:
    return IntPolynomial.of(1 << (size - 1).bit_length() if isinstance(size, int) else size)


def product_types(body: Body, place: int, computed: str) -> tuple[tuple[str, ...], str]:
    """The types of the factors of a product of a body ("" where computed), and that in which it is made; empty for what
    is no product of two arrays, and where elements are counted."""
    if not computed or not multiplies(body.graph.nodes[place].box):
        return (), ""
    loaded = ["" if b is None or b.role == "accumulator" else b.dtype for b in body.inputs]
    read = factor_types(body.graph, place, loaded)
    return read, functools.reduce(lambda one, other: operand_type(one, other, computed), read)


def operations(body: Body, place: int) -> list[tuple[str, IntPolynomial]]:
    """The scalar operations of a box of a body, by pipeline; none for views, and for what is computed elsewhere.

    What is reduced in place counts as part of the reduction. A division by what is rematerialized takes no reciprocal.
    """
    node, first = body.graph.nodes[place], body.graph.first_wires()[place]
    box, found = node.box, body.found
    free = place not in found.in_place and all(body.free[first + k] for k in range(len(box.cod)))
    if is_view(box) or place in found.reduced or (free and not (pointwise(box) and box.cod[0].axes)):
        return []
    row = op_fact(OPERATIONS, box.op)
    return [] if row is None else row(body, node, IntPolynomial.elements(union((*box.dom, *box.cod))))


def _of_map(body: Body, node: Node, entries: IntPolynomial) -> list[tuple[str, IntPolynomial]]:
    fn, found = scalar_function(node.box.op), list[tuple[str, IntPolynomial]]()
    if fn == "div" and not body.free[node.inputs[1]]:
        found.append(("exp", IntPolynomial.elements(node.box.dom[1].axes)))  # reciprocals
    return [*found, (pipeline(fn), entries.scaled(instructions(fn)))]


def _of_einsum(body: Body, node: Node, entries: IntPolynomial) -> list[tuple[str, IntPolynomial]]:
    if multiplies(node.box):
        return [("tensor", entries.scaled(len(node.box.dom)))]
    # Elementwise products, and a sum of them if an axis is summed.
    return [("alu", entries.scaled(len(node.box.dom) - 1 + contracts(node.box)))]


OPERATIONS: Mapping[type[Op], Callable[[Body, Node, IntPolynomial], list[tuple[str, IntPolynomial]]]] = {
    Map: _of_map,
    Reduce: lambda body, node, entries: [("alu", entries)],
    Einsum: _of_einsum,
}
"""The scalar operations of a box of a body, whose inputs and result have that many entries together, by pipeline."""
