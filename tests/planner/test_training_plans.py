"""Plans of forward and backward passes: the types of what passes between them, and sizes that only bodies have."""

from __future__ import annotations

import catdiag as cd
from catdiag.planner.training_plans import training_plans


def test_statistics_are_saved_in_fp32_and_arrays_in_the_type_of_results() -> None:
    plans = training_plans(cd.library.cross_entropy.diagram, cd.hardware.H200, {"t": 8192, "v": 32000}, "bf16", [0])
    assert [len(plan.kernels) for plan in (plans.forward, plans.backward)] == [1, 1]
    assert plans.forward.dtypes["out1"] == plans.backward.dtypes["saved0"] == "fp32"
    assert plans.backward.dtypes["out"] == plans.backward.dtypes["dout"] == "bf16"
    assert plans.backward.module is not None  # it sums over an axis of which it reads no array
    assert plans.time_s == plans.forward.time_s + plans.backward.time_s
