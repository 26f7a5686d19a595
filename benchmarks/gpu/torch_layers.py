"""Layers as their authors write them in PyTorch, beside `torch.compile` and eager PyTorch, on one GPU.

    python -m benchmarks.gpu.torch_layers prepare FOLDER [NAME…]    where the solvers are: the modules of the plans
    python -m benchmarks.gpu.torch_layers run FOLDER [NAME…]        where the GPU is; needs PyTorch and Triton

Each is imported with `cd.from_torch`, planned in bf16 and checked against the layer in float64: the error is
‖out − ref‖ / ‖ref‖, the largest of all results, and one above 2e-2 is not timed. Contestants are CUDA graphs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.gpu.backward import largest_error  # noqa: E402
from benchmarks.gpu.layers import TOLERANCE, entry_of, graphed  # noqa: E402
from benchmarks.gpu.rounds import timed_in_rounds  # noqa: E402

FILE = "torch_layers.json"


def layers() -> Mapping[str, Callable[[], tuple[Any, tuple[Any, ...]]]]:
    """The layers, each with example inputs, by name."""
    from benchmarks.gpu.layer_modules import convolution_layers, gather_layers, pair_layers, transformer_layers

    return {
        **transformer_layers.LAYERS, **convolution_layers.LAYERS, **gather_layers.LAYERS, **pair_layers.LAYERS
    }  # fmt: skip


def made(name: str) -> tuple[Any, tuple[Any, ...]]:
    """A layer in evaluation, and example inputs: the same in each process."""
    import torch

    torch.manual_seed(0)
    module, inputs = layers()[name]()
    return module.eval(), inputs


def own_tensors(module: Any) -> dict[str, Any]:
    """Parameters and buffers by name."""
    named = (module.named_parameters, module.named_buffers)
    return {key: tensor for of in named for key, tensor in of(remove_duplicate=False)}


def prepare(folder: Path, names: Sequence[str], chip: str) -> None:
    """Writes the modules, constants that are no parameters, and `torch_layers.json`."""
    import numpy as np

    import catdiag as cd
    from catdiag.util.files import write_whole

    folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for name in names or layers():
        module, inputs = made(name)
        program = cd.from_torch(module, *inputs)
        example = program.example
        assert example is not None
        begin = time.process_time()
        plan = program.plan(chip, example.sizes)
        seconds = time.process_time() - begin
        about = plan.reason or f"{len(plan.kernels)} kernels, {1e6 * plan.time_s:.1f} µs predicted"
        print(f"{name}: planned in {seconds:.1f} s of CPU time: {about}", flush=True)
        if plan.module is None:
            continue
        own, pairs = own_tensors(module), enumerate(zip(example.sources, example.arrays, strict=True))
        constants = {str(k): np.asarray(a) for k, (s, a) in pairs if not isinstance(s, int) and s not in own}
        np.savez(folder / f"{name}.npz", **constants)  # type: ignore[arg-type]
        write_whole(folder / f"{name}.py", plan.module.text)
        sizes = {symbol: int(plan.sizes[symbol]) for symbol in plan.module.hidden_sizes}
        rows.append({"name": name, "file": f"{name}.py", "entry": plan.module.entry, "sources": list(example.sources),
                     "sizes": sizes, "predicted_s": plan.time_s})  # fmt: skip
        write_whole(folder / FILE, json.dumps(rows, indent=1))


def run_case(folder: Path, row: Mapping[str, Any], rounds: int) -> str:
    """What is measured of a layer, in words."""
    import numpy as np
    import torch

    def narrow(tensor: Any) -> Any:
        return tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor

    module, inputs = made(row["name"])
    for tensor in own_tensors(module).values():
        tensor.copy_(narrow(tensor))
    module, given = module.cuda(), [narrow(t.cuda()) for t in inputs]
    exact = module.double()(*(t.double() if t.is_floating_point() else t for t in given))
    reference = exact if isinstance(exact, tuple) else (exact,)
    module = module.to(torch.bfloat16)
    own, constants = own_tensors(module), np.load(folder / f"{row['name']}.npz")
    arrays = [
        given[s] if isinstance(s, int) else own[s] if s in own else torch.tensor(constants[str(k)]).cuda()
        for k, s in enumerate(row["sources"])
    ]
    ours = partial(entry_of(folder, row), *(narrow(a.detach()) for a in arrays), **row["sizes"])
    functions = {
        "ours": ours,
        "torch.compile": partial(torch.compile(module), *given),
        "eager": partial(module, *given),
    }
    errors = {name: largest_error(function(), reference) for name, function in functions.items()}
    said = f"{row['name']}: errors {', '.join(f'{name} {error:.1e}' for name, error in errors.items())}"
    if not errors["ours"] <= TOLERANCE:
        return f"{said}: WRONG, not timed"
    times = timed_in_rounds({name: graphed(function) for name, function in functions.items()}, rounds)
    us = {name: 1e6 * found["time_s"] for name, found in times.items()}
    taken = ", ".join(f"{name} {n:.1f}" for name, n in us.items())
    ratio = us["torch.compile"] / us["ours"]
    return f"{said}; µs: {1e6 * row['predicted_s']:.1f} predicted, {taken}; torch.compile / ours {ratio:.2f}"


def run(folder: Path, names: Sequence[str], rounds: int) -> None:
    """Checks and times layers, and prints a line for each; one that fails is told, and the others are run."""
    import torch
    import triton

    torch.set_grad_enabled(False)
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__, "Triton", triton.__version__)
    for row in json.loads((folder / FILE).read_text("utf-8")):
        if names and row["name"] not in names:
            continue
        try:
            print(run_case(folder, row, rounds), flush=True)
        except Exception as error:
            print(f"{row['name']}: failed: {type(error).__name__}: {str(error)[-500:]}", flush=True)
        torch._dynamo.reset()
        torch.cuda.empty_cache()


def main(arguments: Sequence[str] | None = None) -> None:
    """Prepares or runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("prepare", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--chip", default="h200")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args(arguments)
    if given.what == "prepare":
        prepare(given.folder, given.names, given.chip)
    else:
        run(given.folder, given.names, given.rounds)


if __name__ == "__main__":
    main()
