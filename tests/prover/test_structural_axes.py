"""Split, merged, sliced and concatenated axes: laws proved for all sizes, what is false refuted, and run."""

from __future__ import annotations

import numpy as np
import pytest

import catdiag as cd
from catdiag.category import types
from catdiag.category.diagram import diagram_of
from catdiag.category.integer_polynomial import symbol
from catdiag.cost.traffic import io
from catdiag.execute.interpreter import run
from catdiag.execute.size_inference import tile_bounds
from catdiag.kernel.semantics import evaluate, inputs_of
from catdiag.kernel.terms import KernelError
from catdiag.prover.api import statement_of
from catdiag.prover.export import program
from catdiag.prover.identifiers import identifier
from catdiag.prover.refute import exact_execution
from catdiag.prover.refute.counterexample_search import refute
from catdiag.simulate.machine import count

R = cd.rearrange
BLOCKS = "q x, q y, x d, y d -> q d"
HEADS = "q (h d), x (h d), x (h d) -> q (h d)"


def two_parts(S, T, V, W):
    m = cd.maximum(cd.max(S, "x"), cd.max(T, "y"))
    p, r = cd.exp(S - m), cd.exp(T - m)
    top = cd.einsum("q x, x d -> q d", p, V) + cd.einsum("q y, y d -> q d", r, W)
    return top / (cd.sum(p, "x") + cd.sum(r, "y"))


def joined(S, T, V, W):
    w = cd.softmax(cd.concat([S, T], "x+y"), "x+y")
    return cd.einsum("q x+y, x+y d -> q d", w, cd.concat([V, W], "x+y"))


def merged_heads(Q, K, V):
    Q, K, V = R(Q, "q (h d) -> h q d"), R(K, "x (h d) -> h x d"), R(V, "x (h d) -> h x d")
    w = cd.softmax(cd.einsum("h q d, h x d -> h q x", Q, K), "x")
    return R(cd.einsum("h q x, h x d -> q h d", w, V), "q h d -> q (h d)")


def separate_heads(Q, K, V):
    Q, K, V = R(Q, "q (h d) -> q h d"), R(K, "x (h d) -> x h d"), R(V, "x (h d) -> x h d")
    e = cd.exp(cd.einsum("q h d, x h d -> q x h", Q, K))
    return R(cd.einsum("q x h, x h d -> q h d", e, V) / cd.sum(e, "x"), "q h d -> q (h d)")


PROVED = {
    "split, then concat": ("x+y d -> x+y d", lambda a: a, lambda a: cd.concat(cd.split(a, "x+y"), "x+y")),
    "of three": ("x+y+z -> x+y+z", lambda a: a, lambda a: cd.concat(cd.split(a, "x+y+z"), "x+y+z")),
    "concat, then split": ("x, y -> y", lambda a, b: b, lambda a, b: cd.split(cd.concat([a, b], "x+y"), "x+y")[1]),
    "concat, then slice": ("x, y -> x", lambda a, b: a, lambda a, b: cd.slice(cd.concat([a, b], "x+y"), "x+y", "x")),
    "the same axis twice": ("x, x ->", lambda a, b: cd.sum(a + b, "x"),
                            lambda a, b: cd.sum(cd.concat([a, b], "x+x"), "x+x")),
    "split, then merge": ("(b g) -> (b g)", lambda a: a, lambda a: R(R(a, "(b g) -> b g"), "b g -> (b g)")),
    "through another layout": ("(a b c) -> (a b c)", lambda a: cd.exp(a),
                               lambda a: R(cd.exp(R(a, "(a b c) -> c a b")), "c a b -> (a b c)")),
    "merge, then split": ("a b c -> b c a", lambda a: R(a, "a b c -> b c a"),
                          lambda a: R(R(a, "a b c -> (c a b)"), "(c a b) -> b c a")),
    "in two steps": ("a b c -> (a b) c", lambda a: R(a, "a b c -> (a b) c"),
                     lambda a: R(R(a, "a b c -> (a b c)"), "(a b c) -> (a b) c")),
    "two groups at once": ("(a b) (c d) -> (b d) (a c)", lambda a: R(a, "(a b) (c d) -> (b d) (a c)"),
                           lambda a: R(R(a, "(a b) (c d) -> d c b a"), "d c b a -> (b d) (a c)")),
    "an integer": ("g 2 -> (2 g)", lambda a: R(a, "g 2 -> (2 g)"),
                   lambda a: R(R(R(a, "g 2 -> (g 2)"), "(g 2) -> 2 g"), "2 g -> (2 g)")),
    "an axis of size one": ("g -> (g 1)", lambda a: R(a, "g -> (g 1)"),
                            lambda a: R(R(R(a, "g -> (1 g)"), "(1 g) -> 1 g"), "1 g -> (g 1)")),
    "a sum in a product": ("(b x+y) -> x+y b", lambda a: R(a, "(b x+y) -> x+y b"),
                           lambda a: R(cd.concat(cd.split(R(a, "(b x+y) -> b x+y"), "x+y"), "x+y"), "b x+y -> x+y b")),
    "sum over a concat": ("x, y ->", lambda a, b: cd.sum(a, "x") + cd.sum(b, "y"),
                          lambda a, b: cd.sum(cd.concat([a, b], "x+y"), "x+y")),
    "max over a concat": ("q x, y -> q", lambda a, b: cd.maximum(cd.max(a, "x"), cd.max(b, "y")),
                          lambda a, b: cd.max(cd.concat([a, b], "x+y"), "x+y")),
    "truth values": ("bool[x+y+z] -> bool[x+y+z]", lambda a: a,
                     lambda a: cd.concat(cd.split(a, "x+y+z"), "x+y+z")),
    "any over a concat": ("bool[x], bool[y] -> bool[]", lambda a, b: cd.any(a, "x") | cd.any(b, "y"),
                          lambda a, b: cd.any(cd.concat([a, b], "x+y"), "x+y")),
    "sum over a product": ("(b g) ->", lambda a: cd.sum(a, "(b g)"), lambda a: cd.sum(R(a, "(b g) -> b g"), "g b")),
    "sum over a merged axis": ("a b c ->", lambda a: cd.sum(a, "a b c"),
                               lambda a: cd.sum(R(a, "a b c -> (c b a)"), "(c b a)")),
    "a product in blocks": (BLOCKS, lambda a, b, c, d: cd.einsum("q x, x d -> q d", a, c)
                            + cd.einsum("q y, y d -> q d", b, d),
                            lambda a, b, c, d: cd.einsum("q x+y, x+y d -> q d", cd.concat([a, b], "x+y"),
                                                         cd.concat([c, d], "x+y"))),
    "merged batches": ("b h q d, b h x d -> (b h) q x",
                       lambda a, b: R(cd.einsum("b h q d, b h x d -> b h q x", a, b), "b h q x -> (b h) q x"),
                       lambda a, b: cd.einsum("(b h) q d, (b h) x d -> (b h) q x", R(a, "b h q d -> (b h) q d"),
                                              R(b, "b h x d -> (b h) x d"))),
    "softmax of two parts": (BLOCKS, joined, two_parts),
    "heads": (HEADS, merged_heads, separate_heads),
}  # fmt: skip
REFUTED = {
    "parts in the wrong order": ("x+x -> x+x", lambda a: a,
                                 lambda a: cd.concat(cd.split(a, "x+x")[::-1], "x+x")),
    "one part twice": ("x+x ->", lambda a: cd.sum(a, "x+x"), lambda a: 2 * cd.sum(cd.split(a, "x+x")[0], "x")),
    "the other layout": ("(b g) -> b g", lambda a: R(a, "(b g) -> b g"),
                         lambda a: R(a, "(b g) -> b g") + cd.index("b") - cd.index("g")),
    "a sum for a maximum": ("x, y ->", lambda a, b: cd.max(cd.concat([a, b], "x+y"), "x+y"),
                            lambda a, b: cd.max(a, "x") + cd.max(b, "y")),
    "parts normalised apart": (BLOCKS, joined, lambda S, T, V, W: (
        cd.einsum("q x, x d -> q d", cd.softmax(S, "x"), V) + cd.einsum("q y, y d -> q d", cd.softmax(T, "y"), W)) / 2),
}  # fmt: skip


def both(case):
    signature, left, right = case
    return cd.algorithm(signature)(left), cd.algorithm(signature)(right)


@pytest.mark.parametrize("name", PROVED)
def test_proved_in_both_directions_and_true_of_numbers(name):
    f, g = both(PROVED[name])
    assert not cd.prove(f, g).conditional
    assert not cd.prove(g, f).conditional
    assert refute(statement_of(diagram_of(f), g.diagram), tries=25) is None
    sizes = {"a": 2, "b": 3, "c": 2, "g": 3, "h": 2, "x": 2, "y": 3, "z": 1, "q": 2, "d": 3}
    rng = np.random.default_rng(0)
    arrays = []
    for ty in f.dom:
        values = rng.normal(size=[types.size_value(a.size, sizes) for a in ty.axes])
        arrays.append(values > 0 if ty.element == "bool" else values)
    np.testing.assert_allclose(f.run(*arrays, sizes=sizes), g.run(*arrays, sizes=sizes), rtol=1e-9)


@pytest.mark.parametrize("name", REFUTED)
def test_refuted(name):
    with pytest.raises(cd.Refuted):
        cd.prove(*both(REFUTED[name]))


def test_the_two_layouts_of_a_square_are_two():
    """(b g) and (g b), both axes of one size: a merged array and its merged transpose."""
    square = {"name": "A", "axes": [["b", "n"], ["g", "n"]], "element": "real"}

    def made(*parts):
        above = ["//", ["i", "w"], "n"]
        at = dict(zip(parts, (above, ["+", ["i", "w"], ["*", -1, ["*", "n", above]]])))
        node = {"op": "view", "args": [0], "axes": [["w", ["*", "n", "n"]]], "reads": [{"at": at, "where": []}]}
        return {"inputs": [square], "nodes": [node], "outputs": [[1, "real"]]}

    assert refute({"left": made("b", "g"), "right": made("g", "b"), "assume": []}) is not None
    assert refute({"left": made("b", "g"), "right": made("b", "g"), "assume": []}) is None


def test_numpy_and_the_exact_numbers_agree_with_reshape_and_concatenate():
    def all_of_them(a, b):
        return R(a, "(b g) d -> d (g b)"), cd.concat([b, b], "x+x"), *cd.split(cd.concat([b, R(a, "(b g) d -> b g d")],
                                                                                        "x+d"), "x+d")  # fmt: skip

    f = cd.algorithm("(b g) d, x")(all_of_them)
    sizes = {"b": 2, "g": 3, "d": 2, "x": 4}
    a, b = np.arange(12.0).reshape(6, 2), np.arange(4.0)
    t = a.reshape(2, 3, 2)
    wanted = [t.transpose(2, 1, 0).reshape(2, 6), np.concatenate([b, b]), np.broadcast_to(b, (2, 3, 4)), t]
    found = f.run(a, b, sizes=sizes)
    given = [
        exact_execution.build(list(map(identifier, ty.names)), v.shape, lambda i, v=v: exact_execution.Fraction(v[i]))
        for ty, v in zip(f.dom, (a, b))
    ]
    for ours, numbers, ty, expected in zip(
        found, exact_execution.run(program(f.diagram), given, sizes, {}, {}), f.cod, wanted
    ):
        order = {"b": 0, "g": 1}
        layout = np.argsort([order.get(n, 2) for n in ty.names], kind="stable")
        np.testing.assert_array_equal(np.transpose(ours, layout), expected)
        for i in np.ndindex(*ours.shape):
            assert numbers.at(dict(zip(map(identifier, ty.names), i))) == ours[i]


def test_a_part_of_an_array_is_a_view_and_a_merge_of_neighbours_too():
    from catdiag.category.ops import Reindex
    from catdiag.execute.interpreter import _reindex
    from catdiag.execute.named_arrays import NamedArray

    b, g = cd.Axis("b"), cd.Axis("g")
    data, sizes = np.zeros((2, 3)), {"b": 2, "g": 3}
    assert np.shares_memory(_reindex(Reindex("merge", b * g), [NamedArray(data, ("b", "g"))], sizes).data, data)
    line = np.zeros(5)
    for op in (Reindex("slice", b + g, 1),):
        assert np.shares_memory(_reindex(op, [NamedArray(line, ("b+g",))], sizes).data, line)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: cd.algorithm("q d")(lambda a: R(a, "q d -> q e")), "d, e on one only"),
        (lambda: cd.algorithm("q d")(lambda a: R(a, "q (h d) -> q h d")), "the array has axes"),
        (lambda: cd.algorithm("(b b)")(lambda a: R(a, "(b b) -> b b")), "twice"),
        (lambda: cd.algorithm("(b g) b")(lambda a: R(a, "(b g) b -> b g")), "twice"),
        (lambda: cd.algorithm("x")(lambda a: cd.split(a, "x")), "no coproduct"),
        (lambda: cd.algorithm("x+y")(lambda a: cd.slice(a, "x+y", "z")), "0 of the terms"),
        (lambda: cd.algorithm("x+x")(lambda a: cd.slice(a, "x+x", "x")), "cd.split gives all of them"),
        (lambda: cd.algorithm("x, y")(lambda a, b: cd.concat([b, a], "x+y")), "lacks axis 'x'"),
        (lambda: cd.algorithm("x, y x")(lambda a, b: cd.concat([a, b], "x+y+x")), "3 terms and 2 arrays"),
        (lambda: cd.algorithm("q x, y")(lambda a, b: cd.concat([a, b], "(x y)")), "expected a coproduct"),
    ],
)
def test_mistakes_are_told_at_the_users_line(make, says):
    with pytest.raises(cd.errors.CatdiagError, match=says) as caught:
        make()
    assert __file__ in str(caught.value)


READ = {"at": {"b__by__g": ["+", ["*", ["i", "b"], "g"], ["i", "g"]]}, "where": []}
GOOD = {"op": "view", "args": [0], "axes": [["g", "g"], ["b", "b"], ["d", "d"]], "reads": [READ]}


def at(e):
    return {"reads": [{"at": {"b__by__g": e}, "where": []}]}


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "turn"}, {"args": []}, {"args": [3]}, {"args": "0"}, {"axes": []}, {"axes": "gbd"}, {"reads": []},
        {"axes": [["b", "b"], ["g", "g"]]}, {"axes": [["b", "b"], ["b", "b"], ["g", "g"], ["d", "d"]]},
        {"axes": [["g", "g"], ["b", "b"], ["d", "b"]]}, {"reads": [READ, READ]}, {"reads": [READ | {"more": 1}]},
        {"reads": [{"at": READ["at"], "where": [["lt", 0, 1]]}]}, {"reads": [{"at": {}, "where": []}]},
        {"reads": [{"at": {"e": 0}, "where": []}]}, {"reads": [{"at": [], "where": []}]},
        {"args": [0, 0], "reads": [READ | {"where": [["ne", 0, 1]]}, READ]},
        {"args": [0, 0], "reads": [READ | {"where": [["lt", 0]]}, READ]},
        at(["i", "e"]), at(["i", 0]), at(["w", 0]), at(["w", 1]), at(["w", "A"]), at(["-", 1, 2]), at(["+", 1]),
        at(["+", 1, 2, 3]), at(True), at(1.5), at(""), at("n%"), at([]), at(None),
    ],
)  # fmt: skip
def test_a_malformed_node_is_refused(change):
    from catdiag.kernel.well_formed import well_formed

    def means(node):
        inputs = [{"name": "A", "axes": [["b__by__g", ["*", "b", "g"]], ["d", "d"]], "element": "real"}]
        made = {"inputs": inputs, "nodes": [node], "outputs": [[1, "real"]]}
        well_formed(made)
        return evaluate(made, inputs_of(made, {}), {}, lambda *args: None)

    assert str(means(GOOD)[0].term) == "A[i_b·g + i_g,i_d]"
    with pytest.raises(KernelError):
        means(GOOD | change)


def test_a_box_of_wrong_types_is_refused():
    from catdiag.category.box_types import check_box
    from catdiag.category.ops import Box, Reindex
    from catdiag.category.types import ArrayType, Axis, Ty, product  # noqa: F401

    b, g, d = Axis("b"), Axis("g"), Axis("d")
    good = Box(Reindex("split", b * g), Ty(ArrayType((b * g, d))), Ty(ArrayType((d, g, b))))
    check_box(good)
    assert eval(repr(good)) == good
    for op, dom, cod in [
        (Reindex("split", b * g), good.dom, Ty(ArrayType((b, g)))),
        (Reindex("split", b + g), good.dom, good.cod),
        (Reindex("split", b * g), Ty(ArrayType((Axis("(b g)", 4, "product", (b, g)), d))), good.cod),
        (Reindex("merge", b * g), good.dom, good.cod),
        (Reindex("slice", b + g, 2), Ty(ArrayType((b + g,))), Ty(ArrayType((b,)))),
        (Reindex("concat", b + g), Ty(ArrayType((b,))), Ty(ArrayType((b + g,)))),
    ]:
        with pytest.raises(cd.errors.CatdiagError):
            check_box(Box(op, dom, cod))


def test_derived_through_split_and_joined_axes_counted_by_machine_and_formula():
    def attend(Q, K, V):
        Q, K, V = R(Q, "q (h d) -> h q d"), R(K, "x (h d) -> h x d"), R(V, "x (h d) -> h x d")
        return cd.einsum("h q x, h x d -> h q d", cd.softmax(cd.einsum("h q d, h x d -> h q x", Q, K), "x"), V)

    f = cd.algorithm("q (h d), x (h d), x (h d) -> h q d")(attend)
    whole = cd.algorithm("(c x) ->")(lambda S: cd.sum(cd.exp(R(S, "(c x) -> c x")), "c x"))
    concat = cd.algorithm("q x, q y -> q")(lambda a, b: cd.sum(cd.exp(cd.concat([a, b], "x+y")), "x+y"))
    sizes, tiles = {"q": 5, "x": 7, "y": 2, "h": 2, "d": 3, "c": 2}, {"s_x": 2, "g_q": 3, "g_h": 1, "s_x_y": 4}
    rng = np.random.default_rng(0)
    for derived in (f.stream("x").group("h q"), f.group("h q").stream("x"), whole.stream("x"), concat.group("q"),
                    concat.stream("x+y").group("q"), f, whole, concat):  # fmt: skip
        diagram = getattr(derived, "diagram", derived)
        own = {k: v for k, v in tiles.items() if k in tile_bounds(diagram)}
        if diagram is not derived:
            assert not derived.theorem.conditional
            shapes = [[types.size_value(a.size, sizes) for a in ty.axes] for ty in diagram.dom]
            arrays = [rng.normal(size=s) for s in shapes]
            ours, theirs = run(diagram, arrays, own, sizes=sizes), run(derived.source, arrays, sizes=sizes)
            np.testing.assert_allclose(ours, theirs, rtol=1e-9)
        counted, formula = count(diagram, sizes, own), io(diagram)
        at = {symbol(k): v for k, v in {**sizes, **own}.items()}
        assert (formula.load.subs(at), formula.save.subs(at)) == (counted.load, counted.save)
        assert formula.memory.subs(at) == counted.peak


def test_what_cannot_be_streamed_or_grouped_says_why():
    late = cd.algorithm("x (h d), x ->")(lambda a, m: cd.sum(R(cd.sqrt(cd.abs(a - cd.max(m, "x"))), "x (h d) -> x h d"),
                                                            "x h d"))  # fmt: skip
    with pytest.raises(cd.errors.NotStreamable, match="known only at the end of the axis"):
        late.stream("x")
    with pytest.raises(cd.errors.NotGroupable, match="'h' as a part of its axis"):
        cd.algorithm("(h d) -> h d")(lambda a: R(cd.exp(a), "(h d) -> h d")).group("h")
