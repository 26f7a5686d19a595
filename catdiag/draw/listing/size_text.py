"""Sizes and amounts in words, for pictures: axes of arrays at each level, totals, bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from catdiag.category.formula import SUM, Formula, added, infix, number, of_polynomial, symbol
from catdiag.category.index_maps import read_off
from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.category.types import ArrayType, Size
from catdiag.chip.units import bytes_text
from catdiag.cost.traffic_by_level import level_symbol
from catdiag.schedule.kernel_analysis import Account
from catdiag.schedule.lowered_kernel import LoweredKernel
from catdiag.schedule.placement import Placement
from catdiag.util.errors import CatdiagError, SizeError


class Wording:
    """The sizes of a counted program in words: tiles and blocks are named by level, as in `levels_io`.

    With `values`, the sizes of axes, tiles and blocks, amounts are numbers too. A tile or block of a further level has
    by default the length of the level above. Raises CatdiagError where some are missing, unknown or not positive
    integers.
    """

    def __init__(self, account: Account, places: Placement, values: Mapping[str, int] | None, unit: str) -> None:
        self.account, self.places, self.unit = account, places, unit
        split_loop = account.split_loop
        self.single = split_loop.single if split_loop is not None else ()
        tiles = dict.fromkeys(t for k in account.kernels for t in k.tiles)
        blocks = dict.fromkeys(block for k in account.kernels for block, _ in k.loops)
        taken = {*account.sizes, *account.inner, *tiles, *blocks}
        self.names: dict[str, dict[str, str]] = {}
        for level, place in enumerate(places.names, 1):
            own: dict[str, str] = {}
            for base in (*tiles, *blocks):
                if base in self.single:
                    continue
                if place == places.matrix:  # the memory of the matrix units takes the tiles of the level that feeds it
                    own[base] = self.names[places.names[level - 2]][base]
                    continue
                own[base] = level_symbol(base, level, taken)
                if level > 1:
                    taken.add(own[base])
            self.names[place] = own
        self.values = None if values is None else self._checked(values)

    def _checked(self, given: Mapping[str, int]) -> dict[str, int]:
        account, split_loop = self.account, self.account.split_loop
        values = dict(given)
        for above, below in pairwise(self.names.values()):
            values.update({name: values[above[base]] for base, name in below.items()
                           if name not in values and above.get(base) in values})  # fmt: skip
        hidden = {*self.single, *([split_loop.length] if split_loop is not None else [])}
        needed = {*account.sizes, *account.inner, *([split_loop.parts] if split_loop is not None else [])}
        needed.update(s for k in account.kernels for whole in k.tiles.values() for s in whole.symbols())
        needed -= hidden | {base for own in self.names.values() for base in own}
        needed.update(name for own in self.names.values() for name in own.values())
        missing, unknown = sorted(needed - set(values)), sorted(set(values) - needed)
        if missing or unknown:
            what = f"{missing[0]} is missing" if missing else f"{unknown[0]} is none of them"
            raise SizeError(f"sizes and tiles: {what}; expected a number for each of {', '.join(sorted(needed))}")
        for name, value in values.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise SizeError(f"{name} is {value!r}: expected a positive whole number")
        found = dict(values)
        if split_loop is not None:
            found.update(dict.fromkeys(self.single, 1))
            found[split_loop.length] = -(
                -int(IntPolynomial.of(split_loop.axis_size).value(values)) // values[split_loop.parts]
            )
        return found

    # -- words ------------------------------------------------------------------------------------------------

    def _symbol(self, name: str, place: str) -> Formula:
        split_loop = self.account.split_loop
        if split_loop is not None and name == split_loop.length:
            return infix("/", shown(split_loop.axis_size), symbol(split_loop.parts))
        return symbol(self.names.get(place, {}).get(name, name))

    def axes(self, ty: ArrayType, place: str, write: Callable[[Formula], str] = str) -> str:
        """The sizes of an array's axes at a level: `g_q × d`; for a scalar, `1`. `write` prints formulas."""
        sizes = [shown(a.size, lambda s: self._symbol(s, place)) for a in ty.axes if a.size not in self.single]
        if self.account.split_loop is not None:
            sizes = [s for s in sizes if s != number(1)]
        return _lengths(sizes, write)

    def untiled(self, ty: ArrayType, kernel: LoweredKernel, write: Callable[[Formula], str] = str) -> str:
        """The sizes of the whole array, of which a kernel reads tiles and blocks. `write` prints formulas."""
        wholes, split_loop = {**kernel.tiles, **dict(kernel.loops)}, self.account.split_loop
        sizes: list[Formula] = []
        for axis in ty.axes:
            if split_loop is not None and axis.name == split_loop.parts:
                sizes.append(symbol(split_loop.parts))
                continue
            if split_loop is not None and split_loop.length in (axis.size, str(wholes.get(str(axis.size)))):
                sizes.append(shown(split_loop.axis_size))
                continue
            local, total = IntPolynomial.of(axis.size), IntPolynomial()
            for monomial, coefficient in local.terms.items():
                product = IntPolynomial({(): coefficient})
                for name in monomial:
                    product = product * wholes.get(name, IntPolynomial.of(name))
                total = total + product
            sizes.append(self.polynomial(total, ""))
        return _lengths(sizes, write)

    def polynomial(self, amount: IntPolynomial, place: str) -> Formula:
        """An amount as a formula in the sizes of a level."""
        return of_polynomial(amount.without(self.single), lambda name: self._symbol(name, place))

    def allocated(
        self, ty: ArrayType, amount: IntPolynomial, place: str, stages: int, write: Callable[[Formula], str] = str
    ) -> str:
        """The allocated part of an array: its axes, the number of buffers if several, or the size of a bounding box.

        The last is for an array of which an access region is allocated. `write` prints formulas.
        """
        elements = IntPolynomial.elements(ty.axes)
        ratio = next((amount.terms.get(m, 0) // c for m, c in elements.terms.items()), 0)
        if not ratio or elements.scaled(ratio) != amount:
            return write(self.polynomial(amount, place)) + (" B" if self.unit == "bytes" else "")
        text = self.axes(ty, place, write)
        return text if stages == 1 else f"{stages} of {text}"

    # -- numbers ------------------------------------------------------------------------------------------------

    def value(self, amount: IntPolynomial, place: str) -> int:
        """The value of an amount at the given sizes. Raises CatdiagError without sizes."""
        if self.values is None:
            raise CatdiagError("no sizes are given: expected some")
        own = {base: self.values[name] for base, name in self.names.get(place, {}).items()}
        return int(amount.value({**self.values, **own}))

    def number(self, value: int) -> str:
        """A number of bytes, or of values.

        >>> from catdiag.schedule.placement import two
        >>> from catdiag.category.diagram import id
        >>> from catdiag.category.types import Ty
        >>> Wording(Account((), (), (), id(Ty())), two(), {}, "bytes").number(98816)
        '96.5 KiB'
        """
        if self.unit != "bytes":
            return f"{value:,}"
        return bytes_text(value)


def shown(size: Size, named: Callable[[str], Formula] = symbol) -> Formula:
    """A size as a formula, with formulas for its symbols.

    >>> print(shown(("*", 2, ("+", "x", 1))))
    2·(x + 1)
    """

    def join(op: str, left: Formula, right: Formula) -> Formula:
        return added(left, right) if op == "+" else infix("·", left, right)

    return read_off(size, lambda leaf: named(leaf) if isinstance(leaf, str) else number(leaf), join)


def _lengths(sizes: Sequence[Formula], write: Callable[[Formula], str]) -> str:
    """The lengths of axes with × between them, sums in parentheses; 1 for a scalar."""
    several = len(sizes) > 1
    return " × ".join(f"({write(s)})" if several and s.level <= SUM else write(s) for s in sizes) or "1"
