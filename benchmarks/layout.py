"""How long a picture takes to lay out, for up to 20,000 boxes, and a diagram to be put in named parts.

    python benchmarks/layout.py [--sizes 250 1000 5000 20000] [--seconds 1.0]

CPU seconds of this process, the best of three, with the collector of garbage off; the diagrams are made before. Each
kind of diagram is laid out whole, and in parts as `Diagram.svg` does beyond 400 boxes. `growth` is the seconds of the
largest over those of the size before, divided by the ratio of sizes: 1 is linear. Exit status 1 where 1,000 boxes take
longer than `--seconds`.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from collections.abc import Callable, Sequence

from catdiag.category.diagram import Diagram, Graph, Node, box, of_graph
from catdiag.category.types import ArrayType, Axis, Ty
from catdiag.draw.string_diagram.layout import layout
from catdiag.draw.string_diagram.subdiagrams import folded

X = ArrayType((Axis("x"),))
F, A, J = (box(name, dom, cod).boxes[0] for name, dom, cod in (("f", X, X), ("a", X @ X, X), ("j", X @ X, X @ X)))
WIDTH = 10


def _graph(inputs: int, nodes: list[Node], outputs: Sequence[int]) -> Diagram:
    return of_graph(Graph(Ty(*[X] * inputs), tuple(nodes), tuple(outputs)))


def chain(number: int) -> Diagram:
    """One after another."""
    return _graph(1, [Node(F, (k,)) for k in range(number)], [number])


def around(number: int) -> Diagram:
    """Each second box takes what the one before it took, and made."""
    nodes: list[Node] = []
    at = 0
    for _ in range(number // 2):
        nodes.append(Node(F, (at,)))
        nodes.append(Node(A, (at, len(nodes))))
        at = len(nodes)
    return _graph(1, nodes, [at])


def far(number: int) -> Diagram:
    """A chain each box of which reads the input too: a wire passes them all."""
    return _graph(1, [Node(A, (k, 0)) for k in range(number)], [number])


def bricks(number: int) -> Diagram:
    """Rows of boxes of two wires, each row shifted by one."""
    nodes: list[Node] = []
    at = list(range(WIDTH))
    row = 0
    while len(nodes) < number:
        for k in range(row % 2, WIDTH - 1, 2):
            nodes.append(Node(J, (at[k], at[k + 1])))
            at[k : k + 2] = [WIDTH + 2 * len(nodes) - 2, WIDTH + 2 * len(nodes) - 1]
        row += 1
    return _graph(WIDTH, nodes, at)


def anyhow(number: int) -> Diagram:
    """Boxes of two wires, each on any two of ten."""
    drawn = random.Random(0)
    nodes: list[Node] = []
    at = list(range(WIDTH))
    for k in range(number):
        i, j = drawn.sample(range(WIDTH), 2)
        nodes.append(Node(J, (at[i], at[j])))
        at[i], at[j] = WIDTH + 2 * k, WIDTH + 2 * k + 1
    return _graph(WIDTH, nodes, at)


def timed(work: Callable[[], object]) -> float:
    """CPU seconds, the best of three."""
    found = []
    for _ in range(3):
        gc.collect()
        gc.disable()
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
        gc.enable()
    return min(found)


def main(sizes: Sequence[int], seconds: float) -> int:
    """Prints the table; the exit status."""
    slow = False
    print(f"{'':10}" + "".join(f"{n:>11,}" for n in sizes) + f"{'growth':>9}   in parts" + f"{sizes[-1]:>10,}")
    for make in (chain, around, far, bricks, anyhow):
        found, diagram = [], make(2)
        for number in sizes:
            diagram = make(number)
            diagram.boxes  # noqa: B018  made before the clock starts
            found.append(timed(lambda d=diagram: layout(d)))  # type: ignore[misc]
            slow = slow or (number == 1000 and found[-1] > seconds)
        growth = found[-1] / found[-2] / (sizes[-1] / sizes[-2]) if len(found) > 1 else 1.0
        parts = timed(lambda d=diagram: layout(folded(d)))  # type: ignore[misc]
        print(f"{make.__name__:10}" + "".join(f"{t:>9.3f} s" for t in found) + f"{growth:>9.2f}   {parts:>17.3f} s")
    if slow:
        print(f"1,000 boxes take longer than {seconds:g} s")
    return int(slow)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[250, 1000, 5000, 20000])
    parser.add_argument("--seconds", type=float, default=1.0)
    given = parser.parse_args()
    sys.exit(main(given.sizes, given.seconds))
