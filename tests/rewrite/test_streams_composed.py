"""The fusion theorem in its parts: what is weaved over the axis before a stream, what is free of it after, other axes,
and two streams side by side in one loop. Each is derived and proved anew, for random maps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import Diagram
from catdiag.category.ops import FoldOp
from catdiag.rewrite.derivation import Derivation
from catdiag.rewrite.loop_laws import loops
from catdiag.solvers.z3 import Z3

Map = Callable[[Any], Any]

MAPS: tuple[Map, ...] = (
    lambda a: a + 1,
    lambda a: -a,
    lambda a: 2 * a,
    lambda a: a * a,
    lambda a: cd.abs(a),
    lambda a: cd.tanh(a),
    lambda a: cd.maximum(a, 0),
    lambda a: cd.where(a > 0, a, a / 2),
)

STREAMS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda S, V: cd.sum(S * V, "x"),
    lambda S, V: cd.max(S - V, "x"),
    lambda S, V: cd.sum(cd.softmax(S, "x") * V, "x"),
    lambda S, V: cd.nn.logsumexp(S + V, "x"),
    lambda S, V: cd.mean((S - cd.mean(S, "x")) ** 2, "x") + cd.max(V, "x"),
    lambda S, V: cd.sum(S * V, "x") / (cd.sum(S * S, "x") + 1),
)

maps = st.lists(st.sampled_from(MAPS), min_size=1, max_size=2)
streams = st.sampled_from(STREAMS)
quick = settings(max_examples=2, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def composed(functions: list[Map], a: Any) -> Any:
    for function in functions:
        a = function(a)
    return a


def derives(ask: Z3, diagram: Diagram) -> Derivation:
    """The stream of a diagram, which is one loop, proved and run in blocks."""
    derived = cd.Program(diagram, ask).stream("x")
    assert not derived.theorem.conditional
    assert len(loops(derived.diagram)[1]) == 1
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=[{"x": 5}.get(a.name, 2) for a in ty.axes]) for ty in diagram.dom]
    results = (derived.run(*arrays, tiles={"s_x": 2}), diagram(*arrays))
    made, wanted = (v if isinstance(v, tuple) else (v,) for v in results)
    for a, b in zip(made, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    return derived


@quick
@given(streams, maps, maps)
def test_maps_before(ask: Z3, stream: Callable[[Any, Any], Any], before: list[Map], other: list[Map]) -> None:
    f = cd.algorithm("q x, x -> q")(lambda S, V: stream(composed(before, S), composed(other, V)))
    derives(ask, f)


@quick
@given(streams, maps)
def test_what_is_free_of_the_axis_after(ask: Z3, stream: Callable[[Any, Any], Any], after: list[Map]) -> None:
    f = cd.algorithm("q x, x -> q")(lambda S, V: composed(after, stream(S, V)))
    derives(ask, f)
    both = cd.algorithm("q x, x ->")(lambda S, V: cd.sum(composed(after, stream(S, V)), "q"))
    derives(ask, both)


@quick
@given(streams, maps)
def test_other_axes(ask: Z3, stream: Callable[[Any, Any], Any], before: list[Map]) -> None:
    f = cd.algorithm("x, x ->", name="f")(lambda S, V: stream(composed(before, S), V))
    narrow, wide = derives(ask, f), derives(ask, f.weave("b"))
    assert components(wide) == components(narrow)


@quick
@given(streams, streams, maps)
def test_side_by_side_in_one_loop(
    ask: Z3, one: Callable[[Any, Any], Any], other: Callable[[Any, Any], Any], before: list[Map]
) -> None:
    f, g = (cd.algorithm("x, x ->")(lambda S, V, s=s: s(composed(before, S), V)) for s in (one, other))
    derived = derives(ask, f @ g)
    assert components(derived) <= components(derives(ask, f)) + components(derives(ask, g))


def components(derived: Derivation) -> int:
    """The parts of the state of the loop of a derivation."""
    flat, (place,) = loops(derived.diagram)
    op = flat.graph.nodes[place].box.op
    assert isinstance(op, FoldOp)
    return len(op.unit.cod)
