"""Rules planted in random programs, under other names and over further axes, found and applied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.box_types import check
from catdiag.category.diagram import diagram_of
from catdiag.category.substitution import inline
from catdiag.execute.interpreter import run
from catdiag.frontend.builder import program
from catdiag.kernel.checker import Checker
from catdiag.rewrite.matching.rule import Rule
from catdiag.solvers.z3 import Z3
from catdiag.testing import arrays_for, diagrams, sizes_for


@dataclass(frozen=True)
class Kind:
    """A rule as two functions of arrays and of the names of axes, and the signature of the arrays."""

    signature: str
    axes: tuple[str, ...]
    lhs: Callable[..., Any]
    rhs: Callable[..., Any]


KINDS = {
    "pull": Kind("x, ", ("x",), lambda a, c, x: cd.sum(c * a, x), lambda a, c, x: c * cd.sum(a, x)),
    "twice": Kind("", (), lambda a: a + a, lambda a: 2 * a),
    "factor": Kind(", , ", (), lambda a, b, c: a * b + a * c, lambda a, b, c: a * (b + c)),
    "shift": Kind(
        "x, ", ("x",), lambda a, c, x: cd.softmax(a + c, x), lambda a, c, x: cd.softmax(a, x)
    ),
    "largest": Kind("x, ", ("x",), lambda a, c, x: cd.max(a + c, x), lambda a, c, x: c + cd.max(a, x)),
    "swap": Kind(
        "x y", ("x", "y"), lambda a, x, y: cd.sum(cd.sum(a, x), y), lambda a, x, y: cd.sum(cd.sum(a, y), x)
    ),
    "rename": Kind(
        "x", ("x",), lambda a, x: cd.max(a.rename(**{x: "fresh"}), "fresh"), lambda a, x: cd.max(a, x)
    ),
    "two": Kind(", ", (), lambda a, b: (a - b, -(a - b)), lambda a, b: (a - b, b - a)),
    "mean": Kind("x", ("x",), lambda a, x: cd.mean(a, x) * cd.size(x), lambda a, x: cd.sum(a, x)),
    "position": Kind(
        "x", ("x",), lambda a, x: cd.sum(cd.where(cd.index(x) <= 2 * cd.index(x), a, 0), x), lambda a, x: cd.sum(a, x)
    ),
}  # fmt: skip


@cache
def rule(name: str) -> Rule:
    kind = KINDS[name]

    def side(function: Callable[..., Any]) -> cd.category.Diagram:
        count = len(kind.signature.split(","))
        by_number = {
            1: lambda a: function(a, *kind.axes),
            2: lambda a, b: function(a, b, *kind.axes),
            3: lambda a, b, c: function(a, b, c, *kind.axes),
        }
        return cd.algorithm(kind.signature, name=name)(by_number[count])

    return cd.rule(side(kind.lhs), side(kind.rhs), name=name)


def recheck(theorem: cd.Theorem) -> None:
    with Z3() as ask:
        assert str(Checker(ask).check(theorem.certificate)) == str(theorem.checked)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.data())
def test_planted_rules_are_found_and_their_theorems_hold(data: st.DataObject) -> None:
    around = data.draw(diagrams(max_boxes=5))
    name = data.draw(st.sampled_from(sorted(KINDS)))
    kind = KINDS[name]
    numbers = [k for k, ty in enumerate((*around.dom, *around.cod)) if ty.element == "real"]

    def planted(*arrays: Any) -> Any:
        outs = cd.Program(around)(*arrays)
        outs = outs if isinstance(outs, tuple) else (outs,)
        every = [cd.tanh(a) for a in (*arrays, *outs)]
        chosen = [every[data.draw(st.sampled_from(numbers))] for _ in kind.signature.split(",")]
        free = [a.name for a in chosen[0].type.axes]
        if len(free) < len(kind.axes):
            return outs[0]
        axes = data.draw(st.permutations(free))[: len(kind.axes)]
        # What the rule says is free of its axes must not have them.
        for k in range(1, len(chosen)):
            for axis in axes:
                if axis in chosen[k].axes:
                    chosen[k] = cd.sum(chosen[k], axis)
        made = kind.lhs(*chosen, *axes)
        return (*(made if isinstance(made, tuple) else (made,)), outs[0])

    try:
        whole = program(list(around.dom), planted, around.input_names, "whole")
    except cd.errors.AxisError:
        return  # two arrays of the random program have one axis with two sizes
    if len(whole.cod) == 1:
        return
    try:
        done = rule(name).apply(whole)
    except cd.Undecided:
        return  # the rule holds; of the program around it too little may be known
    check(done.diagram)
    recheck(done.theorem)
    assert done.diagram.cod == whole.cod
    assert inline(done.diagram) != inline(diagram_of(whole)) or name == "swap"
    sizes = data.draw(sizes_for(whole))
    arrays = data.draw(arrays_for(whole, sizes))
    for ours, theirs in zip(cd.Program(whole).run(*arrays, sizes=sizes), run(done, arrays, sizes=sizes), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", sorted(KINDS))
def test_each_rule_is_found_under_other_names_and_weaved(name: str) -> None:
    kind = KINDS[name]
    renamed = {"x": "k", "y": "(b g)"}
    axes = [renamed[a] for a in kind.axes]
    first = " ".join(axes)
    # The first array has further axes in front and behind, the others one of them only.
    signature = ", ".join([f"u {first} v"] + ["v"] * (len(kind.signature.split(",")) - 1))
    by_number = {
        1: lambda a: kind.lhs(cd.exp(a), *axes),
        2: lambda a, b: kind.lhs(cd.exp(a), b, *axes),
        3: lambda a, b, c: kind.lhs(cd.exp(a), b, c, *axes),
    }
    whole = cd.algorithm(signature, name="whole")(by_number[len(kind.signature.split(","))])
    (match,) = rule(name).matches(whole)
    assert {"u", "v"} <= {*match.weaved, *match.axes.values()}
    assert [match.axes[a] for a in kind.axes] == axes
    done = rule(name).apply(whole)
    assert not done.theorem.conditional
    recheck(done.theorem)
    rng = np.random.default_rng(1)
    sizes = {"u": 2, "v": 3, "k": 4, "b": 2, "g": 2}
    from catdiag.category.types import size_value

    arrays = [rng.normal(size=[size_value(a.size, sizes) for a in ty.axes]) for ty in whole.dom]
    ours, theirs = whole.run(*arrays, sizes=sizes), cd.Program(done).run(*arrays, sizes=sizes)
    for a, b in zip(*((v,) if isinstance(v, np.ndarray) else v for v in (ours, theirs)), strict=True):
        np.testing.assert_allclose(a, b)
