"""Reads an ONNX model, and gives the program that it is.

The model says no lengths for its symbolic dimensions: the example's are chosen, all different, where none are given.
Shapes that the model computes with are known before it runs (`catdiag.importers.onnx_values`).
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from itertools import count
from typing import Any

import numpy as np

from catdiag.importers import onnx_arrays, onnx_elementwise, onnx_images, onnx_layers, onnx_loops, onnx_writes
from catdiag.importers.dimensions import Extent
from catdiag.importers.example import Imported, NotImported, Original
from catdiag.importers.graph_reader import GraphReader, identifier
from catdiag.importers.imported_values import ArrayValue
from catdiag.importers.onnx_runs import OnnxRun
from catdiag.importers.onnx_values import KnownArray, OnnxOperand, as_array
from catdiag.importers.program_builder import ProgramBuilder
from catdiag.importers.torch_calls import AtenCall, Rule, Unsupported

RULES: Mapping[str, Rule] = {
    **onnx_elementwise.RULES, **onnx_arrays.RULES, **onnx_images.RULES, **onnx_layers.RULES, **onnx_loops.RULES,
    **onnx_writes.RULES,
}  # fmt: skip
"""The rule of each operator."""
_OLDEST = 13
_MOST_KNOWN = 65536
_RANDOM = (
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial", "Dropout",
)  # fmt: skip


def from_onnx(
    model: Any, example: Sequence[Any], sizes: Mapping[str, int], names: Mapping[str, str], allow_opaque: bool = False
) -> Imported:
    """The program of a model, or of the file of one. Raises NotImported, listing all that has no meaning here, and
    ImportError without ONNX."""
    onnx = _onnx()
    loaded = _loaded(onnx, model) if isinstance(model, (str, os.PathLike)) else getattr(model, "model_proto", model)
    if not isinstance(loaded, onnx.ModelProto):
        raise NotImported(f"cd.from_onnx takes a model or the path of one, not {type(model).__name__}")
    version = max((o.version for o in loaded.opset_import if o.domain in ("", "ai.onnx")), default=_OLDEST)
    if version < _OLDEST:
        raise NotImported(
            f"the model has opset {version}: expected {_OLDEST} or later, as onnx.version_converter gives"
        )
    builder = ProgramBuilder(identifier(loaded.graph.name or "model"))
    reader = _ModelReader(onnx, builder, allow_opaque=allow_opaque)
    reader.opsets = list(loaded.opset_import)
    reader.model = onnx.inliner.inline_local_functions(loaded)
    reader.read(example, sizes)
    return reader.built(reader.named(names))


def _checked(onnx: Any, model: Any) -> None:
    """Raises NotImported where ONNX itself says that a model of its own operators has no meaning: a node reads what no
    node makes, or has other attributes, or arrays of other shapes, than its operator takes."""
    if any(node.domain not in ("", "ai.onnx") for node in model.graph.node):
        return
    known = {s.name for s in onnx.defs.get_all_schemas()}
    if any(node.op_type not in known for node in model.graph.node):
        return
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for value in copy.graph.output:  # the checker wants a shape of each, which inference does without
        value.type.tensor_type.shape.SetInParent()
    try:
        onnx.checker.check_model(copy)
        onnx.shape_inference.infer_shapes(model, strict_mode=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise NotImported(f"ONNX's own checker refuses the model: {' '.join(str(error).split())}") from error


def _loaded(onnx: Any, path: str | os.PathLike[str]) -> Any:
    try:
        return onnx.load(path)
    except OSError as error:
        raise NotImported(f"{os.fspath(path)!r} cannot be read: {error.strerror}") from error
    except Exception as error:  # of protobuf, of several kinds
        raise NotImported(f"{os.fspath(path)!r} is no ONNX model: {error}") from error


def _onnx() -> Any:
    try:
        onnx = import_module("onnx")
        for part in ("inliner", "shape_inference", "numpy_helper", "helper", "checker", "defs"):
            import_module(f"onnx.{part}")
        return onnx
    except ImportError as error:
        raise ImportError("cd.from_onnx needs ONNX: pip install 'catdiag[onnx]'") from error


class _ModelReader(GraphReader):
    """One pass over a model."""

    def __init__(self, onnx: Any, builder: ProgramBuilder, allow_opaque: bool = False) -> None:
        super().__init__(builder, allow_opaque=allow_opaque)
        self.opsets: list[Any] = []
        self.model: Any = None
        self._given: list[str] = []
        # Initializers that are read as numbers, whatever they hold.
        self._numbers: set[str] = set()
        self.onnx = onnx
        self.values: dict[str, OnnxOperand] = {}
        self.types: dict[str, Any] = {}
        self._extents: dict[str, Extent] = {}

    def original(self) -> Original:
        """The model as ONNX's reference evaluator runs it."""
        names = [self._given[s] if isinstance(s, int) else s for s in self.sources]
        return OnnxRun(self.model, names, tuple(self.arrays))

    def read(self, example: Sequence[Any], sizes: Mapping[str, int]) -> None:
        """Goes through the model. Raises NotImported."""
        graph = self.model.graph
        initial = {t.name for t in graph.initializer}
        given = [v for v in graph.input if v.name not in initial]
        self._given = [v.name for v in given]
        if example and len(example) != len(given):
            raise NotImported(
                f"{len(example)} arrays were given: expected {len(given)} ({', '.join(v.name for v in given)})"
            )
        lengths = self._lengths(graph, given, example, sizes)
        for value, shape in zip(given, lengths, strict=True):
            for dim, n in zip(value.type.tensor_type.shape.dim, shape, strict=True):
                self._hints(value.name).append(dim.dim_param)
                dim.dim_value = n
        self._infer(self.model)
        for k, (value, shape) in enumerate(zip(given, lengths, strict=True)):
            self._input(k, value, shape, example[k] if example else None)
        live = _live(graph)
        self._lacking(live)
        _checked(self.onnx, self.model)
        read = _read(live) | {v.name for v in graph.output}
        self._numbers = {name for node in live if node.op_type == "Resize" for name in node.input[1:]}
        for tensor in graph.initializer:
            if tensor.name in read:
                self.values[tensor.name] = self._constant(tensor.name, self._numpy(tensor), tensor.name)
        self._run(live)
        if self.unknown:
            raise self.refused()
        self.outputs = [as_array(self.builder, self.values[v.name]) for v in graph.output]

    # -- inputs --------------------------------------------------------------------------------------

    def _lengths(
        self, graph: Any, given: Sequence[Any], example: Sequence[Any], sizes: Mapping[str, int]
    ) -> list[tuple[int, ...]]:
        """The lengths of the inputs: of the example's arrays, as the model says, or chosen."""
        fixed = {n for t in graph.initializer for n in t.dims}
        for value in given:
            if not value.type.HasField("tensor_type"):
                raise NotImported(f"the input {value.name!r} is no array")
            fixed |= {d.dim_value for d in value.type.tensor_type.shape.dim if d.HasField("dim_value")}
        free = (n for n in count(5) if all(n % k for k in range(2, n)) and all(m % n for m in fixed if m))
        symbols = {d.dim_param for v in given for d in v.type.tensor_type.shape.dim if d.dim_param}
        if other := [name for name in sizes if name not in symbols and not re.fullmatch(r".*_\d+", name)]:
            raise NotImported(f"sizes: no dimension is called {other[0]!r}: expected of {', '.join(sorted(symbols))}")
        if wrong := [name for name, n in sizes.items() if not isinstance(n, int) or n < 1]:
            raise NotImported(f"sizes: {wrong[0]!r} is {sizes[wrong[0]]!r}: expected a positive integer")
        chosen = dict(sizes)
        self._given_hints: dict[str, list[str]] = {}
        found = []
        for k, value in enumerate(given):
            shape: list[int] = []
            if example:
                self._typed(value, example[k])
                _fits(value, np.shape(example[k]), chosen)
            for place, dim in enumerate(value.type.tensor_type.shape.dim):
                name = dim.dim_param or f"{value.name}_{place}"
                if dim.HasField("dim_value"):
                    shape.append(dim.dim_value)
                elif example:
                    shape.append(int(np.shape(example[k])[place]))
                else:
                    if name not in chosen:
                        chosen[name] = next(free)
                    shape.append(chosen[name])
            found.append(tuple(shape))
        return found

    def _typed(self, value: Any, array: Any) -> None:
        """Raises NotImported unless an array of the example is of the kind of numbers that an input is of."""
        wanted = np.dtype(self.onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
        given = getattr(array, "dtype", None)
        if isinstance(array, Mapping) or given is None:
            raise NotImported(
                f"the input {value.name!r} is an array of {wanted.name}, the example a {type(array).__name__}: "
                "expected arrays of NumPy one after the other, in the order of the model's inputs"
            )
        if _element(np.dtype(str(given).rpartition(".")[2])) != _element(wanted):
            raise NotImported(f"the input {value.name!r} is an array of {wanted.name}, the example one of {given}")

    def _hints(self, name: str) -> list[str]:
        return self._given_hints.setdefault(name, [])

    def _infer(self, model: Any) -> None:
        """The types of all arrays, as far as ONNX can tell."""
        try:
            graph = self.onnx.shape_inference.infer_shapes(model, data_prop=True).graph
        except Exception:  # a model that the checker refuses may be read all the same
            graph = model.graph
        self._types_of(graph)

    def _types_of(self, graph: Any) -> None:
        for value in [*graph.value_info, *graph.input, *graph.output]:
            self.types[value.name] = value.type.tensor_type
        for tensor in graph.initializer:
            self.types.setdefault(tensor.name, None)
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    self._types_of(attribute.g)

    def _input(self, place: int, value: Any, shape: tuple[int, ...], array: Any) -> None:
        kind = self.onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        element = _element(np.dtype(kind))
        if element == "complex":
            self.unknown.append(f"the input {value.name!r} is complex, or of text")
        if array is None:
            array = _arbitrary(np.dtype(kind), shape, place)
        hints = [h if h.isidentifier() else "" for h in self._hints(value.name)]
        made = self.argument(place, value.name, shape, element, array, hints)
        for dim, name in zip(made.dims, self._hints(value.name), strict=True):
            for factor in dim if name else ():
                self.builder.factors.equate(self._extents.setdefault(name, factor.extent), factor.extent)
        self.values[value.name] = made

    def _constant(self, name: str, array: Any, target: str) -> OnnxOperand:
        """A constant: one number, integers that may be lengths, or an input of the program."""
        element = _element(array.dtype)

        def argument() -> ArrayValue:
            return self.argument(name, target, array.shape, element, array)

        weight = element == "real" and array.size != 1 and target == name and name not in self._numbers
        if array.size > _MOST_KNOWN or weight:
            return argument()
        if target == name and element == "real" and array.ndim and array.size == 1:
            self.builder.notes.append(f"the initializer {name!r} is read as the number {array.item()!r}")
        elements = np.empty(array.shape, dtype=object)
        elements.reshape(-1)[:] = [_number(n) if element == "real" else n.item() for n in array.reshape(-1)]
        return KnownArray(elements, argument)

    # -- nodes ---------------------------------------------------------------------------------------

    def _numpy(self, tensor: Any) -> Any:
        return self.onnx.numpy_helper.to_array(tensor)

    def _lacking(self, nodes: Iterable[Any]) -> None:
        """Raises NotImported, where operators have no rule, for all of them."""
        if self.allow_opaque:
            return
        for node in nodes:
            if node.op_type not in ("Constant", "If", "Loop", "Scan") and (
                node.op_type not in RULES or node.domain not in ("", "ai.onnx")
            ):
                name = f"{node.domain}.{node.op_type}" if node.domain else f"onnx.{node.op_type}"
                self.unknown.append(f"{name} has no rule [{_where(node)}]")
        if self.unknown:
            raise self.refused()

    def _run(self, nodes: Iterable[Any]) -> None:
        for node in nodes:
            attributes = {a.name: self._attribute(a) for a in node.attribute}
            if node.op_type == "Constant":
                ((kind, value),) = attributes.items()
                array = np.asarray(value, dtype=np.float32 if kind.startswith("value_float") else None)
                self.values[node.output[0]] = self._constant(node.output[0], array, "constant")
            elif node.op_type == "If":
                self._branch(node, attributes)
            elif node.op_type in ("Loop", "Scan"):
                self._unrolled(node, attributes)
            else:
                self._call(node, attributes)

    def _branch(self, node: Any, attributes: Mapping[str, Any]) -> None:
        condition = self.values[node.input[0]]
        if not isinstance(condition, KnownArray):
            self.unknown.append(f"onnx.If on a value that is computed [{_where(node)}]")
            raise self.refused()
        found = self._body(attributes["then_branch" if condition.numbers()[0] else "else_branch"], [])
        self.values.update(zip(node.output, found, strict=True))

    def _body(self, graph: Any, given: Sequence[OnnxOperand]) -> list[OnnxOperand]:
        """What a graph inside of a node gives for its inputs."""
        for tensor in graph.initializer:
            self.values[tensor.name] = self._constant(tensor.name, self._numpy(tensor), tensor.name)
        self.values.update((v.name, value) for v, value in zip(graph.input, given, strict=True))
        live = _live(graph)
        self._lacking(live)
        self._run(live)
        return [self.values[v.name] for v in graph.output]

    def _unrolled(self, node: Any, attributes: Mapping[str, Any]) -> None:
        """A loop, one iteration after the other: their number is known, or is a length, which is fixed then."""
        given = [self.values[name] if name else None for name in node.input]
        try:
            found = (onnx_loops.loop if node.op_type == "Loop" else onnx_loops.scan)(
                self.builder, attributes, given, self._body
            )
        except Unsupported as error:
            self.unknown.append(f"{error} [{_where(node)}]")
            raise self.refused() from None
        self.values.update((name, value) for name, value in zip(node.output, found) if name)

    def _attribute(self, attribute: Any) -> Any:
        value = self.onnx.helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            return value.decode()
        if isinstance(value, self.onnx.TensorProto):
            return self._numpy(value)
        if isinstance(value, float):
            return _number(np.float32(value))
        return list(value) if isinstance(value, (list, tuple)) or type(value).__name__.startswith("Repeated") else value

    def _call(self, node: Any, attributes: dict[str, Any]) -> None:
        given = [self.values[name] if name else None for name in node.input]
        outputs = list(node.output)
        while outputs and not outputs[-1]:
            outputs.pop()
        shapes = tuple(self._inferred(name) for name in outputs)
        source = self.types.get(node.input[0]) if node.input else None
        to = attributes.get("to")
        cast = to is not None and source is not None and source.elem_type != to
        arguments = {**attributes, "operands": given}
        kinds = tuple(map(self._kind, outputs))
        known = tuple(s or () for s in shapes)
        first = self.types.get(outputs[0]) if outputs else None
        kind = first.elem_type if first is not None else 0
        dtype = str(self.onnx.helper.tensor_dtype_to_np_dtype(kind)) if kind else ""
        call = AtenCall(node.op_type, arguments, known, "real", dtype, cast, elements=kinds)
        before = len(self.unknown)
        function = None if None in shapes or node.op_type in _RANDOM else partial(self._evaluated, node, given)
        found = self.applied(RULES, "onnx", call, "", _where(node), function)
        if len(self.unknown) > before and None in shapes:  # nothing is known of what follows
            raise self.refused()
        self.values.update(zip(outputs, found if isinstance(found, tuple) else (found,)))

    def _evaluated(self, node: Any, given: Sequence[OnnxOperand], *arrays: Any) -> Any:
        """The results of a node on NumPy arrays, by ONNX's reference evaluator."""
        helper, rest = self.onnx.helper, iter(arrays)
        feeds = {
            name: next(rest) if isinstance(value, ArrayValue) else np.array(value.elements.tolist())
            for name, value in zip(node.input, given, strict=True)
            if value is not None
        }
        empty = helper.make_empty_tensor_value_info
        graph = helper.make_graph([node], "node", [empty(n) for n in feeds], [empty(n) for n in node.output if n])
        model = helper.make_model(graph, opset_imports=self.opsets)
        return import_module("onnx.reference").ReferenceEvaluator(model).run(None, feeds)

    def _kind(self, name: str) -> str:
        found = self.types.get(name)
        return (
            _element(np.dtype(self.onnx.helper.tensor_dtype_to_np_dtype(found.elem_type)))
            if found and found.elem_type
            else "real"
        )

    def _inferred(self, name: str) -> tuple[int, ...] | None:
        kind = self.types.get(name)
        if kind is None or not kind.HasField("shape") or not all(d.HasField("dim_value") for d in kind.shape.dim):
            return None
        return tuple(d.dim_value for d in kind.shape.dim)


def _fits(value: Any, shape: tuple[int, ...], chosen: dict[str, int]) -> None:
    """Raises NotImported unless an array has the shape of an input; adds the lengths of symbolic dimensions."""
    dims = value.type.tensor_type.shape.dim
    wanted = [d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in dims]
    said = f"the input {value.name!r} has shape [{', '.join(map(str, wanted))}], the example {list(shape)}"
    if len(shape) != len(wanted):
        raise NotImported(said)
    for length, name in zip(shape, wanted, strict=True):
        known = name if isinstance(name, int) else chosen.setdefault(name, length) if name != "?" else length
        if known != length:
            raise NotImported(f"{said}: expected {known}" + f" for {name}" * isinstance(name, str))


def _live(graph: Any) -> list[Any]:
    """The nodes of which some result is needed, in order."""
    needed, found = {v.name for v in graph.output}, []
    for node in reversed(graph.node):
        if needed & set(node.output):
            needed |= _read([node])
            found.append(node)
    return found[::-1]


def _read(nodes: Iterable[Any]) -> set[str]:
    """The arrays that nodes read, and the nodes of the graphs inside of them."""
    found: set[str] = set()
    for node in nodes:
        found |= set(node.input)
        for attribute in node.attribute:
            found |= _read(attribute.g.node) | {v.name for v in attribute.g.output}
    return found


def _element(dtype: Any) -> str:
    if dtype.kind == "V" or dtype.name.startswith(("bfloat", "float")):
        return "real"
    return {"f": "real", "i": "int", "u": "int", "b": "bool"}.get(dtype.kind, "complex")


def _number(value: Any) -> float:
    """A number as it was meant: one of 32 bits as a root of an integer that it is the nearest one to, or as the
    shortest decimal."""
    if value.dtype != np.float32 or not np.isfinite(value):
        return float(value)
    short = float(str(value))
    if np.float32(round(short, 5)) == value:
        return short
    for power in (2, -2, 4, -4):
        n = round(abs(float(value)) ** power)
        if 1 < n <= _MOST_KNOWN and np.float32(n ** (1 / power)) == abs(value):
            return math.copysign(n ** (1 / power), float(value))
    return short


def _arbitrary(dtype: Any, shape: tuple[int, ...], seed: int) -> Any:
    """An array for the example: of random numbers, zeros for integers, which may be indices, and truth values."""
    if dtype.kind in "iu":
        return np.zeros(shape, dtype)
    if dtype.kind == "b":
        return np.ones(shape, dtype)
    return np.random.default_rng(seed).normal(size=shape).astype(np.float64 if dtype.kind == "V" else dtype)


def _where(node: Any) -> str:
    """Where a node is from: the module and the line that the exporter noted, or its name."""
    noted = {p.key.rpartition(".")[2]: p.value for p in node.metadata_props}
    lines = [line.strip() for line in noted.get("stack_trace", "").splitlines() if line.strip().startswith("File ")]
    return lines[-1] if lines else node.name or ", ".join(node.output)
