"""Equality of what reaches no output: graphs encoded as diagrams, compared with a search over permutations."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catdiag.category.diagram import Diagram, Graph, Node, box, copy, discard, id, of_graph
from catdiag.category.ops import Box, Call, Generic
from catdiag.category.types import ArrayType, Axis, Ty
from catdiag.util.errors import EqualityUndecided

X = Ty(ArrayType())
VERTEX = Box(Generic("vertex"), Ty(), X)
FED = Box(Generic("vertex"), X, X)
EDGE = Box(Generic("edge"), X @ X, Ty())
END = Box(Generic("end"), X, Ty())
STEP = Box(Generic("step"), X, X)
PAIR = Box(Generic("pair"), X @ X, X @ X)


UNIT = Ty()


def flat(nodes: list[Node], dom: Ty = UNIT, outputs: tuple[int, ...] = ()) -> Diagram:
    return of_graph(Graph(dom, tuple(nodes), outputs))


def encode(vertices: int, edges: list[tuple[int, int]], seed: int, fed: bool = False, both: bool = True) -> Diagram:
    """A graph as a closed diagram, shuffled: vertices are copies of one box, edges are boxes that read two."""
    shuffle = random.Random(seed)
    place = list(range(vertices))
    shuffle.shuffle(place)
    pairs = [(place[a], place[b]) for a, b in edges]
    if both:
        pairs += [(b, a) for a, b in pairs]
    shuffle.shuffle(pairs)
    base = int(fed)
    nodes = [Node(FED, (0,)) if fed else Node(VERTEX, ())] * vertices
    return flat(nodes + [Node(EDGE, (a + base, b + base)) for a, b in pairs], X if fed else Ty())


PAIRS16 = [(a, b) for a in range(16) for b in range(a)]
ROOK = [(a, b) for a, b in PAIRS16 if a // 4 == b // 4 or a % 4 == b % 4]
STEPS = {(0, 1), (0, 3), (1, 0), (3, 0), (1, 1), (3, 3)}
SHRIKHANDE = [(a, b) for a, b in PAIRS16 if ((a // 4 - b // 4) % 4, (a % 4 - b % 4) % 4) in STEPS]


@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_rook_and_shrikhande(fed, seed):
    """Strongly regular with the same parameters, so that refinement alone sees no difference."""
    assert len(ROOK) == len(SHRIKHANDE) == 48
    rook, shrikhande = encode(16, ROOK, seed, fed), encode(16, SHRIKHANDE, seed, fed)
    assert rook == encode(16, ROOK, seed + 10, fed)
    assert shrikhande == encode(16, SHRIKHANDE, seed + 20, fed)
    assert rook != shrikhande
    assert hash(rook) == hash(encode(16, ROOK, seed + 10, fed))


def test_a_part_reading_a_live_wire_is_not_one_reading_the_input():
    f = box("f", X, X)
    end = box("end", X, Ty())
    assert copy(X) >> (f @ end) != copy(X) >> (id(X) @ end) >> f >> copy(X) >> (id(X) @ discard(X)) >> id(X) @ box(
        "end", Ty(), Ty()
    )
    before, after = copy(X) >> (f @ end), f >> copy(X) >> (id(X) @ end)
    assert before != after
    assert before == copy(X) >> (end @ id(X)) >> f
    assert after == f >> copy(X) >> (end @ id(X))


def test_which_input_and_which_output_a_dead_box_uses_matters():
    v, pair = Node(VERTEX, ()), Node(PAIR, (0, 1))
    straight = flat([v, Node(STEP, (0,)), pair, Node(END, (2,))])
    assert straight == flat([v, Node(STEP, (0,)), pair, Node(END, (2,))])
    assert straight != flat([v, Node(STEP, (0,)), pair, Node(END, (3,))])
    assert straight != flat([v, Node(STEP, (0,)), Node(PAIR, (1, 0)), Node(END, (2,))])
    live = flat([Node(PAIR, (0, 1)), Node(END, (2,))], X @ X, (2,))
    assert live != flat([Node(PAIR, (0, 1)), Node(END, (3,))], X @ X, (2,))
    assert flat([Node(END, (0,))], X @ X) != flat([Node(END, (1,))], X @ X)


def cycles(*lengths: int) -> tuple[int, list[tuple[int, int]]]:
    edges, start = [], 0
    for length in lengths:
        edges += [(start + k, start + (k + 1) % length) for k in range(length)]
        start += length
    return start, edges


def test_components_are_compared_as_a_multiset():
    assert encode(*cycles(6), 1) != encode(*cycles(3, 3), 2)
    assert encode(*cycles(3, 6, 5, 3), 1) == encode(*cycles(5, 3, 3, 6), 2)
    assert encode(*cycles(4, 4, 8), 1) != encode(*cycles(4, 6, 6), 2)
    rooks = [(a + 16 * k, b + 16 * k) for k in range(6) for a, b in ROOK]
    mixed = [(a + 16 * k, b + 16 * k) for k in range(6) for a, b in (SHRIKHANDE if k == 3 else ROOK)]
    assert encode(96, rooks, 1) == encode(96, rooks, 2)
    assert encode(96, mixed, 1) == encode(96, mixed, 2)
    assert encode(96, rooks, 1) != encode(96, mixed, 2)


def cubic(vertices: int, seed: int) -> list[tuple[int, int]]:
    shuffle = random.Random(seed)
    while True:
        ends = [k for k in range(vertices) for _ in range(3)]
        shuffle.shuffle(ends)
        edges = list(zip(ends[::2], ends[1::2], strict=True))
        if all(a != b for a, b in edges):
            return edges


def test_random_cubic_graphs():
    for seed in range(5):
        edges = cubic(60, seed)
        assert encode(60, edges, 1) == encode(60, edges, 2)
        assert encode(60, edges, 1) != encode(60, cubic(60, seed + 100), 2)


def test_too_much_work_is_an_error_and_not_an_answer(monkeypatch):
    monkeypatch.setattr("catdiag.category.equality.WORK", 1000)
    with pytest.raises(EqualityUndecided, match="matching them takes too much work"):
        assert encode(16, ROOK, 1) == encode(16, SHRIKHANDE, 2)


# -- against a search over all permutations ---------------------------------------------------------------

KINDS = [VERTEX, VERTEX, FED, STEP, EDGE, PAIR, END, Box(Generic("loose"), X @ X, X)]


@st.composite
def small(draw) -> Diagram:
    """A diagram of up to six boxes over one input, of which at most one reaches the output."""
    nodes: list[Node] = []
    wires = 1
    for _ in range(draw(st.integers(0, 6))):
        b = draw(st.sampled_from(KINDS))
        nodes.append(Node(b, tuple(draw(st.integers(0, wires - 1)) for _ in b.dom)))
        wires += len(b.cod)
    return flat(nodes, X, (draw(st.integers(0, min(1, wires - 1))),))


def brute(f: Diagram, g: Diagram) -> bool:
    """Whether some bijection of nodes keeps boxes, inputs and outputs."""

    def described(d: Diagram) -> tuple[list[tuple[int, int]], list[Node]]:
        ports = [(-1, k) for k in range(len(d.dom))]
        for place, node in enumerate(d.graph.nodes):
            ports += [(place, k) for k in range(len(node.box.cod))]
        return ports, list(d.graph.nodes)

    (p, mine), (q, theirs) = described(f), described(g)
    if len(mine) != len(theirs):
        return False

    def moved(order: tuple[int, ...], port: tuple[int, int]) -> tuple[int, int]:
        return port if port[0] < 0 else (order[port[0]], port[1])

    return any(
        all(
            mine[k].box == theirs[order[k]].box
            and [moved(order, p[w]) for w in mine[k].inputs] == [q[w] for w in theirs[order[k]].inputs]
            for k in range(len(mine))
        )
        and [moved(order, p[w]) for w in f.graph.outputs] == [q[w] for w in g.graph.outputs]
        for order in itertools.permutations(range(len(mine)))
    )


@settings(max_examples=200, deadline=None)
@given(small(), small())
def test_equality_is_isomorphism(f, g):
    assert (f == g) == brute(f, g)
    assert f == of_graph(f.graph)


@settings(max_examples=150, deadline=None)
@given(st.integers(2, 4), st.integers(1, 3), st.data())
def test_equality_of_encoded_graphs_is_isomorphism(vertices, count, data):
    pair = st.tuples(st.integers(0, vertices - 1), st.integers(0, vertices - 1))
    one = data.draw(st.lists(pair, min_size=count, max_size=count))
    other = data.draw(st.lists(pair, min_size=count, max_size=count))
    f, g = (encode(vertices, e, 0, both=False) for e in (one, other))
    assert (f == g) == brute(f, g)
    if f == g:
        assert hash(f) == hash(g)


# -- bodies -----------------------------------------------------------------------------------------------


def test_bodies_are_compared_as_diagrams():
    f, g = box("f", X, X), box("g", X, X)

    def nested(d: Diagram) -> Diagram:
        return of_graph(Graph(X, (Node(Box(Call("outer", d), X, X), (0,)),), (1,)))

    one, other = (f @ id(X)) >> (id(X) @ g), (id(X) @ g) >> (f @ id(X))
    join = box("join", X @ X, X)
    assert nested(copy(X) >> one >> join) == nested(copy(X) >> other >> join)
    assert hash(nested(copy(X) >> one >> join)) == hash(nested(copy(X) >> other >> join))
    assert nested(f >> g) != nested(g >> f)
    dead = [of_graph(Graph(X, (Node(Box(Call("outer", d), X, X), (0,)),), ())) for d in (f >> g, f >> g, g >> f)]
    assert dead[0] == dead[1] != dead[2]
    rook, again, shrikhande = (
        of_graph(Graph(Ty(), (Node(Box(Call("graph", encode(16, e, s)), Ty(), Ty()), ()),), ()))
        for e, s in ((ROOK, 1), (ROOK, 2), (SHRIKHANDE, 3))
    )
    assert rook == again != shrikhande


def test_types_of_dead_boxes_count():
    Y = Ty(ArrayType((Axis("y"),)))
    assert box("f", Ty(), X) >> discard(X) != box("f", Ty(), Y) >> discard(Y)
