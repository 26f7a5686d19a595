"""Blocks of convolutional networks, as their authors write them, at sizes that people use."""
# mypy: ignore-errors

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F


class ConvNeXt(nn.Module):
    def __init__(s, d=128):
        super().__init__()
        s.c = nn.Conv2d(d, d, 7, padding=3, groups=d)
        s.n = nn.LayerNorm(d)
        s.f1 = nn.Linear(d, 4 * d)
        s.f2 = nn.Linear(4 * d, d)
        s.g = nn.Parameter(torch.ones(d))

    def forward(s, x):
        y = s.c(x).permute(0, 2, 3, 1)
        y = s.f2(F.gelu(s.f1(s.n(y)))) * s.g
        return x + y.permute(0, 3, 1, 2)


class ResBlock(nn.Module):
    "U-Net"

    def __init__(s, c=128, e=512):
        super().__init__()
        s.n1 = nn.GroupNorm(32, c)
        s.c1 = nn.Conv2d(c, c, 3, padding=1)
        s.e = nn.Linear(e, c)
        s.n2 = nn.GroupNorm(32, c)
        s.c2 = nn.Conv2d(c, c, 3, padding=1)

    def forward(s, x, t):
        y = s.c1(F.silu(s.n1(x))) + s.e(F.silu(t))[:, :, None, None]
        return x + s.c2(F.silu(s.n2(y)))


class Bottleneck(nn.Module):
    "ResNet in evaluation"

    def __init__(s, c=256, m=64):
        super().__init__()
        s.c1 = nn.Conv2d(c, m, 1, bias=False)
        s.b1 = nn.BatchNorm2d(m)
        s.c2 = nn.Conv2d(m, m, 3, padding=1, bias=False)
        s.b2 = nn.BatchNorm2d(m)
        s.c3 = nn.Conv2d(m, c, 1, bias=False)
        s.b3 = nn.BatchNorm2d(c)

    def forward(s, x):
        y = F.relu(s.b1(s.c1(x)))
        y = F.relu(s.b2(s.c2(y)))
        return F.relu(x + s.b3(s.c3(y)))


class SE(nn.Module):
    def __init__(s, c=256, r=16):
        super().__init__()
        s.a = nn.Linear(c, r)
        s.b = nn.Linear(r, c)

    def forward(s, x):
        return x * torch.sigmoid(s.b(F.relu(s.a(x.mean((2, 3))))))[:, :, None, None]


class Conformer(nn.Module):
    "convolution module"

    def __init__(s, d=256):
        super().__init__()
        s.n = nn.LayerNorm(d)
        s.a = nn.Conv1d(d, 2 * d, 1)
        s.c = nn.Conv1d(d, d, 31, padding=15, groups=d)
        s.bn = nn.BatchNorm1d(d)
        s.b = nn.Conv1d(d, d, 1)

    def forward(s, x):
        y = F.glu(s.a(s.n(x).transpose(1, 2)), 1)
        y = F.silu(s.bn(s.c(y)))
        return x + s.b(y).transpose(1, 2)


def normal(*shape):
    return torch.randn(shape)


LAYERS = {
    "convnext": lambda: (ConvNeXt(), (normal(8, 128, 56, 56),)),
    "resblock": lambda: (ResBlock(), (normal(4, 128, 32, 32), normal(4, 512))),
    "bottleneck": lambda: (Bottleneck(), (normal(8, 256, 56, 56),)),
    "se": lambda: (SE(), (normal(8, 256, 56, 56),)),
    "conformer": lambda: (Conformer(), (normal(8, 512, 256),)),
}
"""Each layer, with example inputs."""
