"""Two modules of PyTorch compared: as they were imported, and, where that is not the same, as they are.

An import takes sizes for symbols, so that its theorem is for all of them, and reads some numbers as functions of sizes.
So two modules that are equal may be imported as programs that are not: one has a number that Python computed from a
length, and the other a function of the size. Where both give the same numbers on the example, weaker claims are tried:
with the least number of a type, which masks have, as minus infinity, and softplus without its threshold; with all
numbers as they are; and with the sizes of the example. What is proved says which it was.

A theorem is about the programs. So that nothing is said of modules that were read otherwise than PyTorch runs them,
both are run too (`catdiag.testing.module_runs`): after a proof, on the example and others of its shapes, where they
must give the same numbers; after a refutation, on the counterexample, where they must not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from catdiag.category.diagram import Diagram, of_graph
from catdiag.category.types import size_symbols
from catdiag.importers.torch_buffers import FromParameters
from catdiag.importers.torch_export import from_torch_pair
from catdiag.prover import Refuted, Undecided
from catdiag.rewrite.matching.unify import Unifier
from catdiag.testing.module_runs import ModuleRuns
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from catdiag.prover.api import Theorem

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
    runs: ModuleRuns | None = field(default=None, repr=False, compare=False)
    """Both modules as PyTorch runs them."""
    others: Mapping[str, Callable[[], ModulePair]] = field(default_factory=dict, repr=False, compare=False)
    """The same modules read in other ways: `plain`, with no number read as a function of a size, and the lengths of
    what is read at a position; `masked`, with the least number of a type read as minus infinity, and softplus without a
    threshold; `fixed`, at the sizes of the example; and `fixed plain`, both."""

    @staticmethod
    def imported(
        first: Any, second: Any, example: Sequence[Any], parameters: FromParameters | None = None, **ways: Any
    ) -> ModulePair:
        """Two modules or functions on an example; `ways` to read them, which `others` has, and `parameters` are those
        of `catdiag.importers.torch_export.from_torch_pair`."""
        one, other = from_torch_pair(first, second, example, parameters=parameters, **ways)
        notes = tuple(dict.fromkeys((*one.example.notes, *other.example.notes)))
        sizes = {**one.example.sizes, **other.example.sizes}
        programs = one.diagram, _with_axes_of(one.diagram, other.diagram)
        again = partial(ModulePair.imported, first, second, example, parameters)
        plain = {"read_roots": False}
        others = {
            "masked": partial(again, read_least=True), "plain": partial(again, **plain),
            "fixed": partial(again, fix_sizes=True), "fixed plain": partial(again, fix_sizes=True, **plain),
        }  # fmt: skip
        constants = one.example.constants
        sources = dict(zip(programs[1].input_names, other.example.sources, strict=True))
        runs = ModuleRuns(first, second, example, parameters, sources)
        assume = tuple(dict.fromkeys((*one.example.assume, *other.example.assume)))
        return ModulePair(
            *programs, other.example.arrays, sizes, notes, constants, assume, runs, {} if ways else others
        )

    @property
    def at_the_example(self) -> str:
        """The sizes of the example, in words."""
        found = {name for d in (self.first, self.second) for name in _symbols(d)}
        return ", ".join(f"{name} == {n}" for name, n in self.sizes.items() if name in found)

    def agree(self, random_inputs: bool = False) -> bool:
        """Whether both give the same numbers in float64 on the arrays of the example; with `random_inputs`, on its
        buffers and constants, and random real numbers and truth values for other arrays."""
        import numpy as np

        if any(a.is_meta for a in self.arrays):
            return False
        arrays = [a.detach().cpu().double().numpy() if a.is_floating_point() else a.cpu().numpy() for a in self.arrays]
        if not random_inputs:
            return self._agree_on(arrays, rtol=1e-9, atol=1e-11)
        random = np.random.Generator(np.random.PCG64(0))
        free = [k for k in range(len(arrays)) if k not in self.constants]
        for draw in (random.random, random.standard_normal):
            drawn = list(arrays)
            for k in free:
                if self.first.dom[k].element in ("real", "bool"):
                    drawn[k] = draw(arrays[k].shape)
                if self.first.dom[k].element == "bool":
                    drawn[k] = drawn[k] > 0.3
            if not self._agree_on(drawn, rtol=1e-5, atol=1e-6):  # tables in buffers are rounded to float32
                return False
        return True

    def _agree_on(self, arrays: Sequence[Any], **near: float) -> bool:
        import numpy as np

        from catdiag.execute.interpreter import run

        try:
            found = [run(d, arrays, sizes=dict(self.sizes)) for d in (self.first, self.second)]
        except CatdiagError:
            return False
        one, other = (v if isinstance(v, tuple) else (v,) for v in found)
        return all(np.allclose(a, b, equal_nan=True, **near) for a, b in zip(one, other, strict=True))


def _with_axes_of(one: Diagram, other: Diagram) -> Diagram:
    """The other program with the names of the first for axes that it makes itself, where arrays come out equal: an
    import has no names for these, and makes some up."""
    from catdiag.prover.internal_equivalences import Screened, axis_names

    screened = Screened.of(one, other)
    names = {} if screened is None else axis_names(screened)
    if screened is None or not names:
        return other
    axes = {axis.name: axis for ty in screened.left.graph.wire_types() for axis in ty.axes}
    made = Unifier(axes={name: axes[own] for name, own in names.items()}).diagram(other)
    return of_graph(made.graph, other.cod, other.names, other.title)


def _symbols(diagram: Diagram) -> set[str]:
    return {name for ty in (*diagram.dom, *diagram.cod) for axis in ty.axes for name in size_symbols(axis.size)}


def prove_modules(pair: ModulePair, prove: Proving, assume: Sequence[str] = ()) -> tuple[Theorem, tuple[str, ...]]:
    """The theorem that two modules are equal, and notes on what it is about.

    Raises what `prove` does: Refuted or Undecided about the programs as they were imported. Where these differ
    at other sizes than the example's only, raises Undecided; and where PyTorch gives other numbers on the example.
    """
    try:
        theorem, notes, restricted = _proved(pair, prove, assume)
    except Refuted as error:
        if pair.runs is not None and pair.runs.agree_on(error.counterexample):
            raise Undecided(
                f"{pair.first.title} and {pair.second.title} differ as they were imported, and PyTorch gives the same "
                f"where they do, so that something is read otherwise than it is run: {error.message}",
                "the results on these numbers",
            ) from error
        raise
    others = not (restricted or assume or theorem.conditional)
    if pair.runs is not None and (pair.runs.differ_on_the_example() or (others and pair.runs.differ_on_others())):
        read = "; ".join(notes) or "nothing that a note speaks of"
        raise Undecided(
            f"{pair.first.title} and {pair.second.title} are equal as they were imported, and PyTorch gives other "
            f"numbers on the example, or on others of its shapes: something is read otherwise than it is run (read: "
            f"{read})",
            "the results on the example",
        )
    return theorem, notes


def _proved(pair: ModulePair, prove: Proving, assume: Sequence[str]) -> tuple[Theorem, tuple[str, ...], bool]:
    """The theorem about two modules as they were imported, notes, and whether it leaves rows out that are masked."""
    try:
        return prove(pair.first, pair.second, (*assume, *pair.assume)), pair.notes, False
    except (Refuted, Undecided) as error:
        failure = error
    if isinstance(failure, Refuted) and pair.constants and pair.agree(random_inputs=True):
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
            return theorem, (*weaker.notes, note), way == "masked"
    if genuine:
        raise failure
    raise Undecided(
        f"{pair.first.title} and {pair.second.title} give the same on the example. As they were imported they differ "
        "at other sizes, and neither a proof nor a difference was found at the sizes of the example",
        pair.at_the_example,
    )


def _weaker(pair: ModulePair) -> Iterator[tuple[str, ModulePair, str]]:
    """Claims that say less, by the way that they are read, and how it is said."""
    only = f"proved at the sizes of the example only, {pair.at_the_example}"
    said = {
        "masked": "it is not about rows that are masked whole, scores that low, or softplus above its threshold",
        "plain": "numbers are taken as they are, and lengths of what is read at some position: else it was not proved",
        "fixed": only,
        "fixed plain": f"{only}, with numbers as they are",
    }
    notes = {pair.notes}
    for way, note in said.items():
        weaker = pair.others[way]()
        if weaker.notes not in notes or way == "fixed":
            notes.add(weaker.notes)
            yield way, weaker, note
