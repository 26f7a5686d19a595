"""Are predicted times, fits and shared memory what a GPU shows? Measured there, compared here.

On a machine with an H200 (or name another chip below), PyTorch and Triton; catdiag is not needed there:

    python benchmarks/tiles.py measure results.json

runs a streaming loop (scores, running maximum and sum, weighted sums; bf16) and a matrix product in plain Triton, for
every tile of a grid and a few shapes, about 400 runs in a minute. Then, on any machine with catdiag,

    python benchmarks/tiles.py compare results.json [--chip H200]

prints for each shape the quickest tile, the tile that `fit` takes and what it was measured at; then how predicted
times compare to measured ones, how shared memory does, and whether what was said not to fit spilled its registers.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

LOOPS = [(h, n, d) for d in (128, 64) for h, n in ((1, 8192), (16, 8192), (4, 4096), (64, 2048), (8, 16384))]
PRODUCTS = [(8192, 8192, 8192), (4096, 4096, 4096), (8192, 8192, 1024), (2048, 2048, 2048), (16384, 1024, 4096)]
Row = dict[str, Any]


def grid(kind: str, d: int = 0) -> Iterator[tuple[int, int, int, int, int]]:
    """Rows, columns (of the streamed block, for a loop), depth, warps, stages."""
    if kind == "loop":
        for rows, keys, warps, stages in itertools.product((64, 128, 256), (32, 64, 128, 256), (4, 8), (1, 2, 3)):
            fits = rows * (d + keys) * 4 <= 300 * 32 * warps * 4 and (rows > 64 or warps == 4)
            if fits and (stages > 1 or keys == 64) and 2 * d * (rows + 2 * stages * keys) <= 227 * 1024:
                yield rows, keys, 0, warps, stages
        return
    for rows, columns, depth, warps, stages in itertools.product(
        (64, 128, 256), (64, 128, 256), (32, 64), (4, 8), (3, 4)
    ):
        size = rows * columns
        sensible = (size < 128 * 256 or warps == 8) and (size > 64 * 128 or warps == 4) and size < 256 * 256
        if sensible and (depth == 64 or stages == 4):
            yield rows, columns, depth, warps, stages


def measure(path: str) -> None:
    """Runs everything, and writes the results."""
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def loop(Q, K, V, O, scale, N, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):  # noqa: E741
        base = tl.program_id(1) * N * D
        rows = tl.program_id(0) * BM + tl.arange(0, BM)
        axis, keys = tl.arange(0, D), tl.arange(0, BN)
        q = tl.load(Q + base + rows[:, None] * D + axis[None, :])
        acc = tl.zeros((BM, D), tl.float32)
        total = tl.zeros((BM,), tl.float32)
        most = tl.full((BM,), -float("inf"), tl.float32)
        for start in range(0, N, BN):
            k = tl.load(K + base + (start + keys)[None, :] * D + axis[:, None])
            scores = tl.dot(q, k)
            larger = tl.maximum(most, tl.max(scores, 1) * scale)
            weights = tl.math.exp2(scores * scale - larger[:, None])
            repair = tl.math.exp2(most - larger)
            total = total * repair + tl.sum(weights, 1)
            acc = acc * repair[:, None]
            most = larger
            v = tl.load(V + base + (start + keys)[:, None] * D + axis[None, :])
            acc = tl.dot(weights.to(v.dtype), v, acc)
        tl.store(O + base + rows[:, None] * D + axis[None, :], (acc / total[:, None]).to(O.dtype.element_ty))

    @triton.jit
    def product(A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        pid, down, across = tl.program_id(0), tl.cdiv(M, BM), tl.cdiv(N, BN)
        first = pid // (8 * across) * 8
        height = min(down - first, 8)
        rows = (first + (pid % (8 * across)) % height) * BM + tl.arange(0, BM)
        columns = (pid % (8 * across)) // height * BN + tl.arange(0, BN)
        depth = tl.arange(0, BK)
        acc = tl.zeros((BM, BN), tl.float32)
        for start in range(0, K, BK):
            a = tl.load(A + rows[:, None] * K + (start + depth)[None, :])
            b = tl.load(B + (start + depth)[:, None] * N + columns[None, :])
            acc = tl.dot(a, b, acc)
        tl.store(C + rows[:, None] * N + columns[None, :], acc.to(tl.bfloat16))

    def seconds(run: Callable[[], Any]) -> float:
        ends = [torch.cuda.Event(enable_timing=True) for _ in range(2)]

        def once(number: int) -> float:
            ends[0].record()
            for _ in range(number):
                run()
            ends[1].record()
            torch.cuda.synchronize()
            return ends[0].elapsed_time(ends[1]) / number

        run()
        number = max(3, min(30, int(60 / max(once(1), 0.01))))
        return statistics.median(once(number) for _ in range(3)) * 1e-3

    def one(row: Row, run: Callable[[], Any], result: Any, expected: Any) -> Row:
        try:
            made = run()
            torch.cuda.synchronize()
            right = float((result - expected).abs().max()) < 0.02 * float(expected.abs().max())
            told = {"registers": made.n_regs, "spilled": made.n_spills, "smem": made.metadata.shared, "right": right}
            return {**row, **told, "seconds": seconds(run)}
        except Exception as error:  # what a compiler refuses is a result too
            return {**row, "refused": str(error)[:200]}

    found = []
    random = {"device": "cuda", "dtype": torch.bfloat16}
    for h, n, d in LOOPS:
        q, k, v = (torch.randn(h, n, d, **random) for _ in range(3))
        out, scale = torch.empty_like(q), math.log2(math.e) / math.sqrt(d)
        expected = torch.nn.functional.scaled_dot_product_attention(q[:1], k[:1], v[:1])
        for rows, keys, _, warps, stages in grid("loop", d):
            row = {"kind": "loop", "h": h, "n": n, "d": d, "tile": [rows, keys], "warps": warps, "stages": stages}
            how = {"num_warps": warps, "num_stages": stages}
            run = partial(loop[(n // rows, h)], q, k, v, out, scale, n, d, rows, keys, **how)
            found.append(one(row, run, out[:1], expected))
    for m, n, k_ in PRODUCTS:
        a, b, c = (torch.randn(m, k_, **random), torch.randn(k_, n, **random), torch.empty(m, n, **random))
        exact = a[:64] @ b
        for rows, columns, depth, warps, stages in grid("product"):
            row = {"kind": "product", "m": m, "n": n, "k": k_, "tile": [rows, columns, depth]}
            how = {"num_warps": warps, "num_stages": stages}
            blocks = (triton.cdiv(m, rows) * triton.cdiv(n, columns),)
            run = partial(product[blocks], a, b, c, m, n, k_, rows, columns, depth, **how)
            found.append(one({**row, "warps": warps, "stages": stages}, run, c[:64], exact))
    with open(path, "w", encoding="utf-8") as file:
        json.dump(found, file)
    print(f"{len(found)} runs, {sum('refused' in row for row in found)} refused, on {torch.cuda.get_device_name()}")


def compare(path: str, name: str) -> None:
    """Measured against predicted."""
    import catdiag as cd
    from catdiag.planner.fit import fit, kernels_on
    from catdiag.planner.resources.ideal_resources import IdealBlock
    from catdiag.planner.time_model.prediction import predict
    from catdiag.rewrite import group
    from catdiag.rewrite.stream import fold_search

    chip = cd.hardware.get(name)
    loops = group.find(fold_search.find(cd.library.get("multi_head_attention").diagram, "x").diagram, ["b", "h", "q"])
    products = group.find(fold_search.find(cd.library.get("matmul").diagram, "b").diagram, ["a", "c"])
    with open(path, encoding="utf-8") as file:
        rows = [row for row in json.load(file) if row.get("right")]
    shapes: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["kind"] == "loop":
            row["sizes"] = {"b": 1, "h": row["h"], "q": row["n"], "x": row["n"], "d": row["d"]}
            tiles = {"g_b": 1, "g_h": 1, **dict(zip(("g_q", "s_x"), row["tile"], strict=True))}
            row["flops"] = 4 * row["h"] * row["n"] ** 2 * row["d"]
        else:
            row["sizes"] = {"a": row["m"], "b": row["k"], "c": row["n"]}
            tiles = dict(zip(("g_a", "g_c", "s_b"), row["tile"], strict=True))
            row["flops"] = 2 * row["m"] * row["n"] * row["k"]
        row["tiles"], diagram = tiles, loops if row["kind"] == "loop" else products
        kernel = kernels_on(diagram, chip, "bf16", row["stages"]).kernels[0]
        values = {**row["sizes"], **tiles}
        row["fits"] = bool(IdealBlock(kernel, chip).resources(values, row["warps"]).fits(chip))
        timing = predict(kernel, chip, values, row["stages"], row["warps"])
        row["predicted"], row["held"] = float(timing.seconds), int(timing.resources.smem_bytes)
        shapes.setdefault((row["kind"], *row["sizes"].items()), []).append(row)
    for (kind, *sizes), of in shapes.items():
        best = min(of, key=lambda row: row["seconds"])
        plan = fit(loops if kind == "loop" else products, chip, dict(sizes), backend="ideal")
        taken = [r["seconds"] for r in of if r["tiles"] == plan.tiles and 32 * r["warps"] == plan.threads]
        rate = f"{best['flops'] / min(taken) / 1e12:.0f}" if taken else "not measured"
        print(
            f"{kind} {', '.join(f'{n}={v}' for n, v in sizes)}: quickest {best['tile']}, {best['warps']} warps, "
            f"{best['stages']} stages: {best['flops'] / best['seconds'] / 1e12:.0f} TFLOP/s; fit takes "
            f"{[t for t in plan.tiles.values() if t > 1]}, {plan.threads // 32} warps: {rate}"
        )
    ratios = sorted(r["predicted"] / r["seconds"] for r in rows if r["fits"])
    tenth = len(ratios) // 10
    print(
        f"{len(rows)} runs; predicted / measured time: median {statistics.median(ratios):.2f}, "
        f"eight of ten between {ratios[tenth]:.2f} and {ratios[-1 - tenth]:.2f}"
    )
    print(
        "shared memory, measured - predicted, by stages:",
        dict(Counter((r["stages"], r["smem"] - r["held"]) for r in rows)),
    )
    print("(fits, spills):", dict(Counter((r["fits"], r["spilled"] > 0) for r in rows)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("measure", "compare"))
    parser.add_argument("file")
    parser.add_argument("--chip", default="H200")
    given = parser.parse_args()
    measure(given.file) if given.what == "measure" else compare(given.file, given.chip)
