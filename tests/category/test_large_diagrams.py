"""Size: many boxes under the default recursion limit (a million when slow), 100,000 compared in about a second.

What a quadratic step would show at 20,000 boxes is tried at 100,000 when slow.
"""

import gc
import math
import sys
import time
from collections.abc import Callable, Iterable

import pytest

from catdiag.category.box_types import check
from catdiag.category.diagram import Diagram, Graph, Node, box, id, of_graph, swap
from catdiag.category.functor import interpret, weave
from catdiag.category.ops import Box, Generic
from catdiag.category.substitution import call, inline
from catdiag.category.types import ArrayType, Axis, Ty

X = ArrayType((Axis("x"),))
F, G, J = box("f", X, X), box("g", X, X), box("j", X @ X, X @ X)
# Of this process's computing, several times what an idle core takes: shared caches slow a busy machine down.
SECONDS = 5.0
SIZES = pytest.mark.parametrize("n", [20_000, pytest.param(100_000, marks=pytest.mark.slow)])


def within(start: float, n: int) -> bool:
    """Whether what began then has taken the time that is allowed for so many boxes."""
    return time.process_time() - start < 2 * SECONDS * n / 100_000


def then(a: Diagram, b: Diagram) -> Diagram:
    return a >> b


def beside(a: Diagram, b: Diagram) -> Diagram:
    return a @ b


def left(op: Callable[[Diagram, Diagram], Diagram], parts: Iterable[Diagram]) -> Diagram:
    rest = iter(parts)
    d = next(rest)
    for part in rest:
        d = op(d, part)
    return d


def right(op: Callable[[Diagram, Diagram], Diagram], parts: Iterable[Diagram]) -> Diagram:
    rest = list(parts)
    d = rest.pop()
    while rest:
        d = op(rest.pop(), d)
    return d


def halves(op: Callable[[Diagram, Diagram], Diagram], parts: Iterable[Diagram]) -> Diagram:
    level = list(parts)
    while len(level) > 1:
        odd = level[len(level) - len(level) % 2 :]
        level = [op(a, b) for a, b in zip(level[::2], level[1::2], strict=False)] + odd
    return level[0]


def letters(n: int) -> list[Diagram]:
    return [F if k % 3 else G for k in range(n)]


def test_a_chain_in_every_association():
    start = time.process_time()
    n = 100_000
    parts = letters(n)
    a, b, c = left(then, parts), right(then, parts), halves(then, parts)
    assert a == b == c
    assert hash(a) == hash(c)
    assert a != left(then, [*parts[:-1], G if parts[-1] is F else F])
    assert within(start, n)


@SIZES
def test_a_chain_of_boxes_made_one_by_one(n):
    start = time.process_time()

    def made() -> list[Diagram]:
        return [box(f"f{k}", X, X) for k in range(n)]

    assert left(then, made()) == right(then, made())
    assert within(start, n)


@SIZES
@pytest.mark.parametrize("height", ["square", "high", "wide"])
def test_a_grid_by_rows_and_by_columns(height, n):
    start = time.process_time()
    height = {"square": math.isqrt(n), "high": n // 10, "wide": 10}[height]
    width = n // height
    parts = letters(height * width)
    rows = [parts[r * width : (r + 1) * width] for r in range(height)]
    by_rows = left(then, (left(beside, row) for row in rows))
    other = right(then, (right(beside, row) for row in rows))
    by_columns = halves(beside, (halves(then, column) for column in zip(*rows, strict=True)))
    assert by_rows == other
    assert by_rows == by_columns
    assert within(start, n)


@SIZES
def test_a_woven_grid_of_boxes_with_two_wires(n):
    """Bricks: each row is shifted by one wire against the row before, so that columns do not come apart."""
    start = time.process_time()
    even = left(beside, [J] * 100)
    odd = right(beside, [id(X), *[J] * 99, id(X)])
    rows = [odd if k % 2 else even for k in range(n // 100)]
    a, b = left(then, rows), halves(then, rows)
    assert len(a) == n - n // 200
    assert a == b
    wires = Ty(*[X] * 200)
    twisted = swap(wires[:100], wires[100:]) >> swap(wires[:100], wires[100:]) >> b
    assert a == twisted
    assert within(start, n)


@SIZES
def test_interchanged_orders_side_by_side(n):
    """`f1 f2 f3 … @ g1 g2 …` run one after the other, and in turns."""
    start = time.process_time()
    apart = left(then, [F] * (n // 2)) @ left(then, [G] * (n // 2))
    f_then, then_g = F @ id(X), id(X) @ G
    turns = left(then, [part for _ in range(n // 2) for part in (then_g, f_then)])
    assert apart == turns
    assert [b.op.name for b in apart.boxes[:2]] == ["f", "f"]
    assert [b.op.name for b in turns.boxes[:2]] == ["g", "f"]
    assert within(start, n)


@SIZES
def test_a_wide_tensor(n):
    start = time.process_time()
    parts = letters(n)
    a, b = left(beside, parts), right(beside, parts)
    assert a == b
    assert len(str(a)) < 200 and len(repr(a)) < 200
    grown = F
    for _ in range(n // 5):  # the objects of a tensor that grows by one may be asked at each step
        grown = grown @ F
        assert len(grown.dom) == len(grown.cod)
    assert grown.dom == Ty(*[X] * (n // 5 + 1))
    assert within(start, n)


@pytest.mark.parametrize("n", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_boxes_under_the_default_recursion_limit(n):
    assert sys.getrecursionlimit() <= 10_000
    a, b = left(then, [F] * n), right(then, [F] * n)
    assert len(a) == n
    assert a == b
    assert interpret(a, [0], lambda _, v: [v[0] + 1]) == (n,)
    assert repr(a) == f"<diagram {a}>"
    del a, b
    deep = right(then, [F] * n)  # let go without ever being read
    del deep
    ty = Ty(X)
    for _ in range(n // 5):
        ty = Ty(X) @ ty
    del ty
    gc.collect()


def test_nested_calls_cost_no_recursion():
    def nest(depth: int) -> Diagram:
        d = F >> G
        for k in range(depth):
            d = call(f"level{k % 3}", d) >> G
        return d

    # Deeper than calls of Python may be.
    depth = sys.getrecursionlimit() + 100
    a, b = nest(depth), nest(depth)
    assert a == b
    assert hash(a) == hash(b)
    assert a != nest(depth - 1)
    assert a.boxes[0] == b.boxes[0]
    assert inline(a) == left(then, [F, *[G] * (depth + 1)])
    assert repr(a) == "<diagram [x] → [x]>"
    woven = weave(a, Axis("h"))
    check(woven)
    assert inline(woven) == weave(inline(a), Axis("h"))


def test_shared_bodies_are_read_once():
    def doubled(depth: int) -> Diagram:
        d = F
        for _ in range(depth):
            d = call("twice", d >> d)
        return d

    a, b = doubled(200), doubled(200)
    assert a == b and hash(a) == hash(b)
    assert a != doubled(201)
    check(weave(a, Axis("h")))
    assert len(inline(doubled(12))) == 2**12
    assert len(inline(doubled(12), keep=lambda b: b.op.body == doubled(3).boxes[0].op.body)) == 2**9


def test_inline_keeps_order_names_and_wires_passed_through():
    twist = call("twist", swap(X, X) >> (F @ id(X)))
    opened = inline(of_graph((twist >> twist).graph, names=("a", "b"), title="t"))
    once = swap(X, X) >> (F @ id(X))
    assert opened == once >> once
    assert (opened.names, opened.title) == (("a", "b"), "t")


# -- many boxes that reach no output --------------------------------------------------------------------

CONST = Box(Generic("c"), Ty(), Ty(X))
END = Box(Generic("end"), Ty(X), Ty())
STEP = F.boxes[0]


def dead(kind: str, n: int) -> tuple[Ty, list[Node]]:
    of_nothing, chain = [Node(CONST, ())], [Node(STEP, (k,)) for k in range(n)]
    return {
        "single boxes that read an input": (Ty(X), [Node(END, (0,))] * (2 * n)),
        "single boxes": (Ty(), [Node(CONST, ())] * (2 * n)),
        "one chain": (Ty(), of_nothing + chain),
        "one box read by all": (Ty(), of_nothing + [Node(END, (0,))] * n),
        "pairs": (Ty(), of_nothing * n + [Node(END, (k,)) for k in range(n)]),
        "forks": (Ty(), of_nothing * n + [Node(END, (k % n,)) for k in range(2 * n)]),
        "a binary tree": (Ty(), of_nothing + [Node(STEP, (k // 2,)) for k in range(n)]),
    }[kind]


KINDS = (
    "single boxes that read an input", "single boxes", "one chain", "one box read by all", "pairs", "forks",
    "a binary tree",
)  # fmt: skip


@SIZES
@pytest.mark.parametrize("kind", KINDS)
def test_many_dead_boxes(kind, n):
    dom, nodes = dead(kind, n // 2)
    start = time.process_time()
    assert of_graph(Graph(dom, tuple(nodes), ())) == of_graph(Graph(dom, tuple(nodes), ()))
    assert within(start, n)
