"""Answers end by work: a count that is the same whatever was asked before, and four times as much for a check."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

import pytest

import catdiag as cd
from catdiag.kernel.polynomial import TooLarge
from catdiag.kernel.terms import TRUE, Term, add, fn, mul, num, size
from catdiag.solvers.child_process import Allowance, Solver, checking, searching
from catdiag.solvers.cvc5 import Cvc5
from catdiag.solvers.z3 import Z3

N, M, K = size("n"), size("m"), size("k")
BETWEEN = [fn("le", num(1), M), fn("le", mul(N, M), K), fn("lt", K, mul(add(N, num(1)), M))]
GOALS: list[tuple[list[Term], Term]] = [
    (BETWEEN, fn("eq", fn("div", K, M), N)),
    (BETWEEN, fn("le", fn("div", K, M), K)),
    ([fn("le", num(1), M)], fn("le", mul(fn("div", K, M), M), K)),
    ([fn("le", num(2), N), fn("le", num(2), M)], fn("le", add(N, M), mul(N, M))),
    ([fn("lt", N, M)], fn("lt", mul(N, N), mul(M, M))),
    ([], fn("lt", N, num(1000))),
]
ALLOWED = 5_000_000


def worked(order: Sequence[int]) -> dict[int, tuple[str, int]]:
    with Z3() as ask:
        return {k: ask.worked_out(*GOALS[k], ALLOWED) for k in order}


def test_the_work_of_a_goal_is_the_same_whatever_was_asked_before() -> None:
    there = range(len(GOALS))
    found = worked(there)
    assert [found[k][0] for k in there] == ["yes"] * 5 + ["no"]
    assert all(0 < work < ALLOWED for _, work in found.values())
    assert worked([*reversed(there)]) == found
    for k in there:
        assert worked([k]) == {k: found[k]}


def test_what_a_check_has_found_is_not_known_to_a_search_that_has_less_work() -> None:
    needed = worked([0])[0][1]
    with Z3(rlimit=4 * (needed // 2)) as ask:
        assert not searching(ask)(*GOALS[0])
        assert checking(ask)(*GOALS[0])
        assert not searching(ask)(*GOALS[0])


def test_what_a_search_has_found_is_found_by_its_check() -> None:
    needed = worked([0])[0][1]
    with Z3(rlimit=4 * (needed + 1)) as ask:
        assert searching(ask)(*GOALS[0])
        put = ask.goals
        assert checking(ask)(*GOALS[0])
        # With more work it takes the same work: there is nothing to be put again.
        assert ask.goals == put


def test_a_search_ends_by_the_work_of_all_its_goals_known_ones_included() -> None:
    needed = worked([0])[0][1]
    with Z3() as ask:
        for _ in range(2):  # the second time all of it is known
            search = Allowance(ask, needed + 1)
            answers = itertools.takewhile(lambda ok: ok, (search(*GOALS[0]) for _ in range(100)))
            with pytest.raises(TooLarge, match="the goals take z3 too much work"):
                sum(answers)
            assert search.left == 8 * (needed + 1) - 9 * needed
        # Another search begins anew, and what counts no work is left as it is.
        assert searching(ask)(*GOALS[0])
        assert searching(bool) is bool  # type: ignore[arg-type, comparison-overlap]


def test_a_proof_is_searched_with_a_quarter_of_the_work_of_its_check(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed: list[int] = []
    worked_out = Z3.worked_out

    def noted(self: Z3, hypotheses: Sequence[Term], goal: Term, rlimit: int) -> tuple[str, int]:
        allowed.append(rlimit)
        return worked_out(self, hypotheses, goal, rlimit)

    monkeypatch.setattr(Z3, "worked_out", noted)
    assert not cd.library.get("dot").stream("x").theorem.conditional
    searched, checked = min(allowed), max(allowed)
    assert set(allowed) == {searched, checked}
    assert checked == 4 * searched


@pytest.mark.parametrize("kind", [Z3, Cvc5])
def test_no_clock_runs_unless_one_is_asked_for(kind: type[Solver], monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> float:
        raise AssertionError("a clock was looked at")

    monkeypatch.setattr(time, "monotonic", none)
    with kind() as ask:
        assert ask([], TRUE)
    with kind(seconds=1000) as ask, pytest.raises(AssertionError):
        ask([], TRUE)
