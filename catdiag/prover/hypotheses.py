"""Hypotheses on inputs: assumptions in the language of programs, as programs that give truth values.

`"A > 0"`, `"all(M)"`, `"sorted(offsets)"`, `"offsets < n"`: arrays by the names of a program's inputs, sizes by theirs,
functions as under `cd.algorithm` but without `cd.`. A hypothesis says that the truth value is defined, and true at
every index. The text is read as data: only arithmetic, comparisons, `and`, `or`, `not` and the functions of `FUNCTIONS`
can stand in it.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any

from catdiag.category.diagram import Diagram
from catdiag.category.types import size_symbols
from catdiag.frontend import builder, elementwise, indexing
from catdiag.frontend.tracing import Traced, running
from catdiag.prover.assumptions import AssumptionError
from catdiag.prover.export import program
from catdiag.util.errors import CatdiagError, TypeMismatch

LONGEST = 1000
"""The most letters of an assumption."""


def increasing(array: Traced, axis: str = "") -> Traced:
    """Whether an array is sorted along an axis (its only one): for every i ≤ j, a[i] ≤ a[j]. Raises TypeMismatch for an
    array of several axes without the name of one."""
    if not axis and len(array.axes) != 1:
        raise TypeMismatch(f"sorted takes an array with one axis, or the name of an axis: this one has {array.axes}")
    name = axis or array.axes[0]
    trace = running()
    other = next(f"{name}_{k}" for k in range(len(trace.axes) + 1) if f"{name}_{k}" not in trace.axes)
    later = array.rename(**{name: other})
    return (builder.index(name) > builder.index(other)) | (array <= later)


def _of_all(reduce: Callable[[Any, str], Traced]) -> Callable[..., Traced]:
    """A reduction whose axes may be left out: it is over all axes then."""

    def reduced(array: Any, axes: str = "") -> Traced:
        return reduce(array, axes or " ".join(array.axes)) if axes or array.axes else array

    return reduced


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{name: getattr(elementwise, name) for name in (
        "exp", "log", "sqrt", "tanh", "sigmoid", "abs", "maximum", "minimum", "clip", "where", "apply",
    )},
    **{name: _of_all(getattr(builder, name)) for name in ("sum", "prod", "max", "min", "any", "all", "mean")},
    **{name: getattr(builder, name) for name in ("index", "size", "argmax", "argmin")},
    **{name: getattr(indexing, name) for name in ("shift", "reverse", "gather")},
    "rename": Traced.rename,
    "sorted": increasing,
}  # fmt: skip
"""What can be called in an assumption about inputs."""

_BINARY: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.And: operator.and_, ast.Or: operator.or_,
}  # fmt: skip
_UNARY: Mapping[type, Callable[[Any], Any]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.invert, ast.Invert: operator.invert,
}  # fmt: skip


def names_in(text: str) -> set[str]:
    """The names of arrays and sizes in an assumption; none where it does not parse.

    >>> sorted(names_in("all(M) and offsets < n"))
    ['M', 'n', 'offsets']
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called}


def hypothesis(text: str, diagram: Diagram) -> dict[str, Any]:
    """The core program of an assumption about the inputs of a diagram: of these inputs, with truth values as results.

    >>> import catdiag as cd
    >>> f = cd.algorithm("x")(lambda A: 1 / A).diagram
    >>> [node["op"] for node in hypothesis("A > 0 and A < size('x')", f)["nodes"]]
    ['const', 'map', 'size', 'map']

    Raises AssumptionError for a text that is none.
    """
    if not isinstance(text, str) or len(text) > LONGEST or not text.isprintable():
        raise AssumptionError(f"cannot read the assumption {str(text)[:80]!r}: expected a condition, such as 'A > 0'")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise AssumptionError(f"cannot read the assumption {text!r}: expected a condition, such as 'A > 0'") from error
    sizes = {s for ty in (*diagram.dom, *diagram.cod) for a in ty.axes for s in size_symbols(a.size)}

    def made(*arrays: Traced) -> tuple[Traced, ...]:
        reader = _Reader(text, dict(zip(diagram.input_names, arrays, strict=True)), sizes)
        found = tuple(reader.read(part) for part in _conjuncts(tree))
        for truth in found:
            if not isinstance(truth, Traced) or truth.type.element != "bool":
                raise reader.wrong("expected truth values, such as 'A > 0' or 'all(M)'")
        return found

    try:
        return program(builder.program(list(diagram.dom), made, diagram.input_names))
    except AssumptionError:
        raise
    except (CatdiagError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        said = error.message if isinstance(error, CatdiagError) else str(error)
        raise AssumptionError(f"cannot read the assumption {text!r}: {said}") from error


def _conjuncts(tree: ast.expr) -> list[ast.expr]:
    """The parts of a conjunction; what is true at every index needs no `all` around it."""
    if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And):
        return [part for value in tree.values for part in _conjuncts(value)]
    whole = isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "all"
    if whole and isinstance(tree, ast.Call) and len(tree.args) == 1 and not tree.keywords:
        return _conjuncts(tree.args[0])
    return [tree]


class _Reader:
    """Reads the parts of an assumption, as the arrays that they are under a trace."""

    def __init__(self, text: str, arrays: Mapping[str, Traced], sizes: set[str]) -> None:
        self.text, self.arrays, self.sizes = text, arrays, sizes

    def wrong(self, reason: str) -> AssumptionError:
        """The error for this assumption."""
        return AssumptionError(f"cannot read the assumption {self.text!r}: {reason}")

    def read(self, node: ast.expr) -> Any:
        """An array, a number or a text."""
        match node:
            case ast.Constant(value=bool() | int() | float() | str() as value):
                return value
            case ast.Name(id=name):
                return self._named(name)
            case ast.Compare(left=left, ops=ops, comparators=rest):
                sides = [self.read(side) for side in (left, *rest)]
                found = [_BINARY[type(op)](*pair) for op, pair in zip(ops, pairwise(sides), strict=True)
                         if type(op) in _BINARY]  # fmt: skip
                if len(found) < len(ops):
                    raise self.wrong("expected comparisons by <, <=, >, >=, ==, !=")
                return _joined(operator.and_, found)
            case ast.BoolOp(op=op, values=values):
                return _joined(_BINARY[type(op)], [self.read(value) for value in values])
            case ast.UnaryOp(op=op, operand=operand):
                value = self.read(operand)
                return (not value) if isinstance(op, ast.Not) and isinstance(value, bool) else _UNARY[type(op)](value)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return self._exact(type(op), self.read(left), self.read(right))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in FUNCTIONS:
                options = {str(k.arg): self.read(k.value) for k in keywords if k.arg is not None}
                return FUNCTIONS[name](*(self.read(a) for a in args), **options)
            case ast.Call(func=ast.Name(id=name)):
                raise self.wrong(f"no function {name!r} is known in assumptions; known are {', '.join(FUNCTIONS)}")
        raise self.wrong("expected arrays, sizes and numbers, compared; `and`, `or`, `not`; and functions of programs")

    @staticmethod
    def _exact(op: type, left: Any, right: Any) -> Any:
        """An operation; of two integers, exactly: `1/3` is no floating-point number."""
        if op is ast.Div and type(left) is int and type(right) is int and right != 0:
            return Fraction(left, right)
        if op is ast.Pow and not isinstance(left, Traced) and not isinstance(right, Traced) and abs(right) > 64:
            raise ValueError("expected exponents of at most 64")
        return _BINARY[op](left, right)

    def _named(self, name: str) -> Any:
        if name in self.arrays:
            return self.arrays[name]
        if name in self.sizes:
            return running().size(name)
        if name == "inf":
            return float("inf")
        inputs, sizes = (", ".join(names) or "none" for names in (self.arrays, sorted(self.sizes)))
        raise self.wrong(f"no input and no size is called {name!r}: the inputs are {inputs}, the sizes {sizes}")


def _joined(join: Callable[[Any, Any], Any], parts: list[Any]) -> Any:
    found = parts[0]
    for part in parts[1:]:
        found = join(found, part)
    return found


__all__ = ["FUNCTIONS", "hypothesis", "names_in"]
