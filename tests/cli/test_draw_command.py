"""`catdiag draw`: every kind of file, and what is asked wrongly."""

from xml.etree import ElementTree

import pytest


def texts(svg):
    """The texts that are printed, without what is there to hover for."""
    root = ElementTree.fromstring(svg.replace(' xml:space="preserve"', ""))
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        for title in text.findall("{http://www.w3.org/2000/svg}title"):
            title.text = ""
    return ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]


def test_without_a_file_svg_is_printed(run):
    done = run("draw", "softmax_contraction", "--open", "softmax", "--no-legend")
    assert done.status == 0 and "exp" in texts(done.out)
    assert "softmax" in texts(run("draw", "softmax_contraction", "--open", "none").out)
    assert "reduction of an axis" in texts(run("draw", "softmax_contraction", "--open", "all").out)


def test_files_by_their_suffix(run, tmp_path):
    for name, begin in (("a.svg", "<svg"), ("a.tikz", "% "), ("a.tex", "\\documentclass")):
        done = run("draw", "matmul", "-o", tmp_path / name, "--no-colour", "--theme", "light")
        assert done.status == 0 and done.out == "" and (tmp_path / name).read_text().startswith(begin)
    same = tmp_path / "a.svg"
    before = same.read_bytes()
    assert run("draw", "matmul", "-o", same, "--no-colour", "--theme", "light").status == 0
    assert same.read_bytes() == before


def test_a_derived_operator(run):
    done = run("draw", "dot", "--derived", "--levels", "HBM,SMEM,registers", "--legend")
    found = texts(done.out)
    assert "sx" in found and "array in registers" in found, done.err


def test_a_program_line_by_line(run):
    done = run("draw", "dot", "--stream", "x", "--program", "--levels", "HBM,SMEM,registers")
    found = texts(done.out)
    assert {"load a, b", "in registers", "written by the line"} <= set(found), done.err


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["-o", "a.jpg"], "expected a file that ends in .svg, .tikz, .tex, .pdf or .png"),
        (["-o", "a"], "ends in"),
        (["-o", "nowhere/a.svg"], "there is no folder nowhere"),
        (["-o", "a.svg", "--open", "rmsnorm"], "no named diagram 'rmsnorm'"),
        (["--theme", "sepia"], "expected one of auto, light, dark"),
        (["-o", "a.svg", "--levels", "HBM"], "two to 4"),
        (["-o", "a.svg", "--program", "--items"], "leave out --open, --items and --join"),
        (["-o", "a.svg", "--scale", "2"], "--scale is for PNG"),
        (["-o", "a.png", "--scale", "nan"], "expected a number above 0"),
        (["-o", "a.svg", "--derived", "--passes", "0"], "passes is 0"),
        (["-o", "a.svg", "--stream", "nothing"], "nothing"),
    ],
)
def test_wrong_uses_are_named_and_nothing_is_written(run, tmp_path, monkeypatch, options, word):
    monkeypatch.chdir(tmp_path)
    run("draw", "dot", *options).one_message(2, word)
    assert list(tmp_path.iterdir()) == []


def test_what_is_unknown_says_so(run):
    run("draw", "nothing_there").one_message(2, "no diagram")
