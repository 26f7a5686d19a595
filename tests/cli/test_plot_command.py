"""`catdiag plot`: each kind of plot in a file, and what is asked wrongly."""

from __future__ import annotations

import pytest

SIZE = ("--size", "q=256,x=256")
ON = ("--on", "h100", *SIZE)


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("landscape", (*ON, "--tiles", "g_q"), ["predicted time by tiles"]),
        pytest.param("roofline", ON, ["softmax on H100", "HBM → L2"], marks=pytest.mark.slow),
        pytest.param("waterfall", ON, ["bytes moved, unfused and fused"], marks=pytest.mark.slow),
        ("transfers", SIZE, ["transfers against memory", "compulsory traffic"]),
    ],
)
def test_without_a_file_svg_is_printed(run, kind, options, words):
    done = run("plot", kind, "softmax", *options)
    assert done.status == 0 and done.err == ""
    assert done.out.startswith("<svg") and done.out.endswith("</svg>\n")
    assert all(word in done.out for word in words)


@pytest.mark.slow
def test_a_file_is_written_by_its_suffix(run, tmp_path):
    file = tmp_path / "a.png"
    done = run("plot", "transfers", "softmax", *SIZE, "-o", file)
    assert done.status == 0 and done.out == "" and file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["pie", "softmax", *ON], "expected one of roofline, transfers, landscape, waterfall"),
        (["roofline", "softmax", *SIZE], "say which, as in --on h100"),
        (["transfers", "softmax"], "the size of q, x is missing"),
        (["transfers", "softmax", *SIZE, "-o", "a.jpg"], "ends in .svg, .pdf or .png"),
        (["transfers", "softmax", *SIZE, "-o", "nowhere/a.svg"], "there is no folder nowhere"),
        (["transfers", "softmax", *SIZE, "--tiles", "g_q"], "--tiles is for a landscape"),
        (["transfers", "softmax", *SIZE, "--theme", "sepia"], "expected one of auto, light, dark"),
        (["transfers", "softmax", *SIZE, "-o", "a.png", "--theme", "dark"], "--theme is for SVG"),
        (["landscape", "softmax", *ON, "--stages", "0"], "stages is 0"),
        (["landscape", "softmax", *ON, "--tiles", "g_z"], "lacks: its tiles"),
        (["landscape", "softmax", "--on", "h1", *SIZE], "unknown hardware"),
        (["roofline", "nothing_there", *ON], "no diagram"),
    ],
)
def test_wrong_uses_are_named_and_nothing_is_written(run, tmp_path, monkeypatch, arguments, word):
    monkeypatch.chdir(tmp_path)
    run("plot", *arguments).one_message(2, word)
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_fit_has_its_status(run):
    run("plot", "landscape", "softmax", "--on", "h100", "--size", "q=8,x=100000000").one_message(
        4, "no Triton kernel fits H100"
    )
