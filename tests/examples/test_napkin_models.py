"""Models over tiers, transfers against work, and energy: laws, brute force, and what is refused."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.chip.hierarchy import Edge, Hierarchy, Level
from catdiag.optimum.power_form import power_form
from examples.napkin.energy_of_transfers import energy
from examples.napkin.hierarchy_model import Model, Tier, cross_transfer_gain, quantization_gain, tiers
from examples.napkin.machine_balance import (
    bandwidth_needed,
    machine_ratio,
    min_memory,
    min_memory_integer,
    per_operation,
    size_range,
)

M, N, SMALL = sympy.symbols("M N m", positive=True)
numbers = st.fractions(min_value=Fraction(1, 50), max_value=50, max_denominator=50)
betas = st.sampled_from([Fraction(1, 3), Fraction(1, 2), Fraction(1), Fraction(3, 2)])
forms = st.dictionaries(betas, numbers, min_size=1, max_size=3)


def form_of(terms, constant=0):
    summands = [sympy.Rational(a.numerator, a.denominator) * M ** -sympy.Rational(b.numerator, b.denominator)
                for b, a in terms.items()]  # fmt: skip
    return power_form(sympy.Add(*summands, constant), M)


# -- models -----------------------------------------------------------------------------------------


def test_tiers_are_added(flash):
    d, q, x = (sympy.Symbol(n, positive=True, integer=True) for n in "dqx")
    model = Model.of(flash.io().optimum(), [Tier("L2", N, 3), Tier("SMEM", SMALL, 1)])
    assert (
        sympy.expand(model.total - (3 * (2 * q * d + 4 * x * q * d**2 / N) + 2 * q * d + 4 * x * q * d**2 / SMALL)) == 0
    )
    assert sympy.expand(sum(model.parts.values()) - model.total) == 0
    assert model.conditions["SMEM"] == (SMALL / (2 * d) >= 1, SMALL / (2 * d) <= q)


@pytest.mark.parametrize("derived", ["product", "flash"])
def test_children_hold_the_results_of_their_level(derived, request):
    optimum = request.getfixturevalue(derived).io().optimum()
    model = Model.of(optimum, [Tier("L2", 10, 1), Tier("SMEM", SMALL, 1)])
    found = model.caching(SMALL, N)
    assert (found.memory, found.needed, found.contains) == (N * SMALL, N, True)
    cached = model.cached("L2", 4)
    assert cached.tier("L2").memory == 4 * SMALL
    assert cached.parts["L2"] == sympy.expand(optimum.power_form.at(4 * SMALL))


def test_children_are_counted_by_tiles_in_tiles(flash):
    """What theorem 2 says is what is counted of a level above whose states stay in its children."""
    nested = flash.io(levels=("HBM", "L2", "SMEM"), placement={"state": "SMEM"})
    outer, child = (next(iter(nested.tiles[level].values())) for level in ("L2", "SMEM"))
    d = sympy.Symbol("d", positive=True, integer=True)
    form = flash.io().optimum().power_form
    edge = nested.edges["HBM", "L2"].relaxed
    tiled = {str(s): s for s in edge.free_symbols}[str(outer)]
    assert sympy.expand(edge.subs(tiled, N * SMALL / (2 * d)) - form.at(N * SMALL)) == 0
    assert str(nested.children["SMEM"]) == f"ceiling({outer}/{child})"


def test_tiers_of_a_chip():
    hbm, l2 = tiers("H100", "HBM", "L2", "SMEM")
    assert (hbm.name, hbm.cost, l2.memory) == ("L2", 1 / cd.hardware.H100.hbm_bytes_per_s, 227 * 1024)
    levels = (Level("HBM", None), Level("SMEM", 100))
    priced = Hierarchy("priced", levels, (Edge("HBM", "SMEM", None, 30.0),))
    assert tiers(priced, "HBM", "SMEM", by="energy")[0].cost == 30.0 * 1e-12
    for call, message in (
        (lambda: tiers("H100", "HBM", "L2", by="energy"), "no published figure"),
        (lambda: tiers(priced, "HBM", "SMEM"), "is not known"),
        (lambda: tiers(priced, "HBM"), "two levels or more"),
        (lambda: tiers(priced, "HBM", "SMEM", by="luck"), "expected 'time' or 'energy'"),
    ):
        with pytest.raises(cd.errors.CatdiagError, match=message):
            call()


def test_too_few_children_are_refused():
    # Tiles that grow faster than memory, which no optimum's do, need more children than there are.
    model = Model(form_of({Fraction(1): Fraction(4)}), (Tier("L2", 9, 1), Tier("SMEM", 3, 1)), {SMALL: M**2})
    assert model.caching(3, 2).needed == 4
    with pytest.raises(cd.errors.CatdiagError, match="would need 4 children and there are 2"):
        model.cached("L2", 2)
    with pytest.raises(cd.errors.CatdiagError, match="give the memory of one of its children"):
        model.cached("SMEM", 2)


@given(forms, st.integers(2, 16), numbers, numbers)
@settings(max_examples=6, deadline=None)
def test_the_gain_of_a_cluster_is_the_formula_of_the_theorem(terms, children, cross, more):
    cost, passed = (sympy.Rational(str(c)) for c in (cross + more, cross))
    model = Model(form_of(terms), (Tier("SMEM", M, cost),))
    clustered = model.clustered("SMEM", children, passed)
    stated = sum(
        alpha * M ** -sympy.Rational(str(beta)) * cross_transfer_gain(beta, children, cost, passed)
        for alpha, beta in model.form.terms
    )
    assert abs(float((model.gain(clustered) - stated).subs(M, 7))) < 1e-9
    assert float(clustered.total.subs(M, 7)) <= float(model.total.subs(M, 7)) + 1e-9


def test_a_cluster_that_costs_more_buys_nothing():
    model = Model(form_of({Fraction(1): Fraction(4)}), (Tier("SMEM", 3, 1),))
    with pytest.raises(cd.errors.CatdiagError, match="buys nothing"):
        model.clustered("SMEM", 2, 2)


def test_without_a_tier_the_next_one_takes_its_transfers():
    model = Model(form_of({Fraction(1): Fraction(40)}), (Tier("L2", 20, 3), Tier("SMEM", 5, 1)))
    assert model.total == 3 * 2 + 8 and model.without("L2").total == 3 * 8
    for wrong, message in (("SMEM", "last tier"), ("L3", "the model has L2, SMEM")):
        with pytest.raises(cd.errors.CatdiagError, match=message):
            model.without(wrong)


@pytest.mark.parametrize(("memory", "cost"), [(0, 1), (-3, 1), (sympy.Symbol("z"), 1), (3, -1)])
def test_tiers_are_checked(memory, cost):
    with pytest.raises(cd.errors.CatdiagError, match="tier 'L2' has"):
        Tier("L2", memory, cost)


def test_all_of_one_width_scales_by_the_paper(product, flash):
    for derived, factor in ((product, 2 ** sympy.Rational(3, 2)), (flash, 4)):
        model = Model.of(derived.io().optimum(), [Tier("SMEM", 4096, 1)])
        (_, beta) = model.form.terms[-1]
        assert quantization_gain(model.quantized(2).form, model.quantized(1).form)[beta] == factor


def test_bytes_by_array_are_the_honest_factor(flash):
    q, d, x = (sympy.Symbol(n, positive=True, integer=True) for n in "qdx")
    widths = {"fp32": 4, "bf16": 2, "fp8": 1}
    for Q, K, V, out in (
        ("bf16", "bf16", "bf16", "bf16"),
        ("fp8", "fp8", "bf16", "bf16"),
        ("fp8", "fp8", "fp8", "fp32"),
    ):
        form = flash.io(dtype={"Q": Q, "K": K, "V": V, "out": out}).optimum().power_form
        wQ, wK, wV, wO = (widths[n] for n in (Q, K, V, out))
        assert sympy.expand(form.coefficient(1) - x * q * d**2 * (wK + wV) * (wQ + 4)) == 0
        assert sympy.expand(form.coefficient(0) - q * d * (wQ + wO)) == 0


# -- transfers against work -------------------------------------------------------------------------


def test_a_product_and_its_intensity(product):
    form = per_operation(product.io())
    b = sympy.Symbol("b", positive=True, integer=True)
    assert sympy.simplify(form.expr - (1 / sympy.sqrt(form.capacity) + 1 / (2 * b))) == 0
    r = sympy.Symbol("r", positive=True)
    assert sympy.simplify(min_memory(form, r).exact - 1 / (r - 1 / (2 * b)) ** 2) == 0


def test_operations_that_are_none_are_refused(product):
    with pytest.raises(cd.errors.CatdiagError, match="no work for 'exp'"):
        per_operation(product.io(), "exp")


@given(forms, numbers, numbers)
@settings(max_examples=12, deadline=None)
def test_the_least_memory_is_between_its_ends(terms, constant, more):
    form = form_of(terms, sympy.Rational(str(constant)))
    found = min_memory(form, constant + more)
    limit = sympy.Rational(str(constant + more))
    at = [form.at(sympy.Rational(str(end))) for end in (found.upper, found.lower)]
    assert sympy.N(at[0] - limit, 60) <= 0 < sympy.N(at[1] - limit, 60)
    # A bit less would not do, and so the check can fail.
    assert sympy.N(form.at(sympy.Rational(str(found.upper * Fraction(999, 1000)))) - limit, 60) > 0
    if found.exact is not None:
        assert abs(float(found.exact) / float(found.upper) - 1) < 1e-9
    with pytest.raises(cd.errors.CatdiagError, match="no memory suffices"):
        min_memory(form, constant)


@given(st.dictionaries(st.integers(-2, 2), numbers, min_size=1, max_size=3), numbers, st.integers(1, 10**6))
@settings(max_examples=6, deadline=None)
def test_the_range_of_sizes_is_all_that_does(powers, ratio, memory):
    b = sympy.Symbol("b", positive=True)
    alpha = sympy.Add(*(sympy.Rational(str(c)) * b**k for k, c in powers.items()))
    form = power_form(alpha + b / sympy.sqrt(M), M)

    value = sympy.lambdify(b, form.at(memory), "math")

    def fine(size):
        return value(float(size)) - float(ratio)

    tried = [Fraction(n, 8) for n in range(8, 800, 29)]
    try:
        found = size_range(form, "b", ratio, memory=memory)
    except cd.errors.CatdiagError:
        assert all(fine(size) > -1e-6 for size in tried)
        return
    for size in tried:
        inside = found.lower <= size and (found.upper is None or size <= found.upper)
        assert (fine(size) < 1e-9) if inside else (fine(size) > -1e-9)


def test_sizes_are_checked(product):
    form = per_operation(product.io())
    for call, message in (
        (lambda: size_range(form, "c", Fraction(1, 9)), "do not depend on 'c'"),
        (lambda: size_range(form, "b", Fraction(1, 9), {"b": 3}), "leave it out"),
        (lambda: min_memory(form, Fraction(1, 9), {"z": 3}), "'z' is given"),
    ):
        with pytest.raises(cd.errors.SizeError, match=message):
            call()
    with pytest.raises(cd.errors.CatdiagError, match="bytes_per_s is 0"):
        machine_ratio(0, 1)


@pytest.mark.parametrize("derived", ["product", "flash"])
@pytest.mark.parametrize("dtype", [None, "bf16"])
def test_no_whole_tile_does_with_less(derived, dtype, request):
    io = request.getfixturevalue(derived).io(dtype=dtype)
    sizes = dict.fromkeys(io.account.sizes, 13)
    tiles = [str(t) for t in io.groups]
    memory, transfers = (
        sympy.lambdify([sympy.Symbol(t, positive=True, integer=True) for t in tiles],
                       e.subs({s: sizes.get(str(s), 1) for s in e.free_symbols if str(s) not in tiles}), "math")
        for e in (io.memory, io.transfers)
    )  # fmt: skip
    work = io.work["tensor"].subs({s: sizes[str(s)] for s in io.work["tensor"].free_symbols})
    options = list(itertools.product(range(1, 14), repeat=len(tiles)))
    for ratio in (Fraction(1, 3), Fraction(1, 6), Fraction(3, 10)):
        within = [memory(*t) for t in options if transfers(*t) <= ratio * int(work)]
        if not within:
            with pytest.raises(cd.errors.CatdiagError, match="not even whole axes"):
                min_memory_integer(io, sizes, ratio)
            continue
        found = min_memory_integer(io, sizes, ratio)
        assert found.memory == min(within) and found.transfers <= found.budget
        # The leading order leaves out what only adds to memory: it is never above.
        form = per_operation(io)
        known = {str(s): 13 for s in form.expr.free_symbols - {form.capacity}}
        assert min_memory(form, ratio, known).upper <= found.memory * (1 + Fraction(1, 10**9))
        needed = bandwidth_needed(io, sizes, found.tiles, 1)
        assert needed == Fraction(found.transfers, int(work)) <= ratio


def test_work_that_groups_do_again_counts_once():
    twice = cd.algorithm("t d, d f, f o -> t o")(
        lambda A, B, C: cd.einsum("t f, f o -> t o", cd.exp(cd.einsum("t d, d f -> t f", A, B)), C)
    )
    io = twice.stream("f").group("o").io()
    assert "g_o" in str(io.work["tensor"])
    form = per_operation(io)
    assert not {str(s) for s in form.expr.free_symbols} & {"g_o", "s_f"}
    sizes = dict.fromkeys("tdfo", 24)
    found = min_memory_integer(io, sizes, Fraction(1, 4))
    assert found.budget == Fraction(1, 4) * 4 * 24**3
    assert min_memory(form, Fraction(1, 4), sizes).upper <= found.memory


def test_whole_tiles_need_no_less_than_the_leading_order(product):
    io = product.io()
    ratio = Fraction(1, 20)
    sizes = {"a": 128, "b": 128, "c": 128}
    assert min_memory_integer(io, sizes, ratio).memory >= float(min_memory(per_operation(io), ratio, {"b": 128}))
    assert math.isclose(float(min_memory(per_operation(io), ratio, {"b": math.inf})), 400)


# -- energy -----------------------------------------------------------------------------------------


def test_no_energy_is_made_up():
    levels = (Level("HBM", None), Level("L2", 1 << 20, "cache"), Level("SMEM", 1 << 16))
    known = Hierarchy("known", levels, (Edge("HBM", "L2", 1e12, 30.0), Edge("L2", "SMEM", 1e12, 5.0)))
    half = Hierarchy("half", levels, (Edge("HBM", "L2", 1e12, 30.0), Edge("L2", "SMEM", 1e12)))
    moved = {("HBM", "L2"): 10**12, ("L2", "SMEM"): 4 * 10**12}
    assert math.isclose(energy(moved, known).total, 30 + 20)
    found = energy(moved, half)
    assert math.isclose(found.joules["HBM", "L2"], 30) and "no published figure" in str(found)
    with pytest.raises(cd.errors.CatdiagError, match="no published figure for the energy of L2 to SMEM of half"):
        _ = found.total
    with pytest.raises(cd.errors.CatdiagError, match="no edge HBM to SMEM"):
        energy({("HBM", "SMEM"): 1}, half)
