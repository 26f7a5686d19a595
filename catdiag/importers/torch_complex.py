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
    "cat", "stack", "repeat", "flip", "roll", "sum", "mean", "cumsum", "split", "chunk", "unbind",
)  # fmt: skip
"""Operations that do the same to both parts."""


def by_parts(of_reals: Rule) -> Rule:
    """The rule of an operation on complex arrays that does the same to both parts, from that of real ones."""

    def apply(b: ProgramBuilder, call: AtenCall) -> Any:
        def part(choose: Callable[[ComplexValue], ArrayValue]) -> Any:
            def chosen(value: Any) -> Any:
                if isinstance(value, list):
                    return [chosen(v) for v in value]
                return choose(value) if isinstance(value, ComplexValue) else value

            return of_reals(
                b, replace(call, arguments={k: chosen(v) for k, v in call.arguments.items()}, element="real")
            )

        real, imaginary = part(lambda v: v.real), part(lambda v: v.imaginary)
        if isinstance(real, tuple):
            return tuple(map(ComplexValue, real, imaginary))
        return ComplexValue(real, imaginary)

    return apply


PRODUCTS = ("matmul", "mm", "bmm", "mv", "dot", "outer", "einsum")
"""Operations that are linear in each of two arrays."""


def by_products(of_reals: Rule) -> Rule:
    """The rule of a product of complex arrays, from that of real ones: four products."""

    def apply(b: ProgramBuilder, call: AtenCall) -> ComplexValue:
        given = call.arguments
        names = [k for k, v in given.items() if isinstance(v, (ArrayValue, ComplexValue))]
        pair = next((v for v in given.values() if isinstance(v, list) and len(v) == 2), None)
        operands = [given[name] for name in names] if pair is None else pair
        if len(operands) != 2:
            raise Unsupported(f"{call.name} of other than two complex arrays")

        def product(left: ArrayValue | None, right: ArrayValue | None) -> ArrayValue | None:
            if left is None or right is None:
                return None
            put: dict[str, Any] = dict(zip(names, (left, right), strict=False))
            if pair is not None:
                put = {k: [left, right] for k, v in given.items() if v is pair}
            return of_reals(b, replace(call, arguments={**given, **put}, element="real"))  # type: ignore[no-any-return]

        (p, q), (r, s) = ((v.real, v.imaginary) if isinstance(v, ComplexValue) else (v, None) for v in operands)
        parts = [(product(p, r), product(q, s), -1), (product(p, s), product(q, r), 1)]
        return ComplexValue(*(_sum(b, one, other, sign) for one, other, sign in parts))

    return apply


def _sum(b: ProgramBuilder, one: ArrayValue | None, other: ArrayValue | None, sign: int) -> ArrayValue:
    """A sum or a difference of arrays, of which one may be none."""
    if one is None or other is None:
        found = one if other is None else other
        assert found is not None, "of two factors one is complex"
        return b.pointwise([found], lambda a: -a) if one is None and sign < 0 else found
    return b.pointwise([one, other], lambda a, c: a + sign * c)


def of_pairs(b: ProgramBuilder, value: ArrayValue) -> ComplexValue:
    """A complex array from a real one whose last dimension has the two parts."""
    for factor in b.factors.resolve(value.dims[-1]):
        b.factors.fix(factor.extent)
    last = len(value.dims) - 1
    return ComplexValue(b.selected(value, last, 0), b.selected(value, last, 1))


def is_complex(call: AtenCall) -> bool:
    """Whether a call takes or gives complex arrays."""
    given = [v for a in call.arguments.values() for v in (a if isinstance(a, list) else [a])]
    return call.element == "complex" or any(isinstance(v, (ComplexValue, complex)) for v in given)


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


def _parts(operand: Any) -> tuple[Any, Any]:
    """The real and the imaginary part of an array or a number."""
    if isinstance(operand, ComplexValue):
        return operand.real, operand.imaginary
    if isinstance(operand, complex):
        return operand.real, operand.imag
    return operand, 0


@rule("mul")
def _mul(b: ProgramBuilder, call: AtenCall) -> ComplexValue:
    given = [*_parts(call["self"]), *_parts(call["other"])]
    return ComplexValue(
        b.pointwise(given, lambda p, q, r, s: p * r - q * s), b.pointwise(given, lambda p, q, r, s: p * s + q * r)
    )


@rule("add", "sub")
def _add(b: ProgramBuilder, call: AtenCall) -> ComplexValue:
    sign = (1 if call.name == "add" else -1) * call.get("alpha", 1)
    (p, q), (r, s) = _parts(call["self"]), _parts(call["other"])
    return ComplexValue(*(b.pointwise(pair, lambda a, c: a + sign * c) for pair in ([p, r], [q, s])))


@rule("div")
def _div(b: ProgramBuilder, call: AtenCall) -> ComplexValue:
    given = [*_parts(call["self"]), *_parts(call["other"])]
    return ComplexValue(
        b.pointwise(given, lambda p, q, r, s: (p * r + q * s) / (r * r + s * s)),
        b.pointwise(given, lambda p, q, r, s: (q * r - p * s) / (r * r + s * s)),
    )


@rule("exp")
def _exp(b: ProgramBuilder, call: AtenCall) -> ComplexValue:
    given = [*_parts(call["self"])]
    return ComplexValue(
        b.pointwise(given, lambda p, q: elementwise.exp(p) * elementwise.cos(q)),
        b.pointwise(given, lambda p, q: elementwise.exp(p) * elementwise.sin(q)),
    )


@rule("abs")
def _abs(b: ProgramBuilder, call: AtenCall) -> ArrayValue:
    return b.pointwise([*_parts(call["self"])], lambda p, q: elementwise.sqrt(p * p + q * q))


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
    if call.element != "complex":
        raise Unsupported("a cast from complex to real numbers, which leaves out imaginary parts: take .real")
    if isinstance(value, ComplexValue):
        return value
    return ComplexValue(value, b.view(b.constant(0, (), "real"), value.dims))
