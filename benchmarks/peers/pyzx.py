"""PyZX: circuits as lists of gates, whose `==` compares them as stored, and ZX graphs of spiders."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pyzx
from pyzx import VertexType
from pyzx.circuit.gates import CNOT, YPhase, ZPhase

from . import KINDS, WIDTH, rows

Make = Callable[[int], Callable[[], Any]]
PHASES = [Fraction(2 * k + 1, 64) for k in range(KINDS)]


def gates(n: int, last: Fraction | None = None) -> Callable[[], Any]:
    def build() -> pyzx.Circuit:
        circuit = pyzx.Circuit(1)
        circuit.gates = [ZPhase(0, PHASES[k % KINDS]) for k in range(n - (last is not None))]
        if last is not None:
            circuit.gates.append(ZPhase(0, last))
        return circuit

    return build


def added(n: int) -> Callable[[], Any]:
    def build() -> pyzx.Circuit:
        circuit = pyzx.Circuit(1)
        for k in range(n):
            circuit.add_gate(ZPhase(0, PHASES[k % KINDS]))
        return circuit

    return build


def spiders(n: int) -> Callable[[], Any]:
    def build() -> Any:
        graph = pyzx.Graph()
        vertices = graph.add_vertices(n + 2)
        graph.add_edges(pairwise(vertices))
        for k in range(n):
            graph.set_type(vertices[k + 1], VertexType.Z)
            graph.set_phase(vertices[k + 1], PHASES[k % KINDS])
        graph.set_inputs((vertices[0],))
        graph.set_outputs((vertices[-1],))
        return graph

    return build


def wall(n: int, last: tuple[int, int] | None = None) -> Callable[[], Any]:
    def build() -> pyzx.Circuit:
        circuit = pyzx.Circuit(WIDTH)
        circuit.gates = [CNOT(at, at + 1) for row in rows(n) for at in row]
        if last is not None:
            circuit.gates[-1] = CNOT(*last)
        return circuit

    return build


def as_stored(make: Make) -> Make:
    def two(n: int) -> Callable[[], Any]:
        left, right = make(n)(), make(n)()
        return lambda: left.gates == right.gates

    return two


def not_as_stored(make: Callable[..., Callable[[], Any]], ends: tuple[Any, Any]) -> Make:
    def two(n: int) -> Callable[[], Any]:
        left, right = make(n, ends[0])(), make(n, ends[1])()
        return lambda: left.gates != right.gates

    return two


def in_meaning(make: Make) -> Make:
    """One after the inverse of the other is reduced to the identity."""

    def two(n: int) -> Callable[[], Any]:
        left, right = make(n)(), make(n)()
        return lambda: left.verify_equality(right) is True

    return two


def to_basic_gates(n: int) -> Callable[[], Any]:
    circuit = pyzx.Circuit(1)
    circuit.gates = [YPhase(0, PHASES[k % KINDS]) for k in range(n)]
    return circuit.to_basic_gates


def matrices(n: int) -> Callable[[], Any]:
    circuit = gates(n)()
    return lambda: n * (abs(circuit.to_matrix()[0][0]) > 0)


WAYS: dict[tuple[str, str], dict[str, Make]] = {
    ("build", "chain"): {"a list of gates": gates, "`add_gate`": added, "`add_edges` of a graph": spiders},
    ("build", "layers"): {"a list of gates": wall},
    ("compare", "chain"): {
        "gates' `==`, as stored": as_stored(gates),
        "`verify_equality`, of meaning": in_meaning(gates),
    },
    ("compare", "layers"): {
        "gates' `==`, as stored": as_stored(wall),
        "`verify_equality`, of meaning": in_meaning(wall),
    },
    ("differ", "chain"): {"gates' `==`, as stored": not_as_stored(gates, (Fraction(1, 3), Fraction(1, 5)))},
    ("differ", "layers"): {"gates' `==`, as stored": not_as_stored(wall, ((0, 1), (1, 0)))},
    ("rewrite", "chain"): {"`to_basic_gates`": to_basic_gates},
    ("evaluate", "chain"): {"`to_matrix`": matrices},
}


def count(made: Any) -> int:
    """How many gates, or spiders."""
    return len(made.gates) if hasattr(made, "gates") else made.num_vertices() - 2
