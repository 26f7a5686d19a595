"""Boxes replaced by diagrams and by functions: what a slow definition says, by lists and by arrays."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import pytest

from catdiag.category.diagram import Diagram, Graph, Node, box, copy, discard, id, of_box, of_graph, swap, wiring
from catdiag.category.evaluation import Course, course_of, evaluate
from catdiag.category.functor import interpret
from catdiag.category.ops import Box, Generic
from catdiag.category.substitution import call, inline, substitute
from catdiag.category.types import ArrayType, Axis, Ty
from catdiag.util.errors import TypeMismatch

A = ArrayType((Axis("x"),))
SIZES = [Ty(*[A] * k) for k in range(4)]
X = SIZES[1]
KINDS = [Box(Generic(f"f{a}{p}"), SIZES[a], SIZES[p]) for a in range(4) for p in range(3)]
ONE = KINDS[4]


def drawn(rng: random.Random, boxes: int, dom: int = 2, cod: int = 2) -> Diagram:
    """A diagram with all kinds of boxes, long rows of one kind, dead boxes, wires read twice, and not read."""
    nodes: list[Node] = []
    wires = dom
    while len(nodes) < boxes:
        if wires and rng.random() < 0.3:
            at = rng.randrange(wires)
            for _ in range(rng.randrange(1, 8)):
                nodes.append(Node(ONE, (at,)))
                at, wires = wires, wires + 1
        else:
            b = rng.choice([b for b in KINDS if wires or not len(b.dom)])
            near = max(0, wires - 4) if rng.random() < 0.7 else 0
            nodes.append(Node(b, tuple(rng.randrange(near, wires) for _ in b.dom)))
            wires += len(b.cod)
    outputs = tuple(rng.randrange(wires) for _ in range(cod)) if wires else ()
    return of_graph(Graph(SIZES[dom], tuple(nodes), outputs), names=tuple("pqr"[:dom]), title="drawn")


def in_arrays(diagram: Diagram) -> Diagram:
    graph = diagram.graph
    made = Diagram.of_arrays(graph.dom, graph.table, *graph.lists()[1:], graph.outputs)
    return of_graph(made.graph, made.cod, diagram.names, diagram.title)


def function(b: Box) -> Callable[..., Any]:
    """A function of its name and arguments."""
    ports = len(b.cod)
    if ports == 1:
        return lambda *args: hash((b.op.name, *args))  # type: ignore[union-attr]
    return lambda *args: [hash((b.op.name, k, *args)) for k in range(ports)]  # type: ignore[union-attr]


def slowly(diagram: Diagram, images: dict[Box, Diagram]) -> Diagram:
    """The functor by its definition: layer by layer, `>>` of id @ F(box) @ id, with all wires kept and chosen from."""
    found = id(diagram.dom)
    for node in diagram.graph.nodes:
        width = len(found.cod)
        take = wiring(found.cod, [*range(width), *node.inputs])
        found = found >> take >> id(found.cod) @ images.get(node.box, of_box(node.box))
    return found >> wiring(found.cod, diagram.graph.outputs)


def test_the_functor_is_what_its_laws_say() -> None:
    for seed in range(150):
        rng = random.Random(seed)
        diagram = drawn(rng, seed % 12)
        images = {b: drawn(rng, rng.choice([0, 0, 1, 4]), len(b.dom), len(b.cod))
                  for b in KINDS if rng.random() < 0.6 and (len(b.dom) or not len(b.cod))}  # fmt: skip
        made = substitute(diagram, images)
        expected = slowly(diagram, images)
        assert made.graph == expected.graph and made.cod == diagram.cod
        assert (made.names, made.title) == (diagram.names, diagram.title)
        assert substitute(in_arrays(diagram), images).graph == expected.graph


def test_a_wire_passed_on_a_thousand_times_is_the_first() -> None:
    f, n = box("f", X, X), 1000
    chain = Diagram.of_arrays(X, [f], [0] * n, range(n), [n])
    assert substitute(chain, {f: id(X)}) == id(X)
    both = box("both", X @ X, X @ X)
    turned = both
    for _ in range(n):
        turned = turned >> both
    for diagram in (turned, in_arrays(turned)):
        assert substitute(diagram, {both: swap(X, X)}) == swap(X, X)


def test_names_are_opened_all_the_way_down_as_by_hand() -> None:
    for seed in range(60):
        rng = random.Random(seed)
        images = {b: drawn(rng, 2, len(b.dom), len(b.cod)) for b in KINDS if len(b.dom)}
        named = {b: call(f"named{b.op.name}", image) for b, image in images.items()}  # type: ignore[union-attr]
        diagram = drawn(rng, 9)
        once = substitute(diagram, named)
        twice = substitute(diagram, {b: call("outer", call("inner", image)) for b, image in images.items()})
        assert inline(once).graph == inline(twice).graph == substitute(diagram, images).graph
        kept = inline(twice, keep=lambda b: b.name == "inner")
        assert {b.name for b in kept.boxes} <= {"inner", *(b.name for b in KINDS)} and inline(kept) == inline(once)


def test_wrong_images_say_what_was_expected() -> None:
    f, y = box("f", X, X), box("y", X, X @ X)
    for arguments, said in (
        ((f, {f: y}), r"f : \[x\] → \[x\] cannot be replaced by a diagram \[x\] → \[x\] @ \[x\]"),
        ((f, {f >> f: f}), "what is to be replaced is .*: expected a box"),
        ((f, {f: "g"}), "what replaces f is 'g': expected a program or a diagram"),
        ((f, [f]), "boxes is .*: expected a dictionary"),
        (("f", {}), "the diagram is 'f': expected a program or a diagram"),
    ):
        with pytest.raises(TypeMismatch, match=said):
            substitute(*arguments)  # type: ignore[arg-type]


def checked(course: Course, graph: Graph) -> None:
    """The spans follow each other, rows are rows, and each wire is let go once at most."""
    at = 0
    table, which, reads = graph.lists()
    for span in course.spans:
        assert span.start == at < span.stop
        at = span.stop
        if span.row:
            assert all(len(table[k].dom) == len(table[k].cod) == 1 for k in which[span.start : span.stop])
            assert all(reads[span.at + k] == span.wire + k - 1 for k in range(1, span.stop - span.start))
    assert at == len(which)
    gone = [w for w, last in zip(reads, course.last, strict=True) if last]
    gone += [*course.unread, *(w for span in course.spans for w in span.unread)]
    assert len(gone) == len(set(gone)) and not set(gone) & set(graph.outputs)
    assert set(gone) | set(graph.outputs) == set(range(len(graph.wire_types())))


def test_functions_give_what_the_interpretation_does() -> None:
    rows = 0
    for seed in range(300):
        diagram = drawn(random.Random(seed), seed % 25)
        arrays = in_arrays(diagram)
        courses = [course_of(d.graph) for d in (diagram, arrays)]
        assert courses[0] == courses[1]
        checked(courses[0], diagram.graph)
        rows += any(span.row for span in courses[0].spans)
        expected = interpret(diagram, [3, 4], lambda b, v: [function(b)(*v)] if len(b.cod) == 1 else function(b)(*v))
        for one in (diagram, arrays):
            assert evaluate(one, [3, 4], function) == expected
            assert evaluate(one, [3, 4], {b: function(b) for b in KINDS}) == expected
    assert rows > 100


def test_values_are_let_go_when_they_are_read_for_the_last_time() -> None:
    class Value:
        alive = 0

        def __init__(self, _: object = None) -> None:
            Value.alive += 1
            most.append(Value.alive)

        def __del__(self) -> None:
            Value.alive -= 1

    most: list[int] = []
    f, g = box("f", X, X), box("g", X @ X, X)
    chain = f
    for _ in range(50):
        chain = chain >> f
    split = copy(X) >> f @ (f >> f) >> g >> copy(X) >> f @ (f >> discard(X))
    many = chain >> split >> chain >> split
    for diagram in (many, in_arrays(many)):
        most.clear()
        interpret(diagram, [Value()], lambda b, v: [Value()])
        held = max(most)
        most.clear()
        evaluate(diagram, [Value()], {f: Value, g: lambda a, b: Value()})
        assert max(most) <= held <= 5 and Value.alive == 0


def test_a_diagram_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    diagram = box("f", X, X) >> box("g", X, X)
    evaluate(diagram, [0], lambda b: lambda v: v + 1)
    monkeypatch.setattr(sys.modules["catdiag.category.evaluation"], "_spans", None)
    assert evaluate(diagram, [1], lambda b: lambda v: v + 1) == (3,)


def test_wrong_functions_say_what_was_expected() -> None:
    f, two = box("f", X, X), box("two", X, X @ X)
    for arguments, said in (
        ((f, [1], {}), r"f : \[x\] → \[x\] has no function: expected one in functions"),
        ((f, [], {f: abs}), "the diagram has 1 inputs, in a list: 0 were given"),
        ((f, 3, {f: abs}), "the diagram has 1 inputs, in a list: 3 were given"),
        ((f, [1], {f: 3}), "the function of f is 3: expected a function of its inputs"),
        ((f, [1], 3), "functions is 3: expected a dictionary"),
        ((f, [1], {"f": abs}), "a key of functions is 'f': expected a box"),
        ((two, [1], {two: lambda v: [v]}), "two has 2 outputs, its function gave 1"),
        ((two, [1], {two: abs}), "two has 2 outputs, its function gave no sequence but int"),
        (("f", [1], {}), "the diagram is 'f': expected a program or a diagram"),
    ):
        with pytest.raises(TypeMismatch, match=said):
            evaluate(*arguments)  # type: ignore[arg-type]
