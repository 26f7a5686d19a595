"""Pages about derivations: whole, safe, the same each time, and with nothing in them but what the library found."""

from __future__ import annotations

import base64
import re
from collections import Counter
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path

import pytest
import sympy

import catdiag as cd
from catdiag.category.diagram import diagram_of
from catdiag.category.formula import (
    INFINITY,
    Formula,
    big,
    call,
    infix,
    negative,
    number,
    of_axis,
    position,
    symbol,
    where,
)
from catdiag.draw.report import html, mathml, notebook, plan_section, plot_section
from catdiag.draw.report.stylesheet import shared
from catdiag.prover.condition_formulas import Condition
from catdiag.rewrite.claims import Verdict
from catdiag.rewrite.loop_state import formulas
from catdiag.util.display import AsHTML

VOID = {"meta", "br", "wbr", "col"}
CORE = {
    "math", "mrow", "mi", "mn", "mo", "mtext", "mfrac", "msqrt", "mroot", "msub", "msup", "msubsup", "munder",
    "mtable", "mtr", "mtd", "mspace",
}  # fmt: skip
CHILDREN = {"mfrac": 2, "mroot": 2, "msub": 2, "msup": 2, "munder": 2, "msubsup": 3}


class Read(HTMLParser):
    """Checks that elements are closed in order, and keeps them with their attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[list] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, [name for name, _ in self.open]

    def handle_starttag(self, tag, attrs):
        if self.open:
            self.open[-1][1] += 1
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append([tag, 0])

    def handle_endtag(self, tag):
        name, children = self.open.pop()
        assert name == tag
        assert children == CHILDREN.get(tag, children), f"{tag} has {children} children"

    def handle_data(self, data):
        if not self.open or self.open[-1][0] != "style":
            self.text.append(data)

    @property
    def names(self):
        return [name for name, _ in self.elements]

    def values(self, attribute):
        return [attrs[attribute] for _, attrs in self.elements if attribute in attrs]


def derived():
    f = cd.algorithm("q x", name="mean")(lambda A: cd.sum(A, "x") / cd.size("x"))
    return f.stream("x").group("q")


@pytest.fixture(scope="module")
def mean():
    return derived()


SIZES = {"q": 4096, "x": 8192}


@pytest.fixture(scope="module")
def plan(mean):
    return mean.plan("h100", SIZES)


@pytest.fixture(scope="module")
def page(mean):
    return mean.draw("html")


def test_page_is_one_file_without_scripts(page):
    read = Read(page)
    assert page.startswith("<!DOCTYPE html>")
    assert not {"script", "link", "iframe", "object", "embed", "img", "base", "form"} & set(read.names)
    assert not [v for name, attrs in read.elements for v in attrs if v.startswith("on")]
    assert all(v.startswith(("#", "data:application/json;base64,")) for v in read.values("href"))
    assert not read.values("src")
    assert_alone(page)


def assert_alone(page):
    """Nothing is fetched: names of XML are the only addresses."""
    assert set(re.findall(r"url\((.)", page)) <= {"#"}
    assert "@import" not in page
    found = re.findall(r"https?:[^\"]*", re.sub(r"data:[^\"]*", "", page))
    assert set(found) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_page_reads_without_eyes(page):
    read = Read(page)
    assert read.elements[0] == ("html", {"lang": "en"})
    assert {"header", "nav", "main", "h1", "h2", "section"} <= set(read.names)
    assert read.names.count("h1") == read.names.count("main") == 1
    ids = read.values("id")
    assert len(ids) == len(set(ids))
    assert {v[1:] for v in read.values("href") if v.startswith("#")} <= set(ids)
    assert {name for v in read.values("aria-labelledby") for name in v.split()} <= set(ids)
    for name, attrs in read.elements:
        assert name != "th" or attrs.get("scope") in ("col", "row", "rowgroup")


def test_page_says_what_was_found(page, mean):
    said = "".join(Read(page).text)
    assert mean.theorem.statement in said
    assert mean.theorem.witness in said
    assert ", ".join(mean.theorem.axioms) in said
    for word in ("1. stream x", "2. group q", "sum1[q] = sum1 + Σ_x A"):
        assert word in said
    assert "proved, on a condition" not in said


def test_a_plan_is_said_as_predicted_and_proved(plan):
    said = "".join(Read(plan_section.of_plan(plan)).text)
    assert all(f"{level}: {bound}" in said for level, bound in plan.proof.levels.items()) and plan.proof.levels
    assert "whatever the other sizes" in said
    for word in ("predicted time", f"{plan.bytes_moved:,}", plan.bound):
        assert word in said


@pytest.mark.slow
def test_page_with_a_plan_has_plots_where_they_can_be_drawn(mean):
    made = mean.draw("html", on="h100", sizes=SIZES)
    read = Read(made)
    assert_alone(made)
    ids = read.values("id")
    assert len(ids) == len(set(ids))
    if plot_section.installed():
        assert read.names.count("svg") >= 8
    else:
        assert "catdiag[plot]" in made
    assert derived().draw("html", on="h100", sizes=SIZES) == made


def test_without_matplotlib_a_line_says_so(mean, plan, monkeypatch):
    from catdiag.draw.report.report_data import ReportData

    monkeypatch.setattr(plot_section, "installed", lambda: False)
    facts = ReportData(mean, mean, "", "", "", "", mean.stability(), plan=plan, sizes=SIZES)
    assert "catdiag[plot]" in plot_section.of_plan(facts, plan)
    assert plot_section.of_optimum(facts) == ""


def test_verdicts_are_said_as_they_ended(mean):
    from catdiag.draw.report.proof_section import verdict_rows

    ends = {
        "a": Verdict("proved", mean.theorem),
        "b": Verdict("conditional", mean.theorem, conditions=(Condition(infix("≤", number(0), symbol("q"))),)),
        "c": Verdict("undecided", goal="<goal>"),
        "d": Verdict("refuted"),
        "e": Verdict("interrupted"),
    }
    read = Read(verdict_rows(ends))
    said = "|".join(read.text)
    assert [t for t in read.text if t in ends] == list(ends)
    for word in ("proved", "proved where", "undecided", "<goal>", "refuted", "interrupted"):
        assert word in said
    assert read.values("class").count("mark good") == 1


def test_page_shows_each_step_before_and_after(page):
    read = Read(page)
    assert read.names.count("svg") == read.names.count("figure") == 4
    said = "".join(read.text)
    for line in ("Before. Into the loop: sum[x].", "After. New: the loop over x, add.", "After. New: the tiles of q."):
        assert line in said
    assert "no box of it was removed" in said


def test_one_picture_twice_has_two_names():
    from catdiag.draw.report.picture_section import Pictures
    from catdiag.draw.string_diagram.layout import layout

    scene = layout(cd.algorithm("x ->")(lambda A: cd.sum(A, "x")).diagram)
    pictures = Pictures()
    ids = Read(pictures.figure(scene, "one") + pictures.figure(scene, "two")).values("id")
    assert len(ids) == len(set(ids)) >= 4


def test_large_diagrams_are_not_drawn():
    from catdiag.draw.report.picture_section import MOST, Pictures

    def long(a):
        for _ in range(MOST + 1):
            a = cd.exp(a)
        return a

    f = cd.algorithm("x -> x")(long)
    assert "too many to draw" in Pictures().step(f.diagram, f.diagram, True, True)


def test_certificate_in_the_page_is_the_theorem(page, mean):
    data = next(v for v in Read(page).values("href") if v.startswith("data:"))
    content = base64.b64decode(data.partition(",")[2], validate=True)
    assert content.decode() == mean.theorem.text()
    import json

    from catdiag.kernel.checker import Checker

    assert Checker(mean.derivation.ask).check(json.loads(content)).statement == mean.theorem.statement


def test_same_bytes_without_times(mean, page):
    assert derived().draw("html") == page
    assert str(Path(__file__).parent) not in page, "the page would differ between machines"
    assert f"({Path(__file__).name}:" in page
    assert " s to find and check" in mean.draw("html", times=True)
    assert " s to find and check" not in page


def test_written_whole_or_not_at_all(mean, tmp_path):
    target = tmp_path / "page.html"
    assert target.write_text("before")
    with pytest.raises(OSError, match="nowhere"):
        mean.draw("html", tmp_path / "nowhere" / "page.html")
    with pytest.raises(cd.errors.SizeError, match="give both"):
        mean.draw("html", target, on="h100")
    assert target.read_text() == "before"
    assert mean.draw("html", target) == target.read_text(encoding="utf-8")
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


def test_nothing_derived_is_an_error_and_shown_in_notebooks():

    start = cd.Program(cd.algorithm("x ->", name="none")(lambda A: cd.sum(A, "x")))
    with pytest.raises(cd.errors.CatdiagError, match="nothing was derived"):
        start.draw("html")
    assert start._repr_html_() is None and "<svg" in start._repr_svg_()
    assert "There are no steps yet" in start.derivation._repr_html_()


HOSTILE = "</title></style><script>alert(1)</script>\0\ud800\"'&amp;<!--"


def test_browsers_are_told_to_fetch_nothing(page):
    rules = [v for v in Read(page).values("content") if "default-src" in v]
    assert rules == ["default-src 'none'; style-src 'unsafe-inline'"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("attention", lambda f: f.stream("x").group("q")),
        ("causal_attention", lambda f: f.stream("x").group("q").skip("x")),
        ("decoding_attention", lambda f: f.stream("x").group("b k r").split("x")),
        ("layer_norm", lambda f: f.stream("d", passes=2).group("t")),
        ("conv2d", lambda f: f.stream("c").group("n y x o")),
        ("im2col", lambda f: f.stream("(k c)").group("n y o")),
        ("rotary_attention", lambda f: f.stream("x").group("q")),
        ("gated_mlp", lambda f: f.stream("f").group("t")),
    ],
)
def test_pages_of_the_library(name, made):
    derivation = made(cd.library.get(name))
    written = derivation.draw("html")
    assert len(written.encode()) < 3_000_000
    read = Read(written)
    assert_alone(written)
    ids = read.values("id")
    assert len(ids) == len(set(ids))
    for loop in formulas(derivation.diagram).loops:
        for c in loop.components:
            for _, formula in c.rows():
                assert_typeset(formula)
    assert read.names.count("svg") >= len(derivation.steps) + 2


def test_hostile_titles_are_text(mean):
    from dataclasses import replace

    from catdiag.category.diagram import of_graph
    from catdiag.rewrite.steps import ApplyRule

    def hostile(d):
        return of_graph(diagram_of(d).graph, d.cod, d.names, HOSTILE)

    steps = tuple(replace(s, diagram=hostile(s.diagram), action=ApplyRule(HOSTILE)) for s in mean.steps)
    named = replace(mean.derivation, source=hostile(mean.source), diagram=hostile(mean.diagram), steps=steps)
    bad = cd.Program(named)
    for made in (bad.draw("html"), bad._repr_html_()):
        made.encode("utf-8")
        read = Read(made)
        assert "script" not in read.names
        assert "alert(1)" in "".join(read.text)
        assert "\0" not in made


def test_conditions_are_said():
    f = cd.algorithm("x")(lambda A: A)
    g = cd.algorithm("x")(lambda A: A * A / A)
    theorem = cd.prove(f, g)
    assert theorem.conditional
    shown = theorem._repr_html_()
    read = Read(shown)
    assert "proved, on a condition" in "".join(read.text)
    assert "on the condition" in "".join(read.text)


def test_notebook_pieces(mean, plan):
    io = mean.io()
    pieces = [
        mean, mean.theorem, io, mean.io(levels=("HBM", "SMEM", "registers")), io.optimum(), io.optimum().regimes,
        mean.lower_bound(), plan, mean.stability(), Verdict("proved", mean.theorem),
    ]  # fmt: skip
    for piece in pieces:
        shown = piece._repr_html_()
        read = Read(shown)
        assert "script" not in read.names
        assert read.values("class")[0] == "catdiag"
        assert all(v.startswith("catdiag-") for v in read.values("id")), "two outputs of a notebook would share it"


def test_every_class_that_is_shown_has_its_piece():
    classes = [c for c in AsHTML.__subclasses__() if c.__module__.startswith("catdiag.")]
    assert len(classes) >= 9
    for shown in classes:
        assert shown in notebook.CARDS or shown.__name__ in ("Derivation", "Program")
    with pytest.raises(TypeError, match="no HTML of int"):
        notebook.html(3)


def test_style_of_pieces_stays_within_them():
    rules = re.sub(r"@media\([^{]*\)\{((?:[^{}]*\{[^{}]*\})*)\}", r"\1", shared())
    for selectors in re.findall(r"([^{}]+)\{", rules):
        for selector in selectors.split(","):
            assert selector.strip().startswith(".catdiag"), selector


@pytest.mark.parametrize("name", ["q", "g_q", "g2_q", "max1′", "W1_in", "sum1_2″", "head_dim", "x", "é", "rho_x"])
def test_names(name):
    read = Read(mathml.name(name))
    assert set(read.names) <= CORE
    said = "".join(read.text).replace("(", "").replace(")", "").replace(",", "").replace("ρ", "rho").replace("_", "")
    assert Counter(said) == Counter(name.replace("_", ""))


q, x, g, w = sympy.symbols("q x g_q width", positive=True)


@pytest.mark.parametrize(
    ("expr", "said"),
    [
        (sympy.ceiling(q / g), "⌈qgq⌉"),
        (2 * q * w * x, "2q·width·x".replace("q·width", "q·width")),
        (q - g * sympy.floor(q / g), "q−gq⌊qgq⌋"),
        (sympy.sqrt(q) / x**2, "qx2"),
        (q ** sympy.Rational(1, 3), "q3"),
        (-q, "−q"),
        (sympy.Max(q, x * 2, evaluate=False), "max(q,2x)"),
        (sympy.Ge(q, 1), "q≥1"),
        (sympy.oo, "∞"),
        ((q + 1) * x, "x(q+1)"),
        (g**2, "gq2"),
        (sympy.Rational(3, 2) * q, "3q2"),
    ],
)
def test_expressions(expr, said):
    read = Read(mathml.of_expr(expr))
    assert set(read.names) <= CORE
    assert "".join(read.text).replace("\u2062", "").replace("\u2061", "") == said


A, B, C, D = map(symbol, "ABCD")


def assert_typeset(formula):
    """The MathML of a formula has the names and numbers of its text, and no other."""
    read = Read(mathml.of_formula(formula))
    assert set(read.names) <= CORE
    words = r"[^\W\d_]+|\d+"
    names = Counter(
        re.findall(
            words, re.sub(r"\bwhere\b|undefined|\d+e-?\d+", "", formula.text).replace("Σ", "").replace("²", " 2")
        )
    )
    said = Counter(re.findall(words, " ".join(read.text)))
    for extra in ("if", "otherwise"):
        del said[extra]
    assert set(said - names) <= {"10", "30", "1"} and not names - said


@pytest.mark.parametrize(
    "formula",
    [
        infix("+", infix("·", A, call("exp", infix("−", number(-(10**30)), B))), big("sum", ["x"], C)),
        where(infix("≤", position("x"), position("q")), infix("/", big("sum", ["d"], A), Formula("√", (B,))), INFINITY),
        infix("·", where(infix("<", A, B), C, where(infix("<", B, C), A, D)), B),
        big("sum", ["i", "j"], infix("·", Formula("indexed", (A, infix("=", B, infix("*", C, D)))), D)),
        negative(big("min", ["x"], A)),
        Formula("indexed", (A, infix("→", infix("row", of_axis("b"), of_axis("g")), of_axis("(b g)")))),
        Formula("indexed", (A, infix("of", of_axis("y"), of_axis("x+y")))),
        infix("//", infix("+", A, B), C),
        infix("/", infix("/", A, B), infix("/", C, number(Fraction(1, 2)))),
        Formula("big", (infix("<", symbol("i0"), symbol("n")), Formula("indexed", (A, symbol("i0")))), "sum"),
        Formula("power", (infix("+", A, B), number(2))),
        Formula("power", (symbol("g2_q"), number(2))),
    ],
    ids=str,
)
def test_formulas_lose_nothing(formula):
    assert_typeset(formula)


def test_a_name_is_text():
    assert "<b>" not in mathml.of_formula(symbol("<b>"))


def test_deep_formulas_need_no_stack():
    formula = A
    for _ in range(1500):  # more than Python's frames
        formula = call("exp", formula)
    assert mathml.of_formula(formula).count("<mi>exp</mi>") == 1500 == formula.text.count("exp")


def test_escaping():
    assert html.tag("a", "<", href='"><script>') == '<a href="&quot;&gt;&lt;script&gt;">&lt;</a>'
    assert html.tag("p", html.Html("<b></b>"), "&") == "<p><b></b>&amp;</p>"


def test_command_writes_the_page(tmp_path, monkeypatch, capsys):
    import sys

    from catdiag.cli import main

    def run(*args: object) -> int:
        monkeypatch.setattr(sys, "argv", ["catdiag", *map(str, args)])
        with pytest.raises(SystemExit) as end:
            main()
        return int(end.value.code or 0)

    target = tmp_path / "report.html"
    assert run("derive", "sum_of_squares", "--html", target) == 0
    Read(target.read_text(encoding="utf-8"))
    assert run("derive", "sum_of_squares", "--times") == 2
    assert run("derive", "sum_of_squares", "--html", target, "--json", target) == 2
    assert run("derive", "sum_of_squares", "--html", tmp_path) == 2
    assert [Path(p).name for p in tmp_path.iterdir()] == ["report.html"]


def test_long_sums_break_between_their_terms():
    import sympy

    from catdiag.draw.report.cost_section import formula

    n = sympy.Symbol("n", positive=True)
    terms = [(-1) ** k * n * sympy.Symbol(f"size_{k}", positive=True) for k in range(40)]
    text = formula(sympy.Add(*terms))
    assert text.count("<math") == 40
    assert text.count(" − ") + text.count(" + ") == 39 and 19 <= text.count(" − ") <= 20


def test_a_conditional_theorem_is_headed_as_such(monkeypatch):
    from catdiag.prover.api import Theorem

    derivation = cd.library.get("sum_of_squares").stream("x")
    assert derivation.theorem.verdict == "proved"
    monkeypatch.setattr(Theorem, "conditional", property(lambda _: True))
    page = derivation.draw("html")
    assert page.count("proved, on a condition</span>") >= 3
    assert page.count(">proved</span>") == page.count("proved</span> is what the kernel accepted")
