"""The operators of the library as bare diagrams, by name; `catdiag.library` gives them as programs.

>>> "attention" in names()
True
>>> print(get("softmax"))
softmax: [q x] → [q x]
"""

from __future__ import annotations

from importlib import import_module

from catdiag.category.diagram import Diagram
from catdiag.util.errors import CatdiagError, require

_DEFINITIONS = "catdiag.library.definitions"
_MODULES = (
    "attention",
    "convolution",
    "embedding",
    "attention_variants",
    "linear_attention",
    "losses",
    "masked_attention",
    "matmul",
    "mlp",
    "norms",
    "moments",
    "softmax",
    "statistics",
)


def _entries() -> dict[str, tuple[Diagram, str]]:
    found: dict[str, tuple[Diagram, str]] = {}
    for module in _MODULES:
        found.update(_table(module))
    return found


def _table(module: str) -> dict[str, tuple[Diagram, str]]:
    table: dict[str, tuple[Diagram, str]] = import_module(f"{_DEFINITIONS}.{module}").DIAGRAMS
    return table


def names() -> tuple[str, ...]:
    """The names of the library's diagrams, sorted.

    >>> "attention" in names(), list(names()) == sorted(names())
    (True, True)
    """
    return tuple(sorted(_entries()))


def get(name: str) -> Diagram:
    """The diagram of that name. Raises CatdiagError, naming those that there are."""
    return _entry(name)[0]


def describe(name: str) -> str:
    """The mathematics of the diagram of that name, as text. Raises CatdiagError, naming those that there are.

    >>> print(describe("matmul").splitlines()[0])
    The product of two matrices: C[a,c] = Σ_b A[a,b] · B[b,c].
    """
    return _entry(name)[1]


def _entry(name: str) -> tuple[Diagram, str]:
    from difflib import get_close_matches

    require(isinstance(name, str), "the name of a diagram", name, "a text, such as 'matmul'")
    for module in _MODULES:  # until one has it: what the others define is not traced for it
        if found := _table(module).get(name):
            return found
    close = get_close_matches(name, names(), 1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise CatdiagError(f"the library has no diagram {name!r}: {hint}it has {', '.join(names())}")
