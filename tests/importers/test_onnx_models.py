"""Modules exported by torch.onnx become programs that mean the same."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import catdiag as cd

pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore")


def real(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def exported(module: Any, *example: Any, opset: int = 23, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.onnx.export(
            module.eval(), example, dynamo=True, opset_version=opset, verbose=False, optimize=True, **options
        ).model_proto


def check(module: Any, *example: Any, opset: int = 23, **options: Any) -> cd.Program:
    program = cd.from_onnx(exported(module, *example, opset=opset, **options), *(a.numpy() for a in example))
    arrays = [np.asarray(a, float) if np.asarray(a).dtype.kind == "f" else a for a in program.example.arrays]
    found = program.run(*arrays, sizes=program.example.sizes)
    with torch.no_grad():
        wanted = module(*example).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    return program


class Block(nn.Module):
    """Norm, rotary grouped-query attention, gated multilayer perceptron."""

    def __init__(self, width: int = 24, heads: int = 6, groups: int = 3, depth: int = 4, hidden: int = 22) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.heads, self.groups, self.depth = heads, groups, depth
        self.norm, self.norm2 = nn.RMSNorm(width, eps=1e-6), nn.LayerNorm(width)
        self.q, self.o = nn.Linear(width, heads * depth), nn.Linear(heads * depth, width)
        self.k, self.v = nn.Linear(width, groups * depth), nn.Linear(width, groups * depth)
        self.gate, self.up, self.down = nn.Linear(width, hidden), nn.Linear(width, hidden), nn.Linear(hidden, width)

    def rotate(self, x: Any) -> Any:
        t, half = x.shape[2], self.depth // 2
        angles = torch.arange(t)[:, None] * (10000.0 ** (-torch.arange(half) / half))
        cos, sin = (torch.cat((f(angles), f(angles)), -1) for f in (torch.cos, torch.sin))
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

    def forward(self, x: Any) -> Any:
        b, t, _ = x.shape
        h = self.norm(x)
        q, k, v = (f(h).view(b, t, -1, self.depth).transpose(1, 2) for f in (self.q, self.k, self.v))
        k, v = (a.repeat_interleave(self.heads // self.groups, 1) for a in (self.rotate(k), v))
        y = F.scaled_dot_product_attention(self.rotate(q), k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, -1))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


@pytest.mark.parametrize("opset", [18, 23])
def test_a_transformer_block(opset: int) -> None:
    program = check(Block(), real(2, 7, 24), opset=opset)
    assert {"x", "norm_weight", "down_bias"} <= set(program.names)


def test_a_block_of_any_batch_and_length() -> None:
    batch, length = torch.export.Dim("batch", min=2, max=64), torch.export.Dim("length", min=2, max=64)
    module = Block()
    program = check(module, real(2, 7, 24), dynamic_shapes=({0: batch, 1: length},))
    assert str(program.cod).startswith("[batch length")
    other = real(3, 5, 24)
    arrays = [other.double().numpy(), *(np.asarray(a, float) for a in program.example.arrays[1:])]
    with torch.no_grad():
        np.testing.assert_allclose(
            program.run(*arrays, sizes={**program.example.sizes, "batch": 3, "length": 5}), module(other).numpy(),
            rtol=1e-4, atol=1e-5,
        )  # fmt: skip


def test_words_and_pictures() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.embed, self.norm, self.fc = nn.Embedding(11, 6), nn.LayerNorm(6), nn.Linear(6, 10)

        def forward(self, tokens: Any) -> Any:
            return F.log_softmax(F.gelu(self.fc(self.norm(self.embed(tokens)))), -1)

    class Pictures(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.patches, self.token = nn.Conv2d(3, 8, 4, 4), nn.Parameter(torch.randn(1, 1, 8))
            self.head = nn.Linear(8, 5)

        def forward(self, x: Any) -> Any:
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1)
            return self.head(x[:, 0] + x.mean(1))

    check(Words(), torch.tensor([[1, 5, 2, 10]]))
    check(Pictures(), real(2, 3, 8, 12))


def test_a_file(tmp_path: Any) -> None:
    path = tmp_path / "model.onnx"
    module = nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 3))
    exported(module, real(2, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module.eval(), (real(2, 6),), path, dynamo=True, verbose=False, external_data=False)
    program = cd.from_onnx(path)
    assert len(program.names) == 5 and program.example.arrays[0].shape == (2, 6)
