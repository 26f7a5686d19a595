"""Two modules of PyTorch compared: as they were imported, and, where that is not the same, as they are.

An import takes sizes for symbols, so that its theorem is for all of them, and reads some numbers as functions of sizes.
So two modules that are equal may be imported as programs that are not: one has a number that Python computed from a
length, and the other a function of the size. Where both give the same numbers on the example, weaker claims are tried:
with the least number of a type, which masks have, as minus infinity, and softplus without its threshold; with all
numbers as they are; and with the sizes of the example. What is proved says which it was.

A theorem is about the programs. So that nothing is said of modules that were read otherwise than PyTorch runs them,
both are run too (`catdiag.prover.original_programs`): after a proof, on the example and others of its shapes, where
they must give the same numbers, and at other sizes; after a refutation, on the counterexample, where they must not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from catdiag.category.diagram import Diagram, of_graph
from catdiag.category.ops import SizeOf
from catdiag.category.traversal import all_diagrams
from catdiag.category.types import ArrayType, Axis, size_symbols
from catdiag.execute.interpreter import run
from catdiag.importers.torch_buffers import FromParameters, unmatched
from catdiag.importers.torch_export import from_torch_pair
from catdiag.prover import Interrupted, Refuted, Undecided
from catdiag.prover.api import Theorem, how_false, title_of
from catdiag.prover.internal_equivalences import Screened, axis_names
from catdiag.prover.original_programs import DIFFERENT, ROUNDED, OriginalPrograms
from catdiag.rewrite.matching.unify import Unifier
from catdiag.util.errors import CatdiagError

Proving = Callable[[Diagram, Diagram, Sequence[str]], "Theorem"]
"""From two diagrams and assumptions to the theorem that they are equal; raises Refuted or Undecided."""


@dataclass(frozen=True)
class ModulePair:
    """Two modules as programs of the same inputs, with the example that they were imported with."""

    first: Diagram
    second: Diagram
    arrays: tuple[Any, ...]
    sizes: Mapping[str, int]
    notes: tuple[str, ...]
    """What was read as a function of a size, and the like."""

    constants: frozenset[int] = frozenset()
    """The places of inputs that are buffers or constants, and not statistics."""
    assume: tuple[str, ...] = ()
    """Assumptions on sizes without which PyTorch gives no result."""
    runs: OriginalPrograms | None = field(default=None, repr=False, compare=False)
    """Both modules as PyTorch runs them."""
    others: Mapping[str, Callable[[], ModulePair]] = field(default_factory=dict, repr=False, compare=False)
    """The same modules read in other ways: `plain`, with no number read as a function of a size, and the lengths of
    what is read at a position; `masked`, with the least number of a type read as minus infinity, and softplus without a
    threshold; `alike`, with one size for all lengths that are equal in the example; `truth values`, with what holds
    only 0 and 1 in the example read as such; `fixed`, at the sizes of the example; `numbers fixed`, at those of them
    that numbers are made of; and several of these."""

    @staticmethod
    def imported(
        first: Any,
        second: Any,
        example: Sequence[Any],
        parameters: FromParameters | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **ways: Any,
    ) -> ModulePair:
        """Two modules or functions on an example; `ways` to read them, which `others` has, and `parameters` are those
        of `catdiag.importers.torch_export.from_torch_pair`."""
        one, other = from_torch_pair(first, second, example, kwargs, parameters, **ways)
        notes = tuple(dict.fromkeys((*one.example.notes, *other.example.notes)))
        sizes = {**one.example.sizes, **other.example.sizes}
        programs = one.diagram, with_axes_of(one.diagram, other.diagram)
        notes += () if parameters is not None else unmatched(first, second)
        again = partial(ModulePair.imported, first, second, example, parameters, kwargs)
        plain = {"read_roots": False}
        others = {
            "alike": partial(again, equal_sizes=True),
            "masked alike": partial(again, equal_sizes=True, read_least=True),
            "masked": partial(again, read_least=True), "plain": partial(again, **plain),
            "truth values": partial(again, read_masks=True),
            "masked truth values": partial(again, read_masks=True, read_least=True),
            "numbers fixed": partial(again, fix_sizes=_lengths_of_numbers(programs, sizes)),
            "masked fixed": partial(again, read_least=True, fix_sizes=True),
            "fixed": partial(again, fix_sizes=True), "fixed plain": partial(again, fix_sizes=True, **plain),
        }  # fmt: skip
        constants = one.example.constants
        runs = None
        if one.example.original is not None and other.example.original is not None:
            originals = one.example.original, other.example.original
            runs = OriginalPrograms(*originals, programs[1].dom, programs[1].input_names, other.example)
        assume = tuple(dict.fromkeys((*one.example.assume, *other.example.assume)))
        return ModulePair(
            *programs, other.example.arrays, sizes, notes, constants, assume, runs, {} if ways else others
        )

    def holds_others(self, refuted: Refuted) -> bool:
        """Whether a counterexample has other numbers in a buffer or constant than it holds, and PyTorch shows no
        difference with what it holds."""
        arrays = list(refuted.counterexample.numpy().values())
        held = [(arrays[k], self.arrays[k]) for k in self.constants]
        changed = any(b.is_meta or not np.array_equal(a, b.detach().cpu().double().numpy()) for a, b in held)
        seen = self.runs is not None and (self.runs.differ_on_the_example() or self.runs.differ_on_others())
        return changed and not seen

    @property
    def at_the_example(self) -> str:
        """The sizes of the example, in words."""
        found = {name for d in (self.first, self.second) for name in _symbols(d)}
        return ", ".join(f"{name} == {n}" for name, n in self.sizes.items() if name in found)

    @property
    def numbers_at_the_example(self) -> str:
        """The sizes of the example that numbers are made of, in words."""
        lengths = _lengths_of_numbers((self.first, self.second), self.sizes)
        found = {name for d in (self.first, self.second) for name in _symbols(d)}
        return ", ".join(f"{name} == {n}" for name, n in self.sizes.items() if name in found and n in lengths)

    def agree(self) -> bool:
        """Whether both give the same numbers in float64 on the arrays of the example."""
        if any(a.is_meta for a in self.arrays):
            return False
        arrays = [a.detach().cpu().double().numpy() if a.is_floating_point() else a.cpu().numpy() for a in self.arrays]
        return self._agree_on(arrays, rtol=1e-9, atol=1e-11)

    def _agree_on(self, arrays: Sequence[Any], **near: float) -> bool:
        try:
            found = [run(d, arrays, sizes=dict(self.sizes)) for d in (self.first, self.second)]
        except CatdiagError:
            return False
        one, other = (v if isinstance(v, tuple) else (v,) for v in found)
        return all(np.allclose(a, b, equal_nan=True, **near) for a, b in zip(one, other, strict=True))


def with_axes_of(one: Diagram, other: Diagram) -> Diagram:
    """The other program with the names of the first for axes that it makes itself, where arrays come out equal: an
    import has no names for these, and makes some up."""
    screened = Screened.of(one, other)
    names = {} if screened is None else axis_names(screened)
    if screened is None or not names:
        return other
    ours, theirs = (_axes(d.graph.wire_types()) for d in (screened.left, screened.right))
    outside = _axes((*other.dom, *other.cod))
    axes = {
        name: ours[own]
        for name, own in names.items()
        if {theirs[name].kind, ours[own].kind} == {"name"} and name not in outside
    }
    unused = (name for k in count() if (name := f"a_{k}") not in {*ours, *theirs})
    taken = {axis.name for axis in axes.values()}
    # One whose name another one gets is given an unused name.
    again = taken - axes.keys() - outside.keys()
    axes |= {name: Axis(next(unused), theirs[name].size) for name in theirs if name in again}
    atoms = Unifier(axes=axes)
    made = Unifier(axes={name: atoms.put(axis) for name, axis in theirs.items()}).diagram(other)
    return of_graph(made.graph, other.cod, other.names, other.title)


def _axes(types: Iterable[ArrayType]) -> dict[str, Axis]:
    """The axes of arrays, and the parts of these, by name."""
    found: dict[str, Axis] = {}
    left = [axis for ty in types for axis in ty.axes]
    while left:
        axis = left.pop()
        found.setdefault(axis.name, axis)
        left += axis.parts
    return found


def _symbols(diagram: Diagram) -> set[str]:
    return {name for ty in (*diagram.dom, *diagram.cod) for axis in ty.axes for name in size_symbols(axis.size)}


def _lengths_of_numbers(programs: Iterable[Diagram], sizes: Mapping[str, int]) -> frozenset[int]:
    """The lengths in the example of the sizes that programs compute with, as √d of attention."""
    nodes = (node for d in programs for part in all_diagrams(d) for node in part.graph.nodes)
    found = {name for node in nodes if isinstance(node.box.op, SizeOf) for name in size_symbols(node.box.op.size)}
    return frozenset(sizes[name] for name in found if name in sizes)


def prove_modules(pair: ModulePair, prove: Proving, assume: Sequence[str] = ()) -> tuple[Theorem, tuple[str, ...]]:
    """The theorem that two modules are equal, and notes on what it is about.

    Raises what `prove` does: Refuted or Undecided about the programs as they were imported. Where these differ
    at other sizes than the example's only, raises Undecided; and where PyTorch gives other numbers on the example.
    """
    runs = pair.runs
    try:
        theorem, notes, restricted, runs = _proved(pair, prove, assume)
    except Refuted as error:
        if runs is None:
            raise
        if runs.only_rounded(error.counterexample):
            raise Undecided(f"{error.verdict}, and {ROUNDED}", "the results on these numbers") from error
        if not runs.agree_on(error.counterexample):
            runs.require_its_integers(error)
            raise runs.with_its_run(error) from None
        if runs.differ_on_the_example() or runs.differ_on_others():
            _refute_at_the_example(pair, prove, assume)
        raise Undecided(
            f"{pair.first.title} and {pair.second.title} differ as they were imported, and PyTorch gives the same "
            f"where they do, so that {DIFFERENT}: {error.message}",
            "the results on these numbers",
        ) from error
    except (Undecided, Interrupted) as error:
        if runs is None or not runs.differ_on_the_example():
            raise
        seen = runs.difference(pair.first, pair.second)
        if seen is not None:
            raise Refuted(how_false(title_of(pair.first, pair.second), seen), seen) from None
        if isinstance(error, Interrupted):
            raise
        raise Undecided(
            f"{error.verdict}, and PyTorch gives other numbers on the example: no small counterexample was found",
            error.goal,
        ) from error
    if runs is None:
        return theorem, notes
    restricted = restricted or bool(assume) or theorem.conditional
    where = runs.contradiction(restricted)
    if where:
        read = "; ".join(notes) or "nothing that a note speaks of"
        raise Undecided(
            f"{pair.first.title} and {pair.second.title} are equal as they were imported, but {where}: {DIFFERENT} "
            f"(read: {read})",
            "the results on the example",
        )
    fixed = any(note.startswith(_ONLY) for note in notes)
    beside = runs.notes(restricted or fixed)
    found = _at_equal_lengths(pair, prove, assume) if beside and not runs.unable else None
    return found or (theorem, (*notes, *beside))


def _at_equal_lengths(
    pair: ModulePair, prove: Proving, assume: Sequence[str]
) -> tuple[Theorem, tuple[str, ...]] | None:
    """The theorem where lengths that are equal in the example are, and its notes, if PyTorch gives the same at all of
    these; else None."""
    if "alike" in pair.others and len(set(pair.sizes.values())) < len(pair.sizes):
        with suppress(CatdiagError):  # of many kinds: it may be refuted, undecided, or have no meaning
            alike = pair.others["alike"]()
            theorem = prove(alike.first, alike.second, (*assume, *alike.assume))
            if alike.runs is not None and not alike.runs.notes(restricted=theorem.conditional):
                return theorem, (*alike.notes, _ALIKE)
    return None


def _refute_at_the_example(pair: ModulePair, prove: Proving, assume: Sequence[str]) -> None:
    """Raises Refuted where two modules differ at the sizes of the example, as PyTorch runs them, too: what it computes
    from lengths is a number there."""
    if "fixed plain" not in pair.others:
        return
    fixed = pair.others["fixed plain"]()
    try:
        prove(fixed.first, fixed.second, (*assume, *fixed.assume))
    except Undecided:
        return
    except Refuted as error:
        if fixed.runs is not None and not fixed.runs.agree_on(error.counterexample):
            raise fixed.runs.with_its_run(error) from None


_ALIKE = "proved where lengths that are equal in the example are equal"
_MASKS = "it is not about masks with other numbers than 0 and 1"
_ONLY = "proved at the sizes of the example only"


_Found = tuple["Theorem", tuple[str, ...], bool, OriginalPrograms | None]


def _proved(pair: ModulePair, prove: Proving, assume: Sequence[str]) -> _Found:
    """The theorem about two modules as they were imported, notes, whether it leaves rows out that are masked, and what
    it is compared with: both modules at the sizes that the theorem is about."""
    try:
        return prove(pair.first, pair.second, (*assume, *pair.assume)), pair.notes, False, pair.runs
    except (Refuted, Undecided) as error:
        failure = error
    if isinstance(failure, Refuted) and pair.holds_others(failure):
        names = ", ".join(pair.first.input_names[k] for k in sorted(pair.constants))
        raise Undecided(
            f"{pair.first.title} and {pair.second.title} give the same with what {names} holds, and differ where it "
            "holds other numbers: a buffer or constant is compared as if it could be any array. Compute it in the "
            "forward pass of both",
            "equality for one value of a buffer",
        )
    if not pair.agree():
        raise failure
    genuine = isinstance(failure, Undecided)
    for way, weaker, note in _weaker(pair):
        try:
            theorem = prove(weaker.first, weaker.second, (*assume, *weaker.assume))
        except Refuted:
            genuine = genuine or not weaker.sizes
        except Undecided:
            continue
        else:
            runs = weaker.runs if way == "numbers fixed" or "alike" in way else pair.runs
            return theorem, (*weaker.notes, note), "masked" in way or "truth" in way, runs
    if genuine:
        raise failure
    raise Undecided(
        f"{pair.first.title} and {pair.second.title} give the same on the example. As they were imported they differ "
        "at other sizes, and neither a proof nor a difference was found at the sizes of the example",
        pair.at_the_example,
    )


def _weaker(pair: ModulePair) -> Iterator[tuple[str, ModulePair, str]]:
    """Claims that say less, by the way that they are read, and how it is said."""
    only, numbers = f"{_ONLY}, {pair.at_the_example}", pair.numbers_at_the_example
    said = {
        "masked": "it is not about rows that are masked whole, scores that low, or softplus above its threshold",
        "truth values": _MASKS,
        "masked truth values": f"{_MASKS}, nor about rows that are masked whole, or scores that low",
        "plain": "numbers are taken as they are, and lengths of what is read at some position: else it was not proved",
        "alike": _ALIKE,
        "masked alike": f"{_ALIKE}, without rows that are masked whole, or scores that low",
        "numbers fixed": f"proved where {numbers}, sizes of the example that numbers are made of",
        "fixed": only,
        "masked fixed": f"{only}, without rows that are masked whole, or scores that low",
        "fixed plain": f"{only}, with numbers as they are",
    }
    notes = {pair.notes}
    several = len(set(pair.sizes.values())) < len(pair.sizes)
    for way, note in said.items():
        if ("alike" in way and not several) or (way == "numbers fixed" and not numbers):
            continue
        try:
            weaker = pair.others[way]()
        except CatdiagError:
            # What is read otherwise may have no meaning: minus infinity is divided by nothing.
            continue
        if weaker.notes not in notes or way in ("fixed", "numbers fixed", "alike"):
            notes.add(weaker.notes)
            yield way, weaker, note
