"""The strategies draw well-formed diagrams with finite values, and arrays that fit them."""

import subprocess
import sys

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag import testing
from catdiag.category.diagram import Graph, diagram_of
from catdiag.category.types import ArrayType, Ty, size_value


def check_graph(graph: Graph) -> None:
    types = list(graph.dom)
    for node in graph.nodes:
        assert Ty(*(types[w] for w in node.inputs)) == node.box.dom
        types.extend(node.box.cod)
    assert all(w < len(types) for w in graph.outputs)


@given(testing.diagrams())
def test_drawn_diagrams_are_well_formed_and_without_dead_boxes(f: cd.category.Diagram) -> None:
    check_graph(diagram_of(f).graph)
    needed = set(diagram_of(f).graph.outputs)
    wire = len(f.dom) + sum(len(b.cod) for b in diagram_of(f).boxes)
    for node in reversed(diagram_of(f).graph.nodes):
        outs = range(wire - len(node.box.cod), wire)
        assert needed & set(outs)
        needed |= set(node.inputs)
        wire = outs[0] if len(outs) else wire


@given(st.data())
@settings(max_examples=60)
def test_values_are_finite_and_have_the_shape_of_the_type(data: st.DataObject) -> None:
    f = data.draw(testing.diagrams())
    sizes = data.draw(testing.sizes_for(f))
    results = cd.Program(f)(*data.draw(testing.arrays_for(f, sizes)))
    for result, ty in zip(results if len(f.cod) > 1 else [results], f.cod, strict=True):
        assert result.shape == tuple(size_value(a.size, sizes) for a in ty.axes)
        assert np.isfinite(result).all() and np.abs(result).max() <= 1e6


@given(st.data())
def test_arrays_follow_element_types_and_composite_axes(data: st.DataObject) -> None:
    ty = data.draw(testing.array_types(elements=("real", "extended", "int", "bool"), composite=True))
    f = cd.id(ty)
    (array,) = data.draw(testing.arrays_for(f))
    assert array.dtype.kind == {"real": "f", "extended": "f", "int": "i", "bool": "b"}[ty.element]
    assert np.array_equal(f(array), array)


@given(testing.diagrams(inputs=(ArrayType((cd.Axis("q"),)), ArrayType()), max_outputs=1))
def test_inputs_can_be_fixed(f: cd.category.Diagram) -> None:
    assert str(f.dom) == "[q] @ []" and len(f.cod) == 1


def test_importing_the_strategies_does_not_import_hypothesis() -> None:
    code = "import catdiag.testing, sys; assert 'hypothesis' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_hypothesis_the_error_says_how_to_install_it() -> None:
    code = (
        "import sys; sys.modules['hypothesis'] = None\nimport catdiag.testing as t\n"
        "try:\n    t.axes()\nexcept Exception as e:\n    assert 'pip install' in str(e), e\n"
        "else:\n    raise SystemExit(1)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
