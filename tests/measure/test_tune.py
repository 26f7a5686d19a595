"""Tuning: what is kept and said of times, and, in Triton's interpreter, the whole of it."""

import json
import math

import pytest

import catdiag as cd
from catdiag.measure.bench import BenchDevice, BenchResult, BenchRow
from catdiag.measure.tune import TimedCase, Tuned, reached, tuned
from catdiag.planner.configuration_proposal import Proposal
from catdiag.rewrite import group
from catdiag.rewrite.stream import fold_search
from catdiag.util.errors import CatdiagError

SOURCE = cd.library.get("matmul")
PRODUCT = group.find(fold_search.find(SOURCE.diagram, "b").diagram, ["a", "c"])
SIZES = {"a": 20, "b": 40, "c": 24}


def test_a_case_says_which_is_best_and_how_far_the_first_is():
    case = TimedCase("c", (1.5, None, 1.0, 2.0))
    assert (case.best, case.rank, case.distance) == (2, 2, 0.5)
    assert (TimedCase("c", (1.0, 1.5)).rank, TimedCase("c", (1.0, 1.5)).distance) == (1, 0.0)
    lost = TimedCase("c", (None, 1.0))
    assert (lost.best, lost.rank, lost.distance) == (1, None, None)
    assert TimedCase("c", (None, None)).best is None and TimedCase("c", ()).distance is None


def test_how_often_the_first_is_near_is_over_cases_with_a_choice():
    cases = [
        TimedCase("near", (1.05, 1.0)),
        TimedCase("far", (1.3, 1.0, 1.2)),
        TimedCase("best", (1.0, 2.0)),
        TimedCase("lost", (None, 1.0)),
        TimedCase("only one", (1.0,)),
        TimedCase("only one ran", (1.0, None)),
        TimedCase("none ran", (None, None)),
    ]
    found = reached(cases)
    assert (found.cases, found.within_tolerance, found.failed) == (4, 2, ("lost",))
    assert found.middle == pytest.approx(0.05) and found.worst == pytest.approx(0.3)
    assert "within 5% of the quickest that was timed in 2 of 4 cases (50%)" in str(found)
    assert str(found).endswith("It did not run for lost.") and reached(cases, within=0.5).within_tolerance == 3
    nothing = reached([TimedCase("a", (1.0,))])
    assert nothing.cases == 0 and math.isnan(nothing.share) and str(nothing).startswith("No case")


def test_rows_of_a_comparison_are_read_as_they_are():
    results = [
        BenchResult("cuDNN", 0.5),
        BenchResult("catdiag", 1.1),
        BenchResult("catdiag 2", 1.0),
        BenchResult("catdiag 3", failure="no"),
    ]
    row = BenchRow("case", "", "", {}, "bf16", 1.0, 1.0, results)
    assert TimedCase.of(row) == TimedCase("case", (1.1, 1.0, None))
    assert reached([row]).within_tolerance == 0 and reached([row]).cases == 1


def test_what_is_found_says_all_times():
    proposals = (
        Proposal({"g_a": 64}, 2, 4, 1e-5, 0, 50, 1),
        Proposal({"g_a": 128}, 3, 8, 2e-5, 0, 50, 1, ("g_a",)),
        Proposal({"g_a": 32}, 3, 8, 2e-5, 0, 50, 1, ("g_a",)),
    )
    found = Tuned(proposals, (0.02, 0.01, None), ("", "", "Wrong: error 1"), 1)
    assert found.chosen.tiles == {"g_a": 128} and not found.from_cache
    assert str(found).splitlines() == [
        "  1. g_a=64; 2 stages, 4 warps: 20.0 µs, 10.0 µs predicted",
        "* 2. g_a=128; 3 stages, 8 warps: 10.0 µs, 20.0 µs predicted",
        "  3. g_a=32; 3 stages, 8 warps: Wrong: error 1, 20.0 µs predicted",
        "the first is number 2, 100.0% slower than the quickest",
    ]


class Steps:
    """A clock by which the second function is the quickest, which counts how often it is asked."""

    def __init__(self) -> None:
        self.seen: list[object] = []
        self.asked = 0

    def time(self, call, times):
        self.asked += 1
        if call not in self.seen:
            self.seen.append(call)
        return [3.0, 1.0, 2.0][self.seen.index(call)]


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
class TestRun:
    def test_the_quickest_is_taken_and_kept(self, tmp_path, monkeypatch):
        import torch

        monkeypatch.setenv("CATDIAG_CACHE", str(tmp_path))
        clock = Steps()
        kernel, found = tuned(PRODUCT, SOURCE, "H200", SIZES, "fp32", most=3, machine=BenchDevice("cpu", clock))
        assert (
            found.times_ms == (3.0, 1.0, 2.0)
            and found.best == 1
            and not found.from_cache
            and set(found.failures) == {""}
        )
        assert kernel.tiles == {n: t for n, t in found.proposals[1].tiles.items() if n in kernel.tiles}
        a, b = torch.randn(20, 40), torch.randn(40, 24)
        assert torch.allclose(kernel(a, b), a @ b, atol=1e-4)

        asked = clock.asked
        again, kept = tuned(PRODUCT, SOURCE, "H200", SIZES, "fp32", most=3, machine=BenchDevice("cpu", clock))
        assert (
            kept.from_cache and kept.times_ms == found.times_ms and again.text == kernel.text and clock.asked == asked
        )
        _, fresh = tuned(
            PRODUCT, SOURCE, "H200", SIZES, "fp32", most=3, machine=BenchDevice("cpu", Steps()), fresh=True
        )
        assert not fresh.from_cache

        (file,) = (tmp_path / "tuned").iterdir()
        good = json.loads(file.read_text())
        for wrong in ("{", "[]", json.dumps({**good, "best": True}), json.dumps({**good, "times_ms": ["1", 2, 3]})):
            file.write_text(wrong)
            _, found = tuned(PRODUCT, SOURCE, "H200", SIZES, "fp32", most=3, machine=BenchDevice("cpu", Steps()))
            assert not found.from_cache and json.loads(file.read_text()) == good

    def test_what_is_wrong_is_not_taken_however_quick(self, tmp_path, monkeypatch):
        from catdiag.measure import tune

        monkeypatch.setenv("CATDIAG_CACHE", str(tmp_path))
        real, made = tune.module, []

        def wrong(*args, **options):
            module = real(*args, **options)
            made.append(module)
            if len(made) in bad:
                from dataclasses import replace

                return replace(
                    module, text=module.text.replace("tl.store(", "tl.store(0 + ", 1).replace("0 + ", "64 + ")
                )
            return module

        monkeypatch.setattr(tune, "module", wrong)
        bad = {2}
        _, found = tuned(PRODUCT, SOURCE, "H200", SIZES, "fp32", most=2, machine=BenchDevice("cpu", Steps()))
        assert found.best == 0 and found.times_ms[1] is None and found.failures[1]
        made.clear()
        bad = {1, 2}
        with pytest.raises(CatdiagError, match=r"none of 2 proposals gives correct results on this GPU: g_a="):
            tuned(PRODUCT, SOURCE, "H200", SIZES, "fp32", most=2, machine=BenchDevice("cpu", Steps()))
