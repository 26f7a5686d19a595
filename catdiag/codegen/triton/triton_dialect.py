"""Triton as a dialect of expressions, and the functions of a generated module that its notations call.

Gluon is the same language of tiles under the names of another module.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from catdiag.codegen.dialect import TileDialect
from catdiag.codegen.kernel_tree import KernelFunction
from catdiag.codegen.notation import OPERATORS, Composed, Notation, Prefix, associative, grouped
from catdiag.codegen.python_source import read_code
from catdiag.codegen.syntax import (
    AND,
    COMPARE,
    OR,
    TIMES,
    Name,
    Number,
    PythonExpression,
    call,
    compared,
    dotted,
    method,
)


def functions_of(tl: str, own: str = "") -> Mapping[str, Notation]:
    """Each function of tiles in a language with the module `tl`; `own` ends the names of its helper functions.

    Nodes never have the functions of `tile_expressions.REWRITTEN`.
    """
    return {
        **OPERATORS, "scaled": grouped("*", TIMES), "floordiv": Prefix(f"_floor{own}"), "and": associative("&", AND),
        "or": associative("|", OR), "not": Composed(lambda a: compared(a, "==", Number(0)), COMPARE + 1),
        "exp2": Prefix(f"{tl}.exp2"),
        "log": Prefix(f"{tl}.log"), "sqrt": Prefix(f"{tl}.sqrt"), "rsqrt": Prefix(f"{tl}.rsqrt"),
        "abs": Prefix(f"{tl}.abs"), "tanh": Prefix(f"_tanh{own}", (Name("fast"),)), "max": Prefix(f"{tl}.maximum"),
        "min": Prefix(f"{tl}.minimum"), "where": Prefix(f"{tl}.where"), "round": Prefix(f"_round{own}"),
        "uniform": Prefix(f"_uniform{own}"),
        **{name: Prefix(f"{tl}.{name}") for name in ("erf", "sin", "cos", "floor", "ceil")},
    }  # fmt: skip


def tile_dialect(name: str, jit: str, tl: str, own: str = "") -> TileDialect:
    """A language of tiles with the functions of Triton, which are those of `tl` in it."""

    def truth(reduction: str) -> Composed:
        """A reduction of truth values, by that of integers."""

        def of(x: PythonExpression, axis: PythonExpression) -> PythonExpression:
            return compared(call(f"{tl}.{reduction}", method(x, "to", dotted(f"{tl}.int32")), axis), "!=", Number(0))

        return Composed(of)

    return TileDialect(
        name=name,
        module=tl,
        jit=jit,
        own=own,
        functions=functions_of(tl, own),
        reductions={
            **{m: Prefix(f"{tl}.{m}") for m in ("sum", "max", "min")},
            "any": truth("max"),
            "all": truth("min"),
            "prod": Prefix(f"{tl}.reduce", (Name(f"_times{own}"),)),
        },
        permute=Prefix(f"{tl}.permute"),
        transpose=Prefix(f"{tl}.trans"),
        broadcast=Prefix(f"{tl}.broadcast_to"),
        positions=Composed(lambda n: call(f"{tl}.arange", Number(0), n)),
        full_rank=True,
        helpers={"floordiv": "_floor", "tanh": "_tanh", "prod": "_times", "round": "_round", "uniform": "_uniform"},
    )


TRITON = tile_dialect("Triton", "triton", "tl")
FUNCTIONS = TRITON.functions

_HELPERS = {
    "_times": '''@{jit}.jit
def _times{own}(a, b):
    """The product, for reductions."""
    return a * b
''',
    "_sum_of_products": '''@{jit}.jit
def _sum_of_products{own}(x, y):
    """The sum over k of x[i, k] * y[k, j], in float32.

    Of the sum of x[:, :, None] * y[None, :, :] Triton 3.6 makes a product in tf32, of 10 bits: never written so here.
    """
    if x.shape[0] >= 16 and x.shape[1] >= 16 and y.shape[1] >= 16:
        found = {tl}.dot(x, y, input_precision="tf32x3")
    else:
        found = {tl}.sum(y[None, :, :] * x[:, :, None], 1)
    return found
''',
    "_batched_dot": '''@{jit}.jit
def _batched_dot{own}(x, y):
    """Products of matrices. One alone is made without a batch: for those there are larger instructions (`wgmma`)."""
    if x.shape[0] == 1:
        one = {tl}.dot({tl}.reshape(x, (x.shape[1], x.shape[2])), {tl}.reshape(y, (y.shape[1], y.shape[2])))
        found = {tl}.reshape(one, (1, x.shape[1], y.shape[2]))
    else:
        found = {tl}.dot(x, y)
    return found
''',
    "_batched_dot_of_registers": '''@{jit}.jit
def _batched_dot_of_registers{own}(x, y):
    """Products of matrices that are made in registers. One alone is made without a batch."""
    if x.shape[0] == 1:
        first = {tl}.reshape(x, (x.shape[1], x.shape[2]))
        one = _dot_of_registers{own}(first, {tl}.reshape(y, (y.shape[1], y.shape[2])), None)
        found = {tl}.reshape(one, (1, x.shape[1], y.shape[2]))
    else:
        found = {tl}.dot(x, y)
    return found
''',
    "_dot_of_registers": '''@{jit}.jit
def _dot_of_registers{own}(x, y, total, in_one_place: {tl}.constexpr = True):
    """A product of matrices of which the first is made in registers, added to `total`, which may be None. The second
    is always in one place in shared memory if it is made in registers too, or read before all loops, or by addresses.

    With 64 rows and fewer than 64 columns it is then made transposed, by instructions of single warps: for one of a
    warpgroup that reads `x` from registers, and `y`, narrow and always in one place, from shared memory, ptxas 12.8
    computes the address of all but the first 16 rows of `y` from a register that nothing has written.
    """
    if in_one_place and x.shape[0] >= 64 and y.shape[1] < 64:
        if total is None:
            found = {tl}.trans({tl}.dot({tl}.trans(y), {tl}.trans(x)))
        else:
            found = {tl}.trans({tl}.dot({tl}.trans(y), {tl}.trans(x), {tl}.trans(total)))
    elif total is None:
        found = {tl}.dot(x, y)
    else:
        found = {tl}.dot(x, y, total)
    return found
''',
    "_load": '''@{jit}.jit
def _load{own}(at, inside, exact: {tl}.constexpr):
    """Entries of an array, 0 outside of it; `exact` says that none is outside."""
    if exact:
        found = {tl}.load(at)
    else:
        found = {tl}.load(at, mask=inside, other=0.0)
    return found
''',
    "_in_registers": '''@{jit}.jit
def _in_registers{own}(x, in_registers: {tl}.constexpr):
    """The tile, `in_registers` or not: else the compiler reads it from shared memory in each iteration of a loop.

    Not beside rows of the same length that are computed: ptxas 12.8 and 13.0 give both the same registers.
    """
    if in_registers:
        pack: {tl}.constexpr = 32 // x.dtype.primitive_bitwidth
        x = {tl}.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], x.dtype, is_pure=True, pack=pack)
    return x
''',
    "_transposed": '''@{jit}.jit
def _transposed{own}(x, compiled: {tl}.constexpr):
    """A matrix transposed, as a factor of a product.

    Shared memory holds it in pieces of 256 rows and 128 bytes. Where there are several both ways, Triton 3.6 reads the
    pieces of a transposed view in another order than they were written in: such a matrix is transposed in registers,
    and the instruction keeps the compiler from undoing that.
    """
    found = {tl}.trans(x)
    bits: {tl}.constexpr = x.dtype.primitive_bitwidth
    down: {tl}.constexpr = x.shape[0] > 256 and x.shape[1] * bits > 1024
    across: {tl}.constexpr = x.shape[1] > 256 and x.shape[0] * bits > 1024
    if compiled and bits <= 32 and (down or across):
        pack: {tl}.constexpr = 32 // bits
        found = {tl}.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [found], x.dtype, is_pure=True, pack=pack)
    return found
''',
    "_completed": '''@{jit}.jit
def _completed{own}(x, compiled: {tl}.constexpr):
    """A product that is complete, since an instruction reads it.

    Triton 3.6 else goes on with the next iteration, and uses registers of a first factor that it has made again while
    the product still reads them.
    """
    if compiled:
        x = {tl}.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], x.dtype, is_pure=True, pack=1)
    return x
''',
    "_tanh": '''@{jit}.jit
def _tanh{own}(x, fast: {tl}.constexpr):
    """The hyperbolic tangent; if `fast` by the chip's own instruction, within 1.1e-5 of it (relative)."""
    if fast:
        found = {tl}.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], {tl}.float32, is_pure=True, pack=1)
    else:
        found = 1.0 - 2.0 / (1.0 + {tl}.exp2(x * 2.8853900817779268))
    return found
''',
    "_round": '''@{jit}.jit
def _round{own}(x):
    """The nearest integer, and of two that are as near the even one."""
    below = {tl}.floor(x)
    rest = x - below
    odd = {tl}.floor(below * 0.5) * 2.0 != below
    return {tl}.where((rest > 0.5) | ((rest == 0.5) & odd), below + 1.0, below)
''',
    "_uniform": '''@{jit}.jit
def _uniform{own}(seed, c0, c1, c2, c3):
    """Philox 4x32-10: numbers in [0, 1) of a seed and a counter, those of `tl.rand`."""
    key = {tl}.cast(seed, {tl}.int64)
    k0 = (key & 0xFFFFFFFF).to({tl}.uint32)
    k1 = (key >> 32).to({tl}.uint32)
    c0 = {tl}.cast(c0, {tl}.uint32)
    c1 = {tl}.cast(c1, {tl}.uint32)
    c2 = {tl}.cast(c2, {tl}.uint32)
    c3 = {tl}.cast(c3, {tl}.uint32)
    for _ in {tl}.static_range(10):
        before = c2
        c2 = {tl}.umulhi(c0, 0xD2511F53) ^ c3 ^ k1
        c3 = {tl}.mul(c0, 0xD2511F53, sanitize_overflow=False)
        c0 = {tl}.umulhi(before, 0xCD9E8D57) ^ c1 ^ k0
        c1 = {tl}.mul(before, 0xCD9E8D57, sanitize_overflow=False)
        k0 = {tl}.add(k0, 0x9E3779B9, sanitize_overflow=False)
        k1 = {tl}.add(k1, 0xBB67AE85, sanitize_overflow=False)
    whole = c0.to({tl}.int32, bitcast=True)
    return {tl}.where(whole < 0, -1 - whole, whole).to({tl}.float32) * 4.6566127342e-10
''',
    "_floor": '''@{jit}.jit
def _floor{own}(a, b):
    """The quotient of integers rounded down, 0 for a divisor that is not positive."""
    whole = a // {tl}.where(b > 0, b, 1)
    rest = a - whole * b
    return {tl}.where(b > 0, {tl}.where(rest < 0, whole - 1, whole), 0)
''',
}
HELPERS = frozenset(_HELPERS)
"""The names of the functions that printed expressions call."""


def helper_text(name: str, dialect: TileDialect) -> str:
    """The source of a helper function."""
    return _HELPERS[name].format(jit=dialect.jit, tl=dialect.module, own=dialect.own)


@cache
def helper_function(name: str) -> KernelFunction:
    """A helper function of Triton kernels as a tree."""
    return read_code(helper_text(name, TRITON)).functions[name]
