"""Modules of theorems under pytest: what passes, what fails, and what is said."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import catdiag as cd
from catdiag.rewrite.theorem_decorator import Claim

ROOT = Path(__file__).resolve().parents[2]

THEOREMS = """
import catdiag as cd
import pytest

@cd.theorem("x -> x")
def twice(A):
    return A + A, 2 * A

@cd.theorem("x -> x")
def wrong(A):
    return A + A / 2, A * A

@cd.theorem("x -> ")
def needs(A):
    return cd.sum(A, "x"), cd.sum(A * A / A, "x")

@cd.theorem("x -> x")
@pytest.mark.skip(reason="later")
def skipped(A):
    return A, A

def test_beside():
    assert wrong.name == "wrong"
"""


def pytest_on(folder: Path, *options: str) -> str:
    plain = ["-n", "0"] if "xdist" in sys.modules else []
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:catdiag",
               "-p", "catdiag.testing.pytest_plugin", *plain, *options, str(folder)]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder).stdout


def test_a_module_of_theorems(tmp_path: Path) -> None:
    (tmp_path / "theorem_sums.py").write_text(THEOREMS, encoding="utf-8")
    (tmp_path / "test_others.py").write_text("from theorem_sums import twice, needs\n", encoding="utf-8")
    said = pytest_on(tmp_path)
    assert "1 failed, 3 passed, 1 skipped" in said
    assert "wrong is false: left gives 3/2, right gives 1 at x=0" in said
    assert "A = np.array([1.0])" in said and "left, right = wrong.sides()" in said
    assert re.search(r"conditional theorems.*\n.*needs: where A\[i\] ≠ 0 for all i < x", said)
    assert "Traceback" not in said and "Error" not in said


@pytest.mark.slow
def test_undecided_and_conditional_as_one_likes(tmp_path: Path) -> None:
    module = tmp_path / "test_claims.py"
    module.write_text(THEOREMS, encoding="utf-8")
    said = pytest_on(tmp_path, "--theorems-limit=1e-9", "--theorems-undecided=xfail", "-rx")
    assert "1 passed, 1 skipped, 3 xfailed" in said and "no verdict within 1e-09 s" in said
    said = pytest_on(tmp_path, "--theorems-conditional=fail", "-k", "needs or beside")
    assert "1 failed, 1 passed" in said and "needs: the theorem is conditional on A[i] ≠ 0 for all i < x" in said


def test_pytest_starts_without_the_heavy_libraries() -> None:
    heavy = {"numpy", "sympy", "z3", "hypothesis"}
    code = f"import catdiag.testing.pytest_plugin, sys; assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


# -- what failures print ---------------------------------------------------------------------------

FAILING = """
import catdiag as cd
import pytest
from catdiag.testing import *
from hypothesis import given, settings, strategies

double = cd.algorithm("x -> x", name="double")(lambda A: A + A)
square = cd.algorithm("x -> x", name="square")(lambda A: A * A)
share = cd.algorithm("x -> x", name="share")(lambda A: A**2 / cd.sum(A, "x"))

def test_kernel():
    assert_implements(lambda a: a * 3, double)

def test_wrong_use():
    assert_implements(lambda a: a * 3, double, sizes={"z": 3})

def test_equivalence():
    assert_equivalent(double, square)

def test_loop():
    assert_streams(share, "x")

def test_counts(monkeypatch):
    monkeypatch.setattr("catdiag.testing.assert_counts._two_levels", lambda *arguments: ({"loads": 1}, {"loads": 2}))
    assert_counts_match(double.group("x"))

@pytest.fixture
def derived():
    return cd.algorithm("x ->", name="total")(lambda A: cd.sum(A, "x")).stream("x")

def test_comparison():
    assert square == double

def test_argument(derived):
    raise ValueError("no")

@settings(database=None, derandomize=True, max_examples=20)
@given(strategies.just(double))
def test_example(f):
    raise ValueError("no")
"""


def test_failures_print_their_message_and_programs(tmp_path: Path) -> None:
    (tmp_path / "test_failing.py").write_text(FAILING, encoding="utf-8")
    said = pytest_on(tmp_path)
    assert "8 failed" in said and "of_graph" not in said and "warning" not in said
    parts = re.split(r"\n_+ (test_\w+) _+\n", said)
    by_name = dict(zip(parts[1::2], parts[2::2], strict=True))
    for name in ("kernel", "wrong_use", "equivalence", "loop", "counts"):
        shown = by_name[f"test_{name}"]
        # The test's own lines, the message, and the place: none of the library's lines.
        assert shown.count("\n>  ") == 1 and "def assert_" not in shown and len(shown.splitlines()) < 25
    assert "does not implement double" in by_name["test_kernel"] and "A = np.array(" in by_name["test_kernel"]
    assert "sizes names 'z'" in by_name["test_wrong_use"]
    assert "double = square is false" in by_name["test_equivalence"]
    assert "share does not stream along 'x'" in by_name["test_loop"]
    assert "loads: 1 by formula, 2 counted" in by_name["test_counts"]
    assert "save out[x] = A + A" in by_name["test_counts"]
    assert "save out[x] = A·A" in by_name["test_comparison"] and "save out[x] = A + A" in by_name["test_comparison"]
    assert "derived = total.stream('x'): A[x] → out" in by_name["test_argument"]
    assert "sum1 = sum1 + Σ_x A" in by_name["test_argument"]
    assert "f=double: A[x] → out[x]" in by_name["test_example"]


def test_errors_of_the_library_keep_their_traceback() -> None:
    from catdiag.testing.concise_failures import concise

    def deep(error: Exception) -> None:
        raise error

    kept = {}
    for error in (AssertionError("no"), cd.errors.SizeError("no"), ZeroDivisionError("no")):
        with pytest.raises(type(error)) as caught:
            concise(deep)(error)
        kept[type(error).__name__] = any(entry.name == "deep" for entry in caught.traceback)
    assert kept == {"AssertionError": False, "SizeError": False, "ZeroDivisionError": True}


# -- claims ------------------------------------------------------------------------------------------


def test_a_claim_of_arrays() -> None:
    @cd.theorem("n, n -> n", assume=["n >= 2"])
    def swapped(A, B):
        """Sums commute."""
        return A + B, B + A

    assert isinstance(swapped, Claim) and swapped.__doc__ == "Sums commute."
    left, right = swapped.sides()
    assert isinstance(right, cd.category.Diagram)
    assert left.names == ("A", "B") and str(left.cod) == str(right.cod) == "[n]"
    assert swapped.prove().hypotheses[-1] == "2 ≤ n"


def test_a_claim_of_diagrams_and_of_derivations() -> None:
    total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x"))
    derived = total.stream("x")
    assert cd.theorem(lambda: (total, total)).prove().trivial
    assert cd.theorem(lambda: derived).prove() is derived.theorem
    assert cd.theorem(lambda: (total, derived))().statement == derived.theorem.statement


def test_a_claim_that_says_something_else() -> None:
    @cd.theorem
    def three():
        return 3

    @cd.theorem
    def numbers():
        return 1, 2

    with pytest.raises(
        cd.errors.SignatureError, match=r"three gives int: expected its left and its right side(.|\n)*test_plugin"
    ):
        three.prove()
    with pytest.raises(cd.errors.SignatureError, match="numbers gives int and int: expected two diagrams"):
        numbers.sides()
    with pytest.raises(cd.errors.SignatureError, match="assumptions are a list of texts"):
        cd.theorem("x", assume="x >= 2")


def test_what_is_pasted_is_what_refuted() -> None:
    from catdiag.testing.pytest_plugin import refutation

    @cd.theorem("x, x -> ")
    def product_of_sums(A, B):
        return cd.sum(A, "x") * cd.sum(B, "x"), cd.sum(A * B, "x")

    with pytest.raises(cd.Refuted) as caught:
        product_of_sums.prove()
    text = refutation(product_of_sums, caught.value)
    names = {"np": np, "cd": cd, "product_of_sums": product_of_sums}
    *lines, last = [line.strip() for line in text.split("\n") if line.startswith("    ") and "#" not in line]
    exec("\n".join(lines), names)
    left, right = eval(last, names)
    assert left != right
