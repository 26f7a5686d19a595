"""What a comparison says that a diagram costs, by formula."""

from __future__ import annotations

import json

import pytest
import sympy

import catdiag as cd
from catdiag.measure.bench_case import BenchCase, case_of, evaluated, flops_of
from catdiag.measure.bench_kernels import kernels_of, loads_of
from catdiag.measure.profile.expected_counters import point_of
from catdiag.util.errors import SizeError


def test_operations_and_bytes_of_a_product() -> None:
    case = case_of(cd.library.get("matmul"), {"a": 8, "b": 16, "c": 4}, "fp32")
    assert case.flops == 2 * 8 * 16 * 4
    assert case.bytes == 4 * (8 * 16 + 16 * 4 + 8 * 4)


def test_blocks_that_a_mask_empties_are_no_operations() -> None:
    @cd.algorithm("q x, x d -> q d")
    def earlier(W: cd.Traced, V: cd.Traced) -> cd.Traced:
        return cd.einsum("q x, x d -> q d", cd.where(cd.index("x") <= cd.index("q"), W, 0), V)

    derived = earlier.stream("x").group("q").skip("x")
    sizes = {"q": 33, "x": 33, "d": 8}
    assert flops_of(derived, sizes) == 2 * 8 * 33 * 34 / 2
    assert flops_of(earlier, sizes) == 2 * 8 * 33 * 33
    assert case_of(earlier, sizes, derivation=derived).flops == 2 * 8 * 33 * 34 / 2


def test_blocks_that_an_array_decides_on_count_as_run() -> None:
    @cd.algorithm("q d, x d, bool[q x] -> q")
    def chosen(A: cd.Traced, B: cd.Traced, mask: cd.Traced) -> cd.Traced:
        return cd.sum(cd.where(mask, cd.einsum("q d, x d -> q x", A, B), 0), "x")

    asking, sizes, tiles = chosen.stream("x").group("q").skip("x"), {"q": 64, "x": 64, "d": 16}, {"g_q": 16, "s_x": 16}
    assert case_of(chosen, sizes, derivation=asking).flops == 2 * 64 * 64 * 16
    most = 2 * (64 * 16 + 4 * 64 * 16) + 64 * 64
    assert loads_of(asking, tiles, sizes, "bf16")["load"] == most
    assert sum(point_of(asking, tiles, sizes).kernels[0].loads.values()) == most


def test_a_case_survives_json() -> None:
    diagram = cd.library.get("linear_cross_entropy")
    case = case_of(diagram, {"t": 4, "v": 10, "d": 8}, draws={"label": {"below": 10}, "W": {"scale": 0.1}})
    assert BenchCase.of(json.loads(json.dumps(case.as_dict()))) == case
    assert case.inputs[2].below == 10 and case.inputs[1].scale == 0.1


def test_what_is_missing_is_named() -> None:
    with pytest.raises(SizeError, match="'d'"):
        case_of(cd.library.get("attention"), {"q": 4, "x": 4})
    with pytest.raises(SizeError, match="width"):
        case_of(cd.library.get("sliding_window_attention"), {"q": 4, "x": 4, "d": 2})
    formula = sympy.Symbol("n") + 1
    with pytest.raises(SizeError, match="'n'"):
        evaluated(formula, {})


def test_no_library_operator_is_without_a_case() -> None:
    """A formula for each, and a text that says where it may be cut."""
    from catdiag.cli.option_values import sizes_of

    for name in cd.library.names():
        diagram = cd.library.get(name)
        sizes = dict.fromkeys(sizes_of(diagram.diagram), 6)
        integers = {n: 2 for n, t in zip(diagram.diagram.input_names, diagram.dom, strict=True) if t.element == "int"}
        case = case_of(diagram, sizes, scalars=integers)
        assert case.bytes > 0 and set(case.slices) <= set(case.outputs[0].axes)
        compile(case.text, name, "exec")


def test_scalar_inputs_that_turn_no_loop_are_no_sizes_of_tiles() -> None:
    shifted = cd.algorithm("q x, int[] -> q", name="shifted")(lambda A, n: cd.sum(A, "x") + n)
    derived = shifted.stream("x").group("q")
    assert kernels_of(derived, "H200", {"q": 100, "x": 200, "n": 3}, most=1)[0].entry == "shifted"
