"""Diagrams built from wires of a `HashConsedGraph`: the bodies of a loop and the boxes around it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from catdiag.category.diagram import Diagram, of_graph
from catdiag.category.graph_writer import GraphWriter
from catdiag.category.ops import INDEX_MAPS, REDUCTIONS, Box, Map, map_box
from catdiag.category.scalars import Apply
from catdiag.category.types import ArrayType, Axis, Ty
from catdiag.rewrite.hash_consed_graph import HashConsedGraph


class NotInScope(Exception):
    """An input wire that the diagram being built does not have; `.wire` is its number in the hash-consed graph."""

    def __init__(self, wire: int) -> None:
        super().__init__(f"wire {wire} is not in scope here")
        self.wire = wire


class GraphBuilder(GraphWriter):
    """A diagram under construction from wires of a `HashConsedGraph`, with a local size for the streamed axis."""

    def __init__(
        self, terms: HashConsedGraph, dom: Sequence[ArrayType], local: Axis | None = None, real: Collection[int] = ()
    ) -> None:
        super().__init__(dom, shared=True)
        self.terms = terms
        self.real = real
        self.local = local

    def broadcast_to(self, ty: ArrayType) -> ArrayType:
        """A type with the local size of the streamed axis in place of its full size."""
        return ty if self.local is None else localized(ty, self.local)

    def emit(self, wire: int, env: dict[int, int], result: ArrayType | None = None) -> int:
        """The wire that computes a wire of the hash-consed graph. `env` maps wires that are in scope to wires here;
        `result` forces the type. Raises NotInScope for an input of the graph that is not in scope.
        """
        for w in self.terms.cone([wire], env):
            if w in env:
                continue
            node = self.terms.node(w)
            if node is None:
                raise NotInScope(w)
            inputs = [env[i] for i in node.inputs]
            dom = [self.types[i] for i in inputs]
            cod = [self.broadcast_to(t) for t in node.box.cod]
            if len(cod) == 1 and w not in self.real:
                cod = [ArrayType(cod[0].axes, element_type(node.box, dom))] if w != wire or result is None else [result]
            first = self.add(Box(node.box.op, Ty(*dom), Ty(*cod), node.box.line), inputs)
            start = self.terms.first[self.terms.maker[w]]
            for k in range(len(cod)):
                env.setdefault(start + k, first + k)
        return env[wire] if result is None else self.cast(env[wire], result)

    def diagram(self, outputs: Sequence[int], names: tuple[str, ...]) -> Diagram:
        """The diagram built so far, without boxes that reach no output."""
        return of_graph(self.reachable(outputs), Ty(*(self.types[w] for w in outputs)), names)


def localized(ty: ArrayType, local: Axis) -> ArrayType:
    """A type with another size for the axis of that name."""
    if ty.axis(local.name) is None:
        return ty
    return ArrayType(tuple(local if a.name == local.name else a for a in ty.axes), ty.element)


def element_type(box: Box, dom: Sequence[ArrayType]) -> str:
    """The element type of a box's result, given the types of its inputs: "extended" where −∞ may pass through."""
    declared = box.cod[0].element
    if all(a.element == b.element for a, b in zip(dom, box.dom, strict=True)):
        return declared
    op = box.op
    extended = any(t.element == "extended" for t in dom)
    if isinstance(op, Map) and not isinstance(op.fn, Apply):
        made = map_box(op.fn, dom).cod[0].element
        return made if made == "extended" and declared in ("real", "int") else declared
    if isinstance(op, (*REDUCTIONS, *INDEX_MAPS)) and extended and declared in ("real", "int"):
        return "extended"
    return declared
