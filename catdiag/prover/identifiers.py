"""Identifiers: an injective encoding of names as ASCII identifiers, as certificates have them.

`identifier` encodes any name of an axis, a size, an input or a function; `name_of` decodes it. A name that is a plain
ASCII identifier stays as it is. Encoded characters are marked by two underscores; underscores in a name that look like
a mark are encoded too, and so are reserved words of formulas.

>>> [identifier(name) for name in ("x", "(c k)", "x+y", "128", "m\u2032", "exp")]
['x', 'c__by__k', 'x__plus__y', 'axis__128', 'm__prime__', 'name__exp']
>>> [name_of(identifier(name)) for name in ("(c k)", "1+x+1", "a__b", "((a b) c)", "\u03b1_", "result2")]
['(c k)', '1+x+1', 'a__b', '((a b) c)', '\u03b1_', 'result2']
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TypeVar

from catdiag.kernel.terms import is_name
from catdiag.kernel.well_formed import is_title

V = TypeVar("V")
_WORDS = {"+": "plus", " ": "space", "(": "open", ")": "close", "\u2032": "prime", "_": "under"}
_LETTERS = {word: letter for letter, word in _WORDS.items()}
# A single underscore between letters or digits, or at an end, is no part of a mark.
_MARKED = re.compile(r"[A-Za-z0-9]|(?<![^A-Za-z0-9])_(?=[A-Za-z0-9]|\Z)|(.)", re.ASCII | re.DOTALL)
_MARK = re.compile(r"__(by|plus|space|open|close|prime|under|u[0-9a-f]{1,6})__")
_GROUP = re.compile(r"\(([^() ]+(?: [^() ]+)+)\)")


@lru_cache(maxsize=4096)
def identifier(name: str) -> str:
    """The identifier of a name."""
    group = _GROUP.fullmatch(name)
    if group is not None:
        parts = [_marked(part) for part in group[1].split(" ")]
        text = "__by__".join(parts)
    else:
        text = _marked(name)
    if text[:1].isdigit():
        text = "axis__" + text
    return text if is_name(text) else "name__" + text


def _marked(name: str) -> str:
    return _MARKED.sub(lambda m: m[0] if m[1] is None else f"__{_WORDS.get(m[1], f'u{ord(m[1]):x}')}__", name)


def name_of(text: str) -> str:
    """The name that an identifier encodes."""
    numbered = text.startswith("axis__") and text[6:7].isdigit()
    if numbered or (text.startswith("name__") and not is_name(text[6:])):
        text = text[6:]
    group = any(m[1] == "by" for m in _MARK.finditer(text))

    def letter(m: re.Match[str]) -> str:
        word = m[1]
        return " " if word == "by" else _LETTERS[word] if word in _LETTERS else chr(int(word[1:], 16))

    found = _MARK.sub(letter, text)
    return f"({found})" if group else found


def by_identifier(named: Mapping[str, V]) -> dict[str, V]:
    """A mapping from names as one from their identifiers."""
    return {identifier(name): value for name, value in named.items()}


def title(text: str) -> str:
    """A title as certificates have it: the name of a program and the steps of its derivation; empty for other texts.

    >>> title("softmax.stream('x', passes=2)"), title("a + b"), title("stripes.stream('\u03b1')")
    ("softmax.stream('x', passes=2)", '', "stripes.stream('__u3b1__')")
    """
    begun, dot, steps = text.partition(".")
    derived = re.sub(r"[^\x00-\x7f\u2026]", lambda m: f"__u{ord(m[0]):x}__", steps)
    found = identifier(begun) + dot + derived if begun.isidentifier() else ""
    return found if is_title(found) else ""


__all__ = ["by_identifier", "identifier", "name_of", "title"]
