"""Regions of catdiag in graphs that Inductor compiles, without naming a backend: a custom pass of Inductor.

    torch._inductor.config.pre_grad_custom_pass = RegionPass()

It runs where Inductor gets a graph of Dynamo, before derivatives are made of it and before it is decomposed: there
linear, norms and attention are whole, parameters are inputs, and what it does is what the backend does
(`catdiag.integrations.torch_backend`).
"""

from __future__ import annotations

from typing import Any

from catdiag.integrations.torch_backend import LOGGER, BackendOptions, is_dynamic, with_taken_regions
from catdiag.util.errors import require


class RegionPass:
    """What `torch._inductor.config.pre_grad_custom_pass` may be: called on a graph, it puts operators in place of the
    regions that catdiag takes.

    Options are those of the backend (`BackendOptions`), but for `rest`. A graph of which nothing is taken is left as it
    is; so is one of lengths that change, since it would have the regions of one length at all.

    It has no `uuid`: Inductor then runs it before it looks a graph up in its cache, so that the operators that a cached
    graph calls are there.
    """

    def __init__(self, **options: Any) -> None:
        """Raises CatdiagError for an option that is not known, and for values that are none."""
        require("rest" not in options, "the option rest of a pass", options.get("rest"), "none: Inductor has the rest")
        self.options = BackendOptions.of(options)

    def __call__(self, graph: Any) -> None:
        """Changes a graph of Dynamo in place: its inputs stay, all else is that of the graph with regions."""
        places = graph.find_nodes(op="placeholder")
        inputs = [node.meta.get("example_value") for node in places]
        if not all(hasattr(a, "shape") and not is_dynamic(a) for a in inputs):
            LOGGER.info("nothing is taken: a pass takes graphs of tensors whose lengths do not change")
            return
        found = with_taken_regions(graph.owning_module, inputs, self.options)
        if found is None:
            return
        for node in reversed(graph.nodes):
            if node.op != "placeholder":
                graph.erase_node(node)
        own = dict(zip(found.graph.find_nodes(op="placeholder"), places, strict=True))
        for node in found.graph.nodes:
            if node.op in ("get_attr", "call_module"):
                setattr(graph.owning_module, node.target, getattr(found, node.target))
        graph.output(graph.graph_copy(found.graph, own))
