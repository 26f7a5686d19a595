"""Programs changed in one small place: a sign, a bound, a constant, an operation, an axis, a term left out."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

Json = Any

_FUNCTIONS = {
    "add": ("sub", "max"), "sub": ("add",), "mul": ("add", "max"), "div": ("mul",), "max": ("min", "add"),
    "min": ("max",), "exp": ("neg", "abs"), "log": ("sqrt",), "sqrt": ("abs",), "neg": ("abs",), "abs": ("neg",),
    "lt": ("le",), "le": ("lt",), "eq": ("ne", "le"), "ne": ("eq",), "and": ("or",), "or": ("and",),
    "tanh": ("sigmoid",), "sigmoid": ("tanh",), "floordiv": ("add",), "erf": ("tanh",), "sin": ("cos",),
    "cos": ("sin",), "sign": ("abs",), "floor": ("ceil",), "ceil": ("round",), "round": ("floor",),
}  # fmt: skip
_MONOIDS = {"sum": "max", "max": "min", "min": "max", "prod": "sum", "any": "all", "all": "any"}


def mutants(program: Json, rng: random.Random) -> Iterator[tuple[str, Json]]:
    """The program with one change, again and again, each with what was changed; some may mean what it meant before."""
    places = range(len(program["nodes"]))
    for _ in range(60 if places else 0):
        changed = copy.deepcopy(program)
        k = rng.choice(places)
        said = _change(changed, k, rng)
        if said and changed != program:
            yield f"node {k}: {said}", changed


def _change(program: Json, k: int, rng: random.Random) -> str:
    node = program["nodes"][k]
    op = node["op"]
    if op == "map":
        choices = ["function"] * (node["fn"] in _FUNCTIONS) * 2 + ["order", "argument"]
        what = rng.choice(choices)
        if what == "function":
            node["fn"] = rng.choice(_FUNCTIONS[node["fn"]])
            return str(node["fn"])
        if what == "order" and len(node["args"]) > 1:
            node["args"] = [*node["args"][:-2], node["args"][-1], node["args"][-2]]
            return "operands exchanged"
        place = rng.randrange(len(node["args"]))
        node["args"][place] = rng.randrange(len(program["inputs"]) + k)
        return f"operand {place} is {node['args'][place]}"
    if op == "reduce":
        node["monoid"] = _MONOIDS[node["monoid"]]
        return str(node["monoid"])
    if op == "const" and node["value"] != "-inf":
        node["value"] = rng.choice(["0", "1", "-1", "2", f"-{node['value']}".replace("--", "")])
        return str(node["value"])
    if op == "size" and isinstance(node["size"], str):
        node["size"] = ["+", node["size"], 1]
        return "a size and one"
    if op == "view":
        read = rng.choice(node["reads"])
        if read["where"] and rng.random() < 0.5:
            condition = rng.choice(read["where"])
            condition[0] = {"lt": "le", "le": "lt", "eq": "le"}[condition[0]]
            return f"condition {condition[0]}"
        if read["at"]:
            axis = rng.choice(sorted(read["at"]))
            read["at"][axis] = _expression(read["at"][axis], rng)
            return f"read at {read['at'][axis]}"
        if len(node["axes"]) > 1:
            one, two = rng.sample(range(len(node["axes"])), 2)
            a, b = node["axes"][one], node["axes"][two]
            if a[1] == b[1]:
                read["at"] = {a[0]: ["i", b[0]], b[0]: ["i", a[0]]}
                return "transposed"
    return ""


def _expression(e: Json, rng: random.Random) -> Json:
    """An index expression with one more, with one part left out, or with another number."""
    if isinstance(e, int):
        return e + rng.choice((1, -1))
    if isinstance(e, list) and len(e) == 3 and rng.random() < 0.7:
        k = rng.choice((1, 2))
        if rng.random() < 0.3 and e[0] == "+":
            return e[k]
        return [e[0], *(_expression(part, rng) if j == k else part for j, part in enumerate(e[1:], 1))]
    return ["+", e, rng.choice((1, -1))]
