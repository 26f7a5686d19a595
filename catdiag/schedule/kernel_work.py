"""The work of a kernel, read off its statements: scalar operations, matrix products and their factors, and waits."""

from __future__ import annotations

from catdiag.category.integer_polynomial import ONE, ZERO, IntPolynomial
from catdiag.category.ops import Box, Einsum, Map, Reduce
from catdiag.category.types import union
from catdiag.schedule.contractions import contraction, factors
from catdiag.schedule.live_ranges import chain, contracts, is_view, multiplies, pointwise
from catdiag.schedule.lowered_kernel import Body, For, Loop, LoweredKernel, Visit
from catdiag.schedule.pipelines import pipeline


def add_work(kernel: LoweredKernel, body: Body, inner: int, loops: tuple[Loop, ...] = ()) -> None:
    """Adds to a kernel's record the work of a body that is run in `loops`. `inner` is the width in bytes of the type of
    the computation."""
    graph, found = body.graph, body.found
    states = sum(b is not None and b.role == "accumulator" for b in body.inputs)
    kernel.chains[loops] = kernel.chains.get(loops, 0) + chain(graph, found, states)
    blocks = [b.width if b is not None and b.role == "streamed" else 0 for b in body.inputs]
    combined = set(found.in_place.values())
    count = len(graph.dom)
    for statement in body.statements:
        if isinstance(statement, For):
            add_work(kernel, statement.body, inner, (*loops, statement.loop))
        elif isinstance(statement, Visit):
            place, node = statement.place, graph.nodes[statement.place]
            box, made = node.box, range(count, count + len(node.box.cod))
            count = made.stop
            if loops and multiplies(box):
                kernel.factors += factors(graph, place, blocks, set(kernel.tiles), loops, inner)
            rematerialized = place not in found.in_place and all(body.free[w] for w in made)
            if is_view(box) or place in combined or (rematerialized and not (pointwise(box) and box.cod[0].axes)):
                continue
            _count(kernel, box, loops, box.name == "div" and body.free[node.inputs[1]])


def _count(kernel: LoweredKernel, box: Box, loops: tuple[Loop, ...], given: bool) -> None:
    """Adds the operations of a box that is run in `loops`. `given` says that its divisor is rematerialized, so that no
    reciprocal is computed."""
    op = box.op
    space = IntPolynomial.elements(union((*box.dom, *box.cod)))

    def add(unit: str, amount: IntPolynomial) -> None:
        kernel.work[unit, loops] = kernel.work.get((unit, loops), ZERO) + amount

    if isinstance(op, Map):
        if op.fn == "div" and not given:
            add("exp", IntPolynomial.elements(box.dom[1].axes))
        add(pipeline(op.fn), space)
    elif isinstance(op, Reduce):
        add("alu", space)
    elif isinstance(op, Einsum):
        if multiplies(box):
            add("tensor", space.scaled(len(box.dom)))
            of = contraction(box, set(kernel.tiles), loops)
            vector = ONE in (of.rows, of.columns, of.depth)
            (kernel.by_vectors if vector else kernel.contractions).append(of)
        else:  # elementwise products, and a sum of them if an axis is summed
            add("alu", space.scaled(len(box.dom) - 1 + contracts(box)))
