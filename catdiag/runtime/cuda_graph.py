"""Launches recorded once as a CUDA graph and replayed: a call then costs the host one launch, not one for each kernel.

A graph reads its inputs where they were when it was recorded. So there is one for each shape and address of the inputs,
recorded when these come the second time. Small inputs whose address changes (activations) are copied to buffers of the
graph; large ones (weights, caches) are read where they are. Results are copied out of the graph, so that each call
gives new tensors. Replays are in the order of the current stream, and each stream has graphs of its own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

COPIED_BYTES = 2**20
"""Inputs of at most so many bytes are copied to a buffer of the graph if they come at several addresses."""
SHAPES, GRAPHS = 16, 256
"""How many combinations of shapes are known at once, and how many graphs of each: a model has one for each layer."""


@dataclass(frozen=True)
class Recording:
    """A recorded graph: the tensors that it reads, how to run it again, and the tensors that it writes."""

    inputs: Sequence[Any]
    replay: Callable[[], None]
    results: Any


def record(launch: Callable[..., Any], values: Sequence[Any], copied: frozenset[int]) -> Recording:
    """Records what `launch` launches for some arguments; those at the positions `copied` get buffers of the graph."""
    import torch

    inputs = [torch.empty_like(v).copy_(v) if k in copied else v for k, v in enumerate(values)]
    launch(*inputs)  # a kernel that is compiled or loaded while a graph is recorded breaks it
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = launch(*inputs)
    # Tensors that are read where they are belong to the caller: a graph must not keep them alive.
    return Recording([v if k in copied else None for k, v in enumerate(inputs)], graph.replay, results)


@dataclass
class _OfShapes:
    """The graphs for inputs of some shapes: by the addresses of inputs that are not copied, None if they came once."""

    addresses: list[int | None]
    copied: frozenset[int] = frozenset()
    graphs: OrderedDict[tuple[int | None, ...], Recording | None] = field(default_factory=OrderedDict)


@dataclass
class GraphedLaunch:
    """A launch function that is replayed from graphs. `launch` takes tensors and numbers, and returns new tensors."""

    launch: Callable[..., Any]
    recorder: Callable[[Callable[..., Any], Sequence[Any], frozenset[int]], Recording] = record
    _known: OrderedDict[Any, _OfShapes] = field(default_factory=OrderedDict)

    def __call__(self, values: Sequence[Any], stream: int = 0) -> Any:
        """The results of the launch on some arguments, in the order of a stream."""
        tensors = [hasattr(v, "data_ptr") for v in values]
        key = (stream, *((v.shape, v.stride(), v.dtype, v.device) if t else v for v, t in zip(values, tensors)))
        addresses = [v.data_ptr() if t else None for v, t in zip(values, tensors)]
        known = _entered(self._known, key, lambda: _OfShapes(addresses), SHAPES)
        moved = {
            k
            for k, (v, at) in enumerate(zip(values, addresses))
            if at != known.addresses[k] and v.numel() * v.element_size() <= COPIED_BYTES
        }
        if not moved <= known.copied:
            known.copied |= moved
            known.graphs.clear()
        place = tuple(None if k in known.copied else at for k, at in enumerate(addresses))
        if place not in known.graphs:
            _entered(known.graphs, place, lambda: None, GRAPHS)
            return self.launch(*values)
        found = known.graphs[place]
        if found is None:
            found = known.graphs[place] = self.recorder(self.launch, values, known.copied)
        known.graphs.move_to_end(place)
        for k in known.copied:
            found.inputs[k].copy_(values[k])
        found.replay()
        several = isinstance(found.results, tuple)
        return tuple(r.clone() for r in found.results) if several else found.results.clone()


def _entered(table: OrderedDict[Any, Any], key: Any, make: Callable[[], Any], most: int) -> Any:
    """The entry of a table, made if it is missing; the one that was not asked for longest goes when it is full."""
    if key not in table:
        table[key] = make()
        if len(table) > most:
            table.popitem(last=False)
    table.move_to_end(key)
    return table[key]
