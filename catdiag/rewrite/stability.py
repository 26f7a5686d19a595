"""Overflow analysis: the argument of every exponential that a program computes is at most 0, so that none of them
overflows.

This is a theorem of its own beside the equation. It is stated for each `exp` in the step of a loop, in its merge and
outside of it: its argument is at most 0 on every reachable state and every block. A reachable state is the state of a
list x1, and a block is a list x2 after it. So the claim is an equation between a diagram over both and the constant
true. For an argument `a - b` the claim is put as "the maximum of a over the block is at most b"; a lemma, which the
kernel proves too, says that this is equivalent. An argument of −∞ counts as at most 0. So does an argument whose
exponential is computed but not used (`where` selects another value).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from catdiag.category.diagram import Diagram, Graph, Node
from catdiag.category.formula import MINUS_INFINITY, Formula, infix, symbol
from catdiag.category.ops import Box, Const, FoldOp, Map, const_box, reduce_box
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType
from catdiag.prover.assumptions import OfSizes
from catdiag.prover.condition_formulas import Condition
from catdiag.prover.export import size_data
from catdiag.rewrite.box_formulas import wires_of
from catdiag.rewrite.claims import Claims, Form, Verdict, truth
from catdiag.rewrite.list_states import Assembly, ListParts, on_arbitrary_inputs, on_whole_axes, opened, part_sizes
from catdiag.util.display import AsHTML

if TYPE_CHECKING:
    from catdiag.prover.api import Theorem

Said: TypeAlias = Callable[[int], Formula]
"""The formula of each wire."""
LARGEST = 709
"""The largest integer whose exponential is finite in double precision."""


@dataclass(frozen=True)
class Exponential:
    """One `exp` that a program computes.

    `.where` is its place: step, merge, before or after the loop. `.argument` is its argument as a formula, `.line` the
    user's source line, if there is one. `.verdict` is the outcome of the claim that its argument is at most 0; if
    `.chosen`, a `where` selects between it and another value, and the claim is about the indices where it is selected.
    """

    where: str
    argument: Formula
    line: str | None
    verdict: Verdict
    chosen: bool = False

    @property
    def name(self) -> str:
        """Its place and its argument, as text."""
        return f"{self.where}: exp({self.argument})"

    def __str__(self) -> str:
        v = self.verdict
        text = f"{self.name} {'where it is used, ' if self.chosen else ''}{_MESSAGES[v.verdict]}"
        if v.conditions:
            text += " " + "; ".join(map(str, v.conditions))
        if self.line and not v.proved:
            text += f"\n  at {self.line}"
        if v.counterexample is not None:
            value = v.counterexample
            sizes = ", ".join(f"{k}={n}" for k, n in value.sizes.items())
            arrays = "; ".join(f"{name} = {formula_text(a)}" for name, a in value.arrays.items())
            index = ", ".join(f"{a}={i}" for a, i in value.index.items())
            above = v.goal or "above 0"
            text += f"\n  {above} for {sizes}; {arrays}" + (f" at {index}" if index else "")
        elif v.goal:
            text += f"\n  it stopped at {v.goal}"
        return text


_MESSAGES = {
    "proved": "≤ 1: proved",
    "conditional": "≤ 1: proved where",
    "refuted": "is not bounded by 1",
    "undecided": "≤ 1: undecided",
    "interrupted": "≤ 1: undecided, interrupted",
}


@dataclass(frozen=True)
class Stability(AsHTML):
    """The outcomes for all exponentials of a program, and the maxima that it dropped: those that the source subtracts
    or divides by (`.dropped`). True where all exponentials are proved and nothing is dropped.
    """

    exponentials: tuple[Exponential, ...]
    dropped: tuple[Box, ...] = ()

    @property
    def proved(self) -> bool:
        """Whether the argument of every exponential is proved to be at most 0 in every reachable state, and no maximum
        that the source subtracts or divides by is dropped.
        """
        return all(e.verdict.proved for e in self.exponentials) and not self.dropped

    def __bool__(self) -> bool:
        return self.proved

    @property
    def theorems(self) -> dict[str, Theorem]:
        """The theorems by the names of the exponentials. Lemmas are part of the theorem that uses them."""
        return {e.name: e.verdict.theorem for e in self.exponentials if e.verdict.theorem is not None}

    @property
    def unbounded(self) -> tuple[Exponential, ...]:
        """The exponentials with a counterexample: an input for which the argument is above 0."""
        return tuple(e for e in self.exponentials if e.verdict.verdict == "refuted")

    def __str__(self) -> str:
        lost = lost_maxima(self.dropped)
        return "\n".join([self._explanation(), *lost])

    def _explanation(self) -> str:
        lines = [str(e) for e in self.exponentials]
        if not lines:
            return "no exponential is run"
        count = sum(not e.verdict.proved for e in self.exponentials)
        if not count:
            which = " that is used" if any(e.chosen for e in self.exponentials) else ""
            return "\n".join([*lines, f"no exponential{which} overflows: every argument is at most 0"])
        if all(e.verdict.verdict in ("proved", "conditional") for e in self.exponentials):
            return "\n".join([*lines, "no exponential overflows where these conditions hold"])
        return "\n".join([*lines, f"it is not proved of {count} of {len(lines)} that they do not overflow"])


def lost_maxima(dropped: Sequence[Box]) -> list[str]:
    """A text for each box of a program that subtracts or divides by a maximum which the loop may not keep."""
    return [
        f"{box.name} of [{' '.join(box.cod[0].names)}] uses a statistic that the loop is not known to keep: "
        "what it accumulates may overflow where the program does not" + (f"\n  at {box.line}" if box.line else "")
        for box in dropped
    ]


def formula_text(value: Any) -> str:
    """An exact array as text."""
    return "[" + ", ".join(map(formula_text, value)) + "]" if isinstance(value, list) else str(value)


def stability(diagram: Diagram, claims: Claims) -> Stability:
    """The overflow analysis of a diagram, for all block sizes of its loops.

    >>> import catdiag as cd
    >>> from catdiag.solvers.z3 import Z3
    >>> f = cd.algorithm("x ->")(lambda S: cd.sum(cd.exp(S - cd.max(S, "x")), "x"))
    >>> with Z3() as ask:
    ...     print(stability(f, Claims(ask)))
    program: exp(S - max_x S) ≤ 1: proved
    no exponential overflows: every argument is at most 0
    """
    found: list[Exponential] = []
    flat = opened(diagram)
    loops = [(k, node) for k, node in enumerate(flat.graph.nodes) if isinstance(node.box.op, FoldOp)]
    for number, (place, node) in enumerate(loops, 1):
        found += _of_loop(node.box, claims, flat, place, f" of loop {number}" if len(loops) > 1 else "")
    found += _around(flat, claims)
    return Stability(tuple(found))


def _of_loop(
    box: Box, claims: Claims, around: Diagram | None = None, place: int = 0, inside: str = ""
) -> Iterator[Exponential]:
    """The exponentials of a loop. Without `around`, the loop is inside another loop, and its inputs are arbitrary."""
    op = box.op
    assert isinstance(op, FoldOp)
    for name, body in (("step", op.step), ("merge", op.merge)):
        # Results of the body have the names of the state with one prime more than the states that are its inputs.
        graph, mark = inline(body).graph, "′" if name == "step" else "″"
        made = {w: symbol(n + mark) for w, n in zip(graph.outputs, op.step.input_names, strict=False)}
        given = dict(enumerate(map(symbol, body.input_names)))
        if around is not None and name == "step":
            given |= dict(enumerate(_inputs(around, place), op.state_count))
        said = wires_of(body, {**made, **given})
        for wire, node in _exponentials(body):
            verdict, chosen = _in_loop(box, claims, name == "step", wire, said, around, place)
            yield Exponential(name + inside, said(node.inputs[0]), node.box.line, verdict, chosen)
    for inner in inline(op.step).boxes:
        if isinstance(inner.op, FoldOp):
            yield from _of_loop(inner, claims, inside=f" of the loop over {inner.op.axis}")


def _in_loop(
    box: Box, claims: Claims, stepping: bool, wire: int, said: Said, around: Diagram | None, place: int
) -> tuple[Verdict, bool]:
    """The verdict on the exponential that makes a wire of a loop's step, or else of its merge, and whether a `where`
    chooses.

    What holds of arbitrary inputs holds of those that the diagram around the loop computes. It is tried first, since
    its statement does not grow with that diagram.
    """

    def analysis(around: Diagram | None, place: int) -> tuple[_StabilityAnalysis, ListParts, tuple[str, ...]]:
        op = box.op
        assert isinstance(op, FoldOp)
        parts = ListParts(box, part_sizes(around or op.state, op.axis, 2), around, place)
        assume = parts.assumed(claims.assume)
        if stepping:
            now, _ = parts.step(parts.state(0), 1)
            assume = (*assume, OfSizes.of(["le", 0, size_data(parts.sizes[0])]))
        else:
            now, _ = parts.merge(parts.state(0), parts.state(1))
        graph = inline(op.step if stepping else op.merge).graph
        return _StabilityAnalysis(parts.assembly, graph, now, said, op.axis if stepping else None), parts, assume

    if around is not None and (alone := on_arbitrary_inputs(around, place)) is not None:
        reading, parts, assume = analysis(alone, len(alone.graph.nodes) - 1)
        found = reading.proved(wire, claims, parts.names, assume)
        if found is not None:
            return found, reading.chosen(wire)
    reading, parts, assume = analysis(around, place)
    verdict = reading.verdict(wire, claims, parts.names, assume, parts.whole_state())
    if verdict.verdict == "refuted" and around is None:
        verdict = Verdict("undecided", goal="it may be above 0 for arrays that never reach this loop")
    return verdict, reading.chosen(wire)


def _around(flat: Diagram, claims: Claims) -> Iterator[Exponential]:
    """The exponentials outside of loops."""
    graph = flat.graph
    loops = any(_loops(node.box) for node in graph.nodes)
    late = [False] * len(graph.dom)
    for node in graph.nodes:
        late.extend([_loops(node.box) or any(late[w] for w in node.inputs)] * len(node.box.cod))
    said = wires_of(flat, loop_names(flat))
    for wire, node in _exponentials(flat):
        assembly = Assembly(flat.dom.arrays)
        now, outputs = assembly.run(flat, range(len(flat.dom)), lambda box: on_whole_axes(box) if _loops(box) else None)
        reading = _StabilityAnalysis(assembly, graph, now, said, None)
        verdict = reading.verdict(wire, claims, flat.input_names, claims.assume, outputs)
        where = "program" if not loops else "after the loop" if late[wire] else "before the loop"
        yield Exponential(where, said(node.inputs[0]), node.box.line, verdict, reading.chosen(wire))


def unbounded_exponentials(flat: Diagram, claims: Claims) -> set[int]:
    """The exponentials, by wire, that are not proved to be at most 1, of a diagram without loops, groups and named
    boxes.
    """
    made = zip(_exponentials(flat), _around(flat, claims), strict=True)
    return {wire for (wire, _), e in made if not e.verdict.proved}


def loop_names(flat: Diagram) -> dict[int, Formula]:
    """The names of a diagram's inputs and of the final states of its loops, by their wires, as formulas."""
    names = dict(enumerate(map(symbol, flat.input_names)))
    for made, node in flat.graph.wired():
        if isinstance(node.box.op, FoldOp):
            names.update(zip(made, map(symbol, node.box.op.step.input_names[: node.box.op.state_count]), strict=False))
    return names


def _inputs(around: Diagram, place: int) -> list[Formula]:
    """The inputs of a loop as formulas of the arrays around it."""
    said = wires_of(around, loop_names(around))
    return [said(w) for w in around.graph.nodes[place].inputs]


def _loops(box: Box) -> bool:
    return isinstance(box.op, FoldOp)


def _exponentials(body: Diagram) -> Iterator[tuple[int, Node]]:
    """The exponentials of a diagram with its named boxes inlined, each with the wire of its result."""
    return ((made[0], node) for made, node in inline(body).graph.wired() if node.box.op == Map("exp"))


class _StabilityAnalysis:
    """The analysis of the exponentials of a diagram that was put into an assembly; `now` are its wires there.

    `axis` is that of the block, over which the maximum of the arguments is taken.
    """

    def __init__(self, assembly: Assembly, graph: Graph, now: Sequence[int], said: Said, axis: str | None) -> None:
        self.assembly, self.graph, self.now, self.said, self.axis = assembly, graph, now, said, axis
        self.maker = {made.start: node for made, node in graph.wired()}

    def verdict(
        self, wire: int, claims: Claims, names: tuple[str, ...], assume: Sequence[str], beside: Sequence[int]
    ) -> Verdict:
        """The verdict on the claim for the exponential that makes a wire: its argument is at most 0 wherever it is
        used.

        A refuted claim gets a counterexample with an argument above `LARGEST`, if one is found.
        """
        forms, title = self._forms(wire)
        literal = forms[-1].wire
        found = claims.decide(self.assembly, names, forms, literal, title, assume, beside)
        if found.counterexample is None:
            return found
        made = self.now[self.maker[wire].inputs[0]]
        large = self._or(self._unused(wire), self._at_most(made, self.assembly.number(LARGEST)))
        beyond = claims.refuted(self.assembly, names, large, title, assume)
        return found if beyond is None else replace(found, counterexample=beyond, goal=f"above {LARGEST}")

    def proved(self, wire: int, claims: Claims, names: tuple[str, ...], assume: Sequence[str]) -> Verdict | None:
        """The verdict where normal forms prove the claim without conditions; None where they do not."""
        forms, title = self._forms(wire)
        return claims.proved(self.assembly, names, forms, title, assume)

    def _forms(self, wire: int) -> tuple[list[Form], str]:
        """The sufficient forms of the claim for the exponential that makes a wire, the claim itself last, and the
        claim's title.
        """
        argument = self.maker[wire].inputs[0]
        unused_at = self._unused(wire)
        made = self.now[argument]
        literal = self._or(unused_at, self._at_most(made, self.assembly.number(0)))
        forms = [*self._moved(argument, unused_at)]
        if unused_at is None and (over := self._over(made)):
            forms.append(Form(self._at_most(greatest(self.assembly, made, over), self.assembly.number(0))))
        return [*forms, Form(literal)], f"exp({self.said(argument)})"

    def chosen(self, wire: int) -> bool:
        """Whether every use of the exponential is a branch of a `where`."""
        return self._unused(wire) is not None

    def _over(self, wire: int, bound: int | None = None) -> tuple[str, ...]:
        """The axes of the maximum: those that `bound` does not have, and the block's axis last."""
        names = self.assembly.types[wire].names
        known = None if bound is None else self.assembly.types[bound].names
        own = [n for n in names if n == self.axis]
        return (*(n for n in names if known is not None and n not in known and n != self.axis), *own)

    def _moved(self, argument: int, unused_at: int | None) -> Iterator[Form]:
        """The forms of the claim that a - b ≤ 0 as a claim about the maximum: max a ≤ b."""
        node = self.maker.get(argument)
        if node is None or node.box.op != Map("sub"):
            return
        a, b = (self.now[w] for w in node.inputs)
        if self.axis in self.assembly.types[b].names:
            return
        over = self._over(a, b)
        yield from self._within(a, b, node, unused_at, over)
        if len(over) > 1:
            # Summands that do not depend on one of the axes may have been moved out of the maximum over it.
            yield from self._within(a, b, node, unused_at, over[::-1])

    def _within(self, a: int, b: int, node: Node, unused_at: int | None, over: Sequence[str]) -> Iterator[Form]:
        """The forms of the claim that the maximum of a over the axes, in this order, is at most b."""
        add = self.assembly
        alike = unused_at is None or not set(over) & set(add.types[unused_at].names)
        top = a if unused_at is None or alike else add.map("where", unused_at, self._bottom(), a)
        unused = unused_at if alike else None
        lemmas = _lemmas(add.types[a], add.types[b], None if unused_at is None else add.types[unused_at], over)
        top = greatest(add, top, over)
        within = self._at_most(top, b)
        plain = Form(self._or(unused, within), lemmas)
        before, after = (self._replaced_bottom(w) for w in node.inputs)
        if before is not None and unused_at is None:
            bottom = self._is_bottom(self.now[before[0]])
            high = self.said(node.inputs[1] if after is None else after[0])
            empty = [] if after is None else [infix("=", high, MINUS_INFINITY)]
            above = infix("∨", *empty, infix("≥", high, self.said(before[2])))
            here = Condition(above, (infix("=", self.said(before[0]), MINUS_INFINITY),))
            rest = _replacement_lemma(add.types[self.now[before[0]]], before[1], add.types[b])
            yield Form(self._or(bottom, within), (*lemmas, rest), (here,))
        elif after is not None and add.types[top].element == "extended":
            # If the maximum is −∞, so is every argument: this case comes first, which makes the proof short.
            yield Form(self._or(unused, self._or(self._is_bottom(top), within)), lemmas)
            yield plain
        else:
            yield plain

    def _unused(self, wire: int) -> int | None:
        """A wire of truth values: true where the result of an exponential is not used. None where it is used
        everywhere.
        """
        found: int | None = None
        for node in self.graph.nodes:
            if wire not in node.inputs:
                continue
            if node.box.op != Map("where") or node.inputs[0] == wire or node.inputs[1] == node.inputs[2]:
                return None
            chosen = self.now[node.inputs[0]]
            unused = self.assembly.map("not", chosen) if node.inputs[1] == wire else chosen
            found = unused if found is None else self.assembly.map("and", found, unused)
        return None if wire in self.graph.outputs else found

    def _replaced_bottom(self, wire: int) -> tuple[int, Fraction, int] | None:
        """For `where(a = -∞, number, a)`: a, the number and its wire; None for other wires."""
        node = self.maker.get(wire)
        if node is None or node.box.op != Map("where"):
            return None
        test, value = (self.maker.get(w) for w in node.inputs[:2])
        if test is None or value is None or test.box.op != Map("eq") or test.inputs[0] != node.inputs[2]:
            return None
        bottom = self.maker.get(test.inputs[1])
        if bottom is None or bottom.box.op != Const(None) or not isinstance(value.box.op, Const):
            return None
        return None if value.box.op.value is None else (node.inputs[2], value.box.op.value, node.inputs[1])

    def _bottom(self) -> int:
        return self.assembly.add(const_box(None), ())

    def _is_bottom(self, wire: int) -> int:
        return self.assembly.map("eq", wire, self._bottom())

    def _at_most(self, a: int, b: int) -> int:
        return self.assembly.map("le", a, b)

    def _or(self, first: int | None, second: int) -> int:
        return second if first is None else self.assembly.map("or", first, second)


def greatest(assembly: Assembly, wire: int, axes: Sequence[str]) -> int:
    """The maximum of an array over axes."""
    for name in axes:
        wire = assembly.add(reduce_box("max", name, assembly.types[wire]), (wire,))
    return wire


def _lemmas(
    a: ArrayType, b: ArrayType, unused: ArrayType | None, over: Sequence[str]
) -> tuple[tuple[Diagram, Diagram], ...]:
    """The lemmas, for all a and all real b: max a ≤ b holds exactly if every a ≤ b; and if a ≤ b or the element is not
    used, then a - b is −∞ or at most 0, or the element is not used.
    """
    made = Assembly([a, ArrayType(b.axes), *([] if unused is None else [unused])])
    names = ("a", "b", "unused")[: len(made.dom)]
    bottom = made.add(const_box(None), ())
    counted = 0 if unused is None else made.map("where", 2, bottom, 0)
    within = made.map("le", counted, 1)
    apart = made.map("le", made.map("sub", 0, 1), made.number(0))
    apart = made.map("or", made.map("eq", 0, bottom), apart)
    apart = made.map("or", made.map("not", within), apart if unused is None else made.map("or", 2, apart))
    found = [(truth(made, apart), apart)]
    if over:
        each = within
        for name in over:
            each = made.add(reduce_box("all", name, made.types[each]), (each,))
        found.append((each, made.map("le", greatest(made, counted, over), 1)))
    return tuple((made.diagram([v], names, "each"), made.diagram([w], names, "a ≤ b")) for v, w in found)


def _replacement_lemma(top: ArrayType, number: Fraction, b: ArrayType) -> tuple[Diagram, Diagram]:
    """The lemma, for all real b: a number that replaces a maximum of −∞ is at most b, or b is below that number."""
    made = Assembly([top, ArrayType(b.axes)])
    low, bottom = made.add(const_box(number), ()), made.add(const_box(None), ())
    empty = made.map("eq", 0, bottom)
    within = made.map("le", made.map("where", empty, low, 0), 1)
    claim = made.map("or", made.map("not", empty), made.map("or", made.map("lt", 1, low), within))
    names = ("maximum", "b")
    return made.diagram([truth(made, claim)], names, "true"), made.diagram([claim], names, "low ≤ b, or b < low")
