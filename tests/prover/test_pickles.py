"""What travels between processes: derivations, theorems, and the errors that come back from executors."""

from __future__ import annotations

import copy
import dataclasses
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

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
    with pytest.raises(cd.errors.AxisError) as unknown:
        total.stream("y")
    for error in (refuted.value, unknown.value, cd.Undecided("f = g is undecided", "1 = 2")):
        arrived = pickle.loads(pickle.dumps(error))
        assert type(arrived) is type(error)
        assert (str(arrived), vars(arrived).keys()) == (str(error), vars(error).keys())
        assert arrived.line == error.line
    assert pickle.loads(pickle.dumps(refuted.value)).counterexample.sizes == refuted.value.counterexample.sizes


def test_a_theorem_is_checked_again_where_it_arrives() -> None:
    """A theorem that says what its certificate does not prove arrives as what that proves, or not at all."""
    total = cd.algorithm("x ->", name="total")(lambda X: cd.sum(2 * X, "x"))
    twice = cd.algorithm("x ->", name="twice")(lambda X: 2 * cd.sum(X, "x"))
    largest = cd.algorithm("x ->", name="largest")(lambda X: cd.max(X, "x"))
    honest, other = cd.prove(total, twice), cd.prove(largest, largest)
    assert pickle.loads(pickle.dumps(honest)) == honest
    assert copy.deepcopy(honest) is honest
    mislabelled = dataclasses.replace(honest, checked=other.checked)
    assert pickle.loads(pickle.dumps(mislabelled)).statement == honest.statement
    wrong = {**honest.certificate["statement"], "right": other.certificate["statement"]["right"]}
    for certificate in ({**honest.certificate, "statement": wrong}, {**honest.certificate, "proof": {}}, {}):
        forged = pickle.dumps(dataclasses.replace(honest, certificate=certificate))
        with pytest.raises(cd.errors.NotAProof):
            pickle.loads(forged)


def forge(theorem: cd.Theorem) -> cd.Theorem:
    return dataclasses.replace(theorem, certificate={**theorem.certificate, "proof": {}})


def test_a_forged_theorem_does_not_come_back_from_a_worker() -> None:
    total = cd.algorithm("x ->", name="total")(lambda X: cd.sum(2 * X, "x"))
    twice = cd.algorithm("x ->", name="twice")(lambda X: 2 * cd.sum(X, "x"))
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as executor:
        assert str(executor.submit(cd.prove, total, twice).result()) == str(cd.prove(total, twice))
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as executor:
        coming = executor.submit(forge, cd.prove(total, twice))
        with pytest.raises((BrokenProcessPool, cd.errors.NotAProof)):
            coming.result(60)
