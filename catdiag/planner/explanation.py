"""From the candidate that is taken to the plan that is shown: what binds, tables, reasons, and the proof."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from catdiag.planner.fits_proof import Proof, prove_levels
from catdiag.planner.pipeline_simulation import PipelineSchedule, iteration_steps, schedule
from catdiag.planner.plan import (
    IDEAL,
    WORDS,
    Alternative,
    EdgeUse,
    KernelPlan,
    LevelUse,
    MinimumTraffic,
    plural,
    spelled_out,
)
from catdiag.planner.resources.block_resources import ceil_div, most_registers
from catdiag.planner.tile_search import Choice, TileSearch, choice_at
from catdiag.planner.time_model.matrix_units import peak_flops_per_s
from catdiag.planner.time_model.prediction import flops
from catdiag.planner.time_model.timing import STATIONS
from catdiag.schedule.placement import LEVEL, MATRIX, REGISTERS

if TYPE_CHECKING:
    from catdiag.chip.hardware import Hardware
    from catdiag.codegen.triton.triton_module import Module

_BEST = 24  # candidates of each number of buffers and threads that are looked at for the next best
_BUSY, _FULL = 0.85, 0.95  # parts of the time from which a pipeline, and HBM, are called what bounds a kernel


@dataclass(frozen=True)
class Taken:
    """What a group takes of its core, and the proof that it is there: by the ideal model, or of a module that is
    written for a `backend`. `on_chip` are the levels that a group has of its own, `limits` what stops larger tiles."""

    shared_memory_bytes: int
    registers_per_thread: int
    blocks_per_sm: int
    on_chip: Mapping[str, LevelUse]
    limits: Mapping[str, str]
    proof: Proof
    producers: int = 0
    backend: str = IDEAL
    warp_specialized: bool = False
    plain_form_reason: str = ""
    module: Module | None = None
    spills: bool = False


def _ideal(search: TileSearch, chosen: Choice) -> Taken:
    """What a group takes by the ideal model. Raises CatdiagError if z3 does not prove that it fits."""
    return Taken(
        shared_memory_bytes=int(chosen.prediction.resources.smem_bytes),
        registers_per_thread=int(chosen.prediction.resources.registers_per_thread),
        blocks_per_sm=int(chosen.prediction.blocks_per_sm),
        on_chip={},
        limits=search.stops(chosen),
        proof=_proof(search, chosen, {**search.sizes, **chosen.tiles}),
        producers=search.request.producers,
    )


def _registers_at_most(chip: Hardware, chosen: Choice, group: Taken) -> int:
    """The most registers of a thread with which as many groups share a core; all that there are where they are
    allocated."""
    if group.warp_specialized:
        return group.registers_per_thread
    blocks = group.blocks_per_sm
    at_most = most_registers(chip, blocks * chip.warp * chosen.warps, blocks * group.producers)
    return max(group.registers_per_thread, at_most)


def planned(
    search: TileSearch, chosen: Choice, fewest: Choice, others: list[Choice], taken: Taken | None = None
) -> KernelPlan:
    """The plan of a candidate, by the ideal model if nothing is said of what it takes. Raises CatdiagError if z3 does
    not prove that it fits."""
    chip, group = search.chip, taken or _ideal(search, chosen)
    values = {**search.sizes, **chosen.tiles}
    seconds, hbm = chosen.seconds, round(chosen.prediction.traffic.hbm_bytes)
    work = flops(search.whole, search.full(values))
    moved = round(chosen.bytes_moved)
    parts = chosen.prediction.part_seconds
    limit = peak_flops_per_s(search.kernel.contractions, chip) or 2 * chip.alu_per_clock * chip.clock_hz * chip.sms
    edges = _edges(search, chosen)
    busy = {name: s * chosen.prediction.groups / chip.sms / seconds for name, s in parts.items()}
    busy.update({e.upper: e.seconds / seconds for e in edges if e.upper in ("HBM", "LLC")})
    return KernelPlan(
        hardware=chip.name,
        dtype=spelled_out(search.dtypes),
        sizes=dict(search.sizes),
        tiles=dict(chosen.tiles),
        stages=chosen.stages,
        threads=chip.warp * chosen.warps,
        registers_per_thread=group.registers_per_thread,
        registers_at_most=_registers_at_most(chip, chosen, group),
        spills=group.spills,
        shared_memory_bytes=group.shared_memory_bytes,
        register_bytes=int(chosen.prediction.resources.register_bytes),
        matrix_bytes=int(chosen.prediction.resources.tmem_bytes),
        blocks_per_sm=group.blocks_per_sm,
        groups=int(chosen.prediction.groups),
        waves=int(chosen.prediction.waves),
        load_bytes=round(chosen.prediction.traffic.load_bytes),
        save_bytes=round(chosen.prediction.traffic.save_bytes),
        hbm_bytes=hbm,
        flops=work,
        intensity=work / moved if moved else 0.0,
        time_s=seconds,
        bound=_bound(search, chosen, parts),
        utilization=work / seconds / limit if work else hbm / seconds / chip.hbm_bytes_per_s,
        parts_s=parts,
        busy=busy,
        levels=tuple(group.on_chip.get(level.name, level) for level in _levels(search, chosen)),
        edges=edges,
        limits=group.limits,
        divisors=search.divisors,
        imbalance_s=chosen.prediction.imbalance_seconds,
        next_best=tuple(_alternative(search, other, chosen) for other in others),
        minimum_traffic=_gap_to_minimum(search, chosen, fewest),
        proof=group.proof,
        objective=search.request.objective,
        overlap=search.request.overlap,
        core=chip.word("core"),
        warp=chip.warp,
        schedule=_schedule(search, chosen),
        producers=group.producers,
        backend=group.backend,
        warp_specialized=group.warp_specialized,
        plain_form_reason=group.plain_form_reason,
        stream_blocks=_stream_blocks(search, chosen),
        module=group.module,
    )


def best_plan(search: TileSearch) -> KernelPlan:
    """The best candidate, proved to fit."""
    found = search.choices()
    fewest: Choice | None = None
    best: list[Choice] = []
    for stages, warps, kept, timing in found:
        seconds = np.atleast_1d(timing.seconds)
        moved = np.broadcast_to(np.atleast_1d(timing.bytes_moved), seconds.shape)
        first = int(np.lexsort((seconds, moved))[0])
        choice = choice_at(stages, warps, kept, timing, first)
        if fewest is None or (choice.bytes_moved, choice.seconds) < (fewest.bytes_moved, fewest.seconds):
            fewest = choice
        order = np.lexsort(
            tuple(np.broadcast_to(k, seconds.shape) for k in reversed(search.keys(kept, timing, stages)))
        )
        best += [choice_at(stages, warps, kept, timing, int(place)) for place in order[:_BEST]]
    best.sort(key=search.rank)
    chosen = search.quickest_of(found) if search.request.objective == "time" else best[0]
    others: dict[tuple[tuple[str, int], ...], Choice] = {}
    for choice in best:
        if choice.tiles != chosen.tiles:
            others.setdefault(tuple(choice.tiles.items()), choice)
    return planned(search, chosen, fewest or chosen, list(others.values())[:5])


def _schedule(search: TileSearch, chosen: Choice) -> PipelineSchedule | None:
    """How the warpgroups on a core share its pipelines in the iterations of the loop, without the waits between
    steps."""
    if search.split_loop:
        return None
    warpgroups = max(1, chosen.warps // 4)
    values = search.full({**search.sizes, **chosen.tiles})
    kernel = search.kernels[chosen.stages]
    steps = iteration_steps(kernel, search.chip, values, warpgroups)
    found = chosen.prediction
    actors = warpgroups * min(int(found.blocks_per_sm), ceil_div(int(found.groups), search.chip.sms))
    return schedule(steps, min(actors, 16)) if any(step.clocks for step in steps) else None


def _stream_blocks(search: TileSearch, chosen: Choice) -> dict[str, int]:
    """The bytes of a block of each array that is streamed where shared memory is fullest."""
    values = search.full({**search.sizes, **chosen.tiles})
    moments = search.kernels[chosen.stages].points.get(LEVEL, [])
    most_blocks = max(moments, key=lambda m: int(m.total.value(values)), default=None)
    streamed = (
        [(name, a) for name, role, a in most_blocks.live if role == "streamed"] if most_blocks is not None else []
    )
    return {name: int(a.value(values)) // chosen.stages for name, a in streamed}


def _levels(search: TileSearch, chosen: Choice) -> tuple[LevelUse, ...]:
    chip, kernel = search.chip, search.kernels[chosen.stages]
    values = search.full({**search.sizes, **chosen.tiles})
    places = {"SMEM": LEVEL, "TMEM": MATRIX, "registers": REGISTERS}
    found = []
    for level in chip.hierarchy.levels:
        used_bytes, live_arrays = 0, []
        if level.name == "HBM":
            whole: dict[str, tuple[str, int]] = {}
            for moved in kernel.transfers:
                role = "input" if moved.direction == "load" else "output"
                whole[moved.array] = (role, int(moved.size.value(values)))
            live_arrays = [(name, role, size) for name, (role, size) in whole.items()]
            used_bytes = sum(size for _, _, size in live_arrays)
        elif level.kind == "cache":
            used_bytes = round(chosen.prediction.traffic.touched_bytes[level.name])
        else:
            moments = kernel.points.get(places[level.name], [])
            if moments:
                most_blocks = max(moments, key=lambda m: int(m.total.value(values)))
                used_bytes = int(most_blocks.total.value(values))
                live_arrays = [(name, role, int(a.value(values))) for name, role, a in most_blocks.live]
        found.append(
            LevelUse(level.name, level.vendor_name, level.kind, level.capacity, used_bytes, tuple(live_arrays))
        )
    return tuple(found)


def _edges(search: TileSearch, chosen: Choice) -> tuple[EdgeUse, ...]:
    chip = search.chip
    rates = chip.sustained_bytes_per_s
    found = []
    for (upper, lower), crossed in chosen.prediction.traffic.edge_bytes.items():
        moved = round(crossed)
        found.append(EdgeUse(upper, lower, moved, rates[upper], moved / rates[upper]))
    on_chip = chip.smem_bytes_per_clock * chip.clock_hz * chip.sms
    read = chosen.prediction.part_seconds["SMEM"] * chosen.prediction.groups / chip.sms
    found.append(EdgeUse("SMEM", "matrix units", round(read * on_chip), on_chip, read))
    return tuple(found)


def _bound(search: TileSearch, chosen: Choice, parts: Mapping[str, float]) -> str:
    """What takes the time: HBM, a cache, loads that come late, a busy pipeline, or steps that wait."""
    chip, seconds = search.chip, chosen.seconds
    wave = max(chosen.prediction.computing_seconds, chosen.prediction.loading_seconds)  # without what comes before
    for edge in _edges(search, chosen):
        if edge.upper in ("HBM", "LLC") and edge.seconds >= _FULL * seconds:
            return WORDS[edge.upper]
    blocks = min(chosen.prediction.blocks_per_sm, float(ceil_div(int(chosen.prediction.groups), chip.sms)))
    if parts["L2"] * blocks >= _BUSY * wave:
        return WORDS["L2"] if chip.l2_bytes else WORDS["HBM"]
    if chosen.prediction.loading_seconds * _BUSY > chosen.prediction.computing_seconds:
        return "loads that arrive late"
    busiest = max(STATIONS, key=lambda name: parts[name])
    if parts[busiest] * blocks >= _BUSY * wave:
        if busiest == "tensor" and parts["SMEM"] >= _FULL * parts["tensor"]:
            return f"{WORDS['tensor']}, which wait for {WORDS['SMEM']}"
        return WORDS[busiest]
    if search.request.overlap != "queue":
        most = max((*STATIONS, "L2"), key=lambda name: parts[name])
        return f"everything in turn, most of it {WORDS[most]}"
    if chosen.prediction.stall_seconds > sum(parts[name] for name in STATIONS):
        return "latency: loads, barriers and steps that wait for each other"
    return f"steps that wait for each other, most of them on {WORDS[busiest]}"


def _gap_to_minimum(search: TileSearch, chosen: Choice, fewest: Choice) -> MinimumTraffic:
    chip, ours, theirs = search.chip, chosen.prediction, fewest.prediction
    slower = theirs.seconds / ours.seconds
    ratio = chosen.bytes_moved / fewest.bytes_moved if fewest.bytes_moved else 1.0
    if chosen.bytes_moved <= fewest.bytes_moved:
        why = "nothing was given up"
    else:
        reasons = []
        if theirs.groups < chip.sms:
            cores = f"{chip.sms} {chip.word('core')}s"
            reasons.append(f"only {plural(int(theirs.groups), 'group')} for {cores}")
        elif theirs.waves * theirs.blocks_per_sm != ours.waves * ours.blocks_per_sm:
            waves = plural(int(theirs.waves), "wave")
            reasons.append(f"{waves} of {int(theirs.blocks_per_sm)} on a core")
        reasons.append(f"{plural(fewest.stages, 'buffer')}, {chip.warp * fewest.warps} threads")
        verdict = f"it would take {slower:.2f} times as long" if slower > 1.005 else "it is no quicker"
        why = f"{verdict} ({'; '.join(reasons)})"
    return MinimumTraffic(dict(fewest.tiles), int(fewest.bytes_moved), ratio, slower, why)


def _alternative(search: TileSearch, other: Choice, chosen: Choice) -> Alternative:
    ratio = other.seconds / chosen.seconds
    return Alternative(
        dict(other.tiles),
        other.stages,
        search.chip.warp * other.warps,
        other.seconds,
        ratio,
        round(other.bytes_moved),
        _rejection_reason(search, other, chosen, ratio),
    )


def _rejection_reason(search: TileSearch, other: Choice, chosen: Choice, ratio: float) -> str:
    """Why a candidate was not taken, in words: by the objective, then by the preferences among near equals."""
    chip, objective = search.chip, search.request.objective
    theirs, ours = other.prediction, chosen.prediction
    few = f"only {plural(int(theirs.groups), 'group')} for {chip.sms} {chip.word('core')}s"
    if other.refused:
        return other.refused
    if objective == "largest":
        return "fewer points in an iteration" if _points(other) < _points(chosen) else "as large, and moves more bytes"
    if objective == "stages" and other.stages < chosen.stages:
        return "fewer buffers"
    if objective == "traffic":
        more = other.bytes_moved / chosen.bytes_moved if chosen.bytes_moved else 1.0
        return (
            f"moves {more:.2f} times the bytes"
            if other.bytes_moved > chosen.bytes_moved
            else "as few bytes, and no quicker"
        )
    if ratio <= 1.05:
        near = "slower" if ratio > 1.0005 else "quicker" if ratio < 0.9995 else "as quick"
        by = f"{100 * abs(ratio - 1):.1f}% {near}" if near != "as quick" else near
        if other.not_power_of_two and not chosen.not_power_of_two:
            return f"{by}, but a tile is no power of two"
        if other.warps > chosen.warps:
            return f"{by}, but takes {chip.warp * other.warps} threads a group"
        if other.bytes_moved > chosen.bytes_moved:
            return f"{by}, but moves {other.bytes_moved / chosen.bytes_moved:.2f} times the bytes"
        if theirs.groups < chip.sms:
            return f"{by}, but has {few}"
        return f"{by}, and not better otherwise"
    if theirs.groups < chip.sms and theirs.groups < ours.groups:
        return few
    spent = {
        **{WORDS[n]: (theirs.part_seconds[n], ours.part_seconds[n]) for n in ("tensor", "exp", "alu", "L2")},
        "waiting": (theirs.stall_seconds, ours.stall_seconds),
    }
    beyond = {name: there * theirs.groups - here * ours.groups for name, (there, here) in spent.items()}
    worse = max(beyond, key=lambda name: beyond[name])
    if beyond[worse] <= 0:
        return f"a group takes {theirs.single_block_seconds / ours.single_block_seconds:.2f} times as long"
    if theirs.blocks_per_sm < ours.blocks_per_sm:
        return f"{int(theirs.blocks_per_sm)} on a core at once, not {int(ours.blocks_per_sm)}; more on {worse}"
    return f"more on {worse}"


def _points(choice: Choice) -> int:
    total = 1
    for tile in choice.tiles.values():
        total *= tile
    return total


def _proof(search: TileSearch, chosen: Choice, values: Mapping[str, int]) -> Proof:
    """That each level suffices for this tile and every smaller one, remainders included."""
    chip, blocks = search.chip, search.blocks(chosen.stages)
    single = search.split_loop.single if search.split_loop else ()
    registers = int(chosen.prediction.resources.registers_per_thread)
    room = blocks[0].array_bytes(values, chosen.warps, registers)
    limits = {"SMEM": (LEVEL, chip.smem_per_block), "registers": (REGISTERS, room), "TMEM": (MATRIX, chip.tmem_per_sm)}
    most = {name: math.ceil(size) for name, size in search.full(values).items() if isinstance(name, str)}
    bounds = {
        name: ([m.total.without(single) for block in blocks for m in block.kernel.points.get(place, [])], limit)
        for name, (place, limit) in limits.items()
    }
    return prove_levels(bounds, most)
