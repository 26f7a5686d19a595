"""NumPy source: the loops of a diagram as a function that needs NumPy and nothing of this library."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from catdiag.category.diagram import Diagram, HasDiagram, diagram_of
from catdiag.category.ops import Index
from catdiag.category.types import ArrayType, Size, size_symbols
from catdiag.codegen.array_expressions import ArrayPrinter, value_of
from catdiag.codegen.numpy_expressions import NUMPY
from catdiag.codegen.program_sizes import spans_of_loops, symbols_of_program
from catdiag.codegen.source_writer import Writer
from catdiag.codegen.syntax import CALL, PLUS, SIGN, Code, Name, PythonExpression, bracketed
from catdiag.execute.philox import source as random_source
from catdiag.schedule.loop_nest import LoopNest, lower
from catdiag.schedule.statements import (
    Carry,
    For,
    Let,
    Load,
    LoopSpan,
    Make,
    NestValue,
    Save,
    Slice,
    Start,
    Statement,
    Unless,
    Within,
    statements,
)
from catdiag.util.errors import TypeMismatch

_KINDS = {"int": ", dtype=int", "bool": ", dtype=bool"}


def source(subject: Diagram | HasDiagram) -> str:
    """The source of a function of NumPy arrays that runs the loops of a diagram, in blocks and tiles.

    Its arguments are the arrays. Keyword arguments are the lengths of blocks and tiles (default: the whole axis), sizes
    that no array shows, and the functions of `cd.apply` and `cd.box`. The text imports NumPy
    and nothing else, but for `math` where it needs the error function.

    >>> import catdiag as cd
    >>> dot = cd.algorithm("x, x ->", name="dot")(lambda A, B: cd.sum(A * B, "x"))
    >>> print(source(dot.stream("x")))
    import numpy as np
    <BLANKLINE>
    <BLANKLINE>
    @np.errstate(all="ignore")
    def dot(A, B, *, s_x=None):
        x = A.shape[0]
        s_x = s_x or x
        if s_x < 1:
            raise ValueError("expected at least 1: s_x")
        sum1 = 0.0
        for x0 in range(0, x, s_x):
            x1 = min(x0 + s_x, x)
            A_x = A[x0:x1]
            B_x = B[x0:x1]
            sum1 = sum1 + (A_x * B_x).sum(axis=0)
        return sum1
    <BLANKLINE>

    Raises TypeMismatch for an input whose name is not a Python identifier.
    """
    diagram = diagram_of(subject)
    return _NumPy(lower(diagram, scatters=False)).text_of()


class _NumPy(Writer):
    """Writes the function. `bounds` are the loops around, each with the names of its first and last position."""

    longest = 72

    def __init__(self, program: LoopNest) -> None:
        super().__init__(program, ("np", "math"))
        self.code = ArrayPrinter(NUMPY)
        self.numbers: set[NestValue] = set()
        self.reads: set[str] = set()
        """The names that expressions read, and the modules beside NumPy that they need."""
        self.positions: set[NestValue] = set()
        """The values whose expressions are the positions along an axis."""
        self.size_arguments: dict[str, str] = {}
        self.bounds: list[tuple[LoopSpan, str, str]] = []
        self.collected: dict[tuple[NestValue, ...], str] = {}
        self.allocated: dict[NestValue, bool] = {}
        for value in program.inputs:
            if not value.name.isidentifier():
                raise TypeMismatch(f"input {value.name!r} cannot be an argument of a function: expected an identifier")
            self.name(value)

    # -- the function ------------------------------------------------------------------------------------

    def text_of(self) -> str:
        """The source of the function: sizes from shapes, default lengths of blocks and tiles, then the loops."""
        program, self.depth = self.program, 1
        spans = spans_of_loops(program)
        local = set(spans) | {s.symbol for _, s in statements(program.body) if isinstance(s, Within)}
        shown: list[str] = []
        for symbol in (s for s in symbols_of_program(program, program.inputs) if s not in local):
            name = self.names.fresh(symbol)
            self.code.sizes[symbol] = Name(name)
            shape = next(
                (f"{self.text[v]}.shape[{k}]" for v in program.inputs for k, a in enumerate(v.ty.axes)
                 if a.size == symbol),
                "",
            )  # fmt: skip
            if shape:
                shown.append(f"{name} = {shape}")
            else:
                self.size_arguments[symbol] = name
        lengths: list[str] = []
        self.tiles = {}
        checked: list[str] = []
        for symbol, span in spans.items():
            name = self.names.fresh(symbol)
            whole = size_symbols(span.size) <= set(self.code.sizes)
            lengths.append(f"{name}={'1' if self._is_part(symbol) else 'None'}")
            self.tiles[symbol] = name
            if whole and not self._is_part(symbol):
                shown.append(f"{name} = {name} or {self._size(span.size)}")
            if whole or self._is_part(symbol):
                checked.append(name)
        if checked:
            least = checked[0] if len(checked) == 1 else f"min({', '.join(checked)})"
            shown.append(f"if {least} < 1:")
            shown.append(f'{self.indent}raise ValueError("expected at least 1: {", ".join(checked)}")')
        self.whole = {symbol for symbol, span in spans.items() if size_symbols(span.size) <= set(self.code.sizes)}
        self.lines = [self.indent + line for line in shown]
        self.block(program.body)
        results = ", ".join(str(self.text[v]) for v in program.outputs)
        self.write(f"return {results}" if results else "return ()")
        arguments = [str(self.text[v]) for v in program.inputs]
        named = [*self.size_arguments.values(), *lengths, *self.code.functions]
        title = re.match(r"[A-Za-z_]\w*", program.title)
        listed = ", ".join([*arguments, *(["*", *named] if named else [])])
        head = f"def {title.group() if title else 'program'}({listed}):"
        imports = ["import math", ""] if "math" in self.reads else []
        helpers = ["", "", *random_source("_uniform")] if "_uniform" in self.reads else []
        return "\n".join(
            [*imports, "import numpy as np", *helpers, "", "", '@np.errstate(all="ignore")', head, *self.lines, ""]
        )

    def _is_part(self, symbol: str) -> bool:
        return any(
            isinstance(s, For) and s.kind in ("parts", "merge") and s.spans[0].symbol == symbol
            for _, s in statements(self.program.body)
        )

    def _size(self, size: Size) -> str:
        return str(self.code.size(size).code)

    def expression(self, let: Let) -> PythonExpression:
        args = [value_of(self.text[a], a.ty, "number" if a in self.numbers else "") for a in let.args]
        made = self.code.expression(let.box, args)
        self.reads |= made.reads
        if made.number:
            self.numbers.add(let.targets[0])
        if isinstance(let.box.op, Index):
            self.positions.add(let.targets[0])
        return made.code

    # -- statements ----------------------------------------------------------------------------------------

    def newer(self, name: str) -> str:
        return self._unused(name + "_new")

    def _unused(self, base: str) -> str:
        name, k = base, 1
        while name in self.names.taken:
            k += 1
            name = f"{base}{k}"
        return name

    def assign(self, targets: Sequence[NestValue], text: PythonExpression) -> None:
        self.write(f"{', '.join(str(self.text[v]) for v in targets)} = {text}")

    def statement(self, statement: Statement) -> None:
        match statement:
            case Slice(target, source_, spans):
                self._cut(target, source_, spans)
            case Within(symbol, size, body):
                before = self.code.sizes.get(symbol)
                self.code.sizes[symbol] = self.code.size(size).code
                self.block(body)
                if before is None:
                    del self.code.sizes[symbol]
                else:
                    self.code.sizes[symbol] = before
            case Start(states, values):
                for state, value in zip(states, values, strict=True):
                    if state not in self.text:
                        self.name(state)
                    self.write(f"{self.text[state]} = {self._whole(value, state.ty)}")
            case Carry():
                left = self.remaining(statement)
                if left:
                    self.write(f"{', '.join(n for n, _ in left)} = {', '.join(t for _, t in left)}")
            case Unless(live):
                self.write(f"if not np.any({self.text[live]}):")
                self.write(f"{self.indent}continue")
            case Make(values, cleared):
                for value in values:
                    self.name(value)
                    self.allocated[value] = True
                    kind = _KINDS.get(value.ty.element, "")
                    made = "np.zeros" if value in cleared else "np.empty"
                    self.write(f"{self.text[value]} = {made}({self.code.shape(value.ty.axes).code}{kind})")
            case Save(target, value, spans, adds):
                self._save(target, value, spans, "+=" if adds else "=")
            case For():
                self._loop(statement)
            case Load():
                pass

    def _whole(self, value: NestValue, ty: ArrayType) -> str:
        """The initial value of a state: the numbers 0 and 1 are floats, so that the state is one."""
        text = str(self.text[value])
        return f"{float(text)}" if not ty.axes and ty.element in ("real", "extended") and text in ("0", "1") else text

    def _cut(self, target: NestValue, source_: NestValue, spans: Sequence[LoopSpan]) -> None:
        text = str(bracketed(self.text[source_], CALL))
        ends = self._ends(spans)
        if source_.inlined and source_ in self.positions:
            ((a, b),) = ends.values()
            self.text[target] = Code(f"np.arange({a}, {b})")
            return
        places = re.sub("(, :)+$", "", _places(source_.ty, ends))
        base = source_.name or re.sub(r"\W.*", "", text) or "t"
        name = "_".join([base, *(re.sub(r"\W+", "_", s.axis).strip("_") for s in spans)])
        self.name(target, self._unused(name))
        self.write(f"{self.text[target]} = {text}[{places}]")

    def _save(self, target: NestValue, value: NestValue, spans: Sequence[LoopSpan], sign: str) -> None:
        text = self.text[value]
        if target is value:
            return
        if target not in self.allocated:
            if len(str(text)) > self.longest or not str(text).isidentifier():
                self.write(f"{self.name(target)} = {text}")
            else:
                self.text[target] = text
            return
        self.write(f"{self.text[target]}[{_places(target.ty, self._ends(spans)) or '...'}] {sign} {text}")

    def _ends(self, spans: Sequence[LoopSpan]) -> dict[str, tuple[str, str]]:
        """Where the block of an iteration begins and ends along the axes of some loops around."""
        return {s.axis: (a, b) for s, a, b in self.bounds if s in spans}

    def _loop(self, loop: For) -> None:
        before, depth, sizes = len(self.bounds), self.depth, dict(self.code.sizes)
        if loop.kind == "merge":
            kept = self.collected[loop.partial_states]
            names = ", ".join(str(self.text[v]) for v in loop.partial_states)
            self.write(f"for {names}{',' if len(loop.partial_states) == 1 else ''} in {kept}:")
        if loop.kind == "parts":
            self.collected[loop.partial_states] = self.names.fresh("parts")
            self.write(f"{self.collected[loop.partial_states]} = []")
        for span in () if loop.kind == "merge" else loop.spans:
            self._range(span, loop)
        # `_range` has indented the body already; a group without tiles has no loop and no indentation.
        self.inside(loop.body) if loop.kind == "merge" else self.block(loop.body)
        if loop.kind == "parts":
            names = ", ".join(str(self.text[v]) for v in loop.partial_states)
            self.write(
                f"{self.collected[loop.partial_states]}.append(({names}{',' if len(loop.partial_states) == 1 else ''}))"
            )
        del self.bounds[before:]
        self.depth, self.code.sizes = depth, sizes

    def _range(self, span: LoopSpan, loop: For) -> None:
        """Writes the head of a loop over one axis."""
        base = re.sub(r"\W+", "_", span.axis).strip("_")
        base = base if base.isidentifier() else f"i{base}"
        letter = "part" if loop.kind == "parts" else base
        first, last = self.names.fresh(letter + "0"), self.names.fresh(letter + "1")
        whole, tile = self.code.size(span.size).code, self.tiles[span.symbol]
        low, high = "0", str(whole)
        outer = next(((a, b) for s, a, b in reversed(self.bounds) if s.axis == span.axis and s.size == span.size), None)
        if outer is not None:
            low, high = outer
        step = f"-(-{bracketed(whole, SIGN)} // {tile})" if loop.kind == "parts" else tile
        if loop.kind != "parts" and span.symbol not in self.whole:
            step = f"({tile} or {whole})"
        self.write(f"for {first} in range({low}, {high}, {step}):")
        self.depth += 1
        self.write(f"{last} = min({first} + {step}, {high})")
        self.bounds.append((span, first, last))
        if loop.kind != "parts":
            self.code.sizes[span.symbol] = Code(f"{last} - {first}", PLUS)
        if loop.bounds:
            lo, hi = (str(self.text[v]) for v in loop.bounds)
            self.write(f"if {last} <= np.min({lo}) or {first} >= np.max({hi}):")
            self.write(f"{self.indent}continue")


def _places(ty: ArrayType, ends: Mapping[str, tuple[str, str]]) -> str:
    """The subscript of an array's block: from its first to its last position along each axis, or all of it."""
    return ", ".join(":".join(ends.get(name, ("", ""))) for name in ty.names)
