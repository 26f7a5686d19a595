"""How many lines of the kernel must be read: all lines of code, and those that the replay of one certificate runs."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import TypeVar

from catdiag import kernel

KERNEL = Path(str(kernel.__file__)).resolve().parent
_T = TypeVar("_T")


def code_lines(source: str) -> set[int]:
    """The line numbers of a Python source that are not blank, comments or docstrings.

    >>> sorted(code_lines('def f():\\n    \"\"\"Text.\"\"\"\\n\\n    return [  # a list\\n        1,\\n    ]\\n'))
    [1, 4, 5, 6]
    """
    found: set[int] = set()
    quiet = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in quiet:
            found.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        # also the docstrings of constants
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found


@dataclass(frozen=True)
class KernelFile:
    """A file of the kernel: its lines of code, and the lines of each of its functions."""

    code: frozenset[int]
    functions: tuple[range, ...]

    def read_for(self, entered: set[int]) -> int:
        """The lines of code of the functions that begin at these lines, in full, and all lines outside of functions."""
        inside = {line for function in self.functions for line in function}
        whole = {line for f in self.functions if any(line in f for line in entered) for line in f}
        return len(self.code & whole) + len(self.code - inside) if entered else 0


def kernel_files() -> dict[str, KernelFile]:
    """The kernel's files by name, in reading order."""
    found = {}
    for name in (name for part in kernel.READING_ORDER.values() for name in part):
        source = (KERNEL / f"{name}.py").read_text(encoding="utf-8")
        functions = [n for n in ast.walk(ast.parse(source)) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
        spans = tuple(
            range(min([f.lineno, *(d.lineno for d in f.decorator_list)]), (f.end_lineno or f.lineno) + 1)
            for f in functions
        )
        found[name] = KernelFile(frozenset(code_lines(source)), spans)
    return found


def traced(work: Callable[[], _T]) -> tuple[_T, Mapping[str, set[int]], set[CodeType]]:
    """The result of a function call, the first lines of the kernel functions that it entered, by file, and their
    code."""
    entered: dict[str, set[int]] = defaultdict(set)
    codes: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            codes.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        result = work()
    finally:
        sys.setprofile(before)
    for code in codes:
        path = Path(code.co_filename)
        if path.parent == KERNEL:
            entered[path.stem].add(code.co_firstlineno)
    return result, entered, codes
