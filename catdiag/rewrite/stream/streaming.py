"""The rewrite `stream`: an axis in a loop over blocks, with proof; and `split`: that loop in parallel parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from catdiag.category.diagram import Diagram
from catdiag.category.ops import FoldOp as FoldBox
from catdiag.prover.api import Theorem
from catdiag.prover.export import program
from catdiag.rewrite.derivation import Derivation, NotProved, Step, titled
from catdiag.rewrite.group import group
from catdiag.rewrite.split import in_parts, is_streamed
from catdiag.rewrite.steps import Split, Stream
from catdiag.rewrite.stream.fold_search import divisions
from catdiag.rewrite.stream.loop_builder import Streamed
from catdiag.rewrite.stream.multi_pass import forms, plain_forms
from catdiag.rewrite.stream.user_fold import Fold
from catdiag.rewrite.stream.user_fold_stream import stream_by
from catdiag.rewrite.stream.whole_axis_arrays import whole_arrays
from catdiag.util.errors import NotStreamable


def stream(derivation: Derivation, axis: str, by: Fold | None = None, passes: int = 1) -> Derivation:
    """With `axis` run in a loop over blocks of any size. Its state is found here, or given by the user.

    If one loop does not suffice, up to `passes` loops run in sequence, as few as suffice, and each reads the results of
    those before it. Results that have the axis are then computed by the last pass, in tiles (`g_x`).

    `by` is a fold `cd.Fold(unit, element, merge, finish, state=…)`, which is proved or refuted. Raises NotStreamable,
    naming the reduction and the reason, where no state is found or its equation is not proved; AxisError for an unknown
    axis. For a given fold: Refuted, with a list and its blocks, or Undecided, with the goal.

    >>> from catdiag.frontend import builder as build
    >>> dot = build.algorithm("x, x ->")(lambda A, B: build.sum(A * B, "x"))
    >>> print(stream(Derivation.start(dot), "x").steps[0].formula.components[0].name)
    sum1
    """
    if isinstance(passes, (bool, type)) or not hasattr(passes, "__index__") or hasattr(passes, "shape"):
        raise NotStreamable(f"passes over axis {axis!r} is {passes!r}: expected a whole number of loops, 1 or more")
    if by is not None:
        if passes != 1:
            raise NotStreamable(f"a fold over axis {axis!r} is one loop: by= goes without passes={passes}")
        return _stream_by(derivation, axis, by)
    base, source = derivation.base, derivation.source
    title = f"{source.title or 'it'}.stream({axis!r}{f', passes={passes}' if passes > 1 else ''})"
    reasons: list[str] = []
    # Every candidate is tried with normal forms before a proof search is made for any of them.
    count, found = forms(base, axis, passes)
    chosen = _first_proved(derivation, found, title, reasons)
    if chosen is None:
        count, found = plain_forms(base, axis, passes)
        chosen = _first_proved(derivation, found, title, reasons)
    if chosen is None:
        more = f"; in {count} passes it can be: .stream({axis!r}, passes={count})" if count > passes else ""
        raise NotStreamable(
            f"{source.title or 'the diagram'} was not streamed over {axis!r}: a state was found, but not "
            f"proved: {'; '.join(reasons)}{more}"
        )
    streamed, theorem, form = chosen
    retained = whole_arrays(streamed, base, axis)
    step = Step(Stream(axis, count), streamed, theorem, dropped=form.dropped, retained=retained)
    return _regrouped(derivation, step)


def _regrouped(derivation: Derivation, step: Step) -> Derivation:
    """The derivation with a further step, grouped as it was before."""
    made = replace(derivation, diagram=step.diagram, ungrouped=step.diagram, groups=(), steps=(*derivation.steps, step))
    return group(made, derivation.groups) if derivation.groups else made


def _first_proved(
    derivation: Derivation, found: Sequence[Streamed], title: str, reasons: list[str]
) -> tuple[Diagram, Theorem, Streamed] | None:
    """The first candidate that is proved. All are tried with normal forms before a proof search is made for any."""
    settled: set[int] = set()
    for further, (k, candidate) in product((False, True), enumerate(found)):
        if k in settled:
            continue
        streamed = titled(candidate.diagram, title)
        try:
            return streamed, derivation.prove(streamed, further), candidate
        except NotProved as error:
            if error.reason not in reasons:
                reasons.append(error.reason)
            if error.final:
                settled.add(k)
    return None


def _stream_by(derivation: Derivation, axis: str, fold: Fold) -> Derivation:
    """The derivation streamed by a fold that the user gave."""
    source = derivation.source
    title = f"{source.title or 'it'}.stream({axis!r}, by=…)"

    def prove(left: Diagram, right: Diagram, further: bool) -> Theorem | str:
        try:
            return derivation.prove(titled(right, title), further, left)
        except NotProved as error:
            return error.reason

    if any(isinstance(box.op, FoldBox) for box in derivation.base.boxes):
        raise NotStreamable(
            f"{source.title or 'the diagram'} runs in a loop already, which a given fold would replace: "
            "use .stream(axis, by=…) first"
        )
    made = stream_by(source, axis, fold, derivation.assume, prove)
    streamed = titled(made.diagram, title)
    # Whether the user's fold keeps the maxima that the source divides by is not examined.
    dropped = divisions(source, axis)
    retained = whole_arrays(streamed, source, axis)
    step = Step(Stream(axis), streamed, made.theorem, (made.element,), dropped=dropped, retained=retained)
    return _regrouped(replace(derivation, unchanged=None), step)


def split(derivation: Derivation, axis: str, parts: str | None = None) -> Derivation:
    """With the loop over `axis` split into parallel parts, each with a state of its own, which are merged in order
    (split-K).

    `parts` is the symbol of their number (default: `p_` and the axis), as in `run(…, tiles={"p_x": 4})`. The meaning
    does not change, and neither does the theorem: list induction covers every tree of merges. An axis that is not
    streamed yet is streamed first. Raises NotStreamable as `stream` does, SignatureError for a symbol that is no
    identifier, AxisError for one that is a size already.
    """
    if not is_streamed(derivation.diagram, axis):
        return split(stream(derivation, axis), axis, parts)
    made = in_parts(derivation.diagram, axis, parts)
    ungrouped = None if derivation.ungrouped is None else in_parts(derivation.ungrouped, axis, parts)
    prefix = derivation.diagram.title or "it"
    same = derivation.steps and program(made) == program(derivation.diagram)
    made = titled(made, f"{prefix}.split({axis!r}{'' if parts is None else f', {parts!r}'})")
    theorem = derivation.theorem if same else derivation.prove(made)
    return derivation.then(Split(axis, parts), made, theorem, ungrouped=ungrouped, unchanged=None)
