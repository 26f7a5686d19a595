"""PyTorch's own kernels against the library's diagrams: `pytest tests/testing/test_implements_torch.py`, with torch.

On the GPU where there is one.
"""

from __future__ import annotations

from typing import Any

import pytest

import catdiag as cd
from catdiag.testing.assert_kernel import Mismatch, assert_implements

torch = pytest.importorskip("torch")
F = torch.nn.functional
# By default partial sums of a product may be rounded to the type of its operands, which is found: see below.
torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
# Winograd's and Fourier's ways to convolve spread rounding to neighbours, which no bound for each element allows.
torch.backends.cudnn.enabled = False
DEVICE = "torch:cuda" if torch.cuda.is_available() else "torch"
TYPES = ("float32", "float16", "bfloat16")
get = cd.library.get


def attention(Q: Any, K: Any, V: Any) -> Any:
    return F.scaled_dot_product_attention(Q[None, None], K[None, None], V[None, None])[0, 0]


def causal(Q: Any, K: Any, V: Any) -> Any:
    return F.scaled_dot_product_attention(Q[None, None], K[None, None], V[None, None], is_causal=True)[0, 0]


def grouped(Q: Any, K: Any, V: Any) -> Any:
    b, k, r, q, d = Q.shape
    out = F.scaled_dot_product_attention(Q.reshape(b, k * r, q, d), K, V, enable_gqa=True)
    return out.reshape(b, k, r, q, d)


def grouped_by_repeat(Q: Any, K: Any, V: Any) -> Any:
    b, k, r, q, d = Q.shape
    keys, values = K.repeat(1, r, 1, 1), V.repeat(1, r, 1, 1)  # and not repeat_interleave
    return F.scaled_dot_product_attention(Q.reshape(b, k * r, q, d), keys, values).reshape(b, k, r, q, d)


def softmax(S: Any) -> Any:
    return torch.softmax(S, -1)


def layer_norm(X: Any, g: Any, b: Any, eps: Any) -> Any:
    return F.layer_norm(X, (X.shape[1],), g, b, eps.item())


def rms_norm(X: Any, g: Any, eps: Any) -> Any:
    return F.rms_norm(X, (X.shape[1],), g, eps.item())


def cross_entropy(Z: Any, label: Any) -> Any:
    return F.cross_entropy(Z, label, reduction="none")


def matmul(A: Any, C: Any) -> Any:
    return A @ C


def conv1d(a: Any, w: Any) -> Any:
    return F.conv1d(a.transpose(1, 2), w.permute(2, 1, 0)).transpose(1, 2)


RIGHT = {
    "attention": attention,
    "causal_attention": causal,
    "grouped_query_attention": grouped,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "cross_entropy": cross_entropy,
    "matmul": matmul,
    "conv1d": conv1d,
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", RIGHT)
def test_kernels_of_torch(name: str, dtype: str) -> None:
    positive = {"eps": lambda rng, n: 2.0 ** -rng.integers(3, 12)} if "norm" in name else {}
    tested = assert_implements(
        RIGHT[name], get(name), dtype, convert=DEVICE, inputs=positive, seed=TYPES.index(dtype),
        # Convolutions take their operands in tf32 unless one says otherwise.
        operands="tf32" if name == "conv1d" and dtype == "float32" else None,
    )  # fmt: skip
    assert tested.defined >= 80


@pytest.mark.parametrize("dtype", TYPES)
def test_heads_repeated_in_the_wrong_order(dtype: str) -> None:
    with pytest.raises(Mismatch) as caught:
        assert_implements(grouped_by_repeat, get("grouped_query_attention"), dtype, convert=DEVICE)
    sizes = caught.value.sizes
    assert (sizes["k"], sizes["r"], sizes["b"], sizes["q"], sizes["d"], sizes["x"]) == (2, 2, 1, 1, 1, 1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_partial_sums_in_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction", True)

    def tests() -> None:
        sizes = {"a": [6, 8, 16], "b": [12, 16, 32], "c": [2, 8, 16]}
        for seed in range(10):
            assert_implements(matmul, get("matmul"), "bfloat16", convert=DEVICE, seed=seed, sizes=sizes)

    with pytest.raises(Mismatch):
        tests()


def test_inputs_changed_in_place() -> None:
    with pytest.raises(Mismatch) as caught:
        assert_implements(lambda S: S.sub_(S.amax(-1, keepdim=True)).softmax(-1), get("softmax"), convert=DEVICE)
    assert caught.value.kind == "modified"


def test_results_that_are_views_of_inputs() -> None:
    same = cd.algorithm("q x -> x q")(lambda a: cd.rearrange(a, "q x -> x q"))
    with pytest.raises(Mismatch) as caught:
        assert_implements(lambda a: a.T, same, convert=DEVICE)
    assert caught.value.kind == "shared"


def test_memory_that_is_not_written() -> None:
    def first_block(S: Any) -> Any:
        out = torch.empty_like(S)
        out[:, :8] = torch.softmax(S, -1)[:, :8]
        return out

    with pytest.raises(Mismatch) as caught:
        assert_implements(first_block, get("softmax"), convert=DEVICE)
    assert caught.value.sizes == {"q": 1, "x": 9}


class _Mean(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A weighted mean of rows, by a softmax whose scale is wrong where it is given."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(scale))

    def forward(self, scores: Any, values: Any) -> Any:
        return torch.softmax(self.scale * scores, -1) @ values


def test_a_module_gets_tensors() -> None:
    mean = cd.algorithm("q x, x d", name="mean")(lambda S, V: cd.einsum("q x, x d -> q d", cd.softmax(S, "x"), V))
    assert cd.testing.assert_implements(_Mean(), mean, trials=8).compared > 0
    with pytest.raises(cd.testing.Mismatch, match="_Mean does not implement mean"):
        cd.testing.assert_implements(_Mean(1.1), mean, trials=20)
    with pytest.raises(cd.errors.TypeMismatch, match=r"_Mean is a PyTorch module: .*example=\(x,\)"):
        cd.testing.assert_equivalent(_Mean(), _Mean())


def test_a_module_is_tested_with_the_parameters_of_its_program() -> None:
    x = torch.randn(2, 5, 12)
    layer = torch.nn.TransformerEncoderLayer(12, 3, 20, batch_first=True, norm_first=True).eval()
    program = cd.from_torch(layer, x)
    assert assert_implements(layer, program, sizes=program.example.sizes, trials=3).compared
    norm = cd.from_torch(torch.nn.LayerNorm(12), x)
    with pytest.raises(Mismatch, match="LayerNorm does not implement LayerNorm"):
        assert_implements(torch.nn.LayerNorm(12, eps=0.1), norm, sizes={"input_2": 12}, trials=3)
    with pytest.raises(cd.errors.CatdiagError, match=r"RMSNorm has no tensor 'bias', .*: it has weight"):
        assert_implements(torch.nn.RMSNorm(12), norm, sizes={"input_2": 12})
