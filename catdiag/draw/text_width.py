"""The size of texts, the same on every machine: no font is consulted.

The widths are those of Helvetica's letters, in thousandths of the font size, rounded up. A viewer's own font may be
slightly narrower or wider; boxes leave room for that at their sides.
"""

from __future__ import annotations

from catdiag.draw.scene import LabelRole, spans

SIZES: dict[LabelRole, float] = {
    "axis": 10.0, "array": 12.0, "body": 11.0, "title": 12.0, "level": 9.0, "note": 9.5, "code": 10.0, "number": 10.0,
}  # fmt: skip
"""The font size for each role of a text, in points."""

SUBSCRIPT = 0.72
"""The font size of a subscript relative to that of its text."""

_NARROW = {**dict.fromkeys("ijl'|.,:;!·′", 290), **dict.fromkeys("fIt()[]/ -–\\", 340), **dict.fromkeys("rs*", 480)}
_WIDE = {**dict.fromkeys("mwMW%", 880), **dict.fromkeys("√Σ∞←→↦≤≥≠∧∨=+<>×÷−∂", 640)}
_CODE = 602


def text_width(text: str, role: LabelRole = "axis") -> float:
    """The width of a text in points, subscripts included.

    >>> text_width("q") < text_width("g_q") < text_width("gqq")
    True
    """
    size = SIZES[role]
    total = 0.0
    for part, low in spans(text):
        total += sum(_letter(c, role) for c in part) * (SUBSCRIPT if low else 1.0)
    return total * size / 1000


def _letter(letter: str, role: LabelRole) -> int:
    if role in ("code", "number"):
        return _CODE
    if letter in _NARROW:
        return _NARROW[letter]
    if letter in _WIDE:
        return _WIDE[letter]
    if letter.isupper():
        return 722
    return 560 if ord(letter) < 0x2E80 else 1000
