"""Statements, as the kernel reads them, and the certificates that are found for them.

A certificate that was found is replayed by a plain checker before a theorem is returned (`certify`).
"""

from __future__ import annotations

import ast
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from catdiag.category.diagram import Diagram, HasDiagram, diagram_of
from catdiag.category.types import ArrayType, size_symbols
from catdiag.kernel.checker import Checker
from catdiag.prover.assumptions import AssumptionError, OfSizes
from catdiag.prover.export import program
from catdiag.prover.hypotheses import hypothesis, names_in
from catdiag.prover.identifiers import identifier, name_of
from catdiag.prover.interface_comparison import require_one_type
from catdiag.prover.outcomes import Theorem
from catdiag.prover.proof_trace import WORK
from catdiag.prover.refute.exact_execution import symbols_of
from catdiag.solvers.child_process import checking, searching

if TYPE_CHECKING:
    from catdiag.kernel.context import Ask

Subject = Diagram | HasDiagram
"""A side of an equation: a diagram, or an object that has one, such as a program."""


_LONGEST = 1000
_COMPARISONS: dict[type, tuple[str, bool]] = {
    ast.LtE: ("le", False), ast.Lt: ("lt", False), ast.GtE: ("le", True), ast.Gt: ("lt", True), ast.Eq: ("eq", False),
}  # fmt: skip


def parse_assumption(text: str) -> list[Any]:
    """An assumption about sizes as plain data: a text is parsed.

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

    if isinstance(text, OfSizes):
        return list(text.condition)
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
    Raises AssumptionError for an assumption about a size that no axis has.

    Every size of an axis is assumed to be at least 1, unless an assumption says that it may be 0: `"x >= 0"`. An
    assumption that names an input is about inputs (`catdiag.prover.hypotheses`), by their names on the left side.
    Element types are widened to a common one: a result that may be −∞ can be compared with a real one.
    """
    f, g = diagram_of(f), diagram_of(g)

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
    ask: Ask,
    statement: dict[str, Any],
    further: bool = True,
    earlier: dict[str, Any] | None = None,
    work: int = WORK,
) -> Theorem:
    """The theorem of a statement: a certificate is found, then replayed by a fresh checker; with a witness where one is
    found.

    With `further`, a search follows where normal forms do not suffice; it takes long for false statements. With
    `earlier`, a certificate, the proofs of its loops are tried first. `work` bounds normal forms. Raises
    `proof_search.OpenGoal` if no certificate is found, SoundnessError if the proved statement is false on an input.
    """
    from catdiag.prover.proof_search import find
    from catdiag.prover.witness_search import examined

    start = time.perf_counter()
    certificate = find(searching(ask), statement, further, earlier, work)
    checker = Checker(checking(ask))
    checked, witness = examined(statement, checker, checker.proved(certificate))
    if witness is not None:
        certificate["witness"] = witness
    return Theorem(checked, certificate, time.perf_counter() - start)
