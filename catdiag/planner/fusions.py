"""Fused or unfused: the ways to cut a diagram into kernels, what each moves, and where one begins to win.

A *way* cuts the row of a diagram's stages (see `catdiag.planner.graph_segments`) into kernels, each of consecutive
stages; what is read across a cut is saved whole. Each kernel runs by a *schedule* of its own: streamed over one axis or
none, grouped over all axes of its results that it is weaved over. Schedules are derivations, with theorems. The cost of
a way is the sum of its kernels' optima under one capacity: at leading order a formula in the capacity, at given sizes
the exact transfers at the best integer tiles.

What is claimed is within these schedules. Kernels of stages that do not follow each other, arrays kept on chip from
one kernel to the next, and what is computed twice to be saved less, are not among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

from catdiag.category.diagram import Diagram, HasDiagram, diagram_of
from catdiag.category.types import size_symbols
from catdiag.optimum.crossover import crossover
from catdiag.planner.cheapest_cuts import cheapest_cuts
from catdiag.planner.graph_segments import Span, StageSequence, spans
from catdiag.planner.kernel_drafts import REFUSED, cut
from catdiag.planner.kernel_schedules import KernelSchedules, Schedule, at_large, count_kernel
from catdiag.rewrite.derivation import Derivation
from catdiag.rewrite.split import runs_in_kernels
from catdiag.solvers.z3 import Z3
from catdiag.util.argument_checks import finite, numbers
from catdiag.util.errors import CatdiagError, NotFusable, require
from catdiag.util.executors import Failed, each

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from catdiag.optimum.crossover import Crossover
    from catdiag.optimum.exhaustive import ExhaustiveOptimum
    from catdiag.optimum.regime_comparison import ComparisonCase
    from catdiag.prover.api import Theorem
    from catdiag.util.executors import Progress

Expr = Any


@dataclass(frozen=True)
class FusionOption:
    """A diagram cut into kernels. `saved` are the arrays that pass from one to another, by name."""

    kernels: tuple[KernelSchedules, ...]
    saved: tuple[str, ...]

    @property
    def schedules(self) -> tuple[Schedule | None, ...]:
        """How each kernel runs at leading order, one schedule for all sizes: the least where all axes are equally long.
        None for one without a closed form. For other shapes another may move less, which `Fusions.best` tries.
        """
        return tuple(None if k.chosen is None else k.chosen[0] for k in self.kernels)

    @cached_property
    def leading(self) -> Expr | None:
        """The transfers at leading order: the sum of the kernels' optima. None where one has no closed form."""
        import sympy

        found = [k.chosen for k in self.kernels]
        return None if None in found else sympy.expand(sympy.Add(*(c[1].leading for c in found if c is not None)))

    @cached_property
    def exact(self) -> Expr | None:
        """The sum of the kernels' exact optima over real tiles, in blocks of one. None where one has none."""
        import sympy

        total = sympy.S.Zero
        for kernel in self.kernels:
            if kernel.chosen is None or kernel.chosen[1].exact is None:
                return None
            schedule, optimum = kernel.chosen
            total = total + sympy.sympify(optimum.exact).subs(dict.fromkeys(schedule.io.streams, 1))
        return total

    @cached_property
    def conditions(self) -> tuple[Expr, ...]:
        """What `leading` takes for granted of tiles: that each is at least one and at most its axis."""
        found = (c for k in self.kernels if k.chosen is not None for c in k.chosen[1].leading_conditions)
        return tuple(dict.fromkeys(found))

    @cached_property
    def preferred(self) -> tuple[Expr, ...]:
        """Conditions on sizes under which other schedules of the kernels move no less than `schedules`."""
        return tuple(dict.fromkeys(c for k in self.kernels for c in k.preferred[0]))

    @cached_property
    def others(self) -> tuple[Schedule, ...]:
        """Other schedules of the kernels that may move less than `schedules`: the capacity decides too."""
        return tuple(s for k in self.kernels for s in k.preferred[1])

    @property
    def long(self) -> frozenset[Expr]:
        """The sizes of the axes that the first kernel runs in groups of, or through a loop over."""
        found = self.kernels[0].chosen
        if found is None:
            return frozenset()
        measured = found[0].io
        return frozenset(s for e in (*measured.groups.values(), *measured.streams.values()) for s in e.free_symbols)

    def __str__(self) -> str:
        count = len(self.kernels)
        said = "1 kernel" if count == 1 else f"{count} kernels, saving {', '.join(self.saved)}"
        if self.leading is None:
            return f"{said}: no closed form"
        how = "; ".join(map(str, self.schedules))
        return f"{said}: {self.leading}\n    ({how})"


@dataclass(frozen=True)
class FusionVerdict:
    """The way that moves least at given sizes and a capacity, in exact transfers at the best integer tiles found.

    `transfers` is None where no way fits. `by_kernels` gives the least for each number of kernels that fits, with its
    way; `exhaustive` says whether all tiles of all schedules were tried.
    """

    option: FusionOption | None
    transfers: int | None
    tiles: tuple[Mapping[str, int], ...]
    schedules: tuple[Schedule, ...]
    by_kernels: Mapping[int, tuple[int, FusionOption]]
    exhaustive: bool

    def __str__(self) -> str:
        if self.option is None:
            return "no way fits"
        lines = []
        for count, (transfers, option) in sorted(self.by_kernels.items()):
            said = f"saving {', '.join(option.saved)}" if option.saved else "saving nothing"
            kernels = "1 kernel " if count == 1 else f"{count} kernels"
            lines.append(f"{'→' if option == self.option else ' '} {kernels} {transfers:,}  {said}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Fusions:
    """The ways to cut a diagram into kernels, and what they move."""

    diagram: Diagram
    row: StageSequence = field(repr=False)
    options: Mapping[str, Any]
    most: int
    _ask: Z3 = field(default_factory=Z3, repr=False, compare=False)
    _kernels: dict[Span, KernelSchedules] = field(default_factory=dict, repr=False, compare=False)

    def kernel(self, start: int, end: int) -> KernelSchedules:
        """The stages from `start` to before `end` as one kernel."""
        if (start, end) not in self._kernels:
            self._kernels[start, end] = KernelSchedules(
                start, end, self.row.segment_diagram(start, end), self.options, self._ask
            )
        return self._kernels[start, end]

    def at_cuts(self, places: Iterable[int]) -> FusionOption:
        """The way that cuts the row before these stages (from 1), nowhere else. Raises NotFusable for a place where no
        stage begins."""
        ends = [0, *sorted(set(places)), len(self.row.stages)]
        if not all(0 <= a < b for a, b in pairwise(ends)):
            raise NotFusable(f"cuts are before stages 1 to {len(self.row.stages) - 1}: {list(places)} are not")
        kernels = tuple(self.kernel(a, b) for a, b in pairwise(ends))
        return FusionOption(kernels, tuple(dict.fromkeys(self.row.saved(ends[1:-1]))))

    @property
    def fused(self) -> FusionOption:
        """One kernel of everything."""
        return self.at_cuts(())

    @property
    def unfused(self) -> FusionOption:
        """A kernel for each stage."""
        return self.at_cuts(range(1, len(self.row.stages)))

    def options_of(self, kernels: int | None = None) -> tuple[FusionOption, ...]:
        """All ways, or those of so many kernels, the fewest first. Raises NotFusable where there are over 4096."""
        places = range(1, len(self.row.stages))
        if len(places) > 12 and kernels is None:
            raise NotFusable(f"{len(places)} places to cut make {1 << len(places)} ways: ask for a number of kernels")
        counts = range(len(places) + 1) if kernels is None else [kernels - 1]
        return tuple(self.at_cuts(chosen) for n in counts for chosen in combinations(places, n))

    def saving(self, names: str | Sequence[str]) -> FusionOption:
        """The way that saves just these arrays, by the names that `print` shows. Raises NotFusable, listing ways."""
        wanted = {n.strip() for n in names.split(",")} if isinstance(names, str) else set(names)
        for option in self.options_of():
            if set(option.saved) == wanted:
                return option
        listed = "; ".join(", ".join(w.saved) for w in self.options_of() if w.saved)
        raise NotFusable(f"no way saves just {', '.join(sorted(wanted))}: they save {listed or 'nothing'}")

    @cached_property
    def capacity(self) -> Expr:
        """The symbol for how much the fast level holds."""
        return self.kernel(0, len(self.row.stages)).schedules[0].estimate.capacity

    def derive(self, option: FusionOption) -> Derivation:
        """A way as a derivation of the whole diagram, each kernel by its schedule at leading order.

        What passes from one to another is saved whole. Tiles and blocks of one axis have one size in all kernels.

        Raises NotFusable where a kernel has no such schedule, or the whole was not proved.
        """
        parts: list[tuple[Span, Diagram, Theorem | None]] = []
        for kernel in option.kernels:
            if kernel.chosen is None:
                raise NotFusable(f"the kernel of {kernel.diagram.title} has no schedule with a closed form")
            made = kernel.chosen[0].derivation
            diagram, theorem = (kernel.diagram, None) if made is None else (made.diagram, made.theorem)
            parts.append(((kernel.start, kernel.end), diagram, theorem))
        return cut(self.row, parts, option.saved, self.diagram, self._ask)

    def crossover(
        self, first: FusionOption | None = None, second: FusionOption | None = None, long: bool = True
    ) -> Crossover:
        """Where the first way (by default the fused one) begins to move less than the second (by default the one of two
        kernels that moves least), at leading order; with `long`, where the axes that the first runs in groups and loops
        over are long. Where another schedule of a way may move less than the one in `FusionOption.schedules`, that it
        does not is among the `conditions`; where the capacity decides that too, such schedules are `others`, and not
        compared.

        Raises NotFusable where one of them has no closed form.
        """
        for option in (first, second):
            require(option is None or isinstance(option, FusionOption), "what is compared", option, "one of .ways()")
        first = self.fused if first is None else first
        second = self.alternative if second is None else second
        if second is None:
            raise NotFusable("there is one box at work, and nothing to cut")
        for option in (first, second):
            if option.leading is None:
                raise NotFusable(f"no crossover: {str(option).splitlines()[0]}")
        found = crossover(first.leading, second.leading, self.capacity, first.long if long else ())
        shapes = dict.fromkeys((*found.conditions, *first.preferred, *second.preferred))
        return replace(found, conditions=tuple(shapes), others=len(first.others) + len(second.others))

    def cases(
        self, first: FusionOption | None = None, second: FusionOption | None = None, long: bool = True
    ) -> tuple[ComparisonCase, ...]:
        """The two ways, as in `crossover`, compared in every regime of their tiles, at leading order: which never moves
        more there, or where the one begins to. With `long`, where the axes that the first runs in groups and loops
        over are at least the capacity.

        Raises NotFusable where one of the ways has no closed form. What z3 did not settle is an `either`.
        """
        import sympy

        from catdiag.optimum.regime_comparison import cases, sequential

        for option in (first, second):
            require(option is None or isinstance(option, FusionOption), "what is compared", option, "one of .ways()")
        first = self.fused if first is None else first
        second = self.alternative if second is None else second
        if second is None or first.leading is None or second.leading is None:
            raise NotFusable("no cases: there is nothing to cut, or a way has no closed form")
        axes = first.long if long else frozenset()
        assumed = [sympy.Ge(axis, self.capacity) for axis in sorted(axes, key=str)]
        shapes = tuple(dict.fromkeys((*first.preferred, *second.preferred)))
        one, other = (
            sequential((k.chosen[1].leading_regimes for k in option.kernels if k.chosen), self.capacity, assumed)
            for option in (first, second)
        )
        found = cases(one, other, self.capacity, [*assumed, *shapes], axes)
        return tuple(replace(case, conditions=(*case.conditions, *shapes)) for case in found)

    @cached_property
    def alternative(self) -> FusionOption | None:
        """The way of two kernels whose leading order is least where sizes and capacity are large."""
        ranked: list[tuple[float, int, FusionOption]] = []
        for place, option in enumerate(self.options_of(2) if len(self.row.stages) > 1 else ()):
            if all(kernel.ranked for kernel in option.kernels):
                parts = (at_large(kernel.ranked[0][1].leading, self.capacity) for kernel in option.kernels)
                ranked.append((sum(parts), place, option))
        return next((option for *_, option in sorted(ranked, key=lambda r: r[:2]) if option.leading is not None), None)

    def best(
        self,
        sizes: Mapping[str, int],
        capacity: int,
        kernels: int | None = None,
        *,
        executor: Executor | None = None,
        progress: Progress | None = None,
    ) -> FusionVerdict:
        """The way of at most `kernels` kernels that moves least at these sizes, by dynamic programming over the row.

        Transfers are exact, at the best integer tiles; kernels have at most `most` stages each. The schedules of the
        way that wins are proved; one that is not is left out, and the rest compared again. With an `executor` (see
        `catdiag.util.executors`) what each kernel moves is counted in its workers, with the same result; `progress` is
        told how many are counted. Raises CatdiagError for sizes that are missing, and for an executor that is none.
        """
        numbers(sizes)
        require(finite(capacity), "the memory", capacity, "a number of values or bytes")
        require(kernels is None or type(kernels) is int, "kernels", kernels, "how many kernels at most, 1 or more")
        count = len(self.row.stages)
        limit = count if kernels is None else min(kernels, count)
        needed = {s for ty in self.row.types for axis in ty.axes for s in size_symbols(axis.size)}
        if missing := sorted(needed - set(sizes)):
            raise CatdiagError(f"no size was given for {', '.join(missing)}: give one for each axis")
        costs = self._exhaustive(list(spans(count, self.most)), sizes, capacity, executor, progress)
        while True:
            transfers = {span: found[0].transfers for span, found in costs.items() if found is not None}
            ways = cheapest_cuts(count, transfers.get, kernels=limit, between=0)
            if not ways:
                return FusionVerdict(None, None, (), (), {}, True)
            total, spans_won = min(ways.values(), key=lambda way: (way[0], len(way[1])))
            won = [(c[0], self.kernel(*s).schedules[c[1]]) for s in spans_won if (c := costs[s]) is not None]
            dropped = self._dropped(spans_won, [schedule for _, schedule in won])
            if dropped is None:
                break
            costs |= {span: self.kernel(*span).exhaustive(sizes, capacity) for span in dropped}
        options = {used: self.at_cuts(start for start, _ in way if start) for used, (_, way) in ways.items()}
        return FusionVerdict(
            option=options[len(spans_won)],
            transfers=int(total),
            tiles=tuple(found.tiles for found, _ in won),
            schedules=tuple(schedule for _, schedule in won),
            by_kernels={used: (int(ways[used][0]), option) for used, option in options.items()},
            exhaustive=all(found[0].exhaustive for found in costs.values() if found is not None)
            and not any(self.kernel(*span).uncounted for span in costs),
        )

    def _exhaustive(
        self,
        every: Sequence[Span],
        sizes: Mapping[str, int],
        capacity: int,
        executor: Executor | None,
        progress: Progress | None,
    ) -> dict[Span, tuple[ExhaustiveOptimum, int] | None]:
        """The least transfers of each kernel, with the place of the schedule; counted here or by an executor."""
        costs: dict[Span, tuple[ExhaustiveOptimum, int] | None] = {}
        if executor is None:
            for number, span in enumerate(every, 1):
                costs[span] = self.kernel(*span).exhaustive(sizes, capacity)
                if progress is not None:
                    progress(number, len(every))
            return costs
        items = [(self.kernel(*span).diagram, dict(self.options), dict(sizes), capacity) for span in every]
        for span, found in zip(every, each(count_kernel, items, executor=executor, progress=progress), strict=True):
            # What was lost with a worker is counted here, and what failed fails here again, as it would without one.
            kernel = self.kernel(*span)
            if isinstance(found, Failed):
                costs[span] = kernel.exhaustive(sizes, capacity)
            else:
                # Schedules were left out here that a worker does not know of.
                costs[span], uncounted = found if not kernel.dropped else (kernel.exhaustive(sizes, capacity), False)
                kernel.uncounted = kernel.uncounted or uncounted
        return costs

    def _dropped(self, won: Sequence[Span], schedules: Sequence[Schedule]) -> list[Span] | None:
        """None if the schedules are proved as they were measured; the kernels that are to be measured again if not.

        A schedule that is not proved is left out.
        """
        good, retried = True, []
        for span, schedule in zip(won, schedules, strict=True):
            try:
                same = schedule.io.transfers == schedule.estimate.transfers
                same = same and schedule.io.memory == schedule.estimate.memory
                if not same:
                    schedule.__dict__["estimate"] = schedule.io
                    self.kernel(*span).dropped = True
            except REFUSED:
                self.kernel(*span).drop(schedule)
                same = False
            if not same:
                good = False
                retried.append(span)
        return None if good else retried

    def __str__(self) -> str:
        stages = len(self.row.stages)
        title = self.diagram.title or "the diagram"
        many = f"{stages} stages, {1 << (stages - 1)} ways to cut them" if stages > 1 else "1 stage, nothing to cut"
        lines = [f"{title}: {many}"]
        if stages > 2 * self.most:  # ways of one kernel or two have longer ones
            lines.append(f"  kernels of more than {self.most} stages are not compared; a kernel for each stage:")
            return "\n".join([*lines, f"  {self.unfused}"])
        shown = [
            self.fused,
            *([self.alternative] if self.alternative is not None else []),
            *([self.unfused] if stages > 2 else []),
        ]
        lines += [f"  {option}" for option in shown]
        for other in shown[1:]:
            if shown[0].leading is not None and other.leading is not None:
                lines.append(f"  against saving {', '.join(other.saved)}: {self.crossover(second=other)}")
        return "\n".join(lines)


def fusions(diagram: Diagram | HasDiagram, *, opened: bool = False, most: int = 10, **options: Any) -> Fusions:
    """The ways to cut a diagram into kernels; `opened` takes named boxes apart; kernels have `most` stages at most.

    The options are those of `catdiag.cost.traffic.io` (`dtype`, `stages`). Raises CatdiagError for a diagram that is
    derived already (with loops or groups), and for one that does nothing.

    >>> import catdiag as cd
    >>> f = cd.algorithm("t d, d f, f o -> t o", name="two")(
    ...     lambda X, U, W: cd.einsum("t f, f o -> t o", cd.einsum("t d, d f -> t f", X, U), W))
    >>> choice = fusions(f)
    >>> [way.saved for way in choice.options_of()]
    [(), ('einsum [t f]',)]
    >>> choice.best({"t": 512, "d": 16, "f": 64, "o": 16}, 2048).option.saved
    ()
    """
    diagram = diagram_of(diagram)
    if runs_in_kernels(diagram):
        raise CatdiagError("the diagram runs in loops or groups already: ask for its fusions before it is derived")
    if options.get("accumulators", "level") != "level":
        raise CatdiagError("fusions compares ways under one capacity: expected accumulators='level'")
    if isinstance(options.get("dtype"), Mapping):
        raise CatdiagError("fusions takes one dtype for all arrays that are saved: expected a name such as 'bf16'")
    row = StageSequence(diagram, opened)
    if not row.stages:
        raise CatdiagError(f"{diagram.title or 'the diagram'} has no box at work: there is nothing to cut")
    return Fusions(diagram, row, dict(options), most)
