"""Terms that tests of the kernel speak of, and contexts that know something of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_oracle import ask

from catdiag.kernel.context import Context
from catdiag.kernel.facts import Fact
from catdiag.kernel.terms import ZERO, Term, bound, fn, idx, num, read, size

A, B, C, E = read("A"), read("B"), read("C"), read("E")
N, M, V, HERE, TWO = size("n"), size("m"), idx("v"), bound(0), num(2)
ELEMENTS = {"A": "real", "B": "real", "C": "real", "X": "real", "Y": "real", "E": "extended", "EX": "extended"}
POSITIVE = fn("lt", ZERO, A)


def knows(*facts: Term | Fact, solver: Any = ask, **ranges: Term) -> Context:
    return Context(solver, ranges, tuple(f if isinstance(f, Fact) else Fact((), (), f) for f in facts), ELEMENTS)


def no_solver(hypotheses: Sequence[Term], goal: Term) -> bool:
    return False


def alone(*facts: Term | Fact, **ranges: Term) -> Context:
    """A context that knows what it knows without a solver."""
    return knows(*facts, solver=no_solver, **ranges)


def every(n: Term, condition: Term) -> Fact:
    return Fact((("v", n),), (), condition)


def always(*args: Any, **named: Any) -> bool:
    """A judgement that refuses nothing."""
    return True


def never(*args: Any, **named: Any) -> bool:
    return False


def loose_positions(args: Any, chosen: Any) -> Any:
    """`rule_arguments.positions` without its checks."""
    return [args[k] for k in chosen], [a for k, a in enumerate(args) if k not in chosen]
