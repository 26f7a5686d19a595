"""Exponents with which sources cover the indices of a case: the vertices of the covering polytope.

An index is covered by exponents of sum 1 or more among the sources that have it; what is left uncovered counts by its
size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations

from catdiag.bounds.bound_certificate import Exponents

OPERANDS = 6
"""The most operands of a box whose symmetries are searched."""


def cover(indices: Sequence[str], covers: Sequence[Sequence[str]]) -> tuple[tuple[Fraction, ...], Exponents] | None:
    """Exponents of least sum with which sources cover indices, and sizes for indices that none covers.

    >>> cover(("q", "x"), [("q",), ("x",)])
    ((Fraction(1, 1), Fraction(1, 1)), ())
    """
    if len(covers) > OPERANDS:
        return None
    open_ = [i for i in indices if not any(i in names for names in covers)]
    full = [v for v, boxes in vertices([i for i in indices if i not in open_], covers) if not boxes]
    if not full:
        return None
    least = min(sum(v, Fraction(0)) for v in full)
    best = [v for v in full if sum(v, Fraction(0)) == least]
    middle = tuple(sum(column, Fraction(0)) / len(best) for column in zip(*best, strict=True))
    whole = [v for v in best if all(e.denominator == 1 for e in v)]
    return (whole[0] if whole else middle), tuple((i, Fraction(1)) for i in open_)


def exponents_of(
    indices: Sequence[str], covers: Sequence[Sequence[str]]
) -> Iterator[tuple[tuple[Fraction, ...], Exponents]]:
    """The exponents to try for the sources of a case: the vertices of the covering polytope, and the means of
    those of equal sums; with sizes for what they leave uncovered."""
    corners = vertices(indices, covers)
    yield from corners
    middles: dict[tuple[Fraction, Exponents], list[tuple[Fraction, ...]]] = {}
    for powers, boxes in corners:
        middles.setdefault((sum(powers, Fraction(0)), boxes), []).append(powers)
    for (_, boxes), several in middles.items():
        if len(several) > 1:
            yield tuple(sum(column, Fraction(0)) / len(several) for column in zip(*several, strict=True)), boxes


def vertices(indices: Sequence[str], covers: Sequence[Sequence[str]]) -> list[tuple[tuple[Fraction, ...], Exponents]]:
    """The vertices of the polytope of exponents that cover the indices, with sizes for what sources leave uncovered.

    >>> [v for v, boxes in vertices("ijk", ["ik", "kj", "ij"]) if not boxes and len(set(v)) == 1]
    [(Fraction(1, 2), Fraction(1, 2), Fraction(1, 2)), (Fraction(1, 1), Fraction(1, 1), Fraction(1, 1))]
    """
    n = len(covers)
    rows = {tuple(int(i in names) for names in covers) for i in indices}
    planes = [(row, Fraction(1)) for row in sorted(rows, reverse=True) if any(row)]
    for j in range(n):
        unit = tuple(int(k == j) for k in range(n))
        planes += [(unit, Fraction(0))] + ([] if (unit, Fraction(1)) in planes else [(unit, Fraction(1))])
    found: dict[tuple[Fraction, ...], Exponents] = {}
    for chosen in combinations(planes, n):
        point = _meet(chosen)
        if point is None or point in found or any(e < 0 or e > 1 for e in point):
            continue
        boxes = []
        for i in indices:
            covered = sum((e for e, names in zip(point, covers, strict=True) if i in names), Fraction(0))
            if covered < 1:
                boxes.append((i, 1 - covered))
        found[point] = tuple(boxes)
    return sorted(found.items())


def _meet(planes: Sequence[tuple[Sequence[int], Fraction]]) -> tuple[Fraction, ...] | None:
    """The point where as many planes as unknowns meet; None where there is not exactly one."""
    n = len(planes)
    rows = [[*map(Fraction, normal), value] for normal, value in planes]
    for k in range(n):
        pivot = next((r for r in range(k, n) if rows[r][k]), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [v / rows[k][k] for v in rows[k]]
        for r in range(n):
            if r != k and rows[r][k]:
                rows[r] = [a - rows[r][k] * b for a, b in zip(rows[r], rows[k], strict=True)]
    return tuple(row[n] for row in rows)
