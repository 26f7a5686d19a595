"""What is handed to the functions of costs by mistake: each argument in turn, an error that says what was expected."""

from __future__ import annotations

import functools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import sympy

import catdiag as cd
from catdiag.bounds.lower_bound import lower_bound
from catdiag.chip import hardware
from catdiag.cost.latex import latex
from catdiag.cost.sharding import sharding
from catdiag.cost.traffic import io
from catdiag.cost.traffic_by_level import levels_io
from catdiag.optimum.crossover import crossover
from catdiag.optimum.exhaustive import exhaustive_optimum
from catdiag.optimum.power_form import power_form
from catdiag.planner.fit import fit
from catdiag.planner.fits_in_ranges import fits, possible
from catdiag.planner.pipeline_simulation import PipelineStep, schedule
from examples.napkin.energy_of_transfers import energy
from examples.napkin.hierarchy_model import Model, cross_transfer_gain, quantization_gain, tiers
from examples.napkin.machine_balance import (
    bandwidth_needed,
    machine_ratio,
    min_memory,
    min_memory_integer,
    per_operation,
    size_range,
)
from examples.napkin.multi_level_optimum import levels_together
from examples.napkin.warpgroup_configuration import configure
from examples.napkin.warpgroup_resources import read_columns

M, N = sympy.symbols("M n", positive=True)
SIZES = {"a": 64, "b": 64, "c": 64}


@functools.cache
def product() -> Any:
    return cd.library.get("matmul").stream("b").group("a c")


@functools.cache
def measured() -> Any:
    return product().io()


@functools.cache
def levelled() -> Any:
    return product().io(levels=("HBM", "L2", "SMEM"))


@functools.cache
def form() -> Any:
    return power_form(2 * N / M + 1 / N, M)


class Other:
    """Nothing that anything expects."""


WRONG: tuple[Any, ...] = (None, "nonsense", -3, float("nan"), [None], {"zzz": "8"}, int, Other())
# A function, what it is given rightly, and which of these values each argument may have all the same.
Case = tuple[Callable[..., Any], Callable[[], dict[str, Any]], dict[str, tuple[int, ...]]]
CASES: dict[str, Case] = {
    "lower_bound": (lower_bound, lambda: {"diagram": product().source, "capacity": M, "sizes": SIZES, "dtype": None},
                    {"capacity": (0,), "sizes": (0,), "dtype": (0,)}),
    "per_operation": (per_operation, lambda: {"io": measured(), "pipeline": "tensor"}, {}),
    "machine_ratio": (machine_ratio, lambda: {"bytes_per_s": 1, "flops_per_s": 1, "width": 2}, {}),
    "min_memory": (min_memory, lambda: {"form": form(), "sizes": {"n": 1000}, "ratio": Fraction(1, 9)},
                     {"sizes": (0,)}),
    "size_range": (size_range, lambda: {"form": form(), "axis": "n", "ratio": Fraction(1, 9), "memory": 10**6}, {}),
    "bandwidth_needed": (bandwidth_needed, lambda: {"io": measured(), "sizes": SIZES, "flops_per_s": 10**15,
                                                    "tiles": {"g_a": 8, "g_c": 8, "s_b": 8}}, {}),
    "min_memory_integer": (min_memory_integer, lambda: {"io": measured(), "sizes": SIZES, "ratio": Fraction(1, 9)}, {}),
    "fits": (fits, lambda: {"diagram": product(), "hardware": "H100", "ranges": {"g_a": 8, "g_c": 8, "s_b": 8},
                            "dtype": "bf16"}, {"dtype": (0,)}),
    "possible": (possible, lambda: {"diagram": product(), "hardware": "H100", "at_least": {"g_a": 8}}, {}),
    "crossover": (crossover, lambda: {"first": N / M, "second": N, "capacity": M, "long": ()},
                  {"first": (2,), "second": (2,)}),
    "spread": (sharding, lambda: {"diagram": product().diagram, "over": {"a": 4}, "dtype": "bf16"}, {"dtype": (0,)}),
    "io": (io, lambda: {"diagram": product().diagram, "dtype": "bf16", "accumulators": "level", "stages": 1},
           {"dtype": (0,)}),
    "latex": (latex, lambda: {"cost": measured()}, {}),
    "levels_io": (levels_io, lambda: {"diagram": product().diagram, "levels": ("HBM", "SMEM"), "dtype": "bf16"},
                  {"dtype": (0,)}),
    "Model.of": (Model.of, lambda: {"optimum": measured().optimum(), "tiers": tiers("H100", "HBM", "SMEM")}, {}),
    "cross_transfer_gain": (cross_transfer_gain, lambda: {"beta": Fraction(1, 2), "children": 4, "cost": 2, "cross": 1},
                            {"children": (2,), "cost": (2,), "cross": (2,)}),
    "quantisation_gain": (quantization_gain, lambda: {"wide": form(), "narrow": form()}, {}),
    "levels_together": (levels_together, lambda: {"io": levelled()}, {}),
    "least": (exhaustive_optimum, lambda: {"account": measured().account, "sizes": SIZES, "capacity": 500}, {}),
    "fit": (fit, lambda: {"diagram": product(), "hardware": "H100", "sizes": SIZES, "dtype": "bf16"}, {"dtype": (0,)}),
    "configure": (configure, lambda: {"diagram": product(), "hardware": "H100", "values": {"s_b": 64}}, {}),
    "read_columns": (read_columns, lambda: {"diagram": product(), "dtype": "fp16"}, {"dtype": (0,)}),
    "schedule": (schedule, lambda: {"steps": [], "actors": 2}, {}),
    "energy": (energy, lambda: {"moved": {("HBM", "SMEM"): N}, "hierarchy": hardware.get("H100").hierarchy}, {}),
    "power_form": (power_form, lambda: {"formula": N / M, "capacity": M}, {"formula": (2,)}),
    "PowerForm.at": (lambda **k: form().at(**k), lambda: {"capacity": 9}, {"capacity": (2,)}),
    "PowerForm.coefficient": (lambda **k: form().coefficient(**k), lambda: {"beta": 1}, {"beta": (2,)}),
    "PowerForm.quantised": (lambda **k: form().quantized(**k), lambda: {"width": 2}, {}),
    "PowerForm.scaled": (lambda **k: form().scaled(**k), lambda: {"factor": 2}, {"factor": (2,)}),
    "PowerForm.over": (lambda **k: form().over(**k), lambda: {"levels": [(1, 9)]}, {}),
    "LevelsIO.edge": (lambda **k: levelled().edge(**k), lambda: {"lower": "L2"}, {}),
    "LevelsIO.capacity": (lambda **k: levelled().capacity(**k), lambda: {"level": "L2"}, {}),
    "LevelsIO.reach": (lambda **k: levelled().reach(**k), lambda: {"level": "L2"}, {}),
    "LevelsIO.bounded": (lambda **k: levelled().bounded(**k), lambda: {"level": "L2"}, {}),
    "LevelsIO.optimum": (lambda **k: levelled().optimum(**k), lambda: {"lower": "L2"}, {}),
    "LevelsIO.regimes": (lambda **k: levelled().regimes(**k), lambda: {"lower": "L2"}, {}),
    "IO.whole_optimum": (lambda **k: measured().integer_optimum(**k), lambda: {"sizes": SIZES, "capacity": 500},
                         {"capacity": (2,)}),
    "Hardware.word": (hardware.get("H100").word, lambda: {"what": "SMEM"}, {"what": (1,)}),
    "claims": (lambda **k: product().claims(**k), lambda: {"limit": 1.0}, {"limit": (0,)}),
    "stability": (lambda **k: product().stability(**k), lambda: {"limit": 1.0}, {"limit": (0,)}),
    "html": (lambda **k: product().draw("html", **k),
             lambda: {"path": "", "on": "H100", "sizes": SIZES, "dtype": "bf16", "theorems": False, "times": False},
             {"path": (0, 1), "dtype": (0,)}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_argument_is_refused_by_name(name: str) -> None:
    function, right, allowed = CASES[name]
    given = right()
    tried = 0
    for argument in given:
        for k, value in enumerate(WRONG):
            if k in allowed.get(argument, ()):
                continue
            with pytest.raises(cd.errors.CatdiagError) as caught:
                function(**{**given, argument: value})
            assert 0 < len(caught.value.message) < 1500
            tried += 1
    assert tried >= 3


def test_ends_of_ranges_are_said() -> None:
    bound = cd.library.get("matmul").lower_bound()
    for call, said in (
        (lambda: bound.ratio(N, SIZES, 100), "what is compared is n: expected a number, so give one for n"),
        (lambda: bound.ratio(N / N, {**SIZES, "a": 0}, 100), "the bound is 0 at these sizes"),
        (lambda: lower_bound(product().source, -3), "the capacity is -3, which is negative"),
        (
            lambda: product().sharding({"a": 4}).overlaps(1, 0),
            "bytes_per_s is 0: expected a number above 0, or a symbol",
        ),
        (lambda: crossover(N / M, N, M).at({"n": 2}, 10**30), "expected at most 1000"),
        (lambda: schedule([PipelineStep("a", "b", 1)], 10**30), "expected at most 1024"),
        (lambda: cross_transfer_gain(10**30, 4, 2, 1), "expected an exponent of at most 64"),
        (lambda: product().claims(limit=-1), "the limit is -1: expected a number of seconds above 0, or None"),
    ):
        with pytest.raises(cd.errors.CatdiagError, match=said):
            call()


def test_a_guide_without_parameters_is_refused() -> None:
    total = cd.algorithm("q, x -> q")(
        lambda n, a: cd.sum(cd.where(cd.index("x") <= cd.index("q"), a, 0), "x") + n
    ).stream("x")
    for guide in (int, 3, dict, "n", [None]):
        with pytest.raises(cd.errors.CatdiagError, match=r"live of the loop over 'x' is .*expected a function"):
            total.skip("x", live=guide)  # type: ignore[arg-type]
