"""Blocks of a loop that need no mask, and bounds of integers over a tile (interval arithmetic on affine forms).

A comparison of integers is solved for the position along the loop's axis, if both sides are affine in it. The loop is
then split into blocks inside the mask and blocks at its edges. A condition that is not solved is evaluated for each
entry, so that results never depend on what is found here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from catdiag.codegen.syntax import (
    PLUS,
    TIMES,
    Number,
    PythonExpression,
    bracketed,
    call,
    joined_all,
    length_of,
)
from catdiag.codegen.triton.tile_expressions import Nodes
from catdiag.codegen.triton.tile_nodes import Dim, TileNode


@dataclass
class Affine:
    """An affine form: a constant and a sum of integer multiples of nodes."""

    constant: int = 0
    terms: dict[TileNode, int] = field(default_factory=dict)

    def plus(self, other: Affine, factor: int = 1) -> Affine:
        """The sum with `factor` times another form."""
        terms = dict(self.terms)
        for node, n in other.terms.items():
            terms[node] = terms.get(node, 0) + factor * n
        return Affine(self.constant + factor * other.constant, {n: c for n, c in terms.items() if c})


def affine(node: TileNode) -> Affine:
    """An integer node as an affine form; what is no sum and no constant multiple is one term."""
    value = node.value
    if value is not None:
        return Affine(int(value))
    if node.kind in ("add", "sub"):
        return affine(node.args[0]).plus(affine(node.args[1]), 1 if node.kind == "add" else -1)
    if node.kind == "neg":
        return Affine().plus(affine(node.args[0]), -1)
    if node.kind == "mul":
        for a, b in (node.args, node.args[::-1]):
            if b.value is not None:
                return Affine().plus(affine(a), int(b.value))
    return Affine(0, {node: 1})


def summed(nodes: Nodes, form: Affine) -> TileNode:
    """The node of an affine form."""
    made: TileNode | None = None
    for node, n in sorted(form.terms.items(), key=lambda t: t[1] < 0):
        part = nodes.op("mul", node, nodes.const(abs(n), "int"))
        if made is None:
            made = part if n > 0 else nodes.op("neg", part)
        else:
            made = nodes.op("add" if n > 0 else "sub", made, part)
    constant = nodes.const(abs(form.constant), "int")
    if made is None:
        return nodes.const(form.constant, "int")
    return nodes.op("add" if form.constant >= 0 else "sub", made, constant)


def edge(nodes: Nodes, node: TileNode, upper: bool) -> TileNode | None:
    """A scalar upper bound (`upper`) or lower bound of the entries of an integer tile; None if none is found."""
    if not node.dims:
        return node
    if node.kind == "arange":
        return nodes.op("sub", _block(nodes, node.dims[0]), nodes.const(1, "int")) if upper else nodes.const(0, "int")
    form = affine(node)
    if node.kind in ("add", "sub") and len(form.terms) > 1:
        found = Affine(form.constant)
        for term, n in form.terms.items():
            end = edge(nodes, term, upper == (n > 0))
            if end is None:
                return None
            found = found.plus(affine(end), n)
        return summed(nodes, found)
    if node.kind in ("add", "sub", "max", "min"):
        flipped = upper if node.kind != "sub" else not upper
        a, b = edge(nodes, node.args[0], upper), edge(nodes, node.args[1], flipped)
        return None if a is None or b is None else nodes.op(node.kind, a, b)
    if node.kind in ("neg", "mul") and len(form.terms) == 1:
        ((inner, n),) = form.terms.items()
        end = None if inner is node else edge(nodes, inner, upper == (n > 0))
        return None if end is None else summed(nodes, Affine(form.constant).plus(affine(end), n))
    if node.kind == "floordiv" and (node.args[1].value or 0) > 0:
        end = edge(nodes, node.args[0], upper)
        return None if end is None else nodes.op("floordiv", end, node.args[1])
    return None


Bound: TypeAlias = "int | str | tuple[str, tuple[Bound, ...]]"
"""A bound: a number, the name of a size or length, or "add", "mul" or "max" of bounds."""


def reach(node: TileNode) -> Bound | None:
    """An upper bound of the absolute value of an integer, in terms of blocks, tiles and sizes.

    None where no bound is found, as for integers that are read from arrays.
    """
    value = node.value
    if value is not None:
        return abs(int(value))
    if node.kind == "arange":
        return node.dims[0].block
    if node.kind == "symbol":
        return str(node.data[0]) if node.data[1] else None  # sizes and tile lengths, but not starts of tiles
    parts = [reach(a) for a in (node.args[1:] if node.kind == "where" else node.args)]
    known = [p for p in parts if p is not None]
    if not known or len(known) < len(parts):
        return None
    joined = _BOUNDED_BY.get(node.kind)
    if joined is not None:
        return joined, tuple(known)
    positive = node.kind == "floordiv" and (node.args[1].kind == "symbol" or (node.args[1].value or 0) > 0)
    return known[0] if positive or node.kind in ("neg", "abs", "relabel", "long") else None


_BOUNDED_BY = {"add": "add", "sub": "add", "mul": "mul", "max": "max", "min": "max", "where": "max"}
"""The function of bounds that bounds a function of integers."""


def bound_expression(bound: Bound, names: Mapping[str, PythonExpression]) -> PythonExpression:
    """A bound as an expression; `names` are the expressions of names.

    >>> from catdiag.codegen.syntax import Name, joined
    >>> print(bound_expression(("mul", ("n", ("add", ("m", 1)))), {"n": joined(Name("a"), "+", Name("b"))}))
    (a + b) * (m + 1)
    """
    if isinstance(bound, int):
        return Number(bound)
    if isinstance(bound, str):
        return names.get(bound) or length_of(bound)
    parts = [bound_expression(b, names) for b in bound[1]]
    if bound[0] == "max":
        return call("max", *parts)
    level, sign = (TIMES, "*") if bound[0] == "mul" else (PLUS, "+")
    return joined_all(sign, [bracketed(p, level) for p in parts])


def _block(nodes: Nodes, dim: Dim) -> TileNode:
    if dim.block.isdigit():
        return nodes.const(int(dim.block), "int")
    return nodes.symbol(dim.block, positive=True)


@dataclass
class UnmaskedRange:
    """The positions x of a loop's axis at which conditions hold for all entries: each `lower` ≤ x < each `upper`."""

    lower: list[TileNode] = field(default_factory=list)
    upper: list[TileNode] = field(default_factory=list)


def unmasked_blocks(
    nodes: Nodes, unmasked: UnmaskedRange, size: TileNode, symbol: str, ends: tuple[TileNode, TileNode]
) -> tuple[TileNode, TileNode]:
    """The part of a loop's range, from one of its `ends` to the other, whose blocks are whole and inside of all masks.
    `size` is that of the axis, `symbol` the length of blocks."""
    low, high = ends
    block = nodes.symbol(symbol, positive=True)

    def whole_blocks(end: TileNode) -> TileNode:
        """The end of the last whole block before `end`."""
        return nodes.op("mul", nodes.op("floordiv", nodes.op("max", end, nodes.const(0, "int")), block), block)

    top = high
    for end in (size, *unmasked.upper):
        top = nodes.op("min", top, end)
    inner_end = nodes.op("max", whole_blocks(top), low) if low.value != 0 else whole_blocks(top)
    if not unmasked.lower:
        return low, inner_end
    begin = low
    for bound in unmasked.lower:
        up = summed(nodes, affine(bound).plus(affine(block)).plus(affine(nodes.const(-1, "int"))))
        begin = nodes.op("max", begin, whole_blocks(up))
    inner_start = nodes.op("min", begin, nodes.op("max", high, low))
    return inner_start, nodes.op("max", inner_end, inner_start)


def solved(nodes: Nodes, condition: TileNode, dim: Dim, start: TileNode, size: TileNode) -> UnmaskedRange | None:
    """The range of a loop's axis in which a condition holds for all entries of other dimensions; None if not found.

    The position along the axis is `start` plus an index along `dim`; `size` is the size of the axis.
    """
    found = UnmaskedRange()
    todo: list[tuple[TileNode, bool]] = [(condition, True)]
    while todo:
        node, holds = todo.pop()
        if node.kind == "not":
            todo.append((node.args[0], not holds))
        elif (node.kind == "and" and holds) or (node.kind == "or" and not holds):
            todo += [(a, holds) for a in node.args]
        elif node.kind in ("le", "lt") and all(a.element == "int" for a in node.args):
            small, large = node.args if holds else node.args[::-1]
            strict = (node.kind == "lt") == holds
            if not _compared(nodes, affine(large).plus(affine(small), -1), strict, dim, start, size, found):
                return None
        else:
            return None
    return found


def _compared(
    nodes: Nodes, form: Affine, strict: bool, dim: Dim, start: TileNode, size: TileNode, found: UnmaskedRange
) -> bool:  # fmt: skip
    """Adds to `found` the range in which an affine form is at least 0 (1 if `strict`); False if there is none."""
    rest = Affine(form.constant - (1 if strict else 0))
    along = form.terms.get(start, 0)
    for node, n in form.terms.items():
        if node is start:
            continue
        if dim in node.dims:
            if node.kind != "arange" or n != along:
                return False
            continue
        end = edge(nodes, node, upper=n < 0)
        if end is None or end.scope is dim.scope:
            return False
        rest = rest.plus(affine(end), n)
    if along == 1:
        found.lower.append(summed(nodes, Affine().plus(rest, -1)))
    elif along == -1:
        found.upper.append(summed(nodes, rest.plus(Affine(1))))
    elif along == 0:
        holds = nodes.op("le", nodes.const(0, "int"), summed(nodes, rest))
        found.upper.append(nodes.op("where", holds, size, nodes.const(0, "int")))
    else:
        return False
    return True


def grows(node: TileNode, start: TileNode) -> int:
    """1 or -1 if an integer is known to increase or decrease with a scalar, else 0."""
    return _slope(node, start) or 0


def _slope(node: TileNode, start: TileNode) -> int | None:
    """The sign of the change of an integer with a scalar, 0 if it does not depend on it; None if not known."""
    if node is start:
        return 1
    if node.kind in ("const", "symbol", "arange", "load"):
        return 0 if not any(a is start for a in node.args) else None
    signs = [_slope(a, start) for a in node.args]
    if all(s == 0 for s in signs):
        return 0
    if node.kind == "reduce":
        return signs[0]
    if node.kind == "mul":
        for value, sign in zip((a.value for a in node.args), reversed(signs), strict=True):
            if value is not None and sign is not None:
                return sign * ((value > 0) - (value < 0))
        return None
    if node.kind in ("add", "max", "min", "sub", "neg"):
        signed = [-s if s is not None and (node.kind == "neg" or (node.kind == "sub" and n)) else s
                  for n, s in enumerate(signs)]  # fmt: skip
        found = set(signed) - {0}
        return found.pop() if len(found) == 1 else None
    return None
