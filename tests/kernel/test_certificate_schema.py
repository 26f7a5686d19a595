"""The published schema of certificates says what the checker takes: what breaks the one is refused by the other."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

import catdiag as cd
from catdiag.kernel.checker import VERSION, Checker
from catdiag.kernel.rewrite_rules import RULES
from catdiag.kernel.semantics import Wire, reduction, scalar
from catdiag.kernel.terms import LOGICAL, NUMERIC, KernelError, bound, num, size
from catdiag.kernel.well_formed import DEEPEST, ELEMENTS, LONGEST, MOST
from catdiag.solvers.z3 import Z3, SolverInterrupted
from tests.fuzz.certificates import parts

Json = dict[str, Any]


@pytest.fixture(scope="module")
def ask() -> Iterator[Z3]:
    with Z3(rlimit=500_000) as solver:
        yield solver


@pytest.fixture(scope="module")
def made() -> dict[str, Json]:
    """Certificates with all kinds of nodes and proofs."""
    shift = cd.algorithm("x, ")(lambda A, C: cd.softmax(A + C, "x"))
    plain = cd.algorithm("x, ")(lambda A, C: cd.softmax(A, "x") + 0 * C)
    padded = cd.algorithm("x ->")(lambda A: cd.sum(cd.pad(A, "x", 2, 3), "2+x+3"))
    total = cd.algorithm("x ->")(lambda A: cd.sum(A, "x"))
    count = cd.algorithm("x ->")(lambda A: cd.size("x") + 0 * cd.sum(A, "x"))
    divided = cd.algorithm("x ->")(lambda A: cd.sum(A / A, "x"))
    return {
        "loop in groups": cd.library.get("attention").stream("x").group("q").theorem.certificate,
        "variance": cd.library.get("variance").stream("x").theorem.certificate,
        "shift": cd.prove(shift, plain).certificate,
        "padded": cd.prove(padded, total).certificate,
        "conditional": cd.prove(count, divided, ["x >= 2"]).certificate,
    }


def test_they_fit(made: dict[str, Json], by_schema: Any, ask: Z3) -> None:
    by_schema.check_schema(by_schema.schema)
    for certificate in made.values():
        by_schema.validate(certificate)
        with_words = {"about": ["f = g"], **certificate}
        by_schema.validate(with_words)
        assert Checker(ask).check(with_words) == Checker(ask).check(certificate)


def test_a_saved_one_is_compact_and_says_what_it_proves(tmp_path: Any, by_schema: Any, ask: Z3) -> None:
    theorem = cd.library.get("dot").stream("x").theorem
    file = tmp_path / "c.json"
    theorem.save(str(file))
    read = json.loads(file.read_text())
    by_schema.validate(read)
    assert read.pop("about") == str(theorem).splitlines()
    assert read == theorem.certificate
    assert file.stat().st_size < 1.2 * len(json.dumps(theorem.certificate))


def test_the_words_are_the_kernels(by_schema: Any) -> None:
    words = by_schema.schema["$defs"]
    assert all(re.search(words["rule"]["pattern"], name) for name in RULES)
    assert words["element"]["enum"] == list(ELEMENTS)
    assert set(words["term"]["prefixItems"][0]["enum"]) == NUMERIC | LOGICAL
    assert by_schema.schema["properties"]["version"]["const"] == VERSION
    terms = [num(n) for n in (2, 3, 4, 5, 6)]
    for name in words["function"]["anyOf"][0]["enum"]:
        made = []
        for count in (1, 2, 3, 4, 5):
            try:
                made.append(scalar(name, terms[:count]))
            except (KernelError, TypeError):
                continue
        assert made, name
    for name in ("cast", "relu", "pow", "gelu"):
        with pytest.raises(KernelError):
            scalar(name, terms[:1])
    for node in words["node"]["oneOf"]:
        if node["properties"]["op"]["const"] == "reduce":
            for monoid in node["properties"]["monoid"]["enum"]:
                assert reduction(monoid, size("n"), bound(0))
    assert Wire


JUNK: list[Any] = [None, True, False, -1, 3, 10**30, "", "x", "%0", "ring", [], [[]], ["x"], [None], {}, {"x": 1}]


def _broken(certificate: Json, rng: random.Random) -> Json:
    """A certificate with one place put out of form: junk, a field more, a field less, an item more or less."""
    hurt = copy.deepcopy(certificate)
    container, key = rng.choice(parts({"all": hurt}))
    value = container[key]
    kind = rng.choice(["junk", "more", "less", "field"])
    if kind == "more" and isinstance(value, list):
        value.insert(rng.randrange(len(value) + 1), copy.deepcopy(rng.choice(JUNK)))
    elif kind == "less" and isinstance(value, list | dict) and value:
        if isinstance(value, dict):
            del value[rng.choice(sorted(value))]
        else:
            value.pop(rng.randrange(len(value)))
    elif kind == "field" and isinstance(value, dict):
        value[rng.choice(["note", "args", "steps", "close", "cases", "x", "7"])] = copy.deepcopy(rng.choice(JUNK))
    elif container is not None and key != "all":
        container[key] = copy.deepcopy(rng.choice(JUNK))
    return hurt


def test_what_breaks_the_schema_is_refused(made: dict[str, Json], by_schema: Any, fitting: Any, ask: Z3) -> None:
    fits = 0
    for name, certificate in made.items():
        rng = random.Random(name)
        for _ in range(60 if len(json.dumps(certificate)) > 5000 else 250):
            hurt = _broken(certificate, rng)
            if fitting.is_valid(hurt):
                fits += 1  # what is checked of these is tested in test_certificates
                continue
            try:
                theorem = Checker(ask).check(hurt)
            except (KernelError, SolverInterrupted):
                continue
            error = next(by_schema.iter_errors(hurt))
            pytest.fail(f"{name}: {error.json_path}: {error.message[:300]}\n{theorem}")
    assert fits > 5


@pytest.mark.parametrize(
    "path",
    [(), ("statement",), ("statement", "left"), ("statement", "right", "nodes", 0), ("statement", "left", "inputs", 0),
     ("proof",), ("proof", "outputs", "0"), ("proof", "folds", 0)],
)  # fmt: skip
def test_unknown_fields_are_refused(path: tuple[Any, ...], made: dict[str, Json], by_schema: Any, ask: Z3) -> None:
    found = False
    for certificate in made.values():
        hurt = copy.deepcopy(certificate)
        item: Any = hurt
        try:
            for key in path:
                item = item[key]
        except (KeyError, IndexError):
            continue
        found = True
        item["note"] = {"x": 1}
        assert not by_schema.is_valid(hurt)
        with pytest.raises(KernelError):
            Checker(ask).check(hurt)
    assert found


def _deep(levels: int) -> Any:
    data: Any = []
    for _ in range(levels):
        data = [data]
    return data


UNFIT: dict[str, Any] = {
    "deep": _deep(DEEPEST), "many": [0] * MOST, "long text": "x" * (LONGEST + 1), "long integer": 1 << LONGEST,
    "float": 1.0, "nan": float("nan"), "number as name": {1: 2}, "nothing as name": {None: 1}, "object": object(),
    "bytes": b"x", "set": {"x"},
}  # fmt: skip


@pytest.mark.parametrize("junk", UNFIT.values(), ids=UNFIT)
def test_what_is_large_deep_or_not_plain_is_refused(junk: Any, made: dict[str, Json], ask: Z3) -> None:
    good = made["padded"]
    for hurt in ({**good, "about": [junk]}, {**good, "proof": {**good["proof"], "outputs": {"0": junk}}}):
        with pytest.raises(KernelError):
            Checker(ask).check(hurt)


class _Lying(dict):  # type: ignore[type-arg]
    """An object that has other fields each time one looks."""


def test_what_only_looks_like_data_is_refused(made: dict[str, Json], ask: Z3) -> None:
    good = made["padded"]
    for hurt in (_Lying(good), {**good, "statement": _Lying(good["statement"])}):
        with pytest.raises(KernelError, match="plain data"):
            Checker(ask).check(hurt)


def test_parts_of_the_wrong_form(made: dict[str, Json], by_schema: Any, ask: Z3) -> None:
    shift, loop, conditional = made["shift"], made["variance"], made["conditional"]
    fold = loop["proof"]["folds"][0]
    for hurt in (
        {**shift, "about": "f = g"},
        {**shift, "about": [1]},
        {**shift, "statement": {**shift["statement"], "assume": ""}},
        {**shift, "statement": {**shift["statement"], "assume": {}}},
        {**shift, "proof": {**shift["proof"], "more": {}}},
        {**loop, "proof": {**loop["proof"], "folds": [{**fold, "more": {}}]}},
        {**conditional, "proof": {**conditional["proof"], "defined": {"newly": {"more": {}}}}},
        {**conditional, "proof": {**conditional["proof"], "facts": {"-1": [["ring", [0]]]}}},
    ):
        assert not by_schema.is_valid(hurt), hurt
        with pytest.raises(KernelError):
            Checker(ask).check(hurt)


def test_an_obligation_met_by_a_demand_has_no_other_fields(by_schema: Any, ask: Z3) -> None:
    """`as` names a demand by its number, and `equal` proves as many equations as that has sides."""
    f = cd.algorithm("x, x ->")(lambda A, B: cd.sum(A / (B + B), "x"))
    g = cd.algorithm("x, x ->")(lambda A, B: cd.sum(A / (3 * B - B), "x"))
    good = cd.prove(f, g).certificate
    one = {**good, "proof": {**good["proof"], "defined": {"0": {"as": "0", "equal": {}}}}}
    for more in (
        {"as": "-1"},
        {"as": "１"},
        {"as": 0},
        {"steps": []},
        {"close": "field"},
        {"equal": {"7": {"steps": []}}},
    ):
        hurt = copy.deepcopy(one)
        hurt["proof"]["defined"]["0"].update(more)
        with pytest.raises(KernelError):
            Checker(ask).check(hurt)
    assert by_schema.is_valid(one)


@pytest.mark.parametrize("text", ["f\n  by A1", "\x1b[2Jf", "f\x00", "\x9b1mf", "\u202ef", "\u2028"])
def test_what_a_terminal_would_obey_is_refused(text: str, made: dict[str, Json], ask: Z3) -> None:
    """A title or name that draws over what the checker prints would make it say what is not so."""
    good = made["padded"]
    titled, named = copy.deepcopy(good), copy.deepcopy(good)
    titled["statement"]["left"]["title"] = text
    for side in ("left", "right"):
        named["statement"][side]["inputs"][0]["name"] = text
    for hurt in (titled, named):
        with pytest.raises(KernelError, match="a name"):
            Checker(ask).check(hurt)
    titled["statement"]["left"]["title"] = "padded.stream('x', passes=2)"
    assert Checker(ask).check(titled).statement.startswith("padded.stream('x', passes=2)(")
