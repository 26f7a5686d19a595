"""The pipeline schedule of a loop: the iterations in clocks, with the work of each pipeline, and stalls hatched.

The counterpart of figures 34 and 35 of Abbott and Zardini, "FlashAttention on a Napkin" (TMLR 2025, section 5.8):
widths are clocks, and the picture repeats. Every number is from the plan (`catdiag.planner.pipeline_simulation`), or
from a `PipelineChart` of one's own. What it does not contain is left out, and the picture says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from catdiag.chip import hardware as chips
from catdiag.chip.units import bytes_text
from catdiag.draw.listing.kernel_table import wrapped
from catdiag.draw.scene import Curve, Frame, Item, Label, Scene, Shape, StraightLine, straight
from catdiag.draw.text_width import text_width
from catdiag.planner.multi_kernel_plan import Plan, one_kernel
from catdiag.planner.pipeline_simulation import Busy, PipelineSchedule
from catdiag.planner.plan import KernelPlan, plural
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from catdiag.chip.hardware import Hardware

PIPELINES = {"tensor": "matrix units", "exp": "special functions", "alu": "ALUs"}
"""The pipelines of a core, and what each is called."""
_LEVELS = {"tensor": 3, "exp": 2, "alu": 2}
_WIDTH, _ROW, _GAP = 560.0, 30.0, 12.0
_MOST = 1000  # the most bars in a picture


@dataclass(frozen=True)
class PipelineChart:
    """The data of the picture: `length` clocks of a schedule that repeats after each `period`. `spans` are steps on
    pipelines, in clocks from the start of the picture; actors are warpgroups.

    `busy` is the share of the period in which each pipeline works. `loads` are, for each edge, the clocks of a period
    for what the iterations read, with a description. `notes` say what is left out.
    """

    title: str
    period: float
    length: float
    actors: int
    spans: tuple[Busy, ...]
    busy: Mapping[str, float]
    loads: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def binding(self) -> tuple[str, ...]:
        """The pipelines and edges with the fewest stalls."""
        most = max(self.shares.values(), default=0.0)
        return tuple(name for name, share in self.shares.items() if share > most - 1e-6)

    @property
    def shares(self) -> Mapping[str, float]:
        """The share of a period in which each pipeline and edge works; for an edge more than 1 if loads take longer."""
        return {**self.busy, **{name: clocks / self.period for name, (clocks, _) in self.loads.items()}}


def pipeline_picture(
    of: Plan | KernelPlan | PipelineChart, *, iterations: int = 2, chip: Hardware | str | None = None
) -> Scene:
    """The pipelines of a core in `iterations` periods of the loop of a plan, or as a chart has them.

    Rows are the pipelines, and the edge over which blocks reach shared memory; widths are clocks of one core (SM). The
    chip of a plan is looked up by its name, unless given. Raises CatdiagError where there is no schedule of iterations
    (no loop, several loops, or a split loop), for a chip that is not that of the plan, and for fewer than one period.

    >>> import catdiag as cd
    >>> plan = cd.library.get("matmul").stream("b").group("a c").plan("H100", {"a": 4096, "b": 4096, "c": 4096})
    >>> scene = pipeline_picture(plan)
    >>> [item.text for item in scene.items if getattr(item, "role", "") == "title"]
    ['matrix units', 'L2 to SMEM']
    """
    if isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 1:
        raise CatdiagError(f"iterations is {iterations!r}: expected the number of periods to draw, 1 or more")

    if isinstance(of, PipelineChart):
        return _drawn(of)
    return _drawn(_planned(one_kernel(of, "this picture"), iterations, chip))


# -- data ------------------------------------------------------------------------------------------------------------


def spans_of(found: PipelineSchedule, iterations: int, names: Mapping[str, str]) -> tuple[Busy, ...]:
    """What a schedule does in so many periods; `names` says what stands for an operation, if not its own name."""
    first, begun = min(((busy.start, busy.iteration) for busy in found.window), default=(0.0, 0))
    spans: list[Busy] = []
    for k in range(-1, iterations + 1):
        shift = k * found.period - first
        spans += [
            replace(
                b,
                operation=names.get(b.operation, b.operation),
                iteration=b.iteration - begun + k,
                start=b.start + shift,
                end=b.end + shift,
            )
            for b in found.window
            if b.pipeline and b.end + shift > 0 and b.start + shift < iterations * found.period
        ]
    return tuple(spans)


def _planned(plan: KernelPlan, iterations: int, given: Hardware | str | None) -> PipelineChart:
    found = plan.schedule
    if found is None:
        raise CatdiagError(
            "the plan has no schedule of iterations: expected a kernel with one loop that is not split, as from "
            ".stream('x').group('q')"
        )
    chip = _chip(plan, given)
    loads: dict[str, tuple[float, str]] = {}
    notes = [f"the plan also counts latencies between steps, which are not drawn; it is bound by {plan.bound}"]
    streamed = list(plan.stream_blocks.items())
    groups = max(1, found.actors // max(1, plan.threads // plan.warp // 4))
    edge = next((e for e in plan.edges if e.lower == "SMEM"), None)
    if chip is None:
        notes.append(f"no chip of the name {plan.hardware} is known, so that the time of loads is left out; give chip=")
    elif edge is not None and edge.bytes_per_s and streamed:
        size = groups * sum(allocated for _, allocated in streamed)
        clocks = size * chip.sms / edge.bytes_per_s * chip.clock_hz
        what = ", ".join(name for name, _ in streamed) + (f" of {groups} groups" if groups > 1 else "")
        loads, note = load_spans(f"{edge.upper} to SMEM", clocks, f"{what}: {bytes_text(size)}", plan.stages)
        notes += note
    elif edge is not None:
        notes.append("loads of an iteration are left out: they are not allocated at the peak of shared memory")
    if chip is not None and plan.flops and not plan.parts_s.get("tensor"):
        notes.append(f"{chip.name} has no rate of matrix units for {plan.dtype}: contractions run on the ALUs")
    others = [f"{name} {100 * plan.busy[name]:.0f}%" for name in ("HBM", "LLC", "SMEM") if plan.busy.get(name)]
    if others:
        words = ", ".join(others).replace("SMEM", "the reading of shared memory")
        notes.append(f"not drawn, because it is known for the whole run only: busy {words} of it")
    tiles = ", ".join(f"{name} = {value}" for name, value in plan.tiles.items())
    busy = {name: 1.0 - idle for name, idle in found.slack.items()}
    title = f"{plan.hardware}, {plan.dtype}, {tiles}: {plural(found.actors, 'warpgroup')} for each {plan.core}"
    length, spans = iterations * found.period, spans_of(found, iterations, dict.fromkeys(PIPELINES, ""))
    return PipelineChart(title, found.period, length, found.actors, spans, busy, loads, tuple(notes))


def load_spans(edge: str, clocks: float, what: str, stages: int) -> tuple[dict[str, tuple[float, str]], list[str]]:
    """The loads of an iteration, which overlap with it if there are two or more buffers (prefetch); else a note."""
    if stages > 1:
        return ({edge: (clocks, what)} if clocks else {}), []
    said = f"with one buffer, loads do not overlap with iterations: {what}, {clocks:,.0f} clocks over {edge}, not drawn"
    return {}, [said]


def _chip(plan: KernelPlan, given: Hardware | str | None) -> Hardware | None:
    if given is not None:
        own = chips.get(given)
        if own.name != plan.hardware:
            raise CatdiagError(f"the plan is for {plan.hardware!r}, and chip is {own.name!r}: expected the same")
        return own
    chip = chips.get(plan.hardware) if plan.hardware in chips.names() else None
    # A user's chip may have the name of a known one.
    rates = {e.bytes_per_s for e in plan.edges}
    known = chip is not None and {chip.l2_bytes_per_s, chip.sustained_hbm_bytes_per_s} & rates
    return chip if known else None


# -- drawing ---------------------------------------------------------------------------------------------------------


def _drawn(found: PipelineChart) -> Scene:
    if len(found.spans) > _MOST:
        raise CatdiagError(
            f"the picture would have {len(found.spans)} bars: expected at most {_MOST}; draw fewer periods"
        )
    order = [name for name in ("tensor", "exp", "alu") if name in found.busy]
    names = {**{name: PIPELINES[name] for name in order}, **{name: name for name in found.loads}}
    left = max(text_width(name, "title") for name in names.values()) + 26
    scale = _WIDTH / found.length
    binding = found.binding
    items: list[Item] = []
    behind: list[Item] = []
    top = 24 + 13.0
    items.append(Label(8, 14, found.title, "note", "start"))
    y = top
    shares = found.shares
    far = 0.0
    middles: dict[str, float] = {}
    for name, words in names.items():
        middles[name] = y + _ROW / 2
        items.append(Label(left - 12, y + _ROW / 2 + 4, words, "title", "end"))
        bars = list(_bars(found, name))
        behind += _slack(bars, left, y, scale, found.length)
        level = _LEVELS.get(name, 1)
        for span in bars:
            items += _bar(span, found, left, y, scale, level)
        said = f"busy {100 * shares[name]:.0f}%" if shares[name] <= 1 + 1e-9 else f"takes {shares[name]:.2f} periods"
        if name in binding:
            said += ", binds" if shares[name] > 0.999 else ", busiest"
        items.append(Label(left + _WIDTH + 10, y + _ROW / 2 + 4, said, "note", "start"))
        far = max(far, text_width(said, "note"))
        if name in binding:
            items.append(Curve(straight((left - 5, y), (left - 5, y + _ROW)), "axis", level, title="waits least"))
        y += _ROW + _GAP
    bottom = y - _GAP + 6
    items += _clocks(found, left, top - 6, bottom, scale)
    behind += _path(found, left, middles, scale)
    y = bottom + 20
    width = left + _WIDTH + 18 + far
    for note in found.notes:
        for k, line in enumerate(wrapped(note, width - left - 20, "note")):
            y += 13
            items.append(Label(left + (8 if k else 0), y, line, "note", "start"))
    width = max(width, text_width(found.title, "note") + 16)
    return Scene(
        width, y + 10, (*behind, *items), "The work of each pipeline over time", _described(found, names, shares)
    )


def _bars(found: PipelineChart, name: str) -> Iterator[Busy]:
    """The spans of a row, cut where the picture ends."""
    if name in found.loads:
        clocks, what = found.loads[name]
        periods = round(found.length / found.period)
        for k in range(periods):
            start = k * found.period
            yield Busy(-1, k, what, name, start, start + min(clocks, found.period))
        return
    for span in sorted((s for s in found.spans if s.pipeline == name), key=lambda s: s.start):
        start, end = max(span.start, 0.0), min(span.end, found.length)
        if end > start:
            yield replace(span, start=start, end=end)


def _slack(bars: Sequence[Busy], left: float, y: float, scale: float, length: float) -> Iterator[Item]:
    """The gaps between the bars of a row."""
    at = 0.0
    for start, end in [*((b.start, b.end) for b in bars), (length, length)]:
        if start - at > 1e-6 * length:
            title = f"stalls {start - at:,.0f} clocks"
            yield Frame("slack", left + at * scale, y + 3, (start - at) * scale, _ROW - 6, title=title)
        at = max(at, end)


def _bar(span: Busy, found: PipelineChart, left: float, y: float, scale: float, level: int) -> Iterator[Item]:
    x, width = left + span.start * scale, (span.end - span.start) * scale
    who = (
        f"warpgroup {span.actor + 1}, {_iteration_label(span.iteration)}"
        if span.actor >= 0
        else "for a later iteration"
    )
    title = f"{span.operation or PIPELINES[span.pipeline]}, {who}: {span.end - span.start:,.0f} clocks"
    yield Shape("bar", x, y, width, _ROW, level, title=title)
    number, iteration = span.actor + 1, _iteration_label(span.iteration)
    choices = [
        [span.operation, who],
        [span.operation, f"{number}, {iteration}"],
        [f"warpgroup {number}", iteration],
        [str(number)],
    ]
    if span.actor < 0:
        choices = [[span.operation, who], [span.operation]]
    elif not span.operation:
        choices = [[who], *choices[2:]]
    for texts in choices:
        if all(text_width(text, "note") <= width - 4 for text in texts):
            for k, text in enumerate(texts):
                low = 12.0 + 12 * k if len(texts) > 1 else _ROW / 2 + 3.4
                yield Label(x + width / 2, y + low, text, "note")
            return


def _iteration_label(number: int) -> str:
    return "iteration n" if number == 0 else f"iteration n{'+' if number > 0 else '-'}{abs(number)}"


def _clocks(found: PipelineChart, left: float, top: float, bottom: float, scale: float) -> Iterator[Item]:
    """The axis of clocks, with the end of each period."""
    yield StraightLine(left, bottom, left + _WIDTH, bottom, "solid")
    for k in range(round(found.length / found.period) + 1):
        x = left + k * found.period * scale
        yield Curve(straight((x, top), (x, bottom + 4)), "thin")
        text = "0" if k == 0 else f"{k * found.period:,.0f}"
        yield Label(x, bottom + 14, text, "number")
    yield Label(left - 12, bottom + 14, "clocks", "note", "end")


def _path(found: PipelineChart, left: float, middles: Mapping[str, float], scale: float) -> Iterator[Item]:
    """The path of the first warpgroup from pipeline to pipeline."""
    own = sorted((s for s in found.spans if s.actor == 0), key=lambda s: (s.start, s.end))
    for one in own:
        after = next(
            (s for s in own if s.start >= one.end - 1e-9 and s.iteration == one.iteration and s is not one), None
        )
        if after is None or after.pipeline == one.pipeline or after.start > found.length or one.end < 0:
            continue
        x, to = left + one.end * scale, left + after.start * scale
        low = middles[after.pipeline] > middles[one.pipeline]
        a = (x, middles[one.pipeline] + (_ROW / 2 if low else -_ROW / 2))
        b = (to, middles[after.pipeline] - (_ROW / 2 if low else -_ROW / 2))
        yield Curve((a, (a[0], (a[1] + b[1]) / 2), (b[0], (a[1] + b[1]) / 2), b), "thin", title="warpgroup 1 continues")


def _described(found: PipelineChart, names: Mapping[str, str], shares: Mapping[str, float]) -> str:
    """The description for screen readers."""
    said = [f"{found.title}. Each warpgroup ends an iteration every {found.period:,.0f} clocks."]
    said += [f"{names[name]}: busy {100 * share:.0f}% of that." for name, share in shares.items()]
    said.append(f"Fewest stalls: {', '.join(names[name] for name in found.binding)}.")
    return " ".join([*said, *(note[0].upper() + note[1:] + "." for note in found.notes)])
