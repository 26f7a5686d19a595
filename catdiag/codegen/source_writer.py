"""What printers of programs share: names, and what is written inside of another expression."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from catdiag.category.ops import Box, Const, Index, SizeOf
from catdiag.category.types import ArrayType
from catdiag.schedule.loop_nest import Carry, Let, LoopNest, NestValue, Statement, read, statements

Text: TypeAlias = tuple[str, int]
"""An expression and how tightly it binds."""
ATOM = 9


class Writer(ABC):
    """Lines of a program. A subclass says how expressions and statements are written."""

    indent = "    "
    longest = 64
    """Expressions above this many letters get a name of their own."""

    def __init__(self, program: LoopNest, taken: Iterable[str] = ()) -> None:
        self.program = program
        self.lines: list[str] = []
        self.depth = 0
        self.taken = set(taken)
        self.counted: dict[str, int] = {}
        self.text: dict[NestValue, Text] = {}
        self.uses: dict[NestValue, int] = {}
        self.used_in: dict[NestValue, Sequence[Statement]] = {}
        for body, statement in statements(program.body):
            for value in read(statement):
                self.uses[value] = self.uses.get(value, 0) + 1
                self.used_in[value] = body
        for value in program.outputs:
            self.uses[value] = self.uses.get(value, 0) + 1
        self.iteration: dict[NestValue, list[Statement]] = {}

    # -- to be said by a subclass ----------------------------------------------------------------------

    @abstractmethod
    def expression(self, box: Box, args: Sequence[Text], types: Sequence[ArrayType]) -> Text:
        """What a box makes of expressions."""

    @abstractmethod
    def assign(self, targets: Sequence[NestValue], text: Text) -> None:
        """Writes that values get their names, and what they are."""

    @abstractmethod
    def statement(self, statement: Statement) -> None:
        """Writes a statement that is no Let."""

    @abstractmethod
    def newer(self, name: str) -> str:
        """The name of the next value of a state, where the last one is needed still."""

    # -- names -------------------------------------------------------------------------------------------

    def name(self, value: NestValue, wanted: str = "") -> str:
        """Gives a value a name that no other has: the wanted one, its own, or `t1`, `t2`, …"""
        base = wanted or value.name
        k = self.counted.get(base, 1)
        name = base if base and k == 1 else f"{base}_{k}" if base else f"t{k}"
        while name in self.taken:
            k += 1
            name = f"{base}_{k}" if base else f"t{k}"
        self.counted[base] = k
        self.taken.add(name)
        self.text[value] = (name, ATOM)
        return name

    # -- statements --------------------------------------------------------------------------------------

    def write(self, line: str) -> None:
        """One line, at the depth of the loops around."""
        self.lines.append(self.indent * self.depth + line)

    def block(self, body: Sequence[Statement]) -> None:
        """Statements in order."""
        carried = next((s for s in body if isinstance(s, Carry)), None)
        outer = self.iteration
        if carried is not None:
            self.iteration = {}
            for _, statement in statements(body):
                for value in read(statement):
                    self.iteration.setdefault(value, []).append(statement)
        for statement in body:
            if isinstance(statement, Let):
                self.let(statement, body, carried)
            else:
                self.statement(statement)
        self.iteration = outer

    def inside(self, body: Sequence[Statement]) -> None:
        """Statements one level deeper."""
        self.depth += 1
        self.block(body)
        self.depth -= 1

    def let(self, let: Let, body: Sequence[Statement], carried: Carry | None) -> None:
        """A value: in the place where it is read, if that is one and near, or on a line of its own."""
        text = self.expression(let.box, [self.text[a] for a in let.args], [a.ty for a in let.args])
        target = let.targets[0]
        state = self._state(let, carried)
        if len(let.targets) == 1 and state is None:
            atom = isinstance(let.box.op, (Const, SizeOf, Index)) or text[0] in {self.text[a][0] for a in let.args}
            atom = atom or (target.inlined and not target.ty.axes and len(text[0]) <= 24)
            once = self.uses.get(target, 0) <= 1 and self.used_in.get(target) is body
            if atom or self.stays(let, text) or (once and len(text[0]) <= self.longest):
                self.text[target] = text
                return
        if state is not None:
            name = self.text[state][0]
            if not self._replaces(state, let):
                name = self.newer(name)
                self.taken.add(name)
            self.text[target] = (name, ATOM)
        else:
            for value in let.targets:
                self.name(value)
        self.assign(let.targets, text)

    def stays(self, let: Let, text: Text) -> bool:
        """Whether an expression is written wherever it is read."""
        return False

    def _state(self, let: Let, carried: Carry | None) -> NestValue | None:
        """The state of the loop whose next value this is."""
        if carried is None or len(let.targets) > 1 or let.targets[0] not in carried.values:
            return None
        return carried.states[carried.values.index(let.targets[0])]

    def _replaces(self, state: NestValue, let: Let) -> bool:
        """Whether in a turn nothing but its next value reads a state, so that it can be written over."""
        value = state
        while len(self.iteration.get(value, ())) == 1:
            user = self.iteration[value][0]
            if user is let:
                return True
            if not isinstance(user, Let) or len(user.targets) > 1:
                return False
            value = user.targets[0]
        return False

    def remaining(self, carry: Carry) -> list[tuple[str, str]]:
        """The states that a turn of a loop has not written over yet, each with its next value."""
        pairs = [(self.text[s][0], self.text[v][0]) for s, v in zip(carry.states, carry.values, strict=True)]
        return [(name, text) for name, text in pairs if name != text]
