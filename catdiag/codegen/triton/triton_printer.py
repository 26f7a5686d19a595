"""Prints expression nodes as Triton source.

A node that is used once is inlined where it is used; any other node gets a name in its scope. `HELPERS` are functions
of the generated module that printed expressions call.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from catdiag.codegen.dialect import TileDialect, shape_of
from catdiag.codegen.notation import AND, ATOM, CALL, PLUS, SIGN, TIMES, Text, bracketed, grouped, written
from catdiag.codegen.triton.tile_expressions import Dim, Scope, TileNode, natural
from catdiag.codegen.triton.triton_dialect import TRITON
from catdiag.util.errors import TypeMismatch

_HEAVY = ("load", "dot", "guard")
_LONGEST = 80


class TritonPrinter:
    """Writes nodes into the lines of their scopes.

    `fresh` gives unused names. `element` gives the types to which factors of a matrix product are converted, and
    `precision` its precision argument.
    """

    def __init__(
        self,
        fresh: Callable[[str], str],
        element: Callable[[TileNode, TileNode], tuple[str | None, str | None]],
        precision: Callable[[TileNode, TileNode], str] = lambda a, b: "",
        dialect: TileDialect = TRITON,
    ) -> None:
        self.dialect, self.tl = dialect, dialect.module
        self.fresh = fresh
        self.element = element
        self.precision = precision
        self.names: dict[TileNode, str] = {}
        self.uses: dict[TileNode, int] = {}
        self.counted: set[TileNode] = set()
        self.helpers: set[str] = set()
        self.summed_products: set[TileNode] = set()
        """Products of tiles that are printed together with the sum over them."""
        self.twins: dict[TileNode, TileNode] = {}
        self.lefts: dict[tuple[str, ...], None] = {}

    # -- names -------------------------------------------------------------------------------------------

    def count(self, roots: Iterable[TileNode]) -> None:
        """Counts the uses of nodes, which must be done before they are printed."""
        stack = list(roots)
        for root in stack:
            self.uses[root] = self.uses.get(root, 0) + 1
        while stack:
            node = stack.pop()
            if node in self.counted:
                continue
            self.counted.add(node)
            if _factors(node) is not None:
                self.summed_products.add(node.args[0])
            for arg in node.args:
                self.uses[arg] = self.uses.get(arg, 0) + 1
                stack.append(arg)

    def ref(self, node: TileNode, scope: Scope, bare: bool = False) -> Text:
        """The expression by which a scope reads a node: its name, or its text if it is inlined (always if `bare`)."""
        stack: list[tuple[TileNode, Scope, bool]] = [(node, scope, False)]
        while stack:  # arguments are named first, so that expressions never nest deeply
            item, where, ready = stack.pop()
            if item in self.names or item.kind in ("const", "symbol"):
                continue
            if ready:
                if (item is not node or not bare) and self._named(item, where):
                    self.name(item)
                continue
            stack.append((item, where, True))
            stack += [(a, item.scope, False) for a in reversed(item.args)]
        return self.plain(node)

    def _named(self, node: TileNode, where: Scope) -> bool:
        """Whether a node gets a name where it is read in a scope."""
        if node.kind == "guard":
            return True
        if node.wanted and node.kind != "load":
            return True
        if node.kind == "relabel":
            return False
        if (node.kind == "dot" and self._absorbed(node)) or self._only_summed(node):
            return False
        if node.kind in _HEAVY or (self.uses.get(node, 0) > 1 and self._worth(node)):
            return True
        if node.scope is not where and self._worth(node):
            return True
        return len(self.text(node)[0]) > _LONGEST

    def _worth(self, node: TileNode) -> bool:
        """Whether a node is worth a name if it is read several times or in another scope."""
        return node.kind not in ("arange", "long") or self.uses.get(node, 0) > 1

    def _absorbed(self, dot: TileNode) -> bool:
        """Whether a product is printed together with the sum that it accumulates into."""
        return self.uses.get(dot, 0) == 1 and dot in self.accumulated

    def _only_summed(self, node: TileNode) -> bool:
        """Whether a product of tiles is printed together with the sum over it."""
        return self.uses.get(node, 0) == 1 and node in self.summed_products

    accumulated: frozenset[TileNode] = frozenset()

    def accumulate(self, roots: Iterable[TileNode]) -> None:
        """Finds the matrix products that can accumulate into another term of a sum: tl.dot(a, b, acc)."""
        found = set(self.accumulated)
        seen: set[TileNode] = set()
        stack = list(roots)
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            stack += node.args
            if node.kind == "add":
                for a, b in (node.args, node.args[::-1]):
                    if a.kind == "dot" and set(a.dims) == set(b.dims) and self.uses.get(a, 0) == 1 and b.kind != "dot":
                        found.add(a)
                        break
        self.accumulated = frozenset(found)

    def plain(self, node: TileNode) -> Text:
        """The name of a node, or its text if it has none."""
        name = self.names.get(node)
        return (name, ATOM) if name is not None else self.text(node)

    def name(self, node: TileNode, wanted: str = "") -> str:
        """Gives a node a name, and writes its assignment."""
        if node.kind == "guard":
            return self._guard(node, wanted)
        boxed = node.kind == "load" and node.data[4] is not None and node.data[4].looped
        if boxed and not self._also_operand(node):
            return self._boxed(node, wanted)
        text = self.text(node)[0]
        name = self.fresh(wanted or node.wanted or _base(node))
        self.write(node.scope, f"{name} = {text}", node.note)
        self.names[node] = name
        return name

    def _boxed(self, node: TileNode, wanted: str) -> str:
        """A load by a tensor descriptor, with a plain load for the case that the launch passes no descriptor."""
        boxes, count = node.data[4], node.data[3]
        starts = node.args[2 + count :]
        name = self.fresh(wanted or node.wanted)
        places = [self.plain(a)[0] for a in starts]
        shape = "" if len(node.dims) == len(starts) else f".reshape({tile_shape(node.dims)})"
        self.write(node.scope, f"if {boxes.name} is not None:")
        text = f"{boxes.name}.load([{', '.join(places)}]){shape}"
        if node.data[5] == "registers":
            self.helpers.add("_in_registers")
            own = " * ".join(node.data[6])
            unlike = "".join(f" and {own} != {' * '.join(left)}" for left in self.lefts)
            text = f"_in_registers({text}, in_registers{unlike})"
        self.write(node.scope, f"    {name} = {text}")
        self.write(node.scope, "else:")
        self.write(node.scope, f"    {name} = {self._load(node)}", node.note)
        self.names[node] = name
        return name

    def _guard(self, node: TileNode, wanted: str) -> str:
        """Assigns a masked value; the mask is applied only where the constant of the guard is false."""
        condition, value, other = node.args
        exact = _exact(*node.data)
        name = self.fresh(wanted or node.wanted or "t")
        before = self.aligned(value, node.dims)
        self.write(node.scope, f"{name} = {before[0]}")
        chosen = (
            f"{self.tl}.where({self.aligned(condition, node.dims)[0]}, {name}, {self.aligned(other, node.dims)[0]})"
        )
        if node.element == "raw":
            chosen += f".to({name}.dtype)"
        self.write(node.scope, f"if not ({exact}):")
        self.write(node.scope, f"    {name} = {chosen}", node.note)
        self.names[node] = name
        return name

    def write(self, scope: Scope, line: str, note: str = "") -> None:
        """Writes a line at the depth of a scope, with a comment."""
        line = "    " * scope.depth + line
        if note and len(line) + len(note) >= 116:
            scope.lines.append(f"{line[: len(line) - len(line.lstrip())]}# {note}")
        elif note:
            line = f"{line}  # {note}"
        scope.lines.append(line)

    # -- texts -------------------------------------------------------------------------------------------

    def text(self, node: TileNode) -> Text:
        """The expression of a node, with its operator precedence."""
        kind = node.kind
        if kind == "const":
            return _number(node, self.tl)
        if kind == "symbol":
            return node.data[0], ATOM
        if kind == "arange":
            return written(self.dialect.positions, [(node.dims[0].block, ATOM)])
        if kind == "relabel":
            return self.plain(node.args[0])
        if kind == "long":
            return f"{self.tl}.cast({self.plain(node.args[0])[0]}, {self.tl}.int64)", ATOM
        if kind == "whole":
            return f"{bracketed(self.plain(node.args[0]), CALL)}.to({self.tl}.int32)", ATOM
        if kind == "float":
            text = self.plain(node.args[0])
            if node.args[0].dims or node.args[0].element == "raw":
                return f"{bracketed(text, CALL)}.to({self.tl}.float32)", ATOM
            return f"{bracketed(text, TIMES)} * 1.0", TIMES
        if kind == "cast":
            target = {"bf16": "bfloat16", "fp16": "float16", "fp8": "float8e4nv"}.get(node.data, "float32")
            value = bracketed(self.plain(node.args[0]), CALL)
            return f"{value}.to({self.tl}.{target}).to({self.tl}.float32)", ATOM
        if kind == "spread":
            return written(
                self.dialect.broadcast, [self.aligned(node.args[0], node.dims), (tile_shape(node.dims), ATOM)]
            )
        if kind == "add" and any(a in self.accumulated and a not in self.names for a in node.args):
            dot, other = sorted(node.args, key=lambda a: a not in self.accumulated)
            return self.permuted(self._dot(dot, other), dot.dims, node.dims)
        if kind == "floordiv" and self._natural_quotient(node):
            return written(grouped("//", TIMES), [self.aligned(x, node.dims) for x in node.args])
        if kind in self.dialect.functions:
            self._helped(kind)
            operands = node.args[::-1] if _outer_product(node) else node.args
            return self.dialect.applied(kind, [self.aligned(x, node.dims) for x in operands])
        if kind == "reduce":
            return self._reduce(node)
        if kind == "load":
            return self._load(node), ATOM
        if kind == "dot":
            return self._dot(node, None)
        raise TypeMismatch(f"the operation {kind} cannot be written in Triton: expected one of the library's functions")

    def _natural_quotient(self, node: TileNode) -> bool:
        """Whether a quotient is known to be one of a natural number and a positive one, which `//` rounds down."""
        number, by = node.args
        sure = (by.value is not None and by.value > 0) or (by.kind == "symbol" and by.data[1])
        return bool(sure) and natural(number)

    def _reduce(self, node: TileNode) -> Text:
        (arg,) = node.args
        factors = _factors(node)
        if factors is None or not self._only_summed(arg) or arg in self.names:
            return self._reduced(node, arg.dims.index(node.data[1]))
        self.helpers.add("_sum_of_products")
        (rows, columns), depth = node.dims, node.data[1]
        texts = (self.aligned(x, dims)[0] for x, dims in zip(factors, ((rows, depth), (depth, columns)), strict=True))
        return f"_sum_of_products({', '.join(texts)})", ATOM

    def _reduced(self, node: TileNode, axis: int) -> Text:
        monoid, (arg,) = node.data[0], node.args
        self._helped(monoid)
        return self.dialect.reduced(monoid, self.plain(arg), str(axis))

    def _helped(self, operation: str) -> None:
        """Notes the helper function that the notation of a function or monoid calls."""
        if operation in self.dialect.helpers:
            self.helpers.add(self.dialect.helpers[operation])

    def _load(self, node: TileNode) -> str:
        """A load by pointers, with a mask where entries may be outside the array."""
        array, exact, guarded, count = node.data[:4]
        scalar, tiled, *rest = node.args
        conditions = rest[:count]
        parts = [array.name]
        for part in (scalar, tiled):
            if part.value != 0:
                parts.append(bracketed(self.aligned(part, node.dims if part.dims else ()), PLUS))
        place = " + ".join(parts)
        if node.dims and not tiled.dims:
            place = f"{place} + {self.tl}.zeros({tile_shape(node.dims)}, {self.tl}.int32)"
        narrow = f".to({self.tl}.int32)" if node.element == "int" else ""
        if self._also_operand(node):
            inside = f", mask={self._all(conditions, node.dims)}, other=0.0" if conditions else ""
            return f'{self.tl}.load({place}{inside}, eviction_policy="evict_last"){narrow}'
        if not conditions:
            return f"{self.tl}.load({place}){narrow}"
        inside = self._all(conditions, node.dims)
        tests = list(dict.fromkeys(_exact(text, loop, AND) for text, loop in exact))
        if guarded or "False" in tests:
            return f"{self.tl}.load({place}, mask={inside}, other=0.0){narrow}"
        self.helpers.add("_load")
        return f"_load{self.dialect.own}({place}, {inside}, {' and '.join(tests)}){narrow}"

    def _also_operand(self, node: TileNode) -> bool:
        """Whether a block is also loaded as an operand of a matrix product, and must stay a separate load."""
        twin = self.twins.get(node)
        return twin is not None and twin in self.uses

    def _all(self, conditions: Sequence[TileNode], dims: Sequence[Dim]) -> str:
        own = {d for c in conditions for d in c.dims}
        shown = tuple(d for d in dims if d in own)
        texts = [bracketed(self.aligned(c, dims), AND + 1) for c in conditions]
        return self.conjunction(texts, tuple(dims), shown)

    def conjunction(self, texts: list[str], dims: tuple[Dim, ...], shown: tuple[Dim, ...]) -> str:
        """The conjunction of the conditions of a mask, over all dimensions of a tile."""
        joined = " & ".join(texts)
        return joined if len(shown) == len(dims) else f"{self.tl}.broadcast_to({joined}, {tile_shape(dims)})"

    def inside(self, dims: Sequence[Dim], scope: Scope) -> str:
        """The mask of the entries of a tile that are in the array; empty where all are."""
        conditions = [d.within for d in dims if d.within is not None]
        for c in conditions:
            self.ref(c, scope)
        return self._all(conditions, dims) if conditions else ""

    # -- products of matrices --------------------------------------------------------------------------------

    def _dot(self, node: TileNode, acc: TileNode | None) -> Text:
        batch, rows, columns, summed = node.data
        a, b = node.args
        kinds = self.element(a, b)
        left = self._matrix(a, batch, rows, summed, kinds[0])
        right = self._matrix(b, batch, summed, columns, kinds[1])
        flat = _flat(batch, rows, columns)
        start = ""
        if acc is not None:
            text = self.aligned(acc, node.dims)
            start = f", {self._reshaped(text, node.dims, flat)[0]}"
        made = f"tl.dot({left}, {right}{start}{self.precision(a, b)})", ATOM
        if len(flat) == len(node.dims):
            return made
        return f"tl.reshape({made[0]}, {tile_shape(node.dims)})", ATOM

    def _matrix(
        self, node: TileNode, batch: Sequence[Dim], first: Sequence[Dim], second: Sequence[Dim], kind: str | None
    ) -> str:
        """A factor of a product as a matrix (or a batch of them), with sides `first` and `second`, converted to `kind`.

        A factor whose sides are in the other order is transposed.
        """
        order, transposed = (*batch, *first, *second), (*batch, *second, *first)
        flat = _flat(batch, first, second)
        if node.dims == transposed and len(flat) == 2:
            # Reshaped to a matrix before it is transposed: Triton 3.6 does not compile every transposed reshape.
            self.helpers.add("_transposed")
            text = self._reshaped(self.plain(node), transposed, _flat(second, first))
            text = f"_transposed({text[0]}, compiled)", ATOM
        elif node.dims == transposed and len(first) + len(second) > 2:
            text = self._reshaped(self.plain(node), transposed, _flat(batch, second, first))
            text = f"tl.permute({text[0]}, (0, 2, 1))", ATOM
        else:
            text = self.permuted(self.plain(node), node.dims, order)
            text = self._reshaped(text, order, flat)
        if kind is not None:
            text = f"{bracketed(text, CALL)}.to({kind})", ATOM
        return text[0]

    def _reshaped(self, text: Text, dims: Sequence[Dim], flat: Sequence[str]) -> Text:
        return text if len(flat) == len(dims) else (f"tl.reshape({text[0]}, ({', '.join(flat)}))", ATOM)

    def permuted(self, text: Text, dims: Sequence[Dim], order: Sequence[Dim]) -> Text:
        """A tile with its dimensions in another order."""
        return self.dialect.permuted(text, dims, order)

    def aligned(self, node: TileNode, dims: Sequence[Dim]) -> Text:
        """The expression of a node, expanded so that it broadcasts by position against tiles over `dims`."""
        return self.dialect.aligned(self.plain(node), node.dims, dims)


def _factors(node: TileNode) -> tuple[TileNode, TileNode] | None:
    """The tiles x and y if a node is the sum over k of x[i, k] * y[k, j], and neither of integers; else None."""
    (monoid, depth), arg = node.data if node.kind == "reduce" else ("", None), node.args[0] if node.args else node
    if monoid != "sum" or arg.kind != "mul" or arg.element != "real" or len(node.dims) != 2:
        return None
    if any(x.kind == "float" and x.args[0].element == "int" for x in arg.args):
        return None
    rows, columns = node.dims
    pairs = (arg.args, arg.args[::-1])
    return next(((x, y) for x, y in pairs if (set(x.dims), set(y.dims)) == ({rows, depth}, {depth, columns})), None)


def _outer_product(node: TileNode) -> bool:
    """Whether a tile is written as x[:, :, None] * y[None, :, :], unless its factors are exchanged.

    Of the sum of such a tile along its second axis Triton makes a matrix product in tf32, whose factors have 10 bits of
    fraction (`CombineBroadcastMulReducePattern` in its `Combine.cpp`). It does not look for y[None, :, :] first.
    """
    if node.kind != "mul" or len(node.dims) != 3 or node.element != "real":
        return False
    first, last = node.dims[0], node.dims[-1]
    left, right = node.args
    return last not in left.dims and first in left.dims and first not in right.dims and last in right.dims


def _exact(text: str, loop: Any, level: int = 0) -> str:
    """The constant expression under which a mask is not needed: in a phase of whole blocks, or if `text` holds."""
    if loop is None:
        return text
    if not text:
        return str(loop.exact)
    return f"({loop.exact} or {text})" if level else f"{loop.exact} or {text}"


def _flat(*parts: Sequence[Dim]) -> list[str]:
    """The shape of a matrix: the product of the lengths of each group of dimensions that is not empty."""
    return [" * ".join(d.block for d in p) for p in parts if p]


def tile_shape(dims: Sequence[Dim]) -> str:
    """The shape of a tile."""
    return shape_of([d.block for d in dims])


def _base(node: TileNode) -> str:
    if node.kind in ("arange", "add", "sub") and len(node.dims) == 1 and node.element == "int":
        axis = re.sub(r"\W+", "_", node.dims[0].axis).strip("_") or "i"
        return f"{axis}_at" if axis.isidentifier() else f"i{axis}_at"
    return "t"


def _number(node: TileNode, tl: str) -> Text:
    value: Any = node.data
    if node.element == "bool":
        return f"{tl}.full([], {int(value)}, {tl}.int1)", ATOM
    if node.element == "int":
        return str(int(value)), ATOM if value >= 0 else SIGN
    if math.isinf(value):
        return ('float("inf")', ATOM) if value > 0 else ('float("-inf")', ATOM)
    return repr(float(value)), ATOM if value >= 0 else SIGN
