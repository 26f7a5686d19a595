"""What an importer gives: a diagram, and the example that it was imported with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from catdiag.category.diagram import Diagram
from catdiag.util.errors import CatdiagError


class NotImported(CatdiagError):
    """A program that has operations without a meaning here; all of them are listed."""


class NotRun(CatdiagError):
    """What was imported has no results on some arrays: its library refuses them."""


class Result(NamedTuple):
    """A result of what was imported, as its own library computes it: numbers, of type float64 or complex128, and what
    the library's type rounds to, 0 for integers and truth values."""

    value: Any
    eps: float


Original = Callable[[Sequence[Any]], list[Result]]
"""What was imported, as a function of NumPy arrays, one for each input of its program; raises NotRun."""


@dataclass(frozen=True)
class Example:
    """The example that a program was imported with: its arrays, in the order of the program's inputs; the sizes of its
    axes, by symbol; and notes on what was read into its constants. `sources` say where each array is from: the position
    of what was passed, or the name of a parameter or a buffer. `original` runs what was imported by its own library, if
    that is known. `functions` are those of its uninterpreted boxes, on NumPy arrays. Of two programs that are compared,
    `constants` are the places of buffers and constants.
    `assume` are assumptions on sizes without which PyTorch gives no result; `gradient_stops` are operations that stop
    gradients in PyTorch, and mean nothing else: a program does not have them."""

    arrays: tuple[Any, ...]
    sizes: Mapping[str, int]
    notes: tuple[str, ...] = ()
    sources: tuple[int | str, ...] = ()
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    constants: frozenset[int] = frozenset()
    assume: tuple[str, ...] = ()
    gradient_stops: tuple[str, ...] = ()
    original: Original | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Imported:
    """A diagram, and the example."""

    diagram: Diagram
    example: Example
