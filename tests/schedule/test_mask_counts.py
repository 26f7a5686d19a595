"""Loops that skip blocks: the formulas against the machine, against the masks counted block by block, and against
what is derived for the whole by hand."""

from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import sympy
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import Diagram, Graph, Node, of_graph
from catdiag.category.integer_polynomial import symbol
from catdiag.category.ops import Box, FoldOp, GroupOp
from catdiag.cost.traffic import io
from catdiag.optimum.minimize import CAPACITY
from catdiag.planner.fit import fit
from catdiag.rewrite import group, skip
from catdiag.rewrite.stream import fold_search
from catdiag.schedule.grid_formulas import Down, GroupSum, Up
from catdiag.simulate.machine import count
from catdiag.util.errors import CatdiagError
from tests.forms import form

SCALARS = {
    "causal_attention": (),
    "sliding_window_attention": ("width",),
    "prefix_attention": ("prefix",),
    "continued_causal_attention": ("start",),
    "padded_attention": ("length",),
    "causal_linear_attention": (),
    "causal_grouped_query_attention": (),
}
# Whether query q sees key x; v is the scalar.
MASKS = {
    "causal_attention": lambda q, x, v: x <= q,
    "sliding_window_attention": lambda q, x, v: (x <= q) & (q - x < v),
    "prefix_attention": lambda q, x, v: (x <= q) | (x < v),
    "continued_causal_attention": lambda q, x, v: x <= v + q,
    "padded_attention": lambda q, x, v: x < v + 0 * q,
}
d, q, x, g, s, w = (symbol(n) for n in ("d", "q", "x", "g_q", "s_x", "width"))


@cache
def skipping(name: str, axes: str = "q") -> Diagram:
    """The operator streamed, grouped and without blocks, unproved."""
    return skip.find(form(name, "x", axes), "x")


@cache
def counted(name: str, axes: str = "q"):
    return io(skipping(name, axes))


def values(diagram, sizes, scalars):
    generator = np.random.default_rng(0)
    return [
        np.asarray(scalars[name]) if name in scalars else generator.uniform(0.5, 1.5, [sizes[n] for n in ty.names])
        for name, ty in zip(diagram.input_names, diagram.dom, strict=True)
    ]


def at(formula, *numbers):
    return formula.xreplace({symbol(k): sympy.Integer(v) for each in numbers for k, v in each.items()})


def drawn(data, name):
    long = st.integers(1, 13)
    sizes = {n: data.draw(st.integers(1, 3)) for n in ("d", "v", "b", "k", "r")} | {
        n: data.draw(long) for n in ("q", "x")
    }
    tiles = {"g_q": data.draw(st.integers(1, sizes["q"])), "s_x": data.draw(st.integers(1, sizes["x"]))}
    return sizes, tiles, {n: data.draw(long) for n in SCALARS.get(name, ())}


@settings(max_examples=15, derandomize=True, deadline=None)
@given(st.sampled_from(sorted(SCALARS)), st.data())
def test_formula_is_count(name, data):
    sizes, tiles, scalars = drawn(data, name)
    axes = "q"
    if name == "causal_grouped_query_attention":
        axes, tiles["g_r"] = "r q", data.draw(st.integers(1, sizes["r"]))
    diagram, found = skipping(name, axes), counted(name, axes)
    machine = count(diagram, sizes, tiles, arrays=values(diagram, sizes, scalars))
    numbers = sizes, tiles, scalars
    assert (at(found.load, *numbers), at(found.save, *numbers)) == (machine.load, machine.save)
    assert at(found.memory, *numbers) == machine.peak
    for moved in found.traffic:
        machines = machine.loads if moved.direction == "load" else machine.saves
        assert at(moved.exact, *numbers) == machines.get(moved.array, 0)


@settings(max_examples=14, derandomize=True, deadline=None)
@given(st.sampled_from(sorted(MASKS)), st.data())
def test_blocks_are_those_that_the_mask_touches(name, data):
    sizes, tiles, scalars = drawn(data, name)
    value = next(iter(scalars.values()), 0)
    rows, keys = np.arange(sizes["q"])[:, None], np.arange(sizes["x"])[None, :]
    mask = MASKS[name](rows, keys, value)
    loaded = 0
    for t in range(0, sizes["q"], tiles["g_q"]):
        for b in range(0, sizes["x"], tiles["s_x"]):
            part = mask[t : t + tiles["g_q"], b : b + tiles["s_x"]]
            loaded += part.shape[1] * bool(part.any())
    keys_moved = next(t.exact for t in counted(name).traffic if t.array == "K")
    # A bound of rows that lie after all keys is not seen by the mask: there the loop may run a block in vain.
    assume(sizes["q"] + value <= sizes["x"] or name in ("causal_attention", "padded_attention", "prefix_attention"))
    assert at(keys_moved, sizes, tiles, scalars) == loaded * sizes["d"]


@settings(max_examples=30, derandomize=True, deadline=None)
@given(st.sampled_from(sorted(set(SCALARS) - {"causal_grouped_query_attention"})), st.data())
def test_without_rounding_is_no_more(name, data):
    sizes, tiles, scalars = drawn(data, name)
    found = counted(name)
    rows, keys, value = sizes["q"], sizes["x"], next(iter(scalars.values()), 0)
    assume(rows <= keys and value <= keys)
    assume(rows + value <= keys or name != "continued_causal_attention")
    assume(value <= rows or name not in ("prefix_attention", "sliding_window_attention"))
    assert at(found.relaxed, sizes, tiles, scalars) <= at(found.transfers, sizes, tiles, scalars)


def test_closed_forms():
    assert counted("causal_attention").relaxed == 3 * d * q + d * q**2 / g
    assert counted("causal_attention").optimum().leading == 3 * d * q + 2 * d**2 * q**2 / CAPACITY
    # Of a window every tile sees its own keys and w - 1 before; the first ones fewer: (w - 1)² / 2 in all, and at a
    # window's border what a tile that does not divide it may save.
    window = next(t.relaxed for t in counted("sliding_window_attention").traffic if t.array == "K")
    assert sympy.expand(window - d * (q + q * (w - 1) / g - (w - 1) ** 2 / (2 * g) - (w - 1))) == 0


@pytest.mark.parametrize("tile", [1, 2, 4, 8])
def test_equal_where_tiles_and_blocks_divide(tile):
    found = counted("causal_attention")
    sizes = {"d": 3, "q": 16, "x": 16, "g_q": tile, "s_x": 1}
    assert at(found.relaxed, sizes) == at(found.transfers, sizes)
    assert at(found.relaxed * Fraction(1001, 1000), sizes) > at(found.transfers, sizes)


@settings(max_examples=3, derandomize=True, deadline=None)
@given(st.sampled_from(["causal_attention", "sliding_window_attention"]), st.data())
def test_parts_of_what_is_left(name, data):
    sizes, tiles, scalars = drawn(data, name)
    tiles["p_x"] = data.draw(st.integers(1, 3))
    sizes["x"] = tiles["p_x"] * data.draw(st.integers(1, 5))
    tiles["s_x"] = min(tiles["s_x"], sizes["x"] // tiles["p_x"])
    diagram, found = in_parts(name)
    machine = count(diagram, sizes, tiles, arrays=values(diagram, sizes, scalars))
    numbers = sizes, tiles, scalars
    assert (at(found.load, *numbers), at(found.save, *numbers)) == (machine.load, machine.save)
    assert at(found.memory, *numbers) == machine.peak
    value = next(iter(scalars.values()), 0)
    if sizes["q"] <= sizes["x"] and value <= sizes["q"]:
        assert at(found.relaxed, *numbers) <= machine.load + machine.save


@cache
def in_parts(name):
    """A split loop, each part of which skips blocks."""
    diagram = skipping(name)
    nodes = []
    for node in diagram.graph.nodes:
        op = node.box.op
        if isinstance(op, GroupOp):
            body = tuple(
                Node(Box(replace(n.box.op, parts="p_x"), n.box.dom, n.box.cod), n.inputs)
                if isinstance(n.box.op, FoldOp)
                else n
                for n in op.body.graph.nodes
            )
            inner = of_graph(Graph(op.body.dom, body, op.body.graph.outputs), op.body.cod, op.body.names)
            node = Node(Box(replace(op, body=inner), node.box.dom, node.box.cod), node.inputs)
        nodes.append(node)
    whole = of_graph(Graph(diagram.dom, tuple(nodes), diagram.graph.outputs), diagram.cod, diagram.names)
    return whole, io(whole)


def test_shares_of_blocks():
    diagram = skipping("document_attention")
    found = io(diagram)
    rho = sympy.Symbol("rho_x", positive=True)
    assert rho in found.load.free_symbols and "rho_x, at most 1" in found.assumptions[0]
    generator = np.random.default_rng(3)
    sizes, tiles = {"q": 12, "x": 12, "d": 2}, {"g_q": 4, "s_x": 3}
    arrays = values(diagram, sizes, {})
    arrays[3:] = [np.sort(generator.integers(0, 4, 12)) for _ in range(2)]
    machine = count(diagram, sizes, tiles, arrays=arrays)
    most = io(diagram, density=1)
    share = Fraction(machine.loads["K"], int(at(next(t.exact for t in most.traffic if t.array == "K"), sizes, tiles)))
    assert 0 < share < 1
    assert at(io(diagram, density=share).load, sizes, tiles) == machine.load < at(most.load, sizes, tiles)
    assert str(io(diagram, density=0.1).load).count("/5") == 1
    for wrong in (2, -1, True, {"q": 1}):
        with pytest.raises(CatdiagError, match="density"):
            io(diagram, density=wrong)


def test_plans_count_exactly():
    diagram = skipping("sliding_window_attention")
    sizes = {"q": 4000, "x": 4096, "d": 64, "width": 500}
    plan = fit(diagram, "H100", sizes)
    found = io(diagram, dtype="bf16")
    assert at(found.load, sizes, plan.tiles) == plan.load_bytes
    assert at(found.save, sizes, plan.tiles) == plan.save_bytes
    assert at(found.work["tensor"], sizes, plan.tiles) == plan.flops
    whole = fit(
        form("causal_attention", "x", "q"),
        "H100",
        size(16384),
        backend="ideal",
    )
    causal = fit(skipping("causal_attention"), "H100", size(16384), backend="ideal")
    assert whole.time_s / 2 < causal.time_s < whole.time_s
    # With a group for each core at most, the longest is waited for.
    few = fit(skipping("causal_attention"), "H100", size(2048), backend="ideal")
    assert few.imbalance_s > 0 and "longest" in str(few)


@pytest.mark.parametrize("heads", [1, pytest.param(2, marks=pytest.mark.slow), 16])
def test_a_kernel_that_skips_blocks_is_not_predicted_to_take_longer(heads):
    """In one wave the longest group takes as long as all do without skipping; in several, others fill the gaps."""
    every = cd.library.get("causal_attention").weave("h").stream("x").group("h q")
    sizes = {"h": heads, **size(8192)}
    whole, causal = every.plan("H200", sizes), every.skip("x").plan("H200", sizes)
    assert causal.time_s <= whole.time_s
    assert (causal.imbalance_s > 0) == (heads == 1), "the longest groups begin first"
    if heads == 16:
        assert causal.time_s < 0.7 * whole.time_s


def size(length):
    return {"q": length, "x": length, "d": 128}


def test_half_the_products_of_a_causal_mask():
    work = counted("causal_attention").work["tensor"]
    numbers = {"q": 1024, "x": 1024, "d": 8, "g_q": 16, "s_x": 16}
    assert at(work, numbers) == 4 * 8 * sum(16 * 16 * (k + 1) for k in range(64))


def test_sums_over_groups():
    j, k = sympy.symbols("j k", integer=True)
    assert GroupSum(Down(3 * j, 2) + Up(k, 3), (j, 0, 4), (k, 0, 2)) == sum(
        3 * a // 2 + -(-b // 3) for a in range(5) for b in range(3)
    )
    assert str(Down(j, 2)) == "floor(j/2)" and str(GroupSum(j, (j, 0, q))) == "Sum(j, (j, 0, q))"


def test_quick(calls):
    diagram = skipping("sliding_window_attention")

    def counted():
        found = io(diagram)
        found.optimum()
        at(found.transfers, size(65536), {"g_q": 64, "s_x": 64, "width": 4096})

    work = calls(counted)
    assert work < 6_000_000


# Masks by positions along both axes, and a number w: rising, falling, with factors, rounded, two-sided.
BY_POSITION = (
    lambda q, x, w: q <= x,
    lambda q, x, w: x < q,
    lambda q, x, w: (x - q < w) & (q - x < w),
    lambda q, x, w: abs(q - x) < w,
    lambda q, x, w: x <= 2 * q,
    lambda q, x, w: x <= q // 2,
    lambda q, x, w: x == q,
    lambda q, x, w: x <= q - 3,
    lambda q, x, w: x + q < w,
    lambda q, x, w: x + q >= w,
    lambda q, x, w: x <= q + cd.size("x") - cd.size("q"),
    lambda q, x, w: (x >= q) & (x < q + 5),
    lambda q, x, w: (x < 7) & (x >= 2),
    lambda q, x, w: (x <= q) & (x >= w - q),
)


@pytest.mark.slow
@pytest.mark.parametrize("mask", BY_POSITION)
@pytest.mark.parametrize("axes", ["", "q", "q v"])
def test_masks_by_position(mask, axes):
    @cd.algorithm("q d, x d, x v, int[] -> q v", name="masked")
    def masked(Q, K, V, w):
        seen = mask(cd.index("q"), cd.index("x"), w)
        S = cd.where(seen, cd.einsum("q d, x d -> q x", Q, K), 0)
        return cd.einsum("q x, x v -> q v", S, V) + 0 * w

    streamed = fold_search.find(masked.diagram, "x").diagram
    diagram = skip.find(group.find(streamed, axes.split()) if axes else streamed, "x")
    found, generator = io(diagram), np.random.default_rng(5)
    for _ in range(40):
        sizes = {"d": 2, "v": 2, **{n: int(generator.integers(1, 14)) for n in ("q", "x")}}
        tiles = {str(t): int(generator.integers(1, sizes[str(t)[2:]] + 1)) for t in (*found.groups, *found.streams)}
        scalars = {"w": int(generator.integers(1, 15))}
        machine = count(diagram, sizes, tiles, arrays=values(diagram, sizes, scalars))
        numbers = sizes, tiles, scalars
        assert (at(found.load, *numbers), at(found.save, *numbers)) == (machine.load, machine.save)
        assert at(found.memory, *numbers) >= machine.peak
