"""Names of a package that are imported when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package that has names of other modules: `homes` are these, separated by
    spaces, by module. The first raises AttributeError for any other name.

    >>> find, _ = lazy_names("catdiag.util", {"fractions": "Fraction"})
    >>> find("Fraction")(1, 2)
    Fraction(1, 2)
    """
    home = {name: module for module, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home[name]), name)

    return find, lambda: sorted({*vars(sys.modules[package]), *home})
