"""Launches of a generated module that are made once for each shape, and then repeated on other tensors.

A launch function checks its arguments, works out sizes, strides, grids and what the copy engine can read, and Triton
looks at each argument again to find the kernel that it compiled. All of that depends only on shapes, strides, element
types, the alignment of pointers, and numbers. So the first call with such arguments is recorded: which arrays it
allocates, which it fills with zeros, and which compiled kernels it launches on which of these and of its arguments.
Later calls allocate, fill and launch the same.

A call that does anything else, such as a product by torch or a copy of rows that start where the copy engine does not
read, is not repeated: its launch function runs each time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from catdiag.runtime.kernel_launches import Address, KernelLaunch, hooks_are_set, kernel_launch
from catdiag.runtime.module_cache import needed

MOST = 64
"""Kinds of arguments that are remembered of a launch function; those with numbers that change may be many."""
_ALIGNMENT = 16
_NUMBERS = (bool, int, float)
_ONE_AT_A_TIME = threading.RLock()
"""Calls are recorded one after the other, since recording replaces what kernels run."""
_COMPILED_TAKES_CONSTANTS = (3, 4)
"""The version of Triton from which a compiled kernel is launched on all arguments, constants among them."""


@dataclass(frozen=True)
class TensorAllocation:
    """An array that a call allocates."""

    make: Callable[[], Any]

    def run(self, tensors: list[Any], addresses: list[int], stream: Any) -> None:
        """Allocates it."""
        made = self.make()
        tensors.append(made)
        addresses.append(made.data_ptr())


@dataclass(frozen=True)
class ZeroFill:
    """An array that the call allocated, by its number, which is filled with zeros."""

    place: int

    def run(self, tensors: list[Any], addresses: list[int], stream: Any) -> None:
        """Fills it."""
        tensors[self.place].zero_()


@dataclass(frozen=True)
class RecordedCall:
    """What a call does, in order, and what it gives: tensors by their numbers, or one."""

    steps: tuple[TensorAllocation | ZeroFill | KernelLaunch, ...]
    results: tuple[int, ...]
    single: bool

    def repeated(self, tensors: list[Any], addresses: list[int], stream: Any) -> Any:
        """The results for other tensors of the same kinds, which begin at these addresses."""
        for step in self.steps:
            step.run(tensors, addresses, stream)
        if self.single:
            return tensors[self.results[0]]
        return tuple([tensors[k] for k in self.results])


class NotRepeatable(Exception):
    """A call does what a recording does not have."""


def _no_stream(device: Any) -> None:
    """Of devices without streams."""


@dataclass
class LaunchCache:
    """A launch function, whose calls are recorded and repeated. `kernels` are those that it launches, of Triton;
    `stream_of` gives the current stream of a device, by its number, and `is_watched` whether someone is to be told of
    each launch, by Triton: then none is repeated."""

    launch: Callable[..., Any]
    kernels: Sequence[Any]
    stream_of: Callable[[Any], Any] = _no_stream
    is_watched: Callable[[], bool] = lambda: False
    _known: dict[Any, RecordedCall | None] = field(default_factory=dict)

    @classmethod
    def of(cls, launch: Callable[..., Any]) -> LaunchCache:
        """The cache of a function of a generated module. Raises CatdiagError without Triton."""
        triton = needed("triton", "launching a kernel")
        version = tuple(int(part) for part in triton.__version__.split(".")[:2])
        values = launch.__globals__.values() if version >= _COMPILED_TAKES_CONSTANTS else ()
        return cls(
            launch,
            [value for value in values if isinstance(value, triton.JITFunction)],
            lambda device: triton.runtime.driver.active.get_current_stream(device),
            lambda: hooks_are_set(triton),
        )

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The launch function, whose signature it has."""
        return self.launch

    @cached_property
    def _tensor(self) -> type:
        return needed("torch", "launching a kernel").Tensor  # type: ignore[no-any-return]

    def __call__(self, *arrays: Any, **options: Any) -> Any:
        """What the launch function gives."""
        tensor = self._tensor
        tensors: list[Any] = [a for a in arrays if isinstance(a, tensor)]
        if "out" in options or not self.kernels or not tensors or self.is_watched():
            return self.launch(*arrays, **options)
        addresses = [a.data_ptr() for a in tensors]
        numbers = [] if len(tensors) == len(arrays) else [(k, a) for k, a in enumerate(arrays) if type(a) in _NUMBERS]
        ids = [id(a) for a in tensors]
        key = (
            tuple(
                [
                    (a.shape, a.stride(), a.dtype, a.device, at % _ALIGNMENT)
                    for a, at in zip(tensors, addresses, strict=True)
                ]
            ),
            None if len(set(ids)) == len(ids) else tuple([ids.index(k) for k in ids]),  # which are one
            tuple([(k, type(a), a) for k, a in numbers]),
            tuple(options.items()),
        )
        found = self._known.get(key)
        if found is not None:
            return found.repeated(tensors, addresses, self.stream_of(tensors[0].device.index))
        known = len(tensors) + len(numbers) == len(arrays) and all(a.device == tensors[0].device for a in tensors)
        if not known or key in self._known or len(self._known) >= MOST:
            return self.launch(*arrays, **options)
        result, self._known[key] = self._recorded(tensors, arrays, options)
        return result

    def _recorded(
        self, tensors: Sequence[Any], arrays: Sequence[Any], options: Mapping[str, Any]
    ) -> tuple[Any, RecordedCall | None]:
        """What the launch function gives, and the recording of the call; None where it cannot be repeated."""
        recording = CallRecording(tensors)
        with _ONE_AT_A_TIME, _operations(recording), _launching(self.kernels, recording):
            result = self.launch(*arrays, **options)
        single = not isinstance(result, (tuple, list))
        try:
            results = tuple(recording.number(a) for a in ((result,) if single else result))
        except NotRepeatable:
            recording.failed = True
        recording.tensors.clear()  # the mode of the dispatcher, which has the recording, is freed late
        return result, None if recording.failed else RecordedCall(tuple(recording.steps), results, single)


class CallRecording:
    """A call on some tensors while it is recorded: its steps so far, and the tensors that there are. `failed` says that
    it does what a recording does not have, and `launching` that Triton runs."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        self.given = len(tensors)
        self.tensors = list(tensors)
        self.steps: list[TensorAllocation | ZeroFill | KernelLaunch] = []
        self.failed = self.launching = False

    def operation(self, name: str, is_view: bool, made: Any) -> None:
        """Records an operation of torch."""
        if name.startswith(("aten::empty", "aten::zeros")):
            self._allocated(made, zeros=name.startswith("aten::zeros"))
        elif name == "aten::zero_":
            self._attempted(lambda: self._filled(made))
        elif not is_view:
            self.failed = True

    def _allocated(self, made: Any, zeros: bool) -> None:
        torch = needed("torch", "launching a kernel")
        options = {"dtype": made.dtype, "device": made.device}
        make = partial(torch.empty, tuple(made.shape), **options)
        if not made.is_contiguous():
            make = partial(torch.empty_strided, tuple(made.shape), made.stride(), **options)
        self.steps.append(TensorAllocation(make))
        self.tensors.append(made)
        if zeros:
            self.steps.append(ZeroFill(len(self.tensors) - 1))

    def _filled(self, made: Any) -> ZeroFill:
        at = self.address(made)
        base = self.tensors[at.place]
        if at.offset or made.numel() * made.element_size() != base.numel() * base.element_size():
            raise NotRepeatable  # a part of an array
        return ZeroFill(at.place)

    def _attempted(self, step: Callable[[], ZeroFill | KernelLaunch]) -> None:
        try:
            self.steps.append(step())
        except (NotRepeatable, TypeError, AttributeError):
            self.failed = True

    def number(self, tensor: Any) -> int:
        """Which tensor of the call a tensor is. Raises NotRepeatable for others."""
        at = self.address(tensor)
        known = self.tensors[at.place]
        if at.offset or any(x != y for x, y in zip(_layout(tensor), _layout(known), strict=True)):
            raise NotRepeatable
        return at.place

    def address(self, tensor: Any) -> Address:
        """Where a tensor begins, which is one of the call, or a view of an array that it allocated. Raises
        NotRepeatable for others."""
        for place, known in enumerate(self.tensors):
            if tensor is known:
                return Address(place)
        for place, known in enumerate(self.tensors[self.given :], self.given):
            if tensor.untyped_storage()._cdata == known.untyped_storage()._cdata:
                return Address(place, tensor.data_ptr() - known.data_ptr())
        raise NotRepeatable

    def launched(self, kernel: Any, compiled: Any, grid: Sequence[int], args: Any, options: Any) -> None:
        """Records a launch of a kernel, which Triton compiled, on a grid, with arguments and options."""
        self._attempted(lambda: self._launch(kernel, compiled, grid, args, options))

    def _launch(self, kernel: Any, compiled: Any, grid: Sequence[int], args: Any, options: Any) -> KernelLaunch:
        named = {name: value for name, value in options.items() if name in kernel.signature.parameters}
        bound = kernel.signature.bind(*args, **named)
        bound.apply_defaults()
        whole = (*grid, 1, 1)[:3]
        return kernel_launch(compiled, whole, list(bound.arguments.values()), self.address)


def _layout(tensor: Any) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride(), tensor.dtype


def _operations(recording: CallRecording) -> Any:
    """A mode of torch's dispatcher that tells a recording what torch does."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Operations(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = func(*args, **(kwargs or {}))
            if not recording.launching:
                recording.operation(func._schema.name, func.is_view, made)
            return made

    return Operations()


@contextmanager
def _launching(kernels: Sequence[Any], recording: CallRecording) -> Iterator[None]:
    """Within it, launches of kernels by this thread are recorded, each with what Triton compiled for it."""
    thread = threading.get_ident()

    def run_of(kernel: Any, run: Callable[..., Any]) -> Callable[..., Any]:
        def recorded_run(*args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
            if threading.get_ident() != thread:
                return run(*args, grid=grid, warmup=warmup, **options)
            recording.launching = True
            compiled = run(*args, grid=grid, warmup=warmup, **options)
            recording.launching = False
            recording.launched(kernel, compiled, grid, args, options)
            return compiled

        return recorded_run

    for kernel in kernels:
        kernel.run = run_of(kernel, kernel.run)
    try:
        yield
    finally:
        for kernel in kernels:
            del kernel.run
