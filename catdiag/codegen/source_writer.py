"""The base class of printers: names of values, and which values are inlined into the expressions that read them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from catdiag.category.ops import NULLARY
from catdiag.codegen.names import Names
from catdiag.codegen.syntax import Name, PythonExpression
from catdiag.schedule.loop_nest import LoopNest
from catdiag.schedule.statements import Carry, Let, NestValue, Statement, read, statements


class Writer(ABC):
    """Writes the lines of a loop nest. A subclass says how expressions and statements are written."""

    indent = "    "
    longest = 64
    """Expressions of more than this many characters are not inlined."""

    def __init__(self, program: LoopNest, taken: Iterable[str] = ()) -> None:
        self.program = program
        self.lines: list[str] = []
        self.depth = 0
        self.names = Names(set(taken))
        self.counted: dict[str, int] = {}
        self.text: dict[NestValue, PythonExpression] = {}
        self.uses: dict[NestValue, int] = {}
        self.used_in: dict[NestValue, Sequence[Statement]] = {}
        for body, statement in statements(program.body):
            for value in read(statement):
                self.uses[value] = self.uses.get(value, 0) + 1
                self.used_in[value] = body
        for value in program.outputs:
            self.uses[value] = self.uses.get(value, 0) + 1
        self.iteration: dict[NestValue, list[Statement]] = {}

    # -- for subclasses --------------------------------------------------------------------------------

    @abstractmethod
    def expression(self, let: Let) -> PythonExpression:
        """The expression of a box applied to the expressions of its arguments."""

    @abstractmethod
    def assign(self, targets: Sequence[NestValue], text: PythonExpression) -> None:
        """Writes an assignment to named values."""

    @abstractmethod
    def statement(self, statement: Statement) -> None:
        """Writes a statement other than a Let."""

    @abstractmethod
    def newer(self, name: str) -> str:
        """A name for the next value of a state, used while the current value is still read."""

    # -- names -------------------------------------------------------------------------------------------

    def name(self, value: NestValue, wanted: str = "") -> str:
        """Gives a value an unused name: the wanted one, its own, or `t1`, `t2`, …"""
        base = wanted or value.name
        k = self.counted.get(base, 1)
        name = base if base and k == 1 else f"{base}_{k}" if base else f"t{k}"
        while name in self.names.taken:
            k += 1
            name = f"{base}_{k}" if base else f"t{k}"
        self.counted[base] = k
        self.names.taken.add(name)
        self.text[value] = Name(name)
        return name

    # -- statements --------------------------------------------------------------------------------------

    def write(self, line: str) -> None:
        """Writes one line, indented by the depth of the enclosing loops."""
        self.lines.append(self.indent * self.depth + line)

    def block(self, body: Sequence[Statement]) -> None:
        """Writes statements in order."""
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
        """Writes statements one level deeper."""
        self.depth += 1
        self.block(body)
        self.depth -= 1

    def let(self, let: Let, body: Sequence[Statement], carried: Carry | None) -> None:
        """Writes a value on a line of its own, or inlines it: if it is short and read once, in the same body. Of a box
        without results nothing is written."""
        if not let.targets:
            return
        text = self.expression(let)
        target = let.targets[0]
        state = self._state(let, carried)
        if len(let.targets) == 1 and state is None:
            atom = isinstance(let.box.op, NULLARY) or str(text) in {str(self.text[a]) for a in let.args}
            atom = atom or (target.inlined and not target.ty.axes and len(str(text)) <= 24)
            once = self.uses.get(target, 0) <= 1 and self.used_in.get(target) is body
            if atom or self.stays(let, text) or (once and len(str(text)) <= self.longest):
                self.text[target] = text
                return
        if state is not None:
            name = str(self.text[state])
            if not self._replaces(state, let):
                name = self.newer(name)
                self.names.taken.add(name)
            self.text[target] = Name(name)
        else:
            for value in let.targets:
                self.name(value)
        self.assign(let.targets, text)

    def stays(self, let: Let, text: PythonExpression) -> bool:
        """Whether an expression is inlined wherever it is read."""
        return False

    def _state(self, let: Let, carried: Carry | None) -> NestValue | None:
        """The state whose next value this is, if it is one."""
        if carried is None or len(let.targets) > 1 or let.targets[0] not in carried.values:
            return None
        return carried.states[carried.values.index(let.targets[0])]

    def _replaces(self, state: NestValue, let: Let) -> bool:
        """Whether only its next value reads a state in an iteration, so that the state can be updated in place."""
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
        """The states that an iteration has not updated yet, each with its next value."""
        pairs = [(str(self.text[s]), str(self.text[v])) for s, v in zip(carry.states, carry.values, strict=True)]
        return [(name, text) for name, text in pairs if name != text]
