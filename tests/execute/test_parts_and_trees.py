"""Loops in parts and states merged in trees give what the diagram as it is written gives."""

from __future__ import annotations

import functools
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.execute.merge_trees import Tree, dealt

LOW = -float("inf")
EPS = float(np.finfo(float).eps)


def lookup(Q: Any, K: Any, V: Any) -> Any:
    return cd.einsum("q x, x v -> q v", cd.softmax(cd.einsum("q d, x d -> q x", Q, K), "x"), V)


def masked(S: Any, V: Any, M: Any) -> Any:
    return cd.einsum("q x, x v -> q v", cd.softmax(cd.where(M, S, LOW), "x"), V)


@functools.cache
def derived(name: str) -> Any:
    if name == "lookup":
        return cd.algorithm("q d, x d, x v -> q v", name=name)(lookup).stream("x").group("q").split("x")
    if name == "variance":
        return cd.algorithm("q x -> q", name=name)(lambda X: cd.mean((X - cd.mean(X, "x")) ** 2, "x")).split("x", "k")
    return cd.algorithm("q x -> q, q", name=name)(lambda X: (cd.max(X, "x"), cd.sum(X, "x"))).split("x")


TREES = st.one_of(st.none(), st.just("balanced"), st.integers(0, 99), st.integers(0, 99).map(random.Random))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["lookup", "variance", "ends"]),
    st.integers(1, 13),
    st.integers(1, 15),
    st.integers(1, 15),
    TREES,
    st.integers(0, 999),
)
def test_every_split_and_tree_is_the_textbook_form(
    name: str, length: int, parts: int, block: int, tree: Any, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    found, symbol = derived(name), "k" if name == "variance" else "p_x"
    sizes = {"q": 3, "x": length, "d": 2, "v": 2}
    arrays = [
        rng.normal(scale=10.0 ** rng.integers(-2, 3), size=[sizes[a.name] for a in ty.axes]) for ty in found.source.dom
    ]
    wanted, got = found.source(*arrays), found.run(*arrays, tiles={symbol: parts, "s_x": block}, tree=tree)
    # Each of at most 2·length merges rounds a few times what is at most the square of the largest number.
    largest = max(float(np.max(np.abs(a))) for a in arrays)
    bound = 64 * length * EPS * (1 + largest) ** 2 * (1 + largest if name == "lookup" else 1)
    for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (wanted, got)), strict=True):
        assert np.max(np.abs(a - b)) <= bound


@pytest.mark.parametrize("tree", [None, "balanced", 7])
def test_parts_really_run_by_themselves(tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from catdiag.execute.interpreter import Runner

    fold = next(b.op for b in derived("ends").diagram.boxes if b.name == "fold[x]")
    counts = {"step": 0, "merge": 0}
    inner = Runner.diagram

    def counted(self: Any, diagram: Any, values: Any, sizes: Any) -> Any:
        for name in counts:
            counts[name] += diagram is getattr(fold, name)
        return inner(self, diagram, values, sizes)

    monkeypatch.setattr(Runner, "diagram", counted)
    X = np.arange(20.0).reshape(2, 10)
    highest, total = derived("ends").run(X, tiles={"p_x": 4, "s_x": 2}, tree=tree)
    assert highest.tolist() == [9.0, 19.0] and total.tolist() == [45.0, 145.0]
    # Five blocks in four parts; in a tree, each block by itself.
    assert counts == {"step": 5, "merge": 3 if tree is None else 4}


def test_more_parts_than_elements_and_parts_that_are_masked_as_a_whole() -> None:
    found = cd.algorithm("q x, x v, bool[q x] -> q v", name="masked")(masked).stream("x").split("x")
    S, V = np.array([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]]), np.eye(3)
    M = np.array([[False, False, True], [True, False, False]])
    for parts in (1, 2, 3, 8):
        got = found.run(S, V, M, tiles={"p_x": parts, "s_x": 1})
        np.testing.assert_allclose(got, found.source(S, V, M), rtol=1e-12)


def test_the_theorem_of_a_split_is_the_one_before() -> None:
    whole = cd.algorithm("x, x ->", name="dot")(lambda A, B: cd.sum(A * B, "x")).stream("x")
    split = whole.split("x")
    assert split.theorem is whole.theorem
    assert split.diagram != whole.diagram
    assert [step.name for step in split.steps] == ["stream x", "split x"]


@pytest.mark.parametrize(
    ("error", "words", "make"),
    [
        (cd.errors.SignatureError, "parts is 'a b'", lambda f: f.split("x", "a b")),
        (cd.errors.AxisError, "a size of the diagram already", lambda f: f.split("x", "q")),
        (cd.errors.NotStreamable, "has p_x parts already", lambda f: f.split("x").split("x")),
        (cd.errors.AxisError, "'z'", lambda f: f.split("z")),
        (
            cd.errors.SizeError,
            "no tile is called 'p_x'",
            lambda f: f.stream("x").run(np.ones((2, 3)), tiles={"p_x": 2}),
        ),
        (cd.errors.SizeError, "tile p_x is 0", lambda f: f.split("x").run(np.ones((2, 3)), tiles={"p_x": 0})),
        (cd.errors.CatdiagError, "tree is 'left'", lambda f: f.split("x").run(np.ones((2, 3)), tree="left")),
    ],
)
def test_what_cannot_be_split_is_an_error(error: Any, words: str, make: Any) -> None:
    sums = cd.algorithm("q x -> q", name="sums")(lambda X: cd.sum(X, "x"))
    with pytest.raises(error, match=words):
        make(sums)


def test_blocks_are_dealt_out_in_order() -> None:
    assert dealt(range(7), 3) == [range(2), range(2, 4), range(4, 7)]
    assert Tree(random.Random(1)).merged(list("abcd"), "({}{})".format).replace("(", "").replace(")", "") == "abcd"
