"""Hypothesis strategies and assertions for tests of what one builds on diagrams.

    from hypothesis import given, strategies as st
    import catdiag as cd

    @given(st.data())
    def test_my_rewrite_keeps_meaning(data):
        f = data.draw(cd.testing.diagrams())
        arrays = data.draw(cd.testing.arrays_for(f))
        numpy.testing.assert_allclose(my_rewrite(f)(*arrays), f(*arrays))

Hypothesis is imported when a strategy is made: `pip install 'catdiag[test]'` installs it.
"""

from __future__ import annotations

from catdiag.testing.claims import assert_equivalent, assert_streams
from catdiag.testing.compiled import assert_compiled
from catdiag.testing.counts import assert_counts_match
from catdiag.testing.hard import hard_arrays_for, hard_sizes_for
from catdiag.testing.implements import Mismatch, Tested, assert_implements
from catdiag.testing.kinds import boxes, objects
from catdiag.testing.machines import hierarchies
from catdiag.testing.pairs import Pair, rewrites
from catdiag.testing.programs import blocked, cascades, einsums
from catdiag.testing.strategies import arrays_for, diagrams, sizes_for, tiles_for
from catdiag.testing.type_strategies import array_types, axes

__all__ = [
    "Mismatch", "Pair", "Tested", "array_types", "arrays_for", "assert_compiled", "assert_counts_match",
    "assert_equivalent", "assert_implements", "assert_streams", "axes", "blocked", "boxes", "cascades", "diagrams",
    "einsums", "hard_arrays_for", "hard_sizes_for", "hierarchies", "objects", "rewrites", "sizes_for", "tiles_for",
]  # fmt: skip
