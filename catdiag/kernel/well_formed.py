"""Whether data has the form of a core program, before anything is read from it.

The readers of `semantics` take every field at its word: a string where a list of axes belongs would be read letter
by letter, a name with `%` could be that of an index the kernel makes, and two names that look or are read alike
could be taken for one. So forms are checked first, in one place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from catdiag.kernel.terms import KernelError, is_name, size_term

ELEMENTS = ("real", "extended", "int", "bool")
BODIES = ("unit", "step", "merge", "state", "extent", "live", "body")
GUIDES = BODIES[4:6]
"""Bodies that a fold may have or not."""
MOST, DEEPEST, LONGEST = 1_000_000, 400, 14_000
"""The most items of a certificate, the deepest that one may lie, and the most bits or letters that one may have."""
_NUMBER = re.compile(r"-?[0-9]{1,4000}(/[0-9]{1,4000})?|-inf", re.ASCII)
# f.stream('x', passes=2).group('q'): there is no way to end the quotes or parentheses and go on with an equation.
_ITEM = r"(?:'[A-Za-z0-9_ +()]{0,500}'|[a-z]{1,40}=[A-Za-z0-9_…]{1,40})"
_TITLE = re.compile(rf"[A-Za-z0-9_]{{1,500}}(?:\.[a-z]{{1,40}}\((?:{_ITEM}(?:, {_ITEM}){{0,20}})?\)){{0,200}}")


def _require(holds: bool, expected: str, found: Any) -> None:
    if not holds:
        raise KernelError(f"expected {expected}, found {str(found)[:80]}")


def bounded(data: Any) -> None:
    """Raises KernelError unless data is plain: texts, integers, lists and objects, not too many, large or deep.

    A tuple is not: what JSON would read as a list, but readers that tell the two apart would leave as it is.
    """
    stack, count = [([data], 0)], 0
    while stack:
        items, depth = stack.pop()
        count += len(items)
        # What is expected is written out only where it is not so: these are most of what a check looks at.
        if count > MOST or depth > DEEPEST:
            _require(False, f"at most {MOST} items, {DEEPEST} deep", "more")
        for item in items:
            kind = type(item)
            if kind is dict:
                _require(all(type(key) is str for key in item), "texts as names of fields", sorted(map(str, item)))
                inside = [*item, *item.values()]
            elif kind is list:
                inside = item
            else:
                _require(item is None or kind in (str, int, bool), "plain data", kind.__name__)
                long = len(item) if kind is str else (item or 0).bit_length()
                if long > LONGEST:
                    _require(False, f"at most {LONGEST} bits or letters", f"{long}")
                continue
            if inside:
                stack.append((inside, depth + 1))


def _list(data: Any, expected: str) -> list[Any]:
    _require(isinstance(data, list), f"a list of {expected}", data)
    return list(data)


def name(data: Any) -> None:
    """A name of an input, an axis, a size or a function, as `terms.is_name` says."""
    _require(is_name(data), "a name that is an identifier", repr(data))


def _function(data: Any) -> None:
    """A scalar function: one that `semantics` knows, by its word, or `apply:` and a name."""
    _require(isinstance(data, str) and (data.isidentifier() or data.startswith("apply:")), "a function", repr(data))
    if data.startswith("apply:"):
        name(data[6:])


def _monoid(data: Any) -> None:
    _require(isinstance(data, str) and data.isidentifier(), "a monoid", repr(data))


def is_title(data: Any) -> bool:
    """Whether data is a title: the name of a program, and after it the steps that it was derived by; or nothing."""
    if not isinstance(data, str):
        return data is None
    return data == "" or (is_name(data.partition(".")[0]) and _TITLE.fullmatch(data) is not None)


def _pair(data: Any) -> None:
    _require(isinstance(data, list) and len(data) == 2, "a pair", data)


def _pairs(data: Any) -> None:
    for item in _list(data, "pairs of names"):
        _pair(item)
        name(item[0])
        name(item[1])
    _require(len({item[0] for item in data}) == len(data), "different names", data)


def _axis(data: Any) -> None:
    _pair(data)
    name(data[0])
    size_term(data[1])


def _axes(data: Any) -> None:
    for item in _list(data, "axes"):
        _axis(item)


def _wires(data: Any) -> None:
    for item in _list(data, "wires"):
        _wire(item)


def _wire(data: Any) -> None:
    _require(type(data) is int and data >= 0, "a wire", data)


def _number(data: Any) -> None:
    _require(isinstance(data, str) and _NUMBER.fullmatch(data) is not None, 'a number as text, "p/q" or "-inf"', data)
    _require("/" not in data or int(data.split("/")[1]) != 0, "a divisor other than 0", data)


def _expression(data: Any) -> None:
    if isinstance(data, str):
        name(data)
    elif type(data) is not int:
        _require(isinstance(data, list) and data[:1] != [], "an expression of indices", data)
        if data[0] in ("i", "w"):
            _pair(data)
            (name if data[0] == "i" else _wire)(data[1])
        else:
            _require(data[0] in ("+", "*", "//") and len(data) == 3, "an expression of indices", data)
            _expression(data[1])
            _expression(data[2])


def _reads(data: Any) -> None:
    for item in _list(data, "reads"):
        _require(isinstance(item, Mapping) and set(item) == {"at", "where"}, "a read with at, where", item)
        _require(isinstance(item["at"], Mapping), "expressions by axis", item["at"])
        for axis, at in item["at"].items():
            name(axis)
            _expression(at)
        for c in _list(item["where"], "conditions"):
            _require(isinstance(c, list) and len(c) == 3 and c[0] in ("lt", "le", "eq"), "a comparison", c)
            _expression(c[1])
            _expression(c[2])


def _program(data: Any) -> None:
    """Bodies are looked at in their turn."""


_FIELDS: dict[str, dict[str, Callable[[Any], object]]] = {
    "map": {"fn": _function, "args": _wires},
    "reduce": {"monoid": _monoid, "axis": name, "args": _wires},
    "view": {"args": _wires, "axes": _axes, "reads": _reads},
    "index": {"axis": _axis},
    "size": {"size": size_term},
    "const": {"value": _number},
    "fold": {"axis": name, "block": name, "args": _wires, **dict.fromkeys(BODIES[:6], _program)},
    "group": {"tiles": _pairs, "args": _wires, "body": _program},
}


def well_formed(program: Any) -> None:
    """Raises KernelError where data is no core program by its form. Wires, axes and sizes are left to `semantics`."""
    stack = [program]
    while stack:
        data = stack.pop()
        _require(isinstance(data, Mapping), "a program", data)
        fields = {"inputs", "nodes", "outputs"}
        _require(fields <= set(data) <= fields | {"title"}, "a program", data)
        _require(is_title(data.get("title")), "a name as title", repr(data.get("title")))
        for declared in _list(data["inputs"], "inputs"):
            _require(isinstance(declared, Mapping), "an input", declared)
            _require(set(declared) == {"name", "axes", "element"}, "an input", declared)
            name(declared["name"])
            _axes(declared["axes"])
            _require(declared["element"] in ELEMENTS, f"one of {', '.join(ELEMENTS)}", declared["element"])
        names = [declared["name"] for declared in data["inputs"]]
        _require(len(set(names)) == len(names), "inputs of different names", names)
        for node in _list(data["nodes"], "nodes"):
            _require(isinstance(node, Mapping) and isinstance(node.get("op"), str), "a node", node)
            checks = _FIELDS.get(node["op"])
            if checks is None:
                raise KernelError(f"no box {node['op']!r}")
            expected, given = {"op", *checks}, set(node)
            _require(given <= expected, f"a {node['op']} with {', '.join(checks)}", sorted(map(str, node)))
            _require(
                expected <= given | set(GUIDES), f"a {node['op']} with {', '.join(checks)}", sorted(map(str, node))
            )
            for field in sorted(given - {"op"}):
                checks[field](node[field])
            stack.extend(node[field] for field in BODIES if field in given)
        for output in _list(data["outputs"], "outputs"):
            _pair(output)
            _wire(output[0])
            _require(output[1] in ELEMENTS, f"one of {', '.join(ELEMENTS)}", output[1])
