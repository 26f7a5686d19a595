"""Compulsory transfers, which every schedule makes: inputs that are read, once, and results, once.

Of an input that only views read, as many elements count as are certain to be read. Derived here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from catdiag.bounds.coordinates import affine
from catdiag.bounds.dataflow import Flow, FlowOperation
from catdiag.category.index_maps import Expr, leaves
from catdiag.category.integer_polynomial import ONE, IntPolynomial
from catdiag.category.ops import Einsum, Generic, Map, Op, Reduce, Reindex, Rename, View, op_fact

Counts = dict[str, IntPolynomial]
"""For each axis of an array, how many indices are certain to be needed (in all combinations)."""


@dataclass(frozen=True)
class Needed:
    """The compulsory transfer of an array: the number of its elements, and the bytes of each (or 1)."""

    array: str
    direction: str
    elements: IntPolynomial
    width: int


def needed(
    flow: Flow, inputs: Mapping[str, int], outputs: Mapping[str, int], names: tuple[str, ...]
) -> tuple[Needed, ...]:
    """The transfers that every schedule makes at least; widths by array name (1 where not given)."""
    given = {flow.root(w) for w in flow.inputs}
    # An input that is returned unchanged is in slow memory already.
    counts = {w: _entire(flow, w) for w in flow.outputs if flow.root(w) not in given}
    for act in reversed(flow.acts):
        have = [counts[w] for w in act.results if w in counts]
        if not have or not act.unconditional:
            continue
        for k, w in enumerate(act.reads):
            found = _read(flow, act, k, have[0])
            if found is None:
                continue
            known = counts.get(w)
            if known is None or _total(found).dominates(_total(known)):
                counts[w] = found
    result = []
    for w in flow.inputs:
        if w in counts:
            name = flow.arrays[w].name
            result.append(Needed(name, "load", _total(counts[w]), inputs.get(name, 1)))
    # Each result is saved as an array of its own, even if it equals another.
    for w, name in zip(flow.outputs, names, strict=True):
        if flow.root(w) not in given:
            result.append(Needed(name, "save", _total(_entire(flow, w)), outputs.get(name, 1)))
    return tuple(result)


def _entire(flow: Flow, wire: int) -> Counts:
    found: Counts = {}
    for (name, _), extent in flow.arrays[wire].axes.items():
        found[name] = found.get(name, ONE) * IntPolynomial.of(extent.size)
    return found


def _total(counts: Counts) -> IntPolynomial:
    total = ONE
    for amount in counts.values():
        total = total * amount
    return total


def _read(flow: Flow, act: FlowOperation, k: int, made: Counts) -> Counts | None:
    """The part of read `k` of a box that is needed for a part of its result; None where nothing is certain."""
    row = op_fact(READ_PARTS, act.box.op)
    return None if row is None else row(flow, act, act.box.op, k, made, _entire(flow, act.reads[k]))


def _mapped(flow: Flow, act: FlowOperation, op: Op, k: int, made: Counts, own: Counts) -> Counts:
    return {name: made.get(name, size) for name, size in own.items()}


def _renamed(flow: Flow, act: FlowOperation, op: Rename, k: int, made: Counts, own: Counts) -> Counts:
    pairs = dict(op.pairs)
    return {name: made.get(pairs.get(name, name), size) for name, size in own.items()}


def _reindexed(flow: Flow, act: FlowOperation, op: Reindex, k: int, made: Counts, own: Counts) -> Counts | None:
    every = _entire(flow, act.results[0])
    result = {name: made.get(name, size) for name, size in own.items()}
    given = [a.name for a in op.added_axes()]
    full = all(made[n] == every[n] for n in given)
    for axis in op.removed_axes()[k]:
        if op.kind == "split":
            result[axis.name] = _total({n: made[n] for n in given})
        elif op.kind == "slice":
            result[axis.name] = made[given[0]]
        else:  # merge and concat: the whole axis if the result is needed as a whole, else one element at most
            if not full and op.kind == "concat":
                return None
            result[axis.name] = own[axis.name] if full else ONE
    return result


def _viewed(flow: Flow, act: FlowOperation, op: View, k: int, made: Counts, own: Counts) -> Counts | None:
    every = _entire(flow, act.results[0])
    if k >= len(op.reads):
        # An index array is read wherever an element is, if the only read mentions it.
        mentioned = len(op.reads) == 1 and any(("w", k) in leaves(e) for _, e in op.reads[0].at)
        return {n: made.get(n, size) for n, size in own.items()} if mentioned else None
    if len(op.reads) > 1:
        return None
    at = dict(op.reads[0].at)
    result: Counts = {}
    for name, size in own.items():
        if name not in at:
            result[name] = made.get(name, size)
            continue
        signs = affine(at[name])
        used = [n for other, e in at.items() if other != name for n in _axes(e)]
        free = signs is not None and not set(signs) & set(used)
        if signs and free and len(set(signs.values())) == 1 and all(made[n] == every[n] for n in signs):
            # Along a chain of indices that steps up one axis at a time, the expression increases at every step.
            total = ONE
            for n in signs:
                total = total + made[n] - ONE
            result[name] = total
        else:
            result[name] = ONE
    return result


READ_PARTS: Mapping[type[Op], Callable[..., Counts | None]] = {
    Map: _mapped,
    Einsum: _mapped,
    Reduce: _mapped,
    Rename: _renamed,
    Reindex: _reindexed,
    View: _viewed,
    Generic: lambda flow, act, op, k, made, own: own,
}
"""The part of a read of an operation that is needed for a part of its result; of others nothing is certain."""


def _axes(e: Expr) -> list[str]:
    return [str(v[1]) for v in leaves(e) if isinstance(v, tuple) and v[0] == "i"]
