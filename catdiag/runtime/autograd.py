"""Backward passes of custom operators of torch: kernels that autograd runs.

An operator that is differentiated runs the forward pass of a program, which gives its results and what it saves; its
backward pass is another operator (`catdiag.rewrite.differentiate.forward_and_backward`). Autograd knows one formula for
it, registered with `torch.library.register_autograd`, so that it works under `torch.compile` too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from catdiag.runtime.module_cache import needed
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from catdiag.rewrite.differentiate.forward_and_backward import ForwardAndBackward


@dataclass(frozen=True)
class BackwardFormula:
    """What autograd keeps of a forward pass, and how it runs the backward pass on it."""

    passes: ForwardAndBackward

    def save(self, ctx: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Keeps what the backward pass reads, tensors and numbers."""
        read = [*[inputs[k] for k in self.passes.reads], *[outputs[k] for k in self.passes.saved]]
        is_tensor = self.tensors
        ctx.save_for_backward(*[value for value, tensor in zip(read, is_tensor, strict=True) if tensor])
        ctx.numbers = [None if tensor else value for value, tensor in zip(read, is_tensor, strict=True)]

    def pulled(self, ctx: Any, cotangents: Sequence[Any], backward: Callable[..., Any]) -> tuple[Any, ...]:
        """The cotangents of all inputs, by what runs the backward pass."""
        tensors = iter(ctx.saved_tensors)
        read = [next(tensors) if value is None else value for value in ctx.numbers]
        found = backward(*read, *[cotangents[k] for k in self.passes.of])
        given: list[Any] = [None] * len(self.passes.forward.dom)
        for k, value in zip(self.passes.wrt, found if isinstance(found, (tuple, list)) else (found,), strict=True):
            given[k] = value
        return tuple(given)

    @cached_property
    def tensors(self) -> tuple[bool, ...]:
        """Of what the backward pass reads of inputs and outputs of the forward pass, which are tensors."""
        forward = self.passes.forward
        return (*(bool(forward.dom[k].axes) for k in self.passes.reads),
                *(bool(forward.cod[k].axes) for k in self.passes.saved))  # fmt: skip


def register_backward(name: str, passes: ForwardAndBackward, backward: Callable[..., Any], library: Any = None) -> None:
    """Registers the backward pass of the operator `name`, which runs `passes.forward` on tensors and numbers: its
    outputs are the results, and then what is saved, of which nothing is differentiated; nor are results not in `of`.

    `backward` takes what `passes.backward` does, and gives a tensor, or a tuple of them; `library` is the one that
    defines the operator, where it is no custom operator of `torch.library.custom_op`. Raises CatdiagError if torch is
    not installed; calls of the operator raise it where an input requires a gradient by which it has none.
    """
    torch = needed("torch", "registering a backward pass")
    names, formula = passes.forward.input_names, BackwardFormula(passes)

    def save(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        outputs = output if isinstance(output, (tuple, list)) else (output,)
        for k, needs in enumerate(ctx.needs_input_grad[: len(names)]):
            if needs and k not in passes.wrt:
                raise CatdiagError(without_gradient(names[k], [names[i] for i in passes.wrt]))
        formula.save(ctx, inputs, outputs)
        constant = [array for k, array in enumerate(outputs) if k not in passes.of]
        if constant:
            ctx.mark_non_differentiable(*constant)

    def pulled(ctx: Any, *cotangents: Any) -> tuple[Any, ...]:
        return formula.pulled(ctx, cotangents, backward)

    torch.library.register_autograd(name, pulled, setup_context=save, lib=library)


def register_no_backward(name: str, argument: str, library: Any) -> None:
    """Registers that the operator `name`, of which `argument` is an input, has no backward pass: asked for one it
    raises CatdiagError."""
    torch = needed("torch", "registering an operator")

    def refused(ctx: Any, *cotangents: Any) -> None:
        raise CatdiagError(without_gradient(argument, []))

    torch.library.register_autograd(name, refused, lib=library)


def without_gradient(name: str, others: Sequence[str]) -> str:
    """What is said of an input that requires a gradient where an operator has none by it."""
    by = f"is differentiated by {', '.join(others)}" if others else "has no gradient"
    return (
        f"input {name!r} requires a gradient, and the kernel {by}: expected {name}.detach(), or a call under "
        "torch.no_grad(); program.plan(chip, sizes).compile() has gradients by all arrays of real numbers"
    )
