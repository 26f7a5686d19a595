"""Factoring of sums of products: as few and as small contractions as the axes of the factors allow.

A term `Σ_d Π factors` is decomposed by axes. Factors that share no summed axis become separate sums. The others are put
on *sides*: two factors are on one side if one of them has all the free (not summed) axes of the other.

    one side     Σ_d w[d]·q[q d]²             an elementwise product and a reduction
    two sides    Σ_d (w[d]·q[q d])·k[x d]     a matrix product of the products of each side
    several axes Σ_d Σ_e q[q d]·m[d e]·k[x e] = Σ_e (Σ_d q·m)·k: first the sum that leaves the fewest axes

Terms with the same two sides form one bilinear form `Σ_ij c_ij·L_i·R_j` of the products L_i of one side and R_j of the
other. It needs as many matrix products as the rank of c, and no fewer with rational combinations (rank factorization of
a matrix; derived here).

Sums with one side come first, and among them first those that a loop would recompute for each tile, so that they can be
a kernel of their own that runs once. Where there are other terms they are kept in fp32, so that terms that cancel are
not rounded to the input type when they are saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from catdiag.category.scalars import Cast
from catdiag.rewrite.hash_consed_graph import HashConsedGraph
from catdiag.rewrite.stream.separable_form import Form, Monomial, SeparableTerm, collect, times

Sides = tuple[Monomial, ...]


def factored(matrix: Sequence[Sequence[Fraction]]) -> list[tuple[Fraction, list[Fraction], list[Fraction]]]:
    """A rank factorization: the matrix as a sum of rank many p·(column ⊗ row), each given as p, column and row.

    >>> ones = [[Fraction(2), Fraction(4)], [Fraction(3), Fraction(6)]]
    >>> [[str(p), *map(str, column), *map(str, row)] for p, column, row in factored(ones)]
    [['2', '1', '3/2', '1', '2']]
    """
    rest = [list(row) for row in matrix]
    found = []
    while (place := next(((i, j) for i, row in enumerate(rest) for j, c in enumerate(row) if c), None)) is not None:
        i, j = place
        pivot = rest[i][j]
        column, row = [r[j] / pivot for r in rest], [c / pivot for c in rest[i]]
        found.append((pivot, column, row))
        rest = [[c - pivot * a * b for c, b in zip(r, row, strict=True)] for r, a in zip(rest, column, strict=True)]
    return found


class ProductFactoring:
    """Writes forms whose terms have bound axes: sums over these axes of products of wires.

    `result_axes` are the axes of the program's results. If two sides may take a factor, the one that has only these
    axes takes it, since it is not streamed. `order` are names of axes in the order in which results have them.
    """

    def __init__(
        self, terms: HashConsedGraph, kept: Iterable[str], order: Sequence[str], line: str | None = None
    ) -> None:
        self.graph, self.result_axes, self.order, self.line = terms, set(kept), list(order), line
        self.several = False

    def emitted(self, form: Form) -> Form:
        """The form with its sums as wires: each term is a number times wires, without bound axes."""
        found: list[SeparableTerm] = []
        alike: dict[tuple[Monomial, tuple[str, ...], tuple[frozenset[str], ...]], dict[Sides, Fraction]] = {}
        self.several = len(form) > 1
        for t in form:
            bound = tuple(a.name for a in t.bound)
            inner = tuple(f for f in t.monomial if set(bound) & set(self.graph.names(f[0])))
            outer = tuple(f for f in t.monomial if f not in inner)
            parts = self._connected(inner, bound)
            sides = self._sides(parts[0], bound) if len(parts) == 1 else []
            if len(parts) == 1 and len(sides) <= 2 and set(self._elimination(parts[0], bound)) == set(bound):
                classes = tuple(self._free(side, bound) for side in sides)
                entries = alike.setdefault((outer, bound, classes), {})
                key = tuple(sides)
                entries[key] = entries.get(key, Fraction(0)) + t.coefficient
            else:
                wires = [self._component(part, bound) for part in parts]
                found.append(self._times(t.coefficient, outer, wires))

        def late(item: tuple[tuple[Monomial, tuple[str, ...], tuple[frozenset[str], ...]], Any]) -> tuple[int, bool]:
            sides = item[0][2]
            return len(sides), sides[0] <= self.result_axes

        for (outer, bound, _), entries in sorted(alike.items(), key=late):
            found += [self._times(c, outer, [wire]) for c, wire in self._bilinear(entries, bound)]
        return collect(found)

    def _times(self, coefficient: Fraction, outer: Monomial, wires: Iterable[int]) -> SeparableTerm:
        for w in wires:
            outer = times(outer, ((w, 1),))
        return SeparableTerm(coefficient, outer)

    # -- terms with the same sides ------------------------------------------------------------------

    def _bilinear(self, entries: dict[Sides, Fraction], bound: Sequence[str]) -> list[tuple[Fraction, int]]:
        """Terms with the same one or two sides, summed."""
        if any(len(sides) == 1 for sides in entries):
            first = next(iter(entries.values()))
            inside = self._combined([(c / first, sides[0]) for sides, c in entries.items()])
            made = self._summed([inside], bound)
            return [(first, self.graph.map(Cast("fp32"), made, line=self.line) if self.several else made)]
        left = list(dict.fromkeys(sides[0] for sides in entries))
        right = list(dict.fromkeys(sides[1] for sides in entries))
        ranks = factored([[entries.get((one, other), Fraction(0)) for other in right] for one in left])
        if len(ranks) >= len(entries):
            whole = Fraction(1)
            return [
                (c, self._summed([self._combined([(whole, side)]) for side in sides], bound))
                for sides, c in entries.items()
            ]
        return [
            (
                pivot,
                self._summed(
                    [
                        self._combined([(c, side) for c, side in zip(column, left, strict=True) if c]),
                        self._combined([(c, side) for c, side in zip(row, right, strict=True) if c]),
                    ],
                    bound,
                ),
            )
            for pivot, column, row in ranks
        ]

    def _combined(self, parts: Sequence[tuple[Fraction, Monomial]]) -> int:
        """A wire that carries a rational combination of products."""
        total: int | None = None
        for coefficient, monomial in sorted(parts, key=lambda part: part[0] < 0):
            wire = self._product(monomial)
            assert wire is not None
            if abs(coefficient) != 1:
                wire = self.graph.map("mul", self.graph.const(abs(coefficient)), wire, line=self.line)
            if total is None:
                total = wire if coefficient > 0 else self.graph.map("neg", wire)
            else:
                total = self.graph.map("add" if coefficient > 0 else "sub", total, wire, line=self.line)
        assert total is not None
        return total

    def _product(self, monomial: Monomial) -> int | None:
        """A wire that carries a product of powers; None for the empty one."""
        terms = self.graph
        value: int | None = None
        for w, p in monomial:
            for _ in range(p):
                value = w if value is None else terms.map("mul", value, w, line=self.line)
        for w, p in monomial:
            for _ in range(-p):
                value = terms.map("div", terms.const(1) if value is None else value, w, line=self.line)
        return value

    # -- one term --------------------------------------------------------------------------------------

    def _free(self, factors: Monomial, bound: Iterable[str]) -> frozenset[str]:
        """The axes of some factors that are not bound."""
        return frozenset(n for w, _ in factors for n in self.graph.names(w)) - set(bound)

    def _connected(self, factors: Monomial, bound: Iterable[str]) -> list[Monomial]:
        """The factors in connected components: factors in different components share no bound axis."""
        parts: list[tuple[set[str], list[tuple[int, int]]]] = []
        for f in factors:
            axes = set(bound) & set(self.graph.names(f[0]))
            mine = [f]
            for part in [p for p in parts if p[0] & axes]:
                parts.remove(part)
                axes, mine = axes | part[0], part[1] + mine
            parts.append((axes, mine))
        return [tuple(mine) for _, mine in parts]

    def _sides(self, factors: Monomial, bound: Iterable[str]) -> list[Monomial]:
        """The factors by maximal sets of free axes; a factor that fits into several goes to the first."""
        classes = dict.fromkeys(self._free((f,), bound) for f in factors)
        largest = [c for c in classes if not any(c < other for other in classes)]
        rank = {n: k for k, n in enumerate(self.order)}
        largest.sort(key=lambda c: (not c <= self.result_axes, sorted(rank.get(n, len(rank)) for n in c), sorted(c)))
        sides: list[list[tuple[int, int]]] = [[] for _ in largest]
        for f in factors:
            mine = self._free((f,), bound)
            sides[next(k for k, c in enumerate(largest) if mine <= c)].append(f)
        return [tuple(side) for side in sides]

    def _elimination(self, factors: Monomial, bound: Sequence[str]) -> list[str]:
        """The bound axes of a component to sum over first: axes of the same factors whose sum leaves the
        fewest axes.
        """
        names = [set(self.graph.names(w)) for w, _ in factors]
        groups: dict[tuple[int, ...], list[str]] = {}
        for axis in bound:
            inside = tuple(k for k, mine in enumerate(names) if axis in mine)
            if inside:
                groups.setdefault(inside, []).append(axis)

        def left(inside: tuple[int, ...]) -> int:
            return len(set().union(*(names[k] for k in inside)) - set(groups[inside]))

        return groups[min(groups, key=left)]

    def _component(self, factors: Monomial, bound: Sequence[str]) -> int:
        """A wire that carries the sum over the bound axes of connected factors."""
        while any(set(bound) & set(self.graph.names(w)) for w, _ in factors):
            now = self._elimination(factors, bound)
            inside = tuple(f for f in factors if set(now) & set(self.graph.names(f[0])))
            wires = [self._product(side) for side in self._sides(inside, now)]
            made = self._summed([w for w in wires if w is not None], now)
            factors = (*(f for f in factors if f not in inside), (made, 1))
        found = self._product(factors)
        assert found is not None
        return found

    def _summed(self, wires: Sequence[int], bound: Sequence[str]) -> int:
        """The product of one wire for each side, summed over the bound axes."""
        terms = self.graph
        if len(wires) == 1:
            found = wires[0]
            for axis in bound:
                if axis in terms.names(found):
                    found = terms.reduce("sum", axis, found, self.line)
            return found
        names = dict.fromkeys(n for w in wires for n in terms.names(w) if n not in bound)
        order = [n for n in self.order if n in names] + [n for n in names if n not in self.order]
        return terms.einsum(wires, order, self.line)
