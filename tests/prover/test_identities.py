"""Rewrites that people use, proved for all sizes; and ones that look like them, refuted with numbers NumPy confirms."""

from __future__ import annotations

import numpy as np
import pytest

import catdiag as cd

PROVED: dict[str, tuple] = {}
REFUTED: dict[str, tuple] = {}


def pair(signature: str, table: dict[str, tuple] = PROVED):
    """Registers two programs that a function returns."""

    def register(function):
        left, right = function()
        table[function.__name__] = (cd.algorithm(signature)(left), cd.algorithm(signature)(right))
        return function

    return register


MASKED = "q x -> q x"


@pair(MASKED)
def before_or_equal():
    q, x = (lambda: cd.index("q")), (lambda: cd.index("x"))
    return (lambda S: cd.where(x() <= q() + 2, S, 0), lambda S: cd.where((x() < q() + 2) | (x() == q() + 2), S, 0))


@pair(MASKED)
def not_after_and_unequal():
    q, x = (lambda: cd.index("q")), (lambda: cd.index("x"))
    return (lambda S: cd.where(x() < q(), S, 0), lambda S: cd.where((x() <= q()) & ~(x() == q()), S, 0))


@pair(MASKED, REFUTED)
def before_or_first():
    q, x = (lambda: cd.index("q")), (lambda: cd.index("x"))
    return (lambda S: cd.where(x() <= q(), S, 0), lambda S: cd.where((x() < q()) | (x() == 0), S, 0))


BLOCKS = "q x, q y, x d, y d -> q d"


def whole(S, T, V, W):
    m = cd.maximum(cd.max(S, "x"), cd.max(T, "y"))
    p, r = cd.exp(S - m), cd.exp(T - m)
    top = cd.einsum("q x, x d -> q d", p, V) + cd.einsum("q y, y d -> q d", r, W)
    return top / (cd.sum(p, "x") + cd.sum(r, "y"))


def blocks(rescale_top, rescale_bottom):
    """Softmax and contraction of two blocks one after the other, with given rescaling of what the first one left."""

    def run(S, T, V, W):
        m = cd.max(S, "x")
        p = cd.exp(S - m)
        n = cd.maximum(m, cd.max(T, "y"))
        r, c = cd.exp(T - n), cd.exp(m - n)
        top = rescale_top(cd.einsum("q x, x d -> q d", p, V), c) + cd.einsum("q y, y d -> q d", r, W)
        return top / (rescale_bottom(cd.sum(p, "x"), c) + cd.sum(r, "y"))

    return run


@pair(BLOCKS)
def block_step():
    return whole, blocks(lambda t, c: t * c, lambda t, c: t * c)


@pair(BLOCKS)
def parts_weighted_by_their_normalisers():
    def split(S, T, V, W):
        a = cd.einsum("q x, x d -> q d", cd.softmax(S, "x"), V)
        b = cd.einsum("q y, y d -> q d", cd.softmax(T, "y"), W)
        m, n = cd.max(S, "x"), cd.max(T, "y")
        e = m + cd.log(cd.sum(cd.exp(S - m), "x"))
        f = n + cd.log(cd.sum(cd.exp(T - n), "y"))
        w = cd.nn.sigmoid(e - f)
        return w * a + (1 - w) * b

    return whole, split


@pair(BLOCKS, REFUTED)
def no_rescaling_of_the_accumulator():
    return whole, blocks(lambda t, c: t, lambda t, c: t * c)


@pair(BLOCKS, REFUTED)
def no_rescaling_at_all():
    return whole, blocks(lambda t, c: t, lambda t, c: t)


@pair(BLOCKS, REFUTED)
def rescaling_inverted():
    return whole, blocks(lambda t, c: t / c, lambda t, c: t / c)


@pair(BLOCKS, REFUTED)
def average_of_normalised_parts():
    def average(S, T, V, W):
        a = cd.einsum("q x, x d -> q d", cd.softmax(S, "x"), V)
        return (a + cd.einsum("q y, y d -> q d", cd.softmax(T, "y"), W)) / 2

    return whole, average


@pair("q x, x d -> q d", REFUTED)
def softmax_of_the_double():
    def contract(scale):
        return lambda S, V: cd.einsum("q x, x d -> q d", cd.softmax(scale * S, "x"), V)

    return contract(1), contract(2)


@pair("x -> x", REFUTED)
def softmax_of_a_third_and_a_fifth():
    return (lambda S: cd.softmax(S / 3, "x")), (lambda S: cd.softmax(S / 5, "x"))


@pair("x, ->", REFUTED)
def maximum_scaled_by_anything():
    return (lambda X, c: cd.max(X * c, "x")), (lambda X, c: cd.max(X, "x") * c)


@pair("x -> x", REFUTED)
def root_of_a_square_without_its_sign():
    return (lambda X: cd.sqrt(X * X)), (lambda X: X)


@pair("x ->", REFUTED)
def sum_of_maxima():
    return (lambda X: cd.sum(cd.maximum(X, 0), "x")), (lambda X: cd.maximum(cd.sum(X, "x"), 0))


@pair("x, ->")
def maximum_scaled_by_a_positive_number():
    return (lambda X, c: cd.max(X * cd.exp(c), "x")), (lambda X, c: cd.max(X, "x") * cd.exp(c))


@pair("x -> x")
def softmax_does_not_see_shifts():
    return (lambda X: cd.softmax(X, "x")), (lambda X: cd.softmax(X + cd.sum(X, "x"), "x"))


@pair("x ->")
def softplus():
    return (lambda X: cd.sum(cd.log(1 + cd.exp(X)), "x")), (lambda X: cd.sum(X + cd.log(1 + cd.exp(-X)), "x"))


@pair("x, y ->")
def maximum_of_sums():
    return (lambda X, Y: cd.max(X + Y, "x y")), (lambda X, Y: cd.max(X, "x") + cd.max(Y, "y"))


@pair("x ->")
def maximum_of_exponentials():
    return (lambda X: cd.max(cd.exp(X), "x")), (lambda X: cd.exp(cd.max(X, "x")))


@pair("x ->")
def product_of_exponentials():
    return (lambda X: cd.prod(cd.exp(X), "x")), (lambda X: cd.exp(cd.sum(X, "x")))


@pair("x ->")
def largest_magnitude():
    return (lambda X: cd.max(cd.abs(X), "x")), (lambda X: cd.maximum(cd.max(X, "x"), -cd.min(X, "x")))


@pair("x -> x")
def root_of_a_square():
    return (lambda X: cd.sqrt(X * X)), (lambda X: cd.abs(X))


@pair("x -> x")
def positive_part():
    return (lambda X: (X + cd.abs(X)) / 2), (lambda X: cd.where(X > 0, X, 0))


@pair("x, x -> x")
def smaller_and_larger():
    return (lambda X, Y: cd.minimum(X, Y) + cd.maximum(X, Y)), (lambda X, Y: X + Y)


@pair("x -> x")
def hyperbolic_tangent_as_sigmoid():
    return (lambda X: cd.tanh(X)), (lambda X: 2 * cd.nn.sigmoid(2 * X) - 1)


@pair("x ->")
def sum_of_hyperbolic_tangents():
    return (lambda X: cd.sum(cd.tanh(X), "x")), (lambda X: cd.sum(2 * cd.nn.sigmoid(2 * X) - 1, "x"))


@pair("x -> x")
def sigmoid_of_the_opposite():
    return (lambda X: cd.nn.sigmoid(-X)), (lambda X: 1 - cd.nn.sigmoid(X))


@pair("a b, b c, c e -> a e")
def product_of_three_matrices():
    def left(X, Y, Z):
        return cd.einsum("a c, c e -> a e", cd.einsum("a b, b c -> a c", X, Y), Z)

    return left, lambda X, Y, Z: cd.einsum("a b, b e -> a e", X, cd.einsum("b c, c e -> b e", Y, Z))


@pair("x d, x d ->")
def squared_distance():
    def right(X, Y):
        return cd.sum(X**2, "x d") - 2 * cd.sum(X * Y, "x d") + cd.sum(Y * Y, "x d")

    return (lambda X, Y: cd.sum((X - Y) ** 2, "x d")), right


@pair("q d, x d, x d -> q d")
def normalised_by_a_euclidean_norm_at_linear_cost():
    def quadratic(Q, K, V):
        S = cd.einsum("q d, x d -> q x", Q, K)
        return cd.einsum("q x, x d -> q d", S / cd.sqrt(cd.sum(S * S, "x")), V)

    def linear(Q, K, V):
        R, L = Q.rename(d="e"), K.rename(d="e")
        gram = cd.einsum("x d, x e -> d e", K, L)
        top = cd.einsum("q e, e d -> q d", R, cd.einsum("x e, x d -> e d", L, V))
        return top / cd.sqrt(cd.einsum("q d, d e, q e -> q", Q, gram, R))

    return quadratic, linear


@pair("x ->")
def root_mean_square():
    def right(X):
        return cd.sqrt(cd.sum(X * X, "x")) / cd.sqrt(cd.size("x"))

    return (lambda X: cd.sqrt(cd.mean(X * X, "x"))), right


@pair("x ->")
def not_all_are_not():
    return (lambda X: cd.any(X > 0, "x")), (lambda X: ~cd.all(~(X > 0), "x"))


@pair("bool[q x], q x -> q x")
def zero_in_rows_where_nothing_holds():
    return (lambda M, X: cd.where(cd.any(M, "x"), cd.where(M, X, 0), 0)), (lambda M, X: cd.where(M, X, 0))


@pair("bool[q x], q x -> q")
def sums_of_rows_where_nothing_holds():
    def left(M, X):
        return cd.where(cd.any(M, "x"), cd.sum(cd.where(M, X, 0), "x"), 0)

    return left, lambda M, X: cd.sum(cd.where(M, X, 0), "x")


@pair("int[q], int[x], bool[x], q x, q -> q")
def a_factor_of_rows_where_two_conditions_hold_somewhere():
    def left(A, B, M, X, Y):
        both = (A == B) & M
        return cd.sum(cd.where(both, X, 0), "x") * cd.where(cd.any(both, "x"), Y, 0)

    return left, lambda A, B, M, X, Y: cd.sum(cd.where((A == B) & M, X * Y, 0), "x")


@pair("x ->")
def variance_as_sums():
    def right(X):
        return cd.mean(X * X, "x") - cd.mean(X, "x") ** 2

    return (lambda X: cd.mean((X - cd.mean(X, "x")) ** 2, "x")), right


@pair("x y ->")
def mask_of_one_row():
    def masked(X):
        return cd.where(cd.index("x") == 3, X, 0)

    return (lambda X: cd.sum(masked(X), "x y")), (lambda X: cd.sum(cd.sum(masked(X), "y"), "x"))


@pytest.mark.parametrize("name", PROVED)
def test_proved(name: str) -> None:
    theorem = cd.prove(*PROVED[name])
    assert not theorem.conditional


@pytest.mark.parametrize("name", REFUTED)
def test_refuted(name: str) -> None:
    left, right = REFUTED[name]
    with pytest.raises(cd.Refuted) as caught:
        cd.prove(left, right)
    arrays = caught.value.counterexample.numpy()
    x, y = left(*arrays.values()), right(*arrays.values())
    assert not np.allclose(x, y, rtol=1e-9, atol=1e-9)


def test_a_cancelled_division_is_a_condition() -> None:
    left = cd.algorithm("x -> x")(lambda X: X)
    right = cd.algorithm("x -> x")(lambda X: X * X / X)
    assert cd.prove(left, right).conditions
    assert not cd.prove(right, left).conditions
    assert cd.equivalent(left, right) is None
    assert cd.equivalent(right, left) is True
