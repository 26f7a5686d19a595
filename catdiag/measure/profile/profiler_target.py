"""Launches each point of a file once, for a profiler to read:
`python -m catdiag.measure.profile.profiler_target POINTS.json DONE.json`.

A point is compiled and run once before, unseen; then the profiler's range is opened for one call. What is written says
of each point which kernels that call launched, in order, or why it could not be run. It needs torch, triton and a GPU,
and neither solvers nor formulas.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from catdiag.util.files import write_whole


def main(points: str, done: str, device: str = "cuda") -> int:
    """Runs the points; 0, however many could be run."""
    from catdiag.measure.bench import raised, reason
    from catdiag.measure.profile.expected_counters import ProfilePoint
    from catdiag.runtime.module_cache import imported

    torch = _torch()
    said: list[dict[str, Any]] = []
    for data in json.loads(Path(points).read_text(encoding="utf-8")):
        point = ProfilePoint.of(data)
        row: dict[str, Any] = {"name": point.name, "launched": [], "failure": ""}
        said.append(row)
        try:
            module = imported(point.text, point.entry)
            inputs = _inputs(point, torch, device)
            function = getattr(module, point.entry)
            out = function(*inputs, **point.options)
            torch.cuda.synchronize()
            launched = _profiled(module)
            torch.cuda.cudart().cudaProfilerStart()
            function(*inputs, **point.options, out=out)
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStop()
            row["launched"] = launched
        except raised() as error:
            row["failure"] = reason(error)
        write_whole(Path(done), json.dumps(said))
    return 0


def _torch() -> Any:
    from catdiag.measure.bench import torch_with_gpu

    return torch_with_gpu()


def _inputs(point: Any, torch: Any, device: str) -> list[Any]:
    """Inputs of a point, of the types and shapes that its module takes."""
    from catdiag.measure.output_check import drawn

    generator = torch.Generator(device=device)
    generator.manual_seed(0)
    found: list[Any] = []
    for array in point.inputs:
        if not array.axes:
            found.append(point.scalars[array.name])
        else:
            made = drawn(array, device, generator)
            found.append(made.to(getattr(torch, array.dtype)) if array.element == "int" else made)
    return found


def _profiled(module: ModuleType) -> list[str]:
    """The names of the kernels that a module launches from now on, in order."""
    from triton.runtime.jit import KernelInterface

    launched: list[str] = []

    def watch(name: str, kernel: Any) -> None:
        run = kernel.run

        def seen(*args: Any, **options: Any) -> Any:
            launched.append(name)
            return run(*args, **options)

        kernel.run = seen

    for name, value in vars(module).items():
        if isinstance(value, KernelInterface):
            watch(name, value)
    return launched


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:3]))
