"""Substitution: boxes replaced by diagrams, and named boxes by their bodies. It is the functor F with given images of
some boxes, and the identity on others.

    F(f >> g) = F(f) >> F(g)        F(f @ g) = F(f) @ F(g)        F(b) = boxes[b]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from catdiag.category.diagram import Diagram, HasDiagram, diagram_of, of_box, of_graph, one_box
from catdiag.category.flat_substitution import replaced
from catdiag.category.graph import Graph
from catdiag.category.ops import Box, Call, GroupOp, bodies
from catdiag.util.errors import TypeMismatch, require


def substitute(
    diagram: Diagram | HasDiagram, boxes: Mapping[Box | Diagram | HasDiagram, Diagram | HasDiagram]
) -> Diagram:
    """The diagram with each of the given boxes replaced by its diagram; bodies of boxes are left as they are.

    A box is given as in `Diagram.boxes`, or as the diagram that `cd.box` makes.

    >>> from catdiag.category.diagram import box, copy
    >>> from catdiag.category.types import ArrayType, Axis, Ty
    >>> X = Ty(ArrayType((Axis("x"),)))
    >>> f, g, h = box("f", X, X), box("g", X, X), box("h", X, X)
    >>> substitute(f >> copy(X) >> f @ g, {f: h >> h}) == h >> h >> copy(X) >> (h >> h) @ g
    True

    Linear in the size of the result. Raises TypeMismatch where a diagram has other types than the box that it replaces.
    """
    diagram = diagram_of(diagram)
    require(isinstance(boxes, Mapping), "boxes", boxes, "a dictionary from boxes to diagrams")
    images: dict[Box, Diagram] = {}
    for given, replacement in boxes.items():
        b = one_box(given, "what is to be replaced")
        image = diagram_of(replacement, f"what replaces {b.name}")
        if (image.dom, image.cod) != (b.dom, b.cod):
            raise TypeMismatch(
                f"{b.name} : {b.dom} → {b.cod} cannot be replaced by a diagram {image}: expected the same types"
            )
        images[b] = image
    graph = diagram.graph
    found = [images.get(b) for b in graph.table]
    made = replaced(graph, [None if image is None else image.graph for image in found])
    return of_graph(made, diagram.cod, diagram.names, diagram.title)


def call(name: str, body: Diagram) -> Diagram:
    """A diagram as one named box, which `inline` opens again."""
    return of_box(Box(Call(name, body), body.dom, body.cod))


def inline(diagram: Diagram, keep: Callable[[Box], bool] = lambda _: False, kernels: bool = False) -> Diagram:
    """The diagram with named boxes inlined at all depths, except those that `keep` accepts.

    Bodies of loops and groups are left as they are; with `kernels`, groups without tiles are inlined too.

    >>> from catdiag.category.diagram import box
    >>> from catdiag.category.types import ArrayType, Axis
    >>> X = ArrayType((Axis("x"),))
    >>> f, g = box("f", X, X), box("g", X, X)
    >>> inline(call("outer", call("inner", f) >> g)) == f >> g
    True
    """
    done: dict[int, Graph] = {}
    todo = [diagram]
    while todo:
        item = todo[-1]
        if id(item) in done:
            todo.pop()
            continue
        opened = [_opened(b, kernels) for b in item.graph.table]
        opened = [None if body is None or keep(b) else body for b, body in zip(item.graph.table, opened, strict=True)]
        missing = [body for body in opened if body is not None and id(body) not in done]
        if missing:
            todo += missing
        else:
            images = [None if body is None else done[id(body)] for body in opened]
            done[id(item)] = replaced(item.graph, images)
    return of_graph(done[id(diagram)], diagram.cod, diagram.names, diagram.title)


def _opened(b: Box, kernels: bool) -> Diagram | None:
    """The diagram that a box is only a name for; None for other boxes."""
    named = type(b.op) is Call or (kernels and isinstance(b.op, GroupOp) and not b.op.tiles)
    return bodies(b.op)[0] if named else None
