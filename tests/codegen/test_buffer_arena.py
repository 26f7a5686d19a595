"""What passes from kernel to kernel of a launch: one arena, in which only what is never live at once shares bytes."""

from __future__ import annotations

import random
from typing import Any

import pytest

import catdiag as cd
from catdiag.codegen.triton.buffer_arena import _offsets
from catdiag.codegen.triton.triton_module import Module


def deep(X: Any, *weights: Any) -> Any:
    for given, made, W in zip("eabc", "abcd", weights, strict=True):
        X = cd.tanh(cd.einsum(f"t {given}, {made} {given} -> t {made}", X, W))
    return X


DEEP = cd.algorithm("t e, a e, b a, c b, d c -> t d", name="deep")(deep)
SMALL = {"t": 20, "e": 40, "a": 24, "b": 33, "c": 16, "d": 17}


def test_only_what_is_not_live_at_once_shares_bytes() -> None:
    rng = random.Random(1)
    for _ in range(200):
        firsts = [rng.randrange(6) for _ in range(rng.randrange(1, 8))]
        ranges = tuple((rng.randrange(0, 5000), first, first + rng.randrange(3)) for first in firsts)
        starts, total = _offsets(ranges)
        placed = [(start, start + size, first, last) for start, (size, first, last) in zip(starts, ranges, strict=True)]
        assert all(start % 256 == 0 and stop <= total for start, stop, _, _ in placed)
        for k, (start, stop, first, last) in enumerate(placed):
            for begin, end, one, other in placed[:k]:
                assert stop <= begin or end <= start or last < one or other < first
        assert total >= max(sum(size for size, first, last in ranges if first <= n <= last) for n in range(8))


def test_a_chain_needs_two_buffers() -> None:
    assert _offsets(tuple((1024, k, k + 1) for k in range(9)))[1] == 2048


def test_what_is_read_for_the_last_time_where_it_is_written_is_overwritten() -> None:
    """Gate and up are products by torch; their product is one kernel, which each entry of both goes into once."""

    @cd.algorithm("t e, f e, f e, e f -> t e")
    def gated(X: Any, G: Any, U: Any, D: Any) -> Any:
        gate, up = (cd.einsum("t e, f e -> t f", X, W) for W in (G, U))
        return cd.einsum("t f, e f -> t e", cd.nn.relu(gate) * up, D)

    @cd.algorithm("t e, f e, e f, t f -> t e, t f")
    def twice(X: Any, G: Any, D: Any, B: Any) -> Any:
        gate = cd.einsum("t e, f e -> t f", X, G)
        return cd.einsum("t f, e f -> t e", cd.nn.relu(gate) * B, D), gate

    sizes = {"t": 8192, "e": 4096, "f": 14336}
    plan = gated.plan("H200", sizes, products="torch")
    made = plan.written()
    assert [len(plan.kernels), len(made.buffers)] == [4, 2]
    assert plan.buffer_bytes == 2 * 2 * 8192 * 14336
    (line,) = (line for line in made.text.splitlines() if line.endswith("# overwritten in place"))
    assert line.split(" = ")[1].split()[0] in {b.name for b in made.buffers}
    assert "# overwritten" not in twice.plan("H200", sizes, products="torch").code("triton"), "a result is read later"


@pytest.fixture(scope="module")
def plan() -> cd.planner.Plan:
    return DEEP.plan("H200", dict.fromkeys(SMALL, 4096), dtype="fp16")


def test_a_plan_says_what_its_launch_allocates(plan: Any) -> None:
    made: Module = plan.written()
    assert len(plan.kernels) > 2, "else there is nothing to share"
    saved = sum(b.bytes({**plan.sizes, **plan.tiles}) for b in made.buffers)
    assert 0 < plan.buffer_bytes < saved
    assert f"{plan.buffer_bytes:,} bytes for what passes" in str(plan)
    assert plan.as_dict()["buffer_bytes"] == plan.buffer_bytes
    assert made.text.count("= _arena(") == 1


@pytest.mark.triton
@pytest.mark.usefixtures("compiling")
def test_the_arena_is_as_large_as_was_said(plan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    made: list[Any] = []
    empty = torch.empty

    def recorded(*args: Any, **options: Any) -> Any:
        made.append(empty(*args, **options))
        return made[-1]

    kernel = plan.compile()
    monkeypatch.setattr(torch, "empty", recorded)
    for sizes in (plan.sizes, SMALL):
        made.clear()
        kernel.launches(sizes)
        arena = [t.numel() for t in made if t.dtype == torch.uint8]
        assert arena == [plan.written().buffer_bytes(sizes)]


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
class TestRun:
    def test_many_kernels_give_what_the_program_means(self, plan: Any) -> None:
        import torch

        lengths = [[SMALL[a.name] for a in ty.axes] for ty in plan.source.dom]
        random_of = torch.Generator().manual_seed(1)
        arrays = [(torch.randn(n, generator=random_of) / n[-1] ** 0.5).half() for n in lengths]
        got = plan.compile()(*arrays)
        wanted = DEEP.run(*(a.double().numpy() for a in arrays))
        assert abs(got.double().numpy() - wanted).max() < 0.003
