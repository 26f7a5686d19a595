"""Reads at index arithmetic mean the same in NumPy, in exact numbers and in the kernel, out of range included."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_oracle import World, value

import catdiag as cd
from catdiag.category.diagram import of_box
from catdiag.category.ops import Read, View, reindex_box
from catdiag.category.types import ArrayType, Axis
from catdiag.kernel.semantics import evaluate, inputs_of
from catdiag.kernel.terms import num
from catdiag.kernel.witness import told
from catdiag.prover.export import program
from catdiag.prover.refute import exact_execution
from catdiag.prover.refute.validate import _read

Q, X, Y, K, T = Axis("q"), Axis("x"), Axis("y"), Axis("k", 2), Axis("t")
SIZES = {"q": 2, "x": 3, "y": 2, "t": 2}


def expressions(indices: list[str], arrays: list[int]) -> st.SearchStrategy:
    leaves = [st.integers(-2, 3), st.sampled_from(["x", "y"])]
    leaves += [st.sampled_from([("i", n) for n in indices])] * bool(indices)
    leaves += [st.sampled_from([("w", k) for k in arrays])] * bool(arrays)
    return st.recursive(
        st.one_of(*leaves), lambda e: st.tuples(st.sampled_from(["+", "+", "*", "//"]), e, e), max_leaves=3
    )


@st.composite
def views(draw):
    made = draw(st.sampled_from([(), (Y,), (Y, K), (X, K)]))
    names = [a.name for a in made]
    arrays = draw(st.lists(st.sampled_from([(Q, X), (X,), (X, T), (), (Y, X)]), min_size=1, max_size=3))
    if X in made:
        arrays = [a for a in arrays if Y not in a] or [(X,)]
    index = draw(st.lists(st.sampled_from([(), (T,), (Y,), (X,)]), max_size=2))
    if Y not in made:
        arrays = [tuple(a for a in axes if a != Y) for axes in arrays]
    if X not in made:
        index = [tuple(a for a in axes if a != X) for axes in index]
    e = expressions(names, list(range(len(arrays), len(arrays) + len(index))))
    reads = []
    for k, axes in enumerate(arrays):
        taken = [a.name for a in axes if a == X or (a == Y and draw(st.booleans()))]
        where = st.lists(st.tuples(st.sampled_from(["lt", "le", "eq"]), e, e), min_size=1, max_size=2)
        at = tuple((n, draw(e)) for n in taken)
        reads.append(Read(at, () if k == len(arrays) - 1 else tuple(draw(where))))
    types = [ArrayType(axes) for axes in arrays] + [ArrayType(axes, "int") for axes in index]
    return reindex_box(View(made, tuple(reads)), types)


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(views(), st.integers(0, 2**32))
def test_views_mean_the_same_everywhere(box, seed):
    rng = np.random.default_rng(seed)
    f = of_box(box)
    arrays = [
        rng.integers(-1, 4, [SIZES[a.name] if a.size == a.name else a.size for a in ty.axes])
        for ty in f.dom
    ]  # fmt: skip
    made = program(f)
    given_exactly = [
        exact_execution.build(ty.names, a.shape, lambda i, a=a: Fraction(int(a[i])))
        for a, ty in zip(arrays, f.dom, strict=True)
    ]
    (found,) = exact_execution.run(made, given_exactly, SIZES, {}, {})
    outside = any(isinstance(v, exact_execution.NoValue) for v in found.values.values())
    # What the kernel says that the program owes is met where there are values, and nowhere else.
    put = {name: num(n) for name, n in SIZES.items()}
    _, owed = _read(made, inputs_of(made, put), put)
    held = {d["name"]: np.vectorize(Fraction, otypes=[object])(a).tolist() for d, a in zip(made["inputs"], arrays)}
    assert told(owed, SIZES, held, {}) is (not outside)
    known = {k: v for k, v in SIZES.items() if all(a.name != k for ty in f.dom for a in ty.axes)}
    given_arrays = [a if ty.element == "int" else a.astype(float) for a, ty in zip(arrays, f.dom, strict=True)]
    if outside:
        with pytest.raises(cd.errors.SizeError, match=r"is read at|divides by what is not positive"):
            cd.Program(f).run(*given_arrays, sizes=known)
        return
    ran = cd.Program(f).run(*given_arrays, sizes=known)
    (wire,) = evaluate(made, inputs_of(made, {}), {}, lambda *args: None)
    cells = {
        (str(d["name"]), i): v for d, a in zip(made["inputs"], given_exactly, strict=True) for i, v in a.values.items()
    }
    names = f.cod[0].names
    for i in np.ndindex(*np.shape(ran)):
        here = dict(zip(names, i, strict=True))
        assert Fraction(float(np.asarray(ran)[i])) == found.at(here)
        assert value(wire.term, World(SIZES, here, {}, random.Random(0), dict(cells))) == found.at(here)
