"""The commands that derive and prove: options are parsed, the work is done, results are printed and written."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from catdiag.cli.exit_status import DONE, REFUTED, UNDECIDED, VACUOUS, NothingDerived, UsageError, require_limit
from catdiag.cli.operator_loading import operator
from catdiag.cli.option_values import check_sizes, check_writable, count_of, integers_of, parse_cuts, parse_sizes
from catdiag.frontend.signature import axis_names
from catdiag.util.files import write_whole

if TYPE_CHECKING:
    from catdiag.cli.derive_sources import Files
    from catdiag.cost.level_formulas import LevelsIO
    from catdiag.cost.traffic import IO
    from catdiag.prover.api import Theorem


# More pipeline buffers than any chip has memory for; more would overflow 64-bit integers.
_MOST_STAGES = 1_000_000


def run_derive(
    op: str,
    on: str | None,
    size: Sequence[str],
    dtype: str | None,
    stages: int | None,
    stream: str | None,
    group: str | None,
    passes: int,
    split: Sequence[str],
    skip: Sequence[str],
    theorems: bool,
    pseudocode: bool,
    json_file: Path | None,
    certificate: Path | None,
    html: Path | None = None,
    times: bool = False,
    cuts: str = "any",
    programs: Files | None = None,
    distribute: str | None = None,
) -> int:
    """Runs `catdiag derive` and returns the exit status. Raises CatdiagError for what cannot be derived, planned or
    written."""
    from catdiag.cli.derive_sources import Files, launched, texts
    from catdiag.solvers.z3 import Z3

    files = programs or Files()
    check_writable(json_file, certificate, html, *files.paths)
    if files.triton is not None and on is None:
        raise UsageError("--triton writes a kernel with the tiles of a plan: give the chip, as in --on h200")
    if times and html is None:
        raise UsageError("--times is about the page: give its file, as in --html report.html")
    _check_stages(stages)
    if passes < 1:
        raise UsageError(f"passes is {passes}: expected a whole number of loops over the axis, 1 or more")
    most = parse_cuts(cuts)
    if most != 0 and cuts != "any":
        if on is None:
            raise UsageError("--cuts is for choosing kernels: give the chip, as in --on h100")
        if stream is not None or group is not None or split or skip or passes != 1:
            raise UsageError(
                "--cuts chooses the loops and groups of each kernel: leave out the options for a single kernel"
            )
    sizes = parse_sizes(size)
    with Z3() as ask:
        ask.start()
        diagram = operator(op)
        from catdiag.cli.derive_report_data import DeriveTarget, derive

        target = None
        if on is not None:
            from catdiag.chip import hardware

            chip = hardware.get(on)
            scalars = {n: sizes.pop(n) for n in integers_of(diagram) if n in sizes}
            lengths = check_sizes(diagram, sizes)
            target = DeriveTarget(chip, lengths, _known_dtype(dtype or "bf16"), stages, scalars)
        elif sizes or dtype is not None or stages is not None:
            given = "--size" if sizes else "--dtype" if dtype is not None else "--stages"
            raise UsageError(f"{given} is for choosing tiles: give the chip, as in --on h100")
        with _working("deriving"):
            groups = None if group is None else axis_names(group)
            report = derive(
                diagram,
                ask,
                target,
                stream,
                groups,
                pseudocode,
                passes=passes,
                split=split,
                skip=skip,
                theorems=theorems,
                cuts=most,
                several=cuts == "some",
                distribute=None if distribute is None else () if distribute == "any" else axis_names(distribute),
            )
        page = None
        if html is not None and report.derivation.steps:
            from catdiag.cli.derive_html import html_of

            page = html_of(report, target, times)
        written, said = texts(report, files), launched(report, files)
    _print(report.lines())
    if json_file is not None:
        _write(json_file, json.dumps(report.as_dict(), ensure_ascii=False, indent=1) + "\n")
    if not report.derivation.steps:
        raise NothingDerived("no axis can be streamed or grouped, so there is no theorem")
    if certificate is not None:
        _save(report.derivation.theorem, certificate)
    if html is not None and page is not None:
        _write(html, page)
    for path, text in written:
        _write(path, text)
    print("".join(f"{line}\n" for line in said), end="")
    if report.misfit is not None:
        raise report.misfit
    return VACUOUS if report.derivation.theorem.vacuous else DONE


def run_prove(
    left: str,
    right: str,
    assume: Sequence[str],
    certificate: Path | None,
    counterexample: Path | None,
    limit: float | None,
) -> int:
    """Runs `catdiag prove`: prints the verdict and returns its exit status. Raises CatdiagError for wrong use."""
    from catdiag.solvers.z3 import Z3

    check_writable(certificate, counterexample)
    require_limit(limit)
    with Z3() as ask:
        ask.start()
        f, g = operator(left), operator(right)
        from catdiag.prover.api import Refuted, Undecided, prove_with, refutable, statement_of

        try:
            with _working("proving"):
                theorem = prove_with(ask, f, g, assume, limit)
        except Refuted as error:
            print(f"refuted: {error.message}")
            if counterexample is not None:
                from catdiag.cli.counterexample_npz import npz, read
                from catdiag.prover.refute.validate import replay

                _write(counterexample, npz(error.counterexample))
                again = replay(statement_of(*(refutable(f, g) or (f, g)), assume), read(counterexample))
                print(f"replayed from {counterexample}: {again.verdict}")
            return REFUTED
        except Undecided as error:
            print(f"undecided: {error.message}")
            return UNDECIDED
    print(f"{theorem.verdict} in {theorem.seconds:.2f} s")
    print(theorem)
    if certificate is not None:
        _save(theorem, certificate)
    return VACUOUS if theorem.vacuous else DONE


def run_io(
    op: str,
    dtype: str | None,
    stages: int,
    unfused: bool,
    stream: str | None,
    group: str | None,
    on_chip: str | None = None,
    saved: str | None = None,
    levels: str | None = None,
    on: str | None = None,
    place: Sequence[str] = (),
    wave: int | None = None,
    latex: bool = False,
    as_json: bool = False,
    left_out: tuple[Sequence[str], float | None] = ((), None),
) -> None:
    """Runs `catdiag io`: the costs of an operator as it is, or streamed, grouped and cut into kernels as the options
    say.

    With levels, or those of a chip, the operator is streamed and grouped as is best unless the options say how.
    `left_out` are the axes whose masked blocks are skipped, and the mask density: the share of blocks that are run
    where data decides.
    """
    from catdiag.cli.io_report import Costs, best_of, chain_of, placement_of
    from catdiag.cost.traffic import io
    from catdiag.cost.traffic_by_level import levels_io

    _check_stages(stages)
    chosen = on_chip is not None or saved is not None
    skip, density = left_out
    if density is not None and not 0 <= density <= 1:
        raise UsageError(f"density is {density}: expected the share of blocks that are run, 0 to 1")
    count_of("wave", wave)
    if skip and stream is None:
        raise UsageError(f"--skip skips blocks of a loop: give its axis, as in --stream {skip[0]}")
    derived = stream is not None or group is not None or chosen
    if unfused and derived:
        raise UsageError("--unfused counts the operator as it is: leave out the other options")
    if latex and as_json:
        raise UsageError("--latex and --json are two formats: give one of them")
    chain = chain_of(levels, on)
    if chain is None and (place or wave is not None):
        given = "--place" if place else "--wave"
        raise UsageError(f"{given} is for several levels: give them, as in --levels HBM,SMEM,registers, or --on h100")
    element = "bf16" if dtype is None and on is not None else dtype
    if element is not None:
        _known_dtype(element)
    diagram = operator(op)
    subject, steps = diagram, tuple[str, ...]()
    bounded = diagram
    if derived or (chain is not None and not unfused):
        from catdiag.solvers.z3 import Z3

        with Z3() as ask, _working("deriving"):
            if derived:
                from catdiag.rewrite.derivation import Derivation
                from catdiag.rewrite.fuse import fuse
                from catdiag.rewrite.group import group as grouped
                from catdiag.rewrite.skip import skip as skipped
                from catdiag.rewrite.stream.streaming import stream as streamed

                derivation = Derivation.start(diagram, ask)
                if stream is not None:
                    derivation = streamed(derivation, stream)
                if group is not None:
                    derivation = grouped(derivation, group)
                for axis in skip:
                    derivation = skipped(derivation, axis)
                if chosen:
                    derivation = fuse(derivation, on_chip, saved=saved or ())
            else:
                derivation = best_of(diagram, ask)
            subject, steps, bounded = (
                derivation.diagram,
                tuple(step.name for step in derivation.steps),
                derivation.operations,
            )
    counted: IO | LevelsIO
    if chain is None:
        counted = io(subject, dtype=element, stages=stages, fused=not unfused, density=density)
    else:
        counted = levels_io(
            subject, chain, dtype=element, stages=stages, fused=not unfused, placement=placement_of(place), wave=wave
        )
    print(Costs(diagram, bounded, steps, counted, element).text(latex, as_json))


def _check_stages(stages: int | None) -> None:
    if stages is not None and stages < 1:
        raise UsageError(f"stages is {stages}: expected a whole number of buffers, 1 or more")
    if stages is not None and stages > _MOST_STAGES:
        raise UsageError(f"stages is {str(stages)[:20]}: expected at most {_MOST_STAGES} buffers")


def _known_dtype(dtype: str) -> str:
    from catdiag.schedule.kernel_analysis import width

    width(dtype)
    return dtype


def _write(path: Path, content: str | bytes) -> None:
    try:
        write_whole(path, content)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error


def _save(theorem: Theorem, path: Path) -> None:
    try:
        theorem.save(str(path))
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error


def _print(lines: Iterable[tuple[str, bool]]) -> None:
    """Prints lines on the standard output, with headings in bold on a terminal."""
    if not sys.stdout.isatty():
        for line, _ in lines:
            print(line)
        return
    from rich.console import Console

    console = Console(soft_wrap=True, highlight=False, markup=False, emoji=False)
    for line, heading in lines:
        console.print(line, style="bold" if heading else None)


@contextmanager
def _working(what: str) -> Iterator[None]:
    """Shows on a terminal that work is in progress; otherwise nothing."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{what} …"):
        yield
