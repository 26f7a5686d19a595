"""What is looked at before a plan is chosen, and what is not: the choice is that of looking at everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.planner import cut_search
from catdiag.planner.configuration_candidates import Candidates
from catdiag.planner.configuration_ties import TIE, first_first
from catdiag.planner.fit import emitted_seconds, fit, searching
from catdiag.planner.partition import searching as searching_cuts
from catdiag.planner.resources.emitted_smem import SmemCount

FORMS = [
    ("matmul", "b", "a c", {"a": 1024, "b": 2048, "c": 512}),
    ("attention", "x", "q", {"q": 2048, "x": 4096, "d": 64}),
]


def form(name: str, axis: str, axes: str) -> Any:
    return cd.library.get(name).stream(axis).group(axes)


def sizes_of(made: Any, sizes: dict[str, int]) -> dict[str, int]:
    return {str(a.size): sizes[str(a.size)] for ty in made.source.dom for a in ty.axes}


@pytest.mark.parametrize(("name", "axis", "axes", "sizes"), FORMS)
@pytest.mark.parametrize("chip", ["H200", "A100"])
def test_seconds_are_those_of_the_plan(name: str, axis: str, axes: str, sizes: dict[str, int], chip: str) -> None:
    made = form(name, axis, axes)
    given = sizes_of(made, sizes)
    assert emitted_seconds(made.diagram, chip, given) == fit(made, chip, given).time_s


def test_seconds_are_nearly_those_of_the_plan_where_a_side_has_several_axes() -> None:
    heads = cd.algorithm("h t k, o h k -> t o")(lambda X, W: cd.einsum("h t k, o h k -> t o", X, W))
    made, given = heads.group("t o"), {"h": 8, "t": 256, "k": 64, "o": 256}
    seconds, plan = emitted_seconds(made.diagram, "H200", given), fit(made, "H200", given)
    assert searching_tiles(made, given).emitted.merges_axes
    assert seconds <= plan.time_s <= TIE * seconds


def searching_tiles(made: Any, given: dict[str, int]) -> Candidates:
    return Candidates(searching(made, "H200", given))


@pytest.mark.parametrize(("name", "axis", "axes", "sizes"), FORMS)
def test_the_quickest_is_as_quick_as_the_first_of_all(name: str, axis: str, axes: str, sizes: dict[str, int]) -> None:
    made = form(name, axis, axes)
    given = sizes_of(made, sizes)
    some, every = Candidates(searching(made, "H200", given)), Candidates(searching(made, "H200", given))
    assert some.quickest().time_s == every.ranked()[0].time_s
    few = Candidates(searching(made, "H200", given), smem_count=SmemCount.WHERE_IT_LIMITS)
    assert few.quickest().time_s == every.ranked()[0].time_s
    assert len(few.emitted._traces) <= len(some.emitted._traces) <= len(every.emitted._traces)


@pytest.mark.parametrize("distinct", [1, 6, 1000])
@pytest.mark.parametrize(("name", "axis", "axes", "sizes"), FORMS)
def test_the_leading_ones_are_the_first_of_all(
    name: str, axis: str, axes: str, sizes: dict[str, int], distinct: int
) -> None:
    made = form(name, axis, axes)
    given = sizes_of(made, sizes)
    near, every = Candidates(searching(made, "H200", given)), Candidates(searching(made, "H200", given))
    (few, known_s), all_of_them = near.leading(distinct), every.ranked()
    assert few == [p for p in all_of_them if p.time_s <= known_s]
    assert len({tuple(p.tiles.items()) for p in few}) >= min(
        distinct, len({tuple(p.tiles.items()) for p in all_of_them})
    )
    assert first_first(near.longest_first(few))[0] == first_first(every.longest_first(all_of_them))[0]


@pytest.mark.parametrize(("name", "axis", "axes", "sizes"), FORMS)
def test_the_fewest_bytes_are_those_of_all(name: str, axis: str, axes: str, sizes: dict[str, int]) -> None:
    made = form(name, axis, axes)
    given = sizes_of(made, sizes)
    some, every = Candidates(searching(made, "H200", given)), Candidates(searching(made, "H200", given))
    found, least = some.fewest_bytes(), min(every.ranked(), key=lambda p: (p.bytes_moved, p.time_s))
    assert (found.bytes_moved, found.time_s) == (least.bytes_moved, least.time_s)


def chain(layers: int) -> cd.Program:
    def run(X: Any, *weights: Any) -> Any:
        for k, W in enumerate(weights):
            X = cd.softmax(X, "a" if k % 2 == 0 else "b")
            X = cd.einsum("t a, a b -> t b", X, W) if k % 2 == 0 else cd.einsum("t b, b a -> t a", X, W)
        return X

    inputs = ", ".join(["t a", *("a b" if k % 2 == 0 else "b a" for k in range(layers))])
    return cd.algorithm(f"{inputs} -> t {'b' if layers % 2 else 'a'}", name="chain")(run)


def test_what_is_chosen_is_timed_by_all_drafts() -> None:
    search = searching_cuts(chain(2).diagram, "H200", {"t": 64, "a": 32, "b": 48})
    chosen = search.chosen()
    assert chosen and not any(search._class_of(span)[0].screened for span in chosen)
    assert {s for span in chosen for s in range(*span)} == set(range(search.full_span[1]))


def test_in_a_long_row_few_kernels_are_timed_for_each_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    program, sizes = chain(8), {"t": 64, "a": 32, "b": 48}
    free = searching_cuts(program.diagram, "H200", sizes)
    assert free._is_long and free._timed_count <= cut_search.TIMED * free.full_span[1] + free.full_span[1]
    monkeypatch.setattr(cut_search, "TIMED", 0)
    short = searching_cuts(program.diagram, "H200", sizes)
    assert short._timed_count < free._timed_count
    assert {s for span in short.chosen() for s in range(*span)} == set(range(short.full_span[1]))


@pytest.mark.parametrize(("name", "axis", "axes", "sizes"), FORMS)
@pytest.mark.parametrize("chip", ["H200", "A100", "MI300X"])
def test_blocks_have_no_more_shared_memory_than_the_most(
    name: str, axis: str, axes: str, sizes: dict[str, int], chip: str
) -> None:
    made = form(name, axis, axes)
    found = Candidates(searching(made, chip, sizes_of(made, sizes)))
    for stages, block in found.blocks.items():
        values = found.search.full({**found.sizes, **found.grid()})
        most = found.emitted.most_smem_bytes(found.kernels[stages], values)
        assert np.all(block.resources(values, 4).smem_bytes <= most)


@pytest.mark.parametrize(("name", "axis", "axes", "sizes"), FORMS)
def test_seconds_are_the_same_where_shared_memory_does_not_limit(
    name: str, axis: str, axes: str, sizes: dict[str, int]
) -> None:
    made = form(name, axis, axes)
    for scale in (1, 16):
        given = {n: max(64, size // scale) for n, size in sizes_of(made, sizes).items()}
        every = Candidates(searching(made, "H200", given))
        few = Candidates(searching(made, "H200", given), smem_count=SmemCount.WHERE_IT_LIMITS)
        seconds = {(p.stages, p.warps, *p.tiles.values()): p.time_s for p in every.ranked()}
        assert {(p.stages, p.warps, *p.tiles.values()): p.time_s for p in few.ranked()} == seconds
