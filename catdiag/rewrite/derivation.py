"""Derivations: a diagram, rewritten step by step, with the theorem that it still means the same.

A derivation never holds a bare diagram: each rewrite is proved when it is made, against the diagram that the
derivation began with, and what the kernel does not accept is not taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, overload

from catdiag.diagram import Diagram, of_graph
from catdiag.errors import (
    AxisError,
    CatdiagError,
    NotExpandable,
    NotFusable,
    NotGroupable,
    NotStabilisable,
    NotStreamable,
    require,
)

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    import numpy as np

    from catdiag.boxes import Box
    from catdiag.cost.bounds import LowerBound
    from catdiag.cost.devices import Spread
    from catdiag.cost.hardware import Hardware
    from catdiag.cost.hierarchy import Hierarchy
    from catdiag.cost.io import IO
    from catdiag.cost.levelled import LevelsIO
    from catdiag.cost.plan import Plan
    from catdiag.emit.state import StateFormulas
    from catdiag.gpu.compile import Compiled
    from catdiag.prove.api import Theorem
    from catdiag.rewrite.attempt import Origins
    from catdiag.rewrite.claims import Claims, Verdict
    from catdiag.rewrite.corollaries import Divisor
    from catdiag.rewrite.formula import Found
    from catdiag.rewrite.given import Fold
    from catdiag.rewrite.on_chip import Held
    from catdiag.rewrite.several import Plans
    from catdiag.rewrite.skip import Guide
    from catdiag.rewrite.stability import Stability
    from catdiag.rewrite.stream import Streamed
    from catdiag.solvers.z3 import Z3


@dataclass(frozen=True)
class Step:
    """One rewrite: its name, the diagram it led to, the theorem `source = diagram`, and what a stream found.

    `premises` are theorems beside it: of a fold that was given, that one element's state is what `element` gives.
    `note` is what the theorem, which is about real numbers, does not say, `dropped` are the boxes that subtract or
    divide by a maximum which the diagram no longer has, and `held` are the arrays that are on chip along all of the
    axis that is streamed.
    """

    name: str
    diagram: Diagram
    theorem: Theorem
    found: Found | None = None
    premises: tuple[Theorem, ...] = ()
    note: str = ""
    dropped: tuple[Box, ...] = ()
    held: Held | None = None

    @property
    def said(self) -> str:
        """Its name, and what a stream holds along all of its axis."""
        return f"{self.name}, but {self.held}" if self.held else self.name

    def __str__(self) -> str:
        return f"{self.said}: {self.theorem}"


@dataclass(frozen=True)
class Derivation:
    """A diagram derived from `source` by proved rewrites.

    `.diagram` is where it stands, `.steps` how it got there, `.theorem` says that both mean the same, under the
    assumptions about sizes `.assume`.
    """

    source: Diagram
    diagram: Diagram
    steps: tuple[Step, ...] = ()
    ungrouped: Diagram | None = None
    groups: tuple[str, ...] = ()
    assume: tuple[str, ...] = ()
    # The diagram as a rule left it, and what of it was in the source.
    stayed: tuple[Diagram, Origins] | None = field(default=None, repr=False, compare=False)
    ask: Z3 = field(repr=False, compare=False, kw_only=True)

    @staticmethod
    def start(source: Diagram, ask: Z3 | None = None) -> Derivation:
        """The derivation of no steps."""
        from catdiag.solvers.z3 import Z3

        return Derivation(source, source, ungrouped=source, ask=ask or Z3())

    # -- rewrites --------------------------------------------------------------------------------

    def stream(self, axis: str, by: Fold | None = None, passes: int = 1) -> Derivation:
        """With `axis` run through a loop over blocks of any size, keeping a state that is found here, or given.

        Where one loop does not do, up to `passes` of them follow each other, as few as will do, each with the results
        of those before it; results that keep the axis are then made by the last pass, tile by tile (`g_x`).

        `by` is a `cd.Fold(unit, element, merge, finish, state=…)`, which is proved or refuted. Raises NotStreamable,
        naming the reduction and the reason, where no state is found or proved; AxisError for an unknown axis; and for
        a fold that is given Refuted, with a list and its split into blocks, or Undecided, with the goal.

        >>> import catdiag as cd
        >>> dot = cd.algorithm("x, x ->")(lambda A, B: cd.sum(A * B, "x"))
        >>> print(dot.stream("x").steps[0].found.components[0].name)
        sum1
        """
        from catdiag.rewrite.on_chip import allocated_whole
        from catdiag.rewrite.passes import forms, plainer

        if isinstance(passes, (bool, type)) or not hasattr(passes, "__index__") or hasattr(passes, "shape"):
            raise NotStreamable(f"passes over axis {axis!r} is {passes!r}: expected a whole number of loops, 1 or more")
        if by is not None:
            if passes != 1:
                raise NotStreamable(f"a fold over axis {axis!r} is one loop: by= goes without passes={passes}")
            return self._stream_by(axis, by)
        base = self.ungrouped if self.ungrouped is not None else self.diagram
        title = f"{self.source.title or 'it'}.stream({axis!r}{f', passes={passes}' if passes > 1 else ''})"
        reasons: list[str] = []
        # Each state is tried by normal forms before more is tried for any.
        count, found = forms(base, axis, passes)
        chosen = self._first_proved(found, title, reasons)
        if chosen is None:
            count, found = plainer(base, axis, passes)
            chosen = self._first_proved(found, title, reasons)
        if chosen is None:
            more = f"; in {count} passes it can be: .stream({axis!r}, passes={count})" if count > passes else ""
            raise NotStreamable(
                f"{self.source.title or 'the diagram'} was not streamed over {axis!r}: a state was found, but not "
                f"proved: {'; '.join(reasons)}{more}"
            )
        streamed, theorem, form = chosen
        name = f"stream {axis}" + (f" in {count} passes" if count > 1 else "")
        held = allocated_whole(streamed, base, axis)
        step = Step(name, streamed, theorem, form.found, dropped=form.dropped, held=held)
        streamed_only = replace(self, diagram=streamed, ungrouped=streamed, groups=(), steps=(*self.steps, step))
        return streamed_only.group(self.groups) if self.groups else streamed_only

    def _first_proved(
        self, found: Sequence[Streamed], title: str, reasons: list[str]
    ) -> tuple[Diagram, Theorem, Streamed] | None:
        """The first of several forms that is proved, each by normal forms before more is tried for any."""
        settled: set[int] = set()
        for further, (k, candidate) in product((False, True), enumerate(found)):
            if k in settled:
                continue
            streamed = _titled(candidate.diagram, title)
            try:
                return streamed, self._prove(streamed, further), candidate
            except _NotProved as error:
                if error.reason not in reasons:
                    reasons.append(error.reason)
                if error.final:
                    settled.add(k)
        return None

    def _stream_by(self, axis: str, fold: Fold) -> Derivation:
        from catdiag.boxes import Fold as FoldBox
        from catdiag.rewrite.given_stream import stream_by
        from catdiag.rewrite.on_chip import allocated_whole
        from catdiag.rewrite.stream import divisions

        def prove(left: Diagram, right: Diagram, further: bool) -> Theorem | str:
            try:
                return self._prove(_titled(right, title), further, left)
            except _NotProved as error:
                return error.reason

        base = self.ungrouped if self.ungrouped is not None else self.diagram
        if any(isinstance(box.op, FoldBox) for box in base.boxes):
            raise NotStreamable(
                f"{self.source.title or 'the diagram'} runs in a loop already, which a given fold would replace: "
                "use .stream(axis, by=…) first"
            )
        title = f"{self.source.title or 'it'}.stream({axis!r}, by=…)"
        made = stream_by(self.source, axis, fold, self.assume, prove)
        streamed = _titled(made.diagram, title)
        # Whether a fold that is given keeps what the source divides by is not looked at.
        dropped = divisions(self.source, axis)
        held = allocated_whole(streamed, self.source, axis)
        step = Step(f"stream {axis}", streamed, made.theorem, made.found, (made.element,), dropped=dropped, held=held)
        derived = replace(self, diagram=streamed, ungrouped=streamed, groups=(), steps=(*self.steps, step), stayed=None)
        return derived.group(self.groups) if self.groups else derived

    def split(self, axis: str, parts: str | None = None) -> Derivation:
        """With the loop over `axis` in several parts at once, each with a state of its own, which are merged in order.

        `parts` is the symbol for how many there are (`p_` and the axis, if left out), for `run(…, tiles={"p_x": 4})`.
        It changes nothing of what the loop means, and of the theorem nothing: list induction is about every tree of
        merges. Streams the axis first if it is not. Raises NotStreamable as `stream` does, SignatureError for a symbol
        that is no name, AxisError for one that is a size already.

        >>> import catdiag as cd
        >>> dot = cd.algorithm("x, x ->")(lambda A, B: cd.sum(A * B, "x"))
        >>> dot.stream("x").split("x").run([1, 2, 3], [4, 5, 6], tiles={"p_x": 2})
        array(32.)
        """
        from catdiag.prove.export import program
        from catdiag.rewrite.parts import in_parts, is_streamed

        if not is_streamed(self.diagram, axis):
            return self.stream(axis).split(axis, parts)
        split = in_parts(self.diagram, axis, parts)
        ungrouped = None if self.ungrouped is None else in_parts(self.ungrouped, axis, parts)
        prefix = self.diagram.title or "it"
        same = self.steps and program(split) == program(self.diagram)
        split = _titled(split, f"{prefix}.split({axis!r}{'' if parts is None else f', {parts!r}'})")
        step = Step(f"split {axis}", split, self.theorem if same else self._prove(split))
        return replace(self, diagram=split, ungrouped=ungrouped, steps=(*self.steps, step), stayed=None)

    def stabilise(self, limit: float | None = None) -> Derivation:
        """With a maximum subtracted in the exponentials that the source runs without one, streamed and grouped as it
        was; itself where the argument of every exponential is proved to be at most 0. `limit` is the time in seconds
        for each exponential.

        `exp(s)` becomes `exp(s - max s)` where the result is a quotient of sums of exponentials, or a logarithm of one;
        each sum that another divides has a maximum with it.

        >>> import catdiag as cd
        >>> E = lambda S: cd.exp(S) / cd.sum(cd.exp(S), "x")
        >>> plain = cd.algorithm("x, x ->")(lambda S, V: cd.sum(E(S) * V, "x"))
        >>> [c.name for c in plain.stream("x").steps[-1].found.components]
        ['sum1', 'sum2']
        >>> [c.name for c in plain.stabilise().stream("x").steps[-1].found.components]
        ['max1', 'sum2', 'sum3']

        Raises NotStabilisable with the reason, where the maximum does not cancel, or it was not proved that it does.
        """
        from catdiag.rewrite.stabilise import stabilised

        kinds = [step.name.partition(" ")[::2] for step in self.steps]
        if other := next((kind for kind, _ in kinds if kind not in ("stream", "group", "stabilise")), None):
            raise CatdiagError(f"stabilise before {other!r}: a derivation is stabilised at its beginning")
        made = stabilised(self.source, self._claims(limit))
        if made is None:
            return self
        made = _titled(made, f"{self.source.title or 'it'}.stabilise()")
        fresh = Derivation(self.source, self.source, ungrouped=self.source, assume=self.assume, ask=self.ask)
        try:
            theorem = fresh._prove(made)
        except _NotProved as error:
            raise NotStabilisable(f"that a maximum may be subtracted was not proved: {error.reason}") from error
        found = replace(fresh, diagram=made, ungrouped=made, steps=(Step("stabilise", made, theorem),))
        for kind, names in kinds:
            if kind != "stabilise":
                axis, _, passes = names.removesuffix(" passes").partition(" in ")
                found = found.stream(axis, passes=int(passes or 1)) if kind == "stream" else found.group(names)
        return found

    def expand(self, axes: str | Sequence[str] | None = None) -> Derivation:
        """With sums over the named axes multiplied out: `Σ (a - b)²` as `Σ a² + Σ b² - 2·Σ a·b`, whose terms are sums
        over one array, and products of matrices. With no axes, all sums that are smaller so.

        What is summed is made of arrays by adding, subtracting, multiplying, dividing and nested sums, of which some
        step makes a larger array than each that it takes; what comes before that stays as it is, so that a difference
        `a - c` of arrays on the same axes is not taken apart. Where an axis is named and no step is so, what lacks the
        axis is taken out of its sum: `Σ (a - m)²` as `Σ a² - 2·m·Σ a + n·m²`.

        Over real numbers it is an equation, which is proved. In floating point the terms cancel: with points of size r
        at a distance δ, a squared distance has an error of about ε·r², where summed up as it is written it has ε·δ².
        It can come out below 0 too. Ask for it where r is not much larger than the distances that matter, or after
        both sides are moved near the origin: `Σ ((a - c) - (b - c))²` keeps `a - c`.

        Before `stream` and `group`. Raises NotExpandable, naming axis and box, where nothing is multiplied out or it is
        not proved; AxisError for an unknown axis.

        >>> import catdiag as cd
        >>> squares = cd.algorithm("q d, x d -> q x")(lambda a, b: cd.sum((a - b) ** 2, "d"))
        >>> near = squares.expand("d")
        >>> [box.name for box in near.diagram.boxes if box.name in ("sum[d]", "einsum")], near.theorem.conditional
        (['sum[d]', 'sum[d]', 'einsum'], False)
        """
        from catdiag.rewrite.expand import CANCELS, expanded
        from catdiag.signature import axis_names

        if axes is not None and not isinstance(axes, Iterable):
            raise AxisError(f"the axes to expand sums over are {axes!r}: expected their names, such as 'd'")
        names = axes if axes is None else axis_names(axes) if isinstance(axes, str) else list(axes)
        found = expanded(self.diagram, names)
        said = "" if names is None else repr(" ".join(names))
        made = _titled(found.diagram, f"{self.diagram.title or 'it'}.expand({said})")
        try:
            theorem = self._prove(made)
        except _NotProved as error:
            what = f"expanding sums over {said or 'all axes'} was not proved"
            if found.roots:
                raise NotExpandable(
                    f"{what} with max(…, 0) under sqrt, where a sum that is rounded can come out below 0: "
                    "write cd.sqrt(cd.maximum(…, 0))",
                    found.roots[0].line,
                ) from error
            raise NotExpandable(f"{what}: {error.reason}") from error
        note = CANCELS if found.cancels else ""
        step = Step(" ".join(["expand", *(names or ())]), made, theorem, note=note)
        return replace(self, diagram=made, ungrouped=made, steps=(*self.steps, step), stayed=None)

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do about exponentials that are not bounded, a line for each that the user wrote, the maxima and the
        casts that are in no derived loop, and what steps do in floating point.

        >>> import catdiag as cd
        >>> f = cd.algorithm("x ->")(lambda S: cd.log(cd.sum(cd.exp(S), "x"))).stream("x")
        >>> f.advice[0].startswith("exp(S) is not bounded"), f.stabilise().advice
        (True, ())
        """
        from catdiag.rewrite import casts
        from catdiag.rewrite.stabilise import stabilised
        from catdiag.rewrite.stability import lost_maxima

        left_out = (
            *lost_maxima(self._dropped),
            *(str(step.held) for step in self.steps if step.held),
            *casts.advice(self.source, self.diagram),
            *(s.note for s in self.steps if s.note),
        )
        found = [e for e in self.stability().unbounded if e.line]
        if not found:
            return left_out
        try:
            stabilised(self.source, self._claims(10.0))
            what = ".stabilise() subtracts the maximum"
        except NotStabilisable:
            what = "and .stabilise() has no maximum to subtract"
        return (*(f"exp({e.argument}) is not bounded: {what}\n  at {e.line}" for e in found), *left_out)

    def group(self, axes: str | Sequence[str]) -> Derivation:
        """With the named axes run in groups: tiles of any size, each on its own; several axes make one group.

        Raises NotGroupable, naming the box, where the diagram is not weaved over an axis; AxisError for an unknown one.

        >>> import catdiag as cd
        >>> double = cd.algorithm("q x")(lambda A: A + A)
        >>> double.group("q x").theorem.conditional
        False
        """
        from catdiag.rewrite.group import find
        from catdiag.signature import axis_names

        if not isinstance(axes, Iterable):
            raise AxisError(f"the axes to group are {axes!r}: expected their names, such as 'q'")
        names = axis_names(axes) if isinstance(axes, str) else list(axes)
        grouped = find(self.diagram, names)
        prefix = self.diagram.title or "it"
        grouped = _titled(grouped, f"{prefix}.group({' '.join(names)!r})")
        try:
            theorem = self._prove(grouped)
        except _NotProved as error:
            raise NotGroupable(f"grouping {' '.join(names)!r} was not proved: {error.reason}") from error
        step = Step(f"group {' '.join(names)}", grouped, theorem)
        return replace(self, diagram=grouped, groups=(*self.groups, *names), steps=(*self.steps, step))

    def skip(self, axis: str, extent: Guide | None = None, live: Guide | None = None) -> Derivation:
        """With the blocks of a streamed axis that a mask empties left out of its loop, for all block sizes.

        The loop runs from the first to the last block that some row needs, as the mask's comparisons of positions
        along the axis say; where they do not say all, a block is also passed over where its mask is false everywhere.

        `extent`, a function of some of the loop's inputs by name to integers lo and hi (or arrays of them, of which all
        count), says itself where what matters lies; `live`, one to truth values, what matters. They are proved, or
        refuted with a list, its blocks and what leaving them out changes.

        Raises NotStreamable where a state takes elements of every block, naming it, or where leaving them out was not
        proved; AxisError where no loop runs over the axis; Refuted; SignatureError and TypeMismatch for functions that
        do not fit the loop.

        >>> import catdiag as cd
        >>> total = cd.algorithm("q, x -> q")(
        ...     lambda n, a: cd.sum(cd.where(cd.index("x") <= cd.index("q"), a, 0), "x") + n)
        >>> total.stream("x").skip("x").theorem.conditional
        False
        >>> total.stream("x").skip("x", extent=lambda: (0, cd.index("q")))
        Traceback (most recent call last):
        ...
        catdiag.prove.api.Refuted: leaving out blocks of 'x' changes lambda
        ...
        """
        from catdiag.rewrite.skip import find

        prefix = self.diagram.title or "it"
        skipped = _titled(find(self.diagram, axis, extent, live), f"{prefix}.skip({axis!r})")
        whole = self.ungrouped if self.ungrouped is not None else self.diagram
        ungrouped = find(whole, axis, extent, live)
        try:
            theorem = self._prove(skipped)
        except _NotProved as error:
            if extent is not None or live is not None:
                self._refute_skip(ungrouped, axis)
            raise NotStreamable(
                f"leaving out blocks of {axis!r} that the mask empties was not proved: {error.reason}"
            ) from error
        step = Step(f"skip {axis}", skipped, theorem)
        return replace(self, diagram=skipped, ungrouped=ungrouped, steps=(*self.steps, step))

    def _refute_skip(self, skipped: Diagram, axis: str) -> None:
        from catdiag.prove.api import Refuted
        from catdiag.rewrite.given_false import MANY
        from catdiag.rewrite.skip_false import false_skip

        found = false_skip(self.source, skipped, axis, MANY, self.assume)
        if found is not None:
            raise Refuted(f"leaving out blocks of {axis!r} changes {self.source.title or 'the diagram'}", found)

    def fuse(self, on_chip: str | Sequence[str] | None = None, *, saved: str | Sequence[str] = ()) -> Derivation:
        """With the boxes put into kernels so that intermediate arrays stay on chip: all that can, or just those named.

        Those in `saved` go through slow memory, as do those that are not named in `on_chip` where it is given. Arrays
        are called as `io()` calls them, "exp [q x]", or by the variable that a line of the source gives the value to;
        several names are a list, or a text with commas. What a loop makes in its turns stays on chip anyway. Costs, the
        counting machine, `run` and `pseudocode` go kernel by kernel. To be called last.

        Raises NotFusable for a name that is none, and where what was asked for cannot be: kernels that would wait for
        each other, or an array that other tiles read than those that make it.

        >>> import catdiag as cd
        >>> f = cd.algorithm("q x", name="f")(lambda A: cd.exp(A) * A)
        >>> f.io().transfers, f.fuse(saved="exp [q x]").io().transfers
        (2*q*x, 5*q*x)
        """
        from catdiag.rewrite.fuse import asked

        fused, said = asked(self.diagram, on_chip, saved, self.source)
        same = self.steps and fused is self.diagram
        fused = _titled(fused, f"{self.diagram.title or 'it'}.fuse({said})")
        try:
            theorem = self.theorem if same else self._prove(fused)
        except _NotProved as error:
            raise NotFusable(f"the kernels were not proved to mean the same: {error.reason}") from error
        return replace(self, diagram=fused, steps=(*self.steps, Step("fuse", fused, theorem)), stayed=None)

    def _prove(self, diagram: Diagram, further: bool = True, source: Diagram | None = None) -> Theorem:
        from catdiag.kernel.terms import KernelError
        from catdiag.prove.api import Interrupted, certify_equation
        from catdiag.prove.find import Open
        from catdiag.solvers.z3 import SolverInterrupted

        try:
            earlier = self.theorem.certificate if self.steps else None
            left = source or self.source
            theorem = certify_equation(self.ask, left, diagram, self.assume, further=further, earlier=earlier)
        except Open as error:
            raise _NotProved(error.goal, error.large) from error
        except SolverInterrupted as error:
            raise Interrupted(f"a proof was interrupted: {error}") from error
        except KernelError as error:
            raise _NotProved(str(error)) from error
        if theorem.conditional:
            raise _NotProved("it would newly need " + "; ".join(theorem.conditions), True)
        return theorem

    # -- readings ----------------------------------------------------------------------------------

    @property
    def theorem(self) -> Theorem:
        """The theorem that the source and the derived diagram mean the same, for all sizes, blocks and tiles."""
        if not self.steps:
            raise CatdiagError("nothing was derived yet: use .stream(axis) or .group(axes)")
        return self.steps[-1].theorem

    def stability(self, limit: float | None = None) -> Stability:
        """What is proved of each exponential that the derived diagram runs: that its argument is at most 0, on every
        state that is reached and every block. `limit` is the time in seconds for each of them.

        >>> import catdiag as cd
        >>> f = cd.algorithm("q x")(lambda S: cd.sum(cd.exp(S - cd.max(S, "x")), "x"))
        >>> print(f.stream("x").stability())
        step: exp(max1 - max1′) ≤ 1: proved
        step: exp(S - max1′) ≤ 1: proved
        merge: exp(max1 - max1″) ≤ 1: proved
        merge: exp(max1′ - max1″) ≤ 1: proved
        no exponential overflows: every argument is at most 0
        """
        from catdiag.rewrite.stability import stability

        claims = self._claims(limit)
        if limit not in self._stability:
            self._stability[limit] = replace(stability(self.diagram, claims), dropped=self._dropped)
        return self._stability[limit]

    @property
    def _dropped(self) -> tuple[Box, ...]:
        """The boxes of the source that subtract or divide by a maximum which some step dropped."""
        return tuple(dict.fromkeys(box for step in self.steps for box in step.dropped))

    @cached_property
    def _stability(self) -> dict[float | None, Stability]:
        """What was found of exponentials, by the time that each was given."""
        return {}

    @property
    def stable(self) -> bool:
        """Whether the argument of every exponential is proved to be at most 0, so that none overflows, and every
        maximum is kept that the source subtracts or divides by.
        """
        return self.stability().proved

    def normalisers(self, limit: float | None = None) -> list[Divisor]:
        """The divisors and arguments of logarithms of the results of loops: proved positive, or hypotheses."""
        from catdiag.rewrite.corollaries import divisors

        return divisors(self.diagram, self._claims(limit))

    @cached_property
    def commutes(self) -> Theorem | None:
        """The theorem that the merge of the loop is commutative on all states that are reached; None where it is not
        proved, or the diagram has no loop, or several of which one's is not proved.

        >>> import catdiag as cd
        >>> cd.algorithm("x ->")(lambda A: cd.sum(A, "x")).stream("x").commutes is None
        False
        """
        from catdiag.rewrite.corollaries import commutativity, loops

        flat, places = loops(self.diagram)
        found = [commutativity(flat, place, self._claims(10.0)) for place in places]
        return found[0].theorem if found and all(v.proved for v in found) else None

    def verdicts(self, limit: float | None = None) -> dict[str, Verdict]:
        """All that is claimed of the loops beside the equation, by name, with how each claim ended.

        Of each loop that its merge is associative, and commutative, on states that are reached; that empty lists,
        blocks of one and a shorter last block are like others; that divisors are positive; that exponentials do not
        overflow. `limit` is the time in seconds for each claim.
        """
        from catdiag.rewrite.corollaries import verdicts

        return verdicts(self.diagram, self._claims(limit))

    def theorems(self, limit: float | None = None) -> dict[str, Theorem]:
        """The theorems of the derivation by name: the equation, and what of `verdicts` is proved without conditions.

        >>> import catdiag as cd
        >>> for name in cd.algorithm("x ->")(lambda A: cd.sum(A, "x")).stream("x").theorems():
        ...     print(name)
        equation
        merge gives the state of the whole
        merge is associative
        merge is commutative
        an empty list changes nothing
        blocks of one
        a shorter last block
        """
        found = {name: v.theorem for name, v in self.verdicts(limit).items() if v.proved and v.theorem is not None}
        return {"equation": self.theorem, **found}

    def _claims(self, limit: float | None) -> Claims:
        from catdiag.prove.api import check_limit
        from catdiag.rewrite.claims import Claims

        check_limit(limit)
        return Claims(self.ask, self.assume, limit)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return self.source.input_names

    def run(
        self,
        *arrays: np.ndarray,
        tiles: Mapping[str, int] | None = None,
        sizes: Mapping[str, int] | None = None,
        tree: str | int | Random | None = None,
    ) -> Any:
        """Runs the derived diagram on NumPy arrays, really in blocks and tiles.

        `tiles` gives their sizes by symbol, `{"s_x": 64, "g_q": 128}`, and the number of parts of a split loop,
        `{"p_x": 4}`; those left out are whole axes, and one part. `sizes` gives those that no input shows. With `tree`,
        the states of blocks are merged in a tree, `"balanced"` or random (a seed, or a `random.Random`): of any tree
        the theorem holds. Raises SizeError for unknown symbols or sizes below 1, CatdiagError for another tree.
        """
        from catdiag.run.numpy import run

        return run(self.diagram, arrays, tiles, sizes=sizes, tree=tree)

    def __call__(self, *arrays: np.ndarray) -> Any:
        """`run` with whole axes."""
        return self.run(*arrays)

    @overload
    def io(self, *, levels: None = None, **options: Any) -> IO: ...

    @overload
    def io(self, *, levels: Sequence[str] | Hierarchy, **options: Any) -> LevelsIO: ...

    def io(self, *, levels: Sequence[str] | Hierarchy | None = None, **options: Any) -> IO | LevelsIO:
        """Transfers and memory at two levels: values, or bytes with `dtype=`; `stages` buffers of streamed blocks.

        With `levels`, at every edge and level of a chain, slowest first. The options are those of `catdiag.cost.io.io`,
        and of `catdiag.cost.levels.levels_io`; axes that `within` cuts at some level and that are not grouped are
        grouped first, with proof. Raises NotGroupable where they cannot be.

        >>> import catdiag as cd
        >>> row = cd.algorithm("q x")(lambda A: cd.sum(A, "x")).stream("x").group("q")
        >>> row.io(levels=("HBM", "SMEM", "registers")).memory["registers"]
        g2_q*s2_x + g2_q
        """
        if levels is None:
            plain: IO = self.diagram.io(**options)
            return plain
        from catdiag.rewrite.nested import cut

        diagram, within = cut(self, levels, options.pop("within", None))
        found: LevelsIO = diagram.io(levels=levels, within=within, **options)
        return found

    def lower_bound(self, capacity: Any = None, **options: Any) -> LowerBound:
        """What any schedule of the derived diagram's scalar operations moves at least; see `catdiag.cost.bounds`.

        Groups and kernels do the operations of the diagram that was put in groups, which is what the bound is read off.
        """
        from catdiag.cost.bounds import lower_bound

        last = len(self.steps)
        while last and (self.steps[last - 1].name == "fuse" or self.steps[last - 1].name.startswith(("group ", "cut"))):
            last -= 1
        return lower_bound(self.steps[last - 1].diagram if last else self.source, capacity, **options)

    def fit(self, hardware: Hardware | str, sizes: Mapping[str, int], **options: Any) -> Plan:
        """The tiles of least predicted time on a machine, with z3's proof that they fit.

        The options are those of `catdiag.cost.plan.fit`: `dtype`, `stages`, fixed `tiles`, the `objective`, … . Raises
        DoesNotFit, with what each array takes.
        """
        from catdiag.cost.plan import fit

        return fit(self, hardware, sizes, **options)

    def plan(self, hardware: Hardware | str, sizes: Mapping[str, int], **options: Any) -> Plans:
        """The kernels of least predicted time for what was derived so far, which runs in no loops or groups yet, as a
        plan of the source: see `Diagram.plan`. Raises as that does.
        """
        from catdiag.rewrite.several import continued

        return continued(self, self.diagram.plan(hardware, sizes, ask=self.ask, **options))

    def spread(self, over: Mapping[str, int | str], **options: Any) -> Spread:
        """The derived diagram on several devices: what each receives, holds and computes (`catdiag.cost.devices`).

        `over` gives the number of devices, or its symbol, for each spread axis: one that is grouped, or one that is
        streamed. The options are `held` and `dtype`.

        >>> import catdiag as cd
        >>> rows = cd.algorithm("a b, b -> a", name="rows")(lambda A, v: cd.sum(A * v, "b")).stream("b").group("a")
        >>> rows.spread({"a": "P"}).received
        b*(P - 1)/P
        """
        from catdiag.cost.devices import spread

        return spread(self.diagram, over, **options)

    def formulas(self) -> StateFormulas:
        """What the loops carry, as formulas: unit, element, repair, step and merge of each state, and the finish.

        >>> import catdiag as cd
        >>> dot = cd.algorithm("x, x ->")(lambda A, B: cd.sum(A * B, "x"))
        >>> dot.stream("x").formulas().loops[0].components[0].step
        'sum1 + Σ_x A·B'
        """
        from catdiag.emit.state import formulas

        return formulas(self.diagram)

    def pseudocode(self) -> str:
        """The loops of the derived diagram as formulas: what each loads, carries, computes and saves.

        >>> import catdiag as cd
        >>> total = cd.algorithm("q x", name="total")(lambda A: cd.sum(A, "x"))
        >>> print(total.stream("x").group("q").pseudocode())
        total.stream('x').group('q'): A[q x] → out[q]
        for each tile of q (g_q at a time), in parallel:
            start: sum1[q] = 0
            for each block of x (s_x at a time):
                load A[q x]
                sum1[q] = sum1 + Σ_x A
            save out[q] = sum1
        """
        from catdiag.emit.pseudocode import pseudocode

        return pseudocode(self.diagram)

    def numpy(self) -> str:
        """The loops of the derived diagram as the source of a function of plain NumPy (see `catdiag.emit.numpy`)."""
        from catdiag.emit.numpy import source

        return source(self.diagram)

    def triton(
        self, tiles: Mapping[str, int], dtype: str | Mapping[str, str] = "bf16", *, stages: int = 2, warps: int = 4
    ) -> str:
        """The derived diagram as a Triton module, self-contained: its text (see `catdiag.emit.triton.module`).

        `tiles` gives each tile and block its length, a power of two. Raises SizeError for one that is missing,
        TypeMismatch for what has no form in a kernel.
        """
        from catdiag.emit.triton import module

        return module(self.diagram, tiles, dtype, stages=stages, warps=warps).text

    def compile(
        self, tiles: Mapping[str, int], dtype: str | Mapping[str, str] = "bf16", *, stages: int = 2, warps: int = 4
    ) -> Compiled:
        """The derived diagram as a function of torch tensors, registered with torch (see `catdiag.gpu.compile`).

        The arguments are those of `triton`; the same ones give the same function. Raises what it raises, and
        CatdiagError where torch or triton is not installed.
        """
        from catdiag.gpu.planned import compiled_of

        types = dtype if isinstance(dtype, str) else tuple(dtype.items())
        place = (tuple(tiles.items()), types, stages, warps)
        if place not in self._kernels:
            self._kernels[place] = compiled_of(self.diagram, self.source, tiles, dtype, stages=stages, warps=warps)
        return self._kernels[place]

    @cached_property
    def _kernels(self) -> dict[Any, Compiled]:
        """The kernels that were compiled, by what they were asked for with."""
        return {}

    def html(
        self,
        path: str | Path | None = None,
        *,
        on: Hardware | str | None = None,
        sizes: Mapping[str, int] | None = None,
        dtype: str = "bf16",
        theorems: bool = False,
        times: bool = False,
    ) -> str:
        """The derivation as one HTML page that needs nothing else, written to `path` where one is given.

        It has the steps, the theorem with its certificate to download, the state, the loops, H and M, the optimum, the
        lower bound, and with a chip `on` and `sizes` the plan for `dtype`. With `theorems`, all that is claimed of the
        loops is proved too. The same derivation gives the same bytes, but for `times`, which says how long proofs took.

        Raises CatdiagError where nothing was derived yet, SizeError for a chip without sizes, or sizes that are
        missing; OSError where the file cannot be written: it is written whole or not at all.

        >>> import catdiag as cd
        >>> twice = cd.algorithm("q", name="twice")(lambda A: A + A).group("q")
        >>> twice.html().startswith("<!DOCTYPE html>")
        True
        """
        import os

        from catdiag.draw.report.facts import gathered
        from catdiag.draw.report.page import page
        from catdiag.files import write_whole

        named = path is None or (isinstance(path, (str, os.PathLike)) and str(path) != "")
        require(named, "path", path, "the name of a file to write, such as 'page.html'")
        require(isinstance(times, bool), "times", times, "True or False")
        written = page(gathered(self, on, sizes, dtype, theorems), times)
        if path is not None:
            write_whole(path, written)
        return written

    def _repr_html_(self) -> str:
        """For notebooks: as HTML."""
        from catdiag.draw.report.notebook import of_derivation

        return of_derivation(self)

    def svg(self, **options: Any) -> str:
        """The picture of the derived diagram as SVG: the options of `Diagram.svg`."""
        return self.diagram.svg(**options)

    def tikz(self, **options: Any) -> str:
        """The picture of the derived diagram as LaTeX: the options of `Diagram.tikz`."""
        return self.diagram.tikz(**options)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How Hypothesis and IPython print the derivation: as the program where it stands."""
        self.diagram._repr_pretty_(printer, cycle)

    def _repr_svg_(self) -> str:
        """How a notebook shows the derivation where it cannot show a page."""
        from catdiag.draw.api import shown

        return shown(self.diagram)

    def __str__(self) -> str:
        lines = ["; ".join([str(self.source), *(step.said for step in self.steps if step.held)])]
        for step in self.steps:
            lines.append(f"{step.name}: {step.theorem.seconds * 1000:.0f} ms")
        if self.steps:
            lines.extend("  " + line for line in str(self.formulas()).splitlines())
        return "\n".join(lines)


class _NotProved(Exception):
    def __init__(self, reason: str, final: bool = False) -> None:
        super().__init__(reason)
        # `final` where a longer search ends no differently.
        self.reason, self.final = reason, final


def _titled(diagram: Diagram, title: str) -> Diagram:
    return of_graph(diagram.graph, diagram.cod, diagram.names, title)
