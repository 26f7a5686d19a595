"""The printed source of a program, executed, is the program again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.types import Size
from catdiag.codegen.algorithm_source import algorithm_source
from catdiag.frontend.signature import parse_axes


def executed(source: str) -> cd.Program:
    """The program that a source defines last."""
    found: dict[str, Any] = {}
    exec(compile(source, "<source>", "exec"), found)
    return [value for value in found.values() if isinstance(value, cd.Program)][-1]


@pytest.mark.parametrize("name", cd.library.names())
def test_operators_of_the_library(name: str) -> None:
    program = cd.library.get(name)
    again = executed(algorithm_source(program.diagram))
    assert (again.dom, again.cod, again.names) == (program.dom, program.cod, program.names)
    # What weaving puts first, an expression has where its operands have it.
    layouts = {"average_pool", "causal_grouped_query_attention", "multi_head_alibi_attention"}
    assert (again == program) == (name not in layouts)


def test_another_layout_means_the_same() -> None:
    program = cd.library.get("multi_head_alibi_attention")
    arrays = [np.random.default_rng(k).normal(size=s) for k, s in enumerate([(2, 3, 4), (2, 5, 4), (2, 5, 4), (2,)])]
    np.testing.assert_array_equal(executed(program.code("algorithm")).run(*arrays), program.run(*arrays))


def test_of_a_derived_program_the_source_is_printed() -> None:
    program = cd.library.get("attention")
    assert program.stream("x").group("q").code("algorithm") == program.code("algorithm")


@cd.algorithm("x y, int[x], bool[u=x (k g)] -> (k g) x 1, z=((x+1)*2), int[]")
def everything(a, i, m):  # type: ignore[no-untyped-def]
    first = cd.rearrange(m, "u (k g) -> u k g").rename(u="x")
    padded = cd.reindex(a, "z=((x+1)*2) y", x=lambda z: z // 2 - 1, fill=0.1)
    total = cd.sum(padded * (1 - (2 - cd.index("y"))), "y") / 3
    return (
        cd.rearrange(cd.where(first, cd.cast(cd.max(a, "y"), "bf16"), -0.5), "x k g -> (k g) x 1"),
        total,
        cd.max(i // 2 + i % 3, "x"),
    )


def test_reads_reshapes_casts_and_constants() -> None:
    again = executed(everything.code("algorithm"))
    assert again == everything
    assert "z=((x+1)*2)" in everything.code("algorithm")


def test_sizes_of_axes_stand_where_they_are_read_first() -> None:
    def parts(a):  # type: ignore[no-untyped-def]
        first = cd.index("k=2") < 1
        second = cd.reindex(a, "h k=2", x=lambda h, k: 2 * h + k)
        return cd.where(first, cd.max(second, "k"), second)

    made = cd.algorithm("x q=(1+(h*w)), h w -> h k=2, q=(1+(h*w))", name="made")(
        lambda a, b: (parts(cd.sum(a, "q")) * cd.sum(b, "w"), cd.sum(a, "x"))
    )
    assert executed(made.code("algorithm")) == made


def test_a_function_inside_is_a_function_before() -> None:
    norm = cd.algorithm("x -> x", name="norm")(lambda a: a / cd.sqrt(cd.sum(a * a, "x")))
    twice = cd.algorithm("x -> x", name="twice")(lambda a: norm(norm(a) + 1))
    text = twice.code("algorithm")
    assert text.count("def norm(a):") == 1
    assert executed(text) == twice


def test_fractions_are_exact() -> None:
    from fractions import Fraction

    third = cd.algorithm("x", name="third")(lambda a: a * Fraction(1, 3) + 0.1)
    assert executed(third.code("algorithm")) == third


def test_integers_that_stand_alone_stay_integers() -> None:
    @cd.algorithm("x, z -> x, int[], int[y=3]")
    def rows(a, table):  # type: ignore[no-untyped-def]
        first = cd.integer(7) // 2 - 3
        chosen = cd.where(a < 0, cd.integer(1), 0) + first
        return cd.gather(table, "z", chosen), cd.integer(2), cd.broadcast(cd.integer(5), "y=3")

    again = executed(rows.code("algorithm"))
    assert again == rows and "int" in str(again.cod)


@pytest.mark.parametrize("value", [1.0, True, "1"])
def test_what_is_no_integer_is_named(value: object) -> None:
    with pytest.raises(cd.errors.TypeMismatch, match="takes an integer, not"):
        cd.algorithm("x")(lambda a: a * cd.integer(value))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("cd.where(A < 3, A, 2)", "cd.where(A < 3, A, 2)"),
        ("cd.where(cd.index('q') == 3.0, A, 2)", 'cd.where(cd.index("q") == 3, A, 2)'),
        ("A / 2", "A / 2"),
        ("cd.size('q') / 4 * A", 'cd.size("q") / 4 * A'),
        ("A * 2.0", "A * 2.0"),  # without the point, a product of integers
        ("cd.maximum(A, 2.0)", "cd.maximum(A, 2.0)"),
        ("A / 2.5", "A / 2.5"),
    ],
)
def test_whole_numbers_are_written_as_such(text: str, written: str) -> None:
    def made(source: str) -> Any:
        result = "int[q]" if "where" in source else "q"
        return cd.algorithm(f"int[q] -> {result}", name="p")(eval(f"lambda A: {source}", {"cd": cd}))

    source = algorithm_source(made(text).diagram)
    assert source.splitlines()[-1].strip() == f"return {written}"
    assert made(written) == made(text)


def test_what_nobody_writes_is_refused() -> None:
    streamed = cd.library.get("attention").stream("x")
    with pytest.raises(cd.errors.TypeMismatch, match="is no function that one writes"):
        algorithm_source(streamed.diagram)
    generic = cd.box("f", streamed.dom, streamed.cod)
    with pytest.raises(cd.errors.TypeMismatch, match="f is no function that one writes"):
        generic.code("algorithm")


sizes = st.recursive(
    st.integers(1, 9) | st.sampled_from(["t", "n"]),
    lambda inner: st.tuples(st.sampled_from(["+", "*"]), inner, inner),
    max_leaves=5,
)


def shown(size: Size) -> str:
    return f"({shown(size[1])} {size[0]}{shown(size[2])})" if isinstance(size, tuple) else str(size)


@given(sizes)
def test_sizes_are_read_as_they_are_written(size: Size) -> None:
    (axis,) = parse_axes(f"z={shown(size)}")
    assert axis.size == size


@pytest.mark.parametrize("text", ["z=(t", "z=(t+", "z=(t+1", "z=(t 1)", "z=()", "z=(t+1+2)", "z=+", "z=(t))", "z=(*2)"])
def test_sizes_that_do_not_parse(text: str) -> None:
    with pytest.raises(cd.errors.SignatureError):
        parse_axes(text)
