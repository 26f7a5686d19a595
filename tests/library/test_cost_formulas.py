"""What the library's operators cost, against formulas derived apart from it.

Each formula is of the schedule in which a group keeps its rows and what it makes of them, and everything else passes
by: rows of w values in all take `M/w` of them, so that what passes by, once for each group, costs `w/M` times its size
times the number of rows. A product of matrices costs `2abc/√M + ac` (Smith et al. 2017, 1702.02017, leading order).
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import pytest
import sympy

import catdiag as cd
from catdiag.planner.fusions import fusions
from catdiag.rewrite.derivation import Derivation

M = sympy.Symbol("M", positive=True)


def symbols(names: str) -> list[sympy.Symbol]:
    return [sympy.Symbol(n, positive=True, integer=True) for n in names]


@cache
def derived(name: str, stream: str, groups: str) -> Derivation:
    return cd.library.get(name).stream(stream).group(groups)


def same(left: sympy.Expr, right: sympy.Expr) -> bool:
    return bool(sympy.factor(left - right) == 0)


def test_layers_of_two_and_three_matrices() -> None:
    t, d, f, o = symbols("tdfo")
    for name, matrices in (("mlp", 2), ("gated_mlp", 3)):
        found = derived(name, "f", "t").io().optimum().leading
        # With w = d + o values a row: X and Y once, the matrices for each M/w rows.
        passing = ((matrices - 1) * d + o) * f
        assert same(found, t * (d + o) + t * (d + o) * passing / M)
        assert same(found.subs(o, d), 2 * t * d + 2 * matrices * t * f * d**2 / M)


@pytest.mark.slow
def test_a_last_layer_with_its_loss_keeps_no_logits() -> None:
    t, d, v = symbols("tdv")
    found = derived("linear_cross_entropy", "v", "t").io()
    # Rows of H and labels in, a number out; W passes by. Logits, t·v, are never moved.
    assert same(found.optimum().leading, t * d + 2 * t + t * v * d**2 / M)
    assert same(found.relaxed, t * d + 2 * t + d * v * t / sympy.Symbol("g_t", positive=True, integer=True))


@pytest.mark.slow
def test_a_norm_before_a_product_costs_a_number_a_tile() -> None:
    t, d, o = symbols("tdo")
    found = derived("rms_norm_linear", "d", "t o").io().optimum().power_form
    # The product's own cost, and with each of the t o / M tiles the gains and eps.
    assert same(found.coefficient(0), o * t) and same(found.coefficient(Fraction(1, 2)), 2 * t * d * o)
    assert same(found.coefficient(1), t * o * (d + 1))


@pytest.mark.slow
def test_latents_are_read_once_as_keys_and_as_values() -> None:
    h, q, x, c, r = symbols("hqxcr")
    io = derived("latent_attention", "x", "q h").io()
    found = io.optimum().leading
    # A row keeps a query in two parts and a result: w = 2c + r. Latents, their positions and the scale pass by.
    assert same(found, h * q * (2 * c + r) + h * q * (x * (c + r) + 1) * (2 * c + r) / M)
    # Each of the h heads shares them: a cache of c + r values a position, where heads apart have 2 h d.
    assert [t.array for t in io.traffic if t.direction == "load"].count("C") == 1


def test_experts_move_weights_where_few_tokens_come_to_each() -> None:
    e, t, d, f, o = symbols("etdfo")
    io = derived("expert_mlps", "f", "e t").io()
    optimum = io.optimum()
    assert same(optimum.leading, e * t * (d + o) + e * t * f * (d + o) ** 2 / M)
    # T tokens, k of e experts each: t = T k / e. Few of them: all are one group, and each expert's weights pass once.
    tokens, k = sympy.symbols("T k", positive=True)
    few = io.relaxed.subs(dict(io.groups)).subs(t, tokens * k / e)
    assert same(few, tokens * k * (d + o) + e * f * (d + o))
    regime = optimum.leading_regimes.at({e: 64, t: 4, d: 1024, f: 4096, o: 1024, M: 2**16})
    assert regime is not None and same(regime.value, e * t * (d + o) + e * f * (d + o))


@pytest.mark.slow
def test_experts_one_product_at_a_time() -> None:
    e, t, d, f, o = symbols("etdfo")
    choice = fusions(cd.library.get("expert_mlps"))
    # Each product of an expert is one of matrices: leading order 2 t d f / √M where t and d are above √M.
    assert same(choice.unfused.leading, 2 * e * t * f * (d + o) / sympy.sqrt(M) + e * t * (f + o))
    assert same(choice.crossover().roots[0], (sympy.sqrt(2) - 1) * (d + o))


@pytest.mark.slow
def test_a_step_of_decoding_reads_the_cache_once() -> None:
    b, k, r, x, d = symbols("bkrxd")
    made = derived("decoding_attention", "x", "b k r")
    io = made.io()
    whole = dict(io.groups)
    # Per key-value head: r queries and results, and the keys and values: 2 r d + 2 x d values.
    assert same(io.relaxed.subs(whole), b * k * (2 * r * d + 2 * x * d))
    regime = io.optimum().leading_regimes.at({b: 8, k: 8, r: 8, x: 8192, d: 128, M: 2**16})
    assert regime is not None and same(regime.value, b * k * (2 * r * d + 2 * x * d))
    # In bf16 4 r x d FLOP for 4 x d bytes: the number of heads that share the cache, for long caches.
    in_bytes = made.io(dtype="bf16")
    intensity = in_bytes.work["tensor"] / in_bytes.relaxed.subs(whole)
    assert sympy.limit(intensity, x, sympy.oo) == r
    assert same(intensity, r * x / (x + r))


@pytest.mark.slow
def test_parts_of_a_cache_cost_their_states() -> None:
    b, k, r, d, p = *symbols("bkrd"), sympy.Symbol("p_x", positive=True, integer=True)
    made = derived("decoding_attention", "x", "b k r")
    parts = made.split("x").io()
    # A part saves what it sums up, d + 2 values a head, and the merge loads it; each part reads the queries.
    extra = 2 * p * b * k * r * (d + 2) + (p - 1) * b * k * r * d
    assert same(sympy.expand(parts.relaxed - made.io().relaxed), sympy.expand(extra))
    # By name: queries and the cache in bf16, and what is not named in fp32, the states among it.
    by_name = dict.fromkeys(("Q", "K", "V", "out"), "bf16")
    in_bytes = made.split("x").io(dtype=by_name).relaxed - made.io(dtype=by_name).relaxed
    assert same(sympy.expand(in_bytes), sympy.expand(4 * 2 * p * b * k * r * (d + 2) + 2 * (p - 1) * b * k * r * d))


@pytest.mark.slow
def test_one_query_of_a_group_is_a_step_of_decoding() -> None:
    b, k, r, q, x, d = symbols("bkrqxd")
    io = derived("grouped_query_attention", "x", "b k r q").io()
    assert same(io.optimum().leading, 2 * b * k * r * q * d + 4 * b * k * r * q * x * d**2 / M)
    one = {b: 1, k: 8, r: 8, q: 1, x: 4096, d: 128, M: 2**16}
    regime = io.optimum().leading_regimes.at(one)
    assert regime is not None and same(regime.value.subs({b: 1, q: 1}), k * (2 * r * d + 2 * x * d))


def test_experts_over_devices_take_an_all_to_all() -> None:
    e, t, d, f, o = symbols("etdfo")
    P = sympy.Symbol("P", positive=True, integer=True)
    made = derived("expert_mlps", "f", "e t").sharding({"e": "P"}, stored={"X": "t", "out": "t"})
    kinds = {s.array: s.pattern for s in made.shares}
    assert kinds == {"X": "all-to-all", "U": "stays", "W": "stays", "out": "all-to-all"}
    # Of the e·t token slots a device works on 1/P, and has 1/P of these: there and back.
    assert same(made.received, e * t * (d + o) / P * (1 - 1 / P))
    assert same(made.flops, 2 * e * t * f * (d + o) / P)


@pytest.mark.slow
def test_decoding_over_devices_by_heads_moves_nothing_and_by_keys_the_states() -> None:
    b, k, r, d = symbols("bkrd")
    P = sympy.Symbol("P", positive=True, integer=True)
    made = derived("decoding_attention", "x", "b k r")
    assert made.sharding({"k": "P"}).received == 0
    by_keys = made.sharding({"x": "P"}, stored={"Q": None})
    assert same(by_keys.received, b * k * r * (d + 2) * (P - 1) / P)
