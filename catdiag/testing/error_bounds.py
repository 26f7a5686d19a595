"""Arrays with bounds on their rounding errors: the arithmetic of running error analysis.

A `BoundedArray` is an array of numbers `values` and a bound `errors` on the error of any correct computation: |v' − v|
≤ e. `errors` is infinite where nothing is claimed: where the program is not defined, and where a value leaves the range
of the type that it is computed in. A boolean has `errors` 1 where it is not certain; a value selected by it is then
near both alternatives. Minus infinity is exact.

Each operation takes its operands anywhere within their bounds (monotone functions are evaluated at both ends, so that
this is not a first-order estimate) and adds its own rounding error, in units of the unit roundoff u of the type that is
computed in (Higham 2002, "Accuracy and Stability of Numerical Algorithms", sections 2.2, 3.3 and 4.2):

- a sum of two: u times the sum of their magnitudes. If the sum is then multiplied or divided by a number, the same
  error counts again, relative to the product: a kernel may scale both summands before it adds, as in `exp2(a · log₂e −
  b · log₂e)` and `x · r − μ · r` (but it may not distribute a product of two differences). A quotient: 4u, for kernels
  that multiply by a reciprocal;
- a sum of n terms: γ(k) = ku / (1 − ku) times the sum of magnitudes, where k is the largest number of roundings that a
  term undergoes in the schedules that are allowed (`additions`);
- sin and cos: 4u, of 1; floor, ceil, round and sign: nothing, but the argument's bound may reach over a step;
- exp, log, tanh, sigmoid, erf: 4u, and for the argument of exp 2u of its magnitude (or of the operands of which it is a
  difference);
- numbers on a coarse grid (small multiples of 1/16) are added and multiplied without rounding, so that contractions of
  small integers are compared exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from catdiag.category.scalars import row
from catdiag.execute.indexed_reads import quotient
from catdiag.execute.named_arrays import NamedArray, contract
from catdiag.execute.philox import uniform_or_nan
from catdiag.execute.scalar_functions import FUNCTIONS, erf
from catdiag.testing.float_formats import Format, rounded, truncated

_RESCALING = 5
"""Roundings per rescaling of an accumulator: an exponential with an error of 4u, and a product."""
_RISES, _RUN = 256, 128
"""The most rescalings of a term: `_RISES`, or one for every `_RUN` terms of the sum, whichever is more."""
_PARTS = 12
"""Roundings of a float32 product that a matrix unit computes from three tf32 products: 3 · 2⁻²²."""
CHAIN = 4096
"""The default for the most terms that one accumulator takes in sequence."""
_GRID = 16.0
_INTEGERS = 2.0**31


def additions(n: int, rescaled: bool = False, chain: int = CHAIN) -> int:
    """The most roundings that a term of a sum of `n` undergoes, over the schedules that are allowed.

    - The terms are added in any order and grouping (in sequence, in blocks, lanes and parts, in pairs), but no
      accumulator takes more than `chain` terms or partial sums. Up to that many terms the sum may be one sequential
      chain.
    - The sum may be a running mean, a + (b − a) · w. Its roundings are those of a sum and 2 ln n more: the k-th
      difference has weight k/n, and its quotient by k has an error of k⁻¹ of the sum so far.
    - The accumulator may be `rescaled` by exp(m − m′) as a maximum m rises (online softmax), where terms are
      exponentials or were computed from a reduction: 5 roundings each time (an exponential with an error of 4u, a
      product). The rounding of m − m′ is not among them: these errors add up to one relative to the total rise of the
      maximum, and each term's exponent has an error bound of its own for it. A rescaling by 1 is exact, so that only
      rises of the maximum count. There may be 256, or one for every 128 terms of the sum; with exponentials that have
      an error of u, 640 or one for every 51. So a loop may have any blocks up to 256 terms, blocks of 128 (51) at any
      length, and shorter ones where the maximum does not rise with every block.

    >>> additions(1), additions(1024), additions(65536), additions(65536, rescaled=True), additions(65536, chain=64)
    (0, 1043, 4142, 6702, 173)
    """
    if n <= 1:
        return 0
    deep, parts = 0, n
    while parts > 1:
        deep, parts = deep + min(parts, chain) - 1, -(-parts // chain)
    return deep + 2 * (n - 1).bit_length() + (_RESCALING * min(n, max(_RISES, n // _RUN)) if rescaled else 0)


class BoundedArray:
    """An array with named axes, and bounds on its errors; `is_input` where it is an input and not computed.

    `scale` is the magnitude of the operands of which it is a sum or difference: a kernel may scale these before it
    adds. `rescaled` says that sums of it may be rescaled while they accumulate: it is computed from an exponential or a
    reduction.
    """

    __slots__ = ("errors", "is_input", "names", "rescaled", "scale", "values")

    def __init__(
        self, v: Any, e: Any, names: tuple[str, ...], given: bool = False, scale: Any = None, rescaled: bool = False
    ) -> None:
        self.values, self.errors, self.names, self.is_input, self.rescaled = v, e, names, given, rescaled
        self.scale = _size(v) if scale is None else scale

    def over(self, order: Sequence[str]) -> BoundedArray:
        """With its axes in that order; an axis that it lacks has length 1."""
        if self.names == tuple(order):
            return self
        v, e, s = (NamedArray(part, self.names).over(order) for part in (self.values, self.errors, self.scale))
        return BoundedArray(v, e, tuple(order), self.is_input, s, self.rescaled)

    def mapped(self, change: Callable[[NamedArray], NamedArray]) -> BoundedArray:
        """With the same structural map of values and bounds."""
        v, e = change(NamedArray(self.values, self.names)), change(NamedArray(self.errors, self.names))
        return BoundedArray(v.data, e.data, v.names, self.is_input, rescaled=self.rescaled)


@dataclass(frozen=True)
class Rounding:
    """The type that is computed in, and the types to which operands of contractions and results may be rounded.

    `reference` is the type in which values are computed, whose own unit roundoff is added. `stored` is the type to
    which the result of each step may be rounded, if any. `inputs` is the type of the inputs, where it may have more
    digits than the others. `chain` is the most terms of an accumulator, at least 2.
    """

    computed: Format
    operands: Format
    reference: np.dtype[Any]
    stored: Format | None = None
    inputs: Format | None = None
    chain: int = CHAIN

    @property
    def u(self) -> float:
        """The unit roundoff, with that of the reference added."""
        return self.computed.unit + float(np.finfo(self.reference).eps) / 2

    @property
    def room(self) -> float:
        """The largest computed number for which a bound is claimed; for types of 16 bits, the largest of the type."""
        spare = 2.0**self.computed.digits if self.computed.largest > 2.0**64 else 1.0
        return self.computed.largest / spare

    def taken(self, v: Any, names: tuple[str, ...]) -> BoundedArray:
        """An input, which is exact unless the type that is computed in has fewer digits."""
        start = BoundedArray(v, np.zeros(np.shape(v)), names, given=True)
        if v.dtype.kind == "b" or self.inputs is None or self.inputs.digits <= self.computed.digits:
            return start
        return self.stored_in(start, self.computed)

    # -- results -------------------------------------------------------------------------------------------

    def result(
        self, v: Any, e: Any, rounding: Any, names: tuple[str, ...], bottom: Any = False, scale: Any = None
    ) -> BoundedArray:
        """A computed array with its rounding error; the bound is infinite where it may leave the range.

        Minus infinity is exact where `bottom` allows it. For a sum, the range applies to its summands too, with as many
        powers of two to spare as the type has digits: a kernel may divide after it adds, or scale before.
        """
        v, e = np.asarray(v, self.reference), np.asarray(e, self.reference)
        low = np.isneginf(v) & bottom
        e = e + np.where(low, 0, rounding)
        most = np.abs(v) if scale is None else np.maximum(np.abs(v), scale)
        lost = np.isnan(v) | np.isnan(e) | (~low & ~(most + e <= self.room))
        e = np.where(lost, np.inf, e)
        v = np.where(np.isnan(v) | np.isposinf(v), 0, v)
        made = BoundedArray(v, e, names, scale=scale)
        return made if self.stored is None else self.stored_in(made, self.stored)

    def stored_in(self, a: BoundedArray, in_: Format) -> BoundedArray:
        """The array rounded to a format; for tf32 possibly truncated, as by matrix units that take float32.

        Inputs are rounded as they are. A computed array may be scaled when it is rounded, like exponentials that are
        divided at the end, so that its error is up to u whatever its digits are.
        """
        finite = np.isfinite(a.values)
        cuts = in_.name == "tf32"
        if a.is_input:
            made = [rounded(a.values, in_), truncated(a.values, in_)] if cuts else [rounded(a.values, in_)]
            lost = np.max([np.where(finite & (m != a.values), np.abs(m - a.values), 0) for m in made], 0)
            e = a.errors + lost + np.where(finite & (a.values != 0), in_.flushed, 0)
        else:
            e = a.errors + np.where(
                finite, (1 + cuts) * in_.unit * (np.abs(a.values) + a.errors) + in_.smallest_step, 0
            )
        e = np.where(finite & (np.abs(a.values) + a.errors > in_.largest), np.inf, e)
        return BoundedArray(a.values, e, a.names, a.is_input, a.scale, a.rescaled)

    # -- at every index --------------------------------------------------------------------------------------

    def scalar(self, fn: str, args: Sequence[BoundedArray], order: tuple[str, ...]) -> BoundedArray:
        """A scalar function of `catdiag.category.scalars.SCALARS` at every index."""
        return row(BOUNDED, fn, "given an error bound")(self, [a.over(order) for a in args], order)

    def sum_of_two(self, a: BoundedArray, b: BoundedArray, sign: int, order: tuple[str, ...]) -> BoundedArray:
        """The sum of two arrays, or their difference for the sign −1."""
        v = a.values + b.values if sign > 0 else a.values - b.values
        scale = _size(a.values) + _size(b.values)
        exact = _on_grid(a, self) & _on_grid(b, self)
        bottom = np.isneginf(a.values) | (np.isneginf(b.values) if sign > 0 else False)
        return self.result(v, a.errors + b.errors, np.where(exact, 0, self.u * scale), order, bottom, scale)

    def product(self, a: BoundedArray, b: BoundedArray, order: tuple[str, ...]) -> BoundedArray:
        """The product of two arrays."""
        small = np.abs(a.values * b.values) * _GRID**2 < 2.0**self.computed.digits
        exact = _on_grid(a, self) & _on_grid(b, self) & small
        e = np.abs(a.values) * b.errors + (np.abs(b.values) + b.errors) * a.errors
        scale = np.maximum(a.scale * _size(b.values), _size(a.values) * b.scale)
        rounding = np.where(exact, 0, self.u * scale + self.computed.smallest_step)
        return self.result(a.values * b.values, e, rounding, order)

    def quotient(self, a: BoundedArray, b: BoundedArray, order: tuple[str, ...]) -> BoundedArray:
        """The quotient of two arrays."""
        room = np.abs(b.values) - b.errors
        v = np.where(b.values == 0, np.nan, a.values / b.values)
        e = np.where(room > 0, (a.errors + np.abs(v) * b.errors) / room, np.inf)
        bottom = np.isneginf(a.values) & (b.values > 0)
        rounding = 4 * self.u * (a.scale / np.abs(b.values)) + self.computed.smallest_step
        return self.result(v, e, rounding, order, bottom)

    def increasing(self, rule: Increasing, a: BoundedArray, order: tuple[str, ...]) -> BoundedArray:
        """An increasing function, evaluated at both ends of its argument's interval."""
        off = a.errors + 2 * self.u * a.scale if rule.of_difference else a.errors
        low, high = a.values - off, a.values + off
        bottom = np.isneginf(a.values)
        v = np.where(rule.defined(a, low), rule.function(a.values), np.nan)
        e = np.where(bottom, 0, np.maximum(rule.function(high) - v, v - rule.function(low)))
        rounding = np.where(bottom & rule.exact_at_bottom, 0, rule.rounding(self.u, self.computed.smallest_step, v))
        return self.result(v, e, rounding, order)

    def applied(
        self, function: Callable[..., Any], args: Sequence[BoundedArray], order: tuple[str, ...]
    ) -> BoundedArray:
        """A user's function, assumed monotone within the bounds of its arguments."""
        aligned = [a.over(order) for a in args]
        v = np.asarray(function(*(a.values for a in aligned)))
        e: Any = np.zeros_like(v)
        for k, a in enumerate(aligned):
            for end in (a.values - a.errors, a.values + a.errors):
                moved = [end if j == k else b.values for j, b in enumerate(aligned)]
                e = np.maximum(e, np.abs(np.asarray(function(*moved)) - v))
        return self.result(v, e * max(1, len(args)), 4 * self.u * np.abs(v), order)

    # -- along axes ------------------------------------------------------------------------------------------

    def reduction(self, monoid: str, a: BoundedArray, axis: str) -> BoundedArray:
        """A reduction by a monoid over an axis."""
        place = a.names.index(axis)
        names = a.names[:place] + a.names[place + 1 :]
        n = int(a.values.shape[place])
        if monoid in ("any", "all"):
            v = np.any(a.values, place) if monoid == "any" else np.all(a.values, place)
            # The result is certain if one deciding element is, or if all elements are.
            settled = np.any((a.values == (monoid == "any")) & (a.errors == 0), place) | np.all(a.errors == 0, place)
            return BoundedArray(v, np.where(settled, 0, 1).astype(float), names)
        if monoid in ("max", "min"):
            pick = np.maximum.reduce if monoid == "max" else np.minimum.reduce
            v, low, high = (pick(x, axis=place) for x in (a.values, a.values - a.errors, a.values + a.errors))
            return _between(v, low, high, names)
        values = np.asarray(a.values, self.reference)
        if monoid == "sum":
            magnitudes = np.sum(np.abs(values), place)
            exact = np.all(_on_grid(a, self), place) & (magnitudes * _grid(a) < 2.0**self.computed.digits)
            e = np.sum(a.errors, place)
            roundings = additions(n, a.rescaled, self.chain)
            rounding = self.gamma(roundings) * (magnitudes + e) + n * self.computed.smallest_step
            bottom = np.any(np.isneginf(values), place)
            rounding = np.where(exact | (n <= 1), 0, rounding)
            # A sum that would be exact may be divided while it accumulates, as in running means.
            divided = roundings / 4 * magnitudes if n > 1 else magnitudes
            return self.result(np.sum(values, place), e, rounding, names, bottom, np.where(exact, divided, magnitudes))
        sizes = np.prod(np.abs(values), place)
        within = np.prod(np.abs(values) + a.errors, place)
        e = np.where(np.all(a.errors == 0, place), 0, within - sizes)
        rounding = self.gamma(2 * n) * within + n * self.computed.smallest_step
        return self.result(np.prod(values, place), e, rounding, names)

    def contracted(self, arrays: Sequence[BoundedArray], kept: Sequence[str], order: tuple[str, ...]) -> BoundedArray:
        """A contraction: the sum of products over the axes that are not in `kept`."""
        lengths = {n: k for a in arrays for n, k in zip(a.names, np.shape(a.values), strict=True)}
        summed = [k for n, k in lengths.items() if n not in kept]
        terms = int(np.prod(summed, dtype=np.int64))
        matrices = bool(summed) and len(arrays) > 1
        if matrices:
            wider = self.inputs is not None and self.inputs.digits > self.operands.digits
            arrays = [a if a.is_input and not wider else self.stored_in(a, self.operands) for a in arrays]
        values = [np.asarray(a.values, self.reference) for a in arrays]
        sizes = [np.abs(v) for v in values]
        bounds = [np.asarray(a.errors, self.reference) for a in arrays]

        def product(parts: Sequence[Any]) -> Any:
            made = contract([NamedArray(p, a.names) for p, a in zip(parts, arrays, strict=True)], kept)
            return np.asarray(made.over(order))

        v, magnitudes = product(values), product(sizes)
        e: Any = np.zeros_like(magnitudes)
        # Π(aₖ + eₖ) − Πaₖ = Σₖ Π_{j<k}(aⱼ + eⱼ) · eₖ · Π_{j>k}aⱼ
        for k, bound in enumerate(bounds):
            if np.any(bound):
                wide = [s + b for s, b in zip(sizes[:k], bounds[:k], strict=True)]
                e = e + product([*wide, bound, *sizes[k + 1 :]])
        coarse = all(bool(np.all(_on_grid(a, self))) for a in arrays)
        parts = float(np.prod([_grid(a) for a in arrays]))
        exact = (magnitudes * parts < 2.0**self.computed.digits) if coarse else False
        factors = len(arrays) if terms > 1 else len(arrays) - 1
        roundings = additions(terms, any(a.rescaled for a in arrays), self.chain) + factors
        if matrices:
            # Matrix units truncate sums of low-precision products; float32 operands may be split into tf32 parts.
            cut = self.operands.digits < self.computed.digits
            roundings = 2 * roundings if cut else roundings + _PARTS * (self.computed.digits == 24)
        rounding = self.gamma(roundings) * (magnitudes + e)
        rounding = np.where(exact, 0, rounding + (terms * self.computed.smallest_step if factors or terms > 1 else 0))
        made = self.result(v, e, rounding, order)
        made.errors = np.where(magnitudes <= self.room, made.errors, np.inf)
        return made

    def gamma(self, k: int) -> float:
        """γ(k) = ku / (1 − ku), infinite where ku ≥ 1 (Higham 2002, lemma 3.1)."""
        share = k * self.u
        return share / (1 - share) if share < 1 else float("inf")


@dataclass(frozen=True)
class Increasing:
    """An increasing function and the error of computing it, from u, the smallest step and the value.

    `defined` says where it has a value, from the argument and the lower end of its interval. `of_difference` says that
    its argument may be computed as a difference of two products. Its value at −∞ may be exact.
    """

    function: Callable[[Any], Any]
    rounding: Callable[[float, float, Any], Any]
    defined: Callable[[BoundedArray, Any], Any] = lambda a, low: True
    of_difference: bool = False
    exact_at_bottom: bool = False


def _size(v: Any) -> Any:
    """Magnitudes; 0 for infinities and NaN."""
    return np.where(np.isfinite(v), np.abs(np.asarray(v, float) if np.asarray(v).dtype.kind == "b" else v), 0)


def _on_grid(a: BoundedArray, rounding: Rounding) -> Any:
    """Where a number is exact and a small multiple of 1/16, so that sums of such numbers are exact in any order."""
    scaled = np.asarray(a.values, rounding.reference) * _GRID
    with np.errstate(invalid="ignore"):
        return (a.errors == 0) & (np.rint(scaled) == scaled) & (np.abs(scaled) < 2.0 ** (rounding.computed.digits - 1))


def _grid(a: BoundedArray) -> float:
    """The reciprocal of the grid spacing: 1 where all numbers are integers, else 16."""
    return 1.0 if bool(np.all(np.rint(a.values) == a.values)) else _GRID


def _between(v: Any, low: Any, high: Any, names: tuple[str, ...]) -> BoundedArray:
    """A number anywhere between two bounds."""
    e = np.maximum(np.where(high == v, 0, high - v), np.where(low == v, 0, v - low))
    return BoundedArray(v, np.where(np.isnan(e), np.inf, e), names)


def _compared(function: np.ufunc, a: BoundedArray, b: BoundedArray, names: tuple[str, ...]) -> BoundedArray:
    v = function(a.values, b.values)
    off = a.errors + b.errors
    with np.errstate(invalid="ignore"):
        apart = np.where(a.values == b.values, 0, np.abs(np.asarray(a.values, float) - np.asarray(b.values, float)))
    return BoundedArray(v, np.where((off == 0) | (apart > off), 0.0, 1.0), names)


def _logical(fn: str, args: Sequence[BoundedArray], names: tuple[str, ...]) -> BoundedArray:
    if fn == "not":
        return BoundedArray(np.logical_not(args[0].values), args[0].errors, names)
    a, b = args
    v = np.logical_and(a.values, b.values) if fn == "and" else np.logical_or(a.values, b.values)
    decides = fn == "or"
    settled = (
        ((a.values == decides) & (a.errors == 0))
        | ((b.values == decides) & (b.errors == 0))
        | ((a.errors == 0) & (b.errors == 0))
    )
    return BoundedArray(v, np.where(settled, 0.0, 1.0), names)


def _chosen(c: BoundedArray, a: BoundedArray, b: BoundedArray, names: tuple[str, ...]) -> BoundedArray:
    v = np.where(c.values, a.values, b.values)
    e = np.where(c.values, a.errors, b.errors)
    if v.dtype.kind == "b":
        same = (a.values == b.values) & (a.errors == 0) & (b.errors == 0)
        return BoundedArray(v, np.where((c.errors == 0) | same, e, 1.0), names)
    with np.errstate(invalid="ignore"):
        either = [np.where(x.values == v, 0, np.abs(x.values - v)) + x.errors for x in (a, b)]
    return BoundedArray(v, np.where(c.errors == 0, e, np.maximum(*either)), names)


def _floor_quotient(rounding: Rounding, a: BoundedArray, b: BoundedArray, names: tuple[str, ...]) -> BoundedArray:
    e = np.where((a.errors == 0) & (b.errors == 0), 0, np.inf)
    return rounding.result(quotient(a.values, b.values), e, 0, names)


def _random(rounding: Rounding, args: Sequence[BoundedArray], names: tuple[str, ...]) -> BoundedArray:
    """A random number: exact where seed and counter are, and else any number of [0, 1)."""
    certain = np.all(np.broadcast_arrays(*(a.errors == 0 for a in args)), axis=0)
    found = uniform_or_nan(*(a.values for a in args))
    return rounding.result(found, np.where(certain, 0.0, 1.0), 0, names)


def _extremum(pick: np.ufunc) -> Rule:
    def rule(rounding: Rounding, args: Sequence[BoundedArray], names: tuple[str, ...]) -> BoundedArray:
        a, b = args
        low, high = pick(a.values - a.errors, b.values - b.errors), pick(a.values + a.errors, b.values + b.errors)
        return _between(pick(a.values, b.values), low, high, names)

    return rule


def _comparison(function: np.ufunc) -> Rule:
    return lambda rounding, args, names: _compared(function, args[0], args[1], names)


def _increasing(rule: Increasing) -> Rule:
    return lambda rounding, args, names: rounding.increasing(rule, args[0], names)


def _wave(function: np.ufunc) -> Rule:
    """Sine or cosine, which change by no more than their argument, and by no more than 2."""

    def rule(rounding: Rounding, args: Sequence[BoundedArray], names: tuple[str, ...]) -> BoundedArray:
        v = function(np.asarray(args[0].values, rounding.reference))
        return rounding.result(v, np.minimum(args[0].errors, 2), 4 * rounding.u, names)

    return rule


def _to_integers(function: np.ufunc) -> Rule:
    """A function to integers that increases; nothing is claimed of integers of more than 32 bits."""
    return _increasing(Increasing(function, lambda u, step, v: np.where(np.abs(v) < _INTEGERS, 0, np.inf)))


Rule: TypeAlias = Callable[[Rounding, Sequence[BoundedArray], tuple[str, ...]], BoundedArray]
BOUNDED: Mapping[str, Rule] = {
    "add": lambda r, args, names: r.sum_of_two(args[0], args[1], 1, names),
    "sub": lambda r, args, names: r.sum_of_two(args[0], args[1], -1, names),
    "mul": lambda r, args, names: r.product(args[0], args[1], names),
    "div": lambda r, args, names: r.quotient(args[0], args[1], names),
    "floordiv": lambda r, args, names: _floor_quotient(r, args[0], args[1], names),
    "neg": lambda r, args, names: r.result(-args[0].values, args[0].errors, 0, names, scale=args[0].scale),
    "abs": lambda r, args, names: r.result(np.abs(args[0].values), args[0].errors, 0, names),
    "max": _extremum(np.maximum),
    "min": _extremum(np.minimum),
    "eq": _comparison(np.equal),
    "ne": _comparison(np.not_equal),
    "lt": _comparison(np.less),
    "le": _comparison(np.less_equal),
    "and": lambda r, args, names: _logical("and", args, names),
    "or": lambda r, args, names: _logical("or", args, names),
    "not": lambda r, args, names: _logical("not", args, names),
    "where": lambda r, args, names: _chosen(args[0], args[1], args[2], names),
    "exp": _increasing(
        Increasing(np.exp, lambda u, step, v: 4 * u * v + step, of_difference=True, exact_at_bottom=True)
    ),
    "log": _increasing(Increasing(np.log, lambda u, step, v: 4 * u * (1 + np.abs(v)), lambda a, low: low > 0)),
    "sqrt": _increasing(
        Increasing(
            np.sqrt,
            lambda u, step, v: 4 * u * v + step,
            lambda a, low: (low >= 0) | ((a.values == 0) & (a.errors == 0)),
        )
    ),
    "tanh": _increasing(Increasing(np.tanh, lambda u, step, v: 4 * u)),
    "erf": _increasing(Increasing(erf, lambda u, step, v: 4 * u * np.abs(v) + step)),
    "sin": _wave(np.sin),
    "cos": _wave(np.cos),
    "uniform": _random,
    "sign": _increasing(Increasing(np.sign, lambda u, step, v: 0)),
    "floor": _to_integers(np.floor),
    "ceil": _to_integers(np.ceil),
    "round": _to_integers(np.rint),
    "sigmoid": _increasing(Increasing(FUNCTIONS["sigmoid"], lambda u, step, v: 6 * u * v + step, of_difference=True)),
}
"""The rule of each scalar function."""
