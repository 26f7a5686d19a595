"""Functions of machine learning, each a named box whose body consists of basic boxes.

Such a box is drawn as one box. Every rewrite inlines it, so that it has no rules of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from catdiag.frontend import builder
from catdiag.frontend.elementwise import erf, exp, log, maximum, minimum, sigmoid, sqrt, tanh, where
from catdiag.frontend.tracing import Operand, Traced, running
from catdiag.util.errors import SignatureError

inf = float("inf")
"""Infinity: `-inf` is the masked value in `cd.where` and `cd.maximum`."""


def _named(name: str, array: Operand, body: Callable[[Traced], Traced], over: str = "") -> Traced:
    """The box of that name on one array. Its body is built once for each type and each set of axes."""
    trace = running()
    given = trace.numeric(trace.lift(array))
    make = lambda: builder.program([given.type], body, ("a",), name)  # noqa: E731
    return trace.call(name, trace.memo((name, given.type, over), make), [given])[0]


# -- at every index --------------------------------------------------------------------------------


def relu(a: Operand) -> Traced:
    """The positive part: max(a, 0).

    >>> import catdiag as cd
    >>> cd.algorithm("x")(lambda a: cd.nn.relu(a))([-1, 2]).tolist()
    [0.0, 2.0]
    """
    return _named("relu", a, lambda v: maximum(v, 0))


def silu(a: Operand) -> Traced:
    """The sigmoid linear unit, also called swish: a · sigmoid(a) (Elfwing, Uchibe and Doya 2018).

    >>> import catdiag as cd
    >>> cd.algorithm("x")(lambda a: cd.nn.silu(a))([0, 40]).tolist()
    [0.0, 40.0]
    """
    return _named("silu", a, lambda v: v * sigmoid(v))


def log1p(a: Operand) -> Traced:
    """The logarithm of one more, log(1 + a); defined for a > −1.

    >>> import catdiag as cd
    >>> cd.algorithm("x")(lambda a: cd.log1p(a))([0, 1]).round(3).tolist()
    [0.0, 0.693]
    """
    return _named("log1p", a, lambda v: log(1 + v))


def expm1(a: Operand) -> Traced:
    """The exponential less one, e^a − 1.

    >>> import catdiag as cd
    >>> cd.algorithm("x")(lambda a: cd.expm1(a))([0, 1]).round(3).tolist()
    [0.0, 1.718]
    """
    return _named("expm1", a, lambda v: exp(v) - 1)


def softplus(a: Operand) -> Traced:
    """log(1 + e^a), a smooth positive part (Dugas et al. 2000).

    Written as max(a, 0) + log(1 + e^−|a|), which is the same number and overflows nowhere. At 0 both parts take
    the branch of negative numbers, so that its derivatives there, too, are those of the smooth function.

    >>> import catdiag as cd
    >>> cd.algorithm("x")(lambda a: cd.nn.softplus(a))([-1000, 0, 1000]).round(3).tolist()
    [0.0, 0.693, 1000.0]
    """
    return _named("softplus", a, lambda v: maximum(v, 0) + log(1 + exp(where(v <= 0, v, -v))))


_GELU: dict[str, Callable[[Traced], Traced]] = {
    "none": lambda v: v / 2 * (1 + erf(v / sqrt(2))),
    "tanh": lambda v: v / 2 * (1 + tanh(0.7978845608028654 * (v + 0.044715 * v**3))),
}


def gelu(a: Operand, approximate: str = "none") -> Traced:
    """The Gaussian error linear unit (Hendrycks and Gimpel 2016): a times the chance that a normal number is below a.

    That is a/2 · (1 + erf(a/√2)); with `approximate="tanh"`, as in PyTorch, a/2 · (1 + tanh(√(2/π) · (a + 0.044715 ·
    a³))), with √(2/π) to sixteen digits.

    >>> import catdiag as cd
    >>> both = cd.algorithm("x")(lambda a: (cd.nn.gelu(a), cd.nn.gelu(a, approximate="tanh")))
    >>> [found.round(4).tolist() for found in both([-1, 2])]
    [[-0.1587, 1.9545], [-0.1588, 1.9546]]

    Raises SignatureError for another approximation.
    """
    if approximate not in _GELU:
        raise SignatureError(f'cd.nn.gelu has approximate="none" or "tanh", not {approximate!r}')
    return _named("gelu" if approximate == "none" else "gelu_tanh", a, _GELU[approximate])


def elu(a: Operand) -> Traced:
    """The exponential linear unit (Clevert, Unterthiner and Hochreiter 2016): a for a > 0, else e^a − 1.

    Written as max(a, 0) + e^min(0, a) − 1, which is the same number and overflows nowhere. At 0 its derivative is 1.

    >>> import catdiag as cd
    >>> cd.algorithm("x")(lambda a: cd.nn.elu(a))([-1000, 0, 2]).tolist()
    [-1.0, 0.0, 2.0]
    """
    return _named("elu", a, lambda v: maximum(v, 0) + exp(minimum(0, v)) - 1)


# -- along axes ------------------------------------------------------------------------------------


def logsumexp(array: Operand, axes: str) -> Traced:
    """The logarithm of a sum of exponentials along axes: m + log Σ e^(a − m), with m the maximum.

    >>> import catdiag as cd
    >>> cd.algorithm("q x")(lambda a: cd.nn.logsumexp(a, "x"))([[7], [1000]]).tolist()
    [7.0, 1000.0]

    Raises AxisError for an axis that the array does not have.
    """

    def body(a: Traced) -> Traced:
        m = builder.max(a, axes)
        total: Traced = log(builder.sum(exp(a - m), axes))
        return m + total

    return _named("logsumexp", array, body, axes)


def log_softmax(array: Operand, axes: str) -> Traced:
    """The logarithm of softmax along axes: a − m − log Σ e^(a − m), with m the maximum.

    >>> import catdiag as cd
    >>> cd.algorithm("q x")(lambda a: cd.nn.log_softmax(a, "x"))([[0, -1000]]).tolist()
    [[0.0, -1000.0]]

    Raises AxisError for an axis that the array does not have.
    """

    def body(a: Traced) -> Traced:
        shifted = a - builder.max(a, axes)
        total: Traced = log(builder.sum(exp(shifted), axes))
        return shifted - total

    return _named("log_softmax", array, body, axes)


def var(array: Operand, axes: str) -> Traced:
    """The population variance along axes: the mean of (a − μ)², with μ the mean.

    >>> import catdiag as cd
    >>> cd.algorithm("q x")(lambda a: cd.nn.var(a, "x"))([[1, 3], [2, 2]]).tolist()
    [1.0, 0.0]

    Raises AxisError for an axis that the array does not have.
    """
    return _named("var", array, lambda a: builder.mean((a - builder.mean(a, axes)) ** 2, axes), axes)
