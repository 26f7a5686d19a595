"""The sweep over the library: its list, its rows, its page, and memory around arrays that nobody may touch."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

import catdiag as cd
from benchmarks.gpu.sweep import kept, untouched, within
from benchmarks.gpu.sweep_list import CONTIGUOUS, KINDS, PLANS, lengths, names, of_operator, operator, scalars, symbols
from benchmarks.gpu.sweep_page import LATE, RIGHT, WRONG, Row, page


def row(name: str, outcome: str = RIGHT, **further: float) -> Row:
    made = Row(f"{name}, large, bf16, contiguous", "library", name, "large", "bf16", "contiguous", outcome)
    for key, value in further.items():
        setattr(made, key, value)
    return made


def test_every_operator_has_lengths_of_every_kind() -> None:
    assert {kind for kind, _, _ in PLANS} <= set(KINDS)
    for name in names():
        diagram = operator(name)
        for kind in KINDS:
            sizes = lengths(name, diagram, kind)
            assert set(sizes) == set(symbols(diagram)) and min(sizes.values()) >= 1
            values = scalars(name, diagram, sizes)
            assert set(values) == {n for n, ty in zip(diagram.input_names, diagram.dom, strict=True) if not ty.axes}
    sizes = lengths("conv2d", cd.library.get("conv2d"), "odd")
    assert sizes["h"] == sizes["y"] + sizes["i"] - 1 and sizes["w"] == sizes["x"] + sizes["j"] - 1


def test_kernels_are_those_of_plans() -> None:
    (case,) = (swept.case for swept in of_operator("l2_norm_linear", [("even", "bf16", CONTIGUOUS)], "H200"))
    plan = cd.library.get("l2_norm_linear").plan("H200", case.sizes)
    assert [kernel.text for kernel in case.kernels] == [plan.code()], case.refused


def test_sums_of_columns_are_added_up_in_runs() -> None:
    cases = [s.case for s in of_operator("rms_norm_gradient", [("odd", "fp16", CONTIGUOUS)], "H200")]
    assert ["tile in tl.range(pid * run" in kernel.text for case in cases for kernel in case.kernels] == [True]


def test_the_page_counts_what_is_right_and_puts_the_slowest_first() -> None:
    rows = [
        row("fast", error=1e-3, worst=2e-3, ours_ms=1.0, peer_ms=3.0),
        row("slow", error=1e-3, worst=1e-3, ours_ms=4.0, peer_ms=1.0),
        row("off", WRONG),
        row("long", LATE),
    ]
    text = page(rows, {"GPU": "none"}, missing=2)
    assert "| bf16 | large | contiguous | 2 | 2 | 2.0e-03 | 2e-02 |" in text and "2 cases were not run" in text
    assert text.index("| slow |") < text.index("| fast |") and "the kernel is slower for 1" in text
    assert "- off, large, bf16, contiguous: wrong" in text and "- long" in text


def test_of_a_case_that_was_run_again_the_last_row_counts(tmp_path: Path) -> None:
    lines = [json.dumps({"row": asdict(row("a", WRONG))}), json.dumps({"row": asdict(row("a"))}), '{"row": {"ca']
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    (found,) = kept(tmp_path / "rows.jsonl").values()
    assert found.outcome == RIGHT


@pytest.mark.triton
@pytest.mark.parametrize("layout", ["contiguous", "strided"])
@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4)])
def test_what_is_written_outside_shows(layout: str, shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    for number in (0, 1):
        for dtype in (torch.float32, torch.bfloat16, torch.int64):
            view, whole = within(shape, dtype, "cpu", layout, number)
            view.fill_(1)
            assert view.shape == shape and untouched(whole, view)
            whole[whole.numel() - 1] = 1
            assert not untouched(whole, view)
