"""Goals in z3's terms, in the child process."""

from __future__ import annotations

import json
from typing import Any


def _symbol(sort: Any, context: Any, key: str, names: dict[str, Any]) -> Any:
    """The symbol for a key, made where there is none. Symbols have numbers: z3 reads a name up to the first zero."""
    if key not in names:
        names[key] = sort(f"x{len(names)}", context)
    return names[key]


def _build(z3: Any, context: Any, t: Any, names: dict[str, Any], also: list[Any]) -> Any:
    """A z3 expression in a context; `also` gets what defines the symbols made for floors of quotients."""
    op, data, args = t
    if op == "num":
        return z3.Q(*map(int, data.split("/")), context) if "/" in data else z3.IntVal(int(data), context)
    if op == "atom":
        return _symbol(z3.Real, context, f"atom {data}", names)
    if op == "prop":
        return _symbol(z3.Bool, context, f"prop {data}", names)
    if op in ("size", "idx"):
        return _symbol(z3.Int, context, f"{op} {data}", names)
    if op in ("true", "false"):
        return z3.BoolVal(op == "true", context)
    parts = [_build(z3, context, a, names, also) for a in args]
    if op == "add":
        return z3.Sum(parts) if parts else z3.IntVal(0, context)
    if op == "mul":
        return z3.Product(parts) if parts else z3.IntVal(1, context)
    if op == "and":
        return z3.And(*parts, context)
    if op == "or":
        return z3.Or(*parts, context)
    if op == "not":
        return z3.Not(parts[0])
    left, right = parts
    if op == "div":
        # By what it is between: z3's own division by a symbol says less to it.
        floor = _symbol(z3.Int, context, f"floor {json.dumps(args)}", names)
        also.append(z3.If(right > 0, z3.And(right * floor <= left, left < right * floor + right), floor == 0))
        return floor
    if op == "lt":
        return left < right
    if op == "le":
        return left <= right
    if op == "eq":
        return left == right
    raise ValueError(f"no condition: {op}")


_OF_REALS = 5
"""The part of the work that a question about reals may take: products of them can take any, and what is not soon found
rarely is."""


def _speaks_of(t: Any, op: str) -> bool:
    return t[0] == op or any(_speaks_of(a, op) for a in t[2])


def answer(request: dict[str, Any]) -> str:
    """Whether the hypotheses entail the goal over naturals (sizes), integers (indices), reals (atoms), truth values."""
    return worked_out(request)[0]


def worked_out(request: dict[str, Any]) -> tuple[str, int]:
    """The answer, and the work that it took.

    Each goal has a context of its own: in one that has seen others, the same goal takes other paths, and more or less
    work.
    """
    import z3

    names: dict[str, Any] = {}
    also: list[Any] = []
    context = z3.Context()
    solver = z3.Solver(ctx=context)
    reals = any(_speaks_of(t, "atom") for t in (*request["hypotheses"], request["goal"]))
    solver.set("rlimit", int(request["rlimit"]) // _OF_REALS if reals else int(request["rlimit"]))
    solver.set("random_seed", 0)
    for h in request["hypotheses"]:
        solver.add(_build(z3, context, h, names, also))
    solver.add(z3.Not(_build(z3, context, request["goal"], names, also), context))
    solver.add(*also)
    for name, symbol in names.items():
        if name.startswith("size "):
            solver.add(symbol >= 0)
    result = solver.check()
    return "yes" if result == z3.unsat else "no" if result == z3.sat else "unknown", _work(solver)


def _work(solver: Any) -> int:
    said = solver.statistics()
    return int(said.get_key_value("rlimit count")) if "rlimit count" in said.keys() else 0  # noqa: SIM118
