"""Addresses, masks and loads that a kernel computes twice, which the compiler computes once.

Triton removes common subexpressions before it places anything (MLIR's CSE pass): operations without effects that are
equal, if the first dominates the second; and equal loads, if they are in one block of operations and nothing is stored
between them. Here operations are equal if their operands are the same values, or the same constants.

>>> values = CommonSubexpressions()
>>> at, mask = TileValue((64,), pointer=True), TileValue((64,), "bool")
>>> first = values.address(("+", at, mask), lambda: TileValue((64,)))
>>> values.address(("+", at, mask), lambda: TileValue((64,))) is first
True
>>> with values.region():                   # the body of a loop: what was computed before it is known in it
...     inner = values.address(("-", at, mask), lambda: TileValue((64,)))
...     values.address(("+", at, mask), lambda: TileValue((64,))) is first
True
>>> values.address(("-", at, mask), lambda: TileValue((64,))) is inner
False
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from catdiag.runtime.abstract_interpreter.tile_values import UNKNOWN, TileValue

Operation = tuple[Any, ...]


class CommonSubexpressions:
    """The addresses and masks that are computed so far, and the loads of the block of operations that is executed."""

    def __init__(self) -> None:
        self._addresses: dict[Hashable, tuple[Operation, TileValue]] = {}
        self._loads: dict[Hashable, tuple[Operation, TileValue]] = {}

    def address(self, operation: Operation, compute: Callable[[], TileValue]) -> TileValue:
        """The value of an operation on positions: one that is known, or else what `compute` gives. An operation on what
        was loaded or multiplied is computed each time."""
        if any(isinstance(v, TileValue) and (v.layout is not None or v.fresh) for v in operation):
            return compute()
        return _known(self._addresses, operation, compute)

    def load(self, operation: Operation, compute: Callable[[], TileValue]) -> TileValue:
        """The value of a load: one that is known, or else what `compute` gives."""
        return _known(self._loads, operation, compute)

    def stored(self) -> None:
        """Forgets the loads: something was stored."""
        self._loads.clear()

    @contextmanager
    def region(self) -> Iterator[None]:
        """A block of operations of its own: what it computes is not known outside of it. It may store."""
        addresses, self._loads = self._addresses, {}
        self._addresses = dict(addresses)
        try:
            yield
        finally:
            self._addresses, self._loads = addresses, {}


def _known(
    known: dict[Hashable, tuple[Operation, TileValue]], operation: Operation, compute: Callable[[], TileValue]
) -> TileValue:
    key = tuple(map(_key, operation))
    found = known.get(key)
    if found is None:  # operands are stored beside the value, so that no other object has their identity
        found = known[key] = (operation, compute())
    return found[1]


def _key(operand: Any) -> Hashable:
    """What two operands that are equal have in common: the constant, or the identity of the value."""
    if isinstance(operand, tuple):
        return tuple(map(_key, operand))
    if isinstance(operand, TileValue):
        if operand.known is UNKNOWN or operand.shape:
            return id(operand)
        return (operand.dtype, type(operand.known).__name__, operand.known)
    return operand if isinstance(operand, str | int | None) else id(operand)
