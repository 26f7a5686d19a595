"""Counterexamples to a user's fold: lists, with their blocks, for which it gives another result than the diagram.

Only the parts of the fold are used. Lists of one to four elements are folded element by element in blocks, the states
of the blocks are merged, and `finish` is compared with the diagram's result in exact arithmetic. Where specifications
of the states are known, the states are compared with them too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import pairwise
from typing import Any

from catdiag.category.diagram import Diagram
from catdiag.category.index_maps import Expr, Read, View, plus
from catdiag.category.ops import const_box, index_box, reindex_box
from catdiag.category.types import Axis
from catdiag.prover.api import statement_of
from catdiag.prover.export import size_data
from catdiag.prover.refute.counterexample_data import Counterexample, value_text
from catdiag.prover.refute.counterexample_search import refute
from catdiag.rewrite.graph_builder import GraphBuilder
from catdiag.rewrite.stream.user_fold import UserFold, use, writer

FEW, MANY = 6, 60
"""Batches of inputs that are tried for each way to cut a list: at first, and in the end."""


@dataclass(frozen=True)
class FoldCounterexample(Counterexample):
    """A list for which a fold is wrong: sizes and exact arrays, how it is cut into blocks (`.split`), and both values.

    `.lhs` is the value of the reference (`.reference_name`, by default the diagram as written), `.rhs` the value after
    merging the states of the blocks; `.blocks_of` are the block lengths.
    """

    split: str = ""
    reference_name: str = "the textbook form"
    merging: str = "merging"
    blocks_of: tuple[int, ...] = ()

    @property
    def verdict(self) -> str:
        """The two values, as text."""
        where = ", ".join(f"{a}={i}" for a, i in self.index.items())
        at = f" at {where}" if where else ""
        first = f"{self.split}\n{self.reference_name} gives {value_text(self.lhs)}"
        if self.undefined is not None:
            return f"{first}{at}, {self.merging} is not defined: {self.reason}"
        return f"{first}, {self.merging} gives {value_text(self.rhs)}{at}"


@dataclass(frozen=True)
class Trial:
    """Two diagrams on lists of one length that are equal if the fold is right, with a description."""

    left: Diagram
    right: Diagram
    length: int
    split: str
    reference_name: str = "the textbook form"
    merging: str = "merging"
    blocks: tuple[int, ...] = ()
    undefined: bool = True
    """Whether the right side has to be defined where the left side is."""


# Merging with the empty list on the right only tests that it changes nothing. It may be undefined, since no loop and no
# tree of merges does it.
_SPLITS: tuple[tuple[int, ...], ...] = ((1,), (0, 1), (1, 1), (1, 2), (2, 1), (2, 2), (1, 1, 2), (1, 0), (2, 0))
WITH_EMPTY = tuple(split for split in _SPLITS if 0 in split)
"""The ways to cut a list of which one block is empty: all that a theorem about the loop says little of."""


def trials(given: UserFold, states: bool = True, splits: Sequence[tuple[int, ...]] = _SPLITS) -> Iterator[Trial]:
    """The lists that a fold is tried on, in the order of `splits`, the ways to cut them; with `states`, comparisons too
    of states with their specifications.
    """
    for split in splits:
        length = sum(split)
        builder = writer(list(given.source.dom))
        blocks = [_folded(builder, given, range(sum(split[:k]), sum(split[: k + 1]))) for k in range(len(split))]
        state = blocks[0]
        for other in blocks[1:]:
            state = use(builder, given.merge, [*state, *other])
        right = builder.diagram(given.finished(builder, state), given.source.names)
        yield Trial(given.source, right, length, _words(length, split), blocks=split, undefined=split[-1] > 0)
    if given.missing or not states:
        return
    named = "the state of the whole list by state="
    for split in _SPLITS[:6]:
        length = sum(split)
        builder = writer(list(given.source.dom))
        left = builder.diagram(_state(builder, given, 0, length), given.source.names)
        builder = writer(list(given.source.dom))
        if split == (1,):
            right = builder.diagram(_folded(builder, given, range(1)), given.source.names)
            yield Trial(left, right, 1, "a list of one element", named, "element", split)
            continue
        first = use(builder, given.unit, ()) if split[0] == 0 else _state(builder, given, 0, split[0])
        second = _state(builder, given, split[0], split[1])
        right = builder.diagram(use(builder, given.merge, [*first, *second]), given.source.names)
        words = f"a list of {length} in blocks of {split[0]} and {split[1]}, their states as state= says"
        yield Trial(left, right, length, words, named, "merging", split)


def false_fold(
    given: UserFold,
    tries: int,
    assume: Sequence[str] = (),
    states: bool = True,
    splits: Sequence[tuple[int, ...]] = _SPLITS,
) -> FoldCounterexample | None:
    """A list, replayed, for which a fold is wrong; None where none is found in `tries` batches for each way to cut it.

    `assume` are assumptions about sizes. With `states`, the fold's specifications of its states are tried too. `splits`
    are the ways to cut lists.
    """
    return refuted(trials(given, states, splits), given.axis, tries, assume)


def refuted(
    candidates: Iterable[Trial], axis: Axis, tries: int, assume: Sequence[str] = ()
) -> FoldCounterexample | None:
    """A list, replayed, for which the sides of some trial differ; None where none is found in `tries`
    batches for each.
    """
    late: list[tuple[Trial, dict[str, Any]]] = []
    for partial in (False, True):
        here = late if partial else ((t, _statement(axis, t, assume)) for t in candidates)
        for trial, statement in here:
            if partial and not trial.undefined:
                continue
            found = refute(statement, tries=tries, partial=partial)
            if found is None:
                if not partial:
                    late.append((trial, statement))
                continue
            return _fold_counterexample(found, trial)
    return None


def _statement(axis: Axis, trial: Trial, assume: Sequence[str]) -> dict[str, Any]:
    statement = statement_of(trial.left, trial.right, assume)
    length = ["eq", size_data(axis.size), trial.length]
    return {**statement, "assume": [*statement["assume"], length]}


def _fold_counterexample(found: Counterexample, trial: Trial) -> FoldCounterexample:
    known = {f.name: getattr(found, f.name) for f in fields(Counterexample)}
    return FoldCounterexample(
        **known, split=trial.split, reference_name=trial.reference_name, merging=trial.merging, blocks_of=trial.blocks
    )


# -- lists, element by element ----------------------------------------------------------------------


def read_part(builder: GraphBuilder, wire: int, axis: Axis, start: Expr, length: int | None) -> int:
    """The elements of an array from a position on: `length` of them, or one without the axis (None). An array without
    the axis itself.
    """
    ty = builder.types[wire]
    if ty.axis(axis.name) is None:
        return wire
    made = () if length is None else (Axis(axis.name, length),)
    at = start if length is None else plus(("i", axis.name), start)
    return builder.add(reindex_box(View(made, (Read(((axis.name, at),)),)), [ty]), (wire,))


def _folded(builder: GraphBuilder, given: UserFold, places: Sequence[int]) -> list[int]:
    """The state of a block, folded element by element; the unit for an empty block."""
    if not places:
        return use(builder, given.unit, ())
    found: list[int] = []
    for place in places:
        inputs = [read_part(builder, w, given.axis, place, None) for w in range(len(given.source.dom))]
        position = builder.add(const_box(Fraction(place), "int"), ())
        wires = use(builder, given.element, [*inputs, position])
        state = [builder.cast(w, ty) for w, ty in zip(wires, given.states, strict=True)]
        found = use(builder, given.merge, [*found, *state]) if found else state
    return found


def _state(builder: GraphBuilder, given: UserFold, start: int, length: int) -> list[int]:
    """The state of a part of the list by its specification."""
    positions = builder.add(index_box(given.axis), ())
    wires = [*range(len(given.source.dom)), positions]
    return use(builder, given.of_list(length), [read_part(builder, w, given.axis, start, length) for w in wires])


def _words(length: int, split: Sequence[int]) -> str:
    """A description of how a list is cut.

    >>> _words(3, (1, 2))
    'a list of 3, in blocks [0, 1) and [1, 3), each folded element by element'
    """
    if len(split) == 1:
        return "a list of one element, in one block"
    bounds = [sum(split[:k]) for k in range(len(split) + 1)]
    parts = ["the empty block" if a == b else f"[{a}, {b})" for a, b in pairwise(bounds)]
    text = ", ".join(parts[:-1]) + f" and {parts[-1]}"
    return f"a list of {length}, in blocks {text}" + (", each folded element by element" if max(split) > 1 else "")
