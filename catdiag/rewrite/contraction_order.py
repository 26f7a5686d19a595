"""Contraction order: sums of products of three or more arrays as contractions of two arrays each, with the fewest
multiplications.

`Σ_b,c A[a b] · B[b c] · C[c d]` as one box multiplies a·b·c·d times. As (A·B)·C it is two matrix products of a·b·c and
a·c·d multiplications. The best order depends on the sizes. It is found by dynamic programming over the subsets of the
factors. The equation of the result is proved elsewhere, as for any rewrite.

>>> import catdiag as cd
>>> chain = cd.algorithm("a b, b c, c d -> a d")(lambda A, B, C: cd.einsum("a b, b c, c d -> a d", A, B, C))
>>> def pairs(**sizes):
...     return [str(box.cod) for box in pairwise(chain, sizes).boxes]
>>> pairs(a=4, b=4, c=4, d=99), pairs(a=99, b=4, c=4, d=4)
(['[a c]', '[a d]'], ['[b d]', '[a d]'])
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from catdiag.category.diagram import Diagram, Graph, Node, of_graph
from catdiag.category.ops import Box, Einsum, einsum_box
from catdiag.category.types import ArrayType, size_value

MOST = 8
"""The most factors of one product: the search goes over all subsets of them."""


def pairwise(diagram: Diagram, sizes: Mapping[str, int]) -> Diagram:
    """The diagram with each contraction of three or more arrays as contractions of two; the same diagram where there is
    none.

    Named boxes, loops and groups are left as they are. Raises SizeError for an axis of such a product without a size.
    """
    graph = diagram.graph
    if not any(_has_many_factors(node.box) for node in graph.nodes):
        return diagram
    nodes: list[Node] = []
    moved = list(range(len(graph.dom)))
    count = len(moved)
    for node in graph.nodes:
        inputs = [moved[w] for w in node.inputs]
        boxes = [(node.box, tuple(inputs))]
        if _has_many_factors(node.box):
            boxes = list(_paired(node.box, inputs, count, sizes))
        nodes += [Node(box, wires) for box, wires in boxes]
        count += len(boxes) - 1
        moved.extend(range(count, count + len(node.box.cod)))
        count += len(node.box.cod)
    made = Graph(graph.dom, tuple(nodes), tuple(moved[w] for w in graph.outputs))
    return of_graph(made, diagram.cod, diagram.names, diagram.title)


def _has_many_factors(box: Box) -> bool:
    return isinstance(box.op, Einsum) and 2 < len(box.dom) <= MOST


def _paired(
    box: Box, wires: Sequence[int], first: int, sizes: Mapping[str, int]
) -> Iterator[tuple[Box, tuple[int, int]]]:
    """The boxes of the best order, each with its input wires; the wires that they make are numbered from `first` on."""
    known = {a.name: size_value(a.size, sizes) for ty in box.dom for a in ty.axes}
    made: dict[int, tuple[ArrayType, int]] = {1 << k: (ty, wires[k]) for k, ty in enumerate(box.dom)}
    for left, right in _order([frozenset(ty.names) for ty in box.dom], frozenset(box.cod[0].names), known):
        (a, first_wire), (b, second_wire) = made[left], made[right]
        whole = (1 << len(box.dom)) - 1 == left | right
        names = box.cod[0].names if whole else _remaining_axes(box, left | right, (*a.names, *b.names))
        pair = einsum_box((a, b), names, box.line)
        yield pair, (first_wire, second_wire)
        made[left | right] = pair.cod[0], first
        first += 1


def _remaining_axes(box: Box, taken: int, names: Sequence[str]) -> list[str]:
    """Those axes of the factors in `taken` (a bit set) that the other factors or the result still need."""
    rest = {n for k, ty in enumerate(box.dom) if not taken >> k & 1 for n in ty.names} | set(box.cod[0].names)
    return [n for n in dict.fromkeys(names) if n in rest]


def _order(arrays: Sequence[frozenset[str]], result: frozenset[str], sizes: Mapping[str, int]) -> list[tuple[int, int]]:
    """The pairs of factors (as bit sets) to contract, in order: one order with the fewest multiplications."""
    count = len(arrays)
    everything = (1 << count) - 1

    def axes(taken: int) -> frozenset[str]:
        own = frozenset[str]().union(*(a for k, a in enumerate(arrays) if taken >> k & 1))
        rest = result.union(*(a for k, a in enumerate(arrays) if not taken >> k & 1))
        return own if taken & (taken - 1) == 0 else own & rest

    kept = [axes(taken) for taken in range(everything + 1)]
    # By number of bits, so that subsets come first; of equally good splits the first is taken.
    best: dict[int, tuple[int, int]] = {1 << k: (0, 0) for k in range(count)}
    for taken in sorted(range(1, everything + 1), key=lambda t: (t.bit_count(), t)):
        if taken in best:
            continue
        lowest = taken & -taken
        options = []
        part = (taken - 1) & taken
        while part:
            if part & lowest:
                rest = taken ^ part
                work = math.prod(sizes[n] for n in kept[part] | kept[rest])
                options.append((best[part][0] + best[rest][0] + work, part))
            part = (part - 1) & taken
        best[taken] = min(options)
    pairs: list[tuple[int, int]] = []
    todo = [everything]
    while todo:
        taken = todo.pop()
        part = best[taken][1]
        if part:
            pairs.append((part, taken ^ part))
            todo += [part, taken ^ part]
    return sorted(pairs, key=lambda p: ((p[0] | p[1]).bit_count(), p))
