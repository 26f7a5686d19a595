"""Plans of several kernels: where a diagram is cut, that it is the quickest way, and what comes out of it."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.boxes import Const, Group, Index, SizeOf
from catdiag.cost.count.lives import is_view
from catdiag.rewrite.cuts import Cuts, searching
from catdiag.rewrite.several import LAUNCH_S
from catdiag.rewrite.stream import sizes_in
from catdiag.rewrite.timed import at_least


@cd.algorithm("t d, d f, f o -> t o")
def layer(X: Any, U: Any, W: Any) -> Any:
    return cd.einsum("t f, f o -> t o", cd.tanh(cd.einsum("t d, d f -> t f", X, U)), W)


@cd.algorithm("t d, d f, f e, e o -> t e, t o")
def chain(X: Any, A: Any, B: Any, C: Any) -> Any:
    H = cd.tanh(cd.einsum("t d, d f -> t f", X, A))
    E = cd.exp(cd.einsum("t f, f e -> t e", H, B))
    E = E / cd.sum(E, "e")
    return E, cd.einsum("t e, e o -> t o", E, C)


WIDE = {"t": 8192, "d": 4096, "f": 14336, "o": 4096}
LONG = {"t": 4096, "d": 2048, "f": 8192, "e": 1024, "o": 2048}


def spans(search: Cuts) -> list[list[tuple[int, int]]]:
    count = search.whole[1]
    return [list(pairwise([0, *places, count])) for n in range(count) for places in combinations(range(1, count), n)]


@pytest.mark.parametrize(
    ("diagram", "sizes"),
    [(layer, WIDE), (layer, {"t": 64, "d": 32, "f": 64, "o": 32}), (chain, LONG), (chain, dict.fromkeys("tdfeo", 64))],
)
def test_the_way_taken_is_the_quickest_of_all(diagram: cd.Diagram, sizes: dict[str, int]) -> None:
    search = searching(diagram, "H200", sizes)
    way = search.chosen()
    looked_at = len(search._known)
    every = {tuple(w): sum(map(search.seconds, w)) + LAUNCH_S * (len(w) - 1) for w in map(tuple, spans(search))}
    least = min(every.values())
    assert search.total(way) == every[way]
    assert every[way] == (every[(search.whole,)] if every[(search.whole,)] <= 1.05 * least else least)
    assert looked_at <= len(search._known)
    for span in search._known:
        assert at_least(search.row.piece(*span), search.target) <= search.seconds(span) * (1 + 1e-9)


def test_a_wide_layer_is_two_kernels_and_says_why() -> None:
    found = layer.plan("H200", WIDE)
    assert [k.schedule for k in found.kernels] == ["stream d, group t f", "stream f, group t o"]
    assert found.saved == (("tanh [t f]", 2 * 8192 * 14336),)
    assert found.time_s == pytest.approx(sum(k.plan.time_s for k in found.kernels) + LAUNCH_S)
    assert found.flops == 2 * 8192 * 4096 * 14336 * 2
    one = found.rivals[0]
    assert one.kernels == 1
    assert one.time_s is not None
    assert one.time_s > 10 * found.time_s
    assert one.flops > 2 * found.flops
    assert "times the FLOPs" in found.why()[0]
    assert found.tiles.keys() >= {"g_t", "g_t_2"}


def test_what_does_not_fit_one_kernel_says_what_is_too_much() -> None:
    found = chain.plan("H200", LONG)
    assert len(found.kernels) > 1
    one = found.rivals[0]
    assert one.time_s is None
    assert found.why()[0].startswith("one kernel: nothing fits H200")
    assert "too much for 232,448 bytes of SMEM" in str(found)
    assert found.as_dict()["rivals"][0]["does_not_fit"] == one.misfit
    with pytest.raises(cd.CatdiagError, match="nothing fits H200"):
        chain.plan("H200", LONG, cuts=0)


def test_a_narrow_layer_stays_in_one() -> None:
    found = layer.plan("H200", {"t": 65536, "d": 64, "f": 4096, "o": 64})
    assert len(found.kernels) == 1
    assert found.saved == ()
    (several,) = found.rivals
    assert several.saved == ("tanh [t f]",)
    assert several.time_s is not None
    assert several.time_s > found.time_s


@pytest.mark.parametrize(("diagram", "sizes"), [(layer, WIDE), (chain, LONG)])
def test_it_is_one_proved_diagram_of_kernels_with_symbols_of_their_own(
    diagram: cd.Diagram, sizes: dict[str, int]
) -> None:
    found = diagram.plan("H200", sizes)
    assert not found.theorem.conditional
    groups = []
    for box in found.diagram.boxes:
        if isinstance(box.op, Group):
            groups.append(box.op)
        else:
            assert is_view(box) or isinstance(box.op, (Index, SizeOf, Const))
    assert len(groups) == len(found.kernels) > 1
    own = [sizes_in(g.body) - sizes_in(diagram) for g in groups]
    assert sum(map(len, own)) == len(set().union(*own)) == len(found.tiles)
    for kernel, symbols in zip(found.kernels, own, strict=True):
        assert set(kernel.plan.tiles) == symbols
        assert kernel.derivation is not None
        assert not kernel.derivation.theorem.conditional
        assert kernel.plan.smem_bytes <= cd.hardware.H200.smem_per_block
    small = {"t": 5, "d": 4, "f": 7, "e": 3, "o": 2}
    rng = np.random.default_rng(0)
    given = [rng.normal(size=[small[a.name] for a in ty.axes]) for ty in diagram.dom]
    got = found.derivation.run(*given, tiles={name: 2 + k % 2 for k, name in enumerate(found.tiles)})
    want = diagram(*given)
    for a, b in zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]:
        np.testing.assert_allclose(a, b)


def test_so_many_cuts_at_most() -> None:
    assert len(searching(layer, "H200", WIDE, cuts=0).chosen()) == 1
    counts = [searching(chain, "H200", LONG, cuts=n) for n in (1, 2, 3)]
    assert all(len(s.chosen()) <= n + 1 for n, s in enumerate(counts, 1))
    totals = [s.total(s.chosen()) for s in counts]
    assert totals == sorted(totals, reverse=True)


def test_saved_arrays_are_counted_in_the_type_of_the_plan() -> None:
    assert layer.plan("H200", WIDE, dtype="fp8").saved == (("tanh [t f]", 8192 * 14336),)


@pytest.mark.parametrize(
    ("sizes", "options", "words"),
    [
        ({"t": 1}, {}, "size of axis 'd' is missing"),
        ({**WIDE, "z": 1}, {}, "size 'z' is given"),
        ({**WIDE, "t": 0}, {}, "'t' has size 0"),
        (WIDE, {"cuts": -1}, "cuts is -1"),
        (WIDE, {"cuts": True}, "cuts is True"),
        (WIDE, {"dtype": "bf17"}, "unknown dtype 'bf17'"),
        (WIDE, {"stages": 0}, "stages is 0"),
    ],
)
def test_wrong_requests(sizes: dict[str, int], options: dict[str, Any], words: str) -> None:
    with pytest.raises(cd.CatdiagError, match=words):
        layer.plan("H200", sizes, **options)


def test_what_is_derived_already_is_refused() -> None:
    with pytest.raises(cd.CatdiagError, match="before it is derived"):
        layer.stream("f").diagram.plan("H200", WIDE)
