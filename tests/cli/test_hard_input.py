"""Files and arguments that are huge, nested, of the wrong kind or meant to do harm: one clear error, and soon."""

from __future__ import annotations

import io
import json
import os
import resource
import stat
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from catdiag.prover.refute.counterexample_data import Counterexample, NotACounterexample
from catdiag.util.files import read_whole, write_whole

GOOD = Path(__file__).resolve().parents[2] / "proofs" / "matmul_associative.json"


def certificate(nodes: Any = (), out: int = 0, **more: Any) -> str:
    array = {"name": "A", "axes": [["x", "x"]], "element": "real"}
    program = {"inputs": [array], "nodes": list(nodes), "outputs": [[out, "real"]], "title": "p"}
    statement = {"left": program, "right": program, "assume": []}
    return json.dumps({"format": "catdiag-certificate", "version": 3, "statement": statement, "proof": {}, **more})


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def circle(path: Path) -> Path:
    path.symlink_to(path.name)
    return path


# -- what is no regular file ----------------------------------------------------------------------------


@pytest.mark.parametrize("made", [pipe, circle, lambda path: Path("/dev/zero"), lambda path: path.with_name("n" * 300)])
def test_what_is_no_file_is_not_waited_for(run, tmp_path, made):
    for name, said in (("c.json", ("check",)), ("c.toml", ("hardware",)), ("c.py", ("prove",))):
        place = made(tmp_path / name)
        arguments = {"check": [place], "hardware": [f"{place}"], "prove": [f"{place}:f"] * 2}[said[0]]
        run(*said, *arguments).one_message(2, "catdiag: ")


def test_a_pipe_among_certificates(run, tmp_path):
    pipe(tmp_path / "a.json")
    (tmp_path / "b.json").write_bytes(GOOD.read_bytes())
    (tmp_path / "c.json").mkdir()
    done = run("check", tmp_path, "--workers", "1")
    assert (done.status, "1 accepted, 2 not readable" in done.out) == (2, True), done


def test_only_so_much_is_read(tmp_path):
    file = tmp_path / "f"
    file.write_bytes(b"12345")
    assert read_whole(file, 5) == b"12345"
    with pytest.raises(OSError, match="more than 4 bytes"):
        read_whole(file, 4)


# -- certificates ---------------------------------------------------------------------------------------


def test_a_witness_cannot_draw_on_the_terminal(run, tmp_path):
    file = tmp_path / "c.json"
    sizes = {"x": 1, "\x1b[2Jhere\nother.json: accepted\n": 2}
    file.write_text(certificate(witness={"sizes": sizes, "arrays": {"A": ["1"]}, "functions": {}}))
    done = run("check", file)
    assert done.status == 1
    assert "\x1b" not in done.out + done.err
    assert not [line for line in done.out.splitlines() if line.strip().startswith("other.json")]


def test_names_of_files_cannot_draw_on_the_terminal(run, tmp_path):
    file = tmp_path / "\x1b[2J\nb.json: accepted"
    assert "\x1b" not in run("check", file).err
    file.write_text("{}")
    assert "\x1b" not in run("check", file).out


def test_what_is_said_is_not_as_long_as_one_likes(run, tmp_path):
    file = tmp_path / "c.json"
    squares = [{"op": "map", "fn": "mul", "args": [k, k]} for k in range(14)]
    for text in (
        certificate(squares, 14),
        certificate(witness={"sizes": {"x": 10**4000}, "arrays": {"A": []}, "functions": {}}),
    ):
        file.write_text(text)
        assert len(run("check", file).out) < 30_000


def test_out_of_memory_is_no_verdict(run, tmp_path, monkeypatch):
    from catdiag.kernel.checker import Checker

    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Checker, "check", full)
    done = run("check", GOOD)
    assert (done.status, "out of memory" in done.err, "Traceback" in done.err) == (130, True, False)


# -- hardware -------------------------------------------------------------------------------------------

CHIPS = {
    "nested": "a=" + "[" * 20_000 + "]" * 20_000,
    "an integer without end": "sms=" + "9" * 60_000,
    "a large integer": "sms=" + "9" * 400,
    "a large text": "clock_hz='" + "9" * 5000 + " GHz'",
    "a large exponent": "clock_hz='1e999999999 GHz'",
    "beyond floats": "clock_hz='1e400 GHz'",
    "the largest float": "clock_hz=1.7e308",
    "the smallest float": "clock_hz=5e-324",
    "more bytes than floats are exact for": "l2_bytes=99999999999999999999",
    "many widths": f"warps={list(range(1, 1000))}",
    "too large": "#" * 100_000,
    "a name that is obeyed": 'name="\\u001b[2J"',
    "a name of two lines": 'name="a\\nb"',
    "a word that is obeyed": '[words]\ncore="\\u001b[2J"',
    "a key without end": "a" + ".a" * 30_000 + "=1",
}


@pytest.mark.parametrize("name", CHIPS)
def test_a_chip_is_refused(run, tmp_path, name):
    file, text = tmp_path / "c.toml", CHIPS[name]
    file.write_text(("" if "name=" in text else 'name="m"\n') + 'base="H100"\n' + text)
    done = run("hardware", file)
    done.one_message(2, str(file))
    assert len(done.err) < 6000
    assert "\x1b" not in done.err


def test_a_source_cannot_draw_on_the_terminal(run, tmp_path):
    file = tmp_path / "c.toml"
    file.write_text('name="m"\nbase="H100"\nsms=100\n[sources]\nsms="\\u001b[2J"')
    done = run("hardware", file)
    assert (done.status, "\x1b" in done.out) == (0, False)


# -- the command line -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("shard", "softmax", "--over", "x=²"), ("shard", "softmax", "--over", "x=" + "9" * 5000),
        ("fusions", "softmax", "--size", "x=8", "--memory", "9" * 400), ("io", "softmax", "--density", "nan"),
        ("io", "softmax", "--density", "-1"), ("io", "softmax", "--stages", "9" * 30),
        ("io", "softmax", "--on", "h100", "--wave", "9" * 30), ("derive", "softmax", "--stages", "9" * 30),
        ("derive", "softmax", "--on", "h100", "--size", "x=" + "9" * 100_000), ("check", "a" * 5000),
        ("prove", "softmax", "softmax", "--assume", "x >= " + "9" * 5000),
        ("derive", "softmax", "--certificate", "c" * 5000), ("prove", "p" * 5000 + ".py:f", "softmax"),
    ],
)  # fmt: skip
def test_arguments_out_of_all_proportion(run, arguments):
    done = run(*arguments)
    assert done.status == 2, done
    assert "Traceback" not in done.err
    assert len(done.err) < 6000


@pytest.mark.parametrize("text", ["raise GeneratorExit", "class E(BaseException): pass\nraise E('\\x1b[2J')"])
def test_a_file_that_raises_what_is_no_exception(run, tmp_path, text):
    file = tmp_path / "ops.py"
    file.write_text(text)
    done = run("prove", f"{file}:f", f"{file}:f")
    done.one_message(2, "failed", "ops.py:")
    assert "\x1b" not in done.err


def test_a_sweep_on_the_command_line(run, tmp_path):
    file = tmp_path / "s.csv"
    done = run("sweep", "matmul", "--on", "h100", "--size", "a=64/0,b=64,c=64", "--to", file, "--workers", "1")
    assert (done.status, "1 fits, 1 refused" in done.err) == (0, True), done
    assert len(file.read_text().splitlines()) == 3
    run("sweep", "matmul", "--on", "h100", "--size", "a=many").one_message(2, "expected a positive integer")
    run("sweep", "matmul", "--on", "h100", "--size", "z=1", "--workers", "1").one_message(2, "no operator has")


# -- counterexamples ------------------------------------------------------------------------------------


def test_counterexamples_of_others(tmp_path):
    from catdiag.cli.counterexample_npz import npz, read

    content = npz(Counterexample({"x": 1}, {"A": [1]}, 1, 2, {}))
    file = tmp_path / "c.npz"
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("exact.npy", b"\0" * (80 * 2**20))
    broken = bytearray(content)
    for k in range(30, 60):
        broken[k] ^= 0x5A
    for hostile in (b"", content[:100], bytes(broken), bomb.getvalue(), b"PK\x05\x06" + b"\0" * 18, b"\x93NUMPY\x01\0"):
        file.write_bytes(hostile)
        with pytest.raises(NotACounterexample):
            read(file)
    with pytest.raises(NotACounterexample):
        read(pipe(tmp_path / "p.npz"))


@pytest.mark.parametrize("number", ["1e999999999", "9" * 5000, "e^" + "9" * 5000, "nan", 0.5, None, {}])
def test_numbers_of_others(number):
    from catdiag.prover.refute.counterexample_data import as_data, of_data

    data = as_data(Counterexample({"x": 1}, {"A": [1]}, 1, 2, {}))
    with pytest.raises(NotACounterexample):
        of_data({**data, "arrays": {"A": [number]}})
    for field in data:
        for wrong in (3, [], {}, "text", None):
            try:
                of_data({**data, field: wrong})
            except NotACounterexample:
                continue


# -- writing --------------------------------------------------------------------------------------------


@contextmanager
def small_files(most: int) -> Iterator[None]:
    import signal

    before, heard = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, heard)


def test_a_file_that_does_not_fit_leaves_what_was_there(tmp_path):
    file = tmp_path / "f"
    write_whole(file, "old")
    with small_files(1000), pytest.raises(OSError, match="too large"):
        write_whole(file, b"n" * 100_000)
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["f"]


def test_links_and_long_names(tmp_path):
    kept, link = tmp_path / "kept", tmp_path / "link"
    link.symlink_to(kept)
    write_whole(link, "through")
    assert link.is_symlink()
    assert kept.read_text() == "through"
    for name in ("a" * 250, "é" * 120):
        write_whole(tmp_path / name, "x")
        assert (tmp_path / name).read_text() == "x"


def test_pipes_and_devices_stay_what_they_are(tmp_path):
    place = pipe(tmp_path / "p")
    heard: list[bytes] = []
    reader = threading.Thread(target=lambda: heard.append(place.read_bytes()))
    reader.start()
    write_whole(place, b"a" * 200_000)
    reader.join(10)
    assert len(heard[0]) == 200_000
    assert stat.S_ISFIFO(place.stat().st_mode)
    # A node of our own: what this test is about would replace that of the machine.
    device = tmp_path / "null"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except OSError:
        pytest.skip("only root may make a device")
    write_whole(device, "nothing")
    assert stat.S_ISCHR(device.stat().st_mode)
