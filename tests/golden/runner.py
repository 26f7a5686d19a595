"""Making outputs, in several processes, and comparing, accepting or writing them."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatchcase
from multiprocessing import get_context
from pathlib import Path

from tests.golden.cases import STORE, Unit, is_whole, units
from tests.golden.store import Difference, Place, Store, told

ACCEPT = "python -m tests.golden --accept"


def chosen(
    patterns: Sequence[str], suite: bool = False, of: Iterable[Unit] | None = None
) -> list[tuple[Unit, set[Place]]]:
    """The units to make, each with its outputs that a pattern names: `KIND` or `KIND/NAME`; all without patterns."""
    found = []
    for unit in units() if of is None else of:
        places = {p for p in unit.places if not patterns or any(_named(p, pattern) for pattern in patterns)}
        if places and not unit.missing and (unit.quick or not suite):
            found.append((unit, places))
    return found


def _named(place: Place, pattern: str) -> bool:
    kind, slash, name = pattern.partition("/")
    return fnmatchcase(place[0], kind) and (not slash or fnmatchcase(place[1], name))


def _texts(work: tuple[Unit, set[Place]]) -> dict[Place, str]:
    return work[0].texts(work[1])


def texts_of(work: Sequence[tuple[Unit, set[Place]]], workers: int) -> Iterator[dict[Place, str]]:
    """The texts of each unit, as they are made."""
    if workers == 1:
        yield from map(_texts, work)
        return
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        yield from pool.map(_texts, work)


def gone(store: Store, patterns: Sequence[str]) -> set[Place]:
    """What is stored and not made any more."""
    known = {place for unit in units() for place in unit.places}
    return {p for p in store.places() - known if not patterns or any(_named(p, pattern) for pattern in patterns)}


def report(differences: Sequence[Difference], folder: Path) -> list[str]:
    """Differences in words; new texts of which only digests are stored are written to the folder."""
    lines = list(told(differences))
    unseen = [d for d in differences if d.how == "changed" and d.accepted is None]
    for difference in unseen:
        dump(folder, {difference.place: difference.text})
    if unseen:
        lines.append(f"new texts, of which only digests were stored: {folder}")
        lines.append(
            "to see what changed: python -m tests.golden --dump OLD at the earlier commit, then diff -r OLD NEW"
        )
    if differences:
        kinds = sorted({d.place[0] for d in differences})
        lines.append(f"if this is meant: {ACCEPT} {' '.join(kinds)}")
    return lines


def dump(folder: Path, texts: dict[Place, str]) -> None:
    """Texts as files, `KIND/NAME.txt`."""
    for (kind, name), text in texts.items():
        file = folder / kind / f"{name}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def main(arguments: Sequence[str], description: str | None = None, store: Store = STORE) -> int:
    """Runs the command; gives its exit status."""
    parser = argparse.ArgumentParser(
        "python -m tests.golden", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("patterns", nargs="*", metavar="KIND[/NAME]", help="what to make, * and ? as in a shell [all]")
    parser.add_argument("--accept", action="store_true", help="accept what is put out now")
    parser.add_argument("--dump", type=Path, metavar="DIR", help="write the texts to this folder")
    parser.add_argument("--suite", action="store_true", help="only what the test suite looks at")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes [one a processor]")
    asked = parser.parse_args(arguments)
    work = chosen(asked.patterns, asked.suite)
    if not work and not gone(store, asked.patterns):
        print(f"nothing is called {' or '.join(asked.patterns)}", file=sys.stderr)
        return 2
    passed = sorted(unit.name for unit in units() if unit.missing)
    if passed:
        print(f"passed over, for want of packages: {', '.join(passed)}", file=sys.stderr)
    differences = [Difference(place, "gone") for place in gone(store, asked.patterns)]
    for texts in texts_of(work, asked.workers):
        if asked.dump is not None:
            dump(asked.dump, texts)
        if asked.accept:
            store.accept(texts, filter(is_whole, texts))
        elif asked.dump is None:
            differences += filter(None, (store.difference(place, text) for place, text in texts.items()))
    if asked.accept:
        store.accept({}, (), [d.place for d in differences])
    if asked.accept or asked.dump is not None:
        return 0
    print("\n".join(report(differences, Path(tempfile.mkdtemp(prefix="golden-"))) if differences else ["as accepted"]))
    return int(bool(differences))
