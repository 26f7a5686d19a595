"""Random axes and array types. Hypothesis is imported on first use."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from catdiag.category.types import ArrayType, Axis
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

NAMES = ("q", "x", "d", "h")

_T = TypeVar("_T")


def strategies_of() -> Any:
    """The strategies module of Hypothesis. Raises CatdiagError where it is not installed."""
    try:
        from hypothesis import strategies
    except ImportError as error:
        raise CatdiagError("catdiag.testing needs hypothesis: pip install 'catdiag[test]'") from error
    return strategies


@functools.cache
def _drawn() -> Any:
    def drawn(draw: Callable[[Any], Any], program: Callable[[Callable[[Any], Any]], Any]) -> Any:
        return program(draw)

    return strategies_of().composite(drawn)


def drawn_by(program: Callable[[Callable[[Any], Any]], _T]) -> SearchStrategy[_T]:
    """The strategy of what `program` makes, which is given the function that draws from other strategies.

    That is Hypothesis's `composite`, which is made once: each one that is made reads its function's source.

    >>> from hypothesis import find
    >>> even = drawn_by(lambda draw: 2 * draw(strategies_of().integers(0, 9)))
    >>> find(even, lambda n: n > 5)
    6
    """
    strategy: SearchStrategy[_T] = _drawn()(program)
    return strategy


def axes(names: tuple[str, ...] = NAMES, composite: bool = False) -> SearchStrategy[Axis]:
    """Axes with the given names; with `composite`, also integers, products and coproducts.

    >>> from hypothesis import find
    >>> print(find(axes(), lambda a: a.name == "x"))
    x
    """
    st = strategies_of()
    named: SearchStrategy[Axis] = st.sampled_from([Axis(n) for n in names])
    if not composite:
        return named
    integers = st.integers(1, 4).map(lambda n: Axis(str(n), n))
    leaves = named | integers
    pairs = st.tuples(leaves, leaves)
    several: SearchStrategy[Axis] = leaves | pairs.map(lambda p: p[0] * p[1]) | pairs.map(lambda p: p[0] + p[1])
    return several


def array_types(
    names: tuple[str, ...] = NAMES,
    max_axes: int = 3,
    elements: tuple[str, ...] = ("real",),
    composite: bool = False,
) -> SearchStrategy[ArrayType]:
    """Array types of at most `max_axes` different axes of the given `names`, with one of the given types of `elements`.

    With `composite`, axes may also be integers, products and coproducts.

    >>> from hypothesis import find
    >>> print(find(array_types(), lambda a: len(a.axes) == 2))
    [q x]
    """
    st = strategies_of()
    several = st.lists(axes(names, composite), max_size=max_axes, unique_by=lambda a: a.name)
    return st.builds(lambda a, e: ArrayType(tuple(a), e), several, st.sampled_from(elements))  # type: ignore[no-any-return]
