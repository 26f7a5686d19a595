"""Plans layers, and writes their modules, with what the run needs to call them.

python -m benchmarks.layers.prepare FOLDER [NAME…]
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

import catdiag as cd
from benchmarks.layers.modules import LAYERS


def prepare(name: str, folder: Path) -> str:
    """Writes the module of a layer (NAME.py), what it is called with (NAME.json), and constants that are no parameters
    (NAME.npz); what it is predicted to take, or why there is none."""
    torch.manual_seed(0)
    module, inputs = LAYERS[name]()
    program = cd.from_torch(module.eval(), *inputs)
    example = program.example
    assert example is not None
    start = time.process_time()
    plan = program.plan("h200", example.sizes)
    seconds = time.process_time() - start
    if plan.module is None:
        return f"not written in {seconds:.1f} s: {plan.reason}"
    own = {*dict(module.named_parameters(remove_duplicate=False)), *dict(module.named_buffers(remove_duplicate=False))}
    pairs = enumerate(zip(example.sources, example.arrays, strict=True))
    constants = {str(k): np.asarray(a) for k, (s, a) in pairs if not isinstance(s, int) and s not in own}
    if constants:
        np.savez(folder / f"{name}.npz", **constants)
    (folder / f"{name}.py").write_text(plan.module.text, encoding="utf-8")
    called = {
        "entry": plan.module.entry,
        "sources": list(example.sources),
        "sizes": {s: int(plan.sizes[s]) for s in plan.module.hidden_sizes},
        "predicted_us": plan.time_s * 1e6,
        "kernels": [(k.loops, k.time_s * 1e6) for k in plan.kernels],
    }
    (folder / f"{name}.json").write_text(json.dumps(called, indent=1), encoding="utf-8")
    return f"planned in {seconds:.1f} s: {len(plan.kernels)} kernels, {plan.time_s * 1e6:.1f} µs predicted"


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for layer in sys.argv[2:] or LAYERS:
        print(layer, prepare(layer, target), flush=True)
