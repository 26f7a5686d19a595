"""The text of a Triton module: its imports, the kernels, the checks that it carries, and the launch function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catdiag.codegen.gluon.gluon_source import CHECKS as GROUPS
from catdiag.codegen.gluon.gluon_source import DOWN, IMPORTS, helpers_of, source
from catdiag.codegen.gluon.pipelined_loop import WarpSpecialized
from catdiag.codegen.kernel_tree import KernelFunction, function_text
from catdiag.codegen.triton.added_results import ADDED, ADDING
from catdiag.codegen.triton.aligned_rows import row_divisibility
from catdiag.codegen.triton.buffer_arena import ARENA
from catdiag.codegen.triton.dependent_launch import DEPENDENT
from catdiag.codegen.triton.kernel_signature import KernelSpec
from catdiag.codegen.triton.kernel_source import indented
from catdiag.codegen.triton.launch_checks import (
    AMD,
    BOXED,
    CHECKED,
    CHIP,
    DESCRIPTOR,
    MERGING,
    REGISTERS,
    WRITABLE,
    checks,
)
from catdiag.codegen.triton.launch_parameters import tiles_of_merge
from catdiag.codegen.triton.opaque_call import CALLED, OpaqueCall
from catdiag.codegen.triton.product_call import MERGED, PRODUCT, ProductCall
from catdiag.codegen.triton.tile_runs import RUNS, runs
from catdiag.codegen.triton.triton_dialect import TRITON, helper_text


@dataclass(frozen=True)
class ModuleText:
    """What decides which parts a module has: its kernels, the calls of other libraries, whether its launch function
    merges axes of arrays, allocates an arena, has results, and takes fp8. `about` begins its docstring."""

    about: str
    kernels: Sequence[KernelSpec]
    specialized: Sequence[WarpSpecialized]
    calls: Sequence[ProductCall | OpaqueCall]
    merges: bool
    uses_arena: bool
    has_outputs: bool
    fp8: bool

    def text(
        self,
        host: str,
        helpers: Sequence[str],
        plain: Sequence[tuple[KernelSpec, KernelFunction]],
        warp_specialized: Sequence[tuple[WarpSpecialized, Sequence[KernelFunction]]],
    ) -> str:
        """The whole text, given its part that runs on the CPU, and the trees of the kernels."""
        return "\n".join([*self._head(), *self._kernel_lines(helpers, plain, warp_specialized), host])

    @property
    def _chained(self) -> bool:
        """Whether kernels begin while those before them end."""
        return any(k.waits or k.added for k in self.kernels)

    def _head(self) -> list[str]:
        """The docstring and the imports of the module."""
        boxes = any(k.boxes for k in self.kernels)
        lines = [f'"""{self.about}', "", "Written by catdiag from a derivation: it needs torch and triton only.",
                 '"""', ""]  # fmt: skip
        shared = boxes or self.uses_arena or self.merges or self._chained or any(map(tiles_of_merge, self.kernels))
        hinted = any(any(row_divisibility(kernel)) for kernel in self.kernels)
        imported = [*(["functools"] if shared else []), *(["math"] if shared or hinted else [])]
        imported += ["warnings"] if self.specialized else []
        lines += [*(f"import {name}" for name in imported), ""] if imported else []
        lines += ["import torch", "import triton", "import triton.language as tl"]
        lines += [DESCRIPTOR, "", ""] if boxes else ["", ""]
        if self.specialized:
            lines[-1:] = [*IMPORTS.splitlines(), "", ""]
        return lines

    def _kernel_lines(
        self,
        helpers: Sequence[str],
        plain: Sequence[tuple[KernelSpec, KernelFunction]],
        warp_specialized: Sequence[tuple[WarpSpecialized, Sequence[KernelFunction]]],
    ) -> list[str]:
        """The source of helper functions, kernels, and warp-specialized kernels, with their trees."""
        lines: list[str] = []
        for helper in helpers:
            lines += [helper_text(helper, TRITON), ""]
        for kernel, tree in plain:
            lines += [*function_text(tree, f"{kernel.note}.", TRITON.module), "", ""]
        if any(k.added for k in self.kernels):
            lines += [*ADDING.splitlines(), "", ""]
        if warp_specialized:
            gluon = ["", *DOWN.splitlines()]
            for text in dict.fromkeys(t for a, _ in warp_specialized for t in helpers_of(a)):
                gluon += ["", *text.splitlines()]
            for a, trees in warp_specialized:
                gluon += ["", *source(a, trees)]
            lines += ["if gluon is not None:", *indented(gluon), "", ""]
        return lines

    def host(self, launched: str) -> str:
        """The part of the module that runs on the CPU: checks, and the launch function."""
        lines = [*checks(self.fp8).splitlines(), "", ""]
        if self.has_outputs:
            lines += [*WRITABLE.splitlines(), "", ""]
        of_nvidia = any(k.helpers & {"_tanh", "_transposed", "_completed"} for k in self.kernels)
        if of_nvidia or any(k.rows for k in self.kernels) or self._chained:
            lines += [*AMD.splitlines(), "", ""]
        if any(k.rows for k in self.kernels):
            lines += [*REGISTERS.splitlines(), "", ""]
        if any(k.boxes for k in self.kernels):
            lines += [*CHECKED.splitlines(), "", ""]
        if any(k.boxes for k in self.kernels) or self._chained:
            lines += [*CHIP.splitlines(), "", ""]
        if self._chained:
            lines += [*DEPENDENT.splitlines(), "", ""]
        if any(k.boxes for k in self.kernels):
            lines += [*BOXED.splitlines(), "", ""]
        if self.uses_arena:
            lines += [*ARENA.splitlines(), "", ""]
        if self.merges:
            lines += [*MERGED.splitlines(), "", ""]
        if any(isinstance(call, ProductCall) for call in self.calls):
            lines += [*PRODUCT.splitlines(), "", ""]
        if any(k.added for k in self.kernels):
            lines += [*ADDED.splitlines(), "", ""]
        if any(map(runs, self.kernels)):
            lines += [*RUNS.splitlines(), "", ""]
        if any(map(tiles_of_merge, self.kernels)):
            lines += [*MERGING.splitlines(), "", ""]
        if any(isinstance(call, OpaqueCall) for call in self.calls):
            lines += [*CALLED.splitlines(), "", ""]
        if self.specialized:
            lines += [*GROUPS.splitlines(), "", ""]
        return "\n".join([*lines, launched, ""])
