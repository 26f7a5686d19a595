"""Arrays that groups read at the integers of others: what is counted, what is planned, and the kernels."""

from __future__ import annotations

import numpy as np
import pytest

import catdiag as cd
from catdiag.category.diagram import diagram_of
from catdiag.codegen.numpy_source import source
from catdiag.codegen.pseudocode import pseudocode
from catdiag.codegen.triton.triton_module import module
from catdiag.schedule.gathers import gathered, in_blocks


@cd.algorithm("b q d, n d, n v, int[b x] -> b q v")
def pages(Q: cd.Traced, K: cd.Traced, V: cd.Traced, at: cd.Traced) -> cd.Traced:
    S = cd.einsum("b q d, b x d -> b q x", Q, cd.gather(K, "n", at))
    return cd.einsum("b q x, b x v -> b q v", S / cd.max(S, "x"), cd.gather(V, "n", at))


@pytest.fixture(scope="module")
def grouped() -> cd.Derivation:
    return pages.stream("x").group("b q")


def test_each_group_loads_the_elements_that_its_tile_names(grouped: cd.Derivation) -> None:
    io = grouped.io()
    traffic = {t.array: str(t.exact) for t in io.traffic}
    assert traffic["K"] == "b*d*x*ceiling(q/g_q)" and traffic["V"] == "b*v*x*ceiling(q/g_q)"
    assert not io.memory.has(*(s for s in io.memory.free_symbols if str(s) == "n")), "no array of all rows is held"
    assert grouped.io(dtype={"Q": "bf16", "K": "fp8", "V": "bf16"}).memory is not None
    cd.testing.assert_counts_match(grouped, 2)


def test_in_parts_too_and_with_a_view_of_a_view(grouped: cd.Derivation) -> None:
    cd.testing.assert_counts_match(grouped.split("x"), 1)

    @cd.algorithm("m n d, int[b x], b x -> b d")
    def twice(A: cd.Traced, at: cd.Traced, w: cd.Traced) -> cd.Traced:
        rows = cd.gather(cd.rearrange(A, "m n d -> (m n) d"), "(m n)", at)
        return cd.einsum("b x d, b x -> b d", rows, w)

    made = twice.stream("x").group("b")
    assert len(gathered(made.diagram.graph)) == 1
    cd.testing.assert_counts_match(made, 2)


def test_what_no_loop_reads_in_blocks_is_no_such_view() -> None:
    rows = cd.algorithm("v d, int[t] -> t d")(lambda A, at: cd.gather(A, "v", at))
    assert not gathered(diagram_of(rows).graph), "nothing is in groups"
    whole = cd.algorithm("v d, int[d] -> v", name="whole")(
        lambda A, at: cd.sum(A * cd.sum(cd.gather(A, "v", at).rename(d="e"), "e"), "d")
    )
    assert not in_blocks(whole.diagram.graph), "no loop reads it"


def test_it_is_one_kernel_that_loads_where_it_is_told(grouped: cd.Derivation) -> None:
    plan = grouped.plan("H200", {"b": 8, "q": 512, "n": 65536, "x": 4096, "d": 128, "v": 128})
    made = module(grouped.diagram, {"g_b": 1, "g_q": 64, "s_x": 64}, "bf16")
    assert len(made.kernels) == 1 and "= tl.cast(at_tile, tl.int64)" in made.text
    assert plan.shared_memory_bytes < 232448
    text = pseudocode(grouped)
    assert "save K" not in text and text.count("save") == 1


def test_its_numpy_is_what_it_means(grouped: cd.Derivation) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(1, 2, s) for s in ((2, 5, 3), (11, 3), (11, 4))] + [rng.integers(0, 11, (2, 7))]
    namespace: dict[str, object] = {}
    exec(source(grouped), namespace)
    got = namespace["pages"](*arrays, s_x=3, g_q=2, g_b=1)  # type: ignore[operator]
    assert np.allclose(got, pages(*arrays))


def test_positions_may_say_where_too() -> None:
    @cd.algorithm("q d, x d, r -> q")
    def near(A: cd.Traced, B: cd.Traced, table: cd.Traced) -> cd.Traced:
        apart = cd.clip(cd.index("x") - cd.index("q"), 0, cd.size("r") - 1)
        return cd.sum(cd.einsum("q d, x d -> q x", A, B) * cd.gather(table, "r", apart), "x")

    made = near.stream("x").group("q")
    io = made.io()
    assert {t.array: str(t.exact) for t in io.traffic}["table"] == "q*x", "an element for each pair"
    assert {r.array: str(r.values) for r in io.live_arrays}["table"] == "g_q*s_x", "a block of them is held"
    assert len(module(made.diagram, {"g_q": 64, "s_x": 64}, "bf16").kernels) == 1
    cd.testing.assert_counts_match(made, 2)


def test_the_loops_say_what_is_looked_up(grouped: cd.Derivation) -> None:
    loads = [line.strip() for line in pseudocode(grouped).splitlines() if "load" in line]
    assert loads == ["load Q[b q d]", "load t1[b x d] of K, t2[b x v] of V"]
