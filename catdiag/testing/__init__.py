"""Hypothesis strategies and assertions for tests of what one builds on diagrams.

    from hypothesis import given, strategies as st
    import catdiag as cd

    @given(st.data())
    def test_my_rewrite_keeps_meaning(data):
        f = data.draw(cd.testing.diagrams())
        arrays = data.draw(cd.testing.arrays_for(f))
        numpy.testing.assert_allclose(my_rewrite(f)(*arrays), f(*arrays))

Hypothesis is imported when a strategy is made: `pip install 'catdiag[test]'` installs it.

- `assert_kernel`, `assert_compiled_kernel`: a function of arrays against a diagram; `kernel_under_test`: how it is
  called; `tolerance`: how far it may be off, by `error_bounds` in `float_formats`; `input_generators`: sizes and
  arrays;
- `assert_counts`: formulas against the machine that counts; `assert_proved`: equations and streams that are proved;
- `shrink`: small failures; `failure_pattern`, `array_literals`, `concise_failures`: how they are said;
- `strategies/`: for Hypothesis; `pytest_plugin`: equations claimed by `@cd.theorem` as tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catdiag.util.lazy_names import lazy_names

if TYPE_CHECKING:
    from catdiag.testing.assert_compiled_kernel import assert_compiled
    from catdiag.testing.assert_counts import assert_counts_match
    from catdiag.testing.assert_kernel import Mismatch, Tested, assert_implements
    from catdiag.testing.assert_proved import assert_equivalent, assert_streams
    from catdiag.testing.strategies.adversarial_inputs import adversarial_arrays, adversarial_sizes
    from catdiag.testing.strategies.diagram_strategies import arrays_for, diagrams, sizes_for, tiles_for
    from catdiag.testing.strategies.equations import Pair, rewrites
    from catdiag.testing.strategies.hierarchy_strategies import hierarchies
    from catdiag.testing.strategies.kernel_programs import blocked, cascades, einsums
    from catdiag.testing.strategies.op_strategies import boxes, objects
    from catdiag.testing.strategies.type_strategies import array_types, axes

__all__ = [
    "Mismatch",
    "Pair",
    "Tested",
    "adversarial_arrays",
    "adversarial_sizes",
    "array_types",
    "arrays_for",
    "assert_compiled",
    "assert_counts_match",
    "assert_equivalent",
    "assert_implements",
    "assert_streams",
    "axes",
    "blocked",
    "boxes",
    "cascades",
    "diagrams",
    "einsums",
    "hierarchies",
    "objects",
    "rewrites",
    "sizes_for",
    "tiles_for",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "catdiag.testing.assert_compiled_kernel": "assert_compiled",
        "catdiag.testing.assert_counts": "assert_counts_match",
        "catdiag.testing.assert_kernel": "Mismatch Tested assert_implements",
        "catdiag.testing.assert_proved": "assert_equivalent assert_streams",
        "catdiag.testing.strategies.adversarial_inputs": "adversarial_arrays adversarial_sizes",
        "catdiag.testing.strategies.diagram_strategies": "arrays_for diagrams sizes_for tiles_for",
        "catdiag.testing.strategies.equations": "Pair rewrites",
        "catdiag.testing.strategies.hierarchy_strategies": "hierarchies",
        "catdiag.testing.strategies.kernel_programs": "blocked cascades einsums",
        "catdiag.testing.strategies.op_strategies": "boxes objects",
        "catdiag.testing.strategies.type_strategies": "array_types axes",
    },
)
