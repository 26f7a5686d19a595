"""The theorem of several kernels: made of the kernels' own, in work linear in their number."""

from __future__ import annotations

from typing import Any

import pytest

import catdiag as cd
from catdiag.category.diagram import Diagram, diagram_of
from catdiag.kernel.checker import Checker
from catdiag.planner.graph_segments import StageSequence
from catdiag.planner.kernel_drafts import cut
from catdiag.prover.composites import PartEquation, certify_composite
from catdiag.rewrite.derivation import Derivation
from catdiag.rewrite.group import group
from catdiag.rewrite.stream.streaming import stream
from catdiag.solvers.z3 import Z3


def norm(X: Any, g: Any) -> Any:
    return X * g / cd.sqrt(cd.mean(X * X, "e") + 1e-5)


@cd.algorithm("q e, x e, e, e h d, e h d, e h d, h d e, e, e f, e f, f e -> q e")
def layer(X: Any, Y: Any, g1: Any, Wq: Any, Wk: Any, Wv: Any, Wo: Any, g2: Any, Wg: Any, Wu: Any, Wd: Any) -> Any:
    Q, K, V = (cd.einsum(f"{n} e, e h d -> h {n} d", norm(A, g1), W) for n, A, W in
               (("q", X, Wq), ("x", Y, Wk), ("x", Y, Wv)))  # fmt: skip
    S = cd.einsum("h q d, h x d -> h q x", Q, K) / cd.sqrt(cd.size("d"))
    S = cd.where(cd.index("x") <= cd.index("q"), S, -float("inf"))
    O = cd.einsum("h q x, h x d -> h q d", cd.softmax(S, "x"), V)  # noqa: E741
    R = X + cd.einsum("h q d, h d e -> q e", O, Wo)
    G, U = (cd.einsum("q e, e f -> q f", norm(R, g2), W) for W in (Wg, Wu))
    return R + cd.einsum("q f, f e -> q e", G * cd.nn.sigmoid(G) * U, Wd)


def whole(row: StageSequence, ask: Z3, **changed: Diagram) -> Derivation:
    """Each stage as a kernel of its own, some of them changed."""
    spans = [(k, k + 1) for k in range(len(row.stages))]
    kernels = [(span, changed.get(f"k{span[0]}", row.segment_diagram(*span)), None) for span in spans]
    return cut(row, kernels, ("all",), row.diagram, ask)


def test_a_layer_of_a_transformer_has_one_theorem() -> None:
    row = StageSequence(diagram_of(layer))
    with Z3() as ask:
        theorem = whole(row, ask).theorem
        assert str(Checker(ask).check(theorem.certificate)) == str(theorem.checked)
    assert not theorem.conditional and theorem.vacuous is False
    # Equal stages, such as the two norms, cite one theorem; a row that is all masked is not defined.
    assert theorem.checked.cited < len(row.stages)
    assert any("exp" in text and "≠ 0" in text for text in theorem.defined)


def test_a_kernel_that_means_something_else_is_named() -> None:
    f = cd.algorithm("q x, x d -> q d", name="f")(lambda S, V: cd.einsum("q x, x d -> q d", cd.softmax(S, "x"), V))
    row = StageSequence(diagram_of(f))
    wrong = cd.algorithm("q x", name="wrong")(lambda S: cd.exp(S) / 3)
    with Z3() as ask:
        assert whole(row, ask).theorem.checked.cited == len(row.stages)
        with pytest.raises(cd.errors.NotFusable, match=r"not proved to mean f together: kernel 1: it stopped at"):
            whole(row, ask, k0=diagram_of(wrong))


def test_what_does_not_follow_from_the_kernels_is_tried_at_once() -> None:
    """The roots are owed for the rows that are read only, and the kernel that makes them makes all."""

    def body(A: Any, s: Any) -> Any:
        r = cd.exp(1 / cd.sum(s, "e"))
        return cd.sum(cd.where(cd.index("x") <= cd.index("q"), A * r, 0), "x")

    row = StageSequence(diagram_of(cd.algorithm("q x, x e -> q", name="f")(body)))
    with Z3() as ask:
        derived = whole(row, ask)
    assert len(row.stages) > 1 and derived.theorem.checked.cited == 0 and not derived.theorem.conditional


def test_the_parts_have_to_be_the_program() -> None:
    f, g = (diagram_of(cd.algorithm("x", name=name)(body)) for name, body in
            (("f", lambda A: cd.exp(A) + 1), ("g", lambda A: cd.exp(A) + 2)))  # fmt: skip
    inputs = [("A", f.dom[0])]
    with Z3() as ask:
        certify_composite(ask, inputs, [PartEquation(f, f, (0,))], [1], (f, f))
        with pytest.raises(ValueError, match="not g"):
            certify_composite(ask, inputs, [PartEquation(f, f, (0,))], [1], (f, g))


def test_kernels_that_differ_in_names_cite_one_theorem() -> None:
    """Thirty layers cost one proof: names of axes, sizes, blocks and tiles are no difference."""

    def deep(a: Any) -> Any:
        for _ in range(30):
            a = cd.exp(a / cd.sum(a, "x"))
        return a

    source = diagram_of(cd.algorithm("q x", name="deep")(deep))
    row = StageSequence(source)
    with Z3() as ask:
        one = diagram_of(cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x")))
        looped = group(stream(Derivation.start(one, ask), "x"), ("q",)).diagram
        theorem = whole(row, ask).theorem
        parts = [PartEquation(one, looped, (0,)), PartEquation(one, looped, (0,))]
        twice = certify_composite(ask, [("a", source.dom[0])], parts, [1, 2])
    assert theorem.checked.cited <= 4 and len(row.stages) >= 30
    assert twice.checked.cited == 1 and "A10" in twice.axioms


def test_kernels_that_make_much_at_small_sizes_have_a_witness_all_the_same() -> None:
    """The checker evaluates what kernels make: at sizes of 2 that is too much work here."""
    many, more = "a b c d e f g", "h i j k l m n"

    def body(A: Any, B: Any) -> Any:
        made = cd.einsum(f"{many}, {more} -> {more}", cd.exp(A), B)
        return made / cd.sum(cd.exp(made), "h")

    source = diagram_of(cd.algorithm(f"{many}, {more}", name="many")(body))
    with Z3() as ask:
        theorem = whole(StageSequence(source), ask).theorem
    assert theorem.checked.cited > 0 and set(theorem.certificate["witness"]["sizes"].values()) == {1}
