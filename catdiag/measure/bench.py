"""Benchmarks: a kernel against other implementations, in one run. All are checked first, then timed.

Each contestant is a function of the inputs. A contestant that cannot be built, raises an error, or gives a wrong result
is listed with the reason and is not timed: only correct implementations are compared. Timing is in interleaved rounds
(A B C, A B C, …), so that a change of clocks affects all in the same way.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from catdiag.codegen.torch_reference import function_of
from catdiag.measure.bench_case import BenchCase, KernelSource
from catdiag.measure.device_timer import Call, Clock, Events, interleaved
from catdiag.measure.output_check import Reference, check, inputs_of, poison, poisoned_outputs, reference
from catdiag.runtime.module_cache import imported, needed
from catdiag.util.errors import CatdiagError

OURS = "catdiag"
COMPILED = "torch.compile"
_CACHES = 3.0
"""Calls rotate over sets of inputs, together this many times as large as the cache, so that none stays in it."""
_MOST_SETS = 16

Function = Callable[..., Any]


@dataclass(frozen=True)
class Contestant:
    """An implementation of a case: `build` gives the function, which takes the inputs in order.

    `out` says that the function takes `out=` tensors for the results. They are filled with NaN for the check.
    `predicted_s` is the time model's prediction for a kernel, in seconds.
    """

    name: str
    build: Callable[[], Function]
    out: bool = False
    predicted_s: float | None = None


@dataclass
class BenchResult:
    """The result of a contestant: its time in milliseconds (median and quartiles) and its error, or why it has none.

    `error` is ‖out − ref‖ / ‖ref‖ against the float64 reference.
    """

    name: str
    median_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    error: float | None = None
    failure: str = ""
    peak: int = 0
    """The most bytes that were allocated while it ran, without its inputs; 0 where not known."""
    predicted_ms: float | None = None
    """The time model's prediction for a kernel, without what a launch costs the host."""


@dataclass
class BenchRow:
    """A case with the results of its contestants.

    `flops` are floating point operations of contractions, `bytes` the compulsory bytes, both of one call; `seconds` is
    the time of the whole comparison.
    """

    case: str
    group: str
    operator: str
    sizes: Mapping[str, int]
    dtype: str
    flops: float
    bytes: float
    results: list[BenchResult] = field(default_factory=list)
    about: str = ""
    seconds: float = 0.0

    def result(self, name: str) -> BenchResult | None:
        """The result of the contestant of that name."""
        return next((r for r in self.results if r.name == name), None)

    @staticmethod
    def of(data: Mapping[str, Any]) -> BenchRow:
        """The row from plain values, as from JSON."""
        return BenchRow(**{**data, "results": [BenchResult(**r) for r in data["results"]]})


class FailedContestant(CatdiagError):
    """A contestant (`.name`) failed (`.failure`) so that the GPU is unusable in this process."""

    def __init__(self, name: str, failure: str) -> None:
        super().__init__(f"{name} left the GPU unusable in this process: {failure}", "")
        self.name, self.failure = name, failure


@dataclass(frozen=True)
class BenchDevice:
    """The device: PyTorch's name of it, its clock, the bytes of its cache, the bytes that a reference may allocate."""

    device: str
    clock: Clock
    cache: int = 0
    budget_bytes: float = 2.0**30

    def fresh(self) -> None:
        """Clears torch.compile's caches, which stop compiling after too many recompilations, and frees memory."""
        if "torch._dynamo" in sys.modules:
            sys.modules["torch._dynamo"].reset()
        if self.device == "cuda":
            import torch

            gc.collect()
            torch.cuda.empty_cache()

    def peak_bytes(self, reset: bool = False) -> int:
        """The most bytes of tensors since the last reset; with `reset`, the bytes of tensors now."""
        if self.device != "cuda":
            return 0
        import torch

        torch.cuda.synchronize()
        if reset:
            torch.cuda.reset_peak_memory_stats()
        return int(torch.cuda.max_memory_allocated())

    def alive(self) -> bool:
        """Whether the device is usable; after an access out of bounds it is not, in this process."""
        if self.device != "cuda":
            return True
        import torch

        try:
            torch.cuda.synchronize()
        except RuntimeError:
            return False
        return True

    @staticmethod
    def gpu() -> BenchDevice:
        """The GPU of this machine. Raises CatdiagError if PyTorch is not installed or finds none."""
        torch = torch_with_gpu()
        properties = torch.cuda.get_device_properties(0)
        return BenchDevice("cuda", Events(), int(properties.L2_cache_size), float(properties.total_memory) / 4)


def torch_with_gpu() -> Any:
    """The module `torch`, if it finds a GPU. Raises CatdiagError, saying what is missing."""
    torch: Any = needed("torch", "a comparison on a GPU")
    if not torch.cuda.is_available():
        raise CatdiagError(
            f"no GPU: PyTorch {torch.__version__} finds no CUDA device here. All but running kernels works without "
            "one: catdiag derive OP --on h200",
            "",
        )
    return torch


def versions() -> dict[str, str]:
    """The versions on which measurements depend: GPU, driver, PyTorch, Triton, CUDA, cuDNN, Python."""
    import platform
    import subprocess

    torch = torch_with_gpu()
    found = {"GPU": str(torch.cuda.get_device_name(0)), "PyTorch": str(torch.__version__)}
    try:
        lines = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        ).stdout.split()
        found["driver"] = lines[0] if lines else "unknown"
    except (OSError, subprocess.TimeoutExpired):
        found["driver"] = "unknown"
    spec = importlib.util.find_spec("triton")
    found["Triton"] = str(importlib.import_module("triton").__version__) if spec else "none"
    found["CUDA"] = str(torch.version.cuda)
    found["cuDNN"] = str(torch.backends.cudnn.version())
    found["Python"] = platform.python_version()
    return found


# -- contestants --------------------------------------------------------------------------------------------


def of_kernels(case: BenchCase) -> list[Contestant]:
    """The kernels of a case: the time model's first choice, then those with other tiles; or one that says why none."""
    if not case.kernels:
        return [Contestant(OURS, _refusing(case.refused or "no kernel was generated"))]
    names = [OURS, *(f"{OURS}, {kernel.about or f'choice {k}'}" for k, kernel in enumerate(case.kernels[1:], 2))]
    return [
        Contestant(name, _making(kernel), True, kernel.predicted_s)
        for name, kernel in zip(names, case.kernels, strict=True)
    ]


def _refusing(why: str) -> Callable[[], Function]:
    def make() -> Function:
        raise CatdiagError(why, "")

    return make


def _making(kernel: KernelSource) -> Callable[[], Function]:
    def make() -> Function:
        function = getattr(imported(kernel.text, kernel.entry), kernel.entry)

        def run(*inputs: Any, **further: Any) -> Any:
            return function(*inputs, **kernel.options, **further)

        return run

    return make


def torch_reference_of(case: BenchCase, compiler: Callable[[Function], Function] | None = None) -> Contestant:
    """The reference program of the case, compiled by `torch.compile` (or by `compiler`)."""

    def make() -> Function:
        import functools

        function = function_of(case.text, case.entry)
        if case.keywords:
            function = functools.partial(function, **case.keywords)
        if compiler is not None:
            return compiler(function)
        import torch

        compiled: Function = torch.compile(function, dynamic=False)
        return compiled

    return Contestant(COMPILED, make)


# -- a case -------------------------------------------------------------------------------------------------


def run_case(
    case: BenchCase,
    machine: BenchDevice,
    contestants: Sequence[Contestant],
    *,
    rounds: int = 15,
    seed: int = 0,
    warm_ms: float = 100.0,
    clock: Callable[[], float] = time.perf_counter,
) -> BenchRow:
    """Checks the contestants on fresh inputs, then times the correct ones in interleaved rounds.

    Each is warmed up for `warm_ms` milliseconds. Raises FailedContestant if one leaves the device unusable; the others
    can be run in a new process.
    """
    started = clock()
    row = BenchRow(case.name, case.group, case.operator, case.sizes, case.dtype, case.flops, case.bytes)
    row.about = case.kernels[0].about if case.kernels else ""
    machine.fresh()
    inputs = inputs_of(case, machine.device, seed)
    functions = _correct(case, machine, contestants, row, inputs)
    sets = _input_sets(case, machine, inputs, seed)
    calls = {name: _rotating(function, sets) for name, function in functions.items()}
    samples, failed = interleaved(calls, machine.clock, rounds=rounds, warm_ms=warm_ms)
    for result in row.results:
        if result.name in samples:
            found_ms = samples[result.name]
            result.median_ms, result.low_ms, result.high_ms = found_ms.median_ms, found_ms.low_ms, found_ms.high_ms
        elif result.name in failed:
            result.failure = reason(failed[result.name])
            if not machine.alive():
                raise FailedContestant(result.name, result.failure)
    if isinstance(machine.clock, Events):
        machine.clock.forget()
    row.seconds = clock() - started
    return row


def _correct(
    case: BenchCase, machine: BenchDevice, contestants: Sequence[Contestant], row: BenchRow, inputs: Sequence[Any]
) -> dict[str, Function]:
    """The functions of the contestants that give what the case means; the row gets errors, memory and failures."""
    functions: dict[str, Function] = {}
    meant: Reference | None = None
    for contestant in contestants:
        predicted_s = contestant.predicted_s
        result = BenchResult(contestant.name, predicted_ms=None if predicted_s is None else 1e3 * predicted_s)
        row.results.append(result)
        try:
            function = contestant.build()
            poison(case, machine.device)
            options: dict[str, Any] = {}
            if contestant.out:
                outputs = poisoned_outputs(case, machine.device)
                options["out"] = outputs[0] if len(outputs) == 1 else tuple(outputs)
            before = machine.peak_bytes(reset=True)
            found = function(*inputs, **options)
            allocated = sum(a.bytes for a in case.outputs) if contestant.out else 0
            result.peak = machine.peak_bytes() - before + allocated if machine.device == "cuda" else 0
            meant = meant or reference(case, inputs, machine.budget_bytes)
            result.error = check(case, found, meant).error
            functions[contestant.name] = function
            del found, options
        except raised() as error:
            result.failure = reason(error)
            if not machine.alive():
                raise FailedContestant(contestant.name, result.failure) from error
    return functions


def _input_sets(case: BenchCase, machine: BenchDevice, inputs: Sequence[Any], seed: int) -> list[Sequence[Any]]:
    """The inputs, and as many more sets of them as exceed the caches together."""
    moved = sum(a.bytes for a in case.inputs if a.axes)
    wanted = math.ceil(_CACHES * machine.cache / moved) if moved else 1
    return [inputs, *(inputs_of(case, machine.device, seed + 1000 + k) for k in range(1, min(_MOST_SETS, wanted)))]


def _rotating(function: Function, sets: Sequence[Sequence[Any]]) -> Call:
    """Calls on one set of inputs after the other, so that none is in a cache when it is read."""
    return lambda k: function(*sets[k % len(sets)])


def raised() -> tuple[type[BaseException], ...]:
    """The exceptions that other implementations and compilers raise; Triton's errors have a base class of their own."""
    triton: tuple[type[BaseException], ...] = ()
    if "triton" in sys.modules:
        triton = (importlib.import_module("triton.errors").TritonError,)
    return (
        ArithmeticError, AssertionError, AttributeError, CatdiagError, ImportError, LookupError, MemoryError, NameError,
        OSError, RuntimeError, SyntaxError, TypeError, ValueError, *triton,
    )  # fmt: skip


def reason(error: BaseException) -> str:
    """An error in one line.

    >>> reason(ValueError("no such tile\\n  at line 3"))
    'ValueError: no such tile'
    """
    text = error.message if isinstance(error, CatdiagError) else str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = lines[0] if lines else ""
    return f"{type(error).__name__}: {first[:300]}" if first else type(error).__name__
