"""Copies of arrays that products read or write entry by entry: what they mean, where they are, and when they pay."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import of_graph
from catdiag.planner.graph_segments import StageSequence
from catdiag.planner.operand_layouts import with_copies
from catdiag.planner.partition import searching

AXES = {"b": 8, "c": 16, "i": 16, "j": 24, "k": 8, "l": 64}
TRIANGLE = {"i": 512, "j": 512, "k": 512, "c": 128}
IMAGES = {"n": 4, "c": 128, "h": 32, "w": 32, "y": 32, "x": 32, "o": 128, "p": 3, "q": 3}


def convolved(X: Any, W: Any) -> Any:
    """Windows of images, channels first."""
    windows = cd.window(cd.window(X, "h", "y p", pad=(1, 1)), "w", "x q", pad=(1, 1))
    return cd.einsum("n c y p x q, o c p q -> n o y x", windows, W)


TRIANGLES = cd.algorithm("i k c, j k c -> i j c", name="triangles")(
    lambda A, B: cd.einsum("i k c, j k c -> i j c", A, B)
)
GATED = cd.algorithm("i k c, i k c, j k c -> i j c", name="gated")(
    lambda A, G, B: cd.nn.relu(cd.einsum("i k c, j k c -> i j c", A * cd.nn.sigmoid(G), B)) * 2
)


@st.composite
def products(draw: st.DrawFn) -> tuple[cd.Program, dict[str, int]]:
    """A product of two arrays, with axes in any order, some split off others, and functions before and after it."""
    batch, rows, columns, summed = (
        draw(st.lists(st.sampled_from(names), min_size=least, unique=True))
        for names, least in (("bc", 0), ("i", 1), ("j", 1), ("kl", 1))
    )
    first, second, result = (
        " ".join(draw(st.permutations(names)))
        for names in ([*batch, *rows, *summed], [*batch, *columns, *summed], [*batch, *rows, *columns])
    )
    before, after = draw(st.booleans()), draw(st.booleans())
    stored = " ".join(draw(st.permutations(result.split())))

    def body(A: Any, B: Any) -> Any:
        made = cd.einsum(f"{first}, {second} -> {result}", cd.exp(A) if before else A, B)
        return cd.rearrange(made * 2 if after else made, f"{result} -> {stored}")

    program = cd.algorithm(f"{first}, {second} -> {stored}", name="product")(body)
    return program, {name: AXES[name] for name in (*batch, *rows, *columns, *summed)}


def arrays_of(program: Any, sizes: dict[str, int]) -> list[Any]:
    """Inputs of a program."""
    rng = np.random.default_rng(0)
    return [rng.normal(size=[sizes.get(str(axis.size), axis.size) for axis in ty.axes]) for ty in program.dom]


@given(products())
@settings(deadline=None, max_examples=60)
def test_the_graph_with_copies_means_the_same_and_products_in_it_have_rows(
    case: tuple[cd.Program, dict[str, int]],
) -> None:
    program, sizes = case
    made = with_copies(program.diagram.graph, sizes)
    copied = of_graph(made.graph, program.diagram.cod, program.diagram.names)
    arrays = arrays_of(program, sizes)
    np.testing.assert_allclose(cd.Program(copied).run(*arrays), program.run(*arrays), rtol=1e-9)
    types, before = made.graph.wire_types(), program.diagram.graph.wire_types()
    assert all(set(types[w].names) == set(before[v].names) for w, v in made.origin.items())
    row = StageSequence(program.diagram, copying=partial(with_copies, sizes=sizes))
    for k in range(len(row.stages)):  # copies are inputs of what reads them
        assert len(row.stages) == 1 or not with_copies(row.segment_diagram(k, k + 1).graph, sizes).copies


@given(products(), st.data())
@settings(deadline=None, max_examples=30)
def test_kernels_of_any_cut_of_a_row_with_copies_mean_the_program(
    case: tuple[cd.Program, dict[str, int]], data: st.DataObject
) -> None:
    program, sizes = case
    row = StageSequence(program.diagram, copying=partial(with_copies, sizes=sizes))
    count = len(row.stages)
    ends = sorted(data.draw(st.sets(st.integers(1, count - 1)))) if count > 1 else []
    made, _ = row.composed((span, row.segment_diagram(*span)) for span in pairwise([0, *ends, count]))
    arrays = arrays_of(program, sizes)
    np.testing.assert_allclose(cd.Program(made).run(*arrays), program.run(*arrays), rtol=1e-9)


def test_products_that_are_a_batch_along_the_last_axis_are_made_of_copies() -> None:
    plan = TRIANGLES.plan("H200", TRIANGLE)
    assert [kernel.flops > 0 for kernel in plan.kernels] == [False, False, True, False]
    assert not plan.unproved and not plan.theorem.conditional
    assert [name for name, _ in plan.saved] == ["rename [i c k]", "rename [j c k]", "einsum [i c j]"]
    assert plan.module is not None


def test_what_makes_an_array_writes_it_in_the_order_of_the_product() -> None:
    plan = GATED.plan("H200", TRIANGLE)
    (product,) = [kernel for kernel in plan.kernels if kernel.flops]
    assert not {"A", "G", "B"} & set(product.reads)
    assert any({"A", "G"} <= set(kernel.reads) for kernel in plan.kernels)  # which applies the gate and copies
    assert not plan.unproved


def test_images_are_copied_with_channels_last() -> None:
    convolution = cd.algorithm("n c h w, o c p q -> n o y x", name="convolution")(convolved)
    plan = convolution.plan("H200", IMAGES)
    (product,) = [kernel for kernel in plan.kernels if kernel.flops]
    assert all(name.endswith("c]") for name in product.reads) and not plan.unproved


@pytest.mark.parametrize("pattern", ["m k, k n -> m n", "b m k, b n k -> b m n", "t h d, h d m -> t m"])
def test_products_with_rows_are_left_alone(pattern: str) -> None:
    program = cd.algorithm(pattern, name="program")(lambda A, B: cd.einsum(pattern, A, B))
    sizes = dict.fromkeys({n for ty in program.dom for n in ty.names}, 64)
    made = with_copies(program.diagram.graph, sizes)
    assert not made.copies and made.graph == program.diagram.graph
    search = searching(program.diagram, "H200", sizes)
    assert not search.row.copies


def test_copies_have_the_type_of_what_they_are_copies_of() -> None:
    types = {"A": "fp32", "B": "bf16", "out": "bf16"}
    row = StageSequence(TRIANGLES.diagram, copying=partial(with_copies, sizes=TRIANGLE))
    found = [row.types_of(k, k + 1, types) for k in range(len(row.stages))]
    assert found[0] == {"A": "fp32", "out": "fp32"} and found[1] in ("bf16", {"B": "bf16", "out": "bf16"})


def test_what_is_copied_to_a_result_has_its_type() -> None:
    row = StageSequence(TRIANGLES.diagram, copying=partial(with_copies, sizes=TRIANGLE))
    product = next(k for k in range(len(row.stages)) if row.segment_diagram(k, k + 1).boxes[-1].name == "einsum")
    found = row.types_of(product, product + 1, {"A": "bf16", "B": "bf16", "out": "fp32"})
    assert isinstance(found, dict) and found["out"] == "fp32"
