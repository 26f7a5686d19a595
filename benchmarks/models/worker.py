"""One architecture through all stages, in a process of its own; a line of JSON for each stage that ends."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

import catdiag as cd
from benchmarks.models.architectures import architecture
from catdiag.errors import CatdiagError


@contextmanager
def stage(name: str) -> Iterator[dict[str, Any]]:
    """What a stage finds, printed with its CPU seconds when it ends. A failure is its first line."""
    found: dict[str, Any] = {"stage": name}
    start = time.process_time()
    try:
        yield found
    except Exception as error:
        first, *rest = str(error).splitlines() or [""]
        more = next((line.strip() for line in rest if first.endswith(":") and line.strip()), "")
        found["failed"] = f"{type(error).__name__}: {first} {more}".strip()[:200]
        raise
    finally:
        found["seconds"] = time.process_time() - start
        print(json.dumps(found), flush=True)


def measure(name: str, chip: str) -> None:
    """Takes an architecture through all stages, until one fails."""
    module, given = architecture(name)
    with torch.no_grad():
        wanted = module(**given).numpy()
    with stage("import") as found:
        program = cd.from_torch(module, kwargs=given)
        found["boxes"] = len(program)
    assert program.example is not None
    with stage("run") as found:
        arrays = [a.detach().numpy() for a in program.example.arrays]
        result = program.run(*arrays, sizes=program.example.sizes)
        found["difference"] = float(np.abs(result - wanted).max() / np.abs(wanted).max())
        if not found["difference"] < 1e-6:
            raise CatdiagError(f"off by {found['difference']:.1e}")
    with stage("plan") as found:
        plan = program.plan(chip, program.example.sizes)
        found.update(kernels=len(plan.kernels), time=plan.time_s)
    with stage("prove") as found:
        theorem = plan.theorem
        found["conditional"] = theorem.conditional
    with stage("compile") as found:
        compile(plan.code("triton"), name, "exec")


def run(name: str, chip: str) -> None:
    """`measure`, of which a failure is printed and ends it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            measure(name, chip)
        except Exception as error:
            print(json.dumps({"stage": "end", "failed": type(error).__name__}), flush=True)
