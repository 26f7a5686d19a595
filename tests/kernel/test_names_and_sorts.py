"""Names: no two are one, none is two, and nothing that is printed can be read as another thing than was proved."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_programs import Json, apply, array, certificate, const, program, reduce, rename, sum_fold, tiles

from catdiag.cli.check_verdict import formulas, statement
from catdiag.kernel.checker import Checker
from catdiag.kernel.size_scope import printer_of
from catdiag.kernel.terms import (
    KernelError,
    Printer,
    Term,
    add,
    big,
    bound,
    fn,
    idx,
    maximum,
    mul,
    num,
    parse_term,
    read,
    size,
    term_data,
)
from catdiag.solvers.z3 import Z3

NO_NAMES = [
    "", " ", "x y", "(c k)", "x+y", "1", "128", "m\u2032", "x\0a", "x\0", "\0", "x\n", "x\n  by A1", "B + C", "A·B",
    "\u0445", "\u03b1", "e\u0301", "\u00e9", "\ufb01", "\uff58", "x\u200b", "x\u202e", "x\ufe0f", "%0", "%n x", "$0",
    "exp", "max", "ite", "true", "result", "result0", "x.y", "x'", "x" * 501, 7, None, True, ["x"],
]  # fmt: skip


def node_size(name: Any) -> Json:
    return program([array("A", "x")], [{"op": "size", "size": name}], 1)


PLACES: dict[str, Callable[[Any], Json]] = {
    "an input": lambda n: program([{**array("A", "x"), "name": n}], [], 0),
    "an axis": lambda n: program([{**array("A"), "axes": [[n, "x"]]}], [], 0),
    "a size of an axis": lambda n: program([{**array("A"), "axes": [["x", n]]}], [], 0),
    "a size in a sum": lambda n: program([{**array("A"), "axes": [["x", ["+", n, 1]]]}], [], 0),
    "a size": node_size,
    "a function": lambda n: program([array("A")], [{"op": "map", "fn": f"apply:{n}", "args": [0]}], 1),
    "an axis that is summed": lambda n: program([array("A", "x")], [reduce("sum", n, 0)], 1),
    "an axis of positions": lambda n: program([array("A")], [{"op": "index", "axis": [n, 3]}], 0),
    "an axis of a view": lambda n: program([array("A", "x")], [rename(0, [["y", "x"]], **{str(n): "y"})], 1),
    "an index of a view": lambda n: program([array("A", "x")], [rename(0, [["y", "x"]], x=n)], 1),
    "a size of a block": lambda n: program([array("A", "x")], [{**sum_fold([], 0), "block": n}], 1),
    "a size of a tile": lambda n: program(
        [array("A", "x")], [{**tiles([array("A", "x", x="g")], [], 0, [0], "x"), "tiles": [["x", n]]}], 1),
    "an input of a loop": lambda n: program([array("A", "x")], [sum_fold_with(n)], 1),
}  # fmt: skip


def sum_fold_with(name: Any) -> Json:
    fold = sum_fold([], 0)
    fold["step"]["inputs"][0]["name"] = name
    return fold


@pytest.mark.parametrize("place", PLACES)
def test_a_name_is_an_identifier_wherever_it_stands(place: str) -> None:
    for name in NO_NAMES:
        if place in ("a function", "an axis of a view") and not isinstance(name, str):
            continue  # there it is part of a text
        if name == 7 and "size" in place and "block" not in place and "tile" not in place:
            continue  # a size may be a number
        made = PLACES[place](name)
        for left, right in ((made, made), (program(made["inputs"], [], 0), made)):
            with pytest.raises(KernelError):
                Checker(lambda *_: True).check(certificate(left, right))


@pytest.mark.parametrize("title", [n for n in NO_NAMES if n not in ("", None)] + [
    "f = g", "f.stream('x') = g", "f.stream('x', by=1) = 2", "f(A)", "f.g(h)", "f.stream('x'", "f.('x')", "f.stream(')",
    "f.stream('x').", "f.stream('a=b')", "f.stream('\u0445')",
])  # fmt: skip
def test_a_title_is_a_name_and_steps(title: Any) -> None:
    made = {**program([array("A")], [], 0), "title": title}
    with pytest.raises(KernelError, match="a name as title"):
        Checker(lambda *_: True).check(certificate(made, made))


def test_two_sizes_are_not_one_to_a_solver(ask: Z3) -> None:
    """z3 ends a name at the first zero: x and x\\0a would be one symbol."""
    for a, b in pairwise(["x", "x\0a", "x\0b", "X", "x ", "\u0445", "e\u0301", "\u00e9"]):
        assert not ask([], fn("eq", size(a), size(b)))
        assert not ask([fn("lt", num(0), size(a))], fn("lt", num(0), size(b)))
    assert not ask([], fn("eq", size("x"), idx("x")))
    left = {**program([array("A", "p", p="x"), array("B", "q", q="x\0a")], [{"op": "size", "size": "x"}], 2)}
    right = {**left, "nodes": [{"op": "size", "size": "x\0a"}]}
    for assume in ((("le", 1000, "x"),), (("le", 1000, "x"), ("lt", "x", "x\0a"))):
        with pytest.raises(KernelError, match="identifier"):
            Checker(ask).check(certificate(left, right, {}, assume))


@pytest.mark.parametrize("name", [n for n in NO_NAMES if n not in ("%0", "%n x", "$0")])
def test_a_name_in_a_proof_is_one_too(name: Any) -> None:
    for op, args in (("size", []), ("idx", []), ("read", []), ("holds", []), ("apply", [["num", "1", []]])):
        with pytest.raises(KernelError):
            parse_term([op, name, args])


# -- interfaces ----------------------------------------------------------------------------------------------------


def test_both_sides_have_one_list_of_input_names(ask: Z3) -> None:
    a, b = array("A", "x"), array("B", "x")
    difference = program([a, b], [apply("sub", 0, 1)], 2)
    for inputs in ([b, a], [array("C", "x"), b], [a, array("a", "x")]):
        right = program(inputs, [apply("sub", 0, 1)], 2)
        with pytest.raises(KernelError, match="different inputs"):
            Checker(ask).check(certificate(difference, right))
    twice = program([a, a], [apply("mul", 0, 1)], 2)
    with pytest.raises(KernelError, match="different names"):
        Checker(ask).check(certificate(program([a, b], [apply("mul", 0, 1)], 2), twice))


def test_names_inside_of_a_loop_are_said_to_stand_for_what_they_do() -> None:
    """A body may call its inputs as it likes: here B is the outer A, and A the outer B."""
    block = [array("B", "x", x="s_x"), array("A", "x", x="s_x")]
    s, t = array("s"), array("t")
    body = [reduce("sum", "x", 0)]
    fold = {
        "op": "fold", "axis": "x", "block": "s_x", "args": [0, 1], "unit": program([], [const("0")], 0),
        "step": program([s, *block], [reduce("sum", "x", 1), apply("add", 0, 3)], 4),
        "merge": program([s, t], [apply("add", 0, 1)], 2),
        # The state has its own names: it is printed by those of the step.
        "state": program([array("C", "x", x="s_x"), array("D", "x", x="s_x")], body, 2),
    }  # fmt: skip
    whole = program([array("A", "x"), array("B", "x")], [fold], 2)
    lines = list(formulas(whole))
    assert lines[0] == "result = Σ_{i0<x} A[i0]"
    assert "  where B[i_x] is A[i_x]" in lines and "  where A[i_x] is B[i_x]" in lines
    assert "  s of a list: Σ_{i0<s_x} B[i0]" in lines
    group = {"op": "group", "tiles": [["x", "g"]], "args": [1],
             "body": program([array("A", "x", x="g")], [], 0)}  # fmt: skip
    lines = list(formulas(program([array("A", "x"), array("B", "x")], [group], 2)))
    assert lines[0] == "result[i_x] = B[i_x]" and "  where A[i_x] is B[i_x]" in lines


# -- what is printed -----------------------------------------------------------------------------------------------


def test_sorts_and_sizes_are_printed(ask: Z3) -> None:
    inputs = [
        array("A", "x", element="int"),
        array("M", "q", "x", element="bool"),
        array("S", "x", "d", d=64, element="extended"),
        array("R", "p", p=["+", "x", 1]),
        array("n", element="int"),
    ]
    found = Checker(ask).check(certificate(program(inputs, [], 0), {**program(inputs, [], 0), "title": "kept"}))
    assert found.statement.split(" = ")[1].startswith("kept(")
    assert "(A: int[x], M: bool[q x], S: extended[x d=64], R[p=x + 1], n: int[])" in found.statement


def test_a_result_says_its_ranges_where_these_are_not_called_as_its_axes() -> None:
    """Of no index, A[i] = A[i] + 1 follows: nobody may take it to be said of all x."""
    none: Json = {"op": "view", "args": [0], "axes": [["x", 0]], "reads": [{"at": {"x": ["i", "x"]}, "where": []}]}
    inputs = [array("A", "x", "y")]
    (line,) = formulas(program(inputs, [none | {"axes": [["x", 0], ["y", "y"]]}], 1))
    assert line == "result[i_x,i_y] = A[i_x,i_y] for all i_x < 0"
    (line,) = formulas(program(inputs, [], 0))
    assert line == "result[i_x,i_y] = A[i_x,i_y]"


def test_programs_that_are_called_the_same_are_told_apart(ask: Z3) -> None:
    made = {**program([array("A")], [], 0), "title": "f"}
    assert Checker(ask).check(certificate(made, made)).statement == "left f(A[]) = right f(A[])"


@pytest.mark.parametrize("names", [("x",), ("i0",), ("i_x",), ("i_", "i0", "ii0"), ("i__x", "i_x", "i1")])
def test_an_index_prints_as_nothing_else_does(names: tuple[str, ...]) -> None:
    """Indices, variables of sums, sizes and inputs without axes, whatever these are called."""
    printer = Printer(names, names)
    told = [printer.show(size(n)) for n in names] + [printer.show(read(n)) for n in names]
    told += [printer.index(n) for n in (*names, "x", "_x", "0")]
    one = printer.show(big("sum", size("n"), big("sum", size("n"), mul(bound(0), bound(1)))))
    told += [one[one.index("{") + 1 :].split("<")[0], one[one.rindex("{") + 1 :].split("<")[0]]
    assert len(set(told)) == len(set(names) | {"x", "_x", "0"}) + 2 * len(names) + 2


def test_a_position_is_no_size_in_print(ask: Z3) -> None:
    inputs = [array("A", "q")]
    position = program(inputs, [{"op": "index", "axis": ["q", "q"]}], 1)
    assert list(formulas(position)) == ["result[i_q] = i_q"]
    assert list(formulas(program(inputs, [{"op": "size", "size": "q"}], 1))) == ["result = q"]
    named = program([array("q"), array("A", "q")], [{"op": "size", "size": "q"}, apply("add", 0, 2)], 3)
    assert list(formulas(named)) == ["result = q[] + q"]


NAMES = st.sampled_from(["x", "i0", "i1", "i_x", "i__x", "ii0", "A"])


def terms(depth: int = 0) -> st.SearchStrategy[Term]:
    leaf = st.one_of(
        NAMES.map(size), NAMES.map(idx), st.integers(-2, 2).map(num),
        st.builds(lambda n, ix: read(n, *ix), NAMES, st.lists(NAMES.map(idx), max_size=2)),
        *([st.integers(0, depth - 1).map(bound)] if depth else []),
    )  # fmt: skip
    if depth == 3:
        return leaf
    deeper = terms(depth + 1)
    return st.one_of(
        leaf,
        st.builds(add, leaf, leaf), st.builds(mul, leaf, leaf), st.builds(maximum, leaf, leaf),
        st.builds(lambda a, b: mul(add(a, b), b), leaf, leaf), st.builds(lambda a: fn("exp", a), leaf),
        st.builds(lambda a, b: Term("apply", "f", (a, b)), leaf, leaf),
        st.builds(big, st.sampled_from(["sum", "max"]), leaf, deeper),
    )  # fmt: skip


@given(st.lists(terms(), min_size=2, max_size=12))
def test_different_terms_print_differently(found: list[Term]) -> None:
    printer = Printer.of(*found)
    assert len({printer.show(t) for t in found}) == len(set(found))


@given(terms())
def test_terms_are_read_as_they_are_written(t: Term) -> None:
    assert parse_term(json.loads(json.dumps(term_data(t)))) == t


def test_a_certificate_is_printed_by_one_list_of_names() -> None:
    """The index is called as neither side calls a size: also where only the other side speaks of it."""
    left = program([array("A", "x")], [], 0)
    right = program([array("A", "x")], [{"op": "size", "size": "i_y"}, apply("add", 0, 1)], 2)
    made = copy.deepcopy(certificate(left, right))
    printer = printer_of(left, right)
    assert printer.index("x") == "i__x" and "    result[i__x] = A[i__x]" in statement(made)


def test_a_printer_knows_the_names_in_loops_groups_and_functions() -> None:
    """Wherever a name stands, an index is called otherwise."""
    inputs = [array("A", "x")]
    fold = sum_fold([reduce("sum", "x", 1), apply("add", 0, 2)], 3)
    of_block, of_input = copy.deepcopy(fold), copy.deepcopy(fold)
    of_block["block"] = "i_b"
    of_input["step"]["inputs"][0]["name"] = "i_s"
    body = program([array("i_c", "x", x="g")], [], 0)
    programs = [
        program([array("i_a", "x")], [], 0),
        program([array("A", "x", x="i_n")], [], 0),
        program(inputs, [{"op": "size", "size": ["+", "i_m", 1]}], 1),
        program(inputs, [{"op": "map", "fn": "apply:i_f", "args": [0]}], 1),
        program(inputs, [of_block], 1),
        program(inputs, [of_input], 1),
        program(inputs, [{"op": "group", "tiles": [["x", "i_t"]], "args": [0], "body": body}], 1),
        program(inputs, [{"op": "group", "tiles": [["x", "g"]], "args": [0], "body": body}], 1),
    ]
    assert printer_of(program(inputs, [], 0)).index("x") == "i_x"
    for made in programs:
        assert printer_of(program(inputs, [], 0), made).index("x") == "i__x", made
    for t in (read("i_a"), size("i_a"), Term("holds", "i_a", ()), Term("apply", "i_a", (num(1),))):
        assert Printer.of(num(1), t).index("x") == "i__x"
    assert Printer(["i_a"]).index("%0") == "%0"


@pytest.mark.parametrize("name", ["x", "_", "X9", "resultant", "result_x", "expo", "max1", "i0", "a" * 500])
def test_what_is_a_name(name: str) -> None:
    made = program([array(name, "x")], [{"op": "map", "fn": f"apply:{name}", "args": [0]}], 1)
    assert Checker(lambda *_: False).check(certificate(made, made)).statement.startswith(f"left({name}[x])")
    assert parse_term(["idx", name, []]) == idx(name) and parse_term(["idx", "%0", []]) == idx("%0")
