"""No schedule moves less than a lower bound: programs whose results, inputs and values in between coincide, derived at
random, and every operator of the library. Formulas, and the machine that counts, against bounds of source and form."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import Diagram, Graph, Node, diagram_of, of_graph
from catdiag.category.ops import Box, GroupOp, Rename, map_box
from catdiag.category.scalars import Cast
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType, Ty
from catdiag.cost.traffic import io
from catdiag.rewrite import group
from catdiag.rewrite.split import in_parts
from catdiag.rewrite.stream import fold_search
from catdiag.simulate.machine import count
from catdiag.testing.assert_counts import drawn_tiles, evaluator

WINDOWED = {"conv1d": "x", "im2col": "x", "conv2d": "hw", "max_pool": "hw", "average_pool": "hw"}
DTYPES = (None, "bf16", "fp8")


@st.composite
def coinciding(draw: Any, programs: Any) -> Diagram:
    """A program with inputs that are one array, boxes that stand there twice, and results that are returned again,
    transposed, cast or in between, or that are inputs; all at random."""
    diagram = draw(programs)
    graph = inline(diagram).graph
    types, nodes, outputs = list(graph.wire_types()), list(graph.nodes), list(graph.outputs)

    def add(box: Box, *inputs: int) -> int:
        nodes.append(Node(box, inputs))
        types.extend(box.cod)
        return len(types) - 1

    if draw(st.booleans()):  # one input for all of a type
        first: dict[ArrayType, int] = {}
        same = {k: first.setdefault(ty, k) for k, ty in enumerate(graph.dom)}
        nodes[:] = [Node(n.box, tuple(same.get(w, w) for w in n.inputs)) for n in nodes]
        outputs = [same.get(w, w) for w in outputs]
    if draw(st.booleans()):  # boxes once more
        again: dict[int, int] = {}
        wire = len(graph.dom)
        for node in tuple(nodes):
            made = range(wire, wire + len(node.box.cod))
            wire += len(node.box.cod)
            if draw(st.integers(0, 3)):
                last = add(node.box, *(again.get(w, w) for w in node.inputs))
                again.update({w: last + 1 - len(made) + k for k, w in enumerate(made)})
        outputs += [again.get(w, w) for w in outputs]
    for w in tuple(outputs):
        ty, kind = types[w], draw(st.sampled_from(("no", "again", "turned", "cast", "input", "between")))
        if kind == "again":
            outputs.append(w)
        elif kind == "turned":
            outputs.append(add(Box(Rename(), Ty(ty), Ty(ArrayType(tuple(reversed(ty.axes)), ty.element))), w))
        elif kind == "cast" and ty.element == "real":
            outputs.append(add(map_box(Cast("bf16"), [ty]), w))
        elif kind == "input":
            outputs.append(draw(st.integers(0, len(graph.dom) - 1)))
        elif kind == "between":
            outputs.append(draw(st.integers(0, len(types) - 1)))
    chosen = tuple(draw(st.permutations(outputs)))
    return of_graph(Graph(graph.dom, tuple(nodes), chosen), None, diagram.input_names)


def read(diagram: Diagram) -> set[int]:
    """The inputs that a diagram reads: a group may take arrays that its body does not."""
    graph = inline(diagram_of(diagram), kernels=True).graph
    used = set(graph.outputs)
    for node in graph.nodes:
        inner = read(node.box.op.body) if isinstance(node.box.op, GroupOp) else range(len(node.inputs))
        used |= {node.inputs[k] for k in inner}
    return {w for w in used if w < len(graph.dom)}


def above(source: Diagram, form: Diagram, trials: int, number: int, dtypes: Any = DTYPES, counted: bool = True,
          windowed: Sequence[str] = ()) -> None:  # fmt: skip
    """A form moves no less, at integer sizes and tiles, than the bounds of itself and of its source at the memory that
    it takes; and the machine counts what the formulas say. Windows read within axes that are `windowed`."""
    random = Random(number)
    for dtype in dtypes:
        try:
            formula = io(form, dtype=dtype)
        except cd.errors.CatdiagError:  # parts that cannot be counted
            return
        if "rho_" in str(formula.transfers):  # blocks that data leave out
            return
        bounds = [cd.Program(form).lower_bound(dtype=dtype)]
        if read(form) == read(source):  # else operations were left out, as in max(a − max a) = 0: another diagram's
            bounds.append(cd.Program(source).lower_bound(dtype=dtype))
        for trial in range(trials):
            longest = 5 if not trial else random.choice((4, 40, 2000))
            names = sorted({*formula.account.sizes, *(n for bound in bounds for n in bound.axes)})
            sizes = {n: max(1, round(longest ** random.random())) for n in names}
            sizes |= dict.fromkeys(windowed, 2 * sum(sizes.values()))
            tiles = drawn_tiles(diagram_of(form), sizes, random)
            at = evaluator({**sizes, **tiles})
            moved, peak = at(formula.transfers), at(formula.memory)
            if counted and not trial:
                known = {n: sizes[n] for n in formula.account.sizes}
                counts = count(form, known, tiles, dtype=dtype)
                assert (counts.load + counts.save, counts.peak) == (moved, peak)
            for bound in bounds:
                assert bound.at({n: sizes[n] for n in bound.axes}, peak) <= moved


# -- equal results -------------------------------------------------------------------------------------------------


@cd.algorithm("a b, b c -> a c, a c")
def computed_twice(A: Any, B: Any) -> Any:
    return cd.einsum("a b, b c -> a c", A, B), cd.einsum("a b, b c -> a c", A, B)


@cd.algorithm("a b, b c -> a c, a c")
def returned_twice(A: Any, B: Any) -> Any:
    found = cd.einsum("a b, b c -> a c", A, B)
    return found, found


@cd.algorithm("a b, b c -> a c, c a")
def turned(A: Any, B: Any) -> Any:
    found = cd.einsum("a b, b c -> a c", A, B)
    return found, cd.rearrange(found, "a c -> c a")


@pytest.mark.parametrize("program", [computed_twice, returned_twice, turned], ids=str)
def test_equal_results_are_saved_each_in_every_form(program: Diagram) -> None:
    sizes = {"a": 12, "b": 12, "c": 12}
    streamed = fold_search.find(diagram_of(program), "b").diagram
    for form in (program, streamed, group.find(streamed, ["a", "c"]), group.find(diagram_of(program), ["a"])):
        counts = count(form, sizes)
        assert counts.saves == {"out0": 144, "out1": 144}
        assert evaluator(sizes | drawn_tiles(diagram_of(form), sizes, Random(0)))(io(form).save) == counts.save
        assert cd.Program(form).lower_bound().at(sizes, 10**6) == counts.load + counts.save == 576
        above(program, form, 2, 0, ("bf16",), counted=False)


def test_each_result_is_as_wide_as_it_is_said_to_be() -> None:
    streamed = fold_search.find(returned_twice.diagram, "b").diagram
    for form in (returned_twice, streamed, group.find(streamed, ["a"])):
        counts = count(form, {"a": 2, "b": 3, "c": 5}, dtype={"out0": "bf16", "out1": "fp64"})
        assert counts.saves == {"out0": 20, "out1": 80}
        cd.testing.assert_counts_match(form, 2, dtype={"out0": "bf16", "out1": "fp64"})
        cd.testing.assert_counts_match(form, 2, levels=("HBM", "SMEM", "registers"))


def test_what_is_computed_where_it_is_read_is_saved_for_each_result() -> None:
    positions = cd.algorithm("x -> x, x", name="positions")(lambda a: (cd.index("x"), cd.index("x")))
    cd.testing.assert_counts_match(positions, 2, dtype="bf16")
    assert str(io(positions).save) == "2*x"


def test_an_operand_may_be_summed_before_over_what_it_alone_has() -> None:
    """Σ_ab A[a,b]·A[q,d] = (Σ A)·A: the streamed form adds up first, and moves less than all products at once take."""
    program = cd.algorithm("a b, q d -> q d")(lambda A, B: cd.einsum("a b, q d -> q d", A, B))
    bound = program.lower_bound()
    assert (bound.kind, str(bound.bound)) == ("compulsory", "a*b + 2*d*q")
    above(program, group.find(fold_search.find(program.diagram, "a").diagram, ["q"]), 4, 1)
    # A sum that is left for last is still a row of the chain: P is made, and summed, before it meets B.
    chain = cd.algorithm("q d, x d -> q")(lambda Q, K: cd.einsum("q x -> q", cd.einsum("q d, x d -> q x", Q, K)))
    assert chain.lower_bound().kind == "chain"


# -- programs ------------------------------------------------------------------------------------------------------


@settings(max_examples=6, deadline=None)
@given(st.data())
def test_random_programs(data: st.DataObject) -> None:
    kinds = (cd.testing.einsums(), cd.testing.cascades(), cd.testing.diagrams())
    source = data.draw(coinciding(st.one_of(*kinds)))
    above(source, data.draw(cd.testing.blocked(source)), 2, 0, (None, "bf16"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["einsums", "cascades", "diagrams"])
@pytest.mark.parametrize("number", range(3))
def test_many(kind: str, number: int) -> None:
    @seed(number)
    @settings(max_examples=400, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def law(data: st.DataObject) -> None:
        source = data.draw(coinciding(getattr(cd.testing, kind)()))
        above(source, source, 3, number)
        above(source, data.draw(cd.testing.blocked(source)), 4, number)

    law()


@pytest.mark.slow
@pytest.mark.parametrize("name", cd.library.names())
def test_every_operator_in_all_ways(name: str) -> None:
    """Each axis streamed, in parts too, and all axes grouped that can be."""
    source, random = cd.library.get(name), Random(name)
    source.lower_bound().check()
    axes = sorted({a.name for ty in diagram_of(source).graph.wire_types() for a in ty.axes})
    forms = [source]
    for axis in axes:
        with suppress(cd.errors.CatdiagError):
            forms.append(fold_search.find(diagram_of(source), axis).diagram)
            forms.append(in_parts(forms[-1], axis))
    for form in tuple(forms):
        tiled = form
        for axis in random.sample(axes, len(axes)):
            with suppress(cd.errors.CatdiagError):
                tiled = group.find(tiled, [axis])
        forms.append(tiled)
    for form in forms:
        above(source, form, 3, 0, (None, "bf16"), False, WINDOWED.get(name, ()))
