"""The backward pass of attention beside those of `scaled_dot_product_attention`, on one GPU.

    python -m benchmarks.gpu.backward prepare FOLDER     where the solvers are: the kernels as text
    python -m benchmarks.gpu.backward run FOLDER         where the GPU is; needs PyTorch and Triton

Ours is three kernels (`examples.backward_passes`): D, then dQ, then dK and dV, from the log-sum-exp of the forward pass
in fp32; the time of all three is counted. "One kernel" is two: D, then dQ, dK and dV in one kernel of five products, in
which each group of keys adds to dQ in fp32; the time to clear dQ and to round it is counted; in the deterministic form
each group stores its part, and the parts are summed up in order. Theirs is `autograd` of
the forward pass, which is run once beforehand. Every contestant is checked against float64 first: the error is the
largest ‖out − ref‖ / ‖ref‖ of dQ, dK and dV, and one above 2e-2 is not timed. Then they are timed in rounds, each round
in another order, and medians are compared. Rates are by five products, whoever makes seven. `results.json` has a row
for each case as soon as it is measured.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.gpu.layers import entry_of  # noqa: E402
from benchmarks.gpu.rounds import command_line, measure_cases, timed_in_rounds  # noqa: E402

FILE, RESULTS = "backward.json", "results.json"
TOLERANCE = 2e-2
HEADS, TOKENS = 16, 8192
GRADIENTS = ("out0", "out1", "out2")
STATISTICS = {"L": "fp32", "D": "fp32"}
FURTHER = (({"g_x": 128, "s_q": 64}, 2, 8, True), ({"g_x": 128, "s_q": 32}, 2, 8, True),
           ({"g_x": 128, "s_q": 32}, 3, 8, True), ({"g_x": 64, "s_q": 64}, 2, 4, False))  # fmt: skip
"""Other configurations of dK and dV that are timed by themselves: tiles, stages, warps, and warp specialization."""
ADDING = {128: (({"g_x": 128, "s_q": 32}, 2, 8), ({"g_x": 128, "s_q": 32}, 3, 8), ({"g_x": 128, "s_q": 64}, 2, 8),
                ({"g_x": 64, "s_q": 32}, 2, 4), ({"g_x": 64, "s_q": 64}, 2, 8)),
          64: (({"g_x": 128, "s_q": 64}, 2, 8), ({"g_x": 128, "s_q": 32}, 3, 8), ({"g_x": 64, "s_q": 64}, 2, 4),
               ({"g_x": 128, "s_q": 64}, 3, 8), ({"g_x": 64, "s_q": 32}, 3, 4))}  # fmt: skip
"""Configurations of the kernel that adds to dQ, by width: tiles, stages, warps."""
ONE = "one kernel, "
PEERS = {"cuDNN": "CUDNN_ATTENTION", "FlashAttention-2": "FLASH_ATTENTION"}
Function = Callable[[], Any]


# -- where the solvers are ------------------------------------------------------------------------------------------


def prepare(folder: Path, only: str, dtype: str, chip: str) -> None:
    """Writes the modules of each case, and `backward.json`."""
    import examples.backward_passes as programs
    from catdiag.codegen.triton.triton_module import module
    from catdiag.util.files import write_whole

    folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for width in (128, 64):
        for causal in (False, True):
            name = f"d {width}{', causal' * causal}"
            if only not in name:
                continue
            sizes = {"h": HEADS, "q": TOKENS, "x": TOKENS, "d": width, "v": width}
            sums = programs.row_products.group("h q")
            dq = (programs.causal_dq if causal else programs.attention_dq).stream("x")
            dkv = (programs.causal_dkv if causal else programs.attention_dkv).stream("q")
            forms = {
                "D": (sums, {"out": "fp32"}),
                "dQ": ((dq.skip("x") if causal else dq).group("h q"), {"out": dtype}),
                "dK,dV": ((dkv.skip("q") if causal else dkv).group("h x"), {"out0": dtype, "out1": dtype}),
            }
            modules: dict[str, Any] = {}
            for kernel, (form, results) in forms.items():
                needed = {a.size for ty in form.dom for a in ty.axes}
                types = {n: STATISTICS.get(n, dtype) for n in form.diagram.input_names} | results
                plan = form.plan(chip, {n: s for n, s in sizes.items() if n in needed}, dtype=types)
                made = plan.written()
                file = f"{kernel.replace(',', '_')}_{width}{'_causal' * causal}.py"
                write_whole(folder / file, made.text)
                modules[kernel] = {"file": file, "entry": made.entry, "predicted_s": plan.time_s, "plan": str(plan)}
                print(f"{name}, {kernel}: {1e6 * plan.time_s:,.0f} µs predicted", flush=True)
            form, results = forms["dK,dV"]
            types = {n: STATISTICS.get(n, dtype) for n in form.diagram.input_names} | results
            for number, (tiles, stages, warps, specialized) in enumerate(FURTHER):
                made = module(form, {"g_h": 1, **tiles}, types, stages=stages, warps=warps, specialized=specialized)
                file = f"further{number}_{width}{'_causal' * causal}.py"
                write_whole(folder / file, made.text)
                words = ", ".join(f"{n}={t}" for n, t in tiles.items())
                title = f"dK,dV, {words}, {stages} stages, {warps} warps{', specialized' * specialized}"
                modules[title] = {"file": file, "entry": made.entry}
            adding = (programs.causal_dqkv if causal else programs.attention_dqkv).stream("q").group("h x")
            types = {n: STATISTICS.get(n, dtype) for n in adding.diagram.input_names} | dict.fromkeys(GRADIENTS, dtype)
            for number, (tiles, stages, warps) in enumerate(ADDING[width]):
                made = module(adding, {"g_h": 1, **tiles}, types, stages=stages, warps=warps)
                file = f"adding{number}_{width}{'_causal' * causal}.py"
                write_whole(folder / file, made.text)
                words = ", ".join(f"{n}={t}" for n, t in tiles.items())
                modules[f"{ONE}{words}, {stages} stages, {warps} warps"] = {"file": file, "entry": made.entry}
            rows.append({"name": name, "sizes": sizes, "dtype": dtype, "causal": causal, "modules": modules})
            write_whole(folder / FILE, json.dumps(rows, ensure_ascii=False, indent=1))


# -- where the GPU is -----------------------------------------------------------------------------------------------


class Case:
    """The arrays of a case, with the batch of one that PyTorch wants, and the gradients in float64."""

    def __init__(self, row: Mapping[str, Any], device: str) -> None:
        import torch

        s, made = row["sizes"], torch.Generator(device).manual_seed(0)
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[row["dtype"]]
        self.causal, self.scale = row["causal"], 1 / math.sqrt(s["d"])

        def normal() -> Any:
            return torch.randn(s["h"], s["q"], s["d"], generator=made, device=device).to(dtype)

        self.Q, self.K, self.V, self.dO = (normal() for _ in range(4))
        self.O, self.L = torch.empty_like(self.Q), torch.empty(s["h"], s["q"], device=device)
        self.wanted = [torch.empty_like(self.Q, dtype=torch.float64) for _ in range(3)]
        for h in range(s["h"]):
            for stored, found in zip((self.O, self.L, *self.wanted), self._head(h), strict=True):
                stored[h] = found.to(stored.dtype)

    def _head(self, h: int) -> tuple[Any, ...]:
        """O, L, dQ, dK and dV of a head, in float64."""
        import torch

        Q, K, V, dO = (a[h].double() for a in (self.Q, self.K, self.V, self.dO))
        S = Q @ K.T * self.scale
        if self.causal:
            S.masked_fill_(torch.ones(S.shape, dtype=torch.bool, device=S.device).triu(1), -math.inf)
        L = torch.logsumexp(S, -1)
        P = S.sub_(L[:, None]).exp_()
        out = P @ V
        dV = P.T @ dO
        dS = P.mul_(dO @ V.T - (dO * out).sum(-1)[:, None])
        return out, L, dS @ K * self.scale, dS.T @ Q * self.scale, dV

    def error(self, found: tuple[Any, ...]) -> float:
        """The largest relative error of the gradients."""
        return largest_error(found, self.wanted)


def largest_error(found: Any, wanted: Sequence[Any]) -> float:
    """The largest ‖out − ref‖ / ‖ref‖ of some arrays."""
    pairs = zip(found if isinstance(found, tuple) else (found,), wanted, strict=True)
    return max(float((a.double().reshape(b.shape) - b).norm() / b.norm()) for a, b in pairs)


def ours(folder: Path, row: Mapping[str, Any], case: Case) -> Function:
    """The three kernels as one function."""
    sums, dq, dkv = (entry_of(folder, row["modules"][name]) for name in ("D", "dQ", "dK,dV"))

    def backward() -> Any:
        arrays = case.Q, case.K, case.V, case.dO, case.L, sums(case.dO, case.O)
        return (dq(*arrays), *dkv(*arrays))

    return backward


def ours_in_one(folder: Path, row: Mapping[str, Any], name: str, case: Case, **options: Any) -> Function:
    """D, and the kernel that adds to dQ, as one function."""
    sums, rest = entry_of(folder, row["modules"]["D"]), entry_of(folder, row["modules"][name])
    return lambda: rest(case.Q, case.K, case.V, case.dO, case.L, sums(case.dO, case.O), **options)


def single(folder: Path, row: Mapping[str, Any], name: str, case: Case) -> Function:
    """One kernel by itself."""
    entry = entry_of(folder, row["modules"][name])
    if name == "D":
        return lambda: entry(case.dO, case.O)
    D = (case.dO.float() * case.O.float()).sum(-1)
    return lambda: entry(case.Q, case.K, case.V, case.dO, case.L, D)


def theirs(backend: str, case: Case) -> Function:
    """The backward pass of PyTorch's attention by one of its backends."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    inputs = [a[None].detach().requires_grad_() for a in (case.Q, case.K, case.V)]
    with sdpa_kernel([getattr(SDPBackend, backend)]):
        out = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=case.causal)
    return lambda: torch.autograd.grad(out, inputs, case.dO[None], retain_graph=True)


def run_case(folder: Path, row: Mapping[str, Any], device: str, rounds: int) -> dict[str, Any]:
    """The errors and times of the contestants of a case."""
    case, found = Case(row, device), dict[str, Any]()
    ready: dict[str, Function] = {}

    def enter(name: str, make: Callable[[], Function], error: Callable[[Any], float] = case.error) -> None:
        said = found[name] = {}
        try:
            function = make()
            said["error"] = error(function())
            if said["error"] <= TOLERANCE:
                ready[name] = function
            else:
                said["failure"] = f"an error of {said['error']:.2g}"
        except Exception as error:  # a contestant that fails is a row of the table
            said["failure"] = f"{type(error).__name__}: {str(error)[:300]}"

    enter("catdiag", lambda: ours(folder, row, case))
    for name, backend in PEERS.items() if device == "cuda" else ():
        enter(name, lambda backend=backend: theirs(backend, case))
    wanted = {"D": [(case.dO.double() * case.O.double()).sum(-1)], "dQ": case.wanted[:1]}
    for name in row["modules"]:
        if name.startswith(ONE):
            enter(f"catdiag, {name}", lambda name=name: ours_in_one(folder, row, name, case))
            enter(f"catdiag, {name}, deterministic",
                  lambda name=name: ours_in_one(folder, row, name, case, deterministic=True))  # fmt: skip
            continue
        references = wanted.get(name, case.wanted[1:])
        enter(f"catdiag, {name}", lambda name=name: single(folder, row, name, case),
              lambda out, references=references: largest_error(out, references))  # fmt: skip
    if device == "cuda":
        for name, time_s in timed_in_rounds(ready, rounds).items():
            found[name].update(time_s)
    return {**row, "contestants": found}


def table(row: Mapping[str, Any]) -> str:
    """A row as text: milliseconds, TFLOP/s by five products (without what a causal mask empties), and errors."""
    s = row["sizes"]
    flops = 5 * 2 * s["h"] * s["q"] * s["x"] * s["d"] / (2 if row["causal"] else 1)
    lines = [row["name"]]
    for name, c in row["contestants"].items():
        if "time_s" not in c:
            lines.append(f"  {name:60} {c.get('failure') or 'error ' + format(c['error'], '.2e')}")
            continue
        kernel = name.removeprefix("catdiag, ")
        predicted = row["modules"].get(kernel, {}).get("predicted_s")
        rate = (
            ""
            if kernel in row["modules"] and not kernel.startswith(ONE)
            else f"{flops / c['time_s'] / 1e12:.0f} TFLOP/s  "
        )
        beside = f"  {1e3 * predicted:.4f} ms predicted" if predicted else ""
        lines.append(f"  {name:60} {1e3 * c['time_s']:8.4f} ms  {rate}error {c['error']:.2e}{beside}")
    return "\n".join(lines)


def run(folder: Path, results: Path, only: str, seconds: float, rounds: int, tiny: bool) -> None:
    """Measures the cases, and writes each as soon as it is done."""

    def measure(row: dict[str, Any], device: str) -> dict[str, Any]:
        if tiny:
            row["sizes"] = {n: min(size, {"h": 2}.get(n, 40)) for n, size in row["sizes"].items()}
        return run_case(folder, row, device, rounds)

    measure_cases(folder / FILE, results, only, seconds, measure, table)


def main(arguments: list[str] | None = None) -> None:
    """Prepares, or runs."""
    parser = command_line(__doc__, "small arrays (a CPU has fp16 only, TRITON_INTERPRET=1)", 300)
    given = parser.parse_args(arguments)
    if given.what == "prepare":
        prepare(given.folder, given.only, given.dtype, given.chip)
    else:
        run(given.folder, given.results or given.folder / RESULTS, given.only, given.seconds, given.rounds, given.tiny)


if __name__ == "__main__":
    main()
