"""Formulas: parentheses are where the tree needs them, in every dialect."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from catdiag.category.formula import (
    NOTATIONS,
    PLAIN,
    Formula,
    big,
    call,
    difference,
    infix,
    negative,
    number,
    symbol,
    where,
)
from catdiag.category.formula_names import BIG
from catdiag.category.latex_formulas import LATEX
from catdiag.draw.label_formulas import label
from catdiag.draw.report.mathml import MATHML

VALUES = {"a": Fraction(2), "b": Fraction(-3), "c": Fraction(5, 7)}
FUNCTIONS = {
    "+": lambda *args: sum(args),
    "−": lambda left, right: left - right,
    "·": lambda left, right: left * right,
    "/": lambda left, right: left / right,
    "negative": lambda arg: -arg,
    "big": lambda _, body: 10 * body + 1,
}


def drawn(rng: random.Random, depth: int) -> Formula:
    """A formula of arithmetic and sums."""
    if not depth or rng.random() < 0.15:
        return rng.choice([symbol("a"), symbol("b"), symbol("c"), number(rng.randint(-3, 9)), number(Fraction(2, 3))])
    op = rng.choice(["+", "−", "·", "/", "negative", "big"])
    if op == "negative":
        return negative(drawn(rng, depth - 1))
    if op == "big":
        return big("sum", ["x"], drawn(rng, depth - 1))
    left, right = drawn(rng, depth - 1), drawn(rng, depth - 1)
    return difference(left, right) if op == "−" else infix(op, left, right)


def value(of: Formula) -> Fraction:
    if of.op == "symbol":
        return VALUES.get(of.data, Fraction(0))
    return Fraction(of.data) if of.op == "number" else FUNCTIONS[of.op](*map(value, of.args))


class Reader:
    """Reads plain text back, with the conventions of the field: Σ reaches to the end of products."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text.replace(" ", ""), 0

    def sees(self, sign: str) -> bool:
        found = self.text.startswith(sign, self.at)
        self.at += len(sign) if found else 0
        return found

    def sum(self) -> Fraction:
        found = self.product()
        while self.at < len(self.text) and self.text[self.at] in "+-":
            found = found + self.product() if self.sees("+") else found - self.product(self.sees("-"))
        return found

    def product(self, _: bool = False) -> Fraction:
        if self.sees("-"):
            return -self.product()
        if self.sees("Σ_x"):
            return 10 * self.product() + 1
        found = self.atom()
        while self.at < len(self.text) and self.text[self.at] in "·/":
            found = found * self.atom() if self.sees("·") else found / self.atom(self.sees("/"))
        return found

    def atom(self, _: bool = False) -> Fraction:
        if self.sees("("):
            found = self.sum()
            assert self.sees(")")
            return found
        start = self.at
        while self.at < len(self.text) and self.text[self.at].isalnum():
            self.at += 1
        word = self.text[start : self.at]
        return VALUES[word] if word in VALUES else Fraction(word)


@pytest.mark.parametrize("seed", range(300))
def test_text_means_what_the_tree_means(seed):
    formula = drawn(random.Random(seed), 4)
    try:
        wanted = value(formula)
    except ZeroDivisionError:
        return
    reader = Reader(formula.text)
    assert reader.sum() == wanted, formula.text
    assert reader.at == len(reader.text)


def test_every_operation_is_printed_by_every_dialect():
    for op in NOTATIONS:
        data = {"number": Fraction(1), "big": "sum"}.get(op, "a")
        count = 0 if op in ("symbol", "word", "number", "decimal", "infinity") else 3 if op == "cases" else 2
        formula = Formula(op, tuple(map(symbol, "xyz"))[:count], data)
        for printed in (PLAIN.print(formula), MATHML.print(formula), LATEX.print(formula), label(formula)):
            assert printed, op


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (infix("=", big("max", ["x"], symbol("a")), symbol("b")), "(max_x a) = b"),
        (infix("+", symbol("a"), big("sum", ["x"], symbol("b"))), "a + Σ_x b"),
        (infix("+", infix("+", symbol("a"), big("sum", ["x"], symbol("b"))), symbol("c")), "(a + Σ_x b) + c"),
        (infix("+", symbol("c"), symbol("max_score")), "c + max_score"),
        (infix("·", infix("+", symbol("c"), symbol("max_score")), symbol("a")), "(c + max_score)·a"),
        (infix("∧", infix("∨", symbol("a"), symbol("b")), symbol("c")), "(a ∨ b) ∧ c"),
        (difference(symbol("a"), negative(infix("·", symbol("b"), symbol("c")))), "a + b·c"),
        (where(symbol("a"), symbol("b"), where(symbol("c"), symbol("a"), symbol("b"))), "where(a, b, where(c, a, b))"),
        (infix("·", number(-3), number(Fraction(-1, 2))), "(-3)·(-1/2)"),
        (infix("+", number(10**30), number(Fraction(1, 10**30))), "1e30 + 1e-30"),
        (call("f", infix("+", symbol("a"), symbol("b"))), "f(a + b)"),
    ],
)
def test_texts(formula, text):
    assert formula.text == text


def test_parts_are_replaced_at_once():
    a, b = symbol("a"), symbol("b")
    assert infix("+", a, infix("·", a, b)).replaced({a: b, b: infix("+", a, a)}).text == "b + b·(a + a)"


def test_signs_of_reductions_are_those_of_the_monoids():
    from catdiag.category.scalars import MONOIDS

    assert set(MONOIDS) <= set(BIG)
