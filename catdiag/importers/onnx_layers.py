"""What ONNX's operators that are whole layers mean in named axes: norms, attention, rotary embeddings."""

from __future__ import annotations

from typing import Any

from catdiag.frontend import elementwise
from catdiag.importers.imported_values import ArrayValue
from catdiag.importers.onnx_arrays import aten
from catdiag.importers.onnx_values import as_array, operands, shape_of
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.torch_calls import AtenCall, Rule, Unsupported, adding

RULES: dict[str, Rule] = {}
rule = adding(RULES)


def _optional(b: ProgramBuilder, call: AtenCall, place: int) -> ArrayValue | None:
    given = operands(call, place + 1)[place]
    return None if given is None else as_array(b, given)


@rule("LayerNormalization", "RMSNormalization")
def _norm(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, weight, bias = (_optional(b, call, k) for k in range(3))
    assert value is not None  # the schema asks for it
    if len(call.shapes) > 1:
        raise Unsupported(f"{call.name} with the mean or the deviation as a result")
    normalized = b.shape(value)[call.get("axis", -1) :]
    name = "layer_norm" if call.name == "LayerNormalization" else "rms_norm"
    eps = call.get("epsilon", 1e-5)
    return aten(b, name, input=value, normalized_shape=normalized, eps=eps, weight=weight, bias=bias)  # type: ignore[no-any-return]


@rule("GroupNormalization", "InstanceNormalization")
def _group_norm(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, weight, bias = (_optional(b, call, k) for k in range(3))
    assert value is not None  # the schema asks for it
    groups = call.get("num_groups", b.shape(value)[1])
    arguments = {"input": value, "num_groups": groups, "eps": call.get("epsilon", 1e-5)}
    return aten(b, "group_norm", weight=weight, bias=bias, **arguments)  # type: ignore[no-any-return]


@rule("BatchNormalization")
def _batch_norm(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    if call.get("training_mode"):
        raise Unsupported("BatchNormalization in training")
    value, weight, bias, mean, variance = (_optional(b, call, k) for k in range(5))
    return aten(  # type: ignore[no-any-return]
        b, "batch_norm", input=value, weight=weight, bias=bias, running_mean=mean, running_var=variance,
        eps=call.get("epsilon", 1e-5),
    )  # fmt: skip


def _heads(b: ProgramBuilder, value: ArrayValue, count: int | None) -> ArrayValue:
    """(batch, length, heads × depth) as (batch, heads, length, depth)."""
    if len(value.dims) == 4:
        return value
    if not count:
        raise Unsupported("arrays of three dimensions without the number of heads")
    batch, length, width = b.shape(value)
    split: ArrayValue = aten(b, "view", [(batch, length, count, width // count)], self=value)
    return b.view(split, [split.dims[k] for k in (0, 2, 1, 3)])


@rule("Attention")
def _attention(b: ProgramBuilder, call: AtenCall) -> Any:
    query, key, value, mask, past_key, past_value = (_optional(b, call, k) for k in range(6))
    assert query is not None and key is not None and value is not None  # the schema asks for them
    if call.get("softcap", 0.0) or len(call.shapes) > 3 or len(operands(call)) > 6:
        raise Unsupported("Attention with softcap, with products as a result, or with lengths of what is not padded")
    flat = len(query.dims) == 3
    query = _heads(b, query, call.get("q_num_heads"))
    key, value = (_heads(b, v, call.get("kv_num_heads")) for v in (key, value))
    if past_key is not None and past_value is not None:
        if call.get("is_causal"):
            raise Unsupported("causal Attention with a cache: pass a mask")
        key, value = (b.concatenated([p, v], 2) for p, v in ((past_key, key), (past_value, value)))
    made = aten(
        b, "scaled_dot_product_attention", query=query, key=key, value=value, attn_mask=mask,
        is_causal=bool(call.get("is_causal", 0)), scale=call.get("scale"), enable_gqa=True,
    )  # fmt: skip
    if flat:
        made = b.view(made, [made.dims[0], made.dims[2], (*made.dims[1], *made.dims[3])])
    return (made, key, value)[: len(call.shapes)] if len(call.shapes) > 1 else made


@rule("RotaryEmbedding")
def _rotary(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, cos, sin, at = (_optional(b, call, k) for k in range(4))
    assert value is not None and cos is not None and sin is not None  # the schema asks for them
    given = shape_of(b, value)
    value = _heads(b, value, call.get("num_heads"))
    depth = b.shape(value)[-1]
    width = call.get("rotary_embedding_dim") or depth
    turned = b.part(value, 3, 0, width) if width < depth else value
    if at is not None:
        cos, sin = (aten(b, "embedding", weight=table, indices=at) for table in (cos, sin))
    cos, sin = (b.view(v, [v.dims[0], (), *v.dims[1:]]) for v in (cos, sin))
    pairs = (width // 2, 2) if call.get("interleaved") else (2, width // 2)
    split: ArrayValue = aten(b, "view", [(*b.shape(turned)[:3], *pairs)], self=turned)
    place = 4 if call.get("interleaved") else 3
    for factor in b.factors.resolve(split.dims[place]):
        b.factors.fix(factor.extent)
    left, right = (b.selected(split, place, k) for k in (0, 1))
    first = b.pointwise([left, cos, right, sin], lambda x, c, y, s: x * c - y * s)
    second = b.pointwise([right, cos, left, sin], lambda y, c, x, s: y * c + x * s)
    both = b.stacked([first, second], place)
    made = b.view(both, [*both.dims[:3], (*both.dims[3], *both.dims[4])])
    if width < depth:
        made = b.concatenated([made, b.part(value, 3, width, depth - width)], 3)
    if len(given) == 3:
        made = b.view(made, [made.dims[0], made.dims[2], (*made.dims[1], *made.dims[3])])
    return made


@rule("LpNormalization")
def _lp(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value, axis = _optional(b, call, 0), call.get("axis", -1)
    assert value is not None  # the schema asks for it
    absolute = call.get("p", 2) == 1
    powers = b.pointwise([value], elementwise.abs if absolute else lambda a: a * a)
    total = aten(b, "sum", self=powers, dim=[axis], keepdim=True)
    return b.pointwise([value, total], lambda a, t: a / (t if absolute else elementwise.sqrt(t)))
