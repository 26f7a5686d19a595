"""Functions of machine learning, each a named box whose body consists of basic boxes.

Such a box is drawn as one box. Every rewrite inlines it, so that it has no rules of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from catdiag.frontend import builder
from catdiag.frontend.elementwise import exp, log, maximum, minimum, sigmoid
from catdiag.frontend.tracing import Operand, Traced, running

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


def elu(a: Operand) -> Traced:
    """The exponential linear unit (Clevert, Unterthiner and Hochreiter 2016): a for a > 0, else e^a − 1.

    Written as max(a, 0) + e^min(a, 0) − 1, which is the same number and overflows nowhere.

    >>> import catdiag as cd
    >>> cd.algorithm("x")(lambda a: cd.nn.elu(a))([-1000, 0, 2]).tolist()
    [-1.0, 0.0, 2.0]
    """
    return _named("elu", a, lambda v: maximum(v, 0) + exp(minimum(v, 0)) - 1)


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
