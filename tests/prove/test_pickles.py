"""What travels between processes: derivations, theorems, and the errors that come back from executors."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import catdiag as cd


def test_a_derivation_goes_on_where_it_arrives() -> None:
    streamed = cd.library.get("attention").stream("x")
    arrived = pickle.loads(pickle.dumps(streamed))
    assert str(arrived.theorem) == str(streamed.theorem)
    Q, K, V = np.random.default_rng(0).normal(size=(3, 5, 4))
    flash = arrived.group("q")
    np.testing.assert_allclose(flash.run(Q, K, V, tiles={"s_x": 2, "g_q": 3}), streamed(Q, K, V))
    assert copy.deepcopy(streamed).diagram == streamed.diagram


def test_errors_arrive_as_they_were() -> None:
    total = cd.algorithm("x ->", name="total")(lambda X: cd.sum(X, "x"))
    largest = cd.algorithm("x ->", name="largest")(lambda X: cd.max(X, "x"))
    with pytest.raises(cd.Refuted) as refuted:
        cd.prove(total, largest)
    with pytest.raises(cd.AxisError) as unknown:
        total.stream("y")
    for error in (refuted.value, unknown.value, cd.Undecided("f = g is undecided", "1 = 2")):
        arrived = pickle.loads(pickle.dumps(error))
        assert type(arrived) is type(error)
        assert (str(arrived), vars(arrived).keys()) == (str(error), vars(error).keys())
        assert arrived.line == error.line
    assert pickle.loads(pickle.dumps(refuted.value)).counterexample.sizes == refuted.value.counterexample.sizes
