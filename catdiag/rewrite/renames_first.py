"""Renamings moved towards the inputs: `f(a, r)` with i renamed to j is f of `a[i→j]` and `r[i→j]`.

A loop over j, or groups of i, need a block of what is renamed. They make it of blocks of the inputs, which are read
under both names. The equation is proved elsewhere, as for any rewrite.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from catdiag.category.diagram import Diagram
from catdiag.category.op_facts import new_names, reduced_axes, transposes
from catdiag.category.ops import ARITHMETIC, Box, Index, Rename, index_box, op_fact
from catdiag.category.types import ArrayType, Axis, Ty
from catdiag.rewrite.canonicalize import canonical_graph
from catdiag.rewrite.hash_consed_graph import HashConsedGraph
from catdiag.rewrite.merge_axes import REMADE


def renames_first(flat: Diagram, axes: Collection[str]) -> Diagram:
    """A flat diagram with those renamings that mention these axes in front of what computes the array that is renamed:
    scalar functions, contractions and reductions over other axes.

    >>> import catdiag as cd
    >>> f = cd.algorithm("n d, n -> n m")(lambda a, r: cd.einsum("n d, m d -> n m", a / r, (a / r).rename(n="m")))
    >>> [box.name for box in renames_first(f.diagram, ["n"]).boxes]
    ['div', 'rename', 'rename', 'div', 'einsum']
    """
    terms = HashConsedGraph(flat.dom)
    now = list(range(len(flat.dom)))
    changed = False
    for node in flat.graph.nodes:
        wires, names = [now[w] for w in node.inputs], new_names(node.box.op)
        if names and set(axes) & {name for pair in names.items() for name in pair}:
            made = _renamed(terms, wires[0], names, {axis.name: axis for axis in node.box.cod[0].axes})
            if made is not None:
                now.append(terms.cast(made, node.box.cod[0]))
                changed = True
                continue
        start = terms.add(node.box, wires)
        now.extend(range(start, start + len(node.box.cod)))
    outputs = [terms.cast(now[w], ty) for w, ty in zip(flat.graph.outputs, flat.cod, strict=True)]
    return canonical_graph(terms, outputs, flat) if changed else flat


Names = tuple[tuple[str, str], ...]
"""Axes of an array, each with its new name."""


def _renamed(terms: HashConsedGraph, wire: int, names: Mapping[str, str], axes: Mapping[str, Axis]) -> int | None:
    """The wire under new names of axes, which are `axes`, computed of renamed arrays; None where no box is passed."""
    top = wire, _names(terms, wire, names)
    if not _computed(terms, *top):
        return None
    made: dict[tuple[int, Names], int] = {}
    todo = [top]
    while todo:
        w, new = todo[-1]
        parts = [] if (w, new) in made else _parts(terms, w, new)
        if missing := [part for part in parts if part not in made]:
            todo += missing
            continue
        todo.pop()
        if (w, new) not in made:
            made[w, new] = _made(terms, w, dict(new), axes, [made[part] for part in parts])
    return made[top]


def _names(terms: HashConsedGraph, wire: int, names: Mapping[str, str]) -> Names:
    """Those of some new names that are of axes of a wire."""
    return tuple((n, names[n]) for n in terms.names(wire) if names.get(n, n) != n)


def _computed(terms: HashConsedGraph, wire: int, names: Names) -> bool:
    """Whether a wire is computed by a box that is passed, or has its new names behind a renaming."""
    while names and (node := terms.node(wire)) is not None and transposes(node.box):
        ((wire, names),) = _parts(terms, wire, names)
    return not names or _passes(terms, wire, dict(names))


def _parts(terms: HashConsedGraph, wire: int, names: Names) -> list[tuple[int, Names]]:
    """The arrays, and their new names, of which a wire is made under new names; none where it is renamed itself."""
    node, new = terms.node(wire), dict(names)
    if node is None or not names:
        return []
    if transposes(node.box):
        own = new_names(node.box.op)
        old = {n: new.get(own.get(n, n), own.get(n, n)) for n in terms.names(node.inputs[0])}
        return [(node.inputs[0], _names(terms, node.inputs[0], old))]
    return [(w, _names(terms, w, new)) for w in node.inputs] if _passes(terms, wire, new) else []


def _made(
    terms: HashConsedGraph, wire: int, names: Mapping[str, str], axes: Mapping[str, Axis], read: Sequence[int]
) -> int:
    """A wire under new names, of what it is made of."""
    node, old = terms.node(wire), terms.types[wire]
    known = {**{a.name: a for a in old.axes}, **axes}
    new = ArrayType(tuple(known[names.get(a.name, a.name)] for a in old.axes), old.element)
    if node is not None and names and transposes(node.box):
        return terms.cast(read[0], new)
    if node is not None and names and _passes(terms, wire, names):
        row = op_fact(REMADE, node.box.op)
        assert row is not None, "what is passed can be made of other arrays"
        return terms.cast(row(terms, node.box.op, read, new.names, node.box.line), new)
    if node is not None and names and isinstance(node.box.op, Index):
        return terms.add(index_box(new.axes[0]), ())
    pairs = tuple(sorted(names.items()))
    return terms.add(Box(Rename(pairs), Ty(old), Ty(new)), (wire,)) if pairs else wire


def _passes(terms: HashConsedGraph, wire: int, names: Mapping[str, str]) -> bool:
    """Whether the box that makes a wire, which has one of the axes, computes the same under the new names."""
    node = terms.node(wire)
    if node is None or not isinstance(node.box.op, ARITHMETIC) or not set(names) & set(terms.names(wire)):
        return False
    read = {n for w in node.inputs for n in terms.names(w)}
    return not set(names.values()) & read and not set(names) & set(reduced_axes(node.box))
