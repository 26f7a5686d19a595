"""Pictures of pipelines: widths are the clocks of the plan, or of the configuration, and nothing else is said."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

import catdiag as cd
from catdiag.draw.listing.pipeline_chart import pipeline_picture
from catdiag.draw.scene import Frame, Label, Scene, Shape
from catdiag.rewrite.derivation import Derivation
from catdiag.util.errors import CatdiagError
from examples.napkin.warpgroup_configuration import configure
from examples.napkin.warpgroup_timeline import chart, timeline
from tests.draw.clashes import clashes

SIZES = {"q": 4096, "x": 4096, "d": 128}
ROWS = {"tensor": "matrix units", "exp": "special functions", "alu": "ALUs"}


@pytest.fixture(scope="module")
def flash() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Derivation, "prove", lambda *args, **options: None)
        yield cd.library.get("attention").stream("x").group("q")


@pytest.fixture(scope="module")
def plan(flash: Derivation) -> Any:
    return flash.plan("H100", SIZES, tiles={"g_q": 128, "s_x": 64}, stages=2, threads=256)


@pytest.fixture(scope="module")
def configuration() -> Any:
    def program(Q: Any, K: Any, V: Any) -> Any:
        S = cd.cast(cd.einsum("q d, x d -> q x", Q, K) / cd.sqrt(cd.size("d")), "fp16")
        return cd.einsum("q x, x d -> q d", cd.softmax(S, "x"), V)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Derivation, "prove", lambda *args, **options: None)
        online = cd.algorithm("q d, x d, x d -> q d")(program).stream("x").group("q")
        values = {"w_q": 128, "s_x": 64, "u_x": 64, "u_d": 32, "v_d": 8, "d": 128}
        types = {"Q": "fp8", "K": "fp8", "V": "fp16", "out": "fp16"}
        yield configure(online, "H100", values, types, arithmetic="fp16")


def clocks_of(scene: Scene) -> dict[str, tuple[float, float]]:
    """For each row the clocks of its bars, and of what is hatched, read off their widths by the axis below."""
    ticks = [i for i in scene.items if isinstance(i, Label) and i.role == "number"]
    first, last = min(ticks, key=lambda t: t.x), max(ticks, key=lambda t: t.x)
    scale = float(last.text.replace(",", "")) / (last.x - first.x)
    found = {}
    for row in (i for i in scene.items if isinstance(i, Label) and i.role == "title"):

        def mine(item: Shape | Frame, y: float = row.y - 4) -> bool:
            return item.y < y < item.y + item.height

        bars = sum(i.width for i in scene.items if isinstance(i, Shape) and i.kind == "bar" and mine(i))
        waits = sum(i.width for i in scene.items if isinstance(i, Frame) and i.kind == "slack" and mine(i))
        found[row.text] = bars * scale, waits * scale
    return found


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_widths_are_the_clocks_of_the_plan(plan: Any, turns: int) -> None:
    found, schedule = clocks_of(pipeline_picture(plan, iterations=turns)), plan.schedule
    chip = cd.hardware.get("H100")
    length = turns * schedule.period
    for name, idle in schedule.slack.items():
        worked, waited = found[ROWS[name]]
        assert worked == pytest.approx((1 - idle) * length, rel=2e-3)
        assert waited == pytest.approx(idle * length, abs=2e-3 * length)
    block = 2 * 64 * SIZES["d"] * 2  # K and V, in bf16
    loads = block * chip.sms / chip.l2_bytes_per_s * chip.clock_hz
    assert found["L2 to SMEM"][0] == pytest.approx(turns * loads * plan.blocks_per_sm, rel=2e-3)
    assert set(found) == {*(ROWS[name] for name in schedule.slack), "L2 to SMEM"}


def test_widths_are_the_clocks_of_the_configuration(configuration: Any) -> None:
    found, made = clocks_of(pipeline_picture(chart(configuration))), timeline(configuration, 15)
    for name, busy in made.busy.items():
        assert found[ROWS[name]][0] == pytest.approx(2 * busy * float(made.period), rel=2e-3)
    transfer = configuration.transfer_s * float(configuration.chip.clock_hz)
    assert found["HBM to SMEM"][0] == pytest.approx(2 * transfer, rel=2e-3)
    assert found["matrix units"][1] == 0  # 100 % in the paper too
    assert sum(found["special functions"]) == pytest.approx(2 * float(made.period), rel=2e-3)


def test_what_binds_is_said_and_marked(plan: Any, configuration: Any) -> None:
    scene = pipeline_picture(chart(configuration))
    assert "Fewest stalls: matrix units." in scene.description
    assert [i.text for i in scene.items if isinstance(i, Label) and "binds" in i.text] == ["busy 100%, binds"]
    assert "ALUs 434 clocks" in scene.description
    idle = pipeline_picture(plan)
    share = 100 * (1 - plan.schedule.slack[plan.schedule.busiest])
    assert f"{share:.0f}%, busiest" in " ".join(i.text for i in idle.items if isinstance(i, Label))
    assert plan.bound in idle.description


def test_loads_that_take_longer_than_a_turn_bind(plan: Any) -> None:
    slow = replace(cd.hardware.get("H100"), name="slow", l2_bytes_per_s=1e12)
    edges = tuple(replace(e, bytes_per_s=1e12) if e.lower == "SMEM" else e for e in plan.edges)
    scene = pipeline_picture(replace(plan.kernels[0], hardware="slow", edges=edges), chip=slow)
    said = [i.text for i in scene.items if isinstance(i, Label) and "binds" in i.text]
    assert len(said) == 1 and re.fullmatch(r"takes \d\.\d\d periods, binds", said[0])
    assert not list(clashes(scene))


def test_what_is_not_known_is_left_out_and_said(plan: Any, flash: Derivation) -> None:
    scene = pipeline_picture(replace(plan.kernels[0], hardware="my chip"))
    assert "L2 to SMEM" not in clocks_of(scene) and "no chip of the name my chip is known" in scene.description.lower()
    alone = flash.plan("H100", SIZES, dtype="fp32", tiles={"g_q": 16, "s_x": 32}, stages=1, threads=128)
    plain = pipeline_picture(alone)
    assert set(clocks_of(plain)) == {"special functions", "ALUs"}
    assert "no rate of matrix units for fp32" in plain.description and "With one buffer" in plain.description


def test_no_text_is_over_another_or_leaves_its_bar(plan: Any, configuration: Any, flash: Derivation) -> None:
    other = flash.plan("MI300X", SIZES)
    for n in (1, 2, 5):
        for scene in (pipeline_picture(x, iterations=n) for x in (plan, chart(configuration, n), other)):
            assert not list(clashes(scene))


def test_what_is_refused(plan: Any) -> None:
    with pytest.raises(CatdiagError, match="no schedule of iterations"):
        pipeline_picture(replace(plan.kernels[0], schedule=None))
    with pytest.raises(CatdiagError, match="the plan is for 'H100', and chip is 'A100'"):
        pipeline_picture(plan, chip="A100")
    for turns in (0, True, 1.5):
        with pytest.raises(CatdiagError, match="expected the number of periods"):
            pipeline_picture(plan, iterations=turns)  # type: ignore[arg-type]
    with pytest.raises(CatdiagError, match="expected at most 1000; draw fewer periods"):
        pipeline_picture(plan, iterations=500)
