"""Statistics that are real numbers wherever the program has results.

The log-sum-exp of a row of scores is −∞ where all of the row is masked. A softmax of such a row has no value, so that a
program of which a result needs that value has none either. Then the statistic is saved as a real number, and what reads
it need not ask whether it is −∞. Where a program chooses another result for such rows, it stays "extended".

A *needed* array is one that some result has no value without, at each of its entries: results, and what makes needed
arrays by strict operations (`catdiag.category.op_facts.strict`). A statistic l is real wherever a needed array A with
its axes has values if `A = A + (l - l)`: that is what the kernel proves, of what makes both from products of arrays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from catdiag.category.diagram import Diagram, of_graph
from catdiag.category.op_facts import contracts, reduced_axes, strict
from catdiag.category.ops import map_box
from catdiag.category.types import ArrayType, Ty
from catdiag.kernel.terms import KernelError
from catdiag.prover.api import Interrupted
from catdiag.prover.composites import OpenPart, certify_through
from catdiag.prover.proof_search import OpenGoal
from catdiag.rewrite.graph_builder import GraphBuilder
from catdiag.rewrite.hash_consed_graph import HashConsedGraph
from catdiag.solvers.z3 import Z3, SolverInterrupted

TRIED = 3
"""Needed arrays that are tried for each statistic."""


def finite_statistics(
    graph: HashConsedGraph, inputs: int, results: Sequence[int], statistics: Collection[int], ask: Z3
) -> set[int]:
    """Those of some extended wires that are real numbers wherever the results have values. `inputs` is how many inputs
    the program has, which come first."""
    if not statistics:
        return set()
    needed = needed_arrays(graph, results)
    return {w for w in statistics if any(_proved(graph, inputs, a, w, ask) for a in _tried(graph, needed, w))}


def needed_arrays(graph: HashConsedGraph, results: Sequence[int]) -> list[int]:
    """The wires that results have no value without, at each of their entries, in the order of the graph."""
    found = set(results)
    for w in reversed(graph.cone(results)):
        node = graph.node(w)
        if w in found and node is not None and strict(node.box):
            found.update(node.inputs)
    return sorted(found)


def _tried(graph: HashConsedGraph, needed: Sequence[int], statistic: int) -> Iterator[int]:
    """Needed real arrays that are made of a reduction of which the statistic is, the first ones first."""
    own = {w for w in graph.cone([statistic]) if _reduces(graph, w)}
    axes = set(graph.names(statistic))
    found = 0
    for w in needed:
        if graph.types[w].element == "real" and axes <= set(graph.names(w)) and own & set(graph.cone([w])):
            yield w
            found += 1
            if found == TRIED:
                return


def _reduces(graph: HashConsedGraph, wire: int) -> bool:
    node = graph.node(wire)
    return node is not None and bool(reduced_axes(node.box)) and not contracts(node.box)


def _proved(graph: HashConsedGraph, inputs: int, needed: int, statistic: int, ask: Z3) -> bool:
    """Whether it is proved that a needed array is itself and a statistic less itself: both of products."""
    products = [w for w in graph.cone([statistic]) if (node := graph.node(w)) is not None and contracts(node.box)]
    left, ours = _made(graph, inputs, needed)
    right, theirs = _made(graph, inputs, needed, statistic)
    stages = [[(ours[w], theirs[w])] for w in products if w in ours and w in theirs]
    try:
        return not certify_through(ask, left, right, stages).conditional
    except SolverInterrupted as error:
        raise Interrupted(f"a proof was interrupted: {error}") from error
    except (OpenPart, OpenGoal, KernelError, ValueError):
        return False


def _made(
    graph: HashConsedGraph, inputs: int, needed: int, statistic: int | None = None
) -> tuple[Diagram, dict[int, int]]:
    """The diagram from the inputs to an array, to which is added a statistic less itself, as real numbers; and its
    wires by those of the graph."""
    builder = GraphBuilder(graph, [graph.types[k] for k in range(inputs)])
    known = {k: k for k in range(inputs)}
    made = builder.emit(needed, known, graph.types[needed])
    if statistic is not None:
        real = builder.emit(statistic, known, ArrayType(graph.types[statistic].axes))
        nothing = builder.add(map_box("sub", [builder.types[real]] * 2), [real, real])
        made = builder.add(map_box("add", [builder.types[made], builder.types[nothing]]), [made, nothing])
        made = builder.cast(made, graph.types[needed])
    return of_graph(builder.graph([made]), Ty(graph.types[needed])), known
