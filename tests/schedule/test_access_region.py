"""Groups along positions that reads are computed from: what they load, against the elements that they touch, one by
one, and against the machine; and the closed forms for convolutions."""

from functools import cache
from itertools import product

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import Diagram
from catdiag.category.integer_polynomial import symbol
from catdiag.cost.traffic import io
from catdiag.execute.interpreter import run
from catdiag.optimum.minimize import CAPACITY
from catdiag.planner.fit import fit
from catdiag.rewrite import group
from catdiag.rewrite.stream import fold_search
from catdiag.simulate.machine import count
from catdiag.simulate.multi_level_machine import count_levels
from tests.forms import form


def convolution(padding: int = 0, stride: int = 1, dilation: int = 1) -> Diagram:
    """Windows at y·stride + k·dilation - padding, and 0 beyond."""

    @cd.algorithm("x c, k c o -> y o", name=f"by_{padding}_{stride}_{dilation}")
    def made(a, w):
        return cd.einsum("y k c, k c o -> y o", cd.reindex(
            a, "y k", x=lambda y, k: y * stride + k * dilation - padding, fill=0 if padding else None), w)  # fmt: skip

    return made


@cache
def grouped(padding: int, stride: int, dilation: int) -> Diagram:
    return group.find(fold_search.find(convolution(padding, stride, dilation).diagram, "c").diagram, ["y", "o"])


@cache
def formulas(padding: int, stride: int, dilation: int):
    return io(grouped(padding, stride, dilation))


def at(formula, *numbers):
    return formula.xreplace({symbol(k): sympy.Integer(v) for each in numbers for k, v in each.items()})


def exact(found, array):
    return next(t.exact for t in found.traffic if t.array == array and t.direction == "load")


@settings(max_examples=15, derandomize=True, deadline=None)
@given(
    st.sampled_from([(0, 1, 1), (1, 1, 1), (2, 1, 1), (1, 2, 1), (0, 2, 1), (2, 1, 2), (3, 2, 1)]),
    st.data(),
)
def test_loaded_is_what_is_touched(kind, data):
    padding, step, apart = kind
    small, sizes = st.integers(1, 3), {}
    sizes |= {"c": data.draw(small), "o": data.draw(small), "y": data.draw(st.integers(1, 9))}
    sizes["k"] = data.draw(st.integers(step, 4))  # windows without gaps between them
    reach = (sizes["y"] - 1) * step + (sizes["k"] - 1) * apart + 1
    sizes["x"] = data.draw(st.integers(1, 12)) if padding else reach + data.draw(st.integers(0, 1))
    tiles = {"g_y": data.draw(st.integers(apart, 9)), "g_o": data.draw(small), "s_c": data.draw(small)}
    tiles = {t: min(v, sizes[t[2:]]) for t, v in tiles.items()}
    touched = 0
    for t in range(0, sizes["y"], tiles["g_y"]):
        rows = range(t, min(t + tiles["g_y"], sizes["y"]))
        places = {y * step + k * apart - padding for y, k in product(rows, range(sizes["k"]))}
        if tiles["g_y"] >= apart and len(rows) >= apart:
            touched += len([p for p in places if 0 <= p < sizes["x"]])
        else:  # the last tile may leave gaps, which are loaded too
            touched += len([p for p in range(min(places), max(places) + 1) if 0 <= p < sizes["x"]])
    diagram = grouped(*kind)
    found, machine = formulas(*kind), count(diagram, sizes, tiles)
    groups = -(-sizes["o"] // tiles["g_o"])
    assert at(exact(found, "a"), sizes, tiles) == touched * sizes["c"] * groups == machine.loads.get("a", 0)
    assert at(found.load, sizes, tiles) == machine.load
    assert at(found.memory, sizes, tiles) == machine.peak
    assert at(found.relaxed, sizes, tiles) <= machine.load + machine.save


@settings(max_examples=10, derandomize=True, deadline=None)
@given(st.sampled_from([(1, 1, 1), (2, 1, 1), (2, 1, 2), (3, 2, 1), (5, 1, 1)]), st.data())
def test_padding_takes_no_room(kind, data):
    """What is held of the input is what of any tile's window lies in it, counted element by element."""
    padding, step, apart = kind
    sizes = {"c": 1, "o": 1, **{n: data.draw(st.integers(1, 9)) for n in ("x", "y", "k")}}
    tiles = {"g_y": data.draw(st.integers(1, sizes["y"])), "g_o": 1, "s_c": 1}
    held = 1
    for t in range(0, sizes["y"], tiles["g_y"]):
        last = min(t + tiles["g_y"], sizes["y"]) - 1
        window = range(t * step - padding, last * step + (sizes["k"] - 1) * apart - padding + 1)
        held = max(held, sum(0 <= p < sizes["x"] for p in window))
    diagram = grouped(*kind)
    machine = count(diagram, sizes, tiles)
    assert at(formulas(*kind).memory, sizes, tiles) == machine.peak == held + sizes["k"] + tiles["g_y"]
    assert at(formulas(*kind).room, sizes, tiles) >= machine.peak


def test_one_tile_of_everything_holds_the_array():
    diagram = group.find(fold_search.find(convolution(150).diagram, "c").diagram, ["y"])
    sizes = {"x": 40, "y": 336, "k": 5, "c": 2, "o": 1}
    peak = 40 + 5 + 336
    assert count(diagram, sizes, {"g_y": 336, "s_c": 1}).peak == peak
    assert at(io(diagram).memory, sizes, {"g_y": 336, "s_c": 1}) == peak


@pytest.mark.parametrize(
    ("name", "streamed", "axes"),
    [
        ("conv1d", "c", "y o"),
        ("conv1d", "k", "y o"),
        ("conv2d", "c", "y x o"),
        ("max_pool", "", "y x"),
        ("im2col", "", "y"),
    ],
)
def test_the_library_of_windows(name, streamed, axes):
    diagram = form(name, streamed, axes)
    sizes = {"n": 2, "x": 7, "y": 5, "c": 3, "k": 3, "o": 3, "h": 7, "w": 8, "i": 3, "j": 2}
    sizes |= {"max_pool": {"h": 11, "w": 14}, "conv1d": {"x": 7}, "im2col": {"x": 7}}.get(name, {"x": 7, "w": 8})
    found = io(diagram)
    for size in (1, 2, 4):
        tiles = {str(t): min(size, sizes[str(t)[2:]]) for t in (*found.groups, *found.streams)}
        machine = count(diagram, sizes, tiles)
        assert (at(found.load, sizes, tiles), at(found.save, sizes, tiles)) == (machine.load, machine.save)
        assert at(found.memory, sizes, tiles) == machine.peak
        assert at(found.relaxed, sizes, tiles) <= machine.load + machine.save


def test_a_stencil_of_one_axis():
    shifted = cd.algorithm("x -> x")(lambda a: a + cd.shift(a, "x", 1))
    diagram = group.find(shifted.diagram, ["x"])
    found, machine = io(diagram), count(diagram, {"x": 11}, {"g_x": 4})
    assert at(found.load, {"x": 11, "g_x": 4}) == machine.load == 11 + 10
    # The array itself by tiles, and for what is read beside it 3 + 4 + 3: the element before the first is no element.
    assert np.allclose(run(diagram, [np.arange(11.0)], {"g_x": 4}), run(shifted, [np.arange(11.0)]))


def test_grouping_is_proved():
    for kind in ((0, 2, 1), (1, 1, 1)):
        derived = convolution(*kind).group("y o")
        assert not derived.theorem.conditional


def test_sizes_are_found_in_groups():
    a, f = np.random.default_rng(0).normal(size=(1, 8, 9, 3)), np.random.default_rng(1).normal(size=(3, 2, 3, 4))
    diagram = form("conv2d", "c", "y x o")
    assert np.allclose(run(diagram, [a, f], {"g_y": 2, "g_x": 3, "s_c": 2}), run(cd.library.get("conv2d"), [a, f]))
    padded = cd.algorithm("x c, k c o -> y o")(
        lambda a, w: cd.einsum("y k c, k c o -> y o", cd.window(a, "x", "y k", pad=(1, 1)), w)
    )
    inputs = [a[0, 0], f[:, 0]]
    found = run(group.find(fold_search.find(padded.diagram, "c").diagram, ["y"]), inputs, {"g_y": 4})
    assert found.shape == (9, 4) and np.allclose(found, run(padded, inputs))


def test_closed_forms():
    # Of one sequence: p·co·ci·[(1 + (k-1)/g_p)/g_o + k/g_p] + p·co, and 2·p·co·ci·√(k/M) at √(k·M) × √(M/k).
    found = io(grouped(0, 1, 1))
    y, c, k, o, gy, go = (symbol(s) for s in ("y", "c", "k", "o", "g_y", "g_o"))
    assert sympy.expand(found.relaxed - (y * o * c * ((1 + (k - 1) / gy) / go + k / gy) + y * o)) == 0
    optimum = found.optimum()
    assert optimum.leading_tiles == {go: sympy.sqrt(CAPACITY / k), gy: sympy.sqrt(k * CAPACITY)}
    leading = optimum.leading - (y * o + 2 * y * o * c * sympy.sqrt(k / CAPACITY))
    assert sympy.simplify(leading - c * o * y * (k - 1) / CAPACITY) == 0


def test_no_tile_does_better():
    found = io(grouped(0, 1, 1))
    sizes = {"y": 64, "x": 66, "k": 3, "c": 4, "o": 32}
    best = min(
        at(found.transfers, sizes, tiles)
        for gy, go in product(range(1, 65, 3), range(1, 33))
        if at(found.memory, sizes, tiles := {"g_y": gy, "g_o": go, "s_c": 1}) <= 256
    )
    bound = at(found.optimum().leading, sizes).subs(CAPACITY, 256)
    assert bound <= best < 1.3 * bound


def test_plans_count_exactly():
    diagram = form("conv1d", "c", "y o")
    sizes = {"n": 1, "y": 1000, "x": 1008, "c": 64, "k": 9, "o": 128}
    plan = fit(diagram, "H100", sizes)
    assert at(io(diagram, dtype="bf16").load, sizes, plan.tiles) == plan.load_bytes


@pytest.mark.parametrize("backend", ["triton", "ideal"])
@pytest.mark.parametrize("size", [64, 512])
def test_no_plan_is_quicker_than_the_memory(size, backend):
    diagram = group.find(cd.library.get("average_pool").diagram, ["n", "y", "x", "c"])
    sizes = {"n": 8, "h": 2 * size, "w": 2 * size, "c": 64, "y": size, "x": size}
    plan = fit(diagram, "H100", sizes, backend=backend)
    assert at(io(diagram, dtype="bf16").transfers, sizes, plan.tiles) == 2 * 5 * 8 * 64 * size * size
    assert plan.utilization <= 1


def test_quick(calls):
    diagrams = form("conv1d", "c", "y o"), grouped(3, 2, 1)

    def counted():
        io(diagrams[0]).optimum()
        io(diagrams[1])

    work = calls(counted)
    assert work < 6_000_000


@pytest.mark.parametrize("streamed", ["", "c", "k"])
def test_sizes_that_leave_the_array_are_refused(streamed):
    diagram = form("conv1d", streamed, "y")
    sizes = {"n": 1, "x": 5, "k": 4, "y": 4, "c": 1, "o": 1}
    arrays = [np.ones((1, 5, 1)), np.ones((4, 1, 1))]
    told = r"view\[x → y k\] reads axis 'x' at y \+ k, which is up to 6: expected 0 to 4; axis 'y' is 4, and 2 or less"
    for tiles in ({}, {"g_y": 3}):
        with pytest.raises(cd.errors.SizeError, match=told):
            count(diagram, sizes, tiles)
        with pytest.raises(cd.errors.SizeError, match=told):
            run(diagram, arrays, tiles, sizes={"y": 4})
        with pytest.raises(cd.errors.SizeError, match=told):
            count_levels(diagram, sizes, ("HBM", "SMEM", "registers"), {"SMEM": tiles})
        assert count(diagram, {**sizes, "y": 2}, tiles).load
        assert count(diagram, {**sizes, "x": 7}, tiles).load


def test_sizes_that_leave_the_padding_are_refused():
    padded = cd.algorithm("x c, k c -> y")(
        lambda a, w: cd.einsum("y k c, k c -> y", cd.window(a, "x", "y k", pad=(1, 1)), w)
    )
    diagram = group.find(padded.diagram, ["y"])
    sizes = {"x": 5, "k": 4, "y": 5, "c": 2}
    with pytest.raises(
        cd.errors.SizeError, match="at y \\+ k, which is up to 7: expected 0 to 6; axis 'y' is 5, and 4 or"
    ):
        count(diagram, sizes, {"g_y": 2})
    assert count(diagram, {**sizes, "y": 4}, {"g_y": 3}).load
    inside = cd.algorithm("x")(lambda a: cd.sum(cd.reindex(a, "y k=3", x=lambda y, k: y + k, fill=0), "k"))
    assert count(group.find(inside.diagram, ["y"]), {"x": 5, "y": 9}, {"g_y": 4}).load == 5 + 1


def test_parts_of_a_loop_over_windows_are_as_many_as_are_best():
    sizes = {"x": 16, "k": 3, "y": 8, "c": 16, "o": 4}
    parts = convolution(padding=1, stride=2).stream("c").split("c").group("y o")
    plan = parts.plan("H200", sizes)  # parts differ between candidates, and so does what a window takes of them
    counted = count(parts.diagram, sizes, plan.tiles)
    states = plan.tiles["p_c"] * sizes["y"] * sizes["o"]  # each saved and loaded once, in four bytes
    assert plan.bytes_moved == 2 * (counted.load + counted.save - 2 * states) + 4 * 2 * states
