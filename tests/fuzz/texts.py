"""What is read from files and from the command line: each text is taken, or refused with an error of the library."""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from catdiag.cli.check_verdict import Malformed, data_of
from catdiag.cli.option_values import parse_sizes
from catdiag.kernel.checker import Checker
from catdiag.kernel.terms import KernelError
from catdiag.rewrite.derivation import Derivation
from catdiag.util.errors import CatdiagError

_SELDOM = 61
_FOLDER = Path(tempfile.mkdtemp(prefix="catdiag-fuzz-"))


def text_of(data: bytes) -> str:
    """Any text, lone surrogates too."""
    return data.decode("utf-8", "surrogateescape")


def certificate(data: bytes) -> None:
    """Bytes as the file of a certificate; no solver is asked, and nothing is affirmed."""
    try:
        Checker(lambda hypotheses, goal: False).check(data_of(data))
    except (Malformed, KernelError):
        return


def chip(data: bytes) -> None:
    """Bytes as the file of a chip: what is taken is written and read again the same, and a plan is made for it."""
    from catdiag.chip import hardware

    file = _FOLDER / "c.toml"
    file.write_bytes(data)
    try:
        found = hardware.load(file)
    except CatdiagError:
        return
    str(found), str(found.hierarchy), json.dumps(found.as_dict())
    if hardware.loads(hardware.dumps(found)) != found:
        raise AssertionError("a chip that is not what it was after it was written and read")
    # Under the fuzzer, not without it, the arrays of every plan stay in memory: few are made.
    if len(data) % _SELDOM:
        return
    try:
        _product().plan(found, {"a": 64, "b": 64, "c": 64})
    except CatdiagError:
        return


@cache
def _product() -> Derivation:
    from catdiag import library

    return library.get("matmul").stream("b").group("a c")


def arguments(data: bytes) -> None:
    """Text as sizes, as a signature, as a name of an operator, as an assumption, as a pattern."""
    import catdiag as cd
    from catdiag.prover.api import parse_assumption

    text = text_of(data)
    for reads in (
        lambda: parse_sizes([text]),
        lambda: parse_assumption(text),
        lambda: cd.library.get(text),
        lambda: cd.hardware.get(text) if not text.endswith(".toml") else None,
        lambda: cd.algorithm(text)(lambda *arrays: arrays[0] if arrays else cd.size("x")),
        lambda: cd.algorithm("a b, b c -> a c")(lambda A, B: cd.einsum(text, A, B)),
        lambda: cd.algorithm("(a b) c -> a b c")(lambda A: cd.rearrange(A, text)),
        lambda: cd.category.Ty(cd.category.ArrayType((cd.Axis(text),))),
    ):
        try:
            reads()
        except CatdiagError:
            continue


def counterexample(data: bytes) -> None:
    """Bytes as the file of a counterexample, or as the JSON inside one."""
    from catdiag.cli.counterexample_npz import read as read_npz
    from catdiag.prover.refute.counterexample_data import NotACounterexample, of_data

    file = _FOLDER / "c.npz"
    file.write_bytes(data)
    with suppress(NotACounterexample):
        read_npz(file)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("exact.npy", data)
    file.write_bytes(content.getvalue())
    with suppress(NotACounterexample):
        read_npz(file)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return
    try:
        of_data(found)
    except NotACounterexample:
        return
