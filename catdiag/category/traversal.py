"""The diagrams and boxes inside a diagram: bodies of named boxes, loops and groups, at all depths."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from catdiag.category.diagram import Diagram
from catdiag.category.ops import Box, bodies


def all_diagrams(diagram: Diagram, opened: Callable[[Box], bool] = lambda box: True) -> Iterator[Diagram]:
    """A diagram and the bodies in it, each once, of those boxes that are `opened`; a diagram comes before its bodies.

    >>> from catdiag.category.diagram import id
    >>> from catdiag.category.substitution import call
    >>> from catdiag.category.types import Ty
    >>> len(list(all_diagrams(call("f", id(Ty())) >> call("g", id(Ty())))))
    3
    """
    stack, seen = [diagram], set[int]()
    while stack:
        item = stack.pop()
        if id(item) not in seen:
            seen.add(id(item))
            yield item
            stack.extend(body for box in item.boxes if opened(box) for body in bodies(box.op))


def all_boxes(diagram: Diagram) -> Iterator[Box]:
    """The boxes of a diagram and of the bodies in it, each body once.

    >>> from catdiag.category.diagram import id
    >>> from catdiag.category.substitution import call
    >>> from catdiag.category.types import Ty
    >>> [box.name for box in all_boxes(call("f", call("g", id(Ty()))))]
    ['f', 'g']
    """
    return (box for item in all_diagrams(diagram) for box in item.boxes)


def nested_beyond(diagram: Diagram, most: int) -> bool:
    """Whether named boxes are nested more than `most` deep."""
    seen: dict[int, int] = {}
    stack = [(diagram, 0)]
    while stack:
        item, depth = stack.pop()
        if depth > most:
            return True
        if seen.get(id(item), -1) < depth:
            seen[id(item)] = depth
            stack += [(body, depth + 1) for b in item.boxes for body in bodies(b.op)]
    return False
