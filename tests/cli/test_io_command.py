"""`catdiag io` at several levels: text, LaTeX and JSON."""

import json

import pytest

from catdiag.cli.io_report import Costs


def test_every_level_with_the_optimum_and_its_regimes(run):
    done = run("io", "matmul", "--levels", "HBM,SMEM,registers", "--place", "operand=SMEM", "--place", "streamed=SMEM")
    assert done.status == 0
    for said in (
        "stream b, group a c",
        "HBM to SMEM",
        "SMEM to registers",
        "memory     g_a*s_b + g_c*s_b",
        "least from HBM to SMEM, by itself, without rounding",
        "M_SMEM full: a*c + 4*a*b*c*s_b/M_SMEM",
        "at least from HBM to SMEM, if all from SMEM down holds M",
    ):
        assert said in done.out, said
    assert "at least from SMEM to registers" not in done.out  # operands are read in SMEM, and do not cross


def test_json_has_stable_keys(run):
    done = run("io", "attention", "--levels", "HBM, SMEM", "--stream", "x", "--group", "q", "--json")
    found = json.loads(done.out)
    assert set(found) == {"operator", "type", "steps", "io", "optimum", "lower_bound"}
    assert found["steps"] == ["stream x", "group q"]
    assert set(found["io"]) == {
        "unit", "levels", "placement", "stages", "edges", "memory", "residents", "children", "groups", "streams",
        "work", "order",
    }  # fmt: skip
    (edge,) = found["io"]["edges"]
    assert edge["transfers"] == "2*d*q + 2*d*x*ceiling(q/g_q)"
    assert set(edge) == {"upper", "lower", "load", "save", "transfers", "relaxed", "traffic"}
    best = found["optimum"]["SMEM"]
    assert best["leading"] == "2*d*q + 4*d**2*q*x/M_SMEM"
    assert {"value", "binding", "tiles", "conditions"} == set(best["regimes"][0])
    assert best["covers"] is True
    assert found["lower_bound"]["SMEM"]["compulsory"] == "2*d*q + 2*d*x"
    assert found["lower_bound"]["SMEM"]["ratio"].startswith("(2*d*q + 4*d**2*q*x/M_SMEM)/")
    two = json.loads(run("io", "matmul", "--json").out)
    assert two["io"]["transfers"] == two["optimum"]["memory"]["exact"] == "a*b + a*c + b*c"


def test_latex(run):
    done = run("io", "attention", "--on", "h100", "--latex", "--unfused")
    assert done.out.startswith("\\begin{align*}")
    assert r"\operatorname{fetched}\left(\text{K}; " in done.out
    assert r"M_{\text{SMEM}} &= " in done.out
    assert "H &= 2 d q + 2 d x" in run("io", "attention", "--latex").out


def test_the_memories_of_a_chip(run):
    done = run("io", "matmul", "--on", "h100", "--levels", "HBM,SMEM", "--unfused")
    assert "in bytes" in done.out and "HBM to SMEM" in done.out and "L2" not in done.out
    assert "if all from SMEM down holds 232448" in done.out


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (("--levels", "HBM"), "two levels or more"),
        (("--place", "operand=SMEM"), "give them"),
        (("--levels", "HBM,SMEM", "--place", "SMEM"), "expected role=levels"),
        (("--latex", "--json"), "give one"),
        (("--on", "h100", "--wave", "0"), "how many groups run at a time"),
        (("--on", "h100", "--levels", "HBM,DRAM"), "has no level 'DRAM'"),
    ],
)
def test_what_is_wrong_is_said(run, wrong, words):
    run("io", "attention", "--unfused", *wrong).one_message(2, words)


def test_text_stays_short_and_json_has_all(run):
    asked = ("io", "conv1d", "--levels", "HBM,SMEM,registers", "--stream", "c", "--group", "n y o")
    text, optima, bounds = Costs.text, Costs.optima, Costs.bounds
    forms: list[str] = []

    def in_both_forms(self: Costs, latex: bool, as_json: bool) -> str:
        found = list(optima(self)), list(bounds(self))
        patch.setattr(Costs, "optima", lambda _: iter(found[0]))
        patch.setattr(Costs, "bounds", lambda _: iter(found[1]))
        forms.append(text(self, latex, True))
        return text(self, latex, as_json)

    # What both forms print is counted once.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Costs, "text", in_both_forms)
        done = run(*asked)
    whole = json.loads(forms[0])
    lines = done.out.splitlines()
    assert len(lines) <= 80 and max(map(len, lines)) < 560
    for level in ("SMEM", "registers"):
        found = whole["optimum"][level]
        assert found["regimes"] and all({"tiles", "conditions"} <= set(r) for r in found["regimes"])
        assert isinstance(found["open"], list)
        kept = [line for line in lines if line.startswith(f"    M_{level} full")]
        assert kept and "at which tiles and if: see --json" in done.out
    assert any(whole["optimum"][level]["open"] for level in ("SMEM", "registers"))
    assert done.out.count("no closed form: ") <= 2
    assert done.out.count("a schedule: a fast memory of M") == 1 and "for schedules as above" in done.out
    assert len(whole["lower_bound"]["registers"]["assumptions"]) >= 5
