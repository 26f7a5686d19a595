"""The kernels of plans and derivations."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.cost.plan import Plan, fit
from catdiag.errors import CatdiagError, SizeError
from catdiag.gpu.planned import module_of, proposals_of, tiles_of
from catdiag.gpu.proposals import propose

SIZES = {"q": 4096, "x": 4096, "d": 64}


@pytest.fixture(scope="module")
def flash() -> cd.Derivation:
    return cd.library.get("attention").stream("x").group("q")


@pytest.fixture(scope="module")
def plan(flash: cd.Derivation) -> Plan:
    return flash.fit("H200", SIZES)


def test_a_plan_knows_what_it_is_of(flash: cd.Derivation, plan: Plan) -> None:
    assert plan.diagram is flash.diagram
    assert plan.source is flash.source
    bare = fit(flash.diagram, "H200", SIZES)
    assert bare.diagram is flash.diagram and bare.source is None
    assert replace(plan, diagram=None, source=None) == plan, "what it is of is not what it says"
    assert "diagram" not in repr(plan) and "diagram" not in json.dumps(plan.as_dict())


def test_the_module_has_the_tiles_buffers_and_warps_of_the_plan(plan: Plan) -> None:
    made = module_of(plan, "plan")
    assert made.text == plan.triton("plan")
    assert dict(made.tiles) == dict(plan.tiles)
    assert (made.stages, made.warps) == (plan.stages, plan.threads // 32)
    assert {a.dtype for a in made.inputs} == {"bfloat16"}
    with pytest.raises(CatdiagError, match="expected 'triton' or 'plan'"):
        module_of(plan, "any")


def test_its_own_tiles_are_what_is_proposed_for_triton(plan: Plan, flash: cd.Derivation) -> None:
    (first,) = propose(flash, "H200", plan.sizes, most=1)
    made = module_of(plan)
    assert made.text == plan.triton()
    assert (dict(made.tiles), made.stages, made.warps) == (dict(first.tiles), first.stages, first.warps)


def test_tiles_that_were_asked_for_are_kept(flash: cd.Derivation) -> None:
    asked = flash.fit("H200", SIZES, tiles={"g_q": 32})
    assert module_of(asked).tiles["g_q"] == 32
    odd = flash.fit("H200", SIZES, tiles={"g_q": 48})  # of which there is no proposal
    assert dict(module_of(odd).tiles) == tiles_of(odd)


def test_a_kernel_without_a_proposal_runs_as_planned_beside_others(plan: Plan, flash: cd.Derivation) -> None:
    odd = flash.fit("H200", SIZES, tiles={"g_q": 48})
    with pytest.raises(CatdiagError):
        proposals_of(odd)
    several: Any = SimpleNamespace(kernels=[SimpleNamespace(plan=plan), SimpleNamespace(plan=odd)])
    (chosen,) = proposals_of(several)
    (first,) = propose(flash, "H200", SIZES, most=1)
    assert chosen.stages == (first.stages, odd.stages)
    assert chosen.warps == (first.warps, odd.threads // 32)
    assert dict(chosen.tiles) == {**first.tiles, **tiles_of(odd)}


@pytest.mark.slow
def test_each_of_several_kernels_has_its_own_proposal() -> None:
    plans = cd.library.get("gated_mlp").plan("H200", {"t": 8192, "d": 4096, "f": 14336, "o": 4096})
    made = module_of(plans)
    assert isinstance(made.warps, tuple) and len(made.warps) == len(plans.kernels) == 2
    for kernel in plans.kernels:
        first = propose(kernel.plan.diagram, "H200", kernel.plan.sizes, most=1)[0]
        assert first.tiles.items() <= made.tiles.items()
    chosen = proposals_of(plans, 3)
    assert len({str(c) for c in chosen}) == 3


def test_types_by_name(flash: cd.Derivation) -> None:
    plan = flash.fit("H200", SIZES, dtype={"Q": "fp8", "K": "fp8", "V": "bf16", "out": "bf16"})
    assert [a.dtype for a in module_of(plan).inputs] == ["float8_e4m3fn", "float8_e4m3fn", "bfloat16"]


def test_tiles_are_powers_of_two(flash: cd.Derivation) -> None:
    plan = flash.fit("H200", {**SIZES, "x": 100}, tiles={"g_q": 48, "s_x": 100})
    assert tiles_of(plan) == {"g_q": 32, "s_x": 128}


def test_a_plan_from_elsewhere_has_no_kernel(plan: Plan) -> None:
    with pytest.raises(CatdiagError, match="the plan does not know its diagram"):
        replace(plan, diagram=None).triton()


def test_a_tile_that_is_missing_is_named(flash: cd.Derivation) -> None:
    with pytest.raises(SizeError, match="s_x"):
        flash.triton({"g_q": 64})


def test_compiling_without_torch_says_how_to_install_it(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(CatdiagError, match=r"a generated kernel needs torch, .*pip install 'catdiag\[gpu\]'"):
        replace(plan, core="SM").compile()


def test_tuning_takes_what_was_quickest(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU: what is handed over, and what comes back."""
    from catdiag.gpu import planned, tune

    asked: list[object] = []

    @dataclass(frozen=True)
    class Kernel:
        tuning: object = None

    def tuned(*given: object) -> tuple[Kernel, str]:
        asked.extend(given)
        return Kernel(), "times"

    monkeypatch.setattr(tune, "tuned", tuned)
    monkeypatch.setattr(planned, "kernel_of", lambda plan, tiles: "plain")
    fresh = replace(plan, core="SM")
    assert fresh.compile(tune=True).tuning == "times"
    assert fresh.compile(tune=True) is fresh.compile(tune=True)
    assert fresh.compile() == "plain"
    assert asked == [plan.diagram, plan.source, "H200", plan.sizes, "bf16"]
    named = replace(plan, dtype="Q fp8, K bf16")
    with pytest.raises(CatdiagError, match="types by name"):
        named.compile(tune=True)


@pytest.mark.triton
@pytest.mark.usefixtures("compiling")
class TestCompiled:
    def test_a_plan_gives_one_function(self, flash: cd.Derivation, plan: Plan) -> None:
        assert plan.compile() is plan.compile()
        assert plan.compile().source is flash.source
        given = {"g_q": 64, "s_x": 32}
        assert flash.compile(given) is flash.compile(dict(given)) is not flash.compile(given, warps=8)

    def test_shared_memory_is_what_the_plan_said(self, flash: cd.Derivation) -> None:
        plan = flash.fit("H200", SIZES, tiles={"g_q": 64, "s_x": 128}, stages=2)
        (binary,) = plan.compile(tiles="plan").binaries(SIZES)
        assert abs(binary.shared - plan.smem_bytes) <= 1024
        assert binary.threads == plan.threads
        assert not binary.spills
        assert binary.launches[0].programs == plan.groups


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
class TestRun:
    def test_it_gives_what_the_diagram_means(self, flash: cd.Derivation) -> None:
        import torch

        kernel = flash.compile({"g_q": 16, "s_x": 16}, "fp32")
        rng = np.random.default_rng(0)
        arrays = [rng.normal(size=shape).astype(np.float32) for shape in ((20, 16), (37, 16), (37, 16))]
        got = kernel(*map(torch.from_numpy, arrays))
        assert np.allclose(got.numpy(), flash.source(*arrays), atol=1e-5)
        cd.testing.assert_compiled(kernel, {"q": [1, 17], "x": [1, 33], "d": 16}, trials=3, operands="tf32")
