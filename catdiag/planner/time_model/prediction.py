"""How long a kernel takes, as a backend makes it: one composition of the terms.

A block needs seconds of each pipeline, and waits; its blocks share a core, as many as fit (occupancy), and those of all
cores the memory. Groups run in waves of SMs × blocks per SM. Where loops skip blocks, groups differ in length.
"""

from __future__ import annotations

from catdiag.category.integer_polynomial import ONE, IntPolynomial
from catdiag.chip.hardware import Hardware
from catdiag.planner.resources.block_resources import Values, ceil_div
from catdiag.planner.time_model.ideal_backend import GroupWaves, IdealBackend
from catdiag.planner.time_model.kernel_instance import KernelInstance
from catdiag.planner.time_model.memory_traffic import MemoryTraffic
from catdiag.planner.time_model.timing import Timing
from catdiag.schedule.load_imbalance import iteration_counts, summed_over_groups
from catdiag.schedule.lowered_kernel import LoweredKernel

IDEAL_BACKEND = IdealBackend()


def predict(
    kernel: LoweredKernel,
    hardware: Hardware,
    values: Values,
    stages: int,
    warps: int,
    backend: IdealBackend = IDEAL_BACKEND,
) -> Timing:
    """What a run takes, for candidates that fit; `values` gives every size, tile and block, and the scalar inputs on
    which it depends how often loops iterate."""

    def of(known: Values) -> Timing:
        return _composed(backend.instance(KernelInstance(kernel, hardware, known, stages, warps)), backend)

    if not kernel.loop_bounds:
        has_regions = any(moved.region for moved in kernel.transfers)
        return of(iteration_counts(kernel, values)[0] if has_regions else values)
    average, longest = map(of, iteration_counts(kernel, values))
    longest_first = all(bounds.longest_first for bounds in kernel.loop_bounds.values())
    return Timing.of_unlike_groups(average, longest, longest_first)


def _composed(k: KernelInstance, backend: IdealBackend) -> Timing:
    """What a run takes whose groups are equally long."""
    waves = GroupWaves.of(k, backend.blocks_per_sm(k))
    traffic = MemoryTraffic.of(k, backend.concurrent_groups(k))
    work = backend.block_work(k, traffic)
    blocks = [waves.most_blocks, waves.last_blocks, 1]
    computing = backend.computing_seconds(k, work, blocks)
    loading = [backend.loading_seconds(k, work, n, c) for n, c in zip(blocks, computing, strict=True)]
    rounds = [backend.round_seconds(work, *of) for of in zip(blocks, computing, loading, strict=True)]
    return Timing(
        resources=backend.resources(k),
        traffic=traffic,
        blocks_per_sm=waves.blocks_per_sm,
        groups=k.groups,
        waves=ceil_div(k.groups, waves.concurrent_groups),
        iterations=k.iterations,
        part_seconds=work.part_seconds,
        stall_seconds=work.stall_seconds + work.fixed_seconds,
        single_block_seconds=rounds[2],
        computing_seconds=computing[0],
        loading_seconds=loading[0],
        seconds=backend.run_seconds(k, waves, rounds[0], rounds[1], traffic.outer_seconds(k))
        # A kernel that clears each, or adds up its parts, and one that rounds the sums of scattered entries.
        + (len(k.kernel.sums) + sum(added.rounded for added in k.kernel.scattered)) * k.chip.launch_s,
    )


def flops(kernel: LoweredKernel, values: Values) -> int:
    """FLOPs of contractions in the whole run, each axis counted once, at its size; of loops that skip blocks, of the
    blocks that are run."""
    names = dict(kernel.tiles)
    total = 0
    for (pipeline, loops), amount in kernel.work.items():
        if pipeline != "tensor":
            continue
        bounds = next((kernel.loop_bounds[loop] for loop in loops if loop in kernel.loop_bounds), None)
        if bounds is not None:
            total += round(float(summed_over_groups(amount, loops, bounds, kernel, values)))
            continue
        ranges = {**names, **dict(loops)}
        for monomial, coefficient in amount.terms.items():
            product = ONE.scaled(coefficient)
            for name in monomial:
                product = product * ranges.get(name, IntPolynomial.of(name))
            repeats = 1
            for name, whole in ranges.items():
                if name not in monomial:
                    repeats *= ceil_div(int(whole.value(values)), int(values[name]))
            total += int(product.value(values)) * repeats
    return total
