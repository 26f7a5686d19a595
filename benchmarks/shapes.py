"""This library alone, on shapes of diagrams that could be hard: what it takes to build and compare them."""

from __future__ import annotations

import gc
import os
import random
import time
from collections.abc import Callable
from typing import Any

from catdiag.category.diagram import Diagram, box, copy, discard, id, of_graph, swap, wiring
from catdiag.category.types import ArrayType, Axis, Ty

X = Ty(ArrayType((Axis("x"),)))
SIZES = (1_000, 10_000, 100_000)
WIDE = 16


def _kinds(n: int = 1) -> list[Diagram]:
    ty = Ty(*[X[0]] * n)
    return [box(f"f{k}", ty, ty) for k in range(10)]


def left_nested(n: int) -> Diagram:
    """((f >> g) >> h) >> …"""
    kinds = _kinds()
    diagram = kinds[0]
    for k in range(1, n):
        diagram = diagram >> kinds[k % 10]
    return diagram


def right_nested(n: int) -> Diagram:
    """f >> (g >> (h >> …))"""
    kinds = _kinds()
    diagram = kinds[(n - 1) % 10]
    for k in range(n - 2, -1, -1):
        diagram = kinds[k % 10] >> diagram
    return diagram


def side_by_side(n: int) -> Diagram:
    """f @ g @ h @ …"""
    kinds = _kinds()
    diagram = kinds[0]
    for k in range(1, n):
        diagram = diagram @ kinds[k % 10]
    return diagram


def side_by_side_right(n: int) -> Diagram:
    """f @ (g @ (h @ …))"""
    kinds = _kinds()
    diagram = kinds[(n - 1) % 10]
    for k in range(n - 2, -1, -1):
        diagram = kinds[k % 10] @ diagram
    return diagram


def whiskered(n: int) -> Diagram:
    """id @ f @ id, one box at a time, at a random place of 16 wires: a random network."""
    rng, kinds = random.Random(1), _kinds(2)
    ids = [id(Ty(*[X[0]] * k)) for k in range(WIDE + 1)]
    diagram = ids[WIDE]
    for k in range(n):
        at = rng.randrange(WIDE - 1)
        diagram = diagram >> (ids[at] @ kinds[k % 10] @ ids[WIDE - 2 - at])
    return diagram


def permuted(n: int) -> Diagram:
    """A random permutation of 16 wires before each layer of 16 boxes."""
    rng, kinds, ty = random.Random(0), _kinds(), Ty(*[X[0]] * WIDE)
    diagram = id(ty)
    for start in range(0, n, WIDE):
        order = list(range(WIDE))
        rng.shuffle(order)
        layer = kinds[start % 10]
        for k in range(1, min(WIDE, n - start)):
            layer = layer @ kinds[(start + k) % 10]
        if n - start < WIDE:
            layer = layer @ id(Ty(*[X[0]] * (WIDE - n + start)))
        diagram = diagram >> wiring(ty, order) >> layer
    return diagram


def copied(n: int) -> Diagram:
    """copy, swap, add, discard, again and again."""
    kinds, add = _kinds(), box("add", X @ X, X)
    part = copy(X, 3) >> swap(X, X) @ discard(X) >> add
    diagram = id(X)
    for k in range(n // 2):
        diagram = diagram >> part >> kinds[k % 10]
    return diagram


def doubled(n: int) -> Diagram:
    """d >> d of d >> d of …: one diagram used many times."""
    diagram = _kinds()[0]
    while len(diagram) < n:
        diagram = diagram >> diagram
    return diagram


def dead(n: int) -> Diagram:
    """Half of the boxes reach no output."""
    f, g = _kinds()[:2]
    diagram = id(X)
    part = copy(X) >> f @ (g >> discard(X))
    for _ in range(n // 2):
        diagram = diagram >> part
    return diagram


def shuffled(diagram: Diagram) -> Diagram:
    """The same boxes in another order, in which each comes after what it reads."""
    from catdiag.category.diagram import Graph, Node

    graph, rng = diagram.graph, random.Random(2)
    first, maker = [], [-1] * len(graph.dom)
    for place, node in enumerate(graph.nodes):
        first.append(len(maker))
        maker += [place] * len(node.box.cod)
    left = [sum(maker[w] >= 0 for w in node.inputs) for node in graph.nodes]
    readers: list[list[int]] = [[] for _ in graph.nodes]
    for place, node in enumerate(graph.nodes):
        for w in node.inputs:
            if maker[w] >= 0:
                readers[maker[w]].append(place)
    ready = [place for place, k in enumerate(left) if not k]
    names = list(range(len(graph.dom))) + [0] * (len(maker) - len(graph.dom))
    nodes, count = [], len(graph.dom)
    while ready:
        at = rng.randrange(len(ready))
        ready[at], ready[-1] = ready[-1], ready[at]
        place = ready.pop()
        node = graph.nodes[place]
        nodes.append(Node(node.box, tuple([names[w] for w in node.inputs])))
        for k in range(len(node.box.cod)):
            names[first[place] + k] = count
            count += 1
        for reader in readers[place]:
            left[reader] -= 1
            if not left[reader]:
                ready.append(reader)
    return of_graph(Graph(graph.dom, tuple(nodes), tuple([names[w] for w in graph.outputs])), diagram.cod)


SHAPES: dict[str, Callable[[int], Diagram]] = {
    "chain, nested to the left": left_nested,
    "chain, nested to the right": right_nested,
    "one layer, nested to the left": side_by_side,
    "one layer, nested to the right": side_by_side_right,
    "random network, id @ box @ id": whiskered,
    "permutations between layers": permuted,
    "copies, swaps and discards": copied,
    "one diagram doubled": doubled,
    "half of the boxes dead": dead,
}


def _timed(run: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    made = run()
    return made, time.process_time() - start


def one(shape: str, n: int) -> dict[str, float]:
    """Seconds, the garbage collector as it is in any program, but for what it does between the measurements."""
    make = SHAPES[shape]

    def built() -> Diagram:
        diagram = make(n)
        assert diagram.graph is not None
        return diagram

    found = {}
    left, found["build"] = _timed(built)
    right = built()
    gc.collect()
    same, found["equal"] = _timed(lambda: left == right)
    assert same and len(left) >= n - 2
    moved = shuffled(right)
    gc.collect()
    same, found["equal, in another order"] = _timed(lambda: left == moved)
    assert same
    rest = id(left.cod[1:])
    ends = [box(name, X, X) @ rest for name in ("g", "h")]
    mine, theirs = right >> ends[0], moved >> ends[1]
    assert mine.graph is not None and theirs.graph is not None
    gc.collect()
    same, found["one box differs"] = _timed(lambda: mine == theirs)
    assert not same
    # The same boxes, two of them exchanged: no count of boxes can tell.
    pair = [box(name, X, X) for name in ("g", "h")]
    mine = right >> ((pair[0] >> pair[1]) @ rest)
    theirs = moved >> ((pair[1] >> pair[0]) @ rest)
    assert mine.graph is not None and theirs.graph is not None
    gc.collect()
    same, found["two boxes exchanged"] = _timed(lambda: mine == theirs)
    assert not same
    return found


def measured(larger: bool = False) -> dict[str, Any]:
    """By shape and size, each in a process of its own; with a million boxes if `larger`."""
    from benchmarks.proofs import forked

    found: dict[str, Any] = {}
    for shape in SHAPES:
        for n in (*SIZES, 1_000_000) if larger else SIZES:
            result, _ = forked(lambda shape=shape, n=n: one(shape, n), 120)
            found.setdefault(shape, {})[str(n)] = result
            print(shape, n, result, flush=True)
    return found


if __name__ == "__main__":
    print(os.getpid(), measured())
