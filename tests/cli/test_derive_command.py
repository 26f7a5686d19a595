"""`catdiag derive`: what it prints, what it writes, how it ends."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

import catdiag as cd
from catdiag.cli import derive_report_data
from catdiag.planner import kernel_drafts
from catdiag.prover.composites import OpenPart
from catdiag.solvers.z3 import Z3
from catdiag.util.errors import CatdiagError, NotFusable

HEADLINE = ["derive", "attention", "--on", "h100", "--size", "q=8192,x=8192,d=128", "--dtype", "bf16"]


def test_headline(run, tmp_path):
    data, certificate = tmp_path / "all.json", tmp_path / "theorem.json"
    done = run(*HEADLINE, "--stream", "x", "--group", "q", "--json", data, "--certificate", certificate)
    assert done.status == 0
    assert done.err == ""
    for said in (
        "attention: Q[q d], K[x d], V[x d] → [q d]",
        "1. stream x, proved in",
        "2. group q, proved in",
        "for all 1 ≤ d, 1 ≤ q, 1 ≤ x",
        "for blocks and tiles of every size: g_q, s_x",
        "unit     -∞",
        "element  Σ_x exp((Σ_d Q·K)/√d - max1)·V",
        "repair   exp(max1 - max1′)",
        "merge    sum2·exp(max1 - max1″) + sum2′·exp(max1′ - max1″)",
        "finish out = sum3/sum2",
        "for each block of x (s_x at a time):",
        "save out[q d] = sum3/sum2",
        "H = 2*d*q + 2*d*x*ceiling(q/g_q)",
        "M = 2*d*g_q + 2*d*s_x + g_q*s_x + 3*g_q",
        "leading order: 2*d*q + 4*d**2*q*x/M",
        "exact: 2*d*q*x*(2*d + s_x + 3)/(M - 2*d*s_x) + 2*d*q",
        "M/(2*d) >= 1",
        "checked in rational arithmetic",
        "waves",
        "bound by",
        "times the least",
        "≤ 232448",
    ):
        assert said in done.out, said
    everything = json.loads(data.read_text())
    assert [s["name"] for s in everything["steps"]] == ["stream x", "group q"]
    (loop,) = everything["steps"][0]["state"]["loops"]
    assert [c["name"] for c in loop["components"]] == ["max1", "sum2", "sum3"]
    assert everything["steps"][1]["theorem"]["conditional"] is False
    assert everything["formulas"]["finish"] == {"out": "sum3/sum2"}
    assert everything["pseudocode"].splitlines()[1] == "for each tile of q (g_q at a time), in parallel:"
    assert everything["io"]["transfers"] == "2*d*q + 2*d*x*ceiling(q/g_q)"
    assert everything["optimum"]["leading"] == "2*d*q + 4*d**2*q*x/M"
    assert everything["optimum"]["certificate"]
    plan = everything["plan"]
    assert plan["sizes"] == {"q": 8192, "x": 8192, "d": 128}
    assert plan["groups"] == -(-8192 // plan["tiles"]["g_q"]) >= 100
    assert plan["shared_memory_bytes"] <= 232448
    assert plan["proof"]["statement"]
    assert {"bytes_moved", "waves", "intensity", "bound", "minimum_traffic"} <= set(plan)
    checked = run("check", certificate)
    assert checked.status == 0
    assert "accepted" in checked.out


def test_headline_unasked_splits_the_loop_where_groups_are_few(run, tmp_path, calls, monkeypatch):
    """Tiles of q alone are fewer than the multiprocessors, each of which has room for two groups. It is little work."""
    data, certificate = tmp_path / "all.json", tmp_path / "theorem.json"
    put: list[int] = []
    answered = Z3.worked_out

    def counted(self: Z3, *goal: Any) -> tuple[str, int]:
        found = answered(self, *goal)
        put.append(found[1])
        return found

    monkeypatch.setattr(Z3, "worked_out", counted)
    outcomes = []
    work = calls(lambda: outcomes.append(run(*HEADLINE, "--json", data, "--certificate", certificate)))
    (done,) = outcomes
    assert (done.status, done.err) == (0, "")
    assert work < 12_000_000 and 0 < sum(put) < 450_000, (work, put)
    everything = json.loads(data.read_text())
    assert [s["name"] for s in everything["steps"]] == ["stream x", "split x", "group q"]
    assert not any(s["theorem"]["conditional"] for s in everything["steps"])
    assert "for blocks and tiles of every size: g_q, s_x, p_x" in done.out
    assert "stream x is possible too" in done.out
    assert everything["formulas"]["finish"] == {"out": "sum3/sum2"}
    assert everything["io"]["transfers"] == "3*d*p_x*q + d*q + 2*d*x*ceiling(q/g_q) + 4*p_x*q"
    plan = everything["plan"]
    tiles = -(-8192 // plan["tiles"]["g_q"])
    assert tiles < 132 < plan["groups"] == plan["tiles"]["p_x"] * tiles
    checked = run("check", certificate)
    assert checked.status == 0
    assert "accepted" in checked.out


@pytest.mark.parametrize(
    ("name", "sizes", "grouped", "leading"),
    [
        pytest.param(
            "multi_head_attention",
            "b=2,h=16,q=4096,x=4096,d=128",
            "b h q",
            "2*b*d*h*q + 4*b*d**2*h*q*x/M",
            marks=pytest.mark.slow,
        ),
        ("grouped_query_attention", "b=1,k=8,r=4,q=8192,x=8192,d=128", "b k r q", "2*b*d*k*q*r + 4*b*d**2*k*q*r*x/M"),
        ("matmul", "a=4096,b=4096,c=4096", "a c", "a*c + 2*a*b*c/sqrt(M)"),
    ],
)
def test_library(run, name, sizes, grouped, leading):
    done = run("derive", name, "--on", "H100", "--size", sizes)
    assert done.status == 0
    assert f"2. group {grouped}, proved" in done.out
    assert f"leading order: {leading}\n" in done.out
    assert "tiles  " in done.out


@pytest.mark.parametrize(
    ("name", "streamed", "grouped", "found"),
    [
        pytest.param("cosine_attention", "x", "q", "finish out = sum3/sum2", marks=pytest.mark.slow),
        ("gated_mlp", "f", "t", "finish out = sum1"),
        pytest.param("entropy", "x", "q", "max1", marks=pytest.mark.slow),
        ("variance", "x", "q", "sum2"),
        ("l2_normalised", "x", "q v", "finish out = sum2/√sum1"),
        pytest.param("at_temperature", "x", "q", "finish out = sum3/sum2", marks=pytest.mark.slow),
        ("largest_and_log_sum", "x", "q", "finish out1 ="),
        ("plane_sum", "x", "q", "finish out = sum1"),
    ],
)
def test_operators_of_a_file(run, op, name, streamed, grouped, found):
    done = run("derive", op(name))
    assert done.status == 0, done.err
    assert f"1. stream {streamed}, proved" in done.out
    assert f"2. group {grouped}, proved" in done.out
    assert found in done.out
    assert "H = " in done.out
    assert "Plan" not in done.out


def test_of_several_streams_one_is_taken_and_the_others_are_named(run, op, tmp_path):
    data = tmp_path / "d.json"
    done = run("derive", op("plane_sum"), "--on", "a100", "--size", "q=512,x=128,y=4096", "--json", data)
    assert done.status == 0
    alternatives = json.loads(data.read_text())["alternatives"]
    assert len(alternatives) == 1
    assert f"stream {alternatives[0]['stream']} is possible too, in" in done.out


def test_the_stream_and_the_groups_can_be_chosen(run, op):
    done = run("derive", op("plane_sum"), "--stream", "y", "--group", "q")
    assert done.status == 0
    assert "1. stream y" in done.out
    assert "possible too" not in done.out
    done = run("derive", "multi_head_attention", "--stream", "x", "--group", "h q")
    assert "2. group h q, proved" in done.out


def test_what_cannot_be_streamed(run, op):
    run("derive", op("far_from_mean"), "--stream", "x").one_message(3, "x")
    done = run("derive", op("far_from_mean"))
    assert done.status == 0
    assert "not streamed over x: " in done.out
    assert "1. group q, proved" in done.out
    run("derive", "attention", "--group", "x").one_message(3, "cannot group axis 'x'")
    nothing = run("derive", op("one_row"))
    nothing.one_message(3, "no axis can be streamed or grouped")
    assert "H = 2*x" in nothing.out


def test_what_does_not_fit(run, tmp_path):
    certificate, data = tmp_path / "c.json", tmp_path / "d.json"
    done = run(
        "derive",
        "attention",
        "--on",
        "h100",
        "--size",
        "q=64,x=64,d=1000000",
        "--cuts",
        "none",
        "--certificate",
        certificate,
        "--json",
        data,
    )
    done.one_message(4, "no Triton kernel fits H100", "Q (operand)")
    # The theorem stands whatever fits.
    assert run("check", certificate).status == 0
    assert "no Triton kernel fits" in json.loads(data.read_text())["does_not_fit"]


def test_what_takes_less_in_several_kernels_is_cut(run, op, tmp_path):
    data, certificate = tmp_path / "d.json", tmp_path / "c.json"
    asked = ["derive", op("gated_mlp"), "--on", "h200", "--size", "t=8192,d=4096,f=14336,e=4096"]
    done = run(*asked, "--json", data, "--certificate", certificate)
    assert done.status == 0, done.err
    for said in (
        "kernels on H200",
        "instead of one kernel: ",
        "times the FLOPs",
        "Kernel 1: stream d, group t f",
        "arrays (bytes)",
    ):
        assert said in done.out, said
    bound = done.out.partition("\nLower bound: ")[2].partition("\n\n")[0].splitlines()
    assert sum(line.startswith("  and ") for line in bound) == 3 and "  … 3 more: " in bound[-2]
    found = json.loads(data.read_text())
    assert found["plan"] is None and len(found["lower_bound"]["terms"]) == 6
    assert len(found["kernels"]["kernels"]) > 1
    assert run("check", certificate).status == 0


SMALL = ["--on", "h200", "--size", "t=64,d=64,f=64,e=64", "--cuts", "some"]


def test_kernels_that_are_not_proved_are_named(run, op, tmp_path, monkeypatch):
    def refused(*_: Any) -> Any:
        raise OpenPart(2, "f(x) = g(x)")

    monkeypatch.setattr(kernel_drafts, "certify_composite", refused)
    data, *others = (tmp_path / name for name in ("d.json", "c.json", "page.html", "kernels.py", "loops.py"))
    written = [a for pair in zip(("--certificate", "--html", "--triton", "--numpy"), others, strict=True) for a in pair]
    done = run("derive", op("gated_mlp"), *SMALL, "--json", data, *written)
    done.one_message(3, "not proved to mean gated_mlp: kernel 2: it stopped at f(x) = g(x)")
    assert "no axis can be streamed" not in done.err
    assert "not proved: kernel 2: it stopped at f(x) = g(x)" in done.out
    assert "there is no theorem about the whole" in done.out and "2 kernels on H200" in done.out
    found = json.loads(data.read_text())
    assert found["steps"] == [] and found["not_proved"] == ["kernel 2: it stopped at f(x) = g(x)"]
    assert found["not_proved"] == found["kernels"]["not_proved"]
    assert not any(path.exists() for path in others)


def test_products_of_torch_are_assumed_and_not_called_proved(run, op, tmp_path):
    data, page = tmp_path / "d.json", tmp_path / "page.html"
    sizes = ["--on", "h200", "--size", "t=2048,d=512,f=2048,e=512"]
    done = run("derive", op("gated_mlp"), *sizes, "--products", "torch", "--json", data, "--html", page)
    assert (done.status, done.err) == (0, "")
    assert "assumed    kernel 1: torch computes gate[t f] = Σ_{d} X[t d] · W[d f], up to rounding" in done.out
    assert len(json.loads(data.read_text())["kernels"]["assumptions"]) == 3
    text = page.read_text()
    assert "Assumed: kernel 1: torch computes gate[t f]" in text and text.count("<summary>Kernel ") == 4
    alone = run("derive", "matmul", "--on", "h200", "--size", "a=64,b=64,c=64", "--products", "torch", "--html", page)
    assert (alone.status, alone.err) == (0, "")
    assert "assumed    kernel 1: torch computes out[a c]" in alone.out
    assert "places it on the chip" not in alone.out and "z3 proved that the tiles fit" not in page.read_text()


def test_one_kernel_as_it_is_written_has_the_theorem_of_its_plan(run, op, tmp_path):
    data, certificate = tmp_path / "d.json", tmp_path / "c.json"
    asked = ["derive", op("one_row"), "--on", "h200", "--size", "x=4096", "--json", data, "--certificate", certificate]
    done = run(*asked)
    assert (done.status, done.err) == (0, "")
    assert "1. cut: one kernel, proved in" in done.out
    assert done.out.count("2 kernels, saving") == 1
    assert [step["name"] for step in json.loads(data.read_text())["steps"]] == ["cut: one kernel"]
    assert run("check", certificate).status == 0


def test_what_is_in_loops_already_is_not_called_one_without_axes(run, tmp_path):
    file = tmp_path / "loops.py"
    file.write_text('import catdiag as cd\nfast = cd.library.get("matmul").stream("b").group("a c")\n')
    run("derive", f"{file}:fast").one_message(3, "runs in loops or groups as it is written")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--size", "q=8192"], ["missing", "d, x"]),
        (["--size", "q=0,x=1,d=1"], ["size q is 0", "positive"]),
        (["--size", "q=-5,x=1,d=1"], ["size q is -5", "positive"]),
        (["--size", "q=1.5,x=1,d=1"], ["size q is 1.5", "positive integer"]),
        (["--size", "q=many,x=1,d=1"], ["size q is many"]),
        (["--size", "q=1,x=1,d=1,z=3"], ["'z'", "q, d, x"]),
        (["--size", "q=1,x=1,d=1,q=2"], ["size q is given as 1 and as 2"]),
        (["--size", "q"], ["'q'", "name=number"]),
        (["--size", ""], ["name=number"]),
        (["--size", "q=9" + "9" * 5000 + ",x=1,d=1"], ["expected at most"]),
        (["--size", "q=1,x=1,d=1", "--dtype", "bf17"], ["unknown dtype 'bf17'", "bf16"]),
        (["--size", "q=1,x=1,d=1", "--stages", "0"], ["stages is 0"]),
        ([], ["missing", "q, d, x"]),
    ],
)
def test_wrong_sizes(run, args, words):
    run("derive", "attention", "--on", "h100", *args).one_message(2, *words)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["attention", "--on", "h9000", "--size", "q=1,x=1,d=1"], ["unknown hardware 'h9000'", "H100"]),
        (["attention", "--size", "q=1,x=1,d=1"], ["--size", "--on h100"]),
        (["attention", "--stream", "z"], ["axis 'z'", "q, d, x"]),
        (["attention", "--group", "z"], ["axis 'z'", "q, d, x"]),
        (["atention"], ["'atention'", "attention"]),
        (["attention.py"], ["attention.py:name"]),
        (["nowhere.py:f"], ["cannot read nowhere.py"]),
        (["attention", "--stages", "two"], ["--stages"]),
        (["attention", "--cuts", "many"], ["cuts is 'many'", "any, none"]),
        (["attention", "--cuts", "2"], ["--cuts", "--on h100"]),
        (["attention", "--cuts", "2", "--on", "h100", "--stream", "x"], ["--cuts", "leave out"]),
        (["attention", "--products", "torch"], ["--products", "--on h200"]),
        (["attention", "--on", "h100", "--size", "q=8,x=8,d=8", "--products", "cublas"], ["cublas", "quickest"]),
        (["attention", "--products", "torch", "--on", "h100", "--stream", "x"], ["--products", "leave out"]),
        (["attention", "--nonsense"], ["--nonsense"]),
        (["--stream", "x"], ["no operator is given"]),
    ],
)
def test_wrong_use(run, args, words):
    run("derive", *args).one_message(2, *words)


def test_wrong_files(run, op, tmp_path):
    run("derive", f"{tmp_path}:f").one_message(2, "is a folder")
    run("derive", op("nothing_such")).one_message(2, "'nothing_such'", "cosine_attention")
    run("derive", op("no_diagram")).one_message(2, "is not a diagram but int")
    run("derive", op("no_algorithm")).one_message(2, "@cd.algorithm")
    run("derive", op("")).one_message(2, "path.py:name")
    cases = {
        "syntax": ("import catdiag as cd\ndef f(:\n", ["invalid syntax", ":2: def f(:"]),
        "binary": ("\0\1\2", ["not a Python file"]),
        "raises": ("import catdiag as cd\nx = 1 / 0\n", ["ZeroDivisionError", ":2: x = 1 / 0"]),
        "deep": ("def g():\n    raise KeyError('k')\ng()\n", ["KeyError", ":2: raise KeyError('k')"]),
        "ends": ("import sys\nsys.exit(7)\n", ["SystemExit", ":2: sys.exit(7)"]),
        "axis": (
            'import catdiag as cd\n@cd.algorithm("q x -> q")\ndef f(A):\n    return cd.sum(A, "y")\n',
            ["cannot sum over axis 'y'", 'axis.py:4: return cd.sum(A, "y")'],
        ),
        "signature": ('import catdiag as cd\n@cd.algorithm("q x ->-> q")\ndef f(A):\n    return A\n', ["q x ->-> q"]),
        "sizes": (
            'import catdiag as cd\n@cd.algorithm("q x, q x -> q")\ndef f(A, B):\n    return A.rename(x="y") + B\n',
            ["sizes.py"],
        ),
    }
    for name, (text, words) in cases.items():
        file = tmp_path / f"{name}.py"
        file.write_text(text)
        run("derive", f"{file}:f").one_message(2, *words)
    encoded = tmp_path / "encoded.py"
    encoded.write_bytes(b"x = '\xff\xfe'\n")
    run("derive", f"{encoded}:f").one_message(2, "not a Python file")


def test_a_fixed_size_that_disagrees(run, tmp_path):
    file = tmp_path / "fixed.py"
    file.write_text('import catdiag as cd\n@cd.algorithm("q 64 -> q")\ndef f(A):\n    return cd.sum(A, "64")\n')
    run("derive", f"{file}:f", "--on", "h100", "--size", "q=8,64=32").one_message(2, "axis 64 has size 64", "not 32")


def test_a_file_may_import_its_neighbours_and_leaves_nothing_behind(run, tmp_path):
    (tmp_path / "neighbour_of_f.py").write_text("FACTOR = 3\n")
    file = tmp_path / "imports.py"
    file.write_text(
        "import catdiag as cd\nfrom neighbour_of_f import FACTOR\n"
        '@cd.algorithm("x ->")\ndef f(A):\n    return cd.sum(FACTOR * A, "x")\n'
    )
    before, path = set(sys.modules), list(sys.path)
    assert run("derive", f"{file}:f").status == 0
    assert not {
        name for name in set(sys.modules) - before if not name.startswith(("catdiag", "sympy", "z3", "numpy"))
    } & {
        "neighbour_of_f",
        "_catdiag_operators",
    }
    assert sys.path == path


def test_the_folder_one_stands_in_does_not_matter(apart, op, tmp_path):
    for name in ("json", "z3", "selectors", "catdiag"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('imported from the folder one stands in')\n")
    # `-c` puts that folder on the path, which a script does not.
    done = apart("derive", op("variance"), cwd=tmp_path, prefix="import sys; sys.path.remove('')")
    assert done.status == 0, done.err
    assert done.err == ""


@pytest.mark.parametrize(("error", "ends"), [(NotFusable("not proved"), True), (CatdiagError("a mistake"), False)])
def test_only_a_plan_that_is_not_proved_or_does_not_fit_is_left_out(error: CatdiagError, ends: bool) -> None:
    class Search:
        def plan(self) -> Any:
            raise error

    begun = cd.library.get("matmul").derivation
    if ends:
        assert derive_report_data._plan(Search(), begun) is None  # type: ignore[arg-type]
    else:
        with pytest.raises(CatdiagError, match="a mistake"):
            derive_report_data._plan(Search(), begun)  # type: ignore[arg-type]
