"""`prove`: whether two diagrams mean the same, for all sizes.

There are four outcomes: a `Theorem` (possibly conditional, possibly trivial), `Refuted` with a counterexample,
`Undecided` with the goal at which the search stopped, or `Interrupted`. Only the kernel says "proved": the certificate
that was found is replayed by a plain checker before a theorem is returned.
"""

from __future__ import annotations

import ast
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from catdiag.category.diagram import Diagram, HasDiagram, diagram_of, inline
from catdiag.category.types import ArrayType, size_symbols
from catdiag.execute.size_inference import tile_bounds
from catdiag.kernel.checker import Checker, condition
from catdiag.kernel.definedness import show_condition
from catdiag.kernel.terms import KernelError, Term
from catdiag.prover.assumptions import AssumptionError, OfSizes
from catdiag.prover.hypotheses import hypothesis, names_in
from catdiag.prover.identifiers import identifier, name_of
from catdiag.prover.interface_comparison import require_one_type
from catdiag.prover.outcomes import Interrupted, Refuted, Theorem, Undecided
from catdiag.solvers.child_process import SolverInterrupted, checking, searching
from catdiag.solvers.z3 import Z3
from catdiag.util.errors import SizeError, require
from catdiag.util.time_limit import OutOfTime, within

if TYPE_CHECKING:
    from catdiag.kernel.context import Ask
    from catdiag.prover.refute.counterexample_data import Counterexample

R = TypeVar("R")
Subject = Diagram | HasDiagram
"""A side of an equation: a diagram, or an object that has one, such as a program."""


_LONGEST = 1000
_COMPARISONS: dict[type, tuple[str, bool]] = {
    ast.LtE: ("le", False), ast.Lt: ("lt", False), ast.GtE: ("le", True), ast.Gt: ("lt", True), ast.Eq: ("eq", False),
}  # fmt: skip


def parse_assumption(text: str) -> list[Any]:
    """An assumption about sizes, parsed to plain data.

    >>> parse_assumption("n >= 2*m + 1")
    ['le', ['+', ['*', 2, 'm'], 1], 'n']

    Raises AssumptionError for anything but one comparison of sums and products of sizes and natural numbers.
    """

    def fail() -> AssumptionError:
        return AssumptionError(
            f"cannot read the assumption {text!r}: expected a comparison of sizes, or a condition on inputs, such as "
            "'n >= 2' or 'A > 0'"
        )

    def size(node: ast.expr) -> Any:
        match node:
            case ast.Name(id=name) | ast.Call(func=ast.Name(id="size"), args=[ast.Constant(value=str(name))]):
                return identifier(name)
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value >= 0:
            return node.value
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
            return ["+" if isinstance(node.op, ast.Add) else "*", size(node.left), size(node.right)]
        raise fail()

    if not isinstance(text, str) or len(text) > _LONGEST or not text.isprintable():
        raise AssumptionError(
            f"cannot read the assumption {str(text)[:80]!r}: expected a comparison of sizes as text, such as 'n >= 2'"
        )
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise fail() from error
    if not isinstance(tree, ast.Compare) or len(tree.ops) != 1 or type(tree.ops[0]) not in _COMPARISONS:
        raise fail()
    op, flipped = _COMPARISONS[type(tree.ops[0])]
    sides = [size(tree.left), size(tree.comparators[0])]
    return [op, *(reversed(sides) if flipped else sides)]


def statement_of(f: Subject, g: Subject, assume: Sequence[str] = ()) -> dict[str, Any]:
    """The statement `f = g` as plain data: two core programs, the hypotheses about sizes, and those about inputs.

    Every size of an axis is assumed to be at least 1, unless an assumption says that it may be 0: `"x >= 0"`. An
    assumption that names an input is about inputs (`catdiag.prover.hypotheses`), by their names on the left side.
    Element types are widened to a common one: a result that may be −∞ can be compared with a real one.
    """
    f, g = diagram_of(f), diagram_of(g)
    from catdiag.prover.export import program
    from catdiag.prover.refute.exact_execution import symbols_of

    require_one_type(f, g)
    left, right = program(f), program(g)
    for mine, theirs in zip(left["inputs"], right["inputs"], strict=True):
        theirs["name"] = mine["name"]
    for ours, others in zip(left["outputs"], right["outputs"], strict=True):
        if ours[1] != "bool":
            ours[1] = others[1] = min(ours[1], others[1], key=["extended", "real", "int"].index)
    scope = sorted(symbols_of(left) | symbols_of(right))
    of_inputs = [a for a in assume if _of_inputs(a, f)]
    assumed = [parse_assumption(a) for a in assume if a not in of_inputs]
    hypotheses = [["le", 1, s] for s in scope if ["le", 0, s] not in assumed] + assumed
    unknown = {s for c in hypotheses for side in c[1:] for s in _mentioned(side)} - set(scope)
    if unknown:
        sizes = ", ".join(map(name_of, scope)) or "none"
        inputs = ", ".join(f.input_names) or "none"
        raise AssumptionError(
            f"no axis has size {name_of(sorted(unknown)[0])!r}; the sizes are {sizes}, the inputs {inputs}"
        )
    given = [hypothesis(a, f) for a in of_inputs]
    return {"left": left, "right": right, "assume": hypotheses} | ({"given": given} if given else {})


def _of_inputs(text: str, diagram: Diagram) -> bool:
    """Whether an assumption is about inputs of a diagram. Raises AssumptionError where it may be about sizes."""
    if isinstance(text, OfSizes):
        return False
    names = names_in(text) if isinstance(text, str) else set()
    if both := sorted(names & set(diagram.input_names) & {s for ty in diagram.dom for s in _sizes_of(ty)}):
        raise AssumptionError(
            f"{both[0]!r} in the assumption {text!r} is both an input and a size: write size({both[0]!r}) for the "
            "size, or give the input another name"
        )
    return bool(names & set(diagram.input_names))


def _sizes_of(ty: ArrayType) -> set[str]:
    return {s for axis in ty.axes for s in size_symbols(axis.size)}


def _mentioned(size: Any) -> set[str]:
    if isinstance(size, list):
        return _mentioned(size[1]) | _mentioned(size[2])
    return {size} if isinstance(size, str) else set()


def certify(
    ask: Ask, statement: dict[str, Any], further: bool = True, earlier: dict[str, Any] | None = None
) -> Theorem:
    """The theorem of a statement: a certificate is found, then replayed by a fresh checker; with a witness where one is
    found.

    With `further`, a search follows where normal forms do not suffice; it takes long for false statements. With
    `earlier`, a certificate, the proofs of its loops are tried first. Raises `proof_search.OpenGoal` if no certificate
    is found, SoundnessError if the proved statement is false on an input.
    """
    from catdiag.prover.proof_search import find
    from catdiag.prover.witness_search import examined

    start = time.perf_counter()
    certificate = find(searching(ask), statement, further, earlier)
    checker = Checker(checking(ask))
    checked = checker.proved(certificate)
    witness = examined(statement, checker.hypotheses)
    if witness is None:
        checked = checker.examined(checked)
    else:
        certificate["witness"] = witness
        checked = checker.witnessed(checked, statement["left"]["inputs"], witness)
    return Theorem(checked, certificate, time.perf_counter() - start)


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
    from catdiag.prover.congruence import Cutter, NotCongruent, has_generators
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

    Raises Refuted with exact numbers, Undecided with the goal where the proof stopped, Interrupted when the time is up
    (which is no verdict), TypeMismatch for different types, AssumptionError for assumptions that do not parse or that
    no sizes meet, SizeError for a limit that is not positive.

    >>> import catdiag as cd
    >>> f = cd.algorithm("x ->")(lambda A: cd.sum(2 * A, "x"))
    >>> g = cd.algorithm("x ->")(lambda A: 2 * cd.sum(A, "x"))
    >>> cd.prove(f, g).conditional
    False
    """
    with Z3() as ask:
        return prove_with(ask, f, g, assume, limit)


def prove_with(ask: Ask, f: Subject, g: Subject, assume: Sequence[str] = (), limit: float | None = None) -> Theorem:
    """`prove` with a solver that is already running."""
    from catdiag.prover.congruence import has_generators

    f, g = given_sides(f, g, assume)
    title = title_of(f, g)
    if not has_generators(f) and not has_generators(g):
        return in_time(limit, title, lambda: _replaying(f, g, lambda: decide(ask, statement_of(f, g, assume), title)))
    require_one_type(f, g)
    refuted_by = refutable(f, g)
    statement = None if refuted_by is None else statement_of(*refuted_by, assume)
    prover = partial(certify_equation, ask, f, g, assume)
    work = partial(decide, ask, statement, title, prover)
    return in_time(limit, title, lambda: _replaying(*(refuted_by or (f, g)), work))


def refutable(f: Diagram, g: Diagram) -> tuple[Diagram, Diagram] | None:
    """The diagrams to refute `f = g` with: f and g with interpretations of their uninterpreted boxes.

    Such a box can be any function, so that a counterexample for some functions refutes the equation. None where no
    interpretation is available, for boxes of extended reals.
    """
    from catdiag.prover.congruence import interpreted

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
            raise Refuted(error.message.split("\n")[0], found) from None
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
    ask: Ask, statement: dict[str, Any] | None, title: str, prover: Callable[[], Theorem] | None = None
) -> Theorem:
    """The theorem of a statement. Raises as `prove` does where there is none, and SolverInterrupted.

    With `prover`, the theorem comes from it, and the statement, if there is one, only serves to find a counterexample.
    """
    from catdiag.prover import assumptions
    from catdiag.prover.proof_search import OpenGoal
    from catdiag.prover.refute.counterexample_search import refute

    if statement:
        assume = statement["assume"]
        said = {k: show_condition(condition(c)) for k, c in enumerate(assume) if c[:2] != ["le", 1]}
        assumptions.check(ask, sorted(assumptions.symbols_of(["", *assume])), assume, said)
    # False statements are mostly refuted at once, so that a long proof search is only made for likely ones.
    goal, attempts = "", [(prover, _MANY)] if prover is not None else []
    if prover is None and statement is not None:
        attempts = [(partial(certify, ask, statement, False), _FEW), (partial(certify, ask, statement), _MANY)]
    for attempt, tries in attempts:
        large, where = False, tuple[Term, ...]()
        try:
            return attempt()
        except OpenGoal as error:
            goal, large, where = error.goal, error.large, (error.condition,)
        except KernelError as error:
            goal = str(error)
        last = large or tries == _MANY
        found = refute(statement, tries=_MANY if large else tries, goal=where, partial=last) if statement else None
        if found is not None:
            raise Refuted(how_false(title, found), found)
        if large:
            break
    raise Undecided(f"{title} is undecided", goal)


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
