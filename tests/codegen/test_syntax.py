"""Programs as trees: read(print(tree)) = tree, up to parentheses, for expressions and for kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.codegen.kernel_tree import Assign, KernelFunction, Pass, Return, names_of, printed, walked
from catdiag.codegen.notation import associative, comparison, grouped, written
from catdiag.codegen.python_source import read_code
from catdiag.codegen.syntax import (
    AND,
    LEVELS,
    PLUS,
    TIMES,
    Logical,
    Name,
    Number,
    Parens,
    PythonExpression,
    Unary,
    bracketed,
    call,
    method,
)
from catdiag.codegen.triton.triton_module import module
from catdiag.runtime.abstract_interpreter.shared_memory import shared_of_launch, trace_of_launch
from catdiag.runtime.launch_recorder import record_launches


def bare(tree: Any) -> Any:
    """A tree without parentheses and comments."""
    if isinstance(tree, Parens):
        return bare(tree.of)
    if isinstance(tree, (list, tuple)):
        return tuple(bare(t) for t in tree if not isinstance(t, Pass))
    if is_dataclass(tree) and not isinstance(tree, type):
        return replace(tree, **{f.name: bare(getattr(tree, f.name)) for f in fields(tree) if f.compare})
    return tree


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> PythonExpression:
    """Expressions as the notations of kernels make them."""
    leaf = st.sampled_from([Name("a"), Name("b"), Number(3), Number(-2.5), Number(True), Number("inf")])
    if not depth or draw(st.booleans()):
        return draw(leaf)
    parts = draw(st.lists(expressions(depth=depth - 1), min_size=2, max_size=2))
    notation = draw(
        st.sampled_from([
            associative("+", PLUS), grouped("-", PLUS), associative("*", TIMES), grouped("/", TIMES),
            grouped("//", TIMES), associative("&", AND), comparison("<"), comparison("=="),
        ])
    )  # fmt: skip
    what = draw(st.sampled_from(("infix", "call", "method", "sign", "logical")))
    if what == "infix":
        return written(notation, parts)
    if what == "call":
        return call("tl.where", *parts, other=parts[0])
    if what == "method":
        return method(call("tl.load", parts[0]), "to", parts[1])
    if what == "sign":
        return Unary("-", call("tl.load", parts[0]))
    return Logical("and", tuple(bracketed(p, min(LEVELS.values())) for p in parts))


@settings(max_examples=60, deadline=None)
@given(expressions())
def test_what_is_printed_is_read_as_the_same_tree(tree: PythonExpression) -> None:
    (returned,) = read_code(f"def f():\n    return {tree}").functions["f"].body
    assert isinstance(returned, Return)
    assert bare(returned.value) == bare(tree)
    assert names_of([tree]) <= {"a", "b", "tl"}


PROGRAMS: dict[str, tuple[Any, dict[str, int], dict[str, int]]] = {
    "attention": (lambda: cd.library.get("attention").stream("x").group("q"), {"g_q": 128, "s_x": 64},
                  {"q": 300, "x": 300, "d": 64}),
    "skipped blocks": (lambda: cd.library.get("causal_attention").stream("x").group("q").skip("x"),
                       {"g_q": 128, "s_x": 64}, {"q": 512, "x": 512, "d": 64}),
    "split-K": (lambda: cd.library.get("attention").stream("x").split("x").group("q"),
                {"g_q": 64, "s_x": 64, "p_x": 2}, {"q": 256, "x": 512, "d": 64}),
    "matmul": (lambda: cd.library.get("matmul").stream("b").group("a c"), {"g_a": 96, "g_c": 128, "s_b": 32},
               {"a": 256, "b": 256, "c": 256}),
    "softmax": (lambda: cd.library.get("softmax").stream("x", passes=2).group("q"), {"g_q": 16, "g_x": 128, "s_x": 128},
                {"q": 100, "x": 1000}),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["bf16", "fp32", "fp8"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_kernels_are_read_as_the_trees_they_were_printed_from(program: str, dtype: str) -> None:
    make, tiles, sizes = PROGRAMS[program]
    made = module(make().diagram, tiles, dtype, stages=3, specialized=True)
    text = read_code(made.text)
    assert set(made.kernels) | set(made.specialized) <= set(made.code.functions)
    for name, function in made.code.functions.items():
        if name in made.specialized:
            assert bare(allocations(text.functions[name])) == bare(allocations(function))
        else:
            assert bare(text.functions[name]) == bare(function), name
    for generation in (8, 9):
        for launch in record_launches(made, sizes, generation=generation):
            assert shared_of_launch(text, launch, generation) == shared_of_launch(made.code, launch, generation)
            if launch.kernel in made.kernels:
                own, read = (trace_of_launch(code, launch, generation) for code in (made.code, text))
                assert (own.loads, own.stores) == (read.loads, read.stores)


def allocations(function: KernelFunction) -> Sequence[Assign]:
    """The assignments of a kernel outside of loops and conditions."""
    return [s for s in function.body if isinstance(s, Assign)]


def test_a_long_line_has_its_comment_above() -> None:
    short, long = Assign((Name("x"),), Name("y"), note="a note"), Assign((Name("x"),), Name("y" * 110), note="a note")
    assert printed([short, long, replace(long, beside=True)], 1) == [
        "    x = y  # a note",
        "    # a note",
        f"    x = {'y' * 110}",
        f"    x = {'y' * 110}  # a note",
    ]
    assert list(walked([short])) == [short]
