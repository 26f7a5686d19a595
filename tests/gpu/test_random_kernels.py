"""Random programs, streamed, grouped and in parts at random, as kernels in Triton's interpreter (pytest -m triton)."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.errors import TypeMismatch
from catdiag.gpu.planned import compiled_of
from catdiag.run.sizes import tile_bounds
from catdiag.testing.draws import symbols_of
from catdiag.testing.programs import blocked, cascades, einsums


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
class TestRun:
    @given(st.data())
    @settings(max_examples=30, deadline=None, derandomize=True)
    def test_they_give_what_they_mean(self, data: st.DataObject) -> None:
        program = data.draw(st.one_of(cascades(), einsums(), cd.testing.diagrams()))
        form = data.draw(blocked(program))
        # The interpreter cuts numbers off to bfloat16; and of numbers alone it does not know where to run.
        assume("cast:" not in form.pseudocode() and any(ty.axes for ty in program.dom))
        tiles = {tile: data.draw(st.sampled_from([1, 2, 16])) for tile in tile_bounds(form)}
        try:
            kernel = compiled_of(form, program, tiles, "fp32")
        except TypeMismatch as error:
            # Groups in loops are no kernel: those are refused in so many words.
            if "no form" not in error.message:
                raise
            return
        kernel.check({symbol: [1, 2, 3, 5] for symbol in symbols_of(program)}, trials=2, repeats=False)

    def test_a_factor_may_be_there_twice(self) -> None:
        square = cd.algorithm("q, -> q", name="square")(lambda A, c: cd.einsum("q, , q -> q", A, c, A))
        cube = cd.algorithm("q ->", name="cube")(lambda A: cd.einsum("q, q, q ->", A, A, A))
        for program in (square, cube):
            compiled_of(program, program, {}, "fp32").check(trials=3)
