"""The theorem about a whole diagram after a local rewrite: proved at once, or cut at arrays that did not change."""

from __future__ import annotations

from collections.abc import Sequence

from catdiag.category.diagram import Diagram
from catdiag.category.ops import Generic
from catdiag.category.substitution import inline
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
"""The largest terms, in boxes counted with multiplicity, for which the uncut equation is tried first."""
PIECE_LIMIT = 200
"""The largest terms between cuts, counted in the same way: larger ones are cut at unchanged arrays."""


def proved(
    ask: Z3,
    source: Diagram,
    after: Diagram,
    assume: Sequence[str],
    origins: Origins | None,
    title: str,
) -> Theorem:
    """The theorem that a diagram and its rewritten form mean the same; `title` is that of the rule.

    `origins` says which boxes and wires they share, where that is known. Raises Undecided where no proof is found,
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
    """The theorem that two diagrams mean the same, cut at arrays that both compute, given by their wires in the inlined
    forms. Each of `options` is one set of cuts: the first one that is proved is used, preferably one without new
    conditions.

    `said` is what is known, in words, for the error. Raises Undecided where no proof is found.
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
    raise Undecided(f"{said}; that the whole diagram means the same as before was not proved", goal)


def is_small(*diagrams: Diagram) -> bool:
    """Whether diagrams are small enough to try the uncut equation first."""
    return max(map(_weight, diagrams)) <= WHOLE_LIMIT


def _weight(diagram: Diagram) -> int:
    """The number of boxes above the outputs, counted with multiplicity."""
    graph = inline(diagram).graph
    weight = [1] * len(graph.dom)
    for node in graph.nodes:
        weight.extend([1 + sum(weight[w] for w in node.inputs)] * len(node.box.cod))
    return sum(weight[w] for w in graph.outputs)


def _staying(source: Diagram, after: Diagram, origins: Origins) -> Pairs:
    """Arrays that both diagrams compute, by their wires: all inputs and outputs of the replacement, and enough others
    to keep the terms between them small.

    Arrays that no input reaches are left out, since the proof needs their values.
    """
    before = inline(source).graph.wire_types()
    graph, trails = opened(after)
    now = Wiring(graph)
    new = [trail not in origins.boxes for trail in trails]
    read = {w for place, node in enumerate(graph.nodes) if new[place] for w in node.inputs}
    # The size of each wire's term, with cut arrays as leaves; 0 where no input reaches.
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
            # Integers are not cut at: a fresh array would lose what is known of their values.
            if old is None or now.types[w].element == "int" or not _same_type(before[old], now.types[w]):
                continue
            if generic or new[place] or w in read or weight[w] > PIECE_LIMIT:
                pairs.append((old, w))
                weight[w] = 1
    return pairs


def _same_type(a: ArrayType, b: ArrayType) -> bool:
    return a.axes == b.axes and (a.element == "bool") == (b.element == "bool")
