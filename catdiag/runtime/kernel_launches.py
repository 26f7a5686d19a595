"""A compiled kernel, launched again on other tensors of the same kinds.

Triton's own launch makes a record for hooks, whether there are any or not, and encodes each tensor descriptor anew for
the copy engine: tens of microseconds, in Python. Here the arguments of a launch are laid out once, as the C function
takes them that Triton compiles for a kernel, and only what differs is put in: the stream, where tensors begin, and
descriptors by where their tensors begin. An encoded descriptor says where its tensor begins and how it lies, and
nothing of what is in it. So it holds for whatever tensor of that shape begins there later.

The C function is Triton's own affair. A launch that does not look as expected goes through Triton.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

REMEMBERED = 256
"""Encoded descriptors that are remembered of one argument."""
_DRIVER = "triton.backends.nvidia.driver"
_BEFORE_ARGUMENTS = "iiiKKppOOOOOO"
"""What the C function takes before a kernel's arguments, as Triton writes it: the grid, the stream, the function, two
options, two arrays for temporary results, what its compilation says, and what hooks are given, and two hooks."""
_STREAM = 3
"""The position of the stream among these."""


@dataclass(frozen=True)
class Address:
    """Where a tensor of a recorded call begins: so many bytes after the first element of an argument, or of what the
    call allocated, by its number among both."""

    place: int
    offset: int = 0


@dataclass(frozen=True)
class BaseAddress:
    """What a tensor descriptor of a repeated call points to: all that is asked of its tensor."""

    address: int

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self.address


@dataclass(frozen=True)
class DescriptorParts:
    """A tensor descriptor of a recorded call: its class, and its fields but for its tensor."""

    kind: type
    fields: Mapping[str, Any]

    @classmethod
    def of(cls, descriptor: Any) -> DescriptorParts:
        """Those of a descriptor."""
        return cls(type(descriptor), {name: x for name, x in vars(descriptor).items() if name != "base"})

    def at(self, address: int) -> Any:
        """The descriptor of a tensor that begins elsewhere, which is not checked again."""
        made: Any = object.__new__(self.kind)
        made.__dict__.update(self.fields, base=BaseAddress(address))
        return made


@dataclass(frozen=True)
class AddressedArgument:
    """An argument of a launch that depends on where a tensor begins: what `make` gives of its address, which is
    remembered."""

    position: int
    base: Address
    make: Callable[[int], Any]
    known: dict[int, Any] = field(default_factory=dict)

    def at(self, address: int) -> Any:
        """The argument for a tensor that begins there."""
        found = self.known.get(address)
        if found is None:
            if len(self.known) >= REMEMBERED:
                self.known.clear()
            found = self.known[address] = self.make(address)
        return found


@dataclass(frozen=True)
class KernelLaunch:
    """A kernel that is launched by a call of `start` on `arguments`, with the stream and what depends on where tensors
    begin in its places among them."""

    start: Callable[..., Any]
    arguments: list[Any]
    stream: int
    pointers: tuple[tuple[int, int, int], ...]
    """The position of each pointer, the number of its tensor, and the bytes between."""
    descriptors: tuple[AddressedArgument, ...]

    def run(self, tensors: list[Any], addresses: list[int], stream: Any) -> None:
        """Launches the kernel on the tensors of a call, by where these begin."""
        arguments = self.arguments.copy()
        arguments[self.stream] = stream
        for k, place, offset in self.pointers:
            arguments[k] = addresses[place] + offset
        for descriptor in self.descriptors:
            base = descriptor.base
            arguments[descriptor.position] = descriptor.at(addresses[base.place] + base.offset)
        self.start(*arguments)


@dataclass(frozen=True)
class _LaunchLayout:
    """How a launch is made: by `start`, on what is `before` the arguments of the kernel, these, and what is `after`,
    with the stream in its place. `laid_out` gives what a descriptor, by its number, becomes among the arguments: first
    what depends on where its tensor begins."""

    start: Callable[..., Any]
    before: list[Any]
    after: list[Any]
    stream: int
    laid_out: Callable[[Any, int], list[Any]]


def kernel_launch(
    compiled: Any, grid: Sequence[int], arguments: Sequence[Any], address: Callable[[Any], Address]
) -> KernelLaunch:
    """The launch of a kernel that Triton compiled, on a grid, with the arguments of a call; `address` says which tensor
    of the call one is. Raises what that raises."""
    layout = _by_c_function(compiled, grid) or _by_triton(compiled, grid)
    made, pointers, descriptors = layout.before, list[tuple[int, int, int]](), list[AddressedArgument]()
    for value in arguments:
        if hasattr(value, "untyped_storage"):
            at = address(value)
            pointers.append((len(made), at.place, at.offset))
            made.append(None)
        elif hasattr(value, "block_shape"):
            make = partial(_first, layout, DescriptorParts.of(value), len(descriptors))
            _, *constant = layout.laid_out(value, len(descriptors))
            descriptors.append(AddressedArgument(len(made), address(value.base), make))
            made += [None, *constant]
        else:
            made.append(value)
    made += layout.after
    return KernelLaunch(layout.start, made, layout.stream % len(made), tuple(pointers), tuple(descriptors))


def _first(layout: _LaunchLayout, parts: DescriptorParts, number: int, address: int) -> Any:
    return layout.laid_out(parts.at(address), number)[0]


def _by_triton(compiled: Any, grid: Sequence[int]) -> _LaunchLayout:
    """A launch as Triton makes it."""
    launch = compiled[grid]
    return _LaunchLayout(
        lambda *given: launch(*given[:-1], stream=given[-1]), [], [None], -1, lambda descriptor, number: [descriptor]
    )


def _by_c_function(compiled: Any, grid: Sequence[int]) -> _LaunchLayout | None:
    """A launch by the C function of a compiled kernel; None where that is not as expected, or takes memory for
    temporary results."""
    driver = sys.modules.get(_DRIVER)
    run = getattr(compiled, "run", None)
    if driver is None or not isinstance(run, driver.CudaLauncher) or driver._BASE_ARGS_FORMAT != _BEFORE_ARGUMENTS:
        return None
    if run.global_scratch_size or run.profile_scratch_size:
        return None
    known: Mapping[str, Any] = {"launcher": run.launch}
    if inspect.isfunction(run.launch):  # around the C function, since there are descriptors
        known = inspect.getclosurevars(run.launch).nonlocals
    launch, described = known.get("launcher"), known.get("tensordesc_meta") or ()
    if launch is None:
        return None
    return _LaunchLayout(
        launch,
        [
            *grid,
            None,
            compiled.function,
            run.launch_cooperative_grid,
            run.launch_pdl,
            None,
            None,
            compiled.packed_metadata,
            None,
            None,
            None,
        ],
        [],
        _STREAM,
        lambda descriptor, number: driver.make_tensordesc_arg(descriptor, described[number]),
    )


def hooks_are_set(triton: Any) -> bool:
    """Whether someone is to be told of each launch: a profiler of Triton's, say."""
    runtime = triton.knobs.runtime
    enter, leave = runtime.launch_enter_hook, runtime.launch_exit_hook
    return bool(getattr(enter, "calls", enter) or getattr(leave, "calls", leave))
