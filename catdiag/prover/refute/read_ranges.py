"""Sizes at which what a program reads is in range: inputs on which both programs are defined are looked for there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any, TypeAlias

Sum: TypeAlias = Counter[tuple[str, ...]]
"""A polynomial of sizes: the coefficient of each product of symbols, those in order; that of () is the constant."""


def conditions_of_reads(*programs: Mapping[str, Any]) -> list[list[Any]]:
    """For each axis that is read at positions made of numbers, indices and sizes, that the largest is in it.

    A window of three, read at `i + 2` for `i < a` of an axis of size n, asks for `a + 2 <= n`:

    >>> read = {"at": {"x": ["+", ["i", "p"], 2]}, "where": True}
    >>> view = {"op": "view", "axes": [["p", "a"]], "args": [0], "reads": [read]}
    >>> conditions_of_reads({"inputs": [{"axes": [["x", "n"]]}], "nodes": [view]})
    [['le', ['+', 2, 'a'], 'n']]
    """
    found: dict[str, list[Any]] = {}
    for program in programs:
        sizes = dict(_axes(program))
        for node in program["nodes"]:
            for read in node["reads"] if node["op"] == "view" else ():
                for axis, at in read["at"].items():
                    largest = _largest(at, sizes)
                    if largest is not None and axis in sizes:
                        condition = _at_most(largest + Counter({(): 1}), sizes[axis])
                        found.setdefault(str(condition), condition)
    return [c for c in found.values() if c[1] != c[2] and c[1] not in (0, 1)]


def _axes(program: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The axes of inputs and of reads, with their sizes."""
    for holder in (*program["inputs"], *(node for node in program["nodes"] if node["op"] == "view")):
        yield from ((name, size) for name, size in holder["axes"])


def _largest(at: Any, sizes: Mapping[str, Any]) -> Sum | None:
    """The largest value of a position, in sizes; None where it is read in an array, or is divided.

    In a product, one factor at most has an index.
    """
    terms = _terms(at)
    if terms is None:
        return None
    total: Sum = Counter()
    for (indices, symbols), n in terms.items():
        if len(indices) > 1 or not {*indices} <= sizes.keys():
            return None
        part: Sum = Counter({symbols: n})
        if indices and n < 0:
            continue  # at index 0
        if indices:
            part = _product(part, _added(_polynomial(sizes[indices[0]]), Counter({(): -1})))
        total = _added(total, part)
    return total


def _terms(at: Any) -> Counter[tuple[tuple[str, ...], tuple[str, ...]]] | None:
    """A position as a polynomial of indices and sizes."""
    if isinstance(at, int):
        return Counter({((), ()): at})
    if isinstance(at, str):
        return Counter({((), (at,)): 1})
    if at[0] == "i":
        return Counter({((at[1],), ()): 1})
    parts = [_terms(part) for part in at[1:]] if at[0] in ("+", "*") else [None]
    if any(part is None for part in parts):
        return None
    if at[0] == "+":
        return reduce(_added, (part for part in parts if part is not None))
    product: Counter[Any] = Counter({((), ()): 1})
    for part in parts:
        product = _merged(product, part or Counter())
    return product


def _merged(a: Counter[Any], b: Counter[Any]) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for (i, s), n in a.items():
        for (j, t), m in b.items():
            found[tuple(sorted((*i, *j))), tuple(sorted((*s, *t)))] += n * m
    return found


def _polynomial(size: Any) -> Sum:
    """A size as a polynomial of symbols."""
    if isinstance(size, int):
        return Counter({(): size})
    if isinstance(size, str):
        return Counter({(size,): 1})
    one, other = _polynomial(size[1]), _polynomial(size[2])
    return _added(one, other) if size[0] == "+" else _product(one, other)


def _added(a: Counter[Any], b: Counter[Any]) -> Counter[Any]:
    found = Counter(a)
    for key, n in b.items():
        found[key] += n
    return found


def _product(a: Sum, b: Sum) -> Sum:
    found: Sum = Counter()
    for s, n in a.items():
        for t, m in b.items():
            found[tuple(sorted((*s, *t)))] += n * m
    return found


def _at_most(least: Sum, size: Any) -> list[Any]:
    """That a sum is at most a size, without negative numbers."""
    gap = _added(_polynomial(size), Counter({key: -n for key, n in least.items()}))
    return ["le", _data({k: -n for k, n in gap.items() if n < 0}), _data({k: n for k, n in gap.items() if n > 0})]


def _data(found: Mapping[tuple[str, ...], int]) -> Any:
    """A polynomial without negative coefficients, as core programs have it."""
    terms = [
        reduce(lambda a, b: ["*", a, b], ([n] if n != 1 or not symbols else []) + list[Any](symbols))
        for symbols, n in sorted(found.items())
    ]
    return reduce(lambda a, b: ["+", a, b], terms) if terms else 0
