"""The counting machine with several levels on chip, by the rules stated in `catdiag.cost.traffic_by_level`.

>>> import catdiag as cd
>>> total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x")).stream("x").group("q").diagram
>>> counts = count_levels(
...     total, {"q": 5, "x": 6}, ("HBM", "SMEM", "registers"), {"SMEM": {"g_q": 4, "s_x": 3}, "registers": {"g_q": 2}}
... )
>>> counts.load["HBM", "SMEM"], counts.save["SMEM", "registers"], dict(counts.peak)
(30, 5, {'SMEM': 12, 'registers': 8})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

from catdiag.category.diagram import Diagram, HasDiagram, diagram_of
from catdiag.execute.interpreter import Functions
from catdiag.execute.size_inference import tile_lengths
from catdiag.simulate.byte_widths import MachineWidths
from catdiag.simulate.machine import Dtype, ran
from catdiag.simulate.memory_cells import Chain
from catdiag.util.errors import CatdiagError

Ends = tuple[str, str]
Names = str | Sequence[str]
_ROLES = ("operand", "streamed", "state", "temporary", "output")


class NamedMemory(Protocol):
    """A level of memory."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def kind(self) -> str:
        """`scratchpad` or `cache`."""

    @property
    def capacity(self) -> int | None:
        """Its capacity in bytes; None: unbounded."""


class LevelMachine(Protocol):
    """A memory hierarchy; only its levels are read."""

    @property
    def levels(self) -> Sequence[NamedMemory]:
        """The levels, slowest first."""


@dataclass(frozen=True)
class LevelCounts:
    """The transfers over each edge in the whole run, also by array, and the peak memory of a tile of each level.

    In values, or in bytes where a dtype was given. An edge is the pair of names of its upper and lower level.
    `children` is the largest number of tiles of a level within one tile of the level above. The peak of a cache is
    the total of the distinct tiles that a wave of groups loads.
    """

    loads: Mapping[Ends, Mapping[str, int]]
    saves: Mapping[Ends, Mapping[str, int]]
    peak: Mapping[str, int]
    children: Mapping[str, int]
    outputs: tuple[Any, ...] = field(repr=False)

    @property
    def load(self) -> dict[Ends, int]:
        """The loads over each edge, downwards, of all arrays."""
        return {ends: sum(by_array.values()) for ends, by_array in self.loads.items()}

    @property
    def save(self) -> dict[Ends, int]:
        """The stores over each edge, upwards, of all arrays."""
        return {ends: sum(by_array.values()) for ends, by_array in self.saves.items()}


def count_levels(
    diagram: Diagram | HasDiagram,
    sizes: Mapping[str, int],
    levels: Sequence[str] | LevelMachine,
    tiles: Mapping[str, Mapping[str, int]] | None = None,
    *,
    placement: Mapping[str, Names] | None = None,
    stages: int | Mapping[str, int] = 1,
    dtype: Dtype = None,
    fused: bool = True,
    wave: int | None = None,
    arrays: Sequence[Any] | None = None,
    functions: Functions | None = None,
) -> LevelCounts:
    """Runs a diagram through a chain of memories, counting values, or bytes with `dtype`.

    `levels` are names, slowest first, or a hierarchy. `tiles` gives, by level, the lengths of tiles and blocks by the
    symbols of the diagram (`{"SMEM": {"g_q": 64, "s_x": 32}, "registers": {"g_q": 16}}`). A symbol that is left out has
    the length that it has at the level above. Caches have no tiles: `wave` is the number of groups that run at a time
    and share them. `placement` and `stages` are those of `catdiag.cost.traffic_by_level.levels_io`, the rest as in
    `catdiag.simulate.machine.count`.

    Raises as `count` does, and CatdiagError for unknown levels or roles, a cache without `wave`, or a cache with a
    capacity and no dtype.
    """
    diagram, every = diagram_of(diagram), _names(levels)
    caches = {} if isinstance(levels, Sequence) else {v.name: v.capacity for v in levels.levels if v.kind == "cache"}
    if caches and (isinstance(wave, bool) or not isinstance(wave, int) or wave < 1):
        raise CatdiagError(f"wave is {wave!r}: expected how many groups run at a time under {', '.join(caches)}")
    if dtype is None and any(capacity is not None for capacity in caches.values()):
        raise CatdiagError(f"the capacity of {', '.join(caches)} is in bytes: expected a dtype, as in dtype='bf16'")
    names = tuple(name for name in every if name not in caches)
    if every[1 : len(caches) + 1] != tuple(caches) or len(names) < 2:
        raise CatdiagError(
            f"levels are {', '.join(every)}: expected caches directly below {every[0]}, and a level below"
        )
    fast = names[1:]
    chain = _chain(names, _lengths(diagram, fast, tiles or {}), placement or {}, stages, caches, wave or 1)
    chip, outputs = ran(diagram, sizes, chain, MachineWidths(diagram, dtype), fused, arrays, functions)
    edges = dict.fromkeys([*pairwise(range(len(names))), *sorted({*chip.loads, *chip.saves})])
    loads = {(names[j], names[k]): dict(chip.loads[j, k]) for j, k in edges}
    saves = {(names[j], names[k]): dict(chip.saves[j, k]) for j, k in edges}
    if caches:
        through = list(pairwise((names[0], *caches, fast[0])))
        direct = (names[0], fast[0])
        loads = {**dict(zip(through, map(dict, [*chip.waves.fetched, loads.pop(direct)]), strict=True)), **loads}
        saves = {**dict.fromkeys(through, saves.pop(direct)), **saves}
    return LevelCounts(
        loads,
        saves,
        dict(zip((*caches, *fast), (*chip.waves.peak, *chip.peaks[1:]), strict=True)),
        dict(zip(fast, chip.children[1:], strict=True)),
        outputs,
    )


def _lengths(
    diagram: Diagram, fast: Sequence[str], tiles: Mapping[str, Mapping[str, int]]
) -> tuple[Mapping[str, int], ...]:
    """The lengths of tiles and blocks at each fast level. Raises CatdiagError for unknown levels."""
    lengths = {name: dict[str, int]() for name in fast}
    for name, own in tiles.items():
        if name not in fast:
            raise CatdiagError(f"tiles names level {name!r}: expected some of {', '.join(fast)}")
        lengths[name] = tile_lengths(diagram, own)
    return tuple(lengths.values())


def _chain(
    names: tuple[str, ...],
    lengths: tuple[Mapping[str, int], ...],
    placement: Mapping[str, Names],
    stages: int | Mapping[str, int],
    caches: Mapping[str, int | None],
    wave: int,
) -> Chain:
    """The memories with what each holds. Raises CatdiagError for wrong placements and numbers of buffers."""
    fast = names[1:]
    place = _LevelPlacement(fast, placement)
    streamed = place.path("streamed", fast)
    buffers = {fast[streamed[0] - 1]: stages} if isinstance(stages, int) else dict(stages)
    for name, number in buffers.items():
        if name not in fast or isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise CatdiagError(f"stages is {stages!r}: expected numbers of buffers, 1 or more, of {', '.join(fast)}")
    chain = Chain(
        names,
        place.path("operand", fast),
        streamed,
        place.path("output", ()),
        place.level("state"),
        place.level("temporary"),
        lengths,
        tuple(buffers.get(name, 1) for name in fast),
        tuple(caches.values()),
        wave,
        len(fast) == 1 and not caches,
    )
    if caches and not chain.operand[0] == chain.streamed[0] == 1:
        raise CatdiagError(f"placement skips {fast[0]}, which is under a cache: expected paths that start with it")
    return chain


def _names(levels: Sequence[str] | LevelMachine) -> tuple[str, ...]:
    names = levels if isinstance(levels, Sequence) else [level.name for level in levels.levels]
    if isinstance(levels, str) or len(names) < 2 or len(set(names)) < len(names):
        raise CatdiagError(f"levels is {levels!r}: expected two names or more, slowest first, each once")
    return tuple(names)


class _LevelPlacement:
    """The levels, by number, that hold arrays of a role."""

    def __init__(self, fast: Sequence[str], placement: Mapping[str, Names]) -> None:
        self.fast, self.given_levels = list(fast), placement
        for role in placement:
            if role not in _ROLES:
                raise CatdiagError(f"placement names a role {role!r}: expected some of {', '.join(_ROLES)}")

    def path(self, role: str, default: Sequence[str]) -> tuple[int, ...]:
        """The levels on the path of an array of a role, slowest first."""
        levels = self.given_levels.get(role, default)
        names = (levels,) if isinstance(levels, str) else tuple(levels)
        found = [self.fast.index(name) + 1 for name in names if name in self.fast]
        if len(found) < len(names) or found != sorted(set(found)) or (default and not found):
            raise CatdiagError(
                f"placement of {role} is {levels!r}: expected some of {', '.join(self.fast)}, in this order"
            )
        return tuple(found)

    def level(self, role: str) -> int:
        """The one level of a role, by default the fastest."""
        found = self.path(role, self.fast[-1:])
        if len(found) != 1:
            raise CatdiagError(f"placement of {role} is {self.given_levels[role]!r}: expected one level")
        return found[0]
