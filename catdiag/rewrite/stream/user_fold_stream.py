"""A diagram streamed by a user's fold: proved, refuted or undecided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catdiag.category.diagram import Diagram
from catdiag.category.index_maps import Read, View
from catdiag.category.ops import reindex_box
from catdiag.prover.api import Refuted, Undecided, how_false
from catdiag.rewrite.stream.user_fold import Fold, UserFold, use, writer
from catdiag.rewrite.stream.user_fold_counterexample import FEW, MANY, WITH_EMPTY, false_fold
from catdiag.rewrite.stream.user_fold_state import with_states
from catdiag.rewrite.stream.user_fold_tracing import require_streamed, typed
from catdiag.util.errors import NotStreamable

if TYPE_CHECKING:
    from catdiag.prover.api import Theorem

Prove = Callable[[Diagram, Diagram, bool], "Theorem | str"]
"""Proves that two diagrams mean the same, or gives the goal it stopped at; the last argument asks for a search."""


@dataclass(frozen=True)
class GivenStream:
    """A diagram with the user's loop, its theorem, and the theorem about one element."""

    diagram: Diagram
    theorem: Theorem
    element: Theorem


def stream_by(source: Diagram, axis: str, fold: Fold, assume: Sequence[str], prove: Prove) -> GivenStream:
    """The diagram with an axis folded by the user's fold.

    Raises Refuted with a list and its blocks where the fold is wrong; NotStreamable, naming the component, where no
    specification of a component was found; Undecided, with the goal, where neither a proof nor such a list was found;
    and what `typed` raises.
    """
    title = f"{source.title or 'the diagram'} by the fold over {axis!r}"
    given = typed(fold, source, require_streamed(source, axis))

    def refute(here: UserFold, tries: int, states: bool = True) -> None:
        found = false_fold(here, tries, assume, states)
        if found is not None:
            raise Refuted(how_false(title, found), found)

    guessed = bool(given.missing)
    if guessed:
        # No specification fits a wrong fold, and a few trials show that it is wrong, with empty lists among them.
        refute(given, FEW)
        try:
            given = with_states(given)
        except NotStreamable:
            refute(given, MANY)
            raise
    diagram, _ = given.loop()
    one, same = _of_one(given)
    goal = ""
    proved: Theorem | None = None
    for further in (False, True):
        theorem = proved or prove(source, diagram, further)
        element = theorem if isinstance(theorem, str) else prove(one, same, further)
        if isinstance(theorem, str) or isinstance(element, str):
            goal = theorem if isinstance(theorem, str) else f"the state of one element is what element gives: {element}"
            proved = None if isinstance(theorem, str) else theorem
            refute(given, MANY if further else FEW, not guessed)
            continue
        # That the empty list on the right changes nothing is no premise of the loop, but a law of folds.
        found = None if guessed else false_fold(given, FEW, assume, states=False, splits=WITH_EMPTY)
        if found is not None:
            raise Refuted(how_false(title, found), found)
        return GivenStream(diagram, theorem, element)
    if guessed and false_fold(given, FEW, assume) is not None:
        names = ", ".join(given.names[k] for k in typed(fold, source, given.axis).missing)
        raise NotStreamable(f"{title}: {names} as a function of the list was not found; give it as state=", fold.line)
    raise Undecided(f"{title} is undecided", goal)


def _of_one(given: UserFold) -> tuple[Diagram, Diagram]:
    """The specification on a list of one element, and the state that `element` gives."""
    left = given.of_list(1)
    builder = writer(list(left.dom))
    wires = []
    for w, ty in enumerate(left.dom):
        view = View((), (Read(((given.axis.name, 0),)),))
        wires.append(w if ty.axis(given.axis.name) is None else builder.add(reindex_box(view, [ty]), (w,)))
    made = use(builder, given.element, wires)
    cast = [builder.cast(w, ty) for w, ty in zip(made, given.states, strict=True)]
    return left, builder.diagram(cast, left.names)
