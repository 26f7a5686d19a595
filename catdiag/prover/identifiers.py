"""Names as certificates have them: identifiers of ASCII letters, different for different names.

`identifier` takes any name of an axis, a size, an input or a function to one, and `name_of` takes that back. A name
that is such an identifier already stays as it is: what is added is marked by two underscores, and a name that has these
itself has them marked too. A word of formulas gets a mark of its own.

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
# A single underscore between letters or digits, or at an end, is none of a mark.
_MARKED = re.compile(r"[A-Za-z0-9]|(?<![^A-Za-z0-9])_(?=[A-Za-z0-9]|\Z)|(.)", re.ASCII | re.DOTALL)
_MARK = re.compile(r"__(by|plus|space|open|close|prime|under|u[0-9a-f]{1,6})__")
_GROUP = re.compile(r"\(([^() ]+(?: [^() ]+)+)\)")


@lru_cache(maxsize=4096)
def identifier(name: str) -> str:
    """The identifier for a name."""
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
    """The name that an identifier is for."""
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
    """What goes by names, by their identifiers."""
    return {identifier(name): value for name, value in named.items()}


def title(text: str) -> str:
    """A title as certificates have it: the name of a program and the steps by which it was derived, else nothing.

    >>> title("softmax.stream('x', passes=2)"), title("a + b"), title("stripes.stream('\u03b1')")
    ("softmax.stream('x', passes=2)", '', "stripes.stream('__u3b1__')")
    """
    begun, dot, steps = text.partition(".")
    derived = re.sub(r"[^\x00-\x7f\u2026]", lambda m: f"__u{ord(m[0]):x}__", steps)
    found = identifier(begun) + dot + derived if begun.isidentifier() else ""
    return found if is_title(found) else ""


__all__ = ["by_identifier", "identifier", "name_of", "title"]
