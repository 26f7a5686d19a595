"""The gallery: `python docs/gallery.py OUT` draws every operator of the library and the main derivations.

OUT/index.html is one page that needs nothing else, light or dark as the reader prefers; OUT/svg has each picture as a
file of its own. Nothing is drawn by hand, and the same sources give the same bytes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import catdiag as cd
from catdiag import library
from catdiag.draw import Scene, pipeline_picture, program_picture, svg
from catdiag.draw.listing.pipeline_chart import PipelineChart
from catdiag.draw.render import scene_of
from catdiag.planner.multi_kernel_plan import Plan
from catdiag.rewrite.derivation import Derivation
from catdiag.util.files import write_whole

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from examples import napkin

CHIP = ("HBM", "SMEM", "registers", "tensor cores")


@dataclass(frozen=True)
class Picture:
    """A picture: the name of its file, what stands above it, and how it is drawn."""

    name: str
    caption: str
    draw: Callable[[], Scene]
    legend: bool = False
    color: bool = True


@dataclass(frozen=True)
class Section:
    """Pictures of one thing, with its name and what is said of it."""

    title: str
    text: str
    pictures: tuple[Picture, ...]


def main_section() -> Section:
    """Attention as in the paper: as it is written, opened, streamed and grouped, at its levels, and line by line."""
    written = library.get("attention")
    flash = written.stream("x").group("q")
    derived = flash.diagram
    plan = flash.plan("H100", {"q": 8192, "x": 8192, "d": 128}, dtype="bf16")
    return Section(
        "From attention to FlashAttention",
        library.describe("attention"),
        (
            Picture("flash-written", "as it is written", lambda: scene_of(written), legend=True),
            Picture("flash-opened", "its softmax opened", lambda: scene_of(written, open=True)),
            Picture(
                "flash-streamed", "streamed along x", lambda: scene_of(written.stream("x").diagram, join=True), True
            ),
            Picture("flash-grouped", "and in groups of q", lambda: scene_of(derived, join=True), True),
            Picture("flash-levels", "in four memories", lambda: scene_of(derived, levels=CHIP, join=True), True),
            Picture(
                "flash-grey", "distinguished without colour",
                lambda: scene_of(derived, levels=CHIP, join=True), True, color=False,
            ),
            Picture("flash-program", "line by line", lambda: program_picture(flash), True),
            Picture("flash-bytes", "what a plan for an H100 holds", lambda: _held(flash, plan), True),
            Picture("flash-turns", "two iterations of its loop in that plan", lambda: pipeline_picture(plan), True),
            Picture("flash-warpgroups", "at the sizes of the paper", lambda: pipeline_picture(_paper()), True),
        ),
    )  # fmt: skip


def _held(derivation: Derivation, plan: Plan) -> Scene:
    """The program of a plan, with what is allocated in bytes."""
    there = {"operand": "SMEM", "streamed": "SMEM"}
    return program_picture(
        derivation, sizes=plan.sizes, tiles=plan.tiles, dtype=plan.dtype, stages=plan.stages,
        levels=("HBM", "SMEM", "registers"), placement=there,
    )  # fmt: skip


def _paper() -> PipelineChart:
    """The pipelines at the sizes of section 5.6 of Abbott and Zardini, "FlashAttention on a Napkin" (TMLR 2025)."""

    @cd.algorithm("q d, x d, x d -> q d")
    def program(Q: Any, K: Any, V: Any) -> Any:
        S = cd.cast(cd.einsum("q d, x d -> q x", Q, K) / cd.sqrt(cd.size("d")), "fp16")
        return cd.einsum("q x, x d -> q d", cd.softmax(S, "x"), V)

    values = {"w_q": 128, "s_x": 64, "u_x": 64, "u_d": 32, "v_d": 8, "d": 128}
    types = {"Q": "fp8", "K": "fp8", "V": "fp16", "out": "fp16"}
    return napkin.chart(napkin.configure(program.stream("x").group("q"), "H100", values, types, arithmetic="fp16"))


DERIVED = (
    ("matmul", "b", "a c"),
    ("softmax_contraction", "x", "q"),
    ("rms_norm_linear", "d", "t o"),
    ("linear_cross_entropy", "v", "t"),
    ("gated_mlp", "f", "t"),
    ("grouped_query_attention", "x", "r q"),
    ("variance", "x", "q"),
)
"""Operators that are shown streamed and grouped too, with the axes."""


def derived_section(name: str, stream: str, group: str) -> Section:
    """An operator as it is written, and streamed and grouped."""
    derivation = library.get(name).stream(stream).group(group)
    caption = f"streamed along {stream}, in groups of {', '.join(group.split())}"
    return Section(
        name,
        library.describe(name),
        (
            Picture(f"{name}-written", "as it is written", lambda: scene_of(library.get(name))),
            Picture(
                f"{name}-derived", caption, lambda: scene_of(derivation.diagram, levels=CHIP[:3], join=True), True
            ),
            Picture(f"{name}-program", "line by line", lambda: program_picture(derivation), True),
        ),
    )  # fmt: skip


def operator_section(name: str) -> Section:
    """An operator as it is written, and with its named diagrams opened where it has some."""
    diagram = library.get(name)
    pictures = [Picture(name, "", lambda: scene_of(diagram))]
    if scene_of(diagram, open=True) != scene_of(diagram):
        pictures.append(Picture(f"{name}-opened", "opened", lambda: scene_of(diagram, open=True)))
    return Section(name, library.describe(name), tuple(pictures))


def page(parts: Iterable[tuple[str, Iterable[Section]]], out: Path) -> None:
    """Writes the page of the parts, each with a heading, and the pictures; files are whole or not there."""
    (out / "svg").mkdir(parents=True, exist_ok=True)
    body: list[str] = []
    for heading, sections in parts:
        shown = list(sections)
        links = ", ".join(f'<a href="#{_anchor(s.title)}">{escape(s.title)}</a>' for s in shown)
        body += [f"<h2>{escape(heading)}</h2>", f"<p class='list'>{links}</p>"]
        for section in shown:
            body += _section(section, out)
    write_whole(out / "index.html", _PAGE.replace("BODY", "\n".join(body)))


def _section(section: Section, out: Path) -> Iterator[str]:
    first, _, rest = section.text.partition("\n")
    yield f'<section id="{_anchor(section.title)}"><h3>{escape(section.title)}</h3><p>{escape(first)}</p>'
    if rest.strip():
        yield f"<pre>{escape(rest.strip())}</pre>"
    for picture in section.pictures:
        text = svg(picture.draw(), legend=picture.legend, color=picture.color, name=picture.name)
        write_whole(out / "svg" / f"{picture.name}.svg", text)
        caption = f"<figcaption>{escape(picture.caption)}</figcaption>" if picture.caption else ""
        yield f"<figure>{caption}{text}</figure>"
    yield "</section>"


def _anchor(title: str) -> str:
    return re.sub(r"\W+", "-", title)


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>catdiag: a gallery</title>
<style>
body{font:16px/1.5 Helvetica,Arial,'Liberation Sans',sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;
  color:#111;background:#fff}
h1,h2,h3{line-height:1.2;font-weight:600} h2{margin-top:3rem} h3{margin:2.5rem 0 .3rem}
p{margin:.3rem 0;max-width:48rem} pre{font-size:.85rem;margin:.4rem 0;overflow-x:auto}
.list{font-size:.9rem} a{color:#1b5fc1}
figure{margin:1rem 0;overflow-x:auto} figcaption{font-size:.85rem;color:#555;margin-bottom:.3rem}
@media (prefers-color-scheme:dark){
body{color:#e9e9e7;background:#15171a} a{color:#83b4ff} figcaption{color:#b0b2b5}
}
</style>
</head>
<body>
<h1>A gallery of diagrams</h1>
<p>Every picture is drawn by catdiag from the program that it proves and counts with. A wire is an axis; the colour is
the memory that an array is in; frames are groups and loops. Hover over wires and boxes to read what they are.</p>
BODY
</body>
</html>
"""


def main() -> None:
    """Draws everything into the folder that is named on the command line."""
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print("usage: python docs/gallery.py OUT", file=sys.stderr)
        raise SystemExit(2)
    out = Path(sys.argv[1])
    derived = (derived_section(*each) for each in DERIVED)
    operators: Iterator[Section] = (operator_section(name) for name in library.names())
    page([("Derivations", [main_section(), *derived]), ("The library", operators)], out)
    print(f"{len(list((out / 'svg').iterdir()))} pictures in {out / 'index.html'}")


if __name__ == "__main__":
    main()
