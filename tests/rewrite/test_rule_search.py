"""Where a pattern occurs: against a search that tries every way, and the conditions one by one."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import Graph, Node, box, diagram_of
from catdiag.category.ops import Box, Generic
from catdiag.rewrite.matching.subgraph_search import PatternSearch, Variables, Wiring

X = cd.category.ArrayType((cd.Axis("x"),))
BOXES = [
    Box(Generic("f"), cd.category.Ty(X), cd.category.Ty(X)),
    Box(Generic("g"), X @ X, cd.category.Ty(X)),
    Box(Generic("h"), cd.category.Ty(X), X @ X),
    Box(Generic("c"), cd.category.Ty(), cd.category.Ty(X)),
]


@st.composite
def graphs(draw: st.DrawFn, boxes: int, inputs: int = 2) -> Graph:
    count, nodes = inputs, []
    for _ in range(draw(st.integers(1, boxes))):
        made = draw(st.sampled_from(BOXES))
        nodes.append(Node(made, tuple(draw(st.integers(0, count - 1)) for _ in made.dom)))
        count += len(made.cod)
    outputs = draw(st.lists(st.integers(0, count - 1), max_size=3))
    return Graph(cd.category.Ty(*[X] * inputs), tuple(nodes), tuple(outputs))


@st.composite
def patterns(draw: st.DrawFn, site: Graph) -> Graph:
    """Some boxes of a graph as a pattern of their own; what is read elsewhere is an output, or wrongly is none."""
    chosen = sorted(draw(st.sets(st.integers(0, len(site.nodes) - 1), min_size=1, max_size=3)))
    first, count = [], len(site.dom)
    for node in site.nodes:
        first.append(count)
        count += len(node.box.cod)
    inside = {first[p] + k: (n, k) for n, p in enumerate(chosen) for k in range(len(site.nodes[p].box.cod))}
    outside = sorted({w for p in chosen for w in site.nodes[p].inputs if w not in inside})
    start, total = [], len(outside)
    for p in chosen:
        start.append(total)
        total += len(site.nodes[p].box.cod)
    where = {w: k for k, w in enumerate(outside)} | {w: start[n] + k for w, (n, k) in inside.items()}
    nodes = tuple(Node(site.nodes[p].box, tuple(where[w] for w in site.nodes[p].inputs)) for p in chosen)
    readers = {w for p, node in enumerate(site.nodes) if p not in chosen for w in node.inputs} | set(site.outputs)
    gives = [where[w] for w in inside if (w in readers) != draw(st.sampled_from([False, False, False, True]))]
    return Graph(cd.category.Ty(*[X] * len(outside)), nodes, tuple(gives))


def by_trying(pattern: Graph, site: Graph) -> set[frozenset[int]]:
    """The sets of places of occurrences, found by trying every injective map of boxes to boxes."""
    found = set()
    p_first, s_first = [], []
    for graph, first in ((pattern, p_first), (site, s_first)):
        count = len(graph.dom)
        for node in graph.nodes:
            first.append(count)
            count += len(node.box.cod)
    constant = {s_first[k]: n.box for k, n in enumerate(site.nodes) if not n.inputs}
    p_constant = {p_first[k]: n.box for k, n in enumerate(pattern.nodes) if not n.inputs}
    after = [set() for _ in site.nodes]  # the places that are reached from a place
    for p in reversed(range(len(site.nodes))):
        mine = set(range(s_first[p], s_first[p] + len(site.nodes[p].box.cod)))
        for q, other in enumerate(site.nodes):
            if mine & set(other.inputs):
                after[p] |= {q} | after[q]
    real = [k for k, node in enumerate(pattern.nodes) if node.inputs]
    if not set(p_constant.values()) <= set(constant.values()):
        return set()
    for places in permutations(range(len(site.nodes)), len(real)):
        at = dict(zip(real, places, strict=True))
        if any(site.nodes[at[k]].box != pattern.nodes[k].box for k in real):
            continue
        wires: dict[int, object] = {}

        def says(w: int, own: int, wires: dict[int, object] = wires) -> bool:
            value = ("constant", constant[own]) if own in constant else own
            if w in p_constant:
                return value == ("constant", p_constant[w])
            return wires.setdefault(w, value) == value

        inner = {
            p_first[k] + port: s_first[at[k]] + port for k in real for port in range(len(pattern.nodes[k].box.cod))
        }
        good = all(says(w, own) for w, own in inner.items())
        good = good and all(
            says(w, own) for k in real for w, own in zip(pattern.nodes[k].inputs, site.nodes[at[k]].inputs, strict=True)
        )
        used = set(places)
        for w, own in inner.items():
            outer = [q for q, node in enumerate(site.nodes) if own in node.inputs and q not in used]
            good = good and (w in pattern.outputs or not (outer or own in site.outputs))
        # Wires between the boxes of the occurrence are those of the pattern.
        between = {
            (own, q, k) for own in inner.values() for q in used for k, v in enumerate(site.nodes[q].inputs) if v == own
        }
        said = {(inner[w], at[k], j) for k in real for j, w in enumerate(pattern.nodes[k].inputs) if w in inner}
        good = good and between == said
        # A path out of the occurrence and back goes through a box outside.
        good = good and not any(after[q] & used for p in used for q in after[p] - used if q not in used)
        if good:
            found.add(frozenset(places))
    return found


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.data())
def test_as_trying_every_way_finds(data: st.DataObject) -> None:
    site = data.draw(graphs(7))
    pattern = data.draw(patterns(site)) if data.draw(st.booleans()) else data.draw(graphs(3))
    if not any(node.inputs for node in pattern.nodes):
        return
    search = PatternSearch(Wiring(pattern, [f"in{k}" for k in range(len(pattern.dom))]), Wiring(site))
    mine = {
        frozenset(p for k, p in enumerate(found.places) if pattern.nodes[k].inputs) for found in search.occurrences()
    }
    assert mine == by_trying(pattern, site)


def matches(lhs: cd.category.Diagram, diagram: cd.category.Diagram) -> int:
    one, other = diagram_of(lhs), diagram_of(diagram)
    search, count = PatternSearch(Wiring(one.graph, one.input_names), Wiring(other.graph)), 0
    for found in search.occurrences():
        search.settle(found)
        count += 1
    return count


f, g, h = box("f", X, X), box("g", X, X), box("h", X @ X, X)


def test_a_path_through_the_outside_is_no_match() -> None:
    beside = f @ g
    assert matches(beside, cd.copy(X) >> f @ g) == 1
    # g reads what becomes of f's result.
    assert matches(beside, f >> g) == 0
    assert matches(beside, f >> box("k", X, X) >> g) == 0
    assert matches(beside, f @ cd.id(X) >> h >> g) == 0


def test_a_wire_inside_is_read_inside_only() -> None:
    assert matches(f >> g, f >> g) == 1
    assert matches(f >> g, f >> cd.copy(X) >> g @ f) == 0
    assert matches(f >> g, f >> cd.copy(X) >> g @ cd.id(X)) == 0
    # As an output of the pattern it may be.
    both = f >> cd.copy(X) >> g @ cd.id(X)
    assert matches(both, both) == 1
    assert matches(both, f >> g) == 1


def test_inputs_used_twice_and_not_at_all() -> None:
    assert matches(cd.copy(X) >> h, cd.copy(X) >> h) == 1
    assert matches(cd.copy(X) >> h, f @ f >> h) == 0
    assert matches(h, cd.copy(X) >> h) == 1
    assert matches(f @ cd.discard(X), f) == 1


def test_symmetries_make_no_difference() -> None:
    assert matches(f @ g, cd.swap(X, X) >> g @ f) == 1
    assert matches(f @ f, f @ f) == 1  # the two ways to say so are one match


def test_too_much_work_is_said() -> None:
    many = cd.id(X)
    for _ in range(8):
        many = many @ f
    search = PatternSearch(Wiring((f @ f @ f @ f @ f).graph), Wiring(many.diagram.graph), Variables(), work=1000)
    with pytest.raises(cd.errors.MatchUndecided, match="too much work"):
        list(search.occurrences())


def test_ten_thousand_boxes_in_linear_time() -> None:
    chain = cd.id(X)
    for k in range(10_000):
        chain = chain >> (f if k % 10 else g)
    search = PatternSearch(Wiring((g >> f).graph), Wiring(chain.diagram.graph))
    assert len(list(search.occurrences())) == 1000
    assert search.work > 2_000_000 - 40_000
