"""Backward passes of norms beside PyTorch, and beside a copy of as many bytes, on one GPU.

    python -m benchmarks.gpu.norms prepare FOLDER     where the solvers are: the kernels as text
    python -m benchmarks.gpu.norms run FOLDER         where the GPU is; needs PyTorch and Triton

Ours is the backward pass that `catdiag.planner.training_plans` plans: cotangents of rows, of the gain, and of the bias
of a LayerNorm, from statistics of rows in fp32. Theirs are PyTorch's own kernels ("eager") and the formula by
`torch.compile`, from the same statistics. All run as CUDA graphs, on rotating sets of arrays that together are
larger than the L2; the copy moves as many bytes as rows, their cotangents and the results have. Times are medians of
rounds in which each is timed once. Errors are the largest ‖out − ref‖ / ‖ref‖ against float64.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.gpu.backward import largest_error  # noqa: E402
from benchmarks.gpu.layers import entry_of  # noqa: E402

FILE = "norms.json"
CASES = (("layer_norm", 8192, 768), ("layer_norm", 8192, 1024), ("layer_norm", 8192, 4096), ("rms_norm", 8192, 2048),
         ("rms_norm", 8192, 4096), ("rms_norm", 16384, 8192))  # fmt: skip
TOTAL_BYTES = 2**28
"""Bytes of all sets of arrays together, at least."""
CALLS, REPLAYS = 20, 7
"""Calls of a graph, and how often it is replayed in a round."""
Function = Callable[..., Any]


def prepare(folder: Path, chip: str) -> None:
    """Writes the modules, and `norms.json`."""
    import catdiag as cd
    from catdiag.planner.training_plans import training_plans
    from catdiag.util.files import write_whole

    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, t, d in CASES:
        source = cd.library.get(name).diagram
        wrt = [k for k, ty in enumerate(source.dom) if ty.axes]
        plan = training_plans(source, cd.hardware.get(chip), {"t": t, "d": d}, "bf16", wrt).backward
        file = f"{name}_{t}_{d}.py"
        write_whole(folder / file, plan.code("triton"))
        said = [(dict(k.tiles), k.warps, k.stages) for k in plan.kernels]
        rows.append({"name": name, "t": t, "d": d, "file": file, "entry": plan.written().entry, "about": said,
                     "predicted_s": plan.time_s})  # fmt: skip
        print(f"{name}, {t:,} × {d:,}: {said}, {1e6 * plan.time_s:,.1f} µs predicted", flush=True)
    write_whole(folder / FILE, json.dumps(rows, indent=1))


def arrays(name: str, t: int, d: int) -> tuple[Any, ...]:
    """Rows, gain, statistics and cotangents, in the order of a backward pass."""
    import torch

    rows, cotangents = (torch.randn(t, d, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    gain = torch.randn(d, device="cuda", dtype=torch.bfloat16)
    wide = rows.float()
    if name == "rms_norm":
        return rows, gain, (wide.square().mean(1) + 1e-6).sqrt(), cotangents
    return rows, gain, wide.mean(1), (wide.var(1, unbiased=False) + 1e-6).sqrt(), cotangents


def formula(rows: Any, gain: Any, *rest: Any) -> tuple[Any, ...]:
    """The backward pass by its formula, in the type of the statistics."""
    *means, deviations, cotangents = rest
    wide = rows.to(deviations.dtype) - (means[0][:, None] if means else 0)
    x, g = wide / deviations[:, None], cotangents.to(deviations.dtype)
    scaled = g * gain.to(deviations.dtype)
    made = scaled - x * (x * scaled).mean(1, keepdim=True)
    made = (made - (scaled.mean(1, keepdim=True) if means else 0)) / deviations[:, None]
    sums = [(g * x).sum(0), *([g.sum(0)] if means else [])]
    return made.to(rows.dtype), *(one.to(rows.dtype) for one in sums)


def eager(rows: Any, gain: Any, *rest: Any) -> Function:
    """PyTorch's own kernels for the backward pass, from the same statistics."""
    import torch

    *means, deviations, cotangents = rest
    size, inverse = list(rows.shape[1:]), 1 / deviations[:, None]
    if not means:
        backward = torch.ops.aten._fused_rms_norm_backward
        return lambda: backward(cotangents, rows, size, inverse, gain, [True, True])
    backward, mean, bias = torch.ops.aten.native_layer_norm_backward, means[0][:, None], torch.zeros_like(gain)
    return lambda: backward(cotangents, rows, size, mean, inverse, gain, bias, [True, True, True])


def graph(calls: Sequence[Function]) -> Callable[[], float]:
    """What replays a graph of `CALLS` of rotating calls, and gives the median microseconds of one."""
    import torch

    calls[0]()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        calls[0]()
    torch.cuda.synchronize()
    made = torch.cuda.CUDAGraph()
    with torch.cuda.graph(made):
        for k in range(CALLS):
            calls[k % len(calls)]()

    def timed() -> float:
        times = []
        for _ in range(REPLAYS):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            made.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(1e3 * start.elapsed_time(end) / CALLS)
        return statistics.median(times)

    timed()
    return timed


def run(folder: Path, rounds: int) -> None:
    """Checks and times all cases, and prints a row for each."""
    import torch
    import triton

    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__, "Triton", triton.__version__)
    for row in json.loads((folder / FILE).read_text("utf-8")):
        name, t, d = row["name"], row["t"], row["d"]
        sets = [arrays(name, t, d) for _ in range(max(1, -(-TOTAL_BYTES // (6 * t * d))))]
        pairs = [torch.empty(2, 3 * t * d // 2, device="cuda", dtype=torch.bfloat16) for _ in sets]
        ours, compiled = entry_of(folder, row), torch.compile(formula, dynamic=False)
        wanted = formula(*(a.double() for a in sets[0]))
        found = ours(*sets[0])
        same = all(torch.equal(a, b) for a, b in zip(found, ours(*sets[0]), strict=True))
        functions = {
            "copy": graph([partial(p[0].copy_, p[1]) for p in pairs]),
            "ours": graph([partial(ours, *s) for s in sets]),
            "ours, atomic additions": graph([partial(ours, *s, deterministic=False) for s in sets]),
            "torch.compile": graph([partial(compiled, *s) for s in sets]),
            "eager": graph([eager(*s) for s in sets]),
        }
        times: dict[str, list[float]] = {key: [] for key in functions}
        for _ in range(rounds):
            for key, function in functions.items():
                times[key].append(function())
        median = {key: statistics.median(values) for key, values in times.items()}
        print(
            f"{name}, {t:,} × {d:,}: {', '.join(f'{k} {v:.1f}' for k, v in median.items())} µs; predicted "
            f"{1e6 * row['predicted_s']:.1f}; {median['copy'] / median['ours']:.2f} of a copy's bandwidth; errors "
            f"{largest_error(found, wanted):.1e}, {largest_error(compiled(*sets[0]), wanted):.1e}; same bits: {same}",
            flush=True,
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Prepares or runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("prepare", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chip", default="H200")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args(arguments)
    if given.what == "prepare":
        prepare(given.folder, given.chip)
    else:
        run(given.folder, given.rounds)


if __name__ == "__main__":
    main()
