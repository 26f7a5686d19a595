"""Transfers against work: when a diagram is bound by computing, and what that asks of a machine.

A machine moves `bytes_per_s` over an edge while it makes `flops_per_s`; where both go on at once, a diagram is bound by
computing if it moves at most `bytes_per_s / flops_per_s` bytes for each operation. The questions, each the inverse
of the others:

- `per_operation`: the transfers for each operation at a memory `M`, as a sum of powers of `M`;
- `min_memory`: the smallest memory at which they are few enough, at leading order; in closed form where one power of
  `M` changes, else between two rational numbers that are checked exactly;
- `min_memory_integer`: the same of whole tiles, exactly, ceilings, statistics and blocks included;
- `size_range`: between which sizes of an axis they are few enough;
- `bandwidth_needed`: what a given tile asks of the edge.

Source: Abbott and Zardini, "FlashAttention on a Napkin" (TMLR 2025), appendix B.1, for matrix products; the general
forms are derived here.

>>> import catdiag as cd
>>> product = cd.algorithm("a b, b c")(lambda A, B: cd.einsum("a b, b c -> a c", A, B))
>>> form = per_operation(product.stream("b").group("a c").io())
>>> print(form)
1/(2*b) + 1/sqrt(M)
>>> print(min_memory(form, Fraction(1, 100), {"b": math.inf}).exact)
10000
>>> print(size_range(form, "b", Fraction(1, 100), {}).lower)
50
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

from catdiag.cost.traffic import IO
from catdiag.optimum.exhaustive import tile_sizes
from catdiag.optimum.power_form import PowerForm
from catdiag.schedule.placement import LEVEL
from catdiag.util import argument_checks
from catdiag.util.argument_checks import formula
from catdiag.util.errors import CatdiagError, SizeError, require

Expr = Any
Number = int | float | Fraction
_BITS = 200  # of roots that are no rational numbers
_NARROW = Fraction(1, 1 << 40)  # how near the ends of a bracket are, relative to it
_GRID = 4_000_000
_FORM = "powers of a capacity, such as .io().optimum().power_form"


@dataclass(frozen=True)
class MemoryBounds:
    """A number between `lower` and `upper`, both checked in exact arithmetic; `exact` is its closed form, if there is
    one. `lower` does not suffice (or is 0), `upper` does."""

    lower: Fraction
    upper: Fraction
    exact: Expr | None = None

    def __float__(self) -> float:
        return float(self.upper)

    def __str__(self) -> str:
        return f"{float(self):.6g}" if self.exact is None else str(self.exact)


@dataclass(frozen=True)
class SizeRange:
    """The sizes of an axis that do: from `lower` to `upper` (None: as large as you like), as real numbers that
    suffice, within 1e-9 of the true ends. `integer_range` are the least and the greatest whole size."""

    axis: str
    lower: Fraction
    upper: Fraction | None

    @property
    def integer_range(self) -> tuple[int, int | None]:
        """The least and the greatest whole size that does."""
        return max(1, math.ceil(self.lower)), None if self.upper is None else math.floor(self.upper)


@dataclass(frozen=True)
class IntegerTiles:
    """The smallest memory of whole tiles whose transfers are within a budget: `memory`, `transfers` and `budget` are in
    the unit of the formulas, `tiles` the tiles and blocks that take it."""

    memory: int
    tiles: Mapping[str, int]
    transfers: int
    budget: Fraction


def per_operation(io: IO, pipeline: str = "tensor") -> PowerForm:
    """Transfers for each operation at the leading optimum, in the unit of `io`: the inverse of arithmetic intensity.

    `pipeline` says which operations of `io.work`: "tensor", "exp" or "alu"; those that several groups do again count
    once, as with whole axes. Raises CatdiagError where there are none,
    ValueError where the optimum has no closed form.
    """
    require(isinstance(io, IO), "io", io, "what .io() gives")
    argument_checks.text(pipeline, "pipeline", "'tensor', 'exp' or 'alu'")
    work = io.work.get(pipeline)
    if work is None or work == 0:
        raise CatdiagError(
            f"the diagram has no work for {pipeline!r}: its work is "
            f"{', '.join(f'{name}: {expr}' for name, expr in io.work.items() if expr != 0) or 'none'}"
        )
    import sympy

    work, form = _useful_work(io, work), io.optimum().power_form
    terms = tuple((sympy.cancel(alpha / work), beta) for alpha, beta in form.terms)
    return type(form)(tuple((sympy.expand(alpha), beta) for alpha, beta in terms), form.capacity, form.exact)


def machine_ratio(bytes_per_s: Number, flops_per_s: Number, width: Number = 1) -> Fraction:
    """How much a machine moves for each operation: bytes, or values of `width` bytes. Exact.

    >>> machine_ratio(3.35e12, 989e12, width=2)
    Fraction(67, 39560)
    """
    for what, value in (("bytes_per_s", bytes_per_s), ("flops_per_s", flops_per_s), ("width", width)):
        argument_checks.positive(value, what)
    return Fraction(bytes_per_s) / Fraction(flops_per_s) / Fraction(width)


def _sized(sizes: Any) -> None:
    """Raises TypeMismatch or SizeError unless sizes are numbers, or `math.inf`, by name."""
    infinite = isinstance(sizes, Mapping) and {name: 1 if size == math.inf else size for name, size in sizes.items()}
    argument_checks.numbers({} if sizes is None else infinite or sizes)


def _filled(form: PowerForm, sizes: Mapping[str, Any]) -> list[tuple[Expr, Fraction]]:
    """The terms with sizes put in; `math.inf` takes the limit."""
    import sympy

    found: list[tuple[Expr, Fraction]] = []
    known = {str(s): s for alpha, _ in form.terms for s in alpha.free_symbols}
    unknown = [name for name in sizes if name not in known]
    if unknown:
        raise SizeError(f"size {unknown[0]!r} is given, and the formula has no such size: it has {', '.join(known)}")
    for alpha, beta in form.terms:
        for name, size in sizes.items():
            if size == math.inf:
                alpha = sympy.limit(alpha, known[name], sympy.oo)
                if alpha.has(sympy.oo, sympy.zoo, sympy.nan):
                    raise SizeError(f"transfers for each operation grow with {name!r} without end: give it a size")
            else:
                alpha = alpha.subs(known[name], sympy.nsimplify(size) if isinstance(size, float) else size)
        if alpha != 0:
            found.append((alpha, beta))
    return found


def min_memory(form: PowerForm, ratio: Fraction | Expr, sizes: Mapping[str, Any] | None = None) -> MemoryBounds:
    """The smallest memory at which `form` (transfers for each operation) is at most `ratio`, in the form's unit.

    Of a leading order, which is never above the least transfers: below `lower` no memory suffices, whatever the tiles.
    That `upper` does is so where its conditions hold (`io.optimum()` says them: tiles shorter than their axes) and what
    it leaves out is small; `min_memory_integer` is exact.

    `sizes` gives axes as numbers, `math.inf` for one that is as long as you like. `.exact` is the closed form where
    only one power of the memory is left, and its sizes may then stay symbols (`.lower` and `.upper` are then 0). Raises
    CatdiagError where no memory suffices, SizeError for unknown or missing sizes.

    >>> import sympy
    >>> from catdiag.optimum.power_form import power_form
    >>> M = sympy.Symbol("M", positive=True)
    >>> found = min_memory(power_form(1 / M + 1 / sympy.sqrt(M), M), Fraction(1, 10))
    >>> found.exact, round(float(found), 6)
    (None, 119.160798)
    """
    import sympy

    require(isinstance(form, PowerForm), "the form", form, _FORM)
    _sized(sizes)
    terms = _filled(form, sizes or {})
    moving = [(alpha, beta) for alpha, beta in terms if beta]
    constant = sympy.Add(*(alpha for alpha, beta in terms if not beta))
    limit = formula(ratio, "the ratio")
    left = limit - constant
    if left.is_nonpositive:
        raise CatdiagError(
            f"no memory suffices: {constant} is moved for each operation whatever the memory, and the machine "
            f"moves {limit}. Longer axes, or more bandwidth"
        )
    if not moving:
        return MemoryBounds(Fraction(0), Fraction(0), sympy.S.Zero)
    exact = None
    if len(moving) == 1:
        (alpha, beta), *_ = moving
        exact = sympy.powdenest((alpha / left) ** (1 / sympy.Rational(beta.numerator, beta.denominator)), force=True)
    symbols = {s for alpha, _ in terms for s in alpha.free_symbols} | left.free_symbols
    if symbols:
        if exact is None:
            names = ", ".join(sorted(map(str, symbols)))
            raise SizeError(f"several powers of {form.capacity} change: give the sizes {names} as numbers")
        return MemoryBounds(Fraction(0), Fraction(0), exact)
    root = math.lcm(*(beta.denominator for _, beta in moving))
    low, high = ([(_rational(a, up), int(b * root)) for a, b in moving] for up in (False, True))
    floor, ceiling = _rational(left, False), _rational(left, True)

    def enough(t: Fraction) -> bool:
        return sum(a / t**n for a, n in high) <= floor

    def too_small(t: Fraction) -> bool:
        return sum(a / t**n for a, n in low) > ceiling

    lower, upper = _between(enough, too_small)
    return MemoryBounds(lower**root, upper**root, exact)


def _between(enough: Callable[[Fraction], bool], too_small: Callable[[Fraction], bool]) -> tuple[Fraction, Fraction]:
    """Ends of a narrow interval from a number that is too small to one that is enough."""
    upper = Fraction(1)
    while not enough(upper):
        upper *= 2
    lower = upper / 2
    while not too_small(lower):
        lower /= 2
    while upper - lower > upper * _NARROW:
        middle = (lower + upper) / 2
        if enough(middle):
            upper = middle
        elif too_small(middle):
            lower = middle
        else:  # the root itself, as far as rounding tells
            return lower, upper
    return lower, upper


def _rational(value: Expr, up: bool) -> Fraction:
    """A rational bound of a number, equal to it where it is rational."""
    import sympy

    value = sympy.sympify(value)
    if value.is_Rational:
        return Fraction(int(value.p), int(value.q))
    if not value.is_number or not value.is_real:
        raise CatdiagError(f"{value} is no real number: give all sizes")
    near = sympy.Rational(sympy.N(value, 80))
    slack = Fraction(1, 10**70) * (1 + abs(Fraction(int(near.p), int(near.q))))
    return Fraction(int(near.p), int(near.q)) + (slack if up else -slack)


def size_range(
    form: PowerForm,
    axis: str,
    ratio: Fraction,
    sizes: Mapping[str, Any] | None = None,
    memory: Number = math.inf,
) -> SizeRange:
    """Between which sizes of `axis` the form (transfers for each operation) is at most `ratio` with that memory.

    `memory` is in the form's unit; with `math.inf` only what no memory saves is left. Both ends suffice; beyond them,
    within 1e-9, nothing does. Raises CatdiagError where no size suffices, SizeError for unknown or missing sizes.

    >>> import sympy
    >>> from catdiag.optimum.power_form import power_form
    >>> d, x, M = sympy.symbols("d x M", positive=True)
    >>> found = size_range(power_form(d / M + 1 / (2 * x), M), "d", Fraction(1, 100), {"x": 1000}, memory=32768)
    >>> found.integer_range
    (1, 311)
    """
    import sympy

    require(isinstance(form, PowerForm), "the form", form, _FORM)
    argument_checks.text(axis, "axis", "the name of an axis, such as 'q'")
    _sized(sizes)
    argument_checks.positive(ratio, "ratio")
    if memory != math.inf:
        argument_checks.positive(memory, "memory")
    ratio = Fraction(ratio)
    known = {str(s): s for alpha, _ in form.terms for s in alpha.free_symbols}
    if axis not in known:
        listed = ", ".join(known) or "none"
        raise SizeError(f"transfers for each operation do not depend on {axis!r}, only on {listed}")
    if axis in (sizes or {}):
        raise SizeError(f"axis {axis!r} has a size in sizes, and is asked for: leave it out")
    variable, terms = known[axis], _filled(form, sizes or {})
    missing = {s for alpha, _ in terms for s in alpha.free_symbols} - {variable}
    if missing:
        raise SizeError(f"the size of axis {min(map(str, missing))!r} is missing")
    most, least = (_excess(terms, variable, ratio, memory, up) for up in (True, False))
    spans = _spans(most)
    if not spans:
        raise CatdiagError(f"no size of {axis!r} suffices: more memory, or more bandwidth, or other sizes")
    if len(spans) > 1:
        raise CatdiagError(f"the sizes of {axis!r} that suffice are no single range: {spans}")
    ((lower, upper),) = spans
    for end, beyond in ((lower, -1), (upper, 1)):
        if end is not None and end > 1:
            near = end * (1 + beyond * Fraction(1, 10**9))
            value = least.eval(sympy.Rational(near.numerator, near.denominator))
            if not value > 0:
                raise CatdiagError(f"the end {float(end)} of the range of {axis!r} is not certain: a double root")
    return SizeRange(axis, lower, upper)


def _excess(terms: list[tuple[Expr, Fraction]], variable: Expr, ratio: Fraction, memory: Number, up: bool) -> Any:
    """A polynomial that is positive where more than `ratio` is moved: at least (`up`) or at most the true excess."""
    import sympy

    total = -sympy.Rational(ratio.numerator, ratio.denominator)
    for alpha, beta in terms:
        if beta and memory == math.inf:
            continue
        total += alpha * _power(memory, beta, up) if beta else alpha
    above, below = sympy.fraction(sympy.together(sympy.expand(total)))
    if not below.is_positive:
        raise CatdiagError(f"{total} is no sum of powers of {variable} with a denominator above 0")
    return sympy.Poly(above, variable)


def _power(memory: Number, beta: Fraction, up: bool) -> Expr:
    """A rational bound of `memory ** -beta`."""
    import sympy

    inverse = Fraction(memory) ** -beta.numerator
    scaled = (inverse.numerator << (_BITS * beta.denominator)) // inverse.denominator
    found, exact = sympy.integer_nthroot(scaled, beta.denominator)
    whole = exact and (inverse.numerator << (_BITS * beta.denominator)) % inverse.denominator == 0
    return sympy.Rational(found + (1 if up and not whole else 0), 1 << _BITS)


def _spans(excess: Any) -> list[tuple[Fraction, Fraction | None]]:
    """The intervals of numbers from 1 on at which a polynomial is at most 0; their ends are such numbers."""
    import sympy

    roots = [
        (Fraction(int(low.p), int(low.q)), Fraction(int(high.p), int(high.q)))
        for (low, high), _ in excess.intervals(eps=sympy.Rational(1, 10**12), inf=1)
    ]
    spans: list[tuple[Fraction, Fraction | None]] = []
    before = False
    for place, start in enumerate([Fraction(1), *(high for _, high in roots)]):
        stop = roots[place][0] if place < len(roots) else None
        inside = start * 2 + 1 if stop is None else (start + stop) / 2
        fine = bool(excess.eval(sympy.Rational(inside.numerator, inside.denominator)) <= 0)
        if fine and before:  # it touches 0 between the two
            spans[-1] = (spans[-1][0], stop)
        elif fine:
            spans.append((start, stop))
        before = fine
    return spans


def bandwidth_needed(io: IO, sizes: Mapping[str, int], tiles: Mapping[str, int], flops_per_s: Number) -> Fraction:
    """What an edge has to move in a second so that these tiles keep the matrix units busy, in the unit of `io`.

    Exact: all transfers of the whole run (ceilings included), over the time that the work takes at `flops_per_s`.
    Raises SizeError for missing sizes or tiles.

    >>> import catdiag as cd
    >>> product = cd.algorithm("a b, b c")(lambda A, B: cd.einsum("a b, b c -> a c", A, B))
    >>> io = product.stream("b").group("a c").io(dtype="bf16")
    >>> bandwidth_needed(io, {"a": 64, "b": 64, "c": 64}, {"g_a": 32, "g_c": 32}, 1e12) / 10**9
    Fraction(625, 8)
    """
    require(isinstance(io, IO), "io", io, "what .io() gives")
    argument_checks.numbers(sizes)
    argument_checks.numbers(tiles, "tiles")
    argument_checks.positive(flops_per_s, "flops_per_s")
    return (
        _number(io.transfers, {**sizes, **tiles}) * Fraction(flops_per_s) / _number(_products(io), {**sizes, **tiles})
    )


def _products(io: IO) -> Expr:
    work = io.work.get("tensor", 0)
    if work == 0:
        raise CatdiagError("the diagram has no products for matrix units, so nothing to keep them busy with")
    return work


def _useful_work(io: IO, work: Expr) -> Expr:
    """The work with whole axes for tiles and blocks, where nothing is done again."""
    return work.subs({**io.groups, **io.streams})


def _number(formula: Expr, values: Mapping[str, int]) -> Fraction:
    found = formula.subs({s: values[str(s)] for s in formula.free_symbols if str(s) in values})
    if found.free_symbols:
        raise SizeError(f"the size of {', '.join(sorted(map(str, found.free_symbols)))} is missing")
    return Fraction(int(found.p), int(found.q))


def min_memory_integer(
    io: IO, sizes: Mapping[str, int], ratio: Fraction, blocks: Mapping[str, int] | None = None
) -> IntegerTiles:
    """The smallest memory of whole tiles that move at most `ratio` for each operation: exact, nothing left out.

    Operations that several groups do again count once, as in `per_operation`.

    In the unit of `io`. Stream blocks are 1 unless `blocks` gives them (`{"s_x": 64}`). Transfers depend on a tile only
    through how many there are, and memory grows with it, so the least tile for each number of tiles is tried, and
    no others need be. Raises CatdiagError where not even whole axes suffice, for several kernels and where more than
    four million combinations are left; SizeError for missing sizes.

    >>> import catdiag as cd
    >>> product = cd.algorithm("a b, b c")(lambda A, B: cd.einsum("a b, b c -> a c", A, B))
    >>> found = min_memory_integer(product.stream("b").group("a c").io(), {"a": 64, "b": 64, "c": 64}, Fraction(1, 16))
    >>> found.memory, dict(found.tiles), found.transfers
    (390, {'g_a': 16, 'g_c': 22, 's_b': 1}, 32768)
    """
    import numpy as np

    require(isinstance(io, IO), "io", io, "what .io() gives")
    argument_checks.numbers(sizes)
    argument_checks.positive(ratio, "ratio")
    argument_checks.numbers({} if blocks is None else blocks, "blocks")
    account = io.account
    account.runs_all("the tiles that are best whole are sought for loops that run all")
    if len(account.kernels) != 1 or account.split_loop is not None:
        raise CatdiagError(f"the smallest memory is that of one kernel, and the diagram has {len(account.kernels)}")
    missing = [name for name in account.sizes if name not in sizes]
    if missing:
        raise SizeError(f"the size of axis {missing[0]!r} is missing: expected sizes for {', '.join(account.sizes)}")
    (kernel,) = account.kernels
    if any(transfer.loop_nest for transfer in kernel.transfers):
        raise CatdiagError("a loop inside a loop reloads in every iteration: its best blocks are not sought here")
    budget = ratio * _number(_useful_work(io, _products(io)), sizes)
    values: dict[str, Any] = {**sizes, **{block: 1 for block, _ in kernel.loops}, **(blocks or {})}
    shared = {tile for moved in kernel.transfers for tile in moved.reload_axes}
    whole = {tile: int(axis.value(values)) for tile, axis in kernel.tiles.items()}
    options = [tile_sizes(size) if tile in shared else [1] for tile, size in whole.items()]
    if math.prod(map(len, options)) > _GRID:
        raise CatdiagError(f"{math.prod(map(len, options)):,} combinations of tiles are too many: group fewer axes")
    grid = np.array(list(product(*options)), dtype=object).reshape(-1, len(options))
    at = {**values, **{tile: grid[:, k] for k, tile in enumerate(whole)}}
    moved: Any = np.zeros(len(grid), dtype=object)
    for transfer in kernel.transfers:
        times: Any = transfer.size.value(values)
        for tile in transfer.reload_axes:
            times = times * -(-whole[tile] // at[tile])
        moved = moved + times
    held: Any = np.zeros(len(grid), dtype=object)
    for moment in kernel.points[LEVEL]:
        held = np.maximum(held, moment.total.value(at) + np.zeros(len(grid), dtype=object))
    fine = np.nonzero(moved <= budget)[0]
    if not len(fine):
        raise CatdiagError(
            f"not even whole axes suffice: {int(min(moved)):,} {io.unit} are moved, and {float(budget):,.0f} may be"
        )
    best = min(fine, key=lambda place: (held[place], moved[place], place))
    tiles = {
        **{tile: int(grid[best, k]) for k, tile in enumerate(whole)},
        **{b: int(values[b]) for b, _ in kernel.loops},
    }
    return IntegerTiles(int(held[best]), tiles, int(moved[best]), budget)
