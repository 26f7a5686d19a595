"""How the house is built: which room may use which, what imports load, and which words stay outside."""

from __future__ import annotations

import ast
import functools
import graphlib
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "catdiag"

# A room uses itself and those named before it, for types and inside functions too.
ROOMS = [
    "util", "kernel", "solvers", "category", "chip", "frontend", "importers", "library", "schedule", "execute",
    "prover", "rewrite", "simulate", "optimum", "cost", "bounds", "codegen", "runtime", "planner", "testing",
    "measure", "draw", "program", "integrations", "constructors",
    "nn", "errors", "cli", "__main__",
]  # fmt: skip
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


def inside(name: str) -> bool:
    return name.split(".")[0] == "catdiag"


def body_lines(function: ast.FunctionDef) -> int:
    """The lines of a function, its docstring aside."""
    first, last = function.body[0], function.body[-1]
    documented = ast.get_docstring(function, clean=False) is not None
    said = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return (last.end_lineno or 0) - function.lineno + 1 - said


@functools.cache
def texts_of(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a node of this type that hold a name."""
    return tuple(f for f in ("id", "attr", "name", "asname", "arg", "module") if f in kind._fields)


@functools.cache
def operator_in(text: str, softmax: bool) -> str:
    """A word for an operator of the library in a text; `softmax` says that this word may be there."""
    found = WORDS.search(text.replace("softmax", "") if softmax else text)
    return found.group() if found else ""


# Operations without bodies: where an algorithm descends into bodies it tells the nesting ones apart.
FLAT_OPERATIONS = {"Map", "Reduce", "Einsum", "Rename", "Reindex", "View", "Index", "SizeOf", "Const", "Generic"}


def classes_told_apart(function: ast.FunctionDef) -> dict[str, set[str]]:
    """For each expression of which a function asks the class, the operations without bodies that it names."""
    found: dict[str, set[str]] = {}
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef):
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            named = {getattr(n, "id", getattr(n, "attr", "")) for n in ast.walk(node.args[1])}
            found.setdefault(ast.unparse(node.args[0]), set()).update(named & FLAT_OPERATIONS)
        elif isinstance(node, ast.match_case):
            kinds = [n.cls for n in ast.walk(node.pattern) if isinstance(n, ast.MatchClass)]
            named = {getattr(n, "id", getattr(n, "attr", "")) for n in kinds}
            found.setdefault("match", set()).update(named & FLAT_OPERATIONS)
        todo += ast.iter_child_nodes(node)
    return found


class Facts:
    """What the tests ask of a module's source: it is parsed once, and no tree is kept.

    `imports` are the modules that it imports, wherever it does, and the lines; `named` those of the package, with the
    ones that a text names to import them later; `private` the private names that it imports; `classes` those that it
    defines; `functions` the name, the line, the lines without docstring and the number of parameters of each function;
    `told_apart` the functions that ask whether one box is of this operation or of that, both without bodies;
    `operators` the words for operators of the library that its code says; `parses` where it parses or runs text; `code`
    the number and the text of each line but those of imports, docstrings, comments, signatures and brackets alone.
    """

    def __init__(self, module: str) -> None:
        source = SOURCES[module].read_text(encoding="utf-8")
        tree = ast.parse(source)
        passed = set[int]()
        self.imports: list[tuple[str, int]] = []
        self.named: list[tuple[str, int]] = []
        self.private: list[tuple[str, int]] = []
        self.operators: list[tuple[str, int]] = []
        self.functions: list[tuple[str, int, int, int]] = []
        self.told_apart: list[tuple[str, int]] = []
        self.parses: list[int] = []
        self.classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
        # Prose may say what was measured and by whom it was written.
        prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if isinstance(node, ast.Import | ast.ImportFrom) or text:
                passed |= set(range(node.lineno, node.end_lineno + 1))
            if isinstance(node, ast.Import):
                self.imports += [(alias.name, node.lineno) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0 and node.module, f"{module}:{node.lineno}: imports are absolute"
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    self.imports.append((inner if inner in SOURCES else node.module, node.lineno))
                    if inside(node.module) and re.match(r"_(?!_)", alias.name):
                        self.private.append((alias.name, node.lineno))
            elif isinstance(node, ast.Constant) and node.value in SOURCES and node.value != FACE:
                self.named.append((node.value, node.lineno))
            elif isinstance(node, ast.FunctionDef):
                given = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
                self.functions.append((node.name, node.lineno, body_lines(node), len(given)))
                passed |= set(range(node.lineno, node.body[0].lineno))
                if any(len(kinds) > 1 for kinds in classes_told_apart(node).values()):
                    self.told_apart.append((node.name, node.lineno))
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("exec", "eval", "ast.parse"):
                self.parses.append(node.lineno)
            texts = [getattr(node, field) for field in texts_of(type(node))]
            if isinstance(node, ast.Constant) and id(node) not in prose:
                texts.append(node.value)
            for text in texts:
                if isinstance(text, str) and (found := operator_in(text, module in SOFTMAX)):
                    self.operators.append((found, getattr(node, "lineno", 0)))
        self.named += [(name, line) for name, line in self.imports if inside(name)]
        lines = [(n, text.strip()) for n, text in enumerate(source.splitlines(), 1) if n not in passed]
        self.code = [(n, text) for n, text in lines if text.strip("()[]{},") and not text.startswith("#")]


facts = functools.cache(Facts)


def modules_in(*rooms: str) -> list[str]:
    return [module for module in SOURCES if room_of(module) in rooms]


def test_every_module_has_a_room() -> None:
    assert {room_of(module) for module in SOURCES} - {FACE} <= set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_imports_point_one_way(room: str) -> None:
    for module in modules_in(room):
        for name, line in facts(module).named:
            assert name != FACE, f"{module}:{line} imports the package's face"
            assert ROOMS.index(room_of(name)) <= ROOMS.index(room), f"{module}:{line} imports {name}"


def test_files_import_each_other_in_no_circle() -> None:
    uses = {m: {name for name, _ in facts(m).named if name in SOURCES and name != m} for m in SOURCES if m != FACE}
    sorter: graphlib.TopologicalSorter[str] = graphlib.TopologicalSorter()
    for module, used in uses.items():
        sorter.add(module, *(u for u in used if u != FACE))
    sorter.prepare()  # raises CycleError, with the circle


def test_the_kernel_stands_alone() -> None:
    for module in modules_in("kernel"):
        for name, line in facts(module).imports:
            alone = room_of(name) == "kernel" if inside(name) else name.split(".")[0] in sys.stdlib_module_names
            assert alone, f"{module}:{line} imports {name}"


def test_checking_needs_no_prover_even_for_types() -> None:
    for module in modules_in("kernel", "solvers"):
        used = {room_of(name) for name, _ in facts(module).imports if inside(name)}
        assert used <= {"kernel", "solvers"}, f"{module} imports of {used}"


# Importers and integrations know the names that other libraries have.
@pytest.mark.parametrize("room", [FACE, *(r for r in ROOMS if r not in ("library", "importers", "integrations"))])
def test_no_code_outside_the_library_knows_an_operator(room: str) -> None:
    for module in modules_in(room):
        for word, line in facts(module).operators:
            pytest.fail(f"{module}:{line} says {word!r}")


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, catdiag; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not HEAVY & {name.split(".")[0] for name in loaded}


def test_no_private_name_is_shared_between_modules() -> None:
    for module in SOURCES:
        for name, line in facts(module).private:
            pytest.fail(f"{module}:{line} imports {name}")


# The lines of a file and of a function, its docstring aside, and its parameters. Each exception has its reason.
MOST_LINES, MOST_BODY_LINES, MOST_PARAMETERS = 500, 60, 10
LONG_FILES = {
    "catdiag.kernel.context": "one class, whose judgments call each other; in one place for who reviews them",
    "catdiag.kernel.terms": "the terms, one class and its constructors; in one place for who reviews them",
    "catdiag.program": "the class that users meet: each method is a docstring and a call into a room",
}
MANY_PARAMETERS = {
    "catdiag.measure.bench_case.case_of": "fields of a benchmark case, by keyword",
    "catdiag.planner.partition.searching": "options of a plan, by keyword",
    "catdiag.measure.profile.expected_counters.point_of": "options of a launch, by keyword",
    "catdiag.simulate.multi_level_machine.count_levels": "options of a run, by keyword: those of its formulas",
    "catdiag.testing.assert_counts.assert_counts_match": "options of a test, by keyword: what it does not draw",
    "catdiag.testing.assert_kernel.assert_implements": "options of a test, by keyword: how a kernel rounds",
}


def test_files_are_short() -> None:
    long = {module: n for module, path in SOURCES.items() if (n := len(path.read_bytes().splitlines())) > MOST_LINES}
    assert long.keys() <= LONG_FILES.keys(), f"files of more than {MOST_LINES} lines: {long}"


def test_functions_are_short_and_take_few_parameters() -> None:
    for module in SOURCES:
        for name, line, lines, parameters in facts(module).functions:
            assert lines <= MOST_BODY_LINES, f"{module}:{line}: {name} has {lines} lines"
            few = parameters <= MOST_PARAMETERS or f"{module}.{name}" in MANY_PARAMETERS
            assert few, f"{module}:{line}: {name} has {parameters} parameters"


# What an operation means to a reading is a row of a table (`tests/test_every_op_is_in_every_table.py`), and a function
# tells no two operations apart. Exceptions follow wires through a graph, or match a form made of several boxes.
FOLLOWS = "it follows wires through boxes of these operations"
MATCHES = "it matches a form that these operations make together"
TELLS_APART = {
    "bounds.reuse._of_box": MATCHES,
    "bounds.reuse._outer": MATCHES,
    "codegen.torch_reference._slicewise": "one exception each from what is read off tables",
    "codegen.triton.opaque_call.opaque_call": MATCHES,
    "codegen.triton.product_call.plain_product": MATCHES,
    "draw.string_diagram.sheets.sheet": MATCHES,
    "execute.size_inference._views": FOLLOWS,
    "planner.resources.dot_products._box": FOLLOWS,
    "rewrite.canonicalize._opens": FOLLOWS,
    "rewrite.distribute._grows": FOLLOWS,
    "rewrite.group._outside": FOLLOWS,
    "rewrite.group_views.constant": FOLLOWS,
    "rewrite.group_views.filled": MATCHES,
    "rewrite.matching.unify._checked": MATCHES,
    "rewrite.merge_axes._in_memory": FOLLOWS,
    "rewrite.merge_axes._merged": FOLLOWS,
    "rewrite.skip._positions": FOLLOWS,
    "rewrite.stream.cascade._is_view": MATCHES,
    "rewrite.stream.hoisting.moved_out": FOLLOWS,
    "rewrite.stream.selection_repair._with": FOLLOWS,
    "rewrite.stream.user_fold._ends": FOLLOWS,
    "rewrite.stream.user_fold.with_positions": FOLLOWS,
    "rewrite.stream.user_fold_state._of_elements": MATCHES,
    "schedule.gathers._read_by": FOLLOWS,
}


def test_operations_are_told_apart_by_tables() -> None:
    found = {
        f"{m}.{name}".removeprefix("catdiag."): f"{m}:{line}" for m in SOURCES for name, line in facts(m).told_apart
    }
    assert found.keys() <= TELLS_APART.keys(), {found[name] for name in found.keys() - TELLS_APART.keys()}
    assert TELLS_APART.keys() <= found.keys(), f"no exception any more: {TELLS_APART.keys() - found.keys()}"


# Nothing is printed to be parsed: what is read as Python was written by somebody else, or is run as it was generated.
PARSES = {
    "cli": "it runs no text: Python counts an interrupt as handled",
    "cli.kernel_lines": "the user's file",
    "cli.operator_loading": "the user's file",
    "codegen.torch_reference": "a reference implementation, to be run",
    "prover.certification": "assumptions as users write them",
    "prover.hypotheses": "assumptions as users write them",
    "runtime.launch_recorder": "the launch function of a generated module, to be run",
    "runtime.module_cache": "a generated module, to be run",
    "util.python_syntax": "kernels of other people",
}


def test_nothing_is_printed_to_be_parsed() -> None:
    found = {module.removeprefix("catdiag.") for module in SOURCES if facts(module).parses}
    assert found == PARSES.keys()


def test_no_six_lines_of_code_stand_in_two_places() -> None:
    places: dict[tuple[str, ...], str] = {}
    for module in SOURCES:
        code = facts(module).code
        for at in range(len(code) - 5):
            here = f"{module}:{code[at][0]}"
            first = places.setdefault(tuple(text for _, text in code[at : at + 6]), here)
            assert first == here, f"what stands at {first} stands at {here} too"


ROOT = PACKAGE.parent
PROSE = [
    path
    for folder in ("catdiag", "docs", "benchmarks", "examples", "proofs", "tests")
    for kind in ("py", "md", "toml", "json")
    for path in sorted((ROOT / folder).rglob(f"*.{kind}"))
    if not {"golden", "api", "_build"} & set(path.parts)
] + sorted(ROOT.glob("*.md"))
# What is before a name is looked at after its first letters, which a search finds quickly.
DOTTED = re.compile(r"catdiag(?<![\w./-]catdiag)(?:\.[A-Za-z_]\w*)+")
FILES = [
    re.compile(rf"{top}/(?<![\w./-]{top}/)[\w./]*\w\.(?:py|toml|json)\b")
    for top in ("catdiag", "tests", "benchmarks", "proofs")
]
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
        for name in facts(module).classes:
            homes.setdefault(name, []).append(module)
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
        files = {(m.start(), m[0]) for kind in FILES for m in kind.finditer(text) if m[0] not in NOT_THERE}
        names |= {(place, name) for place, name in files if not (ROOT / name).exists()}
        alone = {(m.start(), m[1]) for m in ALONE.finditer(text)}
        names |= {(place, name) for place, name in alone if name not in files_there | NOT_THERE}
        for at, name in sorted(names):
            wrong.append(f"{path.relative_to(ROOT)}:{text[:at].count(chr(10)) + 1}: {name}")
    assert not wrong, "\n".join(wrong)
