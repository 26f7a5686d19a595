"""Any convex part of any program, taken as a rule that changes nothing, is found where it was taken from."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import Diagram, Graph, Node, of_graph, reachable
from catdiag.category.functor import weave
from catdiag.category.ops import SizeOf
from catdiag.category.substitution import inline
from catdiag.category.types import size_symbols
from catdiag.rewrite.matching.subgraph_search import only_layout
from catdiag.rewrite.matching.unify import Unifier, put_sizes
from catdiag.testing import diagrams


def part(graph: Graph, chosen: set[int]) -> Diagram:
    """The boxes at the given places as a diagram: what they read from elsewhere in, what is read elsewhere out."""
    first, count = [], len(graph.dom)
    for node in graph.nodes:
        first.append(count)
        count += len(node.box.cod)
    types = graph.wire_types()
    made = [w for p in sorted(chosen) for w in range(first[p], first[p] + len(graph.nodes[p].box.cod))]
    read = dict.fromkeys(w for p in sorted(chosen) for w in graph.nodes[p].inputs if w not in made)
    outside = {w for p, node in enumerate(graph.nodes) if p not in chosen for w in node.inputs} | set(graph.outputs)
    number = {w: k for k, w in enumerate([*read, *made])}
    nodes = tuple(Node(graph.nodes[p].box, tuple(number[w] for w in graph.nodes[p].inputs)) for p in sorted(chosen))
    outputs = tuple(number[w] for w in made if w in outside)
    return of_graph(Graph(cd.category.Ty(*(types[w] for w in read)), nodes, outputs))


def convex(graph: Graph, chosen: set[int]) -> set[int]:
    """The places with all that lie on paths between them."""
    maker, count = {}, len(graph.dom)
    for p, node in enumerate(graph.nodes):
        maker.update((count + k, p) for k in range(len(node.box.cod)))
        count += len(node.box.cod)
    before = [set() for _ in graph.nodes]
    for p, node in enumerate(graph.nodes):
        for w in node.inputs:
            if w in maker:
                before[p] |= {maker[w]} | before[maker[w]]
    return chosen | {p for p in range(len(graph.nodes)) if before[p] & chosen and any(p in before[q] for q in chosen)}


def renamed(diagram: Diagram) -> Diagram:
    """The diagram with `_z` at the end of the names of its axes and of the symbols of sizes."""
    unifier = Unifier()
    axes = [a for ty in diagram.graph.wire_types() for a in ty.axes]
    for axis in axes:
        unifier.sizes.update((s, f"{s}_z") for s in size_symbols(axis.size))
    for box in diagram.boxes:
        if isinstance(box.op, SizeOf):
            unifier.sizes.update((s, f"{s}_z") for s in size_symbols(box.op.size))
    while axes:
        axis = axes.pop()
        axes += axis.parts
        if axis.name.isidentifier():
            unifier.axes[axis.name] = cd.Axis(f"{axis.name}_z", put_sizes(axis.size, unifier.sizes))
    return unifier.diagram(diagram)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.data())
def test_a_part_of_a_program_is_found_in_it(data: st.DataObject) -> None:
    whole = data.draw(diagrams(max_boxes=7))
    graph = reachable(inline(whole).graph)
    assume(graph.nodes)
    places = st.sets(st.integers(0, len(graph.nodes) - 1), min_size=1, max_size=3)
    chosen = convex(graph, data.draw(places))
    # What has no inputs goes in with what reads it, and what is shared stays out otherwise.
    pattern = part(graph, chosen)
    boxes = [node.box for node in pattern.graph.nodes]
    assume(any(b.dom and not only_layout(b) for b in boxes))
    assume(len(pattern.cod) > 0)
    rule = cd.rule(pattern, pattern, name="nothing")
    flat = of_graph(graph, whole.cod, whole.names, "whole")
    assert rule.matches(flat), rule.explain(flat)
    done = rule.apply(flat)
    assert done.diagram.cod == whole.cod
    assert not done.theorem.conditional
    # And in the program weaved over one more axis, by some of its inputs.
    woven = weave(flat, "extra", data.draw(st.sets(st.integers(0, len(whole.dom) - 1))))
    assert rule.matches(woven), rule.explain(woven)
    assert not rule.apply(woven).theorem.conditional
    # With the axes of the rule under other names.
    other = renamed(pattern)
    again = cd.rule(other, other, name="renamed")
    assert again.matches(woven), again.explain(woven)
    assert not again.apply(woven).theorem.conditional
