"""Plots: what they show is what the library says; the same bytes each time; nothing of matplotlib is left changed."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import catdiag as cd
from catdiag.draw import plots
from catdiag.draw.plots.plot_style import listed, load, spaced
from catdiag.draw.plots.unfused_plan import unfused_schedule
from catdiag.util.errors import CatdiagError, SizeError

SIZES = {"q": 2048, "x": 2048, "d": 64}
TILES = {"g_q": 64, "s_x": 32}
HIGH = {"a": 512, "b": 512, "c": 512}


@cache
def attention() -> Any:
    return cd.library.get("attention").stream("x").group("q")


@cache
def product() -> Any:
    return cd.library.get("matmul").stream("b").group("a c")


@cache
def vector() -> Any:
    """One tile and one regime where memory is full."""
    return cd.algorithm("q x, x -> q", name="vector")(lambda a, b: cd.einsum("q x, x -> q", a, b)).group("q")


@cache
def rows() -> Any:
    """No product, one tile."""
    return cd.algorithm("q x", name="rows")(lambda a: cd.softmax(a, "x")).group("q")


@cache
def plan() -> Any:
    return attention().plan("H100", SIZES)


@cache
def drawn_roofs() -> Any:
    return plots.roofline_of(plan(), attention())


@cache
def book() -> Any:
    return unfused_schedule(attention().source.diagram, cd.hardware.H100, SIZES, "bf16", attention().derivation.ask)


@cache
def land() -> Any:
    return plots.landscape_of(attention(), "H100", SIZES)


@cache
def figure(name: str) -> Any:
    made = {
        "roofline": lambda: plots.roofline(plan(), attention()),
        "transfers": lambda: plots.transfers(vector(), {"q": 512, "x": 256}, chip="A100"),
        "landscape": lambda: plots.landscape(attention(), "H100", SIZES),
        "lines": lambda: plots.landscape(rows(), "MI300X", {"q": 512, "x": 256}),
        "waterfall": lambda: plots.waterfall(attention(), SIZES, tiles=TILES),
    }
    return made[name]()


def number(formula: Any, sizes: dict[str, int]) -> int:
    return int(formula.subs({s: sizes[s.name] for s in formula.free_symbols}))


def line(drawn: Any, name: str) -> list[tuple[float, float]]:
    """The points of the one line of that name."""
    (found,) = drawn.findobj(lambda artist: artist.get_gid() == name)
    return [(float(x), float(y)) for x, y in zip(*found.get_data())]


# -- what is shown ---------------------------------------------------------------------------------


def test_a_roofline_has_the_numbers_of_its_plan_under_every_roof() -> None:
    shown = drawn_roofs()
    assert [(r.upper, r.lower, r.bytes_per_s) for r in shown.roofs] == [
        (e.upper, e.lower, e.bytes_per_s) for e in plan().edges
    ]
    row = shown.rows[0]
    assert row.rate == plan().flops / plan().time_s
    assert list(row.intensity.values()) == [plan().flops / e.bytes_moved for e in plan().edges]
    assert [r.name for r in shown.rows] == ["the plan", "fewest bytes", "unfused"]
    for row in shown.rows:
        for roof in shown.roofs:
            if roof.name in row.intensity:
                assert row.rate <= roof.bytes_per_s * row.intensity[roof.name] * (1 + 1e-12)
        for ceiling in shown.ceilings:
            if ceiling.kind == "chip" or (ceiling.kind == "program" and row.name == "the plan"):
                assert row.rate <= ceiling.rate * (1 + 1e-12)
    peak = next(c.rate for c in shown.ceilings if c.name == "matrix units")
    assert math.isclose(peak, cd.hardware.H100.tensor["bf16"])


def test_a_roofline_draws_these_numbers() -> None:
    shown, drawn = drawn_roofs(), figure("roofline")
    for row in shown.rows:
        for edge, intensity in row.intensity.items():
            assert line(drawn, f"{row.name} at {edge}") == [(intensity, row.rate)]
    for roof in shown.roofs:
        assert all(math.isclose(y, x * roof.bytes_per_s) for x, y in line(drawn, f"roof {roof.name}"))


def test_unfused_each_stage_is_planned() -> None:
    row = drawn_roofs().rows[-1]
    assert [stage.schedule for stage in book().stages] == [
        "group q x",
        "group q",
        "stream x, split x, group q d",  # 64 groups of a row and column block would leave half of the chip idle
    ]
    assert row.rate == plan().flops / sum(stage.plan.time_s for stage in book().stages)
    for stage in book().stages:
        assert sum(sum(m.values()) for m in stage.inner.values()) == stage.plan.bytes_moved
        assert stage.outer is not None
        assert sum(sum(m.values()) for m in stage.outer.values()) == stage.plan.hbm_bytes
    total = sum(stage.plan.hbm_bytes for stage in book().stages)
    assert row.intensity["HBM → L2"] == plan().flops / total
    pairs = 2 * 2048 * 2048
    assert book().inner["softmax [q x]"]["save"] == pairs
    assert set(book().inner) == {"Q", "K", "V", "div [q x]", "softmax [q x]", "sum1 of a part", "out"}


def test_what_cannot_be_planned_is_counted_at_best() -> None:
    wide = cd.algorithm("x d, d e -> e", name="wide")(
        lambda A, B: cd.einsum("d, d e -> e", cd.sum(cd.exp(A), "x"), B)
    ).group("e")
    sizes = {"x": 64, "d": 256, "e": 64}
    typed = wide.plan("A100", sizes, dtype={"A": "bf16", "B": "bf16", "out": "fp32"})
    row = plots.roofline_of(typed, wide).rows[-1]
    assert row.name == "unfused, at best"
    moved = wide.source.io(dtype={"A": "bf16", "B": "bf16", "out": "fp32"}, fused=False).transfers
    assert math.isclose(typed.flops / row.intensity["HBM → L2"], number(moved, sizes))


def test_without_products_the_work_is_of_all_operations() -> None:
    found = rows().plan("H100", {"q": 512, "x": 256})
    assert found.flops == 0
    with pytest.raises(CatdiagError, match="give the derivation"):
        plots.roofline_of(found)
    shown = plots.roofline_of(found, rows())
    assert shown.unit == "operation"
    assert shown.work == sum(number(w, {"q": 512, "x": 256}) for w in rows().source.io().work.values())
    assert any("nothing crosses" in words for words in shown.caption)


def test_a_roofline_is_of_the_chip_of_its_plan() -> None:
    other = cd.hardware.loads('name = "H100"\nbase = "H100"\nhbm_bytes_per_s = "1 TB/s"')
    with pytest.raises(CatdiagError, match="give the chip of the plan"):
        plots.roofline_of(attention().plan(other, SIZES))
    assert plots.roofline_of(attention().plan(other, SIZES), chip=other).roofs[0].bytes_per_s == 896e9


@pytest.mark.parametrize(
    "which", ["vector", *(pytest.param(name, marks=pytest.mark.slow) for name in ("attention", "product"))]
)
def test_transfers_are_the_optimum_the_whole_tiles_and_the_bound(which: str) -> None:
    vectors = {"q": 512, "x": 256}
    cases = {"vector": (vector, vectors), "attention": (attention, SIZES), "product": (product, HIGH)}
    made, sizes = cases[which][0](), cases[which][1]
    shown, io, bound = plots.capacities(made, sizes), made.io(), made.lower_bound()
    regimes, block = io.optimum().regimes, {str(s): 1 for s in io.streams}
    assert [band.binding for band in shown.bands][:2] == ["nothing fits", "memory full"]
    for capacity, least in shown.curve[:: len(shown.curve) // 5]:
        known = {**sizes, **block, "M": capacity}
        value = regimes.at(known).value
        assert math.isclose(float(value.subs({s: known[s.name] for s in value.free_symbols})), least)
    for capacity, below in shown.bound[::20]:
        assert below == float(bound.at(sizes, capacity))
    assert shown.floor == number(bound.compulsory, sizes)
    real = dict(shown.curve)
    for whole in shown.integer_points:
        assert whole.proved
        assert whole.transfers >= bound.at(sizes, whole.capacity)
        assert whole.transfers == io.integer_optimum(sizes, whole.capacity).transfers
        assert whole.transfers >= (1 - 1e-9) * min(h for m, h in real.items() if m <= whole.capacity * 1.2)
    for before, after in pairwise(shown.bands):
        assert before.end == after.start
        sides = [regimes.at({**sizes, **block, "M": round(before.end * f)}).binding for f in (0.99, 1.01)]
        assert sides[0].partition(" below")[0] != sides[1].partition(" below")[0]


def test_transfers_are_drawn() -> None:
    shown = plots.capacities(vector(), {"q": 512, "x": 256}, chip="A100")
    assert shown.unit == "bytes"
    assert shown.marks[0] == ("SMEM", cd.hardware.A100.smem_per_block)
    assert line(figure("transfers"), "curve") == [(float(m), h) for m, h in shown.curve]
    assert line(figure("transfers"), "bound") == [(float(m), h) for m, h in shown.bound]
    with pytest.raises(CatdiagError, match="in bytes"):
        plots.capacities(product().io(), HIGH, chip="A100")


def test_transfers_say_what_the_bound_rests_on() -> None:
    masked = cd.algorithm("q x, x -> q", name="masked")(
        lambda A, v: cd.einsum("q x, x -> q", cd.where(cd.index("x") <= cd.index("q"), A, 0), v)
    ).group("q")
    said = plots.capacities(masked, {"q": 64, "x": 64}).caption
    assert any(words.startswith("Operations on masked elements count too") for words in said)


def test_transfers_say_what_is_missing() -> None:
    with pytest.raises(CatdiagError, match="group it first"):
        plots.capacities(product().source, HIGH)
    with pytest.raises(SizeError, match="'b' is missing"):
        plots.capacities(product(), {"a": 8, "c": 8})
    with pytest.raises(CatdiagError, match="same dtype"):
        plots.capacities(product(), HIGH, dtype="bf16", bound=product().lower_bound())


def test_a_landscape_is_of_what_fit_predicts() -> None:
    shown, ideal = land(), attention().plan("H100", SIZES, backend="ideal")
    assert shown.tiles == ("g_q", "s_x")
    place = tuple(values.index(tile) for values, tile in zip(shown.values, shown.chosen))
    assert dict(zip(shown.tiles, shown.chosen)) == ideal.tiles
    assert shown.seconds[place] <= ideal.time_s
    assert (shown.exceeded == "").tolist() == np.isfinite(shown.seconds).tolist()
    for g, s in ((16, 64), (128, 32)):
        at = shown.values[0].index(g), shown.values[1].index(s)
        best = min(
            attention().plan("H100", SIZES, tiles={"g_q": g, "s_x": s}, threads=t, stages=n, backend="ideal").time_s
            for t, n in ((128, 1), (128, 2), (256, 3))
        )
        assert shown.seconds[at] <= best * (1 + 1e-12)
        assert (
            shown.moved[at] == attention().plan("H100", SIZES, tiles={"g_q": g, "s_x": s}, backend="ideal").bytes_moved
        )


def test_what_does_not_fit_is_said_by_its_memory() -> None:
    shown = land()
    seen = set(shown.exceeded.ravel().tolist())
    assert {"", "SMEM", "registers", "SMEM and registers"} == seen
    for k, g in enumerate(shown.values[0]):
        for n, s in enumerate(shown.values[1]):
            if shown.exceeded[k, n].startswith("SMEM"):
                assert 2 * 64 * g + 4 * 64 * s > cd.hardware.H100.smem_per_block


def test_a_landscape_takes_a_plan_of_its_own_only() -> None:
    again = plots.landscape_of(attention(), "H100", SIZES, plan=plan())
    assert (again.seconds == land().seconds).all() and again.chosen == land().chosen
    assert any(f"written for Triton has tiles {listed(plan().tiles)}" in line for line in again.caption)
    with pytest.raises(CatdiagError, match="the plan is for H100"):
        plots.landscape_of(attention(), "A100", SIZES, plan=plan())


def test_one_tile_is_a_line_and_none_is_refused() -> None:
    assert plots.landscape_of(attention(), "H100", SIZES, tiles="g_q").tiles == ("g_q",)
    assert [ax.get_ylabel() for ax in figure("lines").axes] == ["predicted time", "bytes to shared memory"]
    with pytest.raises(CatdiagError, match="lacks"):
        plots.landscape_of(attention(), "H100", SIZES, tiles=("g_q", "g_z"))
    with pytest.raises(CatdiagError, match="two different"):
        plots.landscape_of(attention(), "H100", SIZES, tiles=("g_q", "g_q"))
    with pytest.raises(CatdiagError, match="no tile to choose"):
        plots.landscape_of(cd.algorithm("q", name="all")(lambda a: a + a), "H100", {"q": 8})


def test_a_waterfall_ends_at_what_io_counts() -> None:
    shown = plots.waterfall_of(attention(), SIZES, "bf16", plan=plan())
    outer, inner = shown.edges
    assert inner.before == book().crossing("L2", "SMEM")
    assert outer.before == book().crossing("HBM", "L2")
    assert inner.after == plan().bytes_moved
    assert outer.after == plan().hbm_bytes
    assert shown.floor == 2 * 4 * 2048 * 64
    assert inner.before + sum(change.more for change in inner.changes) == inner.after


def test_without_a_chip_a_waterfall_begins_at_a_kernel_for_each_box() -> None:
    (edge,) = plots.waterfall_of(attention(), SIZES, tiles=TILES).edges
    assert edge.before == number(attention().source.io(fused=False).transfers, SIZES)
    assert edge.after == number(attention().io().transfers, {**SIZES, **TILES})
    assert [c.array for c in edge.changes if "div" in c.array] == ["div [q x]", "div [q x] (2)"]


def test_bars_of_a_waterfall_meet() -> None:
    shown = plots.waterfall_of(attention(), SIZES, tiles=TILES)
    for ax, edge in zip(figure("waterfall").axes, shown.edges):
        bars = [(p.get_gid(), p.get_x(), p.get_width()) for p in ax.patches]
        assert bars[0] == ("unfused", 0, edge.before)
        assert bars[-1] == ("fused", 0, edge.after)
        level = float(edge.before)
        for _, left, width in bars[1:-1]:
            assert left == level
            level += width
        assert level == edge.after


def test_a_waterfall_needs_tiles_and_a_source() -> None:
    with pytest.raises(CatdiagError, match="g_q"):
        plots.waterfall_of(attention(), SIZES)
    with pytest.raises(CatdiagError, match="expected a derivation"):
        plots.waterfall_of(attention().diagram, SIZES, tiles={"g_q": 8, "s_x": 8})


# -- how it is written -----------------------------------------------------------------------------


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("transfers", "landscape", "waterfall")]


@pytest.mark.parametrize("name", ["roofline", "lines", *SLOW])
def test_svg_is_whole_the_same_and_all_text(name: str, tmp_path: Path) -> None:
    shown = figure(name)
    text = plots.svg(shown)
    assert text == plots.svg(shown)
    assert "prefers-color-scheme:dark" in text
    assert "#111111" not in plots.svg(shown, "dark")
    assert "<style>\n#" not in plots.svg(shown, "light")
    root = ElementTree.fromstring(text)
    assert root.get("role") == "img"
    assert [child.tag.rpartition("}")[2] for child in root][:2] == ["title", "desc"]
    assert "<metadata" not in text
    assert "<text" in text
    names = re.findall(r'\bid="([^"]*)"', text)
    known = set(names)
    assert len(known) == len(names)
    used = re.findall(r'(?:url\(#|href="#)([^")]*)', text)
    assert used
    assert set(used) <= known
    assert len({name.partition("-")[0] for name in known}) == 1


def test_subscripts_are_set_in_svg_and_no_mark_is_left() -> None:
    text = plots.svg(figure("landscape"))
    assert "$" not in text
    assert '>stream block <tspan font-style="italic">s</tspan><tspan dy=' in text
    described = plots.svg(figure("waterfall")).partition("<desc")[2].partition("</desc>")[0]
    assert "g_q" in described


def test_names_of_two_plots_do_not_clash() -> None:
    names = [set(re.findall(r'\bid="([^"]*)"', plots.svg(f))) for f in (figure("roofline"), figure("lines"))]
    assert not names[0] & names[1]


@pytest.mark.parametrize("ending", ["svg", *(pytest.param(name, marks=pytest.mark.slow) for name in ("pdf", "png"))])
def test_files_are_the_same_bytes(ending: str, tmp_path: Path) -> None:
    files = [tmp_path / f"{k}.{ending}" for k in range(2)]
    for file in files:
        plots.save(figure("waterfall"), file)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CatdiagError, match="ends in"):
        plots.save(figure("waterfall"), tmp_path / "a.gif")


def test_nothing_of_matplotlib_is_changed() -> None:
    matplotlib = load()
    names = [name for name in matplotlib.rcParams if name != "backend"]  # asking for that one loads pyplot
    before = [matplotlib.rcParams[name] for name in names]
    plots.svg(plots.waterfall(product(), HIGH, tiles={"g_a": 64, "g_c": 64, "s_b": 8}))
    assert [matplotlib.rcParams[name] for name in names] == before
    assert "matplotlib.pyplot" not in sys.modules


def test_axes_of_ones_own() -> None:
    mine = load().figure.Figure()
    ax = mine.add_subplot()
    assert plots.roofline(plan(), ax=ax) is mine
    assert ax.get_xscale() == "log"
    assert ax.get_title(loc="left").startswith("a plan on H100")
    with pytest.raises(CatdiagError, match="one panel"):
        plots.landscape(rows(), "H100", {"q": 512, "x": 256}, ax=ax)


def test_without_matplotlib_it_is_said_what_to_install() -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from catdiag.draw.plots.plot_style import load\n"
        "try: load()\n"
        "except Exception as error: print(type(error).__name__, error.message)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.startswith("CatdiagError")
    assert "pip install 'catdiag[plot]'" in said


def test_labels_are_moved_apart() -> None:
    assert spaced([5, 5, 5], 10, 100) == [0, 10, 20]
    assert spaced([99, 99], 10, 100) == [90, 100]
    assert spaced([10, 40], 10, 100) == [10, 40]
