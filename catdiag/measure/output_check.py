"""Checks the results of a function of tensors against the diagram's meaning, computed in float64.

Inputs are fresh. Output memory is filled with NaN before, so that an entry that is never written is found.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catdiag.codegen.torch_reference import function_of
from catdiag.measure.bench_case import ArraySpec, BenchCase
from catdiag.util.errors import CatdiagError

TORCH = {
    "fp64": "float64", "fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16",
    "fp8": "float8_e4m3fn", "int64": "int64", "bool": "bool",
}  # fmt: skip
TOLERANCE = {"fp64": 1e-9, "fp32": 1e-3, "tf32": 5e-3, "fp16": 5e-3, "bf16": 2e-2, "fp8": 2e-1}
"""The largest ‖out − ref‖ / ‖ref‖ by element type: a few times the error of a contraction of rounded operands."""
_MOST_SLICES = 24
_ROUNDED = 8
"""How many changed inputs are tried where results are integers or truth values."""
_LIVE = 6
"""How many of the largest arrays of the reference are taken to be live at once."""


class WrongResult(CatdiagError):
    """A result is wrong: it has another shape, entries that were never written, or too large an error."""


class UndefinedReference(CatdiagError):
    """The diagram is not defined on these inputs, so that nothing can be compared."""


@dataclass(frozen=True)
class CheckedResult:
    """The error of a function, as the largest over its results, and the number of entries that were compared.

    `error` is ‖out − ref‖ / ‖ref‖; `worst` is that of the worst entry, max |out − ref| / max |ref|.
    """

    error: float
    entries: int
    worst: float = 0.0


def drawn(array: ArraySpec, device: str, generator: Any) -> Any:
    """A random tensor for an input. Raises CatdiagError for an unknown distribution."""
    import torch

    dtype = getattr(torch, TORCH[array.dtype])
    if array.element == "int":
        return torch.randint(0, array.below, array.shape, device=device, generator=generator)
    if array.element == "bool":
        return torch.rand(array.shape, device=device, generator=generator) < 0.5
    make = {"normal": torch.randn, "uniform": torch.rand}.get(array.draw)
    if make is None:
        raise CatdiagError(f"input {array.name} is drawn by {array.draw!r}: expected 'normal' or 'uniform'")
    return (make(array.shape, device=device, generator=generator, dtype=torch.float32) * array.scale).to(dtype)


def inputs_of(case: BenchCase, device: str, seed: int) -> list[Any]:
    """Random inputs of a case, in order; inputs without axes are Python numbers."""
    import torch

    generator = torch.Generator(device=device)
    generator.manual_seed(seed)
    return [drawn(a, device, generator) if a.axes else case.scalars[a.name] for a in case.inputs]


def poison(case: BenchCase, device: str) -> None:
    """Fills memory with NaN and frees it, so that results allocated there show entries that are never written."""
    import torch

    filled = [torch.full((max(1, a.bytes // 4 + 1),), math.nan, device=device) for a in case.outputs for _ in range(3)]
    del filled


def poisoned_outputs(case: BenchCase, device: str) -> list[Any]:
    """Tensors filled with NaN for the results of a case; integers are filled with -1, truth values with true."""
    import torch

    found = []
    for a in case.outputs:
        dtype = getattr(torch, TORCH[a.dtype])
        fill = {"int": -1, "bool": True}.get(a.element, math.nan)
        found.append(torch.full(a.shape, fill, dtype=dtype, device=device))
    return found


def steps_of(case: BenchCase, budget_bytes: float) -> dict[str, int]:
    """The lengths of the slices on which the reference is evaluated, by axis, so that it takes at most `budget_bytes`.

    >>> import catdiag as cd
    >>> from catdiag.measure.bench_case import case_of
    >>> case = case_of(cd.library.get("attention"), {"q": 1024, "x": 1024, "d": 64})
    >>> steps_of(case, 2**30), steps_of(case, 2**20)
    ({'q': 1024}, {'q': 21})
    """
    lengths = {n: k for a in case.outputs for n, k in zip(a.axes, a.shape, strict=True)}
    steps = {axis: lengths[axis] for axis in case.slices}

    def needed() -> float:
        return max(
            (math.prod(steps.get(n, k) for n, k in zip(axes, shape, strict=True)) for axes, shape in case.between),
            default=0,
        ) * (8.0 * _LIVE)

    for axis in case.slices:
        over = needed() / budget_bytes
        if over <= 1:
            break
        steps[axis] = max(1, math.floor(steps[axis] / over))
    return steps


@dataclass(frozen=True)
class ReferencePart:
    """The diagram's meaning on one slice, in float64, and of inputs that differ from those by rounding."""

    bounds: Mapping[str, tuple[int, int]]
    results: tuple[Any, ...]
    others: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Reference:
    """The diagram's meaning of some inputs, in float64, as results on slices; `complete` if these are all slices."""

    parts: tuple[ReferencePart, ...]
    complete: bool


def reference(
    case: BenchCase, inputs: Sequence[Any], budget_bytes: float = 2.0**35, most: int = _MOST_SLICES
) -> Reference:
    """The diagram's meaning of the inputs in float64, slice by slice, in at most `budget_bytes` at once.

    If there are more than `most` slices, only `most` of them are evaluated, evenly spaced, with the first and the last.
    Where results are integers or truth values, rounding may decide which (of the first of the largest entries, say):
    then the meaning of inputs that are changed by a rounding error is evaluated too.
    """
    import torch

    slices = list(_slices(case, steps_of(case, budget_bytes)))
    complete = len(slices) <= most
    if not complete:
        slices = [slices[round(k * (len(slices) - 1) / max(1, most - 1))] for k in range(max(2, most))]
    function = function_of(case.text, case.entry)
    decided = any(a.element in ("int", "bool") for a in case.outputs)
    generator = torch.Generator().manual_seed(0)
    parts = []
    for bounds in slices:
        sliced = [_part(t, a, bounds) for t, a in zip(inputs, case.inputs, strict=True)]
        wide = [p.to(torch.float64) if torch.is_tensor(p) and p.is_floating_point() else p for p in sliced]
        further = {case.starts[n]: lo for n, (lo, _) in bounds.items() if n in case.starts}

        def results(values: Sequence[Any], named: Mapping[str, int]) -> tuple[Any, ...]:
            found = function(*values, **case.keywords, **named)
            return tuple(r.to(torch.float64) for r in (found if isinstance(found, tuple) else (found,)))

        changed = ([_rounded(p, case.dtype, generator) for p in wide] for _ in range(_ROUNDED if decided else 0))
        others = tuple(results(values, further) for values in changed)
        parts.append(ReferencePart(bounds, results(wide, further), others))
    return Reference(tuple(parts), complete)


def _rounded(value: Any, dtype: str, generator: Any) -> Any:
    """A tensor of reals, each changed by up to a rounding error of what is stored in a type."""
    import torch

    if not torch.is_tensor(value) or not value.is_floating_point():
        return value
    kind = getattr(torch, TORCH["fp16" if dtype == "fp8" else dtype])
    change = 2 * torch.rand(value.shape, generator=generator, dtype=torch.float64) - 1
    return value * (1 + torch.finfo(kind).eps * change.to(value.device))


def check(case: BenchCase, outputs: Any, meant: Reference) -> CheckedResult:
    """Compares outputs with the reference. Entries outside its slices are only checked not to be NaN.

    Raises WrongResult for a wrong number of results or shape, for NaN where the reference has a number, and for an
    error above `TOLERANCE`, of the whole or of one entry: that of the case's type, or of a coarser one to which the
    program itself rounds. An integer or truth value that rounding decides may be any that it then is.
    Raises UndefinedReference if the reference is NaN.
    """
    import torch

    results = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    if len(results) != len(case.outputs):
        raise WrongResult(f"{len(results)} results: expected {len(case.outputs)}")
    for result, array in zip(results, case.outputs, strict=True):
        if tuple(result.shape) != array.shape:
            raise WrongResult(
                f"a result has shape {tuple(result.shape)}: expected {array.shape} [{' '.join(array.axes)}]"
            )
    off, size, count = [0.0] * len(results), [0.0] * len(results), 0
    far, large = [0.0] * len(results), [0.0] * len(results)
    lost = vague = 0
    for part in meant.parts:
        for k, ref in enumerate(part.results):
            out = _part(results[k], case.outputs[k], part.bounds).to(torch.float64)
            unknown = torch.isnan(ref)
            vague += int(unknown.sum())
            lost += int((torch.isnan(out) & ~unknown).sum())
            same = out == ref  # equal infinities too
            if case.outputs[k].element in ("int", "bool"):
                for other in part.others:
                    same |= out == other[k]
            gap = torch.where(same | unknown, 0.0, out - ref)
            known = torch.where(torch.isfinite(ref), ref, 0.0)
            off[k] += float((gap * gap).sum())
            size[k] += float((known * known).sum())
            if out.numel():
                far[k] = max(far[k], float(gap.abs().max()))
                large[k] = max(large[k], float(known.abs().max()))
            count += out.numel()
    entries = sum(r.numel() for r in results)
    if vague:
        raise UndefinedReference(
            f"the diagram is not defined at {vague} of {count} entries for these inputs: choose inputs on which it is "
            "defined, by draws and scalars"
        )
    if not meant.complete:
        lost = sum(int(torch.isnan(r).sum()) for r in results if r.is_floating_point())
    if lost:
        raise WrongResult(f"{lost} of {entries} entries are NaN: expected numbers; they were not written, or are wrong")
    error = max((math.sqrt(a) / math.sqrt(b) if b else math.sqrt(a) for a, b in zip(off, size, strict=True)), default=0)
    worst = max((a / b if b else a for a, b in zip(far, large, strict=True)), default=0)
    coarsest = max((case.dtype, *case.rounds_to), key=lambda kind: TOLERANCE[kind])
    said = f"expected at most {TOLERANCE[coarsest]:.0e} for {coarsest}"
    if not error <= TOLERANCE[coarsest]:
        raise WrongResult(f"the error is {error:.1e}: {said}")
    if not worst <= TOLERANCE[coarsest]:  # one wrong row of thousands hardly changes the error of the whole
        raise WrongResult(f"an entry is off by {worst:.1e} of the largest: {said}")
    return CheckedResult(error, count, worst)


def _slices(case: BenchCase, steps: Mapping[str, int]) -> Iterator[dict[str, tuple[int, int]]]:
    lengths = {n: k for a in case.outputs for n, k in zip(a.axes, a.shape, strict=True)}
    cut = [(n, step) for n, step in steps.items() if step < lengths[n]]
    for starts in itertools.product(*(range(0, lengths[n], step) for n, step in cut)):
        yield {n: (lo, min(lo + step, lengths[n])) for (n, step), lo in zip(cut, starts, strict=True)}


def _part(tensor: Any, array: ArraySpec, bounds: Mapping[str, tuple[int, int]]) -> Any:
    for k, name in enumerate(array.axes):
        if name in bounds:
            lo, hi = bounds[name]
            tensor = tensor.narrow(k, lo, hi - lo)
    return tensor
