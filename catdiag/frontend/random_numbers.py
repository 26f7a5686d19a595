"""Random numbers inside of algorithms, and dropout, which is made of them.

A random number is a function of a seed and of the position it is for (Philox 4x32-10). So a mask is no array: whatever
reads it makes it again, from positions in the whole array, in any tile and in the backward pass.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from fractions import Fraction

from catdiag.category.types import ArrayType
from catdiag.frontend import builder
from catdiag.frontend.constants import number
from catdiag.frontend.elementwise import where
from catdiag.frontend.tracing import Operand, Trace, Traced, running
from catdiag.util.errors import AxisError, SignatureError, TypeMismatch

WORDS = 4
"""The words of a counter."""


def uniform(seed: Operand, *position: Operand) -> Traced:
    """A random number in [0, 1) for a seed and a position of one to four integers, elementwise.

    The same seed and position give the same number everywhere: in NumPy, PyTorch and Triton, in each tile, and in the
    backward pass. The generator is Philox 4x32-10 (Salmon et al. 2011): the seed is its key, of 64 bits, the position
    its counter, each integer modulo 2**32; `cd.uniform(seed, i)` is `tl.rand(seed, i)` of Triton, bit for bit. Theorems
    use only that it is a function: they hold for any generator.

    >>> import catdiag as cd
    >>> noise = cd.algorithm("x, int[] -> x")(lambda a, seed: a + cd.uniform(seed, cd.index("x")))
    >>> noise([0.0, 0.0], 7).round(4).tolist()
    [0.0908, 0.8139]

    Raises TypeMismatch for a seed or position that is not of integers; SignatureError for another number of positions.
    """
    trace = running()
    if not 1 <= len(position) <= WORDS:
        raise SignatureError(f"cd.uniform takes a seed and a position of one to {WORDS} integers, not {len(position)}")
    words = [_integers(trace, a, "a seed" if k == 0 else "a position") for k, a in enumerate((seed, *position))]
    return trace.map("uniform", *words, *[trace.lift(0, element="int")] * (1 + WORDS - len(words)))


def dropout(array: Operand, rate: float | Fraction, seed: Operand) -> Traced:
    """The array with entries replaced by 0 at random, each with the chance `rate`, and the others divided by 1 − rate.

    So the expected value of an entry is the entry (Srivastava et al. 2014; `F.dropout` of PyTorch, in training). The
    entry at [i, j, k] is kept where `cd.uniform(seed, k, j, i)` is at least the rate, rounded to float32; the leading
    axes of an array of more than four count as one. `seed` is an integer, or an array of integers with axes of the
    array. Two dropouts with one seed have one mask: give the second `seed + 1`. Other axes, along which a program is
    mapped later, share the mask.

    >>> import catdiag as cd
    >>> drop = cd.algorithm("q x, int[] -> q x")(lambda a, seed: cd.dropout(a, 0.5, seed))
    >>> drop([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]], 7).tolist()
    [[0.0, 2.0, 0.0], [0.0, 0.0, 2.0]]

    Raises SignatureError for a rate that is not between 0 and 1; TypeMismatch for a seed that is not of integers;
    AxisError for a seed with an axis that the array lacks.
    """
    trace = running()
    given = trace.numeric(trace.lift(array))
    key = _integers(trace, seed, "a seed")
    exact = _rate(rate)
    missing = [name for name in key.type.names if name not in given.type.names]
    if missing:
        raise AxisError(f"the seed of cd.dropout has axis {missing[0]!r}, which the array {given.type} lacks")

    def body(a: Traced, s: Traced) -> Traced:
        return where(uniform(s, *_position(running(), a.type)) < _single(exact), 0, a / (1 - exact))

    types = [given.type, key.type]
    make = lambda: builder.program(types, body, ("a", "seed"), "dropout")  # noqa: E731
    return trace.call("dropout", trace.memo(("dropout", *types, exact), make), [given, key])[0]


def _integers(trace: Trace, value: Operand, what: str) -> Traced:
    array = trace.lift(value, element="int")
    if array.type.element != "int":
        raise TypeMismatch(
            f"{what} of random numbers is of integers, not {array.type} of {array.type.element} numbers: "
            'declare it so, as in "q x, int[]", or use cd.index'
        )
    return array


def _rate(rate: float | Fraction) -> Fraction:
    """The rate of a dropout. Raises SignatureError unless it is a number between 0 and 1."""
    exact = None if isinstance(rate, Traced) else number(rate)
    if exact is None or not 0 < exact < 1 or not 0 < _single(exact) < 1:
        raise SignatureError(
            f"cd.dropout has the rate {rate!r}: expected a number between 0 and 1, the chance of each entry to be "
            "dropped; to drop nothing leave it out"
        )
    return exact


def _single(value: Fraction) -> Fraction:
    """The number as float32 has it: random numbers are such ones, and compare with it alike in every language."""
    (found,) = struct.unpack("f", struct.pack("f", float(value)))
    return Fraction(found)


def _position(trace: Trace, ty: ArrayType) -> Sequence[Operand]:
    """The words of the counter at each place of an array: the last axis first, and all leading axes as one."""
    indices = [trace.index(axis) for axis in ty.axes]
    if not indices:
        return [0]
    count = max(1, len(indices) + 1 - WORDS)
    leading: Operand = indices[0]
    for k in range(1, count):
        leading = leading * builder.size(ty.axes[k].name) + indices[k]
    return [*reversed(indices[count:]), leading]
