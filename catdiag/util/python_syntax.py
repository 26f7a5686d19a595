"""Python's syntax trees, read from several threads at once."""

from __future__ import annotations

import ast
from functools import lru_cache

_TRIES = 100


@lru_cache(maxsize=4)
def parse(text: str) -> ast.Module:
    """The syntax tree of a module's text, as `ast.parse` gives it; not to be changed, since the same text gives the
    same tree: that of a module with many kernels is asked for once for each.

    Before Python 3.13 all threads share the counter by which `ast.parse` checks itself, so that in one thread it may
    raise SystemError ("AST constructor recursion depth mismatch") because another one is parsing
    (https://github.com/python/cpython/issues/106905). The tree is then read again. Raises SyntaxError for a text that
    is no Python.

    >>> len(parse("a = 1").body)
    1
    """
    for _ in range(_TRIES):
        try:
            return ast.parse(text)
        except SystemError as error:
            if "recursion depth mismatch" not in str(error):
                raise
    return ast.parse(text)
