"""Abstract interpretation of a kernel's source: its loops, loads, stores and matrix products, with their tiles.

The source of a Triton kernel is executed on *abstract tiles*. A tile has a shape, a type, its value if that is a known
constant (as every length of a tile is), the axis along which neighboring entries are contiguous in memory, and the
loads on which it depends. The body of a loop is executed twice: first to find the register layouts of loop-carried
values. The diagram of the kernel is not used, so that the result describes the kernel as it was written.

>>> trace = read('''
... @triton.jit
... def scaled(A, out, n, g: tl.constexpr):
...     i = tl.program_id(0) * g + tl.arange(0, g)
...     tl.store(out + i, tl.load(A + i, mask=i < n) * 2)
... ''', "scaled", {"A": Pointer("bf16"), "out": Pointer("bf16"), "g": 128}, warps=4)
>>> [(load.array, load.shape) for load in trace.loads]
[('A', (128,))]
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from catdiag.runtime.abstract_interpreter.tile_operations import Calls, Returned
from catdiag.runtime.abstract_interpreter.tile_values import (
    HOPPER,
    MOST,
    UNKNOWN,
    WIDTHS,
    NamedValue,
    Pointer,
    TileTrace,
    TileValue,
    TracedLoop,
    dtype_of,
    power,
    side,
    wider,
)
from catdiag.util.errors import CatdiagError
from catdiag.util.python_syntax import parse

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
}  # fmt: skip
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
}  # fmt: skip


def read(text: str, kernel: str, arguments: Mapping[str, object], warps: int, generation: int = HOPPER) -> TileTrace:
    """The trace of one program (thread block) of a kernel, given its arguments by name: `Pointer`s and numbers.

    An integer argument is known if it is 1, as Triton specializes it, or if its parameter is a `tl.constexpr`. Of other
    integers it is known whether 16 divides them; this is assumed of arguments that are not given. `generation` is
    the chip's: 8 has matrix products by single warps only (Ampere), 9 by four warps together too (Hopper), 10 has their
    results and first factors in tensor memory (Blackwell).

    Raises CatdiagError, with the line, for a text that is not Python, a kernel that the text does not define, and
    source that the interpreter does not understand.
    """
    try:
        tree = parse(text)
    except SyntaxError as error:
        raise CatdiagError(f"the text of {kernel} is not Python: {error}") from error
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if kernel not in functions:
        raise CatdiagError(f"the text defines no kernel {kernel!r}: it has {', '.join(functions) or 'none'}")
    constants = {
        target.id: TileValue(known=node.value.value, by=power(node.value.value))
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    reader = _AbstractInterpreter(functions, constants, warps, generation)
    definition = functions[kernel]
    env: dict[str, Any] = {}
    defaults = dict(zip((a.arg for a in definition.args.args[::-1]), definition.args.defaults[::-1]))
    for parameter in definition.args.args:
        name = parameter.arg
        constant = parameter.annotation is not None and "constexpr" in ast.unparse(parameter.annotation)
        if name in arguments:
            env[name] = _argument(name, arguments[name], constant)
        elif name in defaults:
            env[name] = reader.expression(defaults[name], {})
        else:
            env[name] = TileValue(by=DIVIDED)
    reader.block(definition.body, env)
    return reader.trace


DIVIDED = 16
"""Triton specializes kernels for integers that this divides, and for pointers that are aligned to so many bytes."""


def _argument(name: str, value: object, constant: bool) -> TileValue:
    if isinstance(value, Pointer):
        kind = dtype_of(value.dtype)
        by = max(1, DIVIDED // WIDTHS[kind])
        return TileValue(dtype=kind, array=value.array or name, pointer=not value.block, block=value.block, by=by)
    if isinstance(value, float) and not constant:
        return TileValue(dtype="fp32")
    if constant or value is None or value is True or value == 1:
        return TileValue(known=value, by=power(value))
    return TileValue(by=DIVIDED if not isinstance(value, int) or value % DIVIDED == 0 else 1)


def _a_tensor_and_none(a: Any, b: Any) -> bool:
    """Whether one of two values is None and the other a tensor or a descriptor, so that `is` is false."""
    pairs = ((a, b), (b, a))
    return any(getattr(x, "known", x) is None and isinstance(y, TileValue) and bool(y.array) for x, y in pairs)


class _AbstractInterpreter(Calls):
    """Executes statements and expressions on abstract tiles; `env` gives the values of names."""

    # -- statements ----------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt], env: dict[str, Any]) -> None:
        for statement in body:
            self.statement(statement, env)

    def statement(self, node: ast.stmt, env: dict[str, Any]) -> None:
        if isinstance(node, ast.Assign):
            value = self.expression(node.value, env)
            for target in node.targets:
                self.assign(target, value, env)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self.assign(node.target, self.expression(node.value, env), env)
        elif isinstance(node, ast.AugAssign):
            left = self.expression(_loaded(node.target), env)
            right = self.expression(node.value, env)
            self.assign(node.target, self.binary(node, _BINARY.get(type(node.op)), left, right), env)
        elif isinstance(node, ast.Expr):
            self.expression(node.value, env)
        elif isinstance(node, ast.For):
            self.for_loop(node, env)
        elif isinstance(node, ast.While):
            self.looped(node.body, env, None)
        elif isinstance(node, ast.If):
            test = self.expression(node.test, env)
            if isinstance(test, TileValue) and test.known is not UNKNOWN:
                self.block(node.body if test.known else node.orelse, env)
            else:
                other = dict(env)
                self.block(node.body, env)
                self.block(node.orelse, other)
                env.update({n: v for n, v in other.items() if n not in env})
        elif isinstance(node, ast.Return):
            raise Returned(None if node.value is None else self.expression(node.value, env))
        elif not isinstance(node, (ast.Pass, ast.Assert, ast.Break, ast.Continue)):
            raise self.fail(node, "this kind of statement is not supported")

    def assign(self, target: ast.expr, value: Any, env: dict[str, Any]) -> None:
        if isinstance(target, ast.Name):
            env[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            parts = value if isinstance(value, tuple) else (value,) * len(target.elts)
            for part, one in zip(target.elts, parts, strict=True):
                self.assign(part, one, env)
        else:
            raise self.fail(target, "expected a name to assign to")

    def for_loop(self, node: ast.For, env: dict[str, Any]) -> None:
        call = node.iter
        name = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
        if not isinstance(call, ast.Call) or name.split(".")[-1] not in ("range", "static_range"):
            raise self.fail(node, "expected a loop over range(…), tl.range(…) or tl.static_range(…)")
        if name.endswith("static_range"):
            bounds = [self.integer(argument, env) for argument in call.args]
            for number in range(*bounds):
                self.assign(node.target, TileValue(known=number, by=power(number)), env)
                self.block(node.body, env)
            return
        stages = None
        for keyword in call.keywords:
            found = self.expression(keyword.value, env)
            if keyword.arg == "num_stages" and isinstance(found, TileValue) and found.known is not UNKNOWN:
                stages = found.known
        bounds = [self.expression(argument, env) for argument in call.args]
        steps = [v.by for v in (*bounds[:1], *bounds[2:]) if isinstance(v, TileValue)] if len(bounds) > 1 else [1]
        self.assign(node.target, TileValue(by=min(steps)), env)
        self.looped(node.body, env, stages)

    def looped(self, body: Sequence[ast.stmt], env: dict[str, Any], stages: int | None) -> None:
        """A loop: its body is executed first to find the layouts of loop-carried values, then for the trace."""
        carried = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        trace, self.trace = self.trace, TileTrace(self.trace.generation, time=self.trace.time)
        trial = dict(env)
        self.trace.loads = [replace(load) for load in trace.loads]
        loop, self.loop = self.loop, -1
        around, self.products, self.chain = (self.products, self.chain), [], ()
        self.block(body, trial)
        self.trace, self.loop = trace, loop
        self.chain, self.products = (self.products[-1] if len(self.products) > 1 else ()), []
        start = self.now()
        for name in carried & set(env):
            before, after = env[name], trial[name]
            if isinstance(before, TileValue) and isinstance(after, TileValue):
                known = UNKNOWN if before.shape or before.known != after.known else before.known
                by = min(before.by, after.by)
                env[name] = replace(
                    before, loads=frozenset(), direct=None, layout=after.layout, known=known, by=by, defined_at=start,
                    from_loads=False, expanded=None, factors=None,
                )  # fmt: skip
        made = TracedLoop(len(self.trace.loops), self.loop, start, 0, stages)
        for other in self.trace.loops:
            if other.number == self.loop:
                other.holds = True
        self.trace.loops.append(made)
        self.loop = made.number
        self.block(body, env)
        self.loop, made.end = made.outer, self.now()
        self.products, self.chain = around

    # -- expressions ---------------------------------------------------------------------------

    def expression(self, node: ast.AST, env: dict[str, Any]) -> Any:
        if isinstance(node, ast.Constant):
            kind = "fp32" if isinstance(node.value, float) else "int32"
            return TileValue(known=node.value, dtype=kind, by=power(node.value))
        if isinstance(node, ast.Name):
            if node.id in env:
                return env[node.id]
            return self.constants.get(node.id, NamedValue(node.id))
        if isinstance(node, (ast.Tuple, ast.List)):
            return tuple(self.expression(part, env) for part in node.elts)
        if isinstance(node, ast.Attribute):
            return self.attribute(node, env)
        if isinstance(node, ast.Subscript):
            return self.subscript(node, env)
        if isinstance(node, ast.BinOp):
            left, right = self.expression(node.left, env), self.expression(node.right, env)
            return self.binary(node, _BINARY.get(type(node.op)), left, right)
        if isinstance(node, ast.UnaryOp):
            return self.unary(node, env)
        if isinstance(node, ast.Compare):
            value = self.expression(node.left, env)
            for op, part in zip(node.ops, node.comparators, strict=True):
                other = self.expression(part, env)
                if isinstance(op, (ast.Is, ast.IsNot)) and _a_tensor_and_none(value, other):
                    value = TileValue(known=isinstance(op, ast.IsNot))
                    continue
                found = self.binary(node, _COMPARED.get(type(op)), value, other)
                value = replace(found, dtype="bool", grain=_constancy(found, value, other)) if found.shape else found
            return value
        if isinstance(node, ast.BoolOp):
            parts = [self.expression(part, env) for part in node.values]
            if all(isinstance(p, TileValue) and p.known is not UNKNOWN for p in parts):
                join = all if isinstance(node.op, ast.And) else any
                return TileValue(known=join(p.known for p in parts))
            return self.elementwise(node, parts, "bool")
        if isinstance(node, ast.IfExp):
            test = self.expression(node.test, env)
            if isinstance(test, TileValue) and test.known is not UNKNOWN:
                return self.expression(node.body if test.known else node.orelse, env)
            self.expression(node.orelse, env)
            return self.expression(node.body, env)
        if isinstance(node, ast.Call):
            return self.call(node, env)
        if isinstance(node, (ast.Lambda, ast.JoinedStr)):
            return TileValue()
        raise self.fail(node, "this kind of expression is not supported")

    def attribute(self, node: ast.Attribute, env: dict[str, Any]) -> Any:
        base = self.expression(node.value, env)
        if isinstance(base, TileValue):
            if node.attr == "T":
                return self.transposed(base, (*range(len(base.shape) - 2), len(base.shape) - 1, len(base.shape) - 2))
            if node.attr in ("dtype", "element_ty", "type"):
                return NamedValue("dtype:" + base.dtype)
            if node.attr == "shape":
                return tuple(TileValue(known=n) for n in base.shape)
            if node.attr == "value":
                return base
            return NamedValue(node.attr, base)
        if isinstance(base, NamedValue):
            if base.name.startswith("dtype:"):
                bits = 8 * WIDTHS[base.name.removeprefix("dtype:")]
                sizes = {"primitive_bitwidth": bits, "itemsize": bits // 8}
                return TileValue(known=sizes[node.attr], by=bits) if node.attr in sizes else base
            return NamedValue(f"{base.name}.{node.attr}", base.of)
        raise self.fail(node, "expected an attribute of a tile, a type or a module")

    def subscript(self, node: ast.Subscript, env: dict[str, Any]) -> Any:
        base = self.expression(node.value, env)
        if isinstance(base, tuple):
            return base[self.integer(node.slice, env)]
        if not isinstance(base, TileValue):
            raise self.fail(node, "expected a subscript of a tile or a tuple")
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        shape: list[int] = []
        unit, source = None, 0
        grain: list[int] = []
        for part in parts:
            if isinstance(part, ast.Slice):
                if base.unit == source:
                    unit = len(shape)
                shape.append(base.shape[source])
                grain.append(base.grain[source] if base.grain else MOST)
                source += 1
            else:
                shape.append(1)
                grain.append(MOST)
        inserted = [axis for axis, part in enumerate(parts) if not isinstance(part, ast.Slice)]
        return replace(
            base, shape=tuple(shape), grain=tuple(grain) if base.grain else (), unit=unit, direct=None, fresh=0,
            expanded=(inserted[0], base) if len(inserted) == 1 and len(base.shape) == 2 else None, factors=None,
        )  # fmt: skip

    def unary(self, node: ast.UnaryOp, env: dict[str, Any]) -> Any:
        value = self.expression(node.operand, env)
        if not isinstance(value, TileValue):
            raise self.fail(node, "expected a tile or a number as operand")
        if value.known is not UNKNOWN:
            if isinstance(node.op, ast.Not):
                return TileValue(known=not value.known)
            return replace(value, known=-value.known if isinstance(node.op, ast.USub) else value.known)
        return self.elementwise(node, [value], value.dtype)

    def binary(self, node: ast.AST, op: Callable[[Any, Any], Any] | None, left: Any, right: Any) -> TileValue:
        if not isinstance(left, TileValue) or not isinstance(right, TileValue):
            if isinstance(left, NamedValue) and isinstance(right, NamedValue) and op in (operator.eq, operator.ne):
                return TileValue(known=op(left.name, right.name))
            raise self.fail(node, "expected tiles or numbers as operands")
        if op is not None and left.known is not UNKNOWN and right.known is not UNKNOWN:
            try:
                known = op(left.known, right.known)
            except (TypeError, ZeroDivisionError) as error:
                raise self.fail(node, str(error)) from error
            return TileValue(known=known, dtype=wider(left, right), by=power(known))
        if op is operator.add and bool(left.fresh) != bool(right.fresh):
            return self.added(left, right) if left.fresh else self.added(right, left)
        found = self.elementwise(node, [left, right], wider(left, right))
        if op in (operator.add, operator.sub):
            return replace(found, unit=side(found.shape, left, right), by=min(left.by, right.by))
        if op is operator.mul:
            for value, factor in ((left, right), (right, left)):
                if factor.known is not UNKNOWN and factor.known == 1 and value.unit is not None:
                    return replace(found, unit=value.unit + len(found.shape) - len(value.shape), by=value.by)
            return replace(
                found, unit=None, by=min(_each(left) * _each(right), MOST), factors=_outer(found.shape, left, right)
            )
        if op is operator.and_:
            return replace(found, unit=None, grain=_both(found.shape, left, right))
        return replace(found, unit=None)


def _outer(shape: tuple[int, ...], left: TileValue, right: TileValue) -> tuple[TileValue, TileValue] | None:
    """The tiles x and y if a product of tiles is x[:, :, None] * y[None, :, :], whose sum along the second axis Triton
    makes a matrix product of, in tf32 (`CombineBroadcastMulReducePattern` in its `Combine.cpp`)."""
    if left.expanded is None or right.expanded is None or min(shape[0], shape[-1]) < 16:
        return None
    (first, x), (second, y) = left.expanded, right.expanded
    return (x, y) if (first, second) == (2, 0) and left.shape[1] == right.shape[1] else None


def _loaded(target: ast.expr) -> ast.expr:
    """The target of an augmented assignment, as an expression that is read."""
    return ast.Name(target.id, ast.Load()) if isinstance(target, ast.Name) else target


def _each(value: TileValue) -> int:
    """The power of two that is known to divide every entry of a tile."""
    return 1 if value.unit is not None else value.by


def _constancy(found: TileValue, left: TileValue, right: Any) -> tuple[int, ...]:
    """Along each axis of a comparison, the length of aligned runs of neighbors whose results are equal."""
    if not isinstance(right, TileValue):
        return ()
    grain = [MOST if n == 1 else 1 for n in found.shape]
    for value, other in ((left, right), (right, left)):
        for axis, length in enumerate(found.shape):
            own = axis - len(found.shape) + len(value.shape)
            far = axis - len(found.shape) + len(other.shape)
            flat = far < 0 or other.shape[far] == 1
            if own >= 0 and value.shape[own] == length and flat:
                run = value.unit == own
                grain[axis] = max(grain[axis], min(length, value.by, other.by) if run else 1)
            elif flat and (own < 0 or value.shape[own] == 1):
                grain[axis] = MOST
    return tuple(grain)


def _both(shape: tuple[int, ...], left: TileValue, right: TileValue) -> tuple[int, ...]:
    """The same for the conjunction of two conditions, from their `grain`."""

    def of(value: TileValue, axis: int) -> int:
        own = axis - len(shape) + len(value.shape)
        if own < 0 or value.shape[own] == 1:
            return MOST
        return value.grain[own] if value.grain else 1

    return tuple(min(of(left, axis), of(right, axis)) for axis in range(len(shape)))
