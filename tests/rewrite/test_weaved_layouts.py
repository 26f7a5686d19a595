"""A program may lay axes out in another order than the core tells by its inputs: its loops are proved all the same."""

import numpy as np

import catdiag as cd

MASKED = cd.algorithm("q x -> q")(
    lambda S: cd.max(cd.where(cd.index("x") <= cd.index("q"), S, -cd.inf), "x"),
)


def test_an_axis_weaved_in_front_of_the_others() -> None:
    weaved = MASKED.weave("h").stream("x")
    assert not weaved.theorem.conditional
    S = np.random.default_rng(0).normal(size=(2, 3, 4))
    expected = np.where(np.arange(4) <= np.arange(3)[:, None], S, -np.inf).max(-1)
    np.testing.assert_array_equal(weaved.run(S, tiles={"s_x": 2}), expected)
