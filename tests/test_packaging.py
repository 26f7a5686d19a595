"""What is built for a package index: the description has no dead link, the sdist holds all that its tests read."""

from __future__ import annotations

import email
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from hatchling import build
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parent.parent
SOURCE = "https://example.org/catdiag/blob/main"


def links(text: str) -> list[str]:
    """The targets of links, those in HTML too; code is no link."""
    prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"(?:\]\(|href=\"|src=\")([^)\"]*)", prose)


def described(folder: Path, monkeypatch: pytest.MonkeyPatch, urls: str = "") -> str:
    """The description that is built of a tree, with these lines under `[project.urls]`.

    Of a tree without PKG-INFO: in an sdist, that says what was made when the sdist was.
    """
    for name in ("README.md", "LICENSE", "hatch_build.py"):
        shutil.copy(ROOT / name, folder)
    config = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert "\n[project.urls]\n" in config
    config = config.replace("\n[project.urls]\n", f"\n[project.urls]\n{urls}\n")
    (folder / "pyproject.toml").write_text(config, encoding="utf-8")
    monkeypatch.chdir(folder)
    made = folder / build.prepare_metadata_for_build_wheel(str(folder)) / "METADATA"
    built = email.message_from_bytes(made.read_bytes())
    assert built["Description-Content-Type"] == "text/markdown"
    description = built.get_payload()
    assert isinstance(description, str)
    return description


def test_the_description_that_is_built_has_no_relative_link(tmp_path, monkeypatch):
    description = described(tmp_path, monkeypatch)
    assert "Try it" in description
    assert [target for target in links(description) if not target.startswith(("https://", "#"))] == []


def test_where_the_source_is_named_every_link_leads_there(tmp_path, monkeypatch):
    description = described(tmp_path, monkeypatch, f'Source = "{SOURCE}"')
    written = (ROOT / "README.md").read_text(encoding="utf-8")
    relative = [target for target in links(written) if not re.match(r"[a-z]+:|#", target)]
    assert relative
    found = [target for target in links(description) if target.startswith(SOURCE)]
    assert [t.removeprefix(f"{SOURCE}/").removesuffix("?raw=true") for t in found] == relative


def test_an_sdist_holds_all_that_is_versioned():
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("this is no checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    versioned = {name for name in listed.split("\0") if name and (ROOT / name).exists()}
    assert versioned - {file.relative_path for file in SdistBuilder(str(ROOT)).recurse_included_files()} == set()


def test_a_wheel_is_the_package_whole():
    held = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    on_disk = {str(p.relative_to(ROOT)) for p in (ROOT / "catdiag").rglob("*") if p.is_file()}
    assert held == {name for name in on_disk if "__pycache__" not in name}
    assert {"catdiag/py.typed", "catdiag/kernel/certificate.schema.json"} <= held


def test_the_workflow_runs_the_pythons_of_the_classifiers():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [c.rsplit(" ", 1)[1] for c in config["classifiers"] if re.search(r":: 3\.\d+$", c)]
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    run = re.search(r"python: \[(.*)\]", workflow)
    assert run is not None
    assert [version.strip(' "') for version in run[1].split(",")] == named
    assert f">={named[0]}" == config["requires-python"]


def test_the_version_is_the_same_everywhere():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited is not None
    assert cited[1] == config["version"]
    assert f"## {config['version']}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
