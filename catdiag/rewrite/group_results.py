"""Results that are reshapes of what a group makes: each group writes its own tile of the array before its reshape.

A merged axis `(h d)` has no tile that is a product of a tile of h and all of d. So a result `u[b h q d] -> [b q (h d)]`
is grouped as `u`, and reshaped after the group. The reshape is a view: it computes nothing and moves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from catdiag.category.diagram import Diagram, Graph, Node, of_graph, reachable
from catdiag.category.op_facts import new_names, unit_axes
from catdiag.category.ops import Box, Reindex
from catdiag.category.types import Ty
from catdiag.schedule.live_ranges import final_reshapes, rematerialized


def without_final_reshapes(flat: Diagram) -> tuple[Diagram, list[list[Box]]]:
    """A flat diagram with the arrays before their last reshapes as results, and for each result these reshapes, from
    the first that splits, merges or renames an axis, or adds one of length 1. Reshapes of inputs, and of what is
    rematerialized, stay where they are.

    >>> import catdiag as cd
    >>> f = cd.algorithm("b h d")(lambda A: cd.rearrange(cd.exp(A), "b h d -> b (h d)"))
    >>> made, reshapes = without_final_reshapes(f.diagram)
    >>> print(made.cod, [[box.name for box in chain] for chain in reshapes])
    [b h d] [['merge[(h d)]']]
    """
    graph = flat.graph
    free = rematerialized(graph, [False] * len(graph.dom))
    ends: list[int] = []
    found: list[list[Box]] = []
    for w in graph.outputs:
        chain = final_reshapes(graph, w)
        moved = (
            k for k, (_, box) in enumerate(chain) if isinstance(box.op, Reindex) or new_names(box.op) or unit_axes(box)
        )
        first = next(moved, len(chain))
        moves = first < len(chain) and not (chain[0][0] < len(graph.dom) or free[chain[0][0]])
        ends.append(chain[first][0] if moves else w)
        found.append([box for _, box in chain[first:]] if moves else [])
    if not any(found):
        return flat, found
    types = graph.wire_types()
    made = reachable(Graph(graph.dom, tuple(graph.nodes), tuple(ends)))
    return of_graph(made, Ty(*(types[w] for w in ends)), flat.names, flat.title), found


def with_final_reshapes(grouped: Diagram, reshapes: Sequence[Sequence[Box]]) -> Diagram:
    """A diagram with its results reshaped again."""
    if not any(reshapes):
        return grouped
    nodes, ends = list(grouped.graph.nodes), list[int]()
    count = len(grouped.graph.wire_types())
    for w, chain in zip(grouped.graph.outputs, reshapes, strict=True):
        for box in chain:
            nodes.append(Node(box, (w,)))
            w, count = count, count + 1
        ends.append(w)
    cod = Ty(*(chain[-1].cod[0] if chain else ty for chain, ty in zip(reshapes, grouped.cod, strict=True)))
    return of_graph(Graph(grouped.graph.dom, tuple(nodes), tuple(ends)), cod, grouped.names, grouped.title)
