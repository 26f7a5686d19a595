"""The Gluon source of a warp-specialized kernel: a consumer function, a producer function, the kernel that starts both.

The texts `IMPORTS`, `DOWN` and `CHECKS` are parts of the module that is written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from catdiag.codegen.gluon.gluon_printer import GLUON
from catdiag.codegen.gluon.pipelined_loop import Ring, WarpSpecialized
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


def _groups(rows, num_warps, num_stages, columns, shared, *tensors):
    """The number of consumer warpgroups of the warp-specialized kernel, 0 where the plain one runs: by the chip, tiles
    and types, and by the bytes of shared memory that they take."""
    groups = num_warps // 4 if num_warps % 4 == 0 else 0
    fits = 1 <= groups <= 3 and rows % (64 * groups) == 0 and num_stages > 1 and shared <= 232448
    fits = fits and rows // groups == _power(rows // groups)
    fits = fits and all(16 <= n <= 256 for n in columns) and gluon is not None
    fits = fits and triton.__version__.split(".")[:2] == ["3", "6"]  # Gluon differs from one version to the next
    fits = fits and not triton.knobs.runtime.interpret  # Gluon has no interpreter
    for tensor in tensors:
        fits = fits and tensor.element_size() == 2 and tensor.dtype == tensors[0].dtype
        if tensor.device.type == "cuda":
            fits = fits and _chip(tensor.device) == 9
    return groups if fits else 0


def _boxes(tensor, shape):
    """Boxes of a tensor, as matrix units read them from shared memory."""
    kind = gl.bfloat16 if tensor.dtype == torch.bfloat16 else gl.float16
    return Boxes.from_tensor(tensor, shape, gl.NVMMASharedLayout.get_default_for(shape, kind))'''


def merged(a: WarpSpecialized) -> KernelSpec:
    """The kernel as the launch sees it: it takes each argument that the consumer or the producer reads."""
    one, two = a.compute, a.load
    read = _words([*one.lines, *two.lines])
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


def source(a: WarpSpecialized, grid: Sequence[str]) -> list[str]:
    """The lines of the three functions; `grid` are the lines that compute a program's tile from its program ids."""
    kernel = merged(a)
    names = a.names
    stages, groups, each, me, rows = (names[n] for n in ("stages", "groups", "each", "me", "rows"))
    arguments = [*(x.name for x in kernel.arrays), *kernel.strides.values(), *kernel.scalars.values()]
    arguments += [text for s, text in kernel.sizes.items() if s not in set(kernel.constants)]
    arguments += ["chunk"] if kernel.chunk is not None else []
    constants = [*constants_of(kernel), *(("fast",) if "_tanh" in a.compute.helpers else ()), groups, stages]
    constants += ["wide"] if kernel.reaches else []
    shared = [n for r in a.rings for n in ((r.name, r.full) if r.rows else (r.name, r.full, r.free))]
    boxes = [b.name for b in kernel.boxes]
    typed = [f"{c}: gl.constexpr" for c in constants]
    tiles = [
        f"    {tile}: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, {block}, 16])"
        for block, tile in a.tiles.items()
    ]
    loads = [*_wide(kernel, a.load.lines), *grid, *a.load.lines]
    compute = [*_wide(kernel, a.compute.lines), *grid, *_scalars(a.compute), *a.compute.lines]
    read = _words([*compute, *tiles, a.row.symbol, groups])
    consumer = [n for n in (*arguments, *shared, *constants) if n in read]
    read = _words([*loads, a.row.symbol, groups])
    producer = [n for n in (*arguments, *boxes, *shared, *constants) if n in read]
    types = dict(zip(constants, typed, strict=True))
    length = f"    {each}: gl.constexpr = {a.row.symbol} // {groups}"
    layout = f"    {rows}: gl.constexpr = gl.SliceLayout(1, {a.main})"
    return [
        *_function(a.compute.name, [f"{me}: gl.constexpr", *(types.get(n, n) for n in consumer)],
                   f"What a warpgroup computes: {a.row.symbol} // {groups} rows of a tile."),
        length, *tiles, layout, *compute, "", "",
        *_function(a.load.name, [types.get(n, n) for n in producer],
                   "What is loaded for them, by one warp: blocks of the iterations to come, as soon as there is room."),
        length, *loads, "", "",
        *_function(a.name, [*arguments, *boxes, *typed],
                   f"{a.compute.note}, by {groups} warpgroups that compute and a warp that loads."),
        *_start(a, consumer, producer),
    ]  # fmt: skip


def _function(name: str, parameters: Sequence[str], about: str) -> list[str]:
    """The head of a function of a kernel, with its docstring."""
    return ["@gluon.jit", f"def {name}(", *_wrapped(parameters), "):", f'    """{about}"""']


def _start(a: WarpSpecialized, consumer: Sequence[str], producer: Sequence[str]) -> list[str]:
    """The body of a kernel: it allocates rings and barriers, and starts warps with these arguments."""
    stages, groups = a.names["stages"], a.names["groups"]
    lines = ["    barrier: gl.constexpr = hopper.mbarrier.MBarrierLayout()"]
    for ring in a.rings:
        lines += _ring_lines(ring, stages, groups, a.row.symbol)
    for ring in a.rings:
        if ring.rows:
            lines.append(f"    hopper.mbarrier.init({ring.full}, 1)")
    lines.append(f"    for slot in gl.static_range({stages}):")
    for ring in a.rings:
        if not ring.rows:
            lines.append(f"        hopper.mbarrier.init({ring.full}.index(slot), 1)")
            lines.append(f"        hopper.mbarrier.init({ring.free}.index(slot), {groups})")
    lines.append("    hopper.fence_async_shared()")
    for count in range(1, MOST + 1):
        head = "if" if count == 1 else "elif"
        lines.append(f"    {head} {groups} == {count}:")
        lines.append("        gl.warp_specialize([")
        for k in range(count):
            lines.append(f"            ({a.compute.name}, (")
            lines += _wrapped([str(k), *consumer], 16)
            lines.append("            )),")
        lines.append(f"            ({a.load.name}, (")
        lines += _wrapped(producer, 16)
        lines.append("            )),")
        warps = [4] * (count - 1) + [1]
        lines.append(f"        ], {warps}, {[REGISTERS[count]] * (count - 1) + [FEW]})")
    return lines


def _ring_lines(ring: Ring, stages: str, groups: str, row: str) -> list[str]:
    """The lines that allocate a ring and its barriers in shared memory."""
    box = ring.boxes.name
    lengths = [groups if ring.rows else stages]
    lengths += [f"{row} // {groups}" if ring.rows and n == row else n for n in ring.boxes.shape]
    made = f"gl.allocate_shared_memory({box}.dtype, [{', '.join(lengths)}], {box}.layout)"
    lines = [f"    {ring.name} = {made}"]
    if ring.rows:
        return [*lines, f"    {ring.full} = gl.allocate_shared_memory(gl.int64, [1], barrier)"]
    return lines + [
        f"    {name} = gl.allocate_shared_memory(gl.int64, [{stages}, 1], barrier)" for name in (ring.full, ring.free)
    ]


def _words(lines: Sequence[str]) -> set[str]:
    """The names that occur in lines of code, outside comments."""
    return {w for line in lines for w in re.findall(r"[A-Za-z_]\w*", line.split("  # ")[0])}


def _wide(kernel: KernelSpec, lines: Sequence[str]) -> list[str]:
    return widened(kernel, GLUON.module, _words(lines))


def _scalars(kernel: KernelSpec) -> list[str]:
    return [
        f"    {name} = gl.to_tensor({name}).to(gl.float32)"
        for array, name in kernel.scalars.items()
        if array.ty.element in ("real", "extended")
    ]


def _wrapped(names: Sequence[str], indent: int = 4) -> list[str]:
    """Names separated by commas, broken into lines of bounded length."""
    lines, line = [], ""
    for name in names:
        if len(line) + len(name) > 104 - indent:
            lines.append(" " * indent + line.rstrip())
            line = ""
        line += f"{name}, "
    return [*lines, " " * indent + line.rstrip()]
