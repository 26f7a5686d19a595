"""Kernels of diagrams at given tiles, compiled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from catdiag.codegen.triton.triton_module import module
from catdiag.runtime.compile import CompiledKernel, compiled

if TYPE_CHECKING:
    from catdiag.category.diagram import Diagram, HasDiagram


def compiled_of(
    diagram: Diagram | HasDiagram,
    source: Diagram | HasDiagram | None,
    tiles: Mapping[str, int],
    dtype: str | Mapping[str, str] = "bf16",
    *,
    stages: int = 2,
    warps: int = 4,
) -> CompiledKernel:
    """A diagram in loops and groups as a function of torch tensors; `source` is what it was derived from, if known.

    Raises what `catdiag.codegen.triton.triton_module` and `catdiag.runtime.compile.compiled` raise.
    """
    return compiled(module(diagram, tiles, dtype, stages=stages, warps=warps), diagram, source)
