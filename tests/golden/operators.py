"""Operators that the library lacks, as a user would write them in a file."""

import catdiag as cd


@cd.algorithm("q d, x d, x d -> q d")
def unscaled(Q, K, V):
    E = cd.exp(cd.einsum("q d, x d -> q x", Q, K) / cd.sqrt(cd.size("d")))
    return cd.einsum("q x, x d -> q d", E, V) / cd.sum(E, "x")


@cd.algorithm("q d, x d, x d -> q d")
def doubled(Q, K, V):
    S = 2 * cd.einsum("q d, x d -> q x", Q, K) / cd.sqrt(cd.size("d"))
    return cd.einsum("q x, x d -> q d", cd.softmax(S, "x"), V)


@cd.algorithm("x -> , ")
def moments(X):
    return cd.mean(X, "x"), cd.mean((X - cd.mean(X, "x")) ** 2, "x")


@cd.algorithm("q x, x -> q")
def far_from_mean(A, B):
    return cd.sum(cd.sqrt(cd.abs(A - cd.mean(B, "x"))), "x")


@cd.algorithm("x -> x")
def one_row(A):
    return cd.softmax(A, "x")


@cd.algorithm("x ->")
def count(A):
    return cd.size("x") + 0 * cd.sum(A, "x")


@cd.algorithm("x ->")
def count_by_division(A):
    return cd.sum(A / A, "x")


@cd.algorithm("x ->")
def root_of_square(A):
    return cd.sum(cd.sqrt(A * A), "x") * cd.exp(cd.max(A, "x")) / cd.exp(cd.max(A, "x"))


@cd.algorithm("x ->")
def absolute_value(A):
    return cd.sum(cd.abs(A), "x")


def merge(a, b):
    n, delta = a[0] + b[0], b[1] - a[1]
    mean = a[1] + delta * b[0] / n
    return n, mean, a[2] + b[2] + b[0] * delta * (b[1] - mean)


def state(X):
    mean = cd.mean(X, "x")
    return cd.size("x"), mean, cd.sum((X - mean) ** 2, "x")


welford = cd.Fold(
    unit=(0, 0, 0), element=lambda x: (1, x, 0), merge=merge, finish=lambda n, mean, m2: (mean, m2 / n), state=state
)

no_diagram = 3


def no_algorithm(A):
    return A


@cd.algorithm("q d, x d, x v -> q v")
def cosine_attention(Q, K, V):
    S = cd.einsum("q d, x d -> q x", Q, K) / (cd.sqrt(cd.sum(Q * Q, "d")) * cd.sqrt(cd.sum(K * K, "d")))
    return cd.einsum("q x, x v -> q v", cd.softmax(S, "x"), V)


@cd.algorithm("t d, d f, d f, f e -> t e")
def gated_mlp(X, W, U, D):
    gate = cd.einsum("t d, d f -> t f", X, W)
    up = cd.einsum("t d, d f -> t f", X, U)
    return cd.einsum("t f, f e -> t e", gate * cd.nn.sigmoid(gate) * up, D)


@cd.algorithm("q x -> q")
def entropy(A):
    p = cd.softmax(A, "x")
    return -cd.sum(p * cd.log(p), "x")


@cd.algorithm("q x -> q")
def variance(A):
    return cd.mean((A - cd.mean(A, "x")) ** 2, "x")


@cd.algorithm("q x, x v -> q v")
def l2_normalised(A, V):
    return cd.einsum("q x, x v -> q v", A / cd.sqrt(cd.sum(A * A, "x")), V)


@cd.algorithm("q d, x d, x v, -> q v")
def at_temperature(Q, K, V, T):
    S = cd.einsum("q d, x d -> q x", Q, K) / T
    return cd.einsum("q x, x v -> q v", cd.softmax(S, "x"), V)


@cd.algorithm("q x -> q, q")
def largest_and_log_sum(A):
    m = cd.max(A, "x")
    return m, m + cd.log(cd.sum(cd.exp(A - m), "x"))


@cd.algorithm("q x y -> q")
def plane_sum(A):
    return cd.sum(A, "x y")
