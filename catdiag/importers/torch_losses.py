"""What PyTorch's losses of classes mean: cross-entropy, and the negative log-likelihood."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from catdiag.frontend import builder as frontend
from catdiag.frontend import elementwise, nn
from catdiag.frontend.indexing import gather
from catdiag.importers.dimensions import Dimension
from catdiag.importers.imported_values import ArrayValue, Environment
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.torch_calls import AtenCall, Rule, adding
from catdiag.importers.torch_decompositions import operation_name

RULES: dict[str, Rule] = {}
rule = adding(RULES)

_NONE_IGNORED = -100
"""The default of `ignore_index`, which is no class."""
_LOSSES = ("cross_entropy_loss", "nll_loss_nd", "nll_loss")
_NO_REDUCTION, _MEAN, _SUM = 0, 1, 2
_REDUCTIONS = {_MEAN: frontend.mean, _SUM: frontend.sum}


def marks_ignored(program: Any) -> bool:
    """Whether an exported program or its example speaks of the default of `ignore_index` beside its losses: so it has
    targets that are no classes."""
    calls = [n for n in program.graph.nodes if n.op == "call_function"]
    nodes = [n for n in calls if operation_name(n.target) not in _LOSSES]
    tree, fake = import_module("torch.utils._pytree"), import_module("torch._subclasses").FakeTensor
    tensors = tree.tree_leaves((program.example_inputs, program.state_dict, program.constants))
    whole = [t for t in tensors if hasattr(t, "is_floating_point") and not (t.is_floating_point() or t.is_complex())]
    if any(not isinstance(t, fake) and not t.is_meta and bool((t == _NONE_IGNORED).any()) for t in whole):
        return True
    return any(a == _NONE_IGNORED for n in nodes for a in (*n.args, *n.kwargs.values()) if isinstance(a, int))


@rule(*_LOSSES)
def _cross_entropy(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    """−Σ w[c] t[c] log p[c], t being 1 at the class of a row, or the target itself where that has numbers; its mean is
    over the weights of these classes, or over rows."""
    logits, target, weight = call["self"], call["target"], call.get("weight")
    of_classes = min(len(logits.dims) - 1, 1)
    others = [k for k in range(len(logits.dims)) if k != of_classes]
    by_class = target.element == "int"
    for place_of_target, k in enumerate(others if by_class else range(len(logits.dims))):
        target = b.aligned(target, place_of_target, logits.dims[k])
    logits = b.materialized(logits, logits.dims)
    target = b.materialized(target, [logits.dims[k] for k in others] if by_class else logits.dims)
    if weight is not None:
        weight = b.materialized(b.aligned(weight, 0, logits.dims[of_classes]), [logits.dims[of_classes]])
    classes = b.factors.resolve(logits.dims[of_classes])
    rows = b.factors.resolve(f for k in others for f in logits.dims[k])
    mode = call.get("reduction", _MEAN)

    smoothing, ignored = call.get("label_smoothing", 0.0), call.get("ignore_index", _NONE_IGNORED)
    every = not by_class or (ignored == _NONE_IGNORED and not b.ignores_targets)
    if by_class and every:
        b.notes.append(f"{call.name}: targets equal to ignore_index are not left out{b.at}")

    def make(env: Environment) -> Any:
        array, name = env.merged(env[logits], classes)
        weights = None if weight is None else env.merged(env[weight], classes)[0]
        total = nn.logsumexp(array, name) if call.name == "cross_entropy_loss" else 0
        if not by_class:
            shares, _ = env.merged(env[target], classes)
            if smoothing:  # a part of the probability is spread over all classes
                shares = (1 - smoothing) * shares + smoothing / env.size(classes)
            each = shares * (total - array)
            loss: Any = frontend.sum(each if weights is None else weights * each, name)
            return loss if mode == _NO_REDUCTION or not rows else _REDUCTIONS[mode](loss, env.of(rows))
        counts = None if every else env[target] != ignored
        wanted = env[target] if counts is None else elementwise.where(counts, env[target], 0)
        each = array if weights is None else weights * (array - total)
        chosen = gather(each, name, wanted)
        if smoothing:
            chosen = (1 - smoothing) * chosen + smoothing * frontend.mean(each, name)
        loss = total - chosen if weights is None else -chosen
        share: Any = 1 if weights is None else gather(weights, name, wanted)
        if counts is not None:
            loss, share = elementwise.where(counts, loss, 0), elementwise.where(counts, share, 0)
        if mode == _NO_REDUCTION:
            return loss
        if mode != _MEAN or (weights is None and (counts is None or not rows)):
            return _REDUCTIONS[mode](loss, env.of(rows)) if rows else loss
        return frontend.sum(loss, env.of(rows)) / frontend.sum(share, env.of(rows)) if rows else loss / share

    dims: list[Dimension] = [logits.dims[k] for k in others] if mode == _NO_REDUCTION else []
    return b.emit(dims, rows if mode == _NO_REDUCTION else (), make)
