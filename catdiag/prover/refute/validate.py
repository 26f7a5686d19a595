"""The independent check of a counterexample, by code that the search does not use.

A counterexample to `left = right` under assumptions is valid if

1. every size has a natural number, each assumption holds for them, and block and tile sizes are not 0;
2. every array has, along each axis, as many elements as the size says, of its element type: integers for `int`, truth
   values for `bool`, numbers for `real`, numbers or −∞ for `extended`; and the hypotheses on inputs hold;
3. in exact arithmetic the left program is defined everywhere, and the right one is defined too and certainly differs
   from it at the named index; or, where that is claimed, the right one certainly has no value there;
4. the kernel's reading of the two programs, which theorems rest on, does not contradict this: no obligation of the left
   program is certainly violated, and the two values are not certainly equal. The kernel is not asked about loops.

So a counterexample from a search or from a file need not be trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from catdiag.kernel.context import Context
from catdiag.kernel.definedness import Obligation, owes
from catdiag.kernel.semantics import Sizes, Wire, evaluate, inputs_of, numeric, view
from catdiag.kernel.terms import KernelError, Term, fn, num, substitute
from catdiag.kernel.witness import told
from catdiag.prover.identifiers import by_identifier
from catdiag.prover.refute import exact_execution, exact_reals
from catdiag.prover.refute.counterexample_data import Counterexample, NotACounterexample
from catdiag.prover.refute.exact_execution import ExactArray, NoValue
from catdiag.prover.refute.exact_reals import MinusInfinity, Powers, Value

_HEAVY = 20_000
"""The most symbols of a program's output for which the kernel is asked."""


def replay(statement: Mapping[str, Any], given: Counterexample) -> Counterexample:
    """The counterexample with the two values that the programs of a statement compute on it.

    Raises NotACounterexample, with the reason, where it is not valid.
    """
    found = _identified(given)
    try:
        sizes = dict(found.sizes)
        _check_sizes(statement, sizes, found.blocks)
        declared = statement["left"]["inputs"]
        arrays = [_array(d, d["name"], found.arrays[d["name"]], sizes) for d in declared]
        _check_inputs(statement, arrays, found)
        for bits in (exact_reals.BITS, 4 * exact_reals.BITS):
            left, right = (_run(statement[side], arrays, found, bits) for side in ("left", "right"))
            if not any(v for v in _missing((*left, *right)) if not v.undefined):
                break
        values = [side[found.output].at(found.index) for side in (left, right)]
    except (KeyError, IndexError) as error:
        raise NotACounterexample(f"the numbers lack {error}") from error
    if gone := next(_missing(left), None):
        raise NotACounterexample(f"on these numbers the left program is not defined: {gone}")
    lhs, rhs = values
    if found.undefined:
        if not isinstance(rhs, NoValue) or not rhs.undefined:
            raise NotACounterexample(f"on these numbers the right program is defined: {rhs}")
        made = replace(given, lhs=lhs, rhs=None, reason=str(rhs))
    else:
        if gone := next(_missing(right), None):
            raise NotACounterexample(f"on these numbers the right program is not defined: {gone}")
        if not exact_reals.different(lhs, rhs):  # type: ignore[arg-type]
            raise NotACounterexample(f"on these numbers the two do not certainly differ: {lhs} and {rhs}")
        made = replace(given, lhs=lhs, rhs=rhs)
    _ask_kernel(statement, found)
    return made


def _identified(found: Counterexample) -> Counterexample:
    """A counterexample in the identifiers that a statement has for the user's names."""
    return replace(
        found,
        sizes=by_identifier(found.sizes),
        arrays=by_identifier(found.arrays),
        index=by_identifier(found.index),
        blocks=by_identifier(found.blocks),
        functions=by_identifier(found.functions),
    )


# -- sizes and element types ----------------------------------------------------------------------------------


def _size(s: Any, sizes: Mapping[str, int]) -> int:
    if isinstance(s, (list, tuple)):
        a, b = (_size(part, sizes) for part in s[1:])
        return a + b if s[0] == "+" else a * b
    return s if isinstance(s, int) else sizes[s]


def _check_sizes(statement: Mapping[str, Any], sizes: Mapping[str, int], blocks: Mapping[str, int]) -> None:
    for name, n in (*sizes.items(), *blocks.items()):
        if type(n) is not int or n < (name in blocks and name not in sizes):
            raise NotACounterexample(f"size {name} is {n}: expected a natural number, for a block or tile at least 1")
    for op, a, b in statement["assume"]:
        x, y = _size(a, sizes), _size(b, sizes)
        if not {"lt": x < y, "le": x <= y, "eq": x == y}[op]:
            raise NotACounterexample(f"the sizes {dict(sizes)} do not meet an assumption: {x} and {y} for {op}")


def _check_inputs(statement: Mapping[str, Any], arrays: Sequence[ExactArray], found: Counterexample) -> None:
    """Raises NotACounterexample unless each hypothesis on inputs is defined and certainly true on these numbers."""
    for program in statement.get("given", ()):
        for array in _run(program, arrays, found, 4 * exact_reals.BITS):
            if any(value is not True for value in array.values.values()):
                raise NotACounterexample("on these numbers an assumption about the inputs does not hold")


def _array(declared: Mapping[str, Any], name: str, nested: Any, sizes: Mapping[str, int]) -> ExactArray:
    """An input's elements, with the extents that the sizes say and of its element type."""
    element, shape = declared["element"], [_size(size, sizes) for _, size in declared["axes"]]

    def check(x: Any, lengths: Sequence[int]) -> None:
        if isinstance(x, list) != bool(lengths) or (lengths and len(x) != lengths[0]):
            raise NotACounterexample(f"array {name} does not have the shape {shape}")
        for item in x if lengths else ():
            check(item, lengths[1:])
        if not lengths and not _of_sort(x, element):
            raise NotACounterexample(f"array {name} holds {x}, which is not {element}")

    check(nested, shape)

    def value(at: tuple[int, ...]) -> Value:
        x = nested
        for k in at:
            x = x[k]
        return Fraction(x) if type(x) is int else x

    return exact_execution.build([str(axis) for axis, _ in declared["axes"]], shape, value)


def _of_sort(x: Any, element: str) -> bool:
    """Whether a number is a value of an element type."""
    if element == "bool" or isinstance(x, bool):
        return element == "bool" and isinstance(x, bool)
    if isinstance(x, MinusInfinity):
        return element == "extended"
    if element == "int":
        return isinstance(x, (int, Fraction)) and Fraction(x).denominator == 1
    return isinstance(x, (int, Fraction, Powers))


# -- exact numbers --------------------------------------------------------------------------------------------


def _run(
    program: Mapping[str, Any], arrays: Sequence[ExactArray], found: Counterexample, bits: int
) -> list[ExactArray]:
    try:
        return exact_execution.run(
            program, arrays, found.sizes, found.blocks, found.functions, exact_execution.Budget(10**9, bits)
        )
    except exact_execution.IllTyped as error:
        raise NotACounterexample(f"a program is not one of these sizes: {error}") from error


def _missing(outputs: Sequence[ExactArray]) -> Iterator[Any]:
    return (v for array in outputs for v in array.values.values() if isinstance(v, NoValue))


# -- the kernel's reading -------------------------------------------------------------------------------------


class _LoopRun(Exception):
    """A program has a loop or a group: the kernel knows its specification, not its execution."""


def _ask_kernel(statement: Mapping[str, Any], found: Counterexample) -> None:
    """Raises NotACounterexample where the kernel's reading of the programs certainly contradicts the claim."""
    functions = {name: f.coefficients for name, f in found.functions.items()}
    sizes: Sizes = {name: num(n) for name, n in found.sizes.items()}
    if any(f.table for f in found.functions.values()):
        return
    try:
        arrays = _plain(found.arrays)
        inputs = inputs_of(statement["left"], sizes)
        (left, owed_left), (right, owed_right) = (_read(statement[s], inputs, sizes) for s in ("left", "right"))
    except (_LoopRun, KernelError, RecursionError, TypeError):
        return
    known = (found.sizes, arrays, functions)
    if told(owed_left, *known) is False:
        raise NotACounterexample("by the kernel's reading the left program is not defined on these numbers")
    if found.undefined:
        if told(owed_right, *known) is True:
            raise NotACounterexample("by the kernel's reading the right program is defined on these numbers")
        return
    if told(owed_right, *known) is False:
        raise NotACounterexample("by the kernel's reading the right program is not defined on these numbers")
    at = {("idx", axis): num(k) for axis, k in found.index.items()}
    x, y = (substitute(numeric(side[found.output].term), at) for side in (left, right))  # type: ignore[arg-type]
    if told([Obligation((), (), fn("eq", x, y))], *known) is True:
        raise NotACounterexample("by the kernel's reading the two programs are equal on these numbers")


def _read(program: Mapping[str, Any], inputs: Sequence[Wire], sizes: Sizes) -> tuple[list[Wire], list[Obligation]]:
    """The meaning and the obligations of a program at these sizes."""
    owed: list[Obligation] = []

    def accept(node: Mapping[str, Any], args: Sequence[Wire], sizes: Sizes) -> None:
        if node["op"] != "view":
            raise _LoopRun
        made, duties = view(node, args, sizes)
        ctx = Context(_unasked, dict(made.axes))
        for guards, index, n in duties:
            bounds = (fn("le", num(0), index), fn("lt", index, n))
            owed.extend(Obligation(made.axes, guards, c) for c in bounds)
            owed.extend(o.where(guards) for o in owes(ctx.where(guards), index, "extended", all_of_it=True))

    outputs = evaluate(program, inputs, sizes, accept)
    if any(w.term.weight > _HEAVY for w in outputs):
        raise KernelError("the program is too large to be looked at twice")
    for wire in outputs:
        ctx = Context(_unasked, dict(wire.axes))
        term = wire.term if wire.element == "bool" else numeric(wire.term)
        owed += owes(ctx, term, wire.element, all_of_it=True)
    return outputs, owed


def _unasked(_: Sequence[Term], __: Term) -> bool:
    return False


def _plain(x: Any) -> Any:
    """Nested lists of rationals and truth values, None for −∞. Raises TypeError for other numbers."""
    if isinstance(x, dict):
        return {name: _plain(value) for name, value in x.items()}
    if isinstance(x, list):
        return [_plain(v) for v in x]
    if isinstance(x, (MinusInfinity, bool)):
        return x if isinstance(x, bool) else None
    if not isinstance(x, (int, Fraction)):
        raise TypeError(x)
    return Fraction(x)


__all__ = ["NotACounterexample", "replay"]
