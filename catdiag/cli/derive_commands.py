"""The commands that derive and prove: options are parsed, the work is done, results are printed and written."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from catdiag.cli.exit_status import DONE, REFUTED, UNDECIDED, VACUOUS, UsageError, require_limit
from catdiag.cli.operator_loading import imported, operator
from catdiag.cli.option_values import (
    check_sizes,
    check_stages,
    check_writable,
    integers_of,
    known_dtype,
    parse_cuts,
    parse_products,
    parse_sizes,
)
from catdiag.cli.standard_streams import working
from catdiag.frontend.signature import axis_names
from catdiag.util.files import write_whole

if TYPE_CHECKING:
    from catdiag.category.diagram import Diagram
    from catdiag.cli.command_options import DeriveOptions
    from catdiag.cli.derive_report_data import DeriveRequest, DeriveTarget
    from catdiag.prover.api import Theorem
    from catdiag.solvers.z3 import Z3
    from catdiag.testing.module_pairs import ModulePair


def run_derive(options: DeriveOptions) -> int:
    """Runs `catdiag derive` and returns the exit status. Raises CatdiagError for what cannot be derived, planned or
    written, and for what was not proved: then only the report is printed, and written as JSON."""
    from catdiag.cli.derive_report_data import derive
    from catdiag.cli.derive_sources import Files, launched, texts
    from catdiag.solvers.z3 import borrowed

    written_out = None if options.pseudocode in (None, "-") else Path(str(options.pseudocode))
    files = Files(written_out, options.triton, options.numpy)
    check_writable(options.json, options.certificate, options.html, *files.paths)
    request = _request(options)
    sizes = parse_sizes(options.size)
    with borrowed() as ask:
        ask.start()
        diagram, example_sizes = _subject(options)
        if options.grad is not None:
            diagram = _gradient(diagram, ask, options.grad)
        if options.on is not None:
            sizes = {**example_sizes, **sizes}
        target = _target(options, diagram, sizes)
        with working("deriving") as says:
            target = None if target is None else replace(target, progress=says)
            report = derive(diagram, ask, target, request)
        page = None
        if options.html is not None and report.proved:
            from catdiag.cli.derive_html import html_of

            page = html_of(report, target, options.times)
        written, said = (texts(report, files), launched(report, files)) if report.proved else ([], [])
    _print(report.lines())
    if options.json is not None:
        _write(options.json, json.dumps(report.as_dict(), ensure_ascii=False, indent=1) + "\n")
    theorem = report.theorem
    if options.certificate is not None:
        _save(theorem, options.certificate)
    if options.html is not None and page is not None:
        _write(options.html, page)
    for path, text in written:
        _write(path, text)
    print("".join(f"{line}\n" for line in said), end="")
    if report.misfit is not None:
        raise report.misfit
    return VACUOUS if theorem.vacuous else DONE


def _subject(options: DeriveOptions) -> tuple[Diagram, Mapping[str, int]]:
    """What is derived; of a PyTorch module, the sizes of its example, too, and its notes are printed."""
    if options.example is None:
        return operator(options.op or ""), {}
    found = imported(options.op or "", options.example)
    print("".join(f"note: {note}\n" for note in found.example.notes), end="")
    return found.diagram, found.example.sizes


def _gradient(diagram: Diagram, ask: Z3, inputs: str) -> Diagram:
    """The gradient by the named inputs, or by all; where it is the derivative is printed."""
    from catdiag.rewrite.differentiate.corners_of_programs import differentiability
    from catdiag.rewrite.differentiate.gradient import gradient

    wrt = None if inputs == "any" else inputs
    print(differentiability(diagram, ask, wrt=wrt))
    return gradient(diagram, ask, wrt=wrt).diagram


def _request(options: DeriveOptions) -> DeriveRequest:
    """What is to be derived. Raises UsageError for options that do not go together."""
    from catdiag.cli.derive_report_data import DeriveRequest

    if options.triton is not None and options.on is None:
        raise UsageError("--triton writes a kernel with the tiles of a plan: give the chip, as in --on h200")
    if options.times and options.html is None:
        raise UsageError("--times is about the page: give its file, as in --html report.html")
    if options.products is not None and options.on is None:
        raise UsageError("--products is for choosing kernels: give the chip, as in --on h200")
    if options.deterministic and options.on is None:
        raise UsageError("--deterministic is for choosing kernels: give the chip, as in --on h200")
    check_stages(options.stages)
    if options.passes < 1:
        raise UsageError(f"passes is {options.passes}: expected a whole number of loops over the axis, 1 or more")
    most = parse_cuts(options.cuts)
    cut = most != 0 and options.cuts != "any"
    if cut and options.on is None:
        raise UsageError("--cuts is for choosing kernels: give the chip, as in --on h100")
    if cut or options.products is not None:
        single = options.stream is not None or options.group is not None or options.split or options.skip
        if single or options.passes != 1:
            raise UsageError(
                f"--{'cuts' if cut else 'products'} chooses the loops and groups of each kernel: leave out the options "
                "for a single kernel"
            )
    over = options.distribute
    return DeriveRequest(
        options.stream,
        None if options.group is None else axis_names(options.group),
        options.passes,
        options.split,
        options.skip,
        None if over in (None, "none") else () if over == "any" else axis_names(over or ""),
        most,
        options.cuts == "some",
        options.theorems,
        options.pseudocode == "-",
        over != "none",
    )


def _target(options: DeriveOptions, diagram: Diagram, sizes: dict[str, int]) -> DeriveTarget | None:
    """What a plan is for, if a chip is given."""
    from catdiag.cli.derive_report_data import DeriveTarget

    if options.on is None:
        if sizes or options.dtype is not None or options.stages is not None:
            given = "--size" if sizes else "--dtype" if options.dtype is not None else "--stages"
            raise UsageError(f"{given} is for choosing tiles: give the chip, as in --on h100")
        return None
    from catdiag.chip import hardware

    chip = hardware.get(options.on)
    scalars = {n: sizes.pop(n) for n in integers_of(diagram) if n in sizes}
    lengths = check_sizes(diagram, sizes)
    products = parse_products(options.products or "triton")
    dtype = known_dtype(options.dtype or "bf16")
    return DeriveTarget(chip, lengths, dtype, options.stages, scalars, products, options.deterministic)


def run_prove(
    pair: tuple[Diagram, Diagram] | ModulePair,
    assume: Sequence[str],
    certificate: Path | None,
    counterexample: Path | None,
    limit: float | None,
) -> int:
    """Runs `catdiag prove` on two diagrams or modules: prints the verdict, for modules what it is about, too, and
    returns its exit status. Raises CatdiagError for wrong use."""
    from catdiag.solvers.z3 import borrowed

    check_writable(certificate, counterexample)
    require_limit(limit)
    with borrowed() as ask:
        ask.start()
        from catdiag.prover.api import Refuted, Undecided, prove_with, refutable, statement_of

        f, g = pair if isinstance(pair, tuple) else (pair.first, pair.second)
        notes: tuple[str, ...] = ()
        try:
            with working("proving"):
                if isinstance(pair, tuple):
                    theorem = prove_with(ask, f, g, assume, limit)
                else:
                    from catdiag.testing.module_pairs import prove_modules

                    theorem, notes = prove_modules(pair, partial(prove_with, ask, limit=limit), assume)
        except Refuted as error:
            if not isinstance(pair, tuple):
                print("".join(f"note: {note}\n" for note in pair.notes), end="")
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
    print("".join(f"note: {note}\n" for note in notes), end="")
    print(f"{theorem.verdict} in {theorem.seconds:.2f} s")
    print(theorem)
    if certificate is not None:
        _save(theorem, certificate)
    return VACUOUS if theorem.vacuous else DONE


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
