"""The kernels of plans: what is shown is what is written."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.measure.tune import tuned_plan
from catdiag.planner.compiled_plan import compiled_of
from catdiag.planner.configuration_proposal import Proposal
from catdiag.planner.fit import fit
from catdiag.planner.launch_configurations import propose
from catdiag.planner.multi_kernel_plan import Plan
from catdiag.runtime.abstract_interpreter.shared_memory import shared_of_launch
from catdiag.runtime.launch_recorder import record_launches
from catdiag.util.errors import CatdiagError, DoesNotFit, SizeError

SIZES = {"q": 4096, "x": 4096, "d": 64}


@pytest.fixture(scope="module")
def plan(flash: cd.Program) -> Plan:
    return flash.plan("H200", SIZES)


# -- an independent reader: the launch function's defaults, by Python's own parser ------------------------------------


def defaults_of(text: str, entry: str) -> dict[str, Any]:
    """The keyword arguments of a module's launch function that have a default."""
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == entry]
    (launch,) = functions
    pairs = zip(launch.args.kwonlyargs, launch.args.kw_defaults, strict=True)
    return {argument.arg: ast.literal_eval(value) for argument, value in pairs if value is not None}


def agree(found: Plan, generation: int = 9) -> None:
    """What a plan says is what its module is launched with on chips of a generation (9: Hopper), and fits."""
    assert found.backend == "triton" and not found.reason and found.chip is not None
    made = found.written()
    assert made.text == found.code("triton")
    written = defaults_of(made.text, made.entry)
    shown = {name: tile for name, tile in found.tiles.items() if name in written}
    assert {name: written[name] for name in shown} == shown
    assert all(tile == 1 for name, tile in found.tiles.items() if name not in written), "1 is built in"
    assert (written["num_stages"], written["num_warps"]) == (found.stages, found.warps)
    assert bool(made.specialized) == found.warp_specialized
    launches = record_launches(made, found.sizes, generation=generation)
    shared = [shared_of_launch(made.code, launch, generation).bytes for launch in launches]
    assert max(shared) == found.shared_memory_bytes <= found.chip.smem_per_block
    for launch in launches:
        if launch.kernel not in made.specialized:
            assert launch.options["num_warps"] == found.warps and launch.options["num_stages"] == found.stages
    assert any((launch.kernel in made.specialized) == found.warp_specialized for launch in launches)
    assert found.groups in [launch.programs for launch in launches] or "p_" in str(found.tiles)
    (level,) = [level for level in found.levels if level.name == "SMEM"]
    assert level.allocated == found.shared_memory_bytes == sum(held for _, _, held in level.live_arrays)
    assert found.blocks_per_sm * (found.shared_memory_bytes + found.chip.smem_reserved) <= found.chip.smem_per_sm
    assert proved(found) == found.shared_memory_bytes


def proved(found: Plan) -> int:
    """The most bytes of shared memory that the theorem speaks of, at the plan's tiles."""
    bounds = found.proof.levels["SMEM"].rpartition(": ")[2].split(" and ")
    known = {name: int(tile) for name, tile in found.tiles.items()}
    limit = {int(bound.rpartition(" ≤ ")[2]) for bound in bounds}
    assert found.chip is not None and limit == {found.chip.smem_per_block}
    return max(eval(bound.rpartition(" ≤ ")[0], {"__builtins__": {}}, known) for bound in bounds)


FORMS: dict[str, tuple[str | None, str, dict[str, int]]] = {
    "matmul": ("b", "a c", {"a": 4096, "b": 4096, "c": 4096}),
    "attention": ("x", "q", {"q": 8192, "x": 8192, "d": 128}),
    "multi_head_attention": ("x", "b h q", {"b": 1, "h": 16, "q": 8192, "x": 8192, "d": 128}),
    "causal_attention": ("x", "q", {"q": 300, "x": 77, "d": 40}),
    "gated_mlp": ("f", "t", {"t": 4096, "d": 64, "f": 1000, "o": 64}),
    "rms_norm_linear": ("d", "t o", {"t": 100, "d": 1000, "o": 300}),
    "linear_cross_entropy": ("v", "t", {"t": 2048, "d": 64, "v": 32000}),
    "softmax_entropy": ("v", "t", {"t": 8192, "v": 5000}),
    "layer_norm": (None, "t", {"t": 4096, "d": 1000}),
    "max_pool": ("j", "n y x c", {"n": 8, "c": 64, "h": 2, "w": 3, "x": 32, "y": 32}),
    "decoding_attention": ("x", "b k r", {"b": 8, "k": 8, "r": 4, "x": 8192, "d": 128}),
}


@pytest.fixture(scope="module")
def forms() -> dict[str, cd.Program]:
    found = {}
    for name, (axis, groups, _) in FORMS.items():
        begun = cd.library.get(name)
        found[name] = (begun if axis is None else begun.stream(axis)).group(groups)
    return found


def shown() -> Iterator[Any]:
    """Of two products all; of the others each chip and each type once, and what is left of the product is slow."""
    for name in FORMS:
        for chip, dtype in (("H200", "bf16"), ("H200", "fp32"), ("A100", "bf16"), ("A100", "fp32")):
            whole = name in ("matmul", "multi_head_attention") or (chip == "H200") == (dtype == "bf16")
            yield pytest.param(name, chip, dtype, id=f"{name}-{chip}-{dtype}", marks=[pytest.mark.slow] * (not whole))


@pytest.mark.parametrize(("name", "chip", "dtype"), shown())
def test_what_is_shown_is_what_is_written(name: str, chip: str, dtype: str, forms: dict[str, cd.Program]) -> None:
    found = forms[name].plan(chip, FORMS[name][2], dtype=dtype)
    agree(found, {"H200": 9, "A100": 8}[chip])


def configurations() -> Iterator[tuple[str, dict[str, int], str, str]]:
    lengths = ({"q": 1024, "x": 1024, "t": 2048}, {"q": 100, "x": 3000, "t": 7, "d": 80, "v": 5000, "f": 520})
    for name in cd.library.names():
        for known in lengths:
            for chip in ("H200", "H100", "A100", "B200", "MI300X"):
                for dtype in ("bf16", "fp32", "fp8"):
                    yield name, known, chip, dtype


@pytest.mark.slow
@pytest.mark.parametrize("name", cd.library.names())
def test_the_whole_library_is_shown_as_it_is_written(name: str) -> None:
    from catdiag.cli.derive_report_data import derive
    from catdiag.schedule.kernel_analysis import measure
    from catdiag.solvers.z3 import Z3

    with Z3() as ask:
        try:
            made = derive(cd.library.get(name), ask).derivation
            account = measure(made.diagram)
            if len(account.kernels) > 1 + (account.split_loop is not None):
                raise CatdiagError("several kernels")
        except CatdiagError:
            pytest.skip("nothing is derived of it without sizes")
    for _, known, chip, dtype in (c for c in configurations() if c[0] == name):
        sizes = {size: known.get(size, 32) for size in (*account.sizes, *account.scalars)}
        try:
            found = made.plan(chip, sizes, dtype=dtype)
        except DoesNotFit:
            continue
        if found.backend == "triton":
            agree(found, {"H200": 9, "H100": 9, "A100": 8, "B200": 10, "MI300X": 3}[chip])
        else:
            assert found.reason
            with pytest.raises(CatdiagError, match=re.escape(found.reason)):
                found.code("triton")


@pytest.mark.triton
@pytest.mark.parametrize("name", ["multi_head_attention", "matmul"])
def test_a_chip_of_amd_takes_the_shared_memory_that_is_said(name: str, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("CATDIAG_CACHE", str(tmp_path))
    from catdiag.runtime.machine_code import binaries

    program = cd.library.get(name)
    sizes = {str(axis.size): 1024 if axis.name in "qx" else 64 for ty in program.diagram.dom for axis in ty.axes}
    found = program.plan("MI300X", sizes)
    for kernel in found.kernels:
        assert kernel.module is not None
        taken = max(code.shared_bytes for code in binaries(kernel.module, kernel.sizes, arch="gfx942"))
        assert kernel.shared_memory_bytes == taken


def test_a_warp_specialized_kernel_is_shown_whole(forms: dict[str, cd.Program]) -> None:
    found = forms["multi_head_attention"].plan("H200", FORMS["multi_head_attention"][2])
    assert dict(found.tiles) == {"g_b": 1, "g_h": 1, "g_q": 128, "s_x": 128}
    assert (found.stages, found.warps, found.producers, found.blocks_per_sm) == (3, 8, 1, 1)
    assert found.warp_specialized and found.shared_memory_bytes == 229_480 and found.registers_per_thread == 240
    assert "warp-specialized" in str(found) and "229,480 bytes" in str(found)
    plain = found.kernels[0].as_dict()
    assert (plain["backend"], plain["stages"], plain["warps"], plain["warp_specialized"]) == ("triton", 3, 8, True)
    assert plain["shared_memory_bytes"] == 229_480 and "module" not in plain
    json.dumps(plain)


def test_a_plan_says_why_a_kernel_has_the_plain_form() -> None:
    def computed_factor(q: Any, k: Any, v: Any) -> Any:
        scores = cd.einsum("h q d, h x d -> h q x", q, cd.exp(k))
        return cd.einsum("h q x, h x v -> h q v", cd.softmax(scores, "x"), v)

    form = cd.algorithm("h q d, h x d, h x v -> h q v")(computed_factor).stream("x").group("h q")
    sizes = {"h": 16, "q": 8192, "x": 8192, "d": 128, "v": 128}
    found = form.plan("H200", sizes)
    why = "the column factor of a product is computed or converted: expected a loaded block"
    assert found.plain_form_reason == why and not found.warp_specialized
    assert f"what is written; plain form: because {why}" in str(found)
    with pytest.raises(CatdiagError, match=r"kernel 1 .* is planned in its plain form, because the column factor"):
        found.compile(strict=True)
    assert form.plan("A100", sizes).plain_form_reason == ""  # no kernel of that chip is warp-specialized


def test_no_other_form_is_expected_of_products_of_what_is_loaded() -> None:
    def gated(X: Any, G: Any, U: Any) -> Any:
        return cd.einsum("b t d, f d -> b t f", X, G) * cd.tanh(cd.einsum("b t d, f d -> b t f", X, U))

    form = cd.algorithm("b t d, f d, f d -> b t f")(gated).stream("d").group("b t f")
    found = form.plan("H200", {"b": 1, "t": 8192, "d": 4096, "f": 14336})
    assert not found.warp_specialized and found.plain_form_reason == "" and "plain form" not in str(found)


# -- what is asked for ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"tiles": {"g_q": 32}},
        {"stages": 1},
        {"stages": 4},
        {"threads": 64},
        {"threads": 256},
        {"multiples": {"s_x": 128}},
        {"at_least": {"g_q": 128}},
        {"tiles": {"g_q": 64, "s_x": 32}, "stages": 2, "threads": 128},
    ],
    ids=str,
)
def test_what_is_given_is_honoured(flash: cd.Program, options: dict[str, Any]) -> None:
    found = flash.plan("H200", SIZES, **options)
    agree(found)
    assert options.get("tiles", {}).items() <= found.tiles.items()
    assert options.get("stages", found.stages) == found.stages
    assert options.get("threads", found.threads) == found.threads
    assert all(found.tiles[name] % every == 0 for name, every in options.get("multiples", {}).items())
    assert all(found.tiles[name] >= least for name, least in options.get("at_least", {}).items())


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"tiles": {"g_q": 48}}, "'g_q' as 48: expected a power of two"),
        ({"multiples": {"s_x": 48}}, "s_x is to be a multiple of 48"),
        ({"threads": 160}, "threads is 160, 5 warps"),
        ({"objective": "largest"}, "objective 'largest'"),
        ({"overlap": "max"}, "overlap='max'"),
        ({"producers": 4}, "4 warps are asked for that only load"),
        ({"ahead": True}, "begin the products of the next iteration"),
        ({"passed": "SMEM"}, "from SMEM"),
    ],
    ids=str,
)
def test_what_triton_cannot_write_is_the_ideal_models_and_says_so(
    flash: cd.Program, options: dict[str, Any], reason: str
) -> None:
    found = flash.plan("H200", SIZES, **options)
    assert found.backend == "ideal" and found.module is None and reason in found.reason
    assert reason in str(found) and found.as_dict()["reason"] == found.reason
    for made in (found.code, found.compile, partial(tuned_plan, found)):
        with pytest.raises(CatdiagError, match="the plan is of the ideal model"):
            made()
    with pytest.raises(CatdiagError, match=re.escape(reason)):
        flash.plan("H200", SIZES, backend="triton", **options)


def test_the_ideal_model_can_be_asked_for(flash: cd.Program) -> None:
    found = flash.plan("H200", SIZES, backend="ideal")
    assert found.backend == "ideal" and found.reason == "it was asked for"
    with pytest.raises(CatdiagError, match="backend is 'cuda'"):
        flash.plan("H200", SIZES, backend="cuda")


def test_a_chip_that_triton_has_no_kernels_for() -> None:
    product = cd.library.get("matmul").stream("b").group("a c")
    found = product.plan("TPU v5p", {"a": 512, "b": 512, "c": 512})
    assert found.backend == "ideal" and "Triton has no kernels for it" in found.reason


def test_a_chip_of_ones_own_is_planned_for(flash: cd.Program) -> None:
    small = replace(cd.hardware.H200, name="small", smem_per_sm=101_376, smem_per_block=100_352)
    found = flash.plan(small, SIZES)
    agree(found)
    assert found.hardware == "small"


def test_what_has_no_form_says_why() -> None:
    opaque = cd.algorithm("q x -> q", name="opaque")(lambda A: cd.sum(cd.apply("mystery", A), "x"))
    found = opaque.stream("x").group("q").plan("H200", {"q": 512, "x": 512})
    assert found.backend == "ideal" and "mystery" in found.reason


def test_what_does_not_fit_is_of_the_same_model(flash: cd.Program) -> None:
    wide = {**SIZES, "d": 8192}
    with pytest.raises(
        DoesNotFit, match=r"no Triton kernel fits H200: g_q=\d+, s_x=\d+ with \d+ warps needs"
    ) as caught:
        flash.plan("H200", wide)
    assert "(streamed)" in str(caught.value) or "(accumulator)" in str(caught.value)
    assert caught.value.excess > 1


def test_a_configuration_that_is_launched_otherwise_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one is, and what was passed over is said."""
    product = cd.library.get("matmul").stream("b").group("a c")
    sizes = {"a": 4096, "b": 4096, "c": 4096}
    first = product.plan("H200", sizes)
    from catdiag.planner.fitted_configuration import Fitting

    taken = Fitting._emitted

    def emitted(self: Fitting, proposal: Proposal) -> Any:
        found = taken(self, proposal)
        if proposal.tiles != first.tiles:
            return found
        return replace(found, runs=tuple(replace(run, stages=run.stages + 7) for run in found.runs))

    monkeypatch.setattr(Fitting, "_emitted", emitted)
    found = product.plan("H200", sizes)
    agree(found)
    assert found.tiles != first.tiles
    assert any("it is launched with" in other.reason for other in found.next_best)


# -- plans ------------------------------------------------------------------------------------------------------------


def test_a_plan_knows_what_it_is_of(flash: cd.Program, plan: Plan) -> None:
    assert plan.diagram is flash.diagram
    assert plan.source is flash.source.diagram
    bare = fit(flash.diagram, "H200", SIZES)
    assert bare.diagram is flash.diagram and bare.source is None
    (kernel,) = plan.kernels
    bare = replace(kernel, diagram=None, source=None)
    assert replace(plan, kernels=(bare,)) == plan, "what it is of is not what it says"
    assert "diagram" not in repr(plan) and "diagram" not in json.dumps(plan.as_dict())


def test_it_is_what_is_proposed_first(plan: Plan, flash: cd.Program) -> None:
    (first,) = propose(flash, "H200", plan.sizes, most=1)
    assert (dict(plan.tiles), plan.stages, plan.warps) == (dict(first.tiles), first.stages, first.warps)
    assert plan.warp_specialized == first.specialized


@pytest.mark.slow
def test_several_kernels_are_written_as_they_are_shown() -> None:
    plans = cd.library.get("gated_mlp").plan("H200", {"t": 8192, "d": 4096, "f": 14336, "o": 4096})
    made = plans.written()
    assert plans.backend == "triton" and isinstance(made.warps, tuple) and len(plans.kernels) == 2
    written = defaults_of(plans.code("triton"), made.entry)
    assert written["num_warps"] == tuple(k.warps for k in plans.kernels)
    assert written["num_stages"] == tuple(k.stages for k in plans.kernels)
    assert {n: written[n] for n in plans.tiles if n in written} == {
        n: t for n, t in plans.tiles.items() if n in written
    }
    launches = record_launches(made, {"t": 8192, "d": 4096, "f": 14336, "o": 4096})
    shared = [shared_of_launch(made.code, launch).bytes for launch in launches]
    assert shared == [k.shared_memory_bytes for k in plans.kernels]


def test_a_plan_of_kernels_without_a_form_says_why() -> None:
    plans = cd.library.get("matmul").plan("TPU v5p", {"a": 512, "b": 512, "c": 512})
    assert plans.backend == "ideal" and "Triton has no kernels for it" in plans.reason
    with pytest.raises(CatdiagError, match="Triton has no kernels for it"):
        plans.code("triton")


def test_types_by_name(flash: cd.Program) -> None:
    found = flash.plan("H200", SIZES, dtype={"Q": "fp8", "K": "fp8", "V": "bf16", "out": "bf16"})
    agree(found)
    assert [a.dtype for a in found.written().inputs] == ["float8_e4m3fn", "float8_e4m3fn", "bfloat16"]


def test_a_tile_that_is_missing_is_named(flash: cd.Program) -> None:
    with pytest.raises(SizeError, match="s_x"):
        flash.code("triton", tiles={"g_q": 64})


def test_compiling_without_torch_says_how_to_install_it(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(CatdiagError, match=r"a generated kernel needs torch, .*pip install 'catdiag\[gpu\]'"):
        replace(plan).compile()


def test_tuning_gives_the_plan_of_what_was_quickest(flash: cd.Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU: what is handed over, and what comes back."""
    from catdiag.measure import tune

    plan = flash.plan("H200", SIZES, tiles={"g_q": 64})
    other = propose(flash, "H200", SIZES, tiles={"g_q": 64})[3]
    asked: list[Any] = []

    @dataclass(frozen=True)
    class Kernel:
        tuning: Any = None

    def tuned(*given: object, **options: object) -> tuple[Kernel, Any]:
        asked.append((given, options))
        return Kernel(), tune.Tuned((other,), (1.0,), ("",), 0)

    monkeypatch.setattr(tune, "tuned", tuned)
    measured = tune.tuned_plan(plan)
    assert (dict(measured.tiles), measured.stages, measured.warps) == (dict(other.tiles), other.stages, other.warps)
    assert dict(plan.tiles) != dict(measured.tiles) or plan.stages != measured.stages, "another than the first"
    agree(measured)
    assert measured.compile().tuning.chosen is other
    ((given, options),) = asked
    assert given == (plan.diagram, plan.source, plan.chip, plan.sizes, "bf16") and options["tiles"] == {"g_q": 64}
    named = flash.plan("H200", SIZES, dtype={"Q": "fp8", "K": "fp8", "V": "fp8", "out": "bf16"})
    with pytest.raises(CatdiagError, match="types by name"):
        tune.tuned_plan(named)


@pytest.mark.triton
@pytest.mark.usefixtures("compiling")
class TestCompiled:
    def test_a_plan_gives_one_function(self, flash: cd.Program, plan: Plan) -> None:
        assert plan.compile() is plan.compile()
        assert flash.source == plan.compile().source

    def test_shared_memory_is_what_the_plan_said(self, flash: cd.Program) -> None:
        plan = flash.plan("H200", SIZES, tiles={"g_q": 64, "s_x": 128}, stages=2)
        (binary,) = plan.compile().binaries(SIZES)
        assert abs(binary.shared_bytes - plan.shared_memory_bytes) <= 1024
        assert binary.threads == plan.threads
        assert not binary.spills
        assert binary.launches[0].programs == plan.groups


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
class TestRun:
    def test_it_gives_what_the_diagram_means(self, flash: cd.Program) -> None:
        import torch

        kernel = compiled_of(flash, flash.source, {"g_q": 16, "s_x": 16}, "fp32")
        rng = np.random.default_rng(0)
        arrays = [rng.normal(size=shape).astype(np.float32) for shape in ((20, 16), (37, 16), (37, 16))]
        got = kernel(*map(torch.from_numpy, arrays))
        assert np.allclose(got.numpy(), flash.source(*arrays), atol=1e-5)
        cd.testing.assert_compiled(kernel, {"q": [1, 17], "x": [1, 33], "d": 16}, trials=3, operands="tf32")


@pytest.mark.triton
@pytest.mark.usefixtures("compiling")
def test_sizes_that_no_input_shows_are_those_of_the_plan() -> None:
    heads = cd.algorithm("t (h d) -> t h")(lambda A: cd.sum(cd.rearrange(A, "t (h d) -> t h d"), "d"))
    plan = heads.plan("H200", {"t": 64, "h": 8, "d": 32})
    hidden = plan.written().hidden_sizes
    kernel = plan.compile()
    assert hidden and {name: kernel.options[name] for name in hidden} == {name: plan.sizes[name] for name in hidden}
    assert kernel.at(sizes={"h": 4, "d": 64}).options[hidden[0]] == {"h": 4, "d": 64}[hidden[0]]
