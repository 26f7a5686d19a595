"""Ways of cutting counted in the workers of an executor: the same verdict, whoever counts and whatever is lost."""

from __future__ import annotations

import pickle
from concurrent.futures import Executor, Future
from typing import Any

import pytest

import catdiag as cd
from catdiag.planner.fusions import Fusions, FusionVerdict, fusions
from catdiag.planner.kernel_schedules import KernelSchedules

SIZES, CAPACITY = {"t": 512, "d": 16, "f": 64, "o": 16}, 2048


class Elsewhere(Executor):
    """Runs what it is given at once, as another process would: nothing but pickles passes. `lost` are not run."""

    def __init__(self, lost: tuple[int, ...] = ()) -> None:
        self.lost, self.count = lost, 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.count += 1
        future: Future[Any] = Future()
        if self.count in self.lost:
            future.set_exception(KeyboardInterrupt())
        else:
            fn, args = pickle.loads(pickle.dumps((fn, args)))
            future.set_result(pickle.loads(pickle.dumps(fn(*args))))
        return future


@pytest.fixture(scope="module")
def plain() -> FusionVerdict:
    return two().best(SIZES, CAPACITY)


def two() -> Fusions:
    made = cd.algorithm("t d, d f, f o -> t o", name="two")(
        lambda X, U, W: cd.einsum("t f, f o -> t o", cd.nn.relu(cd.einsum("t d, d f -> t f", X, U)), W)
    )
    return fusions(made, dtype="bf16")


def told(verdict: FusionVerdict) -> tuple[Any, ...]:
    assert verdict.option is not None
    kernels = {k: (cost, way.saved) for k, (cost, way) in verdict.by_kernels.items()}
    return verdict.transfers, verdict.tiles, tuple(map(str, verdict.schedules)), verdict.option.saved, kernels


@pytest.mark.parametrize("lost", [(), (1, 3)])
def test_the_verdict_is_the_same(plain: FusionVerdict, lost: tuple[int, ...]) -> None:
    executor, seen = Elsewhere(lost), []
    verdict = two().best(SIZES, CAPACITY, executor=executor, progress=lambda done, of: seen.append((done, of)))
    assert told(verdict) == told(plain) and verdict.exhaustive == plain.exhaustive
    assert executor.count == 3 and seen == [(1, 3), (2, 3), (3, 3)]


def test_nothing_is_counted_here_that_a_worker_counted(plain: FusionVerdict, monkeypatch: pytest.MonkeyPatch) -> None:
    counting: list[int] = []
    real = KernelSchedules.exhaustive
    monkeypatch.setattr(
        KernelSchedules, "exhaustive", lambda self, *given: counting.append(self.end) or real(self, *given)
    )
    two().best(SIZES, CAPACITY, executor=Elsewhere())
    assert counting == [1, 1, 1]  # the kernels of workers, of which each ends at 1


def test_what_is_no_executor_is_refused() -> None:
    with pytest.raises(cd.errors.CatdiagError, match=r"executor is 4: expected a concurrent.futures.Executor"):
        two().best(SIZES, CAPACITY, executor=4)  # type: ignore[arg-type]
