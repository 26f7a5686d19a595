"""The source of a program as an `@cd.algorithm`: for people to read, name and edit.

Law: the printed function, executed, gives an equal diagram, but for the layout of arrays between its boxes. Only what a
user's function can say has a source: programs that were written or imported, and not the loops and groups that
rewriting makes of them.

>>> import catdiag as cd
>>> @cd.algorithm("q d, x d -> q x")
... def scores(Q, K):
...     S = cd.einsum("q d, x d -> q x", Q, K)
...     return S / cd.sqrt(cd.size("d"))
>>> print(algorithm_source(scores.diagram))
import catdiag as cd
<BLANKLINE>
<BLANKLINE>
@cd.algorithm("q d, x d -> q x")
def scores(Q, K):
    v1 = cd.einsum("q d, x d -> q x", Q, K)
    return v1 / cd.sqrt(cd.size("d"))
<BLANKLINE>
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction

from catdiag.category import ops
from catdiag.category.diagram import Diagram, Node
from catdiag.category.index_maps import Cond, Expr, Reindex, View, leaves
from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.category.ops import op_row
from catdiag.category.scalars import Apply, Cast, signature
from catdiag.category.types import ArrayType, Axis, Size
from catdiag.codegen.notation import OPERATORS, Notation, Prefix, Template, grouped, written
from catdiag.codegen.syntax import (
    AND,
    ATOM,
    CHOICE,
    OR,
    PLUS,
    SIGN,
    TIMES,
    Code,
    FunctionCall,
    ListOf,
    Name,
    Number,
    PythonExpression,
    Unary,
    call,
    dotted,
    method,
)
from catdiag.frontend import builder, nn
from catdiag.util.errors import CatdiagError, TypeMismatch

WIDTH = 100
"""The longest expression that is written where it is used; a longer one gets a name."""

# The order of operands stays, so that sums and products group to the left only.
FUNCTIONS: Mapping[str, Notation] = {
    **OPERATORS, "add": grouped("+", PLUS), "mul": grouped("*", TIMES), "floordiv": grouped("//", TIMES),
    "and": grouped("&", AND), "or": grouped("|", OR), "not": Template("~{0}", SIGN, SIGN),
    "where": Prefix("cd.where"), "max": Prefix("cd.maximum"), "min": Prefix("cd.minimum"),
    "sigmoid": Prefix("cd.nn.sigmoid"),
    **{name: Prefix(f"cd.{name}") for name in (
        "exp", "log", "sqrt", "tanh", "abs", "erf", "sin", "cos", "sign", "floor", "ceil", "round", "uniform")},
}  # fmt: skip
"""How a function of `catdiag` is written for each scalar function."""


def algorithm_source(diagram: Diagram) -> str:
    """The source of a program. Raises TypeMismatch for a loop, a group, an uninterpreted box, and for a size that no
    signature can say."""
    writer = _SourceWriter(diagram)
    text = "\n".join([*writer.definitions(), *writer.definition(), ""])
    exact = ["from fractions import Fraction", ""] if "Fraction(" in text else []
    return "\n".join([*exact, "import catdiag as cd", "", "", text])


@dataclass
class _SourceWriter:
    """The source of one diagram; of diagrams inside of it, as functions before it."""

    diagram: Diagram
    functions: dict[Diagram, str] = field(default_factory=dict)
    before: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        graph = self.diagram.graph
        self.name = _identifier(self.diagram.title or "algorithm")
        names = [_identifier(n) for n in self.diagram.input_names]
        self.texts: dict[int, PythonExpression] = {k: Name(name) for k, name in enumerate(names)}
        self.types: dict[int, ArrayType] = dict(enumerate(graph.dom))
        self.sizes: dict[str, Size] = {}
        # The axes whose sizes a written line declares, and those of expressions that are not written yet, by wire.
        self.declared: dict[str, Size] = {}
        self.pending: dict[int, dict[str, Size]] = {}
        self.lines: list[str] = []
        self.taken = {*names, "cd", self.name}
        self.uses: dict[int, int] = {}
        self.made_real: set[int] = set()
        for wire in [*(w for n in graph.nodes for w in n.inputs), *graph.outputs]:
            self.uses[wire] = self.uses.get(wire, 0) + 1
        for node in graph.nodes:
            for wire in node.inputs:
                beside = [ty.element for w, ty in zip(node.inputs, node.box.dom, strict=True) if w != wire]
                if _makes_real(node.box.op, beside):
                    self.made_real.add(wire)
        for ty in graph.dom:
            self.declared |= self._learn(ty)
        count = len(graph.dom)
        for node in graph.nodes:
            wires = range(count, count + len(node.box.cod))
            count += len(wires)
            self._node(node, wires)

    def definitions(self) -> list[str]:
        """The functions that the diagram calls."""
        return self.before

    def definition(self) -> list[str]:
        """The function itself."""
        inputs = [_type(ty, {}) for ty in self.diagram.graph.dom]
        # The sizes of axes that are made in between are computed, where they are no name or number.
        given = {part.name for ty in self.diagram.graph.dom for axis in ty.axes for part in (axis, *axis.parts)}
        computed = {n: size for n, size in self.sizes.items() if isinstance(size, tuple) and n not in given}
        outputs = [_type(ty, computed) for ty in self.diagram.cod]
        results = ", ".join(str(_typed(self.texts[w], self.types[w])) for w in self.diagram.graph.outputs)
        names = ", ".join(str(self.texts[k]) for k in range(len(inputs)))
        body = [*self.lines, f"return {results}"]
        return [*_decorator(inputs, outputs), f"def {self.name}({names}):", *(f"    {line}" for line in body)]

    # -- boxes -----------------------------------------------------------------------------------

    def _node(self, node: Node, wires: range) -> None:
        operands = [self.texts[w] for w in node.inputs]
        text = op_row(BOXES, node.box, "written as source")(self, node.box, operands)
        if isinstance(node.box.op, ops.Const) and wires[0] in self.made_real:
            text = _number(node.box.op.value, whole=True)
        declared: dict[str, Size] = {n: size for w in node.inputs for n, size in self.pending.get(w, {}).items()}
        for ty in node.box.cod:
            declared |= self._learn(ty)
        self.types.update(zip(wires, node.box.cod, strict=True))
        if len(wires) > 1:
            names = [self._fresh() for _ in wires]
            self.lines.append(f"{', '.join(names)} = {text}")
            self.texts.update((w, Name(n)) for w, n in zip(wires, names, strict=True))
        elif node.inputs and (self.uses.get(wires[0], 0) != 1 or len(str(text)) > WIDTH or _is_long(node.box)):
            name = self._fresh()
            self.lines.append(f"{name} = {text}")
            self.texts[wires[0]] = Name(name)
        else:
            self.texts[wires[0]] = text
            self.pending[wires[0]] = declared
            return
        self.declared = {**declared, **self.declared}

    def _fresh(self) -> str:
        number = 1
        while f"v{number}" in self.taken:
            number += 1
        self.taken.add(f"v{number}")
        return f"v{number}"

    def _learn(self, ty: ArrayType) -> dict[str, Size]:
        found = {part.name: part.size for axis in ty.axes for part in (axis, *axis.parts)}
        self.sizes = {**found, **self.sizes}
        return found

    def map(self, box: ops.Box, operands: Sequence[PythonExpression]) -> PythonExpression:
        """A scalar function."""
        fn = box.op.fn  # type: ignore[attr-defined]
        if isinstance(fn, Cast):
            return call("cd.cast", operands[0], Number(fn.dtype))
        if isinstance(fn, Apply):
            return call("cd.apply", Number(fn.name), *operands)
        numbers = [k for k, o in enumerate(operands) if box.dom[k].element != "bool"]
        if numbers and all(_is_number(operands[k]) for k in numbers):
            operands = list(operands)
            first = numbers[0]
            if box.dom[first].element == "int":
                operands[first] = _typed(operands[first], box.dom[first])
            elif not any(ty.axes for ty in box.dom):
                operands[first] = call("cd.broadcast", operands[first], Number(""))
        return written(FUNCTIONS[fn], operands)

    def index(self, box: ops.Box, operands: Sequence[PythonExpression]) -> PythonExpression:
        """The positions along an axis."""
        (axis,) = box.cod[0].axes
        return call("cd.index", Number(_axis(axis, self.declared)))

    def rename(self, box: ops.Box, operands: Sequence[PythonExpression]) -> PythonExpression:
        """Axes renamed, transposed, or new."""
        (given,), (made,) = box.dom, box.cod
        pairs = dict(box.op.pairs)  # type: ignore[attr-defined]
        text = _typed(operands[0], given)
        if pairs:
            function = method(text, "rename").function
            text = _with_names(function, [], [(old, Number(new)) for old, new in pairs.items()])
        names = [pairs.get(n, n) for n in given.names]
        if names == list(made.names):
            return text
        if set(names) == set(made.names):
            return _rearranged(text, names, made.names)
        return call("cd.broadcast", text, Number(" ".join(_axis(a, self.declared) for a in made.axes)))

    def reindex(self, box: ops.Box, operands: Sequence[PythonExpression]) -> PythonExpression:
        """A product or coproduct of axes, taken apart or put together."""
        op = box.op
        assert isinstance(op, Reindex)
        if op.kind == "concat":
            return call("cd.concat", ListOf(tuple(operands)), Number(op.axis.name))
        if op.kind == "slice":
            return call("cd.slice", operands[0], Number(op.axis.name), Number(op.axis.parts[op.place].name))
        return _rearranged(operands[0], box.dom[0].names, box.cod[0].names)

    def view(self, box: ops.Box, operands: Sequence[PythonExpression]) -> PythonExpression:
        """Reads at index arithmetic."""
        op = box.op
        assert isinstance(op, View)
        given, read = box.dom[0], op.reads[0]
        if len(op.reads) > 2 or (len(op.reads) == 2 and op.reads[1].at):
            raise TypeMismatch(f"{box.name} reads several arrays: no function of catdiag writes that", box.line)
        if not op.index_axes and read.at == (("1", 0),):
            return _rearranged(operands[0], given.names, [n for n in given.names if n != "1"])
        axes = Number(" ".join(_axis(a, self.declared) for a in op.index_axes))
        options: list[tuple[str, PythonExpression]] = []
        if len(op.reads) == 2:
            self._check_fill(box, read.at, read.where)
            options.append(("fill", operands[1]))
        positions = [(n, e) for n, e in read.at if e != ("i", n) or n not in {a.name for a in op.index_axes}]
        shown = [(n, self._position(e, op.index_axes, operands)) for n, e in positions]
        return _with_names(dotted("cd.reindex"), [operands[0], axes], shown, options)

    def _check_fill(self, box: ops.Box, at: Sequence[tuple[str, Expr]], where: Sequence[Cond]) -> None:
        """Raises TypeMismatch where the conditions are not those of `fill`: that positions are inside."""
        inside = {e: box.dom[0].axis(n) for n, e in at}
        for kind, left, right in where:
            own = inside.get(right) if kind == "le" else inside.get(left)
            wanted = own and IntPolynomial.of(0 if kind == "le" else own.size)
            if wanted is None or IntPolynomial.of(left if kind == "le" else right) != wanted:  # type: ignore[arg-type]
                raise TypeMismatch(f"{box.name} reads under a condition: no function of catdiag writes that", box.line)

    def _position(self, e: Expr, made: Sequence[Axis], operands: Sequence[PythonExpression]) -> PythonExpression:
        read = {leaf[1] for leaf in leaves(e) if isinstance(leaf, tuple) and leaf[0] == "i"}
        axes = [a.name for a in made if a.name in read] + sorted(
            str(n) for n in read if n not in {a.name for a in made}
        )
        if all(n.isidentifier() for n in axes):
            names = {n: n for n in axes}
        else:  # axes that are called by their sizes: the parameters are those of all new axes, in order
            names = {a.name: a.name if a.name.isidentifier() else f"i{k}" for k, a in enumerate(made)}
        body = self._expression(e, names, operands)
        return Code(f"lambda {', '.join(names.values())}: {body}", CHOICE) if axes else body

    def _expression(self, e: Expr, names: Mapping[str, str], operands: Sequence[PythonExpression]) -> PythonExpression:
        """Index arithmetic."""
        if isinstance(e, int):
            return Number(e)
        if isinstance(e, str):
            return self.size(e)
        if e[0] == "i":
            return Name(names[str(e[1])])
        if e[0] == "w":
            return operands[int(e[1])]  # type: ignore[arg-type]
        left, right = (self._expression(part, names, operands) for part in e[1:])
        return written(FUNCTIONS[{"+": "add", "*": "mul", "//": "floordiv"}[e[0]]], [left, right])

    def size(self, size: Size) -> PythonExpression:
        """A size, as that of an axis."""
        axis = next((name for name, own in self.declared.items() if own == size), None)
        if axis is None and isinstance(size, int):
            return Number(size)
        if axis is not None:
            return call("cd.size", Number(axis))
        if not isinstance(size, tuple):
            raise TypeMismatch(f"size {size} of {self.name} is of no axis here: a function writes sizes of axes")
        return written(FUNCTIONS["add" if size[0] == "+" else "mul"], [self.size(part) for part in size[1:]])

    def call(self, box: ops.Box, operands: Sequence[PythonExpression]) -> PythonExpression:
        """A named diagram: a function of catdiag, or one that is written before."""
        op = box.op
        assert isinstance(op, ops.Call)
        known = _function(op)
        if known is not None:
            return call(known[0], *operands, *map(Number, known[1]))
        if op.body not in self.functions:
            name = _identifier(op.name)
            while name in self.taken:
                name += "_"
            self.taken.add(name)
            inner = _SourceWriter(op.body, self.functions)
            inner.name = name
            self.functions[op.body] = name
            self.before += [*inner.before, *inner.definition(), "", ""]
        return call(self.functions[op.body], *operands)


def _function(op: ops.Call) -> tuple[str, list[str]] | None:
    """The function of catdiag that makes this very box of an array, and the axes that it takes, if there is one."""
    over = [n.box.op.axis for n in op.body.graph.nodes if isinstance(n.box.op, ops.Reduce)]
    axes = [" ".join(dict.fromkeys(over))] if over else []
    for room, prefix in ((builder, "cd"), (nn, "cd.nn")):
        function = getattr(room, op.name, None)
        if len(op.body.dom) != 1 or getattr(function, "__module__", None) != room.__name__:
            continue
        with suppress(TypeError, CatdiagError):  # a function of other arguments
            made = builder.program(list(op.body.dom), lambda array, function=function: function(array, *axes))
            if [n.box.op for n in made.graph.nodes] == [op]:
                return f"{prefix}.{op.name}", axes
    return None


def _with_names(
    function: PythonExpression,
    args: Sequence[PythonExpression],
    named: Sequence[tuple[str, PythonExpression]],
    options: Sequence[tuple[str, PythonExpression]] = (),
) -> PythonExpression:
    """A call with arguments by the names of axes, as a dictionary where one of them is no identifier."""
    if all(name.isidentifier() and not keyword.iskeyword(name) for name, _ in named):
        return FunctionCall(function, tuple(args), (*options, *named))
    listed = Code("**{" + ", ".join(f"{Number(name)}: {value}" for name, value in named) + "}")
    return FunctionCall(function, (*args, *(Code(f"{n}={v}") for n, v in options), listed))


def _rearranged(array: PythonExpression, names: Sequence[str], made: Sequence[str]) -> PythonExpression:
    return call("cd.rearrange", array, Number(f"{' '.join(names)} -> {' '.join(made)}"))


@dataclass(frozen=True)
class _Constant(Code):
    """A number, with all its digits."""


def _number(value: Fraction | None, whole: bool) -> PythonExpression:
    """A number as Python writes it; `whole` numbers without a point."""
    if value is None:
        return Unary("-", _Constant("cd.inf"))
    if value.denominator != 1 and Fraction(float(value)) != value:
        return call("Fraction", Number(value.numerator), Number(value.denominator))
    digits = repr(float(value)) if value.denominator != 1 else f"{value.numerator}{'' if whole else '.0'}"
    return _Constant(digits, SIGN if value < 0 else ATOM)


def _is_number(of: PythonExpression) -> bool:
    return isinstance(of, _Constant) or (isinstance(of, Unary) and _is_number(of.of))


def _typed(of: PythonExpression, ty: ArrayType) -> PythonExpression:
    """An integer that stands alone as an integer: a number would be a real number there."""
    return call("cd.integer", of) if _is_number(of) and ty.element == "int" else of


def _is_long(box: ops.Box) -> bool:
    """Whether the result of a box gets a name of its own: what is no scalar function of arrays."""
    return not isinstance(box.op, (ops.Map, *ops.NULLARY))


def _refused(writer: _SourceWriter, box: ops.Box, operands: Sequence[PythonExpression]) -> PythonExpression:
    raise TypeMismatch(
        f"{box.name} is no function that one writes: print the source of the program that it was derived from", box.line
    )


def _makes_real(op: ops.Operation, beside: Sequence[str]) -> bool:
    """Whether a constant among the operands of an operation is a real number even if it is written as a whole number:
    beside real numbers, in comparisons and in quotients. `beside` are the element types of the other operands."""
    if not isinstance(op, ops.Map):
        return False
    of_integers = isinstance(op.fn, str) and "int" in beside and signature(op.fn)[1] in ("bool", "real")
    return "real" in beside or of_integers


BOXES: Mapping[type[ops.Op], Callable[[_SourceWriter, ops.Box, Sequence[PythonExpression]], PythonExpression]] = {
    ops.Map: _SourceWriter.map,
    ops.Reduce: lambda _, box, operands: call(f"cd.{box.op.monoid}", operands[0], Number(box.op.axis)),  # type: ignore[attr-defined]
    ops.Einsum: lambda _, box, operands: call(
        "cd.einsum",
        Number(f"{', '.join(' '.join(ty.names) for ty in box.dom)} -> {' '.join(box.cod[0].names)}"),
        *operands,
    ),
    ops.Rename: _SourceWriter.rename,
    Reindex: _SourceWriter.reindex,
    View: _SourceWriter.view,
    ops.Index: _SourceWriter.index,
    ops.SizeOf: lambda writer, box, operands: writer.size(box.op.size),  # type: ignore[attr-defined]
    ops.Const: lambda _, box, operands: _number(box.op.value, box.cod[0].element == "int"),  # type: ignore[attr-defined]
    ops.Call: _SourceWriter.call,
    ops.Generic: _refused,
    ops.FoldOp: _refused,
    ops.GroupOp: _refused,
}
"""How each operation is written."""


def _axis(axis: Axis, known: Mapping[str, Size]) -> str:
    """An axis in a signature or a pattern."""
    if axis.kind != "name":
        sign = " " if axis.kind == "product" else "+"
        text = sign.join(_axis(p, known) for p in axis.parts)
        return f"({text})" if axis.kind == "product" else text
    if axis.size == axis.name or str(axis.size) == axis.name or known.get(axis.name) == axis.size:
        return axis.name
    return f"{axis.name}={_shown(axis.size)}"


def _shown(size: Size) -> str:
    return f"({_shown(size[1])}{size[0]}{_shown(size[2])})" if isinstance(size, tuple) else str(size)


def _type(ty: ArrayType, known: Mapping[str, Size]) -> str:
    axes = " ".join(_axis(a, known) for a in ty.axes)
    return axes if ty.element == "real" and axes else f"{'' if ty.element == 'real' else ty.element}[{axes}]"


def _decorator(inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
    signature = f"{', '.join(inputs)} -> {', '.join(outputs)}"
    if len(signature) <= WIDTH:
        return [f'@cd.algorithm("{signature}")']
    parts = [*(f"{t}, " for t in inputs[:-1]), f"{inputs[-1]} " if inputs else "", f"-> {', '.join(outputs)}"]
    return ["@cd.algorithm(", *(f'    "{p}"' for p in parts if p), ")"]


def _identifier(name: str) -> str:
    made = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
    return made if made.isidentifier() and not keyword.iskeyword(made) else f"a_{made}"
