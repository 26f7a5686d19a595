"""Formulas of chains of memories against the machine with several memories: random programs and the library's, tiles
within tiles, arrays that pass levels by."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.chip.hierarchy import Edge, Hierarchy, Level
from catdiag.cost.traffic_by_level import levels_io
from catdiag.execute.named_arrays import NamedArray
from catdiag.rewrite import group
from catdiag.rewrite.stream import fold_search
from catdiag.schedule.split_k import is_split
from catdiag.simulate.machine import count
from catdiag.simulate.memory_cells import Allocation, MachineWire
from catdiag.simulate.multi_level_machine import count_levels
from catdiag.util.errors import CatdiagError
from tests.cost.derived import DERIVED, form_of, holds_of_many

CHAINS = (("HBM", "SMEM", "registers"), ("HBM", "L2", "SMEM", "registers"), ("HBM", "SMEM"))
NOT_COUNTED = re.compile("split loop|reads no array along it that is loaded|of which a loop runs in parts")


# What a drawn placement may ask of a diagram that no rule is for.
TWO_LEVELS = re.compile("lacks axis|is inside another|where the states are")


def rows() -> cd.category.Diagram:
    def attend(Q: Any, K: Any, V: Any) -> Any:
        return cd.einsum("q x, x d -> q d", cd.softmax(cd.einsum("q d, x d -> q x", Q, K), "x"), V)

    return group.find(fold_search.find(cd.algorithm("q d, x d, x d -> q d")(attend).diagram, "x").diagram, ["q"])


def some(data: st.DataObject, levels: tuple[str, ...]) -> tuple[str, ...]:
    found = data.draw(st.sets(st.sampled_from(levels), min_size=1))
    return tuple(level for level in levels if level in found)


def placement(data: st.DataObject, chain: tuple[str, ...]) -> dict[str, Any]:
    fast = chain[1:]
    found: dict[str, Any] = {role: some(data, fast) for role in ("operand", "streamed") if data.draw(st.booleans())}
    if data.draw(st.integers(0, 3)) == 0:
        found["output"] = some(data, fast)
    above = data.draw(st.sampled_from(["", "", "temporary", "state"]))
    if above:
        found[above] = data.draw(st.sampled_from(fast))
    return found


def agree(data: st.DataObject, form: cd.category.Diagram, trials: int = 1) -> None:
    """Formula is count at each level, at a drawn chain, placement, stages and dtype."""
    chain = data.draw(st.sampled_from(CHAINS))
    where = placement(data, chain)
    stages = {name: data.draw(st.integers(1, 3)) for name in where.get("streamed", chain[1:])}
    dtype, fused = data.draw(st.sampled_from([None, "bf16", "fp64"])), data.draw(st.booleans())
    try:
        levels_io(form, chain, placement=where, stages=stages, dtype=dtype, fused=fused)
    except CatdiagError as error:
        if (is_split(form) and NOT_COUNTED.search(str(error))) or TWO_LEVELS.search(str(error)):
            return
        raise
    cd.testing.assert_counts_match(
        form, trials, levels=chain, placement=where, stages=stages, dtype=dtype, fused=fused, longest=9,
        seed=data.draw(st.integers(0, 2**20)),
    )  # fmt: skip


@settings(max_examples=6, deadline=None)
@given(st.data())
def test_random_programs(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["einsums", "cascades"]))
    agree(data, data.draw(cd.testing.blocked(data.draw(getattr(cd.testing, kind)()))))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["einsums", "cascades", "diagrams"])
@pytest.mark.parametrize("number", range(2))
def test_many(kind: str, number: int) -> None:
    holds_of_many(agree, kind, number, 600)


@pytest.mark.slow
@pytest.mark.parametrize("path", DERIVED, ids=lambda path: path.stem)
def test_every_operator(path: Path) -> None:
    form = form_of(path)
    if ".skip(" in path.read_text():
        pytest.skip("its loop leaves out blocks")
    try:
        levels_io(form, CHAINS[0])
    except CatdiagError as error:
        if "overlaps: that is not counted" in str(error):
            pytest.skip("what groups read at index arithmetic is counted at two levels")
        raise
    if "conv" in path.stem or "pool" in path.stem or "im2col" in path.stem:
        room = {"h": 40, "w": 40} if {"h", "w"} <= set(levels_io(form, CHAINS[0]).account.sizes) else {"x": 40}
        cd.testing.assert_counts_match(form, 3, levels=CHAINS[0], longest=9, sizes=room)
        return
    for chain in CHAINS:
        cd.testing.assert_counts_match(form, 3, levels=chain, dtype="bf16", longest=9)
    read_there = {"operand": "SMEM", "streamed": "SMEM"}
    cd.testing.assert_counts_match(form, 5, levels=CHAINS[0], placement=read_there, longest=9)
    for home in ("SMEM", "L2"):
        try:
            cd.testing.assert_counts_match(form, 3, levels=CHAINS[1], placement={"state": home}, longest=9)
        except CatdiagError as error:
            if not re.search("lacks axis|footprints of neighboring groups overlap", str(error)):
                raise


def test_tiles_within_tiles_by_hand() -> None:
    tiles = {"SMEM": {"g_q": 4, "s_x": 5}, "registers": {"g_q": 3, "s_x": 2}}
    counts = count_levels(rows(), {"q": 6, "x": 7, "d": 2}, CHAINS[0], tiles, stages={"SMEM": 2, "registers": 1})
    # Groups of 4 and 2 rows, in pieces of 3, 1 and 2: keys and values cross for each.
    assert counts.loads["HBM", "SMEM"] == {"Q": 12, "K": 28, "V": 28}
    assert counts.loads["SMEM", "registers"] == {"Q": 12, "K": 42, "V": 42}
    assert counts.save == {("HBM", "SMEM"): 12, ("SMEM", "registers"): 12}
    # 4 rows of Q and two buffers of 5 keys and values; 3 rows of Q, sums and scores, 2 keys and values.
    assert counts.peak == {"SMEM": 8 + 2 * 2 * 10, "registers": 6 + 6 + 6 + 9 + 8} and counts.children["registers"] == 2


def test_states_above_registers_by_hand() -> None:
    total = cd.algorithm("q x -> q")(lambda a: cd.exp(cd.sum(a, "x")))
    form = group.find(fold_search.find(total.diagram, "x").diagram, ["q"])
    tiles = {"SMEM": {"g_q": 4, "s_x": 3}, "registers": {"g_q": 2, "s_x": 2}}
    counts = count_levels(form, {"q": 5, "x": 7}, CHAINS[0], tiles, placement={"state": "SMEM"})
    # Three blocks; for each, pieces of 2, 2 and 1 rows load and save their sums. The exponential loads them once more.
    assert counts.loads["SMEM", "registers"] == {"a": 35, "sum1": 3 * 5 + 5}
    assert counts.saves["SMEM", "registers"] == {"sum1": 3 * 5, "out": 5}
    assert counts.load["HBM", "SMEM"] == 35 and counts.save["HBM", "SMEM"] == 5
    assert counts.peak == {"SMEM": 4 * 3 + 4, "registers": 2 * 2 + 2}
    with pytest.raises(CatdiagError, match="expected temporaries at registers"):
        count_levels(form, {"q": 5, "x": 7}, CHAINS[0], tiles, placement={"state": "SMEM", "temporary": "SMEM"})


def test_one_level_on_chip_is_count() -> None:
    sizes, tiles = {"q": 5, "x": 7, "d": 2}, {"g_q": 2, "s_x": 3}
    one, several = (
        count(rows(), sizes, tiles, dtype="bf16"),
        count_levels(rows(), sizes, ("HBM", "SMEM"), {"SMEM": tiles}, dtype="bf16"),
    )
    assert several.loads["HBM", "SMEM"] == one.loads and several.saves["HBM", "SMEM"] == one.saves
    assert several.peak["SMEM"] == one.peak


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"levels": ("HBM",)}, "two names or more"),
        ({"levels": "HBM"}, "two names or more"),
        ({"tiles": {"L2": {}}}, "tiles names level 'L2'"),
        ({"tiles": {"SMEM": {"g_x": 2}}}, "no tile is called 'g_x'"),
        ({"placement": {"states": "SMEM"}}, "names a role 'states'"),
        ({"placement": {"operand": ("registers", "SMEM")}}, "in this order"),
        ({"placement": {"state": ("SMEM", "registers")}}, "expected one level"),
        ({"stages": {"L2": 2}}, "expected numbers of buffers"),
        ({"stages": 0}, "expected numbers of buffers"),
    ],
)
def test_what_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(CatdiagError, match=words):
        count_levels(rows(), {"q": 2, "x": 2, "d": 2}, **{"levels": CHAINS[0], **options})


def test_the_machine_refuses_to_load_from_a_level_that_freed_the_array() -> None:
    above = Allocation("K", loaded=True, alive=False)
    below = Allocation("K", loaded=False, above=above)
    assert below.source() is above
    with pytest.raises(RuntimeError, match="freed"):
        MachineWire(above, NamedArray(0.0, ())).read()


def test_an_output_seen_through_a_transposition_is_held_too() -> None:
    turned = cd.algorithm("q x -> x q")(lambda a: cd.exp(a))
    where = {"operand": "SMEM", "output": "SMEM"}
    assert str(levels_io(turned, CHAINS[0], placement=where).memory["SMEM"]) == "2*q*x"
    cd.testing.assert_counts_match(turned, 3, levels=CHAINS[0], placement=where)
    merged = cd.algorithm("(q x)")(lambda a: cd.rearrange(cd.exp(a), "(q x) -> x q"))
    cd.testing.assert_counts_match(merged, 3, levels=CHAINS[0], placement=where)


def test_an_output_that_lies_at_home_lies_there_once() -> None:
    form = group.find(fold_search.find(cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x")).diagram, "x").diagram, ["q"])
    where = {"state": "SMEM", "output": ("L2", "SMEM")}
    assert str(levels_io(form, CHAINS[1], placement=where).memory["SMEM"]) == "g2_q*s2_x + g2_q"
    cd.testing.assert_counts_match(form, 3, levels=CHAINS[1], placement=where)


def test_loops_within_loops_need_states_and_temporaries_at_one_level() -> None:
    nested = fold_search.find(
        fold_search.find(cd.algorithm("q x ->")(lambda a: cd.sum(a * a, "q x")).diagram, "x").diagram, "q"
    ).diagram
    where = {"temporary": "SMEM"}
    with pytest.raises(CatdiagError, match="is inside another one, with temporaries at SMEM and states at registers"):
        levels_io(nested, CHAINS[0], placement=where)
    sizes, lengths = {"q": 3, "x": 4}, {"SMEM": {"s_x": 2, "s_q": 2}}
    with pytest.raises(CatdiagError, match="is within another loop: expected states and temporaries at one level"):
        count_levels(nested, sizes, CHAINS[0], lengths, placement=where)
    cd.testing.assert_counts_match(nested, 3, levels=CHAINS[0])


def test_a_loop_may_read_what_the_loop_before_it_made() -> None:
    def twice(A: Any) -> Any:
        B, C = A.rename(q="k"), A.rename(q="k", x="y")
        return cd.einsum("q k, y k -> y q", cd.einsum("x q, x k -> q k", A, B), C)

    once = fold_search.find(cd.algorithm("x q -> y q")(twice).diagram, "x").diagram
    form = group.find(fold_search.find(once, "k").diagram, ["q"])
    cd.testing.assert_counts_match(form, 5, levels=("HBM", "SMEM", "registers"), placement={"state": "SMEM"})


def test_an_output_that_is_written_over_later_leaves_from_where_it_was_made() -> None:
    two = cd.algorithm("q -> q, q")(lambda a: (lambda b: (b + 1, b))(cd.exp(a)))
    found = levels_io(two, CHAINS[0], placement={"temporary": "SMEM", "operand": "SMEM"})
    assert str(found.edges["SMEM", "registers"].save) == "0" and str(found.edges["HBM", "SMEM"].save) == "2*q"
    cd.testing.assert_counts_match(two, 3, levels=CHAINS[0], placement={"temporary": "SMEM"})


def cached(levels: tuple[str, ...], capacities: dict[str, int | None]) -> Hierarchy:
    """A chain in which some levels are caches."""
    kinds = [Level(n, capacities.get(n), "cache" if n in capacities else "scratchpad") for n in levels]
    return Hierarchy("cached", tuple(kinds), tuple(Edge(*ends, 1.0) for ends in pairwise(levels)))


def test_caches_fetch_what_a_wave_loads_once() -> None:
    tiles = {"SMEM": {"g_q": 2, "s_x": 3}}
    sizes = {"q": 7, "x": 5, "d": 2}
    chain = cached(("HBM", "L3", "L2", "SMEM"), {"L3": None, "L2": 100})
    counts = count_levels(rows(), sizes, chain, tiles, dtype="bf16", wave=3)
    # Four groups, in two waves: three with 24 bytes of queries, one with 4, and each wave with 40 of keys and values.
    assert counts.loads["HBM", "L3"] == {"Q": 28, "K": 40, "V": 40} == counts.loads["L3", "L2"]
    assert counts.loads["L2", "SMEM"] == {"Q": 28, "K": 80, "V": 80}
    assert counts.save == dict.fromkeys(pairwise(("HBM", "L3", "L2", "SMEM")), 28)
    assert counts.peak["L2"] == counts.peak["L3"] == 24 + 40
    small = count_levels(rows(), sizes, cached(("HBM", "L2", "SMEM"), {"L2": 60}), tiles, dtype="bf16", wave=3)
    # The first wave's 64 bytes do not fit: all that its groups load passes.
    assert small.loads["HBM", "L2"] == {"Q": 28, "K": 80, "V": 80}
    with pytest.raises(CatdiagError, match="wave is None: expected how many groups run at a time under L3, L2"):
        count_levels(rows(), sizes, chain, tiles, dtype="bf16")
    with pytest.raises(CatdiagError, match="in bytes: expected a dtype"):
        count_levels(rows(), sizes, chain, tiles, wave=2)


def test_what_pieces_read_in_place_is_loaded_from_the_level_above() -> None:
    window = cd.algorithm("x, k -> y")(lambda a, w: cd.sum(cd.window(a, "x", "y k") * w, "k"))
    form = group.find(window.diagram, ["y"])
    cd.testing.assert_counts_match(form, 4, levels=CHAINS[0], sizes={"x": 20})
    cd.testing.assert_counts_match(form, 4, dtype="bf16", sizes={"x": 20})


def test_what_caches_fetch_is_counted() -> None:
    places = {"L3": 90, "L2": 90}
    for levels in (("HBM", "L2", "SMEM", "registers"), ("HBM", "L3", "L2", "SMEM")):
        chain = cached(levels, {name: places[name] for name in levels if name in places})
        cd.testing.assert_counts_match(rows(), 2, levels=chain, dtype="bf16", longest=6)


def test_two_states_of_one_name_are_two_arrays_to_a_cache() -> None:
    means = cd.algorithm("x -> ")(lambda a: cd.sum(cd.exp(a), "x") / cd.max(a, "x"))
    form = fold_search.find(means.diagram, "x").diagram
    chain = cached(("HBM", "L2", "SMEM"), {"L2": None})
    cd.testing.assert_counts_match(form, 3, levels=chain, fused=False, wave=2)
