"""Composites: what follows from theorems about parts, and what only seems to."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_programs import apply, program, reduce, sum_fold
from kernel_programs import array as input_array

import catdiag as cd
from catdiag.category.diagram import Diagram, diagram_of
from catdiag.category.types import ArrayType
from catdiag.kernel.checker import Checker
from catdiag.kernel.composition import Composites, Renaming
from catdiag.kernel.terms import KernelError
from catdiag.prover.composites import OpenPart, PartEquation, certify_composite
from catdiag.prover.outcomes import Theorem
from catdiag.prover.proof_search import OpenGoal
from catdiag.prover.refute.exact_execution import Budget, NoValue, build, run
from catdiag.prover.refute.exact_reals import BITS, different
from catdiag.solvers.z3 import Z3

Body = Callable[..., Any]
REFUSED = (KernelError, OpenGoal, OpenPart)


def array(*axes: str, element: str = "real") -> ArrayType:
    return ArrayType(tuple(cd.Axis(axis) for axis in axes), element)


X, SCALAR = array("x"), array()


def of(signature: str, body: Body, name: str = "f") -> Diagram:
    return diagram_of(cd.algorithm(signature, name=name)(body))


def part(signature: str, left: Body, right: Body, reads: Sequence[int], *assume: str) -> PartEquation:
    return PartEquation(of(signature, left, "left"), of(signature, right, "right"), tuple(reads), assume=tuple(assume))


def same(signature: str, body: Body, reads: Sequence[int], *assume: str) -> PartEquation:
    return part(signature, body, body, reads, *assume)


def proved(
    inputs: Sequence[ArrayType], parts: Sequence[PartEquation], results: Sequence[int], assume: Sequence[Any] = ()
) -> Theorem:
    with Z3() as ask:
        named = [(f"in{k}", ty) for k, ty in enumerate(inputs)]
        theorem = certify_composite(ask, named, parts, results, assume=assume)
        assert str(Checker(ask).check(theorem.certificate)) == str(theorem.checked)
    return theorem


def refused(certificate: Any, said: str) -> None:
    with Z3() as ask, pytest.raises(KernelError, match=said):
        Checker(ask).check(certificate)


QUOTIENT: tuple[Body, Body] = (lambda A, s: (A + 0, 1 / s), lambda A, s: (A * s / s, 1 / s))
"""True where s is not 0: the second result owes it."""


def test_what_a_part_owes_is_owed_by_the_whole() -> None:
    parts = [part("x, x", *QUOTIENT, [0, 1])]
    theorem = proved([X, X], parts, [2, 3])
    assert theorem.checked.cited == 1 and "citing 1 theorem" in str(theorem)
    assert theorem.defined == ("in1[i_x] ≠ 0 for all i_x < x",) and theorem.vacuous is False
    # Where the second result is not read, nothing is owed, and (in0, in1) = (1, 0) tells the two apart.
    with pytest.raises(REFUSED, match="does not need"):
        proved([X, X], parts, [2])


READS: dict[str, tuple[str, Body, bool]] = {
    "read": ("x, x", lambda a, r: (a + 0, r + 1), True),
    "read in a sum": ("x, x", lambda a, r: (a + 0, cd.sum(r, "x")), True),
    "read where a position is any": ("x, x", lambda a, r: a + cd.where(cd.index("x") < cd.size("x"), r, 0), True),
    "read at one position": ("x, x", lambda a, r: a + cd.where(cd.index("x") < 1, r, 0), False),
    "read where a number is positive": ("x, x", lambda a, r: a + cd.where(a > 0, r, 0), False),
    "read where it is itself positive": ("x, x", lambda a, r: a + cd.where(r > 0, r, 0), True),
    "read and taken 0 times": ("x, x", lambda a, r: a + r * 0, True),
    "not read": ("x, x", lambda a, r: a + 0, False),
}


@pytest.mark.parametrize("name", READS)
def test_a_result_is_demanded_where_it_is_read(name: str) -> None:
    signature, body, demanded = READS[name]
    parts = [part("x, x", *QUOTIENT, [0, 1]), same(signature, body, [2, 3])]
    results = range(4, 4 + len(parts[1].left.cod))
    if demanded:
        assert proved([X, X], parts, results).defined
    else:
        with pytest.raises(REFUSED, match="does not need"):
            proved([X, X], parts, results)


def test_what_is_read_by_what_is_not_read_is_not_demanded() -> None:
    parts = [part("x, x", *QUOTIENT, [0, 1]), same("x", lambda r: r + 1, [3])]
    with pytest.raises(REFUSED, match="does not need"):
        proved([X, X], parts, [2])
    assert proved([X, X], parts, [2, 4]).defined


def test_a_row_that_is_read_for_some_other_index() -> None:
    """Of keys, those at x ≤ q are read by query q: all of them where there are as many queries."""
    scale = part("x, x", lambda K, s: K / s, lambda K, s: K * (1 / s), [0, 1])

    def body(K: Any, Q: Any) -> Any:
        return cd.sum(cd.where(cd.index("x") <= cd.index("q"), Q * K, 0), "x")

    alike = PartEquation(*[of("x, q=x", body)] * 2, (3, 2))
    other = PartEquation(*[of("x, q", body)] * 2, (3, 2))
    queries = ArrayType((cd.Axis("q", "x"),))
    assert proved([X, X, queries], [scale, alike], [4]).defined
    with pytest.raises(REFUSED, match="does not need"):
        proved([X, X, array("q")], [scale, other], [4])


RESHAPED: dict[str, tuple[str, Body, bool]] = {
    "merged": ("h d", lambda a, r: cd.rearrange(a + r, "h d -> (h d)"), True),
    "merged and summed": ("h d", lambda a, r: cd.sum(cd.rearrange(a + r, "h d -> (h d)"), "(h d)"), True),
    "split": ("(h d)", lambda a, r: cd.rearrange(a + r, "(h d) -> h d"), True),
    "part of it": ("x+y", lambda a, r: cd.split(a + r, "x+y")[0], False),
    "the first of each": (
        "h d", lambda a, r: cd.rearrange(a + cd.where(cd.index("d") < 1, r, 0), "h d -> (h d)"), False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RESHAPED)
def test_what_is_read_at_computed_positions(name: str) -> None:
    """Merging and splitting axes reads every element."""
    axes, body, demanded = RESHAPED[name]
    quotient = part(f"{axes}, {axes}", *QUOTIENT, [0, 1])
    parts = [quotient, same(f"{axes}, {axes}", body, [2, 3])]
    inputs = list(quotient.left.dom)
    if demanded:
        assert proved(inputs, parts, [4]).defined
    else:
        with pytest.raises(REFUSED, match="does not need"):
            proved(inputs, parts, [4])


def test_what_is_read_at_positions_that_parts_make() -> None:
    """A row is read where another part says, and so not everywhere, whatever is known of the position."""
    at = same("t n", lambda A: cd.argmax(A, "n"), [0])
    pick: Body = lambda A, i: cd.gather(A, "n", i)  # noqa: E731
    chosen = same("t n, int[t]", pick, [3, 2])
    rows = array("t", "n")
    twice = part("t n", lambda A: A + A, lambda A: 2 * A, [1])
    assert not proved([rows, rows], [at, twice, chosen], [4]).conditional
    quotient = part("t n, t n", *QUOTIENT, [0, 1])
    parts = [quotient, same("t n", lambda A: cd.argmax(A, "n"), [2]), same("t n, int[t]", pick, [3, 4])]
    with pytest.raises(REFUSED, match="does not need"):
        proved([rows, rows], parts, [5])


def test_over_an_empty_axis_nothing_is_read() -> None:
    parts = [
        part(", ", lambda a, s: (a + 0, 1 / s), lambda a, s: (a * s / s, 1 / s), [0, 1]),
        same("x, []", lambda B, r: cd.sum(B * r, "x"), [2, 4]),
    ]
    assert proved([SCALAR, SCALAR, X], parts, [3, 5]).defined
    with pytest.raises(REFUSED):
        proved([SCALAR, SCALAR, X], parts, [3, 5], [["le", 0, "x"]])


def test_what_is_known_of_a_cut_is_shown_where_it_is_made() -> None:
    root: tuple[Body, Body] = (lambda w: cd.abs(w), lambda w: w + 0)
    exp = same("x", lambda A: cd.exp(A), [0])
    assert not proved([X], [exp, part("x", *root, [1], "w > 0")], [2]).conditional
    shifted = same("x", lambda A: cd.exp(A) - 1, [0])
    with pytest.raises(REFUSED, match="part 2"):
        proved([X], [shifted, part("x", *root, [1], "w > 0")], [2])
    with pytest.raises(OpenPart):
        proved([X], [exp, part("x", *root, [1])], [2])
    with pytest.raises(REFUSED):  # of an input of the whole, nothing is known
        proved([X], [part("x", *root, [0], "w > 0")], [1])


def test_what_is_known_of_several_cuts_and_through_several_parts() -> None:
    exp, halves = same("x", lambda A: cd.exp(A), [0]), same("x", lambda w: w / 2, [1], "w > 0")
    least = part("x, x", lambda a, b: cd.maximum(a, b), lambda a, b: a + 0, [1, 2], "b <= a", "b > 0")
    assert not proved([X], [exp, halves, least], [3]).conditional
    wrong = part("x, x", lambda a, b: cd.maximum(a, b), lambda a, b: b + 0, [1, 2], "a <= b")
    with pytest.raises(REFUSED):
        proved([X], [exp, halves, wrong], [3])


def test_a_hypothesis_owes_its_own_definedness() -> None:
    parts = [same("x", lambda A: A * A, [0]), same("x", lambda w: w + 1, [1], "1/w != 7")]
    with pytest.raises(REFUSED):
        proved([X], parts, [2])


def test_inputs_may_be_one_array() -> None:
    assert proved([X], [part("x, x", lambda a, b: a + b, lambda a, b: b + a, [0, 0])], [1])
    differ = part("x, x", lambda a, b: a * 0 + b * 0 + 1, lambda a, b: (a - b) / (a - b), [0, 0], "a != b")
    with pytest.raises(REFUSED):
        proved([X], [differ], [1])


def test_sorts_of_cuts() -> None:
    bottom = same("x", lambda A: cd.where(A > 0, A, -float("inf")), [0])
    assert bottom.left.cod[0].element == "extended"
    real = same("x", lambda w: w - 1, [1])
    with pytest.raises(KernelError, match="for real arrays"):
        proved([X], [bottom, real], [2])
    assert proved([X], [bottom, same("extended[x]", lambda w: cd.exp(w), [1])], [2])
    truth = same("x", lambda A: A > 0, [0])
    with pytest.raises(KernelError, match="is real, and what it reads is not"):
        proved([X], [truth, real], [2])
    whole = same("x", lambda A: A / 2, [0])
    with pytest.raises(KernelError, match="for int arrays"):
        proved([X], [whole, same("int[x]", lambda w: w + 1, [1])], [2])
    # What is declared real on a part of the way is so because it is defined there.
    assert proved([X], [same("x", lambda A: cd.max(cd.where(A > 0, A, -float("inf")), "x"), [0])], [1])


def test_sizes_of_two_uses() -> None:
    """One theorem for any sizes, used at two; one that assumes something of its sizes, where that does not follow."""

    def mean(axis: str) -> tuple[Diagram, Diagram]:
        one, other = lambda a: cd.mean(a, axis), lambda a: cd.sum(a / cd.size(axis), axis)
        return of(axis, one), of(axis, other)

    one, other = PartEquation(*mean("x"), (0,)), PartEquation(*mean("y"), (1,))
    theorem = proved([X, array("y")], [one, other], [2, 3])
    assert theorem.checked.cited == 1
    large = part("x", lambda a: cd.sum(a, "x"), lambda a: cd.sum(a, "x") + 0, [0], "x >= 3")
    with pytest.raises(REFUSED, match="sizes of the whole"):
        proved([X], [large], [1])
    assert proved([X], [large], [1], [["le", 3, "x"]])
    changed = copy.deepcopy(theorem.certificate)
    changed["proof"]["parts"][1]["sizes"]["x"] = "x"
    refused(changed, "has axes|not what the parts are")


@pytest.mark.parametrize("name", ["i", "i_y", "i0"])
def test_a_cut_is_not_said_as_an_index_is(name: str) -> None:
    """`B[i] + i ≠ 0 for all i < y` would say nothing of what part 1 makes."""
    total = (of("x", lambda a: cd.sum(a, "x")), of("x", lambda a: cd.sum(a, "x") + 0))
    parts = [
        PartEquation(*total, (0,), (name,)),
        part("y, ", lambda b, c: cd.sum(1 / (b + c), "y"), lambda b, c: cd.sum(1 / (c + b), "y"), [1, 2]),
        part("y, ", lambda b, c: 1 / (b * c), lambda b, c: 1 / (c * b), [1, 2]),
    ]
    theorem = proved([X, array("y")], parts, [3, 4])
    summed, each, *_ = theorem.defined
    letter, index = (said.split(" for all ")[1].split(" < ")[0] for said in (summed, each))
    assert name not in (letter, index) and summed == f"in1[{letter}] + {name} ≠ 0 for all {letter} < y"
    assert f"in1[{index}]·{name} ≠ 0" in each or f"in1[{index}] ≠ 0" in each


def test_conditional_vacuous_and_false_parts() -> None:
    with pytest.raises(OpenPart, match="conditions"):
        proved([X], [part("x", lambda a: a * 0 + 1, lambda a: a / a, [0])], [1])
    with pytest.raises(OpenPart):
        proved([X], [part("x", lambda a: a + 1, lambda a: a + 2, [0])], [1])
    with pytest.raises(OpenPart, match="nothing meets"):
        proved([X], [same("x", lambda a: a + 1, [0], "a > 0", "a < 0")], [1])
    whole = proved([X], [same("x", lambda a: a + 1, [0])], [1]).certificate
    f = of("x", lambda a: a + 1)
    vacuous = cd.prove(f, f, assume=["a > 0", "a < 0"]).certificate
    refused({**whole, "cited": [vacuous]}, "about nothing")
    conditional = cd.prove(of("x", lambda a: a * 0 + 1), of("x", lambda a: a / a)).certificate
    refused({**whole, "cited": [conditional]}, "conditional")


SOFTMAX = part("q x", lambda S: cd.softmax(S, "x"), lambda S: cd.exp(S) / cd.sum(cd.exp(S), "x"), [0])


@pytest.fixture(scope="module")
def chain() -> dict[str, Any]:
    parts = [SOFTMAX, PartEquation(SOFTMAX.left, SOFTMAX.right, (1,))]
    return proved([array("q", "x")], parts, [2]).certificate


def _reads(c: Any) -> None:
    c["proof"]["parts"][0]["reads"] = [2]


def _results(c: Any) -> None:
    c["proof"]["results"] = [1]


def _axes(c: Any) -> None:
    c["proof"]["parts"][0]["axes"] = {"q": "x", "x": "x"}


def _swapped(c: Any) -> None:
    c["proof"]["parts"][0]["axes"] = {"q": "x", "x": "q"}


def _named(c: Any) -> None:
    c["proof"]["parts"][1]["makes"] = c["proof"]["parts"][0]["makes"]


def _shadow(c: Any) -> None:
    c["proof"]["parts"][1]["makes"] = ["in0"]


def _cites(c: Any) -> None:
    c["proof"]["parts"][1]["cites"] = 1


def _side(c: Any) -> None:
    c["statement"]["right"]["nodes"][0]["fn"] = "abs"


def _cited(c: Any) -> None:
    c["cited"][0]["statement"]["right"]["nodes"][0]["fn"] = "abs"


def _itself(c: Any) -> None:
    c["cited"] = [{**c["cited"][0], "proof": {"parts": c["proof"]["parts"], "results": [2]}, "cited": []}]


def _more(c: Any) -> None:
    c["proof"]["outputs"] = {"0": {"steps": []}}


def _none(c: Any) -> None:
    c["proof"]["parts"] = []


def _size(c: Any) -> None:
    c["proof"]["parts"][0]["sizes"]["x"] = ["+", "x", "unheard"]


def _negative(c: Any) -> None:
    c["proof"]["parts"][0]["sizes"]["x"] = -1


def test_it_fits_the_schema(chain: dict[str, Any], fitting: Any) -> None:
    fitting.validate(chain)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_reads, "not made before"), (_results, "not what the"), (_axes, "axis"), (_swapped, "has axes|the parts"),
        (_named, "one name"), (_shadow, "one name"), (_cites, "cites theorem"), (_side, "not what the parts are"),
        (_cited, "not proved|differ|type"), (_itself, "cites theorem"), (_more, "more than"), (_none, "not made"),
        (_size, "no size of the whole"), (_negative, "not a size"),
    ],
)  # fmt: skip
def test_a_changed_certificate(chain: dict[str, Any], change: Callable[[Any], None], said: str) -> None:
    changed = copy.deepcopy(chain)
    change(changed)
    refused(changed, said)


def test_loops_of_parts_and_their_blocks() -> None:
    total = cd.algorithm("q x -> q", name="total")(lambda a: cd.sum(a, "x"))
    looped = diagram_of(total.stream("x"))
    plain = diagram_of(total)
    twice = same("q x, q", lambda a, b: a * b, [0, 1])
    parts = [PartEquation(plain, looped, (0,)), twice, PartEquation(plain, looped, (2,))]
    theorem = proved([array("q", "x")], parts, [3])
    assert theorem.checked.cited == 2 and "A10" in theorem.axioms
    block = next(node["block"] for node in theorem.certificate["statement"]["right"]["nodes"] if node["op"] == "fold")
    changed = copy.deepcopy(theorem.certificate)
    changed["proof"]["parts"][0]["sizes"][block] = "q"
    refused(changed, "no new name")
    with pytest.raises(KernelError, match="no loops"):
        proved([array("q", "x")], [PartEquation(looped, looped, (0,))], [1])


def test_a_weakened_rule_lets_false_ones_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests tell a checker that takes all results for demanded from one that does not."""
    monkeypatch.setattr(Composites, "_everywhere", lambda *_: True)
    parts = [part("x, x", *QUOTIENT, [0, 1]), same("x, x", lambda a, r: a + 0, [2, 3])]
    assert not proved([X, X], parts, [4]).conditional


# -- random composites against exact evaluation -----------------------------------------------------------------------


def first(b: Any) -> Any:
    return cd.where(cd.index("x") < 1, b, 0)


POOL: list[tuple[str, Body, Body, tuple[str, ...]]] = [
    ("x, x", *QUOTIENT, ()),
    ("x, x", lambda a, b: a / b * b, lambda a, b: a + 0 / b, ()),
    ("x, x", lambda a, b: cd.where(a > 0, 1 / b, 0), lambda a, b: cd.where(a > 0, a / (a * b), 0), ()),
    ("x", lambda a: cd.sqrt(a) * cd.sqrt(a), lambda a: a + 0, ()),
    ("x", lambda a: cd.abs(a), lambda a: a + 0, ("a >= 0",)),
    ("x", lambda a: a * a, lambda a: cd.abs(a) * cd.abs(a), ()),
    ("x", lambda a: a / a, lambda a: a * 0 + 1, ()),
    ("x", lambda a: a * 0 + 1, lambda a: a / a, ("a != 0",)),
    ("x", lambda a: a / cd.sum(a, "x"), lambda a: a * (1 / cd.sum(a, "x")), ()),
    ("x, x", lambda a, b: (cd.maximum(a, b), 1 / a), lambda a, b: (cd.maximum(b, a) * a / a, 1 / a), ()),
    ("x, x", lambda a, b: a + first(b), lambda a, b: cd.where(cd.index("x") < 1, a + b, a), ()),
    ("x, x", lambda a, b: a + 0 * b, lambda a, b: a + b - b, ()),
    ("x, x", lambda a, b: a + 0, lambda a, b: a * 1, ()),
    ("x", lambda a: cd.where(a > 0, a, -float("inf")), lambda a: cd.where(a <= 0, -float("inf"), a), ()),
    ("extended[x]", lambda w: cd.exp(w), lambda w: cd.exp(w) + 0, ()),
    ("extended[x]", lambda w: cd.exp(w - cd.max(w, "x")), lambda w: cd.exp(w) / cd.exp(cd.max(w, "x")), ()),
    ("extended[x]", lambda w: cd.where(w > 0, w, 0), lambda w: cd.where(w <= 0, 0, w), ()),
    ("extended[x], x", lambda w, a: cd.where(a > 0, w - w, 0), lambda w, a: cd.where(a <= 0, 0, w - w), ()),
    ("x", lambda a: a > 0, lambda a: ~(a <= 0), ()),
    ("x", lambda a: 1 / a > 0, lambda a: a / a / a > 0, ()),
    ("bool[x], x", lambda m, a: cd.where(m, 1 / a, 0), lambda m, a: cd.where(m, a / a / a, 0), ()),
    ("bool[x], x", lambda m, a: cd.where(m, a, 0), lambda m, a: a + 0, ("m",)),
    ("x", lambda a: cd.exp(a) + 1, lambda a: 1 + cd.exp(a / 2) ** 2, ()),
    ("x", lambda a: cd.abs(a), lambda a: a + 0, ("a > 0",)),
    ("x", lambda a: a * 0 + 1, lambda a: a / a, ("a > 0",)),
    ("x, x", lambda a, b: cd.where(b > 0, a, 0), lambda a, b: cd.where(b > 0, 1, 0) * a, ()),
]  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_random_composites(data: st.DataObject) -> None:
    """Wherever the left side of a proved composite is defined, the right side is, and equal: on exact numbers."""
    parts: list[PartEquation] = []
    types = [X, X]
    for _ in range(data.draw(st.integers(1, 4))):
        signature, left, right, assume = data.draw(st.sampled_from(POOL))
        wanted = of(signature, left).dom
        if not all(ty in types for ty in wanted):
            continue
        reads = [data.draw(st.sampled_from([w for w, ty in enumerate(types) if ty == of_read])) for of_read in wanted]
        parts.append(part(signature, left, right, reads, *assume))
        types += parts[-1].left.cod
    results = data.draw(st.lists(st.integers(0, len(types) - 1), min_size=1, max_size=2))
    try:
        theorem = proved([X, X], parts, results)
    except REFUSED:
        return
    statement = theorem.certificate["statement"]
    for _ in range(10):
        n = data.draw(st.integers(1, 3))
        drawn = [data.draw(st.lists(st.integers(-2, 2), min_size=n, max_size=n)) for _ in range(2)]
        arrays = [build(["x"], [n], lambda i, row=row: Fraction(row[i[0]])) for row in drawn]  # type: ignore[misc]
        lefts, rights = (
            [v for a in run(statement[side], arrays, {"x": n}, {}, {}, Budget(10**6, BITS)) for v in a.values.values()]
            for side in ("left", "right")
        )
        if not any(isinstance(v, NoValue) for v in lefts):
            assert not any(isinstance(v, NoValue) for v in rights), (str(theorem), drawn)
            apart = (a != b if isinstance(a, bool) else different(a, b) for a, b in zip(lefts, rights, strict=True))
            assert not any(apart), (str(theorem), drawn)


def test_a_renaming_confuses_no_two_names() -> None:
    """Of axes and of local sizes; the same name may come again, and what is no name is refused."""
    axes, sizes = Renaming({}, {"a": "x", "b": "x"}), Renaming({"s": "t", "u": "t"}, {})
    for name, rename, same in (("a", axes.axis, "b"), ("s", sizes.local, "u")):
        assert rename(name) == rename(name) == {"a": "x", "s": "t"}[name]
        with pytest.raises(KernelError):
            rename(same)
    with pytest.raises(KernelError):
        axes.axis("x")  # stands for itself, as another axis does by now
    for wrong in ("", "x y", "1", 7, None):
        with pytest.raises(KernelError):
            Renaming({}, {"a": wrong}).axis("a")  # type: ignore[dict-item]
        with pytest.raises(KernelError):
            Renaming({"s": wrong}, {}).local("s")


def test_a_renaming_of_an_index_expression() -> None:
    renaming = Renaming({"n": "m"}, {"a": "x"})
    read = ["+", ["i", "a"], ["*", "n", ["//", ["w", 0], 2]]]
    assert renaming.expression(read) == ["+", ["i", "x"], ["*", "m", ["//", ["w", 0], 2]]]


def test_a_part_reads_what_is_there_has_no_loops_and_names_all_that_it_makes() -> None:
    """Each refusal beside the part that is one change away."""
    doubled = program([input_array("A", "x")], [apply("add", 0, 0)], 1)
    looped = program([input_array("A", "x")], [sum_fold([reduce("sum", "x", 1), apply("add", 0, 2)], 3)], 1)
    cited = [{"left": doubled, "right": doubled, "assume": []}, {"left": looped, "right": looped, "assume": []}]
    good: dict[str, Any] = {"cites": 0, "reads": [1], "makes": ["y"]}

    def part(**changed: Any) -> Any:
        return Composites.part(None, {**good, **changed}, cited, 2, frozenset("x"))  # type: ignore[arg-type]

    assert part().reads == [1] and part(reads=[0]).makes == ["y"]
    for changed in (
        {"cites": 1}, {"cites": 2}, {"cites": -1}, {"cites": True}, {"reads": [2]}, {"reads": [-1]}, {"reads": [True]},
        {"reads": [0, 1]}, {"reads": []}, {"makes": []}, {"makes": ["y", "z"]}, {"makes": ["not a name"]},
        {"sizes": {"x": "unknown"}},
    ):  # fmt: skip
        with pytest.raises(KernelError):
            part(**changed)
