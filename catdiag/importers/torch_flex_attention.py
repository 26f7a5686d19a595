"""FlexAttention of PyTorch written out: calls of functions of scores and positions in place of one of a higher order.

`flex_attention` takes a function of each score and its position (`score_mod`), and a mask that says in the same way
which scores take part (`mask_mod`). An export keeps both as graphs of numbers. Here they are applied to all scores at
once, as PyTorch's own reference does, and traced: what an import reads are products, comparisons of positions, a
softmax. The lists of blocks of a mask are left out: they say where work is saved, and nothing else.
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

NAME = "flex_attention"


def with_flex_attention_written_out(program: Any) -> Any:
    """An exported program with each call of `flex_attention` written out, but those whose largest scores are used:
    these stay, and are then refused by their name."""
    graph = program.graph
    found = [n for n in graph.nodes if n.op == "call_function" and getattr(n.target, "_name", "") == NAME]
    for node in found:
        if all(user.args[1] == 0 or all(map(_to_base_e, user.users)) for user in node.users):
            _write_out(program, node)
    if found:
        program.graph_module.meta[NAME] = True
        for node in reversed(graph.nodes):
            # Metadata of block lists that nothing reads any more is asserted: this would keep them.
            if node.op == "call_function" and "_assert_tensor_metadata" in str(node.target):
                graph.erase_node(node)
        graph.eliminate_dead_code()
    return program


def _write_out(program: Any, node: Any) -> None:
    """Puts calls of operations in place of one call of `flex_attention`."""
    torch = import_module("torch")
    fx, tree = torch.fx, torch.utils._pytree
    query, key, value, score, blocks, scale, _, score_others, mask_others = node.args
    modules = [getattr(program.graph_module, part.target) for part in (score, blocks[-1])]
    given = (query, key, value, tuple(score_others), tuple(mask_others))
    values = fx.node.map_arg(given, lambda n: n.meta["val"])
    leaves, spec = tree.tree_flatten(values)

    def attention(*arrays: Any) -> Any:
        return attended(torch, tree.tree_unflatten(arrays, spec), modules[0], modules[1], scale)

    mode = next(a.fake_mode for a in leaves if isinstance(a, torch.Tensor))
    with mode:
        traced = import_module("torch.fx.experimental.proxy_tensor").make_fx(attention)(*leaves)
    about = {k: node.meta[k] for k in ("stack_trace", "nn_module_stack") if k in node.meta}
    places = [n for n in traced.graph.nodes if n.op == "placeholder"]
    known = dict(zip(places, tree.tree_leaves(given), strict=True))
    with program.graph.inserting_before(node):
        for inner in traced.graph.nodes:
            if inner.op == "get_attr":  # a constant, such as minus infinity
                name = f"{node.name}_{inner.target}"
                setattr(program.graph_module, name, getattr(traced, inner.target))
                known[inner] = program.graph.get_attr(name)
            elif (
                inner.op == "call_function"
                and isinstance(inner.args[0], (int, float))
                and "_to_copy" in str(inner.target)
            ):
                known[inner] = inner.args[0]
            elif inner.op == "call_function":
                known[inner] = program.graph.node_copy(inner, known.__getitem__)
                known[inner].meta = {**inner.meta, **about}
            elif inner.op == "output":
                _put_in_place(program.graph, node, [known[n] for n in inner.args[0]])
    program.graph.erase_node(node)


def _put_in_place(graph: Any, node: Any, results: list[Any]) -> None:
    """Has those who use a call of `flex_attention` use its result and the logsumexp instead."""
    for user in [*node.users]:
        for one in [user] if user.args[1] == 0 else [*user.users]:
            one.replace_all_uses_with(results[user.args[1]])
            graph.erase_node(one)
        if user.args[1] != 0:
            graph.erase_node(user)


def _to_base_e(node: Any) -> bool:
    """Whether a call makes a natural logarithm of one to base 2, as that of PyTorch's call is."""
    numbers = [a for a in node.args if isinstance(a, float)]
    return "mul" in str(node.target) and len(numbers) == 1 and math.isclose(numbers[0], math.log(2))


def _is_number(node: Any) -> bool:
    """Whether a call makes a tensor of a number, as vectorizing does of `20 * score`."""
    return "_to_copy" in str(node.target) and isinstance(node.args[0], (int, float))


def attended(torch: Any, given: Any, score: Any, mask: Any, scale: float) -> Any:
    """Attention with functions of scores and positions, as PyTorch's reference has it, and the logsumexp of its rows:
    heads of keys may be shared. Given are queries, keys, values, and what each of the functions reads beside."""
    query, key, value, score_others, mask_others = given
    (batch, heads, rows), columns = query.shape[:3], key.shape[2]
    if key.shape[1] != heads:
        key, value = (a.repeat_interleave(heads // a.shape[1], 1) for a in (key, value))
    places = [torch.arange(n, device=query.device) for n in (batch, heads, rows, columns)]
    scores = torch.matmul(query, key.transpose(-2, -1)) * scale
    vectorized = import_module("torch.nn.attention.flex_attention")._vmap_for_bhqkv
    with import_module("torch._dynamo._trace_wrapped_higher_order_op").TransformGetItemToIndex():
        changed = vectorized(score, prefix=(0,), suffix=(None,) * len(score_others))(scores, *places, *score_others)
        inside = vectorized(mask, prefix=(), suffix=(None,) * len(mask_others))(*places, *mask_others)
    masked = torch.where(inside, changed, -float("inf"))
    return torch.matmul(masked.softmax(-1), value), masked.logsumexp(-1)
