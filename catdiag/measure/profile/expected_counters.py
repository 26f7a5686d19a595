"""The predicted counters of a kernel: bytes by formula for each array, and known causes of differences.

A point is an operator at sizes, with its tiles. Its *loads* are `H.load` of the exact formula, at the edge into shared
memory. A partial tile or block counts its entries only (the kernel masks the rest), and a skipped block counts nothing.
HBM traffic is predicted as the compulsory bytes: each input read once, each result written once.

*Causes* are what the formula leaves out, in bytes. They follow from the kernel's source, its launches and the chip.
Most are upper bounds, since the bytes may hit in L1.

- **sectors**: memory is moved in sectors of 32 bytes. A row of a tile that starts or ends within a sector moves all of
  it (upper bound).
- **strided**: neighbors in a tile that are not contiguous in memory move a sector each (upper bound).
- **reloaded**: the source loads an array more than once per iteration, where the formula counts it once (upper bound).
- **wider**: integers that have other than the formula's 4 bytes.
- **L2**: if inputs and results exceed the cache, each further wave of groups may fetch the inputs again. The bound
  assumes that groups of one wave that read the same data read it together.
- **written later**: results stay in L2 when the kernel ends, and dirty lines of earlier kernels are evicted meanwhile;
  each is at most the capacity of L2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from catdiag.category.diagram import diagram_of
from catdiag.category.types import element_bytes
from catdiag.chip import hardware
from catdiag.codegen.triton.tile_runs import most_programs
from catdiag.codegen.triton.triton_module import module
from catdiag.cost.traffic import io
from catdiag.measure.bench_case import ArraySpec, Number, case_of, evaluated
from catdiag.measure.profile.ncu import SECTOR
from catdiag.planner.emitted_module import generation
from catdiag.rewrite.derivation import source_of
from catdiag.runtime.abstract_interpreter.shared_memory import shared_of_launch, trace_of_launch
from catdiag.runtime.launch_recorder import record_launches
from catdiag.runtime.machine_code import ArrayArgument as Tensor
from catdiag.runtime.machine_code import binaries
from catdiag.util.errors import CatdiagError, SizeError

if TYPE_CHECKING:
    from catdiag.chip.hardware import Hardware
    from catdiag.codegen.triton.triton_module import Module
    from catdiag.cost.traffic import IO
    from catdiag.runtime.abstract_interpreter.tile_values import TileTrace, TracedLoad
    from catdiag.runtime.machine_code import RecordedLaunch

_SHORT = {
    "bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64", "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
}  # fmt: skip


@dataclass(frozen=True)
class Cause:
    """A reason for a counter to differ from the formula: by `low` to `high` bytes."""

    reason: str
    low: float
    high: float


@dataclass(frozen=True)
class ExpectedCounters:
    """The predicted counters of one kernel.

    - `loads`, `saves`: bytes into and out of the SMs, by array; `causes`, `save_causes`: causes of differences.
    - `shared`: bytes of shared memory per block; None if not predicted, for the reason `shared_causes`.
    - `compiled`: the resources of the compiled kernel, if it was compiled: `shared`, `registers`, `stack`,
      `spill_stores`, `spill_loads`.
    """

    kernel: str
    loads: Mapping[str, float]
    causes: tuple[Cause, ...] = ()
    shared: int | None = None
    shared_causes: str = ""
    compiled: Mapping[str, int] | None = None
    saves: Mapping[str, float] = field(default_factory=dict)
    save_causes: tuple[Cause, ...] = ()


@dataclass(frozen=True)
class ProfilePoint:
    """An operator at sizes and tiles: its module, its inputs and launch options, and the predicted counters.

    `read_bytes` and `written_bytes` are the compulsory bytes of HBM traffic.
    """

    name: str
    operator: str
    sizes: Mapping[str, int]
    dtype: str
    options: Mapping[str, int]
    entry: str
    text: str
    inputs: tuple[ArraySpec, ...]
    scalars: Mapping[str, Number]
    kernels: tuple[ExpectedCounters, ...]
    read_bytes: float
    written_bytes: float
    read_causes: tuple[Cause, ...] = ()
    written_causes: tuple[Cause, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @staticmethod
    def of(data: Mapping[str, Any]) -> ProfilePoint:
        """The point of the plain values that `as_dict` gives."""
        found = dict(data)
        found["inputs"] = tuple(
            ArraySpec(**{**a, "axes": tuple(a["axes"]), "shape": tuple(a["shape"])}) for a in found["inputs"]
        )
        found["kernels"] = tuple(
            ExpectedCounters(
                **{**k, **{side: tuple(Cause(**c) for c in k[side]) for side in ("causes", "save_causes")}}
            )
            for k in found["kernels"]
        )
        for side in ("read_causes", "written_causes"):
            found[side] = tuple(Cause(**c) for c in found[side])
        return ProfilePoint(**found)


def point_of(
    made: Any,
    tiles: Mapping[str, int],
    sizes: Mapping[str, int],
    dtype: str = "bf16",
    *,
    stages: int = 2,
    warps: int = 4,
    scalars: Mapping[str, Number] | None = None,
    draws: Mapping[str, Mapping[str, Any]] | None = None,
    name: str = "",
    chip: Hardware | str = "H200",
    compile_too: bool = False,
    specialized: bool = False,
) -> ProfilePoint:
    """The point of a derivation (or of a derived diagram) at sizes, with tile lengths by symbol.

    `sizes` gives the sizes of axes, `scalars` the inputs without axes, `draws` the distributions of inputs. With
    `compile_too` the kernels are compiled, for which torch and triton must be installed. `specialized` asks for a
    warp-specialized form. Raises the errors of the code generator for tiles that it refuses, SizeError for missing
    sizes, and CatdiagError if the compiler rejects a kernel.
    """
    diagram = diagram_of(made)
    source = source_of(made)
    machine = hardware.get(chip)
    code = module(
        diagram, tiles, dtype, stages=stages, warps=warps, specialized=specialized, l2_bytes=machine.l2_bytes,
        programs=most_programs(machine.sms),
    )  # fmt: skip
    known = {**sizes, **{n: v for n, v in (scalars or {}).items() if isinstance(v, int)}}
    case = case_of(source, sizes, dtype, scalars=scalars, draws=draws)
    inputs = _typed(case.inputs, code)
    counted = io(diagram, dtype=_dtypes(code), stages=stages, density=1)
    values = {**known, **tiles}
    by_kernel = _by_kernel(counted, values)
    options = {**{t: tiles[t] for t in code.tiles}, "num_warps": warps, "num_stages": stages}
    kernels, launched = _kernels(
        code, by_kernel, inputs, known, options, case.scalars, compile_too, generation(machine)
    )
    read_bytes = float(sum(a.bytes for a in inputs if a.shape))
    written_bytes = float(sum(_result_bytes(code, case.outputs)))
    return ProfilePoint(
        name=name or f"{diagram.title}",
        operator=diagram.title,
        sizes=dict(sizes),
        dtype=dtype,
        options=options,
        entry=code.entry,
        text=code.text,
        inputs=inputs,
        scalars=dict(case.scalars),
        kernels=kernels,
        read_bytes=read_bytes,
        written_bytes=written_bytes,
        read_causes=_fetched(kernels, launched, machine, read_bytes, written_bytes),
        written_causes=_later(machine, read_bytes, written_bytes),
    )


# -- formulas ------------------------------------------------------------------------------------------------------


def _typed(inputs: Sequence[ArraySpec], code: Module) -> tuple[ArraySpec, ...]:
    """The inputs, with the element types that the module takes."""
    from dataclasses import replace

    kinds = {a.name: a.dtype for a in code.inputs}
    return tuple(replace(a, dtype=_SHORT.get(kinds[a.name], kinds[a.name])) if a.axes else a for a in inputs)


def _dtypes(code: Module) -> dict[str, str]:
    """The element types of the module's arrays, by their names in the formulas."""
    ends = ["out"] if len(code.outputs) == 1 else [f"out{k}" for k in range(len(code.outputs))]
    named = [*((a.name, a) for a in code.inputs), *zip(ends, code.outputs, strict=True)]
    return {name: _SHORT.get(a.dtype, a.dtype) for name, a in named if a.ty.axes}


def _result_bytes(code: Module, outputs: Sequence[ArraySpec]) -> list[int]:
    widths = [element_bytes(_SHORT.get(a.dtype, a.dtype)) for a in code.outputs]
    return [math.prod(a.shape) * w for a, w in zip(outputs, widths, strict=True)]


_Moved = tuple[dict[str, float], dict[str, float]]
"""A kernel's transfers: (loads by array, saves by array)."""


def _by_kernel(io: IO, values: Mapping[str, int]) -> list[_Moved]:
    """The transfers of each kernel by array."""
    found: list[_Moved] = []
    rows = iter(io.traffic)
    for kernel in io.account.kernels:
        loads: dict[str, float] = {}
        saves: dict[str, float] = {}
        for _ in kernel.transfers:
            row = next(rows)
            of = loads if row.direction == "load" else saves
            of[row.array] = of.get(row.array, 0.0) + evaluated(row.exact, values)
        found.append((loads, saves))
    return found


def _later(chip: Hardware, read_bytes: float, written_bytes: float) -> tuple[Cause, ...]:
    """The causes by which a write-back L2 cache changes the bytes written to HBM while a kernel runs."""
    if not chip.l2_bytes:
        return ()
    capacity = float(chip.l2_bytes)
    return (
        Cause("results that stay in L2 when the kernel ends", -min(written_bytes, capacity), 0.0),
        Cause("what others had written, and what is read pushes out of L2", 0.0, min(read_bytes, capacity)),
    )


def _fetched(
    kernels: Sequence[ExpectedCounters],
    launched: Sequence[RecordedLaunch],
    chip: Hardware,
    read_bytes: float,
    written_bytes: float,
) -> tuple[Cause, ...]:
    """The cause by which inputs are read from HBM again, by each wave of groups but the first, if L2 is too small."""
    if not chip.l2_bytes or read_bytes + written_bytes <= chip.l2_bytes or not launched:
        return ()
    first, threads = kernels[0], 32 * int(str(launched[0].options.get("num_warps", 4)))
    registers = (first.compiled or {}).get("registers", 0) * threads
    smem = chip.smem_per_sm // ((first.shared or 0) + chip.smem_reserved)
    blocks = max(1, min(smem, chip.registers_per_sm // registers if registers else smem))
    waves = -(-launched[0].programs // (chip.sms * blocks))
    most = min((waves - 1) * read_bytes, sum(first.loads.values()) - read_bytes)
    return (Cause(f"L2: {waves} waves of groups read in turn more than it holds", 0.0, most),) if most > 0 else ()


# -- kernels ---------------------------------------------------------------------------------------------------------


def _kernels(
    code: Module,
    by_kernel: list[_Moved],
    inputs: Sequence[ArraySpec],
    sizes: Mapping[str, int],
    options: Mapping[str, int],
    scalars: Mapping[str, Number],
    compile_too: bool,
    chip_generation: int,
) -> tuple[tuple[ExpectedCounters, ...], tuple[RecordedLaunch, ...]]:
    """The predicted counters of kernels, in the order of their first launch; and the launches."""
    names = list(code.kernels)
    launched: tuple[RecordedLaunch, ...] = ()
    why = ""
    try:
        launched = record_launches(code, sizes, options, scalars, chip_generation)
        names = list(dict.fromkeys(launch.kernel for launch in launched))
    except SizeError:
        raise
    except CatdiagError as error:
        why = error.message
    if len(names) != len(by_kernel):  # summed up, since it is not known which formula is of which kernel
        all_loads: dict[str, float] = {}
        all_saves: dict[str, float] = {}
        for loads, saves in by_kernel:
            for side, own in ((all_loads, loads), (all_saves, saves)):
                for array, bytes_ in own.items():
                    side[array] = side.get(array, 0.0) + bytes_
        by_kernel = [(all_loads, all_saves), *(({}, {}) for _ in names[1:])]
    compiled = _compiled(code, sizes, options, scalars) if compile_too else {}
    found: list[ExpectedCounters] = []
    for name, (loads, saves) in zip(names, by_kernel):
        launch = next((one for one in launched if one.kernel == name), None)
        shared, why_not, causes, save_causes = None, why, list[Cause](), list[Cause]()
        if launch is not None:
            try:
                shared = shared_of_launch(code.code, launch, chip_generation).bytes
                if name in code.specialized:  # the copy engine loads each block once
                    save_causes = _of_fragments(saves, code)
                else:
                    trace = trace_of_launch(code.code, launch, chip_generation)
                    causes = _causes(trace, loads, inputs)
                    save_causes = _save_causes(trace, launch, saves)
            except CatdiagError as error:
                why_not = error.message
        found.append(
            ExpectedCounters(name, loads, tuple(causes), shared, why_not, compiled.get(name), saves, tuple(save_causes))
        )
    return tuple(found), launched


def _compiled(
    code: Module, sizes: Mapping[str, int], options: Mapping[str, int], scalars: Mapping[str, Number]
) -> dict[str, dict[str, int]]:
    """The resources of the compiled kernels, by kernel."""
    how: dict[str, Any] = {"tiles": {t: options[t] for t in code.tiles}, "scalars": dict(scalars)}
    how.update(warps=options["num_warps"], stages=options["num_stages"])
    found = {}
    for made in binaries(code, sizes, **how):
        found[made.kernel] = {
            "shared": made.shared_bytes,
            "registers": made.registers,
            "stack": made.stack_bytes,
            "spill_stores": made.spill_store_bytes,
            "spill_loads": made.spill_load_bytes,
        }
    return found


def _causes(trace: TileTrace, loads: Mapping[str, float], inputs: Sequence[ArraySpec]) -> list[Cause]:
    """The causes for each array that follow from the source of a kernel."""
    found: list[Cause] = []
    shapes = {a.name: a for a in inputs}
    for array, bytes_ in loads.items():
        of = [load for load in trace.loads if load.array == array]
        if not of or not bytes_:
            continue
        iterations: dict[int | None, int] = {}
        for load in of:
            iterations[load.loop] = iterations.get(load.loop, 0) + 1
        times = max(iterations.values())
        if times > 1:
            reason = f"reloaded: {array} is loaded {times} times per iteration"
            found.append(Cause(reason, 0.0, bytes_ * (times - 1)))
        known = shapes.get(array)
        if known is not None and known.shape:
            found += _of_sectors(array, of, known, bytes_)
    return found


def _save_causes(trace: TileTrace, launch: RecordedLaunch, saves: Mapping[str, float]) -> list[Cause]:
    """The causes of stores: if what a warp stores at once ends within a sector, two stores move that sector."""
    found: list[Cause] = []
    for store in trace.stores:
        tensor, bytes_ = launch.arguments.get(store.array), saves.get(store.array, 0.0)
        if not isinstance(tensor, Tensor) or not tensor.shape or not bytes_ or store.unit is None:
            continue
        width = int(bytes_ / math.prod(tensor.shape)) or 1
        run = min(32 * store.vector, store.shape[store.unit], tensor.shape[-1])
        more = sectors(tensor.shape, width, run) - 1
        if more > 0:
            found.append(Cause(f"sectors: what a warp stores of {store.array} ends within one", 0.0, bytes_ * more))
    return found


def _of_fragments(saves: Mapping[str, float], code: Module) -> list[Cause]:
    """The causes of stores in accumulator layout: four threads have eight neighbors of a row, stored at once."""
    kinds = {a.name: _SHORT.get(a.dtype, a.dtype) for a in code.outputs}
    found = []
    for array, bytes_ in saves.items():
        more = SECTOR / (8 * element_bytes(kinds.get(array, "fp32"))) - 1
        if more > 0 and bytes_:
            found.append(Cause(f"sectors: a warp saves 8 neighbours of {array} at a time", 0.0, bytes_ * more))
    return found


def _of_sectors(name: str, loads: Sequence[TracedLoad], array: ArraySpec, bytes_: float) -> list[Cause]:
    width = element_bytes(array.dtype)
    tiles = [load for load in loads if load.shape]
    if any(load.unit is None for load in tiles):
        reason = f"strided: neighbors in a tile of {name} are not contiguous in memory"
        return [Cause(reason, 0.0, bytes_ * (SECTOR / width - 1))]
    lengths = [load.shape[load.unit] for load in tiles if load.unit is not None]
    if not lengths:
        return []
    more = max(sectors(array.shape, width, min(n, array.shape[-1])) for n in lengths)
    return [Cause(f"sectors: rows of a tile of {name} end within one", 0.0, bytes_ * (more - 1))] if more > 1 else []


def sectors(shape: Sequence[int], width: int, run: int) -> float:
    """The bytes of the sectors that runs of `run` values touch, as a multiple of the bytes of the runs.

    Runs start at the start of each row; rows are contiguous. `width` is the bytes per value.

    >>> sectors((4096, 128), 2, 64), sectors((4096, 100), 2, 100), sectors((7,), 4, 7)
    (1.0, 1.12, 1.1428571428571428)
    """
    last = shape[-1]
    rows = 1 if len(shape) < 2 else min(math.prod(shape[:-1]), SECTOR)
    touched = taken = 0
    for row in range(rows):
        for start in range(0, last, run):
            first = (row * last + start) * width
            end = first + min(run, last - start) * width
            touched += (-(-end // SECTOR) - first // SECTOR) * SECTOR
            taken += end - first
    return touched / taken
