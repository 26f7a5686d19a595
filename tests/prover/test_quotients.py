"""⌊a/b⌋ owes b > 0, in every reading of a program: the kernel's, exact numbers, floats of the search, and NumPy."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import diagram_of
from catdiag.execute.interpreter import Runner
from catdiag.execute.named_arrays import NamedArray
from catdiag.kernel.semantics import inputs_of
from catdiag.kernel.terms import num
from catdiag.kernel.witness import told
from catdiag.prover.api import statement_of
from catdiag.prover.export import program
from catdiag.prover.refute import exact_execution, float_screening
from catdiag.prover.refute.counterexample_search import refute
from catdiag.prover.refute.validate import _read

SIGNATURE = "int[q], x -> q"


def whole(depth):
    """Functions from an integer array to one: of positions, sizes, quotients, remainders, and cases."""
    leaf = st.sampled_from([lambda a: a, lambda a: cd.index("q"), lambda a: cd.size("x"), lambda a: a - cd.size("x")])
    if not depth:
        return leaf
    inner = whole(depth - 1)
    divisor = st.sampled_from([lambda: cd.size("x"), lambda: 2 * cd.size("x"), lambda: cd.size("x") + 1, lambda: 3])
    two = st.tuples(inner, inner)
    return st.one_of(
        leaf,
        two.map(lambda p: lambda a: p[0](a) + p[1](a)),
        two.map(lambda p: lambda a: p[0](a) - p[1](a)),
        st.tuples(inner, divisor).map(lambda p: lambda a: p[0](a) // p[1]()),
        st.tuples(inner, divisor).map(lambda p: lambda a: p[0](a) % p[1]()),
        st.tuples(inner, inner, inner).map(lambda p: lambda a: cd.where(p[0](a) > 0, p[1](a), p[2](a))),
        two.map(lambda p: lambda a: cd.maximum(p[0](a), p[1](a))),
    )


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(whole(2), st.lists(st.integers(-4, 4), min_size=1, max_size=3), st.integers(0, 2))
def test_all_readings_agree_where_a_quotient_has_a_value(function, numbers, x) -> None:
    f = cd.algorithm(SIGNATURE)(lambda a, _: function(a) + 0 * a)
    made, sizes = program(diagram_of(f)), {"q": len(numbers), "x": x}
    arrays = [
        exact_execution.build(["q"], (len(numbers),), lambda i: Fraction(numbers[i[0]])),
        exact_execution.build(["x"], (x,), lambda _: Fraction(0)),
    ]
    (out,) = exact_execution.run(made, arrays, sizes, {}, {})
    values = list(out.values.values())
    missing = [isinstance(v, exact_execution.NoValue) for v in values]

    wires = [(np.array([numbers], dtype=float), ("q",)), (np.zeros((1, x)), ("x",))]
    ((floats, _),) = float_screening.outputs(made, wires, sizes, {}, {}, float_screening.Meter(10**7))
    floats = np.broadcast_to(floats, (1, len(numbers)))[0]
    assert np.isnan(floats).tolist() == missing

    # A run refuses empty axes; the boxes in it are asked about them all the same.
    given_ = [NamedArray(np.array(numbers), ("q",)), NamedArray(np.zeros(x), ("x",))]
    (named,) = Runner(np.dtype(np.float64), {}, {}).diagram(f.diagram, given_, sizes)
    ran = np.broadcast_to(named.data, len(numbers))
    assert np.isnan(ran).tolist() == missing
    for ours, theirs, value, none in zip(floats, ran, values, missing, strict=True):
        assert none or ours == theirs == value

    put = {name: num(n) for name, n in sizes.items()}
    _, owed = _read(made, inputs_of(made, put), put)
    plain = {"a": [Fraction(n) for n in numbers], "_": [Fraction(0)] * x}
    names = [d["name"] for d in made["inputs"]]
    assert told(owed, sizes, dict(zip(names, plain.values(), strict=True)), {}) is not any(missing)


def test_a_run_has_no_value_where_a_condition_has_none() -> None:
    f = cd.algorithm(SIGNATURE)(lambda a, _: cd.where(a // cd.size("x") > 0, a, a))
    arrays = [NamedArray(np.array([0]), ("q",)), NamedArray(np.zeros(0), ("x",))]
    (named,) = Runner(np.dtype(np.float64), {}, {}).diagram(f.diagram, arrays, {"q": 1, "x": 0})
    assert np.isnan(named.data).all()


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(whole(2), st.integers(1, 4), st.booleans())
def test_what_is_multiplied_and_divided_again_is_not_refuted(function, m, left) -> None:
    f = cd.algorithm(SIGNATURE)(lambda a, _: function(a) + 0 * a)
    g = cd.algorithm(SIGNATURE)(lambda a, _: (m * function(a) + (m - 1)) // m + 0 * a)
    sides = (f, g) if left else (g, f)
    assert refute(statement_of(*sides, ["x >= 0"]), tries=5, operations=2_000_000, partial=True) is None


def quotients():
    f = cd.algorithm("q, x -> q", name="quotient")(lambda A, B: cd.index("q") // cd.size("x") + 0 * A)
    g = cd.algorithm("q, x -> q", name="guarded")(
        lambda A, B: cd.where(cd.size("x") > 0, cd.index("q") // cd.size("x"), 0) + 0 * A
    )
    return f, g


def test_a_quotient_by_a_size_that_may_be_zero_needs_it_not_to_be() -> None:
    f, g = quotients()
    theorem = cd.prove(f, g, ["x >= 0"])
    assert theorem.defined == ("0 < x",)
    assert not theorem.conditional
    # Where the guarded one stands on the left, the other newly needs a divisor.
    assert cd.prove(g, f, ["x >= 0"]).conditions == ("0 < x",)
    assert cd.equivalent(g, f, ["x >= 0"]) is None
    # A size is at least 1 unless it is said that it may be 0: nothing is owed then.
    assert cd.prove(g, f).conditions == cd.prove(f, g).defined == ()
    for a, b in ((f, g), (g, f)):
        assert refute(statement_of(a, b, ["x >= 0"]), tries=40) is None


def test_a_remainder_needs_it_too() -> None:
    f = cd.algorithm("q, x -> q")(lambda A, B: cd.index("q") % cd.size("x") + 0 * A)
    g = cd.algorithm("q, x -> q")(
        lambda A, B: cd.where(cd.size("x") > 0, cd.index("q") % cd.size("x"), cd.index("q")) + 0 * A
    )
    assert cd.prove(f, g, ["x >= 0"]).defined == ("0 < x",)
    assert cd.prove(g, f, ["x >= 0"]).conditions == ("0 < x",)


@pytest.mark.parametrize("same", [False, True])
def test_a_position_that_divides_by_a_size_needs_it_too(same: bool) -> None:
    """An index is owed for where it is read at, though the array be the same at every index."""

    def read(guarded: bool):
        def function(A, B, C, D):
            table = cd.broadcast(D, "k=q") if same else A
            found = cd.gather(table, "k", cd.index("q") // cd.size("x"))
            return cd.where(cd.size("x") > 0, found, 7) if guarded else found

        return function

    f, g = (cd.algorithm("k=q, x, q, -> q")(read(guarded)) for guarded in (False, True))
    assert cd.prove(f, g, ["x >= 0"]).defined == ("0 < x",)


def test_a_quotient_that_counts_for_nothing_is_owed_all_the_same() -> None:
    f = cd.algorithm("k=q, x, q -> q")(
        lambda A, B, C: cd.gather(A, "k", cd.index("q") + 0 * (cd.index("q") // cd.size("x"))) + 0 * C
    )
    g = cd.algorithm("k=q, x, q -> q")(lambda A, B, C: cd.gather(A, "k", cd.index("q")) + 0 * C)
    assert cd.prove(f, g, ["x >= 0"]).defined == ("0 < x",)
    assert cd.prove(g, f, ["x >= 0"]).conditions == ("0 < x",)


@pytest.mark.parametrize("dividend", [-7, -6, -1, 0, 1, 6, 7])
def test_what_is_negative_is_rounded_down(dividend: int) -> None:
    f = cd.algorithm("int[q] -> int[q], int[q]")(lambda a: (a // 3, a % 3))
    (quotient,), (rest,) = f(np.array([dividend]))
    assert (quotient, rest) == (dividend // 3, dividend % 3)
    outs = exact_execution.run(
        program(diagram_of(f)), [exact_execution.build(["q"], (1,), lambda _: Fraction(dividend))], {"q": 1}, {}, {}
    )
    assert [out.values[0,] for out in outs] == [dividend // 3, dividend % 3]


OF_INTEGERS = {
    "by one": ("int[x] -> x", lambda a: a // 1, lambda a: a),
    "of a multiple": ("int[x] -> x", lambda a: (2 * a) // 2, lambda a: a),
    "of a multiple and what is left": ("int[x] -> x", lambda a: (6 * a + 5) // 3, lambda a: 2 * a + 1),
    "of a negative multiple": ("int[x] -> x", lambda a: (-2 * a - 1) // 2, lambda a: -a - 1),
    "of a multiple of a size": ("int[x], y -> x", lambda a, b: (a * cd.size("y")) // cd.size("y"), lambda a, b: a),
    "of a sum": ("int[x], int[x] -> x", lambda a, b: (2 * a + b) // 2, lambda a, b: a + b // 2),
    "a remainder of one": ("int[x] -> x", lambda a: (4 * a + 1) % 2, lambda a: 0 * a + 1),
    "a remainder is not negative": ("int[x] -> x", lambda a: cd.where(a % 4 >= 0, 1, 0), lambda a: 0 * a + 1),
    "a remainder is below": ("int[x] -> x", lambda a: cd.where(a % 4 < 4, 1, 0), lambda a: 0 * a + 1),
    "a position": ("int[x], k -> x", lambda a, b: cd.gather(b, "k", (2 * a) // 2), lambda a, b: cd.gather(b, "k", a)),
    "in a sum": ("int[x] ->", lambda a: cd.sum((2 * a) // 2, "x"), lambda a: cd.sum(a, "x")),
}


@pytest.mark.parametrize("name", OF_INTEGERS)
def test_quotients_of_integers_that_arrays_hold_are_divided(name: str) -> None:
    signature, left, right = OF_INTEGERS[name]
    assert not cd.prove(cd.algorithm(signature)(left), cd.algorithm(signature)(right)).conditional


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (lambda a: cd.floor(a / 4), lambda a: a // 4, True),
        (lambda a: cd.floor(-a / 4), lambda a: -cd.ceil(a / 4), True),
        (lambda a: cd.floor(a * 0.75), lambda a: (3 * a) // 4, True),
        (lambda a: cd.floor(a * 0.75), lambda a: 3 * (a // 4), False),
        (lambda a: cd.floor(a / 4 + 1), lambda a: a // 4, False),
    ],
)
def test_a_floor_of_a_fraction_is_a_quotient(one, other, same) -> None:
    f, g = (cd.algorithm("int[n] -> int[n]")(h) for h in (one, other))
    if same:
        assert cd.prove(f, g).verdict == "proved"
    else:
        with pytest.raises(cd.Refuted):
            cd.prove(f, g)
