"""Regimes of programs that people write, and how one asks for the one at hand."""

from __future__ import annotations

import pytest

import catdiag as cd
from catdiag.util.errors import SizeError


def test_two_factors_of_a_tensor():
    # Some signs here are those of sums with a common root, which is no polynomial.
    @cd.algorithm("i j k, j r, k s -> i r s")
    def product(T, B, C):
        return cd.einsum("i j k, j r, k s -> i r s", T, B, C)

    found = product.stream("j").group("i r s").io().optimum().regimes
    sizes = {"i": 6, "j": 5, "k": 2, "r": 4, "s": 3, "s_j": 1}
    everything = found.at({**sizes, "M": 10**6})
    assert everything is not None
    # All tiles are whole: every array crosses once.
    at = {symbol: sizes[str(symbol)] for symbol in everything.value.free_symbols}
    assert everything.value.subs(at) == 6 * 5 * 2 + 5 * 4 + 2 * 3 + 6 * 4 * 3


def test_the_regime_at_hand_by_name():
    found = cd.library.get("attention").stream("x").group("q").io().optimum().regimes
    regime = found.at({"q": 64, "x": 64, "d": 4, "s_x": 2, "M": 100})
    assert regime is not None and regime.binding == "M full"
    with pytest.raises(SizeError, match="give M, s_x too"):
        found.at({"q": 64, "x": 64, "d": 4})
