"""The Gluon source of a warp-specialized kernel: a consumer function, a producer function, the kernel that starts both.

The texts `IMPORTS`, `DOWN` and `CHECKS` are parts of the module that is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from catdiag.codegen.gluon.gluon_printer import GLUON
from catdiag.codegen.gluon.pipelined_loop import Ring, WarpSpecialized
from catdiag.codegen.kernel_tree import (
    Assign,
    Do,
    ForLoop,
    KernelFunction,
    Line,
    Parameter,
    PythonStatement,
    function_text,
    listed,
    names_of,
)
from catdiag.codegen.syntax import ListOf, Name, Number, PythonExpression, call, dotted, joined, length_of, method
from catdiag.codegen.triton.dependent_launch import chain_constants, triggering, waiting
from catdiag.codegen.triton.kernel_signature import KernelSpec, widened
from catdiag.codegen.triton.launch_parameters import constants_of
from catdiag.codegen.triton.triton_dialect import helper_text

MOST = 3
"""The most consumer warpgroups of a kernel: with four, each thread has too few registers."""
REGISTERS = {1: 240, 2: 240, 3: 160}
"""Registers per consumer thread, by the number of consumer warpgroups."""
FEW = 24
"""Registers per producer thread."""

IMPORTS = """try:
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.language.nvidia import hopper
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as Boxes
except ImportError:  # an older Triton: warp-specialized kernels are not for it
    gluon = None"""

DOWN = '''@gluon.jit
def _down(x, tile: gl.constexpr):
    """A number for each row, beside a tile of a layout."""
    return gl.expand_dims(gl.convert_layout(x, gl.SliceLayout(1, tile)), 1)
'''

CHECKS = '''def _fitted(run, num_stages, *arguments, **options):
    """Runs a kernel with as many buffers as it has room for: of more than that Triton says so before anything runs."""
    for count in range(num_stages, 1, -1):
        try:
            return run(*arguments, num_stages=count, **options)
        except triton.OutOfResources:
            pass
    return run(*arguments, num_stages=1, **options)


def _warps(num_warps, columns):
    """The warps of the plain form: the next power of two, but 8 at most where products have so many columns that the
    threads of more have too few registers for one."""
    return min(_power(num_warps), 8 if max(columns) > 128 else 32)


def _groups(rows, num_warps, num_stages, columns, shared, /, **tensors):
    """The number of consumer warpgroups of the warp-specialized kernel, 0 where the plain one runs, and the reason: by
    the chip, tiles and types, and by the bytes of shared memory that they take."""
    groups = num_warps // 4
    if num_warps not in (4, 8, 12) or rows % (64 * groups) or rows // groups != _power(rows // groups):
        return 0, f"{num_warps} warps do not divide {rows} rows into 1, 2 or 3 warpgroups of 64, 128, ... each"
    if num_stages < 2:
        return 0, "num_stages is 1: expected 2 or more"
    if shared > 232448:
        return 0, f"its buffers take {shared} bytes of shared memory: expected 232448 at most"
    if not all(16 <= n <= 256 for n in columns):
        return 0, f"products have {columns} columns: expected 16 to 256"
    if gluon is None or triton.__version__.split(".")[:2] != ["3", "6"]:  # Gluon differs from version to version
        return 0, f"Triton is {triton.__version__}: expected 3.6"
    if triton.knobs.runtime.interpret:
        return 0, "Gluon has no interpreter"
    kind = None
    for name, tensor in tensors.items():
        kind = kind or tensor.dtype
        if tensor.element_size() != 2 or tensor.dtype != kind:
            return 0, f"{name} is of {tensor.dtype}: expected {kind if kind.itemsize == 2 else '16-bit elements'}"
        if tensor.device.type == "cuda" and _chip(tensor.device) != 9:
            return 0, f"{name} is on a GPU of compute capability {_chip(tensor.device)}: expected 9"
    return groups, ""


def _unboxed(*boxes):
    """Why the copy engine cannot read blocks of some tensors, each given as (name, tensor, shape); "" where it can."""
    for name, tensor, shape in boxes:
        if not _boxed(tensor, shape):
            return (
                f"the copy engine cannot read blocks of {shape} of {name}, which has shape {tuple(tensor.shape)} and "
                f"strides {tensor.stride()}: expected adjacent entries along its last axis, and rows that start at "
                "multiples of 16 bytes"
            )
    return ""


def _plain(kernel, why, strict, device):
    """Says once that a kernel runs in its plain form, on a GPU; with `strict` refuses it."""
    words = f"{kernel} runs in its plain form, not warp-specialized: {why}"
    if strict:
        raise RuntimeError(words)
    if device.type == "cuda":
        warnings.warn(words, RuntimeWarning, stacklevel=3)


def _boxes(tensor, shape):
    """Boxes of a tensor, as matrix units read them from shared memory."""
    kind = gl.bfloat16 if tensor.dtype == torch.bfloat16 else gl.float16
    return Boxes.from_tensor(tensor, shape, gl.NVMMASharedLayout.get_default_for(shape, kind))'''


def merged(a: WarpSpecialized) -> KernelSpec:
    """The kernel as the launch sees it: it takes each argument that the consumer or the producer reads."""
    one, two = a.compute, a.load
    read = names_of([*one.body, *two.body])
    sizes = {**two.sizes, **one.sizes}
    constants = dict.fromkeys([*one.constants, *two.constants])
    strides = {k: n for k, n in {**two.strides, **one.strides}.items() if n in read}
    reaches = dict.fromkeys(
        tuple(far) for sums in (*one.reaches, *two.reaches) if (far := [f for f in sums if f[:2] in strides])
    )
    return replace(
        one,
        name=a.name,
        arrays=tuple(x for x in dict.fromkeys([*one.arrays, *two.arrays]) if x.name in read),
        strides=strides,
        reaches=tuple(reaches),
        scalars={k: n for k, n in {**two.scalars, **one.scalars}.items() if n in read},
        sizes=sizes,
        constants=tuple(constants),
        blocks={**two.blocks, **one.blocks},
        loops=tuple(dict.fromkeys([*one.loops, *two.loops])),
        exact={**two.exact, **one.exact},
        boxes=tuple(dict.fromkeys(r.boxes for r in a.rings)),
        zero_filled={},
    )


def agree(a: WarpSpecialized) -> bool:
    """Whether consumer and producer have the same names for the same arguments."""
    pairs = [
        (getattr(a.compute, n), getattr(a.load, n))
        for n in ("strides", "scalars", "sizes", "blocks", "exact", "starts")
    ]
    return all(x[k] == y[k] for x, y in pairs for k in x if k in y)


def helpers_of(a: WarpSpecialized) -> list[str]:
    """The helper functions that the kernel calls, as Gluon source."""
    names = sorted((a.compute.helpers | a.load.helpers) - {"_in_registers"})
    return [helper_text(name, GLUON) for name in names]


def kernel_functions(
    a: WarpSpecialized, grid: Sequence[PythonStatement]
) -> tuple[KernelFunction, KernelFunction, KernelFunction]:
    """The three functions: consumer, producer, kernel; `grid` computes a program's tile from its program ids."""
    kernel = merged(a)
    names = a.names
    stages, groups, each, me, rows = (names[n] for n in ("stages", "groups", "each", "me", "rows"))
    arguments = [*(x.name for x in kernel.arrays), *kernel.strides.values(), *kernel.scalars.values()]
    arguments += [text for s, text in kernel.sizes.items() if s not in set(kernel.constants)]
    arguments += ["chunk"] if kernel.chunk is not None else []
    constants = [*constants_of(kernel), *(("fast",) if "_tanh" in a.compute.helpers else ()), groups, stages]
    constants += ["wide"] if kernel.reaches else []
    constants += chain_constants(kernel)
    shared = [n for r in a.rings for n in ((r.name, r.full) if r.rows else (r.name, r.full, r.free))]
    boxes = [b.name for b in kernel.boxes]
    tiles = [_constant(tile, _by_columns(block)) for block, tile in a.tiles.items()]
    loads = [*_wide(kernel, a.load.body), *grid, *a.load.body]
    compute = [*_wide(kernel, a.compute.body), *grid, *_scalars(a.compute), *triggering(a.compute, a.compute.body)]
    read = names_of([*compute, *tiles]) | {a.row.symbol, groups}
    consumer = [n for n in (*arguments, *shared, *constants) if n in read]
    read = names_of(loads) | {a.row.symbol, groups}
    producer = [n for n in (*arguments, *boxes, *shared, *constants) if n in read]
    length = _constant(each, joined(Name(a.row.symbol), "//", Name(groups)))
    layout = _constant(rows, call("gl.SliceLayout", Number(1), Name(a.main)))

    def function(name: str, parameters: Sequence[str], body: Sequence[PythonStatement]) -> KernelFunction:
        return KernelFunction(name, tuple(Parameter(n, n in (me, *constants)) for n in parameters), body, GLUON.jit)

    return (
        function(a.compute.name, [me, *consumer], [length, *tiles, layout, *compute]),
        function(a.load.name, producer, [length, *loads]),
        function(a.name, [*arguments, *boxes, *constants], _start(a, consumer, producer)),
    )


def source(a: WarpSpecialized, trees: Sequence[KernelFunction]) -> list[str]:
    """The lines of the three functions."""
    groups = a.names["groups"]
    about = (
        f"What a warpgroup computes: {a.row.symbol} // {groups} rows of a tile.",
        "What is loaded for them, by one warp: blocks of the iterations to come, as soon as there is room.",
        f"{a.compute.note}, by {groups} warpgroups that compute and a warp that loads.",
    )
    lines: list[str] = []
    for tree, text in zip(trees, about, strict=True):
        lines += ["", ""] if lines else []
        lines += function_text(tree, text, GLUON.module, 100)
    return lines


def _constant(name: str, value: PythonExpression) -> Assign:
    """A compile-time constant."""
    return Assign((Name(name),), value, dotted("gl.constexpr"))


def _by_columns(block: str) -> PythonExpression:
    """The layout of the results of matrix units with so many columns."""

    def numbers(*values: int) -> ListOf:
        return ListOf(tuple(map(Number, values)))

    shape = ListOf((Number(16), length_of(block), Number(16)))
    return call("gl.NVMMADistributedLayout", numbers(3, 0), numbers(4, 1), shape)


def _start(a: WarpSpecialized, consumer: Sequence[str], producer: Sequence[str]) -> list[PythonStatement]:
    """The body of a kernel: it allocates rings and barriers, and starts warps with these arguments."""
    stages, groups = Name(a.names["stages"]), Name(a.names["groups"])
    body: list[PythonStatement] = [
        *waiting(a.compute),
        _constant("barrier", call("hopper.mbarrier.MBarrierLayout")),
    ]
    for ring in a.rings:
        body += _allocations(ring, stages, groups, a.row.symbol)
    body += [Do(call("hopper.mbarrier.init", Name(r.full), Number(1))) for r in a.rings if r.rows]
    slots = []
    for ring in a.rings:
        if not ring.rows:
            full, free = (method(Name(n), "index", Name("slot")) for n in (ring.full, ring.free))
            slots += [Do(call("hopper.mbarrier.init", full, Number(1))), Do(call("hopper.mbarrier.init", free, groups))]
    body.append(ForLoop(Name("slot"), call("gl.static_range", stages), slots))
    body.append(Do(call("hopper.fence_async_shared")))
    for count in range(1, MOST + 1):
        lines = [f"    {'if' if count == 1 else 'elif'} {groups} == {count}:", "        gl.warp_specialize(["]
        for k in range(count):
            lines += [f"            ({a.compute.name}, (", *listed([str(k), *consumer], 16, 88), "            )),"]
        lines += [f"            ({a.load.name}, (", *listed(producer, 16, 88), "            )),"]
        warps = [4] * (count - 1) + [1]
        lines.append(f"        ], {warps}, {[REGISTERS[count]] * (count - 1) + [FEW]})")
        body += (Line(line[4:]) for line in lines)
    return body


def _allocations(ring: Ring, stages: PythonExpression, groups: PythonExpression, row: str) -> list[PythonStatement]:
    """The statements that allocate a ring and its barriers in shared memory."""

    def allocated(name: str, kind: str, layout: str, *lengths: PythonExpression) -> PythonStatement:
        return Assign((Name(name),), call("gl.allocate_shared_memory", dotted(kind), ListOf(lengths), dotted(layout)))

    box = ring.boxes.name
    lengths = [groups if ring.rows else stages]
    lengths += [joined(Name(row), "//", groups) if ring.rows and n == row else length_of(n) for n in ring.boxes.shape]
    made = allocated(ring.name, f"{box}.dtype", f"{box}.layout", *lengths)
    if ring.rows:
        return [made, allocated(ring.full, "gl.int64", "barrier", Number(1))]
    return [made, *(allocated(name, "gl.int64", "barrier", stages, Number(1)) for name in (ring.full, ring.free))]


def _wide(kernel: KernelSpec, body: Sequence[PythonStatement]) -> list[PythonStatement]:
    return widened(kernel, GLUON.module, names_of(body))


def _scalars(kernel: KernelSpec) -> list[PythonStatement]:
    return [
        Assign((Name(name),), method(call("gl.to_tensor", Name(name)), "to", dotted("gl.float32")))
        for array, name in kernel.scalars.items()
        if array.ty.element in ("real", "extended")
    ]
