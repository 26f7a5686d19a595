"""Gradients against finite differences: each function, reduction and index map, random programs, the library."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import catdiag as cd
from benchmarks.gradients import library_arrays
from catdiag.category.diagram import Diagram, of_box
from catdiag.category.ops import Generic, map_box
from catdiag.category.scalars import OF_INTEGERS, SCALARS
from catdiag.category.types import ArrayType, Axis, Ty
from catdiag.execute.interpreter import run
from catdiag.frontend.tracing import running
from catdiag.rewrite.differentiate.box_derivatives import has_derivative
from catdiag.rewrite.differentiate.gradient import forward_derivative, gradient
from catdiag.rewrite.differentiate.linear_maps import Weight
from catdiag.rewrite.differentiate.scalar_derivatives import PARTIALS, TWO_BY_SQRT_PI
from catdiag.rewrite.hash_consed_graph import HashConsedGraph
from catdiag.solvers.z3 import Z3

Array = NDArray[Any]
ASK = Z3()


def several(found: Any) -> tuple[Array, ...]:
    return found if isinstance(found, tuple) else (found,)


def directional(
    diagram: Diagram, arrays: Sequence[Any], directions: Sequence[Any], step: float, **options: Any
) -> tuple[Array, ...]:
    """The central difference of the results of real numbers along a direction."""
    real = [k for k, ty in enumerate(diagram.cod) if has_derivative(ty)]
    ends = []
    for h in (step, -step):
        moved = [a if d is None else a + h * d for a, d in zip(arrays, directions, strict=True)]
        out = several(run(diagram, moved, **options))
        ends.append([np.asarray(out[k], float) for k in real])
    with np.errstate(invalid="ignore"):  # −∞ minus −∞
        return tuple(np.where(a == b, 0.0, (a - b) / (2 * step)) for a, b in zip(*ends, strict=True))


def dot(one: Sequence[Array], two: Sequence[Array]) -> tuple[float, float]:
    """⟨one, two⟩, and the sum of the sizes of its terms."""
    terms = [(np.asarray(a) * np.asarray(b)).ravel() for a, b in zip(one, two, strict=True)]
    return float(sum(t.sum() for t in terms)), float(sum(np.abs(t).sum() for t in terms))


def check(
    diagram: Diagram, arrays: Sequence[Any], seed: int = 0, strict: bool = True, tolerance: float = 1e-6, **options: Any
) -> None:
    """Compares both derivatives with a central difference along a random direction, and with each other."""
    rng = np.random.default_rng(seed)
    chosen = [k for k, ty in enumerate(diagram.dom) if has_derivative(ty)]
    moved = [rng.normal(size=np.shape(arrays[k])) for k in chosen]
    directions = [None] * len(diagram.dom)
    for k, d in zip(chosen, moved, strict=True):
        directions[k] = d
    near, nearer = (directional(diagram, arrays, directions, h, **options) for h in (1e-5, 5e-6))
    values = [v for v, ty in zip(several(run(diagram, arrays, **options)), diagram.cod, strict=True)
              if has_derivative(ty)]  # fmt: skip
    with np.errstate(invalid="ignore"):
        scale = 1 + max(float(np.max(np.abs(np.where(np.isfinite(v), v, 0)), initial=0)) for v in values)
        rough = max(float(np.max(np.abs(a - b), initial=0)) for a, b in zip(near, nearer, strict=True))
    assert rough < 1e-4 * scale or not strict
    if rough >= 1e-4 * scale:
        return  # At a corner or a jump, and where derivatives are far larger than values, a difference says nothing.
    pushed = several(run(forward_derivative(diagram, ASK).diagram, [*arrays, *moved], **options))
    for found, expected in zip(pushed, nearer, strict=True):
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * scale + 4 * rough)
    weights = [rng.normal(size=np.shape(v)) for v in pushed]
    pulled = several(run(gradient(diagram, ASK).diagram, [*arrays, *weights], **options))
    assert [p.shape for p in pulled] == [np.shape(arrays[k]) for k in chosen]
    (one, size), (two, other) = dot(pushed, weights), dot(moved, pulled)
    assert math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-10 * (1 + size + other))


# -- one operation at a time --------------------------------------------------------------------------------

REAL = [fn for fn in SCALARS if fn not in (*OF_INTEGERS, "and", "or", "not", "where")]


@pytest.mark.parametrize("fn", REAL)
def test_each_scalar_function_has_the_derivative_of_its_finite_difference(fn: str) -> None:
    arity = SCALARS[fn][0]
    names = ["x y", "y z"][:arity]
    types = [ArrayType(tuple(Axis(n) for n in axes.split())) for axes in names]
    rng = np.random.default_rng(3)
    low = 0.3 if fn in ("log", "sqrt", "div") else -2.0
    arrays = [rng.uniform(low, 2.0, [{"x": 2, "y": 3, "z": 4}[n] for n in axes.split()]) for axes in names]
    made = map_box(fn, types)
    if made.cod[0].element in ("bool", "int"):
        made_number = cd.algorithm(", ".join(names))(
            lambda *a: cd.where(_applied(fn, *a), 1.0, 0.0) if SCALARS[fn][1] == "bool" else _applied(fn, *a) + 0 * a[0]
        )
        check(made_number.diagram, arrays)
        return
    check(of_box(made), arrays)


def _applied(fn: str, *arrays: Any) -> Any:
    return running().arithmetic(fn, *arrays)


def test_where_has_the_derivative_of_the_branch_that_is_taken() -> None:
    f = cd.algorithm("x, bool[x y], y")(lambda a, c, b: cd.where(c, a * a, b))
    rng = np.random.default_rng(0)
    check(f.diagram, [rng.normal(size=3), rng.random((3, 4)) < 0.5, rng.normal(size=4)])


PROGRAMS: dict[str, tuple[str, Callable[..., Any], list[tuple[int, ...]]]] = {
    "sum": ("q x", lambda a: cd.sum(a * a, "x"), [(2, 3)]),
    "sum of what is constant along the axis": ("q, x", lambda a, b: cd.sum(a + 0 * b, "x"), [(2,), (3,)]),
    "max": ("q x", lambda a: cd.max(a, "x"), [(2, 3)]),
    "min of two axes": ("q x y", lambda a: cd.min(a, "x y"), [(2, 3, 2)]),
    "prod": ("q x", lambda a: cd.prod(a, "x"), [(2, 4)]),
    "mean": ("q x", lambda a: cd.mean(a * a, "x"), [(2, 4)]),
    "einsum of three": ("a b, b c, c d", lambda A, B, C: cd.einsum("a b, b c, c d -> a d", A, B, C),
                        [(2, 3), (3, 4), (4, 2)]),
    "einsum of one": ("a b", lambda A: cd.einsum("a b -> b", A), [(2, 3)]),
    "einsum with itself": ("a b", lambda A: cd.einsum("a b, c b -> a c", A, A.rename(a="c")), [(2, 3)]),
    "einsum with a sum of one operand": ("a, b", lambda A, B: cd.einsum("a, b -> a", A, B), [(2,), (3,)]),
    "rename": ("q x", lambda a: cd.sum(a.rename(x="y"), "y") * a, [(2, 3)]),
    "split and merge": ("(b g) d", lambda a: cd.rearrange(cd.rearrange(a, "(b g) d -> g b d") ** 2, "g b d -> (b g) d"),
                        [(6, 2)]),
    "concat": ("x d, y d", lambda a, b: cd.concat([a * a, b], "x+y"), [(2, 3), (4, 3)]),
    "concat with what lacks an axis": ("x d, y", lambda a, b: cd.concat([a * a, b], "x+y"), [(2, 3), (4,)]),
    "parts": ("x+y", lambda a: cd.split(a, "x+y")[0] ** 2, [(5,)]),
    "reverse": ("x", lambda a: cd.reverse(a, "x") * a, [(5,)]),
    "shift": ("x", lambda a: cd.shift(a, "x", 2, fill=1) * a, [(5,)]),
    "slice": ("x", lambda a: cd.slice(a, "x", 1, 4) ** 2, [(6,)]),
    "stride": ("x", lambda a: cd.stride(a, "x", "y", 2) ** 2, [(7,)]),
    "pad": ("x", lambda a: cd.pad(a * a, "x", 2, 1), [(4,)]),
    "window": ("x", lambda a: cd.sum(cd.window(a, "x", "y k=3") ** 2, "k"), [(7,)]),
    "window with a step": ("x", lambda a: cd.sum(cd.window(a, "x", "y k=3", stride=2) ** 2, "k"), [(9,)]),
    "diagonal": ("x y", lambda a: cd.reindex(a * a, "t=3", x=lambda t: t, y=lambda t: t), [(3, 3)]),
    "transposed Toeplitz": ("r", lambda a: cd.reindex(a * a, "i=3 j=4", r=lambda i, j: i + 2 * j), [(9,)]),
    "repeated": ("x", lambda a: cd.concat([cd.tile(a * a, "x", 2), cd.repeat(a, "x", 2)], "(2 x)+(x 2)"), [(3,)]),
    "a product axis read at positions": (
        "(b g) d",
        lambda a: cd.reindex(a * a, "i=2 j=3", **{"(b g)": lambda i, j: 3 * i + j}),
        [(6, 2)],
    ),
    "cumulative sum": ("x", lambda a: cd.sum(cd.where(cd.index("x") <= cd.index("y=4"), a * a, 0), "x"), [(4,)]),
    "cast": ("x", lambda a: cd.cast(a * a, "bf16") * a, [(3,)]),
    "clip": ("x", lambda a: cd.clip(a, -0.5, 0.5) * a, [(8,)]),
    "two results": ("x", lambda a: (cd.sum(a * a, "x"), cd.exp(a)), [(3,)]),
    "two reads": ("x", lambda a: a * cd.sum(a, "x") + a / (1 + a * a), [(3,)]),
    "an input as a result": ("x, x", lambda a, b: (a, a * b), [(3,), (3,)]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_operation_has_the_derivative_of_its_finite_difference(name: str) -> None:
    signature, function, shapes = PROGRAMS[name]
    rng = np.random.default_rng(5)
    arrays = [rng.normal(size=shape) for shape in shapes]
    sizes = {"b": 2, "x": 3, "g": 3} if "(b g)" in signature else {"x": 2} if "x+y" in signature else {}
    check(cd.algorithm(signature)(function).diagram, arrays, sizes=sizes)


@pytest.mark.parametrize("axis", ["t", "v"])
def test_the_cotangent_of_a_gather_is_added_where_it_was_read(axis: str) -> None:
    f = cd.algorithm(f"v d, int[{axis}]")(lambda A, at: cd.gather(A, "v", at))
    (got,) = several(f.grad().run(np.zeros((4, 2)), np.array([3, 1, 3, 3]), np.arange(8.0).reshape(4, 2)))
    expected = np.zeros((4, 2))
    np.add.at(expected, [3, 1, 3, 3], np.arange(8.0).reshape(4, 2))
    np.testing.assert_array_equal(got, expected)


def test_a_product_has_a_derivative_where_elements_are_zero() -> None:
    f = cd.algorithm("x ->")(lambda a: cd.prod(a, "x"))
    assert f.grad().run([2, 0, 5], 1).tolist() == [0, 10, 0]
    assert f.grad().run([0, 0, 5], 1).tolist() == [0, 0, 0]


def test_ties_of_a_maximum_share_evenly_and_corners_have_the_stated_derivative() -> None:
    assert cd.algorithm("x ->")(lambda a: cd.max(a, "x")).grad().run([3, 1, 3], 6).tolist() == [3, 0, 3]
    relu = cd.algorithm("x")(lambda a: cd.maximum(a, 0))
    assert relu.grad().run([-1, 0, 1], [1, 1, 1]).tolist() == [0, 0, 1]
    assert cd.algorithm("x")(lambda a: cd.abs(a)).grad().run([-2, 0, 2], [1, 1, 1]).tolist() == [-1, 0, 1]
    assert cd.algorithm("x")(lambda a: cd.floor(a) * a).grad().run([1.5], [1]).tolist() == [1]


def test_smooth_functions_that_are_made_of_branches_have_their_derivatives_where_these_meet() -> None:
    softplus = cd.algorithm("x")(lambda a: cd.nn.softplus(a)).grad()
    assert softplus.run([0], [1]).tolist() == [1 / 2]
    assert softplus.grad(wrt="a").run([0], [1], [1]).tolist() == [1 / 4]
    assert cd.algorithm("x")(lambda a: cd.nn.elu(a)).grad().run([0], [1]).tolist() == [1]


def test_clip_has_the_derivative_one_at_its_bounds() -> None:
    assert cd.algorithm("x")(lambda a: cd.clip(a, 0, 1)).grad().run([-1, 0, 0.5, 1, 2], [1] * 5).tolist() == [
        0,
        1,
        1,
        1,
        0,
    ]
    bounded = cd.algorithm("q x, x")(lambda a, low: cd.clip(a, low))
    assert str(bounded.cod) == "[q x]" and bounded.grad(wrt="a").run([[1.0, 2.0]], [1, 3], [[1, 1]]).tolist() == [
        [1, 0]
    ]


def test_the_constant_of_the_error_function_is_two_by_the_root_of_pi() -> None:
    assert float(TWO_BY_SQRT_PI) == 2 / math.sqrt(math.pi)


def test_the_weights_of_a_function_are_one_for_each_argument() -> None:
    for fn, (arity, _) in SCALARS.items():
        element = "int" if fn in OF_INTEGERS else "bool" if fn in ("and", "or", "not") else "real"
        ty = ArrayType((), element)
        types = [ArrayType((), "bool"), ty, ty] if fn == "where" else [ty] * arity
        graph = HashConsedGraph(Ty(*types))
        found = PARTIALS[fn](graph, range(arity), graph.add(map_box(fn, types), range(arity)))
        assert len(found) == arity and all(w is None or isinstance(w, Weight) for w in found)


# -- random programs ------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_programs_have_the_derivatives_of_their_finite_differences(data: st.DataObject) -> None:
    diagram = data.draw(cd.testing.diagrams(max_boxes=6))
    assume(any(map(has_derivative, diagram.dom)) and any(map(has_derivative, diagram.cod)))
    sizes = data.draw(cd.testing.sizes_for(diagram, max_size=3))
    drawn = data.draw(cd.testing.arrays_for(diagram, sizes))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    # Off the multiples of 1/4, where elements tie and comparisons jump.
    arrays = [
        0.9 * a + rng.uniform(-0.1, 0.1, a.shape) if has_derivative(ty) else a
        for a, ty in zip(drawn, diagram.dom, strict=True)
    ]
    check(diagram, arrays, strict=False, tolerance=1e-5, sizes=sizes)


# -- the library ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", cd.library.names())
def test_each_operator_of_the_library_has_the_derivatives_of_its_finite_differences(name: str) -> None:
    diagram, arrays, sizes = library_arrays(name)
    check(diagram, arrays, sizes=sizes)


# -- derivatives of derivatives, uninterpreted functions, loops ------------------------------------------------


def test_gradients_of_gradients_are_hessians() -> None:
    f = cd.algorithm("x ->", name="f")(lambda a: cd.log(cd.sum(cd.exp(a), "x")) + cd.prod(a, "x"))
    a, v = np.array([0.3, -0.4, 1.1]), np.array([1.0, 2.0, -1.0])
    first = f.grad()
    h = 1e-5
    expected = (first.run(a + h * v, 1) - first.run(a - h * v, 1)) / (2 * h)
    np.testing.assert_allclose(first.jvp("a").run(a, 1, v), expected, atol=1e-8)
    np.testing.assert_allclose(first.grad(wrt="a").run(a, 1, v), expected, atol=1e-8)
    check(first.grad(wrt="a").diagram, [a, np.array(0.7), v])


def test_an_uninterpreted_function_has_an_uninterpreted_derivative() -> None:
    f = cd.algorithm("x, x")(lambda a, b: cd.apply("f", a, b) * cd.apply("g", a))
    functions = {
        "f": lambda a, b: a * b * b, "f'0": lambda a, b: b * b, "f'1": lambda a, b: 2 * a * b, "g": np.exp, "g'": np.exp
    }  # fmt: skip
    check(f.diagram, [np.array([0.5, 2.0]), np.array([1.0, -1.5])], functions=functions)
    assert cd.prove(f.grad(), f.grad()).conditional is False


def test_an_uninterpreted_box_has_an_uninterpreted_derivative() -> None:
    x = ArrayType((Axis("x"),))
    f = cd.box("f", Ty(x), Ty(x)) >> cd.algorithm("x")(lambda a: a * a)
    grad = f.grad()
    assert [b.op.name for b in grad.boxes if isinstance(b.op, Generic)] == ["f", "vjp f"]
    functions = {
        "f": lambda a: a[::-1] ** 2,
        "vjp f": lambda a, g: 2 * a * g[::-1],
        "jvp f": lambda a, t: (2 * a * t)[::-1],
    }
    check(f.diagram, [np.array([0.5, 2.0, -1.0])], functions=functions)


def test_what_was_streamed_and_grouped_has_the_gradient_of_what_was_written() -> None:
    f = cd.algorithm("q x -> q", name="f")(lambda a: cd.log(cd.sum(cd.exp(a), "x")))
    assert f.stream("x").group("q").grad() == f.grad()
    loop = cd.Program(f.stream("x").group("q").diagram)
    a, g = np.random.default_rng(0).normal(size=(2, 3)), np.array([1.0, -2.0])
    np.testing.assert_allclose(loop.grad().run(a, g), f.grad().run(a, g), atol=1e-12)
