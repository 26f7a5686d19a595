"""What the sweep runs: every operator of the library, and sums of columns and gradients of norms, at lengths of several
kinds, in several types and layouts.

Lengths are by the name of the axis, with those of some operators given. Of the kinds, `large` is worth timing, `even`
are powers of two, `ragged` has inner axes of which rows are multiples of 16 bytes and others that no tile divides, in
`odd` nothing is a multiple of anything, and `tiny` is for the interpreter.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import catdiag as cd
from catdiag.category.diagram import Diagram, diagram_of
from catdiag.category.types import size_symbols
from catdiag.codegen.torch_reference import torch_reference
from catdiag.measure.bench import raised, reason
from catdiag.measure.bench_case import BenchCase, case_of
from catdiag.measure.bench_kernels import kernel_of
from catdiag.measure.output_check import TORCH
from catdiag.util.errors import CatdiagError

LIBRARY, RANDOM = "library", "random"
KINDS = ("large", "even", "ragged", "odd", "tiny")
CONTIGUOUS, STRIDED = "contiguous", "strided"
PLANS: tuple[tuple[str, str, str], ...] = (
    ("large", "bf16", CONTIGUOUS), ("odd", "bf16", STRIDED), ("ragged", "bf16", CONTIGUOUS),
    ("odd", "fp32", CONTIGUOUS), ("ragged", "fp8", CONTIGUOUS), ("ragged", "fp16", STRIDED),
    ("ragged", "fp32", STRIDED), ("odd", "fp16", CONTIGUOUS), ("odd", "fp8", STRIDED), ("even", "fp32", CONTIGUOUS),
    ("even", "fp16", STRIDED), ("even", "fp8", CONTIGUOUS),
)  # fmt: skip
"""Kinds of lengths, types and layouts of each operator, what matters most first; the large ones are timed."""

_LENGTHS: Mapping[str, tuple[int, int, int, int, int]] = {
    "q": (8192, 512, 203, 203, 5), "x": (8192, 1024, 331, 331, 7), "d": (128, 64, 64, 77, 4),
    "v": (128, 64, 80, 45, 3), "t": (4096, 512, 203, 101, 5), "f": (4096, 512, 176, 157, 6),
    "o": (2048, 256, 144, 91, 4), "e": (8, 8, 8, 5, 3), "h": (16, 4, 3, 3, 2), "b": (4, 2, 2, 2, 2),
    "k": (8, 2, 2, 3, 2), "r": (4, 4, 3, 5, 2), "c": (512, 128, 64, 37, 3), "m": (128, 64, 48, 33, 3),
    "n": (16, 4, 3, 3, 2), "i": (8192, 512, 203, 203, 5), "j": (8192, 1024, 331, 331, 7),
    "a": (4096, 512, 203, 199, 5),
}  # fmt: skip
"""Of each axis the lengths of the kinds, in their order."""

_ROWS = {"q": (4096, 512, 203, 203, 5), "x": (16_384, 1024, 336, 331, 7)}
_HEADS = {"q": (2048, 256, 203, 101, 5), "x": (2048, 512, 331, 151, 7)}
_CONVOLVED = {"n": (16, 4, 3, 3, 1), "c": (64, 32, 32, 13, 2), "o": (128, 64, 48, 21, 3)}
_PLANE = {"h": (66, 34, 23, 23, 6), "w": (66, 18, 19, 19, 5), "i": (3, 3, 3, 3, 3), "j": (3, 3, 3, 2, 2),
          "y": (64, 32, 21, 21, 4), "x": (64, 16, 17, 18, 4)}  # fmt: skip
_POOLED = {"h": (128, 64, 46, 38, 4), "w": (128, 32, 34, 26, 6), "y": (64, 32, 23, 19, 2), "x": (64, 16, 17, 13, 3),
           "n": (32, 4, 3, 3, 2), "c": (128, 64, 48, 21, 3)}  # fmt: skip
_LINE = {**_CONVOLVED, "x": (4098, 514, 205, 203, 7), "y": (4096, 512, 203, 201, 5), "k": (3, 3, 3, 3, 3)}
_LAYER = {"d": (2048, 256, 144, 77, 4)}
_WORDS = {"v": (32_768, 2048, 1003, 1003, 9), "d": (1024, 256, 144, 77, 4), "e": (1024, 256, 144, 77, 4)}
_COLUMNS = {"t": (65_536, 4096, 4099, 4133, 5), "d": (1024, 512, 1008, 1003, 4)}
_OWN: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(
        ("correlation", "cosine_similarity", "covariance", "largest_probability", "log_sum_exp", "masked_mean", "mean",
         "participation", "softmax", "softmax_contraction", "softmax_entropy", "softmax_index", "sum_of_squares",
         "top_1", "variance"), _ROWS),
    **dict.fromkeys(("multi_head_attention", "multi_query_attention", "grouped_query_attention",
                     "causal_grouped_query_attention", "multi_head_alibi_attention", "gated_attention"), _HEADS),
    **dict.fromkeys(("layer_norm", "layer_norm_linear", "l2_norm_linear", "rms_norm", "rms_norm_linear",
                     "rms_norm_gate_and_up", "gated_mlp", "gelu_gated_mlp", "mlp", "lora"), _LAYER),
    **dict.fromkeys(("cross_entropy", "embedding", "kl_divergence", "linear_cross_entropy", "soft_cross_entropy",
                     "linear_cross_entropy_ignoring", "linear_cross_entropy_smoothed", "linear_distillation",
                     "softmax_entropy"), _WORDS),
    "average_pool": _POOLED, "max_pool": _POOLED, "conv2d": {**_CONVOLVED, **_PLANE}, "conv1d": _LINE, "im2col": _LINE,
    "decoding_attention": {"x": (8192, 1024, 331, 331, 7), "b": (8, 2, 2, 2, 2), "k": (8, 2, 3, 3, 2)},
    "dot": {"x": (2**24, 2**16, 100_003, 100_003, 7)},
    "expert_mlps": {"t": (512, 128, 101, 101, 5), "d": (1024, 256, 144, 77, 4), "f": (2048, 256, 176, 57, 6),
                    "o": (1024, 256, 144, 91, 4)},
    "mixture_of_experts": {"t": (1024, 128, 101, 101, 5), "d": (512, 128, 80, 77, 4), "f": (1024, 256, 176, 57, 6),
                           "o": (512, 128, 80, 91, 4)},
    "latent_attention": {"q": (64, 32, 19, 19, 3), "h": (16, 16, 5, 5, 2), "r": (64, 32, 16, 13, 2),
                         "c": (512, 128, 80, 37, 3)},
    "multi_head_latent_attention": {"q": (1024, 128, 75, 75, 3), "x": (1024, 256, 101, 101, 7),
                                    "r": (64, 32, 16, 13, 2), "c": (512, 128, 80, 37, 3)},
    "lora": {**_LAYER, "r": (16, 16, 16, 5, 2)},
    "matmul": dict.fromkeys("abc", (4096, 512, 328, 199, 5)),
    "matvec": {"a": (8192, 512, 203, 199, 5), "b": (8192, 1024, 336, 331, 7)},
    "normalised_contraction": {"q": (4096, 512, 203, 203, 5), "x": (4096, 1024, 336, 331, 7)},
    "softmax_moments": {"q": (4096, 512, 203, 203, 5), "x": (4096, 1024, 336, 331, 7)},
    "relative_position_attention": {"r": (257, 64, 33, 33, 5)},
    "rotary_attention": {"r": (64, 32, 32, 19, 2)},
    "rotary_embedding": {"x": (32_768, 512, 203, 203, 5), "d": (64, 32, 16, 19, 2)},
    "top_1_routing": {"d": (2048, 256, 144, 77, 4), "e": (64, 16, 8, 5, 3)},
    **dict.fromkeys(("column_sums", "column_moments", "bias_gradient", "softmax_and_sums", "rms_norm_gradient",
                     "layer_norm_gradient"), _COLUMNS),
}  # fmt: skip

_SCALARS: Mapping[str, float] = {"eps": 1e-5, "heat": 0.5, "cap": 20.0, "c": 0.3, "slope": 0.05, "z": 0.01,
                                 "share": 0.1, "g": 4.0}  # fmt: skip
_PARTS = {"start": (1, 2), "length": (3, 4), "prefix": (1, 4), "width": (1, 8), "first": (1, 64)}
"""Integers that are so much of the keys."""
_WEIGHTS = {"W", "U", "G", "A", "B", "R", "f", "w", "P"}
"""Inputs that are drawn smaller in layers, so that their results are about 1."""


NAMES = {torch: name for name, torch in TORCH.items() if name != "tf32"}
"""Element types by torch's names."""


def _program(signature: str, body: Callable[..., Any]) -> Callable[[], Diagram]:
    return lambda: diagram_of(cd.algorithm(signature)(body))


def _gradient(name: str) -> Callable[[], Diagram]:
    return lambda: diagram_of(cd.Program(cd.library.get(name)).grad())


SUMS: Mapping[str, Callable[[], Diagram]] = {
    "column_sums": _program("t d -> d", lambda X: cd.sum(X, "t")),
    "column_moments": _program("t d -> d, d", lambda X: (cd.mean(X, "t"), cd.mean(X * X, "t"))),
    "bias_gradient": _program("t d, t d -> d", lambda G, A: cd.sum(G * cd.nn.silu(A), "t")),
    "softmax_and_sums": _program("t d -> t d, d", lambda A: (cd.softmax(A, "d"), cd.sum(cd.softmax(A, "d"), "t"))),
    "rms_norm_gradient": _gradient("rms_norm"),
    "layer_norm_gradient": _gradient("layer_norm"),
}
"""Programs beside the library whose groups add to results that they share
(`catdiag.codegen.triton.tile_runs`)."""


def names() -> list[str]:
    """What is swept, by name."""
    return [*cd.library.names(), *SUMS]


def operator(name: str) -> Diagram:
    """What a name of `names` means."""
    return SUMS[name]() if name in SUMS else diagram_of(cd.library.get(name))


@dataclass(frozen=True)
class Swept:
    """A case of the sweep: the comparison, what is asked of its lengths and layouts, and whether it is timed."""

    case: BenchCase
    kind: str
    layout: str
    timed: bool

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"case": self.case.as_dict(), "kind": self.kind, "layout": self.layout, "timed": self.timed}

    @staticmethod
    def of(data: Mapping[str, Any]) -> Swept:
        """What `as_dict` gave."""
        return Swept(BenchCase.of(data["case"]), data["kind"], data["layout"], data["timed"])


def symbols(diagram: Diagram) -> list[str]:
    """The sizes of a diagram's inputs and results, in order."""
    found: dict[str, None] = {}
    for ty in (*diagram.dom, *diagram.cod):
        for axis in ty.axes:
            found.update(dict.fromkeys(sorted(size_symbols(axis.size))))
    return list(found)


def lengths(name: str, diagram: Diagram, kind: str) -> dict[str, int]:
    """The sizes of an operator."""
    own = _OWN.get(name, {})
    return {s: own.get(s, _LENGTHS.get(s, (64, 64, 40, 19, 3)))[KINDS.index(kind)] for s in symbols(diagram)}


def scalars(name: str, diagram: Diagram, sizes: Mapping[str, int]) -> dict[str, float]:
    """Values of the inputs without axes."""
    keys = sizes.get("x", 8)
    found: dict[str, float] = {}
    for label, ty in zip(diagram_of(diagram).input_names, diagram.dom, strict=True):
        if ty.axes:
            continue
        if ty.element == "int":
            up, down = _PARTS.get(label, (0, 1))
            found[label] = max(1, keys * up // down) if up else 0
        elif label == "s":
            found[label] = 0.05 if name == "latent_attention" else 0.5
        else:
            found[label] = 8.0 if label == "width" else _SCALARS.get(label, 0.5)
    return found


def draws(name: str, diagram: Diagram, sizes: Mapping[str, int]) -> dict[str, dict[str, Any]]:
    """How the inputs are drawn, where not from a normal distribution."""
    found: dict[str, dict[str, Any]] = {}
    tokens = any("t" in ty.names for ty in diagram.dom) or name in ("conv1d", "conv2d", "im2col")
    for label, ty in zip(diagram_of(diagram).input_names, diagram.dom, strict=True):
        if ty.element == "int" and ty.axes:
            found[label] = {"below": 4 if label.startswith("of_") else sizes.get("v", 4)}
        elif tokens and label in _WEIGHTS and len(ty.axes) > 1:
            within = [n for n in ty.names if n not in {m for out in diagram.cod for m in out.names}]
            total = 1
            for n in within:
                total *= sizes.get(n, 1)
            found[label] = {"scale": total**-0.5}
    if name == "normalised_contraction":
        found["W"] = {"draw": "uniform"}
    if name == "random_feature_attention":
        found |= {"Q": {"scale": 0.3}, "K": {"scale": 0.3}}
    if name == "multi_head_latent_attention":
        found |= {label: {"scale": sizes["c"] ** -0.5} for label in "WU"}
    if name == "multi_head_alibi_attention":
        found["slope"] = {"draw": "uniform", "scale": 0.2}
    return found


class Deriving:
    """The cases of a chip, with the kernels that are planned there."""

    def __init__(self, chip: str = "H200") -> None:
        self.chip = chip

    def swept(self, name: str, kind: str, dtype: str, layout: str, timed: bool) -> Swept:
        """An operator by its name; without a kernel, and with the reason, where none can be made.

        The kernels are those of `Program.plan`, which is what users get.
        """
        diagram = operator(name)
        sizes = lengths(name, diagram, kind)
        values = scalars(name, diagram, sizes)
        title = f"{name}, {kind}, {dtype}, {layout}"
        drawn = draws(name, diagram, sizes)
        made = self._case(diagram, sizes, values, drawn, dtype, title, LIBRARY)
        return Swept(made, kind, layout, timed)

    def _case(
        self,
        diagram: Diagram,
        sizes: Mapping[str, int],
        values: Mapping[str, float],
        drawn: Mapping[str, Mapping[str, Any]],
        dtype: str,
        title: str,
        group: str,
    ) -> BenchCase:
        known = {**sizes, **{n: v for n, v in values.items() if isinstance(v, int) and v > 0}}  # trip counts
        kernels, refused, kinds = [], "", list[str]()
        try:
            plan = cd.Program(diagram).plan(self.chip, known, dtype=dtype)
            kernels = [kernel_of(plan)]
            kinds = [NAMES[array.dtype] for array in plan.written().outputs]
        except raised() as error:
            refused = reason(error)
        case = case_of(diagram, sizes, dtype, scalars=values, draws=drawn, name=title, group=group, kernels=kernels,
                       refused=refused)  # fmt: skip
        outputs = (replace(a, dtype=k) for a, k in zip(case.outputs, kinds, strict=True)) if kinds else ()
        return replace(case, outputs=tuple(outputs) or case.outputs)  # statistics are wider than other results

    def chance(self, count: int, seed: int = 0) -> Iterator[Swept]:
        """Random programs, each in a form that was drawn too: what cannot be grouped or streamed is left out."""
        for number, (program, rng) in enumerate(programs(count, seed)):
            sizes = {s: rng.choice((1, 3, 16, 33, 64, 100)) for s in symbols(program)}
            dtype, layout = rng.choice(("fp32", "fp32", "bf16", "fp16")), rng.choice((CONTIGUOUS, STRIDED))
            given = list(zip(program.input_names, program.dom, strict=True))
            drawn = {n: {"draw": "uniform"} for n, ty in given if ty.axes and ty.element not in ("int", "bool")}
            values = {n: 2 if ty.element == "int" else 0.5 for n, ty in given if not ty.axes}
            title = f"program {number} of seed {seed}, {dtype}, {layout}"
            with suppress(CatdiagError):
                case = self._case(program, sizes, values, drawn, dtype, title, RANDOM)
                if not torch_reference(program).functions:
                    yield Swept(case, "random", layout, False)


def programs(count: int, seed: int) -> list[tuple[Diagram, random.Random]]:
    """Random programs with axes, by hypothesis, each with a generator of its own."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded

    from catdiag.testing.strategies.kernel_programs import cascades, einsums

    found: list[tuple[Diagram, random.Random]] = []

    @seeded(seed)
    @settings(max_examples=count, deadline=None, database=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(einsums() | cascades() | cd.testing.diagrams())
    def collect(program: Diagram) -> None:
        if any(ty.axes for ty in program.dom):
            found.append((program, random.Random(f"{seed}/{len(found)}")))

    collect()
    return found[:count]


def of_operator(name: str, plans: Sequence[tuple[str, str, str]], chip: str) -> list[Swept]:
    """All cases of an operator."""
    make = Deriving(chip)
    found = []
    for kind, dtype, layout in plans:
        start = time.process_time()
        found.append(make.swept(name, kind, dtype, layout, kind == "large"))
        case = found[-1].case
        said = case.kernels[0].about if case.kernels else f"no kernel: {case.refused[:200]}"
        print(f"{time.process_time() - start:5.1f} s  {case.name}: {said}", flush=True)
    return found


def by_chance(seed: int, count: int, chip: str) -> list[Swept]:
    """Random programs of a seed."""
    return list(Deriving(chip).chance(count, seed))
