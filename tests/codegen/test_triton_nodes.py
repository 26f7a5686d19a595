"""What kernels are made of: sums, ends of tiles, conditions solved for whole blocks, what padding holds."""

from __future__ import annotations

import itertools
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from catdiag.codegen.triton.mask_ranges import affine, edge, grows, solved, summed
from catdiag.codegen.triton.tile_expressions import Nodes
from catdiag.codegen.triton.tile_fills import FINITE, fill_of
from catdiag.codegen.triton.tile_nodes import Dim, Scope, TileNode

ROWS, BLOCK = 4, 4


class World:
    """A tile of rows from q0 and a block of columns from x0, with two numbers."""

    def __init__(self) -> None:
        self.root = Scope()
        self.inner = Scope(self.root)
        self.nodes = Nodes(self.root)
        self.q = Dim("q", "g_q", str(ROWS), self.root)
        self.x = Dim("x", "s_x", str(BLOCK), self.inner)
        self.q0, self.n = self.nodes.symbol("q0"), self.nodes.symbol("n")
        self.x0 = self.nodes.symbol("x0", scope=self.inner)
        self.size = self.nodes.symbol("x", positive=True)
        self.row = self.nodes.op("add", self.q0, self.nodes.arange(self.q))
        self.column = self.nodes.op("add", self.x0, self.nodes.arange(self.x))


def value(node: TileNode, known: dict[str, int]) -> int:
    """What a node is where symbols and positions are these numbers."""
    if node.kind == "const":
        return int(node.data)
    if node.kind == "symbol":
        return int(node.data[0]) if node.data[0].isdigit() else known[node.data[0]]
    if node.kind == "arange":
        return known[node.dims[0].axis]
    a = [value(x, known) for x in node.args]
    match node.kind:
        case "add":
            return a[0] + a[1]
        case "sub":
            return a[0] - a[1]
        case "mul":
            return a[0] * a[1]
        case "neg":
            return -a[0]
        case "max":
            return max(a)
        case "min":
            return min(a)
        case "floordiv":
            return a[0] // a[1]
        case "le":
            return a[0] <= a[1]
        case "lt":
            return a[0] < a[1]
        case "and":
            return bool(a[0] and a[1])
        case "or":
            return bool(a[0] or a[1])
        case "not":
            return not a[0]
        case "where":
            return a[1] if a[0] else a[2]
    raise AssertionError(node.kind)


@st.composite
def sums(draw: st.DrawFn, world: World, column: bool = True, depth: int = 2) -> TileNode:
    leaves = [world.row, world.n, world.nodes.const(draw(st.integers(-3, 3)), "int")]
    leaves += [world.column] if column else []
    if not depth or draw(st.booleans()):
        return draw(st.sampled_from(leaves))
    fn = draw(st.sampled_from(["add", "sub", "neg", "mul", "max", "min"]))
    first = draw(sums(world, column, depth - 1))
    if fn == "neg":
        return world.nodes.op("neg", first)
    second = draw(sums(world, column, depth - 1))
    return world.nodes.op(fn, first, world.nodes.const(draw(st.integers(-2, 2)), "int") if fn == "mul" else second)


@st.composite
def conditions(draw: st.DrawFn, world: World, depth: int = 2) -> TileNode:
    if not depth or draw(st.booleans()):
        return world.nodes.op(draw(st.sampled_from(["le", "lt"])), draw(sums(world)), draw(sums(world)))
    fn = draw(st.sampled_from(["and", "or", "not"]))
    first = draw(conditions(world, depth - 1))
    return world.nodes.op(fn, first, *([] if fn == "not" else [draw(conditions(world, depth - 1))]))


numbers = st.integers(-6, 12)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_whole_blocks_are_whole(data):
    """Law: where x0 and x0 + s_x - 1 lie between the bounds, the condition holds of every entry of the tile."""
    world = World()
    condition = data.draw(conditions(world))
    if condition.kind == "const":
        return
    found = solved(world.nodes, condition, world.x, world.x0, world.size)
    if found is None:
        return
    known = {"q0": data.draw(numbers), "n": data.draw(numbers), "x": 40}
    for x0 in range(0, 24, BLOCK):
        at = {**known, "x0": x0}
        if all(value(b, at) <= x0 for b in found.lower) and all(x0 + BLOCK <= value(b, at) for b in found.upper):
            entries = itertools.product(range(ROWS), range(BLOCK))
            assert all(value(condition, {**at, "q": i, "x": j}) for i, j in entries)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_ends_of_tiles_are_reached_by_no_entry_beyond(data):
    world = World()
    node = data.draw(sums(world, column=False))
    known = {"q0": data.draw(numbers), "n": data.draw(numbers)}
    entries = [value(node, {**known, "q": i}) for i in range(ROWS)]
    high, low = edge(world.nodes, node, True), edge(world.nodes, node, False)
    assert high is None or value(high, known) >= max(entries)
    assert low is None or value(low, known) <= min(entries)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_sums_mean_what_they_are_of(data):
    world = World()
    node = data.draw(sums(world))
    known = {name: data.draw(numbers) for name in ("q0", "n", "x0", "q", "x")}
    assert value(summed(world.nodes, affine(node)), known) == value(node, known)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_what_grows_grows(data):
    world = World()
    node = data.draw(sums(world, column=False))
    known = {"n": data.draw(numbers), "q": data.draw(st.integers(0, ROWS - 1))}
    ends = [value(node, {**known, "q0": k}) for k in range(-5, 15)]
    sign = grows(node, world.q0)
    assert sign == 0 or all(sign * (b - a) >= 0 for a, b in itertools.pairwise(ends))


held = st.one_of(st.floats(-3, 3), st.sampled_from([0.0, 1.0, math.inf, -math.inf]))
functions = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "max": max, "min": min,
}  # fmt: skip


@given(st.sampled_from(sorted(functions)), held, held, st.booleans(), st.floats(-4, 4))
@settings(max_examples=300, deadline=None)
def test_what_is_held_outside_is_what_the_function_gives(fn, a, b, unknown, number):
    """Law: for each number that FINITE may stand for, the function gives what is said to be held."""
    found = fill_of(fn, [a, FINITE if unknown else b])
    if isinstance(found, float):
        got = functions[fn](a, number if unknown else b)
        assert got == found or (math.isnan(got) and math.isnan(found))
    elif found == FINITE:
        assert math.isfinite(functions[fn](a, number if unknown else b))


def test_nothing_is_masked_twice():
    world = World()
    world.x.within = world.nodes.op("lt", world.column, world.size)
    node = world.nodes.make("load", (), (world.q, world.x), "raw", "S", world.inner, {world.x: 0.0})
    assert world.nodes.masked(node, world.x, 0.0) is node
    once = world.nodes.masked(node, world.x, -math.inf)
    assert once is not node
    assert world.nodes.masked(once, world.x, -math.inf) is once
    exponential = world.nodes.op("exp", world.nodes.op("sub", once, world.nodes.symbol("m", "real")))
    assert exponential.fills[world.x] == 0.0
    assert world.nodes.masked(exponential, world.x, 0.0) is exponential
