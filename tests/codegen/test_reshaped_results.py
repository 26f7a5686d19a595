"""Results that are reshapes of what groups make: merged heads, split axes, other orders. Each group writes its tile of
the array where the result lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.codegen.triton.triton_module import module
from catdiag.runtime.module_cache import imported
from catdiag.testing import assert_counts_match
from catdiag.util.errors import NotGroupable


@cd.algorithm("h q d, h x d, h x d -> q (h d)")
def heads(Q: Any, K: Any, V: Any) -> Any:
    """Attention whose heads are merged."""
    P = cd.softmax(cd.einsum("h q d, h x d -> h q x", Q, K), "x")
    return cd.rearrange(cd.einsum("h q x, h x d -> h q d", P, V), "h q d -> q (h d)")


@cd.algorithm("t e, e (h d) -> h t d")
def keys(X: Any, W: Any) -> Any:
    """A product of which heads are split off."""
    return cd.rearrange(cd.einsum("t e, e (h d) -> t (h d)", X, W), "t (h d) -> h t d")


@cd.algorithm("h q d -> (h q) d, h q d")
def twice(A: Any) -> Any:
    """One array as it is, and merged."""
    made = cd.exp(A)
    return cd.rearrange(made, "h q d -> (h q) d"), made


@cd.algorithm("t h, t d -> t d, (h d)")
def weights(X: Any, G: Any) -> Any:
    """A gradient of weights: a sum over tokens, which groups add to, merged."""
    return 2 * G, cd.rearrange(cd.einsum("t h, t d -> h d", X, G), "h d -> (h d)")


@cd.algorithm("q d -> q 1 d, q d")
def unit(A: Any) -> Any:
    """One array with an axis of length 1, and as it is."""
    made = cd.exp(A)
    return cd.rearrange(made, "q d -> q 1 d"), made


HEADS = [(3, 19, 5), (3, 21, 5), (3, 21, 5)]
CASES: dict[str, tuple[Callable[[], cd.Program], dict[str, int], list[tuple[int, ...]]]] = {
    "heads": (lambda: heads.stream("x").group("h q"), {"g_h": 1, "g_q": 16, "s_x": 16}, HEADS),
    "tiles of heads": (lambda: heads.stream("x").group("h q"), {"g_h": 2, "g_q": 16, "s_x": 16}, HEADS),
    "split": (lambda: keys.stream("e").group("t"), {"g_t": 16, "s_e": 16}, [(19, 33), (33, 15)]),
    "twice": (lambda: twice.group("h q"), {"g_h": 1, "g_q": 4}, [(3, 7, 5)]),
    "unit axis": (lambda: unit.group("q d"), {"g_q": 4, "g_d": 2}, [(7, 5)]),
    "added": (lambda: weights.group("t"), {"g_t": 4}, [(19, 3), (19, 5)]),
    "saved and read again": (
        lambda: cd.algorithm("h q d, q -> q (h d), q")(
            lambda A, b: (lambda e: (cd.rearrange(e, "h q d -> q (h d)"), cd.sum(cd.sum(e, "h"), "d") * b))(cd.exp(A))
        ).fuse(saved="exp [h q d]"), {}, [(3, 7, 5), (7,)],
    ),
}  # fmt: skip


SIZES = {"h": 3, "d": 5}


def results(made: Any) -> tuple[Any, ...]:
    return made if isinstance(made, tuple) else (made,)


@pytest.mark.parametrize("name", CASES)
def test_groups_of_what_is_reshaped_are_proved(name: str) -> None:
    derived, tiles, shapes = CASES[name]
    form = derived()
    assert not form.theorem.conditional
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    want = cd.Program(form.source).run(*arrays, sizes=SIZES)
    for got, known in zip(results(form.run(*arrays, tiles=tiles, sizes=SIZES)), results(want), strict=True):
        np.testing.assert_allclose(got, known, rtol=1e-9, atol=1e-9)


def test_the_reshape_moves_nothing() -> None:
    plain = cd.algorithm("h q d, h x d, h x d -> h q d")(
        lambda Q, K, V: cd.einsum("h q x, h x d -> h q d", cd.softmax(cd.einsum("h q d, h x d -> h q x", Q, K), "x"), V)
    )
    form, other = heads.stream("x").group("h q"), plain.stream("x").group("h q")
    assert form.io().transfers == other.io().transfers and form.io().memory == other.io().memory
    assert module(form, CASES["heads"][1]).text.count("@triton.jit\ndef _heads") == 1


def test_attention_whose_heads_are_merged_is_one_kernel() -> None:
    plan = heads.plan("H200", {"h": 8, "q": 1024, "x": 1024, "d": 64})
    assert plan.backend == "triton" and len(plan.kernels) == 1 and not plan.theorem.conditional


def test_parts_of_an_array_are_read_in_place_by_the_next_kernel() -> None:
    @cd.algorithm("t e, e (p d) -> t d")
    def attention(X: Any, W: Any) -> Any:
        Y = cd.rearrange(cd.einsum("t e, e (p d) -> t (p d)", X, W), "t (p d) -> t p d")
        Q, K, V = (cd.reindex(Y, "", p=k) for k in range(3))
        P = cd.softmax(cd.einsum("t d, s d -> t s", Q, K.rename(t="s")), "s")
        return cd.einsum("t s, s d -> t d", P, V.rename(t="s"))

    plan = attention.plan("H200", {"t": 2048, "e": 1024, "p": 3, "d": 64})
    assert not plan.unproved and plan.module is not None, plan.reason
    assert len(plan.kernels) > 1 and "what is not in groups" not in plan.module.text
    assert_counts_match(plan.derivation, 2, sizes={"p": 3})


def test_an_axis_of_length_1_is_added_by_the_kernel_that_makes_the_array() -> None:
    @cd.algorithm("b d, d e -> b 1 e")
    def step(X: Any, W: Any) -> Any:
        return cd.rearrange(cd.maximum(cd.einsum("b d, d e -> b e", X, W), 0), "b e -> b 1 e")

    plan = step.plan("H200", {"b": 64, "d": 512, "e": 512})
    assert not plan.unproved and len(plan.kernels) == 1 and plan.module is not None


def test_results_are_repeated_along_an_axis_that_nothing_read_has() -> None:
    torch = pytest.importorskip("torch")

    class Repeated(torch.nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any) -> Any:
            return torch.exp(x)[None, :].expand(16, -1)

    program = cd.from_torch(Repeated(), torch.zeros(1024))
    plan = program.plan("H200", program.example.sizes)
    assert not plan.unproved and plan.module is not None
    with pytest.raises(NotGroupable, match="no array that groups read has it"):
        program.group("a")


def test_each_result_is_written_by_a_kernel_in_tiles() -> None:
    @cd.algorithm("t e, e (h d), f (h d) -> h t d, t (h d), t f, e t, t e")
    def several(X: Any, W: Any, U: Any) -> Any:
        Y = cd.einsum("t e, e (h d) -> t (h d)", X, W)
        mask = cd.where(cd.index("e") <= cd.index("t"), 1.0, 0.0)
        split = cd.rearrange(Y, "t (h d) -> h t d")
        return split, Y, cd.einsum("t (h d), f (h d) -> t f", Y, U), cd.rearrange(X, "t e -> e t"), mask

    plan = several.plan("H200", {"t": 4096, "e": 1024, "f": 1024, "h": 16, "d": 64}, several=True)
    assert not plan.theorem.conditional and plan.module is not None
    assert len(plan.module.kernels) == len(plan.kernels) and "what is not in groups" not in plan.module.text
    written = sum(t.hbm_bytes for t in plan.kernels)
    assert written >= plan.lower_bound.hbm_bytes


def test_rows_that_are_short_are_written_several_at_a_time() -> None:
    for size in (128, 64):
        moved = cd.algorithm("b t h d -> b h t d")(lambda A: cd.rearrange(cd.exp(A), "b t h d -> b h t d"))
        plan = moved.plan("H200", {"b": 8, "t": 4096, "h": 32, "d": size})
        assert plan.time_s < 1.3 * plan.lower_bound.seconds


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
@pytest.mark.parametrize("name", CASES)
def test_kernels_write_where_the_result_lies(name: str) -> None:
    import torch

    derived, tiles, shapes = CASES[name]
    form = derived()
    made = module(form, tiles, "fp32")
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    launch, sizes = getattr(imported(made.text, made.entry), made.entry), {n: SIZES[n] for n in made.hidden_sizes}
    found = launch(*(torch.tensor(a, dtype=torch.float32) for a in arrays), **sizes)
    want = cd.Program(form.source).run(*arrays, sizes=SIZES)
    for got, known in zip(results(found), results(want), strict=True):
        np.testing.assert_allclose(got.numpy(), known, rtol=2e-4, atol=2e-4)
