"""Arrays of positions, and the masks that libraries write out of them: what they are everywhere is found on import."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import catdiag as cd
from catdiag.importers.dimensions import Factors
from catdiag.importers.positions import NotPositional, Positions

torch = pytest.importorskip("torch")


def _packed_causal(scores, keep=None):
    """The mask of a packed sequence, of which there is one, and a causal one, as transformers writes them."""
    batch, rows, columns = scores.shape
    at = torch.arange(rows).unsqueeze(0).expand(batch, -1)
    sequence = (torch.diff(at, prepend=at[:, :1] - 1, dim=-1) != 1).cumsum(-1)
    b, q, k = (
        torch.arange(n).reshape([-1 if d == place else 1 for d in range(3)])
        for place, n in enumerate((batch, rows, columns))
    )
    mask = q.new_ones((), dtype=torch.bool) & (sequence[b, q] == sequence[b, k]) & (k <= q)
    return mask if keep is None else mask & keep[b, k]


def test_a_packed_causal_mask_is_a_causal_one():
    def masked(scores):
        return torch.where(_packed_causal(scores), scores, 0.0)

    scores = torch.randn(2, 5, 5)
    program = cd.from_torch(masked, scores)
    assert np.array_equal(program.run(scores.numpy()), np.tril(scores.numpy()))
    assert not any("sum" in box.name for box in program.boxes)


def test_a_padding_mask_is_read_where_it_lies():
    def masked(scores, keep):
        return torch.where(_packed_causal(scores, keep), scores, 0.0)

    scores, keep = torch.randn(2, 5, 5), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    program = cd.from_torch(masked, scores, keep)
    assert np.array_equal(program.run(scores.numpy(), keep.numpy()), masked(scores, keep).numpy())
    assert not any("gather" in name or "[…]" in name for name in (box.name for box in program.boxes))


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=2),
    st.sampled_from([operator.add, operator.sub, operator.le, operator.lt, operator.eq, operator.ne, operator.ge]),
)
def test_functions_of_positions_are_those_of_arrays(numbers, function):
    table = Factors()
    rows, columns = table.dimension(3), table.dimension(4)
    i, j = np.indices((3, 4))
    sums = [Positions.along(rows, a) + Positions.along(columns, b) + c for a, b, c in numbers]
    arrays = [a * i + b * j + c for a, b, c in numbers]
    try:
        found = function(*sums)
    except NotPositional:  # it holds at some of all positions, however long dimensions are
        assert sums[0].terms != sums[1].terms
        return
    at = {rows: i, columns: j}
    if isinstance(found, Positions):
        found = sum(step * at[dim] for dim, step in found.terms.items()) + found.offset
    assert np.array_equal(np.broadcast_to(found, (3, 4)), function(*arrays))


def test_jumps_and_running_counts_of_positions():
    def function(x):
        at = 3 * torch.arange(x.shape[0]) - 2
        jumps = torch.diff(at, prepend=at[:1] - 3)
        return x * (jumps.cumsum(0) == at + 5) + torch.diff(at, prepend=at[:1] - 1)

    x = torch.arange(4.0)
    program = cd.from_torch(function, x)
    assert np.array_equal(program.run(x.numpy()), function(x).numpy())
