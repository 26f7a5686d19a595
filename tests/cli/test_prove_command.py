"""`catdiag prove`: verdicts, and what is written."""

from __future__ import annotations

import importlib
import itertools
import json

import numpy as np
import pytest

import catdiag as cd


def test_proved(run, op, tmp_path):
    certificate = tmp_path / "c.json"
    done = run("prove", "attention", op("unscaled"), "--certificate", certificate)
    assert done.status == 0
    assert done.out.startswith("proved in")
    assert "for all 1 ≤ d, 1 ≤ q, 1 ≤ x" in done.out
    assert "witness: d=2; q=2; x=2" in done.out
    assert "by A" in done.out
    checked = run("check", certificate)
    assert checked.status == 0
    assert "left: attention" in checked.out
    assert "right: unscaled" in checked.out


def test_conditional(run, op, tmp_path):
    certificate = tmp_path / "c.json"
    done = run("prove", op("count"), op("count_by_division"), "--certificate", certificate)
    assert done.status == 0
    assert done.out.startswith("proved, on a condition")
    assert "CONDITIONAL" in done.out
    assert "accepted, on a condition" in run("check", certificate).out


def test_assumptions(run, op):
    done = run("prove", op("variance"), op("variance"), "--assume", "x >= 2", "--assume", "q <= x")
    assert done.status == 0
    assert "2 ≤ x" in done.out
    run("prove", op("variance"), op("variance"), "--assume", "x >=").one_message(2, "'x >='")
    run("prove", op("variance"), op("variance"), "--assume", "n >= 2").one_message(2, "'n'", "q, x")
    run("prove", op("variance"), op("variance"), "--assume", "x < 1").one_message(2, "no sizes meet")


def test_refuted_with_numbers_that_numpy_confirms(run, op, tmp_path):
    from catdiag.cli.operator_loading import operator

    file, certificate = tmp_path / "numbers.npz", tmp_path / "c.json"
    done = run("prove", op("doubled"), "attention", "--counterexample", file, "--certificate", certificate)
    assert done.status == 1
    assert done.out.startswith("refuted: doubled = attention is false")
    assert "sizes d=" in done.out
    assert "left gives" in done.out
    assert not certificate.exists()
    numbers = np.load(file)
    arrays = [numbers[name] for name in ("Q", "K", "V")]
    assert arrays[0].shape == (numbers["sizes.q"], numbers["sizes.d"])
    at = tuple(int(numbers[f"index.{axis}"]) for axis in ("q", "d"))
    left, right = (cd.Program(operator(name)).run(*arrays)[at] for name in (op("doubled"), "attention"))
    assert np.isclose(left, numbers["value.left"])
    assert np.isclose(right, numbers["value.right"])
    assert abs(left - right) > 1e-9
    exact = json.loads(str(numbers["exact"]))
    assert exact["sizes"] == {name: int(numbers[f"sizes.{name}"]) for name in ("q", "x", "d")}


def test_undecided_or_better(run, op):
    # sqrt(a²) = |a| is true: a prover may find it, and must not refute it.
    done = run("prove", op("root_of_square"), op("absolute_value"))
    assert done.status in (0, 3), done.err


def test_undecided(run, tmp_path):
    file = tmp_path / "hard.py"
    file.write_text(
        "import catdiag as cd\n"
        '@cd.algorithm("x ->")\ndef f(A):\n    return cd.sum(cd.log(1 + cd.exp(A)), "x")\n'
        '@cd.algorithm("x ->")\ndef g(A):\n    return cd.sum(A + cd.log(1 + cd.exp(-A)), "x")\n'
    )
    done = run("prove", f"{file}:f", f"{file}:g")
    assert done.status in (0, 3)
    if done.status == 3:
        assert done.out.startswith("undecided: ")
        assert "it stopped at" in done.out


@pytest.mark.parametrize("name", ["nothing_such", "no_diagram", "no_algorithm"])
def test_wrong_use(run, op, name):
    run("prove", op("variance"), op(name)).one_message(2, name)


def test_two_types(run, op):
    run("prove", op("variance"), "attention").one_message(2, "one type")
    run("prove", op("variance")).one_message(2, "RIGHT")


def test_the_limit(run, op, monkeypatch):
    api = importlib.import_module("catdiag.prover.api")
    monkeypatch.setattr(api, "certify", lambda *_: [n for n in itertools.count() if n < 0])
    run("prove", op("variance"), op("variance"), "--limit", "0.2").one_message(130, "no verdict within 0.2 s")
    run("prove", op("variance"), op("variance"), "--limit", "0").one_message(2, "above 0")


def test_types_that_differ_say_where(run, tmp_path):
    file = tmp_path / "two.py"
    file.write_text(
        "import catdiag as cd\n"
        '@cd.algorithm("q x -> q")\ndef f(A):\n    return cd.sum(A, "x")\n'
        '@cd.algorithm("q y -> q")\ndef g(A):\n    return cd.sum(A, "y")\n'
    )
    run("prove", f"{file}:f", f"{file}:g").one_message(2, "input A is [q x] in f and [q y] in g", "rename y to x")


def test_a_counterexample_is_replayed_from_its_file(run, op, tmp_path, monkeypatch):
    file = tmp_path / "numbers.npz"
    done = run("prove", op("count"), op("absolute_value"), "--counterexample", file)
    assert done.status == 1
    said = done.out.splitlines()
    assert said[-1].startswith(f"replayed from {file}: left gives ")
    assert said[-1].removeprefix(f"replayed from {file}: ") in said[-2]

    from catdiag.cli.counterexample_npz import read
    from catdiag.prover.refute.counterexample_data import NotACounterexample

    with np.load(file) as whole:
        arrays = dict(whole)
    for name, value in (("A", arrays["A"] + 1), ("exact", np.array("{}")), ("exact", np.array("no json"))):
        np.savez(file, **{**arrays, name: value})
        with pytest.raises(NotACounterexample):
            read(file)
    file.write_bytes(b"PK")
    with pytest.raises(NotACounterexample):
        read(file)
