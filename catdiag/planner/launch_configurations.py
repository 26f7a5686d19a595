"""A few launch configurations for a Triton kernel, by the cost model: what is worth being timed.

Candidates are tiles, blocks, stages and warps that Triton can run:

- tiles and blocks are powers of two. An axis that is none, or shorter than a product's side may be, is filled up;
- a product takes at least 16 along each of its sides (`triton_resources.MIN_DOT`), and sums at least 32
  of 8 bits. What multiplies a matrix by a vector is no product, and has no such demand;
- a grouped axis that every loaded array carries (a batch, heads) has tile 1: a larger one saves nothing;
- 4 or 8 warps, where nothing is multiplied 16 too; two to four stages, and one where no loop's blocks are multiplied;
- where the kernel can be written warp-specialized (`catdiag.codegen.gluon.warp_specialization`), two or three
  warpgroups of 64 rows that compute, blocks of 64 entries or more and one block a core, beside the others;
- shared memory as Triton allots it, and 1 KiB, is within what a block may have; registers are few enough that the
  compiler does not spill (`catdiag.planner.resources`).

They are ranked by predicted time (`catdiag.planner.time_model`); where nothing is multiplied, the longest blocks
of those within 5% come first (the cross-entropy of 128,256 logits took 729 µs in blocks of 256, and 509 in blocks of
4,096). The first proposal is the model's choice. The others are those that would teach most: for each respect (each
tile, stages, warps) the best candidate that has more of it than the first, and the best that has less; then the best of
what differs from all of these in two respects. None is predicted to take more than `WITHIN` times as long as the first,
unless there are too few others.

>>> import catdiag as cd
>>> product = cd.library.get("matmul").stream("b").group("a c")
>>> for p in propose(product, "H200", {"a": 4096, "b": 4096, "c": 4096}, most=3):
...     print(p)
g_a=128, g_c=256, s_b=64; 3 stages, 8 warps
g_a=128, g_c=256, s_b=64; 4 stages, 8 warps
g_a=256, g_c=128, s_b=64; 4 stages, 8 warps
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from catdiag.planner.configuration_candidates import Candidates
from catdiag.planner.configuration_proposal import Proposal
from catdiag.planner.configuration_ties import first_first
from catdiag.planner.fit import searching
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from catdiag.category.diagram import Diagram
    from catdiag.chip.hardware import Hardware

NUMBER = 8
"""Proposals, at most, if nobody asks for another number."""
WITHIN = 2.0
"""How many times the first proposal's time another may be predicted to take."""


def propose(
    derivation: Diagram | Any,
    hardware: Hardware | str,
    sizes: Mapping[str, int],
    dtype: str | Mapping[str, str] = "bf16",
    *,
    most: int = NUMBER,
    boxes: bool = True,
    **options: Any,
) -> tuple[Proposal, ...]:
    """At most `most` configurations for the kernel of a derivation, the one that is predicted quickest first.

    `derivation` is a derivation or a diagram of one kernel, streamed, grouped or both; the arguments are those of
    `catdiag.planner.fit.fit`, the `options` too. Tiles that are given have to be powers of two. Without `boxes`,
    kernels copy arrays by addresses, as they must where the strides of arrays are no multiples of 16 bytes. The same
    arguments give the same proposals. Raises DoesNotFit where no configuration fits, with what the least needs;
    CatdiagError for a number below 1, tiles that are no powers of two and a chip that has no registers to accumulate
    in; and as `fit` does, for sizes, types and diagrams of several kernels.
    """
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise CatdiagError(f"most is {most!r}: expected a number of proposals, 1 or more")
    search = searching(derivation, hardware, sizes, dtype, **options)
    found = Candidates(search, boxes, dtype)
    return _diverse(first_first(found.longest_first(found.ranked())), most)


def _diverse(ranked: list[Proposal], most: int) -> tuple[Proposal, ...]:
    """Few of the ranked ones that differ in different respects, the first among them."""
    first = ranked[0]
    near = [p for p in ranked[1:] if p.time_s <= WITHIN * first.time_s]
    chosen: dict[int, Proposal] = {}

    def take(found: Proposal | None) -> None:
        if found is not None:
            chosen.setdefault(id(found), found)

    mine = _respects(first)
    for name in mine:
        for more in (True, False):
            take(next((p for p in near if _differs(p, name, mine[name], more)), None))
    found = sorted(chosen.values(), key=lambda p: ranked.index(p))[: most - 1]
    for p in chain(near, ranked[1:]):
        if len(found) >= most - 1:
            break
        if p not in found and all(len(_differences(p, other)) > 1 for other in (first, *found)):
            found.append(p)
    for p in near:
        if len(found) >= most - 1:
            break
        if p not in found:
            found.append(p)
    found.sort(key=lambda p: ranked.index(p))
    return (first, *(replace(p, differences=tuple(_differences(p, first))) for p in found))


def _respects(p: Proposal) -> dict[str, int]:
    return {**p.tiles, "stages": p.stages, "warps": p.warps, "specialized": int(p.specialized)}


def _differs(p: Proposal, name: str, than: int, more: bool) -> bool:
    has = _respects(p)[name]
    return has > than if more else has < than


def _differences(p: Proposal, other: Proposal) -> list[str]:
    mine, theirs = _respects(p), _respects(other)
    return [name for name in mine if mine[name] != theirs[name]]
