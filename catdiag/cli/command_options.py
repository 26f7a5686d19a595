"""The options of commands: a record each, from which the command line is made. Its docstring is the command's help."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from catdiag.cli.exit_status import guarded

OPERATOR = "an operator: a name of the library, or path.py:name"
_TEXTS = tuple[str, ...]

R = TypeVar("R")


def taking(record: type[R], run: Callable[[R], None]) -> Callable[..., None]:
    """A function whose parameters are the fields of a record, which `run` takes; typer makes a command of it.

    An option that may be given several times is a tuple of texts.
    """
    hints = get_type_hints(record, include_extras=True)
    several = {name for name, hint in hints.items() if hint.__origin__ == _TEXTS}

    def command(**given: Any) -> None:
        with guarded():
            run(record(**{name: tuple(value or ()) if name in several else value for name, value in given.items()}))

    parameters = []
    for f in fields(record):  # type: ignore[arg-type]
        hint = hints[f.name]
        default = inspect.Parameter.empty if f.default is MISSING else f.default
        if f.name in several:
            hint, default = Annotated[list[str] | None, *hint.__metadata__], None
        hints[f.name] = hint
        parameters.append(inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__, command.__doc__ = hints, record.__doc__
    return command


@dataclass(frozen=True)
class DeriveOptions:
    """Stream and group an operator with proofs; count transfers and memory; choose tiles for a chip."""

    op: Annotated[
        str | None,
        typer.Argument(help=OPERATOR + "; without one, the library is listed", metavar="OP", show_default=False),
    ] = None
    on: Annotated[str | None, typer.Option(help="The chip to choose tiles for, such as h100.")] = None
    size: Annotated[tuple[str, ...], typer.Option(help="Sizes, such as q=8192,x=8192,d=128.")] = ()
    example: Annotated[
        str | None,
        typer.Option(help="path.py:name of a tuple of arguments: OP is a PyTorch module; sizes are the example's."),
    ] = None
    grad: Annotated[
        str | None,
        typer.Option(help="Derive the gradient by these inputs, such as 'K V', or by any.", metavar="INPUTS"),
    ] = None
    dtype: Annotated[str | None, typer.Option(help="Element type of inputs and outputs [bf16].")] = None
    stages: Annotated[int | None, typer.Option(help="Buffers of each streamed block [the plan's choice].")] = None
    stream: Annotated[str | None, typer.Option(help="The axis to stream [the best].")] = None
    group: Annotated[str | None, typer.Option(help="The axes to group, such as 'r q' [all that can be].")] = None
    passes: Annotated[int, typer.Option(help="Loops over the axis, after each other, at most.")] = 1
    split: Annotated[tuple[str, ...], typer.Option(help="Run the loop over this axis in parts at once.")] = ()
    skip: Annotated[tuple[str, ...], typer.Option(help="Leave out the blocks of this axis that a mask empties.")] = ()
    distribute: Annotated[
        str | None,
        typer.Option(
            help="Distribute over sums along these axes, such as d, or any, or none; read the note on rounding."
        ),
    ] = None
    cuts: Annotated[
        str, typer.Option(help="How many cuts between kernels there may be: any, none, some (at least one), a number.")
    ] = "any"
    products: Annotated[
        str | None,
        typer.Option(help="Who computes products of two arrays: triton, torch or quickest; needs --on [triton]."),
    ] = None
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Try no scatter-adds, whose order is not fixed; needs --on.")
    ] = False
    theorems: Annotated[bool, typer.Option("--theorems", help="Prove all claims about the loops.")] = False
    pseudocode: Annotated[
        str | None,
        typer.Option(
            metavar="[FILE]",
            help="Print the loops in full, however long; or write them with all variables, sizes and levels to a file.",
        ),
    ] = None
    triton: Annotated[Path | None, typer.Option(help="Write the kernel, for torch, to this file; needs --on.")] = None
    numpy: Annotated[Path | None, typer.Option(help="Write the loops to this file as plain NumPy.")] = None
    json: Annotated[Path | None, typer.Option(help="Write everything to this file.")] = None
    certificate: Annotated[Path | None, typer.Option(help="Write the theorem's certificate to this file.")] = None
    html: Annotated[Path | None, typer.Option(help="Write all of it to this file as a page.")] = None
    times: Annotated[bool, typer.Option("--times", help="Show in the page how long each proof took.")] = False


@dataclass(frozen=True)
class IoOptions:
    """Count the transfers and the memory of an operator, as formulas."""

    op: Annotated[str, typer.Argument(help=OPERATOR, metavar="OP")]
    dtype: Annotated[str | None, typer.Option(help="Count bytes of this element type [values].")] = None
    stages: Annotated[int, typer.Option(help="Buffers of each streamed block.")] = 1
    unfused: Annotated[bool, typer.Option("--unfused", help="Run each box as a kernel of its own.")] = False
    stream: Annotated[str | None, typer.Option(help="Stream this axis first.")] = None
    group: Annotated[str | None, typer.Option(help="Group these axes first, such as 'r q'.")] = None
    skip: Annotated[
        tuple[str, ...], typer.Option(help="Leave out the blocks of this streamed axis that a mask empties.")
    ] = ()
    density: Annotated[
        float | None, typer.Option(help="The share of blocks run where data decides, 0 to 1 [a symbol].")
    ] = None
    on_chip: Annotated[str | None, typer.Option(help="Keep these arrays on chip, save the others: 'S, P'.")] = None
    saved: Annotated[str | None, typer.Option(help="Save these arrays between kernels: 'S, P'.")] = None
    levels: Annotated[
        str | None, typer.Option(help="Count at each of these memories, slowest first: HBM,SMEM,registers.")
    ] = None
    on: Annotated[str | None, typer.Option(help="The chip whose memories these are, such as h100.")] = None
    place: Annotated[
        tuple[str, ...],
        typer.Option(help="Where arrays of a role are: operand=SMEM, streamed=SMEM+registers, state=registers, …"),
    ] = ()
    wave: Annotated[int | None, typer.Option(help="Groups that run at a time, under a cache.")] = None
    latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX.")] = False
    json: Annotated[bool, typer.Option("--json", help="Print JSON, with the optimum.")] = False


@dataclass(frozen=True)
class DrawOptions:
    """Draw an operator, as it stands or derived: wires are axes, colours are memories, frames are groups and loops."""

    op: Annotated[str, typer.Argument(help=OPERATOR, metavar="OP")]
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="A file .svg, .tikz, .tex, .pdf or .png [SVG on the standard output]."),
    ] = None
    opened: Annotated[
        str | None, typer.Option("--open", help="Named diagrams drawn as their insides: names, all or none [none].")
    ] = None
    derived: Annotated[
        bool, typer.Option("--derived", help="Stream and group it first, as is best where nothing is said.")
    ] = False
    stream: Annotated[str | None, typer.Option(help="Stream this axis first.")] = None
    group: Annotated[str | None, typer.Option(help="Group these axes first, such as 'r q'.")] = None
    passes: Annotated[int, typer.Option(help="Loops over the axis, after each other, at most.")] = 1
    split: Annotated[tuple[str, ...], typer.Option(help="Run the loop over this axis in parts at once.")] = ()
    skip: Annotated[tuple[str, ...], typer.Option(help="Leave out the blocks of this axis that a mask empties.")] = ()
    levels: Annotated[
        str | None, typer.Option(help="The memories, slowest first: HBM,SMEM,registers,tensor cores [HBM,SMEM].")
    ] = None
    items: Annotated[bool, typer.Option("--items", help="Draw the dotted wires of elements beside axes.")] = False
    join: Annotated[bool, typer.Option("--join", help="Draw chains of scalar functions as one box.")] = False
    program: Annotated[
        bool, typer.Option("--program", help="Draw the loops line by line instead: what is alive, where, how much.")
    ] = False
    color: Annotated[
        bool, typer.Option("--colour/--no-colour", help="Tell levels apart by strokes alone.", show_default=False)
    ] = True
    theme: Annotated[str, typer.Option(help="light, dark, or auto: as the reader's browser asks.")] = "auto"
    legend: Annotated[
        bool, typer.Option("--legend/--no-legend", help="Say under the picture what in it means what.")
    ] = True
    scale: Annotated[float | None, typer.Option(help="Pixels of a PNG for one of a screen [2].")] = None


@dataclass(frozen=True)
class PlotArgs:
    """Plot what an operator costs: a roofline, transfers against memory, the landscape of tiles, bytes saved."""

    kind: Annotated[str, typer.Argument(help="roofline, transfers, landscape or waterfall.", metavar="KIND")]
    op: Annotated[str, typer.Argument(help=OPERATOR, metavar="OP")]
    size: Annotated[tuple[str, ...], typer.Option(help="Sizes, such as q=8192,x=8192,d=128.")] = ()
    on: Annotated[str | None, typer.Option(help="The chip, such as h100; transfers need none.")] = None
    dtype: Annotated[str | None, typer.Option(help="Element type of inputs and outputs [bf16 on a chip].")] = None
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A file .svg, .pdf or .png [SVG on the standard output].")
    ] = None
    stages: Annotated[int | None, typer.Option(help="Buffers of each streamed block [the plan's choice].")] = None
    stream: Annotated[str | None, typer.Option(help="The axis to stream [the best].")] = None
    group: Annotated[str | None, typer.Option(help="The axes to group, such as 'r q' [all that can be].")] = None
    split: Annotated[tuple[str, ...], typer.Option(help="Run the loop over this axis in parts at once.")] = ()
    skip: Annotated[tuple[str, ...], typer.Option(help="Leave out the blocks of this axis that a mask empties.")] = ()
    tiles: Annotated[str | None, typer.Option(help="The tiles of a landscape, one or two: g_q,s_x.")] = None
    theme: Annotated[str, typer.Option(help="Of SVG: light, dark, or auto: as the reader's browser asks.")] = "auto"


@dataclass(frozen=True)
class BenchArgs:
    """Check and time an operator's kernel on a GPU, beside its textbook form compiled and functions of your own."""

    op: Annotated[str, typer.Argument(help=OPERATOR + "; or a file that --to wrote", metavar="OP")]
    on: Annotated[str, typer.Option(help="gpu: the GPU of this machine.")] = "gpu"
    size: Annotated[tuple[str, ...], typer.Option(help="Sizes, such as q=8192,x=8192,d=128.")] = ()
    dtype: Annotated[str, typer.Option(help="Element type of inputs and outputs.")] = "bf16"
    chip: Annotated[str | None, typer.Option(help="The chip to choose tiles for [the GPU that is there].")] = None
    stream: Annotated[str | None, typer.Option(help="The axis to stream [the best].")] = None
    group: Annotated[str | None, typer.Option(help="The axes to group, such as 'r q' [all that can be].")] = None
    split: Annotated[tuple[str, ...], typer.Option(help="Run the loop over this axis in parts at once.")] = ()
    skip: Annotated[tuple[str, ...], typer.Option(help="Leave out the blocks of this axis that a mask empties.")] = ()
    scalar: Annotated[tuple[str, ...], typer.Option(help="Inputs without axes, such as eps=1e-5.")] = ()
    draw: Annotated[
        tuple[str, ...], typer.Option(help="How inputs are drawn: W=normal*0.02, p=uniform, label=below*1000.")
    ] = ()
    against: Annotated[tuple[str, ...], typer.Option(help="A function of tensors to compare with, path.py:name.")] = ()
    proposals: Annotated[int, typer.Option(help="How many tiles to try.")] = 3
    rounds: Annotated[int, typer.Option(help="How often each is timed, in turns.")] = 15
    to: Annotated[
        Path | None, typer.Option(help="Write the comparison to this .json file, to be run elsewhere; needs no GPU.")
    ] = None
    write: Annotated[Path | None, typer.Option(help="Write the table to this file, as markdown.")] = None
    json: Annotated[Path | None, typer.Option(help="Write everything to this file.")] = None


@dataclass(frozen=True)
class CounterArgs:
    """Compare the bytes, the shared memory and the registers that are predicted with what the hardware counts."""

    op: Annotated[str, typer.Argument(help=OPERATOR, metavar="OP")]
    size: Annotated[tuple[str, ...], typer.Option(help="Sizes, such as q=8192,x=8192,d=128.")] = ()
    on: Annotated[str, typer.Option(help="The chip whose caches and tiles are reckoned with.")] = "h200"
    dtype: Annotated[str, typer.Option(help="Element type of inputs and outputs.")] = "bf16"
    tiles: Annotated[tuple[str, ...], typer.Option(help="Tiles, such as g_q=128,s_x=64 [the plan's choice].")] = ()
    stages: Annotated[int | None, typer.Option(help="Buffers of each streamed block [the plan's choice].")] = None
    warps: Annotated[int | None, typer.Option(help="Warps of a group [the plan's choice].")] = None
    stream: Annotated[str | None, typer.Option(help="The axis to stream [the best].")] = None
    group: Annotated[str | None, typer.Option(help="The axes to group, such as 'r q' [all that can be].")] = None
    passes: Annotated[int, typer.Option(help="Loops over the axis, after each other, at most.")] = 1
    split: Annotated[tuple[str, ...], typer.Option(help="Run the loop over this axis in parts at once.")] = ()
    skip: Annotated[tuple[str, ...], typer.Option(help="Leave out the blocks of this axis that a mask empties.")] = ()
    json: Annotated[Path | None, typer.Option(help="Write everything to this file.")] = None
