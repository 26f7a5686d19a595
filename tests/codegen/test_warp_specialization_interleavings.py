"""Kernels whose loads are apart, run without a GPU: right however they interleave, and no wait may be left out."""

from __future__ import annotations

import inspect
import random
import re
from functools import cache

import numpy as np
import pytest

import catdiag as cd
from catdiag import library
from catdiag.category.diagram import Diagram
from catdiag.codegen.triton.triton_module import Module, module
from catdiag.frontend import builder
from catdiag.frontend.elementwise import tanh, where
from catdiag.frontend.nn import inf, relu
from catdiag.frontend.tracing import Traced

torch = pytest.importorskip("torch")
from tests.codegen.gluon_layouts import GluonError  # noqa: E402
from tests.codegen.gluon_machine import load  # noqa: E402

pytestmark = [pytest.mark.triton, pytest.mark.usefixtures("one_thread")]


def boxed(tensor: torch.Tensor, shape: list[int]) -> bool:
    """What the launch asks of a tensor for boxes, but that it lies on a GPU."""
    size = tensor.element_size()
    return max(shape) <= 256 and all(s > 0 and s * size % 16 == 0 for s in tensor.stride()[:-1])


def error(text: str, made: Module, program: Diagram, sizes: dict[str, int], seed: int, **options: int) -> float:
    """The largest error of what a kernel gives, against the program in float64, over the largest result."""
    source, args, exact = np.random.default_rng(seed), [], []
    for array in made.inputs:
        shape = tuple(sizes[str(axis.size)] for axis in array.ty.axes)
        if array.ty.element == "int":
            number = np.asarray(source.integers(1, 90, shape))
        elif array.ty.element == "bool":
            number = np.asarray(source.random(shape) < 0.7)
        else:
            number = np.asarray(source.standard_normal(shape))
        if not shape:
            args.append(number.item())
        else:
            real = array.ty.element in ("real", "extended")
            args.append(torch.from_numpy(number).to(getattr(torch, array.dtype)) if real else torch.from_numpy(number))
            number = args[-1].double().numpy() if real else number
        exact.append(number)
    scope = load(text, seed=seed, name="written.py")
    scope["_boxed"] = boxed
    launch = scope[made.entry]
    named = {n: v for n, v in sizes.items() if n in inspect.signature(launch).parameters}
    got, want = launch(*args, **named, **options), program.run(*exact, sizes=sizes)
    worst = 0.0
    for g, w in zip(
        got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,), strict=True
    ):
        difference = np.abs(g.double().numpy() - w)
        assert not np.isnan(difference).any()
        worst = max(worst, float(difference.max() / np.abs(w).max()))
    return worst


@cd.algorithm("q d, x d, x v, x v, q -> q v, q v, q")
def two_sums(Q: Traced, K: Traced, V: Traced, W: Traced, g: Traced) -> tuple[Traced, Traced, Traced]:
    S = 3 * tanh(builder.einsum("q d, x d -> q x", Q, K) * 0.1 + g)
    kept = where(builder.index("x") <= builder.index("q"), S, -inf)
    weights = builder.softmax(kept, "x")
    first, second = (builder.einsum("q x, x v -> q v", weights, A) for A in (V, W))
    return first, second, builder.max(kept, "x")


@cd.algorithm("q d, x d, x d, bool[q x], q d -> q d")
def masked_powers(Q: Traced, K: Traced, V: Traced, M: Traced, G: Traced) -> Traced:
    S = where(M, builder.einsum("q d, x d -> q x", Q, K) * 0.2, 0)
    return builder.einsum("q x, x d -> q d", relu(S) + S * S, V) + relu(G)


@cd.algorithm("q d, x d, x v, q v, q, q -> x d, x v")
def key_gradients(Q: Traced, K: Traced, V: Traced, dO: Traced, L: Traced, D: Traced) -> tuple[Traced, Traced]:
    P = builder.exp(builder.einsum("q d, x d -> q x", Q, K) * 0.1 - L)
    dS = P * (builder.einsum("q v, x v -> q x", dO, V) - D)
    return builder.einsum("q x, q d -> x d", dS, Q), builder.einsum("q x, q v -> x v", P, dO)


HEADS = {"g_b": 1, "g_k": 1, "g_r": 1}
CASES: list[tuple[str | Diagram, dict[str, int], dict[str, int]]] = [
    ("grouped_query_attention", {"g_q": 128, "s_x": 64}, {"b": 1, "k": 1, "r": 2, "q": 130, "x": 257, "d": 64}),
    ("grouped_query_attention", {"g_q": 64, "s_x": 32}, {"b": 1, "k": 2, "r": 1, "q": 40, "x": 20, "d": 24}),
    ("differential_attention", {"g_q": 64, "s_x": 64}, {"q": 64, "x": 200, "d": 32, "v": 16}),
    ("sigmoid_attention", {"g_q": 128, "s_x": 128}, {"q": 100, "x": 384, "d": 64}),
    (two_sums, {"g_q": 128, "s_x": 32}, {"q": 150, "x": 100, "d": 16, "v": 32}),
    (masked_powers, {"g_q": 128, "s_x": 64}, {"q": 70, "x": 140, "d": 64}),
    (key_gradients, {"g_x": 128, "s_q": 64}, {"q": 330, "x": 150, "d": 32, "v": 16}),
]


@cache
def derived(name: str | Diagram) -> tuple[Diagram, Diagram]:
    """A program, and its form in streams and groups."""
    program = library.get(name) if isinstance(name, str) else name
    if name is key_gradients:
        return program, program.stream("q").group("x").diagram
    groups = "b k r q" if name == "grouped_query_attention" else "q"
    return program, program.stream("x").group(groups).diagram


def written(name: str | Diagram, tiles: dict[str, int]) -> tuple[Diagram, Module]:
    program, form = derived(name)
    heads = HEADS if name == "grouped_query_attention" else {}
    made = module(form, {**heads, **tiles}, "bf16", stages=2, warps=8, specialized=True)
    assert made.specialized
    return program, made


@pytest.mark.parametrize("case", range(len(CASES)))
def test_they_give_what_they_mean(case: int) -> None:
    name, tiles, sizes = CASES[case]
    program, made = written(name, tiles)
    for stages in (2, 3):
        warps = tiles.get("g_q", tiles.get("g_x", 0)) // 16 if stages == 2 else 4
        assert error(made.text, made, program, sizes, 7 * case + stages, num_warps=warps, num_stages=stages) < 0.02


@pytest.mark.parametrize(
    ("name", "tiles", "sizes", "spared"),
    [
        ("grouped_query_attention", {"g_q": 128, "s_x": 32}, {"b": 1, "k": 1, "r": 1, "q": 128, "x": 330, "d": 16}, 2),
        (key_gradients, {"g_x": 128, "s_q": 32}, {"q": 330, "x": 128, "d": 16, "v": 16}, 3),
    ],
)
def test_each_wait_and_arrival_is_needed(
    name: str | Diagram, tiles: dict[str, int], sizes: dict[str, int], spared: int
) -> None:
    program, made = written(name, tiles)
    lines = made.text.splitlines(keepends=True)
    ordering = [n for n, line in enumerate(lines) if re.match(r" +hopper\.mbarrier\.", line)]
    needed = dict.fromkeys(ordering, False)
    chosen = random.Random(0)
    for n in ordering:
        text = "".join([*lines[:n], re.match(" *", lines[n])[0] + "pass\n", *lines[n + 1 :]])  # type: ignore[index]
        try:
            wrong = error(text, made, program, sizes, chosen.randrange(99), num_stages=2)
        except GluonError:
            needed[n] = True
        else:
            assert wrong < 0.02, lines[n]
    # What is waited for once more stands twice for the compiler; after the last block nobody takes what is let go.
    spare = [lines[n].strip() for n, yes in needed.items() if not yes]
    assert len(spare) <= spared and len(ordering) > 15, spare
