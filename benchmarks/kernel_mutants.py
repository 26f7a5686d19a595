"""Does a test fail for every side condition of the kernel? Each is taken out in turn, and the tests are run.

A mutant is the kernel with one check gone: an `if …: raise KernelError` that never raises, or one that lacks one of
the conditions that it joins by `or`; a call of `_require` that is not made; and, of the judgements, a `return` of a
condition that lacks one that it joins by `and`. Run from the repository, with the tests installed:

    python benchmarks/kernel_mutants.py [--module context] [--from 0] [--to 50] [--tests tests/kernel]

It prints the mutants that no test noticed, and how many were.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNEL = Path("catdiag") / "kernel"


def _raises(node: ast.If) -> bool:
    return len(node.body) == 1 and isinstance(node.body[0], ast.Raise)


def _without(parent: ast.BoolOp) -> Iterator[ast.expr]:
    for k in range(len(parent.values)):
        kept = [v for j, v in enumerate(parent.values) if j != k]
        yield kept[0] if len(kept) == 1 else ast.BoolOp(parent.op, kept)


def mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """The line, what is done there, and the source of each mutant of a module."""
    tree = ast.parse(source)
    places: list[tuple[int, str, ast.expr, ast.expr]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and _raises(node):
            places.append((node.lineno, "never raises", node.test, ast.Constant(False)))
            if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.Or):
                places += [(node.lineno, f"only {ast.unparse(t)[:70]}", node.test, t) for t in _without(node.test)]
        elif isinstance(node, ast.Expr) and ast.unparse(node).startswith("_require("):
            places.append((node.lineno, f"without {ast.unparse(node)[:70]}", node.value, ast.Constant(None)))
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.BoolOp) and isinstance(node.value.op, ast.And):
            value = node.value
            places += [(node.lineno, f"returns {ast.unparse(t)[:70]}", value, t) for t in _without(value)]
    for line, what, old, new in places:
        changed = copy.deepcopy(tree)
        for other, node in zip(ast.walk(changed), ast.walk(tree), strict=True):
            for name, value in ast.iter_fields(node):
                if value is old:
                    setattr(other, name, new)
        yield line, what, ast.unparse(ast.fix_missing_locations(changed))


def survives(folder: Path, module: Path, source: str, tests: list[str]) -> bool:
    """Whether the tests pass with another source for a module."""
    path = folder / module
    before = path.read_text()
    path.write_text(source)
    try:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *tests]
        environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=600, check=False)
        return run.returncode == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        path.write_text(before)


def main() -> int:
    """Runs the tests on every mutant asked for; exit status 1 where some survive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", action="append", help="a module of the kernel; all by default")
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--to", dest="last", type=int, default=10**6)
    parser.add_argument("--tests", action="append", help="what pytest is given; tests/kernel by default")
    parser.add_argument("--list", action="store_true", help="only list the mutants")
    options = parser.parse_args()
    modules = [f"{m}.py" for m in options.module] if options.module else None
    found = [
        (path.name, *mutant)
        for path in sorted((ROOT / KERNEL).glob("*.py"))
        if modules is None or path.name in modules
        for mutant in mutants(path.read_text())
    ][options.first : options.last]
    if options.list:
        for k, (name, line, what, _) in enumerate(found):
            print(f"{k}: {name}:{line}: {what}")
        return 0
    survivors = 0
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for part in ("catdiag", "tests"):
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        for k, (name, line, what, source) in enumerate(found):
            if survives(folder, KERNEL / name, source, options.tests or ["tests/kernel"]):
                survivors += 1
                print(f"NOT NOTICED {k}: {name}:{line}: {what}", flush=True)
            elif k % 20 == 0:
                print(f"… {k} of {len(found)}", flush=True)
    print(f"{len(found) - survivors} of {len(found)} mutants noticed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
