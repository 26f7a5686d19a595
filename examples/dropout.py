"""Attention with dropout in training: both passes derived, proved and planned, and no mask in memory.

What dropout sets to 0 is a function of the seed and of positions, so that each tile of each kernel makes its part of
the mask again. Prints the backward pass, how far both passes are from the gradient with the mask written out, and the
kernels of the backward pass on an H200 with what passes between them.
"""

from __future__ import annotations

import numpy as np

import catdiag as cd
from catdiag.execute.philox import uniform
from catdiag.planner.training_plans import TrainingPlans, training_plans

RATE, SIZES = 0.1, {"h": 16, "q": 4096, "x": 4096, "d": 128}


@cd.algorithm("h q d, h x d, h x d, int[] -> h q d", name="attention_with_dropout")
def attention(Q, K, V, seed):
    """Attention of some heads, whose weights are dropped at a rate of a tenth."""
    P = cd.softmax(cd.einsum("h q d, h x d -> h q x", Q, K) / cd.sqrt(cd.size("d")), "x")
    return cd.einsum("h q x, h x d -> h q d", cd.dropout(P, RATE, seed), V)


def by_hand(Q, K, V, seed, dO):
    """The gradients by Q, K and V in NumPy, with the mask as an array."""
    (h, q, d), x = Q.shape, K.shape[1]
    numbers = uniform(seed, np.arange(x), np.arange(q)[:, None], np.arange(h)[:, None, None], 0)
    mask = (numbers >= np.float32(RATE)) / (1 - RATE)
    P = np.exp(Q @ K.transpose(0, 2, 1) / np.sqrt(d))
    P /= P.sum(-1, keepdims=True)
    dP = mask * (dO @ V.transpose(0, 2, 1))
    dS = P * (dP - (P * dP).sum(-1, keepdims=True)) / np.sqrt(d)
    return dS @ K, dS.transpose(0, 2, 1) @ Q, (P * mask).transpose(0, 2, 1) @ dO


def difference() -> float:
    """The largest difference between both passes, run one after the other, and the gradient by hand."""
    passes = attention.forward_and_backward(wrt="Q K V")
    rng = np.random.default_rng(0)
    Q, K, V, dO = (rng.normal(size=(2, n, 4)) for n in (5, 7, 7, 5))
    given = [Q, K, V, 11]
    made = cd.Program(passes.forward).run(*given)
    read = [*(given[k] for k in passes.reads), *(made[k] for k in passes.saved), dO]
    found = cd.Program(passes.backward).run(*read)
    return max(float(np.abs(a - b).max()) for a, b in zip(found, by_hand(*given, dO), strict=True))


def plans() -> TrainingPlans:
    """The kernels of both passes on an H200."""
    return training_plans(attention.diagram, cd.hardware.get("H200"), SIZES, "bf16", [0, 1, 2])


def main() -> None:
    """Derives, compares and plans."""
    print(cd.Program(attention.forward_and_backward(wrt="Q K V").backward).code("pseudocode"))
    print("largest difference:", f"{difference():.0e}")
    print(plans().backward)


if __name__ == "__main__":
    main()
