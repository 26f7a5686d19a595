"""open-hypergraphs: hypergraphs as NumPy arrays. Their `==` compares arrays as stored, it is no isomorphism."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from open_hypergraphs.numpy import FiniteFunction as FF
from open_hypergraphs.numpy import FrobeniusFunctor, Hypergraph, IndexedCoproduct, OpenHypergraph, layer

from . import KINDS, WIDTH, chained, halved, rows

Make = Callable[[int], Callable[[], Any]]


def _ff(target: int | None, values: Any) -> FF:
    return FF(target, np.asarray(values, dtype=FF.Dtype))


def _operation(k: int) -> OpenHypergraph:
    x = _ff(1, [0])
    return OpenHypergraph.singleton(_ff(3 * KINDS + 2, [k]), x, x)


def one_by_one(n: int) -> Callable[[], Any]:
    kinds = [_operation(k) for k in range(KINDS)]
    return lambda: chained(kinds, n)


def halves(n: int) -> Callable[[], Any]:
    kinds = [_operation(k) for k in range(KINDS)]
    return lambda: halved(kinds, n)


def _of_arrays(ports: int, reads: Any, makes: Any, inputs: Any, outputs: Any, kinds: Any, wires: int) -> OpenHypergraph:
    n = len(kinds)
    arity = _ff(None, np.full(n, ports))
    graph = Hypergraph(
        s=IndexedCoproduct(arity, _ff(wires, reads)),
        t=IndexedCoproduct(arity, _ff(wires, makes)),
        w=_ff(1, np.zeros(wires)),
        x=_ff(3 * KINDS + 2, kinds),
    )
    return OpenHypergraph(_ff(wires, inputs), _ff(wires, outputs), graph)


def arrays(n: int, last: int | None = None) -> Callable[[], Any]:
    def build() -> OpenHypergraph:
        kinds = np.arange(n) % KINDS
        if last is not None:
            kinds[-1] = last
        return _of_arrays(1, np.arange(n), np.arange(1, n + 1), [0], [n], kinds, n + 1)

    return build


def wall(n: int, last: int | None = None) -> Callable[[], Any]:
    """The wires are numbered row by row before the clock starts for nobody: it is part of building."""

    def build() -> OpenHypergraph:
        even, odd = np.arange(0, WIDTH, 1), np.arange(1, WIDTH - 1, 1)
        at = np.arange(WIDTH)
        reads, wires, count = [], WIDTH, 0
        for k, row in enumerate(rows(n)):
            used = (odd if k % 2 else even)[: 2 * len(row)]
            reads.append(at[used])
            at[used] = np.arange(wires, wires + len(used))
            wires += len(used)
            count += len(row)
        kinds = np.arange(n) % KINDS
        if last is not None:
            kinds[-1] = last
        return _of_arrays(2, np.concatenate(reads), np.arange(WIDTH, wires), np.arange(WIDTH), at, kinds, wires)

    return build


def equal(make: Make) -> Make:
    def two(n: int) -> Callable[[], Any]:
        left, right = make(n)(), make(n)()
        return lambda: bool(left == right)

    return two


def unequal(make: Callable[..., Callable[[], Any]]) -> Make:
    def two(n: int) -> Callable[[], Any]:
        left, right = make(n, KINDS)(), make(n, KINDS + 1)()
        return lambda: not bool(left == right)

    return two


class _Two(FrobeniusFunctor):
    @classmethod
    def OpenHypergraph(cls) -> type[OpenHypergraph]:
        return OpenHypergraph

    def map_objects(self, objects: FF) -> IndexedCoproduct:
        return IndexedCoproduct(_ff(None, np.ones(len(objects))), objects)

    def map_operations(self, x: FF, sources: IndexedCoproduct, targets: IndexedCoproduct) -> OpenHypergraph:
        first, second = (_ff(3 * KINDS + 2, x.table + shift) for shift in (KINDS, 2 * KINDS))
        operations = OpenHypergraph.tensor_operations
        return operations(first, sources, targets) >> operations(second, targets, targets)


def functor(make: Make) -> Make:
    def rewrite(n: int) -> Callable[[], Any]:
        diagram = make(n)()
        return lambda: _Two()(diagram)

    return rewrite


def _run(diagram: OpenHypergraph, order: Any) -> int:
    functions = [lambda v: v + 1] * KINDS
    graph = diagram.H
    values = [0] * graph.W
    kinds, reads, makes = graph.x.table.tolist(), graph.s.values.table.tolist(), graph.t.values.table.tolist()
    for k in order:
        values[makes[k]] = functions[kinds[k]](values[reads[k]])
    return values[diagram.t.table[0]]


def in_stored_order(n: int) -> Callable[[], Any]:
    diagram = arrays(n)()
    return lambda: _run(diagram, range(n))


def in_layers(n: int) -> Callable[[], Any]:
    diagram = arrays(n)()
    return lambda: _run(diagram, np.argsort(layer(diagram)[0].table, kind="stable").tolist())


def wall_in_stored_order(n: int) -> Callable[[], Any]:
    diagram = wall(n)()

    def run() -> int:
        functions = [lambda v, w: (v + 1, w)] * KINDS
        graph = diagram.H
        values = [0] * graph.W
        kinds, reads, makes = graph.x.table.tolist(), graph.s.values.table.tolist(), graph.t.values.table.tolist()
        at = 0
        for k in kinds:
            values[makes[at]], values[makes[at + 1]] = functions[k](values[reads[at]], values[reads[at + 1]])
            at += 2
        return sum(values[w] for w in diagram.t.table.tolist())

    return run


WAYS: dict[tuple[str, str], dict[str, Make]] = {
    ("build", "chain"): {"`>>` one by one": one_by_one, "`>>` of halves": halves, "arrays given": arrays},
    ("build", "layers"): {"arrays given": wall},
    ("compare", "chain"): {"`==`, as stored": equal(arrays)},
    ("compare", "layers"): {"`==`, as stored": equal(wall)},
    ("differ", "chain"): {"`==`, as stored": unequal(arrays)},
    ("differ", "layers"): {"`==`, as stored": unequal(wall)},
    ("rewrite", "chain"): {"`FrobeniusFunctor`": functor(arrays)},
    ("rewrite", "layers"): {"`FrobeniusFunctor`": functor(wall)},
    ("evaluate", "layers"): {"a loop in stored order": wall_in_stored_order},
    ("evaluate", "chain"): {"a loop in stored order": in_stored_order, "a loop by `layer`": in_layers},
}


def count(made: Any) -> int:
    """How many boxes a diagram has."""
    return len(made.H.x)
