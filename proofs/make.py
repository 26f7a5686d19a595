"""Makes the certificates of this folder anew: `python proofs/make.py`, or only some, `python proofs/make.py NAME …`.

Each other Python file here states one theorem: `left` and `right`, diagrams of one type or a diagram and what was
derived from it, and where sizes are restricted `ASSUME`. Its certificate is beside it, in the `.json` file of its name.
`catdiag check proofs/` checks them all.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import catdiag as cd
from catdiag.util.files import write_whole

HERE = Path(__file__).resolve().parent
LIMIT = 60.0
"""Seconds that a proof may take."""


def names() -> list[str]:
    """The theorems that are stated here."""
    return sorted(file.stem for file in HERE.glob("*.py") if file.name != Path(__file__).name)


def said(name: str) -> dict[str, Any]:
    """What a file defines: `left`, `right` and perhaps `ASSUME`."""
    return runpy.run_path(str(HERE / f"{name}.py"))


def theorem(name: str) -> cd.Theorem:
    """The theorem of a file, proved anew. Raises what `cd.prove` raises."""
    stated = said(name)
    left, right = stated["left"], stated["right"]
    if not right.steps:
        return cd.prove(left, right, stated.get("ASSUME", ()), limit=LIMIT)
    assert right.source == left, f"{name}: the derivation is not one of the left side"
    return right.theorem


def make(name: str) -> str:
    """Writes the certificate of a file; what is wrong with it as text, or nothing."""
    try:
        found = theorem(name)
    except cd.errors.CatdiagError as error:
        return f"{name}: {error}"
    if found.conditional:
        return f"{name}: it is conditional on {'; '.join(found.conditions)}"
    write_whole(HERE / f"{name}.json", found.text())
    return ""


def main(chosen: Sequence[str]) -> int:
    """Makes the certificates of the named files, or of all; the exit status."""
    with ProcessPoolExecutor(os.cpu_count()) as executor:
        wrong = [text for text in executor.map(make, chosen or names()) if text]
    print("\n".join([*wrong, f"{len(chosen or names()) - len(wrong)} certificates were made"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
