"""Casts: the identity in meaning, fewer bytes in cost."""

from __future__ import annotations

import numpy as np
import pytest

import catdiag as cd


def scores(a, b):
    s = cd.einsum("q d, x d -> q x", a, b)
    return cd.exp(s - cd.max(s, "x"))


def test_a_cast_streams_as_the_identity_does():
    f = cd.algorithm("q d, x d")(lambda a, b: cd.sum(cd.cast(scores(a, b), "bf16"), "x"))
    plain = cd.algorithm("q d, x d")(lambda a, b: cd.sum(scores(a, b), "x"))
    arrays = np.ones((2, 3)), np.arange(12.0).reshape(4, 3)
    stream = f.stream("x")
    np.testing.assert_allclose(stream.run(*arrays, tiles={"s_x": 3}), plain(*arrays))
    assert cd.equivalent(f, plain)


def test_a_cast_takes_the_bytes_of_its_type():
    plain = cd.algorithm("q d, x d, x e")(lambda a, b, v: cd.einsum("q x, x e -> q e", scores(a, b), v))
    kept = cd.algorithm("q d, x d, x e")(lambda a, b, v: cd.einsum("q x, x e -> q e", cd.cast(scores(a, b), "bf16"), v))
    large = {"q": 64, "x": 64, "d": 1, "e": 512}

    def memory(f, **given):
        formula = f.io(**given).memory
        return formula.subs({s: large[str(s)] for s in formula.free_symbols})

    assert memory(plain, dtype="bf16") - memory(kept, dtype="bf16") == 2 * 64 * 64
    assert memory(plain) == memory(kept)


def test_unknown_types_are_refused():
    with pytest.raises(cd.TypeMismatch, match="expected one of fp64, fp32"):
        cd.algorithm("x")(lambda a: cd.cast(a, "int3"))
