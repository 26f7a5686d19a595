"""Renamings moved towards the inputs: `f(a, r)` with i renamed to j is f of `a[i→j]` and `r[i→j]`.

A loop over j, or groups of i, need a block of what is renamed. They make it of blocks of the inputs, which are read
under both names. The equation is proved elsewhere, as for any rewrite.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from catdiag.category.diagram import Diagram
from catdiag.category.op_facts import new_names, reduced_axes
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


def _renamed(terms: HashConsedGraph, wire: int, names: Mapping[str, str], axes: Mapping[str, Axis]) -> int | None:
    """The wire under new names of axes, which are `axes`, computed of renamed arrays; None where no box is passed."""
    opened: set[int] = set()
    todo = [wire]
    while todo:
        w = todo.pop()
        node = terms.node(w)
        if node is None or w in opened or not _passes(terms, w, names):
            continue
        opened.add(w)
        todo += node.inputs
    if wire not in opened:
        return None
    made: dict[int, int] = {}
    for w in sorted({*opened, *(i for w in opened if (node := terms.node(w)) for i in node.inputs)}):
        node, own = terms.node(w), terms.names(w)
        if w in opened and node is not None:
            output = tuple(names.get(n, n) for n in own)
            read = [made[i] for i in node.inputs]
            known = {**{a.name: a for a in terms.types[w].axes}, **axes}
            new = ArrayType(tuple(known[n] for n in output), terms.types[w].element)
            row = op_fact(REMADE, node.box.op)
            assert row is not None, "what is passed can be made of other arrays"
            made[w] = terms.cast(row(terms, node.box.op, read, output, node.box.line), new)
        elif node is not None and isinstance(node.box.op, Index) and own[0] in names:
            made[w] = terms.add(index_box(axes[names[own[0]]]), ())
        else:
            made[w] = _under_new_names(terms, w, names, axes)
    return made[wire]


def _passes(terms: HashConsedGraph, wire: int, names: Mapping[str, str]) -> bool:
    """Whether the box that makes a wire, which has one of the axes, computes the same under the new names."""
    node = terms.node(wire)
    if node is None or not isinstance(node.box.op, ARITHMETIC) or not set(names) & set(terms.names(wire)):
        return False
    read = {n for w in node.inputs for n in terms.names(w)}
    return not set(names.values()) & read and not set(names) & set(reduced_axes(node.box))


def _under_new_names(terms: HashConsedGraph, wire: int, names: Mapping[str, str], axes: Mapping[str, Axis]) -> int:
    """The wire with those of its axes renamed that have new names."""
    old = terms.types[wire]
    pairs = tuple(sorted((a.name, names[a.name]) for a in old.axes if a.name in names))
    if not pairs:
        return wire
    new = ArrayType(tuple(axes[names[a.name]] if a.name in names else a for a in old.axes), old.element)
    return terms.add(Box(Rename(pairs), Ty(old), Ty(new)), (wire,))
