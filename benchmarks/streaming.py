"""The time that it takes to derive what the library holds: `python benchmarks/streaming.py [NAME …]`.

Every axis that an operator reduces and its results lack is streamed, and what the result is weaved over is grouped,
with all proofs. Prints the processor time of each, solvers included, the longest first.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence

import catdiag as cd
from catdiag import library
from catdiag.planner.derivation_search import reduced_axes
from catdiag.rewrite.group import groupable
from catdiag.solvers.z3 import Z3
from catdiag.util.errors import CatdiagError, NotStreamable


def spent() -> float:
    """Seconds of processor time, of this process and of those that it started and that ended."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usage)


def derived(name: str, axis: str) -> str:
    """How the derivation of an operator ends."""
    with Z3() as ask:
        try:
            streamed = cd.Program(library.get(name), ask).stream(axis)
        except NotStreamable:
            return "refused"
        try:
            axes = groupable(streamed.diagram)
            return f"stream {axis}" + (f", group {' '.join(streamed.group(axes).groups)}" if axes else "")
        except CatdiagError:
            return f"stream {axis}, groups refused"


def main(chosen: Sequence[str]) -> None:
    """Derives the named operators, or all."""
    found = []
    for name in chosen or library.names():
        for axis in reduced_axes(library.get(name).diagram):
            start = spent()
            how = derived(name, axis)
            found.append((spent() - start, name, how))
    for seconds, name, how in sorted(found, reverse=True):
        print(f"{seconds:6.2f} s  {name:34} {how}")
    print(f"{len(found)} derivations, {sum(how == 'refused' for *_, how in found)} refused, "
          f"{sum(s > 2 for s, *_ in found)} above 2 s")  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
