"""Small countermodels: what they are said to refute is false of them."""

from __future__ import annotations

import random

from catdiag.kernel.terms import Term, add, fn, idx, mul, num, size
from catdiag.solvers.countermodels import countermodel, value
from catdiag.solvers.z3 import Z3


def _term(rng: random.Random, depth: int) -> Term:
    if depth == 0 or rng.random() < 0.3:
        return rng.choice([num(rng.randrange(-1, 4)), size("n"), size("m"), idx("i"), idx("j")])
    if rng.random() < 0.2:
        return fn("div", _term(rng, depth - 1), rng.choice([size("n"), num(2)]))
    return rng.choice([add, mul])(_term(rng, depth - 1), _term(rng, depth - 1))


def _condition(rng: random.Random) -> Term:
    c = fn(rng.choice(["lt", "le", "eq"]), _term(rng, 2), _term(rng, 1))
    return fn("not", c) if rng.random() < 0.2 else c


def test_a_countermodel_meets_the_hypotheses_and_not_the_goal_and_the_solver_agrees() -> None:
    rng = random.Random(3)
    found = 0
    ranges = [fn("le", num(0), idx(i)) for i in "ij"] + [fn("lt", idx("i"), size("n")), fn("lt", idx("j"), size("m"))]
    with Z3(rlimit=200_000) as ask:
        for k in range(400):
            hypotheses = [*ranges, *(_condition(rng) for _ in range(rng.randrange(3)))]
            goal = _condition(rng)
            at = countermodel(hypotheses, goal)
            if at is None:
                continue
            found += 1
            assert all(value(h, at) for h in hypotheses) and not value(goal, at)
            assert all(v >= 0 for name, v in at.items())
            if k % 20 == 0:
                assert ask._put([_data(h) for h in hypotheses], _data(goal)) != "yes"
    assert found > 200


def _data(t: Term) -> object:
    from catdiag.kernel.terms import term_data

    return term_data(t)


def test_a_goal_refuted_by_small_numbers_starts_no_solver() -> None:
    with Z3() as ask:
        assert not ask([fn("le", num(1), size("n"))], fn("lt", num(3), size("n")))
        assert ask._process is None
        assert ask([fn("lt", num(3), size("n"))], fn("le", num(1), size("n")))
        assert ask._process is not None
