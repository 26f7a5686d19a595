"""Hierarchies: graphs of levels, and what is wrong with one."""

import dataclasses
import pickle

import pytest

import catdiag as cd
from catdiag.chip.hierarchy import Edge, Hierarchy, Level

TOP, NEAR, FAST = Level("HBM", None), Level("SMEM", 1024, count=4), Level("registers", 256, count=2)


def test_a_graph_with_two_ways_down():
    graph = Hierarchy(
        "two ways",
        (TOP, NEAR, FAST),
        (Edge("HBM", "SMEM", 10.0, 2.0), Edge("SMEM", "registers", 40.0, 1.0), Edge("HBM", "registers", 5.0)),
    )
    assert graph.paths("HBM", "registers") == (("HBM", "registers"), ("HBM", "SMEM", "registers"))
    assert graph.paths("registers", "HBM") == () and graph.root is TOP
    direct = graph.chain("HBM", "registers")
    assert direct.edges == (Edge("HBM", "registers", 10.0, 3.0),), "the way of most bandwidth"
    assert direct.level("registers").count == 8
    assert graph.chain("HBM", "SMEM", "registers").levels == (TOP, NEAR, FAST)
    assert pickle.loads(pickle.dumps(graph)) == graph and hash(graph) == hash(dataclasses.replace(graph))


def test_what_is_unknown_stays_unknown():
    graph = Hierarchy("x", (TOP, NEAR, FAST), (Edge("HBM", "SMEM", None), Edge("SMEM", "registers", 4.0, 1.0)))
    assert graph.chain("HBM", "registers").edges == (Edge("HBM", "registers", None),)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Level("", 1), "empty name"),
        (lambda: Level("L2", 0), "capacity 0: expected a positive integer of bytes, or None"),
        (lambda: Level("L2", 1.5), "capacity 1.5"),
        (lambda: Level("L2", 1, count=0), "count 0"),
        (lambda: Level("L2", 1, "caché"), "expected 'scratchpad' or 'cache'"),
        (lambda: Edge("L2", "L2", 1.0), "to itself"),
        (lambda: Edge("HBM", "L2", -1.0), "bandwidth -1.0"),
        (lambda: Edge("HBM", "L2", 1.0, -1.0), "energy -1.0"),
        (lambda: Hierarchy("h", (TOP, TOP), ()), "two levels 'HBM'"),
        (lambda: Hierarchy("h", (TOP,), (Edge("HBM", "L2", 1.0),)), "names level 'L2'; its levels are HBM"),
        (lambda: Hierarchy("h", (TOP, NEAR), (Edge("HBM", "SMEM", 1.0),) * 2), "two edges HBM to SMEM"),
        (lambda: Hierarchy("h", (TOP, NEAR), (Edge("HBM", "SMEM", 1.0), Edge("SMEM", "HBM", 1.0))), "cycle among"),
        (lambda: Hierarchy("h", (TOP, NEAR), ()).level("L3"), "no level 'L3': its levels are HBM, SMEM"),
        (lambda: Hierarchy("h", (TOP, NEAR), ()).edge("HBM", "SMEM"), "no edge HBM to SMEM: its edges are none"),
        (lambda: Hierarchy("h", (TOP, NEAR), ()).chain("HBM", "SMEM"), "there is no path from 'HBM' down to 'SMEM'"),
    ],
)
def test_what_is_wrong_is_said(make, message):
    with pytest.raises(cd.errors.CatdiagError, match=message):
        make()
