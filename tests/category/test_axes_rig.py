"""Axes as a rig category's objects, their sizes as its image in the natural numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catdiag.category.box_types import rename_box
from catdiag.category.ops import map_box
from catdiag.category.types import (
    ArrayType,
    Axis,
    Ty,
    coproduct,
    one,
    product,
    show,
    size_symbols,
    size_value,
    union,
    zero,
)
from catdiag.util.errors import AxisError, SizeError, TypeMismatch

SIZES = {"a": 0, "b": 2, "c": 3, "d": 5}
names = st.sampled_from([*map(Axis, SIZES), Axis("7", 7), Axis("n", 4), one, zero])
axes = st.recursive(
    names, lambda inner: st.builds(lambda p, q, plus: p + q if plus else p * q, inner, inner, st.booleans())
)


def value(axis: Axis) -> int:
    return size_value(axis.size, SIZES)


@given(axes, axes, axes)
def test_sizes_are_the_image_in_the_naturals(a, b, c):
    assert value(a + b) == value(a) + value(b)
    assert value(a * b) == value(a) * value(b)
    assert (value(one), value(zero)) == (1, 0)
    assert value(a * (b + c)) == value(a * b + a * c)
    assert value(a * b) == value(b * a)
    assert value(a * zero) == 0


@given(axes, axes, axes)
def test_sums_and_products_are_strictly_associative_with_units(a, b, c):
    assert (a + b) + c == a + (b + c) == coproduct(a, b, c)
    assert (a * b) * c == a * (b * c) == product(a, b, c)
    assert a + zero == a == zero + a
    assert a * one == a == one * a


@given(axes)
def test_repr_gives_the_axis_back(a):
    assert eval(repr(a)) == a
    assert hash(eval(repr(a))) == hash(a)
    assert size_value(a.size, SIZES) == eval(show(a.size), SIZES.copy())
    assert size_symbols(a.size) <= SIZES.keys()


def test_layouts_are_told_apart():
    b, g, h = Axis("b"), Axis("g"), Axis("h")
    assert b * g != g * b
    assert b + g != g + b
    assert b * (g + h) != b * g + b * h
    assert str(b * (g + h)) == "(b g+h)"
    assert Axis("b") != Axis("b", 3)
    assert eval(repr(Axis("b", "s_b", "name"))) == Axis("b", "s_b")
    local = Axis("(b g)", "t", "product", (b, g))
    assert eval(repr(local)) == local != b * g


def test_many_factors_cost_no_recursion():
    long = product(*[Axis(f"a{k}") for k in range(20_000)])
    assert size_value(long.size, {f"a{k}": 1 for k in range(20_000)}) == 1
    assert len(size_symbols(long.size)) == 20_000
    assert show(long.size).startswith("a0*a1*")
    assert long == product(*[Axis(f"a{k}") for k in range(20_000)])
    nested = 1
    for _ in range(20_000):
        nested = ("+", nested, 1)
    assert size_value(nested, {}) == 20_001


@pytest.mark.parametrize("name", ["", "2q", "a b", "a-b", "(b g)"])
def test_a_name_is_an_identifier(name):
    with pytest.raises(AxisError, match="cannot name an axis"):
        Axis(name)


def test_mistakes_say_what_was_expected():
    q, x = Axis("q"), Axis("x")
    with pytest.raises(AxisError, match=r"(?s)cannot name an axis.*test_axes_rig\.py:\d+: Axis\("):
        Axis("2q")
    with pytest.raises(AxisError, match="'x' has size -1: expected a natural number"):
        Axis("x", -1)
    with pytest.raises(AxisError, match=r"axis 'q' occurs twice in one array \[q x q\]"):
        ArrayType((q, x, q))
    with pytest.raises(AxisError, match="unknown element type 'float'"):
        ArrayType((q,), "float")
    with pytest.raises(SizeError, match="size 'q' is not given"):
        size_value(q.size, {"x": 2})
    two, three = ArrayType((Axis("x", 2),)), ArrayType((q, Axis("x", 3)))
    with pytest.raises(AxisError, match=r"axis 'x' has size 2 in array 0 \[x\] and 3 in array 1 \[q x\]"):
        union([two, three])
    with pytest.raises(AxisError, match=r"test_axes_rig\.py"):
        map_box("add", [two, three])
    with pytest.raises(TypeMismatch, match="unknown scalar function 'sinn'"):
        map_box("sinn", [two])
    with pytest.raises(TypeMismatch, match="expected the axes q x:3"):
        rename_box(three, {}, [q])
    with pytest.raises(AxisError, match="cannot rename axis 'y'"):
        rename_box(three, {"y": "z"})


@given(st.lists(st.integers(0, 3), max_size=4), st.lists(st.integers(0, 3), max_size=4))
def test_objects_are_a_free_monoid(left, right):
    wires = [ArrayType(), ArrayType((Axis("x"),)), ArrayType((Axis("x", 3),)), ArrayType((), "bool")]
    a, b = Ty(*(wires[k] for k in left)), Ty(*(wires[k] for k in right))
    assert (a @ b).arrays == a.arrays + b.arrays
    assert a @ Ty() == a == Ty() @ a
    assert len(a @ b) == len(a) + len(b)
    assert eval(repr(a @ b)) == a @ b and hash(a @ b) == hash(Ty(*a, *b))
    assert (a == b) == (left == right)
