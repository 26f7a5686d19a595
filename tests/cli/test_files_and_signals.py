"""Files are written whole or not at all, whatever happens; Ctrl-C ends a run at once; other commands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from catdiag.util.files import write_whole


def test_unwritable(run, op, tmp_path):
    inside = tmp_path / "there"
    inside.mkdir()
    for option in ("--json", "--certificate"):
        run("derive", op("variance"), option, tmp_path / "not" / "there.json").one_message(
            2, "cannot write", "no folder"
        )
        run("derive", op("variance"), option, inside).one_message(2, "cannot write", "a folder")
    run("prove", op("variance"), op("variance"), "--counterexample", inside).one_message(2, "cannot write")
    same = tmp_path / "same.json"
    run("derive", op("variance"), "--json", same, "--certificate", same).one_message(2, "two outputs")
    assert os.listdir(tmp_path) == ["there"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_no_permission(run, op, tmp_path):
    tmp_path.chmod(0o555)
    run("derive", op("variance"), "--json", tmp_path / "d.json").one_message(2, "not writable")


def test_a_full_disk_leaves_no_file(run, op, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    run("derive", op("variance"), "--json", tmp_path / "d.json").one_message(2, "cannot write", "No space left")
    assert os.listdir(tmp_path) == []


def test_an_older_file_is_replaced(run, op, tmp_path):
    file = tmp_path / "d.json"
    file.write_text("old" * 100_000)
    file.chmod(0o600)
    assert run("derive", op("variance"), "--json", file).status == 0
    assert file.read_text().startswith("{")
    # Nobody may read more than before.
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_file_that_may_not_be_written_is_not_replaced(run, op, tmp_path):
    """Not by the superuser either, nor by way of a link; and before any work is done."""
    file, link = tmp_path / "d.json", tmp_path / "link.json"
    file.write_text("precious")
    file.chmod(0o444)
    link.symlink_to(file)
    for path in (file, link):
        with pytest.raises(PermissionError):
            write_whole(path, "new")
        run("derive", op("variance"), "--json", path).one_message(2, f"cannot write {path}", "not writable")
        run("prove", op("variance"), op("variance"), "--certificate", path).one_message(2, "not writable")
        run("sweep", "dot", "--on", "h100", "--size", "x=64", "--to", path).one_message(2, "not writable")
    assert file.read_text() == "precious"
    assert sorted(os.listdir(tmp_path)) == ["d.json", "link.json"]


FULL = """
import os, sys
from catdiag.cli import main
for line in sys.argv[1:]:
    sys.argv[1:] = line.split()
    try:
        main()
        status = 0
    except SystemExit as end:
        status = end.code
    print(line, "ends with", status, file=sys.stderr, flush=True)
"""
COMMANDS = (
    "axioms", "hardware", "hardware --json", "io dot", "io dot --json", "derive dot", "draw dot", "prove dot dot",
    "check proofs/stream_dot.json", "--help",
)  # fmt: skip
OTHER_COMMANDS = (
    "hardware h100", "io attention --latex", "fusions softmax", "shard matmul --group a --over a=2",
    "draw dot --program", "check proofs/stream_dot.json proofs/softmax_two.json",
    "sweep dot --on h100 --size x=64 --workers 1", "plot transfers matmul --size a=64,b=64,c=64", "derive --help",
)  # fmt: skip


def outputs(redirected: str, *commands: str) -> list[str]:
    """What is said on the standard error stream, and how commands end, when the output goes somewhere else."""
    words = [sys.executable, "-c", FULL, *commands]
    done = subprocess.run(["bash", "-c", f'"$@" {redirected}', "bash", *words], capture_output=True, text=True)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr.splitlines()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device here")
@pytest.mark.parametrize("commands", [COMMANDS, pytest.param(OTHER_COMMANDS, marks=pytest.mark.slow)])
def test_output_that_cannot_be_written_is_no_verdict(commands):
    """A traceback would end with 1, which means refuted."""
    said = outputs("> /dev/full", *commands)
    for command in commands:
        place = said.index(f"{command} ends with 2")
        assert said[place - 1] == "catdiag: cannot write the output: No space left on device", said[: place + 1]


def test_output_that_is_closed_is_no_verdict():
    said = outputs(">&-", *COMMANDS[:2])
    for command in COMMANDS[:2]:
        place = said.index(f"{command} ends with 2")
        assert said[place - 1] == "catdiag: cannot write the output: Bad file descriptor", said[: place + 1]


def test_messages_that_nobody_hears_change_no_status():
    code = f"{sys.executable} -c 'from catdiag.cli import main; main()' check nothing.json 2> /dev/full"
    assert subprocess.run(["bash", "-c", code], capture_output=True).returncode == 2


def test_a_mistake_of_the_program_is_no_verdict(run, op, monkeypatch):
    import catdiag.cli.derive_commands as commands

    def wrong(*_: object) -> int:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(commands, "run_prove", wrong)
    done = run("prove", op("variance"), op("variance"))
    assert done.status == 70 and "ZeroDivisionError" in done.err


def running(mark: str) -> list[str]:
    """The commands of the processes that still run and were started, at whatever remove, with a mark."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark.encode() in file.read():
                    found.append(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def interrupt(after: float, *args: object, prefix: str = "") -> tuple[int, str]:
    """Exit status and messages of a run that gets Ctrl-C some seconds after it has started its work.

    Whatever it has started ends soon after it.
    """
    mark = f"CATDIAG_STARTED_BY={uuid.uuid4()}"
    code = f"from catdiag.cli import main\n{prefix}\nprint('ready', flush=True); main()"
    command = [sys.executable, "-c", code, *map(str, args)]
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **options, env=dict([*os.environ.items(), mark.split("=")])) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(after)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=600)
    for _ in range(1200):  # at once, but on a machine that is busy
        if not running(mark):
            break
        time.sleep(0.05)
    assert not running(mark)
    return process.returncode, err


@pytest.mark.parametrize("after", [0.01, 0.1, 0.2, 0.3])
def test_interrupted(tmp_path, after):
    files = ["--json", tmp_path / "d.json", "--certificate", tmp_path / "c.json"]
    sizes = "b=2,h=16,q=4096,x=4096,d=128"
    assert interrupt(after, "derive", "multi_head_attention", "--on", "h100", "--size", sizes, *files) == (
        130,
        "interrupted\n",
    )
    assert os.listdir(tmp_path) == []


SLOW = """
from catdiag.solvers.child_process import Solver
put = Solver._wait
def wait(self, process):
    process.send_signal(19)
    put(self, process)
Solver._wait = wait
"""


@pytest.mark.parametrize("after", [pytest.param(0.6, marks=pytest.mark.slow), 1.2])
def test_interrupted_while_a_solver_works(tmp_path, after):
    file = tmp_path / "c.json"
    # The solver is stopped in the middle of its first goal, so that it does not end by itself.
    assert interrupt(after, "derive", "attention", "--certificate", file, prefix=SLOW) == (130, "interrupted\n")
    assert os.listdir(tmp_path) == []


DROPS = """
import signal
class Dropped:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
import catdiag.cli.check_command as check
whole = check.run_check
def dropped(*args):
    Dropped()
    return whole(*args)
check.run_check = dropped
"""


def test_interrupted_where_python_drops_exceptions(tmp_path):
    import catdiag as cd

    theorem = cd.library.get("attention").stream("x").theorem
    for k in range(40):
        theorem.save(str(tmp_path / f"{k}.json"))
    code = f"from catdiag.cli import main\n{DROPS}\nmain()"
    done = subprocess.run([sys.executable, "-c", code, "check", tmp_path], capture_output=True, text=True, timeout=600)
    assert done.returncode == 130 and done.stderr.endswith("interrupted\n")


FAILS = """
import catdiag.cli.check_command as check
from signal import SIGINT, raise_signal
def failing(*args):
    try:
        raise_signal(SIGINT)
    except KeyboardInterrupt:
        pass  # as Python does where the import of a module is interrupted
    return {}["LiveRanges"]
check.run_check = failing
"""


def test_what_fails_after_ctrl_c_is_interrupted(tmp_path):
    code = f"from catdiag.cli import main\n{FAILS}\nmain()"
    done = subprocess.run([sys.executable, "-c", code, "check", tmp_path], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


@pytest.mark.parametrize("after", [0.01, 0.2, 0.4])
def test_interrupted_check_of_several(tmp_path, after):
    import catdiag as cd

    theorem = cd.library.get("attention").stream("x").theorem
    for k in range(40):
        theorem.save(str(tmp_path / f"{k}.json"))
    status, err = interrupt(after, "check", tmp_path)
    assert status == 130
    assert "Traceback" not in err
    assert "interrupted" in err


def test_a_solver_that_dies_is_no_verdict(apart, op):
    prefix = (
        "import subprocess, sys, catdiag.solvers.child_process as process\n"
        "start = subprocess.Popen\n"
        "dead = [sys.executable, '-c', 'raise SystemExit(1)']\n"
        "process.subprocess.Popen = lambda command, **options: start(dead, **options)"
    )
    done = apart("derive", op("variance"), prefix=prefix)
    done.one_message(130, "interrupted")


def test_output_that_nobody_reads(op):
    command = f"{sys.executable} -m catdiag axioms | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=600)
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 141)


def test_a_terminal_without_the_letters(op):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "catdiag", "derive", op("variance")],
        capture_output=True, text=True, env=environment, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "variance: A[q x] ? [q]" in done.stdout


def test_other_commands(run, op):
    from importlib.metadata import version

    assert run("--version").out == f"catdiag {version('catdiag')}\n"
    assert "derive" in run("--help").out
    chips = run("hardware")
    assert chips.status == 0
    assert {"A100", "H100", "H200"} <= {line.split(":")[0] for line in chips.out.splitlines()}
    assert "smem_per_block" in run("hardware", "h100").out
    run("hardware", "h9000").one_message(2, "unknown hardware")
    axioms = run("axioms").out
    for said in ("A10", "exp(a + b) = exp a · exp b", "catdiag/kernel/checker.py", "z3 "):
        assert said in axioms
    counted = run("io", "attention", "--dtype", "bf16", "--unfused")
    assert counted.status == 0
    assert "24*q*x" in counted.out
    assert "2*d*q*x/g_q" in run("io", "attention", "--stream", "x", "--group", "q").out
    run("io", "attention", "--dtype", "bf17").one_message(2, "unknown dtype")
    run("io", op("far_from_mean"), "--stream", "x").one_message(3, "x")
    run("nonsense").one_message(2, "nonsense")
    nothing = run()
    assert "Usage" in nothing.out + nothing.err


def test_the_command_line_imports_next_to_nothing_before_it_hears_ctrl_c():
    """The package is imported before it can hear anything; what Python itself imports is there already."""
    code = "import sys; before = set(sys.modules); import catdiag.cli; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    there = {name.split("._bootstrap")[0] for name in done.stdout.split()}
    ours = {"catdiag", "catdiag.cli", "catdiag.util", "catdiag.util.display"}
    assert there <= {"__future__", *ours, "importlib", "types", "warnings"}


def test_ctrl_c_in_a_callback_is_heard_and_not_printed():
    code = """
import os, signal, time, weakref
import catdiag.cli as cli

class Object: pass

def callback(_):
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(100000): pass

ctrl_c = cli._CtrlC()
ctrl_c.start()
one = Object()
held = weakref.ref(one, callback)
try:
    del one
    time.sleep(5)
except KeyboardInterrupt:
    print("heard")
ctrl_c.stop()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert (done.stdout, done.stderr) == ("heard\n", "")
