"""Launches of a generated module that are made once for each shape, and then repeated on other tensors.

A launch function checks its arguments, works out sizes, strides, grids and what the copy engine can read, and Triton
looks at each argument again to find the kernel that it compiled. All of that depends only on shapes, strides, element
types, the alignment of pointers, and numbers. So the first call with such arguments is recorded: which arrays it
allocates, which compiled kernels it launches, and which operations of torch it runs (zeros, sums, products, copies of
rows that start where the copy engine does not read), on which of these arrays and of its arguments, or views of them.
Later calls allocate, launch and run the same.

A call that looks at numbers in arrays, or makes arrays of which they decide the shape, is not repeated: its launch
function runs each time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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
class TensorView:
    """A tensor of a recorded call: where it begins, and how it lies; `whole` says that this is as the tensor lies of
    which it is a view."""

    at: Address
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    whole: bool

    def among(self, tensors: Sequence[Any]) -> Any:
        """It, where these are the tensors of the call."""
        base, offset = tensors[self.at.place], self.at.offset
        if self.whole:
            return base
        if base.dtype != self.dtype:  # bytes, of which it is a part
            base, offset = base[offset : offset + self._bytes].view(self.dtype), 0
        return base.as_strided(self.shape, self.strides, base.storage_offset() + offset // self.dtype.itemsize)

    @property
    def _bytes(self) -> int:
        """The bytes from its first element to the end of its last."""
        steps = zip(self.shape, self.strides, strict=True)
        return int(self.dtype.itemsize * (1 + sum((n - 1) * step for n, step in steps))) if all(self.shape) else 0


@dataclass(frozen=True)
class TorchOperation:
    """An operation of torch, with its arguments, some of which are tensors of the call. `makes` says that its result is
    a further one."""

    operation: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    makes: bool

    def run(self, tensors: list[Any], addresses: list[int], stream: Any) -> None:
        """Runs it."""
        given = [a.among(tensors) if isinstance(a, TensorView) else a for a in self.arguments]
        options = {n: a.among(tensors) if isinstance(a, TensorView) else a for n, a in self.options.items()}
        made = self.operation(*given, **options)
        if self.makes:
            tensors.append(made)
            addresses.append(made.data_ptr())


@dataclass(frozen=True)
class RecordedCall:
    """What a call does, in order, and what it gives: several tensors, or one."""

    steps: tuple[TensorAllocation | TorchOperation | KernelLaunch, ...]
    results: tuple[TensorView, ...]
    single: bool

    def repeated(self, tensors: list[Any], addresses: list[int], stream: Any) -> Any:
        """The results for other tensors of the same kinds, which begin at these addresses."""
        for step in self.steps:
            step.run(tensors, addresses, stream)
        if self.single:
            return self.results[0].among(tensors)
        return tuple([view.among(tensors) for view in self.results])


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
            results = tuple(recording.view(a) for a in ((result,) if single else result))
        except NotRepeatable:
            recording.failed = True
        recording.forget()  # the mode of the dispatcher, which has the recording, is freed late
        return result, None if recording.failed else RecordedCall(tuple(recording.steps), results, single)


class CallRecording:
    """A call on some tensors while it is recorded: its steps so far, and the tensors that there are. `failed` says that
    it does what a recording does not have, and `launching` that Triton runs."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        self.given = len(tensors)
        self.tensors = list(tensors)
        self.views: list[tuple[Any, Address]] = []
        self.steps: list[TensorAllocation | TorchOperation | KernelLaunch] = []
        self.failed = self.launching = False

    def forget(self) -> None:
        """Keeps no tensor any longer."""
        self.tensors.clear()
        self.views.clear()

    def operation(self, operation: Any, args: tuple[Any, ...], options: Mapping[str, Any], made: Any) -> None:
        """Records an operation of torch, and what it made."""
        if operation.is_view:
            self._viewed(args[0], made if isinstance(made, (tuple, list)) else [made])
        elif operation._schema.name.startswith("aten::empty"):
            self._allocated(made)
        else:
            self._attempted(lambda: self._operation(operation, args, options, made))

    def _viewed(self, base: Any, made: Sequence[Any]) -> None:
        """Notes views of a tensor, if it is one of the call."""
        with suppress(NotRepeatable):
            at = self.address(base)
            self.views += [(view, Address(at.place, at.offset + _between(base, view))) for view in made]

    def _allocated(self, made: Any) -> None:
        torch = needed("torch", "launching a kernel")
        options = {"dtype": made.dtype, "device": made.device}
        make = partial(torch.empty, tuple(made.shape), **options)
        if not made.is_contiguous():
            make = partial(torch.empty_strided, tuple(made.shape), made.stride(), **options)
        self.steps.append(TensorAllocation(make))
        self.tensors.append(made)

    def _operation(
        self, operation: Any, args: tuple[Any, ...], options: Mapping[str, Any], made: Any
    ) -> TorchOperation:
        torch = needed("torch", "launching a kernel")
        depends = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
        if not isinstance(made, torch.Tensor) or made.device != self.tensors[0].device or depends & {*operation.tags}:
            raise NotRepeatable  # what the launch function does next may depend on numbers

        def recorded(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return self.view(value)
            if isinstance(value, (tuple, list)) and any(isinstance(v, torch.Tensor) for v in value):
                raise NotRepeatable
            return value

        given = tuple(recorded(a) for a in args), {name: recorded(a) for name, a in options.items()}
        makes = all(made is not a for a in (*args, *options.values()))
        if makes:
            if any(r.alias_info is not None for r in operation._schema.returns):
                raise NotRepeatable
            self.tensors.append(made)
        return TorchOperation(operation, *given, makes)

    def _attempted(self, step: Callable[[], TorchOperation | KernelLaunch]) -> None:
        try:
            self.steps.append(step())
        except (NotRepeatable, TypeError, AttributeError):
            self.failed = True

    def view(self, tensor: Any) -> TensorView:
        """What a tensor of the call is. Raises NotRepeatable for others."""
        at = self.address(tensor)
        known, layout = self.tensors[at.place], _layout(tensor)
        whole = not at.offset and layout == _layout(known)
        bytes_of_one = known.element_size() == 1 and known.dim() == 1 and known.is_contiguous()
        if known.dtype != tensor.dtype and not bytes_of_one:
            raise NotRepeatable
        return TensorView(at, layout[0], layout[1], layout[2], whole)

    def address(self, tensor: Any) -> Address:
        """Where a tensor begins, which is one of the call, or a view of one. Raises NotRepeatable for others."""
        for place, known in enumerate(self.tensors):
            if tensor is known:
                return Address(place)
        for place, known in enumerate(self.tensors[self.given :], self.given):
            if tensor.untyped_storage()._cdata == known.untyped_storage()._cdata:
                return Address(place, tensor.data_ptr() - known.data_ptr())
        # Arguments may have one storage, in which other calls have them elsewhere. So views of them are those that were
        # seen to be made of them, though torch may have made another object of each since.
        found = {at for view, at in self.views if view is tensor} or {
            at for view, at in self.views
            if view.data_ptr() == tensor.data_ptr() and _layout(view) == _layout(tensor)
        }  # fmt: skip
        if len(found) != 1:
            raise NotRepeatable
        return found.pop()

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
    return tuple(tensor.shape), tensor.stride(), tensor.dtype


def _between(base: Any, view: Any) -> int:
    """The bytes from the first element of a tensor to that of a view of it."""
    return int(view.data_ptr() - base.data_ptr())


def _operations(recording: CallRecording) -> Any:
    """A mode of torch's dispatcher that tells a recording what torch does."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Operations(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = func(*args, **(kwargs or {}))
            if not recording.launching:
                recording.operation(func, args, kwargs or {}, made)
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
            try:
                compiled = run(*args, grid=grid, warmup=warmup, **options)
            finally:
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
