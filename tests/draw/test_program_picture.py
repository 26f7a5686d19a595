"""Pictures of programs: what they say is held is what `io` counts, and no text is over another or leaves its bar."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import sympy

import catdiag as cd
from catdiag.category.diagram import Diagram, diagram_of
from catdiag.cost.traffic import io
from catdiag.cost.traffic_by_level import levels_io
from catdiag.draw.listing.listing_builder import listing_of
from catdiag.draw.listing.program_picture import program_picture
from catdiag.draw.scene import Frame, Label, Scene, Shape
from catdiag.rewrite.derivation import Derivation
from catdiag.schedule.placement import two
from catdiag.util.errors import CatdiagError, SizeError
from tests.draw.clashes import clashes

PROOFS = Path(__file__).resolve().parents[2] / "proofs"
THREE = ("HBM", "SMEM", "registers")


@pytest.fixture(autouse=True)
def unproved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Derivation, "prove", lambda *args, **options: None)


def streamed(name: str, axis: str, tiles: str) -> Derivation:
    return cd.library.get(name).stream(axis).group(tiles)


def several(a: Any, b: Any) -> Any:
    """Two kernels, an input that is a result, and a result of positions."""
    low = cd.exp(a - cd.max(a, "x"))
    return cd.einsum("q x, x -> q", low / cd.sum(low, "x"), b), a, cd.index("q") * 2


PROGRAMS: dict[str, Any] = {
    "product": lambda: streamed("matmul", "b", "a c").diagram,
    "online": lambda: streamed("attention", "x", "q").diagram,
    "masked": lambda: streamed("causal_attention", "x", "q").skip("x").diagram,
    "parts": lambda: streamed("attention", "x", "q").split("x").diagram,
    "whole": lambda: cd.library.get("softmax"),
    "layers": lambda: streamed("gated_mlp", "f", "t").diagram,
    "window": lambda: cd.library.get("max_pool").group("y").diagram,
    "several": lambda: cd.algorithm("q x, x -> q, q x, q")(several),
    "grouped": lambda: (
        cd.algorithm("q x, x -> q")(lambda a, b: cd.einsum("q x, x -> q", a, cd.exp(b))).group("q").diagram
    ),
}


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> Diagram:
    return diagram_of(PROGRAMS[request.param]())


def read(formula: str) -> sympy.Expr:
    """A formula of a picture."""
    plain = formula.replace("·", "*")
    for digit, raised in zip("23456789", "²³⁴⁵⁶⁷⁸⁹", strict=True):
        plain = plain.replace(raised, f"**{digit}")
    names = {n: sympy.Symbol(n, positive=True, integer=True) for n in re.findall(r"[^\W\d]\w*", plain)}
    return sympy.sympify(plain, names)


def most(scene: Scene, place: str) -> sympy.Expr:
    """The most that a picture says is held at a place."""
    found = re.search(rf"{place} holds? at most ([^.]*?) (?:values|bytes)\.", scene.description)
    return sympy.Max(*map(read, found[1].split(" or "))) if found else sympy.S.Zero


@pytest.mark.parametrize("dtype", [None, "bf16"])
def test_the_most_is_what_io_counts(program: cd.category.Diagram, dtype: str | None) -> None:
    scene = program_picture(program, dtype=dtype, stages=2)
    assert sympy.simplify(most(scene, "SMEM") - sympy.Max(io(program, dtype=dtype, stages=2).memory)) == 0
    scene = program_picture(program, dtype=dtype, levels=THREE, placement={"operand": "SMEM", "streamed": "SMEM"})
    apart = io(program, dtype=dtype, accumulators="registers")
    for place, counted in (("SMEM", apart.memory), ("registers", apart.registers)):
        found = most(scene, place)
        same = {
            s: sympy.Symbol(re.sub(r"^([gs])2_", r"\1_", str(s)), positive=True, integer=True)
            for s in found.free_symbols
        }
        assert sympy.simplify(found.subs(same) - sympy.Max(counted)) == 0


def test_at_three_levels_too_states_above_the_last_included() -> None:
    online = streamed("attention", "x", "q").diagram
    for placement in ({}, {"operand": "SMEM", "streamed": "SMEM"}, {"state": "SMEM"}):
        scene = program_picture(online, levels=THREE, placement=placement)
        counted = levels_io(online, THREE, placement=placement)
        for place in THREE[1:]:
            assert sympy.expand(most(scene, place) - counted.memory[place]) == 0
        assert not list(clashes(scene))


def test_a_bar_at_each_line_for_what_is_held_and_nothing_else(program: cd.category.Diagram) -> None:
    scene = program_picture(program)
    bars = [i for i in scene.items if isinstance(i, Shape) and i.kind == "bar"]
    marks = sorted({i.y for i in scene.items if isinstance(i, Shape) and i.kind in ("dot", "ring")})
    lines = [
        line
        for told in listing_of(diagram_of(program), None, two()).kernels
        for line in told.lines
        if line.reads or line.writes
    ]
    assert len(marks) == len(lines)
    for y, line in zip(marks, lines, strict=True):
        assert sum(bar.y < y < bar.y + bar.height for bar in bars) == len({v for v, _, _ in line.live})


def test_no_text_is_over_another_or_leaves_its_bar(program: cd.category.Diagram) -> None:
    for levels in (("HBM", "SMEM"), THREE):
        assert not list(clashes(program_picture(program, levels=levels, dtype="bf16")))


def test_numbers_where_sizes_are_given() -> None:
    online = streamed("attention", "x", "q")
    sizes, tiles = {"q": 64, "x": 96, "d": 8}, {"g_q": 16, "s_x": 32}
    scene = program_picture(online, sizes=sizes, tiles=tiles)
    values = {sympy.Symbol(n, positive=True, integer=True): v for n, v in {**sizes, **tiles}.items()}
    numbers = [int(i.text.replace(",", "")) for i in scene.items if isinstance(i, Label) and i.role == "number"]
    assert max(numbers) == online.io().memory.subs(values)
    bars = [i for i in scene.items if isinstance(i, Shape) and "of SMEM" in i.title]
    assert max(bar.width for bar in bars) == pytest.approx(90) and len(bars) == len(numbers)
    assert [round(90 * n / max(numbers), 6) for n in numbers] == [round(bar.width, 6) for bar in bars]
    assert not list(clashes(scene))


def test_a_plan_holds_what_its_picture_says() -> None:
    online = streamed("attention", "x", "q")
    plan = online.plan(
        "H100", {"q": 4096, "x": 4096, "d": 128}, tiles={"g_q": 128, "s_x": 64}, stages=2, threads=256, backend="ideal"
    )
    there = {"operand": "SMEM", "streamed": "SMEM"}
    of = {"sizes": plan.sizes, "tiles": plan.tiles, "dtype": plan.dtype, "stages": plan.stages}
    scene = program_picture(online, levels=THREE, placement=there, **of)
    numbers = {i.text for i in scene.items if isinstance(i, Label) and i.role == "number"}
    assert {f"{plan.shared_memory_bytes / 1024:g} KiB", f"{plan.register_bytes / 1024:g} KiB"} <= numbers
    assert not list(clashes(scene))


def test_sizes_that_are_missing_unknown_or_no_sizes_are_named() -> None:
    online = streamed("attention", "x", "q")
    for given, words in (
        ({"q": 64, "x": 96}, "d is missing"),
        ({"q": 64, "x": 96, "d": 8, "y": 1}, "y is none of them"),
        ({"q": 64, "x": 96, "d": 0}, "d is 0"),
    ):
        with pytest.raises(SizeError, match=words):
            program_picture(online, sizes=given, tiles={"g_q": 16, "s_x": 32})
    with pytest.raises(CatdiagError, match="expected some of operand"):
        program_picture(online, placement={"inputs": "SMEM"})


def test_lines_are_those_of_the_program() -> None:
    told = listing_of(streamed("attention", "x", "q").diagram, None, two()).kernels[0]
    assert [line.text for line in told.lines] == [
        "load Q",
        "start: max1 = -∞, sum2 = 0, sum3 = 0",
        "load K, V",
        "t1 = (Σ_d Q·K)/√d",
        "max1′ = max(max1, max_x t1)",
        "t2 = exp(max1 - max1′)",
        "sum2 = sum2·t2",
        "t3 = exp(t1 - max1′)",
        "sum2 = sum2 + Σ_x t3",
        "sum3 = sum3·t2 + Σ_x t3·V",
        "max1 = max1′",
        "out = sum3/sum2",
        "save out",
    ]


def test_without_totals_the_most_is_said_below() -> None:
    online = streamed("attention", "x", "q")
    wide, narrow = (program_picture(online, levels=THREE, totals=t) for t in (True, False))
    assert narrow.width < wide.width - 200 and not list(clashes(narrow))
    assert most(narrow, "SMEM") == most(wide, "SMEM")
    words = [item.text for item in narrow.items if isinstance(item, Label) and item.role == "level"]
    assert any(text.startswith("registers hold at most") for text in words)


def test_nothing_to_draw_is_said() -> None:
    scene = program_picture(cd.algorithm("q -> q")(lambda a: a))
    assert [item.text for item in scene.items if isinstance(item, Label)] == [
        "nothing is computed or moved: each result is an input"
    ]
    assert not list(clashes(scene))


def test_loops_in_loops_are_frames_in_frames() -> None:
    def scores(q: Any, w: Any, k: Any) -> Any:
        return cd.sum(cd.exp(cd.einsum("q e, e d, x d -> q x", q, w, k)), "x")

    nested = cd.algorithm("q e, e d, x d -> q")(scores).stream("x").stream("e")
    scene = program_picture(nested)
    outer, inner = (item for item in scene.items if isinstance(item, Frame))
    assert outer.x < inner.x and outer.y < inner.y and inner.y + inner.height < outer.y + outer.height
    assert inner.x + inner.width < outer.x + outer.width and not list(clashes(scene))
    assert most(scene, "SMEM") == nested.io().memory


def test_long_programs_are_folded_and_hold_as_much() -> None:
    def steps(a: Any, b: Any) -> Any:
        for k in range(60):
            a, b = (cd.exp(b) * a, a + b) if k % 3 else (b - a, cd.sum(a, "x") * b)
        return a

    program = cd.algorithm("q x, q x -> q x")(steps)
    whole, short = (program_picture(program, lines=n) for n in (None, 12))
    assert most(whole, "SMEM") == most(short, "SMEM") == io(program).memory
    assert short.height < whole.height / 5 and not list(clashes(short))
    texts = [item.text for item in short.items if isinstance(item, Label)]
    assert "save out" in texts and any(re.fullmatch(r"\d+ lines: t\d+ to t\d+", text) for text in texts)
    shown = {read(t.removeprefix("M = ")) for t in texts if re.fullmatch(r"(M = )?[\dqx·² +]*[qx]", t) and "×" not in t}
    assert io(program).memory in shown


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    sorted(p for p in PROOFS.glob("*.py") if re.search(r"\.(stream|group)\(", p.read_text())),
    ids=lambda p: p.stem,
)
def test_every_operator(path: Path) -> None:
    right = runpy.run_path(str(path)).get("right")
    form = right.diagram if isinstance(right, Derivation) else right
    if not isinstance(form, cd.category.Diagram):
        pytest.skip("no derivation")
    for dtype in (None, "bf16"):
        scene = program_picture(form, dtype=dtype)
        assert sympy.simplify(most(scene, "SMEM") - sympy.Max(io(form, dtype=dtype).memory)) == 0
        for levels in (("HBM", "SMEM"), THREE):
            assert not list(clashes(program_picture(form, dtype=dtype, levels=levels)))
