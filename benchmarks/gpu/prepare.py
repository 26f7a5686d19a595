"""Derives every case of the list where the solvers are, and writes what the GPU side needs: `cases.jsonl`.

    python -m benchmarks.gpu.prepare FOLDER [--list programs] [--only REGEX] [--chip H200] [--proposals 3]

Each line is a case: its sizes, the textbook form as text, operations and bytes by formula, and the generated kernels as
text, each with tiles, warps and stages and what the formula says its loads are. A case that could not be derived or
written says why, and is run without a kernel.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.gpu.cases import Declared, declared  # noqa: E402
from benchmarks.gpu.further_programs import further_programs  # noqa: E402
from benchmarks.gpu.fused_programs import fused_programs  # noqa: E402
from benchmarks.gpu.programs import programs  # noqa: E402
from catdiag.measure.bench import raised, reason  # noqa: E402
from catdiag.measure.bench_case import BenchCase, case_of  # noqa: E402
from catdiag.measure.bench_kernels import kernels_of, planned, proposed  # noqa: E402
from catdiag.util.files import write_whole  # noqa: E402

FILE = "cases.jsonl"
LISTS = {
    "operators": declared,
    "programs": programs,
    "further_programs": further_programs,
    "fused_programs": fused_programs,
}


class Prepared:
    """Derivations that several cases share; with peers, or kernels alone."""

    def __init__(self, chip: str, proposals: int, peers: bool = True) -> None:
        self.chip, self.proposals, self.peers = chip, proposals, peers
        self.known: dict[Any, Any] = {}

    def case(self, item: Declared) -> BenchCase:
        """The case of a declaration, with its kernels, or with the reason why it has none."""
        diagram = item.build()
        derivation, kernels, refused = None, [], ""
        known = {**item.sizes, **{n: v for n, v in item.scalars.items() if isinstance(v, int)}}
        try:
            begun = self._derived(item) if item.steps else diagram
            if any(step in ("stream", "group") for step, _ in item.steps):
                derivation = begun
                kernels = kernels_of(derivation, self.chip, known, item.dtype, most=self.proposals)
            else:
                found = planned(begun, self.chip, known, item.dtype, several=item.several)
                derivation = found[0].derivation
                kernels = proposed(found, self.chip, known, item.dtype, most=self.proposals)
        except raised() as error:  # the case is run without a kernel, and the page says why
            refused = reason(error)
        return case_of(
            diagram,
            item.sizes,
            item.dtype,
            scalars=item.scalars,
            draws=item.draws,
            name=item.name,
            group=item.group,
            derivation=derivation,
            kernels=kernels,
            peers=(*item.peers, *(["torch.compile"] if item.compiled else [])) if self.peers else (),
            refused=refused,
        )

    def _derived(self, item: Declared) -> Any:
        if item.key not in self.known:
            made: Any = item.build()
            for step, axis in item.steps:
                made = getattr(made, step)(axis)
            self.known[item.key] = made
        return self.known[item.key]


def prepare(
    folder: Path, items: Sequence[Declared], chip: str = "H200", proposals: int = 3, peers: bool = True
) -> list[BenchCase]:
    """Writes `cases.jsonl`, and says of each case what it has."""
    work, cases = Prepared(chip, proposals, peers), []
    folder.mkdir(parents=True, exist_ok=True)
    for item in items:
        start = time.perf_counter()
        case = work.case(item)
        cases.append(case)
        said = "; ".join(k.about for k in case.kernels) or f"no kernel: {case.refused}"
        print(f"{time.perf_counter() - start:6.1f} s  {case.name}: {said}", flush=True)
        lines = [json.dumps(c.as_dict(), ensure_ascii=False) for c in cases]
        write_whole(folder / FILE, "\n".join(lines) + "\n")
    return cases


def read(folder: Path) -> list[BenchCase]:
    """The cases of a folder."""
    lines = (folder / FILE).read_text(encoding="utf-8").splitlines()
    found: list[Mapping[str, Any]] = [json.loads(line) for line in lines if line.strip()]
    return [BenchCase.of(data) for data in found]


def main() -> None:
    """Prepares the cases that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="a regular expression that the name of a case matches somewhere")
    parser.add_argument("--chip", default="H200")
    parser.add_argument("--proposals", type=int, default=3, help="tiles to be tried for each case")
    parser.add_argument("--list", choices=tuple(LISTS), default="operators", help="which list")
    parser.add_argument("--without-peers", action="store_true", help="kernels alone, to compare with predictions")
    options = parser.parse_args()
    items = LISTS[options.list]()
    items = [item for item in items if re.search(options.only, f"{item.group}: {item.name}")]
    prepare(options.folder, items, options.chip, options.proposals, not options.without_peers)


if __name__ == "__main__":
    main()
