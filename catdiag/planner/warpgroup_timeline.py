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
>>> print(timeline(found, turns=3).busy["exp"] > 0.95)
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
class Slot:
    """A step of a warpgroup's turn on a pipeline, from `start` to `end` in clocks."""

    warpgroup: int
    turn: int
    step: str
    pipeline: str
    start: Fraction
    end: Fraction


@dataclass(frozen=True)
class Timeline:
    """A schedule of some turns: its slots, the clocks of a turn of all warpgroups once it is steady, and what part of
    the time each pipeline then works."""

    slots: tuple[Slot, ...]
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
                        row[first] = str(slot.turn % 10)
                lines.append(f"{pipeline:6} {group} {''.join(row)}")
        return "\n".join(lines)


def timeline(found: Configuration, turns: int = 8) -> Timeline:
    """The schedule of so many turns of a configuration's warpgroups, 3 at the least.

    Raises CatdiagError for fewer turns.
    """
    if isinstance(turns, bool) or not isinstance(turns, int) or turns < 3:
        raise CatdiagError(f"turns is {turns!r}: expected a whole number, 3 or more, so that a steady turn can be told")
    steps = _steps(found)
    free: dict[str, Fraction] = {}
    done: dict[tuple[int, int, str], Fraction] = {}
    slots: list[Slot] = []
    names = [name for name, _, _ in steps]
    at = [0] * found.warpgroups  # how many steps each warpgroup has behind it, its own order fixed below
    order = _order(names, turns)
    while any(n < len(order) for n in at):
        ready: list[tuple[Fraction, int, int]] = []
        for group, n in enumerate(at):
            if n < len(order):
                turn, name = order[n]
                start = max((done[group, *need] for need in _needs(names, turn, name)), default=Fraction(0))
                pipeline = steps[names.index(name)][1]
                ready.append((max(start, free.get(pipeline, Fraction(0))), n, group))
        start, n, group = min(ready)
        turn, name = order[n]
        _, pipeline, clocks = steps[names.index(name)]
        done[group, turn, name] = free[pipeline] = start + clocks
        slots.append(Slot(group, turn, name, pipeline, start, start + clocks))
        at[group] += 1
    ends = [max(done[g, turn, names[-1]] for g in range(found.warpgroups)) for turn in range(turns)]
    begun = turns // 3
    period = (ends[turns - 2] - ends[begun]) / (turns - 2 - begun) if turns - 2 > begun else ends[-1] - ends[-2]
    busy: dict[str, float] = {}
    for _, pipeline, clocks in steps:
        busy[pipeline] = busy.get(pipeline, 0.0) + float(clocks * found.warpgroups / period)
    return Timeline(tuple(slots), period, busy, found.warpgroups)


def _order(names: list[str], turns: int) -> list[tuple[int, str]]:
    """A warpgroup's steps in the order in which it asks for them: products ahead come a turn early."""
    found: list[tuple[int, str]] = [(0, "ahead")] if "ahead" in names else []
    for turn in range(turns):
        for name in names:
            if name != "ahead":
                found.append((turn, name))
            if name == ("arithmetic" if "arithmetic" in names else names[-1]) and "ahead" in names and turn + 1 < turns:
                found.append((turn + 1, "ahead"))
    return found


def _needs(names: list[str], turn: int, name: str) -> list[tuple[int, str]]:
    """What has to be done before a step: those before it in its turn, and its own in the turn before; products ahead
    wait for what reads the last ones."""
    before = names[: names.index(name)]
    found = [(turn, before[-1])] if before else []
    if turn:
        found.append((turn - 1, name))
        if name == "ahead" and "arithmetic" in names:
            found.append((turn - 1, "arithmetic"))
    return found


def _steps(found: Configuration) -> list[tuple[str, str, Fraction]]:
    """The steps of a warpgroup's turn in order: name, pipeline, clocks of an SM for all of its rows."""
    rate = {c.pipeline: c.per_clock for c in found.clocks if c.pipeline != "tensor"}
    rows = found.values[found.columns.rows]
    turn = [work for work in found.columns.work if work.loop]
    last = max((k for k, w in enumerate(turn) if w.pipeline == "tensor" and not w.ahead), default=len(turn))
    early, late = dict.fromkeys(rate, Fraction(0)), dict.fromkeys(rate, Fraction(0))
    for k, work in enumerate(turn):
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
