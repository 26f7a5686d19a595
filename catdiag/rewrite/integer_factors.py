"""Integers of few bits as factors of matrix products: weights of 8 bits, or of 4 bits that are unpacked.

Matrix units multiply numbers of one type, and add in fp32. A floating-point type represents every integer up to 2 to
the number of digits of its significand: bf16 those up to 256, fp16 those up to 2,048. So where all entries of a factor
are such integers, casting it to the type of the product is exact, and the sum of products is one for matrix units.
Which integers a factor may have follows from the types of the inputs and from the arithmetic that it is made by:
`P // 16 - 8` of bytes is between -8 and 7.

A cast means the identity, so the diagram with casts has the same meaning, which is proved as for every step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from catdiag.category.diagram import Diagram, of_graph
from catdiag.category.graph_writer import GraphWriter
from catdiag.category.op_facts import contracts
from catdiag.category.ops import Box, Const, Einsum, Map, Reindex, Rename, View, einsum_box
from catdiag.category.scalars import Cast
from catdiag.category.substitution import inline
from catdiag.category.types import INTEGER_BYTES
from catdiag.rewrite.derivation import Derivation, NotProved, titled
from catdiag.rewrite.steps import CastFactors
from catdiag.schedule.operand_types import result_type
from catdiag.schedule.stored_types import element_types, worked_in

Range: TypeAlias = "tuple[int, int] | None"
"""The least and the largest integer that an array may contain; None where not known."""
EXACT = {"bf16": 2**8, "fp16": 2**11, "tf32": 2**11, "fp32": 2**24, "fp64": 2**53}
"""Up to which absolute value each type represents every integer: 2 to the number of digits of its significand (IEEE
754-2019, section 3.3, and the same rule for bf16 and tf32)."""


def cast_factors(derivation: Derivation, dtype: str | Mapping[str, str]) -> Derivation:
    """With factors of products that are small integers cast to the type of the products, where that is exact; the same
    derivation where there are none, and where the diagram with casts is not proved to mean the same. `dtype` gives the
    types of the arrays. Raises CatdiagError for unknown types and arrays.

    >>> import catdiag as cd
    >>> linear = cd.algorithm("t d, int[o d] -> t o")(lambda X, W: cd.einsum("t d, o d -> t o", X, W))
    >>> types = {"X": "bf16", "W": "int8"}
    >>> [box.name for box in cast_factors(linear.derivation, types).diagram.boxes]
    ['cast:bf16', 'einsum']
    """
    found = with_casts(derivation.diagram, dtype)
    if found is None:
        return derivation
    kind, diagram = found
    made = titled(diagram, derivation.diagram.title or "")
    try:
        theorem = derivation.prove(made)
    except NotProved:
        return derivation
    return replace(derivation.then(CastFactors(kind), made, theorem), ungrouped=made, unchanged=None)


def with_casts(diagram: Diagram, dtype: str | Mapping[str, str]) -> tuple[str, Diagram] | None:
    """The type of a diagram's products, and the diagram with the factors cast to it that `cast_factors` casts; None
    where there are none. Nothing is proved here."""
    types = element_types(diagram, dtype)
    ranges: list[Range] = [_stored_range(types[name]) for name in diagram.input_names]
    if not any(ranges):
        return None
    kind = result_type(worked_in(diagram, dtype))
    flat = inline(diagram)
    made, image = GraphWriter(flat.dom), list(range(len(flat.dom)))
    cast: dict[int, int] = {}
    for node in flat.graph.nodes:
        box, args = node.box, [image[w] for w in node.inputs]
        for k in _factors(box):
            (place, wire), of = (node.inputs[k], args[k]), ranges[node.inputs[k]]
            if of is not None and max(map(abs, of)) <= EXACT[kind]:
                if place not in cast:
                    cast[place] = made.map(Cast(kind), wire)
                args[k] = cast[place]
        if args != [image[w] for w in node.inputs]:
            box = einsum_box([made.types[w] for w in args], box.cod[0].names, box.line)
        image.extend(made.made(box, args))
        ranges.extend(_range(box, [ranges[w] for w in node.inputs]) for _ in box.cod)
    if not cast:
        return None
    return kind, of_graph(made.reachable([image[w] for w in flat.graph.outputs]), flat.cod, flat.names, flat.title)


def _factors(box: Box) -> list[int]:
    """The places of the factors of a sum of products that are integers, where its result is of real numbers."""
    if not (isinstance(box.op, Einsum) and len(box.dom) > 1 and contracts(box) and box.cod[0].element == "real"):
        return []
    return [k for k, ty in enumerate(box.dom) if ty.element == "int"]


def _stored_range(dtype: str) -> Range:
    """The integers that a type of 8 bits stores; None for another type.

    >>> _stored_range("int8"), _stored_range("uint8"), _stored_range("bf16")
    ((-128, 127), (0, 255), None)
    """
    if INTEGER_BYTES.get(dtype) != 1:
        return None
    return (0, 255) if dtype.startswith("u") else (-128, 127)


def _range(box: Box, given: Sequence[Range]) -> Range:
    """The integers in a box's result, given those of its inputs. All known ranges are of integers: they begin at
    inputs of integers and at whole constants."""
    if box.cod[0].element != "int":
        return None
    rule = _RANGES.get(type(box.op))
    return None if rule is None else rule(box.op, given)


def _of_map(op: Map, given: Sequence[Range]) -> Range:
    rule = _ARITHMETIC.get(str(op.fn))
    known = [r for r in (given[1:] if op.fn == "where" else given) if r is not None]
    return rule(*known) if rule is not None and len(known) == len(given) - (op.fn == "where") else None


def _of_const(op: Const, given: Sequence[Range]) -> Range:
    return (int(op.value), int(op.value)) if op.value is not None and op.value.denominator == 1 else None


def _of_view(op: View, given: Sequence[Range]) -> Range:
    """An element of one of the arrays that it reads."""
    known = [r for r in given[: len(op.reads)] if r is not None]
    return _hull(*known) if len(known) == len(op.reads) else None


def _hull(*ranges: tuple[int, int]) -> tuple[int, int]:
    """The least range that contains some ranges.

    >>> _hull((0, 3), (-2, 1))
    (-2, 3)
    """
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _of_corners(fn: Callable[[int, int], int], a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """The range of a function that is monotone in each argument: its extrema are at the ends of the ranges."""
    return _hull(*((fn(x, y),) * 2 for x in a for y in b))


def _of_quotient(a: tuple[int, int], b: tuple[int, int]) -> Range:
    return _of_corners(lambda x, y: x // y, a, b) if b[0] > 0 else None


_ARITHMETIC: Mapping[str, Callable[..., Range]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": lambda a, b: _of_corners(lambda x, y: x * y, a, b),
    "neg": lambda a: (-a[1], -a[0]),
    "abs": lambda a: (0, max(map(abs, a))),
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "where": lambda a, b: _hull(a, b),
    "floordiv": _of_quotient,
}
"""The ranges of functions of integers, from those of their arguments; of no other function one is known."""
_RANGES: Mapping[type[Any], Callable[[Any, Sequence[Range]], Range]] = {
    Const: _of_const,
    Map: _of_map,
    Reindex: lambda op, given: given[0] if len(given) == 1 else None,
    Rename: lambda op, given: given[0],
    View: _of_view,
}
"""The ranges of the results of operations; of no other operation one is known."""
