"""Many calls by any executor: the same results in the same order, failures with their items, nothing left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest

import catdiag as cd
from catdiag.util.executors import AHEAD, Failed, each


def half(n: int) -> int:
    if n == 3:
        raise ValueError("three is\nodd")
    return n // 2


class Backwards(Executor):
    """Does what it has waiting in the reverse of the order in which it came, when asked for more than it can hold."""

    def __init__(self, holds: int) -> None:
        self.holds, self.waiting = holds, list[Any]()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append((future, fn, args))
        if len(self.waiting) == self.holds:
            while self.waiting:
                ours, work, given = self.waiting.pop()
                try:
                    ours.set_result(work(*given))
                except ValueError as error:
                    ours.set_exception(error)
        return future


ITEMS = [(n,) for n in range(6)]
WANTED = [0, 0, 1, Failed((3,), "ValueError: three is odd"), 2, 2]


def test_results_are_the_same_in_any_executor_and_order() -> None:
    assert list(each(half, ITEMS)) == WANTED
    assert list(each(half, ITEMS, executor=Backwards(3))) == WANTED
    with ThreadPoolExecutor(3) as executor:
        assert list(each(half, ITEMS, executor=executor)) == WANTED
        assert list(each(half, [], executor=executor)) == []


def test_a_client_gives_its_executor() -> None:
    class Client:
        def submit(self) -> None: ...
        def get_executor(self, pure: bool) -> Executor:
            return Backwards(6)

    assert list(each(half, ITEMS, executor=Client())) == WANTED  # type: ignore[arg-type]
    for wrong in (3, "threads", object()):
        with pytest.raises(cd.errors.CatdiagError, match=r"expected a concurrent\.futures\.Executor"):
            list(each(half, ITEMS, executor=wrong))  # type: ignore[arg-type]


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    list(each(half, ITEMS, executor=Backwards(2), progress=lambda *counts: told.append(counts)))
    assert told == [(n, 6) for n in range(1, 7)]


def test_who_stops_leaves_nothing_to_be_begun() -> None:
    begun = list[int]()

    def slow(n: int) -> int:
        begun.append(n)
        time.sleep(0.01)
        return n

    with ThreadPoolExecutor(1) as executor:
        coming = each(slow, [(n,) for n in range(50)], executor=executor)
        assert next(coming) == 0
        coming.close()  # type: ignore[attr-defined]
    assert len(begun) < 20
    done = ThreadPoolExecutor(1)
    done.shutdown()
    assert all(f.worker_died for f in each(half, ITEMS, executor=done) if isinstance(f, Failed))


def test_only_so_many_wait_at_a_time() -> None:
    held: list[Future[int]] = []

    class Counting(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            held.append(super().submit(fn, *args, **kwargs))
            assert sum(not f.done() for f in held) <= AHEAD
            return held[-1]

    with Counting(2) as executor:
        assert len(list(each(divmod, [(n, 7) for n in range(AHEAD + 50)], executor=executor))) == AHEAD + 50


def dies(n: int) -> int:
    if n == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return n


@pytest.mark.slow
def test_a_worker_that_dies_is_told_of() -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
        found = list(each(dies, [(n,) for n in range(4)], executor=executor))
    assert found[0] == 0
    assert all(isinstance(f, Failed) and f.worker_died and "its worker ended" in f.reason for f in found[1:])


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_sweep_leaves_no_process_and_goes_on(tmp_path: Any, how: signal.Signals) -> None:
    file = tmp_path / "s.jsonl"
    sizes = "a=" + "/".join(str(64 * k) for k in range(1, 60)) + ",b=512,c=512"
    command = [sys.executable, "-m", "catdiag", "sweep", "matmul", "--on", "h100", "--size", sizes, "--to",
               str(file), "--workers", "2"]  # fmt: skip
    mark = f"CATDIAG_SWEEP={tmp_path.name}-{how}"
    environment = dict([*os.environ.items(), mark.split("=")])
    partial = file.with_name("s.jsonl.partial")
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process:
        for _ in range(1200):
            if partial.exists() and partial.read_bytes().count(b"\n") >= 3:
                break
            time.sleep(0.05)
        process.send_signal(how)
        _, err = process.communicate(timeout=600)
    assert process.returncode == (130 if how == signal.SIGINT else -9), err
    # Only what Python says of an object that was being made when Ctrl-C came.
    assert b"interrupted\n" in err or how == signal.SIGKILL
    assert b"KeyboardInterrupt" not in err
    assert not file.exists()

    def left() -> list[str]:
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as handle:
                    found += [pid] if mark.encode() in handle.read() else []
            except OSError:
                continue
        return found

    for _ in range(100):
        if not left():
            break
        time.sleep(0.1)
    assert not left()
    kept = partial.read_bytes().count(b"\n")
    assert 3 <= kept < 59
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "59 points: 59 fits" in done.stderr
    assert len(file.read_text().splitlines()) == 59
    assert not partial.exists()
