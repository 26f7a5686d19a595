"""The layouts of Gluon on Hopper (Triton 3.6), by their rules: blocks in registers, and shared memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class GluonError(Exception):
    """A kernel does what Gluon refuses, or what a GPU would silently get wrong; `gluon_machine` adds the line."""

    located = False


def need(fine: bool, message: str | Callable[[], str]) -> None:
    """A message that takes time is made only where it is said."""
    if not fine:
        raise GluonError(message if isinstance(message, str) else message())


class Bits(Protocol):
    @property
    def primitive_bitwidth(self) -> int: ...


class Layout:
    """How a block's elements lie over the threads of a partition."""

    @property
    def rank(self) -> int:
        raise GluonError(f"{self} has no rank")

    def warps(self) -> int | None:
        """The warps that hold it; None where it does not say."""
        return None


@dataclass(frozen=True)
class AutoLayout(Layout):
    pass


@dataclass(frozen=True)
class Inferred(Layout):
    """What a reshape or a permutation leaves: equal to the same of the same only, so that a conversion follows."""

    parent: Layout
    how: str
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)


def _fixed(layout: Any) -> None:
    for name, value in vars(layout).items():
        if isinstance(value, list):
            object.__setattr__(layout, name, tuple(value))


@dataclass(frozen=True)
class BlockedLayout(Layout):
    size_per_thread: Sequence[int]
    threads_per_warp: Sequence[int]
    warps_per_cta: Sequence[int]
    order: Sequence[int]
    cga_layout: Any = ()

    def __post_init__(self) -> None:
        _fixed(self)
        sizes = (self.size_per_thread, self.threads_per_warp, self.warps_per_cta, self.order)
        need(len({len(x) for x in sizes}) == 1, lambda: f"the parts of {self} have different ranks")
        need(
            math.prod(self.threads_per_warp) == 32, lambda: f"a warp has 32 threads, {self} has {self.threads_per_warp}"
        )

    @property
    def rank(self) -> int:
        return len(self.order)

    def warps(self) -> int | None:
        return math.prod(self.warps_per_cta)


@dataclass(frozen=True)
class NVMMADistributedLayout(Layout):
    version: Sequence[int]
    warps_per_cta: Sequence[int]
    instr_shape: Sequence[int]
    cga_layout: Any = ()

    def __post_init__(self) -> None:
        _fixed(self)

    @property
    def rank(self) -> int:
        return len(self.warps_per_cta)

    def warps(self) -> int | None:
        return math.prod(self.warps_per_cta)


@dataclass(frozen=True)
class SliceLayout(Layout):
    dim: int
    parent: Layout

    @property
    def rank(self) -> int:
        return self.parent.rank - 1

    def warps(self) -> int | None:
        return self.parent.warps()


@dataclass(frozen=True)
class DotOperandLayout(Layout):
    operand_index: int
    parent: Layout
    k_width: int

    @property
    def rank(self) -> int:
        return self.parent.rank

    def warps(self) -> int | None:
        return self.parent.warps()


@dataclass(frozen=True)
class NVMMASharedLayout:
    swizzle_byte_width: int
    element_bitwidth: int
    rank: int = 2
    transposed: bool = False
    fp4_padded: bool = False
    cga_layout: Any = ()

    def __post_init__(self) -> None:
        need(self.swizzle_byte_width in (0, 32, 64, 128), lambda: f"no swizzle of {self.swizzle_byte_width} bytes")
        object.__setattr__(self, "cga_layout", tuple(self.cga_layout or ()))

    @staticmethod
    def get_default_for(block_shape: Sequence[int], dtype: Bits, transposed: bool = False) -> NVMMASharedLayout:
        """The widest swizzle that fits, by the rule of Triton 3.6."""
        shape = [*block_shape[1:], *block_shape[:1]] if transposed else list(block_shape)
        row = shape[-1] * dtype.primitive_bitwidth // 8
        width = next((w for w in (128, 64, 32) if row % w == 0), 0)
        if len(shape) < 2 or math.prod(shape[:-1]) < 8:
            width = 0
        return NVMMASharedLayout(width, dtype.primitive_bitwidth, len(shape), transposed)


@dataclass(frozen=True)
class SwizzledSharedLayout:
    vec: int
    per_phase: int
    max_phase: int
    order: Any
    cga_layout: Any = ()

    def __post_init__(self) -> None:
        _fixed(self)

    @property
    def rank(self) -> int:
        return len(self.order)


def MBarrierLayout() -> SwizzledSharedLayout:
    return SwizzledSharedLayout(1, 1, 1, (0,))
