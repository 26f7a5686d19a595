"""Which refactorings of PyTorch functions are proved, and which near misses are refuted.

    python -m benchmarks.refactorings [PAGE [NAME…]]

writes docs/results/refactorings.md; with names, or parts of names, only these are compared, and the page keeps its
other rows. Needs `pip install 'catdiag[torch]' einops`; all take half an hour.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.refactorings.catalog import ALL
from benchmarks.refactorings.pairs import Function, Refactoring
from catdiag.prover import Interrupted, Refuted, Undecided, prove
from catdiag.testing.module_pairs import ModulePair, prove_modules
from catdiag.util.errors import CatdiagError

PAGE = Path("docs/results/refactorings.md")
ALL_SIZES, EXAMPLE, DIFFERENT, OPEN = "proved", "at the example's sizes", "refuted", "undecided"
EQUAL, SOME = "at equal lengths", "at some sizes"
_LIMIT = 60
"""Seconds for a pair."""


def verdict(pair: Refactoring, other: Function) -> str:
    """What is said of a function and another one: proved for all sizes, for those that are equal where the example's
    are, at those of the example, refuted by numbers, or undecided."""
    try:
        imported = ModulePair.imported(pair.before, other, pair.example)
        theorem, notes = prove_modules(imported, partial(_prove, limit=_LIMIT))
    except Refuted:
        return DIFFERENT
    except (Undecided, Interrupted, CatdiagError):
        return OPEN
    if theorem.conditional:
        return theorem.verdict
    if any("the sizes of the example only" in note for note in notes):
        return EXAMPLE
    if any("sizes of the example that numbers are made of" in note for note in notes):
        return SOME
    return EQUAL if any("equal in the example are equal" in note for note in notes) else ALL_SIZES


def _prove(first: object, second: object, assume: object, limit: float) -> object:
    return prove(first, second, assume, limit)  # type: ignore[arg-type]


def row(name: str, pair: Refactoring) -> str:
    """A row of the page, with seconds on this machine."""
    began = time.process_time()
    found = [verdict(pair, other) for other in (pair.after, pair.near_miss)]
    made = f"| {name} | {found[0]} | {found[1]} | {time.process_time() - began:.1f} |"
    print(made, file=sys.stderr, flush=True)
    return made


def page(known: Mapping[str, str], wanted: Sequence[str]) -> str:
    """The page, of rows that are known, and of pairs that are compared: those whose names have a wanted part, and those
    without a row; all, if nothing is wanted."""
    rows, counts = [], (Counter[str](), Counter[str]())
    for name, pair in ALL.items():
        again = not wanted or name not in known or any(part in name for part in wanted)
        rows.append(row(name, pair) if again else known[name])
        for count, one in zip(counts, rows[-1].split(" | ")[1:3], strict=True):
            count[one] += 1
    said = [", ".join(f"{n} {one}" for one, n in count.most_common()) for count in counts]
    return "\n".join([
        "# Refactorings of PyTorch functions",
        "",
        "Made by `python -m benchmarks.refactorings`; the pairs are in `benchmarks/refactorings/`. Each is a function,",
        "one that is equal and one that a reader could take for equal, compared as in",
        "[Import from PyTorch](../how-to/import_from_pytorch.md). *Proved* is for all sizes and all real numbers,",
        "*at equal lengths* for all sizes of which those are equal that are equal in the example, *at some sizes* for",
        "all but those that numbers are made of, *refuted* by numbers on which both differ. Seconds are of this",
        "process, for both.",
        "",
        f"{len(ALL)} equal pairs: {said[0]}. {len(ALL)} near misses: {said[1]}.",
        "",
        "| refactoring | the equal one | the near miss | seconds |",
        "|---|---|---|---|",
        *rows,
        "",
    ])  # fmt: skip


def main() -> None:
    """Writes the page."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    lines = path.read_text().splitlines() if path.exists() else []
    known = {line.split(" | ")[0].removeprefix("| "): line for line in lines if line.startswith("| ")}
    path.write_text(page(known, sys.argv[2:]))


if __name__ == "__main__":
    main()
