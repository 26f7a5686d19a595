"""Scenes as TikZ: a document that stock pdflatex compiles, or a picture to \\input into another document.

Only classes and packages of every TeX distribution are used: standalone, TikZ and amssymb. Texts are set in the
document's own sans-serif font, and scaled down where they would be wider than the room that the layout reserved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Literal

from catdiag.draw.latex_escape import escaped
from catdiag.draw.legend import with_legend
from catdiag.draw.paint import Ink, Run, StrokeStyle, Text, painted
from catdiag.draw.paths import Path, rectangle
from catdiag.draw.scene import Scene
from catdiag.draw.svg_writer import decimal
from catdiag.draw.text_width import SUBSCRIPT, text_width
from catdiag.draw.theme import Color, palette
from catdiag.util.errors import CatdiagError

LARGEST = 14_000.0
"""The longest side, in points, of a page that TeX and PDF can have."""

_FACES = (5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 10.95, 12.0)
"""The sizes of TeX's sans-serif and typewriter fonts: others would be replaced with a warning."""

_FIT = r"""\def\catdiagtext#1#2#3#4{% how it stands, where, its room, the text
  \pgftext[at={\pgfpointxy#2},base,#1]{\normalfont\sffamily\setbox0=\hbox{#4}%
    \ifdim\wd0>#3pt\resizebox{#3pt}{\height}{\box0}\else\box0\fi}}"""


def tikz(
    scene: Scene,
    *,
    color: bool = True,
    standalone: bool = True,
    legend: bool = False,
    theme: Literal["light", "dark"] = "light",
) -> str:
    """The scene as LaTeX: a document, or a tikzpicture alone, whose comments list the preamble that it needs.

    The light theme is for white pages and draws no background; the dark one does. Raises CatdiagError for a picture
    that is larger than a page of TeX can be, and for an unknown theme.

    >>> from catdiag.draw.scene import Curve, Scene
    >>> wire = Curve(((0, 10), (10, 10), (20, 10), (30, 10)))
    >>> print(tikz(Scene(30, 20, (wire,), "A wire"), standalone=False))
    % A wire
    % needs in the preamble: \\usepackage{tikz} \\usepackage{amssymb}
    % as wide as the text: \\resizebox{\\linewidth}{!}{\\input{this file}}
    \\begin{tikzpicture}[x=1pt,y=-1pt]
    \\definecolor{catdiag-ink}{HTML}{111111}
    \\useasboundingbox (0,0) rectangle (30,20);
    \\begin{scope}[draw=catdiag-ink,line width=1.1pt]
    \\draw (0,10) -- (30,10);
    \\end{scope}
    \\end{tikzpicture}%
    <BLANKLINE>
    """
    if theme not in ("light", "dark"):
        raise CatdiagError(f"there is no theme {theme!r} of TikZ: expected light or dark")
    shown = with_legend(scene) if legend else scene
    if max(shown.width, shown.height) > LARGEST:
        raise CatdiagError(
            f"the picture is {shown.width:.0f} by {shown.height:.0f} points, and a page of TeX at most {LARGEST:.0f}: "
            "leave more of its named diagrams closed, or write it as SVG"
        )
    ground = [Ink(rectangle(0, 0, shown.width, shown.height), StrokeStyle(fill="paper"))] if theme == "dark" else []
    paints = [*ground, *painted(shown, color)]
    colors = palette(theme, color)
    lines = [f"% {line}" for line in (_comment(shown.title), _comment(shown.description)) if line]
    if not standalone:
        lines.append("% needs in the preamble: \\usepackage{tikz} \\usepackage{amssymb}")
        lines.append("% as wide as the text: \\resizebox{\\linewidth}{!}{\\input{this file}}")
    lines.append("\\begin{tikzpicture}[x=1pt,y=-1pt]")
    for name in _colors(paints):
        lines.append(f"\\definecolor{{catdiag-{name}}}{{HTML}}{{{colors[name][1:].upper()}}}")
    if any(isinstance(paint, Text) for paint in paints):
        lines.append(_FIT)
    lines.append(f"\\useasboundingbox (0,0) rectangle ({decimal(shown.width)},{decimal(shown.height)});")
    lines += [*_scopes(paints), "\\end{tikzpicture}%"]
    return "\n".join([*_BEFORE, *lines, "\\end{document}"] if standalone else lines) + "\n"


_BEFORE = (
    "\\documentclass[border=2pt]{standalone}",
    "\\usepackage{tikz}",
    "\\usepackage{amssymb}",
    "\\begin{document}",
)


def _scopes(paints: Iterable[Ink | Text]) -> Iterator[str]:
    """What is painted, with a scope for each run of one look."""
    for look, run in groupby(paints, lambda paint: paint.pen if isinstance(paint, Ink) else paint.color):
        if isinstance(look, StrokeStyle):
            yield f"\\begin{{scope}}[{_options(look)}]"
        else:
            yield from ("\\begin{scope}", f"\\color{{catdiag-{look}}}")
        yield from (_ink(paint) if isinstance(paint, Ink) else _text(paint) for paint in run)
        yield "\\end{scope}"


def _comment(text: str) -> str:
    """A text on one line, with printable letters only."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _colors(paints: Sequence[Ink | Text]) -> dict[Color, None]:
    found: dict[Color, None] = {}
    for paint in paints:
        used = (paint.pen.line, paint.pen.fill) if isinstance(paint, Ink) else (paint.color,)
        found.update({name: None for name in used if name is not None})
    return found


def _options(look: StrokeStyle) -> str:
    written = []
    if look.line is not None:
        written += [f"draw=catdiag-{look.line}", f"line width={decimal(look.width)}pt"]
    if look.fill is not None:
        written.append(f"fill=catdiag-{look.fill}")
    if look.dashes:
        on = [("off" if n % 2 else "on") + f" {decimal(length)}pt" for n, length in enumerate(look.dashes)]
        written.append(f"dash pattern={' '.join(on)}")
    if look.round:
        written.append("line cap=round")
    return ",".join(written)


def _ink(paint: Ink) -> str:
    drawn = {(True, True): "\\filldraw", (True, False): "\\draw", (False, True): "\\fill"}
    return f"{drawn[paint.pen.line is not None, paint.pen.fill is not None]} {_path(paint.path)};"


def _path(path: Path) -> str:
    written: list[str] = []
    for command, places in path:
        points = [f"({decimal(x)},{decimal(y)})" for x, y in places]
        if command == "M":
            written.append(points[0])
        elif command == "L":
            written.append(f"-- {points[0]}")
        elif command == "C":
            written.append(f".. controls {points[0]} and {points[1]} .. {points[2]}")
        else:
            written.append("-- cycle")
    return " ".join(written)


def _face(size: float) -> str:
    """The command for the largest available font size that is at most `size`."""
    fitting = [face for face in _FACES if face <= size + 0.01] or [_FACES[0]]
    return f"\\fontsize{{{decimal(fitting[-1])}}}{{{decimal(fitting[-1])}}}\\selectfont"


def _text(paint: Text) -> str:
    label = paint.label
    how = [{"start": "left", "middle": "", "end": "right"}[label.anchor], "rotate=90" if label.rotated else ""]
    place = f"{{{decimal(label.x)}}}{{{decimal(label.y)}}}"
    room = decimal(text_width(label.text, label.role) + 0.5)
    series = ("\\ttfamily" if paint.fixed else "") + ("\\bfseries" if paint.bold else "")
    runs = "".join(_run(run, paint.size, run.italic and not paint.bold) for run in paint.runs)
    written = f"{_face(paint.size)}{series} {runs}"
    return f"\\catdiagtext{{{','.join(filter(None, how))}}}{{{place}}}{{{room}}}{{{written}}}"


def _run(run: Run, size: float, slanted: bool) -> str:
    """A part of a text. TeX's sans-serif has no bold slanted font."""
    text = escaped(run.text)
    if run.low:
        text = f"$_{{\\mbox{{{_face(SUBSCRIPT * size)} {text}}}}}$"
    return f"{{\\slshape {text}}}" if slanted else text
