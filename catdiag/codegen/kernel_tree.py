"""Kernels as trees: the statements and functions of Python that they have, and how these are printed.

Kernels are made as such trees. They are printed once, at the end, and what must be known of them (shared memory, loads,
stores) is read off the trees; the source of kernels that others have written is read into the same trees
(`catdiag.codegen.python_source`).

>>> print(*printed([Assign((Name("x"),), Number(1), note="a note")]))
x = 1  # a note
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from catdiag.codegen.syntax import FunctionCall, Name, Number, PythonExpression, TupleOf
from catdiag.util.line_breaking import filled

_WIDTH = 116
"""The longest line with a comment beside it: a longer comment stands above its line."""


@dataclass
class PythonStatement:
    """A statement; `note` is a comment on it (`beside` it, or above where the line is long), `line` its line in the
    source that it was read from."""

    note: str = field(default="", compare=False, kw_only=True)
    beside: bool = field(default=False, compare=False, kw_only=True)
    line: int = field(default=0, compare=False, kw_only=True)


@dataclass
class Assign(PythonStatement):
    """An assignment to targets, each a name or a tuple of them. `annotation` is the type of a single one. `broken` says
    that the arguments of the call stand on a line of their own."""

    targets: tuple[PythonExpression, ...]
    value: PythonExpression
    annotation: PythonExpression | None = None
    broken: bool = field(default=False, compare=False)


@dataclass
class Update(PythonStatement):
    """An augmented assignment: `target sign= value`."""

    target: PythonExpression
    sign: str
    value: PythonExpression


@dataclass
class Do(PythonStatement):
    """An expression that is evaluated for what it does."""

    value: PythonExpression


@dataclass
class If(PythonStatement):
    """A condition, what is done if it holds, and what is done otherwise."""

    test: PythonExpression
    body: Sequence[PythonStatement]
    otherwise: Sequence[PythonStatement] = ()


@dataclass
class ForLoop(PythonStatement):
    """A loop over a range."""

    target: PythonExpression
    over: PythonExpression
    body: Sequence[PythonStatement]


@dataclass
class While(PythonStatement):
    """A loop while a condition holds."""

    test: PythonExpression
    body: Sequence[PythonStatement]


@dataclass
class Return(PythonStatement):
    """The end of a function, with its value."""

    value: PythonExpression | None = None


@dataclass
class Pass(PythonStatement):
    """A statement that computes nothing: `pass`, `assert`, `break`, `continue`, or only a comment (no text)."""

    text: str = ""


@dataclass
class Line(PythonStatement):
    """A statement as it stands."""

    text: str


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function; `constant` says that it is known when the function is compiled."""

    name: str
    constant: bool = False
    default: PythonExpression | None = None


@dataclass(frozen=True)
class KernelFunction:
    """A function of a kernel; `jit` is the module whose compiler takes it, such as triton or gluon (empty: none)."""

    name: str
    parameters: tuple[Parameter, ...]
    body: Sequence[PythonStatement]
    jit: str = ""


@dataclass(frozen=True)
class KernelCode:
    """The functions of a module of kernels by name, and its constants."""

    functions: Mapping[str, KernelFunction]
    constants: Mapping[str, Number] = field(default_factory=dict)


def listed(arguments: Sequence[str], indent: int = 4, width: int = 104) -> list[str]:
    """Arguments, with a comma after each, in lines with so many characters beside their indentation."""
    lines = filled(arguments, width, ", ")
    return [" " * indent + line + ("," if k == len(lines) - 1 else "") for k, line in enumerate(lines)]


def function_text(function: KernelFunction, about: str, module: str, width: int = 104) -> list[str]:
    """The lines of a function, with a docstring, in a language of tiles that has this module; those of its parameters
    have so many characters."""
    shown = [f"{p.name}: {module}.constexpr" if p.constant else p.name for p in function.parameters]
    head = [f"@{function.jit}.jit", f"def {function.name}(", *listed(shown, width=width), "):"]
    return [*head, f'    """{about}"""', *printed(function.body, 1)]


def printed(body: Sequence[PythonStatement], depth: int = 0) -> list[str]:
    """The lines of statements, indented so many times."""
    found: list[str] = []
    indent = "    " * depth
    for s in body:
        head = _head(s)
        line = indent + (head[0] if head else "")
        if not head:
            found.append(f"{indent}# {s.note}")
        elif len(head) > 1:
            found += [indent + part for part in head]
        elif s.note and not s.beside and len(line) + len(s.note) >= _WIDTH:
            found += [f"{indent}# {s.note}", line]
        else:
            found.append(f"{line}  # {s.note}" if s.note else line)
        if len(head) > 1 and s.note:
            found[-1] += f"  # {s.note}"
        if isinstance(s, (If, ForLoop, While)):
            found += printed(s.body, depth + 1)
            if isinstance(s, If) and s.otherwise:
                found += [f"{indent}else:", *printed(s.otherwise, depth + 1)]
    return found


def _head(s: PythonStatement) -> tuple[str, ...]:
    """The first line of a statement, or all of its lines where it has several; none for a comment."""
    match s:
        case Assign(targets, value, broken=True) if isinstance(value, FunctionCall):
            left = "".join(f"{_bare(t)} = " for t in targets)
            return f"{left}{value.function}(", f"    {value.arguments}", ")"
        case Assign(targets, value, annotation=annotation):
            kind = "" if annotation is None else f": {annotation}"
            return ("".join(f"{_bare(t)}{kind} = " for t in targets) + _bare(value),)
        case Update(target, sign, value):
            return (f"{target} {sign}= {value}",)
        case Do(value):
            return (str(value),)
        case If(test):
            return (f"if {test}:",)
        case ForLoop(target, over):
            return (f"for {_bare(target)} in {over}:",)
        case While(test):
            return (f"while {test}:",)
        case Return(value):
            return ("return" if value is None else f"return {value}",)
        case Pass(text) | Line(text):
            return (text,) if text else ()
    raise TypeError(f"{type(s).__name__} has no printed form")


def _bare(of: PythonExpression) -> str:
    """An expression as it stands alone on a side of an assignment: a tuple without parentheses."""
    return ", ".join(map(str, of.parts)) if isinstance(of, TupleOf) and len(of.parts) > 1 else str(of)


def names_of(body: Sequence[PythonStatement | PythonExpression]) -> set[str]:
    """The names that statements and expressions read or assign.

    >>> sorted(names_of([Assign((Name("x"),), TupleOf((Name("a"), Number(1))))]))
    ['a', 'x']
    """
    found: set[str] = set()
    stack: list[object] = list(body)
    while stack:
        item = stack.pop()
        if isinstance(item, Name):
            found.add(item.id)
        elif isinstance(item, (list, tuple)):
            stack += item
        elif isinstance(item, (PythonStatement, PythonExpression)):
            stack += (part for part in vars(item).values() if not isinstance(part, str))
    return found


def walked(body: Sequence[PythonStatement]) -> Iterator[PythonStatement]:
    """All statements, those inside of others too."""
    for s in body:
        yield s
        if isinstance(s, (If, ForLoop, While)):
            yield from walked(s.body)
        if isinstance(s, If):
            yield from walked(s.otherwise)
