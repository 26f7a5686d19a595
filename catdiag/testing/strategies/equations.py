"""Strategies for equations: two programs that are equal, or a near miss, and which of these, by construction.

Each of `RULES` is an equation with variants that differ from it in one place, like slips: a bound off by one, a missing
factor, a sign. A draw maps one of them over further axes, and puts it inside a program that preserves differences: an
injective function, or the result paired with another function of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catdiag.category.diagram import Diagram
from catdiag.category.functor import weave
from catdiag.frontend import builder, elementwise, indexing, reshape
from catdiag.testing.strategies.type_strategies import drawn_by, strategies_of

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Program = Callable[..., Any]


@dataclass(frozen=True)
class Pair:
    """Two diagrams of one type. `.equal` says whether they are equal, `.name` from which rule they are made.

    Those that are not equal differ at some sizes, which may have to be 2 or more.

    >>> from hypothesis import given
    >>> @given(rewrites())
    ... def test_my_prover(pair):
    ...     assert my_prover(pair.left, pair.right) is pair.equal
    """

    left: Diagram
    right: Diagram
    equal: bool
    name: str


@dataclass(frozen=True)
class Law:
    """An equation between programs; `slips` are programs that are nearly its right side."""

    signature: str
    left: Program
    right: Program
    slips: dict[str, Program]


def _sum(a: Any, axis: str = "x") -> Any:
    return builder.sum(a, axis)


RULES: dict[str, Law] = {
    "factor of a sum": Law(
        "x, ->", lambda A, c: _sum(c * A), lambda A, c: c * _sum(A),
        {"squared": lambda A, c: c * c * _sum(A), "added": lambda A, c: c + _sum(A), "left out": lambda A, c: _sum(A)},
    ),
    "exponential of a sum": Law(
        ", ->", lambda a, b: elementwise.exp(a + b), lambda a, b: elementwise.exp(a) * elementwise.exp(b),
        {"sum": lambda a, b: elementwise.exp(a) + elementwise.exp(b),
         "sign": lambda a, b: elementwise.exp(a) / elementwise.exp(b)},
    ),
    "associativity of products": Law(
        "a b, b c, c d -> a d",
        lambda A, B, C: builder.einsum("a c, c d -> a d", builder.einsum("a b, b c -> a c", A, B), C),
        lambda A, B, C: builder.einsum("a b, b d -> a d", A, builder.einsum("b c, c d -> b d", B, C)),
        {"one left out": lambda A, B, C: builder.einsum("a b, c d -> a d", A, C)},
    ),
    "distributivity": Law(
        "a b, a b, b c -> a c",
        lambda A, B, C: builder.einsum("a b, b c -> a c", A + B, C),
        lambda A, B, C: builder.einsum("a b, b c -> a c", A, C) + builder.einsum("a b, b c -> a c", B, C),
        {"sign": lambda A, B, C: builder.einsum("a b, b c -> a c", A, C) - builder.einsum("a b, b c -> a c", B, C),
         "first twice": lambda A, B, C: 2 * builder.einsum("a b, b c -> a c", A, C)},
    ),
    "maximum of what is shifted": Law(
        "x, ->", lambda A, c: builder.max(A + c, "x"), lambda A, c: builder.max(A, "x") + c,
        {"sign": lambda A, c: builder.max(A, "x") - c, "minimum": lambda A, c: builder.min(A, "x") + c},
    ),
    "order of sums": Law(
        "x y ->", lambda A: _sum(_sum(A), "y"), lambda A: _sum(_sum(A, "y")),
        {"maximum": lambda A: _sum(builder.max(A, "y"))},
    ),
    "variance by squares": Law(
        "x ->", lambda A: builder.mean((A - builder.mean(A, "x")) ** 2, "x"),
        lambda A: builder.mean(A * A, "x") - builder.mean(A, "x") ** 2,
        {"not squared": lambda A: builder.mean(A * A, "x") - builder.mean(A, "x"),
         "sums": lambda A: _sum(A * A) - builder.mean(A, "x") ** 2},
    ),
    "tanh by sigmoid": Law(
        "->", lambda a: elementwise.tanh(a), lambda a: 2 * elementwise.sigmoid(2 * a) - 1,
        {"argument": lambda a: 2 * elementwise.sigmoid(a) - 1, "offset": lambda a: 2 * elementwise.sigmoid(2 * a)},
    ),
    "reversed twice": Law(
        "x -> x", lambda A: indexing.reverse(indexing.reverse(A, "x"), "x"), lambda A: A,
        {"once": lambda A: indexing.reverse(A, "x")},
    ),
    "mask": Law(
        "q x -> q", lambda A: _sum(elementwise.where(builder.index("x") <= builder.index("q"), A, 0)),
        lambda A: _sum(elementwise.where(builder.index("q") < builder.index("x"), 0, A)),
        {"off by one": lambda A: _sum(elementwise.where(builder.index("x") < builder.index("q"), A, 0)),
         "one more": lambda A: _sum(elementwise.where(builder.index("x") <= builder.index("q") + 1, A, 0)),
         "other side": lambda A: _sum(elementwise.where(builder.index("q") <= builder.index("x"), A, 0))},
    ),
    "sum of what is joined": Law(
        "x, y ->", lambda A, B: builder.sum(reshape.concat([A, B], "x+y"), "x+y"),
        lambda A, B: _sum(A) + _sum(B, "y"),
        {"sign": lambda A, B: _sum(A) - _sum(B, "y"), "one left out": lambda A, B: _sum(A)},
    ),
    "logarithm of a sum of exponentials": Law(
        "x ->", lambda A: elementwise.log(_sum(elementwise.exp(A))),
        lambda A: builder.max(A, "x") + elementwise.log(_sum(elementwise.exp(A - builder.max(A, "x")))),
        {"not added back": lambda A: elementwise.log(_sum(elementwise.exp(A - builder.max(A, "x")))),
         "maximum only": lambda A: builder.max(A, "x") + 0 * _sum(A)},
    ),
    "weights of what is shifted": Law(
        "x, -> x", lambda A, c: elementwise.exp(A + c) / _sum(elementwise.exp(A + c)),
        lambda A, c: elementwise.exp(A) / _sum(elementwise.exp(A)) + 0 * c,
        {"scaled": lambda A, c: elementwise.exp(A) / _sum(elementwise.exp(A)) * (1 + c * c),
         "other sum": lambda A, c: elementwise.exp(A) / _sum(elementwise.exp(2 * A)) + 0 * c},
    ),
    "square of a difference": Law(
        ", ->", lambda a, b: (a - b) * (a - b), lambda a, b: a * a - 2 * a * b + b * b,
        {"one product": lambda a, b: a * a - a * b + b * b, "sign": lambda a, b: a * a - 2 * a * b - b * b},
    ),
    "absolute value": Law(
        "->", lambda a: abs(a), lambda a: elementwise.maximum(a, -a),
        {"positive part": lambda a: elementwise.maximum(a, 0), "smaller": lambda a: elementwise.minimum(a, -a)},
    ),
    "split sum": Law(
        "(x y) ->", lambda A: builder.sum(A, "(x y)"),
        lambda A: _sum(builder.max(reshape.rearrange(A, "(x y) -> x y"), "y"))
        + _sum(_sum(reshape.rearrange(A, "(x y) -> x y"), "y"))
        - _sum(builder.max(reshape.rearrange(A, "(x y) -> x y"), "y")),
        {"of maxima": lambda A: _sum(builder.max(reshape.rearrange(A, "(x y) -> x y"), "y"))},
    ),
}  # fmt: skip
"""The equations, by name."""


def rewrites(equal: bool | None = None) -> SearchStrategy[Pair]:
    """Pairs of programs and whether they are equal: all pairs, only equal ones, or only near misses.

    Shrinks to a rule by itself.

    >>> from hypothesis import find
    >>> pair = find(rewrites(False), lambda pair: pair.name.startswith("mask"))
    >>> pair.name, pair.equal
    ('mask: off by one', False)
    """
    st = strategies_of()

    def pair(draw: Callable[[Any], Any]) -> Pair:
        name = draw(st.sampled_from(list(RULES)))
        law = RULES[name]
        same = draw(st.just(True) | st.just(False)) if equal is None else equal
        slip = None if same else draw(st.sampled_from(list(law.slips)))
        right = law.right if slip is None else law.slips[slip]
        sides = [builder.algorithm(law.signature, name=name)(_of(law.left, program)) for program in (law.left, right)]
        context = draw(st.sampled_from(["", "", "tanh", "scaled", "beside"]))
        sides = [_inside(side, context) for side in sides]
        for axis in draw(st.lists(st.sampled_from(["h", "n"]), unique=True, max_size=2)):
            every = draw(st.booleans())
            chosen = None if every else draw(st.lists(st.integers(0, len(sides[0].dom) - 1), min_size=1, unique=True))
            sides = [weave(side, axis, chosen) for side in sides]
        return Pair(sides[0], sides[1], same, name + (f": {slip}" if slip else ""))

    return drawn_by(pair)


def _of(named: Program, program: Program) -> Program:
    """A program with the parameters of another."""
    import functools

    return functools.wraps(named)(lambda *arrays: program(*arrays))


def _inside(side: Diagram, context: str) -> Diagram:
    """The diagram followed by an injective function."""
    if not context:
        return side
    functions: dict[str, Callable[[Any], Any]] = {
        "tanh": elementwise.tanh,
        "scaled": lambda a: 3 * a + 1,
        "beside": lambda a: (a, elementwise.exp(elementwise.minimum(a, 0))),
    }
    after = builder.program(list(side.cod), functions[context], ("a",), context)
    joined = side >> after
    joined.names, joined.title = side.names, side.title
    return joined
