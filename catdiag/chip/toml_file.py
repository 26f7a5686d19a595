"""Chips as TOML files: the fields that a file may have, a reader whose errors name the file and the key, and a writer.

>>> dump({"name": "mine", "sms": 2, "tensor": {"bf16": 1e12}})
'name = "mine"\\nsms = 2\\n\\n[tensor]\\nbf16 = 1000000000000.0\\n'
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from catdiag.chip.units import expected, quantity
from catdiag.util.errors import CatdiagError

UNITS: Mapping[str, str] = {
    "smem_per_sm": "B", "smem_per_block": "B", "smem_reserved": "B", "l2_bytes": "B", "llc_bytes": "B",
    "tmem_per_sm": "B", "row_bytes": "B", "hbm_bytes_per_s": "B/s", "l2_bytes_per_s": "B/s", "llc_bytes_per_s": "B/s",
    "latency_s": "s", "launch_s": "s", "dependent_launch_s": "s", "clock_hz": "Hz", "tensor": "FLOP/s",
    "sustained": "", "energy_pj_per_byte": "pJ/B",
}  # fmt: skip
"""The unit of each field that has one; the others are plain numbers."""
_MOST_ITEMS, _MOST_DOTS = 32, 300
_TABLES, _TEXTS = ("tensor", "sustained", "energy_pj_per_byte"), ("words", "sources")


def mismatch(name: str, known: Iterable[str]) -> str:
    """The text that a key is not known, with the nearest known one."""
    near = difflib.get_close_matches(name, list(known), 1)
    return "which is not known" + (f"; did you mean {near[0]!r}?" if near else "")


def read(text: str, file: str, kind: type) -> dict[str, Any]:
    """The values in a TOML text, in base units, checked against the fields of a dataclass. Raises CatdiagError."""
    import tomllib

    # The parser takes time quadratic in the number of parts of a dotted key.
    if any(line.count(".") > _MOST_DOTS for line in text.splitlines()):
        raise CatdiagError(f"{file} has a line with more than {_MOST_DOTS} dots: it is not the file of a chip")
    try:
        given = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a ValueError for an integer of too many digits, too
        raise CatdiagError(f"{file} is not valid TOML: {error}") from error
    known = {f.name: str(f.type) for f in fields(kind)}
    found: dict[str, Any] = {}
    for key, value in given.items():
        if key not in known and key != "base":
            listed = ", ".join(["base", *known])
            raise CatdiagError(f"{file}: the key {key!r}, {mismatch(key, known)} The keys are {listed}")
        if key in _TABLES or key in _TEXTS:
            found[key] = _table(file, key, value)
        elif known.get(key, "str") == "str":
            if not isinstance(value, str) or not value:
                raise CatdiagError(f"{file}: key {key!r} is {value!r}: expected a text")
            if not value.isprintable():
                raise CatdiagError(f"{file}: key {key!r} is {value!r}: expected one line that prints")
            found[key] = value
        elif known[key].startswith("tuple"):
            if not isinstance(value, list) or not 0 < len(value) <= _MOST_ITEMS:
                raise CatdiagError(f"{file}: key {key!r} is {value!r}: expected whole numbers, such as [4, 8]")
            found[key] = tuple(_number(file, key, item, whole=True) for item in value)
        else:
            found[key] = _number(file, key, value, whole=known[key] == "int")
    return found


def _table(file: str, key: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CatdiagError(f"{file}: key {key!r} is {value!r}: expected a table, [{key}]")
    for name, entry in value.items():
        if key in _TEXTS and not isinstance(entry, str):
            raise CatdiagError(f"{file}: key '{key}.{name}' is {entry!r}: expected a text")
        if key == "words" and not entry.isprintable():
            raise CatdiagError(
                f"{file}: key '{key}.{name}' is {entry!r}: expected text in one line that can be printed"
            )
    return dict(value) if key in _TEXTS else {n: _number(file, f"{key}.{n}", v) for n, v in value.items()}


def _number(file: str, key: str, value: object, whole: bool = False) -> int | float:
    unit = UNITS.get(key.split(".")[0], "")
    try:
        found = quantity(value, unit)
    except ValueError as error:
        raise CatdiagError(f"{file}: key {key!r}: {error}") from None
    if found < 0:
        raise CatdiagError(f"{file}: key {key!r} is {value!r}, which is negative: {expected(unit)}")
    if not whole:
        return float(found)
    if found != int(found):
        raise CatdiagError(f"{file}: key {key!r} is {value!r}: expected a whole number")
    return int(found)


def dump(plain: Mapping[str, Any]) -> str:
    """Plain values as TOML: scalars and lists first, then tables. Empty tables are omitted."""
    lines = [f"{_key(n)} = {_value(v)}" for n, v in plain.items() if not isinstance(v, Mapping)]
    for name, table in plain.items():
        if isinstance(table, Mapping) and table:
            lines += ["", f"[{_key(name)}]", *(f"{_key(n)} = {_value(v)}" for n, v in table.items())]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(_value, value)) + "]"
    return repr(value)
