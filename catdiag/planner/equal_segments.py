"""Segments that are equal up to names of axes, sizes and inputs: what is found out about one holds for all of them.

>>> import catdiag as cd
>>> from catdiag.planner.graph_segments import StageSequence
>>> f = cd.algorithm("q x, t x -> q, t")(lambda A, B: (cd.sum(A, "x"), cd.sum(B, "x")))
>>> row, found = StageSequence(f.diagram), EqualSegments()
>>> target = PlanTarget(cd.hardware.H200, {"q": 64, "t": 64, "x": 512})
>>> kernels = [found.of(row.segment_diagram(k, k + 1), target) for k in (0, 1)]
>>> kernels[0][0] is kernels[1][0], kernels[1][1].axes
(True, ('t', 'x'))
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from catdiag.category.diagram import Diagram, of_graph
from catdiag.category.types import Axis, Size
from catdiag.planner.kernel_candidates import KernelTimer, PlanTarget
from catdiag.planner.plan import KernelPlan, spelled_out
from catdiag.planner.roofline import RooflineBound
from catdiag.rewrite.derivation import Derivation
from catdiag.rewrite.local_sizes import sizes_in
from catdiag.rewrite.matching.unify import Unifier, put_sizes
from catdiag.schedule.stored_types import output_names
from catdiag.util.errors import CatdiagError


@dataclass(frozen=True)
class DerivedKernel:
    """A kernel of a way: its schedule, its derivation (None where it runs as it is written, or is not proved yet), and
    its plan."""

    schedule: KernelTimer
    derivation: Derivation | None
    diagram: Diagram
    plan: KernelPlan
    unproved: str = ""
    """Why it is not proved to mean its segment; nothing where it is."""
    proved: bool = True
    """Whether all is proved that is to be."""
    fresh: Mapping[str, str] = field(default_factory=dict)
    """The symbols of its tiles in place of those of its schedule."""


@dataclass(frozen=True)
class SegmentNames:
    """The names of the axes and sizes of a segment, by first occurrence."""

    axes: tuple[str, ...]
    sizes: tuple[str, ...]


NamedKernel = tuple[DerivedKernel, SegmentNames]
"""A kernel, and the names of its axes and sizes."""


@dataclass
class SegmentClass:
    """The segments that are equal up to names: the first of them, with what it was asked to be planned for, and what is
    known of all."""

    diagram: Diagram
    target: PlanTarget
    names: SegmentNames
    schedules: list[KernelTimer] | CatdiagError | None = None
    """The schedules of the first, the quickest first; why there are none; None where that is not known yet."""
    screened: bool = False
    """Whether these may lack some that are quicker by less than matters (`catdiag.planner.cut_search.NEGLIGIBLE`)."""
    bound: RooflineBound | None = None
    made: NamedKernel | None = None
    """The kernel as it is written, and derived where it is proved, under these names."""
    refused: tuple[KernelTimer, str] | None = None
    """The quickest schedule that was not proved, and why."""
    without_proof: bool = False
    """Whether that is taken, since no way is proved."""

    def kernel(self, names: SegmentNames, segment: Diagram, target: PlanTarget) -> DerivedKernel | None:
        """The kernel that was derived, under the names of another segment; None where none was.

        Tiles and blocks keep their names, since they are as long. The derivation is that of the segment for which it
        was made.
        """
        if self.made is None:
            return None
        kernel, own = self.made
        axes = dict(zip(own.axes, names.axes, strict=True))
        sizes = dict(zip(own.sizes, names.sizes, strict=True))
        found, draft = kernel.diagram, kernel.schedule.draft
        if names != own:
            put = Unifier({}, dict(sizes))
            put.axes = {axis.name: replace(put.put(axis), name=axes[axis.name]) for axis in renamed_axes(found, axes)}
            found = put.diagram(found)
            streams = tuple((put.name(axis), passes) for axis, passes in draft.streams)
            groups, skipped = (tuple(map(put.name, some)) for some in (draft.groups, draft.skipped))
            draft = replace(draft, streams=streams, groups=groups, skipped=skipped)
        diagram = of_graph(found.graph, segment.cod, segment.names, found.title)
        plan = replace(
            kernel.plan,
            sizes={sizes.get(name, name): size for name, size in kernel.plan.sizes.items()},
            dtype=spelled_out(target.dtype),
            types=target.dtype,
            diagram=diagram,
        )
        return replace(kernel, schedule=replace(kernel.schedule, draft=draft), diagram=diagram, plan=plan)


@dataclass
class EqualSegments:
    """The classes of the segments of one search."""

    _as_written: dict[Hashable, tuple[SegmentClass, SegmentNames]] = field(default_factory=dict)
    _classes: dict[Hashable, SegmentClass] = field(default_factory=dict)

    def of(self, diagram: Diagram, target: PlanTarget) -> tuple[SegmentClass, SegmentNames]:
        """The class of a segment, and its names."""
        inputs = diagram.input_names
        kinds = (
            target.dtype
            if isinstance(target.dtype, str)
            else tuple(map(target.dtype.get, (*inputs, *output_names(diagram))))
        )
        scalars = tuple(target.scalars.get(name) for name in inputs)
        graph = diagram.graph
        written = (graph.dom, graph.nodes, graph.outputs, kinds, scalars)
        if written not in self._as_written:
            names = _names(diagram)
            values = tuple(target.sizes.get(name) for name in names.sizes)
            key = (_canonical(diagram, names), kinds, scalars, values)
            found = self._classes.setdefault(key, SegmentClass(diagram, target, names))
            self._as_written[written] = found, names
        return self._as_written[written]

    def symbols(self) -> set[str]:
        """The symbols of the kernels that were derived, of whichever way: each class has its own for its tiles."""
        made = (found.made for found in self._classes.values() if found.made is not None)
        return {symbol for kernel, _ in made for symbol in sizes_in(kernel.diagram)}

    def release(self) -> None:
        """Forgets the kernels that were derived: others, of another form of the program, may have their symbols."""
        for found in self._classes.values():
            found.made = None


def renamed_axes(diagram: Diagram, known: Mapping[str, str]) -> Iterator[Axis]:
    """The axes of a kernel, and the parts of these, that have these names; each once."""
    found: set[str] = set()
    todo = [axis for ty in diagram.graph.wire_types() for axis in ty.axes]
    while todo:
        axis = todo.pop()
        todo += axis.parts
        if axis.name in known and axis.name not in found:
            found.add(axis.name)
            yield axis


def _leaves(size: Size) -> Sequence[str]:
    """The symbols of a size, from left to right."""
    if isinstance(size, tuple):
        return [*_leaves(size[1]), *_leaves(size[2])]
    return [size] if isinstance(size, str) else []


def _names(diagram: Diagram) -> SegmentNames:
    axes: dict[str, None] = {}
    sizes: dict[str, None] = {}
    for ty in diagram.graph.wire_types():
        todo = list(reversed(ty.axes))
        while todo:
            axis = todo.pop()
            todo += reversed(axis.parts)
            sizes.update(dict.fromkeys(_leaves(axis.size)))
            if axis.kind == "name":
                axes[axis.name] = None
    return SegmentNames(tuple(axes), tuple(sizes))


def _canonical(diagram: Diagram, names: SegmentNames) -> Diagram:
    """The diagram with numbers for names."""
    sizes: dict[str, Size] = {name: f"__size{k}" for k, name in enumerate(names.sizes)}
    known = {a.name: a for ty in diagram.graph.wire_types() for axis in ty.axes for a in (axis, *axis.parts)}
    axes = {
        name: Axis(f"__axis{k}", put_sizes(known[name].size, sizes))
        for k, name in enumerate(names.axes)
        if name in known
    }
    made = Unifier(axes, sizes).diagram(diagram)
    return of_graph(made.graph, made.cod)


__all__ = ["DerivedKernel", "EqualSegments", "NamedKernel", "SegmentClass", "SegmentNames"]
