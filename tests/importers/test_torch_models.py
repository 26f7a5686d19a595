"""Layers of models, written as people write them, become programs that mean the same; what is not known is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import catdiag as cd
from tests.codegen.test_algorithm_source import executed

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def _double() -> Any:
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def check(module: Any, *example: Any, **options: Any) -> cd.Program:
    """Asserts that a module's program gives what it gives on the example, by its printed source; gives the program."""
    module = module.eval()
    program = cd.from_torch(module, *example, **options)
    arrays = [a.detach().numpy() for a in program.example.arrays]
    found = executed(program.code("algorithm")).run(*arrays, sizes=program.example.sizes)
    np.testing.assert_allclose(found, module(*example).detach().numpy(), rtol=1e-9, atol=1e-12)
    return program


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: Any) -> Any:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def rotated(x: Any) -> Any:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


class LlamaLayer(nn.Module):
    """Norm, rotary grouped-query attention, gated multilayer perceptron; positions and frequencies are made inside."""

    def __init__(self, width: int = 24, heads: int = 3, group: int = 2, depth: int = 10, hidden: int = 22) -> None:
        super().__init__()
        self.heads, self.group, self.depth = heads, group, depth
        self.q_proj = nn.Linear(width, heads * group * depth, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(width, heads * depth, bias=False) for _ in range(2))
        self.o_proj = nn.Linear(heads * group * depth, width, bias=False)
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)
        self.first, self.second = RMSNorm(width), RMSNorm(width)
        self.register_buffer("frequency", 100.0 ** (-torch.arange(0, depth, 2) / depth))

    def forward(self, x: Any) -> Any:
        b, t, _ = x.shape
        angles = torch.arange(t, device=x.device)[:, None] * self.frequency[None]
        angles = torch.cat((angles, angles), -1)
        cos, sin = angles.cos(), angles.sin()
        h = self.first(x)
        q, k, v = (f(h).view(b, t, -1, self.depth).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj))
        q, k = (a * cos + rotated(a) * sin for a in (q, k))
        k, v = (a.repeat_interleave(self.group, 1) for a in (k, v))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o_proj(o.transpose(1, 2).reshape(b, t, -1))
        h = self.second(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class VisionBlock(nn.Module):
    """Patches, a class token, positions, and an encoder layer."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 12, 4, 4)
        self.cls, self.positions = nn.Parameter(torch.rand(1, 1, 12)), nn.Parameter(torch.rand(1, 11, 12))
        self.layer = nn.TransformerEncoderLayer(12, 3, 22, 0.1, "gelu", batch_first=True, norm_first=True)

    def forward(self, images: Any) -> Any:
        tokens = self.patches(images).flatten(2).transpose(1, 2)
        tokens = torch.cat((self.cls.expand(images.shape[0], -1, -1), tokens), 1)
        return self.layer(tokens + self.positions)[:, 0]


class Scan(nn.Module):
    """A chunk of Mamba-2's state-space duality, with its causal depthwise convolution."""

    def __init__(self, width: int = 14, inner: int = 20, state: int = 6) -> None:
        super().__init__()
        self.inward = nn.Linear(width, inner)
        self.conv = nn.Conv1d(inner, inner, 4, groups=inner, padding=3)
        self.B, self.C, self.dt = nn.Linear(inner, state), nn.Linear(inner, state), nn.Linear(inner, 1)
        self.A = nn.Parameter(torch.rand(1))

    def forward(self, x: Any) -> Any:
        t = x.shape[1]
        u = F.silu(self.conv(self.inward(x).transpose(1, 2))[..., :t].transpose(1, 2))
        dt = F.softplus(self.dt(u))[..., 0]
        a = torch.cumsum(-dt * torch.exp(self.A), 1)
        causal = torch.ones(t, t, dtype=torch.bool).tril()
        decay = torch.exp((a[:, :, None] - a[:, None, :]).masked_fill(~causal, -torch.inf))
        return torch.einsum("btn,bsn,bts,bs,bse->bte", self.C(u), self.B(u), decay, dt, u)


class Cached(nn.Module):
    """One decoding step with explicit state: keys and values come in, and go out longer by one."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: Any, keys: Any, values: Any) -> Any:
        keys, values = torch.cat((keys, self.k(x)), 1), torch.cat((values, self.v(x)), 1)
        return F.scaled_dot_product_attention(self.q(x), keys, values), keys, values


def test_a_llama_layer() -> None:
    program = check(LlamaLayer(), torch.randn(2, 7, 24), names={"x": "b t m", "k_proj.weight": "(k p d) m"})
    assert [str(ty) for ty in program.dom][:1] == ["[b t m]"]
    assert str(program.cod) == "[b t m]"
    shown = dict(zip(program.names, map(str, program.dom), strict=True))
    assert shown["k_proj_weight"] == "[(k p d) m]"
    assert shown["gate_weight"] == "[gate m]"
    # The 2 of two halves is fixed, the numbers of tokens and heads are not.
    assert program.example.sizes["t"] == 7
    assert program.example.sizes["k"] == 3
    assert "p" not in program.example.sizes


def test_a_vision_block() -> None:
    check(VisionBlock(), torch.randn(2, 3, 8, 20))


def test_a_state_space_layer() -> None:
    check(Scan(), torch.randn(2, 7, 14))


def test_an_embedding_a_padding_mask_and_an_encoder_layer() -> None:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.norm = nn.Embedding(17, 12), nn.LayerNorm(12)
            self.layer = nn.TransformerEncoderLayer(12, 3, 22, 0.1, "gelu", batch_first=True)

        def forward(self, ids: Any, mask: Any) -> Any:
            h = self.norm(self.words(ids)).view(*ids.shape, 3, 4).transpose(1, 2)
            o = F.scaled_dot_product_attention(h, h, h, attn_mask=mask[:, None, None, :])
            return F.gelu(self.layer.linear1(o.transpose(1, 2).reshape(*ids.shape, 12)))

    program = check(Encoder(), torch.randint(0, 17, (2, 5)), torch.rand(2, 5) > -1)
    # Parameters that are not read are no inputs.
    assert not any("self_attn" in name or "linear2" in name for name in program.names)


def test_a_cache_is_state_in_and_out() -> None:
    module = Cached().eval()
    example = torch.randn(2, 1, 8), torch.randn(2, 5, 8), torch.randn(2, 5, 8)
    program = cd.from_torch(module, *example)
    arrays = [a.detach().numpy() for a in program.example.arrays]
    found = program.run(*arrays, sizes=program.example.sizes)
    for one, other in zip(found, module(*example), strict=True):
        np.testing.assert_allclose(one, other.detach().numpy(), rtol=1e-9, atol=1e-12)


def test_other_sizes_than_those_of_the_example() -> None:
    module = LlamaLayer()
    program = cd.from_torch(module.eval(), torch.randn(2, 7, 24), names={"x": "b t m"})
    longer = torch.randn(3, 12, 24)
    arrays = [longer.numpy(), *(a.detach().numpy() for a in program.example.arrays[1:])]
    sizes = {**program.example.sizes, "b": 3, "t": 12}
    np.testing.assert_allclose(program.run(*arrays, sizes=sizes), module(longer).detach().numpy(), rtol=1e-9)


def test_dynamic_dimensions_have_their_names() -> None:
    batch, tokens = torch.export.Dim("batch"), torch.export.Dim("tokens")
    program = cd.from_torch(nn.Linear(3, 4), torch.randn(2, 5, 3), dynamic={"input": {0: batch, 1: tokens}})
    arrays = [a.detach().numpy() for a in program.example.arrays]
    assert program.run(*arrays, sizes=program.example.sizes).shape == (2, 5, 4)


def test_one_tensor_of_two_names_is_one_input() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.head = nn.Embedding(9, 4), nn.Linear(4, 9, bias=False)
            self.head.weight = self.words.weight

        def forward(self, ids: Any) -> Any:
            return self.head(self.words(ids))

    assert len(check(Tied(), torch.randint(0, 9, (2, 5))).names) == 2


def test_a_scale_is_read_as_a_function_of_the_size() -> None:
    program = cd.from_torch(lambda q, k: q @ k.mT * 6**-0.5, torch.randn(5, 6), torch.randn(7, 6))
    assert "1/sqrt(n)" in program.example.notes[0]
    one, other = np.ones((2, 4)), np.ones((3, 4))
    np.testing.assert_allclose(program.run(one, other), np.full((2, 3), 2.0))
    for number in (3, 3.0):  # √9 of the last dimension, by chance
        assert cd.from_torch(lambda a, n=number: a * n, torch.randn(5, 9)).example.notes == ()
    assert "sqrt(n)" in cd.from_torch(lambda a: a * 6**0.5, torch.randn(5, 6)).example.notes[0]
    fixed = cd.from_torch(lambda q, k: q @ k.mT * 0.25, torch.randn(5, 6), torch.randn(7, 6))
    assert fixed.example.notes == ()
    np.testing.assert_allclose(fixed.run(one, other), np.full((2, 3), 1.0))


def test_the_scale_that_attention_implies_is_of_the_size() -> None:
    q = torch.randn(2, 5, 6)
    program = cd.from_torch(F.scaled_dot_product_attention, q, q, q)
    assert program == cd.from_torch(F.scaled_dot_product_attention, *[torch.randn(3, 4, 9)] * 3)


class Strange(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.dropout = nn.Linear(6, 6), nn.Dropout(0.1)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Any) -> Any:
        self.calls.add_(1)
        return self.dropout(torch.fft.fft(self.linear(x)).real) + torch.linalg.det(x)


def test_all_that_is_not_known_is_named() -> None:
    with pytest.raises(cd.errors.NotImported) as caught:
        cd.from_torch(Strange().train(), torch.randn(6, 6))
    text = str(caught.value)
    assert "aten.fft_fft has no rule" in text
    assert "det" in text
    assert "dropout: dropout in training: call module.eval() first, or write it with a seed, by cd.dropout" in text
    assert "the buffer 'calls' is written" in text
    assert "test_torch_models.py" in text


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ({"z": "b m"}, "there is no input 'z'; the inputs are input, weight, bias"),
        ({"input": "b"}, "names 1 dimensions of 2"),
        ({"input": "(a b) m"}, "a dimension of 2 is given the names a b"),
        ({"input": "b m", "weight": "b m"}, "the name 'b' is given to two axes"),
    ],
)
def test_names_that_do_not_fit(names: dict[str, str], reason: str) -> None:
    with pytest.raises(cd.errors.NotImported, match="names") as caught:
        cd.from_torch(nn.Linear(3, 4), torch.randn(2, 3), names=names)
    assert reason in str(caught.value)


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(cd.errors.NotImported, match="a module or a function of tensors, not 3"):
        cd.from_torch(3, torch.randn(2))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_experts_whose_rows_are_sorted_are_grouped_products() -> None:
    """PyTorch exports products of groups of bfloat16 only; the program is one of real numbers."""
    rows, weights, ends = torch.randn(7, 16), torch.randn(4, 16, 8), torch.tensor([2, 2, 5, 7], dtype=torch.int32)
    narrow = (a.to(torch.bfloat16) for a in (rows, weights))
    program = cd.from_torch(lambda x, w, at: F.grouped_mm(x, w, offs=at), *narrow, ends, names={"x": "t k"})
    found = program.run(rows.numpy(), weights.numpy(), ends.numpy(), sizes=program.example.sizes)
    at = [0, 0, 2, 2, 2, 3, 3]
    np.testing.assert_allclose(found, torch.einsum("tk,tkn->tn", rows, weights[at]).numpy(), rtol=1e-9)


class Remembering(nn.Module):
    """Gives what it computed, and an object that it keeps tensors in, of a type that PyTorch does not know."""

    class Cache:
        def __init__(self, keys: Any) -> None:
            self.layers, self.length = [{"keys": keys}], keys.shape[0]

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        made = self.proj(x)
        return made.exp(), Remembering.Cache(made)


def test_objects_in_results_are_their_tensors() -> None:
    module, x = Remembering(), torch.randn(5, 4)
    program = cd.from_torch(module, x)
    assert program.names == ("x", "proj_weight", "proj_bias")
    found = program.run(*(a.detach().numpy() for a in program.example.arrays))
    wanted = module(x)
    np.testing.assert_allclose(found[0], wanted[0].detach().numpy())
    np.testing.assert_allclose(found[1], wanted[1].layers[0]["keys"].detach().numpy())
    assert not module._forward_hooks
    assert cd.testing.assert_implements(module, program, sizes=program.example.sizes, trials=3).trials == 3


def test_results_by_name_are_in_the_order_of_the_module() -> None:
    class Named(nn.Module):
        def forward(self, x: Any) -> Any:
            return {"values": x * 2, "sums": x.sum(1)}

    x = torch.randn(2, 3)
    program = cd.from_torch(Named(), x)
    values, sums = program.run(x.numpy())
    np.testing.assert_allclose(values, 2 * x.numpy())
    np.testing.assert_allclose(sums, x.sum(1).numpy())
    assert cd.testing.assert_implements(Named(), program, trials=3).trials == 3
