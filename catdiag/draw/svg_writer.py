"""Scenes as SVG, for browsers, notebooks and converters, from the same paints as TikZ.

Text stays selectable, and the description for screen readers is in `title` and `desc`. Colors are attributes (of the
light theme by default), so that tools without CSS draw them too. With the theme "auto" a style follows the reader's
preference for dark mode. Its rules name the picture's own id, a digest of its contents, so that many pictures can be in
one page. A page may set the properties `--catdiag-ink`, `--catdiag-paper`, … for any theme.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import get_args

from catdiag.draw.legend import with_legend
from catdiag.draw.paint import Ink, Run, StrokeStyle, Text, painted
from catdiag.draw.paths import Path
from catdiag.draw.scene import Scene
from catdiag.draw.text_width import SUBSCRIPT
from catdiag.draw.theme import Color, Palette, Theme, palette
from catdiag.util.errors import CatdiagError

SANS = "Helvetica, Arial, 'Liberation Sans', 'Nimbus Sans', sans-serif"
FIXED = "Menlo, Consolas, 'Liberation Mono', 'DejaVu Sans Mono', monospace"

_LOWER = 0.22
"""The distance of a subscript below its text, relative to the font size."""


def svg(scene: Scene, *, color: bool = True, theme: Theme = "auto", legend: bool = False, name: str = "") -> str:
    """The scene as an SVG document, with a legend under it if asked.

    Its ids depend on the contents, and on `name`, which distinguishes two equal pictures in one page. The themes
    "light" and "dark" write attributes only, without a style. Raises CatdiagError for an unknown theme.

    >>> from catdiag.draw.scene import Curve, Label, Scene
    >>> wire = Curve(((0, 10), (10, 10), (20, 10), (30, 10)))
    >>> print(svg(Scene(30, 20, (wire, Label(15, 7, "g_q")), "A wire"), theme="light").partition("</title>")[2])
    <BLANKLINE>
    <rect width="30" height="20" fill="#ffffff"/>
    <g fill="none" stroke="#111111" stroke-width="1.1">
    <path d="M0,10H30"/>
    </g>
    <g font-family="Helvetica, Arial, 'Liberation Sans', 'Nimbus Sans', sans-serif" text-anchor="middle" fill="#111111">
    <text x="15" y="7" font-size="10" font-style="italic">g<tspan dy="2.2" font-size="7.2">q</tspan></text>
    </g>
    </svg>
    <BLANKLINE>
    """
    if theme not in get_args(Theme):
        raise CatdiagError(f"there is no theme {theme!r}: expected one of {', '.join(get_args(Theme))}")
    shown = with_legend(scene) if legend else scene
    pens = _Colors(palette("dark" if theme == "dark" else "light", color), theme == "auto")
    width, height = decimal(shown.width), decimal(shown.height)
    body = [f'<rect width="{width}" height="{height}"{pens(None, "paper")}/>']
    for look, run in groupby(painted(shown, color), _look):
        body += [f"<g{_group(look, pens)}>", *(_one(paint) for paint in run), "</g>"]
    title, description = escaped(shown.title or "Diagram"), escaped(shown.description)
    style = _style(pens, palette("dark", color), shown.width) if theme == "auto" else []
    key = "\n".join([escaped(name), title, description, width, height, *style, *body])
    own = f"catdiag-{hashlib.sha256(key.encode()).hexdigest()[:10]}"
    parts = [f'<title id="{own}-title">{title}</title>']
    if description:
        parts.append(f'<desc id="{own}-desc">{description}</desc>')
    described = f" {own}-desc" if description else ""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" id="{own}" width="{width}pt" height="{height}pt" '
        f'viewBox="0 0 {width} {height}" role="img" aria-labelledby="{own}-title{described}">'
    )
    return "\n".join([head, *parts, *(line.replace("#_", f"#{own}") for line in style), *body, "</svg>"]) + "\n"


class _Colors:
    """Writes colors as attributes, with classes where there is a style, and records which it wrote."""

    def __init__(self, colors: Palette, styled: bool) -> None:
        self.colors = colors
        self.styled = styled
        self.lines: dict[Color, None] = {}
        self.fills: dict[Color, None] = {}

    def __call__(self, line: Color | None, fill: Color | None) -> str:
        written = ""
        if self.styled:
            names = [f"l-{line}"] * (line is not None) + [f"f-{fill}"] * (fill is not None)
            written += f' class="{" ".join(names)}"'
            self.lines.update(dict.fromkeys([line] if line else []))
            self.fills.update(dict.fromkeys([fill] if fill else []))
        if line is not None:
            written += f' stroke="{self.colors[line]}"'
        return written + (f' fill="{self.colors[fill]}"' if fill is not None else "")


_SMALLEST = 0.6
"""The smallest scale at which a picture shrinks to fit a page, before it scrolls: texts stay readable."""


def _style(pens: _Colors, dark: Palette, width: float) -> list[str]:
    """The rules of the colors that occur, and of the picture's width, under the id `#_`."""

    def rules(colors: Palette) -> Iterator[str]:
        for name in pens.lines:
            yield f"#_ .l-{name}{{stroke:var(--catdiag-{name},{colors[name]})}}"
        for name in pens.fills:
            yield f"#_ .f-{name}{{fill:var(--catdiag-{name},{colors[name]})}}"

    return [
        "<style>",
        f"#_{{max-width:100%;min-width:{decimal(_SMALLEST * width)}pt;height:auto}}",
        *rules(pens.colors),
        "@media (prefers-color-scheme:dark){",
        *rules(dark),
        "}",
        "</style>",
    ]


def _look(paint: Ink | Text) -> StrokeStyle | tuple[Color, bool, bool, str]:
    """The style that neighbors share, so that it is written once for them."""
    return paint.pen if isinstance(paint, Ink) else (paint.color, paint.fixed, paint.bold, paint.label.anchor)


def _group(look: StrokeStyle | tuple[Color, bool, bool, str], colors: _Colors) -> str:
    if not isinstance(look, StrokeStyle):
        color, fixed, bold, anchor = look
        weight = ' font-weight="bold"' if bold else ""
        placed = "" if anchor == "start" else f' text-anchor="{anchor}"'
        return f' font-family="{FIXED if fixed else SANS}"{weight}{placed}{colors(None, color)}'
    written = ("" if look.fill else ' fill="none"') + colors(look.line, look.fill)
    if look.line is not None:
        written += f' stroke-width="{decimal(look.width)}"'
        if look.dashes:
            written += f' stroke-dasharray="{" ".join(map(decimal, look.dashes))}"'
        if look.round:
            written += ' stroke-linecap="round"'
    return written


def _one(paint: Ink | Text) -> str:
    if isinstance(paint, Text):
        return _text(paint)
    path = _path(paint.path)
    if not paint.title:
        return f'<path d="{path}"/>'
    return f'<path d="{path}"><title>{escaped(paint.title)}</title></path>'


def _path(path: Path) -> str:
    """The commands of a path, with the short forms of horizontal and vertical lines.

    >>> _path((("M", ((0, 0),)), ("L", ((0, 2),)), ("C", ((0, 1), (2, 1), (3, 1))), ("Z", ())))
    'M0,0V2C0,1 2,1 3,1Z'
    """
    written: list[str] = []
    before = ("", "")
    for command, places in path:
        points = [(decimal(x), decimal(y)) for x, y in places]
        if command == "L" and points[0][1] == before[1]:
            written.append(f"H{points[0][0]}")
        elif command == "L" and points[0][0] == before[0]:
            written.append(f"V{points[0][1]}")
        else:
            written.append(command + " ".join(f"{x},{y}" for x, y in points))
        before = points[-1] if points else ("", "")
    return "".join(written)


def _text(paint: Text) -> str:
    label = paint.label
    x, y = decimal(label.x), decimal(label.y)
    where = f'transform="translate({x} {y}) rotate(-90)"' if label.rotated else f'x="{x}" y="{y}"'
    written = f'<text {where} font-size="{decimal(paint.size)}"'
    # One attribute for the text if all of it is in italics, else one for each part that is.
    slanted = all(run.italic for run in paint.runs)
    if slanted and paint.runs:
        written += ' font-style="italic"'
    if any(run.text != run.text.strip() for run in paint.runs) or "  " in label.text:
        written += ' xml:space="preserve"'
    title = f"<title>{escaped(label.title)}</title>" if label.title else ""
    return f"{written}>{title}{_runs(paint.runs, paint.size, slanted)}</text>"


def _runs(runs: Sequence[Run], size: float, slanted: bool) -> str:
    written, lowered = "", False
    for run in runs:
        how = ""
        if run.low != lowered:
            how += f' dy="{decimal(_LOWER * size if run.low else -_LOWER * size)}"'
            lowered = run.low
        if run.low:
            how += f' font-size="{decimal(SUBSCRIPT * size)}"'
        if run.italic and not slanted:
            how += ' font-style="italic"'
        text = escaped(run.text)
        written += f"<tspan{how}>{text}</tspan>" if how else text
    return written


def decimal(value: float) -> str:
    """A number with at most two decimals, without "-0".

    >>> decimal(2.0), decimal(-0.001), decimal(1.005001), decimal(-3.5)
    ('2', '0', '1.01', '-3.5')
    """
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def escaped(text: str) -> str:
    """A text for XML; characters that XML does not allow are replaced.

    >>> escaped('a<b & "c"\\x00')
    'a&lt;b &amp; &quot;c&quot;\ufffd'
    """
    clean = _NO_XML.sub("\ufffd", text)
    return clean.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
