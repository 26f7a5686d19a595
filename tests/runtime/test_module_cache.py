"""Texts that become modules of Python."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from catdiag.runtime.module_cache import cache_folder, cached_file, imported, needed
from catdiag.util.errors import CatdiagError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CATDIAG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kernels"


def test_a_text_is_kept_under_its_hash(folder: Path) -> None:
    path = cached_file("x = 1\n", "f")
    assert path.parent == folder == cache_folder()
    assert path.read_text() == "x = 1\n"
    assert cached_file("x = 1\n", "f") == path
    assert cached_file("x = 2\n", "f") != path
    assert sorted(os.listdir(folder)) == sorted({path.name, cached_file("x = 2\n", "f").name}), "and nothing beside"


def test_a_file_that_was_changed_is_written_again() -> None:
    path = cached_file("x = 1\n", "f")
    path.write_text("import os\n")
    assert cached_file("x = 1\n", "f").read_text() == "x = 1\n"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CATDIAG_CACHE", str(tmp_path / "file"))
    with pytest.raises(CatdiagError, match=r"cannot be written to .*set CATDIAG_CACHE to a folder"):
        cached_file("x = 1\n", "f")


def test_the_users_cache_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CATDIAG_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "catdiag" / "kernels"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "catdiag" / "kernels"


def test_a_package_that_breaks_is_not_called_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "broken_package.py").write_text("import no_such_package_either\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="no_such_package_either"):
        needed("broken_package", "this")


@pytest.mark.triton
def test_a_module_without_its_function_is_refused() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    assert imported("def f():\n    return 2\n", "f").f() == 2
    with pytest.raises(CatdiagError, match="defines no function 'g'"):
        imported("def f():\n    return 2\n", "g")
