"""How the house is built: which room may use which, what imports load, and which words stay outside."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "catdiag"

# Each room stands on those in rows above it, and on those named after it in its own row.
ROWS: tuple[dict[str, str], ...] = (
    {"display": "", "errors": "", "files": "", "kernel": ""},
    {"types": "", "solvers": "", "views": "types", "tasks": ""},
    {"boxes": "", "graph": "boxes", "diagram": "boxes graph constants", "constants": "diagram", "signature": ""},
    {
        "flatten": "",
        "isomorphism": "",
        "interpret": "",
        "position": "",
        "in_place": "",
        "partial": "interpret",
        "lookups": "",
        "statistics": "",
        "substitute": "",
        "evaluate": "",
    },
    {
        "trace": "",
        "calls": "trace",
        "scalars": "trace",
        "structure": "trace",
        "indexing": "trace structure",
        "build": "trace scalars",
        "functions": "trace scalars build",
        "run": "trace calls",
        "cost": "",
    },
    {"prove": ""},
    {"rewrite": ""},
    {"emit": ""},
    {"draw": ""},
    {"library": ""},
    {"gpu": ""},
    {"testing": ""},
    {"sweeps": "", "program": ""},
    {"makers": ""},
    {"cli": ""},
)
ROW = {room: number for number, row in enumerate(ROWS) for room in row}
# Beside: a diagram's own methods, thin, which import what they call when they are called.
THIN = {
    "diagram": "flatten isomorphism substitute interpret",
    "rewrite": "gpu",
    "cost": "gpu",
}
# The package's face names what it re-exports.
FACE = "catdiag"

HEAVY = {"numpy", "sympy", "z3"}
# The builder has it as a named diagram; random programs use it.
SOFTMAX = {
    FACE,
    "catdiag.frontend.builder",
    "catdiag.frontend.nn",
    "catdiag.testing.strategies.diagram_strategies",
    "catdiag.testing.strategies.kernel_programs",
}
WORDS = re.compile(r"attention|softmax|flash|layer_?norm|welford", re.IGNORECASE)


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def room_of(module: str) -> str:
    """The room of a module: `catdiag.cost.traffic` is in `cost`, and `catdiag.category.types` is its own."""
    return module.split(".")[1] if "." in module else module


@functools.lru_cache(maxsize=1)
def tree_of(module: str) -> ast.Module:
    """The syntax tree of a module: the last one that was asked for is kept."""
    return ast.parse(SOURCES[module].read_text(encoding="utf-8"))


def imports(module: str) -> Iterator[tuple[str, bool, int]]:
    """What a module imports: the module, whether only when called or for types, and the line."""
    tree = tree_of(module)
    outermost = set(map(id, tree.body))
    for node in ast.walk(tree):
        now = id(node) in outermost
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, not now, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{module}:{node.lineno}: imports are absolute"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield (inner if inner in SOURCES else node.module), not now, node.lineno


def inside(name: str) -> bool:
    return name.split(".")[0] == "catdiag"


def only_for_types(module: str) -> set[int]:
    """The lines under `if TYPE_CHECKING`."""
    tree = tree_of(module)
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            found.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found


def test_every_module_has_a_room() -> None:
    assert {room_of(module) for module in SOURCES} - {FACE} == set(ROW)


@pytest.mark.parametrize("module", [m for m in SOURCES if m != FACE])
def test_imports_point_one_way(module: str) -> None:
    room, types = room_of(module), only_for_types(module)
    allowed = {room, *(r for r in ROW if ROW[r] < ROW[room]), *ROWS[ROW[room]][room].split()}
    for name, later, line in imports(module):
        if not inside(name) or line in types:
            continue
        known = allowed | set(THIN.get(room, "").split()) if later else allowed
        assert room_of(name) in known, f"{module}:{line} imports {name}"


@pytest.mark.parametrize("module", [m for m in SOURCES if room_of(m) == "kernel"])
def test_the_kernel_stands_alone(module: str) -> None:
    for name, _, line in imports(module):
        alone = room_of(name) == "kernel" if inside(name) else name.split(".")[0] in sys.stdlib_module_names
        assert alone, f"{module}:{line} imports {name}"


@pytest.mark.parametrize("module", [m for m in SOURCES if room_of(m) in ("kernel", "solvers")])
def test_checking_needs_no_prover_even_for_types(module: str) -> None:
    assert {room_of(name) for name, _, _ in imports(module) if inside(name)} <= {"kernel", "solvers"}


def said(module: str) -> Iterator[tuple[str, int]]:
    """The names and texts of a module's code; prose may say what was measured and by whom it was written."""
    tree = tree_of(module)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value, node.lineno
        for field in ("id", "attr", "name", "asname", "arg", "module"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                yield value, getattr(node, "lineno", 0)


@pytest.mark.parametrize("module", [m for m in SOURCES if room_of(m) != "library"])
def test_no_code_outside_the_library_knows_an_operator(module: str) -> None:
    for text, line in said(module):
        found = WORDS.search(text.replace("softmax", "") if module in SOFTMAX else text)
        assert found is None, f"{module}:{line} says {found.group()!r}"


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, catdiag; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not HEAVY & {name.split(".")[0] for name in loaded}


def test_no_private_name_is_shared_between_modules() -> None:
    for module in SOURCES:
        for node in ast.walk(tree_of(module)):
            if isinstance(node, ast.ImportFrom) and node.module and inside(node.module):
                private = [a.name for a in node.names if a.name.startswith("_") and not a.name.startswith("__")]
                assert not private, f"{module}:{node.lineno} imports {', '.join(private)}"
