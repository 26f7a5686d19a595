"""A warp-specialized kernel: its rings of buffers, its two parts, an iteration of its loop, and its products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from catdiag.codegen.kernel_tree import Assign, PythonStatement
from catdiag.codegen.syntax import ListOf, Name, Number, PythonExpression, TupleOf, call
from catdiag.codegen.triton.array_boxes import Boxes
from catdiag.codegen.triton.kernel_signature import KernelSpec
from catdiag.codegen.triton.tile_nodes import TileNode
from catdiag.schedule.statements import LoopSpan


@dataclass(eq=False)
class Ring:
    """Buffers for blocks of an array in shared memory.

    A slot for each pipeline stage; with `rows`, a slot for each warpgroup, loaded once and read by all iterations.
    """

    name: str
    full: str
    """The name of the barriers on which consumers wait for a block."""
    free: str
    """The name of the barriers on which the producer waits for a free slot."""
    boxes: Boxes
    load: TileNode
    rows: bool = False


@dataclass(frozen=True, eq=False)
class WarpSpecialized:
    """A kernel in two parts, the consumer (`compute`) and the producer (`load`), with the rings between them."""

    name: str
    compute: KernelSpec
    load: KernelSpec
    rings: tuple[Ring, ...]
    names: Mapping[str, str]
    tiles: Mapping[str, str]
    """The names of the tile layouts, by the number of columns."""
    main: str
    """The tile layout of which the layout of vectors over rows is a slice."""
    row: LoopSpan
    """The tile whose rows are divided over warpgroups."""
    reuses_blocks: bool
    """Whether the last products of an iteration read a block that its first ones read."""


@dataclass
class LoopIteration:
    """One iteration of a consumer, in the parts into which software pipelining divides it."""

    first: list[tuple[str, TileNode]] = field(default_factory=list)
    """The products started at the beginning of the iteration, with the names of their results."""
    loads: list[PythonStatement] = field(default_factory=list)
    """What the warps that compute load, before they wait for products."""
    between: list[PythonStatement] = field(default_factory=list)
    """What runs while the last products do."""
    after: list[PythonStatement] = field(default_factory=list)
    """What runs after the last products: they rescale the states."""
    last: list[tuple[str, TileNode, str]] = field(default_factory=list)
    """The products started in the next iteration: (state to accumulate into, product, name of its row factor)."""


def started(name: str, dot: TileNode, args: Sequence[PythonExpression], **how: PythonExpression) -> PythonStatement:
    """The statement that starts a product, whose result is to be called `name`."""
    started = call("hopper.warpgroup_mma", *args, **how, is_async=Number(True))
    note = dot.note if len(dot.note) < 40 else ""
    return Assign((Name(f"{name}_next"),), started, note=note, beside=True)


def waited(names: Sequence[str], left: int) -> PythonStatement:
    """The statement that waits for products that were started, while `left` others stay in flight."""
    deps = ListOf(tuple(Name(f"{n}_next") for n in names))
    wait = call("hopper.warpgroup_mma_wait", Number(left), deps=deps)
    return Assign((TupleOf(tuple(map(Name, names))) if len(names) > 1 else Name(names[0]),), wait)


def load_of(node: TileNode) -> TileNode | None:
    """The load under relabelings, if the node is one."""
    while node.kind == "relabel":
        (node,) = node.args
    return node if node.kind == "load" else None
