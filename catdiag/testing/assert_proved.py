"""Assertions that are proved: `assert_equivalent` and `assert_streams`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from catdiag.category.diagram import Diagram, HasDiagram, diagram_of
from catdiag.prover import Interrupted, Refuted, Undecided, prove
from catdiag.prover.api import Theorem, how_false
from catdiag.rewrite.derivation import Derivation, derivation_of
from catdiag.rewrite.stream.streaming import stream
from catdiag.testing.array_literals import counterexample
from catdiag.testing.concise_failures import concise
from catdiag.testing.module_pairs import ModulePair, prove_modules
from catdiag.util.errors import NotStreamable, TypeMismatch


@concise
def assert_equivalent(
    f: Diagram | HasDiagram | Any,
    g: Diagram | HasDiagram | Any,
    assume: Sequence[str] = (),
    *,
    limit: float | None = None,
    conditional: bool = False,
    example: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    parameters: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None,
) -> Theorem:
    """Proves that two diagrams are equal, for all sizes and arrays, and returns the theorem.

    With `example`, the arguments of a call, and `kwargs`, those by name, both are PyTorch modules or functions
    (`cd.from_torch`). Parameters of one name are the same arrays; where the modules have others, `parameters` is a
    function from the tensors of `g`, by name, to those of `f`: `lambda of: {"weight": of["base.weight"] + of["up"] @
    of["down"]}`. A warning says where a number or a part of the example was read as a function of a size, and where the
    theorem is only for the sizes of the example (`catdiag.testing.module_pairs`).

    `assume` are assumptions about sizes, `limit` is in seconds. Raises AssertionError where the equation is refuted,
    with sizes and arrays to paste; where it is undecided or interrupted, with the goal at which the proof stopped; and
    where `g` needs more than `f` to be defined, unless `conditional` allows it. Wrong use raises as `cd.prove` does.

    >>> import catdiag as cd
    >>> twice = cd.algorithm("x -> x", name="twice")(lambda A: A + A)
    >>> square = cd.algorithm("x -> x", name="square")(lambda A: A * A)
    >>> cd.testing.assert_equivalent(twice, cd.algorithm("x -> x")(lambda A: 2 * A)).conditional
    False
    >>> cd.testing.assert_equivalent(twice, square)
    Traceback (most recent call last):
    ...
    AssertionError: twice = square is false: left gives 2, right gives 1 at x=0
    at x=1:
        A = np.array([1.0])
    """
    notes: tuple[str, ...] = ()
    title = ""
    try:
        if example is None and kwargs is None:
            for side in (f, g):
                if hasattr(side, "named_parameters"):
                    raise TypeMismatch(
                        f"{type(side).__name__} is a PyTorch module: expected the arguments of a call beside it, as in "
                        "assert_equivalent(f, g, example=(x,))"
                    )
            f, g = diagram_of(f), diagram_of(g)
            title = f"{f.title or 'left'} = {g.title or 'right'}"
            theorem = prove(f, g, assume, limit)
        else:
            arguments = (example,) if hasattr(example, "detach") else example or ()  # one tensor
            pair = ModulePair.imported(f, g, arguments, parameters, kwargs)
            title = f"{pair.first.title} = {pair.second.title}"
            notes = pair.notes
            theorem, notes = prove_modules(pair, partial(prove, limit=limit), assume)
    except Refuted as error:
        _warn(notes)
        found = error.counterexample
        raise AssertionError(f"{how_false(title, found)}: {counterexample(found)}") from None
    except (Undecided, Interrupted) as error:
        raise AssertionError(error.message) from None
    _warn(notes)
    if theorem.vacuous:
        raise AssertionError(f"{title} is vacuous: no arrays satisfy its assumptions\n{theorem}")
    if theorem.conditional and not conditional:
        raise AssertionError(
            f"{title} holds only where {'; '.join(theorem.conditions)}: "
            "allow that with conditional=True, or state by assume= what sizes may be"
        )
    return theorem


def _warn(notes: Sequence[str]) -> None:
    for note in notes:
        warnings.warn(f"what was imported is compared: {note}", stacklevel=4)


@concise
def assert_streams(diagram: Diagram | HasDiagram, axis: str, *, passes: int = 1) -> Derivation:
    """Proves that a diagram can run as a loop over blocks of an axis, and returns the derivation.

    It runs in one loop, or in up to `passes` consecutive loops. Raises AssertionError, naming the reduction that has no
    repair and the user's line, where no loop is found. Raises AxisError for an axis that the diagram does not have.

    >>> import catdiag as cd
    >>> mean = cd.algorithm("q x -> q", name="mean")(lambda A: cd.mean(A, "x"))
    >>> cd.testing.assert_streams(mean, "x").theorem.conditional
    False
    >>> cubes = cd.algorithm("q x -> q x", name="cubes")(lambda A: A**3 / cd.sum(A, "x"))
    >>> cd.testing.assert_streams(cubes, "x")
    Traceback (most recent call last):
    ...
    AssertionError: cubes does not stream along 'x': ...
    """
    diagram = diagram_of(diagram)
    try:
        derived = stream(derivation_of(diagram), axis, passes=passes)
    except NotStreamable as error:
        reason = error.message + (f"\n  at {error.line}" if error.line else "")
        raise AssertionError(f"{diagram.title or 'the diagram'} does not stream along {axis!r}: {reason}") from None
    if derived.theorem.vacuous:
        raise AssertionError(
            f"{diagram.title or 'the diagram'} is defined at no arrays: expected a program with values, to stream it"
        )
    if derived.theorem.conditional:
        conditions = "; ".join(derived.theorem.conditions)
        raise AssertionError(f"{diagram.title or 'the diagram'} streams along {axis!r} only where {conditions}")
    return derived
