"""DisCoPy: diagrams as lists of layers, whose `==` compares the layers; hypergraphs, whose `==` is isomorphism."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from discopy.monoidal import Layer
from discopy.symmetric import Box, Diagram, Functor, Ty

from . import KINDS, WIDTH, chained, halved, rows

X, E = Ty("x"), Ty()
XX = X @ X
Make = Callable[[int], Callable[[], Any]]


def _kinds(ty: Ty) -> list[Box]:
    return [Box(f"f{k}", ty, ty) for k in range(KINDS)]


def one_by_one(n: int) -> Callable[[], Any]:
    kinds = _kinds(X)
    return lambda: chained(kinds, n)


def halves(n: int) -> Callable[[], Any]:
    kinds = _kinds(X)
    return lambda: halved(kinds, n)


def then(n: int) -> Callable[[], Any]:
    kinds = _kinds(X)
    return lambda: kinds[0].then(*[kinds[k % KINDS] for k in range(1, n)])


def inside(n: int, last: str = "") -> Callable[[], Any]:
    layers = [Layer(E, f, E) for f in _kinds(X)]
    ends = [Layer(E, Box(last, X, X), E)] if last else []
    return lambda: Diagram(tuple([layers[k % KINDS] for k in range(n - len(ends))] + ends), X, X)


def new_layers(n: int) -> Callable[[], Any]:
    kinds = _kinds(X)
    return lambda: Diagram(tuple([Layer(E, kinds[k % KINDS], E) for k in range(n)]), X, X)


def decode(n: int) -> Callable[[], Any]:
    kinds = _kinds(X)
    return lambda: Diagram.decode(X, boxes=[kinds[k % KINDS] for k in range(n)], offsets=[0] * n)


def wall(n: int, last: str = "") -> Callable[[], Any]:
    kinds, wires = _kinds(XX), [X**k for k in range(WIDTH + 1)]
    end = Box(last, XX, XX)

    def build() -> Diagram:
        layers, count = [], 0
        for row in rows(n):
            parts = [wires[row[0]]]
            for _ in row:
                parts += [kinds[count % KINDS], wires[0]]
                count += 1
            parts[-1] = wires[WIDTH - row[-1] - 2]
            if last and count == n:
                parts[-2] = end
            layers.append(Layer(*parts))
        return Diagram(tuple(layers), wires[WIDTH], wires[WIDTH])

    return build


def one_box_a_layer(n: int) -> Callable[[], Any]:
    kinds, wires = _kinds(XX), [X**k for k in range(WIDTH + 1)]

    def build() -> Diagram:
        layers = []
        for row in rows(n):
            for at in row:
                layers.append(Layer(wires[at], kinds[len(layers) % KINDS], wires[WIDTH - at - 2]))
        return Diagram(tuple(layers), wires[WIDTH], wires[WIDTH])

    return build


def equal(make: Make) -> Make:
    def two(n: int) -> Callable[[], Any]:
        left, right = make(n)(), make(n)()
        return lambda: left == right

    return two


def unequal(make: Callable[..., Callable[[], Any]]) -> Make:
    def two(n: int) -> Callable[[], Any]:
        left, right = make(n, "g")(), make(n, "h")()
        return lambda: left != right

    return two


def hypergraphs(make: Make) -> Make:
    """Up to interchange and symmetry."""

    def two(n: int) -> Callable[[], Any]:
        left, right = make(n)().to_hypergraph(), make(n)().to_hypergraph()
        return lambda: left == right

    return two


def functor(n: int) -> Callable[[], Any]:
    diagram = inside(n)()
    image = Functor({X: X}, {f: Box(f.name + "a", X, X) >> Box(f.name + "b", X, X) for f in _kinds(X)})
    return lambda: image(diagram)


def layers_replaced(n: int) -> Callable[[], Any]:
    diagram = inside(n)()
    image = {f: (Layer(E, Box(f.name + "a", X, X), E), Layer(E, Box(f.name + "b", X, X), E)) for f in _kinds(X)}
    return lambda: Diagram(tuple([new for layer in diagram.inside for new in image[layer[1]]]), X, X)


def python_functor(n: int) -> Callable[[], Any]:
    from discopy.markov import Category
    from discopy.python import Function

    diagram = inside(n)()
    image = Functor({X: int}, {f: lambda v: v + 1 for f in _kinds(X)}, cod=Category(tuple[type, ...], Function))
    return lambda: image(diagram)(0)


def by_hand(n: int) -> Callable[[], Any]:
    diagram = inside(n)()
    functions = {f: lambda v: v + 1 for f in _kinds(X)}

    def run() -> int:
        values = [0]
        for f, at in zip(diagram.boxes, diagram.offsets):
            values[at : at + len(f.dom)] = [functions[f](*values[at : at + len(f.dom)])]
        return values[0]

    return run


def wall_by_hand(n: int) -> Callable[[], Any]:
    diagram = one_box_a_layer(n)()
    functions = {f: lambda v, w: (v + 1, w) for f in set(diagram.boxes)}

    def run() -> int:
        values = [0] * WIDTH
        for f, at in zip(diagram.boxes, diagram.offsets):
            values[at : at + 2] = functions[f](*values[at : at + 2])
        return sum(values)

    return run


WAYS: dict[tuple[str, str], dict[str, Make]] = {
    ("build", "chain"): {
        "`>>` one by one": one_by_one, "`>>` of halves": halves, "`then` of all": then, "`decode`": decode,
        "`Diagram` of ten `Layer`s": inside, "`Diagram` of new `Layer`s": new_layers,
    },
    ("build", "layers"): {"`Diagram` of rows": wall, "`Diagram` of a box a layer": one_box_a_layer},
    ("compare", "chain"): {"`==`, as stored": equal(new_layers), "hypergraphs' `==`": hypergraphs(inside)},
    ("compare", "layers"): {"`==`, as stored": equal(wall), "hypergraphs' `==`": hypergraphs(one_box_a_layer)},
    ("differ", "chain"): {"`==`, as stored": unequal(inside)},
    ("differ", "layers"): {"`==`, as stored": unequal(wall)},
    ("rewrite", "chain"): {"`Functor`": functor, "layers replaced by hand": layers_replaced},
    ("evaluate", "chain"): {"`Functor` to Python": python_functor, "a loop over boxes and offsets": by_hand},
    ("evaluate", "layers"): {"a loop over boxes and offsets": wall_by_hand},
}  # fmt: skip


def count(made: Any) -> int:
    """How many boxes a diagram has."""
    return len(made.boxes)
