"""Schedules of actors on pipelines: what any schedule must keep, and small ones by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.planner.pipeline_simulation import PipelineStep, schedule

steps = st.lists(
    st.builds(
        PipelineStep, st.just("step"), st.sampled_from(["tensor", "exp", "alu", ""]), st.integers(1, 9).map(float)
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=25, deadline=None)
@given(steps, st.integers(1, 5))
def test_laws_of_schedules(turn, actors):
    found = schedule(turn, actors)
    demand = {}
    for step in turn:
        if step.pipeline:
            demand[step.pipeline] = demand.get(step.pipeline, 0.0) + step.clocks
    alone = sum(step.clocks for step in turn)
    lower = max(alone, actors * max(demand.values(), default=0.0))
    assert lower - 1e-6 <= found.period <= actors * alone + 1e-6
    assert all(-1e-9 <= idle < 1 for idle in found.slack.values())
    if found.busiest and found.needed is not None and actors == found.needed:
        assert found.slack[found.busiest] < 1e-3
    for one in found.window:
        for other in found.window:
            if one != other and one.pipeline and one.pipeline == other.pipeline:
                assert one.end <= other.start + 1e-9 or other.end <= one.start + 1e-9, "one step at a time"
    assert 1 <= found.buffers <= actors + 1 and found.chart()


def test_two_warpgroups_hide_exponentials_behind_products():
    turn = [PipelineStep("scores", "tensor", 4), PipelineStep("weights", "exp", 4), PipelineStep("sums", "tensor", 4)]
    assert [schedule(turn, n).period for n in (1, 2, 3)] == [12, 16, 24]
    assert schedule(turn, 2).slack == {"tensor": 0.0, "exp": 0.5} and schedule(turn, 2).needed == 2
    slow = [
        PipelineStep("scores", "tensor", 2),
        PipelineStep("weights", "exp", 6.66),
        PipelineStep("sums", "tensor", 2),
    ]
    assert schedule(slow, 3).busiest == "exp" and schedule(slow, 3).slack["exp"] < 1e-3


def test_wrong_turns_are_said():
    for turn, actors, message in [
        ([], 1, "a turn needs steps"),
        ([PipelineStep("a", "tensor", 0)], 1, "not all of 0"),
        ([PipelineStep("a", "tensor", -1)], 1, "of 0 clocks or more"),
        ([PipelineStep("a", "tensor", 1)], 0, "actors is 0"),
    ]:
        with pytest.raises(cd.errors.CatdiagError, match=message):
            schedule(turn, actors)
