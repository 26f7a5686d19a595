"""`prove`: whether two diagrams mean the same, for all sizes.

There are four outcomes: a `Theorem` (possibly conditional, possibly trivial), `Refuted` with a counterexample,
`Undecided` with the goal at which the search stopped, or `Interrupted`. Only the kernel says "proved": the certificate
that was found is replayed by a plain checker before a theorem is returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from catdiag.category.diagram import Diagram, diagram_of
from catdiag.category.substitution import inline
from catdiag.execute.size_inference import tile_bounds
from catdiag.kernel.checker import condition
from catdiag.kernel.definedness import show_condition
from catdiag.kernel.terms import KernelError, Term
from catdiag.prover import assumptions
from catdiag.prover.assumptions import AssumptionError
from catdiag.prover.certification import Subject, certify, parse_assumption, statement_of
from catdiag.prover.congruence import Cutter, NotCongruent, has_generators, interpreted
from catdiag.prover.interface_comparison import require_one_type
from catdiag.prover.original_programs import OriginalPrograms
from catdiag.prover.outcomes import Interrupted, Refuted, Theorem, Undecided
from catdiag.prover.refute.counterexample_search import refute
from catdiag.solvers.child_process import SolverInterrupted
from catdiag.solvers.z3 import borrowed
from catdiag.util.errors import SizeError, TypeMismatch, require
from catdiag.util.time_limit import OutOfTime, within

if TYPE_CHECKING:
    from catdiag.kernel.context import Ask
    from catdiag.prover.refute.counterexample_data import Counterexample

R = TypeVar("R")


def certify_equation(
    ask: Ask,
    f: Diagram,
    g: Diagram,
    assume: Sequence[str] = (),
    through: Sequence[tuple[int, int]] = (),
    further: bool = True,
    earlier: dict[str, Any] | None = None,
) -> Theorem:
    """`certify` for two diagrams, which may have uninterpreted boxes: the equation is cut at these (see `congruence`).

    `through` gives pairs of arrays of the two sides, by their wires in the inlined forms, where it is cut as well.
    Raises `proof_search.OpenGoal` where no proof is found, TypeMismatch for different types.
    """
    from catdiag.prover.proof_search import OpenGoal

    if not through and not has_generators(f) and not has_generators(g):
        return certify(ask, statement_of(f, g, assume), further, earlier)
    if not through:  # an uninterpreted box may be a kernel of its own
        f, g = inline(f, kernels=True), inline(g, kernels=True)

    def equal(a: Diagram, b: Diagram) -> bool:
        try:
            certify(ask, statement_of(a, b, assume))
        except (OpenGoal, KernelError):
            return False
        return True

    try:
        cut = Cutter(f, g, equal).find(through)
    except NotCongruent as error:
        raise OpenGoal(str(error)) from error
    return replace(certify(ask, statement_of(cut.left, cut.right, assume)), taken=cut.taken)


def prove(f: Subject, g: Subject, assume: Sequence[str] = (), limit: float | None = None) -> Theorem:
    """The theorem that two diagrams of one type mean the same, for all sizes and all arrays.

    Every axis is assumed to have at least one index; `assume` adds conditions on sizes, such as `"n >= 2"`, and on
    inputs, such as `"A > 0"`, `"all(M)"` or `"sorted(offsets)"`. The search is bounded by an amount of work that is the
    same on every machine. `limit` is an additional time limit in seconds (None: no limit).

    Two programs that were imported from PyTorch are run by it, too: where it says otherwise than the proof or the
    counterexample, they are undecided, and `.notes` of the theorem say how they were read.

    Raises Refuted with exact numbers, Undecided with the goal where the proof stopped, Interrupted when the time is up
    (which is no verdict), TypeMismatch for different types, AssumptionError for assumptions that do not parse or that
    no sizes meet, SizeError for a limit that is not positive.

    >>> import catdiag as cd
    >>> f = cd.algorithm("x ->")(lambda A: cd.sum(2 * A, "x"))
    >>> g = cd.algorithm("x ->")(lambda A: 2 * cd.sum(A, "x"))
    >>> cd.prove(f, g).conditional
    False
    """
    originals = OriginalPrograms.of(f, g)
    with borrowed() as ask:
        prover = partial(prove_with, ask, f, g, assume, limit)
        if originals is None:
            return prover()
        try:
            return originals.confirmed(prover, bool(assume))
        except TypeMismatch as error:
            raise TypeMismatch(f"{error.message}; {_IMPORTED_ALONE}") from error


_IMPORTED_ALONE = (
    "programs that are imported by themselves have names of their own: names= gives them the same ones, and "
    "cd.testing.assert_equivalent(first, second, example=…) imports two modules of PyTorch with one set of names"
)


def prove_with(ask: Ask, f: Subject, g: Subject, assume: Sequence[str] = (), limit: float | None = None) -> Theorem:
    """`prove` with a solver that is already running."""
    f, g = given_sides(f, g, assume)
    title = title_of(f, g)
    if not has_generators(f) and not has_generators(g):
        return in_time(limit, title, lambda: _replaying(f, g, lambda: _decided(ask, f, g, assume, title)))
    require_one_type(f, g)
    refuted_by = refutable(f, g)
    statement = None if refuted_by is None else statement_of(*refuted_by, assume)
    prover = partial(certify_equation, ask, f, g, assume)
    work = partial(decide, ask, statement, title, prover)
    return in_time(limit, title, lambda: _replaying(*(refuted_by or (f, g)), work))


def _decided(ask: Ask, f: Diagram, g: Diagram, assume: Sequence[str], title: str) -> Theorem:
    """The theorem about two programs without uninterpreted boxes: see `decide`."""
    from catdiag.prover.internal_equivalences import Screened, certify_through_equal_arrays

    statement = statement_of(f, g, assume)
    screened = None if "given" in statement else Screened.of(f, g, assume)
    if screened is None:
        return decide(ask, statement, title)
    through = partial(certify_through_equal_arrays, ask, screened, assume)
    return decide(ask, statement, title, through=through, large=screened.large, differ=screened.results_differ())


def refutable(f: Diagram, g: Diagram) -> tuple[Diagram, Diagram] | None:
    """The diagrams to refute `f = g` with: f and g with interpretations of their uninterpreted boxes.

    Such a box can be any function, so that a counterexample for some functions refutes the equation. None where no
    interpretation is available, for boxes of extended reals.
    """
    one, two = interpreted(f), interpreted(g)
    return None if one is None or two is None else (one, two)


def _replaying(f: Diagram, g: Diagram, work: Callable[[], Theorem]) -> Theorem:
    """The result of the work; a counterexample that it raises gets the two values that NumPy computes."""
    from catdiag.execute.interpreter import run

    try:
        return work()
    except Refuted as error:
        found = error.counterexample
        values = []
        for diagram in (f, g):
            known = tile_bounds(diagram)
            tiles = {name: n for name, n in found.blocks.items() if name in known}
            try:
                out = run(diagram, list(found.numpy().values()), tiles, functions=found.functions, sizes=found.sizes)
            except ValueError:  # such as sizes of 0, which NumPy's inputs cannot express
                break
            out = out if isinstance(out, tuple) else (out,)
            values.append(float(out[found.output][tuple(found.index[a] for a in diagram.cod[found.output].names)]))
        if len(values) == 2 and not found.undefined and all(map(math.isfinite, values)):
            found = replace(found, floats=(values[0], values[1]))
            raise Refuted(error.verdict, found) from None
        raise


def given_sides(f: Subject, g: Subject, assume: object) -> tuple[Diagram, Diagram]:
    """The two diagrams of an equation. Raises TypeMismatch for a side without a diagram, and unless assumptions are a
    list.
    """
    listed = isinstance(assume, (list, tuple)) and all(isinstance(a, str) for a in assume)
    require(listed, "assume", assume, "a list of conditions on sizes, such as ['n >= 2']")
    return diagram_of(f, "the left side"), diagram_of(g, "the right side")


def title_of(f: Diagram, g: Diagram) -> str:
    """An equation in words: the titles of its two sides."""
    return f"{f.title or 'left'} = {g.title or 'right'}"


def check_limit(limit: object) -> None:
    """Raises TypeMismatch unless a limit is a number of seconds or None, SizeError unless it is above 0."""
    expected = "a number of seconds above 0, or None for no limit"
    number = isinstance(limit, (int, float)) and not isinstance(limit, bool)
    require(limit is None or number, "limit", limit, expected)
    if isinstance(limit, (int, float)) and not limit > 0:
        raise SizeError(f"the limit is {limit}: expected {expected}")


def in_time(limit: float | None, title: str, work: Callable[[], R]) -> R:
    """The result of the work. Raises Interrupted where it takes more than `limit` seconds, or a solver was stopped."""
    check_limit(limit)
    try:
        return within(limit, work)
    except OutOfTime as error:
        raise Interrupted(f"{title} was interrupted: no verdict within {limit:g} s") from error
    except SolverInterrupted as error:
        raise Interrupted(f"{title} was interrupted: {error}") from error


_FEW, _MANY = 6, 200
"""The batches of inputs for a counterexample: before the longer proof search, and after it."""


def decide(
    ask: Ask,
    statement: dict[str, Any] | None,
    title: str,
    prover: Callable[[], Theorem] | None = None,
    *,
    through: Callable[[], Theorem] | None = None,
    large: bool = False,
    differ: bool = False,
) -> Theorem:
    """The theorem of a statement. Raises as `prove` does where there is none, and SolverInterrupted.

    With `prover`, the theorem comes from it, and the statement, if there is one, only serves to find a counterexample.
    `through` is another proof, by way of arrays that both sides compute; it comes first where the programs are `large`.
    Where they seem to `differ`, a counterexample is looked for before any proof.
    """
    from catdiag.prover.proof_search import OpenGoal
    from catdiag.prover.witness_search import is_examined

    if statement:
        assume = statement["assume"]
        said = {k: show_condition(condition(c)) for k, c in enumerate(assume) if c[:2] != ["le", 1]}
        assumptions.check(ask, sorted(assumptions.symbols_of(["", *assume])), assume, said)
    if statement and differ:
        _require_unrefuted(refute(statement, tries=_MANY), title)
    # False statements are mostly refuted at once, so that a long proof search is only made for likely ones.
    goal, attempts = "", [(prover, _MANY)] if prover is not None else []
    without_witness: Theorem | None = None
    if prover is None and statement is not None:
        attempts = [(partial(certify, ask, statement, False), _FEW), (partial(certify, ask, statement), _MANY)]
        if through is not None:
            attempts.insert(0 if large else 1, (through, 0))
    for number, (attempt, tries) in enumerate(attempts):
        too_large, where = False, tuple[Term, ...]()
        try:
            made = attempt()
            if attempt is not through or made.checked.witness or statement is None or not is_examined(statement):
                return made
            without_witness = made  # inputs that meet the conditions of a proof without cuts may be easier to find
            continue
        except OpenGoal as error:
            goal, too_large, where = (error.goal if attempt is not through else goal), error.large, (error.condition,)
        except KernelError as error:
            goal = str(error)
        if attempt is through:
            continue
        if without_witness is not None:
            return without_witness
        last = too_large or tries == _MANY
        found = refute(statement, tries=_MANY if too_large else tries, goal=where, partial=last) if statement else None
        _require_unrefuted(found, title)
        if too_large and all(following is not through for following, _ in attempts[number + 1 :]):
            break
    raise Undecided(f"{title} is undecided", goal)


def _require_unrefuted(found: Counterexample | None, title: str) -> None:
    if found is not None:
        raise Refuted(how_false(title, found), found)


def how_false(title: str, found: Counterexample) -> str:
    """What a counterexample shows of an equation, in words."""
    return f"{title} does not hold wherever its left side is defined" if found.undefined else f"{title} is false"


def equivalent(f: Subject, g: Subject, assume: Sequence[str] = (), limit: float | None = None) -> bool | None:
    """True where `f = g` is proved without new conditions, False where it is refuted, None otherwise.

    A theorem with contradictory hypotheses (`Theorem.vacuous`) does not count as a proof: None. `assume` and `limit`,
    in seconds, are those of `prove`, as are the errors for wrong use.

    >>> import catdiag as cd
    >>> f = cd.algorithm("x")(lambda A: A + A)
    >>> g = cd.algorithm("x")(lambda A: A * A)
    >>> cd.equivalent(f, g)
    False
    """
    try:
        theorem = prove(f, g, assume, limit)
    except Refuted:
        return False
    except (Undecided, Interrupted):
        return None
    return None if theorem.conditional or theorem.vacuous else True


__all__ = [
    "AssumptionError", "Interrupted", "Refuted", "Theorem", "Undecided", "certify", "certify_equation", "decide",
    "equivalent", "how_false", "in_time", "parse_assumption", "prove", "prove_with", "refutable", "statement_of",
    "title_of",
]  # fmt: skip
