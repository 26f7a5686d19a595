"""Strategies for adversarial sizes and arrays, those of `assert_implements`, for use in other tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from catdiag.category.diagram import Diagram, HasDiagram, diagram_of
from catdiag.testing.float_formats import format_of
from catdiag.testing.input_generators import (
    ARRAY_KINDS,
    array,
    checked_sizes,
    index_ends,
    sizes_near_blocks,
    symbols_of,
)
from catdiag.testing.strategies.type_strategies import drawn_by, strategies_of

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


_SMALL = (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17)


def adversarial_sizes(
    diagram: Diagram | HasDiagram, blocks: Mapping[str, int] | None = None
) -> SearchStrategy[dict[str, int]]:
    """Sizes for a diagram's inputs: 1, primes, and with `blocks` one more and one less than a block and its multiples.

    Shrinks to 1. Raises SizeError for a block of a size that no input has.

    >>> import catdiag as cd
    >>> from hypothesis import find
    >>> total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x"))
    >>> find(adversarial_sizes(total, blocks={"x": 16}), lambda sizes: sizes["x"] > 16)["x"] in (17, 31, 32, 33)
    True
    """
    st = strategies_of()
    symbols = symbols_of(diagram_of(diagram))
    lengths = {s: found[0] for s, found in checked_sizes(symbols, "blocks", blocks or {}).items()}
    pools = {s: sorted(sizes_near_blocks(lengths[s])) if s in lengths else list(_SMALL) for s in symbols}
    return st.fixed_dictionaries({s: st.sampled_from(pool) for s, pool in pools.items()})  # type: ignore[no-any-return]


def adversarial_arrays(
    diagram: Diagram | HasDiagram, sizes: Mapping[str, int] | None = None, dtype: Any = "float64"
) -> SearchStrategy[tuple[np.ndarray, ...]]:
    """Arrays of a floating type for the inputs of a diagram, of the kinds of
    `catdiag.testing.input_generators.ARRAY_KINDS`.

    These include large numbers, ties, zeros of both signs, subnormal numbers, and rising and falling ones; minus
    infinity where an input is extended; and integers in range where they select positions. A program need not be
    defined at all of them. Without `sizes`, these are drawn too. Shrinks to arrays of one kind, from a small seed.

    >>> import catdiag as cd
    >>> from hypothesis import find
    >>> rows = adversarial_arrays(cd.library.get("softmax"), {"q": 1, "x": 2}, "fp16")
    >>> (a,) = find(rows, lambda arrays: arrays[0].max() > 50)
    >>> a.shape, a.dtype
    ((1, 2), dtype('float16'))
    """
    st, diagram = strategies_of(), diagram_of(diagram)
    form = format_of(dtype)
    if sizes is None:
        return adversarial_sizes(diagram).flatmap(lambda n: adversarial_arrays(diagram, n, dtype))
    ends = index_ends(diagram, sizes)

    def drawn(draw: Callable[[Any], Any]) -> tuple[Any, ...]:
        made = []
        for k, ty in enumerate(diagram.dom):
            kind = draw(st.sampled_from(list(ARRAY_KINDS))) if ty.element in ("real", "extended") else "plain"
            rng = np.random.default_rng(draw(st.integers(0, 2**16)))
            made.append(array(kind, rng, ty, sizes, form, (0, ends.get(k, draw(st.integers(1, 9))))))
        return tuple(made)

    return drawn_by(drawn)
