"""Products with weights of 8 and 4 bits, and of fp8 blocks with scales, beside PyTorch, on one GPU.

    python -m benchmarks.gpu.quantized prepare FOLDER    where the solvers are: the kernels as text
    python -m benchmarks.gpu.quantized run FOLDER        where the GPU is; needs PyTorch and Triton
    python -m benchmarks.gpu.quantized page FOLDER       the results as a table in Markdown

Each program is planned with no step given. Its result is compared with float64 first. The peers: a linear layer whose
weights are dequantized to bf16 beforehand (cuBLAS: it reads two bytes a weight), the program as PyTorch has it under
`torch.compile`, and for fp8 `torch._scaled_mm` with one scale for each row, which is less work than one for each block.
Both sides run as CUDA graphs. `quantized.json` has all errors and seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.gpu.layers import entry_of, graphed  # noqa: E402
from benchmarks.gpu.rounds import timed_in_rounds  # noqa: E402

FILE, RESULTS, TOLERANCE, BLOCK = "quantized_kernels.json", "quantized.json", 2e-2, 128
WIDTHS = {"d": 8192, "o": 8192}
TOKENS = (1, 16, 64, 4096)
Function = Callable[..., Any]
TYPES = {
    "8-bit weights": {"X": "bf16", "W": "int8", "s": "bf16", "out": "bf16"},
    "8-bit weights in groups of 128": {"X": "bf16", "W": "int8", "s": "bf16", "out": "bf16"},
    "4-bit weights": {"X": "bf16", "P": "uint8", "s": "bf16", "out": "bf16"},
    "fp8 blocks of 128": {"X": "fp8", "x": "fp32", "W": "fp8", "w": "fp32", "out": "bf16"},
}
"""The types of the arrays of each program."""


def programs() -> dict[str, Any]:
    """The programs, by name."""
    import catdiag as cd

    def packed(X: Any, P: Any, s: Any) -> Any:
        W = cd.where(cd.equal(cd.index("two"), 0), P % 16, P // 16) - 8
        return cd.einsum("t b two, o b two -> t o", cd.rearrange(X, "t (b two) -> t b two"), W) * s

    return {
        "8-bit weights": cd.algorithm("t d, int[o d], o -> t o", name="linear_of_bytes")(
            lambda X, W, s: cd.einsum("t d, o d -> t o", X, W) * s
        ),
        "8-bit weights in groups of 128": cd.algorithm("t g c, int[o g c], o g -> t o", name="linear_of_groups")(
            lambda X, W, s: cd.einsum("t g c, o g c, o g -> t o", X, W, s)
        ),
        "4-bit weights": cd.algorithm("t (b two=2), int[o b], o -> t o", name="linear_of_pairs")(packed),
        "fp8 blocks of 128": cd.algorithm("t g c, t g, o g c, o g -> t o", name="product_of_blocks")(
            lambda X, x, W, w: cd.einsum("t g c, t g, o g c, o g -> t o", X, x, W, w)
        ),
    }


def sizes_of(name: str, tokens: int) -> dict[str, int]:
    """The sizes of a program's axes."""
    d, o = WIDTHS["d"], WIDTHS["o"]
    if name == "8-bit weights":
        return {"t": tokens, "d": d, "o": o}
    return {"t": tokens, "o": o, **({"b": d // 2} if name == "4-bit weights" else {"g": d // BLOCK, "c": BLOCK})}


def prepare(folder: Path, chip: str) -> None:
    """Writes the module of each case, and `quantized_kernels.json`."""
    from catdiag.util.files import write_whole

    folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for number, (name, program) in enumerate(programs().items()):
        for tokens in TOKENS:
            plan = program.plan(chip, sizes_of(name, tokens), dtype=TYPES[name])
            if plan.module is None:
                print(f"{name}, {tokens}: no module, {plan.reason}", flush=True)
                continue
            made, file = plan.written(), f"quantized{number}_{tokens}.py"
            write_whole(folder / file, made.text)
            rows.append({"name": name, "tokens": tokens, "file": file, "entry": made.entry, "plan": str(plan),
                         "predicted_s": plan.time_s, "kernels": len(plan.kernels)})  # fmt: skip
            print(f"{name}, {tokens} tokens: {len(plan.kernels)} kernels, {1e6 * plan.time_s:,.1f} µs predicted, "
                  f"{plan.tiles}", flush=True)  # fmt: skip
            write_whole(folder / FILE, json.dumps(rows, ensure_ascii=False, indent=1))


def drawn(name: str, tokens: int) -> tuple[list[Any], Any, Function, dict[str, Function]]:
    """The inputs of a case, its result in float64, the program in PyTorch, and the other peers."""
    import torch

    d, o = WIDTHS["d"], WIDTHS["o"]
    torch.manual_seed(0)

    def normal(*shape: int) -> Any:
        return torch.randn(*shape, device="cuda")

    X, s = normal(tokens, d).bfloat16(), (0.5 + torch.rand(o, device="cuda")).bfloat16() / 1024
    linear = torch.nn.functional.linear
    if name == "fp8 blocks of 128":
        shape = (d // BLOCK, BLOCK)
        fp8 = torch.float8_e4m3fn
        A, W = normal(tokens, *shape).to(fp8), normal(o, *shape).to(fp8)
        x, w = 0.5 + torch.rand(tokens, shape[0], device="cuda"), 0.5 + torch.rand(o, shape[0], device="cuda")
        full = (A.float() * x[:, :, None]).flatten(1), (W.float() * w[:, :, None]).flatten(1)
        half = full[0].bfloat16(), full[1].bfloat16()
        rows = torch.ones(tokens, 1, device="cuda"), torch.ones(1, o, device="cuda")

        def scaled() -> Any:
            return torch._scaled_mm(A.flatten(1), W.flatten(1).T, *rows, out_dtype=torch.bfloat16)

        def blocks(A: Any, x: Any, W: Any, w: Any) -> Any:
            left, right = ((v.bfloat16() * f[:, :, None].bfloat16()).flatten(1) for v, f in ((A, x), (W, w)))
            return left @ right.T

        wanted = full[0].double() @ full[1].double().T
        return [A, x, W, w], wanted, blocks, {"bf16 linear": lambda: linear(*half), "_scaled_mm by rows": scaled}
    if name == "4-bit weights":
        P = torch.randint(0, 256, (o, d // 2), device="cuda", dtype=torch.uint8)
        W = torch.stack([P % 16, P // 16], -1).flatten(1).to(torch.int8) - 8

        def unpacked(X: Any, P: Any, s: Any) -> Any:
            weights = torch.stack([P & 15, P >> 4], -1).flatten(1).to(X.dtype) - 8
            return linear(X, weights) * s

        half = (W.bfloat16() * s[:, None]).bfloat16()
        return (
            [X, P, s],
            X.double() @ (W.double() * s.double()[:, None]).T,
            unpacked,
            {"bf16 linear": lambda: linear(X, half)},
        )
    W = torch.randint(-128, 128, (o, d), device="cuda", dtype=torch.int8)
    if name == "8-bit weights":
        half = (W.bfloat16() * s[:, None]).bfloat16()
        wanted = X.double() @ (W.double() * s.double()[:, None]).T
        return [X, W, s], wanted, lambda X, W, s: linear(X, W.to(X.dtype)) * s, {"bf16 linear": lambda: linear(X, half)}
    groups = d // BLOCK
    S = (0.5 + torch.rand(o, groups, device="cuda")).bfloat16() / 1024
    of_groups = (W.view(o, groups, BLOCK).double() * S.double()[:, :, None]).flatten(1)
    half = of_groups.bfloat16()

    def grouped(X: Any, W: Any, S: Any) -> Any:
        return linear(X.flatten(1), (W.to(X.dtype) * S[:, :, None]).flatten(1))

    inputs = [X.view(tokens, groups, BLOCK), W.view(o, groups, BLOCK), S]
    return inputs, X.double() @ of_groups.T, grouped, {"bf16 linear": lambda: linear(X, half)}


def run(folder: Path, rounds: int, only: str) -> None:
    """Checks and times each case."""
    import torch

    done = []
    for row in json.loads((folder / FILE).read_text(encoding="utf-8")):
        if only not in row["name"]:
            continue
        inputs, wanted, written, peers = drawn(row["name"], row["tokens"])
        entry, compiled = entry_of(folder, row), torch.compile(written)
        contestants: dict[str, Function] = {
            "catdiag": lambda e=entry, a=inputs: e(*a),
            "torch.compile": lambda c=compiled, a=inputs: c(*a),
            **peers,
        }
        found: dict[str, Any] = {}
        ready: dict[str, Function] = {}
        for name, call in contestants.items():
            try:
                function = graphed(call)
                if "scaled_mm" not in name:
                    found[name] = {"error": float((function().double() - wanted).norm() / wanted.norm())}
                    if not found[name]["error"] <= TOLERANCE:
                        continue
                ready[name] = function
            except Exception as error:  # a contestant that fails is said to
                found[name] = {"failure": f"{type(error).__name__}: {str(error)[:200]}"}
        for name, times in timed_in_rounds(ready, rounds).items():
            found.setdefault(name, {}).update(times)
        done.append({**row, "contestants": found})
        ours = found["catdiag"].get("time_s")
        shown = ", ".join(
            f"{n} {1e6 * c['time_s']:.1f} µs" + (f" ({c['time_s'] / ours:.2f}×)" if ours and n != "catdiag" else "")
            if "time_s" in c else f"{n}: {c.get('failure') or c.get('error')}" for n, c in found.items()
        )  # fmt: skip
        predicted = f"predicted {1e6 * row['predicted_s']:.1f} µs, error {found['catdiag'].get('error', 1):.1e}"
        print(f"{row['name']}, {row['tokens']} tokens: {shown}; {predicted}", flush=True)
        (folder / RESULTS).write_text(json.dumps(done, indent=1, ensure_ascii=False), encoding="utf-8")


def page(folder: Path) -> str:
    """The results as a table: microseconds, and in brackets how many times as fast as each peer ours is."""
    peers = ("torch.compile", "bf16 linear", "_scaled_mm by rows")
    lines = [f"| weights | tokens | catdiag, µs | predicted, µs | error | {' | '.join(peers)} |", "|---" * 8 + "|"]
    for row in json.loads((folder / RESULTS).read_text(encoding="utf-8")):
        found = row["contestants"]
        ours = found["catdiag"]["time_s"]
        beside = [
            f"{1e6 * c['time_s']:.1f} ({c['time_s'] / ours:.2f}×)" if "time_s" in (c := found.get(name, {})) else ""
            for name in peers
        ]
        lines.append(
            f"| {row['name']} | {row['tokens']} | {1e6 * ours:.1f} | {1e6 * row['predicted_s']:.1f} "
            f"| {found['catdiag']['error']:.1e} | {' | '.join(beside)} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Prepares, runs, or prints the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("prepare", "run", "page"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chip", default="H200")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--only", default="", help="a part of the names of the cases")
    given = parser.parse_args()
    if given.what == "prepare":
        prepare(given.folder, given.chip)
    elif given.what == "page":
        print(page(given.folder))
    else:
        run(given.folder, given.rounds, given.only)


if __name__ == "__main__":
    main()
