"""Is each wrong change of the kernel noticed by a test?

    python -m tests.mutants                                  all mutants, until the end
    python -m tests.mutants --sample 300 --seed 1            a random sample of them
    python -m tests.mutants --module context --budget 60     those of a module, with more time for each
    python -m tests.mutants --conditions                     those that change a condition or leave a refusal out
    python -m tests.mutants --again --tests tests/kernel/F.py   survivors once more, on some tests only
    python -m tests.mutants --list                           the mutants, and nothing run
    python -m tests.mutants --report docs/results/mutants.md         the score, from the results of earlier runs

What became of each is written to a file as it is known, and a later run goes on from there.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import tomllib
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.operators import Mutant, mutants
from tests.mutants.session import KERNEL, Plugin, Result

ROOT = Path(__file__).resolve().parents[2]
TESTS = ["tests/kernel", "tests/proofs"]


def all_mutants() -> list[Mutant]:
    """The mutants of every module of the kernel."""
    return [m for path in sorted(KERNEL.glob("*.py")) for m in mutants(path.stem, path.read_text(encoding="utf-8"))]


def main() -> int:
    """Runs what is asked for; 1 where a mutant survives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", action="append", help="a module of the kernel; all by default")
    parser.add_argument("--conditions", action="store_true", help="only changes of conditions and refusals")
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
    if options.conditions:
        found = [m for m in found if m.condition]
    if options.sample:
        found = found[: options.sample]
    known = read(options.results)
    if options.report:
        report(options.report, found, known)
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

        until, by_function = start + 60 * options.minutes, killers(known)
        plugin = Plugin(found, options.budget, until, options.jobs, done, by_function)
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


def killers(known: dict[str, dict[str, Any]]) -> dict[tuple[str, str], Counter[str]]:
    """How many mutants of each function each test has killed."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for key, record in known.items():
        if record["by"]:
            module, function, _ = key.split(":", 2)
            place = module, "" if function == "module" else function
            found.setdefault(place, Counter())[record["by"]] += 1
    return found


KINDS = {
    "same": "change nothing that is accepted",
    "stricter": "can only refuse more",
    "sound": "accept more, all of it true",
}
"""What is argued of a mutant that no test kills."""


def report(path: Path, every: list[Mutant], known: dict[str, dict[str, Any]]) -> None:
    """Writes the page: the score by module, and each survivor with what is said of it in `argued.toml`."""
    data = tomllib.loads((Path(__file__).parent / "argued.toml").read_text(encoding="utf-8"))
    said: dict[str, dict[str, str]] = {key: item for item in data.get("survivor", []) for key in _keys(item)}
    if unknown := set(said) - {m.key for m in every}:
        raise SystemExit(f"argued.toml speaks of no mutant: {sorted(unknown)[0]}")
    run = [m for m in every if m.key in known and known[m.key]["outcome"] != "not applicable"]
    outside = sum(m.key in known and known[m.key]["outcome"] == "not applicable" for m in every)
    killed = {m.key for m in run if str(known[m.key]["outcome"]).startswith("killed")}
    left = sorted((m for m in run if m.key not in killed), key=lambda m: (m.module, m.line))
    kinds = {m.key: said[m.key]["kind"] if m.key in said else "stricter" if m.only_refuses() else "" for m in left}
    counts = Counter(kinds.values())
    conditions = [m for m in run if m.condition]
    open_conditions = sum(m.condition and not kinds[m.key] for m in left)
    accepting = len(run) - counts["same"] - counts["stricter"]
    lines = [
        "# Mutants of the kernel",
        "",
        "Is each wrong change of the kernel noticed by a test? `python -m tests.mutants` makes small wrong changes of",
        "`catdiag/kernel/`, one at a time (`tests/mutants/operators.py` lists the kinds), and runs the tests of the",
        "kernel and of the stored proofs on each: those that execute the changed lines, until one fails. This page is",
        "made by `python -m tests.mutants --report docs/results/mutants.md`.",
        "",
        f"There are {len(every):,} mutants, {sum(m.condition for m in every):,} of which change a condition or leave a",
        f"refusal out. **{len(run):,} were run**, {len(conditions):,} of them of conditions and refusals; {outside}",
        f"change what the command does not reach, such as the fields of a class; {len(every) - len(run) - outside:,}",
        "were not run. Those of conditions and refusals were run first, the others chosen at random.",
        "",
        f"**{len(killed):,} of the {len(run):,} were killed** ({_percent(len(killed), len(run))}),",
        f"{len(left)} were not:",
        "",
        *(f"- {counts[kind]} {text};" for kind, text in KINDS.items()),
        f"- {counts['']} are open, {open_conditions} of these of conditions and refusals.",
        "",
        "What is said of the first three is below, for a reader to check, or follows from the form of the change: a",
        "condition on which an error is raised holds more often, or a judgement says yes less often. Without the first",
        f"two, which can lead to no wrong theorem, **{_percent(len(killed), accepting)} were killed**"
        f" ({len(killed):,} of {accepting:,}).",
        "",
        "| module | mutants | run | killed | argued | open |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for module in sorted({m.module for m in every}):
        mine = [m for m in run if m.module == module]
        rest = [m for m in left if m.module == module]
        shown = (sum(m.module == module for m in every), len(mine), len(mine) - len(rest),
                 sum(bool(kinds[m.key]) for m in rest), sum(not kinds[m.key] for m in rest))  # fmt: skip
        lines.append(f"| {module} | " + " | ".join(map(str, shown)) + " |")
    titles = {"": "Open", "sound": "Accept more", "stricter": "Refuse more", "same": "Nothing changes"}
    for kind, title in titles.items():
        lines += ["", f"## {title}", ""]
        for m in left:
            if kinds[m.key] != kind:
                continue
            record = known[m.key]
            ran = f"{record['ran']} of {record['tests']} tests ran" if record["tests"] else "no test executes the line"
            what = m.what.replace("`", "").replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")
            because = said[m.key]["because"] if m.key in said else "By its form." if kind else ""
            lines.append(f"- {m.module}, {m.function or 'outside'}: {what} ({ran}). {because}".rstrip())
        if kind not in kinds.values():
            lines.append("None.")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _keys(item: dict[str, Any]) -> list[str]:
    """The mutants that a survivor of `argued.toml` speaks of: one, or several for one reason."""
    if item["kind"] not in KINDS:
        raise SystemExit(f"argued.toml has the kind {item['kind']!r}: expected one of {', '.join(KINDS)}")
    return [item["mutant"]] if "mutant" in item else list(item["mutants"])


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.1f} %"


if __name__ == "__main__":
    sys.exit(main())
