"""Streaming: a diagram with reductions over an axis, as a loop over blocks of it with a small state.

`candidates` builds one `FoldOp` box from the components that `cascade` finds. For a component `A = ⊕_x b` with scale μ,
a function of earlier components, the loop body is

    A ← exp(μ(old) − μ(new))·A ⊕ (⊕ over the block of b, with the new statistics)

This is the streaming theorem for the cascade (derived here). The equation of each candidate is proved by the kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import product

from catdiag.category.diagram import Diagram, Node, with_boxes
from catdiag.category.op_facts import cast_dtype
from catdiag.category.ops import Box, FoldOp, GroupOp
from catdiag.category.substitution import inline
from catdiag.category.types import Axis
from catdiag.rewrite.canonicalize import (
    reads_before_maps,
    reduce_last,
    with_conjunctive_masks,
    with_masked_exponents,
)
from catdiag.rewrite.graph_builder import NotInScope
from catdiag.rewrite.hash_consed_graph import HashConsedGraph
from catdiag.rewrite.renames_first import renames_first
from catdiag.rewrite.stream.cascade import Cascade, reduces
from catdiag.rewrite.stream.exponential_repair import MODES, MODES_WITH_BOTTOM
from catdiag.rewrite.stream.loop_builder import LoopBuilder, Streamed
from catdiag.util.errors import AxisError, NotStreamable


def find(diagram: Diagram, axis: str) -> Streamed:
    """The preferred streamed form of a diagram along an axis; nothing is proved here.

    >>> from catdiag.category.ops import reduce_box
    >>> from catdiag.category.diagram import of_box
    >>> from catdiag.category.types import ArrayType
    >>> find(of_box(reduce_box("sum", "x", ArrayType((Axis("x"),)))), "x").fold.components
    ('sum1',)
    """
    return next(candidates(diagram, axis))


def candidates(diagram: Diagram, axis: str, taken: Collection[str] = (), plain: bool = False) -> Iterator[Streamed]:
    """The streamed forms of a diagram along an axis, in order of preference.

    They differ in how exponentials are stabilized. Whether a repair is defined on every block is for the prover to
    decide. No component gets a name in `taken`. With `plain`, there are no selections, and nothing is moved out of
    reductions. Raises as `find` does.
    """
    flat = inline(diagram)
    conjunctive = with_conjunctive_masks(flat)
    yield from _of_rows(flat, axis, taken, plain)
    if conjunctive is not flat:
        # What a masked element owes is known where a conjunction holds, on each block too.
        yield from _of_rows(conjunctive, axis, taken, plain)


def _of_rows(flat: Diagram, axis: str, taken: Collection[str], plain: bool) -> Iterator[Streamed]:
    """The streamed forms of a flat diagram with its masks as they are; see `candidates`."""
    flat = renames_first(reads_before_maps(flat, axis), [axis])
    try:
        yield from _candidates(reduce_last(flat, axis), axis, taken, plain)
    except NotStreamable:
        # Here the state of each row cannot be distinguished from a sum over rows, so that rows are summed last.
        yield from _candidates(flat, axis, taken, plain)


def _candidates(flat: Diagram, axis: str, taken: Collection[str], plain: bool) -> Iterator[Streamed]:
    """The streamed forms of a flat diagram, equal ones only once; see `candidates`."""
    node = _group_around(flat, axis)
    if node is not None:
        for inner in candidates(_body(node), axis, taken, plain):
            yield _in_group(flat, node, inner)
        return
    place = _fold_around(flat, axis)
    if place is not None:
        yield from _in_fold(flat, place, axis, taken, plain)
        return
    streamed = axis_of(flat, axis)
    seen: list[tuple[object, ...]] = []
    refused: NotStreamable | None = None
    casts = (True, False) if any(cast_dtype(box.op) for box in flat.boxes) else (False,)
    retry = False
    for cast, scaled in product(casts, (True, False)):
        if not scaled and not retry:
            continue
        try:
            cascades = dict(_cascades(flat, streamed, plain, cast, scaled))
        except NotStreamable as error:
            refused, retry = error, True
            continue
        retry = any(cascade.has_factors() for cascade in cascades.values())
        inside = with_masked_exponents(flat) if any(c.greatest for c in cascades.values()) else None
        if inside is not None:
            # The maximum of the unmasked elements is subtracted: masked ones may be arbitrary, or undefined.
            with suppress(NotStreamable):
                yield from (made for made in _candidates(inside, axis, taken, plain) if made.mode != "none")
        for mode in MODES_WITH_BOTTOM if cascades[MODES[0]].may_be_bottom() else MODES:
            if mode not in cascades:
                continue
            cascade = cascades[mode]
            try:
                made = LoopBuilder(cascade, flat, taken).streamed()
            except NotInScope as error:
                name = flat.input_names[error.wire] if error.wire < len(flat.input_names) else "an input"
                refused = refused or NotStreamable(
                    f"cannot stream axis {axis!r}: the factor that rescales a statistic depends on {name}, "
                    "which is not available where the states of neighboring lists are merged"
                )
                continue
            key = tuple(body.graph for body in (made.diagram, made.fold.step, made.fold.merge, made.fold.state))
            if not any(key == other for other in seen):
                seen.append(key)
                yield made
    if not seen and refused is not None:
        raise refused


def _cascades(diagram: Diagram, axis: Axis, plain: bool, casts: bool, scaled: bool) -> Iterator[tuple[str, Cascade]]:
    """The cascade in each mode that has one, in the first only where modes are all alike, as no exponential has a
    scale. Raises NotStreamable where the first mode has none.

    Without `casts`, values that depend on statistics are not cast: a cast means the identity, and may hide a form.
    Without `scaled`, divisors of elements are moved out of the loop.
    """
    for mode in MODES:
        cascade = Cascade(HashConsedGraph(diagram.dom), axis, mode)
        cascade.plain, cascade.casts, cascade.scaled = plain, casts, scaled
        try:
            cascade.analyze(diagram)
        except NotStreamable:
            if mode == MODES[0]:
                raise
            continue
        yield mode, cascade
        if not cascade.scales_exponentials:
            return


def divisions(diagram: Diagram, axis: str) -> tuple[Box, ...]:
    """The boxes of a diagram that divide by maxima over an axis.

    >>> import catdiag as cd
    >>> f = cd.algorithm("x ->")(lambda a: cd.sum(a / cd.max(cd.abs(a), "x"), "x"))
    >>> [box.name for box in divisions(f, "x")]
    ['div']
    """
    flat = inline(diagram)
    cascade = Cascade(HashConsedGraph(flat.dom), axis_of(flat, axis))
    cascade.read(flat, patient=True)
    return tuple(dict.fromkeys(cascade.divided.values()))


def axis_of(diagram: Diagram, name: str) -> Axis:
    """The axis of that name in a diagram; raises AxisError where no array has it."""
    axes: dict[str, Axis] = {}
    for ty in diagram.graph.wire_types():
        for axis in ty.axes:
            axes.setdefault(axis.name, axis)
    if not isinstance(name, str) or name not in axes:
        raise AxisError(f"no array of the diagram has axis {name!r}: expected one of {', '.join(axes) or 'none'}")
    return axes[name]


# -- streams inside a group -----------------------------------------------------------------------


def _group_around(diagram: Diagram, axis: str) -> Node | None:
    """The group box of a diagram that has the whole axis inside; raises NotStreamable where the axis is tiled."""
    for node in diagram.graph.nodes:
        op = node.box.op
        if isinstance(op, GroupOp):
            if axis in dict(op.tiles):
                raise NotStreamable(f"cannot stream axis {axis!r}: the diagram runs in groups of it", node.box.line)
            if any(t.axis(axis) is not None for t in op.body.graph.wire_types()):
                return node
    return None


def _body(node: Node) -> Diagram:
    assert isinstance(node.box.op, GroupOp)
    return node.box.op.body


def _in_group(diagram: Diagram, node: Node, inner: Streamed) -> Streamed:
    """The streamed form of a diagram whose group body was streamed."""
    op = node.box.op
    assert isinstance(op, GroupOp)
    place = next(k for k, other in enumerate(diagram.graph.nodes) if other is node)
    box = replace(node.box, op=replace(op, body=inner.diagram))
    return replace(inner, diagram=with_boxes(diagram, {place: box}))


# -- streams inside a loop ------------------------------------------------------------------------


def _fold_around(diagram: Diagram, axis: str) -> int | None:
    """The place of a loop over another axis whose iterations reduce over this one."""
    for place, node in enumerate(diagram.graph.nodes):
        op = node.box.op
        if isinstance(op, FoldOp) and op.axis != axis and any(reduces(box, axis) for box in inline(op.step).boxes):
            return place
    return None


def _in_fold(diagram: Diagram, place: int, axis: str, taken: Collection[str], plain: bool) -> Iterator[Streamed]:
    """A loop nested in each iteration of a loop: reductions of an iteration become loops over blocks."""
    graph = diagram.graph
    node = graph.nodes[place]
    op = node.box.op
    assert isinstance(op, FoldOp)
    for other in graph.nodes:
        if other is not node and (reduces(other.box, axis) or isinstance(other.box.op, FoldOp)):
            why = "it is reduced over there too" if reduces(other.box, axis) else "that is a loop as well"
            raise NotStreamable(
                f"cannot stream axis {axis!r} inside the loop over {op.axis!r}: beside it is {other.box.name}, and "
                f"{why}; stream {axis!r} first, or make of it a diagram of its own",
                other.box.line,
            )
    for inner in candidates(op.step, axis, (*taken, *op.components), plain):
        box = replace(node.box, op=replace(op, step=inner.diagram))
        yield replace(inner, diagram=with_boxes(diagram, {place: box}))


# -- bodies ---------------------------------------------------------------------------------------
