"""Results that tiles are added to, in a launch: how their parts are stored and added up.

An atomic addition of many tiles to few entries waits for the others. So where the parts of all tiles take few bytes, or
where the launch is to be deterministic, each tile stores its own, and a kernel adds them up, always in one order. Where
they take many, as those of a large array do, an array is cleared, and tiles are added to it by atomic additions. So
are, always, entries whose positions arrays of integers say (`catdiag.codegen.triton.scattered_entries`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from catdiag.codegen.syntax import PythonExpression
from catdiag.codegen.triton.array_accesses import StoredArray
from catdiag.codegen.triton.kernel_signature import KernelSpec
from catdiag.codegen.triton.launch_expressions import product_of, programs, tile_count
from catdiag.codegen.triton.opaque_call import OpaqueCall
from catdiag.codegen.triton.product_call import ProductCall
from catdiag.codegen.triton.tile_runs import runs
from catdiag.schedule.statements import LoopSpan

FEW_BYTES = 2**25
"""Up to so many bytes of parts are stored and added up in order, without being asked for: they stay in the L2 of a
large GPU, where atomic additions of many tiles to few entries wait for each other."""
ADDED = '''def _parts(sums, count):
    """Room for so many parts of a tensor, each laid out as it is, and how far apart they are."""
    step = 1 + sum((n - 1) * s for n, s in zip(sums.shape, sums.stride()))
    shape, strides = (count, *sums.shape), (step, *sums.stride())
    return torch.empty_strided(shape, strides, dtype=sums.dtype, device=sums.device), step


def _in_order(deterministic, *added):
    """Whether each tile's part has a place of its own, where that is not said: if they take few bytes, all together.
    Each array is given with the number of tiles that add to it."""
    if deterministic is None:
        return sum(sums.numel() * sums.element_size() * count for sums, count in added) <= FEW_BYTES
    return deterministic


def _add_up(parts, sums, out, dependent, pdl):
    """Adds up the parts of sums, in the order of tiles, to a tensor that may be of a narrower type."""
    count, n = parts.shape[0], sums.numel()
    if not (sums.is_contiguous() and out.is_contiguous()):
        out.copy_(torch.sum(parts, 0, out=sums))
    elif n:
        columns = 8 if n < 2**16 else 128
        rows = min(_power(count), 8192 // columns)
        columns = max(columns, min(4096 // rows, _power(n // 1024)))  # of few parts more at once, in as many programs
        _added_up[(_tiles(n, columns),)](
            parts, out, count, n, rows=rows, columns=columns, dependent=dependent, num_warps=8, **pdl)
'''.replace("FEW_BYTES", str(FEW_BYTES))
"""Arrays that tiles are added to: their parts, and what adds these up by `ADDING`, which begins while the kernel before
it ends; uses `_CHECKS` and `DEPENDENT`."""
ADDING = '''@triton.jit
def _added_up(parts, out, count, n, rows: tl.constexpr, columns: tl.constexpr, dependent: tl.constexpr):
    """The sums of so many parts of n numbers, always in one order."""
    if dependent:
        tl.extra.cuda.gdc_launch_dependents()  # that adds up another array
        tl.extra.cuda.gdc_wait()  # what ran before has written all
    at = tl.cast(tl.program_id(0), tl.int64) * columns + tl.arange(0, columns)
    row = tl.arange(0, rows)
    total = tl.zeros((rows, columns), parts.dtype.element_ty)
    for first in range(0, count, rows):
        inside = (first + row < count)[:, None] & (at < n)[None, :]
        total += tl.load(parts + tl.cast(first + row, tl.int64)[:, None] * n + at[None, :], mask=inside, other=0.0)
    tl.store(out + at, tl.sum(total, 0).to(out.dtype.element_ty), mask=at < n)'''
"""The kernel that adds up parts."""
ADDS_UP = "_added_up"
"""Its name."""


@dataclass(frozen=True, eq=False)
class AddedArray:
    """An array `sums` that the kernel at `place` adds to, and the `result` of a narrower type that is made of it after
    that, if there is one.

    `part` and `parts` name how far the parts of tiles are apart, in elements (0 if tiles are added to one array), and
    where they lie. `tiles` are the axes along which tiles are added up.
    """

    place: int
    sums: StoredArray
    part: str
    parts: str
    tiles: tuple[LoopSpan, ...]
    result: StoredArray | None = None


@dataclass(frozen=True)
class AddedLines:
    """The lines of a launch function about arrays that tiles are added to; `steps` are its kernels and calls in order,
    `sizes` the names of sizes."""

    arrays: Sequence[AddedArray]
    steps: Sequence[KernelSpec | ProductCall | OpaqueCall]
    sizes: Mapping[str, str]

    def decided(self) -> Iterator[tuple[StoredArray, PythonExpression]]:
        """Each array of which each tile's part may have a place, with the number of tiles that add to an entry."""
        kernels = {step.place: step for step in self.steps if isinstance(step, KernelSpec)}
        for array in self.arrays:
            if array.sums in kernels[array.place].added:
                yield array.sums, self._tiles(kernels[array.place], array)

    def refused(self) -> Iterator[str]:
        """What refuses a deterministic launch where entries are added at positions that arrays say."""
        in_order = {array for array, _ in self.decided()}
        scattered = [a.sums if a.result is None else a.result for a in self.arrays if a.sums not in in_order]
        if scattered:
            names = " and ".join(array.name for array in scattered)
            yield "if deterministic:"
            yield f'    raise ValueError("entries are added to {names} at positions that integers say, by atomic "'
            yield '                     "additions in no fixed order: expected deterministic=None, or a plan with "'
            yield '                     "deterministic=True")'

    def before(self, kernel: KernelSpec) -> Iterator[str]:
        """What clears the arrays that a kernel adds to, or allocates some for parts."""
        for a in self.arrays:
            if a.place != kernel.place:
                continue
            if a.sums not in kernel.added:
                yield f"{a.sums.name}.zero_()"
            else:
                stored = f"_parts({a.sums.name}, {self._tiles(kernel, a)})"
                yield f"{a.parts}, {a.part} = {stored} if deterministic else ({a.sums.name}.zero_(), 0)"

    def after(self, kernel: KernelSpec) -> Iterator[str]:
        """What adds up the parts of a kernel, and makes narrower arrays of sums, which later kernels read."""
        for a in self.arrays:
            if a.place != kernel.place:
                continue
            if a.sums not in kernel.added:
                if a.result is not None:
                    yield f"{a.result.name}.copy_({a.sums.name})"
            else:
                made = a.sums if a.result is None else a.result
                yield "if deterministic:  # in the order of tiles"
                yield f"    _add_up({a.parts}, {a.sums.name}, {made.name}, dependent, pdl)"
                if a.result is not None:
                    yield from ("else:", f"    {a.result.name}.copy_({a.sums.name})")

    def _tiles(self, kernel: KernelSpec, array: AddedArray) -> PythonExpression:
        tiles = [tile_count(kernel, span, self.sizes) for span in array.tiles]
        return programs(kernel, self.sizes) if runs(kernel) else product_of(tiles)
