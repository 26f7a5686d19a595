"""Composites: theorems about programs made of parts, from theorems about the parts, in work linear in their number.

Each distinct part is proved once: parts that differ only in names of axes, sizes, blocks and inputs cite one theorem.
What remains to be shown of each, that its hypotheses hold and that it is defined where the whole is, is searched for
here, and checked by the kernel (`catdiag.kernel.composition`).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catdiag.category.diagram import Diagram, Graph, of_graph
from catdiag.category.graph_writer import GraphWriter
from catdiag.category.op_facts import new_names, transposes
from catdiag.category.ops import Box
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType, Ty
from catdiag.kernel.checker import Checker
from catdiag.kernel.composition import Renaming, flattened
from catdiag.kernel.size_scope import symbols
from catdiag.kernel.terms import KernelError
from catdiag.prover.certification import certify, statement_of
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
    sides: tuple[Diagram, Diagram] | None = None,
    assume: Sequence[Sequence[Any]] = (),
) -> Theorem:
    """The theorem that a program is the same with right parts in place of left ones.

    `inputs` are those of the whole, by name and type; `results` the wires that it gives; `sides` the two programs as
    diagrams, if the caller has them; `assume` conditions on sizes as `parse_assumption` gives them, beside that each is
    at least 1. Raises OpenPart for a part that is not proved, or whose theorem is conditional; `proof_search.OpenGoal`
    or KernelError where the whole does not follow; ValueError where the parts are together not what `sides` are.
    """
    start = time.perf_counter()
    titles = ["", ""] if sides is None else [diagram.title or "" for diagram in sides]
    _require_sides(sides or (), len(inputs), parts, results)
    made = _Assembly(ask, {identifier(name) for name, _ in inputs})
    for number, part in enumerate(parts, 1):
        made.add(number, part)
    declared = [
        {
            "name": identifier(name),
            "axes": [[identifier(a.name), size_data(a.size)] for a in ty.axes],
            "element": ty.element,
        }
        for name, ty in inputs
    ]
    left, right = (
        {"title": title(text), **flattened(declared, side, results)}
        for text, side in zip(titles, (made.lefts, made.rights), strict=True)
    )
    scope = sorted(symbols(left) | symbols(right))
    hypotheses = [["le", 1, s] for s in scope if ["le", 0, s] not in assume] + [list(c) for c in assume]
    whole = {"left": left, "right": right, "assume": hypotheses}
    proof = {"parts": made.parts, "results": list(results)}
    certificate = found_composite(searching(ask), whole, proof, made.cited)
    checker = Checker(checking(ask))
    checked, witness = examined(whole, checker, checker.proved(certificate))
    if witness is not None:
        certificate["witness"] = witness
    return Theorem(checked, certificate, time.perf_counter() - start)


def certify_through(
    ask: Ask,
    left: Diagram,
    right: Diagram,
    stages: Iterable[Iterable[tuple[int, int]]],
    theorems: Sequence[Theorem] = (),
    sides: tuple[Diagram, Diagram] | None = None,
) -> Theorem:
    """The theorem that two diagrams are the same, by way of arrays that both make.

    A stage is some wires of the left graph, each with the wire of the right graph that carries the same, of one type;
    a last one, of the results, is added. What a stage makes of inputs and of earlier stages, of a wire the latest, is a
    part. `theorems` are known ones, of which some may be about parts; `sides` are two diagrams of the same values as
    these, of which the theorem is. Raises as `certify_composite` does.
    """
    graphs = left.graph, right.graph
    types = left.graph.wire_types()
    inputs = list(zip(left.input_names, left.dom, strict=True))
    last = tuple(zip(*(graph.outputs for graph in graphs), strict=True))
    number = {(w, w): w for w in range(len(inputs))}
    proved = {_canonical(t.certificate["statement"])[0]: t for t in reversed(theorems)}
    parts: list[PartEquation] = []
    for stage in (*stages, last):
        fresh = [pair for pair in dict.fromkeys(stage) if pair not in number]
        if not fresh:
            continue
        again = [{p[k] for p in fresh} for k in (0, 1)]
        known = [{pair[k]: pair for pair in number if pair[k] not in again[k]} for k in (0, 1)]
        made = [([], []), made_of(graphs[1], [pair[1] for pair in fresh], known[1])]
        known[0].update((known[1][w][0], known[1][w]) for w in made[1][1])  # a copy is made of what it is a copy of
        made[0] = made_of(graphs[0], [pair[0] for pair in fresh], known[0])
        reads = {pair: n for n, pair in enumerate(dict.fromkeys(known[k][w] for k in (0, 1) for w in made[k][1]))}
        dom = Ty(*(types[pair[0]] for pair in reads))
        one, two = (
            piece(graph, dom, made[k][0], {w: reads[known[k][w]] for w in made[k][1]}, [pair[k] for pair in fresh])
            for k, graph in enumerate(graphs)
        )
        statement = statement_of(one, two)
        theorem = proved.get(_canonical(statement)[0])
        parts.append(PartEquation(one, two, tuple(number[pair] for pair in reads), theorem=theorem))
        count = len(number)
        number.update((pair, count + n) for n, pair in enumerate(fresh))
    return certify_composite(ask, inputs, parts, [number[pair] for pair in last], sides or (left, right))


def made_of(graph: Graph, made: Sequence[int], known: Collection[int]) -> tuple[list[int], list[int]]:
    """The places of the boxes that make wires of known ones, in order, and the known wires that they read."""
    makers = graph.makers()
    places: set[int] = set()
    read: dict[int, None] = {}
    todo = list(reversed(made))
    while todo:
        w = todo.pop()
        if w in known:
            read[w] = None
        elif makers[w] not in places:
            places.add(makers[w])
            todo.extend(reversed(graph.nodes[makers[w]].inputs))
    return sorted(places), list(read)


def piece(
    graph: Graph,
    dom: Ty,
    places: Sequence[int],
    local: Mapping[int, int],
    made: Sequence[int],
    cod: Ty | None = None,
) -> Diagram:
    """The boxes at some places as a diagram that gives the wires `made`; `local` are those of its inputs, `cod` the
    types of what it gives, if they are laid out in another way."""
    wires, first, writer = dict(local), graph.first_wires(), GraphWriter(dom)
    for place in places:
        node = graph.nodes[place]
        wires.update(enumerate(writer.made(node.box, [wires[w] for w in node.inputs]), first[place]))
    return of_graph(writer.graph(wires[w] for w in made), cod)


class _Assembly:
    """The parts of a composite as plain data, with the certificates that they cite, each once."""

    def __init__(self, ask: Ask, taken: set[str]) -> None:
        self._ask, self._taken = ask, taken
        self._known: dict[str, tuple[int, dict[str, str], dict[str, str]]] = {}
        self._said: dict[Hashable, tuple[str, dict[str, str], dict[str, str]]] = {}
        """The statements of parts that are equal but for names of inputs."""
        self.cited: list[dict[str, Any]] = []
        self.parts: list[dict[str, Any]] = []
        self.lefts: list[tuple[Json, Sequence[int]]] = []
        self.rights: list[tuple[Json, Sequence[int]]] = []

    def add(self, number: int, part: PartEquation) -> None:
        """Adds a part: it cites the theorem of an earlier one that differs in names only. Raises OpenPart."""
        graphs = part.left.graph, part.right.graph, part.left.cod, part.right.cod, part.assume
        if graphs not in self._said:
            self._said[graphs] = _canonical(statement_of(part.left, part.right, part.assume))
        key, sizes, axes = self._said[graphs]
        if key not in self._known:
            certificate = _proved(self._ask, number, part, statement_of(part.left, part.right, part.assume))
            _, of_sizes, of_axes = _canonical(certificate["statement"])
            self._known[key] = len(self.cited), _inverse(of_sizes), _inverse(of_axes)
            self.cited.append(certificate)
        cites, of_sizes, of_axes = self._known[key]
        put_sizes = {of_sizes[c]: name for name, c in sizes.items()}
        put_axes = {of_axes[c]: name for name, c in axes.items()}
        put, first = Renaming(put_sizes, put_axes), self.cited[cites]["statement"]
        self.lefts.append((put.program(first["left"]), part.reads))
        self.rights.append((put.program(first["right"]), part.reads))
        names = part.names or [f"made{number}"] * len(part.left.cod)
        makes = [_fresh(name, self._taken) for name in names]
        names_put = {"sizes": put_sizes, "axes": put_axes}
        self.parts.append({"cites": cites, **names_put, "reads": list(part.reads), "makes": makes})


def _require_sides(
    sides: Sequence[Diagram], inputs: int, parts: Sequence[PartEquation], results: Sequence[int]
) -> None:
    """Raises ValueError unless the parts are together the two sides of the whole, by the values that they compute."""
    known: dict[Any, int] = {}
    for side, diagram in zip(("left", "right"), sides, strict=False):
        pieces: list[tuple[Diagram, Sequence[int]]] = [(getattr(part, side), part.reads) for part in parts]
        whole = _values(known, inputs, [(diagram, range(inputs))], range(inputs, inputs + len(diagram.cod)))
        if whole != _values(known, inputs, pieces, results):
            raise ValueError(f"the parts are together not {diagram.title or 'what they are said to be'}")


def _values(
    known: dict[Any, int], inputs: int, pieces: Sequence[tuple[Diagram, Sequence[int]]], results: Iterable[int]
) -> list[Any]:
    """The results of diagrams that are wired together, as values: equal ones are computed by the same boxes from the
    same inputs, but for transpositions after each other, which are one, or none. `known` are numbers of boxes on
    values, to which new ones are added."""
    wires: list[Any] = list(range(inputs))
    for diagram, reads in pieces:
        graph = inline(diagram, kernels=True).graph
        local = [wires[w] for w in reads]
        for node in graph.nodes:
            if transposes(node.box) and not new_names(node.box.op):
                local.append(_transposed(local[node.inputs[0]], node.box))
                continue
            number = known.setdefault((node.box, tuple(local[w] for w in node.inputs)), len(known))
            local += [(number, port) for port in range(len(node.box.cod))]
        wires += [local[w] for w in graph.outputs]
    return [wires[w] for w in results]


@dataclass(frozen=True)
class _Transposed:
    """A value with the axes of its type in another order."""

    value: Any
    before: ArrayType
    after: ArrayType


def _transposed(value: Any, box: Box) -> Any:
    """The value of a transposition of another: of one that is transposed already, that of what this is of."""
    (before,), (after,) = box.dom, box.cod
    if isinstance(value, _Transposed):
        value, before = value.value, value.before
    return value if before == after else _Transposed(value, before, after)


def _proved(ask: Ask, number: int, part: PartEquation, statement: dict[str, Any]) -> dict[str, Any]:
    """The certificate of a part. Raises OpenPart."""
    theorem = part.theorem
    if theorem is None or not _alike(theorem.certificate["statement"], statement):
        try:
            theorem = certify(ask, statement)
        except (OpenGoal, KernelError) as error:
            raise OpenPart(number, getattr(error, "goal", str(error))) from error
    if theorem.vacuous:
        raise OpenPart(number, "its hypotheses, which nothing meets")
    if theorem.conditional:
        raise OpenPart(number, "further conditions that it would need: " + "; ".join(theorem.conditions))
    return theorem.certificate


def _alike(one: Json, other: Json) -> bool:
    """Whether two statements are the same but for titles and names."""
    return _canonical(one)[0] == _canonical(other)[0]


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
    base = identifier(re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "made")
    found, k = base, 2
    while found in taken:
        found, k = f"{base}_{k}", k + 1
    taken.add(found)
    return found


__all__ = ["OpenPart", "PartEquation", "certify_composite", "certify_through", "made_of", "piece"]
