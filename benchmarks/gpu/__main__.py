"""Generated kernels beside what people use today, on one GPU in one run, written as a page.

    python -m benchmarks.gpu.prepare FOLDER                       where the solvers are: the kernels as text
    python -m benchmarks.gpu FOLDER --write docs/results/kernel_speed.md  where the GPU is; needs PyTorch and Triton

First everything is compiled, in many processes at once; then each case is checked and timed, one after the other, in
one process, which is started anew where a kernel makes the GPU unusable for it. Each row is kept in a file (`--rows`)
as soon as it is measured, and a run goes on where the last one stopped. What is not done when the time is over is
listed as not run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.gpu.peers import PEERS  # noqa: E402
from benchmarks.gpu.prepare import read  # noqa: E402
from catdiag.measure.bench import (  # noqa: E402
    COMPILED,
    OURS,
    BenchDevice,
    BenchResult,
    BenchRow,
    Contestant,
    FailedContestant,
    of_kernels,
    raised,
    reason,
    run_case,
    torch_reference_of,
    torch_with_gpu,
    versions,
)
from catdiag.measure.bench_case import BenchCase  # noqa: E402
from catdiag.measure.bench_table import page, predictions, rate, ratio  # noqa: E402
from catdiag.measure.output_check import inputs_of  # noqa: E402
from catdiag.measure.tune import reached  # noqa: E402
from catdiag.util.errors import CatdiagError  # noqa: E402
from catdiag.util.files import write_whole  # noqa: E402

AGAIN = 75
"""The exit status of a process that has to be started anew."""
_WARM = 150.0
"""Seconds after which compiling a case beforehand is given up."""
_HEAD = """Kernels that `catdiag` wrote, beside what people use today. Written by `python -m benchmarks.gpu` ([how it is
measured](../how-to/benchmark_a_kernel.md)), in one run on one GPU: every contestant is first checked on fresh inputs
against the diagram's meaning in float64 (the error is ‖out − ref‖ / ‖ref‖), then all are timed in interleaved rounds;
times are medians, with quartiles where those are further than 3% apart. In brackets after a peer: how many times as
fast as the peer the kernel is, with the tiles that the cost model chose first, and with the best of those that it
proposed where that is another. Operations are those of the diagram's contractions by formula, in the order that
multiplies least, without what a mask empties, the same for all.
"""


def contestants(case: BenchCase) -> list[Contestant]:
    """The kernels and the peers of a case."""
    found = of_kernels(case)
    for name in case.peers:
        if name == COMPILED:
            found.append(torch_reference_of(case))
        else:
            found.append(Contestant(name, _of(name, case)))
    return found


def _of(name: str, case: BenchCase) -> Any:
    return lambda: PEERS[name](case)


# -- in processes of their own ----------------------------------------------------------------------------------


def warm(case: BenchCase) -> None:
    """Compiles what a case needs, so that it is in the caches on disk; what fails here fails again when it counts."""
    torch_with_gpu()
    inputs = inputs_of(case, "cuda", 0)
    for contestant in contestants(case):
        try:
            contestant.build()(*inputs)
            print(f"{case.name}: {contestant.name} compiled", flush=True)
        except raised() as error:
            print(f"{case.name}: {contestant.name}: {reason(error)}", flush=True)
            if not BenchDevice("cuda", _NoClock()).alive():
                sys.exit(AGAIN)


class _NoClock:
    def time(self, call: Any, times: int) -> float:
        """Times nothing."""
        raise CatdiagError("no clock was given")


def measure(cases: Sequence[BenchCase], rows: Path, machine: BenchDevice, rounds: int, until: float) -> int:
    """Measures the cases that have no row yet, and keeps each; the exit status."""
    done, broken = kept(rows)
    for case in cases:
        if case.name in done:
            continue
        if time.time() > until:
            break
        lost = {name: why for (title, name), why in broken.items() if title == case.name}
        chosen = [c for c in contestants(case) if c.name not in lost]
        try:
            row = run_case(case, machine, chosen, rounds=rounds, seed=len(done) + 1)
        except FailedContestant as error:
            keep(rows, {"lost": [case.name, error.name, error.failure]})
            return AGAIN
        row.results += [BenchResult(name, failure=why) for name, why in lost.items()]
        keep(rows, {"row": asdict(row)})
        done[case.name] = row
        print(row_text(row), flush=True)
    return 0


def row_text(row: BenchRow) -> str:
    """A row as a line."""
    parts = []
    for r in row.results:
        value = rate(row, r)
        times = ratio(row, r)
        if value is None:
            parts.append(f"{r.name}: {r.failure[:90]}")
        else:
            parts.append(f"{r.name} {value:.4g}" + (f" ({times:.2f}x)" if times and r.name != OURS else ""))
    return f"{row.seconds:5.1f} s  {row.case} | {' | '.join(parts)}"


# -- what is kept -------------------------------------------------------------------------------------------------


def keep(rows: Path, data: Mapping[str, Any]) -> None:
    """Adds a line to a file, at once."""
    with rows.open("a", encoding="utf-8") as file:
        file.write(json.dumps(data, ensure_ascii=False) + "\n")


def lines(rows: Path) -> list[dict[str, Any]]:
    """What was kept; a last line that was cut off in writing is left out."""
    found = []
    for line in rows.read_text(encoding="utf-8").splitlines() if rows.exists() else []:
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def kept(rows: Path) -> tuple[dict[str, BenchRow], dict[tuple[str, str], str]]:
    """The rows by case, and what made the GPU unusable, by case and contestant."""
    done: dict[str, BenchRow] = {}
    broken: dict[tuple[str, str], str] = {}
    for data in lines(rows):
        if "row" in data:
            done[data["row"]["case"]] = BenchRow.of(data["row"])
        elif "lost" in data:
            title, name, why = data["lost"]
            broken[title, name] = why
    return done, broken


def about() -> dict[str, str]:
    """Versions, and the two ceilings of this GPU: of a copy and of a matrix product."""
    torch = torch_with_gpu()
    from catdiag.measure.device_timer import Events, interleaved

    source, target = (torch.randn(2**30, device="cuda") for _ in range(2))
    left, right = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    found, _ = interleaved(
        {"copy": lambda k: target.copy_(source), "product": lambda k: left @ right}, Events(), rounds=9
    )
    return {
        **versions(),
        "copy": f"{8 * 2**30 / found['copy'].median_ms / 1e9:.2f} TB/s",
        "bf16 product of 8,192": f"{2 * 8192**3 / found['product'].median_ms / 1e9:.0f} TFLOP/s",
    }


# -- the run --------------------------------------------------------------------------------------------------------


def command(options: argparse.Namespace, *further: str) -> list[str]:
    """This program again, in a process of its own."""
    given = [str(options.folder), "--rows", str(options.rows), "--only", options.only, "--rounds", str(options.rounds)]
    return [sys.executable, "-m", "benchmarks.gpu", *given, *further]


def compile_all(options: argparse.Namespace, cases: Sequence[BenchCase], until: float) -> None:
    """Compiles all cases, some at a time, each in its own process: what a kernel breaks is broken for all of that."""

    def one(case: BenchCase) -> None:
        left = min(_WARM, until - time.time())
        if left <= 5:
            return
        try:
            environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
            subprocess.run(command(options, "--warm", case.name), timeout=left, check=False, cwd=ROOT, env=environment)
        except subprocess.TimeoutExpired:
            print(f"{case.name}: not compiled after {left:.0f} s", flush=True)

    with ThreadPoolExecutor(options.workers) as pool:
        list(pool.map(one, cases))


def run(options: argparse.Namespace, cases: Sequence[BenchCase]) -> None:
    """Compiles, measures, and writes the page."""
    begin = time.time()
    until = begin + options.seconds
    done, _ = kept(options.rows)
    todo = [c for c in cases if c.name not in done]
    if options.workers and todo:
        compile_all(options, todo, begin + options.seconds * 0.45)
        print(f"compiled after {time.time() - begin:.0f} s", flush=True)
    for _ in range(3 * len(todo) + 1):
        left = until - time.time()
        if left <= 5:
            break
        try:
            status = subprocess.run(
                command(options, "--measure", str(until - 10)), timeout=left, check=False, cwd=ROOT
            ).returncode
        except subprocess.TimeoutExpired:
            break
        if status != AGAIN:
            break
    finish(options, cases)


def finish(options: argparse.Namespace, cases: Sequence[BenchCase]) -> None:
    """The page of what was measured."""
    done, _ = kept(options.rows)
    known = next((data["about"] for data in lines(options.rows) if "about" in data), {})
    ordered = [done[c.name] for c in cases if c.name in done]
    missing = [c.name for c in cases if c.name not in done]
    text = page(ordered, known, missing, f"# {options.title}\n\n{_HEAD}")
    if any(sum(r.name.startswith(OURS) for r in row.results) > 1 for row in ordered):
        text += f"\n{reached(ordered)}\n"
    said = predictions(ordered)
    if said:
        text += f"\n## Predicted and measured\n\n{said}\n"
    if options.write is not None:
        write_whole(options.write, text)
        print(f"{len(ordered)} of {len(cases)} cases are in {options.write}")
    print("\n".join(row_text(row) for row in ordered))


def main() -> int:
    """One of the parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what benchmarks.gpu.prepare wrote")
    parser.add_argument("--write", type=Path, default=None, help="the page")
    parser.add_argument("--title", default="Speed of kernels", help="of the page")
    parser.add_argument("--rows", type=Path, default=None, help="the file of rows [rows.jsonl in the folder]")
    parser.add_argument("--only", default="", help="a regular expression that the name of a case matches somewhere")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=480.0, help="for all of it")
    parser.add_argument("--workers", type=int, default=10, help="processes that compile; 0 compiles nothing beforehand")
    parser.add_argument("--page", action="store_true", help="only write the page again, from the rows")
    parser.add_argument("--warm", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--measure", type=float, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    options.rows = (options.rows or options.folder / "rows.jsonl").resolve()
    cases = [c for c in read(options.folder) if re.search(options.only, f"{c.group}: {c.name}")]
    if options.warm is not None:
        warm(next(c for c in cases if c.name == options.warm))
        return 0
    if options.page:
        finish(options, cases)
        return 0
    try:
        torch_with_gpu()
    except CatdiagError as error:
        print(error.message, file=sys.stderr)
        return 2
    if options.measure is not None:
        if not any("about" in data for data in lines(options.rows)):
            keep(options.rows, {"about": about()})
        return measure(cases, options.rows, BenchDevice.gpu(), options.rounds, options.measure)
    run(options, cases)
    return 0


if __name__ == "__main__":
    sys.exit(main())
