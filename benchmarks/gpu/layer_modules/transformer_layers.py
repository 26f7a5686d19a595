"""Layers of transformers and their kin, as their authors write them, at sizes that people use."""
# mypy: ignore-errors
# ruff: noqa: E731

from __future__ import annotations

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class ViTBlock(nn.Module):
    def __init__(s, d=768, h=12, m=3072):
        super().__init__()
        s.h = h
        s.n1 = nn.LayerNorm(d)
        s.n2 = nn.LayerNorm(d)
        s.qkv = nn.Linear(d, 3 * d)
        s.o = nn.Linear(d, d)
        s.f1 = nn.Linear(d, m)
        s.f2 = nn.Linear(m, d)

    def forward(s, x):
        b, t, d = x.shape
        q, k, v = s.qkv(s.n1(x)).reshape(b, t, 3, s.h, d // s.h).permute(2, 0, 3, 1, 4).unbind(0)
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d)
        x = x + s.o(a)
        return x + s.f2(F.gelu(s.f1(s.n2(x))))


class Parallel(nn.Module):
    def __init__(s, d=4096, h=32, m=16384):
        super().__init__()
        s.h = h
        s.n = nn.LayerNorm(d)
        s.q = nn.Linear(d, d, bias=False)
        s.k = nn.Linear(d, d, bias=False)
        s.v = nn.Linear(d, d, bias=False)
        s.o = nn.Linear(d, d, bias=False)
        s.f1 = nn.Linear(d, m)
        s.f2 = nn.Linear(m, d)

    def forward(s, x):
        b, t, d = x.shape
        y = s.n(x)
        q, k, v = (p(y).reshape(b, t, s.h, d // s.h).transpose(1, 2) for p in (s.q, s.k, s.v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)
        return x + s.o(a) + s.f2(F.gelu(s.f1(y)))


class Cross(nn.Module):
    def __init__(s, d=1024, h=16, m=4096):
        super().__init__()
        s.h = h
        s.n1 = nn.LayerNorm(d)
        s.n2 = nn.LayerNorm(d)
        s.n3 = nn.LayerNorm(d)
        for n in ["q", "k", "v", "o", "q2", "k2", "v2", "o2"]:
            setattr(s, n, nn.Linear(d, d))
        s.f1 = nn.Linear(d, m)
        s.f2 = nn.Linear(m, d)

    def heads(s, x):
        b, t, d = x.shape
        return x.reshape(b, t, s.h, d // s.h).transpose(1, 2)

    def att(s, q, k, v, c):
        y = F.scaled_dot_product_attention(s.heads(q), s.heads(k), s.heads(v), is_causal=c).transpose(1, 2)
        return y.reshape(q.shape)

    def forward(s, x, m):
        y = s.n1(x)
        x = x + s.o(s.att(s.q(y), s.k(y), s.v(y), True))
        y = s.n2(x)
        x = x + s.o2(s.att(s.q2(y), s.k2(m), s.v2(m), False))
        return x + s.f2(F.relu(s.f1(s.n3(x))))


class RMS(nn.Module):
    def __init__(s, d):
        super().__init__()
        s.w = nn.Parameter(torch.ones(d))

    def forward(s, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * s.w


class Llama(nn.Module):
    def __init__(s, d=2048, h=16, kv=4, m=5632):
        super().__init__()
        s.h, s.kv, s.e = h, kv, d // h
        s.n1 = RMS(d)
        s.n2 = RMS(d)
        s.q = nn.Linear(d, d, bias=False)
        s.k = nn.Linear(d, kv * s.e, bias=False)
        s.v = nn.Linear(d, kv * s.e, bias=False)
        s.o = nn.Linear(d, d, bias=False)
        s.g = nn.Linear(d, m, bias=False)
        s.u = nn.Linear(d, m, bias=False)
        s.w = nn.Linear(m, d, bias=False)

    def projected(s, x, cos, sin):
        b, t, _ = x.shape
        y = s.n1(x)

        def rot(z):
            a, c = z.chunk(2, -1)
            return z * cos + torch.cat((-c, a), -1) * sin

        q = rot(s.q(y).reshape(b, t, s.h, s.e).transpose(1, 2))
        k = rot(s.k(y).reshape(b, t, s.kv, s.e).transpose(1, 2))
        return q, k, s.v(y).reshape(b, t, s.kv, s.e).transpose(1, 2)

    def finished(s, x, a):
        x = x + s.o(a.transpose(1, 2).reshape(x.shape))
        y = s.n2(x)
        return x + s.w(F.silu(s.g(y)) * s.u(y))

    def forward(s, x, cos, sin):
        q, k, v = s.projected(x, cos, sin)
        return s.finished(x, F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True))


class LlamaCache(Llama):
    """One step of decoding."""

    def forward(s, x, kc, vc, cos, sin):
        q, k, v = s.projected(x, cos, sin)
        k, v = torch.cat((kc, k), 2), torch.cat((vc, v), 2)
        return s.finished(x, F.scaled_dot_product_attention(q, k, v, enable_gqa=True)), k, v


class MoE(nn.Module):
    def __init__(s, d=1024, m=2048, n=8):
        super().__init__()
        s.n = RMS(d)
        s.r = nn.Linear(d, n, bias=False)
        s.w1 = nn.Parameter(torch.randn(n, d, m) * 0.02)
        s.w2 = nn.Parameter(torch.randn(n, m, d) * 0.02)

    def forward(s, x):
        y = s.n(x)
        p = F.softmax(s.r(y), -1)
        h = F.silu(torch.einsum("btd,ndm->btnm", y, s.w1))
        return x + torch.einsum("btnm,nmd,btn->btd", h, s.w2, p)


class PostNorm(nn.Module):
    "BERT"

    def __init__(s, d=1024, h=16, m=4096):
        super().__init__()
        s.h = h
        s.n1 = nn.LayerNorm(d)
        s.n2 = nn.LayerNorm(d)
        for n in ["q", "k", "v", "o"]:
            setattr(s, n, nn.Linear(d, d))
        s.f1 = nn.Linear(d, m)
        s.f2 = nn.Linear(m, d)

    def forward(s, x, mask):
        b, t, d = x.shape
        hd = lambda z: z.reshape(b, t, s.h, d // s.h).transpose(1, 2)
        a = (
            F.scaled_dot_product_attention(hd(s.q(x)), hd(s.k(x)), hd(s.v(x)), attn_mask=mask[:, None, None, :])
            .transpose(1, 2)
            .reshape(b, t, d)
        )
        x = s.n1(x + s.o(a))
        return s.n2(x + s.f2(F.gelu(s.f1(x))))


class Gemma2(nn.Module):
    def __init__(s, d=1024, h=8, kv=4, m=4096):
        super().__init__()
        s.h, s.kv, s.e = h, kv, d // h
        for n in ["a", "b", "c", "f"]:
            setattr(s, "n" + n, RMS(d))
        s.q = nn.Linear(d, d, bias=False)
        s.k = nn.Linear(d, kv * s.e, bias=False)
        s.v = nn.Linear(d, kv * s.e, bias=False)
        s.o = nn.Linear(d, d, bias=False)
        s.g = nn.Linear(d, m, bias=False)
        s.u = nn.Linear(d, m, bias=False)
        s.w = nn.Linear(m, d, bias=False)

    def forward(s, x):
        b, t, d = x.shape
        y = s.na(x)
        q = s.q(y).view(b, t, s.h, s.e).transpose(1, 2)
        k = s.k(y).view(b, t, s.kv, s.e).transpose(1, 2).repeat_interleave(s.h // s.kv, 1)
        v = s.v(y).view(b, t, s.kv, s.e).transpose(1, 2).repeat_interleave(s.h // s.kv, 1)
        a = 50 * torch.tanh((q @ k.transpose(-1, -2)) / math.sqrt(s.e) / 50)
        i = torch.arange(t, device=x.device)
        m = (i[None] <= i[:, None]) & (i[:, None] - i[None] < 256)
        a = torch.softmax(a.masked_fill(~m, -torch.inf), -1) @ v
        x = x + s.nb(s.o(a.transpose(1, 2).reshape(b, t, d)))
        y = s.nc(x)
        return x + s.nf(s.w(F.gelu(s.g(y), approximate="tanh") * s.u(y)))


class Prefill(nn.Module):
    "several new tokens behind a cache"

    def __init__(s, d=1024, h=8):
        super().__init__()
        s.h = h
        s.n = nn.LayerNorm(d)
        s.qkv = nn.Linear(d, 3 * d)
        s.o = nn.Linear(d, d)

    def forward(s, x, kc, vc):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, s.h, d // s.h).transpose(1, 2) for z in s.qkv(s.n(x)).chunk(3, -1))
        k = torch.cat((kc, k), 2)
        v = torch.cat((vc, v), 2)
        L = k.shape[2]
        m = torch.arange(L, device=x.device)[None, :] <= torch.arange(t, device=x.device)[:, None] + L - t
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=m)
        return x + s.o(a.transpose(1, 2).reshape(b, t, d)), k, v


class Swin(nn.Module):
    def __init__(s, d=192, h=6, w=7):
        super().__init__()
        s.h, s.w = h, w
        s.n = nn.LayerNorm(d)
        s.n2 = nn.LayerNorm(d)
        s.qkv = nn.Linear(d, 3 * d)
        s.o = nn.Linear(d, d)
        s.b = nn.Parameter(torch.randn(h, w * w, w * w))
        s.f1 = nn.Linear(d, 4 * d)
        s.f2 = nn.Linear(4 * d, d)

    def forward(s, x):
        B, H, W, C = x.shape
        w = s.w
        y = s.n(x).view(B, H // w, w, W // w, w, C).permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, C)
        q, k, v = s.qkv(y).view(-1, w * w, 3, s.h, C // s.h).permute(2, 0, 3, 1, 4)
        a = torch.softmax(q @ k.transpose(-1, -2) * (C // s.h) ** -0.5 + s.b, -1) @ v
        a = (
            s.o(a.transpose(1, 2).reshape(-1, w * w, C))
            .view(B, H // w, W // w, w, w, C)
            .permute(0, 1, 3, 2, 4, 5)
            .reshape(B, H, W, C)
        )
        x = x + a
        return x + s.f2(F.gelu(s.f1(s.n2(x))))


class TopMoE(nn.Module):
    def __init__(s, d=512, m=1024, n=8):
        super().__init__()
        s.r = nn.Linear(d, n, bias=False)
        s.w1 = nn.Parameter(torch.randn(n, d, m) * 0.02)
        s.w2 = nn.Parameter(torch.randn(n, m, d) * 0.02)

    def forward(s, x):
        p = F.softmax(s.r(x), -1)
        v, i = p.topk(2, -1)
        v = v / v.sum(-1, keepdim=True)
        h = F.silu(torch.einsum("td,tkdm->tkm", x, s.w1[i]))
        return torch.einsum("tkm,tkmd,tk->td", h, s.w2[i], v)


class MLA(nn.Module):
    def __init__(s, d=1024, h=8, c=256, r=32, e=64):
        super().__init__()
        s.h, s.r, s.e = h, r, e
        s.n = RMS(d)
        s.q = nn.Linear(d, h * (e + r), bias=False)
        s.kv = nn.Linear(d, c + r, bias=False)
        s.nc = RMS(c)
        s.uk = nn.Parameter(torch.randn(h, e, c) * 0.05)
        s.uv = nn.Parameter(torch.randn(h, e, c) * 0.05)
        s.o = nn.Linear(h * e, d, bias=False)
        s.c = c

    def forward(s, x, cos, sin):
        b, t, _d = x.shape
        y = s.n(x)
        q = s.q(y).view(b, t, s.h, -1)
        qn, qr = q[..., : s.e], q[..., s.e :]
        z = s.kv(y)
        c, kr = s.nc(z[..., : s.c]), z[..., s.c :]
        rot = lambda u, co, si: u * co + torch.cat((-u[..., s.r // 2 :], u[..., : s.r // 2]), -1) * si
        qr = rot(qr, cos[:, None], sin[:, None])
        kr = rot(kr, cos, sin)
        k = torch.einsum("btc,hec->bthe", c, s.uk)
        v = torch.einsum("btc,hec->bthe", c, s.uv)
        a = (torch.einsum("bthe,bshe->bhts", qn, k) + torch.einsum("bthr,bsr->bhts", qr, kr)) / math.sqrt(s.e + s.r)
        i = torch.arange(t, device=x.device)
        a = torch.softmax(a.masked_fill(i[None] > i[:, None], -torch.inf), -1)
        return x + s.o(torch.einsum("bhts,bshe->bthe", a, v).reshape(b, t, -1))


class NeoX(ViTBlock):
    def __init__(s, d=1024, h=16):
        super().__init__(d, h, 4 * d)

    def forward(s, x, cos, sin):
        b, t, d = x.shape
        q, k, v = s.qkv(s.n1(x)).view(b, t, s.h, -1).transpose(1, 2).chunk(3, -1)
        rot = lambda u: u * cos + torch.cat((-u[..., u.shape[-1] // 2 :], u[..., : u.shape[-1] // 2]), -1) * sin
        a = F.scaled_dot_product_attention(rot(q), rot(k), v, is_causal=True).transpose(1, 2).reshape(b, t, d)
        return x + s.o(a) + s.f2(F.gelu(s.f1(s.n2(x))))


class Mixer(nn.Module):
    def __init__(s, p=196, d=512):
        super().__init__()
        s.n1 = nn.LayerNorm(d)
        s.n2 = nn.LayerNorm(d)
        s.a = nn.Linear(p, 256)
        s.b = nn.Linear(256, p)
        s.c = nn.Linear(d, 2048)
        s.d = nn.Linear(2048, d)

    def forward(s, x):
        x = x + s.b(F.gelu(s.a(s.n1(x).transpose(1, 2)))).transpose(1, 2)
        return x + s.d(F.gelu(s.c(s.n2(x))))


class AdaLN(nn.Module):
    "DiT block"

    def __init__(s, d=512, h=8):
        super().__init__()
        s.h = h
        s.n = nn.LayerNorm(d, elementwise_affine=False)
        s.m = nn.Linear(d, 6 * d)
        s.qkv = nn.Linear(d, 3 * d)
        s.o = nn.Linear(d, d)
        s.f1 = nn.Linear(d, 4 * d)
        s.f2 = nn.Linear(4 * d, d)

    def forward(s, x, c):
        b, t, d = x.shape
        a1, b1, g1, a2, b2, g2 = s.m(F.silu(c)).chunk(6, 1)
        y = s.n(x) * (1 + b1[:, None]) + a1[:, None]
        q, k, v = s.qkv(y).view(b, t, 3, s.h, d // s.h).permute(2, 0, 3, 1, 4)
        x = x + g1[:, None] * s.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d))
        y = s.n(x) * (1 + b2[:, None]) + a2[:, None]
        return x + g2[:, None] * s.f2(F.gelu(s.f1(y), approximate="tanh"))


class Alibi(nn.Module):
    def __init__(s, d=1024, h=16):
        super().__init__()
        s.h = h
        s.n = nn.LayerNorm(d)
        s.qkv = nn.Linear(d, 3 * d)
        s.o = nn.Linear(d, d)
        s.register_buffer("sl", 2.0 ** (-torch.arange(1, h + 1) * 8 / h))

    def forward(s, x):
        b, t, d = x.shape
        q, k, v = s.qkv(s.n(x)).view(b, t, 3, s.h, -1).permute(2, 0, 3, 1, 4)
        i = torch.arange(t, device=x.device)
        a = q @ k.transpose(-1, -2) / math.sqrt(d // s.h) + s.sl[:, None, None] * (i[None] - i[:, None])
        a = torch.softmax(a.masked_fill(i[None] > i[:, None], -torch.inf), -1) @ v
        return x + s.o(a.transpose(1, 2).reshape(b, t, d))


class GPT(nn.Module):
    "embedding, position, norm, head and loss"

    def __init__(s, V=8192, d=512):
        super().__init__()
        s.e = nn.Embedding(V, d)
        s.p = nn.Embedding(1024, d)
        s.n = nn.LayerNorm(d)

    def forward(s, i, y):
        x = s.n(s.e(i) + s.p(torch.arange(i.shape[1], device=i.device)))
        z = x @ s.e.weight.T
        return F.cross_entropy(z.view(-1, z.shape[-1]), y.view(-1))


class Linear(nn.Module):
    "linear attention, not causal"

    def __init__(s, d=512, h=8):
        super().__init__()
        s.h = h
        s.qkv = nn.Linear(d, 3 * d)
        s.o = nn.Linear(d, d)

    def forward(s, x):
        b, t, d = x.shape
        q, k, v = s.qkv(x).view(b, t, 3, s.h, -1).permute(2, 0, 3, 1, 4)
        q = F.elu(q) + 1
        k = F.elu(k) + 1
        kv = k.transpose(-1, -2) @ v
        z = 1 / (q @ k.sum(-2)[..., None])
        return s.o((q @ kv * z).transpose(1, 2).reshape(b, t, d))


class Perceiver(nn.Module):
    def __init__(s, n=64, d=512, h=8):
        super().__init__()
        s.h = h
        s.l = nn.Parameter(torch.randn(n, d))
        s.q = nn.Linear(d, d)
        s.kv = nn.Linear(d, 2 * d)
        s.o = nn.Linear(d, d)
        s.n = nn.LayerNorm(d)

    def forward(s, x):
        b, _t, d = x.shape
        hd = lambda z: z.view(*z.shape[:-1], s.h, -1).transpose(-2, -3)
        q = hd(s.q(s.l))
        k, v = s.kv(s.n(x)).chunk(2, -1)
        a = torch.softmax(q @ hd(k).transpose(-1, -2) / 8, -1) @ hd(v)
        return s.l + s.o(a.transpose(1, 2).reshape(b, -1, d))


def normal(*shape):
    return torch.randn(shape)


LAYERS = {
    "vit": lambda: (ViTBlock(), (normal(8, 196, 768),)),
    "parallel": lambda: (Parallel(1024, 8, 4096), (normal(2, 2048, 1024),)),
    "cross": lambda: (Cross(), (normal(2, 1024, 1024), normal(2, 1500, 1024))),
    "cache": lambda: (
        LlamaCache(),
        (normal(4, 1, 2048), normal(4, 4, 4095, 128), normal(4, 4, 4095, 128), normal(1, 128), normal(1, 128)),
    ),
    "llama": lambda: (Llama(), (normal(2, 2048, 2048), normal(2048, 128), normal(2048, 128))),
    "moe": lambda: (MoE(), (normal(2, 1024, 1024),)),
    "bert": lambda: (PostNorm(), (normal(4, 512, 1024), torch.ones(4, 512, dtype=torch.bool))),
    "gemma2": lambda: (Gemma2(), (normal(2, 1024, 1024),)),
    "prefill": lambda: (Prefill(), (normal(2, 16, 1024), normal(2, 8, 1008, 128), normal(2, 8, 1008, 128))),
    "swin": lambda: (Swin(), (normal(8, 56, 56, 192),)),
    "topmoe": lambda: (TopMoE(), (normal(256, 512),)),
    "mla": lambda: (MLA(), (normal(2, 1024, 1024), normal(1024, 32), normal(1024, 32))),
    "neox": lambda: (NeoX(), (normal(2, 1024, 1024), normal(1024, 64), normal(1024, 64))),
    "mixer": lambda: (Mixer(), (normal(32, 196, 512),)),
    "adaln": lambda: (AdaLN(), (normal(8, 256, 512), normal(8, 512))),
    "alibi": lambda: (Alibi(), (normal(2, 1024, 1024),)),
    "gpt": lambda: (GPT(), (torch.randint(0, 8192, (4, 512)), torch.randint(0, 8192, (4, 512)))),
    "linear": lambda: (Linear(), (normal(4, 2048, 512),)),
    "perceiver": lambda: (Perceiver(), (normal(8, 4096, 512),)),
}
"""Each layer, with example inputs."""
