"""TikZ: what can be told without running LaTeX."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catdiag.draw import Label, Scene, tikz
from catdiag.draw.latex_escape import escaped
from catdiag.util.errors import CatdiagError
from tests.draw.scenes import HOSTILE, everything, level_wire


def test_only_what_every_tex_has_is_used():
    document = tikz(everything(), legend=True)
    assert re.findall(r"\\usepackage(?:\[.*?])?{(.*?)}", document) == ["tikz", "amssymb"]
    assert document.isascii() or all(line.startswith("%") for line in document.splitlines() if not line.isascii())
    alone = tikz(everything(), standalone=False)
    assert "\\documentclass" not in alone and "% needs in the preamble: \\usepackage{tikz}" in alone
    inner = alone[alone.index("\\begin{tikzpicture}") :]
    assert inner in tikz(everything())
    assert alone.count("\\begin{scope}") == alone.count("\\end{scope}") > 10


def test_every_colour_is_defined_once_and_used():
    document = tikz(everything())
    defined = re.findall(r"\\definecolor{catdiag-(\w+)}", document)
    assert len(defined) == len(set(defined))
    assert set(defined) == set(re.findall(r"(?:=|color{)catdiag-(\w+)", document.split("\\useasboundingbox")[1]))


def test_texts_cannot_break_out():
    for text in (HOSTILE, "\\end{document}", "%", "a\nb", "}" * 5, "$x", "^^5c"):
        written = escaped(text)
        assert "\\input" not in written and "\\end" not in written and "\n" not in written
        bare = re.sub(r"\\[\\{}$%#&_^~]", "", written)
        assert bare.count("{") == bare.count("}") and bare.count("$") % 2 == 0 and "%" not in bare and "#" not in bare
        assert written.isascii()
    # A title with an end of line stays a comment.
    lines = tikz(Scene(9, 9, (), "a\n\\input{x}", "b\r\u2028c"), standalone=False).splitlines()
    assert lines[:2] == ["% a \\input{x}", "% b c"]


@settings(max_examples=60)
@given(st.text(max_size=9))
def test_any_text_is_ascii_and_closed(text):
    written = escaped(text)
    assert written.isascii() and "\n" not in written
    bare = re.sub(r"\\[\\{}$%#&_^~]", "", written)
    assert bare.count("{") == bare.count("}") and bare.count("$") % 2 == 0 and not {"%", "#", "&"} & set(bare)


def test_letters_of_mathematics():
    assert escaped("Σ√∞≤−·′×") == (r"$\mathsf{\Sigma}$$\surd$$\infty$$\leq$$-$$\cdot$${}^{\prime}$$\times$")
    assert escaped("αβλΩℝ x₁²") == r"$\alpha$$\beta$$\lambda$$\mathsf{\Omega}$$\mathbb{R}$ x$_{1}$$^{2}$"
    assert escaped("éßïĵ") == r"\'{e}{\ss}\"{\i}\^{\j}"


def test_subscripts_are_lowered_and_texts_have_room():
    line = next(x for x in tikz(Scene(9, 9, (Label(1, 2, "g_q′"),))).splitlines() if x.startswith("\\catdiagtext{"))
    assert line.startswith("\\catdiagtext{}{{1}{2}}{") and "$_{\\mbox{\\fontsize{7}{7}\\selectfont q}}$" in line
    rotated = tikz(Scene(9, 9, (Label(1, 2, "a", anchor="end", rotated=True),)))
    assert "\\catdiagtext{right,rotate=90}{{1}{2}}" in rotated


def test_a_picture_larger_than_a_page_is_refused():
    with pytest.raises(CatdiagError, match="at most 14000"):
        tikz(Scene(15_000, 10, (level_wire(0, 15_000, 5),)))
