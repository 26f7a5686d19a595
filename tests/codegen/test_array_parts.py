"""Parts of arrays at fixed positions: which are tensors of the launch, and which entries these have."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.codegen.syntax import Number
from catdiag.codegen.triton.array_accesses import Pull, StoredArray, viewed
from catdiag.codegen.triton.array_parts import stored_part, tensor_of
from catdiag.schedule.array_views import picks_entries

PACKED = {"b": 8, "t": 512, "h": 12, "d": 64}


@cd.algorithm("b t (k=3 h d) -> b t h d", name="packed")
def packed(X: Any) -> Any:
    """Attention of queries, keys and values that one projection makes."""
    Q, K, V = (cd.gather(cd.rearrange(X, "b t (k h d) -> b t k h d"), "k", n) for n in range(3))
    K, V = K.rename(t="x"), V.rename(t="x")
    weights = cd.softmax(cd.einsum("b t h d, b x h d -> b h t x", Q, K) / 8, "x")
    return cd.einsum("b h t x, b x h d -> b t h d", weights, V)


class Numbers:
    """An array with the methods of tensors that launches call."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def permute(self, order: tuple[int, ...]) -> Numbers:
        return Numbers(self.array.transpose(order))

    def select(self, axis: int, place: int) -> Numbers:
        return Numbers(self.array.take(place, axis))

    def unflatten(self, axis: int, sizes: tuple[int, ...]) -> Numbers:
        return Numbers(self.array.reshape(*self.array.shape[:axis], *sizes, *self.array.shape[axis + 1 :]))


@given(st.permutations(["q", "(h k m)", "d"]), st.permutations(["q", "h", "k", "m", "d"]), st.data())
@settings(deadline=None, max_examples=40)
def test_the_tensor_of_a_part_has_its_entries(stored: list[str], order: list[str], data: st.DataObject) -> None:
    sizes = {"q": 5, "h": 2, "k": 3, "m": 4, "d": 2}
    picked = data.draw(st.lists(st.sampled_from("hkm"), unique=True, min_size=1))
    split = " ".join(stored)

    def part(A: Any) -> Any:
        made = cd.rearrange(A, f"{split} -> {' '.join(order)}")
        for name in picked:
            made = cd.gather(made, name, data.draw(st.integers(0, sizes[name] - 1)))
        return made

    program = cd.algorithm(split.replace("(h k m)", "(h=2 k=3 m=4)"))(part)
    pull: Pull = StoredArray(program.dom[0], "A")
    pulls: list[Pull] = [pull]
    for node in program.diagram.graph.nodes:
        pulls.append(viewed(node.box, [pulls[w] for w in node.inputs]))
    last = pulls[program.diagram.graph.outputs[0]]
    assert stored_part(last) is pull
    expression = str(tensor_of(last, lambda size: Number(sizes.get(str(size), size))))  # type: ignore[arg-type]
    array = np.random.default_rng(0).normal(size=[{"(h k m)": 24, **sizes}[name] for name in stored])
    np.testing.assert_array_equal(eval(expression, {"A": Numbers(array)}).array, program.run(array))


def test_windows_and_gathers_are_no_tensors() -> None:
    boxes = [
        *cd.algorithm("q x")(lambda A: cd.window(A, "x", "y k=3")).boxes,
        *cd.algorithm("q x, int[t] -> t x")(lambda A, ids: cd.gather(A, "q", ids)).boxes,
        *cd.algorithm("q x")(lambda A: cd.stride(A, "x", "y", 2)).boxes,
    ]
    assert not any(picks_entries(box.op) for box in boxes)


def test_parts_of_one_projection_are_read_by_boxes_in_the_kernel_of_attention() -> None:
    plan = packed.plan("H200", PACKED)
    text = plan.code("triton")
    assert len(plan.kernels) == 1 and not plan.unproved
    parts = re.findall(r"    (\w+) = X\.unflatten\(2, \(3, h, d\)\)\.select\(2, (\d)\)\n", text)
    assert {"1", "2"} <= {place for _, place in parts}
    assert all(f"{name}_blocks" in text for name, place in parts if place != "0")


def test_parts_of_a_result_are_read_as_they_are_planned() -> None:
    def layer(Y: Any, W: Any) -> Any:
        X = cd.einsum("b t e, e (k h d) -> b t (k h d)", Y, W)
        return cd.rearrange(X, "b t (k h d) -> b t k h d"), packed(X)

    program = cd.algorithm("b t e, e (k=3 h d) -> b t k=3 h d, b t h d", name="layer")(layer)
    plan = program.plan("H200", {**PACKED, "e": 768})
    assert plan.module is not None, plan.reason
    assert ".select(2, 1)" in plan.code("triton")
