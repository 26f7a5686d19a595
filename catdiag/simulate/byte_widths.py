"""The bytes per value of each array, for the counting machine.

The rules are those that `catdiag.cost.traffic.io` states for `dtype`; no code is shared.
"""

from __future__ import annotations

from collections.abc import Mapping

from catdiag.category.diagram import Diagram
from catdiag.category.op_facts import cast_dtype
from catdiag.category.ops import Box, FoldOp, GroupOp
from catdiag.category.substitution import inline
from catdiag.category.traversal import state_names
from catdiag.category.types import BYTES, COMPUTED, INTEGER_BYTES, STORED, ArrayType, element_bytes
from catdiag.schedule.element_widths import width
from catdiag.schedule.full_precision import statistics
from catdiag.simulate.graph_readers import Outline
from catdiag.util.errors import CatdiagError

_STORED, _COMPUTED = ({e: element_bytes(kind) for e, kind in table.items()} for table in (STORED, COMPUTED))
_ACCUMULATED = 4


class MachineWidths:
    """The widths of a diagram's arrays, in bytes per value; 1 for all where no dtype is given.

    >>> import catdiag as cd
    >>> total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x"))
    >>> widths = MachineWidths(total, "bf16")
    >>> widths.inputs, widths.outputs, widths.of_result(total.boxes[0], 0)
    ((2,), (2,), 4)

    Raises CatdiagError for unknown dtypes and arrays.
    """

    def __init__(self, diagram: Diagram, dtype: str | Mapping[str, str] | None) -> None:
        ends = ["out"] if len(diagram.cod) == 1 else [f"out{k}" for k in range(len(diagram.cod))]
        self.in_bytes = dtype is not None
        rest = dtype if isinstance(dtype, str) else (dtype or {}).get("*", "fp32")
        read = width(rest)
        self.all = max(2, read)  # what is computed is not saved in 8 bits
        given = {n: kind for n, kind in dtype.items() if n != "*"} if isinstance(dtype, Mapping) else {}
        self.named = {name: INTEGER_BYTES.get(kind) or width(kind) for name, kind in given.items()}
        known = {*diagram.input_names, *ends, *state_names(diagram)}
        for name in self.named:
            if name not in known:
                raise CatdiagError(f"dtype names an array {name!r}: expected one of {', '.join(sorted(known))}")
        beside = _statistics_beside_others(diagram)
        made = [max(_ACCUMULATED, self.all) if k in beside else self.all for k in range(len(ends))]
        self.inputs = tuple(self._outer(n, ty, read) for n, ty in zip(diagram.input_names, diagram.dom, strict=True))
        self.outputs = tuple(self._outer(*end) for end in zip(ends, diagram.cod, made, strict=True))
        outer = zip((*self.inputs, *self.outputs), (*diagram.dom, *diagram.cod), strict=True)
        real = [number for number, ty in outer if ty.element not in _STORED]
        self.inner = max(_ACCUMULATED, read, *real) if self.in_bytes else 1

    def _outer(self, name: str, ty: ArrayType, plain: int) -> int:
        if not self.in_bytes:
            return 1
        return self.named.get(name) or _STORED.get(ty.element, plain)

    def of_result(self, box: Box, k: int) -> int:
        """The width of a box's result on chip."""
        if not self.in_bytes:
            return 1
        if cast := cast_dtype(box.op):
            return BYTES[cast]
        return _COMPUTED.get(box.cod[k].element, self.inner)

    def state(self, op: FoldOp, k: int, ty: ArrayType) -> int:
        """The width of a loop state on chip."""
        name = op.components[k] if k < len(op.components) else ""
        return self.named.get(name) or (_COMPUTED.get(ty.element, self.inner) if self.in_bytes else 1)

    def of_a_part(self, box: Box, k: int) -> int:
        """The width of the partial state of a split loop, saved for the kernel that merges: as on chip."""
        box, k = _maker(box, k)
        return self.state(box.op, k, box.cod[k]) if isinstance(box.op, FoldOp) else self.of_result(box, k)

    def between(self, box: Box, k: int, statistic: bool) -> int:
        """The width of an array that a kernel saves for another one, made by `box`. A statistic has at least 4 bytes
        (fp32).
        """
        box, k = _maker(box, k)
        if not self.in_bytes:
            return 1
        least = _ACCUMULATED if statistic else 0
        return self.of_result(box, k) if cast_dtype(box.op) else _STORED.get(box.cod[k].element, max(least, self.all))


def _statistics_beside_others(diagram: Diagram) -> set[int]:
    """The outputs that are statistics, where one of the others is an array of real numbers and none."""
    graph = inline(diagram).graph
    wires = dict(enumerate(Outline(graph, range(len(graph.nodes)), {}, 0, False).base[w] for w in graph.outputs))
    real = {k: w for k, w in wires.items() if diagram.cod[k].element not in _STORED}
    known = statistics(graph) if len(real) > 1 else frozenset[int]()
    found = {k for k, w in real.items() if w in known}
    return found if len(found) < len(real) else set()


def _maker(box: Box, k: int) -> tuple[Box, int]:
    """The box that makes output `k` of a box, inside groups, and which of its outputs that is."""
    while isinstance(box.op, GroupOp):
        body = inline(box.op.body)
        outline = Outline(body.graph, range(len(body.boxes)), {}, 0, False)
        wire = outline.base[body.graph.outputs[k]]
        if wire not in outline.maker:
            break
        place = outline.maker[wire]
        box, k = body.graph.nodes[place].box, wire - outline.first[place]
    return box, k
