"""Arrays with what rounding may have done to them: running error analysis (Higham 2002, section 3.3), to first order.

A `Near` holds what NumPy computes in float64 and a bound `e` on its error, in units of u = 2⁻⁵³. Each operation adds
the rounding of its own result (2 units for exp, log and tanh, which are good to one unit in the last place) to what its
inputs' errors become. A sum of n terms is taken to round n times on all of it, so that the bound holds in any order, in
blocks and in any tree; what is summed with a repair is bounded in `ROUNDINGS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

UNIT = 2.0**-53
ROUNDINGS = 8
"""How many times the textbook form's bound a form in blocks may be off.

1 for the textbook form itself and 1 for the same sums in blocks. At each block what is accumulated is multiplied by
exp(m − m′): 4 roundings (the difference, 2 for exp, the product), and there are no more blocks than terms, so 4 times
what a sum of n terms is given. The differences m − m′ of all blocks add up to no more than |s − m| of the term itself,
which is in the bound of exp(s − m) already. That leaves 2 for terms of second order.
"""


class Near:
    """Values, and a bound on their error in units of u. Of minus infinity there is none."""

    __array_ufunc__ = None

    def __init__(self, v: Any, e: Any = 0.0) -> None:
        self.v = np.asarray(v)
        self.e = np.where(np.isfinite(self.v), np.broadcast_to(e, self.v.shape), 0.0)

    def __add__(self, other: Any) -> Near:
        other = near(other)
        v = self.v + other.v
        return Near(v, self.e + other.e + abs(v))

    def __mul__(self, other: Any) -> Near:
        other = near(other)
        v = self.v * other.v
        return Near(v, abs(self.v) * other.e + abs(other.v) * self.e + abs(v))

    def __truediv__(self, other: Any) -> Near:
        other = near(other)
        v = self.v / other.v
        return Near(v, (self.e + abs(v) * other.e) / abs(other.v) + abs(v))

    def __neg__(self) -> Near:
        return Near(-self.v, self.e)

    def __sub__(self, other: Any) -> Near:
        return self + -near(other)

    def __rsub__(self, other: Any) -> Near:
        return near(other) - self

    def __rtruediv__(self, other: Any) -> Near:
        return near(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def __getitem__(self, key: Any) -> Near:
        return Near(self.v[key], self.e[key])

    @property
    def n(self) -> int:
        """The size of the last axis."""
        return int(self.v.shape[-1])

    @property
    def T(self) -> Near:
        return Near(np.swapaxes(self.v, -1, -2), np.swapaxes(self.e, -1, -2))


def near(a: Any) -> Near:
    return a if isinstance(a, Near) else Near(a)


def exp(a: Near) -> Near:
    v = np.exp(a.v)
    return Near(v, v * a.e + 2 * v)


def log(a: Any) -> Near:
    a = near(a)
    v = np.log(a.v)
    return Near(v, a.e / abs(a.v) + 2 * abs(v))


def sqrt(a: Any) -> Near:
    a = near(a)
    v = np.sqrt(a.v)
    # A bound that the error of what is under the root cannot pass: of a number near 0 its root is all error.
    slope = np.divide(a.e, 2 * v, out=np.full_like(v, np.inf), where=v > 0)
    return Near(v, np.minimum(slope, np.sqrt(a.e / UNIT)) + abs(v))


def tanh(a: Near) -> Near:
    v = np.tanh(a.v)
    return Near(v, (1 - v * v) * a.e + 2 * abs(v))


def sigmoid(a: Near) -> Near:
    v = 1 / (1 + np.exp(-a.v))
    return Near(v, v * (1 - v) * a.e + 4 * v)


def maximum(a: Any, b: Any) -> Near:
    a, b = near(a), near(b)
    return Near(np.maximum(a.v, b.v), np.maximum(a.e, b.e))


def where(mask: Any, a: Any, b: Any) -> Near:
    a, b = near(a), near(b)
    return Near(np.where(mask, a.v, b.v), np.where(mask, a.e, b.e))


def total(a: Near, axis: int = -1, keep: bool = False) -> Near:
    v, size = a.v.sum(axis, keepdims=keep), abs(a.v).sum(axis, keepdims=keep)
    return Near(v, a.e.sum(axis, keepdims=keep) + a.v.shape[axis] * size)


def largest(a: Near, keep: bool = False) -> Near:
    return Near(a.v.max(-1, keepdims=keep), a.e.max(-1, keepdims=keep))


def mean(a: Near, keep: bool = False) -> Near:
    return total(a, keep=keep) / a.n


def ein(pattern: str, *arrays: Any) -> Near:
    """NumPy's einsum."""
    given = [near(a) for a in arrays]
    v = np.einsum(pattern, *(a.v for a in given))
    sizes = [abs(a.v) for a in given]
    inputs, output = pattern.split("->")
    lengths = {x: n for names, a in zip(inputs.split(","), given, strict=True) for x, n in zip(names, a.v.shape)}
    terms = int(np.prod([n for x, n in lengths.items() if x not in output]))
    error = (terms + len(given)) * np.einsum(pattern, *sizes)
    for k, a in enumerate(given):
        error = error + np.einsum(pattern, *(a.e if j == k else s for j, s in enumerate(sizes)))
    return Near(v, error)


def softmax(a: Near) -> Near:
    e = exp(a - largest(a, keep=True))
    return e / total(e, keep=True)


def log_sum_exp(a: Near) -> Near:
    m = largest(a)
    return m + log(total(exp(a - m[..., None])))


def log_softmax(a: Near) -> Near:
    return a - log_sum_exp(a)[..., None]


def compare(found: Sequence[Any], expected: Sequence[Near], allowed: Sequence[Near]) -> int:
    """How many numbers were compared. Fails where one is further off than the bound; where the textbook form is not
    defined nothing is said.
    """
    count = 0
    for x, wanted, bound in zip(found, expected, allowed, strict=True):
        said = np.isfinite(wanted.v) & np.isfinite(bound.e)
        off = np.abs(np.where(said, np.asarray(x, float) - wanted.v, 0))
        # Numbers below the least normal one have fewer digits.
        limit = ROUNDINGS * UNIT * np.where(said, np.maximum(bound.e, wanted.e), 0) + 1e-300
        assert np.shape(x) == wanted.v.shape
        assert np.all(off <= limit), f"off by {np.max(off / limit)} times the bound: {x} for {wanted.v}"
        count += int(said.sum())
    return count
