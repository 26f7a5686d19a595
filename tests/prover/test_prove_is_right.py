"""What `prove` says of random and of chosen pairs of programs, against exact numbers and NumPy."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import Diagram
from catdiag.kernel.semantics import evaluate, inputs_of
from catdiag.kernel.terms import KernelError
from catdiag.prover.api import prove_with, statement_of
from catdiag.prover.assumptions import size_value
from catdiag.prover.export import program
from catdiag.prover.identifiers import identifier
from catdiag.prover.refute import exact_execution, exact_reals
from catdiag.prover.refute.counterexample_search import refute
from catdiag.solvers.z3 import Z3

Outcome = tuple[str, Any]


@pytest.fixture(scope="module")
def ask() -> Iterator[Z3]:
    with Z3(rlimit=1_000_000) as solver:
        yield solver


def outcome(ask: Z3, f: Diagram, g: Diagram) -> Outcome:
    """What `prove` says, with its theorem or counterexample."""
    try:
        theorem = prove_with(ask, f, g)
    except cd.Refuted as error:
        return "refuted", error.counterexample
    except cd.Undecided as error:
        return "undecided", error.goal
    return ("conditional" if theorem.conditional else "proved"), theorem


def confirm(f: Diagram, g: Diagram, said: Outcome) -> None:
    """Asserts that a verdict survives exact numbers, and a refutation NumPy."""
    kind, found = said
    if kind in ("proved", "conditional"):
        assert refute(statement_of(f, g), tries=120, seed=9) is None, str(found)
    elif kind == "refuted" and not found.functions:
        arrays = list(found.numpy().values())
        with np.errstate(all="ignore"):
            ours, theirs = f(*arrays), g(*arrays)
        ours = ours if isinstance(ours, tuple) else (ours,)
        theirs = theirs if isinstance(theirs, tuple) else (theirs,)
        where = tuple(found.index[a] for a in f.cod[found.output].names)
        x, y = float(ours[found.output][where]), float(theirs[found.output][where])
        assert np.isclose(x, float(found.lhs), rtol=1e-6, atol=1e-9), (x, found)
        assert np.isclose(y, float(found.rhs), rtol=1e-6, atol=1e-9), (y, found)


# -- random programs, one box changed -------------------------------------------------------------------

_SWAPS = {
    "add": "sub", "sub": "add", "mul": "add", "div": "mul", "max": "min", "min": "max", "exp": "neg", "neg": "abs",
    "abs": "neg", "log": "neg", "sqrt": "abs", "tanh": "sigmoid", "sigmoid": "tanh", "lt": "le", "le": "lt",
    "erf": "tanh", "sin": "cos", "cos": "sin", "sign": "abs", "floor": "ceil", "ceil": "round", "round": "floor",
}  # fmt: skip


def changed(made: dict[str, Any], rng: random.Random) -> dict[str, Any] | None:
    """A core program with one node changed so that its type stays; None where no node can be."""
    nodes = [dict(n) for n in made["nodes"]]
    choices = [k for k, n in enumerate(nodes) if n["op"] in ("map", "reduce", "const")]
    rng.shuffle(choices)
    for k in choices:
        node = nodes[k]
        if node["op"] == "map" and node["fn"] in _SWAPS:
            node["fn"] = _SWAPS[node["fn"]]
        elif node["op"] == "map" and len(node["args"]) == 2:
            node["args"] = node["args"][::-1]
        elif node["op"] == "reduce" and node["monoid"] in ("sum", "max", "min"):
            node["monoid"] = {"sum": "max", "max": "min", "min": "max"}[node["monoid"]]
        elif node["op"] == "const" and node["value"] not in ("-inf",):
            node["value"] = "2" if node["value"] != "2" else "3"
        else:
            continue
        return {**made, "nodes": nodes}
    return None


def pairs(diagram: Diagram, rng: random.Random, ask: Z3) -> str:
    """One verdict on a program and a changed copy, confirmed."""
    from catdiag.kernel.checker import Checker
    from catdiag.prover.proof_search import OpenGoal, find

    left = program(diagram)
    right = changed(left, rng) if rng.random() < 0.85 else left
    if right is None:
        return "no change"
    symbols = sorted({s for ty in diagram.dom for a in ty.axes for s in [a.size] if isinstance(s, str)})
    statement = {"left": left, "right": right, "assume": [["le", 1, s] for s in symbols]}
    try:
        theorem = Checker(ask).check(find(ask, statement))
    except (OpenGoal, KernelError):
        return "open"
    assert refute(statement, tries=60) is None, f"{theorem}\n{statement}"
    return "conditional" if theorem.conditional else "trivial" if theorem.trivial else "proved"


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(diagram=cd.testing.diagrams(max_boxes=6), seed=st.integers(0, 2**32))
def test_what_is_proved_of_changed_programs_survives_exact_numbers(diagram: Diagram, seed: int) -> None:
    with _solver() as ask:
        pairs(diagram, random.Random(seed), ask)


def _solver() -> Any:
    from contextlib import nullcontext

    if not _SHARED:
        _SHARED.append(Z3(rlimit=1_000_000))
    return nullcontext(_SHARED[0])


_SHARED: list[Z3] = []


# -- meaning --------------------------------------------------------------------------------------------


def random_array(declared: dict[str, Any], sizes: dict[str, int], rng: random.Random) -> exact_execution.ExactArray:
    shape = [size_value(s, sizes) for _, s in declared["axes"]]
    truth = declared["element"] == "bool"
    names = [str(n) for n, _ in declared["axes"]]
    return exact_execution.build(
        names, shape, lambda _: rng.random() < 0.5 if truth else Fraction(rng.randrange(-2, 4))
    )


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(diagram=cd.testing.diagrams(max_boxes=6), seed=st.integers(0, 2**32))
def test_the_three_meanings_of_a_diagram_agree(diagram: Diagram, seed: int) -> None:
    """The kernel's terms, the exact interpreter and NumPy."""
    from kernel_oracle import Unclear, World, value

    rng = random.Random(seed)
    made = program(diagram)
    symbols = sorted({s for ty in diagram.dom for a in ty.axes for s in [a.size] if isinstance(s, str)})
    sizes = {s: rng.randrange(1, 4) for s in symbols}
    inputs = [random_array(d, sizes, rng) for d in made["inputs"]]
    ran = exact_execution.run(made, inputs, sizes, {}, {})
    terms = evaluate(made, inputs_of(made, {}), {}, lambda *args: None)
    cells = {(str(d["name"]), i): v for d, a in zip(made["inputs"], inputs, strict=True) for i, v in a.values.items()}
    given_arrays = [np.array([float(v) for v in a.values.values()]).reshape(a.shape) for a in inputs]
    with np.errstate(all="ignore"):
        computed = cd.Program(diagram)(*given_arrays)
    computed = computed if isinstance(computed, tuple) else (computed,)
    for out, wire, array, ty in zip(ran, terms, computed, diagram.cod, strict=True):
        for i, expected in out.values.items():
            if isinstance(expected, exact_execution.NoValue):
                continue
            index = dict(zip(out.axes, i, strict=True))
            try:
                found = value(wire.term, World(sizes, index, {}, rng, dict(cells)))
            except Unclear:
                continue
            low, high = exact_reals.bounds(found)
            assert not exact_reals.different(found, expected), f"{wire.term} is {found}, the program gives {expected}"
            place = array[tuple(index[identifier(a)] for a in ty.names)]
            assert np.isclose(float(place), float((low + high) / 2), rtol=1e-6, atol=1e-6)


# -- chosen rewrites --------------------------------------------------------------------------------------

Build = Callable[..., Any]


def _d(signature: str, build: Build) -> Diagram:
    return cd.algorithm(signature)(build)


def _streamed(step: Callable[[Any, Any, Any, Any, Any], Any]) -> Build:
    """Two halves of softmax-weighted means, merged by a rule."""

    def build(S: Any, V: Any, T: Any, W: Any) -> Any:
        m, n = cd.max(S, "x"), cd.max(T, "y")
        a, b = cd.exp(S - m), cd.exp(T - n)
        return step((m, cd.sum(a, "x"), cd.sum(a * V, "x")), (n, cd.sum(b, "y"), cd.sum(b * W, "y")), cd, S, T)

    return build


def _whole(S: Any, V: Any, T: Any, W: Any) -> Any:
    total = cd.sum(cd.exp(S), "x") + cd.sum(cd.exp(T), "y")
    return (cd.sum(cd.exp(S) * V, "x") + cd.sum(cd.exp(T) * W, "y")) / total


def _merge(f: Callable[[Any, Any, Any], Any], g: Callable[[Any, Any, Any], Any]) -> Build:
    def step(p: Any, q: Any, cd: Any, S: Any, T: Any) -> Any:
        (m, k, u), (n, j, v) = p, q
        t = cd.maximum(m, n)
        left, right = f(m, t, cd), g(n, t, cd)
        return (u * left + v * right) / (k * left + j * right)

    return _streamed(step)


SOFTMAX = "x, x, y, y ->"
FALSE: dict[str, tuple[str, Build, Build]] = {
    "no rescaling": (SOFTMAX, _whole, _merge(lambda m, t, cd: 1 + 0 * m, lambda n, t, cd: 1 + 0 * n)),
    "inverted rescaling": (SOFTMAX, _whole, _merge(lambda m, t, cd: cd.exp(t - m), lambda n, t, cd: cd.exp(t - n))),
    "one side rescaled": (SOFTMAX, _whole, _merge(lambda m, t, cd: cd.exp(m - t), lambda n, t, cd: 1 + 0 * n)),
    "average of normalised parts": (SOFTMAX, _whole, _streamed(lambda p, q, cd, S, T: (p[2] / p[1] + q[2] / q[1]) / 2)),
    "softmax of 2x": ("x", lambda A: cd.softmax(A, "x"), lambda A: cd.softmax(2 * A, "x")),
    "softmax of x/3 and x/5": ("x", lambda A: cd.softmax(A / 3, "x"), lambda A: cd.softmax(A / 5, "x")),
    "sqrt(x²) = x": ("x", lambda A: A, lambda A: cd.sqrt(A * A)),
    "max over negative factors": ("x,", lambda A, C: C * cd.max(A, "x"), lambda A, C: cd.max(C * A, "x")),
    "max over −1": ("x", lambda A: -cd.max(A, "x"), lambda A: cd.max(-A, "x")),
    "sum of products": ("x, x", lambda A, B: cd.sum(A * B, "x"), lambda A, B: cd.sum(A, "x") * cd.sum(B, "x")),
    "another uninterpreted function": ("x", lambda A: cd.apply("f", A), lambda A: cd.apply("g", A)),
    "arguments of a function in another order": ("x, x", lambda A, B: cd.apply("f", A, B),
                                                 lambda A, B: cd.apply("f", B, A)),
    "a guard by < for ≤": ("q x", lambda A: cd.where(cd.index("q") < cd.index("x"), A, 0),
                           lambda A: cd.where(cd.index("q") <= cd.index("x"), A, 0)),
    "mean by n − 1": ("x", lambda A: cd.sum(A, "x") / cd.size("x"), lambda A: cd.sum(A, "x") / (cd.size("x") + 1)),
    "variance of the sum": ("x", lambda A: cd.mean(A * A, "x") - cd.mean(A, "x"), lambda A: cd.mean(A * A, "x")),
}  # fmt: skip
# Equal where the right side is defined, which it is not wherever the left one is.
CONDITIONAL: dict[str, tuple[str, Build, Build]] = {
    "x/x = 1": ("x", lambda A: 1 + 0 * A, lambda A: A / A),
    "sqrt(x)² = x": ("x", lambda A: A, lambda A: cd.sqrt(A) * cd.sqrt(A)),
    "exp(log x) = x": ("x", lambda A: A, lambda A: cd.exp(cd.log(A))),
    "log(ab) = log a + log b": ("x, x", lambda A, B: cd.log(A * B), lambda A, B: cd.log(A) + cd.log(B)),
    "a guard that does not reach": ("x", lambda A: cd.where(A != 0, A / A, 1), lambda A: A / A),
}
TRUE: dict[str, tuple[str, Build, Build]] = {
    "rescaling": (SOFTMAX, _whole, _merge(lambda m, t, cd: cd.exp(m - t), lambda n, t, cd: cd.exp(n - t))),
    "log-sum-exp": ("x", lambda A: cd.log(cd.sum(cd.exp(A), "x")),
                    lambda A: cd.max(A, "x") + cd.log(cd.sum(cd.exp(A - cd.max(A, "x")), "x"))),
    "variance": ("x", lambda A: cd.mean(A * A, "x") - cd.mean(A, "x") * cd.mean(A, "x"),
                 lambda A: cd.mean((A - cd.mean(A, "x")) * (A - cd.mean(A, "x")), "x")),
}  # fmt: skip


@pytest.mark.parametrize("name", FALSE)
def test_a_false_rewrite_is_refuted(name: str, ask: Z3) -> None:
    signature, left, right = FALSE[name]
    for f, g in ((_d(signature, left), _d(signature, right)), (_d(signature, right), _d(signature, left))):
        said = outcome(ask, f, g)
        assert said[0] == "refuted", said
        confirm(f, g, said)


@pytest.mark.parametrize("name", CONDITIONAL)
def test_a_rewrite_that_needs_more_is_not_proved_without_it(name: str, ask: Z3) -> None:
    signature, left, right = CONDITIONAL[name]
    said = outcome(ask, _d(signature, left), _d(signature, right))
    assert said[0] in ("conditional", "undecided"), said
    confirm(_d(signature, left), _d(signature, right), said)


@pytest.mark.parametrize("name", TRUE)
def test_a_true_rewrite_is_proved(name: str, ask: Z3) -> None:
    signature, left, right = TRUE[name]
    said = outcome(ask, _d(signature, left), _d(signature, right))
    assert said[0] == "proved", said
    confirm(_d(signature, left), _d(signature, right), said)


def test_two_axes_of_one_size_are_two_axes(ask: Z3) -> None:
    """A square array and its transpose have one type, and are not one; the sums of both are."""
    from catdiag.kernel.checker import Checker
    from catdiag.prover.proof_search import OpenGoal, find

    square = {"name": "A", "axes": [["q", "n"], ["x", "n"]], "element": "real"}
    at = {"q": ["i", "x"], "x": ["i", "q"]}
    turn = {"op": "view", "args": [0], "axes": square["axes"], "reads": [{"at": at, "where": []}]}

    def made(nodes: list[Any], out: int) -> dict[str, Any]:
        return {"title": "", "inputs": [square], "nodes": nodes, "outputs": [[out, "real"]]}

    statement: dict[str, Any] = {"left": made([], 0), "right": made([turn], 1), "assume": []}
    with pytest.raises((OpenGoal, KernelError)):
        Checker(ask).check(find(ask, statement))
    assert refute(statement) is not None

    def total(wire: int) -> list[dict[str, Any]]:
        return [{"op": "reduce", "monoid": "sum", "axis": a, "args": [wire + k]} for k, a in enumerate("qx")]

    statement = {"left": made(total(0), 2), "right": made([turn, *total(1)], 3), "assume": []}
    assert not Checker(ask).check(find(ask, statement)).conditional


def soak(seeds: range, ask: Z3) -> Counter[str]:
    """Verdicts on many random pairs, each confirmed."""
    counts: Counter[str] = Counter()
    for seed in seeds:

        @settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(diagram=cd.testing.diagrams(max_boxes=7), salt=st.integers(0, 2**32))
        def run(diagram: Diagram, salt: int) -> None:
            counts[pairs(diagram, random.Random(salt), ask)] += 1

        from hypothesis import seed as seeded

        seeded(seed)(run)()
    return counts


@pytest.mark.slow
def test_soak(ask: Z3) -> None:
    assert soak(range(50), ask)["proved"] > 50
