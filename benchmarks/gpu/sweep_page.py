"""Rows of the sweep (`benchmarks.gpu.sweep`), as lines and as a page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.gpu.sweep_list import PLANS
from catdiag.measure.output_check import TOLERANCE

RIGHT, WRONG, FAILED, REFUSED, VAGUE, LATE = "right", "wrong", "failed", "no kernel", "not defined", "too long"
"""The outcomes of a case."""

_HEAD = """# A sweep over the library

Every operator of the library as a kernel, and random programs, run on a GPU: whether each is right, and how long the
large ones take. Written by

```sh
python -m benchmarks.gpu.sweep prepare FOLDER                            # where the solvers are
python -m benchmarks.gpu.sweep run FOLDER --write docs/results/kernel_sweep.md   # where the GPU is
```

The kernels are those of `Program.plan`, nothing is tuned. Each operator is run in
bf16, fp16, fp32 and with inputs of fp8 (e4m3); at lengths that tiles divide (even), with rows that are multiples of 16
bytes and other lengths that are not (ragged), and at odd lengths; with dense tensors, and with transposed ones and
rows that are apart (strided). Results are compared with the diagram's meaning in float64, of the same rounded inputs:
‖out − ref‖ / ‖ref‖ and max |out − ref| / max |ref| are both at most what
`catdiag.measure.output_check.TOLERANCE` has for the type, or for a coarser one to which the program itself rounds. An
integer that rounding decides, as of the largest of nearly equal entries, may be each that it is for inputs changed by a
rounding error.
Inputs and results lie in the middle of memory that is full of NaN, so that what is not written, read from outside or
written outside shows.
"""


@dataclass
class Row:
    """What came of a case; times in milliseconds."""

    case: str
    group: str
    operator: str
    kind: str
    dtype: str
    layout: str
    outcome: str
    failure: str = ""
    error: float | None = None
    worst: float | None = None
    ours_ms: float | None = None
    peer_ms: float | None = None
    peer_failure: str = ""
    about: str = ""
    seconds: float = 0.0


def row_text(row: Row) -> str:
    """A row as a line."""
    parts = [f"{row.seconds:5.1f} s  {row.case}: {row.outcome}"]
    if row.error is not None and row.worst is not None:
        parts.append(f"error {row.error:.1e}, worst {row.worst:.1e}")
    if row.ours_ms:
        parts.append(f"{row.ours_ms:.4g} ms")
        parts.append(
            f"torch.compile {row.peer_ms:.4g} ms, {row.peer_ms / row.ours_ms:.2f}x" if row.peer_ms else row.peer_failure
        )
    if row.failure:
        parts.append(row.failure[:200])
    return " | ".join(parts)


def page(rows: Sequence[Row], about: Mapping[str, str], missing: int) -> str:
    """The page of a run."""
    parts = [_HEAD, f"Run on: {', '.join(f'{name} {value}' for name, value in about.items())}.\n"]
    parts += ["## Is it right?\n", *_counts(rows)]
    if missing:
        parts.append(f"{missing} cases were not run, since the time was over.\n")
    parts += ["## Is it slow?\n", *_times(rows)]
    return "\n".join(parts)


def _counts(rows: Sequence[Row]) -> list[str]:
    found = [
        "| type | lengths | layout | right | not right | largest error | allowed |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    ways = [(dtype, kind, layout) for kind, dtype, layout in PLANS]
    ways += sorted({(r.dtype, r.kind, r.layout) for r in rows} - set(ways))
    for dtype, kind, layout in sorted(ways, key=lambda w: (list(TOLERANCE).index(w[0]), *w[1:])):
        own = [r for r in rows if (r.dtype, r.kind, r.layout) == (dtype, kind, layout) and r.outcome != VAGUE]
        if own:
            right = [r for r in own if r.outcome == RIGHT]
            error = max((max(r.error or 0.0, r.worst or 0.0) for r in right), default=0.0)
            found.append(
                f"| {dtype} | {kind} | {layout} | {len(right)} | {len(own) - len(right)} | {error:.1e} "
                f"| {TOLERANCE[dtype]:.0e} |"
            )
    bad = [r for r in rows if r.outcome not in (RIGHT, VAGUE)]
    found += ["", *(f"- {r.case}: {r.outcome}: {_plain(r.failure)}" for r in bad)]
    vague = sum(r.outcome == VAGUE for r in rows)
    if vague:
        found.append(f"- {vague} random programs mean no number at the inputs that were drawn, and were not compared.")
    return [*found, ""]


def _plain(text: str) -> str:
    return text.replace("|", "\\|")


def _times(rows: Sequence[Row]) -> list[str]:
    timed = [r for r in rows if r.ours_ms]
    found = [
        "At the large lengths, in bf16, beside the textbook form by torch.compile. The ratio is how many times as fast "
        "the kernel is; below 1 it is slower.\n",
        "| operator | tiles | catdiag: ms | torch.compile: ms | ratio |",
        "|---|---|---:|---:|---:|",
    ]
    for r in sorted(timed, key=lambda r: (r.peer_ms or math.inf) / (r.ours_ms or 1.0)):
        peer, ratio = (f"{r.peer_ms:.4f}", f"{r.peer_ms / r.ours_ms:.2f}") if r.peer_ms and r.ours_ms else ("none", "")
        found.append(f"| {r.operator} | {r.about} | {r.ours_ms:.4f} | {peer} | {ratio} |")
    both = [(r.ours_ms, r.peer_ms) for r in timed if r.ours_ms and r.peer_ms]
    slower = sum(ours > peer for ours, peer in both)
    found.append(f"\nOf {len(both)} operators the kernel is slower for {slower}.\n")
    for r in timed:
        if r.peer_failure:
            found.append(f"- {r.operator}, torch.compile: {_plain(r.peer_failure)}")
    return found
