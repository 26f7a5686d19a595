"""Every scalar function and every class of operations has a row in the table of each reading, or is refused there.

A reading says what an operation means, costs, or looks like in a language. The tables below must be complete. Tables of
facts of functions are not among them (which are positive, total, or fixed by 0): what they lack is something of which
nothing is known, and that is safe. Facts of operations are, so that each new operation is asked about once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catdiag.bounds import compulsory_traffic, coordinates
from catdiag.bounds.dataflow import flow_of
from catdiag.category import box_types, named_axes, op_facts
from catdiag.category.diagram import of_box
from catdiag.category.formula import symbol
from catdiag.category.ops import (
    ARITHMETIC,
    INDEX_MAPS,
    NESTING,
    NULLARY,
    OP_CLASSES,
    REDUCTIONS,
    Box,
    Call,
    Const,
    Einsum,
    Generic,
    Index,
    Map,
    Op,
    Read,
    Reindex,
    Rename,
    SizeOf,
    View,
    map_box,
)
from catdiag.category.scalars import OF_INTEGERS, SCALARS
from catdiag.category.types import ArrayType, Axis, Ty
from catdiag.codegen import algorithm_source, array_expressions, numpy_expressions, torch_expressions
from catdiag.codegen.syntax import Name
from catdiag.codegen.triton import (
    array_accesses,
    kernel_builder,
    tile_expressions,
    tile_fills,
    triton_dialect,
    triton_printer,
)
from catdiag.draw.string_diagram import diagram_diff, sheets
from catdiag.execute import interpreter, scalar_functions
from catdiag.execute.interpreter import run
from catdiag.frontend import index_expressions
from catdiag.kernel import semantics
from catdiag.kernel.terms import ONE, KernelError
from catdiag.planner import saved_views
from catdiag.prover import export
from catdiag.prover.refute import exact_execution, float_screening
from catdiag.rewrite import (
    box_formulas,
    deferred_scaling,
    group,
    group_sums,
    hash_consed_graph,
    merge_axes,
    skip_support,
    stabilize,
)
from catdiag.rewrite.differentiate import box_derivatives, scalar_derivatives
from catdiag.rewrite.hash_consed_graph import HashConsedGraph
from catdiag.rewrite.matching import subgraph_search, unify
from catdiag.rewrite.stream import cascade, separation_rules
from catdiag.schedule import full_precision, kernel_work, loop_bounds, pipelines
from catdiag.testing import error_bounds, tolerance
from catdiag.testing.float_formats import format_of
from catdiag.testing.strategies import op_strategies
from catdiag.util.errors import TypeMismatch

PACKAGE = Path(semantics.__file__).parents[1]
SCHEMA = PACKAGE / "kernel" / "certificate.schema.json"


def schema_functions() -> Collection[str]:
    """The scalar functions that certificates may name."""
    found = json.loads(SCHEMA.read_text(encoding="utf-8"))["$defs"]["function"]["anyOf"][0]["enum"]
    assert isinstance(found, list)
    return found


TABLES: dict[str, Collection[str]] = {
    "meaning in the kernel": {*semantics._SCALARS, *semantics._CONNECTIVES, "where"},
    "certificate schema": schema_functions(),
    "NumPy arrays": scalar_functions.FUNCTIONS,
    "exact numbers": exact_execution.EXACT,
    "screening in floating point": float_screening.FLOATS,
    "error bounds": error_bounds.BOUNDED,
    "cost": pipelines.PIPELINES,
    "derivatives": scalar_derivatives.PARTIALS,
    "source of algorithms": algorithm_source.FUNCTIONS,
    "NumPy text": numpy_expressions.FUNCTIONS,
    "PyTorch text": torch_expressions.TENSORS,
    "Python text": torch_expressions.NUMBERS,
    "Triton text": {*triton_dialect.FUNCTIONS, *tile_expressions.REWRITTEN},
    "constants in Triton": {*tile_fills.VALUES, "where", "floordiv"},
}
"""The functions of each reading."""

REFUSED: dict[str, dict[str, str]] = {}
"""For each reading the functions that it refuses, with the reason."""


def lacking(functions: Collection[str]) -> dict[str, list[str]]:
    """For each reading the functions that are neither in its table nor refused."""
    found = {name: [f for f in functions if f not in table and f not in REFUSED.get(name, {})]
             for name, table in TABLES.items()}  # fmt: skip
    return {name: missing for name, missing in found.items() if missing}


def test_every_scalar_function_is_in_every_table_or_refused() -> None:
    assert lacking(SCALARS) == {}


def test_a_function_in_the_list_only_is_missed_in_every_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCALARS, "frobnicate", (1, "real"))
    assert lacking(SCALARS) == {name: ["frobnicate"] for name in TABLES}


def test_nothing_is_refused_that_a_table_has_or_that_is_no_function() -> None:
    for name, refused in REFUSED.items():
        assert set(refused) <= set(SCALARS), name
        assert not set(refused) & set(TABLES[name]), name
        assert all(refused.values()), name


# -- operations ---------------------------------------------------------------------------------------------


def single() -> error_bounds.Rounding:
    return error_bounds.Rounding(format_of("fp32"), format_of("fp32"), np.dtype(float))


OPENED = "a diagram inside: it is a statement of the loop nest, or was opened before"
X = ArrayType((Axis("x"),))
OPERATIONS: dict[str, Collection[type[Op]]] = {
    "types": box_types.BOXES,
    "meaning in the kernel": {*export.BOXES, Einsum},
    "NumPy arrays": interpreter.BOXES,
    "error bounds": tolerance.BOXES,
    "formulas": box_formulas.BOXES,
    "derivatives": box_derivatives.DERIVATIVES,
    "source of algorithms": algorithm_source.BOXES,
    "NumPy and PyTorch text": array_expressions.BOXES,
    "Triton text": kernel_builder.BOXES,
    "substitution in a rule": unify.SUBSTITUTED,
    "axes that it names": named_axes.NAMED_AXES,
    "obstacles to grouping": group.OBSTACLES,
    "coordinates in bounds": coordinates.RULES,
    "picture": sheets.CELLS,
    "index expressions": loop_bounds.EXPRESSIONS,
    "origins of statistics": full_precision.ORIGINS,
    "positive by its form": hash_consed_graph.POSITIVE,
    "data that names no axis": subgraph_search.KINDS,
    "parts of reads that are needed": compulsory_traffic.READ_PARTS,
    "axes that it combines entries along": op_facts.REDUCED_AXES,
    "axes ordered by the inputs": op_facts.ORDERED_BY_INPUTS,
    "reshapes": op_facts.RESHAPES,
    "axes read at other positions": op_facts.MOVED_AXES,
    "sizes that it names": named_axes.NAMED_SIZES,
    "leaves of index expressions": index_expressions.LEAVES,
    "operations by pipeline": kernel_work.OPERATIONS,
    "views in Triton": array_accesses.VIEWED,
    "reshaped indices in Triton": array_accesses.RESHAPED_INDICES,
    "reshapes undone in Triton": array_accesses.UNRESHAPED,
    "parts of arrays": saved_views.PARTS,
    "data without sizes": diagram_diff.WITHOUT_SIZES,
    "axes that a rule unifies": unify.OWN_AXES,
    "meaning up to how it is written": unify.MEANINGS,
    "linear in parts of sums": group_sums.LINEAR,
    "says positions or a size": group.ABOUT,
    "separable forms": separation_rules.SEPARATION_RULES,
    "why it mixes positions": cascade.MIXERS,
    "degrees in maxima": stabilize.DEGREE_RULES,
    "values that it takes by conditions": skip_support.SUPPORT_RULES,
    "sums with deferred scaling": deferred_scaling.DEFERRED,
    "results with merged axes": merge_axes.REMADE,
    "kinds of random boxes": op_strategies.KINDS,
}
"""The classes of operations of each reading."""

NOTHING = "nothing is known of it, and that is safe"
PLAIN = "it is read as it is written"
REFUSED_OPERATIONS: dict[str, dict[type[Op], str]] = {
    **{
        name: dict.fromkeys(NESTING, OPENED)
        for name in ("NumPy and PyTorch text", "Triton text", "derivatives", "coordinates in bounds")
    },
    "index expressions": dict.fromkeys((Einsum, View, Generic, *NESTING), NOTHING),
    "origins of statistics": {View: NOTHING, Generic: NOTHING, **dict.fromkeys(NESTING, OPENED)},
    "positive by its form": dict.fromkeys((Index, Generic, *NESTING), NOTHING),
    "data that names no axis": dict.fromkeys((Einsum, Rename, Index, SizeOf), "it has none"),
    "parts of reads that are needed": {**dict.fromkeys(NULLARY, "it reads nothing"), **dict.fromkeys(NESTING, OPENED)},
    "axes that it combines entries along": dict.fromkeys(
        (Map, *INDEX_MAPS, *NULLARY, Generic, *NESTING), "it combines none, or nobody knows"
    ),
    "axes ordered by the inputs": dict.fromkeys(
        (Einsum, *INDEX_MAPS, *NULLARY, Generic, *NESTING), "it names the axes of its result in order"
    ),
    "reshapes": dict.fromkeys((*ARITHMETIC, View, *NULLARY, Generic, *NESTING), NOTHING),
    "axes read at other positions": dict.fromkeys((*ARITHMETIC, Rename, *NULLARY, Generic, *NESTING), "it reads none"),
    "sizes that it names": dict.fromkeys((*ARITHMETIC, Rename, Index, Const, Generic, *NESTING), "it names none"),
    "leaves of index expressions": dict.fromkeys(
        (*ARITHMETIC, *INDEX_MAPS, Generic, *NESTING), "its result is an array of integers"
    ),
    "operations by pipeline": dict.fromkeys(
        (*INDEX_MAPS, *NULLARY, Generic, *NESTING), "it computes nothing, is a statement, or its work is not known"
    ),
    "views in Triton": dict.fromkeys((*ARITHMETIC, *NULLARY, Generic, *NESTING), "it is no view"),
    **{
        name: dict.fromkeys((*ARITHMETIC, View, *NULLARY, Generic, *NESTING), "it is no reshape")
        for name in ("reshaped indices in Triton", "reshapes undone in Triton")
    },
    "parts of arrays": dict.fromkeys((*ARITHMETIC, Rename, *NULLARY, Generic, *NESTING), "it computes, or is whole"),
    "data without sizes": dict.fromkeys((*ARITHMETIC, Rename, *NULLARY, Generic, *NESTING), PLAIN),
    "axes that a rule unifies": dict.fromkeys(
        (Map, Einsum, Rename, SizeOf, Const, Generic, *NESTING), "its axes are those of its arrays"
    ),
    "meaning up to how it is written": dict.fromkeys((*ARITHMETIC, Reindex, Index, Const, Generic, *NESTING), PLAIN),
    "linear in parts of sums": dict.fromkeys((View, *NULLARY, Generic, *NESTING), NOTHING),
    "says positions or a size": dict.fromkeys((*ARITHMETIC, *INDEX_MAPS, Const, Generic, *NESTING), "it does not"),
    "separable forms": dict.fromkeys((Reindex, View, *NULLARY, Generic, *NESTING), NOTHING),
    "why it mixes positions": dict.fromkeys(
        (*ARITHMETIC, Rename, Reindex, *NULLARY, Call), "its name says it, or it maps over them"
    ),
    "degrees in maxima": dict.fromkeys((*NULLARY, Generic, *NESTING), "what it reads is a plain number"),
    "values that it takes by conditions": dict.fromkeys((Reindex, View, Index, SizeOf, Generic, *NESTING), NOTHING),
    "sums with deferred scaling": dict.fromkeys((Einsum, Reindex, View, *NULLARY, Generic, *NESTING), NOTHING),
    "results with merged axes": dict.fromkeys(
        (*INDEX_MAPS, *NULLARY, Generic, *NESTING), "it is a renaming without pairs, or keeps its axes"
    ),
}


def operations_lacking(classes: Collection[type[Op]]) -> dict[str, list[type[Op]]]:
    found = {name: [c for c in classes if c not in table and c not in REFUSED_OPERATIONS.get(name, {})]
             for name, table in OPERATIONS.items()}  # fmt: skip
    return {name: missing for name, missing in found.items() if missing}


def test_every_operation_is_in_every_table_or_refused() -> None:
    assert operations_lacking(OP_CLASSES) == {}
    assert set(sheets.INSIDES) == set(NESTING)
    for name, refused in REFUSED_OPERATIONS.items():
        assert not set(refused) & set(OPERATIONS[name]), name


def test_every_operation_is_of_one_kind() -> None:
    kinds = (*ARITHMETIC, *INDEX_MAPS, *NULLARY, Generic, *NESTING)
    assert len(kinds) == len(OP_CLASSES)
    assert set(kinds) == set(OP_CLASSES)
    assert set(REDUCTIONS) <= set(ARITHMETIC)


@dataclass(frozen=True)
class Frobnicate:
    """An operation that no reading knows."""

    name = "frobnicate"


def test_an_operation_that_no_reading_knows_is_missed_in_every_table() -> None:
    assert operations_lacking((*OP_CLASSES, Frobnicate)) == {name: [Frobnicate] for name in OPERATIONS}  # type: ignore[arg-type,list-item]


def array_text(dialect: array_expressions.ArrayDialect, box: Box, kind: str) -> None:
    value = array_expressions.Value(Name("a"), () if kind == "number" else ("x",), kind)
    array_expressions.ArrayPrinter(dialect).expression(box, [value] * len(box.dom))


OPERATION_USES: dict[str, Callable[[Box], object]] = {
    "types": box_types.check_box,
    "substitution in a rule": unify.Unifier().op,
    "meaning in the kernel": lambda box: export.program(of_box(box)),
    "NumPy arrays": lambda box: run(of_box(box), [np.ones(1)]),
    "error bounds": lambda box: tolerance.error_bounds(of_box(box), [np.ones(1)], single()),
    "formulas": lambda box: box_formulas.formula_of(box, [symbol("a")]),
    "derivatives": lambda box: box_derivatives.derivative(HashConsedGraph(Ty(X, X)), box, [0], [1]),
    "obstacles to grouping": lambda box: group.find(of_box(box), ["x"]),
    "coordinates in bounds": lambda box: flow_of(of_box(box)),
    "NumPy and PyTorch text": lambda box: array_text(numpy_expressions.NUMPY, box, "wide"),
}
"""How each reading is asked for one box."""


@pytest.mark.parametrize("reading", OPERATION_USES)
def test_an_operation_that_a_reading_does_not_know_is_refused_by_name(reading: str) -> None:
    x = Ty(ArrayType((Axis("x"),)))
    box = Box(Frobnicate(), x, x)  # type: ignore[arg-type]
    with pytest.raises(TypeMismatch, match=r"frobnicate cannot be .*: its operation is a Frobnicate, expected one of "):
        OPERATION_USES[reading](box)


def test_a_subclass_is_read_as_its_class() -> None:
    class Doubled(View):
        """A view that knows more."""

    x = ArrayType((Axis("x"),))
    box = Box(Doubled((Axis("x"),), (Read(),)), Ty(x), Ty(x))
    assert box_formulas.formula_of(box, [symbol("a")]) == symbol("a")


# -- scalar functions ---------------------------------------------------------------------------------------


def box_of(fn: str) -> Box:
    element = "int" if fn in OF_INTEGERS else "bool" if fn in ("and", "or", "not") else "real"
    return map_box(fn, [ArrayType((Axis("x"),), element)] * SCALARS[fn][0])


def ones(fn: str) -> list[Any]:
    return [np.ones(1, {"bool": bool, "int": int}.get(ty.element, float)) for ty in box_of(fn).dom]


def triton_text(fn: str) -> None:
    scope = tile_expressions.Scope()
    nodes = tile_expressions.Nodes(scope)
    node = nodes.op(fn, *(nodes.symbol(name, "real") for name in "abc"[: SCALARS[fn][0]]))
    triton_printer.TritonPrinter(str, lambda a, b: (None, None)).ref(node, scope, bare=True)


def screened(fn: str) -> None:
    node = {"op": "map", "fn": fn, "args": [0] * SCALARS[fn][0]}
    program: dict[str, Any] = {"inputs": [{"name": "A", "axes": [], "element": "real"}], "nodes": [node],
                               "outputs": [[1, "real"]]}  # fmt: skip
    float_screening.outputs(program, [(np.ones(1), ())], {}, {}, {}, float_screening.Meter(100_000))


def bounded(fn: str) -> None:
    one = error_bounds.BoundedArray(np.ones(1), np.zeros(1), ("x",))
    single().scalar(fn, [one] * SCALARS[fn][0], ("x",))


def differentiated(fn: str) -> None:
    box = box_of(fn)
    graph = HashConsedGraph(box.dom @ box.cod)
    scalar_derivatives.partials(graph, fn, range(len(box.dom)), len(box.dom))


USES: dict[str, Callable[[str], object]] = {
    "meaning in the kernel": lambda fn: semantics.scalar(fn, [ONE] * SCALARS[fn][0]),
    "NumPy arrays": lambda fn: run(of_box(box_of(fn)), ones(fn)),
    "exact numbers": lambda fn: exact_execution.scalar(fn, [Fraction(1)] * SCALARS[fn][0], {}),
    "screening in floating point": screened,
    "error bounds": bounded,
    "cost": pipelines.pipeline,
    "derivatives": differentiated,
    "NumPy text": lambda fn: array_text(numpy_expressions.NUMPY, box_of(fn), "wide"),
    "PyTorch text": lambda fn: array_text(torch_expressions.TORCH, box_of(fn), "wide"),
    "Python text": lambda fn: array_text(torch_expressions.TORCH, box_of(fn), "number"),
    "Triton text": triton_text,
}
"""How each reading is asked for one function."""


@pytest.mark.parametrize("reading", USES)
def test_a_function_that_a_reading_does_not_know_is_refused_by_name(
    reading: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SCALARS, "frobnicate", (1, "real"))
    with pytest.raises((TypeMismatch, KernelError), match="frobnicate"):
        USES[reading]("frobnicate")


@pytest.mark.parametrize("reading", USES)
def test_every_other_function_is_read(reading: str) -> None:
    for fn in SCALARS.keys() - REFUSED.get(reading, {}).keys():
        USES[reading](fn)


def test_the_lines_that_contributing_shows_for_a_function_are_those_of_the_code() -> None:
    """`…` stands for what the function shares a line with."""
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```diff\n(.*?)```", text, re.DOTALL)
    for line in shown.splitlines():
        file, added = re.fullmatch(r" (\S+) +\+ *(.*?)(?:  +# .*)?", line).groups()  # type: ignore[union-attr]
        code = (PACKAGE / file).read_text(encoding="utf-8")
        assert all(part.strip() in code for part in added.split("…")), line
