"""Whether the formulas of what a diagram moves are what a machine counts."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from catdiag.diagram import Diagram
from catdiag.errors import SizeError
from catdiag.types import size_symbols, size_value

if TYPE_CHECKING:
    from catdiag.rewrite.derivation import Derivation


_ATTEMPTS = 20
"""Sizes drawn for a trial until they fit."""


def assert_counts_match(
    form: Diagram | Derivation,
    trials: int = 10,
    *,
    sizes: Mapping[str, int] | None = None,
    tiles: Mapping[str, int] | None = None,
    stages: int | None = None,
    dtype: str | Mapping[str, str] | None = None,
    fused: bool = True,
    longest: int = 7,
    seed: int = 0,
    functions: Mapping[str, Any] | None = None,
) -> None:
    """Compares the formulas of `io` with what `catdiag.run.machine.count` counts, at random sizes, tiles and stages.

    Loads and saves of each array, and the most memory held, in values, or in bytes with `dtype`. `sizes` and `tiles`
    fix some of them; others are drawn, sizes up to `longest`, tiles and blocks up to their axes, remainders included,
    and of a loop in parts a number that divides its axis. The same `seed` draws the same. `functions` are those of
    `cd.apply`. Raises AssertionError, naming the array and the sizes at which the two differ; CatdiagError where `io`
    does, SizeError for sizes that no array can have.

    >>> import catdiag as cd
    >>> total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x")).stream("x").group("q")
    >>> cd.testing.assert_counts_match(total, dtype="bf16")
    """
    from catdiag.cost.io import io
    from catdiag.run.machine import count

    diagram: Diagram = form if isinstance(form, Diagram) else form.diagram
    random = Random(seed)
    refused: SizeError | None = None
    done = 0
    for _ in range(_ATTEMPTS * trials):
        if done == trials:
            return
        buffers = random.randint(1, 3) if stages is None else stages
        formula = io(diagram, dtype=dtype, stages=buffers, fused=fused)
        known = {name: random.randint(1, longest) for name in formula.account.sizes} | dict(sizes or {})
        lengths = drawn_tiles(diagram, known, random) | dict(tiles or {})
        try:
            counts = count(diagram, known, lengths, buffers, dtype=dtype, fused=fused, functions=functions)
        except SizeError as error:  # an index that is read need not be in range at all sizes
            refused = error
            continue
        done += 1
        where = f"at {named({**known, **lengths})}, stages={buffers}, dtype={dtype!r}"

        def at(expr: Any, values: Mapping[str, int] = {**known, **lengths}) -> int:
            return int(expr.subs({s: values[str(s)] for s in expr.free_symbols}))

        said: dict[str, int] = {}
        for t in formula.traffic:
            said[f"{t.direction} of {t.array}"] = said.get(f"{t.direction} of {t.array}", 0) + at(t.exact)
        found = {f"load of {name}": amount for name, amount in counts.loads.items()}
        found |= {f"save of {name}": amount for name, amount in counts.saves.items()}
        said |= {"loads": at(formula.load), "saves": at(formula.save), "memory": at(formula.memory)}
        found |= {"loads": counts.load, "saves": counts.save, "memory": counts.peak}
        for what in (*said, *(what for what in found if what not in said)):
            if said.get(what, 0) != found.get(what, 0):
                raise AssertionError(f"{what}: {said.get(what, 0)} by formula, {found.get(what, 0)} counted, {where}")
    if refused is not None and not done:
        raise refused


def drawn_tiles(diagram: Diagram, sizes: Mapping[str, int], random: Random) -> dict[str, int]:
    """Lengths of the tiles and blocks of a diagram, and numbers of parts, which divide their axis.

    >>> import catdiag as cd
    >>> drawn_tiles(cd.id(cd.Ty()), {}, Random(0))
    {}
    """
    from catdiag.boxes import Fold, bodies
    from catdiag.run.sizes import tile_bounds

    parts: dict[str, str] = {}
    todo = [diagram]
    while todo:
        for box in todo.pop().boxes:
            if isinstance(box.op, Fold) and box.op.parts is not None:
                parts[box.op.block] = box.op.parts
            todo.extend(bodies(box.op))
    found: dict[str, int] = {}
    for symbol, size in sorted(tile_bounds(diagram).items()):
        whole = size_value(size, dict(sizes)) if size_symbols(size) <= set(sizes) else 1
        if symbol in parts.values():
            found[symbol] = random.choice([k for k in range(1, whole + 1) if whole % k == 0])
        else:
            found[symbol] = random.randint(1, whole)
    for block, number in parts.items():
        whole = size_value(tile_bounds(diagram)[block], dict(sizes))
        found[block] = min(found[block], whole // found[number])
    return found


def named(values: Mapping[str, int]) -> str:
    """Sizes as one writes them.

    >>> named({"q": 3, "g_q": 2})
    'q=3, g_q=2'
    """
    return ", ".join(f"{name}={value}" for name, value in values.items())
