"""The geometry of pictures: nothing overlaps, wires end where they should, and few of them cross, whatever is drawn."""

from __future__ import annotations

import dataclasses
import os
import random
import subprocess
import sys
from collections import defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import Diagram, diagram_of
from catdiag.category.ops import bodies
from catdiag.category.types import size_symbols
from catdiag.draw.scene import Curve, Frame, Label, Scene, Shape
from catdiag.draw.string_diagram import layering
from catdiag.draw.string_diagram.layout import layout
from catdiag.testing import blocked, cascades, diagrams, einsums
from tests.draw.checker import crossings, faults, kinks
from tests.draw.pictured import ODD, anyhow, around, array, beside, bricks, chain, series_parallel

FEW = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))


# -- the checker finds what is wrong -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def good() -> Scene:
    found = layout(cd.library.get("softmax_contraction").diagram, open=True)
    assert not faults(found)
    return found


def changed(scene: Scene, kind: type, number: int, **changes: object) -> Scene:
    """The scene with one item of a kind changed: numbers are added, anything else is put in its place."""
    of_kind = [k for k, item in enumerate(scene.items) if isinstance(item, kind)]
    items = list(scene.items)
    old = items[of_kind[number]]
    new = {k: getattr(old, k) + v if isinstance(v, float) else v for k, v in changes.items()}
    items[of_kind[number]] = dataclasses.replace(old, **new)
    return dataclasses.replace(scene, items=tuple(items))


def moved(scene: Scene, number: int, place: int, x: float, y: float) -> Scene:
    """The scene with one place of one wire elsewhere."""
    wire = [item for item in scene.items if isinstance(item, Curve)][number]
    places = list(wire.places)
    places[place] = (places[place][0] + x, places[place][1] + y)
    return changed(scene, Curve, number, places=tuple(places))


def bent(scene: Scene) -> int:
    """The number of a wire that is not straight."""
    wires = [item for item in scene.items if isinstance(item, Curve)]
    return next(k for k, wire in enumerate(wires) if len({y for _, y in wire.places}) > 1 and len(wire.places) > 4)


def body(scene: Scene) -> int:
    """The number of a box."""
    return next(k for k, s in enumerate(i for i in scene.items if isinstance(i, Shape)) if s.kind == "map")


PLANTED = {
    "a text on another": (lambda s: changed(s, Label, 2, y=_label(s, 3).y - _label(s, 2).y), "overlaps"),
    "a box on a wire": (lambda s: changed(s, Shape, body(s), y=15.0), "runs through"),
    "a box out of its frame": (lambda s: changed(s, Frame, 0, width=-60.0), "cuts"),
    "a gap without a text": (lambda s: _without(s, Label, 3), "has no text"),
    "a wire not at its port": (lambda s: moved(s, 0, -1, 0.5, 0.0), "its port"),
    "a wire not level": (lambda s: moved(s, bent(s), 1, 0.0, 3.0), "not level"),
    "a wire with a corner": (lambda s: moved(s, bent(s), 4, 0.0, 6.0), "corner"),
    "a wire to nowhere": (lambda s: changed(s, Curve, 0, ends=("", "")), "which is no port"),
    "a wire left out": (lambda s: _without(s, Curve, 3), "has no wire"),
    "a text out of the picture": (lambda s: changed(s, Label, 0, x=-1000.0), "not inside the picture"),
    "too small a picture": (lambda s: dataclasses.replace(s, width=s.width - 30), "out of the picture"),
    "a box too narrow": (lambda s: changed(s, Shape, body(s), x=8.0, width=-16.0), "wider than"),
}  # fmt: skip


def _label(scene: Scene, number: int) -> Label:
    return [item for item in scene.items if isinstance(item, Label)][number]


def _without(scene: Scene, kind: type, number: int) -> Scene:
    of_kind = [k for k, item in enumerate(scene.items) if isinstance(item, kind)]
    return dataclasses.replace(scene, items=tuple(i for k, i in enumerate(scene.items) if k != of_kind[number]))


@pytest.mark.parametrize("kind", PLANTED)
def test_the_checker_finds_what_is_wrong(good, kind):
    spoil, word = PLANTED[kind]
    found = faults(spoil(good))
    assert found and any(word in line for line in found), found


def test_wires_that_run_on_each_other_are_found():
    scene = layout(ODD["an input that is read late"]())
    wires = [item for item in scene.items if isinstance(item, Curve)]
    longest = max(wires, key=lambda wire: wire.places[-1][0] - wire.places[0][0])
    (x, y), (right, _) = longest.places[0], longest.places[-1]
    ports = dict(scene.ports, one=(x + 1, y + 0.3), other=(right + 1, y + 0.3))
    along = Curve(tuple((a + 1, b + 0.3) for a, b in longest.places), ends=("one", "other"))
    found = faults(dataclasses.replace(scene, items=(*scene.items, along), ports=ports))
    assert any("run on each other" in line for line in found)


def test_boxes_out_of_line_are_found():
    scene = layout(beside(2))
    assert faults(scene) == []
    assert any("not in line" in line for line in faults(changed(scene, Shape, 1, x=-2.0)))


def test_crossings_are_counted():
    assert crossings(layout(chain(5))) == 0
    crossed = cd.swap(array("x"), array("y"))
    assert crossings(layout(crossed.diagram)) == 1
    assert crossings(layout(cd.swap(array("x"), array("a b c")).diagram)) == 3


# -- everything is drawn without a fault -------------------------------------------------------------------


def drawn(diagram: Diagram, **options: object) -> Scene:
    """The scene of a diagram, without faults, whose texts are about what the diagram has."""
    scene = layout(diagram_of(diagram), **options)
    assert faults(scene) == []
    known = names_of(diagram)
    for label in scene.items:
        if isinstance(label, Label) and label.role == "axis":
            assert said_axis(label) in known, label
    return scene


def names_of(diagram: Diagram) -> set[str]:
    """What axes of a diagram and of its insides are called: by name, and by the sizes of their parts."""
    found: set[str] = set()
    todo, seen = [diagram_of(diagram)], set()
    while todo:
        inside = todo.pop()
        if id(inside) in seen:
            continue
        seen.add(id(inside))
        types = [*inside.dom, *inside.cod, *(ty for box in inside.boxes for ty in (*box.dom, *box.cod))]
        for axis in (axis for ty in types for axis in ty.axes):
            found |= {axis.name, str(axis), str(axis.size), *size_symbols(axis.size)}
        for box in inside.boxes:
            todo += bodies(box.op)
    return found


def said_axis(label: Label) -> str:
    return label.title.removeprefix("axis ").partition(" of ")[0]


@pytest.mark.parametrize("name", cd.library.names())
def test_the_library(name):
    diagram = cd.library.get(name)
    closed, opened = drawn(diagram), drawn(diagram, open=True)
    assert closed.width <= opened.width + 1e-6
    assert kinks(closed) == kinks(opened) == []


@pytest.mark.parametrize("name", ODD)
def test_odd_ones(name):
    diagram = ODD[name]()
    for options in ({}, {"items": True}, {"join": True}):
        drawn(diagram, **options)


def _random(kind: str) -> st.SearchStrategy[Diagram]:
    return {
        "programs": diagrams(max_inputs=5, max_boxes=12, max_outputs=3),
        "einsums": einsums(),
        "cascades": cascades(),
        "blocked": cascades().flatmap(blocked),
    }[kind]


def _drawn(diagram: Diagram, **options: object) -> None:
    drawn(diagram, **options)


KINDS = ("programs", "einsums", "cascades", "blocked")


@pytest.mark.parametrize("kind", KINDS)
def test_random_ones(kind):
    FEW(given(_random(kind), st.booleans())(lambda diagram, items: _drawn(diagram, items=items)))()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_random_ones(kind):
    levels = st.sampled_from([("HBM", "SMEM"), ("HBM", "SMEM", "registers", "tensor cores"), ("L2", "L1", "L0")])
    options = st.fixed_dictionaries(
        {"open": st.booleans(), "items": st.booleans(), "join": st.booleans(), "levels": levels}
    )
    MANY(given(_random(kind), options)(lambda diagram, options: _drawn(diagram, **options)))()


def derivations() -> list[str]:
    """The theorems of the library that are about streams, groups, parts, blocks left out, and fusions."""
    folder = os.path.dirname(cd.__file__)
    return sorted(
        file[:-3]
        for file in os.listdir(os.path.join(folder, "..", "proofs"))
        if file.endswith(".py") and file.partition("_")[0] in ("stream", "group", "split", "skip", "fold", "passes")
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", derivations())
def test_derivations(name):
    import runpy

    folder = os.path.join(cd.library.__path__[0], "..", "..", "proofs")
    stated = runpy.run_path(os.path.join(folder, f"{name}.py"))
    for diagram in (stated["left"], stated["right"]):
        shown = diagram if isinstance(diagram, Diagram) else diagram.diagram
        for levels in (("HBM", "SMEM"), ("HBM", "SMEM", "registers", "tensor cores")):
            drawn(shown, levels=levels)
            drawn(shown, levels=levels, open=True, items=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["attention", "causal_attention", "mlp", "rms_norm_linear"])
def test_fused(name):
    drawn(cd.library.get(name).fuse().diagram)


# -- the picture is of the diagram -------------------------------------------------------------------------


def joined(scene: Scene) -> set[tuple[str, str]]:
    """Which ports of boxes and edges wires lead from and to, as far as one can follow them with a finger."""
    onward = defaultdict(list)
    for item in scene.items:
        if isinstance(item, Curve) and item.kind in ("axis", "item"):
            onward[item.places[0]].append(item.places[-1])
    for name, place in scene.ports.items():
        if name.endswith("<"):  # where the label is
            onward[place].append(scene.ports[name[:-1] + ">"])
    named = {place: name for name, place in scene.ports.items() if "@" not in name and "/" not in name}
    found = set()
    for place, name in named.items():
        if not name.startswith("in") and ".out" not in name:
            continue
        todo, seen = list(onward[place]), set()
        while todo:
            at = todo.pop()
            if at in seen:
                continue
            seen.add(at)
            if at in named:
                found.add((name, named[at]))
            else:
                todo += onward[at]
    return found


@pytest.mark.parametrize("make", [lambda: anyhow(60, 8), lambda: bricks(60, 7), lambda: ODD["around each box"]()])
def test_wires_lead_where_the_diagram_says(make):
    diagram = make()
    graph = diagram_of(diagram).graph
    starts = [f"in{k}.x" for k in range(len(graph.dom))]
    wanted = set()
    for number, node in enumerate(graph.nodes):
        wanted |= {(starts[w], f"{number}.in{k}.x") for k, w in enumerate(node.inputs)}
        starts += [f"{number}.out{k}.x" for k in range(len(node.box.cod))]
    wanted |= {(starts[w], f"out{k}.x") for k, w in enumerate(graph.outputs)}
    assert joined(layout(diagram_of(diagram))) == wanted


# -- few crossings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_series_and_parallel_compositions_need_no_crossing(seed):
    assert crossings(drawn(series_parallel(random.Random(seed), 24))) == 0


@pytest.mark.parametrize("seed", range(3))
def test_no_more_crossings_than_in_the_order_that_was_given(seed, monkeypatch):
    diagram = anyhow(30, 8, seed)
    found = crossings(drawn(diagram))

    def given_order(found, sheet, fixed):
        for column in found:
            for k, slot in enumerate(column):
                slot.index = k

    monkeypatch.setattr(layering, "_order", given_order)
    assert found <= crossings(layout(diagram_of(diagram)))


# -- the same picture --------------------------------------------------------------------------------------


def test_one_diagram_has_one_picture_under_any_hash_seed():
    code = (
        "import catdiag as cd; from catdiag.draw.string_diagram.layout import layout;"
        "from tests.draw.pictured import ODD;"
        "from catdiag.category.diagram import diagram_of;"
        "print([layout(cd.library.get(n).diagram, open=True) for n in ('attention', 'causal_attention', 'layer_norm')],"
        "layout(diagram_of(ODD['anyhow']())))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            cwd=os.path.join(os.path.dirname(__file__), "..", ".."),
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1 and len(found.pop()) > 10_000
    diagram = cd.library.get("attention")
    assert layout(diagram_of(diagram)) == layout(diagram_of(diagram))


def test_each_box_of_many_is_in_a_column_of_its_own_depth():
    """A chain is one line, and boxes beside each other are one column."""
    boxes = [s for s in layout(chain(200)).items if isinstance(s, Shape)]
    assert len(boxes) == 200 and len({s.y for s in boxes}) == 1 and len({s.x for s in boxes}) == 200
    boxes = [s for s in layout(beside(200)).items if isinstance(s, Shape)]
    assert len(boxes) == 200 and len({s.x for s in boxes}) == 1 and len({s.y for s in boxes}) == 200


@pytest.mark.slow
@pytest.mark.parametrize("make", [chain, beside, lambda n: bricks(n, 10), lambda n: anyhow(n, 10)])
def test_thousands_of_boxes(make):
    drawn(make(1000))


@pytest.mark.parametrize("make", [lambda n: bricks(n, 10), around], ids=["bricks", "around"])
def test_long_pictures_do_not_climb(make):
    short, long = layout(make(60)), layout(make(240))
    assert long.height == short.height and long.width > 3 * short.width
