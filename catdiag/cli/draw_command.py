"""`catdiag draw`: the picture of an operator, as it is or derived, in a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from catdiag.cli.exit_status import NothingDerived, UsageError
from catdiag.cli.operator_loading import operator
from catdiag.cli.option_values import check_writable
from catdiag.frontend.signature import axis_names
from catdiag.util.files import write_whole

if TYPE_CHECKING:
    from catdiag.category.diagram import Diagram
    from catdiag.cli.command_options import DrawOptions
    from catdiag.draw.scene import Scene

THEMES = ("auto", "light", "dark")


def run_draw(options: DrawOptions) -> None:
    """Draws the operator, or its program, and writes it in the format of the file's suffix; prints SVG if there is no
    file.

    Raises CatdiagError for what cannot be derived, drawn or written, before anything is written.
    """
    output = options.output
    suffix = ".svg" if output is None else output.suffix.lower()
    writer = _WRITERS.get(suffix)
    if writer is None:
        raise UsageError(
            f"cannot tell what to write to {output}: expected a file that ends in "
            f"{', '.join(list(_WRITERS)[:-1])} or {list(_WRITERS)[-1]}"
        )
    if options.theme not in THEMES:
        raise UsageError(f"there is no theme {options.theme!r}: expected one of {', '.join(THEMES)}")
    if options.scale is not None and suffix != ".png":
        raise UsageError("--scale is for PNG: the other files have no pixels, as in -o picture.png --scale 3")
    if options.program and (options.opened is not None or options.items or options.join):
        raise UsageError("--program draws lines, not boxes: leave out --open, --items and --join")
    check_writable(output)
    from catdiag.draw.render import LEVELS, scene_of

    diagram = operator(options.op)
    given = options.stream is not None or options.group is not None or options.split or options.skip
    if options.derived or given:
        diagram = _derived(diagram, options)
    chain = LEVELS if options.levels is None else tuple(name.strip() for name in options.levels.split(","))
    if options.program:
        scene = _program(diagram, chain)
    else:
        scene = scene_of(diagram, open=_names(options.opened), levels=chain, items=options.items, join=options.join)
    written = writer(scene, options)
    if output is None:
        print(written, end="")
        return
    try:
        write_whole(output, written)
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror or error}") from error


def _program(diagram: Diagram, chain: tuple[str, ...]) -> Scene:
    """The lines of a program, with operands and streamed blocks at the second level, as in string diagrams."""
    from catdiag.draw.listing.program_picture import program_picture

    there = {"operand": chain[1], "streamed": chain[1]} if len(chain) > 2 else None
    return program_picture(diagram, levels=chain, placement=there)


def _names(opened: str | None) -> bool | list[str]:
    if opened is None or opened == "none":
        return False
    return True if opened == "all" else [name.strip() for name in opened.split(",")]


def _derived(diagram: Diagram, options: DrawOptions) -> Diagram:
    """The diagram that `catdiag derive` finds with these options and without a chip."""
    from catdiag.cli.io_report import best_of
    from catdiag.rewrite.skip import skip as skip_axis
    from catdiag.rewrite.stream.streaming import split as split_axis
    from catdiag.solvers.z3 import borrowed

    if options.passes < 1:
        raise UsageError(f"passes is {options.passes}: expected a whole number of loops over the axis, 1 or more")
    with borrowed() as ask:
        groups = None if options.group is None else axis_names(options.group)
        derivation = best_of(diagram, ask, options.stream, groups, options.passes)
        for axis in options.split:
            derivation = split_axis(derivation, axis)
        for axis in options.skip:
            derivation = skip_axis(derivation, axis)
    if not derivation.steps:
        raise NothingDerived(
            "no axis can be streamed or grouped: leave out --derived to draw the operator as it stands"
        )
    return derivation.diagram


def _svg(scene: Scene, options: DrawOptions) -> str:
    from catdiag.draw.svg_writer import svg

    theme: Literal["auto", "light", "dark"] = "light" if options.theme == "light" else "auto"
    return svg(scene, color=options.color, theme="dark" if options.theme == "dark" else theme, legend=options.legend)


def _fixed(options: DrawOptions) -> Literal["light", "dark"]:
    return "dark" if options.theme == "dark" else "light"


def _tikz(standalone: bool) -> Callable[[Scene, DrawOptions], str]:
    def write(scene: Scene, options: DrawOptions) -> str:
        from catdiag.draw.tikz_writer import tikz

        return tikz(scene, color=options.color, standalone=standalone, legend=options.legend, theme=_fixed(options))

    return write


def _pdf(scene: Scene, options: DrawOptions) -> bytes:
    from catdiag.draw.svg_conversion import pdf
    from catdiag.draw.svg_writer import svg

    return pdf(svg(scene, color=options.color, theme=_fixed(options), legend=options.legend))


def _png(scene: Scene, options: DrawOptions) -> bytes:
    from catdiag.draw.svg_conversion import png
    from catdiag.draw.svg_writer import svg

    text = svg(scene, color=options.color, theme=_fixed(options), legend=options.legend)
    return png(text, 2.0 if options.scale is None else options.scale)


_WRITERS: dict[str, Callable[[Scene, DrawOptions], str | bytes]] = {
    ".svg": _svg,
    ".tikz": _tikz(standalone=False),
    ".tex": _tikz(standalone=True),
    ".pdf": _pdf,
    ".png": _png,
}
