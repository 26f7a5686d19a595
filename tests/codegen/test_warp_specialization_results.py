"""Kernels whose loads are apart, run in a machine for their text against what the diagrams mean in float64, and
compiled for Hopper: no GPU is there."""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.codegen.triton.triton_module import Module, module
from catdiag.schedule.loop_nest import lower
from catdiag.schedule.statements import For, statements

torch = pytest.importorskip("torch")
from tests.codegen.gluon_machine import load  # noqa: E402

pytestmark = pytest.mark.triton
SIZES = {"q": 150, "x": 90, "d": 24, "v": 40, "e": 16, "h": 2}


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def boxed(tensor: Any, shape: list[int]) -> bool:
    """What the module says of tensors of 16 bits on a GPU."""
    if max(shape) > 256 or shape[-1] < 8 or tensor.stride(-1) != 1 or tensor.data_ptr() % 16:
        return False
    return all(s > 0 and s % 8 == 0 for s in tensor.stride()[:-1])


def rows_by_eight(values: Any, kind: Any) -> Any:
    """A tensor whose rows begin at multiples of 16 bytes; what is between them is not a number."""
    room = torch.full((*values.shape[:-1], -(-values.shape[-1] // 8) * 8), math.nan, dtype=kind)
    room[..., : values.shape[-1]] = values.to(kind)
    return room[..., : values.shape[-1]]


def written(
    diagram: cd.category.Diagram, axis: str, groups: str, dtype: str, block: int, rows: int, columns: str = "",
    **options: int,
) -> Module:  # fmt: skip
    """The module in groups, the last of them of the rows; `columns` is an axis in tiles of a block."""
    form = diagram.stream(axis).group(groups).diagram
    lengths = {groups.split()[-1]: rows, columns: block}
    tiles: dict[str, int] = {}
    for _, s in statements(lower(form).body):
        if isinstance(s, For):
            for span in s.spans:
                tiles[span.symbol] = block if s.kind != "tiles" else lengths.get(span.axis, 1)
    return module(form, tiles, dtype, specialized=True, **options)


def run(diagram: cd.category.Diagram, made: Module, seed: int, sizes: dict[str, int], **options: Any) -> bool:
    """Runs a module and compares; whether the kernel whose loads are apart was launched."""
    draw = np.random.default_rng(seed)
    given: list[Any] = []
    exact: list[Any] = []
    for a in made.inputs:
        shape = tuple(sizes[str(x.size)] for x in a.ty.axes)
        values = torch.from_numpy(np.asarray(draw.standard_normal(shape)))
        if a.ty.element in ("int", "bool"):
            values = values.abs().mul(30).long() if a.ty.element == "int" else values > -0.5
            given.append(values)
        else:
            given.append(rows_by_eight(values, getattr(torch, a.dtype)) if shape else float(values))
        exact.append(given[-1].double().numpy() if a.ty.element == "real" and shape else np.asarray(given[-1]))
    wanted = diagram.run(*exact, sizes=sizes)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    out = tuple(torch.full(w.shape, math.nan, dtype=getattr(torch, o.dtype)) for w, o in zip(wanted, made.outputs))
    found, taken = load(made.text, seed=seed), []
    found["_boxed"] = lambda tensor, shape: boxed(tensor, shape) if not taken else False
    kernel, plain = found[made.specialized[0]], made.kernels[0]

    class Launched:
        def __getitem__(self, grid: Any) -> Any:
            taken.append(grid)
            return kernel[grid]

    class Plain:
        def __getitem__(self, grid: Any) -> Any:
            return lambda *_, **__: None

    found[made.specialized[0]], found[plain] = Launched(), Plain()
    found[made.entry](*given, out=out if len(out) > 1 else out[0], **options)
    if not taken:
        return False
    for o, w in zip(out, wanted, strict=True):
        near = 0.02 if made.dtype == "bf16" else 0.003
        np.testing.assert_allclose(o.double().numpy(), w, rtol=near, atol=near * max(1e-3, np.abs(w).max()))
    return True


def weights(S: Any) -> Any:
    return cd.softmax(S * 0.3, "x")


def attention(Q: Any, K: Any, V: Any) -> Any:
    return cd.einsum("q x, x v -> q v", weights(cd.einsum("q d, x d -> q x", Q, K)), V)


def two_scores(Q: Any, K: Any, P: Any, R: Any, V: Any) -> Any:
    S = cd.einsum("q d, x d -> q x", Q, K) + cd.einsum("q e, x e -> q x", P, R)
    return cd.einsum("q x, x v -> q v", weights(S), V)


def one_array(Q: Any, K: Any) -> Any:
    return cd.einsum("q x, x d -> q d", weights(cd.einsum("q d, x d -> q x", Q, K)), K)


def biased(Q: Any, K: Any, V: Any, B: Any, w: Any) -> Any:
    S = cd.einsum("q d, x d -> q x", Q, K) * w + B
    return cd.einsum("q x, x v -> q v", weights(S), V)


def several(Q: Any, K: Any, V: Any, W: Any) -> Any:
    S = cd.einsum("q d, x d -> q x", Q, K)
    P = weights(S)
    return (
        cd.einsum("q x, x v -> q v", P, V),
        cd.einsum("q x, x e -> q e", P, W),
        cd.log(cd.sum(cd.exp(S * 0.3), "x")),
    )


def masked(Q: Any, K: Any, V: Any, M: Any) -> Any:
    S = cd.where(M, cd.einsum("q d, x d -> q x", Q, K) * 0.3, float("-inf"))
    return cd.einsum("q x, x v -> q v", cd.softmax(S, "x"), V)


def prefixes(Q: Any, K: Any, V: Any, n: Any) -> Any:
    S = cd.where(cd.index("x") <= n, cd.einsum("q d, x d -> q x", Q, K) * 0.3, float("-inf"))
    return cd.einsum("q x, x v -> q v", cd.softmax(S, "x"), V)


def documents(Q: Any, K: Any, V: Any, keys: Any, queries: Any) -> Any:
    same = (keys // 8 == queries // 8) & (cd.index("x") <= cd.index("q"))
    S = cd.where(same, cd.einsum("q d, x d -> q x", Q, K) * 0.3, -1e30)
    return cd.einsum("q x, x v -> q v", cd.softmax(S, "x"), V)


def window(Q: Any, K: Any, V: Any) -> Any:
    near = (cd.index("x") <= cd.index("q")) & (cd.index("q") <= cd.index("x") + 20)
    P = cd.where(near, cd.tanh(cd.einsum("q d, x d -> q x", Q, K)), 0)
    return cd.einsum("q x, x v -> q v", P, V)


def negated(Q: Any, K: Any, V: Any, f: Any, g: Any) -> Any:
    S = cd.maximum(cd.einsum("q d, x d -> q x", Q, K), 0)
    return g - cd.einsum("q x, x v -> q v", S * S * f, V)


def unit_rows(Q: Any, K: Any, V: Any) -> Any:
    unit = Q / cd.sqrt(cd.sum(Q * Q, "d") + 1)
    return cd.einsum("q x, x v -> q v", weights(cd.einsum("q d, x d -> q x", unit, K)), V)


def channels_first(Q: Any, K: Any, V: Any) -> Any:
    return cd.einsum("h x q, v h x -> h v q", weights(cd.einsum("d q h, h d x -> h x q", Q, K)), V)


def by_keys(Q: Any, K: Any, V: Any, B: Any, f: Any) -> Any:
    P = weights(cd.einsum("x d, q d -> x q", K, Q) + B)
    return -cd.einsum("x q, x v -> v q", P * f, V)


def derivative(Q: Any, K: Any, dO: Any, V: Any, L: Any) -> Any:
    P = cd.exp(cd.einsum("q d, x d -> q x", Q, K) * 0.2 - L)
    dS = P * cd.einsum("q v, x v -> q x", dO, V)
    return cd.einsum("q x, q d -> x d", dS, Q), cd.einsum("q x, q v -> x v", P, dO)


BF16 = {"dtype": "bf16", "block": 32, "rows": 128, "stages": 2, "warps": 8}
FP16 = {"dtype": "fp16", "block": 64, "rows": 64, "stages": 3, "warps": 4}
WIDE = {"dtype": "fp16", "block": 16, "rows": 256, "stages": 4, "warps": 8}
THREE = {"dtype": "bf16", "block": 64, "rows": 256, "stages": 2, "warps": 4}
CASES: list[tuple[Any, str, str, str, dict[str, Any]]] = [
    (two_scores, "q d, x d, q e, x e, x v -> q v", "x", "q", BF16),
    (one_array, "q d, x d -> q d", "x", "q", WIDE),
    (biased, "q d, x d, x v, x q, x -> q v", "x", "q", BF16),  # a tile that memory has the other way round
    (several, "q d, x d, x v, x e -> q v, q e, q", "x", "q", FP16),
    (masked, "q d, x d, x v, bool[q x] -> q v", "x", "q", FP16),
    (prefixes, "q d, x d, x v, int[q] -> q v", "x", "q", THREE),
    (documents, "q d, x d, x v, int[x], int[q] -> q v", "x", "q", BF16),
    (window, "q d, x d, x v -> q v", "x", "q", WIDE),
    (negated, "q d, x d, x v, q, q -> q v", "x", "q", BF16),
    (unit_rows, "q d, x d, x v -> q v", "x", "q", FP16),  # what matrix units read is computed: no rows are loaded
    (channels_first, "d q h, h d x, v h x -> h v q", "x", "h q", BF16),
    (by_keys, "q d, x d, x v, q x, q -> v q", "x", "q", FP16),  # rows are the second factor of both products
    (derivative, "q d, x d, q v, x v, q -> x d, x v", "q", "x", BF16),
    (attention, "q d, x d, x v -> q v", "x", "v q", {**BF16, "columns": "v"}),  # a tile of rows and columns
    (by_keys, "q d, x d, x v, q x, q -> v q", "x", "v q", {**FP16, "block": 16, "columns": "v"}),
]


@pytest.mark.parametrize(("operator", "signature", "axis", "groups", "options"), CASES)
def test_it_runs_right_however_its_parts_interleave(
    operator: Any, signature: str, axis: str, groups: str, options: dict[str, Any]
) -> None:
    diagram = cd.algorithm(signature)(operator)
    made = written(diagram, axis, groups, **options)
    assert made.specialized
    for seed, sizes in enumerate((SIZES, {**SIZES, "q": 64, "x": 17})):
        assert run(diagram, made, seed, sizes)


def test_the_launch_keeps_to_the_plain_kernel_where_the_other_would_not_do() -> None:
    made = written(cd.algorithm("q d, x d -> q d")(one_array), "x", "q", **BF16)
    sizes = {"q": 128, "x": 64, "d": 64}
    for options in ({"num_stages": 1}, {"num_warps": 16}, {"g_q": 64, "num_warps": 8}, {"specialized": False}):
        assert not run(cd.algorithm("q d, x d -> q d")(one_array), made, 0, sizes, **options)
    found = load(made.text)
    one, other = torch.zeros(8, 8, dtype=torch.bfloat16), torch.zeros(8, 8, dtype=torch.float16)
    groups = found["_groups"]
    assert [groups(128, w, 2, [64], 0, K=one)[0] for w in (4, 8, 12, 16)] == [1, 2, 0, 0]
    assert groups(192, 12, 2, [16, 256], 0, rows=one, shared=one) == (3, "")
    reasons = [
        (groups(128, 12, 2, [64], 0, K=one), "12 warps do not divide 128 rows"),
        (groups(128, 8, 1, [64], 0, K=one), "num_stages is 1"),
        (groups(128, 8, 2, [64], 240_000, K=one), "its buffers take 240000 bytes of shared memory"),
        (groups(128, 8, 2, [64], 0, K=one, V=other), "V is of torch.float16: expected torch.bfloat16"),
        (groups(128, 8, 2, [64], 0, K=one.float()), "K is of torch.float32: expected 16-bit elements"),
        (groups(128, 8, 2, [64, 8], 0, K=one), r"products have \[64, 8\] columns"),
        (groups(128, 8, 2, [512], 0, K=one), r"products have \[512\] columns"),
    ]
    for (count, why), words in reasons:
        assert count == 0 and re.match(words, why), why
    found["triton"].__version__ = "3.5.1"
    assert groups(128, 8, 2, [64], 0, K=one) == (0, "Triton is 3.5.1: expected 3.6")


def test_a_fallback_to_the_plain_form_is_said_once_on_a_gpu_and_refused_if_strict() -> None:
    diagram = cd.algorithm("q d, x d -> q d")(one_array)
    made = written(diagram, "x", "q", **BF16)
    sizes = {"q": 128, "x": 64, "d": 64}
    with pytest.raises(RuntimeError, match="plain form, not warp-specialized: num_stages is 1: expected 2 or more"):
        run(diagram, made, 0, sizes, num_stages=1, strict=True)
    assert run(diagram, made, 0, sizes, strict=True)
    assert not run(diagram, made, 0, sizes, specialized=False, strict=True)
    found = load(made.text)
    matrix = torch.zeros(64, 64, dtype=torch.bfloat16, device="meta")
    read = found["_unboxed"](("Q", matrix, [64, 64]), ("K", matrix.T, [64, 64]))
    assert "blocks of [64, 64] of K, which has shape (64, 64) and strides (1, 64)" in read
    assert found["_unboxed"](("Q", matrix, [64, 64])) == ""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        for _ in range(2):
            found["_plain"]("_kernel", read, False, torch.device("cpu"))
            found["_plain"]("_kernel", read, False, torch.device("cuda"))
    assert [str(w.message) for w in said] == [f"_kernel runs in its plain form, not warp-specialized: {read}"]


def test_why_a_kernel_has_no_warp_specialized_form() -> None:
    def two_axes(q: Any, k: Any, v: Any) -> Any:
        return cd.einsum("r q x, x v -> r q v", cd.softmax(cd.einsum("r q d, x d -> r q x", q, k), "x"), v)

    diagram = cd.algorithm("r q d, x d, x v -> r q v")(two_axes).stream("x").group("r q")
    made = module(diagram, {"g_r": 2, "g_q": 64, "s_x": 64}, specialized=True)
    assert not made.specialized
    assert made.unspecialized == {made.kernels[0]: "a tile over r q v: expected at most one row and one column"}


def test_nothing_in_gluon_is_launched_in_the_interpreter() -> None:
    found = load(written(cd.algorithm("q d, x d -> q d")(one_array), "x", "q", **BF16).text)
    rows = torch.zeros(8, 8, dtype=torch.bfloat16)
    assert found["_groups"](128, 8, 2, [64], 0, rows=rows) == (2, "")
    found["triton"].knobs.runtime.interpret = True
    assert found["_groups"](128, 8, 2, [64], 0, rows=rows) == (0, "Gluon has no interpreter")


COMPILED = ("masked", "channels_first", "by_keys", "unit_rows", "derivative")


@pytest.mark.parametrize("case", [c for c in CASES if c[0].__name__ in COMPILED])
def test_it_compiles_for_hopper_without_a_gpu(case: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    if os.environ.get("TRITON_INTERPRET"):
        pytest.skip("nothing is compiled under TRITON_INTERPRET")
    from catdiag.runtime.abstract_interpreter.shared_memory import shared_of_launch
    from catdiag.runtime.machine_code import binaries

    monkeypatch.setenv("CATDIAG_CACHE", str(tmp_path))
    operator, signature, axis, groups, options = case
    columns = {"columns": options["columns"]} if "columns" in options else {}
    made = written(cd.algorithm(signature)(operator), axis, groups, "bf16", 64, 128, stages=2, warps=8, **columns)
    sizes = {"q": 1024, "x": 1024, "d": 64, "v": 64, "h": 8}
    (code,) = binaries(made, sizes)
    assert code.kernel in made.specialized and not code.spills
    assert abs(code.shared_bytes - shared_of_launch(made.code, code.launches[0]).bytes) <= 1024
