"""Laws of programs: what is composed, rewritten and compared is what the diagrams say."""

from __future__ import annotations

import pickle
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.prover.outcomes import checked_again
from catdiag.rewrite.steps import Compose, Group, Stream
from catdiag.testing import diagrams
from catdiag.util.errors import CatdiagError, TypeMismatch

ROWS = {
    "total": cd.algorithm("q x -> q", name="total")(lambda a: cd.sum(a, "x")),
    "most": cd.algorithm("q x -> q", name="most")(lambda a: cd.max(a, "x")),
    "norm": cd.algorithm("q x -> q", name="norm")(lambda a: cd.sqrt(cd.sum(a * a, "x"))),
}
AFTER = {
    "half": cd.algorithm("q -> q", name="half")(lambda a: a / 2),
    "mean": cd.algorithm("q ->", name="mean")(lambda a: cd.mean(a, "q")),
}


@cache
def made_of(name: str, streamed: str, grouped: str) -> cd.Program:
    """A program of the tables, with an axis in a loop and one in groups, where these are named."""
    made = {**ROWS, **AFTER}[name]
    made = made.stream(streamed) if streamed else made
    return made.group(grouped) if grouped else made


@st.composite
def derived(draw: st.DrawFn, table: dict[str, cd.Program], axis: str, tile: str) -> cd.Program:
    """One of the programs, with some of its axes in loops and groups."""
    name = draw(st.sampled_from(sorted(table)))
    kept = {name for ty in table[name].cod for name in ty.names}
    streamed = axis if axis not in kept and draw(st.booleans()) else ""
    return made_of(name, streamed, tile if tile in kept and draw(st.booleans()) else "")


first, second = derived(ROWS, "x", "q"), derived(AFTER, "q", "q")


@settings(max_examples=12)
@given(first, second, st.integers(1, 5), st.integers(1, 5))
def test_composition_is_composition_of_functions(f: cd.Program, g: cd.Program, q: int, x: int) -> None:
    array = np.random.default_rng(q * 7 + x).standard_normal((q, x))
    both = f >> g
    np.testing.assert_allclose(both(array), g(f(array)))
    assert both.source == f.source >> g.source and both.diagram == f.diagram >> g.diagram
    left, right = (f @ f)(array, 2 * array)
    np.testing.assert_allclose(left, f(array))
    np.testing.assert_allclose(right, f(2 * array))


@settings(max_examples=6)
@given(first, second)
def test_the_theorem_of_a_composition_is_the_kernels_and_about_the_whole(f: cd.Program, g: cd.Program) -> None:
    both = f >> g
    again = both.check()
    assert again.statement == both.theorem.statement and not again.conditional
    assert checked_again(both.theorem.certificate).statement == again.statement
    whole = f.source >> g.source
    assert both.theorem.certificate["statement"]["left"] == whole.theorem.certificate["statement"]["left"]
    parts = {step.part for step in both.steps}
    assert parts <= {f.source.diagram, g.source.diagram, None}
    assert (len(both.steps) > 0) == (len(f.steps) + len(g.steps) > 0)


def test_a_large_composition_is_cut_between_its_parts() -> None:
    def chain(a: object) -> object:
        for _ in range(1000):
            a = cd.tanh(a)
        return a

    deep = cd.algorithm("q -> q", name="deep")(chain)
    both = ROWS["total"].stream("x") >> deep
    assert both.theorem.checked.cited == 2 and not both.theorem.taken and not both.theorem.conditional
    assert both.check().statement == both.theorem.statement


def test_steps_are_those_of_the_parts_and_groups_stay_kernels() -> None:
    rows = ROWS["total"].stream("x").group("q")
    both = rows >> AFTER["half"].group("q")
    said = ["total: stream x", "total: group q", "half: group q", "compose"]
    assert [step.name for step in both.steps] == said
    assert [type(step.action) for step in both.steps] == [Stream, Group, Group, Compose]
    assert [box.name for box in both.diagram.boxes] == ["group[q]", "group[q]"]
    nested = both >> AFTER["mean"]
    assert [step.name for step in nested.steps][:3] == said[:3] and nested.steps[-1].part is None
    with pytest.raises(CatdiagError):
        _ = ROWS["total"] >> ROWS["total"]


@settings(max_examples=20)
@given(diagrams())
def test_no_steps_mean_a_theorem_by_reflexivity(diagram: cd.category.Diagram) -> None:
    program = cd.Program(diagram)
    assert program.steps == () and program.source is program and program.diagram is diagram
    assert program.theorem.trivial and not program.theorem.conditional


@settings(max_examples=20)
@given(diagrams(), diagrams())
def test_equality_reads_the_diagrams(f: cd.category.Diagram, g: cd.category.Diagram) -> None:
    assert (cd.Program(f) == cd.Program(g)) == (f == g) == (cd.Program(f) == g) == (f == cd.Program(g))
    assert cd.Program(f) == cd.Program(f) and hash(cd.Program(f)) == hash(f)
    assert cd.Program(f).__eq__(3) is NotImplemented


def test_a_derived_program_is_its_diagram_now() -> None:
    total = ROWS["total"]
    fast = total.stream("x")
    assert fast != total and fast == fast.diagram and hash(fast) == hash(fast.diagram)
    assert fast.source == total.diagram == total and fast.names == total.names == ("a",)


def test_bare_diagrams_compose_with_programs() -> None:
    total, half = ROWS["total"], AFTER["half"]
    for both in (total >> half.diagram, total.diagram >> half):
        assert isinstance(both, cd.Program) and both == total >> half
    for both in (total @ half.diagram, total.diagram @ half):
        assert isinstance(both, cd.Program) and both == total @ half


def test_weaving_a_derived_program_is_proved() -> None:
    woven = ROWS["total"].stream("x").weave("b")
    assert [step.name for step in woven.steps] == ["total: stream x", "weave b"]
    assert woven.source == ROWS["total"].weave("b") and not woven.theorem.conditional
    array = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_allclose(woven.run(array, tiles={"s_x": 3}), array.sum(2))


def test_a_program_travels_with_its_theorem() -> None:
    fast = ROWS["total"].stream("x")
    again = pickle.loads(pickle.dumps(fast))
    assert again == fast and [step.name for step in again.steps] == ["stream x"]
    assert again.theorem.statement == fast.theorem.statement
    assert pickle.loads(pickle.dumps(ROWS["total"])) == ROWS["total"]


def test_outputs_are_named() -> None:
    total = ROWS["total"]
    with pytest.raises(TypeMismatch, match="expected 'algorithm', 'numpy', 'pseudocode', 'formulas' or 'triton'"):
        total.code("fortran")  # type: ignore[arg-type]
    with pytest.raises(TypeMismatch, match="expected 'svg', 'tikz' or 'html'"):
        total.draw("gif")  # type: ignore[arg-type]
    with pytest.raises(TypeMismatch, match="a program is made of"):
        cd.Program(3)  # type: ignore[arg-type]


def test_no_operator_is_hidden_by_a_file_of_the_library() -> None:
    folder = Path(cd.library.__file__).parent
    assert not {path.stem for path in folder.iterdir()} & {*cd.library.names()}
    assert {*cd.library.names(), "get", "names", "describe"} == {*dir(cd.library)}


def test_the_library_is_programs_and_its_definitions_are_diagrams() -> None:
    import catdiag.library as library
    from catdiag.library.definitions.attention import attention

    assert library is cd.library and library.attention == cd.library.attention
    assert isinstance(cd.library.attention, cd.Program) and isinstance(attention, cd.category.Diagram)
    assert cd.library.attention == cd.library.get("attention") == attention
    assert "attention" in cd.library.names() and "softmax" in cd.library.describe("attention")
    with pytest.raises(AttributeError, match="no diagram 'attentoin': did you mean 'attention'"):
        _ = cd.library.attentoin


def test_a_program_that_is_called_without_arrays_says_where_its_text_is() -> None:
    """As one who looks for the source that was imported would call it."""
    total = cd.algorithm("q x -> q", name="total")(lambda a: cd.sum(a, "x"))
    with pytest.raises(
        cd.errors.TypeMismatch, match=r"expected 1 \(a\)\. The text of the program is code\('algorithm'\)"
    ):
        total.source()
    assert "def total(a):" in total.source.code("algorithm")
    assert cd.algorithm("-> x=3", name="none")(lambda: cd.index("x=3") * 1.0)().tolist() == [0, 1, 2]
