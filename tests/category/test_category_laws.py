"""The laws of a symmetric monoidal category with copying, on random diagrams of uninterpreted boxes."""

import functools
import pickle
from fractions import Fraction

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from catdiag.category.box_types import check
from catdiag.category.diagram import *  # noqa: F403
from catdiag.category.diagram import Diagram, Graph, Node, box, copy, discard, id, of_graph, swap, wiring
from catdiag.category.functor import broadcast, interpret, weave
from catdiag.category.ops import *  # noqa: F403
from catdiag.category.ops import Box, Const, Generic, Map, Reduce, SizeOf
from catdiag.category.substitution import call, inline
from catdiag.category.types import *  # noqa: F403
from catdiag.category.types import ArrayType, Axis, Ty

WIRES = [ArrayType((Axis("x"),)), ArrayType((Axis("x"), Axis("y", 3))), ArrayType((), "bool")]
quick = settings(max_examples=60, deadline=None)


# A strategy that is made in each draw costs more than what is drawn.
KINDS = {loose: st.sampled_from(["box", "box", "copy", "swap", "call", *(["discard"] if loose else [])])
         for loose in (False, True)}  # fmt: skip
LETTERS = st.sampled_from("fgh")


@functools.cache
def objects(least: int = 0) -> st.SearchStrategy[Ty]:
    return st.lists(st.sampled_from(WIRES), min_size=least, max_size=3).map(lambda arrays: Ty(*arrays))


@st.composite
def diagrams(draw, dom: Ty | None = None, cod: Ty | None = None, nullary: bool = True, loose: bool = True) -> Diagram:
    """A diagram of a few boxes: `nullary` allows boxes without inputs, `loose` discarding."""
    d = id(draw(objects()) if dom is None else dom)
    for _ in range(draw(st.integers(0, 5))):
        width = len(d.cod)
        start = draw(st.integers(0, width))
        stop = draw(st.integers(start, min(width, start + 2)))
        left, here, right = d.cod[:start], d.cod[start:stop], d.cod[stop:]
        what = draw(KINDS[loose])
        if what in ("box", "call"):
            if not len(here) and not nullary:
                continue
            step = box(draw(LETTERS), here, draw(objects(0 if loose else 1)))
            if what == "call":
                step = call("named", step)
        elif what == "copy":
            step = copy(here)
        elif what == "discard":
            step = discard(here)
        else:
            step = swap(here[:1], here[1:])
        d = d >> (id(left) @ step @ id(right))
    return d if cod is None else d >> box("end", d.cod, cod)


@st.composite
def composable(draw, count: int) -> list[Diagram]:
    found: list[Diagram] = []
    for _ in range(count):
        found.append(draw(diagrams(dom=found[-1].cod if found else None)))
    return found


@quick
@given(composable(3))
def test_category(fgh):
    f, g, h = fgh
    assert id(f.dom) >> f == f == f >> id(f.cod)
    assert (f >> g) >> h == f >> (g >> h)
    assert hash((f >> g) >> h) == hash(f >> (g >> h))
    check((f >> g) >> h)


@quick
@given(diagrams(), diagrams(), diagrams())
def test_monoidal(f, g, h):
    assert (f @ g) @ h == f @ (g @ h)
    assert f @ id(Ty()) == f == id(Ty()) @ f
    assert id(f.dom @ g.dom) == id(f.dom) @ id(g.dom)
    assert hash((f @ g) @ h) == hash(f @ (g @ h))


@quick
@given(composable(2), composable(2))
def test_interchange(fh, gk):
    (f, h), (g, k) = fh, gk
    both = (f @ g) >> (h @ k)
    assert both == (f >> h) @ (g >> k)
    assert both == (f @ id(g.dom)) >> (id(f.cod) @ g) >> (id(f.cod) @ k) >> (h @ id(k.cod))
    assert hash(both) == hash((f >> h) @ (g >> k))


@quick
@given(diagrams(), diagrams(), objects(), objects(), objects())
def test_symmetry(f, g, a, b, c):
    assert (f @ g) >> swap(f.cod, g.cod) == swap(f.dom, g.dom) >> (g @ f)
    assert swap(a, b) >> swap(b, a) == id(a @ b)
    assert swap(a, b @ c) == (swap(a, b) @ id(c)) >> (id(b) @ swap(a, c))
    assert swap(a @ b, c) == (id(a) @ swap(b, c)) >> (swap(a, c) @ id(b))
    assert swap(a, Ty()) == id(a) == swap(Ty(), a)


@quick
@given(objects(), objects())
def test_comonoid(a, b):
    assert copy(a) >> (copy(a) @ id(a)) == copy(a) >> (id(a) @ copy(a)) == copy(a, 3)
    assert copy(a) >> (discard(a) @ id(a)) == id(a) == copy(a) >> (id(a) @ discard(a))
    assert copy(a) >> swap(a, a) == copy(a)
    assert copy(a @ b) == (copy(a) @ copy(b)) >> (id(a) @ swap(a, b) @ id(b))
    assert discard(a @ b) == discard(a) @ discard(b)
    assert copy(Ty()) == id(Ty()) == discard(Ty())


@quick
@given(diagrams())
def test_copying_and_discarding_are_not_natural(f):
    assume(len(f) > 0)
    assert f >> copy(f.cod) != copy(f.dom) >> (f @ f)
    assert f >> discard(f.cod) != discard(f.dom)


@quick
@given(diagrams(), st.randoms(use_true_random=False))
def test_equality_sees_no_order_of_nodes_and_every_box(f, random):
    graph = f.graph
    ports: list[tuple[int, int]] = [(-1, k) for k in range(len(graph.dom))]
    for place, node in enumerate(graph.nodes):
        ports += [(place, k) for k in range(len(node.box.cod))]
    left, wires, nodes = set(range(len(graph.nodes))), {(-1, k): k for k in range(len(graph.dom))}, []
    while left:  # any order in which each node comes after those it reads
        ready = sorted(p for p in left if all(ports[w] in wires for w in graph.nodes[p].inputs))
        place = random.choice(ready)
        left.remove(place)
        node = graph.nodes[place]
        nodes.append(Node(node.box, tuple(wires[ports[w]] for w in node.inputs)))
        wires.update({(place, k): len(wires) + k for k in range(len(node.box.cod))})
    g = of_graph(Graph(graph.dom, tuple(nodes), tuple(wires[ports[w]] for w in graph.outputs)))
    assert f == g
    assert hash(f) == hash(g)
    if nodes:
        k = random.randrange(len(nodes))
        b = nodes[k].box
        nodes[k] = Node(Box(Generic("other"), b.dom, b.cod), nodes[k].inputs)
        assert f != of_graph(Graph(graph.dom, tuple(nodes), g.graph.outputs))


@quick
@given(diagrams())
def test_repr_and_pickle_give_the_diagram_back(f):
    assert eval(repr(f)) == f
    again = pickle.loads(pickle.dumps(f))
    assert again == f and hash(again) == hash(f)


def test_repr_gives_names_operations_and_numbers_back():
    x = Axis("x")
    X, Y = ArrayType((x,)), ArrayType((x * Axis("n", 4), Axis("r") + x), "extended")
    for b in (
        Box(Map("exp"), Ty(X), Ty(X)),
        Box(Const(Fraction(1, 3)), Ty(), Ty(ArrayType())),
        Box(Const(None), Ty(), Ty(Y)),
        Box(SizeOf(("*", "x", 2)), Ty(), Ty(ArrayType((), "int"))),
        Box(Reduce("sum", "x"), Ty(X), Ty(ArrayType())),
    ):
        assert eval(repr(b)) == b
    named = of_graph(box("f", X, Y).graph, names=("A",), title="program")
    again = eval(repr(named))
    assert (again, again.names, again.title) == (named, ("A",), "program")
    assert eval(repr(swap(X, Y))) == swap(X, Y)


# -- readings -----------------------------------------------------------------------------------------


def tagged(b: Box, values: tuple) -> list:
    """An action: a term for each output."""
    return [(b.op.name, k, values) for k in range(len(b.cod))]


def tokens(ty: Ty, tag: str) -> list:
    return [(tag, k) for k in range(len(ty))]


@quick
@given(composable(2), diagrams())
def test_a_reading_is_a_functor(fg, h):
    f, g = fg
    v, w = tokens(f.dom, "v"), tokens(h.dom, "w")
    assert interpret(f >> g, v, tagged) == interpret(g, interpret(f, v, tagged), tagged)
    assert interpret(f @ h, v + w, tagged) == interpret(f, v, tagged) + interpret(h, w, tagged)
    assert interpret(id(f.dom), v, tagged) == tuple(v)
    assert interpret(swap(f.dom, h.dom), v + w, tagged) == (*w, *v)
    assert interpret(copy(f.dom), v, tagged) == (*v, *v)
    assert interpret(discard(f.dom), v, tagged) == ()


@quick
@given(diagrams())
def test_a_pure_reading_cannot_tell_a_copy_from_a_second_run(f):
    v = tokens(f.dom, "v")
    assert interpret(f >> copy(f.cod), v, tagged) == interpret(copy(f.dom) >> (f @ f), v, tagged)


@quick
@given(composable(2), diagrams())
def test_types_are_a_reading(fg, h):
    def action(b: Box, types: tuple[ArrayType, ...]) -> Ty:
        assert Ty(*types) == b.dom
        return b.cod

    whole = (fg[0] >> fg[1]) @ h
    assert Ty(*interpret(whole, list(whole.dom), action)) == whole.cod


@quick
@given(composable(2), diagrams())
def test_counting_is_a_functor_on_the_monoidal_category_only(fg, h):
    def count(d: Diagram) -> int:
        ran: list[Box] = []

        def action(b: Box, values: tuple[None, ...]) -> list[None]:
            ran.append(b)
            return [None] * len(b.cod)

        interpret(d, [None] * len(d.dom), action)
        return len(ran)

    f, g = fg
    assert count(f >> g) == count(f) + count(g)
    assert count(f @ h) == count(f) + count(h)
    assert count(f >> copy(f.cod)) == count(f)
    assert count(copy(f.dom) >> (f @ f)) == 2 * count(f)


# -- weaving ------------------------------------------------------------------------------------------

A, B = Axis("a"), Axis("b", 5)


@quick
@given(composable(2), st.data())
def test_spread_is_a_functor_on_marked_diagrams(fg, data):
    f, g = fg
    marked = [k for k in range(len(f.dom)) if data.draw(st.booleans())]
    first, reached = broadcast(f, A, marked)
    second, ends = broadcast(g, A, [k for k, has in enumerate(reached) if has])
    whole, whole_ends = broadcast(f >> g, A, marked)
    check(whole)
    assert whole == first >> second
    assert whole_ends == ends
    unmarked, none = broadcast(f, A, [])
    assert unmarked == f and not any(none)


@quick
@given(st.data())
def test_weave_is_a_functor_where_every_wire_depends_on_the_inputs(data):
    f = data.draw(diagrams(nullary=False))
    g = data.draw(diagrams(dom=f.cod, nullary=False))
    assert weave(f >> g, A) == weave(f, A) >> weave(g, A)
    assert weave(id(f.dom), A) == id(weave(f, A).dom)


@quick
@given(diagrams(), diagrams())
def test_weave_of_a_tensor_is_the_tensor_of_the_weaves(f, g):
    assert weave(f @ g, A) == weave(f, A) @ weave(g, A)


@quick
@given(diagrams(), objects(), objects())
def test_weave_keeps_wiring_and_is_well_typed(f, a, b):
    woven = weave(f, A)
    check(woven)
    check(inline(woven))
    assert all(ty.axes[0] == A for ty in (*woven.dom, *woven.cod))
    assert weave(swap(a, b), A) == swap(weave(id(a), A).dom, weave(id(b), A).dom)
    assert weave(copy(a), A) == copy(weave(id(a), A).dom)
    assert weave(discard(a), A) == discard(weave(id(a), A).dom)


@quick
@given(diagrams(nullary=False))
def test_weaving_commutes_with_inlining(f):
    assert inline(weave(f, A)) == weave(inline(f), A)


def sorted_axes(d: Diagram) -> Diagram:
    """The diagram with the axes of every wire in the order of their names."""

    def tidy(ty: Ty) -> Ty:
        return Ty(*(ArrayType(tuple(sorted(t.axes, key=lambda a: a.name)), t.element) for t in ty))

    graph = inline(d).graph
    nodes = tuple(Node(Box(n.box.op, tidy(n.box.dom), tidy(n.box.cod)), n.inputs) for n in graph.nodes)
    return of_graph(Graph(tidy(graph.dom), nodes, graph.outputs))


@quick
@given(diagrams(nullary=False))
def test_weaves_commute_up_to_the_order_of_axes(f):
    one, other = weave(weave(f, A), B), weave(weave(f, B), A)
    assert sorted_axes(one) == sorted_axes(other)
    assert (one == other) == (not len(f.dom) and not len(f.cod) and not len(f))


def test_wiring_is_what_it_says():
    x, y = WIRES[:2]
    assert wiring(Ty(x, y), [1, 1, 0]) == (id(x) @ copy(y)) >> (swap(x, y) @ id(y)) >> (id(y) @ swap(x, y))
