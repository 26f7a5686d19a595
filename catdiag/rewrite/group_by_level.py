"""Tiles for single levels of a memory hierarchy: the diagram grouped by all axes that some level cuts, with proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from catdiag.category.diagram import Diagram
from catdiag.category.ops import GroupOp
from catdiag.rewrite.derivation import Derivation
from catdiag.rewrite.group import group
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from catdiag.chip.hierarchy import Hierarchy

Within = Mapping[str, str | Sequence[str]]


def group_levels(
    derivation: Derivation, levels: Sequence[str] | Hierarchy, within: Within | None
) -> tuple[Diagram, Within | None]:
    """The diagram of a derivation grouped by the axes in `within` too, and the axes that each level cuts.

    Levels that `within` does not name keep the tiles of the diagram. The theorem of a grouped diagram holds for all
    tile sizes, so that one level may take an axis whole where another cuts it. Raises NotGroupable.
    """
    if not within:
        return derivation.diagram, within
    if not isinstance(within, Mapping):
        raise CatdiagError(f"within is {within!r}: expected axes by level, as in {{'registers': ('q', 'd')}}")
    had = [axis for box in derivation.diagram.boxes if isinstance(box.op, GroupOp) for axis, _ in box.op.tiles]
    named = [a for axes in within.values() for a in ((axes,) if isinstance(axes, str) else axes)]
    more = [axis for axis in dict.fromkeys(named) if axis not in had]
    if not more:
        return derivation.diagram, within
    names = list(levels) if isinstance(levels, Sequence) else [level.name for level in levels.levels]
    return group(derivation, more).diagram, {**{name: tuple(had) for name in names[1:]}, **within}
