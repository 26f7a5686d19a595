"""Entries that a tile adds to an array at computed positions (`catdiag.schedule.scatter_add`), by atomic additions.

Several tiles, and several entries of one, may add to one place, in any order: there is no deterministic form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from catdiag.category.types import ArrayType
from catdiag.codegen.kernel_tree import Do
from catdiag.codegen.syntax import Number, PythonExpression, call
from catdiag.codegen.triton.array_accesses import At, Pull, StoredArray
from catdiag.codegen.triton.kernel_builder import Build
from catdiag.codegen.triton.tile_nodes import Dim, TileNode
from catdiag.schedule.scatter_add import ScatterAdd
from catdiag.schedule.statements import Let


@dataclass(eq=False)
class ScatteredEntries(Pull):
    """The entries of a tile (`node`), their positions along some axes of the array that they are added to, and which of
    these positions are in it. `others` has the other axes of that array."""

    node: TileNode
    at: Mapping[str, TileNode]
    inside: tuple[TileNode, ...]
    others: ArrayType

    def index(self, k: Build) -> At:
        """Where the entries are added, relative to the start of the tile along the axes that it has."""
        return {**k.index(self.others), **self.at}


def scattered(k: Build, let: Let) -> ScatteredEntries:
    """The entries that a box adds at positions, as nodes of a kernel."""
    op, ty = let.box.op, let.box.cod[0]
    assert isinstance(op, ScatterAdd)
    others = ArrayType(tuple(a for a in ty.axes if a.name not in op.axes), ty.element)
    at = {name: k.tile(value) for name, value in zip(op.axes, let.args[1:], strict=True)}
    inside = [
        k.nodes.op("and", k.nodes.op("le", k.nodes.const(0, "int"), at[axis.name]),
                   k.nodes.op("lt", at[axis.name], k.size(axis.size)))
        for axis in ty.axes if axis.name in at
    ]  # fmt: skip
    return ScatteredEntries(ty, k.nodes.real(k.tile(let.args[0])), at, tuple(inside), others)


class _Writer(Protocol):
    """What writes a kernel (`catdiag.codegen.triton.kernel_body.Writing`)."""

    k: Build
    tl: str

    def located(
        self, array: StoredArray, node: TileNode, places: At, inside: Sequence[TileNode] = ()
    ) -> tuple[Sequence[Dim], PythonExpression, PythonExpression, dict[str, PythonExpression]]:
        """What is stored of a tile at an index of an array."""


def add_at_positions(writer: _Writer, array: StoredArray, entries: ScatteredEntries, places: At) -> None:
    """Writes the atomic additions of entries."""
    _, value, at, mask = writer.located(array, entries.node, places, entries.inside)
    add = call(f"{writer.tl}.atomic_add", at, value, **mask, sem=Number("relaxed"))
    writer.k.scope.write(Do(add, note=f"add to {array.name}"))
