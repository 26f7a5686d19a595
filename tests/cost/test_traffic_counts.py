"""The formulas of io against the machine that counts: on loops and groups put together by hand, on whatever the
rewrites find, and on arbitrary diagrams."""

import functools
from fractions import Fraction

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.box_types import rename_box
from catdiag.category.diagram import Diagram, Graph, Node, of_box, of_graph
from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.category.ops import Box, FoldOp, GroupOp, const_box, einsum_box, index_box, map_box, reduce_box, size_box
from catdiag.category.types import ArrayType, Axis, Ty
from catdiag.cost.traffic import io
from catdiag.execute.named_arrays import NamedArray
from catdiag.library.definitions.attention import attention as attention_whole
from catdiag.library.definitions.attention import grouped_query_attention, multi_head_attention
from catdiag.library.definitions.matmul import matmul as products
from catdiag.rewrite import group
from catdiag.rewrite.stream import fold_search
from catdiag.simulate.machine import Allocation, MachineWire, count


class Sketch:
    """A graph put together box by box; wires are numbers."""

    def __init__(self, *types):
        self.types, self.nodes, self.dom = list(types), [], Ty(*types)

    def put(self, box, *wires):
        self.nodes.append(Node(box, wires))
        self.types.extend(box.cod)
        return len(self.types) - len(box.cod)

    def map(self, fn, *wires):
        return self.put(map_box(fn, [self.types[w] for w in wires]), *wires)

    def reduce(self, monoid, axis, wire):
        return self.put(reduce_box(monoid, axis, self.types[wire]), wire)

    def einsum(self, out, *wires):
        return self.put(einsum_box([self.types[w] for w in wires], out.split()), *wires)

    def repeat(self, wire, *axes):
        return self.put(rename_box(self.types[wire], {}, axes), wire)

    def const(self, value, *axes):
        return self.repeat(self.put(const_box(None if value is None else Fraction(value))), *axes)

    def done(self, *outs, names=()):
        return of_graph(Graph(self.dom, tuple(self.nodes), outs), None, names)


def A(*axes, element="real"):
    return ArrayType(axes, element)


d, x, xs = Axis("d"), Axis("x"), Axis("x", "s_x")


def attention(q, scaled=True):
    """The online softmax and contraction, streamed along x; q is its local axis."""
    s = Sketch(A(q), A(q), A(q, d), A(q, d), A(xs, d), A(xs, d), A(element="int"))
    m, total, o, Q, K, V, size = range(7)
    S = s.einsum("q x", Q, K)
    if scaled:
        S = s.map("div", S, s.map("sqrt", size))
    new = s.map("max", m, s.reduce("max", "x", S))
    repair = s.map("exp", s.map("sub", m, new))
    p = s.map("exp", s.map("sub", S, new))
    total2 = s.map("add", s.map("mul", total, repair), s.reduce("sum", "x", p))
    o2 = s.map("add", s.map("mul", o, repair), s.einsum("q d", p, V))
    step = s.done(new, total2, o2)
    u = Sketch()
    unit = u.done(u.const(None, q), u.const(0, q), u.const(0, q, d))
    fold = FoldOp("x", "s_x", unit, step, step, step, ("m", "l", "o"))
    b = Sketch(A(q, d), A(x, d), A(x, d))
    size = b.put(size_box("d"))
    k = b.put(Box(fold, Ty(A(q, d), A(x, d), A(x, d), A(element="int")), step.cod), 0, 1, 2, size)
    return b.done(b.map("div", k + 2, k + 1), names=("Q", "K", "V"))


def grouped(body, tiles, types, names=(), cod=None):
    box = Box(GroupOp(tiles, body), Ty(*types), body.cod if cod is None else Ty(*cod))
    return of_graph(Graph(box.dom, (Node(box, tuple(range(len(types)))),), (len(types),)), None, names)


def flash():
    q = Axis("q")
    tiles = (("q", "g_q"),)
    return grouped(attention(Axis("q", "g_q")), tiles, [A(q, d), A(x, d), A(x, d)], ("Q", "K", "V"), [A(q, d)])


def matmul():
    a, b, c = Axis("a"), Axis("b"), Axis("c")
    la, lb, lc = Axis("a", "g_a"), Axis("b", "s_b"), Axis("c", "g_c")
    s = Sketch(A(la, lc), A(la, lb), A(lb, lc))
    step = s.done(s.map("add", 0, s.einsum("a c", 1, 2)))
    u = Sketch()
    fold = FoldOp("b", "s_b", u.done(u.const(0, la, lc)), step, step, step, ("acc",))
    body = of_box(Box(fold, Ty(A(la, b), A(b, lc)), step.cod))
    return grouped(body, (("a", "g_a"), ("c", "g_c")), [A(a, b), A(b, c)], ("A", "B"), [A(a, c)])


def causal_sum():
    """Positions along both axes are streamed and grouped, and not moved."""
    q, lq = Axis("q"), Axis("q", "g_q")
    s = Sketch(A(lq), A(lq, xs), A(lq, element="int"), A(xs, element="int"))
    kept = s.map("where", s.map("le", 3, 2), 1, s.put(const_box(Fraction(0))))
    step = s.done(s.map("add", 0, s.reduce("sum", "x", kept)))
    u = Sketch()
    fold = FoldOp("x", "s_x", u.done(u.const(0, lq)), step, step, step, ("total",))
    body = of_box(Box(fold, Ty(A(lq, x), A(lq, element="int"), A(x, element="int")), step.cod))
    b = Sketch(A(q, x))
    rows, keys = b.put(index_box(q)), b.put(index_box(x))
    box = Box(GroupOp((("q", "g_q"),), body), Ty(A(q, x), b.types[rows], b.types[keys]), Ty(A(q)))
    return b.done(b.put(box, 0, rows, keys))


def odd_states():
    """States that are not read, that pass through, that are one array twice, and that are a block's own."""
    s = Sketch(A(d), A(d), A(d), A(d), A(xs, d), A(d))
    total = s.map("add", 0, s.reduce("sum", "x", 4))
    step = s.done(total, total, 2, 5)
    u = Sketch()
    fold = FoldOp("x", "s_x", u.done(*(u.const(0, d) for _ in range(4))), step, step, step)
    b = Sketch(A(x, d), A(d))
    k = b.put(Box(fold, Ty(A(x, d), A(d)), step.cod), 0, 1)
    return b.done(b.map("mul", b.map("add", k, k + 1), b.map("add", k + 2, 1)), k + 3)


def two_loops():
    """The same array streamed twice, and a resident one that the tail alone reads."""
    s = Sketch(A(), A(xs), A())
    step = s.done(s.map("add", 0, s.reduce("sum", "x", s.map("mul", 1, 2))))
    u = Sketch()
    fold = FoldOp("x", "s_x", u.done(u.put(const_box(Fraction(0)))), step, step, step)
    box = Box(fold, Ty(A(x), A()), Ty(A()))
    b = Sketch(A(x), A(), A(d))
    second = b.put(box, 0, b.put(box, 0, 1))
    return b.done(b.map("mul", 2, second))


CASES = {
    "flash": flash, "matmul": matmul, "causal_sum": causal_sum, "odd_states": odd_states, "two_loops": two_loops,
    "streamed": lambda: attention(Axis("q")), "unscaled": lambda: attention(Axis("q"), False),
}  # fmt: skip


@cd.algorithm("q x -> q")
def spread(S):
    centred = S - cd.mean(S, "x")
    return cd.mean(centred * centred, "x")


@cd.algorithm("q x, x d -> q d, q")
def normed(S, V):
    norm = cd.sqrt(cd.sum(S * S, "x") / cd.size("x") + 1)
    return cd.einsum("q x, x d -> q d", S, V) / norm, norm


@cd.algorithm("q x -> q")
def causal(S):
    return cd.sum(cd.where(cd.index("x") <= cd.index("q"), S, 0), "x")


def found(diagram, axis, axes):
    streamed = fold_search.find(diagram, axis).diagram if axis else diagram
    return group.find(streamed, axes)


def positive(name):
    return sympy.Symbol(name, positive=True, integer=True)


def at(expr, values):
    return expr.subs({positive(name): value for name, value in values.items()})


@functools.cache
def formula_of(diagram, stages=1, fused=True):
    return io(diagram, stages=stages, fused=fused)


def agree(diagram, sizes, tiles, stages=1, fused=True, functions=None):
    formula = formula_of(diagram, stages, fused)
    counts = count(diagram, sizes, tiles, stages, fused=fused, functions=functions)
    values = {**sizes, **tiles}
    assert (at(formula.load, values), at(formula.save, values)) == (counts.load, counts.save)
    assert at(formula.memory, values) == counts.peak
    for direction, by_array in (("load", counts.loads), ("save", counts.saves)):
        found = {}
        for t in formula.traffic:
            if t.direction == direction:
                found[t.array] = found.get(t.array, 0) + at(t.exact, values)
        assert found == by_array
    return counts


def tiles_of(diagram, sizes, draw):
    """Random tiles, no larger than their axes."""
    formula = formula_of(diagram)
    axes = {**formula.groups, **formula.streams}
    return {str(t): draw(int(at(axis, sizes))) for t, axis in axes.items()}


@pytest.mark.parametrize("name", CASES)
def test_hundreds_of_sizes_and_tiles(name):
    diagram = CASES[name]()
    random = np.random.default_rng(7)
    for _ in range(20):
        sizes = {s: int(random.integers(1, 12)) for s in formula_of(diagram).account.sizes}
        tiles = tiles_of(diagram, sizes, lambda n: int(random.integers(1, n + 1)))
        agree(diagram, sizes, tiles, stages=int(random.integers(1, 4)))


@pytest.mark.parametrize(
    ("diagram", "axis", "axes"),
    [
        (attention_whole, "x", ["q"]), (multi_head_attention, "x", ["b", "h", "q"]),
        (grouped_query_attention, "x", ["b", "k", "r", "q"]), (products, "b", ["a", "c"]),
        (spread, "x", ["q"]), (normed, "x", ["q"]), (causal, "x", ["q"]), (attention_whole, None, ["q"]),
    ],
)  # fmt: skip
def test_what_the_rewrites_find(diagram, axis, axes):
    blocked = found(diagram, axis, axes)
    random = np.random.default_rng(3)
    for _ in range(12):
        sizes = {s: int(random.integers(1, 7)) for s in formula_of(blocked).account.sizes}
        tiles = tiles_of(blocked, sizes, lambda n: int(random.integers(1, n + 1)))
        agree(blocked, sizes, tiles, stages=int(random.integers(1, 4)))


def test_attention_is_the_paper_s():
    found = io(flash())
    q, k, dim, g, s = map(positive, ["q", "x", "d", "g_q", "s_x"])
    assert found.relaxed == 2 * dim * q + 2 * dim * q * k / g
    assert str(found.relaxed) == "2*d*q + 2*d*q*x/g_q"
    assert found.transfers == 2 * dim * q + 2 * dim * k * sympy.ceiling(q / g)
    assert sympy.expand(found.memory - (2 * dim * g + 2 * dim * s + g * s + 3 * g)) == 0
    staged = io(flash(), stages=3)
    assert sympy.expand(staged.memory - found.memory - 4 * dim * s) == 0 and staged.transfers == found.transfers
    assert found.work["tensor"] == 4 * dim * q * k
    assert str(found.optimum().leading) == "2*d*q + 4*d**2*q*x/M"


def test_matmul_is_the_paper_s():
    found = io(matmul())
    a, b, c, ga, gc, s = map(positive, ["a", "b", "c", "g_a", "g_c", "s_b"])
    assert found.relaxed == sympy.expand(a * b * c / ga + a * b * c / gc + a * c)
    assert sympy.expand(found.memory - (ga * gc + s * (ga + gc))) == 0
    assert found.groups == {ga: a, gc: c} and found.streams == {s: b}


def test_bytes_and_registers():
    found = io(flash(), dtype="bf16", stages=2, accumulators="registers")
    q, k, dim, g, s = map(positive, ["q", "x", "d", "g_q", "s_x"])
    # What Triton allocates for this loop, up to a few bytes: the query tile, and the staged keys and values.
    assert sympy.expand(found.memory - 2 * (dim * g + 4 * dim * s)) == 0
    assert sympy.expand(found.registers - 4 * (dim * g + g * s + 3 * g)) == 0
    assert found.relaxed == 4 * dim * q + 4 * dim * q * k / g
    mixed = io(flash(), dtype={"Q": "fp16", "K": "fp8", "V": "fp8", "out": "fp16", "o": "fp16"})
    assert mixed.relaxed == 4 * dim * q + 2 * dim * q * k / g
    assert sympy.expand(io(flash(), dtype="fp64").memory - 8 * io(flash()).memory) == 0


def test_wrong_options_are_refused():
    with pytest.raises(cd.errors.CatdiagError, match="unknown dtype 'bf17': expected one of fp64"):
        io(flash(), dtype="bf17")
    with pytest.raises(
        cd.errors.CatdiagError, match="array 'W' that the diagram does not have: expected one of Q, K, V, out, m, l, o"
    ):
        io(flash(), dtype={"W": "bf16"})
    with pytest.raises(cd.errors.CatdiagError, match="expected a whole number of buffers"):
        io(flash(), stages=0)
    with pytest.raises(cd.errors.CatdiagError, match="expected 'level' or 'registers'"):
        io(flash(), accumulators="smem")
    with pytest.raises(cd.errors.SizeError, match="size x is None"):
        count(flash(), {"q": 3, "d": 2})


def test_unfused_boxes_pass_arrays_through_slow_memory():
    @cd.algorithm("q d, x d -> q")
    def f(Q, K):
        return cd.sum(cd.exp(cd.einsum("q d, x d -> q x", Q, K)), "x")

    q, k, dim = map(positive, ["q", "x", "d"])
    assert io(f).transfers == dim * q + dim * k + q
    assert sympy.expand(io(f, fused=False).transfers - (dim * q + dim * k + 4 * q * k + q)) == 0
    agree(f, {"q": 3, "x": 4, "d": 2}, {}, fused=False)


def test_what_passes_between_groups_is_saved_and_loaded():
    q, lq = Axis("q"), Axis("q", "g_q")
    half = Sketch(A(lq))
    tile = half.done(half.map("exp", 0))
    box = Box(GroupOp((("q", "g_q"),), tile), Ty(A(q)), Ty(A(q)))
    b = Sketch(A(q))
    first = b.put(box, 0)
    second = b.put(box, b.put(rename_box(A(q), {}, [q]), first))
    diagram = b.done(b.map("add", second, b.reduce("sum", "q", first)))
    assert io(diagram).transfers == 7 * positive("q")
    agree(diagram, {"q": 7}, {"g_q": 3})


def test_outputs_that_are_inputs_or_positions():
    b = Sketch(A(x), A(d))
    diagram = b.done(0, b.put(index_box(x)), b.map("exp", 1))
    agree(diagram, {"x": 5, "d": 2}, {})
    assert io(diagram).load == positive("d")


def test_views_share_their_array():
    @cd.algorithm("n d -> n m")
    def gram(X):
        return cd.einsum("n d, m d -> n m", X, X.rename(n="m"))

    found = agree(gram, {"n": 4, "d": 3}, {})
    assert found.load == 12 and found.peak == 12 + 16


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_arbitrary_diagrams(data):
    diagram = data.draw(cd.testing.diagrams())
    sizes = data.draw(cd.testing.sizes_for(diagram))
    agree(diagram, sizes, {}, fused=data.draw(st.booleans()))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_arbitrary_diagrams_in_groups_and_streams(data):
    diagram = data.draw(cd.testing.diagrams())
    sizes = data.draw(cd.testing.sizes_for(diagram))
    names = sorted({a.name for ty in diagram.graph.wire_types() for a in ty.axes})
    for axis in names:
        try:
            tiled = group.find(diagram, [axis])
        except cd.errors.CatdiagError:
            continue
        agree(tiled, sizes, tiles_of(tiled, sizes, lambda n: data.draw(st.integers(1, n))))
        for other in names:
            try:
                blocked = fold_search.find(tiled, other).diagram
            except cd.errors.CatdiagError:
                continue
            agree(blocked, sizes, tiles_of(blocked, sizes, lambda n: data.draw(st.integers(1, n))), stages=2)


amounts = st.dictionaries(
    st.lists(st.sampled_from("abc"), max_size=3).map(lambda m: tuple(sorted(m))), st.integers(0, 4), max_size=4
).map(IntPolynomial)


@given(amounts, amounts, st.fixed_dictionaries({s: st.integers(1, 9) for s in "abc"}))
def test_amounts_are_a_semiring_of_numbers(p, r, values):
    assert (p + r).value(values) == p.value(values) + r.value(values)
    assert (p * r).value(values) == p.value(values) * r.value(values)
    assert p.expr().subs({positive(s): v for s, v in values.items()}) == p.value(values)
    if p.dominates(r):
        assert p.value(values) >= r.value(values)
    assert (p + r).dominates(r)


def test_the_machine_refuses_to_read_what_was_freed():
    with pytest.raises(RuntimeError, match="freed"):
        MachineWire(Allocation(alive=False), NamedArray(np.zeros(2), ("x",))).read()


def test_io_of_a_long_chain_is_linear():
    b = Sketch(A(x))
    w = 0
    for _ in range(5_000):
        w = b.map("exp", w)
    assert io(b.done(w)).memory == positive("x")


def test_it_prints_and_is_plain():
    found = io(flash())
    assert "2*d*q + 2*d*q*x/g_q" in str(found)
    assert found.order.startswith("for each group tile g_q (for each stream block s_x of x (einsum, ")
    assert found.as_dict()["memory"] == str(found.memory)
    assert isinstance(flash(), Diagram)
