"""Uninterpreted boxes in a launch: calls of functions that the caller gives, between kernels.

A theorem about such a box holds for any function of arrays; that the function which is given is one, and changes none
of its arguments, is an assumption, which a plan names (`catdiag.planner.function_calls`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catdiag.category.diagram import Diagram
from catdiag.category.op_facts import transposes
from catdiag.category.ops import Box, Generic, Rename
from catdiag.category.substitution import inline
from catdiag.codegen.triton.array_accesses import Pull, StoredArray
from catdiag.schedule.statements import For, Let, NestValue, Save


def opaque_box(diagram: Diagram) -> Box | None:
    """The uninterpreted box that is all of a diagram, but for renamings and transpositions, if there is one.

    >>> import catdiag as cd
    >>> from catdiag.category.types import ArrayType, Axis
    >>> rows = ArrayType((Axis("q"), Axis("x")))
    >>> f = cd.box("f", rows, rows)
    >>> opaque_box(f.diagram).name
    'f'
    >>> opaque_box(cd.algorithm("q x")(lambda A: 2 * f(A)).diagram) is None
    True
    """
    boxes = [node.box for node in inline(diagram).graph.nodes if not transposes(node.box)]
    return boxes[0] if len(boxes) == 1 and isinstance(boxes[0].op, Generic) else None


@dataclass(frozen=True, eq=False)
class Permuted:
    """An array with its axes in another order: `order` gives for each the place of that axis in memory."""

    array: StoredArray
    order: tuple[int, ...]

    def text(self) -> str:
        """The tensor in the launch function."""
        same = self.order == tuple(range(len(self.order)))
        return self.array.name if same else f"{self.array.name}.permute({self.order})"


@dataclass(frozen=True, eq=False)
class OpaqueCall:
    """A call of a function in the place of a kernel, `results` = f(`given`). A result that nothing reads is None."""

    function: str
    given: tuple[Permuted, ...]
    results: tuple[Permuted | None, ...]
    place: int
    """The number of its group."""

    @property
    def arrays(self) -> tuple[StoredArray, ...]:
        """What it reads and writes."""
        return (*self.reads, *self.writes)

    @property
    def reads(self) -> Mapping[StoredArray, tuple[()]]:
        """What it reads, at no positions that are known."""
        return {one.array: () for one in self.given}

    @property
    def writes(self) -> Mapping[StoredArray, tuple[()]]:
        """What it writes."""
        return {one.array: () for one in self.results if one is not None}

    def text(self) -> str:
        """The call in the launch function."""
        results = [one.text() if one is not None else "None" for one in self.results]
        given = [one.text() for one in self.given]
        return f"_called(functions, {self.function!r}, [{', '.join(results)}], [{', '.join(given)}])"


def opaque_call(
    group: For, arrays: Mapping[NestValue, Pull], saved: Mapping[NestValue, StoredArray], place: int
) -> OpaqueCall | None:
    """The call of a group that is an uninterpreted box; None for another group."""
    where: dict[NestValue, tuple[NestValue, tuple[int, ...]]] = {}
    found: Let | None = None

    def base(value: NestValue) -> tuple[NestValue, tuple[int, ...]]:
        return where.get(value, (value, tuple(range(len(value.ty.axes)))))

    results: list[Permuted | None] = []
    for s in group.body:
        if isinstance(s, Let) and isinstance(s.box.op, Rename) and transposes(s.box):
            source, order = base(s.args[0])
            new = dict(s.box.op.pairs)
            renamed = [new.get(name, name) for name in s.box.dom[0].names]
            where[s.targets[0]] = source, tuple(order[renamed.index(name)] for name in s.box.cod[0].names)
        elif isinstance(s, Let) and isinstance(s.box.op, Generic) and found is None:
            found, results = s, [None] * len(s.targets)
        elif isinstance(s, Let):
            return None
        elif isinstance(s, Save):
            source, order = base(s.value)
            if found is None or source not in found.targets or results[found.targets.index(source)] is not None:
                return None
            # What is saved has its axes where `order` says: the function's own are where the inverse says.
            inverse = tuple(order.index(k) for k in range(len(order)))
            results[found.targets.index(source)] = Permuted(saved[s.target], inverse)
    if found is None or group.spans:
        return None
    given: list[Permuted] = []
    for value in found.args:
        source, order = base(value)
        array = arrays.get(source)
        if not isinstance(array, StoredArray):
            return None
        given.append(Permuted(array, order))
    return OpaqueCall(found.box.op.name, tuple(given), tuple(results), place)


CALLED = '''def _called(functions, name, results, arrays):
    """Writes what a function gives for some tensors; a result that is None is left out."""
    if name not in (functions or {}):
        raise TypeError(f"no function is given for the box {name!r}: expected functions={{{name!r}: ...}}")
    found = functions[name](*arrays)
    found = list(found) if isinstance(found, (tuple, list)) else [found]
    if len(found) != len(results):
        raise ValueError(f"{name} gives {len(found)} results: expected {len(results)}")
    for number, (result, value) in enumerate(zip(results, found)):
        if result is not None:
            if tuple(value.shape) != tuple(result.shape):
                raise ValueError(
                    f"result {number} of {name} has shape {tuple(value.shape)}: expected {tuple(result.shape)}"
                )
            result.copy_(value)'''
"""The function of the generated module."""
