"""Summed axes that stand together, merged: which ones are, what that means, and plans that are quicker with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.rewrite.contraction_order import equal_forms, ordered
from catdiag.rewrite.merge_axes import merged_early

SIZES = {"t": 3, "h": 2, "d": 4, "e": 3, "m": 5}

# The pattern, and what is merged.
CASES = [
    ("t h d, h d m -> t m", ["(h d)"]),
    ("t h d e, h d m e -> t m", ["(h d)"]),  # e is no neighbor in the second
    ("t h d e, m h d e -> m t", ["(h d e)"]),
    ("t d h, h d m -> t m", []),  # another order
    ("h t d, h d m -> t m", []),  # no neighbors in the first
    ("t h d, h d m -> t h m", []),  # one stays
    ("t h d, d m -> t m", []),  # h is in one of them only
    ("t h d, h d m, h d -> t m", ["(h d)"]),
]


def form_of(program: Any, sizes: dict[str, int]) -> Any:
    forms = [form for form in equal_forms(program.diagram, sizes) if form.action.merged]
    return forms[0] if forms else None


def test_axes_that_a_weight_is_split_into_are_merged_again() -> None:
    program = cd.algorithm("t h d, m (h d) -> t m", name="program")(
        lambda A, W: cd.einsum("t h d, m h d -> t m", A * A, cd.rearrange(W, "m (h d) -> m h d"))
    )
    form = form_of(program, SIZES)
    assert form is not None and list(form.action.merged) == ["(h d)"]
    made = ordered(program.derivation, form)
    assert not made.theorem.conditional
    assert [box.name for box in made.diagram.boxes if "split" in box.name] == []  # the weight is read as it lies


@pytest.mark.parametrize(("pattern", "names"), CASES)
def test_neighbors_in_all_arrays_are_merged(pattern: str, names: list[str]) -> None:
    program = cd.algorithm(pattern, name="program")(lambda *arrays: cd.einsum(pattern, *arrays))
    sizes = {n: SIZES[n] for ty in program.dom for n in ty.names}
    form = form_of(program, sizes)
    assert (list(form.action.merged) if form else []) == names
    if form is None:
        return
    made = ordered(program.derivation, form)
    assert not made.theorem.conditional and made.source == program.diagram
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=[sizes[n] for n in ty.names]) for ty in program.dom]
    np.testing.assert_allclose(cd.Program(made).run(*arrays), program.run(*arrays), rtol=1e-9)


def test_only_what_is_a_view_in_memory_is_merged() -> None:
    @cd.algorithm("t d h, h d m -> t m")
    def transposed(A: Any, W: Any) -> Any:
        return cd.einsum("t h d, h d m -> t m", cd.rearrange(A, "t d h -> t h d"), W)

    @cd.algorithm("t h d, h d m -> t m")
    def computed(A: Any, W: Any) -> Any:
        return cd.einsum("t h d, h d m -> t m", cd.exp(A), W)

    @cd.algorithm("t h d -> t u")
    def renamed(A: Any) -> Any:
        return cd.einsum("t h d, u h d -> t u", A, A.rename(t="u"))

    sizes = {n: SIZES[n] for n in "thdm"}
    assert form_of(transposed, sizes) is None
    assert form_of(computed, sizes).action.merged == ("(h d)",)
    assert form_of(renamed, {n: SIZES[n] for n in "thd"}).action.merged == ("(h d)",)


def test_what_is_computed_and_read_once_is_laid_out_for_it() -> None:
    @cd.algorithm("h t x, h x d, h d m -> t m")
    def heads(P: Any, V: Any, W: Any) -> Any:
        return cd.einsum("h t d, h d m -> t m", cd.einsum("h t x, h x d -> h t d", P, V), W)

    @cd.algorithm("h t x, h x d, h d m -> t m, h t d")
    def returned(P: Any, V: Any, W: Any) -> Any:
        made = cd.einsum("h t x, h x d -> h t d", P, V)
        return cd.einsum("h t d, h d m -> t m", made, W), made

    sizes = {"h": 2, "t": 3, "x": 4, "d": 4, "m": 5}
    form = form_of(heads, sizes)
    assert form.action.merged == ("(h d)",)
    assert [(box.name, str(box.cod)) for box in form.diagram.boxes[:2]] == [
        ("einsum", "[h t d]"),
        ("rename", "[t h d]"),
    ]
    assert form_of(returned, sizes) is None
    made = ordered(heads.derivation, form)
    assert not made.theorem.conditional
    arrays = [np.random.default_rng(k).normal(size=s) for k, s in enumerate([(2, 3, 4), (2, 4, 4), (2, 4, 5)])]
    np.testing.assert_allclose(cd.Program(made).run(*arrays), heads.run(*arrays), rtol=1e-9)


def test_axes_of_size_one_are_left_alone() -> None:
    program = cd.algorithm("t h d, h d m -> t m")(lambda A, W: cd.einsum("t h d, h d m -> t m", A, W))
    assert form_of(program, {**SIZES, "h": 1}) is None


def early(scores: Any, A: Any, B: Any) -> Any:
    return cd.einsum("t h d, h d m -> t m", scores(A, B), B)


EARLY = {
    "scalar functions": lambda A, B: cd.exp(A) * cd.sum(B, "m"),
    "positions": lambda A, B: cd.where(cd.index("d") <= cd.index("t"), A * A, cd.index("h") * A),
    "products and broadcasts": lambda A, B: cd.einsum("t h d, h d m -> t h d", A, B) + cd.index("d"),
    "arrays of one of the axes": lambda A, B: A * cd.max(cd.max(A, "t"), "h"),
}


@pytest.mark.parametrize("name", EARLY)
def test_axes_are_merged_of_what_an_array_is_computed_of(name: str) -> None:
    program = cd.algorithm("t h d, h d m -> t m", name="early")(lambda A, B: early(EARLY[name], A, B))
    made = cd.Program(merged_early(program.diagram, SIZES))
    last = made.graph.nodes[-1]
    assert all("(h d)" in ty.names for ty in last.box.dom)
    assert not any({"h", "d"} <= set(box.dom[0].names) for box in made.boxes if box.name == "mul")
    assert not cd.prove(program, made).conditional
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=[SIZES[n] for n in ty.names]) for ty in program.dom]
    np.testing.assert_allclose(made.run(*arrays), program.run(*arrays), rtol=1e-9)


def test_nothing_is_merged_early_of_inputs_or_where_nothing_is_summed() -> None:
    for signature, function in (("x", cd.exp), ("t h d -> t h", lambda A: cd.sum(cd.exp(A), "d"))):
        diagram = cd.algorithm(signature)(function).diagram
        assert merged_early(diagram, SIZES) is diagram
