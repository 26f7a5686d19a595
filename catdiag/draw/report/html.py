"""HTML that is escaped where it is made: markup is a type of its own, and every other text is escaped.

>>> tag("p", "a < b", tag("b", "&"), class_="note")
'<p class="note">a &lt; b<b>&amp;</b></p>'
>>> tag("details", open_=True)
'<details open></details>'
"""

from __future__ import annotations

import re
from collections.abc import Iterable


class Html(str):
    """Text that is markup."""

    __slots__ = ()


# Characters that HTML does not allow in a text, and lone surrogates, which cannot be encoded.
_NONE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff]")
_VOID = {"meta", "br", "hr", "col", "wbr"}


def escaped(text: str) -> Html:
    """A text as markup; markup is unchanged. Characters that HTML does not allow become the replacement character.

    >>> escaped("<b>\\0</b>"), escaped(Html("<b>"))
    ('&lt;b&gt;\ufffd&lt;/b&gt;', '<b>')
    """
    if isinstance(text, Html):
        return text
    text = _NONE.sub("\ufffd", text)
    return Html(text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;"))


def joined(parts: Iterable[str], between: str = "") -> Html:
    """Parts in sequence, escaped, with a text between them."""
    return Html(escaped(between).join(map(escaped, parts)))


def tag(name: str, /, *children: str, **attributes: str | int | bool | None) -> Html:
    """An element.

    Attribute names have `_` for `-`, and a final `_` is dropped; attributes that are None or False are left out.
    """
    said = []
    for key, value in attributes.items():
        word = key.rstrip("_").replace("_", "-")
        if value is True:
            said.append(f" {word}")
        elif value is not None and value is not False:
            # Quotes are escaped in markup too, because an attribute is text.
            said.append(f' {word}="{escaped(str.__str__(str(value)))}"')
    opened = f"<{name}{''.join(said)}>"
    return Html(opened if name in _VOID else f"{opened}{joined(children)}</{name}>")


def table(
    head: Iterable[str], rows: Iterable[Iterable[str]], caption: str = "", numbers: Iterable[int] = (), label: str = ""
) -> Html:
    """A table with a heading for each column; the first cell of each row is its heading.

    `numbers` are the columns of numbers, aligned right. `caption` is printed; `label` is for screen readers only.

    >>> table(["array", "bytes"], [["Q", "64"]], numbers=[1])
    '<table><thead><tr><th scope="col">array</th><th scope="col" class="n">bytes</th></tr></thead>\
<tbody><tr><th scope="row">Q</th><td class="n">64</td></tr></tbody></table>'
    """
    right = set(numbers)
    columns = [tag("th", text, scope="col", class_="n" if k in right else None) for k, text in enumerate(head)]
    body = []
    for row in rows:
        cells = [
            tag("th", cell, scope="row") if k == 0 else tag("td", cell, class_="n" if k in right else None)
            for k, cell in enumerate(row)
        ]
        body.append(tag("tr", *cells))
    parts = [tag("caption", caption)] if caption else []
    if columns:
        parts.append(tag("thead", tag("tr", *columns)))
    return tag("table", *parts, tag("tbody", *body), aria_label=label or None)


def listed(items: Iterable[str]) -> Html:
    """A list with one item per line."""
    return tag("ul", *(tag("li", item) for item in items))


def folded(summary: str, *children: str, open_: bool = False) -> Html:
    """A part that opens by a click or a key."""
    return tag("details", tag("summary", summary), *children, open_=open_)
