"""Which warpgroup uses which pipeline when: the turns of a loop as a schedule, drawn as text.

Step 8 of Abbott and Zardini, "FlashAttention on a Napkin" (TMLR 2025), section 5.8. A turn of a warpgroup is: the
products that need nothing of it, the arithmetic of what they give, the other products, and what is done with those.
Products take the matrix units of the SM, arithmetic its special functions or its lanes, whichever takes longer. The
products of the next turn may start once the arithmetic has read those of this one. Each pipeline does one thing at a
time, in the order in which things are ready (of equal ones, the warpgroup that did least goes first).

>>> import catdiag as cd
>>> dot = cd.algorithm("q d, x d -> q")(lambda Q, K: cd.sum(cd.exp(cd.einsum("q d, x d -> q x", Q, K)), "x"))
>>> from catdiag.planner.warpgroup_configuration import configure
>>> found = configure(dot.stream("x").group("q"), "H100", {"w_q": 128, "s_x": 64, "d": 64})
>>> print(timeline(found, iterations=3).busy["exp"] > 0.95)
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from catdiag.planner.warpgroup_configuration import Configuration
from catdiag.util.errors import CatdiagError

_MARKS = {"ahead": "Q", "arithmetic": "s", "products": "P", "after": "a"}


@dataclass(frozen=True)
class TimelineSlot:
    """A step of a warpgroup's turn on a pipeline, from `start` to `end` in clocks."""

    warpgroup: int
    iteration: int
    step: str
    pipeline: str
    start: Fraction
    end: Fraction


@dataclass(frozen=True)
class Timeline:
    """A schedule of some turns: its slots, the clocks of a turn of all warpgroups once it is steady, and what part of
    the time each pipeline then works."""

    slots: tuple[TimelineSlot, ...]
    period: Fraction
    busy: Mapping[str, float]
    warpgroups: int

    def draw(self, width: int = 96) -> str:
        """A line for each warpgroup and pipeline; a letter for a step, a digit for its turn at its start."""
        end = max(slot.end for slot in self.slots)
        lines = []
        for pipeline in dict.fromkeys(slot.pipeline for slot in self.slots):
            for group in range(self.warpgroups):
                row = ["."] * width
                for slot in self.slots:
                    if (slot.pipeline, slot.warpgroup) == (pipeline, group):
                        first, last = int(slot.start * width / end), max(int(slot.end * width / end), 1)
                        row[first:last] = _MARKS[slot.step] * (last - first)
                        row[first] = str(slot.iteration % 10)
                lines.append(f"{pipeline:6} {group} {''.join(row)}")
        return "\n".join(lines)


def timeline(found: Configuration, iterations: int = 8) -> Timeline:
    """The schedule of so many turns of a configuration's warpgroups, 3 at the least.

    Raises CatdiagError for fewer turns.
    """
    if isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 3:
        raise CatdiagError(
            f"turns is {iterations!r}: expected a whole number, 3 or more, so that a steady turn can be told"
        )
    steps = _steps(found)
    free: dict[str, Fraction] = {}
    done: dict[tuple[int, int, str], Fraction] = {}
    slots: list[TimelineSlot] = []
    names = [name for name, _, _ in steps]
    at = [0] * found.warpgroups  # how many steps each warpgroup has behind it, its own order fixed below
    order = _order(names, iterations)
    while any(n < len(order) for n in at):
        ready: list[tuple[Fraction, int, int]] = []
        for group, n in enumerate(at):
            if n < len(order):
                iteration, name = order[n]
                start = max((done[group, *need] for need in _needs(names, iteration, name)), default=Fraction(0))
                pipeline = steps[names.index(name)][1]
                ready.append((max(start, free.get(pipeline, Fraction(0))), n, group))
        start, n, group = min(ready)
        iteration, name = order[n]
        _, pipeline, clocks = steps[names.index(name)]
        done[group, iteration, name] = free[pipeline] = start + clocks
        slots.append(TimelineSlot(group, iteration, name, pipeline, start, start + clocks))
        at[group] += 1
    ends = [max(done[g, iteration, names[-1]] for g in range(found.warpgroups)) for iteration in range(iterations)]
    begun = iterations // 3
    period = (
        (ends[iterations - 2] - ends[begun]) / (iterations - 2 - begun)
        if iterations - 2 > begun
        else ends[-1] - ends[-2]
    )
    busy: dict[str, float] = {}
    for _, pipeline, clocks in steps:
        busy[pipeline] = busy.get(pipeline, 0.0) + float(clocks * found.warpgroups / period)
    return Timeline(tuple(slots), period, busy, found.warpgroups)


def _order(names: list[str], iterations: int) -> list[tuple[int, str]]:
    """A warpgroup's steps in the order in which it asks for them: products ahead come a turn early."""
    found: list[tuple[int, str]] = [(0, "ahead")] if "ahead" in names else []
    for iteration in range(iterations):
        for name in names:
            if name != "ahead":
                found.append((iteration, name))
            if (
                name == ("arithmetic" if "arithmetic" in names else names[-1])
                and "ahead" in names
                and iteration + 1 < iterations
            ):
                found.append((iteration + 1, "ahead"))
    return found


def _needs(names: list[str], iteration: int, name: str) -> list[tuple[int, str]]:
    """What has to be done before a step: those before it in its turn, and its own in the turn before; products ahead
    wait for what reads the last ones."""
    before = names[: names.index(name)]
    found = [(iteration, before[-1])] if before else []
    if iteration:
        found.append((iteration - 1, name))
        if name == "ahead" and "arithmetic" in names:
            found.append((iteration - 1, "arithmetic"))
    return found


def _steps(found: Configuration) -> list[tuple[str, str, Fraction]]:
    """The steps of a warpgroup's turn in order: name, pipeline, clocks of an SM for all of its rows."""
    rate = {c.pipeline: c.per_clock for c in found.clocks if c.pipeline != "tensor"}
    rows = found.values[found.columns.rows]
    iteration = [work for work in found.columns.work if work.loop]
    last = max((k for k, w in enumerate(iteration) if w.pipeline == "tensor" and not w.ahead), default=len(iteration))
    early, late = dict.fromkeys(rate, Fraction(0)), dict.fromkeys(rate, Fraction(0))
    for k, work in enumerate(iteration):
        if work.pipeline != "tensor":
            clocks = Fraction(work.operations.value(found.values), rate[work.pipeline])
            (early if k < last else late)[work.pipeline] += clocks
    made = []
    for name, products, other in (("ahead", True, early), ("products", False, late)):
        clocks = sum((c.clocks for c in found.clocks if c.pipeline == "tensor" and c.ahead == products), Fraction(0))
        made.append((name, "tensor", clocks * rows))
        busiest, taken = max(other.items(), key=lambda pair: pair[1], default=("alu", Fraction(0)))
        made.append(("arithmetic" if products else "after", busiest, taken))
    return [step for step in made if step[2]]
