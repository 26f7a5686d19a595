"""Whether a function of tensors gives what a diagram means: fresh inputs, poisoned memory, errors against float64."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catdiag.measure.bench_case import ArraySpec, BenchCase
from catdiag.util.errors import CatdiagError

TORCH = {
    "fp64": "float64", "fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16",
    "fp8": "float8_e4m3fn", "int64": "int64", "bool": "bool",
}  # fmt: skip
TOLERANCE = {"fp64": 1e-9, "fp32": 1e-3, "tf32": 5e-3, "fp16": 5e-3, "bf16": 2e-2, "fp8": 2e-1}
"""The largest ‖out − ref‖ / ‖ref‖ by element type: a few times what operands rounded to it make of a contraction."""
_MOST_SLICES = 24
_ALIVE = 6
"""How many of the widest arrays of the reference are taken to be held at once."""


class WrongResult(CatdiagError):
    """A function that does not give what the diagram means: shapes, entries never written, or too large an error."""


@dataclass(frozen=True)
class CheckedResult:
    """The error of a function, ‖out − ref‖ / ‖ref‖, that of its worst entry, max |out − ref| / max |ref|, each the
    largest of its results; and how many entries were compared."""

    error: float
    entries: int
    worst: float = 0.0


def drawn(array: ArraySpec, device: str, generator: Any) -> Any:
    """A fresh tensor for an input."""
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
    """Fresh inputs of a case, in order; those without axes are Python numbers."""
    import torch

    generator = torch.Generator(device=device)
    generator.manual_seed(seed)
    return [drawn(a, device, generator) if a.axes else case.scalars[a.name] for a in case.inputs]


def meaning(text: str, entry: str) -> Callable[..., Any]:
    """The function of that name in a text that a textbook printed."""
    namespace: dict[str, Any] = {}
    exec(compile(text, f"<textbook {entry}>", "exec", dont_inherit=True), namespace)
    made: Callable[..., Any] = namespace[entry]
    return made


def poison(case: BenchCase, device: str) -> None:
    """Leaves NaN in memory that the allocator is about to hand out again, so that what is never written shows."""
    import torch

    kept = [torch.full((max(1, a.bytes // 4 + 1),), math.nan, device=device) for a in case.outputs for _ in range(3)]
    del kept


def poisoned_outputs(case: BenchCase, device: str) -> list[Any]:
    """Tensors of NaN for the results of a case; integers and truth values have none, and are left at -1 and true."""
    import torch

    found = []
    for a in case.outputs:
        dtype = getattr(torch, TORCH[a.dtype])
        fill = {"int": -1, "bool": True}.get(a.element, math.nan)
        found.append(torch.full(a.shape, fill, dtype=dtype, device=device))
    return found


def steps_of(case: BenchCase, budget: float) -> dict[str, int]:
    """How long slices of each axis the reference is evaluated on, so that its arrays take at most `budget` bytes.

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
        ) * (8.0 * _ALIVE)

    for axis in case.slices:
        over = needed() / budget
        if over <= 1:
            break
        steps[axis] = max(1, math.floor(steps[axis] / over))
    return steps


@dataclass(frozen=True)
class Reference:
    """What the diagram means of some inputs in float64: results on slices, which are all there are if `complete`."""

    parts: tuple[tuple[Mapping[str, tuple[int, int]], tuple[Any, ...]], ...]
    complete: bool


def reference(case: BenchCase, inputs: Sequence[Any], budget: float = 2.0**35, most: int = _MOST_SLICES) -> Reference:
    """The diagram's meaning of the inputs in float64, slice by slice, so that it takes at most `budget` bytes at once.

    All of it, but where there would be more than `most` slices: then so many, evenly spaced, the first and the last
    among them.
    """
    import torch

    slices = list(_slices(case, steps_of(case, budget)))
    whole = len(slices) <= most
    if not whole:
        slices = [slices[round(k * (len(slices) - 1) / max(1, most - 1))] for k in range(max(2, most))]
    function = meaning(case.text, case.entry)
    parts = []
    for bounds in slices:
        given = [_part(t, a, bounds) for t, a in zip(inputs, case.inputs, strict=True)]
        wide = [p.to(torch.float64) if torch.is_tensor(p) and p.is_floating_point() else p for p in given]
        further = {case.starts[n]: lo for n, (lo, _) in bounds.items() if n in case.starts}
        found = function(*wide, **case.keywords, **further)
        results = found if isinstance(found, tuple) else (found,)
        parts.append((bounds, tuple(r.to(torch.float64) for r in results)))
    return Reference(tuple(parts), whole)


def check(case: BenchCase, outputs: Any, meant: Reference) -> CheckedResult:
    """Compares outputs with what the diagram means; of entries that are in no slice only that they are numbers.

    Raises Wrong where a result has another shape, has NaN where the meaning has a number, or is further off than
    `TOLERANCE`, all of it or one entry; CatdiagError where the meaning itself is NaN, so that nothing can be compared.
    """
    import torch

    results = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    if len(results) != len(case.outputs):
        raise WrongResult(f"{len(results)} results, expected {len(case.outputs)}")
    for result, array in zip(results, case.outputs, strict=True):
        if tuple(result.shape) != array.shape:
            raise WrongResult(
                f"a result of shape {tuple(result.shape)}, expected {array.shape} [{' '.join(array.axes)}]"
            )
    off, size, count = [0.0] * len(results), [0.0] * len(results), 0
    far, large = [0.0] * len(results), [0.0] * len(results)
    lost = vague = 0
    for bounds, refs in meant.parts:
        for k, ref in enumerate(refs):
            out = _part(results[k], case.outputs[k], bounds).to(torch.float64)
            unknown = torch.isnan(ref)
            vague += int(unknown.sum())
            lost += int((torch.isnan(out) & ~unknown).sum())
            same = out == ref  # infinities that agree
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
        raise CatdiagError(
            f"the diagram means no number at {vague} of {count} entries, for these inputs: say by draws and scalars "
            "what it is defined on"
        )
    if not meant.complete:
        lost = sum(int(torch.isnan(r).sum()) for r in results if r.is_floating_point())
    if lost:
        raise WrongResult(f"{lost} of {entries} entries are NaN: not written, or computed so")
    error = max((math.sqrt(a) / math.sqrt(b) if b else math.sqrt(a) for a, b in zip(off, size, strict=True)), default=0)
    worst = max((a / b if b else a for a, b in zip(far, large, strict=True)), default=0)
    if not error <= TOLERANCE[case.dtype]:
        raise WrongResult(f"error {error:.1e}, at most {TOLERANCE[case.dtype]:.0e} is allowed for {case.dtype}")
    if not worst <= TOLERANCE[case.dtype]:  # one wrong row of thousands is little of all
        raise WrongResult(
            f"an entry is off by {worst:.1e} of the largest, at most {TOLERANCE[case.dtype]:.0e} is allowed for "
            f"{case.dtype}"
        )
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
