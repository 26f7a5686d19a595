"""The element types in which matrix products are made.

Each product has a type of its own. Its factors have one each: that of the array from which a factor was loaded as it
is, or the type of a cast that made it; a factor that was computed in another way has none, and is rounded to that of
the product. So weights of attention, computed in fp32, are multiplied in the type of the values, while what an fp32
array scales or shifts afterwards stays in fp32.

- Two types: the wider one, or fp16 for fp8 with another type.
- One type: that type.
- No type: that of the inputs which decide (`catdiag.schedule.contractions.deciding`).

Kernels that are written make a product of a computed factor in fp16 instead of fp8 (`emitted_type`), since nothing says
by what the factor is to be scaled before it is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence

from catdiag.category.diagram import Graph
from catdiag.category.op_facts import scalar_function
from catdiag.category.ops import INDEX_MAPS
from catdiag.category.scalars import Cast

BY_WIDTH = ("fp8", "fp16", "bf16", "tf32", "fp32", "fp64")
"""Element types, each after those that are rounded to it where they meet in a product."""


def widest_of(types: Sequence[str]) -> str:
    """The last of some types in the order of `BY_WIDTH`, of those that are of real numbers; none of none.

    >>> widest_of(["bf16", "fp32", "int64", "fp8"]), widest_of([])
    ('fp32', '')
    """
    return max((kind for kind in types if kind in BY_WIDTH), key=BY_WIDTH.index, default="")


def operand_type(first: str, second: str, otherwise: str) -> str:
    """The type of a product of factors with these types ("" where a factor is computed); `otherwise` is that of a
    product whose factors are both computed.

    >>> operand_type("bf16", "", "fp32"), operand_type("fp8", "bf16", ""), operand_type("", "", "bf16")
    ('bf16', 'fp16', 'bf16')
    """
    if first and second:
        return "fp16" if "fp8" in (first, second) and first != second else widest_of((first, second))
    return first or second or otherwise


def emitted_type(dtype: str, read: Sequence[str]) -> str:
    """The type in which a kernel that is written makes a product of a type, whose factors have the types `read`.

    >>> emitted_type("fp8", ("fp8", "fp8")), emitted_type("fp8", ("", "fp8")), emitted_type("bf16", ("", "bf16"))
    ('fp8', 'fp16', 'bf16')
    """
    return "fp16" if dtype == "fp8" and "" in read else dtype


def result_type(dtype: str) -> str:
    """The type of results, and of what one kernel saves for another, of inputs of a type: of 8-bit ones fp16, since
    what is computed has no scale.

    >>> result_type("fp8"), result_type("bf16")
    ('fp16', 'bf16')
    """
    return "fp16" if dtype == "fp8" else dtype


def cast_of_factor(fn: object) -> str:
    """The type that a function gives to a factor; "" for one that does not say, and for a cast to 8 bits, whose product
    is made in 16.

    >>> cast_of_factor(Cast("bf16")), cast_of_factor(Cast("fp8")), cast_of_factor("exp")
    ('bf16', '', '')
    """
    return fn.dtype if isinstance(fn, Cast) and fn.dtype != "fp8" else ""


def factor_types(graph: Graph, place: int, loaded: Sequence[str]) -> tuple[str, ...]:
    """The types of the factors of the product at index `place` of a kernel's graph; `loaded` are those of the graph's
    inputs, "" for what was computed."""
    makers = graph.makers()
    found: list[str] = []
    for wire in graph.nodes[place].inputs:
        while makers[wire] >= 0 and isinstance(graph.nodes[makers[wire]].box.op, INDEX_MAPS):
            wire = graph.nodes[makers[wire]].inputs[0]
        if makers[wire] < 0:
            found.append(loaded[wire])
        else:
            found.append(cast_of_factor(scalar_function(graph.nodes[makers[wire]].box.op)))
    return tuple(found)
