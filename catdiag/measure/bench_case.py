"""A benchmark case: a diagram at sizes, with its FLOPs and bytes by formula and its meaning as text. Plain JSON data.

A case can be prepared where the solvers are and run where the GPU is, which needs PyTorch only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from catdiag.category.diagram import Diagram, HasDiagram, diagram_of
from catdiag.category.op_facts import cast_dtype
from catdiag.category.traversal import all_boxes
from catdiag.category.types import STORED, ArrayType, element_bytes, size_value
from catdiag.codegen.torch_reference import torch_reference
from catdiag.cost.traffic import io
from catdiag.rewrite.contraction_order import reassociated
from catdiag.util.errors import CatdiagError, SizeError

Number = int | float


@dataclass(frozen=True)
class ArraySpec:
    """An input or an output at sizes; a scalar has an empty shape. `dtype` is a type of the hardware ("bf16", "int64").

    `draw` is the distribution of an input: "normal", or "uniform" in [0, 1), times `scale`. Integers are uniform in
    0, …, `below` − 1.
    """

    name: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    element: str
    dtype: str
    draw: str = "normal"
    scale: float = 1.0
    below: int = 2

    @property
    def bytes(self) -> int:
        """The bytes of the array."""
        return math.prod(self.shape) * element_bytes(self.dtype)


@dataclass(frozen=True)
class KernelSource:
    """A generated module: its text, its launch function (`entry`), and the keyword arguments to call it with.

    `options` are tiles, `num_warps` and `num_stages`. `loads` are its transfers (H) in bytes by formula, by direction:
    "load" and "save". `about` describes the kernel for readers of a table. `predicted_s` is the time model's; None if
    it was not asked.
    """

    text: str
    entry: str
    options: Mapping[str, int]
    loads: Mapping[str, float] = field(default_factory=dict)
    about: str = ""
    predicted_s: float | None = None


@dataclass(frozen=True)
class BenchCase:
    """A benchmark of one operator at sizes.

    - `flops`: floating point operations of its contractions, without blocks that a mask empties.
    - `bytes`: compulsory bytes: each input read once, each output written once.
    - `kernels`: the time model's first choice, then others that it proposes; `refused`: why there is none.
    - `peers`: the names of other implementations to compare with.
    - `rounds_to`: the element types to which the program itself rounds, where it has casts.
    - `text`, `entry`, `keywords`, `slices`, `starts`, `between`: the reference program, as in
      `catdiag.codegen.torch_reference`.
    """

    name: str
    group: str
    operator: str
    sizes: Mapping[str, int]
    dtype: str
    inputs: tuple[ArraySpec, ...]
    scalars: Mapping[str, Number]
    outputs: tuple[ArraySpec, ...]
    flops: float
    bytes: float
    text: str
    entry: str
    keywords: Mapping[str, int]
    slices: tuple[str, ...]
    starts: Mapping[str, str]
    between: tuple[tuple[tuple[str, ...], tuple[int, ...]], ...]
    kernels: tuple[KernelSource, ...] = ()
    peers: tuple[str, ...] = ()
    refused: str = ""
    rounds_to: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @staticmethod
    def of(data: Mapping[str, Any]) -> BenchCase:
        """The case of the plain values that `as_dict` gives.

        >>> import catdiag as cd
        >>> case = case_of(cd.library.get("matmul"), {"a": 4, "b": 8, "c": 2})
        >>> BenchCase.of(case.as_dict()) == case
        True
        """
        found = dict(data)
        for side in ("inputs", "outputs"):
            found[side] = tuple(
                ArraySpec(**{**a, "axes": tuple(a["axes"]), "shape": tuple(a["shape"])}) for a in found[side]
            )
        found["between"] = tuple((tuple(axes), tuple(shape)) for axes, shape in found["between"])
        for name in ("slices", "peers", "rounds_to"):
            found[name] = tuple(found.get(name, ()))
        found["kernels"] = tuple(KernelSource(**k) for k in found["kernels"])
        return BenchCase(**found)


def case_of(
    diagram: Diagram | HasDiagram,
    sizes: Mapping[str, int],
    dtype: str = "bf16",
    *,
    scalars: Mapping[str, Number] | None = None,
    draws: Mapping[str, Mapping[str, Any]] | None = None,
    name: str = "",
    group: str = "",
    derivation: HasDiagram | None = None,
    kernels: Sequence[KernelSource] = (),
    peers: Sequence[str] = (),
    refused: str = "",
) -> BenchCase:
    """The benchmark case of a diagram at sizes, with real arrays of `dtype` (with fp8, results are fp16).

    - `scalars`: values of inputs without axes. The default is 0.5; an integer must be given.
    - `draws`: distributions of inputs, by name (fields of `ArraySpec`: draw, scale, below).
    - `derivation`: the derivation of the kernel, which tells which blocks are skipped.

    Raises SizeError for sizes or scalars that are missing.

    >>> import catdiag as cd
    >>> case = case_of(cd.library.get("matmul"), {"a": 4, "b": 8, "c": 2})
    >>> case.flops, case.bytes
    (128.0, 112.0)
    """
    diagram = diagram_of(diagram)
    reference = torch_reference(diagram)
    scalars, draws = dict(scalars or {}), draws or {}
    inputs = []
    for label, ty in zip(diagram.input_names, diagram.dom, strict=True):
        made = _array(label, ty, sizes, dtype, draws.get(label, {}))
        inputs.append(made)
        if not ty.axes and label not in scalars:
            if ty.element == "int":
                raise SizeError(f"the integer input {label} has no value: give it in scalars, as {{{label!r}: 4096}}")
            scalars[label] = 0.5
    outputs = [
        _array(f"out{k}", ty, sizes, "fp16" if dtype == "fp8" else dtype, {}) for k, ty in enumerate(diagram.cod)
    ]
    missing = [s for s in reference.sizes if s not in sizes]
    if missing:
        raise SizeError(f"the size of axis {missing[0]!r} is missing: expected it in sizes, since no input shows it")
    return BenchCase(
        name=name or diagram.title,
        group=group,
        operator=diagram.title,
        sizes=dict(sizes),
        dtype=dtype,
        inputs=tuple(inputs),
        scalars=scalars,
        outputs=tuple(outputs),
        flops=_flops(diagram, derivation, {**_integral(scalars), **sizes}),
        bytes=float(sum(a.bytes for a in (*inputs, *outputs) if a.shape)),
        text=reference.text,
        entry=reference.entry,
        keywords={name: sizes[s] for s, name in reference.sizes.items()},
        slices=reference.slices,
        starts=dict(reference.starts),
        between=tuple(dict.fromkeys((ty.names, _shape(ty, sizes)) for ty in reference.between)),
        kernels=tuple(kernels),
        peers=tuple(peers),
        refused=refused,
        rounds_to=tuple(sorted(_casts(diagram))),
    )


def _casts(diagram: Diagram) -> set[str]:
    """The element types that casts of a diagram give."""
    return {cast for box in all_boxes(diagram) if (cast := cast_dtype(box.op))}


def _integral(scalars: Mapping[str, Number]) -> dict[str, int]:
    return {name: value for name, value in scalars.items() if isinstance(value, int)}


def _array(name: str, ty: ArrayType, sizes: Mapping[str, int], dtype: str, draw: Mapping[str, Any]) -> ArraySpec:
    kind = STORED.get(ty.element, dtype)
    if ty.element == "int" and "below" not in draw:
        draw = {**draw, "below": min(sizes.values(), default=2)}
    return ArraySpec(name, ty.names, _shape(ty, sizes), ty.element, kind, **draw)


def _shape(ty: ArrayType, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(size_value(a.size, sizes) for a in ty.axes)


# -- formulas at sizes ----------------------------------------------------------------------------------------


def _flops(diagram: Diagram, derivation: HasDiagram | None, sizes: Mapping[str, int]) -> float:
    """The FLOPs of a diagram or of its derivation, whichever are fewer.

    A derivation may skip blocks, and it may compute something twice. Products of several arrays are counted in the
    order of the fewest FLOPs.
    """
    ordered = reassociated(diagram, sizes)
    direct = flops_of(diagram if ordered is None else ordered.diagram, sizes)
    return direct if derivation is None else min(direct, flops_of(derivation, sizes, diagram))


def flops_of(diagram: Diagram | HasDiagram, sizes: Mapping[str, int], source: Diagram | None = None) -> float:
    """The FLOPs of the contractions of a diagram: an addition and a multiplication are two.

    If loops skip blocks, tiles and blocks are taken to have one entry, so that exactly the entries that no tiling can
    skip are counted: q·(q+1)/2 pairs for causal attention. Blocks that depend on arrays count as run. If the FLOPs
    cannot be counted so, those of `source` are given.

    >>> import catdiag as cd
    >>> flops_of(cd.library.get("attention"), {"q": 10, "x": 20, "d": 4})
    3200.0
    """
    try:
        found: Any = io(diagram, density=1)
    except CatdiagError:
        if source is None:
            raise
        found = io(source, density=1)
    ones = {str(s): 1 for s in (*found.groups, *found.streams)}
    return evaluated(found.work.get("tensor", 0), {**sizes, **ones})


def evaluated(formula: Any, sizes: Mapping[str, int]) -> float:
    """The value of a formula at sizes; symbolic sums are evaluated.

    >>> import sympy
    >>> q, j = sympy.symbols("q j")
    >>> evaluated(sympy.Sum(j + 1, (j, 0, q - 1)), {"q": 8192}) == 8192 * 8193 / 2
    True

    Raises SizeError for a symbol without a number.
    """
    import sympy

    formula = sympy.sympify(formula)
    symbols = sorted(formula.free_symbols, key=str)
    for s in symbols:
        if str(s) not in sizes:
            raise SizeError(f"size {str(s)!r} is not given: expected a number for it")
    found = formula.subs({s: sizes[str(s)] for s in symbols}, simultaneous=True)
    return float(found if found.is_number and not found.has(sympy.Sum) else found.doit())
