"""Pictures in a real browser and a real LaTeX: `pytest -m slow tests/draw/test_rendered.py`, where chromium and
pdflatex are installed (skipped where they are not)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from catdiag import library
from catdiag.draw import Label, Scene, svg, tikz
from catdiag.draw.render import scene_of
from catdiag.draw.text_width import text_width
from tests.draw.scenes import everything

pytestmark = pytest.mark.slow
BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
browser = pytest.mark.skipif(BROWSER is None, reason="no chromium")
latex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex")


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    found = [scene_of(library.get(name), open=opened) for name in library.names() for opened in (False, True)]
    derived = library.get("attention").stream("x").group("q")
    levels = ("HBM", "SMEM", "registers", "tensor cores")
    return [everything(), *found, scene_of(derived.diagram, levels=levels, items=True)]


@browser
def test_a_browser_shows_all_of_every_picture(scenes, tmp_path):
    script = """
    const found = [];
    for (const picture of document.querySelectorAll('svg')) {
      const box = picture.viewBox.baseVal;
      for (const text of picture.querySelectorAll('text')) {
        const b = text.getBBox(), m = text.getCTM(), n = picture.getCTM();
        const shown = [...text.childNodes].filter(c => c.nodeName != 'title').map(c => c.textContent).join('');
        found.push([picture.querySelector('title').textContent, shown, b.x, b.y, b.width, b.height,
                    box.width, box.height, text.hasAttribute('transform')]);
      }
    }
    document.body.innerHTML = '<pre id="found"></pre>';
    document.getElementById('found').textContent = JSON.stringify(found);
    """
    body = "\n".join(svg(scene, legend=True) for scene in scenes[1:])
    page = tmp_path / "page.html"
    page.write_text(f"<!DOCTYPE html><meta charset='utf-8'><body>{body}<script>{script}</script>", encoding="utf-8")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"file://{page}"]
    dom = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    text = re.search(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL)[1]
    found = json.loads(text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert len(found) > 1000
    for title, shown, x, y, width, height, wide, high, turned in found:
        if not turned:
            assert x > -1 and y > -1 and x + width < wide + 1 and y + height < high + 1, (title, shown)


@browser
def test_texts_are_as_wide_as_they_are_taken_to_be(tmp_path):
    texts = [
        "softmax",
        "g_q",
        "max_x",
        "∑ √d ≤ −∞ · ′",
        "where(a, b, -∞)",
        "index(x) ≤ index(q)",
        "size of q in each group",
    ]
    labels = [
        Label(5, 20 * n + 20, text, role)
        for role in ("axis", "array", "body", "note", "code")
        for n, text in enumerate(texts)
    ]
    page = tmp_path / "page.html"
    script = "document.body.dataset.found = [...document.querySelectorAll('text')]"
    script += ".map(t => t.getComputedTextLength()).join(' ')"
    page.write_text(
        f"<meta charset='utf-8'><body>{svg(Scene(300, 900, tuple(labels)))}<script>{script}</script>", encoding="utf-8"
    )
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"file://{page}"]
    dom = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout
    for label, width in zip(labels, map(float, re.search(r'data-found="([^"]*)"', dom)[1].split()), strict=True):
        assert width <= 1.12 * text_width(label.text, label.role) + 1, label.text


@latex
@pytest.mark.parametrize("colour", [True, False])
def test_latex_compiles_every_picture_without_a_warning(scenes, tmp_path, colour):
    pictures = "\n".join(tikz(scene, color=colour, standalone=False, legend=colour) for scene in scenes)
    head = "\\documentclass[multi=tikzpicture,border=2pt]{standalone}\n\\usepackage{tikz}\n\\usepackage{amssymb}\n"
    (tmp_path / "all.tex").write_text(f"{head}\\begin{{document}}\n{pictures}\\end{{document}}\n", encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"],
        cwd=tmp_path, capture_output=True, timeout=600, check=False,
    )  # fmt: skip
    log = (tmp_path / "all.log").read_text(encoding="latin-1")
    assert done.returncode == 0, log[-2000:]
    assert not re.findall(r".*(?:Overfull|Warning|Missing character).*", log)
    assert f"({len(scenes)} page" in log.replace("\n", "")


@latex
def test_one_picture_is_a_document(tmp_path):
    (tmp_path / "one.tex").write_text(tikz(everything(), legend=True, theme="dark"), encoding="utf-8")
    subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "one.tex"],
        cwd=tmp_path,
        check=True,
        timeout=600,
        capture_output=True,
    )
    assert (tmp_path / "one.pdf").stat().st_size > 1000


@latex
def test_any_letter_compiles(tmp_path):
    letters = [chr(n) for n in (*range(1, 0x600), *range(0x2000, 0x2C00), 0x611B, 0x1D538, 0x1F600, 0xFFFD)]
    labels = [Label(20 * (n % 60), 12 * (n // 60) + 12, f"a{c}_{{{c}}}", "axis") for n, c in enumerate(letters)]
    (tmp_path / "letters.tex").write_text(tikz(Scene(1300, 1200, tuple(labels))), encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "letters.tex"],
        cwd=tmp_path,
        timeout=300,
        capture_output=True,
        check=False,
    )
    log = (tmp_path / "letters.log").read_text(encoding="latin-1")
    assert done.returncode == 0 and not re.findall(r"^!.*|Missing character.*", log, re.MULTILINE), log[-1500:]


@latex
@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="no pdftotext")
def test_texts_stand_where_they_are_to_stand(tmp_path):
    labels = (
        Label(20, 30, "Start", "array", "start"), Label(120, 30, "Middle", "array"),
        Label(280, 30, "End", "array", "end"), Label(50, 180, "Up", "array", "start", rotated=True),
        Label(90, 150, "Down", "array", "end", rotated=True),
    )  # fmt: skip
    (tmp_path / "texts.tex").write_text(tikz(Scene(300, 200, labels)), encoding="utf-8")
    compiled = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "texts.tex"]
    subprocess.run(compiled, cwd=tmp_path, check=True, timeout=600, capture_output=True)
    words = subprocess.run(
        ["pdftotext", "-bbox", "texts.pdf", "-"], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout
    found = {
        word: [float(side) - 2 for side in sides]
        for *sides, word in re.findall(r'<word xMin="(.*?)" yMin="(.*?)" xMax="(.*?)" yMax="(.*?)">(\w+)<', words)
    }
    near = {"Start": (0, 20), "End": (2, 280), "Up": (3, 180), "Down": (1, 150)}
    for word, (side, place) in near.items():
        assert abs(found[word][side] - place) < 4, (word, found[word])
    assert abs((found["Middle"][0] + found["Middle"][2]) / 2 - 120) < 2
    assert all(abs(found[word][3] - 33) < 5 for word in ("Start", "Middle", "End"))
    assert abs(found["Up"][2] - 50) < 6 and abs(found["Down"][2] - 90) < 6
