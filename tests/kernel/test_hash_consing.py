"""Equal terms are one object while they live, and equal by structure where they are not; steps share the way down."""

from __future__ import annotations

import copy
import gc
import json
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from catdiag.kernel import terms
from catdiag.kernel.checker import Checker
from catdiag.kernel.context import Context
from catdiag.kernel.judgments import Judge
from catdiag.kernel.rewrite_rules import Zipper, apply
from catdiag.kernel.terms import KernelError, Term, add, big, bound, fn, idx, mul, num, read, size
from catdiag.solvers.z3 import Z3

PROOFS = Path(__file__).resolve().parents[2] / "proofs"


def _made() -> Term:
    return big("sum", size("n"), mul(num(Fraction(1, 2)), read("A", bound(0)), fn("exp", idx("q"))))


def test_equal_terms_are_one_object_while_they_live() -> None:
    t = _made()
    assert _made() is t
    assert pickle.loads(pickle.dumps(t)) is t
    assert copy.deepcopy(t) is t
    assert num(2) is num(Fraction(2))
    assert len({t, _made(), size("n"), idx("n"), bound(0), num(0), read("n")}) == 6


def test_terms_that_were_made_twice_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by two threads: equality is one of structure, whatever the table says."""
    t = _made()
    monkeypatch.setattr(terms, "_LIVING", terms._Living())
    other = _made()
    assert other is not t
    assert (other, hash(other), {t: 1}[other]) == (t, hash(t), 1)
    assert size("n") is not t.args[0] and size("n") == t.args[0]
    assert add(t, other) != add(t, size("n"))


def test_terms_of_one_hash_are_compared_by_structure(monkeypatch: pytest.MonkeyPatch) -> None:
    """As hash(-1) is hash(-2), and as any two hashes may be."""
    assert num(-1) != num(-2) and hash(num(-1)) == hash(num(-2))
    # The terms whose hashes are changed are those of this test alone.
    monkeypatch.setattr(terms, "_LIVING", terms._Living())
    for t, other in (
        (size("n"), idx("n")), (size("n"), size("m")), (read("A"), read("A", idx("q"))),
        (read("B", idx("q")), read("B")),
        (read("A", idx("q")), read("A", size("q"))), (fn("exp", size("k")), fn("log", size("k"))),
    ):  # fmt: skip
        other._hash = t._hash
        assert t != other and other != t, (t, other)


def test_dead_terms_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    table = terms._Living()
    monkeypatch.setattr(terms, "_LIVING", table)
    monkeypatch.setattr(terms, "_FEW", 100)
    table.most = 100
    living = [num(k) for k in range(60)]
    for k in range(1000):
        num(1000 + k)
    gc.collect()
    assert len(table) <= 200
    assert all(num(k) is t for k, t in enumerate(living))


def test_an_error_prints_its_terms_when_it_is_read(z3: Z3) -> None:
    with pytest.raises(KernelError, match=r"^A\[i_q\] is no product or sum$") as refused:
        apply(Context(z3), read("A", idx("q")), "flatten", [])
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)
    deep = size("n")
    for _ in range(5000):
        deep = fn("exp", deep)
    assert str(KernelError("{} is no sum", deep)) == "a deep term is no sum"
    assert str(KernelError("braces {} stay")) == "braces {} stay"


class _OneByOne(Checker):
    """A checker that compares what steps make with what each of them makes of the whole term."""

    compared = 0

    def rewrite(self, ctx: Context, t: Term, steps: Any) -> Term:
        found = super().rewrite(ctx, t, steps)
        if all(rule != "equal" for rule, *_ in steps):
            for rule, path, *args in steps:
                t = apply(ctx, t, rule, path, args)
            assert t is found
            self.compared += len(steps)
        return found


@pytest.mark.parametrize("name", ["stream_causal_attention", "chan_variance", "softmax_of_logarithm"])
def test_steps_on_the_way_make_what_single_steps_make(z3: Z3, name: str) -> None:
    checker = _OneByOne(z3)
    checker.check(json.loads((PROOFS / f"{name}.json").read_text(encoding="utf-8")))
    assert checker.compared > 5


def test_a_place_is_looked_for_in_what_is_there(z3: Z3) -> None:
    a, b = read("a"), read("b")
    here = Zipper(Context(z3), fn("ite", fn("lt", a, b), add(a, add(a, b)), b))
    here.move([1, 1])
    here.put(num(1))
    here.move([1])
    assert here.term == add(a, num(1))
    assert here.weight == here.whole().weight
    here.move([0])
    here.put(fn("lt", b, a))
    # What is known in a branch is what the condition says now.
    here.move([1])
    assert here.ctx.entails(fn("lt", b, a))
    assert not here.ctx.entails(fn("lt", a, b))
    for path in ([True], [1, 2], [-1], ["1"], {}, "1"):
        with pytest.raises(KernelError):
            here.move(path)
    steps = [["flatten", [1]], ["flatten", [True]]]
    with pytest.raises(KernelError, match="no part True"):
        Judge(z3).rewrite(Context(z3), add(a, add(a, b)), steps)
