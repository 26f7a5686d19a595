"""The programs that `derive` writes: a kernel, the loops with all variables, and plain NumPy."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import numpy as np
import pytest

OPERATOR = """
import catdiag as cd


@cd.algorithm("q x, x, -> q")
def kept(A, B, c):
    return cd.sum(A * B, "x") * c


@cd.algorithm("q x, x -> q")
def unknown(A, B):
    return cd.sum(cd.apply("f", A, B), "x")


@cd.algorithm("q x -> q")
def total(A):
    return cd.sum(A, "x")
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ops.py"
    path.write_text(OPERATOR, encoding="utf-8")
    return path


SIZES = ("--on", "h200", "--size", "q=4096,x=4096", "--cuts", "none", "--stream", "x", "--group", "q")


def test_a_kernel_pseudocode_and_numpy(run, file, tmp_path):
    kernel, loops, plain = (tmp_path / name for name in ("kernel.py", "loops.txt", "plain.py"))
    done = run(
        "derive", f"{file}:kept", *SIZES, "--triton", kernel, "--pseudocode", loops, "--numpy", plain,
        "--json", tmp_path / "all.json",
    )  # fmt: skip
    assert done.status == 0, done.err
    text = kernel.read_text(encoding="utf-8")
    functions = {f.name: f for f in ast.parse(text).body if isinstance(f, ast.FunctionDef)}
    launch = functions["kept"]
    assert [a.arg for a in launch.args.args] == ["A", "B", "c"]
    imported = {
        alias.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import) for alias in node.names
    }
    assert imported - {"functools"} - {"math"} == {"torch", "triton", "triton.language"}, "it needs nothing else"
    tiles = json.loads((tmp_path / "all.json").read_text())["plan"]["tiles"]
    given = {a.arg: ast.literal_eval(d) for a, d in zip(launch.args.kwonlyargs, launch.args.kw_defaults, strict=True)}
    told = ", ".join(f"{name} {given[name]}" for name in tiles if name in given)  # a tile of 1 is in the kernel
    assert f"tiles: {told}; {given['num_warps']} warps, {given['num_stages']} stages" in done.out
    said = loops.read_text(encoding="utf-8")
    assert said.splitlines()[2].split() == ["variable", "at", "size", "type", "values", "bytes"]
    assert "SMEM holds at most" in said
    namespace: dict = {}
    exec(plain.read_text(encoding="utf-8"), namespace)
    a, b = np.random.default_rng(0).normal(size=(2, 9, 9))
    assert np.allclose(namespace["kept"](a, b[0], 2.0, **dict.fromkeys(tiles, 4)), 2 * a @ b[0])


def test_pseudocode_goes_with_a_file_or_without(run, file, tmp_path):
    loops = tmp_path / "loops.txt"
    without = run("derive", f"{file}:total", "--pseudocode", "--stream", "x")
    first = run("derive", "--pseudocode", f"{file}:total", "--stream", "x")
    assert without.status == first.status == 0
    assert without.out.split("Transfers")[0].count("for each block of x") == 1 == first.out.count("total: A[q x] → [q]")
    for given in (("--pseudocode", loops), (f"--pseudocode={loops}",)):
        loops.unlink(missing_ok=True)
        assert run("derive", f"{file}:total", "--stream", "x", *given).status == 0
        assert loops.read_text(encoding="utf-8").count("for each block of x (s_x at a time):") == 1
        assert " bytes" not in loops.read_text(encoding="utf-8"), "formulas, without a chip"


def test_a_kernel_needs_tiles(run, file, tmp_path):
    run("derive", f"{file}:total", "--triton", tmp_path / "k.py").one_message(2, "--triton", "give the chip")


def test_what_has_no_kernel_is_said_and_nothing_is_written(run, file, tmp_path):
    kernel, plain = tmp_path / "k.py", tmp_path / "plain.py"
    done = run("derive", f"{file}:unknown", *SIZES, "--triton", kernel, "--numpy", plain)
    done.one_message(2, "f")
    assert not kernel.exists() and not plain.exists()


def test_files_that_cannot_be_written_are_refused_first(run, file, tmp_path):
    for option in ("--triton", "--numpy", "--pseudocode"):
        done = run("derive", f"{file}:kept", *SIZES, option, tmp_path / "none" / "k.py")
        done.one_message(2, "there is no folder")
        assert not done.out
