"""The score of the suites of rewrites: proved, refuted, undecided and wrong, with times, by theme.

    python benchmarks/suites.py [THEME ...] [--open]

`--open` lists what is not decided as it should be, with the goal at which the search stopped. Exit status 1 if an
answer is wrong: a false rewrite proved, or a true one refuted.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "suites"))

from rewrites import LESS, SUITES, Rewrite, rewrites, verdict

from catdiag.solvers.z3 import Z3


def score(suites: list[str], show: bool) -> int:
    """Prints the table; the number of wrong answers."""
    print(f"{'theme':<14}{'true':>6}{'proved':>8}{'false':>7}{'refuted':>9}{'refused':>9}{'less':>6}{'wrong':>7}"
          f"{'median':>10}{'worst':>9}")  # fmt: skip
    every: list[tuple[Rewrite, str, float, str]] = []
    with Z3() as ask:
        for suite in suites:
            rows = [(r, *verdict(r, ask)) for r in rewrites([suite])]
            every += rows
            _row(suite, rows)
    _row("all", every)
    for r, said, seconds, detail in every:
        if said != r.expected and (show or _wrong(r, said)):
            print(f"{r.suite}: {r.name}: {r.expected} expected, {said} in {seconds * 1e3:.0f} ms\n    {detail[:300]}")
    return sum(_wrong(r, said) for r, said, _, _ in every)


def _wrong(rewrite: Rewrite, said: str) -> bool:
    return said != rewrite.expected and said not in (*LESS.get(rewrite.expected, ()), "interrupted")


def _row(name: str, rows: list[tuple[Rewrite, str, float, str]]) -> None:
    true, false = [r for r in rows if r[0].true], [r for r in rows if not r[0].true]
    times = [seconds for _, _, seconds, _ in rows]
    right = [said == r.expected for r, said, _, _ in rows]
    wrong = sum(_wrong(r, said) for r, said, _, _ in rows)
    counts = [len(true), sum(said == r.expected for r, said, _, _ in true), len(false),
              sum(said == "refuted" for _, said, _, _ in false), sum(said == "refused" for _, said, _, _ in false),
              len(rows) - sum(right) - wrong, wrong]  # fmt: skip
    print(f"{name:<14}" + "".join(f"{c:>{w}}" for c, w in zip(counts, (6, 8, 7, 9, 9, 6, 7), strict=True))
          + f"{statistics.median(times) * 1e3:>7.1f} ms{max(times):>7.2f} s")  # fmt: skip


if __name__ == "__main__":
    chosen = [a for a in sys.argv[1:] if not a.startswith("-")]
    sys.exit(1 if score(chosen or list(SUITES), "--open" in sys.argv) else 0)
