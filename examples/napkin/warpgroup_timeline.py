"""Which warpgroup uses which pipeline when: the iterations of a loop as a schedule, drawn as text or as a chart.

Step 8 of Abbott and Zardini, "FlashAttention on a Napkin" (TMLR 2025), section 5.8. An iteration of a warpgroup is: the
products that need nothing of it, the arithmetic of what they give, the other products, and what is done with those.
Products take the matrix units of the SM, arithmetic its special functions or its lanes, whichever takes longer. The
products of the next iteration may start once the arithmetic has read those of this one. Who is served when is worked
out by `catdiag.planner.pipeline_simulation`.

>>> import catdiag as cd
>>> dot = cd.algorithm("q d, x d -> q")(lambda Q, K: cd.sum(cd.exp(cd.einsum("q d, x d -> q x", Q, K)), "x"))
>>> from examples.napkin.warpgroup_configuration import configure
>>> found = configure(dot.stream("x").group("q"), "H100", {"w_q": 128, "s_x": 64, "d": 64})
>>> print(timeline(found, iterations=3).busy["exp"] > 0.95)
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from catdiag.draw.listing.pipeline_chart import PIPELINES, PipelineChart, bytes_text, load_spans, spans_of
from catdiag.planner.pipeline_simulation import Busy, PipelineStep, issued, schedule
from catdiag.planner.plan import plural
from examples.napkin.warpgroup_configuration import Configuration

_MARKS = {"ahead": "Q", "arithmetic": "s", "products": "P", "after": "a"}


@dataclass(frozen=True)
class Timeline:
    """A schedule of some iterations: its slots, the clocks of an iteration of all warpgroups once it is steady, and
    what part of the time each pipeline then works."""

    slots: tuple[Busy, ...]
    period: float
    busy: Mapping[str, float]
    warpgroups: int

    def draw(self, width: int = 96) -> str:
        """A line for each warpgroup and pipeline; a letter for a step, a digit for its iteration at its start."""
        end = max(slot.end for slot in self.slots)
        lines = []
        for pipeline in dict.fromkeys(slot.pipeline for slot in self.slots):
            for group in range(self.warpgroups):
                row = ["."] * width
                for slot in self.slots:
                    if (slot.pipeline, slot.actor) == (pipeline, group):
                        first, last = int(slot.start * width / end), max(int(slot.end * width / end), 1)
                        row[first:last] = _MARKS[slot.operation] * (last - first)
                        row[first] = str(slot.iteration % 10)
                lines.append(f"{pipeline:6} {group} {''.join(row)}")
        return "\n".join(lines)


def timeline(found: Configuration, iterations: int = 8) -> Timeline:
    """The schedule of a configuration's warpgroups, drawn for so many iterations."""
    steps = iteration_steps(found)
    made = schedule(steps, found.warpgroups)
    busy = {name: 1.0 - idle for name, idle in made.slack.items()}
    return Timeline(issued(steps, found.warpgroups, iterations), made.period, busy, found.warpgroups)


def iteration_steps(found: Configuration) -> list[PipelineStep]:
    """The steps of an iteration of a warpgroup in the order in which it issues them, in clocks of an SM for all of its
    rows: the products ahead are those of the next iteration, after the arithmetic that reads those of this one."""
    rate = {c.pipeline: c.per_clock for c in found.clocks if c.pipeline != "tensor"}
    rows = found.values[found.columns.rows]
    iteration = [work for work in found.columns.work if work.loop]
    last = max((k for k, w in enumerate(iteration) if w.pipeline == "tensor" and not w.ahead), default=len(iteration))
    early, late = dict.fromkeys(rate, Fraction(0)), dict.fromkeys(rate, Fraction(0))
    for k, work in enumerate(iteration):
        if work.pipeline != "tensor":
            clocks = Fraction(work.operations.value(found.values), rate[work.pipeline])
            (early if k < last else late)[work.pipeline] += clocks
    taken: dict[str, tuple[str, Fraction]] = {}
    for name, other, arithmetic in (("ahead", "arithmetic", early), ("products", "after", late)):
        products = (c for c in found.clocks if c.pipeline == "tensor" and c.ahead == (name == "ahead"))
        taken[name] = "tensor", rows * sum((c.clocks for c in products), Fraction(0))
        taken[other] = max(arithmetic.items(), key=lambda pair: pair[1], default=("alu", Fraction(0)))
    chain: list[str] = [name for name, (_, clocks) in taken.items() if clocks]
    order = [name for name in ("arithmetic", "ahead", "products", "after") if name in chain]
    if "arithmetic" not in chain and "ahead" in chain:
        order = [*(name for name in order if name != "ahead"), "ahead"]
    place: dict[str, int] = {name: k for k, name in enumerate(order)}
    steps = []
    for name in order:
        needs = [(place[name], 1)]
        if before := chain[: chain.index(name)]:
            needs.append((place[before[-1]], 0))
        if name == "ahead" and "arithmetic" in chain:
            needs.append((place["arithmetic"], 1))
        pipeline, clocks = taken[name]
        steps.append(PipelineStep(name, pipeline, float(clocks), int(name == "ahead"), tuple(needs)))
    return steps


def chart(found: Configuration, iterations: int = 2) -> PipelineChart:
    """What `catdiag.draw.pipeline_picture` draws of a configuration: the paper's figures 34 and 35 at its sizes."""
    made = schedule(iteration_steps(found), found.warpgroups)
    tensor = [c for c in found.clocks if c.pipeline == "tensor"]
    names = {"arithmetic": "", "after": ""}
    names["ahead"] = ", ".join(c.name for c in tensor if c.ahead)
    names["products"] = ", ".join(c.name for c in tensor if not c.ahead)
    blocks = found.columns.streamed_arrays()
    streamed = ", ".join(p.name for p in blocks) or "a block"
    loads, notes = load_spans(
        "HBM to SMEM",
        found.transfer_s * float(found.chip.clock_hz),
        f"{streamed}: {bytes_text(found.block_bytes)}",
        min((p.copies for p in blocks), default=1),
    )
    notes.append("all cores load at once, and none shares the loads of another")
    busy = {name: 1.0 - idle for name, idle in made.slack.items()}
    beside = [
        f"{PIPELINES[name]} {float(found.pipeline(name) * found.rows):,.0f}"
        for name in ("exp", "alu")
        if float(found.pipeline(name) * found.rows) > busy.get(name, 0.0) * made.period + 1e-6
    ]
    if beside:
        notes.append(
            "of the arithmetic between contractions, only the slowest pipeline is drawn; per iteration it takes "
            f"{', '.join(beside)} clocks"
        )
    sizes = ", ".join(f"{name} = {value}" for name, value in found.values.items())
    title = f"{found.chip.name}, {sizes}: {plural(found.warpgroups, 'warpgroup')}"
    length = iterations * made.period
    return PipelineChart(
        title, made.period, length, found.warpgroups, spans_of(made, iterations, names), busy, loads, tuple(notes)
    )
