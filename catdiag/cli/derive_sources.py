"""The programs that `catdiag derive` writes: pseudocode with all variables, a Triton module, plain NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from catdiag.planner.plan import CALLED
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from catdiag.cli.derive_report import Report


@dataclass(frozen=True)
class Files:
    """The files to which each program is written, if any."""

    pseudocode: Path | None = None
    triton: Path | None = None
    numpy: Path | None = None

    @property
    def paths(self) -> tuple[Path | None, ...]:
        """All of them."""
        return self.pseudocode, self.triton, self.numpy


def texts(report: Report, files: Files) -> list[tuple[Path, str]]:
    """The text for each file. A kernel has the configuration that the model proposes for Triton; there is none if
    nothing fits.

    Raises CatdiagError for what cannot be written in a program of that kind, before anything is written.
    """
    found: list[tuple[Path, str]] = []
    if files.pseudocode is not None:
        found.append((files.pseudocode, pseudocode_of(report) + "\n"))
    if files.triton is not None and report.plan is not None:
        found.append((files.triton, report.plan.code("triton")))
    if files.numpy is not None:
        from catdiag.codegen.numpy_source import source

        found.append((files.numpy, source(report.derivation.diagram)))
    return found


def launched(report: Report, files: Files) -> list[str]:
    """The tiles, warps and stages with which a kernel was written: those of the plan."""
    if files.triton is None or report.plan is None:
        return []
    if all(kernel.backend in CALLED for kernel in report.plan.kernels):
        return [f"{files.triton}: calls of torch alone"]
    made = report.plan.written()
    tiles = ", ".join(f"{name} {size}" for name, size in made.tiles.items()) or "none"
    warps, stages = (str(n) if isinstance(n, int) else " and ".join(map(str, n)) for n in (made.warps, made.stages))
    return [f"{files.triton}: tiles: {tiles}; {warps} warps, {stages} stages"]


def pseudocode_of(report: Report) -> str:
    """The loops with all variables, and with their sizes if there is a plan; without variables if they are not
    counted."""
    from catdiag.draw.listing.program_text import expanded

    plan = report.plan
    try:
        if plan is None or plan.diagram is not report.derivation.diagram:
            return expanded(report.derivation)
        longest = max(plan.kernels, key=lambda kernel: kernel.time_s)
        return expanded(report.derivation, sizes=plan.sizes, tiles=plan.tiles, dtype=plan.dtype, stages=longest.stages)
    except CatdiagError as error:
        from catdiag.codegen.pseudocode import pseudocode

        return f"{pseudocode(report.derivation.diagram)}\n\nthe sizes of variables are not counted: {error.message}"
