"""SVG: valid, accessible, the same each time, and at peace with what stands beside it in a page."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catdiag.draw import Label, Scene, svg
from catdiag.draw.scene import spans
from catdiag.draw.theme import DARK, LIGHT, palette
from catdiag.util.errors import CatdiagError
from tests.draw.scenes import bent, everything, level_wire

NS = "{http://www.w3.org/2000/svg}"
FORMS = [
    (theme, colour, legend)
    for theme in ("auto", "light", "dark")
    for colour in (True, False)
    for legend in (True, False)
]


def tree(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text.encode())


@pytest.mark.parametrize(("theme", "colour", "legend"), FORMS)
def test_every_form_of_hostile_texts_is_valid_xml(theme, colour, legend):
    root = tree(svg(everything(), theme=theme, color=colour, legend=legend))
    names = {element.tag.removeprefix(NS) for element in root.iter()}
    assert names <= {"svg", "title", "desc", "style", "rect", "g", "path", "text", "tspan"}
    assert ("style" in names) == (theme == "auto")


def test_a_picture_says_what_it_is():
    root = tree(svg(everything()))
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    named = {element.get("id"): element for element in root.iter()}
    assert root.get("role") == "img" and len(ids) == len(set(ids)) == 3
    title, description = (named[name] for name in root.get("aria-labelledby").split())
    assert title.tag == NS + "title" and title.text.startswith("Everything ]]>&lt;<script>")
    assert description.tag == NS + "desc" and "愛𝔸" in description.text and "\x1b" not in description.text
    untitled = tree(svg(Scene(10, 10, ())))
    assert [element.text for element in untitled.iter(NS + "title")] == ["Diagram"]
    assert untitled.get("aria-labelledby") == untitled.find(NS + "title").get("id")


def test_text_is_text_and_hovering_says_more():
    root = tree(
        svg(Scene(90, 30, (Label(9, 9, "max_x t", "body", title="a box"), level_wire(0, 9, 9, title="a wire"))))
    )
    text = root.find(f".//{NS}text")
    assert [part.text for part in text.iter(NS + "tspan")] == ["x", " t"] and text.find(NS + "title").text == "a box"
    assert root.find(f".//{NS}path/{NS}title").text == "a wire"
    # The line after a subscript is where it was before it.
    moves = [float(part.get("dy", 0)) for part in text.iter(NS + "tspan")]
    assert moves[0] > 0 and sum(moves) == 0 and text.get("{http://www.w3.org/XML/1998/namespace}space") == "preserve"
    names = [(t.text, t.get("font-style")) for t in tree(svg(Scene(9, 9, (Label(0, 0, "2q"),)))).iter(NS + "tspan")]
    assert names == [("q", "italic")]


def test_pictures_in_one_page_do_not_meet():
    one, two = everything(), replace(everything(), title="Another")
    pages = [svg(one), svg(two), svg(one, color=False), svg(one, legend=True), svg(one, name="again")]
    ids = [{element.get("id") for element in tree(page).iter() if element.get("id")} for page in pages]
    assert len(set.union(*ids)) == sum(map(len, ids))
    for page in pages:
        root = tree(page)
        rules = re.sub(r"@media[^{]*{\n|\n}", "\n", root.find(NS + "style").text).strip().splitlines()
        assert len(rules) > 10 and all(rule.startswith(f"#{root.get('id')}") for rule in rules if rule)


def test_both_themes_are_in_one_picture_and_each_alone():
    auto, light, dark = (svg(everything(), theme=theme) for theme in ("auto", "light", "dark"))
    for colours, other in ((LIGHT, dark), (DARK, light)):
        assert colours["level1"] in auto and colours["level1"] not in other
    assert LIGHT["level1"] in light and "var(" not in light and DARK["level1"] in dark
    used = set(re.findall(r'class="([^"]*)"', auto))
    ruled = set(re.findall(r"\.([lf]-\w+)", auto))
    assert {name for names in used for name in names.split()} == ruled
    with pytest.raises(CatdiagError, match="there is no theme 'sepia': expected one of auto, light, dark"):
        svg(everything(), theme="sepia")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_without_colour_there_is_none(theme):
    found = set(re.findall(r"#[0-9a-f]{6}", svg(everything(), theme=theme, color=False)))
    channels = [[int(value[n : n + 2], 16) for n in (1, 3, 5)] for value in found]
    assert all(max(rgb) - min(rgb) <= 12 for rgb in channels)
    assert len({palette(theme, False)[name] for name in ("ink", "level1", "level2", "level3")}) == 1


def test_levels_are_told_apart_by_their_strokes_alone():
    looks = set()
    for kind in ("axis", "item"):
        for level in range(4):
            text = svg(Scene(90, 20, (level_wire(0, 90, 9, kind=kind, level=level),)), theme="light", color=False)
            looks.add(text.partition("<rect")[2])
    assert len(looks) == 8


@settings(max_examples=40)
@given(st.text(st.characters(), max_size=9), st.sampled_from(("axis", "body", "code")))
def test_any_text_is_read_back(text, role):
    root = tree(svg(Scene(90, 30, (Label(9, 9, text, role),), text, text), theme="light"))
    shown = "".join(root.find(f".//{NS}text").itertext())
    printed = "".join(part for part, _ in spans(text))
    # What XML cannot hold is replaced letter by letter, and its parsers read the ends of lines as one.
    assert len(shown.replace("\n", "")) == len(re.sub("[\r\n]", "", printed))
    assert all(a == b or b == "\ufffd" for a, b in zip(re.sub("[\r\n]", "", printed), shown.replace("\n", "")))


def test_numbers_are_short():
    items = (level_wire(-0.001, 100 / 3, 2 / 3), bent(0.005, 1e-9, 1 / 7, -1e-9), Label(1 / 3, -0.0, "a"))
    text = svg(Scene(100 / 3, 9.999, items), theme="light", legend=True)
    found = [value for d in re.findall(r' (?:d|x|y|width)="([^"]*)"', text) for value in re.findall(r"-?[\d.]+", d)]
    assert found and all(re.fullmatch(r"-?\d+(\.\d{1,2})?", value) and value != "-0" for value in found)


def test_the_same_picture_is_the_same_bytes_under_any_hash_seed():
    code = (
        "from tests.draw.scenes import everything; from catdiag.draw import svg, tikz; import hashlib;"
        "s = everything(); t = svg(s, legend=True) + tikz(s, legend=True);"
        "print(hashlib.sha256(t.encode()).hexdigest())"
    )
    root = Path(__file__).parents[2]
    done = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=root,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert done[0] == done[1]
