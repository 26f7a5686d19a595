"""Transfers and memory at several levels: against io at two, and against tiles really cut within tiles."""

from itertools import pairwise

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.chip.hierarchy import Edge, Hierarchy, Level
from catdiag.cost.traffic import io
from catdiag.cost.traffic_by_level import levels_io
from catdiag.rewrite import group
from catdiag.util.errors import CatdiagError

CHAIN = ("HBM", "SMEM", "registers")
READ_THERE = {"operand": "SMEM", "streamed": "SMEM"}


def tiled_product():
    return cd.library.get("matmul").stream("b").group("a c")


def streamed_rows():
    return cd.library.get("attention").stream("x").group("q")


@pytest.fixture(scope="module")
def derived():
    return {"rows": streamed_rows(), "product": tiled_product()}


def at(formula, values):
    """A formula at numbers, by name."""
    value = formula.subs({s: values[s.name] for s in formula.free_symbols})
    assert value.is_Integer
    return int(value)


def lengths(whole, tiles):
    """The lengths of pieces within pieces."""
    found = [whole]
    for tile in tiles:
        found = [min(tile, n - start) for n in found for start in range(0, n, tile)]
    return found


@pytest.mark.parametrize("name", ["rows", "product"])
def test_two_levels_are_io(derived, name):
    diagram = derived[name].diagram
    for options in ({}, {"dtype": "bf16", "stages": 3}):
        plain, nested = io(diagram, **options), levels_io(diagram, ("HBM", "SMEM"), **options)
        edge = nested.edges["HBM", "SMEM"]
        assert (edge.load, edge.save, edge.relaxed) == (plain.load, plain.save, plain.relaxed)
        assert nested.memory["SMEM"] == plain.memory
        assert nested.live_arrays["SMEM"] == plain.live_arrays
        assert nested.work == plain.work


@pytest.mark.parametrize("name", ["rows", "product"])
def test_accumulators_in_registers_are_a_third_level_that_cuts_nothing_more(derived, name):
    diagram = derived[name].diagram
    plain = io(diagram, dtype="bf16", stages=2, accumulators="registers")
    nested = levels_io(diagram, CHAIN, placement=READ_THERE, stages=2, dtype="bf16")
    same = {found: sympy.Symbol(base, positive=True, integer=True) for base, found in nested.tiles["registers"].items()}
    assert nested.memory["SMEM"] == plain.memory
    assert nested.memory["registers"].subs(same) == plain.registers
    assert nested.edges["HBM", "SMEM"].transfers == plain.transfers
    assert nested.edges["SMEM", "registers"].transfers == plain.save


@settings(max_examples=15, deadline=None)
@given(
    n=st.tuples(*[st.integers(1, 30)] * 3), tiles=st.lists(st.tuples(*[st.integers(1, 12)] * 3), min_size=3, max_size=3)
)
def test_tiles_within_tiles_are_counted_with_their_remainders(nested_product, numbers, n, tiles):
    values = dict(zip("abc", n))
    for names, sizes in zip(("g_a s_b g_c", "g2_a s2_b g2_c", "g3_a s3_b g3_c"), tiles):
        values.update(zip(names.split(), sizes))
    for number, ends in enumerate(pairwise(nested_product.levels), 1):
        rows, columns = (lengths(n[k], [t[k] for t in tiles[:number]]) for k in (0, 2))
        load, save = numbers[ends[0].name, ends[1].name](values)
        assert load == sum(n[1] * (a + c) for a in rows for c in columns)
        assert save == n[0] * n[2]


@pytest.fixture(scope="module")
def nested_product(derived):
    return derived["product"].io(levels=("disk", "HBM", "SMEM", "registers"))


@pytest.fixture(scope="module")
def numbers(nested_product):
    """Loads and saves of each edge as functions of numbers."""
    return {ends: quick(edge.load, edge.save) for ends, edge in nested_product.edges.items()}


def quick(*formulas):
    names = sorted(set().union(*(f.free_symbols for f in formulas)), key=str)
    function = sympy.lambdify(names, formulas, modules="math")
    return lambda values: function(*(values[s.name] for s in names))


def test_each_level_holds_its_piece(nested_product):
    assert str(nested_product.memory["HBM"]) == "g_a*s_b + g_c*s_b"
    assert str(nested_product.memory["registers"]) == "g3_a*g3_c + g3_a*s3_b + g3_c*s3_b"
    assert str(nested_product.children["SMEM"]) == "ceiling(g_a/g2_a)*ceiling(g_c/g2_c)"
    assert [str(a) for a in nested_product.groups["SMEM"].values()] == ["g_a", "g_c"]


def test_programs_are_posynomials_by_edge_and_level(nested_product):
    program = nested_product.programs()
    assert str(program.objective["HBM", "SMEM"]) == "a*b*c/g2_c + a*b*c/g2_a + a*c"
    assert str(program.children["registers"]) == "g2_a*g2_c/(g3_a*g3_c)"
    assert set(program.memory) == set(program.tiles) == {"HBM", "SMEM", "registers"}


def test_an_axis_that_only_inner_levels_cut(derived):
    whole = cd.algorithm("q d, x d, x e -> q e")(
        lambda Q, K, V: cd.einsum("q x, x e -> q e", cd.einsum("q d, x d -> q x", Q, K), V)
    )
    found = whole.stream("x").group("q").io(levels=CHAIN, within={"registers": ("q", "e")})
    assert str(found.memory["SMEM"]) == "d*g_q + d*s_x + e*s_x"
    assert str(found.edges["HBM", "SMEM"].relaxed) == "d*q + d*q*x/g_q + e*q + e*q*x/g_q"
    assert "d*e*q*x/(g2_e*g2_q)" in str(found.edges["SMEM", "registers"].relaxed)
    assert [str(t) for t in found.groups["registers"]] == ["g2_q", "g2_e"]
    with pytest.raises(CatdiagError, match="group it first"):
        levels_io(derived["rows"].diagram, CHAIN, within={"registers": ("q", "d")})


def test_several_kernels_follow_each_other():
    program = cd.algorithm("a b, b c, c d -> a d")(
        lambda A, B, C: cd.einsum("a c, c d -> a d", cd.einsum("a b, b c -> a c", A, B), C)
    )
    found = levels_io(program, CHAIN, fused=False)
    assert found.edges["HBM", "SMEM"].transfers == io(program, fused=False).transfers
    assert found.edges["SMEM", "registers"].transfers == io(program, fused=False).transfers


def test_parts_at_several_levels():
    parts = cd.algorithm("q x")(lambda A: cd.sum(A, "x")).split("x").group("q")
    found, plain = parts.io(levels=CHAIN), parts.io()
    assert found.edges["HBM", "SMEM"].transfers == plain.transfers
    values = {"q": 13, "x": 24, "p_x": 4, "g_q": 5, "s_x": 3, "g2_q": 2, "s2_x": 2}
    assert at(found.edges["SMEM", "registers"].transfers, values) == at(plain.transfers, values)
    assert {s.name for s in found.memory["registers"].free_symbols} <= {"g2_q", "s2_x"}


def test_what_is_written_is_readable(derived):
    found = levels_io(derived["rows"].diagram, CHAIN, placement=READ_THERE, stages={"SMEM": 2}, dtype="bf16")
    table = found.as_dict()
    assert table["placement"]["state"] == ["registers"] and table["stages"] == {"SMEM": 2}
    assert table["memory"]["SMEM"] == str(found.memory["SMEM"])
    assert "SMEM to registers" in str(found) and "(2 buffers of a streamed block)" in str(found)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"levels": ("HBM",)}, "two levels or more"),
        ({"levels": "HBM"}, "expected names"),
        ({"levels": ("HBM", "HBM")}, "each level once"),
        ({"placement": {"states": "SMEM"}}, "names a role 'states'"),
        ({"placement": {"operand": "L2"}}, "expected levels below HBM"),
        ({"placement": {"operand": ("registers", "SMEM")}}, "slowest first"),
        ({"placement": {"state": CHAIN[1:]}}, "one level, its home"),
        ({"stages": {"L2": 2}}, "stages names 'L2'"),
        ({"stages": 0}, "1 or more"),
        ({"within": {"L2": "q"}}, "within names level 'L2'"),
        ({"wave": 0}, "how many groups run at a time"),
    ],
)
def test_what_is_refused(derived, options, words):
    with pytest.raises(CatdiagError, match=words):
        levels_io(derived["rows"].diagram, **{"levels": CHAIN, **options})


def test_a_graph_that_is_no_chain(derived):
    forked = Hierarchy(
        "forked",
        (Level("HBM", None), Level("SMEM", 8), Level("CMEM", 8)),
        (Edge("HBM", "SMEM", 1.0), Edge("HBM", "CMEM", 1.0)),
    )
    with pytest.raises(CatdiagError, match="is no chain"):
        levels_io(derived["rows"].diagram, forked)


def test_states_above_the_innermost_level_are_loaded_and_saved_for_each_block(derived):
    found = derived["rows"].io(levels=CHAIN, placement={"state": "SMEM"})
    assert str(found.edges["HBM", "SMEM"].relaxed) == "2*d*q + 2*d*q*x/g_q"
    assert str(found.memory["SMEM"]) == "2*d*g_q + 2*d*s_x + 2*g_q"
    below = found.edges["SMEM", "registers"]
    moved = {(t.array, t.direction, str(t.exact)) for t in below.traffic if "sum3" in t.array or t.array == "Q"}
    turns = "d*q*ceiling(x/s_x)"
    assert moved == {("sum3", "load", turns), ("sum3", "save", turns), ("sum3", "load", "d*q"), ("Q", "load", turns)}
    assert found.children["registers"] == 1


def test_a_state_that_lacks_what_is_cut_below_its_home_is_refused():
    total = cd.algorithm("x, x e -> e")(lambda W, V: cd.einsum("x, x e -> e", W, V) / cd.sum(W, "x"))
    streamed = total.stream("x").group("e")
    with pytest.raises(CatdiagError, match=r"lacks axis 'e', which registers cuts.*keep states at registers"):
        streamed.io(levels=CHAIN, placement={"state": "SMEM"})
    assert streamed.io(levels=CHAIN, placement={"state": "SMEM"}, within={"registers": ()}).memory["SMEM"]
    with pytest.raises(CatdiagError, match="temporaries are expected there"):
        streamed.io(levels=CHAIN, placement={"state": "SMEM", "temporary": "SMEM"})


def cached(capacity):
    levels = Level("HBM", None), Level("L2", capacity, "cache"), Level("SMEM", None)
    return Hierarchy("cached", levels, (Edge("HBM", "L2", None), Edge("L2", "SMEM", None)))


@pytest.mark.parametrize("capacity", [None, 60, 200])
def test_a_cache_fetches_what_a_wave_touches_once_if_it_fits(derived, capacity):
    found = derived["product"].io(levels=cached(capacity), dtype={"A": "fp8", "B": "fp8", "out": "fp8"})
    edge, most = found.edges["HBM", "L2"], found.memory["L2"]
    for a, b, c, tall, wide, wave in ((7, 3, 9, 2, 4, 3), (5, 8, 6, 2, 5, 2), (9, 4, 9, 1, 2, 7), (3, 2, 2, 9, 9, 5)):
        values = {"a": a, "b": b, "c": c, "g_a": tall, "g_c": wide, "wave": wave}
        rows, columns = lengths(a, [tall]), lengths(c, [wide])
        groups = [(r, s) for r in range(len(rows)) for s in range(len(columns))]
        total = fullest = 0
        for start in range(0, len(groups), wave):
            members = groups[start : start + wave]
            touched = sum(rows[r] for r in {r for r, _ in members}) + sum(columns[s] for s in {s for _, s in members})
            every = sum(rows[r] + columns[s] for r, s in members)
            total += b * (touched if capacity is None or b * touched <= capacity else every)
            fullest = max(fullest, b * touched)
        assert at(edge.load, values) == total
        assert at(most, values) == fullest
        assert at(edge.save, values) == a * c
    below = found.edges["L2", "SMEM"]
    assert below.transfers == derived["product"].io(dtype={"A": "fp8", "B": "fp8", "out": "fp8"}).transfers


def test_about_what_a_cache_fetches_where_waves_are_blocks_of_the_grid(derived):
    edge = derived["product"].io(levels=cached(None)).edges["HBM", "L2"]
    values = {"a": 32, "b": 5, "c": 24, "g_a": 4, "g_c": 4, "wave": 12}  # 8 × 6 groups, two rows of them at a time
    assert at(edge.load, values) == at(edge.relaxed - edge.save, values) == 5 * (32 + 4 * 24)


def test_what_is_refused_of_caches(derived):
    with pytest.raises(CatdiagError, match="L2 holds 60 bytes: say how wide values are"):
        derived["product"].io(levels=cached(60))
    levels = Level("HBM", None), Level("SMEM", None), Level("L1", None, "cache"), Level("registers", None)
    under = Hierarchy("under", levels, tuple(Edge(a.name, b.name, None) for a, b in pairwise(levels)))
    with pytest.raises(CatdiagError, match="caches directly below HBM"):
        derived["product"].io(levels=under)
    names = ("HBM", "L2", "SMEM", "registers")
    whole = Hierarchy(
        "whole",
        tuple(Level(n, None, "cache" if n == "L2" else "scratchpad") for n in names),
        tuple(Edge(a, b, None) for a, b in pairwise(names)),
    )
    with pytest.raises(CatdiagError, match="pass by SMEM, which is under the cache L2"):
        derived["product"].io(levels=whole, placement={"streamed": "registers"})
    assert "L2 (a cache)" in str(derived["product"].io(levels=whole))


def test_loops_that_leave_blocks_out_are_refused():
    masked = cd.algorithm("q x -> q")(lambda A: cd.sum(cd.where(cd.index("x") <= cd.index("q"), A, 0), "x"))
    causal = masked.stream("x").group("q").skip("x")
    with pytest.raises(CatdiagError, match="skips blocks: which are run at each level is not counted"):
        causal.io(levels=CHAIN)


def test_children_that_hold_the_accumulators_bound_the_tile_above(derived):
    found = derived["rows"].io(levels=CHAIN, placement=READ_THERE)
    count = sympy.Symbol("N", positive=True)
    (full,) = [r for r in found.regimes("SMEM", count) if r.binding == "M_registers full"]
    assert str(full.value) == "2*d*q + 2*d*q*x*(d + s2_x + 3)/(M_registers*N)"
    with pytest.raises(CatdiagError, match="how its pieces are arranged matters"):
        derived["product"].io(levels=CHAIN).regimes("SMEM", count)
    with pytest.raises(CatdiagError, match="'registers' is not above it"):
        found.regimes("registers", count)


def test_lower_bounds_are_for_all_memories_that_a_piece_uses(derived):
    h100 = cd.hardware.H100.hierarchy
    found = derived["product"].io(levels=h100.chain("HBM", "SMEM", "registers"), dtype="bf16")
    smem, registers = (level.capacity for level in h100.levels[2:])
    assert (found.reach("SMEM"), found.reach("registers")) == (smem + registers, registers)
    plain = derived["product"].io(levels=CHAIN)
    assert (str(plain.reach("SMEM")), str(plain.reach("registers"))) == ("M", "M_registers")
    assert plain.bounded("SMEM") and plain.bounded("registers")
    apart = derived["product"].io(levels=CHAIN, placement=READ_THERE)
    assert apart.bounded("SMEM") and not apart.bounded("registers")
    assert not derived["product"].io(levels=CHAIN, placement={"streamed": "registers"}).bounded("registers")


@settings(max_examples=20, deadline=None)
@given(n=st.tuples(*[st.integers(1, 40)] * 3), tiles=st.tuples(*[st.tuples(*[st.integers(1, 12)] * 3)] * 3))
def test_no_nested_tiles_move_less_than_the_lower_bound(nested_product, numbers, bound, held, n, tiles):
    values = dict(zip("abc", n))
    above = n
    for names, sizes in zip(("g_a s_b g_c", "g2_a s2_b g2_c", "g3_a s3_b g3_c"), tiles):
        above = tuple(map(min, sizes, above))
        values.update(zip(names.split(), above))
    (m3,) = held(values)
    load, save = numbers["SMEM", "registers"](values)
    assert load + save >= bound.at(dict(zip("abc", n)), m3)


@pytest.fixture(scope="module")
def bound(derived):
    return derived["product"].lower_bound()


@pytest.fixture(scope="module")
def held(nested_product):
    return quick(nested_product.memory["registers"])


def test_windows_are_what_each_piece_reaches():
    form = group.find(cd.library.get("conv1d").diagram, ["y"])
    found, plain = levels_io(form, CHAIN), io(form)
    assert found.edges["HBM", "SMEM"].transfers.expand() == plain.transfers.expand()
    assert found.edges["HBM", "SMEM"].relaxed == plain.relaxed
    assert found.memory["SMEM"].free_symbols & set(found.groups["SMEM"])
    below = {t.array: t.exact for t in found.edges["SMEM", "registers"].traffic}
    for y, g, h in ((23, 7, 3), (9, 4, 4), (5, 8, 2)):
        values = {"y": y, "g_y": g, "g2_y": h, "k": 4, "c": 2, "n": 3, "o": 5, "x": y + 3}
        assert at(below["a"], values) == 2 * 3 * sum(n + 4 - 1 for n in lengths(y, [g, h]))
    with pytest.raises(CatdiagError, match="overlap, which"):
        levels_io(form, CHAIN, placement={"state": "SMEM"})
