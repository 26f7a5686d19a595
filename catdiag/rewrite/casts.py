"""Casts: which casts of a program are still in the derived diagram, and which were dropped."""

from __future__ import annotations

from collections import Counter

from catdiag.category.diagram import Diagram, reachable
from catdiag.category.op_facts import cast_dtype
from catdiag.category.ops import Box, FoldOp, bodies
from catdiag.category.substitution import inline
from catdiag.rewrite.hash_consed_graph import HashConsedGraph


def dropped(source: Diagram, derived: Diagram) -> list[Box]:
    """The casts of the source that its results depend on and that the derived diagram does not have.

    Casts are identified by element type and source line. For each pair the derived diagram must have as many distinct
    casts as the source has.

    >>> import catdiag as cd
    >>> f = cd.algorithm("q x, x -> q")(lambda S, V: cd.sum(cd.cast(cd.softmax(S, "x"), "fp8") * V, "x"))
    >>> dropped(f, f.stream("x").diagram)
    []
    """
    terms = HashConsedGraph(source.dom)  # where one box on the same inputs is one
    image = list(range(len(source.dom)))
    for node in reachable(inline(source).graph).nodes:
        first = terms.add(node.box, [image[w] for w in node.inputs])
        image.extend(range(first, first + len(node.box.cod)))
    wanted = [node.box for node in terms.nodes if cast_dtype(node.box.op)]
    made: Counter[tuple[str, str | None]] = Counter()
    todo = [derived]
    while todo:
        for box in inline(todo.pop()).boxes:
            if cast_dtype(box.op):
                made[_key(box)] += 1
            todo.extend([box.op.step] if isinstance(box.op, FoldOp) else bodies(box.op))
    found = []
    for box in wanted:
        made[_key(box)] -= 1
        if made[_key(box)] < 0:
            found.append(box)
    return found


def advice(source: Diagram, derived: Diagram) -> list[str]:
    """A text for each dropped cast: what it means for the costs, and what to do.

    >>> import catdiag as cd
    >>> spread = cd.algorithm("x ->")(lambda a: cd.sum(cd.cast((a - cd.mean(a, "x")) ** 2, "fp16"), "x"))
    >>> advice(spread, spread.stream("x").diagram)[0].splitlines()[0]
    'cast:fp16 of [x] is not in the derived diagram: costs count the array that replaces it in its own type'
    """
    return [
        f"{box.name} of {box.cod[0]} is not in the derived diagram: costs count the array that replaces it in its own "
        "type" + (f"\n  at {box.line}" if box.line else "")
        for box in dropped(source, derived)
    ]


def _key(box: Box) -> tuple[str, str | None]:
    return box.name, box.line
