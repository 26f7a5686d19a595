"""The width of an element in bytes, by array, for formulas. The rules are stated in `catdiag.cost.traffic`."""

from __future__ import annotations

from dataclasses import dataclass, field

from catdiag.category.diagram import inline
from catdiag.category.ops import Box, GroupOp, Map
from catdiag.category.scalars import Cast
from catdiag.category.types import BYTES, ArrayType
from catdiag.schedule.live_ranges import view_roots


@dataclass
class Widths:
    """Bytes of an element, by array; all 1 when elements are counted instead of bytes (`bytes` is False).

    `inputs` and `outputs` are by name, `between` is for arrays between kernels, `inner` for results on chip, `named`
    for states of loops.
    """

    inputs: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    between: int = 1
    inner: int = 1
    named: dict[str, int] = field(default_factory=dict)
    bytes: bool = False

    def on_chip(self, ty: ArrayType, name: str = "") -> int:
        """The bytes of an element of an array that is computed on chip."""
        if not self.bytes:
            return 1
        return self.named.get(name) or {"bool": 1, "int": 4}.get(ty.element, self.inner)

    def by_producer(self, box: Box, ty: ArrayType) -> int:
        """The bytes of an element of a box's result on chip: a cast gives the type."""
        if self.bytes and isinstance(box.op, Map) and isinstance(box.op.fn, Cast):
            return BYTES[box.op.fn.dtype]
        return self.on_chip(ty)

    def saved(self, box: Box, k: int, statistic: bool) -> int:
        """The bytes of an element of output `k` of a box (or of a box in a group) that a kernel saves for another. A
        `statistic` takes at least 4.

        States of the parts of a split loop are not asked here: they are as wide as on chip.
        """
        if not self.bytes:
            return 1
        kind = cast_type(box, k)
        if kind:
            return BYTES[kind]
        plain = max(4, self.between) if statistic else self.between
        return {"bool": 1, "int": 4}.get(box.cod[k].element, plain)


def cast_type(box: Box, k: int) -> str:
    """The type that a cast gives output `k` of a box (or of a box in a group); empty if no cast makes it."""
    while isinstance(box.op, GroupOp):
        body = inline(box.op.body).graph
        wire = view_roots(body)[body.outputs[k]]
        place = body.makers()[wire]
        if place < 0:
            return ""
        box, k = body.nodes[place].box, wire - body.first_wires()[place]
    return box.op.fn.dtype if isinstance(box.op, Map) and isinstance(box.op.fn, Cast) else ""
