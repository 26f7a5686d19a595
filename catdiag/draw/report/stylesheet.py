"""The style of pages and notebook displays: for light and dark, for screens and for paper."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from catdiag.draw.report.html import Html


@cache
def shared() -> Html:
    """The style of parts, all of it under the class `catdiag`.

    >>> ".catdiag table{" in shared()
    True
    """
    return _read("shared.css")


@cache
def of_pages() -> Html:
    """The style of pages: that of parts, and of the layout around them."""
    return Html(shared() + _read("page.css"))


def _read(name: str) -> Html:
    text = files("catdiag.draw.report").joinpath(name).read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"\s+", " ", text)
    return Html(re.sub(r"\s*([{};,])\s*", r"\1", text).replace(": ", ":").replace(";}", "}").strip() + "\n")
