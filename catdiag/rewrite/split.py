"""Split loops (split-K, parallel reduction): parts of the axis run in parallel, each with a partial state, which are
merged.
"""

from __future__ import annotations

from dataclasses import replace

from catdiag.category.diagram import Diagram, with_boxes
from catdiag.category.ops import FoldOp, GroupOp
from catdiag.category.substitution import inline
from catdiag.category.traversal import all_diagrams
from catdiag.rewrite.local_sizes import local_size, sizes_in
from catdiag.util.errors import AxisError, NotStreamable, SignatureError


def runs_in_kernels(diagram: Diagram) -> bool:
    """Whether a diagram has loops or groups, those inside named boxes included.

    >>> import catdiag as cd
    >>> runs_in_kernels(cd.id(cd.category.Ty()).diagram)
    False
    """
    return any(isinstance(box.op, (FoldOp, GroupOp)) for box in inline(diagram).boxes)


def is_streamed(diagram: Diagram, axis: str) -> bool:
    """Whether a loop of the diagram, inside its groups too, runs over the axis.

    >>> import catdiag as cd
    >>> is_streamed(cd.id(cd.category.Ty()).diagram, "x")
    False
    """
    items = all_diagrams(diagram, lambda box: isinstance(box.op, GroupOp))
    return any(isinstance(box.op, FoldOp) and box.op.axis == axis for item in items for box in item.boxes)


def in_parts(diagram: Diagram, axis: str, parts: str | None = None) -> Diagram:
    """The diagram with its loops over an axis split into `parts` parallel parts, a size symbol (default `p_` and the
    axis).

    The meaning does not change: list induction covers every tree of merges. Raises SignatureError for a symbol that is
    no identifier, AxisError for a symbol that is a size of the diagram already, NotStreamable where no loop runs over
    the axis or one is split already.
    """
    taken = sizes_in(diagram)
    symbol = local_size("p", axis, taken) if parts is None else parts
    if not isinstance(symbol, str) or not symbol.isidentifier():
        raise SignatureError(f"parts is {symbol!r}: expected a name for how many there are, such as 'p_{axis}'")
    if symbol in taken:
        raise AxisError(f"parts is {symbol!r}, which is a size of the diagram already: expected another name")
    if not is_streamed(diagram, axis):
        raise NotStreamable(f"no loop runs over axis {axis!r}: stream it before it is split")

    def made(item: Diagram) -> Diagram:
        new = {}
        for place, box in enumerate(item.boxes):
            op = box.op
            if isinstance(op, FoldOp) and op.axis == axis:
                if op.parts is not None:
                    raise NotStreamable(f"the loop over {axis!r} has {op.parts} parts already", box.line)
                if op.emitted:
                    raise NotStreamable(f"the loop over {axis!r} makes blocks of results, and is not split", box.line)
                new[place] = replace(box, op=replace(op, parts=symbol))
            elif isinstance(op, GroupOp):
                new[place] = replace(box, op=replace(op, body=made(op.body)))  # groups hold no groups
        return with_boxes(item, new)

    return made(diagram)
