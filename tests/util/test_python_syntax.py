"""Syntax trees are read in threads beside each other: law, parse(t) = ast.parse(t)."""

from __future__ import annotations

import ast
import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from catdiag.util import python_syntax


class Cycle:
    """Garbage whose finaliser lets another thread run while a tree is built."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        for _ in range(50):
            pass


@pytest.fixture(autouse=True)
def _nothing_read_before() -> None:
    """Each test reads its texts anew."""
    python_syntax.parse.cache_clear()


def test_threads_do_not_disturb_each_other():
    text = Path(python_syntax.__file__).read_text(encoding="utf-8")
    expected = ast.dump(ast.parse(text))

    def read(_: int) -> str:
        [Cycle() for _ in range(5)]
        return ast.dump(python_syntax.parse.__wrapped__(text))  # each thread reads: nothing is remembered

    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(10)
    try:
        with ThreadPoolExecutor(4) as executor:
            assert set(executor.map(read, range(60))) == {expected}
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*threshold)


def test_what_another_thread_disturbed_is_read_again(monkeypatch):
    honest, disturbed = ast.parse, iter([True, True])

    def shared_counter(text: str) -> ast.Module:
        if next(disturbed, False):
            raise SystemError("AST constructor recursion depth mismatch (before=21, after=19)")
        return honest(text)

    monkeypatch.setattr(python_syntax.ast, "parse", shared_counter)
    assert isinstance(python_syntax.parse("a = 1"), ast.Module)


def test_other_errors_are_not_hidden(monkeypatch):
    def broken(text: str) -> ast.Module:
        raise SystemError("something else")

    with pytest.raises(SyntaxError):
        python_syntax.parse("a =")
    monkeypatch.setattr(python_syntax.ast, "parse", broken)
    with pytest.raises(SystemError, match="something else"):
        python_syntax.parse("a = 1")
