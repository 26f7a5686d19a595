"""catdiag."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from catdiag.category.diagram import Diagram, Graph, Node, box, id, of_graph
from catdiag.category.evaluation import evaluate
from catdiag.category.functor import interpret
from catdiag.category.ops import Box
from catdiag.category.substitution import call, inline, substitute
from catdiag.category.types import ArrayType, Axis, Ty

from . import KINDS, WIDTH, chained, halved, rows

X = Ty(ArrayType((Axis("x"),)))
XX = X @ X
WIRES = [Ty(*[X[0]] * k) for k in range(WIDTH + 1)]


def _kinds(ty: Ty) -> list[Diagram]:
    return [box(f"f{k}", ty, ty) for k in range(KINDS)]


def _flat(diagram: Diagram) -> Diagram:
    assert diagram.graph is not None
    return diagram


def one_by_one(n: int) -> Callable[[], Any]:
    kinds = _kinds(X)
    return lambda: _flat(chained(kinds, n))


def halves(n: int) -> Callable[[], Any]:
    kinds = _kinds(X)
    return lambda: _flat(halved(kinds, n))


def flat(n: int) -> Callable[[], Any]:
    kinds = [d.boxes[0] for d in _kinds(X)]
    return lambda: of_graph(Graph(X, tuple([Node(kinds[k % KINDS], (k,)) for k in range(n)]), (n,)), X)


def chain_of_arrays(n: int, last: int | None = None) -> Callable[[], Any]:
    kinds = _kinds(X) if last is None else [*_kinds(X), box(f"g{last}", X, X)]

    def build() -> Diagram:
        which = np.arange(n) % KINDS
        if last is not None:
            which[-1] = KINDS
        return _flat(Diagram.of_arrays(X, kinds, which, np.arange(n), [n]))

    return build


def wall_of_arrays(n: int, last: int | None = None) -> Callable[[], Any]:
    """The wires are numbered row by row while the clock runs, as they are for open-hypergraphs."""
    kinds = _kinds(XX) if last is None else [*_kinds(XX), box(f"g{last}", XX, XX)]

    def build() -> Diagram:
        even, odd = np.arange(0, WIDTH, 1), np.arange(1, WIDTH - 1, 1)
        at = np.arange(WIDTH)
        reads, wires = [], WIDTH
        for k, row in enumerate(rows(n)):
            used = (odd if k % 2 else even)[: 2 * len(row)]
            reads.append(at[used])
            at[used] = np.arange(wires, wires + len(used))
            wires += len(used)
        which = np.arange(n) % KINDS
        if last is not None:
            which[-1] = KINDS
        return _flat(Diagram.of_arrays(WIRES[WIDTH], kinds, which, np.concatenate(reads), at))

    return build


def row_by_row(n: int) -> Callable[[], Any]:
    kinds, one = _kinds(XX), id(X)

    def build() -> Diagram:
        diagram, count = id(WIRES[WIDTH]), 0
        for row in rows(n):
            layer = one if row[0] else None
            for _ in row:
                f = kinds[count % KINDS]
                count += 1
                layer = f if layer is None else layer @ f
            rest = WIDTH - row[-1] - 2
            diagram = diagram >> (layer @ id(WIRES[rest]) if rest else layer)
        return _flat(diagram)

    return build


def box_by_box(n: int) -> Callable[[], Any]:
    kinds, ids = _kinds(XX), [id(w) for w in WIRES]

    def build() -> Diagram:
        diagram, count = ids[WIDTH], 0
        for row in rows(n):
            for at in row:
                diagram = diagram >> (ids[at] @ kinds[count % KINDS] @ ids[WIDTH - at - 2])
                count += 1
        return _flat(diagram)

    return build


def equal(make: Callable[[int], Callable[[], Any]]) -> Callable[[int], Callable[[], Any]]:
    def two(n: int) -> Callable[[], Any]:
        left, right = make(n)(), make(n)()
        return lambda: left == right

    return two


def interchanged(n: int) -> Callable[[], Any]:
    """The same wall, one stored row by row, the other from the other end of each row."""
    left = row_by_row(n)()
    nodes, order, count = left.graph.nodes, [], 0
    for row in rows(n):
        order += range(count + len(row) - 1, count - 1, -1)
        count += len(row)
    names = list(range(WIDTH)) + [0] * (2 * n)
    made = []
    for place, old in enumerate(order):
        made.append(Node(nodes[old].box, tuple([names[w] for w in nodes[old].inputs])))
        names[WIDTH + 2 * old : WIDTH + 2 * old + 2] = [WIDTH + 2 * place, WIDTH + 2 * place + 1]
    right = of_graph(Graph(left.dom, tuple(made), tuple([names[w] for w in left.graph.outputs])))
    return lambda: left == right


def unequal(make: Callable[[int], Callable[[], Any]], ty: Ty) -> Callable[[int], Callable[[], Any]]:
    def two(n: int) -> Callable[[], Any]:
        rest = id(WIRES[WIDTH - 2]) if ty is XX else None
        ends = [box(name, ty, ty) for name in ("g", "h")]
        left, right = (_flat(make(n - 1)() >> (end if rest is None else end @ rest)) for end in ends)
        return lambda: left != right

    return two


def unequal_arrays(make: Callable[..., Callable[[], Any]]) -> Callable[[int], Callable[[], Any]]:
    def two(n: int) -> Callable[[], Any]:
        left, right = make(n, KINDS)(), make(n, KINDS + 1)()
        return lambda: left != right

    return two


def by_interpretation(n: int) -> Callable[[], Any]:
    """A functor: each box goes to two, the values on wires are wires of the new diagram."""
    diagram = halves(n)()
    to = {b: (box(b.name + "a", X, X).boxes[0], box(b.name + "b", X, X).boxes[0]) for b in set(diagram.boxes)}

    def rewrite() -> Diagram:
        nodes: list[Node] = []

        def action(b: Box, wires: tuple[int, ...]) -> tuple[int, ...]:
            first, second = to[b]
            nodes.append(Node(first, wires))
            nodes.append(Node(second, (len(nodes),)))
            return (len(nodes),)

        outputs = interpret(diagram, [0], action)
        return of_graph(Graph(X, tuple(nodes), outputs), X)

    return rewrite


def opened(n: int) -> Callable[[], Any]:
    """Named boxes, each with a body of two, are opened."""
    kinds = [call(f"f{k}", box(f"f{k}a", X, X) >> box(f"f{k}b", X, X)) for k in range(KINDS)]
    diagram = kinds[0]
    for k in range(1, n):
        diagram = diagram >> kinds[k % KINDS]
    _flat(diagram)
    return lambda: inline(diagram)


def interpreted(n: int) -> Callable[[], Any]:
    diagram = halves(n)()
    functions = {b: lambda v: v + 1 for b in set(diagram.boxes)}
    return lambda: interpret(diagram, [0], lambda b, v: (functions[b](*v),))[0]


def as_functions(make: Callable[[int], Callable[[], Any]]) -> Callable[[int], Callable[[], Any]]:
    def run(n: int) -> Callable[[], Any]:
        diagram = make(n)()
        functions = dict.fromkeys(diagram.boxes, lambda v: v + 1)
        return lambda: evaluate(diagram, [0], functions)[0]

    return run


def wall_as_functions(make: Callable[[int], Callable[[], Any]]) -> Callable[[int], Callable[[], Any]]:
    def run(n: int) -> Callable[[], Any]:
        diagram = make(n)()
        functions = dict.fromkeys(diagram.boxes, lambda v, w: (v + 1, w))
        return lambda: sum(evaluate(diagram, [0] * WIDTH, functions))

    return run


def substituted(make: Callable[[int], Callable[[], Any]]) -> Callable[[int], Callable[[], Any]]:
    def rewrite(n: int) -> Callable[[], Any]:
        diagram = make(n)()
        to = {b: box(b.name + "a", b.dom, b.cod) >> box(b.name + "b", b.dom, b.cod) for b in set(diagram.boxes)}
        return lambda: _flat(substitute(diagram, to))

    return rewrite


WAYS: dict[tuple[str, str], dict[str, Callable[[int], Callable[[], Any]]]] = {
    ("build", "chain"): {
        "`>>` one by one": one_by_one,
        "`>>` of halves": halves,
        "nodes given": flat,
        "arrays given": chain_of_arrays,
    },
    ("build", "layers"): {
        "rows by `@`, joined by `>>`": row_by_row,
        "`>>` of id @ box @ id": box_by_box,
        "arrays given": wall_of_arrays,
    },
    ("compare", "chain"): {"`==`": equal(one_by_one), "`==` of arrays": equal(chain_of_arrays)},
    ("compare", "layers"): {
        "`==`": equal(row_by_row),
        "`==`, in another order": interchanged,
        "`==` of arrays": equal(wall_of_arrays),
    },
    ("differ", "chain"): {"`==`": unequal(one_by_one, X), "`==` of arrays": unequal_arrays(chain_of_arrays)},
    ("differ", "layers"): {"`==`": unequal(row_by_row, XX), "`==` of arrays": unequal_arrays(wall_of_arrays)},
    ("rewrite", "chain"): {
        "`substitute`": substituted(halves),
        "`substitute` in arrays": substituted(chain_of_arrays),
        "by interpretation": by_interpretation,
        "named boxes opened": opened,
    },
    ("evaluate", "chain"): {
        "`evaluate`": as_functions(halves),
        "`evaluate` of arrays": as_functions(chain_of_arrays),
        "interpretation": interpreted,
    },
    ("rewrite", "layers"): {
        "`substitute`": substituted(row_by_row),
        "`substitute` in arrays": substituted(wall_of_arrays),
    },
    ("evaluate", "layers"): {
        "`evaluate`": wall_as_functions(row_by_row),
        "`evaluate` of arrays": wall_as_functions(wall_of_arrays),
    },
}


def count(made: Any) -> int:
    """How many boxes a diagram has."""
    return len(made)
