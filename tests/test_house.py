"""How the house is built: which room may use which, what imports load, and which words stay outside."""

from __future__ import annotations

import ast
import functools
import graphlib
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "catdiag"

# A room uses itself and those named before it, for types and inside functions too.
ROOMS = [
    "util", "kernel", "solvers", "category", "chip", "frontend", "importers", "library", "schedule", "execute",
    "prover", "rewrite", "simulate", "optimum", "cost", "bounds", "codegen", "runtime", "planner", "testing",
    "measure", "draw", "program", "integrations", "constructors",
    "nn", "errors", "cli",
]  # fmt: skip
# The only room whose files may import each other in a circle: a diagram, its graph, its boxes and its functors.
CIRCLES = "category"
# The package's face names what it re-exports.
FACE = "catdiag"

HEAVY = {"numpy", "sympy", "z3"}
# The builder has it as a named diagram; random programs use it.
SOFTMAX = {
    FACE,
    "catdiag.frontend.builder",
    "catdiag.frontend.nn",
    "catdiag.nn",
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


@functools.cache
def imports(module: str) -> tuple[tuple[str, int], ...]:
    """The modules that a module imports, wherever it does, and the lines."""
    found = []
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{module}:{node.lineno}: imports are absolute"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.append((inner if inner in SOURCES else node.module, node.lineno))
    return tuple(found)


def inside(name: str) -> bool:
    return name.split(".")[0] == "catdiag"


@functools.cache
def named(module: str) -> tuple[tuple[str, int], ...]:
    """The modules of the package that a module imports, wherever it does, or names in a text to import it later."""
    found = [(name, line) for name, line in imports(module) if inside(name)]
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Constant) and node.value in SOURCES and node.value != FACE:
            found.append((node.value, node.lineno))
    return tuple(found)


def test_every_module_has_a_room() -> None:
    assert {room_of(module) for module in SOURCES} - {FACE} <= set(ROOMS)


@pytest.mark.parametrize("module", [m for m in SOURCES if m != FACE])
def test_imports_point_one_way(module: str) -> None:
    for name, line in named(module):
        assert name != FACE, f"{module}:{line} imports the package's face"
        assert ROOMS.index(room_of(name)) <= ROOMS.index(room_of(module)), f"{module}:{line} imports {name}"


def test_files_import_each_other_in_no_circle() -> None:
    uses = {m: {name for name, _ in named(m) if name in SOURCES and name != m} for m in SOURCES if m != FACE}
    sorter: graphlib.TopologicalSorter[str] = graphlib.TopologicalSorter()
    for module, used in uses.items():
        both = room_of(module) == CIRCLES
        sorter.add(module, *(u for u in used if u != FACE and not (both and room_of(u) == CIRCLES)))
    sorter.prepare()  # raises CycleError, with the circle


@pytest.mark.parametrize("module", [m for m in SOURCES if room_of(m) == "kernel"])
def test_the_kernel_stands_alone(module: str) -> None:
    for name, line in imports(module):
        alone = room_of(name) == "kernel" if inside(name) else name.split(".")[0] in sys.stdlib_module_names
        assert alone, f"{module}:{line} imports {name}"


@pytest.mark.parametrize("module", [m for m in SOURCES if room_of(m) in ("kernel", "solvers")])
def test_checking_needs_no_prover_even_for_types(module: str) -> None:
    assert {room_of(name) for name, _ in imports(module) if inside(name)} <= {"kernel", "solvers"}


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


ROOT = PACKAGE.parent
PROSE = [
    path
    for folder in ("catdiag", "docs", "benchmarks", "examples", "proofs", "tests")
    for kind in ("py", "md", "toml", "json")
    for path in sorted((ROOT / folder).rglob(f"*.{kind}"))
    if not {"golden", "api", "_build"} & set(path.parts)
] + sorted(ROOT.glob("*.md"))
DOTTED = re.compile(r"(?<![\w./-])catdiag(?:\.[A-Za-z_]\w*)+")
FILES = re.compile(r"(?<![\w./-])(?:catdiag|tests|benchmarks|proofs)/[\w./]*\w\.(?:py|toml|json)\b")
ALONE = re.compile(r"`([a-z]\w*\.py)`")
# Written in tests as what is not there, or as any file; and the user's own.
NOT_THERE = {"catdiag.part", "tests/kernel/F.py", "kernel.py", "reference.py"}


@functools.cache
def there(dotted: str) -> bool:
    """Whether a dotted name is one of the package, or of what is in it."""
    parts = dotted.split(".")
    known = max(n for n in range(1, len(parts) + 1) if n == 1 or ".".join(parts[:n]) in SOURCES)
    found: object = importlib.import_module(".".join(parts[:known]))
    for name in parts[known:]:
        if not hasattr(found, name):
            return False
        found = getattr(found, name)
    return True


def test_no_class_name_stands_for_two_things() -> None:
    homes: dict[str, list[str]] = {}
    for module in SOURCES:
        for node in tree_of(module).body:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(module)
    twice = {name: modules for name, modules in homes.items() if len(modules) > 1}
    assert not twice, f"a class name stands for one thing: {twice}"


# Faces of the package that give what a room below defines.
FACES = {"__init__", "__main__", "nn", "errors"}


def test_no_file_name_stands_for_two_things() -> None:
    homes: dict[str, list[str]] = {}
    for module, path in SOURCES.items():
        homes.setdefault(path.stem, []).append(module)
    twice = {stem: modules for stem, modules in homes.items() if len(modules) > 1 and stem not in FACES}
    assert not twice, f"a file name stands for one thing: {twice}"


def test_the_modules_and_files_that_texts_name_exist() -> None:
    """In docstrings, messages, pages, and the data that commands print."""
    wrong = []
    files_there = {path.name for path in PROSE}
    for path in PROSE:
        text = path.read_text(encoding="utf-8")
        names = {(m.start(), m[0]) for m in DOTTED.finditer(text) if m[0] not in NOT_THERE and not there(m[0])}
        files = {(m.start(), m[0]) for m in FILES.finditer(text) if m[0] not in NOT_THERE}
        names |= {(place, name) for place, name in files if not (ROOT / name).exists()}
        alone = {(m.start(), m[1]) for m in ALONE.finditer(text)}
        names |= {(place, name) for place, name in alone if name not in files_there | NOT_THERE}
        for at, name in sorted(names):
            wrong.append(f"{path.relative_to(ROOT)}:{text[:at].count(chr(10)) + 1}: {name}")
    assert not wrong, "\n".join(wrong)
