"""Products of several arrays, two at a time: what they mean, that no order multiplies less, and plans made of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import Diagram
from catdiag.category.ops import Einsum, Map
from catdiag.category.types import size_value
from catdiag.measure.bench_case import case_of
from catdiag.rewrite.contraction_order import Reassociation, equal_forms, ordered, reassociated

PATTERNS = [
    "a b, b c, c d -> a d",
    "a b, b c, c d, d e -> e a",
    "t i, t j, i j o -> t o",
    "i r, j r, k r, r -> k i j",
    "i, j, i j ->",
    "a, a b, , c -> b c",
    "t t2, t2, t -> t2",
]


@cache
def program(pattern: str) -> Diagram:
    return cd.algorithm(pattern, name="program")(lambda *arrays: cd.einsum(pattern, *arrays))


def least(arrays: tuple[frozenset[str], ...], result: frozenset[str], sizes: dict[str, int]) -> int:
    """The multiplications of the best order, by trying all of them."""
    if len(arrays) == 1:
        return 0

    def ways() -> Iterator[int]:
        for i in range(len(arrays)):
            for j in range(i):
                rest = tuple(a for k, a in enumerate(arrays) if k not in (i, j))
                both = arrays[i] | arrays[j]
                kept = both & result.union(*rest)
                yield math.prod(sizes[n] for n in both) + least((*rest, kept), result, sizes)

    return min(ways())


def work(diagram: Diagram, sizes: dict[str, int]) -> int:
    return sum(
        math.prod(size_value(a.size, sizes) for a in {a for ty in box.dom for a in ty.axes})
        for box in diagram.boxes
        if isinstance(box.op, Einsum) or box.op == Map("mul")
    )


def rebuilt(source: Any, sizes: dict[str, int]) -> Reassociation:
    found = reassociated(source.diagram, sizes)
    assert found is not None
    return found


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_they_mean_the_same_and_no_order_multiplies_less(data: st.DataObject) -> None:
    source = program(data.draw(st.sampled_from(PATTERNS)))
    names = sorted({n for ty in source.dom for n in ty.names})
    sizes = {n: data.draw(st.sampled_from([1, 2, 3, 7])) for n in names}
    made = rebuilt(source, sizes).diagram
    assert (made.dom, made.cod, made.names) == (source.dom, source.cod, source.names)
    assert all(len(box.dom) == 2 for box in made.boxes)
    assert work(made, sizes) == least(
        tuple(frozenset(t.names) for t in source.dom), frozenset(source.cod[0].names), sizes
    )
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=[sizes[n] for n in ty.names]) for ty in source.dom]
    np.testing.assert_allclose(cd.Program(made).run(*arrays), source.run(*arrays), rtol=1e-9, atol=1e-12)


def test_products_of_two_are_left_as_they_are() -> None:
    matmul = cd.library.get("matmul").diagram
    assert reassociated(matmul, {"a": 8, "b": 8, "c": 8}) is None
    with pytest.raises(cd.errors.SizeError, match="'b'"):
        reassociated(program(PATTERNS[0]).diagram, {"a": 1, "c": 1, "d": 1})


def test_a_chain_is_planned_as_products_of_matrices() -> None:
    chain = program(PATTERNS[0])
    sizes = {"a": 4096, "b": 512, "c": 512, "d": 4096}
    plans = chain.plan("H200", sizes)
    assert plans.source is chain.diagram and not plans.theorem.conditional
    assert plans.flops == 2 * (4096 * 512 * 512 + 4096 * 512 * 4096)
    assert case_of(chain, sizes).flops == plans.flops  # and not 3·a·b·c·d
    arrays = [np.random.default_rng(k).normal(size=s) for k, s in enumerate([(7, 5), (5, 3), (3, 6)])]
    found = cd.Program(plans.derivation).run(*arrays, tiles=dict.fromkeys(plans.tiles, 2))
    np.testing.assert_allclose(found, chain.run(*arrays), rtol=1e-9)


@pytest.mark.slow
def test_one_kernel_of_another_order_is_about_what_was_written() -> None:
    form = program("t x, x y, t y -> t")
    plans = form.plan("H200", {"t": 8192, "x": 512, "y": 512})
    assert len(plans.kernels) == 1 and plans.derivation.steps[0].name == "reassociate"
    assert plans.derivation.source == form and not plans.theorem.conditional
    assert all(not step.theorem.conditional for step in plans.derivation.steps)


# -- regions: contractions in a row, and what stands between them -----------------------------------------------------


@cd.algorithm("q d, x d, x v -> q v")
def linear(Q: Any, K: Any, V: Any) -> Any:
    return cd.einsum("q x, x v -> q v", cd.einsum("q d, x d -> q x", Q, K) / cd.sqrt(cd.size("d")), V)


@cd.algorithm("q d, x d, x v -> q v")
def normalized(Q: Any, K: Any, V: Any) -> Any:
    weights = cd.einsum("q d, x d -> q x", cd.exp(Q), cd.exp(K))
    return cd.einsum("q x, x v -> q v", weights, V) / cd.sum(weights, "x")


@cd.algorithm("h q d, x c, h c d, h c v -> h q v")
def latent(Q: Any, C: Any, U: Any, W: Any) -> Any:
    keys = cd.cast(cd.einsum("x c, h c d -> h x d", C, U), "bf16")
    values = cd.einsum("x c, h c v -> h x v", C, W)
    scores = cd.einsum("h q d, h x d -> h q x", Q, keys)
    return cd.einsum("h q x, h x v -> h q v", cd.softmax(scores / cd.sqrt(cd.size("d")), "x"), values)


@cd.algorithm("t d, d o, d r, r o, o -> t o")
def adapted(X: Any, W: Any, A: Any, B: Any, b: Any) -> Any:
    change = cd.einsum("t d, d o -> t o", X, cd.einsum("d r, r o -> d o", A, B))
    return cd.tanh(cd.einsum("t d, d o -> t o", X, W) + 2 * change) + b


@cd.algorithm("t d, d e, e d -> t d, t e")
def shared(X: Any, A: Any, B: Any) -> Any:
    """What lies between is a result too: it is not made twice."""
    between = cd.einsum("t d, d e -> t e", X, A)
    return cd.einsum("t e, e d -> t d", between, B), between


@cd.algorithm("x y, x z, z -> y")
def renamed(A: Any, B: Any, c: Any) -> Any:
    """The inner sum is over an axis of the same name as one outside."""
    inner = cd.einsum("x y, x z -> y z", A, B).rename(y="x")
    return cd.einsum("x z, z -> x", inner, c).rename(x="y")


FEW = {"d": 3, "v": 2, "q": 50, "x": 60, "h": 2, "c": 4, "t": 30, "o": 20, "r": 2, "e": 9, "y": 30, "z": 31}
REGIONS: dict[str, tuple[Any, dict[str, int], dict[str, int]]] = {
    "linear": (linear, {}, {"q": 40, "x": 40, "d": 400, "v": 400}),
    "normalized": (normalized, {}, {"q": 40, "x": 40, "d": 400, "v": 400}),
    "latent": (latent, {"q": 1, "d": 4}, {"q": 400, "x": 400, "c": 400, "d": 20, "v": 20}),
    "adapted": (adapted, {}, {"t": 400, "d": 400, "o": 400, "r": 400}),
    "renamed": (renamed, {}, {"x": 30, "y": 1, "z": 30}),
}


@pytest.mark.parametrize("name", REGIONS)
def test_a_region_is_taken_in_the_order_that_multiplies_least(name: str) -> None:
    source, put, where_not = REGIONS[name]
    sizes = {n: {**FEW, **put}[n] for ty in source.dom for n in ty.names}
    found = rebuilt(source, sizes)
    assert found.work[1] < 0.9 * found.work[0] and work(found.diagram, sizes) <= found.work[1]
    made = source.reassociate(sizes)
    assert made.source == source.diagram and not made.theorem.conditional and made.steps[0].name == "reassociate"
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=[sizes[n] for n in ty.names]) for ty in source.dom]
    np.testing.assert_allclose(made.run(*arrays), source.run(*arrays), rtol=1e-2 if name == "latent" else 1e-9)
    assert source.reassociate({**sizes, **where_not}).diagram == source.diagram


def test_absorption_leaves_neither_keys_nor_values() -> None:
    sizes = {n: {**FEW, "q": 1}[n] for ty in latent.dom for n in ty.names}
    made = [box.cod[0].names for box in rebuilt(latent, sizes).diagram.boxes]
    assert not any({"x", "d"} <= set(names) or {"x", "v"} <= set(names) for names in made)


def test_what_is_a_result_is_not_made_twice() -> None:
    assert shared.reassociate({"t": 3, "d": 40, "e": 50}) == shared
    assert sum(isinstance(box.op, Einsum) for box in rebuilt(shared, {"t": 900, "d": 2, "e": 900}).diagram.boxes) == 3


def test_a_region_ends_at_what_other_products_read_anyway() -> None:
    """The scores are gone, and what queries, keys and gates are made of is made once, and not again for values."""

    @cd.algorithm("q e, e, e d, e d, e v, e v -> q v")
    def layer(X: Any, g: Any, A: Any, B: Any, C: Any, D: Any) -> Any:
        N = X * g
        Q, K = (cd.exp(cd.einsum("q e, e d -> q d", N, W)) for W in (A, B))
        V, G = (cd.einsum("q e, e v -> q v", N, W) for W in (C, D))
        S = cd.einsum("q d, x d -> q x", Q, K.rename(q="x"))
        return cd.tanh(G) * cd.einsum("q x, x v -> q v", S, V.rename(q="x")) / cd.sum(S, "x")

    found = rebuilt(layer, {"q": 5000, "e": 90, "d": 30, "v": 40})
    types = [box.cod[0].names for box in found.diagram.boxes]
    assert not any({"q", "x"} <= set(names) for names in types)
    inputs, uses = range(len(found.diagram.dom)), [w for n in found.diagram.graph.nodes for w in n.inputs]
    assert [uses.count(w) for w in inputs] == [1] * 6, "each input is read once: X · g is not opened"


def test_a_named_box_with_products_is_opened_and_others_stay() -> None:
    mixed = cd.algorithm("q d, x d, x v -> q v", name="mixed")(lambda *arrays: cd.softmax(linear(*arrays), "v"))
    made = rebuilt(mixed, {"q": 50, "x": 60, "d": 3, "v": 2})
    assert [box.name for box in made.diagram.boxes][-2:] == ["einsum", "softmax"]


def test_a_region_in_the_middle_of_a_program_is_planned_and_proved_by_itself() -> None:
    @cd.algorithm("t d, d r, r d, d f, f d -> t d")
    def block(X: Any, A: Any, B: Any, U: Any, W: Any) -> Any:
        low = X + cd.tanh(
            cd.einsum("t d, d e -> t e", X, cd.einsum("d r, r e -> d e", A, B.rename(d="e"))).rename(e="d")
        )
        return low + cd.einsum("t f, f d -> t d", cd.tanh(cd.einsum("t d, d f -> t f", low, U)), W)

    sizes = {"t": 4096, "d": 2048, "r": 16, "f": 2048}
    plan = block.plan("H200", sizes)
    assert plan.source == block.diagram and not plan.theorem.conditional and len(plan.kernels) > 1
    assert plan.flops < 1.1 * 4 * 4096 * 2048 * 2048  # and not half as many again for X(AB)
    assert len(plan.theorem.certificate["proof"]["parts"]) > 1
    arrays = [np.random.default_rng(k).normal(size=s) for k, s in enumerate([(3, 4), (4, 2), (2, 4), (4, 5), (5, 4)])]
    found = cd.Program(plan.derivation).run(*arrays, tiles=dict.fromkeys(plan.tiles, 2))
    np.testing.assert_allclose(found, block.run(*arrays), rtol=1e-9)


@pytest.fixture(scope="module")
def scaled_blocks() -> cd.Program:
    """A product of arrays in blocks along their summed axis, each with a scale, as numbers of 8 bits are stored."""
    return cd.algorithm("t b c, t b, o b c, o b -> t o", name="scaled_blocks")(
        lambda X, x, W, w: cd.einsum("t b c, t b, o b c, o b -> t o", X, x, W, w)
    )


def test_blocks_are_multiplied_before_they_are_scaled(scaled_blocks: cd.Program) -> None:
    sizes = {"t": 64, "b": 4, "c": 128, "o": 64}
    forms = {str(form.action): form for form in equal_forms(scaled_blocks.diagram, sizes)}
    last = forms["reassociate, scale last"]
    first = last.diagram.boxes[0]
    assert [set(ty.names) for ty in first.dom] == [{"t", "b", "c"}, {"o", "b", "c"}]
    assert set(first.cod[0].names) == {"t", "b", "o"}
    assert not ordered(scaled_blocks.derivation, last).theorem.conditional
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in ((3, 2, 4), (3, 2), (5, 2, 4), (5, 2))]
    np.testing.assert_allclose(cd.Program(last.diagram)(*arrays), np.einsum("tbc,tb,obc,ob->to", *arrays))


def test_only_scales_of_blocks_give_that_form() -> None:
    for pattern in PATTERNS:
        sizes = dict.fromkeys(pattern.replace(",", " ").replace("->", " ").split(), 8)
        assert not any(form.action.scales for form in equal_forms(program(pattern), sizes))


def test_products_of_8_bits_in_blocks_read_them_as_they_are_stored(scaled_blocks: cd.Program) -> None:
    types = {"X": "fp8", "W": "fp8", "x": "fp32", "w": "fp32", "out": "bf16"}
    plan = scaled_blocks.plan("H200", {"t": 4096, "b": 32, "c": 128, "o": 4096}, dtype=types)
    text = plan.code("triton")
    assert [n for name, n in plan.tiles.items() if name.startswith("s_b")] == [1]
    assert "tl.dot(X_tile, _transposed(W_tile, compiled))" in text


def test_weights_of_attention_are_no_scales_of_its_heads() -> None:
    """They have the axis of heads, along which values and the weights after them are multiplied, and one of their
    own."""
    program = cd.algorithm("h q x, h x d, h d o -> q o", name="heads")(
        lambda P, V, W: cd.einsum("h q d, h d o -> q o", cd.einsum("h q x, h x d -> h q d", P, V), W)
    )
    forms = equal_forms(program.diagram, {"h": 8, "q": 64, "x": 64, "d": 32, "o": 256})
    assert not any(form.action.scales for form in forms)


def test_a_scale_that_fits_both_factors_is_applied_once() -> None:
    """Scores of heads that are mixed: a number is a scale of queries as well as of keys."""
    mixed = cd.algorithm("g h, h q d, h x d,  -> g q x", name="mixed_heads")(
        lambda A, Q, K, c: cd.einsum("g h, h q x -> g q x", A, cd.einsum("h q d, h x d -> h q x", Q, K) * c)
    )
    forms = equal_forms(mixed.diagram, {"g": 8, "h": 8, "q": 64, "x": 64, "d": 32})
    assert "first" in {form.action.scales for form in forms}
    for form in forms:
        assert not ordered(mixed.derivation, form).theorem.conditional
