"""`cd.reduce` by a pattern, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import catdiag as cd

A = np.random.default_rng(0).normal(size=(3, 8, 5))


@pytest.mark.parametrize("reduction", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize(
    ("pattern", "result"),
    [
        ("b (h p) w -> b h w", lambda a, f: f(a.reshape(3, 4, 2, 5), 2)),
        ("b (h p) w -> w b", lambda a, f: f(a, 1).T),
        ("b (h p) w -> (h b)", lambda a, f: f(f(a.reshape(3, 4, 2, 5), 3), 2).T.reshape(12)),
        ("b (h p) w -> (h p)", lambda a, f: f(f(a, 2), 0)),
        ("b (h p) w -> w (h p) b", lambda a, f: a.T),
    ],
)
def test_it_is_what_numpy_gives(pattern: str, result: Any, reduction: str) -> None:
    program = cd.algorithm("b (h p) w")(lambda a: cd.reduce(a, pattern, reduction))
    np.testing.assert_allclose(program.run(A, sizes={"p": 2}), result(A, getattr(np, reduction)), rtol=1e-12)


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(cd.errors.SignatureError, match=r"cd\.reduce by 'median': expected one of sum, max"):
        cd.algorithm("b h")(lambda a: cd.reduce(a, "b h -> b", "median"))
    with pytest.raises(cd.errors.SignatureError, match=r'cd.reduce takes a pattern .* "q \(x k\) -> q x"'):
        cd.algorithm("b h")(lambda a: cd.reduce(a, "b h", "max"))
    with pytest.raises(cd.errors.AxisError, match=r"the array has axes \[b h\], pattern .* says \[b x\]"):
        cd.algorithm("b h")(lambda a: cd.reduce(a, "b x -> b", "max"))
    with pytest.raises(cd.errors.AxisError, match="have different axes"):
        cd.algorithm("b h")(lambda a: cd.reduce(a, "b h -> b w", "max"))
