"""Very large diagrams as diagrams of named parts, recursively, so that each picture has few boxes.

A part consists of consecutive boxes in the diagram's own order. Cuts are made where few arrays cross, which finds the
layers of a network. Equal parts have one name, that of the first of them. The result has the same meaning: fully
inlined, it is the diagram.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from catdiag.category.diagram import Diagram, Graph, Node, of_graph
from catdiag.category.graph_writer import GraphWriter
from catdiag.category.ops import Box
from catdiag.category.substitution import call
from catdiag.category.traversal import rebuilt
from catdiag.category.types import Ty

MOST = 60
"""The most boxes and parts of a part."""


def folded(diagram: Diagram, most: int = MOST) -> Diagram:
    """A diagram with at most `most` boxes on each level: larger ones are divided into named parts.

    The bodies of loops, groups and named diagrams are folded too. Names are `part 3`, the third of the diagram's parts
    or an equal one, and `parts 1 to 40`. Raises ValueError for fewer than 4.

    >>> from catdiag.category.diagram import box
    >>> from catdiag.category.substitution import inline
    >>> from catdiag.category.types import ArrayType, Axis
    >>> x = ArrayType((Axis("x"),))
    >>> chain = f = box("f", x, x) >> box("g", x, x)
    >>> for _ in range(9):
    ...     chain = chain >> f
    >>> [b.op.name for b in folded(chain, 10).boxes], inline(folded(chain, 10)) == chain
    (['part 1', 'part 1', 'part 1', 'part 1', 'part 1'], True)
    """
    if most < 4:
        raise ValueError(f"most is {most}: expected parts of 4 or more boxes")
    return rebuilt(diagram, lambda item: _levels(item, most))


def _levels(diagram: Diagram, most: int) -> Diagram:
    """A diagram's own boxes in parts, and these in parts again, until there are few."""
    number = len(diagram.graph.nodes)
    if number <= most:
        return diagram
    depth = 1
    while most ** (depth + 1) < number:
        depth += 1
    wanted = 2
    while wanted ** (depth + 1) < number:
        wanted += 1
    # The numbers of the smallest parts in each box.
    spans: list[tuple[int, int]] = []
    while len(diagram.graph.nodes) > most:
        cuts = _cuts(diagram.graph, wanted, most)
        if spans:
            spans = [(spans[a][0], spans[b - 1][1]) for a, b in pairwise(cuts)]
        else:
            spans = [(k, k) for k in range(1, len(cuts))]
        diagram = _cut(diagram, cuts, spans)
    return diagram


def _cuts(graph: Graph, wanted: int, most: int) -> list[int]:
    """The boundaries of parts of about `wanted` nodes.

    A part has between half and one and a half times as many. Of the possible cuts, the fewest arrays cross, and the
    next part begins like the current one.
    """
    number = len(graph.nodes)
    change = [0] * (number + 1)
    makers = graph.makers()
    last = [-1] * len(makers)
    for k, node in enumerate(graph.nodes):
        for w in node.inputs:
            last[w] = k
    for w, k in enumerate(makers):
        if last[w] > k >= 0:
            change[k] += 1
            change[last[w]] -= 1
    passing = list(accumulate(change))  # the number of arrays made up to a node and read after it
    kinds: dict[Box, int] = {}
    kind = [kinds.setdefault(node.box, len(kinds)) for node in graph.nodes]
    cuts = [0]
    low, high = max(2, wanted // 2), min(most, wanted + wanted // 2)
    while number - cuts[-1] >= 2 * low:
        start = cuts[-1]
        places = range(start + low, min(start + high, number - low) + 1)
        worth = {k: (passing[k - 1], kind[k] != kind[start], abs(k - start - wanted), k) for k in places}
        best = min(places, key=worth.__getitem__)
        # A remainder no larger than a part is one part, unless it has several that begin alike.
        alike = worth[best][:2] <= (passing[start - 1] if start else 0, False)
        if number - start <= (wanted if alike else high):
            break
        cuts.append(best)
    return [*cuts, number]


def _cut(diagram: Diagram, cuts: Sequence[int], spans: Sequence[tuple[int, int]]) -> Diagram:
    """The diagram of parts between consecutive cuts. Equal parts are one diagram, with the name of the first."""
    graph = diagram.graph
    types = graph.wire_types()
    first = len(graph.dom)
    starts = [first]
    for node in graph.nodes:
        starts.append(starts[-1] + len(node.box.cod))
    part_of = [number for number, (a, b) in enumerate(pairwise(cuts)) for _ in range(starts[b] - starts[a])]
    leaving: list[dict[int, None]] = [{} for _ in spans]
    for number, (a, b) in enumerate(pairwise(cuts)):
        for node in graph.nodes[a:b]:
            for w in node.inputs:
                if w >= first and part_of[w - first] != number:
                    leaving[part_of[w - first]][w] = None
    for w in graph.outputs:
        if w >= first:
            leaving[part_of[w - first]][w] = None
    known: dict[Diagram, Diagram] = {}
    at = {w: w for w in range(first)}  # the wires of arrays in the diagram of parts
    writer = GraphWriter(graph.dom)
    for (a, b), (low, high), left in zip(pairwise(cuts), spans, leaving, strict=True):
        entering = dict.fromkeys(w for node in graph.nodes[a:b] for w in node.inputs if w < starts[a])
        own = {w: k for k, w in enumerate([*entering, *range(starts[a], starts[b])])}
        inside = tuple(Node(n.box, tuple(own[w] for w in n.inputs)) for n in graph.nodes[a:b])
        results = sorted(left)
        body = of_graph(Graph(Ty(*(types[w] for w in entering)), inside, tuple(own[w] for w in results)))
        if body not in known:
            known[body] = call(f"part {low}" if low == high else f"parts {low} to {high}", body)
        at.update(zip(results, writer.made(known[body].boxes[0], [at[w] for w in entering]), strict=True))
    return of_graph(writer.graph(at[w] for w in graph.outputs), diagram.cod, diagram.names, diagram.title)
