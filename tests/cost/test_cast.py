"""Casts: the identity in meaning, fewer bytes in cost."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import catdiag as cd
from catdiag.category.ops import FoldOp, bodies
from catdiag.category.substitution import inline
from catdiag.cost.traffic import io
from catdiag.rewrite.casts import dropped
from catdiag.simulate.machine import count
from catdiag.simulate.multi_level_machine import count_levels
from examples.napkin.warpgroup_configuration import configure


def scores(a, b):
    s = cd.einsum("q d, x d -> q x", a, b)
    return cd.exp(s - cd.max(s, "x"))


def test_a_cast_streams_as_the_identity_does():
    f = cd.algorithm("q d, x d")(lambda a, b: cd.sum(cd.cast(scores(a, b), "bf16"), "x"))
    plain = cd.algorithm("q d, x d")(lambda a, b: cd.sum(scores(a, b), "x"))
    arrays = np.ones((2, 3)), np.arange(12.0).reshape(4, 3)
    stream = f.stream("x")
    np.testing.assert_allclose(stream.run(*arrays, tiles={"s_x": 3}), plain(*arrays))
    assert cd.equivalent(f, plain)


def test_a_cast_takes_the_bytes_of_its_type():
    plain = cd.algorithm("q d, x d, x e")(lambda a, b, v: cd.einsum("q x, x e -> q e", scores(a, b), v))
    kept = cd.algorithm("q d, x d, x e")(lambda a, b, v: cd.einsum("q x, x e -> q e", cd.cast(scores(a, b), "bf16"), v))
    large = {"q": 64, "x": 64, "d": 1, "e": 512}

    def memory(f, **given):
        formula = f.io(**given).memory
        return formula.subs({s: large[str(s)] for s in formula.free_symbols})

    assert memory(plain, dtype="bf16") - memory(kept, dtype="bf16") == 2 * 64 * 64
    assert memory(plain) == memory(kept)


def test_unknown_types_are_refused():
    with pytest.raises(cd.errors.TypeMismatch, match="expected one of fp64, fp32"):
        cd.algorithm("x")(lambda a: cd.cast(a, "int3"))


SIZES = {"q": 5, "x": 6, "d": 2, "v": 3}
TYPES = {"Q": "fp8", "K": "fp8", "V": "fp16", "out": "fp16"}


def attention(where="", dtype="fp8"):
    """Attention that casts at the places named."""

    def at(place, array):
        return cd.cast(array, dtype) if place in where.split() else array

    @cd.algorithm("q d, x d, x v -> q v")
    def f(Q, K, V):
        Q, K, V = (at("inputs", array) for array in (Q, K, V))
        S = at("scores", cd.einsum("q d, x d -> q x", Q, K))
        P = cd.exp(at("exponents", S - at("maxima", cd.max(S, "x"))))
        weights = at("weights", P)
        if where == "normalised":
            return cd.einsum("q x, x v -> q v", cd.cast(P / cd.sum(P, "x"), dtype), V)
        return at("accumulators", cd.einsum("q x, x v -> q v", weights, V)) / at("accumulators", cd.sum(weights, "x"))

    return f


@cache
def streamed(place):
    return attention(place).stream("x")


def cast_in(diagram):
    """The arrays that are cast in the loops of a diagram, and elsewhere."""
    loops, elsewhere = [], []
    todo = [(getattr(diagram, "diagram", diagram), elsewhere)]
    while todo:
        part, found = todo.pop()
        for box in inline(part).boxes:
            if box.name.startswith("cast:"):
                found.append(f"{box.name} {' '.join(box.cod[0].names)}")
            if isinstance(box.op, FoldOp):
                todo.append((box.op.step, loops))
            else:
                todo.extend((inner, found) for inner in bodies(box.op))
    return loops, elsewhere


PLACES = {
    "inputs scores": (["cast:fp8 x d", "cast:fp8 x v", "cast:fp8 q x"], ["cast:fp8 q d"]),
    "maxima exponents accumulators": (["cast:fp8 q", "cast:fp8 q", "cast:fp8 q x"], ["cast:fp8 q v", "cast:fp8 q"]),
    "weights": (["cast:fp8 q x"], []),
    "normalised": (["cast:fp8 q x"], []),
}


@pytest.mark.parametrize("place", PLACES)
def test_casts_are_where_the_program_has_them(place):
    stream = streamed(place)
    made = cast_in(stream)
    assert (sorted(made[0]), sorted(made[1])) == tuple(map(sorted, PLACES[place]))
    assert not dropped(stream.source.diagram, stream.diagram) and not stream.theorem.conditional
    arrays = [np.random.default_rng(k).normal(size=s) for k, s in enumerate([(5, 2), (7, 2), (7, 3)])]
    np.testing.assert_allclose(stream.run(*arrays, tiles={"s_x": 3}), attention()(*arrays))


@pytest.mark.parametrize(("place", "form"), [("weights", "group"), ("normalised", "split")])
def test_bytes_of_a_streamed_cast_are_counted(place, form):
    stream = streamed(place)
    derived = (stream.group("q") if form == "group" else stream.split("x")).diagram
    tiles = {"s_x": 2} | ({"g_q": 2} if form == "group" else {"p_x": 2})
    formula, counts = io(derived, dtype=TYPES), count(derived, SIZES, tiles, dtype=TYPES)
    given = SIZES | tiles

    def value(expression):
        return expression.subs({s: given[str(s)] for s in expression.free_symbols})

    assert value(formula.transfers) == counts.load + counts.save
    assert value(formula.memory) == counts.peak
    assert "cast:fp8 q x" in cast_in(derived)[0]


def test_levels_and_fit_count_a_streamed_cast():
    chain, sizes = ("HBM", "SMEM", "registers"), {"q": 6, "x": 8, "d": 2, "v": 8}
    tiles = {"SMEM": {"g_q": 4, "s_x": 4}, "registers": {"g_q": 2, "s_x": 4}}
    given = {**sizes, "g_q": 4, "s_x": 4, "g2_q": 2, "s2_x": 4}
    peaks = []
    for place in ("", "weights"):
        flash = streamed(place).group("q")
        levels = flash.io(levels=chain, dtype=TYPES)
        counts = count_levels(flash.diagram, sizes, chain, tiles, dtype=TYPES)
        for name in chain[1:]:
            memory = levels.memory[name]
            assert memory.subs({s: given[str(s)] for s in memory.free_symbols}) == counts.peak[name]
        plan = flash.plan("H100", {"q": 512, "x": 512, "d": 64, "v": 256}, dtype=TYPES, tiles={"g_q": 64, "s_x": 64})
        peaks.append((counts.peak["registers"], plan.shared_memory_bytes + plan.register_bytes))
    # The weights and what they are cast to are there at once: a byte for each of 2 times 4, and of 64 times 64.
    assert [cast - plain for cast, plain in zip(peaks[1], peaks[0], strict=True)] == [2 * 4, 64 * 64]


def test_a_matrix_multiplication_of_cast_weights_has_their_type():
    flash = streamed("weights").group("q")
    columns = configure(flash, "H100", {"w_q": 64, "s_x": 64, "d": 64, "v": 64}, TYPES).columns
    assert "cast:fp8 [q x]" in str(columns) and "fp8" in str(columns)


CASCADES = {
    "selected": ("x, x ->", lambda S, V: cd.sum(cd.cast(cd.where(cd.max(S, "x") == S, V, 0), "fp16"), "x")),
    "divided": ("x, x ->", lambda A, B: cd.sum(cd.cast(A / cd.sqrt(cd.sum(A * A, "x")), "fp16") * B, "x")),
    "multiplied": ("x, x ->", lambda A, B: cd.sum(cd.cast(A * cd.mean(A, "x"), "fp16") * B, "x")),
    "twice": ("x, x ->", lambda A, B: cd.sum(cd.cast(cd.cast(cd.softmax(A, "x"), "fp32"), "fp16") * B, "x")),
}


@pytest.mark.parametrize("name", CASCADES)
def test_every_product_with_statistics_keeps_its_cast(name):
    signature, f = CASCADES[name]
    program = cd.algorithm(signature)(f)
    stream = program.stream("x")
    assert "cast:fp16 x" in cast_in(stream)[0] and not dropped(program.diagram, stream.diagram)
    arrays = np.arange(1.0, 6.0), np.arange(5.0)
    np.testing.assert_allclose(stream.run(*arrays, tiles={"s_x": 2}), program(*arrays))


def test_a_cast_hides_nothing_from_streaming():
    least = cd.algorithm("x ->")(lambda a: cd.max(cd.cast(cd.minimum(a, cd.sum(a, "x")), "fp16"), "x"))
    assert least.stream("x").run(np.arange(5.0), tiles={"s_x": 2}) == 4

    @cd.algorithm("x, x ->")
    def again(a, b):
        weights = cd.cast(cd.exp(a - cd.max(a, "x")), "fp16")
        return cd.sum(cd.exp(cd.log(weights) - cd.max(weights, "x")) * b, "x")

    arrays = np.arange(5.0), np.arange(5.0)
    np.testing.assert_allclose(again.stream("x").run(*arrays, tiles={"s_x": 2}), again(*arrays))


def test_a_cast_of_what_no_loop_makes_is_named():
    spread = cd.algorithm("x ->")(lambda a: cd.sum(cd.cast((a - cd.mean(a, "x")) ** 2, "fp16"), "x"))
    (text,) = spread.stream("x").advice()
    assert text.startswith("cast:fp16 of [x] is not in the derived diagram: costs count")
    assert "cd.cast((a - cd.mean" in text
    assert cast_in(spread.stream("x")) == ([], [])
