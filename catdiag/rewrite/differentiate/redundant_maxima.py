"""Maxima on which the result does not depend, such as the one that a softmax subtracts.

Let a program be `F(x, m(x))`, with m a maximum that F reads. If `F(x, c) = F(x, c')` for all c and c' for which both
have a value, then near a point x₀ the program is `F(x, m(x₀))`. So its derivative is that of `F(·, c)` at c = m(x₀),
also where elements tie and m has no derivative. This condition is not assumed but proved, for the part of the program
around the maximum: from the maximum to the first wires that do not depend on it. The other wires that the part reads
are inputs of the equation, so that it holds whatever is put in. Where `F(x, c')` may have no value though `F(x, c)` has
one, such as a quotient by c', each side gives both: `(F(x, c), F(x, c')) = (F(x, c'), F(x, c))`.

Which wires do not depend on a maximum is guessed from numbers: the part is run with two different values.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from catdiag.category.diagram import Diagram, of_box
from catdiag.category.op_facts import monoid_of, scalar_function
from catdiag.category.ops import Box
from catdiag.category.types import ArrayType, Ty, size_symbols, size_value
from catdiag.execute.interpreter import run
from catdiag.kernel.terms import KernelError
from catdiag.prover.api import Theorem, certify_equation
from catdiag.prover.proof_search import OpenGoal
from catdiag.rewrite.differentiate.passes import Linearization
from catdiag.rewrite.graph_builder import GraphBuilder
from catdiag.solvers.child_process import SolverInterrupted
from catdiag.solvers.z3 import Z3
from catdiag.util.errors import CatdiagError

_SIZE, _MOST_ELEMENTS, _MOST_WIRES = 2, 1_000_000, 64


@dataclass(frozen=True)
class RedundantMaximum:
    """A box that makes a maximum or minimum, and the theorem that nothing depends on which number it is."""

    box: Box
    theorem: Theorem


def redundant_maxima(made: Linearization, inputs: Collection[int], ask: Z3) -> dict[int, RedundantMaximum]:
    """The maxima, by wire, that depend on the inputs and on which the outputs provably do not depend; the last first.

    A maximum that only leads to such a one is not among them: it has no cotangent anyway.
    """
    graph = made.graph
    found: dict[int, RedundantMaximum] = {}
    # The layers of a model have equal parts.
    known: dict[tuple[Diagram, Diagram], Theorem | None] = {}
    for place in reversed(range(made.count)):
        box, wire = graph.nodes[place].box, graph.first[place]
        if not _is_extremal(box) or wire not in made.active(inputs):
            continue
        part = _Part(made, wire)
        theorem = part.theorem(ask, known) if part.closed else None
        if theorem is not None:
            found[wire] = RedundantMaximum(box, theorem)
            made.constant.add(wire)
    return found


def _is_extremal(box: Box) -> bool:
    return (monoid_of(box.op) or scalar_function(box.op)) in ("max", "min")


class _Part:
    """The part of a program between a maximum and the first wires that do not depend on it.

    `inside` are the wires that do, `leaving` the first that do not, and `read` the others that the part reads. `closed`
    says whether there are such, and no output is inside.
    """

    def __init__(self, made: Linearization, wire: int) -> None:
        self.graph, self.wire = made.graph, wire
        self.random = np.random.default_rng(0)
        self.values: dict[int, tuple[Any, Any]] = {}
        self.leaving: list[int] = []
        self.read: dict[int, None] = {}
        self.given = set(range(len(self.graph.dom)))
        for node, first in zip(self.graph.nodes, self.graph.first, strict=True):
            if any(w in self.given for w in node.inputs):
                self.given.update(range(first, first + len(node.box.cod)))
        try:
            self.closed = self._grown(made)
        except (CatdiagError, ArithmeticError, ValueError):
            self.closed = False

    def _grown(self, made: Linearization) -> bool:
        self.inside = {self.wire}
        self.values[self.wire] = self._number(self.wire), self._number(self.wire)
        outputs = set(made.outputs)
        for place in range(self.graph.maker[self.wire] + 1, made.count):
            node, first = self.graph.nodes[place], self.graph.first[place]
            if not self.inside & set(node.inputs):
                continue
            if len(node.box.cod) != 1 or len(self.inside) > _MOST_WIRES:
                return False
            one, two = ([self._value(w)[k] for w in node.inputs] for k in (0, 1))
            found = self._run(node.box, one), self._run(node.box, two)
            self.values[first] = found
            self.read.update(dict.fromkeys(w for w in node.inputs if w in self.given and w not in self.inside))
            # Rows in which a random mask leaves nothing have no value.
            if not np.isnan(found[0]).all() and np.allclose(*found, rtol=1e-9, atol=1e-9, equal_nan=True):
                self.leaving.append(first)
            else:
                self.inside.add(first)
        return bool(self.leaving) and not self.inside & outputs

    def _value(self, wire: int) -> tuple[Any, Any]:
        """The two values of a wire: two of what depends on the maximum, else twice one number."""
        if wire not in self.values:
            node = self.graph.node(wire)
            if node is not None and wire not in self.given:
                number = self._run(node.box, [self._value(w)[0] for w in node.inputs])
            else:
                number = self._number(wire)
            self.values[wire] = number, number
        return self.values[wire]

    def _number(self, wire: int) -> Any:
        ty = self.graph.types[wire]
        shape = [size_value(a.size, dict.fromkeys(size_symbols(a.size), _SIZE)) for a in ty.axes]
        if np.prod(shape) > _MOST_ELEMENTS:
            raise ArithmeticError("too many elements")
        if ty.element == "bool":
            return self.random.random(shape) < 0.5
        if ty.element == "int":
            return np.zeros(shape, dtype=np.int64)
        return self.random.uniform(0.5, 1.5, shape)

    def _run(self, box: Box, arrays: Sequence[Any]) -> Any:
        dom = (
            ArrayType(ty.axes, "int") if ty.element == "int" else ty
            for ty in box.dom
        )  # fmt: skip
        symbols = {s for ty in (*box.dom, *box.cod) for a in ty.axes for s in size_symbols(a.size)}
        return run(of_box(Box(box.op, Ty(*dom), box.cod)), arrays, sizes=dict.fromkeys(symbols, _SIZE))

    def theorem(self, ask: Z3, known: dict[tuple[Diagram, Diagram], Theorem | None]) -> Theorem | None:
        """The theorem that what leaves the part is the same for two arrays in place of the maximum; None without.

        Those that were proved are `known`, by their two sides.
        """
        number = ArrayType(self.graph.types[self.wire].axes)
        dom = [number, number, *(self.graph.types[w] for w in self.read)]
        builder = GraphBuilder(self.graph, dom)
        outputs: list[list[int]] = []
        for k in (0, 1):
            env = {self.wire: k, **{w: 2 + j for j, w in enumerate(self.read)}}
            outputs.append([builder.emit(w, env, self.graph.types[w]) for w in self.leaving])
        names = ("c", "c_", *(f"a{j}" for j in range(len(self.read))))
        one, two = outputs
        # Mostly the one has a value where the other has; if not, both have to.
        for left, right in ((one, two), (one + two, two + one)):
            sides = builder.diagram(left, names), builder.diagram(right, names)
            if sides not in known:
                known[sides] = _proved(ask, *sides)
            theorem = known[sides]
            if theorem is None or not theorem.conditional:
                return theorem
        return None


def _proved(ask: Z3, left: Diagram, right: Diagram) -> Theorem | None:
    """The theorem that two diagrams mean the same, perhaps on conditions; None where none is found."""
    try:
        theorem = certify_equation(ask, left, right)
    except (OpenGoal, KernelError, SolverInterrupted):
        return None
    return None if theorem.vacuous else theorem
