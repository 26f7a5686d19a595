"""What a configuration becomes once it is written: its module, the launches, and the shared memory that they take.

Nothing here is asked of the model that proposed the configuration. The launch function of the text is run on stand-ins
(`catdiag.runtime.launch_recorder`), which says what it launches at the sizes, with how many warps and buffers; the
shared memory is read off the kernels' trees (`catdiag.runtime.abstract_interpreter.shared_memory`), as polynomials of
the tiles.

The rules of shared memory are those of Triton 3.6 for compute capability 9.0, where they were compared with what is
compiled; for other chips they are those that follow from whether four warps make a product together, and whether the
chip copies boxes of arrays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from catdiag.category.diagram import Diagram
from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.chip.hardware import Hardware
from catdiag.codegen.triton.tile_runs import PROGRAMS_PER_SM, most_programs
from catdiag.codegen.triton.triton_module import Module, module
from catdiag.runtime.abstract_interpreter.shared_memory import STAGES, WARPS, SharedMemory, shared_of_launch
from catdiag.runtime.abstract_interpreter.symbolic_lengths import Length
from catdiag.runtime.abstract_interpreter.tile_values import CDNA
from catdiag.runtime.launch_recorder import record_launches
from catdiag.runtime.machine_code import RecordedLaunch

ALIGNMENT_BYTES = 1024
"""Bytes of shared memory that may be lost between the buffers of a launch, which begin at multiples of as many."""


@dataclass(frozen=True)
class LaunchedKernel:
    """A kernel that is launched: of which group of the diagram, with how many warps (without those that only load) and
    stages, and the shared memory of a block."""

    place: int
    warps: int
    stages: int
    specialized: bool
    shared: SharedMemory


@dataclass(frozen=True)
class EmittedModule:
    """A module, and what it launches at some sizes, in order."""

    module: Module
    runs: tuple[LaunchedKernel, ...]

    @property
    def largest(self) -> LaunchedKernel:
        """The launch whose blocks take most shared memory."""
        return max(self.runs, key=lambda run: run.shared.bytes)

    def of(self, place: int) -> EmittedModule:
        """The same with the launches of one group."""
        return EmittedModule(self.module, tuple(run for run in self.runs if run.place == place))

    @property
    def totals(self) -> tuple[IntPolynomial, ...]:
        """Bytes of shared memory that are taken from moment to moment, by tiles, of all launches."""
        return tuple(dict.fromkeys(total for run in self.runs for total in run.shared.totals))


def generation(chip: Hardware) -> int:
    """The generation of a chip (9: Hopper): by who makes a product, and where its results lie. Warps of 64 threads are
    those of AMD's CDNA."""
    if chip.warp == 64:
        return CDNA
    if not chip.by_warpgroups:
        return 8
    return 10 if chip.tmem_per_sm else 9


def write(
    diagram: Diagram,
    tiles: Mapping[str, int],
    dtype: str | Mapping[str, str],
    stages: int | Sequence[int],
    warps: int | Sequence[int],
    specialized: bool | Sequence[bool],
    chip: Hardware,
    sizes: Mapping[str, int],
    library: Collection[int] = (),
    blocks_per_sm: Sequence[int] = (PROGRAMS_PER_SM,),
) -> EmittedModule:
    """The module of a diagram with these tiles, and what it launches; the groups in `library` are calls of torch.
    `blocks_per_sm`, a number for each group, limits how many programs go through runs of tiles.

    Raises what `catdiag.codegen.triton.triton_module` raises for what has no form in a kernel, and CatdiagError where
    the launch function refuses the sizes or a kernel is not understood.
    """
    made = module(
        diagram, tiles, dtype, stages=stages, warps=warps, specialized=specialized, library=library,
        l2_bytes=chip.l2_bytes, programs=[most_programs(chip.sms, n) for n in blocks_per_sm],
    )  # fmt: skip
    symbols = {name: Length.of(tile, name) for name, tile in made.tiles.items()}
    calls = record_launches(made, sizes, symbols, generation=generation(chip))
    return EmittedModule(made, tuple(_run(made, call, generation(chip)) for call in calls))


def _run(made: Module, call: RecordedLaunch, chip_generation: int) -> LaunchedKernel:
    shared, place = shared_of_launch(made.code, call, chip_generation), made.places[call.kernel]
    if call.kernel in made.specialized:
        names = made.counts[made.specialized.index(call.kernel)]
        groups, stages = (_number(call.arguments, name, 1) for name in names)
        return LaunchedKernel(place, 4 * groups, stages, True, shared)
    warps, stages = (_number(call.options, *of) for of in (("num_warps", WARPS), ("num_stages", STAGES)))
    return LaunchedKernel(place, warps, stages, False, shared)


def _number(given: Mapping[str, object], name: str, otherwise: int) -> int:
    value = given.get(name, otherwise)
    return value if isinstance(value, int) else otherwise
