"""What users hand in by mistake: an error of the library that names it and says what is expected, never a raw one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy

import catdiag as cd
from catdiag.optimum.crossover import crossover
from catdiag.planner.fusions import fusions

F = cd.algorithm("q x -> q", name="f")(lambda A: cd.sum(A, "x"))
M, N = sympy.symbols("M n", positive=True)
SIZES = {"q": 8, "x": 8}

WRONG: dict[str, Callable[[], Any]] = {
    "no diagram to prove": lambda: cd.prove(3, F),  # type: ignore[arg-type]
    "a text to prove": lambda: cd.prove("f", F),  # type: ignore[arg-type]
    "nothing to compare with": lambda: cd.equivalent(F, None),  # type: ignore[arg-type]
    "an assumption alone": lambda: cd.prove(F, F, assume="q >= 2"),
    "no assumptions": lambda: cd.prove(F, F, assume=None),  # type: ignore[arg-type]
    "an assumption that is no text": lambda: cd.prove(F, F, assume=[3]),  # type: ignore[list-item]
    "an assumption nested without end": lambda: cd.prove(F, F, assume=["(" * 900 + "q" + ")" * 900 + " >= 1"]),
    "an assumption with a lone surrogate": lambda: cd.prove(F, F, assume=["\ud800 >= 1"]),
    "a limit that is text": lambda: cd.prove(F, F, limit="soon"),  # type: ignore[arg-type]
    "a limit that is an array": lambda: cd.prove(F, F, limit=np.ones(3)),  # type: ignore[arg-type]
    "pairs that are none": lambda: cd.prove_all(None),  # type: ignore[arg-type]
    "a pair of one": lambda: cd.prove_all([(F,)]),  # type: ignore[list-item]
    "a pair of others": lambda: cd.prove_all([(F, 3)]),  # type: ignore[list-item]
    "an executor that is none": lambda: cd.prove_all([(F, F)], executor="threads"),  # type: ignore[arg-type]
    "an axis without a name": lambda: cd.Axis(None),  # type: ignore[arg-type]
    "an axis that is an array": lambda: cd.Axis(np.ones(2)),  # type: ignore[arg-type]
    "a size that is an array": lambda: cd.Axis("q", np.ones(2)),  # type: ignore[arg-type]
    "axes that are text": lambda: cd.category.ArrayType("q"),  # type: ignore[arg-type]
    "axes that are none": lambda: cd.category.ArrayType(None),  # type: ignore[arg-type]
    "the identity of nothing": lambda: cd.id(None),  # type: ignore[arg-type]
    "copies of a diagram": lambda: cd.copy(F),  # type: ignore[arg-type]
    "copies without end": lambda: cd.copy(F.dom, 10**30),
    "a swap of names": lambda: cd.swap("q", "x"),  # type: ignore[arg-type]
    "weaved over nothing": lambda: F.weave(None),  # type: ignore[arg-type]
    "weaved in a number": lambda: F.weave(cd.Axis("b"), inputs=3),  # type: ignore[arg-type]
    "weaved in nothing": lambda: F.weave(cd.Axis("b"), inputs=[None]),  # type: ignore[list-item]
    "grouped along an array": lambda: F.group(np.ones(2)),  # type: ignore[arg-type]
    "as many passes as there are integers": lambda: F.stream("x", passes=int),  # type: ignore[arg-type]
    "levels that are a number": lambda: F.io(levels=3),
    "a logarithm of a negative number": lambda: cd.log(-1),
    "a root of a negative number": lambda: cd.sqrt(-1.0),
    "an exponential beyond floats": lambda: cd.exp(10**30),
    "a capacity that is a program": lambda: F.lower_bound("__import__('os').getcwd()"),
    "a capacity that is a list": lambda: F.lower_bound([]),
    "a capacity that is no number": lambda: F.lower_bound(float("nan")),
    "an optimum under a program": lambda: F.group("q").io().optimum("print(1)"),  # type: ignore[arg-type]
    "an optimum under a truth": lambda: F.group("q").io().optimum(True),
    "a whole optimum at no sizes": lambda: F.group("q").io().integer_optimum(None, 8),  # type: ignore[arg-type]
    "a whole optimum in no memory": lambda: F.group("q").io().integer_optimum(SIZES, None),  # type: ignore[arg-type]
    "a bound at text": lambda: F.lower_bound().at({"q": "8"}, 8),  # type: ignore[dict-item]
    "a bound at no mapping": lambda: F.lower_bound().at(3, 8),  # type: ignore[arg-type]
    "a bound at an unknown size": lambda: F.lower_bound().at({**SIZES, "typo": 3}, 8),
    "a bound in no memory": lambda: F.lower_bound().at(SIZES, float("nan")),
    "a ratio over nothing": lambda: F.lower_bound().ratio(None),
    "a crossover of one number": lambda: crossover(3, M, "M"),  # type: ignore[arg-type]
    "a crossover of text": lambda: crossover("M", N, M),  # type: ignore[arg-type]
    "a crossover of the fused that is a number": lambda: fusions(F).crossover(3),  # type: ignore[arg-type]
    "a plan at no sizes": lambda: F.group("q").plan("H100", None),  # type: ignore[arg-type]
    "a plan at an array": lambda: F.group("q").plan("H100", np.ones(2)),  # type: ignore[arg-type]
    "a plan on a number": lambda: F.group("q").plan(3, SIZES),  # type: ignore[arg-type]
    "the best way in no memory": lambda: fusions(F).best(SIZES, None),  # type: ignore[arg-type]
    "spread over text": lambda: F.group("q").sharding("q"),  # type: ignore[arg-type]
    "spread over nothing": lambda: F.group("q").sharding(None),  # type: ignore[arg-type]
    "spread over a list": lambda: F.group("q").sharding({"q": [2]}),  # type: ignore[dict-item]
    "a library of lists": lambda: cd.library.get([]),  # type: ignore[arg-type]
    "a chip of nothing": lambda: cd.hardware.load(None),  # type: ignore[arg-type]
    "a chip of bytes": lambda: cd.hardware.loads(b"x"),  # type: ignore[arg-type]
    "nothing written": lambda: cd.hardware.dumps(None),  # type: ignore[arg-type]
    "a memory of a type": lambda: F.lower_bound().at(SIZES, int),  # type: ignore[arg-type]
    "counts of a number": lambda: cd.testing.assert_counts_match(3),  # type: ignore[arg-type]
    "counts at an unknown size": lambda: cd.testing.assert_counts_match(F.group("q"), sizes={"typo": 3}),
}


@pytest.mark.parametrize("what", WRONG)
def test_the_error_is_ours(what: str) -> None:
    with pytest.raises(cd.errors.CatdiagError) as caught:
        WRONG[what]()
    assert caught.value.message.strip()
    assert len(caught.value.message) < 1500
