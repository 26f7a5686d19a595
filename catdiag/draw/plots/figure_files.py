"""Figures as SVG, PDF and PNG; the same figure gives the same bytes."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, get_args

from catdiag.draw.plots.plot_style import CAPTION, SHADES, TITLE, shades, styled
from catdiag.draw.svg_writer import SANS, escaped
from catdiag.draw.theme import COLORS, DARK, LIGHT, Theme
from catdiag.util.errors import CatdiagError
from catdiag.util.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def svg(figure: Figure, theme: Theme = "auto") -> str:
    """A figure as an SVG element, with selectable text, a title and a description.

    The same figure gives the same text. All its names (`id`) begin with a digest of its contents, so that several plots
    may be in one page. With the theme "auto", a style follows the reader's preference for dark mode, and the properties
    `--catdiag-ink`, … of the page, like pictures of diagrams. Raises CatdiagError for an unknown theme.
    """
    if theme not in get_args(Theme):
        raise CatdiagError(f"there is no theme {theme!r}: expected one of {', '.join(get_args(Theme))}")
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", _drawn(figure), flags=re.DOTALL)
    text = text[text.index("<svg") :].rstrip() + "\n"
    text = re.sub(r"(?<=>)[^<>]*\$[^<>]*(?=</text>)", lambda found: _lowered(found[0]), text)
    # Shared shapes inherit their colors from where they are used, because styles do not reach into them.
    text = re.sub(r"(<defs>\s*<path [^>]*?)((?:fill|stroke): #[0-9a-f]{6};? ?)+", r"\1", text)
    text = re.sub(r"'DejaVu Sans'(?:, (?:'[^']*'|[\w-]+))*", SANS, text)
    used = set(re.findall(r'(?:href="|url\()#([^")]*)', text))
    text = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", text)
    if theme == "dark":
        text = re.sub("#[0-9a-f]{6}", lambda found: _DARK.get(found[0], ("", found[0]))[1], text)
    style = ""
    if theme == "auto":
        text, style = _followed(text)
    words = {part: escaped(" ".join(_texts_of(figure, part))) for part in (TITLE, CAPTION)}
    salt = "p" + hashlib.sha256((text + words[CAPTION]).encode()).hexdigest()[:10]

    def renamed(tag: re.Match[str]) -> str:
        return re.sub(r'(\bid="|href="#|url\(#)', lambda found: f"{found[1]}{salt}-", tag[0])

    text = re.sub(r"<[^>]*>", renamed, text)
    start = text.index(">")
    said = f'<title id="{salt}-title">{words[TITLE]}</title>\n<desc id="{salt}-desc">{words[CAPTION]}</desc>\n'
    opening = f'{text[:start]} id="{salt}" role="img" aria-labelledby="{salt}-title {salt}-desc">\n'
    return opening + said + style.replace("#_", f"#{salt}") + text[start + 1 :].lstrip("\n")


def _drawn(figure: Figure) -> str:
    """The figure as matplotlib writes it, with the marks of subscripts left in the text.

    As formulas, matplotlib would place the letters one by one, for a font that the reader may not have.
    """
    from matplotlib.text import Text

    texts = [found for found in figure.findobj(Text) if found.get_parse_math()]
    file = io.StringIO()
    with styled() as matplotlib, matplotlib.rc_context({"text.parse_math": False}):
        for found in texts:
            found.set_parse_math(False)
        try:
            nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
            figure.savefig(file, format="svg", metadata=nothing, transparent=False)
        finally:
            for found in texts:
                found.set_parse_math(True)
    return file.getvalue()


_MARKED = re.compile(r"\$([^$]*)_\{([^}]*)\}\$")


def _lowered(text: str) -> str:
    """A text with its marked subscripts lowered in SVG."""
    how = '<tspan font-style="italic">{}</tspan><tspan dy="0.22em" font-size="72%">{}</tspan><tspan dy="-0.16em">{}'
    parts = _MARKED.split(text)
    found = parts[0]
    for name, under, after in zip(parts[1::3], parts[2::3], parts[3::3]):
        found += how.format(name, under, f"{after}</tspan>")
    return found.replace("\\$", "$").replace("\\_", "_")


_DARK: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        **{light: (f"s{k}", dark) for k, (light, dark) in enumerate(zip(shades(SHADES), shades(SHADES, dark=True)))},
        **{LIGHT[name]: (name, DARK[name]) for name in reversed(COLORS)},
    }
)
"""For each color on a light background its name, and its color on a dark background."""


def _followed(text: str) -> tuple[str, str]:
    """An SVG with classes for its strokes and fills, and their style for light and dark under the id `#_`.

    The colors stay as attributes, for readers without CSS.
    """
    used: dict[tuple[str, str], None] = {}

    def marked(tag: re.Match[str]) -> str:
        names = []
        for what, color in re.findall(r'\b(fill|stroke)(?:: |=")(#[0-9a-f]{6})', tag[0]):
            if color in _DARK:
                used[what, color] = None
                names.append(f"{what[0]}-{_DARK[color][0]}")
        return f'{tag[1]} class="{" ".join(names)}"{tag[2]}' if names else tag[0]

    text = re.sub(r"(<[\w:]+)((?:\s[^>]*)?>)", marked, text)

    def rules(dark: bool) -> Iterator[str]:
        for what, color in used:
            name, other = _DARK[color]
            value = f"var(--catdiag-{name},{other if dark else color})"
            yield f"#_ .{what[0]}-{name}{{{what}:{value} !important}}"

    lines = ["<style>", "#_{max-width:100%;height:auto}", *rules(False)]
    lines += ["@media (prefers-color-scheme:dark){", *rules(True), "}", "</style>"]
    return text, "\n".join(lines) + "\n"


def _texts_of(figure: Figure, part: str) -> list[str]:
    from matplotlib.text import Text

    texts = [found.get_text() for found in figure.findobj(Text) if found.get_gid() == part]
    return [_MARKED.sub(r"\1_\2", text).replace("\\", "") for text in texts]


def _pdf(figure: Figure) -> bytes:
    file = io.BytesIO()
    with styled():
        figure.savefig(file, format="pdf", metadata={"CreationDate": None, "Producer": None, "Creator": "catdiag"})
    return file.getvalue()


def _png(figure: Figure) -> bytes:
    file = io.BytesIO()
    with styled():
        figure.savefig(file, format="png", metadata={"Software": None}, dpi=200)
    return file.getvalue()


def save(figure: Figure, path: str | Path, theme: Theme = "auto") -> None:
    """Writes a figure to a file whose name ends in .svg, .pdf or .png; the same figure gives the same bytes.

    `theme` is for SVG, as in `svg`. Raises CatdiagError for another ending, and OSError where the file cannot be
    written.
    """
    writers: dict[str, Callable[[Figure], str | bytes]] = {
        ".svg": lambda figure: '<?xml version="1.0" encoding="utf-8"?>\n' + svg(figure, theme),
        ".pdf": _pdf,
        ".png": _png,
    }
    ending = Path(path).suffix.lower()
    if ending not in writers:
        raise CatdiagError(f"cannot write a plot to {str(path)!r}: expected a name that ends in {', '.join(writers)}")
    write_whole(path, writers[ending](figure))
