"""What a rewrite changed: a matching of the boxes before and after it, read through names, groups and loops."""

from __future__ import annotations

import pytest

import catdiag as cd
from catdiag.category.diagram import Diagram, diagram_of
from catdiag.category.ops import Call, FoldOp, GroupOp, bodies
from catdiag.draw.string_diagram.diagram_diff import CHANGED, GONE, INTO, NEW, OUT_OF, changes, gathered


def boxes(diagram: Diagram, address=(), within=True):
    """All boxes by address, with the loops around each; of loops the body that runs."""
    for k, node in enumerate(diagram_of(diagram).graph.nodes):
        here = (*address, k)
        yield here, node.box
        inner = {FoldOp: 1, GroupOp: 0, Call: 0}.get(type(node.box.op))
        if inner is not None and within:
            yield from boxes(bodies(node.box.op)[inner], (*here, inner))


def both_ways(before, after):
    """The changes, which exchange where the diagrams do, at addresses that exist."""
    before, after = diagram_of(before), diagram_of(after)
    found, back = changes(before, after), changes(after, before)
    assert set(found.before) == set(back.after)
    assert set(found.after) == set(back.before)
    turned = {GONE: NEW, INTO: OUT_OF, NEW: GONE, OUT_OF: INTO, CHANGED: CHANGED}
    assert {at: turned[w] for at, w in found.before.items()} == dict(back.after)
    for diagram, marks in ((before, found.before), (after, found.after)):
        known = dict(boxes(diagram))
        assert set(marks) <= set(known)
        loops = [at for at, word in marks.items() if isinstance(known[at].op, FoldOp) and word != CHANGED]
        for at, word in marks.items():
            inside = any(at != loop and at[: len(loop)] == loop for loop in loops)
            assert not inside or word in (GONE, NEW), "a box of a loop of this side alone did not come from one"
    return found


@pytest.fixture(scope="module")
def shares():
    f = cd.algorithm("q x, x -> q", name="shares")(lambda S, V: cd.sum(cd.softmax(S, "x") * V, "x"))
    streamed = f.stream("x")
    return f, streamed, streamed.group("q"), streamed.split("x")


def test_nothing_changed(shares):
    for item in shares:
        diagram = item if isinstance(item, Diagram) else item.diagram
        assert both_ways(diagram, diagram).none


def test_a_stream_marks_what_went_in_and_the_loop(shares):
    f, streamed, *_ = shares
    found = both_ways(f, streamed.diagram)
    before, after = dict(boxes(f)), dict(boxes(streamed.diagram))
    assert INTO in found.before.values()
    reductions = [at for at, box in before.items() if box.name in ("max[x]", "sum[x]")]
    assert len(reductions) == 3
    assert {found.before[at] for at in reductions} == {INTO}
    assert [at for at in found.after if isinstance(after[at].op, FoldOp)] == [
        at for at, box in after.items() if isinstance(box.op, FoldOp)
    ]
    assert set(found.after.values()) == {NEW}
    # What the textbook does not have: the running maximum, the repair by it, and the sums so far.
    loop = next(at for at in found.after if isinstance(after[at].op, FoldOp))
    inside = sorted(after[at].name for at in found.after if at != loop and at[: len(loop)] == loop)
    assert inside == ["add", "add", "exp", "max", "mul", "mul", "sub"]


def test_a_group_is_all_that_is_new(shares):
    _, streamed, grouped, _ = shares
    found = both_ways(streamed.diagram, grouped.diagram)
    assert not found.before
    after = dict(boxes(grouped.diagram))
    assert [type(after[at].op) for at in found.after] == [GroupOp]


def test_a_loop_in_parts_is_another_loop(shares):
    _, streamed, _, split = shares
    found = both_ways(streamed.diagram, split.diagram)
    known = dict(boxes(streamed.diagram))
    assert [type(known[at].op) for at in found.before] == [FoldOp]
    assert list(found.before.values()) == list(found.after.values()) == [CHANGED]


def test_names_are_read_through():
    f = cd.algorithm("q x -> q x")(lambda a: cd.softmax(a, "x"))
    opened = cd.algorithm("q x -> q x")(lambda a: cd.exp(a - cd.max(a, "x")) / cd.sum(cd.exp(a - cd.max(a, "x")), "x"))
    found = both_ways(f, opened)
    assert not found.before
    # What is computed twice is new once.
    assert sorted(dict(boxes(opened))[at].name for at in found.after) == ["exp", "max[x]", "sub"]


def test_of_equal_boxes_those_made_of_the_same_are_the_same():
    f = cd.algorithm("x, x -> x")(lambda a, b: cd.exp(a) + cd.exp(b))
    g = cd.algorithm("x, x -> x")(lambda a, b: a + cd.exp(b))
    found = both_ways(f, g)
    assert dict(found.before) == {(0,): GONE}
    assert not found.after


def test_marks_of_named_diagrams_are_gathered():
    f = cd.algorithm("q x -> q x")(lambda a: cd.softmax(a, "x"))
    inner = {at: GONE for at, _ in boxes(f) if len(at) > 1}
    assert gathered(diagram_of(f), inner) == ({(0,): GONE}, frozenset())
    some = dict(list(inner.items())[:2])
    assert gathered(diagram_of(f), some) == (some, frozenset({diagram_of(f).graph.nodes[0].box.op.name}))
    assert gathered(diagram_of(f), {}) == ({}, frozenset())


def test_long_chains_take_work_in_proportion(calls):
    def chain(n, fn):
        def body(a):
            for k in range(n):
                a = cd.exp(a) if k != n // 2 else fn(a)
            return a

        return cd.algorithm("x -> x")(body).diagram

    work = []
    for n in (500, 1000):
        before, after = chain(n, cd.exp), chain(n, cd.tanh)
        work.append(calls(lambda: changes(before, after)))  # noqa: B023
        found = changes(before, after)
        assert len(found.before) == len(found.after) == 1
    assert work[1] < 2.2 * work[0]
