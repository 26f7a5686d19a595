"""The decorator `@cd.algorithm`, and the contractions and reductions that one writes under it.

>>> import catdiag as cd
>>> @cd.algorithm("q d, x d, x d -> q d")
... def attend(Q, K, V):
...     S = cd.einsum("q d, x d -> q x", Q, K) / cd.sqrt(cd.size("d"))
...     return cd.einsum("q x, x d -> q d", cd.softmax(S, "x"), V)
>>> print(attend)
attend: [q d] @ [x d] @ [x d] → [q d]
>>> len(attend), attend.names
(6, ('Q', 'K', 'V'))

Arrays are matched by axis name, never by position. A mistake is an error at the user's own line.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from catdiag.category.diagram import Diagram
from catdiag.category.types import ArrayType, Axis
from catdiag.frontend.array_methods import averaged, named_axes, reduced
from catdiag.frontend.elementwise import exp, where
from catdiag.frontend.signature import parse, parse_axes
from catdiag.frontend.tracing import Operand, Trace, Traced, building, running
from catdiag.util.errors import AxisError, SignatureError, TypeMismatch

# -- algorithms ------------------------------------------------------------------------------------


def algorithm(signature: str, name: str | None = None) -> Callable[[Callable[..., Any]], Diagram]:
    """The diagram of a function over arrays with named axes; a decorator, or called on a function.

    `signature` gives the axes of each parameter, and after `->` those of each result. The part from `->` on may be left
    out.

    >>> double = algorithm("x -> x", name="double")(lambda a: a + a)
    >>> double.title, double.names, len(double)
    ('double', ('a',), 1)

    Raises SignatureError for a signature that does not parse or does not match the function, AxisError for results with
    other axes than the declared ones.
    """
    parsed = parse(signature)
    declared = parsed.outputs

    def build(function: Callable[..., Any]) -> Diagram:
        if not callable(function):
            raise SignatureError(f'cd.algorithm("{signature}") takes a function, not {function!r}')
        title = name if name is not None else getattr(function, "__name__", "algorithm").replace("<lambda>", "lambda")
        inputs, names = _parameters(function, parsed.inputs, signature, title)
        further = [a for ty in declared or () for a in ty.axes]

        def arranged(trace: Trace, results: list[Traced]) -> list[Traced]:
            return results if declared is None else _arranged(trace, results, declared, signature, title)

        return _traced(inputs, function, names, title, further, arranged)

    return build


def program(
    inputs: Sequence[ArrayType], function: Callable[..., Any], names: tuple[str, ...] = (), title: str = ""
) -> Diagram:
    """The diagram of a function over arrays of the given types: `algorithm` without a signature.

    Axes may have sizes under other names, such as the block size in the body of a loop.

    >>> block = ArrayType((Axis("x", "s_x"),))
    >>> print(program([block], lambda a: sum(a, "x")))
    [x] → []
    """
    return _traced(inputs, function, names, title, (), lambda trace, results: results)


def _traced(
    inputs: Sequence[ArrayType],
    function: Callable[..., Any],
    names: tuple[str, ...],
    title: str,
    further: Sequence[Axis],
    arranged: Callable[[Trace, list[Traced]], list[Traced]],
) -> Diagram:
    """The diagram of a function. `further` are axes that it may name although no input has them; `arranged` puts the
    results into their declared layout.
    """
    trace = Trace(inputs, further)
    with building(trace):
        try:
            given = function(*trace.inputs)
        except (TypeError, ValueError, RuntimeError) as error:
            if str(Traced) in str(error):
                raise TypeMismatch(
                    "functions of other libraries, as einops and JAX, do not work on named axes: write that of cd, as "
                    "cd.rearrange or cd.exp, or import a function of JAX with cd.from_jax"
                ) from error
            raise
        results = arranged(trace, _results(trace, given, title or "the function"))
    return trace.diagram(results, names, title)


def _parameters(
    function: Callable[..., Any], inputs: tuple[ArrayType, ...], signature: str, title: str
) -> tuple[tuple[ArrayType, ...], tuple[str, ...]]:
    """The input types and their names, from the function's parameters."""
    positional, rest, required = [], None, 0
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise SignatureError(f"{title} does not say what its parameters are: wrap it in a function that does") from None
    for parameter in parameters:
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            positional.append(parameter.name)
            required += parameter.default is parameter.empty
        elif parameter.kind == parameter.VAR_POSITIONAL:
            rest = parameter.name
        elif parameter.kind == parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            raise SignatureError(
                f"{title} has a keyword-only parameter {parameter.name!r}: "
                "the arrays of an algorithm are positional parameters"
            )
    # Nothing before the arrow means one scalar, or no array if the function has no parameters.
    if inputs == (ArrayType(),) and not positional and "[" not in signature.split("->")[0]:
        inputs = ()
    count = len(inputs)
    if count < required or (count > len(positional) and rest is None):
        raise SignatureError(
            f"{signature!r} has {count} input arrays and {title} takes {len(positional)} parameters "
            f"({', '.join(positional) or 'none'}): expected one array, between commas, for each parameter"
        )
    names = positional[:count] + [f"{rest}{k}" for k in range(count - len(positional))]
    return inputs, tuple(names)


def _results(trace: Trace, value: Any, title: str) -> list[Traced]:
    """The results of a traced function, as arrays. Raises TypeMismatch where it returns something else."""
    if value is None:
        raise TypeMismatch(f"{title} returns nothing: expected an array, or a tuple of arrays")
    values = list(value) if isinstance(value, (tuple, list)) else [value]
    if not values:
        raise TypeMismatch(f"{title} returns no arrays: expected an array, or a tuple of arrays")
    return [trace.lift(v, infinite=True) for v in values]


def _arranged(
    trace: Trace, results: list[Traced], declared: tuple[ArrayType, ...], signature: str, title: str
) -> list[Traced]:
    """The results with the declared layout and element types. Raises SignatureError, AxisError or TypeMismatch where
    they do not match.
    """
    if len(results) != len(declared):
        raise SignatureError(
            f"{title} returns {len(results)} arrays and {signature!r} declares {len(declared)}: expected one "
            "between commas after '->' for each"
        )
    arranged = []
    for k, (array, ty) in enumerate(zip(results, declared, strict=True)):
        if set(array.axes) != set(ty.names):
            which = f"result {k} of {title}" if len(results) > 1 else f"the result of {title}"
            surplus = [n for n in array.axes if n not in ty.names]
            lacking = [n for n in ty.names if n not in array.axes]
            detail = "; ".join(
                [f"axis {' '.join(surplus)} is not declared: reduce over it, or declare it"] * bool(surplus)
                + [f"axis {' '.join(lacking)} is declared and not computed: take it out of the signature"]
                * bool(lacking)
            )
            raise AxisError(f"{which} has axes [{' '.join(array.axes)}], declared [{' '.join(ty.names)}]: {detail}")
        if ty.element not in ("real", array.type.element):
            raise TypeMismatch(f"the result of {title} is {array.type}, declared {ty}")
        layout = [array.type.axis(n) or Axis(n) for n in ty.names]
        for have, want in zip(layout, ty.axes, strict=True):
            # A declared axis that no input has gets the size that was computed for it.
            if have.size != want.size and (want.size != want.name or trace.known_by_input(want.name)):
                raise AxisError(f"axis {want.name!r} of the result of {title} has size {have.size}, not {want.size}")
        arranged.append(trace.rename(array, {}, layout))
    return arranged


# -- contractions and reductions ----------------------------------------------------------------------


def einsum(pattern: str, *arrays: Operand) -> Traced:
    """A contraction: `einsum("q d, x d -> q x", Q, K)` sums the product over every axis that the result does not have.

    The axes of the pattern match those of the arrays by name, in any order; any number of arrays.

    >>> algorithm("q d, x d")(lambda Q, K: einsum("q d, x d -> q x", Q, K)).cod
    Ty(ArrayType(axes=(Axis('q'), Axis('x')), element='real'))

    Raises SignatureError for a pattern that does not parse or has another number of arrays; AxisError for an axis of
    the result that no input has, and for an array with other axes than in the pattern.
    """
    trace = running()
    inputs, output = _pattern(trace, pattern)
    given = [trace.numeric(trace.lift(a)) for a in arrays]
    if len(given) != len(inputs):
        raise SignatureError(f"{pattern!r} has {len(inputs)} arrays before '->' and {len(given)} were given")
    for k, (array, names) in enumerate(zip(given, inputs, strict=True)):
        if len(array.axes) != len(names) or set(array.axes) != set(names):
            raise AxisError(
                f"array {k} of einsum {pattern!r} has axes [{' '.join(array.axes)}], the pattern says "
                f"[{' '.join(names)}]: expected the same names, in any order; a.rename(old='new') renames an axis"
                f"{_with_blanks(pattern)}"
            )
    return trace.einsum(given, output)


def _with_blanks(pattern: str) -> str:
    """What to write for a pattern of letters without blanks, such as "ij,jk->ik"; nothing for others."""
    words = [word for side in pattern.split("->") for word in side.split(",")]
    if " " in "".join(word.strip() for word in words) or {len(word.strip()) for word in words} <= {0, 1}:
        return ""
    sides = [", ".join(" ".join(word.strip()) for word in side.split(",")) for side in pattern.split("->")]
    return f"; names of axes stand between blanks: {' -> '.join(sides)!r}"


def _pattern(trace: Trace, pattern: str) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
    """The axis names of an einsum pattern: those of each input, and those of the result. Raises SignatureError or
    AxisError.
    """

    def read() -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
        parsed = parse(pattern)
        if parsed.outputs is None or len(parsed.outputs) != 1:
            raise SignatureError(f"{pattern!r} must have one result after '->', as in \"q d, x d -> q x\"")
        inputs = tuple(ty.names for ty in parsed.inputs)
        output = parsed.outputs[0].names
        known = {n for names in inputs for n in names}
        missing = [n for n in output if n not in known]
        if missing:
            raise AxisError(
                f"axis {missing[0]!r} of the result of {pattern!r} is on no input: expected one of "
                f"{', '.join(sorted(known)) or 'none'}{_with_blanks(pattern)}"
            )
        return inputs, output

    return trace.memo(("pattern", pattern), read)


def _reduce(monoid: str, array: Operand, axes: str) -> Traced:
    trace = running()
    return reduced(trace, monoid, trace.lift(array), axes)  # type: ignore[no-any-return]


def sum(array: Operand, axes: str) -> Traced:
    """The sum over one or several axes: `sum(a, "x")`, `sum(a, "x y")`. Truth values count as 0 and 1.

    >>> str(algorithm("q x y")(lambda a: sum(a, "x y")).cod)
    '[q]'

    Raises AxisError for an axis that the array does not have.
    """
    return _reduce("sum", array, axes)


def prod(array: Operand, axes: str) -> Traced:
    """The product over one or several axes.

    >>> import catdiag as cd
    >>> cd.algorithm("q x")(lambda a: prod(a, "x"))([[2, 3], [4, 5]]).tolist()
    [6.0, 20.0]

    Raises AxisError for an axis that the array does not have.
    """
    return _reduce("prod", array, axes)


def max(array: Operand, axes: str) -> Traced:
    """The maximum over one or several axes.

    >>> import catdiag as cd
    >>> cd.algorithm("q x")(lambda a: max(a, "x"))([[2, 3], [4, 5]]).tolist()
    [3.0, 5.0]

    Raises AxisError for an axis that the array does not have.
    """
    return _reduce("max", array, axes)


def min(array: Operand, axes: str) -> Traced:
    """The minimum over one or several axes.

    >>> import catdiag as cd
    >>> cd.algorithm("q x")(lambda a: min(a, "q x"))([[2, 3], [4, 5]]).tolist()
    2.0

    Raises AxisError for an axis that the array does not have.
    """
    return _reduce("min", array, axes)


def any(array: Operand, axes: str) -> Traced:
    """Whether any truth value along the axes is true.

    >>> import catdiag as cd
    >>> cd.algorithm("q x")(lambda a: any(a > 2, "x"))([[1, 2], [3, 1]]).tolist()
    [False, True]

    Raises AxisError for an axis that the array does not have.
    """
    return _reduce("any", array, axes)


def all(array: Operand, axes: str) -> Traced:
    """Whether all truth values along the axes are true.

    >>> import catdiag as cd
    >>> cd.algorithm("q x")(lambda a: all(a > 0, "x"))([[1, 2], [3, 0]]).tolist()
    [True, False]

    Raises AxisError for an axis that the array does not have.
    """
    return _reduce("all", array, axes)


def mean(array: Operand, axes: str) -> Traced:
    """The mean over one or several axes: the sum divided by the size.

    >>> import catdiag as cd
    >>> float(cd.algorithm("x")(lambda a: mean(a, "x"))([1, 2, 6]))
    3.0

    Raises AxisError for an axis that the array does not have.
    """
    trace = running()
    return averaged(trace, trace.lift(array), axes)  # type: ignore[no-any-return]


def argmax(array: Operand, axis: str) -> Traced:
    """The first position of the maximum along an axis, as in NumPy.

    Means `min(where(a == max(a, "x"), index("x"), size("x")), "x")`.

    >>> import catdiag as cd
    >>> cd.algorithm("q x")(lambda a: argmax(a, "x"))([[2, 3, 3], [4, 1, 0]]).tolist()
    [1, 0]

    Raises AxisError for an axis that the array does not have.
    """
    return _first(array, axis, "argmax", max)


def argmin(array: Operand, axis: str) -> Traced:
    """The first position of the minimum along an axis, as in NumPy.

    >>> import catdiag as cd
    >>> cd.algorithm("q x")(lambda a: argmin(a, "x"))([[2, 1, 1], [4, 5, 6]]).tolist()
    [1, 0]

    Raises AxisError for an axis that the array does not have.
    """
    return _first(array, axis, "argmin", min)


def _first(array: Operand, axis: str, what: str, best: Callable[[Operand, str], Traced]) -> Traced:
    trace = running()
    given = trace.numeric(trace.lift(array, infinite=True))
    found = named_axes(trace, what, given, axis)
    if len(found) > 1:
        raise AxisError(f"{what} is along one axis, not along {axis!r}: merge them first, as in rearrange")
    name = found[0].name
    return min(where(given == best(given, name), trace.index(found[0]), trace.size(found[0].size)), name)


# -- positions, sizes --------------------------------------------------------------------------------------


def index(axis: str) -> Traced:
    """The positions along an axis of this algorithm, from 0 to its size − 1, as an array of integers (iota); with a
    size, along a new axis, `index("half=2")`.

    >>> import catdiag as cd
    >>> cd.algorithm("x")(lambda a: a * index("x"))([5, 5, 5]).tolist()
    [0.0, 5.0, 10.0]
    """
    trace = running()
    name = _one(axis)
    (own,) = parse_axes(axis)
    if own.kind == "name" and own.size != own.name:
        trace.learn([own])
    return trace.index(trace.axis(name, f'cd.index("{axis}")'))


def size(axis: str) -> Traced:
    """The size of an axis of this algorithm, as a scalar.

    >>> import catdiag as cd
    >>> cd.algorithm("x")(lambda a: a * size("x"))([5, 6]).tolist()
    [10.0, 12.0]

    Raises AxisError for an unknown axis.
    """
    trace = running()
    return trace.size(trace.axis(_one(axis), f'cd.size("{axis}")').size)


def _one(axis: str) -> str:
    parsed = parse_axes(axis)
    if len(parsed) != 1:
        raise SignatureError(f"expected one axis, not {axis!r}")
    return parsed[0].name


# -- named diagrams ------------------------------------------------------------------------------------------


def softmax(array: Operand, axis: str) -> Traced:
    """`e^(a − m) / Σ e^(a − m)` along an axis, with m the maximum; one named box with this body.

    >>> f = algorithm("q x")(lambda a: softmax(a, "x"))
    >>> [b.name for b in f.boxes], [b.name for b in f.boxes[0].op.body.boxes]
    (['softmax'], ['max[x]', 'sub', 'exp', 'sum[x]', 'div'])

    Raises AxisError for an axis that the array does not have.
    """
    trace = running()
    given = trace.numeric(trace.lift(array))
    found = named_axes(trace, "softmax", given, axis)

    over = " ".join(a.name for a in found)

    def body(a: Traced) -> Traced:
        e: Traced = exp(a - max(a, over))
        return e / sum(e, over)

    make = lambda: program([given.type], body, ("a",), "softmax")  # noqa: E731
    return trace.call("softmax", trace.memo(("softmax", given.type, over), make), [given])[0]
