"""The states of a split loop's parts, saved and loaded: formulas against the machine that counts."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.integer_polynomial import symbol
from catdiag.cost.traffic import io
from catdiag.rewrite import group
from catdiag.rewrite.split import in_parts
from catdiag.rewrite.stream import fold_search
from catdiag.simulate.machine import count
from catdiag.simulate.multi_level_machine import count_levels
from tests.forms import form

LOW = -float("inf")


def lookup(Q: Any, K: Any, V: Any) -> Any:
    return cd.einsum("q x, x v -> q v", cd.softmax(cd.einsum("q d, x d -> q x", Q, K), "x"), V)


def below(Q: Any, K: Any, V: Any) -> Any:
    S = cd.where(cd.index("x") <= cd.index("q"), cd.einsum("q d, x d -> q x", Q, K), LOW)
    return cd.einsum("q x, x v -> q v", cd.softmax(S, "x"), V)


def above(Q: Any, K: Any, V: Any) -> Any:
    S = cd.where(cd.index("x") >= cd.index("q"), cd.einsum("q d, x d -> q x", Q, K), LOW)
    return cd.einsum("q x, x v -> q v", cd.softmax(S, "x"), V)


def between(X: Any, w: Any) -> Any:
    return cd.exp(w) * cd.sum(X * w, "x") + cd.max(X, "x")


@functools.cache
def split(name: str) -> Any:
    programs: dict[str, tuple[str, Any]] = {
        "lookup": ("q d, x d, x v -> q v", lookup),
        "below": ("q d, x d, x v -> q v", below),
        "between": ("q x, q -> q", between),
        "product": ("a x, x c -> a c", lambda A, B: cd.einsum("a x, x c -> a c", A, B)),
        "some": ("bool[q x] -> bool[q]", lambda M: cd.any(M, "x")),
    }
    base, _, grouped = name.partition(" by ")
    signature, function = programs[base]
    found = fold_search.find(cd.algorithm(signature, name=base)(function).diagram, "x").diagram
    return in_parts(group.find(found, grouped.split()) if grouped else found, "x")


@functools.cache
def formulas(name: str, stages: int) -> Any:
    return io(split(name), stages=stages)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(
        ["lookup", "lookup by q v", "below by q", "between", "between by q", "product by a c", "some by q"]
    ),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 2),
    st.data(),
)
def test_the_machine_agrees_with_the_formulas(
    name: str, parts: int, blocks: int, block: int, stages: int, data: Any
) -> None:
    diagram = split(name)
    length = data.draw(st.integers((blocks - 1) * block + 1, blocks * block))
    sizes = {"x": parts * length, **{s: data.draw(st.integers(1, 5)) for s in ("q", "d", "v", "a", "c")}}
    used = {a.name for ty in diagram.dom for a in ty.axes}
    sizes = {s: n for s, n in sizes.items() if s in used}
    tiles = {"p_x": parts, "s_x": min(block, length)}
    tiles |= {f"g_{s}": data.draw(st.integers(1, sizes[s])) for s in name.partition(" by ")[2].split()}
    found, counted = formulas(name, stages), count(diagram, sizes, tiles, stages)
    put = {symbol(s): n for s, n in {**sizes, **tiles}.items()}
    assert found.load.subs(put) == counted.load
    assert found.save.subs(put) == counted.save
    assert found.memory.subs(put) == counted.peak
    moved: dict[tuple[str, str], int] = {}
    for t in found.traffic:
        moved[t.array, t.direction] = moved.get((t.array, t.direction), 0) + int(t.exact.subs(put))
    assert {k: v for (k, d), v in moved.items() if d == "load"} == dict(counted.loads)
    assert {k: v for (k, d), v in moved.items() if d == "save"} == dict(counted.saves)


def test_what_parts_cost() -> None:
    q, x, d, v, g, p = map(symbol, ("q", "x", "d", "v", "g_q", "p_x"))
    found = io(split("lookup by q"))
    # Once more the queries for each part, and a maximum, a sum and a row of sums saved and loaded.
    assert (found.relaxed - (q * d * p + q * x * (d + v) / g + q * v + 2 * p * q * (2 + v))).expand() == 0
    assert "each of p_x parts" in found.order and "for each of p_x parts" in found.order
    assert {t.array for t in found.traffic} >= {"max1 of a part", "sum2 of a part", "sum3 of a part"}
    assert set(map(str, found.streams)) == {"s_x"} and set(map(str, found.groups)) == {"g_q"}


@pytest.mark.parametrize("name", ["lookup", "lookup by q v", "between by q", "product by a c", "some by q"])
def test_states_of_parts_are_as_wide_as_accumulators(name: str) -> None:
    diagram = split(name)
    sizes = {s: n for s, n in {"q": 3, "x": 8, "d": 2, "v": 3, "a": 3, "c": 2}.items() if s in str(diagram.dom)}
    put = {symbol(s): n for s, n in {**sizes, "p_x": 2, "s_x": 3, "g_q": 2, "g_v": 2, "g_a": 2, "g_c": 2}.items()}
    tiles = {str(t): put[t] for t in (*io(diagram).groups, *io(diagram).streams)} | {"p_x": 2}
    reals = [n for n, ty in zip(diagram.input_names, diagram.dom, strict=True) if ty.element == "real"]
    for dtype, held in (("bf16", 4), ("fp64", 8), (dict.fromkeys(reals, "bf16"), 4)):
        found, plain = io(diagram, dtype=dtype), io(diagram)
        moved = count(diagram, sizes, tiles, dtype=dtype)
        assert (found.load.subs(put), found.save.subs(put), found.memory.subs(put)) == (
            moved.load, moved.save, moved.peak
        )  # fmt: skip
        wide = 1 if name.startswith("some") else held
        for own, t in zip(found.traffic, plain.traffic, strict=True):
            if t.array.endswith("of a part"):
                assert (own.exact - wide * t.exact).expand() == 0 and moved.saves[t.array] % wide == 0
    levels = count_levels(diagram, sizes, ("HBM", "SMEM"), {"SMEM": {"p_x": 2}}, dtype="bf16")
    assert levels.load["HBM", "SMEM"] == count(diagram, sizes, {"p_x": 2}, dtype="bf16").load


def test_named_states_of_parts_take_what_is_said() -> None:
    diagram = in_parts(form("attention", "x", "q"), "x")
    sizes, tiles = {"q": 3, "x": 8, "d": 2}, {"p_x": 2, "s_x": 3, "g_q": 2}
    put = {symbol(s): n for s, n in {**sizes, **tiles}.items()}
    whole = count(diagram, sizes, tiles).saves
    state = max(n for n in whole if n.endswith(" of a part")).removesuffix(" of a part")
    dtype = {"Q": "bf16", "K": "bf16", "V": "bf16", state: "fp16"}
    moved = count(diagram, sizes, tiles, dtype=dtype)
    found = io(diagram, dtype=dtype)
    assert (found.load.subs(put), found.save.subs(put)) == (moved.load, moved.save)
    half = moved.saves
    assert half[f"{state} of a part"] == 2 * whole[f"{state} of a part"]
    others = [n for n in whole if n.endswith("of a part") and not n.startswith(f"{state} ")]
    assert others and all(half[n] == 4 * whole[n] for n in others)


@pytest.mark.parametrize("name", ["below", "above"])
def test_bounds_are_about_the_whole_axis(name: str) -> None:
    # An upper bound may be the size of the axis, which is not that of a part.
    grouped = group.find(
        fold_search.find(cd.algorithm("q d, x d, x v -> q v")(globals()[name]).diagram, "x").diagram, "q"
    )
    diagram = in_parts(cd.Program(grouped).skip("x").diagram, "x")
    sizes, tiles = {"q": 7, "x": 8, "d": 1, "v": 2}, {"p_x": 2, "s_x": 3, "g_q": 2}
    put = {symbol(s): n for s, n in {**sizes, **tiles}.items()}
    found, counted = io(diagram), count(diagram, sizes, tiles)
    assert (found.load.subs(put), found.save.subs(put), found.memory.subs(put)) == (
        counted.load, counted.save, counted.peak
    )  # fmt: skip


def test_a_statistic_that_is_a_result_has_full_precision() -> None:
    name = "attention_with_log_sum_exp"
    diagram = in_parts(fold_search.find(cd.library.get(name).diagram, "x").diagram, "x")
    sizes, tiles = {"q": 3, "x": 8, "d": 2}, {"p_x": 2, "s_x": 3}
    put = {symbol(s): n for s, n in {**sizes, **tiles}.items()}
    assert io(diagram, dtype="bf16").save.subs(put) == count(diagram, sizes, tiles, dtype="bf16").save


def test_positions_computed_along_the_axis_are_refused() -> None:
    # Each part would need its own positions: y + k with k from the start of the part.
    for name, axis in (("conv1d", "k"), ("conv2d", "i")):
        diagram = in_parts(fold_search.find(cd.library.get(name).diagram, axis).diagram, axis)
        with pytest.raises(cd.errors.CatdiagError, match=f"computes positions along '{axis}'"):
            io(diagram)


def test_parts_of_several_lengths_are_not_counted() -> None:
    with pytest.raises(cd.errors.SizeError, match="expected a number of parts that divides"):
        count(split("product by a c"), {"a": 2, "x": 7, "c": 2}, {"p_x": 2})


def test_fit_splits_where_there_are_few_groups() -> None:
    from catdiag.planner.fit import fit
    from catdiag.schedule.split_k import joined

    diagram = split("lookup by q")
    sizes = {"q": 16, "x": 65536, "d": 128, "v": 128}
    plan, whole = fit(diagram, "H100", sizes, dtype="bf16"), fit(joined(diagram), "H100", sizes, dtype="bf16")
    parts = plan.tiles["p_x"]
    assert parts > 1 and plan.groups == parts * -(-16 // plan.tiles["g_q"])
    assert plan.time_s < whole.time_s / 2 and plan.flops == whole.flops
    assert set(plan.tiles) == {"p_x", "g_q", "s_x"}
    moved = io(diagram, dtype="bf16", accumulators="registers")
    put = {symbol(s): n for s, n in {**sizes, **plan.tiles}.items()}
    assert plan.load_bytes == moved.load.subs(put) and plan.save_bytes == moved.save.subs(put)
    assert "p_x" not in plan.proof.statement


@pytest.mark.parametrize("name", ["lookup by q", "product by a c"])
def test_one_part_takes_what_the_whole_loop_takes(name: str) -> None:
    from catdiag.planner.fit import searching
    from catdiag.planner.resources.dot_products import dot_products
    from catdiag.planner.resources.emitted_smem import EmittedBlocks
    from catdiag.planner.resources.triton_resources import TritonBlock
    from catdiag.schedule.split_k import joined

    diagram = split(name)
    used = {a.name for ty in diagram.dom for a in ty.axes}
    sizes, tiles = dict.fromkeys(used, 64) | {"x": 4096}, {"s_x": 64, "g_q": 32, "g_a": 32, "g_c": 32}
    found = []
    for looped, parts in ((joined(diagram), {}), (diagram, {"p_x": 1})):
        search = searching(looped, "H200", sizes, dtype="bf16")
        products = dot_products(search.diagram, frozenset(search.kernel.tiles), search.dtypes)
        emitted = EmittedBlocks(search.diagram, search.dtypes, search.chip, search.sizes, products)
        block = TritonBlock.of(search.kernels[2], 2, emitted)
        own = {t: n for t, n in tiles.items() if t[0] == "s" or t in search.kernel.tiles}
        taken = block.resources(search.full({**sizes, **own, **parts}), warps=4)
        found.append((int(taken.smem_bytes), int(taken.registers_per_thread), int(taken.register_bytes)))
    assert found[0][1:] == found[1][1:]
    assert 0 < found[1][0] <= found[0][0]  # factors from before the loop may be read otherwise


def test_fit_does_not_split_where_there_are_groups_enough() -> None:
    from catdiag.planner.fit import fit

    plan = fit(split("lookup by q"), "H100", {"q": 131072, "x": 8192, "d": 64, "v": 64}, backend="ideal")
    assert plan.tiles["p_x"] == 1
