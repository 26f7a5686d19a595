"""The nodes of the expression graph of a kernel, their scopes and dimensions, and what is read off them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from catdiag.category.types import Size
from catdiag.codegen.kernel_tree import PythonStatement
from catdiag.codegen.syntax import PythonExpression
from catdiag.codegen.triton.tile_fills import Fill


@dataclass(eq=False)
class Scope:
    """A block of statements: the body of a kernel, or of a loop in it. The next one is written to the `end`, which is
    the body itself, or that of a condition at its end."""

    parent: Scope | None = None
    body: list[PythonStatement] = field(default_factory=list)
    end: list[PythonStatement] = field(init=False)

    def __post_init__(self) -> None:
        self.end = self.body

    def write(self, *statements: PythonStatement) -> None:
        """Writes statements."""
        self.end += statements

    def taken(self) -> list[PythonStatement]:
        """The statements up to now, after which the scope is empty."""
        found, self.body = self.body, []
        self.end = self.body
        return found

    @property
    def level(self) -> int:
        """How many scopes enclose this one."""
        found, scope = 0, self.parent
        while scope is not None:
            found, scope = found + 1, scope.parent
        return found


@dataclass(eq=False)
class Dim:
    """A dimension of tiles: along `axis`, `block` entries long.

    `size` is the size of the axis, or the symbol of the tile. `within` is the mask of the entries that are in the
    array; None if all are. `exact` is a constant expression of the kernel that says whether all entries are in the
    array; None where they always are. `loop` is the loop whose blocks it runs over, if any.
    """

    axis: str
    size: Size
    block: str
    scope: Scope
    exact: PythonExpression | None = None
    within: TileNode | None = None
    loop: Any = None
    length: int = 0
    """The default length of a block in entries; 0 for a whole axis, whose block has at least 16."""

    @property
    def ragged(self) -> bool:
        """Whether its last tile may reach past the end of the axis."""
        return self.within is not None


@dataclass(eq=False)
class TileNode:
    """An expression: an operation (`kind`) of other nodes (`args`), computed in a `scope`.

    `element` is "real" (float32), "int", "bool", or "raw" for a loaded tile that still has the type of its array.
    `heavy` says that it contains a load, reduction or product. `note` is a comment, `wanted` a preferred name.

    It is a tree, unlike `catdiag.codegen.array_expressions.Value`: what is written of an expression of tiles depends on
    what reads it (masks, fills, the layout of a product's operand), and nodes that are shared get names.
    """

    kind: str
    args: tuple[TileNode, ...]
    dims: tuple[Dim, ...]
    scope: Scope
    element: str
    data: Any = None
    fills: dict[Dim, Fill] = field(default_factory=dict)
    heavy: bool = False
    note: str = ""
    wanted: str = ""

    @property
    def value(self) -> float | int | None:
        """The value of a constant; None for other nodes."""
        return self.data if self.kind == "const" else None


def deepest(scopes: Sequence[Scope]) -> Scope:
    """The innermost of some nested scopes."""
    return max(scopes, key=lambda s: s.level)


def zero_outside(node: TileNode, condition: TileNode) -> bool:
    """Whether a tile was loaded under a condition: it has zeros where that does not hold."""
    while node.kind in ("float", "relabel"):
        (node,) = node.args
    if node.kind != "load":
        return False
    known = list(node.args[2 : 2 + node.data[3]])
    for one in known:
        known += one.args if one.kind == "and" else ()
    needed = [condition]
    for one in needed:
        needed += one.args if one.kind == "and" and one not in known else ()
    return all(one in known or one.kind == "and" for one in needed)


def made_in_registers(node: TileNode, converted: bool) -> bool:
    """Whether a factor is computed, or `converted` to another type after it is loaded."""
    while node.kind == "relabel":
        (node,) = node.args
    return node.kind != "load" or converted


def boxes_of_load(node: TileNode) -> str:
    """The name of the boxes that a factor is read in where the copy engine can, if it is loaded so."""
    while node.kind == "relabel":
        (node,) = node.args
    boxes = node.data[4] if node.kind == "load" else None
    return "" if boxes is None or not boxes.looped else str(boxes.name)


def made_in_loop(node: TileNode, converted: bool) -> bool:
    """Whether a factor, `converted` or not, is computed in a loop of blocks that it loads, and of no product."""
    while node.kind == "relabel":
        (node,) = node.args
    if (node.kind == "load" and not converted) or node.scope.parent is None:
        return False
    stack, seen = [node], {node}
    while stack:
        one = stack.pop()
        if one.kind == "dot":
            return False
        stack += [a for a in one.args if a not in seen]
        seen.update(one.args)
    return True


def summed_factors(node: TileNode) -> tuple[TileNode, TileNode] | None:
    """The tiles x and y if a node is the sum over k of x[i, k] * y[k, j], and neither of integers; else None."""
    (monoid, depth), arg = node.data if node.kind == "reduce" else ("", None), node.args[0] if node.args else node
    if monoid != "sum" or arg.kind != "mul" or arg.element != "real" or len(node.dims) != 2:
        return None
    if any(x.kind == "float" and x.args[0].element == "int" for x in arg.args):
        return None
    rows, columns = node.dims
    pairs = (arg.args, arg.args[::-1])
    return next(((x, y) for x, y in pairs if (set(x.dims), set(y.dims)) == ({rows, depth}, {depth, columns})), None)


def is_outer_product(node: TileNode) -> bool:
    """Whether a tile is written as x[:, :, None] * y[None, :, :], unless its factors are exchanged.

    Of the sum of such a tile along its second axis Triton makes a matrix product in tf32, whose factors have 10 bits of
    fraction (`CombineBroadcastMulReducePattern` in its `Combine.cpp`). It does not look for y[None, :, :] first.
    """
    if node.kind != "mul" or len(node.dims) != 3 or node.element != "real":
        return False
    first, last = node.dims[0], node.dims[-1]
    left, right = node.args
    return last not in left.dims and first in left.dims and first not in right.dims and last in right.dims


def permutes_sums(node: TileNode, first: Sequence[Dim], second: Sequence[Dim]) -> bool:
    """Whether a computed factor has the dimensions of its second side, then those of its first in another order."""
    while node.kind == "relabel":
        (node,) = node.args
    count = len(second)
    return (
        node.kind not in ("load", "dot") and node.dims[:count] == tuple(second)
        and node.dims[count:] != tuple(first) and set(node.dims[count:]) == set(first)
    )  # fmt: skip


def natural(node: TileNode, starts: bool = True) -> bool:
    """Whether an integer is known to be nonnegative; False where this is not seen, as of `starts` of tiles if asked."""
    if node.value is not None:
        return node.value >= 0
    if node.kind == "arange" or (node.kind == "symbol" and any(node.data[1:] if starts else node.data[1:2])):
        return True
    if node.kind == "max":
        return any(natural(a, starts) for a in node.args)
    kinds = ("add", "mul", "min", "floordiv", "long", "relabel")
    return node.kind in kinds and all(natural(a, starts) for a in node.args)


def terms(node: TileNode, sign: str = "add") -> list[tuple[str, TileNode]]:
    """An integer as signed terms: ("add", term) and ("sub", term)."""
    if node.kind in ("add", "sub"):
        other = {"add": "sub", "sub": "add"}[sign] if node.kind == "sub" else sign
        return [*terms(node.args[0], sign), *terms(node.args[1], other)]
    return [] if node.value == 0 else [(sign, node)]


def reached(roots: Sequence[TileNode], stop: Collection[str] = (), conditions: bool = True) -> dict[TileNode, None]:
    """The nodes on which `roots` depend, themselves included: not through nodes of the kinds `stop`, nor, without
    `conditions`, through the condition of a selection."""
    found: dict[TileNode, None] = {}
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node not in found:
            found[node] = None
            if node.kind not in stop:
                stack += node.args if conditions or node.kind not in ("where", "guard") else node.args[1:]
    return found


def from_array(place: TileNode) -> bool:
    """Whether an index depends on entries of an array, so that it may be out of range."""
    return any(node.kind == "load" for node in reached([place]))
