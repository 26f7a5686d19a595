"""`prove` keeps to its limit wherever the time goes, and leaves no solver behind; unlike types are told apart."""

from __future__ import annotations

import ast
import contextlib
import gc
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest

import catdiag as cd
from catdiag.category.diagram import diagram_of
from catdiag.cli.derive_report_data import derive
from catdiag.draw.report.report_data import report_data
from catdiag.solvers.z3 import Z3
from catdiag.util.time_limit import OutOfTime, within
from tests.solvers.children import children


def busy(seconds: float = float("inf")) -> int:
    """Without an argument it ends by a limit only: a test of one that is not kept does not end."""
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        count += 1
    return count


F = cd.algorithm("x ->", name="f")(lambda A: cd.sum(2 * A, "x"))
G = cd.algorithm("x ->", name="g")(lambda A: 2 * cd.sum(A, "x"))


def test_what_ends_in_time_is_given_back() -> None:
    assert within(5000, lambda: 3) == 3
    assert within(None, lambda: 3) == 3
    with pytest.raises(KeyError):
        within(5000, lambda: {}["x"])


def test_work_is_ended_whatever_it_does() -> None:
    def swallows() -> None:
        while True:
            with contextlib.suppress(Exception):
                busy()

    for work in (busy, swallows):
        with pytest.raises(OutOfTime):
            within(0.05, work)


def test_no_stop_comes_after_the_work_has_ended() -> None:
    before = threading.active_count()
    ended = [0, 0]
    for k in range(60):
        try:
            within(0.001 + k * 0.0002, lambda: busy(0.012))
            ended[0] += 1
        except OutOfTime:
            ended[1] += 1
        busy(0.001)
    assert ended[1] > 0
    assert threading.active_count() == before


def test_a_time_that_is_up_before_the_work_begins() -> None:
    before = threading.active_count()
    for seconds in [1e-9, 1e-6, 1e-5, 3e-5, 1e-4] * 40:
        try:
            within(seconds, lambda: busy(0.0002))
        except OutOfTime:
            continue
    # A second stop, half a second later, would be heard here.
    busy(0.7)
    assert threading.active_count() == before


def test_without_a_limit_no_verdict_asks_a_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loops are cut, proved, reported on and advised about by work alone."""

    def by_work(seconds: float | None, work: Callable[[], object]) -> object:
        assert seconds is None, f"a limit of {seconds} s that nobody gave"
        return work()

    monkeypatch.setattr("catdiag.prover.api.within", by_work)
    unbounded = cd.algorithm("x ->")(lambda S: cd.log(cd.sum(cd.exp(S), "x")))
    assert unbounded.stream("x").advice()
    with Z3() as ask:
        assert ask.seconds is None
        assert derive(diagram_of(unbounded), ask).stability.unbounded
    assert report_data(unbounded.stream("x").derivation).stability.unbounded


DROPPED = """
import gc, sys, weakref
from catdiag.util.time_limit import OutOfTime, within

class Cycle:
    def __init__(self): self.own = self

def slow(*_):
    for _ in range(3000): pass

def work():
    while True:
        one = Cycle()
        finalizer = weakref.ref(one, slow)
        del one
        gc.collect(0)
        slow()

gc.callbacks.append(slow)
before = sys.unraisablehook
for _ in range(10):
    try:
        within(0.01, work)
    except OutOfTime:
        pass
assert sys.unraisablehook is before
gc.callbacks.clear()

def raises(_):
    raise ValueError("somebody's own")

def others():
    one = Cycle()
    kept = weakref.ref(one, raises)
    del one
    gc.collect()

within(60, others)
"""


def test_a_stop_that_python_drops_is_not_told() -> None:
    """In callbacks of the garbage collector, in which most of this work is; what else is dropped there is told."""
    done = subprocess.run([sys.executable, "-c", DROPPED], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "_Stop" not in done.stderr, done.stderr
    assert "somebody's own" in done.stderr


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_work_that_ends_late_is_out_of_time() -> None:
    """What stops it is lost where Python drops exceptions: while an object is deleted."""

    class Slow:
        def __del__(self) -> None:
            busy(0.1)

    def work() -> int:
        slow = Slow()
        del slow
        return 1

    with pytest.raises(OutOfTime):
        within(0.02, work)


def test_an_import_is_not_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that is half imported would stay so."""
    (tmp_path / "takes_its_time.py").write_text(
        "import time\ntime.sleep(0.1)\nfor _ in range(10000): pass\nDONE = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def work() -> None:
        import_module("takes_its_time")
        busy()

    with pytest.raises(OutOfTime):
        within(0.02, work)
    assert sys.modules.pop("takes_its_time").DONE


def test_work_that_is_part_of_an_import_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "proves_at_once.py").write_text(
        "from catdiag.util.time_limit import OutOfTime, within\n"
        "try:\n    within(0.02, lambda: [n for n in iter(int, 1) if n])\nexcept OutOfTime:\n    DONE = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert import_module("proves_at_once").DONE
    del sys.modules["proves_at_once"]


def test_limits_in_threads() -> None:
    def attempt(seconds: float) -> bool:
        try:
            within(seconds, lambda: busy() if seconds < 1 else busy(0.1))
        except OutOfTime:
            return False
        return True

    with ThreadPoolExecutor(4) as executor:
        assert list(executor.map(attempt, (0.05, 3000, 0.05, 3000))) == [False, True, False, True]


@pytest.mark.parametrize("where", ["certify", "statement_of"])
def test_prove_keeps_to_its_limit(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("catdiag.prover.api"), where, lambda *_: busy())
    before = children()
    with pytest.raises(cd.errors.Interrupted, match=r"f = g was interrupted: no verdict within 0\.1 s"):
        cd.prove(F, G, limit=0.1)
    assert cd.equivalent(F, G, limit=0.1) is None
    assert children() <= before


def test_a_solver_that_hangs_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    # That blocks partition an axis is put to the solver.
    dot = cd.library.get("dot")
    streamed = dot.stream("x").diagram
    gc.collect()
    start = Z3.start

    def stopped(self: Z3) -> None:
        start(self)
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    monkeypatch.setattr(Z3, "_known", lambda *_: None)  # nothing is answered from memory
    monkeypatch.setattr(Z3, "start", stopped)
    before = children()
    with pytest.raises(cd.errors.Interrupted):
        cd.prove(dot, streamed, limit=0.3)
    assert children() <= before


@pytest.mark.parametrize("limit", [0, -1, float("nan")])
def test_a_limit_is_positive(limit: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        cd.prove(F, G, limit=limit)


def test_no_time_is_limited_unless_somebody_asks_for_it() -> None:
    """No parameter has a number of seconds by default, but where it is time itself that is measured, on a GPU."""
    package = Path(cd.__file__).parent
    texts = {path: path.read_text() for path in package.rglob("*.py") if package / "measure" not in path.parents}
    named, found = 0, []
    for path, text in texts.items():
        if not re.search(r"\b(limit|timeout|seconds): ", text):
            continue
        for function in ast.walk(ast.parse(text)):
            if not isinstance(function, ast.FunctionDef):
                continue
            given = function.args
            places = [*given.posonlyargs, *given.args]
            pairs = [*zip(places[::-1], given.defaults[::-1]), *zip(given.kwonlyargs, given.kw_defaults)]
            for parameter, default in pairs:
                if parameter.arg in ("limit", "timeout", "seconds") and parameter.annotation is not None:
                    named += 1
                    if isinstance(default, ast.Constant) and default.value not in (None, 0.0):
                        found.append(f"{path.name}:{function.lineno} {parameter.arg}={default.value}")
    assert named > 10 and not found, found


def outcomes() -> list[tuple[cd.category.Diagram, cd.category.Diagram, list[str]]]:
    largest = cd.algorithm("x ->", name="largest")(lambda A: cd.max(A, "x"))
    hard = [
        cd.algorithm("x ->")(lambda A: cd.sum(cd.log(1 + cd.exp(A)), "x")),
        cd.algorithm("x ->")(lambda A: cd.sum(A + cd.log(1 + cd.exp(-A)), "x")),
    ]
    return [(F, G, ["x >= 2"]), (F, largest, ["x >= 2"]), (hard[0], hard[1], ["x >= 2"]), (F, G, ["x < 1"])]


@pytest.mark.parametrize("number", range(4))
def test_no_solver_is_left_after_any_outcome(number: int) -> None:
    f, g, assume = outcomes()[number]
    before = children()
    with contextlib.suppress(cd.errors.CatdiagError):
        cd.prove(f, g, assume)
    assert children() <= before


INTERRUPTED = """
import signal
import catdiag as cd
from catdiag.solvers.z3 import Z3
dot = cd.library.get("dot")
streamed = dot.stream("x").diagram
put = Z3._wait
def wait(self, process):
    process.send_signal(signal.SIGSTOP)
    print(process.pid, flush=True)
    put(self, process)
Z3._wait = wait
Z3._known = lambda *_: None  # nothing is answered from memory
cd.prove(dot, streamed)
"""


def test_ctrl_c_leaves_no_solver() -> None:
    command = [sys.executable, "-c", INTERRUPTED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        solver = int(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=600)
    assert "KeyboardInterrupt" in err
    assert not os.path.exists(f"/proc/{solver}")


# -- types -------------------------------------------------------------------------------------------


def typed(signature: str, body: Callable[..., object], name: str) -> cd.category.Diagram:
    return cd.algorithm(signature, name=name)(body)


@pytest.mark.parametrize(
    ("left", "right", "words"),
    [
        ("q x -> q x", "q y -> q y", ["input A is [q x] in f and [q y] in g", "rename y to x in g"]),
        ("q x -> q x", "x q -> x q", ["input A", "another order", "[q x]"]),
        ("q x -> q x", "q 3 -> q 3", ["[q 3]", "rename 3 to x"]),
        ("x=5 -> x=5", "x=6 -> x=6", ["[x=5]", "[x=6]", "axis x has size 5 in one and 6 in the other"]),
        ("q x -> q x", "q -> q", ["[q x]", "expected 2 axes in both"]),
        ("q x -> q x", "q x -> x q", ["result is [q x] in f and [x q] in g", "another order"]),
        ("q x -> q x", "x y -> x y", ["axes x to q, y to x differ", "signature of g"]),
    ],
)
def test_the_axis_that_differs_is_named(left: str, right: str, words: list[str]) -> None:
    f, g = typed(left, lambda A: 1 * A, "f"), typed(right, lambda A: 1 * A, "g")
    with pytest.raises(cd.errors.TypeMismatch) as error:
        cd.prove(f, g)
    for word in ["one type", *words]:
        assert word in str(error.value), str(error.value)


def test_numbers_of_arrays_and_elements_that_differ() -> None:
    one = typed("x -> x", lambda A: A + A, "one")
    two = cd.algorithm("x, x -> x", name="two")(lambda A, B: A + B)
    pair = cd.algorithm("x -> x, x", name="pair")(lambda A: (A, A))
    kept = cd.algorithm("bool[x] -> x", name="kept")(lambda A: cd.where(A, 1, 0))
    for f, g, words in (
        (one, two, ["one has 1 input ([x])", "two has 2 inputs ([x], [x])"]),
        (one, pair, ["one has 1 result ([x])", "pair has 2 results"]),
        (one, kept, ["input A is [x] in one and bool[x] in kept", "elements alike"]),
        (one, typed("y -> y", lambda A: A + A, "one"), ["one (left)", "one (right)"]),
    ):
        with pytest.raises(cd.errors.TypeMismatch) as error:
            cd.prove(f, g)
        for word in words:
            assert word in str(error.value), str(error.value)


TRACED = """
import sys
import catdiag as cd
f = cd.algorithm("x ->")(lambda A: cd.sum(2 * A, "x"))
cd.prove(f, f)
calls = []
sys.settrace(lambda frame, event, arg: calls.append(event))
cd.prove(f, f)
sys.settrace(None)
print(len(calls) > 100)
"""


def test_debuggers_and_profilers_see_the_work_before_and_after() -> None:
    done = subprocess.run([sys.executable, "-c", TRACED], capture_output=True, text=True, timeout=600)
    assert done.stdout == "True\n", done.stderr
