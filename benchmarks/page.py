"""The page of results, docs/results/benchmarks.md, and its plot: nothing on it is written by hand."""

from __future__ import annotations

import importlib.util
import statistics
from pathlib import Path
from typing import Any

from benchmarks.growth import LIBRARIES, SIZES, exponent

NAMES = {
    "ours": "catdiag", "discopy": "DisCoPy", "open_hypergraphs": "open-hypergraphs", "chyp": "Chyp", "pyzx": "PyZX",
}  # fmt: skip
TASKS = {
    ("build", "chain"): "Building a chain: n boxes x → x in sequence, of ten kinds",
    ("build", "layers"): "Building a wall: n boxes x ⊗ x → x ⊗ x on 20 wires, in layers of 10 and 9 by turns",
    ("compare", "chain"): "Comparing two chains that were built apart and are equal",
    ("compare", "layers"): "Comparing two walls that were built apart and are equal",
    ("differ", "chain"): "Comparing two chains that differ in the last box",
    ("differ", "layers"): "Comparing two walls that differ in the last box",
    ("rewrite", "chain"): "Rewriting: each box of a chain is replaced by two in sequence",
    ("rewrite", "layers"): "Rewriting: each box of a wall is replaced by two in sequence",
    ("evaluate", "chain"): "Evaluating: each box of a chain is a function of a number",
    ("evaluate", "layers"): "Evaluating: each box of a wall is a function of two numbers that gives two",
}
UNTIMED = "below the clock's step"
SMALLEST = 1_000
"""From this size on growth is fitted and places are compared: below, fixed costs count."""


def seconds(t: float) -> str:
    """Three digits, with a unit that suits."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if t * scale >= 1 or unit == "µs":
            value = t * scale
            return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return ""


def _points(series: dict[str, Any]) -> list[tuple[int, float]]:
    return [(int(n), t) for n, t in series.items() if isinstance(t, float) and t > 0]


def _growth(series: dict[str, Any]) -> str:
    points = [(n, t) for n, t in _points(series) if n >= SMALLEST]
    return f"{exponent(points):.2f}" if len(points) > 1 else "–"


def _ways(results: dict[str, Any], task: str, shape: str) -> list[tuple[str, str, dict[str, Any]]]:
    found = [(*key.split("|", 3), series) for key, series in results["peers"].items()]
    kept = [(library, way, series) for library, t, s, way, series in found if (t, s) == (task, shape)]
    return sorted(kept, key=lambda row: LIBRARIES.index(row[0]))


def _best(ways: list[tuple[str, str, dict[str, Any]]], n: int) -> float | None:
    times = [series.get(str(n)) for library, _, series in ways if library == "ours"]
    known = [t for t in times if isinstance(t, float)]
    return min(known) if known else None


def _table(results: dict[str, Any], task: str, shape: str) -> list[str]:
    ways = _ways(results, task, shape)
    sizes = [n for n in SIZES if any(str(n) in series for _, _, series in ways)]
    lines = ["| library | way | " + " | ".join(f"{n:,}" for n in sizes) + " | grows as n to the |"]
    lines.append("| --- | --- |" + " --- |" * (len(sizes) + 1))
    for library, way, series in ways:
        cells = []
        for n in sizes:
            t, ours = series.get(str(n)), _best(ways, n)
            if not isinstance(t, float):
                cells.append(t or "")
            elif library == "ours" or not ours:
                cells.append(seconds(t))
            else:
                ratio = t / ours
                cells.append(f"{seconds(t)} ({ratio:,.0f}×)" if ratio >= 10 else f"{seconds(t)} ({ratio:.2g}×)")
        lines.append(f"| {NAMES[library]} | {way} | " + " | ".join(cells) + f" | {_growth(series)} |")
    return lines


def _behind(results: dict[str, Any]) -> list[str]:
    """Where another library takes less time than the best way of this one."""
    lines = []
    for task, shape in TASKS:
        ways = _ways(results, task, shape)
        for library, way, series in ways:
            places = []
            for n, t in _points(series):
                ours = _best(ways, n)
                if library != "ours" and n >= SMALLEST and ours and t < ours:
                    places.append(f"{n:,} boxes ({ours / t:.2g} times as fast)")
            places += [f"{int(n):,} boxes (too fast to be timed)" for n, t in series.items() if t == UNTIMED]
            if places:
                lines.append(f"- {task}, {shape}: {NAMES[library]}, {way}, at {', '.join(places)}.")
    return lines or ["- nowhere, from 1,000 boxes up."]


def _peers(results: dict[str, Any]) -> list[str]:
    most = results["most"]["peers"]
    lines = [
        "## Diagrams, beside other libraries",
        "",
        "Each library does each task in the ways that it offers, and by hand where it offers none; all that were tried "
        "are in the tables. In brackets, how many times the time of the fastest way of catdiag. Growth is the slope of "
        f"the logarithms by least squares from {SMALLEST:,} boxes on: 1 is linear, 2 quadratic. A size is not run if "
        f"the growth so far foresees more than {most:.0f} s, and is stopped there. "
        "An empty cell, or a way of `benchmarks/peers/` without a row, was not measured.",
        "",
        "What `==` says differs. That of catdiag is equality in the free symmetric monoidal category with copies: two "
        "diagrams in which boxes stand in another order are equal. So do DisCoPy's hypergraphs and Chyp's `find_iso` "
        'see it. "As stored" is less: the same layers, arrays or gates in the same order. PyZX\'s `verify_equality` is '
        "equality of what circuits mean, of which it knows more. PyZX's boxes are gates, and its rewriting and "
        "evaluating are other tasks of a like size: each gate by basic ones, and 2 × 2 matrices.",
        "",
    ]
    for (task, shape), title in TASKS.items():
        lines += [f"### {title}", "", *_table(results, task, shape), ""]
    lines += [
        "### Where others are ahead",
        "",
        "Lists of gates are made without an object or a type for each wire, and nothing is checked when they are put "
        "together. A loop that is written by hand for one shape keeps every value to the end; `evaluate` takes any "
        "shape, and drops a value when it is read for the last time.",
        "",
        *_behind(results),
        "",
    ]
    return lines


def _shapes(results: dict[str, Any]) -> list[str]:
    found = results["shapes"]
    largest = max(int(n) for series in found.values() for n in series)
    columns = ("build", "equal", "equal, in another order", "one box differs", "two boxes exchanged")
    lines = [
        "## Diagrams of other shapes",
        "",
        "This library alone, garbage collector on. Built by `>>` and `@` until the flat form is there; compared with "
        "one built apart in the same way, with one whose boxes are stored in a random other order, with one that has "
        "another last box, and with one in which the last two boxes stand the other way round.",
        "",
    ]
    for n in sorted({int(k) for series in found.values() for k in series if int(k) >= min(100_000, largest)}):
        lines += [f"{n:,} boxes:", "", "| shape | " + " | ".join(columns) + " | building grows as n to the |"]
        lines.append("| --- |" + " --- |" * (len(columns) + 1))
        for shape, series in found.items():
            row = series.get(str(n))
            if row is None:
                continue
            growth = exponent([(int(k), v["build"]) for k, v in series.items() if v and v["build"] > 0])
            lines.append(f"| {shape} | " + " | ".join(seconds(row[c]) for c in columns) + f" | {growth:.2f} |")
        lines.append("")
    return lines


def _proofs(results: dict[str, Any]) -> list[str]:
    found = results["proofs"]
    lines = ["## Proofs", ""]
    if "theorems" in found:
        rows = found["theorems"]
        which = "all" if found["every"] == 1 else f"every {found['every']}th, {len(rows)}"
        lines += [
            f"The theorems of `proofs/`: {which} of {found['of']}. Proving is stating, searching, deriving if it is a "
            "derivation, running both sides and checking; checking is what `catdiag check` does with the stored "
            "certificate. CPU time, that of z3's process included.",
            "",
            "| | median | worst | all |",
            "| --- | --- | --- | --- |",
        ]
        for name, key in (("to prove", "prove"), ("to check", "check")):
            times = [row[key] for row in rows.values()]
            lines.append(
                f"| {name} | {seconds(statistics.median(times))} | {seconds(max(times))} | {seconds(sum(times))} |"
            )
        lines += ["", "| the longest | to prove | to check | steps | goals |", "| --- | --- | --- | --- | --- |"]
        for name, row in sorted(rows.items(), key=lambda item: -item[1]["prove"])[:10]:
            proving, checking = seconds(row["prove"]), seconds(row["check"])
            lines.append(f"| {name} | {proving} | {checking} | {row['steps']} | {row['goals']} |")
        lines.append("")
    if "solvers" in found:
        s = found["solvers"]
        lines += [
            "## Solver beside solver",
            "",
            f"The {s['goals']} goals that the checker puts to a solver for these certificates, each once, with the "
            "limits that `catdiag check` sets. Time is that of a fork; one that does nothing takes "
            f"{seconds(s['nothing'])}.",
            "",
            "| | proved | refuted | undecided | median | worst | all |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        for name in ("z3", "cvc5"):
            row = s[name]
            counts = " | ".join(str(row[a]) for a in ("yes", "no", "unknown"))
            times = " | ".join(seconds(row[k]) for k in ("median", "worst", "sum"))
            lines.append(f"| {name} | {counts} | {times} |")
        lines += [
            "",
            f"Opposite answers: {s['opposite']}. Proved by z3 and not decided by cvc5: {s['only z3']}; "
            f"the other way round: {s['only cvc5']}.",
            "",
        ]
    lines += [
        "## Closed forms",
        "",
        "The least transfers in closed form: `catdiag.optimum.minimize.minimize`, with a checked certificate, beside "
        "`sympy.solve` of what Lagrange's method says (which gives stationary points, and no certificate), 10 s of "
        "computing at most. Where both give forms, their values agree at some sizes unless it says otherwise.",
        "",
        "| problem | catdiag | its form | sympy | |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, row in found["closed forms"].items():
        ours, theirs = row["catdiag"], row["sympy"]
        form = f"`{ours['form']}`" if ours["form"] else "none"
        said = "no answer" if theirs["form"] is None else "another value" if row["differ"] else ""
        said = said or ("no solution" if theirs["form"] == "" else "")
        lines.append(f"| {name} | {seconds(ours['seconds'])} | {form} | {seconds(theirs['seconds'])} | {said} |")
    return [*lines, ""]


def _plot(results: dict[str, Any], path: Path) -> None:
    """Seconds over boxes, on logarithmic axes: a line for each way, a colour for each library."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "catdiag", "svg.fonttype": "none"}
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 5, figsize=(17, 6.4), sharex=True, sharey=True)
    colours = dict(zip(LIBRARIES, ("#000000", "#d55e00", "#0072b2", "#009e73", "#cc79a7"), strict=True))
    for axis, (task, shape) in zip(axes.flat, TASKS, strict=True):
        named: set[str] = set()
        for library, _, series in _ways(results, task, shape):
            points = sorted(_points(series))
            if points:
                width = 1.8 if library == "ours" else 1.0
                label = "" if library in named else NAMES[library]
                named.add(library)
                axis.loglog(*zip(*points, strict=True), marker="o", markersize=3, linewidth=width,
                            color=colours[library], label=label)  # fmt: skip
        axis.set_title(f"{task}, {shape}", fontsize=10)
        axis.axhline(1.0, color="#999999", linewidth=0.6, linestyle=":")
        axis.grid(True, which="major", linewidth=0.3)
    for axis in axes[-1]:
        axis.set_xlabel("boxes")
    for axis in axes[:, 0]:
        axis.set_ylabel("CPU seconds")
    axes[0, 0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def write(results: dict[str, Any], docs: Path) -> None:
    """Writes the page from what has been measured; a part that has not is left out."""
    versions = results["versions"]
    listed = ", ".join(f"{name} {v}" for name, v in versions.items() if name not in ("cpu", "python", "catdiag"))
    lines = [
        "# Benchmarks",
        "",
        "Made by `python benchmarks/run.py peers shapes proofs page`. CPU time of one process on one core "
        f"({versions['cpu']}, 2 cores that others used at the same time), Python {versions['python']}, {listed}; "
        f"measured {', '.join(f'{part} {day}' for part, day in sorted(results['measured'].items()))}. Beside other "
        "libraries the garbage collector is off while the clock runs, and what takes less than 0.02 s is run many "
        "times on inputs made anew.",
        "",
    ]
    if "peers" in results:
        lines += [
            "![Seconds over boxes: a line for each way, a colour for each library](benchmarks.svg)",
            "",
            *_peers(results),
        ]
        if importlib.util.find_spec("matplotlib"):
            _plot(results, docs / "benchmarks.svg")
    if "shapes" in results:
        lines += _shapes(results)
    if "proofs" in results:
        lines += _proofs(results)
    (docs / "benchmarks.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
