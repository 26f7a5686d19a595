"""PDF and PNG from SVG by the converter of the extra `draw`, without a browser or a system library.

The converter includes a sans-serif font of its own.
"""

from __future__ import annotations

import re
from types import ModuleType

from catdiag.util.errors import CatdiagError

LARGEST = 16_000
"""The longest side of a PNG, in pixels."""

# The converter sets a whole text in another font if its own lacks one of the letters, such as these two.
_LIKE = {"∧": '<tspan font-size="0.8em">Λ</tspan>', "∨": '<tspan font-size="0.8em">V</tspan>'}
_TEXT = re.compile(r"<text\b.*?</text>", re.DOTALL)
_WORDS = re.compile(r"(?<=>)[^<>]*[∧∨][^<>]*(?=<)")


def pdf(svg: str) -> bytes:
    """A picture as PDF with one page of its size and selectable text. `svg` has a fixed theme, "light" or "dark".

    Raises CatdiagError where the converter is not installed, or cannot read the SVG.
    """
    converter = _converter()
    try:
        written: bytes = converter.svg_to_pdf(_readable(svg))
    except ValueError as error:
        raise CatdiagError(f"the SVG cannot be converted to PDF: {error}") from None
    return written


def png(svg: str, scale: float = 2.0) -> bytes:
    """A picture as PNG, at `scale` times its size in pixels on a screen of 96 dots per inch (4/3 pixels per point).

    Raises CatdiagError where the converter is not installed or cannot read the SVG, and for a scale that is not
    positive, or gives a picture of more than 16,000 pixels a side.
    """
    width, height = _size(svg)
    if not 0 < scale < float("inf"):
        raise CatdiagError(f"the scale is {scale:g}: expected a number above 0")
    longest = max(width, height) * scale * 4 / 3
    if longest > LARGEST:
        raise CatdiagError(
            f"a PNG at scale {scale:g} would have {longest:.0f} pixels a side, and {LARGEST} are the most: "
            f"expected a scale of at most {LARGEST / (longest / scale):.2g}, or write PDF"
        )
    converter = _converter()
    try:
        written: bytes = converter.svg_to_png(_readable(svg), scale=scale)
    except ValueError as error:
        raise CatdiagError(f"the SVG cannot be converted to PNG: {error}") from None
    return written


def _readable(svg: str) -> str:
    """The SVG with letters that the converter's font has.

    >>> _readable('<text x="1">a ∧ b</text>')
    '<text x="1">a <tspan font-size="0.8em">Λ</tspan> b</text>'
    """

    def words(found: re.Match[str]) -> str:
        return "".join(_LIKE.get(letter, letter) for letter in found[0])

    return _TEXT.sub(lambda found: _WORDS.sub(words, found[0]), svg)


def _converter() -> ModuleType:
    try:
        import vl_convert
    except ImportError:
        raise CatdiagError(
            "PDF and PNG need a converter that is not installed: pip install 'catdiag[draw]' (or write SVG or TikZ)"
        ) from None
    found: ModuleType = vl_convert
    return found


def _size(svg: str) -> tuple[float, float]:
    """The width and the height of an SVG document in points, from its view box."""
    from xml.etree import ElementTree

    try:
        box = [float(part) for part in ElementTree.fromstring(svg).get("viewBox", "").split()]
    except (ElementTree.ParseError, ValueError):
        box = []
    if len(box) != 4:
        raise CatdiagError("this is not an SVG with a viewBox: expected a text that `svg` writes")
    return box[2], box[3]
