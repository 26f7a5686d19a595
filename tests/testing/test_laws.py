"""The library under its own strategies: laws on programs that run, of wanted types and of every kind of box."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag import testing
from catdiag.category.box_types import check
from catdiag.category.diagram import *  # noqa: F403
from catdiag.category.diagram import copy
from catdiag.category.functor import weave
from catdiag.category.ops import *  # noqa: F403
from catdiag.category.scalars import *  # noqa: F403
from catdiag.category.types import *  # noqa: F403
from catdiag.category.types import Axis
from catdiag.execute.interpreter import run
from catdiag.testing.error_bounds import Rounding
from catdiag.testing.float_formats import format_of
from catdiag.testing.tolerance import error_bounds

few = settings(max_examples=12, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
many = settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
SIZES = {"q": 2, "x": 3, "d": 1, "h": 2}


def several(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def on(f: cd.category.Diagram, arrays: Any) -> tuple[Any, ...]:
    """What a diagram gives; () for one without outputs."""
    return several(cd.Program(f).run(*arrays, sizes=SIZES)) if len(f.cod) else ()


def same(one: Any, two: Any) -> bool:
    return len(one) == len(two) and all(
        np.allclose(a, b, rtol=1e-9, equal_nan=True) for a, b in zip(one, two, strict=True)
    )


def meaning_is_a_functor(data: st.DataObject) -> None:
    middle = data.draw(testing.objects(2))
    f = data.draw(testing.diagrams(cod=middle, max_boxes=4))
    g = data.draw(testing.diagrams(dom=middle, max_boxes=4, max_outputs=2))
    beside = data.draw(testing.diagrams(max_inputs=2, max_boxes=4))
    a, b = (data.draw(testing.arrays_for(d, SIZES)) for d in (f, beside))
    made = on(f, a)
    assert same(on(f >> g, a), on(g, made))
    assert same(on(f @ beside, (*a, *b)), (*made, *on(beside, b)))
    assert same(on(f >> copy(f.cod), a), on(copy(f.dom) >> f @ f, a))  # meaning cannot tell once from twice


def loops_give_the_textbook_form(data: st.DataObject) -> None:
    f = data.draw(testing.diagrams(streamable="x"))
    form = data.draw(testing.blocked(f))
    check(form)
    sizes = data.draw(testing.sizes_for(f, max_size=6))
    arrays = data.draw(testing.arrays_for(f, sizes))
    tiles = data.draw(testing.tiles_for(form, sizes))
    found, wanted = several(run(form, arrays, tiles)), several(run(f, arrays))
    assert all(
        np.allclose(a, b, rtol=1e-6, atol=1e-6 * (1 + np.abs(b).max())) for a, b in zip(found, wanted, strict=True)
    )


def weaving_is_mapping(data: st.DataObject) -> None:
    f = data.draw(testing.diagrams(max_boxes=5, names=("q", "x", "d")))
    stacks = [data.draw(testing.arrays_for(f, SIZES)) for _ in range(2)]
    woven = several(
        cd.Program(weave(f, Axis("n"))).run(*map(np.stack, zip(*stacks, strict=True)), sizes={**SIZES, "n": 2})
    )
    assert same(woven, tuple(map(np.stack, zip(*(on(f, arrays) for arrays in stacks), strict=True))))


def boxes_are_given_back(data: st.DataObject) -> None:
    f = data.draw(testing.boxes())
    assert eval(repr(f)) == f and hash(eval(repr(f))) == hash(f)
    again = pickle.loads(pickle.dumps(f))
    assert again == f == eval(repr(again))


def rounding_stays_within_what_is_allowed(data: st.DataObject) -> None:
    f = data.draw(testing.diagrams())
    sizes = data.draw(testing.sizes_for(f))
    arrays = data.draw(testing.arrays_for(f, sizes))
    single = format_of("float32")
    near = error_bounds(f, arrays, Rounding(single, single, np.dtype(np.float64)))
    exact, narrow = several(run(f, arrays)), several(run(f, arrays, dtype=np.float32))
    for bound, v, x in zip(near, exact, narrow, strict=True):
        assert np.allclose(
            np.where(np.isfinite(bound.errors), bound.values, 0), np.where(np.isfinite(bound.errors), v, 0), rtol=1e-9
        )
        assert np.all(np.abs(x.astype(float) - v) <= bound.errors * 1.0001 + 1e-12 * np.abs(v))


LAWS = (
    meaning_is_a_functor,
    loops_give_the_textbook_form,
    weaving_is_mapping,
    boxes_are_given_back,
    rounding_stays_within_what_is_allowed,
)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_laws(law: Any) -> None:
    few(given(st.data())(law))()


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_laws_at_length(law: Any) -> None:
    many(given(st.data())(law))()
