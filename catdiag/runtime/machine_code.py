"""The launches of a generated module, and the compiled binaries of its kernels, without a GPU.

The launch function is called on tensors without data (torch's `meta` device), and its launches are recorded instead of
executed. A recorded launch has the grid and the arguments of a kernel. Triton specializes the kernel for the arguments
by its own rules (an integer is 1, or 16 divides it), and compiles it for a chip that need not be present: one of
NVIDIA, by its compute capability, or of AMD, by the name of its instruction set.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from catdiag.category.types import size_value
from catdiag.codegen.triton.launch_checks import HAS_COPY_ENGINE, IS_AMD
from catdiag.runtime.module_cache import ModuleSource, SourceArgument, imported, launch_options, needed, unseen
from catdiag.runtime.unwritten_registers import unwritten_registers
from catdiag.util.errors import CatdiagError

HOPPER = 90
"""The default compute capability, times ten: that of H100 and H200."""

AMD = "gfx"
"""How the names of AMD's instruction sets begin."""

_VECTOR_REGISTERS = re.compile(r"\.vgpr_count:\s+(\d+)")
_VECTOR_SPILLS = re.compile(r"\.vgpr_spill_count:\s+(\d+)")
_PRIVATE_BYTES = re.compile(r"\.private_segment_fixed_size:\s+(\d+)")
_SPILLED = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")


@dataclass(frozen=True)
class ArrayArgument:
    """A tensor argument of a kernel: its element type, its shape, and its strides in elements."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class RecordedLaunch:
    """One launch of a kernel: its grid (programs in each direction), arguments and options.

    `arguments` are by the names of the kernel's parameters, constants included; tensors are `ArrayArgument`s. `options`
    are the keyword arguments that are no parameters, such as `num_warps` and `num_stages`.
    """

    kernel: str
    grid: tuple[int, int, int]
    arguments: Mapping[str, object]
    options: Mapping[str, object]

    @property
    def programs(self) -> int:
        """The number of programs, each of which is a thread block."""
        return self.grid[0] * self.grid[1] * self.grid[2]


@dataclass(frozen=True)
class Binary:
    """The compiled code of a kernel, and the resources of one of its thread blocks.

    - `shared_bytes`: shared memory per block (Triton's `metadata.shared`, without the 1,024 bytes that the driver
      reserves); `threads`: threads per block.
    - `registers`: registers per thread; on AMD's chips vector registers, accumulators among them.
    - `spill_store_bytes`, `spill_load_bytes`, `stack_bytes`: per thread; 0 if nothing is spilled.
    - `assembly`: PTX, or the assembly of AMD's instruction set; `object_code`: a cubin, or an hsaco.
    - `launches`: the launches that run this code.
    """

    kernel: str
    arch: int | str
    threads: int
    shared_bytes: int
    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    launches: tuple[RecordedLaunch, ...]
    signature: Mapping[str, str]
    assembly: str = field(repr=False)
    object_code: bytes = field(repr=False)
    stages: Mapping[str, str] = field(repr=False)
    """The texts of the compiler's stages by name: `ttir`, `ttgir`, `llir`."""

    @property
    def spills(self) -> bool:
        """Whether registers are spilled to local memory."""
        return bool(self.stack_bytes or self.spill_store_bytes or self.spill_load_bytes)

    @property
    def unwritten_registers(self) -> Mapping[str, str]:
        """Uniform registers that the machine code reads and nothing has written, each with the instruction
        (`catdiag.runtime.unwritten_registers`): ptxas made a wrong kernel. Not of AMD's chips."""
        if isinstance(self.arch, str):
            return {}
        return unwritten_registers(_tool("nvdisasm", "-c", self.object_code))

    @property
    def serializes_products(self) -> bool:
        """Whether the assembler makes each asynchronous product of a warpgroup wait for the one before (ptxas warns of
        that, C7510 to C7519): the matrix units then idle between them. It is asked again, which takes a second."""
        asynchronous = not isinstance(self.arch, str) and "wgmma.mma_async" in self.assembly
        return asynchronous and "wgmma.mma_async instructions are serialized" in _report(self.assembly, int(self.arch))


def arguments(
    source: ModuleSource,
    sizes: Mapping[str, int],
    scalars: Mapping[str, float] | None = None,
    dtypes: Mapping[str, str] | None = None,
) -> list[Any]:
    """Arguments for the launch function of a module: contiguous tensors on torch's device "meta".

    `sizes` gives the sizes of axes. `scalars` gives inputs without axes, which may be among the sizes too; the default
    is 0.5, or 1,000 for an integer. `dtypes` gives other element types of inputs, by the input's name and torch's name
    of the type. Raises SizeError for an axis without a size, CatdiagError for an unknown input or type.
    """
    torch = needed("torch", "a generated kernel")
    numbers, changed = {**sizes, **(scalars or {})}, dtypes or {}
    names = [a.name for a in source.inputs]
    for name in (*(scalars or {}), *changed):
        if name not in names:
            raise CatdiagError(f"{source.entry} has no input {name!r}: its inputs are {', '.join(names) or 'none'}")
    return [_argument(torch, a, numbers, changed.get(a.name, a.dtype)) for a in source.inputs]


def _argument(torch: ModuleType, argument: SourceArgument, numbers: Mapping[str, int | float], dtype: str) -> Any:
    if not argument.ty.axes:
        default = {"int": 1000, "bool": True}.get(argument.ty.element, 0.5)
        return numbers.get(argument.name, default)
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise CatdiagError(
            f"input {argument.name!r} has type {dtype!r}: expected torch's name of an element type, such as bfloat16"
        )
    lengths = {name: int(value) for name, value in numbers.items()}
    shape = [size_value(axis.size, lengths) for axis in argument.ty.axes]
    return torch.empty(shape, dtype=kind, device="meta")


def launches(
    source: ModuleSource,
    sizes: Mapping[str, int],
    *,
    tiles: Mapping[str, int] | None = None,
    scalars: Mapping[str, float] | None = None,
    dtypes: Mapping[str, str] | None = None,
    warps: int | None = None,
    stages: int | None = None,
    arch: int | str = HOPPER,
) -> tuple[RecordedLaunch, ...]:
    """The launches that a module makes at some sizes and tiles, in order. Nothing is run, and no GPU is needed.

    `arch` is the compute capability, times ten, of the chip that they are for, or the name of AMD's instruction set
    ("gfx942" for MI300X): a chip without a copy engine (TMA) gets no tensor descriptors. `tiles`, `warps` and `stages`
    default to the module's. For the other arguments see `arguments`. Raises SizeError for an unknown tile. Raises
    CatdiagError if torch or triton is not installed, and if the module refuses its arguments or launches nothing.
    """
    return tuple(_described(call) for call in _recorded(source, sizes, tiles, scalars, dtypes, warps, stages, arch))


def binaries(
    source: ModuleSource,
    sizes: Mapping[str, int],
    *,
    tiles: Mapping[str, int] | None = None,
    scalars: Mapping[str, float] | None = None,
    dtypes: Mapping[str, str] | None = None,
    warps: int | None = None,
    stages: int | None = None,
    arch: int | str = HOPPER,
) -> tuple[Binary, ...]:
    """The compiled kernels that a module launches at some sizes and tiles, in order of first launch.

    `arch` is as for `launches`; the module launches what it would there. Launches for which Triton specializes in the
    same way share one binary. A kernel takes about a second to compile, unless it is in Triton's cache. Raises the
    errors of `launches`, and CatdiagError, with the kernel's name, if the compiler or the assembler rejects it.
    """
    found: dict[str, tuple[_CompiledBinary, list[RecordedLaunch]]] = {}
    for call in _recorded(source, sizes, tiles, scalars, dtypes, warps, stages, arch):
        compiled = _compiled(call, arch)
        found.setdefault(compiled.handle.hash, (compiled, []))[1].append(_described(call))
    return tuple(_binary(compiled, arch, tuple(made)) for compiled, made in found.values())


# -- recorded launches -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _RecordedCall:
    """A launch as it was called: kernel[grid](*args, **options)."""

    name: str
    kernel: Any
    grid: Any
    args: tuple[Any, ...]
    options: dict[str, Any]


@dataclass(frozen=True)
class _Recorder:
    """A stub for a kernel that records its launches."""

    name: str
    kernel: Any
    calls: list[_RecordedCall]

    def __getitem__(self, grid: Any) -> Any:
        return lambda *args, **options: self.calls.append(_RecordedCall(self.name, self.kernel, grid, args, options))


def _recorded(
    source: ModuleSource,
    sizes: Mapping[str, int],
    tiles: Mapping[str, int] | None,
    scalars: Mapping[str, float] | None,
    dtypes: Mapping[str, str] | None,
    warps: int | None,
    stages: int | None,
    arch: int | str,
) -> list[_RecordedCall]:
    """Calls the launch function as for a chip, on tensors without data, with recorders in the place of kernels."""
    options: dict[str, Any] = {**launch_options(source, tiles, warps, stages)}
    values = arguments(source, sizes, scalars, dtypes)
    module = imported(source.text, source.entry)
    launch = getattr(module, source.entry)
    options.update(unseen(source, launch, sizes))
    amd = _of_amd(arch)
    generation = 0 if amd else int(arch) // 10
    if generation != HOPPER // 10 and "specialized" in inspect.signature(launch).parameters:
        options["specialized"] = False
    calls: list[_RecordedCall] = []
    kernels = _kernels(module)
    vars(module).update({name: _Recorder(name, kernel, calls) for name, kernel in kernels.items()})
    if HAS_COPY_ENGINE in vars(module):
        setattr(module, HAS_COPY_ENGINE, lambda device: generation >= HOPPER // 10)
    if IS_AMD in vars(module):
        setattr(module, IS_AMD, lambda: amd)
    try:
        launch(*values, **options)
    except (ValueError, TypeError, RuntimeError) as error:
        raise CatdiagError(f"{source.entry} refuses its arguments: {error}") from error
    finally:
        vars(module).update(kernels)
    if not calls:
        raise CatdiagError(f"{source.entry} launches no kernel at sizes {dict(sizes)}")
    return calls


def _kernels(module: ModuleType) -> dict[str, Any]:
    """The kernels of a module, by name. Raises CatdiagError for kernels that cannot be compiled."""
    jit = needed("triton.runtime.jit", "a generated kernel")
    known = {n: v for n, v in vars(module).items() if isinstance(v, jit.KernelInterface)}
    for name, value in known.items():
        if not isinstance(value, jit.JITFunction):
            why = (
                "unset TRITON_INTERPRET, since interpreted kernels are not compiled"
                if "Interpreted" in type(value).__name__
                else ""
            )
            raise CatdiagError(f"{name} is a {type(value).__name__}: {why or 'expected functions under @triton.jit'}")
    return known


def _grid(call: _RecordedCall) -> tuple[int, int, int]:
    grid = call.grid(_bound(call)) if callable(call.grid) else call.grid
    counts = [int(n) for n in (grid if isinstance(grid, Sequence) else (grid,))]
    first, second, third = (*counts, 1, 1, 1)[:3]
    return first, second, third


def _bound(call: _RecordedCall) -> dict[str, Any]:
    """The arguments of a launch, by the names of the parameters."""
    names = [p.name for p in call.kernel.params]
    named = {n: v for n, v in call.options.items() if n in names}
    defaults = {n: p.default for n, p in call.kernel.signature.parameters.items() if p.default is not p.empty}
    return {**defaults, **dict(zip(names, call.args)), **named}


def _described(call: _RecordedCall) -> RecordedLaunch:
    bound = _bound(call)
    options = {n: v for n, v in call.options.items() if n not in bound}
    shown = {n: _plain(v) for n, v in bound.items()}
    return RecordedLaunch(call.name, _grid(call), {p.name: shown[p.name] for p in call.kernel.params}, options)


def _plain(value: Any) -> object:
    if hasattr(value, "stride") and hasattr(value, "dtype"):
        return ArrayArgument(str(value.dtype).removeprefix("torch."), tuple(value.shape), tuple(value.stride()))
    return value


# -- code --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _CompiledBinary:
    """A kernel compiled by Triton (`handle`), with the types of its parameters."""

    name: str
    handle: Any
    signature: dict[str, str]


def _of_amd(arch: int | str) -> bool:
    """Whether a chip is of AMD. Raises CatdiagError for what is no chip."""
    if isinstance(arch, str) and arch.startswith(AMD) and len(arch) > len(AMD):
        return True
    if isinstance(arch, bool) or not isinstance(arch, int) or arch < 70:
        raise CatdiagError(
            f"arch is {arch!r}: expected ten times a compute capability, such as 90 for Hopper, or the name of an "
            "instruction set of AMD, such as 'gfx942' for MI300X"
        )
    return False


def _target(arch: int | str) -> Any:
    """Triton's name of a chip: its maker, its architecture, and the threads of a warp."""
    target = needed("triton.backends.compiler", "a kernel").GPUTarget
    if _of_amd(arch):
        return target("hip", arch, 64 if str(arch).startswith("gfx9") else 32)
    return target("cuda", arch, 32)


def _compiled(call: _RecordedCall, arch: int | str) -> _CompiledBinary:
    """A launch compiled for a chip, specialized as Triton specializes it at a real launch."""
    triton = needed("triton", "a generated kernel")
    compiler, jit = needed("triton.compiler", "a kernel"), needed("triton.runtime.jit", "a kernel")
    errors, inner = needed("triton.runtime.errors", "a kernel"), needed("triton.compiler.errors", "a kernel")
    target = _target(arch)
    backend = compiler.make_backend(target)
    try:
        binder = jit.create_function_from_signature(call.kernel.signature, call.kernel.params, backend)
        bound, specialized, options = binder(*call.args, **call.options)
        options, signature, constants, attributes = call.kernel._pack_args(
            backend, call.options, bound, specialized, options
        )
    except AttributeError as error:
        raise CatdiagError(
            f"Triton {triton.__version__} binds arguments in an unknown way ({error}): expected Triton 3.6"
        ) from error
    made = _ast(compiler, call.kernel)(call.kernel, signature, constants, attributes)
    try:
        handle = triton.compile(made, target=target, options=vars(options))
    except (inner.CompilationError, errors.TritonError, RuntimeError) as error:
        raise CatdiagError(f"Triton does not compile {call.name}: {error}") from error
    return _CompiledBinary(call.name, handle, signature)


def _ast(compiler: ModuleType, kernel: Any) -> Any:
    """The class of sources that Triton compiles: for kernels in Triton, or in Gluon."""
    if getattr(kernel, "is_gluon", lambda: False)():
        return needed("triton.experimental.gluon._runtime", "a kernel in Gluon").GluonASTSource
    return compiler.ASTSource


def _binary(compiled: _CompiledBinary, arch: int | str, made: tuple[RecordedLaunch, ...]) -> Binary:
    handle = compiled.handle
    assembly, object_code = (handle.asm[n] for n in (("amdgcn", "hsaco") if _of_amd(arch) else ("ptx", "cubin")))
    if isinstance(arch, str):
        registers, stores, stack = (
            _stated(what, assembly) for what in (_VECTOR_REGISTERS, _VECTOR_SPILLS, _PRIVATE_BYTES)
        )
        stores = loads = 4 * stores
    else:
        registers, stack = _used(object_code)
        stores, loads = _spilled(assembly, arch, handle.metadata) if stack else (0, 0)
    return Binary(
        kernel=compiled.name,
        arch=arch,
        threads=handle.metadata.num_warps * handle.metadata.warp_size,
        shared_bytes=handle.metadata.shared,
        registers=registers,
        spill_store_bytes=stores,
        spill_load_bytes=loads,
        stack_bytes=stack,
        launches=made,
        signature=compiled.signature,
        assembly=assembly,
        object_code=object_code,
        stages={name: handle.asm[name] for name in ("ttir", "ttgir", "llir") if name in handle.asm},
    )


def _stated(what: re.Pattern[str], assembly: str) -> int:
    """A number that AMD's assembler is given of a kernel."""
    found = what.search(assembly)
    if found is None:
        raise CatdiagError(f"the assembly of a kernel has no {what.pattern!r}: expected that of Triton 3.6")
    return int(found[1])


def _used(cubin: bytes) -> tuple[int, int]:
    """The registers and the bytes of local memory per thread, from `cuobjdump`."""
    text = _tool("cuobjdump", "-res-usage", cubin)
    found = _USED.search(text)
    if found is None:
        raise CatdiagError(f"cuobjdump printed {text.strip()[:200]!r}: expected the registers of a kernel")
    return int(found[1]), int(found[2]) + int(found[4])


def _tool(name: str, option: str, cubin: bytes) -> str:
    """What one of NVIDIA's tools, of those that Triton brings, prints of a cubin."""
    tool = getattr(needed("triton.knobs", "a kernel").nvidia, name).path
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        return subprocess.run([tool, option, str(path)], capture_output=True, text=True, check=True).stdout


def _spilled(ptx: str, arch: int, metadata: Any) -> tuple[int, int]:
    """The bytes of spill stores and spill loads per thread, from the assembler (ptxas)."""
    fused = [] if metadata.enable_fp_fusion else ["--fmad=false"]
    found = _SPILLED.search(_report(ptx, arch, *fused, *(metadata.ptx_options or "").split()))
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _report(ptx: str, arch: int, *options: str) -> str:
    """What ptxas says of a kernel that it assembles."""
    tool = needed("triton.backends.nvidia.compiler", "a kernel").get_ptxas(arch).path
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.ptx"
        path.write_text(ptx, encoding="utf-8")
        command = [tool, "-lineinfo", "-v", *options, f"--gpu-name=sm_{arch}{'a' if arch >= 90 else ''}"]
        return subprocess.run(
            [*command, str(path), "-o", str(path.with_suffix(".cubin"))], capture_output=True, text=True, check=True
        ).stderr
