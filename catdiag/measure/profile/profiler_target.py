"""The program that a profiler runs: it launches each point of a file once.

`python -m catdiag.measure.profile.profiler_target POINTS.json DONE.json`

Each point is compiled and run once outside the profiler's range, then called once inside it. DONE.json gets for each
point the kernels that this call launched, in order, or why it could not be run. The program needs torch, triton and a
GPU, and no solvers or formulas.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from catdiag.util.files import write_whole


def main(points: str, done: str, device: str = "cuda") -> int:
    """Runs the points. The exit status is 0, however many could be run."""
    from catdiag.measure.bench import raised, reason
    from catdiag.measure.profile.expected_counters import ProfilePoint
    from catdiag.runtime.module_cache import imported

    torch = _torch()
    report: list[dict[str, Any]] = []
    for data in json.loads(Path(points).read_text(encoding="utf-8")):
        point = ProfilePoint.of(data)
        row: dict[str, Any] = {"name": point.name, "launched": [], "failure": ""}
        report.append(row)
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
        write_whole(Path(done), json.dumps(report))
    return 0


def _torch() -> Any:
    from catdiag.measure.bench import torch_with_gpu

    return torch_with_gpu()


def _inputs(point: Any, torch: Any, device: str) -> list[Any]:
    """Random inputs of a point, of the types and shapes that its module takes."""
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
    """A list to which the names of the kernels that a module launches from now on are appended, in order."""
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
