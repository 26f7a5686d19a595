"""What docstrings of public functions say: the errors of a user, and the units of numbers."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from catdiag import errors

PACKAGE = Path(errors.__file__).parent
# The kernel raises its own error, as each of its modules says once.
SOURCES = [path for path in sorted(PACKAGE.rglob("*.py")) if path.parent.name != "kernel"]

# The rooms whose floating-point numbers are quantities.
MEASURED = ("bounds", "chip", "cost", "measure", "planner", "runtime", "schedule", "simulate")
UNIT = re.compile(
    r"\b([Bb]ytes?|[Vv]alues?|elements?|[Ss]econds?|[Mm]illiseconds|ms|µs|clocks?|joules?|FLOPs?|operations?"
    r"|instructions?|registers?|ratio|fraction|share|part|relative|speedup|error|number|factor|times|how many)\b"
)
NAMED_UNIT = re.compile(
    r"(bytes|_b|_byte|seconds|_s|_ms|_us|clocks?|_hz|joules|watts?|flops|ratio|share|fraction|part|factor|count|speedup|times)$"
)


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def public_functions() -> Iterator[tuple[Path, ast.FunctionDef, str]]:
    """The public functions and methods, each with the docstring of its class."""
    for path in SOURCES:
        stack = [(tree(path).body, "")]
        while stack:
            body, outside = stack.pop()
            for node in body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    stack.append((node.body, ast.get_docstring(node) or ""))
                elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                    yield path, node, outside


def of_user(node: ast.Raise) -> bool:
    """Whether a statement raises one of the errors that users may catch."""
    made = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return isinstance(made, ast.Name) and made.id in errors.__all__


def place(path: Path, node: ast.AST, name: str) -> str:
    return f"{path.relative_to(PACKAGE.parent)}:{getattr(node, 'lineno', 0)}: {name}"


def test_public_functions_say_the_errors_that_they_raise() -> None:
    unsaid = [
        place(path, f, f.name)
        for path, f, _ in public_functions()
        if any(isinstance(n, ast.Raise) and of_user(n) for n in ast.walk(f))
        and not re.search(r"[Rr]aises|[Rr]efuse", ast.get_docstring(f) or "")
    ]
    assert not unsaid, "\n".join(unsaid)


def is_float(annotation: ast.expr | None) -> bool:
    return annotation is not None and re.search(r"\bfloat\b", ast.unparse(annotation)) is not None


def test_floating_point_quantities_have_units() -> None:
    """In the name (`_bytes`, `_seconds`, `_clocks`), or in the docstring of the function or its class."""
    unsaid = []
    for path, f, outside in public_functions():
        if path.relative_to(PACKAGE).parts[0] not in MEASURED:
            continue
        said = UNIT.search(f"{ast.get_docstring(f)} {outside}")
        scalar = f.returns is not None and ast.unparse(f.returns) in ("float", "float | None")
        names = [f.name] if scalar else []
        names += [a.arg for a in (*f.args.args, *f.args.kwonlyargs) if is_float(a.annotation)]
        unsaid += [place(path, f, f"{f.name}, {name}") for name in names if not said and not NAMED_UNIT.search(name)]
    assert not unsaid, "\n".join(unsaid)


def test_floating_point_fields_have_units() -> None:
    unsaid = []
    for path in (p for p in SOURCES if p.relative_to(PACKAGE).parts[0] in MEASURED):
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.ClassDef) or UNIT.search(ast.get_docstring(node) or ""):
                continue
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and is_float(field.annotation):
                    name = ast.unparse(field.target)
                    if not NAMED_UNIT.search(name):
                        unsaid.append(place(path, field, f"{node.name}, {name}"))
    assert not unsaid, "\n".join(unsaid)


def test_each_term_of_the_time_model_is_in_the_table_of_its_page() -> None:
    """A term is a public function of `planner/time_model`, with its unit in its name."""
    page = (PACKAGE.parent / "docs" / "explanation" / "time_model.md").read_text(encoding="utf-8")
    table = page[page.index("| term |") : page.index("\n\n", page.index("| term |"))]
    said = set(re.findall(r"`([a-z_0-9]+\.[a-z_0-9]+)`", table)) - {"planner.resources", "queueing.mean_value_analysis"}
    terms = {
        f"{path.stem}.{node.name}"
        for path in (PACKAGE / "planner" / "time_model").glob("*.py")
        for node in tree(path).body
        if isinstance(node, ast.FunctionDef) and re.search("(?<!^)_(seconds|bytes|ratio|instructions)$", node.name)
        if not node.name.startswith("_")
    }
    assert terms == said
