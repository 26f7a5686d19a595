"""The verdict on one certificate: checked by the kernel and the solvers, and what it proves as lines of text.

This module imports nothing of the frontend, the prover or the rewrites, which may be missing.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catdiag.cli.exit_status import DONE, INTERRUPTED, REFUTED, VACUOUS, WRONG_USE, shown
from catdiag.kernel.checker import Checker
from catdiag.kernel.semantics import Wire, evaluate, inputs_of
from catdiag.kernel.size_scope import printer_of
from catdiag.kernel.terms import KernelError, Printer
from catdiag.solvers.child_process import Allowance, SolverInterrupted
from catdiag.solvers.cross_check import Both, Disagreement
from catdiag.solvers.cvc5 import Cvc5
from catdiag.solvers.z3 import Z3
from catdiag.util.files import read_whole
from catdiag.util.time_limit import OutOfTime, within

if TYPE_CHECKING:
    from catdiag.kernel.context import Ask

LARGEST = 16 * 2**20
"""Bytes of a certificate above which it is not read."""

MOST_LINES = 20
"""Lines of the reason for which a certificate is refused."""

Program = Mapping[str, Any]


class Unreadable(Exception):
    """A file that cannot be read at all."""


class Malformed(Exception):
    """A file that is not a certificate."""


@dataclass(frozen=True)
class CheckVerdict:
    """The verdict on one certificate: an exit status, a summary line, and what it proves, line by line.

    `agreed` and `undecided` count the goals that z3 affirmed, by the answer of cvc5, if it was asked.
    """

    status: int
    stated: str
    proves: tuple[str, ...] = ()
    conditional: bool = False
    agreed: int = 0
    undecided: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Plain data, to send between processes."""
        return asdict(self)

    @staticmethod
    def of(data: Mapping[str, Any]) -> CheckVerdict:
        """The verdict of its plain data."""
        return CheckVerdict(**{**data, "proves": tuple(data["proves"])})


class Solvers:
    """z3, and cvc5 if it is installed, for any number of certificates: a context manager that ends their processes."""

    def __init__(self) -> None:
        self.first: Z3 = Z3()
        self.second: Cvc5 | None = Cvc5() if Cvc5.version() is not None else None
        self._open = ExitStack()

    def __enter__(self) -> Solvers:
        for solver in (self.first, self.second):
            if solver is not None:
                self._open.enter_context(solver)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def ask(self) -> tuple[Ask, Both | None]:
        """A function from goals to answers for one certificate, and the counter of second opinions."""
        allowed = Allowance(self.first, self.first.rlimit)
        if self.second is None:
            return allowed, None
        both = Both(allowed, self.second)
        return both, both


def unread(name: str, error: Exception) -> CheckVerdict:
    """The verdict on a file that cannot be read, or that is refused."""
    if isinstance(error, Unreadable):
        return CheckVerdict(WRONG_USE, f"catdiag: cannot read {name}: {error}")
    reason = "\n  ".join(shown(line) for line in str(error).split("\n")[:MOST_LINES])
    return CheckVerdict(REFUTED, f"{name}: REFUSED\n  {reason}")


def verdict_on(file: Path, solvers: Solvers, limit: float | None = None, content: bytes | None = None) -> CheckVerdict:
    """Checks one certificate here: its `content` if that is given, else the content of the file."""
    ask, both = solvers.ask()
    name = shown(str(file))
    try:
        certificate = data_of(content_of(file) if content is None else content)
        theorem = within(limit, lambda: Checker(ask).check(certificate))
        if not theorem.witness.isprintable():
            raise Malformed(f"the witness has names that cannot be printed: {theorem.witness!r}")
    except (Unreadable, Malformed, KernelError, Disagreement) as error:
        return unread(name, error)
    except MemoryError:
        return CheckVerdict(INTERRUPTED, f"interrupted: {name}: out of memory")
    except (OutOfTime, SolverInterrupted) as error:
        return CheckVerdict(INTERRUPTED, f"interrupted: {name}: {error}")
    opinion = str(both) if both is not None else "no second opinion: cvc5 is not installed"
    accepted = "accepted" + (", on a condition" if theorem.conditional else "")
    return CheckVerdict(
        VACUOUS if theorem.vacuous else DONE,
        f"{name}: {'VACUOUS: it follows, but of nothing' if theorem.vacuous else accepted}",
        (*map(shown, (*str(theorem).split("\n"), *statement(certificate))), f"  solver: {solver()}; {opinion}"),
        theorem.conditional and not theorem.vacuous,
        both.agreed if both is not None else 0,
        both.undecided if both is not None else 0,
    )


def content_of(file: Path) -> bytes:
    """The bytes of a certificate. Raises Unreadable, or Malformed if there are too many."""
    try:
        return read_whole(file, LARGEST)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        reason = getattr(error, "strerror", None) or str(error)
        if getattr(error, "errno", None) == errno.EFBIG:
            raise Malformed(reason) from error
        raise Unreadable(reason) from error


def data_of(content: bytes) -> dict[str, Any]:
    """The plain data of a certificate. Raises Malformed for what is not a JSON object, or is ambiguous."""
    try:
        value = json.loads(content.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"it is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise Malformed("it is no JSON object")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose keys are all different: parsers disagree on which of two equal keys counts."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice in one object")
    return found


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def solver() -> str:
    """The names and versions of the solvers, with cvc5 if it is installed."""
    second = Cvc5.version()
    return f"z3 {Z3.version() or 'of unknown version'}" + (f", cvc5 {second}" if second else "")


def statement(certificate: Mapping[str, Any]) -> list[str]:
    """Both programs of an accepted certificate, as formulas."""
    lines: list[str] = []
    try:
        sides = {side: certificate["statement"][side] for side in ("left", "right")}
        printer = printer_of(*sides.values())
        for side, program in sides.items():
            lines.append(f"  {side}: {program.get('title') or 'without a name'}")
            lines.extend(f"    {line}" for line in formulas(program, printer))
    except RecursionError:
        lines.append("  (its terms are nested too deeply to be printed)")
    return lines


def formulas(program: Program, printer: Printer | None = None) -> Iterator[str]:
    """What a program computes: each result as a formula of the inputs, and its loops and groups with their bodies.

    >>> total = {"inputs": [{"name": "A", "axes": [["x", "x"]], "element": "real"}],
    ...          "nodes": [{"op": "reduce", "monoid": "sum", "axis": "x", "args": [0]}], "outputs": [[1, "real"]]}
    >>> list(formulas(total))
    ['result = Σ_{i0<x} A[i0]']
    """
    said = _Formulas(printer or printer_of(program))
    wires = evaluate(program, inputs_of(program, {}), {}, _accepted)
    for k, wire in enumerate(wires):
        yield f"result{k if len(wires) > 1 else ''}{said.indices(wire)} = {said.term(wire)}{said.ranges(wire)}"
    yield from said.loops(program, inputs_of(program, {}))


class _Formulas:
    """The loops and groups of programs as lines of text, with definitions of the names that are local to each."""

    def __init__(self, printer: Printer) -> None:
        self.printer = printer

    def term(self, wire: Wire) -> str:
        return self.printer.show(wire.term)

    def indices(self, wire: Wire) -> str:
        return f"[{','.join(self.printer.index(name) for name, _ in wire.axes)}]" if wire.axes else ""

    def ranges(self, wire: Wire) -> str:
        """The ranges of indices along axes whose sizes have other names than the axes."""
        sizes = ((name, self.printer.show(n)) for name, n in wire.axes)
        over = [f"{self.printer.index(name)} < {n}" for name, n in sizes if n != name]
        return f" for all {', '.join(over)}" if over else ""

    def loops(self, program: Program, inputs: Sequence[Wire]) -> Iterator[str]:
        """The loops and groups of a program."""
        found: list[tuple[Mapping[str, Any], Sequence[Wire]]] = []

        def met(node: Mapping[str, Any], args: Sequence[Wire], _: object) -> None:
            # Those inside of loops and groups are visited too, and described after them.
            if node["op"] in ("fold", "group") and any(node is own for own in program["nodes"]):
                found.append((node, args))

        evaluate(program, inputs, {}, met)
        for node, args in found:
            yield from self._group(node, args) if node["op"] == "group" else self._fold(node, args)

    def _bindings(self, names: Sequence[Wire], args: Sequence[Wire]) -> Iterator[str]:
        """The definitions of a loop's or group's inputs, unless the input has the same name outside."""
        for name, arg in zip(names, args, strict=True):
            if self.term(name) != self.term(arg):
                yield f"  where {self.term(name)} is {self.term(arg)}"

    def _group(self, node: Mapping[str, Any], args: Sequence[Wire]) -> Iterator[str]:
        yield "in groups: " + ", ".join(f"tiles of {local} along {axis}" for axis, local in node["tiles"])
        inputs = inputs_of(node["body"], {})
        yield from self._bindings(inputs, args)
        yield from (f"  {line}" for line in self.loops(node["body"], inputs))

    def _fold(self, node: Mapping[str, Any], args: Sequence[Wire]) -> Iterator[str]:
        yield f"a loop along {node['axis']} in blocks of {node['block']}, which gives these:"
        # The parts of the loop may name their inputs differently: all are printed with the names of the step.
        starts = evaluate(node["unit"], inputs_of(node["unit"], {}), {}, _accepted)
        inputs = inputs_of(node["step"], {})
        states, block = inputs[: len(starts)], inputs[len(starts) :]
        yield from self._bindings(block, args)
        iterations, means = (
            evaluate(node[body], given, {}, _accepted) for body, given in (("step", inputs), ("state", block))
        )
        for state, start, iteration, mean in zip(states, starts, iterations, means, strict=True):
            yield f"  {self.term(replace(state, axes=mean.axes))} of a list: {self.term(mean)}{self.ranges(mean)}"
            yield f"    starts as {self.term(start)}"
            yield f"    after a block is {self.term(iteration)}"
        for k, line in enumerate(self.loops(node["step"], inputs)):
            yield f"  in an iteration, {line}" if k == 0 else f"  {line}"
        if "extent" in node:
            lo, hi = evaluate(node["extent"], block, {}, _accepted)
            yield f"  blocks that end before {self.term(lo)}{self._for_all(lo)} may be left out"
            yield f"  blocks that begin at {self.term(hi)}{self._for_all(hi)} or later may be left out"
        if "live" in node:
            (live,) = evaluate(node["live"], block, {}, _accepted)
            yield f"  a block may be left out where it is nowhere so that {self.term(live)}"

    def _for_all(self, wire: Wire) -> str:
        return f" for every {', '.join(self.printer.index(name) for name, _ in wire.axes)}" if wire.axes else ""


def _accepted(*_: object) -> None:
    """Loops and groups are valid: they were accepted when the certificate was checked."""
