"""One comparison: a diagram at sizes, with what it costs by formula and what it means as text. Plain data, as JSON.

A case needs nothing of this library to be run but PyTorch, so that it can be made where the solvers are and run where
the GPU is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from catdiag.category.diagram import Diagram, HasDiagram, diagram_of
from catdiag.category.types import BYTES, ArrayType, size_value
from catdiag.codegen.torch_reference import torch_reference
from catdiag.cost.traffic import io
from catdiag.rewrite.contraction_order import pairwise
from catdiag.util.errors import CatdiagError, SizeError

if TYPE_CHECKING:
    pass

_NARROWEST = {"int": 8, "bool": 1}
Number = int | float


@dataclass(frozen=True)
class ArraySpec:
    """An input or an output at sizes: `dtype` as hardware knows it ("bf16", "int64", "bool"), empty shape for a scalar.

    `draw` says how it is drawn: "normal", "uniform" in 0 to 1, times `scale`; integers are drawn from 0 to `below`.
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
        """How many bytes it takes."""
        return math.prod(self.shape) * BYTES.get(self.dtype, _NARROWEST.get(self.element, 4))


@dataclass(frozen=True)
class KernelSource:
    """A module with a function over tensors: its text, the function's name, and the keywords it is called with.

    Those are tiles, `num_warps` and `num_stages`. `loads` are the bytes that the formula says each edge of the memory
    carries down with these tiles, `about` is what a reader of a table should know of it.
    """

    text: str
    entry: str
    options: Mapping[str, int]
    loads: Mapping[str, float] = field(default_factory=dict)
    about: str = ""


@dataclass(frozen=True)
class BenchCase:
    """A comparison at sizes. `flops` are those of contractions, without blocks that a mask empties; `bytes` what has to
    cross memory at the least: each input read once, each output written once. `kernels` are the model's choice, then
    others that it proposes; `refused` says why there is none."""

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

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @staticmethod
    def of(data: Mapping[str, Any]) -> BenchCase:
        """The case that `as_dict` gave.

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
        found["slices"], found["peers"] = tuple(found["slices"]), tuple(found["peers"])
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
    """The comparison of a diagram at sizes, its arrays of real numbers being of `dtype` (results of fp8 are fp16).

    `scalars` are values of inputs without axes (a half where none is given; integers have to be given), `draws` say how
    inputs are drawn (fields of `ArraySpec`: draw, scale, below), `derivation` is what the kernel was made of, and says
    which blocks are left out. Raises SizeError for sizes or scalars that are missing.

    >>> import catdiag as cd
    >>> case = case_of(cd.library.get("matmul"), {"a": 4, "b": 8, "c": 2})
    >>> case.flops, case.bytes
    (128.0, 112.0)
    """
    diagram = diagram_of(diagram)
    book = torch_reference(diagram)
    scalars, draws = dict(scalars or {}), draws or {}
    inputs = []
    for label, ty in zip(diagram.input_names, diagram.dom, strict=True):
        made = _array(label, ty, sizes, dtype, draws.get(label, {}))
        inputs.append(made)
        if not ty.axes and label not in scalars:
            if ty.element == "int":
                raise SizeError(f"input {label} is one integer, and decides what is computed: give its value")
            scalars[label] = 0.5
    outputs = [
        _array(f"out{k}", ty, sizes, "fp16" if dtype == "fp8" else dtype, {}) for k, ty in enumerate(diagram.cod)
    ]
    missing = [s for s in book.sizes if s not in sizes]
    if missing:
        raise SizeError(f"the size of axis {missing[0]!r} is missing: no input shows it")
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
        text=book.text,
        entry=book.entry,
        keywords={name: sizes[s] for s, name in book.sizes.items()},
        slices=book.slices,
        starts=dict(book.starts),
        between=tuple(dict.fromkeys((ty.names, _shape(ty, sizes)) for ty in book.between)),
        kernels=tuple(kernels),
        peers=tuple(peers),
        refused=refused,
    )


def _integral(scalars: Mapping[str, Number]) -> dict[str, int]:
    return {name: value for name, value in scalars.items() if isinstance(value, int)}


def _array(name: str, ty: ArrayType, sizes: Mapping[str, int], dtype: str, draw: Mapping[str, Any]) -> ArraySpec:
    kind = {"int": "int64", "bool": "bool"}.get(ty.element, dtype)
    if ty.element == "int" and "below" not in draw:
        draw = {**draw, "below": min(sizes.values(), default=2)}
    return ArraySpec(name, ty.names, _shape(ty, sizes), ty.element, kind, **draw)


def _shape(ty: ArrayType, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(size_value(a.size, sizes) for a in ty.axes)


# -- formulas at sizes ----------------------------------------------------------------------------------------


def _flops(diagram: Diagram, derivation: HasDiagram | None, sizes: Mapping[str, int]) -> float:
    """The least that either counts: a derivation may leave blocks out, and it may compute things twice. Products of
    several arrays are counted two at a time, in the order that multiplies least."""
    whole = flops_of(pairwise(diagram, sizes), sizes)
    return whole if derivation is None else min(whole, flops_of(derivation, sizes, diagram))


def flops_of(diagram: Diagram | HasDiagram, sizes: Mapping[str, int], source: Diagram | None = None) -> float:
    """The operations of the contractions of a diagram, an addition and a multiplication being two.

    Where loops leave blocks out, with tiles and blocks of one index, so that what is counted is what no tiling can
    leave out: of causal attention q·(q+1)/2 pairs. Blocks that loops ask arrays about count as run. Where that cannot
    be counted, those of `source`.

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
    """A formula of sizes, at sizes; sums are added up.

    >>> import sympy
    >>> q, j = sympy.symbols("q j")
    >>> evaluated(sympy.Sum(j + 1, (j, 0, q - 1)), {"q": 8192}) == 8192 * 8193 / 2
    True

    Raises SizeError for a symbol that is given no number.
    """
    import sympy

    formula = sympy.sympify(formula)
    symbols = sorted(formula.free_symbols, key=str)
    for s in symbols:
        if str(s) not in sizes:
            raise SizeError(f"size {str(s)!r} is not given: expected a number for it")
    found = formula.subs({s: sizes[str(s)] for s in symbols}, simultaneous=True)
    return float(found if found.is_number and not found.has(sympy.Sum) else found.doit())
