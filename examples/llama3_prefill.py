"""Llama-3-8B's attention over a prompt of 8,192 tokens, on an H100.

32 query heads share 8 key-value heads, 4 each, of dimension 128 (Grattafiori et al. 2024, table 3), in bf16. The
mask that hides later tokens is left out: every query reads every key.

Prints the derivation and its theorem, the bytes that it moves, the same for attention as three kernels that leave
the scores in memory, and the tiles.
"""

from __future__ import annotations

import math

import catdiag as cd
from catdiag.rewrite.derivation import Derivation

SIZES = {"b": 1, "k": 8, "r": 4, "q": 8192, "x": 8192, "d": 128}
DTYPE = "bf16"


@cd.algorithm("b k r q d, b k x d -> b k r q x")
def scores(Q, K):
    """The first of three kernels: the scores of all heads, written to memory."""
    return cd.einsum("b k r q d, b k x d -> b k r q x", Q, K) / cd.sqrt(cd.size("d"))


@cd.algorithm("b k r q x -> b k r q x")
def weights(S):
    """The second: scores read, softmax of each row, weights written."""
    return cd.softmax(S, "x")


@cd.algorithm("b k r q x, b k x d -> b k r q d")
def mixed(P, V):
    """The third: weights read, values mixed by them."""
    return cd.einsum("b k r q x, b k x d -> b k r q d", P, V)


def unfused_bytes() -> int:
    """What the three kernels move at the least: each reads its inputs once and writes its output once."""
    moved = sum(kernel.io(dtype=DTYPE).transfers for kernel in (scores, weights, mixed))
    return int(moved.subs({symbol: SIZES[str(symbol)] for symbol in moved.free_symbols}))


def derive() -> Derivation:
    """Keys and values streamed; heads and query rows in groups, the queries of heads that share keys in one."""
    return cd.library.get("grouped_query_attention").stream("x").group("b k r q")


def main() -> None:
    """Prints all of it."""
    flash = derive()
    print(flash)
    print()
    print(flash.theorem)
    print()
    plan = flash.plan(cd.hardware.H100, SIZES, dtype=DTYPE)
    print(plan)
    print()
    io = flash.io()
    print(f"transfers  {io.transfers}")
    print(f"optimum    {io.optimum().leading}")
    unfused = unfused_bytes()
    print()
    print(f"{unfused:,} bytes with the scores in memory, at the least")
    print(f"{plan.bytes_moved:,} bytes across the edge to SMEM as planned: {ratio(unfused, plan.bytes_moved)}")
    print(f"{plan.hbm_bytes:,} bytes of HBM as planned: {ratio(unfused, plan.hbm_bytes)}")
    heads, rows, keys = SIZES["k"] * SIZES["r"], SIZES["q"], SIZES["x"]
    print(f"(the scores of all heads alone are {2 * math.prod((heads, rows, keys)):,} bytes)")


def ratio(unfused: int, moved: int) -> str:
    """Which of the two moves more, by how much."""
    return f"{unfused / moved:.1f} times fewer" if moved <= unfused else f"{moved / unfused:.1f} times more"


if __name__ == "__main__":
    main()
