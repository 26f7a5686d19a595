"""Positional dimensions as products of named axes: which dimensions of an imported program are one axis.

A positional program (PyTorch, JAX, ONNX) has dimensions with lengths. A program with named axes has axes. Here each
dimension is a product of *factors*; one of length 1 is the empty product. So view, reshape, transpose, permute,
expand and unsqueeze only regroup factors, and make no box.

**Unification.** Where an operation lines up two dimensions, their factors become the same axes (union-find). A factor
of length 60 that meets one of length 6 is split, everywhere, into 6 x 10. No array may have one axis twice: factors
that one array has both of stay two axes, of one size.

**Lengths.** A factor's length in the example says only how factors line up. The size of its axis is a symbol, unless
the program fixes it: a factor may be *fixed* (the 2 of two halves), or a sum (a concatenation of two lengths).
Factors of different axes may have one size (queries and keys of one sequence), by a second union-find over sizes.

>>> table = Factors()
>>> heads, model = table.new(6), table.new(60)
>>> table.unify([model], [heads, table.new(10)], lambda a, b: False)
[]
>>> [f.length for f in table.resolve([model])], table.resolve([model])[:1] == table.resolve([heads])
([6, 10], True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

from catdiag.category.types import Axis, Size, coproduct, product


class NotAligned(Exception):
    """Dimensions that cannot be one product of axes."""


@dataclass(eq=False)
class Extent:
    """The size of one or several axes: a symbol, a fixed integer, or the sum or product of others. One that is `free`
    follows from other sizes by more than sums and products (the number of windows). One that is `traced` is a symbol of
    the trace, or made of such: an integer beside it is no other symbol that has this length in the example."""

    length: int
    fixed: bool = False
    parts: tuple[Extent, ...] = ()
    op: str = ""
    free: bool = False
    same_as: Extent | None = None
    traced: bool = False


class TracedLength(int):
    """A length in the example that the trace computes from symbols: `extent` is what it is, None if that is no sum or
    product; `text` is the expression."""

    text: str
    _extent: Callable[[], Extent | None]

    def __new__(cls, value: int, text: str, extent: Callable[[], Extent | None]) -> TracedLength:
        made = super().__new__(cls, value)
        made.text, made._extent = text, extent
        return made

    @property
    def extent(self) -> Extent | None:
        """What it is, at all sizes."""
        return self._extent()


@dataclass(eq=False)
class AxisFactor:
    """An axis of an imported program, before it has a name. `into` are the factors that it was split into, or the one
    that it was unified with."""

    extent: Extent
    hint: str = ""
    into: tuple[AxisFactor, ...] = ()

    @property
    def length(self) -> int:
        """The length in the example."""
        return self.extent.length


Dimension = tuple[AxisFactor, ...]


def polynomial(extent: Extent, traced_only: bool = False) -> dict[tuple[int, ...], int]:
    """An extent as a polynomial in those that are no sums and products, by their identities: equal for equal sizes.
    With `traced_only`, symbols of which the trace knows nothing are their lengths."""
    whole = extent_of(extent)
    if whole.fixed or (traced_only and not whole.op and not whole.traced):
        return {(): whole.length}
    if not whole.op:
        return {(id(whole),): 1}
    total: dict[tuple[int, ...], int] = {} if whole.op == "+" else {(): 1}
    for part in (polynomial(p, traced_only) for p in whole.parts):
        if whole.op == "+":
            pairs = [*total.items(), *part.items()]
        else:
            pairs = [(tuple(sorted(m + n)), a * b) for m, a in total.items() for n, b in part.items()]
        total = {}
        for monomial, number in pairs:
            total[monomial] = total.get(monomial, 0) + number
    return total


def same_size(one: Extent, other: Extent) -> bool:
    """Whether two extents are equal as polynomials."""
    return polynomial(one) == polynomial(other)


def _matched(one: Sequence[Extent], other: Sequence[Extent]) -> list[tuple[Extent, Extent]] | None:
    """The parts of two sums or products that are one size each: first those that are so already, then the others in
    their order. None where lengths differ."""
    rest = list(other)
    pairs: list[tuple[Extent, Extent]] = []
    for part in one:
        same = next((e for e in rest if same_size(part, e)), None)
        if same is not None:
            rest.remove(same)
            pairs.append((part, same))
    left = [e for e in one if not any(e is p for p, _ in pairs)]
    if [e.length for e in left] != [e.length for e in rest]:
        return None
    return [*pairs, *zip(left, rest, strict=True)]


def is_traced(extent: Extent) -> bool:
    """Whether an extent is a symbol of the trace, or made of some."""
    whole = extent_of(extent)
    return whole.traced or any(map(is_traced, whole.parts))


def product_of(extents: Sequence[Extent]) -> Extent:
    """The product of extents."""
    found = [e for e in extents if e.length > 1 or not extent_of(e).fixed] or [Extent(1, fixed=True)]
    return found[0] if len(found) == 1 else Extent(prod(e.length for e in found), parts=tuple(found), op="*")


def extent_of(extent: Extent) -> Extent:
    """The representative of equal extents."""
    while extent.same_as is not None:
        extent = extent.same_as
    return extent


@dataclass
class Factors:
    """All factors of a program that is being imported. With `fixed`, sizes are the numbers of the example, or those are
    that are such a length there; with `all_alike`, those that are equal in the example are equal."""

    made: list[AxisFactor] = field(default_factory=list)
    fixed: bool | frozenset[int] = False
    all_alike: bool = False
    by_length: dict[int, Extent] = field(default_factory=dict)
    """What dimensions of a length have in common, where all of one length are alike."""
    met: list[str] = field(default_factory=list)
    """Lengths that were built differently and are one, in words."""

    def new(self, length: int, hint: str = "", extent: Extent | None = None, fixed: bool = False) -> AxisFactor:
        """A new factor of a length; `hint` is a name for its axis. Raises NotAligned for a length that the trace
        computes, and that is 0 or 1 in the example."""
        if isinstance(length, TracedLength):
            if length < 2:
                raise NotAligned(f"the length {length.text} is {int(length)} in the example: expected a longer one")
            extent = extent or length.extent
            fixed = fixed or extent is None
        if self.all_alike and extent is None and not fixed and length > 1:
            extent = self.by_length.setdefault(int(length), Extent(int(length)))
        factor = AxisFactor(extent or Extent(int(length), fixed or self.is_fixed(length)), hint)
        self.made.append(factor)
        return factor

    def is_fixed(self, length: int) -> bool:
        """Whether a size that is this length in the example is this number."""
        return self.fixed if isinstance(self.fixed, bool) else length in self.fixed

    def dimension(self, length: int, hint: str = "") -> Dimension:
        """A new dimension: one factor, or none for length 1."""
        return () if length == 1 and not isinstance(length, TracedLength) else (self.new(length, hint),)

    def copy(self, factor: AxisFactor) -> AxisFactor:
        """Another axis of the same size."""
        return self.new(factor.length, factor.hint, factor.extent)

    def resolve(self, factors: Iterable[AxisFactor]) -> Dimension:
        """The factors that remain of these."""
        found: list[AxisFactor] = []
        todo = list(factors)[::-1]
        while todo:
            factor = todo.pop()
            if factor.into:
                todo.extend(factor.into[::-1])
            else:
                found.append(factor)
        return tuple(found)

    def length(self, factors: Iterable[AxisFactor]) -> int:
        """The length of a dimension in the example."""
        return prod(f.length for f in self.resolve(factors))

    # -- splitting ---------------------------------------------------------------------------------

    def split(self, factor: AxisFactor, outer: int) -> tuple[AxisFactor, AxisFactor]:
        """A factor split into one of length `outer` and the rest. Raises NotAligned where it does not divide."""
        left, right = (self.new(e.length, factor.hint, e) for e in self.divided(factor.extent, outer))
        factor.into = (left, right)
        return left, right

    def divided(self, extent: Extent, outer: int) -> tuple[Extent, Extent]:
        """The factors of an extent, the outer one of that length; an extent has one factorization."""
        whole = extent_of(extent)
        if whole.length % outer or (whole.op == "+" and not whole.fixed):
            raise NotAligned(f"a dimension of length {self._terms(whole)} is split by {outer}")
        if not whole.op or whole.op == "+":
            lengths = outer, whole.length // outer
            left, right = (Extent(n, whole.fixed, traced=whole.traced) for n in lengths)
            whole.op, whole.parts = "*", (left, right)
            return left, right
        first, second = map(extent_of, whole.parts)
        if outer == first.length:
            return first, second
        if outer == second.length and len(whole.parts) == 2:  # sizes commute
            return second, first
        if first.length % outer == 0:
            left, right = self.divided(first, outer)
            return left, Extent(right.length * second.length, whole.fixed, (right, second), "*")
        if outer % first.length == 0:
            left, right = self.divided(second, outer // first.length)
            return Extent(first.length * left.length, whole.fixed, (first, left), "*"), right
        raise NotAligned(f"a dimension of length {self._terms(whole)} is split by {outer}")

    def regroup(self, factors: Sequence[AxisFactor], lengths: Sequence[int]) -> list[Dimension]:
        """The dimensions of these lengths that factors form, in order: a view. Raises NotAligned."""
        rest = list(self.resolve(factors))
        if prod(f.length for f in rest) != prod(lengths):
            raise NotAligned(f"{[f.length for f in rest]} viewed as {list(lengths)}")
        found = []
        for length in lengths:
            group: list[AxisFactor] = []
            while length > 1:
                factor = rest.pop(0)
                if factor.length > length or length % factor.length:
                    if factor.length % length:
                        raise NotAligned(f"dimensions {[factor.length, *(f.length for f in rest)]} viewed as {length}")
                    factor, after = self.split(factor, length)
                    rest.insert(0, after)
                group.append(factor)
                length //= factor.length
            found.append(tuple(group))
        return found

    def viewed(self, factors: Sequence[AxisFactor], lengths: Sequence[int]) -> list[Dimension]:
        """`regroup`, at all sizes: a length that the trace computes is that of its dimension, and one that it writes as
        an integer is that integer. Raises NotAligned."""
        found = self.regroup(factors, lengths)
        unknown = [n for n in lengths if isinstance(n, TracedLength) and n.extent is None]
        for dim, length in zip(found, lengths, strict=True):
            mine = [f.extent for f in self.resolve(dim)]
            wanted = length.extent if isinstance(length, TracedLength) else None
            if wanted is not None and not same_size(wanted, product_of(mine)):
                if len(mine) > 1 and polynomial(wanted, True) != polynomial(product_of(mine), True):
                    raise NotAligned(f"dimensions {[e.length for e in mine]} viewed as one of {length!r}")
                if len(mine) == 1:
                    self.equate(wanted, mine[0])
            elif wanted is None and (not isinstance(length, TracedLength) or len(unknown) > 1):
                for extent in filter(is_traced, mine):
                    self.fix(extent)
        return found

    def refined(self, left: Iterable[AxisFactor], right: Iterable[AxisFactor]) -> bool:
        """Whether two dimensions have factors of which both are products: 2 x 3 and 6 have, 2 x 3 and 3 x 2 have not.
        Nor has a sum that would be split, or that meets one of other terms.

        >>> table = Factors()
        >>> two, three, six = (table.new(n) for n in (2, 3, 6))
        >>> table.refined([two, three], [six]), table.refined([two, three], [three, two])
        (True, False)
        """
        placed = [self._placed(d) for d in (left, right)]
        ends = sorted({end for factors in placed for _, end in factors})
        if not all(longer % shorter == 0 for shorter, longer in pairwise(ends)):
            return False
        for mine, theirs in (placed, placed[::-1]):
            for (start, end), extent in mine.items():
                terms, meeting = self.terms(extent), theirs.get((start, end))
                if len(terms) < 2 or (meeting is not None and len(self.terms(meeting)) == 1):
                    continue
                if meeting is None and any(start < n < end for n in ends):
                    return False
                if meeting is not None and _matched(terms, self.terms(meeting)) is None:
                    return False
        return True

    def _placed(self, dim: Iterable[AxisFactor]) -> dict[tuple[int, int], Extent]:
        """The extents of a dimension's factors, each with the products of the lengths before and up to it."""
        found, start = {}, 1
        for factor in self.resolve(dim):
            found[start, start * factor.length] = factor.extent
            start *= factor.length
        return found

    # -- unification -------------------------------------------------------------------------------

    def unify(
        self, left: Iterable[AxisFactor], right: Iterable[AxisFactor], coexist: Callable[[AxisFactor, AxisFactor], bool]
    ) -> list[tuple[AxisFactor, AxisFactor]]:
        """Makes two dimensions one. Gives the pairs that have one size and stay two axes, since they `coexist` on some
        array. Raises NotAligned where their lengths differ."""
        one, other = list(self.resolve(left)), list(self.resolve(right))
        if prod(f.length for f in one) != prod(f.length for f in other):
            raise NotAligned(f"lengths {[f.length for f in one]} and {[f.length for f in other]} meet")
        two_axes = []
        while one and other:
            # What was split or unified for the factors before may be among the others.
            one, other = list(self.resolve(one)), list(self.resolve(other))
            a, b = one.pop(0), other.pop(0)
            if a.length != b.length:
                (longer, rest), shorter = ((a, one), b) if a.length > b.length else ((b, other), a)
                first, after = self.split(longer, shorter.length)
                rest.insert(0, after)
                a, b = (first, shorter) if longer is a else (shorter, first)
                a, b = self.resolve([a])[0], self.resolve([b])[0]
            if a is b:
                continue
            self.equate(a.extent, b.extent)
            if coexist(a, b):
                two_axes.append((a, b))
            else:
                b.into = (a,)
                a.hint = a.hint or b.hint
        return two_axes

    def equate(self, left: Extent, right: Extent) -> None:
        """Makes two extents one: that of the example where they were built differently. Raises NotAligned where their
        lengths differ."""
        a, b = extent_of(left), extent_of(right)
        if a is b:
            return
        if a.length != b.length:
            raise NotAligned(f"lengths {a.length} and {b.length} meet")
        if not b.op and (not b.fixed or a.fixed):
            b.same_as, a.traced = a, a.traced or b.traced
        elif not a.op and (not a.fixed or b.fixed):
            a.same_as, b.traced = b, a.traced or b.traced
        elif same_size(a, b):
            b.same_as = a
        elif a.op == b.op and (pairs := _matched(a.parts, b.parts)) is not None:
            for p, q in pairs:
                self.equate(p, q)
            b.same_as = a
        else:  # a sum and a product, say: no sizes but the example's are known to be both
            if not (a.fixed or b.fixed):
                self.met.append(f"a length of {self._terms(a)} is one of {self._terms(b)}: lengths are fixed")
            self.fix(a)
            self.fix(b)

    def rest(self, whole: Extent, away: Sequence[Extent]) -> Extent | None:
        """What is left of an extent without others, of which a symbol becomes the sum of both. None for a product, and
        where a part is taken of what is no sum of it.

        >>> table, whole = Factors(), Extent(7)
        >>> left = table.rest(whole, [Extent(1, fixed=True)])
        >>> left.length, len(whole.parts), table.rest(whole, [left]).length
        (6, 2, 1)
        """
        found, length = extent_of(whole), whole.length - sum(e.length for e in away)
        if length < 1 or found.op == "*":
            return None
        if found.fixed:
            return Extent(length, fixed=True) if all(extent_of(e).fixed for e in away) else None
        if not found.op:
            left = Extent(length, traced=found.traced)
            found.op, found.parts = "+", (left, *away)
            return left
        terms, others = list(self.terms(found)), []
        for extent in away:
            same = next((t for t in terms if same_size(t, extent)), None)
            if same is None:
                others.append(extent)
            else:
                terms.remove(same)
        if others:
            symbol = next((t for t in terms if not t.op and not t.fixed), None)
            left = None if symbol is None else self.rest(symbol, others)  # type: ignore[assignment]
            if symbol is None or left is None:
                return None
            terms[terms.index(symbol)] = left
        return terms[0] if len(terms) == 1 else Extent(length, parts=tuple(terms), op="+")

    def fix(self, extent: Extent) -> None:
        """Makes an extent, and all that it consists of, the integers of the example."""
        todo = [extent]
        while todo:
            found = extent_of(todo.pop())
            found.fixed = True
            todo.extend(found.parts)

    def sum(self, terms: Sequence[Extent], hint: str = "") -> AxisFactor:
        """A factor as long as these together."""
        return self.new(0, hint, Extent(sum(t.length for t in terms), parts=tuple(terms), op="+"))

    def cut(self, extent: Extent, lengths: Sequence[int]) -> bool:
        """Makes an extent, if it is none of others and not fixed, a sum of new ones of these lengths."""
        whole = extent_of(extent)
        if whole.op or whole.fixed:
            return False
        whole.op, whole.parts = "+", tuple(Extent(n, fixed=n == 1) for n in lengths)
        return True

    def terms(self, extent: Extent) -> tuple[Extent, ...]:
        """The terms of a sum, those of sums inside included; one for what is no sum."""
        found: list[Extent] = []
        todo = [extent]
        while todo:
            whole = extent_of(todo.pop())
            if whole.op == "+" and not whole.fixed:
                todo.extend(whole.parts[::-1])
            else:
                found.append(whole)
        return tuple(found)

    def _terms(self, extent: Extent) -> str:
        parts = [str(extent_of(p).length) for p in extent.parts]
        return f" {extent.op} ".join(parts) if parts else str(extent.length)


class AxisNames:
    """AxisNames for factors, and the axes that they then are.

    >>> table = Factors()
    >>> queries = table.new(4, "t")
    >>> keys = table.copy(queries)
    >>> names = AxisNames(table)
    >>> names.axis(queries), names.axis(keys)
    (Axis('t'), Axis('t_1', 't'))
    """

    def __init__(self, factors: Factors) -> None:
        self.factors = factors
        self._names: dict[AxisFactor, str] = {}
        self._sizes: dict[Extent, str] = {}
        self._used: set[str] = set()
        self.avoided: set[str] = set()
        """Names that axes have only if the user asks for them: those of inputs, so that a function can take a size and
        an array by their names."""

    def reserve(self, factor: AxisFactor, name: str) -> None:
        """Gives a factor a name that the user chose. Raises NotAligned where another has it."""
        if self._names.get(factor, name) != name or (name in self._used and self._names.get(factor) != name):
            raise NotAligned(f"the name {name!r} is given to two axes, or two names to one")
        self._names[factor] = name
        self._used.add(name)

    def name(self, factor: AxisFactor) -> str:
        """The name of a factor's axis."""
        if factor not in self._names:
            self._names[factor] = self._fresh(factor.hint or "a")
        return self._names[factor]

    def _fresh(self, base: str) -> str:
        name, number = base, 0
        while name in self._used or name in self.avoided:
            number += 1
            name = f"{base}_{number}"
        self._used.add(name)
        return name

    def axis(self, factor: AxisFactor) -> Axis:
        """The axis of a factor."""
        name, extent = self.name(factor), extent_of(factor.extent)
        if not extent.fixed and not extent.op:
            self._sizes.setdefault(extent, name)
        return Axis(name, self.size(extent))

    def size(self, extent: Extent) -> Size:
        """The size of an extent."""
        found = extent_of(extent)
        if found.fixed:
            return found.length
        if not found.op:
            if found not in self._sizes:
                axes = (f for f in self.factors.made if not f.into and extent_of(f.extent) is found)
                owner = next(axes, None)
                self._sizes[found] = self._fresh("n") if owner is None else self.name(owner)
            return self._sizes[found]
        parts = [Axis(f"part_{k}", self.size(p)) for k, p in enumerate(found.parts)]
        if all(isinstance(p.size, int) for p in parts):
            return found.length
        return (coproduct if found.op == "+" else product)(*parts).size

    def example(self) -> dict[str, int]:
        """The length in the example of each symbol."""
        return {name: extent.length for extent, name in self._sizes.items()}
