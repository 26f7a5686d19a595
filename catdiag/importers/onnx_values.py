"""Values of an ONNX graph that are known before it runs: constants, shapes, and what is computed from them.

ONNX computes with shapes as with arrays: it takes elements of them, multiplies them, and joins them. Such an array is
kept as its elements, each a number or a function of sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from catdiag.importers.constant_folding import filled
from catdiag.importers.imported_values import ArrayValue, Operand, SizeNumber
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.torch_calls import AtenCall, Unsupported


@dataclass(frozen=True, eq=False)
class KnownArray:
    """An array of numbers and functions of sizes; `input` makes an input of the program for it, if it is one of the
    model's constants."""

    elements: Any
    input: Callable[[], ArrayValue] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the array."""
        return tuple(self.elements.shape)

    def numbers(self) -> list[Operand]:
        """The elements, in order."""
        return list(self.elements.reshape(-1))


OnnxOperand = ArrayValue | KnownArray | None
"""What a node reads; None for an input that is left out."""


def known_array(elements: Any, shape: Sequence[int]) -> KnownArray:
    """An array of these elements."""
    made = np.empty(len(elements), dtype=object)
    made[:] = list(elements)
    return KnownArray(made.reshape(tuple(shape)))


def element_of(value: OnnxOperand) -> str:
    """The element type of an operand."""
    if isinstance(value, ArrayValue):
        return "real" if value.element == "extended" else value.element
    first = next((v.value if isinstance(v, SizeNumber) else v for v in value.numbers()), 0) if value else 0
    return "bool" if isinstance(first, bool) else "int" if isinstance(first, int) else "real"


def shape_of(b: ProgramBuilder, value: OnnxOperand) -> tuple[int, ...]:
    """The lengths of an operand in the example."""
    return tuple(b.shape(value)) if isinstance(value, ArrayValue) else value.shape if value else ()


def as_array(b: ProgramBuilder, value: OnnxOperand) -> ArrayValue:
    """An operand as an array of the program. Raises Unsupported."""
    if isinstance(value, ArrayValue):
        return value
    if value is None:
        raise Unsupported("an input that is left out")
    numbers, element = value.numbers(), element_of(value)
    first = numbers[0] if numbers else 0
    if all(v is first or (not isinstance(v, SizeNumber) and v == first) for v in numbers):
        return filled(b, first, value.shape, element)
    if value.input is not None:
        return value.input()
    if len(value.shape) != 1:
        raise Unsupported("a table that is computed from constants")
    return b.stacked([filled(b, v, (), element) for v in numbers], 0)


def operand_of(b: ProgramBuilder, value: OnnxOperand) -> Operand:
    """An operand of an elementwise function: a single number as that."""
    if isinstance(value, KnownArray) and value.elements.size == 1:
        return value.numbers()[0]
    return as_array(b, value)


def integers_of(value: OnnxOperand, what: str) -> list[int]:
    """The integers of an operand, in the example. Raises Unsupported where they are computed from arrays."""
    if not isinstance(value, KnownArray):
        raise Unsupported(f"{what} that depend on values")
    return [int(v.value if isinstance(v, SizeNumber) else v) for v in value.numbers()]  # type: ignore[arg-type]


def operands(call: AtenCall, least: int = 0) -> list[OnnxOperand]:
    """What a call reads, with None for what is left out, and at least so many."""
    found: list[OnnxOperand] = list(call["operands"])
    return found + [None] * (least - len(found))


def is_known(call: AtenCall) -> bool:
    """Whether all operands of a call are known."""
    return all(isinstance(v, KnownArray) for v in call["operands"] if v is not None)
