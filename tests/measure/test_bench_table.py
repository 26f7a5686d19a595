"""The page of a run: numbers, ratios, and every failure with its reason."""

from __future__ import annotations

import pytest

from catdiag.measure.bench import BenchResult, BenchRow, reason
from catdiag.measure.bench_table import best, page, peers_of, rate, ratio


def row(*results: BenchResult, flops: float = 4e12, moved: float = 1e9, name: str = "8k") -> BenchRow:
    return BenchRow(name, "group", "operator", {"q": 8192}, "bf16", flops, moved, list(results))


def test_rates_and_ratios_are_of_the_same_operations() -> None:
    found = row(BenchResult("catdiag", 8.0, 7.9, 8.1, 2e-3), BenchResult("peer", 10.0, 9.9, 10.1, 2e-3))
    assert [rate(found, r) for r in found.results] == [500.0, 400.0]
    assert ratio(found, found.results[1]) == 1.25
    assert "| 8k | 8.000 | 500 | 2.0e-03 | 400 (1.25×) |" in page([found], {"GPU": "x"})


def test_a_failure_is_listed_and_never_left_out() -> None:
    found = row(BenchResult("catdiag", failure="Wrong: error 3.0e-01"), BenchResult("peer", 10.0, 9.9, 10.1, 2e-3))
    text = page([found], {"GPU": "x"}, missing=["16k"])
    assert "| 8k | failed (1) | – | – | 400 |" in text
    assert "1. 8k, catdiag: Wrong: error 3.0e-01" in text
    assert text.rstrip().endswith("16k.")
    assert ratio(found, found.results[1]) is None


def test_what_moves_bytes_only_is_told_in_bytes_a_second() -> None:
    found = row(BenchResult("catdiag", 1.0, 1.0, 1.0, 1e-3), flops=8e9, moved=4.2e9)
    assert "TB/s" in page([found], {}) and "| 4.2 |" in page([found], {})
    nothing = row(BenchResult("catdiag", 1.0, 1.0, 1.0, 1e-3), flops=0.0, moved=4.2e9)
    assert rate(nothing, nothing.results[0]) == pytest.approx(4.2)


def test_other_tiles_are_told_beside_the_first_choice_and_are_no_peers() -> None:
    found = row(BenchResult("catdiag", 8.0, 8.0, 8.0, 1e-3), BenchResult("catdiag, tiles 2", 5.0, 5.0, 5.0, 1e-3))
    assert peers_of([found]) == []
    chosen = best(found)
    assert chosen is not None and chosen.name == "catdiag, tiles 2"
    assert "| 8k | 8.000 | 500 | 800 | 1.0e-03 |" in page([found], {})
    found.results.append(BenchResult("peer", 6.0, 6.0, 6.0, 1e-3))
    assert "| 667 (0.75×, 1.20×) |" in page([found], {})
    found.results[0] = found.results[1] = BenchResult("catdiag", failure="Wrong: no")
    assert "| 8k | failed (1) | – | – | – | 667 |" in page([found], {})


def test_a_wide_spread_is_told() -> None:
    found = row(BenchResult("catdiag", 8.0, 7.0, 9.0, 1e-3))
    assert "8.000 (7.000 to 9.000)" in page([found], {})


def test_the_reason_is_one_line() -> None:
    assert reason(RuntimeError("first\nsecond")) == "RuntimeError: first"
    assert reason(RuntimeError()) == "RuntimeError"
