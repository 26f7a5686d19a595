"""A generated module: its text, and what its generator knows of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from catdiag.category.types import ArrayType
from catdiag.codegen.kernel_tree import KernelCode
from catdiag.codegen.triton.buffer_arena import WorkBuffer, arena_bytes


@dataclass(frozen=True)
class EntryArgument:
    """An input or a result: its name, its type in the diagram (without axes: a number), and its torch dtype."""

    name: str
    ty: ArrayType
    dtype: str


@dataclass(frozen=True)
class Module:
    """A Triton module: its text, the part of it that runs on the CPU (`host`), and its kernels as trees (`code`), of
    which their text was printed.

    `entry` is the name of its launch function, `kernels` are the names of its kernels. `tiles` are the tile lengths,
    in entries: keyword arguments of `entry`, by their names with their defaults, beside `num_warps` and `num_stages`.
    """

    text: str = field(repr=False)
    host: str = field(repr=False)
    code: KernelCode = field(repr=False, compare=False)
    entry: str
    kernels: tuple[str, ...]
    inputs: tuple[EntryArgument, ...]
    outputs: tuple[EntryArgument, ...]
    tiles: Mapping[str, int]
    stages: int | tuple[int, ...]
    warps: int | tuple[int, ...]
    dtype: str
    specialized: tuple[str, ...] = ()
    """The names of the warp-specialized kernels, which the launch function prefers where they fit."""
    rows: tuple[str, ...] = ()
    """For each of these, the tile whose rows are divided over consumer warpgroups."""
    phases: tuple[int, ...] = ()
    """For each of these, the number of ranges into which its loop is divided: inside masks, and at their edges."""
    reused_blocks: tuple[bool, ...] = ()
    """For each of these, whether the last products of an iteration read a block that its first ones read: its buffer is
    in use for two iterations."""
    places: Mapping[str, int] = field(default_factory=dict)
    """The number of the group of each kernel, warp-specialized ones included."""
    counts: tuple[tuple[str, str], ...] = ()
    """For each of these, its parameters for the number of consumer warpgroups and for the pipeline stages."""
    buffers: tuple[WorkBuffer, ...] = ()
    """What passes from kernel to kernel, with the launches that use it."""
    functions: tuple[str, ...] = ()
    """The uninterpreted boxes, for which the launch function takes `functions`: of tensors, by name."""
    unspecialized: Mapping[str, str] = field(default_factory=dict)
    """For kernels of which a warp-specialized form was asked for and that have none, the reason."""
    hidden_sizes: tuple[str, ...] = ()
    """The sizes that no input shows: keyword arguments of `entry` without a default."""
    dependents: tuple[str, ...] = ()
    """The kernels that begin while those before them end (`catdiag.codegen.triton.dependent_launch`), on chips that do
    that, unless `entry` is called with `dependent_launch=False`."""

    @property
    def dependent_places(self) -> tuple[int, ...]:
        """The numbers of the groups whose first kernel is a dependent: not those in which only the kernel that merges
        the parts of a split loop is one."""
        first = {self.places[name]: name for name in reversed(self.kernels)}
        return tuple(place for place, name in sorted(first.items()) if name in self.dependents)

    def buffer_bytes(self, sizes: Mapping[str, int]) -> int:
        """The bytes that the launch function allocates beside results, at some sizes of axes."""
        return arena_bytes(self.buffers, {**sizes, **self.tiles})

    def __str__(self) -> str:
        return self.text
