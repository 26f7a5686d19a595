"""Writes expression nodes as Triton.

A node that is used once is inlined where it is used; any other node gets a name in its scope. `HELPERS` are functions
of the generated module that printed expressions call.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from catdiag.codegen.dialect import TileDialect
from catdiag.codegen.kernel_tree import Assign, If
from catdiag.codegen.notation import grouped, written
from catdiag.codegen.syntax import (
    AND,
    PLUS,
    TIMES,
    Attribute,
    ListOf,
    Logical,
    Name,
    Number,
    Parens,
    PythonExpression,
    TupleOf,
    Unary,
    bracketed,
    call,
    compared,
    dotted,
    joined,
    joined_all,
    length_of,
    method,
)
from catdiag.codegen.triton.edge_masks import unmasked_where
from catdiag.codegen.triton.tile_nodes import (
    Dim,
    Scope,
    TileNode,
    boxes_of_load,
    is_outer_product,
    made_in_loop,
    made_in_registers,
    natural,
    permutes_sums,
    summed_factors,
)
from catdiag.codegen.triton.triton_dialect import TRITON
from catdiag.util.errors import TypeMismatch

_HEAVY = ("load", "dot", "guard")
_LONGEST = 80


class TritonPrinter:
    """Writes nodes into the statements of their scopes.

    `fresh` gives unused names. `element` gives the types to which factors of a matrix product are converted, and
    `precision` its precision argument.
    """

    def __init__(
        self,
        fresh: Callable[[str], str],
        element: Callable[[TileNode, TileNode], tuple[PythonExpression | None, PythonExpression | None]],
        precision: Callable[[TileNode, TileNode], Mapping[str, PythonExpression]] = lambda a, b: {},
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

    def still_reads(self, node: TileNode, state: TileNode) -> bool:
        """Whether the part of a node that is not written yet reads a state."""
        stack, seen = [node], set()
        while stack:
            item = stack.pop()
            if item is state:
                return True
            if item in seen or (item in self.names and item is not node):
                continue
            seen.add(item)
            stack += item.args
        return False

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
            if summed_factors(node) is not None:
                self.summed_products.add(node.args[0])
            for arg in node.args:
                self.uses[arg] = self.uses.get(arg, 0) + 1
                stack.append(arg)

    def ref(self, node: TileNode, scope: Scope, bare: bool = False) -> PythonExpression:
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
        return len(str(self.expression(node))) > _LONGEST

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

    def plain(self, node: TileNode) -> PythonExpression:
        """The name of a node, or its expression if it has none."""
        name = self.names.get(node)
        return Name(name) if name is not None else self.expression(node)

    def name(self, node: TileNode, wanted: str = "") -> str:
        """Gives a node a name, and writes its assignment."""
        if node.kind == "guard":
            return self._guard(node, wanted)
        boxed = node.kind == "load" and node.data[4] is not None and node.data[4].looped
        if boxed and not self._also_operand(node):
            return self._boxed(node, wanted)
        value = self.expression(node)
        name = self.fresh(wanted or node.wanted or _base(node))
        node.scope.write(Assign((Name(name),), value, note=node.note))
        self.names[node] = name
        return name

    def _boxed(self, node: TileNode, wanted: str) -> str:
        """A load by a tensor descriptor, with a plain load for the case that the launch passes no descriptor."""
        boxes, count = node.data[4], node.data[3]
        starts = node.args[2 + count :]
        name = self.fresh(wanted or node.wanted)
        value: PythonExpression = method(Name(boxes.name), "load", ListOf(tuple(self.plain(a) for a in starts)))
        if len(node.dims) != len(starts):
            value = method(value, "reshape", tile_shape(node.dims))
        if node.data[5] == "registers":
            self.helpers.add("_in_registers")
            own = _product(node.data[6])
            unlike = [compared(own, "!=", _product(left)) for left in self.lefts]
            chosen = Logical("and", (Name("in_registers"), *unlike)) if unlike else Name("in_registers")
            value = call("_in_registers", value, chosen)
        target = (Name(name),)
        passed = compared(Name(boxes.name), "is not", Number(None))
        plain = Assign(target, self._load(node, boxes.name), note=node.note)
        node.scope.write(If(passed, [Assign(target, value)], [plain]))
        self.names[node] = name
        return name

    def _guard(self, node: TileNode, wanted: str) -> str:
        """Assigns a masked value; the mask is applied only where the constant of the guard is false."""
        condition, value, other = node.args
        exact = unmasked_where(*node.data)
        name = self.fresh(wanted or node.wanted or "t")
        target = Name(name)
        node.scope.write(Assign((target,), self.aligned(value, node.dims)))
        sides = (self.aligned(condition, node.dims), target, self.aligned(other, node.dims))
        chosen = call(f"{self.tl}.where", *sides)
        if node.element == "raw":
            chosen = method(chosen, "to", Attribute(target, "dtype"))
        node.scope.write(If(Unary("not", Parens(exact)), [Assign((target,), chosen, note=node.note)]))
        self.names[node] = name
        return name

    # -- expressions -------------------------------------------------------------------------------------

    def expression(self, node: TileNode) -> PythonExpression:
        """The expression of a node. Raises TypeMismatch for an operation that Triton cannot be told."""
        kind = node.kind
        if kind == "const":
            return _number(node, self.tl)
        if kind == "symbol":
            return Name(node.data[0])
        if kind == "arange":
            return written(self.dialect.positions, [length_of(node.dims[0].block)])
        if kind == "relabel":
            return self.plain(node.args[0])
        if kind == "long":
            return call(f"{self.tl}.cast", self.plain(node.args[0]), dotted(f"{self.tl}.int64"))
        if kind == "whole":
            return method(self.plain(node.args[0]), "to", dotted(f"{self.tl}.int32"))
        if kind == "float":
            value = self.plain(node.args[0])
            if node.args[0].dims or node.args[0].element == "raw":
                return method(value, "to", dotted(f"{self.tl}.float32"))
            return joined(bracketed(value, TIMES), "*", Number(1.0))
        if kind == "cast":
            target = {"bf16": "bfloat16", "fp16": "float16", "fp8": "float8e4nv"}.get(node.data, "float32")
            narrow = method(self.plain(node.args[0]), "to", dotted(f"{self.tl}.{target}"))
            return method(narrow, "to", dotted(f"{self.tl}.float32"))
        if kind == "exchanged":
            return self._exchanged(node)
        if kind == "spread":
            return written(self.dialect.broadcast, [self.aligned(node.args[0], node.dims), tile_shape(node.dims)])
        if kind == "add" and any(a in self.accumulated and a not in self.names for a in node.args):
            dot, other = sorted(node.args, key=lambda a: a not in self.accumulated)
            return self.permuted(self._dot(dot, other), dot.dims, node.dims)
        if kind == "floordiv" and self._natural_quotient(node):
            return written(grouped("//", TIMES), [self.aligned(x, node.dims) for x in node.args])
        if kind in self.dialect.functions:
            self._helped(kind)
            operands = node.args[::-1] if is_outer_product(node) else node.args
            return self.dialect.applied(kind, [self.aligned(x, node.dims) for x in operands])
        if kind == "reduce":
            return self._reduce(node)
        if kind == "load":
            return self._load(node)
        if kind == "dot":
            return self._dot(node, None)
        raise TypeMismatch(f"the operation {kind} cannot be written in Triton: expected one of the library's functions")

    def _exchanged(self, node: TileNode) -> PythonExpression:
        """A tile with the halves of a dimension exchanged: no instruction is needed where a thread has both."""
        (arg,), axis = node.args, node.dims.index(node.data)
        half, found = int(node.data.block) // 2, self.aligned(arg, node.dims)
        if half == 1:
            return call(f"{self.tl}.flip", found, Number(axis))
        lengths = [length_of(d.block) for d in node.dims]
        halves = TupleOf((*lengths[:axis], Number(2), Number(half), *lengths[axis + 1 :]))
        flipped = call(f"{self.tl}.flip", call(f"{self.tl}.reshape", found, halves), Number(axis))
        return call(f"{self.tl}.reshape", flipped, TupleOf(tuple(lengths)))

    def _natural_quotient(self, node: TileNode) -> bool:
        """Whether a quotient is known to be one of a natural number and a positive one, which `//` rounds down."""
        number, by = node.args
        sure = (by.value is not None and by.value > 0) or (by.kind == "symbol" and by.data[1])
        return bool(sure) and natural(number, starts=False)  # else loads are copied ahead of which that is not said

    def _reduce(self, node: TileNode) -> PythonExpression:
        (arg,) = node.args
        factors = summed_factors(node)
        if factors is None or not self._only_summed(arg) or arg in self.names:
            return self._reduced(node, arg.dims.index(node.data[1]))
        self.helpers.add("_sum_of_products")
        (rows, columns), depth = node.dims, node.data[1]
        sides = (self.aligned(x, dims) for x, dims in zip(factors, ((rows, depth), (depth, columns)), strict=True))
        return call("_sum_of_products", *sides)

    def _reduced(self, node: TileNode, axis: int) -> PythonExpression:
        monoid, (arg,) = node.data[0], node.args
        self._helped(monoid)
        return self.dialect.reduced(monoid, self.plain(arg), Number(axis))

    def _helped(self, operation: str) -> None:
        """Notes the helper function that the notation of a function or monoid calls."""
        if operation in self.dialect.helpers:
            self.helpers.add(self.dialect.helpers[operation])

    def _load(self, node: TileNode, descriptor: str = "") -> PythonExpression:
        """A load by pointers, with a mask where entries may be outside the array, perhaps in the place of another."""
        array, exact, guarded, count = node.data[:4]
        scalar, tiled, *rest = node.args
        conditions = rest[:count]
        parts: list[PythonExpression] = [Name(array.name)]
        for part in (scalar, tiled):
            if part.value != 0:
                parts.append(bracketed(self.aligned(part, node.dims if part.dims else ()), PLUS))
        if node.dims and not tiled.dims:
            parts.append(call(f"{self.tl}.zeros", tile_shape(node.dims), dotted(f"{self.tl}.int32")))
        place = joined_all("+", parts)
        inside = self._all(conditions, node.dims) if conditions else None
        mask = {} if inside is None else {"mask": inside, "other": Number(0.0)}
        if self._also_operand(node):
            found = call(f"{self.tl}.load", place, **mask, eviction_policy=Number("evict_last"))
        elif inside is None or guarded or any(given == Number(False) for given, _ in exact):
            found = call(f"{self.tl}.load", place, **mask)
        else:
            self.helpers.add("_load")
            tests = list(dict.fromkeys(unmasked_where(given, loop, True, descriptor) for given, loop in exact))
            exactly = Logical("and", tuple(tests)) if len(tests) > 1 else tests[0]
            found = call(f"_load{self.dialect.own}", place, inside, exactly)
        return method(found, "to", dotted(f"{self.tl}.int32")) if node.element == "int" else found

    def _also_operand(self, node: TileNode) -> bool:
        """Whether a block is also loaded as an operand of a matrix product, and must stay a separate load."""
        twin = self.twins.get(node)
        return twin is not None and twin in self.uses

    def _all(self, conditions: Sequence[TileNode], dims: Sequence[Dim]) -> PythonExpression:
        own = {d for c in conditions for d in c.dims}
        shown = tuple(d for d in dims if d in own)
        parts = [bracketed(self.aligned(c, dims), AND + 1) for c in conditions]
        return self.conjunction(joined_all("&", parts), tuple(dims), shown)

    def conjunction(
        self, condition: PythonExpression, dims: tuple[Dim, ...], shown: tuple[Dim, ...]
    ) -> PythonExpression:
        """The condition of a mask, over all dimensions of a tile."""
        return condition if len(shown) == len(dims) else call(f"{self.tl}.broadcast_to", condition, tile_shape(dims))

    def all_of(self, conditions: Sequence[TileNode], dims: Sequence[Dim], scope: Scope) -> PythonExpression | None:
        """The mask of the entries of a tile for which all conditions hold; None where there are no conditions."""
        for c in conditions:
            self.ref(c, scope)
        return self._all(conditions, dims) if conditions else None

    # -- products of matrices --------------------------------------------------------------------------------

    def _dot(self, node: TileNode, acc: TileNode | None) -> PythonExpression:
        batch, rows, columns, _ = node.data
        flat = _flat(batch, rows, columns)
        if acc is None:
            made = self.product(node)
        else:
            made = self.product(node, self._reshaped(self.aligned(acc, node.dims), node.dims, flat))
        # Triton 3.6 does not compile a sum of products that is reshaped in a loop and not permuted, unless each is
        # complete before the next one begins.
        merged = len(flat) != len(node.dims)
        if acc is not None and merged and acc.dims == node.dims:
            made = self._completed(made)
        return made if not merged else call("tl.reshape", made, tile_shape(node.dims))

    def product(self, node: TileNode, accumulator: PythonExpression | None = None) -> PythonExpression:
        """A product as a matrix (or a batch of them), added to `accumulator` if there is one."""
        batch, rows, columns, summed = node.data
        a, b = node.args
        kinds = self.element(a, b)
        left = self._matrix(a, batch, rows, summed, kinds[0])
        right = self._matrix(b, batch, summed, columns, kinds[1])
        start, precision = () if accumulator is None else (accumulator,), self.precision(a, b)
        single = bool(batch) and all(d.length == 1 for d in batch) and not (start or precision)
        of_registers = not precision and (single or not batch) and made_in_registers(a, kinds[0] is not None)
        total: tuple[PythonExpression, ...] = start
        function = "tl.dot"
        if of_registers:
            self.helpers.add(function := "_dot_of_registers")
            total = start or (Number(None),)
            if b.scope.parent is not None and not made_in_registers(b, kinds[1] is not None) and not single:
                boxes = boxes_of_load(b)  # which are copied to one of several places in each iteration
                total += (compared(Name(boxes), "is", Number(None)),) if boxes else ()
        if single:
            self.helpers.add(function := "_batched_dot_of_registers" if of_registers else "_batched_dot")
            total = ()
        made = call(function, left, right, *total, **precision)
        return self._completed(made) if start and made_in_loop(a, kinds[0] is not None) else made

    def _completed(self, product: PythonExpression) -> PythonExpression:
        self.helpers.add("_completed")
        return call("_completed", product, Name("compiled"))

    def as_matrix(self, tile: PythonExpression, dims: Sequence[Dim], product: TileNode) -> PythonExpression:
        """A tile over `dims` in the shape in which a product is added to it."""
        batch, rows, columns, _ = product.data
        return self._reshaped(self.permuted(tile, dims, product.dims), product.dims, _flat(batch, rows, columns))

    def from_matrix(self, matrix: PythonExpression, product: TileNode, dims: Sequence[Dim]) -> PythonExpression:
        """The tile over `dims` that is in the shape of a product."""
        return self.permuted(call("tl.reshape", matrix, tile_shape(product.dims)), product.dims, dims)

    def merges(self, product: TileNode) -> bool:
        """Whether a side of a product as a matrix has several dimensions."""
        return any(len(side) > 1 for side in product.data[:3])

    def _matrix(
        self,
        node: TileNode,
        batch: Sequence[Dim],
        first: Sequence[Dim],
        second: Sequence[Dim],
        kind: PythonExpression | None,
    ) -> PythonExpression:
        """A factor of a product as a matrix (or a batch of them), with sides `first` and `second`, converted to `kind`.

        A factor whose sides are in the other order is transposed.
        """
        order, transposed = (*batch, *first, *second), (*batch, *second, *first)
        flat = _flat(batch, first, second)
        permuted = permutes_sums(node, first, second)
        if (permuted or node.dims == transposed) and len(flat) == 2:
            # Reshaped to a matrix before it is transposed: Triton 3.6 does not compile every transposed reshape.
            self.helpers.add("_transposed")
            found = self.plain(node)
            if permuted:  # narrowed before entries move between threads
                narrow, kind = found if kind is None else method(found, "to", kind), None
                found = self.permuted(narrow, node.dims, transposed)
            found = call("_transposed", self._reshaped(found, transposed, _flat(second, first)), Name("compiled"))
        elif node.dims == transposed and len(first) + len(second) > 2:
            found = self._reshaped(self.plain(node), transposed, _flat(batch, second, first))
            found = call("tl.permute", found, TupleOf((Number(0), Number(2), Number(1))))
        else:
            found = self.permuted(self.plain(node), node.dims, order)
            found = self._reshaped(found, order, flat)
        return found if kind is None else method(found, "to", kind)

    def _reshaped(
        self, of: PythonExpression, dims: Sequence[Dim], flat: Sequence[PythonExpression]
    ) -> PythonExpression:
        return of if len(flat) == len(dims) else call("tl.reshape", of, TupleOf(tuple(flat)))

    def permuted(self, of: PythonExpression, dims: Sequence[Dim], order: Sequence[Dim]) -> PythonExpression:
        """A tile with its dimensions in another order."""
        return self.dialect.permuted(of, dims, order)

    def aligned(self, node: TileNode, dims: Sequence[Dim]) -> PythonExpression:
        """The expression of a node, expanded so that it broadcasts by position against tiles over `dims`."""
        return self.dialect.aligned(self.plain(node), node.dims, dims)


def _product(lengths: Sequence[str]) -> PythonExpression:
    """A product of lengths."""
    return joined_all("*", [length_of(n) for n in lengths])


def _flat(*parts: Sequence[Dim]) -> list[PythonExpression]:
    """The shape of a matrix: the product of the lengths of each group of dimensions that is not empty."""
    return [_product([d.block for d in p]) for p in parts if p]


def tile_shape(dims: Sequence[Dim]) -> TupleOf:
    """The shape of a tile."""
    return TupleOf(tuple(length_of(d.block) for d in dims))


def _base(node: TileNode) -> str:
    if node.kind in ("arange", "add", "sub") and len(node.dims) == 1 and node.element == "int":
        axis = re.sub(r"\W+", "_", node.dims[0].axis).strip("_") or "i"
        return f"{axis}_at" if axis.isidentifier() else f"i{axis}_at"
    return "t"


def _number(node: TileNode, tl: str) -> PythonExpression:
    value: Any = node.data
    if node.element == "bool":
        return call(f"{tl}.full", ListOf(()), Number(int(value)), dotted(f"{tl}.int1"))
    if node.element == "int":
        return Number(int(value))
    if math.isinf(value):
        return call("float", Number("inf" if value > 0 else "-inf"))
    return Number(float(value))
