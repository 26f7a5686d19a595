"""What `torch.compile(backend="catdiag")` costs a call of a model of which it takes nothing, beside Inductor.

    python -m benchmarks.gpu.overhead FOLDER [MODEL…]

Each model is a stack of layers, in bf16 and evaluation. Inductor compiles it twice, as a backend by its name and as a
function of one's own, so that what two compilations of one graph differ by is seen; catdiag compiles it once. All three
are timed in rounds, each in another order. A table goes to standard output, and `overhead.json` has the numbers.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.gpu.rounds import timed_in_rounds  # noqa: E402

LAYERS, ROUNDS = 4, 30
MODELS = {"llama": "Llama", "vit": "ViT", "bert": "BERT", "bottleneck": "ResNet bottlenecks", "mixer": "MLP-Mixer"}
"""Layers of `benchmarks.gpu.layer_modules`, and what they are called."""
LOGGER = logging.getLogger("catdiag.integrations.torch_backend")


def stacked(name: str) -> tuple[Any, tuple[Any, ...]]:
    """A model of several layers of one kind, and the arguments of a call."""
    from benchmarks.gpu.torch_layers import layers

    made = [layers()[name]() for _ in range(LAYERS)]
    return stack_of([module for module, _ in made], "stack").eval(), made[0][1]


def stack_of(parts: list[Any], title: str) -> Any:
    """Layers one after the other. Those of another title are other code, of which Dynamo keeps apart what it compiled:
    else a call of one function goes through the guards of all."""
    import torch

    class Stack(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.parts = torch.nn.ModuleList(parts)

        def forward(self, x: Any, *rest: Any) -> Any:
            for part in self.parts:
                x = part(x, *rest)
            return x

    code = Stack.forward.__code__.replace(co_name=f"forward_of_{title}")
    Stack.forward = FunctionType(code, globals(), title, None, Stack.forward.__closure__)  # type: ignore[method-assign]
    return Stack()


def measured(name: str, rounds: int) -> dict[str, Any]:
    """Seconds of a call of a model by each backend, what was taken of it, and how long the first call took."""
    import torch
    from torch._inductor.compile_fx import compile_fx

    from catdiag.integrations.torch_backend import backend

    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    LOGGER.setLevel("INFO")
    LOGGER.handlers = [handler]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model, given = stacked(name)
    model = model.to(device, torch.bfloat16)
    given = tuple(a.to(device, torch.bfloat16) if a.is_floating_point() else a.to(device) for a in given)
    chosen: dict[str, Any] = {
        "inductor": "inductor", "inductor again": lambda graph, inputs: compile_fx(graph, inputs), "catdiag": backend
    }  # fmt: skip
    functions: dict[str, Callable[[], Any]] = {}
    first: dict[str, float] = {}
    results: dict[str, Any] = {}
    for who, by in chosen.items():
        own = stack_of(list(model.parts), who.replace(" ", "_")).eval()
        compiled = torch.compile(own, backend=by, dynamic=False)
        begin = time.perf_counter()
        for _ in range(3):
            results[who] = compiled(*given)
        first[who] = time.perf_counter() - begin
        functions[who] = lambda compiled=compiled: compiled(*given)
    times = timed_in_rounds(functions, rounds)
    return {
        "name": name, "taken": [line for line in said if ": taken" in line or "; taken" in line], "said": said,
        "first_s": first, "times": times, "equal": bool(torch.equal(results["inductor"], results["catdiag"])),
    }  # fmt: skip


def row_of(found: dict[str, Any]) -> str:
    """A row of the table."""
    base = found["times"]["inductor"]["time_s"]
    ms = [f"{1e3 * found['times'][who]['time_s']:.3f}" for who in ("inductor", "inductor again", "catdiag")]
    more = [f"{100 * (found['times'][who]['time_s'] / base - 1):+.2f}%" for who in ("inductor again", "catdiag")]
    seconds = [f"{found['first_s'][who]:.1f}" for who in ("inductor again", "catdiag")]
    name = f"{MODELS[found['name']]}, {LAYERS} layers"
    return f"| {' | '.join([name, ms[0], ms[1], ms[2], *more, *seconds, str(len(found['taken']))])} |"


def main(arguments: list[str] | None = None) -> None:
    """Measures all models, and writes their rows."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder for results")
    parser.add_argument("models", nargs="*", help="their names; all without any")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args(arguments)
    torch.set_grad_enabled(False)
    given.folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in given.models or MODELS:
        rows.append(measured(name, given.rounds))
        print(row_of(rows[-1]), flush=True)
        (given.folder / "overhead.json").write_text(json.dumps(rows, indent=1, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
