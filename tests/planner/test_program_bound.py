"""What a program needs at least, beside its plan: the best of the equal programs, and never more than that takes."""

from __future__ import annotations

from typing import Any

import pytest

import catdiag as cd
from catdiag.planner import partition
from catdiag.planner.kernel_drafts import cut
from catdiag.planner.program_bound import on_chip_bytes, program_bound


@cd.algorithm("q d, x d, x v -> q v", name="linear")
def linear(Q: Any, K: Any, V: Any) -> Any:
    return cd.einsum("q x, x v -> q v", cd.einsum("q d, x d -> q x", Q, K), V)


@cd.algorithm("q d, x d, x v -> q v", name="causal")
def causal(Q: Any, K: Any, V: Any) -> Any:
    scores = cd.where(cd.index("x") <= cd.index("q"), cd.einsum("q d, x d -> q x", Q, K), -cd.inf)
    return cd.einsum("q x, x v -> q v", cd.softmax(scores, "x"), V)


LONG = {"q": 65536, "x": 65536, "d": 64, "v": 64}


def test_the_bound_is_of_the_best_order_and_says_so() -> None:
    found = program_bound(linear.diagram, cd.hardware.H200, LONG, "bf16")
    assert found.program == "after reassociate"
    assert found.flops == 2 * 2 * 65536 * 64 * 64 and found.hbm_bytes == 2 * 4 * 65536 * 64
    short = program_bound(linear.diagram, cd.hardware.H200, {**LONG, "q": 8, "x": 8}, "bf16")
    assert short.program == "as written" and short.flops == 2 * 2 * 8 * 8 * 64


def test_a_plan_prints_it_and_takes_no_less() -> None:
    plan = linear.plan("H200", LONG)
    assert plan.lower_bound == program_bound(
        linear.diagram, cd.hardware.H200, LONG, "bf16", (plan.hbm_bytes, plan.flops)
    )
    assert plan.time_s >= plan.lower_bound.seconds
    assert f"at least   {plan.lower_bound}; the plan takes" in str(plan)
    assert plan.as_dict()["lower_bound"]["flops"] == plan.lower_bound.flops


def test_a_plan_that_skips_blocks_is_one_of_the_equal_programs() -> None:
    plan = causal.plan("H200", {"q": 4096, "x": 4096, "d": 128, "v": 128})
    assert plan.lower_bound.flops <= plan.flops and plan.lower_bound.seconds <= plan.time_s
    derived = causal.stream("x").group("q v").plan("H200", {"q": 4096, "x": 4096, "d": 128, "v": 128}, dtype="fp16")
    assert derived.dtypes == "fp16" and derived.lower_bound.program in ("as written", "as planned")


@pytest.mark.parametrize("name", ["H200", "MI300X", "B200"])
def test_what_is_on_chip_is_all_of_it(name: str) -> None:
    chip = getattr(cd.hardware, name)
    assert on_chip_bytes(chip) > chip.sms * chip.smem_per_sm + chip.l2_count * chip.l2_bytes


def test_where_another_order_is_not_proved_the_program_is_planned_as_it_is_written(monkeypatch: Any) -> None:
    def refused(*_: Any) -> Any:
        raise cd.errors.NotFusable("not proved")

    sizes = {"q": 8192, "x": 8192, "d": 64, "v": 64}
    monkeypatch.setattr(partition, "ordered", refused)
    monkeypatch.setattr(partition, "cut", lambda *a: refused() if a[5] else cut(*a))
    plan = linear.plan("H200", sizes)
    assert plan.flops == 2 * 2 * 8192 * 8192 * 64 and not plan.theorem.conditional
