"""Kernels as custom operators of torch, so that `torch.compile` compiles programs that call them without graph breaks.

The name of an operator is `catdiag::NAME_HASH`, with the hash of the module's text and of its launch options. So a
kernel has the same name in every process, and is registered once. It mutates none of its inputs. The shapes of its
results follow from the types of the diagram, without a run (fake tensors).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from catdiag.category.types import ArrayType, show, size_value
from catdiag.runtime.autograd import register_backward, register_no_backward
from catdiag.runtime.module_cache import ModuleSource, SourceArgument, digest, needed

if TYPE_CHECKING:
    from catdiag.rewrite.differentiate.forward_and_backward import ForwardAndBackward

NAMESPACE = "catdiag"


class Launchable(Protocol):
    """A kernel of a generated module with its launch options; a call runs it."""

    @property
    def code(self) -> ModuleSource:
        """The module, with the types of its inputs and outputs."""

    @property
    def text(self) -> str:
        """The source of the module."""

    @property
    def options(self) -> Mapping[str, int]:
        """The keyword arguments of the launch function."""

    @property
    def functions(self) -> Mapping[str, Callable[..., Any]]:
        """The functions of uninterpreted boxes."""

    @property
    def graph(self) -> bool:
        """Whether calls replay a CUDA graph."""

    def sizes(self, *arrays: Any) -> dict[str, int]:
        """The sizes that the shapes of arrays determine."""

    def execute(self, *arrays: Any) -> Any:
        """Runs the kernel on tensors and numbers, whatever is differentiated by them."""


def name_of(compiled: Launchable, further: str = "") -> str:
    """The name of a kernel's operator, `NAME_HASH`; `further` tells operators of the same kernel apart."""
    options = ",".join(f"{name}={value}" for name, value in sorted(compiled.options.items()))
    options += ",graph" if compiled.graph else ""
    # Functions have no text: an operator of others is another one. It keeps them alive, so that no id comes again.
    options += "".join(f",{name}={id(function)}" for name, function in sorted(compiled.functions.items()))
    return f"{compiled.code.entry}_{digest(chr(0).join((compiled.text, options, *([further] if further else []))))}"


def schema(inputs: Sequence[SourceArgument], outputs: Sequence[SourceArgument]) -> str:
    """The schema of an operator in torch's notation; arguments are positional.

    >>> from types import SimpleNamespace as Argument
    >>> from catdiag.category.types import ArrayType, Axis
    >>> rows = Argument(name="A", ty=ArrayType((Axis("q"),)))
    >>> schema([rows, Argument(name="c", ty=ArrayType())], [rows])
    '(Tensor a0, float a1) -> Tensor'
    """
    kinds = {"int": "SymInt", "bool": "bool"}
    arguments = [
        f"{'Tensor' if a.ty.axes else kinds.get(a.ty.element, 'float')} a{number}" for number, a in enumerate(inputs)
    ]
    results = ["Tensor"] * len(outputs)
    return f"({', '.join(arguments)}) -> {results[0] if len(results) == 1 else '(' + ', '.join(results) + ')'}"


@cache
def operator_library() -> Any:
    """What holds the definitions of operators: without it they are gone.

    Operators are defined here without the checks of `torch.library.custom_op`, which take longer than a small kernel.
    """
    return needed("torch", "registering a kernel").library.Library(NAMESPACE, "FRAGMENT")


def register(compiled: Launchable, passes: ForwardAndBackward | None = None, backward: Any = None) -> Any:
    """The operator of a kernel: the one registered under its name, or a new one.

    With `passes`, of which the kernel is the forward pass, autograd runs `backward`, the operator of the backward pass.
    Raises CatdiagError if torch is not installed.
    """
    torch = needed("torch", "registering a kernel")
    further = "" if passes is None else f"{backward}, {passes.reads}, {passes.saved}, {passes.of}, {passes.wrt}"
    name = name_of(compiled, further)
    known = getattr(getattr(torch.ops, NAMESPACE), name, None)
    if known is not None:
        return known.default

    def shapes(*arrays: Any) -> Any:
        sizes = compiled.sizes(*arrays)
        device = next((a.device for a in arrays if isinstance(a, torch.Tensor)), None)
        made = tuple(
            torch.empty(_shape(out.ty, sizes), dtype=getattr(torch, out.dtype), device=device)
            for out in compiled.code.outputs
        )
        return made[0] if len(made) == 1 else made

    library = operator_library()
    library.define(name + schema(compiled.code.inputs, compiled.code.outputs), tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(name, compiled.execute, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::{name}", shapes, lib=library)
    if passes is not None:
        register_backward(f"{NAMESPACE}::{name}", passes, backward, library)
    else:
        register_no_backward(f"{NAMESPACE}::{name}", compiled.code.inputs[0].name, library)
    return getattr(getattr(torch.ops, NAMESPACE), name).default


def _shape(ty: ArrayType, sizes: dict[str, int]) -> list[Any]:
    # A composite size may be known as a whole where its symbols are not.
    return [sizes.get(show(a.size)) or size_value(a.size, sizes) for a in ty.axes]
