"""Graphs under construction: what is written is what composition makes."""

from hypothesis import given

from catdiag.category.diagram import needed, of_graph, reachable
from catdiag.category.graph_writer import GraphWriter, part_of
from tests.category.test_category_laws import composable, diagrams, quick


@quick
@given(composable(2))
def test_one_graph_after_another_is_their_composite(fg):
    f, g = fg
    writer = GraphWriter(f.dom)
    ends = writer.put(g.graph, writer.put(f.graph, range(len(f.dom))))
    assert of_graph(writer.graph(ends)) == f >> g
    assert writer.types == writer.graph(ends).wire_types()


@quick
@given(diagrams())
def test_shared_boxes_are_one(f):
    inputs = range(len(f.dom))
    writer = GraphWriter(f.dom, shared=True)
    once = writer.put(f.graph, inputs)
    count = len(writer.nodes)
    assert writer.put(f.graph, inputs) == once and len(writer.nodes) == count
    separate = GraphWriter(f.dom)
    assert len({*separate.put(f.graph, inputs), *separate.put(f.graph, inputs)}) >= len(set(once))
    assert len(separate.nodes) == 2 * len(f.graph.nodes)


@quick
@given(diagrams())
def test_a_part_is_the_boxes_that_its_outputs_need(f):
    graph = f.graph
    places = sorted(needed(graph, graph.outputs))
    part = part_of(graph, places, range(len(f.dom)), graph.outputs)
    assert part == reachable(graph)
    assert all(node.box in {graph.nodes[p].box for p in places} for node in part.nodes)


@quick
@given(diagrams())
def test_what_a_box_needs_without_it_is_less(f):
    graph = f.graph
    every = needed(graph, graph.outputs)
    for place in every:
        left = needed(graph, graph.outputs, place)
        assert left <= every - {place}
