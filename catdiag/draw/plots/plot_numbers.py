"""The numbers that plots read from formulas, counts and plans at sizes."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from catdiag.category.ops import FoldOp, GroupOp
from catdiag.chip import hardware
from catdiag.rewrite.derivation import source_of as begun
from catdiag.util.errors import CatdiagError, SizeError

if TYPE_CHECKING:
    from catdiag.chip.hardware import Hardware
    from catdiag.planner.plan import KernelPlan

Dtype = str | Mapping[str, str] | None


def at(formula: Any, sizes: Mapping[str, Any]) -> int | Fraction:
    """The exact value of a formula at sizes by name. Raises SizeError for a size that is missing.

    >>> import sympy
    >>> q, g = sympy.symbols("q g_q", positive=True)
    >>> at(3 * sympy.ceiling(q / g), {"q": 10, "g_q": 4})
    9
    """
    import sympy

    formula = sympy.sympify(formula, strict=True)
    value = formula.subs({s: sizes[s.name] for s in formula.free_symbols if s.name in sizes})
    if value.free_symbols:
        missing = ", ".join(sorted(map(str, value.free_symbols)))
        raise SizeError(f"no size was given for {missing}: a plot needs a number for each")
    value = sympy.nsimplify(value) if not value.is_Rational else value
    if not value.is_Rational:
        return Fraction(float(value))
    return int(value) if value.is_Integer else Fraction(int(value.p), int(value.q))


def dtype_of(plan: KernelPlan) -> Dtype:
    """The element types of a plan, in the form that `io` takes."""
    return plan.types or plan.dtype


def chip_of(plan: KernelPlan, chip: Hardware | str | None) -> Hardware:
    """The chip of a plan. Raises CatdiagError where its bandwidths are not those of the plan."""
    found = hardware.get(plan.hardware if chip is None else chip)
    rates = found.sustained_bytes_per_s
    for edge in plan.edges:
        if rates.get(edge.upper, edge.bytes_per_s) != edge.bytes_per_s:
            raise CatdiagError(
                f"the plan was made for a {plan.hardware} whose {edge.upper} gives {edge.bytes_per_s:g} bytes a "
                f"second, and {found.name} here gives {rates[edge.upper]:g}: give the chip of the plan as chip="
            )
    return found


def source_of(derivation: Any) -> Any:
    """The diagram that a derivation started from; None for a diagram that has groups or loops already."""
    source = begun(derivation)
    return None if any(isinstance(box.op, (FoldOp, GroupOp)) for box in source.boxes) else source


def name_of(derivation: Any) -> str:
    """The name of a derivation: the title of the diagram that it started from."""
    return begun(derivation).title or "a diagram"
