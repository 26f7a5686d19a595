"""What is asked for of launch configurations, of which Triton has some."""

from __future__ import annotations

from catdiag.planner.tile_search import TileSearch
from catdiag.util.errors import CatdiagError

GROUPS, ROWS = (2, 3), 64
"""With warp specialization: warpgroups that compute, and rows of each."""


def asked_options(search: TileSearch, name: str, options: list[int]) -> list[int]:
    """What a tile may be, of what is asked for. Raises CatdiagError where it may be nothing."""
    asked = search.request
    every, least = asked.multiples.get(name, 1), asked.at_least.get(name, 1)
    found = [n for n in options if n % every == 0 and n >= least]
    if not found:
        few = f"a multiple of {every}" if name in asked.multiples else f"at least {least}"
        raise CatdiagError(f"{name} is to be {few}: Triton's tiles are powers of two, here up to {options[-1]}")
    return found


def odd_tiles(search: TileSearch) -> dict[str, CatdiagError]:
    """Of each tile that is given and no power of two, what is wrong with it, unless a kernel is warp-specialized."""
    return {
        name: CatdiagError(f"tiles gives {name!r} as {tile}: expected a power of two, as Triton's tiles are")
        for name, tile in search.request.tiles.items()
        if tile & (tile - 1)
    }


def check_request(search: TileSearch) -> None:
    """Raises CatdiagError for what Triton has no kernels of: a chip, tiles and warps that are given."""
    chip, asked = search.chip, search.request
    if chip.accumulators == "SMEM":
        raise CatdiagError(f"{chip.name} accumulates in {chip.word('SMEM')}: Triton has no kernels for it")
    for name, error in odd_tiles(search).items():
        if asked.tiles[name] not in [ROWS * n for n in GROUPS]:
            raise error
    warps = (asked.threads or chip.warp) // chip.warp
    if warps & (warps - 1) and warps not in [4 * n for n in GROUPS]:
        raise CatdiagError(f"threads is {asked.threads}, {warps} warps: expected a power of two, as Triton's warps are")
