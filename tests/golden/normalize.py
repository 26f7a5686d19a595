"""What of a text is left out of comparisons: what differs from run to run, or when a file is moved."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[2])

_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), put)
    for pattern, put in (
        # Where this checkout is.
        (re.escape(ROOT) + r"/?", ""),
        # A line of one of the library's own files: the file's name stays, its folder and the line do not.
        (r"\bcatdiag/(?:\w+/)*(\w+\.py):\d+", r"\1:N"),
        # Measured times: "proved in 0.25 s", "(bytes; z3, 16 ms)", "stream x: 12 ms", "3.22 s of computing".
        (r"(?<= in )\d+\.\d\d s\b", "N s"),
        (r"(?<=z3, )\d+ ms|(?<=: )\d+ ms(?=\n|$)", "N ms"),
        (r"\d+\.\d\d s (?=of computing|of it for proofs)", "N s "),
        # In JSON. Predicted times are called `time_s`, and stay.
        (r'("(?:seconds|computing|proofs)": )[-+.\de]+', r"\1N"),
        # Versions.
        (r"\bcatdiag \d+\.\d+\.\d+\b", "catdiag N"),
        (r"\b(z3|cvc5) \d+(?:\.\d+)+", r"\1 N"),
        (r"(\"(?:z3|cvc5)\": )\"\d+(?:\.\d+)+\"", r'\1"N"'),
        (r"\bPython \d+(?:\.\d+)+", "Python N"),
    )
)


def normalized(text: str) -> str:
    """The text without the place of this checkout, lines of the library's files, measured times, and versions.

    Everything else is compared, letter by letter.
    """
    for pattern, put in _RULES:
        text = pattern.sub(put, text)
    return text
