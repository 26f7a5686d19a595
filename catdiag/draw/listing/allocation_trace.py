"""A kernel line by line: the statements of the lowered kernel, with a formula for each, and what is allocated then."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence

from catdiag.category.formula import ATOM, Formula, compares, infix, of_size, symbol, truth
from catdiag.category.integer_polynomial import ZERO, IntPolynomial
from catdiag.category.op_facts import elementwise
from catdiag.category.ops import Box, FoldOp
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType
from catdiag.codegen.pseudocode import extreme
from catdiag.draw.listing.program_lines import KernelListing, LineText, ListingLine, LiveArrays, LoopHead, Variable
from catdiag.draw.listing.symbol_table import LONGEST, SymbolTable
from catdiag.draw.listing.trace_frames import OpenLoop, TraceFrame
from catdiag.schedule.live_ranges import view_roots
from catdiag.schedule.lowered_kernel import KernelPart, LoweredKernel
from catdiag.schedule.statements import (
    Alloc,
    Buffer,
    Dealloc,
    For,
    Let,
    LoopBuffers,
    LoopStep,
    Overwrite,
    Point,
    Statement,
)


class KernelTrace:
    """Reads the statements of one kernel, and makes lines of them."""

    part: KernelPart

    def __init__(self, symbols: SymbolTable, kernel: LoweredKernel) -> None:
        self.symbols, self.kernel, self.lines = symbols, kernel, KernelListing(kernel)
        self.present: dict[Buffer, None] = {}
        self.where: dict[Buffer, int] = {}
        self.known: ChainMap[int | str, int] = ChainMap()
        self.frames: list[TraceFrame] = []
        self.open_loops: list[OpenLoop] = []
        self.over: Buffer | None = None
        self.fresh: list[Buffer] = []
        self.due: list[tuple[str, int, Formula, Buffer | None]] = []
        self.first = 0
        self.made: dict[int, tuple[Formula, tuple[int, ...]]] = {}

    def listing(self) -> KernelListing:
        """The kernel line by line."""
        spans: list[tuple[int, int]] = []
        for part in self.kernel.parts:
            self._part(part)
            spans.append((self.first, len(self.lines.lines)))
        for part, (first, last) in zip(self.kernel.parts, spans, strict=True):
            around = [allocated for buffer in part.around for allocated in self._allocated(buffer)]
            for line in self.lines.lines[first:last]:
                line.live = (*line.live, *around)
        self._copied()
        return self.lines

    def _allocated(self, buffer: Buffer) -> tuple[LiveArrays, ...]:
        """What a buffer of a level takes that is counted phase by phase."""
        variable = self._operand(buffer, ArrayType())
        return tuple((variable, place, buffer.at(place)) for place in buffer.places)

    def _copied(self) -> None:
        """Adds lines for inputs that are copied at the end, after the last phase."""
        saved = {name for line in self.lines.lines if line.kind == "save" for name in line.names}
        leaving = [self.symbols.ends.get(w) or [self.symbols.formulas[w].text] for _, w in self.kernel.leaves]
        left = [names for names in leaving if names[0] not in saved]
        for buffer, names in zip(self.kernel.copied, left, strict=False):
            allocated = self._allocated(buffer)
            variable = allocated[0][0]
            source = self.lines.variables[variable].name
            lines = [ListingLine("load", (f"load {source}",), (), (), (variable,), allocated, (source,))]
            lines += [
                ListingLine("save", (f"save {name} = {source}",), (), (variable,), (), allocated, (name,))
                for name in names
            ]
            self.lines.lines += lines

    # -- variables ---------------------------------------------------------------------------------------

    def _variable(self, ty: ArrayType, element: str, name: str, slow: bool = False) -> int:
        self.lines.variables.append(Variable(ty, element, name, slow))
        return len(self.lines.variables) - 1

    def _operand(self, buffer: Buffer, ty: ArrayType) -> int:
        """The variable of an array of slow memory, or of another level that has a walk of its own."""
        slow = buffer.wire >= 0
        key = buffer.wire if slow else buffer.name
        if key in self.known:
            return self.known[key]
        name = self.symbols.formulas[buffer.wire].text if slow else buffer.name
        found = self._variable(ty, self.symbols.element(ty, buffer.name, buffer.width), name, slow)
        self.known[key] = found
        self.known.maps[0].setdefault(buffer.name, found)
        return found

    def _snapshot(self, extra: Sequence[tuple[Buffer, int]] = ()) -> tuple[LiveArrays, ...]:
        """The current allocations; streamed arrays of a loop count from its first iteration on."""
        loop = self.open_loops[-1] if self.open_loops else None
        waiting = set(loop.streamed) if loop is not None and loop.stage == "start" else set()
        present = (b for b in self.present if b.role != "streamed" or self.where[b] not in waiting)
        pairs = [*((b, self.where[b]) for b in present), *extra]
        return tuple((v, place, b.at(place)) for b, v in pairs for place in b.places)

    def _line(
        self,
        kind: str,
        text: LineText,
        reads: Sequence[int] = (),
        writes: Sequence[int] = (),
        names: Sequence[str] = (),
    ) -> ListingLine:
        loops = tuple(loop.number for loop in self.open_loops if loop.stage == "inside")
        once = tuple(dict.fromkeys(reads))
        line = ListingLine(kind, text, loops, once, tuple(writes), self._snapshot(), tuple(names))
        self.lines.lines.append(line)
        return line

    # -- statements ----------------------------------------------------------------------------------------

    def _read(self, statements: Sequence[Statement]) -> None:
        """Reads statements in order."""
        for statement in statements:
            match statement:
                case Let(place=place) if place >= 0:
                    self._visit(place)
                case For(place=place, step=LoopStep() as step, live=LoopBuffers() as live):
                    self._visit(place)
                    self._loop(step, live)
                case Alloc(buffer, load):
                    self.present[buffer] = None
                    if buffer not in self.where:
                        self.where[buffer] = self._array_index(buffer)
                    if load is not None and load.operand is buffer:
                        self._load(self.where[buffer])
                case Dealloc(buffer):
                    del self.present[buffer]
                case Overwrite(buffer, rest):
                    del self.present[buffer]
                    self.over = buffer if rest is None else None
                    if rest is not None:
                        self.present[rest], self.where[rest] = None, self.where[buffer]
                case Point(_, extra):
                    self._point(extra)

    def _array_index(self, buffer: Buffer) -> int:
        loop = self.open_loops[-1] if self.open_loops else None
        if loop is not None and loop.stage == "start" and buffer.role == "streamed":
            source = loop.sources()[len(loop.streamed)]
            found = self._operand(source, loop.block(source))
            self.lines.variables[found].type = loop.block(source)
            self.lines.variables[found].stages = buffer.stages
            loop.streamed.append(found)
            return found
        if loop is not None and loop.stage == "start":
            k = len(loop.states)
            ty = loop.op.step.dom[k]
            element = self.symbols.element(ty, buffer.name, buffer.width)
            loop.states.append(self._variable(ty, element, loop.names[k]))
            return loop.states[k]
        if loop is not None and loop.stage == "end":
            self.fresh.append(buffer)
            return loop.states[len(self.fresh) - 1]
        k = len(self.fresh)
        self.fresh.append(buffer)
        if self.over is not None:
            over, self.over = self.over, None
            return self.where[over]
        box = self._box()
        return self._variable(box.cod[k], self.symbols.element(box.cod[k], "", buffer.width, box), "")

    def _box(self) -> Box:
        """The box that was visited last."""
        box = self.frames[-1].box
        assert box is not None
        return box

    def _load(self, variable: int) -> None:
        """Adds a line for an operand that is loaded, or extends the line before."""
        name = self.lines.variables[variable].name
        last = self.lines.lines[-1] if len(self.lines.lines) > self.first else None
        if last is not None and last.kind == "load" and last.loops == self._loops():
            last.parts, last.writes = (*last.parts, f", {name}"), (*last.writes, variable)
            last.names, last.live = (*last.names, name), self._snapshot()
        else:
            self._line("load", (f"load {name}",), (), [variable], [name])

    def _loops(self) -> tuple[int, ...]:
        return tuple(loop.number for loop in self.open_loops if loop.stage == "inside")

    def _point(self, extra: Sequence[Buffer]) -> None:
        loop = self.open_loops[-1] if self.open_loops else None
        if loop is not None and loop.stage == "start":
            self._begin(loop)
        elif loop is not None and loop.stage == "end":
            called = [*loop.op.components, *(f"state {k}" for k in range(len(loop.op.components), len(loop.states)))]
            states = [loop.states[called.index(b.name)] for b in extra]
            self._state_line(loop).live = self._snapshot(list(zip(extra, states, strict=True)))
        elif self.frames:
            self._let(self.frames[-1])

    # -- boxes ------------------------------------------------------------------------------------------------

    def _part(self, part: KernelPart) -> None:
        """Reads a kernel, or a phase of one."""
        self.part, self.first, self.present = part, len(self.lines.lines), {}
        self.known = self.known.new_child()
        graph, given = part.body.graph, [self.symbols.formulas[w] for w in self.kernel.reads]
        outside: Sequence[int] = range(len(graph.dom))
        if part.within is not None:
            whole, outside, _ = part.within
            for node in whole.nodes:
                first = len(given)
                own = self.symbols.formula(node.box, [given[w] for w in node.inputs])
                given += [self.made[first + k][0] if first + k in self.made else own for k in range(len(node.box.cod))]
        for k, (buffer, w) in enumerate(zip(part.body.inputs, outside, strict=True)):
            if buffer is not None:
                made = self.made[w][1] if w in self.made else ()
                self.where[buffer] = made[0] if made else self._operand(buffer, graph.dom[k])
        behind: list[tuple[int, ...]] = [() if b is None else (self.where[b],) for b in part.body.inputs]
        frame = TraceFrame(part.body, dict(enumerate(given[w] for w in outside)), dict(enumerate(behind)))
        self._body(frame)
        if part.within is not None:
            for w, end in zip(graph.outputs, part.within[2], strict=True):
                self.made[end] = (frame.formulas[w], frame.behind[w])
                if (b := part.body.made[w]) is not None and frame.behind[w]:
                    self.known[b.name] = frame.behind[w][0]
        # Outputs that no box of the kernel makes: inputs, and rematerialized arrays.
        for w in dict.fromkeys(frame.live_ranges.root[w] for w in graph.outputs):
            if w < len(graph.dom) or part.body.free[w]:
                self._leaving(frame, w, None)
        self._read(part.copies)
        self._saves()

    def _body(self, frame: TraceFrame) -> None:
        """Reads the boxes of a kernel, a phase or an iteration."""
        self.frames.append(frame)
        self._read(frame.body.statements)
        self._saves()
        self.frames.pop()

    def _visit(self, place: int) -> None:
        """Begins a box: saves what is due, and says its formula."""
        self._saves()
        frame = self.frames[-1]
        node, self.fresh = frame.graph.nodes[place], []
        frame.place, frame.box, frame.args = place, node.box, [frame.formulas[w] for w in node.inputs]
        frame.arg_variables = [frame.behind[w] for w in node.inputs]
        if isinstance(node.box.op, FoldOp):
            return
        made = self.symbols.formula(node.box, frame.args)
        behind = tuple(dict.fromkeys(v for found in frame.arg_variables for v in found))
        for w in frame.made():
            frame.formulas[w], frame.behind[w] = made, behind

    def _let(self, frame: TraceFrame) -> None:
        """Adds a line for the result of a box, or extends the line before, whose result only this box reads."""
        box = self._box()
        first = frame.made().start
        formula, reads = frame.formulas[first], frame.behind[first]
        made = [self.where[b] for b in self.fresh]
        before = self._joined(made, frame.args)
        allocated = self._snapshot()
        if before is not None:
            own = symbol(before.names[0])
            formula = self.symbols.formula(box, [(before.formula or arg) if arg == own else arg for arg in frame.args])
            reads = (*before.reads, *(v for v in reads if v not in made))
            if not all(_most(allocated, before.live, place) for place in self.part.places.names):
                allocated = before.live
            self.lines.lines.pop()
            self.symbols.release(before.names[0])
        names: list[str] = []
        for k, variable in enumerate(made):
            names.append(self._called(frame, first + k, variable))
            if not self.lines.variables[variable].name:
                self.lines.variables[variable].name = names[-1]
            if before is not None:  # the overwritten array is not listed
                declared = self.lines.variables[variable]
                declared.type, declared.element = (
                    box.cod[k],
                    self.symbols.element(box.cod[k], "", self.fresh[k].width, box),
                )
            frame.formulas[first + k], frame.behind[first + k] = symbol(names[-1]), (variable,)
            self._leaving(frame, first + k, self.fresh[k])
        left = f"{', '.join(names)} = "
        text: LineText = (f"{left}(", formula, ")") if compares(formula) else (left, formula)
        line = self._line("let", text, reads, made, names)
        line.formula, line.live = formula, allocated
        readers = frame.readers(first)
        line.merges = len(names) == len(readers) == 1 and elementwise(readers[0]) and not frame.outputs(first)
        self.fresh = []

    def _joined(self, made: Sequence[int], args: Sequence[Formula]) -> ListingLine | None:
        """The line before, if this line overwrites its result, and its memory is comparable with this line's."""
        before = self.lines.lines[-1] if len(self.lines.lines) > self.first else None
        if before is None or not before.merges or before.loops != self._loops() or before.writes != tuple(made):
            return None
        if before.formula is None or symbol(before.names[0]) not in args:
            return None
        if len(before.formula.text) + sum(len(a.text) for a in args) > LONGEST:
            return None
        allocated, names = self._snapshot(), self.part.places.names
        either = all(_most(allocated, before.live, p) for p in names) or all(
            _most(before.live, allocated, p) for p in names
        )
        return before if either else None

    def _called(self, frame: TraceFrame, wire: int, variable: int) -> str:
        """The name of a computed array: of a result, of a state of the loop, or t1, t2, …"""
        ends = [name for w in self._flat(frame, wire) for name in self.symbols.ends.get(w, ())]
        if ends:
            return ends[0]
        loop = self.open_loops[-1] if self.open_loops else None
        if loop is not None:
            outputs = frame.outputs(wire)
            k = loop.states.index(variable) if variable in loop.states else -1
            if k >= 0 and wire in frame.towards(k):
                return loop.names[k]
            if outputs and min(outputs) < len(loop.names):
                return loop.names[min(outputs)] + "′"
        return self.symbols.name()

    # -- loops --------------------------------------------------------------------------------------------------

    def _loop(self, step: LoopStep, live: LoopBuffers) -> None:
        """Reads a loop."""
        frame, op = self.frames[-1], step.op
        count = op.state_count
        names = op.components if len(op.components) == count else tuple(f"state{k}" for k in range(count))
        opened = OpenLoop(step, live, frame.args, frame.arg_variables, tuple(map(self.symbols.name, names)))
        self.open_loops.append(opened)
        self._read(live.head)
        given = [*map(symbol, opened.names), *opened.args]
        behind = [*((v,) for v in opened.states), *opened.behind]
        inside = TraceFrame(live.body, dict(enumerate(given)), dict(enumerate(behind)))
        self._open(opened)
        self._body(inside)
        made = list(frame.made())
        self._emit(frame, made[count:], inside, count)
        self._close(opened, inside)
        self._read(live.tail)
        self.open_loops.pop()
        for w, name, state, result in zip(made[:count], opened.names, opened.states, live.results, strict=True):
            frame.formulas[w], frame.behind[w] = symbol(name), (state,)
            self._leaving(frame, w, result)
        self.fresh = []

    def _emit(self, outer: TraceFrame, wires: Sequence[int], inside: TraceFrame, first: int) -> None:
        """The blocks that an iteration emits are saved; `wires` are those outside of the loop."""
        for k, w in enumerate(wires):
            end = inside.graph.outputs[first + k]
            formula, behind = inside.formulas[end], inside.behind[end]
            names = [
                n for place, of in self.kernel.leaves if place in outer.outputs(w) for n in self._names(of, formula)
            ]
            outer.formulas[w], outer.behind[w] = symbol(names[0]) if names else formula, ()
            self.due += [(name, behind[0] if behind else -1, formula, None) for name in names]
        self._saves()

    def _names(self, wire: int, formula: Formula) -> list[str]:
        """The names of an array that a kernel saves."""
        return self.symbols.ends.get(wire) or [formula.text if formula.level == ATOM else self.symbols.name()]

    def _begin(self, loop: OpenLoop) -> None:
        """The initial values of the states, and the head of the loop."""
        op = loop.op
        units = self.symbols.formulas_of(op.unit, (), {op.block: 0})
        pairs = [infix("=", symbol(name), truth(unit)) for name, unit in zip(loop.names, units, strict=True)]
        line = self._line("start", ("start: ", *_listed(pairs)), (), loop.states, loop.names)
        streamed = ((b, self.where[b]) for b in self.present if self.where[b] in loop.streamed and b.role == "streamed")
        loop.full = self._snapshot(list(streamed))
        if not loop.streamed:
            line.live = loop.full
        loop.number = len(self.lines.loops)
        if self.symbols.split_loop is not None and op.block in self.symbols.single:
            head: LineText = ("for each part of ", of_size(self.symbols.split_loop.axis_size), " in order:")
        else:
            head = (f"for each block of {op.axis} ({op.block} at a time)", *self._range(loop), ":")
        self.lines.loops.append(LoopHead(head, self._loops(), tuple(loop.states)))

    def _range(self, loop: OpenLoop) -> LineText:
        """The range of blocks that run, for a loop that skips some."""
        op = loop.op
        if op.bounds is None:
            return ()
        size = loop.box.size_of(op.axis)
        types = inline(op.bounds).cod
        low, high = (
            extreme(word, ty, end)
            for word, end, ty in zip(
                ("min", "max"), self.symbols.formulas_of(op.bounds, loop.args, {op.block: size}), types, strict=True
            )
        )
        return (" that meets the range from ", low, " to ", high)

    def _open(self, loop: OpenLoop) -> None:
        """The first lines of an iteration: its blocks are loaded, and its mask test is evaluated."""
        loop.stage = "inside"
        names = [self.lines.variables[v].name for v in loop.streamed]
        if names:
            self._line("load", (f"load {', '.join(names)}",), (), loop.streamed, names).live = loop.full
        if loop.op.block_test is not None:
            (live,) = self.symbols.formulas_of(loop.op.block_test, loop.args, {})
            reads = [v for found in loop.behind for v in found]
            self._line("unless", ("next block, unless somewhere ", live), reads).live = loop.full

    def _close(self, loop: OpenLoop, frame: TraceFrame) -> None:
        """The new states replace those of this iteration."""
        ends = frame.graph.outputs[: len(loop.states)]
        moved = [k for k, w in enumerate(ends) if frame.behind[w] != (loop.states[k],)]
        made = [frame.formulas[frame.graph.outputs[k]] for k in moved]
        reads = [v for k in moved for v in frame.behind[frame.graph.outputs[k]]]
        if moved:
            left = ", ".join(loop.names[k] for k in moved)
            states = [loop.states[k] for k in moved]
            self._line("carry", (f"{left} = ", *_listed(made)), reads, states, [loop.names[k] for k in moved])
        loop.stage, self.fresh = "end", []

    def _state_line(self, loop: OpenLoop) -> ListingLine:
        last = self.lines.lines[-1]
        if last.kind != "carry":
            last = self._line("carry", (f"next {', '.join(loop.names)}",))
            last.loops = (*self._loops(), loop.number)
        return last

    # -- saves ----------------------------------------------------------------------------------------------------

    def _flat(self, frame: TraceFrame, wire: int) -> list[int]:
        """The wires of the flat diagram as which the kernel saves an array."""
        if self.open_loops and self.open_loops[-1].stage == "inside":
            return []
        if self.part.within is None:
            return [w for k, w in self.kernel.leaves if k in frame.outputs(wire)]
        whole, _, ends = self.part.within
        inside = {ends[k] for k in frame.outputs(wire)}
        return [w for k, w in self.kernel.leaves if view_roots(whole)[whole.outputs[k]] in inside]

    def _leaving(self, frame: TraceFrame, wire: int, buffer: Buffer | None) -> None:
        """Schedules a result to be saved once its box is done."""
        formula = frame.formulas[wire]
        for w in self._flat(frame, wire):
            names = self._names(w, formula)
            self.symbols.formulas[w] = symbol(names[0])
            behind = frame.behind[wire][0] if frame.behind[wire] else -1
            self.due += [(name, behind, formula, buffer) for name in names]

    def _saves(self) -> None:
        """Saves the results that are due."""
        due, self.due = self.due, []
        for k, (name, variable, formula, _) in enumerate(due):
            said: LineText = (f"save {name}",) if formula == symbol(name) else (f"save {name} = ", formula)
            if name in self.kernel.added:
                said = (f"add to {name}: ", formula)
            line = self._line("save", said, [variable] if variable >= 0 else [])
            line.names = (name,)
            waiting = dict.fromkeys((b, v) for _, v, _, b in due[k:] if b is not None and b not in self.present)
            line.live = self._snapshot(list(waiting))


def _listed(formulas: Sequence[Formula]) -> LineText:
    """Formulas with commas between them."""
    return tuple(part for k, formula in enumerate(formulas) for part in ((", ", formula) if k else (formula,)))


def _most(one: Sequence[LiveArrays], other: Sequence[LiveArrays], place: str) -> bool:
    """Whether one set of allocations dominates the other, at a place."""
    return _total(one, place).dominates(_total(other, place))


def _total(allocated: Sequence[LiveArrays], place: str) -> IntPolynomial:
    return sum((amount for _, p, amount in allocated if p == place), ZERO)
