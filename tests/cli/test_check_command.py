"""`catdiag check`: needs the kernel and the solver only, refuses what was tampered with, never falls over."""

from __future__ import annotations

import copy
import json
import os
import signal

import pytest

from catdiag.cli.check_workers import _CheckerProcess

# Everything but the command line, the kernel, the solvers and a few small modules cannot be imported.
BLOCK = """
import sys
class Blocker:
    allowed = ("catdiag.cli", "catdiag.kernel", "catdiag.solvers", "catdiag.util")
    def find_spec(self, name, path=None, target=None):
        ours = name.startswith("catdiag.") and not name.startswith(self.allowed)
        if ours or name.split(".")[0] in ("sympy", "numpy"):
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocker())
"""


@pytest.fixture(scope="session")
def theorem(tmp_path_factory):
    import catdiag as cd

    path = tmp_path_factory.mktemp("theorems") / "flash.json"
    cd.library.get("attention").stream("x").group("q").theorem.save(str(path))
    return path


def test_a_process_that_is_killed_gives_no_verdict(theorem):
    checker = _CheckerProcess(None)
    try:
        assert checker.check(theorem).status == 0
        assert checker._process is not None
        os.kill(checker._process.pid, signal.SIGKILL)
        assert checker.check(theorem).status == 130
        assert checker.check(theorem).status == 0
    finally:
        checker.close()


def test_without_what_found_the_proof(apart, theorem):
    done = apart("check", theorem, prefix=BLOCK)
    assert done.status == 0, done.err
    for said in (
        "accepted",
        "left: attention",
        "result[i_q,i_d] = Σ_{i0<x}",
        "in groups: tiles of g_q along q",
        "a loop along x in blocks of s_x",
        "starts as -∞",
        "after a block is max(",
        "for all 1 ≤ d, 1 ≤ q, 1 ≤ x",
        "by A1, ",
        "solver: z3 ",
    ):
        assert said in done.out, said


def test_what_a_loop_leaves_out_and_holds_is_printed(run, tmp_path):
    import catdiag as cd

    kept = cd.algorithm("q x y -> q", name="kept")(
        lambda a: cd.sum(cd.where(cd.index("x") <= cd.index("q"), cd.sum(a, "y"), 0), "x"))  # fmt: skip
    path = tmp_path / "kept.json"
    kept.stream("x").stream("y").skip("x").theorem.save(str(path))
    out = run("check", path).out
    for said in (
        "in an iteration, a loop along y in blocks of s_y",
        "blocks that begin at index_q[i_q] + 1 for every i_q or later may be left out",
        "where it is nowhere so that (index_x[i_x] ≤ index_q[i_q])",
    ):
        assert said in out, out


def test_several_files_and_folders(run, theorem, tmp_path):
    (tmp_path / "inside").mkdir()
    for name in ("a.json", "inside/b.json"):
        (tmp_path / name).write_bytes(theorem.read_bytes())
    assert run("check", tmp_path).status == 0
    (tmp_path / "c.json").write_text("{}")
    assert run("check", tmp_path / "inside", tmp_path / "c.json").status == 1
    assert run("check", theorem, tmp_path / "nowhere.json").status == 2
    assert run("check", tmp_path / "nowhere.json", tmp_path / "c.json").status == 1


@pytest.mark.parametrize(
    "text",
    [
        "", "not json", "[1, 2]", "{}", '{"format": "catdiag-certificate"}', "[" * 100_000, '{"a": 1, "a": 2}', "NaN",
        '{"format": "catdiag-certificate", "version": 1, "statement": {}, "proof": {}}',
        '{"format": "catdiag-certificate", "version": 1, "statement": 3, "proof": null}',
    ],
)  # fmt: skip
def test_what_is_no_certificate(run, tmp_path, text):
    file = tmp_path / "c.json"
    file.write_text(text)
    done = run("check", file)
    assert done.status == 1
    assert "REFUSED" in done.out
    assert "Traceback" not in done.out + done.err


def test_what_cannot_be_read(run, tmp_path):
    run("check", tmp_path / "nowhere.json").one_message(2, "cannot read")
    run("check", tmp_path).one_message(2, "no certificates")
    run("check").one_message(2, "FILE")
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe\0")
    assert run("check", binary).status == 1


def test_too_large(run, tmp_path, monkeypatch):
    from catdiag.cli import check_verdict

    file = tmp_path / "c.json"
    file.write_text("{}" + " " * 100)
    monkeypatch.setattr(check_verdict, "LARGEST", 50)
    done = run("check", file)
    assert done.status == 1
    assert "more than 50 bytes" in done.out


def test_tampered_with(theorem, tmp_path, capsys):
    from catdiag.cli.check_command import check_file

    original = json.loads(theorem.read_text())
    file = tmp_path / "c.json"

    def status(certificate) -> int:
        file.write_text(json.dumps(certificate))
        return check_file(file)

    assert status(original) == 0
    # The rescaling of the state left out: every node of the step replaced in turn by another function.
    statement = original["statement"]["right"]
    group = next(n for n in statement["nodes"] if n["op"] == "group")
    fold_at = next(k for k, n in enumerate(group["body"]["nodes"]) if n["op"] == "fold")
    steps = group["body"]["nodes"][fold_at]["step"]["nodes"]
    other = {"add": "sub", "sub": "add", "mul": "add", "exp": "neg", "max": "add", "div": "mul"}
    for k, node in enumerate(steps):
        if node["op"] == "map":
            altered = copy.deepcopy(original)
            target = next(n for n in altered["statement"]["right"]["nodes"] if n["op"] == "group")
            target["body"]["nodes"][fold_at]["step"]["nodes"][k]["fn"] = other[node["fn"]]
            assert status(altered) == 1, (k, node)
    dropped = copy.deepcopy(original)
    del dropped["proof"]["folds"]
    assert status(dropped) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_a_second_opinion_is_counted(run, theorem):
    done = run("check", theorem)
    assert "solver: z3 " in done.out
    assert ", cvc5 " in done.out
    assert "cvc5 agrees on 3 of 3 goals" in done.out


def test_without_cvc5(run, theorem, monkeypatch):
    from catdiag.solvers.cvc5 import Cvc5

    monkeypatch.setattr(Cvc5, "version", classmethod(lambda _: None))
    done = run("check", theorem)
    assert done.status == 0
    assert "no second opinion: cvc5 is not installed" in done.out


def test_a_solver_that_contradicts_fails_the_check(run, theorem, monkeypatch):
    from catdiag.solvers.cvc5 import Cvc5

    monkeypatch.setattr(Cvc5, "answer", lambda *_: "no")
    done = run("check", theorem)
    assert done.status == 1
    assert "cvc5 has a counterexample to what z3 affirms" in done.out


def test_a_second_solver_that_cannot_tell_is_counted(run, theorem, monkeypatch):
    from catdiag.solvers.cvc5 import Cvc5

    monkeypatch.setattr(Cvc5, "answer", lambda *_: "unknown")
    done = run("check", theorem)
    assert done.status == 0
    assert "cvc5 agrees on 0 of 3 goals, 3 undecided" in done.out


def test_many_files_in_their_order(run, theorem, tmp_path):
    good, bad = theorem.read_bytes(), b"{}"
    for k in range(5):
        (tmp_path / f"{k}.json").write_bytes(bad if k in (1, 3) else good)
    outs = []
    for workers in (1, 3):
        done = run("check", tmp_path, "--workers", workers)
        assert done.status == 1
        outs.append(done.out)
    assert outs[0] == outs[1]
    named = [line.split(":")[0] for line in outs[0].splitlines() if line.startswith(str(tmp_path))]
    assert named == [str(tmp_path / f"{k}.json") for k in range(5)]
    last = outs[0].splitlines()[-1]
    assert last.startswith("5 certificates: 3 accepted, 2 refused; z3 ")
    assert last.endswith("cvc5 agrees on 9 of 9 goals")
    assert "left: attention" in run("check", tmp_path / "0.json", tmp_path / "1.json", "--long").out
    run("check", tmp_path, "--workers", "0").one_message(2, "1 or more")
    run("check", tmp_path, "--limit", "-1").one_message(2, "above 0")


def test_a_check_that_takes_too_long_is_given_up(run, theorem, tmp_path):
    done = run("check", theorem, "--limit", "0.001")
    assert done.status == 130
    assert "more than 0.001 s" in done.err
    for name in "ab":
        (tmp_path / f"{name}.json").write_bytes(theorem.read_bytes())
    assert run("check", tmp_path, "--limit", "0.001").status == 130


def test_a_file_that_brings_its_process_down_is_refused(theorem, tmp_path, monkeypatch):
    from catdiag.cli import check_workers

    for name in "abc":
        (tmp_path / f"{name}.json").write_bytes(theorem.read_bytes())
    start = check_workers.subprocess.Popen
    dead = "import sys; sys.stdin.readline(); sys.exit(9)"
    monkeypatch.setattr(
        check_workers.subprocess, "Popen", lambda command, **options: start([command[0], "-c", dead], **options)
    )
    found = list(check_workers.verdicts(sorted(tmp_path.iterdir()), 60, 2))
    assert [v.status for v in found] == [1, 1, 1]
    assert "ended with status 9" in found[0].stated


def test_with_a_bar_on_the_terminal_results_go_where_they_should(theorem, tmp_path):
    """Errors on a terminal, results to a file: the bar is drawn on the one, the results are in the other."""
    import os
    import pty
    import subprocess
    import sys

    folder, out = tmp_path / "certificates", tmp_path / "out.txt"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.json").write_bytes(theorem.read_bytes())
    terminal, end = pty.openpty()
    with out.open("w") as results:
        command = [sys.executable, "-m", "catdiag", "check", str(folder)]
        process = subprocess.Popen(command, stdout=results, stderr=end, env={**os.environ, "TERM": "xterm"})
        os.close(end)
        drawn = b""
        try:
            while part := os.read(terminal, 4096):
                drawn += part
        except OSError:  # how the end of a terminal shows
            pass
        assert process.wait(60) == 0
    os.close(terminal)
    assert b"checking" in drawn
    assert len(out.read_text().splitlines()) == 4
    assert "3 certificates: 3 accepted" in out.read_text()


def test_what_is_refused_cannot_draw_on_the_terminal(run, tmp_path):
    file = tmp_path / "c.json"
    for version in ("2\nother.json: accepted", "\x1b[2K"):
        statement = {"left": {"inputs": version, "nodes": [], "outputs": []}, "right": {}, "assume": []}
        whole = {"format": "catdiag-certificate", "version": 3, "statement": statement, "proof": {}}
        file.write_text(json.dumps(whole))
        done = run("check", file)
        assert done.status == 1
        assert "\x1b" not in done.out
        assert not [line for line in done.out.splitlines() if line.startswith("other.json")]
