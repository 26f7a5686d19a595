"""A test of a kernel against the meaning of a diagram: `assert_implements`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from catdiag.category.diagram import Diagram, HasDiagram, diagram_of
from catdiag.execute.size_inference import solve
from catdiag.rewrite.derivation import source_of
from catdiag.testing.array_literals import assignments, pasted
from catdiag.testing.concise_failures import concise
from catdiag.testing.error_bounds import CHAIN, Rounding
from catdiag.testing.float_formats import format_of, rounded
from catdiag.testing.input_generators import (
    arrays_at,
    checked_sizes,
    positions_met,
    sizes_at,
    stored_as,
    summed,
    symbols_of,
)
from catdiag.testing.kernel_under_test import Failure, Judgement, KernelUnderTest
from catdiag.testing.module_under_test import module_under_test
from catdiag.testing.shrink import Shrinker
from catdiag.util.errors import CatdiagError, SizeError, TypeMismatch

_LATE = 8
"""The size from which axes whose positions meet in a mask count as long."""
_AGAIN = 5
"""The most draws of a trial's sizes and arrays, where the diagram is not defined at them."""

Inputs = Mapping[str, "Callable[[np.random.Generator, Mapping[str, int]], Any]"]


class Mismatch(AssertionError):
    """A function that does not give what a diagram means; the text is a report.

    `.sizes` and `.arrays` (by input name) are where it fails, `.failure` is how, and `.common` says in words which
    sizes fail. `.kind`, `.expected` and `.got` are those of the failure.

    >>> import catdiag as cd
    >>> total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x"))
    >>> try:
    ...     cd.testing.assert_implements(lambda a: a.max(axis=1), total, "float64")
    ... except cd.testing.Mismatch as failed:
    ...     failed.sizes["q"]
    1
    """

    def __init__(
        self, text: str, sizes: dict[str, int], arrays: dict[str, Any], failure: Failure, common: tuple[str, ...]
    ) -> None:
        super().__init__(text)
        self.sizes, self.arrays, self.failure, self.common = sizes, arrays, failure, common

    @property
    def kind(self) -> str:
        """The kind of failure (see `catdiag.testing.kernel_under_test.Failure`)."""
        return self.failure.kind

    @property
    def expected(self) -> Any:
        """The values that the diagram means."""
        return self.failure.expected

    @property
    def got(self) -> Any:
        """The values that the function gave."""
        return self.failure.got


@dataclass(frozen=True)
class Tested:
    """The statistics of a test that passed: the numbers of trials, of trials with comparisons, and of values compared.

    `.worst` is the largest error as a share of its tolerance; `.longest` are the largest sizes.

    >>> import catdiag as cd
    >>> total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x"))
    >>> passed = cd.testing.assert_implements(lambda a: a.sum(axis=1), total, "float64", trials=20)
    >>> passed.trials, passed.worst <= 1
    (20, True)
    """

    __test__: ClassVar[bool] = False  # tells pytest that this is not a class of tests, despite its name

    trials: int
    defined: int
    compared: int
    worst: float
    longest: dict[str, int]


@concise
def assert_implements(
    function: Callable[..., Any],
    diagram: Diagram | HasDiagram,
    dtype: Any = "float32",
    *,
    sizes: Mapping[str, int | Sequence[int]] | None = None,
    block: Mapping[str, int] | None = None,
    inputs: Inputs | None = None,
    examples: Sequence[Sequence[Any]] = (),
    trials: int = 100,
    seed: int = 0,
    accumulate: Any = None,
    operands: Any = None,
    stored: Any = None,
    result: Any = None,
    chain: int | None = None,
    convert: Callable[[Any], Any] | str | None = None,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    slack: float = 1.0,
    repeats: bool = True,
) -> Tested:
    """Tests a function of arrays against a diagram's meaning, at sizes and arrays at which kernels go wrong.

    The function takes arrays in the order of the diagram's inputs, with their axes in the order of the types, and
    returns one array or a tuple. Sizes are 1, primes, and near `block` (the lengths of the kernel's own blocks, by
    size) and its multiples. `sizes` fixes some, to a number or to several to draw from. Arrays are of `dtype`
    ("float16", "bfloat16", "float32", "float64"): standard normal, large logits, ties, zeros of both signs, subnormal
    numbers, constant, one-hot, sorted, permutations, rising, all negative, with a large mean, close to one number far
    from zero, with the largest last. They have minus infinity where an input is extended, integers in range where these
    select positions, and booleans that leave whole rows empty. `inputs` draws some by name, as in `{"eps": lambda rng,
    n: 1e-5}`, where `n` are the sizes. `examples` are tried first. `functions` are those of `cd.apply`.

    The tolerance is not a setting. It is computed for each value from the diagram, at the given arrays, by running
    error analysis (`catdiag.testing.error_bounds` has the rules and their sources). The kernel may compute in a type
    `accumulate` (float32 for 16 bits, else `dtype`). Sums may be taken in any order and grouping in which an
    accumulator takes at most `chain` terms (4096), and may be rescaled as a maximum rises from block to block
    (`catdiag.testing.error_bounds.additions` says how often). Computed operands of contractions may be rounded to
    `operands` (`dtype`), intermediate arrays to `stored` (none), the results to `result` (`dtype`). Small integers are
    compared exactly. A kernel whose formula has larger errors, such as a variance from sums of squares, is measured by
    these: pass the derivation that has the formula in place of the diagram, as `layer_norm.stream("d")`. `slack`
    multiplies the tolerance. Nothing is compared where the diagram is not defined, or where its own steps overflow.

    The function also fails if it raises an error, returns other shapes or types, changes its inputs or the memory
    beside them, returns memory of its inputs, or gives different values when it is called again (every other time after
    a call on other arrays; not with `repeats=False`). Buffers from `np.empty` and `torch.empty` are filled with NaN.
    `convert` makes the function's argument from an array: a function, or "torch", "torch:cuda"; modules of PyTorch get
    tensors on their device without it, and those of a program that `cd.from_torch` imported its parameters too, in the
    place of their own: with `sizes=program.example.sizes` where a module works at these only. bfloat16 is passed as
    arrays of ml_dtypes if that is installed, else as float32 with values of bfloat16.

    Raises Mismatch, an AssertionError, with the smallest sizes and simplest arrays found to fail, as text to paste, and
    with a description of the sizes that fail. Raises SizeError for unknown sizes, and CatdiagError if fewer than a
    tenth of the trials had anything to compare: then state by `inputs` and `sizes` where the diagram is defined. The
    same `seed` draws the same.

    >>> import catdiag as cd
    >>> total = cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x"))
    >>> cd.testing.assert_implements(lambda a: a.sum(axis=1), total, trials=5).trials
    5
    """
    kernel = kernel_of(
        function, diagram, dtype, accumulate=accumulate, operands=operands, stored=stored, result=result,
        chain=chain, convert=convert, functions=functions, slack=slack, repeats=repeats,
    )  # fmt: skip
    if isinstance(trials, bool) or not isinstance(trials, int) or trials < 1:
        raise CatdiagError(f"trials is {trials!r}: expected the number of trials, at least 1")
    comparison = _comparison(kernel, sizes or {}, block or {}, dict(inputs or {}), seed)
    for example in examples:
        comparison.compare_example(example)
    for number in range(trials):
        comparison.compare_drawn(number, trials)
    if 10 * comparison.defined < trials:
        raise CatdiagError(
            f"{kernel.diagram.title or 'the diagram'} was defined at {comparison.defined} of {trials} trials, so that "
            "little was compared: state where it is defined by inputs={NAME: lambda rng, n: …} and sizes={…}"
        )
    return comparison.tested()


def _comparison(
    kernel: KernelUnderTest,
    sizes: Mapping[str, int | Sequence[int]],
    block: Mapping[str, int],
    inputs: Inputs,
    seed: int,
) -> _Comparison:
    """Raises SizeError for unknown sizes, CatdiagError for unknown inputs."""
    source = kernel.diagram
    symbols = symbols_of(source)
    fixed = checked_sizes(symbols, "sizes", sizes)
    blocks = {s: found[0] for s, found in checked_sizes(symbols, "block", block).items()}
    for name in inputs:
        if name not in source.input_names:
            raise CatdiagError(f"inputs names {name!r}: the inputs are {', '.join(source.input_names) or 'none'}")
    return _Comparison(
        kernel, symbols, fixed, blocks, inputs, seed, np.random.default_rng(seed), summed(source),
        positions_met(source), longest=dict.fromkeys(symbols, 0),
    )  # fmt: skip


@dataclass
class _Comparison:
    """A kernel's trials: how sizes and arrays are drawn, and the statistics of what has been compared so far.

    `symbols` are the diagram's sizes, `fixed` those that are given, `blocks` the lengths of the kernel's blocks,
    `reduced` the sizes of axes that are reduced, and `met` those of axes whose positions meet in a mask.
    """

    kernel: KernelUnderTest
    symbols: list[str]
    fixed: dict[str, tuple[int, ...]]
    blocks: dict[str, int]
    inputs: Inputs
    seed: int
    rng: np.random.Generator
    reduced: set[str]
    met: tuple[str, ...]
    longest: dict[str, int]
    done: int = 0
    defined: int = 0
    compared: int = 0
    worst: float = 0.0

    def compare_example(self, example: Sequence[Any]) -> None:
        """Compares at arrays that the user gave. Raises Mismatch, TypeMismatch for a wrong number of arrays."""
        source, form = self.kernel.diagram, self.kernel.result_format
        if len(example) != len(source.dom):
            raise TypeMismatch(
                f"an example has {len(example)} arrays: expected {len(source.dom)}, {', '.join(source.input_names)}"
            )
        arrays = [_example(a, ty.element, form, stored_as, rounded) for a, ty in zip(example, source.dom, strict=True)]
        judged = self.kernel.judge(arrays)
        if judged.failure is not None:
            sizes = solve(source, [a.shape for a in arrays], {})
            raise report(self.kernel, sizes, arrays, judged.failure, (), "one of the examples")
        self._count(judged)

    def compare_drawn(self, number: int, trials: int) -> None:
        """Compares at sizes and arrays that are drawn. Raises Mismatch with the smallest that are found to fail."""
        sizes, arrays, judged = self._judged(number)
        if judged is None:
            return
        if judged.failure is not None:
            looking = Shrinker(self.kernel, self.kernel.result_format, self.fixed, self.blocks, self.inputs, self.seed)
            small, simple, failure = looking.shrink(sizes, arrays, judged.failure)
            common = tuple(looking.common(small, simple, failure))
            raise report(self.kernel, small, simple, failure, common, f"trial {number} of {trials}, seed {self.seed}")
        self.done, self.defined = self.done + 1, self.defined + bool(judged.compared)
        self._count(judged)
        self.longest = {s: max(n, sizes[s]) for s, n in self.longest.items()}

    def _judged(self, number: int) -> tuple[dict[str, int], list[Any], Judgement | None]:
        """Sizes and arrays of a trial and what was found there; None where no draw was in range."""
        source, form = self.kernel.diagram, self.kernel.result_format
        judged: Judgement | None = None
        at: dict[str, int] = {}
        arrays: list[Any] = []
        for again in range(_AGAIN):
            # Reads may be out of range at some sizes, and functions undefined at some values: draw again.
            if judged is None:
                at = sizes_at(number, self.symbols, self.rng, self.fixed, self.blocks, self.reduced, self.met, again)
            late = len(self.met) > 1 and min(at[s] for s in self.met) > _LATE
            _, arrays = arrays_at(number, source, at, self.rng, form, self.inputs, again > 0 or number < 8, late)
            try:
                judged = self.kernel.judge(arrays, between=number % 2 == 1)
            except SizeError:
                continue
            if judged.compared:
                break
        return at, arrays, judged

    def _count(self, judged: Judgement) -> None:
        self.compared, self.worst = self.compared + judged.compared, max(self.worst, judged.worst)

    def tested(self) -> Tested:
        return Tested(self.done, self.defined, self.compared, self.worst, self.longest)


def kernel_of(
    function: Callable[..., Any],
    diagram: Diagram | HasDiagram,
    dtype: Any = "float32",
    *,
    accumulate: Any = None,
    operands: Any = None,
    stored: Any = None,
    result: Any = None,
    chain: int | None = None,
    **options: Any,
) -> KernelUnderTest:
    """A function, the diagram that it is compared with, and the types in which it may compute.

    Raises TypeMismatch for an unknown type, and for anything but a diagram or a derivation.
    """
    if not callable(function):
        raise TypeMismatch(f"expected a function of arrays, not {function!r}")
    function = module_under_test(function, diagram)
    form = format_of(dtype)
    computed = format_of(accumulate or ("float32" if form.digits < 24 else form.name))
    finer = np.finfo(np.longdouble).eps < np.finfo(np.float64).eps
    reference = np.dtype(np.longdouble if computed.name == "float64" and finer else np.float64)
    between = format_of(stored) if stored else None
    taken = min(form, computed, key=lambda f: f.digits).name
    if chain is not None and (isinstance(chain, bool) or not isinstance(chain, int) or chain < 2):
        raise CatdiagError(f"chain is {chain!r}: expected the most terms of one accumulator, 2 or more")
    rounding = Rounding(computed, format_of(operands or taken), reference, between, form, chain or CHAIN)
    source, derived = source_of(diagram), diagram_of(diagram)
    forms = () if derived is source else (derived,)
    hidden = getattr(getattr(diagram, "example", None), "sizes", {})
    return KernelUnderTest(function, source, rounding, form, format_of(result or form.name), forms, hidden, **options)


def _example(array: Any, element: str, form: Any, held: Any, rounded: Any) -> Any:
    kinds: dict[str, Any] = {"bool": np.bool_, "int": np.int64}
    return np.asarray(array, kinds[element]) if element in kinds else held(rounded(array, form), form)


def report(
    kernel: KernelUnderTest,
    sizes: dict[str, int],
    arrays: Sequence[Any],
    failure: Failure,
    common: tuple[str, ...],
    where: str,
) -> Mismatch:
    """The error for a failure, with everything needed to reproduce it."""
    names = kernel.diagram.input_names
    by_name = dict(zip(names, arrays, strict=True))
    rounding = kernel.rounding
    lines = [f"{kernel.name} does not implement {kernel.diagram}", failure.message]
    lines += [f"at {', '.join(f'{s}={n}' for s, n in sizes.items()) or 'these numbers'}:", assignments(by_name)]
    lines.append(f"    {kernel.name}({', '.join(names)})")
    if failure.expected is not None:
        said = ("first", "again") if failure.kind == "repeat" else ("expected", "got")
        lines += [f"{word}: {pasted(a)}" for word, a in zip(said, (failure.expected, failure.got), strict=True)]
    lines += common
    if len(common) > 1:
        lines[-1] += "; each with the other sizes as above"
    kinds = f"{kernel.result_format.name}, computed in {rounding.computed.name}"
    lines.append(f"({where}; {kinds}, operands of products in {rounding.operands.name}, "
                 f"results in {kernel.result.name}, at most {rounding.chain} terms to an accumulator)")  # fmt: skip
    return Mismatch("\n".join(line for line in lines if line), sizes, by_name, failure, common)
