"""The distribution of what the strategies draw, as counts: `python -m catdiag.testing` prints them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from catdiag.category.traversal import all_boxes
from catdiag.testing.strategies import (
    diagram_strategies,
    equations,
    hierarchy_strategies,
    kernel_programs,
    type_strategies,
)
from catdiag.testing.strategies.op_strategies import boxes, kind_name, kind_of, objects
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

T = TypeVar("T")


def distribution(strategy: SearchStrategy[T], said: Callable[[T], Iterable[str]], examples: int = 200) -> Counter[str]:
    """The number of examples to which each label that `said` gives applies; the same in each run.

    >>> from hypothesis import strategies as st
    >>> found = distribution(st.booleans(), lambda b: [str(b)], 10)
    >>> sorted(found)
    ['False', 'True', 'examples']
    """
    from hypothesis import HealthCheck, Phase, given, settings

    counts: Counter[str] = Counter()

    @settings(
        max_examples=examples, database=None, derandomize=True, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategy)
    def count(drawn: T) -> None:
        counts.update(set(said(drawn)))
        counts["examples"] += 1

    count()
    return counts


def table(title: str, counts: Counter[str]) -> str:
    """Counts as lines, the most frequent first, each as a share of the examples.

    >>> print(table("coins", Counter({"examples": 4, "heads": 3, "tails": 1})))
    coins, of 4 examples
      heads     75%
      tails     25%
    """
    whole = counts["examples"]
    items = sorted(
        ((n, said) for said, n in counts.items() if said != "examples"), key=lambda pair: (-pair[0], pair[1])
    )
    width = max((len(said) for _, said in items), default=0)
    return "\n".join([f"{title}, of {whole} examples", *(f"  {said:<{width}}  {n / whole:6.0%}" for n, said in items)])


def _count_range(many: int) -> str:
    """A number as one of a few ranges."""
    low = next(low for low in (64, 32, 16, 8, 4, 2, 1, 0) if many >= low)
    return f"{low}" if low < 2 else f"{low} to {2 * low - 1}" if low < 64 else "64 and more"


def tables(examples: int = 200, only: str | None = None) -> Iterable[str]:
    """The tables of all strategies, or of the one named `only`. Raises CatdiagError for an unknown name."""

    def of_programs(f: Any) -> list[str]:
        found = list(all_boxes(f))
        return [
            *(f"box: {kind_of(b)}" for b in found),
            f"boxes: {_count_range(len(found))}",
            f"inputs: {len(f.dom)}",
            f"outputs: {len(f.cod)}",
        ]

    every: dict[str, tuple[Any, Callable[[Any], Iterable[str]]]] = {
        "axes": (type_strategies.axes(composite=True), lambda a: [a.kind]),
        "array_types": (
            type_strategies.array_types(elements=("real", "extended", "int", "bool"), composite=True),
            lambda ty: [ty.element, f"axes: {len(ty.axes)}"],
        ),
        "objects": (objects(), lambda ty: [f"wires: {len(ty)}"]),
        "boxes": (boxes(), lambda f: [kind_name(b) for b in f.boxes]),
        "diagrams": (diagram_strategies.diagrams(), of_programs),
        "streamable": (diagram_strategies.diagrams(streamable="x"), of_programs),
        "einsums": (kernel_programs.einsums(), of_programs),
        "cascades": (kernel_programs.cascades(), of_programs),
        "rewrites": (equations.rewrites(), lambda pair: [pair.name, "equal" if pair.equal else "near miss"]),
        "hierarchies": (
            hierarchy_strategies.hierarchies(),
            lambda h: [f"levels: {len(h.levels)}", *(x.kind for x in h.levels)],
        ),
    }
    if only is not None and only not in every:
        raise CatdiagError(f"no strategy is called {only!r}: expected one of {', '.join(every)}")
    for name in every if only is None else [only]:
        yield table(name, distribution(*every[name], examples))
