"""Layers that read and add rows where arrays of integers say: graphs, mixtures of experts, bags of embeddings. Each has
sizes that people use, and small ones."""
# mypy: ignore-errors
# ruff: noqa: E501

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F


class GraphConvolution(nn.Module):
    """Messages of neighbors, weighted and added up (Kipf and Welling 2017)."""

    def __init__(s, d, o):
        super().__init__()
        s.lin = nn.Linear(d, o, bias=False)

    def forward(s, x, source, target, weight):
        messages = s.lin(x)[source] * weight[:, None]
        return F.silu(messages.new_zeros(x.shape[0], messages.shape[1]).index_add(0, target, messages))


class EdgeMessages(nn.Module):
    """A network of both ends of an edge, summed at one of them."""

    def __init__(s, d, o):
        super().__init__()
        s.own, s.other = nn.Linear(d, o), nn.Linear(d, o, bias=False)

    def forward(s, x, source, target):
        made = F.silu(s.own(x[target]) + s.other(x[source]))
        return made.new_zeros(x.shape[0], made.shape[1]).index_add(0, target, made)


class GraphAttention(nn.Module):
    """A softmax over the edges that end at a node (Velickovic et al. 2018)."""

    def __init__(s, d):
        super().__init__()
        s.lin = nn.Linear(d, d, bias=False)
        s.left, s.right = nn.Parameter(torch.randn(d) * d**-0.5), nn.Parameter(torch.randn(d) * d**-0.5)

    def forward(s, x, source, target):
        h = s.lin(x)
        score = F.leaky_relu((h @ s.left)[source] + (h @ s.right)[target], 0.2)
        shares = torch.exp(score)
        total = shares.new_zeros(x.shape[0]).index_add(0, target, shares)
        weight = shares / total[target]
        return torch.zeros_like(h).index_add(0, target, h[source] * weight[:, None])


class Combine(nn.Module):
    """Rows of experts, weighted and put back to their tokens."""

    def __init__(s, tokens):
        super().__init__()
        s.tokens = tokens

    def forward(s, made, token, weight):
        return made.new_zeros(s.tokens, made.shape[1]).index_add(0, token, made * weight[:, None])


class Readout(nn.Module):
    """The means of the nodes of each graph."""

    def __init__(s, graphs):
        super().__init__()
        s.graphs = graphs

    def forward(s, x, graph):
        total = x.new_zeros(s.graphs, x.shape[1]).index_add(0, graph, x)
        count = x.new_zeros(s.graphs).index_add(0, graph, torch.ones_like(x[:, 0]))
        return total / count.clamp(min=1)[:, None]


class Bag(nn.Module):
    """Sums of embeddings."""

    def __init__(s, words, d):
        super().__init__()
        s.words = nn.Embedding(words, d)

    def forward(s, ids):
        return s.words(ids).sum(1)


def edges(n, e):
    return torch.randint(n, (e,)), torch.randint(n, (e,))


# fmt: off
SIZES = {
    "graph_convolution": (lambda n, e, d, o: (GraphConvolution(d, o), (torch.randn(n, d), *edges(n, e), torch.rand(e))), {"n": 16384, "e": 131072, "d": 256, "o": 256}),
    "edge_messages": (lambda n, e, d, o: (EdgeMessages(d, o), (torch.randn(n, d), *edges(n, e))), {"n": 16384, "e": 131072, "d": 128, "o": 128}),
    "graph_attention": (lambda n, e, d: (GraphAttention(d), (torch.randn(n, d), *edges(n, e))), {"n": 16384, "e": 131072, "d": 128}),
    "combine": (lambda t, r, d: (Combine(t), (torch.randn(r, d), torch.randint(t, (r,)), torch.rand(r))), {"t": 8192, "r": 16384, "d": 2048}),
    "readout": (lambda n, g, d: (Readout(g), (torch.randn(n, d), torch.sort(torch.randint(g, (n,))).values)), {"n": 65536, "g": 1024, "d": 256}),
    "bag": (lambda b, k, d, v: (Bag(v, d), (torch.randint(v, (b, k)),)), {"b": 4096, "k": 32, "d": 256, "v": 100000}),
}
"""Each layer, with its sizes."""
SMALL = {"n": 7, "e": 12, "d": 8, "o": 5, "t": 6, "r": 9, "g": 3, "b": 4, "k": 3, "v": 11}
# fmt: on
LAYERS = {name: lambda made=made, sizes=sizes: made(**sizes) for name, (made, sizes) in SIZES.items()}
"""Each layer, with example inputs."""


def small(name):
    """A layer at sizes that are quick in float64."""
    made, sizes = SIZES[name]
    return made(**{key: SMALL[key] for key in sizes})
