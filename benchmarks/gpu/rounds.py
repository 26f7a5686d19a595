"""Cases one after the other, and times of contestants on one device, in rounds."""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

WINDOW_S = 0.1
"""Seconds of calls in a row that are timed as one: in fewer, what the host takes before the first launch is seen."""
Function = Callable[[], Any]


def measured(function: Function, calls: int) -> float:
    """Seconds of a call, of several in a row: on the GPU where there is one, else by the host's clock."""
    import torch

    if not torch.cuda.is_available():
        begin = time.perf_counter()
        for _ in range(calls):
            function()
        return (time.perf_counter() - begin) / calls
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(calls):
        function()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1e3 / calls


def timed_in_rounds(functions: Mapping[str, Function], rounds: int) -> dict[str, dict[str, Any]]:
    """The median and the quartiles of the seconds of a call of each function, timed in rounds, each in an order drawn
    by lot: a function that draws much power slows down the next one."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    calls = {name: max(1, round(WINDOW_S / measured(f, 2))) for name, f in functions.items()}
    order, random_order = list(functions), random.Random(0)
    for _ in range(rounds):
        random_order.shuffle(order)
        for name in order:
            times[name].append(measured(functions[name], calls[name]))
    return {
        name: {
            "time_s": statistics.median(values),
            "quartiles_s": [sorted(values)[k * (len(values) - 1) // 4] for k in (1, 3)],
        }
        for name, values in times.items()
    }


Row = dict[str, Any]


def measure_cases(
    cases: Path,
    results: Path,
    only: str,
    seconds: float,
    measure: Callable[[Row, str], Row],
    text: Callable[[Row], str],
) -> list[Row]:
    """The rows of cases that `measure` gives for each and the device, written to `results` as soon as they are there.
    Cases are those whose names have a part `only`; none is begun after so many seconds. `text` is printed of a row."""
    import torch

    device, until = "cuda" if torch.cuda.is_available() else "cpu", time.perf_counter() + seconds
    done: list[Row] = []
    for row in json.loads(cases.read_text(encoding="utf-8")):
        if only not in row["name"]:
            continue
        if time.perf_counter() > until:
            print(f"{row['name']}: not run, the time is over", flush=True)
            continue
        done.append(measure(row, device))
        if device == "cuda":
            torch.cuda.empty_cache()
        print(text(done[-1]), flush=True)
        results.write_text(json.dumps(done, indent=1, ensure_ascii=False), encoding="utf-8")
    return done


def command_line(about: str | None, tiny: str, seconds: float) -> argparse.ArgumentParser:
    """The options of a benchmark that prepares cases in a folder, and runs them: `tiny` says what small arrays are for,
    and `seconds` is after how long no case is begun."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("prepare", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="a part of the names of the cases")
    parser.add_argument("--tiny", action="store_true", help=tiny)
    parser.add_argument("--dtype", default="bf16", choices=("bf16", "fp16"))
    parser.add_argument("--chip", default="H200")
    parser.add_argument("--results", type=Path, help="where rows are written (default: results.json in the folder)")
    parser.add_argument("--seconds", type=float, default=seconds, help="no case is begun after so many seconds")
    parser.add_argument("--rounds", type=int, default=20)
    return parser
