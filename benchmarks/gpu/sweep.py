"""Every operator of the library on a GPU, sums of columns, and random programs: is each right, and is any slow?

    python -m benchmarks.gpu.sweep prepare FOLDER                              where the solvers are
    python -m benchmarks.gpu.sweep run FOLDER --write docs/results/kernel_sweep.md     where the GPU is

The kernels are those of `Program.plan`. Cases run in processes that are started anew where a kernel
leaves the GPU unusable for them or takes too long; each row is kept (`rows.jsonl` in the folder) as soon as it is
known, and a run goes on where the last one stopped. Results are checked against the meaning in float64 and lie in the
middle of memory that is full of NaN, as inputs do: what is not written, and what is written outside, shows. The large
ones are timed beside the textbook form by torch.compile, while no other process computes.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import math
import multiprocessing
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.gpu.sweep_list import PLANS, RANDOM, STRIDED, Swept, by_chance, names, of_operator  # noqa: E402
from benchmarks.gpu.sweep_page import FAILED, LATE, REFUSED, RIGHT, VAGUE, WRONG, Row, page, row_text  # noqa: E402
from catdiag.measure.bench import BenchDevice, of_kernels, raised, reason, torch_reference_of, versions  # noqa: E402
from catdiag.measure.bench_case import ArraySpec, BenchCase  # noqa: E402
from catdiag.measure.device_timer import interleaved  # noqa: E402
from catdiag.measure.output_check import (  # noqa: E402
    TORCH,
    UndefinedReference,
    WrongResult,
    check,
    inputs_of,
    reference,
)
from catdiag.util.files import write_whole  # noqa: E402

PART = ".part.jsonl"
_TOGETHER = 10
"""How many random programs a seed makes."""
_MARGIN = 128
"""Entries before and after an array that nobody may read or write."""
_SECONDS = {True: 75.0, False: 30.0}
"""How long a case may take, timed or not."""
_LOST = -(2**40)
"""What integers are where they should not be read or were not written."""


# -- arrays ----------------------------------------------------------------------------------------------------------


def within(shape: Sequence[int], dtype: Any, device: str, layout: str, number: int) -> tuple[Any, Any]:
    """A tensor of a shape in the middle of memory full of NaN (integers: of what is no number of theirs), and all of
    that memory. Strided ones are transposed, with gaps between rows, or every other entry."""
    import torch

    if layout == STRIDED and len(shape) > 1 and number % 2 == 0:
        sizes, order = [*shape[:-2], shape[-1], shape[-2] + 3], "turned"
    elif layout == STRIDED and len(shape) > 1:
        sizes, order = [*shape[:-1], shape[-1] + 5], "rows"
    elif layout == STRIDED:
        sizes, order = [*shape[:-1], 2 * shape[-1] + 1], "every other"
    else:
        sizes, order = list(shape), ""
    count = math.prod(sizes)
    if dtype == torch.bool:
        whole = torch.ones(count + 2 * _MARGIN, dtype=dtype, device=device)
    elif dtype.is_floating_point:
        whole = torch.full((count + 2 * _MARGIN,), math.nan, dtype=torch.float32, device=device).to(dtype)
    else:
        whole = torch.full((count + 2 * _MARGIN,), _LOST, dtype=dtype, device=device)
    view = whole[_MARGIN : _MARGIN + count].view(sizes)
    if order == "turned":
        view = view[..., 1 : 1 + shape[-2]].transpose(-1, -2)
    elif order == "rows":
        view = view[..., 3 : 3 + shape[-1]]
    elif order == "every other":
        view = view[..., 1::2]
    assert tuple(view.shape) == tuple(shape)
    return view, whole


def laid(inputs: Sequence[Any], arrays: Sequence[ArraySpec], layout: str, device: str) -> list[Any]:
    """The inputs again, in a layout."""
    import torch

    found = []
    for number, (value, array) in enumerate(zip(inputs, arrays, strict=True)):
        if not array.axes:
            found.append(value)
            continue
        view, _ = within(array.shape, value.dtype, device, layout, number)
        if value.element_size() == 1:
            view.view(torch.uint8).copy_(value.view(torch.uint8))
        else:
            view.copy_(value)
        found.append(view)
    return found


def untouched(whole: Any, view: Any) -> bool:
    """Whether memory around a result is as it was; the result itself is overwritten."""
    import torch

    if whole.dtype == torch.bool:
        view.fill_(True)
        return bool(whole.all())
    if whole.dtype.is_floating_point:
        view.fill_(math.nan)
        return bool(torch.isnan(whole.to(torch.float32)).all())
    view.fill_(_LOST)
    return bool((whole == _LOST).all())


# -- a case ----------------------------------------------------------------------------------------------------------


class Turn:
    """Who may use the GPU: many who compute, or one who measures; a process that ends gives its turn back."""

    def __init__(self, place: Path) -> None:
        self.gate, self.room = place.with_suffix(".gate"), place.with_suffix(".room")

    @contextmanager
    def taken(self, alone: bool) -> Iterator[None]:
        """Waits for the turn."""
        with self.gate.open("a") as gate, self.room.open("a") as room:
            fcntl.flock(gate, fcntl.LOCK_EX)
            fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            fcntl.flock(gate, fcntl.LOCK_UN)
            yield


def run_one(item: Swept, machine: BenchDevice, turn: Turn, rounds: int, seed: int) -> Row:
    """Checks a case, and times it if that is asked. Raises nothing that a kernel raises."""
    started, case = time.perf_counter(), item.case
    about = case.kernels[0].about if case.kernels else ""
    row = Row(case.name, case.group, case.operator, item.kind, case.dtype, item.layout, RIGHT, about=about)
    if not case.kernels:
        row.outcome, row.failure = REFUSED, case.refused
        return row
    machine.fresh()
    functions: dict[str, Any] = {}
    inputs: list[Any] = []
    try:
        inputs = laid(inputs_of(case, machine.device, seed), case.inputs, item.layout, machine.device)
        row.failure = "the kernel: "
        ours = of_kernels(case)[0].build()
        found = _checked(case, item, ours, inputs, machine, turn)
        row.error, row.worst, row.failure = found.error, found.worst, ""
        functions["ours"] = ours
    except raised() as error:
        undefined = isinstance(error, UndefinedReference)
        row.outcome = VAGUE if undefined else WRONG if isinstance(error, WrongResult) else FAILED
        row.failure = reason(error)
    if item.timed and row.outcome == RIGHT:
        try:
            peer = (
                torch_reference_of(case).build()
                if machine.device == "cuda"
                else torch_reference_of(case, lambda f: f).build()
            )
            peer(*inputs)
            functions["peer"] = peer
        except raised() as error:
            row.peer_failure = reason(error)
        if machine.alive():
            with turn.taken(alone=True):
                calls = {name: _calling(function, inputs) for name, function in functions.items()}
                times, failed = interleaved(calls, machine.clock, rounds=rounds, warm_ms=20.0, batch_ms=2.0)
            row.ours_ms = times["ours"].median_ms if "ours" in times else None
            row.peer_ms = times["peer"].median_ms if "peer" in times else None
            if "peer" in failed:
                row.peer_failure = reason(failed["peer"])
            forget = getattr(machine.clock, "forget", None)
            if forget is not None:
                forget()
    row.seconds = time.perf_counter() - started
    return row


def _calling(function: Any, inputs: Sequence[Any]) -> Any:
    return lambda k: function(*inputs)


def _checked(case: BenchCase, item: Swept, ours: Any, inputs: Sequence[Any], machine: BenchDevice, turn: Turn) -> Any:
    import torch

    places = [
        within(a.shape, getattr(torch, TORCH[a.dtype]), machine.device, item.layout if a.axes else "", k + 1)
        for k, a in enumerate(case.outputs)
    ]
    outputs = [view for view, _ in places]
    ours(*inputs, out=outputs[0] if len(outputs) == 1 else tuple(outputs))
    with turn.taken(alone=False):
        meant = reference(case, inputs, machine.budget_bytes)
        found = check(case, outputs, meant)
        for array, (view, whole) in zip(case.outputs, places, strict=True):
            if not untouched(whole, view):
                raise WrongResult(f"memory around result {array.name} was written to")
    return found


# -- processes -------------------------------------------------------------------------------------------------------


def work(pipe: Connection, items: Sequence[Swept], device: str, turn: Turn, rounds: int) -> None:
    """Runs the cases whose numbers it is sent, and sends back rows; ends where the GPU no longer answers."""
    _imported(device)
    machine = BenchDevice.gpu() if device == "cuda" else BenchDevice("cpu", Wall())
    machine = replace(machine, budget_bytes=float(2**30))
    while True:
        number = pipe.recv()
        if number is None:
            return
        row = run_one(items[number], machine, turn, rounds, seed=number)
        alive = machine.alive()
        pipe.send((asdict(row), alive))
        if not alive:
            os._exit(1)


class Wall:
    """A clock of the processor."""

    def time(self, call: Any, times: int) -> float:
        """Milliseconds of a call."""
        start = time.perf_counter()
        for k in range(times):
            call(k)
        return (time.perf_counter() - start) * 1e3 / times


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    number: int | None = None
    since: float = 0.0


class Pool:
    """Processes that each run one case at a time; what takes too long is ended, and a new one takes its place."""

    def __init__(self, items: Sequence[Swept], device: str, place: Path, rounds: int, workers: int) -> None:
        self.items, self.device, self.rounds = items, device, rounds
        self.turn = Turn(place)
        self.make = multiprocessing.get_context("spawn")
        self.workers = [self._started() for _ in range(workers)]

    def _started(self) -> _Worker:
        here, there = self.make.Pipe()
        process = self.make.Process(
            target=work, args=(there, self.items, self.device, self.turn, self.rounds), daemon=True
        )
        process.start()
        there.close()
        return _Worker(process, here)

    def run(self, todo: Sequence[int], until: float) -> Iterator[Row]:
        """Rows as they come, until the time is over."""
        left = list(reversed(todo))
        while time.time() < until:
            for k, worker in enumerate(self.workers):
                if worker.number is not None and time.time() - worker.since > self._limit(worker.number):
                    yield self._lost(k, LATE, f"not done after {self._limit(worker.number):.0f} s")
                    worker = self.workers[k]
                if worker.number is None and left:
                    worker.number, worker.since = left.pop(), time.time()
                    worker.pipe.send(worker.number)
            busy = [w for w in self.workers if w.number is not None]
            if not busy:
                return
            for pipe in wait([w.pipe for w in busy], timeout=0.5):
                k = next(k for k, w in enumerate(self.workers) if w.pipe is pipe)
                try:
                    data, alive = self.workers[k].pipe.recv()
                except (EOFError, OSError):
                    yield self._lost(k, FAILED, "the process ended")
                    continue
                self.workers[k].number = None
                yield Row(**data)
                if not alive:
                    self._anew(k)

    def _limit(self, number: int) -> float:
        return _SECONDS[self.items[number].timed]

    def _lost(self, k: int, outcome: str, why: str) -> Row:
        number = self.workers[k].number
        assert number is not None
        item = self.items[number]
        self._anew(k)
        case = item.case
        return Row(case.name, case.group, case.operator, item.kind, case.dtype, item.layout, outcome, why,
                   about=case.kernels[0].about if case.kernels else "")  # fmt: skip

    def _anew(self, k: int) -> None:
        self.workers[k].process.kill()
        self.workers[k].process.join()
        self.workers[k] = self._started()

    def close(self) -> None:
        """Ends all processes."""
        for worker in self.workers:
            worker.process.kill()
            worker.process.join()


# -- what is kept ----------------------------------------------------------------------------------------------------


def read(folder: Path) -> list[Swept]:
    """The cases of a folder: all operators in the first way, then all in the next, so that a run that is out of time
    leaves out what matters least."""
    lines = [line for place in sorted(folder.glob(f"*{PART}")) for line in place.read_text("utf-8").splitlines()]
    items = [Swept.of(json.loads(line)) for line in lines if line.strip()]
    order = {way: k for k, way in enumerate(PLANS)}
    return sorted(items, key=lambda i: order.get((i.kind, i.case.dtype, i.layout), len(order)))


def kept(rows: Path) -> dict[str, Row]:
    """The rows of a file by case; of a case that was run again, the last."""
    found: dict[str, Row] = {}
    for line in rows.read_text(encoding="utf-8").splitlines() if rows.exists() else []:
        try:
            row = Row(**json.loads(line)["row"])
        except (json.JSONDecodeError, KeyError):  # a line that was cut off, or says what ran it
            continue
        found[row.case] = row
    return found


def prepare(options: argparse.Namespace) -> None:
    """Derives all cases and writes them."""
    options.folder.mkdir(parents=True, exist_ok=True)
    jobs: dict[Path, tuple[Any, ...]] = {}
    for name in options.names or names():
        jobs[options.folder / f"{name}.{options.part_name}{PART}"] = (of_operator, name, options.plans, options.chip)
    for seed in range(options.seed, options.seed + -(-options.programs // _TOGETHER)):
        jobs[options.folder / f"{RANDOM}.{seed}{PART}"] = (by_chance, seed, _TOGETHER, options.chip)
    with ProcessPoolExecutor(options.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        todo = {pool.submit(*job): place for place, job in jobs.items() if options.again or not place.exists()}
        for job in as_completed(todo):
            try:
                found = job.result()
            except raised() as error:
                print(f"{todo[job].name}: {reason(error)}", flush=True)
                continue
            write_whole(todo[job], "".join(json.dumps(i.as_dict(), ensure_ascii=False) + "\n" for i in found))
    items = read(options.folder)
    print(f"{len(items)} cases, {sum(not item.case.kernels for item in items)} without a kernel")


def run(options: argparse.Namespace) -> None:
    """Runs the cases that have no row yet."""
    until = time.time() + options.seconds
    items = read(options.folder)
    done = {} if options.again else kept(options.rows)
    chosen = [k for k, item in enumerate(items) if re.search(options.only, item.case.name)]
    todo = [k for k in chosen if items[k].case.name not in done]
    pool = Pool(items, options.device, options.folder / "turn", options.rounds, options.workers)
    print(f"{len(todo)} of {len(chosen)} cases to run", flush=True)
    try:
        with options.rows.open("a", encoding="utf-8") as file:
            for row in pool.run(todo, until):
                file.write(json.dumps({"row": asdict(row)}, ensure_ascii=False) + "\n")
                file.flush()
                if row.outcome != RIGHT or row.ours_ms or options.verbose:
                    print(row_text(row), flush=True)
    finally:
        pool.close()
    print(Counter(row.outcome for row in kept(options.rows).values()), flush=True)
    if options.device == "cuda":
        about = versions()
        with options.rows.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"about": about}) + "\n")


def _imported(device: str) -> None:
    """Loads what a process needs, with one thread each."""
    import torch

    torch.set_num_threads(1)
    if device == "cuda":
        import torch._dynamo
        import torch._inductor.compile_fx
        import triton  # noqa: F401


def finish(options: argparse.Namespace) -> None:
    """Writes the page of what was kept."""
    names = [item.case.name for item in read(options.folder)]
    done = kept(options.rows)
    about: dict[str, str] = {}
    for line in options.rows.read_text(encoding="utf-8").splitlines():
        about = json.loads(line).get("about", about)
    rows = [done[name] for name in names if name in done]
    write_whole(options.write, page(rows, about, sum(name not in done for name in names)))


def main() -> int:
    """One of the parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("prepare", "run", "page"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chip", default="H200")
    parser.add_argument("--programs", type=int, default=60, help="how many random programs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ways", type=int, default=len(PLANS), help="how many of the kinds, types and layouts")
    parser.add_argument("--after", type=int, default=0, help="leave out so many of them")
    parser.add_argument("--name", dest="names", action="append", default=[], help="an operator; all, if none is given")
    parser.add_argument("--kind", action="append", default=[], help="lengths of this kind only")
    parser.add_argument("--rows", type=Path, default=None, help="the file of rows [rows.jsonl in the folder]")
    parser.add_argument("--write", type=Path, default=None, help="the page")
    parser.add_argument("--only", default="", help="a regular expression that the name of a case matches somewhere")
    parser.add_argument("--again", action="store_true", help="also what has a row")
    parser.add_argument("--verbose", action="store_true", help="print what is right too")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--seconds", type=float, default=480.0)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--workers", type=int, default=16)
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    options.rows = (options.rows or options.folder / "rows.jsonl").resolve()
    options.plans = [p for p in PLANS if p[0] in options.kind] if options.kind else PLANS[options.after : options.ways]
    if "tiny" in options.kind:
        options.plans = [("tiny", dtype, layout) for dtype in ("fp32", "fp16") for layout in ("contiguous", STRIDED)]
    options.part_name = f"{options.after}-{options.after + len(options.plans)}"
    if options.part == "prepare":
        prepare(options)
        return 0
    if options.part == "run":
        run(options)
    if options.write is not None:
        finish(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
