"""Small models trained by kernels of derived gradients, beside PyTorch, eager and compiled, on one GPU.

    python -m benchmarks.gpu.training prepare FOLDER     where the solvers are: the kernels as text
    python -m benchmarks.gpu.training run FOLDER         where the GPU is; needs PyTorch and Triton

`--model` is one of `llama` (norms before, gated units), `gpt2-512`, `gpt2-1024` (GPT-2 small), `bert-512` and
`bert-1024` (BERT large with fewer layers, which finds the tokens that were replaced by another one). All models of one
name have the same weights, in bf16 (with `--tiny` in fp32), and see the same tokens of a random Markov chain. Norms,
attention, activations and the loss are operators of ours: forward and backward passes planned by
`catdiag.planner.training_plans`. Linear layers are PyTorch's in all. PyTorch's attention is
`scaled_dot_product_attention`, or for GPT-2 and BERT also products and a softmax ("unfused"). With `--operators`, each
operator is first compared by itself: the largest relative error of its result and gradients against float64, and the
time of both passes beside eager PyTorch's and `torch.compile`'s. `training.json` has the losses, seconds of a
step (the median, without the first ten), and the peak of allocated memory. With `--tiny`, both parts run on small
arrays, on the CPU too with TRITON_INTERPRET=1.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.gpu.layers import entry_of  # noqa: E402
from benchmarks.gpu.rounds import timed_in_rounds  # noqa: E402

FILE, RESULTS, EPS = "training_kernels.json", "training.json", 1e-5
GPT2: dict[str, int] = {"h": 12, "d": 64, "f": 3072, "v": 50304, "layers": 12}
BERT: dict[str, int] = {"h": 16, "d": 64, "f": 4096, "v": 30528, "layers": 8}
MODELS: dict[str, dict[str, int]] = {
    "llama": {"b": 2, "q": 4096, "h": 16, "d": 128, "f": 5504, "v": 8192, "layers": 4},
    "gpt2-512": {"b": 16, "q": 512, **GPT2},
    "gpt2-1024": {"b": 8, "q": 1024, **GPT2},
    "bert-512": {"b": 16, "q": 512, **BERT},
    "bert-1024": {"b": 8, "q": 1024, **BERT},
}
TINY: dict[str, int] = {"b": 1, "q": 32, "h": 2, "d": 16, "f": 48, "v": 64, "layers": 2}
UNFUSED, LOOKED_UP = "eager, unfused", "catdiag, each launch looked up"
TABLE = 14
"""How many kernels of a step are printed."""
Function = Callable[..., Any]


# -- where the solvers are ------------------------------------------------------------------------------------------


def programs(name: str, s: Mapping[str, int]) -> dict[str, tuple[Any, dict[str, int]]]:
    """The operators of a model, with their sizes."""
    import catdiag as cd

    @cd.algorithm("h q d, h x d, h x d -> h q d", name="attention")
    def attention(Q: Any, K: Any, V: Any) -> Any:
        S = cd.einsum("h q d, h x d -> h q x", Q, K) / cd.sqrt(cd.size("d"))
        if is_causal(name):
            S = cd.where(cd.index("x") <= cd.index("q"), S, -cd.inf)
        return cd.einsum("h q x, h x d -> h q d", cd.softmax(S, "x"), V)

    gated = cd.algorithm("t f, t f -> t f", name="gated")(lambda A, B: cd.nn.silu(A) * B)
    gelu = cd.algorithm("t f -> t f", name="gelu")(lambda A: cd.nn.gelu(A))
    tokens, width = s["b"] * s["q"], s["h"] * s["d"]
    norm = cd.library.rms_norm if name == "llama" else cd.library.layer_norm
    return {
        "attention": (attention, {"h": s["b"] * s["h"], "q": s["q"], "x": s["q"], "d": s["d"]}),
        "norm": (norm, {"t": tokens, "d": width}),
        "activation": (gated if name == "llama" else gelu, {"t": tokens, "f": s["f"]}),
        "loss": (cd.library.cross_entropy, {"t": tokens, "v": s["v"]}),
    }


def is_causal(name: str) -> bool:
    """Whether a token of a model reads only those before it."""
    return not name.startswith("bert")


def prepare(folder: Path, model: str, sizes: Mapping[str, int], dtype: str, chip: str) -> None:
    """Writes the modules of each operator, and what its passes hand to each other."""
    import catdiag as cd
    from catdiag.planner.training_plans import training_plans
    from catdiag.util.files import write_whole

    folder.mkdir(parents=True, exist_ok=True)
    rows: dict[str, Any] = {"model": model, "sizes": dict(sizes), "dtype": dtype, "operators": {}}
    for name, (program, lengths) in programs(model, sizes).items():
        dom = program.diagram.dom
        wrt = [k for k, ty in enumerate(dom) if ty.axes and ty.element == "real"]
        plans = training_plans(program.diagram, cd.hardware.get(chip), lengths, dtype, wrt)
        row: dict[str, Any] = {key: getattr(plans.passes, key) for key in ("results", "reads", "saved", "of", "wrt")}
        for part in ("forward", "backward"):
            plan = getattr(plans, part)
            file = f"{name}_{part}.py"
            write_whole(folder / file, plan.code("triton"))
            row[part] = {"file": file, "entry": plan.written().entry, "predicted_s": plan.time_s, "plan": str(plan)}
        rows["operators"][name] = row
        print(f"{name}: {1e6 * plans.forward.time_s:,.1f} + {1e6 * plans.backward.time_s:,.1f} µs predicted")
    write_whole(folder / FILE, json.dumps(rows, ensure_ascii=False, indent=1))


# -- where the GPU is -----------------------------------------------------------------------------------------------


def passes(folder: Path, row: Mapping[str, Any], cached: bool = True) -> Function:
    """An operator that autograd differentiates, by the launch functions of its passes, whose launches are repeated as
    `plan.compile()` does, if `cached`."""
    import torch

    from catdiag.runtime.launch_cache import LaunchCache

    forward, backward = (entry_of(folder, row[part]) for part in ("forward", "backward"))
    if cached:
        forward, backward = LaunchCache.of(forward), LaunchCache.of(backward)

    class Passes(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            made = forward(*inputs)
            outputs = made if isinstance(made, tuple) else (made,)
            read = [*(inputs[k] for k in row["reads"]), *(outputs[k] for k in row["saved"])]
            ctx.numbers = [None if isinstance(a, torch.Tensor) else a for a in read]
            ctx.save_for_backward(*(a for a in read if isinstance(a, torch.Tensor)))
            ctx.count = len(inputs)
            return outputs[0]

        @staticmethod
        def backward(ctx: Any, cotangent: Any) -> Any:
            tensors = iter(ctx.saved_tensors)
            read = [next(tensors) if a is None else a for a in ctx.numbers]
            found = backward(*read, cotangent)
            by = dict(zip(row["wrt"], found if isinstance(found, tuple) else (found,), strict=True))
            return tuple(by.get(k) for k in range(ctx.count))

    return Passes.apply  # type: ignore[no-any-return]


def eager(model: str, fused: bool = True) -> dict[str, Function]:
    """The operators in PyTorch."""
    import torch
    from torch.nn import functional as F

    causal = is_causal(model)

    def attention(Q: Any, K: Any, V: Any) -> Any:
        # Arrays of three axes would take the path that has all scores in memory.
        return F.scaled_dot_product_attention(Q[None], K[None], V[None], is_causal=causal)[0]

    unfused = partial(_attention, torch, causal)
    return {
        "attention": attention if fused else unfused,
        "norm": lambda X, *weights: (F.rms_norm if model == "llama" else F.layer_norm)(X, X.shape[-1:], *weights),
        "activation": (lambda A, B: F.silu(A) * B) if model == "llama" else F.gelu,
        "loss": lambda Z, label: F.cross_entropy(Z, label, reduction="none"),
        "float64 attention": unfused,
    }


def _attention(torch: Any, causal: bool, Q: Any, K: Any, V: Any) -> Any:
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=Q.device).tril()
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1) @ V


def compared(
    ours: Mapping[str, Function], model: str, s: Mapping[str, int], dtype: Any, device: str, rounds: int
) -> dict[str, Any]:
    """Of each operator the errors of ours and of PyTorch's against float64, and the times of both passes."""
    import torch

    made, theirs, found = torch.Generator(device).manual_seed(0), eager(model), {}
    contestants = {"catdiag": ours, "eager": theirs}
    if device == "cuda":
        contestants["torch.compile"] = {
            name: torch.compile(function, dynamic=False) for name, function in theirs.items()
        }

    def normal(*shape: int) -> Any:
        return torch.randn(shape, generator=made, device=device).to(dtype).requires_grad_()

    tokens, heads, weights = s["b"] * s["q"], (s["b"] * s["h"], s["q"], s["d"]), 1 if model == "llama" else 2
    label = torch.randint(s["v"], (tokens,), generator=made, device=device)
    given: dict[str, tuple[Any, ...]] = {
        "attention": (normal(*heads), normal(*heads), normal(*heads)),
        "norm": (normal(tokens, s["h"] * s["d"]), *[normal(s["h"] * s["d"]) for _ in range(weights)], EPS),
        "activation": tuple(normal(tokens, s["f"]) for _ in range(2 if model == "llama" else 1)),
        "loss": (normal(tokens, s["v"]), label),
    }

    def both(function: Function, arrays: tuple[Any, ...], cotangent: Any) -> list[Any]:
        leaves = [a for a in arrays if isinstance(a, torch.Tensor) and a.requires_grad]
        result = function(*arrays)
        return [result.detach(), *torch.autograd.grad(result, leaves, cotangent.to(result.dtype))]

    for name, arrays in given.items():
        few = tuple(a[:2] if name == "attention" else a for a in arrays)  # float64 needs all scores of a head
        wide = tuple(a.detach().double().requires_grad_() if getattr(a, "requires_grad", False) else a for a in few)
        few = tuple(a.detach().requires_grad_() if getattr(a, "requires_grad", False) else a for a in few)
        shape = theirs[name](*few).shape
        cotangent = torch.randn(shape, generator=made, device=device)
        wanted = both(theirs.get(f"float64 {name}", theirs[name]), wide, cotangent)
        errors = {
            who: max(float((a.double() - b).norm() / b.norm()) for a, b in zip(got, wanted, strict=True))
            for who, operators in contestants.items()
            for got in [both(operators[name], few, cotangent)]
        }
        del wanted, wide
        whole = torch.randn(theirs[name](*arrays).shape, generator=made, device=device)
        runs = {who: partial(both, operators[name], arrays, whole) for who, operators in contestants.items()}
        found[name] = {"errors": errors, "times": timed_in_rounds(runs, rounds)}
        print(name, json.dumps(found[name]), flush=True)
    return found


def block(operators: Mapping[str, Function], name: str, s: Mapping[str, int]) -> Any:
    """A layer of a model, of tokens of all rows."""
    import torch
    from torch import nn

    width, heads, rows, llama = s["h"] * s["d"], s["h"], s["b"], name == "llama"

    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gain = nn.Parameter(torch.ones(width))
            self.shift = None if llama else nn.Parameter(torch.zeros(width))

        def forward(self, x: Any) -> Any:
            return operators["norm"](x, self.gain, *([] if self.shift is None else [self.shift]), EPS)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Norm(), Norm()
            self.qkv, self.out = nn.Linear(width, 3 * width, bias=not llama), nn.Linear(width, width, bias=not llama)
            self.up = nn.Linear(width, (2 if llama else 1) * s["f"], bias=not llama)
            self.down = nn.Linear(s["f"], width, bias=not llama)

        def mixed(self, n: Any) -> Any:
            q, k, v = self.qkv(n).view(rows, -1, 3, heads, s["d"]).permute(2, 0, 3, 1, 4).flatten(1, 2).unbind()
            found = operators["attention"](q, k, v).view(rows, heads, -1, s["d"]).transpose(1, 2)
            return self.out(found.reshape(-1, width))

        def units(self, n: Any) -> Any:
            return self.down(operators["activation"](*self.up(n).chunk(2 if llama else 1, -1)))

        def forward(self, x: Any) -> Any:
            if not is_causal(name):  # norms after
                x = self.first(x + self.mixed(x))
                return self.second(x + self.units(x))
            x = x + self.mixed(self.first(x))
            return x + self.units(self.second(x))

    return Block, Norm


def model(operators: Mapping[str, Function], name: str, s: Mapping[str, int], dtype: Any, device: str) -> Any:
    """The model, with operators of ours or of PyTorch."""
    import torch
    from torch import nn

    width = s["h"] * s["d"]
    Block, Norm = block(operators, name, s)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(s["v"], width)
            self.positions = None if name == "llama" else nn.Embedding(s["q"], width)
            self.blocks = nn.ModuleList(Block() for _ in range(s["layers"]))
            self.last, self.head = Norm(), nn.Linear(width, s["v"], bias=False)

        def forward(self, ids: Any, label: Any) -> Any:
            x = self.tokens(ids)
            x = (x if self.positions is None else x + self.positions.weight).flatten(0, 1)
            for layer in self.blocks:
                x = layer(x)
            return operators["loss"](self.head(self.last(x)), label.flatten()).float().mean()

    torch.manual_seed(0)
    return Model().to(device, dtype)


def tokens(name: str, s: Mapping[str, int], steps: int) -> Any:
    """For each step what the model reads, and what it is to find: the tokens that follow, or those that were there
    before every seventh was replaced."""
    import torch

    made = torch.Generator("cpu").manual_seed(1)
    following = torch.stack([torch.randperm(s["v"], generator=made) for _ in range(4)])
    ids = torch.randint(s["v"], (s["b"] * steps, s["q"] + 1), generator=made)
    choice = torch.randint(4, ids.shape, generator=made)
    for k in range(s["q"]):
        ids[:, k + 1] = following[choice[:, k], ids[:, k]]
    noise = torch.randint(s["v"], ids.shape, generator=made)
    replaced = torch.where(torch.rand(ids.shape, generator=made) < 1 / 7, noise, ids)
    for one, other in zip(ids.split(s["b"]), replaced.split(s["b"]), strict=True):
        yield (one[:, :-1], one[:, 1:]) if is_causal(name) else (other[:, :-1], one[:, :-1])


def trained(
    operators: Mapping[str, Function], name: str, s: Mapping[str, int], dtype: Any, device: str, steps: int,
    compiled: bool,
) -> dict[str, Any]:  # fmt: skip
    """The losses, the median seconds of a step, and the peak of allocated memory."""
    import torch

    gc.collect()  # models of others, whose memory would count
    net, gpu = model(operators, name, s, dtype, device), device == "cuda"
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4, fused=gpu)
    if compiled and name == "llama":
        net = torch.compile(net, dynamic=False)
    elif compiled:  # one layer, which all layers run
        for layer in net.blocks:
            layer.compile(dynamic=False)
    losses, seconds, issued = [], [], []
    if gpu:
        torch.cuda.reset_peak_memory_stats()
    for ids, label in tokens(name, s, steps):
        ids, label = ids.contiguous().to(device), label.contiguous().to(device)
        begin = time.perf_counter()
        loss = net(ids, label)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        issued.append(time.perf_counter() - begin)
        losses.append(float(loss.detach()))  # waits for the GPU
        seconds.append(time.perf_counter() - begin)
    peak = torch.cuda.max_memory_allocated() if gpu else None
    found = {"losses": losses, "peak_bytes": peak}
    found |= {k: statistics.median(times[10:] or times) for k, times in (("step_s", seconds), ("host_s", issued))}
    return found | (_kernels(net, ids, label) if gpu else {})


def _kernels(net: Any, ids: Any, label: Any, steps: int = 3) -> dict[str, Any]:
    """The seconds that the GPU works in a step without its optimizer, and those and the launches of each kernel."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(steps):
            net(ids, label).backward()
        torch.cuda.synchronize()
    kernels = {
        e.key: (e.self_device_time_total / steps / 1e6, e.count / steps)
        for e in profile.key_averages()
        if e.self_device_time_total
    }
    longest = sorted(kernels.items(), key=lambda item: -item[1][0])
    return {"device_s": sum(t for t, _ in kernels.values()), "kernels": dict(longest[:40])}


def run(folder: Path, steps: int, rounds: int, by_operator: bool, only: str = "") -> None:
    """Compares the operators, and trains the models, of all contestants or of those that `only` names."""
    import torch

    from catdiag.util.files import write_whole

    row = json.loads((folder / FILE).read_text(encoding="utf-8"))
    device, s, name = "cuda" if torch.cuda.is_available() else "cpu", row["sizes"], row["model"]
    dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[row["dtype"]]
    ours = {operator: passes(folder, parts) for operator, parts in row["operators"].items()}
    results: dict[str, Any] = {}
    if by_operator:
        results["operators"] = compared(ours, name, s, dtype, device, rounds)
    contestants = [*([] if name == "llama" else [UNFUSED]), "eager", *(["torch.compile"] if device == "cuda" else []),
                   "catdiag", LOOKED_UP]  # fmt: skip
    looked_up = {operator: passes(folder, parts, cached=False) for operator, parts in row["operators"].items()}
    for who in [who for who in contestants if not only or who in only.split("; ")]:
        known = {"catdiag": ours, LOOKED_UP: looked_up}
        operators = known[who] if who in known else eager(name, fused=who != UNFUSED)
        results[who] = found = trained(operators, name, s, dtype, device, steps, who == "torch.compile")
        first, *_, last = found["losses"]
        memory = f"{(found['peak_bytes'] or 0) / 2**30:.2f} GiB at the peak"
        print(
            f"{name}, {who}: loss {first:.3f} to {last:.3f}, {1e3 * found['step_s']:.2f} ms a step, {memory}; the host "
            f"is done after {1e3 * found['host_s']:.2f} ms, the GPU works for {1e3 * found.get('device_s', 0):.2f} ms "
            "without the optimizer",
            flush=True,
        )
        for kernel, (time_s, count) in list(found.get("kernels", {}).items())[:TABLE]:
            print(f"  {1e6 * time_s:9.1f} µs  {count:5.0f}  {kernel[:90]}", flush=True)
        write_whole(folder / RESULTS, json.dumps(results, indent=1))


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", choices=("prepare", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", choices=tuple(MODELS), default="llama")
    parser.add_argument("--tiny", action="store_true", help="small arrays")
    parser.add_argument("--chip", default="H200")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--operators", action="store_true", help="compare each operator by itself too")
    parser.add_argument("--only", default="", help="the contestants that train, of all")
    given = parser.parse_args()
    if given.what == "prepare":
        sizes, dtype = (TINY, "fp32") if given.tiny else (MODELS[given.model], "bf16")
        prepare(given.folder, given.model, sizes, dtype, given.chip)
    else:
        run(given.folder, given.steps, given.rounds, given.operators, given.only)


if __name__ == "__main__":
    main()
