"""The checker under changed certificates: one that is accepted says nothing that is false."""

from __future__ import annotations

import copy
import json
import re
from contextlib import suppress
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from catdiag.kernel.checker import CheckedTheorem, Checker
from catdiag.kernel.rewrite_rules import RULES
from catdiag.kernel.terms import KernelError
from catdiag.prover.assumptions import size_value
from catdiag.prover.refute import exact_execution, exact_reals
from catdiag.prover.refute.counterexample_search import refute
from catdiag.solvers.child_process import SolverInterrupted
from catdiag.solvers.z3 import Z3
from tests.fuzz.source import Source

PROOFS = Path(__file__).resolve().parents[2] / "proofs"
LARGEST = 40_000
"""Bytes of the stored certificates that are changed: larger ones take too long a time each."""
Json = dict[str, Any]

_WORDS = {
    "fn": ["exp", "neg", "add", "sub", "mul", "div", "max", "min", "log", "sqrt", "abs", "sigmoid", "tanh", "lt", "le",
           "eq", "ne", "and", "or", "not", "where", "floordiv",
           "erf", "sin", "cos", "sign", "floor", "ceil", "round"],
    "monoid": ["sum", "max", "min", "prod", "any", "all"],
    "element": ["real", "extended", "int", "bool"],
    "value": ["0", "1", "-1", "2", "1/2", "-inf"],
    "op": ["map", "reduce", "view", "index", "size", "const"],
    "close": ["ring", "field", ""],
}  # fmt: skip
_PLAIN = {word for words in _WORDS.values() for word in words} | {
    "+",
    "*",
    "//",
    "i",
    "w",
    "lt",
    "le",
    "eq",
    "fold",
    "group",
}
_HOSTILE = [
    "",
    "\0",
    "x\0a",
    "x y",
    "(c k)",
    "B + C",
    "\u0445",
    "e\u0301",
    "\ufb01",
    "%0",
    "$0",
    "exp",
    "result",
    "i0",
    "i_x",
    "X",
]
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_TERMS = ["add", "mul", "max", "inv", "exp", "log", "sqrt", "ite", "lt", "le", "eq", "not", "and", "or", "big", "div"]


class Wrong(AssertionError):
    """A certificate that was accepted and claims what is false: the worst that can be."""


@cache
def stored() -> tuple[str, ...]:
    """Texts of the stored certificates, the shortest first."""
    texts = [file.read_text(encoding="utf-8") for file in sorted(PROOFS.glob("*.json"))]
    return tuple(sorted((t for t in texts if len(t) <= LARGEST), key=len))


@cache
def original(number: int) -> tuple[Any, ...]:
    """What a stored certificate proves."""
    with Z3() as ask:
        return told(Checker(ask).check(json.loads(stored()[number])))


def told(theorem: CheckedTheorem) -> tuple[Any, ...]:
    """What a theorem says, without how it was proved."""
    return theorem.statement, theorem.hypotheses, theorem.defined, theorem.conditions


def parts(data: Any) -> list[tuple[Any, Any]]:
    """The (container, key) pairs inside plain data."""
    found: list[tuple[Any, Any]] = []
    stack = [data]
    while stack:
        item = stack.pop()
        keys = list(item) if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else []
        for key in keys:
            found.append((item, key))
            stack.append(item[key])
    return found


def change(whole: Json, other: Json, source: Source) -> None:
    """One change: a word, a number, a name, a part left out, doubled, exchanged, or taken from elsewhere."""
    if source.below(4) == 0:
        with suppress(KeyError, TypeError, IndexError, AttributeError, ValueError):
            # An earlier change may have left no form.
            source.choice([_name, _interface, _sort, _hypothesis])(whole["statement"], source)
        return
    room = source.choice(["statement", "statement", "proof", "proof", "proof", "all"])
    places = parts(whole if room == "all" else {"room": whole.get(room)})
    container, key = places[source.below(len(places))]
    old = container[key]
    kind = source.below(8)
    if key in _WORDS and isinstance(container, dict) and kind < 5:
        container[key] = source.choice(_WORDS[key])
    elif isinstance(old, bool):
        container[key] = not old
    elif isinstance(old, int):
        container[key] = old + source.choice([-1, 1, -2, 2, 100, -old])
    elif isinstance(old, str) and kind < 5:
        if old in RULES:
            container[key] = source.choice(sorted(RULES))
        elif old in _TERMS:
            container[key] = source.choice(_TERMS)
        elif old in ("lt", "le", "eq"):
            container[key] = source.choice(["lt", "le", "eq"])
        else:
            texts = sorted({c[k] for c, k in places if isinstance(c[k], str)})
            container[key] = source.choice([*texts, "0", "1", "-1", "x", "%a", "$0"])
    elif kind == 5:
        elsewhere = parts(other)
        c, k = elsewhere[source.below(len(elsewhere))]
        container[key] = copy.deepcopy(c[k])
    elif kind == 6:
        c, k = places[source.below(len(places))]
        container[key], c[k] = copy.deepcopy(c[k]), copy.deepcopy(container[key])
    elif isinstance(old, (list, dict)) and old:
        keys = list(old) if isinstance(old, dict) else list(range(len(old)))
        one, two = source.choice(keys), source.choice(keys)
        if kind < 2:
            del old[one]
        elif kind < 4 and isinstance(old, list):
            old.insert(one, copy.deepcopy(old[two]))
        else:
            old[one], old[two] = old[two], old[one]
    elif isinstance(container, dict):
        del container[key]
    else:
        container.pop(key)


def _name(statement: Json, source: Source) -> None:
    """A name is another, wherever it stands in a side or in both, or in one place: like it, or none at all."""
    sides = source.choice([["left"], ["right"], ["left", "right"]])
    places = [place for side in sides for place in parts(statement[side])]
    named = [(c, k) for c, k in places if isinstance(c[k], str) and c[k] not in _PLAIN and k not in ("op", "value")]
    if not named:
        return
    container, key = named[source.below(len(named))]
    old = container[key]
    near = [
        *_HOSTILE,
        old.upper(),
        old + "\0",
        old + "\0a",
        old + "_",
        "_" + old,
        old + "\u200b",
        old.replace("x", "\u0445"),
    ]
    new = source.choice([*near, *sorted({c[k] for c, k in named})])
    chosen = named if source.below(2) else [(container, key)]
    for c, k in chosen:
        if c[k] == old:
            c[k] = new


def _interface(statement: Json, source: Source) -> None:
    """The inputs of a side are called otherwise, or as others are, or stand in another order."""
    inputs = statement[source.choice(["left", "right"])]["inputs"]
    one, two = (inputs[source.below(len(inputs))] for _ in range(2))
    kind = source.below(3)
    if kind == 0:
        one["name"], two["name"] = two["name"], one["name"]
    elif kind == 1:
        one["name"] = two["name"]
    else:
        inputs.reverse()


def _sort(statement: Json, source: Source) -> None:
    """An input of both sides has another sort."""
    k = source.below(len(statement["left"]["inputs"]))
    for side in ("left", "right"):
        statement[side]["inputs"][k]["element"] = source.choice(_WORDS["element"][: 1 + source.below(4)])


def _hypothesis(statement: Json, source: Source) -> None:
    """One assumption more, which contradicts others or itself now and then."""
    sizes = sorted({s for _, a, b in statement["assume"] for s in (a, b) if isinstance(s, str)}) or ["x"]
    a, b = (source.choice([*sizes, 0, 1, 3]) for _ in range(2))
    statement["assume"].append([source.choice(["lt", "le", "eq"]), a, b])


def _sound(statement: Json, theorem: CheckedTheorem) -> None:
    """Raises Wrong where an accepted theorem has names that are none, or says wrongly whether it is about nothing."""
    for side in ("left", "right"):
        for container, key in parts(statement[side]):
            text = container[key]
            free = not isinstance(text, str) or key in ("value", "title", "fn") or text in ("+", "*", "//")
            if not free and not _NAME.fullmatch(text):
                raise Wrong(f"{text!r} was accepted as a name: {theorem}")
    if [d["name"] for d in statement["left"]["inputs"]] != [d["name"] for d in statement["right"]["inputs"]]:
        raise Wrong(f"two lists of input names: {theorem}")
    symbols = sorted(exact_execution.symbols_of(statement["left"]) | exact_execution.symbols_of(statement["right"]))
    if len(symbols) <= 3:
        some = any(_meets(statement, dict(zip(symbols, n))) for n in product(range(7), repeat=len(symbols)))
        if theorem.vacuous and some and not theorem.defined and not theorem.conditions:
            raise Wrong(f"said to be about nothing, but sizes meet it: {theorem}")
    if theorem.vacuous is False and not theorem.witness:
        raise Wrong(f"said to be about something without a witness: {theorem}")


def _meets(statement: Json, sizes: dict[str, int]) -> bool:
    pairs = [(op, size_value(s, sizes), size_value(t, sizes)) for op, s, t in statement["assume"]]
    return all({"lt": a < b, "le": a <= b, "eq": a == b}[op] for op, a, b in pairs)


class Fuzzed:
    """The target, with a solver that is renewed now and then: it keeps its answers."""

    def __init__(self) -> None:
        self.ask, self.count, self.accepted, self.others = Z3(rlimit=300_000, seconds=10), 0, 0, 0

    def __call__(self, data: bytes) -> None:
        """Changes a stored certificate as the bytes say. Raises Wrong where it is accepted, and its claim is false."""
        source = Source(data)
        texts = stored()
        number = source.below(len(texts))
        whole, other = json.loads(texts[number]), json.loads(source.choice(texts))
        statement = whole["statement"]
        before = json.dumps(statement)
        for _ in range(1 + source.below(4)):
            change(whole, other, source)
        self.count += 1
        if self.count % 200 == 0:
            self.ask.close()
            self.ask = Z3(rlimit=300_000, seconds=10)
        try:
            theorem = Checker(self.ask).check(whole)
        except (KernelError, SolverInterrupted):
            return
        self.accepted += 1
        str(theorem)
        _sound(whole["statement"], theorem)
        if json.dumps(whole["statement"]) == before:
            if told(theorem)[:3] != original(number)[:3]:
                raise Wrong(f"another theorem of the same statement: {theorem}")
            return
        self.others += 1
        not_false(whole["statement"], theorem, source)


def not_false(statement: Json, theorem: object, source: Source) -> None:
    """Looks for numbers on which an accepted statement is false, by search and at random. Raises Wrong."""
    found = refute(statement, tries=12, operations=4_000_000)
    if found is not None:
        raise Wrong(f"{theorem}\n{found}\n{json.dumps(statement)}")
    for _ in range(4):
        differ(statement, source, theorem)


def differ(statement: Json, source: Source, theorem: object) -> None:
    """Both programs on small exact arrays. Raises Wrong where both have values there and these differ."""
    left, right = statement["left"], statement["right"]
    names = sorted(exact_execution.symbols_of(left) | exact_execution.symbols_of(right))
    sizes = {name: 1 + source.below(3) for name in names}
    blocks = {name: 1 + source.below(3) for p in (left, right) for name in sorted(exact_execution.locals_of(p))}
    numbers = [Fraction(0), Fraction(1), Fraction(-1), Fraction(1, 2), Fraction(3), Fraction(-5, 3)]
    try:
        if not _meets(statement, sizes) or any("apply:" in str(p) for p in (left, right)):
            return
        arrays = []
        for declared in left["inputs"]:
            axes, shape = (
                [a for a, _ in declared["axes"]],
                [size_value(s, sizes) for _, s in declared["axes"]],
            )
            of = {"bool": [False, True], "int": [Fraction(n) for n in (0, 1, 2, -1)]}.get(declared["element"], numbers)
            arrays.append(exact_execution.build(axes, shape, lambda _, of=of: source.choice(of)))  # type: ignore[misc]
        budget = exact_execution.Budget(300_000)
        lefts, rights = (exact_execution.run(p, arrays, sizes, blocks, {}, budget) for p in (left, right))
    except exact_execution.IllTyped as error:
        raise Wrong(f"{theorem}\nof a program whose arrays do not fit: {error}") from error
    except (exact_execution.Exhausted, KeyError, IndexError, ZeroDivisionError, OverflowError):
        return
    if any(isinstance(v, exact_execution.NoValue) for a in (*lefts, *rights) for v in a.values.values()):
        return
    for x, y in zip(lefts, rights, strict=True):
        for at in x.values:
            place = dict(zip(x.axes, at, strict=True))
            if exact_reals.different(x.at(place), y.at(place)):
                raise Wrong(f"{theorem}\nsizes {sizes}, blocks {blocks}, at {place}: {x.at(place)} and {y.at(place)}")
