"""Certificates of real derivations: they survive JSON and a fresh process, and no damaged one proves what is false."""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from kernel_programs import GOOD_STEP, apply, array, by, certificate, const, program, reduce, sum_fold

import catdiag as cd
from catdiag import library
from catdiag.kernel.checker import Checker
from catdiag.kernel.terms import KernelError
from catdiag.prover.api import statement_of
from catdiag.prover.proof_search import find
from catdiag.prover.refute.counterexample_search import refute
from catdiag.prover.refute.exact_reals import Unclear, Undefined
from catdiag.solvers.z3 import Z3, SolverInterrupted
from tests.fuzz.certificates import parts

Json = dict[str, Any]


def _real_ones() -> dict[str, Json]:
    attention = library.get("attention")
    lse = cd.algorithm("q x")(lambda A: cd.max(A, "x") + cd.log(cd.sum(cd.exp(A - cd.max(A, "x")), "x")))
    variance = cd.algorithm("x")(lambda A: cd.mean((A - cd.mean(A, "x")) * (A - cd.mean(A, "x")), "x"))
    matmul = cd.algorithm("a b, b c")(lambda A, B: cd.einsum("a b, b c -> a c", A, B))
    left = cd.algorithm("a b, b c, c d")(
        lambda A, B, C: cd.einsum("a c, c d -> a d", cd.einsum("a b, b c -> a c", A, B), C)
    )
    right = cd.algorithm("a b, b c, c d")(
        lambda A, B, C: cd.einsum("a b, b d -> a d", A, cd.einsum("b c, c d -> b d", B, C))
    )
    shift = cd.algorithm("x, ")(lambda A, C: cd.softmax(A + C, "x"))
    plain = cd.algorithm("x, ")(lambda A, C: cd.softmax(A, "x") + 0 * C)
    return {
        "attention": attention.stream("x").group("q").theorem.certificate,
        "log-sum-exp": lse.stream("x").theorem.certificate,
        "variance": variance.stream("x").theorem.certificate,
        "matmul": matmul.stream("b").group("a c").theorem.certificate,
        "associativity": cd.prove(left, right).certificate,
        "shift": cd.prove(shift, plain).certificate,
    }


@pytest.fixture(scope="module")
def real_ones() -> dict[str, Json]:
    return _real_ones()


@pytest.fixture(scope="module")
def ask() -> Iterator[Z3]:
    with Z3(rlimit=500_000) as solver:
        yield solver


def test_a_certificate_is_the_same_after_json(real_ones: dict[str, Json], ask: Z3) -> None:
    for name, made in real_ones.items():
        back = json.loads(json.dumps(made))
        assert back == made, name
        assert not Checker(ask).check(back).conditional, name


ALONE = """
import json, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[:2] in (["catdiag", "prove"], ["catdiag", "rewrite"]) or name in ("sympy", "numpy"):
            raise ImportError(name + " is blocked")
sys.meta_path.insert(0, Blocked())
from catdiag.kernel.checker import Checker
from catdiag.solvers.z3 import Z3
with Z3() as ask:
    for made in json.load(sys.stdin):
        print(Checker(ask).check(made).steps)
"""


def test_a_fresh_process_without_the_prover_checks_them(real_ones: dict[str, Json]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ALONE],
        input=json.dumps(list(real_ones.values())),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert all(int(line) > 0 for line in done.stdout.split()) and len(done.stdout.split()) == len(real_ones)


# -- damage ------------------------------------------------------------------------------------------


_OTHERS: dict[str, list[str]] = {
    "fn": ["exp", "neg", "add", "sub", "mul", "div", "max", "min", "log", "sqrt", "abs"],
    "monoid": ["sum", "max", "min", "prod"],
    "element": ["real", "extended", "int", "bool"],
    "value": ["0", "1", "-1", "2", "1/2", "-inf"],
}


def damage(made: Json, rng: random.Random) -> str:
    """One random change to a certificate, made in place: of its statement or of its proof."""
    places = [p for p in parts(made["statement" if rng.random() < 0.6 else "proof"]) if p[1] != "title"]
    container, key = rng.choice(places)
    old = container[key]
    if key in _OTHERS and isinstance(container, dict):
        container[key] = rng.choice(_OTHERS[key])
    elif isinstance(old, bool):
        container[key] = not old
    elif isinstance(old, int):
        container[key] = max(0, old + rng.choice([-1, 1, 2]))
    elif isinstance(old, str):
        alike = sorted({c[k] for c, k in places if isinstance(c[k], str) and (k == key or isinstance(k, int))})
        container[key] = rng.choice(alike or ["x"])
    elif isinstance(old, list) and len(old) > 1 and rng.random() < 0.5:
        i, j = rng.sample(range(len(old)), 2)
        old[i], old[j] = old[j], old[i]
    elif isinstance(old, list) and old and rng.random() < 0.7:
        old.pop(rng.randrange(len(old)))
    elif isinstance(container, dict) and rng.random() < 0.5:
        del container[key]
    else:
        container[key] = copy.deepcopy(rng.choice(places)[0])
    return f"{key}: {str(old)[:60]}"


def survive(made: Json, rng: random.Random, rounds: int, ask: Z3) -> Counter[str]:
    """Damaged certificates must be refused, or say what is true."""
    counts: Counter[str] = Counter()
    for _ in range(rounds):
        hurt = copy.deepcopy(made)
        what = [damage(hurt, rng) for _ in range(rng.choice((1, 1, 1, 2)))]
        if hurt == made:
            continue
        try:
            theorem = Checker(ask).check(hurt)
        except (KernelError, SolverInterrupted):
            counts["refused"] += 1
            continue
        counts["accepted"] += 1
        if hurt["statement"] == made["statement"] or theorem.conditional:
            continue
        counts["another theorem"] += 1
        try:
            found = refute(hurt["statement"], tries=40)
        except (Undefined, Unclear):
            continue
        assert found is None, f"{what}\n{theorem}\n{found}\n{json.dumps(hurt['statement'])}"
    return counts


def test_damaged_certificates_prove_nothing_false(real_ones: dict[str, Json], ask: Z3) -> None:
    total: Counter[str] = Counter()
    for name, made in real_ones.items():
        total += survive(made, random.Random(name), 40, ask)
    assert total["refused"] >= 100 and total["another theorem"] >= 3, total


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_damaged_certificates_soak(seed: int, real_ones: dict[str, Json], ask: Z3) -> None:
    for name, made in real_ones.items():
        survive(made, random.Random(f"{name} {seed}"), 400, ask)


def test_each_step_is_needed(real_ones: dict[str, Json], ask: Z3) -> None:
    """Without a proof of its outputs, or of its loops, no certificate is accepted."""
    for name, made in real_ones.items():
        for part in ("outputs", "folds"):
            if made["proof"].get(part):
                hurt = {**made, "proof": {k: v for k, v in made["proof"].items() if k != part}}
                with pytest.raises(KernelError):
                    Checker(ask).check(hurt)
        assert made["proof"], name


# -- malformed data ----------------------------------------------------------------------------------


def _deep(levels: int) -> Any:
    data: Any = "n"
    for _ in range(levels):
        data = ["+", data, 1]
    return data


def _malformed() -> list[Any]:
    good = certificate(
        program([array("A", "x")], [reduce("sum", "x", 0)], 1), program([array("A", "x")], [sum_fold(GOOD_STEP, 3)], 1)
    )

    def at(*path: Any, value: Any) -> Json:
        made: Any = copy.deepcopy(good)
        item = made
        for key in path[:-1]:
            item = item[key]
        item[path[-1]] = value
        return made  # type: ignore[no-any-return]

    junk: list[Any] = [None, True, -1, 0, 1e300, float("nan"), float("inf"), 10**5000]
    junk += ["", "x", "%0", [], [[]], [None], {}, {"a": 1}]
    places: list[tuple[Any, ...]] = [
        ("format",), ("version",), ("statement",), ("proof",), ("statement", "left"), ("statement", "assume"),
        ("statement", "right", "nodes"), ("statement", "right", "inputs"), ("statement", "right", "outputs"),
        ("statement", "right", "title"), ("statement", "left", "inputs", 0, "name"),
        ("statement", "left", "inputs", 0, "axes"), ("statement", "left", "inputs", 0, "element"),
        ("statement", "left", "nodes", 0), ("statement", "left", "nodes", 0, "op"),
        ("statement", "left", "nodes", 0, "args"),
        ("statement", "left", "nodes", 0, "axis"), ("statement", "left", "nodes", 0, "monoid"),
        ("statement", "left", "outputs", 0), ("statement", "right", "nodes", 0, "block"),
        ("statement", "right", "nodes", 0, "step"), ("statement", "right", "nodes", 0, "args"), ("proof", "folds"),
        ("proof", "outputs"), ("proof", "facts"), ("proof", "defined"),
    ]  # fmt: skip
    found: list[Any] = [at(*place, value=bad) for place in places for bad in junk]
    found += junk
    number = program([], [const("1")], 0)
    for value in ("1e999999999", "1/0", "0x10", " 1", "1_000", "nan", "inf", "9" * 5000, 1, 0.5, True, None, "１"):
        found.append(certificate(program([], [const(value)], 0), number))  # type: ignore[arg-type]
    for steps in ("ring", [["ring"]], [["no rule", []]], [["ring", "0"]], [["ring", [True]]], [["ring", [-1]]],
                  [["ring", [10**30]]], [["ring", [], 1]], [["pull", [], "0"]], [["pull", [], [0, 0]]], [[None, []]],
                  [[["ring"], []]], {"0": 1}, [["constant", [0] * 10_000]]):  # fmt: skip
        two = program([array("A", "x")], [const("2"), apply("mul", 1, 0), reduce("sum", "x", 2)], 3)
        found.append(
            certificate(two, program([array("A", "x")], [const("0")], 1), {"outputs": {"0": {"steps": steps}}})
        )  # type: ignore[arg-type]
    nested: Any = {}
    for _ in range(3000):
        nested = {"cases": "x", "zero": nested, "more": nested}
    found.append(certificate(number, program([], [const("2")], 0), {"outputs": {"0": nested}}))
    # "when": terms of the wrong form, and "as": not a number
    for when in (
        None,
        "x",
        [],
        ["lt"],
        ["lt", None, []],
        ["real", None, [["num", "0", []]]],
        ["holds", 5, []],
        ["lt", None, [["idx", "%0", []], ["num", "0", []]]],
        ["true", "x", []],
        ["big", "sum", []],
    ):
        proof = {"outputs": {"0": {"when": when, "yes": {}, "no": {}}}}
        found.append(certificate(number, program([], [const("2")], 0), proof))
    for size in (_deep(5000), -1, True, 1.5, ["-", "n", 1], ["+", "n"], ["+", "n", "n", "n"], "", None, "%a"):
        found.append(certificate(program([array("A", "x", x=size)], [], 0), program([array("A", "x", x=size)], [], 0)))
    # a sharing tower whose term has 2^200 parts, and a power tower
    tower = [apply("mul", k, k) for k in range(200)]
    one = program([array("A")], [const("1")], 1)
    found.append(certificate(program([array("A")], tower, 200), one, by(close="field")))
    power = [const("3")]
    for k in range(0, 80, 4):
        power += [apply("log", k), const("15000"), apply("mul", k + 1, k + 2), apply("exp", k + 3)]
    found.append(certificate(program([], power, len(power) - 1), number, by(close="field")))
    found.append(certificate(number, number, {}, (("eq", "%a", 0),)))
    return found


def test_malformed_certificates_are_refused_at_once_and_in_one_way(ask: Z3, calls: Any) -> None:
    def check(made: Json) -> None:
        try:
            theorem = Checker(ask).check(made)
        except KernelError:
            pass
        else:
            # A title may be missing or say anything; a proof may have parts that no one reads.
            assert refute(made["statement"], tries=20) is None, theorem

    work = []
    for made in _malformed():
        work.append(calls(partial(check, made)))
    assert work[-1] < 2_000_000, str(made)[:300]


def test_a_searched_certificate_of_a_false_statement_is_not_found(ask: Z3, real_ones: dict[str, Json]) -> None:
    """The finder shares the checker's code: what it finds for a damaged statement is checked afresh, and true."""
    rng = random.Random(5)
    from catdiag.prover.proof_search import OpenGoal

    counts: Counter[str] = Counter()
    for _ in range(40):
        statement = copy.deepcopy(rng.choice(list(real_ones.values()))["statement"])
        original = copy.deepcopy(statement)
        damage({"statement": statement, "proof": statement}, rng)
        if statement == original:
            continue
        try:
            theorem = Checker(ask).check(find(ask, statement))
        except (KernelError, OpenGoal, SolverInterrupted, TypeError):
            counts["not found"] += 1
            continue
        counts["found"] += 1
        if not theorem.conditional:
            assert refute(statement, tries=30) is None
    assert counts["not found"] >= 10, counts


def test_the_statement_of_a_proof_is_that_of_the_programs() -> None:
    f = cd.algorithm("x")(lambda A: cd.sum(2 * A, "x"))
    g = cd.algorithm("x")(lambda A: 2 * cd.sum(A, "x"))
    assert cd.prove(f, g).certificate["statement"] == statement_of(f.diagram, g.diagram)
