"""The canonical order of the binders of nested reductions: by their ranges, then by how the body uses them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from math import factorial, prod

from catdiag.kernel.terms import Term

_MOST_ORDERS = 720


def canonical_order(sizes: list[Term], body: Term, names: list[str]) -> tuple[int, ...]:
    """The order of binders, given by their ranges and their names in the body.

    Binders are colored by their range, and by where they occur in the body next to binders of other colors (color
    refinement). If too many binders have equal colors, one of their orders is taken.
    """
    colors = {name: n.key for name, n in zip(names, sizes, strict=True)}
    for _ in range(3):
        colors = {name: _keyed(body, {**colors, name: f"*{colors[name]}"}) for name in names}
        ranks = {key: k for k, key in enumerate(sorted(set(colors.values())))}
        colors = {name: f"{sizes[k].key} {ranks[colors[name]]:04}" for k, name in enumerate(names)}
        if len(ranks) == len(names):
            break
    sorted_ = [colors[name] for name in names]
    some = tuple(sorted(range(len(names)), key=lambda k: sorted_[k]))
    return min(_orders(sorted_), key=lambda order: _chain_key(sizes, body, names, order), default=some)


def _orders(colors: list[str]) -> Iterator[tuple[int, ...]]:
    """The orders of binders by color; those of one color in every order, unless these are too many."""
    groups: dict[str, list[int]] = {}
    for k, color in enumerate(colors):
        groups.setdefault(color, []).append(k)
    if prod(factorial(len(group)) for group in groups.values()) > _MOST_ORDERS:
        return
    for parts in product(*(permutations(groups[key]) for key in sorted(groups))):
        yield tuple(k for part in parts for k in part)


def _chain_key(sizes: list[Term], body: Term, names: list[str], order: tuple[int, ...]) -> tuple[list[str], str]:
    renamed = {names[old]: f"%k{new}" for new, old in enumerate(order)}
    return [sizes[k].key for k in order], _keyed(body, renamed)


def _keyed(t: Term, names: dict[str, str]) -> str:
    """A text of a term with its indices renamed, which does not depend on the order of factors and summands."""
    if t.op == "idx":
        return names.get(str(t.data), str(t.data))
    parts = [_keyed(a, names) for a in t.args]
    if t.op in ("add", "mul", "max", "and", "or", "eq"):
        parts.sort()
    return f"{t.op}:{t.data}({','.join(parts)})"
