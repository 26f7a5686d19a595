"""Random programs, with sizes, arrays and tiles for them. Hypothesis is imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from catdiag.category.diagram import Diagram, HasDiagram, diagram_of
from catdiag.category.types import ArrayType, Ty, size_symbols, size_value
from catdiag.execute.size_inference import tile_bounds
from catdiag.frontend import builder, elementwise, indexing, nn, reshape
from catdiag.frontend.tracing import Trace, Traced, building
from catdiag.testing.strategies import typed_programs
from catdiag.testing.strategies.op_strategies import checked_kinds
from catdiag.testing.strategies.type_strategies import NAMES, array_types, drawn_by, strategies_of
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

# Values of random programs are at most _BOUND, for axes of up to _LONGEST indices and inputs up to _LARGEST.
_BOUND, _LONGEST, _LARGEST = 1e6, 8, 4.0


def diagrams(
    max_inputs: int = 3,
    max_boxes: int = 8,
    max_outputs: int = 2,
    names: tuple[str, ...] = NAMES,
    inputs: tuple[ArrayType, ...] | None = None,
    *,
    dom: Ty | ArrayType | Sequence[ArrayType] | None = None,
    cod: Ty | ArrayType | Sequence[ArrayType] | None = None,
    boxes: Collection[str] = (),
    streamable: str | None = None,
) -> SearchStrategy[Diagram]:
    """Random programs of scalar functions, reductions, einsums, renamings, reshapes, concatenations and gathers.

    They have at most `max_inputs`, `max_boxes` and `max_outputs`, on axes of the given `names`, read at index
    arithmetic too, and use constants, positions and sizes. At the arrays of `arrays_for` every value is defined and at
    most a million, and no function is near an edge of its domain, so that two ways of computing agree up to rounding.
    `dom` (or `inputs`, a tuple) fixes the input types, `cod` the output types. All of the named kinds of `boxes` occur
    (`catdiag.testing.strategies.op_strategies.BOX_KINDS`); those of uninterpreted functions ("apply" f, "generic" g)
    run only with values for these, and values may then be larger. With `streamable`, an axis, the program streams along
    it: it has reductions over the axis that have repairs, and one output.

    >>> from hypothesis import find
    >>> from catdiag.category.types import ArrayType, Axis
    >>> q, x = Axis("q"), Axis("x")
    >>> of_types = diagrams(dom=[ArrayType((q, x))], cod=[ArrayType((x,)), ArrayType((q,), "bool")])
    >>> print(find(of_types, lambda f: len(f) > 3))
    random: [q x] → [x] @ bool[q]

    Raises CatdiagError for what is no object, unknown kinds of boxes, and a `streamable` axis that no input has.
    """
    st = strategies_of()
    fixed = inputs if dom is None else tuple(typed_programs.check_object(dom, "dom"))
    result = None if cod is None else typed_programs.check_object(cod, "cod")
    wanted = checked_kinds(boxes)
    if streamable is not None:
        if result is not None or wanted:
            raise CatdiagError("streamable programs have one output, made by reductions: leave out cod and boxes")
        return typed_programs.streamable_programs(streamable, fixed, array_types(names))

    def program(draw: Callable[[Any], Any]) -> Diagram:
        dom = fixed
        if dom is None:
            dom = tuple(draw(st.lists(array_types(names), min_size=1, max_size=max_inputs)))
        trace = Trace(dom, [a for ty in result or () for a in ty.axes])
        with building(trace):
            # Each array is paired with a bound on its absolute values.
            made = [(_finite(trace, a), _LARGEST) for a in trace.inputs] or [(trace.lift(1), 1.0)]
            for _ in range(draw(st.integers(1, max_boxes))):
                step = draw(st.sampled_from(_STEPS))(draw, st, trace, made)
                if step is not None and step[1] <= _BOUND:
                    made.append(step)
            if wanted:
                made.append((typed_programs.forced(draw, st, trace, made[-1][0], wanted), _BOUND))
            if result is not None:
                last = [made[-1][0]] + [draw(st.sampled_from(made))[0] for _ in range(len(result) - 1)]
                outputs = [typed_programs.as_type(trace, a, ty) for a, ty in zip(last, result, strict=bool(result))]
                return trace.diagram(outputs, tuple(f"a{k}" for k in range(len(dom))), "random")
            count = draw(st.integers(1, max_outputs))
            # Arrays made later are likely to depend on more of the program.
            outputs = [made[-1][0]] + [draw(st.sampled_from(made))[0] for _ in range(count - 1)]
            return trace.diagram(outputs, tuple(f"a{k}" for k in range(len(dom))), "random")

    return drawn_by(program)


def _finite(trace: Trace, a: Traced) -> Traced:
    """An input as real numbers: booleans as 0 and 1, an input that may be minus infinity by its exponential."""
    if a.type.element == "extended":
        bounded: Traced = elementwise.exp(elementwise.minimum(a, 1))
        return bounded
    return trace.numeric(a)


_Made = list[tuple[Traced, float]]
_Step = tuple[Traced, float] | None


def _pick(draw: Any, st: Any, made: _Made) -> tuple[Traced, float]:
    back: int = draw(st.integers(0, len(made) - 1))
    return made[-1 - back]


def _known(made: _Made) -> list[str]:
    """The axes of some arrays, in order.

    Parts of product axes are not among them: no shape need show their size.
    """
    return list(dict.fromkeys(n for a, _ in made for n in a.axes))


def _binary(draw: Any, st: Any, trace: Trace, made: _Made) -> _Step:
    (a, m), (b, n) = _pick(draw, st, made), _pick(draw, st, made)
    results: dict[str, Callable[[], tuple[Traced, float]]] = {
        "add": lambda: (a + b, m + n),
        "sub": lambda: (a - b, m + n),
        "mul": lambda: (a * b, m * n),
        "div": lambda: (a / (1 + b * b), m),
        "max": lambda: (elementwise.maximum(a, b), max(m, n)),
        "min": lambda: (elementwise.minimum(a, b), max(m, n)),
    }
    return results[draw(st.sampled_from(sorted(results)))]()


def _unary(draw: Any, st: Any, trace: Trace, made: _Made) -> _Step:
    a, m = _pick(draw, st, made)
    results: dict[str, Callable[[], tuple[Traced, float]]] = {
        "neg": lambda: (-a, m),
        "abs": lambda: (abs(a), m),
        "tanh": lambda: (elementwise.tanh(a), 1.0),
        "sigmoid": lambda: (elementwise.sigmoid(a), 1.0),
        "log": lambda: (elementwise.log(1 + a * a), m),
        "sqrt": lambda: (elementwise.sqrt(1 + a * a), m + 1),
        "erf": lambda: (elementwise.erf(a), 1.0),
        "log1p": lambda: (nn.log1p(abs(a)), m),
    }
    if m <= 4:
        results["exp"] = lambda: (elementwise.exp(a), 55.0)
        results["expm1"] = lambda: (nn.expm1(a), 55.0)
    if m <= 64:  # of larger angles rounding leaves little
        results["sin"] = lambda: (elementwise.sin(a), 1.0)
        results["cos"] = lambda: (elementwise.cos(a), 1.0)
    return results[draw(st.sampled_from(sorted(results)))]()


def _constant(draw: Any, st: Any, trace: Trace, made: _Made) -> _Step:
    a, m = _pick(draw, st, made)
    value = draw(st.fractions(-3, 3, max_denominator=4))
    return (a * value, 3 * m) if draw(st.booleans()) else (a + value, m + 3)


def _position(draw: Any, st: Any, trace: Trace, made: _Made) -> _Step:
    a, m = _pick(draw, st, made)
    known = _known(made)
    if not known:
        return None
    name = draw(st.sampled_from(known))
    if draw(st.booleans()):
        return a + builder.size(name), m + _LONGEST
    return a + builder.index(name), m + _LONGEST


def _rounded(draw: Any, st: Any, trace: Trace, made: _Made) -> _Step:
    """A whole number of a position, on which rounding has no say, as it would have of values that are near a step."""
    a, m = _pick(draw, st, made)
    known = _known(made)
    if not known:
        return None
    half = (builder.index(draw(st.sampled_from(known))) - draw(st.integers(0, 3))) / 2
    fn = draw(st.sampled_from(["ceil", "floor", "round", "sign"]))
    return a + getattr(elementwise, fn)(half), m + _LONGEST


def _choice(draw: Any, st: Any, trace: Trace, made: _Made) -> _Step:
    (a, m), (b, n) = _pick(draw, st, made), _pick(draw, st, made)
    known = _known(made)
    if not known:
        return None
    # Positions are compared, not values, so that rounding does not decide between branches.
    one, two = (builder.index(draw(st.sampled_from(known))) for _ in range(2))
    return elementwise.where(one <= two, a, b), max(m, n)


def _reduction(draw: Any, st: Any, trace: Trace, made: _Made) -> _Step:
    a, m = _pick(draw, st, made)
    if not a.axes:
        return None
    name = draw(st.sampled_from(a.axes))
    monoid = draw(st.sampled_from(["sum", "max", "min", "mean", "softmax"]))
    result = getattr(builder, monoid)(a, name)
    bounds = {"sum": m * _LONGEST, "softmax": 1.0}
    return result, bounds.get(monoid, m)


def _einsum(draw: Any, st: Any, trace: Trace, made: _Made) -> _Step:
    chosen = [_pick(draw, st, made) for _ in range(draw(st.integers(1, 3)))]
    union = list(dict.fromkeys(n for a, _ in chosen for n in a.axes))
    kept = draw(st.lists(st.sampled_from(union), unique=True)) if union else []
    bound = float(_LONGEST ** (len(union) - len(kept)))
    for _, m in chosen:
        bound *= m
    if bound > _BOUND:
        return None
    return trace.einsum([a for a, _ in chosen], tuple(kept)), bound


def _renaming(draw: Any, st: Any, trace: Trace, made: _Made) -> _Step:
    a, m = _pick(draw, st, made)
    if not a.axes:
        return None
    name = draw(st.sampled_from(a.axes))
    other = f"{name}_2"  # the same old name gives the same new one, so that a name has one size
    if not other.isidentifier() or other in a.axes:
        return trace.rename(a, {}, draw(st.permutations(a.type.axes))), m
    return a.rename(**{name: other}), m


def _structural(draw: Any, st: Any, trace: Trace, made: _Made) -> _Step:
    """Axes merged and split again in another order, or two arrays concatenated, and a part or the maximum of that."""
    (a, m), (b, n) = _pick(draw, st, made), _pick(draw, st, made)
    names = [axis.name for axis in a.type.axes if axis.kind == "name"]
    if draw(st.booleans()):
        chosen = draw(st.permutations(names))[:3]
        if len(chosen) < 2:
            return None
        left, whole = " ".join(a.axes), f"({' '.join(chosen)})"
        rest = " ".join(k for k in a.axes if k not in chosen)
        merged = reshape.rearrange(a, f"{left} -> {rest} {whole}")
        return reshape.rearrange(elementwise.tanh(merged), f"{rest} {whole} -> {left}"), 1.0
    others = [axis.name for axis in b.type.axes if axis.kind == "name"]
    if not names or not others:
        return None
    x, y = draw(st.sampled_from(names)), draw(st.sampled_from(others))
    if x != y and (x in b.axes or y in a.axes):
        return None
    whole = f"{x}+{y}"
    joined = reshape.concat([a, b], whole)
    return draw(st.sampled_from([reshape.split(joined, whole)[1], builder.max(joined, whole)])), max(m, n)


def _view(draw: Any, st: Any, trace: Trace, made: _Made) -> _Step:
    """An array read at index arithmetic with a fill value, or reversed, padded, repeated, or cast."""
    a, m = _pick(draw, st, made)
    names = [axis.name for axis in a.type.axes if axis.kind == "name"]
    if not names:
        return None
    x, n = draw(st.sampled_from(names)), draw(st.integers(1, 3))
    new, step, start = f"w{n}", draw(st.integers(-2, 2)), draw(st.integers(-2, 2))
    programs: dict[str, Callable[[], Traced]] = {
        "cast": lambda: elementwise.cast(a, "bf16"),
        "pad": lambda: reshape.pad(a, x, n, draw(st.integers(0, 2)), value=1),
        "repeat": lambda: draw(st.sampled_from([reshape.repeat, reshape.tile]))(a, x, n),
        "reverse": lambda: indexing.reverse(a, x),
        "shift": lambda: indexing.shift(a, x, start),
    }
    if new not in a.axes:
        number: dict[str, Any] = {x: lambda i: (i * step + start) // n}
        clipped: dict[str, Any] = {x: lambda i: elementwise.clip(i * step + start, 0, builder.size(x) - 1)}
        programs["reindex"] = lambda: indexing.reindex(a, f"{new}={n}", fill=-1, **number)
        programs["gather"] = lambda: indexing.reindex(a, f"{new}={n}", **clipped)
        programs["window"] = lambda: indexing.window(a, x, f"{x} {new}={n}", dilation=2, pad=(1, n))
    return programs[draw(st.sampled_from(sorted(programs)))](), max(m, 1)


_STEPS = (
    _binary, _unary, _constant, _position, _rounded, _choice, _reduction, _einsum, _renaming, _structural, _view,
)  # fmt: skip


def sizes_for(diagram: Diagram | HasDiagram, min_size: int = 1, max_size: int = 4) -> SearchStrategy[dict[str, int]]:
    """A size from `min_size` to `max_size` for every symbol of a diagram's types; those of blocks and tiles are not
    among them.

    >>> import catdiag as cd
    >>> from hypothesis import find
    >>> total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x"))
    >>> find(sizes_for(total, max_size=3), lambda sizes: sizes["x"] > sizes["q"])
    {'q': 1, 'x': 2}
    """
    st, diagram = strategies_of(), diagram_of(diagram)
    symbols = {s for ty in (*diagram.dom, *diagram.cod) for a in ty.axes for s in size_symbols(a.size)}
    lengths = st.integers(min_size, min(max_size, _LONGEST))
    return st.fixed_dictionaries(dict.fromkeys(sorted(symbols), lengths))  # type: ignore[no-any-return]


def arrays_for(
    diagram: Diagram | HasDiagram, sizes: Mapping[str, int] | None = None
) -> SearchStrategy[tuple[np.ndarray, ...]]:
    """Arrays for the inputs of a diagram: multiples of 1/4 between −4 and 4, with zeros and ties.

    Without `sizes`, these are drawn too. Integers and booleans where the input's type says so, and minus infinity as
    well where it is extended.

    >>> import catdiag as cd
    >>> from hypothesis import find
    >>> total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x"))
    >>> (array,) = find(arrays_for(total, {"q": 1, "x": 2}), lambda arrays: (arrays[0] > 0).all())
    >>> array.shape
    (1, 2)
    """
    st, diagram = strategies_of(), diagram_of(diagram)
    if sizes is None:
        return sizes_for(diagram).flatmap(lambda s: arrays_for(diagram, s))
    quarters = st.integers(-16, 16).map(lambda n: n / 4)
    values = {
        "real": (quarters, np.float64),
        "extended": (quarters | st.just(-np.inf), np.float64),
        "int": (st.integers(-4, 4), np.int64),
        "bool": (st.booleans(), np.bool_),
    }

    def filled(ty: ArrayType) -> Any:
        shape = tuple(size_value(a.size, dict(sizes)) for a in ty.axes)
        element, dtype = values[ty.element]
        count = int(np.prod(shape, dtype=np.int64))
        flat = st.lists(element, min_size=count, max_size=count)
        return flat.map(lambda v: np.array(v, dtype).reshape(shape))

    return st.tuples(*map(filled, diagram.dom))  # type: ignore[no-any-return]


def tiles_for(diagram: Diagram | HasDiagram, sizes: Mapping[str, int]) -> SearchStrategy[dict[str, int]]:
    """Lengths for the stream blocks and groups of a diagram of these `sizes`, from 1 to one more than their axis.

    >>> import catdiag as cd
    >>> from hypothesis import find
    >>> total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x")).stream("x").group("q")
    >>> sorted(find(tiles_for(total, {"q": 2, "x": 3}), lambda tiles: True))
    ['g_q', 's_x']
    """
    st = strategies_of()
    bounds = tile_bounds(diagram_of(diagram))
    return st.fixed_dictionaries(  # type: ignore[no-any-return]
        {symbol: st.integers(1, 1 + size_value(size, dict(sizes))) for symbol, size in bounds.items()}
    )
