"""What attention is predicted to take if blocks of keys could have sides that are no powers of two.

    python -m benchmarks.tile_sides

prints, for widths of heads, the predicted microseconds on an H200 by queries of a group and keys of a block: of tiles
that Gluon has, and of others that fit in shared memory. Registers are not counted. Nothing is run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import catdiag as cd
from catdiag.planner.configuration_candidates import Candidates
from catdiag.planner.fit import searching

TOKENS, MODEL = 8192, 2048
KEYS = (64, 96, 128, 160, 176, 192, 224)
WARPS = {128: 8, 192: 12}
"""Consumer warps by rows of a group: 64 rows a warpgroup."""
SMEM_BYTES = 232_448


def predicted(width: int) -> Iterator[tuple[int, int, float]]:
    """Rows of a group, keys of a block, and seconds, for heads of a width, of those that fit with two stages."""
    sizes = {"b": 1, "h": MODEL // width, "q": TOKENS, "x": TOKENS, "d": width}
    form = cd.library.get("multi_head_attention").stream("x").group("b h q")
    candidates = Candidates(searching(form, "H200", sizes))
    first = next(p for p in candidates.ranked() if p.specialized)
    for rows, warps in WARPS.items():
        for keys in KEYS:
            if 2 * width * (rows + 2 * 2 * keys) <= SMEM_BYTES:
                proposal = replace(first, tiles={**first.tiles, "g_q": rows, "s_x": keys}, stages=2, warps=warps)
                yield rows, keys, float(candidates.timing(proposal).seconds)


def main() -> None:
    """Prints the table."""
    for width in (64, 128):
        print(f"d = {width}")
        for rows, keys, seconds in predicted(width):
            written = "" if keys & (keys - 1) else "  (a power of two)"
            print(f"  {rows} rows, {keys:3} keys: {1e6 * seconds:7.1f} µs{written}")


if __name__ == "__main__":
    main()
