"""The diagrams and boxes inside a diagram: bodies of named boxes, loops and groups, at all depths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from catdiag.category.diagram import Diagram, with_boxes
from catdiag.category.ops import Box, FoldOp, bodies, with_bodies


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


def bodies_first(diagram: Diagram, opened: Callable[[Box], bool] = lambda box: True) -> Iterator[Diagram]:
    """As `all_diagrams`, but each diagram comes after the bodies in it.

    >>> from catdiag.category.diagram import id
    >>> from catdiag.category.substitution import call
    >>> from catdiag.category.types import Ty
    >>> [len(item.boxes) for item in bodies_first(call("f", call("g", id(Ty()))))]
    [0, 1, 1]
    """
    stack, seen = [(diagram, False)], set[int]()
    while stack:
        item, ready = stack.pop()
        if ready:
            yield item
        elif id(item) not in seen:
            seen.add(id(item))
            stack.append((item, True))
            stack += [(body, False) for box in item.boxes if opened(box) for body in bodies(box.op)]


def rebuilt(diagram: Diagram, change: Callable[[Diagram], Diagram]) -> Diagram:
    """The diagram after `change` of each body in it, the innermost first, and of itself.

    >>> from catdiag.category.diagram import box
    >>> from catdiag.category.substitution import call
    >>> from catdiag.category.types import Ty
    >>> doubled = rebuilt(call("f", box("g", Ty(), Ty())), lambda item: item >> item)
    >>> [[b.name for b in item.boxes] for item in all_diagrams(doubled)]
    [['f', 'f'], ['g', 'g']]
    """
    made: dict[int, Diagram] = {}
    for item in bodies_first(diagram):
        new: dict[int, Box] = {}
        for place, box in enumerate(item.boxes):
            if any(made[id(body)] is not body for body in bodies(box.op)):
                new[place] = replace(box, op=with_bodies(box.op, tuple(made[id(body)] for body in bodies(box.op))))
        made[id(item)] = change(with_boxes(item, new) if new else item)
    return made[id(diagram)]


def all_boxes(diagram: Diagram) -> Iterator[Box]:
    """The boxes of a diagram and of the bodies in it, each body once.

    >>> from catdiag.category.diagram import id
    >>> from catdiag.category.substitution import call
    >>> from catdiag.category.types import Ty
    >>> [box.name for box in all_boxes(call("f", call("g", id(Ty()))))]
    ['f', 'g']
    """
    return (box for item in all_diagrams(diagram) for box in item.boxes)


def state_names(diagram: Diagram) -> tuple[str, ...]:
    """The names of the states of all loops, each once.

    >>> import catdiag as cd
    >>> state_names(cd.library.get("attention").stream("x").diagram)
    ('max1', 'sum2', 'sum3')
    """
    ops = (box.op for box in all_boxes(diagram))
    return tuple(dict.fromkeys(name for op in ops if isinstance(op, FoldOp) for name in op.components))


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
