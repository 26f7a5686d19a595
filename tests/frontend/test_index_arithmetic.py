"""Index arithmetic in programs: against NumPy's own functions, and against reading element by element."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.box_types import check_box
from catdiag.category.ops import Box, Read, View
from catdiag.category.ops import reindex_box as make
from catdiag.category.types import ArrayType, Axis, Ty

quick = settings(max_examples=60, deadline=None, derandomize=True)
A = np.arange(1.0, 13).reshape(3, 4)


def on(signature, function, *arrays, **sizes):
    return cd.algorithm(signature)(function).run(*arrays, sizes=sizes)


def test_structural_names_are_numpys():
    same = np.testing.assert_array_equal
    same(on("q x", lambda a: cd.pad(a, "x", 1, 2, value=7), A), np.pad(A, ((0, 0), (1, 2)), constant_values=7))
    same(on("q x", lambda a: cd.pad(a, "x", 0, 0), A), A)
    same(on("q x", lambda a: cd.pad(a, "x", -0, 1), A), np.pad(A, ((0, 0), (0, 1))))
    same(on("q x", lambda a: cd.reverse(a, "x"), A), A[:, ::-1])
    same(on("q x", lambda a: cd.reverse(a, "q x"), A), A[::-1, ::-1])
    same(on("q x", lambda a: cd.repeat(a, "x", 3), A), np.repeat(A, 3, axis=1))
    same(on("q x", lambda a: cd.tile(a, "q", 2), A), np.tile(A, (2, 1)))
    edges = on("q x, q", lambda a, v: cd.pad(a, "x", 0, 1, v), A, [5, 6, 7])
    same(edges, np.concatenate([A, [[5], [6], [7]]], axis=1))
    twice = on("q x", lambda a: cd.pad(cd.pad(a, "x", 1, value=5), "1+x", 2, 1), A)
    same(twice, np.pad(np.pad(A, ((0, 0), (1, 0)), constant_values=5), ((0, 0), (2, 1))))
    same(on("x", lambda a: cd.repeat(cd.repeat(a, "x", 3), "(x 3)", 2), A[0]), np.repeat(A[0], 6))
    same(on("x", lambda a: cd.tile(cd.repeat(a, "x", 3), "(x 3)", 2), A[0]), np.tile(np.repeat(A[0], 3), 2))
    same(on("q x, k", lambda a, b: cd.repeat(a, "x", "k"), A, [0, 0]), np.repeat(A, 2, axis=1))
    same(on("x", lambda a: cd.broadcast(a, "q=3 x"), A[0]), np.broadcast_to(A[0], (3, 4)))
    same(on("q x", lambda a: cd.stride(a, "x", "y", 2, start=1), A), A[:, 1::2])
    same(on("q x, int[t]", lambda a, i: cd.gather(a, "q", i), A, [2, 0, 2]), A[[2, 0, 2]])
    same(on("q x, int[q t]", lambda a, i: cd.gather(a, "x", i), A, [[0], [3], [1]]), A[[0, 1, 2], [0, 3, 1]][:, None])
    same(on("q 1 x", lambda a: cd.rearrange(a, "q 1 x -> x q"), A[:, None]), A.T)
    same(on("q x", lambda a: cd.rearrange(a, "q x -> q 1 x"), A), A[:, None])
    same(on("bool[x]", lambda a: cd.shift(a, "x", 1), np.array([True, True])), [0, 1])
    same(on("int[x]", lambda a: cd.shift(a, "x", -1, fill=-5), [1, 2]), [2, -5])
    same(on("x p", lambda a: cd.pad(cd.sum(a, "p"), "x", "p"), A), [0, 0, 0, 0, *A.sum(1)])


@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [(0, 2, 1), (1, None, 1), (-2, None, 1), (1, -1, 1), (0, None, 2), (1, 4, 2), (-3, -1, 1)],
)
def test_slices_are_pythons(start, stop, step):
    got = on("q x", lambda a: cd.slice(a, "x", start, stop, step, into="y"), A)
    np.testing.assert_array_equal(got, A[:, start:stop:step])


def test_slices_know_their_size_where_it_is_a_sum_of_sizes():
    assert cd.algorithm("x")(lambda a: cd.slice(a, "x", 1, 3)).cod[0].axes == (Axis("2", 2),)
    assert cd.algorithm("x")(lambda a: cd.slice(a, "x", -2)).cod[0].axes == (Axis("2", 2),)
    some = cd.algorithm("x, y")(lambda a, b: (cd.slice(a, "x", 0, cd.size("y"), into="z"), b))
    assert some.cod[0].axes == (Axis("z", "y"),)
    with pytest.raises(cd.errors.AxisError, match="into"):
        cd.algorithm("x")(lambda a: cd.slice(a, "x", 1, -1))
    with pytest.raises(cd.errors.AxisError, match="no element"):
        cd.algorithm("x")(lambda a: cd.slice(a, "x", 3, 3))
    for declared in ("x, y=3", "x, y"):
        with pytest.raises(cd.errors.AxisError, match="2 elements are taken"):
            cd.algorithm(declared)(lambda a, b: cd.slice(a, "x", 0, 2, into="y"))
    f = cd.algorithm("x -> y")(lambda a: cd.slice(a, "x", 0, 2, into="y") * cd.index("y") + cd.size("y"))
    assert f([5, 6, 7]).tolist() == [2, 8]
    moved = cd.algorithm("x, int[]")(lambda a, s: cd.slice(a, "x", s, s + 2))
    assert moved([1, 2, 3, 4], 1).tolist() == [2, 3]


@quick
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(0, 2), st.integers(1, 7))
def test_windows_are_those_of_a_padded_array(k, stride, dilation, low, high, n):
    a = np.arange(1.0, n + 1)
    padded = np.concatenate([np.zeros(low), a, np.zeros(high)])
    count = (len(padded) - dilation * (k - 1) - 1) // stride + 1
    f = cd.algorithm("x")(lambda x: cd.window(x, "x", f"y k={k}", stride, dilation, (low, high)))
    if count < 1:
        with pytest.raises(cd.errors.SizeError, match="axis 'y' has no index in range"):
            f(a)
        return
    want = [[padded[y * stride + j * dilation] for j in range(k)] for y in range(count)]
    np.testing.assert_array_equal(f(a), want)


@st.composite
def arithmetic(draw, depth=2):
    """A function of positions y and k, as Python on numbers and on positions alike."""
    if depth == 0:
        return draw(st.sampled_from([lambda y, k: y, lambda y, k: k, lambda y, k: 2, lambda y, k: -1]))
    a, b = draw(arithmetic(depth - 1)), draw(arithmetic(depth - 1))
    c = draw(st.integers(1, 3))
    return draw(
        st.sampled_from(
            [
                lambda y, k: a(y, k) + b(y, k),
                lambda y, k: a(y, k) - b(y, k),
                lambda y, k: a(y, k) * b(y, k),
                lambda y, k: (a(y, k) + y) // c,
                lambda y, k: (a(y, k) + k) % c,
            ]
        )
    )


@quick
@given(arithmetic(), arithmetic(), st.sampled_from([(3, 2), (1, 4), (2, 3)]), st.booleans())
def test_reindex_reads_element_by_element(at_q, at_x, sizes, swapped):
    y, k = sizes
    table = np.arange(1.0, 13).reshape(3, 4)

    def program(a, b):
        return cd.reindex(a, f"k={k} y={y}" if swapped else f"y={y} k={k}", q=at_q, x=at_x, fill=-1) + b

    got = on("q x d, d", program, table[:, :, None] * [1, 2], [0, 0])
    for i, j in itertools.product(range(y), range(k)):
        at = at_q(i, j), at_x(i, j)
        want = table[at] if 0 <= at[0] < 3 and 0 <= at[1] < 4 else None
        found = got[j, i] if swapped else got[i, j]
        assert found.tolist() == ([-1, -1] if want is None else [want, 2 * want])


def test_positions_may_read_arrays_and_other_axes():
    rolled = on("q x", lambda a: cd.reindex(a, "y=4", x=lambda y, q: (y + q) % cd.size("x")), A)
    np.testing.assert_array_equal(rolled, [np.roll(row, -k) for k, row in enumerate(A)])
    clamped = on("q x", lambda a: cd.reindex(a, "x", x=lambda x: cd.minimum(x + 1, cd.size("x") - 1)), A)
    np.testing.assert_array_equal(clamped, A[:, [1, 2, 3, 3]])
    offset = on("x, int[t]", lambda a, i: cd.reindex(a, "k=2", x=lambda k: k + i), A[0], [0, 2])
    np.testing.assert_array_equal(offset, [[1, 3], [2, 4]])
    picked = on("q x", lambda a: cd.reindex(a, "", x=1), A)
    np.testing.assert_array_equal(picked, A[:, 1])
    diagonal = on("q x y", lambda a: cd.reindex(a, "q", x=lambda q: q), A[:, :3, None])
    np.testing.assert_array_equal(diagonal[:, 0], np.diagonal(A[:, :3]))


def test_floor_division_and_remainder_of_positions():
    got = on("q x", lambda a: a * 0 + cd.index("x") // 2 + 10 * (cd.index("x") % 3) + 7 // cd.size("q"), A)
    np.testing.assert_array_equal(got[0], [x // 2 + 10 * (x % 3) + 2 for x in range(4)])
    whole = cd.algorithm("x")(lambda a: (cd.index("x") + 3) * 2 - 1)
    assert whole.cod[0].element == "int"
    for wrong in (
        lambda i: i // 0,
        lambda i: i // (i + 1),
        lambda i: i % -2,
        lambda i: (i * 0.5) // 2,
        lambda i: i // 1.5,
    ):
        with pytest.raises(cd.errors.TypeMismatch, match="// and %"):
            cd.algorithm("x")(lambda a, wrong=wrong: wrong(cd.index("x")))
    with pytest.raises(cd.errors.TypeMismatch, match="// and %"):
        cd.algorithm("x")(lambda a: a // 2)


def test_reading_outside_is_an_error_at_the_users_line():
    shifted = cd.algorithm("x")(lambda a: cd.reindex(a, "x", x=lambda x: x + 1))
    with pytest.raises(
        cd.errors.SizeError, match=r"axis 'x' is read at x \+ 1, which is 3 at x = 2: expected 0 to 2"
    ) as error:
        shifted([1, 2, 3])
    assert "test_index_arithmetic.py" in str(error.value)
    table = cd.algorithm("v d, int[t]")(lambda a, i: cd.gather(a, "v", i))
    with pytest.raises(cd.errors.SizeError, match=r"axis 'v' .* which is -1 at t = 1"):
        table(A, [0, -1])
    with pytest.raises(cd.errors.AxisError, match=r"axis '3' of size 3 .* from 1 to 3: expected 0 to 2"):
        cd.algorithm("3")(lambda a: cd.slice(a, "3", 1, 4))
    with pytest.raises(cd.errors.SizeError, match="size y is not known"):
        cd.algorithm("x")(lambda a: cd.reindex(a, "y", x=lambda y: y % 2)).run([1, 2, 3])


def test_what_is_not_taken_may_be_outside():
    f = cd.algorithm("x, int[t]")(lambda a, i: cd.gather(a, "x", i, fill=cd.size("x")))
    np.testing.assert_array_equal(f([5, 6], [-9, 0, 1, 2]), [2, 5, 6, 2])


@pytest.mark.parametrize(
    ("program", "error", "text"),
    [
        (lambda a: cd.shift(a, "z", 1), cd.errors.AxisError, "cannot shift axis 'z': the array has x"),
        (lambda a: cd.window(a, "x", "y"), cd.errors.SignatureError, "two new axes"),
        (lambda a: cd.reindex(a, "y=2", x=lambda y: y * 0.5), cd.errors.TypeMismatch, "expected integers"),
        (lambda a: cd.reindex(a, "y=2", x=lambda z, w: z), cd.errors.SignatureError, "expected axes as parameters"),
        (lambda a: cd.reindex(a, "y=2", x="y"), cd.errors.TypeMismatch, "expected a position"),
        (lambda a: cd.reindex(a, "x=3", x=lambda x: x), None, ""),
        (lambda a: cd.pad(a, "x", -1), cd.errors.AxisError, "low of cd.pad is -1"),
        (lambda a: cd.repeat(a, "x", 0), cd.errors.AxisError, "at least 1"),
        (lambda a: cd.repeat(a, "x", "x"), cd.errors.AxisError, "another axis"),
        (lambda a: cd.broadcast(a, "y"), cd.errors.AxisError, "leaves out axis 'x'"),
        (lambda a: cd.gather(a, "x", a), cd.errors.TypeMismatch, "expected integers"),
        (lambda a: cd.slice(a, "x", "y"), cd.errors.AxisError, "no coproduct"),
    ],
)
def test_mistakes_are_named(program, error, text):
    if error is None:
        cd.algorithm("x")(program)
        return
    with pytest.raises(error, match=text):
        cd.algorithm("x")(program)


def test_boxes_are_checked_printed_and_pickled():
    q, x, y, t = (Axis(n) for n in "qxyt")
    array, index = ArrayType((q, x)), ArrayType((t,), "int")
    view = View((y,), (Read((("x", ("+", ("i", "y"), ("w", 2))),), (("lt", ("i", "y"), "x"),)), Read()))
    good = make(view, [array, ArrayType(), index])
    check_box(good)
    assert str(good.cod) == "[q y t]"
    assert eval(repr(good)) == good == pickle.loads(pickle.dumps(good))
    check_box(Box(view, good.dom, Ty(ArrayType((t, y, q)))))
    bad = [
        (View((y,), ()), good.dom),
        (View((y,), (Read((), (("lt", 0, 1),)),)), good.dom),
        (View((y,), (Read((("z", 0),)),)), Ty(array)),
        (View((y,), (Read((("x", ("i", "z")),)),)), Ty(array)),
        (View((y,), (Read((("x", ("w", 0)),)),)), Ty(array)),
        (View((y,), (Read((("x", ("w", 1)),)),)), Ty(array, ArrayType((t,)))),
        (View((q, q), (Read((("x", 0),)),)), Ty(array)),
        (View((Axis("q", 3),), (Read((("x", 0),)),)), Ty(array)),
    ]
    for op, dom in bad:
        with pytest.raises((cd.errors.AxisError, cd.errors.TypeMismatch)):
            check_box(Box(op, dom, good.cod))
    for op, dom in ((view, good.dom), (View((y,), (Read((("x", 0),)),)), Ty(array))):
        with pytest.raises(cd.errors.TypeMismatch):
            check_box(Box(op, dom, Ty(array)))


def test_weaving_over_other_axes():
    f = cd.algorithm("x")(lambda a: cd.window(a, "x", "y k=2"))
    woven = f.weave(Axis("q"))
    np.testing.assert_array_equal(woven(A), [f(row) for row in A])


def test_rearrange_leaves_a_1_that_a_sum_of_axes_has():
    f = cd.algorithm("q x 1")(lambda a: cd.rearrange(cd.pad(a, "x", 1), "q 1+x 1 -> (1 q) 1+x"))
    assert str(f.cod) == "[(1 q) 1+x]"
    np.testing.assert_array_equal(f(A[:, :, None]), np.pad(A, ((0, 0), (1, 0))))
