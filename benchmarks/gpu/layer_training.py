"""Forward and backward passes of PyTorch layers, beside autograd's, compiled and with fused operators, on one GPU.

    python -m benchmarks.gpu.layer_training check [NAME…]             on the CPU, in float64 by NumPy, at small sizes
    python -m benchmarks.gpu.layer_training prepare FOLDER [NAME…]    where the solvers are: the modules of both passes
    python -m benchmarks.gpu.layer_training run FOLDER [NAME…]        where the GPU is; needs PyTorch and Triton

Layers are those of `layer_modules/trained_layers.py`, and all of `benchmarks.gpu.torch_layers` by name. Both passes are
those that `plan.compile()` gives to autograd. In bf16 results and gradients are compared with the layer in float64: the
error is the largest ‖out − ref‖ / ‖ref‖ of each pass, and one above 2e-2 is not timed. "quick" is the layer with
PyTorch's fused attention, norm or FlexAttention, where there is one, compiled. Contestants are CUDA graphs of each
pass.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.gpu.backward import largest_error  # noqa: E402
from benchmarks.gpu.layers import TOLERANCE, entry_of  # noqa: E402
from benchmarks.gpu.rounds import timed_in_rounds  # noqa: E402
from benchmarks.gpu.torch_layers import layers, own_tensors  # noqa: E402

FILE = "layer_training.json"
WORKERS = 10
"""Processes that compile and check at once."""
Function = Callable[..., Any]


def made(name: str, small: bool = False) -> tuple[Any, tuple[Any, ...]]:
    """A layer in evaluation, and example inputs: the same in each process."""
    import torch

    from benchmarks.gpu.layer_modules import gather_layers, trained_layers

    torch.manual_seed(0)
    known = {**layers(), **trained_layers.LAYERS}
    of_small = gather_layers.small if name in gather_layers.LAYERS else trained_layers.small
    module, inputs = of_small(name) if small else known[name]()
    return module.eval(), inputs


def differentiated(program: Any, module: Any, inputs: Sequence[Any]) -> list[int]:
    """The inputs of a program by which it is differentiated: real inputs of the layer, and trained parameters."""
    own, found = own_tensors(module), []
    for k, (source, ty) in enumerate(zip(program.example.sources, program.diagram.dom, strict=True)):
        tensor = inputs[source] if isinstance(source, int) else own.get(source)
        trained = isinstance(source, int) or (tensor is not None and tensor.requires_grad)
        if trained and tensor.is_floating_point() and ty.element == "real":
            found.append(k)
    return found


# -- where the solvers are ------------------------------------------------------------------------------------------


def check(names: Sequence[str]) -> None:
    """Compares both passes at small sizes by NumPy with autograd, in float64."""
    from benchmarks.gpu.layer_modules import trained_layers

    for name in names or trained_layers.LAYERS:
        begin = time.process_time()
        errors = errors_of_passes(name)
        seconds = time.process_time() - begin
        print(f"{name}: results {errors[0]:.1e}, gradients {errors[1]:.1e}, {seconds:.1f} s of CPU time", flush=True)


def errors_of_passes(name: str) -> tuple[float, float]:
    """The largest errors of results and of gradients of a layer at small sizes, in float64 by NumPy."""
    import numpy as np
    import torch

    import catdiag as cd
    from catdiag.execute.interpreter import run

    module, inputs = made(name, small=True)
    module, inputs = module.double(), tuple(a.double() if a.is_floating_point() else a for a in inputs)
    program, own = cd.from_torch(module, *inputs), own_tensors(module)
    example, wrt = program.example, differentiated(program, module, inputs)
    assert example is not None
    passes = program.forward_and_backward(wrt=wrt)
    arrays = [np.array(torch.as_tensor(a).detach()) for a in example.arrays]
    sizes = {key: int(size) for key, size in example.sizes.items()}
    leaves = [inputs[s] if isinstance(s, int) else own[s] for s in (example.sources[k] for k in wrt)]
    for leaf in leaves:
        leaf.requires_grad_()
    results = tuple_of(module(*inputs))
    cotangents = [torch.randn_like(a) for a in results]
    forward = tuple_of(run(passes.forward, arrays, sizes=sizes))
    read = [*(arrays[k] for k in passes.reads), *(forward[k] for k in passes.saved)]
    backward = tuple_of(run(passes.backward, [*read, *(cotangents[k].numpy() for k in passes.of)], sizes=sizes))
    gradients = torch.autograd.grad(results, leaves, cotangents)

    def error(found: Sequence[Any], wanted: Sequence[Any]) -> float:
        return max(float(np.abs(a - b.detach().numpy()).max()) for a, b in zip(found, wanted, strict=True))

    return error(forward[: len(results)], results), error(backward, gradients)


def tuple_of(found: Any) -> tuple[Any, ...]:
    """The results of a function."""
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)


def prepare(folder: Path, names: Sequence[str], chip: str, compiled: bool) -> None:
    """Writes the modules of both passes, constants that are no parameters, and a row of `layer_training.json`; with
    `compiled`, says where what the compiler takes is not what was planned."""
    import numpy as np

    import catdiag as cd
    from benchmarks.gpu.layer_modules import trained_layers
    from catdiag.planner.training_plans import training_plans
    from catdiag.util.files import write_whole

    folder.mkdir(parents=True, exist_ok=True)
    for name in names or trained_layers.LAYERS:
        module, inputs = made(name)
        program, begin = cd.from_torch(module, *inputs), time.process_time()
        example, wrt = program.example, differentiated(program, module, inputs)
        assert example is not None
        plans = training_plans(program.diagram, cd.hardware.get(chip), example.sizes, "bf16", wrt)
        seconds = time.process_time() - begin
        own, pairs = own_tensors(module), enumerate(zip(example.sources, example.arrays, strict=True))
        constants = {str(k): np.asarray(a) for k, (s, a) in pairs if not isinstance(s, int) and s not in own}
        np.savez(folder / f"{name}.npz", **constants)  # type: ignore[arg-type]
        row: dict[str, Any] = {key: getattr(plans.passes, key) for key in ("results", "reads", "saved", "of", "wrt")}
        row |= {"name": name, "sources": list(example.sources)}
        print(f"{name}: planned in {seconds:.1f} s of CPU time", flush=True)
        for part, plan in (("forward", plans.forward), ("backward", plans.backward)):
            write_whole(folder / f"{name}_{part}.txt", str(plan))
            if plan.module is None:
                print(f"  {part}: {plan.reason}", flush=True)
                continue
            write_whole(folder / f"{name}_{part}.py", plan.module.text)
            sizes = {symbol: int(plan.sizes[symbol]) for symbol in plan.module.hidden_sizes}
            row[part] = {"file": f"{name}_{part}.py", "entry": plan.module.entry, "sizes": sizes,
                         "predicted_s": plan.time_s}  # fmt: skip
            print(f"  {part}: {len(plan.kernels)} kernels, {1e6 * plan.time_s:.1f} µs predicted", flush=True)
            for line in differences(plan, f"{name}_{part}", chip) if compiled else ():
                print(f"    {line}", flush=True)
        if "forward" in row and "backward" in row:
            write_whole(folder / f"{name}.json", json.dumps(row))


def differences(plan: Any, name: str, chip: str) -> list[str]:
    """Where what the compiler takes of a plan's kernels is not what was planned."""
    from benchmarks.resources import ARCHITECTURES, compared
    from catdiag.planner.plan import TRITON

    arch, found = ARCHITECTURES[chip.upper()], []
    for place, kernel in enumerate(plan.kernels, 1):
        try:
            one = compared(name, place, kernel, arch) if kernel.backend == TRITON else None
        except Exception as error:  # a kernel that does not compile is a line of the list
            found.append(f"kernel {place}: {type(error).__name__}: {str(error)[:300]}")
            continue
        if one is not None and (not one.near or one.overflows or one.fewer_blocks or one.unwritten):
            found.append(str(one))
    return found


# -- where the GPU is -----------------------------------------------------------------------------------------------


class Case:
    """A layer in bf16: its arrays, and its results and gradients in float64."""

    def __init__(self, folder: Path, row: Mapping[str, Any]) -> None:
        import numpy as np
        import torch

        self.row, (module, inputs) = row, made(row["name"])
        for tensor in own_tensors(module).values():
            tensor.data = narrow(tensor.data)
        self.module, self.given = module.cuda(), [narrow(a.cuda()) for a in inputs]
        own, constants = own_tensors(self.module), np.load(folder / f"{row['name']}.npz")
        self.arrays = [
            self.given[s]
            if isinstance(s, int)
            else own[s]
            if s in own
            else narrow(torch.tensor(constants[str(k)]).cuda())
            for k, s in enumerate(row["sources"])
        ]
        self.leaves = [self.arrays[k] for k in row["wrt"]]
        torch.manual_seed(1)
        shapes = tuple_of(self.module(*self.given))
        self.cotangents = [torch.randn_like(a) for a in shapes]
        self.wanted = self.exact()
        for leaf in self.leaves:
            leaf.requires_grad_()

    def exact(self) -> tuple[list[Any], list[Any]]:
        """Results and gradients in float64."""
        import copy

        import torch

        module, given = copy.deepcopy(self.module).double(), [wide(a.detach()) for a in self.given]
        own, sources = own_tensors(module), self.row["sources"]
        leaves = [given[s] if isinstance(s, int) else own[s] for s in (sources[k] for k in self.row["wrt"])]
        for leaf in leaves:
            leaf.requires_grad_()
        results = tuple_of(module(*given))
        return [a.detach() for a in results], torch.autograd.grad(results, leaves, [wide(c) for c in self.cotangents])

    def ours(self, folder: Path) -> tuple[Function, Function]:
        """Both passes by kernels: the forward pass gives results, then what is saved. Numbers are the host's."""
        row, arrays = self.row, [number(a.detach()) for a in self.arrays]
        forward, backward = (
            partial(entry_of(folder, row[part]), **row[part]["sizes"]) for part in ("forward", "backward")
        )
        made = tuple_of(forward(*arrays))
        read = [*(arrays[k] for k in row["reads"]), *(made[k] for k in row["saved"])]
        cotangents = [number(self.cotangents[k]) for k in row["of"]]
        return lambda: tuple_of(forward(*arrays)), lambda: tuple_of(backward(*read, *cotangents))

    def autograd(self, function: Function) -> tuple[Function, Function]:
        """Both passes by autograd, which saves what it likes."""
        import torch

        results = tuple_of(function(*self.given))
        return lambda: tuple_of(function(*self.given)), lambda: torch.autograd.grad(
            results, self.leaves, self.cotangents, retain_graph=True
        )

    def contestants(self, folder: Path) -> Mapping[str, Callable[[], tuple[Function, Function]]]:
        """What makes both passes, by name."""
        import torch

        found: dict[str, Callable[[], tuple[Function, Function]]] = {"ours": lambda: self.ours(folder)}
        found["torch.compile"] = lambda: self.autograd(torch.compile(self.module, dynamic=False))
        if hasattr(self.module, "quick"):
            found["quick"] = lambda: self.autograd(torch.compile(self.module.quick, dynamic=False))
        return found


def number(tensor: Any) -> Any:
    """The number that a tensor without axes holds; other tensors as they are."""
    return tensor.item() if tensor.dim() == 0 else tensor


def narrow(tensor: Any) -> Any:
    """In bf16, if it holds real numbers."""
    import torch

    return tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor


def wide(tensor: Any) -> Any:
    """In float64, if it holds real numbers."""
    return tensor.double() if tensor.is_floating_point() else tensor


def graphed(function: Function) -> Function:
    """A function's launches as a CUDA graph, on the stream on which autograd's forward pass ran."""
    import torch

    function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        function()
    return graph.replay


def run_case(folder: Path, name: str, rounds: int) -> None:
    """Prints the errors of a layer's contestants; then, once a line is read, the microseconds of both passes."""
    import torch
    import torch._functorch.config

    row = json.loads((folder / f"{name}.json").read_text("utf-8"))
    torch._functorch.config.donated_buffer = False  # a pass is run again on what was saved
    predicted = [1e6 * row[part]["predicted_s"] for part in ("forward", "backward")]
    found: dict[str, Any] = {"name": name, "predicted": predicted}
    passes: dict[str, tuple[Function, Function]] = {}
    with torch.cuda.stream(torch.cuda.Stream()):
        case = Case(folder, row)
        for who, make in case.contestants(folder).items():
            found[who] = said = {}
            try:
                both = make()
                said["errors"] = [largest_error(f()[: len(ref)], ref) for f, ref in zip(both, case.wanted, strict=True)]
                torch.cuda.synchronize()
            except Exception as error:  # a contestant that fails is told
                said["failure"] = f"{type(error).__name__}: {str(error)[-400:]}"
            if all(e <= TOLERANCE for e in said.get("errors", (1.0,))):
                passes[who] = both
        case.wanted = ([], [])
        torch.cuda.empty_cache()
        print(json.dumps(found), flush=True)
        if not rounds or not sys.stdin.readline().strip():
            return
        graphs = {
            f"{who}, {part}": graphed(f)
            for who, both in passes.items()
            for part, f in zip(("forward", "backward"), both, strict=True)
        }
        for key, times in timed_in_rounds(graphs, rounds).items():
            who, part = key.rsplit(", ", 1)
            found[who][part] = 1e6 * times["time_s"]
    print(json.dumps(found), flush=True)


def run(folder: Path, names: Sequence[str], rounds: int, seconds: float) -> None:
    """Compiles and checks layers, each in a process of its own, several at once; then has one after the other timed.
    Prints a line for each."""
    import torch
    import triton

    until = time.perf_counter() + seconds
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__, "Triton", triton.__version__, flush=True)

    def started(name: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "benchmarks.gpu.layer_training", "case", str(folder), name]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen([*command, "--rounds", str(rounds)], text=True, cwd=ROOT, **pipes)
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline().strip()
        print(line or f"{name}: {process.stderr.read()[-600:]}", flush=True)
        return process

    with ThreadPoolExecutor(WORKERS) as workers:
        processes = list(workers.map(started, names or sorted(file.stem for file in folder.glob("*.json"))))
    for process in processes:
        assert process.stdin is not None
        if process.poll() is None:
            said, error = process.communicate("time\n" if time.perf_counter() < until else "\n")
            print(said.strip() or error[-600:], flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Checks, prepares or runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("check", "prepare", "run", "case"))
    parser.add_argument("folder_and_names", nargs="*")
    parser.add_argument("--chip", default="h200")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=240, help="no layer is timed after so many seconds")
    parser.add_argument("--compiled", action="store_true", help="compile what is prepared, and compare with the plan")
    given = parser.parse_args(arguments)
    if given.what == "check":
        check(given.folder_and_names)
        return
    folder, names = Path(given.folder_and_names[0]), given.folder_and_names[1:]
    if given.what == "prepare":
        prepare(folder, names, given.chip, given.compiled)
    elif given.what == "run":
        run(folder, names, given.rounds, given.seconds)
    else:
        run_case(folder, names[0], given.rounds)


if __name__ == "__main__":
    main()
