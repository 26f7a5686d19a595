"""What a generated module launches, and the machine code of its kernels, without a GPU.

The launch function is called with tensors that have shapes and no data (torch's `meta` device), while the launches are
recorded instead of made: that says of each kernel its grid and its arguments. Triton's own rules then specialise it
for them (an integer that is 1, one that 16 divides), and its compiler makes the code for a chip that need not be there.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from catdiag.category.types import size_value
from catdiag.runtime.module_cache import ModuleSource, SourceArgument, imported, launch_options, needed, unseen
from catdiag.util.errors import CatdiagError

HOPPER = 90
"""The compute capability, times ten, that code is made for if nothing else is said: an H100's and an H200's."""

_SPILLED = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")


@dataclass(frozen=True)
class ArrayArgument:
    """A tensor that a kernel is given: its type, its shape, and its strides in values."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class RecordedLaunch:
    """One launch of a kernel: how many programs in each direction, and with what.

    `arguments` are by the names of the kernel's parameters, tensors as `ArrayArgument`, constants among them; `warps`
    and `stages` are as given (None: Triton's own), and `options` all that was given beside the parameters.
    """

    kernel: str
    grid: tuple[int, int, int]
    arguments: Mapping[str, object]
    options: Mapping[str, object]

    @property
    def programs(self) -> int:
        """How many programs it starts, each a thread block."""
        return self.grid[0] * self.grid[1] * self.grid[2]


@dataclass(frozen=True)
class Binary:
    """The machine code of a kernel, and what one of its thread blocks takes.

    `shared` is the shared memory that the launch asks for, in bytes (Triton's `metadata.shared`: without the 1,024
    bytes that the driver keeps for itself); `registers` are those of a thread; `spill_stores`, `spill_loads` and
    `stack` are bytes of a thread, 0 where nothing is spilled. `launches` are the launches that run this code.
    """

    kernel: str
    arch: int
    threads: int
    shared: int
    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    launches: tuple[RecordedLaunch, ...]
    signature: Mapping[str, str]
    ptx: str = field(repr=False)
    cubin: bytes = field(repr=False)
    stages: Mapping[str, str] = field(repr=False)
    """The texts of the compiler's stages by name: `ttir`, `ttgir`, `llir`."""

    @property
    def spills(self) -> bool:
        """Whether registers are kept in memory, for which there were too few."""
        return bool(self.stack or self.spill_stores or self.spill_loads)


def arguments(
    source: ModuleSource,
    sizes: Mapping[str, int],
    scalars: Mapping[str, float] | None = None,
    dtypes: Mapping[str, str] | None = None,
    device: str = "meta",
) -> list[Any]:
    """Arguments for the launch function of a module: empty tensors of its types, row by row, on a device of torch.

    `sizes` gives the axes, `scalars` the inputs that are numbers (they may be among the sizes too; one that is not
    given is 0.5, or 1,000 where it is whole). `dtypes` changes the types of inputs, by name and torch's name. Raises
    SizeError for an axis without a size, CatdiagError for an unknown input or type.
    """
    torch = needed("torch", "a generated kernel")
    given, changed = {**sizes, **(scalars or {})}, dtypes or {}
    names = [a.name for a in source.inputs]
    for name in (*(scalars or {}), *changed):
        if name not in names:
            raise CatdiagError(f"{source.entry} has no input {name!r}: its inputs are {', '.join(names) or 'none'}")
    return [_argument(torch, a, given, changed.get(a.name, a.dtype), device) for a in source.inputs]


def _argument(
    torch: ModuleType, argument: SourceArgument, given: Mapping[str, int | float], dtype: str, device: str
) -> Any:
    if not argument.ty.axes:
        default = {"int": 1000, "bool": True}.get(argument.ty.element, 0.5)
        return given.get(argument.name, default)
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise CatdiagError(
            f"input {argument.name!r} has type {dtype!r}: expected torch's name of one, such as bfloat16"
        )
    lengths = {name: int(value) for name, value in given.items()}
    shape = [size_value(axis.size, lengths) for axis in argument.ty.axes]
    return torch.empty(shape, dtype=kind, device=device)


def launches(
    source: ModuleSource,
    sizes: Mapping[str, int],
    *,
    tiles: Mapping[str, int] | None = None,
    scalars: Mapping[str, float] | None = None,
    dtypes: Mapping[str, str] | None = None,
    warps: int | None = None,
    stages: int | None = None,
) -> tuple[RecordedLaunch, ...]:
    """The launches that a module makes at some sizes and tiles, in order. Nothing is run, and no GPU is needed.

    `tiles`, `warps` and `stages` are the module's own where left out; the rest is as `arguments` has it. Raises
    SizeError for a tile that the module does not have, CatdiagError where torch or triton is not installed, where the
    module refuses its arguments, or launches nothing.
    """
    return tuple(_described(call) for call in _recorded(source, sizes, tiles, scalars, dtypes, warps, stages))


def binaries(
    source: ModuleSource,
    sizes: Mapping[str, int],
    *,
    tiles: Mapping[str, int] | None = None,
    scalars: Mapping[str, float] | None = None,
    dtypes: Mapping[str, str] | None = None,
    warps: int | None = None,
    stages: int | None = None,
    arch: int = HOPPER,
) -> tuple[Binary, ...]:
    """The machine code of the kernels that a module launches at some sizes and tiles, in order of first launch.

    `arch` is the chip's compute capability times ten. Launches that differ in nothing that Triton specialises for share
    one. It takes a second or so for a kernel, and none for one that Triton has in its cache. Raises what `launches`
    does, and CatdiagError, with the kernel's name, where the compiler or the assembler refuses it.
    """
    found: dict[str, tuple[_CompiledBinary, list[RecordedLaunch]]] = {}
    for call in _recorded(source, sizes, tiles, scalars, dtypes, warps, stages):
        compiled = _compiled(call, arch)
        found.setdefault(compiled.handle.hash, (compiled, []))[1].append(_described(call))
    return tuple(_binary(compiled, arch, tuple(made)) for compiled, made in found.values())


# -- launches, recorded ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _RecordedCall:
    name: str
    kernel: Any
    grid: Any
    args: tuple[Any, ...]
    options: dict[str, Any]


@dataclass(frozen=True)
class _Recorder:
    """Stands for a kernel while its launches are recorded."""

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
) -> list[_RecordedCall]:
    options = launch_options(source, tiles, warps, stages)
    values = arguments(source, sizes, scalars, dtypes)
    module = imported(source.text, source.entry)
    options.update(unseen(source, getattr(module, source.entry), sizes))
    calls: list[_RecordedCall] = []
    kernels = _kernels(module)
    vars(module).update({name: _Recorder(name, kernel, calls) for name, kernel in kernels.items()})
    try:
        getattr(module, source.entry)(*values, **options)
    except (ValueError, TypeError, RuntimeError) as error:
        raise CatdiagError(f"{source.entry} refuses its arguments: {error}") from error
    finally:
        vars(module).update(kernels)
    if not calls:
        raise CatdiagError(f"{source.entry} launches no kernel at sizes {dict(sizes)}")
    return calls


def _kernels(module: ModuleType) -> dict[str, Any]:
    """The kernels among the names of a module."""
    jit = needed("triton.runtime.jit", "a generated kernel")
    known = {n: v for n, v in vars(module).items() if isinstance(v, jit.KernelInterface)}
    for name, value in known.items():
        if not isinstance(value, jit.JITFunction):
            why = (
                "unset TRITON_INTERPRET, under which nothing is compiled"
                if "Interpreted" in type(value).__name__
                else ""
            )
            raise CatdiagError(f"{name} is a {type(value).__name__}: {why or 'expected functions under @triton.jit'}")
    return known


def _grid(call: _RecordedCall) -> tuple[int, int, int]:
    given = call.grid(_bound(call)) if callable(call.grid) else call.grid
    counts = [int(n) for n in (given if isinstance(given, Sequence) else (given,))]
    first, second, third = (*counts, 1, 1, 1)[:3]
    return first, second, third


def _bound(call: _RecordedCall) -> dict[str, Any]:
    """The arguments of a launch by the names of the parameters."""
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
    name: str
    handle: Any
    signature: dict[str, str]


def _compiled(call: _RecordedCall, arch: int) -> _CompiledBinary:
    """A launch, specialised as Triton does when it makes one, and compiled."""
    triton = needed("triton", "a generated kernel")
    compiler, jit = needed("triton.compiler", "a kernel"), needed("triton.runtime.jit", "a kernel")
    errors, inner = needed("triton.runtime.errors", "a kernel"), needed("triton.compiler.errors", "a kernel")
    target = needed("triton.backends.compiler", "a kernel").GPUTarget("cuda", arch, 32)
    backend = compiler.make_backend(target)
    try:
        binder = jit.create_function_from_signature(call.kernel.signature, call.kernel.params, backend)
        bound, specialized, options = binder(*call.args, **call.options)
        options, signature, constants, attributes = call.kernel._pack_args(
            backend, call.options, bound, specialized, options
        )
    except AttributeError as error:
        raise CatdiagError(
            f"Triton {triton.__version__} binds arguments in a way that is not known here: {error}"
        ) from error
    made = _ast(compiler, call.kernel)(call.kernel, signature, constants, attributes)
    try:
        handle = triton.compile(made, target=target, options=vars(options))
    except (inner.CompilationError, errors.TritonError, RuntimeError) as error:
        raise CatdiagError(f"Triton does not compile {call.name}: {error}") from error
    return _CompiledBinary(call.name, handle, signature)


def _ast(compiler: ModuleType, kernel: Any) -> Any:
    """What Triton compiles: source in its own language, or in Gluon."""
    if getattr(kernel, "is_gluon", lambda: False)():
        return needed("triton.experimental.gluon._runtime", "a kernel in Gluon").GluonASTSource
    return compiler.ASTSource


def _binary(compiled: _CompiledBinary, arch: int, made: tuple[RecordedLaunch, ...]) -> Binary:
    handle = compiled.handle
    cubin, ptx = handle.asm["cubin"], handle.asm["ptx"]
    registers, stack = _used(cubin)
    stores, loads = _spilled(ptx, arch, handle.metadata) if stack else (0, 0)
    return Binary(
        kernel=compiled.name,
        arch=arch,
        threads=handle.metadata.num_warps * handle.metadata.warp_size,
        shared=handle.metadata.shared,
        registers=registers,
        spill_stores=stores,
        spill_loads=loads,
        stack=stack,
        launches=made,
        signature=compiled.signature,
        ptx=ptx,
        cubin=cubin,
        stages={name: handle.asm[name] for name in ("ttir", "ttgir", "llir") if name in handle.asm},
    )


def _used(cubin: bytes) -> tuple[int, int]:
    """Registers, and bytes of local memory, of a thread, as `cuobjdump` reads them off the code."""
    tool = needed("triton.knobs", "a kernel").nvidia.cuobjdump.path
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        text = subprocess.run([tool, "-res-usage", str(path)], capture_output=True, text=True, check=True).stdout
    found = _USED.search(text)
    if found is None:
        raise CatdiagError(f"cuobjdump says nothing of registers: {text.strip()[:200]!r}")
    return int(found[1]), int(found[2]) + int(found[4])


def _spilled(ptx: str, arch: int, metadata: Any) -> tuple[int, int]:
    """Bytes that a thread stores and loads since it has too few registers, as the assembler says."""
    tool = needed("triton.backends.nvidia.compiler", "a kernel").get_ptxas(arch).path
    fused = [] if metadata.enable_fp_fusion else ["--fmad=false"]
    extra = metadata.ptx_options.split() if metadata.ptx_options else []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.ptx"
        path.write_text(ptx, encoding="utf-8")
        command = [tool, "-lineinfo", *fused, "-v", *extra, f"--gpu-name=sm_{arch}{'a' if arch >= 90 else ''}"]
        said = subprocess.run(
            [*command, str(path), "-o", str(path.with_suffix(".cubin"))], capture_output=True, text=True, check=True
        ).stderr
    found = _SPILLED.search(said)
    return (int(found[1]), int(found[2])) if found else (0, 0)
