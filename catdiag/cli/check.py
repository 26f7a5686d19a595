"""`catdiag check`: replays certificates, with the kernel and the solver only.

Each file is checked in a process of its own: what one certificate makes the checker build, no other can use. This
module imports nothing of the builder, the prover or the rewrites, which may be missing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from catdiag.cli.outcome import DONE, INTERRUPTED, REFUTED, WRONG_USE, UsageError
from catdiag.kernel.check import Checker
from catdiag.kernel.meaning import Wire, evaluate, inputs_of
from catdiag.kernel.terms import KernelError, show

LARGEST = 64 * 2**20
"""Bytes of a certificate above which it is not read."""

Program = Mapping[str, Any]


class Unreadable(Exception):
    """A file that cannot be read at all."""


class Malformed(Exception):
    """A file that is no certificate."""


def run_check(paths: Sequence[Path]) -> int:
    """`catdiag check`: 0 if every certificate is accepted, 1 if one is refused, 2 if one cannot be read."""
    files = list(_files(paths))
    if len(files) == 1:
        return check_file(files[0])
    found = {_in_process(file) for file in files}
    return next((s for s in (INTERRUPTED, REFUTED, WRONG_USE) if s in found), max(found))


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        inside = sorted(path.rglob("*.json"))
        if not inside:
            raise UsageError(f"the folder {path} has no certificates: expected files named *.json")
        yield from inside


def _in_process(file: Path) -> int:
    """The status of `catdiag check` of one file, run apart; what it prints is printed."""
    sys.stdout.flush()
    # -P: the folder that one stands in is not imported from.
    command = [sys.executable, "-P", "-m", "catdiag.cli", "check", "--", str(file)]
    path = os.pathsep.join(p for p in sys.path if p)
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(2)
            except subprocess.TimeoutExpired:
                process.kill()
            raise


def check_file(file: Path) -> int:
    """Checks one certificate here, and prints what it proves or why it is refused. Gives the exit status."""
    from catdiag.solvers.z3 import Z3, SolverInterrupted

    try:
        certificate = read(file)
        with Z3() as ask:
            theorem = Checker(ask).check(certificate)
    except Unreadable as error:
        print(f"catdiag: cannot read {file}: {error}", file=sys.stderr)
        return WRONG_USE
    except (Malformed, KernelError) as error:
        print(f"{file}: REFUSED\n  {error}")
        return REFUTED
    except SolverInterrupted as error:
        print(f"interrupted: {file}: {error}", file=sys.stderr)
        return INTERRUPTED
    print(f"{file}: accepted" + (", on a condition" if theorem.conditional else ""))
    for line in (*str(theorem).splitlines(), *statement(certificate), f"  solver: {solver()}"):
        print(f"  {line}")
    return DONE


def read(file: Path) -> dict[str, Any]:
    """The plain data of a certificate. Raises Unreadable, or Malformed for what is no JSON object or is ambiguous."""
    try:
        with file.open("rb") as handle:
            data = handle.read(LARGEST + 1)
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from error
    if len(data) > LARGEST:
        raise Malformed(f"it has more than {LARGEST} bytes")
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"it is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise Malformed("it is no JSON object")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON whose names are all different: of two of one name, readers may take either."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice in one object")
    return found


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def solver() -> str:
    """The solver's name and version."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"z3 {version('z3-solver')}"
    except PackageNotFoundError:
        return "z3 of unknown version"


def statement(certificate: Mapping[str, Any]) -> list[str]:
    """Both programs of a certificate that was accepted, as formulas."""
    lines: list[str] = []
    try:
        for side in ("left", "right"):
            program = certificate["statement"][side]
            lines.append(f"  {side}: {program.get('title') or 'without a name'}")
            lines.extend(f"    {line}" for line in formulas(program))
    except RecursionError:
        lines.append("  (its terms are nested too deeply to be printed)")
    return lines


def formulas(program: Program) -> Iterator[str]:
    """What a program computes: each result as a formula of the inputs; its loops and groups with their bodies.

    >>> total = {"inputs": [{"name": "A", "axes": [["x", "x"]], "element": "real"}],
    ...          "nodes": [{"op": "reduce", "monoid": "sum", "axis": "x", "args": [0]}], "outputs": [[1, "real"]]}
    >>> list(formulas(total))
    ['result = Σ_{i0<x} A[i0]']
    """
    wires = evaluate(program, inputs_of(program, {}), {}, _accepted)
    for k, wire in enumerate(wires):
        yield f"result{k if len(wires) > 1 else ''}{_indices(wire)} = {show(wire.term)}"
    for node in program["nodes"]:
        yield from _loops(node)


def _loops(node: Mapping[str, Any]) -> Iterator[str]:
    if node["op"] == "group":
        yield "in groups: " + ", ".join(f"tiles of {local} along {axis}" for axis, local in node["tiles"])
        for inner in node["body"]["nodes"]:
            yield from (f"  {line}" for line in _loops(inner))
    elif node["op"] == "fold":
        yield f"a loop along {node['axis']} in blocks of {node['block']}, which gives these:"
        states = [str(d["name"]) for d in node["step"]["inputs"]]
        starts, turns, means = (
            evaluate(node[body], inputs_of(node[body], {}), {}, _accepted) for body in ("unit", "step", "state")
        )
        for name, start, turn, mean in zip(states, starts, turns, means):
            yield f"  {name}{_indices(mean)} of a list: {show(mean.term)}"
            yield f"    starts as {show(start.term)}"
            yield f"    after a block is {show(turn.term)}"


def _indices(wire: Wire) -> str:
    return f"[{','.join(name for name, _ in wire.axes)}]" if wire.axes else ""


def _accepted(*_: object) -> None:
    """Loops and groups were accepted when the certificate was checked."""
