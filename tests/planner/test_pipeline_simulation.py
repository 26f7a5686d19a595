"""Schedules of actors on pipelines: what any schedule must keep, and small ones by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.planner.pipeline_simulation import PipelineStep, issued, schedule

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


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.integers(1, 4), st.integers(1, 4))
def test_loads_in_a_ring_of_buffers(load, work, rest, buffers, actors):
    """Loads ahead into so many buffers: each is free again when what was read from it is done."""
    turn = [
        PipelineStep("load", "copy", load, ahead=buffers - 1, needs=((0, 1), (1, buffers))),
        PipelineStep("product", "tensor", work, needs=((0, 0), (2, 1))),
        PipelineStep("rest", "", rest),
    ]
    found = schedule(turn, actors)
    # A buffer is taken from the start of its load to the end of its product.
    least = max(actors * load, actors * work, work + rest, (load + work) / buffers)
    assert found.period >= least - 1e-6
    assert actors > 1 or found.period == pytest.approx(least)
    done = issued(turn, actors, 6)
    assert all(b.iteration < 6 for b in done) and {b.iteration for b in done if b.actor == 0} == set(range(6))
    at = {(b.actor, b.operation, b.iteration): b for b in done}
    for (actor, name, k), busy in at.items():
        if name == "product":
            assert busy.start >= at[actor, "load", k].end
        if name == "load" and k >= buffers:
            assert busy.start >= at[actor, "product", k - buffers].end


def test_wrong_turns_are_said():
    for turn, actors, message in [
        ([], 1, "an iteration needs steps"),
        ([PipelineStep("a", "tensor", 0)], 1, "not all of 0"),
        ([PipelineStep("a", "tensor", -1)], 1, "of 0 clocks or more"),
        ([PipelineStep("a", "tensor", 1)], 0, "actors is 0"),
        ([PipelineStep("a", "tensor", 1, needs=((0, 0),))], 1, "'a' waits for 'a', which is issued later"),
        ([PipelineStep("a", "", 1, needs=((1, 0),)), PipelineStep("b", "", 1)], 1, "'a' waits for 'b', which is"),
        ([PipelineStep("a", "", 1, ahead=1, needs=((1, 1),)), PipelineStep("b", "", 1)], 1, "'a' waits for 'b'"),
        ([PipelineStep("a", "tensor", 1, needs=((1, 0),))], 1, "expected the place of a step, from 0 to 0"),
        ([PipelineStep("a", "tensor", 1, ahead=-1)], 1, "ahead is -1: expected a number of iterations"),
    ]:
        with pytest.raises(cd.errors.CatdiagError, match=message):
            schedule(turn, actors)
