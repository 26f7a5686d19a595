"""The memory of a launch: results, the arrays that pass from kernel to kernel, and views with merged axes.

What passes from kernel to kernel lies in one arena (`catdiag.codegen.triton.buffer_arena`), where buffers that are
never live together share bytes. A kernel that reads a buffer for the last time, at just the entries that it writes to
another one, overwrites it in place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from catdiag.category.types import ArrayType, Size
from catdiag.codegen.syntax import Name, PythonExpression, TupleOf
from catdiag.codegen.triton.added_results import AddedArray
from catdiag.codegen.triton.array_accesses import StoredArray
from catdiag.codegen.triton.array_parts import tensor_of
from catdiag.codegen.triton.buffer_arena import WorkBuffer
from catdiag.codegen.triton.kernel_signature import KernelSpec
from catdiag.codegen.triton.opaque_call import OpaqueCall
from catdiag.codegen.triton.product_call import ProductCall


@dataclass(frozen=True, eq=False)
class OutputBuffer:
    """An array that the launch allocates: a result, or a buffer that one kernel writes and another reads.

    `parts` is the length of its first axis, if it has a row for each part of a split loop.
    """

    array: StoredArray
    dtype: str
    parts: str = ""
    result: bool = False


@dataclass
class LaunchMemory:
    """Where the arrays of a launch lie. `steps` are its kernels and calls in order, `buffers` what it allocates,
    `merged_arrays` others with neighboring axes merged, `boxed` what the copy engine reads; `size` gives the expression
    of a size; `added` are the arrays that are cleared and added to."""

    steps: Sequence[KernelSpec | ProductCall | OpaqueCall]
    buffers: Sequence[OutputBuffer]
    merged_arrays: Sequence[StoredArray]
    boxed: Collection[StoredArray]
    size: Callable[[Size], PythonExpression]
    added: Sequence[AddedArray] = ()
    merged_buffers: dict[StoredArray, StoredArray] = field(init=False)
    """Buffers that are allocated with merged axes: the arrays that are."""
    overwritten: dict[StoredArray, StoredArray] = field(init=False)
    """Buffers that lie where another one does, which they overwrite."""

    def __post_init__(self) -> None:
        merged = [a for a in self.merged_arrays if a.temporary and a.part is None]
        self.merged_buffers = {a.source: a for a in merged if a.source is not None}
        self.overwritten = self._overwritten()

    # -- shared memory of results and inputs, of buffers and buffers -------------------------------------------------

    def shared_by(self, result: StoredArray, source: StoredArray) -> str:
        """What memory a result may share with an array `source` that steps read.

        "any": all, since no step reads the source once the result is written. "all": it may be the same tensor, since
        each program writes just the entries that it alone has read before. "": none.
        """
        made = [a.place for a in self.added if a.result is result]  # of sums, after the kernel that adds them
        first = next((n for n, k in enumerate(self.steps) if result in k.writes or k.place in made), len(self.steps))
        other = {source, *(a for a in self.merged_arrays if a.source is source)}
        later = [k for k in self.steps[first + len(made) :] if not other.isdisjoint(k.reads)]
        if not later:
            return "any"
        if not all(source in k.reads and other.isdisjoint({*k.reads} - {source}) for k in later):
            return ""
        kernel = self.steps[first]
        if made or any(result is a.sums for a in self.added):
            return ""  # it is cleared before the kernel reads, or made before a later one does
        if isinstance(kernel, (ProductCall, OpaqueCall)):
            return ""
        alone = later == [kernel] and sum(len(places) for places in kernel.writes.values()) == 1
        return "all" if alone and set(kernel.reads[source]) == set(kernel.writes[result]) else ""

    def _overwritten(self) -> dict[StoredArray, StoredArray]:
        """For each buffer that may be an earlier one of the same shape and type, the first one in its place."""
        found: dict[StoredArray, StoredArray] = {}
        plain = [b for b in self.buffers if not b.result and not b.parts and b.array not in self.merged_buffers]
        kinds = [(b.dtype, self._as_stored(b.array), b.array in self.boxed) for b in plain]
        alike: dict[object, list[OutputBuffer]] = {}
        for b, kind in zip(plain, kinds, strict=True):
            alike.setdefault(kind, []).append(b)
        for made, kind in zip(plain, kinds, strict=True):
            for read in alike[kind]:
                if (
                    read.array not in found.values()
                    and read is not made
                    and any(made.array in k.writes and read.array in k.reads for k in self.steps)
                    and self.shared_by(made.array, read.array) == "all"
                ):
                    found[made.array] = read.array
                    break
        return {made: _first(read, found) for made, read in found.items()}

    def _as_stored(self, array: StoredArray) -> tuple[tuple[Size, ...], tuple[int, ...]]:
        """The sizes of the axes of a buffer, and the order in which they are stored."""
        names = array.ty.names
        return tuple(a.size for a in array.ty.axes), tuple(map(names.index, self._order(array) or names))

    # -- what is allocated -------------------------------------------------------------------------------------------

    def work_buffers(self) -> tuple[WorkBuffer, ...]:
        """What passes from kernel to kernel, as it is allocated, with the launches that use it."""
        return tuple(
            WorkBuffer(
                b.array.name, b.array.ty, b.dtype, *self._live(b.array), b.array in self.boxed, self._order(b.array)
            )
            for b in self._allocated()
        )

    def _allocated(self) -> list[OutputBuffer]:
        return [
            replace(b, array=self.merged_buffers.get(b.array, b.array))
            for b in self.buffers
            if not b.result and b.array not in self.overwritten
        ]

    def _live(self, array: StoredArray) -> tuple[int, int]:
        """The positions of the first and the last step that use an array, or one that lies in its place."""
        own = {array, array.source, *(made for made, first in self.overwritten.items() if first is array)}
        own |= {a for a in self.merged_arrays if a.source in own and a.part is not None}
        users = [
            n for n, step in enumerate(self.steps)
            if not own.isdisjoint(step.arrays)
            or (isinstance(step, KernelSpec) and not own.isdisjoint(b.array for b in step.boxes))
        ]  # fmt: skip
        users += [
            n for n, step in enumerate(self.steps) for a in self.added if a.result in own and step.place == a.place
        ]
        return min(users, default=0), max(users, default=len(self.steps))

    def _order(self, array: StoredArray) -> tuple[str, ...]:
        """The order in which the axes of a buffer are stored, if a product asks for another than that of its type."""
        users = (array, array.source) if array.source is not None else (array,)
        products = [k for k in self.steps if isinstance(k, ProductCall)]
        calls = [(k.result is not a, n, a, k) for a in users for n, k in enumerate(products) if a in k.arrays]
        if not calls:
            return ()
        *_, used, call = min(calls, key=lambda item: item[:2])
        order = call.stored(used)
        if used is not array:
            order = _merged_names(order, used, array)
        return () if order == array.ty.names else order

    # -- lines of the launch function --------------------------------------------------------------------------------

    def allocation(self, buffer: OutputBuffer, device: str) -> str:
        """The expression that allocates an array; rows are aligned if the copy engine reads it."""
        shape, dtype = self._shape(buffer), torch_name(buffer.dtype)
        if buffer.array in self.boxed and not buffer.result:
            return f"_room({shape}, {dtype}, {device})"
        return f"torch.empty({shape}, dtype={dtype}, device={device})"

    def _shape(self, buffer: OutputBuffer, order: Sequence[str] = ()) -> PythonExpression:
        """The shape of an array as an expression, its axes in an order."""
        sizes = self._sizes(buffer.array.ty)
        if buffer.parts:
            sizes[buffer.array.ty.names[0]] = Name(buffer.parts)
        return TupleOf(tuple(sizes[name] for name in order or sizes))

    def _sizes(self, ty: ArrayType) -> dict[str, PythonExpression]:
        return {a.name: self.size(a.size) for a in ty.axes}

    @property
    def uses_arena(self) -> bool:
        """Whether what passes from kernel to kernel lies in one arena."""
        buffers = self._allocated()
        return len(buffers) > 1 or (len(buffers) == 1 and bool(self.work_buffers()[0].order))

    def allocations(self, device: str) -> list[str]:
        """The lines that allocate what passes from kernel to kernel: one buffer, or one arena for several."""
        buffers, stored, lines = self._allocated(), self.work_buffers(), list[str]()
        if buffers and not self.uses_arena:
            lines.append(f"{buffers[0].array.name} = {self.allocation(buffers[0], device)}")
        elif buffers:
            listed = []
            for b, w in zip(buffers, stored, strict=True):
                axes = tuple(w.order.index(n) for n in b.array.ty.names if w.order)
                live = f"{w.first}, {w.last}, {w.rows}, {axes or None}"
                listed.append(f"({self._shape(b, w.order)}, {torch_name(b.dtype)}, {live}),")
            names = f"{', '.join(b.array.name for b in buffers)}{',' * (len(buffers) == 1)}"
            lines += [f"{names} = _arena(", f"    {device},", *(f"    {line}" for line in listed), ")"]
        lines += [f"{made.name} = {first.name}  # overwritten in place" for made, first in self.overwritten.items()]
        for array, memory in self.merged_buffers.items():
            place, order = _unmerged(array, memory)
            sizes = self._sizes(array.ty)
            parts = TupleOf(tuple(sizes[n] for n in order[place : place + len(order) - len(memory.ty.axes) + 1]))
            turned = f".permute({tuple(map(order.index, array.ty.names))})" if order != array.ty.names else ""
            lines.append(f"{array.name} = {memory.name}.unflatten({place}, {parts}){turned}")
        return lines

    def merged_inputs(self) -> list[str]:
        """The lines that merge neighboring axes of inputs: views, or copies where they have not one stride; and those
        that make parts of arrays."""
        lines = []
        for array in self.merged_arrays:
            if array.part is not None:
                lines.append(f"{array.name} = {tensor_of(array.part, self.size)}")
            elif array.source is not None and not array.temporary:
                place, order = _unmerged(array.source, array)
                merged = len(order) - len(array.ty.axes) + 1
                counts = tuple(merged if k == place else 1 for k in range(len(array.ty.axes)))
                axes = tuple(map(array.source.ty.names.index, order))
                lines.append(f"{array.name} = _merged({array.source.name}, {axes}, {counts})")
        return lines


def torch_name(dtype: str) -> str:
    """An element type as an expression, from its torch name or from an expression."""
    return dtype if "." in dtype else f"torch.{dtype}"


def _first(array: StoredArray, before: dict[StoredArray, StoredArray]) -> StoredArray:
    while array in before:
        array = before[array]
    return array


def _unmerged(array: StoredArray, merged: StoredArray) -> tuple[int, tuple[str, ...]]:
    """The place of the merged axis of an array, and the order of axes with those in its place that it is made of."""
    names = merged.ty.names
    place = next(k for k, name in enumerate(names) if name not in array.ty.names)
    parts = tuple(part.name for part in merged.ty.axes[place].parts)
    return place, (*names[:place], *parts, *names[place + 1 :])


def _merged_names(order: Sequence[str], array: StoredArray, merged: StoredArray) -> tuple[str, ...]:
    """An order of the axes of an array with the merged ones as one; that of the merged array if they are not neighbors
    in it."""
    place, unmerged = _unmerged(array, merged)
    parts = unmerged[place : place + len(unmerged) - len(merged.ty.axes) + 1]
    at = order.index(parts[0])
    if tuple(order[at : at + len(parts)]) != parts:
        return merged.ty.names
    return (*order[:at], merged.ty.names[place], *order[at + len(parts) :])
