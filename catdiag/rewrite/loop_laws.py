"""Laws of derived loops beside their equation: associativity of the merge, commutativity, units, blocks of one,
remainders, and divisors other than 0.

Each law is an equation of diagrams about the states of parts of the list, and is proved by the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from catdiag.category.diagram import Diagram
from catdiag.category.formula import Formula, infix
from catdiag.category.formula import number as constant
from catdiag.category.op_facts import scalar_function
from catdiag.category.ops import Box, FoldOp
from catdiag.category.scalars import ScalarFunction
from catdiag.category.types import Size
from catdiag.prover.api import Interrupted, in_time
from catdiag.rewrite.box_formulas import wires_of
from catdiag.rewrite.claims import Claims, Form, Verdict
from catdiag.rewrite.list_states import (
    Assembly,
    ListParts,
    is_splittable,
    on_arbitrary_inputs,
    on_whole_axes,
    opened,
    part_sizes,
)
from catdiag.rewrite.stability import loop_names, stability


@dataclass(frozen=True)
class Divisor:
    """A divisor, or the argument of a logarithm, in the result of a loop: its formula, and the verdict on the claim
    that it is above 0. Where that is not proved, the equation has the hypothesis that it is not 0."""

    formula: Formula
    verdict: Verdict

    @property
    def name(self) -> str:
        """The claim, as text."""
        return str(infix(">", self.formula, constant(0)))

    def __str__(self) -> str:
        v = self.verdict
        if v.proved:
            return f"{self.name}: proved"
        if v.verdict == "conditional":
            return f"{self.name}: proved where the program is defined"
        return f"{infix('≠', self.formula, constant(0))}: a hypothesis"


def loops(diagram: Diagram) -> tuple[Diagram, list[int]]:
    """A diagram with its groups and named boxes inlined, and the places of its loops."""
    flat = opened(diagram)
    return flat, [k for k, node in enumerate(flat.graph.nodes) if isinstance(node.box.op, FoldOp)]


def laws(diagram: Diagram, claims: Claims) -> dict[str, Verdict]:
    """The verdicts on the laws of all loops of a diagram, by name."""
    flat, places = loops(diagram)
    found: dict[str, Verdict] = {}
    for number, place in enumerate(places, 1):
        which = f" in loop {number}" if len(places) > 1 else ""
        alone = on_arbitrary_inputs(flat, place)
        for name, law in _LAWS.items():
            # What holds of arbitrary inputs holds of those that the diagram computes, and is a smaller statement.
            verdict = None if alone is None else law(alone, len(alone.graph.nodes) - 1, claims)
            if verdict is None or not verdict.proved:
                verdict = law(flat, place, claims)
            if verdict is not None:
                found[name + which] = verdict
    return found


def _parts(flat: Diagram, place: int, sizes: Sequence[Size]) -> ListParts:
    return ListParts(flat.graph.nodes[place].box, sizes, flat, place)


def _equation(
    parts: ListParts, claims: Claims, left: Sequence[int], right: Sequence[int], title: str, refuted: bool = True
) -> Verdict:
    sides = [parts.assembly.diagram(w, parts.names, t) for w, t in ((left, title), (right, "the same"))]
    return claims.equation(sides[0], sides[1], parts.assumed(claims.assume), refuted)


def associativity(flat: Diagram, place: int, claims: Claims) -> Verdict:
    """That merging the states of three consecutive lists gives the same in both orders of evaluation."""
    parts = _parts(flat, place, _symbols(flat, place, 3))
    a, b, c = (parts.state(k) for k in range(3))
    left = parts.merge(parts.merge(a, b)[1], c)[1]
    right = parts.merge(a, parts.merge(b, c)[1])[1]
    return _equation(parts, claims, left, right, "merge(merge(a, b), c)")


def commutativity(flat: Diagram, place: int, claims: Claims) -> Verdict:
    """That merging the states of two lists does not depend on their order."""
    parts = _parts(flat, place, _symbols(flat, place, 2))
    a, b = parts.state(0), parts.state(1)
    return _equation(parts, claims, parts.merge(a, b)[1], parts.merge(b, a)[1], "merge(a, b)")


def merged(flat: Diagram, place: int, claims: Claims) -> Verdict | None:
    """That merging the states of two consecutive lists gives the state of their concatenation; None where no list is
    known.
    """
    if not is_splittable(flat.graph.nodes[place].box):
        return None
    parts = _parts(flat, place, _symbols(flat, place, 2))
    merge = parts.merge(parts.state(0), parts.state(1))[1]
    return _equation(parts, claims, parts.whole_state(), merge, "state(a + b)")


def empty(flat: Diagram, place: int, claims: Claims) -> Verdict:
    """That the state of the empty list is a unit of the merge, on both sides."""
    parts = _parts(flat, place, _symbols(flat, place, 1))
    a, unit = parts.state(0), parts.unit()
    left = [*parts.merge(unit, a)[1], *parts.merge(a, unit)[1]]
    return _equation(parts, claims, left, [*a, *a], "merge(empty, a), merge(a, empty)")


def single(flat: Diagram, place: int, claims: Claims) -> Verdict | None:
    """That a block of one element gives the state of the list with that element appended."""
    return _step(flat, place, claims, (_symbols(flat, place, 1)[0], 1))


def remainder(flat: Diagram, place: int, claims: Claims) -> Verdict | None:
    """That a shorter last block, after any number of whole blocks, gives the state of the whole list."""
    n, g, r = _symbols(flat, place, 3)
    return _step(flat, place, claims, (("*", n, g), r))


def _step(flat: Diagram, place: int, claims: Claims, sizes: Sequence[Size]) -> Verdict | None:
    if not is_splittable(flat.graph.nodes[place].box):
        return None
    parts = _parts(flat, place, sizes)
    return _equation(parts, claims, parts.whole_state(), parts.step(parts.state(0), 1)[1], "state(a + b)")


def _symbols(flat: Diagram, place: int, count: int) -> tuple[str, ...]:
    op = flat.graph.nodes[place].box.op
    assert isinstance(op, FoldOp)
    return part_sizes(flat, op.axis, count)


_LAWS = {
    "merge gives the state of the whole": merged,
    "merge is associative": associativity,
    "merge is commutative": commutativity,
    "an empty list changes nothing": empty,
    "blocks of one": single,
    "a shorter last block": remainder,
}


def divisors(diagram: Diagram, claims: Claims) -> list[Divisor]:
    """The divisors and arguments of logarithms that depend on a loop of a diagram, with the verdicts on their signs.

    >>> import catdiag as cd
    >>> from catdiag.solvers.z3 import Z3
    >>> mean = cd.algorithm("x, x ->")(lambda w, a: cd.sum(w * a, "x") / cd.sum(w, "x"))
    >>> with Z3() as ask:
    ...     print(divisors(mean.stream("x").diagram, Claims(ask))[0])
    sum2 ≠ 0: a hypothesis
    """
    return list(_divisors(opened(diagram), claims))


_NONZERO: Mapping[ScalarFunction, int] = {"div": 1, "log": 0}
"""The argument that must not be 0."""


def _divisors(flat: Diagram, claims: Claims) -> Iterator[Divisor]:
    """The divisors and arguments of logarithms that depend on a loop of a flat diagram, each once."""
    graph = flat.graph
    late = [False] * len(graph.dom)
    said = wires_of(flat, loop_names(flat))
    seen: set[int] = set()
    for node in graph.nodes:
        op = node.box.op
        place = _NONZERO.get(scalar_function(op))
        wire = None if place is None else node.inputs[place]
        if wire is not None and late[wire] and wire not in seen:
            seen.add(wire)
            yield Divisor(said(wire), _positive(flat, wire, claims))
        late.extend([isinstance(op, FoldOp) or any(late[w] for w in node.inputs)] * len(node.box.cod))


def _positive(flat: Diagram, wire: int, claims: Claims) -> Verdict:
    within = Claims(claims.ask, claims.assume, None)
    try:
        return in_time(claims.limit, "a divisor", partial(_positive_where_defined, flat, wire, within))
    except Interrupted as error:
        return Verdict("interrupted", goal=error.message)


def _positive_where_defined(flat: Diagram, wire: int, claims: Claims) -> Verdict:
    """The verdict on the claim that a divisor is above 0 wherever the program is defined."""
    assembly = Assembly(flat.dom.arrays)
    now, outputs = assembly.run(flat, range(len(flat.dom)), _state_of)
    claim = assembly.map("lt", assembly.number(0), now[wire])
    forms, names, title = [Form(claim)], flat.input_names, "0 < divisor"
    # Where the program is defined, the divisor is not 0. Quick proofs are tried before slow ones.
    for further in (False, True):
        found = claims.decide(assembly, names, forms, claim, title, further=further)
        if found.proved:
            return found
        given = claims.decide(assembly, names, forms, claim, title, beside=outputs, granted=True, further=further)
        if given.theorem is not None:
            return replace(given, verdict="conditional", conditions=given.theorem.formulas.defined)
        if found.verdict == "refuted" or given.large:
            break
    return found


def _state_of(box: Box) -> Diagram | None:
    return on_whole_axes(box) if isinstance(box.op, FoldOp) else None


def verdicts(diagram: Diagram, claims: Claims) -> dict[str, Verdict]:
    """All claims about a diagram's loops beside its equation, by name: laws, divisors and exponentials."""
    found = laws(diagram, claims)
    found |= {d.name: d.verdict for d in divisors(diagram, claims)}
    for e in stability(diagram, claims).exponentials:
        name, count = f"{e.name} does not overflow", 1
        while name in found:
            count += 1
            name = f"{e.name} ({count}) does not overflow"
        found[name] = e.verdict
    return found
