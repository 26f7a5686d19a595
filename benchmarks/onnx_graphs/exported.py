"""Small models of PyTorch, as `torch.onnx.export` writes them: layers of transformers, of images, of sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

real = torch.randn
Example = tuple[Any, ...]
MODELS: dict[str, Callable[[], tuple[Any, Example]]] = {}
"""By name, a module and the arguments of a call."""


class Of(nn.Module):
    """A module of parts, and a function of them and the arguments."""

    def __init__(self, function: Callable[..., Any], **parts: nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.function = function

    def forward(self, *arrays: Any) -> Any:
        return self.function(self, *arrays)


def _add(name: str, example: Callable[[], Example], function: Callable[..., Any], **parts: Callable[[], Any]) -> None:
    def made() -> tuple[Any, Example]:
        torch.manual_seed(0)
        return Of(function, **{key: part() for key, part in parts.items()}).eval(), example()

    MODELS[name] = made


def _single(name: str, part: Callable[[], Any], *shape: int) -> None:
    _add(name, lambda: (real(*shape),), lambda m, x: m.f(x), f=part)


# -- transformers ---------------------------------------------------------------------------------------------------


def _split(a: Any, heads: int = 2) -> Any:
    return a.unflatten(-1, (heads, -1)).transpose(1, 2)


def _llama(m: Any, x: Any) -> Any:
    t = x.shape[1]
    h = m.norm(x)
    q, k, v = _split(m.q(h), 4), _split(m.k(h)), _split(m.v(h))
    angles = torch.arange(t)[:, None] * 10000.0 ** (-torch.arange(0, 4, 2).float() / 4)
    cos, sin = torch.cat((angles, angles), -1).cos(), torch.cat((angles, angles), -1).sin()

    def rotated(a: Any) -> Any:
        return a * cos + torch.cat((-a[..., 2:], a[..., :2]), -1) * sin

    y = F.scaled_dot_product_attention(rotated(q), rotated(k), v, is_causal=True, enable_gqa=True)
    x = x + m.o(y.transpose(1, 2).flatten(2))
    h = m.norm2(x)
    return x + m.down(F.silu(m.gate(h)) * m.up(h))


def _gpt2(m: Any, x: Any) -> Any:
    q, k, v = m.qkv(m.norm(x)).chunk(3, -1)
    y = F.scaled_dot_product_attention(_split(q), _split(k), _split(v), is_causal=True)
    x = x + m.o(y.transpose(1, 2).flatten(2))
    return x + m.down(F.gelu(m.up(m.norm2(x)), approximate="tanh"))


def _by_hand(m: Any, x: Any, mask: Any) -> Any:
    q, k, v = m.qkv(x).chunk(3, -1)
    scores = _split(q) @ _split(k).mT / 2 + (1.0 - mask[:, None, None]) * -1e4
    return m.norm((scores.softmax(-1) @ _split(v)).transpose(1, 2).flatten(2) + x)


def _t5(m: Any, x: Any) -> Any:
    t = x.shape[1]
    apart = torch.arange(t)[None] - torch.arange(t)[:, None]
    bias = m.bias(apart.clamp(-3, 3) + 3).permute(2, 0, 1)
    q, k, v = m.qkv(x).chunk(3, -1)
    return (_split(q) @ _split(k).mT + bias).softmax(-1) @ _split(v)


def _cached(m: Any, x: Any, keys: Any, values: Any) -> tuple[Any, Any]:
    q, k, v = (_split(a) for a in m.qkv(x).chunk(3, -1))
    keys, values = torch.cat((keys, k), 2), torch.cat((values, v), 2)
    return F.scaled_dot_product_attention(q, keys, values), keys


def _experts(m: Any, x: Any) -> Any:
    weights, at = m.gate(x).softmax(-1).topk(2, -1)
    each = torch.stack([m.one(x), m.two(x), m.three(x)], 1)
    return (each.gather(1, at[..., None].expand(-1, -1, each.shape[-1])) * weights[..., None]).sum(1)


def _norms(m: Any, x: Any) -> Any:
    return m.norm(x) + x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


_D = 8
_WIDE: dict[str, Callable[[], Any]] = {
    "norm": lambda: nn.LayerNorm(_D), "norm2": lambda: nn.LayerNorm(_D), "qkv": lambda: nn.Linear(_D, 3 * _D),
    "o": lambda: nn.Linear(_D, _D), "up": lambda: nn.Linear(_D, 12), "down": lambda: nn.Linear(12, _D),
}  # fmt: skip
_LLAMA: dict[str, Callable[[], Any]] = {
    "norm": lambda: nn.RMSNorm(10, eps=1e-6), "norm2": lambda: nn.RMSNorm(10, eps=1e-6),
    "q": lambda: nn.Linear(10, 16, bias=False), "k": lambda: nn.Linear(10, 8, bias=False),
    "v": lambda: nn.Linear(10, 8, bias=False), "o": lambda: nn.Linear(16, 10, bias=False),
    "gate": lambda: nn.Linear(10, 12, bias=False), "up": lambda: nn.Linear(10, 12, bias=False),
    "down": lambda: nn.Linear(12, 10, bias=False),
}  # fmt: skip

_add("a layer of Llama", lambda: (real(2, 5, 10),), _llama, **_LLAMA)
_add("a layer of GPT-2", lambda: (real(2, 5, _D),), _gpt2, **_WIDE)
_add("attention of BERT by hand", lambda: (real(2, 5, _D), torch.ones(2, 5)), _by_hand, qkv=_WIDE["qkv"],
     norm=_WIDE["norm"])  # fmt: skip
_add("attention of T5 with a bias", lambda: (real(2, 5, _D),), _t5, qkv=_WIDE["qkv"],
     bias=lambda: nn.Embedding(7, 2))  # fmt: skip
_add("attention behind a cache", lambda: (real(2, 1, _D), real(2, 2, 5, 4), real(2, 2, 5, 4)), _cached,
     qkv=_WIDE["qkv"])  # fmt: skip
_add("a mixture of experts", lambda: (real(5, 7),), _experts, gate=lambda: nn.Linear(7, 3),
     **{name: lambda: nn.Linear(7, 4) for name in ("one", "two", "three")})  # fmt: skip
_add("norms", lambda: (real(2, 5, 7),), _norms, norm=lambda: nn.LayerNorm(7))
_add("nn.MultiheadAttention", lambda: (real(2, 5, 8),), lambda m, x: m.f(x, x, x, need_weights=False)[0],
     f=lambda: nn.MultiheadAttention(8, 2, batch_first=True))  # fmt: skip
_single("nn.TransformerEncoderLayer", lambda: nn.TransformerEncoderLayer(8, 2, 12, batch_first=True), 2, 5, 8)
_add("nn.TransformerDecoderLayer", lambda: (real(2, 5, 8), real(2, 7, 8)), lambda m, x, y: m.f(x, y),
     f=lambda: nn.TransformerDecoderLayer(8, 2, 12, batch_first=True))  # fmt: skip
_add("words and logits", lambda: (torch.tensor([[1, 5, 2]]),), lambda m, x: F.log_softmax(m.h(m.e(x)), -1),
     e=lambda: nn.Embedding(11, 6), h=lambda: nn.Linear(6, 11))  # fmt: skip

# -- images ---------------------------------------------------------------------------------------------------------


def _residual(m: Any, x: Any) -> Any:
    y = F.relu(m.norm(m.one(x)))
    return F.relu(m.norm2(m.two(y)) + m.down(x))


def _inverted(m: Any, x: Any) -> Any:
    y = F.relu6(m.wide(x))
    y = F.hardswish(m.deep(y))
    gates = F.hardsigmoid(m.gate(F.adaptive_avg_pool2d(y, 1)))
    return x + m.narrow(y * gates)


def _vit(m: Any, x: Any) -> Any:
    x = m.patches(x).flatten(2).transpose(1, 2)
    x = torch.cat((m.token(torch.zeros(x.shape[0], 1, dtype=torch.long)), x), 1)
    return m.head(m.layer(x)[:, 0])


def _unet(m: Any, x: Any) -> Any:
    down = F.silu(m.norm(m.down(x)))
    up = F.interpolate(down, scale_factor=2, mode="nearest")
    return m.out(torch.cat((x, up), 1))


def _unet_transposed(m: Any, x: Any) -> Any:
    return m.up(F.max_pool2d(F.relu(m.down(x)), 2))


def _swin(m: Any, x: Any) -> Any:
    b, h, w, c = x.shape
    x = torch.roll(x, (-1, -1), (1, 2)).view(b, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5)
    x = m.f(x.reshape(-1, 4, c)).view(b, h // 2, w // 2, 2, 2, c).permute(0, 1, 3, 2, 4, 5)
    return torch.roll(x.reshape(b, h, w, c), (1, 1), (1, 2))


def _pyramid(m: Any, x: Any) -> Any:
    y = m.f(x)
    return y + F.interpolate(F.max_pool2d(y, 2), size=y.shape[2:], mode="bilinear", align_corners=False)


def _pooled(m: Any, x: Any) -> Any:
    return torch.cat([F.max_pool2d(x, 5, 1, 2), F.avg_pool2d(x, 3, 1, 1), x], 1)


def _conv(*arguments: int, **options: Any) -> Callable[[], Any]:
    return lambda: nn.Conv2d(*arguments, **options)


_add("a block of ResNet", lambda: (real(2, 4, 7, 9),), _residual, one=_conv(4, 6, 3, padding=1),
     two=_conv(6, 6, 3, padding=1), down=_conv(4, 6, 1), norm=lambda: nn.BatchNorm2d(6),
     norm2=lambda: nn.BatchNorm2d(6))  # fmt: skip
_add("a block of MobileNet", lambda: (real(2, 4, 7, 9),), _inverted, wide=_conv(4, 8, 1),
     deep=_conv(8, 8, 3, padding=1, groups=8), gate=_conv(8, 8, 1), narrow=_conv(8, 4, 1))  # fmt: skip
_add("a vision transformer", lambda: (real(2, 3, 8, 12),), _vit, patches=_conv(3, 8, 4, 4),
     token=lambda: nn.Embedding(1, 8), layer=lambda: nn.TransformerEncoderLayer(8, 2, 12, batch_first=True),
     head=lambda: nn.Linear(8, 5))  # fmt: skip
_add("a block of a U-Net", lambda: (real(2, 4, 6, 10),), _unet, down=_conv(4, 6, 3, stride=2, padding=1),
     norm=lambda: nn.GroupNorm(2, 6), out=_conv(10, 4, 3, padding=1))  # fmt: skip
_add("a U-Net with transposed convolutions", lambda: (real(2, 3, 6, 10),), _unet_transposed,
     down=_conv(3, 5, 3, padding=1), up=lambda: nn.ConvTranspose2d(5, 4, 2, 2))  # fmt: skip
_add("shifted windows", lambda: (real(2, 4, 6, 5),), _swin, f=lambda: nn.Linear(5, 5))
_add("a pyramid with bilinear upsampling", lambda: (real(2, 3, 4, 6),), _pyramid, f=_conv(3, 3, 1))
_add("a block of ConvNeXt", lambda: (real(2, 4, 9, 11),),
     lambda m, x: x + m.b(F.gelu(m.a(m.n(m.d(x).permute(0, 2, 3, 1))))).permute(0, 3, 1, 2),
     d=_conv(4, 4, 7, padding=3, groups=4), n=lambda: nn.LayerNorm(4), a=lambda: nn.Linear(4, 8),
     b=lambda: nn.Linear(8, 4))  # fmt: skip
_add("pools of YOLO", lambda: (real(2, 3, 7, 9),), _pooled)
_single("pixel shuffle", lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.PixelShuffle(2)), 2, 3, 5, 7)
_single("pixel unshuffle", lambda: nn.PixelUnshuffle(2), 2, 3, 6, 10)
_single("an instance norm", lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.InstanceNorm2d(4), nn.PReLU(4)), 2, 3, 6, 7)
_single("a reflection and a convolution", lambda: nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(3, 4, 3)), 2, 3, 5, 7)
_single("a replication and a convolution", lambda: nn.Sequential(nn.ReplicationPad2d(1), nn.Conv2d(3, 4, 3)),
        2, 3, 5, 7)  # fmt: skip
_single("a dilated convolution", _conv(3, 4, 3, dilation=2, padding=2), 2, 3, 8, 9)
_single("a pool with the ceiling", lambda: nn.MaxPool2d(3, 2, ceil_mode=True), 2, 3, 8, 10)
_single("an adaptive pool", lambda: nn.AdaptiveAvgPool2d((2, 3)), 2, 3, 8, 9)
_add("samples of a grid", lambda: (real(2, 3, 5, 7), torch.rand(2, 4, 6, 2) - 0.5),
     lambda m, x, g: F.grid_sample(x, g, align_corners=False))  # fmt: skip

# -- sequences and losses -------------------------------------------------------------------------------------------


def _mamba(m: Any, x: Any) -> Any:
    x = F.silu(m.conv(x.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
    steps = F.softplus(m.step(x))
    return x * torch.exp(-steps.cumsum(1))


def _rwkv(m: Any, x: Any) -> Any:
    before = torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1]), 1)
    return m.f(x * 0.3 + before * 0.7).sigmoid() * x


def _pooled_words(m: Any, x: Any, mask: Any) -> Any:
    return F.normalize((x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1e-9), dim=-1)


_add("a chunk of Mamba", lambda: (real(2, 6, 4),), _mamba, conv=lambda: nn.Conv1d(4, 4, 3, padding=2, groups=4),
     step=lambda: nn.Linear(4, 4))  # fmt: skip
_add("a time mix of RWKV", lambda: (real(2, 5, 4),), _rwkv, f=lambda: nn.Linear(4, 4))
_add("nn.LSTM", lambda: (real(2, 5, 4),), lambda m, x: m.f(x)[0], f=lambda: nn.LSTM(4, 3, batch_first=True))
_add("nn.GRU", lambda: (real(2, 5, 4),), lambda m, x: m.f(x)[0], f=lambda: nn.GRU(4, 3, batch_first=True))
_add("a mean of words", lambda: (real(2, 5, 4), torch.tensor([[1.0, 1, 1, 0, 0], [1, 1, 0, 0, 0]])), _pooled_words)
_add("cross-entropy", lambda: (real(5, 4), torch.tensor([0, 1, 2, 3, 1])), lambda m, x, y: F.cross_entropy(x, y))
_add("rows written by scatter", lambda: (real(5, 4), torch.tensor([[3], [0]]).expand(2, 4), real(2, 4)),
     lambda m, x, at, new: x.scatter(0, at, new))  # fmt: skip
_add("rows added by index", lambda: (real(5, 4), torch.tensor([3, 0, 3]), real(3, 4)),
     lambda m, x, at, new: x.index_add(0, at, new))  # fmt: skip
_add("a row written", lambda: (real(5, 4), real(4)),
     lambda m, x, new: torch.slice_scatter(x, new[None], 0, 2, 3))  # fmt: skip
_add("what is not zero", lambda: (real(5, 4),), lambda m, x: torch.nonzero(x > 0).float())
_add("a triangle of distances", lambda: (real(5, 4),),
     lambda m, x: (x[:, None] - x).pow(2).sum(-1).tril() + torch.atan(x @ x.t()))  # fmt: skip
