"""`catdiag check`: replays certificates, with the kernel and the solvers only.

Several files are checked in parallel, by separate worker processes. This module imports nothing of the frontend, the
prover or the rewrites, which may be missing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catdiag.cli.check_verdict import (
    CheckVerdict,
    Malformed,
    Solvers,
    Unreadable,
    content_of,
    solver,
    unread,
    verdict_on,
)
from catdiag.cli.check_workers import verdicts
from catdiag.cli.exit_status import DONE, INTERRUPTED, REFUTED, VACUOUS, WRONG_USE, UsageError, require_limit, shown

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from catdiag.util.executors import Progress


def run_check(paths: Sequence[Path], limit: float | None, workers: int | None, long: bool) -> int:
    """`catdiag check`: 0 if all are accepted, 1 if one is refused, 2 if one cannot be read, 5 if one is vacuous."""
    require_limit(limit)
    if workers is not None and workers < 1:
        raise UsageError(f"{workers} workers: expected 1 or more")
    files = list(_files(paths))
    if len(files) == 1:
        return check_file(files[0], limit)
    found = []
    with closing(verdicts(files, limit, workers)) as coming:
        for verdict in coming:
            print_verdict(verdict, long)
            found.append(verdict)
    print(summary(found))
    return worst(v.status for v in found)


def worst(statuses: Iterable[int]) -> int:
    """The exit status of several checks."""
    found = set(statuses)
    return next((s for s in (REFUTED, INTERRUPTED, WRONG_USE, VACUOUS) if s in found), DONE)


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        # not `Path.is_dir`, which raises for names that are too long
        if not os.path.isdir(path):
            yield path
            continue
        inside = sorted(path.rglob("*.json"))
        if not inside:
            raise UsageError(f"the folder {path} has no certificates: expected files named *.json")
        yield from inside


def check_file(file: Path, limit: float | None = None) -> int:
    """Checks one certificate in this process, prints what it proves or why it is refused, and returns the exit
    status."""
    with Solvers() as solvers:
        verdict = verdict_on(file, solvers, limit)
    print_verdict(verdict, long=True)
    return verdict.status


def print_verdict(verdict: CheckVerdict, long: bool) -> None:
    """Prints a verdict: what is proved in full, or only that it is."""
    unread = verdict.status in (WRONG_USE, INTERRUPTED)
    print(verdict.stated, file=sys.stderr if unread else sys.stdout)
    if long:
        for line in verdict.proves:
            print(f"  {line}")
    sys.stdout.flush()


def check_all(
    files: Sequence[Path],
    *,
    limit: float | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> list[CheckVerdict]:
    """The verdicts on certificates, in their order, found by the workers of any `concurrent.futures.Executor`.

    Workers are sent the contents of the files, so they need no access to them. Without an executor the certificates are
    checked here. A worker's verdict is accepted and not checked again. If a worker died there is no verdict: this is
    reported, with the exit status of an interruption. `progress` is called with the number of files that are done, and
    the number of all. `limit` is the time in seconds that the check of each may take, None for no limit.
    """
    from catdiag.util.executors import Failed, each

    contents: list[bytes | CheckVerdict] = []
    for file in files:
        try:
            contents.append(content_of(file))
        except (Unreadable, Malformed) as error:
            contents.append(unread(shown(str(file)), error))
    todo = [(str(file), content, limit) for file, content in zip(files, contents) if isinstance(content, bytes)]
    verdicts: list[CheckVerdict] = []
    with closing(each(_checked, todo, executor=executor, progress=progress)) as coming:
        for file, content in zip(files, contents):
            found = next(coming) if isinstance(content, bytes) else content
            if isinstance(found, Failed):
                found = CheckVerdict(INTERRUPTED, f"interrupted: {shown(str(file))}: {shown(found.reason)}")
            verdicts.append(found if isinstance(found, CheckVerdict) else CheckVerdict.of(found))
    return verdicts


def _checked(name: str, content: bytes, limit: float | None) -> dict[str, Any]:
    """What a worker runs: returns a verdict as plain data."""
    with Solvers() as solvers:
        return verdict_on(Path(name), solvers, limit, content).as_dict()


def summary(verdicts: Sequence[CheckVerdict]) -> str:
    """Several verdicts in one line."""
    counts = {
        "accepted": sum(v.status == DONE for v in verdicts),
        "vacuous": sum(v.status == VACUOUS for v in verdicts),
        "refused": sum(v.status == REFUTED for v in verdicts),
        "interrupted": sum(v.status == INTERRUPTED for v in verdicts),
        "not readable": sum(v.status == WRONG_USE for v in verdicts),
    }
    conditional = sum(v.conditional for v in verdicts)
    parts = [f"{n} {what}" for what, n in counts.items() if n or what == "accepted"]
    if conditional:
        parts[0] += f" ({conditional} on a condition)"
    agreed, undecided = sum(v.agreed for v in verdicts), sum(v.undecided for v in verdicts)
    text = f"{len(verdicts)} certificates: {', '.join(parts)}; {solver()}"
    if agreed + undecided:
        text += f"; cvc5 agrees on {agreed} of {agreed + undecided} goals" + f", {undecided} undecided" * (
            undecided > 0
        )
    return text
