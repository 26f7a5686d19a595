"""Substitution: boxes replaced by diagrams. It is the functor F with given images of some boxes, and the identity on
others.

    F(f >> g) = F(f) >> F(g)        F(f @ g) = F(f) @ F(g)        F(b) = boxes[b]
"""

from __future__ import annotations

from collections.abc import Mapping

from catdiag.category.diagram import Diagram, HasDiagram, diagram_of, of_graph, one_box
from catdiag.category.flat_substitution import replaced
from catdiag.category.ops import Box
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
