"""A function under test: it is called twice on guarded copies of arrays, and compared with a diagram."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from catdiag.category.diagram import Diagram
from catdiag.execute.size_inference import sizes_as_in
from catdiag.testing.error_bounds import BoundedArray, Rounding
from catdiag.testing.float_formats import Format, carrier, format_of, rounded
from catdiag.testing.tolerance import error_bounds
from catdiag.util.errors import CatdiagError

_GUARD = 64
"""The number of guard elements before and after the memory of an input."""


@dataclass(frozen=True)
class Failure:
    """How a function fails at some arrays: the `kind` of failure, a message, and where values differ.

    Kinds: "raises", "outputs" (their number), "shape", "dtype", "value", "modified", "shared", "repeat". `error` and
    `tolerance` are absolute.
    """

    kind: str
    message: str
    output: int = 0
    index: tuple[int, ...] = ()
    expected: Any = None
    got: Any = None
    error: float = 0.0
    tolerance: float = 0.0


@dataclass(frozen=True)
class Judgement:
    """The outcome of a call: a failure or None, the number of values compared, and the largest share of a tolerance."""

    failure: Failure | None
    compared: int = 0
    worst: float = 0.0


@dataclass(frozen=True)
class KernelUnderTest:
    """A function, the diagram that it should implement, and how the two are compared.

    `forms` are diagrams of the same meaning, whose rounding errors are allowed too. `hidden` are sizes that no input
    shows, as the number of heads in `(h d)`, which are those of the example of what was imported. `convert` makes the
    function's argument from a NumPy array; "torch", with a device after a colon, makes tensors.
    """

    function: Callable[..., Any]
    diagram: Diagram
    rounding: Rounding
    result_format: Format
    result: Format
    forms: tuple[Diagram, ...] = ()
    hidden: Mapping[str, int] = field(default_factory=dict)
    convert: Callable[[Any], Any] | str | None = None
    functions: Mapping[str, Callable[..., Any]] | None = None
    slack: float = 1.0
    repeats: bool = True

    @property
    def name(self) -> str:
        """The name of the function; "function" where it has none."""
        name = str(getattr(self.function, "__name__", None) or type(self.function).__name__)
        return name if name.isidentifier() else "function"

    def judge(self, arrays: Sequence[Any], between: bool = False) -> Judgement:
        """Compares the function with the diagram on arrays of the types in which they are passed.

        The function is called again and must give the same; with `between`, after a call on other arrays of the same
        shapes, whose results are ignored. Raises SizeError where the diagram has no meaning at such arrays.
        """
        wanted = self.wanted(arrays)
        first, failure = self.call(arrays, float("nan"))
        if failure is None:
            failure = self.formed(first, wanted)
        if failure is not None:
            return Judgement(failure, 1)
        compared, worst = 0, 0.0
        for k, (near, got) in enumerate(zip(wanted, first, strict=True)):
            found, count, share = self.compared(k, near, got)
            compared, worst = compared + count, max(worst, share)
            if found is not None:
                return Judgement(found, compared, share)
        if self.repeats:
            if between:
                self.call([np.flip(a) for a in arrays], 0.25)
            second, failure = self.call(arrays, 0.5)
            if failure is None:
                failure = _differing(first, second)
        return Judgement(failure, compared, worst)

    def wanted(self, arrays: Sequence[Any]) -> list[BoundedArray]:
        """The values that the diagram means, with error bounds before the results are rounded.

        Raises SizeError as `error_bounds` does.
        """
        wide = [
            np.asarray(a) if np.asarray(a).dtype.kind in "iub" else np.asarray(a).astype(np.float64) for a in arrays
        ]
        sizes = sizes_as_in(self.hidden, tuple(self.diagram.dom), [a.shape for a in wide], {})
        forms = self.diagram, *self.forms
        first, *others = (error_bounds(f, wide, self.rounding, self.functions, sizes) for f in forms)
        for other in others:
            first = [
                BoundedArray(a.values, np.maximum(a.errors, b.errors), a.names)
                for a, b in zip(first, other, strict=True)
            ]
        return first

    # -- calls -----------------------------------------------------------------------------------------

    def call(self, arrays: Sequence[Any], filling: float) -> tuple[list[Any], Failure | None]:
        """The results of the function on guarded copies; buffers that it allocates empty are filled with `filling`."""
        guarded = [_guarded(a) for a in arrays]
        handed = [self.handed(view) for _, view in guarded]
        try:
            with filled_buffers(filling), np.errstate(all="ignore"):
                results = self.function(*handed)
        except (Exception, SystemExit) as error:
            return [], Failure("raises", f"{self.name} raised {_error_line(error)}")
        outputs = list(results) if isinstance(results, (tuple, list)) else [results]
        failure = None
        for k, (name, a, (buffer, view)) in enumerate(zip(self.diagram.input_names, arrays, guarded, strict=True)):
            if not (_same(_back(handed[k]), a) and _same(view, a)):
                failure = Failure("modified", f"{self.name} changed its input {name} in place")
            elif not _unharmed(buffer, view):
                failure = Failure("modified", f"{self.name} wrote outside of the memory of its input {name}")
            elif any(_share(handed[k], out) for out in outputs):
                failure = Failure("shared", f"a result of {self.name} shares memory with its input {name}")
            if failure is not None:
                break
        return [_back(out) for out in outputs], failure

    def handed(self, array: Any) -> Any:
        """An array as the function takes it. Raises CatdiagError for an unknown `convert`."""
        if self.convert is None:
            device = module_device(self.function)
            return array if device is None else _tensor(array, self.result_format, device)
        if callable(self.convert):
            return self.convert(array)
        kind, _, device = self.convert.partition(":")
        if kind != "torch":
            raise CatdiagError(f"convert is {self.convert!r}: expected a function, 'torch' or 'torch:DEVICE'")
        return _tensor(array, self.result_format, device)

    # -- comparison -----------------------------------------------------------------------------------------

    def formed(self, outputs: Sequence[Any], wanted: Sequence[BoundedArray]) -> Failure | None:
        """A failure if the outputs have the wrong number, shapes or types, else None."""
        if len(outputs) != len(wanted):
            return Failure("outputs", f"{self.name} gave {len(outputs)} results: expected {len(wanted)}")
        for k, (got, near, ty) in enumerate(zip(outputs, wanted, self.diagram.cod, strict=True)):
            what = "the result" if len(wanted) == 1 else f"result {k}"
            shape = tuple(np.shape(near.values))
            if np.shape(got) != shape:
                return Failure("shape", f"{what} has shape {np.shape(got)}: expected {shape}, for {ty}", k)
            kind = np.asarray(got).dtype
            if kind.kind == "O" or (kind.kind == "c"):
                return Failure("dtype", f"{what} holds {kind}: expected numbers", k)
            if isinstance(got, (bool, int, float)):
                continue  # a Python number has no NumPy type
            right = {
                "bool": kind.kind == "b",
                "int": kind.kind in "iu",
            }.get(ty.element, kind.name in (carrier(self.result).name, self.result.name))
            if not right:
                expected = {"bool": "truth values", "int": "integers"}.get(ty.element, carrier(self.result).name)
                return Failure("dtype", f"{what} holds {kind}: expected {expected}", k)
        return None

    def compared(self, k: int, near: BoundedArray, got: Any) -> tuple[Failure | None, int, float]:
        """Compares output `k` with its bounds: a failure or None, the number of values compared, the worst share."""
        wide = self.rounding.reference
        v, e, x = np.asarray(near.values), near.errors, np.asarray(got)
        if v.dtype.kind == "b":
            tolerance: Any = np.zeros(v.shape)
            claimed, off = np.asarray(e == 0), np.asarray(v != x.astype(bool), float)
        else:
            v, x = np.asarray(v, wide), x.astype(wide)
            whole = self.diagram.cod[k].element == "int"
            bottom = np.isneginf(v)
            with np.errstate(all="ignore"):
                # Rounding is monotone: a value within e of v, once rounded, lies between both rounded ends.
                low, high = v - self.slack * e, v + self.slack * e
                if not whole:
                    low = np.minimum(low, np.asarray(rounded(low, self.result), wide))
                    high = np.maximum(high, np.asarray(rounded(high, self.result), wide))
                tolerance = np.where(x < v, v - low, high - v) + (0 if whole else self.result.flushed)
                tolerance = np.where(bottom, 0, tolerance)
                claimed = np.isfinite(tolerance) & np.isfinite(e)
                # Above the largest number of the result's type, results overflow and are not compared.
                claimed &= bottom | whole | (np.maximum(np.abs(low), np.abs(high)) <= self.result.largest)
                off = np.where(x == v, 0, np.abs(x - v))
            off = np.where(np.isnan(off), np.inf, off)
        count = int(np.sum(claimed))
        wrong = claimed & ~(off <= tolerance)
        if not np.any(wrong):
            with np.errstate(all="ignore"):
                shares = np.where(claimed & (off > 0), off / tolerance, 0)
            return None, count, float(np.max(shares, initial=0.0))
        index = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), np.shape(wrong)))
        off_here, allowed_here = float(off[index]), float(tolerance[index])
        axes = ", ".join(f"{n}={i}" for n, i in zip(self.diagram.cod[k].names, index, strict=True))
        what = ("the result" if len(self.diagram.cod) == 1 else f"result {k}") + (f" at {axes}" if axes else "")
        said = f"{what} is {_shown(x[index])}: expected {_shown(v[index])}"
        if np.isfinite(off_here) and v.dtype.kind != "b":
            times = f", {off_here / allowed_here:.3g} times that" if allowed_here > 0 else ""
            said += f"; off by {off_here:.3g}, and rounding allows {allowed_here:.3g}{times}"
        if (several := int(np.sum(wrong))) > 1:
            said += f" ({several} of {count} numbers are wrong)"
        shown = v if v.dtype.kind == "b" else v.astype(np.float64)
        return Failure("value", said, k, index, shown, np.asarray(got), off_here, allowed_here), count, float("inf")


def _shown(x: Any) -> str:
    return str(bool(x)) if np.asarray(x).dtype.kind == "b" else f"{float(x):.9g}"


def _error_line(error: BaseException) -> str:
    """An error in one line, with the innermost line of the user's function."""
    place = traceback.extract_tb(error.__traceback__)
    last = f" at {place[-1].filename}:{place[-1].lineno}: {place[-1].line}" if len(place) > 1 else ""
    text = str(error).strip().split("\n")[0][:300]
    return f"{type(error).__name__}: {text}{last}"


def _differing(first: Sequence[Any], second: Sequence[Any]) -> Failure | None:
    for k, (a, b) in enumerate(zip(first, second, strict=False)):
        one, two = np.asarray(a), np.asarray(b)
        if one.shape == two.shape and _bits(one) == _bits(two):
            continue
        return Failure(
            "repeat",
            "called again on the same arrays, the function gave other values: it is not deterministic, keeps a "
            "state, or reads memory that it did not write",
            k,
            expected=one,
            got=two,
        )
    return None


# -- memory ----------------------------------------------------------------------------------------------


def _guarded(array: Any) -> tuple[Any, Any]:
    """A buffer whose ends are filled with NaN (or an unlikely value), and the array in its middle."""
    a = np.asarray(array)
    buffer = np.zeros(a.size + 2 * _GUARD, a.dtype)
    buffer[:] = _poison(a.dtype, float("nan"))
    view = buffer[_GUARD : _GUARD + a.size].reshape(a.shape)
    view[...] = a
    return buffer, view


def _poison(kind: np.dtype[Any], filling: float) -> Any:
    """The value with which a buffer of a type is filled, so that reads of it are noticed."""
    if kind.kind == "b":
        return bool(np.isnan(filling))
    if kind.kind in "iu":
        return np.iinfo(kind).max // (3 if np.isnan(filling) else 2)
    return filling


def _unharmed(buffer: Any, view: Any) -> bool:
    whole = np.zeros_like(buffer)
    whole[:] = _poison(buffer.dtype, float("nan"))
    ends = np.concatenate([buffer[:_GUARD], buffer[_GUARD + view.size :]])
    return _bits(ends) == _bits(whole[: 2 * _GUARD])


def _same(a: Any, b: Any) -> bool:
    """Whether two arrays have the same contents, in whatever types."""
    one, two = (x if x.dtype.kind in "iub" else x.astype(np.float64) for x in (np.asarray(a), np.asarray(b)))
    return _bits(one) == _bits(two)


def module_device(function: Any) -> str | None:
    """The device of a PyTorch module's parameters, "cpu" without any; None for what is no module.

    >>> print(module_device(abs))
    None
    """
    if not hasattr(function, "named_parameters"):
        return None
    return str(next((a.device for _, a in function.named_parameters()), "cpu"))


def _bits(a: Any) -> bytes:
    """The contents of an array as bytes, so that NaN equals itself."""
    return np.ascontiguousarray(a).tobytes()


def _tensor(array: Any, form: Format, device: str) -> Any:
    import torch  # type: ignore[import-not-found,unused-ignore]

    if array.dtype.kind in "iub":
        made = torch.from_numpy(array)
    elif form.name == "bfloat16":
        made = torch.from_numpy(np.asarray(array, np.float32)).to(torch.bfloat16)
    else:
        made = torch.from_numpy(array)
    return made.to(device) if device else made


def _back(value: Any) -> Any:
    """A result as a NumPy array; bfloat16 of torch in the type in which it is passed."""
    if not hasattr(value, "detach"):
        return value if isinstance(value, (bool, int, float)) else np.asarray(value)
    tensor = value.detach().cpu()
    if str(tensor.dtype) == "torch.bfloat16":
        return tensor.float().numpy().astype(carrier(format_of("bfloat16")))
    return tensor.numpy()


def _share(given: Any, result: Any) -> bool:
    if hasattr(given, "untyped_storage") and hasattr(result, "untyped_storage"):
        return bool(given.untyped_storage().data_ptr() == result.untyped_storage().data_ptr() != 0)
    if isinstance(given, np.ndarray) and isinstance(result, np.ndarray):
        return bool(np.may_share_memory(given, result))
    return False


@contextmanager
def filled_buffers(filling: float) -> Iterator[None]:
    """While active, `empty` and `empty_like` of NumPy, and of torch if it is loaded, return filled arrays.

    >>> with filled_buffers(0.5):
    ...     np.empty(2).tolist()
    [0.5, 0.5]

    Reads of uninitialized memory then show. For functions that are called from one thread.
    """
    modules = [np, *([sys.modules["torch"]] if "torch" in sys.modules else [])]
    places = [(module, name) for module in modules for name in ("empty", "empty_like") if hasattr(module, name)]
    before = [getattr(module, name) for module, name in places]

    def filled(make: Callable[..., Any]) -> Callable[..., Any]:
        def made(*args: Any, **options: Any) -> Any:
            array = make(*args, **options)
            if isinstance(array, np.ndarray):
                if array.dtype.kind in "fiub":
                    array.fill(_poison(array.dtype, filling))
            elif hasattr(array, "is_floating_point") and array.is_floating_point():
                array.fill_(filling)
            return array

        return made

    try:
        for (module, name), make in zip(places, before, strict=True):
            setattr(module, name, filled(make))
        yield
    finally:
        for (module, name), make in zip(places, before, strict=True):
            setattr(module, name, make)
