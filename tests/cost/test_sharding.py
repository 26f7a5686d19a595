"""Diagrams sharded over devices: formulas against devices that are simulated, element by element."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest
import sympy

import catdiag as cd
from catdiag.category.diagram import Diagram, diagram_of
from catdiag.chip.hierarchy import Edge, Hierarchy, Level
from catdiag.cost.sharding import Sharding, sharding

P, R, F, B = (sympy.Symbol(n, positive=True, integer=n in "PR") for n in ("P", "R", "F", "B"))

CASES: tuple[Any, ...] = (
    ("matmul", "b", "a c", {"a": 2}),
    ("matmul", "b", "a c", {"a": 2, "c": 3}),
    ("attention", "x", "q", {"q": 3}),
    pytest.param("grouped_query_attention", "x", "b k r q", {"k": 2, "q": 3}, marks=pytest.mark.slow),
    pytest.param("mlp", "f", "t", {"t": 2}, marks=pytest.mark.slow),
    pytest.param("linear_cross_entropy", "v", "t", {"t": 3}, marks=pytest.mark.slow),
    pytest.param("rms_norm_linear", "d", "t o", {"o": 2}, marks=pytest.mark.slow),
    ("softmax", None, "q", {"q": 2}),
)


@cache
def derived(name: str, stream: str | None, groups: str) -> cd.rewrite.derivation.Derivation:
    found = cd.library.get(name)
    return (found.stream(stream) if stream else found).group(groups)


def numbers(formula: sympy.Expr, sizes: Mapping[str, int]) -> int:
    value = sympy.sympify(formula).subs({s: sizes[s.name] for s in sympy.sympify(formula).free_symbols})
    assert value == int(value)
    return int(value)


def at(diagram: Diagram, sizes: Mapping[str, int]) -> Iterator[tuple[str, tuple[str, ...], tuple[int, ...]]]:
    for name, ty in zip(diagram_of(diagram).input_names, diagram.dom, strict=True):
        yield name, ty.names, tuple(sizes[a.name] for a in ty.axes)


def tile(names: tuple[str, ...], shape: tuple[int, ...], place: Mapping[str, int], over: Mapping[str, int]) -> tuple:
    cuts = []
    for name, size in zip(names, shape, strict=True):
        part = size // over.get(name, 1)
        cuts.append(slice(place.get(name, 0) * part, (place.get(name, 0) + 1) * part))
    return tuple(cuts)


@pytest.mark.parametrize(("name", "stream", "groups", "over"), CASES)
def test_what_devices_receive_is_counted_by_devices(name: str, stream: str, groups: str, over: dict[str, int]) -> None:
    made = derived(name, stream, groups)
    diagram = made.diagram
    sizes = {a.name: 12 for ty in diagram.dom for a in ty.axes}
    formula = sharding(diagram, over)
    rng = np.random.default_rng(0)
    arrays = {
        n: rng.integers(0, 12, s) if ty.element == "int" else rng.normal(size=s)
        for (n, _, s), ty in zip(at(diagram, sizes), diagram.dom, strict=True)
    }
    whole = made(*arrays.values())
    total = 0
    for coords in itertools.product(*(range(n) for n in over.values())):
        place = dict(zip(over, coords, strict=True))
        local = []
        for (array, axes, shape), share in zip(at(diagram, sizes), formula.shares, strict=False):
            needed = np.zeros(shape, bool)
            cut = tile(axes, shape, place, over)
            needed[cut] = True
            # Equal shares: of its tile a device holds one of as many parts as there are devices with the same tile.
            same = [a for a in over if a not in axes]
            copies = int(np.prod([over[a] for a in same]))
            number = 0
            for a in same:
                number = number * over[a] + place[a]
            flat = np.flatnonzero(needed)
            held = np.zeros(needed.size, bool)
            held[flat[number * len(flat) // copies : (number + 1) * len(flat) // copies] if axes else flat] = True
            received = int(needed.sum() - held.sum())
            assert (array, numbers(share.received, sizes)) == (share.array, received)
            assert numbers(share.stored, sizes) == held.sum()
            total += received
            local.append(arrays[array][cut])
        out = made.run(*local)
        cut = tile(diagram.cod[0].names, whole.shape, place, over)
        np.testing.assert_allclose(out, whole[cut], rtol=1e-10)
    assert numbers(formula.transfers, sizes) == total


@pytest.mark.parametrize(("name", "stream", "groups", "over"), CASES[:3])
def test_it_is_io_at_the_devices_tiles_less_what_they_hold(
    name: str, stream: str, groups: str, over: dict[str, int]
) -> None:
    made = derived(name, stream, groups)
    io, formula = made.io(), sharding(made.diagram, over)
    sizes = {a.name: 12 for ty in made.diagram.dom for a in ty.axes}
    tiles = {str(t): 12 // over.get(str(axis), 1) for t, axis in io.groups.items()}
    blocks = {str(s): 4 for s in io.streams}
    load = numbers(io.load, {**sizes, **tiles, **blocks})
    held = sum(numbers(s.stored, sizes) for s in formula.shares if s.array in made.diagram.input_names)
    assert load == numbers(formula.transfers, sizes) + int(np.prod(list(over.values()))) * held
    # And with the devices' own chips below them, at the edge between all memories and one device's.
    edge = made.io(levels=("node", "device", "SMEM")).edges["node", "device"]
    assert numbers(edge.load, {**sizes, **tiles, **blocks}) == load


class Ring:
    """Devices in a ring; what each receives of its neighbour is counted."""

    def __init__(self, blocks: list[tuple[np.ndarray, ...]]) -> None:
        self.blocks, self.received = blocks, [0] * len(blocks)

    def turn(self) -> None:
        self.blocks = self.blocks[-1:] + self.blocks[:-1]
        for k, block in enumerate(self.blocks):
            self.received[k] += sum(a.size for a in block)


def test_blocks_in_a_ring_give_the_whole_and_move_what_the_formula_says() -> None:
    count, c, d = 4, 6, 5
    rng = np.random.default_rng(1)
    Q, K, V = (rng.normal(size=(count * c, d)) for _ in range(3))
    split = [tuple(np.split(a, count)[p] for a in (K, V)) for p in range(count)]
    ring = Ring(split)
    state = [(np.full(c, -np.inf), np.zeros(c), np.zeros((c, d))) for _ in range(count)]
    for turn in range(count):
        for p, (k, v) in enumerate(ring.blocks):
            m, total, out = state[p]
            s = np.split(Q, count)[p] @ k.T / d**0.5
            new = np.maximum(m, s.max(1))
            e, scale = np.exp(s - new[:, None]), np.exp(m - new)
            state[p] = new, total * scale + e.sum(1), out * scale[:, None] + e @ v
        if turn < count - 1:
            ring.turn()
    found = np.concatenate([out / total[:, None] for _, total, out in state])
    np.testing.assert_allclose(found, cd.library.get("attention")(Q, K, V), rtol=1e-10)
    formula = sharding(derived("attention", "x", "q").diagram, {"q": count})
    assert set(ring.received) == {numbers(formula.received, {"x": count * c, "d": d})} == {2 * c * d * (count - 1)}


@cache
def ring_attention(dtype: str | None) -> Sharding:
    return sharding(derived("attention", "x", "q").diagram, {"q": "P"}, dtype=dtype)


def test_when_communication_hides() -> None:
    # A turn computes 4dc² FLOP and receives blocks of K and V, 2cd values: 4cd bytes of bf16. It hides if c ≥ F/B.
    q, x, d = (sympy.Symbol(n, positive=True, integer=True) for n in "qxd")
    for dtype, width in (("bf16", 2), ("fp32", 4), ("fp8", 1)):
        found = ring_attention(dtype)
        assert found.received == 2 * width * d * x * (P - 1) / P
        assert sympy.simplify(found.flops - 4 * q * x * d / P) == 0 and found.steps == P
        assert found.intensity == 2 * q / P / width
        assert found.overlaps(F, B) == sympy.Ge(2 * q / P / width, F / B)


def test_products_by_data_and_by_tensor() -> None:
    made = derived("matmul", "b", "a c").diagram
    a, b, c = (sympy.Symbol(n, positive=True, integer=True) for n in "abc")
    assert sharding(made, {"a": "P"}).received == b * c * (P - 1) / P
    assert sharding(made, {"c": "P"}, stored={"A": None}).received == 0
    rows = sharding(made, {"b": "P"})
    assert rows.received == a * c * (P - 1) / P and [s.pattern for s in rows.shares] == ["stays"] * 2 + [
        "merged",
        "stays",
    ]
    assert sharding(made, {"b": "P"}, stored={"out": None}).received == 2 * a * c * (P - 1) / P
    both = sharding(made, {"a": "P", "c": "R"})
    assert sympy.simplify(both.received - (a * b / P * (R - 1) / R + b * c / R * (P - 1) / P)) == 0
    assert sympy.simplify(both.intensity - 2 * a * c / (a * R + c * P)) == 0


def test_a_layer_by_hidden_units_needs_an_all_reduce() -> None:
    made = derived("mlp", "f", "t").diagram
    t, o = (sympy.Symbol(n, positive=True, integer=True) for n in "to")
    found = sharding(made, {"f": "P"}, stored={"X": None, "out": None})
    assert found.received == 2 * o * t * (P - 1) / P
    assert {s.array: s.pattern for s in found.shares} == {
        "X": "copied", "U": "stays", "W": "stays", "states over f": "merged", "out": "gathered",
    }  # fmt: skip


def test_a_convolution_receives_what_its_windows_reach() -> None:
    from catdiag.rewrite.group import find

    diagram = cd.library.get("conv1d")
    formula = sharding(find(diagram_of(diagram), ["n", "y", "o"]), {"y": 4})
    sizes = {"n": 2, "c": 3, "o": 5, "y": 12, "k": 5, "x": 16}
    shares = {s.array: s for s in formula.shares}
    assert {a: s.pattern for a, s in shares.items()} == {"a": "halo", "w": "gathered", "out": "stays"}
    for p in range(4):
        needed = set(range(3 * p, 3 * p + 3 + 5 - 1))
        held = set(range(4 * p, 4 * p + 4))
        assert held <= needed
        assert numbers(shares["a"].received, sizes) == 2 * 3 * len(needed - held)
    both = sharding(find(diagram_of(diagram), ["n", "y", "o"]), {"y": 4, "o": 5})
    assert numbers(both.shares[0].received, {**sizes, "n": 10}) == 10 * 3 * 7 - 10 * 3 * 16 // 20


def test_states_without_a_grouped_axis_are_received_whole() -> None:
    made = cd.library.get("dot").stream("x").diagram
    assert sharding(made, {"x": 5}).received == 4


def test_a_hierarchy_says_whether_it_fits_and_hides() -> None:
    node = Hierarchy(
        "node", (Level("node", None), Level("device", 80 << 30, count=8)), (Edge("node", "device", 8 * 450e9),)
    )
    sizes = {"q": 1 << 20, "x": 1 << 20, "d": 128, "P": 8}
    found = ring_attention("bf16").on(node, "node", "device", sizes, flops_per_s=989e12)
    assert found.fits and found.overlaps and found.received_bytes == 4 * 128 * (1 << 20) * 7 // 8
    assert found.seconds == pytest.approx(found.received_bytes / 450e9) and found.compute_seconds is not None
    short = ring_attention("bf16").on(node, "node", "device", {**sizes, "q": 8192, "x": 8192}, flops_per_s=989e12)
    assert short.overlaps is False  # 1024 queries a device, of 989/0.45 = 2198 that are needed
    for wrong, words in (({**sizes, "P": 4}, "as many"), ({"P": 8}, "no size was given")):
        with pytest.raises(cd.errors.CatdiagError, match=words):
            ring_attention("bf16").on(node, "node", "device", wrong)
    with pytest.raises(cd.errors.CatdiagError, match="dtype"):
        ring_attention(None).on(node, "node", "device", sizes)


def test_wrong_uses_are_refused_by_name() -> None:
    made = cd.library.get("matmul").stream("b").group("a").diagram
    for over, held, words in (
        ({"c": 2}, None, "neither grouped nor streamed"),
        ({}, None, "no axis to shard"),
        ({"a": 0}, None, "number of devices"),
        ({"a": 2}, {"C": "a"}, "lacks"),
        ({"a": 2}, {"A": "c"}, "no axis 'c'"),
    ):
        with pytest.raises(cd.errors.CatdiagError, match=words):
            sharding(made, over, stored=held)
    with pytest.raises(cd.errors.CatdiagError, match="kernels"):
        sharding(cd.library.get("matmul"), {"a": 2})


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_random_sums_of_products_over_devices_receive_what_is_counted(seed: int) -> None:
    import random

    from catdiag.rewrite.group import find

    rng = random.Random(seed)
    axes = rng.sample("abcde", rng.randint(2, 5))
    arrays = [rng.sample(axes, rng.randint(1, len(axes))) for _ in range(rng.randint(1, 4))]
    used = sorted({a for ty in arrays for a in ty})
    kept = rng.sample(used, rng.randint(1, len(used)))
    signature = ", ".join(" ".join(ty) for ty in arrays) + " -> " + " ".join(kept)
    diagram = cd.algorithm(signature, name="sums")(lambda *given: cd.einsum(signature, *given))
    over = {a: rng.choice((2, 3)) for a in rng.sample(kept, rng.randint(1, len(kept)))}
    formula = sharding(find(diagram_of(diagram), kept), over)
    sizes = dict.fromkeys(used, 6**3)
    for (_, names, shape), share in zip(at(diagram, sizes), formula.shares, strict=False):
        # Counted by lengths of slices: each device holds as much of its tile as there are devices with the same one.
        needed = int(np.prod([n // over.get(a, 1) for a, n in zip(names, shape, strict=True)]))
        same = int(np.prod([count for a, count in over.items() if a not in names]))
        assert needed % same == 0 and numbers(share.received, sizes) == needed - needed // same
