"""What people try on an array: its methods, NumPy's functions of it, and what other libraries ask of it.

A function has a meaning here where the names of axes say all: a reduction over named axes, or over all of them, and
what is elementwise. Of the rest a sentence says what to write. An array knows its trace, which does the work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from catdiag.category.types import ArrayType, Axis, Size
from catdiag.frontend.constants import short
from catdiag.frontend.signature import parse_axes
from catdiag.util.errors import AxisError, CatdiagError, SignatureError, TypeMismatch


class NoSuchArrayAttribute(CatdiagError, AttributeError):
    """An attribute of positional arrays that an array with named axes does not have."""


# -- reductions ------------------------------------------------------------------------------------------


def named_axes(trace: Any, what: str, array: Any, axes: str) -> tuple[Axis, ...]:
    """The axes of an array that a text names, each once. Raises AxisError for others, SignatureError for none."""
    wanted: tuple[Axis, ...] = trace.memo(("axes", axes), lambda: parse_axes(axes))
    have = " ".join(array.axes) or "no axes"
    if not wanted:
        raise SignatureError(f'{what} over no axis: name one or several, as in cd.{what}(a, "x"); the array has {have}')
    found: list[Axis] = []
    for axis in wanted:
        own = array.type.axis(axis.name)
        if own is None:
            raise AxisError(f"cannot {what} over axis {axis.name!r}: the array has {have}")
        if own in found:
            raise AxisError(f"axis {axis.name!r} is named twice in {axes!r}")
        found.append(own)
    return tuple(found)


def reduced(trace: Any, monoid: str, array: Any, axes: str) -> Any:
    """A reduction over the axes that a text names. Raises TypeMismatch for `any` or `all` of numbers."""
    found = named_axes(trace, monoid, array, axes)
    if monoid in ("any", "all"):
        if array.type.element != "bool":
            raise TypeMismatch(f"{monoid} takes truth values and got {array}: compare first, as in `a > 0`")
    else:
        array = trace.numeric(array)
    for axis in found:
        array = trace.reduce(monoid, array, axis.name)
    return array


def averaged(trace: Any, array: Any, axes: str) -> Any:
    """The mean over the axes that a text names."""
    found = named_axes(trace, "mean", array, axes)
    size: Size = found[0].size
    for axis in found[1:]:
        size = ("*", size, axis.size)
    return reduced(trace, "sum", array, axes) / trace.size(size)


def _over(array: ArrayMethods, axes: object, call: str) -> str:
    """The axes that a call names; all of them, if it names none."""
    if axes is None:
        return " ".join(array.type.names)
    if not isinstance(axes, str):
        raise TypeMismatch(
            f"{call.replace('(…', '')} over axis {axes!r}: axes have names here, and the array has "
            f"{' '.join(array.type.names) or 'none'}"
        )
    return axes


# -- methods ---------------------------------------------------------------------------------------------


class ArrayMethods:
    """The methods of an array with named axes."""

    __slots__ = ()
    _trace: Any
    type: ArrayType

    def _here(self) -> Any:
        raise NotImplementedError

    def _reduced(self, name: str, axes: object, call: str) -> Any:
        trace, over = self._here(), _over(self, axes, call)
        return averaged(trace, self, over) if name == "mean" else reduced(trace, name, self, over)

    def sum(self, axis: str | None = None) -> Any:
        """The sum over the axes that are named, or over all: `a.sum("x")` is `cd.sum(a, "x")`."""
        return self._reduced("sum", axis, "a.sum()")

    def prod(self, axis: str | None = None) -> Any:
        """The product over axes."""
        return self._reduced("prod", axis, "a.prod()")

    def max(self, axis: str | None = None) -> Any:
        """The maximum over axes."""
        return self._reduced("max", axis, "a.max()")

    def min(self, axis: str | None = None) -> Any:
        """The minimum over axes."""
        return self._reduced("min", axis, "a.min()")

    def mean(self, axis: str | None = None) -> Any:
        """The mean over axes."""
        return self._reduced("mean", axis, "a.mean()")

    def any(self, axis: str | None = None) -> Any:
        """Whether a truth value along axes is true."""
        return self._reduced("any", axis, "a.any()")

    def all(self, axis: str | None = None) -> Any:
        """Whether all truth values along axes are true."""
        return self._reduced("all", axis, "a.all()")

    def var(self, axes: str | None = None) -> Any:
        """The mean of the squared distances from the mean over axes."""
        centered: Any = self - self.mean(axes)
        return (centered * centered).mean(axes)

    def std(self, axes: str | None = None) -> Any:
        """The square root of the variance over axes."""
        return self.var(axes).sqrt()

    def clip(self, low: Any = None, high: Any = None) -> Any:
        """`a` where it is between two bounds, else the nearer one."""
        found: Any = self if low is None else self._here().arithmetic("max", self, low)
        return found if high is None else self._here().arithmetic("min", found, high)

    def exp(self) -> Any:
        """The exponential."""
        return self._here().arithmetic("exp", self)

    def log(self) -> Any:
        """The natural logarithm."""
        return self._here().arithmetic("log", self)

    def sqrt(self) -> Any:
        """The square root."""
        return self._here().arithmetic("sqrt", self)

    def tanh(self) -> Any:
        """The hyperbolic tangent."""
        return self._here().arithmetic("tanh", self)

    def abs(self) -> Any:
        """The absolute value."""
        return self._here().arithmetic("abs", self)

    def round(self) -> Any:
        """The nearest integer, the even one of two."""
        return self._here().arithmetic("round", self)

    # -- NumPy -------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy's elementwise functions, so that `np.float64(2) * a` and `np.exp(a)` mean what they say."""
        name, trace = ufunc.__name__, self._here()
        if method == "__call__" and not options and name in _DERIVED:
            return _DERIVED[name](*inputs)
        if method != "__call__":
            raise TypeMismatch(
                f"np.{name}.{method} does not work on named axes: write cd.sum, cd.prod, cd.max or cd.min over axes"
            )
        if options or name not in _UFUNCS:
            raise TypeMismatch(f"np.{name} does not work on named axes: write {_INSTEAD.get(name, _ANY)}")
        fn, swapped = _UFUNCS[name]
        operands = inputs[::-1] if swapped else inputs
        return trace.logic(fn, *operands) if fn in ("and", "or", "not") else trace.arithmetic(fn, *operands)

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """NumPy's functions that are no ufuncs: those that have a meaning without positions of axes."""
        name = func.__name__
        call = f"np.{name}(…"
        if name in _REDUCTIONS:
            array, axes = _arguments(call, args, kwargs, ("a", "axis"))
            if not isinstance(array, ArrayMethods):
                raise TypeMismatch(f"{call}): expected an array of this algorithm first, not {type(array).__name__}")
            return getattr(array, _REDUCTIONS[name])(None if axes is None else _over(array, axes, call))
        if name == "where" and len(args) == 3 and not kwargs:
            return self._here().chosen(*args)
        if name == "clip":
            array, low, high = _arguments(call, args, kwargs, ("a", "a_min", "a_max"))
            return self._here().lift(array).clip(low, high)
        if name in ("round", "around") and len(args) == 1 and not kwargs:
            return self._here().lift(args[0]).round()
        module = (func.__module__ or "numpy").replace("numpy", "np")
        raise TypeMismatch(f"{module}.{name} does not work on named axes: write {_INSTEAD.get(name, _ANY)}")

    # -- operations that need values: errors with a hint -------------------------------------------

    def __array__(self, *args: Any, **options: Any) -> NoReturn:
        raise TypeMismatch(f"array {self} has no values while its algorithm is being built: NumPy cannot hold it")

    def __bool__(self) -> bool:
        raise TypeMismatch(
            f"array {self} has no values while its algorithm is being built, so `if`, `and`, `or`, `not` and chained "
            "comparisons cannot ask for its truth: choose with cd.where(condition, a, b), combine with & | ~"
        )

    def __float__(self) -> float:
        raise TypeMismatch(
            f"array {self} has no values while its algorithm is being built: use cd.sqrt or cd.exp, not those of math"
        )

    def __len__(self) -> NoReturn:
        raise TypeMismatch(f'array {self} has no length: cd.size("x") is the size of an axis')

    def __iter__(self) -> NoReturn:
        raise TypeMismatch(f"array {self} cannot be iterated over: write what happens at every index, by axis name")

    def __getitem__(self, key: object) -> NoReturn:
        raise TypeMismatch(f"array {self} cannot be indexed with {short(key)}: refer to axes by name")

    def __matmul__(self, other: object) -> NoReturn:
        raise TypeMismatch('@ does not say which axes are summed: write cd.einsum("a b, b c -> a c", A, B)')

    # -- other libraries ---------------------------------------------------------------------------

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        name = getattr(func, "__name__", str(func))
        raise TypeMismatch(
            f"torch.{name} does not work on named axes: write cd.{name} if there is one, or import the function of "
            "PyTorch with cd.from_torch"
        )

    def __getattr__(self, name: str) -> NoReturn:
        said = f"an array with named axes has no attribute {name!r}"
        raise NoSuchArrayAttribute(f"{said}: {_ATTRIBUTES[name]}" if name in _ATTRIBUTES else said)


def _arguments(call: str, args: Sequence[Any], kwargs: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    """The arguments of a call by position; None for those that are left out. Raises TypeMismatch for others."""
    others = [k for k in kwargs if k not in names]
    if others or len(args) > len(names):
        raise TypeMismatch(f"{call}) has no {others[0] + '=' if others else 'further argument'} on named axes")
    return [*args, *(kwargs.get(name) for name in names[len(args) :])]


# NumPy's names of the scalar functions, and whether the operands are swapped.
_UFUNCS = {
    "add": ("add", False), "subtract": ("sub", False), "multiply": ("mul", False), "divide": ("div", False),
    "negative": ("neg", False), "exp": ("exp", False), "log": ("log", False), "sqrt": ("sqrt", False),
    "sin": ("sin", False), "cos": ("cos", False), "sign": ("sign", False), "floor": ("floor", False),
    "ceil": ("ceil", False), "rint": ("round", False), "tanh": ("tanh", False), "absolute": ("abs", False),
    "maximum": ("max", False), "minimum": ("min", False),
    "equal": ("eq", False), "not_equal": ("ne", False), "less": ("lt", False), "less_equal": ("le", False),
    "greater": ("lt", True), "greater_equal": ("le", True),
    "logical_and": ("and", False), "logical_or": ("or", False), "logical_not": ("not", False),
    "bitwise_and": ("and", False), "bitwise_or": ("or", False), "invert": ("not", False),
}  # fmt: skip
_DERIVED: dict[str, Callable[..., Any]] = {
    "power": lambda a, e: a**e,
    "square": lambda a: a * a,
    "reciprocal": lambda a: 1 / a,
    "positive": lambda a: +a,
    "log1p": lambda a: (1 + a).log(),
    "expm1": lambda a: a.exp() - 1,
    "exp2": lambda a: (a * math.log(2)).exp(),
    "log2": lambda a: a.log() / math.log(2),
    "floor_divide": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
}
"""NumPy's elementwise functions that are made of others."""
_REDUCTIONS = {
    "sum": "sum", "prod": "prod", "max": "max", "amax": "max", "min": "min", "amin": "min", "mean": "mean",
    "any": "any", "all": "all", "var": "var", "std": "std",
}  # fmt: skip
_ANY = "what catdiag has, such as cd.einsum"
_PRODUCT = 'cd.einsum("a b, b c -> a c", A, B): the names of axes, between blanks, say which are summed'
_ORDER = 'cd.rearrange(a, "a b -> b a") for a result in that order: axes have names, and operations take any order'
_GROUPS = 'cd.rearrange(a, "a (b c) -> a b c"), which splits and merges axes by name'
_INSTEAD = {
    **dict.fromkeys(("einsum", "matmul", "dot", "tensordot", "inner", "outer", "vdot"), _PRODUCT),
    **dict.fromkeys(("transpose", "swapaxes", "moveaxis", "rollaxis"), _ORDER),
    **dict.fromkeys(("reshape", "ravel", "squeeze", "expand_dims", "atleast_2d"), _GROUPS),
    **dict.fromkeys(("concatenate", "stack", "hstack", "vstack", "append"), 'cd.concat([a, b], "x+y")'),
    **dict.fromkeys(("take", "take_along_axis"), 'cd.gather(table, "x", indices)'),
    **dict.fromkeys(("tril", "triu"), 'cd.where(cd.index("x") <= cd.index("q"), a, 0)'),
    "argmax": 'cd.argmax(a, "x")', "argmin": 'cd.argmin(a, "x")', "flip": 'cd.reverse(a, "x")',
    "roll": 'cd.reindex(a, "x", …)', "pad": 'cd.pad(a, "x", 1, 2)', "split": 'cd.split(a, "x+y")',
    "repeat": 'cd.repeat(a, "x", 3)', "tile": 'cd.tile(a, "x", 3)', "broadcast_to": 'cd.broadcast(a, "q x")',
    "cumsum": 'cd.sum(cd.where(cd.index("x") <= cd.index("y"), a, 0), "x"), with y an axis of the same size',
}  # fmt: skip
"""What to write for functions of NumPy that are of positions of axes."""
_ATTRIBUTES = {
    **dict.fromkeys(("T", "mT", "transpose", "swapaxes", "permute"), f"write {_ORDER}"),
    **dict.fromkeys(("reshape", "view", "flatten", "ravel", "squeeze", "unsqueeze"), f"write {_GROUPS}"),
    **dict.fromkeys(("dot", "matmul"), f"write {_PRODUCT}"),
    "shape": 'a.axes has the names of its axes, and cd.size("x") is the size of one',
    "ndim": "len(a.axes) is the number of its axes",
    "size": 'cd.size("x") is the size of an axis',
    **dict.fromkeys(("astype", "to", "half", "float", "bfloat16"), 'write cd.cast(a, "bf16")'),
    **{f: f"write cd.nn.{f}(a)" for f in ("relu", "silu", "gelu", "elu", "sigmoid", "softplus")},
    **{f: f'write cd.{f}(a, "x")' for f in ("argmax", "argmin")},
    "pow": "write a ** b",
    "masked_fill": "write cd.where(mask, b, a)",
    **dict.fromkeys(("clamp", "clip"), "write cd.clip(a, low, high)"),
    "item": "an array has no values while its algorithm is being built",
    "numpy": "an array has no values while its algorithm is being built",
}
