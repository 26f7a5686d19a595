"""`catdiag counters` without a profiler: what is predicted, and why nothing was counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome

GIVEN = ("--size", "a=1024,b=512,c=256", "--tiles", "g_a=64,g_c=64,s_b=64", "--stages", "3", "--warps", "4")
HOW = ("--stream", "b", "--group", "a c")


def test_what_is_predicted_is_told_without_a_gpu(run: Callable[..., Outcome], tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    done = run("counters", "matmul", *GIVEN, *HOW, "--json", path)
    assert done.status == 0, done.err
    assert "counters are unavailable here: " in done.out and "8.389 MB" in done.out
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["point"]["kernels"][0]["loads"] == {"A": 4 * 2 * 1024 * 512, "B": 16 * 2 * 512 * 256}
    assert found["point"]["kernels"][0]["shared"] == pytest.approx(3 * 2 * 2 * 64 * 64, abs=1024)
    assert {line["status"] for line in found["lines"]} <= {"unavailable", "agrees", "reported", "unexplained"}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--warps", "3"), ("warps is 3", "power of two")),
        (("--json", "/no/such/folder/x.json"), ("no folder",)),
    ],
)
def test_wrong_use_is_one_message(run: Callable[..., Outcome], more: tuple[str, ...], words: tuple[str, ...]) -> None:
    run("counters", "matmul", "--size", "a=64,b=64,c=64", *HOW, *more).one_message(2, *words)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tiles", "words"),
    [("g_z=64", ("there is no tile 'g_z'", "g_a, g_c, s_b")), ("g_a=48,g_c=64,s_b=64", ("g_a is 48", "power of two"))],
)
def test_tiles_that_are_none_are_one_message(run: Callable[..., Outcome], tiles: str, words: tuple[str, ...]) -> None:
    run("counters", "matmul", *GIVEN[:2], "--tiles", tiles, *GIVEN[4:], *HOW).one_message(2, *words)
