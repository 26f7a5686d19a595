"""What PyTorch with Inductor is predicted to take for a part of a graph: a model that is kind to it.

- A product, a convolution and attention are one kernel each, of a library: the longer of its FLOPs at the rate that the
  chip sustains, and its arguments and results, each once, at the bandwidth that it sustains.
- Everything else that is connected without passing through one of these is one kernel, reductions too: it reads what it
  is given and writes what others read, each once, at that bandwidth.
- Between two kernels is the time of a launch.

So a region is taken only where its plan is quicker than kernels that waste nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from catdiag.chip.hardware import Hardware
from catdiag.importers.torch_export import operation_of
from catdiag.integrations.graph_regions import MOVES_NOTHING, bytes_of, bytes_of_values

LIBRARY = frozenset(
    [
        "linear", "addmm", "addmv", "mm", "bmm", "baddbmm", "matmul", "mv", "dot", "einsum",
        "scaled_dot_product_attention", "conv1d", "conv2d", "conv3d", "convolution", "_convolution",
    ]
)  # fmt: skip
_SELECTS = frozenset(
    [
        "embedding", "index", "index_select", "gather", "slice", "select", "split", "split_with_sizes", "chunk",
        "unbind", "take_along_dim", "take", "narrow", "masked_select", "getitem",
    ]
)  # fmt: skip
"""Operations that may read a part of what they are given."""


def predicted_s(module: Any, chip: Hardware, dtype: str) -> float:
    """The predicted seconds of a graph of tensors, in one type."""
    bandwidth, rate = _rates(chip, dtype)
    nodes = [n for n in module.graph.nodes if n.op == "call_function"]
    products = [n for n in nodes if operation_of(n) in LIBRARY]
    times = [max(flops_of(n) / rate, bytes_of(n) / bandwidth) for n in products]
    times += [_moved(group) / bandwidth for group in _connected([n for n in nodes if n not in set(products)])]
    return sum(times) + chip.launch_s * max(len(times) - 1, 0)


def least_s(module: Any, chip: Hardware, dtype: str) -> float:
    """At least so many seconds are predicted for any plan of the graph, in one type: the longer of the FLOPs of its
    products as they are written, and its arguments and results, each once.

    What a mask or a position may leave out counts nothing: FLOPs of attention with a mask, and arguments of which
    something selects (`_SELECTS`). A plan that reassociates products may take less.
    """
    bandwidth, rate = _rates(chip, dtype)
    nodes = list(module.graph.nodes)
    flops = sum(flops_of(n) for n in nodes if n.op == "call_function" and operation_of(n) in LIBRARY and not _masked(n))
    moved = 0
    for node in nodes:
        if node.op == "output":
            moved += sum(bytes_of_values(n) for n in node.all_input_nodes)
        elif node.op in ("placeholder", "get_attr") and not any(operation_of(n) in _SELECTS for n in _readers(node)):
            moved += bytes_of_values(node)
    return max(flops / rate, moved / bandwidth)


def _rates(chip: Hardware, dtype: str) -> tuple[float, float]:
    """The bytes of HBM and the FLOPs of products a second that the chip sustains."""
    rate = chip.tensor.get(dtype, 2 * chip.sms * chip.alu_per_clock * chip.clock_hz)
    return chip.sustained_hbm_bytes_per_s, rate * chip.sustained["tensor"]


def _masked(node: Any) -> bool:
    """Whether a mask is given to attention, which may leave out most of it."""
    mask = node.args[3] if len(node.args) > 3 else node.kwargs.get("attn_mask")
    return operation_of(node) == "scaled_dot_product_attention" and mask is not None


def _readers(node: Any) -> list[Any]:
    """The calls that read a value, through those that see the same bytes."""
    found: list[Any] = []
    for user in node.users:
        if user.op != "call_function":
            continue
        found.append(user)
        if operation_of(user) in MOVES_NOTHING:
            found.extend(_readers(user))
    return found


def flops_of(node: Any) -> int:
    """The FLOPs of a product, from the lengths of what it takes and gives."""
    name = operation_of(node)
    result = node.meta["val"]
    shapes = [tuple(n.meta["val"].shape) for n in node.all_input_nodes]
    if name == "scaled_dot_product_attention":
        query, key, value = (node.args[k].meta["val"].shape for k in range(3))
        causal = (node.args[5] if len(node.args) > 5 else node.kwargs.get("is_causal", False)) or False
        return int(2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1])) // (2 if causal else 1)
    if name.startswith(("conv", "_conv")):
        return int(2 * result.numel() * prod(node.args[1].meta["val"].shape[1:]))
    if name == "einsum":
        given = node.args[0].replace(" ", "").partition("->")[0].split(",")
        lengths = {c: n for word, shape in zip(given, shapes) for c, n in zip(word, shape) if "..." not in word}
        return int(2 * prod(lengths.values()))
    first = node.args[1] if name in ("addmm", "addmv", "baddbmm") else node.args[0]
    return int(2 * result.numel() * first.meta["val"].shape[-1])


def _connected(nodes: Sequence[Any]) -> list[list[Any]]:
    """The nodes in groups that results pass through; what only moves nothing is no group."""
    group: dict[Any, list[Any]] = {}
    inside = set(nodes)
    for node in nodes:
        mine = group.setdefault(node, [node])
        for source in node.all_input_nodes:
            if source in inside and group[source] is not mine:
                mine.extend(group[source])
                for other in group[source]:
                    group[other] = mine
    found = list({id(g): g for g in group.values()}.values())
    return [g for g in found if any(operation_of(n) not in MOVES_NOTHING for n in g)]


def _moved(group: Sequence[Any]) -> int:
    """What a group reads from outside and writes for others, each once."""
    inside = set(group)
    read = {source for node in group for source in node.all_input_nodes if source not in inside}
    written = {node for node in group if any(user not in inside for user in node.users)}
    return sum(bytes_of_values(n) for n in (*read, *written))
