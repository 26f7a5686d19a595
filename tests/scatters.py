"""Programs whose results are sums of rows at the positions that arrays of integers say, and groups for them."""

from __future__ import annotations

from typing import Any

import catdiag as cd


@cd.algorithm("int[t], t d, v -> v d", name="rows")
def rows(ids: Any, G: Any, like: Any) -> Any:
    return cd.sum(cd.where(cd.index("v") == ids, G, 0), "t")


@cd.algorithm("int[b t], b t d, v -> d v", name="masked")
def masked(ids: Any, G: Any, like: Any) -> Any:
    hit = (cd.index("v") == ids) & (cd.index("t") < 5)
    return cd.rearrange(cd.sum(cd.where(hit, G * 2, 0), "t b"), "v d -> d v")


@cd.algorithm("int[t], int[t], t, v, w -> v w", name="cells")
def cells(row: Any, column: Any, weight: Any, like: Any, wide: Any) -> Any:
    inside = cd.where(cd.index("v") == row, weight, 0)
    return cd.sum(cd.where(cd.index("w") == column, inside, 0), "t")


@cd.algorithm("int[t], v -> v", name="counts")
def counts(ids: Any, like: Any) -> Any:
    return cd.sum(cd.where(cd.index("v") == ids, 1.0, 0.0), "t")


@cd.algorithm("int[t], b t d, v -> v d", name="shared")
def shared(ids: Any, G: Any, like: Any) -> Any:
    return cd.sum(cd.where(cd.index("v") == ids, G, 0), "b t")


@cd.algorithm("int[t], t k, k d, v -> v d, t d", name="products")
def products(ids: Any, A: Any, B: Any, like: Any) -> tuple[Any, Any]:
    made = cd.einsum("t k, k d -> t d", A, B)
    return cd.sum(cd.where(cd.index("v") == ids, made, 0), "t"), made


@cd.algorithm("int[t], t d, v -> v d, d", name="beside")
def beside(ids: Any, G: Any, like: Any) -> tuple[Any, Any]:
    return cd.sum(cd.where(ids == cd.index("v"), cd.exp(G), 0), "t"), cd.sum(G, "t")


@cd.algorithm("int[t], t d, v -> v d", name="hot")
def hot(ids: Any, G: Any, like: Any) -> Any:
    return cd.einsum("v t, t d -> v d", cd.where(cd.index("v") == ids, 1, 0), cd.exp(G))


FORMS = {
    "rows": rows.group("t d", scatter=True),
    "masked": masked.group("b t d", scatter=True),
    "cells": cells.group("t", scatter=True),
    "counts": counts.group("t", scatter=True),
    "shared": shared.group("b t d", scatter=True),
    "products": products.stream("k").group("t d", scatter=True),
    "hot": hot.group("t d", scatter=True),
    "beside": beside.group("t d", scatter=True),
}
