"""Two modules of PyTorch compared: as they were imported, and, where that is not the same, as they are.

An import takes sizes for symbols, so that its theorem is for all of them, and reads some numbers as functions of sizes.
So two modules that are equal may be imported as programs that are not: one has a number that Python computed from a
length, and the other a function of the size. Where both give the same numbers on the example, weaker claims are tried:
with the least number of a type, which masks have, as minus infinity, and softplus without its threshold; with all
numbers as they are; and with the sizes of the example as assumptions. What is proved says which it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from catdiag.category.diagram import Diagram, of_graph
from catdiag.category.types import size_symbols
from catdiag.importers.torch_export import FromParameters, from_torch_pair
from catdiag.prover import Refuted, Undecided
from catdiag.rewrite.matching.unify import Unifier
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

    plainly: Callable[[], ModulePair] | None = field(default=None, repr=False, compare=False)
    """The same modules, with no number read as a function of a size, and the lengths of what is read at a position."""
    masked: Callable[[], ModulePair] | None = field(default=None, repr=False, compare=False)
    """The same modules, with the least number of a type read as minus infinity, and softplus without a threshold."""

    @staticmethod
    def imported(
        first: Any,
        second: Any,
        example: Sequence[Any],
        parameters: FromParameters | None = None,
        *,
        read_roots: bool = True,
        read_least: bool = False,
    ) -> ModulePair:
        """Two modules or functions on an example; see `catdiag.importers.torch_export.from_torch_pair`."""
        one, other = from_torch_pair(
            first, second, example, parameters=parameters, read_roots=read_roots, read_least=read_least
        )
        notes = tuple(dict.fromkeys((*one.example.notes, *other.example.notes)))
        sizes = {**one.example.sizes, **other.example.sizes}
        programs = one.diagram, _with_axes_of(one.diagram, other.diagram)
        again = partial(ModulePair.imported, first, second, example, parameters)
        others = [partial(again, read_roots=False), partial(again, read_least=True)]
        further = others if read_roots and not read_least else [None, None]
        return ModulePair(*programs, one.example.arrays, sizes, notes, *further)

    @property
    def at_the_example(self) -> tuple[str, ...]:
        """The sizes of the example, as assumptions."""
        found = {name for d in (self.first, self.second) for name in _symbols(d)}
        return tuple(f"{name} == {n}" for name, n in self.sizes.items() if name in found)

    def agree(self) -> bool:
        """Whether both give the same numbers on the arrays of the example, in float64."""
        import numpy as np

        from catdiag.execute.interpreter import run

        arrays = [a.detach().cpu().double().numpy() if a.is_floating_point() else a.cpu().numpy() for a in self.arrays]
        try:
            found = [run(d, arrays, sizes=dict(self.sizes)) for d in (self.first, self.second)]
        except CatdiagError:
            return False
        one, other = (v if isinstance(v, tuple) else (v,) for v in found)
        return all(np.allclose(a, b, rtol=1e-9, atol=1e-11, equal_nan=True) for a, b in zip(one, other, strict=True))


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
    at other sizes than the example's only, raises Undecided.
    """
    try:
        return prove(pair.first, pair.second, assume), pair.notes
    except (Refuted, Undecided) as error:
        if not pair.agree():
            raise
        failure = error
    genuine = isinstance(failure, Undecided)
    for weaker, sizes, note in _weaker(pair):
        try:
            theorem = prove(weaker.first, weaker.second, [*assume, *sizes])
        except Refuted:
            genuine = genuine or bool(sizes)
        except Undecided:
            continue
        else:
            return theorem, (*weaker.notes, note)
    if genuine:
        raise failure
    raise Undecided(
        f"{pair.first.title} and {pair.second.title} give the same on the example. As they were imported they differ "
        "at other sizes, and neither a proof nor a difference was found at the sizes of the example",
        "; ".join(pair.at_the_example),
    )


def _weaker(pair: ModulePair) -> Iterator[tuple[ModulePair, tuple[str, ...], str]]:
    """Claims that say less, the assumptions of each, and how it is said."""
    masked = None if pair.masked is None else pair.masked()
    if masked is not None and masked.notes != pair.notes:
        yield masked, (), "it is not about rows that are masked whole, scores that low, or softplus above its threshold"
    plain = None if pair.plainly is None else pair.plainly()
    only = f"proved at the sizes of the example only, {', '.join(pair.at_the_example)}"
    if plain is not None and plain.notes != pair.notes:
        yield (
            plain,
            (),
            "numbers are taken as they are, and lengths of what is read at some position: else it was not proved",
        )
    yield pair, pair.at_the_example, only
    if plain is not None and plain.notes != pair.notes:
        yield plain, plain.at_the_example, f"{only}, with numbers as they are"
