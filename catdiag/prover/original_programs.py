"""Two imported programs run by their own libraries side by side: what was imported, against what it was read as.

A theorem, or a counterexample, is about two programs as they were imported. So that nothing false is said of modules
that were read otherwise than their library runs them, both are run: on the example, on other arrays of its shapes, at
other sizes, and on a counterexample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from catdiag.category.types import Ty, size_symbols, size_value
from catdiag.importers.example import Example, NotRun, Original, Result
from catdiag.prover.certification import statement_of
from catdiag.prover.outcomes import Refuted, Theorem, Undecided
from catdiag.prover.refute.counterexample_search import refute_at

if TYPE_CHECKING:
    from catdiag.category.diagram import Diagram
    from catdiag.prover.refute.counterexample_data import Counterexample

_VISIBLE = 1e-3
"""The least difference of two values, as a part of them, that numbers of any floating-point type show."""
_ROUNDED = 1e-12
"""Values that differ by less, as a part of them, may be one number of 64 bits that was rounded in two ways."""
_FEW_ROUNDED = 64
"""So many roundings of a number are those of few operations, as in a counterexample."""
_SMALL = 2.0**-40
"""What numbers are multiplied by to make them small."""
_LARGE = 1e4
"""From here on a number may have grown by rounding."""
_MOST_PRINTED = 4000
"""Arrays of more elements together are no counterexample that one could read."""
_MOST_SYMBOLS = 6
"""So many sizes are changed."""
_MOST_ELEMENTS = 2**20
"""Arrays of up to so many elements are made longer along all axes at once."""


@dataclass(frozen=True)
class OriginalPrograms:
    """Two imported programs of the same inputs, as their own libraries run them.

    `dom` are the types of the inputs, `names` their names, `example` has their arrays and the sizes.
    """

    first: Original
    second: Original
    dom: Ty
    names: tuple[str, ...]
    example: Example
    read: tuple[str, ...] = ()
    """How the programs were read, in words."""

    @staticmethod
    def of(first: Any, second: Any) -> OriginalPrograms | None:
        """Those of two programs that were imported; None where one was not, or its library is not called here."""
        one, other = (getattr(program, "example", None) for program in (first, second))
        if one is None or other is None or one.original is None or other.original is None or not one.arrays:
            return None
        read = tuple(dict.fromkeys((*one.notes, *other.notes)))
        return OriginalPrograms(one.original, other.original, first.dom, tuple(first.names), one, read)

    # -- verdicts --------------------------------------------------------------------------------------

    def confirmed(self, prove: Callable[[], Theorem], assumed: bool = False) -> Theorem:
        """The theorem that `prove` gives, with notes on what it is about. Raises as `prove` does, and Undecided where
        the libraries say otherwise than a theorem or a counterexample."""
        try:
            theorem = prove()
        except Refuted as error:
            if self.agree_on(error.counterexample):
                raise Undecided(f"{error.verdict}, and {DIFFERENT}", "the results on these numbers") from error
            if self.only_rounded(error.counterexample):
                raise Undecided(f"{error.verdict}, and {ROUNDED}", "the results on these numbers") from error
            self.require_its_integers(error)
            raise self.with_its_run(error) from None
        where = self.contradiction(assumed or theorem.conditional)
        if where:
            raise Undecided(f"the programs are equal as they were imported, but {where}: {DIFFERENT}", where)
        return replace(theorem, notes=(*self.read, *self.notes(assumed or theorem.conditional)))

    def contradiction(self, restricted: bool) -> str:
        """Where the results of both differ although the programs were proved equal, in words; empty where they do not.
        A theorem that is `restricted` to some inputs says nothing of other arrays than the example's."""
        if self.differ_on_the_example():
            return "their library gives other numbers on the example"
        if not restricted and self.differ_on_others():
            return "their library gives other numbers on others of its shapes"
        return ""

    def notes(self, restricted: bool) -> tuple[str, ...]:
        """What is to be said beside a theorem: that the programs were not run, or differ at other sizes."""
        if self.unable:
            return (f"neither program was compared with what it was imported from: {self.unable}",)
        at = None if restricted else self.sizes_that_differ()
        if at is None:
            return ()
        sizes, others = (", ".join(f"{s} == {n}" for s, n in found.items()) for found in (self._varied, at))
        return (
            f"of what was imported it is proved at the sizes of the example only, {sizes}: at {others} the library "
            "gives other numbers, since numbers that were made of lengths, or parts, are read as functions of sizes",
        )

    def with_its_run(self, error: Refuted) -> Refuted:
        """A refutation that says so where the library does not run both programs on the counterexample."""
        why = self._why_not_run(error.counterexample)
        if not why or self.differ_on_the_example():
            return error
        said = f"{error.verdict}, as it was imported (its library was not compared: {why})"
        return Refuted(said, error.counterexample)

    def require_its_integers(self, error: Refuted) -> None:
        """Raises Undecided where a counterexample has an integer that the libraries take nowhere, such as a class that
        there is not, and no difference is seen where they run."""
        why = self._integers_not_taken(error.counterexample)
        if why and not self.differ_on_the_example() and not self.differ_on_others():
            raise Undecided(
                f"{error.verdict} only as it was imported: {why}", "the results on these numbers"
            ) from error

    def _integers_not_taken(self, found: Counterexample) -> str:
        """Which integer of a counterexample is none that the libraries take, on arrays of the example that hold
        nothing else; empty where all are."""
        import numpy as np

        if self.unable:
            return ""
        placed = self._placed(found)
        for k in self._passed():
            if self._arrays[k].dtype.kind not in "iu" or not self._arrays[k].size:
                continue
            for value in np.unique(placed[k]).astype(np.int64).tolist()[:_MOST_SYMBOLS]:
                try:
                    self._run([np.full_like(a, value) if j == k else a for j, a in enumerate(self._arrays)])
                except NotRun as error:
                    return f"{self.names[k]} is {value} there, and the library says {error.message}"
        return ""

    def difference(self, left: Diagram, right: Diagram) -> Counterexample | None:
        """Numbers like those of the example on which both the programs, as they were imported, and what the libraries
        give differ; None where there are none, or the arrays are large."""
        if sum(a.size for a in self._arrays) > _MOST_PRINTED:
            return None
        statement = statement_of(left, right, ())
        for parts in (1, 2, 64):
            arrays = [_rounded(a, parts) if a.dtype.kind == "f" else a for a in self._arrays]
            found = refute_at(statement, self.example.sizes, arrays) if self._differ(arrays) else None
            if found is not None and not self.agree_on(found):
                return found
        return None

    # -- runs ------------------------------------------------------------------------------------------

    @cached_property
    def unable(self) -> str:
        """Why both cannot be run on the example; empty where they can."""
        try:
            self._run(self._arrays)
        except NotRun as error:
            return error.message
        return ""

    def differ_on_the_example(self) -> bool:
        """Whether results on the example differ by more than is rounded. False where they cannot be run."""
        return self._differ(self._arrays)

    def differ_on_others(self) -> bool:
        """Whether results differ on other arrays of the example's shapes: with ties, zeros, truth values that are all
        alike, and integers that count from the end. What is no number in the first one's results is left out, and so
        are arrays that either does not take."""
        return any(self._differ(arrays, finite=True) for arrays in self._others())

    def sizes_that_differ(self) -> Mapping[str, int] | None:
        """Sizes of what is passed in at which results differ; None where none were found."""
        import numpy as np

        random = np.random.Generator(np.random.PCG64(0))
        for sizes in self._other_sizes():
            arrays = [_drawn(random, a, shape) for a, shape in zip(self._arrays, self._shapes(sizes), strict=True)]
            if self._differ(arrays, finite=True):
                return {s: sizes[s] for s in self._varied}
        return None

    def agree_on(self, found: Counterexample) -> bool:
        """Whether both give the same numbers on a counterexample whose values are further apart than is rounded. False
        where they cannot be run, and where functions are interpreted, which are others than the library's."""
        left, right = (None if v is None else float(v) for v in (found.lhs, found.rhs))
        if (
            found.functions
            or left is None
            or (right is not None and abs(left - right) <= _VISIBLE * max(1.0, abs(left), abs(right)))
        ):
            return False
        try:
            one, other = self._run(self._placed(found))
        except NotRun:
            return False
        if _differ(one, other) or (right is not None and _are_apart(one, other, abs(left - right) / 2)):
            return False
        return not _has_no_number(one)

    def only_rounded(self, found: Counterexample) -> bool:
        """Whether the values of a counterexample differ by less than 64-bit numbers are rounded, and the libraries give
        the same wherever they are run, also on small numbers, beside which one like 1e-12 counts: a constant of one
        program, such as half of π, is a rounded one."""
        left, right = (None if v is None else float(v) for v in (found.lhs, found.rhs))
        if left is None or right is None or abs(left - right) > _ROUNDED * max(abs(left), abs(right)):
            return False
        if self.unable or self.differ_on_the_example() or self.differ_on_others():
            return False
        small = [_SMALL * a if k in self._passed() and a.dtype.kind == "f" else a for k, a in enumerate(self._arrays)]
        return not self._differ(small, finite=True)

    def _why_not_run(self, found: Counterexample) -> str:
        try:
            self._run(self._placed(found))
        except NotRun as error:
            return error.message
        return ""

    def _placed(self, found: Counterexample) -> list[Any]:
        """The arrays of a counterexample, in the order of the inputs."""
        by_name = found.numpy()
        return [by_name.get(name, array) for name, array in zip(self.names, self._arrays, strict=True)]

    def _run(self, arrays: Sequence[Any]) -> tuple[list[Result], list[Result]]:
        return self.first(arrays), self.second(arrays)

    def _differ(self, arrays: Sequence[Any], finite: bool = False) -> bool:
        try:
            one, other = self._run(arrays)
        except NotRun:
            return False
        return _differ(one, other, finite)

    # -- arrays ----------------------------------------------------------------------------------------

    @cached_property
    def _arrays(self) -> list[Any]:
        """The arrays of the example, for NumPy; empty ones where they have no numbers."""
        return [_numpy(a) for a in self.example.arrays]

    def _passed(self) -> list[int]:
        """The places of inputs that are passed in, and no parameters."""
        return [k for k, source in enumerate(self.example.sources) if isinstance(source, int)]

    def _others(self) -> Iterator[list[Any]]:
        """Other arrays of the same shapes. Real numbers that are all positive stay so."""
        import numpy as np

        def changed(real: Callable[[Any], Any], truth: bool, whole: Callable[[Any], Any]) -> list[Any]:
            arrays = list(self._arrays)
            for k in self._passed():
                kind = arrays[k].dtype.kind
                if arrays[k].size:
                    arrays[k] = (
                        np.full_like(arrays[k], truth) if kind == "b" else (real if kind == "f" else whole)(arrays[k])
                    )
            return arrays

        def with_ties(a: Any) -> Any:
            halves = np.round(2 * a) / 2
            return halves + 0.5 if (a > 0).all() else halves

        yield changed(with_ties, False, lambda a: a)
        yield changed(lambda a: a if (a > 0).all() else np.zeros_like(a), True, lambda a: a)
        yield changed(np.flip, True, lambda a: -1 - a)
        yield changed(lambda a: a, True, lambda a: -a)

    @cached_property
    def _varied(self) -> dict[str, int]:
        """The sizes, by symbol, of what is passed in alone: the shapes of parameters stay."""
        passed = set(self._passed())
        symbols: tuple[set[str], set[str]] = set(), set()
        for k, ty in enumerate(self.dom):
            symbols[k in passed].update(s for axis in ty.axes for s in size_symbols(axis.size))
        free = sorted(symbols[True] - symbols[False])
        return {s: self.example.sizes[s] for s in free if s in self.example.sizes}

    def _other_sizes(self) -> Iterator[Mapping[str, int]]:
        """Other sizes than the example's: longer ones, all of them or one, then a single element along one axis."""
        known, varied = dict(self.example.sizes), list(self._varied.items())[:_MOST_SYMBOLS]
        if varied and sum(a.size for a in self._arrays) <= _MOST_ELEMENTS:
            yield {**known, **{s: 2 * n + 1 + k % 3 for k, (s, n) in enumerate(varied)}}
        for change in (lambda n: n + 1, lambda n: 1):
            for symbol, n in varied:
                if not (change(n) == 1 and self.example.assume):
                    yield {**known, symbol: change(n)}

    def _shapes(self, sizes: Mapping[str, int]) -> list[tuple[int, ...]]:
        return [tuple(size_value(axis.size, sizes) for axis in ty.axes) for ty in self.dom]


def _rounded(array: Any, parts: int) -> Any:
    """Real numbers rounded to whole parts of 1, of which positive ones stay so."""
    import numpy as np

    found = np.round(array * parts) / parts
    return np.where((array > 0) & (found == 0), 1 / parts, found)


ROUNDED = (
    "they differ there by less than 64-bit numbers are rounded, and nowhere else that their library was run: numbers "
    "are taken as they are written, 1.5707963267948966 for half of π"
)
DIFFERENT = "something is read otherwise than it is run"


def _numpy(array: Any) -> Any:
    """An array of an example, of another library or of NumPy, with its numbers; of zeros where it has none."""
    import numpy as np

    if getattr(array, "is_meta", False):
        return np.zeros(tuple(array.shape))
    if hasattr(array, "detach"):
        array = array.detach().cpu()
        return (array.double() if array.is_floating_point() else array).numpy()
    found = np.asarray(array)
    return found.astype(np.float64) if found.dtype.kind not in "biu" else found


def _drawn(random: Any, like: Any, shape: tuple[int, ...]) -> Any:
    """An array of another shape: real numbers of the signs that `like` has, integers that occur in it, and truth values
    of which the first of a row is true. The same array for the same shape, if it has no axis that changes."""
    import numpy as np

    if like.shape == shape or not like.size:
        return like
    if like.dtype.kind == "b":
        found = random.random(shape) > 0.3
        found[..., 0] = True
        return found
    if like.dtype.kind != "f":
        return random.choice(like.reshape(-1), shape)
    drawn = random.standard_normal(shape)
    return np.abs(drawn) + 0.1 if (like > 0).all() else drawn


def _differ(one: Sequence[Result], other: Sequence[Result], finite: bool = False) -> bool:
    """Whether results differ by more than is rounded; with `finite`, where those of the first are numbers and not so
    large that they may have grown by rounding."""
    import numpy as np

    for a, b in zip(one, other, strict=False):  # one may give more, such as None and what it saves
        if a.value.shape != b.value.shape:
            return True
        rounding = max(a.eps, b.eps) ** 0.5 * 4
        x, y = a.value, b.value
        if finite:
            here = np.isfinite(x) & (np.abs(x) < _LARGE)
            x, y = x[here], y[here]
        known = np.abs(x[np.isfinite(x)])
        scale = max(1.0, float(known.max())) if known.size else 1.0
        if not np.allclose(x, y, rtol=rounding, atol=rounding * scale, equal_nan=True):
            return True
    return False


def _are_apart(one: Sequence[Result], other: Sequence[Result], least: float) -> bool:
    """Whether results differ by so much somewhere, which is more than few operations round."""
    import numpy as np

    for a, b in zip(one, other, strict=False):
        scale = max(1.0, float(np.abs(a.value).max())) if a.value.size else 1.0
        if least > _FEW_ROUNDED * max(a.eps, b.eps) * scale and (np.abs(a.value - b.value) >= least).any():
            return True
    return False


def _has_no_number(results: Sequence[Result]) -> bool:
    """Whether some result is NaN or infinite."""
    import numpy as np

    return any(not np.isfinite(r.value).all() for r in results)
