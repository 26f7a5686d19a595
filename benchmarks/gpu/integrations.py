"""Models of PyTorch by the backend of `torch.compile`, and layers by `cd.compile`, beside Inductor and eager PyTorch.

    python -m benchmarks.gpu.integrations FOLDER               where the GPU and z3 are
    python -m benchmarks.gpu.integrations FOLDER --tiny        anywhere: small arrays on the CPU, regions by reference

Each model is a process of its own. All plan and compile at once, and compare what they give with the model in float64:
errors are ‖out − ref‖ / ‖ref‖. When all are ready, or the time for it is over, they are timed one after the other, in
rounds, each round in another order. `integrations.json` has a row for each model as soon as it is measured: times,
errors, which regions were taken and why not, and how often kernels of catdiag were called.
"""

from __future__ import annotations

import argparse
import functools
import json
import logging
import math
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.gpu.rounds import timed_in_rounds  # noqa: E402

RESULTS = "integrations.json"
ROUNDS = 15
Function = Callable[..., Any]
Made = tuple[Any, tuple[Any, ...]]
"""A module, and the arguments of a call."""


# -- models ---------------------------------------------------------------------------------------------------------


def _of_transformers(kind: str, tiny: bool, attention: str = "sdpa") -> Made:
    """Two layers of a model of Hugging Face's transformers with random weights, and tokens."""
    import torch
    import transformers

    large: dict[str, dict[str, Any]] = {
        "Llama": {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8},
        "GPT2": {"n_embd": 1024, "n_head": 16},
        "Bert": {"hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16},
    }
    small: dict[str, dict[str, Any]] = {
        "Llama": {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2},
        "GPT2": {"n_embd": 32, "n_head": 4},
        "Bert": {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4},
    }
    layers = {"n_layer": 2} if kind == "GPT2" else {"num_hidden_layers": 2}
    config = getattr(transformers, f"{kind}Config")(vocab_size=1024, **layers, **(small if tiny else large)[kind])
    config._attn_implementation = attention
    model = getattr(transformers, f"{kind}Model")(config)

    class Hidden(torch.nn.Module):  # type: ignore[misc]
        """The last hidden state, without a cache."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, tokens: Any) -> Any:
            options = {} if kind == "Bert" else {"use_cache": False}
            return self.model(tokens, **options)[0]

    shape = (2, 12) if tiny else {"Llama": (2, 2048), "GPT2": (8, 1024), "Bert": (16, 512)}[kind]
    return Hidden(), (torch.randint(0, 1024, shape),)


def _attention(score: Function, tiny: bool) -> Made:
    """Attention with a function of its scores, as models write it by hand."""
    import torch

    class Attention(torch.nn.Module):  # type: ignore[misc]
        def forward(self, query: Any, key: Any, value: Any) -> Any:
            scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
            return torch.softmax(score(scores), -1) @ value

    shape = (2, 2, 12, 8) if tiny else (2, 16, 4096, 128)
    return Attention(), tuple(torch.randn(shape) for _ in range(3))


def softcapped(tiny: bool) -> Made:
    """Attention whose scores are capped by a tanh, as in Gemma-2."""
    import torch

    return _attention(lambda scores: 50.0 * torch.tanh(scores / 50.0), tiny)


def distances(tiny: bool) -> Made:
    """A mean weighted by a kernel of squared distances."""
    import torch

    class Smoothed(torch.nn.Module):  # type: ignore[misc]
        def forward(self, points: Any, centers: Any, values: Any) -> Any:
            far = (points * points).sum(-1)[:, None] + (centers * centers).sum(-1)[None] - 2 * points @ centers.T
            return torch.softmax(-far / points.shape[-1], -1) @ values

    count, width = (12, 8) if tiny else (8192, 64)
    return Smoothed(), tuple(torch.randn(count, width) for _ in range(3))


def norm_block(tiny: bool) -> Made:
    """A residual of a gated network behind a norm."""
    import torch

    width, hidden, rows = (16, 24, 12) if tiny else (2048, 5632, 8192)

    class Gated(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.LayerNorm(width)
            self.gate, self.up = (torch.nn.Linear(width, hidden, bias=False) for _ in range(2))
            self.down = torch.nn.Linear(hidden, width, bias=False)

        def forward(self, x: Any) -> Any:
            found = self.norm(x)
            return x + self.down(torch.nn.functional.silu(self.gate(found)) * self.up(found))

    return Gated(), (torch.randn(rows, width),)


MODELS: dict[str, Function] = {
    "Llama, 2 layers": lambda tiny: _of_transformers("Llama", tiny),
    "Llama, 2 layers, attention of catdiag": lambda tiny: _of_transformers("Llama", tiny),
    "GPT-2, 2 layers": lambda tiny: _of_transformers("GPT2", tiny),
    "BERT, 2 layers": lambda tiny: _of_transformers("Bert", tiny),
    "attention with capped scores": softcapped,
    "smoothing by distances": distances,
    "gated network": norm_block,
    "gated network, cd.compile": norm_block,
}
INTERFACE, OBJECT = "attention of catdiag", "cd.compile"
"""Parts of names: by the attention interface of transformers, and by `cd.compile`, instead of by the backend."""


# -- the process of one model ---------------------------------------------------------------------------------------


def contestants(name: str, model: Any, given: tuple[Any, ...], tiny: bool, limit: float) -> dict[str, Function]:
    """The functions that are compared."""
    import torch

    import catdiag as cd
    from catdiag.integrations.attention_interface import register

    found: dict[str, Function] = {"eager": model}
    found["inductor"] = torch.compile(model, backend="eager" if tiny else "inductor", dynamic=False)
    if INTERFACE in name:
        import copy

        register()
        ours = copy.deepcopy(model)
        ours.model.set_attn_implementation("catdiag")
        found["catdiag"] = ours
    elif OBJECT in name:
        found["catdiag"] = cd.compile(model, *given, on="h200")
    else:
        from catdiag.integrations.torch_backend import backend

        options = {"reference": True, "rest": "eager"} if tiny else {"limit": limit}
        found["catdiag"] = torch.compile(model, backend=backend, options=options, dynamic=False)
    return found


def prepared(name: str, tiny: bool, limit: float) -> tuple[dict[str, Any], dict[str, Function], tuple[Any, ...]]:
    """A model's row with errors and regions, its functions that run, and the arguments of a call."""
    import copy

    import torch

    said: list[str] = []

    class Said(logging.Handler):
        """Collects messages."""

        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    log = logging.getLogger("catdiag.integrations.torch_backend")
    log.setLevel("INFO")
    log.addHandler(Said())
    torch.manual_seed(0)
    device, dtype = ("cpu", torch.float32) if tiny else ("cuda", torch.bfloat16)
    model, given = MODELS[name](tiny)
    model = model.to(device, dtype).eval()
    given = tuple(a.to(device, dtype) if a.is_floating_point() else a.to(device) for a in given)
    wide = tuple(a.double() if a.is_floating_point() else a for a in given)
    wanted = copy.deepcopy(model).double()(*wide)
    row: dict[str, Any] = {"name": name, "contestants": {}}
    ready: dict[str, Function] = {}
    for who, function in contestants(name, model, given, tiny, limit).items():
        found: dict[str, Any] = {}
        row["contestants"][who] = found
        start = time.perf_counter()
        try:
            for _ in range(3):
                out = function(*given)
            found["error"] = float((out.double() - wanted).norm() / wanted.norm())
            ready[who] = function
        except Exception as error:  # a contestant that fails is a row of the table
            found["failure"] = f"{type(error).__name__}: {str(error)[:500]}"
        found["compile_s"] = time.perf_counter() - start
    row["said"] = [line[:700] for line in said]
    reason = getattr(ready.get("catdiag"), "reason", "")
    if OBJECT in name and reason:
        row["said"].append(f"cd.compile runs in PyTorch: {reason}")
    return row, ready, given


def work(name: str, tiny: bool, limit: float) -> None:
    """The process of one model: a line when it is ready; after a line of its input, times."""
    import torch

    torch.set_grad_enabled(False)
    row, ready, given = prepared(name, tiny, limit)
    print(json.dumps(row), flush=True)
    sys.stdin.readline()
    functions = {who: functools.partial(function, *given) for who, function in ready.items()}
    for who, times in timed_in_rounds(functions, 2 if tiny else ROUNDS).items():
        row["contestants"][who].update(times)
    if not tiny:
        row["kernels"] = kernels_of(ready, given)
    print(json.dumps(row), flush=True)


def kernels_of(ready: dict[str, Function], given: tuple[Any, ...]) -> dict[str, list[list[Any]]]:
    """For each function the kernels of one call, how often each was called, and their microseconds."""
    from torch.profiler import ProfilerActivity, profile

    found: dict[str, list[list[Any]]] = {}
    for who, function in ready.items():
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            function(*given)
        events = [e for e in seen.key_averages() if e.device_time_total > 0]
        events.sort(key=lambda e: -e.device_time_total)
        found[who] = [[e.key[:80], e.count, round(e.device_time_total, 1)] for e in events[:12]]
    return found


# -- all models -----------------------------------------------------------------------------------------------------


class Worker:
    """The process of one model, and the lines that it prints."""

    def __init__(self, name: str, tiny: bool, limit: float) -> None:
        command = [sys.executable, "-m", "benchmarks.gpu.integrations", name, "--work", "--limit", str(limit)]
        self.name, self.lines = name, queue.Queue[str]()
        self.process = subprocess.Popen(
            [*command, *(["--tiny"] if tiny else [])], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env={**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "2"},
        )  # fmt: skip
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                self.lines.put(line)
        self.lines.put("")

    def row(self, seconds: float) -> dict[str, Any] | None:
        """The next row; None where the process ends or takes longer."""
        try:
            line = self.lines.get(timeout=max(0.1, seconds))
        except queue.Empty:
            return None
        found: dict[str, Any] | None = json.loads(line) if line else None
        return found

    def go(self) -> None:
        """Lets it measure."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()


def text_of(row: dict[str, Any]) -> str:
    """A row as lines of text."""
    lines = [row["name"], *(f"    {line}" for line in row.get("said", ()))]
    for who, c in row["contestants"].items():
        if "failure" in c:
            lines.append(f"  {who:10} {c['failure']}")
            continue
        time_s = f"{1e3 * c['time_s']:9.4f} ms" if "time_s" in c else "not timed"
        lines.append(f"  {who:10} {time_s}  error {c['error']:.2e}  first calls {c['compile_s']:.1f} s")
    return "\n".join(lines)


def run(folder: Path, only: str, tiny: bool, limit: float, ready_s: float) -> list[dict[str, Any]]:
    """Measures all models, and writes their rows."""
    folder.mkdir(parents=True, exist_ok=True)
    until = time.perf_counter() + ready_s
    workers = [Worker(name, tiny, limit) for name in MODELS if only in name]
    rows = [worker.row(until - time.perf_counter()) for worker in workers]
    done: list[dict[str, Any]] = []
    for worker, row in zip(workers, rows, strict=True):
        if row is not None:
            worker.go()
            row = worker.row(60) or row
        done.append(row or {"name": worker.name, "contestants": {}, "said": ["it was not ready in time, or failed"]})
        worker.process.kill()
        worker.process.wait()
        print(text_of(done[-1]), flush=True)
        (folder / RESULTS).write_text(json.dumps(done, indent=1, ensure_ascii=False), encoding="utf-8")
    return done


def main(arguments: list[str] | None = None) -> None:
    """Runs all models, or is the process of one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", help="the folder for results")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--only", default="", help="a part of the names of the models")
    parser.add_argument("--tiny", action="store_true", help="small arrays on the CPU")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds for planning one region")
    parser.add_argument("--ready", type=float, default=270.0, help="seconds until all are to be ready")
    given = parser.parse_args(arguments)
    if given.work:
        work(given.what, given.tiny, given.limit)
    else:
        run(Path(given.what), given.only, given.tiny, given.limit, given.ready)


if __name__ == "__main__":
    main()
