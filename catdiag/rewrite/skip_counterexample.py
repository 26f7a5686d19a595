"""Counterexamples to a user's loop bounds: lists, and their blocks, for which skipping changes the result.

Lists of one to four elements are run block by block, without the blocks that the loop's bounds and condition skip. The
result is compared with that of the source diagram, in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

from catdiag.category.diagram import Diagram
from catdiag.category.ops import FoldOp, const_box, reduce_box
from catdiag.category.substitution import inline
from catdiag.category.types import Axis
from catdiag.rewrite.graph_builder import GraphBuilder
from catdiag.rewrite.stream.user_fold import of_length, use, writer
from catdiag.rewrite.stream.user_fold_counterexample import FoldCounterexample, Trial, read_part, refuted
from catdiag.util.errors import AxisError

_SPLITS = ((1,), (1, 1), (2,), (1, 1, 1), (1, 2), (2, 1), (2, 2), (1, 1, 1, 1), (4,))


def false_skip(
    source: Diagram, skipped: Diagram, axis: str, tries: int, assume: Sequence[str] = ()
) -> FoldCounterexample | None:
    """A list, replayed, for which skipping blocks changes the result; None where none is found in `tries` batches of
    inputs. Raises AxisError for an axis that no array has.

    `skipped` is a diagram with a loop over the axis, outside of groups.
    """
    flat = inline(skipped)
    own = next((a for ty in flat.graph.wire_types() for a in ty.axes if a.name == axis), None)
    if own is None:
        raise AxisError(f"no array of the diagram has axis {axis!r}")
    return refuted(_trials(source, flat, own), own, tries, assume)


def _trials(source: Diagram, flat: Diagram, axis: Axis) -> Iterator[Trial]:
    """The comparisons of the source with the loop, on lists that are cut into blocks as `_SPLITS` says."""
    for split in _SPLITS:
        bounds = [sum(split[:k]) for k in range(len(split) + 1)]
        builder = writer(list(flat.dom))
        env = list(range(len(flat.dom)))
        for node in flat.graph.nodes:
            wires, op = [env[w] for w in node.inputs], node.box.op
            if isinstance(op, FoldOp) and op.axis == axis.name:
                env += _run(builder, op, axis, wires, bounds)
                continue
            first = builder.add(node.box, wires)
            env.extend(range(first, first + len(node.box.cod)))
        outputs = [builder.cast(env[w], ty) for w, ty in zip(flat.graph.outputs, flat.cod, strict=True)]
        blocks = ", ".join(f"[{a}, {b})" for a, b in pairwise(bounds))
        words = f"a list of {bounds[-1]} in blocks {blocks}, without the blocks that the loop skips"
        yield Trial(source, builder.diagram(outputs, source.names), bounds[-1], words, merging="the loop", blocks=split)


def _run(builder: GraphBuilder, op: FoldOp, axis: Axis, wires: Sequence[int], bounds: Sequence[int]) -> list[int]:
    """The final state of a loop on a list that is cut into blocks at `bounds`."""
    length = bounds[-1]
    types = op.unit.cod
    state = [builder.cast(w, ty) for w, ty in zip(use(builder, op.unit, ()), types, strict=True)]
    lo: int | None = None
    hi: int | None = None
    if op.bounds is not None:
        extent = of_length(op.bounds, axis.name, op.block, length)
        lo, hi = use(builder, extent, [read_part(builder, w, axis, 0, length) for w in wires])
    for start, stop in pairwise(bounds):
        block = [read_part(builder, w, axis, start, stop - start) for w in wires]
        kept: list[int] = []
        if lo is not None and hi is not None:
            kept = [builder.map("lt", lo, _number(builder, stop)), builder.map("lt", _number(builder, start), hi)]
        if op.block_test is not None:
            kept += use(builder, of_length(op.block_test, axis.name, op.block, stop - start), block)
        step = use(builder, of_length(op.step, axis.name, op.block, stop - start), [*state, *block])
        for keep in kept:
            some = _somewhere(builder, keep)
            step = [builder.map("where", some, new, old) for new, old in zip(step, state, strict=True)]
        state = [builder.cast(w, ty) for w, ty in zip(step, types, strict=True)]
    return state


def _number(builder: GraphBuilder, value: int) -> int:
    return builder.add(const_box(Fraction(value), "int"), ())


def _somewhere(builder: GraphBuilder, wire: int) -> int:
    """A wire that says that a condition holds at some index."""
    for name in builder.types[wire].names:
        wire = builder.add(reduce_box("any", name, builder.types[wire]), (wire,))
    return wire
