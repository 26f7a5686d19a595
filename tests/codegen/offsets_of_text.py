"""What the integers of a kernel can be, read off its text: intervals, and of how many bits they are reckoned with.

A text in Triton or Gluon is run on intervals, at the arguments of one launch. Where a sum or a product of numbers of 32
bits can be more than they hold, or an offset of a load or a store is of an interval that is not known, that is noted.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from catdiag.runtime.machine_code import ArrayArgument, RecordedLaunch

BITS = {32: 2**31, 64: 2**63}


@dataclass(frozen=True)
class Range:
    """Integers from `low` to `high`, reckoned with in so many bits."""

    low: int
    high: int
    bits: int = 32


@dataclass(frozen=True)
class Tensors:
    """An array, or a place in one."""


REAL, OPAQUE, TENSOR = "a number with a point, or a truth value", "something else", Tensors()
ANY = Range(-(2**31), 2**31 - 1)
"""What an array gives."""


def given(value: object) -> Any:
    """An argument of a launch as it is here."""
    if isinstance(value, ArrayArgument):
        return TENSOR
    if isinstance(value, (bool, float)):
        return value
    if isinstance(value, int):
        return Range(value, value, 32 if -(2**31) <= value < 2**31 else 64)
    return OPAQUE


@dataclass
class Reader:
    """Runs the text of a kernel on intervals."""

    launch: RecordedLaunch
    names: dict[str, Any] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    offsets: int = 0

    def function(self, node: ast.FunctionDef, more: Mapping[str, Any]) -> None:
        """The body of a kernel, its parameters those of the launch or `more`."""
        for argument in node.args.args:
            name = argument.arg
            self.names[name] = more[name] if name in more else given(self.launch.arguments.get(name))
        self.body(node.body)

    def body(self, lines: list[ast.stmt]) -> None:
        """Statements in order."""
        for line in lines:
            self.statement(line)

    def statement(self, line: ast.stmt) -> None:
        """One statement: what it assigns, and loops and choices in it."""
        match line:
            case ast.Assign(targets=[target], value=value):
                self.assign(target, self.value(value))
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self.assign(target, self.value(value))
            case ast.AugAssign(target=ast.Name(id=name)):
                self.names[name] = OPAQUE  # the number of a turn
            case ast.If(test=test, body=body, orelse=other):
                found = self.value(test)
                self.body(body if found is not False else [])
                self.body(other if found is not True else [])
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=func, args=args), body=body):
                self.loop(name, ast.unparse(func), [self.value(a) for a in args], body)
            case ast.Expr(value=value):
                self.value(value)

    def assign(self, target: ast.expr, value: Any) -> None:
        """A name, or several."""
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        values = value if isinstance(value, tuple) else (value,) * len(names)
        for name, one in zip(names, values, strict=True):
            assert isinstance(name, ast.Name)
            self.names[name.id] = one

    def loop(self, name: str, kind: str, args: list[Any], body: list[ast.stmt]) -> None:
        """Turns of a loop: each by itself where their number is known as it is written, else all at once."""
        assert "static" not in kind or all(isinstance(a, Range) and a.low == a.high for a in args)
        args = [a if isinstance(a, Range) else ANY for a in args]
        start, stop = (Range(0, 0), args[0]) if len(args) == 1 else args[:2]
        if kind.endswith("static_range"):
            for turn in range(start.low, stop.high):
                self.names[name] = Range(turn, turn)
                self.body(body)
            return
        self.names[name] = Range(start.low, max(start.low, stop.high - 1))
        self.body(body)

    # -- expressions -------------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Any:
        """What an expression is."""
        match node:
            case ast.Constant(value=value):
                return given(value)
            case ast.Name(id=name):
                return self.names.get(name, OPAQUE)
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                return tuple(self.value(e) for e in elts)
            case ast.Subscript(value=value):
                return self.value(value)
            case ast.Attribute():
                return OPAQUE
            case ast.UnaryOp(op=op, operand=operand):
                inner = self.value(operand)
                if isinstance(op, ast.Not):
                    return not inner if isinstance(inner, bool) else REAL
                return Range(-inner.high, -inner.low, inner.bits) if isinstance(inner, Range) else inner
            case ast.BoolOp(op=op, values=values):
                found = [self.value(v) for v in values]
                known = all(isinstance(v, bool) for v in found)
                return (all(found) if isinstance(op, ast.And) else any(found)) if known else REAL
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self.compared(op, self.value(left), self.value(right))
            case ast.BinOp(left=left, op=op, right=right):
                return self.binary(node, op, self.value(left), self.value(right))
            case ast.IfExp(test=test, body=body, orelse=other):
                found = self.value(test)
                assert isinstance(found, bool)
                return self.value(body if found else other)
            case ast.Call():
                return self.call(node)
        return OPAQUE

    def compared(self, op: ast.cmpop, a: Any, b: Any) -> Any:
        """A comparison, decided where both numbers are known."""
        if isinstance(a, Range) and isinstance(b, Range) and a.low == a.high and b.low == b.high:
            return {ast.Eq: a.low == b.low, ast.NotEq: a.low != b.low, ast.Lt: a.low < b.low, ast.GtE: a.low >= b.low,
                    ast.LtE: a.low <= b.low, ast.Gt: a.low > b.low}[type(op)]  # fmt: skip
        return REAL

    def binary(self, node: ast.expr, op: ast.operator, a: Any, b: Any) -> Any:
        """A sum, a product or a quotient, noted where its bits do not hold it."""
        if TENSOR in (a, b):
            self.offsets += 1
            other = b if a is TENSOR else a
            if not isinstance(other, Range):
                self.wrong.append(f"an offset that is not known: {ast.unparse(node)}")
            return TENSOR
        if not (isinstance(a, Range) and isinstance(b, Range)):
            return REAL
        pairs = [(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        match op:
            case ast.Add():
                ends = [x + y for x, y in pairs]
            case ast.Sub():
                ends = [x - y for x, y in pairs]
            case ast.Mult():
                ends = [x * y for x, y in pairs]
            case ast.FloorDiv():
                ends = [x // max(y, 1) for x, y in pairs]
            case ast.Mod():
                ends = [0, b.high - 1]
            case _:
                return REAL
        bits = max(a.bits, b.bits)
        if min(ends) < -BITS[bits] or max(ends) >= BITS[bits]:
            self.wrong.append(f"{min(ends):,} to {max(ends):,} in {bits} bits: {ast.unparse(node)}")
            return Range(-BITS[bits], BITS[bits] - 1, bits)
        return Range(min(ends), max(ends), bits)

    def call(self, node: ast.Call) -> Any:
        """A call: of what is known of integers, and loads and stores."""
        name = ast.unparse(node.func).replace("gl.", "tl.")
        args = [self.value(a) for a in node.args]
        ranges = [a for a in args if isinstance(a, Range)]
        for k in node.keywords:
            self.value(k.value)
        match name:
            case "tl.arange":
                return Range(0, ranges[1].high - 1)
            case "tl.program_id":
                return Range(0, self.launch.programs - 1)
            case "tl.cast":
                return Range(args[0].low, args[0].high, 64) if ranges else args[0]
            case "tl.cdiv":
                return Range(-(-ranges[0].low // ranges[1].high), -(-ranges[0].high // max(1, ranges[1].low)))
            case "tl.swizzle2d":
                return tuple(Range(0, r.high - 1) for r in ranges[2:4])
            case "tl.where":
                ranges = [a for a in args[1:] if isinstance(a, Range)]
                return self.hull(ranges) if len(ranges) == 2 else REAL
            case "tl.maximum" | "max" | "tl.minimum" | "min" if len(ranges) == 2:
                pick = max if "max" in name else min
                low, high = (pick(getattr(r, end) for r in ranges) for end in ("low", "high"))
                return Range(low, high, max(r.bits for r in ranges))
            case "tl.max" | "tl.min" | "tl.broadcast_to" | "tl.to_tensor" | "tl.convert_layout" | "tl.expand_dims":
                return args[0]
            case "_down" | "tl.trans" | "tl.permute" | "tl.reshape":
                return args[0]
            case "tl.zeros" if "int32" in ast.unparse(node):
                return Range(0, 0)
            case "_floor" | "_floor_rows":
                return Range(min(0, ranges[0].low), max(0, ranges[0].high), ranges[0].bits)
            case "tl.load" | "_load" | "_load_rows" | "tl.store":
                if args[0] is not TENSOR:
                    self.wrong.append(f"a place that is not known: {ast.unparse(node)}")
                return REAL
        if isinstance(node.func, ast.Attribute) and node.func.attr == "to":
            inner = self.value(node.func.value)
            if ast.unparse(node.args[0]).endswith("int32"):
                return inner if isinstance(inner, Range) else ANY
            return inner if isinstance(inner, Range) and "float" not in ast.unparse(node.args[0]) else REAL
        return REAL

    def hull(self, ranges: list[Range]) -> Range:
        """The least interval that has all of some."""
        return Range(min(r.low for r in ranges), max(r.high for r in ranges), max(r.bits for r in ranges))


def read(text: str, launch: RecordedLaunch) -> Reader:
    """What is wrong with the integers of a kernel at a launch, of one in Gluon those of its warps that compute."""
    functions = {n.name: n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)}
    reader = Reader(launch)
    name = (
        launch.kernel.removesuffix("_specialized") + "_rows"
        if launch.kernel.endswith("_specialized")
        else launch.kernel
    )
    groups = launch.arguments.get("groups", 1)
    reader.function(functions[name], {"me": Range(0, groups - 1 if isinstance(groups, int) else 0)})
    return reader
