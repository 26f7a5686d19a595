"""Mistakes name both types, the wire and the user's line; weaving goes into named diagrams, loops and groups."""

import os
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import catdiag
from catdiag.category.box_types import check, check_box
from catdiag.category.diagram import Diagram, Graph, Node, box, copy, discard, id, of_box, of_graph, wiring
from catdiag.category.functor import interpret, weave
from catdiag.category.ops import (
    Box,
    Call,
    Einsum,
    FoldOp,
    Generic,
    GroupOp,
    Index,
    Map,
    Reduce,
    Rename,
    const_box,
    einsum_box,
    index_box,
    map_box,
    reduce_box,
)
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType, Axis, Ty
from catdiag.util.errors import AxisError, TypeMismatch

Q, XA, H = Axis("q"), Axis("x"), Axis("h")
X = ArrayType((XA,))
QX = ArrayType((Q, XA))


def test_composition_names_types_wire_and_line():
    f, g = box("f", X, X @ QX), box("g", X @ X, X)
    with pytest.raises(TypeMismatch) as caught:
        f >> g  # this line
    text = str(caught.value)
    assert "the first gives [x] @ [q x], the second takes [x] @ [x]" in text
    assert "wire 1 carries [q x] and is read as [x]" in text
    assert "test_errors_and_loops.py" in text and text.endswith("f >> g  # this line")
    assert isinstance(caught.value, TypeError)


def test_composition_reports_sizes_and_missing_wires():
    short, long = ArrayType((Axis("x", 3),)), ArrayType((Axis("x", 4),))
    with pytest.raises(TypeMismatch, match=r"wire 0 carries \[x\].*Axis\('x', 3\).*Axis\('x', 4\)"):
        id(short) >> id(long)
    with pytest.raises(TypeMismatch, match=r"wire 1, which carries \[x\], is not taken.*2 wires meet 1"):
        copy(X) >> id(X)
    with pytest.raises(TypeMismatch, match=r"wire 1, to be read as .* is not given.*1 wires meet 2"):
        id(X) >> id(X @ X)
    with pytest.raises(TypeMismatch) as caught:
        id(Ty(*[X] * 100_000)) >> id(Ty(*[X] * 99_999, QX))
    assert "wire 99999 carries [x] and is read as [q x]" in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_composing_with_something_else_is_a_type_error():
    for action in (lambda: id(X) >> X, lambda: id(X) @ 3, lambda: Ty(X) @ 3):
        with pytest.raises(TypeError, match="unsupported operand"):
            action()


def test_wiring_and_interpretation_check_counts():
    with pytest.raises(TypeMismatch, match="wiring reads wire 2 of 1"):
        wiring(X, [0, 2])
    with pytest.raises(TypeMismatch, match="has 1 inputs, 2 were given"):
        interpret(id(X), [1, 2], lambda b, v: v)
    with pytest.raises(TypeMismatch, match="f has 1 outputs, its action gave 2"):
        interpret(box("f", X, X), [1], lambda b, v: [1, 2])


def test_values_are_let_go_after_their_last_use():
    alive = 0

    class Value:
        def __init__(self) -> None:
            nonlocal alive
            alive += 1

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    most = []

    def action(b: Box, values: tuple[Value, ...]) -> list[Value]:
        most.append(alive)
        return [Value() for _ in b.cod]

    d = box("make", Ty(), X)
    for k in range(50):
        d = d >> box(f"f{k}", X, X)
    interpret(d, [], action)
    assert max(most) <= 2


@pytest.mark.parametrize(
    "wrong",
    [
        Box(Map("add"), Ty(X), Ty(X)),
        Box(Map("exp"), Ty(X), Ty(QX)),
        Box(Map("exp"), Ty(QX), Ty(X)),
        Box(Map("exp"), Ty(X), Ty(ArrayType((Axis("x", 3),)))),
        Box(Reduce("sum", "q"), Ty(X), Ty(ArrayType())),
        Box(Reduce("sum", "x"), Ty(X), Ty(X)),
        Box(Einsum(), X @ QX, Ty(ArrayType((H,)))),
        Box(Rename((("x", "y"),)), Ty(X), Ty(X)),
        Box(Rename(), Ty(QX), Ty(X)),
        Box(Index("q"), Ty(), Ty(X)),
        Box(Map("exp"), Ty(X), X @ X),
        Box(Call("f", box("f", X, X)), Ty(X), Ty(QX)),
    ],
)
def test_a_box_with_types_that_its_operation_cannot_have(wrong):
    with pytest.raises((TypeMismatch, AxisError)):
        check_box(wrong)
    with pytest.raises((TypeMismatch, AxisError)):
        check(of_box(wrong))


def test_a_graph_that_is_not_well_formed():
    b = Box(Generic("f"), Ty(X), Ty(QX))
    for graph, cod, text in (
        (Graph(Ty(X), (Node(b, (1,)),), (1,)), None, "node 0, f, reads wire 1"),
        (Graph(Ty(QX), (Node(b, (0,)),), (1,)), None, r"takes \[x\] and reads \[q x\]"),
        (Graph(Ty(X), (Node(b, (0,)),), (1,)), Ty(X), r"carry \[q x\] where the diagram gives \[x\]"),
        (Graph(Ty(X), (Node(b, (0,)),), (-1,)), Ty(X), "the outputs read wires"),
    ):
        with pytest.raises(TypeMismatch, match=text):
            check(of_graph(graph, cod))


# -- weaving -----------------------------------------------------------------------------------------------


def chain(*boxes: Box) -> Diagram:
    """Boxes one after the other, each reading the one before it."""
    d = of_box(boxes[0])
    for b in boxes[1:]:
        d = d >> of_box(b)
    return d


def exp_sum(array: ArrayType = X) -> Diagram:
    e = map_box("exp", [array])
    return chain(e, reduce_box("sum", "x", e.cod[0]))


def test_a_named_diagram_is_woven_with_its_body():
    named = of_box(Box(Call("lse", exp_sum()), Ty(X), Ty(ArrayType())))
    woven = weave(named, H)
    check(woven)
    assert woven.boxes[0].op.body == weave(exp_sum(), H)
    assert inline(woven) == weave(exp_sum(), H) == exp_sum(ArrayType((H, XA)))


def test_weaving_some_inputs_broadcasts_the_others():
    q_d, x_d = ArrayType((Q, Axis("d"))), ArrayType((XA, Axis("d")))
    scores = of_box(einsum_box([q_d, x_d], ["q", "x"]))
    scores = of_graph(scores.graph, names=("Q", "K"))
    for d in (scores, of_graph(of_box(Box(Call("scores", scores), scores.dom, scores.cod)).graph, names=("Q", "K"))):
        woven = weave(d, H, ["Q"])
        check(woven)
        assert str(woven) == "[h q d] @ [x d] → [h q x]"
        assert weave(d, H, "Q") == weave(d, H, [0]) == woven
        assert woven.names == ("Q", "K")


def test_what_depends_on_no_woven_input_runs_once_and_is_repeated_as_an_output():
    const = of_box(const_box(Fraction(2)))
    d = (const @ id(X)) >> of_box(map_box("mul", [ArrayType(), X]))
    woven = weave(d, H)
    check(woven)
    assert [b.name for b in woven.boxes] == ["2", "mul"]
    assert str(woven.boxes[1].dom) == "[] @ [h x]"
    assert [b.name for b in weave(const, H).boxes] == ["2", "rename"]
    position = weave(of_box(index_box(XA)), H)
    check(position)
    assert str(position) == "1 → int[h x]"
    inside = of_box(Box(Call("two", const), Ty(), const.cod)) @ id(X)
    check(weave(inside, H))
    assert [b.name for b in inline(weave(inside, H)).boxes] == ["2", "rename"]


def test_mistakes_in_weaving():
    d = of_graph(exp_sum().graph, names=("A",))
    with pytest.raises(AxisError, match="axis 'x' is on a wire"):
        weave(d, "x")
    with pytest.raises(AxisError, match="cannot weave input 'B': the inputs are A"):
        weave(d, "h", ["B"])
    with pytest.raises(AxisError, match="cannot weave input 1: the diagram has 1"):
        weave(d, "h", [1])
    hidden = of_box(Box(Call("f", box("f", X, QX) >> box("g", QX, X)), Ty(X), Ty(X)))
    with pytest.raises(AxisError, match="axis 'q' is on a wire"):
        weave(hidden, "q")


BLOCK = ArrayType((Axis("x", "s_x"),))
S = ArrayType()


def loop() -> Box:
    """The sum of squares of a stream, with weights kept resident: `Σ_x w a²`."""
    term = (copy(BLOCK) @ id(S)) >> (of_box(map_box("mul", [BLOCK, BLOCK])) @ id(S))
    term = term >> of_box(map_box("mul", [BLOCK, S])) >> of_box(reduce_box("sum", "x", BLOCK))
    add = of_box(map_box("add", [S, S]))
    zero = of_box(const_box(Fraction(0)))
    return Box(FoldOp("x", "s_x", zero, (id(S) @ term) >> add, add, term, ("total",)), X @ S, Ty(S))


@pytest.mark.parametrize("inputs", [[0], [1], [0, 1]])
def test_a_loop_is_woven_with_its_bodies(inputs):
    check(of_box(loop()))
    woven = weave(of_box(loop()), H, inputs)
    check(woven)
    op = woven.boxes[0].op
    assert str(op.unit) == "1 → [h]"
    assert str(op.merge) == "[h] @ [h] → [h]"
    assert str(op.state).endswith("→ [h]")
    assert op.step.dom == Ty(ArrayType((H,))) @ op.state.dom
    assert (op.axis, op.block, op.components) == ("x", "s_x", ("total",))
    assert weave(of_box(loop()), H, []).boxes[0] == loop()
    twice = weave(weave(of_box(loop()), H, inputs), Q)
    check(twice)


def test_a_loop_that_is_not_laid_out_as_one_is_refused():
    broken = Box(replace(loop().op, step=loop().op.state), X @ S, Ty(S))
    with pytest.raises(AxisError, match="weave before streaming"):
        weave(of_box(broken), H)
    with pytest.raises(AxisError, match=r"which fold\[x\] uses for its blocks"):
        weave(of_box(loop()), Axis("h", "s_x"))
    with pytest.raises(TypeMismatch, match="expected step to be"):
        check_box(broken)


def test_a_group_is_woven_with_its_body():
    tile = ArrayType((Axis("q", "g_q"), XA))
    body = of_box(reduce_box("sum", "x", tile))
    grouped = of_box(Box(GroupOp((("q", "g_q"),), body), Ty(QX), Ty(ArrayType((Q,)))))
    check(grouped)
    woven = weave(grouped, H)
    check(woven)
    assert woven.boxes[0].op.body == weave(body, H)
    assert str(woven) == "[h q x] → [h q]"


def test_discarding_everything_is_a_diagram_too():
    assert bool(id(Ty())) and len(id(Ty())) == 0
    assert discard(X) == weave(discard(S), XA)


# -- independence of the seed of hashes ----------------------------------------------------------------------

PROGRAM = """
import pickle, sys
from catdiag.category.diagram import box, copy
from catdiag.category.substitution import call
from catdiag.category.types import ArrayType, Axis, Ty
X = Ty(ArrayType((Axis("x"),)))
d = copy(X) >> call("named", box("f", X, X)) @ (box("g", X, X) >> box("end", X, Ty()))
if sys.argv[1] == "write":
    hash(d), hash(d.boxes[0])
    sys.stdout.buffer.write(pickle.dumps(d))
else:
    other = pickle.loads(sys.stdin.buffer.read())
    print(other == d, hash(other) == hash(d), {d: 1}.get(other), {d.boxes[0]: 2}.get(other.boxes[0]), repr(d))
"""


def test_hashes_do_not_travel_between_processes():
    def python(mode: str, seed: str, given: bytes = b"") -> bytes:
        path = os.pathsep.join([str(Path(catdiag.__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        command = [sys.executable, "-c", PROGRAM, mode]
        return subprocess.run(command, input=given, env=environment, capture_output=True, check=True).stdout

    written = python("write", "1")
    first, second = python("read", "2", written), python("read", "3", written)
    assert first.startswith(b"True True 1 2 ")
    assert first == second
