"""Reads a graph of `torch.export`, and gives the program that it is.

The graph is exported and run through `run_decompositions({})`, which writes mutation and aliasing out and decomposes
nothing: linear, einsum, norms and attention stay whole. Only operations without a rule are then decomposed.
"""

from __future__ import annotations

import math
import operator
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from inspect import signature
from typing import Any

from catdiag.frontend import elementwise
from catdiag.importers.aten_rules import RULES
from catdiag.importers.dimensions import Factors
from catdiag.importers.example import Imported, Original
from catdiag.importers.graph_reader import GraphReader, same_results
from catdiag.importers.imported_values import ArrayValue, Environment, Operand, SizeNumber
from catdiag.importers.opaque_boxes import with_arrays
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.torch_buffers import (
    OTHER,
    FromParameters,
    holds_truth_values,
    is_statistic,
    of_positions,
    parametrized,
)
from catdiag.importers.torch_calls import AtenCall, Unsupported
from catdiag.importers.torch_complex import of_pairs
from catdiag.importers.torch_decompositions import operation_name
from catdiag.importers.torch_elementwise import WRAPPED, converted
from catdiag.importers.torch_flex_attention import NAME as FLEX_ATTENTION
from catdiag.importers.torch_graph import STOPS, exported_graph, imported_torch, title_of_module
from catdiag.importers.torch_losses import marks_ignored
from catdiag.importers.torch_results import Place, in_one_order, places_of_results
from catdiag.importers.torch_runs import TorchRun
from catdiag.importers.torch_symbols import TorchLengths, bound_arguments, dimension_names
from catdiag.util.errors import PACKAGE

ELEMENTS = {"bool": "bool", "int8": "int", "int16": "int", "int32": "int", "int64": "int", "uint8": "int"}
_FRAME = re.compile(r'File "(.*)", line (\d+)')
_ASSERTIONS = ("_assert_tensor_metadata", "_assert_scalar", "_assert_async", "sym_constrain_range_for_size")
_SCALARS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "floordiv": operator.floordiv, "neg": operator.neg, "pow": operator.pow, "mod": operator.mod,
    "sym_max": lambda a, b: _chosen(elementwise.maximum, max, a, b), "sym_float": lambda a: a,
    "sym_min": lambda a, b: _chosen(elementwise.minimum, min, a, b),
}  # fmt: skip
_ARITHMETIC = {
    "add", "sub", "rsub", "mul", "neg", "abs", "square", "pow", "floor_divide", "remainder", "sum", "cumsum", "prod",
    "matmul", "mm", "bmm", "mv", "dot", "linear", "einsum", "addmm", "baddbmm", "addbmm", "addmv", "outer",
    "scatter_add", "diff",
}  # fmt: skip
_KNOWN = {*RULES, *_ASSERTIONS, *_SCALARS, "getitem", "sym_size", "size"}
"""Operations that are read as they are."""


def from_torch(
    module: Any,
    example: Sequence[Any],
    kwargs: Mapping[str, Any],
    names: Mapping[str, str],
    dynamic: Any = None,
    allow_opaque: bool = False,
    *,
    merged_results: bool = True,
) -> Imported:
    """The program of a module, a function, or an exported program. Without `merged_results` a dimension of a result
    that is a product of axes is these: the same array in memory. Raises NotImported, listing all that has no meaning
    here, and ImportError without PyTorch."""
    torch = imported_torch()
    exported = exported_graph(module, torch, example, kwargs, dynamic, _KNOWN)
    builder = ProgramBuilder(title_of_module(module, torch), ignores_targets=marks_ignored(exported))
    reader = _ExportReader(builder, exported, allow_opaque=allow_opaque)
    reader.call = module, example, kwargs
    reader.spelled, reader.training = _parameter_names(module), bool(getattr(module, "training", False))
    with suppress(TypeError, ValueError):
        given = bound_arguments(getattr(module, "forward", module), example, kwargs)
        reader.dimension_names = {} if dynamic is True else dimension_names(dynamic, given)
    reader.read()
    if dynamic is True:
        reader.builder.notes += reader.lengths.fixed()
    found = reader.built(reader.named(names), merged_results)
    stops = exported.graph_module.meta.get(STOPS, ())
    return replace(found, example=replace(found.example, gradient_stops=stops))


def from_torch_pair(
    first: Any,
    second: Any,
    example: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    parameters: FromParameters | None = None,
    *,
    read_roots: bool = True,
    read_least: bool = False,
    read_masks: bool = False,
    fix_sizes: bool | frozenset[int] = False,
    equal_sizes: bool = False,
) -> tuple[Imported, Imported]:
    """Two modules or functions as programs with the same inputs and outputs, so that they can be compared.

    What is passed in is matched by position, parameters by name, and so are buffers and constants that hold the same
    numbers, under any name; others are an input each. Where these differ, `parameters` is a
    function from the tensors of the second module, by name, to those of the first: fused weights sliced, factors
    multiplied, norms folded; those that it does not give are matched by name. Slices that cover a dimension are read as
    parts of any lengths. Without `read_roots`, numbers are taken as they are, and none for a function of a size; so are
    lengths of what is read at some position, as that of experts in a loop over them. With `read_least`, the least
    number of a floating-point type, as masks have it, is read as minus infinity: that differs where a row is masked
    whole. With `read_masks`, numbers that are passed in are read as truth values where the example has only 0 and 1.
    With `fix_sizes`, all sizes are the numbers of the example, or those that are such a length there; with
    `equal_sizes`, those that are equal there are equal at all. Raises NotImported where one has no meaning here,
    or results differ in number or shape.
    """
    torch = imported_torch()
    if parameters is not None:
        first = parametrized(torch, first, second, parameters)
    ways: dict[str, Any] = {"read_roots": read_roots, "read_least": read_least, "read_masks": read_masks}
    ways["read_parts"] = True
    programs = [exported_graph(m, torch, example, kwargs or {}, None, _KNOWN) for m in (first, second)]
    ways["ignores_targets"] = any(map(marks_ignored, programs))
    mine = ProgramBuilder(title_of_module(first, torch), Factors(fixed=fix_sizes, all_alike=equal_sizes), **ways)
    one = _ExportReader(mine, programs[0])
    one.call = first, example, kwargs or {}
    one.read()
    shared = ProgramBuilder(title_of_module(second, torch), mine.factors, mine.values, mine.inputs, **ways)
    other = _ExportReader(shared, programs[1], one)
    other.call = second, example, kwargs or {}
    other.read()
    in_one_order(one, other)
    same_results(one, other)
    found = one.named({})
    stored = {name for name in (*one.contents, *other.contents) if not is_statistic(name)}
    constants = {k for k, source in enumerate(one.sources) if source in stored}
    built = [reader.built(found, merged_results=False) for reader in (one, other)]
    return Imported(built[0].diagram, replace(built[0].example, constants=frozenset(constants))), built[1]


def _parameter_names(module: Any) -> dict[str, str]:
    """The names of a function's parameters, by what a graph calls them."""
    try:
        return {name.lower(): name for name in signature(getattr(module, "forward", module)).parameters}
    except (TypeError, ValueError):  # functions in C have no signature
        return {}


class _ExportReader(GraphReader):
    """One pass over a graph of `torch.export`."""

    def __init__(
        self, builder: ProgramBuilder, program: Any, beside: _ExportReader | None = None, allow_opaque: bool = False
    ) -> None:
        super().__init__(builder, beside, allow_opaque)
        self.program = program
        self.values: dict[Any, Any] = {}
        self.spelled: Mapping[str, str] = {}
        self.training = False
        self.beside = beside
        self.contents: dict[str, tuple[Any, ...]] = {}
        """What buffers and constants hold, by where they are read from."""
        self.call: tuple[Any, Sequence[Any], Mapping[str, Any]] | None = None
        """The module, and the arguments of the example."""
        self._tied: dict[Any, ArrayValue] = {}
        self._places: dict[ArrayValue, list[int | str]] = {}
        """What of the module an input is: a position, or names of tensors."""
        self._read: dict[ArrayValue, Any] = {}
        self._passed = 0
        self.results: list[Place] = []
        self.lengths = TorchLengths(builder.factors)
        self.dimension_names: Mapping[tuple[str, int], str] = {}

    def read(self) -> None:
        """Goes through the graph. Raises NotImported."""
        graph = self.program.graph
        if self.program.graph_module.meta.get(FLEX_ATTENTION):
            self.builder.notes.append(
                f"rows of {FLEX_ATTENTION} that are masked whole, which PyTorch gives as 0, have no value"
            )
        inputs = [n for n in graph.nodes if n.op == "placeholder"]
        specs = dict(zip((n.name for n in inputs), self.program.graph_signature.input_specs, strict=True))
        # What the user passes comes first, the parameters and buffers that are read after it, by their names.
        given = {spec.arg.name for spec in specs.values() if spec.kind.name == "USER_INPUT"}
        for node in [*(n for n in inputs if n.name in given), *(n for n in inputs if n.name not in given and n.users)]:
            self._input(node, specs[node.name])
        for node in graph.nodes:
            if node.op == "call_function":
                self._call(node)
            elif node.op == "get_attr" and not self.unknown:
                called = next(iter(node.users), node)
                why = "control flow on values has no meaning here: compute both cases, and choose with torch.where"
                if getattr(called.target, "_name", "") == FLEX_ATTENTION:
                    why = "its largest scores have no meaning here: return its result, or the logsumexp"
                at = _line(called) or called.name
                self.unknown.append(f"{_module_path(called)}{called.name}: {why} [{at}]")
                raise self.refused()
            elif node.op == "output":
                self._output(node)
        if self.unknown:
            raise self.refused()

    def _input(self, node: Any, spec: Any) -> None:
        torch = import_module("torch")
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            plain = isinstance(value, (int, float, bool, str)) or value is None
            self.values[node] = value if plain else self.lengths.length(value)
            return
        state = {**self.program.state_dict, **self.program.constants}.get(spec.target)
        key = None if state is None else _identity(state)
        if key is not None and key in self._tied:
            self.values[node] = self._tied[key]
            self._places[self._tied[key]].append(spec.target)
            return
        if spec.kind.name == "CONSTANT_TENSOR" and state is not None and _is_known(state) and state.numel() <= 1:
            number = self._given(state.item()) if state.numel() else 0  # an empty one, as caches begin
            self.values[node] = self.builder.constant(number, list(state.shape), _element(state.dtype))
            return
        target = (spec.target or self.spelled.get(node.name, node.name)).removeprefix(f"{OTHER}.")
        constant = state is not None and spec.kind.name in ("BUFFER", "CONSTANT_TENSOR")
        if constant and state is not None and self.builder.read_parts and _is_known(state) and not is_statistic(target):
            read = of_positions(self.builder, target, state, _element(value.dtype))
            if read is not None:
                self.values[node] = read
                return
        source = target
        if spec.kind.name == "USER_INPUT":
            source, self._passed = self._passed, self._passed + 1
        tied = [] if key is None else [name for name, found in self._tensors() if found == key]
        shared = next((name for name in tied if name in self.shared and self._is_free(name, key)), source)
        if shared == target and not self._is_free(target, key):
            self.builder.notes.append(f"{target} is no tensor of another name in {self.builder.title}: it is an input")
            shared = f"{target} of {self.builder.title}"
        source = self._same_content(target, state) if constant else shared
        lengths = [self.lengths.length(n) for n in value.shape]
        if spec.kind.name == "USER_INPUT":
            self.lengths.given(target, lengths)
        array = state if state is not None else self._example(node.name)
        hints = [self.dimension_names.get((target, k), "") for k in range(value.dim())]
        if value.is_complex():  # pairs of real numbers
            pairs = torch.view_as_real(array.detach().resolve_conj())
            made = self.argument(source, target, [*lengths, 2], "real", pairs, [*hints, ""])
            self._places.setdefault(made, []).append(source if isinstance(source, int) else spec.target)
            self.values[node] = of_pairs(self.builder, made)
            return
        element = _element(value.dtype)
        mask = self.builder.read_masks and isinstance(source, int) and holds_truth_values(array)
        made = self.argument(
            source, target, lengths, "bool" if mask else element, array.bool() if mask else array, hints
        )
        self._places.setdefault(made, []).append(source if isinstance(source, int) else spec.target)
        if mask:
            self.builder.notes.append(f"{target} is taken to hold 0 and 1 only")
        self.values[node] = converted(self.builder, made, element) if mask else made
        if key is not None:
            self._tied[key], self._read[made] = made, key
            self.shared.update(dict.fromkeys(tied, made))

    def original(self) -> Original | None:
        """The module as PyTorch runs it."""
        if self.call is None:
            return None
        module, arguments, kwargs = self.call
        torch = import_module("torch")
        called = module.module() if isinstance(module, torch.export.ExportedProgram) else module
        return TorchRun(called, arguments, kwargs, self.arrays, [self._place(v) for _, v in self.builder.inputs])

    def _place(self, value: ArrayValue) -> int | tuple[str, ...]:
        found = self._places.get(value, [])
        return found[0] if found and isinstance(found[0], int) else tuple(map(str, found))

    def _is_free(self, name: str, key: Any) -> bool:
        """Whether no other tensor of this program is the input that the other program has under a name."""
        made = self.shared.get(name)
        return made is None or made not in self._read or self._read[made] == key

    def _same_content(self, name: str, tensor: Any) -> str:
        """Where a buffer or constant is read from: the other program's, if that is equal or of its name and no other
        constant, else a place of its own. Raises nothing: two that differ are two inputs, as a note says."""
        numbers = [object()] if tensor.is_meta else tensor.detach().cpu().reshape(-1).tolist()
        content = str(tensor.dtype), tuple(tensor.shape), numbers
        theirs = {} if self.beside is None else self.beside.contents
        source = next((n for n in (name, *theirs) if theirs.get(n) == content), name)
        if source in theirs and theirs[source] != content and not is_statistic(name):
            self.builder.notes.append(f"{name} holds other numbers in {self.builder.title}: it is an input of its own")
            source = f"{name} of {self.builder.title}"
        self.contents[source] = content
        return source

    def _tensors(self) -> list[tuple[str, Any]]:
        """The names of parameters and buffers, and what says whether two are one tensor."""
        return [(name.removeprefix(f"{OTHER}."), _identity(state)) for name, state in self.program.state_dict.items()]

    def _example(self, name: str) -> Any:
        order = [s.arg.name for s in self.program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
        arguments, options = self.program.example_inputs
        tree = import_module("torch.utils._pytree")
        return tree.tree_leaves((arguments, options))[order.index(name)]

    def _call(self, node: Any) -> None:
        name = operation_of(node)
        self.builder.line = _line(node)
        if name in _ASSERTIONS:
            return
        if name == "getitem":
            whole, at = node.args
            found = self.values[whole]
            self.values[node] = found[at] if isinstance(found, (tuple, list)) else found
            return
        if _is_scalar(node):
            self.values[node] = self._scalar(name, node)
            return
        try:
            call = self._bound(name, node)
            if call.dtype in WRAPPED and name in _ARITHMETIC:
                raise Unsupported(f"arithmetic of {call.dtype}, which wraps around: compute in int64")
        except Unsupported as error:  # nothing is known of what follows
            self.unknown.append(f"{_module_path(node)}{name}: {error.args[0]} [{_line(node) or node.name}]")
            raise self.refused() from error
        function = None if _random(node.target) else partial(_on_arrays, node.target, call)
        found = self.applied(RULES, "aten", call, _module_path(node), _line(node), function)
        for value, shape in zip(found if isinstance(found, tuple) else (found,), call.shapes, strict=False):
            if isinstance(value, ArrayValue):
                self.lengths.lengths.learn_shape(shape, value.dims)
        self.values[node] = found

    def _bound(self, name: str, node: Any) -> AtenCall:
        """A call with its arguments by name."""
        torch = import_module("torch")
        arguments: dict[str, Any] = {}
        named = _NAMES_IN_PRIMS if node.target.namespace == "prims" else {}
        for k, wanted in enumerate(node.target._schema.arguments):
            argument = named.get(wanted.name, wanted.name)
            if k < len(node.args) and not wanted.kwarg_only:
                arguments[argument] = self._given(node.args[k])
            elif wanted.name in node.kwargs:
                arguments[argument] = self._given(node.kwargs[wanted.name])
            elif wanted.has_default_value():
                arguments[argument] = wanted.default_value
        value = node.meta.get("val")
        results = [v for v in (value if isinstance(value, (tuple, list)) else [value]) if isinstance(v, torch.Tensor)]
        shapes = tuple(tuple(self.lengths.length(n) for n in v.shape) for v in results)
        dtype = str(results[0].dtype).removeprefix("torch.") if results else ""
        source = node.args[0].meta.get("val") if node.args and hasattr(node.args[0], "meta") else None
        cast = bool(results) and isinstance(source, torch.Tensor) and source.dtype != results[0].dtype
        element = _element(results[0].dtype) if results else "real"
        elements = tuple(_element(v.dtype) for v in results)
        return AtenCall(name, arguments, shapes, element, dtype, cast, self._siblings(name, node), elements)

    def _siblings(self, name: str, node: Any) -> tuple[tuple[Any, Any], ...]:
        if name != "slice":
            return ()
        found = []
        for user in node.args[0].users:
            slices = getattr(user.target, "_opname", "") == "slice" and user.args[4:] in ((), (1,))
            if slices and user.args[1:2] == node.args[1:2]:
                given = [self._given(a) for a in user.args[2:4]]
                found.append((given[0] if given else None, given[1] if len(given) > 1 else None))
        return tuple(found)

    def _given(self, argument: Any) -> Any:
        if hasattr(argument, "op") and hasattr(argument, "meta"):
            return self.values[argument]
        if isinstance(argument, (list, tuple)):
            return [self._given(a) for a in argument]
        if self.builder.read_least and isinstance(argument, float) and argument in _least_numbers():
            self.builder.notes.append(f"{argument:.3g} is read as minus infinity{self.builder.at}")
            return -math.inf
        return argument

    def _scalar(self, name: str, node: Any) -> SizeNumber:
        """A number made of sizes."""
        traced = node.meta.get("val")
        length = self.lengths.length(traced) if type(traced).__name__ == "SymInt" else None
        if name in ("sym_size", "size"):
            value, place = self.values[node.args[0]], node.args[1]
            dim = value.dims[place]
            return SizeNumber(length or self.builder.length(dim), lambda env: env.size(dim))
        given: list[Operand] = [self._given(a) for a in node.args]
        function = _SCALARS.get(name) or (_square_root if "sqrt" in name else None)
        if function is None:
            what = "a number of Python that depends on values: keep it a tensor" if name == "item" else "of a size"
            self.unknown.append(f"{name}: {what} [{_line(node) or node.name}]")
            return SizeNumber(length or 1, lambda env: 1)
        numbers = [g.value if isinstance(g, SizeNumber) else g for g in given]
        chosen = function

        def make(env: Environment) -> Any:
            return chosen(*(env[g] for g in given))

        return SizeNumber(length if length is not None else float(function(*numbers)), make)

    def _output(self, node: Any) -> None:
        torch = import_module("torch")
        specs = self.program.graph_signature.output_specs
        self.results = places_of_results(torch, self.program, specs)
        for argument, spec in zip(node.args[0], specs, strict=True):
            if spec.kind.name == "BUFFER_MUTATION":
                mode = "in training, call module.eval() first; else " * self.training
                self.unknown.append(f"the buffer {spec.target!r} is written: {mode}pass it in and return it")
            elif spec.kind.name.endswith("_MUTATION"):
                self.unknown.append(f"the input {spec.target!r} is written: return what is written")
            elif hasattr(argument, "meta") and isinstance(argument.meta.get("val"), torch.Tensor):
                if not isinstance(self.values[argument], ArrayValue):
                    self.unknown.append("a complex result: return torch.view_as_real of it")
                self.outputs.append(self.values[argument])


def _least_numbers() -> set[float]:
    """The least finite number of each floating-point type."""
    torch = import_module("torch")
    return {torch.finfo(kind).min for kind in (torch.float16, torch.bfloat16, torch.float32, torch.float64)}


_NAMES_IN_PRIMS = {"inp": "self", "dims": "dim"}
"""What reductions of `torch.ops.prims` call their arguments, and those of `torch.ops.aten`."""


def operation_of(node: Any) -> str:
    """The name of the operation that a node of a graph calls, without its overload: `add`, `scaled_dot_…`."""
    return operation_name(node.target)


def _identity(tensor: Any) -> tuple[Any, ...]:
    """Equal for two names of one tensor."""
    storage = tensor.untyped_storage()._cdata  # those on the device meta have no addresses of elements
    return storage, tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride())


def _element(dtype: Any) -> str:
    if dtype.is_complex:
        return "complex"
    return ELEMENTS.get(str(dtype).removeprefix("torch."), "real")


def _is_known(tensor: Any) -> bool:
    """Whether a tensor is one of real numbers that has them: on the device meta none has."""
    return not tensor.is_meta and not tensor.is_complex()


def _random(operation: Any) -> bool:
    """Whether an operation draws random numbers, so that two calls of it differ."""
    return import_module("torch").Tag.nondeterministic_seeded in getattr(operation, "tags", ())


def _on_arrays(operation: Any, call: AtenCall, *arrays: Any) -> Any:
    """The results of an operation on NumPy arrays, or on tensors, in place of those of a call."""
    torch = import_module("torch")
    tensors = any(isinstance(a, torch.Tensor) for a in arrays)
    given = iter(arrays if tensors else [torch.from_numpy(a) for a in arrays])
    positional, named = [], {}
    for wanted in operation._schema.arguments:
        if wanted.name in call.arguments:
            value = with_arrays(call.arguments[wanted.name], given)
            if wanted.kwarg_only:
                named[wanted.name] = value
            else:
                positional.append(value)
    with torch.no_grad():
        found = operation(*positional, **named)
    if tensors:
        return found
    return [v.numpy() for v in found] if isinstance(found, (tuple, list)) else found.numpy()


def _is_scalar(node: Any) -> bool:
    value = node.meta.get("val")
    return value is not None and type(value).__name__ in ("SymInt", "SymFloat", "int", "float", "SymBool", "bool")


def _square_root(value: Any) -> Any:
    return value**0.5 if isinstance(value, (int, float)) else elementwise.sqrt(value)


def _chosen(of_sizes: Callable[..., Any], of_numbers: Callable[..., Any], a: Any, b: Any) -> Any:
    """One function of numbers, another of sizes."""
    return of_numbers(a, b) if isinstance(a, (int, float)) and isinstance(b, (int, float)) else of_sizes(a, b)


def _line(node: Any) -> str | None:
    """The user's line that made a node: the last frame of its stack trace."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    outside = [(path, number) for path, number in frames if not path.startswith((PACKAGE, "<"))]
    theirs = [(path, number) for path, number in outside if "site-packages" not in path.split(os.sep)]
    return ":".join((theirs or outside)[-1]) if outside else None


def _module_path(node: Any) -> str:
    stack = node.meta.get("nn_module_stack") or {}
    path = [entry[0] for entry in stack.values()]
    return f"{path[-1]}: " if path and path[-1] else ""
