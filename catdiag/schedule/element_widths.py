"""How many bytes a value takes, by array, for formulas: the rules are said in `catdiag.cost.traffic`."""

from __future__ import annotations

from dataclasses import dataclass, field

from catdiag.category.diagram import inline
from catdiag.category.ops import Box, GroupOp, Map
from catdiag.category.types import BYTES, ArrayType
from catdiag.schedule.live_ranges import is_view


@dataclass
class Widths:
    """How many bytes a value takes, by array; all 1 when values are counted."""

    inputs: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    between: int = 1
    inner: int = 1
    named: dict[str, int] = field(default_factory=dict)
    bytes: bool = False

    def on_chip(self, ty: ArrayType, name: str = "") -> int:
        """The width of an array made on chip."""
        if not self.bytes:
            return 1
        return self.named.get(name) or {"bool": 1, "int": 4}.get(ty.element, self.inner)

    def by_producer(self, box: Box, ty: ArrayType) -> int:
        """The width of what a box makes on chip: a cast says which."""
        if self.bytes and isinstance(box.op, Map) and box.op.fn.startswith("cast:"):
            return BYTES[box.op.fn[5:]]
        return self.on_chip(ty)

    def saved(self, box: Box, k: int, statistic: bool) -> int:
        """The width of what a kernel saves for another, output `k` of a box, or of a box in a group; a `statistic`
        takes 4 bytes at the least.

        Not of the states of the parts of a loop, which are as wide as on chip.
        """
        if not self.bytes:
            return 1
        while isinstance(box.op, GroupOp):
            body = inline(box.op.body).graph
            makers = [(node, place) for node in body.nodes for place in range(len(node.box.cod))]
            wire = body.outputs[k]
            while wire >= len(body.dom) and is_view(makers[wire - len(body.dom)][0].box):
                wire = makers[wire - len(body.dom)][0].inputs[0]
            if wire < len(body.dom):
                break
            node, k = makers[wire - len(body.dom)]
            box = node.box
        if isinstance(box.op, Map) and box.op.fn.startswith("cast:"):
            return self.by_producer(box, box.cod[k])
        plain = max(4, self.between) if statistic else self.between
        return {"bool": 1, "int": 4}.get(box.cod[k].element, plain)
