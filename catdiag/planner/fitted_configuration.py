"""The plan of a kernel as Triton is handed it: what is shown and proved is what is written.

Configurations are tried in the order in which the model ranks them (`catdiag.planner.configuration_candidates`). Each
is written, its launches are recorded, and its shared memory is read off its kernels (`catdiag.planner.emitted_module`):
the first is taken that is launched as it was proposed, with as much shared memory as the chip has. What was passed over
is said beside what would be next best. z3 proves that what the text takes is within what the chip has, for these tiles
and all smaller ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from catdiag.category.diagram import Diagram
from catdiag.codegen.triton.triton_module import Module
from catdiag.planner.configuration_candidates import Candidates
from catdiag.planner.configuration_proposal import Proposal
from catdiag.planner.configuration_ties import CLOSE, first_first
from catdiag.planner.emitted_module import ALIGNMENT_BYTES, EmittedModule, write
from catdiag.planner.explanation import Taken, planned
from catdiag.planner.fits_proof import Proof, prove_levels
from catdiag.planner.plan import CALLED, TRITON, WHOLE, KernelPlan, LevelUse
from catdiag.planner.resources.block_resources import Resources
from catdiag.planner.resources.emitted_smem import SmemCount
from catdiag.planner.tile_search import Choice, TileSearch
from catdiag.schedule.placement import MATRIX, REGISTERS
from catdiag.util.errors import CatdiagError, DoesNotFit

_TRIED = 12
"""Configurations that are written at most, until one is as it was proposed."""
_BEST = 5
"""Others that are shown beside the one that is taken."""
_FURTHER = 4
"""How many times as many tiles are looked at where all the first are refused."""


def fitted(search: TileSearch, dtype: str | Mapping[str, str]) -> KernelPlan:
    """The plan of the quickest configuration that Triton is handed as it is.

    Raises DoesNotFit where none fits, with what the least needs; CatdiagError, with the reason, where the diagram has
    no form in a kernel of Triton's, or what is asked for has none.
    """
    return Fitting(search, dtype).plan()


def together(
    diagram: Diagram, plans: Sequence[KernelPlan], dtype: str | Mapping[str, str]
) -> tuple[Module | None, str]:
    """The module of a diagram whose groups have these plans, in order, if all of it is as they say; and why not.

    It is launched at the plans' sizes, and each kernel compared with its own plan.
    """
    library = {place for place, plan in enumerate(plans) if plan.backend in CALLED}
    ideal = next((plan for plan in plans if plan.module is None and plan.backend not in CALLED), None)
    if ideal is not None:
        return None, ideal.reason
    tiles = {name: tile for plan in plans for name, tile in plan.tiles.items()}
    sizes = {name: size for plan in plans for name, size in plan.sizes.items()}
    chip = plans[0].chip
    if chip is None:
        return None, "the plans do not know their chip"
    try:
        emitted = write(
            diagram, tiles, dtype, [p.stages for p in plans], [p.warps for p in plans],
            [p.warp_specialized for p in plans], chip, sizes, library, [p.blocks_per_sm for p in plans],
        )  # fmt: skip
    except CatdiagError as error:
        return None, error.message
    own = sum(len(plan.module.kernels) for plan in plans if plan.module is not None)
    if (count := len(emitted.module.kernels)) > own:
        return None, f"{count} kernels are launched together, and the plans have {own}"
    for place, plan in enumerate(plans):
        if place in library:
            continue
        run = emitted.of(place).largest
        found = (run.warps, run.stages, run.specialized, run.shared.bytes)
        if found != (plan.warps, plan.stages, plan.warp_specialized, plan.shared_memory_bytes):
            return None, (
                f"kernel {place + 1} is launched beside the others with {run.warps} warps, {run.stages} stages and "
                f"{run.shared.bytes:,} bytes of shared memory, which is not what it is planned with"
            )
    return emitted.module, ""


@dataclass
class Fitting:
    """The configurations of one call of `fit` as they are written, one after the other."""

    search: TileSearch
    dtype: str | Mapping[str, str]
    candidates: Candidates = field(init=False)
    refused: dict[int, str] = field(default_factory=dict)
    """By the place among those that were tried, why one was not taken."""
    refused_form: str = ""
    """Why a warp-specialized configuration that is predicted to be the quickest is not written."""

    def __post_init__(self) -> None:
        self.candidates = Candidates(self.search, dtype=self.dtype, smem_count=SmemCount.WHERE_IT_LIMITS)

    def plan(self, proposal: Proposal | None = None) -> KernelPlan:
        """That of the first configuration that is written as it was proposed, or of one that is given."""
        found = self.candidates
        ranked, chosen, emitted = self._chosen(1 + _BEST, proposal)
        others: dict[tuple[tuple[str, int], ...], Proposal] = {}
        for p in ranked:
            if p.tiles != chosen.tiles:
                others.setdefault(tuple(p.tiles.items()), p)
        taken, fewest = self._resources(chosen, emitted), found.fewest_bytes()
        same = (fewest.bytes_moved, fewest.time_s) == (chosen.bytes_moved, chosen.time_s)
        choice = self.choice(replace(chosen, blocks_per_sm=taken.blocks_per_sm))
        next_best = [self._shown(p) for p in list(others.values())[:_BEST]]
        return planned(self.search, choice, choice if same else self._shown(fewest), next_best, taken)

    def time_s(self) -> float:
        """The predicted seconds of the first configuration that is written as it was proposed, without the plan. Where
        sides of products are of several axes, nearly all tiles have buffers of their own, and it is that of the
        quickest instead: up to `TIE` times less, since of what is alike it is not always the first."""
        quickest = self._quickest() if self.candidates.emitted.merges_axes else None
        chosen, emitted = self._chosen(1)[1:] if quickest is None else quickest
        blocks_per_sm = self._blocks_per_sm(chosen, emitted)
        return float(self.choice(replace(chosen, blocks_per_sm=blocks_per_sm)).seconds)

    def _quickest(self) -> tuple[Proposal, EmittedModule] | None:
        """The quickest configuration, and what is written of it; None where that is not as it was proposed. Raises
        CatdiagError where it has no form."""
        quickest = self.candidates.quickest()
        try:
            return self._taken([quickest], math.inf)
        except CatdiagError as error:
            if not (isinstance(error, DoesNotFit) or quickest.specialized):
                raise
            self.refused.clear()
            return None

    def _chosen(
        self, distinct: int, proposal: Proposal | None = None
    ) -> tuple[list[Proposal], Proposal, EmittedModule]:
        """Configurations in the order in which they are tried, so many different tiles at least; the one that is taken,
        and what is written of it. One that is given is taken."""
        found = self.candidates
        while True:
            first, known_s = found.leading(distinct)
            ranked = first_first(found.longest_first(first))
            taken = self._given(proposal) if proposal is not None else self._taken(ranked, known_s)
            if taken is not None:
                return ranked, *taken
            self.refused.clear()
            distinct *= _FURTHER

    def _shown(self, proposal: Proposal) -> Choice:
        """A configuration that is not taken, with as many blocks on a core as its shared memory lets it have, be that
        of the quickest or not."""
        if proposal.specialized:
            return self.choice(proposal)
        block = replace(self.candidates.blocks[proposal.stages], smem_count=SmemCount.ALL)
        taken = block.resources(self._values(proposal.tiles), proposal.warps)
        shown = replace(proposal, blocks_per_sm=int(taken.blocks_per_sm(self.search.chip)))
        return replace(self.choice(shown), refused=self.refused.get(id(proposal), ""))

    def choice(self, proposal: Proposal) -> Choice:
        """A configuration with what it is predicted to do."""
        timing = self.candidates.timing(proposal)
        return Choice(
            proposal.stages, proposal.warps, dict(proposal.tiles), timing, 0, self.refused.get(id(proposal), "")
        )

    def _taken(self, ranked: list[Proposal], known_s: float) -> tuple[Proposal, EmittedModule] | None:
        """The configuration that is taken, and what is written of it; None where it may be another than those, of which
        all are known that take so long at most."""
        todo, tried = list(ranked), 0
        problem: CatdiagError | None = None
        while todo and tried < _TRIED:
            if CLOSE * todo[0].time_s > known_s:
                return None
            proposal, tried = todo.pop(0), tried + 1
            try:
                emitted = self._emitted(proposal)
            except CatdiagError as error:
                self.refused[id(proposal)], problem = error.message, problem or error
                if not proposal.specialized:
                    break  # what has no form at some tiles has none at others
                self.refused_form = error.message
                todo = [p for p in todo if not p.specialized]
                continue
            run = emitted.largest
            if run.specialized != proposal.specialized:
                found = "these arrays are loaded by the warps that compute"
                self.refused[id(proposal)] = self.refused_form = found
                todo = [p for p in todo if not p.specialized]
                continue
            other = next((r for r in emitted.runs if (r.warps, r.stages) != (proposal.warps, proposal.stages)), None)
            if other is not None:
                self.refused[id(proposal)] = f"it is launched with {other.warps} warps and {other.stages} stages"
                like = [
                    p for p in todo
                    if (p.tiles, p.warps, p.stages) == (proposal.tiles, other.warps, other.stages)
                ]  # fmt: skip
                if not like and known_s < math.inf:
                    return None
                todo = [*like, *(p for p in todo if p not in like)]
                continue
            room = self.search.chip.smem_per_block - (ALIGNMENT_BYTES if run.shared.bytes else 0)
            if run.shared.bytes > room:
                self.refused[id(proposal)] = (
                    f"it takes {run.shared.bytes:,} bytes of {self.search.chip.word('SMEM')}: to be sure that it fits, "
                    f"buffers aligned, it must take {room:,} at most"
                )
                todo = first_first(todo) if todo else todo
                continue
            return proposal, emitted
        if problem is not None:
            raise problem
        if tried < _TRIED and known_s < math.inf:
            return None
        why = "; ".join(dict.fromkeys(self.refused.values()))
        raise DoesNotFit(f"no Triton kernel fits {self.search.chip.name}: of {tried} configurations, {why}")

    def _given(self, proposal: Proposal) -> tuple[Proposal, EmittedModule]:
        """A configuration that is taken as it is launched, and what is written of it."""
        emitted = self._emitted(proposal)
        run = emitted.largest
        return replace(proposal, warps=run.warps, stages=run.stages, specialized=run.specialized), emitted

    def _emitted(self, proposal: Proposal) -> EmittedModule:
        p, search = proposal, self.search
        return write(
            search.diagram, p.tiles, self.dtype, p.stages, p.warps, p.specialized, search.chip, search.sizes,
            blocks_per_sm=[p.blocks_per_sm] * (1 + bool(search.merging)),
        )  # fmt: skip

    # -- what it takes -------------------------------------------------------------------------------------------

    def _resources(self, p: Proposal, emitted: EmittedModule) -> Taken:
        """What a block of the module takes of its core, and the proof that it is there."""
        return Taken(
            backend=TRITON,
            shared_memory_bytes=emitted.largest.shared.bytes,
            registers_per_thread=self._registers(p),
            blocks_per_sm=self._blocks_per_sm(p, emitted),
            producers=int(p.specialized),
            warp_specialized=p.specialized,
            plain_form_reason=self._plain_form_reason(p),
            module=emitted.module,
            spills=bool(self._block_resources(p).spills),
            on_chip=self._on_chip(p, emitted),
            limits=self._limits(p, emitted),
            proof=self._proof(p, emitted),
        )

    def _plain_form_reason(self, p: Proposal) -> str:
        """Why it is not warp-specialized, "" where it is, where that was not expected, and where the plain form is
        predicted to be quicker."""
        if p.specialized:
            return ""
        return self.refused_form or self.candidates.plain_form_reason

    def _blocks_per_sm(self, p: Proposal, emitted: EmittedModule) -> int:
        """Blocks that share a core, by what was written."""
        if p.specialized:
            return 1
        taken = self._block_resources(p)
        taken = replace(taken, smem_bytes=emitted.largest.shared.bytes, registers_per_thread=p.registers)
        return int(taken.blocks_per_sm(self.search.chip))

    def _registers(self, p: Proposal) -> int:
        """Registers of a thread: those that it is given where it is warp-specialized, else an estimate of what it
        needs."""
        return self._block_resources(p).most_registers if p.specialized else p.registers

    def _block_resources(self, p: Proposal) -> Resources:
        """What the model says that a block takes."""
        return self.candidates.block(p.stages, p.specialized).resources(self._values(p.tiles), p.warps)

    def _values(self, tiles: Mapping[str, int]) -> dict[Any, Any]:
        return self.search.full({**self.candidates.sizes, **tiles})

    def _on_chip(self, p: Proposal, emitted: EmittedModule) -> dict[str, LevelUse]:
        """What is taken of shared memory, by buffers as the text has them, and of registers, by arrays."""
        chip, values = self.search.chip, self._values(p.tiles)
        run = emitted.largest
        buffers = tuple((b.what, "allocated", int(b.bytes)) for b in run.shared.buffers)
        found = {"SMEM": (run.shared.bytes, buffers)}
        moments = self.candidates.kernels[p.stages].points.get(REGISTERS, [])
        whole = 4 * self._registers(p) * chip.warp * p.warps
        if moments:
            fullest = max(moments, key=lambda m: int(m.total.value(values)))
            arrays = tuple((name, role, int(a.value(values))) for name, role, a in fullest.live)
            left = whole - sum(size for *_, size in arrays)
            rest = (("addresses, rows and factors on their way", "estimated", left),) if left > 0 else ()
            found["registers"] = (whole, (*arrays, *rest))
        return {
            level.name: LevelUse(level.name, level.vendor_name, level.kind, level.capacity, *found[level.name])
            for level in chip.hierarchy.levels
            if level.name in found
        }

    def _limits(self, p: Proposal, emitted: EmittedModule) -> dict[str, str]:
        """For each tile what stops one of twice its length, and what one more stage would take."""
        search, found = self.search, dict[str, str]()
        ranges = {**search.kernel.tiles, **dict(search.kernel.loops)}
        rows = emitted.module.rows if p.specialized else ()
        for name, tile in p.tiles.items():
            if name not in ranges or name in rows:
                continue
            size = math.ceil(ranges[name].value(search.full({**search.sizes, **p.tiles})))
            if tile >= size:
                found[name] = WHOLE
                continue
            over = self._over(p, {**p.tiles, name: 2 * tile}, p.stages)
            found[name] = f"{name}={2 * tile} " + (f"overflows {over}" if over else "fits too")
        if p.stages + 1 in self.candidates.kernels and self.candidates.staged:
            over = self._over(p, p.tiles, p.stages + 1)
            found["stages"] = f"stages={p.stages + 1} " + (f"overflows {over}" if over else "fits too")
        return found

    def _over(self, p: Proposal, tiles: Mapping[str, int], stages: int) -> str:
        """What a block of other tiles or stages would overflow; nothing where it fits."""
        taken = self.candidates.block(stages, p.specialized).resources(self._values(tiles), p.warps)
        return "; ".join(taken.overflows(self.search.chip))

    def _proof(self, p: Proposal, emitted: EmittedModule) -> Proof:
        """That the buffers of the text fit shared memory, and arrays the registers beside what else a thread needs."""
        search, chip, values = self.search, self.search.chip, self._values(p.tiles)
        single = search.split_loop.single if search.split_loop else ()
        most = {name: math.ceil(size) for name, size in values.items() if isinstance(name, str)}
        block = self.candidates.block(p.stages, p.specialized)
        room = block.array_bytes(values, p.warps, block.resources(values, p.warps).most_registers)
        matrix = [m.total.without(single) for m in block.kernel.points.get(MATRIX, [])]
        return prove_levels(
            {
                "SMEM": (emitted.totals, chip.smem_per_block),
                "registers": ([amount.without(single) for amount in block.register_arrays], room),
                "TMEM": (matrix, chip.tmem_per_sm),
            },
            most,
        )
