"""The commands and their options. The work is done by each command's module, which is imported when it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from catdiag.cli.command_options import (
    OPERATOR,
    BenchArgs,
    CounterArgs,
    DeriveOptions,
    DrawOptions,
    IoOptions,
    PlotArgs,
    taking,
)
from catdiag.cli.exit_status import DONE, UsageError, ended, guarded

app = typer.Typer(
    name="catdiag",
    help="Array programs as diagrams: derive kernels with proofs, count their traffic, choose their tiles.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


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


def _derive(options: DeriveOptions) -> None:
    if options.op is None:  # then what follows --pseudocode is not a file
        given = options.pseudocode
        op, printed = given if given != "-" else None, None if given is None else "-"
        options = replace(options, op=op, pseudocode=printed)
    if options.op is None:
        from catdiag.cli.list_commands import run_library

        run_library(
            alone=replace(options, pseudocode=None, passes=1, cuts="any", theorems=False, times=False)
            == DeriveOptions()
        )
        return
    from catdiag.cli.derive_commands import run_derive

    ended(run_derive(options))


app.command("derive", cls=_Derive)(taking(DeriveOptions, _derive))


@app.command()
def prove(
    left: Annotated[str, typer.Argument(help=OPERATOR, metavar="LEFT")],
    right: Annotated[str, typer.Argument(help=OPERATOR, metavar="RIGHT")],
    assume: Annotated[
        list[str] | None, typer.Option(help="A condition on sizes or inputs, such as 'n >= 2' or 'A > 0'.")
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="Write the theorem's certificate to this file.")] = None,
    counterexample: Annotated[
        Path | None, typer.Option(help="Write sizes, arrays and values to this .npz file, if refuted.")
    ] = None,
    limit: Annotated[float | None, typer.Option(help="Time limit in seconds [none].")] = None,
    example: Annotated[
        str | None,
        typer.Option(help="path.py:name of a tuple of arguments: LEFT and RIGHT are PyTorch modules."),
    ] = None,
    parameters: Annotated[
        str | None,
        typer.Option(help="path.py:name of a function from the tensors of RIGHT, by name, to those of LEFT."),
    ] = None,
    entries: Annotated[
        list[str] | None,
        typer.Option("--map", help="A tensor of LEFT as a part of one of RIGHT: q.weight=qkv.weight[0:12]."),
    ] = None,
) -> None:
    """Prove that two operators mean the same for all sizes, or refute it with exact numbers."""
    with guarded():
        from catdiag.cli.derive_commands import run_prove
        from catdiag.cli.operator_loading import modules, operators

        if example is None:
            if parameters is not None or entries:
                given = "--map" if entries else "--parameters"
                raise UsageError(f"{given} is of PyTorch modules: expected --example, too")
            pair: Any = operators(left, right)
        else:
            pair = modules(left, right, example, parameters, entries or ())
        ended(run_prove(pair, assume or [], certificate, counterexample, limit))


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


def _io(options: IoOptions) -> None:
    from catdiag.cli.io_command import run_io

    run_io(options)


app.command("io")(taking(IoOptions, _io))


@app.command()
def fusions(
    op: Annotated[str, typer.Argument(help=OPERATOR, metavar="OP")],
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
def shard(
    op: Annotated[str, typer.Argument(help=OPERATOR, metavar="OP")],
    over: Annotated[list[str], typer.Option(help="Axes and over how many devices: q=8, or q=P.")],
    stream: Annotated[str | None, typer.Option(help="Stream this axis first.")] = None,
    group: Annotated[str | None, typer.Option(help="Group these axes first, such as 'r q'.")] = None,
    stored: Annotated[
        list[str] | None, typer.Option(help="Where arrays are, if not where they are needed: X=t, or W=all.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="Count bytes of this element type [values].")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Shard an operator over a mesh of devices: what each receives, holds and computes, as formulas."""
    with guarded():
        from catdiag.cli.fusions_command import run_sharding

        run_sharding(op, over, stream, group, stored or [], dtype, json)


def _draw(options: DrawOptions) -> None:
    from catdiag.cli.draw_command import run_draw

    run_draw(options)


app.command("draw")(taking(DrawOptions, _draw))


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


def _plot(options: PlotArgs) -> None:
    from catdiag.cli.plot_command import run_plot

    run_plot(options)


app.command("plot")(taking(PlotArgs, _plot))


def _bench(options: BenchArgs) -> None:
    from catdiag.cli.bench_command import run_bench

    ended(run_bench(options))


app.command("bench")(taking(BenchArgs, _bench))


def _counters(options: CounterArgs) -> None:
    from catdiag.cli.counters_command import run_counters

    ended(run_counters(options))


app.command("counters")(taking(CounterArgs, _counters))


@app.command()
def explain(
    module: Annotated[str, typer.Argument(help="A PyTorch module or function, path.py:name.", metavar="MODULE")],
    example: Annotated[str, typer.Option(help="path.py:name of a tuple of arguments, by default called example.")],
    on: Annotated[str | None, typer.Option(help="Plan regions for this chip, such as h200.")] = None,
    limit: Annotated[
        float | None, typer.Option(help="Seconds that planning may take: as many as it takes if left out.")
    ] = None,
) -> None:
    """Say what torch.compile(…, backend="catdiag") takes of a module, and why: regions, and what they move."""
    with guarded():
        from catdiag.cli.explain_command import run_explain

        run_explain(module, example, on, limit)


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
