"""A plan, typeset: tiles for a chip, memory at each level, traffic over each edge, and the predicted time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from catdiag.draw.report.html import Html, escaped, joined, listed, table, tag
from catdiag.draw.report.mathml import math, name, number, sign
from catdiag.planner.plan import IMBALANCE, WHOLE, WORDS, plural

if TYPE_CHECKING:
    from catdiag.planner.plan import KernelPlan


def tiles_of(tiles: Mapping[str, int]) -> Html:
    """Tiles as equations."""
    parts = [math(tag("mrow", name(n), sign("="), number(v)), alt=f"{n} = {v}") for n, v in tiles.items()]
    return joined(parts, ", ") if parts else escaped("none")


def of_plan(plan: KernelPlan) -> Html:
    """All tables of a plan."""
    return joined([summary(plan), levels(plan), edges(plan), time(plan), choices(plan), proof(plan)])


def _micro(seconds: float) -> str:
    return f"{1e6 * seconds:,.1f} µs"


def _table(head: list[str], rows: list[tuple[str, ...]], caption: str, numbers: tuple[int, ...] = ()) -> Html:
    return tag("div", table(head, rows, caption, numbers), class_="scroll wide")


def summary(plan: KernelPlan) -> Html:
    """The tiles, and their predictions."""
    threads = f"{plural(plan.threads, 'thread')} ({plural(plan.threads // plan.warp, 'warp')}"
    threads += f", and {plan.producers} producers)" if plan.producers else ")"
    groups = f"{plural(plan.groups, 'group')}, up to {plan.blocks_per_sm} at once on a {plan.core}; "
    groups += plural(plan.waves, "wave")
    full = "the peak FLOP/s" if plan.flops else "the peak HBM bandwidth"
    rate = f"{plan.flops / plan.time_s / 1e12:,.1f} TFLOP/s, " if plan.flops else ""
    rows: list[tuple[str, ...]] = [
        ("sizes", tiles_of(plan.sizes)),
        ("tiles", tiles_of(plan.tiles)),
        ("kernel", plan.kernel),
        ("buffers of each stream block", str(plan.stages)),
        ("shared memory of a group", f"{plan.shared_memory_bytes:,} bytes"),
        ("registers of a thread", plan.registers),
        ("threads of a group", threads),
        ("grid", groups),
        ("predicted time", tag("strong", _micro(plan.time_s))),
        ("predicted rate", f"{rate}{100 * plan.utilization:.0f}% of {full}"),
        ("bound by", plan.bound),
    ]
    if plan.objective != "time":
        rows.insert(2, ("asked for", plan.objective))
    if plan.imbalance_s:
        rows.append(("uneven", f"{IMBALANCE} {_micro(plan.imbalance_s)}"))
    return _table([], rows, f"{plan.hardware}, {plan.dtype}")


def levels(plan: KernelPlan) -> Html:
    """The memory used at each level, in bytes."""
    rows: list[tuple[str, ...]] = []
    for level in plan.levels:
        called = level.name + (f" ({level.vendor_name})" if level.vendor_name else "")
        room = "unbounded" if level.capacity is None else f"{level.capacity:,}"
        note = "footprint of a wave" if level.kind == "cache" else ""
        rows.append((tag("strong", called), f"{level.allocated:,}", room, note))
        rows += [(tag("code", array), f"{allocated:,}", "", role) for array, role, allocated in level.live_arrays]
    return _table(["level, array", "bytes used", "capacity", ""], rows, "Memory used by one group", (1, 2))


def edges(plan: KernelPlan) -> Html:
    """The traffic over each edge."""
    rows: list[tuple[str, ...]] = [
        (f"{e.upper} to {e.lower}", f"{e.bytes_moved:,}", f"{e.bytes_per_s / 1e12:,.2f} TB/s", _micro(e.seconds))
        for e in plan.edges
    ]
    return _table(["edge", "bytes moved", "bandwidth", "predicted, alone"], rows, "Traffic of the whole run", (1, 2, 3))


def time(plan: KernelPlan) -> Html:
    """The time of a group by pipeline."""
    rows: list[tuple[str, ...]] = [
        (WORDS[pipe], _micro(s), f"{100 * plan.busy[pipe]:.0f}%") for pipe, s in plan.parts_s.items() if s
    ]
    found = _table(["pipeline", "one group needs", "busy in the run"], rows, "Predicted work of the pipelines", (1, 2))
    if plan.schedule is not None:
        found = joined([found, tag("p", f"Schedule: {plan.schedule}.")])
    return found


def choices(plan: KernelPlan) -> Html:
    """The alternatives, and why they were not chosen."""
    rows: list[tuple[str, ...]] = [
        (
            joined([tiles_of(o.tiles), f"; {plural(o.stages, 'buffer')}, {o.threads} threads"]),
            _micro(o.time_s),
            f"{o.time_ratio:.2f}",
            f"{o.bytes_moved:,}",
            o.reason,
        )
        for o in plan.next_best
    ]
    least = plan.minimum_traffic
    parts = []
    if rows:
        head = ["tiles", "predicted", "times the chosen", "bytes", "why not"]
        parts.append(_table(head, rows, "The next best that fit", (1, 2, 3)))
    if least.bytes_moved < plan.bytes_moved:
        said = f"{least.bytes_ratio:.2f} times the least traffic, which is {least.bytes_moved:,} bytes at "
        parts.append(tag("p", "Traffic: ", said, tiles_of(least.tiles), f": {least.reason}."))
    else:
        parts.append(tag("p", "No tile that fits moves fewer bytes."))
    limits: list[tuple[str, ...]] = [(name_of(tile), escaped(why)) for tile, why in plan.limits.items() if why != WHOLE]
    if limits:
        parts.append(_table(["", "what limits it"], limits, "Limits"))
    return joined(parts)


def name_of(tile: str) -> Html:
    """A tile's name as a formula."""
    return math(name(tile))


def proof(plan: KernelPlan) -> Html:
    """What z3 proved about the tiles; nothing of a product that torch computes."""
    if not plan.proof.statement:
        return joined([])
    bounds = [tag("code", f"{level}: {bound}") for level, bound in plan.proof.levels.items()]
    return joined(
        [
            tag("p", "z3 proved that the tiles fit, in bytes:"),
            listed(bounds),
            tag("p", "This holds whatever the other sizes."),
        ]
    )
