"""A test of the cost formulas: they must equal what the counting machine counts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import sympy

from catdiag.category.diagram import Diagram, HasDiagram, diagram_of
from catdiag.category.types import size_symbols, size_value
from catdiag.chip.hierarchy import Hierarchy
from catdiag.codegen.pseudocode import shown
from catdiag.cost.traffic import io
from catdiag.cost.traffic_by_level import levels_io
from catdiag.execute.size_inference import tile_bounds
from catdiag.schedule.split_k import parts_by_block
from catdiag.simulate.machine import count
from catdiag.simulate.multi_level_machine import count_levels
from catdiag.testing.concise_failures import concise
from catdiag.util.errors import CatdiagError, SizeError

_ATTEMPTS = 20
"""The most draws of sizes per trial, until every read is in range."""

Found = dict[str, int]


@concise
def assert_counts_match(
    form: Diagram | HasDiagram,
    trials: int = 10,
    *,
    levels: Sequence[str] | Hierarchy | None = None,
    placement: Mapping[str, str | Sequence[str]] | None = None,
    wave: int | None = None,
    sizes: Mapping[str, int] | None = None,
    tiles: Mapping[str, int] | None = None,
    stages: int | Mapping[str, int] | None = None,
    dtype: str | Mapping[str, str] | None = None,
    fused: bool = True,
    longest: int = 7,
    seed: int = 0,
    functions: Mapping[str, Any] | None = None,
) -> None:
    """Compares the formulas of `io` with the counts of `catdiag.simulate.machine.count`, at random sizes, tiles and
    stages, so many `trials`.

    `form` is the diagram, or a program or derivation with one; without `fused`, each box outside of groups is a kernel
    of its own. Compared are the loads and saves of each array and the peak memory, in values, or in bytes with `dtype`.
    With `levels`, they are compared for each edge of a chain of memories and at each level, with the counts of
    `catdiag.simulate.multi_level_machine.count_levels`; under caches `wave` groups run at a time, or a random number up
    to `longest`. `sizes` and `tiles` (of the first level) fix some. The others are drawn: sizes up to `longest`, tiles
    and blocks up to the length that they divide, with remainders, and for a split loop a number of parts that divides
    its axis. The same `seed` draws the same. `functions` are those of `cd.apply`.

    Raises AssertionError, naming the array and the sizes at which the two differ. Raises CatdiagError where `io` does,
    and SizeError for sizes that no array can have, and for sizes and tiles that the diagram does not have.

    >>> import catdiag as cd
    >>> total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x")).stream("x").group("q")
    >>> cd.testing.assert_counts_match(total, dtype="bf16")
    >>> cd.testing.assert_counts_match(total, levels=("HBM", "SMEM", "registers"), placement={"operand": "SMEM"})
    """
    diagram = diagram_of(form, "what is counted")
    _known(diagram, sizes or {}, tiles or {})
    random = Random(seed)
    refused: SizeError | None = None
    done = 0
    for _ in range(_ATTEMPTS * trials):
        if done == trials:
            return
        buffers = random.randint(1, 3) if stages is None else stages
        draw = _Draw(diagram, random, longest, sizes or {}, tiles or {})
        options: dict[str, Any] = {"dtype": dtype, "stages": buffers, "fused": fused}
        try:
            if levels is None:
                said, found = _two_levels(diagram, draw, functions, options)
            else:
                options["placement"] = placement or {}
                if not isinstance(levels, Sequence):
                    options["wave"] = random.randint(1, longest) if wave is None else wave
                said, found = _several_levels(diagram, levels, draw, functions, options)
        except SizeError as error:  # reads at index arithmetic need not be in range at all sizes
            refused = error
            continue
        done += 1
        at: dict[str, Any] = {**draw.values, "stages": buffers, "dtype": dtype}
        at |= {"placement": placement} if placement else {}
        at |= {"wave": options["wave"]} if "wave" in options else {}
        _require_equal(diagram, said, found, at)
    if refused is not None and not done:
        raise refused


def _require_equal(diagram: Diagram, said: Found, found: Found, at: Mapping[str, Any]) -> None:
    """Raises AssertionError for the first number that formulas and machine give differently."""
    for what in (*said, *(what for what in found if what not in said)):
        if said.get(what, 0) != found.get(what, 0):
            numbers = f"{said.get(what, 0)} by formula, {found.get(what, 0)} counted"
            raise AssertionError("\n".join([f"{what}: {numbers}, at {named(at)}, of", *shown(diagram)]))


def _known(diagram: Diagram, sizes: Mapping[str, int], tiles: Mapping[str, int]) -> None:
    """Raises SizeError for sizes and tiles that the diagram lacks."""
    local = [*tile_bounds(diagram)]
    own: dict[str, None] = {}
    for ty in diagram.graph.wire_types():
        for axis in ty.axes:
            own.update(dict.fromkeys(sorted(size_symbols(axis.size))))
    for what, given, known in (("sizes", sizes, list(own)), ("tiles", tiles, local)):
        for name in given:
            if name not in known:
                listed = ", ".join(sorted(known)) or "none"
                raise SizeError(f"{what} names {name!r}: the diagram has {listed}")


def _two_levels(
    diagram: Diagram, draw: _Draw, functions: Mapping[str, Any] | None, options: dict[str, Any]
) -> tuple[Found, Found]:
    formula = io(diagram, **options)
    known = draw.sizes(formula.account.sizes)
    lengths = draw.lengths(known)
    draw.values = {**known, **lengths}
    # The bounds of a loop may depend on an input that is a number.
    mentioned = {str(s) for e in (formula.load, formula.save, formula.memory) for s in e.free_symbols}
    arrays = draw.arrays(known, mentioned - set(draw.values))
    counts = count(diagram, known, lengths, options.pop("stages"), arrays=arrays, functions=functions, **options)
    at = evaluator(draw.values)
    said: Found = {}
    for t in formula.traffic:
        said[f"{t.direction} of {t.array}"] = said.get(f"{t.direction} of {t.array}", 0) + at(t.exact)
    found = {f"load of {name}": amount for name, amount in counts.loads.items()}
    found |= {f"save of {name}": amount for name, amount in counts.saves.items()}
    said |= {"loads": at(formula.load), "saves": at(formula.save), "memory": at(formula.memory)}
    return said, found | {"loads": counts.load, "saves": counts.save, "memory": counts.peak}


def _several_levels(
    diagram: Diagram,
    levels: Sequence[str] | Hierarchy,
    draw: _Draw,
    functions: Mapping[str, Any] | None,
    options: dict[str, Any],
) -> tuple[Found, Found]:
    formula = levels_io(diagram, levels, **options)
    known = draw.sizes(formula.account.sizes)
    lengths: dict[str, dict[str, int]] = {}
    draw.values = dict(known)
    tiled = [level.name for level in formula.levels if level.kind != "cache"]
    for above, name in pairwise(tiled):
        lengths[name] = draw.within(lengths[above]) if above in lengths else draw.lengths(known)
        draw.values |= {str(s): lengths[name][base] for base, s in formula.tiles[name].items() if base in lengths[name]}
    # The number of parts of a split loop, which is not a tile.
    draw.values |= {symbol: n for symbol, n in lengths[tiled[1]].items() if symbol not in draw.values}
    counts = count_levels(diagram, known, levels, lengths, functions=functions, **options)
    at = evaluator(draw.values)
    said: Found = {}
    for edge in formula.edges.values():
        for t in edge.traffic:
            what = f"{t.direction} of {t.array} between {edge.upper} and {edge.lower}"
            said[what] = said.get(what, 0) + at(t.exact)
    found = {
        f"{direction} of {array} between {upper} and {lower}": amount
        for direction, edges in (("load", counts.loads), ("save", counts.saves))
        for (upper, lower), by_array in edges.items()
        for array, amount in by_array.items()
    }
    said |= {f"memory of {name}": at(expr) for name, expr in formula.memory.items()}
    return said, found | {f"memory of {name}": amount for name, amount in counts.peak.items()}


class _Draw:
    """Random sizes and lengths; some are fixed."""

    def __init__(
        self, diagram: Diagram, random: Random, longest: int, sizes: Mapping[str, int], tiles: Mapping[str, int]
    ) -> None:
        self.diagram, self.random, self.longest, self.given, self.tiles = diagram, random, longest, sizes, tiles
        self.values: dict[str, int] = {}

    def sizes(self, names: Sequence[str]) -> dict[str, int]:
        """The sizes of the axes."""
        drawn = {name: self.random.randint(1, self.longest) for name in names}
        return drawn | dict(self.given)

    def lengths(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The lengths of tiles and blocks, and the numbers of parts."""
        return drawn_tiles(self.diagram, sizes, self.random) | dict(self.tiles)

    def arrays(self, sizes: Mapping[str, int], said: Collection[str]) -> list[Any] | None:
        """The inputs, if formulas depend on integers among them (`said`), with these integers drawn; else None."""
        if not said:
            return None
        generator = np.random.default_rng(self.random.randint(0, 2**20))
        found: list[Any] = []
        for name, ty in zip(self.diagram.input_names, self.diagram.dom, strict=True):
            shape = [size_value(a.size, dict(sizes)) for a in ty.axes]
            if ty.element == "int" and not shape and name in said:
                self.values[name] = self.random.randint(1, self.longest)
                found.append(np.asarray(self.values[name]))
            elif ty.element == "int":
                found.append(np.zeros(shape, np.int64))
            else:
                found.append(
                    generator.random(shape) < 0.5 if ty.element == "bool" else generator.uniform(0.5, 1.5, shape)
                )
        return found

    def within(self, lengths: Mapping[str, int]) -> dict[str, int]:
        """The lengths of tiles and blocks within those of the level above; without the numbers of parts."""
        parts = parts_by_block(self.diagram).values()
        return {symbol: self.random.randint(1, n) for symbol, n in lengths.items() if symbol not in parts}


def evaluator(values: Mapping[str, int]) -> Callable[[Any], int]:
    """A function that evaluates formulas at these values, exactly, to integers. The function raises CatdiagError for a
    formula of other symbols, AssertionError for a result that is no integer.

    It replaces sympy's own substitution, which is slow on nested rounding.

    >>> from catdiag.category.integer_polynomial import symbol
    >>> evaluator({"q": 7, "g_q": 2})(symbol("q") * 3 + symbol("g_q"))
    23
    """
    functions = {"floor": lambda v: v // 1, "ceiling": lambda v: -(-v // 1), "Max": max, "Min": min}
    quick = (sympy.Add, sympy.Mul, sympy.Pow, sympy.floor, sympy.ceiling, sympy.Max, sympy.Min, sympy.Atom)

    def at(formula: Any) -> int:
        names = sorted(formula.free_symbols, key=str)
        unknown = [str(name) for name in names if str(name) not in values]
        if unknown:
            raise CatdiagError(f"{formula} depends on {', '.join(unknown)}: expected sizes of axes and tiles only")
        if not all(isinstance(part, quick) for part in sympy.preorder_traversal(formula)):
            return int(formula.subs({name: values[str(name)] for name in names}).doit())
        given = [Fraction(values[str(name)]) for name in names]
        found = Fraction(sympy.lambdify(names, formula, modules=[functions])(*given))
        if found.denominator != 1:
            raise AssertionError(f"{formula} is {found} at {named(values)}: expected a whole number")
        return found.numerator

    return at


def drawn_tiles(diagram: Diagram, sizes: Mapping[str, int], random: Random) -> dict[str, int]:
    """Random lengths of a diagram's tiles and blocks, and random numbers of parts, which divide their axis.

    >>> import catdiag as cd
    >>> drawn_tiles(cd.id(cd.category.Ty()), {}, Random(0))
    {}
    """
    parts, bounds = parts_by_block(diagram), tile_bounds(diagram)
    found: dict[str, int] = {}
    for symbol, size in sorted(bounds.items()):
        whole = size_value(size, dict(sizes)) if size_symbols(size) <= set(sizes) else 1
        if symbol in parts.values():
            found[symbol] = random.choice([k for k in range(1, whole + 1) if whole % k == 0])
        else:
            found[symbol] = random.randint(1, whole)
    for block, number in parts.items():
        found[block] = min(found[block], size_value(bounds[block], dict(sizes)) // found[number])
    return found


def named(values: Mapping[str, Any]) -> str:
    """Sizes and options as keyword arguments.

    >>> named({"q": 3, "g_q": 2})
    'q=3, g_q=2'
    """
    return ", ".join(f"{name}={value!r}" for name, value in values.items())
