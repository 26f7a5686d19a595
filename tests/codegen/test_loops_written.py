"""Loops written from diagrams: as pseudocode, and as NumPy source that is run and compared with the program itself."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import cache
from types import FunctionType

import numpy as np
import pytest

import catdiag as cd
from catdiag import library
from catdiag.category.diagram import Graph, Node, diagram_of, of_box, of_graph
from catdiag.category.ops import Box, Call, Const, Einsum, FoldOp, GroupOp, map_box
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType, Axis, Ty, size_symbols, size_value
from catdiag.cli.option_values import sizes_of
from catdiag.codegen.numpy_source import source
from catdiag.codegen.pseudocode import pseudocode
from catdiag.execute.interpreter import run
from catdiag.execute.size_inference import solve, tile_bounds
from catdiag.rewrite.group import find as grouped
from catdiag.rewrite.group import groupable
from catdiag.rewrite.loop_state import formulas
from catdiag.rewrite.stream.fold_search import candidates

OPERATORS: dict[str, cd.category.Diagram] = {}


def operator(signature):
    def register(function):
        OPERATORS[function.__name__] = cd.algorithm(signature)(function)
        return function

    return register


@operator("q d, x d, x v -> q v")
def causal(Q, K, V):
    S = cd.einsum("q d, x d -> q x", Q, K) / cd.sqrt(cd.size("d"))
    S = cd.where(cd.index("x") <= cd.index("q"), S, float("-inf"))
    return cd.einsum("q x, x v -> q v", cd.softmax(S, "x"), V)


@operator("q x -> q, q")
def smallest_and_largest(S):
    return cd.min(S, "x"), cd.max(S, "x")


@operator("q x, int[q] -> q")
def cross_entropy(Z, y):
    m = cd.max(Z, "x")
    return m + cd.log(cd.sum(cd.exp(Z - m), "x")) - cd.sum(cd.where(cd.index("x") == y, Z, 0), "x")


@operator("q x, bool[x] -> q")
def any_and_all(A, keep):
    return cd.where(cd.any((A > 1) & keep, "x") | cd.all(A > 0, "x"), cd.prod(A, "x"), cd.size("x"))


@operator("q x, x o, x r, r o -> q o")
def low_rank(X, W, A, B):
    return cd.einsum("q x, x o -> q o", X, W) + cd.einsum("q r, r o -> q o", cd.einsum("q x, x r -> q r", X, A), B)


@operator("(b g) x -> b g")
def of_a_product(A):
    return cd.rearrange(cd.sum(cd.nn.sigmoid(A) * cd.apply("f", A), "x"), "(b g) -> b g")


@operator("x, y -> x+y")
def joined(A, B):
    return cd.concat([cd.maximum(A, 0.5), cd.reverse(B, "y")], "x+y")


@operator("x d, int[t] -> t d")
def shifted_and_gathered(A, places):
    return cd.gather(cd.shift(A, "x", 1, fill=0), "x", places)


PROGRAMS = {**{name: library.get(name) for name in library.names()}, **OPERATORS}


@cache
def forms(diagram):
    """The diagram as it is, and streamed over each axis, grouped over more and more axes."""
    found = [diagram]
    for axis in dict.fromkeys(a.name for ty in diagram.dom for a in ty.axes):
        try:
            found.append(next(candidates(diagram_of(diagram), axis)).diagram)
        except cd.errors.NotStreamable:
            continue
    for streamed in found[1:]:
        axes = groupable(streamed)
        found += [grouped(streamed, axes[: k + 1]) for k in range(len(axes))]
    return found


def folds(diagram):
    found, todo = [], [diagram]
    while todo:
        for box in inline(diagram_of(todo.pop())).boxes:
            if isinstance(box.op, FoldOp):
                found.append(box.op)
            if hasattr(box.op, "body"):
                todo.append(box.op.body)
    return found


def inputs_for(diagram, rng):
    """Arrays of small sizes, windows smaller than what they slide over."""
    small = {"k", "i", "j", "b"}
    symbols = {s for ty in diagram.dom for a in ty.axes for s in size_symbols(a.size)} | set(
        sizes_of(diagram_of(diagram))
    )
    sizes = {s: 2 if s in small else int(rng.integers(6, 8)) for s in sorted(symbols)}
    shapes = [[size_value(a.size, sizes) for a in ty.axes] for ty in diagram.dom]
    made = {"int": lambda s: rng.integers(0, 5, s), "bool": lambda s: rng.random(s) < 0.6}
    arrays = [made.get(t.element, lambda s: rng.uniform(0.2, 1.4, s))(s) for t, s in zip(diagram.dom, shapes)]
    hidden = {"b": 2} if "(b g)" in str(diagram) else {}
    return arrays, {**sizes, **solve(diagram_of(diagram), shapes, hidden)}


def function(text):
    namespace = {}
    exec(text, namespace)
    return next(v for v in namespace.values() if isinstance(v, FunctionType))


def call(text, arrays, given):
    made = function(text)
    named = [p.name for p in inspect.signature(made).parameters.values() if p.kind == p.KEYWORD_ONLY]
    return made(*arrays, **{name: given[name] for name in named if name in given})


def same(got, want):
    pairs = zip(got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,), strict=True)
    return all(np.shape(g) == np.shape(w) and np.allclose(g, w) for g, w in pairs)


@pytest.mark.parametrize("name", PROGRAMS)
def test_numpy_gives_what_the_program_gives(name):
    program, rng = PROGRAMS[name], np.random.default_rng(1)
    arrays, sizes = inputs_for(program, rng)
    want = run(program, arrays, functions={"f": np.sin}, sizes={k: v for k, v in sizes.items() if k.isidentifier()})
    for form in forms(program):
        text = source(form)
        for length in (1, 2, 3, 100):
            given = {**sizes, **dict.fromkeys(tile_bounds(diagram_of(form)), length), "f": np.sin}
            assert same(call(text, arrays, given), want), text
        assert "catdiag" not in text


@pytest.mark.parametrize("name", PROGRAMS)
def test_pseudocode_names_all_there_is(name):
    for form in forms(PROGRAMS[name]):
        text = pseudocode(form)
        for word in (
            *diagram_of(form).input_names,
            *tile_bounds(diagram_of(form)),
            *(c for fold in folds(form) for c in fold.components),
        ):
            assert word in text, text
        assert text.count("save out") == len(set(diagram_of(form).graph.outputs))
        assert text == pseudocode(form)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_loaded_is_what_is_counted(name):
    for form in forms(PROGRAMS[name]):
        loads = " ".join(line.split("load ")[1] for line in pseudocode(form).splitlines() if "load " in line)
        said = Counter(re.findall(r"(\w+)(?:\[[^\]]*\])?(?:, |$| )", loads))
        counted = Counter(t.array for t in cd.Program(form).io().traffic if t.direction == "load")
        for array in diagram_of(form).input_names:
            assert said[array] == counted[array], (array, pseudocode(form), counted)


def test_attention_reads_as_people_write_it():
    flash = grouped(next(candidates(library.get("attention").diagram, "x")).diagram, ["q"])
    assert pseudocode(flash).splitlines() == [
        "attention: Q[q d], K[x d], V[x d] → out[q d]",
        "for each tile of q (g_q at a time), in parallel:",
        "    load Q[q d]",
        "    start: max1[q] = -∞, sum2[q] = 0, sum3[q d] = 0",
        "    for each block of x (s_x at a time):",
        "        load K[x d], V[x d]",
        "        t1[q x] = (Σ_d Q·K)/√d",
        "        max1′[q] = max(max1, max_x t1)",
        "        t2[q] = exp(max1 - max1′)",
        "        t3[q x] = exp(t1 - max1′)",
        "        sum2[q] = sum2·t2 + Σ_x t3",
        "        sum3[q d] = sum3·t2 + Σ_x t3·V",
        "        max1 = max1′",
        "    save out[q d] = sum3/sum2",
    ]


def test_a_plain_program_has_no_loop():
    assert library.get("softmax").code("pseudocode").splitlines() == [
        "softmax: a[q x] → out[q x]",
        "load a[q x]",
        "t1[q x] = exp(a - max_x a)",
        "save out[q x] = t1/(Σ_x t1)",
    ]


def test_two_results_and_a_mask():
    assert pseudocode(next(candidates(PROGRAMS["cross_entropy"].diagram, "x")).diagram).splitlines() == [
        "cross_entropy: Z[q x], y[q] → out[q]",
        "load y[q]",
        "start: max1[q] = -∞, sum2[q] = 0, sum3[q] = 0",
        "for each block of x (s_x at a time):",
        "    load Z[q x]",
        "    max1′[q] = max(max1, max_x Z)",
        "    sum2[q] = sum2·exp(max1 - max1′) + Σ_x exp(Z - max1′)",
        "    sum3[q] = sum3 + Σ_x where(index(x) = y, Z, 0)",
        "    max1 = max1′",
        "save out[q] = max1 + log(sum2) - sum3",
    ]
    both = pseudocode(next(candidates(PROGRAMS["smallest_and_largest"].diagram, "x")).diagram)
    assert "save out0[q] = " in both and "save out1[q] = " in both


def with_fold(diagram, **changes):
    """The diagram with its loop run otherwise."""
    nodes = [
        Node(Box(replace(n.box.op, **changes), n.box.dom, n.box.cod), n.inputs) if isinstance(n.box.op, FoldOp) else n
        for n in diagram.graph.nodes
    ]
    graph = Graph(diagram.graph.dom, tuple(nodes), diagram.graph.outputs)
    return of_graph(graph, diagram.cod, diagram.names, diagram.title)


@pytest.mark.parametrize("name", ["causal", "cross_entropy", "any_and_all"])
@pytest.mark.parametrize("parts", [1, 2, 3, 50])
def test_parts_are_merged_in_order(name, parts):
    program = PROGRAMS[name]
    arrays, sizes = inputs_for(program, np.random.default_rng(2))
    # The second way of `causal` is the one that is defined where a part has no entry.
    split = with_fold([*candidates(program.diagram, "x")][name == "causal"].diagram, parts="p_x")
    text = pseudocode(split)
    assert "for each of p_x parts of x, in parallel:" in text and "for each part of x in order" in text
    got = call(source(split), arrays, {**sizes, "p_x": parts, "s_x": 2})
    assert same(got, run(program, arrays))


def test_a_kernel_of_one_number_has_no_tiles():
    total = cd.algorithm("x ->", name="total")(lambda a: cd.sum(a, "x"))
    streamed = total.stream("x").diagram
    kernel = of_box(Box(GroupOp((), streamed), streamed.dom, streamed.cod))
    assert "in one kernel:" in pseudocode(kernel)
    assert call(source(kernel), [np.arange(7.0)], {"s_x": 3}) == 21


def test_a_loop_inside_a_loop():
    program = library.get("attention")
    streamed = next(candidates(program.diagram, "x")).diagram
    (fold,) = folds(streamed)
    inner = []
    for node in fold.step.graph.nodes:
        box = node.box
        if isinstance(box.op, Einsum) and "d" not in box.cod[0].names:
            body = next(candidates(of_graph(Graph(box.dom, (Node(box, (0, 1)),), (2,))), "d")).diagram
            box = Box(Call("inner", body), box.dom, box.cod)
        inner.append(Node(box, node.inputs))
    graph = Graph(fold.step.dom, tuple(inner), fold.step.graph.outputs)
    nested = with_fold(streamed, step=of_graph(graph, fold.step.cod, fold.step.names))
    arrays, sizes = inputs_for(program, np.random.default_rng(3))
    want = program(*arrays)
    for form in (nested, grouped(nested, ["q"])):
        lines = pseudocode(form).splitlines()
        outer = next(k for k, line in enumerate(lines) if "for each block of x" in line)
        within = next(k for k, line in enumerate(lines) if "for each block of d" in line)
        assert within > outer and lines[within].index("for") == lines[outer].index("for") + 4
        assert [line.strip() for line in lines if "load" in line] == ["load V[x d]", "load Q[q d], K[x d]"]
        assert "sum2[q] = sum2·t2 + Σ_x t3" in pseudocode(form)
        loops = formulas(form).loops
        assert [(loop.axis, loop.inside) for loop in loops] == [("x", ""), ("d", "x")]
        assert str(loops[1].components[0].element) == "Σ_d Q·K"
        for length in (1, 2, 5):
            given = {**sizes, **dict.fromkeys(("s_x", "s_d", "g_q"), length)}
            assert same(call(source(form), arrays, given), want), source(form)


def test_blocks_left_out_are_said_and_not_run():
    x = Axis("x", "s_x")
    first = cd.algorithm("x", name="first")(lambda A: cd.sum(cd.where(cd.index("x") < 3, A, 0), "x"))
    streamed = next(candidates(first.diagram, "x")).diagram
    (fold,) = folds(streamed)
    dom = fold.state.dom
    place = next(k for k, ty in enumerate(dom) if ty.element == "int")
    ints = [Box(Const(Fraction(n)), Ty(), Ty(ArrayType((), "int"))) for n in (0, 3)]
    count = len(dom)
    extent = of_graph(Graph(dom, tuple(Node(b, ()) for b in ints), (count, count + 1)))
    below = map_box("lt", [ArrayType((x,), "int"), ArrayType((), "int")])
    live = of_graph(Graph(dom, (Node(ints[1], ()), Node(below, (place, count))), (count + 1,)))
    A = np.arange(7.0)
    for changes, said in (
        ({"bounds": extent}, "for each block of x (s_x at a time) that meets the range from 0 to 3:"),
        ({"is_live": live}, "    next block, unless somewhere index(x) < 3"),
    ):
        form = with_fold(streamed, **changes)
        assert said in pseudocode(form).splitlines()
        A[4:] = np.nan if "bounds" in changes else A[4:]
        for block in (1, 2, 3):
            clean = np.where(np.arange(7) < 3 + block, np.nan_to_num(A), A)
            assert call(source(form), [clean], {"s_x": block}) == 3.0


@pytest.mark.parametrize("lengths", [{"s_x": -2}, {"p_x": -1}, {"p_x": 0}])
def test_lengths_below_one_are_refused(lengths):
    split = cd.algorithm("x ->", name="total")(lambda A: cd.sum(A, "x")).stream("x").split("x")
    with pytest.raises(ValueError, match=r"expected at least 1: (s_x, p_x|p_x, s_x)"):
        call(source(split), [np.ones(5)], lengths)


def test_a_box_without_results_is_left_out():
    x = ArrayType((Axis("x"),))
    taken = cd.category.box("taken", x, Ty())
    assert "taken" not in pseudocode(taken)
    assert "kept" in pseudocode(taken @ cd.category.box("kept", x, x))
