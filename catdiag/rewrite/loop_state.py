"""The state of the loops of a derived diagram, as formulas: unit, element, step and merge of each, and the finish.

The formulas are read from the loop itself. So a fold that the user declared and a fold that the rewrite found are
printed in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from catdiag.category.diagram import Diagram, Graph, HasDiagram, Node, diagram_of
from catdiag.category.formula import Formula, symbol, truth
from catdiag.category.ops import Box, FoldOp, GroupOp, Map, Rename
from catdiag.category.substitution import inline
from catdiag.rewrite.box_formulas import formula_of

_LONG, _LONGER = 12, 60
"""A part that is read twice gets a name above this many characters: `_LONGER` if it reads the state, else `_LONG`."""


@dataclass(frozen=True)
class ComponentFormulas:
    """One component of a loop's state, as formulas.

    - `unit`: its value for the empty list; `element`: its value for a list, computed without a loop.
    - `step`: its value after an iteration; `′` marks new values of earlier components.
    - `merge`: its value for two lists; `′` marks the values of the second list, `″` those of both lists together.
    - `repair`: the factor by which the old value is rescaled when an earlier component changes. If the old value is not
      multiplied by a factor, it is the rescaled value itself. None if the old value stays as it is.
    """

    name: str
    axes: tuple[str, ...]
    unit: Formula
    element: Formula
    repair: Formula | None
    step: Formula
    merge: Formula

    def rows(self) -> list[tuple[str, Formula]]:
        """The formulas, each with its name; without the repair if there is none."""
        repair = [] if self.repair is None else [("repair", self.repair)]
        return [("unit", self.unit), ("element", self.element), *repair, ("step", self.step), ("merge", self.merge)]

    def as_dict(self) -> dict[str, object]:
        """The formulas as text, for JSON."""
        formulas = ("unit", "element", "repair", "step", "merge")
        texts = {name: value and str(value) for name, value in vars(self).items() if name in formulas}
        return {"name": self.name, "axes": list(self.axes), **texts}


@dataclass(frozen=True)
class LoopFormulas:
    """The state of one loop over blocks of `axis`; `inside` is the axis of the enclosing loop, if any."""

    axis: str
    block: str
    components: tuple[ComponentFormulas, ...]
    inside: str = ""


@dataclass(frozen=True)
class StateFormulas:
    """The loops of a diagram, its results in terms of the final states (`finish`), and names of shared parts."""

    loops: tuple[LoopFormulas, ...]
    finish: tuple[tuple[str, Formula], ...]
    shared: tuple[tuple[str, Formula], ...]

    @property
    def components(self) -> tuple[ComponentFormulas, ...]:
        """The components of all loops."""
        return tuple(c for loop in self.loops for c in loop.components)

    def __str__(self) -> str:
        lines: list[str] = []
        for loop in self.loops:
            within = f", inside the loop over {loop.inside}" if loop.inside else ""
            lines.append(f"loop over {loop.axis} in blocks of {loop.block}{within}, with the state")
            for c in loop.components:
                axes = f"[{' '.join(c.axes)}]" if c.axes else ""
                lines += [f"  {c.name}{axes}", *(f"    {name:7}  {formula}" for name, formula in c.rows())]
        lines += [f"finish {name} = {text}" for name, text in self.finish]
        lines += [f"{'where' if not k else '     '} {name} = {text}" for k, (name, text) in enumerate(self.shared)]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, object]:
        """The formulas as plain values for JSON."""
        return {
            "loops": [
                {
                    "axis": p.axis,
                    "block": p.block,
                    "inside": p.inside,
                    "components": [c.as_dict() for c in p.components],
                }
                for p in self.loops
            ],
            "finish": {name: str(formula) for name, formula in self.finish},
            "shared": {name: str(formula) for name, formula in self.shared},
        }


def formulas(subject: Diagram | HasDiagram) -> StateFormulas:
    """The formulas of all loops of a diagram, and of its results.

    >>> import catdiag as cd
    >>> mean = cd.algorithm("q x", name="mean")(lambda A: cd.sum(A, "x") / cd.size("x"))
    >>> print(formulas(mean.stream("x")))
    loop over x in blocks of s_x, with the state
      sum1[q]
        unit     0
        element  Σ_x A
        step     sum1 + Σ_x A
        merge    sum1 + sum1′
    finish out = sum1/x
    """
    diagram = diagram_of(subject)
    reading = _StateReading(set(diagram.input_names))
    made = reading.walk(diagram, [FormulaPart(symbol(name)) for name in diagram.input_names])
    names = ["out"] if len(made) == 1 else [f"out{k}" for k in range(len(made))]
    return StateFormulas(
        tuple(reading.loops), tuple(zip(names, (p.formula for p in made), strict=True)), tuple(reading.shared.items())
    )


@dataclass(frozen=True)
class FormulaPart:
    """A formula, and whether it depends on the state of a loop (`late`)."""

    formula: Formula
    late: bool = False


@dataclass
class _StateReading:
    """Reads the formulas of a diagram; `taken` are the names in use, `around` is the axis of the enclosing loop."""

    taken: set[str]
    loops: list[LoopFormulas] = field(default_factory=list)
    shared: dict[str, Formula] = field(default_factory=dict)
    called: dict[Formula, str] = field(default_factory=dict)
    around: str = ""

    def walk(
        self, diagram: Diagram, inputs: Sequence[FormulaPart], names: Sequence[str] = (), collect: bool = True
    ) -> list[FormulaPart]:
        """The formulas of a diagram's outputs.

        With `names`, outputs go by these names in formulas of other outputs. Without `collect`, a loop is read as its
        result, and its state is not recorded.
        """
        flat = inline(diagram)
        return self.outputs(flat.graph, self.wires(flat.graph, inputs, names, collect))

    def outputs(self, graph: Graph, wires: tuple[list[FormulaPart], dict[int, FormulaPart]]) -> list[FormulaPart]:
        """The formulas of a graph's outputs, written out instead of by name."""
        parts, own = wires
        return [own.get(w, parts[w]) for w in graph.outputs]

    def wires(
        self, graph: Graph, inputs: Sequence[FormulaPart], names: Sequence[str], collect: bool
    ) -> tuple[list[FormulaPart], dict[int, FormulaPart]]:
        """The formula by which each wire is read, which may be a name; and the formula written out, by wire."""
        uses: dict[int, int] = {}
        for node in graph.nodes:
            for w in node.inputs:
                uses[w] = uses.get(w, 0) + 1
        called = {w: n for w, n in reversed(list(zip(graph.outputs, names, strict=False))) if w >= len(inputs)}
        parts = list(inputs)
        own: dict[int, FormulaPart] = {}
        for node in graph.nodes:
            first = len(parts)
            for k, part in enumerate(self._made(node.box, [parts[w] for w in node.inputs], collect)):
                w = first + k
                own[w] = part
                if w in called:
                    part = FormulaPart(symbol(called[w]), True)
                elif uses.get(w, 0) > 1 and len(part.formula.text) > (_LONGER if part.late else _LONG):
                    part = FormulaPart(symbol(self._name(part.formula)), part.late)
                parts.append(part)
        return parts, own

    def _name(self, formula: Formula) -> str:
        if formula in self.called:
            return self.called[formula]
        k = len(self.shared) + 1
        while f"t{k}" in self.taken:
            k += 1
        self.taken.add(f"t{k}")
        self.shared[f"t{k}"] = formula
        self.called[formula] = f"t{k}"
        return f"t{k}"

    def _made(self, box: Box, args: Sequence[FormulaPart], collect: bool) -> list[FormulaPart]:
        op = box.op
        if isinstance(op, GroupOp):
            return self.walk(op.body, args, collect=collect)
        if isinstance(op, FoldOp):
            return self.fold(op, box, args) if collect else self.walk(op.state, args, collect=False)
        return [FormulaPart(formula_of(box, [a.formula for a in args]), any(a.late for a in args)) for _ in box.cod]

    def fold(self, op: FoldOp, box: Box, args: Sequence[FormulaPart]) -> list[FormulaPart]:
        """Records the formulas of a loop; its results go by the names of its components."""
        names: list[str] = []
        for k in range(op.state_count):
            base = op.components[k] if k < len(op.components) else f"state{k}"
            name, count = base, 1
            while name in self.taken:
                count += 1
                name = f"{base}_{count}"
            self.taken.add(name)
            names.append(name)
        old = [FormulaPart(symbol(n), True) for n in names]
        after, both = [n + "′" for n in names], [n + "″" for n in names]
        unit = self.walk(op.unit, (), collect=False)
        element = self.walk(op.state, args, names, collect=False)
        iteration = inline(op.step).graph
        place, outer, self.around = len(self.loops), self.around, op.axis
        wires = self.wires(iteration, (*old, *args), after, True)
        self.around = outer
        step = self.outputs(iteration, wires)
        repairs = [_repair(iteration, k, wires[0]) for k in range(len(names))]
        merge = self.walk(op.merge, (*old, *(FormulaPart(symbol(n), True) for n in after)), both, collect=False)
        self.loops.insert(
            place,
            LoopFormulas(
                op.axis,
                op.block,
                tuple(
                    ComponentFormulas(name, ty.names, truth(u.formula), e.formula, r, s.formula, m.formula)
                    for name, ty, u, e, r, s, m in zip(
                        names, box.cod, unit, element, repairs, step, merge, strict=False
                    )
                ),
                outer,
            ),
        )
        return [*old, *element[len(old) :]]


def _repair(step: Graph, k: int, parts: Sequence[FormulaPart]) -> Formula | None:
    """The repair of component `k` in an iteration, before the block is added (see `ComponentFormulas`)."""
    maker: dict[int, Node] = {}
    for node in step.nodes:
        maker.update(
            dict.fromkeys(range(len(step.dom) + len(maker), len(step.dom) + len(maker) + len(node.box.cod)), node)
        )

    def bare(w: int) -> int:
        while w in maker and isinstance(maker[w].box.op, Rename):
            w = maker[w].inputs[0]
        return w

    last = bare(step.outputs[k])
    if last not in maker or not isinstance(maker[last].box.op, Map) or len(maker[last].inputs) != 2:
        return None
    sides = [bare(w) for w in maker[last].inputs]
    if k in sides:
        return None
    for w in sides:
        made = maker.get(w)
        if made is not None and isinstance(made.box.op, Map) and k in map(bare, made.inputs):
            if made.box.op.fn == "mul" and len(made.inputs) == 2:
                return parts[next(v for v in made.inputs if bare(v) != k)].formula
            return parts[w].formula
    return None
