"""Which parts of the kernel a test executes, at next to no cost: each block of statements sets a mark when it begins.

A module is loaded with `_marks_[k] = 1` before the first statement of each block and before each statement that
follows a branch, a loop or the like, which may have left.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

NAME = "_marks_"
_LEAVING = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match)


class Blocks(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads the modules in a folder, as the package `prefix`, with marks; `of_line` says in which block a line is."""

    def __init__(self, folder: Path, prefix: str) -> None:
        self.folder, self.prefix = folder, prefix
        self.of_line: dict[tuple[str, int], int] = {}
        self.marks = bytearray(100_000)
        self._count = 0

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """A module of the folder."""
        head, _, last = name.rpartition(".")
        file = self.folder / f"{last}.py"
        return importlib.util.spec_from_file_location(name, file, loader=self) if head == self.prefix else None

    def exec_module(self, module: ModuleType) -> None:
        """Runs a module's code with marks."""
        name = module.__name__.rpartition(".")[2]
        file = self.folder / f"{name}.py"
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._mark(name, node)
        vars(module)[NAME] = self.marks
        exec(compile(ast.fix_missing_locations(tree), str(file), "exec"), vars(module))

    def _mark(self, name: str, node: Any) -> None:
        """Outer blocks are walked before inner ones, whose lines are then theirs."""
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if not isinstance(statements, list) or not statements:
                continue
            made: list[ast.stmt] = []
            fresh = True
            for k, statement in enumerate(statements):
                text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
                if fresh and not (k == 0 and text):
                    target = ast.Subscript(ast.Name(NAME, ast.Load()), ast.Constant(self._count), ast.Store())
                    made.append(ast.copy_location(ast.Assign([target], ast.Constant(1)), statement))
                    self._count += 1
                    fresh = False
                made.append(statement)
                for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1):
                    self.of_line[name, line] = self._count - 1
                fresh = fresh or isinstance(statement, _LEAVING)
            statements[:] = made
            for statement in made:
                if isinstance(statement, _LEAVING):
                    self._mark(name, statement)
        for handler in getattr(node, "handlers", []):
            self._mark(name, handler)
        for case in getattr(node, "cases", []):
            self._mark(name, case)
