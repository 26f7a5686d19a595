"""One name for axes that renamings identify: where an array over keys goes by another name from some box on, and back.

A kernel then streams one axis, or has one group, where it would have one for each name. Inputs are renamed before and
results after, which are the same arrays in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from catdiag.category.diagram import Diagram, Node
from catdiag.category.op_facts import new_names, transposes
from catdiag.category.ops import Box, Index, Op, Reduce, Rename, index_box, op_fact
from catdiag.category.types import ArrayType, Axis, Ty
from catdiag.rewrite.canonicalize import canonical_graph
from catdiag.rewrite.hash_consed_graph import HashConsedGraph
from catdiag.rewrite.join_axes import NAMED_AXES, REMADE_JOINED


def with_one_name(diagram: Diagram) -> Diagram:
    """A flat diagram in which axes have one name that it renames to one another, if no box has both. It means the same.

    >>> import catdiag as cd
    >>> f = cd.algorithm("q x")(lambda S: cd.sum(cd.exp(S.rename(x="y")).rename(y="x") * S, "x"))
    >>> [box.name for box in f.boxes], [box.name for box in with_one_name(f.diagram).boxes]
    (['rename', 'exp', 'rename', 'mul', 'sum[x]'], ['exp', 'mul', 'sum[x]'])
    """
    known = {axis.name: axis for ty in diagram.graph.wire_types() for axis in ty.axes}
    names = _identified(diagram, known)
    if not names:
        return diagram
    terms = HashConsedGraph(diagram.dom)

    def type_of(ty: ArrayType) -> ArrayType:
        return ArrayType(tuple(known[names[a.name]] if a.name in names else a for a in ty.axes), ty.element)

    now = [terms.rename(w, names) for w in range(len(diagram.dom))]
    for node in diagram.graph.nodes:
        box, read, types = node.box, [now[w] for w in node.inputs], [type_of(ty) for ty in node.box.cod]
        row = op_fact(UNDER_NAMES, box.op)
        if types == list(box.cod) and all(type_of(ty) == ty for ty in box.dom):
            start = terms.add(box, read)
            now.extend(range(start, start + len(box.cod)))
        elif row is not None:
            now.append(terms.cast(row(terms, box.op, read, types[0], names), types[0]))
        else:
            remade = op_fact(REMADE_JOINED, box.op)
            assert remade is not None, "boxes that name axes are left"
            now.append(terms.cast(remade(terms, box.op, read, types[0].names, box.line), types[0]))
    outputs = [_renamed(terms, now[w], ty, names) for w, ty in zip(diagram.graph.outputs, diagram.cod, strict=True)]
    return canonical_graph(terms, outputs, diagram)


def _identified(diagram: Diagram, known: Mapping[str, Axis]) -> dict[str, str]:
    """For names of axes the one that they have in common with others, the first in the diagram."""
    order = list(known)
    group = {name: {name} for name in order}
    distinct = [_names(node) for node in diagram.graph.nodes if not transposes(node.box)]
    distinct += [set(ty.names) for ty in (*diagram.dom, *diagram.cod)]
    fixed = {name for node in diagram.graph.nodes for name in _fixed(node)}
    for node in diagram.graph.nodes:
        for old, new in new_names(node.box.op).items() if transposes(node.box) else ():
            both = group[old] | group[new]
            sizes = {(known[name].size, known[name].kind) for name in both}
            if len(sizes) > 1 or both & fixed or any(len(both & names) > 1 for names in distinct):
                continue
            group.update(dict.fromkeys(both, both))
    first = {name: min(group[name], key=order.index) for name in order}
    return {name: one for name, one in first.items() if one != name}


def _names(node: Node) -> set[str]:
    return {name for ty in (*node.box.dom, *node.box.cod) for name in ty.names}


def _fixed(node: Node) -> set[str]:
    """The axes that a box must find under their names: those that it reads at positions, or makes of others."""
    box = node.box
    if op_fact(UNDER_NAMES, box.op) is not None:
        return set()
    row = op_fact(NAMED_AXES, box.op)
    if op_fact(REMADE_JOINED, box.op) is not None:
        return set() if row is None else row(box.op)
    return {part for ty in (*box.dom, *box.cod) for a in ty.axes for part in (a.name, *(p.name for p in a.parts))}


def _renamed(terms: HashConsedGraph, wire: int, ty: ArrayType, names: Mapping[str, str]) -> int:
    """A result under the names that it has in the diagram."""
    old = terms.types[wire]
    pairs = tuple((names[n], n) for n in ty.names if n in names)
    if not pairs:
        return terms.cast(wire, ty)
    back = dict(pairs)
    axes = {a.name: a for a in ty.axes}
    new = ArrayType(tuple(axes[back.get(a.name, a.name)] for a in old.axes), old.element)
    return terms.cast(terms.add(Box(Rename(tuple(sorted(pairs))), Ty(old), Ty(new)), (wire,)), ty)


def _rename(graph: HashConsedGraph, op: Rename, read: Sequence[int], ty: ArrayType, names: Mapping[str, str]) -> int:
    """A renaming of what still has other names."""
    pairs = ((names.get(a, a), names.get(b, b)) for a, b in op.pairs)
    return graph.rename(read[0], {a: b for a, b in pairs if a != b})


UNDER_NAMES: Mapping[type[Op], Callable[[HashConsedGraph, Any, Sequence[int], ArrayType, Mapping[str, str]], int]] = {
    Index: lambda graph, op, read, ty, names: graph.add(index_box(ty.axes[0]), ()),
    Rename: _rename,
    Reduce: lambda graph, op, read, ty, names: graph.reduce(op.monoid, names.get(op.axis, op.axis), read[0]),
}
"""Operations that name axes, under other names of these: on arrays that have those, with the type of the result."""
