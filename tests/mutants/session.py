"""Tests against mutants, in one process that forks: nothing is imported, collected or set up anew for a mutant.

A plugin of pytest. It runs the tests once, noting which blocks of the kernel each executes and how long it takes; then,
for each mutant, a child process puts the changed code into the functions of the kernel and runs the tests that execute
its block, those first that have killed most in least time, until one fails. Where a module's own code changes (a table,
a constant, the defaults of a function) all tests are run; what changes inside of a class is not reached.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import json
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest
from _pytest.fixtures import FixtureDef
from _pytest.runner import runtestprotocol

from tests.mutants.blocks import Blocks
from tests.mutants.operators import Mutant

KERNEL = Path(__file__).resolve().parents[2] / "catdiag" / "kernel"
# Tests that start a process of Python run the kernel on disk in it, which is whole.
SUBPROCESS = ("test_a_fresh_process", "test_all_are_checked_by_the_command")
MEMORY = 4 << 30
_GRACE, _FACTOR = 4.0, 10.0
"""A test may take so many seconds, and so many times its usual time; one that takes more has noticed something."""


class TooLong(BaseException):
    """A test takes much longer than on the kernel as it is."""


@dataclass(frozen=True)
class Result:
    """What became of a mutant: `killed`, by which test, or `survived`; how many of its tests ran, and the time."""

    outcome: str
    by: str
    ran: int
    tests: int
    seconds: float


# -- the kernel with a change --------------------------------------------------------------------------


def _function(module: ModuleType, name: str) -> FunctionType | None:
    """The function of a qualified name, under decorators."""
    found: Any = module
    for part in name.split("."):
        found = vars(found).get(part)
        if found is None:
            return None
    found = getattr(found, "fget", None) or getattr(found, "__func__", None) or getattr(found, "func", None) or found
    found = getattr(found, "__wrapped__", found)
    return found if isinstance(found, FunctionType) else None


def _codes(code: CodeType) -> Iterator[CodeType]:
    stack = [code]
    while stack:
        item = stack.pop()
        yield item
        stack.extend(c for c in item.co_consts if isinstance(c, CodeType))


def _put_outside(mutant: Mutant) -> bool:
    """A table, a constant or defaults of a module, in place of what its modules have."""
    module = importlib.import_module(f"catdiag.kernel.{mutant.module}")
    old = mutant.site.put(mutant.site.new)
    try:
        around = [s for s in mutant.tree.body if s.lineno <= mutant.line <= (s.end_lineno or s.lineno)]
        made = dict(vars(module))
        exec(compile(ast.fix_missing_locations(ast.Module(around, [])), "<mutant>", "exec"), made)
    finally:
        mutant.site.put(old)
    for statement in around:
        if isinstance(statement, ast.FunctionDef):
            function, new = vars(module)[statement.name], made[statement.name]
            function.__defaults__, function.__kwdefaults__ = new.__defaults__, new.__kwdefaults__
            return True
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        names = [n.id for t in targets for n in ast.walk(t or ast.Pass()) if isinstance(n, ast.Name)]
        for name in names:
            before, new = vars(module)[name], made[name]
            if isinstance(before, (dict, set)) and type(new) is type(before):
                before.clear()
                before.update(new)
                continue
            for other in [m for key, m in sys.modules.items() if key.startswith("catdiag.kernel.")]:
                if vars(other).get(name) is before:
                    setattr(other, name, new)
        if names:
            return True
    return False


def change(mutant: Mutant) -> bool:
    """Puts a mutant into the kernel of this process; whether that could be done."""
    if not mutant.function:
        return _put_outside(mutant)
    function = _function(importlib.import_module(f"catdiag.kernel.{mutant.module}"), mutant.function)
    if function is None:
        return False
    first = function.__code__.co_firstlineno
    for code in _codes(mutant.compiled()):
        if code.co_qualname == mutant.function and code.co_firstlineno == first:
            if len(code.co_freevars) != len(function.__code__.co_freevars):
                return False
            function.__code__ = code
            return True
    return False


# -- solvers without processes ---------------------------------------------------------------------------


def solvers_within() -> None:
    """Goals are put to z3 in this process, and answers are kept: a child has those of its parent."""
    from catdiag.solvers.child_process import Solver
    from catdiag.solvers.z3_encoding import answer

    known: dict[str, str] = {}

    def put(self: Any, hypotheses: list[Any], goal: Any) -> str:
        self.goals += 1
        request = {"hypotheses": hypotheses, "goal": goal, "rlimit": min(self._goal_rlimit, 3_000_000)}
        text = json.dumps(request)
        if text not in known:
            known[text] = answer(request)
        return known[text]

    Solver._put = put  # type: ignore[method-assign]


def _forget() -> None:
    """Contexts that tests share forget what they found, so that a child asks its own kernel, which has the change."""
    context = importlib.import_module("catdiag.kernel.context").Context
    gc.unfreeze()
    for found in [o for o in gc.get_objects() if isinstance(o, context)]:
        context.__init__(found, found.ask, found.ranges, found.facts, found.elements, found._parent)


# -- the tests ---------------------------------------------------------------------------------------------


def _keep_fixtures() -> None:
    """What a module or session sets up for its tests stays, so that children need not set it up again."""
    finish = FixtureDef.finish

    def kept(self: Any, request: Any) -> None:
        if self.scope == "function":
            finish(self, request)

    FixtureDef.finish = kept  # type: ignore[method-assign]


class Plugin:
    """Runs the tests once, then the mutants; `done` is told what became of each."""

    def __init__(
        self,
        mutants: list[Mutant],
        budget: float,
        until: float,
        jobs: int,
        done: Callable[[Mutant, Result], None],
        killers: dict[tuple[str, str], Counter[str]],
    ) -> None:
        self.mutants, self.budget, self.until, self.jobs, self.done = mutants, budget, until, jobs, done
        self.times: dict[int, float] = {}
        self.tests: dict[int, list[int]] = {}
        self.blocks = Blocks(KERNEL, "catdiag.kernel")
        self.killers = killers
        """How many mutants of a function, by module and name, each test has killed."""
        self.names: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self) -> None:
        """Loads the kernel with marks: before pytest's own loader, which takes it where the package is installed, and
        before the first `conftest.py`, which imports it."""
        sys.meta_path.insert(0, self.blocks)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """The baseline and the mutants, in place of one run of the tests."""
        items = [i for i in session.items if not any(name in i.nodeid for name in SUBPROCESS)]
        self.names = [i.nodeid for i in items]
        solvers_within()
        _keep_fixtures()
        for number, item in enumerate(items):
            start = time.process_time()
            self.blocks.marks[:] = bytes(len(self.blocks.marks))
            reports = runtestprotocol(item, log=False, nextitem=items[(number + 1) % len(items)])
            if any(r.failed for r in reports):
                raise pytest.UsageError(
                    f"{item.nodeid} fails on the kernel as it is: {reports[-1].longreprtext[-2000:]}"
                )
            self.times[number] = time.process_time() - start
            for block, executed in enumerate(self.blocks.marks):
                if executed:
                    self.tests.setdefault(block, []).append(number)
        if not self.tests:
            raise pytest.UsageError("no test executes the kernel with marks: it was loaded without them before")
        print(f"{len(items)} tests, {sum(self.times.values()):.0f} s of computing", flush=True)
        gc.collect()
        _forget()
        gc.freeze()
        self._all(items)
        return True

    def order(self, mutant: Mutant) -> list[int]:
        """The tests that execute a mutant's line, those first that kill most in least time."""
        if mutant.function:
            chosen = self.tests.get(self.blocks.of_line.get((mutant.module, mutant.line), -1), [])
        else:
            chosen = list(self.times)
        near = self.killers.get((mutant.module, mutant.function), Counter())
        far: Counter[str] = sum(self.killers.values(), Counter()) if chosen else Counter()
        worth = {n: 20 * near[self.names[n]] + far[self.names[n]] + 0.3 for n in chosen}
        return sorted(chosen, key=lambda n: -worth[n] / (self.times[n] + 0.01))

    def _all(self, items: list[pytest.Item]) -> None:
        running: dict[int, tuple[Mutant, int, list[int], float]] = {}
        waiting = iter(self.mutants)
        while True:
            mutant = next(waiting, None) if len(running) < self.jobs and time.time() < self.until else None
            if mutant is None and not running:
                return
            if mutant is not None:
                order = self.order(mutant)
                if not order:
                    self.done(mutant, Result("not executed", "", 0, 0, 0.0))
                    continue
                source, sink = os.pipe()
                child = os.fork()
                if child == 0:
                    os.close(source)
                    self._child(mutant, [items[n] for n in order], [self.times[n] for n in order], sink)
                os.close(sink)
                running[child] = (mutant, source, order, time.time())
                if len(running) < self.jobs:
                    continue
            pid, _, usage = os.wait4(-1, 0)
            if pid not in running:
                continue
            mutant, source, order, _ = running.pop(pid)
            with os.fdopen(source) as pipe:
                said = pipe.read().split()
            seconds = usage.ru_utime + usage.ru_stime
            last = said[-1] if said else ""
            if last.startswith(("failed:", "long:")) or not last.startswith("done:"):
                place = int(last.split(":")[1]) if ":" in last else 0
                if last == "unchanged:0":
                    self.done(mutant, Result("not applicable", "", 0, len(order), seconds))
                    continue
                self.killers.setdefault((mutant.module, mutant.function), Counter())[self.names[order[place]]] += 1
                how = "killed" if last.startswith("failed:") else "killed by time or memory"
                self.done(mutant, Result(how, self.names[order[place]], place + 1, len(order), seconds))
            else:
                ran = int(last.split(":")[1])
                how = "survived" if ran == len(order) else "survived so far"
                self.done(mutant, Result(how, "", ran, len(order), seconds))

    def _child(self, mutant: Mutant, items: list[pytest.Item], times: list[float], sink: int) -> None:
        """Never returns."""
        with contextlib.suppress(BaseException):
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nothing, stream)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            most = int(self.budget + 60)
            resource.setrlimit(resource.RLIMIT_CPU, (most, most))

            def say(text: str) -> None:
                os.write(sink, f"{text}\n".encode())

            try:
                changed = change(mutant)
            except (SyntaxError, ValueError):
                changed = False
            if not changed:
                say("unchanged:0")
                os._exit(0)
            late: list[bool] = []

            def stop(*_: object) -> None:
                late.append(True)
                raise TooLong

            signal.signal(signal.SIGPROF, stop)
            for number, item in enumerate(items):
                if time.process_time() > self.budget:
                    say(f"done:{number}")
                    os._exit(0)
                say(f"at:{number}")
                signal.setitimer(signal.ITIMER_PROF, _GRACE + _FACTOR * times[number])
                reports = runtestprotocol(item, log=False, nextitem=items[(number + 1) % len(items)])
                signal.setitimer(signal.ITIMER_PROF, 0)
                if late or any(r.failed for r in reports):
                    say(f"{'long' if late else 'failed'}:{number}")
                    os._exit(0)
            say(f"done:{len(items)}")
        os._exit(0)
