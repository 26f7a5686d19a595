"""Calls of launch functions that are recorded once and repeated: with a stand-in for Triton, on the CPU."""

from __future__ import annotations

import ctypes
import gc
import inspect
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from catdiag.runtime import kernel_launches
from catdiag.runtime.launch_cache import MOST, LaunchCache

torch = pytest.importorskip("torch")


def floats(pointer: Any, count: int) -> Any:
    """Numbers of fp32 where a pointer points, which is a tensor, or an address as a repeated launch gives it."""
    at = pointer if isinstance(pointer, int) else pointer.data_ptr()
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(at))


class Compiled:
    """A compiled kernel, which runs the function that it was compiled from."""

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        assert len(grid) == 3
        return lambda *args, stream: self.function(*args)


@dataclass
class Box:
    """A tensor descriptor."""

    base: Any
    block_shape: list[int]


class Kernel:
    """A kernel as Triton's are: a call looks at its arguments, compiles, and launches."""

    def __init__(self, function: Callable[..., None]) -> None:
        self.function, self.signature = function, inspect.signature(function)
        self.looked_at = 0

    def run(self, *args: Any, grid: Any, warmup: bool, num_warps: int = 4, **options: Any) -> Compiled:
        self.looked_at += 1
        self.function(*args, **options)
        return Compiled(self.function)

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., Any]:
        return lambda *args, **options: self.run(*args, grid=grid, warmup=False, **options)


def added(a: Any, b: Any, out: Any, n: int, scale: float, columns: bool) -> None:
    """Adds `scale·a + b` of n numbers to `out`; b of three columns lies column by column where that is said."""
    second = floats(b, n)
    floats(out, n)[:] += scale * floats(a.base, n) + (second.reshape(5, 3).T.ravel() if columns else second)


def doubled(t: Any, out: Any, n: int, by: float = 2) -> None:
    floats(out, n)[:] = by * floats(t, n)


@dataclass
class Example:
    """A launch function of two kernels, with a temporary array; `between` is what else it does."""

    between: Callable[..., Any] = lambda *arrays: None
    calls: int = 0

    def __post_init__(self) -> None:
        self.kernels = [Kernel(added), Kernel(doubled)]
        self.cache = LaunchCache(self.launch, self.kernels)

    def launch(self, a: Any, b: Any, scale: float, *, tile: int = 4) -> Any:
        self.calls += 1
        n = a.numel()
        memory = torch.zeros(256 + 4 * n, dtype=torch.uint8)
        part = memory[256:].view(torch.float32)
        self.between(a, b)
        first, second = self.kernels
        first[(1,)](Box(a, [tile]), b, part, n, scale=scale, columns=not b.is_contiguous(), num_warps=8)
        out = torch.empty(a.shape, dtype=a.dtype)
        second[(1, 2)](part, out, n)
        return out

    def right(self, a: Any, b: Any, scale: float, **options: Any) -> None:
        torch.testing.assert_close(self.cache(a, b, scale, **options), 2 * (scale * a + b))


def pair(rows: int = 3) -> tuple[Any, Any]:
    return torch.randn(rows, 5), torch.randn(rows, 5)


def test_a_call_on_arguments_of_the_same_kinds_is_repeated() -> None:
    example = Example()
    for _ in range(3):
        example.right(*pair(), 0.5)
    assert example.calls == 1 and [kernel.looked_at for kernel in example.kernels] == [1, 1]
    first, second = example.cache(*pair(), 0.5), example.cache(*pair(), 0.5)
    assert first.data_ptr() != second.data_ptr()


def test_other_shapes_strides_numbers_options_and_alignments_are_other_calls() -> None:
    example = Example()
    a, b = pair()
    shifted = torch.randn(16)[1:].view(3, 5)
    given = [(a, b, 0.5), (*pair(4), 0.5), (a, torch.randn(5, 3).T, 0.5), (a, b, 0.25), (a, shifted, 0.5)]
    for count, arguments in enumerate(given, 1):
        example.right(*arguments)
        example.right(*arguments)
        assert example.calls == count
    example.right(a, b, 0.5, tile=8)
    assert example.calls == len(given) + 1


def test_one_tensor_given_twice_does_not_stand_for_two() -> None:
    example = Example()
    a, b = pair()
    for _ in range(2):
        example.right(a, a, 0.5)
        example.right(a, b, 0.5)
        example.right(b, b, 0.5)
    assert example.calls == 2
    both = torch.randn(2, 3, 5)
    example.right(both[0], both[1], 0.5)  # of one storage
    example.right(a, b, 0.5)


LOOKS: list[Callable[..., Any]] = [
    lambda a, b: float(a[0, 0]), lambda a, b: torch.nonzero(a), lambda a, b: torch.cat([a, b]),
    lambda a, b: a.to("meta"),
]  # fmt: skip


@pytest.mark.parametrize("between", LOOKS)
def test_a_call_that_looks_at_numbers_or_lists_tensors_is_not_repeated(between: Callable[..., Any]) -> None:
    example = Example(between)
    for _ in range(3):
        example.right(*pair(), 0.5)
    assert example.calls == 3


def by_product(a: Any, b: Any) -> Any:
    out = torch.empty(3, 3, dtype=torch.float64)
    out.copy_(a @ b.T)
    return out


def by_parts(a: Any, b: Any) -> Any:
    sums, parts = torch.zeros(5), torch.empty(2, 5)
    parts[0].copy_(a.sum(0))
    parts[1].copy_(b[1])
    torch.sum(parts, 0, out=sums)
    return sums, a.permute(1, 0).reshape(15).clone()


def in_bytes(a: Any, b: Any) -> Any:
    memory = torch.empty(300, dtype=torch.uint8)
    part = memory.narrow(0, 256, 36).view(torch.float32).view(3, 3)
    torch.mm(a[:, 1:4], b[:, ::2], out=part)
    return part + 1


@pytest.mark.parametrize("launch", [by_product, by_parts, in_bytes])
@pytest.mark.parametrize("gradient", [False, True])
def test_operations_of_torch_are_repeated_on_other_tensors(launch: Callable[..., Any], gradient: bool) -> None:
    calls = []

    def counted(a: Any, b: Any) -> Any:
        calls.append(1)
        return launch(a, b)

    cache = LaunchCache(counted, [Kernel(doubled)])
    for _ in range(3):
        a, b = (t.requires_grad_(gradient) for t in pair())
        with torch.no_grad():
            torch.testing.assert_close(cache(a, b), launch(a, b), rtol=0, atol=0)
    assert len(calls) == 1


def test_a_kernel_on_a_view_of_an_argument_is_repeated() -> None:
    example = Example()

    def launch(a: Any, b: Any) -> Any:
        example.calls += 1
        out = torch.empty(4, 5)
        example.kernels[1][(1,)](b[1:].reshape(10), out, 10)
        example.kernels[1][(1,)](a[1:].reshape(10), out[2:], 10)
        return out

    cache = LaunchCache(launch, example.kernels)
    both = torch.randn(9, 5)
    for a, b in (pair(), pair(), (both[:3], both[3:6]), (both[6:], both[:3]), (both[2:5], both[2:5])):
        torch.testing.assert_close(cache(a, b), torch.cat([2 * b[1:], 2 * a[1:]]))
    # The addresses of both, in 16 bytes, differ for some of these.
    assert example.calls <= 4
    before = example.calls
    a, b = pair()
    torch.testing.assert_close(cache(a, b), torch.cat([2 * b[1:], 2 * a[1:]]))
    assert example.calls == before


def test_a_kernel_on_memory_from_elsewhere_is_not_repeated() -> None:
    example, table = Example(), torch.randn(5)

    def launch(a: Any) -> Any:
        example.calls += 1
        out = torch.empty(5)
        example.kernels[1][(1,)](table, out, 5)
        return out

    cache = LaunchCache(launch, example.kernels)
    for _ in range(2):
        torch.testing.assert_close(cache(torch.randn(6)), 2 * table)
    assert example.calls == 2


def test_what_follows_a_launch_that_failed_is_recorded() -> None:
    def fails(t: Any, out: Any, n: int) -> None:
        raise MemoryError

    failing, doubling = Kernel(fails), Kernel(doubled)

    def launch(a: Any) -> Any:
        out = torch.empty(5)
        with suppress(MemoryError):  # as launch functions do that try fewer stages
            failing[(1,)](a, out, 5)
        more = torch.zeros(5)
        doubling[(1,)](a, out, 5)
        return out, more

    cache = LaunchCache(launch, [failing, doubling])
    for _ in range(3):
        a = torch.randn(5)
        torch.testing.assert_close(cache(a), (2 * a, torch.zeros(5)))
    assert failing.looked_at == doubling.looked_at == 1


def test_errors_leave_nothing_behind_and_few_calls_are_remembered() -> None:
    example = Example()
    with pytest.raises(AttributeError):
        example.cache(torch.randn(3, 5), None, 0.5)
    with pytest.raises(ValueError, match="cannot reshape"):
        example.cache(torch.randn(4, 5), torch.randn(5, 4).T, 0.5)
    assert all("run" not in vars(kernel) for kernel in example.kernels)
    for k in range(MOST + 3):
        example.right(*pair(1), k + 0.5)
    assert len(example.cache._known) == MOST


def test_a_recording_keeps_no_tensor() -> None:
    example = Example()
    gc.disable()
    try:
        a, b = pair()
        out = example.cache(a, b, 0.5)
        kept = [weakref.ref(tensor) for tensor in (a, b, out)]
        del a, b, out
        assert [r() for r in kept] == [None] * 3
    finally:
        gc.enable()


def test_results_are_written_where_they_are_asked_for() -> None:
    def launch(a: Any, *, out: Any = None) -> Any:
        return torch.add(a, 1, out=out)

    cache, given, out = LaunchCache(launch, [Kernel(lambda: None)]), torch.randn(4), torch.empty(4)
    assert cache(given, out=out) is out
    torch.testing.assert_close(out, given + 1)


def test_a_call_of_which_a_profiler_is_to_be_told_is_not_repeated() -> None:
    example, watched = Example(), [False]
    example.cache.is_watched = lambda: watched[0]
    for _ in range(2):
        example.right(*pair(), 0.5)
    watched[0] = True
    example.right(*pair(), 0.5)
    assert example.calls == 2


def test_descriptors_are_encoded_once_for_each_address_and_launched_without_triton(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoded, launched = list[int](), list[tuple[Any, ...]]()

    def laid_out(descriptor: Any, meta: str) -> list[Any]:
        encoded.append(descriptor.base.data_ptr())
        return [(meta, encoded[-1]), *descriptor.block_shape]

    def around(launcher: Any, tensordesc_meta: list[str]) -> Callable[..., None]:
        return lambda *given: launcher(*given, tensordesc_meta)  # Triton's, which is passed by

    class Launcher:
        launch = staticmethod(around(lambda *given: launched.append(given), ["first", "second"]))
        global_scratch_size = profile_scratch_size = 0
        launch_cooperative_grid, launch_pdl = False, True

    driver = SimpleNamespace(
        CudaLauncher=Launcher, _BASE_ARGS_FORMAT=kernel_launches._BEFORE_ARGUMENTS, make_tensordesc_arg=laid_out
    )
    monkeypatch.setitem(sys.modules, kernel_launches._DRIVER, driver)
    a, b = torch.zeros(4), torch.zeros(4)
    compiled = SimpleNamespace(run=Launcher(), function="function", packed_metadata="packed")
    given = [7, Box(a, [2, 3]), b, Box(b, [4])]
    launch = kernel_launches.kernel_launch(
        compiled, (5, 1, 1), given, lambda t: kernel_launches.Address(0 if t is a else 1, 16)
    )
    encoded.clear()
    for _ in range(2):
        launch.run([], [1000, 2000], "stream")
    launch.run([], [3000, 2000], "stream")
    before = (5, 1, 1, "stream", "function", False, True, None, None, "packed", None, None, None)
    assert launched[0] == launched[1]
    assert launched[0] == (*before, 7, ("first", 1016), 2, 3, 2016, ("second", 2016), 4)
    assert launched[2] == (*before, 7, ("first", 3016), 2, 3, 2016, ("second", 2016), 4)
    assert encoded == [1016, 2016, 3016]
    Launcher.global_scratch_size = 1  # memory that Triton allocates for each launch
    with pytest.raises(TypeError, match="subscriptable"):
        kernel_launches.kernel_launch(compiled, (5, 1, 1), given, lambda t: kernel_launches.Address(0))
