"""A layer of Llama-3-8B beside `torch.compile` and eager PyTorch, forward and in a step of decoding, on one GPU.

    python -m benchmarks.gpu.layers prepare FOLDER     where the solvers are: the modules of the plans, as text
    python -m benchmarks.gpu.layers run FOLDER         where the GPU is; needs PyTorch and Triton

Every contestant is checked against the layer in float64 first: the error is ‖out − ref‖ / ‖ref‖, and one above 2e-2 is
not timed. Then they are timed in rounds, each in an order drawn by lot, and medians are compared. Steps of decoding are
recorded as CUDA graphs, all alike. Memory is what a call allocates at its peak, beside what was there before it.
`results.json` has a row for each case as soon as it is measured. `run --tiny` takes the same modules on small arrays:
on a CPU too, under TRITON_INTERPRET=1, where they must be prepared with `--dtype fp16`.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.gpu.rounds import command_line, measure_cases, timed_in_rounds  # noqa: E402

FILE, RESULTS = "layers.json", "results.json"
TOLERANCE = 2e-2
TINY = {"e": 64, "k": 2, "r": 2, "d": 8, "v": 16, "f": 96}
"""The widths of small arrays."""
Function = Callable[..., Any]


# -- where the solvers are ------------------------------------------------------------------------------------------


def cases() -> list[tuple[str, dict[str, int]]]:
    """The names and sizes of the cases: `q` tokens of each sequence, or `x` that are cached."""
    from examples.llama3_layer import WIDTHS

    found = [(f"forward, {b} × {q:,} tokens", {"b": b, "q": q, **WIDTHS}) for b, q in ((1, 8192), (4, 2048))]
    return found + [(f"decoding, batch {b}, 8,192 tokens", {"b": b, "x": 8192, **WIDTHS}) for b in (1, 16, 64)]


def prepare(folder: Path, only: str, products: list[str], dtype: str, chip: str) -> None:
    """Writes the modules of each case and of each way to compute products, and `layers.json`, case by case."""
    import examples.llama3_layer as programs
    from catdiag.util.files import write_whole

    folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for number, (name, sizes) in enumerate(cases()):
        if only not in name:
            continue
        titles = ("layer",) if "q" in sizes else ("projections", "step")
        ways = []
        for way in products:
            modules = []
            for title in titles:
                start = time.perf_counter()
                program = getattr(programs, title)
                needed = {n for ty in program.dom for a in ty.axes for n in [a.size]}
                plan = program.plan(chip, {n: s for n, s in sizes.items() if n in needed}, dtype=dtype, products=way)
                file = f"case{number}_{title}_{way}.py"
                if plan.module is None:  # the case is run without it, and its output says why
                    print(f"{name}, {title}, {way}: no module, {plan.reason}", flush=True)
                    break
                made = plan.written()
                write_whole(folder / file, made.text)
                modules.append({"file": file, "entry": made.entry, "predicted_s": plan.time_s,
                                "buffer_bytes": plan.buffer_bytes, "kernels": len(plan.kernels),
                                "plan": str(plan)})  # fmt: skip
                print(f"{time.perf_counter() - start:6.1f} s  {name}, {title}, {way}: {len(plan.kernels)} kernels, "
                      f"{1e6 * plan.time_s:,.0f} µs predicted", flush=True)  # fmt: skip
            if len(modules) == len(titles):
                ways.append({"products": way, "modules": modules})
        rows.append({"name": name, "sizes": sizes, "dtype": dtype, "ways": ways})
        write_whole(folder / FILE, json.dumps(rows, ensure_ascii=False, indent=1))


# -- where the GPU is -----------------------------------------------------------------------------------------------


def entry_of(folder: Path, module: Mapping[str, Any]) -> Function:
    """The launch function of a module."""
    spec = importlib.util.spec_from_file_location(Path(module["file"]).stem, folder / module["file"])
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return getattr(loaded, module["entry"])  # type: ignore[no-any-return]


class Layer:
    """The weights and the inputs of a case, and the layer in PyTorch."""

    def __init__(self, sizes: Mapping[str, int], dtype: Any, device: str) -> None:
        import torch

        made = torch.Generator(device).manual_seed(0)

        def normal(*shape: int, scale: float = 1.0) -> Any:
            return (scale * torch.randn(shape, generator=made, device=device)).to(dtype)

        self.s = s = dict(sizes)
        e, heads, v, f = s["e"], s["k"] * s["r"], s["v"], s["f"]
        self.decoding = "x" in s
        tokens = s.get("x") or s["q"]
        self.X = normal(s["b"], e) if self.decoding else normal(s["b"], s["q"], e)
        angles = torch.arange(tokens, device=device)[:, None] * 500000.0 ** (
            -torch.arange(s["d"], device=device) / s["d"]
        )
        angles = angles[-1] if self.decoding else angles
        self.cos, self.sin = angles.cos().to(dtype), angles.sin().to(dtype)
        self.g1, self.g2 = (1 + normal(e, scale=0.1) for _ in range(2))
        width, hidden = 1 / math.sqrt(e), 1 / math.sqrt(f)
        self.Wq, self.Wk, self.Wv = (normal(n * v, e, scale=width) for n in (heads, s["k"], s["k"]))
        self.Wo, self.Wd = normal(e, heads * v, scale=width), normal(e, f, scale=hidden)
        self.Wg, self.Wu = (normal(f, e, scale=width) for _ in range(2))
        if self.decoding:
            self.K, self.V = (normal(s["b"], s["k"], tokens, v) for _ in range(2))

    def split(self) -> dict[str, Any]:
        """The inputs as the programs have them: views, with heads and halves as axes."""
        s = self.s
        found = {n: getattr(self, n) for n in ("X", "cos", "sin", "g1", "g2", "Wg", "Wu", "Wd")}
        found["Wq"] = self.Wq.view(s["k"], s["r"], 2, s["d"], s["e"])
        found["Wk"] = self.Wk.view(s["k"], 2, s["d"], s["e"])
        found["Wv"] = self.Wv.view(s["k"], s["v"], s["e"])
        found["Wo"] = self.Wo.view(s["e"], s["k"], s["r"], s["v"])
        if self.decoding:
            found["K"], found["V"] = self.K.view(s["b"], s["k"], -1, 2, s["d"]), self.V
        return found

    def wide(self) -> Layer:
        """The same in float64."""
        import torch

        made = object.__new__(Layer)
        values = {n: v.double() if isinstance(v, torch.Tensor) else v for n, v in vars(self).items()}
        vars(made).update(values)
        return made

    def eager(self, attention: Function) -> Any:
        """The layer as models write it; `attention` takes queries, keys, values, and whether it is causal."""
        import torch
        from torch.nn.functional import linear, silu

        s, b = self.s, self.s["b"]

        def norm(X: Any, g: Any) -> Any:
            wide = X if X.dtype == torch.float64 else X.float()
            return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(X.dtype) * g

        def heads(X: Any, count: int) -> Any:
            return X.view(b, -1, count, s["v"]).transpose(1, 2)

        def rotated(A: Any) -> Any:
            first, second = A.chunk(2, -1)
            half = torch.cat([-second, first], -1)
            cos, sin = (torch.cat([t, t], -1) for t in (self.cos, self.sin))
            return A * cos + half * sin

        N = norm(self.X, self.g1)
        Q = rotated(heads(linear(N, self.Wq), s["k"] * s["r"]))
        K = rotated(heads(linear(N, self.Wk), s["k"]))
        V = heads(linear(N, self.Wv), s["k"])
        if self.decoding:
            self.K[:, :, -1:], self.V[:, :, -1:] = K, V
            K, V = self.K, self.V
        A = attention(Q, K, V, not self.decoding).transpose(1, 2).reshape(*self.X.shape[:-1], -1)
        R = self.X + linear(A, self.Wo)
        M = norm(R, self.g2)
        return R + linear(silu(linear(M, self.Wg)) * linear(M, self.Wu), self.Wd)


def plain(Q: Any, K: Any, V: Any, causal: bool) -> Any:
    """Attention head by head, so that scores of one head are in memory at a time."""
    import torch

    heads, shared = Q.shape[1], Q.shape[1] // K.shape[1]
    found = []
    for h in range(heads):
        S = Q[:, h] @ K[:, h // shared].transpose(-1, -2) / math.sqrt(Q.shape[-1])
        if causal:
            S = S.masked_fill(torch.ones(S.shape[-2:], dtype=torch.bool, device=S.device).triu(1), -math.inf)
        found.append(torch.softmax(S, -1) @ V[:, h // shared])
    return torch.stack(found, 1)


def fused(backend: str) -> Function:
    """`scaled_dot_product_attention` by one of its backends, or by what torch chooses."""

    def attention(Q: Any, K: Any, V: Any, causal: bool) -> Any:
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention as attend

        if not backend:
            return attend(Q, K, V, is_causal=causal, enable_gqa=True)
        with sdpa_kernel([getattr(SDPBackend, backend)]):
            return attend(Q, K, V, is_causal=causal, enable_gqa=True)

    return attention


def ours(
    folder: Path, row: Mapping[str, Any], way: Mapping[str, Any], layer: Layer, dependent: bool = True
) -> Function:
    """The modules of a plan as one function without arguments; without `dependent` all launches are ordinary ones."""
    import torch

    entries = [entry_of(folder, module) for module in way["modules"]]
    if not dependent:
        entries = [partial(entry, dependent_launch=False) if _chained(entry) else entry for entry in entries]
    a = layer.split()
    if not layer.decoding:
        names = ("X", "cos", "sin", "g1", "Wq", "Wk", "Wv", "Wo", "g2", "Wg", "Wu", "Wd")
        return lambda: entries[0](*(a[n] for n in names))
    first, second = entries
    kept = tuple(a[n][:, :, -1] for n in ("K", "V"))  # results are written where the cache has them

    def decode() -> Any:
        Q = torch.empty((*layer.X.shape[:1], *a["Wq"].shape[:-1]), dtype=layer.X.dtype, device=layer.X.device)
        first(*(a[n] for n in ("X", "cos", "sin", "g1", "Wq", "Wk", "Wv")), out=(Q, *kept))
        return second(a["X"], Q, *(a[n] for n in ("K", "V", "Wo", "g2", "Wg", "Wu", "Wd")))

    return decode


def _chained(entry: Function) -> bool:
    """Whether kernels of a module begin while those before them end."""
    return "dependent_launch" in inspect.signature(entry).parameters


def contestants(folder: Path, row: Mapping[str, Any], layer: Layer, device: str) -> dict[str, Callable[[], Function]]:
    """How each contestant is made."""
    import torch

    found: dict[str, Callable[[], Function]] = {}
    for way in row["ways"]:
        name = f"catdiag, products={way['products']}"
        found[name] = lambda way=way: ours(folder, row, way, layer)
        if device == "cuda" and way["products"] == "triton":
            found[f"{name}, ordinary launches"] = lambda way=way: ours(folder, row, way, layer, False)
    found["eager, SDPA"] = lambda: lambda: layer.eager(fused(""))
    if device == "cuda":
        found["eager, cuDNN"] = lambda: lambda: layer.eager(fused("CUDNN_ATTENTION"))
        found["torch.compile"] = lambda: torch.compile(lambda: layer.eager(fused("")))
        found["torch.compile, cuDNN"] = lambda: torch.compile(lambda: layer.eager(fused("CUDNN_ATTENTION")))
    return found


def graphed(function: Function) -> Function:
    """A function's launches as a CUDA graph."""
    import torch

    for _ in range(3):
        function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = function()

    def replay() -> Any:
        graph.replay()
        return out

    return replay


def run_case(folder: Path, row: Mapping[str, Any], device: str, rounds: int) -> dict[str, Any]:
    """The errors, times and memory of the contestants of a case."""
    import torch

    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[row["dtype"]]
    layer = Layer(row["sizes"], dtype, device)
    wanted = layer.wide().eager(plain)
    ready: dict[str, Function] = {}
    found: dict[str, Any] = {}
    for name, make in contestants(folder, row, layer, device).items():
        said = found[name] = {}
        try:
            function = make()
            out = function()
            said["error"] = float((out.double() - wanted).norm() / wanted.norm())
            if not said["error"] <= TOLERANCE:
                said["failure"] = f"an error of {said['error']:.2g}"
                continue
            if device == "cuda":
                del out
                torch.cuda.synchronize()
                before = torch.cuda.memory_allocated()
                torch.cuda.reset_peak_memory_stats()
                function()
                torch.cuda.synchronize()
                said["peak_bytes"] = torch.cuda.max_memory_allocated() - before
                if layer.decoding:
                    function = graphed(function)
                    again = function()
                    said["error"] = float((again.double() - wanted).norm() / wanted.norm())
                    if not said["error"] <= TOLERANCE:
                        said["failure"] = f"an error of {said['error']:.2g} as a graph"
                        continue
            ready[name] = function
        except Exception as error:  # a contestant that fails is a row of the table
            said["failure"] = f"{type(error).__name__}: {str(error)[:300]}"
    if device == "cuda":
        for name, time_s in timed_in_rounds(ready, rounds).items():
            found[name].update(time_s)
    return {"name": row["name"], "sizes": row["sizes"], "contestants": found}


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as text: milliseconds, the quickest peer's time over each, error, and peak memory."""
    lines: list[str] = []
    for row in rows:
        peers = [c["time_s"] for n, c in row["contestants"].items() if not n.startswith("catdiag") and "time_s" in c]
        lines.append(row["name"])
        for name, c in row["contestants"].items():
            if "time_s" not in c:
                lines.append(f"  {name:32} {c.get('failure') or 'error ' + format(c['error'], '.2e')}")
                continue
            ratio = f"{min(peers) / c['time_s']:.3f} × the quickest peer" if peers else ""
            lines.append(f"  {name:32} {1e3 * c['time_s']:8.4f} ms  {ratio}  error {c['error']:.2e}  "
                         f"peak {c['peak_bytes'] / 2**20:,.0f} MiB")  # fmt: skip
    return "\n".join(lines)


def run(
    folder: Path, results: Path, only: str, seconds: float, rounds: int, tiny: bool = False
) -> list[dict[str, Any]]:
    """Measures the cases, and writes each as soon as it is done."""
    import torch

    def measure(row: dict[str, Any], device: str) -> dict[str, Any]:
        if tiny:
            row["sizes"] = {n: min(size, 40) for n, size in row["sizes"].items()} | TINY
        with torch.no_grad():
            return run_case(folder, row, device, rounds)

    return measure_cases(folder / FILE, results, only, seconds, measure, lambda row: table([row]))


def main(arguments: list[str] | None = None) -> None:
    """Prepares, or runs."""
    parser = command_line(__doc__, "run on small arrays", 420)
    parser.add_argument("--products", default="triton,torch", help="who computes products, in plans of their own")
    given = parser.parse_args(arguments)
    if given.what == "prepare":
        prepare(given.folder, given.only, given.products.split(","), given.dtype, given.chip)
    else:
        run(given.folder, given.results or given.folder / RESULTS, given.only, given.seconds, given.rounds, given.tiny)


if __name__ == "__main__":
    main()
