"""Programs that read arrays at positions that data say."""

from __future__ import annotations

from typing import Any

import catdiag as cd


@cd.algorithm("t d, int[t] -> t d")
def permuted(x: Any, order: Any) -> Any:
    return cd.gather(x, "t", order)


@cd.algorithm("n d, int[t k], t k -> t d")
def mixed(x: Any, which: Any, share: Any) -> Any:
    return cd.einsum("t k d, t k -> t d", cd.gather(x, "n", which), share)
