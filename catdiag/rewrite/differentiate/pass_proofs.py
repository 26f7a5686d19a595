"""That a changed backward pass means what the gradient does, array by array.

A gradient is changed wire by wire, and each wire is paired with what it has become. Where a pair is made by equal boxes
of pairs there is nothing to prove but that; the equation of another pair is between the few boxes back to pairs that
both sides read. So the work is linear in the number of arrays, however long the program is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from catdiag.category.op_facts import reduced_axes
from catdiag.rewrite.hash_consed_graph import HashConsedGraph

Pair = tuple[int, int]


def stages(
    graph: HashConsedGraph, roots: Sequence[int], becomes: Mapping[int, int], bases: Collection[int]
) -> list[Pair]:
    """The pairs that are proved one after the other: of wires that contract or reduce, that are changed, or are among
    `bases`, the terms of sums whose statistics are put together. Between these and a changed wire of the forward pass
    nothing is a pair, since the equation needs what statistics are; nor is what both sides of another changed wire have
    to be opened for until they read the same pairs.

    The forward pass is as it was, and comes first. A changed wire of it, and what is made of that, comes after those
    that read the wire that it was.
    """
    cone = graph.cone(roots)
    changed = [w for w in cone if not _congruent(graph, w, becomes)]
    before = {w for w in changed if not graph.late[w]}
    opened = _after_bases(graph, before, becomes, bases) - before
    later = set[int]()
    for w in changed:
        if graph.late[w]:
            later |= _until_shared(graph, w, becomes)
    arrays = {*bases, *(w for w in cone if _is_made(graph, w))} - opened - before
    kept = {*changed, *arrays} - {w for w in later if w not in before} - _of_no_input(graph, cone)
    readers = {w: _reads(graph, becomes[w], kept) & before for w in changed if graph.late[w]}
    early = [w for w in cone if not graph.late[w] and (w in kept or w in before or w in arrays & later or w in roots)]
    results = {w: _reads(graph, w, kept) & before for w in early if w not in kept}
    order: dict[Pair, None] = {(w, w): None for w in early if not results.get(w)}
    moved = {w for w, _ in order if w in kept - before and becomes.get(w, w) != w}
    done = set[int]()

    def place(wire: int) -> None:
        if wire in done:
            return
        done.add(wire)
        reads = _reads(graph, wire, kept)
        for w in sorted(w for w in reads if graph.late[w] or w in moved):
            place(w)
        for w in sorted((reads & before) - readers.get(wire, set()) - done):
            done.add(w)
            for reader, of in readers.items():
                if w in of and reader != wire:
                    place(reader)
            order.update(((result, result), None) for result, of in results.items() if w in of)
            order[w, becomes[w]] = None
        order[wire, becomes.get(wire, wire)] = None

    for w in cone:
        if w in kept and graph.late[w]:
            place(w)
    return list(order)


def _of_no_input(graph: HashConsedGraph, wires: Sequence[int]) -> set[int]:
    """Those of wires that are the same for all inputs, such as a causal mask, of which proofs need what they are."""
    found: set[int] = set()
    for w in wires:
        node = graph.node(w)
        if node is not None and all(i in found for i in node.inputs):
            found.add(w)
    return found


def _reads(graph: HashConsedGraph, wire: int, kept: Collection[int]) -> set[int]:
    """The wires among `kept` that a wire is made of."""
    node = graph.node(wire)
    stops = set(kept)
    return set() if node is None else {w for w in graph.cone(node.inputs, stops) if w in stops}


def _congruent(graph: HashConsedGraph, wire: int, becomes: Mapping[int, int]) -> bool:
    """Whether what a wire has become is made by an equal box of what its operands have become."""
    one, two = graph.node(wire), graph.node(becomes.get(wire, wire))
    if one is None or two is None or becomes.get(wire, wire) == wire:
        return one is two
    return one.box.op == two.box.op and [becomes.get(w, w) for w in one.inputs] == list(two.inputs)


def _is_made(graph: HashConsedGraph, wire: int) -> bool:
    """Whether a wire is a contraction or a reduction, of real numbers."""
    node = graph.node(wire)
    return node is not None and bool(reduced_axes(node.box)) and graph.types[wire].element == "real"


def _after_bases(
    graph: HashConsedGraph, changed: Collection[int], becomes: Mapping[int, int], bases: Collection[int]
) -> set[int]:
    """Wires of the forward pass of which changed ones are made, back to the bases, without those that depend on
    none."""
    ends = {one for w in changed for one in (w, becomes.get(w, w))}
    depends: set[int] = set(bases)
    between = graph.cone(ends, bases)
    for w in between:
        node = graph.node(w)
        if w not in depends and node is not None and any(i in depends for i in node.inputs):
            depends.add(w)
    return {w for w in between if w in depends} - set(bases)


def _until_shared(graph: HashConsedGraph, wire: int, becomes: Mapping[int, int]) -> set[int]:
    """What both sides of a changed wire are opened for until they read the same pairs."""
    known = {becomes.get(w, w): w for w in graph.cone([wire])}
    node, other = graph.node(wire), graph.node(becomes.get(wire, wire))
    assert node is not None and other is not None
    left, right, opened = set(node.inputs), {known.get(w, w) for w in other.inputs}, set[int]()
    while left != right:
        last = max(left ^ right)
        made = graph.node(last)
        if made is None:
            break
        opened.add(last)
        for side in (left, right):
            if last in side:
                side.remove(last)
                side |= {known.get(w, w) for w in made.inputs} if side is right else set(made.inputs)
    return opened
