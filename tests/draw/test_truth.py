"""Pictures say what is counted: an array is drawn in the memory in which `io` has it."""

from __future__ import annotations

import pytest

import catdiag as cd
from catdiag.category.diagram import Diagram, diagram_of
from catdiag.draw.memory_levels import placement
from catdiag.draw.scene import Curve, Frame, Label, Shape
from catdiag.draw.string_diagram.layout import layout
from catdiag.draw.string_diagram.sheets import Sheet, sheet_of
from catdiag.rewrite.group import find as grouped
from catdiag.rewrite.stream.fold_search import find as streamed

CHAIN = ("HBM", "SMEM", "registers", "tensor cores")


@cd.algorithm("m (b k), (b k) n, m b -> m n")
def scaled_blocks(A, B, s):
    """A product by blocks of an axis, each with a scale: arrays are split before the loop."""
    blocks = cd.rearrange(A, "m (b k) -> m b k")
    return cd.einsum(
        "m b n, m b -> m n", cd.einsum("m b k, b k n -> m b n", blocks, cd.rearrange(B, "(b k) n -> b k n")), s
    )


@cd.algorithm("q d, d x -> q")
def flipped(Q, K):
    """An array is transposed before the loop that reads it."""
    return cd.max(cd.einsum("q d, x d -> q x", Q, cd.rearrange(K, "d x -> x d")), "x")


@cd.algorithm("q x, x -> q")
def twice(A, b):
    """What one loop reads, another box reads too, so that all of it is held."""
    return cd.einsum("q x, x -> q", A, b) / cd.sum(b * b, "x")


def kernel(diagram: Diagram) -> Sheet:
    """The sheet of the one group of a diagram, as it is drawn, with the names of what comes in."""
    sheet = sheet_of(diagram, lambda _: False, placement(CHAIN))
    (cell,) = [cell for cell in sheet.cells if cell.frame == "group"]
    assert cell.inner is not None
    for k, w in cell.feeds:
        cell.inner.wires[w].name = sheet.wires[cell.inputs[k]].name
    return cell.inner


@pytest.mark.parametrize(
    ("diagram", "axis", "tiles"),
    [(scaled_blocks, "k", "m n"), (flipped, "x", "q"), (cd.library.get("attention"), "x", "q"), (twice, "x", "q")],
    ids=["split", "transposed", "plain", "held"],
)
def test_arrays_that_come_in_blocks_are_in_slow_memory_up_to_their_loop(diagram, axis, tiles):
    found = grouped(streamed(diagram_of(diagram), axis).diagram, tiles.split())
    (counted,) = cd.Program(found).io().account.kernels
    roles = {t.array: t.role for t in counted.transfers if t.direction == "load"}
    sheet = kernel(found)
    drawn = {w.name: "operand" if w.level else "streamed" for w in sheet.wires if w.name}
    assert drawn == roles
    # And views of them are, which are the same arrays.
    for cell in sheet.cells:
        if cell.frame is None and cell.kind in ("reindex", None):
            assert {sheet.wires[w].level for w in (*cell.inputs, *cell.outputs)} == {cell.level}


def test_positions_are_at_the_level_of_what_reads_them():
    found = grouped(cd.library.get("conv1d").diagram, ["y"])
    sheet = kernel(found)
    sources = [cell for cell in sheet.cells if cell.kind == "source"]
    assert len(sources) == 2
    for cell in sources:
        assert [sheet.wires[w].level for w in cell.outputs] == [cell.level]


XY, Y = cd.category.ArrayType((cd.Axis("x"), cd.Axis("y"))), cd.category.ArrayType((cd.Axis("y"),))


@cd.algorithm("q x -> q, q")
def mean_and_spread(A):
    """The first result is made long before the second."""
    mean = cd.mean(A, "x")
    return mean, cd.sqrt(cd.mean((A - mean) ** 2, "x"))


@pytest.mark.parametrize(
    "diagram",
    [mean_and_spread, cd.copy(XY), cd.swap(XY, Y), cd.copy(XY) >> cd.box("f", XY, Y) @ cd.id(XY), cd.id(XY)],
    ids=["early", "copied", "swapped", "passed", "only"],
)
def test_results_are_labelled_where_they_leave(diagram):
    scene = layout(diagram_of(diagram))
    said = [(item.x, item.y - 3.4) for item in scene.items if isinstance(item, Label) and item.role == "axis"]
    ends = [(f"out{k}.{name}") for k, ty in enumerate(diagram.cod) for name in ty.names]
    assert ends
    for end in ends:
        x, y = scene.ports[end]
        assert any(x - 20 < a < x and abs(b - y) < 0.01 for a, b in said), end


def test_of_what_is_read_in_place_a_window_is_held():
    found = grouped(streamed(cd.library.get("conv1d").diagram, "c").diagram, ["n", "y", "o"])
    held = [str(amount) for amount in cd.Program(found).io().memory.as_coefficients_dict()]
    assert "g_n*g_y*s_c" in held and "g_n*k*s_c" in held  # g_n·(g_y + k - 1)·s_c
    texts = [item.text for item in layout(found).items if isinstance(item, Label) and item.role == "axis"]
    assert texts.count("g_y + k − 1") >= 1
    assert texts.count("x") == 1  # in slow memory
    pooled = grouped(cd.library.get("max_pool").diagram, ["y"])
    assert "2·g_y" in [item.text for item in layout(pooled).items if isinstance(item, Label)]


@cd.algorithm("a b, b c, c d -> a d")
def chain(A, B, C):
    """Two products: a second loop reads the result of the first."""
    return cd.einsum("a c, c d -> a d", cd.einsum("a b, b c -> a c", A, B), C)


def test_what_is_made_on_chip_stays_there_for_a_second_loop():
    found = grouped(streamed(streamed(chain.diagram, "b").diagram, "c").diagram, ["a"])
    (counted,) = cd.Program(found).io().account.kernels
    assert sorted(t.array for t in counted.transfers if t.direction == "load") == ["A", "B", "C"]
    sheet = kernel(found)
    first, second = (cell for cell in sheet.cells if cell.frame == "fold")
    (made,) = first.outputs
    (inner,) = [w for k, w in second.feeds if second.inputs[k] == made]
    assert second.inner is not None
    assert second.inner.wires[inner].level == sheet.wires[made].level == 2


@cd.algorithm("q x -> q x")
def unit_rows(A):
    return A / cd.sqrt(cd.sum(A * A, "x"))


def test_a_loop_before_a_group_is_a_kernel_whose_result_goes_through_slow_memory():
    found = unit_rows.stream("x", passes=2).group("q").diagram
    loaded = [[t.array for t in k.transfers if t.direction == "load"] for k in cd.Program(found).io().account.kernels]
    assert loaded == [["A"], ["A", "sqrt [q]"]]
    scene = layout(found, levels=CHAIN)
    root = next(item for item in scene.items if isinstance(item, Shape) and item.title.startswith("sqrt"))
    assert root.level == 2  # done on chip
    group = next(item for item in scene.items if isinstance(item, Frame) and item.kind == "group")
    ends = [item for item in scene.items if isinstance(item, Curve) and abs(item.places[-1][0] - group.x) < 0.01]
    assert len(ends) == 3 and {item.level for item in ends} == {0}
