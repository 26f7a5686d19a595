"""Sizes and amounts in words, for pictures: axes of arrays at each level, totals, bytes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from catdiag.category.index_maps import read_off
from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.category.types import ArrayType, Size, show_size
from catdiag.cost.traffic_by_level import level_symbol
from catdiag.schedule.kernel_analysis import Account
from catdiag.schedule.lowered_kernel import LoweredKernel
from catdiag.schedule.placement import Placement
from catdiag.util.errors import CatdiagError, SizeError

_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


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
        for number, place in enumerate(places.names, 1):
            own: dict[str, str] = {}
            for base in (*tiles, *blocks):
                if base in self.single:
                    continue
                if place == places.matrix:  # the memory of the matrix units takes the tiles of the level that feeds it
                    own[base] = self.names[places.names[number - 2]][base]
                    continue
                own[base] = level_symbol(base, number, taken)
                if number > 1:
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

    def _symbol(self, name: str, place: str) -> str:
        split_loop = self.account.split_loop
        if split_loop is not None and name == split_loop.length:
            return f"{shown(split_loop.axis_size)}/{split_loop.parts}"
        return self.names.get(place, {}).get(name, name)

    def axes(self, ty: ArrayType, place: str) -> str:
        """The sizes of an array's axes at a level: `g_q × d`; for a scalar, `1`."""

        def named(leaf: Size) -> Size:
            return self._symbol(leaf, place) if isinstance(leaf, str) else leaf

        def joined(op: str, left: Size, right: Size) -> Size:
            return op, left, right

        sizes: list[Size] = [read_off(a.size, named, joined) for a in ty.axes if a.size not in self.single]
        if self.account.split_loop is not None:
            sizes = [s for s in sizes if s != 1]
        return " × ".join(f"({shown(s)})" if len(sizes) > 1 and _is_sum(s) else shown(s) for s in sizes) or "1"

    def untiled(self, ty: ArrayType, kernel: LoweredKernel) -> str:
        """The sizes of the whole array, of which a kernel reads tiles and blocks."""
        wholes, split_loop = {**kernel.tiles, **dict(kernel.loops)}, self.account.split_loop
        sizes: list[str] = []
        cut = split_loop is not None and any(
            IntPolynomial.of(split_loop.length) == wholes.get(str(a.size)) for a in ty.axes
        )
        for axis in ty.axes:
            if split_loop is not None and axis.name == split_loop.parts:  # with what is in a part, it is the whole axis
                sizes += [] if cut else [split_loop.parts]
                continue
            if split_loop is not None and cut and IntPolynomial.of(split_loop.length) == wholes.get(str(axis.size)):
                sizes.append(shown(split_loop.axis_size))
                continue
            local, total = IntPolynomial.of(axis.size), IntPolynomial()
            for monomial, coefficient in local.terms.items():
                product = IntPolynomial({(): coefficient})
                for name in monomial:
                    product = product * wholes.get(name, IntPolynomial.of(name))
                total = total + product
            text = self.polynomial(total, "")
            sizes.append(f"({text})" if len(ty.axes) > 1 and " + " in text else text)
        return " × ".join(sizes) or "1"

    def polynomial(self, amount: IntPolynomial, place: str) -> str:
        """An amount as a formula in the sizes of a level."""
        parts: list[str] = []
        for monomial, coefficient in sorted(
            amount.without(self.single).terms.items(), key=lambda t: (-len(t[0]), t[0])
        ):
            names = [self._symbol(name, place) for name in monomial]
            factors = [f"{n}{_power(names.count(n))}" for n in dict.fromkeys(names)]
            head = [str(abs(coefficient))] if abs(coefficient) != 1 or not factors else []
            parts.append(("-" if coefficient < 0 else "") + "·".join([*head, *factors]))
        return " + ".join(parts).replace("+ -", "- ") or "0"

    def allocated(self, ty: ArrayType, amount: IntPolynomial, place: str, stages: int) -> str:
        """The allocated part of an array: its axes, the number of buffers if several, or the size of a bounding box.

        The last is for an array of which an access region is allocated.
        """
        elements = IntPolynomial.elements(ty.axes)
        ratio = next((amount.terms.get(m, 0) // c for m, c in elements.terms.items()), 0)
        if not ratio or elements.scaled(ratio) != amount:
            return self.polynomial(amount, place) + (" B" if self.unit == "bytes" else "")
        text = self.axes(ty, place)
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
        >>> Wording(Account((), (), (), (), id(Ty())), two(), {}, "bytes").number(98816)
        '96.5 KiB'
        """
        if self.unit != "bytes":
            return f"{value:,}"
        for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
            if value >= size:
                return f"{value / size:.4g} {unit}" if value / size < 9999.5 else f"{round(value / size):,} {unit}"
        return f"{value} B"


def shown(size: Size) -> str:
    """A size as text.

    >>> shown(("*", 2, ("+", "x", 1)))
    '2·(x + 1)'
    """
    return show_size(size).replace("*", "·")


def _is_sum(size: Size) -> bool:
    return isinstance(size, tuple) and size[0] == "+"


def _power(times: int) -> str:
    return "" if times == 1 else str(times).translate(_RAISED)
