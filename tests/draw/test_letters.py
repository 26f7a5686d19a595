"""The formulas in boxes are those of the program: letters stand for what comes in, from the top."""

from __future__ import annotations

import math
import random
import re

import numpy as np
import pytest

import catdiag as cd
from catdiag.category.diagram import Diagram, diagram_of, of_box
from catdiag.category.ops import map_box
from catdiag.category.scalars import Apply, Cast, ScalarFunction
from catdiag.category.types import ArrayType, Axis
from catdiag.draw.memory_levels import placement
from catdiag.draw.render import scene_of
from catdiag.draw.string_diagram.sheet_geometry import plan_of
from catdiag.draw.string_diagram.sheets import sheet_of

KNOWN = {
    "sin": math.sin, "cos": math.cos, "erf": math.erf, "exp": math.exp, "sqrt": math.sqrt, "tanh": math.tanh,
    "max": max, "where": lambda c, a, b: a if c else b,
}  # fmt: skip
SIGNS = {"+": sum, "×": math.prod, "∧": all, "√": lambda a: math.sqrt(*a), "−": lambda a: -a[0]}
STEPS = [
    lambda a, b, c: a - b,
    lambda a, b, c: a / (1 + b * b),
    lambda a, b, c: cd.exp(-(a * a)),
    lambda a, b, c: a * b + c,
    lambda a, b, c: cd.where((a <= b) & (b <= c), c, 1.5),
    lambda a, b, c: cd.sqrt(a * a + 1) - b,
    lambda a, b, c: cd.maximum(a, b) - c,
    lambda a, b, c: (a - b) * (b - c),
    lambda a, b, c: a - (cd.tanh(b) - c),
    lambda a, b, c: -a / (c**2 + 1),
    lambda a, b, c: cd.sin(a - b) * cd.cos(c),
    lambda a, b, c: cd.erf(a) / (1 + cd.sin(b) * cd.sin(b)),
]


def read(text: str, values: list[float]) -> float:
    """What a formula says of what comes in, from the top."""
    if text in SIGNS:
        return SIGNS[text](values)
    if text in KNOWN:
        return KNOWN[text](*values)
    for sign, word in {"−": "-", "·": "*", "²": "**2", "∧": " and ", "≤": "<=", "√(": "sqrt("}.items():
        text = text.replace(sign, word)
    text = re.sub(r"√([a-z0-9.]+)", r"sqrt(\1)", text)
    return eval(text, {"__builtins__": {}, **KNOWN, **dict(zip("abcdefgh", values, strict=False))})


def drawn(diagram: Diagram, values: list[float], join: bool) -> list[float]:
    """What a picture of scalar functions says, read from left to right."""
    sheet = sheet_of(diagram_of(diagram), lambda _: False, placement(), join)
    plan = plan_of(sheet, False)
    got = dict(zip(sheet.inputs, values, strict=True))
    for column in plan.columns:
        for slot in (s for s in column if s.cell >= 0):
            cell = sheet.cells[slot.cell]
            come = sorted(
                (plan.output_heights(maker)[out][1], plan.output_heights(maker)[out][0])
                for maker, out, _ in slot.joins()
            )
            got[cell.outputs[0]] = read(cell.text, [got[w] for _, w in come])
    return [got[w] for w in sheet.outputs]


@pytest.mark.parametrize("join", [False, True], ids=["one by one", "joined"])
def test_formulas_read_from_the_top_are_the_program(join):
    rng = random.Random(7)
    for _ in range(40):
        number = rng.randint(1, 4)

        def program(*given):
            arrays = list(given)
            for _ in range(rng.randint(2, 8)):
                arrays.append(rng.choice(STEPS)(*(rng.choice(arrays[-5:]) for _ in range(3))))
            return arrays[-1], arrays[-2]

        diagram = cd.algorithm(", ".join(["x"] * number))(program)
        values = [rng.uniform(-2, 2) for _ in range(number)]
        expected = [out.item() for out in diagram.run(*(np.array([v]) for v in values))]
        assert drawn(diagram, values, join) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("fn", "drawn"), [("sqrt", "√"), (Apply("sqrt"), "sqrt"), (Apply("f"), "f"), (Cast("fp8"), "→ fp8")]
)
def test_a_user_function_is_drawn_by_its_name(fn: ScalarFunction, drawn: str) -> None:
    """An uninterpreted function that is called as one of the library's is another function."""
    texts = {getattr(item, "text", "") for item in scene_of(of_box(map_box(fn, [ArrayType((Axis("q"),))]))).items}
    assert drawn in texts and not ({"√"} - {drawn}) & texts
