"""What a Gluon kernel computes with, on the CPU: types, layouts, and blocks that carry them.

Stand-ins for the values of `triton.experimental.gluon.language` (Triton 3.6), for `gluon_machine`, which runs kernels.
Floats are torch CPU tensors of the kernel's own type, so every operation rounds as its type does; integers are kept as
64-bit ones, and an int32 that overflows is an error. A block's layout must agree with its partner's as Gluon demands:
two blocks of one operation have the same rank and equal layouts, a dimension is added where a `SliceLayout` left one
out, and a sum or a maximum along an axis leaves `SliceLayout(axis, layout)`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
import torch

from tests.codegen.gluon_layouts import AutoLayout, GluonError, Inferred, Layout, SliceLayout, need


@dataclass(frozen=True)
class Dtype:
    """An element type, or a pointer to one (`element_ty`)."""

    name: str
    torch: torch.dtype
    primitive_bitwidth: int
    kind: int  # 0 boolean, 1 unsigned, 2 signed, 3 floating, 4 pointer
    element_ty: Dtype | None = None

    def is_floating(self) -> bool:
        return self.kind == 3

    def is_int(self) -> bool:
        return self.kind < 3

    def __repr__(self) -> str:
        return self.name


int1, void = Dtype("int1", torch.bool, 1, 0), Dtype("void", torch.bool, 0, 0)
SIGNED = {b: Dtype(f"int{b}", getattr(torch, f"int{b}"), b, 2) for b in (8, 16, 32, 64)}
UNSIGNED = {b: Dtype(f"uint{b}", torch.uint8 if b == 8 else SIGNED[b].torch, b, 1) for b in (8, 16, 32, 64)}
int32, int64 = SIGNED[32], SIGNED[64]
float16, bfloat16 = Dtype("float16", torch.float16, 16, 3), Dtype("bfloat16", torch.bfloat16, 16, 3)
float32, float64 = Dtype("float32", torch.float32, 32, 3), Dtype("float64", torch.float64, 64, 3)
float8e4nv = Dtype("float8e4nv", torch.float8_e4m3fn, 8, 3)
float8e5 = Dtype("float8e5", torch.float8_e5m2, 8, 3)
DTYPES = {d.name: d for d in (int1, void, float16, bfloat16, float32, float64, float8e4nv, float8e5)}
DTYPES |= {d.name: d for d in (*SIGNED.values(), *UNSIGNED.values())}
OF_TORCH = {d.torch: d for d in DTYPES.values() if d is not void and d.kind != 1} | {torch.uint8: UNSIGNED[8]}


def whole(data: torch.Tensor, dtype: Dtype) -> torch.Tensor:
    """Integers as 64-bit ones, in range: an unsigned one wraps, a signed one that overflows is an error."""
    if dtype.kind == 1 and dtype.primitive_bitwidth < 64:
        return data & ((1 << dtype.primitive_bitwidth) - 1)
    if dtype.kind == 2 and dtype.primitive_bitwidth < 64 and data.numel():
        most = 1 << (dtype.primitive_bitwidth - 1)
        low, high = (int(data), int(data)) if data.dim() == 0 else (int(data.min()), int(data.max()))
        need(
            -most <= low and high < most,
            lambda: f"{dtype} overflows: {low if low < -most else high} (.to(gl.int64) first)",
        )
    return data


def whole_storage(base: torch.Tensor) -> torch.Tensor:
    """All that a tensor's storage holds, in one dimension."""
    return torch.as_strided(base, (base.untyped_storage().nbytes() // base.element_size(),), (1,), 0)


Operand = Any  # Tensor, int, float or bool


@dataclass(eq=False)
class Tensor:
    """A block in registers, or a scalar (shape (), no layout); a pointer holds offsets into `base`, in elements."""

    data: torch.Tensor
    dtype: Dtype
    layout: Layout | None = None
    base: torch.Tensor | None = field(default=None, repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    def __post_init__(self) -> None:
        if self.layout is not None and not isinstance(self.layout, AutoLayout):
            need(
                self.layout.rank == len(self.shape),
                lambda: f"a block of shape {self.shape} has a layout of another rank: {self.layout}",
            )

    def _scalar(self) -> torch.Tensor:
        need(self.shape == (), lambda: f"one number is needed here, not a block of shape {self.shape}")
        return self.data

    def __index__(self) -> int:
        need(self.dtype.is_int(), lambda: f"a whole number is needed here, not {self.dtype}")
        return int(self._scalar())

    def __bool__(self) -> bool:
        return bool(self._scalar())

    def to(self, dtype: Dtype, fp_downcast_rounding: Any = None, bitcast: bool = False) -> Tensor:
        """As another type: floats rounded to nearest even, fp8 saturating as the hardware's conversion."""
        data = self.data
        if dtype is self.dtype:
            return self
        if bitcast:
            need(
                dtype.primitive_bitwidth == self.dtype.primitive_bitwidth,
                lambda: f"{self.dtype} has not the bits of {dtype}",
            )
            data = data.to(self.dtype.torch).view(dtype.torch)
        elif dtype.is_floating():
            if dtype.primitive_bitwidth == 8:
                data = data.to(torch.float32).clamp(*(s * torch.finfo(dtype.torch).max for s in (-1, 1)))
            data = data.to(dtype.torch)
        elif dtype.kind and self.dtype.is_floating():
            data = data.to(torch.float64).trunc()
        return replace(
            self, data=whole(data.to(torch.int64), dtype) if dtype.kind in (1, 2) else data.to(dtype.torch), dtype=dtype
        )

    def __getitem__(self, key: Any) -> Tensor:
        found = self
        for n, k in enumerate(key if isinstance(key, tuple) else (key,)):
            need(k is None or k == slice(None), "a block is indexed with None and : only")
            found = expand_dims(found, n) if k is None else found
        return found

    def permute(self, *order: Any) -> Tensor:
        dims = tuple(order[0]) if len(order) == 1 and not isinstance(order[0], int) else order
        data = self.data.permute(*dims)
        return replace(self, data=data, layout=Inferred(_layout(self), f"permute {dims}", tuple(data.shape)))

    def trans(self) -> Tensor:
        return self.permute(1, 0)

    def reshape(self, *shape: Any) -> Tensor:
        sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
        data = self.data.reshape(sizes)
        return replace(self, data=data, layout=Inferred(_layout(self), f"reshape {self.shape}", tuple(data.shape)))

    def __neg__(self) -> Tensor:
        return replace(self, data=-self.data)

    def __invert__(self) -> Tensor:
        need(self.dtype.is_int(), lambda: f"~ of {self.dtype}")
        return replace(self, data=~self.data)

    def __getattr__(self, name: str) -> Any:
        raise GluonError(f"a block has no .{name} in this machine")


def _layout(x: Tensor) -> Layout:
    need(x.layout is not None, "a block is needed here, not a scalar")
    assert x.layout is not None
    return x.layout


def scalar(value: Operand, dtype: Dtype | None = None) -> Tensor:
    """A number as the compiler takes it: int32 where it fits, else int64; float32."""
    if isinstance(value, Tensor):
        return value
    need(
        isinstance(value, int | float),
        lambda: f"a block or a number is needed here, not {type(value).__name__}: {value}",
    )
    if dtype is None:
        dtype = int1 if isinstance(value, bool) else float32
        if isinstance(value, int) and not isinstance(value, bool):
            dtype = int32 if -(1 << 31) <= value < 1 << 31 else int64
    data = torch.tensor(value, dtype=torch.int64 if dtype.kind in (1, 2) else dtype.torch)
    return Tensor(whole(data, dtype) if dtype.kind in (1, 2) else data, dtype)


def common(a: Operand, b: Operand, divide: bool = False) -> Dtype:
    """The type in which an operation is computed (`computation_type_impl` in Triton's semantic.py)."""
    number = [x for x in (a, b) if not isinstance(x, Tensor)]
    x, y = scalar(a).dtype, scalar(b).dtype
    if len(number) == 1:
        of, other = (y, x) if isinstance(a, Tensor) else (x, y)
        if of.kind <= other.kind:
            return float32 if divide and other in (float16, bfloat16) else other
    for wide in (float64, float32):
        if wide in (x, y):
            return wide
    if float16 in (x, y) or (x is bfloat16 and y is bfloat16):
        half = float16 if float16 in (x, y) else bfloat16
        return float32 if divide else half
    if bfloat16 in (x, y):
        return float32
    if x.is_floating() or y.is_floating():
        need(x is y, lambda: f"no arithmetic between {x} and {y}")
        return x
    return max(x, y, key=lambda d: (d.primitive_bitwidth, -d.kind))


def together(*xs: Tensor) -> tuple[list[torch.Tensor], Layout | None]:
    """Blocks of one operation, broadcast: the same rank, equal layouts; scalars go with everything."""
    blocks = [x for x in xs if x.layout is not None]
    if not blocks:
        return [x.data for x in xs], None
    ranks = {len(x.shape) for x in blocks}
    need(len(ranks) == 1, lambda: f"blocks of different ranks: {' and '.join(str(x.shape) for x in blocks)}")
    layouts = list(dict.fromkeys(_layout(x) for x in blocks if not isinstance(x.layout, AutoLayout)))
    need(len(layouts) < 2, lambda: "layouts differ: " + " and ".join(map(str, layouts)))
    try:
        shape = np.broadcast_shapes(*(x.shape for x in blocks))
    except ValueError:
        raise GluonError(f"shapes differ: {' and '.join(str(x.shape) for x in blocks)}") from None
    return [x.data if x.data.shape == shape else x.data.expand(shape) for x in xs], layouts[
        0
    ] if layouts else AutoLayout()


def _quotient(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    need(bool((b != 0).all()), "division of integers by zero")
    return torch.div(a, b, rounding_mode="trunc")


def _remainder(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    need(a.is_floating_point() or bool((b != 0).all()), "remainder of integers by zero")
    return torch.fmod(a, b)


def binary(
    of: Callable[..., torch.Tensor],
    a: Operand,
    b: Operand,
    *,
    compare: bool = False,
    divide: bool = False,
    integers: bool = False,
) -> Tensor:
    """One elementwise operation of two blocks or numbers."""
    x, y = scalar(a), scalar(b)
    if x.dtype.kind == 4 or y.dtype.kind == 4:
        pointer, step = (x, y) if x.dtype.kind == 4 else (y, x)
        need(of in (operator.add, operator.sub) and step.dtype.is_int(), "a pointer takes + and - of integers only")
        (p, s), layout = together(pointer, step)
        return replace(pointer, data=of(p, s), layout=layout)
    dtype = common(a, b, divide)
    if of is operator.truediv and dtype.is_int():
        dtype = float32
    need(not integers or dtype.is_int(), lambda: f"this needs integers, not {x.dtype} and {y.dtype}")
    if dtype is int1 and not (compare or integers):
        dtype = int32
    (p, q), layout = together(x.to(dtype), y.to(dtype))
    data = of(p, q)
    if compare:
        return Tensor(data, int1, layout)
    return Tensor(whole(data, dtype) if dtype.kind in (1, 2) else data, dtype, layout)


def _operators() -> None:
    table: dict[str, tuple[Callable[..., Any], dict[str, bool]]] = {
        n: (getattr(operator, n), {}) for n in ("add", "sub", "mul")
    }
    table |= {"truediv": (operator.truediv, {"divide": True}), "mod": (_remainder, {"divide": True})}
    table |= {"floordiv": (_quotient, {"divide": True, "integers": True})}
    table |= {n: (getattr(operator, n), {"compare": True}) for n in ("lt", "le", "gt", "ge", "eq", "ne")}
    table |= {
        n: (getattr(operator, n + "_" * (n in ("and", "or"))), {"integers": True})
        for n in ("and", "or", "xor", "lshift", "rshift")
    }
    for name, (of, how) in table.items():
        setattr(Tensor, f"__{name}__", lambda a, b, of=of, how=how: binary(of, a, b, **how))
        if not how.get("compare"):
            setattr(Tensor, f"__r{name}__", lambda b, a, of=of, how=how: binary(of, a, b, **how))


_operators()


class Accumulator:
    """What an asynchronous product leaves until it has been waited for: nothing may be computed from it."""

    def __init__(self, number: int, like: Tensor) -> None:
        self.number, self.like, self.value = number, like, None if number else like
        self.spent = ""

    def refuse(self, *_: Any) -> NoReturn:
        raise GluonError("an accumulator is read before warpgroup_mma_wait has let its product finish")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __neg__ = refuse
    __getitem__ = __lt__ = __gt__ = __le__ = __ge__ = refuse

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.refuse()


def expand_dims(x: Tensor, axis: int) -> Tensor:
    layout = _layout(x)
    axis = axis + len(x.shape) + 1 if axis < 0 else axis
    if not isinstance(layout, AutoLayout):
        need(
            isinstance(layout, SliceLayout),
            lambda: f"a dimension is added to a block in a SliceLayout, not in {layout}",
        )
        assert isinstance(layout, SliceLayout)
        need(layout.dim == axis, f"the block's layout left out dimension {layout.dim}; dimension {axis} is added")
        layout = layout.parent
    return replace(x, data=x.data.unsqueeze(axis), layout=layout)


def convert_layout(x: Tensor, layout: Layout, assert_trivial: bool = False) -> Tensor:
    _layout(x)
    need(isinstance(layout, Layout), lambda: f"a layout of a block is needed, not {layout}")
    return replace(x, layout=layout)


def where(condition: Operand, a: Operand, b: Operand) -> Tensor:
    dtype = common(a, b)
    (c, p, q), layout = together(scalar(condition), scalar(a).to(dtype), scalar(b).to(dtype))
    return Tensor(torch.where(c.bool(), p, q), dtype, layout)


def maximum(a: Operand, b: Operand, propagate_nan: Any = None) -> Tensor:
    return binary(lambda x, y: torch.fmax(x, y) if x.is_floating_point() else torch.maximum(x, y), a, b)


def minimum(a: Operand, b: Operand, propagate_nan: Any = None) -> Tensor:
    return binary(lambda x, y: torch.fmin(x, y) if x.is_floating_point() else torch.minimum(x, y), a, b)


def unary(of: Callable[[torch.Tensor], torch.Tensor], any_type: bool = False) -> Callable[[Operand], Tensor]:
    def run(x: Operand) -> Tensor:
        block = scalar(x)
        need(any_type or block.dtype in (float32, float64), lambda: f"this needs float32, not {block.dtype}")
        return replace(block, data=of(block.data))

    return run


UNARY = {
    n: unary(getattr(torch, n))
    for n in ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf", "floor", "ceil")
}
UNARY |= {"abs": unary(torch.abs, any_type=True), "sqrt_rn": unary(torch.sqrt)}


def reduction(of: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """A reduction of a block along an axis, `of` one whose first axis it is; None: of all of it, to a scalar."""

    def run(x: Tensor, axis: int | None = None, keep_dims: bool = False) -> Tensor:
        layout = _layout(x)
        if axis is None:
            need(not keep_dims, "keep_dims needs an axis")
            return replace(of(replace(x, data=x.data.reshape(-1), layout=AutoLayout())), layout=None)
        need(0 <= axis < len(x.shape), lambda: f"axis {axis} of a block of shape {x.shape}")
        found = of(replace(x, data=x.data.movedim(axis, 0), layout=AutoLayout()))
        kept = layout if isinstance(layout, AutoLayout) else SliceLayout(axis, layout)
        found = replace(found, layout=kept if found.shape else None)
        return expand_dims(found, axis) if keep_dims else found

    return run


def _total(x: Tensor) -> Tensor:
    dtype = x.dtype
    if dtype.primitive_bitwidth < 32 and dtype is not float16:
        dtype = float32 if dtype.is_floating() else int32
    data = (x.data.to(torch.float32) if dtype is float16 else x.to(dtype).data).sum(0)
    return replace(x, data=data.to(dtype.torch) if dtype.is_floating() else whole(data, dtype), dtype=dtype)


def _extreme(of: Callable[[Any, Any], Tensor]) -> Callable[[Tensor], Tensor]:
    def run(x: Tensor) -> Tensor:
        if x.dtype.primitive_bitwidth < 32:
            x = x.to(float32 if x.dtype.is_floating() else int32)
        while x.shape[0] > 1:  # sizes are powers of two
            half = x.shape[0] // 2
            x = of(replace(x, data=x.data[:half]), replace(x, data=x.data[half:]))
        return replace(x, data=x.data[0], layout=None)

    return run


REDUCTIONS = {"sum": reduction(_total), "max": reduction(_extreme(maximum)), "min": reduction(_extreme(minimum))}


def reduce(x: Tensor, axis: int | None, combine_fn: Callable[..., Tensor], keep_dims: bool = False) -> Tensor:
    return reduction(_extreme(combine_fn))(x, axis, keep_dims)


ASM: dict[str, Callable[..., torch.Tensor]] = {"tanh.approx.f32": torch.tanh, "ex2.approx.ftz.f32": torch.exp2}
ASM |= {"ex2.approx.f32": torch.exp2, "mov.b32": lambda x: x, "mov.u32": lambda x: x, "mov.f32": lambda x: x}


def inline_asm_elementwise(
    asm: str, constraints: str, args: Sequence[Any], dtype: Dtype, is_pure: bool, pack: int
) -> Tensor:
    """Of PTX only one instruction on one register, of those in ASM."""
    words = asm.strip().rstrip(";").replace(",", " ").split()
    need(
        len(words) == 3 and words[0] in ASM and words[1:] == ["$0", "$1"] and len(args) == 1,
        lambda: f"this machine knows no {asm!r}",
    )
    x, wide = scalar(args[0]), 32 // pack
    need(constraints in ("=f,f", "=r,r"), lambda: f"this machine knows no constraints {constraints!r}")
    need(
        x.dtype.primitive_bitwidth == wide == dtype.primitive_bitwidth, f"{pack} of {x.dtype} in a register of 32 bits"
    )
    need(constraints == "=r,r" or (x.dtype, dtype) == (float32, float32), f"{x.dtype} in a register of float32")
    need(words[0].startswith("mov") or x.dtype is float32, f"{words[0]} of {x.dtype}")
    need(dtype is x.dtype, f"this machine does not make {dtype} of the bits of {x.dtype}")
    return replace(x, data=ASM[words[0]](x.data))
