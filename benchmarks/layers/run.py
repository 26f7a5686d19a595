"""Checks prepared layers against float64, and times them beside `torch.compile` and eager PyTorch, in CUDA graphs.

    python -m benchmarks.layers.run FOLDER [NAME…]

A line of JSON each: the largest error of each result over its largest entry, of ours and of eager bf16; microseconds.
"""
# mypy: ignore-errors

from __future__ import annotations

import importlib.util
import json
import statistics
import sys
from pathlib import Path

import numpy as np
import torch

from benchmarks.layers.modules import LAYERS

ROUNDS, REPEATS = 7, 20


def loaded(folder, name):
    """The launch function of a layer, and what `prepare` wrote of it."""
    spec = importlib.util.spec_from_file_location(f"layer_{name}", folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    called = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return getattr(module, called["entry"]), called


def flat(results):
    return list(results) if isinstance(results, (tuple, list)) else [results]


def narrow(tensor):
    return tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor


def errors(results, reference):
    pairs = zip(flat(results), flat(reference), strict=True)
    return [float((a.double() - b).abs().max() / b.abs().max().clamp_min(1e-9)) for a, b in pairs]


def captured(call):
    """A CUDA graph of a call."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


def timed(graphs):
    """The median microseconds of each graph, in rounds whose order rotates."""
    found = {name: [] for name in graphs}
    for number in range(ROUNDS):
        names = list(graphs)
        first = number % len(names)
        for name in names[first:] + names[:first]:
            start, end = torch.cuda.Event(True), torch.cuda.Event(True)
            graphs[name].replay()
            start.record()
            for _ in range(REPEATS):
                graphs[name].replay()
            end.record()
            end.synchronize()
            found[name].append(start.elapsed_time(end) / REPEATS * 1e3)
    return {name: round(statistics.median(us), 1) for name, us in found.items()}


def measured(folder, name):
    """The row of a layer."""
    launch, called = loaded(folder, name)
    torch.manual_seed(0)
    module, inputs = LAYERS[name]()
    module = module.eval()
    for tensor in (*module.parameters(), *module.buffers()):
        tensor.copy_(narrow(tensor))
    module, given = module.cuda(), [narrow(t.cuda()) for t in inputs]
    reference = module.double()(*(t.double() if t.is_floating_point() else t for t in given))
    module = module.to(torch.bfloat16)
    own = {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }
    file = folder / f"{name}.npz"
    constants = dict(np.load(file)) if file.exists() else {}
    arguments = []
    for k, source in enumerate(called["sources"]):
        if isinstance(source, int):
            tensor = given[source]
        else:
            tensor = own[source] if source in own else torch.tensor(constants[str(k)]).cuda()
        arguments.append(narrow(tensor.detach()))
    row = {
        "errors": errors(launch(*arguments, **called["sizes"]), reference),
        "eager_errors": errors(module(*given), reference),
        "predicted_us": round(called["predicted_us"], 1),
    }
    compiled = torch.compile(module)
    compiled(*given)
    graphs = {
        "ours_us": captured(lambda: launch(*arguments, **called["sizes"])),
        "compile_us": captured(lambda: compiled(*given)),
        "eager_us": captured(lambda: module(*given)),
    }
    row |= timed(graphs)
    return {**row, "ratio": round(row["compile_us"] / row["ours_us"], 3)}


def main():
    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    folder = Path(sys.argv[1])
    for name in sys.argv[2:] or sorted(file.stem for file in folder.glob("*.json")):
        try:
            print(name, json.dumps(measured(folder, name)), flush=True)
        except Exception as error:  # one that fails is told, and the others are run
            print(name, "failed:", type(error).__name__, str(error)[-600:], flush=True)
        torch._dynamo.reset()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
