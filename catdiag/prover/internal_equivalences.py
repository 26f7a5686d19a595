"""Equations proved by way of arrays that both sides compute: internal equivalences.

A large program has no normal form of reasonable size. As in the equivalence checking of circuits, both sides are run on
random numbers, and arrays that come out equal are candidates. In the order of the right side, each such pair is proved
from the pairs before it, by normal forms of the few boxes in between, and is a cut for those after it. A pair that is
not proved is no cut. The theorem of the whole is a composite (`catdiag.prover.composites`), which the kernel checks:
what was guessed by running has no part in it.

After A. Kuehlmann and F. Krohm, "Equivalence checking using cuts and heaps", DAC 1997.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from catdiag.category.diagram import Diagram, of_graph
from catdiag.category.graph import Graph
from catdiag.category.named_axes import named_axes, with_parts
from catdiag.category.ops import ARITHMETIC, NULLARY, bodies
from catdiag.category.substitution import inline
from catdiag.category.traversal import all_diagrams
from catdiag.category.types import ArrayType, Ty, size_symbols
from catdiag.kernel.terms import KernelError
from catdiag.prover.assumptions import meeting, symbols_of
from catdiag.prover.certification import certify, parse_assumption, statement_of
from catdiag.prover.composites import OpenPart, PartEquation, certify_composite, made_of, piece
from catdiag.prover.export import program
from catdiag.prover.identifiers import identifier
from catdiag.prover.outcomes import Theorem
from catdiag.prover.proof_search import OpenGoal
from catdiag.prover.refute import exact_execution, float_screening
from catdiag.prover.refute.program_comparison import Comparison

if TYPE_CHECKING:
    from catdiag.kernel.context import Ask

Pair: TypeAlias = tuple[int, int]
"""A wire of the left graph and one of the right graph."""
Floats: TypeAlias = NDArray[np.float64]
_BATCH, _OPERATIONS, _SHAPES, _CELLS = 4, 40_000_000, 2, 20_000
_CLOSE = 1e-8
_LARGE = 40
"""With more boxes than this on both sides together, equal arrays are looked for before a normal form of the whole."""
_WORK = 15_000
"""The bound on the work for a pair (`catdiag.prover.proof_trace.WorkBudget`)."""
_SINGLY, _WIDENED = 4, 2
"""How many cuts that a pair is made of are taken away one at a time, and how often all are."""
_ORDERS = 24
"""The most ways to match the axes of two arrays that are tried."""


@dataclass(frozen=True)
class Screened:
    """Two programs with what their wires came out as: for each, by wire, one array [input, *axes] for each choice of
    sizes, the axes in the order of its type."""

    left: Diagram
    right: Diagram
    values: tuple[Mapping[int, list[Floats]], Mapping[int, list[Floats]]]

    @staticmethod
    def of(f: Diagram, g: Diagram, assume: Sequence[str] = ()) -> Screened | None:
        """Both programs run on random numbers; None where they are too large, or nothing meets the assumptions."""
        left, right = inline(f, kernels=True), inline(g, kernels=True)
        programs = [program(_with_all_wires(d)) for d in (left, right)]
        for mine, theirs in zip(*(p["inputs"] for p in programs), strict=True):
            theirs["name"] = mine["name"]
        scope = sorted(set().union(*map(exact_execution.symbols_of, programs)))
        hypotheses = [["le", 1, s] for s in scope] + [parse_assumption(a) for a in assume]
        statement = {"left": programs[0], "right": programs[1], "assume": hypotheses}
        run = Comparison(statement, _OPERATIONS, 2, ())
        found: list[list[list[Floats]]] = []
        try:
            for sizes in _shapes(run):
                found.append(list(_run(run, sizes)))
        except exact_execution.Exhausted:
            return None
        if not found:
            return None
        values = []
        for side, diagram in enumerate((left, right)):
            inputs, types = len(diagram.dom), diagram.graph.wire_types()
            values.append({w: [f[side][w - inputs] for f in found] for w in range(inputs, len(types))})
        return Screened(left, right, (values[0], values[1]))

    @property
    def large(self) -> bool:
        """Whether a normal form of both programs is likely to be too much work."""
        return len(self.left) + len(self.right) > _LARGE

    @cached_property
    def _left_sums(self) -> tuple[int, Floats]:
        """The first wire of the left side and, from it on, the sums of each one's arrays."""
        first = min(self.values[0], default=0)
        return first, np.array([[_sum(x) for x in found] for found in self.values[0].values()])

    def near(self, wires: Sequence[int], b: int) -> list[int]:
        """Those of some left wires that may be `equal` to a right one in some order of the axes."""
        if not wires:
            return []
        first, sums = self._left_sums
        chosen = np.array(wires)
        wanted = self.values[1][b]
        # Twice what the tolerance adds up to: sums are rounded too. An infinite sum tells nothing.
        far = [2 * _CLOSE * (x.size + _sum(np.abs(x))) for x in wanted]
        with np.errstate(invalid="ignore"):
            apart = np.abs(sums[chosen - first] - [_sum(x) for x in wanted]) > far
        return [int(a) for a in chosen[~apart.any(axis=1)]]

    def equal(self, a: int, b: int, order: Sequence[int]) -> bool:
        """Whether a left wire and a right wire came out equal, axis `order[k]` of the left one being axis k of the
        right one."""
        for x, y in zip(self.values[0][a], self.values[1][b], strict=True):
            x = x.transpose(0, *(k + 1 for k in order))
            if np.isnan(x).all() or not np.allclose(x, y, rtol=_CLOSE, atol=_CLOSE, equal_nan=True):
                return False
        return True

    def results_differ(self) -> bool:
        """Whether a result of the one is not that of the other."""
        outputs = zip(self.left.graph.outputs, self.right.graph.outputs, strict=True)
        inputs = len(self.left.dom)
        types = self.left.graph.wire_types(), self.right.graph.wire_types()
        for a, b in outputs:
            if min(a, b) < inputs:
                continue
            order = [types[0][a].names.index(n) for n in types[1][b].names]
            if not self.equal(a, b, order):
                return True
        return False


def _sum(x: Floats) -> float:
    return float(np.nansum(x))


def _with_all_wires(diagram: Diagram) -> Diagram:
    graph = diagram.graph
    wires = range(len(graph.dom), len(graph.wire_types()))
    return of_graph(Graph(graph.dom, graph.nodes, tuple(wires)), None, diagram.input_names, diagram.title)


def _shapes(run: Comparison) -> list[dict[str, int]]:
    """Sizes for a run: as unlike each other as the assumptions and the number of elements allow, then small ones."""
    found: list[dict[str, int]] = []
    for assume in ([*run.assume, *run.in_range], run.assume):
        found = found or meeting(run.symbols, assume, least=2, hints=(2, 3, 4, 5), count=200)
    fitting = [s for s in found if run.cells(s) <= _CELLS]
    apart = sorted(fitting, key=lambda s: (-len(set(s.values())), sum(s.values())))
    unique = {tuple(s.values()): s for s in (*apart[:1], *fitting[:1], *apart[1:])}
    return [run.in_reach(sizes) for sizes in [*unique.values()][:_SHAPES]]


def _run(run: Comparison, sizes: dict[str, int]) -> Iterator[list[Floats]]:
    """The wires of both programs on a batch of inputs: half of them of positive numbers."""
    blocks = dict.fromkeys(run.locals, 2)
    batch = run.drawer.draw(sizes, blocks, _BATCH)
    wires = batch.wires(run.declared, run.pool)
    random = np.random.Generator(np.random.PCG64(len(run.symbols)))
    drawn = []
    for (values, axes), declared in zip(wires, run.declared, strict=True):
        if declared["element"] in ("real", "extended"):
            values = random.standard_normal(values.shape)
            values[::2] = np.abs(values[::2])
        drawn.append((values, axes))
    functions = batch.polynomials(run.pool)
    for side in (run.left, run.right):
        made = float_screening.outputs(side, drawn, sizes, blocks, functions, run.meter)
        yield [values for values, _ in made]


# -- candidates ----------------------------------------------------------------------------------------------------


def _cuttable(diagram: Diagram) -> list[int]:
    """The wires that may be cuts: numbers that are computed from inputs, the places of largest ones among them. What is
    known of sizes, positions and masks would be lost at a cut, and views compute nothing."""
    graph = diagram.graph
    varies = [True] * len(graph.dom)
    found = []
    for node in graph.nodes:
        of_inputs = any(varies[w] for w in node.inputs) and not isinstance(node.box.op, NULLARY)
        for ty in node.box.cod:
            if of_inputs and ty.element in ("real", "int") and isinstance(node.box.op, ARITHMETIC):
                found.append(len(varies))
            varies.append(of_inputs)
    return found


def _orders(left: ArrayType, right: ArrayType, names: Mapping[str, str]) -> Iterator[tuple[int, ...]]:
    """The ways in which the axes of two arrays may be the same, those with the same names first; `names` are left names
    that right ones are known to stand for."""
    if len(left.axes) != len(right.axes):
        return
    sizes = [a.size for a in left.axes]
    wanted = [names.get(a.name, a.name) for a in right.axes]
    if sorted(wanted) == sorted(left.names):
        yield tuple(left.names.index(n) for n in wanted)
        return
    count = 0
    for order in permutations(range(len(sizes))):
        fits = all(
            sizes[k] == axis.size and (axis.name not in names or left.axes[k].name == names[axis.name])
            for k, axis in zip(order, right.axes, strict=True)
        )
        if fits:
            yield order
            count += 1
        if count == _ORDERS:
            return


def axes_that_meet(diagram: Diagram) -> dict[str, set[str]]:
    """For each axis of a diagram those that a box has beside it, by name. Others may get its name.

    >>> import catdiag as cd
    >>> f = cd.algorithm("q d, x d -> q")(lambda A, B: cd.sum(A, "d") * cd.sum(cd.sum(B, "d"), "x"))
    >>> {name: sorted(others) for name, others in sorted(axes_that_meet(f.diagram).items())}
    {'d': ['q', 'x'], 'q': ['d'], 'x': ['d']}
    """
    found: dict[str, set[str]] = {}
    for node in diagram.graph.nodes:
        # A box is mapped over axes by their names, which those in its body must not be.
        boxes = [node.box, *(box for body in bodies(node.box.op) for item in all_diagrams(body) for box in item.boxes)]
        types = [ty for box in boxes for ty in (*box.dom, *box.cod)]
        names = {name for ty in types for axis in ty.axes for name in with_parts(axis)}
        names.update(*map(named_axes, boxes))
        for name in names:
            found.setdefault(name, set()).update(names - {name})
    return found


def axis_names(screened: Screened) -> dict[str, str]:
    """Names of axes that the right program makes, each with the name of the left program's axis that it stands for.
    Two that no box has both may stand for one.

    >>> import catdiag as cd
    >>> f = cd.algorithm("q d, x d -> q")(
    ...     lambda A, B: cd.sum(cd.exp(cd.einsum("q d, y d -> q y", A, B.rename(x="y"))), "y")
    ... )
    >>> g = cd.algorithm("q d, x d -> q")(
    ...     lambda A, B: cd.sum(cd.exp(cd.einsum("q d, k d -> q k", A, B.rename(x="k"))), "k")
    ... )
    >>> axis_names(Screened.of(f.diagram, g.diagram))
    {'k': 'y'}
    """
    left, right = screened.left.graph, screened.right.graph
    types = left.wire_types(), right.wire_types()
    outside = [{a.name for ty in (*d.dom, *d.cod) for a in ty.axes} for d in (screened.left, screened.right)]
    found = {name: name for name in outside[1]}
    ours, met = _cuttable(screened.left), axes_that_meet(screened.right)
    for b in _cuttable(screened.right):
        for a in screened.near(ours, b):
            match = next((o for o in _orders(types[0][a], types[1][b], found) if screened.equal(a, b, o)), None)
            if match is None:
                continue
            for k, axis in zip(match, types[1][b].axes, strict=True):
                name = types[0][a].axes[k].name
                if axis.name not in found and not any(found.get(other) == name for other in met[axis.name]):
                    found[axis.name] = name
            break
    return {name: other for name, other in found.items() if name != other}


def _pairs(screened: Screened) -> list[Pair]:
    """Wires of both sides that came out equal and have the same axes, in the order of the right side."""
    types = screened.left.graph.wire_types(), screened.right.graph.wire_types()
    by_axes: dict[Any, list[int]] = {}
    for a in _cuttable(screened.left):
        by_axes.setdefault(frozenset(types[0][a].axes), []).append(a)
    found = []
    for b in _cuttable(screened.right):
        for a in screened.near(by_axes.get(frozenset(types[1][b].axes), []), b):
            order = [types[0][a].names.index(n) for n in types[1][b].names]
            if screened.equal(a, b, order):
                found.append((a, b))
    return found


# -- proofs ----------------------------------------------------------------------------------------------------------


class _Cuts:
    """The pairs that are proved, in order: inputs first."""

    def __init__(self, ask: Ask, screened: Screened, assume: Sequence[str]) -> None:
        self.ask, self.assume = ask, assume
        self.graphs = screened.left.graph, screened.right.graph
        self.types = self.graphs[0].wire_types()
        self.number: dict[Pair, int] = {(w, w): w for w in range(len(self.graphs[0].dom))}
        self.inputs = len(self.number)
        self.parts: list[PartEquation] = []

    def prove(self, pair: Pair) -> bool:
        """Whether a pair is proved from those before it; then it is one of them."""
        if pair in self.number:
            return True
        direct = self._made(self._part(pair, frozenset())[1])
        # A cut hides how an array is made. So some are taken away: one, then all that are read, and again all.
        choices = [frozenset[Pair](), *(frozenset([p]) for p in direct[-_SINGLY:] if len(direct) > 1)]
        if any(self._proved(pair, removed) for removed in choices):
            return True
        removed = frozenset(direct)
        for _ in range(_WIDENED if direct else 0):
            if self._proved(pair, removed):
                return True
            further = self._made(self._part(pair, removed)[1])
            if not further:
                return False
            removed |= frozenset(further)
        return False

    def _made(self, reads: Sequence[Pair]) -> list[Pair]:
        """Those of some pairs that are no inputs, the last ones last."""
        return sorted((p for p in reads if self.number[p] >= self.inputs), key=lambda p: self.number[p])

    def _proved(self, pair: Pair, removed: frozenset[Pair]) -> bool:
        """Whether a pair is proved from those before it but for some; then it is one of them."""
        part, _ = self._part(pair, removed)
        about = self._about(part)
        try:
            theorem = certify(self.ask, statement_of(part.left, part.right, about), False, work=_WORK)
        except (OpenGoal, KernelError):
            return False
        if theorem.conditional or theorem.vacuous:
            return False
        self.number[pair] = self.inputs + len(self.parts)
        self.parts.append(PartEquation(part.left, part.right, part.reads, assume=tuple(about), theorem=theorem))
        return True

    def _about(self, part: PartEquation) -> list[str]:
        """The assumptions that are about sizes of a part."""
        known = {
            identifier(s)
            for d in (part.left, part.right)
            for ty in d.graph.wire_types()
            for a in ty.axes
            for s in size_symbols(a.size)
        }
        return [a for a in self.assume if symbols_of(parse_assumption(a)) <= known]

    def _part(self, pair: Pair, removed: frozenset[Pair]) -> tuple[PartEquation, list[Pair]]:
        """The boxes between a pair and the cuts before it, but for some; and the cuts that they read."""
        usable = [
            p
            for p, n in self.number.items()
            if n < self.inputs or (p not in removed and p[0] != pair[0] and p[1] != pair[1])
        ]
        made = [made_of(graph, [pair[k]], {p[k] for p in usable}) for k, graph in enumerate(self.graphs)]
        theirs = set(made[1][1])
        local: list[dict[int, Pair]] = [{}, {}]
        for w in made[0][1]:
            options = [p for p in usable if p[0] == w]
            local[0][w] = next((p for p in options if p[1] in theirs), options[0])
        chosen = set(local[0].values())
        for w in made[1][1]:
            options = [p for p in usable if p[1] == w]
            local[1][w] = next((p for p in options if p in chosen), options[0])
        reads = list(dict.fromkeys((*local[0].values(), *local[1].values())))
        place = {p: n for n, p in enumerate(reads)}
        dom = Ty(*(self.types[p[0]] for p in reads))
        cod = Ty(self.types[pair[0]])
        sides = [
            piece(graph, dom, made[k][0], {w: place[p] for w, p in local[k].items()}, [pair[k]], cod)
            for k, graph in enumerate(self.graphs)
        ]
        return PartEquation(sides[0], sides[1], tuple(self.number[p] for p in reads)), reads


def certify_through_equal_arrays(ask: Ask, screened: Screened, assume: Sequence[str] = ()) -> Theorem:
    """The theorem that two programs mean the same, by way of arrays that came out equal.

    `assume` are conditions on sizes. Raises OpenGoal or KernelError where a result is not proved.
    """
    cuts = _Cuts(ask, screened, assume)
    for pair in _pairs(screened):
        cuts.prove(pair)
    ends = list(zip(*(graph.outputs for graph in cuts.graphs), strict=True))
    for k, pair in enumerate(ends):
        if not cuts.prove(pair):
            raise OpenGoal(f"result {k + 1}, from arrays that both sides compute")
    parts, results = _needed(cuts, ends)
    inputs = list(zip(screened.left.input_names, screened.left.dom, strict=True))
    parsed = [parse_assumption(a) for a in assume]
    try:
        return certify_composite(ask, inputs, parts, results, (screened.left, screened.right), parsed)
    except OpenPart as error:
        raise OpenGoal(error.goal) from error


def _needed(cuts: _Cuts, ends: Sequence[Pair]) -> tuple[list[PartEquation], list[int]]:
    """The parts that the results are made of, and the wires of the results."""
    needed: set[int] = set()
    todo = [cuts.number[pair] for pair in ends]
    while todo:
        w = todo.pop()
        if w >= cuts.inputs and w not in needed:
            needed.add(w)
            todo.extend(cuts.parts[w - cuts.inputs].reads)
    new = {w: w for w in range(cuts.inputs)} | {w: cuts.inputs + n for n, w in enumerate(sorted(needed))}
    parts = [
        PartEquation(p.left, p.right, tuple(new[w] for w in p.reads), assume=p.assume, theorem=p.theorem)
        for p in (cuts.parts[w - cuts.inputs] for w in sorted(needed))
    ]
    return parts, [new[cuts.number[pair]] for pair in ends]


__all__ = ["Screened", "axis_names", "certify_through_equal_arrays"]
