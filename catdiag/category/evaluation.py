"""Evaluation: a diagram of Python functions, run; the functor from diagrams to functions given by a function for each
box.

`catdiag.category.functor` takes one action for all boxes. Here there is a function for each box, looked up once and not
at every node. The execution schedule of a diagram is computed once and cached: where only the next node reads a result,
values are passed on without being stored. Other values are released after their last use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, islice, pairwise
from typing import Any, TypeVar

from catdiag.category.diagram import Diagram, HasDiagram, diagram_of, one_box
from catdiag.category.graph import Graph
from catdiag.category.ops import Box
from catdiag.util.errors import TypeMismatch, require

V = TypeVar("V")
SHORTEST = 4
"""The least number of nodes in a chain, each read by the next only, for which a row of its own pays off."""


@dataclass(frozen=True, slots=True)
class WireSpan:
    """The nodes from `start` to `stop`. In a row, each has one input and one output, which only the next one reads.

    `linear`: each wire is read here for the last time. Their inputs are in `reads` from `at` to `end`, `wire` is their
    first output. `unread` lists wires that nothing reads, to be released after the last node.
    """

    start: int
    stop: int
    row: bool
    linear: bool
    at: int
    end: int
    wire: int
    unread: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Course:
    """The execution schedule of a flat form: which of `reads` is the last use of its wire, and the spans of nodes."""

    last: bytes
    spans: tuple[WireSpan, ...]
    unread: tuple[int, ...]


def evaluate(
    diagram: Diagram | HasDiagram,
    inputs: Sequence[V],
    functions: Mapping[Any, Callable[..., Any]] | Callable[[Box], Callable[..., Any]],
) -> tuple[V, ...]:
    """The outputs of a diagram whose boxes are functions, with as many arguments as a box has inputs.

    `functions` maps each box (as in `Diagram.boxes`, or the diagram that `cd.box` makes) to a function, or is a
    function from boxes to functions that is called once for each. A function returns its output, or a sequence of
    outputs unless the box has exactly one.

    >>> from catdiag.category.diagram import box, copy
    >>> from catdiag.category.types import ArrayType, Ty
    >>> X = Ty(ArrayType())
    >>> add, double = box("add", X @ X, X), box("double", X, X)
    >>> evaluate(copy(X) >> double @ (double >> double) >> add, [7], {add: lambda a, b: a + b, double: lambda a: 2 * a})
    (42,)

    Raises TypeMismatch for a wrong number of inputs or of outputs of a function, and for a box without a function.
    """
    graph = diagram_of(diagram).graph
    if not isinstance(inputs, Sequence) or len(inputs) != len(graph.dom):
        given = len(inputs) if isinstance(inputs, Sequence) else inputs
        raise TypeMismatch(f"the diagram has {len(graph.dom)} inputs, in a list: {given} were given")
    table, which, reads = graph.lists()
    course = graph.cached(course_of)
    acts = _functions(graph, functions)
    boxes = [(act, len(b.dom), len(b.cod), b) for act, b in zip(acts, table, strict=True)]
    values: dict[int, Any] = dict(enumerate(inputs))
    for w in course.unread:
        del values[w]
    for span in course.spans:
        kinds = which[span.start : span.stop] if span.stop - span.start < len(which) else which
        if span.row:
            value = (values.pop if course.last[span.at] else values.__getitem__)(reads[span.at])
            for k in kinds:
                value = acts[k](value)
            values[span.wire + len(kinds) - 1] = value
            del value  # only `values` refers to it
        else:
            _run_nodes(boxes, kinds, reads, course.last, span, values)
        for w in span.unread:
            del values[w]
    return tuple([values[w] for w in graph.outputs])


def _run_nodes(
    boxes: Sequence[tuple[Callable[..., Any], int, int, Box]],
    kinds: Sequence[int],
    reads: Sequence[int],
    last: bytes,
    span: WireSpan,
    values: dict[int, Any],
) -> None:
    """Runs the nodes of a span: their inputs are taken out of `values` at their last use, their outputs put in.

    `boxes` has the function of each box, and how many inputs and outputs it has.
    """
    get, pop = values.__getitem__, values.pop
    wires, ends = iter(reads[span.at : span.end]), iter(last[span.at : span.end])
    read, count = wires.__next__, span.wire
    for k in kinds:
        act, take, give, b = boxes[k]
        if not span.linear:
            result = act(*[(pop if end else get)(w) for w, end in islice(zip(wires, ends), take)])
        elif take == 1:
            result = act(pop(read()))
        elif take == 2:
            result = act(pop(read()), pop(read()))
        else:
            result = act(*map(pop, islice(wires, take)))
        if give == 1:
            values[count] = result
        elif not hasattr(result, "__len__") or len(result) != give:
            raise TypeMismatch(_outputs(b, result))
        elif give == 2:
            values[count], values[count + 1] = result
        else:
            values.update(enumerate(result, count))
        count += give
        del result  # only `values` refers to it


def _functions(graph: Graph, functions: object) -> list[Callable[..., Any]]:
    """The function of each box of the table; boxes that no node uses get none."""
    table, which, _ = graph.lists()
    expected = "a dictionary from boxes to functions, or a function that gives them"
    require(isinstance(functions, Mapping) or callable(functions), "functions", functions, expected)
    given = (
        {one_box(b, "a key of functions"): f for b, f in functions.items()} if isinstance(functions, Mapping) else {}
    )
    acts: list[Any] = [given.get(b) for b in table]
    for k in dict.fromkeys(which) if None in acts else range(len(table)):
        b = table[k]
        if isinstance(functions, Mapping):
            if b not in given:
                raise TypeMismatch(f"{b.name} : {b.dom} → {b.cod} has no function: expected one in functions")
            acts[k] = given[b]
        else:
            acts[k] = functions(b)  # type: ignore[operator]
        require(callable(acts[k]), f"the function of {b.name}", acts[k], "a function of its inputs")
    return acts


def _outputs(b: Box, result: object) -> str:
    found = f"gave {len(result)}" if hasattr(result, "__len__") else f"gave no sequence but {type(result).__name__}"
    return f"{b.name} has {len(b.cod)} outputs, its function {found}"


def course_of(graph: Graph) -> Course:
    """The execution schedule of a flat form, computed with NumPy where it is long.

    >>> from catdiag.category.diagram import box, copy
    >>> from catdiag.category.types import ArrayType
    >>> f = box("f", ArrayType(), ArrayType())
    >>> [(s.start, s.stop, s.row) for s in course_of((f >> f >> f >> f >> copy(f.cod) >> f @ f).graph).spans]
    [(0, 4, True), (4, 6, False)]
    """
    table, which, reads = graph.lists()
    inputs = len(graph.dom)
    arity, ports = [len(b.dom) for b in table], [len(b.cod) for b in table]
    single = [a == p == 1 for a, p in zip(arity, ports, strict=True)]
    if len(which) >= SHORTEST and inputs == 1 and all(single) and graph.outputs == (len(which),):  # noqa: SIM102
        # Most long diagrams are a chain of boxes on one wire.
        if reads == list(range(len(which))):
            return Course(b"\1" * len(which), (WireSpan(0, len(which), True, False, 0, len(which), 1),), ())
    found = (_uses_in_arrays if graph.has_arrays else _uses)(graph, arity, ports, single)
    last, never = found[-2:]
    return Course(last, _spans(*found), tuple([w for w in never if w < inputs]))


_Uses = tuple[list[tuple[int, int]], list[int], Any, Any, bytes, list[int]]
"""The rows, the nodes after which wires are lost, the first input and the first output of each node, which reads are
the last of their wires, and the wires that nothing reads."""


def _uses_in_arrays(graph: Graph, arity: list[int], ports: list[int], single: list[bool]) -> _Uses:
    """The uses of wires, computed by NumPy for all nodes at once."""
    import numpy as np

    inputs = len(graph.dom)
    _, kinds, wires = graph.arrays()
    lengths, made = np.array(arity, dtype=np.int64)[kinds], np.array(ports, dtype=np.int64)[kinds]
    starts, firsts = np.cumsum(lengths) - lengths, np.cumsum(made) - made + inputs
    total = inputs + int(made.sum())
    reader = np.full(total, -1)
    reader[wires] = np.arange(len(wires))
    reader[list(graph.outputs)] = len(wires)
    ends = reader[wires] == np.arange(len(wires))
    unread = np.flatnonzero(reader < 0)
    alone = np.array(single, dtype=bool)[kinds]
    linked = alone.copy()
    linked[:1] = False
    at = np.flatnonzero(linked)
    linked[at] = alone[at - 1] & (wires[starts[at]] == firsts[at - 1]) & ends[starts[at]]
    # The starts and ends of rows; rows that are too short are part of the span around them.
    edges = np.flatnonzero(np.diff(linked, prepend=False, append=False))
    begins, stops = edges[::2] - 1, edges[1::2]
    long = stops - begins >= SHORTEST
    rows = list(zip(begins[long].tolist(), stops[long].tolist(), strict=True))
    cuts = np.unique(np.searchsorted(firsts, unread[unread >= inputs], side="right")).tolist()
    return rows, cuts, np.append(starts, len(wires)), np.append(firsts, total), ends.tobytes(), unread.tolist()


def _uses(graph: Graph, arity: list[int], ports: list[int], single: list[bool]) -> _Uses:
    """The uses of wires, computed node by node."""
    _, which, reads = graph.lists()
    begin = list(accumulate([arity[k] for k in which], initial=0))
    wire = list(accumulate([ports[k] for k in which], initial=len(graph.dom)))
    place_of = dict(zip(reads, range(len(reads)), strict=True)) | dict.fromkeys(graph.outputs, -1)
    last = bytes([place_of[w] == place for place, w in enumerate(reads)])
    never = [w for w in range(wire[-1]) if w not in place_of]
    links = [
        place > 0 and single[k] and single[which[place - 1]] and reads[begin[place]] == wire[place - 1]
        and last[begin[place]] for place, k in enumerate(which)
    ]  # fmt: skip
    rows = []
    for linked, group in groupby(range(len(which)), key=links.__getitem__):
        places = list(group)
        if linked and len(places) + 1 >= SHORTEST:
            rows.append((places[0] - 1, places[-1] + 1))
    lost = set(never)
    cuts = [place + 1 for place in range(len(which)) if any(w in lost for w in range(wire[place], wire[place + 1]))]
    return rows, cuts, begin, wire, last, never


def _spans(
    rows: list[tuple[int, int]], cuts: list[int], begin: Any, wire: Any, last: bytes, never: list[int]
) -> tuple[WireSpan, ...]:
    """The rows and the spans between them, cut where a wire is made that nothing reads."""
    size = len(begin) - 1
    inside = dict(rows)
    edges = sorted({0, size, *(k for row in rows for k in row), *cuts})
    lost = [w for w in never if w >= wire[0]]
    spans: list[WireSpan] = []
    used = 0
    for start, stop in pairwise(edges):
        row = start in inside
        at, after = int(begin[start]), int(begin[stop])
        ends = used
        while ends < len(lost) and lost[ends] < wire[stop]:
            ends += 1
        linear = not row and 0 not in last[at:after]
        spans.append(WireSpan(start, stop, row, linear, at, after, int(wire[start]), tuple(lost[used:ends])))
        used = ends
    return tuple(spans)
