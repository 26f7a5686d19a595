"""Composites: theorems about programs made of parts, from theorems about the parts, in work linear in their number.

Each distinct part is proved once: parts that differ only in names of axes, sizes, blocks and inputs cite one theorem.
What remains to be shown of each, that its hypotheses hold and that it is defined where the whole is, is searched for
here, and checked by the kernel (`catdiag.kernel.composition`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catdiag.category.diagram import Diagram
from catdiag.category.types import ArrayType
from catdiag.kernel.checker import Checker
from catdiag.kernel.composition import Renaming, flattened
from catdiag.kernel.size_scope import symbols
from catdiag.prover.api import certify, statement_of
from catdiag.prover.export import size_data
from catdiag.prover.identifiers import identifier, title
from catdiag.prover.outcomes import Theorem
from catdiag.prover.proof_search import OpenGoal, found_composite
from catdiag.prover.witness_search import examined
from catdiag.solvers.child_process import checking, searching

if TYPE_CHECKING:
    from catdiag.kernel.context import Ask

Json = Mapping[str, Any]


@dataclass(frozen=True)
class PartEquation:
    """A part of a composite: what it is on the left and on the right, and the wires that it reads.

    Wires are numbered: the inputs of the whole, then what the parts make, in order. `names` are those of what it makes.
    `assume` are hypotheses on its inputs, by their names on the left, which are shown where the arrays are made.
    `theorem` is one about it that is known already, if there is one.
    """

    left: Diagram
    right: Diagram
    reads: tuple[int, ...]
    names: tuple[str, ...] = ()
    assume: tuple[str, ...] = ()
    theorem: Theorem | None = None


class OpenPart(Exception):
    """A part that was not proved: `.number` from 1, and `.goal` at which it stopped."""

    def __init__(self, number: int, goal: str) -> None:
        super().__init__(f"part {number}: {goal}")
        self.number, self.goal = number, goal


def certify_composite(
    ask: Ask,
    inputs: Sequence[tuple[str, ArrayType]],
    parts: Sequence[PartEquation],
    results: Sequence[int],
    titles: tuple[str, str] = ("", ""),
    assume: Sequence[Sequence[Any]] = (),
) -> Theorem:
    """The theorem that a program is the same with right parts in place of left ones.

    `inputs` are those of the whole, by name and type; `results` the wires that it gives; `assume` conditions on sizes
    as `parse_assumption` gives them, beside that each is at least 1. Raises OpenPart for a part that is not proved, or
    whose theorem is conditional; `proof_search.OpenGoal` or KernelError where the whole does not follow.
    """
    start = time.perf_counter()
    cited: list[dict[str, Any]] = []
    known: dict[str, tuple[int, dict[str, str], dict[str, str]]] = {}
    data: list[dict[str, Any]] = []
    lefts: list[tuple[Json, Sequence[int]]] = []
    rights: list[tuple[Json, Sequence[int]]] = []
    taken = {identifier(name) for name, _ in inputs}
    for number, part in enumerate(parts, 1):
        statement = statement_of(part.left, part.right, part.assume)
        key, sizes, axes = _canonical(statement)
        if key not in known:
            known[key] = len(cited), _inverse(sizes), _inverse(axes)
            cited.append(_proved(ask, number, part, statement))
        cites, of_sizes, of_axes = known[key]
        put = {
            "sizes": {of_sizes[c]: name for name, c in sizes.items()},
            "axes": {of_axes[c]: name for name, c in axes.items()},
        }
        first = cited[cites]["statement"]
        for side, sides in (("left", lefts), ("right", rights)):
            sides.append((Renaming(put["sizes"], put["axes"]).program(first[side]), part.reads))
        makes = [_fresh(name, taken) for name in part.names or [f"made{number}"] * len(part.left.cod)]
        data.append({"cites": cites, **put, "reads": list(part.reads), "makes": makes})
    declared = [
        {
            "name": identifier(name),
            "axes": [[identifier(a.name), size_data(a.size)] for a in ty.axes],
            "element": ty.element,
        }
        for name, ty in inputs
    ]
    programs: list[dict[str, Any]] = [
        {"title": title(text), **flattened(declared, side, results)}
        for text, side in ((titles[0], lefts), (titles[1], rights))
    ]
    scope = sorted(symbols(programs[0]) | symbols(programs[1]))
    hypotheses = [["le", 1, s] for s in scope if ["le", 0, s] not in assume] + [list(c) for c in assume]
    whole = {"left": programs[0], "right": programs[1], "assume": hypotheses}
    certificate = found_composite(searching(ask), whole, {"parts": data, "results": list(results)}, cited)
    checker = Checker(checking(ask))
    checked = checker.proved(certificate)
    witness = examined(whole, checker.hypotheses, checker.cuts)
    if witness is None:
        checked = checker.examined(checked)
    else:
        certificate["witness"] = witness
        checked = checker.witnessed(checked, declared, witness)
    return Theorem(checked, certificate, time.perf_counter() - start)


def _proved(ask: Ask, number: int, part: PartEquation, statement: dict[str, Any]) -> dict[str, Any]:
    """The certificate of a part. Raises OpenPart."""
    theorem = part.theorem
    if theorem is None or not _alike(theorem.certificate["statement"], statement):
        try:
            theorem = certify(ask, statement)
        except OpenGoal as error:
            raise OpenPart(number, error.goal) from error
    if theorem.vacuous:
        raise OpenPart(number, "nothing meets its hypotheses")
    if theorem.conditional:
        raise OpenPart(number, "it would need further conditions: " + "; ".join(theorem.conditions))
    return theorem.certificate


def _alike(one: Json, other: Json) -> bool:
    """Whether two statements are the same but for titles."""
    none = Renaming({}, {})
    return all(none.program(one[side]) == none.program(other[side]) for side in ("left", "right")) and (
        one["assume"], one.get("given")) == (other["assume"], other.get("given"))  # fmt: skip


class _Numbered(dict[str, str]):
    """Names by their first occurrence: each name is known by a number."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self.prefix = prefix

    def get(self, name: str, default: Any = None) -> Any:
        """The number of a name."""
        return self.setdefault(name, f"{self.prefix}{len(self)}")


def _canonical(statement: Json) -> tuple[str, dict[str, str], dict[str, str]]:
    """A text that is the same for statements that differ in names of sizes, axes and inputs only; and these names."""
    sizes, axes = _Numbered("n"), _Numbered("a")
    put = Renaming(sizes, axes)
    sides = [put.program(statement[side]) for side in ("left", "right")]
    for side in sides:
        side["inputs"] = [{**d, "name": f"i{k}"} for k, d in enumerate(side["inputs"])]
    assume = sorted(json.dumps([op, put.size(a), put.size(b)]) for op, a, b in statement["assume"])
    given = [{**put.program(program), "inputs": []} for program in statement.get("given", ())]
    return json.dumps([sides, assume, given], sort_keys=True), dict(sizes), dict(axes)


def _inverse(names: Mapping[str, str]) -> dict[str, str]:
    return {number: name for name, number in names.items()}


def _fresh(name: str, taken: set[str]) -> str:
    """A name of an array that is not taken."""
    base = identifier(name)
    found, k = base, 2
    while found in taken:
        found, k = f"{base}_{k}", k + 1
    taken.add(found)
    return found


__all__ = ["OpenPart", "PartEquation", "certify_composite"]
