"""All refactorings, by their names."""

from __future__ import annotations

from benchmarks.refactorings import (
    attention_and_scans,
    attention_of_libraries,
    classes_and_scores,
    convolutions_and_losses,
    everyday,
    images_of_libraries,
    layers_of_libraries,
    pairs,
    positions_and_masks,
    sequences_of_libraries,
)

_MODULES = (
    pairs,
    attention_of_libraries,
    sequences_of_libraries,
    layers_of_libraries,
    images_of_libraries,
    attention_and_scans,
    convolutions_and_losses,
    positions_and_masks,
    classes_and_scores,
    everyday,
)
ALL: dict[str, pairs.Refactoring] = {name: pair for module in _MODULES for name, pair in module.ALL.items()}
