"""What is claimed to be fast, against the peers, in one run.

    python benchmarks/run.py peers      building, comparing, rewriting and evaluating, beside other libraries
    python benchmarks/run.py shapes     this library alone: other shapes of diagrams
    python benchmarks/run.py proofs     the times of proofs and checks, z3 beside cvc5, closed forms beside sympy
    python benchmarks/run.py page       docs/results/benchmarks.md and its plot, from the results of the three

Needs `pip install discopy open-hypergraphs chyp pyzx` beside the library with its extras `check` and `plot`. Results
are kept in a file, so that the parts may be run one after the other; the page says when each was measured.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.growth import LIBRARIES, SIZES, exponent  # noqa: E402

WORKER = Path(__file__).resolve().parent / "worker.py"

Series = dict[str, float | str]


def measure(*arguments: object) -> float | str:
    """Seconds of a task, or in words why there are none."""
    done = subprocess.run(
        [sys.executable, str(WORKER), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode < 0:
        return f"over {arguments[-1]} s"
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1].split(":")[0]
        return {"MemoryError": "over 6 GB", "RecursionError": "recursion limit"}.get(last, last)
    return float(json.loads(done.stdout)["seconds"]) or "below the clock's step"


def grown(series: Series, n: int, before: int) -> float | None:
    """What the next size will take, as it has grown so far; None where that cannot be said."""
    points = [(int(k), t) for k, t in series.items() if isinstance(t, float) and t > 0 and int(k) < n]
    if len(points) < 2 or points[-1][0] != before:
        return None
    # Linear at the least: small sizes have costs of their own.
    steep = max(1.0, exponent(points[-2:]))
    return points[-1][1] * (n / points[-1][0]) ** steep


def peers(results: dict[str, Any], most: float, sizes: Sequence[int], libraries: Sequence[str]) -> None:
    """Every way at 100 and 1,000 boxes; further where the next size is not foreseen to take more than `most`."""
    found: dict[str, Series] = results.setdefault("peers", {})
    for library in libraries:
        module = importlib.import_module(f"benchmarks.peers.{library}")
        for (task, shape), ways in module.WAYS.items():
            for way in ways:
                series = found.setdefault(f"{library}|{task}|{shape}|{way}", {})
                before = 0
                for n in sizes:
                    if str(n) not in series:
                        foreseen = grown(series, n, before)
                        if foreseen is not None and foreseen > most:
                            series[str(n)] = f"not run, foreseen {round(foreseen):,} s"
                            break
                        series[str(n)] = measure(library, task, shape, way, n, int(most))
                        print(library, task, shape, way, n, series[str(n)], flush=True)
                        keep(results)
                    if not isinstance(series[str(n)], float) and not str(series[str(n)]).startswith("below"):
                        break
                    before = n


_FILES: list[Path] = []


def keep(results: dict[str, Any]) -> None:
    """Writes down what is known so far."""
    for path in _FILES:
        path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def versions() -> dict[str, str]:
    """Versions of what is measured, and the machine."""
    from importlib.metadata import PackageNotFoundError, version

    names = ("catdiag", "discopy", "open-hypergraphs", "chyp", "pyzx", "z3-solver", "cvc5", "sympy", "numpy")
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "from source" if name == "catdiag" else "none"
    found["python"] = sys.version.split()[0]
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    found["cpu"] = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")
    return found


def main() -> None:
    """Runs the parts that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="+", choices=["peers", "shapes", "proofs", "page"])
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results.json")
    parser.add_argument("--most", type=float, default=60.0, help="seconds that a size may be foreseen to take")
    parser.add_argument("--sizes", type=lambda text: [int(n) for n in text.split(",")], default=list(SIZES))
    parser.add_argument("--library", action="append", choices=LIBRARIES, help="only this library, or these")
    parser.add_argument("--every", type=int, default=1, help="only each so-many-th theorem")
    parser.add_argument("--larger", action="store_true", help="shapes of a million boxes too")
    options = parser.parse_args()
    results = json.loads(options.results.read_text(encoding="utf-8")) if options.results.exists() else {}
    _FILES.append(options.results)
    for part in options.part:
        if part == "page":
            from benchmarks.page import write

            write(results, ROOT / "docs" / "results")
            continue
        results.setdefault("measured", {})[part] = time.strftime("%Y-%m-%d")
        results["versions"] = results.get("versions", {}) | versions()
        results.setdefault("most", {})[part] = options.most
        if part == "peers":
            peers(results, options.most, options.sizes, options.library or LIBRARIES)
        elif part == "shapes":
            from benchmarks.shapes import measured

            results["shapes"] = measured(options.larger)
        else:
            from benchmarks.proofs import measured as proofs

            proofs(options.every, lambda found: (results.update(proofs=found), keep(results))[1])
        keep(results)


if __name__ == "__main__":
    main()
