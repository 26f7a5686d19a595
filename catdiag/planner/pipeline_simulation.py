"""Which pipelines run at once: warpgroups that share them, simulated step by step.

>>> found = schedule([PipelineStep("scores", "tensor", 4.0), PipelineStep("weights", "exp", 3.0)], actors=2)
>>> found.period, found.slack["tensor"], found.slack["exp"], found.needed
(8.0, 0.0, 0.25, 2)
>>> print(found.chart(8))
clocks             0       1       2       3       4       5       6       7
actor 1       tensor  tensor  tensor  tensor     exp     exp     exp       .
actor 2          exp     exp     exp       .  tensor  tensor  tensor  tensor

An actor issues the steps of an iteration in order, one after the other, each once those are done that it waits for:
the one before it, unless it says other ones, as where an asynchronous step is issued ahead of its iteration. A pipeline
serves one step at a time, first come first served, of two that come at once the one of the earlier iteration, then of
the first actor.
Times are in clocks of one core. Derived here: a job shop run until all stand to each other as they stood before, so
that `period` is exact for these rules; it is at least what the busiest pipeline needs, and, where each step waits for
the one before it, at least one actor's steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from catdiag.chip.hardware import Hardware
from catdiag.schedule.kernel_work import operations as operations_of
from catdiag.schedule.kernel_work import product_types
from catdiag.schedule.lowered_kernel import LoweredKernel
from catdiag.schedule.statements import For
from catdiag.util.errors import CatdiagError, require

_EXACT = 1 << 20  # clocks are counted in parts of so many
_ITERATIONS = 200  # after so many iterations without a repetition the mean of the later half is taken
_MOST = 8
_MOST_ACTORS = 1_024


@dataclass(frozen=True)
class PipelineStep:
    """What an actor does next: on which pipeline ("": none, it waits by itself), for how many clocks.

    `ahead` is how many iterations later than its iteration the one is that it works for (a step that is issued early).
    `needs` are the steps that it waits for: the place of each in the iteration, and by how many iterations the one that
    it works for lies back. Left out: the step before it in the iteration, of the first the last of the iteration
    before.

    >>> load = PipelineStep("load", "copy", 3.0, ahead=1, needs=((0, 1), (1, 2)))    # into one of two buffers
    >>> schedule([load, PipelineStep("product", "tensor", 4.0, needs=((0, 0), (1, 1)))], actors=1).period
    4.0
    """

    operation: str
    pipeline: str
    clocks: float
    ahead: int = 0
    needs: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True)
class Busy:
    """A step of an actor's iteration: from when to when, in clocks."""

    actor: int
    iteration: int
    operation: str
    pipeline: str
    start: float
    end: float


@dataclass(frozen=True)
class PipelineSchedule:
    """Actors that run the same steps, iteration after iteration.

    `period` is the clocks in which each ends an iteration, `slack` the part of it that each pipeline idles, `busiest`
    the one that idles least. `buffers` are the blocks of a streamed axis that are in use at once (one more is being
    loaded), where actors of one group run the same iterations. `needed` is the fewest actors for which the busiest
    pipeline never idles (None: no number up to 8). `window` is what happens in one period.
    """

    actors: int
    period: float
    slack: Mapping[str, float]
    busiest: str
    buffers: int
    needed: int | None
    window: tuple[Busy, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**vars(self), "slack": dict(self.slack), "window": [dict(vars(busy)) for busy in self.window]}

    def chart(self, columns: int = 12) -> str:
        """One period: a row for each actor, with the pipeline that it is on at that time."""
        first = min((busy.start for busy in self.window), default=0.0)
        times = [k * self.period / columns for k in range(columns)]
        rows = [f"{'clocks':12}" + "".join(f"{t:>8.4g}" for t in times)]
        for actor in range(self.actors):
            cells = []
            for t in times:
                moment = first + t + self.period * 1e-6
                at = [
                    b.pipeline or "wait"
                    for b in self.window
                    if b.actor == actor and any(b.start <= moment + k * self.period < b.end for k in (0, 1))
                ]
                cells.append(f"{at[0] if at else '.':>8}")
            rows.append(f"{f'actor {actor + 1}':12}" + "".join(cells))
        return "\n".join(rows)

    def __str__(self) -> str:
        idle = ", ".join(f"{name} {100 * part:.0f}%" for name, part in self.slack.items())
        enough = (
            f"{self.needed} keep{'s' if self.needed == 1 else ''}" if self.needed else f"no number to {_MOST} keeps"
        )
        return (
            f"{self.actors} at once, an iteration each in {self.period:.0f} clocks; idle: {idle}; blocks in use at "
            f"once: {self.buffers}; {enough} {self.busiest} busy"
        )


def schedule(steps: Sequence[PipelineStep], actors: int) -> PipelineSchedule:
    """How so many actors share the pipelines. Raises CatdiagError for no steps, no actors, clocks below 0, and steps
    that wait for what is issued after them.

    >>> three = [PipelineStep("QK", "tensor", 2), PipelineStep("exp", "exp", 4.0625), PipelineStep("PV", "tensor", 4)]
    >>> [schedule(three, n).period / n for n in (1, 2, 3)]     # 6 clocks of matrix units are all that counts
    [10.0625, 6.0, 6.0]
    """
    listed = isinstance(steps, Sequence) and all(isinstance(step, PipelineStep) for step in steps)
    require(listed, "steps", steps, "a list of Step, such as [Step('load', 'HBM', 100)]")
    if isinstance(actors, bool) or not isinstance(actors, int) or actors < 1:
        raise CatdiagError(f"actors is {actors!r}: expected a positive integer")
    require(actors <= _MOST_ACTORS, "actors", actors, f"at most {_MOST_ACTORS}")
    if not steps or any(not step.clocks >= 0 for step in steps) or not any(step.clocks for step in steps):
        raise CatdiagError("an iteration needs steps, of 0 clocks or more, and not all of 0")
    _check_order(steps)
    period, start, done = _run(steps, actors)
    slack, busiest = _slack(steps, actors, period)
    needed = None
    for number in range(1, _MOST + 1):
        idle, name = _slack(steps, number, period if number == actors else _run(steps, number)[0])
        if name and idle[name] < 1e-4:
            needed = number
            break
    window = tuple(busy for busy in done if start - 1e-9 <= busy.start < start + period - 1e-9)
    return PipelineSchedule(actors, period, slack, busiest, _in_use(done, start, period), needed, window)


def issued(steps: Sequence[PipelineStep], actors: int, iterations: int) -> tuple[Busy, ...]:
    """All that so many actors do in the first iterations, from the start, in the order in which it is issued.

    >>> [(busy.start, busy.end) for busy in issued([PipelineStep("exp", "exp", 3.0)], actors=2, iterations=2)]
    [(0.0, 3.0), (3.0, 6.0), (6.0, 9.0), (9.0, 12.0)]
    """
    _check_order(steps)
    shop = _JobShop(steps, actors)
    while min(shop.iterations) < iterations:
        shop.advance()
    return tuple(busy for busy in shop.done if busy.iteration < iterations)


def _check_order(steps: Sequence[PipelineStep]) -> None:
    """Raises CatdiagError where a step waits for one that is not there, or that is issued after it."""
    for k, step in enumerate(steps):
        require(type(step.ahead) is int and step.ahead >= 0, "ahead", step.ahead, "a number of iterations, 0 or more")
        for need, back in step.needs or ():
            if not (0 <= need < len(steps) and back >= 0):
                raise CatdiagError(
                    f"{step.operation!r} needs {(need, back)}: expected the place of a step, from 0 to "
                    f"{len(steps) - 1}, and how many iterations back it lies"
                )
            later = step.ahead - back - steps[need].ahead
            if later > 0 or (later == 0 and need >= k):
                raise CatdiagError(
                    f"{step.operation!r} waits for {steps[need].operation!r}, which is issued later: expected a step "
                    "that comes before it, or one of an iteration further back"
                )


def _slack(steps: Sequence[PipelineStep], actors: int, period: float) -> tuple[dict[str, float], str]:
    spent: dict[str, float] = {}
    for step in steps:
        if step.pipeline:
            spent[step.pipeline] = spent.get(step.pipeline, 0.0) + step.clocks
    # An iteration so short that its clocks are rounded to none leaves nothing idle.
    slack = {name: max(0.0, 1.0 - actors * clocks / period) if period else 0.0 for name, clocks in spent.items()}
    return slack, min(slack, key=lambda name: slack[name], default="")


@dataclass
class _JobShop:
    """The actors under way, each at a place of an iteration; times are in parts of a clock."""

    steps: Sequence[PipelineStep]
    actors: int
    done: list[Busy] = field(default_factory=list)

    def __post_init__(self) -> None:
        count = len(self.steps)
        self.lengths = [round(step.clocks * _EXACT) for step in self.steps]
        self.needs = [
            (((k - 1) % count, int(not k)),) if step.needs is None else step.needs for k, step in enumerate(self.steps)
        ]
        self.free = {step.pipeline: 0 for step in self.steps}
        first = -max(step.ahead for step in self.steps)  # before iteration 0 only what is ahead is issued
        self.iterations, self.places = [first] * self.actors, [0] * self.actors
        self.ends: list[dict[tuple[int, int], int]] = [{} for _ in range(self.actors)]
        self.pending = [sorted(set(self._pending(place))) for place in range(count)]
        self.ready = [0] * self.actors
        for actor in range(self.actors):
            self._skip(actor)

    def _pending(self, place: int) -> Iterator[tuple[int, int]]:
        """The steps behind an actor at a place that those before it wait for: places, and iterations back."""
        steps = self.steps
        reach = max((back for needs in self.needs for _, back in needs), default=0) + max(s.ahead for s in steps)
        for later in range(reach + 1):
            for k in range(0 if later else place, len(steps)):
                for need, back in self.needs[k]:
                    needed = later + steps[k].ahead - back - steps[need].ahead
                    if needed < 0 or (needed == 0 and need < place):
                        yield need, -needed - steps[need].ahead

    def _skip(self, actor: int) -> None:
        """Past what would work for an iteration before the first."""
        while self.iterations[actor] + self.steps[self.places[actor]].ahead < 0:
            self._next(actor)
        k, ends = self.places[actor], self.ends[actor]
        iteration = self.iterations[actor] + self.steps[k].ahead
        self.ready[actor] = max((ends.get((need, iteration - back), 0) for need, back in self.needs[k]), default=0)

    def _next(self, actor: int) -> None:
        self.places[actor] = (self.places[actor] + 1) % len(self.steps)
        self.iterations[actor] += self.places[actor] == 0

    def start(self, actor: int) -> int:
        """When an actor's next step begins, if none is served before it."""
        pipeline = self.steps[self.places[actor]].pipeline
        return max(self.ready[actor], self.free[pipeline]) if pipeline else self.ready[actor]

    def advance(self) -> None:
        """Serves the step that begins first."""
        starts = [self.start(n) for n in range(self.actors)]
        a = min(range(self.actors), key=lambda n: (starts[n], self.ready[n], self.iterations[n], n))
        place, start = self.places[a], starts[a]
        step, end = self.steps[place], start + self.lengths[place]
        iteration = self.iterations[a] + step.ahead
        if step.pipeline:
            self.free[step.pipeline] = end
        if end > start:
            self.done.append(Busy(a, iteration, step.operation, step.pipeline, start / _EXACT, end / _EXACT))
        self.ends[a][place, iteration] = end
        self._next(a)
        self._skip(a)

    def state(self, now: int) -> tuple[object, ...]:
        """How all stand to each other: two times at which this is the same are followed by the same."""
        ends = (
            tuple(
                self.ends[n].get((k, self.iterations[n] - back), 0) - now for k, back in self.pending[self.places[n]]
            )
            for n in range(self.actors)
        )  # fmt: skip
        behind = (iteration - self.iterations[0] for iteration in self.iterations)
        free = (max(time - now, 0) for name, time in self.free.items() if name)
        return tuple(self.places), tuple(behind), tuple(ends), tuple(free)


def _run(steps: Sequence[PipelineStep], actors: int) -> tuple[float, float, list[Busy]]:
    """The period, when one begins, and all that happens until four more have passed."""
    shop = _JobShop(steps, actors)
    seen: dict[tuple[object, ...], tuple[int, int]] = {}
    found: tuple[float, float] | None = None
    last = _ITERATIONS
    while shop.iterations[0] < last:
        if shop.places[0] == 0 and found is None:
            now, current = shop.ready[0], shop.iterations[0]
            before, at = seen.setdefault(shop.state(now), (now, current))
            if at < current:
                found, last = ((now - before) / (current - at) / _EXACT, now / _EXACT), current + 4
            elif current == _ITERATIONS // 2:
                middle = max(shop.ends[0].values())
        shop.advance()
    if found is None:
        latest = max(shop.ends[0].values())
        whole = (latest - middle) / (_ITERATIONS - _ITERATIONS // 2) / _EXACT
        found = (whole, latest / _EXACT - 4 * whole)
    return (*found, shop.done)


def _in_use(window: Sequence[Busy], start: float, period: float) -> int:
    """The most iterations that are under way at once: from the first actor's first step of one to the last's last."""
    spans: dict[int, tuple[float, float]] = {}
    for busy in window:
        begin, end = spans.get(busy.iteration, (busy.start, busy.end))
        spans[busy.iteration] = min(begin, busy.start), max(end, busy.end)
    moments = [begin for begin, _ in spans.values() if start <= begin < start + period]
    return max((sum(b <= t < e for b, e in spans.values()) for t in moments), default=1)


def iteration_steps(
    kernel: LoweredKernel, chip: Hardware, values: Mapping[str, int], actors: int
) -> list[PipelineStep]:
    """The steps of one actor in one iteration of a kernel's only loop, of which each of so many does its share.

    Contractions one by one, at the sustained rate of the matrix units; what lies between two of them as one step on the
    ALUs and one on the special functions. Empty where the kernel has no loop, or several.
    """
    loops = [s.live for part in kernel.parts for s in part.body.statements if isinstance(s, For) and s.live is not None]
    if len(loops) != 1 or len(kernel.loops) != 1:
        return []
    body = loops[0].body
    found: list[PipelineStep] = []
    between: dict[str, float] = {}

    def flush() -> None:
        found.extend(PipelineStep(name, name, clocks) for name, clocks in between.items() if clocks)
        between.clear()

    for place, box in enumerate(body.graph.boxes()):
        rate = chip.tensor.get(product_types(body, place, kernel.computed_type)[1])
        for pipeline, operations in operations_of(body, place):
            clocks = float(operations.value(values)) / actors
            if pipeline == "tensor" and rate is not None:
                flush()
                each = rate * chip.sustained["tensor"] / chip.sms / chip.clock_hz
                found.append(PipelineStep(box.name, "tensor", clocks / each))
                continue
            name = "alu" if pipeline == "tensor" else pipeline
            per_clock = chip.special_per_clock if name == "exp" else chip.alu_per_clock
            between[name] = between.get(name, 0.0) + clocks / per_clock
    flush()
    return found
