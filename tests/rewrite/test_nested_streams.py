"""A loop inside each turn of a loop: an axis that a block is contracted over runs in blocks too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.simulate.machine import count


def attend(Q: Any, K: Any, V: Any) -> Any:
    scores = cd.einsum("q d, x d -> q x", Q, K)
    return cd.einsum("q x, x v -> q v", cd.softmax(scores, "x"), V)


def gated(X: Any, A: Any, B: Any, C: Any) -> Any:
    a, b = (cd.einsum("q d, d x -> q x", X, w) for w in (A, B))
    return cd.einsum("q x, x v -> q v", a * cd.nn.sigmoid(a) * b, C)


PROGRAMS = {
    "attend": cd.algorithm("q d, x d, x v -> q v", name="attend")(attend),
    "gated": cd.algorithm("q d, d x, d x, x v -> q v", name="gated")(gated),
}


@pytest.mark.parametrize(("name", "order"), [("attend", "dx"), ("gated", "xd")])
def test_both_axes_run_in_blocks(name: str, order: str) -> None:
    diagram = PROGRAMS[name]
    derived = diagram.stream(order[0]).stream(order[1])
    assert not derived.theorem.conditional
    lengths = {"q": 3, "x": 7, "d": 5, "v": 2}
    rng = np.random.default_rng(3)
    given = [rng.normal(size=[lengths[a.name] for a in ty.axes]) for ty in diagram.dom]
    for x, d in ((1, 2), (3, 5), (7, 1)):
        np.testing.assert_allclose(derived.run(*given, tiles={"s_x": x, "s_d": d}), diagram(*given))


def test_the_inner_loop_is_inside_and_runs_in_groups() -> None:
    derived = PROGRAMS["attend"].stream("x").stream("d")
    (outer,) = [box.op for box in derived.diagram.boxes if box.name == "fold[x]"]
    assert [box.name for box in outer.step.boxes if box.name.startswith("fold")] == ["fold[d]"]
    grouped = derived.group("q")
    rng = np.random.default_rng(4)
    given = [rng.normal(size=s) for s in ((5, 3), (4, 3), (4, 2))]
    found = grouped.run(*given, tiles={"s_x": 3, "s_d": 2, "g_q": 2})
    np.testing.assert_allclose(found, PROGRAMS["attend"](*given))


@pytest.mark.parametrize(("name", "order"), [("attend", "xd"), ("gated", "xd")])
@pytest.mark.parametrize("tiles", [(2, 3, 2), (1, 1, 1), (5, 7, 5), (3, 2, 4)])
def test_inner_loops_load_what_they_read_in_every_turn(name: str, order: str, tiles: tuple[int, int, int]) -> None:
    derived = PROGRAMS[name].stream(order[0]).stream(order[1]).group("q")
    lengths = {"q": 5, "x": 7, "d": 6, "v": 2}
    blocks = dict(zip(("g_q", "s_x", "s_d"), tiles, strict=True))
    io, counted = derived.io(), count(derived.diagram, lengths, blocks)
    at = {s: {**lengths, **blocks}[str(s)] for s in io.transfers.free_symbols | io.memory.free_symbols}
    assert (io.load.subs(at), io.save.subs(at), io.memory.subs(at)) == (counted.load, counted.save, counted.peak)
    first = derived.diagram.input_names[0]
    assert counted.loads[first] == 5 * 6 * -(-7 // blocks["s_x"])
    level = derived.io(levels=("HBM", "SMEM"))
    assert level.edges["HBM", "SMEM"].transfers == io.transfers


def test_what_cannot_run_inside_is_refused() -> None:
    def normed(Q: Any, K: Any, V: Any) -> Any:
        return attend(Q / cd.sqrt(cd.sum(Q * Q, "d") + 1), K, V)

    diagram = cd.algorithm("q d, x d, x v -> q v")(normed)
    with pytest.raises(cd.errors.NotStreamable, match=r"inside the loop over 'x'.*sum\[d\]") as caught:
        diagram.stream("x").stream("d")
    assert "test_nested_streams.py" in str(caught.value)
    shared = cd.algorithm("q d, x d, x d -> q d")(
        lambda Q, K, V: cd.einsum("q x, x d -> q d", cd.softmax(cd.einsum("q d, x d -> q x", Q, K), "x"), V)
    )
    with pytest.raises(cd.errors.NotStreamable, match="keeps it"):
        shared.stream("x").stream("d")
