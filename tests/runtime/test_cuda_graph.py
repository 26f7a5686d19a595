"""When launches are recorded and replayed, and what a replay reads: with a recorder that runs on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from catdiag.runtime.cuda_graph import COPIED_BYTES, GraphedLaunch, Recording

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.triton


class Recorder:
    """A recorder whose replays run the launch again on the tensors of which the addresses were recorded."""

    def __init__(self) -> None:
        self.launches, self.recorded, self.replays = 0, 0, 0

    def launch(self, activation: Any, weight: Any, factor: float) -> Any:
        self.launches += 1
        return activation * factor + weight.sum()

    def record(self, launch: Callable[..., Any], values: Sequence[Any], copied: frozenset[int]) -> Recording:
        self.recorded += 1
        inputs = [v.clone() if k in copied else v for k, v in enumerate(values)]
        results = launch(*inputs)

        def replay() -> None:
            self.replays += 1
            results.copy_(inputs[0] * inputs[2] + inputs[1].sum())

        return Recording(inputs, replay, results)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def call(recorder: Recorder) -> Callable[..., Any]:
    graphed = GraphedLaunch(recorder.launch, recorder.record)
    return lambda *values, stream=0: graphed(values, stream)


def test_what_comes_again_is_replayed(recorder: Recorder, call: Callable[..., Any]) -> None:
    a, w = torch.ones(4), torch.ones(COPIED_BYTES)
    results = []
    for step in range(4):
        a.fill_(step)
        results.append(call(a, w, 2.0))
    assert (recorder.recorded, recorder.replays) == (1, 3)
    # A result is not the buffer that the next replay writes to.
    assert [r[0].item() for r in results] == [2.0 * step + COPIED_BYTES for step in range(4)]


def test_activations_are_copied_where_they_move(recorder: Recorder, call: Callable[..., Any]) -> None:
    w = torch.ones(COPIED_BYTES)
    inputs = [torch.full((4,), float(step)) for step in range(6)]
    results = [call(a, w, 1.0)[0].item() for a in inputs]
    assert results == [step + COPIED_BYTES for step in range(6)]
    assert (recorder.recorded, recorder.replays) == (1, 4)
    assert inputs[2][0] == 2, "an input is not written to"


def test_each_layer_has_a_graph(recorder: Recorder, call: Callable[..., Any]) -> None:
    a, weights = torch.ones(4), [torch.full((COPIED_BYTES,), float(k)) for k in range(3)]
    for _ in range(3):
        assert [call(a, w, 1.0)[0].item() for w in weights] == [1 + k * COPIED_BYTES for k in range(3)]
    assert (recorder.recorded, recorder.replays) == (3, 6)


def test_other_shapes_strides_numbers_and_streams_have_their_own(recorder: Recorder, call: Callable[..., Any]) -> None:
    w, square = torch.ones(COPIED_BYTES), torch.arange(16.0).reshape(4, 4)
    for _ in range(2):
        assert torch.equal(call(square, w, 1.0), square + COPIED_BYTES)
        assert torch.equal(call(square.t(), w, 1.0), square.t() + COPIED_BYTES)
        assert torch.equal(call(square[:2], w, 1.0), square[:2] + COPIED_BYTES)
        assert torch.equal(call(square, w, 3.0), 3 * square + COPIED_BYTES)
        assert torch.equal(call(square, w, 1.0, stream=1), square + COPIED_BYTES)
    assert (recorder.recorded, recorder.replays) == (5, 5)


def test_shapes_that_do_not_come_again_are_not_recorded(recorder: Recorder, call: Callable[..., Any]) -> None:
    w = torch.ones(COPIED_BYTES)
    for length in range(1, 40):
        call(torch.ones(length), w, 1.0)
    assert (recorder.launches, recorder.recorded) == (39, 0)
