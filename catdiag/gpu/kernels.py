"""The kernels of a diagram on a chip, as text: the model's choice of tiles, and a few others that it proposes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from catdiag.errors import CatdiagError, DoesNotFit
from catdiag.gpu.case import Kernel, evaluated

if TYPE_CHECKING:
    from catdiag.cost.hardware import Hardware
    from catdiag.diagram import Diagram
    from catdiag.rewrite.derivation import Derivation

_WARP = 32


def kernels_of(
    made: Derivation | Diagram,
    hardware: Hardware | str,
    sizes: Mapping[str, int],
    dtype: str = "bf16",
    *,
    most: int = 3,
) -> list[Kernel]:
    """At most `most` kernels for a derivation at sizes on a chip, the one that the model takes for the fastest first.

    A diagram that is not derived is planned first, in one kernel or several. `sizes` has scalar inputs too that say how
    often loops turn. Raises as `plan` and `fit` do where nothing fits, and as the emitter does.

    >>> import catdiag as cd
    >>> product = cd.library.get("matmul").stream("b").group("a c")
    >>> kernels_of(product, "H200", {"a": 4096, "b": 4096, "c": 4096}, most=1)[0].entry
    'matmul'
    """
    from catdiag.diagram import Diagram

    if isinstance(made, Diagram):
        return [_planned(made, hardware, sizes, dtype)]
    found: list[Kernel] = []
    problem: CatdiagError | None = None
    for tiles, stages, warps in _choices(made, hardware, sizes, dtype, most):
        try:
            found.append(_kernel(made, tiles, stages, warps, sizes, dtype))
        except CatdiagError as error:  # a tile that the emitter refuses; others may do
            problem = problem or error
    if not found and problem is not None:
        raise problem
    return found


def _choices(
    made: Derivation, hardware: Hardware | str, sizes: Mapping[str, int], dtype: str, most: int
) -> list[tuple[dict[str, int], int, int]]:
    """Tiles, stages and warps, the model's first choice first."""
    from catdiag.gpu.proposals import propose

    try:
        return [(dict(p.tiles), p.stages, p.warps) for p in propose(made, hardware, sizes, dtype, most=most)]
    except DoesNotFit:
        raise
    except CatdiagError:  # proposals are for one kernel; a loop in parts has a second one, that merges them
        plan = made.fit(hardware, sizes, dtype=dtype)
        return [(dict(plan.tiles), plan.stages, max(1, plan.threads // _WARP))]


def _kernel(
    made: Any, tiles: Mapping[str, int], stages: int, warps: int, sizes: Mapping[str, int], dtype: str
) -> Kernel:
    from catdiag.emit.triton import module

    text = module(made.diagram, tiles, dtype, stages=stages, warps=warps)
    options = {**{t: tiles[t] for t in text.tiles}, "num_warps": warps, "num_stages": stages}
    told = ", ".join(f"{name} {size}" for name, size in tiles.items() if size != 1)
    return Kernel(
        text.text,
        text.entry,
        options,
        loads_of(made, tiles, sizes, dtype, stages),
        f"{told or 'no tiles'}, {warps} warps, {stages} stages",
    )


def loads_of(
    made: Any, tiles: Mapping[str, int], sizes: Mapping[str, int], dtype: str, stages: int = 1
) -> dict[str, float]:
    """The bytes that come down into a block's memory with these tiles, and those that go up, by formula.

    >>> import catdiag as cd
    >>> product = cd.library.get("matmul").stream("b").group("a c")
    >>> loads_of(product, {"g_a": 64, "g_c": 64, "s_b": 32}, {"a": 256, "b": 256, "c": 256}, "bf16")
    {'load': 1048576.0, 'save': 131072.0}
    """
    io = made.io(dtype=dtype)
    known = {**sizes, **tiles}
    return {"load": evaluated(io.load, known), "save": evaluated(io.save, known)}


def _planned(diagram: Diagram, hardware: Hardware | str, sizes: Mapping[str, int], dtype: str) -> Kernel:
    """What the plan cuts a diagram into, as one module: the kernels run one after the other."""
    plans = diagram.plan(hardware, sizes, dtype=dtype)
    stages = max(k.plan.stages for k in plans.kernels)
    warps = max(1, max(k.plan.threads for k in plans.kernels) // _WARP)
    made = _kernel(plans.derivation, plans.tiles, stages, warps, sizes, dtype)
    if len(plans.kernels) == 1:
        return made
    return Kernel(made.text, made.entry, made.options, made.loads, f"{len(plans.kernels)} kernels: {made.about}")
