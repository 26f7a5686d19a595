"""How often `assert_implements` finds each mistake, and whom it accuses: `python tests/testing/measure.py [SEEDS]`.

Each mistake of the kernels in `zoo` at so many seeds (20), in blocks of 8 that are told, and of 16 to 128 that are not;
each right kernel at five times as many, in four types. Prints what is not found every time, what is accused, and sums.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from zoo import HIDDEN, HIDDEN_MISTAKES, SUBJECTS

from catdiag.testing.implements import Mismatch, assert_implements
from catdiag.testing.smallest import Search

Job = tuple[str, str, str, int, str, int]


def jobs(seeds: int) -> Iterator[Job]:
    for name, (_, _, more) in HIDDEN.items():
        for mistake in ("", *HIDDEN_MISTAKES, *more):
            for block in (16, 32, 64, 128):
                for dtype in ("float32", "float16"):
                    yield from (("hidden", name, mistake, block, dtype, seed) for seed in range(seeds))
    for name, of in SUBJECTS.items():
        for mistake in of.mistakes:
            yield from (("told", name, mistake, 8, of.dtype(mistake), seed) for seed in range(seeds))
        for dtype in ("float16", "bfloat16", "float32", "float64"):
            yield from (("told", name, "", 8, dtype, seed) for seed in range(5 * seeds))


def run(job: Job) -> tuple[Job, str]:
    """The report of a job, empty where nothing was found. Nothing is made smaller: that is not measured here."""
    where, name, mistake, block, dtype, seed = job
    warnings.simplefilter("ignore")
    Search.smallest = lambda self, sizes, arrays, failure: (sizes, arrays, failure)  # type: ignore[method-assign]
    Search.common = lambda self, sizes, arrays, failure: []  # type: ignore[method-assign]
    options: dict[str, Any] = {"seed": seed}
    if where == "hidden":
        function, diagram, _ = HIDDEN[name]

        def kernel(*arrays: Any) -> Any:
            return function(*arrays, mistake=mistake, block=block)
    else:
        of = SUBJECTS[name]
        kernel, diagram = of.kernel(mistake), of.diagram
        options |= {"block": of.block, **of.options}
        if dtype == "float64":
            options["accumulate"] = "float32"  # what these compute in, whatever they are given
    try:
        assert_implements(kernel, diagram, dtype, **options)
    except Mismatch as error:
        return job, str(error)
    return job, ""


def main(seeds: int) -> None:
    found: dict[tuple[Any, ...], list[str]] = {}
    with ProcessPoolExecutor(os.cpu_count()) as executor:
        for job, report in executor.map(run, jobs(seeds), chunksize=8):
            found.setdefault(job[:-1], []).append(report)
    sums: dict[str, list[int]] = {}
    for key, reports in found.items():
        hits, right = sum(map(bool, reports)), not key[2]
        line = sums.setdefault(f"{key[0]}: {'right kernels accused' if right else 'mistakes found'}", [0, 0])
        line[0], line[1] = line[0] + hits, line[1] + len(reports)
        if hits != (0 if right else len(reports)):
            print(*key, f"{hits} of {len(reports)}", *(r for r in reports[:1] if right))
    for text, (hits, whole) in sums.items():
        print(f"{text} {hits} of {whole}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
