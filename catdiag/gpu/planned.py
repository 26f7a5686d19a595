"""The kernels of diagrams and of plans: emitted, and compiled."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from catdiag.cost.count.kernels import output_names
from catdiag.emit.triton import Module, module
from catdiag.errors import CatdiagError, SizeError
from catdiag.gpu.compile import Compiled, compiled
from catdiag.run.sizes import tile_bounds
from catdiag.types import size_value

if TYPE_CHECKING:
    from catdiag.cost.plan import Plan
    from catdiag.diagram import Diagram
    from catdiag.gpu.proposals import Proposal
    from catdiag.rewrite.several import Plans


def compiled_of(
    diagram: Diagram,
    source: Diagram | None,
    tiles: Mapping[str, int],
    dtype: str | Mapping[str, str] = "bf16",
    *,
    stages: int = 2,
    warps: int = 4,
) -> Compiled:
    """A diagram in loops and groups as a function of torch tensors; `source` is what it was derived from, if known.

    Raises what `catdiag.emit.triton.module` and `catdiag.gpu.compile.compiled` raise.
    """
    return compiled(module(diagram, tiles, dtype, stages=stages, warps=warps), diagram, source)


@dataclass(frozen=True)
class Chosen:
    """What a module is written with: tiles by symbol, and buffers and warps, one number or one for each kernel, and
    whether loads are to be apart."""

    tiles: Mapping[str, int]
    stages: int | tuple[int, ...]
    warps: int | tuple[int, ...]
    specialized: bool | tuple[bool, ...] = False

    @staticmethod
    def of(proposal: Proposal) -> Chosen:
        """What is proposed."""
        return Chosen(dict(proposal.tiles), proposal.stages, proposal.warps, proposal.specialized)


def proposals_of(plan: Plan | Plans, most: int = 1) -> list[Chosen]:
    """At most `most` choices that the model proposes for Triton's kernels of a plan, the quickest by prediction first.

    A plan is of a chip on which each warp does what suits it best; what Triton makes differs (see
    `catdiag.gpu.proposals`). Tiles that `fit` was given are kept. Of several kernels each has its first proposal (one
    for which nothing is proposed runs as it is planned), and further choices differ in one of them. Of one kernel it
    raises what `propose` does.
    """
    from catdiag.gpu.proposals import propose

    plans = plans_of(plan)
    found: list[list[Chosen]] = []
    for p in plans:
        try:
            made = propose(_known(p), p.hardware, p.sizes, _dtypes(p), most=most, tiles=p.given)
        except CatdiagError:
            if len(plans) == 1:
                raise
            found.append([Chosen(tiles_of(p), p.stages, warps_of(p))])
            continue
        found.append([Chosen.of(one) for one in made])
    if len(found) == 1:
        return found[0]
    ways = [[0] * len(found)]
    for place in range(1, most):
        ways += [[place * (k == j) for j in range(len(found))] for k in range(len(found)) if place < len(found[k])]
    chosen = []
    for way in ways[:most]:
        picked = [proposals[k] for proposals, k in zip(found, way, strict=True)]
        tiles = {name: size for p in picked for name, size in p.tiles.items()}
        stages, warps = zip(*((_one(p.stages), _one(p.warps)) for p in picked), strict=True)
        apart = tuple(p.specialized is True for p in picked)
        chosen.append(Chosen(tiles, stages, warps, apart if any(apart) else False))
    return chosen


def _one(number: int | tuple[int, ...]) -> int:
    return number if isinstance(number, int) else max(number)


def module_of(plan: Plan | Plans, tiles: str = "triton") -> Module:
    """The Triton module of a plan, with what the model proposes for Triton, or by `tiles="plan"` as the plan has it:
    its tiles, buffers and warps, of several kernels those of each.

    Where nothing is proposed it is as the plan has it. Raises what `catdiag.emit.triton.module` raises, and
    CatdiagError for a plan that does not know its diagram, and for other `tiles`.
    """
    if tiles not in ("triton", "plan"):
        raise CatdiagError(f"tiles is {tiles!r}: expected 'triton' or 'plan'")
    diagram = _known(plan)
    if tiles == "triton":
        with suppress(CatdiagError):
            first = proposals_of(plan)[0]
            return module(
                diagram,
                first.tiles,
                _dtypes(plan),
                stages=first.stages,
                warps=first.warps,
                specialized=first.specialized,
            )
    each = plans_of(plan)
    stages, warps = [one.stages for one in each], [warps_of(one) for one in each]
    if len(each) == 1:
        return module(diagram, tiles_of(plan), _dtypes(plan), stages=stages[0], warps=warps[0])
    return module(diagram, tiles_of(plan), _dtypes(plan), stages=stages, warps=warps)


def _dtypes(plan: Plan | Plans) -> str | dict[str, str]:
    """The element types of a plan: by name they are written `Q fp8, K fp8`, and arrays that are not named are counted
    as fp32, as `catdiag.cost.io.io` has it."""
    named = dict(part.rsplit(" ", 1) for part in plan.dtype.split(", ") if " " in part)
    diagram = _known(plan)
    return {**dict.fromkeys((*diagram.input_names, *output_names(diagram)), "fp32"), **named} if named else plan.dtype


def kernel_of(plan: Plan | Plans, tiles: str = "triton") -> Compiled:
    """The kernel of a plan, or its kernels. Raises what `module_of` and `catdiag.gpu.compile.compiled` raise."""
    return compiled(module_of(plan, tiles), _known(plan), plan.source)


def tuned_kernel(plan: Plan) -> Compiled:
    """The kernel of a plan at the quickest of the tiles that the model proposes, as they were timed on the GPU here.

    Raises CatdiagError for a plan with types by name, and what `catdiag.gpu.tune.tuned` raises.
    """
    from catdiag.gpu.tune import tuned

    if " " in plan.dtype:
        raise CatdiagError(f"a kernel of types by name ({plan.dtype}) is not tuned: expected one type for all")
    kernel, found = tuned(_known(plan), plan.source, plan.hardware, plan.sizes, plan.dtype)
    return replace(kernel, tuning=found)


def longest(plan: Plan | Plans) -> Plan:
    """The plan of the kernel that is predicted to take longest."""
    return max(plans_of(plan), key=lambda one: one.time_s)


def plans_of(plan: Plan | Plans) -> list[Plan]:
    """The plans of the kernels, in order."""
    return [kernel.plan for kernel in plan.kernels] if hasattr(plan, "kernels") else [plan]


def sizes_of(plan: Plan | Plans) -> dict[str, int]:
    """The sizes that a plan is for."""
    return {name: size for one in plans_of(plan) for name, size in one.sizes.items()}


def tiles_of(plan: Plan | Plans) -> dict[str, int]:
    """The tiles of a plan as a kernel takes them, powers of two: a whole axis has the next one, any other tile that is
    none the one before, so that what is held fits all the more.

    >>> import catdiag as cd
    >>> total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x")).stream("x").group("q")
    >>> plan = total.plan("H100", {"q": 4096, "x": 100}, tiles={"g_q": 48, "s_x": 100})
    >>> tiles_of(plan)
    {'g_q': 32, 's_x': 128}
    """
    wholes, sizes = tile_bounds(_known(plan)), sizes_of(plan)
    found = {}
    for name, length in plan.tiles.items():
        whole = None
        with suppress(SizeError):  # of an axis that is made on the way
            whole = size_value(wholes.get(name, 0), sizes)
        below = 1 << (length.bit_length() - 1)
        found[name] = length if length == below else 2 * below if whole == length else below
    return found


def warps_of(plan: Plan) -> int:
    """The warps of a plan as a kernel in Triton takes them: the next power of two.

    >>> import catdiag as cd
    >>> total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x")).stream("x").group("q")
    >>> warps_of(total.plan("H100", {"q": 4096, "x": 100}, threads=384))
    16
    """
    return 1 << (max(1, plan.threads // plan.warp) - 1).bit_length()


def _known(plan: Plan | Plans) -> Diagram:
    if plan.diagram is None:
        raise CatdiagError("the plan does not know its diagram: expected one that fit gave in this process")
    return plan.diagram
