"""The gallery of the docs: made from the library, whole, the same each time."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from catdiag import library

PATH = Path(__file__).parents[2] / "docs" / "gallery.py"


@pytest.fixture(scope="module")
def gallery():
    spec = importlib.util.spec_from_file_location("gallery", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["gallery"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["gallery"]


def test_a_page_of_operators(gallery, tmp_path):
    for folder in ("one", "two"):
        gallery.page([("Some", map(gallery.operator_section, ("matmul", "rms_norm", "attention")))], tmp_path / folder)
    pages = [(tmp_path / folder / "index.html").read_text() for folder in ("one", "two")]
    assert pages[0] == pages[1]
    assert pages[0].count("<svg ") == 4 and 'href="#rms_norm"' in pages[0] and "Σ_d" in pages[0]
    files = sorted(path.name for path in (tmp_path / "one" / "svg").iterdir())
    assert files == ["attention-opened.svg", "attention.svg", "matmul.svg", "rms_norm.svg"]
    for name in files:
        assert ElementTree.parse(tmp_path / "one" / "svg" / name).getroot().get("role") == "img"
    ids = [line.partition('id="')[2].partition('"')[0] for line in pages[0].split("<svg ")[1:]]
    assert len(set(ids)) == 4


def test_what_is_derived_is_in_the_library(gallery):
    assert {name for name, _, _ in gallery.DERIVED} <= set(library.names())


def test_it_is_told_where_to_write(gallery, monkeypatch, capsys):
    for arguments in ([], ["--help"], ["a", "b"]):
        monkeypatch.setattr(sys, "argv", ["gallery.py", *arguments])
        with pytest.raises(SystemExit) as end:
            gallery.main()
        assert end.value.code == 2 and "OUT" in capsys.readouterr().err


@pytest.mark.slow
def test_the_whole_gallery(gallery, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gallery.py", str(tmp_path)])
    gallery.main()
    text = (tmp_path / "index.html").read_text()
    assert all(f'<section id="{name}">' in text for name in library.names())
    ids = re.findall(r'<svg [^>]*id="([^"]*)"', text)
    assert len(ids) == len(set(ids)) == len(list((tmp_path / "svg").iterdir())) > 100
