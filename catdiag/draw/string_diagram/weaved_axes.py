"""The axes over which a box is weaved: their wires pass around it; the other axes it consumes or makes."""

from __future__ import annotations

from catdiag.category.diagram import Diagram
from catdiag.category.named_axes import named_axes
from catdiag.category.ops import NESTING, Box, Call, Generic
from catdiag.category.traversal import bodies_first


class Weaved:
    """Answers for the boxes of one picture; a named diagram is analyzed once."""

    def __init__(self) -> None:
        self._touched: dict[int, tuple[Diagram, frozenset[str]]] = {}

    def axes(self, box: Box) -> frozenset[str]:
        """The names of the axes of the outputs over which the box only maps.

        >>> from catdiag.category.ops import reduce_box
        >>> from catdiag.category.types import ArrayType, Axis
        >>> sorted(Weaved().axes(reduce_box("max", "x", ArrayType((Axis("q"), Axis("x"))))))
        ['q']
        """
        taken = frozenset(n for ty in box.dom for n in ty.names)
        made = frozenset(n for ty in box.cod for n in ty.names)
        return (taken & made) - self._used(box)

    def _used(self, box: Box) -> frozenset[str]:
        """The names of axes that the box consumes, makes, or cannot be shown to map over."""
        if isinstance(box.op, Call):
            return self._touched_by(box.op.body)
        if isinstance(box.op, (*NESTING, Generic)):
            return frozenset(n for ty in (*box.dom, *box.cod) for n in ty.names)
        return named_axes(box)

    def _touched_by(self, diagram: Diagram) -> frozenset[str]:
        def is_new(box: Box) -> bool:
            return isinstance(box.op, Call) and id(box.op.body) not in self._touched

        for item in () if id(diagram) in self._touched else bodies_first(diagram, is_new):
            found: set[str] = set()
            for node in item.graph.nodes:
                op = node.box.op
                found |= self._touched[id(op.body)][1] if isinstance(op, Call) else self._used(node.box)
                # An axis that an output lacks has been consumed, and a new one has been made.
                before = {n for ty in node.box.dom for n in ty.names}
                after = {n for ty in node.box.cod for n in ty.names}
                found |= before ^ after
            # The reference to the diagram keeps its id from being reused.
            self._touched[id(item)] = (item, frozenset(found))
        return self._touched[id(diagram)][1]
