"""Plans with scatter-adds: where they are taken, and how long they are predicted to take."""

from __future__ import annotations

import pytest

import catdiag as cd
from catdiag.errors import CatdiagError
from tests.scatters import counts, products, rows


def test_rows_of_a_large_table_are_added_where_they_belong() -> None:
    plan = rows.plan("H200", {"t": 4096, "d": 768, "v": 30522}, dtype="bf16")
    assert "scatter-add" in str(plan) and "any order" in str(plan)
    assert plan.time_s < 1e-4


def test_sums_of_few_bins_are_not_added_to_one_place() -> None:
    plan = counts.plan("H200", {"t": 2**20, "v": 64}, dtype="fp32")
    assert "scatter-add" not in str(plan)


def test_a_product_is_added_in_its_own_kernel() -> None:
    one = cd.algorithm("int[t], t k, k d, v -> v d")(lambda *arrays: products(*arrays)[0])
    plan = one.plan("H200", {"t": 8192, "k": 1024, "d": 1024, "v": 4096}, dtype="bf16")
    assert "stream k, group t d, scatter-add" in str(plan)


def test_gradients_of_embeddings_are_scatter_adds() -> None:
    gradient = cd.library.get("embedding").grad(wrt="table")
    plan = gradient.plan("H200", {"t": 4096, "d": 768, "v": 30522}, dtype="bf16")
    assert "scatter-add" in str(plan)


def test_a_deterministic_plan_has_none() -> None:
    sizes = {"t": 4096, "d": 768, "v": 30522}
    plan = rows.plan("H200", sizes, dtype="bf16", deterministic=True)
    assert "scatter-add" not in str(plan) and plan.deterministic
    assert plan.time_s > rows.plan("H200", sizes, dtype="bf16").time_s


def test_an_unknown_option_of_a_plan_is_named_beside_those_that_there_are() -> None:
    with pytest.raises(CatdiagError, match=r"'determinstic': expected of cuts, deterministic, .* dtype, products, "):
        rows.plan("H200", {"t": 64, "d": 64, "v": 64}, determinstic=True)
