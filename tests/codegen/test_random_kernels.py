"""Random programs, streamed, grouped and in parts at random, as kernels in Triton's interpreter (pytest -m triton)."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import diagram_of
from catdiag.category.substitution import inline
from catdiag.codegen.triton.triton_module import module
from catdiag.execute.size_inference import tile_bounds
from catdiag.planner.compiled_plan import compiled_of
from catdiag.runtime.module_cache import imported
from catdiag.testing.input_generators import symbols_of
from catdiag.testing.strategies.kernel_programs import blocked, cascades, einsums
from catdiag.util.errors import TypeMismatch


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
class TestRun:
    @given(st.data())
    @settings(max_examples=30, deadline=None, derandomize=True)
    def test_they_give_what_they_mean(self, data: st.DataObject) -> None:
        program = data.draw(st.one_of(cascades(), einsums(), cd.testing.diagrams()))
        form = data.draw(blocked(diagram_of(program)))
        # The interpreter cuts numbers off to bfloat16; and of numbers alone it does not know where to run.
        assume("cast:" not in cd.Program(form).code("pseudocode") and any(ty.axes for ty in program.dom))
        tiles = {tile: data.draw(st.sampled_from([1, 2, 16])) for tile in tile_bounds(form)}
        try:
            kernel = compiled_of(form, program, tiles, "fp32")
        except TypeMismatch as error:
            # Groups in loops, and sums that a later loop reads, are no kernel: those are refused in so many words.
            if not any(why in error.message for why in ("no form", "Save it to memory")):
                raise
            return
        cd.testing.assert_compiled(
            kernel, {symbol: [1, 2, 3, 5] for symbol in symbols_of(diagram_of(program))}, trials=2, repeats=False
        )

    def test_a_factor_may_be_there_twice(self) -> None:
        square = cd.algorithm("q, -> q", name="square")(lambda A, c: cd.einsum("q, , q -> q", A, c, A))
        cube = cd.algorithm("q ->", name="cube")(lambda A: cd.einsum("q, q, q ->", A, A, A))
        for program in (square, cube):
            cd.testing.assert_compiled(compiled_of(program, program, {}, "fp32"), trials=3)

    def test_a_loop_in_a_loop_has_edges_of_its_own(self) -> None:
        nested = cd.algorithm("d q ->", name="nested")(lambda A: cd.sum(1 / (2 + cd.sum(A, "q") ** 2), "d"))
        form = nested.stream("d").stream("q").diagram
        sizes = {"d": [1, 4, 5, 7], "q": [1, 4, 6]}
        cd.testing.assert_compiled(compiled_of(form, nested, {"s_d": 4, "s_q": 4}, "fp32"), sizes, trials=8)

    def test_what_is_read_before_parts_may_be_read_after_their_merge(self) -> None:
        program = cd.algorithm("k h, j h -> j h", name="program")(
            lambda A, B: cd.sum(cd.einsum("k h, j h -> k j h", A, B) ** 2, "k") * B
        )
        form = program.stream("k").group("j").split("k").diagram
        cd.testing.assert_compiled(compiled_of(form, program, {"g_j": 2, "s_k": 2, "p_k": 3}, "fp32"), trials=4)

    def test_a_kernel_reads_what_the_one_before_has_saved(self) -> None:
        program = cd.algorithm("d x -> x d", name="program")(lambda A: cd.maximum(cd.max(A, "d"), 2 * A))
        form = program.stream("d", passes=2).diagram
        cd.testing.assert_compiled(compiled_of(form, program, dict.fromkeys(tile_bounds(form), 2), "fp32"), trials=4)

    def test_a_sum_keeps_the_order_of_its_axes_where_a_product_has_another(self) -> None:
        program = cd.algorithm("n q d, m x d -> n m", name="late")(
            lambda A, B: cd.sum(cd.max(cd.einsum("n q d, m x d -> n m q x", A, B), "x"), "q")
        )
        form = program.stream("d").group("n m").diagram
        sizes = {"n": [1, 3, 5], "m": [2, 3], "q": [3, 9], "x": [5, 21], "d": [1, 7, 33]}
        cd.testing.assert_compiled(compiled_of(form, program, {"g_n": 4, "g_m": 2, "s_d": 16}, "fp32"), sizes, trials=4)

    def test_results_lie_where_they_are_asked_for(self) -> None:
        import torch

        ordered = cd.algorithm("q x -> q, q", name="ordered")(lambda A: (lambda s: (s * 2, s))(cd.sum(A, "x")))
        twice = cd.algorithm("q x -> q, q", name="twice")(lambda A: (lambda s: (s, s))(cd.sum(A, "x")))
        A = torch.arange(12.0).view(3, 4)
        for program, factor in ((ordered, 2), (twice, 1)):
            out = tuple(torch.full((3,), float("nan")) for _ in range(2))
            function = getattr(imported(text := module(program, {}, "fp32").text, program.title), program.title)
            for found in (function(A, out=out), out, function(A)):
                assert torch.equal(found[0], factor * A.sum(1)) and torch.equal(found[1], A.sum(1)), text

    def test_rows_are_loaded_where_an_array_says(self) -> None:
        program = cd.algorithm("q d, n d, n v, int[b x] -> b q v", name="rows")(
            lambda Q, K, V, at: cd.einsum(
                "b q x, b x v -> b q v",
                cd.exp(-(cd.einsum("q d, b x d -> b q x", Q, cd.gather(K, "n", at)) ** 2)),
                cd.gather(V, "n", at),
            )
        )
        form = program.stream("x").group("b q").diagram
        sizes = {"q": [1, 19], "d": [3, 16], "n": [1, 5], "v": [2, 17], "b": [1, 2], "x": [1, 16, 21]}
        cd.testing.assert_compiled(
            compiled_of(form, program, {"g_b": 1, "g_q": 16, "s_x": 16}, "fp32"), sizes, trials=4
        )

    def test_positions_made_before_a_group_are_made_in_it(self) -> None:
        products = cd.algorithm("q x, q x -> q")(lambda A, B: cd.sum(A * B, "x")).group("q")
        distances = cd.algorithm("q x -> q x, q x", name="far")(lambda A: (A, (cd.index("q") - cd.index("x")) * 0.5))
        form = inline(diagram_of(distances >> products))
        sizes = {"q": [1, 5, 8], "x": [1, 3, 16]}
        cd.testing.assert_compiled(compiled_of(form, form, {"g_q": 4}, "fp32"), sizes, trials=4)
