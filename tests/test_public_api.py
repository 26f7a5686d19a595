"""What users find by `help`: each public name says what it is, names its arguments and shows an example."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import pytest

import catdiag as cd
from catdiag.planner.multi_kernel_plan import Plan

# Modules whose names are public, and the classes whose methods are.
FACES = ["catdiag", "catdiag.nn", "catdiag.testing", "catdiag.library", "catdiag.category"]
CLASSES = [cd.Program, Plan]

# Examples that are shown and not run, and why.
NOT_RUN = {
    "catdiag.compile": "needs PyTorch",
    "catdiag.from_jax": "needs JAX",
    "catdiag.from_onnx": "needs ONNX",
    "catdiag.from_torch": "needs PyTorch",
    "catdiag.testing.assert_compiled": "needs a GPU",
    "Plan.compile": "needs a GPU",
    "Plan.made_of": "needs a GPU",
}
# Types whose own page shows them in use.
SHOWN_ELSEWHERE = {
    "catdiag.category.ArrayType": "the example of catdiag.category.types",
    "catdiag.category.Diagram": "the example of catdiag.category.diagram",
    "catdiag.category.Node": "the example of catdiag.category.graph",
}


def public() -> Iterator[tuple[str, Any]]:
    """The functions and classes by name. Properties, numbers and errors only have to say what they are."""
    for face in map(importlib.import_module, FACES):
        for name in face.__all__:
            found = getattr(face, name)
            if not isinstance(found, (ModuleType, float)):
                yield f"{face.__name__}.{name}", found
    for of in CLASSES:
        for name, found in vars(of).items():
            if not name.startswith("_") and isinstance(found, (staticmethod, FunctionType)):
                yield f"{of.__name__}.{name}", getattr(of, name)


PUBLIC = dict(public())


def example(text: str) -> bool:
    """Whether a docstring has code: lines that are run, or an indented block that parses."""
    blocks = re.findall(r"(?:^    .+\n?)+", text, re.MULTILINE)
    return ">>> " in text or any(parses(inspect.cleandoc(block)) for block in blocks)


def parses(block: str) -> bool:
    try:
        return any(isinstance(node, ast.Call) for node in ast.walk(ast.parse(block)))
    except SyntaxError:
        return False


def test_what_counts_as_an_example() -> None:
    assert example("One.\n\n>>> f(1)\n2\n") and example("One:\n\n    y = f(1)\n")
    assert not example("One:\n\n    words that are no code\n") and not example("One.\n\n    name\n")


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_says_what_it_is_and_shows_an_example(name: str) -> None:
    text = inspect.getdoc(PUBLIC[name]) or ""
    assert text, f"{name} has no docstring"
    if name not in SHOWN_ELSEWHERE:
        assert example(text), f"{name} shows no example"
        assert (">>> " in text) != (name in NOT_RUN), f"{name}: the example is run, or NOT_RUN says why it is not"


@pytest.mark.parametrize("name", [name for name, found in PUBLIC.items() if not inspect.isclass(found)])
def test_a_public_function_says_what_its_arguments_are(name: str) -> None:
    text = inspect.getdoc(PUBLIC[name]) or ""
    takes = [p for p in inspect.signature(PUBLIC[name]).parameters if p not in ("self", "cls")]
    assert not [p for p in takes if not re.search(rf"\b{p}\b", text)], f"{name} says nothing of these arguments"


@pytest.mark.parametrize("of", [*CLASSES, cd.errors], ids=lambda of: of.__name__)
def test_properties_and_errors_say_what_they_are(of: Any) -> None:
    inside = vars(of).items()
    assert not [name for name, found in inside if not name.startswith("_") and not isinstance(found, ModuleType)
                and callable(getattr(found, "fget", found)) and not inspect.getdoc(found)]  # fmt: skip


def test_what_is_excepted_is_public() -> None:
    assert {*NOT_RUN, *SHOWN_ELSEWHERE} <= set(PUBLIC)
