"""Benchmark results as markdown tables: rates, speedups over other implementations, errors, memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from catdiag.measure.bench import OURS, BenchResult, BenchRow

_SAME = 0.03
"""Quartiles are shown if they are further apart than this part of the median."""
_LARGE = 10**9
"""Memory beside the inputs is shown if some contestant allocates more bytes than this."""


def page(rows: Sequence[BenchRow], about: Mapping[str, str], missing: Iterable[str] = (), head: str = "") -> str:
    """The markdown page of a run: the versions, a table for each group of cases, and the failures.

    `missing` are the names of cases that were not run. A row without a time shows the reason; nothing is raised.

    >>> row = BenchRow("4 by 4", "products", "matmul", {"a": 4}, "bf16", 12800.0, 96.0)
    >>> row.results = [BenchResult("catdiag", 1.0, 0.99, 1.01, 0.001), BenchResult("torch.compile",
    ...     failure="RuntimeError: no")]
    >>> print(page([row], {"GPU": "none"}))
    Measured in one run: GPU none.
    <BLANKLINE>
    ## products
    <BLANKLINE>
    | case | catdiag: ms | TFLOP/s | error | torch.compile |
    |---|---:|---:|---:|---:|
    | 4 by 4 | 1.000 | 1.28e-05 | 1.0e-03 | failed (1) |
    <BLANKLINE>
    1. 4 by 4, torch.compile: RuntimeError: no
    <BLANKLINE>
    """
    parts = [head.rstrip() + "\n"] if head else []
    parts.append(f"Measured in one run: {', '.join(f'{name} {value}' for name, value in about.items())}.\n")
    failures: list[str] = []
    for group in dict.fromkeys(row.group for row in rows):
        parts.append(f"## {group}\n")
        parts.append("\n".join(_table([row for row in rows if row.group == group], failures)) + "\n")
    if failures:
        parts.append("\n".join(f"{k}. {text}" for k, text in enumerate(failures, 1)) + "\n")
    not_run = list(missing)
    if not_run:
        parts.append(f"Not run, since the time for the run was over: {', '.join(not_run)}.\n")
    return "\n".join(parts)


def peers_of(rows: Iterable[BenchRow]) -> list[str]:
    """The names of the other implementations, in order of appearance."""
    return list(dict.fromkeys(r.name for row in rows for r in row.results if not r.name.startswith(OURS)))


def rate(row: BenchRow, result: BenchResult) -> float | None:
    """The rate of a contestant: TFLOP/s, or TB/s of compulsory bytes if the case has no contractions."""
    if not result.median_ms:
        return None
    return (row.flops or row.bytes) / result.median_ms / 1e9


def ratio(row: BenchRow, peer: BenchResult, ours: BenchResult | None = None) -> float | None:
    """The speedup of the kernel over a peer, with the model's first configuration or that of `ours`."""
    ours = ours or row.result(OURS)
    if ours is None or not ours.median_ms or not peer.median_ms:
        return None
    return peer.median_ms / ours.median_ms


def best(row: BenchRow) -> BenchResult | None:
    """The result of the kernel's fastest configuration."""
    found = [r for r in row.results if r.name.startswith(OURS) and r.median_ms]
    return min(found, key=lambda r: r.median_ms or 0.0, default=None)


def predictions(rows: Sequence[BenchRow]) -> str:
    """How near the time model's predictions are to what was measured, as markdown: of all kernels that ran and have a
    prediction, and of each case the first choice and the quickest. Empty if there is no such kernel.

    >>> row = BenchRow("4 by 4", "products", "matmul", {"a": 4}, "bf16", 12800.0, 96.0)
    >>> row.results = [BenchResult("catdiag", 1.0, predicted_ms=0.9), BenchResult("catdiag, a 2", 0.8, predicted_ms=1)]
    >>> print(predictions([row]))
    Of 2 kernels, the predicted time of half is within 18% of the measured one (of 1 first choices: within 10%).
    Predicted over measured is 1.07 in the median, and between 0.90 and 1.25 for eight of ten.
    <BLANKLINE>
    | case | first choice | measured, ms | predicted, ms | ratio | quickest, if another | measured, ms | ratio |
    |---|---|---:|---:|---:|---|---:|---:|
    | 4 by 4 |  | 1.000 | 0.900 | 0.90 | a 2 | 0.800 | 1.25 |
    """
    found = [(row, r) for row in rows for r in row.results if r.median_ms and r.predicted_ms]
    if not found:
        return ""
    ratios = sorted((r.predicted_ms or 0.0) / (r.median_ms or 1.0) for _, r in found)
    firsts = [(r.predicted_ms or 0.0) / (r.median_ms or 1.0) for _, r in found if r.name == OURS]
    low, high = (ratios[round(share * (len(ratios) - 1))] for share in (0.1, 0.9))
    lines = [
        f"Of {len(found)} kernels, the predicted time of half is within {_median_error(ratios)} of the measured one "
        f"(of {len(firsts)} first choices: within {_median_error(firsts)}).",
        f"Predicted over measured is {median(ratios):.2f} in the median, and between {low:.2f} and {high:.2f} "
        "for eight of ten.",
        "",
        "| case | first choice | measured, ms | predicted, ms | ratio | quickest, if another | measured, ms | ratio |",
        "|---|---|---:|---:|---:|---|---:|---:|",
    ]
    for row in rows:
        first, quickest = row.result(OURS), best(row)
        if first is None or not first.median_ms or not first.predicted_ms or quickest is None:
            continue
        ms, predicted_ms = first.median_ms, first.predicted_ms
        cells = [row.case, row.about, f"{ms:.3f}", f"{predicted_ms:.3f}", f"{predicted_ms / ms:.2f}", "", "", ""]
        if quickest is not first and quickest.median_ms and quickest.predicted_ms:
            ms, predicted_ms = quickest.median_ms, quickest.predicted_ms
            cells[5:] = [quickest.name.removeprefix(f"{OURS}, "), f"{ms:.3f}", f"{predicted_ms / ms:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _median_error(ratios: Sequence[float]) -> str:
    """The median of how far ratios are from 1."""
    return f"{100 * median(abs(ratio - 1) for ratio in ratios):.0f}%" if ratios else "–"


def _table(rows: Sequence[BenchRow], failures: list[str]) -> list[str]:
    unit = "TB/s" if all(not row.flops or _by_bytes(row) for row in rows) else "TFLOP/s"
    peers = peers_of(rows)
    several = any(sum(r.name.startswith(OURS) for r in row.results) > 1 for row in rows)
    large = any(r.peak > _LARGE for row in rows for r in row.results)
    head = ["case", f"{OURS}: ms", unit, *(["best tiles"] if several else []), "error", *peers]
    head += ["allocated beside inputs, GB"] if large else []
    lines = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    for row in rows:
        ours = row.result(OURS)
        cells = [row.case, _time(ours, row, failures), _rate(row, ours, unit)]
        if several:
            found = best(row)
            other = found is not None and found is not ours
            cells.append(_rate(row, found, unit) if other else "–" if found is None else "the same")
        cells.append(f"{ours.error:.1e}" if ours is not None and ours.error is not None else "–")
        for name in peers:
            cells.append(_peer(row, row.result(name), unit, failures))
        if large:
            all_results = [row.result(name) for name in (OURS, *peers)]
            cells.append(" / ".join(f"{r.peak / 1e9:.2f}" if r is not None and r.peak else "–" for r in all_results))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _by_bytes(row: BenchRow) -> bool:
    """Whether a case is memory bound: fewer than 50 FLOPs per byte, where today's chips do about 200."""
    return row.flops < 50 * row.bytes


def _time(result: BenchResult | None, row: BenchRow, failures: list[str]) -> str:
    if result is None:
        return "–"
    if result.median_ms is None or result.low_ms is None or result.high_ms is None:
        return _failed(row, result, failures)
    spread = (result.high_ms - result.low_ms) / result.median_ms
    return _described(result, spread)


def _described(result: BenchResult, spread: float) -> str:
    text = f"{result.median_ms:.3f}"
    return f"{text} ({result.low_ms:.3f} to {result.high_ms:.3f})" if spread > _SAME else text


def _rate(row: BenchRow, result: BenchResult | None, unit: str) -> str:
    if result is None or not result.median_ms:
        return "–"
    amount = row.bytes if unit == "TB/s" else row.flops
    value = amount / result.median_ms / 1e9
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _peer(row: BenchRow, result: BenchResult | None, unit: str, failures: list[str]) -> str:
    if result is None:
        return ""
    if not result.median_ms:
        return _failed(row, result, failures)
    times = [t for t in (ratio(row, result), ratio(row, result, best(row))) if t is not None]
    speedups = ", ".join(f"{t:.2f}×" for t in dict.fromkeys(times))
    return _rate(row, result, unit) + (f" ({speedups})" if speedups else "")


def _failed(row: BenchRow, result: BenchResult, failures: list[str]) -> str:
    failures.append(f"{row.case}, {result.name}: {result.failure or 'no reason was given'}")
    return f"failed ({len(failures)})"
