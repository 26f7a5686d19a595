"""What the library puts out is what was accepted: `python -m tests.golden` says of all of it what differs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden.cases import SUITE, Unit, is_whole, units
from tests.golden.normalize import ROOT, normalized
from tests.golden.runner import STORE, gone, main, report
from tests.golden.store import Difference, Place, Store

UNITS = {unit.name: unit for unit in units()}
QUICK = [name for name, unit in UNITS.items() if unit.quick]


def compared(unit: Unit, folder: Path) -> None:
    if unit.missing:
        pytest.skip(f"{unit.missing} is not installed")
    found = [d for place, text in unit.texts().items() if (d := STORE.difference(place, text)) is not None]
    assert not found, "\n".join(["", *report(found, folder)])


@pytest.mark.parametrize("name", QUICK)
def test_outputs_are_as_accepted(name: str, tmp_path: Path) -> None:
    compared(UNITS[name], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in UNITS if name not in QUICK])
def test_all_outputs_are_as_accepted(name: str, tmp_path: Path) -> None:
    compared(UNITS[name], tmp_path)


def test_all_that_is_stored_is_made() -> None:
    made = {place for unit in UNITS.values() for place in unit.places}
    quick = {place for name in QUICK for place in UNITS[name].places}
    stored, whole = STORE.places(), {(file.parent.name, file.stem) for file in STORE.folder.glob("texts/*/*.txt")}
    assert quick <= stored <= made and whole == {place for place in stored if is_whole(place)}
    assert {f"operator/{name}" for name in SUITE} <= set(QUICK)
    # Small enough to be kept with the sources.
    assert sum(file.stat().st_size for file in STORE.folder.rglob("*") if file.suffix in (".txt", ".sha256")) < 800_000


@pytest.mark.slow
def test_all_that_is_made_is_stored() -> None:
    assert {place for unit in UNITS.values() for place in unit.places} == STORE.places()


def test_outputs_are_the_same_whatever_the_hash_seed() -> None:
    """With a fixed seed; the processes of a run of the suite have any."""
    work = [sys.executable, "-m", "tests.golden", "--workers", "1", "*/cross_entropy"]
    told = subprocess.run(work, env={**os.environ, "PYTHONHASHSEED": "7"}, cwd=ROOT, capture_output=True, text=True)
    assert (told.returncode, told.stdout) == (0, "as accepted\n"), told.stdout + told.stderr


# -- the runner itself -----------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "store")
    made.accept({("a", "x"): "one\ntwo\n", ("a", "y"): "three\n", ("b", "x"): "four\n"}, [("a", "x")])
    return made


def test_a_store_knows_what_it_was_given(store: Store) -> None:
    assert store.places() == {("a", "x"), ("a", "y"), ("b", "x")}
    assert store.difference(("a", "x"), "one\ntwo\n") is None and store.difference(("a", "y"), "three\n") is None
    assert (store.folder / "texts" / "a" / "x.txt").read_text() == "one\ntwo\n"
    lines = (store.folder / "digests" / "a.sha256").read_text().splitlines()
    assert [line.split()[1] for line in lines] == ["y"]


def test_differences_are_told_by_kind_with_how_to_accept_them(store: Store, tmp_path: Path) -> None:
    now = {("a", "x"): "one\nfive\n", ("a", "y"): "six\n", ("b", "z"): "seven\n"}
    found = [d for place, text in now.items() if (d := store.difference(place, text)) is not None]
    found.append(Difference(("b", "x"), "gone"))
    told = report(found, tmp_path / "new")
    assert told[:2] == ["a: 2", "  x: changed"] and "    -two" in told and "    +five" in told
    assert told[told.index("b: 2") :][:3] == ["b: 2", "  x: gone", "  z: new"]
    assert told[-1].endswith("python -m tests.golden --accept a b")
    assert (tmp_path / "new" / "a" / "y.txt").read_text() == "six\n"


def test_what_is_accepted_replaces_what_was(store: Store) -> None:
    # Of one, the whole text was stored and its digest is now, of another the other way round.
    store.accept({("a", "x"): "eight\n", ("a", "y"): "nine\n"}, [("a", "y")], [("b", "x")])
    assert store.places() == {("a", "x"), ("a", "y")}
    assert store.difference(("a", "x"), "eight\n") is None and store.difference(("a", "y"), "nine\n") is None
    assert (
        not (store.folder / "texts" / "a" / "x.txt").exists() and not (store.folder / "digests" / "b.sha256").exists()
    )


def test_the_command_compares_accepts_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place: Place = ("command", "derive-no-chip")
    store, asked = Store(tmp_path / "store"), ["/".join(place), "--workers", "1"]
    assert main(asked, store=store) == 1
    assert "derive-no-chip: new" in capsys.readouterr().out
    assert main([*asked, "--accept"], store=store) == 0 and store.places() == {place}
    assert main(asked, store=store) == 0
    assert main([*asked, "--dump", str(tmp_path / "all")], store=store) == 0
    text = (tmp_path / "all" / "command" / "derive-no-chip.txt").read_text()
    assert text.startswith("$ catdiag derive matmul --on h1000") and text.endswith("--- status 2\n")
    store.accept({("command", "of-old"): ""}, ())
    assert gone(store, ["command"]) == {("command", "of-old")} and gone(store, ["svg"]) == set()
    assert main(["nothing"], store=store) == 2


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("stream x, proved in 0.25 s", "stream x, proved in N s"),
        ("3.22 s of computing, 1.40 s of it for proofs", "N s of computing, N s of it for proofs"),
        ("(bytes; z3, 16 ms)", "(bytes; z3, N ms)"),
        ("stream x: 12 ms\ngroup q: 3 ms", "stream x: N ms\ngroup q: N ms"),
        ('"seconds": 1.5e-05,\n"time_s": 1.5e-05', '"seconds": N,\n"time_s": 1.5e-05'),
        (f"at {ROOT}/examples/decode.py:3", "at examples/decode.py:3"),
        (f"at {ROOT}/catdiag/library/attention.py:30: x", "at attention.py:N: x"),
        ("2 accepted; z3 5.4.0.0, cvc5 1.4.2", "2 accepted; z3 N, cvc5 N"),
        ("12.7 µs predicted, 64 blocks, operators.py:25", "12.7 µs predicted, 64 blocks, operators.py:25"),
    ],
)
def test_only_what_is_not_the_librarys_own_is_left_out(text: str, kept: str) -> None:
    assert normalized(text) == kept
