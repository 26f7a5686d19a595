"""A program and its gradient as two programs: the forward pass, which saves what the backward pass reads.

What is saved is found (`catdiag.rewrite.differentiate.saved_statistics`). The backward pass is what depends on
cotangents. Of the forward pass it reads inputs, results and statistics: that of attention reads the log-sum-exp of each
row of scores. A sum of products of which a result is a part is taken through that result: `Σ_x P·(Σ_v dO·V)` is
`Σ_v dO·O` where `O = Σ_x P·V` is a result, or `where(c, O, 0)` is, and rows without c have the gradient 0. Axes of
statistics are in the order of the program's inputs and results.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from catdiag.category.diagram import Diagram, of_graph
from catdiag.category.graph_writer import GraphWriter
from catdiag.category.index_maps import Reindex
from catdiag.category.op_facts import contracts
from catdiag.category.ops import INDEX_MAPS, reindex_box
from catdiag.category.types import ArrayType
from catdiag.kernel.terms import KernelError
from catdiag.prover.api import Interrupted, Theorem, certify_equation
from catdiag.prover.composites import OpenPart, certify_through
from catdiag.prover.proof_search import OpenGoal
from catdiag.rewrite.derivation import NotProved, titled
from catdiag.rewrite.differentiate.box_derivatives import derivative
from catdiag.rewrite.differentiate.finite_statistics import finite_statistics
from catdiag.rewrite.differentiate.gradient import Inputs, Outputs, chosen_inputs, chosen_outputs, further_names
from catdiag.rewrite.differentiate.linear_maps import broadcast
from catdiag.rewrite.differentiate.pass_proofs import stages
from catdiag.rewrite.differentiate.passes import Linearization
from catdiag.rewrite.differentiate.redundant_maxima import redundant_maxima
from catdiag.rewrite.differentiate.saved_statistics import (
    IsExpensive,
    RowStatistics,
    bases,
    cut_wires,
    expensive_arrays,
    operands,
    read_arrays,
)
from catdiag.rewrite.graph_builder import GraphBuilder
from catdiag.rewrite.hash_consed_graph import HashConsedGraph
from catdiag.rewrite.list_states import unrolled
from catdiag.solvers.z3 import Z3, SolverInterrupted


@dataclass(frozen=True)
class ForwardAndBackward:
    """The forward pass of a program, and the backward pass of its gradient, as bare diagrams.

    - `forward`: from the program's inputs to its `results` results, and then what is saved;
    - `backward`: from some of the program's inputs (`reads`, by number), some outputs of the forward pass (`saved`, by
      number; results may be among them), and cotangents of some results (`of`, by number), to cotangents of the inputs
      `wrt`;
    - `theorem`: both together give the results and the gradient;
    - `products`: the outputs of the forward pass, by number, that are saved and no statistics.
    """

    forward: Diagram
    backward: Diagram
    results: int
    reads: tuple[int, ...]
    saved: tuple[int, ...]
    of: tuple[int, ...]
    wrt: tuple[int, ...]
    theorem: Theorem = field(repr=False)
    products: tuple[int, ...] = ()


def forward_and_backward(
    diagram: Diagram, ask: Z3, of: Outputs = None, wrt: Inputs = None, expensive: IsExpensive = lambda box: False
) -> ForwardAndBackward:
    """The two passes, proved together. See `catdiag.program.Program.forward_and_backward`. Results of contractions and
    scatter-adds that are `expensive` are saved, others are computed again."""
    chosen, named = chosen_inputs(diagram, wrt), chosen_outputs(diagram, of)
    flat, count = unrolled(diagram), len(diagram.dom)
    made = Linearization(flat, [ArrayType(diagram.cod[k].axes) for k in named.values()], element_guards=True)
    graph = made.graph
    for place in range(len(named)):
        graph.mark(count + place)
    results, made.outputs = made.outputs, [made.outputs[k] for k in named.values()]
    redundant_maxima(made, chosen, ask)
    pulled = made.reverse(range(count, len(graph.dom)), chosen)
    types = [ArrayType(diagram.dom[k].axes) for k in chosen]
    derived = [
        graph.cast(broadcast(graph, graph.const(0) if w is None else w, ty.axes), ty)
        for w, ty in zip(pulled, types, strict=True)
    ]
    wires = _WithGradient(diagram, graph, tuple(results), tuple(derived), tuple(types), named, tuple(chosen), expensive)
    saved = expensive_arrays(graph, expensive)
    read = [*results, *(w for w in graph.cone([*results, *derived]) if w not in results and w in saved)]
    shorter, becomes = _through_results(graph, read, derived)
    statistics = RowStatistics(graph, read)
    fewer = statistics.of(shorter)
    forms = [(shorter, becomes, set[int]()), (derived, {}, set[int]())]
    of_fewer, of_shorter = (len(read_arrays(graph, results, w, count, expensive)) for w in (fewer, shorter))
    if of_fewer < of_shorter:
        then = statistics.becomes
        whole = {w: then.get(becomes.get(w, w), becomes.get(w, w)) for w in graph.cone([*results, *derived])}
        forms.insert(0, (fewer, whole, bases(graph, statistics.terms)))
    for k, (form, change, of_rows) in enumerate(forms):
        further = any(form != other for other, _, _ in forms[k + 1 :])
        further_saved = set(read_arrays(graph, results, form, count, expensive)) - set(results)
        extended = {w for w in further_saved if graph.types[w].element == "extended"}
        finite = finite_statistics(graph, count, results, extended, ask)
        for real in (finite, set[int]()) if finite else (finite,):
            try:
                return _passes(wires, form, ask, change, of_rows, real)
            except NotProved:  # where a sum is not known to be positive, say
                if not (real or further):
                    raise
    raise AssertionError("the gradient as it was derived is one of the forms")


@dataclass(frozen=True)
class _WithGradient:
    """A program and its gradient in one graph: the wires of results, and of the cotangents of its inputs `wrt`."""

    diagram: Diagram
    graph: HashConsedGraph
    results: tuple[int, ...]
    derived: tuple[int, ...]
    types: tuple[ArrayType, ...]
    of: Mapping[str, int]
    wrt: tuple[int, ...]
    expensive: IsExpensive

    def saved_type(self, wire: int, finite: Collection[int]) -> ArrayType:
        """The type of a saved array, with its axes in the order in which the program's inputs and results have them, or
        products of them; a product as it is made, since what it is computed again with reads it so. `finite` statistics
        are real numbers, where others may be −∞."""
        ty = self.graph.types[wire]
        if wire in expensive_arrays(self.graph, self.expensive):
            return ty
        axes = (axis for one in (*self.diagram.cod, *self.diagram.dom) for axis in one.axes)
        known = dict.fromkeys(part.name for axis in axes for part in (axis, *axis.parts))
        place = {name: k for k, name in enumerate(known)}
        element = "real" if wire in finite else ty.element
        return ArrayType(tuple(sorted(ty.axes, key=lambda a: place.get(a.name, len(place)))), element)


def _passes(
    made: _WithGradient,
    pulled: Sequence[int],
    ask: Z3,
    becomes: Mapping[int, int],
    of_rows: Collection[int],
    finite: Collection[int],
) -> ForwardAndBackward:
    """The passes of which the second makes the wires `pulled`, which mean the cotangents. `becomes` is what the
    gradient's wires have become in them, `of_rows` the arrays whose statistics were put together; of `finite`
    statistics see `_WithGradient.saved_type`. Raises NotProved."""
    diagram, graph, results, types = made.diagram, made.graph, made.results, made.types
    count = len(diagram.dom)
    read = read_arrays(graph, results, pulled, count, made.expensive)
    reads, saved = [w for w in read if w < count], [w for w in read if w >= count]
    further_saved = [w for w in saved if w not in results]
    outputs = [*results, *further_saved]
    further = further_names(diagram, [*(f"saved{k}" for k in range(len(saved))), *(f"d{name}" for name in made.of)])
    names, cotangents = further[:count], list(range(count, len(graph.dom)))
    title = diagram.title or "the program"

    kinds = {w: made.saved_type(w, finite) for w in further_saved}
    forward, early = _emitted(graph, range(count), outputs, [*diagram.cod, *kinds.values()])
    backward, late = _emitted(graph, [*reads, *saved, *cotangents], pulled, types, kinds)
    forward = titled(of_graph(forward.graph, forward.cod, names), f"{title}, forward")
    own = tuple(names[w] for w in reads)
    backward = titled(of_graph(backward.graph, backward.cod, (*own, *further[count:])), f"{title}, backward")
    both, wires = _emitted(graph, range(len(graph.dom)), [*results, *made.derived], [*diagram.cod, *types])
    inputs = (*names, *further[count + len(saved) :])
    both = titled(of_graph(both.graph, both.cod, inputs), f"{title} and its gradient")
    places = tuple(outputs.index(w) for w in saved)
    whole = titled(_composed(both, forward, backward, reads, places), f"{title}, forward and backward")
    once, other = _once(both, (forward, early), (backward, late), reads, places)
    roots = [*results, *made.derived]
    pairs = [[pair] for pair in stages(graph, roots, becomes, of_rows)]
    ways = [pairs, *([[[(w, w) for w in cut_wires(graph, of_rows, [*roots, *pulled])]]] if of_rows else []), []]
    sides = both, once
    theorem = _proved(
        ask,
        sides,
        whole,
        [[[(wires[a], other[b]) for a, b in stage if a in wires and b in other] for stage in way] for way in ways],
    )
    of = tuple(made.of.values())
    expensive = expensive_arrays(graph, made.expensive)
    products = tuple(outputs.index(w) for w in further_saved if w in expensive)
    return ForwardAndBackward(
        forward, backward, len(diagram.cod), tuple(reads), places, of, made.wrt, theorem, products
    )


Stages = Sequence[Sequence[tuple[int, int]]]
_INVERSE: Mapping[str, str] = {"merge": "split", "split": "merge"}


def _proved(ask: Z3, sides: tuple[Diagram, Diagram], whole: Diagram, ways: Sequence[Stages]) -> Theorem:
    """The theorem that the first side is `whole`, which is the second with equal boxes once: in the first way, by
    arrays that both sides have, in which it is proved. Raises NotProved."""
    both, said = sides[0], ""
    for way in ways:
        try:
            if way:
                theorem = certify_through(ask, *sides, way, sides=(both, whole))
            else:
                theorem = certify_equation(ask, both, whole)
        except SolverInterrupted as error:
            raise Interrupted(f"a proof was interrupted: {error}") from error
        except (OpenPart, OpenGoal, KernelError, ValueError) as error:
            said = f"{whole.title} were not proved to be {both.title}: {error}"
            continue
        if not theorem.conditional:
            return theorem
        said = f"{whole.title} need more than {both.title}: {'; '.join(theorem.conditions)}"
    raise NotProved(said)


def _composed(
    both: Diagram, forward: Diagram, backward: Diagram, reads: Sequence[int], saved: Sequence[int]
) -> Diagram:
    """The backward pass after the forward pass, of the type of `both`."""
    count, results = len(forward.dom), len(both.cod) - len(backward.cod)
    writer = GraphWriter(both.dom)
    made = writer.put(forward.graph, range(count))
    pulled = writer.put(backward.graph, [*reads, *(made[k] for k in saved), *range(count, len(both.dom))])
    return of_graph(writer.graph((*made[:results], *pulled)), both.cod, both.names)


Emitted = tuple[Diagram, Mapping[int, int]]
"""A diagram, and the number in it of wires of the graph that it is of."""


def _once(both: Diagram, forward: Emitted, backward: Emitted, reads: Sequence[int], saved: Sequence[int]) -> Emitted:
    """The backward pass after the forward pass, with equal boxes once."""
    writer = GraphWriter(both.dom, shared=True)
    first = list(range(len(forward[0].dom)))
    writer.copy(forward[0].graph.nodes, first)
    made = [first[w] for w in forward[0].graph.outputs]
    second = [*reads, *(made[k] for k in saved), *range(len(forward[0].dom), len(both.dom))]
    writer.copy(backward[0].graph.nodes, second)
    results = made[: len(both.cod) - len(backward[0].cod)]
    graph = writer.graph((*results, *(second[w] for w in backward[0].graph.outputs)))
    known = {w: second[k] for w, k in backward[1].items()} | {w: first[k] for w, k in forward[1].items()}
    return of_graph(graph, both.cod, both.names), known


def _through_results(
    graph: HashConsedGraph, results: Sequence[int], roots: Sequence[int]
) -> tuple[list[int], Mapping[int, int]]:
    """The wires with sums of products taken through results: `Σ_x p·(Σ_v u·w)` as `Σ_v u·r` with a result
    `r = Σ_x p·w`; and what each wire that changes has become."""
    products = [(r, p) for w in results for r, p in _products_of(graph, w)]
    change: dict[int, int] = {}
    for wire in graph.cone(roots):
        if products and graph.late[wire] and _factors(graph, wire) is not None:
            found = next((made for r, p in products for made in _through(graph, r, p, wire)), None)
            if found is not None:
                change[wire] = found
    becomes = graph.substituted(roots, change)
    return [becomes.get(w, w) for w in roots], becomes


def _products_of(graph: HashConsedGraph, result: int) -> Iterator[tuple[int, int]]:
    """Sums of products that a result holds, each with what has its values: the result, which may choose it (of rows
    without any key it is 0, say, and gradients are 0 too), or the result in the arrangement that the sum had."""
    todo = [(result, result)]
    while todo:
        r, p = todo.pop()
        node = graph.node(p)
        if _factors(graph, p) is not None:
            yield r, p
        todo += [(r, branch) for branch in operands(graph, p, "where")[1:]]
        if node is not None and isinstance(node.box.op, Reindex) and node.box.op.kind in _INVERSE:
            inverse = Reindex(_INVERSE[node.box.op.kind], node.box.op.axis)
            todo.append((graph.add(reindex_box(inverse, [graph.types[r]], node.box.line), [r]), node.inputs[0]))


def _through(graph: HashConsedGraph, result: int, product: int, wire: int) -> Iterator[int]:
    """The wire through a result that is a product, perhaps where it is chosen only, in each way that there is."""
    factors, of_product = _factors(graph, wire), _factors(graph, product)
    for p, m in () if factors is None else (factors, factors[::-1]):
        for part, w in () if of_product is None or graph.late[p] else (of_product, of_product[::-1]):
            whole = _of_part(graph, p, m, part)
            inner = None if whole is None else _factors(graph, whole)
            if whole is None or inner is None or w not in inner:
                continue
            u = inner[inner[0] == w]
            summed = {*graph.names(part), *graph.names(whole)} - set(graph.names(wire))
            if (
                _summed(graph, product) == summed
                and not summed & set(graph.names(u))
                and not _summed(graph, whole) & set(graph.names(part))
            ):
                known = graph.names(result)
                names = sorted(graph.names(wire), key=lambda n: known.index(n) if n in known else len(known))
                made = graph.einsum((u, result), names, graph.nodes[graph.maker[wire]].box.line)
                yield graph.cast(made, graph.types[wire])


def _of_part(graph: HashConsedGraph, p: int, m: int, part: int) -> int | None:
    """An array m' with `Σ p·m = Σ part·m'`, where the part is read from p, and m is m' put back there (the transpose of
    that); None where it is not so."""
    reads: list[int] = []
    while part != p:
        node = graph.node(part)
        if node is None or not isinstance(node.box.op, INDEX_MAPS):
            return None
        reads.append(part)
        part = node.inputs[0]
    found: int | None = m
    for read in reversed(reads):
        node, maker = graph.node(read), None if found is None else graph.node(found)
        assert node is not None
        local = derivative(graph, node.box, node.inputs, [read])
        given = () if maker is None else maker.inputs
        found = next(
            (w for w in given if graph.names(w) == graph.names(read) and local.pull(graph, [w])[0] == found), None
        )
    return found


def _factors(graph: HashConsedGraph, wire: int) -> tuple[int, int] | None:
    """The factors of a sum of products of two arrays; None for what is none."""
    node = graph.node(wire)
    if node is None or len(node.inputs) != 2 or not contracts(node.box):
        return None
    return node.inputs[0], node.inputs[1]


def _summed(graph: HashConsedGraph, wire: int) -> set[str]:
    """The axes that a sum of products sums over."""
    return {n for f in _factors(graph, wire) or () for n in graph.names(f)} - set(graph.names(wire))


def _emitted(
    graph: HashConsedGraph,
    reads: Sequence[int],
    outputs: Sequence[int],
    types: Sequence[ArrayType],
    read_types: Mapping[int, ArrayType] = MappingProxyType({}),
) -> Emitted:
    """The diagram from some wires to others, of these types, and its wires by those of the graph; `read_types` of wires
    that are read in other types."""
    builder = GraphBuilder(graph, [read_types.get(w, graph.types[w]) for w in reads])
    env = {w: k for k, w in enumerate(reads)}
    made = builder.diagram([builder.emit(w, env, ty) for w, ty in zip(outputs, types, strict=True)], ())
    # Boxes that reach no output are left out, and wires numbered anew.
    return made, env if len(made.graph.nodes) == len(builder.nodes) else {}
