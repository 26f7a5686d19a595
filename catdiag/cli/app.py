"""The commands and their options. The work is done by each command's module, which is imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from catdiag.cli.exit_status import DONE, ended, guarded

app = typer.Typer(
    name="catdiag",
    help="Array programs as diagrams: derive kernels with proofs, count their traffic, choose their tiles.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_OP = "an operator: a name of the library, or path.py:name"


def _version(request: bool) -> None:
    if request:
        from importlib.metadata import version

        typer.echo(f"catdiag {version('catdiag')}")
        raise typer.Exit(DONE)


_VERSION = typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)


@app.callback()
def _options(version: Annotated[bool, _VERSION] = False) -> None:
    """Derive kernels with proofs, count their traffic, choose their tiles."""


class _Derive(TyperCommand):
    """`derive`: its option `--pseudocode` takes a file, or nothing for the standard output."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        read = list(args)
        for place in reversed(range(len(read))):
            bare = place + 1 == len(read) or read[place + 1].startswith("-")
            if read[place] == "--pseudocode" and bare:
                read[place] = "--pseudocode=-"
        return list(super().parse_args(ctx, read))


@app.command(cls=_Derive)
def derive(
    op: Annotated[
        str | None, typer.Argument(help=_OP + "; without one, the library is listed", metavar="OP", show_default=False)
    ] = None,
    on: Annotated[str | None, typer.Option(help="The chip to choose tiles for, such as h100.")] = None,
    size: Annotated[list[str] | None, typer.Option(help="Sizes, such as q=8192,x=8192,d=128.")] = None,
    dtype: Annotated[str | None, typer.Option(help="Element type of inputs and outputs [bf16].")] = None,
    stages: Annotated[int | None, typer.Option(help="Buffers of each streamed block [the plan's choice].")] = None,
    stream: Annotated[str | None, typer.Option(help="The axis to stream [the best].")] = None,
    group: Annotated[str | None, typer.Option(help="The axes to group, such as 'r q' [all that can be].")] = None,
    passes: Annotated[int, typer.Option(help="Loops over the axis, after each other, at most.")] = 1,
    split: Annotated[list[str] | None, typer.Option(help="Run the loop over this axis in parts at once.")] = None,
    skip: Annotated[
        list[str] | None, typer.Option(help="Leave out the blocks of this axis that a mask empties.")
    ] = None,
    distribute: Annotated[
        str | None,
        typer.Option(help="Distribute over sums along these axes, such as d, or any; read the note on rounding."),
    ] = None,
    cuts: Annotated[
        str, typer.Option(help="How many cuts between kernels there may be: any, none, some (at least one), a number.")
    ] = "any",
    theorems: Annotated[bool, typer.Option("--theorems", help="Prove all claims about the loops.")] = False,
    pseudocode: Annotated[
        str | None,
        typer.Option(
            metavar="[FILE]",
            help="Print the loops in full, however long; or write them with all variables, sizes and levels to a file.",
        ),
    ] = None,
    triton: Annotated[Path | None, typer.Option(help="Write the kernel, for torch, to this file; needs --on.")] = None,
    numpy: Annotated[Path | None, typer.Option(help="Write the loops to this file as plain NumPy.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write everything to this file.")] = None,
    certificate: Annotated[Path | None, typer.Option(help="Write the theorem's certificate to this file.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write all of it to this file as a page.")] = None,
    times: Annotated[bool, typer.Option("--times", help="Show in the page how long each proof took.")] = False,
) -> None:
    """Stream and group an operator with proofs; count transfers and memory; choose tiles for a chip."""
    with guarded():
        if op is None:  # then what follows --pseudocode is not a file
            op, pseudocode = pseudocode if pseudocode != "-" else None, "-" if pseudocode is not None else None
        if op is None:
            from catdiag.cli.list_commands import run_library

            given = (
                on,
                size,
                dtype,
                stages,
                stream,
                group,
                split,
                skip,
                distribute,
                json,
                certificate,
                html,
                triton,
                numpy,
            )
            run_library(alone=not any(given))
            return
        from catdiag.cli.derive_commands import run_derive
        from catdiag.cli.derive_sources import Files

        ended(
            run_derive(
                op,
                on,
                size or [],
                dtype,
                stages,
                stream,
                group,
                passes,
                split or [],
                skip or [],
                theorems,
                pseudocode == "-",
                json,
                certificate,
                html,
                times,
                cuts,
                Files(Path(pseudocode) if pseudocode not in (None, "-") else None, triton, numpy),
                distribute,
            )
        )


@app.command()
def prove(
    left: Annotated[str, typer.Argument(help=_OP, metavar="LEFT")],
    right: Annotated[str, typer.Argument(help=_OP, metavar="RIGHT")],
    assume: Annotated[
        list[str] | None, typer.Option(help="A condition on sizes or inputs, such as 'n >= 2' or 'A > 0'.")
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="Write the theorem's certificate to this file.")] = None,
    counterexample: Annotated[
        Path | None, typer.Option(help="Write sizes, arrays and values to this .npz file, if refuted.")
    ] = None,
    limit: Annotated[float | None, typer.Option(help="Time limit in seconds [none].")] = None,
) -> None:
    """Prove that two operators mean the same for all sizes, or refute it with exact numbers."""
    with guarded():
        from catdiag.cli.derive_commands import run_prove

        ended(run_prove(left, right, assume or [], certificate, counterexample, limit))


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(help="Certificates, or folders of them (*.json).", metavar="FILE...")],
    limit: Annotated[float | None, typer.Option(help="Time limit for each file, in seconds [none].")] = None,
    workers: Annotated[int | None, typer.Option(help="Files checked at a time [one a processor].")] = None,
    long: Annotated[bool, typer.Option("--long", help="Print in full what each of several files proves.")] = False,
) -> None:
    """Check certificates again, with the kernel and the solvers only; print what they prove, as formulas."""
    with guarded():
        from catdiag.cli.check_command import run_check

        ended(run_check(files, limit, workers, long))


@app.command()
def io(
    op: Annotated[str, typer.Argument(help=_OP, metavar="OP")],
    dtype: Annotated[str | None, typer.Option(help="Count bytes of this element type [values].")] = None,
    stages: Annotated[int, typer.Option(help="Buffers of each streamed block.")] = 1,
    unfused: Annotated[bool, typer.Option("--unfused", help="Run each box as a kernel of its own.")] = False,
    stream: Annotated[str | None, typer.Option(help="Stream this axis first.")] = None,
    group: Annotated[str | None, typer.Option(help="Group these axes first, such as 'r q'.")] = None,
    skip: Annotated[
        list[str] | None, typer.Option(help="Leave out the blocks of this streamed axis that a mask empties.")
    ] = None,
    density: Annotated[
        float | None, typer.Option(help="The share of blocks run where data decides, 0 to 1 [a symbol].")
    ] = None,
    on_chip: Annotated[str | None, typer.Option(help="Keep these arrays on chip, save the others: 'S, P'.")] = None,
    saved: Annotated[str | None, typer.Option(help="Save these arrays between kernels: 'S, P'.")] = None,
    levels: Annotated[
        str | None, typer.Option(help="Count at each of these memories, slowest first: HBM,SMEM,registers.")
    ] = None,
    on: Annotated[str | None, typer.Option(help="The chip whose memories these are, such as h100.")] = None,
    place: Annotated[
        list[str] | None,
        typer.Option(help="Where arrays of a role are: operand=SMEM, streamed=SMEM+registers, state=registers, …"),
    ] = None,
    wave: Annotated[int | None, typer.Option(help="Groups that run at a time, under a cache.")] = None,
    latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, with the optimum.")] = False,
) -> None:
    """Count the transfers and the memory of an operator, as formulas."""
    with guarded():
        from catdiag.cli.derive_commands import run_io

        left_out = (skip or [], density)
        run_io(
            op,
            dtype,
            stages,
            unfused,
            stream,
            group,
            on_chip,
            saved,
            levels,
            on,
            place or [],
            wave,
            latex,
            json,
            left_out,
        )


@app.command()
def fusions(
    op: Annotated[str, typer.Argument(help=_OP, metavar="OP")],
    size: Annotated[list[str] | None, typer.Option(help="Sizes at which the best way is asked, q=8192,…")] = None,
    memory: Annotated[int | None, typer.Option(help="The capacity of on-chip memory: values, or bytes.")] = None,
    dtype: Annotated[str | None, typer.Option(help="Count bytes of this element type [values].")] = None,
    cases: Annotated[bool, typer.Option("--cases", help="Compare the two in every regime of their tiles.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare an operator as one kernel and cut into several: what each way moves, and where one begins to win."""
    with guarded():
        from catdiag.cli.fusions_command import run_fusions

        run_fusions(op, size or [], memory, dtype, cases, json)


@app.command()
def spread(
    op: Annotated[str, typer.Argument(help=_OP, metavar="OP")],
    over: Annotated[list[str], typer.Option(help="Axes and over how many devices: q=8, or q=P.")],
    stream: Annotated[str | None, typer.Option(help="Stream this axis first.")] = None,
    group: Annotated[str | None, typer.Option(help="Group these axes first, such as 'r q'.")] = None,
    held: Annotated[
        list[str] | None, typer.Option(help="Where arrays are, if not where they are needed: X=t, or W=all.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="Count bytes of this element type [values].")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Spread an operator over several devices: what each receives, holds and computes, as formulas."""
    with guarded():
        from catdiag.cli.fusions_command import run_sharding

        run_sharding(op, over, stream, group, held or [], dtype, json)


@app.command()
def draw(
    op: Annotated[str, typer.Argument(help=_OP, metavar="OP")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="A file .svg, .tikz, .tex, .pdf or .png [SVG on the standard output]."),
    ] = None,
    opened: Annotated[
        str | None, typer.Option("--open", help="Named diagrams drawn as their insides: names, all or none [none].")
    ] = None,
    derived: Annotated[
        bool, typer.Option("--derived", help="Stream and group it first, as is best where nothing is said.")
    ] = False,
    stream: Annotated[str | None, typer.Option(help="Stream this axis first.")] = None,
    group: Annotated[str | None, typer.Option(help="Group these axes first, such as 'r q'.")] = None,
    passes: Annotated[int, typer.Option(help="Loops over the axis, after each other, at most.")] = 1,
    split: Annotated[list[str] | None, typer.Option(help="Run the loop over this axis in parts at once.")] = None,
    skip: Annotated[
        list[str] | None, typer.Option(help="Leave out the blocks of this axis that a mask empties.")
    ] = None,
    levels: Annotated[
        str | None, typer.Option(help="The memories, slowest first: HBM,SMEM,registers,tensor cores [HBM,SMEM].")
    ] = None,
    items: Annotated[bool, typer.Option("--items", help="Draw the dotted wires of elements beside axes.")] = False,
    join: Annotated[bool, typer.Option("--join", help="Draw chains of scalar functions as one box.")] = False,
    program: Annotated[
        bool, typer.Option("--program", help="Draw the loops line by line instead: what is alive, where, how much.")
    ] = False,
    color: Annotated[
        bool, typer.Option("--colour/--no-colour", help="Tell levels apart by strokes alone.", show_default=False)
    ] = True,
    theme: Annotated[str, typer.Option(help="light, dark, or auto: as the reader's browser asks.")] = "auto",
    legend: Annotated[
        bool, typer.Option("--legend/--no-legend", help="Say under the picture what in it means what.")
    ] = True,
    scale: Annotated[float | None, typer.Option(help="Pixels of a PNG for one of a screen [2].")] = None,
) -> None:
    """Draw an operator, as it stands or derived: wires are axes, colours are memories, frames are groups and loops."""
    with guarded():
        from catdiag.cli.draw_command import DrawOptions, run_draw

        looks = DrawOptions(color, theme, legend, scale)
        how = (derived, stream, group, passes, split or [], skip or [])
        run_draw(op, output, opened, *how, levels, items, join, looks, program)


@app.command()
def sweep(
    ops: Annotated[
        list[str], typer.Argument(help="Operators: names of the library, or path.py:name.", metavar="OP...")
    ],
    on: Annotated[list[str], typer.Option(help="Chips, such as h100,a100.")],
    size: Annotated[list[str], typer.Option(help="Lengths of axes, all combinations: q=1024/2048,x=4096,d=64/128.")],
    dtype: Annotated[list[str] | None, typer.Option(help="Element types, such as bf16,fp8 [bf16].")] = None,
    to: Annotated[
        Path | None, typer.Option(help="Write to this file, .jsonl or .csv; run again, it goes on [print JSON].")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Points planned at a time [one a processor].")] = None,
) -> None:
    """Plan operators on chips at many sizes: tiles, predicted time and traffic of each point."""
    with guarded():
        from catdiag.cli.sweep_command import run_sweep

        ended(run_sweep(ops, on, size, dtype or [], to, workers))


@app.command()
def plot(
    kind: Annotated[str, typer.Argument(help="roofline, transfers, landscape or waterfall.", metavar="KIND")],
    op: Annotated[str, typer.Argument(help=_OP, metavar="OP")],
    size: Annotated[list[str] | None, typer.Option(help="Sizes, such as q=8192,x=8192,d=128.")] = None,
    on: Annotated[str | None, typer.Option(help="The chip, such as h100; transfers need none.")] = None,
    dtype: Annotated[str | None, typer.Option(help="Element type of inputs and outputs [bf16 on a chip].")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A file .svg, .pdf or .png [SVG on the standard output].")
    ] = None,
    stages: Annotated[int | None, typer.Option(help="Buffers of each streamed block [the plan's choice].")] = None,
    stream: Annotated[str | None, typer.Option(help="The axis to stream [the best].")] = None,
    group: Annotated[str | None, typer.Option(help="The axes to group, such as 'r q' [all that can be].")] = None,
    split: Annotated[list[str] | None, typer.Option(help="Run the loop over this axis in parts at once.")] = None,
    skip: Annotated[
        list[str] | None, typer.Option(help="Leave out the blocks of this axis that a mask empties.")
    ] = None,
    tiles: Annotated[str | None, typer.Option(help="The tiles of a landscape, one or two: g_q,s_x.")] = None,
    theme: Annotated[str, typer.Option(help="Of SVG: light, dark, or auto: as the reader's browser asks.")] = "auto",
) -> None:
    """Plot what an operator costs: a roofline, transfers against memory, the landscape of tiles, bytes saved."""
    with guarded():
        from catdiag.cli.plot_command import PlotArgs, run_plot

        asked = PlotArgs(kind, op, on, tuple(size or ()), dtype, stages, stream, group, tuple(split or ()),
                      tuple(skip or ()), tiles, theme)  # fmt: skip
        run_plot(asked, output)


@app.command()
def bench(
    op: Annotated[str, typer.Argument(help=_OP + "; or a file that --to wrote", metavar="OP")],
    on: Annotated[str, typer.Option(help="gpu: the GPU of this machine.")] = "gpu",
    size: Annotated[list[str] | None, typer.Option(help="Sizes, such as q=8192,x=8192,d=128.")] = None,
    dtype: Annotated[str, typer.Option(help="Element type of inputs and outputs.")] = "bf16",
    chip: Annotated[str | None, typer.Option(help="The chip to choose tiles for [the GPU that is there].")] = None,
    stream: Annotated[str | None, typer.Option(help="The axis to stream [the best].")] = None,
    group: Annotated[str | None, typer.Option(help="The axes to group, such as 'r q' [all that can be].")] = None,
    split: Annotated[list[str] | None, typer.Option(help="Run the loop over this axis in parts at once.")] = None,
    skip: Annotated[
        list[str] | None, typer.Option(help="Leave out the blocks of this axis that a mask empties.")
    ] = None,
    scalar: Annotated[list[str] | None, typer.Option(help="Inputs without axes, such as eps=1e-5.")] = None,
    draw: Annotated[
        list[str] | None, typer.Option(help="How inputs are drawn: W=normal*0.02, p=uniform, label=below*1000.")
    ] = None,
    against: Annotated[
        list[str] | None, typer.Option(help="A function of tensors to compare with, path.py:name.")
    ] = None,
    proposals: Annotated[int, typer.Option(help="How many tiles to try.")] = 3,
    rounds: Annotated[int, typer.Option(help="How often each is timed, in turns.")] = 15,
    to: Annotated[
        Path | None, typer.Option(help="Write the comparison to this .json file, to be run elsewhere; needs no GPU.")
    ] = None,
    write: Annotated[Path | None, typer.Option(help="Write the table to this file, as markdown.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write everything to this file.")] = None,
) -> None:
    """Check and time an operator's kernel on a GPU, beside its textbook form compiled and functions of your own."""
    with guarded():
        from catdiag.cli.bench_command import BenchArgs, run_bench

        asked = BenchArgs(op, on, tuple(size or ()), dtype, chip, stream, group, tuple(split or ()), tuple(skip or ()),
                      tuple(scalar or ()), tuple(draw or ()), tuple(against or ()), proposals, rounds)  # fmt: skip
        ended(run_bench(asked, to, write, json))


@app.command()
def counters(
    op: Annotated[str, typer.Argument(help=_OP, metavar="OP")],
    size: Annotated[list[str] | None, typer.Option(help="Sizes, such as q=8192,x=8192,d=128.")] = None,
    on: Annotated[str, typer.Option(help="The chip whose caches and tiles are reckoned with.")] = "h200",
    dtype: Annotated[str, typer.Option(help="Element type of inputs and outputs.")] = "bf16",
    tiles: Annotated[list[str] | None, typer.Option(help="Tiles, such as g_q=128,s_x=64 [the plan's choice].")] = None,
    stages: Annotated[int | None, typer.Option(help="Buffers of each streamed block [the plan's choice].")] = None,
    warps: Annotated[int | None, typer.Option(help="Warps of a group [the plan's choice].")] = None,
    stream: Annotated[str | None, typer.Option(help="The axis to stream [the best].")] = None,
    group: Annotated[str | None, typer.Option(help="The axes to group, such as 'r q' [all that can be].")] = None,
    passes: Annotated[int, typer.Option(help="Loops over the axis, after each other, at most.")] = 1,
    split: Annotated[list[str] | None, typer.Option(help="Run the loop over this axis in parts at once.")] = None,
    skip: Annotated[
        list[str] | None, typer.Option(help="Leave out the blocks of this axis that a mask empties.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write everything to this file.")] = None,
) -> None:
    """Compare the bytes, the shared memory and the registers that are predicted with what the hardware counts."""
    with guarded():
        from catdiag.cli.counters_command import CounterArgs, run_counters

        asked = CounterArgs(op, tuple(size or ()), on, dtype, tuple(tiles or ()), stages, warps, stream, group, passes,
                      tuple(split or ()), tuple(skip or ()))  # fmt: skip
        ended(run_counters(asked, json))


@app.command()
def hardware(
    name: Annotated[
        str | None, typer.Argument(help="One chip, or a TOML file: its levels, and the source of each number.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """List the chips that tiles can be chosen for, or describe one of them, or one of a TOML file."""
    with guarded():
        from catdiag.cli.list_commands import run_hardware

        run_hardware(name, json)


@app.command()
def axioms(
    certificate: Annotated[
        Path | None, typer.Argument(help="A certificate: what must be believed for its theorem.", metavar="[FILE]")
    ] = None,
) -> None:
    """List what must be believed: the axioms, the rules of the kernel, its files in reading order, the solvers."""
    with guarded():
        from catdiag.cli.axioms_command import run_axioms

        run_axioms(certificate)
