"""The expression graph of a kernel: hash-consed nodes, each a tile or scalar of one program instance.

- The dimensions of a node are named; their order is a choice of layout only.
- A tile has the length of its block, also where it is longer than the rest of the array. `fills` says what a node
  contains at positions outside the array. So a reduction is masked only where these values would change its result.
- Equal expressions are the same node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any

from catdiag.category.scalars import SCALARS
from catdiag.codegen.syntax import PythonExpression
from catdiag.codegen.triton.tile_fills import FINITE, INFINITE, Fill, fill_of, times_positive
from catdiag.codegen.triton.tile_nodes import Dim, Scope, TileNode, deepest, natural, reached, zero_outside

LARGEST = 2**31 - 1
_TO_INTEGERS = ("floor", "ceil", "round")
_REAL = (
    "exp2",
    "rsqrt",
    *(fn for fn, (count, element) in SCALARS.items() if count == 1 and element in ("real", "int")),
)
"""The functions of one real number: integers are converted first."""
REWRITTEN = ("exp", "sigmoid", "sign")
"""The scalar functions that are written with others; no node has them."""
LOG2E = 1 / math.log(2)
HUGE = 2.0**20
"""Above this, float32 has an absolute error of up to 1/16 or more: too much for an exponent."""
FLOAT32_MAX = 2.0**128 - 2.0**104
NEUTRAL: dict[str, float] = {"sum": 0.0, "prod": 1.0, "max": -INFINITE, "min": INFINITE, "any": 0.0, "all": 1.0}


class Nodes:
    """Makes nodes, simplified by algebra, and records what the kernel as a whole needs to know of them."""

    def __init__(self, root: Scope, narrow: Collection[str] = ()) -> None:
        self.root = root
        self.bytes = frozenset(narrow)
        """The names of the arrays with 8-bit elements."""
        self.known: dict[Hashable, TileNode] = {}
        """The nodes made so far, by their parts."""
        self.note = ""
        """The comment of the nodes that are made next."""
        self.twins: dict[TileNode, TileNode] = {}
        """Loads whose block is also loaded as an operand of a matrix product, with that second load."""
        self.lefts: dict[tuple[str, ...], None] = {}
        """Block lengths of the summed dimensions of products in loops whose row factor is computed."""
        self.merged_rows: dict[tuple[str, ...], None] = {}
        """Block lengths of the row dimensions of products in loops whose row factor is computed and has several."""
        self.huge = False
        """Whether tiles contain finite numbers so large that their rounding errors matter in an exponent (see HUGE)."""
        self.separately_rounded = False
        """Whether a product and a difference must be rounded separately: fused multiply-add must be off."""
        self.summed: dict[str, tuple[str, ...]] = {}
        """Block lengths that matrix products sum over, each with the lengths of the blocks that it is merged with."""
        self.sides: dict[str, None] = {}
        """Block lengths that are one side of a matrix product."""
        self.short: dict[str, None] = {}
        """Blocks of whole axes that products do not need padded, ..."""
        self.filled: dict[str, None] = {}
        """... and those that they need padded."""
        self.rows: dict[tuple[str, ...], None] = {}
        """Block lengths of the row dimensions of matrix products, batch dimensions included."""

    # -- leaves ------------------------------------------------------------------------------------------

    def make(
        self, kind: str, args: Sequence[TileNode], dims: Sequence[Dim], element: str, data: Any = None,
        scope: Scope | None = None, fills: dict[Dim, Fill] | None = None, heavy: bool = False,
    ) -> TileNode:  # fmt: skip
        """The node with these parts; one that exists already is reused."""
        where = deepest([scope or self.root, *(a.scope for a in args)])
        key = (kind, tuple(map(id, args)), tuple(map(id, dims)), element, data, id(where))
        found = self.known.get(key)
        if found is None:
            heavy = heavy or any(a.heavy for a in args)
            found = TileNode(kind, tuple(args), tuple(dims), where, element, data, fills or {}, heavy, self.note)
            self.known[key] = found
        return found

    def const(self, value: float | int, element: str = "real") -> TileNode:
        """A constant; truth values are 0 and 1."""
        return self.make("const", (), (), element, float(value) if element in ("real", "raw") else int(value))

    def symbol(self, text: str, element: str = "int", scope: Scope | None = None, positive: bool = False) -> TileNode:
        """A named scalar of the kernel; `positive` says that it is greater than 0."""
        return self.make("symbol", (), (), element, (text, positive), scope)

    def start(self, text: str, scope: Scope | None = None) -> TileNode:
        """The first position of a tile or block: a natural number, which may be 0."""
        return self.make("symbol", (), (), "int", (text, False, True), scope)

    def arange(self, dim: Dim) -> TileNode:
        """The positions 0, 1, … along a dimension."""
        return self.make("arange", (), (dim,), "int", None, dim.scope)

    # -- functions -----------------------------------------------------------------------------------------

    def op(self, fn: str, *args: TileNode) -> TileNode:
        """A scalar function of nodes, simplified."""
        if fn in _TO_INTEGERS:
            return args[0] if args[0].element == "int" else self.whole(self._op(fn, *args))
        return self._op(fn, *args)

    def whole(self, node: TileNode) -> TileNode:
        """A node of float32 that are integers, as an integer. Where it is converted back, it never was converted."""
        if node.value is not None:
            return self.const(int(node.value), "int")
        return self.make("whole", (node,), node.dims, "int", fills=dict(node.fills))

    def _op(self, fn: str, *args: TileNode) -> TileNode:
        if fn == "where":
            condition, kept, other = args
            if condition.value is not None:
                return kept if condition.value else other
            if other.value == 0 and zero_outside(kept, condition):
                return kept
        if fn in ("add", "sub", "mul", "div", "max", "min", "where", "neg", "abs"):
            joined = args[1:] if fn == "where" else args
            real = fn == "div" or any(a.element in ("real", "raw") for a in joined)
            cast = [self.real(a) for a in joined] if real else list(joined)
            args = (args[0], *cast) if fn == "where" else tuple(cast)
        elif fn in _REAL or (fn in ("eq", "ne", "lt", "le") and any(a.element in ("real", "raw") for a in args)):
            args = tuple(self.real(a) for a in args)
        found = self._simpler(fn, args)
        return self.raw_op(fn, args) if found is None else found

    def raw_op(self, fn: str, args: Sequence[TileNode]) -> TileNode:
        """A scalar function of nodes, not simplified."""
        element = "bool" if fn in ("eq", "ne", "lt", "le", "and", "or", "not") else args[-1].element
        element = "real" if fn == "uniform" else element
        dims = self.joined(args)
        self._seen(fn, args, dims)
        fills: dict[Dim, Fill] = {d: fill_of(fn, [_filled(a, d) for a in args]) for d in dims if d.ragged}
        return self.make(fn, args, dims, element, fills=fills)

    def _seen(self, fn: str, args: Sequence[TileNode], dims: Sequence[Dim]) -> None:
        """Records large finite constants, such as -1e30, by which a program masks tiles instead of infinity."""
        if fn in ("where", "add", "sub", "mul") and dims and any(a.element in ("real", "raw") for a in args):
            values = [abs(float(a.value)) for a in args if a.value is not None]
            self.huge = self.huge or any(HUGE <= v < INFINITE for v in values)

    def joined(self, args: Sequence[TileNode]) -> tuple[Dim, ...]:
        """The dimensions of an elementwise function of nodes, in the order of the largest computed argument."""
        first = max(args, key=lambda a: (len(a.dims), a.heavy))
        dims = dict.fromkeys([*first.dims, *(d for a in args for d in a.dims)])
        if len(dims) > len(first.dims) and not first.heavy:
            return tuple(sorted(dims, key=lambda d: d.loop is not None))
        return tuple(dims)

    def real(self, node: TileNode) -> TileNode:
        """A node converted to float32; a sum of integers is converted term by term."""
        if node.element == "real":
            return node
        if node.kind == "whole":
            return node.args[0]
        if node.kind == "const":
            return self.const(float(node.data))
        if node.element == "int" and node.kind in ("add", "sub", "neg", "max", "min", "abs") and len(node.dims) > 1:
            return self.op(node.kind, *(self.real(a) for a in node.args))
        if node.kind == "load" and node.element == "int" and self._of_bytes(node):  # without a step through 32 bits
            fills, wanted = dict(node.fills), node.wanted
            node = self.make("load", node.args, node.dims, "raw", node.data, fills=fills, heavy=True)
            node.wanted = wanted
        return self.make("float", (node,), node.dims, "real", fills=dict(node.fills))

    def scaled(self, node: TileNode, factor: TileNode) -> TileNode:
        """A node times a positive scalar. The factor is deferred: it moves through sums and maxima, and is merged."""
        if factor.value == 1:
            return node
        if node.kind == "scaled":
            base, before = node.args
            return self.scaled(base, self.op("mul", before, factor))
        if node.kind == "const":
            return self.op("mul", node, factor)
        bound = _overflowing_bound(node, factor)
        if bound is not None:
            others = [self.scaled(a, factor) for a in node.args if a is not bound]
            return self.op(node.kind, *others, bound)
        self._seen("mul", (node, factor), node.dims)
        fills = {d: times_positive(_filled(node, d)) for d in node.dims if d.ragged}
        return self.make("scaled", (node, factor), node.dims, "real", fills=fills)

    def _simpler(self, fn: str, args: Sequence[TileNode]) -> TileNode | None:
        """A simplification of a function of nodes; None if there is none."""
        values = [a.value for a in args]
        if all(v is not None for v in values):
            return self._folded(fn, args, [v for v in values if v is not None])
        rule = SIMPLER.get(fn)
        return None if rule is None else rule(self, *args)

    def _product(self, a: TileNode, b: TileNode) -> TileNode | None:
        for x, y in ((a, b), (b, a)):
            if y.value == 1:
                return x
            if y.value == 0 and x.element == "int":
                return y
            if x.dims and x.element == "real" and not y.dims and _positive(y):
                return self.scaled(x, y)
        for x, y in ((a, b), (b, a)):
            if x.kind == "scaled" and not y.dims and y.element == "real":
                return self.op("mul", x.args[0], self.op("mul", x.args[1], y))
            if x.kind in ("add", "sub") and x.element == "real" and not x.heavy and _smaller(x, y):
                return self.op(x.kind, *(self.op("mul", p, y) for p in x.args))
        return None

    def _quotient(self, a: TileNode, b: TileNode) -> TileNode | None:
        if b.value == 1:
            return a
        if not b.dims and a.dims and _positive(b):
            return self.scaled(a, self.op("div", self.const(1.0), b))
        if b.kind == "sqrt" and a.value == 1:
            return self.op("rsqrt", b.args[0])
        if len(b.dims) < len(a.dims):  # one division per row instead of one per entry
            return self.op("mul", a, self.op("div", self.const(1.0), b))
        return None

    def _extremum(self, a: TileNode, b: TileNode, of_natural: int) -> TileNode | None:
        """A maximum or minimum; `of_natural` says which of a natural number and 0 is one."""
        if a is b:
            return a
        pairs = ((x, y) for x, y in ((a, b), (b, a)) if x.element == "int" and y.value == 0 and natural(x))
        return next((pair[of_natural] for pair in pairs), None)

    def _sigmoid(self, a: TileNode) -> TileNode:
        one = self.const(1.0)
        return self.op("div", one, self.op("add", one, self.op("exp", self.op("neg", a))))

    def _sign(self, a: TileNode) -> TileNode:
        zero, one = self.const(0, a.element), self.const(1, a.element)
        negative = self.op("where", self.op("lt", a, zero), self.op("neg", one), zero)
        return self.op("where", self.op("lt", zero, a), one, negative)

    def _selection(self, condition: TileNode, a: TileNode, b: TileNode) -> TileNode | None:
        if a.kind == "scaled" and b.value in (0.0, INFINITE, -INFINITE):
            return self.scaled(self.op("where", condition, a.args[0], b), a.args[1])
        return None

    def _exp(self, a: TileNode) -> TileNode:
        """exp(a) as 2^(a·log₂e). If a sum or difference has a term of fewer dimensions, the factor goes to each term.

        The difference of two terms of equal dimensions is taken first, so that the one of equal numbers is exactly 0,
        even if the compiler fuses multiplication and subtraction. Every difference is taken first if both terms may be
        very large (`huge`: any tile may). Otherwise the product's rounding error would exceed the range of an exponent,
        and fully masked rows would become NaN. Entries of arrays may be so large, results of products are assumed not.
        """
        log2e, difference = self.const(LOG2E), a.kind in ("sub", "add")
        if difference and (self.huge or (_reads_array(a) and not any(map(_of_products, a.args)))):
            self.separately_rounded |= any(len(p.dims) > 1 and p.kind in ("scaled", "mul") for p in a.args)
        elif difference and any(set(p.dims) != set(a.dims) for p in a.args):
            return self.raw_op("exp2", [self.raw_op(a.kind, [self.scaled(p, log2e) for p in a.args])])
        return self.raw_op("exp2", [self.scaled(a, log2e)])

    def _folded(self, fn: str, args: Sequence[TileNode], values: Sequence[float | int]) -> TileNode | None:
        """Constant folding; None where the result is no finite or infinite number."""
        if fn == "floordiv" and values[1] <= 0:
            return None
        found = fill_of(fn, list(values)) if fn != "floordiv" else values[0] // values[1]
        if found is None or isinstance(found, str):
            return None
        if fn in ("eq", "ne", "lt", "le", "and", "or", "not"):
            return self.const(found, "bool")
        return self.const(
            found, "int" if all(a.element == "int" for a in args) and fn not in ("div", "uniform") else "real"
        )

    # -- masks ---------------------------------------------------------------------------------------------

    def guarded(
        self, condition: TileNode, node: TileNode, other: TileNode, exact: PythonExpression | None, loop: Any = None
    ) -> TileNode:
        """`node` where a condition holds, else `other`. The mask is omitted where `exact`, a constant, is true."""
        if node.kind == "scaled" and other.value in (0.0, INFINITE, -INFINITE):
            return self.scaled(self.guarded(condition, node.args[0], other, exact, loop), node.args[1])
        if node.element == "raw" and self._of_bytes(node):
            node = self.real(node)  # `tl.where` does not take 8-bit numbers
        if node.element == "raw" and other.value is not None:
            other = self.const(other.value, "raw")
        args = (condition, node, other)
        dims = self.joined(args)
        self._seen("where", args, dims)
        fills: dict[Dim, Fill] = {d: fill_of("where", [_filled(x, d) for x in args]) for d in dims if d.ragged}
        return self.make("guard", args, dims, node.element, (exact, loop), fills=fills)

    def _of_bytes(self, node: TileNode) -> bool:
        """Whether a tile was loaded from an array with 8-bit elements."""
        while node.kind in ("relabel", "guard", "spread"):
            node = node.args[1] if node.kind == "guard" else node.args[0]
        if node.kind != "load":
            return False
        array = node.data[0]  # which may be a part of another, or have axes of it merged
        return getattr(getattr(array, "source", None) or array, "name", "") in self.bytes

    def masked(self, node: TileNode, dim: Dim, neutral: float) -> TileNode:
        """The node with `neutral` at positions of `dim` outside the array."""
        if node.element == "int" and math.isinf(neutral):
            neutral = float(LARGEST if neutral > 0 else -LARGEST)
        if dim not in node.dims or dim.within is None or node.fills.get(dim) == neutral:
            return node
        if node.kind == "neg":
            return self.op("neg", self.masked(node.args[0], dim, -neutral))
        other = self.const(neutral, node.element if node.element != "raw" else "real")
        found = self.guarded(dim.within, node, other, dim.exact, dim.loop)
        inner = found.args[0] if found.kind == "scaled" else found
        inner.fills[dim] = found.fills[dim] = neutral
        return found

    # -- reductions ------------------------------------------------------------------------------------------

    def reduce(self, monoid: str, node: TileNode, dim: Dim) -> TileNode:
        """A reduction over one dimension. Positions outside the array must contain the neutral element already."""
        if node.kind == "scaled" and monoid in ("max", "min", "sum"):
            return self.scaled(self.reduce(monoid, node.args[0], dim), node.args[1])
        if node.kind == "neg" and monoid in ("max", "min"):
            # Needed also because ptxas 12.8 drops the sign of integers before some maxima of many entries.
            return self.op("neg", self.reduce("min" if monoid == "max" else "max", node.args[0], dim))
        node = self.real(node) if node.element == "raw" else node
        dims = tuple(d for d in node.dims if d is not dim)
        fills: dict[Dim, Fill] = {}
        for d in dims:
            outside = node.fills.get(d)
            if d.ragged:
                fills[d] = outside if outside == NEUTRAL[monoid] or monoid in ("max", "min") else None
        element = "bool" if monoid in ("any", "all") else node.element
        return self.make("reduce", (node,), dims, element, (monoid, dim), fills=fills, heavy=True)


def reduced_rows(made: TileNode, state: TileNode) -> str:
    """The name of the array of which an iteration reduces what it loads as it is, along the last dimension, adding
    nothing else to a state; "" where the next value of the state is made in another way.

    In fp32 Triton lets each thread reduce what it loads of a row on its own, and puts that together after the loop.
    Triton 3.6 fails to compile that where the result of the loop is read more than once (`OptimizeThreadLocality`).
    """
    parts = [part for part in made.args if part is not state]
    if made.kind not in ("add", "max", "min") or len(parts) != 1 or parts[0].kind != "reduce":
        return ""
    loaded, dim = parts[0].args[0], parts[0].data[1]
    loaded = loaded.args[0] if loaded.kind == "float" else loaded
    rows = loaded.kind == "load" and len(loaded.dims) > 1 and loaded.dims[-1] is dim
    return str(loaded.data[0].name) if rows else ""


def _reads_array(node: TileNode) -> bool:
    """Whether a tile depends on entries of an array other than through matrix products and reductions."""
    found = reached([node], ("dot", "reduce"), conditions=False)
    return any(n.kind == "load" and n.dims and n.element not in ("int", "bool") for n in found)


def _of_products(node: TileNode) -> bool:
    """Whether a tile is made of nothing but results of matrix products, numbers and sizes: of no array and no state."""
    made = reached([node], ("dot",), conditions=False)
    return not any(n.kind == "load" or (n.kind == "symbol" and n.heavy) for n in made)


def _filled(node: TileNode, dim: Dim) -> Fill:
    """What a node contains outside the array along a dimension, also one that it lacks."""
    if dim in node.dims:
        return node.fills.get(dim)
    return node.value if node.value is not None else FINITE


def _smaller(total: TileNode, factor: TileNode) -> bool:
    """Whether each product of a factor and a term of a sum has fewer dimensions than the product with the whole sum."""
    return all(len({*p.dims, *factor.dims}) < len({*total.dims, *factor.dims}) for p in total.args)


def _positive(node: TileNode) -> bool:
    """Whether a scalar is known to be positive; False where this is not seen."""
    if node.kind == "const":
        return bool(0 < node.data < INFINITE)
    if node.kind == "symbol":
        return bool(node.data[1])
    if node.kind in ("float", "sqrt", "rsqrt"):
        return _positive(node.args[0])
    if node.kind in ("mul", "div", "add", "scaled", "max", "min"):
        return all(map(_positive, node.args))
    return node.kind == "exp2"


def _overflowing_bound(node: TileNode, factor: TileNode) -> TileNode | None:
    """The constant bound c of max(a, c) or min(a, c) of which c times a number is no float32; None if there is none.

    Such a bound stands for an infinity that must not become one: k·max(a, c) is then computed as max(k·a, c).
    """
    if node.kind not in ("max", "min") or factor.value is None:
        return None
    bounds = [a for a in node.args if a.value is not None and math.isfinite(a.value)]
    return next((a for a in bounds if abs(float(a.value or 0) * float(factor.value)) > FLOAT32_MAX), None)


SIMPLER: Mapping[str, Callable[..., TileNode | None]] = {
    "add": lambda nodes, a, b: a if b.value == 0 else b if a.value == 0 else None,
    "sub": lambda nodes, a, b: a if b.value == 0 else None,
    "mul": Nodes._product,
    "div": Nodes._quotient,
    "floordiv": lambda nodes, a, b: a if b.value == 1 else None,
    "max": lambda nodes, a, b: nodes._extremum(a, b, 0),
    "min": lambda nodes, a, b: nodes._extremum(a, b, 1),
    "neg": lambda nodes, a: nodes.scaled(nodes.op("neg", a.args[0]), a.args[1]) if a.kind == "scaled" else None,
    "and": lambda nodes, a, b: next((x if y.value else y for x, y in ((a, b), (b, a)) if y.value is not None), None),
    "exp": Nodes._exp,
    "sigmoid": Nodes._sigmoid,
    "sign": Nodes._sign,
    "where": Nodes._selection,
    "le": lambda nodes, a, b: nodes.const(1, "bool") if a.value == 0 and b.element == "int" and natural(b) else None,
}
"""How functions of nodes are simplified, by function; None where a function of these nodes stays as it is."""
