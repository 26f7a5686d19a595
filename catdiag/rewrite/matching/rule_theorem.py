"""The theorem about a whole diagram in which something was rewritten: proved as one, or cut at arrays that stay."""

from __future__ import annotations

from collections.abc import Sequence

from catdiag.category.diagram import Diagram, inline
from catdiag.category.ops import Generic
from catdiag.category.types import ArrayType
from catdiag.kernel.checker import condition
from catdiag.kernel.terms import FALSE, KernelError
from catdiag.prover.api import AssumptionError, Theorem, Undecided, certify_equation, parse_assumption
from catdiag.prover.proof_search import OpenGoal
from catdiag.rewrite.matching.splice import Origins, opened
from catdiag.rewrite.matching.subgraph_search import Wiring
from catdiag.solvers.z3 import Z3

Pairs = list[tuple[int, int]]
"""Arrays of two diagrams that are equal, by their wires."""

WHOLE_LIMIT = 1000
"""How large the terms of a diagram may be, in boxes, each counted as often as it is used, to be proved whole first."""
PIECE_LIMIT = 200
"""How large the terms between cuts may be, counted so: a diagram of larger ones is cut at arrays that stay."""


def proved(
    ask: Z3,
    source: Diagram,
    after: Diagram,
    assume: Sequence[str],
    origins: Origins | None,
    title: str,
) -> Theorem:
    """The theorem that a diagram and what a rule (of that title) made of it mean the same.

    `origins` say what of the one is in the other, where that is known. Raises Undecided where no proof is found,
    AssumptionError for assumptions that no sizes meet.
    """
    if assume and ask([condition(parse_assumption(a)) for a in assume], FALSE):
        raise AssumptionError(f"no sizes meet the assumptions {', '.join(assume)}")
    small = is_small(source, after)
    cuts = [] if origins is None else _staying(source, after, origins)
    options: Sequence[Pairs] = ([], cuts) if small else (cuts, [])
    said = f"{title} holds, and {source.title or 'the diagram'} was rewritten by it"
    return proved_through(ask, source, after, assume, options if cuts else ([],), said)


def proved_through(
    ask: Z3, source: Diagram, after: Diagram, assume: Sequence[str], options: Sequence[Pairs], said: str
) -> Theorem:
    """The theorem that two diagrams mean the same, cut through arrays of both, by their wires in the inlined forms: in
    the first of several ways in which it is proved, without new conditions if there is one.

    `said` is what is known, in words. Raises Undecided where no proof is found.
    """
    goal, conditional = "", None
    for through in options:
        try:
            theorem = certify_equation(ask, source, after, assume, through)
        except (OpenGoal, KernelError) as error:
            goal = goal or getattr(error, "goal", str(error))
            continue
        if not theorem.conditional:
            return theorem
        conditional = conditional or theorem
    if conditional is not None:
        return conditional
    raise Undecided(f"{said}; that the whole diagram means what it meant was not proved", goal)


def is_small(*diagrams: Diagram) -> bool:
    """Whether diagrams are small enough to be proved equal whole first."""
    return max(map(_weight, diagrams)) <= WHOLE_LIMIT


def _weight(diagram: Diagram) -> int:
    """How many boxes there are above the outputs, each counted as often as it is used."""
    graph = inline(diagram).graph
    weight = [1] * len(graph.dom)
    for node in graph.nodes:
        weight.extend([1 + sum(weight[w] for w in node.inputs)] * len(node.box.cod))
    return sum(weight[w] for w in graph.outputs)


def _staying(source: Diagram, after: Diagram, origins: Origins) -> Pairs:
    """Arrays that both diagrams compute, by their wires: all that go into what was put in and come out of it, and as
    many others as keep the terms between them small.

    Those that no input reaches are left out: what is known of them is what they are.
    """
    before = inline(source).graph.wire_types()
    graph, trails = opened(after)
    now = Wiring(graph)
    new = [trail not in origins.boxes for trail in trails]
    read = {w for place, node in enumerate(graph.nodes) if new[place] for w in node.inputs}
    # How large the term of each wire is, with the arrays cut through as leaves; 0 where no input reaches.
    weight = [1] * len(graph.dom) + [0] * (len(now.maker) - len(graph.dom))
    pairs = []
    for place, trail in enumerate(trails):
        node = graph.nodes[place]
        generic = isinstance(node.box.op, Generic)
        if not generic and not any(weight[w] for w in node.inputs):
            continue
        for k, w in enumerate(now.outs(place)):
            weight[w] = 1 + sum(weight[v] for v in node.inputs)
            old = origins.wires.get((trail, k))
            # Of integers it is known that they are, which an array of its own would not show.
            if old is None or now.types[w].element == "int" or not _same_type(before[old], now.types[w]):
                continue
            if generic or new[place] or w in read or weight[w] > PIECE_LIMIT:
                pairs.append((old, w))
                weight[w] = 1
    return pairs


def _same_type(a: ArrayType, b: ArrayType) -> bool:
    return a.axes == b.axes and (a.element == "bool") == (b.element == "bool")
