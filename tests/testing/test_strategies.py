"""The strategies draw what they say, all of it, and shrink to something small."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag import testing
from catdiag.category.box_types import check
from catdiag.category.diagram import diagram_of
from catdiag.category.traversal import all_boxes
from catdiag.category.types import ArrayType, Axis, size_symbols, size_value
from catdiag.rewrite.stream import fold_search
from catdiag.testing.__main__ import main
from catdiag.testing.input_generators import sizes_near_blocks
from catdiag.testing.strategies.distribution import distribution
from catdiag.testing.strategies.equations import RULES, Pair
from catdiag.testing.strategies.op_strategies import BOX_KINDS, kind_name, kind_of
from catdiag.util.errors import CatdiagError, SizeError

ELEMENTS = ("real", "extended", "int", "bool")
few = settings(max_examples=15, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
many = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


# -- what is drawn ------------------------------------------------------------------------------------


def test_every_kind_of_box_is_drawn() -> None:
    found = distribution(testing.boxes(), lambda f: [kind_of(b) for b in diagram_of(f).boxes], 120)
    assert set(BOX_KINDS) <= set(found)


@pytest.mark.slow
def test_every_function_monoid_and_reindexing_is_drawn() -> None:
    found = distribution(
        testing.boxes(["map", "reduce", "reindex"]), lambda f: [kind_name(b) for b in diagram_of(f).boxes], 1000
    )
    from catdiag.category.scalars import MONOIDS, SCALARS

    wanted = {f"map {fn}" for fn in SCALARS} | {f"reduce {m}" for m in MONOIDS}
    wanted |= {f"reindex {kind}" for kind in ("split", "merge", "slice", "concat")}
    assert wanted <= set(found)


@few
@given(testing.boxes())
def test_boxes_stand_alone_and_are_well_formed(f: cd.category.Diagram) -> None:
    check(diagram_of(f))
    assert len(f) == 1


@few
@given(st.data())
def test_diagrams_of_a_wanted_type(data: st.DataObject) -> None:
    dom = data.draw(testing.objects(elements=ELEMENTS, composite=True))
    cod = data.draw(testing.objects(elements=ELEMENTS, composite=True))
    f = data.draw(testing.diagrams(dom=dom, cod=cod))
    check(diagram_of(f))
    assert f.dom == dom and f.cod == cod


@few
@given(st.data())
def test_diagrams_with_wanted_boxes(data: st.DataObject) -> None:
    wanted = data.draw(st.lists(st.sampled_from(BOX_KINDS), unique=True, max_size=3))
    f = data.draw(testing.diagrams(boxes=wanted))
    check(diagram_of(f))
    assert set(wanted) <= {kind_of(b) for b in all_boxes(diagram_of(f))}


@few
@given(testing.diagrams(streamable="x"))
def test_streamable_diagrams_stream(f: cd.category.Diagram) -> None:
    check(diagram_of(f))
    assert fold_search.find(diagram_of(f), "x").diagram.dom == f.dom


@pytest.mark.slow
@many
@given(st.data())
def test_many_wanted_diagrams(data: st.DataObject) -> None:
    fold_search.find(data.draw(testing.diagrams(streamable="q")), "q")
    dom = data.draw(testing.objects(elements=ELEMENTS, composite=True))
    f = data.draw(
        testing.diagrams(dom=dom, cod=dom, boxes=data.draw(st.lists(st.sampled_from(BOX_KINDS), unique=True)))
    )
    check(diagram_of(f))
    assert f.dom == f.cod == dom


def test_wanted_diagrams_that_cannot_be() -> None:
    with pytest.raises(CatdiagError, match="no boxes are 'exp'"):
        testing.diagrams(boxes=["exp"])
    with pytest.raises(CatdiagError, match="given as a list"):
        testing.boxes("map")
    with pytest.raises(CatdiagError, match="no input has axis 'z'"):
        testing.diagrams(dom=[ArrayType((Axis("q"),))], streamable="z")
    with pytest.raises(CatdiagError, match="leave out cod and boxes"):
        testing.diagrams(boxes=["fold"], streamable="x")
    with pytest.raises(CatdiagError, match="dom is 3: expected an object"):
        testing.diagrams(dom=3)  # type: ignore[arg-type]


# -- equations ----------------------------------------------------------------------------------------


def agree(pair: Pair, seed: int) -> bool:
    """Whether both sides give the same, up to rounding, on arrays of two or more along each axis."""
    symbols = sorted({s for ty in pair.left.dom for a in ty.axes for s in size_symbols(a.size)})
    sizes = {s: 2 + k for k, s in enumerate(symbols)}
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=tuple(size_value(a.size, sizes) for a in ty.axes)) for ty in pair.left.dom]
    left, right = (cd.Program(side).run(*arrays, sizes=sizes) for side in (pair.left, pair.right))
    several = zip(left, right, strict=True) if isinstance(left, tuple) else [(left, right)]
    return all(np.allclose(a, b, rtol=1e-9) for a, b in several)


@few
@given(testing.rewrites())
def test_rewrites_are_as_they_are_labelled(pair: Pair) -> None:
    assert pair.left.dom == pair.right.dom and pair.left.cod == pair.right.cod
    assert pair.equal == all(agree(pair, seed) for seed in range(6))


def test_every_rule_and_every_slip_is_as_it_is_labelled() -> None:
    for name, law in RULES.items():
        left = cd.algorithm(law.signature)(law.left)
        for slip, right in {"": law.right, **law.slips}.items():
            pair = Pair(diagram_of(left), cd.algorithm(law.signature)(right).diagram, not slip, name)
            assert pair.equal == all(agree(pair, seed) for seed in range(6)), (name, slip)


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_what_is_equal_is_proved_and_what_is_not_refuted(name: str) -> None:
    law = RULES[name]
    left = cd.algorithm(law.signature)(law.left)
    assert cd.equivalent(left, cd.algorithm(law.signature)(law.right)) is True
    for right in law.slips.values():
        assert cd.equivalent(left, cd.algorithm(law.signature)(right)) is False


# -- sizes, arrays, memories -----------------------------------------------------------------------------


@few
@given(st.data())
def test_hard_sizes_and_arrays_fit(data: st.DataObject) -> None:
    f = cd.library.get(data.draw(st.sampled_from(["masked_attention", "cross_entropy", "softmax"])))
    block = f.dom[0].axes[0].name
    sizes = data.draw(testing.adversarial_sizes(f, {block: 8}))
    assert sizes[block] in sizes_near_blocks(8)
    for a, ty in zip(data.draw(testing.adversarial_arrays(f, sizes, "fp16")), f.dom, strict=True):
        assert a.shape == tuple(size_value(axis.size, sizes) for axis in ty.axes)
        assert a.dtype.kind == {"int": "i", "bool": "b"}.get(ty.element, "f")
        assert a.dtype.kind != "i" or a.max() < sizes["v"]


def test_hard_sizes_of_unknown_blocks_are_refused() -> None:
    with pytest.raises(SizeError, match="blocks names 'z'"):
        testing.adversarial_sizes(cd.library.get("softmax"), {"z": 8})


@few
@given(testing.hierarchies())
def test_hierarchies_are_hierarchies(h) -> None:
    assert h.root.capacity is None and 2 <= len(h.levels) <= 4
    capacities = [level.capacity for level in h.levels[1:]]
    assert capacities == sorted(capacities, reverse=True)


# -- shrinking -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_found_is_small() -> None:
    assert len(find(testing.diagrams(), lambda f: any(kind_of(b) == "einsum" for b in diagram_of(f).boxes))) <= 2
    assert len(find(testing.diagrams(streamable="x"), lambda f: True)) == 1
    one = find(testing.rewrites(False), lambda pair: True)
    assert not any(ty.axis("h") or ty.axis("n") for ty in one.left.dom)
    assert [len(h.levels) for h in [find(testing.hierarchies(), lambda h: len(h.levels) > 2)]] == [3]


# -- the command --------------------------------------------------------------------------------------------


def test_the_command_reports_a_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hierarchies", "--examples", "20"]) == 0
    assert capsys.readouterr().out.startswith("hierarchies, of 20 examples\n  scratchpad")
    assert main(["nothing"]) == main(["--examples", "0"]) == 2
    assert "no strategy is called 'nothing': expected one of axes" in capsys.readouterr().err
