"""The parts of a graph of PyTorch that are programs here: regions, each with what it moves and what it is planned as.

A graph is that of `torch.export`, in which linear, norms and attention are whole. Its calls that have rules
(`catdiag.importers.torch_export.RULES`) are partitioned into regions as large as can be. Where such a region is not
taken, the parts of it between products with weights are regions of their own: those products are a library's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from catdiag.importers.aten_rules import RULES
from catdiag.importers.torch_export import from_torch, operation_of
from catdiag.importers.torch_graph import gradient_stops
from catdiag.program import Program
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from catdiag.planner.multi_kernel_plan import Plan

MOVES_NOTHING = frozenset(
    [
        "view", "reshape", "flatten", "unflatten", "unsqueeze", "squeeze", "_unsafe_view", "view_as",
        "reshape_as", "transpose", "swapaxes", "t", "mT", "permute", "movedim", "expand", "broadcast_to",
        "expand_as", "slice", "select", "split", "split_with_sizes", "chunk", "unbind", "detach", "alias",
        "getitem", "lift_fresh_copy",
    ]
)  # fmt: skip
"""Operations that only see the same bytes in another way."""
WEIGHTED = frozenset(
    ["linear", "addmm", "mm", "conv1d", "conv2d", "conv3d", "convolution", "_convolution", "embedding"]
)
"""Operations on weights that a library has, between which regions are looked for."""


def exported(module: Any, example: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Any:
    """The graph of a module or a function on an example, with parameters, buffers and constants as attributes.

    Raises CatdiagError for a graph that writes to what it is given, or whose inputs are not all tensors.
    """
    torch = import_module("torch")
    program = torch.export.export(module, tuple(example), dict(kwargs or {}))
    wanted = torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in example)
    if wanted and "torch.no_grad()" in gradient_stops(program, required=True):
        raise CatdiagError("a part of it runs under torch.no_grad(), which the graph does not say once it is lowered")
    program = program.run_decompositions({})
    if any(spec.kind.name != "USER_OUTPUT" for spec in program.graph_signature.output_specs):
        raise CatdiagError("the graph writes to its inputs or to buffers")
    graph_module = import_module("copy").deepcopy(program.graph_module)
    state = {**program.state_dict, **program.constants}
    placeholders = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
    for node, spec in zip(placeholders, program.graph_signature.input_specs, strict=True):
        if spec.kind.name == "USER_INPUT":
            if isinstance(node.meta.get("val"), torch.Tensor):
                continue
            if node.users:
                raise CatdiagError(f"the input {node.name!r} is no tensor")
            graph_module.graph.erase_node(node)  # a constant, which the graph has in its calls
            continue
        name = f"state_{node.name}"
        value = state[spec.target]
        (graph_module.register_parameter if isinstance(value, torch.nn.Parameter) else graph_module.register_buffer)(
            name, value
        )
        with graph_module.graph.inserting_before(node):
            attribute = graph_module.graph.get_attr(name)
        attribute.meta = dict(node.meta)
        node.replace_all_uses_with(attribute)
        graph_module.graph.erase_node(node)
    # What export asserts of types would make what it is asserted of a result of its region.
    for node in graph_module.graph.find_nodes(
        op="call_function", target=torch.ops.aten._assert_tensor_metadata.default
    ):
        graph_module.graph.erase_node(node)
    graph_module.recompile()
    return graph_module


@dataclass(eq=False)
class Region:
    """A part of a graph as a module of its own.

    - `module`: its graph, of tensors to one or a tuple of several; `example` are what it takes, without values;
    - `operations`: what it calls, but what only sees the same bytes in another way;
    - `eager_bytes`: what these read and write, one after the other;
    - `program`, `plan`: what it is here, None where it has none; `reason` says why, or why it is not taken.
    """

    name: str
    module: Any
    example: tuple[Any, ...]
    operations: tuple[str, ...]
    eager_bytes: int
    program: Program | None = None
    plan: Plan | None = None
    others_s: float | None = None
    """What PyTorch is predicted to take, in seconds (`catdiag.integrations.inductor_model`)."""
    least_s: float | None = None
    """What any plan takes at least, in seconds, where that was enough to decide without one."""
    taken: bool = False
    reason: str = ""

    def __str__(self) -> str:
        count = len(self.operations)
        words = f"{self.name}: {count} operation{'s' * (count != 1)} ({counted(self.operations)})"
        moved = f"{self.eager_bytes:,} bytes moved eagerly"
        if self.plan is not None:
            moved += f", {self.plan.hbm_bytes:,} by {len(self.plan.kernels)} planned"
            moved += f"; {1e6 * self.plan.time_s:,.1f} µs predicted"
        elif self.least_s is not None:
            moved += f"; {1e6 * self.least_s:,.1f} µs at least by any plan"
        if self.others_s is not None:
            moved += f", PyTorch {1e6 * self.others_s:,.1f} µs"
        return f"{words}; {moved}; {'taken' if self.taken else 'not taken'}: {self.reason}"

    @cached_property
    def signature(self) -> str:
        """Equal for regions that do the same with tensors of the same shapes, strides, types and devices, whatever
        their nodes are called: the equal layers of a model."""
        map_arg = import_module("torch.fx.node").map_arg
        given = [(tuple(a.shape), a.stride(), str(a.dtype), str(a.device)) for a in self.example]
        numbers: dict[Any, int] = {}
        lines = [str(given)]
        for node in self.module.graph.nodes:
            numbers[node] = len(numbers)
            arguments = map_arg((node.args, node.kwargs), lambda n: ("node", numbers[n]))
            target = "" if node.op in ("placeholder", "output") else node.target
            lines.append(f"{node.op} {target} {arguments}")
            if node.op not in ("placeholder", "output", "call_function"):
                lines.append(f"{self.name} {id(self.module)}")  # what an attribute holds is not compared
        return "\n".join(lines)

    def decided_like(self, other: Region) -> None:
        """Takes over the program, the plan and the decision of an equal region."""
        self.program, self.plan = other.program, other.plan
        self.others_s, self.least_s = other.others_s, other.least_s
        self.taken, self.reason = other.taken, f"{other.reason} (equal to {other.name})"


def counted(names: Sequence[str]) -> str:
    """Names, each once, with how often it is there."""
    return ", ".join(f"{names.count(n)} {n}" if names.count(n) > 1 else n for n in dict.fromkeys(names))


def partitioned(graph_module: Any, without: frozenset[str] = frozenset()) -> tuple[Any, list[Region]]:
    """A graph in which each region is one submodule, and the regions. Operations in `without` are in none."""
    support = import_module("torch.fx.passes.operator_support").OperatorSupportBase
    partitioner = import_module("torch.fx.passes.infra.partitioner").CapabilityBasedPartitioner

    class Supported(support):  # type: ignore[misc, valid-type]
        def is_node_supported(self, submodules: Any, node: Any) -> bool:
            return node.op == "call_function" and _is_known(node) and operation_of(node) not in without

    found = partitioner(graph_module, Supported(), allows_single_node_partition=True)
    parts = [p for p in found.propose_partitions() if any(_computes(n) for n in p.nodes)]
    fused = found.fuse_partitions(parts, prefix="region_")
    regions = []
    for node in fused.graph.nodes:
        if node.op == "call_module" and str(node.target).startswith("region_"):
            regions.append(_region(str(node.target), getattr(fused, node.target), node))
    return fused, regions


def rematerialize_masks(graph_module: Any) -> None:
    """Gives every call that computes with real numbers its own copy of the integers and truth values that it reads, as
    far as they are made of other such, so that they are in its region: masks, positions, indices.

    A kernel makes a mask of the positions of its tile, and of what the mask is made of: it reads no array of a truth
    value for each score, and knows which blocks are masked.
    """
    graph = graph_module.graph
    made = [n for n in graph.nodes if n.op == "call_function" and _is_known(n) and _is_discrete(n)]
    own = set(made)
    for node in [n for n in graph.nodes if n.op == "call_function" and n not in own]:
        copies: dict[Any, Any] = {}
        needed = _chain(node.all_input_nodes, own)
        with graph.inserting_before(node):
            for source in (n for n in made if n in needed):
                copies[source] = graph.node_copy(source, lambda n, copies=copies: copies.get(n, n))
        for source, copy in copies.items():
            node.replace_input_with(source, copy)
    graph.eliminate_dead_code()
    graph_module.recompile()


def _chain(nodes: Sequence[Any], own: set[Any]) -> set[Any]:
    """Those of some nodes that are in a set, and what they are made of in it."""
    found: set[Any] = set()
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if node in own and node not in found:
            found.add(node)
            todo.extend(node.all_input_nodes)
    return found


def _is_discrete(node: Any) -> bool:
    tensors = [*_tensors(node), *_arguments(node)]
    return bool(tensors) and not any(t.is_floating_point() or t.is_complex() for t in tensors)


def _region(name: str, module: Any, call: Any) -> Region:
    inner = [n for n in module.graph.nodes if n.op == "call_function" and _computes(n)]
    example = tuple(argument.meta["val"] for argument in call.args)
    operations = tuple(operation_of(n) for n in inner)
    return Region(name, module, example, operations, sum(bytes_of(n) for n in inner))


def _is_known(node: Any) -> bool:
    name = operation_of(node)
    numbers = [n for n in node.all_input_nodes if not _tensors(n)]
    tensors = (*_tensors(node), *_arguments(node))
    return (name in RULES or name == "getitem") and not numbers and all(_is_plain(t) for t in tensors)


def _is_plain(tensor: Any) -> bool:
    """Whether a tensor has a length that is known in each dimension, and real elements."""
    return all(isinstance(n, int) for n in tensor.shape) and not tensor.dtype.is_complex


def _computes(node: Any) -> bool:
    return node.op == "call_function" and operation_of(node) not in MOVES_NOTHING


def _tensors(node: Any) -> list[Any]:
    torch, value = import_module("torch"), node.meta.get("val")
    return [v for v in (value if isinstance(value, (tuple, list)) else [value]) if isinstance(v, torch.Tensor)]


def _arguments(node: Any) -> Iterator[Any]:
    for argument in node.all_input_nodes:
        yield from _tensors(argument)


def bytes_of_values(node: Any) -> int:
    """The bytes of a node's value."""
    return sum(t.numel() * t.element_size() for t in _tensors(node))


def bytes_of(node: Any) -> int:
    """What a call reads and writes: its arguments and its results, each whole."""
    return bytes_of_values(node) + sum(bytes_of_values(n) for n in node.all_input_nodes)


def imported(region: Region) -> Region:
    """The region with its program, or with the reason why it has none. Where a result merges axes, the program gives it
    before that, and a kernel writes tiles of each: it is the same in memory."""
    try:
        found = from_torch(region.module, region.example, {}, {}, merged_results=False)
    except Exception as error:  # torch.export raises errors of many kinds
        region.reason = f"it is not imported: {' '.join(str(error).split())[:200]}"
        return region
    region.program = Program(found.diagram, example=found.example)
    return region


Deciding = Callable[[Region], bool]
"""Whether a region is taken, which is not imported yet; it sets what it finds out, with the reason."""


def replaced(
    graph_module: Any, decide: Deciding, operator: Callable[[Region], Callable[..., Any]]
) -> tuple[Any, list[Region]]:
    """A graph in which the regions that are taken are calls of operators, and all regions that were looked at.

    Regions are looked for as large as can be; inside of one that is not taken, between products with weights. Of equal
    regions the first is decided on.
    """
    rematerialize_masks(graph_module)
    fused, regions = partitioned(graph_module)
    looked_at: list[Region] = []
    known: dict[str, Region] = {}

    def takes(region: Region) -> bool:
        looked_at.append(region)
        first = known.setdefault(region.signature, region)
        if first is region:
            return decide(region)
        region.decided_like(first)
        return region.taken

    for region in regions:
        if takes(region):
            _call(fused, region.name, operator(region))
            continue
        if not WEIGHTED & set(region.operations):
            continue
        inner, smaller = partitioned(region.module, WEIGHTED)
        for part in smaller:
            part.name = f"{region.name}.{part.name}"
            if takes(part):
                _call(inner, part.name.rpartition(".")[2], operator(part))
        setattr(fused, region.name, inner)
    fused.graph.lint()
    fused.recompile()
    return fused, looked_at


def _call(graph_module: Any, name: str, function: Callable[..., Any]) -> None:
    """Puts the call of a function in place of a submodule."""
    for node in list(graph_module.graph.nodes):
        if node.op == "call_module" and node.target == name:
            with graph_module.graph.inserting_before(node):
                made = graph_module.graph.call_function(function, node.args)
            made.meta = dict(node.meta)
            node.replace_all_uses_with(made)
            graph_module.graph.erase_node(node)
    graph_module.delete_submodule(name)
    graph_module.recompile()
