"""Seconds that no kernel of a piece of a diagram takes less than, read off the piece as it is written.

>>> import catdiag as cd
>>> target = PlanTarget(cd.hardware.H200, {"a": 4096, "b": 4096, "c": 4096})
>>> bound = roofline_bound(cd.library.get("matmul").diagram, target)
>>> bound.memory_s < bound.tensor_s == bound.seconds
True
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

from catdiag.category.diagram import Diagram, Graph
from catdiag.category.index_maps import View
from catdiag.category.integer_polynomial import ONE
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType, element_bytes, size_value, union
from catdiag.planner.kernel_candidates import PlanTarget
from catdiag.schedule.contractions import contraction, deciding
from catdiag.schedule.full_precision import is_real
from catdiag.schedule.live_ranges import multiplies, rematerialized
from catdiag.schedule.operand_types import factor_types, operand_type, widest_of
from catdiag.schedule.stored_types import element_types, output_names, rest_type


@dataclass(frozen=True)
class RooflineBound:
    """The seconds that no schedule of a kernel takes less than: to load and save arrays, and to multiply."""

    memory_s: float
    tensor_s: float

    @property
    def seconds(self) -> float:
        """The time of both at once, in seconds."""
        return max(self.memory_s, self.tensor_s)


def roofline_bound(piece: Diagram, target: PlanTarget) -> RooflineBound:
    """Seconds that no schedule of a piece takes less than, by the model of `catdiag.planner.time_model`: each array
    that comes or goes crosses the edge to HBM once, and all products are done once.

    Of arrays that are read in place, at computed positions, a kernel may load less: they count nothing.
    """
    chip, flat = target.chip, inline(piece)
    graph, types = flat.graph, element_types(flat, target.dtype)
    read = {*graph.outputs, *(w for node in graph.nodes for w in node.inputs)} - _only_viewed(graph)
    moved = [(name, ty) for w, (name, ty) in enumerate(zip(flat.input_names, flat.dom, strict=True)) if w in read]
    moved += zip(output_names(flat), flat.cod, strict=True)
    in_bytes = sum(element_bytes(types[name]) * _elements(ty, target.sizes) for name, ty in moved)
    rate, entries = 0.0, 0
    for dtype, count in _products(flat, types, target):
        rate, entries = max(rate, chip.tensor.get(dtype, 0.0)), entries + count
    seconds = entries / (rate * chip.sustained["tensor"]) if rate else 0.0
    return RooflineBound(in_bytes / chip.sustained_hbm_bytes_per_s, seconds)


def _products(flat: Diagram, types: Mapping[str, str], target: PlanTarget) -> Iterator[tuple[str, int]]:
    """The FLOPs of each product, with the type in which matrix units make it, empty where one side has one entry."""
    graph, names = flat.graph, flat.input_names
    loaded = [types[name] if is_real(ty) else "" for name, ty in zip(names, flat.dom, strict=True)]
    real = {name: kind for name, kind in zip(names, loaded, strict=True) if kind}
    decide = [real[name] for name in deciding(flat) if name in real] or [*real.values()][:1]
    computed = widest_of(decide) or rest_type(target.dtype)
    free = rematerialized(graph, [False] * len(names))
    for place, (wires, node) in enumerate(graph.wired()):
        if not multiplies(node.box) or free[wires[0]]:
            continue
        found = contraction(node.box, frozenset(), ())
        dtype = ""
        if ONE not in (found.rows, found.columns, found.depth):
            dtype = reduce(lambda one, other: operand_type(one, other, computed), factor_types(graph, place, loaded))
        axes = union((*node.box.dom, *node.box.cod))
        yield dtype, len(node.box.dom) * math.prod(size_value(axis.size, target.sizes) for axis in axes)


def _elements(ty: ArrayType, sizes: Mapping[str, int]) -> int:
    return math.prod(size_value(axis.size, sizes) for axis in ty.axes)


def _only_viewed(graph: Graph) -> set[int]:
    """The inputs of a graph that are read at computed positions, and nowhere else."""
    found: set[int] = set()
    else_: set[int] = set(graph.outputs)
    for node in graph.nodes:
        for k, w in enumerate(node.inputs):
            viewed = isinstance(node.box.op, View) and k < len(node.box.op.reads) and node.box.op.reads[k].at
            (found if viewed else else_).add(w)
    return found - else_
