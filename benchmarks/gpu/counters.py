"""A dozen points at which the formulas are held against a GPU's counters, and the page that says what came of it.

    python -m benchmarks.gpu.counters prepare FOLDER            # here, with the solvers: points.json
    python -m benchmarks.gpu.counters measure FOLDER --to FILE   # where the GPU is: torch, triton, ncu, no solvers
    python -m benchmarks.gpu.counters write FOLDER [FILE]        # docs/results/kernel_counters.md, of what was measured

`prepare` derives, emits, evaluates the formulas, reads shared memory off each text and, where torch and triton are
installed, asks the compiler. `measure` runs all points in one process under Nsight Compute.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.gpu.cases import CAUSAL, PLAIN, SKIP, STREAM, woven  # noqa: E402
from catdiag.measure.profile.counter_comparison import (  # noqa: E402  # noqa: E402
    AGREES,
    EXPLAINED,
    REPORTED,
    UNAVAILABLE,
    UNEXPLAINED,
    Measured,
    compare,
    measure,
    rows,
)
from catdiag.measure.profile.expected_counters import ProfilePoint, point_of  # noqa: E402
from catdiag.util.errors import CatdiagError  # noqa: E402
from catdiag.util.files import write_whole  # noqa: E402

if TYPE_CHECKING:
    from catdiag.category.diagram import Diagram

PAGE = ROOT / "docs" / "results" / "kernel_counters.md"
FILE = "points.json"
CHIP = "H200"


@dataclass(frozen=True)
class Declared:
    """An operator at sizes, how it is derived, and with which tiles, warps and stages it runs."""

    name: str
    build: Callable[[], Diagram]
    sizes: Mapping[str, int]
    steps: tuple[tuple[str, str], ...]
    tiles: Mapping[str, int]
    warps: int
    stages: int
    scalars: Mapping[str, float] = field(default_factory=dict)
    draws: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    dtype: str = "bf16"
    specialized: bool = False


def heads(count: int, tokens: int, d: int, **more: int) -> dict[str, int]:
    """Sizes of attention in one batch."""
    return {"b": 1, "h": count, "q": tokens, "x": tokens, "d": d, **more}


def declared() -> list[Declared]:
    """The points."""
    one = {"g_b": 1, "g_h": 1}
    product = (("stream", "b"), ("group", "a c"))
    every = (("h", ("Q", "K", "V", "R", "L")), ("b", ("Q", "K", "V", "R", "L")))
    return [
        Declared("attention, d 128", PLAIN, heads(16, 8192, 128), STREAM, {**one, "g_q": 128, "s_x": 128}, 8, 2),
        Declared("attention, d 128, warp-specialized", PLAIN, heads(16, 8192, 128), STREAM,
                 {**one, "g_q": 128, "s_x": 128}, 8, 3, specialized=True),
        Declared("attention, d 64, 192 rows, warp-specialized", PLAIN, heads(32, 8192, 64), STREAM,
                 {**one, "g_q": 192, "s_x": 128}, 12, 3, specialized=True),
        Declared("causal attention, warp-specialized", CAUSAL, heads(16, 8192, 128), SKIP,
                 {**one, "g_q": 128, "s_x": 128}, 8, 3, specialized=True),
        Declared("attention, d 64, 64 rows", PLAIN, heads(32, 8192, 64), STREAM, {**one, "g_q": 64, "s_x": 128}, 4, 2),
        Declared("attention, 8,100 tokens", PLAIN, heads(16, 8100, 128), STREAM, {**one, "g_q": 128, "s_x": 64}, 8, 3),
        Declared("causal attention", CAUSAL, heads(16, 8192, 128), SKIP, {**one, "g_q": 128, "s_x": 64}, 8, 3),
        Declared("attention in a window of 1,024", woven("sliding_window_attention", *every), heads(16, 8192, 128),
                 SKIP, {**one, "g_q": 128, "s_x": 64}, 8, 3, {"width": 1024}),
        Declared("soft-capped attention", woven("soft_capped_attention", *every), heads(16, 4096, 128), STREAM,
                 {**one, "g_q": 128, "s_x": 64}, 8, 3, {"cap": 30.0}),
        Declared("attention, 16 heads on 4", woven("grouped_query_attention"),
                 {"b": 1, "k": 4, "r": 4, "q": 4096, "x": 4096, "d": 128}, (("stream", "x"), ("group", "b k r q")),
                 {"g_b": 1, "g_k": 1, "g_r": 1, "g_q": 128, "s_x": 64}, 8, 3),
        Declared("decoding, 8k keys in parts", woven("decoding_attention"),
                 {"b": 8, "k": 8, "r": 4, "x": 8192, "d": 128},
                 (("stream", "x"), ("group", "b k r"), ("split", "x")),
                 {"g_b": 1, "g_k": 1, "g_r": 4, "s_x": 128, "p_x": 8}, 4, 3),
        Declared("attention under a mask of 4,096 by 4,096", woven("masked_attention"),
                 {"q": 4096, "x": 4096, "d": 64}, (("stream", "x"), ("group", "q")), {"g_q": 64, "s_x": 64}, 4, 3),
        Declared("attention in 8 bits", PLAIN, heads(16, 4096, 128), STREAM, {**one, "g_q": 128, "s_x": 64}, 8, 3,
                 dtype="fp8"),
        Declared("product, 4,096", woven("matmul"), {"a": 4096, "b": 4096, "c": 4096}, product,
                 {"g_a": 128, "g_c": 256, "s_b": 64}, 8, 3),
        Declared("product of 4,000 by 4,104 by 4,050", woven("matmul"), {"a": 4000, "b": 4104, "c": 4050}, product,
                 {"g_a": 128, "g_c": 128, "s_b": 64}, 8, 3),
        Declared("RMSNorm and linear, width 4,096", woven("rms_norm_linear"), {"t": 4096, "d": 4096, "o": 4096},
                 (("stream", "d"), ("group", "t o")), {"g_t": 128, "g_o": 128, "s_d": 64}, 8, 3, {"eps": 1e-5}),
        Declared("log-sum-exp of 16,384 rows", woven("log_sum_exp"), {"q": 16384, "x": 8192},
                 (("stream", "x"), ("group", "q")), {"g_q": 16, "s_x": 512}, 4, 3),
        Declared("cross-entropy of the last layer, width 256", woven("linear_cross_entropy"),
                 {"t": 4096, "d": 256, "v": 32_000}, (("stream", "v"), ("group", "t")), {"g_t": 128, "s_v": 64}, 8, 2,
                 draws={"label": {"below": 32_000}, "W": {"scale": 0.06}}),
    ]  # fmt: skip


def prepare(folder: Path, items: Sequence[Declared]) -> list[ProfilePoint]:
    """Derives, emits and predicts each point; says of those that cannot be made why."""
    folder.mkdir(parents=True, exist_ok=True)
    derived: dict[Any, Any] = {}
    found: list[ProfilePoint] = []
    refused: dict[str, str] = {}
    for item in items:
        start = time.perf_counter()
        try:
            key = (item.build, item.steps)
            if key not in derived:
                made: Any = item.build()
                for step, axis in item.steps:
                    made = getattr(made, step)(axis)
                derived[key] = made
            found.append(_point(derived[key], item))
            said = f"{sum(sum(k.loads.values()) for k in found[-1].kernels) / 1e9:.3f} GB"
        except CatdiagError as error:
            refused[item.name] = f"{type(error).__name__}: {error.message}"
            said = refused[item.name]
        print(f"{time.perf_counter() - start:6.1f} s  {item.name}: {said}", flush=True)
    data = {"points": [p.as_dict() for p in found], "refused": refused}
    write_whole(folder / FILE, json.dumps(data, ensure_ascii=False) + "\n")
    return found


def _point(made: Any, item: Declared) -> ProfilePoint:
    def of(compile_too: bool) -> ProfilePoint:
        return point_of(
            made, item.tiles, item.sizes, item.dtype, stages=item.stages, warps=item.warps, scalars=item.scalars,
            draws=item.draws, name=item.name, chip=CHIP, compile_too=compile_too, specialized=item.specialized,
        )  # fmt: skip

    try:
        return of(True)
    except CatdiagError as error:
        if "not installed" not in error.message:
            raise
        return of(False)


def read(folder: Path) -> tuple[list[ProfilePoint], dict[str, str]]:
    """The points of a folder, and why others were refused."""
    data = json.loads((folder / FILE).read_text(encoding="utf-8"))
    return [ProfilePoint.of(p) for p in data["points"]], data["refused"]


# -- the page ----------------------------------------------------------------------------------------------------------

_SHORT = {
    "loads L2 to SM": "loads", "stores SM to L2": "stores", "read from HBM": "HBM, read",
    "written to HBM": "HBM, written",
    "shared memory of a block": "shared memory", "shared memory of a block, compiled": "shared memory (compiled)",
}  # fmt: skip


def page(points: Sequence[ProfilePoint], measured: Measured, refused: Mapping[str, str]) -> str:
    """What was predicted and measured, as markdown."""
    told = [compare(p, r, f) for p, r, f in zip(points, measured.readings, measured.failures, strict=True)]
    lines = [line for of in told for line in of]
    counts = {s: sum(line.status == s for line in lines) for s in (AGREES, EXPLAINED, UNEXPLAINED, UNAVAILABLE)}
    made = [
        "# What a GPU counted",
        "",
        f"{len(points)} points, declared in `benchmarks/gpu/counters.py`, each run once under Nsight Compute: what the",
        "formulas say beside what was counted.",
        "[What is compared and what explains a gap](../how-to/profile_a_kernel.md).",
        "",
        "`python -m benchmarks.gpu.counters prepare FOLDER`, then `measure FOLDER --to FILE` where a GPU is, then",
        "`write FOLDER FILE` for this page.",
        "",
    ]
    made += [f"- {name}: {value}" for name, value in measured.about.items()]
    if measured.about:
        made.append("")
    words = {
        AGREES: "agree",
        EXPLAINED: "are explained",
        UNEXPLAINED: "are unexplained",
        UNAVAILABLE: "were not counted",
    }
    said = ", ".join(f"{n} {words[s]}" for s, n in counts.items() if n)
    made += [f"Of {sum(counts.values())} predictions: {said}.", ""]
    made += _summary(points, told)
    for point, of, failure in zip(points, told, measured.failures, strict=True):
        made += _of_point(point, of, failure)
    if refused:
        made += ["## Points that could not be made", ""]
        made += [f"- {name}: {why}" for name, why in refused.items()] + [""]
    return "\n".join(made).rstrip() + "\n"


def _summary(points: Sequence[ProfilePoint], told: Sequence[Sequence[Any]]) -> list[str]:
    """The loads of every point in one table."""
    head = ["| point | loads predicted | counted | ratio | HBM read, ratio | shared memory, bytes off | spills |"]
    head.append("| --- | ---: | ---: | ---: | ---: | ---: | --- |")
    for point, lines in zip(points, told, strict=True):
        loads = [line for line in lines if line.what == "loads L2 to SM"]
        predicted = sum(line.predicted or 0.0 for line in loads)
        counted = [line.measured for line in loads]
        total = None if not loads or None in counted else sum(c for c in counted if c is not None)
        hbm = next((line.ratio for line in lines if line.what == "read from HBM"), None)
        shared = [
            line.measured - line.predicted
            for line in lines
            if line.what.startswith("shared") and None not in (line.predicted, line.measured)
        ]
        spilled = [line.measured for line in lines if line.what.startswith("spills")]
        off = max(shared, key=abs, default=None)
        cells = [
            point.name,
            f"{predicted / 1e9:.4f} GB",
            "" if total is None else f"{total / 1e9:.4f} GB",
            "" if total is None or not predicted else f"{total / predicted:.3f}",
            "" if hbm is None else f"{hbm:.3f}",
            "" if off is None else f"{off:+,.0f}",
            "" if not spilled or None in spilled else "yes" if any(spilled) else "none",
        ]
        head.append("| " + " | ".join(cells) + " |")
    return [*head, ""]


def _of_point(point: ProfilePoint, lines: Sequence[Any], failure: str) -> list[str]:
    sizes = ", ".join(f"{n} {v:,}" for n, v in point.sizes.items())
    options = ", ".join(f"{n} {v}" for n, v in point.options.items())
    title = point.name[:1].upper() + point.name[1:]
    made = [f"## {title}", "", f"`{point.operator}`: {sizes}; {point.dtype}; {options}."]
    if failure:
        made.append(f"Nothing was counted: {failure}.")
    shown = [line for line in lines if line.predicted is not None or line.measured is not None]
    if failure:
        shown = [line for line in shown if line.status != UNAVAILABLE or line.what in _SHORT]
    made += ["", "| | kernel | predicted | measured | ratio | |", "| --- | --- | ---: | ---: | ---: | --- |"]
    for line, cells in zip(shown, rows(shown), strict=True):
        what, kernel, predicted, measured, ratio, said = cells
        if line.status == UNAVAILABLE and failure:
            said = UNAVAILABLE
        elif line.status == REPORTED:
            said = said or REPORTED
        name = f"`{kernel}`" if kernel else ""
        made.append(f"| {_SHORT.get(what, what)} | {name} | {predicted} | {measured} | {ratio} | {said} |")
    return [*made, ""]


def main() -> None:
    """Prepares, measures or writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("prepare", "measure", "write"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("file", type=Path, nargs="?", help="what was measured [nothing]")
    parser.add_argument("--to", type=Path, help="where measurements are written [FOLDER/measured.json]")
    parser.add_argument("--only", default="", help="a regular expression that the name of a point matches somewhere")
    parser.add_argument("--timeout", type=float, default=280.0, help="seconds for all points together")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    if options.what == "prepare":
        prepare(options.folder, [item for item in declared() if re.search(options.only, item.name)])
        return
    points, refused = read(options.folder)
    if options.what == "measure":
        points = [p for p in points if re.search(options.only, p.name)]
        found = measure(points, timeout=options.timeout)
        data = {"names": [p.name for p in points], **found.as_dict()}
        write_whole(options.to or options.folder / "measured.json", json.dumps(data, ensure_ascii=False) + "\n")
        for point, readings, failure in zip(points, found.readings, found.failures, strict=True):
            for line in compare(point, readings, failure):
                if line.status != REPORTED:
                    print(point.name, *rows([line])[0], sep=" | ", flush=True)
        return
    measured = Measured.none(points, "it was not run on a GPU yet")
    if options.file is not None:
        data = json.loads(options.file.read_text(encoding="utf-8"))
        measured = _by_name(points, data.pop("names"), Measured.of(data))
    write_whole(options.page, page(points, measured, refused))


def _by_name(points: Sequence[ProfilePoint], names: Sequence[str], found: Measured) -> Measured:
    """What was measured, in the order of the points."""
    at = {name: k for k, name in enumerate(names)}
    readings = tuple(found.readings[at[p.name]] if p.name in at else () for p in points)
    failures = tuple(found.failures[at[p.name]] if p.name in at else "it was left out of the run" for p in points)
    return Measured(readings, failures, found.about)


if __name__ == "__main__":
    main()
