"""Several passes over an axis: loops in sequence, each of which reads the results of those before it, and a final map.

A reduction whose elements depend on statistics of the axis without a known repair is left for a later pass, where these
statistics are inputs. Each reduction is done in the earliest possible pass. Since a statistic that is known earlier
never hurts, no plan has fewer passes. Results that have the axis are computed by the last pass, a map over tiles of the
axis. The equation is proved elsewhere, as for any rewrite.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product

from catdiag.category.diagram import Diagram, Graph, Node, of_graph, reachable
from catdiag.category.ops import FoldOp, GroupOp
from catdiag.category.substitution import inline
from catdiag.category.types import Ty
from catdiag.rewrite.group import find
from catdiag.rewrite.hash_consed_graph import HashConsedGraph
from catdiag.rewrite.stream.cascade import Cascade
from catdiag.rewrite.stream.emitted_blocks import emitting_forms
from catdiag.rewrite.stream.fold_search import axis_of, candidates
from catdiag.rewrite.stream.loop_builder import Streamed
from catdiag.util.errors import NotGroupable, NotStreamable

MOST = 4
"""The most passes that are tried where the user gives no number."""
_COMBINATIONS = 12


def plans(diagram: Diagram, axis: str, passes: int, plain: bool = False) -> tuple[int, Iterator[Streamed]]:
    """The fewest passes over an axis that suffice, and the diagrams of these passes in order of preference.

    >>> import catdiag as cd
    >>> spread = cd.algorithm("x ->")(lambda a: cd.sum(cd.abs(a - cd.mean(a, "x")), "x"))
    >>> count, forms = plans(spread, "x", 3)
    >>> count, [box.name for box in next(forms).diagram.boxes if "fold" in box.name]
    (2, ['fold[x]', 'fold[x]'])

    `plain` is as in `candidates`. Raises NotStreamable with the reason where `passes` passes do not suffice, and
    AxisError for an unknown axis.
    """
    flat = inline(diagram)
    if any(isinstance(box.op, GroupOp) for box in flat.boxes):
        raise NotStreamable(f"cannot stream axis {axis!r} in several passes: the diagram runs in groups already")
    stages = _stages(flat, axis, passes, plain)
    forms: list[list[Streamed]] = []
    taken: set[str] = set()
    for stage in stages[:-1]:
        found = list(candidates(stage, axis, taken, plain))
        taken.update(found[0].fold.components)
        forms.append(found)
    last = stages[-1]
    if any(axis in ty.names for ty in last.cod):
        forms.append([_mapped(last, axis, forms[0][0].fold)])
    else:
        forms.append(list(candidates(last, axis, taken, plain)))
    ranked = sorted(product(*map(range, map(len, forms))), key=lambda chosen: (sum(chosen), chosen))
    chosen = ([forms[k][place] for k, place in enumerate(places)] for places in ranked)
    return len(stages), (_joined(diagram, stages, parts) for parts in islice(chosen, _COMBINATIONS))


def forms(diagram: Diagram, axis: str, passes: int) -> tuple[int, list[Streamed]]:
    """The fewest passes that suffice, at most `passes`, and the streamed forms in order of preference.

    Raises NotStreamable where they do not suffice, with the number that does, if one was found.

    >>> import catdiag as cd
    >>> count, found = forms(cd.algorithm("x ->")(lambda a: cd.sum(a, "x")), "x", 2)
    >>> count, len(found)
    (1, 1)
    """
    if passes < 1:
        raise NotStreamable(f"{passes} passes over axis {axis!r} read nothing: expected 1 or more")
    try:
        return 1, list(candidates(diagram, axis))
    except NotStreamable as error:
        reason = error
    try:
        if passes == 1 and (emitting := list(emitting_forms(diagram, axis))):
            return 1, emitting
        if passes > 1:
            count, found = plans(diagram, axis, passes)
            return count, list(found)
    except NotStreamable as error:
        reason = error
    more = passes_needed(diagram, axis, passes)
    if more is None:
        raise reason
    raise NotStreamable(f"{reason.message}; in {more} passes it can be: .stream({axis!r}, passes={more})", reason.line)


def first_form(diagram: Diagram, axis: str, passes: int) -> Diagram:
    """The first of the `forms` of a diagram. Raises NotStreamable where there is no form.

    >>> import catdiag as cd
    >>> streamed = first_form(cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x")).diagram, "x", 1)
    >>> [box.name for box in streamed.boxes]
    ['fold[x]']
    """
    try:
        return next(candidates(diagram, axis)).diagram
    except NotStreamable:
        if passes < 2:
            raise
        return next(plans(diagram, axis, passes)[1]).diagram


def plain_forms(diagram: Diagram, axis: str, passes: int) -> tuple[int, list[Streamed]]:
    """How many passes suffice for `plain` forms, and these forms if the number is at most `passes` and `passes` is
    above 1.

    >>> import catdiag as cd
    >>> plain_forms(cd.algorithm("x ->")(lambda a: cd.argmax(a, "x")), "x", 1)
    (2, [])
    """
    try:
        if passes > 1:
            count, found = plans(diagram, axis, passes, plain=True)
            return count, list(found)
    except NotStreamable:
        pass
    return passes_needed(diagram, axis, passes, plain=True) or 0, []


def passes_needed(diagram: Diagram, axis: str, more_than: int, plain: bool = False) -> int | None:
    """How many passes over an axis suffice, if that is more than `more_than`; None otherwise."""
    try:
        count, forms = plans(diagram, axis, MOST, plain)
        next(forms)
    except NotStreamable:
        return None
    return count if count > more_than else None


def _stages(flat: Diagram, axis: str, passes: int, plain: bool) -> list[Diagram]:
    """A diagram for each pass: from the inputs and the known statistics to further statistics, or to the results."""
    stages: list[Diagram] = []
    rest = flat
    while True:
        cascade = Cascade(HashConsedGraph(rest.dom), axis_of(flat, axis))
        cascade.plain, cascade.casts = plain, False  # the passes do not depend on element types
        cascade.read(rest, patient=True)
        keeps = any(axis in ty.names for ty in rest.cod)
        late = [cascade.graph.late[w] for w in cascade.image]
        if not any(late):
            if not stages and cascade.refusals:
                raise cascade.refusals[0]
            if not stages or not keeps:
                raise NotStreamable(f"cannot stream axis {axis!r}: nothing is reduced over it")
            return [*stages, rest]
        if not cascade.postponed and not keeps:
            return [*stages, rest]
        if len(stages) + 2 > passes:
            raise cascade.refusals[0] if cascade.refusals else cascade.refuse_retained_axis(rest)
        types = rest.graph.wire_types()
        known = {k for k, here in enumerate(late) if here and k not in cascade.postponed and axis not in types[k].names}
        cuts = _frontier(rest, known)
        if not cuts:
            raise cascade.refusals[0]
        stages.append(_part(rest, cuts))
        rest = _after(rest, cuts, stages[-1])


def _frontier(diagram: Diagram, known: set[int]) -> list[int]:
    """The known wires that the results depend on directly, without another known wire between."""
    graph = diagram.graph
    makers = {w: node for made, node in graph.wired() for w in made}
    found: dict[int, None] = {}
    seen: set[int] = set()
    todo = list(graph.outputs)
    while todo:
        w = todo.pop()
        if w in seen:
            continue
        seen.add(w)
        if w in known:
            found[w] = None
        elif w in makers:
            todo.extend(makers[w].inputs)
    return sorted(found)


def _part(diagram: Diagram, outputs: Sequence[int]) -> Diagram:
    """The part of a diagram that computes some of its wires."""
    graph = diagram.graph
    types = graph.wire_types()
    made = reachable(Graph(graph.dom, graph.nodes, tuple(outputs)))
    return of_graph(made, Ty(*(types[w] for w in outputs)), diagram.input_names, diagram.title)


def _after(diagram: Diagram, cuts: Sequence[int], before: Diagram) -> Diagram:
    """The rest of a diagram, with the wires `cuts` as further inputs under new names."""
    graph = diagram.graph
    count = len(graph.dom)
    number = {k: k for k in range(count)} | {w: count + k for k, w in enumerate(cuts)}
    nodes: list[Node] = []
    old, new = count, count + len(cuts)
    for node in graph.nodes:
        nodes.append(Node(node.box, tuple(number[w] for w in node.inputs)))
        for _ in node.box.cod:
            number.setdefault(old, new)
            old, new = old + 1, new + 1
    names = list(diagram.input_names)
    makers = {w: node for made, node in graph.wired() for w in made}
    for w in cuts:
        name = base = "".join(c if c.isalnum() else "_" for c in makers[w].box.name).strip("_") or "value"
        k = 1
        while name in names:
            k += 1
            name = f"{base}{k}"
        names.append(name)
    made = reachable(Graph(graph.dom @ before.cod, tuple(nodes), tuple(number[w] for w in graph.outputs)))
    return of_graph(made, diagram.cod, tuple(names), diagram.title)


def _mapped(diagram: Diagram, axis: str, fold: FoldOp) -> Streamed:
    """The last pass: the results that have the axis, computed tile by tile."""
    graph = diagram.graph
    places = [k for k, ty in enumerate(diagram.cod) if axis in ty.names]
    try:
        tiles = find(_part(diagram, [graph.outputs[k] for k in places]), [axis])
    except NotGroupable as error:
        raise NotStreamable(
            f"cannot stream axis {axis!r}: the results that keep it are no map over it: {error.message}", error.line
        ) from None
    rest = [k for k in range(len(diagram.cod)) if k not in places]
    others = _part(diagram, [graph.outputs[k] for k in rest])
    count = len(graph.dom)
    shift = sum(len(n.box.cod) for n in tiles.graph.nodes)
    nodes = [
        *tiles.graph.nodes,
        *(Node(n.box, tuple(w if w < count else w + shift for w in n.inputs)) for n in others.graph.nodes),
    ]
    outputs = dict(zip(places, tiles.graph.outputs, strict=True))
    moved = [w if w < count else w + shift for w in others.graph.outputs]
    outputs |= dict(zip(rest, moved, strict=True))
    whole = Graph(graph.dom, tuple(nodes), tuple(outputs[k] for k in range(len(diagram.cod))))
    made = of_graph(whole, diagram.cod, diagram.input_names, diagram.title)
    return Streamed(made, fold)


def _joined(source: Diagram, stages: Sequence[Diagram], parts: Sequence[Streamed]) -> Streamed:
    """The passes in sequence, as one streamed form."""
    made = parts[-1].diagram
    for part in reversed(parts[:-1]):
        made = _then(part.diagram, made)
    made = of_graph(made.graph, source.cod, source.names, source.title)
    dropped = tuple(box for part in parts for box in part.dropped)
    return Streamed(made, parts[0].fold, dropped=dropped)


def _then(first: Diagram, second: Diagram) -> Diagram:
    """The second diagram after the first, with the inputs of the first in front of its outputs."""
    before, after = first.graph, second.graph
    count = len(before.dom)
    total = count + sum(len(n.box.cod) for n in before.nodes)
    number = {k: k for k in range(count)} | {count + k: w for k, w in enumerate(before.outputs)}
    shift = total - len(after.dom)
    nodes = [Node(n.box, tuple(number.get(w, w + shift) for w in n.inputs)) for n in after.nodes]
    outputs = tuple(number.get(w, w + shift) for w in after.outputs)
    graph = reachable(Graph(before.dom, (*before.nodes, *nodes), outputs))
    return of_graph(graph, second.cod, first.names, first.title)
