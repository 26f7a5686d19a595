"""A generated kernel as a function of torch tensors.

`compiled` imports the module's text and gives a `CompiledKernel`: called, it checks what it is given against the types
of the diagram, launches, and returns new tensors. It knows what it was derived from, so that
`catdiag.testing.assert_compiled` can compare it with that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from catdiag.category.diagram import Diagram, HasDiagram, diagram_of
from catdiag.category.types import size_value
from catdiag.execute.size_inference import shape_text, solve
from catdiag.runtime.machine_code import binaries, launches
from catdiag.runtime.module_cache import ModuleSource, SourceArgument, imported, launch_options, unseen
from catdiag.runtime.torch_operator import register
from catdiag.util.errors import CatdiagError, TypeMismatch

if TYPE_CHECKING:
    from catdiag.runtime.machine_code import Binary, RecordedLaunch

_SHORT = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}
_WHOLE = ("int64", "int32", "int16", "int8", "uint8")


class Tuning(Protocol):
    """How a few configurations did that were timed: see `catdiag.measure.tune.Tuned`."""

    @property
    def times_ms(self) -> tuple[float | None, ...]:
        """Milliseconds of each; None where it was not run."""

    @property
    def failures(self) -> tuple[str, ...]:
        """Why each was not run; empty where it was."""

    @property
    def best(self) -> int:
        """The place of the one that is taken."""


@dataclass(frozen=True, eq=False)
class CompiledKernel:
    """A kernel of a diagram, to be called on torch tensors in the order of the diagram's inputs.

    Inputs without axes are numbers. Tensors may have any strides; they are on one GPU, and of the types that the kernel
    was written for. What comes back is a new tensor, or a tuple of them, and nothing that it was given is changed.
    There is no derivative: a tensor that asks for one is refused.

    `code` is the generated module (its text, tiles, types), `module` the same imported, `diagram` what it was written
    from and `source` what that was derived from, where they are known. `options` are what is handed to the launch
    function beside the arrays: tiles, `num_warps` and `num_stages` that are not the module's own. `tuning` says how
    other tiles did, where they were timed.
    """

    code: ModuleSource
    module: ModuleType = field(repr=False)
    diagram: Diagram | None = field(default=None, repr=False)
    source: Diagram | None = field(default=None, repr=False)
    options: Mapping[str, int] = field(default_factory=dict)
    tuning: Tuning | None = field(default=None, repr=False)
    op: Any = field(init=False, repr=False)
    """The kernel as an operator of torch, registered (see `catdiag.runtime.torch_operator`)."""

    def __post_init__(self) -> None:
        # Now, since torch.compile, which may be what asks for it, cannot register one.
        object.__setattr__(self, "op", register(self))

    @property
    def __name__(self) -> str:
        """What the launch function is called."""
        return self.code.entry

    @property
    def text(self) -> str:
        """The source of the module, which needs nothing but torch and triton."""
        return self.code.text

    @property
    def tiles(self) -> dict[str, int]:
        """The tiles and blocks that it runs with, those that it takes by name."""
        return {name: self.options.get(name, value) for name, value in self.code.tiles.items()}

    def at(
        self, tiles: Mapping[str, int] | None = None, warps: int | None = None, stages: int | None = None
    ) -> CompiledKernel:
        """The same kernel with other tiles, warps or buffers. Raises SizeError for a tile that it does not have."""
        return replace(self, options={**self.options, **launch_options(self.code, tiles, warps, stages)})

    # -- running ---------------------------------------------------------------------------------------------

    def __call__(self, *arrays: Any, out: Any = None) -> Any:
        """Runs the kernel. `out` is a tensor to be written to, or a tuple of them, if not new ones.

        Raises TypeMismatch for a wrong number of inputs, types or devices, SizeError for a wrong rank or length, each
        with the input's name and the axis, and CatdiagError where there is no GPU or a derivative is asked for.
        """
        import torch

        if torch.compiler.is_compiling():
            if out is not None:
                raise CatdiagError("out= goes without torch.compile, which takes functions that change nothing")
            return self.op(*arrays)
        values, device, sizes = self._checked(arrays)
        options: dict[str, Any] = {**sizes, **self.options}
        if out is not None:
            options["out"] = out
        launch = self._launch
        if device is None or device.type != "cuda" or device.index == torch.cuda.current_device():
            return launch(*values, **options)
        with torch.cuda.device(device):  # Triton launches on the current one
            return launch(*values, **options)

    @cached_property
    def _launch(self) -> Any:
        return getattr(self.module, self.code.entry)

    @cached_property
    def _known(self) -> dict[Any, dict[str, int]]:
        """The shapes, types and devices that were found right, with the sizes that the launch function asks for."""
        return {}

    def _checked(self, arrays: tuple[Any, ...]) -> tuple[list[Any], Any, dict[str, int]]:
        """What the launch function takes, the device that it is on (None of numbers alone), the sizes it asks for."""
        import torch

        inputs = self.code.inputs
        if len(arrays) != len(inputs):
            names = ", ".join(a.name for a in inputs)
            raise TypeMismatch(f"{self.code.entry} was given {len(arrays)} inputs: expected {len(inputs)}, {names}")
        values, key, device = [], [], None
        for argument, value in zip(inputs, arrays, strict=True):
            if not argument.ty.axes:
                values.append(_number(argument, value))
                continue
            if not isinstance(value, torch.Tensor):
                raise TypeMismatch(f"input {argument.name!r} is a {type(value).__name__}: expected a torch tensor")
            if value.requires_grad and torch.is_grad_enabled():
                raise CatdiagError(
                    f"input {argument.name!r} asks for a derivative, and the kernel has none: call it under "
                    "torch.no_grad(), or on detached tensors"
                )
            values.append(value)
            device = device or value.device
            key.append((value.shape, value.dtype, value.device))
        place = tuple(key)
        if place not in self._known:
            self._known[place] = self._judge(values)
        return values, device, self._known[place]

    def _judge(self, values: list[Any]) -> dict[str, int]:
        first: tuple[SourceArgument, Any] | None = None
        for argument, value in zip(self.code.inputs, values, strict=True):
            if not argument.ty.axes:
                continue
            name, wanted = argument.name, argument.dtype
            got = str(value.dtype).removeprefix("torch.")
            if got != wanted and not (argument.ty.element == "int" and got in _WHOLE):
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
        given = {name: size for name, size in self.options.items() if name not in tiles}
        if self.diagram is not None:
            return solve(self.diagram, shapes, given)
        inputs = self.code.inputs
        return shape_text([a.name for a in inputs], [a.ty for a in inputs], shapes, given)

    # -- without running ---------------------------------------------------------------------------------------

    def binaries(self, sizes: Mapping[str, int], **options: Any) -> tuple[Binary, ...]:
        """The machine code of its kernels at some sizes, no GPU needed (see
        `catdiag.runtime.machine_code.binaries`)."""
        return binaries(self.code, self._completed(sizes), **{**self._asked, **options})

    def launches(self, sizes: Mapping[str, int], **options: Any) -> tuple[RecordedLaunch, ...]:
        """What it launches at some sizes, no GPU needed (see `catdiag.runtime.machine_code.launches`)."""
        return launches(self.code, self._completed(sizes), **{**self._asked, **options})

    def _completed(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Sizes, and those that follow from them."""
        if self.diagram is None:
            return dict(sizes)
        inputs = zip(self.diagram.input_names, self.diagram.dom, strict=True)
        scalars = {name for name, ty in inputs if not ty.axes}
        known = {name: n for name, n in sizes.items() if name not in scalars}
        shapes = [tuple(size_value(axis.size, known) for axis in ty.axes) for ty in self.diagram.dom]
        return {**solve(self.diagram, shapes, known), **sizes}

    @property
    def _asked(self) -> dict[str, Any]:
        return {
            "tiles": self.tiles,
            "warps": self.options.get("num_warps"),
            "stages": self.options.get("num_stages"),
        }


NO_GPU = (
    "torch finds no GPU here: what needs none is .text, .binaries(sizes) and .launches(sizes), and running it slowly "
    "on the processor with TRITON_INTERPRET=1 set before Python starts"
)


def compiled(
    code: ModuleSource,
    diagram: Diagram | HasDiagram | None = None,
    source: Diagram | HasDiagram | None = None,
    *,
    tiles: Mapping[str, int] | None = None,
    warps: int | None = None,
    stages: int | None = None,
) -> CompiledKernel:
    """A generated module as a function of torch tensors, registered as an operator of torch.

    `diagram` is what the module was written from, `source` what that was derived from: tests and errors use them. A
    text is imported once in a process. Raises CatdiagError where torch or triton is not installed, or the text cannot
    be kept; SizeError for a tile that the module does not have.
    """
    options = launch_options(code, tiles, warps, stages)
    form, begun = (None if d is None else diagram_of(d) for d in (diagram, source))
    return CompiledKernel(code, _loaded(code.text, code.entry), form, begun, options)


@lru_cache(maxsize=256)
def _loaded(text: str, entry: str) -> ModuleType:
    return imported(text, entry)


def interpreted(module: ModuleType) -> bool:
    """Whether a module's kernels are run by Triton's interpreter, on any device."""
    return any(type(value).__name__ == "InterpretedFunction" for value in vars(module).values())


def require_device(module: ModuleType, name: str, device: Any) -> None:
    """Raises CatdiagError, or TypeMismatch naming the input, unless kernels can run on a device."""
    import torch

    if device.type == "cuda" or interpreted(module):
        return
    if not torch.cuda.is_available():
        raise CatdiagError(f"input {name!r} is on {device}, and {NO_GPU}")
    raise TypeMismatch(f"input {name!r} is on {device}: expected a tensor on the GPU, {name}.cuda()")


def _number(argument: SourceArgument, value: Any) -> Any:
    """An input without axes as a number of Python."""
    if hasattr(value, "item") and not getattr(value, "shape", ()):
        value = value.item()
    kinds: dict[str, tuple[tuple[type, ...], str]] = {
        "int": ((int,), "an integer"),
        "bool": ((bool,), "True or False"),
    }
    wanted, said = kinds.get(argument.ty.element, ((int, float), "a number"))
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        raise TypeMismatch(f"input {argument.name!r} is {type(value).__name__} {str(value)[:40]}: expected {said}")
    return value
