"""What PyTorch's operations on complex numbers mean: on pairs of real arrays, as rotations of positions use them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from catdiag.frontend import elementwise
from catdiag.importers.imported_values import ArrayValue
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.torch_calls import AtenCall, Rule, Unsupported, adding


@dataclass(frozen=True)
class ComplexValue:
    """A complex array: its real and its imaginary part."""

    real: ArrayValue
    imaginary: ArrayValue


RULES: dict[str, Rule] = {}
"""Rules for calls that take or give complex arrays."""
rule = adding(RULES)
BY_PARTS = (
    "view", "reshape", "flatten", "unflatten", "unsqueeze", "squeeze", "_unsafe_view", "transpose", "permute", "expand",
    "slice", "select", "index", "index_select", "contiguous", "clone", "detach", "alias", "lift_fresh_copy", "neg",
)  # fmt: skip
"""Operations that do the same to both parts."""


def by_parts(of_reals: Rule) -> Rule:
    """The rule of an operation on complex arrays that does the same to both parts, from that of real ones."""

    def apply(b: ProgramBuilder, call: AtenCall) -> ComplexValue:
        def part(choose: Callable[[ComplexValue], ArrayValue]) -> Any:
            arguments = {k: choose(v) if isinstance(v, ComplexValue) else v for k, v in call.arguments.items()}
            return of_reals(b, replace(call, arguments=arguments, element="real"))

        return ComplexValue(part(lambda v: v.real), part(lambda v: v.imaginary))

    return apply


def of_pairs(b: ProgramBuilder, value: ArrayValue) -> ComplexValue:
    """A complex array from a real one whose last dimension has the two parts."""
    for factor in b.factors.resolve(value.dims[-1]):
        b.factors.fix(factor.extent)
    last = len(value.dims) - 1
    return ComplexValue(b.selected(value, last, 0), b.selected(value, last, 1))


def is_complex(call: AtenCall) -> bool:
    """Whether a call takes or gives complex arrays."""
    return call.element == "complex" or any(isinstance(v, ComplexValue) for v in call.arguments.values())


@rule("view_as_complex")
def _view_as_complex(b: ProgramBuilder, call: AtenCall) -> ComplexValue:
    return of_pairs(b, call["self"])


@rule("view_as_real")
def _view_as_real(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    value = call["self"]
    return b.stacked([value.real, value.imaginary], len(value.real.dims))


@rule("polar")
def _polar(b: ProgramBuilder, call: AtenCall) -> ComplexValue:
    given = [call["abs"], call["angle"]]
    return ComplexValue(
        b.pointwise(given, lambda r, angle: r * elementwise.cos(angle)),
        b.pointwise(given, lambda r, angle: r * elementwise.sin(angle)),
    )


@rule("complex")
def _complex(b: ProgramBuilder, call: AtenCall) -> ComplexValue:
    return ComplexValue(call["real"], call["imag"])


@rule("mul")
def _mul(b: ProgramBuilder, call: AtenCall) -> ComplexValue:
    x, y = call["self"], call["other"]
    if not isinstance(x, ComplexValue):
        x, y = y, x
    if not isinstance(y, ComplexValue):
        if isinstance(y, complex):
            raise Unsupported("a product with a complex constant")
        return ComplexValue(*(b.pointwise([part, y], lambda a, c: a * c) for part in (x.real, x.imaginary)))
    parts = [x.real, x.imaginary, y.real, y.imaginary]
    return ComplexValue(
        b.pointwise(parts, lambda p, q, r, s: p * r - q * s), b.pointwise(parts, lambda p, q, r, s: p * s + q * r)
    )


@rule("conj", "_conj", "conj_physical")
def _conjugate(b: ProgramBuilder, call: AtenCall) -> ComplexValue:
    return ComplexValue(call["self"].real, b.pointwise([call["self"].imaginary], lambda a: -a))


@rule("real")
def _real(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    return call["self"].real  # type: ignore[no-any-return]


@rule("imag")
def _imaginary(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    return call["self"].imaginary  # type: ignore[no-any-return]


@rule("to", "_to_copy")
def _cast(b: ProgramBuilder, call: AtenCall) -> ComplexValue:
    value = call["self"]
    if call.element != "complex" or not isinstance(value, ComplexValue):
        raise Unsupported("a cast between real and complex numbers")
    return value
