"""The README and the docs run: their Python blocks in order, in one namespace for each file."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.draw import program_picture, svg

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
# Pages of modules are made when the site is built.
MADE = DOCS / "reference" / "api"
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if not page.is_relative_to(MADE)]
DOCUMENTS = [ROOT / "README.md", *PAGES]
OTHERS = ("CHANGELOG", "CONTRIBUTING", "SECURITY", "tests/fuzz/README")


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@cache
def run(path: Path) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "document"}
    for number, block in enumerate(blocks(path, "python"), 1):
        exec(compile(block, f"{path.name}, block {number}", "exec"), namespace)
    return namespace


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


# Pages whose blocks take seconds, each about what tests of its own room plan, derive and draw.
LONG = {
    "docs/explanation/block_sparsity.md",
    "docs/explanation/fusion.md",
    "docs/explanation/partition.md",
    "docs/how-to/plots.md",
}


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.slow if named(path) in LONG else (), id=named(path))
        for path in DOCUMENTS
        if blocks(path, "python")
    ],
)
def test_python_runs(path):
    run(path)


def anchors(path: Path) -> set[str]:
    """What `#…` may name on a page: its headings, as hosts of Markdown and the site write them."""
    prose = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", [*DOCUMENTS, *(ROOT / f"{name}.md" for name in OTHERS)], ids=named)
def test_links_lead_somewhere(path):
    prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    drawn_from = re.findall(r"^```\{schema\} (\S+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    for target in [*re.findall(r"\]\(([^)\s]+)\)", prose), *drawn_from]:
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.is_relative_to(MADE) or there.exists(), f"{named(path)} has a link to {target}, which is not there"
        assert not anchor or anchor in anchors(there), f"{named(path)} has a link to {target}: no such heading"


def test_every_page_is_reached_from_the_index():
    reached: set[Path] = set()
    ahead = [DOCS / "index.md"]
    while ahead:
        page = ahead.pop()
        if page in reached or page.is_relative_to(MADE):
            continue
        assert page.exists(), f"a table of contents names {named(page)}, which is not there"
        reached.add(page)
        for tree in blocks(page, "{toctree}"):
            # A page's name, or `Title <name>`.
            names = [line.split("<")[-1].rstrip(">") for line in tree.splitlines() if line and not line.startswith(":")]
            ahead += [(page.parent / f"{name}.md").resolve() for name in names]
    assert reached == set(PAGES)


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_a_page_begins_with_its_one_title(path):
    prose = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert prose.startswith("# ")
    assert len(re.findall(r"^# ", prose, re.MULTILINE)) == 1


def test_the_glossary_is_sorted_and_says_each_word_once():
    words: list[str] = []
    for table in re.split(r"^## ", (DOCS / "glossary.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|", table, re.MULTILINE)[1:]
        own = [word for word, _ in rows]
        assert own == sorted(own, key=str.lower), f"not in order: {table.splitlines()[0]}"
        assert all(said.endswith(".") for _, said in rows)
        words += own
    assert len(words) == len(set(words))


def test_readme_says_what_is_so():
    said = run(ROOT / "README.md")
    flash, io, plan = said["flash"], said["io"], said["plan"]
    assert not flash.theorem.conditional and not said["theorem"].conditional
    Q, K, V = np.random.default_rng(0).normal(size=(3, 300, 16))
    assert np.allclose(flash.run(Q, K, V, tiles={"s_x": 64, "g_q": 128}), said["my_attention"](Q, K, V))
    assert str(io.relaxed) == "2*d*q + 2*d*q*x/g_q"
    assert str(io.optimum().leading) == "2*d*q + 4*d**2*q*x/M"
    assert io.optimum().exact is not None
    assert "ceiling" in str(io.transfers)
    assert plan.groups >= 100
    assert plan.proof.statement
    assert "import triton" in said["kernel"]


def test_readme_has_two_screens():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 110


def test_the_picture_of_the_readme_is_what_is_drawn_now():
    """Made by: catdiag draw attention --stream x --group q --program -o docs/static/flash_attention.svg"""
    flash = cd.library.get("attention").stream("x").group("q")
    drawn = svg(program_picture(flash), legend=True)
    assert (DOCS / "static" / "flash_attention.svg").read_text(encoding="utf-8").strip() == drawn.strip()


def test_commands_are_the_two_that_ci_runs():
    commands = [
        line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("pip ")
    ]
    assert commands == [
        "pip install . && catdiag derive attention --on h100 --size q=8192,x=8192,d=128 --dtype bf16",
        "pip install '.[test]' && pytest",
    ]
    ci = ROOT / ".ci" / "run"
    assert ci.stat().st_mode & 0o111
    assert "README.md" in ci.read_text(encoding="utf-8")


def test_rooms_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.split("## Where is …")[1].split("\n## ")[0]
    rooms = set(re.findall(r"`([\w/.]+(?:/|\.py))`", table))
    for room in rooms:
        assert (ROOT / room).exists() or (ROOT / "catdiag" / room).exists(), room
    mentioned = {room.rstrip("/").rsplit("/", 1)[-1] for room in rooms}
    for item in (ROOT / "catdiag").iterdir():
        if (item / "__init__.py").exists() or (item.suffix == ".py" and item.name != "__init__.py"):
            assert item.name in mentioned, f"CONTRIBUTING's list of rooms lacks {item.name}"


def example(name: str) -> str:
    """What an example prints, run as a program of its own, with these sources."""
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py")]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_example_on_a_real_shape(capsys):
    runpy.run_path(str(ROOT / "examples" / "llama3_prefill.py"), run_name="__main__")
    told = capsys.readouterr().out
    assert "grouped_query_attention.stream('x').group('b k r q')" in told
    assert "2*b*d*k*q*r + 4*b*d**2*k*q*r*x/M" in told
    heads, rows, width = 32, 8192, 2
    scores, queries, keys = heads * rows * rows, heads * rows * 128, 8 * rows * 128
    # Scores written and read, weights written and read; queries, keys, values and results once.
    assert f"{width * (4 * scores + 2 * queries + 2 * keys):,} bytes with the scores in memory" in told
    assert re.search(r"bytes of HBM as planned: \d+\.\d times fewer", told)
    assert re.search(r"tiles .*g_r=\d+, g_q=\d+, s_x=\d+", told)


@pytest.mark.slow
def test_example_of_a_layer():
    told = example("llama3_layer")
    assert re.search(r"^\d+ kernels on H200, bf16, .*: [\d,.]+ µs predicted", told)
    assert told.count("torch computes") == 7 and "the ideal model's" not in told
    assert re.search(r"^memory     [\d,]+ bytes for what passes", told, re.MULTILINE)
    assert "TFLOP/s predicted" in told


@pytest.mark.slow
def test_example_of_serving():
    told = example("router_and_decoding")
    for said in (
        "repair   where(max1 = max1′ ∨ max2 = -∞, max2, -e)",
        "that meets the range from t2 to t1:",
        "bounds off by one: skipping blocks of 'x' changes decode",
        "variance(a[x]) = variance.stream('x', by=…)(a[x])",
    ):
        assert said in told


@pytest.mark.slow
def test_example_of_decoding():
    told = example("decode")
    # 2 bytes of each of the 2 · 8 · 32768 · 128 values cached, and of the 2 · 64 · 128 that belong to the query.
    assert f"{2 * (2 * 8 * 32768 * 128 + 2 * 64 * 128) / 1e6:.1f}        8.0" in told
    assert "a step reads and writes 2*b*d*k*(r + x) values" in told
    assert re.search(r"batch  1: +(?!1 )\d+ parts", told)
    assert "by cache heads: 0" in told


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    """The site has every page, and its search knows them and those of modules."""
    pytest.importorskip("furo")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(tmp_path / "trees"), str(DOCS)]
    done = subprocess.run([*command, str(tmp_path / "site")], capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stderr
    for page in PAGES:
        assert (tmp_path / "site" / page.relative_to(DOCS)).with_suffix(".html").exists(), page
    found = (tmp_path / "site" / "searchindex.js").read_text(encoding="utf-8")
    assert all(word in found for word in ("reference/api/catdiag.kernel", "explanation/lower_bounds", "glossary"))
