"""Stored certificates with random changes, in statements, steps and arguments: refused, or still the truth."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from catdiag.kernel.checker import CheckedTheorem, Checker
from catdiag.kernel.rewrite_rules import RULES
from catdiag.kernel.terms import KernelError
from catdiag.prover.refute.counterexample_search import refute
from catdiag.solvers.z3 import Z3, SolverInterrupted

PROOFS = Path(__file__).resolve().parents[2] / "proofs"
NAMES = sorted(file.stem for file in PROOFS.glob("*.json"))
STREAMS = [name for name in NAMES if name.startswith(("stream_", "skip_"))]
# Derivations are of one form: each of the others is changed, and some of these; the soak changes all.
CHANGED = [name for name in NAMES if name not in STREAMS] + STREAMS[3::10]
SHORT = [name for name in CHANGED if (PROOFS / f"{name}.json").stat().st_size < 8000]
CHANGES = 12

Json = dict[str, Any]
Place = tuple[Any, Any]


@pytest.fixture(scope="module")
def ask() -> Iterator[Z3]:
    with Z3(rlimit=500_000) as solver:
        yield solver


def places(data: Any, wanted: Callable[[Any, Any], bool] = lambda key, value: True) -> list[Place]:
    """The (container, key) pairs inside plain data whose key and value are wanted."""
    found: list[Place] = []
    stack = [data]
    while stack:
        item = stack.pop()
        keys = list(item) if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else []
        for key in keys:
            if key == "title":
                continue
            if wanted(key, item[key]):
                found.append((item, key))
            stack.append(item[key])
    return found


def steps_of(certificate: Json) -> list[Place]:
    """The lists of steps."""
    return places(
        certificate["proof"],
        lambda _, v: isinstance(v, list) and v != [] and isinstance(v[0], list) and v[0][:1] != []
        and isinstance(v[0][0], str) and v[0][0] in RULES,
    )  # fmt: skip


WORDS: dict[str, list[str]] = {
    "fn": ["exp", "neg", "add", "sub", "mul", "div", "max", "min", "log", "sqrt", "abs", "sigmoid", "tanh", "lt", "eq",
           "erf", "sin", "cos", "sign", "floor", "ceil", "round"],
    "monoid": ["sum", "max", "min", "prod"],
    "element": ["real", "extended", "int", "bool"],
    "value": ["0", "1", "-1", "2", "1/2", "-inf"],
    "op": ["map", "reduce", "view", "index", "size", "const"],
    "close": ["ring", ""],
}  # fmt: skip


def of_statement(certificate: Json, rng: random.Random) -> None:
    """Another word, name, number, order or length somewhere in the two programs or the assumptions."""
    container, key = rng.choice(places(certificate["statement"]))
    old = container[key]
    if key in WORDS and isinstance(container, dict):
        container[key] = rng.choice([w for w in WORDS[key] if w != old])
    elif isinstance(old, bool):
        container[key] = not old
    elif isinstance(old, int):
        container[key] = max(0, old + rng.choice([-2, -1, 1, 2]))
    elif isinstance(old, str):
        others = {c[k] for c, k in places(certificate["statement"], lambda _, v: isinstance(v, str))}
        container[key] = rng.choice(sorted(others - {old}) or ["x"])
    else:
        of_structure(certificate["statement"], rng)


def of_structure(data: Any, rng: random.Random) -> None:
    """Something left out, doubled, exchanged, or put in the place of something else."""
    found = places(data, lambda _, v: isinstance(v, (list, dict)) and len(v) > 0)
    if not found:
        return
    container, key = rng.choice(found)
    item = container[key]
    keys = list(item) if isinstance(item, dict) else list(range(len(item)))
    kind = rng.choice(["out", "double", "exchange", "replace"])
    one, other = rng.choice(keys), rng.choice(keys)
    if kind == "out":
        del item[one]
    elif kind == "double" and isinstance(item, list):
        item.insert(one, copy.deepcopy(item[one]))
    elif kind == "exchange":
        item[one], item[other] = item[other], item[one]
    else:
        another, place = rng.choice(found)
        container[key] = copy.deepcopy(another[place])


def of_steps(certificate: Json, rng: random.Random) -> None:
    """One list of steps: a step left out, doubled, moved, of another rule, at another place, with other arguments."""
    found = steps_of(certificate)
    if not found:
        of_structure(certificate["proof"], rng)
        return
    container, key = rng.choice(found)
    steps = container[key]
    k = rng.randrange(len(steps))
    step = steps[k]
    if not isinstance(step, list) or len(step) < 2 or not isinstance(step[1], list) or not all(map(_is_place, step[1])):
        # Two changes may meet in one step.
        of_structure(certificate["proof"], rng)
        return
    kind = rng.choice(["out", "double", "move", "rule", "path", "deeper", "arguments", "more"])
    if kind == "out":
        del steps[k]
    elif kind == "double":
        steps.insert(k, copy.deepcopy(step))
    elif kind == "move":
        steps.insert(rng.randrange(len(steps)), steps.pop(k))
    elif kind == "rule":
        step[0] = rng.choice(sorted(RULES))
    elif kind == "path" and step[1]:
        at = rng.randrange(len(step[1]))
        step[1][at] = max(0, step[1][at] + rng.choice([-1, 1]))
    elif kind == "deeper" or (kind == "path" and not step[1]):
        step[1].append(rng.randrange(2))
    elif kind == "arguments" and step[2:]:
        step[2:] = [_other(argument, rng) for argument in step[2:]]
    else:
        step.append(rng.choice([0, 1, [0], [1]]))


def _is_place(k: Any) -> bool:
    return type(k) is int


def _other(argument: Any, rng: random.Random) -> Any:
    if isinstance(argument, int):
        return argument + rng.choice([-1, 1])
    if isinstance(argument, list) and argument:
        changed = copy.deepcopy(argument)
        inside = places(changed, lambda _, v: isinstance(v, (int, str)))
        container, key = rng.choice(inside) if inside else (changed, 0)
        value = container[key]
        container[key] = value + rng.choice([-1, 1]) if isinstance(value, int) else rng.choice(["0", "1", "size", "x"])
        return changed
    return [0]


def of_proof(certificate: Json, rng: random.Random) -> None:
    """The shape of the proof: cases left out or exchanged, conditions, sizes, what closes."""
    proof = certificate["proof"]
    cases = places(proof, lambda key, _: key in ("cases", "when", "close", "as"))
    if cases and rng.random() < 0.5:
        container, key = rng.choice(cases)
        if key == "close":
            del container[key]
        elif key == "when":
            container[key] = _other(container[key], rng)
        elif key == "as":
            container[key] = str(rng.randrange(3))
        else:
            container[key] = rng.choice(["x", "y", "q", "d", "%a", "%b", "%n"])
        return
    of_structure({"all": proof}, rng)


KINDS = [of_statement, of_statement, of_steps, of_steps, of_proof]


def told(theorem: CheckedTheorem) -> tuple[Any, ...]:
    return theorem.statement, theorem.hypotheses, theorem.defined, theorem.conditions


def changed(certificate: Json, rng: random.Random, rounds: int, ask: Z3) -> Counter[str]:
    """Random changes: each is refused, proves the same, or proves something else that nothing refutes."""
    counts: Counter[str] = Counter()
    original = told(Checker(ask).check(certificate))
    for _ in range(rounds):
        hurt = copy.deepcopy(certificate)
        kinds = [rng.choice(KINDS) for _ in range(rng.choice((1, 1, 1, 2)))]
        for kind in kinds:
            kind(hurt, rng)
        if hurt == certificate:
            continue
        try:
            theorem = Checker(ask).check(hurt)
        except (KernelError, SolverInterrupted):
            counts["refused"] += 1
            continue
        if hurt["statement"] == certificate["statement"]:
            # A step that was not needed, or another way: the theorem is the one that is proved, or says less.
            assert told(theorem)[:3] == original[:3]
            counts["another proof"] += 1
            continue
        counts["another theorem"] += 1
        found = refute(hurt["statement"], tries=12, operations=4_000_000)
        assert found is None, f"{theorem}\n{found}\n{json.dumps(hurt)}"
    return counts


@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_certificate_is_refused_or_true(name: str, ask: Z3) -> None:
    certificate = json.loads((PROOFS / f"{name}.json").read_text(encoding="utf-8"))
    rounds = CHANGES if len(json.dumps(certificate)) < 6000 else CHANGES // 2
    counts = changed(certificate, random.Random(name), rounds, ask)
    assert counts["refused"] > 0, counts


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(10))
def test_changed_certificates_soak(name: str, seed: int, ask: Z3) -> None:
    certificate = json.loads((PROOFS / f"{name}.json").read_text(encoding="utf-8"))
    changed(certificate, random.Random(f"{name} {seed}"), 100, ask)


@pytest.mark.parametrize("name", SHORT[::5])
def test_a_word_of_the_statement_that_matters(name: str, ask: Z3) -> None:
    """Every function and reduction of a program that a result depends on, replaced in turn by another."""
    certificate = json.loads((PROOFS / f"{name}.json").read_text(encoding="utf-8"))
    other = {"add": "sub", "sub": "add", "mul": "add", "div": "mul", "exp": "neg", "max": "min", "min": "max",
             "sum": "max", "prod": "sum", "log": "exp", "sqrt": "exp"}  # fmt: skip
    for key in ("fn", "monoid"):
        count = len(places(certificate["statement"], lambda k, v, key=key: k == key and v in other))  # type: ignore[misc]
        for number in range(count):
            hurt = copy.deepcopy(certificate)
            container, _ = places(hurt["statement"], lambda k, v, key=key: k == key and v in other)[number]  # type: ignore[misc]
            container[key] = other[container[key]]
            try:
                theorem = Checker(ask).check(hurt)
            except KernelError:
                continue
            found = refute(hurt["statement"], tries=12, operations=4_000_000)
            assert found is None, f"{theorem}\n{found}"
