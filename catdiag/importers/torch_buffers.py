"""The tensors of two modules that are compared: parameters that are made of the other's, and buffers made of positions.

Ranges and triangular masks are buffers of many models. Two modules that are compared may make such an array in
different ways, or only one of them have it as a buffer. The buffer is not any array then, but the one that was
registered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from catdiag.frontend import elementwise
from catdiag.importers.example import NotImported
from catdiag.importers.imported_values import ArrayValue
from catdiag.importers.positions import Positions
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.torch_graph import name_arguments, title_of_module

FromParameters: TypeAlias = Callable[[dict[str, Any]], Mapping[str, Any]]
"""From the tensors of one module, by name, to those of another."""
OTHER = "_of_the_other_module"
"""The attribute of a parametrized module that the other one is."""


def is_statistic(name: str) -> bool:
    """Whether a buffer is one that training changes: those of one name are the same array, as parameters are, whatever
    they hold."""
    return name.rpartition(".")[2] in ("running_mean", "running_var")


def holds_truth_values(array: Any) -> bool:
    """Whether a tensor of numbers holds 0 and 1, and no others, as masks do."""
    if array.is_meta or array.is_complex() or str(array.dtype) == "torch.bool":
        return False
    return {0, 1} == set(array.detach().unique().tolist()[:3])


def parametrized(torch: Any, first: Any, second: Any, parameters: FromParameters) -> Any:
    """The first module with the second one's tensors for parameters, from which its own are computed. Raises
    NotImported where `parameters` gives what the first one does not have."""

    require_parameters(torch, first, second, parameters)
    buffers = {name for name, _ in first.named_buffers() if not is_statistic(name)}
    theirs = _tensors(second)
    matched = [n for n, a in _tensors(first).items() if n in theirs and theirs[n].shape == a.shape and n not in buffers]

    class Parametrized(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            setattr(self, OTHER, second)

        def forward(self, *arrays: Any, **named: Any) -> Any:
            tensors = _tensors(second)
            shared = {name: tensors[name] for name in matched}
            return torch.func.functional_call(first, {**shared, **parameters(tensors)}, arrays, named)

    Parametrized.__name__ = type(first).__name__
    name_arguments(Parametrized, first.forward)
    return Parametrized()


def require_parameters(torch: Any, first: Any, second: Any, parameters: FromParameters) -> None:
    """Raises NotImported unless a function from the tensors of the second module gives some of the first one's."""
    names = [title_of_module(module, torch) for module in (first, second)]
    for name, module in zip(names, (first, second), strict=True):
        if not isinstance(module, torch.nn.Module):
            raise NotImported(f"{name} is no module, and has no parameters: expected none to be made of others")
    if not callable(parameters):
        raise NotImported(
            f"parameters is a {type(parameters).__name__}: expected a function from the tensors of {names[1]}, by "
            f"name, to those of {names[0]}"
        )
    own = _tensors(first)
    try:
        with torch.no_grad():
            given = parameters(_tensors(second))
    except NotImported:
        raise
    except Exception as error:  # whatever the user's function raises
        raise NotImported(
            f"the parameters of {names[0]} cannot be made of those of {names[1]}, {', '.join(_tensors(second))}: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not isinstance(given, Mapping):
        raise NotImported(f"parameters gives a {type(given).__name__}: expected tensors by the names of {names[0]}")
    for name, tensor in given.items():
        if name not in own:
            raise NotImported(f"{name!r} is made, and {names[0]} has no such tensor: it has {', '.join(own)}")
        shape = tuple(getattr(tensor, "shape", ()))
        if not isinstance(tensor, torch.Tensor) or shape != tuple(own[name].shape):
            raise NotImported(f"{name!r} is made with shape {list(shape)}: {names[0]} has {list(own[name].shape)}")


def unmatched(first: Any, second: Any) -> tuple[str, ...]:
    """A note where each of two modules has parameters of names that the other one lacks."""
    if not (hasattr(first, "named_parameters") and hasattr(second, "named_parameters")):
        return ()
    one, other = ([name for name, _ in m.named_parameters(remove_duplicate=False)] for m in (first, second))
    alone = [name for name in one if name not in other], [name for name in other if name not in one]
    if not all(alone):
        return ()
    names = [", ".join([*found[:6], *["…"] * (len(found) > 6)]) for found in alone]
    return (
        f"the first module alone has {names[0]}, and the second {names[1]}: these hold any numbers, unless the first "
        "one's are made of the second one's (parameters=, --parameters, --map)",
    )


def _tensors(module: Any) -> dict[str, Any]:
    """The parameters and buffers of a module, each under all of its names."""
    parameters = module.named_parameters(remove_duplicate=False)
    return {**dict(parameters), **dict(module.named_buffers(remove_duplicate=False))}


def of_positions(b: ProgramBuilder, name: str, tensor: Any, element: str) -> ArrayValue | None:
    """A buffer as the function of positions that it is, with a note; None for other arrays. It is read as that
    function at any length, and not as an input."""
    numbers = tensor.detach().cpu()
    if element in ("int", "real") and numbers.numel() >= 3 and numbers.numel() == max(numbers.shape):
        return _range(b, name, numbers, element)
    if numbers.dim() >= 2 and min(numbers.shape[-2:]) >= 3 and numbers.shape[:-2].numel() == 1:
        return _triangle(b, name, numbers.reshape(numbers.shape[-2:]).tolist(), list(numbers.shape), element)
    return None


def _range(b: ProgramBuilder, name: str, numbers: Any, element: str) -> ArrayValue | None:
    flat = numbers.flatten().tolist()
    step = flat[1] - flat[0]
    if step == 0 or step != step or abs(step) == float("inf") or any(v != int(v) for v in (step, flat[0])):
        return None
    if any(v != flat[0] + k * step for k, v in enumerate(flat)):
        return None
    dims = [b.factors.dimension(n) for n in numbers.shape]
    along = next(d for d in dims if d)
    b.notes.append(f"the buffer {name} is read as the range from {flat[0]:g} in steps of {step:g}")
    return b.typed(b.positional(dims, Positions.along(along, int(step), int(flat[0]))), element)


def _triangle(
    b: ProgramBuilder, name: str, numbers: list[list[Any]], shape: list[int], element: str
) -> ArrayValue | None:
    """A matrix of one number on and below a diagonal, and another one above it."""
    inside, outside = numbers[-1][0], numbers[0][-1]
    if inside == outside or inside != inside or outside != outside:
        return None
    diagonal = sum(v == inside for v in numbers[0]) - 1
    if diagonal < 0:  # it starts further down
        diagonal = -next(k for k, row in enumerate(numbers) if row[0] == inside)
    if any(v != (inside if k <= q + diagonal else outside) for q, row in enumerate(numbers) for k, v in enumerate(row)):
        return None
    dims = [b.factors.dimension(n) for n in shape]
    rows, columns = (b.positional(dims, Positions.along(d)) for d in dims[-2:])
    b.notes.append(f"the buffer {name} is read as {inside} where column <= row + {diagonal}, and {outside} elsewhere")
    if element == "bool":
        return b.pointwise(
            [columns, rows], lambda k, q: k <= q + diagonal if inside else k > q + diagonal, element="bool"
        )
    here = b.pointwise([columns, rows], lambda k, q: k <= q + diagonal, element="bool")
    values = [b.constant(v, shape, element) for v in (inside, outside)]
    return b.pointwise([here, *values], elementwise.where, element)


__all__ = ["OTHER", "FromParameters", "is_statistic", "of_positions", "parametrized", "unmatched"]
