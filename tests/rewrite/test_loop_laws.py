"""Theorems about loops beside their equations: exponentials, divisors, and the laws of merges, true ones and false."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import catdiag as cd
from catdiag.category.diagram import Diagram, Graph, Node, of_graph
from catdiag.category.ops import Box, FoldOp, const_box
from catdiag.kernel.checker import Checker
from catdiag.rewrite.claims import Claims, Verdict
from catdiag.rewrite.derivation import Derivation
from catdiag.rewrite.list_states import Assembly
from catdiag.rewrite.loop_laws import Divisor, associativity, commutativity, divisors, empty, laws, loops, merged
from catdiag.rewrite.stability import Stability, stability
from catdiag.solvers.z3 import Z3

NONE = -float("inf")


def checked(ask: Z3, verdict: Verdict) -> None:
    """The certificates are accepted by a plain checker, as JSON."""
    assert verdict.theorem is not None
    for theorem in (verdict.theorem, *verdict.lemmas):
        assert not Checker(ask).check(json.loads(json.dumps(theorem.certificate))).conditional


def streamed(ask: Z3, diagram: Diagram) -> Derivation:
    return cd.Program(diagram, ask).stream("x")


def shown(found: Stability) -> list[tuple[str, str]]:
    return [(e.name, e.verdict.verdict) for e in found.exponentials]


@cd.algorithm("q d, x d, x v -> q v")
def weighted(Q, K, V):  # type: ignore[no-untyped-def]
    return cd.einsum("q x, x v -> q v", cd.softmax(cd.einsum("q d, x d -> q x", Q, K), "x"), V)


@cd.algorithm("q x, x -> q")
def offset(S, w):  # type: ignore[no-untyped-def]
    return cd.sum(cd.softmax(S - cd.abs(w), "x") * w, "x")


@pytest.mark.parametrize("diagram", [offset], ids=lambda d: d.title)
def test_what_subtracts_its_maximum_does_not_overflow(ask: Z3, diagram: Diagram) -> None:
    derived = streamed(ask, diagram)
    found = derived.stability()
    assert found.proved and bool(found) and derived.stability().proved
    assert {e.where for e in found.exponentials} >= {"step", "merge"}
    for e in found.exponentials:
        checked(ask, e.verdict)
    assert str(found).endswith("no exponential overflows: every argument is at most 0")


@pytest.fixture(scope="module")
def derived(ask: Z3) -> Derivation:
    return streamed(ask, weighted)


def test_all_that_is_proved_of_a_loop_has_a_name(ask: Z3, derived: Derivation) -> None:
    found = derived.claims()
    assert [name for name, claim in found.items() if claim.proved][:6] == [
        "merge gives the state of the whole",
        "merge is associative",
        "merge is commutative",
        "an empty list changes nothing",
        "blocks of one",
        "a shorter last block",
    ]
    assert "sum2 > 0" in found and "step: exp(max1 - max1′) does not overflow" in found
    for claim in found.values():
        if claim.proved and claim.theorem is not None:
            assert not Checker(ask).check(claim.theorem.certificate).conditional


def test_of_groups_and_of_axes_of_a_fixed_size(ask: Z3, derived: Derivation) -> None:
    whole = derived.group("q")
    assert whole.stability().proved and whole.claims()["merge is commutative"].proved
    of_three = cd.Program(cd.algorithm("3 ->")(lambda S: cd.sum(cd.exp(S - cd.max(S, "3")), "3")), ask)
    found = of_three.stream("3")
    assert (
        found.stability().proved
        and found.claims()["merge is commutative"].proved
        and "blocks of one" not in found.claims()
    )


def test_an_exponential_without_a_maximum_is_refuted_and_the_list_overflows(ask: Z3) -> None:
    @cd.algorithm("q x, x v -> q v")
    def plain(S, V):  # type: ignore[no-untyped-def]
        E = cd.exp(S)
        return cd.einsum("q x, x v -> q v", E / cd.sum(E, "x"), V)

    found = streamed(ask, plain).stability()
    assert not found and len(found.unbounded) == 1
    (e,) = found.unbounded
    assert str(e.argument) == "S" and e.line is not None and "E = cd.exp(S)" in e.line
    example = e.verdict.counterexample
    assert example is not None
    row = example.arrays["S"][example.index["q"]]
    assert row[example.sizes["x1"] + example.index["x"]] > 709
    assert "overflow" in str(found) and "no exponential overflows" not in str(found)
    # The list is replayed: NumPy's exponential of it is infinite, and what is divided by it no number.
    assert np.isnan(plain(*example.numpy().values())).any()


def test_bounded_by_another_number_is_said_to_be_above_0_only(ask: Z3) -> None:
    f = cd.algorithm("x ->")(lambda S: cd.sum(cd.exp(cd.minimum(S, 5)), "x"))
    (e,) = streamed(ask, f).stability().exponentials
    assert e.verdict.verdict == "refuted" and "above 0 for" in str(e)


@pytest.mark.parametrize(
    "element",
    [
        lambda S: cd.exp(-S * S),
        lambda S: cd.exp(-cd.abs(S)),
        lambda S: cd.where(S > 3, cd.exp(3 - S), 0),
        lambda S: cd.exp(cd.minimum(S, 0)),
    ],
)
def test_what_is_never_above_0_needs_no_maximum(ask: Z3, element: Callable[..., object]) -> None:
    found = streamed(ask, cd.algorithm("x ->")(lambda S: cd.sum(element(S), "x"))).stability()
    assert found.proved
    for e in found.exponentials:
        checked(ask, e.verdict)


def test_masks_with_rows_and_blocks_of_which_nothing_is_seen(ask: Z3) -> None:
    @cd.algorithm("x, bool[x] ->")
    def masked(S, seen):  # type: ignore[no-untyped-def]
        return cd.sum(cd.softmax(cd.where(seen, S, NONE), "x") * S, "x")

    derived = streamed(ask, masked)
    assert derived.stability().proved and {e.where for e in derived.stability().exponentials} == {"step", "merge"}
    for e in derived.stability().exponentials:
        checked(ask, e.verdict)
    # A first block of which nothing is seen, before numbers at which an exponential of their negative overflows.
    S, seen = np.array([5e4, 1e4, -1000.0, -1001.0]), np.array([False, False, True, True])
    weights = np.exp([0.0, -1.0]) / np.exp([0.0, -1.0]).sum()
    for block in (1, 2, 3, 4):
        np.testing.assert_allclose(derived.run(S, seen, tiles={"s_x": block}), weights @ S[2:])


def test_a_number_that_stands_for_nothing_seen_is_a_condition(ask: Z3) -> None:
    """With `where(m = -∞, number, m)` for a maximum m, the repair of an empty state is below 1 for larger ones only."""
    derived = streamed(ask, cd.algorithm("x, bool[x] ->")(lambda S, c: cd.nn.logsumexp(cd.where(c, S, NONE), "x")))

    def stood_for(op: FoldOp) -> FoldOp:
        made = Assembly(op.merge.dom.arrays)
        bottom, low = made.add(const_box(None), ()), made.add(const_box(Fraction(-1000)), ())

        def real(w: int) -> int:
            return made.map("where", made.map("eq", w, bottom), low, w)

        top = made.map("max", 0, 2)
        parts = [made.map("mul", s, made.map("exp", made.map("sub", real(m), real(top)))) for m, s in ((0, 1), (2, 3))]
        return replace(op, merge=made.diagram([top, made.map("add", *parts)], op.merge.names, "merge"))

    found = stability(changed(derived, stood_for), Claims(ask))
    assert not found.proved and not found.unbounded
    of_merge = [e.verdict for e in found.exponentials if e.where == "merge"]
    assert [v.verdict for v in of_merge] == ["conditional", "conditional"]
    assert all("≥ -1000 where max1" in str(c) for v in of_merge for c in v.conditions)
    assert "no exponential overflows where these conditions hold" in str(found)


def test_before_after_and_without_a_loop(ask: Z3) -> None:
    f = cd.algorithm("x, q -> q")(lambda A, B: cd.exp(B) * cd.exp(-cd.sum(A * A, "x")))
    found = streamed(ask, f).stability()
    assert shown(found) == [("before the loop: exp(B)", "refuted"), ("after the loop: exp(-sum1)", "proved")]
    g = cd.algorithm("x ->")(lambda A: cd.sum(cd.exp(-A * A), "x"))
    assert shown(stability(g.diagram, Claims(ask))) == [("program: exp((-A)·A)", "proved")]


def changed(derived: Derivation, change: Callable[[FoldOp], FoldOp]) -> Diagram:
    """The diagram with another loop in the place of its first."""
    flat, (place, *_) = loops(derived.diagram)
    nodes = list(flat.graph.nodes)
    box = nodes[place].box
    assert isinstance(box.op, FoldOp)
    nodes[place] = Node(Box(change(box.op), box.dom, box.cod), nodes[place].inputs)
    return of_graph(Graph(flat.dom, tuple(nodes), flat.graph.outputs), flat.cod, flat.names, "changed")


def added(op: FoldOp) -> Diagram:
    """A merge that forgets the repairs: the greater maximum, and the sum of the sums."""
    made = Assembly(op.merge.dom.arrays)
    outputs = [made.map("max", 0, 2), made.cast(made.map("add", 1, 3), op.merge.cod[1])]
    return made.diagram(outputs, op.merge.names, "added")


def test_a_merge_that_forgets_its_repair_is_refuted_by_lists(ask: Z3) -> None:
    derived = streamed(ask, cd.algorithm("x ->")(lambda S: cd.sum(cd.exp(S - cd.max(S, "x")), "x")))
    wrong = changed(derived, lambda op: replace(op, merge=added(op)))
    claims = Claims(ask)
    # Sums are associative, and the state of an empty list is 0: what is wrong is that it is the state of the whole.
    assert associativity(wrong, 0, claims).proved and empty(wrong, 0, claims).proved
    verdict = merged(wrong, 0, claims)
    assert verdict is not None and verdict.verdict == "refuted" and verdict.counterexample is not None
    assert verdict.counterexample.lhs != verdict.counterexample.rhs
    assert all(isinstance(v, Fraction) for v in verdict.counterexample.arrays["S"])


def test_a_merge_that_keeps_the_first_does_not_commute(ask: Z3) -> None:
    derived = streamed(ask, cd.algorithm("x ->")(lambda A: cd.sum(A, "x")))

    def first(op: FoldOp) -> FoldOp:
        graph = op.merge.graph
        return replace(op, merge=of_graph(Graph(graph.dom, (), (0,)), op.merge.cod, op.merge.names))

    wrong = changed(derived, first)
    assert commutativity(wrong, 0, Claims(ask)).verdict == "refuted"
    assert associativity(wrong, 0, Claims(ask)).verdict == "proved"
    assert "merge is commutative" in laws(derived.diagram, Claims(ask))


def normalizers(program: cd.Program) -> list[Divisor]:
    return divisors(program.diagram, program.derivation.claims())


def test_divisors_are_positive_or_hypotheses(ask: Z3) -> None:
    @cd.algorithm("q x, x -> q")
    def contraction(W, v):  # type: ignore[no-untyped-def]
        return cd.sum(W * v, "x") / cd.sum(W, "x")

    (d,) = normalizers(streamed(ask, contraction))
    assert d.verdict.verdict == "refuted" and str(d).endswith("≠ 0: a hypothesis")
    assert any("≠ 0" in text for text in streamed(ask, contraction).theorem.defined)
    assert not any(c.proved for name, c in streamed(ask, contraction).claims().items() if name.startswith("sum2"))
    (d,) = normalizers(streamed(ask, weighted))
    assert str(d) == "sum2 > 0: proved"
    checked(ask, d.verdict)
    (d,) = normalizers(streamed(ask, cd.algorithm("x ->")(lambda A: cd.log(cd.sum(cd.exp(A), "x")))))
    assert d.verdict.proved


def test_a_diagram_without_a_loop_commutes_with_nothing(ask: Z3) -> None:
    assert "merge is commutative" not in cd.Program(weighted, ask).claims()


def test_several_loops_are_told_apart(ask: Z3) -> None:
    f = cd.algorithm("x ->")(lambda S: cd.sum(cd.tanh(cd.exp(S - cd.max(S, "x"))), "x"))
    found = cd.Program(f, ask).stream("x", passes=2).claims()
    assert all(v.proved for v in found.values())
    assert {"merge is associative in loop 1", "merge is associative in loop 2"} < set(found)
    assert "step of loop 2: exp(S - max1) does not overflow" in found


def test_laws_hold_where_the_program_is_defined(ask: Z3) -> None:
    """What the state of the whole list owes of its elements, the states of parts owe of theirs."""

    @cd.algorithm("x, x ->")
    def scaled(S, w):  # type: ignore[no-untyped-def]
        return cd.sum(cd.softmax(S / w, "x") * S, "x")

    flat, (place,) = loops(streamed(ask, scaled).diagram)
    verdict = merged(flat, place, Claims(ask))
    assert verdict is not None and verdict.proved


def test_an_exponential_that_is_not_always_used_is_said_to_be_so():
    f = cd.algorithm("x ->")(lambda S: cd.sum(cd.where(S < 0, cd.exp(S), 1), "x"))
    found = f.stream("x").stability()
    assert found.proved and [e.chosen for e in found.exponentials] == [True]
    assert "where it is used, ≤ 1: proved" in str(found)
    assert str(found).endswith("no exponential that is used overflows: every argument is at most 0")


@cd.algorithm("x e, f e -> x")
def deep(X, W):  # type: ignore[no-untyped-def]
    """A score of each token, by two norms and networks: its normal form is large."""
    for _ in range(2):
        X = X / cd.sqrt(cd.mean(X * X, "e") + 1)
        X = X + cd.einsum("x f, f e -> x e", cd.nn.sigmoid(cd.einsum("x e, f e -> x f", X, W)), W)
    return cd.sum(X, "e")


@cd.algorithm("x -> x")
def negative(A):  # type: ignore[no-untyped-def]
    return -(A * A)


def test_claims_do_not_grow_with_what_computes_the_inputs_of_a_loop(ask: Z3) -> None:
    """Positions and the square root of a size are no arbitrary inputs: without them the claim would be conditional."""

    @cd.algorithm("x -> ")
    def total(S):  # type: ignore[no-untyped-def]
        seen = (S + cd.index("x")) / cd.sqrt(cd.size("x"))
        return cd.sum(cd.exp(seen - cd.max(seen, "x")), "x")

    derived = (deep >> total.stream("x")).derivation
    found = stability(derived.diagram, Claims(ask))
    assert found.exponentials and found.proved
    for verdict in (*(e.verdict for e in found.exponentials), *laws(derived.diagram, Claims(ask)).values()):
        checked(ask, verdict)
        assert "sigmoid" not in str(verdict.theorem)


def test_what_computes_the_inputs_of_a_loop_may_be_what_bounds_it(ask: Z3) -> None:
    """Of arbitrary inputs nothing is known: the claim is about the whole."""
    unbounded = cd.algorithm("x ->")(lambda A: cd.sum(cd.exp(A), "x")).stream("x")
    assert not stability(unbounded.diagram, Claims(ask)).proved
    found = stability((negative >> unbounded).diagram, Claims(ask))
    assert shown(found) and found.proved
