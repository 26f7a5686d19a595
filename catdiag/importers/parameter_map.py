"""Weights shared by name: `q.weight=qkv.weight[0:12]` says which part of one module's tensor is another module's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import EllipsisType
from typing import Any

from catdiag.importers.example import NotImported

_ENTRY = re.compile(r"\s*([\w.]+)\s*=\s*([\w.]+)\s*(?:\[([^\]]*)\])?\s*")
_INDEX = re.compile(r"-?\d+")
_SLICE = re.compile(r"(-?\d*):(-?\d*)(?::(\d*))?")
Index = int | slice | EllipsisType


def parameter_map(entries: Sequence[str]) -> Callable[[dict[str, Any]], Mapping[str, Any]]:
    """From the tensors of one module, by name, to those of another, as entries say: a name, `=`, the other module's
    name, and a part of it as NumPy writes one, if not all.

    >>> import numpy as np
    >>> made = parameter_map(["q.weight=qkv.weight[0:2]", "scale=norm.weight"])
    >>> found = made({"qkv.weight": np.eye(6), "norm.weight": np.ones(3)})
    >>> found["q.weight"].shape, found["scale"].shape
    ((2, 6), (3,))

    Raises NotImported for an entry that cannot be read; the function raises it for a name that there is not.
    """
    read = [_entry(entry) for entry in entries]

    def made(tensors: dict[str, Any]) -> dict[str, Any]:
        found = {}
        for name, source, part in read:
            if source not in tensors:
                raise NotImported(f"--map {name}={source}: there is no {source!r}; there are {', '.join(tensors)}")
            found[name] = tensors[source][part] if part else tensors[source]
        return found

    return made


def _entry(text: str) -> tuple[str, str, tuple[Index, ...]]:
    match = _ENTRY.fullmatch(text)
    if match is None:
        raise NotImported(f"{text!r} maps no weight: expected NAME=NAME or NAME=NAME[0:12, :]")
    name, source, part = match.groups()
    return name, source, () if part is None else tuple(_index(word.strip(), text) for word in part.split(","))


def _index(word: str, entry: str) -> Index:
    if word in ("...", "…"):
        return ...
    if _INDEX.fullmatch(word):
        return int(word)
    match = _SLICE.fullmatch(word)
    if match is None:
        raise NotImported(f"{word!r} in {entry!r} is no part of a dimension: expected an index, or as in 0:12")
    return slice(*(int(n) if n else None for n in match.groups()))
