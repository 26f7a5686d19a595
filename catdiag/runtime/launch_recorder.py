"""The launches of a generated module without torch, triton or a GPU: its launch function runs on mock objects.

Only the part of the module that runs on the CPU is executed (`Module.host`), with stubs for its kernels that record
launches. Tensors have a
shape, strides and an element type, and no data. This is enough for a function that reads shapes and launches, as
generated ones do. Anything else that it needs of torch or triton is an error. `catdiag.runtime.machine_code.launches`
does the same with the real torch.

>>> import catdiag as cd
>>> from catdiag.codegen.triton.triton_module import module
>>> total = cd.algorithm("q x -> q", name="total")(lambda A: cd.sum(A, "x"))
>>> made = module(total.stream("x").group("q").diagram, {"g_q": 64, "s_x": 64}, "fp32")
>>> launch, = record_launches(made, {"q": 1000, "x": 100})
>>> launch.kernel, launch.grid, launch.options
('_total', (16, 1, 1), {'num_warps': 4, 'num_stages': 2})
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, SimpleNamespace
from typing import Any

from catdiag.category.types import size_value
from catdiag.codegen.triton.generated_module import Module
from catdiag.runtime.abstract_interpreter.tile_values import Pointer
from catdiag.runtime.machine_code import ArrayArgument, RecordedLaunch
from catdiag.runtime.module_cache import unseen
from catdiag.util.errors import CatdiagError, SizeError


@dataclass(frozen=True)
class Boxed:
    """A mock tensor descriptor: a tensor that the copy engine reads in blocks of a shape."""

    base: Tensor
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]

    @staticmethod
    def from_tensor(tensor: Tensor, block_shape: Sequence[int], layout: object = None) -> Boxed:
        """The constructor of Triton's and Gluon's descriptors."""
        return Boxed(tensor, tensor.shape, tensor.strides, block_shape)


@dataclass(frozen=True)
class Device:
    """The device of mock tensors."""

    type: str = "meta"
    index: int | None = None


class Type(str):
    """An element type, by torch's name."""

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        digits = "".join(c for c in self.split("_")[0] if c.isdigit())
        return int(digits) // 8 if digits else 1


@dataclass(frozen=True, eq=False)
class Tensor:
    """A mock tensor: a shape, strides (in elements) and an element type, without data."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Type
    device: Device = Device()
    permuted: Tensor | None = None
    """The tensor of which it is a permutation, if it is one."""

    @staticmethod
    def of(shape: Sequence[int], dtype: str, device: Device | None = None) -> Tensor:
        """A contiguous tensor in row-major order."""
        strides = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
        return Tensor(tuple(int(n) for n in shape), tuple(strides), Type(dtype), device or Device())

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def is_cuda(self) -> bool:
        """True: it stands for a tensor on a GPU."""
        return True

    def stride(self, axis: int | None = None) -> Any:
        """One stride, or all of them."""
        return self.strides if axis is None else self.strides[axis]

    def size(self, axis: int | None = None) -> Any:
        """The length of one axis, or of all."""
        return self.shape if axis is None else self.shape[axis]

    def narrow(self, axis: int, start: int, length: int) -> Tensor:
        """A slice along an axis, with the same strides."""
        shape = list(self.shape)
        shape[axis] = length
        return Tensor(tuple(shape), self.strides, self.dtype, self.device)

    def select(self, axis: int, place: int) -> Tensor:
        """The entries at a position along an axis."""
        shape, strides = ((*of[:axis], *of[axis + 1 :]) for of in (self.shape, self.strides))
        return Tensor(shape, strides, self.dtype, self.device, self)

    def view(self, kind: Type | Sequence[int]) -> Tensor:
        """The same bytes as elements of another type, or in another shape."""
        if not isinstance(kind, Type):
            return Tensor.of(kind, self.dtype, self.device)
        (length,) = self.shape
        return Tensor.of((length * self.dtype.itemsize // kind.itemsize,), kind, self.device)

    def permute(self, order: Sequence[int]) -> Tensor:
        """The same entries with the axes in another order."""
        shape, strides = ([of[k] for k in order] for of in (self.shape, self.strides))
        return Tensor(tuple(shape), tuple(strides), self.dtype, self.device, self)

    def unflatten(self, axis: int, sizes: Sequence[int]) -> Tensor:
        """The same entries with one axis as several."""
        strides = [self.strides[axis] * math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
        shape = (*self.shape[:axis], *sizes, *self.shape[axis + 1 :])
        return Tensor(shape, (*self.strides[:axis], *strides, *self.strides[axis + 1 :]), self.dtype, self.device)

    def reshape(self, shape: Sequence[int]) -> Tensor:
        """A contiguous tensor of another shape: what torch gives of a contiguous one."""
        return Tensor.of(shape, self.dtype, self.device)

    def copy_(self, other: Tensor) -> Tensor:
        """Copies nothing, since there are no data."""
        return self

    def zero_(self) -> Tensor:
        """The same tensor, cleared."""
        return self

    def data_ptr(self) -> int:
        """The address 0: as well aligned as the addresses of torch."""
        return 0

    def numel(self) -> int:
        """The number of entries."""
        return math.prod(self.shape)

    def element_size(self) -> int:
        """The bytes of an entry."""
        return self.dtype.itemsize


class _Torch:
    """A mock of torch for launch functions: element types, allocations, and the generation of the chip."""

    version = SimpleNamespace(hip=None)

    def __init__(self, generation: int | None) -> None:
        self.cuda = SimpleNamespace(get_device_capability=lambda device=None: (generation, 0))

    def __getattr__(self, name: str) -> Any:
        if name in ("empty", "zeros", "full"):
            return lambda shape, *_, dtype="float32", device=None, **__: Tensor.of(shape, dtype, device)
        if name == "empty_like":
            return lambda tensor, dtype=None, **__: Tensor.of(tensor.shape, dtype or tensor.dtype, tensor.device)
        if name == "Tensor":
            return Tensor
        if name.startswith(("float", "bfloat", "int", "uint", "bool")):
            return Type(name)
        raise CatdiagError(
            f"the launch function uses torch.{name}, which the launch recorder does not have: install torch, and use "
            "catdiag.runtime.machine_code.launches"
        )


def _triton() -> SimpleNamespace:
    return SimpleNamespace(
        cdiv=lambda a, b: -(-a // b),
        set_allocator=lambda function: None,
        next_power_of_2=lambda n: 1 << (int(n) - 1).bit_length() if n > 0 else 1,
        __version__="3.6.0",
        OutOfResources=MemoryError,
        knobs=SimpleNamespace(runtime=SimpleNamespace(interpret=False)),
    )


def _gluon() -> SimpleNamespace:
    """A mock of Gluon for launch functions: shared-memory layouts, which are not needed to record launches."""
    layout = SimpleNamespace(get_default_for=lambda shape, kind: None)
    return SimpleNamespace(bfloat16="bfloat16", float16="float16", NVMMASharedLayout=layout)


def record_launches(
    source: Module,
    sizes: Mapping[str, int],
    options: Mapping[str, int] | None = None,
    scalars: Mapping[str, float] | None = None,
    generation: int | None = None,
) -> tuple[RecordedLaunch, ...]:
    """The launches that a module makes at some sizes, in order.

    `options` are tiles, `num_warps` and `num_stages` other than the module's defaults; `scalars` are the values of
    inputs without axes. `generation` is the chip's (8: Ampere, 9: Hopper); without one, the chip is taken to have a
    copy engine (TMA).

    Raises SizeError if the launch function refuses its arguments, and CatdiagError if it uses something of torch or
    triton that the recorder does not have.
    """
    numbers = {**sizes, **(scalars or {})}
    lengths = {name: int(value) for name, value in {**numbers, **sizes}.items()}
    values: list[Any] = []
    device = Device() if generation is None else Device("cuda", 0)
    for argument in source.inputs:
        if argument.ty.axes:
            shape = [size_value(axis.size, lengths) for axis in argument.ty.axes]
            values.append(Tensor.of(shape, argument.dtype, device))
        else:
            values.append(numbers.get(argument.name, {"int": 1000, "bool": True}.get(argument.ty.element, 0.5)))
    return launches_on(source, values, lengths, options, generation)


def launches_on(
    source: Module,
    values: Sequence[Any],
    lengths: Mapping[str, int],
    options: Mapping[str, Any] | None = None,
    generation: int | None = None,
) -> tuple[RecordedLaunch, ...]:
    """The launches that a module makes for given inputs, each a `Tensor` or a number.

    `lengths` gives the sizes that no input shows. Raises the errors of `record_launches`.
    """
    calls: list[RecordedLaunch] = []
    namespace = _namespace(source, calls, generation)
    try:
        launch = namespace[source.entry]
        launch(*values, **unseen(source, launch, dict(lengths)), **(options or {}))
    except ValueError as error:
        raise SizeError(f"{source.entry} refuses its arguments: {error}") from error
    except (TypeError, AttributeError, KeyError, NameError) as error:
        raise CatdiagError(f"{source.entry} cannot be run without torch: {error}") from error
    finally:
        namespace.clear()  # its functions hold it, and would live until cycles are collected
    return tuple(calls)


def _namespace(source: Module, calls: list[RecordedLaunch], generation: int | None) -> dict[str, Any]:
    """The namespace of the part of a module that runs on the CPU, with stubs for its kernels that record launches."""
    namespace: dict[str, Any] = {
        "functools": functools,
        "math": math,
        "torch": _Torch(generation),
        "warnings": SimpleNamespace(warn=lambda *words, **how: None),  # that a launch warns of matters where it runs
        "triton": _triton(),
        "TensorDescriptor": Boxed,
        "gluon": True,
        "gl": _gluon(),
        "Boxes": Boxed,
    }
    for name, function in source.code.functions.items():
        namespace[name] = _KernelStub(name, tuple(p.name for p in function.parameters), calls)
    exec(_compiled(source.host), namespace)
    for call in ("_product", "_called", "_add_up"):  # what launches no kernel of the module's trees
        namespace[call] = lambda *arrays: None
    namespace["_parts"] = lambda sums, count: (Tensor.of((count, *sums.shape), sums.dtype, sums.device), sums.numel())
    return namespace


def _name_of(tensor: Tensor, names: Mapping[int, str], otherwise: str) -> str:
    """The name of the argument that a tensor is, or is a permutation of."""
    found: Tensor | None = tensor
    while found is not None:
        if id(found) in names:
            return names[id(found)]
        found = found.permuted
    return otherwise


@lru_cache(maxsize=64)
def _compiled(host: str) -> CodeType:
    return compile(host, "<generated>", "exec", dont_inherit=True)


@dataclass(frozen=True)
class _KernelStub:
    """A stub for a kernel that appends its launches to `calls`."""

    name: str
    parameters: tuple[str, ...]
    calls: list[RecordedLaunch]

    def __getitem__(self, grid: Any) -> Any:
        def run(*args: Any, **named: Any) -> None:
            bound = dict(zip(self.parameters, args)) | {n: v for n, v in named.items() if n in self.parameters}
            counts = [int(n) for n in (grid(bound) if callable(grid) else grid)]
            first, second, third = (*counts, 1, 1, 1)[:3]
            shown = {
                n: ArrayArgument(v.dtype, v.shape, v.strides) if isinstance(v, Tensor) else v for n, v in bound.items()
            }
            names = {id(v): n for n, v in bound.items() if isinstance(v, Tensor)}
            shown.update(
                {
                    n: Pointer(v.base.dtype, tuple(v.block_shape), _name_of(v.base, names, n))
                    for n, v in bound.items()
                    if isinstance(v, Boxed)
                }
            )
            options = {n: v for n, v in named.items() if n not in self.parameters}
            self.calls.append(RecordedLaunch(self.name, (first, second, third), shown, options))

        return run
