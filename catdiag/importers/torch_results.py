"""What a module of PyTorch returns: tensors at keys and positions, and numbers and texts beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from catdiag.importers.example import NotImported
from catdiag.importers.imported_values import ArrayValue
from catdiag.importers.program_builder import ProgramBuilder

Place = tuple[tuple[str, ...], Any]
"""The keys and positions at which a result is; and None for a tensor, or the number or text that it is."""


def of_plain_types(value: Any) -> Any:
    """A result without objects that PyTorch does not look into, such as a cache of transformers: a dict of what each
    has that is, or holds, tensors.

    >>> class Cache:
    ...     def __init__(self):
    ...         self.layers, self.length = [], 3
    >>> of_plain_types((Cache(), 1))
    ({}, 1)
    """
    if isinstance(value, Mapping):
        return {key: of_plain_types(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(of_plain_types(item) for item in value)
    if hasattr(value, "detach") or not hasattr(value, "__dict__"):
        return value
    attributes = {key: of_plain_types(item) for key, item in vars(value).items()}
    return {key: item for key, item in attributes.items() if _has_tensors(item)}


def _has_tensors(value: Any) -> bool:
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return hasattr(value, "detach") or any(map(_has_tensors, items))


class ReadsResults(Protocol):
    """What has read a module."""

    builder: ProgramBuilder
    outputs: list[ArrayValue]
    results: list[Place]


def places_of_results(torch: Any, program: Any, specs: Sequence[Any]) -> list[Place]:
    """Of each result, the keys and positions at which it is in what a module returns; and None for a tensor, or the
    number or text that it is."""
    given = [spec for spec in specs if spec.kind.name == "USER_OUTPUT"]
    tree = torch.utils._pytree
    whole = tree.tree_unflatten(range(len(given)), program.call_spec.out_spec)
    paths = [
        tuple(str(getattr(key, "key", getattr(key, "idx", key))) for key in path)
        for path, _ in tree.tree_flatten_with_path(whole)[0]
    ]
    return [(path, getattr(spec.arg, "value", None)) for path, spec in zip(paths, given, strict=True)]


def in_one_order(one: ReadsResults, other: ReadsResults) -> None:
    """Puts the results of one module in the order of the other's, which returns the same keys. Raises NotImported where
    keys differ, or numbers and texts that both return."""
    numbers = [[value for _, value in reader.results if value is not None] for reader in (one, other)]
    if numbers[0] != numbers[1]:
        titles = one.builder.title, other.builder.title
        raise NotImported(f"{titles[0]} returns {numbers[0]} beside tensors, and {titles[1]} returns {numbers[1]}")
    places = [[path for path, value in reader.results if value is None] for reader in (one, other)]
    if len(places[1]) != len(other.outputs) or len(places[0]) != len(one.outputs):
        return  # one returns None beside tensors
    if sorted(places[0]) == sorted(places[1]):
        other.outputs = [other.outputs[places[1].index(path)] for path in places[0]]
    elif any(not key.isdigit() for found in places for path in found for key in path):
        raise NotImported(f"{one.builder.title} returns {places[0]}, and {other.builder.title} returns {places[1]}")
