"""Lower bounds: never above what a schedule moves, be it found, counted, or written here to beat published bounds."""

from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.bounds.bound_certificate import BoundClaim, BoundError, check, times
from catdiag.bounds.joint_bound import check_joint, derive_joint
from catdiag.bounds.joint_search import JointBound
from catdiag.bounds.segments import Lifetime, check_lifetime
from catdiag.cost.traffic import io
from catdiag.rewrite import group, skip
from catdiag.rewrite.stream import fold_search
from catdiag.simulate.machine import count
from catdiag.testing.assert_counts import drawn_tiles
from tests.bounds.programs import gram, mttkrp
from tests.forms import form


def positive(name):
    return sympy.Symbol(name, positive=True, integer=True)


def at(expr, values):
    return sympy.sympify(expr).subs({positive(name): value for name, value in values.items()})


@cd.algorithm("i k, k j, j l -> i l")
def two(A, B, C):
    return cd.einsum("i j, j l -> i l", cd.einsum("i k, k j -> i j", A, B), C)


@cd.algorithm("q d, x d, x v -> q v")
def scored(Q, K, V):
    return cd.einsum("q x, x v -> q v", cd.softmax(cd.einsum("q d, x d -> q x", Q, K), "x"), V)


def values(diagram):
    return [str(term.value) for term in diagram.lower_bound().terms]


def test_bounds_of_the_literature():
    # Smith, Lowery, Langou and van de Geijn 2017, with no term in M to take off; and SOAP's for three operands.
    assert values(cd.library.get("matmul")) == ["2*a*b*c/sqrt(M)"]
    assert "3*i*j*k*l/M**(2/3)" in values(mttkrp)
    # Beaumont et al. 2022: M N^2 / sqrt(2 S), over the pairs of different rows.
    assert values(gram) == ["sqrt(2)*d*n**2*(1 - 1/n)/(2*sqrt(M))"]
    # A window of k elements lets each be used k times.
    assert "2*c*sqrt(k)*n*o*y/sqrt(M)" in values(cd.library.get("conv1d"))
    assert "2*c*sqrt(i)*sqrt(j)*n*o*x*y/sqrt(M)" in values(cd.library.get("conv2d"))


def test_two_regimes_of_a_chain():
    both = {"Min(2*q*v*x/sqrt(M), 32*d*q*v*x/(9*M))", "Min(3*sqrt(6)*q*v*x/(4*sqrt(M)), 4*d*q*v*x/M)"}
    assert both <= set(values(scored))
    found = cd.library.get("attention").lower_bound()
    assert found.kind == "chain"
    # The least of the class of tiled schedules is 4 d^2 q x / M at leading order: as much.
    optimum = io(form("attention", "x", "q")).optimum()
    assert 1 <= found.ratio(optimum, {"d": 64, "q": 2**16, "x": 2**16}, 10**5) < 1.05
    assert found.capacity in found.ratio(optimum).free_symbols


def test_what_computing_nothing_twice_adds():
    """Where rows of keys and of values differ in length: (d + v)^2 for 4 d v, as tiled schedules move."""
    once = scored.lower_bound(recompute=False)
    assert "q*x/(M/(d + v)**2 + 1)" in [str(t.value) for t in once.terms]
    sizes, capacity = {"q": 2**14, "x": 2**14, "d": 16, "v": 256}, 2**20
    assert once.at(sizes, capacity) > 1.9 * scored.lower_bound().at(sizes, capacity)
    optimum = io(group.find(fold_search.find(scored.diagram, "x").diagram, ["q"])).optimum()
    assert 1 <= once.ratio(optimum, sizes, capacity) < 2
    live = next(case for case in once.certificate if isinstance(case, Lifetime))
    check_lifetime(live)
    for wrong in (
        replace(live, claim=(*live.claim, (Fraction(999, 1000), Fraction(1)))),
        replace(live, rows=live.rows[:1], powers=live.powers[:1]),
        replace(live, rows=(live.rows[0], replace(live.rows[1], groups=live.rows[0].groups))),
    ):
        with pytest.raises(BoundError):
            check_lifetime(wrong)


def test_compulsory_traffic_where_nothing_else_is_shown():
    found = cd.library.get("layer_norm").lower_bound()
    assert (found.kind, str(found.bound)) == ("compulsory", "2*d*t + 2*d + 1")
    assert "no bound beyond" in str(found)
    assert found.at({"d": 4, "t": 0}) == 0
    with pytest.raises(cd.errors.SizeError, match="the bound is in t too"):
        found.at({"d": 4})


def test_capacity_sizes_and_bytes():
    product = cd.library.get("matmul")
    assert product.lower_bound(10_000).at({"a": 1000, "b": 1000, "c": 1000}) == 20_000_000
    assert product.lower_bound(sizes={"a": 9, "b": 9, "c": 9}).at(capacity=4) == 729
    # Half as wide: half the bytes in twice the values of room.
    assert str(product.lower_bound(dtype="bf16").terms[0].value) == "4*sqrt(2)*a*b*c/sqrt(M)"
    assert product.lower_bound(2**20, dtype="fp32").at({"a": 2**12, "b": 2**12, "c": 2**12}) == 2**30
    with pytest.raises(cd.errors.CatdiagError, match="unknown dtype"):
        product.lower_bound(dtype="bf17")


def stronger_sums(found):
    """A share that is claimed to be smaller, a group with two owners, a result twice in a group: no sum."""
    joint, shares = found.joint, found.shares
    less = replace(shares[0].main[0], coefficient=times((shares[0].main[0].coefficient, 1), (half(), 1)))
    with pytest.raises(BoundError):
        check_joint(joint, (replace(shares[0], main=(less, *shares[0].main[1:])), *shares[1:]))
    with pytest.raises(BoundError, match="one owner"):
        derive_joint(replace(joint, owners=(*joint.owners, joint.owners[0])))
    with pytest.raises(BoundError, match="owns too little"):
        derive_joint(replace(joint, owners=()))
    with pytest.raises(BoundError, match="in common"):
        derive_joint(replace(joint, cases=(joint.cases[0], joint.cases[0])))
    last = [replace(s, group=0) if s.result else s for s in joint.cases[0].sources]
    if any(s.result for s in last) and any(s.result for s in joint.cases[1].sources):
        other = [replace(s, group=0) if s.result else s for s in joint.cases[1].sources]
        cases = replace(joint.cases[0], sources=tuple(last)), replace(joint.cases[1], sources=tuple(other))
        with pytest.raises(BoundError, match="two results"):
            derive_joint(replace(joint, cases=cases))


def half():
    return ((Fraction(1, 2), Fraction(1)),)


def test_bounds_of_contractions_add_up():
    """Two products and three in a row at more than half of what each needs alone, a layer at more than its largest."""
    capacity, n = 2**16, 2**15
    sizes = dict.fromkeys("ikjl", n)
    alone = 2 * n**3 / capacity**0.5
    found = two.lower_bound(capacity, sizes=sizes)
    found.check()
    assert 1.3 * alone < found.at() <= 2 * alone
    assert two.lower_bound().at(sizes, capacity) == pytest.approx(found.at())  # the same, found without sizes
    lengths = {"t": 8192, "m": 4096, "k": 32, "d": 128, "f": 14336}
    terms = layer.lower_bound(capacity, sizes=lengths).terms
    largest = {kind: max(float(t.at(lengths, capacity)) for t in terms if t.kind == kind) for kind in ("sum", "chain")}
    assert largest["sum"] > 1.5 * largest["chain"]


@pytest.mark.parametrize("diagram", [cd.library.get("matmul"), mttkrp, gram, scored, two], ids=str)
def test_a_stronger_claim_fails_its_check(diagram):
    found = diagram.lower_bound()
    found.check()
    for case in found.certificate:
        if isinstance(case, JointBound):
            stronger_sums(case)
            continue
        for k, monomial in enumerate(case.claim.monomials):
            by = Fraction(999 if case.claim.kind == "difference" and k else 1001, 1000)
            more = replace(monomial, coefficient=times((monomial.coefficient, 1), (((by, Fraction(1)),), 1)))
            monomials = (*case.claim.monomials[:k], more, *case.claim.monomials[k + 1 :])
            with pytest.raises(BoundError, match="claims"):
                check(replace(case, claim=BoundClaim(case.claim.kind, monomials)))
        with pytest.raises(BoundError):
            check(replace(case, powers=tuple(p * Fraction(99, 100) for p in case.powers)))


# -- explicit schedules --------------------------------------------------------------------------------------------


def test_a_chain_with_small_inner_extents_beats_published_bounds():
    """Rows of A and of the result stay; B and C pass. The product of A and B never leaves the fast memory."""
    n, d, capacity = 4096, 64, 65536
    rows = 503
    assert rows * 2 * d + 2 * d + rows <= capacity
    moved = 2 * n * d + -(-n // rows) * 2 * n * d
    assert moved < 2 * n * n * (d + d) / capacity**0.5
    bound = two.lower_bound(capacity).at({"i": n, "j": n, "k": d, "l": d})
    assert moved / 1.3 < bound < moved


def test_no_bound_on_equal_diagrams():
    """Normalised by an L2 norm, the same is computed from a state of d by v: less than its first form has to move."""

    @cd.algorithm("q d, x d, x v -> q v")
    def first(Q, K, V):
        return cd.einsum("q x, x v -> q v", cd.einsum("q d, x d -> q x", Q, K), V) / cd.size("x")

    @cd.algorithm("q d, x d, x v -> q v")
    def second(Q, K, V):
        return cd.einsum("q d, d v -> q v", Q, cd.einsum("x d, x v -> d v", K, V)) / cd.size("x")

    assert cd.equivalent(first, second)
    sizes, capacity = {"q": 2**14, "x": 2**14, "d": 16, "v": 16}, 2**10
    whole = 2 * 2**14 * 32
    assert second.lower_bound(capacity).at(sizes) <= whole < first.lower_bound(capacity).at(sizes)
    assert any("equal diagrams" in text for text in first.lower_bound().assumptions)


def test_what_a_mask_empties_counts_and_what_is_skipped_does_not():
    """Causal: the form that skips blocks moves less than the whole form has to, and no less than its own bound."""
    whole = form("causal_attention", "x", "q")
    skipped = skip.find(whole, "x")
    assert any("mask" in text for text in cd.Program(whole).lower_bound().assumptions)
    assert any("skips blocks" in text for text in cd.Program(skipped).lower_bound().assumptions)
    sizes, formula = {"q": 960, "x": 960, "d": 8}, io(skipped)
    put = {positive(n): v for n, v in {**sizes, "g_q": 24, "s_x": 4}.items()}
    moved, peak = (int(e.subs(put, simultaneous=True).doit()) for e in (formula.transfers, formula.memory))
    assert cd.Program(skipped).lower_bound().at(sizes, peak) <= moved < cd.Program(whole).lower_bound().at(sizes, peak)


# -- what is counted -----------------------------------------------------------------------------------------------

PLANS = {
    "matmul": ("b", "a c"), "attention": ("x", "q"), "mlp": ("f", "t"), "covariance": ("x", "q"),
    "grouped_query_attention": ("x", "b k r q"), "linear_cross_entropy": ("v", "t"), "conv1d": (None, "n y"),
}  # fmt: skip
LONGER = {"grouped_query_attention", "linear_cross_entropy", "mlp"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in LONGER)) for n in PLANS])
def test_no_tiling_falls_under_the_bound(name):
    random = Random(name)
    for diagram in (cd.library.get(name), form(name, *PLANS[name])):
        bound, formula = cd.Program(diagram).lower_bound(), io(diagram)
        names = formula.account.sizes
        for k in range(5):
            sizes = {n: random.randint(1, 6 if k < 2 else 300) for n in names}
            tiles = {
                str(t): random.randint(1, int(at(a, sizes))) for t, a in {**formula.groups, **formula.streams}.items()
            }
            if name == "conv1d":
                sizes["x"] = sizes["y"] + sizes["k"] - 1
            put = {**sizes, **tiles}
            moved, peak = at(formula.transfers, put), at(formula.memory, put)
            if k < 2:
                counted = count(diagram, sizes, tiles)
                assert (counted.load + counted.save, counted.peak) == (moved, peak)
            assert bound.at(sizes, peak) <= moved


def below(form, trials, seed):
    """At random sizes and tiles, in bytes too: no more than is moved with as much room as is taken."""
    random = Random(seed)
    for dtype in (None, "bf16"):
        try:
            formula = io(form, dtype=dtype)
        except cd.errors.CatdiagError:  # parts that cannot be counted
            return
        bound = cd.Program(form).lower_bound(dtype=dtype)
        bound.check()
        for _ in range(trials):
            largest = random.choice((4, 40, 2000))
            sizes = {n: max(1, round(largest ** random.random())) for n in formula.account.sizes}
            tiles = drawn_tiles(form, sizes, random)
            named = {positive(n): v for n, v in {**sizes, **tiles}.items()}
            moved, peak = (e.subs(named, simultaneous=True) for e in (formula.transfers, formula.memory))
            assert bound.at(sizes, int(peak)) <= moved


@settings(max_examples=3, deadline=None)
@given(st.data())
def test_random_programs(data):
    program = data.draw(st.one_of(cd.testing.einsums(), cd.testing.cascades()))
    below(data.draw(cd.testing.blocked(program)), 2, 0)


@pytest.mark.slow
def test_groups_do_what_is_grouped():
    assert "2*c*sqrt(k)*n*o*y/sqrt(M)" in values(cd.library.get("conv1d").group("y"))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_random_programs_at_length(data):
    program = data.draw(st.one_of(cd.testing.einsums(), cd.testing.cascades()))
    below(program, 4, 1)
    below(data.draw(cd.testing.blocked(program)), 4, 2)


def test_a_term_takes_a_capacity_that_is_an_integer() -> None:
    sizes = {"q": 64, "x": 64, "d": 16}
    for term in cd.library.get("attention").lower_bound().terms:
        assert term.at(sizes, 1000) == term.at(sizes, Fraction(1000)) > 0


@cd.algorithm("t m, m k d, m k d, m k d, k d m, m f, m f, f m -> t m")
def layer(X, Q, K, V, R, G, U, D):
    """Attention and a gated layer, each with a residual."""
    q, k, v = (cd.einsum("t m, m k d -> k t d", X, W) for W in (Q, K, V))
    scores = cd.softmax(cd.einsum("k t d, k x d -> k t x", q, k.rename(t="x")), "x")
    H = X + cd.einsum("k t d, k d m -> t m", cd.einsum("k t x, k x d -> k t d", scores, v.rename(t="x")), R)
    gated = cd.nn.silu(cd.einsum("t m, m f -> t f", H, G)) * cd.einsum("t m, m f -> t f", H, U)
    return H + cd.einsum("t f, f m -> t m", gated, D)


def test_the_formulas_of_a_layer_can_be_read():
    found = layer.lower_bound()
    found.check()
    assert all(len(str(term.value)) < 200 for term in found.terms) and len(found.terms) <= 12
    assert len(str(found)) < 4000


def test_a_contraction_and_a_sum_of_products_may_share_what_they_compute() -> None:
    """Of the same factors: an operation of one may do the work of the other, so that the term is smaller."""
    alone = cd.algorithm("t d, d o -> t o")(lambda A, W: cd.einsum("t d, d o -> t o", A, W))
    both = cd.algorithm("t d, d o -> t o, t o")(lambda A, W: (cd.einsum("t d, d o -> t o", A, W), cd.sum(A * W, "d")))
    assert "2*d*o*t/sqrt(M)  (contraction" in str(alone.lower_bound())
    assert "sqrt(2)*d*o*t/sqrt(M)  (contraction" in str(both.lower_bound())
