"""Pseudocode: the loops, loads and saves of a derived diagram, with the names of the user's program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from catdiag.category.diagram import Diagram, HasDiagram, diagram_of, is_large
from catdiag.category.formula import Formula, big, compares, symbol, truth
from catdiag.category.index_maps import read_off
from catdiag.category.ops import Rename, SizeOf
from catdiag.category.types import ArrayType, Size
from catdiag.codegen.source_writer import Writer
from catdiag.codegen.syntax import Code, PythonExpression
from catdiag.rewrite.box_formulas import formula_of
from catdiag.schedule.loop_nest import LoopNest, lower
from catdiag.schedule.statements import (
    Carry,
    For,
    Let,
    Load,
    Make,
    NestValue,
    Save,
    Slice,
    Start,
    Statement,
    Unless,
    Within,
)
from catdiag.util.errors import CatdiagError

_SHOWN = 60
"""The most lines with which a program is shown in a message."""


def pseudocode(subject: Diagram | HasDiagram) -> str:
    """The pseudocode of a diagram: its loops, what they load and save, and formulas for what they compute.

    An array is shown with its axes where it is computed (`S[q x]`). In a loop, a reduction over the streamed axis is
    over the current block. A name with a prime is the next value of a state.

    >>> import catdiag as cd
    >>> dot = cd.algorithm("x, x ->", name="dot")(lambda A, B: cd.sum(A * B, "x"))
    >>> print(pseudocode(dot.stream("x")))
    dot.stream('x'): A[x], B[x] → out
    start: sum1 = 0
    for each block of x (s_x at a time):
        load A[x], B[x]
        sum1 = sum1 + Σ_x A·B
    save out = sum1
    """
    return "\n".join(_Pseudocode(lower(diagram_of(subject))).text_of())


def shown(subject: Diagram | HasDiagram) -> list[str]:
    """A diagram as lines for the message of a failing test: its pseudocode, or its type if that is long.

    >>> import catdiag as cd
    >>> shown(cd.algorithm("x -> x")(lambda A: A + A))
    ['lambda: A[x] → out[x]', 'load A[x]', 'save out[x] = A + A']
    """
    diagram = diagram_of(subject)
    try:
        lines = [] if is_large(diagram) else pseudocode(diagram).splitlines()
    except CatdiagError:
        lines = []
    return lines if 0 < len(lines) <= _SHOWN else [f"{diagram}, of {len(diagram)} boxes"]


class _Pseudocode(Writer):
    """Writes the pseudocode; `full_sizes` gives the size of a whole axis for the symbol of its block."""

    def __init__(self, program: LoopNest) -> None:
        super().__init__(program)
        self.full_sizes: dict[str, Size] = {}
        self.made: dict[NestValue, Formula] = {}
        self.after_load = (0, 0)
        """How many lines there were, and how deep, when a load was written: one that follows goes to its line."""
        for value in program.inputs:
            self.name(value)

    def text_of(self) -> list[str]:
        program = self.program
        for value in program.outputs:
            if value not in self.text:
                self.name(value)
        ends = ", ".join(dict.fromkeys(map(self._typed, program.outputs))) or "nothing"
        title = f"{program.title}: " if program.title else ""
        self.write(f"{title}{', '.join(map(self._typed, program.inputs)) or 'nothing'} → {ends}")
        self.block(program.body)
        for value, made in zip(program.outputs, program.stored, strict=True):
            if made is not value:
                self.write(f"{self._typed(value)} is {self._typed(made)}, reshaped")
        return self.lines

    # -- expressions -------------------------------------------------------------------------------------

    def expression(self, let: Let) -> PythonExpression:
        box = let.box
        if isinstance(box.op, SizeOf) and self.full_sizes:
            size: Size = read_off(box.op.size, lambda v: self.full_sizes.get(v, v), lambda op, a, b: (op, a, b))
            box = replace(box, op=SizeOf(size))
        made = formula_of(box, [self.formula(a) for a in let.args])
        self.made[let.targets[0]] = made
        return Code(made.text, made.level)

    def formula(self, value: NestValue) -> Formula:
        """The formula by which a value is read: that of its box where this is inlined, else its name."""
        made, text = self.made.get(value), str(self.text[value])
        return made if made is not None and made.text == text else symbol(text)

    def newer(self, name: str) -> str:
        return name + "′"

    def stays(self, let: Let, text: PythonExpression) -> bool:
        # A renaming computes nothing, so it gets no line.
        return isinstance(let.box.op, Rename) and len(str(text)) <= self.longest

    def assign(self, targets: Sequence[NestValue], text: PythonExpression) -> None:
        right = f"({text})" if compares(self.made[targets[0]]) else str(text)
        self.write(f"{', '.join(map(self._typed, targets))} = {right}")

    def _typed(self, value: NestValue) -> str:
        return str(self.text[value]) + _axes(value.ty)

    # -- statements --------------------------------------------------------------------------------------

    def statement(self, statement: Statement) -> None:
        match statement:
            case Load(values):
                arrays = ", ".join(self._typed(v) + (f" of {v.of}" if v.of else "") for v in values)
                if self.after_load == (len(self.lines), self.depth):
                    self.lines[-1] += f", {arrays}"
                else:
                    self.write(f"load {arrays}")
                    self.after_load = len(self.lines), self.depth
            case Slice(target, source):
                self.text[target], self.made[target] = self.text[source], self.formula(source)
            case Within(symbol, size, body):
                outside, self.full_sizes = self.full_sizes, {**self.full_sizes, symbol: size}
                self.block(body)
                self.full_sizes = outside
            case Start(states, values):
                for state in states:
                    if state not in self.text:
                        self.name(state)
                pairs = zip(states, values, strict=True)
                self.write("start: " + ", ".join(f"{self._typed(s)} = {truth(self.formula(v))}" for s, v in pairs))
            case Carry():
                left = self.remaining(statement)
                if left:
                    self.write(f"{', '.join(n for n, _ in left)} = {', '.join(t for _, t in left)}")
            case Unless(live):
                self.write(f"next block, unless somewhere {self.text[live]}")
            case Make(values, cleared):
                for value in values:
                    if value not in self.text:
                        self.name(value)
                if cleared:
                    self.write(f"clear {', '.join(map(self._typed, cleared))}")
            case Save(target, value, adds=True):
                self.write(f"add to {self._typed(target)}: {self.text[value]}")
            case Save(target, value):
                if target is value:
                    self.write(f"save {self._typed(value)}")
                else:
                    if target not in self.text:
                        self.name(target)
                    self.write(f"save {self._typed(target)} = {self.text[value]}")
            case For():
                self._loop(statement)

    def _loop(self, loop: For) -> None:
        spans = loop.spans
        if loop.kind == "tiles":
            each = " and ".join(f"each tile of {s.axis} ({s.symbol} at a time)" for s in spans)
            self.write(f"for {each}, in parallel:" if spans else "in one kernel:")
        elif loop.kind == "blocks":
            self.write(f"for each block of {spans[0].axis} ({spans[0].symbol} at a time){self._range(loop)}:")
        elif loop.kind == "parts":
            self.write(f"for each of {spans[0].symbol} parts of {spans[0].axis}, in parallel:")
        else:
            neighbors = [str(self.text[v]) for v in loop.partial_states]
            self.write(f"for each part of {spans[0].axis} in order, with its {', '.join(neighbors)}:")
        self.inside(loop.body)

    def _range(self, loop: For) -> str:
        if not loop.bounds:
            return ""
        low, high = (extreme(word, v.ty, self.formula(v)) for word, v in zip(("min", "max"), loop.bounds, strict=True))
        return f" that meets the range from {low} to {high}"


def extreme(word: str, ty: ArrayType, of: Formula) -> Formula:
    """The smallest (`min`) or largest (`max`) entry of an array."""
    return big(word, ty.names, of) if ty.axes else of


def _axes(ty: ArrayType) -> str:
    return f"[{' '.join(ty.names)}]" if ty.axes else ""
