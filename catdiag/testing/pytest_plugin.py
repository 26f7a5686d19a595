"""The pytest plugin: claims by `@cd.theorem` run as tests, with counterexamples to paste.

Claims are collected from the modules that pytest collects anyway, and from files named `theorem_*.py`. A claim that is
proved passes. One that is refuted fails, with arrays. One that is undecided, or not decided in time, fails with the
goal at which the proof stopped; with `--theorems-undecided=xfail` it is an expected failure. Conditional theorems pass
and are listed at the end with their conditions; with `--theorems-conditional=fail` they fail. `--theorems-limit` is the
time in seconds for each proof.

In pytest's report of a failing test, diagrams and derivations among the arguments and in comparisons are printed as
programs.

Nothing but pytest is imported here until the first claim.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from catdiag.prover.refute.counterexample_data import Counterexample
    from catdiag.rewrite.theorem_decorator import Claim

_CLAIM = "catdiag.rewrite.theorem_decorator", "Claim"
_REPORT_KEY = "catdiag_theorem"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the plugin's options."""
    group = parser.getgroup("catdiag", "theorems of catdiag")
    group.addoption(
        "--theorems-undecided", choices=("fail", "xfail"), default="fail",
        help="the outcome of a theorem without a proof or a counterexample",
    )  # fmt: skip
    group.addoption(
        "--theorems-conditional", choices=("pass", "fail"), default="pass",
        help="the outcome of a theorem whose right side needs more than its left side to be defined",
    )  # fmt: skip
    group.addoption(
        "--theorems-limit", type=float, default=None, metavar="SECONDS",
        help="the time limit of each proof, in place of the limits of the theorems",
    )  # fmt: skip


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Collects files named `theorem_*.py`, where pytest does not collect them itself."""
    if file_path.suffix != ".py" or not file_path.name.startswith("theorem_"):
        return None
    patterns = [*parent.config.getini("python_files"), "__init__.py"]
    if any(file_path.match(pattern) for pattern in patterns) or parent.session.isinitpath(file_path):
        return None  # pytest collects it as a test module
    module: pytest.Module = pytest.Module.from_parent(parent, path=file_path)
    return module


def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, name: str, obj: object) -> ClaimItem | None:
    """A test for each claim that a module defines; claims imported from other modules are skipped."""
    kind = type(obj)
    if (kind.__module__, kind.__qualname__) != _CLAIM:
        return None
    claim: Any = obj
    module = getattr(collector, "module", None)
    if module is not None and getattr(claim.function, "__module__", None) != module.__name__:
        return None
    item: ClaimItem = ClaimItem.from_parent(collector, name=name, claim=claim)
    return item


class ClaimItem(pytest.Item):
    """A claim as a test."""

    def __init__(self, *, claim: Claim, **options: Any) -> None:
        super().__init__(**options)
        self.claim = claim
        # Marks below the decorator are on the function.
        for mark in getattr(claim.function, "pytestmark", []):
            self.add_marker(getattr(pytest.mark, mark.name)(*mark.args, **mark.kwargs))
            self.keywords[mark.name] = mark

    def runtest(self) -> None:
        """Proves the claim."""
        from catdiag.prover import Interrupted, Undecided

        try:
            theorem = self.claim.prove(self.config.getoption("--theorems-limit"))
        except (Undecided, Interrupted) as error:
            if self.config.getoption("--theorems-undecided") == "xfail":
                pytest.xfail(str(error).split("\n")[0])
            raise
        if theorem.vacuous:
            raise Vacuous(theorem)
        if theorem.conditional:
            if self.config.getoption("--theorems-conditional") == "fail":
                raise Conditional(theorem)
            self.user_properties.append((_REPORT_KEY, "; ".join(theorem.conditions)))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The report of a claim that is not proved; other errors as pytest shows them."""
        from catdiag.prover import Refuted
        from catdiag.util.errors import CatdiagError

        error = excinfo.value
        if isinstance(error, Refuted):
            return refutation(self.claim, error)
        if isinstance(error, CatdiagError):
            return f"{self.claim.name}: {error}"
        if isinstance(error, (Conditional, Vacuous)):
            return f"{self.claim.name}: {error}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The place of the claim."""
        code = getattr(self.claim.function, "__code__", None)
        return self.path, code.co_firstlineno - 1 if code is not None else None, f"theorem {self.name}"


class Conditional(Exception):
    """A conditional theorem where no conditions are allowed."""

    def __init__(self, theorem: Any) -> None:
        super().__init__(f"the theorem is conditional on {'; '.join(theorem.conditions)}\n{theorem}")


class Vacuous(Exception):
    """A vacuous theorem, which counts as a failure."""

    def __init__(self, theorem: Any) -> None:
        super().__init__(f"the theorem is vacuous: nothing satisfies its assumptions\n{theorem}")


def refutation(claim: Claim, error: Any) -> str:
    """A refuted claim with its counterexample as statements to paste, and the values of both sides there."""
    from catdiag.prover.api import how_false
    from catdiag.testing.array_literals import counterexample

    found: Counterexample = error.counterexample
    given = ", ".join(filter(None, [*found.arrays, f"sizes={found.sizes!r}" if found.sizes else ""]))
    blocks = ", ".join(filter(None, [*found.arrays, f"tiles={found.blocks!r}"])) if found.blocks else given
    lines = [f"{how_false(claim.name, found)}: {counterexample(found)}", f"    left, right = {claim.name}.sides()"]
    return "\n".join([*lines, f"    cd.Program(left).run({given}), cd.Program(right).run({blocks})"])


# -- diagrams in failures ----------------------------------------------------------------------------


def program_of(value: object) -> list[str] | None:
    """The lines of the program of a diagram or derivation; None for anything else."""
    module = sys.modules.get("catdiag.category.diagram")
    diagram = getattr(value, "diagram", value)
    if module is None or not isinstance(diagram, module.Diagram):
        return None
    from catdiag.codegen.pseudocode import shown

    lines: list[str] = shown(diagram)
    return lines


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """The explanation of a failing comparison with a diagram: both programs."""
    sides = [program_of(left), program_of(right)]
    if op not in ("==", "!=") or sides == [None, None]:
        return None
    lines = [f"left {op} right, where left is", *_indented(sides[0], left)]
    if sides[0] == sides[1] and op == "==":
        return [*lines, "and right, which is printed alike, is another diagram (see its repr)"]
    return [*lines, "and right is", *_indented(sides[1], right)]


def _indented(program: list[str] | None, value: object) -> list[str]:
    return ["    " + line for line in (program if program is not None else [repr(value)])]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """The report of a test, with programs in place of diagrams among the arguments of what failed."""
    report = yield
    if call.excinfo is not None and "catdiag.category.diagram" in sys.modules:
        with suppress(Exception):  # an error in a report would hide the failure that it reports
            _with_programs(report.longrepr, [entry.frame.f_locals for entry in call.excinfo.traceback])
    return report


def _with_programs(shown: Any, frames: list[dict[str, Any]]) -> None:
    """Replaces arguments that are diagrams by programs, where the frames have such values under these names."""
    for entry in getattr(getattr(shown, "reprtraceback", None), "reprentries", ()):
        arguments = getattr(entry, "reprfuncargs", None)
        if arguments is None:
            continue
        changed = []
        for name, text in arguments.args:
            values = [frame[name] for frame in frames if name in frame]
            same = (v for v in values if repr(v).startswith(str(text).split("...")[0]))
            lines = next((found for v in same if (found := program_of(v)) is not None), None)
            changed.append((name, text if lines is None else "\n    ".join(lines)))
        arguments.args = changed


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Lists the conditional theorems with their conditions."""
    found = list(_conditional(terminalreporter))
    if found:
        terminalreporter.section("conditional theorems")
        for name, conditions in found:
            terminalreporter.write_line(f"{name}: where {conditions}")


def _conditional(reporter: Any) -> Iterator[tuple[str, str]]:
    for report in reporter.stats.get("passed", []):
        for key, value in getattr(report, "user_properties", []):
            if key == _REPORT_KEY:
                yield report.nodeid, value
