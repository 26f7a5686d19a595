"""From an operator of one's own to a kernel: derived, planned for a chip, compiled, and compared with the formula.

Prints the plan's tiles; where torch and triton are installed, what the machine code takes, which needs no GPU; and on a
GPU, that the kernel gives what the program means.

    python examples/kernel.py
"""

from __future__ import annotations

import importlib.util

import catdiag as cd

SIZES = {"q": 4096, "x": 4096, "d": 64, "v": 64}


@cd.algorithm("q d, x d, x v -> q v")
def capped(Q, K, V):
    """Attention with scores that a tanh keeps below 20."""
    S = 20 * cd.tanh(cd.einsum("q d, x d -> q x", Q, K) / (20 * cd.sqrt(cd.size("d"))))
    return cd.einsum("q x, x v -> q v", cd.softmax(S, "x"), V)


def main() -> None:
    derived = capped.stream("x").group("q")
    plan = derived.plan("h200", SIZES, tiles={"g_q": 64, "s_x": 64})
    print(f"proved for all sizes and tiles: {derived.theorem.statement}")
    print(f"tiles {dict(plan.tiles)}, {plan.stages} stages, {plan.warps} warps, {plan.shared_memory_bytes:,} bytes")
    print(f"{len(plan.code('triton').splitlines())} lines of Triton")
    if not (importlib.util.find_spec("torch") and importlib.util.find_spec("triton")):
        print("for more: pip install 'catdiag[gpu]'")
        return
    import torch

    kernel = plan.compile()
    for code in kernel.binaries(SIZES):
        spilled = "registers spill" if code.spills else "nothing spills"
        taken = f"{code.shared_bytes:,} bytes of shared memory, {code.registers} registers a thread"
        print(f"{code.kernel}: {taken}, {spilled}")
    if not torch.cuda.is_available():
        print("to run it: a GPU")
        return
    print(cd.testing.assert_compiled(kernel, {"d": 64, "v": 64}))


if __name__ == "__main__":
    main()
