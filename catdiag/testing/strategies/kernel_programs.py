"""Random programs that resemble kernels: contractions, cascades of reductions, and both in blocks.

The programs that `diagrams` draws can seldom be streamed or grouped; these usually can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from catdiag.category.diagram import Diagram
from catdiag.category.types import ArrayType, Axis
from catdiag.frontend import builder, elementwise, nn
from catdiag.frontend.tracing import Trace, Traced, building
from catdiag.rewrite import group
from catdiag.rewrite.split import in_parts
from catdiag.rewrite.stream import fold_search
from catdiag.rewrite.stream.multi_pass import plans
from catdiag.testing.strategies.type_strategies import drawn_by, strategies_of
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_NAMES = ("q", "x", "d", "h", "k")


def einsums(max_operands: int = 4, names: tuple[str, ...] = _NAMES) -> SearchStrategy[Diagram]:
    """Random contractions: 2 to `max_operands` operands of any axes in any layout, and results that lack any of these.

    Operands may repeat an array, with its axes renamed or not. An axis that all operands and the result have is a batch
    axis. The axes are of the given `names`.

    >>> from hypothesis import given
    >>> @given(einsums(max_operands=3))
    ... def test_my_lowering(f):
    ...     assert len(my_lowering(f).outputs) == 1
    """
    st = strategies_of()

    def program(draw: Callable[[Any], Any]) -> Diagram:
        pool = list(names[: draw(st.integers(2, len(names)))])
        count = draw(st.integers(2, max_operands))
        subsets = st.lists(st.sampled_from(pool), unique=True, max_size=3)
        kinds = [tuple(draw(subsets)) for _ in range(draw(st.integers(1, count)))]
        trace = Trace([ArrayType(tuple(map(Axis, kind))) for kind in kinds])
        with building(trace):
            operands = list(trace.inputs)
            while len(operands) < count:
                operands.append(_repeated(draw, st, draw(st.sampled_from(trace.inputs))))
            union = list(dict.fromkeys(n for a in operands for n in a.axes))
            kept = draw(st.lists(st.sampled_from(union), unique=True, max_size=3)) if union else []
            result = trace.einsum(draw(st.permutations(operands)), tuple(kept))
            return trace.diagram([result], tuple(f"a{k}" for k in range(len(kinds))), "einsum")

    return drawn_by(program)


def _repeated(draw: Any, st: Any, array: Traced) -> Traced:
    """The same array again: as it is, or with axes renamed."""
    # One name must have one size, so that each axis has a single new name.
    chosen = draw(st.lists(st.sampled_from(array.axes), unique=True)) if array.axes else []
    return array.rename(**{name: name + "2" for name in chosen})


def cascades(max_steps: int = 4, names: tuple[str, ...] = _NAMES[:4]) -> SearchStrategy[Diagram]:
    """Random cascades: products, masks, normalizations and scalar functions that feed reductions, which feed others.

    They have at most `max_steps` reductions, on axes of the given `names`. Values are finite at the positive arrays
    that `catdiag.simulate.machine.count` uses by default.

    >>> from hypothesis import given
    >>> @given(cascades(max_steps=3))
    ... def test_my_streaming(f):
    ...     assert my_streaming(f, "x").dom == f.dom
    """
    st = strategies_of()

    def program(draw: Callable[[Any], Any]) -> Diagram:
        pool = list(names[: draw(st.integers(2, len(names)))])
        subsets = st.lists(st.sampled_from(pool), unique=True, min_size=1, max_size=3)
        kinds = [tuple(draw(subsets)) for _ in range(draw(st.integers(1, 3)))]
        trace = Trace([ArrayType(tuple(map(Axis, kind))) for kind in kinds])
        with building(trace):
            made = list(trace.inputs)
            for _ in range(draw(st.integers(1, max_steps))):
                made.append(_collected(draw, st, trace, [*made, _weighed(draw, st, made)]))
                if draw(st.booleans()):
                    made[-1] = _scaled(draw, st, made)
            outputs = [made[-1], *(draw(st.sampled_from(made)) for _ in range(draw(st.integers(0, 1))))]
            return trace.diagram(outputs, tuple(f"a{k}" for k in range(len(kinds))), "cascade")

    return drawn_by(program)


def _latest(draw: Any, st: Any, made: Sequence[Traced]) -> Traced:
    back: int = draw(st.integers(0, len(made) - 1))
    return made[-1 - back]


def _weighed(draw: Any, st: Any, made: Sequence[Traced]) -> Traced:
    """An array with a mask, a normalization or a scalar function; bounded by about 1."""
    a = _latest(draw, st, made)
    small: Traced = elementwise.tanh(a)
    if not a.axes:
        return small
    axis = draw(st.sampled_from(a.axes))
    other = draw(st.sampled_from(a.axes))
    programs: dict[str, Callable[[], Traced]] = {
        "itself": lambda: a,
        "exp": lambda: elementwise.exp(small),
        "softmax": lambda: builder.softmax(a, axis),
        "shifted": lambda: small - builder.max(small, axis),
        "centred": lambda: small - builder.mean(small, axis),
        "spread": lambda: small / elementwise.sqrt(1 + builder.sum(small * small, axis)),
        "share": lambda: small / (1 + builder.sum(small, axis)),
        "gate": lambda: small * elementwise.sigmoid(a),
        "mask": lambda: elementwise.where(builder.index(axis) <= builder.index(other) + 1, small, 0),
        "low": lambda: builder.softmax(
            elementwise.where(builder.index(axis) <= builder.index(other), a, -float("inf")), axis
        ),
        "cast": lambda: elementwise.cast(small, "bf16"),
        "size": lambda: small / builder.size(axis),
        "wave": lambda: elementwise.cos(small) - elementwise.erf(a),
        "every other": lambda: small * (builder.index(axis) - 2 * elementwise.floor(builder.index(axis) / 2)),
        "signed": lambda: small * elementwise.sign(builder.index(axis) - builder.index(other)),
    }
    result: Traced = programs[draw(st.sampled_from(sorted(programs)))]()
    return result


def _collected(draw: Any, st: Any, trace: Trace, made: Sequence[Traced]) -> Traced:
    """A contraction with the last array, or another reduction of it, which drops an axis where there is one."""
    last = made[-1]
    kind = draw(st.sampled_from(["einsum", "einsum", "sum", "max", "min", "mean"]))
    if kind != "einsum" and last.axes:
        reduced: Traced = getattr(builder, kind)(last, draw(st.sampled_from(last.axes)))
        return reduced
    operands = [last, *(_latest(draw, st, made) for _ in range(draw(st.integers(0, 2))))]
    union = list(dict.fromkeys(n for a in operands for n in a.axes))
    kept = draw(st.lists(st.sampled_from(union), unique=True, max_size=3)) if union else []
    if len(kept) == len(union) > 1:
        kept.pop()
    return trace.einsum(operands, tuple(kept))


def _scaled(draw: Any, st: Any, made: Sequence[Traced]) -> Traced:
    """The last array, under a scalar function or combined with an earlier array."""
    last, other = made[-1], _latest(draw, st, made)
    programs: dict[str, Callable[[], Traced]] = {
        "tanh": lambda: elementwise.tanh(last),
        "sine": lambda: elementwise.sin(elementwise.tanh(last)),
        "expm1": lambda: nn.expm1(elementwise.tanh(last)),
        "log1p": lambda: nn.log1p(abs(last)),
        "root": lambda: elementwise.sqrt(1 + last * last),
        "added": lambda: last + elementwise.tanh(other),
        "divided": lambda: last / (1 + other * other),
        "twice": lambda: last * 2 + 1,
        "larger": lambda: elementwise.maximum(last, other),
    }
    result: Traced = programs[draw(st.sampled_from(sorted(programs)))]()
    return result


def blocked(diagram: Diagram) -> SearchStrategy[Diagram]:
    """The diagram with random axes streamed, in one or several passes or in parts (split-K), and others grouped.

    The rewrites are found and not proved. One that does not apply is skipped, so that the result may be the diagram
    itself.

    >>> import catdiag as cd
    >>> from hypothesis import given
    >>> total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x")).diagram
    >>> @given(blocked(total))
    ... def test_my_code(f):
    ...     assert my_code(f).dom == total.dom
    """
    st = strategies_of()

    def form(draw: Callable[[Any], Any]) -> Diagram:
        names = list(dict.fromkeys(a.name for ty in diagram.graph.wire_types() for a in ty.axes))
        made, loops = diagram, list[str]()
        for name in draw(st.permutations(names)) if names else ():
            if len(loops) == draw(st.integers(1, 2)):
                break
            try:
                several = draw(st.integers(0, 4)) == 0
                made = next(plans(made, name, 3)[1]).diagram if several else fold_search.find(made, name).diagram
            except CatdiagError:
                continue
            loops.append(name)
        tiled: list[str] = []
        for name in draw(st.permutations(names)) if names else ():
            if draw(st.booleans()):
                continue
            try:
                made = group.find(made, [name])
                tiled.append(name)
            except CatdiagError:
                continue
        if loops and draw(st.integers(0, 5)) == 0:
            with suppress(CatdiagError):
                made = in_parts(made, loops[0])
        return made

    return drawn_by(form)
