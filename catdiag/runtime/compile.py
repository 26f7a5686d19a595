"""A generated kernel as a function of torch tensors.

`compiled` imports a module's text and gives a `CompiledKernel`. A call checks its arguments against the types of the
diagram, launches the kernels, and returns new tensors. A `CompiledKernel` has the diagram that it was derived from, so
that `catdiag.testing.assert_compiled` can compare the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from catdiag.category.diagram import Diagram, HasDiagram, diagram_of
from catdiag.category.types import INTEGER_BYTES, size_value
from catdiag.execute.size_inference import sizes_from_shapes, solve
from catdiag.runtime.autograd import without_gradient
from catdiag.runtime.cuda_graph import GraphedLaunch
from catdiag.runtime.dlpack import is_jax_array, on_tensors
from catdiag.runtime.launch_cache import LaunchCache
from catdiag.runtime.machine_code import binaries, launches
from catdiag.runtime.module_cache import ModuleSource, SourceArgument, imported, launch_options, unseen
from catdiag.runtime.torch_operator import NAMESPACE, register
from catdiag.util.errors import CatdiagError, TypeMismatch

if TYPE_CHECKING:
    from catdiag.rewrite.differentiate.forward_and_backward import ForwardAndBackward
    from catdiag.runtime.machine_code import Binary, RecordedLaunch

_SHORT = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}


class Tuning(Protocol):
    """The measurements of several configurations: see `catdiag.measure.tune.Tuned`."""

    @property
    def times_ms(self) -> tuple[float | None, ...]:
        """The time of each configuration in milliseconds; None for one that was not run."""

    @property
    def failures(self) -> tuple[str, ...]:
        """For each configuration, why it was not run; "" for one that was."""

    @property
    def best(self) -> int:
        """The position of the fastest one, which is used."""


@dataclass(frozen=True)
class TrainingKernels:
    """The kernels of a forward and of a backward pass."""

    passes: ForwardAndBackward
    forward: CompiledKernel
    backward: CompiledKernel

    @cached_property
    def op(self) -> Any:
        """The forward pass as an operator of torch, of which autograd knows the backward pass."""
        return register(self.forward, self.passes, self.backward.op)


@dataclass(frozen=True, eq=False)
class CompiledKernel:
    """A kernel of a diagram, called on torch tensors in the order of the diagram's inputs.

    Inputs without axes are numbers. Tensors may have any strides. They are on one GPU and have the element types for
    which the kernel was written. The result is a new tensor, or a tuple of new tensors; arguments are not changed.
    Where an input requires a gradient, the forward pass of `gradient` runs in place of the kernel, and autograd runs
    the backward pass; a kernel without it refuses such inputs. Under `torch.autocast` inputs are cast to the types for
    which the kernel was written.

    - `code`: the generated module (text, tiles, types); `module`: the same, imported.
    - `diagram`: the diagram from which it was generated; `source`: the program from which that was derived; None where
      not known.
    - `options`: keyword arguments of the launch function that differ from the module's defaults: tiles, `num_warps`,
      `num_stages`.
    - `tuning`: the measurements of other configurations, if it was tuned.
    - `functions`: for each uninterpreted box a function of tensors, by the name of the box.
    - `graph`: whether calls replay a CUDA graph of the launches (see `catdiag.runtime.cuda_graph`). Calls with `out`,
      calls on the CPU, and calls while a graph is being recorded launch the kernels.
    """

    code: ModuleSource
    module: ModuleType = field(repr=False)
    diagram: Diagram | None = field(default=None, repr=False)
    source: Diagram | None = field(default=None, repr=False)
    options: Mapping[str, int] = field(default_factory=dict)
    tuning: Tuning | None = field(default=None, repr=False)
    graph: bool = False
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict, repr=False)
    gradient: Callable[[tuple[int, ...]], TrainingKernels] | None = field(default=None, repr=False)
    """The passes of the gradient by some inputs (numbers), compiled when they are first needed."""
    _operator_name: Callable[[tuple[int, ...]], str] = field(init=False, repr=False)
    """The name of the operator that is differentiated by some inputs, which `torch.compile` takes for a constant."""
    op: Any = field(init=False, repr=False)
    """The kernel as a registered custom operator of torch (see `catdiag.runtime.torch_operator`)."""

    def __post_init__(self) -> None:
        # Registered here, since a call under torch.compile cannot register an operator; those with gradients are by a
        # function that torch.compile runs where it traces.
        object.__setattr__(self, "op", register(self))
        constant = import_module("torch").compiler.assume_constant_result(
            lambda wrt: self._operator_by(wrt)._schema.name.partition("::")[2]
        )
        object.__setattr__(self, "_operator_name", constant)

    @property
    def __name__(self) -> str:
        """The name of the launch function."""
        return self.code.entry

    @property
    def text(self) -> str:
        """The source of the module, which needs torch and triton only."""
        return self.code.text

    @property
    def tiles(self) -> dict[str, int]:
        """The lengths of its tiles and blocks in entries, by name; tiles of 1 are compiled in and not listed."""
        return {name: self.options.get(name, value) for name, value in self.code.tiles.items()}

    def at(
        self,
        tiles: Mapping[str, int] | None = None,
        warps: int | None = None,
        stages: int | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> CompiledKernel:
        """The same kernel with other tiles, warps or pipeline stages. Of `sizes` it takes those that no input shows:
        heads and their width, of an input over `(h d)`. Raises SizeError for an unknown tile, and a size that it needs
        and `sizes` lacks."""
        hidden = {} if sizes is None else unseen(self.code, self._launch, sizes)
        return replace(self, options={**self.options, **hidden, **launch_options(self.code, tiles, warps, stages)})

    # -- running ---------------------------------------------------------------------------------------------

    def __call__(self, *arrays: Any, out: Any = None) -> Any:
        """Runs the kernel. With `out`, a tensor or a tuple of tensors, results are written there. On arrays of JAX the
        results are such, too.

        Raises TypeMismatch for a wrong number of inputs, an element type or a device, and SizeError for a wrong rank or
        length, naming the input and the axis. Raises CatdiagError without a GPU, and for inputs that require a gradient
        by which the kernel has none.
        """
        import torch

        if any(not isinstance(a, (torch.Tensor, int, float)) and is_jax_array(a) for a in arrays):
            return on_tensors(partial(self, out=out), arrays)
        arrays = self._autocast(arrays)
        if torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in arrays):
            if out is not None:
                raise CatdiagError("out= is given, and an input requires a gradient: expected no out=")
            return self._differentiated(arrays)
        if torch.compiler.is_compiling():
            if out is not None:
                raise CatdiagError(
                    "out= is given under torch.compile: expected no out=, since the kernel's operator changes no tensor"
                )
            return self.op(*arrays)
        return self.execute(*arrays) if out is None else self._executed(arrays, {"out": out})

    def execute(self, *arrays: Any) -> Any:
        """Runs the kernel on tensors and numbers, whatever is differentiated by them: what its operator does."""
        return self._executed(arrays, {})

    def _executed(self, arrays: tuple[Any, ...], further: Mapping[str, Any]) -> Any:
        import torch

        values, device, options = self._checked(arrays)
        options = {**options, **further}
        if device is None or device.type != "cuda" or device.index == torch.cuda.current_device():
            return self._run(values, device, options)
        with torch.cuda.device(device):  # Triton launches on the current device
            return self._run(values, device, options)

    def _autocast(self, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, under `torch.autocast` in the types for which the kernel was written."""
        import torch

        device = next((a.device.type for a in arrays if isinstance(a, torch.Tensor)), None)
        if device is None or not torch.is_autocast_enabled(device) or len(arrays) != len(self.code.inputs):
            return arrays
        return tuple(
            a.to(getattr(torch, argument.dtype))
            if isinstance(a, torch.Tensor) and argument.ty.axes and a.is_floating_point()
            else a
            for a, argument in zip(arrays, self.code.inputs, strict=True)
        )

    def _differentiated(self, arrays: tuple[Any, ...]) -> Any:
        """The results of the forward pass, of which autograd knows the backward pass."""
        import torch

        wrt = tuple([k for k, a in enumerate(arrays) if isinstance(a, torch.Tensor) and a.requires_grad])
        if torch.compiler.is_compiling():
            found = getattr(getattr(torch.ops, NAMESPACE), self._operator_name(wrt))(*arrays)
        else:
            values = self._with_numbers(arrays)
            if wrt not in self._operators:
                self._checked(arrays)  # before its passes are planned, which takes long
            try:  # the operator checks what it is given
                found = self._operator_by(wrt)(*values)
            except (TypeError, RuntimeError):
                self._checked(arrays)  # says what is wrong in the words of the program, where that is an argument
                raise
        count = len(self.code.outputs)
        results = found[:count] if isinstance(found, (tuple, list)) else (found,)
        return results[0] if count == 1 else tuple(results)

    def _with_numbers(self, arrays: tuple[Any, ...]) -> Sequence[Any]:
        """The arguments, with numbers where the kernel takes such."""
        numbers = self._numbers
        if all(isinstance(arrays[k], (int, float)) for k in numbers if k < len(arrays)):
            return arrays
        return [_number(self.code.inputs[k], a) if k in numbers else a for k, a in enumerate(arrays)]

    @cached_property
    def _numbers(self) -> tuple[int, ...]:
        """The inputs without axes."""
        return tuple(k for k, argument in enumerate(self.code.inputs) if not argument.ty.axes)

    def _operator_by(self, wrt: tuple[int, ...]) -> Any:
        """The operator that is differentiated by some inputs. Raises CatdiagError where the kernel has no gradient."""
        if wrt in self._operators:
            return self._operators[wrt]
        for k in wrt:
            argument = self.code.inputs[k] if k < len(self.code.inputs) else None
            if argument is None:
                raise CatdiagError(f"argument {k + 1} requires a gradient: expected {len(self.code.inputs)} arguments")
            if self.gradient is None or not argument.ty.axes:
                raise CatdiagError(without_gradient(argument.name, []))
        if self.gradient is not None:
            self._operators[wrt] = self.gradient(wrt).op
        return self._operators[wrt]

    @cached_property
    def _operators(self) -> dict[tuple[int, ...], Any]:
        """The operators that are differentiated, by the numbers of the inputs."""
        return {}

    def _run(self, values: Sequence[Any], device: Any, options: dict[str, Any]) -> Any:
        """Launches the kernels, or replays a graph of their launches."""
        import torch

        if not self.graph or "out" in options or device is None or device.type != "cuda":
            return self._launch(*values, **options)
        if torch.cuda.is_current_stream_capturing():
            return self._launch(*values, **options)
        place = tuple(sorted(options.items()))
        if place not in self._graphs:
            self._graphs[place] = GraphedLaunch(partial(self._launch, **options))
        return self._graphs[place](values, torch.cuda.current_stream().cuda_stream)

    @cached_property
    def _graphs(self) -> dict[Any, GraphedLaunch]:
        """The recorded launches, by the sizes and options that are given by name."""
        return {}

    @cached_property
    def _launch(self) -> Any:
        launch = getattr(self.module, self.code.entry)
        return partial(launch, functions=self.functions) if self.functions else LaunchCache.of(launch)

    @cached_property
    def _known(self) -> dict[Any, tuple[Any, dict[str, int]]]:
        """A cache of arguments that were checked, by shapes, types and devices, and types of numbers: the device, and
        what the launch function takes by name."""
        return {}

    def _checked(self, arrays: tuple[Any, ...]) -> tuple[Sequence[Any], Any, dict[str, int]]:
        """The launch function's arguments, their device (None if all are numbers), and what it takes by name."""
        import torch

        tensor = torch.Tensor
        place = tuple([(a.shape, a.dtype, a.device) if isinstance(a, tensor) else type(a) for a in arrays])
        if place in self._known:
            return arrays, *self._known[place]
        inputs = self.code.inputs
        if len(arrays) != len(inputs):
            names = ", ".join(a.name for a in inputs)
            raise TypeMismatch(f"{self.code.entry} was given {len(arrays)} inputs: expected {len(inputs)}, {names}")
        values, device = [], None
        for argument, value in zip(inputs, arrays, strict=True):
            if not argument.ty.axes:
                values.append(_number(argument, value))
                continue
            if not isinstance(value, tensor):
                raise TypeMismatch(f"input {argument.name!r} is a {type(value).__name__}: expected a torch tensor")
            values.append(value)
            device = device or value.device
        options = {**self._check(values), **self.options}
        if all(a is b for a, b in zip(arrays, values, strict=True)):
            self._known[place] = device, options
        return values, device, options

    def _check(self, values: list[Any]) -> dict[str, int]:
        """Checks element types, devices and shapes; gives the sizes that the launch function takes by name."""
        first: tuple[SourceArgument, Any] | None = None
        for argument, value in zip(self.code.inputs, values, strict=True):
            if not argument.ty.axes:
                continue
            name, wanted = argument.name, argument.dtype
            got = str(value.dtype).removeprefix("torch.")
            whole = argument.ty.element == "int" and got in INTEGER_BYTES
            # What is written for 8 bits may rely on their range, as factors of products do.
            if got != wanted and not (whole and INTEGER_BYTES[wanted] > 1):
                other = f", or compile with dtype={_SHORT[got]!r}" if got in _SHORT and wanted in _SHORT else ""
                raise TypeMismatch(
                    f"input {name!r} is of {got}: expected {wanted}, which the kernel was written for: "
                    f"{name}.to(torch.{wanted}){other}"
                )
            first = first or (argument, value.device)
            if value.device != first[1]:
                raise TypeMismatch(
                    f"input {name!r} is on {value.device}, and {first[0].name!r} on {first[1]}: expected one device"
                )
        sizes = self.sizes(*values)
        if first is not None:
            require_device(self.module, first[0].name, first[1])
        return unseen(self.code, self._launch, {**sizes, **self.options})

    def sizes(self, *arrays: Any) -> dict[str, int]:
        """The size of each axis, from the shapes of tensors. Raises SizeError for a wrong rank or length."""
        shapes = [tuple(getattr(a, "shape", ())) for a in arrays]
        tiles = {*self.code.tiles, "num_warps", "num_stages"}
        sizes = {name: size for name, size in self.options.items() if name not in tiles}
        if self.diagram is not None:
            return solve(self.diagram, shapes, sizes)
        inputs = self.code.inputs
        return sizes_from_shapes([a.name for a in inputs], [a.ty for a in inputs], shapes, sizes)

    # -- without running ---------------------------------------------------------------------------------------

    def binaries(self, sizes: Mapping[str, int], **options: Any) -> tuple[Binary, ...]:
        """The compiled binaries of its kernels at some sizes; no GPU is needed.

        See `catdiag.runtime.machine_code.binaries`.
        """
        return binaries(self.code, self._completed(sizes), **{**self._launch_options, **options})

    def launches(self, sizes: Mapping[str, int], **options: Any) -> tuple[RecordedLaunch, ...]:
        """Its launches at some sizes; no GPU is needed (see `catdiag.runtime.machine_code.launches`)."""
        return launches(self.code, self._completed(sizes), **{**self._launch_options, **options})

    def _completed(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The sizes, and all others that follow from them."""
        if self.diagram is None:
            return dict(sizes)
        inputs = zip(self.diagram.input_names, self.diagram.dom, strict=True)
        scalars = {name for name, ty in inputs if not ty.axes}
        known = {name: n for name, n in sizes.items() if name not in scalars}
        shapes = [tuple(size_value(axis.size, known) for axis in ty.axes) for ty in self.diagram.dom]
        return {**solve(self.diagram, shapes, known), **sizes}

    @property
    def _launch_options(self) -> dict[str, Any]:
        return {
            "tiles": self.tiles,
            "warps": self.options.get("num_warps"),
            "stages": self.options.get("num_stages"),
        }


NO_GPU = (
    "torch finds no GPU here: .text, .binaries(sizes) and .launches(sizes) need none. To run the kernel slowly on the "
    "CPU, set TRITON_INTERPRET=1 before Python starts"
)


def compiled(
    code: ModuleSource,
    diagram: Diagram | HasDiagram | None = None,
    source: Diagram | HasDiagram | None = None,
    *,
    tiles: Mapping[str, int] | None = None,
    warps: int | None = None,
    stages: int | None = None,
    graph: bool = False,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    gradient: Callable[[tuple[int, ...]], TrainingKernels] | None = None,
) -> CompiledKernel:
    """A generated module as a function of torch tensors, registered as a custom operator of torch.

    `diagram` is the diagram from which the module was generated, and `source` the program from which that was derived;
    tests and errors use them. `tiles`, `warps` and `stages` default to the module's. With `graph`, calls replay a CUDA
    graph of the launches. `functions` are those of uninterpreted boxes, by name. `gradient` gives the passes of its
    gradient by some inputs. A text is imported once per process.
    Raises CatdiagError if torch or triton is not installed, or the text cannot be written to the cache, and SizeError
    for an unknown tile.
    """
    options = launch_options(code, tiles, warps, stages)
    derived, original = (None if d is None else diagram_of(d) for d in (diagram, source))
    return CompiledKernel(
        code, _loaded(code.text, code.entry), derived, original, options, graph=graph,
        functions=functions or {}, gradient=gradient,
    )  # fmt: skip


@lru_cache(maxsize=256)
def _loaded(text: str, entry: str) -> ModuleType:
    return imported(text, entry)


def interpreted(module: ModuleType) -> bool:
    """Whether a module's kernels run in Triton's interpreter, which works on any device."""
    return any(type(value).__name__ == "InterpretedFunction" for value in vars(module).values())


def require_device(module: ModuleType, name: str, device: Any) -> None:
    """Raises TypeMismatch for a device on which kernels cannot run, naming the input; CatdiagError without any GPU."""
    import torch

    if device.type == "cuda" or interpreted(module):
        return
    if not torch.cuda.is_available():
        raise CatdiagError(f"input {name!r} is on {device}, and {NO_GPU}")
    raise TypeMismatch(f"input {name!r} is on {device}: expected a tensor on the GPU, {name}.cuda()")


def _number(argument: SourceArgument, value: Any) -> Any:
    """An input without axes as a Python number. Raises TypeMismatch for another type."""
    if hasattr(value, "item") and not getattr(value, "shape", ()):
        value = value.item()
    kinds: dict[str, tuple[tuple[type, ...], str]] = {
        "int": ((int,), "an integer"),
        "bool": ((bool,), "True or False"),
    }
    wanted, text = kinds.get(argument.ty.element, ((int, float), "a number"))
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        raise TypeMismatch(f"input {argument.name!r} is {type(value).__name__} {str(value)[:40]}: expected {text}")
    return value
