"""Solvers in processes of their own: both say what is so, neither outlives its use, no answer is another goal's."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from catdiag.kernel.terms import FALSE, TRUE, Term, add, fn, idx, mul, num, size
from catdiag.solvers.child_process import Solver, SolverInterrupted
from catdiag.solvers.cross_check import Both, Disagreement
from catdiag.solvers.cvc5 import Cvc5
from catdiag.solvers.z3 import Z3, borrowed, shared
from tests.solvers.children import children

N, J = size("n"), idx("i")


@pytest.fixture(scope="module", params=[Z3, Cvc5])
def solver(request: pytest.FixtureRequest) -> Iterator[Solver]:
    with request.param() as one:
        yield one


def value(t: Term, sizes: dict[str, int], indices: dict[str, int]) -> int | bool:
    """What a term of integers is, by the docstring of `kernel.terms`."""
    if t.op == "num":
        return int(t.data)  # type: ignore[arg-type]
    if t.op in ("size", "idx"):
        return (sizes if t.op == "size" else indices)[str(t.data)]
    if t.op in ("true", "false"):
        return t.op == "true"
    parts = [value(a, sizes, indices) for a in t.args]
    match t.op:
        case "add":
            return sum(parts)
        case "mul":
            product = 1
            for p in parts:
                product *= p
            return product
        case "div":
            return parts[0] // parts[1] if parts[1] > 0 else 0
        case "and":
            return all(parts)
        case "or":
            return any(parts)
        case "not":
            return not parts[0]
        case "lt":
            return parts[0] < parts[1]
        case "le":
            return parts[0] <= parts[1]
    assert t.op == "eq"
    return parts[0] == parts[1]


def integer(rng: random.Random, depth: int) -> Term:
    if depth == 0 or rng.random() < 0.3:
        return rng.choice([N, size("m"), J, num(rng.randrange(-2, 4))])
    a, b = integer(rng, depth - 1), integer(rng, depth - 1)
    return rng.choice([add(a, b), mul(a, b), fn("div", a, b), fn("div", a, num(rng.randrange(-1, 4)))])


def condition(rng: random.Random, depth: int) -> Term:
    if depth == 0 or rng.random() < 0.4:
        return fn(rng.choice(["lt", "le", "eq"]), integer(rng, 1), integer(rng, 1))
    kind = rng.choice(["and", "or", "not", "constant"])
    if kind == "constant":
        return rng.choice([TRUE, FALSE])
    if kind == "not":
        return fn("not", condition(rng, depth - 1))
    return fn(kind, condition(rng, depth - 1), condition(rng, depth - 1))


def test_what_is_entailed_holds_in_the_small(solver: Solver) -> None:
    """A goal with a counterexample among small numbers is never affirmed, and one without is found not to be refuted
    by what is small."""
    rng = random.Random(3)
    said = {"yes": 0, "no": 0, "unknown": 0}
    for _ in range(60):
        hypotheses = [condition(rng, 1), fn("le", num(0), J), fn("lt", J, N)]
        goal = condition(rng, 2)
        answer = solver.answer(hypotheses, goal)
        said[answer] += 1
        counter = any(
            all(value(h, {"n": n, "m": m}, {"i": i}) for h in hypotheses)
            and not value(goal, {"n": n, "m": m}, {"i": i})
            for n, m, i in itertools.product(range(4), range(4), range(-2, 5))
        )
        if counter:
            assert answer != "yes", (hypotheses, goal)
    assert said["yes"] >= 10 and said["no"] >= 10 and said["unknown"] <= 10, said


def test_sizes_are_natural_and_indices_are_not(solver: Solver) -> None:
    assert solver([], fn("le", num(0), N))
    assert solver.answer([], fn("le", num(0), J)) == "no"
    assert solver([], fn("eq", fn("div", J, num(0)), num(0)))
    assert solver([], fn("eq", fn("div", num(-1), num(2)), num(-1)))


def test_tiles_partition_an_axis(solver: Solver) -> None:
    k, g, i, j = (size(name) for name in "kgij")
    lo = mul(k, g)
    assert solver(
        [fn("le", num(1), g), fn("le", lo, i), fn("lt", i, add(lo, g))], fn("lt", i, mul(add(k, num(1), j), g))
    )


def test_a_solver_is_gone_when_it_is_closed(solver: Solver) -> None:
    before = children()
    with type(solver)() as other:
        assert other([], TRUE)
        assert len(children() - before) == 1
    assert children() <= before


def test_who_brings_no_solver_shares_that_of_the_thread() -> None:
    ours, elsewhere = shared(), list[Z3]()
    thread = threading.Thread(target=lambda: elsewhere.append(shared()))
    thread.start()
    thread.join()
    assert shared() is ours and elsewhere[0] is not ours
    ours.close()
    before = children()
    with borrowed() as ask:
        assert ask is ours and ask([], fn("le", num(0), size("a_size_of_this_test"))) and ask.started
    assert not ours.started and children() <= before
    ours.start()
    with borrowed():
        pass
    assert ours.started
    ours.close()


def test_a_shared_solver_ends_with_the_last_that_has_it() -> None:
    code = """
import gc
from catdiag.category.diagram import id
from catdiag.category.types import Ty
from catdiag.rewrite.derivation import Derivation
from tests.solvers.children import children
one, other = (Derivation.start(id(Ty())) for _ in range(2))
one.ask.start()
assert one.ask is other.ask and len(children()) == 1
del one
gc.collect()
assert len(children()) == 1
del other
gc.collect()
assert not children()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_hangs_is_stopped_by_the_clock() -> None:
    class Hangs(Z3):
        def start(self) -> None:
            if self._process is None:
                super().start()
                assert self._process is not None
                self._process.send_signal(signal.SIGSTOP)

    before = children()
    with Hangs(seconds=0.2) as ask, pytest.raises(SolverInterrupted, match=r"within 0\.2 s"):
        ask([], TRUE)
    assert children() <= before


def test_an_answer_that_came_too_late_is_nobodys() -> None:
    """Ctrl-C while one waits must not leave an answer in the pipe for the next goal."""
    with Z3() as ask:
        assert ask([], TRUE)
        wait = ask._wait

        def interrupted(_: object) -> None:
            raise KeyboardInterrupt

        ask._wait = interrupted  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            ask([], fn("le", num(0), N))
        ask._wait = wait  # type: ignore[method-assign]
        # No small number refutes it, so that the solver is asked.
        assert not ask([], fn("lt", N, num(1000)))


def test_an_answer_with_another_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with Z3() as ask:
        assert ask([], TRUE)
        monkeypatch.setattr(ask, "goals", 7)
        process = ask._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        process.stdin.write(
            b'{"number": 3, "hypotheses": [], "goal": ["true", null, []], "rlimit": 1000, "seconds": 5}\n'
        )
        with pytest.raises(SolverInterrupted, match="said"):
            ask([], fn("le", num(0), mul(N, N)))


def test_a_fork_starts_a_solver_of_its_own() -> None:
    with Z3() as ask:
        assert ask([], TRUE)
        assert ask._process is not None
        ours = ask._process.pid
        child = os.fork()
        if child == 0:
            answer = ask([], fn("le", num(0), N)) and ask._process is not None and ask._process.pid != ours
            ask.close()
            os._exit(0 if answer else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert ask._process.poll() is None
        assert ask([], fn("lt", num(-1), N))


def test_a_solver_ends_soon_after_whoever_asked_was_killed() -> None:
    code = (
        "import sys, os; from catdiag.solvers.z3 import Z3; from catdiag.kernel.terms import TRUE\n"
        "ask = Z3(); ask([], TRUE); print(ask._process.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    pid = int(done.stdout)
    for _ in range(1200):  # it ends at once, but on a machine that is busy
        if not os.path.exists(f"/proc/{pid}") or " Z " in open(f"/proc/{pid}/stat").read():  # noqa: SIM115
            return
        time.sleep(0.05)
    os.kill(pid, 9)
    pytest.fail("the solver still runs")


class _Says(Solver):
    name = "it"

    def __init__(self, *answers: str) -> None:
        super().__init__()
        self.says = list(answers)

    def answer(self, *_: object) -> str:
        said = self.says.pop(0)
        if said == "stopped":
            raise SolverInterrupted("stopped")
        return said


def test_a_second_opinion() -> None:
    ask = Both(_Says("yes", "no", "yes", "yes", "yes", "yes"), _Says("yes", "unknown", "stopped", "no"))
    assert str(ask) == "it was put no goal"
    goals = [fn("le", num(k), N) for k in range(5)]
    assert [ask([], g) for g in (goals[0], goals[1], goals[2], goals[3])] == [True, False, True, True]
    assert (ask.agreed, ask.undecided, str(ask)) == (1, 2, "it agrees on 1 of 3 goals, 2 undecided")
    # What was put once is not put again.
    assert ask([], goals[0])
    with pytest.raises(Disagreement, match=r"from nothing follows \(4 ≤ n\)"):
        ask([], goals[4])
