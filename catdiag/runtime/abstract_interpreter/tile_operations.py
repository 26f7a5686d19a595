"""The functions of Triton's language on abstract tiles: shapes, layouts, loads, and the scratch memory they take."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from catdiag.codegen.kernel_tree import KernelFunction, PythonStatement
from catdiag.codegen.syntax import FunctionCall, ListOf, PythonExpression, TupleOf
from catdiag.runtime.abstract_interpreter.common_subexpressions import CommonSubexpressions
from catdiag.runtime.abstract_interpreter.register_layouts import (
    RegisterLayout,
    blocked_layout,
    conversion_bytes,
    mfma_layout,
    product_layout,
    reduction_bytes,
)
from catdiag.runtime.abstract_interpreter.tile_values import (
    CDNA,
    HOPPER,
    UNKNOWN,
    WIDTHS,
    Dot,
    ElementType,
    NamedValue,
    Scratch,
    Shape,
    TileTrace,
    TileValue,
    TracedLoad,
    TracedStore,
    broadcast,
    dtype_of,
    neighbors,
    power,
    side,
    wider,
)
from catdiag.util.errors import CatdiagError

_REDUCTIONS = ("sum", "max", "min", "reduce", "argmax", "argmin", "xor_sum", "cumsum", "cumprod", "associative_scan")
_SAME = ("multiple_of", "max_contiguous", "max_constancy", "assume", "debug_barrier", "static_assert", "constexpr")


class Returned(Exception):
    """Raised to return from a function, with its value."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Calls:
    """Calls of functions and methods; the base class of the interpreter of expressions and statements.

    `functions` are those of the kernel's module, `constants` its constants; `warps` is the number of warps of a block.
    """

    def __init__(
        self, functions: Mapping[str, KernelFunction], constants: Mapping[str, TileValue], warps: int, generation: int
    ) -> None:
        self.functions, self.constants, self.warps = functions, constants, warps
        self.wgmma = generation >= HOPPER
        self.lanes = 64 if generation == CDNA else 32
        self.trace = TileTrace(generation, warps)
        self.equal = CommonSubexpressions()
        self.line = 0
        """The line of the statement that is executed, of a kernel that was read."""
        self.loop: int | None = None
        self.products: list[Shape] = []
        """The shapes of the products of the innermost loop, up to now."""
        self.chain: Shape = ()
        """The shape of the last product of the innermost loop, if it has several."""
        self.conditional = False
        """Whether what is executed is under a condition of the innermost loop that is not known."""

    def expression(self, node: PythonExpression, env: dict[str, Any]) -> Any:
        """The value of an expression."""
        raise NotImplementedError

    def block(self, body: Sequence[PythonStatement], env: dict[str, Any]) -> None:
        """Executes statements."""
        raise NotImplementedError

    def now(self) -> int:
        """Advances the time of the trace, and gives it."""
        self.trace.time += 1
        return self.trace.time

    def fail(self, node: PythonExpression, why: str) -> CatdiagError:
        """The error for source that is not supported, with the kernel's line."""
        return CatdiagError(f"the kernel's line {self.line or '?'}, {str(node)[:80]!r}: {why}")

    def integer(self, node: PythonExpression, env: dict[str, Any]) -> int:
        """A length, which must be known. Raises CatdiagError if it is not."""
        value = self.expression(node, env)
        if isinstance(value, TileValue) and isinstance(value.known, int):
            return value.known
        raise self.fail(node, "this length is not known: expected a constant, or a tl.constexpr with a given value")

    def shape(self, node: PythonExpression, env: dict[str, Any]) -> Shape:
        if isinstance(node, (TupleOf, ListOf)):
            return tuple(self.integer(part, env) for part in node.parts)
        value = self.expression(node, env)
        if isinstance(value, tuple):
            return tuple(v.known for v in value)
        return (self.integer(node, env),)

    def added(self, product: TileValue, other: TileValue) -> TileValue:
        """The sum of a matrix product and another tile: the other tile is the accumulator's initial value."""
        full = len(other.shape) > 1 and other.shape == product.shape and not other.matrix
        if full and other.layout is not None and product.layout is not None and other.loads:
            size = conversion_bytes(other.shape, other.width, other.layout, product.layout)
            self.trace.scratch.append(Scratch(product.fresh, size, "what a sum starts from"))
        read = () if other.matrix else other.loads if other.direct is None else (other.direct,)
        for number in read:  # what another product was made of, that product alone has read
            self.trace.loads[number].others = True
        return replace(product, fresh=0, defined_at=self.now())

    def elementwise(self, node: PythonExpression, values: Sequence[Any], dtype: str) -> TileValue:
        """An elementwise function of tiles, broadcast against each other."""
        parts = [v for v in values if isinstance(v, TileValue)]
        shape: Shape = ()
        for part in parts:
            try:
                shape = broadcast(shape, part.shape)
            except ValueError as error:
                raise self.fail(node, str(error)) from None
        pointer = next((p for p in parts if p.pointer), None)
        time = self.now()
        if pointer is not None:
            unit = side(shape, *parts)
            loads = frozenset[int]().union(*(p.loads for p in parts))
            return TileValue(
                shape, pointer.dtype, array=pointer.array, pointer=True, unit=unit, loads=loads, defined_at=time
            )
        for part in parts:
            if part.direct is not None:
                self.trace.loads[part.direct].others = True
        layout = self.joined(parts, shape, time)
        loads = frozenset[int]().union(*(p.loads for p in parts))
        if layout is None and loads and len(shape) > 2:
            layout = self.blocked(shape, len(shape) - 1, 1)
        from_loads = all(p.from_loads or p.known is not UNKNOWN or not p.shape for p in parts)
        forked = len(loads) < sum(len(p.loads) for p in parts) or any(p.forked for p in parts)
        return TileValue(
            shape, dtype, loads=loads, layout=layout, defined_at=time, from_loads=from_loads, forked=forked
        )

    def joined(self, parts: Sequence[TileValue], shape: Shape, time: int) -> RegisterLayout | None:
        """The layout of an elementwise function of tiles: that of a matrix product if there is one, else of a load.

        Tiles with other layouts are converted, which takes scratch memory.
        """
        placed = [p for p in parts if p.layout is not None and p.layout.registers and len(p.shape) == len(shape)]
        if not placed:
            return None
        best = max(placed, key=lambda p: (p.matrix, math.prod(p.shape)))
        assert best.layout is not None
        for part in placed:
            if part.layout is not None and len(part.layout.warps) == 1 < len(best.layout.warps):
                self.broadcasted(part, best, time)
            full = len(shape) > 1 and part.shape == shape
            if part.layout is None or part is best or not full:
                continue
            mixed = part.layout.matrix != best.matrix
            if mixed or (not best.matrix and part.layout.contiguous != best.layout.contiguous):
                size = conversion_bytes(shape, part.width, part.layout, best.layout, self.trace.generation != CDNA)
                near = min(part.loads, default=None) if part.direct is None else part.direct
                self.trace.scratch.append(Scratch(time, size, "a change of layout", near))
        return best.layout if best.shape == shape else None

    def broadcasted(self, vector: TileValue, tile: TileValue, time: int) -> None:
        """A vector that is broadcast to a tile, in whose layout it is to be. Shorter ones than there are threads are
        loaded so."""
        lengths = [n for n in vector.shape if n > 1]
        axis = next((a for a, n in enumerate(vector.shape) if n > 1), 0)
        assert vector.layout is not None and tile.layout is not None
        target = tile.layout.along(axis)
        if lengths and lengths[0] >= self.lanes * self.warps and target != vector.layout:
            width = vector.loaded_width or vector.width
            size = conversion_bytes((lengths[0],), width, vector.layout, target, matrices=False)
            self.trace.scratch.append(Scratch(time, size, "a vector in another layout"))

    def blocked(self, shape: Shape, side: int, vector: int, coalesced: bool = False) -> RegisterLayout:
        """A blocked layout for the warps of the kernel."""
        return blocked_layout(shape, side, vector, self.warps, coalesced, self.lanes)

    # -- calls -----------------------------------------------------------------------------------

    def call(self, node: FunctionCall, env: dict[str, Any]) -> Any:
        target = self.expression(node.function, env)
        if not isinstance(target, NamedValue):
            raise self.fail(node, "expected a call of a function of triton or of this module, or of a method")
        name = target.name.split(".")[-1]
        if target.of is not None:
            return self.method(node, target.of, name, env)
        if target.name in self.functions:
            return self.inlined(node, self.functions[target.name], env)
        keywords = dict(node.keywords)
        if name == "arange":
            first, end = (self.integer(a, env) for a in node.args[:2])
            return TileValue((end - first,), unit=0, defined_at=self.now(), by=power(first))
        if name in ("zeros", "full", "empty"):
            at = 1 if name == "zeros" else 2
            dtype = keywords.get("dtype", node.args[at] if len(node.args) > at else None)
            kind = self.named_type(self.expression(dtype, env)) if dtype is not None else "fp32"
            shape = self.shape(keywords.get("shape", node.args[0] if node.args else node), env)
            return TileValue(shape, kind, from_loads=True)
        if name == "range":
            raise self.fail(node, "a range outside the head of a loop is not supported")
        values = [self.expression(a, env) for a in node.args]
        named = {k: self.expression(v, env) for k, v in keywords.items()}
        return self.function(node, name, values, named)

    def function(self, node: FunctionCall, name: str, values: list[Any], named: dict[str, Any]) -> Any:
        """A call of one of Triton's functions; one that is not listed counts as elementwise."""
        first = values[0] if values else None
        if name in _SAME:
            return first
        if name == "program_id" or name == "num_programs":
            return TileValue()
        if name == "load" and isinstance(first, TileValue):
            mask = named.get("mask", values[1] if len(values) > 1 else None)
            given = ("load", *values, *chain.from_iterable(sorted(named.items())))
            return self.equal.load(given, lambda: self.loaded(first, first.shape, first.unit, False, mask))
        if name in ("store", "atomic_add", "atomic_max", "atomic_min") and isinstance(first, TileValue):
            mask = named.get("mask", values[2] if len(values) > 2 else None)
            self.stored(first, values[1] if len(values) > 1 else named["value"], mask)
            return TileValue(first.shape, first.dtype)
        if name == "dot":
            return self.dot(node, values, named)
        if name in ("trans", "permute") and isinstance(first, TileValue):
            rank = len(first.shape)
            axes = values[1:] or [named[k] for k in ("dims", "order") if k in named]
            axes = list(axes[0]) if axes and isinstance(axes[0], tuple) else axes
            order = tuple(v.known for v in axes) if axes else (*range(rank - 2), rank - 1, rank - 2)
            return self.transposed(first, order)
        if name in ("reshape", "view", "broadcast_to", "expand_dims", "ravel") and isinstance(first, TileValue):
            return self.reshaped(node, name, first, [*values[1:], *named.values()])
        if name in _REDUCTIONS and isinstance(first, TileValue) and first.shape:
            axis = named.get("axis", values[1] if len(values) > 1 else None)
            keep = named.get("keep_dims")
            scan = name in ("cumsum", "cumprod", "associative_scan")
            at = axis.known if isinstance(axis, TileValue) else None
            if name == "sum" and at == 1 and first.factors is not None and keep is None:
                return self.product(*first.factors)
            return self.reduction([first], at, scan, keep is not None)
        if name in _REDUCTIONS and isinstance(first, tuple):
            axis = named.get("axis", values[1] if len(values) > 1 else None)
            at = axis.known if isinstance(axis, TileValue) else None
            found = self.reduction([v for v in first if isinstance(v, TileValue)], at, name.endswith("scan"), False)
            return tuple(replace(found, dtype=v.dtype) for v in first)
        if name == "cast":
            return self.cast(values[0], values[1] if len(values) > 1 else named["dtype"])
        if name == "make_tensor_descriptor" and isinstance(first, TileValue):
            block = named.get("block_shape", values[3] if len(values) > 3 else ())
            return TileValue(dtype=first.dtype, array=first.array, block=tuple(v.known for v in block))
        if name in ("load_tensor_descriptor", "store_tensor_descriptor") and isinstance(first, TileValue):
            return self.described(first, name.split("_")[0], values[1:])
        if name in ("cdiv", "next_power_of_2", "min", "max", "minimum", "maximum", "int", "float", "len"):
            known = [v.known for v in values if isinstance(v, TileValue)]
            if len(known) == len(values) and UNKNOWN not in known:
                return TileValue(known=_folded(name, known))
        if name == "inline_asm_elementwise":
            args = values[2] if len(values) > 2 else named["args"]
            kind = values[3] if len(values) > 3 else named["dtype"]
            parts = list(args) if isinstance(args, tuple) else [args]
            self.trace.awaited |= {v.defined_at for v in parts if isinstance(v, TileValue) and v.matrix}
            return replace(self.elementwise(node, parts, self.named_type(kind)), from_assembly=True)
        if name == "where":
            parts = [v for v in values[1:] if isinstance(v, TileValue)]
            return self.elementwise(node, values, wider(*parts) if parts else "fp32")
        parts = [v for v in (*values, *named.values()) if isinstance(v, TileValue)]
        return self.elementwise(node, parts, wider(*parts) if parts else "int32")

    def method(self, node: FunctionCall, of: TileValue, name: str, env: dict[str, Any]) -> Any:
        if name == "to":
            return self.cast(of, self.expression(node.args[0], env))
        values = [self.expression(a, env) for a in node.args]
        if of.block and name in ("load", "store"):
            return self.described(of, name, values)
        named = {n: self.expression(value, env) for n, value in node.keywords}
        return self.function(node, name, [of, *values], named)

    def inlined(self, node: FunctionCall, function: KernelFunction, env: dict[str, Any]) -> Any:
        """A call of another function of the module, which is executed in place."""
        inner = dict(zip((p.name for p in function.parameters), (self.expression(a, env) for a in node.args)))
        inner.update({n: self.expression(value, env) for n, value in node.keywords})
        for parameter in function.parameters[::-1]:
            if parameter.name not in inner and parameter.default is not None:
                inner[parameter.name] = self.expression(parameter.default, env)
        try:
            self.block(function.body, inner)
        except Returned as returned:
            return returned.value
        return TileValue()

    def named_type(self, value: Any) -> str:
        """The short name of an element type: one, a dotted name, a string, or the type of a tile."""
        if isinstance(value, ElementType | NamedValue):
            return dtype_of(value.name.split(".")[-1])
        if isinstance(value, TileValue) and isinstance(value.known, str):
            return dtype_of(value.known)
        return value.dtype if isinstance(value, TileValue) else "fp32"

    def cast(self, value: TileValue, dtype: Any) -> TileValue:
        kind = self.named_type(dtype)
        if kind == value.dtype:
            return value
        if value.direct is not None:
            self.trace.loads[value.direct].others = True
        unit = value.unit if value.dtype.startswith("int") and kind.startswith("int") else None
        loaded = value.loaded_width or (0 if value.direct is None else value.width)
        time = self.hoisted(value)
        return replace(value, dtype=kind, direct=None, unit=unit, fresh=0, loaded_width=loaded, defined_at=time)

    def hoisted(self, value: TileValue) -> int:
        """The time at which something is made of a value alone: now, or before a loop that the value was made before,
        since the compiler moves it there."""
        time, number = self.now(), self.loop
        while number is not None and number >= 0:
            if self.trace.loops[number].start > value.defined_at:
                time = value.defined_at
            number = self.trace.loops[number].outer
        return time

    # -- memory ----------------------------------------------------------------------------------

    def together(self, at: TileValue, mask: Any = None) -> int:
        """The vector length of a load or store (`neighbors`), of which each thread has a part."""
        threads = self.lanes * self.warps
        return min(neighbors(at, mask), max(1, math.prod(at.shape) // threads) if len(at.shape) > 1 else 2)

    def loaded(self, at: TileValue, shape: Shape, unit: int | None, described: bool, mask: Any = None) -> TileValue:
        """A load of a tile; `unit` is the contiguous axis, `described` says whether it is by a tensor descriptor."""
        number, time = len(self.trace.loads), self.now()
        at = replace(at, shape=shape, unit=unit)
        vector = self.together(at, mask)
        load = TracedLoad(number, time, self.loop, at.array, shape, at.dtype, unit, at.loads, described, vector)
        self.trace.loads.append(load)
        layout = None
        if shape:
            side = unit if unit is not None else len(shape) - 1 if described else 0
            layout = self.blocked(shape, side, neighbors(at, mask), coalesced=not described)
        return TileValue(
            shape, at.dtype, loads=frozenset({number}) | at.loads, direct=number, layout=layout, defined_at=time,
            from_loads=True,
        )  # fmt: skip

    def stored(self, at: TileValue, value: Any, mask: Any = None) -> None:
        """A store of a tile; a product's result, and what a loop adds up, are converted to a blocked layout first."""
        self.equal.stored()
        self.trace.stores.append(TracedStore(at.array, at.shape, at.unit, self.together(at, mask)))
        placed = isinstance(value, TileValue) and value.layout is not None and value.shape == at.shape
        placed = placed and (value.carried if not value.matrix else len(value.shape) > 1)
        if not placed or self.trace.generation == CDNA:  # whose threads store what they have (`OptimizeEpilogue`)
            self.now()
            return
        side = len(at.shape) - 1 if at.unit is None else at.unit
        width = WIDTHS[at.dtype]
        target = self.blocked(value.shape, side, neighbors(at, mask), coalesced=True)
        matrices = self.trace.generation >= HOPPER and bool(value.matrix)
        size = 0 if target == value.layout else conversion_bytes(value.shape, width, value.layout, target, matrices)
        self.trace.scratch.append(Scratch(self.now(), size, f"{at.array} on its way out"))

    def described(self, of: TileValue, what: str, values: Sequence[Any]) -> TileValue:
        """A load or a store (`what`) by a tensor descriptor."""
        if what == "load":
            return self.equal.load(("load", of, *values), lambda: self.loaded(of, of.block, len(of.block) - 1, True))
        self.equal.stored()
        size = math.prod(of.block) * WIDTHS[of.dtype]
        self.trace.scratch.append(Scratch(self.now(), size, f"{of.array} on its way out"))
        return TileValue()

    def transposed(self, value: TileValue, order: Sequence[int]) -> TileValue:
        shape = tuple(value.shape[axis] for axis in order)
        unit = None if value.unit is None else list(order).index(value.unit)
        permuted = tuple(order) != tuple(range(len(order)))
        if value.pointer or not permuted:
            return replace(value, shape=shape, unit=unit)
        layout = None
        if value.layout is not None and not value.matrix and len(value.layout.warps) == len(shape):
            steps = frozenset(tuple(step[a] for a in order) for step in value.layout.registers)
            warps = tuple(value.layout.warps[a] for a in order)
            layout = RegisterLayout(steps, warps, 0, list(order).index(value.layout.contiguous))
        last = tuple(order[:-2]) == tuple(range(len(order) - 2))
        if value.direct is not None and self.trace.loads[value.direct].merged_in(shape):
            value = self.made(value)
        return replace(
            value, shape=shape, unit=unit, layout=layout, swapped=not value.swapped, fresh=0,
            permuted=value.permuted or not last,
        )  # fmt: skip

    def reshaped(self, node: FunctionCall, name: str, value: TileValue, args: list[Any]) -> TileValue:
        flat = list(args[0]) if args and isinstance(args[0], tuple) else args
        numbers = [v.known for v in flat if isinstance(v, TileValue) and isinstance(v.known, int)]
        if name == "expand_dims":
            at = numbers[0] % (len(value.shape) + 1)
            shape = (*value.shape[:at], 1, *value.shape[at:])
            unit = value.unit if value.unit is None or value.unit < at else value.unit + 1
            expanded = (at, value) if len(value.shape) == 2 else None
            return replace(value, shape=shape, unit=unit, direct=None, layout=None, expanded=expanded, factors=None)
        shape = (math.prod(value.shape),) if name == "ravel" else tuple(numbers)
        if shape == value.shape:
            return value
        if name != "broadcast_to" and math.prod(shape) != math.prod(value.shape):
            raise self.fail(node, f"a tile of shape {value.shape} cannot have shape {shape}: expected as many entries")
        if value.direct is not None:
            load = self.trace.loads[value.direct]
            if load.lies_in(value, shape):
                # A first factor may be in registers, unless axes of length 1 were before the last two of a block.
                squeezed = load.described and any(n != 1 for n in load.shape[:-2])
                layout = self.blocked(shape, len(shape) - 1, load.vector)
                if (value.permuted or value.swapped) and value.layout is not None and 1 not in shape:
                    layout = value.layout.squeezed(value.shape)
                return replace(value, shape=shape, unit=None, layout=layout, fresh=0, squeezed=squeezed)
            load.others = True
        return replace(
            value, shape=shape, unit=None, direct=None, layout=None, fresh=0, expanded=None, factors=None,
            defined_at=self.now(),
        )  # fmt: skip

    def reduction(self, values: Sequence[TileValue], axis: int | None, scan: bool, keep: bool) -> TileValue:
        value = values[0]
        time = self.now()
        for v in values:
            if v.direct is not None:
                self.trace.loads[v.direct].others = True
            for number in v.loads if v.from_loads else ():
                self.trace.loads[number].reduced = True
        axes = range(len(value.shape)) if axis is None else (axis % len(value.shape),)
        if value.layout is not None and len(value.layout.warps) == len(value.shape):
            size = sum(reduction_bytes(value.shape, a, v.width, value.layout) for a in axes for v in values)
            if size:
                self.trace.scratch.append(Scratch(time, size, "a reduction across warps"))
        if scan:
            return replace(value, direct=None, defined_at=time)
        shape = tuple(1 if a in axes else n for a, n in enumerate(value.shape) if keep or a not in axes)
        layout = None
        if len(shape) == len(axes) == 1 and value.layout is not None and not value.matrix:
            layout = value.layout.along(1 - axes[0])
        return TileValue(shape, value.dtype, loads=value.loads, layout=layout, defined_at=time)

    def dot(self, node: FunctionCall, values: list[Any], named: dict[str, Any]) -> TileValue:
        left, right = values[0], values[1]
        if not isinstance(left, TileValue) or not isinstance(right, TileValue) or left.shape[-1:] != right.shape[-2:-1]:
            raise self.fail(node, "expected two tiles, the columns of the first as many as the rows of the second")
        precision = named.get("input_precision")
        exact = isinstance(precision, TileValue) and precision.known == "ieee" and left.dtype == "fp32"
        out = named.get("out_dtype")
        integer = left.dtype in ("int8", "uint8")
        kind = "int32" if integer else "fp32" if out is None else self.named_type(out)
        split = isinstance(precision, TileValue) and precision.known == "tf32x3" and left.dtype == "fp32"
        if split:
            left, right = self.made(left), self.made(right)
        found = replace(self.product(left, right, exact, 2 if split else 1), dtype=kind)
        return replace(found, fresh=0) if len(values) > 2 or "acc" in named else found

    def made(self, value: TileValue) -> TileValue:
        """A factor of which a product reads a copy, or parts that are computed of it."""
        if value.direct is not None:
            self.trace.loads[value.direct].others = True
        return replace(value, direct=None, defined_at=self.hoisted(value))

    def product(self, left: TileValue, right: TileValue, exact: bool = False, parts: int = 1) -> TileValue:
        """A matrix product in fp32, accumulated from zero; `exact`: by ordinary arithmetic. Each factor comes in so
        many parts: two for products in three passes of tf32."""
        shape = (*left.shape[:-1], right.shape[-1])
        version = 0 if exact or "fp64" in (left.dtype, right.dtype) else 2
        if self.wgmma and version and len(shape) == 2 and shape[0] % 64 == 0 and shape[1] >= 16 and self.warps % 4 == 0:
            version = 3
        time = self.now()
        if version and len(shape) == 2:
            self.products.append(shape)
        chain = self.chain if len(shape) == 2 else ()
        if version and self.trace.generation == CDNA:
            layout = mfma_layout(shape, self.warps, bool(chain or left.matrix), bool(left.matrix))
        else:
            layout = product_layout(shape, self.warps, version, chain) if version else self.blocked(shape, 1, 4)
        self.trace.dots.append(Dot(time, self.loop, left, right, version, layout, parts, self.conditional))
        loads = left.loads | right.loads
        return TileValue(shape, "fp32", loads=loads, layout=layout, defined_at=time, fresh=time)


def _folded(name: str, known: list[Any]) -> Any:
    if name == "cdiv":
        return -(-known[0] // known[1])
    if name == "next_power_of_2":
        return 1 << (int(known[0]) - 1).bit_length()
    if name in ("int", "float"):
        return (int if name == "int" else float)(known[0])
    if name == "len":
        return len(known[0])
    return (min if name in ("min", "minimum") else max)(known)
