"""The launches of a generated module without torch, triton or a GPU: its launch function is run on stand-ins.

The text's imports are left out and its kernels replaced by what records their launches; tensors have shapes, strides
and a type, and no data. That is enough for a function that looks at shapes and launches, as generated ones do; what
else it asks of torch or triton is said to be missing. `catdiag.runtime.machine_code.launches` does the same with torch
itself.

>>> import catdiag as cd
>>> from catdiag.codegen.triton.triton_module import module
>>> total = cd.algorithm("q x -> q", name="total")(lambda A: cd.sum(A, "x"))
>>> made = module(total.stream("x").group("q").diagram, {"g_q": 64, "s_x": 64}, "fp32")
>>> launch, = record_launches(made, {"q": 1000, "x": 100})
>>> launch.kernel, launch.grid, launch.options
('_total', (16, 1, 1), {'num_warps': 4, 'num_stages': 2})
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from catdiag.category.types import size_value
from catdiag.runtime.abstract_interpreter.tile_values import Pointer
from catdiag.runtime.machine_code import ArrayArgument, RecordedLaunch
from catdiag.runtime.module_cache import ModuleSource, unseen
from catdiag.util.errors import CatdiagError, SizeError
from catdiag.util.python_syntax import parse


@dataclass(frozen=True)
class Boxed:
    """A tensor that is read in boxes of a shape: what stands for a tensor descriptor of triton."""

    base: Tensor
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]

    @staticmethod
    def from_tensor(tensor: Tensor, block_shape: Sequence[int], layout: object = None) -> Boxed:
        """As triton's descriptor is made of a tensor, or Gluon's."""
        return Boxed(tensor, tensor.shape, tensor.strides, block_shape)


@dataclass(frozen=True)
class Device:
    """Where tensors without data are."""

    type: str = "meta"
    index: int | None = None


class Type(str):
    """A type of elements by torch's name."""

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        digits = "".join(c for c in self.split("_")[0] if c.isdigit())
        return int(digits) // 8 if digits else 1


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor without data."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Type
    device: Device = Device()

    @staticmethod
    def of(shape: Sequence[int], dtype: str, device: Device | None = None) -> Tensor:
        """Row by row."""
        strides = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
        return Tensor(tuple(int(n) for n in shape), tuple(strides), Type(dtype), device or Device())

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    @property
    def is_cuda(self) -> bool:
        """It stands for one on a GPU."""
        return True

    def stride(self, axis: int | None = None) -> Any:
        """One stride, or all."""
        return self.strides if axis is None else self.strides[axis]

    def size(self, axis: int | None = None) -> Any:
        """One length, or all."""
        return self.shape if axis is None else self.shape[axis]

    def narrow(self, axis: int, start: int, length: int) -> Tensor:
        """A part along an axis, in the same place."""
        shape = list(self.shape)
        shape[axis] = length
        return Tensor(tuple(shape), self.strides, self.dtype, self.device)

    def copy_(self, other: Tensor) -> Tensor:
        """There are no data."""
        return self

    def data_ptr(self) -> int:
        """Where it would begin: as well aligned as torch makes tensors."""
        return 0

    def numel(self) -> int:
        """How many entries it has."""
        return math.prod(self.shape)

    def element_size(self) -> int:
        """Bytes of an entry."""
        return self.dtype.itemsize


class _Torch:
    """What launch functions ask of torch: types by name, tensors that are made, and the generation of the chip."""

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
        raise CatdiagError(f"the launch function asks for torch.{name}, which is not known without torch")


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
    """What launch functions ask of Gluon: layouts of boxes, which say nothing here."""
    layout = SimpleNamespace(get_default_for=lambda shape, kind: None)
    return SimpleNamespace(bfloat16="bfloat16", float16="float16", NVMMASharedLayout=layout)


def record_launches(
    source: ModuleSource,
    sizes: Mapping[str, int],
    options: Mapping[str, int] | None = None,
    scalars: Mapping[str, float] | None = None,
    generation: int | None = None,
) -> tuple[RecordedLaunch, ...]:
    """The launches that a module makes at sizes, in order; `options` are tiles, `num_warps` and `num_stages`.

    Without the `generation` of a chip (8: Ampere, 9: Hopper) they are those of one that copies boxes of arrays. Raises
    SizeError where the launch function refuses what it is given, CatdiagError where it asks for what is not known here.
    """
    given = {**sizes, **(scalars or {})}
    lengths = {name: int(value) for name, value in {**given, **sizes}.items()}
    values: list[Any] = []
    device = Device() if generation is None else Device("cuda", 0)
    for argument in source.inputs:
        if argument.ty.axes:
            shape = [size_value(axis.size, lengths) for axis in argument.ty.axes]
            values.append(Tensor.of(shape, argument.dtype, device))
        else:
            values.append(given.get(argument.name, {"int": 1000, "bool": True}.get(argument.ty.element, 0.5)))
    return launches_on(source, values, lengths, options, generation)


def launches_on(
    source: ModuleSource,
    values: Sequence[Any],
    lengths: Mapping[str, int],
    options: Mapping[str, Any] | None = None,
    generation: int | None = None,
) -> tuple[RecordedLaunch, ...]:
    """The launches that a module makes of these inputs, each a `Tensor` or a number; `lengths` has the sizes that no
    input shows. Raises as `record_launches` does."""
    calls: list[RecordedLaunch] = []
    namespace = _namespace(source.text, calls, generation)
    try:
        launch = namespace[source.entry]
        launch(*values, **unseen(source, launch, dict(lengths)), **(options or {}))
    except ValueError as error:
        raise SizeError(f"{source.entry} refuses what it is given: {error}") from error
    except (TypeError, AttributeError, KeyError, NameError) as error:
        raise CatdiagError(f"{source.entry} cannot be run without torch: {error}") from error
    return tuple(calls)


def _namespace(text: str, calls: list[RecordedLaunch], generation: int | None) -> dict[str, Any]:
    """The names of a module whose kernels record their launches."""
    tree = parse(text)
    kernels: dict[str, list[str]] = {}
    body: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom, ast.Try)):  # in `try`, imports of what may be missing
            continue
        if isinstance(node, ast.If):  # kernels of what may be missing
            kernels.update({n.name: _parameters(n) for n in node.body if isinstance(n, ast.FunctionDef)})
            continue
        if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(d) for d in node.decorator_list):
            kernels[node.name] = [a.arg for a in node.args.args]
            continue
        body.append(node)
    namespace: dict[str, Any] = {
        "functools": functools,
        "math": math,
        "torch": _Torch(generation),
        "triton": _triton(),
        "TensorDescriptor": Boxed,
        "tl": SimpleNamespace(constexpr=lambda v: v),
        "gluon": True,
        "gl": _gluon(),
        "Boxes": Boxed,
    }
    namespace.update({name: _KernelStub(name, tuple(names), calls) for name, names in kernels.items()})
    exec(compile(ast.Module(body, []), "<generated>", "exec", dont_inherit=True), namespace)
    return namespace


def _parameters(node: ast.FunctionDef) -> list[str]:
    return [a.arg for a in node.args.args]


@dataclass(frozen=True)
class _KernelStub:
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
                    n: Pointer(v.base.dtype, tuple(v.block_shape), names.get(id(v.base), n))
                    for n, v in bound.items()
                    if isinstance(v, Boxed)
                }
            )
            options = {n: v for n, v in named.items() if n not in self.parameters}
            self.calls.append(RecordedLaunch(self.name, (first, second, third), shown, options))

        return run
