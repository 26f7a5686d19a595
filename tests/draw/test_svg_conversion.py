"""PDF and PNG by the extra `draw`: pip install '.[test,draw]' && pytest -m slow tests/draw."""

from __future__ import annotations

import re
import struct
import sys

import pytest

from catdiag.draw import Label, Scene, svg
from catdiag.draw.svg_conversion import pdf, png
from catdiag.util.errors import CatdiagError
from tests.draw.scenes import everything


def test_without_the_extra_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    for convert in (pdf, png):
        with pytest.raises(CatdiagError, match=r"pip install 'catdiag\[draw\]'"):
            convert(svg(everything(), theme="light"))


def test_scales_that_cannot_be_are_refused():
    text = svg(everything(), theme="light")
    for scale in (0, -1, float("nan")):
        with pytest.raises(CatdiagError, match="expected a number above 0"):
            png(text, scale)
    with pytest.raises(CatdiagError, match="expected a scale of at most 21"):
        png(text, 1000)
    with pytest.raises(CatdiagError, match="not an SVG"):
        png("<p>", 1)


@pytest.mark.slow
def test_sizes_of_what_is_converted():
    pytest.importorskip("vl_convert", reason="pip install 'catdiag[draw]'")
    text = svg(everything(), theme="light")
    for scale in (1, 2):
        picture = png(text, scale)
        assert picture.startswith(b"\x89PNG") and struct.unpack(">II", picture[16:24]) == tuple(
            pytest.approx(side * scale * 4 / 3, abs=1) for side in (580, 340)
        )
    page = pdf(text)
    assert page.startswith(b"%PDF") and b"/MediaBox" in page


@pytest.mark.slow
def test_texts_are_in_one_font():
    pytest.importorskip("vl_convert", reason="pip install 'catdiag[draw]'")
    texts = ("a ∧ (b_x ∨ c)", "−∞ ≤ a′ ≠ √x·2", "Σ_k a/b²", "where(a ∧ b, i_x, 0)")
    scene = Scene(200, 100, tuple(Label(10, 20 * k, text, "body", "start") for k, text in enumerate(texts, 1)))
    fonts = set(re.findall(rb"/BaseFont ?/\w+\+([A-Za-z]+)", pdf(svg(scene, theme="light"))))
    assert len(fonts) == 1
