"""Several proofs at once, in other processes: what comes back is checked again, and forgeries are refused."""

from __future__ import annotations

import copy
import json
import multiprocessing
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import pytest

import catdiag as cd
from catdiag.prover.api import statement_of
from catdiag.prover.refute.counterexample_data import NotACounterexample, as_data, of_data
from catdiag.prover.refute.counterexample_search import refute
from catdiag.prover.refute.validate import replay

F = cd.algorithm("x ->", name="f")(lambda A: cd.sum(2 * A, "x"))
G = cd.algorithm("x ->", name="g")(lambda A: 2 * cd.sum(A, "x"))
H = cd.algorithm("x ->", name="h")(lambda A: cd.sum(A, "x"))
HARD = (
    cd.algorithm("x ->")(lambda A: cd.sum(cd.log(1 + cd.exp(A)), "x")),
    cd.algorithm("x ->")(lambda A: cd.sum(A + cd.log(1 + cd.exp(-A)), "x") + cd.sum(0 * A, "x")),
)


class Here(Executor):
    """Runs tasks at once, and may change what they return."""

    def __init__(self, change: Callable[[Any], Any] = lambda found: found) -> None:
        self.change = change
        self.submitted = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.submitted += 1
        future: Future[Any] = Future()
        future.set_result(self.change(fn(*args, **kwargs)))
        return future


def kinds(outcomes: list[Any]) -> list[str]:
    return [type(outcome).__name__ for outcome in outcomes]


def test_without_an_executor() -> None:
    outcomes = cd.prove_all([(F, G), (F, H), (F, G, ["x >= 2"])])
    assert kinds(outcomes) == ["Theorem", "Refuted", "Theorem"]
    assert outcomes[2].hypotheses == ("1 ≤ x", "2 ≤ x")
    assert cd.prove_all([]) == []


def test_in_processes() -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        outcomes = cd.prove_all([(F, G), (F, H), (H, H)], executor=executor)
    alone = cd.prove_all([(F, G), (F, H), (H, H)])
    assert kinds(outcomes) == kinds(alone) == ["Theorem", "Refuted", "Theorem"]
    assert outcomes[0].certificate == alone[0].certificate
    assert str(outcomes[0]) == str(alone[0])
    assert outcomes[1].counterexample == alone[1].counterexample


def test_in_threads_and_by_any_executor() -> None:
    with ThreadPoolExecutor(2) as executor:
        assert kinds(cd.prove_all([(F, G), (F, H)], executor=executor)) == ["Theorem", "Refuted"]
    here = Here()
    assert kinds(cd.prove_all([(F, G), (F, H)], executor=here)) == ["Theorem", "Refuted"]
    assert here.submitted == 2


def test_what_is_not_defined_is_not_said_to_be_false() -> None:
    one = cd.algorithm("x", name="one")(lambda A: 1 + 0 * A)
    quotient = cd.algorithm("x", name="quotient")(lambda A: A / A)
    found = refute(statement_of(one.diagram, quotient.diagram), tries=10, partial=True)
    assert found is not None and found.undefined

    def says(_: Any) -> dict[str, Any]:
        return {"outcome": "refuted", "counterexample": as_data(found)}

    (outcome,) = cd.prove_all([(one, quotient)], executor=Here(says))
    assert isinstance(outcome, cd.Refuted)
    assert outcome.message.startswith("one = quotient does not hold wherever its left side is defined")


def test_wrong_use_is_said_here() -> None:
    other = cd.algorithm("y ->")(lambda A: cd.sum(A, "y"))
    here = Here()
    with pytest.raises(cd.errors.TypeMismatch):
        cd.prove_all([(F, G), (F, other)], executor=here)
    assert here.submitted == 0
    with pytest.raises(cd.errors.CatdiagError, match="no sizes meet"):
        cd.prove_all([(F, G, ["x < 1"])], executor=here)


def test_an_interrupted_one_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib
    import itertools

    api = importlib.import_module("catdiag.prover.api")
    monkeypatch.setattr(api, "certify", lambda *_: [n for n in itertools.count() if n < 0])
    for executor in (None, Here()):
        outcomes = cd.prove_all([(F, G)], limit=0.1, executor=executor)
        assert kinds(outcomes) == ["Interrupted"]
        assert "no verdict within 0.1 s" in str(outcomes[0])


def proof_of(f: cd.category.Diagram, g: cd.category.Diagram) -> dict[str, Any]:
    return copy.deepcopy(cd.prove(f, g).certificate)


class Liar(dict):  # type: ignore[type-arg]
    """A certificate that is another one each time it is asked."""

    def get(self, name: str, default: Any = None) -> Any:
        return proof_of(F, G)[name] if name in ("statement", "proof") else super().get(name, default)


def forgeries() -> list[Any]:
    true = proof_of(F, G)
    of_false = {**true, "statement": {**true["statement"], "right": proof_of(H, H)["statement"]["right"]}}
    proved = {"outcome": "proved", "seconds": 0.0}
    return [
        {**proved, "certificate": of_false},
        {**proved, "certificate": true},
        {**proved, "certificate": {**of_false, "proof": {}}},
        {**proved, "certificate": Liar(of_false)},
        {**proved, "certificate": None},
        {**proved, "certificate": {"statement": object()}},
        {**proved, "certificate": cd.prove(F, G)},
        proved,
        cd.prove(F, G),
        None,
        {"outcome": "true"},
    ]


@pytest.mark.parametrize("number", range(11))
def test_a_forged_theorem_is_refused(number: int) -> None:
    """`f = h` is false, whatever an executor says."""
    with pytest.raises(cd.errors.NotAProof):
        cd.prove_all([(F, H)], executor=Here(lambda _: forgeries()[number]))


def test_a_proof_without_its_steps_is_refused() -> None:
    def stripped(found: Any) -> Any:
        return {**found, "certificate": {**found["certificate"], "proof": {}}}

    with pytest.raises(cd.errors.NotAProof, match="refused"):
        cd.prove_all([(F, G)], executor=Here(stripped))


def test_a_forged_counterexample_is_refused() -> None:
    def forged(**changes: Any) -> Callable[[Any], Any]:
        good = as_data(cd.prove_all([(F, H)])[0].counterexample)  # type: ignore[union-attr]
        return lambda _: {"outcome": "refuted", "counterexample": {**good, **changes}}

    assert kinds(cd.prove_all([(F, H)], executor=Here(forged()))) == ["Refuted"]
    for changes in (
        {"arrays": {"A": ["0"]}, "sizes": {"x": 1}},
        {"sizes": {"x": 0}, "arrays": {"A": []}},
        {"sizes": {"x": 5}},
        {"arrays": {}},
        {"index": {"x": 7}, "output": 3},
        {"arrays": {"A": ["-inf"]}, "sizes": {"x": 1}},
        {"arrays": {"A": "os.system"}},
        {"sizes": None},
    ):
        with pytest.raises(cd.errors.NotAProof):
            cd.prove_all([(F, H)], executor=Here(forged(**changes)))
    with pytest.raises(cd.errors.NotAProof):
        cd.prove_all([(F, G)], executor=Here(forged()))


def test_counterexamples_are_plain_data() -> None:
    outcome = cd.prove_all([(F, H)])[0]
    assert isinstance(outcome, cd.Refuted)
    data = as_data(outcome.counterexample)
    assert json.loads(json.dumps(data)) == data
    from catdiag.prover.api import statement_of

    assert replay(statement_of(F.diagram, H.diagram), of_data(data)) == outcome.counterexample
    with pytest.raises(NotACounterexample):
        of_data({**data, "sizes": {"x": -1}})
    with pytest.raises(NotACounterexample, match="certainly differ"):
        replay(statement_of(F.diagram, F.diagram), of_data(data))
    assert isinstance(outcome.counterexample.lhs, Fraction)


def test_uninterpreted_functions_are_replayed() -> None:
    f = cd.algorithm("x -> x", name="f")(lambda A: cd.apply("u", A + A))
    g = cd.algorithm("x -> x", name="g")(lambda A: cd.apply("u", A))
    assert kinds(cd.prove_all([(f, g)], executor=Here())) == ["Refuted"]
