"""Any program of the builder is written as NumPy that gives what it gives, and as pseudocode that saves its results."""

from __future__ import annotations

import inspect
from types import FunctionType

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.codegen.numpy_source import source
from catdiag.codegen.pseudocode import pseudocode
from catdiag.rewrite.group import find, groupable


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_numpy_of_random_programs(data):
    program = data.draw(cd.testing.diagrams())
    sizes = data.draw(cd.testing.sizes_for(program))
    arrays = data.draw(cd.testing.arrays_for(program, sizes))
    axes = groupable(program)
    form = find(program, axes[:1]) if axes and data.draw(st.booleans()) else program
    want = cd.Program(program).run(*arrays, sizes=sizes)
    namespace: dict[str, object] = {}
    exec(source(form), namespace)
    made = next(v for v in namespace.values() if isinstance(v, FunctionType))
    named = [p.name for p in inspect.signature(made).parameters.values() if p.kind == p.KEYWORD_ONLY]
    tiles = data.draw(cd.testing.tiles_for(form, sizes))
    got = made(*arrays, **{n: v for n, v in {**sizes, **tiles}.items() if n in named})
    for g, w in zip(got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,)):
        assert np.shape(g) == np.shape(w), source(form)
        np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-9, err_msg=source(form))
    assert pseudocode(form).count("save out") == len(set(form.graph.outputs))
