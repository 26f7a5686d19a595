"""Is each wrong change of the kernel noticed by a test?

    python -m mutants                                  all mutants, until the end
    python -m mutants --sample 300 --seed 1            a random sample of them
    python -m mutants --module context --budget 60     those of a module, with more time for each
    python -m mutants --again --tests tests/kernel/F.py   survivors once more, on some tests only
    python -m mutants --list                           the mutants, and nothing run
    python -m mutants --report docs/mutants.md         the score, from the results of earlier runs

What became of each is written to a file as it is known, and a later run goes on from there.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from mutants.operators import Mutant, mutants
from mutants.session import KERNEL, Plugin, Result

ROOT = Path(__file__).resolve().parent.parent
TESTS = ["tests/kernel", "tests/proofs"]


def all_mutants() -> list[Mutant]:
    """The mutants of every module of the kernel."""
    return [m for path in sorted(KERNEL.glob("*.py")) for m in mutants(path.stem, path.read_text(encoding="utf-8"))]


def main() -> int:
    """Runs what is asked for; 1 where a mutant survives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", action="append", help="a module of the kernel; all by default")
    parser.add_argument("--sample", type=int, help="so many mutants, chosen at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of computing for the tests of a mutant")
    parser.add_argument("--minutes", type=float, default=10**6, help="no mutant is begun after so many minutes")
    parser.add_argument("--jobs", type=int, default=1, help="how many mutants at once")
    parser.add_argument("--results", type=Path, default=Path("mutants.jsonl"), help="where results are kept")
    parser.add_argument("--again", action="store_true", help="survivors of earlier runs once more")
    parser.add_argument("--key", action="append", help="mutants whose name has this in it")
    parser.add_argument(
        "--tests", action="append", help="what pytest is given; tests/kernel and tests/proofs by default"
    )
    parser.add_argument("--report", type=Path, help="writes the page of results, and runs nothing")
    parser.add_argument("--list", action="store_true", help="only list the mutants")
    options = parser.parse_args()
    found = all_mutants()
    random.Random(options.seed).shuffle(found)
    if options.module:
        found = [m for m in found if m.module in options.module]
    if options.key:
        found = [m for m in found if any(k in m.key for k in options.key)]
    if options.sample:
        found = found[: options.sample]
    known = read(options.results)
    if options.report:
        report(options.report, found, known, first(options.results))
        return 0
    found = [m for m in found if wanted(known.get(m.key), options.again)]
    if options.list:
        for m in found:
            print(f"{m.line}: {m.key}")
        return 0
    start, count = time.time(), [0]
    with options.results.open("a", encoding="utf-8") as sink:

        def done(mutant: Mutant, result: Result) -> None:
            count[0] += 1
            record = {"key": mutant.key, "line": mutant.line, **asdict(result)}
            sink.write(json.dumps(record, ensure_ascii=False) + "\n")
            sink.flush()
            if not result.outcome.startswith("killed"):
                ran = f"{result.ran}/{result.tests}"
                print(f"{count[0]} {result.outcome} {ran} {mutant.line}: {mutant.key}", flush=True)

        here = [m for m in found if m.function]
        plugin = Plugin(here, options.budget, start + 60 * options.minutes, options.jobs, done)
        arguments = [
            "-q",
            "-n",
            "0",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            str(ROOT),
            *(str(ROOT / t) for t in options.tests or TESTS),
        ]
        status = pytest.main(arguments, plugins=[plugin])
        if status:
            return int(status)
    return 0


def wanted(record: dict[str, Any] | None, again: bool) -> bool:
    """Whether a mutant is to be run: one of which nothing is known, or, again, one that was not killed."""
    if record is None:
        return not again
    return again and not str(record["outcome"]).startswith("killed")


def read(path: Path) -> dict[str, dict[str, Any]]:
    """What is known of mutants from earlier runs, by their names: once killed, a mutant stays killed."""
    if not path.exists():
        return {}
    found: dict[str, dict[str, Any]] = {}
    for record in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        before = found.get(record["key"])
        better = before is None or record["outcome"].startswith("killed") or record["ran"] > before["ran"]
        if better and (before is None or not before["outcome"].startswith("killed")):
            found[record["key"]] = record
    return found


def first(path: Path) -> dict[str, str]:
    """What became of each mutant when it was run first."""
    records = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {record["key"]: record["outcome"] for record in reversed(list(records))}


def report(path: Path, every: list[Mutant], known: dict[str, dict[str, Any]], at_first: dict[str, str]) -> None:
    """Writes the page: the score by module, and each survivor with what is said of it in `argued.toml`."""
    said = tomllib.loads((Path(__file__).parent / "argued.toml").read_text(encoding="utf-8"))
    argued: dict[str, str] = {item["mutant"]: item["because"] for item in said.get("survivor", [])}
    run = [m for m in every if m.key in known and known[m.key]["outcome"] != "not applicable"]
    killed = [m for m in run if str(known[m.key]["outcome"]).startswith("killed")]
    left = sorted((m for m in run if m not in killed), key=lambda m: (m.module, m.line))
    outside = sum(not m.function for m in every)
    lines = [
        "# Mutants of the kernel",
        "",
        "Is each wrong change of the kernel noticed by a test? `python -m mutants` makes small wrong changes of",
        "`catdiag/kernel/`, one at a time (`mutants/operators.py` lists the kinds), and runs the tests of the kernel",
        "and of the stored proofs on each: those that execute the changed lines, until one fails. This page is made by",
        "`python -m mutants --report docs/mutants.md`.",
        "",
        f"There are {len(every):,} mutants. {outside} change a module's own code (tables, classes) and are not run by",
        f"the command. Of the others **{len(run):,} were run**, chosen at random;",
        f"{len(every) - outside - len(run):,} were not.",
        f"**{len(killed):,} of the {len(run):,} were killed**"
        f" ({100 * len(killed) / max(1, len(run)):.0f} %), {len(left)} were not:",
        f"{sum(m.key in argued for m in left)} of these are argued for below,",
        f"{sum(m.key not in argued for m in left)} are open. When they were first run, before the tests that were",
        f"written for survivors, {sum(at_first[m.key].startswith('killed') for m in run):,} were killed.",
        "",
        "| module | mutants | run | killed | not killed |",
        "| --- | --- | --- | --- | --- |",
    ]
    for module in sorted({m.module for m in every}):
        counts = [sum(m.module == module for m in some) for some in (every, run, killed, left)]
        lines.append(f"| {module} | " + " | ".join(map(str, counts)) + " |")
    lines += ["", "## Not killed", ""]
    for m in left:
        record = known[m.key]
        ran = f"{record['ran']} of {record['tests']} tests ran" if record["tests"] else "no test executes the line"
        change = m.what.replace("`", "").replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")
        lines.append(f"- {m.module}, {m.function}: {change} ({ran}). {argued.get(m.key, 'Open.')}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
