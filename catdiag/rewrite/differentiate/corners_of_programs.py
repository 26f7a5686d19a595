"""Where the gradient of a program is its derivative, in words."""

from __future__ import annotations

from dataclasses import dataclass

from catdiag.category.diagram import Diagram
from catdiag.category.ops import Map
from catdiag.category.types import ArrayType
from catdiag.kernel.context import Context
from catdiag.kernel.definedness import Obligation
from catdiag.kernel.differentiability import corners
from catdiag.kernel.facts import Fact
from catdiag.kernel.semantics import evaluate, inputs_of
from catdiag.kernel.terms import ONE, Data, Printer, Term, fn, idx, leaves, size, substitute
from catdiag.prover.export import program
from catdiag.prover.identifiers import identifier
from catdiag.prover.refute.exact_execution import symbols_of
from catdiag.rewrite.differentiate.gradient import Inputs, Outputs, chosen_inputs, chosen_outputs, restricted
from catdiag.rewrite.differentiate.passes import Linearization
from catdiag.rewrite.differentiate.redundant_maxima import RedundantMaximum, redundant_maxima
from catdiag.rewrite.differentiate.scalar_derivatives import ROUNDED
from catdiag.rewrite.graph_builder import GraphBuilder
from catdiag.solvers.child_process import searching
from catdiag.solvers.z3 import Z3


@dataclass(frozen=True)
class Differentiability:
    """Where the gradient of a program is its derivative: where the program has a value, and the `conditions` hold.

    At other points it is what the rules state. `redundant` are the maxima that need no condition, since it is proved
    that the results do not depend on them. `.obligations` are the conditions as the kernel computes them, `.rounded`
    the functions whose derivative has a rational number in place of an irrational one.
    """

    title: str
    conditions: tuple[str, ...]
    redundant: tuple[RedundantMaximum, ...]
    obligations: tuple[Obligation, ...]
    rounded: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The statement, what it needs, and what was proved for it."""
        said = f"the gradient of {self.title} is its derivative wherever {self.title} has a value"
        lines = [said + (" and" if self.conditions else ""), *(f"  {c}" for c in self.conditions)]
        lines += [f"proved: no result depends on which number {found.box.name} is" for found in self.redundant]
        lines += [f"the derivative of {name} has 2/√π to 64 decimals" for name in self.rounded]
        return "\n".join(lines)


def differentiability(diagram: Diagram, ask: Z3, of: Outputs = None, wrt: Inputs = None) -> Differentiability:
    """The conditions under which the gradient of a diagram is its derivative, computed by the kernel.

    See `catdiag.program.Program.differentiability`.
    """
    chosen, named = chosen_inputs(diagram, wrt), chosen_outputs(diagram, of)
    made = Linearization(restricted(diagram, named.values()), ())
    found = redundant_maxima(made, chosen, ask)
    graph = made.graph
    dom = [*graph.dom.arrays, *(ArrayType(graph.types[w].axes) for w in found)]
    builder = GraphBuilder(graph, dom)
    env = {k: k for k in range(len(graph.dom))} | {w: len(graph.dom) + k for k, w in enumerate(found)}
    outputs = [builder.emit(w, env, graph.types[w]) for w in made.outputs]
    names = (*diagram.input_names, *(f"maximum{k or ''}" for k in range(len(found))))
    core = program(builder.diagram(outputs, names))
    sizes = tuple(Fact((), (), fn("le", ONE, size(s))) for s in sorted(symbols_of(core)))
    elements = {str(d["name"]): str(d["element"]) for d in core["inputs"]}
    varying = [identifier(diagram.input_names[k]) for k in chosen]
    owed: dict[Obligation, None] = {}
    for wire in evaluate(core, inputs_of(core, {}), {}, lambda node, args, sizes: None):
        ctx = Context(searching(ask), dict(wire.axes), sizes, elements)
        owed.update(dict.fromkeys(map(_canonical, corners(ctx, wire.term, varying))))
    printer = Printer.of(*(o.condition for o in owed), *(g for o in owed for g in o.guards),
                         *(n for o in owed for _, n in o.ranges))  # fmt: skip
    title = diagram.title or "the program"
    said = tuple(dict.fromkeys(o.said(printer) for o in owed))
    rounded = tuple(fn for fn in ROUNDED if any(node.box.op == Map(fn) for node in graph.nodes[: made.count]))
    return Differentiability(title, said, tuple(found.values()), tuple(owed), rounded)


def _canonical(owed: Obligation) -> Obligation:
    """The obligation with its indices numbered, so that one that is owed of two places is said once."""
    spoken = set[str]().union(*(leaves(c, "idx") for c in (owed.condition, *owed.guards)))
    ranges = [(name, n) for name, n in owed.ranges if name in spoken]
    put: dict[tuple[str, Data], Term] = {("idx", name): idx(f"%{k}") for k, (name, _) in enumerate(ranges)}
    over = tuple((f"%{k}", substitute(n, put)) for k, (_, n) in enumerate(ranges))
    return Obligation(over, tuple(substitute(g, put) for g in owed.guards), substitute(owed.condition, put))
