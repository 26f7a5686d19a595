"""Fused or unfused: the ways to cut a diagram into kernels, their costs, and where one begins to win."""

from __future__ import annotations

import random
from itertools import combinations, pairwise, product

import pytest
import sympy

import catdiag as cd
from catdiag.execute.interpreter import run
from catdiag.optimum.exhaustive import exhaustive_optimum, tile_sizes
from catdiag.planner.fusions import Fusions, fusions
from catdiag.rewrite.local_sizes import sizes_in

d, q, x, t, f, o, M = (sympy.Symbol(n, positive=True, integer=n != "M") for n in ("d", "q", "x", "t", "f", "o", "M"))


@pytest.fixture(scope="module")
def scores() -> Fusions:
    return fusions(cd.library.get("attention"))


@pytest.fixture(scope="module")
def layers() -> Fusions:
    return fusions(cd.library.get("mlp"))


def same(left: sympy.Expr, right: sympy.Expr) -> bool:
    names = {s: sympy.Symbol(s.name, positive=True) for e in (left, right) for s in e.free_symbols}
    return bool(sympy.simplify((left - right).subs(names)) == 0)


@pytest.mark.slow
def test_each_way_is_the_sum_of_its_kernels(scores: Fusions) -> None:
    assert [len(w.kernels) for w in scores.options_of()] == [1, 2, 2, 3]
    assert same(scores.fused.leading, 2 * d * q + 4 * d**2 * q * x / M)
    # A product of matrices a b c moves 2abc/√M + ac; the softmax reads and writes its rows once.
    products = 4 * d * q * x / sympy.sqrt(M) + d * q
    assert scores.alternative is not None and same(scores.alternative.leading, products + q * x)
    assert same(scores.unfused.leading, products + 3 * q * x)
    assert any(str(c) == "M >= x" for c in scores.unfused.conditions)


@pytest.mark.slow
def test_the_crossover_with_one_and_three_passes(scores: Fusions) -> None:
    for way, passes in ((scores.alternative, 1), (scores.unfused, 3)):
        found = scores.crossover(second=way)
        assert found.proved and found.signs == (1, -1)
        assert same(found.roots[0], 2 * d * (sympy.sqrt(1 + passes) - 1) / passes)
    short = scores.crossover(long=False)
    assert short.proved and short.conditions, "short axes count, and a condition says which"


@pytest.mark.slow
def test_a_fused_layer_wins_where_the_model_is_narrow(layers: Fusions) -> None:
    assert same(layers.fused.leading, t * (d + o) + t * f * (d + o) ** 2 / M)
    found = layers.crossover()
    assert found.proved
    assert same(found.roots[0], (sympy.sqrt(2) - 1) * (d + o))
    assert layers.saving("relu [t f]") == layers.alternative
    with pytest.raises(cd.errors.NotFusable, match="they save"):
        layers.saving("Q")


@pytest.mark.slow
def test_the_verdict_of_every_regime(scores: Fusions) -> None:
    found = scores.cases()
    # Less than two rows: the loop does not fit. Up to d² values the crossover decides; from there on the loop wins.
    said = [
        (case.verdict, case.first == sympy.oo, sympy.Le(sympy.sqrt(M), d) in named(case.conditions)) for case in found
    ]
    assert sorted(said) == [
        ("either", False, True), ("first", False, False), ("second", True, False), ("second", True, True),
    ]  # fmt: skip
    (between,) = (case for case in found if case.verdict == "either")
    assert between.crossover is not None and same(between.crossover.roots[0], 2 * d * (sympy.sqrt(2) - 1))
    for size, room in ((8, 100), (16, 40), (16, 255), (16, 2000), (3, 5)):
        put = {"d": size, "q": 4096, "x": 8192, "M": room}
        for case in found:
            at = [e.subs({s: put[s.name] for s in e.free_symbols}) for e in (case.first, case.second)]
            if all(c.subs({s: put[s.name] for s in c.free_symbols}) == sympy.true for c in case.conditions):
                assert case.verdict == "either" or (at[0] <= at[1]) == (case.verdict == "first")


def named(relations: tuple[sympy.Expr, ...]) -> list[sympy.Expr]:
    return [
        r.subs({s: sympy.Symbol(s.name, positive=True, integer=s.name != "M") for s in r.free_symbols})
        for r in relations
    ]


@pytest.mark.slow
def test_the_crossover_holds_for_integer_tiles(scores: Fusions) -> None:
    sizes = {"q": 2048, "x": 2048, "d": 48}
    [(low, high)] = scores.crossover().at(sizes)
    assert float(low) == pytest.approx(4 * 48**2 * (2**0.5 - 1) ** 2) and low <= high
    # Statistics and blocks of one take some room, more of it where little is there.
    assert len(scores.best(sizes, int(low * 7 / 10)).option.kernels) == 2
    assert len(scores.best(sizes, int(high * 2)).option.kernels) == 1


def test_dynamic_programming_finds_what_trying_all_ways_does(scores: Fusions, layers: Fusions) -> None:
    for choice, sizes in ((scores, {"q": 60, "x": 90, "d": 16}), (layers, {"t": 90, "d": 10, "f": 40, "o": 7})):
        for room in (5, 60):
            verdict = choice.best(sizes, room)
            totals = []
            for way in choice.options_of():
                parts = [k.exhaustive_optimum(sizes, room) for k in way.kernels]
                if None not in parts:
                    totals.append(sum(p[0].transfers for p in parts if p))
            assert verdict.transfers == (min(totals) if totals else None)
            if verdict.option is None:
                assert str(verdict) == "no way fits"
                continue
            assert verdict.exhaustive
            for schedule, tiles in zip(verdict.schedules, verdict.tiles, strict=True):
                assert schedule.derivation is None or schedule.derivation.theorem
                given = {**sizes, **tiles, **dict.fromkeys(map(str, schedule.io.streams), 1)}
                held = schedule.io.memory
                assert held.subs({s: given[s.name] for s in held.free_symbols}) <= room


def test_the_best_tiles_are_those_of_brute_force() -> None:
    io = cd.library.get("matmul").stream("b").group("a c").io()
    sizes = {"a": 12, "b": 9, "c": 15}
    for room in (3, 20, 60, 400):
        found = exhaustive_optimum(io.account, sizes, room)
        fits = []
        for g in range(1, 13):
            for h in range(1, 16):
                if g * h + g + h <= room:
                    fits.append(12 * 9 * -(-15 // h) + 9 * 15 * -(-12 // g) + 12 * 15)
        assert (None if found is None else found.transfers) == (min(fits) if fits else None)
    for size in range(1, 40):
        counts = {-(-size // g) for g in range(1, size + 1)}
        assert {min(g for g in range(1, size + 1) if -(-size // g) == k) for k in counts} <= set(tile_sizes(size))


@pytest.mark.slow
def test_the_leading_order_is_never_above_integer_tiles(scores: Fusions) -> None:
    for choice, sizes in ((scores, {"q": 64, "x": 128, "d": 8}), (scores, {"q": 128, "x": 90, "d": 11})):
        for way in choice.options_of():
            if way.leading is None:
                continue
            for room in (300, 800):
                parts = [k.exhaustive_optimum(sizes, room) for k in way.kernels]
                chosen = [exhaustive_optimum(s.io.account, sizes, room) for s in way.schedules if s is not None]
                if None not in parts and None not in chosen:
                    bound = way.leading.subs({**{s: sizes[s.name] for s in way.leading.free_symbols if s.name in sizes},
                                              choice.capacity: room})  # fmt: skip
                    assert float(bound) <= sum(c.transfers for c in chosen if c) + 1e-6


def test_bytes_and_opened_boxes() -> None:
    choice = fusions(cd.library.get("softmax_contraction"), opened=True)
    assert len(choice.row.stages) == 5 and len(choice.options_of()) == 16
    assert choice.options_of(2)[0].saved == ("max[x] [q]",)
    sizes = {"t": 64, "d": 8, "f": 32, "o": 8}
    parts = {kind: fusions(cd.library.get("mlp"), dtype=kind).kernel(0, 1) for kind in ("bf16", "fp32")}
    found = {kind: kernel.exhaustive_optimum(sizes, 1 << 20) for kind, kernel in parts.items()}
    assert [found[k][0].transfers for k in ("bf16", "fp32")] == [k * (64 * 8 + 8 * 32 + 64 * 32) for k in (2, 4)]


def test_a_convolution_reads_its_windows_in_place_or_saves_them() -> None:
    choice = fusions(cd.library.get("conv1d"))
    sizes = {"n": 2, "x": 34, "y": 32, "k": 3, "c": 4, "o": 4}
    verdict = choice.best(sizes, 200)
    # 2·34·4 elements in and 2·32·4 results once; 3·4·4 weights for each of the two sequences, of which one fits.
    assert verdict.option == choice.fused and verdict.transfers == 2 * 34 * 4 + 2 * 3 * 4 * 4 + 2 * 32 * 4
    with pytest.raises(cd.errors.CatdiagError, match="no size was given for y"):
        choice.best({k: v for k, v in sizes.items() if k != "y"}, 200)


def test_pieces_compose_to_the_whole() -> None:
    import numpy as np

    rng = np.random.default_rng(0)
    for name in ("attention", "gated_mlp", "linear_cross_entropy"):
        whole = cd.library.get(name)
        choice = fusions(whole)
        sizes = {a.name: k + 3 for k, a in enumerate({a.name: a for ty in whole.dom for a in ty.axes}.values())}
        shapes = [tuple(sizes[a.name] for a in ty.axes) for ty in whole.dom]
        arrays = [
            rng.integers(0, 2, s) if ty.element == "int" else rng.normal(size=s)
            for s, ty in zip(shapes, whole.dom, strict=True)
        ]
        expected = whole(*arrays)
        count = len(choice.row.stages)
        for n in range(count):
            for cuts in combinations(range(1, count), n):
                known = dict(zip((choice.row.names[w] for w in range(len(arrays))), arrays, strict=True))
                ends = [0, *cuts, count]
                for a, b in pairwise(ends):
                    piece = choice.row.segment_diagram(a, b)
                    made = cd.Program(piece)(*(known[name] for name in piece.input_names))
                    if b == count:
                        np.testing.assert_allclose(made, expected, rtol=1e-12)
                    else:
                        new = [w for w in choice.row.crossing(b) if choice.row.names[w] not in known]
                        outs = made if isinstance(made, tuple) else (made,)
                        known.update(zip((choice.row.names[w] for w in new), outs, strict=True))


SLOWER = [
    pytest.param(n, marks=pytest.mark.slow)
    for n in ("attention", "gated_mlp", "linear_cross_entropy", "softmax_entropy")
]


@pytest.mark.parametrize("name", SLOWER)
def test_ways_as_diagrams_mean_the_same_and_move_what_the_machine_counts(name: str, scores: Fusions) -> None:
    import numpy as np

    from catdiag.simulate.machine import count

    choice = scores if name == "attention" else fusions(cd.library.get(name))
    for way in choice.options_of():
        made = choice.derive(way)
        assert not made.theorem.conditional
        io = made.io()
        sizes = {s: 7 + k for k, s in enumerate(sorted(io.account.sizes))}
        tiles = {str(s): 3 for s in (*io.groups, *io.streams)}
        counted = count(made.diagram, sizes, tiles)
        given = {**sizes, **tiles}
        parts = [s.io.transfers for s in way.schedules if s is not None]
        assert counted.load + counted.save == sum(
            int(part.subs({s: given[s.name] for s in part.free_symbols})) for part in parts
        )
        if name == "attention":
            arrays = [np.random.default_rng(0).normal(size=n) for n in ((5, 4), (6, 4), (6, 4))]
            np.testing.assert_allclose(made.run(*arrays, tiles=tiles), run(choice.diagram, arrays), rtol=1e-12)


def chained(rng: random.Random) -> cd.category.Diagram:
    """Two or three products of matrices in a row, with functions between them, of random order and axes."""
    axes = [chr(ord("a") + k) for k in range(rng.randint(3, 5))]
    pairs = [f"{m} {n}" for m, n in pairwise(axes)]
    functions = [rng.choice((cd.nn.relu, cd.exp, cd.tanh, lambda v: v * v, lambda v: v)) for _ in pairs]

    def body(*arrays: cd.category.Diagram) -> cd.category.Diagram:
        made, kept = functions[0](arrays[0]), axes[0]
        for function, array, (m, n) in zip(functions[1:], arrays[1:], pairwise(axes[1:]), strict=True):
            made = function(cd.einsum(f"{kept} {m}, {m} {n} -> {kept} {n}", made, array))
        return made

    return cd.algorithm(", ".join(pairs), name="chain")(body)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_chains_cost_what_the_machine_counts_and_no_way_beats_the_best(seed: int) -> None:
    from catdiag.simulate.machine import count

    rng = random.Random(seed)
    choice = fusions(chained(rng))
    sizes = {s: rng.randint(2, 12) for s in choice.fused.kernels[0].schedules[0].estimate.account.sizes}
    for room in (rng.randint(4, 30), rng.randint(30, 150)):
        verdict = choice.best(sizes, room)
        for way in choice.options_of():
            total = 0
            for kernel in way.kernels:
                least_so_far = None
                for schedule in kernel.schedules:
                    whole = [range(1, sizes[str(axis)] + 1) for axis in schedule.io.groups.values()]
                    made = kernel.diagram if schedule.derivation is None else schedule.derivation.diagram
                    for tiles in product(*whole) if len(whole) < 3 else ():
                        put = dict(zip(map(str, schedule.io.groups), tiles, strict=True))
                        put.update(dict.fromkeys(map(str, schedule.io.streams), 1))
                        if rng.random() < 0.1:
                            counted = count(made, sizes, put)
                            if counted.peak <= room:
                                moved = counted.load + counted.save
                                least_so_far = moved if least_so_far is None else min(least_so_far, moved)
                total = None if total is None or least_so_far is None else total + least_so_far
            assert total is None or (verdict.transfers is not None and verdict.transfers <= total)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["attention", "gated_mlp", "linear_cross_entropy", "latent_attention", "rms_norm_linear"]
)
def test_no_way_moves_less_than_what_every_schedule_must(name: str) -> None:
    rng = random.Random(name)
    diagram = cd.library.get(name)
    choice, bound = fusions(diagram), diagram.lower_bound()
    for _ in range(10):
        sizes = {s: rng.choice((1, 2, 3, 6, 9, 16, 25)) for s in sizes_in(diagram.diagram)}
        room = rng.choice((5, 9, 17, 33, 60, 100, 300))
        verdict = choice.best(sizes, room)
        assert verdict.transfers is None or bound.at(sizes, room) <= verdict.transfers


def test_what_is_derived_already_or_does_nothing_is_refused() -> None:
    with pytest.raises(cd.errors.CatdiagError, match="before it is derived"):
        fusions(cd.library.get("dot").stream("x").diagram)
    with pytest.raises(cd.errors.CatdiagError, match="nothing to cut"):
        fusions(cd.algorithm("x")(lambda a: a))
    with pytest.raises(cd.errors.CatdiagError, match="one dtype"):
        fusions(cd.library.get("dot"), dtype={"a": "bf16"})


def test_a_crossover_says_for_which_shapes_its_schedules_are_the_least() -> None:
    """Two schedules of one kernel: 2·d·k²·n/M and 2·d²·k·n/M values, of which neither is always less."""
    nearest = cd.algorithm("n d, k d -> n", name="nearest")(
        lambda X, C: cd.min(cd.sum(X * X, "d") + cd.sum(C * C, "d") - 2 * cd.einsum("n d, k d -> n k", X, C), "k")
    )
    choice = fusions(nearest)
    found = choice.crossover()
    d, k = (next(s for s in choice.fused.leading.free_symbols if s.name == n) for n in "dk")
    assert (d - k >= 0) in found.conditions
    assert str(found.conditions[0]) in str(found)
    assert all(case.conditions[-1].subs({d: 16, k: 512}) == sympy.false for case in choice.cases())
    # Where the condition fails, one kernel moves less.
    assert len(choice.best({"n": 64, "k": 64, "d": 4}, 200).option.kernels) == 1


def test_a_long_row_is_printed_by_its_stages():
    @cd.algorithm("t d, d d2=d -> t d2=d")
    def deep(X, W):
        for _ in range(6):
            X = cd.einsum("t d, d e -> t e", cd.tanh(X), W.rename(d2="e")).rename(e="d")
        return X.rename(d="d2")

    text = str(fusions(deep.diagram, most=2))
    assert "kernels of more than 2 stages are not compared; a kernel for each stage" in text
