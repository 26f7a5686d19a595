"""Diagrams and derivations as pictures: methods, notebooks, and what is asked wrongly."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

import catdiag as cd
from catdiag import library
from catdiag.draw.render import SHOWN, svg_of
from catdiag.rewrite.group import find
from catdiag.util.errors import CatdiagError

NS = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    """The texts that are printed, without what is there to hover for."""
    root = ElementTree.fromstring(svg)
    for text in root.iter(NS + "text"):
        for title in text.findall(NS + "title"):
            title.text = ""
    return ["".join(text.itertext()) for text in root.iter(NS + "text")]


def test_named_diagrams_open_by_name():
    diagram = library.get("softmax_contraction")
    closed, opened = texts(diagram.draw("svg")), texts(diagram.draw("svg", open="softmax"))
    assert "softmax" in closed and "exp" not in closed and {"exp", "a/b", "max"} <= set(opened)
    assert texts(diagram.draw("svg", open=["softmax"])) == texts(diagram.draw("svg", open=True)) == opened
    assert "exp" in diagram.draw("tikz", open="softmax") and "exp" not in diagram.draw("tikz", standalone=False)
    with pytest.raises(CatdiagError, match=r"no named diagram 'sofmax' to open: those of \w+ are softmax"):
        diagram.draw("svg", open="sofmax")
    with pytest.raises(CatdiagError, match="there are none"):
        library.get("matmul").draw("tikz", open=["softmax"])


def test_a_derivation_is_drawn_as_what_it_came_to():
    derivation = library.get("sum_of_squares").stream("x").group("q")
    assert derivation.draw("svg", theme="light") == svg_of(derivation.diagram, theme="light")
    assert {"gq", "sx"} <= set(texts(derivation.draw("svg"))) and "catdiag-level1" in derivation.draw("tikz")
    assert derivation._repr_svg_() == derivation.draw("svg")
    assert "size of q in each group" in texts(derivation.draw("svg", legend=True))


def test_a_notebook_shows_what_is_small_and_folds_what_is_not():
    small = library.get("matmul")
    assert small._repr_svg_() == small.draw("svg")
    chain = cd.algorithm("q", name="chain")(lambda a: _times(a, SHOWN + 1))
    assert "part 1" in texts(chain._repr_svg_()) and "exp" not in texts(chain._repr_svg_())
    opened = texts(chain.draw("svg", open="part 1"))
    assert 100 < opened.count("exp") <= texts(chain.draw("svg", most=None)).count("exp") == SHOWN + 1
    inside = find(chain.diagram, ["q"])
    assert len(inside.boxes) == 1 and "part 1" in texts(inside._repr_svg_())


def _times(a, number):
    for _ in range(number):
        a = cd.exp(a)
    return a


def test_hostile_names_do_no_harm():
    hostile = cd.box('"><script>&\x01', *(cd.algorithm("q", name="f")(lambda a: a).dom,) * 2)
    assert "<script>" not in hostile.draw("svg") and texts(hostile.draw("svg"))
    assert "\x01" not in hostile.draw("tikz")
