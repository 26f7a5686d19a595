"""Sweeps: each point its plan or a reason, the same bytes however it was spread, gone on with where it stopped."""

from __future__ import annotations

import csv
import json
import os
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import catdiag as cd
from catdiag.planner.sweep import STATUSES, SweepResult, lines, sweep

SIZES = {"a": [256, 512], "b": [512], "c": [256, 0, "many"]}
PROOFS = Path(__file__).resolve().parents[2] / "proofs"


@pytest.fixture(scope="module")
def found() -> list[SweepResult]:
    return sweep(["matmul"], ["H100"], SIZES)  # type: ignore[dict-item]


def test_every_point_has_a_plan_or_a_reason(found: list[SweepResult]) -> None:
    assert len(found) == 6
    assert [(r.hardware, r.sizes["a"], r.sizes["c"]) for r in found][:4] == [
        ("H100", 256, 256), ("H100", 256, 0), ("H100", 256, "many"), ("H100", 512, 256)]  # fmt: skip
    for r in found:
        assert (r.status == "fits") == (r.sizes["c"] == 256) == bool(r.plan)
        assert (r.status == "refused") == ("expected a positive integer" in r.message)
    product = cd.library.get("matmul").stream("b").group("a c")
    plan = product.plan("H100", {"a": 256, "b": 512, "c": 256})
    assert (found[0].plan["time_s"], found[0].plan["tiles"]) == (plan.time_s, dict(plan.tiles))


class Changed(Executor):
    """Says of each task what it likes."""

    def __init__(self, change: Any) -> None:
        self.change, self.asked = change, 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.asked += 1
        future.set_result(self.change(fn(*args, **kwargs)))
        return future


def test_the_same_in_threads(found: list[SweepResult]) -> None:
    with ThreadPoolExecutor(3) as executor:
        assert lines(sweep(["matmul"], ["H100"], SIZES, executor=executor)) == lines(found)  # type: ignore[dict-item]


POINT = {"a": [256], "b": [512], "c": [256]}


@pytest.mark.parametrize(
    "change",
    [
        lambda given: {**given, "plan": {**given["plan"], "time_s": given["plan"]["time_s"] / 2}},
        lambda given: {**given, "plan": {**given["plan"], "tiles": {**given["plan"]["tiles"], "g_a": 1 << 20}}},
        lambda given: {**given, "plan": {**given["plan"], "tiles": {"no such": 1}}},
        lambda given: {**given, "plan": {**given["plan"], "tiles": None, "threads": "many"}},
        lambda given: {**given, "plan": {}}, lambda given: {**given, "status": "splendid"}, lambda given: None,
        lambda given: [given], lambda given: {**given, "plan": object()}, lambda given: {"status": "fits"},
    ],
)  # fmt: skip
def test_a_worker_that_says_what_is_not_so_is_not_believed(change: Any) -> None:
    (result,) = sweep(["matmul"], ["H100"], POINT, executor=Changed(change))
    assert (result.status, result.plan) == ("failed", {}), result
    assert "what came back is" in result.message


def test_it_goes_on_where_it_stopped(tmp_path: Path, found: list[SweepResult]) -> None:
    file, partial = tmp_path / "s.jsonl", tmp_path / "s.jsonl.partial"
    whole = lines(found)
    # A failed point, a line that was cut off, and results of another chip of that name.
    failed, other = json.loads(found[1].line()), json.loads(found[3].line())
    failed["status"], other["digest"] = "failed", "0"
    kept = [found[0].line(), json.dumps(failed), json.dumps(other), found[4].line()[:40]]
    partial.write_text("\n".join(kept))
    executor = Changed(lambda given: given)
    told: list[tuple[int, int]] = []
    results = sweep(["matmul"], ["H100"], SIZES, executor=executor, file=file,  # type: ignore[dict-item]
                    progress=lambda *counts: told.append(counts))  # fmt: skip
    assert executor.asked == 5
    assert told[-1] == (6, 6)
    assert lines(results) == file.read_text() == whole
    assert os.listdir(tmp_path) == ["s.jsonl"]
    again = Changed(lambda given: given)
    sweep(["matmul"], ["H100"], SIZES, executor=again, file=file)  # type: ignore[dict-item]
    assert (again.asked, file.read_text()) == (0, whole)


def test_what_stops_it_leaves_what_was_done(tmp_path: Path) -> None:
    file, partial = tmp_path / "s.csv", tmp_path / "s.csv.partial"

    def stop(done: int, count: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    sizes = {"a": [256, 320, 384], "b": [512], "c": [256]}
    with pytest.raises(KeyboardInterrupt):
        sweep(["matmul"], ["H100"], sizes, file=file, progress=stop)
    assert len(partial.read_text().splitlines()) == 1
    assert not file.exists()
    sweep(["matmul"], ["H100"], sizes, file=file)
    rows = list(csv.DictReader(file.open()))
    assert [row["a"] for row in rows] == ["256", "320", "384"]
    assert {row["status"] for row in rows} == {"fits"}
    assert all(int(row["g_a"]) > 0 for row in rows)


def test_wrong_use(tmp_path: Path) -> None:
    for arguments, said in (
        ((["matmul"], ["H100"], {"z": [1]}), "no operator has such an axis"),
        ((["nothing"], ["H100"], POINT), "the library has no diagram"),
        ((["matmul"], ["H900"], POINT), "unknown hardware"),
        (("matmul", ["H100"], POINT), "operators is 'matmul'"),
        ((["matmul"], [], POINT), "hardware is"),
        ((["matmul"], ["H100"], {"a": 3}), "sizes is 3"),
        ((["matmul"], ["H100"], [3]), "sizes has 3"),
        (([3], ["H100"], POINT), "the operator is 3"),
        ((["matmul"], ["H100"], {name: range(1000) for name in "abc"}), "at most"),
    ):
        with pytest.raises(cd.errors.CatdiagError, match=said):
            sweep(*arguments)  # type: ignore[arg-type]
    with pytest.raises(cd.errors.CatdiagError, match=r"ends in \.jsonl or \.csv"):
        sweep(["matmul"], ["H100"], POINT, file=tmp_path / "s.txt")
    (tmp_path / "s.jsonl").write_text("{}\nmine\n")
    with pytest.raises(cd.errors.CatdiagError, match="no result of a sweep"):
        sweep(["matmul"], ["H100"], POINT, file=tmp_path / "s.jsonl")
    assert (tmp_path / "s.jsonl").read_text() == "{}\nmine\n"


def test_certificates_in_an_executor() -> None:
    from catdiag.cli.check_command import check_all

    files = [PROOFS / "matmul_transposed.json", PROOFS / "make.py", PROOFS / "nowhere.json"]
    with ThreadPoolExecutor(2) as executor:
        verdicts = check_all(files, executor=executor)
    assert [v.status for v in verdicts] == [0, 1, 2]
    assert verdicts == check_all(files)


@pytest.mark.slow
def test_dask_sweeps_and_checks_though_a_worker_dies(tmp_path: Path) -> None:
    """A local cluster, one of whose workers is killed in the middle of each."""
    distributed = pytest.importorskip("distributed")
    from catdiag.cli.check_command import check_all

    sizes = {"a": [64 * k for k in range(1, 21)], "b": [512, 0], "c": [256]}
    alone = sweep(["matmul"], ["H100", "A100"], sizes)
    killed: list[int] = []
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):

        def kill(done: int, count: int) -> None:
            if done >= 5 and not killed:
                killed.extend(client.run(os.getpid).values())
                os.kill(killed[0], 9)

        spread = sweep(["matmul"], ["H100", "A100"], sizes, executor=client, progress=kill, file=tmp_path / "s.jsonl")
        assert killed
        assert lines(spread) == lines(alone) == (tmp_path / "s.jsonl").read_text()
        assert {r.status for r in spread} < set(STATUSES)
        killed.clear()
        for _ in range(200):
            if len(client.scheduler_info()["workers"]) == 2:
                break
            time.sleep(0.1)
        files = sorted(PROOFS.glob("*.json"))
        verdicts = check_all(files, executor=client, progress=kill)
        assert killed
    assert [v.status for v in verdicts] == [0] * len(files), [v.stated for v in verdicts if v.status]
