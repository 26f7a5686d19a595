"""A solver that is killed from outside, or has no memory left: interrupted, never an answer, and the next goal goes."""

from __future__ import annotations

import os
import pickle
import resource
import signal
import threading
import time
from itertools import pairwise

import pytest

import catdiag as cd
from catdiag.kernel.terms import TRUE, fn, num, size
from catdiag.solvers.child_process import SolverInterrupted
from catdiag.solvers.solver_worker import MEMORY
from catdiag.solvers.z3 import Z3

EASY = fn("lt", num(0), num(1))


def process(ask: Z3) -> int:
    assert ask._process is not None
    return ask._process.pid


def test_killed_while_it_works() -> None:
    with Z3() as ask:
        assert ask.answer([], TRUE) == "yes"
        pid = process(ask)
        os.kill(pid, signal.SIGSTOP)
        threading.Timer(0.1, os.kill, (pid, signal.SIGKILL)).start()
        with pytest.raises(SolverInterrupted, match="ended"):
            ask.answer([], EASY)
        assert ask.answer([], EASY) == "yes"
        assert process(ask) != pid


def test_killed_between_goals() -> None:
    with Z3() as ask:
        ask.answer([], TRUE)
        os.kill(process(ask), signal.SIGKILL)
        time.sleep(0.05)
        with pytest.raises(SolverInterrupted):
            ask.answer([], EASY)
        assert ask.answer([], EASY) == "yes"


def test_a_goal_is_put_again_where_the_signal_of_its_own_coming_ended_the_solver() -> None:
    """The system may send it late, when the solver works on the goal: here it does not ignore it yet."""
    with Z3() as ask:
        ask.start()
        pid = process(ask)
        os.kill(pid, signal.SIGIO)
        assert ask.answer([], EASY) == "yes"
        assert process(ask) != pid and ask.goals == 1


def test_what_is_interrupted_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    put = Z3._put

    def killed(self: Z3, hypotheses: list[object], goal: object) -> str:
        self.start()
        os.kill(process(self), signal.SIGKILL)
        return put(self, hypotheses, goal)

    f = cd.algorithm("x ->")(lambda a: cd.sum(a, "x"))
    theorem = f.stream("x").theorem
    monkeypatch.setattr(Z3, "_known", lambda *_: None)  # nothing is answered from memory
    monkeypatch.setattr(Z3, "_put", killed)
    with pytest.raises((cd.errors.Interrupted, cd.Undecided)):
        cd.Program(f.diagram).stream("x")
    sent = pickle.dumps(theorem)
    with pytest.raises((cd.errors.Interrupted, cd.errors.NotAProof)):
        pickle.loads(sent)


def test_out_of_memory(capfd: pytest.CaptureFixture[str]) -> None:
    with Z3() as ask:
        ask.answer([], TRUE)
        limits = resource.prlimit(process(ask), resource.RLIMIT_AS)
        assert 0 < limits[0] <= MEMORY
        # No more than it has: the goal, of a million letters, cannot even be read.
        resource.prlimit(process(ask), resource.RLIMIT_AS, (1 << 20, limits[1]))
        sizes = [size(f"n{k}" + "n" * 100) for k in range(1500)]
        with pytest.raises(SolverInterrupted):
            ask.answer([fn("lt", n, m) for n, m in pairwise(sizes)], EASY)
        assert ask.answer([], EASY) == "yes"
