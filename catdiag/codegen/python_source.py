"""The source of kernels, as trees (`catdiag.codegen.kernel_tree`): how kernels that others have written are read.

>>> code = read_code('''
... @triton.jit
... def scaled(A, out, g: tl.constexpr):
...     i = tl.arange(0, g)
...     tl.store(out + i, tl.load(A + i) * 2)
... ''')
>>> code.functions["scaled"].parameters[-1], code.functions["scaled"].jit
(Parameter(name='g', constant=True, default=None), 'triton')
>>> print(code.functions["scaled"].body[1].value)
tl.store(out + i, tl.load(A + i) * 2)
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from catdiag.codegen.kernel_tree import (
    Assign,
    Do,
    ForLoop,
    If,
    KernelCode,
    KernelFunction,
    Line,
    Parameter,
    Pass,
    PythonStatement,
    Return,
    Update,
    While,
)
from catdiag.codegen.syntax import (
    BOTH,
    CALL,
    CHOICE,
    COMPARE,
    EITHER,
    LEVELS,
    SIGN,
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
    PythonExpression,
    Subscript,
    TupleOf,
    Unary,
    Unread,
    Whole,
    bracketed,
)
from catdiag.util.errors import CatdiagError
from catdiag.util.python_syntax import parse

_BINARY: Mapping[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Div: "/", ast.Mod: "%", ast.Pow: "**",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.MatMult: "@",
}  # fmt: skip
_COMPARED: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
_UNARY: Mapping[type[ast.unaryop], str] = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not"}


@lru_cache(maxsize=4)
def read_code(text: str) -> KernelCode:
    """The functions and constants of a module's source. Raises CatdiagError for a text that is not Python."""
    try:
        tree = parse(text)
    except SyntaxError as error:
        raise CatdiagError(f"the text is not Python: {error}") from error
    # Kernels that need optional imports are defined under a condition.
    nested = [n for node in tree.body for n in (node.body if isinstance(node, ast.If) else [node])]
    constants = {
        target.id: Number(node.value.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return KernelCode({n.name: _function(n) for n in nested if isinstance(n, ast.FunctionDef)}, constants)


def _function(node: ast.FunctionDef) -> KernelFunction:
    given = node.args.args
    defaults = [None] * (len(given) - len(node.args.defaults)) + [_expression(d) for d in node.args.defaults]
    parameters = tuple(
        Parameter(a.arg, a.annotation is not None and "constexpr" in ast.unparse(a.annotation), default)
        for a, default in zip(given, defaults, strict=True)
    )
    decorators = [ast.unparse(d) for d in node.decorator_list]
    jit = next((d.removesuffix(".jit") for d in decorators if d.endswith(".jit")), "")
    first = node.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return KernelFunction(node.name, parameters, _block(node.body[1:] if documented else node.body), jit)


def _block(body: Iterable[ast.stmt]) -> Sequence[PythonStatement]:
    return [_statement(node) for node in body]


def _statement(node: ast.stmt) -> PythonStatement:
    """A statement; one of a kind that kernels do not have stays as it stands."""
    found: PythonStatement
    match node:
        case ast.Assign(targets=targets, value=value):
            found = Assign(tuple(map(_expression, targets)), _expression(value))
        case ast.AnnAssign(target=target, annotation=annotation, value=ast.expr() as value):
            found = Assign((_expression(target),), _expression(value), _expression(annotation))
        case ast.AugAssign(target=target, op=op, value=value):
            found = Update(_expression(target), _BINARY[type(op)], _expression(value))
        case ast.Expr(value=value):
            found = Do(_expression(value))
        case ast.For(target=target, iter=over, body=body):
            found = ForLoop(_expression(target), _expression(over), _block(body))
        case ast.While(test=test, body=body):
            found = While(_expression(test), _block(body))
        case ast.If(test=test, body=body, orelse=otherwise):
            found = If(_expression(test), _block(body), _block(otherwise))
        case ast.Return(value=value):
            found = Return(None if value is None else _expression(value))
        case ast.Pass() | ast.Assert() | ast.Break() | ast.Continue() | ast.AnnAssign():
            found = Pass(ast.unparse(node))
        case _:
            found = Line(ast.unparse(node))
    found.line = node.lineno
    return found


def _expression(node: ast.expr) -> PythonExpression:
    """An expression; one of a kind that kernels do not have stays as it stands."""
    match node:
        case ast.Constant(value=value):
            return Number(value)
        case ast.Name(id=name):
            return Name(name)
        case ast.Tuple(elts=parts):
            return TupleOf(tuple(map(_expression, parts)))
        case ast.List(elts=parts):
            return ListOf(tuple(map(_expression, parts)))
        case ast.Attribute(value=of, attr=name):
            return Attribute(bracketed(_expression(of), CALL), name)
        case ast.Subscript(value=of, slice=index):
            parts = index.elts if isinstance(index, ast.Tuple) else [index]
            return Subscript(bracketed(_expression(of), CALL), tuple(map(_expression, parts)))
        case ast.Slice(lower=None, upper=None, step=None):
            return Whole()
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return Number(-value)
        case ast.UnaryOp(op=op, operand=of):
            return Unary(_UNARY[type(op)], bracketed(_expression(of), SIGN))
        case ast.BinOp(left=left, op=op, right=right):
            level = LEVELS[sign := _BINARY[type(op)]]
            return BinaryOperation(bracketed(_expression(left), level), sign, bracketed(_expression(right), level + 1))
        case ast.Compare(left=first, ops=ops, comparators=rest):
            operands = [bracketed(_expression(e), COMPARE + 1) for e in (first, *rest)]
            return Compare(operands[0], tuple((_COMPARED[type(op)], e) for op, e in zip(ops, operands[1:])))
        case ast.BoolOp(op=op, values=values):
            sign, level = ("and", BOTH) if isinstance(op, ast.And) else ("or", EITHER)
            return Logical(sign, tuple(bracketed(_expression(e), level + 1) for e in values))
        case ast.IfExp(test=test, body=yes, orelse=no):
            return IfElse(*(bracketed(_expression(e), CHOICE + 1) for e in (test, yes, no)))
        case ast.Call(func=of, args=args, keywords=named):
            keywords = tuple((k.arg, _expression(k.value)) for k in named if k.arg)
            return FunctionCall(bracketed(_expression(of), CALL), tuple(map(_expression, args)), keywords)
        case ast.Lambda() | ast.JoinedStr():
            return Unread(ast.unparse(node))
    return Code(ast.unparse(node))
