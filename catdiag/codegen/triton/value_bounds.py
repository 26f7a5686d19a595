"""Tiles that may be too large for 16-bit floating point: those that an exponential of no known bound makes.

Entries of arrays, and sums and products of such entries, are taken to fit the type of the arrays. An exponential need
not, unless its argument has an upper bound: a constant one, or it is a difference from a maximum of the same terms.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from catdiag.codegen.triton.tile_nodes import TileNode, natural

LARGEST = math.log2(65504)
"""The largest exponent whose power of 2 is a number of fp16."""
_SMALL = frozenset(("uniform", "tanh", "log", "erf", "sin", "cos", "not", "eq", "ne", "lt", "le", "and", "or"))
"""The functions whose values are small, whatever their arguments are."""


def overflows(node: TileNode) -> bool:
    """Whether a tile may have finite entries that are too large for fp16, since it depends on an exponential."""
    stack, seen = [node], set[TileNode]()
    while stack:
        item = stack.pop()
        if item in seen or not item.dims or item.element in ("int", "bool") or item.kind in _SMALL:
            continue
        seen.add(item)
        if item.kind == "exp2":
            bound = _upper(item.args[0])
            if bound is None or bound > LARGEST:
                return True
        elif item.kind == "div":
            stack.append(item.args[0])
        elif item.kind in ("where", "guard"):
            stack += item.args[1:] if item.kind == "where" else item.args[1:2]
        elif item.kind != "load":
            stack += item.args
    return False


def _upper(node: TileNode) -> float | None:
    """An upper bound of the entries of a tile; None if none is found."""
    if node.value is not None:
        return float(node.value)
    rule = _UPPER.get(node.kind)
    return None if rule is None else rule(*node.args)


def _lower(node: TileNode) -> float | None:
    """A lower bound of the entries of a tile; None if none is found."""
    if node.value is not None:
        return float(node.value)
    if node.element == "int" and natural(node):
        return 0.0
    rule = _LOWER.get(node.kind)
    return None if rule is None else rule(*node.args)


def _upper_of_difference(a: TileNode, b: TileNode) -> float | None:
    return 0.0 if includes(Scaled(b), Scaled(a)) else _plus(_upper(a), _minus(_lower(b)))


@dataclass(frozen=True)
class Scaled:
    """A tile times positive scalars: a number, and others with their multiplicities."""

    node: TileNode
    number: float = 1.0
    scalars: frozenset[tuple[TileNode, int]] = frozenset()

    def opened(self) -> Scaled:
        """The same without factors in its node."""
        number, scalars, node = self.number, Counter(dict(self.scalars)), self.node
        while node.kind in ("scaled", "float", "relabel"):
            if node.kind == "scaled":
                stack = [node.args[1]]
                while stack:
                    factor = stack.pop()
                    if factor.value is not None:
                        number *= float(factor.value)
                    elif factor.kind == "mul":
                        stack += factor.args
                    else:
                        scalars[factor] += 1
            node = node.args[0]
        return Scaled(node, number, frozenset(scalars.items()))

    def same(self, other: Scaled) -> bool:
        """Whether both are the same tile times the same scalars, up to rounding."""
        return (
            self.node is other.node
            and self.scalars == other.scalars
            and math.isclose(self.number, other.number, rel_tol=1e-6)
        )

    def of(self, node: TileNode) -> Scaled:
        """Another tile times the same scalars."""
        return replace(self, node=node)


def includes(top: Scaled, part: Scaled, extremum: str = "max") -> bool:
    """Whether a tile is a maximum (or minimum) that another one is among, so that it is nowhere less (or more)."""
    top, part = top.opened(), part.opened()
    if top.same(part):
        return True
    node = top.node
    if node.kind == extremum:
        return any(includes(top.of(a), part, extremum) for a in node.args)
    if node.kind == "neg" == part.node.kind:
        other = "min" if extremum == "max" else "max"
        return includes(top.of(node.args[0]), part.of(part.node.args[0]), other)
    if node.kind != "reduce" or node.data[0] != extremum:
        return False
    return includes(top.of(node.args[0]), part, extremum) or (
        includes(top.of(_unmasked(node.args[0], node.data[1])), part, extremum)
    )


def _unmasked(node: TileNode, dim: object) -> TileNode:
    """A tile without the mask of the positions past the end of an axis, at which no result is read."""
    within = getattr(dim, "within", None)
    return node.args[1] if node.kind == "guard" and node.args[0] is within else node


def _plus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b


def _minus(a: float | None) -> float | None:
    return None if a is None else -a


def _most(*bounds: float | None) -> float | None:
    """The largest of some bounds, of which each may be needed."""
    known = [b for b in bounds if b is not None]
    return max(known) if len(known) == len(bounds) else None


def _any(*bounds: float | None) -> float | None:
    """The smallest of some bounds, of which one is enough."""
    return min((b for b in bounds if b is not None), default=None)


def _times(bound: float | None, factor: TileNode) -> float | None:
    """A bound times a positive factor."""
    if bound is not None and factor.value is not None:
        return bound * float(factor.value)
    return None if bound is None or bound > 0 else 0.0


def _lower_of_product(a: TileNode, b: TileNode) -> float | None:
    lowest = _most(_minus(_lower(a)), _minus(_lower(b)))
    return 0.0 if a is b or (lowest is not None and lowest <= 0) else None


def _not_negative(a: TileNode) -> float | None:
    return 0.0 if (_lower(a) or 0.0) >= 0 and _lower(a) is not None else None


_UPPER: Mapping[str, Callable[..., float | None]] = {
    "add": lambda a, b: _plus(_upper(a), _upper(b)),
    "sub": _upper_of_difference,
    "neg": lambda a: _minus(_lower(a)),
    "max": lambda a, b: _most(_upper(a), _upper(b)),
    "min": lambda a, b: _any(_upper(a), _upper(b)),
    "where": lambda c, a, b: _most(_upper(a), _upper(b)),
    "guard": lambda c, a, b: _most(_upper(a), _upper(b)),
    "scaled": lambda a, factor: _times(_upper(a), factor),
    "float": lambda a: _upper(a),
    "relabel": lambda a: _upper(a),
}
_LOWER: Mapping[str, Callable[..., float | None]] = {
    "add": lambda a, b: _plus(_lower(a), _lower(b)),
    "neg": lambda a: _minus(_upper(a)),
    "abs": lambda a: 0.0,
    "exp2": lambda a: 0.0,
    "sqrt": lambda a: 0.0,
    "mul": _lower_of_product,
    "reduce": _not_negative,
    "scaled": lambda a, factor: _minus(_times(_minus(_lower(a)), factor)),
    "float": lambda a: _lower(a),
    "relabel": lambda a: _lower(a),
}
"""Bounds of functions, from those of their arguments."""
