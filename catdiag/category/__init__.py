"""The category: axes, array types, operations, and diagrams composed of them.

In the order in which they are built on each other:

- `types`: axes, array types, objects; `graph`: boxes, and dataflow graphs of them, which are the flat form of diagrams.
- `diagram`: morphisms, composed by `>>` and `@`, made flat by `flatten`.
- `ops`: the operations of boxes, some of which have diagrams as bodies; `index_maps`: those that only move elements
  (reshapes, gathers, windows); `box_types`: which types a box can have; `named_axes`: the axes and sizes that
  operations name; `graph_writer`: graphs under construction.
- `equality`: equality of diagrams up to the laws of the category; `functor`: interpretations of diagrams, and weaving
  (mapping over an axis).
- `substitution`: boxes replaced by diagrams; `evaluation`: diagrams of Python functions, run.
- `integer_polynomial`: polynomials in sizes with integer coefficients; `formula`: formulas as trees, and how they are
  printed; `expression_formulas`: those of sympy expressions; `latex_formulas`: LaTeX.

What is named here is what bare diagrams are made of and read with; they have neither derivations nor theorems.

>>> from catdiag import category
>>> X = category.ArrayType((category.Axis("x"),))
>>> print(category.box("f", X, X) >> category.copy(X))
[x] → [x] @ [x]
"""

from __future__ import annotations

from catdiag.category.diagram import Diagram, box, copy, diagram_of, discard, id, of_graph, swap
from catdiag.category.functor import interpret, weave
from catdiag.category.graph import Graph, Node
from catdiag.category.ops import Box
from catdiag.category.substitution import substitute
from catdiag.category.types import ArrayType, Axis, Ty

__all__ = [
    "ArrayType",
    "Axis",
    "Box",
    "Diagram",
    "Graph",
    "Node",
    "Ty",
    "box",
    "copy",
    "diagram_of",
    "discard",
    "id",
    "interpret",
    "of_graph",
    "substitute",
    "swap",
    "weave",
]
