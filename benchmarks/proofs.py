"""The times of proofs: the theorems of `proofs/`, z3 beside cvc5 on their goals, closed forms beside sympy's `solve`.

Each is run in a fork of a process that has everything loaded, so that what one keeps helps no other; what counts is the
CPU time of the fork and of the processes that it starts.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import resource
import statistics
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "proofs"))

LIMIT = 10
"""Seconds of computing for a proof or a closed form."""
GOAL = 5
"""Seconds of computing for a goal: as the checker bounds its second solver."""


def forked(run: Callable[[], Any], seconds: int) -> tuple[Any, float]:
    """What a function gives in a fork, as JSON would have it (None where it ends without), and the CPU seconds."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(source)
        used = resource.getrusage(resource.RUSAGE_SELF)
        most = int(used.ru_utime + used.ru_stime) + seconds + 1
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))
        try:
            os.write(sink, json.dumps(run()).encode()[:60_000])
            # Ends the processes of solvers, whose time is counted once they have ended.
            atexit._run_exitfuncs()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(sink)
    with os.fdopen(source) as pipe:
        text = pipe.read()
    _, _, usage = os.wait4(child, 0)
    with contextlib.suppress(ValueError):
        return json.loads(text), usage.ru_utime + usage.ru_stime
    return None, usage.ru_utime + usage.ru_stime


def theorems(names: Sequence[str]) -> dict[str, Any]:
    """By theorem: seconds to prove it (or to derive, run and prove), seconds to check its certificate, steps, goals."""
    import make

    import catdiag.codegen.numpy_source
    import catdiag.prover.api
    import catdiag.rewrite.derivation  # noqa: F401
    from catdiag.kernel.checker import Checker
    from catdiag.solvers.z3 import Z3

    def check(name: str) -> list[int]:
        certificate = json.loads((ROOT / "proofs" / f"{name}.json").read_text(encoding="utf-8"))
        with Z3() as ask:
            theorem = Checker(ask).check(certificate)
        return [theorem.steps, theorem.goals]

    found = {}
    for name in names:
        _, proving = forked(lambda name=name: bool(make.theorem(name)), LIMIT)
        counts, checking = forked(lambda name=name: check(name), LIMIT)
        found[name] = {"prove": proving, "check": checking, "steps": counts[0], "goals": counts[1]}
        print(name, found[name], flush=True)
    return found


def goals(names: Sequence[str]) -> list[dict[str, Any]]:
    """What the checker asks a solver for the certificates of these theorems, each goal once."""
    from catdiag.kernel.checker import Checker
    from catdiag.kernel.terms import term_data
    from catdiag.solvers.countermodels import countermodel
    from catdiag.solvers.z3 import Z3

    found: dict[str, dict[str, Any]] = {}
    with Z3() as solver:

        def ask(hypotheses: Any, goal: Any) -> bool:
            # What small numbers refute is put to no solver.
            if countermodel(hypotheses, goal) is None:
                request = {"hypotheses": [term_data(h) for h in hypotheses], "goal": term_data(goal)}
                found.setdefault(json.dumps(request), request)
            return solver(hypotheses, goal)

        for name in names:
            Checker(ask).check(json.loads((ROOT / "proofs" / f"{name}.json").read_text(encoding="utf-8")))
    return list(found.values())


def solvers(names: Sequence[str]) -> dict[str, Any]:
    """z3 beside cvc5 on the goals, with the limits that the checker sets: answers, and seconds a goal."""
    import cvc5
    import z3

    from catdiag.solvers import cvc5_encoding, z3_encoding

    asked = goals(names)
    found: dict[str, Any] = {"goals": len(asked)}
    answers: dict[str, list[str]] = {}
    for solver, answer, rlimit in (("z3", z3_encoding.answer, 20_000_000), ("cvc5", cvc5_encoding.answer, 200_000)):
        rows = [
            forked(lambda a=answer, r=request, n=rlimit: a({**r, "rlimit": n, "seconds": GOAL}), GOAL)
            for request in asked
        ]
        answers[solver] = [said or "unknown" for said, _ in rows]
        times = [seconds for _, seconds in rows]
        found[solver] = {
            **{a: answers[solver].count(a) for a in ("yes", "no", "unknown")},
            "sum": sum(times), "median": statistics.median(times), "worst": max(times),
        }  # fmt: skip
    pairs = list(zip(answers["z3"], answers["cvc5"], strict=True))
    found["opposite"] = sum({a, b} == {"yes", "no"} for a, b in pairs)
    found["only z3"] = sum(a == "yes" and b == "unknown" for a, b in pairs)
    found["only cvc5"] = sum(b == "yes" and a == "unknown" for a, b in pairs)
    # Forking and ending a process of this size takes some of it.
    found["nothing"] = statistics.median([forked(lambda: "", GOAL)[1] for _ in range(20)])
    assert z3 and cvc5
    return found


def closed_forms() -> dict[str, Any]:
    """The optimum in closed form, by `minimize` and by `sympy.solve` of what Lagrange's method says."""
    import sympy

    from catdiag.optimum.minimize import minimize

    a, b, c, d, q, x, s, M = sympy.symbols("a b c d q x s M", positive=True)
    g, h, k, m = sympy.symbols("g h k lambda", positive=True)
    problems = {
        "matrix product, leading order": (a * b * c / g + a * b * c / h, g * h, [g, h]),
        "matrix product, blocks of length s": (a * b * c / g + a * b * c / h + a * c, g * h + g * s + s * h, [g, h]),
        "attention, leading order": (2 * d * q + 2 * d * q * x / g, 2 * d * g, [g]),
        "attention, blocks of length s": (2 * d * q + 2 * d * q * x / g, 2 * d * g + 2 * d * s + g * s + 3 * g, [g]),
        "product over three tiles": (a * b * c / g + a * b * c / h + a * b * c / k, g * h * k, [g, h, k]),
        "three tiles, faces held": (
            a * b * c * (1 / (g * h) + 1 / (h * k) + 1 / (g * k)), g * h + h * k + g * k, [g, h, k]),
        "two tiles, unequal powers": (a * b / g**2 + b * c / h, g * h**2, [g, h]),
        "tile and its square held": (q * x * d / g, g**2 + 2 * d * g, [g]),
    }  # fmt: skip
    found = {}
    for name, (moved, held, tiles) in problems.items():

        def ours(moved: Any = moved, held: Any = held, tiles: Any = tiles) -> str:
            streams = [v for v in (s,) if v in held.free_symbols]
            optimum = minimize(moved, held, tiles, streams, M)
            return str(optimum.exact if optimum.exact is not None else "")

        def theirs(moved: Any = moved, held: Any = held, tiles: Any = tiles) -> str:
            lagrangian = moved + m * (held - M)
            solutions = sympy.solve([sympy.diff(lagrangian, v) for v in (*tiles, m)], [*tiles, m], dict=True)
            return "; ".join(str(moved.subs(solution)) for solution in solutions)

        results = {}
        for who, run in (("catdiag", ours), ("sympy", theirs)):
            form, seconds = forked(run, LIMIT)
            results[who] = {"seconds": seconds, "form": form}
        results["differ"] = _differ(results["catdiag"]["form"], results["sympy"]["form"])
        found[name] = results
        print(name, results, flush=True)
    return found


def _differ(mine: str | None, theirs: str | None) -> bool | None:
    """Whether no form of the other's has our value at some sizes; None where one has no form."""
    import sympy

    if not mine or not theirs:
        return None
    names = {n: sympy.Symbol(n, positive=True) for n in ("a", "b", "c", "d", "q", "x", "s", "M")}
    at = dict(zip(names.values(), (70, 110, 130, 64, 4096, 2048, 16, 10**6), strict=True))
    ours = sympy.sympify(mine, locals=names).subs(at).evalf()
    others = [complex(sympy.sympify(t, locals=names).subs(at).evalf()) for t in theirs.split("; ")]
    return not any(abs(complex(ours) - t) < 1e-6 * abs(ours) for t in others)


def measured(every: int, keep: Callable[[dict[str, Any]], None]) -> None:
    """All three, on each so-many-th theorem; `keep` is told what is known so far."""
    import make

    names = make.names()[::every]
    found: dict[str, Any] = {"every": every, "of": len(make.names()), "closed forms": closed_forms()}
    keep(found)
    found["solvers"] = solvers(names)
    keep(found)
    found["theorems"] = theorems(names)
    keep(found)
