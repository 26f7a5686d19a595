"""Checks several certificates at once, in processes that each check one after another.

A worker process is `python -m catdiag.cli.check_workers`. It reads file names on its standard input and writes verdicts
on its standard output, one line of JSON each.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from catdiag.cli.check_verdict import CheckVerdict, Solvers, verdict_on
from catdiag.cli.exit_status import INTERRUPTED, REFUTED, shown
from catdiag.solvers.child_process import environment

# Seconds that a worker has to end its solvers and itself when there is nothing more to check.
_PARTING = 2.0


class _CheckerProcess:
    """A worker process. It is started for its first file, and again after it has died."""

    def __init__(self, limit: float | None) -> None:
        self.limit = limit
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False

    def check(self, file: Path) -> CheckVerdict:
        """The verdict on a file. A file that crashes the worker is refused; if the worker was killed, there is no
        verdict."""
        if self._stopped:
            raise queue.Empty
        if self._process is None:
            self._process = subprocess.Popen(
                # -P: do not import from the current folder. A process group of its own: this process handles Ctrl-C.
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "catdiag.cli.check_workers",
                    *([] if self.limit is None else [str(self.limit)]),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                process_group=0,
                env=environment(),
            )
        process = self._process
        reply = ""
        if process.stdin is not None and process.stdout is not None:
            with suppress(BrokenPipeError):
                process.stdin.write(json.dumps(str(file)) + "\n")
                process.stdin.flush()
                reply = process.stdout.readline()
        if reply:
            return CheckVerdict.of(json.loads(reply))
        status = process.wait()
        self._process = None
        said = f"the process that checked it ended with status {status}"
        # Killed from outside (out of memory, or by somebody): that says nothing about the certificate.
        if status in (-signal.SIGKILL, -signal.SIGTERM):
            return CheckVerdict(INTERRUPTED, f"interrupted: {shown(str(file))}: {said}")
        return CheckVerdict(REFUTED, f"{shown(str(file))}: REFUSED\n  {said}")

    def interrupt(self) -> None:
        """Kills the process while it works. Its solvers end with it, as their pipes close."""
        self._stopped = True
        if self._process is not None:
            self._process.terminate()

    def close(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        try:
            process.wait(_PARTING)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def verdicts(
    files: Sequence[Path], limit: float | None, workers: int | None = None
) -> Generator[CheckVerdict, None, None]:
    """The verdicts on files, in their order, with a progress bar on a terminal.

    `workers` processes check at a time, by default as many as there are processors.
    """
    count = min(workers or os.cpu_count() or 1, len(files))
    checkers = [_CheckerProcess(limit) for _ in range(count)]
    todo: queue.SimpleQueue[tuple[int, Path]] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, CheckVerdict]] = queue.SimpleQueue()
    for item in enumerate(files):
        todo.put(item)

    def work(checker: _CheckerProcess) -> None:
        with suppress(queue.Empty):
            while True:
                number, file = todo.get_nowait()
                done.put((number, checker.check(file)))

    threads = [threading.Thread(target=work, args=(c,), name="catdiag-check", daemon=True) for c in checkers]
    for thread in threads:
        thread.start()
    try:
        yield from _in_order(done, len(files))
    except BaseException:
        with suppress(queue.Empty):
            while True:
                todo.get_nowait()
        for checker in checkers:
            checker.interrupt()
        raise
    finally:
        for thread in threads:
            thread.join(_PARTING)
        for checker in checkers:
            checker.close()


def _in_order(done: queue.SimpleQueue[tuple[int, CheckVerdict]], count: int) -> Iterator[CheckVerdict]:
    """Numbered verdicts as they come, yielded in the order of their numbers."""
    early: dict[int, CheckVerdict] = {}
    with _Progress(count) as progress:
        for number in range(count):
            while number not in early:
                k, verdict = done.get()
                early[k] = verdict
                progress.advance()
            yield early.pop(number)


class _Progress:
    """A progress bar on the standard error stream if that is a terminal; otherwise nothing."""

    def __init__(self, count: int) -> None:
        self._bar = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress

            # Output that is printed meanwhile appears above the bar, unless it goes to a file.
            console = Console(stderr=True)
            self._bar = Progress(console=console, transient=True, redirect_stdout=sys.stdout.isatty())
            self._task = self._bar.add_task("checking", total=count)

    def __enter__(self) -> _Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self) -> None:
        """One more is done."""
        if self._bar is not None:
            self._bar.advance(self._task)


def main(limit: float | None) -> None:
    """Checks the files whose names come on the standard input, until it ends."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with Solvers() as solvers:
        for line in sys.stdin:
            verdict = verdict_on(Path(json.loads(line)), solvers, limit)
            print(json.dumps(verdict.as_dict()), file=replies, flush=True)


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        main(float(sys.argv[1]) if len(sys.argv) > 1 else None)
