"""Kernels as operators of torch, so that `torch.compile` takes a program that calls them, whole.

An operator is called `catdiag::NAME_HASH`, the hash being of the module's text and of the options that it is launched
with: the same kernel has the same name in every process, and is registered once. It changes none of its inputs. Its
shapes follow from the types of the diagram, so that nothing is run to find them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from catdiag.category.types import ArrayType, show_size, size_value
from catdiag.runtime.module_cache import ModuleSource, SourceArgument, digest, needed

NAMESPACE = "catdiag"


class Launchable(Protocol):
    """A kernel of a module's text, with the options that it is launched with; called, it runs."""

    @property
    def code(self) -> ModuleSource:
        """The module, with the types of what it takes and gives."""

    @property
    def text(self) -> str:
        """The source of the module."""

    @property
    def options(self) -> Mapping[str, int]:
        """What is handed to the launch function beside the arrays."""

    def sizes(self, *arrays: Any) -> dict[str, int]:
        """The sizes that arrays show."""

    def __call__(self, *arrays: Any) -> Any:
        """Runs it."""


def name_of(compiled: Launchable) -> str:
    """The name of a kernel's operator, `NAME_HASH`."""
    options = ",".join(f"{name}={value}" for name, value in sorted(compiled.options.items()))
    return f"{compiled.code.entry}_{digest(compiled.text + chr(0) + options)}"


def schema(inputs: Sequence[SourceArgument], outputs: Sequence[SourceArgument]) -> str:
    """The types of an operator as torch writes them; arguments go by their position.

    >>> from types import SimpleNamespace as Argument
    >>> from catdiag.category.types import ArrayType, Axis
    >>> rows = Argument(name="A", ty=ArrayType((Axis("q"),)))
    >>> schema([rows, Argument(name="c", ty=ArrayType())], [rows])
    '(Tensor a0, float a1) -> Tensor'
    """
    kinds = {"int": "SymInt", "bool": "bool"}
    given = [
        f"{'Tensor' if a.ty.axes else kinds.get(a.ty.element, 'float')} a{number}" for number, a in enumerate(inputs)
    ]
    made = ["Tensor"] * len(outputs)
    return f"({', '.join(given)}) -> {made[0] if len(made) == 1 else '(' + ', '.join(made) + ')'}"


def register(compiled: Launchable) -> Any:
    """The operator of a kernel: one that is registered under its name already, or a new one.

    Raises CatdiagError where torch is not installed.
    """
    torch = needed("torch", "registering a kernel")
    name = name_of(compiled)
    known = getattr(getattr(torch.ops, NAMESPACE), name, None)
    if known is not None:
        return known.default

    def run(*arrays: Any) -> Any:
        values = [a.detach() if isinstance(a, torch.Tensor) else a for a in arrays]
        return compiled(*values)

    def shapes(*arrays: Any) -> Any:
        sizes = compiled.sizes(*arrays)
        device = next((a.device for a in arrays if isinstance(a, torch.Tensor)), None)
        made = tuple(
            torch.empty(_shape(out.ty, sizes), dtype=getattr(torch, out.dtype), device=device)
            for out in compiled.code.outputs
        )
        return made[0] if len(made) == 1 else made

    operator = torch.library.custom_op(
        f"{NAMESPACE}::{name}", run, mutates_args=(), schema=schema(compiled.code.inputs, compiled.code.outputs)
    )
    operator.register_fake(shapes)
    return getattr(getattr(torch.ops, NAMESPACE), name).default


def _shape(ty: ArrayType, sizes: dict[str, int]) -> list[Any]:
    # What no input shows in its parts, one may show as a whole.
    return [sizes.get(show_size(a.size)) or size_value(a.size, sizes) for a in ty.axes]
