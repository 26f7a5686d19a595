"""Two modules of PyTorch compared: as they were imported, and, where that is not the same, as they are.

An import takes sizes for symbols, so that its theorem is for all of them, and reads some numbers as functions of sizes.
So two modules that are equal may be imported as programs that are not: one has a number that Python computed from a
length, and the other a function of the size. Where both give the same numbers on the example, weaker claims are tried:
with the least number of a type, which masks have, as minus infinity, and softplus without its threshold; with all
numbers as they are; and with the sizes of the example. What is proved says which it was.

A theorem is about the programs. So that nothing is said of modules that were read otherwise than PyTorch runs them,
both are run on the example too, and must give the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from catdiag.category.diagram import Diagram, of_graph
from catdiag.category.types import size_symbols
from catdiag.importers.torch_buffers import FromParameters, parametrized
from catdiag.importers.torch_export import from_torch_pair
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

    single: frozenset[int] = frozenset()
    """The places of inputs that are buffers or constants of one module only."""
    assume: tuple[str, ...] = ()
    """Assumptions on sizes without which PyTorch gives no result."""
    runs: Callable[[], tuple[Any, Any]] | None = field(default=None, repr=False, compare=False)
    """The results of both modules as PyTorch runs them on the example, with the same parameters."""
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
        single = one.example.single
        runs = partial(_results, first, second, example, parameters)
        assume = tuple(dict.fromkeys((*one.example.assume, *other.example.assume)))
        return ModulePair(*programs, other.example.arrays, sizes, notes, single, assume, runs, {} if ways else others)

    @property
    def at_the_example(self) -> str:
        """The sizes of the example, in words."""
        found = {name for d in (self.first, self.second) for name in _symbols(d)}
        return ", ".join(f"{name} == {n}" for name, n in self.sizes.items() if name in found)

    def agree(self, random_inputs: bool = False) -> bool:
        """Whether both give the same numbers in float64 on the arrays of the example; with `random_inputs`, on its
        buffers and constants and random real numbers for other arrays."""
        import numpy as np

        from catdiag.execute.interpreter import run

        arrays = [a.detach().cpu().double().numpy() if a.is_floating_point() else a.cpu().numpy() for a in self.arrays]
        random = np.random.Generator(np.random.PCG64(0))
        if random_inputs:
            real = [k for k, ty in enumerate(self.first.dom) if ty.element == "real" and k not in self.single]
            arrays = [random.random(a.shape) if k in real else a for k, a in enumerate(arrays)]
        try:
            found = [run(d, arrays, sizes=dict(self.sizes)) for d in (self.first, self.second)]
        except CatdiagError:
            return False
        one, other = (v if isinstance(v, tuple) else (v,) for v in found)
        # Tables in buffers are rounded to float32.
        near = {"rtol": 1e-5, "atol": 1e-6} if random_inputs else {"rtol": 1e-9, "atol": 1e-11}
        return all(np.allclose(a, b, equal_nan=True, **near) for a, b in zip(one, other, strict=True))


def _results(first: Any, second: Any, example: Sequence[Any], parameters: FromParameters | None) -> tuple[Any, Any]:
    """What both modules give on an example, where one has the parameters that are made of the other's, or those of the
    same name."""
    import torch

    modules = [deepcopy(m) if isinstance(m, torch.nn.Module) else m for m in (first, second)]
    if parameters is not None:
        modules[0] = parametrized(torch, modules[0], modules[1], parameters)
    elif all(isinstance(m, torch.nn.Module) for m in modules):
        modules[1] = parametrized(torch, modules[1], modules[0], lambda _: {})
    with torch.no_grad():
        one, other = (m(*deepcopy(list(example))) for m in modules)
    return one, other


def _differ(one: Any, other: Any) -> bool:
    """Whether results of PyTorch differ by more than is rounded."""
    import torch

    sides = [torch.utils._pytree.tree_leaves(side) for side in (one, other)]
    for a, b in zip(*sides, strict=False):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.shape == b.shape:
            types = [t.dtype for t in (a, b) if t.is_floating_point() or t.is_complex()]
            rounding = max((torch.finfo(t).eps for t in types), default=0.0) ** 0.5 * 4
            x, y = (t.detach().to(torch.complex128 if t.is_complex() else torch.float64).cpu() for t in (a, b))
            finite = x[torch.isfinite(x)].abs()
            scale = max(1.0, float(finite.max())) if finite.numel() else 1.0
            if not torch.allclose(x, y, rtol=rounding, atol=rounding * scale, equal_nan=True):
                return True
    return False


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
    theorem, notes = _proved(pair, prove, assume)
    if pair.runs is not None:
        try:
            differ = _differ(*pair.runs())
        except Exception:  # of many kinds, the user's among them: the modules were exported, which is enough
            differ = False
        if differ:
            read = "; ".join(notes) or "nothing that a note speaks of"
            raise Undecided(
                f"{pair.first.title} and {pair.second.title} are equal as they were imported, and PyTorch gives other "
                f"numbers on the example: something is read otherwise than it is run (read: {read})",
                "the results on the example",
            )
    return theorem, notes


def _proved(pair: ModulePair, prove: Proving, assume: Sequence[str]) -> tuple[Theorem, tuple[str, ...]]:
    """The theorem about two modules as they were imported."""
    try:
        return prove(pair.first, pair.second, (*assume, *pair.assume)), pair.notes
    except (Refuted, Undecided) as error:
        failure = error
    if isinstance(failure, Refuted) and pair.single and pair.agree(random_inputs=True):
        names = ", ".join(pair.first.input_names[k] for k in sorted(pair.single))
        raise Undecided(
            f"{pair.first.title} and {pair.second.title} give the same with what {names} holds, and differ where it "
            "holds other numbers: what only one of two modules has as a buffer or constant is compared as if it could "
            "be any array. Compute it in the forward pass of both, or register it in both",
            "equality for one value of a buffer",
        )
    if not pair.agree():
        raise failure
    genuine = isinstance(failure, Undecided)
    for weaker, note in _weaker(pair):
        try:
            theorem = prove(weaker.first, weaker.second, (*assume, *weaker.assume))
        except Refuted:
            genuine = genuine or not weaker.sizes
        except Undecided:
            continue
        else:
            return theorem, (*weaker.notes, note)
    if genuine:
        raise failure
    raise Undecided(
        f"{pair.first.title} and {pair.second.title} give the same on the example. As they were imported they differ "
        "at other sizes, and neither a proof nor a difference was found at the sizes of the example",
        pair.at_the_example,
    )


def _weaker(pair: ModulePair) -> Iterator[tuple[ModulePair, str]]:
    """Claims that say less, and how it is said."""
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
            yield weaker, note
