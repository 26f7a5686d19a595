"""A step of decoding: what the cache of keys and values costs, by how many heads share it, in parts, on several chips.

Prints for one step of four models' attention what is read and how many FLOP that makes for each byte; what it costs to
cut the cache into parts, and how many parts a chip wants; and what two and more chips have to send each other.
"""

from __future__ import annotations

import numpy as np
import sympy

import catdiag as cd

STEP = cd.library.get("decoding_attention").stream("x").group("b k r")
LATENT = cd.library.get("latent_attention").stream("x").group("q h")

CACHES = {
    # Key-value heads k, and query heads r that share each: published configurations of 32 or 64 query heads.
    "32 heads, each its own (Llama 2 7B)": {"k": 32, "r": 1, "d": 128},
    "8 query heads a cache head (Llama 3 70B)": {"k": 8, "r": 8, "d": 128},
    "all 64 query heads share one": {"k": 1, "r": 64, "d": 128},
}
DEEPSEEK = {"q": 1, "h": 128, "c": 512, "r": 64}


def moved(derivation, sizes):
    """Bytes and FLOP of a run at these sizes, where one group holds whole axes: the least that can be."""
    io = derivation.io(dtype="bf16")
    put = {s: sizes[s.name] for e in (io.relaxed, *io.groups.values()) for s in e.free_symbols if s.name in sizes}
    whole = {tile: axis.subs(put) for tile, axis in io.groups.items()}
    return int(io.relaxed.subs({**put, **whole})), int(io.work["tensor"].subs(put))


def shared_caches():
    """The caches compared: what a step reads, and how much it computes with that."""
    io = STEP.io()
    print(f"a step reads and writes {sympy.factor(io.relaxed.subs(dict(io.groups)))} values\n")
    print("a step over 32,768 cached tokens, batch 1, bf16             MB read   FLOP a byte")
    tokens = 32768
    for name, heads in CACHES.items():
        read, work = moved(STEP, {"b": 1, "x": tokens, **heads})
        print(f"  {name:55} {read / 1e6:9.1f} {work / read:10.1f}")
    read, work = moved(LATENT, {"x": tokens, **DEEPSEEK})
    print(f"  {'latents of 512 + 64, 128 heads (DeepSeek-V2)':55} {read / 1e6:9.1f} {work / read:10.1f}")
    h100 = cd.hardware.H100
    print(f"an H100 computes {h100.tensor['bf16'] / h100.hbm_bytes_per_s:.0f} FLOP in the time of a byte\n")


def parts():
    """What parts of the cache cost, and how many a chip wants."""
    by_name = dict.fromkeys(("Q", "K", "V", "out"), "bf16")
    split = STEP.split("x")
    extra = sympy.factor(sympy.expand(split.io(dtype=by_name).relaxed - STEP.io(dtype=by_name).relaxed))
    print(f"in p_x parts, with states in fp32, a step moves {extra} bytes more")
    print("parts that are predicted to be fastest on an H100, of 32,768 tokens and 8 cache heads of 8 query heads:")
    for batch in (1, 4, 16):
        plan = split.plan("H100", {"b": batch, "x": 32768, **CACHES["8 query heads a cache head (Llama 3 70B)"]})
        print(f"  batch {batch:2}: {plan.tiles['p_x']:3} parts, {plan.time_s * 1e6:6.1f} µs, bound by {plan.bound}")
    rng = np.random.default_rng(0)
    Q, K, V = rng.normal(size=(2, 2, 4, 8)), rng.normal(size=(2, 2, 100, 8)), rng.normal(size=(2, 2, 100, 8))
    found = split.run(Q, K, V, tiles={"p_x": 3, "s_x": 7, "g_k": 1})
    np.testing.assert_allclose(found, STEP.source(Q, K, V), rtol=1e-12)


def devices():
    """Several chips: by heads nothing is sent, by parts of the cache only states."""
    print("\nover P chips, a chip receives in values:")
    print(f"  by cache heads: {STEP.sharding({'k': 'P'}).received}")
    print(f"  by cached tokens: {STEP.sharding({'x': 'P'}, stored={'Q': None}).received}")


def main() -> None:
    """Prints it all."""
    shared_caches()
    parts()
    devices()


if __name__ == "__main__":
    main()
