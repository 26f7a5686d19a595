"""Abstract interpretation of a kernel: its loops, loads, stores and matrix products, with their tiles.

The tree of a Triton kernel (`catdiag.codegen.kernel_tree`) is executed on *abstract tiles*: that of which a generated
kernel is printed, or one that is read from a source. A tile has a shape, a type, its value if that is a known
constant (as every length of a tile is), the axis along which neighboring entries are contiguous in memory, and the
loads on which it depends. The body of a loop is executed twice: first to find the register layouts of loop-carried
values. The diagram of the kernel is not used, so that the result describes the kernel as it was written.

>>> from catdiag.codegen.python_source import read_code
>>> trace = read(read_code('''
... @triton.jit
... def scaled(A, out, n, g: tl.constexpr):
...     i = tl.program_id(0) * g + tl.arange(0, g)
...     tl.store(out + i, tl.load(A + i, mask=i < n) * 2)
... '''), "scaled", {"A": Pointer("bf16"), "out": Pointer("bf16"), "g": 128}, warps=4)
>>> [(load.array, load.shape) for load in trace.loads]
[('A', (128,))]
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from catdiag.codegen.kernel_tree import (
    Assign,
    Do,
    ForLoop,
    If,
    KernelCode,
    KernelFunction,
    Line,
    PythonStatement,
    Return,
    Update,
    While,
    walked,
)
from catdiag.codegen.syntax import (
    Attribute,
    BinaryOperation,
    Code,
    Compare,
    FunctionCall,
    IfElse,
    ListOf,
    Logical,
    Name,
    Number,
    Parens,
    PythonExpression,
    Subscript,
    TupleOf,
    Unary,
    Unread,
    Whole,
)
from catdiag.runtime.abstract_interpreter.tile_operations import Calls, Returned
from catdiag.runtime.abstract_interpreter.tile_values import (
    HOPPER,
    MOST,
    UNKNOWN,
    WIDTHS,
    ElementType,
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

_BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "/": operator.truediv,
    "%": operator.mod, "**": operator.pow, "<<": operator.lshift, ">>": operator.rshift, "&": operator.and_,
    "|": operator.or_, "^": operator.xor,
}  # fmt: skip
_COMPARED: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "is": operator.is_, "is not": operator.is_not,
}  # fmt: skip


def read(
    code: KernelCode, kernel: str, arguments: Mapping[str, object], warps: int, generation: int = HOPPER
) -> TileTrace:
    """The trace of one program (thread block) of a kernel, given its arguments by name: `Pointer`s and numbers.

    An integer argument is known if it is 1, as Triton specializes it, or if its parameter is a `tl.constexpr`. Of other
    integers it is known whether 16 divides them; this is assumed of arguments that are not given. `generation` is
    the chip's: 8 has matrix products by single warps only (Ampere), 9 by four warps together too (Hopper), 10 has their
    results and first factors in tensor memory (Blackwell).

    Raises CatdiagError, with the line, for a kernel that the module does not define, and for what the interpreter does
    not understand.
    """
    definition = kernel_of(code, kernel)
    constants = {name: TileValue(known=n.value, by=power(n.value)) for name, n in code.constants.items()}
    reader = _AbstractInterpreter(code.functions, constants, warps, generation)
    env: dict[str, Any] = {}
    for parameter in definition.parameters:
        name = parameter.name
        if name in arguments:
            env[name] = _argument(name, arguments[name], parameter.constant)
        elif parameter.default is not None:
            env[name] = reader.expression(parameter.default, {})
        else:
            env[name] = TileValue(by=DIVIDED)
    reader.block(definition.body, env)
    return reader.trace


def kernel_of(code: KernelCode, kernel: str) -> KernelFunction:
    """A kernel by its name. Raises CatdiagError if the module does not define it."""
    if kernel not in code.functions:
        raise CatdiagError(f"the text defines no kernel {kernel!r}: it has {', '.join(code.functions) or 'none'}")
    return code.functions[kernel]


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
    """Whether one of two values is None and the other a tensor, a descriptor or a tile, so that `is` is false."""
    pairs = ((a, b), (b, a))
    return any(
        getattr(x, "known", x) is None and isinstance(y, TileValue) and bool(y.array or y.shape) for x, y in pairs
    )


class _AbstractInterpreter(Calls):
    """Executes statements and expressions on abstract tiles; `env` gives the values of names."""

    # -- statements ----------------------------------------------------------------------------

    def block(self, body: Sequence[PythonStatement], env: dict[str, Any]) -> None:
        for statement in body:
            self.line = statement.line or self.line
            self.statement(statement, env)

    def statement(self, node: PythonStatement, env: dict[str, Any]) -> None:
        match node:
            case Assign(targets, value):
                found = self.expression(value, env)
                for target in targets:
                    self.assign(target, found, env)
            case Update(target, sign, value):
                left = self.expression(target, env)
                right = self.expression(value, env)
                self.assign(target, self.binary(target, _BINARY.get(sign), left, right), env)
            case Do(value):
                self.expression(value, env)
            case ForLoop():
                self.for_loop(node, env)
            case While(_, body):
                self.looped(body, env, None)
            case If(condition, body, otherwise):
                test = self.expression(condition, env)
                if isinstance(test, TileValue) and test.known is not UNKNOWN:
                    self.block(body if test.known else otherwise, env)
                else:
                    other, around, self.conditional = dict(env), self.conditional, True
                    with self.equal.region():
                        self.block(body, env)
                    with self.equal.region():
                        self.block(otherwise, other)
                    self.conditional = around
                    env.update({n: v for n, v in other.items() if n not in env})
            case Return(given):
                raise Returned(None if given is None else self.expression(given, env))
            case Line(text):
                raise self.fail(Code(text), "this kind of statement is not supported")

    def assign(self, target: PythonExpression, value: Any, env: dict[str, Any]) -> None:
        if isinstance(target, Name):
            env[target.id] = value
        elif isinstance(target, (TupleOf, ListOf)):
            parts = value if isinstance(value, tuple) else (value,) * len(target.parts)
            for part, one in zip(target.parts, parts, strict=True):
                self.assign(part, one, env)
        else:
            raise self.fail(target, "expected a name to assign to")

    def for_loop(self, node: ForLoop, env: dict[str, Any]) -> None:
        target, over, body = node.target, node.over, node.body
        name = str(over.function) if isinstance(over, FunctionCall) else ""
        if not isinstance(over, FunctionCall) or name.split(".")[-1] not in ("range", "static_range"):
            raise self.fail(over, "expected a loop over range(…), tl.range(…) or tl.static_range(…)")
        if name.endswith("static_range"):
            numbers = [self.integer(argument, env) for argument in over.args]
            for number in range(*numbers):
                self.assign(target, TileValue(known=number, by=power(number)), env)
                self.block(body, env)
            return
        stages = None
        for keyword, given in over.keywords:
            found = self.expression(given, env)
            if keyword == "num_stages" and isinstance(found, TileValue) and found.known is not UNKNOWN:
                stages = found.known
        bounds = [self.expression(argument, env) for argument in over.args]
        steps = [v.by for v in (*bounds[:1], *bounds[2:]) if isinstance(v, TileValue)] if len(bounds) > 1 else [1]
        self.assign(target, TileValue(by=min(steps)), env)
        self.looped(body, env, stages)

    def looped(self, body: Sequence[PythonStatement], env: dict[str, Any], stages: int | None) -> None:
        """A loop: its body is executed first to find the layouts of loop-carried values, then for the trace."""
        carried = assigned(body)
        trace, self.trace = self.trace, TileTrace(self.trace.generation, self.warps, time=self.trace.time)
        trial = dict(env)
        self.trace.loads = [replace(load) for load in trace.loads]
        loop, self.loop = self.loop, -1
        around, self.products, self.chain = (self.products, self.chain), [], ()
        conditional, self.conditional = self.conditional, False
        with self.equal.region():
            self.block(body, trial)
        self.trace, self.loop = trace, loop
        self.chain, self.products = (self.products[-1] if len(self.products) > 1 else ()), []
        start, first = self.now(), set(env)
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
        with self.equal.region():
            self.block(body, env)
        self.loop, made.end = made.outer, self.now()
        for name in carried & set(trial):
            if isinstance(after := env[name], TileValue) and name in first and after.shape and not after.matrix:
                env[name] = replace(after, carried=True)
        self.products, self.chain = around
        self.conditional = conditional

    # -- expressions ---------------------------------------------------------------------------

    def expression(self, node: PythonExpression, env: dict[str, Any]) -> Any:
        match node:
            case Number(value):
                kind = "fp32" if isinstance(value, float) else "int32"
                return TileValue(known=value, dtype=kind, by=power(value))
            case Name(name):
                return env[name] if name in env else self.constants.get(name, NamedValue(name))
            case Parens(of):
                return self.expression(of, env)
            case TupleOf(parts) | ListOf(parts):
                return tuple(self.expression(part, env) for part in parts)
            case Attribute():
                return self.attribute(node, env)
            case Subscript():
                return self.subscript(node, env)
            case BinaryOperation(left, sign, right):
                one, other = self.expression(left, env), self.expression(right, env)
                return self.equal.address((sign, one, other), lambda: self.binary(node, _BINARY.get(sign), one, other))
            case Unary():
                return self.unary(node, env)
            case Compare():
                return self.comparison(node, env)
            case Logical(sign, parts):
                values = [self.expression(part, env) for part in parts]
                if all(isinstance(p, TileValue) and p.known is not UNKNOWN for p in values):
                    return TileValue(known=(all if sign == "and" else any)(p.known for p in values))
                return self.elementwise(node, values, "bool")
            case IfElse(condition, yes, no):
                test = self.expression(condition, env)
                if isinstance(test, TileValue) and test.known is not UNKNOWN:
                    return self.expression(yes if test.known else no, env)
                self.expression(no, env)
                return self.expression(yes, env)
            case FunctionCall():
                return self.call(node, env)
            case Unread():
                return TileValue()
        raise self.fail(node, "this kind of expression is not supported")

    def comparison(self, node: Compare, env: dict[str, Any]) -> Any:
        value = self.expression(node.first, env)
        for sign, part in node.rest:
            other = self.expression(part, env)
            if sign in ("is", "is not") and _a_tensor_and_none(value, other):
                value = TileValue(known=sign == "is not")
                continue
            found = self.binary(node, _COMPARED.get(sign), value, other)
            value = replace(found, dtype="bool", grain=_constancy(found, value, other)) if found.shape else found
        return value

    def attribute(self, node: Attribute, env: dict[str, Any]) -> Any:
        base = self.expression(node.of, env)
        if isinstance(base, TileValue):
            if node.name == "T":
                return self.transposed(base, (*range(len(base.shape) - 2), len(base.shape) - 1, len(base.shape) - 2))
            if node.name in ("dtype", "element_ty", "type"):
                return ElementType(base.dtype)
            if node.name == "shape":
                return tuple(TileValue(known=n) for n in base.shape)
            if node.name == "value":
                return base
            return NamedValue(node.name, base)
        if isinstance(base, ElementType):
            bits = 8 * WIDTHS[base.name]
            sizes = {"primitive_bitwidth": bits, "itemsize": bits // 8}
            return TileValue(known=sizes[node.name], by=bits) if node.name in sizes else base
        if isinstance(base, NamedValue):
            return NamedValue(f"{base.name}.{node.name}", base.of)
        raise self.fail(node, "expected an attribute of a tile, a type or a module")

    def subscript(self, node: Subscript, env: dict[str, Any]) -> Any:
        base, parts = self.expression(node.of, env), node.parts
        if isinstance(base, tuple):
            return base[self.integer(parts[0], env)]
        if not isinstance(base, TileValue):
            raise self.fail(node, "expected a subscript of a tile or a tuple")
        places = ("[]", base, *(":" if isinstance(part, Whole) else "new" for part in parts))
        return self.equal.address(places, lambda: self.expanded(base, parts))

    def expanded(self, base: TileValue, parts: Sequence[PythonExpression]) -> TileValue:
        """A tile with an axis of length 1 at each place of a subscript that is no colon."""
        shape: list[int] = []
        unit, source = None, 0
        grain: list[int] = []
        for part in parts:
            if isinstance(part, Whole):
                if base.unit == source:
                    unit = len(shape)
                shape.append(base.shape[source])
                grain.append(base.grain[source] if base.grain else MOST)
                source += 1
            else:
                shape.append(1)
                grain.append(MOST)
        inserted = [axis for axis, part in enumerate(parts) if not isinstance(part, Whole)]
        return replace(
            base, shape=tuple(shape), grain=tuple(grain) if base.grain else (), unit=unit, direct=None, fresh=0,
            expanded=(inserted[0], base) if len(inserted) == 1 and len(base.shape) == 2 else None, factors=None,
        )  # fmt: skip

    def unary(self, node: Unary, env: dict[str, Any]) -> Any:
        value = self.expression(node.of, env)
        if not isinstance(value, TileValue):
            raise self.fail(node, "expected a tile or a number as operand")
        if value.known is not UNKNOWN:
            if node.sign == "not":
                return TileValue(known=not value.known)
            return replace(value, known=-value.known if node.sign == "-" else value.known)
        return self.elementwise(node, [value], value.dtype)

    def binary(self, node: PythonExpression, op: Callable[[Any, Any], Any] | None, left: Any, right: Any) -> TileValue:
        if not isinstance(left, TileValue) or not isinstance(right, TileValue):
            names = ElementType | NamedValue
            if isinstance(left, names) and isinstance(right, names) and op in (operator.eq, operator.ne):
                alike = type(left) is type(right)
                return TileValue(known=op(*(v.name if alike else self.named_type(v) for v in (left, right))))
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


def assigned(body: Sequence[PythonStatement]) -> set[str]:
    """The names to which statements assign."""
    found: list[PythonExpression] = []
    for s in walked(body):
        found += s.targets if isinstance(s, Assign) else [s.target] if isinstance(s, (Update, ForLoop)) else []
    for target in found:
        found += target.parts if isinstance(target, (TupleOf, ListOf)) else ()
    return {target.id for target in found if isinstance(target, Name)}


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
